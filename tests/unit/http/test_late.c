/* Answers that come late or never, clients that go or stall, and closing in the midst of it. */
#include "unit/http/http_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void get(struct http_client *c, const char *path)
{
    http_client_send(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
                     path, http_kit_viewer);
}

static struct http_client ask(const char *path)
{
    struct http_client c = http_kit_connect(&kit);

    get(&c, path);
    return c;
}

static void expect_reply(struct http_client *c, unsigned status, const char *text)
{
    struct http_reply r = http_client_reply(c, false);

    assert_int_equal(r.status, status);
    assert_non_null(strstr(r.body, text));
    free(r.body);
}

/* Several wait; each gets its own, in whatever order, and others are answered meanwhile. */
static void an_answer_may_come_later(void **state)
{
    struct http_client late[4];

    for (uint32_t i = 0; i < 4; i++) {
        late[i] = ask("/late");
        http_kit_wait(&kit, kit.late_n == i + 1);
        assert_ptr_equal(http_data(kit.late[i]), &kit.late[i]);
    }
    assert_int_equal(http_kit_stats(&kit).queued_n, 4);
    struct http_client other = ask("/");

    expect_reply(&other, 200, "root");
    for (int i = 3; i >= 0; i--) {
        char *text;

        assert_true(asprintf(&text, "number %d", i) > 0);
        http_answer(kit.late[i], 201, "text/plain", text, strlen(text));
    }
    for (int i = 0; i < 4; i++) {
        char text[32];

        snprintf(text, sizeof(text), "number %d", i);
        expect_reply(&late[i], 201, text);
        http_client_close(&late[i]);
    }
    http_client_close(&other);
    assert_int_equal(http_kit_stats(&kit).queued_n, 0);
}

static void a_client_that_went_is_known_and_costs_nothing_once_answered(void **state)
{
    struct http_client c = ask("/late");

    http_kit_wait(&kit, kit.late_n == 1);
    assert_false(http_gone(kit.late[0]));
    http_client_close(&c);
    http_kit_wait(&kit, http_gone(kit.late[0]));
    http_answer_error(kit.late[0], 410, NULL, "too late");
    http_kit_wait(&kit, http_kit_stats(&kit).conns_n == 0);
}

static void an_error_of_any_text_is_json(void **state)
{
    static const char *const texts[] = {"caf\xc3\xa9 \"quoted\"", "caf\xe9 \xff\x01\n", ""};
    static const char *const wanted[] = {"{\"error\": \"caf\xc3\xa9 \\\"quoted\\\"\"}",
                                         "{\"error\": \"caf? ?\\u0001\\n\", \"hint\": \"h\"}",
                                         "{\"error\": \"\"}"};

    for (uint32_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct http_client c = ask("/late");

        http_kit_wait(&kit, kit.late_n == i + 1);
        http_answer_error(kit.late[i], 409, i == 1 ? "h" : NULL, "%s", texts[i]);
        expect_reply(&c, 409, wanted[i]);
        http_client_close(&c);
    }
}

static void an_answer_without_a_body_has_none(void **state)
{
    static const unsigned statuses[] = {200, 204, 304};
    struct http_client c = ask("/late");

    for (uint32_t i = 0; i < ARRAY_LEN(statuses); i++) {
        http_kit_wait(&kit, kit.late_n == i + 1);
        http_answer(kit.late[i], statuses[i], NULL, NULL, 0);
        expect_reply(&c, statuses[i], "");
        get(&c, i + 1 < ARRAY_LEN(statuses) ? "/late" : "/");
    }
    expect_reply(&c, 200, "root");
    http_client_close(&c);
}

static void when_too_many_wait_the_next_is_told_to_come_back(void **state)
{
    kit.config.limits.queue_max = 2;
    http_kit_open(&kit);
    struct http_client a = ask("/late"), b = ask("/late"), c;

    http_kit_wait(&kit, kit.late_n == 2);
    c = ask("/");
    struct http_reply r = http_client_reply(&c, false);

    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "Retry-After: 1\r\n"));
    free(r.body);
    http_answer(kit.late[0], 200, "text/plain", strdup("a"), 1);
    expect_reply(&a, 200, "a");
    get(&c, "/");
    expect_reply(&c, 200, "root");
    http_answer(kit.late[1], 200, "text/plain", strdup("b"), 1);
    expect_reply(&b, 200, "b");
    http_client_close(&a);
    http_client_close(&b);
    http_client_close(&c);
}

/* ---- closing ---- */

static void shut(void)
{
    http_close(kit.h);
    kit.h = NULL;
}

static void closing_ends_connections_and_late_answers_are_only_freed(void **state)
{
    struct http_client c[3] = {ask("/late"), ask("/late"), ask("/late")};

    http_kit_wait(&kit, kit.late_n == 3);
    shut();
    for (int i = 0; i < 3; i++) {
        http_client_expect_end(&c[i]);
        assert_int_equal(c[i].in_n, 0);
        http_client_close(&c[i]);
    }
    assert_true(http_gone(kit.late[0]));
    assert_ptr_equal(http_data(kit.late[1]), &kit.late[1]);
    http_answer(kit.late[0], 200, "text/plain", strdup("x"), 1);
    http_answer_error(kit.late[1], 500, NULL, "x");
    http_kit_turn(&kit);
    http_stream(kit.late[2], kit.feed, "", 1, strdup("x"), 1);
}

static void closing_drops_what_no_handler_has_seen(void **state)
{
    struct http_client c[3] = {ask("/late"), ask("/"), ask("/stream/all")};

    while (http_kit_stats(&kit).queued_n < 3) { /* The loop does not run. */
        usleep(1000);
    }
    shut();
    for (int i = 0; i < 3; i++) {
        http_client_expect_end(&c[i]);
        http_client_close(&c[i]);
    }
    assert_int_equal(kit.handled_n, 0);
}

static void a_handler_may_close_the_server(void **state)
{
    struct http_client a = ask("/late"), b = ask("/late");

    while (http_kit_stats(&kit).queued_n < 2) {
        usleep(1000);
    }
    kit.close_in_handler = true;
    http_kit_wait(&kit, kit.h == NULL);
    http_client_expect_end(&a);
    http_client_expect_end(&b);
    assert_int_equal(kit.late_n, 1);
    http_answer(kit.late[0], 200, NULL, NULL, 0);
    http_client_close(&a);
    http_client_close(&b);
}

static void an_answer_given_just_before_closing_arrives(void **state)
{
    struct http_client c = ask("/late");
    const size_t n = 200000;
    char *body = malloc(n);

    memset(body, 'z', n);
    http_kit_wait(&kit, kit.late_n == 1);
    http_answer(kit.late[0], 200, "text/plain", body, n);
    shut();
    struct http_reply r = http_client_reply(&c, false);

    assert_int_equal(r.body_n, n);
    free(r.body);
    http_client_expect_end(&c);
    http_client_close(&c);
}

static void closing_in_the_midst_of_requests_leaves_nothing(void **state)
{
    for (int round = 0; round < 20; round++) {
        struct http_client c[8];

        for (int i = 0; i < 8; i++) {
            c[i] = ask(i % 3 == 0 ? "/big?n=100000" : i % 3 == 1 ? "/stream/all" : "/");
        }
        for (int i = 0; i < round % 5; i++) {
            http_kit_turn(&kit);
            assert_int_equal(http_feed_push(kit.feed, "", "data: x\n\n", 9), MU_OK);
        }
        shut();
        for (int i = 0; i < 8; i++) {
            http_client_expect_end(&c[i]);
            http_client_close(&c[i]);
        }
        if (round < 19) {
            http_kit_open(&kit);
        }
    }
}

/* ---- those who stall ---- */

static void who_says_nothing_is_closed_and_who_waits_is_not(void **state)
{
    kit.config.limits.idle_s = 1;
    http_kit_open(&kit);
    struct http_client waiting = ask("/late");

    http_kit_wait(&kit, kit.late_n == 1);
    /* All of these come later, and are closed: then it has waited for longer than that. */
    struct http_client silent = http_kit_connect(&kit), half = http_kit_connect(&kit);
    struct http_client done = ask("/");

    http_client_send(&half, "GET / HTTP/1.1\r\nHo");
    expect_reply(&done, 200, "root");
    http_client_expect_end(&silent);
    http_client_expect_end(&half);
    http_client_expect_end(&done);
    http_answer(kit.late[0], 200, "text/plain", strdup("at last"), 7);
    expect_reply(&waiting, 200, "at last");
    http_client_close(&waiting);
    http_client_close(&silent);
    http_client_close(&half);
    http_client_close(&done);
}

static void who_does_not_read_an_answer_is_closed(void **state)
{
    kit.config.limits.idle_s = 1;
    http_kit_open(&kit);
    struct http_client c = ask("/big?n=50000000");

    http_kit_wait(&kit, kit.handled_n == 1);
    http_kit_wait(&kit, http_kit_stats(&kit).conns_n == 0);
    http_client_close(&c);
}

static void who_sends_a_byte_now_and_then_is_closed(void **state)
{
    kit.config.limits.request_ms = 300;
    kit.config.limits.comment_ms = 50;
    http_kit_open(&kit);
    struct http_client c = http_kit_connect(&kit), late = ask("/late");

    http_kit_wait(&kit, kit.late_n == 1);
    http_client_send(&c, "GET / HTTP/1.1\r\nX: ");
    while (!c.ended) {
        http_client_send(&c, "x");
        http_kit_turn(&kit);
        (void)http_client_pull(&c);
    }
    http_answer(kit.late[0], 200, "text/plain", strdup("late"), 4);
    expect_reply(&late, 200, "late");
    http_client_close(&late);
    http_client_close(&c);
}

/* They are kept for those who may ask again; but whoever comes is served. */
static void idle_connections_lock_nobody_out(void **state)
{
    static struct http_client c[2 * HTTP_CONNS_MAX];
    struct http_client old;
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    old = ask("/late"); /* It waits for an answer, and is not idle. */
    http_kit_wait(&kit, kit.late_n == 1);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        c[i] = ask("/");
        expect_reply(&c[i], 200, "root");
        assert_true(http_kit_stats(&kit).conns_n <= HTTP_CONNS_MAX);
    }
    http_answer(kit.late[0], 200, "text/plain", strdup("late"), 4);
    expect_reply(&old, 200, "late");
    http_client_close(&old);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        http_client_close(&c[i]);
    }
}

#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, http_kit_setup, http_kit_teardown)
#define WITH_LIMITS(test) \
    cmocka_unit_test_setup_teardown(test, http_kit_setup_closed, http_kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KIT(an_answer_may_come_later),
        WITH_KIT(a_client_that_went_is_known_and_costs_nothing_once_answered),
        WITH_KIT(an_error_of_any_text_is_json),
        WITH_KIT(an_answer_without_a_body_has_none),
        WITH_LIMITS(when_too_many_wait_the_next_is_told_to_come_back),
        WITH_KIT(closing_ends_connections_and_late_answers_are_only_freed),
        WITH_KIT(closing_drops_what_no_handler_has_seen),
        WITH_KIT(a_handler_may_close_the_server),
        WITH_KIT(an_answer_given_just_before_closing_arrives),
        WITH_KIT(closing_in_the_midst_of_requests_leaves_nothing),
        WITH_LIMITS(who_says_nothing_is_closed_and_who_waits_is_not),
        WITH_LIMITS(who_does_not_read_an_answer_is_closed),
        WITH_LIMITS(who_sends_a_byte_now_and_then_is_closed),
        WITH_KIT(idle_connections_lock_nobody_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
