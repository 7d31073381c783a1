/* Accepts connections, and refuses them in bounds: how many there may be, how many may be in their
 * handshake, and how often a refusal is logged. */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "net/conn.h"

struct listener;

struct listen_config {
    struct conn_limits limits;
    uint32_t conns_max;      /* all; 0: as open files allow */
    uint32_t handshakes_max; /* that have not shown the token; 0: 4,096. By TLS at most a quarter
                                of conns_max. Newcomers wait; whoever was silent for a quarter of
                                handshake_ms makes room */
};

struct listen_counts {
    uint64_t accepted;
    uint64_t opened;      /* authenticated */
    uint64_t refused;     /* wrong or no token, plain bytes, other protocols */
    uint64_t timed_out;   /* said nothing */
    uint64_t shed;        /* over a limit */
    uint64_t broken;      /* authenticated, then bad frames */
    uint64_t unread;      /* closed because they did not read */
    uint32_t now;         /* open now */
    uint32_t handshaking; /* of these not yet authenticated */
};

/* `opened` (of handler) is called for authenticated connections only, and `closed` only for those
 * that were opened; the rest is counted and logged here, at most one line a second. handler, tls
 * and config are copied or borrowed until close: config is copied. error: NET_ERROR_MAX. */
int listen_tcp(uv_loop_t *loop, const struct endpoint *at, struct tls *tls,
               const struct conn_handler *handler, const struct listen_config *config, void *data,
               struct listener **l_out, char *error);

/* A unix socket, 0600; a stale file is replaced, a live one is MU_EBUSY. */
int listen_unix(uv_loop_t *loop, const char *path, const struct conn_handler *handler,
                const struct listen_config *config, void *data, struct listener **l_out,
                char *error);

/* A TCP socket that listens, for those who accept by themselves; the caller's. not_open: why it may
 * be on loopback only ("without a …"), or NULL. */
int listen_socket(const struct endpoint *at, const char *not_open, int *fd_out, uint16_t *port_out,
                  char *error);

uint16_t listen_port(const struct listener *l);
const struct listen_counts *listen_counts(const struct listener *l);

/* Stops accepting and closes all its connections without callbacks; freed from the loop. */
void listen_close(struct listener *l);

#endif
