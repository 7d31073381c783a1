/* Framed connections on a libuv loop: TLS over TCP, or plain over a unix socket. One thread.
 *
 * Frames in: reassembled, bounded, decoded, handed to `frame`. Frames out: queued by reference,
 * encrypted as the socket takes them, so that a queue costs its own bytes once however many
 * connections it is on. A connection whose peer does not read is closed when its queue is over
 * `out_max` bytes; one that sends what is no frame is closed and counted.
 *
 * Memory before authentication is bounded: nothing but the TLS session exists until the handshake
 * is done, and that has `handshake_ms`. */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "net/frame.h"
#include "net/tls.h"

#include <uv.h>

struct conn;

struct conn_limits {
    uint32_t handshake_ms; /* for the handshake, and again for a client's first frame; 0: 5,000 */
    uint32_t idle_ms;      /* without a frame from the peer; 0: no limit */
    uint32_t frame_max;    /* longest payload taken; 0: the table's bound for its type */
    size_t out_max;        /* bytes queued behind the frame that is being sent; 0: 64 MiB */
};

/* Calls go to these; the conn stays valid until `closed` has returned. conn_close() from within
 * any of them is fine. */
struct conn_handler {
    /* Authenticated; frames may be sent. */
    void (*opened)(struct conn *c);
    /* Everything is borrowed for the call. */
    void (*frame)(struct conn *c, const struct wire_header *h, const union wire_any *msg);
    /* Gone, for any reason but conn_close(); freed after. Called once, also if never opened.
     * status MU_OK: the peer closed in order. MU_EREFUSED: the handshake failed (token).
     * MU_EPROTO, MU_EVERSION, MU_ECORRUPT: bad frame; MU_EPROTO also if the handshake was not
     * muster's. MU_ELIMIT: it did not read. MU_ETIMEDOUT: said nothing. MU_EIO: network. MU_ENOMEM.
     * `why` is one sentence for a log. */
    void (*closed)(struct conn *c, int status, const char *why);
    /* Unless NULL, instead of `frame`: nothing is decoded, nor its checksum looked at, see
     * desk_decode(). */
    void (*raw)(struct conn *c, const struct wire_header *h, const uint8_t *payload);
};

/* Takes over fd (a connected or connecting non-blocking socket) on success. tls NULL: plain.
 * server: which side of the handshake. handler and tls are borrowed until closed; limits (NULL: all
 * by default) are copied. */
int conn_open(uv_loop_t *loop, int fd, struct tls *tls, bool server,
              const struct conn_handler *handler, const struct conn_limits *limits, void *data,
              struct conn **c_out);

/* Starts to connect to the endpoints, one after the other, resolving names off the loop's thread.
 * `opened` or `closed` follows. */
int conn_connect(uv_loop_t *loop, const struct endpoints *to, struct tls *tls,
                 const struct conn_handler *handler, const struct conn_limits *limits, void *data,
                 struct conn **c_out);

/* Queues; never blocks and never calls back. Dropped in silence if the connection is closing. */
void conn_send(struct conn *c, struct frame *f);

/* frame_make and conn_send; out of memory closes the connection (from the loop, later). */
void conn_say(struct conn *c, enum wire_type type, const void *msg, uint64_t generation,
              uint64_t request);

/* No more callbacks; freed from the loop. flush_ms > 0: what is queued may still leave for that
 * long. */
void conn_close(struct conn *c, uint32_t flush_ms);

void *conn_data(const struct conn *c);
void conn_set_data(struct conn *c, void *data);
size_t conn_queued(const struct conn *c);
bool conn_is_open(const struct conn *c);
/* "127.0.0.1:43210", "pid 4711" for a unix socket; valid as long as c. */
const char *conn_peer(const struct conn *c);
/* SO_PEERCRED of a unix socket; MU_EINVAL otherwise. */
int conn_peer_cred(const struct conn *c, uint32_t *uid_out, uint32_t *pid_out);

#endif
