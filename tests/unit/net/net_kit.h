/* A loop with a listener and whoever connects to it, all in one thread on loopback. */
#ifndef UNIT_NET_NET_KIT_H
#define UNIT_NET_NET_KIT_H

#include "net/client.h"
#include "net/listen.h"
#include "unit/await.h"

/* One end of connections: what its callbacks saw. */
struct side {
    struct kit *kit;
    struct conn *c; /* the one that opened last; NULL once closed */
    uint32_t opened_n, frames_n, closed_n;
    int status;
    char why[NET_ERROR_MAX];
    uint64_t digest; /* of all frames, in order */
    uint16_t last_type;
    uint64_t last_request;
    bool echo;               /* says a lease for each frame */
    bool close_in_frame;     /* closes at the first frame … */
    uint32_t close_flush_ms; /* … this way */
};

struct kit {
    uv_loop_t loop;
    uv_timer_t tick;
    struct token token;
    struct tls *server_tls, *client_tls;
    struct listener *l;
    struct side server, client;
    struct conn_limits client_limits;
};

/* With a listener on a free port; config NULL: all by default. */
void kit_open(struct kit *k, const struct listen_config *config);
void kit_close(struct kit *k);

extern const struct conn_handler kit_handler; /* data: a struct side */

struct endpoints kit_to(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void kit_connect(struct kit *k); /* the client side, over TLS; until both are open */
void kit_turn(struct kit *k);    /* lets the loop run for at most some ms */
int kit_socket(struct kit *k);   /* a bare blocking socket, connected to the listener */

/* A unix connection in the kit's loop: one end is the client side, the other the caller's. */
int kit_pair(struct kit *k);

/* The digest that a side has after one more frame. */
uint64_t kit_digest(uint64_t before, const struct frame *f);

/* A frame of about n bytes. */
struct frame *kit_big(size_t n, uint64_t request);

/* Until cond holds, or the test fails. */
#define kit_wait(k, cond) unit_await(cond, #cond, kit_turn(k))

#endif
