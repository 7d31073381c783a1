/* core/step in a rank: what those who train and those who make calls carry out alike, as
 * src/run/crew does it. The test is the orchestrator: it says in the ranks' shared memory which
 * generation is active, when all members have said that they entered it. */
#ifndef COMM_DRIVE_H
#define COMM_DRIVE_H

#include "comm/ranks.h"
#include "core/step.h"

struct drive {
    struct step_effects fx; /* first */
    struct rank *r;
    struct step step;
    const _Atomic uint64_t *active; /* the test's word */
    uint32_t entered_says;          /* the kind of word by which it is told; its value: which one */
    void (*effect)(struct drive *d, const struct step_effect *e); /* what the owner has to do */

    /* Private: as core/step, or the test, was told. */
    uint64_t generation, confirmed, links_term, entered;
    uint32_t changes;
};

/* All that is above `Private` is set, but for `step`, which is made here. */
void drive_open(struct drive *d, const struct step_config *config);
void drive_close(struct drive *d);

void drive_event(struct drive *d, struct step_event e); /* now */

/* Tells core/step what is new, and gives what is next. */
void drive_next(struct drive *d, struct step_todo *todo_out);
/* Moves, hears or waits for a moment; fails the rank if it is none of these. */
void drive_do(struct drive *d, const struct step_todo *todo);

/* What was done in `term` with the others failed with MU_EPEER: because of this one, or 0. */
void drive_failed(struct drive *d, uint64_t term, wid peer);

#endif
