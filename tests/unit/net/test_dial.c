/* Connecting: endpoints in order until one opens, and one message that tells why none did. */
#include "unit/net/net_kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A port of loopback where nobody listens: bound, so that nobody else takes it. */
static uint16_t dead_port(int *fd_out)
{
    struct sockaddr_in sa = {.sin_family = AF_INET};
    socklen_t n = sizeof(sa);

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *fd_out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*fd_out, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(getsockname(*fd_out, (struct sockaddr *)&sa, &n), 0);
    return ntohs(sa.sin_port);
}

static void dial(struct kit *k, const struct endpoints *to)
{
    assert_int_equal(
        conn_connect(&k->loop, to, k->client_tls, &kit_handler, NULL, &k->client, &k->client.c),
        MU_OK);
    assert_int_equal(k->client.opened_n + k->client.closed_n, 0); /* not before the loop runs */
}

static void the_next_endpoint_is_tried_when_one_is_dead(void **state)
{
    struct kit k;
    int dead;

    kit_open(&k, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u,no-such-host.invalid:5,127.0.0.1:%u",
                                       dead_port(&dead), listen_port(k.l));

    dial(&k, &to);
    kit_wait(&k, k.client.opened_n == 1 && k.server.opened_n == 1);
    assert_int_equal(k.client.closed_n, 0);
    char peer[32];

    snprintf(peer, sizeof(peer), "127.0.0.1:%u", listen_port(k.l));
    assert_string_equal(conn_peer(k.client.c), peer);
    close(dead);
    kit_close(&k);
}

/* … also one that listens and is no orchestrator, or another's. */
static void the_next_endpoint_is_tried_when_one_refuses(void **state)
{
    struct kit k, other;

    kit_open(&k, NULL);
    kit_open(&other, NULL);
    const struct endpoints to =
        kit_to("127.0.0.1:%u,127.0.0.1:%u", listen_port(other.l), listen_port(k.l));

    dial(&k, &to);
    while (listen_counts(other.l)->refused == 0) {
        kit_turn(&k);
        kit_turn(&other);
    }
    kit_wait(&k, k.client.opened_n == 1);
    kit_close(&k);
    kit_close(&other);
}

static void all_reasons_are_told_when_none_answers(void **state)
{
    struct kit k;
    int a, b;
    char peer[32];

    kit_open(&k, NULL);
    const uint16_t first = dead_port(&a), second = dead_port(&b);
    const struct endpoints to = kit_to("127.0.0.1:%u,127.0.0.1:%u", first, second);

    dial(&k, &to);
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.client.status, MU_EIO);
    snprintf(peer, sizeof(peer), "127.0.0.1:%u", first);
    assert_non_null(strstr(k.client.why, peer));
    snprintf(peer, sizeof(peer), "127.0.0.1:%u", second);
    assert_non_null(strstr(k.client.why, peer));
    assert_non_null(strstr(k.client.why, "is the orchestrator running?"));
    close(a);
    close(b);
    kit_close(&k);
}

static void a_wrong_token_outweighs_whoever_does_not_answer(void **state)
{
    struct kit k, other;
    int dead;

    kit_open(&k, NULL);
    kit_open(&other, NULL);
    const struct endpoints to =
        kit_to("127.0.0.1:%u,127.0.0.1:%u", listen_port(other.l), dead_port(&dead));

    dial(&k, &to);
    while (k.client.closed_n == 0) {
        kit_turn(&k);
        kit_turn(&other);
    }
    assert_int_equal(k.client.status, MU_EREFUSED);
    assert_non_null(strstr(k.client.why, "token"));
    close(dead);
    kit_close(&k);
    kit_close(&other);
}

static void a_name_that_is_not_found_is_told(void **state)
{
    struct kit k;
    const struct endpoints to = kit_to("no-such-host.invalid:5556");

    kit_open(&k, NULL);
    dial(&k, &to);
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.client.status, MU_EIO);
    assert_non_null(strstr(k.client.why, "no-such-host.invalid"));
    assert_non_null(strstr(k.client.why, "was not found"));
    kit_close(&k);
}

static void names_are_resolved(void **state)
{
    struct kit k;

    kit_open(&k, NULL);
    const struct endpoints to = kit_to("localhost:%u", listen_port(k.l));

    dial(&k, &to);
    kit_wait(&k, k.client.opened_n == 1);
    kit_close(&k);
}

/* At every moment of it: before the loop, while resolving, connecting, shaking hands. */
static void a_connection_may_be_closed_while_it_is_dialed(void **state)
{
    for (int turns = 0; turns < 12; turns++) {
        struct kit k;

        kit_open(&k, NULL);
        const struct endpoints to = kit_to("localhost:%u", listen_port(k.l));

        dial(&k, &to);
        for (int i = 0; i < turns; i++) {
            uv_run(&k.loop, UV_RUN_NOWAIT);
        }
        conn_close(k.client.c, turns % 2 == 0 ? 0 : 100);
        k.client.c = NULL;
        kit_close(&k);
        assert_int_equal(k.client.closed_n, 0);
    }
}

static void frames_queued_before_it_is_open_are_sent_once_it_is(void **state)
{
    struct kit k;

    kit_open(&k, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(k.l));

    dial(&k, &to);
    conn_say(k.client.c, WIRE_LEASE, &(struct msg_lease){0}, 0, 5);
    kit_wait(&k, k.server.frames_n == 1);
    assert_int_equal(k.server.last_request, 5);
    kit_close(&k);
}

static void a_server_that_never_answers_is_timed_out(void **state)
{
    struct kit k;
    int mute;
    const uint16_t port = dead_port(&mute);
    const struct conn_limits limits = {.handshake_ms = 100};
    const struct endpoints to = kit_to("127.0.0.1:%u", port);

    assert_int_equal(listen(mute, 5), 0); /* The kernel accepts; nobody speaks. */
    kit_open(&k, NULL);
    assert_int_equal(
        conn_connect(&k.loop, &to, k.client_tls, &kit_handler, &limits, &k.client, &k.client.c),
        MU_OK);
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.client.status, MU_ETIMEDOUT);
    assert_non_null(strstr(k.client.why, "handshake"));
    close(mute);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_endpoint_is_tried_when_one_is_dead),
        cmocka_unit_test(the_next_endpoint_is_tried_when_one_refuses),
        cmocka_unit_test(all_reasons_are_told_when_none_answers),
        cmocka_unit_test(a_wrong_token_outweighs_whoever_does_not_answer),
        cmocka_unit_test(a_name_that_is_not_found_is_told),
        cmocka_unit_test(names_are_resolved),
        cmocka_unit_test(a_connection_may_be_closed_while_it_is_dialed),
        cmocka_unit_test(frames_queued_before_it_is_open_are_sent_once_it_is),
        cmocka_unit_test(a_server_that_never_answers_is_timed_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
