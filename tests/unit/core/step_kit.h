/* Workers of one job, moved by hand: one more driver of step_next(). The test, or flow(), does what
 * it says; what each worker says to its peers is kept until it is delivered.
 *
 * Workers are numbered from 0; their names in lists are these numbers. */
#ifndef UNIT_CORE_STEP_KIT_H
#define UNIT_CORE_STEP_KIT_H

#include "unit/unit.h"

#include "core/step.h"

#define CREW_N 6
#define CREW_SLICES 8
#define CREW_ORPHAN_MS 1000
#define CREW_STEPS 100

struct crewman {
    struct step step;
    bool gone;                     /* dead: it does nothing, and hears nothing */
    bool news;                     /* of a generation: flow() looks at its links */
    struct slices kept;            /* gradients that are here */
    struct slices computed;        /* … and those that have been since the last commit, or drop */
    uint64_t result_in;            /* the term whose members made the result that it got last */
    uint64_t save_step;            /* the last that was committed with the wish to save it */
    uint8_t odd_check, odd_digest; /* not 0: what it computes differs from the others' */
    struct report report;          /* as it told its agent */
    /* Counts of what it did. */
    uint32_t commits_n, settled_n, reports_n, drops_n, readies_n, settles_n;
    uint32_t computed_n, checks_n, digests_n;
    struct attempt cut[SAVES_N]; /* what it saved last */
    bool cut_alone[SAVES_N];     /* all of it, by itself */
    /* What it was told of what is saved: the last step whose shards are all durable, … */
    uint64_t saved_step[SAVES_N];
    uint32_t unsaved_n[SAVES_N]; /* … and those that come to nothing. */
    enum step_unsaved unsaved[SAVES_N];
    /* What it said when it stopped. */
    uint32_t stops_n, odd_n, odd[CREW_N];
    enum step_difference difference;
    bool most;
};

struct letter {
    uint32_t from;
    bool lost[CREW_N]; /* The link to this one broke while it was on its way. */
    uint64_t term;
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
    bool apart[CREW_N][CREW_N];   /* There is no link between them. */
    uint64_t made_in[CREW_STEPS]; /* the term of the result that was committed, by step */
    bool no_digests;
    uint32_t shards_n; /* of a state */
};

extern struct crew crew;

#define CREW_CASE(name) cmocka_unit_test_setup_teardown(name, crew_setup, crew_teardown)

int crew_setup(void **state);
int crew_teardown(void **state);

/* Before anything else: all begin anew, with this; the kit fills in what they have in common. */
void crew_config(struct step_config config);
void crew_config_one(uint32_t i, struct step_config config);

/* ---- how they stand ---- */

struct step *worker(uint32_t i);
wid id_of(uint32_t i);
uint64_t committed(uint32_t i);
uint64_t in_generation(uint32_t i);
uint32_t in_round(uint32_t i);
uint64_t agreed(uint32_t i); /* as its report has it */
enum step_do next(uint32_t i);
uint64_t due_ms(uint32_t i);
/* What it told its agent last: whom it can't reach, "" for nobody. */
void expect_apart(uint32_t i, const char *whom);
/* What is on its way from it; fails if there is none. */
const struct msg_ready *ready_of(uint32_t i);
const struct msg_settle *settle_of(uint32_t i);

/* ---- what they are told ---- */

/* "0 1 2+": members by rank; + marks those who are not caught up. Flags as in the protocol. */
struct generation *generation(uint64_t number, enum generation_kind kind, uint64_t from,
                              uint8_t flags, const char *members);

void tell(uint32_t i, const struct generation *g);
void tell_all(const struct generation *g); /* everyone who is not gone */
void tell_active(uint32_t i, uint64_t number);
void tell_active_all(uint64_t number);
void lease(uint32_t i);
void later(uint64_t ms); /* time passes for all */
void want_save(uint32_t i);
void nudge(uint32_t i);
void links(uint32_t i); /* which there are, by crew.apart */
void part(uint32_t a, uint32_t b, bool apart);

/* ---- what drivers do ---- */

/* Each is what is next for this worker, or the test fails. */
void move(uint32_t i);
void base(uint32_t i, uint64_t step, const char *holders);
void stream(uint32_t i, uint64_t step);
void show(uint32_t i);
void apply(uint32_t i); /* show() before it, and digest() after it, unless crew.no_digests */
void digest(uint32_t i);
void compute_one(uint32_t i);
void cut(uint32_t i);
void reduce(uint32_t i);

void compute(uint32_t i); /* all that it has to */
void hold(uint32_t n);    /* 0 to n - 1 compute and reduce the next step; READYs are written */
void move_all(void);      /* whoever is to, once its update is made */

/* Of what need not be what is next. */
bool computed(uint32_t i, uint64_t generation, uint64_t step, uint32_t slice);
void reduced(uint32_t i, uint64_t term, uint64_t step);
void claimed(uint32_t i, uint64_t term);
void broken(uint32_t i, uint32_t peer, uint64_t idle_ms);
void written(uint32_t i, enum save_place place, enum save_how how); /* what it cut last */
void event(uint32_t i, struct step_event e);

/* The link of these two breaks, and is there again at once: what was on its way is lost. */
void snap(uint32_t a, uint32_t b);

void deliver(void);      /* all letters, in order */
void lose_letters(void); /* They are not read before their term is over. */

/* Everything that can be done is done, until nothing is left or `stop_at` is committed. */
void flow(uint64_t stop_at);

/* A fresh generation 1 of n, active, with `step` committed and applied by all. */
void trained(uint32_t n, uint64_t step);

#endif
