/* Streams: who gets which items, what those get who read slowly or not at all. The kit's feed keeps
 * 16 items and 4,096 bytes. */
#include "unit/http/http_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct http_client listen_to(const char *path)
{
    struct http_client c = http_kit_connect(&kit);
    const uint32_t before = kit.handled_n;

    http_client_send(&c,
                     "GET /stream/%s HTTP/1.1\r\nHost: localhost\r\n"
                     "Authorization: Bearer %s\r\n\r\n",
                     path, http_kit_viewer);
    http_kit_wait(&kit, kit.handled_n == before + 1);
    return c;
}

static void push(const char *topic, unsigned number, size_t filler_n)
{
    char text[4096];
    const int n = snprintf(text, sizeof(text), "id: %u\ndata: %0*u\n\n", number, (int)filler_n, 7);

    assert_int_equal(http_feed_push(kit.feed, topic, text, (size_t)n), MU_OK);
}

/* The text of what has come in so far, without the head of the answer and the chunks' frames; the
 * caller frees it. `ended`, if not NULL: whether the last chunk came. */
static char *text_of(struct http_client *c, bool *ended)
{
    char *text = calloc(1, c->in_n + 1);
    const char *at = c->in_n > 0 ? strstr(c->in, "\r\n\r\n") : NULL;
    const char *end = c->in + c->in_n;
    size_t n = 0;

    for (at = at != NULL ? at + 4 : end; at < end;) {
        char *data;
        const size_t chunk = strtoul(at, &data, 16);

        if (data + 2 > end || data + 2 + chunk + 2 > end) {
            break;
        }
        assert_memory_equal(data, "\r\n", 2);
        assert_memory_equal(data + 2 + chunk, "\r\n", 2);
        memcpy(text + n, data + 2, chunk);
        n += chunk;
        at = data + 2 + chunk + 2;
        if (chunk == 0) {
            assert_ptr_equal(at, end);
            *ended = true;
        }
    }
    return text;
}

static bool has(struct http_client *c, const char *what)
{
    while (http_client_pull(c)) {
    }
    char *text = text_of(c, &(bool){false});
    const bool found = strstr(text, what) != NULL;

    free(text);
    return found;
}

static void expect_all(struct http_client *c, const char *last, const char *all)
{
    http_kit_wait(&kit, has(c, last));
    char *text = text_of(c, &(bool){false});

    assert_string_equal(text, all);
    free(text);
}

static void a_stream_has_its_type_and_begins_at_once(void **state)
{
    struct http_client c = listen_to("all");

    http_client_expect(&c, ":\n\n");
    assert_non_null(strstr(c.in, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(c.in, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(c.in, "Cache-Control: no-store\r\n"));
    assert_int_equal(http_kit_stats(&kit).streams_n, 1);
    http_client_close(&c);
}

static void a_stream_gets_the_items_of_its_topic_and_those_for_all(void **state)
{
    struct http_client a = listen_to("a"), b = listen_to("b"), all = listen_to("all");

    http_kit_wait(&kit, has(&a, ":") && has(&b, ":") && has(&all, ":"));
    push("a", 1, 1);
    push("b", 2, 1);
    push("ab", 3, 1);
    push("", 4, 1);
    push("a", 5, 1);
    push("b", 6, 1);
    expect_all(&a, "id: 5\ndata: 7\n\n",
               ":\n\nid: 1\ndata: 7\n\nid: 4\ndata: 7\n\nid: 5\ndata: 7\n\n");
    expect_all(&b, "id: 6\ndata: 7\n\n",
               ":\n\nid: 2\ndata: 7\n\nid: 4\ndata: 7\n\nid: 6\ndata: 7\n\n");
    expect_all(&all, "id: 6\ndata: 7\n\n",
               ":\n\nid: 1\ndata: 7\n\nid: 2\ndata: 7\n\nid: 3\ndata: 7\n\nid: 4\ndata: 7\n\n"
               "id: 5\ndata: 7\n\nid: 6\ndata: 7\n\n");
    assert_int_equal(http_kit_stats(&kit).stream_items_n, 12);
    http_client_close(&a);
    http_client_close(&b);
    http_client_close(&all);
}

static void a_stream_begins_where_it_is_told_after_its_head(void **state)
{
    for (unsigned i = 1; i <= 5; i++) {
        push("", i, 1);
    }
    assert_int_equal(http_feed_next(kit.feed), 6);
    struct http_client c = listen_to("all?from=4&head=data:+hello%0a%0a"),
                       d = listen_to("all?from=99");

    expect_all(&c, ":\n\n", "data: hello\n\nid: 4\ndata: 7\n\nid: 5\ndata: 7\n\n:\n\n");
    http_kit_wait(&kit, has(&d, ":\n\n"));
    push("", 6, 1);
    expect_all(&d, "id: 6\ndata: 7\n\n", ":\n\nid: 6\ndata: 7\n\n");
    http_client_close(&c);
    http_client_close(&d);
}

static void who_asks_for_what_is_no_longer_kept_is_told_of_the_gap(void **state)
{
    for (unsigned i = 1; i <= 20; i++) {
        push("", i, 1);
    }
    struct http_client c = listen_to("all?from=2"), d = listen_to("all?from=5");

    http_kit_wait(&kit, has(&c, "id: 20\n") && has(&d, "id: 20\n"));
    assert_true(has(&c, "event: gap\ndata: {}\n\nid: 5\n"));
    assert_false(has(&d, "gap"));
    assert_int_equal(http_kit_stats(&kit).gaps_n, 1);
    http_client_close(&c);
    http_client_close(&d);
}

static void what_is_pushed_out_for_others_is_no_gap_for_one_who_waits(void **state)
{
    struct http_client c = listen_to("quiet");

    http_kit_wait(&kit, has(&c, ":"));
    for (unsigned i = 1; i <= 1000; i++) {
        push("loud", i, 100);
    }
    push("quiet", 1001, 1);
    expect_all(&c, "id: 1001\ndata: 7\n\n", ":\n\nid: 1001\ndata: 7\n\n");
    assert_int_equal(http_kit_stats(&kit).gaps_n, 0);
    http_client_close(&c);
}

static void the_ring_is_bounded_in_bytes_too(void **state)
{
    char big[4097];

    memset(big, 'x', sizeof(big));
    assert_int_equal(http_feed_push(kit.feed, "", big, 4097), MU_ELIMIT);
    assert_int_equal(http_feed_push(kit.feed, "t", big, 4096), MU_ELIMIT);
    push("", 1, 1);
    push("", 2, 3000);
    push("", 3, 1068);
    struct http_client c = listen_to("all?from=1");

    http_kit_wait(&kit, has(&c, "id: 3\n"));
    assert_true(has(&c, "event: gap\ndata: {}\n\nid: 2\n"));
    http_client_close(&c);
}

/* Whole items only, in order, none twice, and a gap wherever one is missing. */
static unsigned check_items(const char *text)
{
    unsigned last = 0, gaps_n = 0;

    while (*text != '\0') {
        unsigned id;
        int n = 0;

        if (strncmp(text, ":\n\n", 3) == 0) {
            text += 3;
        } else if (strncmp(text, "event: gap\ndata: {}\n\n", 21) == 0) {
            text += 21;
            gaps_n++;
            last = 0;
        } else if (sscanf(text, "id: %u\ndata: %*u\n\n%n", &id, &n) == 1 && n > 0) {
            assert_true(last == 0 || id == last + 1);
            last = id;
            text += n;
        } else {
            fail_msg("this is no event: %.60s", text);
        }
    }
    return gaps_n;
}

static void who_falls_behind_goes_on_after_a_gap_with_whole_items(void **state)
{
    struct http_client c = listen_to("all");
    unsigned id = 0;

    http_kit_wait(&kit, has(&c, ":"));
    while (http_kit_stats(&kit).gaps_n < 3) { /* It does not read. */
        for (int i = 0; i < 50; i++) {
            push("", ++id, 900);
        }
        http_kit_turn(&kit);
    }
    push("", ++id, 1);
    char last[64];

    snprintf(last, sizeof(last), "id: %u\ndata: 7\n\n", id);
    http_client_expect(&c, last);
    char *text = text_of(&c, &(bool){false});
    const unsigned gaps_n = check_items(text);

    assert_true(gaps_n >= 1 && gaps_n <= http_kit_stats(&kit).gaps_n);
    free(text);
    http_client_close(&c);
}

static void who_never_reads_is_closed(void **state)
{
    kit.config.limits.idle_s = 1;
    kit.config.limits.comment_ms = 50;
    http_kit_open(&kit);
    struct http_client deaf = listen_to("all"), good = listen_to("all");
    unsigned id = 0;

    http_kit_wait(&kit, http_kit_stats(&kit).streams_n == 2);
    while (http_kit_stats(&kit).streams_n == 2) {
        for (int i = 0; i < 50; i++) {
            push("", ++id, 900);
        }
        http_kit_turn(&kit);
        while (http_client_pull(&good)) {
        }
        assert_false(good.ended);
    }
    /* Silence is no reason: it lasts until another is closed for it. */
    struct http_client silent = http_kit_connect(&kit);

    http_client_expect_end(&silent);
    http_client_close(&silent);
    assert_int_equal(http_kit_stats(&kit).streams_n, 1);
    push("", ++id, 1);
    http_kit_wait(&kit, has(&good, "data: 7\n\n"));
    http_client_close(&deaf);
    http_client_close(&good);
}

static void comments_come_in_silence(void **state)
{
    kit.config.limits.comment_ms = 30;
    http_kit_open(&kit);
    struct http_client c = listen_to("all");

    http_kit_wait(&kit, has(&c, ":\n\n:\n\n:\n\n"));
    push("", 1, 1);
    http_kit_wait(&kit, has(&c, "\n\nid: 1\ndata: 7\n\n:\n\n"));
    http_client_close(&c);
}

static void a_client_that_went_is_noticed(void **state)
{
    kit.config.limits.comment_ms = 30;
    http_kit_open(&kit);
    struct http_client c = listen_to("all"), d = listen_to("all");

    http_kit_wait(&kit, has(&c, ":") && has(&d, ":"));
    http_client_close(&c);
    http_kit_wait(&kit, http_kit_stats(&kit).streams_n == 1 && http_kit_stats(&kit).conns_n == 1);
    push("", 1, 1);
    http_kit_wait(&kit, has(&d, "id: 1"));
    http_client_close(&d);
}

static void there_are_as_many_streams_as_are_allowed(void **state)
{
    kit.config.limits.streams_max = 2;
    kit.config.limits.comment_ms = 30;
    http_kit_open(&kit);
    struct http_client a = listen_to("all"), b = listen_to("all");
    struct http_client c = listen_to("all?head=unsent");
    struct http_reply r = http_client_reply(&c, false);

    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "Retry-After: 15\r\n"));
    free(r.body);
    http_client_close(&a);
    http_kit_wait(&kit, http_kit_stats(&kit).streams_n == 1);
    http_client_close(&c);
    c = listen_to("all");
    http_kit_wait(&kit, has(&c, ":"));
    http_client_close(&b);
    http_client_close(&c);
}

static void closing_ends_streams(void **state)
{
    struct http_client c = listen_to("all"), d = listen_to("all");
    bool ended = false;

    push("", 1, 1);
    http_kit_wait(&kit, has(&c, "id: 1\n") && has(&d, "id: 1\n"));
    http_close(kit.h);
    kit.h = NULL;
    http_client_expect_end(&c);
    http_client_expect_end(&d);
    free(text_of(&c, &ended));
    assert_true(ended);
    http_client_close(&c);
    http_client_close(&d);
}

/* Under a thread sanitizer this is what looks for races. */
static void many_streams_get_everything_while_others_come_and_go(void **state)
{
    static struct http_client c[60];
    struct http_client passing[8] = {0};
    unsigned id = 0;

    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        c[i] = listen_to("all");
        http_kit_wait(&kit, has(&c[i], ":"));
    }
    for (int round = 0; round < 40; round++) {
        struct http_client *p = &passing[round % 8];

        if (p->kit != NULL) {
            http_client_close(p);
        }
        *p = listen_to(round % 2 == 0 ? "all?from=1" : "some");
        for (int i = 0; i < 5; i++) {
            push(round % 3 == 0 ? "some" : "", ++id, (size_t)i * 50);
        }
        http_kit_turn(&kit);
        for (size_t i = 0; i < ARRAY_LEN(c); i++) {
            char last[32];

            snprintf(last, sizeof(last), "id: %u\n", id);
            http_kit_wait(&kit, has(&c[i], last));
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        char *text = text_of(&c[i], &(bool){false});

        assert_int_equal(check_items(text), 0);
        free(text);
        http_client_close(&c[i]);
    }
    for (int i = 0; i < 8; i++) {
        http_client_close(&passing[i]);
    }
}

#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, http_kit_setup, http_kit_teardown)
#define WITH_LIMITS(test) \
    cmocka_unit_test_setup_teardown(test, http_kit_setup_closed, http_kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KIT(a_stream_has_its_type_and_begins_at_once),
        WITH_KIT(a_stream_gets_the_items_of_its_topic_and_those_for_all),
        WITH_KIT(a_stream_begins_where_it_is_told_after_its_head),
        WITH_KIT(who_asks_for_what_is_no_longer_kept_is_told_of_the_gap),
        WITH_KIT(what_is_pushed_out_for_others_is_no_gap_for_one_who_waits),
        WITH_KIT(the_ring_is_bounded_in_bytes_too),
        WITH_KIT(who_falls_behind_goes_on_after_a_gap_with_whole_items),
        WITH_LIMITS(who_never_reads_is_closed),
        WITH_LIMITS(comments_come_in_silence),
        WITH_LIMITS(a_client_that_went_is_noticed),
        WITH_LIMITS(there_are_as_many_streams_as_are_allowed),
        WITH_KIT(closing_ends_streams),
        WITH_KIT(many_streams_get_everything_while_others_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
