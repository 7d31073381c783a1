/* What the loop tells about a connection's socket. */
#include "net/conn_state.h"

#include "net/socket.h"

#include <errno.h>

static void on_connected(struct conn *c)
{
    const int error = socket_outcome(c->fd);

    if (error != 0) {
        conn_fail(c, MU_EIO, socket_why(error));
        return;
    }
    if (c->tls == NULL) {
        conn_opened(c);
        return;
    }
    c->state = CONN_SHAKING;
    conn_arm(c, c->limits.handshake_ms);
    if (conn_need_session(c)) {
        (void)conn_shake(c);
    }
}

static void discard(struct conn *c)
{
    const ssize_t n = recv(c->fd, c->hub->raw, sizeof(c->hub->raw), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        conn_release(c);
    }
}

/* libuv calls every error of a socket the same; the socket knows more, and tells it once. */
static void on_error(struct conn *c, int status)
{
    if (c->state == CONN_OPEN) {
        conn_broken(c, uv_strerror(status)); /* Reading comes upon the error. */
        return;
    }
    const int error = socket_outcome(c->fd);

    conn_fail(c, MU_EIO, error != 0 ? socket_why(error) : uv_strerror(status));
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;

    if (status < 0) {
        on_error(c, status);
        return;
    }
    if (c->state == CONN_CONNECTING) {
        on_connected(c);
        return;
    }
    if ((events & UV_READABLE) != 0) {
        if (c->state == CONN_SHAKING || c->state == CONN_OPEN) {
            conn_read(c);
        } else if (c->state == CONN_FLUSHING || c->state == CONN_LINGERING) {
            discard(c);
        }
    }
    if ((events & UV_WRITABLE) != 0 && c->poll == handle) {
        if (c->state == CONN_SHAKING) {
            (void)conn_shake(c);
        } else if (c->state == CONN_OPEN || c->state == CONN_FLUSHING) {
            conn_flush(c);
        }
    }
}

void conn_watch(struct conn *c, int events)
{
    if (c->events != events) {
        c->events = events;
        uv_poll_start(c->poll, events, on_poll);
    }
}
