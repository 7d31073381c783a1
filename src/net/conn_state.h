/* A connection from inside: for conn*.c, dial.c, listen.c and hub.c only. */
#ifndef NET_CONN_STATE_H
#define NET_CONN_STATE_H

#include "net/conn.h"
#include "net/hub.h"

#define CONN_HANDSHAKE_MS 5000u
#define HELLO_HEAD 9 /* record header and the head of a ClientHello */

enum conn_state {
    CONN_DIALING,    /* no socket yet, see dial.c */
    CONN_CONNECTING, /* waits until the socket is writable */
    CONN_SHAKING,    /* TLS */
    CONN_OPEN,
    CONN_FLUSHING,  /* conn_close() was called; what is queued leaves, what arrives is dropped */
    CONN_LINGERING, /* all has left; waits for the peer to close, lest a reset overtakes it */
    CONN_CLOSED,    /* only memory is left; freed from the loop */
};

struct out {
    struct out *next;
    struct frame *frame;
};

struct conn {
    struct hub *hub;
    uv_poll_t *poll; /* apart from the conn: dialing needs one per socket, and each must be closed
                        in the loop's own time */
    uv_timer_t timer;
    int fd;
    uint8_t state; /* enum conn_state */
    bool server;
    bool guest;   /* of a listener: keyed right so far */
    bool heard;   /* has said at least one frame */
    bool dirty;   /* on the hub's list */
    bool blocked; /* the socket takes no more for now */
    bool spoke;   /* at least a byte has arrived */
    int events;   /* watched now */
    int doomed;   /* to be closed from the loop with this status */
    SSL *ssl;     /* made when the first byte comes or goes */
    struct tls *tls;
    const struct conn_handler *handler;
    struct conn_limits limits;
    void *data;
    struct dial *dial; /* until it is open */
    struct listener *listener;
    TAILQ_ENTRY(conn) link;       /* of the listener */
    TAILQ_ENTRY(conn) dirty_link; /* of the hub */
    struct inbox inbox;
    struct out *out, **out_end;
    size_t out_n;              /* bytes queued */
    uint32_t head_at;          /* of the first frame, bytes that have left */
    uint64_t heard_ms;         /* its last frame; in the handshake, its last sign of life */
    uint8_t first[HELLO_HEAD]; /* of a server: the first bytes, until it is known what they begin */
    uint8_t first_n;
    char peer[64];
};

/* conn.c */
int conn_make(uv_loop_t *loop, struct tls *tls, bool server, const struct conn_handler *handler,
              const struct conn_limits *limits, void *data, struct conn **c_out);
int conn_attach(struct conn *c, int fd); /* takes the socket; state CONNECTING */
void conn_detach(struct conn *c);        /* closes socket and session; the conn lives on */
void conn_fail(struct conn *c, int status, const char *why); /* only from the loop */
void conn_end(struct conn *c, int status,
              const char *why);             /* as conn_fail(), without another try */
void conn_release(struct conn *c);          /* without a word */
void conn_arm(struct conn *c, uint64_t ms); /* 0: as soon as the loop runs */
void conn_opened(struct conn *c);
void conn_mark(struct conn *c); /* onto the hub's list */
void conn_clean(struct conn *c);

/* conn_poll.c */
void conn_watch(struct conn *c, int events);

/* conn_in.c */
bool conn_need_session(struct conn *c); /* one that has said nothing costs no session */
bool conn_shake(struct conn *c);        /* a step of the handshake; whether c is open now */
void conn_read(struct conn *c);

/* conn_out.c */
void conn_settle(struct conn *c); /* what the hub calls before the loop waits */
void conn_flush(struct conn *c);
/* The socket failed. The peer may have said why it closed: that is read first. */
void conn_broken(struct conn *c, const char *why);
void conn_drop_queue(struct conn *c);

/* dial.c */
void dial_next(struct conn *c);
void dial_failed(struct conn *c, int status, const char *why);
void dial_free(struct conn *c);

/* listen.c */
void listen_conn_spoke(struct conn *c); /* its first bytes have come */
void listen_conn_keyed(struct conn *c); /* its first message was made with the token */
void listen_conn_opened(struct conn *c);
void listen_conn_closed(struct conn *c, int status, const char *why, bool was_open);
void listen_conn_left(struct conn *c); /* closed by its user */

#endif
