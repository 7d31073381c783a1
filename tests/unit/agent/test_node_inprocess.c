/* Agents with workers that use libmuster: this program is the worker too. */
#include "net/client.h"
#include "net/hub.h"
#include "run/run.h"
#include "unit/agent/node_kit.h"
#include "wire/ask.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the workers ---- */

static mu_run *join(void)
{
    mu_run *run;

    if (mu_join(NULL, &run) != MU_OK || mu_wait(run, 0, MU_FOREVER) != MU_OK) {
        worker_say("errors", "%s\n", mu_error());
        exit(9);
    }
    worker_say("pids", "%s %d\n", getenv("MUSTER_NODE"), (int)getpid());
    return run;
}

static int leave(mu_run *run)
{
    return mu_leave(run) == MU_OK ? 0 : 9;
}

static int exchange(const char *tag, mu_run *run)
{
    const char *node = getenv("MUSTER_NODE");
    char name[64];
    mu_values v;

    snprintf(name, sizeof(name), "%s.%s", tag, node);
    if (mu_sync(run, tag, node, strlen(node), MU_FOREVER, &v) != MU_OK) {
        worker_say("errors", "%s\n", mu_error());
        return 9;
    }
    for (size_t i = 0; i < v.n; i++) {
        worker_say(name, "%.*s%s", (int)v.items[i].data_n, (const char *)v.items[i].data,
                   i + 1 == v.n ? "\n" : " ");
    }
    mu_values_free(&v);
    return 0;
}

static int be_pair(void)
{
    mu_run *run = join();
    int rc = exchange("values", run);

    worker_until("go");
    return rc + leave(run);
}

/* Waits for a bigger world, in the same process. */
static int be_grower(void)
{
    mu_run *run = join();
    mu_world_info world = {0};

    do {
        uint64_t held = world.generation;

        mu_world_free(&world);
        if (mu_wait(run, held, MU_FOREVER) != MU_OK || mu_world(run, &world) != MU_OK) {
            worker_say("errors", "%s\n", mu_error());
            return 9;
        }
        worker_say("worlds", "%s %d/%d\n", getenv("MUSTER_NODE"), world.rank, world.size);
    } while (world.size < 2);
    mu_world_free(&world);
    worker_until("go");
    return leave(run);
}

static int be_orphan(void)
{
    mu_run *run = join();
    int rc;

    worker_until("away");
    rc = mu_barrier(run, "alone", 700);
    worker_say("first", "%d %s\n", rc, mu_error());
    rc = mu_barrier(run, "later", MU_FOREVER); /* Begun while nobody hears it. */
    worker_say("second", "%d\n", rc);
    return leave(run);
}

static void on_term(int number)
{
    worker_say("signals", "%d\n", number);
    _exit(0);
}

/* Waits for what never comes; `all`: for the others of a world of several, too. */
static int be_waiter(bool all)
{
    mu_run *run;
    bool done;

    signal(SIGTERM, on_term);
    run = join();
    done = !all || mu_barrier(run, getenv("MUSTER_NODE"), MU_FOREVER) == MU_EDONE;
    done = mu_wait(run, UINT64_MAX - 1, MU_FOREVER) == MU_EDONE && done;
    worker_say("ended", "%d\n", done);
    return leave(run);
}

/* Its last words are more than is read at once, and it does not wait for anybody to hear them. */
static int be_hasty(void)
{
    mu_run *run = join();
    struct msg_beat beat = {run->life.worker};
    size_t sent_n = 0;
    int room = 1 << 20;

    setsockopt(run->line.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    worker_until("go");
    pthread_mutex_lock(&run->lock);
    while (run->line.out_n < 2 * HUB_RAW_BYTES) {
        control_say(run, WIRE_BEAT, &beat);
    }
    told_last(run);
    while (sent_n < run->line.out_n) {
        ssize_t n =
            send(run->line.fd, run->line.out + sent_n, run->line.out_n - sent_n, MSG_NOSIGNAL);

        if (n <= 0) {
            worker_say("errors", "sent %zu of %zu bytes\n", sent_n, run->line.out_n);
            _exit(9);
        }
        sent_n += (size_t)n;
    }
    _exit(0);
}

static int worker_main(char *what)
{
    if (strcmp(what, "pair") == 0) {
        return be_pair();
    }
    if (strcmp(what, "grower") == 0) {
        return be_grower();
    }
    if (strcmp(what, "orphan") == 0) {
        return be_orphan();
    }
    if (strcmp(what, "hasty") == 0) {
        return be_hasty();
    }
    return be_waiter(strcmp(what, "waiter") == 0);
}

/* ---- the tests ---- */

/* Refused as long as another change is on its way to the disk. */
static void admin(struct kit *k, enum ask_kind verb)
{
    struct msg_ask m = {.kind = (uint16_t)verb, .job = "test"};
    struct node_config at = kit_config(k, "x", NULL);
    char error[NET_ERROR_MAX];
    const union wire_any *msg;
    struct wire_header h;
    struct client *c;
    int status;

    assert_int_equal(client_open(&at.endpoints, &k->token, 10000, &c, error), MU_OK);
    do {
        assert_int_equal(client_say(c, WIRE_ASK, &m, 0, error), MU_OK);
        assert_int_equal(client_next(c, 10000, &h, &msg, error), MU_OK);
        assert_int_equal(h.type, WIRE_SAYS);
        status = msg->says.status;
    } while (status == MU_EAGAIN);
    assert_int_equal(status, MU_OK);
    client_close(c);
}

static void ends_well(struct kit *k, pid_t pid)
{
    int code = kit_wait(k, pid);

    if (code != 0) {
        fail_msg("exit code %d: %s", code, kit_read(k, "a.err"));
    }
    assert_string_equal(kit_read(k, "errors"), "");
}

static void workers_of_two_nodes_exchange_values(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t a, b;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("pair"));
    config.min = config.max = 2;
    config.mode = MODE_AUTO;
    a = kit_run(k, &config);
    config.name = "b";
    b = kit_run(k, &config);
    kit_await_lines(k, "values.a", 1);
    kit_await_lines(k, "values.b", 1);
    kit_touch(k, "go");
    ends_well(k, a);
    ends_well(k, b);
    assert_true(strcmp(kit_read(k, "values.a"), "a b\n") == 0 ||
                strcmp(kit_read(k, "values.a"), "b a\n") == 0);
    assert_int_equal(kit_lines(k, "pids"), 2); /* Nobody was started twice. */
}

static void a_newcomer_restarts_nobody(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t a, b;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("grower"));
    config.max = 2;
    config.mode = MODE_AUTO;
    a = kit_run(k, &config);
    kit_await_text(k, "worlds", "a 0/1");
    config.name = "b";
    b = kit_run(k, &config);
    kit_await_text(k, "worlds", "a 0/2");
    kit_await_text(k, "worlds", "b 1/2");
    kit_touch(k, "go");
    ends_well(k, a);
    ends_well(k, b);
    assert_int_equal(kit_lines(k, "pids"), 2);
}

static void a_value_outlives_its_orchestrator(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    char expected[32];
    pid_t a;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("orphan"));
    config.mode = MODE_INPROCESS;
    a = kit_run(k, &config);
    kit_await_lines(k, "pids", 1);
    kit_serve_kill(k);
    kit_await_text(k, "a.err", "went away");
    kit_touch(k, "away");
    kit_await_lines(k, "first", 1);
    snprintf(expected, sizeof(expected), "%d ", MU_ETIMEDOUT);
    assert_int_equal(strncmp(kit_read(k, "first"), expected, strlen(expected)), 0);
    assert_non_null(strstr(kit_read(k, "first"), "is away"));
    kit_serve(k);
    kit_await_text(k, "second", "0\n");
    ends_well(k, a);
}

static void the_end_is_told_and_a_worker_may_go_by_itself(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t a, b;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("waiter"));
    config.mode = MODE_INPROCESS;
    config.min = config.max = 2;
    a = kit_run(k, &config);
    config.name = "b";
    b = kit_run(k, &config);
    kit_await_lines(k, "pids", 2);
    admin(k, ASK_SHUTDOWN);
    kit_wait(k, a);
    kit_wait(k, b);
    assert_string_equal(kit_read(k, "ended"), "1\n1\n");
    assert_string_equal(kit_read(k, "signals"), "");
}

static void the_last_words_of_a_process_count_although_its_end_is_known(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    int status, pid;
    pid_t a;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("hasty"));
    config.mode = MODE_INPROCESS;
    a = kit_run(k, &config);
    kit_await_lines(k, "pids", 1);
    kit_await_text(k, "serve.err", "is active");
    assert_int_equal(sscanf(kit_read(k, "pids"), "a %d", &pid), 1);
    kill(a, SIGSTOP); /* It finds both the words and the end when it looks again. */
    assert_int_equal(waitpid(a, &status, WUNTRACED), a);
    kit_touch(k, "go");
    kit_await_gone(pid);
    kill(a, SIGCONT);
    ends_well(k, a);
    kit_await_text(k, "serve.err", "a worker has finished");
}

/* The last one that holds the state stays as long as it may. */
static void a_drain_ends_after_the_grace(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t a;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("loner"));
    config.mode = MODE_INPROCESS;
    config.grace_ms = 300;
    a = kit_run(k, &config);
    kit_await_lines(k, "pids", 1);
    kill(a, SIGTERM);
    ends_well(k, a);
    assert_string_equal(kit_read(k, "signals"), "15\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(workers_of_two_nodes_exchange_values),
        TEST(a_newcomer_restarts_nobody),
        TEST(a_value_outlives_its_orchestrator),
        TEST(the_end_is_told_and_a_worker_may_go_by_itself),
        TEST(the_last_words_of_a_process_count_although_its_end_is_known),
        TEST(a_drain_ends_after_the_grace),
    };

    kit_main(argc, argv, worker_main);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
