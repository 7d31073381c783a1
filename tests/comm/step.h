/* The step protocol (core/step) over real links: what step_test.c and its ranks share. */
#ifndef COMM_STEP_H
#define COMM_STEP_H

#include "comm/ranks.h"

#define STEP_RANKS 4
#define STEP_SLICES 8
#define STEP_STEPS 12
#define STEP_ARMED 4 /* the victim dies in this step, or later */
#define STEP_WEIGHTS 700

/* What ranks say. */
enum { STEP_ENTERED = 1, STEP_ENDED };

struct step_case {
    uint32_t victim;
    unsigned long k; /* the point at which it dies; 0: never */
};

struct step_shared {
    _Atomic uint64_t active;              /* generation: the test's word */
    _Atomic uint64_t points;              /* of the victim, if it lived */
    _Atomic uint64_t redone_n, settled_n; /* slices computed twice; steps committed in settling */
};

void step_body(struct rank *r);

#endif
