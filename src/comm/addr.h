/* Where a worker listens for others, and where it finds them. A data address is "10.0.0.1:4711" or
 * "[fd00::1]:4711". The unix socket of the same worker is named after its port, so that it follows
 * from the address. */
#ifndef COMM_ADDR_H
#define COMM_ADDR_H

#include "base/address.h"
#include "comm/comm.h"

/* Of a member: numbers only, since a name could take seconds to be found. MU_EINVAL. */
int addr_parse(const char *text, struct address *addr_out);

/* Where config.address or config.iface wants this worker to listen. MU_EINVAL, MU_ENOENT, MU_EIO,
 * MU_ENOMEM, and why in `error` (COMM_ERROR_MAX). */
int addr_choose(const struct comm_config *config, struct address *addr_out, char *error);

/* The unix socket (abstract, SOCK_SEQPACKET) of the worker with this port. */
void addr_local(uint16_t port, struct address *addr_out);

/* Sockets that do not block. -1 and errno. */
int addr_bind(const struct address *a, int type);
/* The connection may still be under way. */
int addr_connect(const struct address *a, int type);

#endif
