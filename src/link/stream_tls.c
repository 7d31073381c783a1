/* Bytes through TLS. The handshake is made on the way. */
#include "link/stream.h"
#include "net/psk.h"
#include "net/tls_bio.h"

#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* After a call that gave rc: 0 if it only has to wait. */
static ssize_t explain(struct stream *s, int rc)
{
    struct stream_tls *tls = s->tls;
    const int error = SSL_get_error(tls->ssl, rc);
    BIO *below = SSL_get_rbio(tls->ssl);

    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        tls->wants = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return 0;
    }
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    ERR_clear_error();
    if (tls_bio_errno(below) != 0) {
        s->why = strerrordesc_np(tls_bio_errno(below));
        return MU_EPEER;
    }
    if (BIO_eof(below) || error == SSL_ERROR_ZERO_RETURN) {
        s->why = "it closed the connection";
        return MU_EPEER;
    }
    snprintf(tls->text, sizeof(tls->text), "TLS failed (%s): is it set for all workers, or none?",
             reason != NULL ? reason : "unknown");
    s->why = tls->text;
    return MU_EPROTO;
}

/* 1: done; 0: not yet. */
static ssize_t shake_hands(struct stream *s)
{
    struct stream_tls *tls = s->tls;

    if (tls->proved) {
        return 1;
    }
    ERR_clear_error();
    const int rc = SSL_do_handshake(tls->ssl);

    if (rc != 1) {
        return explain(s, rc);
    }
    if (!psk_proved(tls->ssl)) {
        s->why = "TLS did without the key";
        return MU_EPROTO;
    }
    tls->proved = true;
    tls->wants = 0;
    return 1;
}

/* OpenSSL has bytes that poll() knows nothing of: so it is read until it has no more. */
ssize_t link_stream_tls_read(struct stream *s, struct iovec *pieces, uint32_t n)
{
    ssize_t rc = shake_hands(s);
    size_t all = 0;

    if (rc != 1) {
        return rc;
    }
    for (uint32_t i = 0; i < n;) {
        size_t got = 0;

        ERR_clear_error();
        const int ok = SSL_read_ex(s->tls->ssl, pieces[i].iov_base, pieces[i].iov_len, &got);

        if (ok != 1) {
            rc = explain(s, ok);
            s->tls->wants = 0;
            return all > 0 ? (ssize_t)all : rc;
        }
        all += got;
        pieces[i].iov_base = (uint8_t *)pieces[i].iov_base + got;
        pieces[i].iov_len -= got;
        i += pieces[i].iov_len == 0;
    }
    return (ssize_t)all;
}

static ssize_t write_record(struct stream *s)
{
    struct stream_tls *tls = s->tls;

    while (tls->at < tls->n) {
        size_t sent = 0;

        ERR_clear_error();
        const int ok = SSL_write_ex(tls->ssl, tls->record + tls->at, tls->n - tls->at, &sent);

        if (ok != 1) {
            const ssize_t rc = explain(s, ok);

            tls->wants = 0;
            return rc;
        }
        tls->at += sent;
    }
    return 1;
}

/* One record at a time: what is in it has been taken, whether it has left or not. OpenSSL wants a
 * write that could not be finished to be made again with the same bytes, which by then may be
 * gone from where they were. */
ssize_t link_stream_tls_write(struct stream *s, struct iovec *pieces, uint32_t n)
{
    struct stream_tls *tls = s->tls;
    ssize_t rc = shake_hands(s);

    if (rc == 1) {
        rc = write_record(s);
    }
    if (rc != 1) {
        return rc;
    }
    tls->at = tls->n = 0;
    for (uint32_t i = 0; i < n && tls->n < STREAM_RECORD; i++) {
        const size_t part = MIN(pieces[i].iov_len, STREAM_RECORD - tls->n);

        memcpy(tls->record + tls->n, pieces[i].iov_base, part);
        tls->n += part;
    }
    const size_t taken = tls->n;

    rc = write_record(s);
    return rc < 0 ? rc : (ssize_t)taken;
}
