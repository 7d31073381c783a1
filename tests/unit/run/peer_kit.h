/* Another worker, in a process of its own with a fake agent of its own, which does what it is told:
 * a process can join but once. */
#ifndef UNIT_RUN_PEER_KIT_H
#define UNIT_RUN_PEER_KIT_H

#include "unit/run/run_kit.h"

#define PEER wid_make(3, 1, 2)
#define PEER_LONG_MS 20000 /* against hanging only */

struct peer {
    pid_t pid;
    int fd;
    char addr[ADDR_MAX_LEN]; /* where it is */
};

/* Begins it; before this process has joined. It joins. */
void peer_open(struct peer *p);
/* It leaves; it may join again, where it was. */
void peer_leave(struct peer *p);
void peer_join(struct peer *p);
/* It ends, having left. Again is fine. */
void peer_close(struct peer *p);

/* Its agent tells it. */
void peer_generation(struct peer *p, const struct generation *g);
void peer_active(struct peer *p, uint64_t generation);

/* It begins to make a call: an all-reduce of one i32, of which it gives `mine`. `regroups`: it goes
 * to the newest generation before that. flags: as of mu_call. */
void peer_begin(struct peer *p, bool regroups, int32_t mine, unsigned flags);
/* Waits for that: what came of it, and the sum. */
int peer_end(struct peer *p, int32_t *sum_out);

/* As a switch or a firewall on the way would reset the link of this worker, rank 1, to the peer,
 * rank 0: when it returns both have noticed. */
void peer_reset_link(struct peer *p, mu_run *run);

#endif
