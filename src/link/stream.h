/* Bytes through a connected socket, never waiting: as they are, or by TLS, which is keyed from the
 * run's key and the connection's nonces, with (EC)DHE. The handshake of TLS is made along the way
 * by reads and writes of both sides. */
#ifndef LINK_STREAM_H
#define LINK_STREAM_H

#include "link/hello.h"

#include <openssl/ssl.h>
#include <sys/uio.h>

/* After so long without a sign of life from its host a peer is lost, on links that carry something
 * and on those that don't. A live host's kernel answers by itself, however busy its processes are:
 * the limit is how long an outage of the network may last that is to be survived. */
#define STREAM_SILENCE_S 10
#define STREAM_CHECK_MS 2000 /* how often to ask link_stream_is_silent() */
#define STREAM_RECORD 16384  /* of TLS */

struct stream_tls {
    SSL *ssl;
    bool proved; /* the handshake is done */
    short wants; /* POLLIN, POLLOUT: what the handshake waits for */
    char text[96];
    uint8_t record[STREAM_RECORD]; /* taken from frames and not yet written: [at, n) */
    size_t at, n;
};

struct stream {
    int fd;
    const char *why;        /* what link_stream_read() or link_stream_write() failed of */
    struct stream_tls *tls; /* NULL: none */
};

/* fd stays the caller's; it is set up if it is TCP's. key: for TLS; NULL: none. MU_ENOMEM. */
int link_stream_open(struct stream *s, int fd, const struct hello_session *session,
                     const uint8_t key[KEY_BYTES]);
void link_stream_close(struct stream *s);

/* How many; 0: none now; MU_EPEER, MU_EPROTO: that was it, and s->why. What it took, or filled, may
 * be changed in pieces. */
ssize_t link_stream_read(struct stream *s, struct iovec *pieces, uint32_t n);
ssize_t link_stream_write(struct stream *s, struct iovec *pieces, uint32_t n);

/* Something that link_stream_write() took has not left: call it again, with nothing if there is no
 * more.
 */
bool link_stream_has_left_over(const struct stream *s);

/* What to wait for, of one that wants these events of poll(): the handshake waits for its own. */
short link_stream_events(const struct stream *s, short events);

/* Its host was sent something, and has not answered for STREAM_SILENCE_S. */
bool link_stream_is_silent(int fd);

/* "tcp 10.0.0.2:4711" */
void link_stream_print(const struct stream *s, char *text, size_t cap);

/* ---- for stream.c ---- */

ssize_t link_stream_tls_read(struct stream *s, struct iovec *pieces, uint32_t n);
ssize_t link_stream_tls_write(struct stream *s, struct iovec *pieces, uint32_t n);

#endif
