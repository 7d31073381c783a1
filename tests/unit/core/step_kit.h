/* Workers of one job, moved by hand: what each asks of its driver is kept until the test, or
 * flow(), does it; what each says to its peers is kept until it is delivered.
 *
 * Workers are numbered from 0; their names in lists are these numbers. */
#ifndef UNIT_CORE_STEP_KIT_H
#define UNIT_CORE_STEP_KIT_H

#include "unit/unit.h"

#include "core/step.h"

#define CREW_N 6
#define CREW_SLICES 8
#define CREW_ORPHAN_MS 1000

struct crewman {
    struct step step;
    bool gone;                     /* dead, or not to move in flow() */
    struct slices asked, computed; /* slices: to be computed; computed ever for asked_step */
    uint64_t asked_step, reduce_step, apply_step, base_step;
    uint64_t check_step, digest_step; /* asked for; 0 */
    uint64_t save_step;               /* the last that was committed with the wish to save it */
    uint32_t check_slice;
    uint8_t odd_check, odd_digest; /* not 0: what it computes differs from the others' */
    bool base, link, stream;
    /* Counts of what it did. */
    uint32_t commits_n, reports_n, forgets_n, cancels_n, links_n, streams_n, readies_n, settles_n;
    uint32_t computed_n, checks_n, digests_n;
    /* What it said when it stopped. */
    uint32_t stops_n, odd_n, odd[CREW_N];
    enum step_difference difference;
    bool most;
};

struct letter {
    uint32_t from;
    uint64_t generation;
    uint8_t key[KEY_BYTES];
    bool settles;
    struct msg_ready ready;
    struct msg_settle settle;
};

struct crew {
    struct crewman men[CREW_N];
    uint64_t now_ms;
    uint64_t stop_at; /* flow() computes no step after this one */
    struct letter letters[1024];
    uint32_t letters_n;
    bool cut[CREW_N][CREW_N]; /* [from][to]: lost */
    bool no_digests;
};

extern struct crew crew;

#define CREW_CASE(name) cmocka_unit_test_setup_teardown(name, crew_setup, crew_teardown)

int crew_setup(void **state);
void crew_config(uint64_t digest_every, uint64_t check_every, bool keeps_none);
int crew_teardown(void **state);

struct step *worker(uint32_t i);

/* "0 1 2+": members by rank; + marks those who are not caught up. Flags as in the protocol. */
struct generation *generation(uint64_t number, enum generation_kind kind, uint64_t from,
                              uint8_t flags, const char *members);

void tell(uint32_t i, const struct generation *g);
void tell_all(const struct generation *g); /* everyone who is not gone */
void tell_active(uint32_t i, uint64_t number);
void tell_active_all(uint64_t number);
void lease(uint32_t i);
void later(uint64_t ms); /* time passes for all */

/* What the driver of one worker does when asked. */
void compute(uint32_t i);
void reduce(uint32_t i);
void apply(uint32_t i);
void check(uint32_t i);  /* compute() does it, too */
void digest(uint32_t i); /* apply() and load() do it, too, unless crew.no_digests */
void load(uint32_t i, uint64_t step);
void linked(uint32_t i);

void say_again(uint32_t i);
void want_save(uint32_t i);

void deliver(void); /* all letters, in order, but for those cut off */
void lose_letters(void);

/* Everything that can be done is done, until nothing is left or `stop_at` is committed. */
void flow(uint64_t stop_at);

/* A fresh generation 1 of n, active, with `step` committed and applied by all. */
void trained(uint32_t n, uint64_t step);

#endif
