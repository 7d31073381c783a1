/* A listener from inside: listen.c accepts and counts, listen_open.c makes sockets. */
#ifndef NET_LISTEN_STATE_H
#define NET_LISTEN_STATE_H

#include "base/log.h"
#include "net/conn_state.h"
#include "net/listen.h"

#include <sys/types.h>

struct listener {
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t pause; /* without files, or without room */
    uint32_t handles_n;
    int fd;
    int spare_fd; /* given up for a moment to accept and close when there are no more files */
    bool closing;
    struct tls *tls;
    const struct conn_handler *handler;
    struct listen_config config;
    void *data;
    struct listen_counts counts;
    struct conn_list strangers; /* not yet keyed; the longest silent first */
    struct conn_list guests;    /* in their handshake, keyed right so far */
    struct conn_list open;
    uint32_t strangers_n, guests_n;
    struct log_pace pace;
    uint16_t port;
    char path[112]; /* of a unix socket; "" else */
    dev_t path_dev;
    ino_t path_ino;
};

/* Takes a listening socket on success. */
int listen_start(uv_loop_t *loop, int fd, struct tls *tls, const struct conn_handler *handler,
                 const struct listen_config *config, void *data, struct listener **l_out,
                 char *error);

#endif
