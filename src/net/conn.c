/* The life of a connection. Callbacks are made from the loop only, and each looks at c->state
 * afterwards: the user may have closed. Memory stays until the timer's handle is closed, so it can
 * be looked at. */
#include "net/conn_state.h"

#include "net/socket.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define OUT_MAX ((size_t)64 << 20)

static void on_timer(uv_timer_t *timer);

int conn_make(uv_loop_t *loop, struct tls *tls, bool server, const struct conn_handler *handler,
              const struct conn_limits *limits, void *data, struct conn **c_out)
{
    struct conn *c = calloc(1, sizeof(*c));
    struct hub *hub = c != NULL ? hub_get(loop) : NULL;

    if (hub == NULL) {
        free(c);
        return MU_ENOMEM;
    }
    c->hub = hub;
    c->fd = -1;
    c->server = server;
    c->tls = tls;
    c->handler = handler;
    c->limits = limits != NULL ? *limits : (struct conn_limits){0};
    if (c->limits.handshake_ms == 0) {
        c->limits.handshake_ms = CONN_HANDSHAKE_MS;
    }
    if (c->limits.out_max == 0) {
        c->limits.out_max = OUT_MAX;
    }
    c->data = data;
    c->out_end = &c->out;
    uv_timer_init(loop, &c->timer);
    c->timer.data = c;
    *c_out = c;
    return MU_OK;
}

static void name_peer(struct conn *c)
{
    struct sockaddr_storage sa = {0};
    socklen_t n = sizeof(sa);
    uint32_t uid, pid;

    if (getpeername(c->fd, (struct sockaddr *)&sa, &n) != 0) {
        return; /* not connected yet */
    }
    if (sa.ss_family != AF_UNIX) {
        address_print((struct sockaddr *)&sa, c->peer, sizeof(c->peer));
    } else if (conn_peer_cred(c, &uid, &pid) == MU_OK) {
        snprintf(c->peer, sizeof(c->peer), "pid %u", (unsigned)pid);
    }
}

int conn_attach(struct conn *c, int fd)
{
    uv_poll_t *poll = malloc(sizeof(*poll));

    if (poll == NULL || uv_poll_init(c->hub->loop, poll, fd) != 0) {
        free(poll);
        return MU_ENOMEM;
    }
    poll->data = c;
    c->poll = poll;
    c->fd = fd;
    c->events = 0;
    c->blocked = false;
    c->state = CONN_CONNECTING;
    name_peer(c);
    conn_watch(c, UV_WRITABLE);
    return MU_OK;
}

static void free_poll(uv_handle_t *handle)
{
    free(handle);
}

void conn_detach(struct conn *c)
{
    if (c->ssl != NULL) {
        if (c->state >= CONN_OPEN && !c->blocked && SSL_is_init_finished(c->ssl)) {
            (void)SSL_shutdown(c->ssl); /* So that the peer sees a goodbye, not a cut. */
        }
        SSL_free(c->ssl);
        ERR_clear_error();
        c->ssl = NULL;
    }
    if (c->poll != NULL) {
        uv_close((uv_handle_t *)c->poll, free_poll);
        c->poll = NULL;
        close(c->fd);
        c->fd = -1;
    }
}

static void on_freed(uv_handle_t *handle)
{
    struct conn *c = handle->data;

    /* Not before: a frame callback that closed its own connection may still look at its message. */
    inbox_close(&c->inbox);
    hub_put(c->hub);
    free(c);
}

void conn_release(struct conn *c)
{
    if (uv_is_closing((uv_handle_t *)&c->timer)) {
        return;
    }
    dial_free(c);
    conn_detach(c);
    c->state = CONN_CLOSED;
    conn_clean(c);
    conn_drop_queue(c);
    uv_close((uv_handle_t *)&c->timer, on_freed);
}

void conn_end(struct conn *c, int status, const char *why)
{
    const bool was_open = c->state == CONN_OPEN, silent = c->state > CONN_OPEN;

    if (!silent) {
        struct listener *l = c->listener;

        if (l != NULL) {
            listen_conn_closed(c, status, why, was_open);
        }
        if (l == NULL || was_open) {
            conn_detach(c);
            c->state = CONN_CLOSED; /* What is sent now is dropped. */
            c->handler->closed(c, status, why);
        }
    }
    conn_release(c);
}

void conn_fail(struct conn *c, int status, const char *why)
{
    if (c->dial != NULL && c->state < CONN_OPEN) {
        dial_failed(c, status, why);
    } else {
        conn_end(c, status, why);
    }
}

void conn_arm(struct conn *c, uint64_t ms)
{
    uv_update_time(c->hub->loop);
    uv_timer_start(&c->timer, on_timer, ms, 0);
}

static void on_quiet(struct conn *c)
{
    const uint64_t quiet_ms = uv_now(c->hub->loop) - c->heard_ms;
    char why[128];

    if (!c->heard && c->server) {
        snprintf(why, sizeof(why), "it said nothing for %u ms after the handshake",
                 (unsigned)c->limits.handshake_ms);
        conn_fail(c, MU_ETIMEDOUT, why);
    } else if (quiet_ms >= c->limits.idle_ms) {
        snprintf(why, sizeof(why), "it has said nothing for %llu ms", (unsigned long long)quiet_ms);
        conn_fail(c, MU_ETIMEDOUT, why);
    } else {
        conn_arm(c, c->limits.idle_ms - quiet_ms);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct conn *c = timer->data;

    switch ((enum conn_state)c->state) {
    case CONN_DIALING:
        dial_next(c);
        return;
    case CONN_CONNECTING:
        conn_fail(c, MU_ETIMEDOUT, socket_why(ETIMEDOUT));
        return;
    case CONN_SHAKING:
        conn_fail(c, MU_ETIMEDOUT, "the handshake took too long");
        return;
    case CONN_OPEN:
        on_quiet(c);
        return;
    case CONN_FLUSHING:
    case CONN_LINGERING:
        conn_release(c);
        return;
    case CONN_CLOSED:
        return;
    }
}

void conn_opened(struct conn *c)
{
    c->state = CONN_OPEN;
    dial_free(c);
    name_peer(c);
    c->heard_ms = uv_now(c->hub->loop);
    conn_watch(c, UV_READABLE);
    /* Only a server may be impatient: a client's first word may wait for a slow disk there. */
    if (c->server) {
        conn_arm(c, c->limits.handshake_ms);
    } else if (c->limits.idle_ms != 0) {
        conn_arm(c, c->limits.idle_ms);
    } else {
        uv_timer_stop(&c->timer);
    }
    if (c->listener != NULL) {
        listen_conn_opened(c);
    }
    if (c->out != NULL) {
        conn_mark(c);
    }
    c->handler->opened(c);
}

int conn_open(uv_loop_t *loop, int fd, struct tls *tls, bool server,
              const struct conn_handler *handler, const struct conn_limits *limits, void *data,
              struct conn **c_out)
{
    struct conn *c;
    int rc = conn_make(loop, tls, server, handler, limits, data, &c);

    if (rc != MU_OK) {
        return rc;
    }
    rc = conn_attach(c, fd);
    if (rc != MU_OK) {
        conn_release(c);
        return rc;
    }
    socket_tune(fd);
    conn_arm(c, c->limits.handshake_ms);
    if (server && tls != NULL) {
        c->state = CONN_SHAKING;
        conn_watch(c, UV_READABLE);
    }
    *c_out = c;
    return MU_OK;
}

void conn_mark(struct conn *c)
{
    if (!c->dirty) {
        c->dirty = true;
        TAILQ_INSERT_TAIL(&c->hub->dirty, c, dirty_link);
    }
}

void conn_clean(struct conn *c)
{
    if (c->dirty) {
        c->dirty = false;
        TAILQ_REMOVE(&c->hub->dirty, c, dirty_link);
    }
}

static void doom(struct conn *c, int status)
{
    c->doomed = status;
    conn_mark(c);
}

void conn_send(struct conn *c, struct frame *f)
{
    if (c->state > CONN_OPEN || c->doomed != MU_OK) {
        return;
    }
    struct out *o = malloc(sizeof(*o));

    if (o == NULL) {
        doom(c, MU_ENOMEM);
        return;
    }
    o->next = NULL;
    o->frame = frame_ref(f);
    *c->out_end = o;
    c->out_end = &o->next;
    c->out_n += f->n;
    /* The frame that is on its way does not count: one that is longer than the limit may be sent.
     */
    if (c->out_n - (c->out->frame->n - c->head_at) > c->limits.out_max) {
        doom(c, MU_ELIMIT);
    } else if (!c->blocked) {
        conn_mark(c);
    }
}

void conn_say(struct conn *c, enum wire_type type, const void *msg, uint64_t generation,
              uint64_t request)
{
    if (c->state > CONN_OPEN || c->doomed != MU_OK) {
        return;
    }
    struct frame *f = frame_make(type, msg, generation, request);

    if (f == NULL) {
        doom(c, MU_ENOMEM);
        return;
    }
    conn_send(c, f);
    frame_unref(f);
}

void conn_close(struct conn *c, uint32_t flush_ms)
{
    if (c->state == CONN_CLOSED || (c->state > CONN_OPEN && flush_ms > 0)) {
        return;
    }
    if (c->listener != NULL) {
        listen_conn_left(c);
    }
    if (c->state == CONN_OPEN && flush_ms > 0 && c->doomed == MU_OK) {
        c->state = CONN_FLUSHING;
        conn_arm(c, flush_ms);
        conn_mark(c);
    } else {
        conn_release(c);
    }
}

void *conn_data(const struct conn *c)
{
    return c->data;
}

void conn_set_data(struct conn *c, void *data)
{
    c->data = data;
}

size_t conn_queued(const struct conn *c)
{
    return c->out_n;
}

bool conn_is_open(const struct conn *c)
{
    return c->state == CONN_OPEN;
}

const char *conn_peer(const struct conn *c)
{
    return c->peer[0] != '\0' ? c->peer : "not connected";
}

int conn_peer_cred(const struct conn *c, uint32_t *uid_out, uint32_t *pid_out)
{
    struct sockaddr_storage sa = {0};
    socklen_t sa_n = sizeof(sa);
    struct ucred cred;
    socklen_t n = sizeof(cred);

    if (c->fd < 0 || getsockname(c->fd, (struct sockaddr *)&sa, &sa_n) != 0 ||
        sa.ss_family != AF_UNIX || getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) != 0) {
        return MU_EINVAL;
    }
    *uid_out = (uint32_t)cred.uid;
    *pid_out = (uint32_t)cred.pid;
    return MU_OK;
}
