/* Those who wait for a change of settings, by real sockets. */
#include "unit/orchestrator/settings_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LONG_MS 600000

static void say_watch(struct client *cl, uint64_t request, const char *key, uint64_t after,
                      uint32_t wait_ms)
{
    struct asked m = {.verb = ASKED_WATCH, .job = "job", .after = after, .wait_ms = wait_ms};

    strcpy(m.key, key);
    settings_say(cl, request, &m, NULL);
}

static void next_is(struct client *cl, uint64_t request, const char *key, uint64_t version)
{
    const struct said *s = settings_next(cl, request);

    assert_int_equal(s->status, MU_OK);
    assert_string_equal(s->key, key);
    assert_int_equal(s->version, version);
    assert_int_equal(s->more, 1);
}

static void a_watch_is_told_of_its_key_alone_and_lasts(void **state)
{
    struct client *cl = kit_connect(*state), *other = kit_connect(*state);

    settings_job(*state, "second");
    say_watch(cl, 1, "k", 0, LONG_MS);
    settings_mark(cl, 1, 0);
    assert_int_equal(settings_put(other, "second", "k", "1"), MU_OK);
    assert_int_equal(settings_put(other, "job", "k2", "1"), MU_OK);
    assert_int_equal(settings_put(other, "job", "k/2", "1"), MU_OK);
    settings_quiet(cl);
    assert_int_equal(settings_put(other, "job", "k", "1"), MU_OK);
    next_is(cl, 1, "k", 3);
    settings_mark(cl, 1, 3);
    assert_int_equal(settings_put(other, "job", "k", "2"), MU_OK);
    next_is(cl, 1, "k", 4);
    settings_mark(cl, 1, 4);
    client_close(cl);
    client_close(other);
}

static void a_watch_of_a_prefix_is_told_of_all_below_it(void **state)
{
    struct client *cl = kit_connect(*state), *all = kit_connect(*state),
                  *other = kit_connect(*state);
    const struct said *s;

    say_watch(cl, 1, "k/", 0, LONG_MS);
    settings_mark(cl, 1, 0);
    say_watch(all, 2, "", 0, LONG_MS);
    settings_mark(all, 2, 0);
    assert_int_equal(settings_put(other, "job", "k", "1"), MU_OK);
    next_is(all, 2, "k", 1);
    settings_mark(all, 2, 1);
    assert_int_equal(settings_put(other, "job", "k/a/b", "1"), MU_OK);
    next_is(cl, 1, "k/a/b", 2);
    settings_mark(cl, 1, 2);
    assert_int_equal(settings_remove(other, "job", "k/a/b"), MU_OK);
    s = settings_next(cl, 1);
    assert_int_equal(s->deleted, 1);
    assert_int_equal(s->version, 3);
    settings_mark(cl, 1, 3);
    client_close(cl);
    client_close(all);
    client_close(other);
}

static void what_has_changed_already_comes_at_once_each_key_once(void **state)
{
    struct client *cl = kit_connect(*state);

    assert_int_equal(settings_put(cl, "job", "a", "1"), MU_OK);
    assert_int_equal(settings_put(cl, "job", "b", "1"), MU_OK);
    assert_int_equal(settings_put(cl, "job", "a", "2"), MU_OK);
    say_watch(cl, 1, "", 0, LONG_MS);
    next_is(cl, 1, "b", 2);
    next_is(cl, 1, "a", 3);
    settings_mark(cl, 1, 3);
    client_close(cl);
}

static void a_watch_ends_when_its_time_is_over(void **state)
{
    struct client *cl = kit_connect(*state);

    assert_int_equal(settings_put(cl, "job", "a", "1"), MU_OK);
    say_watch(cl, 1, "k", 1, 20);
    settings_mark(cl, 1, 1);
    settings_end(cl, 1, 1);
    say_watch(cl, 2, "", 0, 0); /* What there is, and no more. */
    next_is(cl, 2, "a", 1);
    settings_end(cl, 2, 1);
    assert_int_equal(settings_put(cl, "job", "k", "1"), MU_OK);
    settings_quiet(cl);
    client_close(cl);
}

/* The last that it asked for counts: an agent begins anew when a worker knows less. */
static void a_connection_has_one_watch(void **state)
{
    struct client *cl = kit_connect(*state);

    assert_int_equal(settings_put(cl, "job", "a", "1"), MU_OK);
    say_watch(cl, 1, "", 1, LONG_MS);
    settings_mark(cl, 1, 1);
    say_watch(cl, 2, "", 0, LONG_MS);
    next_is(cl, 2, "a", 1);
    settings_mark(cl, 2, 1);
    settings_say(cl, 7,
                 &(struct asked){.verb = ASKED_PUT, .job = "job", .key = "b", .expect = CONFIG_ANY},
                 "1");
    assert_int_equal(settings_next(cl, 7)->status, MU_OK); /* Before the news of it. */
    next_is(cl, 2, "b", 2);
    settings_mark(cl, 2, 2);
    settings_quiet(cl);
    client_close(cl);
}

static void a_watch_from_a_version_that_is_not_known_is_stale(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    const struct said *s;

    assert_int_equal(settings_put(cl, "job", "a", "1"), MU_OK);
    assert_int_equal(settings_put(cl, "job", "b", "1"), MU_OK);
    say_watch(cl, 1, "", 3, LONG_MS); /* of the future */
    s = settings_next(cl, 1);
    assert_int_equal(s->status, MU_ESTALE);
    assert_int_equal(s->version, 3);
    assert_non_null(strstr(s->text, "list the settings of job 'job'"));
    client_close(cl);
    kit_stop(k);
    k->cluster.settings.window_n = 1;
    kit_start(k);
    cl = kit_connect(k);
    say_watch(cl, 2, "", 0, LONG_MS); /* of the past */
    assert_int_equal(settings_next(cl, 2)->status, MU_ESTALE);
    say_watch(cl, 3, "", 1, LONG_MS);
    next_is(cl, 3, "b", 2);
    settings_mark(cl, 3, 2);
    client_close(cl);
}

/* The window is passed many times over, by keys that nobody waits for. */
static void who_waits_does_not_become_stale_by_other_keys(void **state)
{
    struct kit *k = *state;
    struct client *cl, *other;

    kit_stop(k);
    k->cluster.settings.window_n = 4;
    kit_start(k);
    cl = kit_connect(k);
    other = kit_connect(k);
    say_watch(cl, 1, "k", 0, LONG_MS);
    settings_mark(cl, 1, 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(settings_put(other, "job", "other", "1"), MU_OK);
    }
    assert_int_equal(settings_put(other, "job", "k", "1"), MU_OK);
    next_is(cl, 1, "k", 51);
    settings_mark(cl, 1, 51);
    client_close(cl);
    client_close(other);
}

/* Until the last run's node is known to have left, a new one is refused for now. */
static void join_next_run(const struct kit *k, const char *job)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];
    struct puppet p;
    int tries_n = 0;

    puppet_init(&p, job, "b", 1, 8);
    p.hello.flags = NODE_RERUN;
    do {
        puppet_connect(&p, k);
        kit_say(p.cl, WIRE_HELLO, &p.hello, 0);
        assert_int_equal(client_next(p.cl, KIT_WAIT_MS, &h, &msg, error), MU_OK);
        usleep(h.type == WIRE_REFUSED ? 10000 : 0);
    } while (h.type == WIRE_REFUSED && ++tries_n < KIT_WAIT_MS / 10);
    assert_int_equal(h.type, WIRE_WELCOME);
    assert_int_equal(msg->welcome.run, 2);
    puppet_close(&p);
}

/* What was wanted of the last run is not wanted of the next: that is a change like any other. */
static void a_new_run_wakes_who_watches_the_size(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k), *lr = kit_connect(k);
    struct asked m = {.verb = ASKED_WATCH, .job = "runs", .after = 2, .wait_ms = LONG_MS};
    struct msg_bye bye = {0};
    const struct said *s;
    char text[TEXT_MAX_LEN];
    struct puppet p;

    puppet_init(&p, "runs", "a", 1, 8);
    bye.node = puppet_join(&p, k);
    assert_int_equal(settings_put(cl, "runs", "size", "2"), MU_OK);
    assert_int_equal(settings_put(cl, "runs", "lr", "1"), MU_OK);
    strcpy(m.key, "size");
    settings_say(cl, 1, &m, NULL);
    settings_mark(cl, 1, 2);
    strcpy(m.key, "lr");
    settings_say(lr, 2, &m, NULL);
    settings_mark(lr, 2, 2);
    assert_int_equal(kit_admin(k, ASK_SHUTDOWN, "runs", "", text), MU_OK);
    settings_quiet(cl);
    kit_say(p.cl, WIRE_BYE, &bye, 0);
    join_next_run(k, "runs");
    s = settings_next(cl, 1);
    assert_string_equal(s->key, "size");
    assert_int_equal(s->deleted, 1);
    settings_mark(cl, 1, 3);
    settings_quiet(lr);
    client_close(cl);
    client_close(lr);
    puppet_close(&p);
}

/* ---- bounds, and those who go ---- */

/* The journal stands still while they go, with a change on its way that would have told them. */
static void a_watch_of_somebody_who_went_is_forgotten(void **state)
{
    struct kit *k = *state;
    struct client *cl[20], *stays = kit_connect(k);
    struct asked put = {.verb = ASKED_PUT, .job = "job", .key = "k"};

    say_watch(stays, 1, "k", 0, LONG_MS);
    settings_mark(stays, 1, 0);
    for (uint64_t i = 0; i < ARRAY_LEN(cl); i++) {
        cl[i] = kit_connect(k);
        say_watch(cl[i], i, "k", 0, LONG_MS);
        settings_mark(cl[i], i, 0);
    }
    settings_kit->hold = 1;
    settings_say(cl[0], 100, &put, "1");
    settings_quiet(cl[0]);
    for (uint64_t i = 0; i < ARRAY_LEN(cl); i++) {
        client_close(cl[i]);
    }
    settings_release(k);
    next_is(stays, 1, "k", 1);
    settings_mark(stays, 1, 1);
    client_close(stays);
}

static void a_stop_with_watches_frees_all(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);

    say_watch(cl, 1, "k", 0, LONG_MS);
    settings_mark(cl, 1, 0);
    kit_stop(k);
    kit_closes(cl);
    client_close(cl);
    kit_start(k);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, settings_setup, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_watch_is_told_of_its_key_alone_and_lasts),
        CASE(a_watch_of_a_prefix_is_told_of_all_below_it),
        CASE(what_has_changed_already_comes_at_once_each_key_once),
        CASE(a_watch_ends_when_its_time_is_over),
        CASE(a_connection_has_one_watch),
        CASE(a_watch_from_a_version_that_is_not_known_is_stale),
        CASE(who_waits_does_not_become_stale_by_other_keys),
        CASE(a_new_run_wakes_who_watches_the_size),
        CASE(a_watch_of_somebody_who_went_is_forgotten),
        CASE(a_stop_with_watches_frees_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
