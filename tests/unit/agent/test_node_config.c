/* What workers ask of settings, through a real agent and a fake orchestrator, which the test is
 * itself: it answers, is silent, and is lost at will. This program is the worker too. */
#include "lib/asks.h"
#include "net/listen.h"
#include "unit/agent/node_kit.h"
#include "unit/await.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

/* ---- the worker: does what its argument says, a line in `results` for each ---- */

static void say_failed(int rc)
{
    worker_say("results", "%d %s\n", rc, mu_error());
}

static void do_get(mu_run *run, const char *key, long wait_ms)
{
    mu_setting s;
    int rc = mu_config_get(run, key, wait_ms, &s);

    if (rc != MU_OK) {
        say_failed(rc);
        return;
    }
    worker_say("results", "%s=%s@%llu\n", s.key, (const char *)s.value,
               (unsigned long long)s.version);
    mu_setting_free(&s);
}

static void say_list(int rc, mu_settings *list)
{
    char text[256] = "";

    if (rc != MU_OK) {
        say_failed(rc);
        return;
    }
    for (size_t i = 0; i < list->n; i++) {
        size_t n = strlen(text);

        snprintf(text + n, sizeof(text) - n, " %s@%llu", list->items[i].key,
                 (unsigned long long)list->items[i].version);
    }
    worker_say("results", "list%s to %llu\n", text, (unsigned long long)list->version);
    mu_settings_free(list);
}

struct many {
    pthread_t thread;
    mu_run *run;
    int status;
};

static void *many_main(void *arg)
{
    struct many *m = arg;
    mu_setting s;

    m->status = mu_config_get(m->run, "k", 60000, &s);
    if (m->status == MU_OK) {
        mu_setting_free(&s);
    } else {
        worker_say("results", "over\n");
    }
    return NULL;
}

static void do_many(mu_run *run, long n)
{
    struct many all[128];
    int ok_n = 0, limit_n = 0;

    for (long i = 0; i < n; i++) {
        all[i].run = run;
        pthread_create(&all[i].thread, NULL, many_main, &all[i]);
    }
    for (long i = 0; i < n; i++) {
        pthread_join(all[i].thread, NULL);
        ok_n += all[i].status == MU_OK;
        limit_n += all[i].status == MU_ELIMIT;
    }
    worker_say("results", "many %d ok %d over the limit\n", ok_n, limit_n);
}

struct watcher {
    pthread_t thread;
    mu_run *run;
    const char *key;
    uint64_t after;
    int status;
    mu_settings list;
};

static void *watcher_main(void *arg)
{
    struct watcher *w = arg;

    w->status = mu_config_watch(w->run, w->key, w->after, MU_FOREVER, &w->list);
    return NULL;
}

/* The second begins when the first is known to wait: a later version comes first. */
static void do_two(mu_run *run, struct watcher two[2])
{
    for (int i = 0; i < 2; i++) {
        two[i].run = run;
        pthread_create(&two[i].thread, NULL, watcher_main, &two[i]);
        usleep(i == 0 ? 100000 : 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(two[i].thread, NULL);
        worker_say("results", "%s: ", two[i].key);
        for (size_t k = 0; two[i].status == MU_OK && k < two[i].list.n; k++) {
            worker_say("results", "%s@%llu ", two[i].list.items[k].key,
                       (unsigned long long)two[i].list.items[k].version);
        }
        worker_say("results", "to %llu\n", (unsigned long long)two[i].list.version);
        if (two[i].status == MU_OK) {
            mu_settings_free(&two[i].list);
        }
    }
}

static void obey(mu_run *run, const char *order)
{
    char a[64], b[64];
    uint64_t version;
    mu_settings list;
    long x, y;
    int rc;

    if (sscanf(order, "get %63s %ld", a, &x) == 2) {
        do_get(run, a, x);
    } else if (sscanf(order, "put %63s %63s %ld", a, b, &x) == 3) {
        rc = mu_config_put(run, a, b, strlen(b), MU_ANY, x, &version);
        if (rc == MU_OK) {
            worker_say("results", "put %s@%llu\n", a, (unsigned long long)version);
        } else {
            say_failed(rc);
        }
    } else if (sscanf(order, "list %ld", &x) == 1) {
        say_list(mu_config_list(run, "", x, &list), &list);
    } else if (sscanf(order, "watch %63s %ld %ld", a, &x, &y) == 3) {
        say_list(mu_config_watch(run, a, (uint64_t)x, y, &list), &list);
    } else if (sscanf(order, "two %63s %ld %63s %ld", a, &x, b, &y) == 4) {
        do_two(run, (struct watcher[]){{.key = a, .after = (uint64_t)x},
                                       {.key = b, .after = (uint64_t)y}});
    } else if (sscanf(order, "until %63s", a) == 1) {
        worker_until(a);
    } else if (sscanf(order, "many %ld", &x) == 1) {
        do_many(run, x);
    }
}

static int worker_main(char *orders)
{
    mu_run *run;

    if (mu_join(NULL, &run) != MU_OK) {
        say_failed(MU_EPEER);
        return 9;
    }
    worker_say("results", "pid %d\n", (int)getpid());
    for (char *rest = NULL, *one = strtok_r(orders, ";", &rest); one != NULL;
         one = strtok_r(NULL, ";", &rest)) {
        obey(run, one + strspn(one, " "));
    }
    worker_until("end");
    return mu_leave(run) == MU_OK ? 0 : 9;
}

/* ---- the orchestrator ---- */

struct fake {
    struct kit *kit;
    uv_loop_t loop;
    uv_timer_t tick;
    struct tls *tls;
    struct listener *listener;
    struct conn *conn;
    uint32_t welcomes_n;
    struct asked got[256]; /* values are not kept */
    uint32_t got_n;
    bool silent; /* it welcomes nobody */
};

static void on_opened(struct conn *c)
{
    struct fake *f = conn_data(c);

    f->conn = c;
}

static void on_closed(struct conn *c, int status, const char *why)
{
    struct fake *f = conn_data(c);

    f->conn = f->conn == c ? NULL : f->conn;
}

static void on_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct msg_welcome welcome = {.store = 1,
                                  .node = 1,
                                  .run = 1,
                                  .lease_ms = 5000,
                                  .orphan_ms = 60000,
                                  .mode = MODE_INPROCESS};
    struct msg_ack ack = {.mode = MODE_INPROCESS};
    struct fake *f = conn_data(c);

    if (h->type == WIRE_HELLO && !f->silent) {
        f->welcomes_n++;
        conn_say(c, WIRE_WELCOME, &welcome, 0, 0);
    } else if (h->type == WIRE_RENEW) {
        ack.seq = msg->renew.seq;
        conn_say(c, WIRE_ACK, &ack, 0, 0);
    } else if (h->type == WIRE_REPORTS) {
        ack.reports = msg->reports.seq;
        conn_say(c, WIRE_ACK, &ack, 0, 0);
    } else if (h->type == WIRE_ASK && msg->ask.kind != ASK_METRICS) {
        assert_true(f->got_n < ARRAY_LEN(f->got));
        assert_true(asks_is_asked(&msg->ask, &f->got[f->got_n]));
        f->got_n++;
    }
}

static const struct conn_handler handler = {
    .opened = on_opened, .frame = on_frame, .closed = on_closed};

static void on_tick(uv_timer_t *t)
{
}

static void fake_listen(struct fake *f)
{
    struct listen_config config = {.conns_max = 8};
    struct endpoint at = {.port = f->kit->port};
    char error[NET_ERROR_MAX];

    strcpy(at.host, "127.0.0.1");
    assert_int_equal(listen_tcp(&f->loop, &at, f->tls, &handler, &config, f, &f->listener, error),
                     MU_OK);
    f->kit->port = listen_port(f->listener);
}

static struct fake *fake_open(struct kit *k)
{
    struct fake *f = calloc(1, sizeof(*f));
    char error[NET_ERROR_MAX];

    assert_non_null(f);
    f->kit = k;
    assert_int_equal(uv_loop_init(&f->loop), 0);
    uv_timer_init(&f->loop, &f->tick);
    uv_timer_start(&f->tick, on_tick, 5, 5);
    assert_int_equal(tls_server_open(&k->token, &f->tls, error), MU_OK);
    fake_listen(f);
    return f;
}

#define await(f, cond) unit_await(cond, #cond, uv_run(&(f)->loop, UV_RUN_ONCE))

/* The connection is lost; the agent comes back at once. */
static void lose(struct fake *f)
{
    conn_close(f->conn, 0);
    f->conn = NULL;
}

static const struct asked *nth(struct fake *f, uint32_t n)
{
    await(f, f->got_n >= n);
    return &f->got[n - 1];
}

static void say(struct fake *f, const struct said *s)
{
    static struct asks_frame frame;

    asks_said(&frame, s);
    conn_say(f->conn, WIRE_SAYS, &frame.says, 0, 0);
}

static void item(struct fake *f, const struct asked *to, const char *key, uint64_t version,
                 bool more)
{
    struct said m = {.worker = to->worker,
                     .request = to->request,
                     .more = more,
                     .version = version,
                     .value_n = 1,
                     .value = (uint8_t *)(uintptr_t) "v"};

    snprintf(m.key, sizeof(m.key), "%s", key);
    m.value_n = key[0] != '\0';
    say(f, &m);
}

static void refuse(struct fake *f, const struct asked *to, int status, const char *text)
{
    struct said m = {
        .worker = to->worker, .request = to->request, .status = status, .version = to->after};

    snprintf(m.text, sizeof(m.text), "%s", text);
    say(f, &m);
}

/* ---- a case ---- */

static pid_t start(struct fake *f, const char *orders)
{
    struct node_config config = kit_config(f->kit, "a", kit_worker(orders));

    config.mode = MODE_INPROCESS;
    return kit_run(f->kit, &config);
}

static void await_result(struct fake *f, const char *text)
{
    await(f, strstr(kit_read(f->kit, "results"), text) != NULL);
}

static bool exited(struct kit *k, pid_t pid, int *code)
{
    return waitpid(pid, code, WNOHANG) == pid;
}

/* The run is over: all calls end, the worker goes, the agent exits. */
static void finish(struct fake *f, pid_t node)
{
    struct msg_ended ended = {.run = 1, .why = "it was shut down"};
    int code = -1;

    kit_touch(f->kit, "end");
    await(f, f->conn != NULL);
    conn_say(f->conn, WIRE_ENDED, &ended, 0, 0);
    await(f, exited(f->kit, node, &code));
    for (uint32_t i = 0; i < f->kit->nodes_n; i++) {
        f->kit->nodes[i] = 0;
    }
    if (code != 0) {
        fail_msg("the agent ended with %x: %s", (unsigned)code, kit_read(f->kit, "a.err"));
    }
    listen_close(f->listener);
    uv_close((uv_handle_t *)&f->tick, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    tls_close(f->tls);
    free(f);
}

static void every_request_is_passed_on_and_answered(void **state)
{
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "get k 60000; put k v 60000; list 60000; watch k 3 60000; get no 60000");
    const struct asked *m = nth(f, 1);

    assert_true(m->verb == ASKED_GET && wid_node(m->worker) == 1 && wid_slot(m->worker) == 0);
    assert_true(m->wait_ms > 0 && m->wait_ms <= 60000);
    item(f, m, "k", 7, false);
    await_result(f, "k=v@7\n");
    m = nth(f, 2);
    assert_true(m->verb == ASKED_PUT && m->expect == MU_ANY && m->value_n == 1);
    item(f, m, "k", 8, false);
    await_result(f, "put k@8\n");
    m = nth(f, 3);
    item(f, m, "a", 1, true);
    item(f, m, "b", 2, true);
    item(f, m, "", 8, false);
    await_result(f, "list a@1 b@2 to 8\n");
    m = nth(f, 4);
    assert_true(m->verb == ASKED_WATCH && m->after == 3 && m->worker == 0);
    item(f, m, "", 3, true);  /* There is nothing yet. */
    item(f, m, "a", 8, true); /* It is not for this worker. */
    item(f, m, "k", 9, true);
    item(f, m, "", 9, true);
    await_result(f, "list k@9 to 9\n");
    refuse(f, nth(f, 5), MU_ENOENT, "job 'test' has no setting no");
    await_result(f, "-8 job 'test' has no setting no\n");
    finish(f, node);
}

/* Nobody can tell whether it was made, and it must not be made twice. */
static void a_change_in_flight_is_unknown_when_the_orchestrator_is_lost(void **state)
{
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "put k v 60000; get k 60000");

    assert_int_equal(nth(f, 1)->verb, ASKED_PUT);
    lose(f);
    await_result(f, "-13 the orchestrator was lost before it answered: it is not known whether");
    await(f, f->welcomes_n == 2);
    assert_int_equal(nth(f, 2)->verb, ASKED_GET); /* Not the put again. */
    item(f, nth(f, 2), "k", 7, false);
    await_result(f, "k=v@7\n");
    finish(f, node);
}

static void reads_are_asked_again_after_a_reconnect(void **state)
{
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "get k 60000; list 60000; watch k 3 60000");

    for (uint32_t i = 0; i < 3; i++) {
        const struct asked *m = nth(f, 2 * i + 1);
        uint8_t verb = m->verb;

        if (verb != ASKED_GET) {
            item(f, m, verb == ASKED_LIST ? "gone" : "k", 5, true); /* It breaks off. */
            await(f, conn_queued(f->conn) == 0);
        }
        lose(f);
        m = nth(f, 2 * i + 2);
        assert_true(m->verb == verb && (verb != ASKED_WATCH || m->after == 3));
        item(f, m, "k", 7 + i, verb != ASKED_GET);
        if (verb != ASKED_GET) {
            item(f, m, "", 10, verb == ASKED_WATCH);
        }
    }
    await_result(f, "k=v@7\nlist k@8 to 10\nlist k@9 to 10\n");
    finish(f, node);
}

/* What was never sent is not in doubt. */
static void a_change_waits_for_an_orchestrator_that_is_away(void **state)
{
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "until away; put k v 300; put k w 60000");

    await_result(f, "pid ");
    f->silent = true;
    lose(f);
    kit_await_text(f->kit, "a.err", "went away");
    kit_touch(f->kit, "away");
    await_result(f, "-14 setting 'k': the orchestrator at ");
    assert_non_null(strstr(kit_read(f->kit, "results"), "is away; the change was not made\n"));
    assert_int_equal(f->got_n, 0);
    f->silent = false;
    lose(f); /* It has said hello to one that did not answer. */
    item(f, nth(f, 1), "k", 5, false);
    await_result(f, "put k@5\n");
    assert_int_equal(f->got_n, 1);
    finish(f, node);
}

static void a_silent_orchestrator_is_not_waited_for_any_longer(void **state)
{
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "get k 100; put k v 100");

    await_result(f, "-14 setting 'k': the orchestrator did not answer in time\n");
    await_result(f, "did not answer in time; it is not known whether the change was made\n");
    item(f, nth(f, 1), "k", 5, false); /* Too late: it harms nobody. */
    item(f, nth(f, 2), "k", 6, false);
    finish(f, node);
}

static void a_watch_goes_on_until_there_is_something_for_it(void **state)
{
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "watch k 3 -1; watch k 7 -1; watch k 9 300");
    const struct asked *m = nth(f, 1);

    assert_true(m->wait_ms == UINT32_MAX && m->after == 3 && m->key[0] == '\0');
    item(f, m, "", 5, true); /* All up to 5 was not for it. */
    refuse(f, m, MU_EAGAIN, "out of memory, for now");
    m = nth(f, 2); /* Whoever follows may try again. */
    assert_true(m->after == 5);
    item(f, m, "k", 6, true);
    item(f, m, "", 7, true);
    await_result(f, "list k@6 to 7\n");
    m = nth(f, 3);
    assert_int_equal(m->after, 7);
    refuse(f, m, MU_ESTALE, "list them");
    await_result(f, "-9 list them\n");
    item(f, nth(f, 4), "", 9, true);
    await_result(f, "-14 nothing has changed after version 9");
    item(f, nth(f, 4), "k", 10, true); /* Nobody asks any more. */
    item(f, nth(f, 4), "", 10, true);
    assert_true(nth(f, 5)->wait_ms == 0);
    finish(f, node);
}

/* A worker that comes later and knows less begins the agent's own anew; nobody hears a thing twice.
 */
static void all_who_watch_share_one_stream(void **state)
{
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "two a 5 b 2");
    const struct asked *m = nth(f, 2);

    assert_true(m->after == 2 && m->request != nth(f, 1)->request);
    item(f, nth(f, 1), "a", 6, true); /* Of the first: it is void. */
    item(f, nth(f, 1), "", 6, true);
    item(f, m, "b", 4, true);
    item(f, m, "a", 6, true);
    item(f, m, "", 6, true);
    await_result(f, "a: a@6 to 6\nb: b@4 to 6\n");
    finish(f, node);
}

static void the_end_of_the_run_ends_what_waits(void **state)
{
    struct fake *f = fake_open(*state);
    struct kit *k = *state;
    pid_t node = start(f, "watch k 3 -1; get k 60000");

    nth(f, 1);
    finish(f, node);
    assert_non_null(strstr(kit_read(k, "results"), "-17 the run has ended: it was shut down\n-17"));
}

static void a_slot_has_only_so_many_waiting(void **state)
{
    enum { MANY = 80, MAX = 64 };
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "many 80");

    await(f, kit_lines(f->kit, "results") == 1 + MANY - MAX); /* "pid", and those over the limit */
    for (uint32_t i = 1; i <= MAX; i++) {
        item(f, nth(f, i), "k", 1, false);
    }
    await_result(f, "many 64 ok 16 over the limit\n");
    assert_int_equal(f->got_n, MAX);
    finish(f, node);
}

/* The answer to a process that is gone reaches nobody, its next life above all. */
static void what_a_process_asked_ends_with_it(void **state)
{
    struct fake *f = fake_open(*state);
    pid_t node = start(f, "get k 60000");
    struct asked first = *nth(f, 1);
    int pid = 0;

    assert_int_equal(sscanf(kit_read(f->kit, "results"), "pid %d", &pid), 1);
    kill(pid, SIGKILL);
    assert_true(nth(f, 2)->worker != first.worker && nth(f, 2)->request != first.request);
    item(f, &first, "old", 1, false);
    item(f, nth(f, 2), "k", 2, false);
    await_result(f, "k=v@2\n");
    assert_null(strstr(kit_read(f->kit, "results"), "old"));
    finish(f, node);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(every_request_is_passed_on_and_answered),
        TEST(a_change_in_flight_is_unknown_when_the_orchestrator_is_lost),
        TEST(reads_are_asked_again_after_a_reconnect),
        TEST(a_change_waits_for_an_orchestrator_that_is_away),
        TEST(a_silent_orchestrator_is_not_waited_for_any_longer),
        TEST(a_watch_goes_on_until_there_is_something_for_it),
        TEST(all_who_watch_share_one_stream),
        TEST(the_end_of_the_run_ends_what_waits),
        TEST(a_slot_has_only_so_many_waiting),
        TEST(what_a_process_asked_ends_with_it),
    };

    kit_main(argc, argv, worker_main);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
