/* Two or more workers with links through shared memory between them, without a tender: what it
 * would do, tests do themselves. link_lose(), link_claim() and comm_ring() are the kit's. */
#ifndef UNIT_COMM_SHM_KIT_H
#define UNIT_COMM_SHM_KIT_H

#include "comm/shm.h"
#include "unit/unit.h"

#define KIT_HOST 7u
#define KIT_PEERS_MAX 8

struct kit_worker {
    struct comm c;
    struct member members[KIT_PEERS_MAX];
    struct link *links[KIT_PEERS_MAX]; /* by rank */
    uint64_t claim;                    /* the last that link_claim() was told of */
    uint8_t proof[HELLO_PROOF_BYTES];
    char why[128]; /* of the last link that was lost */
};

/* A worker of `n`, in generation 1. */
void kit_open(struct kit_worker *w, uint32_t rank, uint32_t n, uint32_t cores_n);
void kit_close(struct kit_worker *w);

/* A link to rank `peer` over this socket. The board of that one is not heard of yet. */
struct link *kit_link(struct kit_worker *w, uint32_t peer, int fd);
/* … until it is. */
void kit_meet(struct link *l);

/* Both at once, in one process: ranks 0 and 1. */
void kit_pair(struct kit_worker pair[2]);
void kit_unpair(struct kit_worker pair[2]);

void *kit_alloc(struct kit_worker *w, size_t bytes);

/* A note of `kind` DATA in generation 1 with this number in `count`. */
struct note kit_note(uint64_t number, uint64_t bytes);

#endif
