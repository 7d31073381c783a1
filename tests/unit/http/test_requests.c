/* Requests: what reaches a handler, as what, and what is refused before. */
#include "unit/http/http_kit.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char as_viewer[128], as_operator[128];

static int open_kit(void **state)
{
    http_kit_setup(state);
    snprintf(as_viewer, sizeof(as_viewer), "Authorization: Bearer %s\r\n", http_kit_viewer);
    snprintf(as_operator, sizeof(as_operator), "Authorization: Bearer %s\r\n", http_kit_operator);
    return 0;
}

static int open_kit_later(void **state)
{
    http_kit_setup_closed(state);
    snprintf(as_viewer, sizeof(as_viewer), "Authorization: Bearer %s\r\n", http_kit_viewer);
    return 0;
}

static void answers(const char *method, const char *path, const char *headers, const char *body,
                    const char *text)
{
    struct http_reply r = http_kit_ask(&kit, method, path, headers, body);

    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, text);
    free(r.body);
}

static void a_handler_gets_parameters_query_headers_and_body(void **state)
{
    char headers[512];

    answers("GET", "/", as_viewer, NULL, "root");
    answers("GET", "/echo/one/two?y=a%20b+c&x=1&x=2", as_viewer, NULL,
            "a=one b=two x=1 y=a b c role=1 match=- last=- body=");
    snprintf(headers, sizeof(headers),
             "%sIf-Match: \"1\"\r\nif-match: \"2\"\r\nLast-Event-ID: 9\r\n", as_operator);
    answers("PUT", "/echo/a%2Fb/%C3%BC", headers, "{\"k\": 1}",
            "a=a/b b=\xc3\xbc x=- y=- role=2 match=\"1\", \"2\" last=9 body={\"k\": 1}");
    answers("PUT", "/keys/a/b%20c/d", as_viewer, "v",
            "a=a/b c/d b=- x=- y=- role=1 match=- last=- body=v");
}

static void answers_are_neither_cached_nor_sniffed_nor_run(void **state)
{
    struct http_reply r = http_kit_ask(&kit, "GET", "/echo/a/b", as_viewer, NULL);

    assert_non_null(strstr(r.head, "Cache-Control: no-store\r\n"));
    assert_non_null(strstr(r.head, "X-Content-Type-Options: nosniff\r\n"));
    assert_non_null(strstr(r.head, "Content-Security-Policy: default-src 'none'\r\n"));
    assert_non_null(strstr(r.head, "Content-Type: text/plain\r\n"));
    assert_non_null(strstr(r.head, "ETag: \"7\"\r\n"));
    free(r.body);
    r = http_kit_ask(&kit, "GET", "/big?n=3", as_viewer, NULL);
    assert_non_null(strstr(r.head, "Content-Security-Policy: default-src 'self'\r\n"));
    assert_null(strstr(r.head, "'none'"));
    free(r.body);
}

static void what_has_no_route_is_not_found(void **state)
{
    static const char *const paths[] = {
        "/nothing",
        "/echo/a",
        "/echo/a/b/c",
        "/echo/a/b/",
        "/echo//b",
        "/echo/../late",
        "/echo/%2e%2e/b",
        "/echo/%2E/b",
        "/echo/a%00b/c",
        "/echo/a%/b",
        "/echo/a%g1/b",
        "/keys/",
        "/keys/a/../b",
        "/keys/a//b",
        "/keys/a/%2e%2e/b",
        "/keys",
        "//",
        "/../etc/passwd",
        "/open/",
        "*",
        "/LATE",
        "/stream/%2e%2e",
    };

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        http_kit_refused(&kit, "GET", paths[i], as_operator, NULL, 404, "there is nothing at");
    }
}

static void another_method_is_told_which_there_are(void **state)
{
    struct http_reply r = http_kit_ask(&kit, "DELETE", "/echo/a/b", as_operator, NULL);

    assert_int_equal(r.status, 405);
    assert_non_null(strstr(r.head, "Allow: GET, HEAD, PUT\r\n"));
    free(r.body);
    http_kit_refused(&kit, "GET", "/operate", as_operator, NULL, 405, "it takes POST");
    http_kit_refused(&kit, "POST", "/open", as_operator, "x", 405, "it takes GET, HEAD");
    http_kit_refused(&kit, "OPTIONS", "/open", "", NULL, 405, "it takes GET, HEAD");
    http_kit_refused(&kit, "get", "/open", "", NULL, 405, "it takes GET, HEAD");
}

static void a_role_needs_its_token(void **state)
{
    char wrong[256];
    struct http_reply r;
    struct http_stats stats;

    answers("GET", "/open", "", NULL, "root");
    answers("GET", "/open", "Authorization: Bearer nonsense\r\n", NULL, "root");
    answers("GET", "/", as_operator, NULL, "root");
    answers("POST", "/operate", as_operator, "", "root");
    http_kit_refused(&kit, "POST", "/operate", as_viewer, "x", 403, "not enough");
    http_kit_refused(&kit, "GET", "/", "", NULL, 401, "no token");
    http_kit_refused(&kit, "POST", "/operate", "", "x", 401, "role operator");
    static const char *const schemes[] = {"Bearer ", "Bearer", "Basic ", "bearer  x", ""};

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        snprintf(wrong, sizeof(wrong), "Authorization: %s%.63s%c\r\n", schemes[i], http_kit_viewer,
                 http_kit_viewer[63] == '0' ? '1' : '0');
        http_kit_refused(&kit, "GET", "/", wrong, NULL, 401, "wrong");
    }
    snprintf(wrong, sizeof(wrong), "Authorization: Bearer %s0\r\n", http_kit_viewer);
    http_kit_refused(&kit, "GET", "/", wrong, NULL, 401, "wrong");
    snprintf(wrong, sizeof(wrong), "Authorization: Bearer %.62s\r\n", http_kit_viewer);
    http_kit_refused(&kit, "GET", "/", wrong, NULL, 401, "wrong");
    r = http_kit_ask(&kit, "GET", "/", "", NULL);
    assert_non_null(strstr(r.head, "WWW-Authenticate: Bearer\r\n"));
    free(r.body);
    http_stats(kit.h, &stats);
    assert_int_equal(stats.refused_n, 10);
    assert_int_equal(stats.requests_n[4], 11);
    assert_int_equal(stats.requests_n[2], 4);
    assert_int_equal(stats.queued_n, 0);
}

static void a_refused_token_is_logged_with_its_peer_and_once_a_second(void **state)
{
    char text[65536];

    log_set_level(LOG_WARN);
    unit_stderr_begin();
    for (int i = 0; i < 5; i++) {
        http_kit_refused(&kit, "GET", "/", "", NULL, 401, "no token");
    }
    unit_stderr_end(text, sizeof(text));
    assert_non_null(strstr(text, " http: refused 127.0.0.1:"));
    assert_non_null(strstr(text, "at /: no token was given"));
    assert_null(strstr(strchr(text, '\n'), "more like this\n"));
    size_t lines_n = 0;

    for (const char *p = text; *p != '\0'; p++) {
        lines_n += *p == '\n';
    }
    assert_in_range(lines_n, 1, 4); /* 1, unless this machine is very slow */
}

static unsigned ask_as(const char *host, const char *more)
{
    struct http_client c = http_kit_connect(&kit);
    struct http_reply r;

    http_client_send(&c, "GET /open HTTP/1.1\r\nHost: %s\r\n%s\r\n", host, more);
    r = http_client_reply(&c, false);
    if (r.status == 421) {
        assert_non_null(strstr(r.body, "--http-host"));
    }
    free(r.body);
    http_client_close(&c);
    return r.status;
}

static void a_name_that_is_not_ours_is_refused(void **state)
{
    assert_int_equal(ask_as("localhost", ""), 200);
    assert_int_equal(ask_as("LocalHost:1", ""), 200);
    assert_int_equal(ask_as("10.1.2.3:80", ""), 200);
    assert_int_equal(ask_as("[fe80::1]:80", ""), 200);
    assert_int_equal(ask_as("evil.example", ""), 421);
    assert_int_equal(ask_as("evil.example:80", ""), 421);
    assert_int_equal(ask_as("localhost.evil.example", ""), 421);
    assert_int_equal(ask_as("muster.example:99", ""), 421);
    assert_int_equal(ask_as("localhost", "Host: evil.example\r\n"), 400);
    http_kit_teardown(NULL);
    static const char *const hosts[] = {"other", "muster.example"};

    http_kit_init(&kit);
    kit.config.hosts = hosts;
    kit.config.hosts_n = 2;
    http_kit_open(&kit);
    assert_int_equal(ask_as("Muster.example.:99", ""), 200);
    assert_int_equal(ask_as("evil.example", ""), 421);
}

static void a_page_from_elsewhere_is_refused(void **state)
{
    assert_int_equal(ask_as("localhost:5", "Origin: http://localhost:5\r\n"), 200);
    assert_int_equal(ask_as("localhost:5", "Origin: https://localhost:5\r\n"), 403);
    assert_int_equal(ask_as("localhost:5", "Origin: http://localhost:6\r\n"), 403);
    assert_int_equal(ask_as("localhost:5", "Origin: http://evil.example\r\n"), 403);
    assert_int_equal(ask_as("localhost:5", "Origin: null\r\n"), 403);
}

static void a_head_has_the_headers_of_a_get_and_no_body(void **state)
{
    struct http_client c = http_kit_connect(&kit);
    struct http_reply r;

    http_client_send(&c, "HEAD /big?n=1000 HTTP/1.1\r\nHost: localhost\r\n%s\r\n", as_viewer);
    http_client_send(&c, "HEAD /stream/all HTTP/1.1\r\nHost: localhost\r\n%s\r\n", as_viewer);
    http_client_send(&c, "GET / HTTP/1.1\r\nHost: localhost\r\n%s\r\n", as_viewer);
    r = http_client_reply(&c, true);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "Content-Length: 1000\r\n"));
    free(r.body);
    r = http_client_reply(&c, true);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "Content-Type: text/event-stream\r\n"));
    free(r.body);
    r = http_client_reply(&c, false);
    assert_string_equal(r.body, "root");
    free(r.body);
    http_client_close(&c);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    struct http_client c = http_kit_connect(&kit);
    char text[64];

    for (int i = 0; i < 50; i++) {
        http_client_send(
            &c, "PUT /keys/%d HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 3\r\n\r\nabc", i,
            as_viewer);
    }
    for (int i = 0; i < 50; i++) {
        struct http_reply r = http_client_reply(&c, false);

        snprintf(text, sizeof(text), "a=%d b=- ", i);
        assert_non_null(strstr(r.body, text));
        assert_non_null(strstr(r.body, "body=abc"));
        free(r.body);
    }
    assert_int_equal(kit.handled_n, 50);
    http_client_close(&c);
}

static void a_large_answer_arrives_whole(void **state)
{
    struct http_reply r = http_kit_ask(&kit, "GET", "/big?n=3000001", as_viewer, NULL);

    assert_int_equal(r.body_n, 3000001);
    for (size_t i = 0; i < r.body_n; i++) {
        if (r.body[i] != (char)('a' + i % 26)) {
            fail_msg("byte %zu is wrong", i);
        }
    }
    free(r.body);
}

/* ---- bodies ---- */

static char *body_of(size_t n)
{
    char *body = malloc(n + 1);

    memset(body, 'x', n);
    body[n] = '\0';
    return body;
}

static void a_body_of_the_largest_size_is_taken_and_one_more_byte_is_not(void **state)
{
    char *body = body_of(HTTP_BODY_MAX);
    struct http_reply r = http_kit_ask(&kit, "PUT", "/keys/k", as_viewer, body);

    assert_int_equal(r.status, 200);
    assert_true(r.body_n > HTTP_BODY_MAX);
    free(r.body);
    free(body);
    body = body_of(HTTP_BODY_MAX + 1);
    http_kit_refused(&kit, "PUT", "/keys/k", as_viewer, body, 413, "at most");
    http_kit_refused(&kit, "PUT", "/keys/k", "", body, 401, "no token");
    free(body);
}

static void send_chunks(struct http_client *c, const char *headers, size_t chunks_n)
{
    char *chunk = body_of(4096);

    http_client_send(
        c, "PUT /keys/k HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n\r\n",
        headers);
    for (size_t i = 0; i < chunks_n; i++) {
        http_client_send(c, "1000\r\n%s\r\n", chunk);
    }
    http_client_send(c, "0\r\n\r\n");
    free(chunk);
}

static void a_chunked_body_is_bounded_too(void **state)
{
    struct http_client c = http_kit_connect(&kit);
    struct http_reply r;

    send_chunks(&c, as_viewer, 32);
    r = http_client_reply(&c, false);
    assert_int_equal(r.status, 200);
    free(r.body);
    send_chunks(&c, as_viewer, 33);
    r = http_client_reply(&c, false);
    assert_int_equal(r.status, 413);
    assert_non_null(strstr(r.head, "Connection: close\r\n"));
    free(r.body);
    http_client_expect_end(&c);
    http_client_close(&c);
    assert_int_equal(kit.handled_n, 1);
}

/* … though its client only ever sends. */
static void an_endless_body_is_cut_off(void **state)
{
    struct http_client c = http_kit_connect(&kit);
    char *bytes = body_of(65536);

    http_client_send(&c, "PUT /keys/k HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n",
                     as_viewer, 1 << 30);
    struct http_reply r = http_client_reply(&c, false);

    assert_int_equal(r.status, 413);
    free(r.body);
    http_client_close(&c);
    c = http_kit_connect(&kit);
    http_client_send(&c,
                     "PUT /keys/k HTTP/1.1\r\nHost: localhost\r\n%s"
                     "Transfer-Encoding: chunked\r\n\r\n40000000\r\n",
                     as_viewer);
    for (int i = 0; i < 1000 && !c.ended; i++) {
        http_client_send_bytes(&c, bytes, 65536);
        (void)http_client_pull(&c);
    }
    http_client_expect_end(&c);
    http_client_close(&c);
    free(bytes);
    assert_int_equal(kit.handled_n, 0);
}

static void who_asks_before_sending_a_large_body_is_told_no(void **state)
{
    struct http_client c = http_kit_connect(&kit);
    struct http_reply r;

    http_client_send(&c,
                     "PUT /keys/k HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 200000\r\n"
                     "Expect: 100-continue\r\n\r\n",
                     as_viewer);
    r = http_client_reply(&c, false);
    assert_int_equal(r.status, 413);
    free(r.body);
    http_client_close(&c);
    c = http_kit_connect(&kit);
    http_client_send(&c,
                     "PUT /keys/k HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 3\r\n"
                     "Expect: 100-continue\r\n\r\n",
                     as_viewer);
    http_client_expect(&c, "100 Continue");
    http_client_send(&c, "abc");
    r = http_client_reply(&c, false);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "body=abc"));
    free(r.body);
    http_client_close(&c);
}

static void a_body_that_ends_early_reaches_no_handler(void **state)
{
    struct http_client c;
    struct http_stats stats;

    kit.config.limits.idle_s = 1; /* Whoever goes in the midst of a line is noticed only then. */
    http_kit_open(&kit);
    c = http_kit_connect(&kit);

    http_client_send(&c,
                     "PUT /keys/k HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 10\r\n\r\nabc",
                     as_viewer);
    http_client_close(&c);
    c = http_kit_connect(&kit);
    http_client_send(&c,
                     "PUT /keys/k HTTP/1.1\r\nHost: localhost\r\n%s"
                     "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
                     as_viewer);
    http_client_close(&c);
    c = http_kit_connect(&kit);
    http_client_send(&c, "GET /late HTTP/1.1\r\nHost: loc");
    http_client_close(&c);
    do {
        http_kit_turn(&kit);
        http_stats(kit.h, &stats);
    } while (stats.requests_n[0] < 3 || stats.conns_n > 0);
    assert_int_equal(kit.handled_n, 0);
}

static void a_broken_query_is_a_bad_request(void **state)
{
    char path[512] = "/open?";

    http_kit_refused(&kit, "GET", "/open?x=%4", "", NULL, 400, "broken");
    http_kit_refused(&kit, "GET", "/open?x=%00", "", NULL, 400, "broken");
    for (int i = 0; i < 17; i++) {
        strcat(path, "a=1&");
    }
    http_kit_refused(&kit, "GET", path, "", NULL, 400, "16");
    answers("GET", "/open?&&a&b=&=c&", "", NULL, "root");
}

static void headers_that_are_too_long_are_refused(void **state)
{
    struct http_client c = http_kit_connect(&kit);
    char *x = body_of(100000);
    struct http_reply r;

    http_client_send(&c, "GET /open HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", x);
    r = http_client_reply(&c, false);
    assert_in_range(r.status, 400, 499);
    free(r.body);
    http_client_close(&c);
    c = http_kit_connect(&kit);
    http_client_send(&c, "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n", x);
    r = http_client_reply(&c, false);
    assert_in_range(r.status, 400, 499);
    free(r.body);
    http_client_close(&c);
    free(x);
    assert_int_equal(kit.handled_n, 0);
}

#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, open_kit, http_kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KIT(a_handler_gets_parameters_query_headers_and_body),
        WITH_KIT(answers_are_neither_cached_nor_sniffed_nor_run),
        WITH_KIT(what_has_no_route_is_not_found),
        WITH_KIT(another_method_is_told_which_there_are),
        WITH_KIT(a_role_needs_its_token),
        WITH_KIT(a_refused_token_is_logged_with_its_peer_and_once_a_second),
        WITH_KIT(a_name_that_is_not_ours_is_refused),
        WITH_KIT(a_page_from_elsewhere_is_refused),
        WITH_KIT(a_head_has_the_headers_of_a_get_and_no_body),
        WITH_KIT(pipelined_requests_are_answered_in_order),
        WITH_KIT(a_large_answer_arrives_whole),
        WITH_KIT(a_body_of_the_largest_size_is_taken_and_one_more_byte_is_not),
        WITH_KIT(a_chunked_body_is_bounded_too),
        WITH_KIT(an_endless_body_is_cut_off),
        WITH_KIT(who_asks_before_sending_a_large_body_is_told_no),
        cmocka_unit_test_setup_teardown(a_body_that_ends_early_reaches_no_handler, open_kit_later,
                                        http_kit_teardown),
        WITH_KIT(a_broken_query_is_a_bad_request),
        WITH_KIT(headers_that_are_too_long_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
