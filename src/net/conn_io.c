/* Bytes in and out of a connection. In: one read of the socket per turn of the loop into the hub's
 * buffer, all of which is decrypted and taken at once, so nothing waits where poll can't see it.
 * Out: small frames are gathered into one record, long ones are written from where they are. */
#include "net/conn_state.h"

#include "net/socket.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELLO_MAX 4096u
#define FLUSH_MAX ((size_t)1 << 20) /* in one turn; others wait too */

static void read_some(struct conn *c);

void conn_watch(struct conn *c, int events)
{
    if (c->events != events) {
        c->events = events;
        uv_poll_start(c->poll, events, conn_on_poll);
    }
}

void conn_drop_queue(struct conn *c)
{
    while (c->out != NULL) {
        struct out *o = c->out;

        c->out = o->next;
        frame_unref(o->frame);
        free(o);
    }
    c->out_end = &c->out;
    c->out_n = 0;
    c->head_at = 0;
}

/* ---- in ---- */

static void on_frame(struct conn *c, const struct wire_header *h)
{
    c->heard_ms = uv_now(c->hub->loop);
    if (!c->heard) {
        c->heard = true;
        if (c->limits.idle_ms != 0) {
            conn_arm(c, c->limits.idle_ms);
        } else {
            uv_timer_stop(&c->timer);
        }
    }
    c->handler->frame(c, h, &c->hub->desk.msg);
}

static void take(struct conn *c, const uint8_t *bytes, size_t n)
{
    while (c->state == CONN_OPEN) {
        struct wire_fault fault = {0};
        struct wire_header h;
        const uint8_t *payload;
        int rc = inbox_next(&c->inbox, &bytes, &n, c->limits.frame_max, &h, &payload, &fault);

        if (rc == MU_EAGAIN) {
            return;
        }
        if (rc == MU_OK) {
            rc = desk_decode(&c->hub->desk, &h, payload, &fault);
        }
        if (rc != MU_OK) {
            conn_fail(c, rc, fault.text);
            return;
        }
        on_frame(c, &h);
        desk_clear(&c->hub->desk);
    }
}

static void fail_tls(struct conn *c, int rc)
{
    char why[NET_ERROR_MAX];
    const int status = tls_why(c->ssl, rc, why, sizeof(why));

    conn_fail(c, status, why);
}

/* A connection that has said nothing costs no session. */
static bool need_session(struct conn *c)
{
    if (c->ssl == NULL) {
        c->ssl = tls_session(c->tls, c->fd);
        if (c->ssl == NULL) {
            conn_fail(c, MU_ENOMEM, "out of memory for a TLS session");
            return false;
        }
        tls_feed(c->ssl, NULL, 0);
    }
    return true;
}

/* One step of the handshake; whether it is done, and c open. */
static bool shake(struct conn *c)
{
    ERR_clear_error();
    const int rc = SSL_do_handshake(c->ssl);

    if (rc == 1) {
        if (!tls_proved(c->ssl)) {
            conn_fail(c, MU_EREFUSED, "the other side did not prove that it knows the token");
            return false;
        }
        conn_opened(c);
        return c->state == CONN_OPEN;
    }
    switch (SSL_get_error(c->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        conn_watch(c, UV_READABLE);
        return false;
    case SSL_ERROR_WANT_WRITE:
        conn_watch(c, UV_READABLE | UV_WRITABLE);
        return false;
    default:
        fail_tls(c, rc);
        return false;
    }
}

static void read_session(struct conn *c)
{
    while (c->state == CONN_OPEN) {
        ERR_clear_error();
        const int n = SSL_read(c->ssl, c->hub->plain, sizeof(c->hub->plain));

        if (n > 0) {
            take(c, c->hub->plain, (size_t)n);
            continue;
        }
        switch (SSL_get_error(c->ssl, n)) {
        case SSL_ERROR_WANT_READ:
            return;
        case SSL_ERROR_WANT_WRITE:
            c->blocked = true;
            conn_watch(c, UV_READABLE | UV_WRITABLE);
            return;
        default:
            fail_tls(c, n);
            return;
        }
    }
}

static void on_end(struct conn *c)
{
    if (c->ssl == NULL && c->tls == NULL) {
        conn_fail(c, MU_OK, "the other side closed the connection");
    } else if (c->state == CONN_SHAKING) {
        conn_fail(c, MU_EIO, "the other side closed the connection in the handshake");
    } else {
        conn_fail(c, MU_EIO, "the connection was cut off");
    }
}

/* Before anything is proved, OpenSSL would set aside as much as a ClientHello claims to be long, up
 * to 128 KiB. So its head is looked at first; ours is some 300 bytes. Whether to go on. */
static bool greet(struct conn *c, const uint8_t *raw, size_t n)
{
    if (raw[0] != SSL3_RT_HANDSHAKE) {
        return true; /* OpenSSL tells what it is. */
    }
    if (n < HELLO_HEAD) {
        memcpy(c->first, raw, n);
        c->first_n = (uint8_t)n;
        return false;
    }
    const unsigned record_n = (unsigned)raw[3] << 8 | raw[4];
    const unsigned hello_n = (unsigned)raw[6] << 16 | (unsigned)raw[7] << 8 | raw[8];

    if (record_n < 4 || hello_n > HELLO_MAX) {
        conn_fail(c, MU_EPROTO, "its TLS handshake is not muster's");
        return false;
    }
    return true;
}

static void read_some(struct conn *c)
{
    uint8_t *raw = c->hub->raw;
    const size_t kept = c->first_n;

    memcpy(raw, c->first, kept);
    ssize_t n = recv(c->fd, raw + kept, HUB_RAW_BYTES - kept, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n < 0) {
        conn_fail(c, MU_EIO, socket_why(errno));
        return;
    }
    if (n == 0) {
        on_end(c);
        return;
    }
    if (!c->spoke && c->listener != NULL && c->state == CONN_SHAKING) {
        listen_conn_spoke(c);
    }
    c->spoke = true;
    if (c->tls == NULL) {
        take(c, raw, (size_t)n);
        return;
    }
    n += (ssize_t)kept;
    if (c->server && c->ssl == NULL && !greet(c, raw, (size_t)n)) {
        return;
    }
    c->first_n = 0;
    if (!need_session(c)) {
        return;
    }
    tls_feed(c->ssl, raw, (size_t)n);
    if (c->state == CONN_OPEN || shake(c)) {
        read_session(c);
    }
    if (c->ssl != NULL) {
        tls_feed(c->ssl, NULL, 0);
    }
}

/* ---- out ---- */

/* The next bytes to write: from the first frame, or several small ones gathered. After a write
 * that was put off this gives the same bytes again, and maybe more: as OpenSSL wants it. */
static size_t gather(struct conn *c, const uint8_t **bytes_out)
{
    uint8_t *plain = c->hub->plain;
    uint32_t at = c->head_at;
    size_t n = 0;

    if (c->out->frame->n - at >= HUB_PLAIN_BYTES || c->out->next == NULL) {
        *bytes_out = c->out->frame->bytes + at;
        return MIN(c->out->frame->n - at, HUB_PLAIN_BYTES);
    }
    for (const struct out *o = c->out; o != NULL && n < HUB_PLAIN_BYTES; o = o->next) {
        const size_t part = MIN(o->frame->n - at, HUB_PLAIN_BYTES - n);

        memcpy(plain + n, o->frame->bytes + at, part);
        n += part;
        at = 0;
    }
    *bytes_out = plain;
    return n;
}

static void drop_sent(struct conn *c, size_t n)
{
    c->out_n -= n;
    while (n > 0) {
        struct out *o = c->out;
        const size_t left = o->frame->n - c->head_at;

        if (n < left) {
            c->head_at += (uint32_t)n;
            return;
        }
        n -= left;
        c->head_at = 0;
        c->out = o->next;
        if (c->out == NULL) {
            c->out_end = &c->out;
        }
        frame_unref(o->frame);
        free(o);
    }
}

/* Bytes written, 0 if it must wait, or a negative status with the reason in why. */
static ssize_t put(struct conn *c, const uint8_t *bytes, size_t n, char *why, size_t cap)
{
    if (c->ssl == NULL) {
        const ssize_t sent = send(c->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            snprintf(why, cap, "%s", socket_why(errno));
            return MU_EIO;
        }
        c->blocked = sent < 0;
        return MAX(sent, 0);
    }
    ERR_clear_error();
    const int sent = SSL_write(c->ssl, bytes, (int)n);

    if (sent > 0) {
        return sent;
    }
    switch (SSL_get_error(c->ssl, sent)) {
    case SSL_ERROR_WANT_WRITE:
        c->blocked = true;
        return 0;
    case SSL_ERROR_WANT_READ:
        return 0; /* The next read goes on with it. */
    default:
        (void)tls_why(c->ssl, sent, why, cap);
        return MU_EIO;
    }
}

static void say_goodbye(struct conn *c)
{
    if (c->ssl != NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(c->ssl);
        ERR_clear_error();
    }
    (void)shutdown(c->fd, SHUT_WR);
    c->state = CONN_LINGERING;
    conn_watch(c, UV_READABLE);
}

/* The peer may have said why it closed: that comes before the news that writing failed. */
static void on_broken(struct conn *c, const char *why)
{
    for (int i = 0; i < 64 && c->state == CONN_OPEN; i++) {
        read_some(c);
    }
    if (c->state == CONN_OPEN || c->state == CONN_FLUSHING) {
        conn_fail(c, MU_EIO, why);
    }
}

static void flush(struct conn *c)
{
    char why[NET_ERROR_MAX];
    size_t done = 0;

    c->blocked = false;
    while (c->out != NULL && done < FLUSH_MAX) {
        const uint8_t *bytes;
        const size_t n = gather(c, &bytes);
        const ssize_t sent = put(c, bytes, n, why, sizeof(why));

        if (sent < 0) {
            on_broken(c, why);
            return;
        }
        if (sent == 0) {
            break;
        }
        drop_sent(c, (size_t)sent);
        done += (size_t)sent;
    }
    if (c->out != NULL) {
        c->blocked = true;
        conn_watch(c, UV_READABLE | UV_WRITABLE);
    } else if (c->state == CONN_FLUSHING) {
        say_goodbye(c);
    } else {
        conn_watch(c, UV_READABLE);
    }
}

void conn_settle(struct conn *c)
{
    char why[128];

    if (c->doomed == MU_ELIMIT) {
        snprintf(why, sizeof(why), "it does not read: %zu bytes are queued for it", c->out_n);
        conn_end(c, c->doomed, why);
    } else if (c->doomed != MU_OK) {
        conn_end(c, c->doomed, mu_strerror(c->doomed));
    } else if (c->state == CONN_OPEN || c->state == CONN_FLUSHING) {
        flush(c);
    }
}

/* ---- the loop ---- */

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
    if (need_session(c)) {
        (void)shake(c);
    }
}

static void discard(struct conn *c)
{
    const ssize_t n = recv(c->fd, c->hub->raw, sizeof(c->hub->raw), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        conn_release(c);
    }
}

void conn_on_poll(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;

    if (status < 0) { /* libuv calls every error of the socket the same; the socket knows more. */
        const int error = socket_outcome(c->fd);

        conn_fail(c, MU_EIO, error != 0 ? socket_why(error) : uv_strerror(status));
        return;
    }
    if (c->state == CONN_CONNECTING) {
        on_connected(c);
        return;
    }
    if ((events & UV_READABLE) != 0) {
        if (c->state == CONN_SHAKING || c->state == CONN_OPEN) {
            read_some(c);
        } else if (c->state == CONN_FLUSHING || c->state == CONN_LINGERING) {
            discard(c);
        }
    }
    if ((events & UV_WRITABLE) != 0 && c->poll == handle) {
        if (c->state == CONN_SHAKING) {
            (void)shake(c);
        } else if (c->state == CONN_OPEN || c->state == CONN_FLUSHING) {
            flush(c);
        }
    }
}
