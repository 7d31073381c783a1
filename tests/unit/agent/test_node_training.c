/* What an agent does for workers that train: leases, numbers, leaving, hanging. This program is
 * the worker too. */
#include "net/client.h"
#include "train/train.h"
#include "unit/agent/node_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BY_ITSELF_MS 2100 /* longer than a worker gets that has nothing to save */
#define STEPS 500

/* ---- the workers ---- */

static void on_term(int number)
{
    worker_say("signals", "%d\n", number);
    _exit(0);
}

static mu_run *join(void)
{
    mu_run *run;

    signal(SIGTERM, on_term);
    if (mu_join(NULL, &run) != MU_OK || mu_wait(run, 0, MU_FOREVER) != MU_OK) {
        worker_say("errors", "%s\n", mu_error());
        exit(9);
    }
    worker_say("pids", "%s %d\n", getenv("MUSTER_NODE"), (int)getpid());
    return run;
}

/* Waits for the end, or to be let go: then it has something to save. */
static int be_leaver(void)
{
    mu_run *run = join();
    bool left;

    mu_wait(run, UINT64_MAX - 1, MU_FOREVER);
    pthread_mutex_lock(&run->lock);
    left = run->end.left;
    worker_say("ended", "%s left=%d failed=%d\n", getenv("MUSTER_NODE"), left, run->end.failed);
    pthread_mutex_unlock(&run->lock);
    if (left) {
        usleep(BY_ITSELF_MS * 1000);
        worker_say("saved", "%s\n", getenv("MUSTER_NODE"));
    }
    return mu_leave(run) == MU_OK ? 0 : 9;
}

static uint64_t lease_of(mu_run *run)
{
    uint64_t lease_ms;

    pthread_mutex_lock(&run->lock);
    lease_ms = run->lease_ms;
    pthread_mutex_unlock(&run->lock);
    return lease_ms;
}

static uint64_t lease_after(mu_run *run, uint64_t before_ms)
{
    while (lease_of(run) <= before_ms) {
        usleep(1000);
    }
    return lease_of(run);
}

static int be_tenant(void)
{
    mu_run *run = join();
    struct timespec boot;
    uint64_t first_ms = lease_after(run, 0), later_ms;

    clock_gettime(CLOCK_BOOTTIME, &boot);
    worker_say("leases", "%d\n", first_ms <= (uint64_t)boot.tv_sec * 1000 + 1000);
    later_ms = lease_after(run, first_ms);
    worker_say("leases", "later\n");
    worker_until("away");
    later_ms = lease_of(run);
    usleep(500000); /* two renewals */
    worker_say("leases", "%s\n", lease_of(run) == later_ms ? "the same" : "another");
    worker_until("back");
    lease_after(run, later_ms);
    worker_say("leases", "again\n");
    return mu_leave(run) == MU_OK ? 0 : 9;
}

static int be_counter(void)
{
    mu_run *run = join();
    struct metric loss = {.name = "loss"};
    struct body_metrics m = {.metrics_n = 1, .metrics = &loss};
    struct msg_ask ask = {.kind = ASK_METRICS};
    wid self;

    worker_until("go");
    for (uint64_t step = 1; step <= STEPS; step++) {
        double value = (double)step / 2;

        pthread_mutex_lock(&run->lock);
        memcpy(&loss.bits, &value, sizeof(value));
        self = run->life.worker;
        m.step = step;
        ask_send(run, &ask, &m);
        run->life.worker++; /* Another's numbers are not its to say. */
        m.step = step + STEPS;
        ask_send(run, &ask, &m);
        run->life.worker = self;
        pthread_mutex_unlock(&run->lock);
    }
    return mu_leave(run) == MU_OK ? 0 : 9;
}

static uint64_t newest_of(mu_run *run)
{
    uint64_t number;

    pthread_mutex_lock(&run->lock);
    number = run_newest(run);
    pthread_mutex_unlock(&run->lock);
    return number;
}

/* As if it trained: from now on only mu_next() could notice that it was left out. */
static void train(mu_run *run, struct report how)
{
    pthread_mutex_lock(&run->lock);
    run->crew = &train_get(run)->crew;
    run->now.fault = how.fault;
    run->now.odd = how.odd;
    run->now.agreed = how.agreed;
    run->now.apart_in = how.apart_in;
    run->now.apart_n = how.apart_n;
    memcpy(run->now.apart, how.apart, sizeof(how.apart));
    run->now.entered = run->entered;
    told_again(run);
    pthread_mutex_unlock(&run->lock);
}

static void hang(mu_run *run)
{
    train(run, (struct report){0});
    worker_say("hung", "%s %llu\n", getenv("MUSTER_NODE"), (unsigned long long)run->life.worker);
    for (;;) {
        pause();
    }
}

/* … and goes on in whatever generation comes. */
static void suspect(mu_run *run, wid peer)
{
    uint64_t in = newest_of(run);

    train(run, (struct report){
                   .apart_in = in, .apart_n = 1, .apart = {{.peer = peer, .idle_ms = 1250}}});
    while (mu_wait(run, in, MU_FOREVER) == MU_OK) {
        in = newest_of(run);
        train(run, (struct report){0});
    }
}

/* The first of node b hangs; that of node a suspects it. */
static int be_hanger(void)
{
    mu_run *run = join();
    unsigned long long peer;
    FILE *f;

    if (strcmp(getenv("MUSTER_NODE"), "b") == 0) {
        if (access("hung", F_OK) != 0) {
            worker_until("start");
            hang(run);
        }
    } else {
        worker_until("hung");
        worker_until("suspect");
        f = fopen("hung", "r");
        if (f == NULL || fscanf(f, "b %llu", &peer) != 1) {
            return 9;
        }
        fclose(f);
        suspect(run, peer);
    }
    mu_wait(run, UINT64_MAX - 1, MU_FOREVER);
    return 0;
}

static int worker_main(char *what)
{
    if (strcmp(what, "leaver") == 0) {
        return be_leaver();
    }
    if (strcmp(what, "tenant") == 0) {
        return be_tenant();
    }
    return strcmp(what, "counter") == 0 ? be_counter() : be_hanger();
}

/* ---- the tests ---- */

static const struct msg_says *ask(struct client *c, const struct msg_ask *m)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];

    assert_int_equal(client_say(c, WIRE_ASK, m, 0, error), MU_OK);
    do {
        assert_int_equal(client_next(c, 10000, &h, &msg, error), MU_OK);
    } while (h.type != WIRE_SAYS);
    return &msg->says;
}

static struct client *connect_to(struct kit *k)
{
    struct node_config at = kit_config(k, "x", NULL);
    char error[NET_ERROR_MAX];
    struct client *c;

    assert_int_equal(client_open(&at.endpoints, &k->token, 10000, &c, error), MU_OK);
    return c;
}

static void shut_down(struct kit *k)
{
    const struct msg_ask m = {.kind = ASK_SHUTDOWN, .job = "test"};
    struct client *c = connect_to(k);

    while (ask(c, &m)->status == MU_EAGAIN) {
        usleep(1000);
    }
    client_close(c);
}

static bool status_has(struct kit *k, const char *text)
{
    const struct msg_ask m = {.kind = ASK_STATUS, .job = "test"};
    struct client *c = connect_to(k);
    const struct msg_says *a = ask(c, &m);
    bool has = a->status == MU_OK && memmem(a->body, a->body_n, text, strlen(text)) != NULL;

    client_close(c);
    return has;
}

static void ends_well(struct kit *k, pid_t pid)
{
    int code = kit_wait(k, pid);

    if (code != 0) {
        fail_msg("exit code %d: %s", code, kit_read(k, "b.err"));
    }
    assert_string_equal(kit_read(k, "errors"), "");
}

static void start_pair(struct kit *k, const char *what, uint32_t min, pid_t *a_out, pid_t *b_out)
{
    struct node_config config = kit_config(k, "a", kit_worker(what));

    config.mode = MODE_INPROCESS;
    config.min = min;
    config.max = 2;
    config.grace_ms = 20000;
    config.step_timeout_ms = 100;
    *a_out = kit_run(k, &config);
    kit_await_text(k, "pids", "a ");
    config.name = "b";
    *b_out = kit_run(k, &config);
    kit_await_text(k, "pids", "b ");
}

static void who_leaves_may_save_something_and_is_no_loss(void **state)
{
    struct kit *k = *state;
    pid_t a, b;

    kit_serve(k);
    start_pair(k, "leaver", 1, &a, &b);
    kill(b, SIGTERM);
    kit_await_text(k, "ended", "b left=1 failed=0\n");
    ends_well(k, b);
    assert_string_equal(kit_read(k, "saved"), "b\n");
    assert_string_equal(kit_read(k, "signals"), "");
    assert_non_null(strstr(kit_read(k, "b.err"), "this node has left job 'test'; exit code 0"));
    assert_null(strstr(kit_read(k, "serve.err"), "lost"));
    shut_down(k);
    ends_well(k, a);
    assert_non_null(strstr(kit_read(k, "ended"), "a left=0 failed=0\n"));
}

static void workers_hear_of_each_lease_and_of_none_while_nobody_gives_one(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t a;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("tenant"));
    config.mode = MODE_INPROCESS;
    a = kit_run(k, &config);
    kit_await_lines(k, "leases", 2);
    kit_serve_kill(k);
    kit_await_text(k, "a.err", "went away");
    kit_touch(k, "away");
    kit_await_lines(k, "leases", 3);
    kit_serve(k);
    kit_touch(k, "back");
    kit_await_lines(k, "leases", 4);
    ends_well(k, a);
    assert_string_equal(kit_read(k, "leases"), "1\nlater\nthe same\nagain\n");
}

static void the_last_numbers_of_a_worker_get_through(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t a;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("counter"));
    config.mode = MODE_INPROCESS;
    a = kit_run(k, &config);
    kit_await_text(k, "serve.err", "is active");
    kit_touch(k, "go");
    ends_well(k, a);
    assert_true(status_has(k, "\"metrics\":{\"step\":500,\"loss\":250.0}"));
}

static void one_that_hangs_is_named_left_out_and_replaced(void **state)
{
    struct kit *k = *state;
    pid_t a, b;

    k->lease_ms = 2000; /* so long it may take to notice by itself */
    kit_serve(k);
    start_pair(k, "hanger", 1, &a, &b);
    kit_await_text(k, "serve.err", "generation 2 is active");
    kit_touch(k, "start");
    kit_await_lines(k, "hung", 1);
    kit_touch(k, "suspect");
    kit_await_text(k, "serve.err", "of node 'b' did nothing for 1.2 s and is left out");
    kit_await_text(k, "b.err", "it hangs. Another takes its place");
    kit_await_text(k, "serve.err", "it hung, and its agent ended it; another takes its place");
    kit_await_lines(k, "pids", 3); /* the new one, in a generation */
    shut_down(k);
    ends_well(k, a);
    ends_well(k, b);
    assert_string_equal(kit_read(k, "signals"), "15\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(who_leaves_may_save_something_and_is_no_loss),
        TEST(workers_hear_of_each_lease_and_of_none_while_nobody_gives_one),
        TEST(the_last_numbers_of_a_worker_get_through),
        TEST(one_that_hangs_is_named_left_out_and_replaced),
    };

    kit_main(argc, argv, worker_main);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
