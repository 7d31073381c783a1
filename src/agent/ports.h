/* Ports for MASTER_PORT: free on this host at the moment, and likely to stay so, because they are
 * not among those that the kernel hands out by itself. */
#ifndef AGENT_PORTS_H
#define AGENT_PORTS_H

#include "base/base.h"

#define PORTS_REMEMBERED 64

struct ports {
    uint32_t lo, hi; /* the range that is drawn from, both included */
    uint32_t given_n;
    int claims[PORTS_REMEMBERED]; /* on the last ones, a ring: descriptors */
};

/* Reads which ports are the kernel's own to give. */
void ports_init(struct ports *p);
void ports_close(struct ports *p);

/* The widest part of 20,000–32,767, or else of 1,024–65,535, that is not in [first, last]. */
void ports_range(uint32_t first, uint32_t last, uint32_t *lo_out, uint32_t *hi_out);

/* A port that could be bound on all addresses just now, and none of the last 64 that this agent, or
 * another on this host, has given. MU_EBUSY: there is none. */
int ports_pick(struct ports *p, uint16_t *port_out);

#endif
