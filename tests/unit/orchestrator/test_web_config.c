/* Settings by HTTP: values, versions as entity tags, conditions, waiting, streams. */
#include "unit/orchestrator/web_kit.h"
#include "unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL "/v1/jobs/job/config"
#define KEY(key) ALL "/" key
#define SSE "Accept: text/event-stream\r\n"

static struct puppet node;

/* With a job that has one node. */
static int setup(void **state)
{
    web_setup(state);
    ((struct kit *)*state)->cluster.settings.keys_n = 8;
    ((struct kit *)*state)->cluster.settings.window_n = 6;
    ((struct kit *)*state)->cluster.settings.total_bytes = 100u << 10;
    kit_start(*state);
    puppet_alone(&node, *state, "job", "a");
    return 0;
}

static int teardown(void **state)
{
    puppet_close(&node);
    return kit_teardown(state);
}

/* Its new version. */
static uint64_t put(const struct kit *k, const char *path, const char *headers, const char *value,
                    unsigned status)
{
    struct web_reply r = web_ask(k, HTTP_OPERATOR, "PUT", path, headers, value);
    uint64_t version = web_etag_of(&r);

    if (r.status != status) {
        fail_msg("PUT %s: wanted %u, got: %s%s", path, status, r.head, r.body);
    }
    free(r.body);
    return version;
}

static void get(const struct kit *k, const char *path, const char *headers, unsigned status,
                const char *body)
{
    struct web_reply r = web_ask(k, HTTP_VIEWER, "GET", path, headers, NULL);

    assert_int_equal(r.status, status);
    assert_string_equal(r.body, body);
    free(r.body);
}

/* ---- values ---- */

static void a_setting_is_put_read_changed_and_removed(void **state)
{
    struct kit *k = *state;
    struct web_reply r;

    get(k, ALL, NULL, 200, "{\"job\":\"job\",\"version\":0,\"settings\":[]}");
    assert_int_equal(put(k, KEY("lr/base"), NULL, "0.1", 201), 1);
    assert_int_equal(put(k, KEY("lr/base"), NULL, "0.2", 200), 2);
    assert_int_equal(put(k, KEY("empty"), NULL, NULL, 201), 3);
    r = web_ask(k, HTTP_VIEWER, "GET", KEY("lr/base"), NULL, NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "0.2");
    assert_string_equal(web_header(&r, "ETag"), "\"2\"");
    assert_string_equal(web_header(&r, "Muster-Version"), "3");
    assert_string_equal(web_header(&r, "Content-Type"), "text/plain; charset=utf-8");
    free(r.body);
    get(k, KEY("lr/base"), "Accept: application/json\r\n", 200,
        "{\"key\":\"lr/base\",\"version\":2,\"value\":\"0.2\"}");
    get(k, KEY("empty"), NULL, 200, "");
    get(k, ALL "?prefix=lr", NULL, 200,
        "{\"job\":\"job\",\"version\":3,\"settings\":[{\"key\":\"lr/base\",\"version\":2,"
        "\"value\":\"0.2\"}]}");
    web_gives(k, HTTP_OPERATOR, "DELETE", KEY("lr/base"), NULL, NULL, 204, NULL);
    web_gives(k, HTTP_OPERATOR, "DELETE", KEY("lr/base"), NULL, NULL, 404, "lr/base");
    web_gives(k, HTTP_VIEWER, "GET", KEY("lr/base"), NULL, NULL, 404, "lr/base");
}

static void any_bytes_are_a_value(void **state)
{
    static const char bytes[] = "\0\xff\r\n\r\n";
    struct kit *k = *state;
    struct web_conn c =
        web_say(k, HTTP_OPERATOR, "PUT", KEY("raw"), NULL, bytes, sizeof(bytes) - 1);
    struct web_reply r = web_reply(&c);

    assert_int_equal(r.status, 201);
    free(r.body);
    r = web_ask(k, HTTP_VIEWER, "GET", KEY("raw"), NULL, NULL);
    assert_int_equal(r.body_n, sizeof(bytes) - 1);
    assert_memory_equal(r.body, bytes, sizeof(bytes) - 1);
    assert_string_equal(web_header(&r, "Content-Type"), "application/octet-stream");
    free(r.body);
    get(k, KEY("raw"), "Accept: application/json\r\n", 200,
        "{\"key\":\"raw\",\"version\":1,\"value_base64\":\"AP8NCg0K\"}");
}

static void what_is_not_right_is_refused_and_changes_nothing(void **state)
{
    struct kit *k = *state;
    static char big[(64 << 10) + 2];
    char path[64];

    web_gives(k, HTTP_OPERATOR, "PUT", KEY("size"), NULL, "0", 400, "size");
    web_gives(k, HTTP_OPERATOR, "PUT", KEY("size"), NULL, "7", 400, "min and max");
    web_gives(k, HTTP_OPERATOR, "PUT", KEY("paused"), NULL, "maybe", 400, "true or false");
    web_gives(k, HTTP_OPERATOR, "PUT", KEY("a%20b"), NULL, "1", 400, NULL);
    web_gives(k, HTTP_VIEWER, "GET", KEY("a%20b"), NULL, NULL, 400, NULL);
    memset(big, 'x', sizeof(big) - 1);
    web_gives(k, HTTP_OPERATOR, "PUT", KEY("big"), NULL, big, 413, "65536");
    get(k, ALL, NULL, 200, "{\"job\":\"job\",\"version\":0,\"settings\":[]}");
    big[sizeof(big) - 2] = '\0';
    put(k, KEY("big"), NULL, big, 201);
    web_gives(k, HTTP_OPERATOR, "PUT", KEY("bigger"), NULL, big, 507, NULL);
    for (int i = 0; i < 7; i++) {
        snprintf(path, sizeof(path), ALL "/key-%d", i);
        put(k, path, NULL, "x", 201);
    }
    web_gives(k, HTTP_OPERATOR, "PUT", KEY("one-more"), NULL, "x", 507, NULL);
    web_gives(k, HTTP_VIEWER, "GET", KEY("one-more"), NULL, NULL, 404, NULL);
}

/* ---- conditions ---- */

static void a_change_can_depend_on_the_version(void **state)
{
    struct kit *k = *state;
    struct web_reply r;

    put(k, KEY("a"), "If-Match: *\r\n", "0", 412);
    put(k, KEY("a"), "If-Match: \"1\"\r\n", "0", 412);
    put(k, KEY("a"), "If-None-Match: *\r\n", "1", 201);
    r = web_ask(k, HTTP_OPERATOR, "PUT", KEY("a"), "If-None-Match: *\r\n", "2");
    assert_int_equal(r.status, 412);
    assert_int_equal(web_etag_of(&r), 1);
    assert_non_null(strstr(r.body, "\"version\":1"));
    free(r.body);
    put(k, KEY("a"), "If-Match: \"7\"\r\n", "2", 412);
    put(k, KEY("a"), "If-Match: W/\"1\"\r\n", "2", 412);
    put(k, KEY("a"), "If-None-Match: \"3\", \"1\"\r\n", "2", 412);
    put(k, KEY("a"), "If-Match: 1\r\n", "2", 400);
    get(k, KEY("a"), NULL, 200, "1");
    assert_int_equal(put(k, KEY("a"), "If-Match: \"7\", \"1\"\r\n", "2", 200), 2);
    assert_int_equal(put(k, KEY("a"), "If-Match: *\r\n", "3", 200), 3);
    assert_int_equal(put(k, KEY("a"), "If-None-Match: \"2\"\r\n", "4", 200), 4);
    web_gives(k, HTTP_OPERATOR, "DELETE", KEY("a"), "If-Match: \"3\"\r\n", NULL, 412,
              "\"version\":4");
    web_gives(k, HTTP_OPERATOR, "DELETE", KEY("a"), "If-Match: \"4\"\r\n", NULL, 204, NULL);
    r = web_ask(k, HTTP_OPERATOR, "PUT", KEY("a"), "If-Match: \"4\"\r\n", "5");
    assert_int_equal(r.status, 412);
    assert_non_null(strstr(r.body, "\"version\":null"));
    free(r.body);
}

static void what_is_known_is_not_sent_again(void **state)
{
    struct kit *k = *state;

    put(k, KEY("a"), NULL, "1", 201);
    put(k, KEY("b"), NULL, "1", 201);
    get(k, KEY("a"), "If-None-Match: \"1\"\r\n", 304, "");
    get(k, KEY("a"), "If-None-Match: W/\"1\"\r\n", 304, "");
    get(k, KEY("a"), "If-None-Match: \"2\"\r\n", 200, "1");
    get(k, ALL, "If-None-Match: \"2\"\r\n", 304, "");
    web_gives(k, HTTP_VIEWER, "GET", KEY("a"), "If-None-Match: what\r\n", NULL, 400, NULL);
}

/* Many at once on one version: one of them is right. */
static void of_those_who_expect_the_same_version_one_succeeds(void **state)
{
    struct kit *k = *state;
    struct web_conn c[16];
    unsigned changed_n = 0;

    put(k, KEY("n"), NULL, "0", 201);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        c[i] = web_say(k, HTTP_OPERATOR, "PUT", KEY("n"), "If-Match: \"1\"\r\n", "1", 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        struct web_reply r = web_reply(&c[i]);

        assert_true(r.status == 200 || r.status == 412);
        changed_n += r.status == 200;
        free(r.body);
    }
    assert_int_equal(changed_n, 1);
    /* With a condition that still holds, all of them are taken one after the other. */
    for (size_t i = 0; i < 4; i++) {
        c[i] = web_say(k, HTTP_OPERATOR, "PUT", KEY("n"), "If-Match: *\r\n", "2", 1);
    }
    for (size_t i = 0; i < 4; i++) {
        struct web_reply r = web_reply(&c[i]);

        assert_int_equal(r.status, 200);
        free(r.body);
    }
    get(k, KEY("n"), "Accept: application/json\r\n", 200,
        "{\"key\":\"n\",\"version\":6,\"value\":\"2\"}");
}

static void settings_survive_kill_9_with_their_versions(void **state)
{
    struct kit *k = *state;

    put(k, KEY("a"), NULL, "1", 201);
    put(k, KEY("b"), NULL, "2", 201);
    kit_kill(k);
    kit_start(k);
    get(k, KEY("b"), "Accept: application/json\r\n", 200,
        "{\"key\":\"b\",\"version\":2,\"value\":\"2\"}");
    assert_int_equal(put(k, KEY("b"), "If-Match: \"2\"\r\n", "3", 200), 3);
}

/* ---- waiting ---- */

static struct web_conn wait_for(const struct kit *k, const char *path)
{
    return web_say(k, HTTP_VIEWER, "GET", path, NULL, NULL, 0);
}

/* How many requests of others it has not answered yet. */
static unsigned figure(const struct kit *k, const char *name)
{
    struct web_reply r = web_ask(k, HTTP_VIEWER, "GET", "/metrics", NULL, NULL);
    const char *at = strstr(r.body, name);
    unsigned n;

    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), " %u", &n), 1);
    free(r.body);
    return n;
}

static void until_connections(const struct kit *k, unsigned n)
{
    for (int i = 0; figure(k, "\nmuster_http_connections") != n; i++) {
        assert_true(i < KIT_WAIT_MS / 20);
        usleep(20000);
    }
}

static void a_wait_ends_with_a_change_of_what_it_waits_for(void **state)
{
    struct kit *k = *state;
    struct web_conn key, folder, all;
    struct web_reply r;

    put(k, KEY("f/a"), NULL, "1", 201);
    put(k, KEY("b"), NULL, "1", 201);
    key = wait_for(k, KEY("f/a") "?wait=1");
    folder = wait_for(k, ALL "?prefix=f/&wait=2");
    all = wait_for(k, ALL "?wait=2");
    until_connections(k, 4);
    put(k, KEY("b"), NULL, "2", 200);
    r = web_reply(&all);
    assert_int_equal(r.status, 200);
    assert_int_equal(web_etag_of(&r), 3);
    free(r.body);
    until_connections(k, 3); /* The others wait on. */
    put(k, KEY("f/a"), NULL, "5", 200);
    r = web_reply(&key);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "5");
    assert_int_equal(web_etag_of(&r), 4);
    free(r.body);
    r = web_reply(&folder);
    assert_string_equal(r.body, "{\"job\":\"job\",\"version\":4,\"settings\":[{\"key\":\"f/a\","
                                "\"version\":4,\"value\":\"5\"}]}");
    free(r.body);
}

static void a_wait_for_what_has_changed_already_is_answered_at_once(void **state)
{
    struct kit *k = *state;
    struct web_conn c;
    struct web_reply r;

    for (int i = 0; i < 10; i++) {
        put(k, KEY("a"), NULL, "1", i == 0 ? 201 : 200);
    }
    get(k, KEY("a") "?wait=9", NULL, 200, "1");
    get(k, KEY("a") "?wait=0", NULL, 200, "1");  /* The window begins later. */
    get(k, KEY("a") "?wait=99", NULL, 200, "1"); /* No such version: of another store. */
    c = wait_for(k, KEY("a") "?wait=10");
    until_connections(k, 2);
    web_gives(k, HTTP_OPERATOR, "DELETE", KEY("a"), NULL, NULL, 204, NULL);
    r = web_reply(&c);
    assert_int_equal(r.status, 404);
    assert_string_equal(web_header(&r, "Muster-Version"), "11");
    free(r.body);
}

static void a_wait_ends_with_its_time(void **state)
{
    struct kit *k = *state;
    struct web_reply r;

    put(k, KEY("a"), NULL, "1", 201);
    r = web_ask(k, HTTP_VIEWER, "GET", KEY("a") "?wait=1&timeout=0", NULL, NULL);
    assert_int_equal(r.status, 304);
    assert_int_equal(web_etag_of(&r), 1);
    free(r.body);
    get(k, ALL "?wait=1&timeout=1", NULL, 304, "");
    web_gives(k, HTTP_VIEWER, "GET", ALL "?wait=1&timeout=301", NULL, NULL, 400, "timeout");
    web_gives(k, HTTP_VIEWER, "GET", ALL "?wait=x", NULL, NULL, 400, "wait");
    web_gives(k, HTTP_VIEWER, "GET", ALL "?wait=", NULL, NULL, 400, "wait");
    web_gives(k, HTTP_VIEWER, "GET", ALL "?prefix=f&wait=1", NULL, NULL, 400, "'/'");
}

static void one_who_waits_and_goes_is_forgotten(void **state)
{
    struct kit *k = *state;
    struct web_conn c[3];

    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        c[i] = wait_for(k, ALL "?wait=0&timeout=300");
    }
    until_connections(k, 4);
    web_hang_up(&c[0]);
    web_hang_up(&c[1]);
    until_connections(k, 2);
    put(k, KEY("a"), NULL, "1", 201);
    struct web_reply r = web_reply(&c[2]);

    assert_int_equal(r.status, 200);
    free(r.body);
}

static void who_waits_is_told_when_the_orchestrator_goes(void **state)
{
    struct kit *k = *state;
    struct web_conn c = wait_for(k, ALL "?wait=0"), stream;
    struct web_reply r;

    stream = web_say(k, HTTP_VIEWER, "GET", ALL, SSE, NULL, 0);
    until_connections(k, 3);
    kit_stop(k);
    r = web_reply(&c);
    assert_int_equal(r.status, 503);
    assert_string_equal(web_header(&r, "Retry-After"), "1");
    free(r.body);
    r = web_reply(&stream);
    assert_int_equal(r.status, 200);
    free(r.body);
    kit_start(k);
}

/* ---- streams ---- */

static void a_stream_begins_with_all_and_goes_on_with_changes(void **state)
{
    struct kit *k = *state;
    struct web_conn c;
    const char *all;

    put(k, KEY("b"), NULL, "1", 201);
    put(k, KEY("a"), NULL, "2", 201);
    c = web_say(k, HTTP_VIEWER, "GET", ALL, SSE, NULL, 0);
    all = web_expect(&c, "id: 2\nevent: set\ndata: {\"key\":\"a\",\"version\":2,\"value\":\"2\"}");
    assert_non_null(strstr(all, "id: 1\nevent: set\n"));
    put(k, KEY("f/x"), NULL, "3", 201);
    web_gives(k, HTTP_OPERATOR, "DELETE", KEY("a"), NULL, NULL, 204, NULL);
    all = web_expect(&c, "id: 4\nevent: removed\ndata: {\"key\":\"a\",\"version\":4}\n\n");
    assert_non_null(strstr(all, "\"f/x\""));
    assert_null(strstr(strstr(all, "\"f/x\"") + 1, "\"f/x\"")); /* once */
    web_hang_up(&c);
    c = web_say(k, HTTP_VIEWER, "GET", ALL, SSE "Last-Event-ID: 3\r\n", NULL, 0);
    all = web_expect(&c, "id: 4\nevent: removed\n");
    assert_null(strstr(all, "id: 3\n"));
    assert_null(strstr(all, "gap"));
    web_hang_up(&c);
    c = web_say(k, HTTP_VIEWER, "GET", ALL "?since=3&follow=1", NULL, NULL, 0);
    web_expect(&c, "id: 4\nevent: removed\n");
    web_hang_up(&c);
}

static void a_stream_of_a_key_or_a_folder_has_just_that(void **state)
{
    struct kit *k = *state;
    struct web_conn key, folder;
    const char *all;

    put(k, KEY("f/a"), NULL, "1", 201);
    put(k, KEY("f"), NULL, "1", 201);
    key = web_say(k, HTTP_VIEWER, "GET", KEY("f/a"), SSE, NULL, 0);
    folder = web_say(k, HTTP_VIEWER, "GET", ALL "?prefix=f/", SSE, NULL, 0);
    web_expect(&key, "id: 1\n");
    web_expect(&folder, "id: 1\n");
    put(k, KEY("f"), NULL, "2", 200);
    put(k, KEY("f/g/b"), NULL, "2", 201);
    put(k, KEY("f/a"), NULL, "2", 200);
    all = web_expect(&key, "id: 5\n");
    assert_null(strstr(all, "id: 2\n"));
    assert_null(strstr(all, "id: 3\n"));
    assert_null(strstr(all, "id: 4\n"));
    all = web_expect(&folder, "id: 5\n");
    assert_non_null(strstr(all, "id: 4\n"));
    assert_null(strstr(all, "id: 3\n"));
    web_hang_up(&key);
    web_hang_up(&folder);
    web_gives(k, HTTP_VIEWER, "GET", ALL "?prefix=f&follow=1", NULL, NULL, 400, "'/'");
    web_gives(k, HTTP_VIEWER, "GET", ALL "?since=x&follow=1", NULL, NULL, 400, "since");
}

static void a_stream_from_too_far_back_begins_with_a_gap_and_all(void **state)
{
    struct kit *k = *state;
    struct web_conn c;
    const char *all;

    put(k, KEY("a"), NULL, "1", 201);
    for (int i = 0; i < 10; i++) {
        put(k, KEY("b"), NULL, "1", i == 0 ? 201 : 200);
    }
    c = web_say(k, HTTP_VIEWER, "GET", ALL, SSE "Last-Event-ID: 1\r\n", NULL, 0);
    all = web_expect(&c, "id: 11\n");
    assert_non_null(strstr(all, "event: gap\n"));
    assert_non_null(strstr(all, "id: 1\nevent: set\n"));
    web_hang_up(&c);
}

/* What was wanted of the last run is taken back by the next without records of its own. */
static void a_new_run_s_changes_are_in_the_stream(void **state)
{
    struct kit *k = *state;
    struct web_conn c;
    struct msg_bye bye;
    struct puppet next;
    char text[TEXT_MAX_LEN];

    put(k, KEY("size"), NULL, "1", 201);
    put(k, KEY("lr"), NULL, "1", 201);
    c = web_say(k, HTTP_VIEWER, "GET", ALL, SSE, NULL, 0);
    web_expect(&c, "id: 2\n");
    assert_int_equal(kit_admin(k, ASK_SHUTDOWN, "job", "", text), MU_OK);
    puppet_next(&node, WIRE_ENDED);
    bye = (struct msg_bye){node.hello.node, node.hello.store, node.hello.incarnation, 0};
    kit_say(node.cl, WIRE_BYE, &bye, 0);
    kit_logged(k, "is gone");
    puppet_init(&next, "job", "b", 1, 1);
    next.hello.flags = NODE_RERUN;
    puppet_join(&next, k);
    web_expect(&c, "id: 3\nevent: removed\ndata: {\"key\":\"size\",\"version\":3}\n\n");
    web_hang_up(&c);
    puppet_close(&next);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_setting_is_put_read_changed_and_removed),
        CASE(any_bytes_are_a_value),
        CASE(what_is_not_right_is_refused_and_changes_nothing),
        CASE(a_change_can_depend_on_the_version),
        CASE(what_is_known_is_not_sent_again),
        CASE(of_those_who_expect_the_same_version_one_succeeds),
        CASE(settings_survive_kill_9_with_their_versions),
        CASE(a_wait_ends_with_a_change_of_what_it_waits_for),
        CASE(a_wait_for_what_has_changed_already_is_answered_at_once),
        CASE(a_wait_ends_with_its_time),
        CASE(one_who_waits_and_goes_is_forgotten),
        CASE(who_waits_is_told_when_the_orchestrator_goes),
        CASE(a_stream_begins_with_all_and_goes_on_with_changes),
        CASE(a_stream_of_a_key_or_a_folder_has_just_that),
        CASE(a_stream_from_too_far_back_begins_with_a_gap_and_all),
        CASE(a_new_run_s_changes_are_in_the_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
