/* Memory runs out at each allocation in turn: a connection may be lost, nothing else. It
 * is our own code that is denied, not OpenSSL. */
#include "unit/deny.h"
#include "unit/net/net_kit.h"

#include "base/log.h"

#include <string.h>

/* Two connections through one listener: the first does all the work, the second says one word at
 * the end, when memory is there again. */
struct play {
    uv_loop_t loop;
    uv_timer_t tick;
    struct tls *server_tls, *client_tls;
    struct listener *l;
    struct conn *client;
    uint32_t frames_n, opened_n, closed_n;
};

static struct frame *big;

static void client_opened(struct conn *c)
{
    struct play *p = conn_data(c);

    p->opened_n++;
    conn_say(c, WIRE_LEASE, &(struct msg_lease){.sent_ms = 1}, 0, 1);
    conn_send(c, big);
    conn_say(c, WIRE_LEASE, &(struct msg_lease){.sent_ms = 2}, 0, 2);
}

static void client_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct play *p = conn_data(c);

    p->frames_n++;
}

static void client_closed(struct conn *c, int status, const char *why)
{
    struct play *p = conn_data(c);

    assert_true(why != NULL && why[0] != '\0');
    p->closed_n++;
    p->client = NULL;
}

static void server_opened(struct conn *c)
{
}

static void server_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    conn_say(c, WIRE_LEASE, &(struct msg_lease){.sent_ms = 0}, 0, h->request);
}

static void server_closed(struct conn *c, int status, const char *why)
{
}

static const struct conn_handler client_handler = {
    .opened = client_opened, .frame = client_frame, .closed = client_closed};
static const struct conn_handler server_handler = {
    .opened = server_opened, .frame = server_frame, .closed = server_closed};

static void on_tick(uv_timer_t *timer)
{
}

/* Until three answers came, or the connection was lost. */
static void converse(struct play *p)
{
    const uint64_t end_ms = net_now_ms() + 60000;

    p->frames_n = p->closed_n = 0;
    while (p->frames_n < 3 && p->closed_n == 0) {
        assert_true(net_now_ms() < end_ms);
        uv_run(&p->loop, UV_RUN_ONCE);
    }
}

static int play_open(struct play *p, const struct token *token)
{
    const struct listen_config config = {0};
    char error[NET_ERROR_MAX];
    struct endpoint at = {"127.0.0.1", 0};
    int rc = tls_server_open(token, &p->server_tls, error);

    if (rc == MU_OK) {
        rc = tls_client_open(token, &p->client_tls, error);
    }
    if (rc == MU_OK) {
        rc = listen_tcp(&p->loop, &at, p->server_tls, &server_handler, &config, p, &p->l, error);
    }
    return rc;
}

static int connect_to(struct play *p, const char *host)
{
    struct endpoints to = {.n = 1};

    strcpy(to.at[0].host, host);
    to.at[0].port = listen_port(p->l);
    return conn_connect(&p->loop, &to, p->client_tls, &client_handler, NULL, p, &p->client);
}

/* Whether all went well while the nth allocation was denied. */
static bool play(const struct token *token, uint32_t nth)
{
    struct play p = {0};

    assert_int_equal(uv_loop_init(&p.loop), 0);
    uv_timer_init(&p.loop, &p.tick);
    uv_timer_start(&p.tick, on_tick, 5, 5);
    deny_begin(nth);
    int rc = play_open(&p, token);
    bool well = rc == MU_OK;

    if (rc == MU_OK) {
        rc = connect_to(&p, "localhost");
        if (rc == MU_OK) {
            converse(&p);
        }
        well = rc == MU_OK && p.frames_n == 3;
        deny_end();
        if (p.client != NULL) {
            conn_close(p.client, 0);
        }
        /* Whatever it was, the listener is as good as before. */
        assert_int_equal(connect_to(&p, "127.0.0.1"), MU_OK);
        converse(&p);
        assert_int_equal(p.frames_n, 3);
        conn_close(p.client, 0);
        listen_close(p.l);
    }
    deny_end();
    uv_close((uv_handle_t *)&p.tick, NULL);
    uv_run(&p.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&p.loop), 0);
    tls_close(p.server_tls);
    tls_close(p.client_tls);
    assert_int_equal(big->refs, 1);
    return well;
}

static void running_out_of_memory_costs_one_connection_at_most(void **state)
{
    struct token token;
    uint32_t lost_n = 0, nth;

    log_set_level(LOG_ERROR);
    random_bytes(&token, sizeof(token));
    big = kit_big(300000, 9);
    (void)play(&token, 0);
    const uint32_t all = deny_taken();

    for (nth = 1; nth <= all; nth++) {
        lost_n += !play(&token, nth);
    }
    assert_true(all > 20 && lost_n > 10); /* The sweep does meet something. */
    frame_unref(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_out_of_memory_costs_one_connection_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
