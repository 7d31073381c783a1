/* The settings of a job as a worker sees them: every answer, time-outs, ends, threads; and those of
 * a job of one. */
#include "unit/run/run_kit.h"

#include "lib/asks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake agent;
static struct asks_frame frame;

static void say_setting(const struct said *s)
{
    asks_said(&frame, s);
    fake_say(&agent, WIRE_SAYS, &frame.says);
}

/* ---- a call in a thread of its own ---- */

struct caller {
    pthread_t thread;
    mu_run *run;
    enum asked_verb verb;
    const char *key;
    const void *value;
    size_t n;
    uint64_t expect; /* or after */
    int64_t timeout_ms;
    int status;
    char error[512];
    mu_setting setting;
    mu_settings settings;
    uint64_t version;
};

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    switch (c->verb) {
    case ASKED_GET:
        c->status = mu_config_get(c->run, c->key, c->timeout_ms, &c->setting);
        break;
    case ASKED_LIST:
        c->status = mu_config_list(c->run, c->key, c->timeout_ms, &c->settings);
        break;
    case ASKED_WATCH:
        c->status = mu_config_watch(c->run, c->key, c->expect, c->timeout_ms, &c->settings);
        break;
    case ASKED_PUT:
        c->status =
            mu_config_put(c->run, c->key, c->value, c->n, c->expect, c->timeout_ms, &c->version);
        break;
    default:
        c->status = mu_config_remove(c->run, c->key, c->expect, c->timeout_ms);
        break;
    }
    snprintf(c->error, sizeof(c->error), "%s", mu_error());
    return NULL;
}

static void begin(struct caller *c)
{
    assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

static void expect_status(struct caller *c, int status, const char *part)
{
    pthread_join(c->thread, NULL);
    assert_int_equal(c->status, status);
    fake_explains(c->error, part);
    assert_true(c->setting.key == NULL && c->settings.items == NULL && c->version == 0);
}

static void expect_ok(struct caller *c)
{
    pthread_join(c->thread, NULL);
    if (c->status != MU_OK) {
        fail_msg("status %d: %s", c->status, c->error);
    }
}

static struct asked next_asked(void)
{
    union wire_any msg;
    struct asked a;

    assert_true(asks_is_asked(&fake_next(&agent, WIRE_ASK, &msg)->ask, &a));
    return a;
}

static void item(const struct asked *to, const char *key, const char *value, uint64_t version,
                 bool more)
{
    struct said m = {.worker = to->worker,
                     .request = to->request,
                     .more = more,
                     .deleted = value == NULL,
                     .version = version,
                     .value_n = value != NULL ? (uint32_t)strlen(value) : 0,
                     .value = (uint8_t *)(uintptr_t)value};

    snprintf(m.key, sizeof(m.key), "%s", key);
    say_setting(&m);
}

static void end_of_list(const struct asked *to, uint64_t version)
{
    struct said m = {.worker = to->worker, .request = to->request, .version = version};

    say_setting(&m);
}

static void refuse(const struct asked *to, int status, const char *text)
{
    struct said m = {.worker = to->worker, .request = to->request, .status = status};

    snprintf(m.text, sizeof(m.text), "%s", text);
    say_setting(&m);
}

static void expect_item(const mu_setting *s, const char *key, const char *value, uint64_t version)
{
    assert_string_equal(s->key, key);
    assert_true(s->version == version);
    if (value == NULL) {
        assert_null(s->value);
        assert_int_equal(s->value_n, 0);
    } else {
        assert_int_equal(s->value_n, strlen(value));
        assert_string_equal(s->value, value); /* There is a zero byte behind it. */
    }
}

/* ---- answers ---- */

static void a_key_is_read(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run, .verb = ASKED_GET, .key = "lr", .timeout_ms = 10000};
    struct asked m;

    begin(&c);
    m = next_asked();
    assert_true(m.worker == FAKE_WORKER && m.verb == ASKED_GET && m.request > 0);
    assert_string_equal(m.key, "lr");
    assert_true(m.wait_ms > 0 && m.wait_ms <= 10000);
    item(&m, "lr", "0.1", 9, false);
    expect_ok(&c);
    expect_item(&c.setting, "lr", "0.1", 9);
    mu_setting_free(&c.setting);
    mu_setting_free(&c.setting); /* Twice is fine. */
    begin(&c);
    m = next_asked();
    item(&m, "lr", "", 10, false);
    expect_ok(&c);
    expect_item(&c.setting, "lr", "", 10);
    mu_setting_free(&c.setting);
    begin(&c);
    m = next_asked();
    item(&m, "lr", NULL, 11, false); /* It was removed. */
    expect_status(&c, MU_ENOENT, "'lr'");
    fake_leave(&agent, run);
}

static void all_that_begin_with_a_prefix_are_listed_by_key(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run, .verb = ASKED_LIST, .key = "a/", .timeout_ms = MU_FOREVER};
    struct asked m;

    begin(&c);
    m = next_asked();
    assert_true(m.verb == ASKED_LIST && m.wait_ms == UINT32_MAX);
    assert_string_equal(m.key, "a/");
    for (int i = 9; i > 0; i--) {
        char key[8];

        snprintf(key, sizeof(key), "a/%d", i);
        item(&m, key, key, (uint64_t)i, true);
    }
    end_of_list(&m, 77);
    expect_ok(&c);
    assert_true(c.settings.n == 9 && c.settings.version == 77);
    expect_item(&c.settings.items[0], "a/1", "a/1", 1);
    expect_item(&c.settings.items[8], "a/9", "a/9", 9);
    mu_settings_free(&c.settings);
    mu_settings_free(&c.settings);
    begin(&c);
    m = next_asked();
    end_of_list(&m, 78);
    expect_ok(&c);
    assert_true(c.settings.n == 0 && c.settings.version == 78);
    mu_settings_free(&c.settings);
    fake_leave(&agent, run);
}

static void a_list_that_broke_off_is_taken_from_its_beginning(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run, .verb = ASKED_LIST, .key = "", .timeout_ms = MU_FOREVER};
    struct asked m;

    begin(&c);
    m = next_asked();
    item(&m, "a", "1", 1, true);
    item(&m, "b", "2", 2, true);
    item(&m, "", "", 0, true); /* The agent's word that this was in vain. */
    item(&m, "b", "3", 3, true);
    end_of_list(&m, 3);
    expect_ok(&c);
    assert_int_equal(c.settings.n, 1);
    expect_item(&c.settings.items[0], "b", "3", 3);
    mu_settings_free(&c.settings);
    fake_leave(&agent, run);
}

static void a_put_has_its_condition_and_gives_the_version(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run,
                       .verb = ASKED_PUT,
                       .key = "size",
                       .value = "3",
                       .n = 1,
                       .expect = 7,
                       .timeout_ms = 10000};
    struct asked m;

    begin(&c);
    m = next_asked();
    assert_true(m.verb == ASKED_PUT && m.expect == 7 && m.value_n == 1);
    item(&m, "size", "", 8, false);
    expect_ok(&c);
    assert_true(c.version == 8);
    c = (struct caller){.run = run, .verb = ASKED_REMOVE, .key = "size", .expect = MU_ANY};
    c.timeout_ms = 10000;
    begin(&c);
    m = next_asked();
    assert_true(m.verb == ASKED_REMOVE && m.expect == MU_ANY && m.value_n == 0);
    item(&m, "size", NULL, 9, false);
    expect_ok(&c);
    fake_leave(&agent, run);
}

static void every_refusal_is_passed_on_with_its_text(void **state)
{
    static const int statuses[] = {MU_EEXIST, MU_ECONFLICT, MU_EINVAL, MU_ELIMIT, MU_EAGAIN,
                                   MU_ENOENT, MU_ETIMEDOUT, MU_ESTALE, MU_EIO};
    mu_run *run = fake_join(&agent, FAKE_LIFE);

    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        for (int verb = 0; verb < ASKED_N; verb++) {
            struct caller c = {.run = run,
                               .verb = (enum asked_verb)verb,
                               .key = "k",
                               .value = "v",
                               .n = 1,
                               .timeout_ms = 10000};
            struct asked m;

            begin(&c);
            m = next_asked();
            refuse(&m, statuses[i], "so it is said");
            expect_status(&c, statuses[i], "so it is said");
        }
    }
    struct caller c = {.run = run, .verb = ASKED_GET, .key = "k", .timeout_ms = 10000};
    struct asked m;

    begin(&c);
    m = next_asked();
    refuse(&m, 5, "no status at all");
    expect_status(&c, MU_EPROTO, "no status at all");
    begin(&c);
    m = next_asked();
    refuse(&m, MU_ENOENT, "");
    expect_status(&c, MU_ENOENT, "setting 'k'");
    fake_leave(&agent, run);
}

static void a_watch_brings_what_changed_and_where_to_go_on(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {
        .run = run, .verb = ASKED_WATCH, .key = "", .expect = 4, .timeout_ms = MU_FOREVER};
    struct asked m;

    begin(&c);
    m = next_asked();
    assert_true(m.verb == ASKED_WATCH && m.after == 4 && m.key[0] == '\0');
    item(&m, "z", NULL, 5, true);
    item(&m, "b", "2", 6, true);
    end_of_list(&m, 7);
    expect_ok(&c);
    assert_true(c.settings.n == 2 && c.settings.version == 7);
    expect_item(&c.settings.items[0], "b", "2", 6);
    expect_item(&c.settings.items[1], "z", NULL, 5);
    mu_settings_free(&c.settings);
    fake_leave(&agent, run);
}

static void a_watch_that_brings_nothing_says_so_when_its_time_is_over(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run, .verb = ASKED_WATCH, .key = "k", .expect = 4};
    struct asked m;

    begin(&c);
    m = next_asked();
    assert_true(m.wait_ms == 0 && m.after == 4);
    refuse(&m, MU_ETIMEDOUT, "");
    expect_status(&c, MU_ETIMEDOUT, "nothing has changed after version 4");
    fake_leave(&agent, run);
}

static void the_largest_value_passes_both_ways(void **state)
{
    static char large[MU_VALUE_MAX + 1];
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run,
                       .verb = ASKED_PUT,
                       .key = "k",
                       .value = large,
                       .n = MU_VALUE_MAX,
                       .timeout_ms = 10000};
    struct asked m;

    memset(large, 'x', MU_VALUE_MAX);
    begin(&c);
    m = next_asked();
    assert_int_equal(m.value_n, MU_VALUE_MAX);
    assert_memory_equal(m.value, large, MU_VALUE_MAX);
    item(&m, "k", "", 1, false);
    expect_ok(&c);
    c = (struct caller){.run = run, .verb = ASKED_GET, .key = "k", .timeout_ms = 10000};
    begin(&c);
    m = next_asked();
    item(&m, "k", large, 1, false);
    expect_ok(&c);
    assert_int_equal(c.setting.value_n, MU_VALUE_MAX);
    assert_string_equal(c.setting.value, large);
    mu_setting_free(&c.setting);
    assert_int_equal(mu_config_put(run, "k", large, MU_VALUE_MAX + 1, 0, 0, NULL), MU_ELIMIT);
    fake_leave(&agent, run);
}

/* ---- what goes wrong ---- */

static void what_is_no_key_is_not_sent(void **state)
{
    char key[MU_KEY_MAX + 1];
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    mu_settings settings;
    mu_setting setting;
    union wire_any msg;
    static const char *const bad[] = {"", "a//b", "..", "a b", "\xff", "a/", "x\ny"};

    memset(key, 'k', MU_KEY_MAX);
    key[MU_KEY_MAX] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(mu_config_get(run, bad[i], 0, &setting), MU_EINVAL);
        assert_int_equal(mu_config_put(run, bad[i], "v", 1, 0, 0, NULL), MU_EINVAL);
        assert_int_equal(mu_config_remove(run, bad[i], 0, 0), MU_EINVAL);
    }
    assert_int_equal(mu_config_get(run, key, 0, &setting), MU_EINVAL);
    fake_explains(mu_error(), "more than 127");
    assert_int_equal(mu_config_get(run, NULL, 0, &setting), MU_EINVAL);
    assert_int_equal(mu_config_list(run, key, 0, &settings), MU_EINVAL);
    assert_int_equal(mu_config_list(run, "\xff", 0, &settings), MU_EINVAL);
    assert_int_equal(mu_config_watch(run, "/", 0, 0, &settings), MU_EINVAL);
    assert_int_equal(mu_config_watch(run, "a//", 0, 0, &settings), MU_EINVAL);
    assert_int_equal(mu_config_put(run, "k", NULL, 1, 0, 0, NULL), MU_EINVAL);
    assert_int_equal(mu_config_get(NULL, "k", 0, &setting), MU_EINVAL);
    fake_generation(&agent, 7, "4");
    fake_next(&agent, WIRE_REPORT, &msg); /* Nothing of the above was sent before it. */
    fake_leave(&agent, run);
}

static void a_call_ends_even_if_nobody_answers(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run, .verb = ASKED_PUT, .key = "k", .timeout_ms = 10};
    struct caller d = {.run = run, .verb = ASKED_GET, .key = "k", .timeout_ms = 10};
    struct asked m;

    fake_hurry(true);
    begin(&c);
    m = next_asked();
    begin(&d);
    next_asked();
    expect_status(&c, MU_ETIMEDOUT, "it is not known whether the change was made");
    expect_status(&d, MU_ETIMEDOUT, "neither the agent");
    fake_hurry(false);
    item(&m, "k", "", 8, false); /* Nobody waits any more. */
    c.timeout_ms = 10000;
    begin(&c);
    m = next_asked();
    item(&m, "k", "", 9, false);
    expect_ok(&c);
    assert_true(c.version == 9);
    fake_leave(&agent, run);
}

/* … and is neither repeated nor lost. */
static void a_worker_that_goes_on_as_another_gets_its_answer(void **state)
{
    struct msg_life life = {.worker = wid_make(4, 1, 3), .lease_ms = 1000, .job = "mnist"};
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run, .verb = ASKED_PUT, .key = "k", .timeout_ms = 10000};
    union wire_any msg;
    struct asked m;

    begin(&c);
    m = next_asked();
    fake_say(&agent, WIRE_LIFE, &life);
    fake_next(&agent, WIRE_REPORT, &msg); /* Not another CONFIG. */
    item(&m, "k", "", 9, false);
    expect_ok(&c);
    fake_leave(&agent, run);
}

static void the_end_of_the_run_ends_calls_that_wait(void **state)
{
    struct msg_ended ended = {.run = 1, .why = "it was shut down"};
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c[ASKED_N];
    mu_setting setting;

    for (int i = 0; i < ASKED_N; i++) {
        c[i] = (struct caller){.run = run, .verb = (enum asked_verb)i, .key = "k"};
        c[i].timeout_ms = MU_FOREVER;
        begin(&c[i]);
        next_asked();
    }
    fake_say(&agent, WIRE_ENDED, &ended);
    for (int i = 0; i < ASKED_N; i++) {
        expect_status(&c[i], MU_EDONE, "the run has ended: it was shut down");
    }
    assert_int_equal(mu_config_get(run, "k", 0, &setting), MU_EDONE);
    assert_int_equal(mu_progress(run, 1), MU_EDONE);
    fake_leave(&agent, run);
}

static void an_agent_that_dies_ends_calls_that_wait(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run, .verb = ASKED_LIST, .key = "", .timeout_ms = MU_FOREVER};
    struct asked m;

    begin(&c);
    m = next_asked();
    item(&m, "a", "1", 1, true);
    fake_die(&agent);
    expect_status(&c, MU_EPEER, "the agent of this node is gone");
    assert_int_equal(mu_progress(run, 1), MU_EPEER);
    fake_leave(&agent, run);
}

static void leaving_ends_calls_of_other_threads(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct caller c = {.run = run, .verb = ASKED_WATCH, .key = "", .timeout_ms = MU_FOREVER};

    begin(&c);
    next_asked();
    fake_leave(&agent, run);
    expect_status(&c, MU_EDONE, "this worker has left the run");
}

static void an_answer_without_sense_ends_the_connection(void **state)
{
    for (int i = 0; i < 2; i++) {
        mu_run *run = fake_join(&agent, FAKE_LIFE);
        struct caller c = {.run = run, .key = "k", .timeout_ms = MU_FOREVER};
        struct asked m;

        c.verb = i == 0 ? ASKED_GET : ASKED_LIST;
        begin(&c);
        m = next_asked();
        item(&m, "k", "v", 1, i == 0); /* More to one; the last of a list with a key. */
        expect_status(&c, MU_EPROTO, "that was not asked for");
        fake_leave(&agent, run);
    }
}

/* ---- threads ---- */

static void many_threads_get_their_own_answers(void **state)
{
    enum { THREADS = 32 };
    static char keys[THREADS][8];
    struct caller c[THREADS];
    struct asked m[THREADS];
    mu_run *run = fake_join(&agent, FAKE_LIFE);

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < THREADS; i++) {
            snprintf(keys[i], sizeof(keys[i]), "k%d", i);
            c[i] = (struct caller){.run = run, .key = keys[i], .timeout_ms = 20000};
            begin(&c[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            m[i] = next_asked();
        }
        for (int i = THREADS; i-- > 0;) {
            item(&m[i], m[i].key, m[i].key, 1, false);
        }
        for (int i = 0; i < THREADS; i++) {
            expect_ok(&c[i]);
            expect_item(&c[i].setting, keys[i], keys[i], 1);
            mu_setting_free(&c[i].setting);
        }
    }
    fake_leave(&agent, run);
}

/* ---- mu_resize ---- */

/* Whatever the agent has said before is known to the worker. */
static void until_heard(mu_run *run)
{
    struct caller c = {.run = run, .verb = ASKED_GET, .key = "k", .timeout_ms = MU_FOREVER};
    struct asked m;

    begin(&c);
    m = next_asked();
    item(&m, "k", "v", 1, false);
    expect_ok(&c);
    mu_setting_free(&c.setting);
}

static void a_resize_waits_for_nobody_and_a_refusal_is_logged(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct asked m;
    char text[1024];

    assert_int_equal(mu_resize(run, 12), MU_OK); /* Nobody has answered. */
    m = next_asked();
    assert_int_equal(m.verb, ASKED_PUT);
    assert_string_equal(m.key, "size");
    assert_true(m.expect == MU_ANY && m.value_n == 2 && m.wait_ms > 0);
    assert_memory_equal(m.value, "12", 2);
    unit_stderr_begin();
    refuse(&m, MU_EINVAL, "max is 8");
    until_heard(run);
    unit_stderr_end(text, sizeof(text));
    fake_explains(text, "max is 8");
    fake_leave(&agent, run);
}

static void of_two_resizes_the_last_one_matters(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    struct asked first, last;
    char text[1024];

    assert_int_equal(mu_resize(run, 9), MU_OK);
    assert_int_equal(mu_resize(run, 8), MU_OK);
    first = next_asked();
    last = next_asked();
    assert_true(first.request != last.request);
    unit_stderr_begin();
    refuse(&first, MU_EINVAL, "max is 8");
    item(&last, "size", "8", 5, false);
    until_heard(run);
    unit_stderr_end(text, sizeof(text));
    assert_string_equal(text, "");
    fake_leave(&agent, run);
}

static void a_resize_that_can_not_be_said_fails_at_once(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);

    assert_int_equal(mu_resize(run, 0), MU_EINVAL);
    assert_int_equal(mu_stop(run), MU_OK);
    assert_int_equal(mu_resize(run, 2), MU_EDONE);
    fake_leave(&agent, run);
}

static void alone_a_resize_is_a_setting(void **state)
{
    mu_setting s;
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_resize(run, 3), MU_OK);
    assert_int_equal(mu_config_get(run, "size", 0, &s), MU_OK);
    assert_string_equal(s.value, "3");
    mu_setting_free(&s);
    assert_int_equal(mu_leave(run), MU_OK);
}

/* ---- alone ---- */

static void alone_settings_have_versions_and_conditions(void **state)
{
    mu_settings list;
    mu_setting s;
    uint64_t v = 0;
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_config_get(run, "k", 0, &s), MU_ENOENT);
    assert_int_equal(mu_config_put(run, "k", "1", 1, 0, 0, &v), MU_OK);
    assert_true(v == 1);
    assert_int_equal(mu_config_put(run, "k", "2", 1, 0, 0, &v), MU_EEXIST);
    assert_int_equal(mu_config_put(run, "k", "2", 1, 5, 0, &v), MU_ECONFLICT);
    assert_int_equal(mu_config_put(run, "k", "2", 1, 1, 0, &v), MU_OK);
    assert_int_equal(mu_config_put(run, "a/b", NULL, 0, MU_ANY, 0, NULL), MU_OK);
    assert_int_equal(mu_config_get(run, "k", 0, &s), MU_OK);
    expect_item(&s, "k", "2", 2);
    mu_setting_free(&s);
    assert_int_equal(mu_config_list(run, "", 0, &list), MU_OK);
    assert_true(list.n == 2 && list.version == 3);
    expect_item(&list.items[0], "a/b", "", 3);
    mu_settings_free(&list);
    assert_int_equal(mu_config_list(run, "a/", 0, &list), MU_OK);
    assert_int_equal(list.n, 1);
    mu_settings_free(&list);
    assert_int_equal(mu_config_put(run, "size", "many", 4, MU_ANY, 0, NULL), MU_EINVAL);
    fake_explains(mu_error(), "whole number");
    assert_int_equal(mu_config_get(run, "a b", 0, &s), MU_EINVAL);
    assert_int_equal(mu_config_remove(run, "k", 1, 0), MU_ECONFLICT);
    assert_int_equal(mu_config_remove(run, "k", 2, 0), MU_OK);
    assert_int_equal(mu_config_remove(run, "k", MU_ANY, 0), MU_ENOENT);
    assert_int_equal(mu_progress(run, 3), MU_OK);
    assert_int_equal(mu_leave(run), MU_OK);
}

static void alone_a_watch_sees_what_another_thread_changes(void **state)
{
    struct caller c = {.verb = ASKED_WATCH, .key = "a/", .timeout_ms = MU_FOREVER};
    mu_settings changed;

    assert_int_equal(mu_join(NULL, &c.run), MU_OK);
    begin(&c);
    assert_int_equal(mu_config_put(c.run, "b", "x", 1, 0, 0, NULL), MU_OK);
    assert_int_equal(mu_config_put(c.run, "a/1", "x", 1, 0, 0, NULL), MU_OK);
    expect_ok(&c);
    assert_true(c.settings.n == 1 && c.settings.version == 2);
    expect_item(&c.settings.items[0], "a/1", "x", 2);
    mu_settings_free(&c.settings);
    assert_int_equal(mu_config_remove(c.run, "a/1", MU_ANY, 0), MU_OK);
    assert_int_equal(mu_config_watch(c.run, "", 0, 0, &changed), MU_OK);
    assert_true(changed.n == 2 && changed.version == 3);
    expect_item(&changed.items[0], "a/1", NULL, 3);
    expect_item(&changed.items[1], "b", "x", 1);
    mu_settings_free(&changed);
    assert_int_equal(mu_config_watch(c.run, "b", 1, 20, &changed), MU_ETIMEDOUT);
    assert_int_equal(mu_config_watch(c.run, "b", 99, 0, &changed), MU_ESTALE);
    assert_int_equal(mu_leave(c.run), MU_OK);
}

struct adder {
    pthread_t thread;
    mu_run *run;
};

/* Adds one, as all who read, change and try again do. */
static void *add_main(void *arg)
{
    const struct adder *a = arg;

    for (int i = 0; i < 50; i++) {
        char text[16];
        mu_setting s;
        int rc;

        do {
            assert_int_equal(mu_config_get(a->run, "n", 0, &s), MU_OK);
            snprintf(text, sizeof(text), "%d", atoi(s.value) + 1);
            rc = mu_config_put(a->run, "n", text, strlen(text), s.version, 0, NULL);
            mu_setting_free(&s);
        } while (rc == MU_ECONFLICT);
        assert_int_equal(rc, MU_OK);
    }
    return NULL;
}

static void alone_no_update_of_many_threads_is_lost(void **state)
{
    struct adder a[16];
    mu_setting s;
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_config_put(run, "n", "0", 1, 0, 0, NULL), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        a[i].run = run;
        assert_int_equal(pthread_create(&a[i].thread, NULL, add_main, &a[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        pthread_join(a[i].thread, NULL);
    }
    assert_int_equal(mu_config_get(run, "n", 0, &s), MU_OK);
    assert_string_equal(s.value, "800");
    mu_setting_free(&s);
    assert_int_equal(mu_leave(run), MU_OK);
}

static void alone_the_limits_are_those_of_an_orchestrator(void **state)
{
    static char large[MU_VALUE_MAX];
    mu_settings list;
    char key[16];
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof(key), "large%d", i);
        assert_int_equal(mu_config_put(run, key, large, sizeof(large), 0, 0, NULL), MU_OK);
    }
    assert_int_equal(mu_config_put(run, "more", "x", 1, 0, 0, NULL), MU_ELIMIT);
    for (int i = 4; i < 256; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(mu_config_put(run, key, NULL, 0, 0, 0, NULL), MU_OK);
    }
    assert_int_equal(mu_config_put(run, "more", NULL, 0, 0, 0, NULL), MU_ELIMIT);
    assert_int_equal(mu_config_list(run, "", 0, &list), MU_OK);
    assert_int_equal(list.n, 256);
    mu_settings_free(&list);
    assert_int_equal(mu_leave(run), MU_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_read),
        cmocka_unit_test(all_that_begin_with_a_prefix_are_listed_by_key),
        cmocka_unit_test(a_list_that_broke_off_is_taken_from_its_beginning),
        cmocka_unit_test(a_put_has_its_condition_and_gives_the_version),
        cmocka_unit_test(every_refusal_is_passed_on_with_its_text),
        cmocka_unit_test(a_watch_brings_what_changed_and_where_to_go_on),
        cmocka_unit_test(a_watch_that_brings_nothing_says_so_when_its_time_is_over),
        cmocka_unit_test(the_largest_value_passes_both_ways),
        cmocka_unit_test(what_is_no_key_is_not_sent),
        cmocka_unit_test(a_call_ends_even_if_nobody_answers),
        cmocka_unit_test(a_worker_that_goes_on_as_another_gets_its_answer),
        cmocka_unit_test(the_end_of_the_run_ends_calls_that_wait),
        cmocka_unit_test(an_agent_that_dies_ends_calls_that_wait),
        cmocka_unit_test(leaving_ends_calls_of_other_threads),
        cmocka_unit_test(an_answer_without_sense_ends_the_connection),
        cmocka_unit_test(many_threads_get_their_own_answers),
        cmocka_unit_test(a_resize_waits_for_nobody_and_a_refusal_is_logged),
        cmocka_unit_test(of_two_resizes_the_last_one_matters),
        cmocka_unit_test(a_resize_that_can_not_be_said_fails_at_once),
        cmocka_unit_test(alone_a_resize_is_a_setting),
        cmocka_unit_test(alone_settings_have_versions_and_conditions),
        cmocka_unit_test(alone_a_watch_sees_what_another_thread_changes),
        cmocka_unit_test(alone_no_update_of_many_threads_is_lost),
        cmocka_unit_test(alone_the_limits_are_those_of_an_orchestrator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
