/* Bytes out of a connection: small frames are gathered into one record, long ones are written from
 * where they are. */
#include "net/conn_state.h"

#include "net/socket.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_READS 64
#define FLUSH_MAX ((size_t)1 << 20) /* in one turn; others wait too */

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

void conn_broken(struct conn *c, const char *why)
{
    for (int i = 0; i < LAST_READS && c->state == CONN_OPEN; i++) {
        conn_read(c);
    }
    if (c->state != CONN_CLOSED) {
        conn_fail(c, MU_EIO, why);
    }
}

void conn_flush(struct conn *c)
{
    char why[NET_ERROR_MAX];
    size_t done = 0;

    c->blocked = false;
    while (c->out != NULL && done < FLUSH_MAX) {
        const uint8_t *bytes;
        const size_t n = gather(c, &bytes);
        const ssize_t sent = put(c, bytes, n, why, sizeof(why));

        if (sent < 0) {
            conn_broken(c, why);
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
        conn_flush(c);
    }
}
