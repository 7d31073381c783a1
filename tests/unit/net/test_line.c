/* A line that stays: made again when it is lost, with pauses, and given up only where no try can
 * help. */
#include "unit/net/net_kit.h"

#include "net/line.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct seen {
    struct line *l;
    uint32_t opened_n, lost_n, failed_n, frames_n;
    bool welcomes; /* at the first frame of each connection */
    int status;
    char why[NET_ERROR_MAX];
};

static void on_opened(void *data, const char *peer)
{
    struct seen *s = data;

    s->opened_n++;
    line_say(s->l, WIRE_BYE, &(struct msg_bye){.node = s->opened_n});
}

static void on_frame(void *data, const struct wire_header *h, const union wire_any *msg)
{
    struct seen *s = data;

    s->frames_n++;
    if (s->welcomes) {
        line_welcome(s->l);
    }
}

static void on_lost(void *data)
{
    ((struct seen *)data)->lost_n++;
}

static void on_failed(void *data, int status, const char *why)
{
    struct seen *s = data;

    s->failed_n++;
    s->status = status;
    snprintf(s->why, sizeof(s->why), "%s", why);
}

static const struct line_handler handler = {
    .opened = on_opened, .frame = on_frame, .lost = on_lost, .failed = on_failed};

static void open_line(struct kit *k, const struct endpoints *to, struct tls *tls, struct seen *s)
{
    const struct line_config config = {
        .to = to, .tls = tls, .area = "test", .meanwhile = "the test goes on"};

    k->server.echo = true;
    assert_int_equal(line_open(&k->loop, &config, &handler, s, &s->l), MU_OK);
    assert_int_equal(s->opened_n + s->failed_n, 0); /* not before the loop runs */
}

static void hang_up(struct kit *k)
{
    conn_close(k->server.c, 0);
    k->server.c = NULL;
}

static void a_lost_line_is_made_again_and_says_hello_again(void **state)
{
    struct seen s = {.welcomes = true};
    char log[4096];
    struct kit k;

    unit_stderr_begin();
    kit_open(&k, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(k.l));

    open_line(&k, &to, k.client_tls, &s);
    for (uint32_t i = 1; i <= 3; i++) {
        kit_wait(&k, s.frames_n == i);
        assert_false(line_is_away(s.l));
        assert_int_equal(s.opened_n, i);
        hang_up(&k);
        kit_wait(&k, s.lost_n == i);
        assert_true(line_is_away(s.l));
    }
    line_close(s.l, 0);
    kit_close(&k);
    unit_stderr_end(log, sizeof(log));
    assert_int_equal(s.failed_n, 0);
    assert_non_null(strstr(log, "went away"));
    assert_non_null(strstr(log, "the test goes on, reconnecting"));
    assert_non_null(strstr(log, "is back after"));
}

/* Somebody who takes connections and welcomes nobody is not called in a tight loop. */
static void without_a_welcome_there_are_pauses_that_grow(void **state)
{
    struct seen s = {.welcomes = false};
    struct kit k;
    uint64_t from_ms;
    char log[4096];

    unit_stderr_begin();
    kit_open(&k, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(k.l));

    open_line(&k, &to, k.client_tls, &s);
    from_ms = net_now_ms();
    for (uint32_t i = 1; i <= 4; i++) {
        kit_wait(&k, s.frames_n == i);
        hang_up(&k);
        kit_wait(&k, s.lost_n == i);
    }
    kit_wait(&k, s.opened_n == 5);
    /* At least half of 100, 200, 400 and 800 ms. */
    assert_true(net_now_ms() - from_ms >= 750);
    line_close(s.l, 0);
    kit_close(&k);
    unit_stderr_end(log, sizeof(log));
    assert_null(strstr(log, "went away")); /* It never was there. */
    assert_non_null(strstr(log, "muster serve --listen 127.0.0.1:"));
}

static void a_wrong_token_ends_it_before_the_first_welcome_and_not_after(void **state)
{
    struct seen stranger = {0}, known = {.welcomes = true};
    struct token other;
    struct tls *wrong;
    char error[NET_ERROR_MAX], log[4096];
    struct kit k;

    unit_stderr_begin();
    kit_open(&k, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(k.l));

    random_bytes(&other, sizeof(other));
    assert_int_equal(tls_client_open(&other, &wrong, error), MU_OK);
    open_line(&k, &to, wrong, &stranger);
    kit_wait(&k, stranger.failed_n == 1);
    assert_int_equal(stranger.status, MU_EREFUSED);
    assert_non_null(strstr(stranger.why, "the orchestrator at 127.0.0.1:"));
    line_close(stranger.l, 0);

    open_line(&k, &to, k.client_tls, &known);
    kit_wait(&k, known.frames_n == 1);
    const struct endpoint at = to.at[0];
    struct tls *other_tls;

    assert_int_equal(tls_server_open(&other, &other_tls, error), MU_OK);
    hang_up(&k);
    listen_close(k.l); /* Another's orchestrator takes its place for a while. */
    assert_int_equal(listen_tcp(&k.loop, &at, other_tls, &kit_handler, &(struct listen_config){0},
                                &k.server, &k.l, error),
                     MU_OK);
    kit_wait(&k, listen_counts(k.l)->refused >= 1);
    listen_close(k.l);
    assert_int_equal(listen_tcp(&k.loop, &at, k.server_tls, &kit_handler,
                                &(struct listen_config){0}, &k.server, &k.l, error),
                     MU_OK);
    kit_wait(&k, known.frames_n == 2);
    assert_int_equal(known.failed_n, 0);
    line_close(known.l, 0);
    kit_close(&k);
    tls_close(wrong);
    tls_close(other_tls);
    unit_stderr_end(log, sizeof(log));
}

/* What was said leaves; nothing is heard any more. */
static void a_closed_line_says_what_it_was_told_and_calls_nobody(void **state)
{
    struct seen s = {.welcomes = true};
    uint32_t before;
    struct kit k;

    kit_open(&k, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(k.l));

    open_line(&k, &to, k.client_tls, &s);
    kit_wait(&k, s.frames_n == 1);
    before = k.server.frames_n;
    line_say(s.l, WIRE_BYE, &(struct msg_bye){.node = 9});
    line_close(s.l, 10000);
    kit_wait(&k, k.server.frames_n == before + 1 && k.server.closed_n == 1);
    assert_int_equal(s.lost_n + s.failed_n, 0);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_line_is_made_again_and_says_hello_again),
        cmocka_unit_test(without_a_welcome_there_are_pauses_that_grow),
        cmocka_unit_test(a_wrong_token_ends_it_before_the_first_welcome_and_not_after),
        cmocka_unit_test(a_closed_line_says_what_it_was_told_and_calls_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
