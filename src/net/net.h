/* Time, addresses and errors of everything that touches the network. */
#ifndef NET_NET_H
#define NET_NET_H

#include "base/address.h"
#include "base/random.h"

#define NET_ERROR_MAX ADDRESS_ERROR_MAX

/* The boot clock: it goes on while the machine sleeps. Never 0. */
uint64_t net_now_ms(void);

/* Wall clock since 1970, for people only. */
uint64_t net_wall_ms(void);

/* A number that all processes of this host share and that survives restarts of them. */
uint64_t net_host_id(void);

#endif
