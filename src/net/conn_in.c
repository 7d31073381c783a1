/* Bytes into a connection: one read of the socket per turn of the loop into the hub's buffer, all
 * of which is decrypted and taken at once, so nothing waits where poll can't see it. */
#include "net/conn_state.h"

#include "net/socket.h"

#include <errno.h>
#include <openssl/err.h>
#include <string.h>

#define HELLO_MAX 4096u

static void note_heard(struct conn *c)
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
        if (rc == MU_OK && c->handler->raw != NULL) {
            note_heard(c);
            c->handler->raw(c, &h, payload);
            continue;
        }
        if (rc == MU_OK) {
            rc = desk_decode(&c->hub->desk, &h, payload, &fault);
        }
        if (rc != MU_OK) {
            conn_fail(c, rc, fault.text);
            return;
        }
        note_heard(c);
        c->handler->frame(c, &h, &c->hub->desk.msg);
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
bool conn_need_session(struct conn *c)
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

/* OpenSSL takes up the session of a key once its proof in the hello was right. Such a client gets
 * its time anew: when all come at once, it is the crowd that makes it slow. */
static void note_keyed(struct conn *c)
{
    if (c->listener != NULL && !c->guest && SSL_session_reused(c->ssl) == 1) {
        listen_conn_keyed(c);
        conn_arm(c, c->limits.handshake_ms);
    }
}

bool conn_shake(struct conn *c)
{
    ERR_clear_error();
    const int rc = SSL_do_handshake(c->ssl);

    if (rc == 1) {
        note_keyed(c);
        if (!tls_proved(c->ssl)) {
            conn_fail(c, MU_EREFUSED, "the other side did not prove that it knows the token");
            return false;
        }
        conn_opened(c);
        return c->state == CONN_OPEN;
    }
    switch (SSL_get_error(c->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        note_keyed(c);
        conn_watch(c, UV_READABLE);
        return false;
    case SSL_ERROR_WANT_WRITE:
        note_keyed(c);
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

static void fail_read(struct conn *c, int error)
{
    if (error != ETIMEDOUT || c->state != CONN_OPEN) {
        conn_fail(c, MU_EIO, socket_why(error));
        return;
    }
    /* The kernel gives up on what was sent and never taken. */
    conn_fail(c, c->server && c->out != NULL ? MU_ELIMIT : MU_EIO,
              "it takes nothing any more: it does not read, or the network is broken");
}

void conn_read(struct conn *c)
{
    uint8_t *raw = c->hub->raw;
    const size_t kept = c->first_n;

    memcpy(raw, c->first, kept);
    ssize_t n = recv(c->fd, raw + kept, HUB_RAW_BYTES - kept, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n < 0) {
        fail_read(c, errno);
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
    if (!conn_need_session(c)) {
        return;
    }
    tls_feed(c->ssl, raw, (size_t)n);
    if (c->state == CONN_OPEN || conn_shake(c)) {
        read_session(c);
    }
    if (c->ssl != NULL) {
        tls_feed(c->ssl, NULL, 0);
    }
}
