/* Where a worker listens for others, and where it finds them. A data address is "10.0.0.1:4711" or
 * "[fd00::1]:4711"; the unix socket of the same worker is named after its port, so that it follows
 * from the address. */
#ifndef COMM_ADDR_H
#define COMM_ADDR_H

#include "comm/comm.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

struct addr {
    socklen_t n;
    union {
        struct sockaddr sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    };
};

/* Of a member: numbers only, since a name could take seconds to be found. MU_EINVAL. */
int addr_parse(const char *text, struct addr *addr_out);

/* Where config.address or config.iface wants this worker to listen. MU_EINVAL, MU_ENOENT. */
int addr_choose(const struct comm_config *config, struct addr *addr_out, char *error);

/* "10.0.0.1:4711", "[fd00::1]:4711" */
void addr_print(const struct addr *a, char text[ADDR_MAX_LEN]);

uint16_t addr_port(const struct addr *a);

/* The unix socket (abstract, SOCK_SEQPACKET) of the worker with this port. */
void addr_local(uint16_t port, struct addr *addr_out);

/* Sockets that do not block. -1 and errno. */
int addr_bind(const struct addr *a, int type);
int addr_connect(const struct addr *a, int type); /* may still be under way (EINPROGRESS is fine) */

#endif
