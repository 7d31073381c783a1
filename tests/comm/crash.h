/* Three ranks make a few agreed all-reduces; one of them dies or stops in the midst of one. What
 * each rank does is in crash_rank.c, what the test makes of it in crash_test.c. */
#ifndef COMM_CRASH_H
#define COMM_CRASH_H

#include "comm/ranks.h"

#include <stdatomic.h>

#define CRASH_RANKS 3
#define CRASH_CALLS_MAX 64

struct crash {
    enum ranks_layout layout;
    uint32_t victim;
    bool stop;       /* else kill */
    unsigned long k; /* at this point; 0: never */
    uint64_t count;  /* of f32 */
    uint32_t calls_n;
    uint32_t armed_n; /* calls during which the victim may be hit */
    bool asks;        /* after its first call a rank waits for a word before it goes on */
    bool scribbles;   /* survivors overwrite their inputs before the group moves, then restore */
    bool view;
    bool named; /* whoever fails says who it was: no generation comes first */
    int64_t timeout_ms;
};

/* What ranks say. */
enum {
    CRASH_RETURNED = 1, /* value: the call, and << 32 the rank it blames; value2: as follows */
    CRASH_PASSED,       /* the victim: nothing happened; value: how many points there were */
    CRASH_SETTLED,      /* value: its call, value2: committed */
    CRASH_HOLDS,        /* done with its calls; waits for a word, then looks at its memory */
    CRASH_ZOMBIE,       /* the victim, awake again: its call has failed */
    CRASH_ENTERED,      /* value: a generation */
};

enum { CRASH_WENT_WELL, CRASH_FAILED, CRASH_BLAMED /* … and it named the victim */ };

/* Words. */
enum { CRASH_GO_ON = 1, CRASH_REGROUP };

/* In the shared memory, by call. */
struct crash_shared {
    _Atomic uint32_t come_n;
    _Atomic uint64_t active;                      /* generation: the test's word */
    _Atomic uint64_t generation[CRASH_CALLS_MAX]; /* whose result it was: the same for all */
    _Atomic uint32_t victim_ok[CRASH_CALLS_MAX];  /* the victim had returned it */
    _Atomic uint64_t returned_ns[CRASH_RANKS];
};

void crash_body(struct rank *r);
void crash_raw_body(struct rank *r);
void crash_latency_body(struct rank *r);

#endif
