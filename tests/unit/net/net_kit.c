#include "unit/net/net_kit.h"

#include "base/crc32c.h"
#include "base/prng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_opened(struct conn *c)
{
    struct side *s = conn_data(c);

    s->c = c;
    s->opened_n++;
}

static void on_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct side *s = conn_data(c);
    struct frame *again = frame_make((enum wire_type)h->type, msg, h->generation, h->request);

    assert_non_null(again);
    s->digest = kit_digest(s->digest, again);
    frame_unref(again);
    s->frames_n++;
    s->last_type = h->type;
    s->last_request = h->request;
    if (s->echo) {
        conn_say(c, WIRE_LEASE, &(struct msg_lease){.sent_ms = s->frames_n}, 0, h->request);
    }
    if (s->close_in_frame) {
        s->c = NULL;
        conn_close(c, s->close_flush_ms);
    }
}

static void on_closed(struct conn *c, int status, const char *why)
{
    struct side *s = conn_data(c);

    s->closed_n++;
    s->status = status;
    snprintf(s->why, sizeof(s->why), "%s", why);
    if (s->c == c) {
        s->c = NULL;
    }
}

const struct conn_handler kit_handler = {
    .opened = on_opened, .frame = on_frame, .closed = on_closed};

static void on_tick(uv_timer_t *timer)
{
}

void kit_open(struct kit *k, const struct listen_config *config)
{
    const struct listen_config defaults = {0};
    struct endpoint at;
    char error[NET_ERROR_MAX];

    memset(k, 0, sizeof(*k));
    k->server.kit = k->client.kit = k;
    assert_int_equal(uv_loop_init(&k->loop), 0);
    uv_timer_init(&k->loop, &k->tick);
    uv_timer_start(&k->tick, on_tick, 5, 5);
    random_bytes(&k->token, sizeof(k->token));
    assert_int_equal(tls_server_open(&k->token, &k->server_tls, error), MU_OK);
    assert_int_equal(tls_client_open(&k->token, &k->client_tls, error), MU_OK);
    assert_int_equal(endpoint_parse("127.0.0.1:0", 0, &at, error), MU_OK);
    assert_int_equal(listen_tcp(&k->loop, &at, k->server_tls, &kit_handler,
                                config != NULL ? config : &defaults, &k->server, &k->l, error),
                     MU_OK);
}

void kit_close(struct kit *k)
{
    if (k->client.c != NULL) {
        conn_close(k->client.c, 0);
    }
    listen_close(k->l);
    uv_close((uv_handle_t *)&k->tick, NULL);
    uv_run(&k->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&k->loop), 0); /* Nothing is left behind. */
    tls_close(k->server_tls);
    tls_close(k->client_tls);
}

struct endpoints kit_to(const char *fmt, ...)
{
    struct endpoints to;
    char text[1024], error[NET_ERROR_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    assert_int_equal(endpoints_parse(text, 0, &to, error), MU_OK);
    return to;
}

void kit_connect(struct kit *k)
{
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(k->l));
    const uint32_t before = k->server.opened_n;

    assert_int_equal(conn_connect(&k->loop, &to, k->client_tls, &kit_handler, &k->client_limits,
                                  &k->client, &k->client.c),
                     MU_OK);
    kit_wait(k, k->server.opened_n > before && k->client.c != NULL && conn_is_open(k->client.c));
}

void kit_turn(struct kit *k)
{
    uv_run(&k->loop, UV_RUN_ONCE);
}

int kit_socket(struct kit *k)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(listen_port(k->l))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

int kit_pair(struct kit *k)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(conn_open(&k->loop, ends[0], NULL, false, &kit_handler, &k->client_limits,
                               &k->client, &k->client.c),
                     MU_OK);
    kit_wait(k, k->client.opened_n == 1);
    return ends[1];
}

uint64_t kit_digest(uint64_t before, const struct frame *f)
{
    return prng_mix(before ^ ((uint64_t)f->n << 32 | crc32c(0, f->bytes, f->n)));
}

struct frame *kit_big(size_t n, uint64_t request)
{
    const uint32_t members_n = (uint32_t)MIN(n / 89 + 1, MEMBERS_MAX);
    struct generation g = {.number = 7, .members_n = members_n};

    g.members = calloc(members_n, sizeof(*g.members));
    assert_non_null(g.members);
    for (uint32_t i = 0; i < members_n; i++) {
        g.members[i].worker = i;
        snprintf(g.members[i].addr, sizeof(g.members[i].addr), "%063u", i);
    }
    struct frame *f = frame_make(WIRE_GENERATION, &g, 7, request);

    free(g.members);
    assert_non_null(f);
    return f;
}
