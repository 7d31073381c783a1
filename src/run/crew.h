/* A worker that acts with others: core/step, and what is carried out alike for those who train and
 * for those who make calls. It tells core/step what the agent says and who can be reached, moves
 * the data plane, and hears the others. It decides nothing: step_next() does.
 *
 * Threads: one at a time drives it (mu_next(), or mu_regroup()); other threads of a worker that
 * makes calls tell it how those went. `lock` guards core/step, and is taken before the run's. */
#ifndef RUN_CREW_H
#define RUN_CREW_H

#include "core/step.h"
#include "run/run.h"

struct crew {
    struct step_effects fx; /* first */
    struct mu_run *run;
    pthread_mutex_t lock;
    struct step step;
    /* The owner's: what core/step wants beside what is carried out here. */
    void (*effect)(struct crew *c, const struct step_effect *e);
    /* Another life has begun, and nothing of the last one is left. May be NULL. */
    void (*reset)(struct crew *c);
    /* The data plane is in another term. May be NULL. */
    void (*moved)(struct crew *c);

    /* As core/step was told. */
    uint64_t generation, active, links_term;
    uint32_t changes, nudges;
    wid missing;   /* who had not come to the term when it last moved there; 0: nobody */
    uint64_t news; /* of mu_run, as far as it was looked at */
};

/* Under the run's lock; run->crew is set. MU_EINVAL, MU_ENOMEM. */
int crew_open(struct crew *c, struct mu_run *run, const struct step_config *config);
void crew_close(struct crew *c);

void crew_event(struct crew *c, struct step_event e); /* now */
void crew_next(struct crew *c, struct step_todo *todo_out);

/* Tells core/step what is new. MU_EAGAIN: this worker has yet to get its name. */
int crew_news(struct crew *c);
/* Waits until there is news, or until due_ms on the boot clock, but for no longer than a second. */
void crew_wait(struct crew *c, uint64_t due_ms);
/* There is news: whoever waits, or hears, looks again. From any thread, without the run's lock. */
void crew_wake(struct crew *c);
/* STEP_MOVE, STEP_HEAR and STEP_FORGET are carried out; for all else it waits. MU_OK: look what is
 * next. */
int crew_do(struct crew *c, const struct step_todo *todo);
int crew_hear(struct crew *c, const struct step_todo *todo);
void crew_listen(struct crew *c); /* takes what the others have said, and does not wait */
/* The caller of calls wants to be in the newest generation. */
void crew_regroup(struct crew *c);
/* What was being done in `term` with the others failed with MU_EPEER: because of `peer`, or 0.
 * idle_ms: that one did nothing for so long. */
void crew_failed(struct crew *c, uint64_t term, wid peer, uint64_t idle_ms);

/* Calls are made in its term from now on. settled: as mu_group_info has it. Under the run's lock.
 */
void crew_group(struct crew *c, bool settled);

#endif
