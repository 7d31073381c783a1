/* Changes of settings by real sockets: their order, what is refused, and what is durable. */
#include "unit/orchestrator/settings_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_setting_is_set_read_and_removed(void **state)
{
    struct client *cl = kit_connect(*state);
    struct asked put = {.verb = ASKED_PUT, .job = "job", .key = "lr/base", .worker = 3};
    struct asked get = {.verb = ASKED_GET, .job = "job", .key = "lr/base"};
    struct asked rm = {.verb = ASKED_REMOVE, .job = "job", .key = "lr/base", .expect = 1};
    const struct said *s;

    settings_say(cl, 1, &put, "0.1"); /* expected: that there is none */
    s = settings_next(cl, 1);
    assert_int_equal(s->status, MU_OK);
    assert_int_equal(s->version, 1);
    assert_int_equal(s->worker, 3);
    assert_string_equal(s->key, "lr/base");
    assert_int_equal(s->value_n, 0);
    settings_is(cl, "job", "lr/base", "0.1");
    settings_say(cl, 2, &rm, NULL);
    s = settings_next(cl, 2);
    assert_int_equal(s->status, MU_OK);
    assert_int_equal(s->version, 2);
    settings_say(cl, 3, &get, NULL);
    s = settings_next(cl, 3);
    assert_int_equal(s->status, MU_ENOENT);
    assert_string_equal(s->text, "job 'job' has no setting lr/base");
    client_close(cl);
}

static void a_list_has_those_with_the_prefix_in_order_and_the_version(void **state)
{
    struct client *cl = kit_connect(*state);
    struct asked list = {.verb = ASKED_LIST, .job = "job", .key = "b/"};
    static char big[60001];
    const struct said *s;

    memset(big, 'x', sizeof(big) - 1);
    assert_int_equal(settings_put(cl, "job", "b/2", big), MU_OK);
    assert_int_equal(settings_put(cl, "job", "b/1", ""), MU_OK);
    assert_int_equal(settings_put(cl, "job", "a", "1"), MU_OK);
    assert_int_equal(settings_put(cl, "job", "b/3", big), MU_OK);
    settings_say(cl, 1, &list, NULL);
    for (int i = 0; i < 3; i++) {
        static const char *const keys[] = {"b/1", "b/2", "b/3"};
        static const uint64_t versions[] = {2, 1, 4};

        s = settings_next(cl, 1);
        assert_string_equal(s->key, keys[i]);
        assert_int_equal(s->version, versions[i]);
        assert_int_equal(s->value_n, i == 0 ? 0 : sizeof(big) - 1);
        assert_int_equal(s->more, 1);
    }
    settings_end(cl, 1, 4);
    client_close(cl);
}

/* A setting that a worker of another job names is that of its own. */
static void an_agent_speaks_for_its_own_job(void **state)
{
    struct kit *k = *state;
    uint8_t value[] = {'v'};
    struct asked put = {.verb = ASKED_PUT,
                        .job = "job",
                        .key = "k",
                        .worker = 5,
                        .request = 77,
                        .value_n = 1,
                        .value = value};
    struct client *cl = kit_connect(k);
    static struct asks_frame frame;
    struct msg_says says;
    struct puppet p;

    puppet_init(&p, "other", "b", 1, 1);
    puppet_join(&p, k);
    asks_ask(&frame, &put);
    kit_say(p.cl, WIRE_ASK, &frame.ask, 99);
    says = puppet_next(&p, WIRE_SAYS)->says;
    assert_int_equal(says.status, MU_OK);
    assert_int_equal(says.worker, 5);
    assert_int_equal(says.request, 77);
    settings_is(cl, "other", "k", "v");
    assert_int_equal(settings_remove(cl, "job", "k"), MU_ENOENT);
    puppet_close(&p);
    client_close(cl);
}

static void what_is_refused_is_explained(void **state)
{
    static const struct {
        struct asked m;
        const char *value;
        int status;
        const char *text;
    } cases[] = {
        {{.verb = ASKED_PUT, .job = "no", .key = "k"}, "", MU_ENOENT, "there is no job 'no'"},
        {{.verb = ASKED_GET, .job = "no", .key = "k"}, NULL, MU_ENOENT, "muster status"},
        {{.verb = ASKED_GET, .job = "job", .key = "../k"}, NULL, MU_EINVAL, "\"../k\""},
        {{.verb = ASKED_WATCH, .job = "job", .key = "/"}, NULL, MU_EINVAL, "separated by '/'"},
        {{.verb = ASKED_PUT, .job = "job", .key = "a//b"}, "", MU_EINVAL, "\"a//b\""},
        {{.verb = ASKED_PUT, .job = "job", .key = "k"}, "", MU_EEXIST, "version 1"},
        {{.verb = ASKED_PUT, .job = "job", .key = "k", .expect = 5}, "", MU_ECONFLICT, "not 5"},
        {{.verb = ASKED_PUT, .job = "job", .key = "n", .expect = 5}, "", MU_ECONFLICT, "expected"},
        {{.verb = ASKED_REMOVE, .job = "job", .key = "n", .expect = CONFIG_ANY},
         NULL,
         MU_ENOENT,
         "does not exist"},
        {{.verb = ASKED_PUT, .job = "job", .key = "size"}, "many", MU_EINVAL, "whole number"},
        {{.verb = ASKED_PUT, .job = "job", .key = "size"}, "9", MU_EINVAL, "from 1 to 8"},
    };
    struct client *cl = kit_connect(*state);
    struct asked list = {.verb = ASKED_LIST, .job = "job"};

    assert_int_equal(settings_put(cl, "job", "k", "1"), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct said *s;

        settings_say(cl, i, &cases[i].m, cases[i].value);
        s = settings_next(cl, i);
        if (s->status != cases[i].status || strstr(s->text, cases[i].text) == NULL) {
            fail_msg("case %zu: %s: %s", i, mu_strerror(s->status), s->text);
        }
    }
    settings_say(cl, 100, &list, NULL);
    assert_string_equal(settings_next(cl, 100)->key, "k");
    settings_end(cl, 100, 1);
    client_close(cl);
}

/* ---- one at a time ---- */

static void say_puts(struct client *cl, const char *job, uint64_t n)
{
    struct asked put = {.verb = ASKED_PUT, .key = "k"};
    char value[24];

    strcpy(put.job, job);
    for (uint64_t i = 0; i < n; i++) {
        put.expect = i; /* right only if each is taken after the one before */
        snprintf(value, sizeof(value), "%d", (int)i);
        settings_say(cl, i, &put, value);
    }
}

static void changes_of_a_job_are_taken_in_order_one_at_a_time(void **state)
{
    struct kit *k = *state;
    struct client *one = kit_connect(k), *two = kit_connect(k);
    int before;

    settings_job(k, "second");
    before = settings_kit->appends_n;
    settings_kit->hold = 1;
    say_puts(one, "job", 5);
    say_puts(two, "second", 5);
    settings_quiet(one);
    settings_quiet(two);
    assert_int_equal(settings_kit->appends_n, before + 2); /* the first of each */
    settings_release(k);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(settings_next(one, i)->version, i + 1);
        assert_int_equal(settings_next(two, i)->version, i + 1);
    }
    settings_is(one, "job", "k", "4");
    settings_is(two, "second", "k", "4");
    client_close(one);
    client_close(two);
}

/* A wrong one in the line is answered in its turn, and the next is taken. */
static void who_is_refused_does_not_hold_up_the_line(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct asked put = {.verb = ASKED_PUT, .job = "job", .key = "size", .expect = CONFIG_ANY};

    settings_kit->hold = 1;
    settings_say(cl, 1, &put, "2");
    settings_say(cl, 2, &put, "none");
    settings_say(cl, 3, &put, "100");
    settings_say(cl, 4, &put, "3");
    settings_quiet(cl);
    settings_release(k);
    assert_int_equal(settings_next(cl, 1)->status, MU_OK);
    assert_int_equal(settings_next(cl, 2)->status, MU_EINVAL);
    assert_int_equal(settings_next(cl, 3)->status, MU_EINVAL);
    assert_int_equal(settings_next(cl, 4)->version, 2);
    settings_is(cl, "job", "size", "3");
    client_close(cl);
}

static void a_failed_write_changes_nothing_and_the_next_is_taken(void **state)
{
    struct client *cl = kit_connect(*state);
    struct asked put = {.verb = ASKED_PUT, .job = "job", .key = "k", .expect = CONFIG_ANY};
    const struct said *s;

    assert_int_equal(settings_put(cl, "job", "k", "before"), MU_OK);
    settings_kit->refuse_n = 2;
    settings_say(cl, 1, &put, "x");
    settings_say(cl, 2, &put, "y");
    settings_say(cl, 3, &put, "z");
    for (uint64_t i = 1; i <= 2; i++) {
        s = settings_next(cl, i);
        assert_int_equal(s->status, MU_EAGAIN);
        assert_int_equal(s->version, 0);
        assert_non_null(strstr(s->text, "nothing was changed: the journal"));
    }
    s = settings_next(cl, 3);
    assert_int_equal(s->status, MU_OK);
    assert_int_equal(s->version, 2);
    settings_is(cl, "job", "k", "z");
    client_close(cl);
}

/* ---- what is durable ---- */

static void what_was_answered_outlives_a_kill(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);

    assert_int_equal(settings_put(cl, "job", "k", "one"), MU_OK);
    assert_int_equal(settings_put(cl, "job", "gone", ""), MU_OK);
    assert_int_equal(settings_put(cl, "job", "size", "2"), MU_OK);
    assert_int_equal(settings_remove(cl, "job", "gone"), MU_OK);
    client_close(cl);
    for (int i = 0; i < 3; i++) {
        struct asked list = {.verb = ASKED_LIST, .job = "job"};
        const struct said *s;

        kit_kill(k);
        kit_start(k);
        cl = kit_connect(k);
        settings_say(cl, 1, &list, NULL);
        s = settings_next(cl, 1);
        assert_string_equal(s->key, "k");
        assert_int_equal(s->version, 1);
        assert_memory_equal(s->value, "one", 3);
        s = settings_next(cl, 1);
        assert_string_equal(s->key, "size");
        assert_int_equal(s->version, 3);
        settings_end(cl, 1, 4);
        client_close(cl);
    }
}

/* More changes than a journal keeps before it makes a snapshot. */
static void a_snapshot_has_the_settings(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct asked put = {.verb = ASKED_PUT, .job = "job", .key = "k", .expect = CONFIG_ANY};
    json_t *json, *journal;

    for (uint64_t done = 0; done < 4500; done += 500) {
        for (uint64_t i = 0; i < 500; i++) {
            settings_say(cl, i, &put, "some");
        }
        for (uint64_t i = 0; i < 500; i++) {
            assert_int_equal(settings_next(cl, i)->version, done + i + 1);
        }
    }
    assert_int_equal(settings_put(cl, "job", "size", "2"), MU_OK);
    assert_int_equal(settings_remove(cl, "job", "size"), MU_OK);
    json = kit_status(k, "");
    journal = json_object_get(json_object_get(json, "orchestrator"), "journal");
    assert_true(json_integer_value(json_object_get(journal, "snapshot")) > 4096);
    json_decref(json);
    client_close(cl);
    kit_kill(k);
    kit_start(k);
    cl = kit_connect(k);
    settings_is(cl, "job", "k", "some");
    put.expect = 4500;
    settings_say(cl, 1, &put, "more");
    assert_int_equal(settings_next(cl, 1)->version, 4503);
    client_close(cl);
}

/* ---- what is shown ---- */

static void status_has_what_people_want(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    json_t *json = kit_status(k, "job"), *want = json_object_get(json, "want");

    assert_int_equal(json_object_size(want), 1);
    assert_true(json_is_false(json_object_get(want, "paused")));
    json_decref(json);
    assert_int_equal(settings_put(cl, "job", "size", "5"), MU_OK);
    assert_int_equal(settings_put(cl, "job", "paused", "true"), MU_OK);
    assert_int_equal(settings_put(cl, "job", "schedule", "2:10,3"), MU_OK);
    json = kit_status(k, "job");
    want = json_object_get(json, "want");
    assert_int_equal(json_integer_value(json_object_get(want, "size")), 2);
    assert_string_equal(json_string_value(json_object_get(want, "schedule")), "2:10,3");
    assert_true(json_is_true(json_object_get(want, "paused")));
    json_decref(json);
    assert_int_equal(settings_put(cl, "job", "members", "a,b"), MU_OK);
    json = kit_status(k, "job");
    want = json_object_get(json, "want");
    assert_null(json_object_get(want, "size"));
    assert_string_equal(json_string_value(json_object_get(want, "members")), "a,b");
    assert_non_null(strstr(json_string_value(json_object_get(json, "why")), "`members`"));
    json_decref(json);
    client_close(cl);
}

/* ---- bounds, and those who go ---- */

static void so_many_changes_may_wait_and_no_more(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    const struct said *s;

    settings_kit->hold = 1;
    say_puts(cl, "job", 1025);
    s = settings_next(cl, 1024);
    assert_int_equal(s->status, MU_EAGAIN);
    assert_non_null(strstr(s->text, "nothing was changed"));
    settings_release(k);
    for (uint64_t i = 0; i < 1024; i++) {
        assert_int_equal(settings_next(cl, i)->version, i + 1);
    }
    assert_int_equal(settings_put(cl, "job", "k", "x"), MU_OK);
    client_close(cl);
}

static void so_many_bytes_may_wait_and_no_more(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct asked put = {.verb = ASKED_PUT,
                        .job = "job",
                        .key = "k",
                        .expect = CONFIG_ANY,
                        .value_n = CONFIG_VALUE_MAX};

    put.value = calloc(1, CONFIG_VALUE_MAX);
    assert_non_null(put.value);
    settings_kit->hold = 1;
    for (uint64_t i = 0; i <= 256; i++) {
        settings_say(cl, i, &put, NULL);
    }
    assert_int_equal(settings_next(cl, 256)->status, MU_EAGAIN);
    settings_release(k);
    for (uint64_t i = 0; i < 256; i++) {
        assert_int_equal(settings_next(cl, i)->status, MU_OK);
    }
    free(put.value);
    client_close(cl);
}

static void a_change_of_somebody_who_went_is_made_all_the_same(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);

    settings_kit->hold = 1;
    say_puts(cl, "job", 3);
    settings_quiet(cl);
    client_close(cl);
    settings_release(k);
    cl = kit_connect(k);
    assert_int_equal(settings_put(cl, "job", "last", ""), MU_OK); /* behind the others */
    settings_is(cl, "job", "k", "2");
    client_close(cl);
}

/* Stopped in order, with changes on their way and in line: nothing is left behind, and what is
 * there after it is a beginning of what was asked for. */
static void a_stop_with_changes_in_line_frees_all(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);

    settings_kit->hold = 1;
    say_puts(cl, "job", 10);
    settings_quiet(cl);
    kit_stop(k);
    client_close(cl);
    settings_kit->hold = 0;
    kit_start(k);
    cl = kit_connect(k);
    settings_is(cl, "job", "k", "0");
    client_close(cl);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, settings_setup, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_setting_is_set_read_and_removed),
        CASE(a_list_has_those_with_the_prefix_in_order_and_the_version),
        CASE(an_agent_speaks_for_its_own_job),
        CASE(what_is_refused_is_explained),
        CASE(changes_of_a_job_are_taken_in_order_one_at_a_time),
        CASE(who_is_refused_does_not_hold_up_the_line),
        CASE(a_failed_write_changes_nothing_and_the_next_is_taken),
        CASE(what_was_answered_outlives_a_kill),
        CASE(a_snapshot_has_the_settings),
        CASE(status_has_what_people_want),
        CASE(so_many_changes_may_wait_and_no_more),
        CASE(so_many_bytes_may_wait_and_no_more),
        CASE(a_change_of_somebody_who_went_is_made_all_the_same),
        CASE(a_stop_with_changes_in_line_frees_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
