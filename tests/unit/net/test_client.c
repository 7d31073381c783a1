/* The blocking client, against a listener that runs in a thread of its own. */
#include "unit/net/net_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct served {
    struct kit k;
    pthread_t thread;
    uv_async_t stop;
    bool stopped;
};

static void on_stop(uv_async_t *handle)
{
    struct served *s = handle->data;

    s->stopped = true;
    uv_close((uv_handle_t *)handle, NULL);
}

static void *serve(void *arg)
{
    struct served *s = arg;

    while (!s->stopped) {
        kit_turn(&s->k);
    }
    return NULL;
}

static void served_open(struct served *s, const struct listen_config *config)
{
    memset(s, 0, sizeof(*s));
    kit_open(&s->k, config);
    s->k.server.echo = true;
    uv_async_init(&s->k.loop, &s->stop, on_stop);
    s->stop.data = s;
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void served_close(struct served *s)
{
    uv_async_send(&s->stop);
    pthread_join(s->thread, NULL);
    kit_close(&s->k);
}

static void it_asks_and_is_answered(void **state)
{
    struct served s;
    struct client *cl;
    struct wire_header h;
    const union wire_any *msg;
    char error[NET_ERROR_MAX];

    served_open(&s, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(s.k.l));

    assert_int_equal(client_open(&to, &s.k.token, 30000, &cl, error), MU_OK);
    for (uint64_t i = 1; i <= 100; i++) {
        assert_int_equal(client_say(cl, WIRE_RENEW, &(struct msg_renew){.seq = i}, i, error),
                         MU_OK);
    }
    for (uint64_t i = 1; i <= 100; i++) {
        assert_int_equal(client_next(cl, 30000, &h, &msg, error), MU_OK);
        assert_int_equal(h.type, WIRE_LEASE);
        assert_int_equal(h.request, i);
        assert_int_equal(msg->lease.sent_ms, i);
    }
    assert_int_equal(client_next(cl, 20, &h, &msg, error), MU_ETIMEDOUT);
    assert_int_equal(client_say(cl, WIRE_RENEW, &(struct msg_renew){.seq = 1}, 101, error), MU_OK);
    assert_int_equal(client_next(cl, 0, &h, &msg, error), MU_OK);
    client_close(cl);
    served_close(&s);
}

static struct frame *big;

static void answer_big(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    conn_send(c, big);
    conn_close(c, 30000);
}

static void a_long_answer_arrives_whole_and_then_the_end(void **state)
{
    const struct conn_handler handler = {
        .opened = kit_handler.opened, .frame = answer_big, .closed = kit_handler.closed};
    const struct listen_config config = {0};
    struct served s;
    struct listener *l;
    struct endpoint at;
    struct client *cl;
    struct wire_header h;
    const union wire_any *msg;
    char error[NET_ERROR_MAX];

    memset(&s, 0, sizeof(s));
    kit_open(&s.k, NULL);
    assert_int_equal(endpoint_parse("127.0.0.1:0", 0, &at, error), MU_OK);
    assert_int_equal(
        listen_tcp(&s.k.loop, &at, s.k.server_tls, &handler, &config, &s.k.server, &l, error),
        MU_OK);
    listen_close(s.k.l);
    s.k.l = l;
    uv_async_init(&s.k.loop, &s.stop, on_stop);
    s.stop.data = &s;
    big = kit_big(SIZE_MAX, 3);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(l));

    assert_int_equal(pthread_create(&s.thread, NULL, serve, &s), 0);
    assert_int_equal(client_open(&to, &s.k.token, 30000, &cl, error), MU_OK);
    assert_int_equal(client_say(cl, WIRE_RENEW, &(struct msg_renew){.seq = 1}, 1, error), MU_OK);
    assert_int_equal(client_next(cl, 60000, &h, &msg, error), MU_OK);
    assert_int_equal(h.request, 3);
    assert_int_equal(msg->generation.members_n, MEMBERS_MAX);
    assert_int_equal(msg->generation.members[MEMBERS_MAX - 1].worker, MEMBERS_MAX - 1);
    assert_int_equal(client_next(cl, 60000, &h, &msg, error), MU_EIO);
    assert_non_null(strstr(error, "closed the connection"));
    client_close(cl);
    served_close(&s);
    frame_unref(big);
}

/* The answer and the end may be there before client_say() is back: what was said has left all the
 * same, and is answered. */
static void an_answer_before_the_end_is_heard(void **state)
{
    struct served s;
    struct client *cl;
    struct wire_header h;
    const union wire_any *msg;
    char error[NET_ERROR_MAX];

    served_open(&s, NULL);
    s.k.server.close_in_frame = true;
    s.k.server.close_flush_ms = 30000;
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(s.k.l));

    for (uint64_t i = 1; i <= 300; i++) {
        assert_int_equal(client_open(&to, &s.k.token, 30000, &cl, error), MU_OK);
        assert_int_equal(client_say(cl, WIRE_RENEW, &(struct msg_renew){.seq = i}, i, error),
                         MU_OK);
        assert_int_equal(client_next(cl, 30000, &h, &msg, error), MU_OK);
        assert_int_equal(h.request, i);
        assert_int_equal(client_next(cl, 30000, &h, &msg, error), MU_EIO);
        assert_int_equal(client_say(cl, WIRE_RENEW, &(struct msg_renew){.seq = i}, i, error),
                         MU_EIO);
        client_close(cl);
    }
    served_close(&s);
}

static void each_failure_says_what_happened_and_where(void **state)
{
    struct served s;
    struct client *cl = NULL;
    struct token wrong;
    char error[NET_ERROR_MAX], peer[32];
    struct sockaddr_in sa = {.sin_family = AF_INET};
    socklen_t n = sizeof(sa);
    int dead = socket(AF_INET, SOCK_STREAM, 0);

    served_open(&s, NULL);
    wrong = s.k.token;
    wrong.secret[0] ^= 0x80;
    snprintf(peer, sizeof(peer), "127.0.0.1:%u", listen_port(s.k.l));
    struct endpoints to = kit_to("%s", peer);

    assert_int_equal(client_open(&to, &wrong, 30000, &cl, error), MU_EREFUSED);
    assert_non_null(strstr(error, "the token is not the one of this orchestrator"));
    assert_non_null(strstr(error, peer));

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(dead, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(getsockname(dead, (struct sockaddr *)&sa, &n), 0);
    snprintf(peer, sizeof(peer), "127.0.0.1:%u", ntohs(sa.sin_port));
    to = kit_to("%s", peer);
    assert_int_equal(client_open(&to, &s.k.token, 30000, &cl, error), MU_EIO);
    assert_non_null(strstr(error, "is the orchestrator running?"));
    assert_non_null(strstr(error, peer));

    assert_int_equal(listen(dead, 5), 0); /* Now it listens, and says nothing. */
    assert_int_equal(client_open(&to, &s.k.token, 100, &cl, error), MU_ETIMEDOUT);
    assert_non_null(strstr(error, "no answer in time"));

    to = kit_to("no-such-host.invalid:1");
    assert_int_equal(client_open(&to, &s.k.token, 30000, &cl, error), MU_EIO);
    assert_non_null(strstr(error, "no-such-host.invalid"));
    assert_null(cl);
    close(dead);

    to = kit_to("no-such-host.invalid:1,%s,127.0.0.1:%u", peer, listen_port(s.k.l));
    assert_int_equal(client_open(&to, &s.k.token, 30000, &cl, error), MU_OK); /* in order */
    client_close(cl);
    client_close(NULL);
    served_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_asks_and_is_answered),
        cmocka_unit_test(a_long_answer_arrives_whole_and_then_the_end),
        cmocka_unit_test(an_answer_before_the_end_is_heard),
        cmocka_unit_test(each_failure_says_what_happened_and_where),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
