/* Time, addresses and errors of everything that touches the network. */
#ifndef NET_NET_H
#define NET_NET_H

#include "base/base.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define NET_ERROR_MAX 512
#define HOST_MAX_LEN 256

/* "host:port", "[v6]:port", "host" or ":port", which is 127.0.0.1:port. */
struct endpoint {
    char host[HOST_MAX_LEN];
    uint16_t port;
};

#define ENDPOINTS_MAX 8

struct endpoints {
    uint32_t n;
    struct endpoint at[ENDPOINTS_MAX];
};

/* On failure `error` (NET_ERROR_MAX) says what is wrong with `text` and how it should look.
 * default_port 0: a port must be given. */
int endpoint_parse(const char *text, uint16_t default_port, struct endpoint *e_out, char *error);

/* A list with commas. */
int endpoints_parse(const char *text, uint16_t default_port, struct endpoints *e_out, char *error);

/* "127.0.0.1:5556", "[::1]:5556" */
void endpoint_print(const struct endpoint *e, char *buf, size_t cap);
void address_print(const struct sockaddr *sa, char *buf, size_t cap);

/* Blocking; numeric addresses need no resolver. Sets at most `max` addresses. */
int endpoint_resolve(const struct endpoint *e, struct sockaddr_storage *out, socklen_t *out_len,
                     uint32_t max, uint32_t *n_out, char *error);

bool address_is_loopback(const struct sockaddr *sa);

/* The boot clock: it goes on while the machine sleeps. Never 0. */
uint64_t net_now_ms(void);

/* Wall clock since 1970, for people only. */
uint64_t net_wall_ms(void);

/* Bytes for keys and ids; never fails. */
void net_random(void *out, size_t n);

/* A number that all processes of this host share and that survives restarts of them. */
uint64_t net_host_id(void);

#endif
