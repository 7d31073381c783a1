/* Where a worker listens for others, and where it finds them. A data address is "10.0.0.1:4711" or
 * "[fd00::1]:4711". The unix socket of the same worker is named after its port, so that it follows
 * from the address. */
#ifndef LINK_ADDR_H
#define LINK_ADDR_H

#include "base/address.h"
#include "link/hello.h"

#define LINK_ERROR_MAX 256

/* Of a member: numbers only, since a name could take seconds to be found. MU_EINVAL. */
int addr_parse(const char *text, struct address *addr_out);

/* Where a worker that was told this address ("host[:port]"; NULL: 127.0.0.1), or this interface (if
 * it is not NULL or ""), listens. MU_EINVAL, MU_ENOENT, MU_EIO, MU_ENOMEM, and why in `error`
 * (LINK_ERROR_MAX). */
int addr_choose(const char *address, const char *iface, struct address *addr_out, char *error);

/* The unix socket (abstract) for a class of the worker with this port. GROUP's is of
 * SOCK_SEQPACKET, for descriptors; HELPER's a stream. */
void addr_local(enum link_class class, uint16_t port, struct address *addr_out);
int addr_local_type(enum link_class class);

/* Sockets that do not block. -1 and errno. */
int addr_bind(const struct address *a, int type);
/* The connection may still be under way. */
int addr_connect(const struct address *a, int type);

#endif
