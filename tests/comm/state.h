/* Ranks that hold a state give it to those that lack it (train/stream.c): what each rank does
 * is in state_rank.c, what the test makes of it in state_test.c. */
#ifndef COMM_STATE_H
#define COMM_STATE_H

#include "comm/ranks.h"

#include <stdatomic.h>

#define STATE_VICTIM_NONE UINT32_MAX

/* What goes wrong at rank `odd`. */
enum state_fault {
    STATE_WELL,
    STATE_SAVE_FAILS,
    STATE_LOAD_FAILS,
    STATE_MARK_DIFFERS,
    STATE_LENGTH_DIFFERS,
    STATE_BYTE_FLIPS, /* on its way to it */
};

struct state_case {
    enum ranks_layout layout;
    uint32_t n;
    uint32_t holders; /* bits, by rank */
    size_t large;     /* bytes of the largest part */
    uint32_t small_n; /* parts of some 900 KB */
    bool whole;
    uint64_t seed;
    enum state_fault fault;
    uint32_t odd;
    uint32_t victim; /* dies at its k-th point; k 0: never */
    unsigned long k;
};

/* In the shared memory. */
struct state_shared {
    _Atomic uint32_t come_n;
    _Atomic uint64_t sent, got;
};

/* What ranks say, with what state_stream() gave as a positive number; the victim: how many points
 * it came to. */
enum { STATE_RETURNED = 1, STATE_PASSED, STATE_WENT_ON };

/* Words. */
enum { STATE_END = 1, STATE_REGROUP };

void state_body(struct rank *r);

#endif
