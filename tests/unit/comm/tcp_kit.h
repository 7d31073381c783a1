/* Two workers by hand, linked over TCP on this host; or one, with the other end of its connection
 * in the test's hands. link_lose() and link_claim() are the kit's. */
#ifndef UNIT_COMM_TCP_KIT_H
#define UNIT_COMM_TCP_KIT_H

#include "unit/unit.h"

#include "comm/comm_state.h"

struct tcp_side {
    struct comm comm;
    struct link *link;
};

struct tcp_pair {
    struct tcp_side a, b; /* a dialed */
};

struct tcp_pair_config {
    bool tls_a, tls_b;
    bool other_key; /* b has another key of the run */
    bool narrow;    /* the kernel's buffers are as small as they can be */
};

/* Neither is in a group. */
void tcp_pair_open(struct tcp_pair *p, struct tcp_pair_config config);
void tcp_pair_close(struct tcp_pair *p);

/* a alone; what is written to *fd_out is what it reads. */
void tcp_raw_open(struct tcp_side *side, bool tls, int *fd_out);
void tcp_side_close(struct tcp_side *side);

/* Its group is this generation now, and it says so to the peer. */
void tcp_side_move(struct tcp_side *side, uint64_t generation);
/* The same for both, until each has proved it to the other. */
void tcp_pair_move(struct tcp_pair *p, uint64_t generation);

/* What a worker of the kit gives as a proof. */
void tcp_kit_proof(uint64_t generation, uint8_t proof[HELLO_PROOF_BYTES]);

/* Why the last link was lost. */
const char *tcp_kit_why(void);

/* What await() asks for: 0 if nothing. */
short tcp_kit_awaits(struct link *l, bool rx, bool tx);

/* Waits until await() says that something can happen; fails the test if nothing does. */
void tcp_kit_wait(struct link *l, bool rx, bool tx);

/* `bytes` that belong to note number `seed`. */
void tcp_kit_fill(uint64_t seed, uint8_t *data, size_t bytes);
bool tcp_kit_filled(uint64_t seed, const uint8_t *data, size_t bytes);

#endif
