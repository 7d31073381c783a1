/* The worker's side of the protocol: which generation it acts in, which step counts, and
 * what it does when a peer dies.
 *
 * Pure, like the cluster: an event comes in, effects go out through emit(). The driver
 * moves the data: it computes slices, reduces, applies updates, streams states, and says when that
 * is done. It must drop any frame that step_fence() does not let through.
 *
 *   out ── a generation with me in it ──> loading ──> computing ──> held ──> (commit) ──> computing
 * … any ── failure generation ──> settling ──> computing left out of the next one: parked, state
 * kept, until that one is active
 * … held or settling ── the members' states or gradients differ ──> stopped
 * … stopped ── a fresh generation, from what all had ──> loading
 *
 * A worker commits nothing in a generation before it knows that it is active (every member has
 * entered it and is caught up, and the orchestrator has journaled that). So the members of the last
 * active generation, and nobody else, hold the lineage.
 *
 * Members vouch for what they have (step_agree.c): at intervals each says the digest of its state,
 * and in some steps one slice, the check slice, is computed by several of them, who say the hash of
 * its gradient. Where two differ nothing is committed: every member stops, and knows why. */
#ifndef CORE_STEP_H
#define CORE_STEP_H

#include "core/plan.h"

enum step_phase {
    STEP_OUT,
    STEP_LOADING,
    STEP_SETTLING,
    STEP_COMPUTING,
    STEP_HELD,   /* the whole result of the next step is here, not yet committed */
    STEP_IDLE,   /* in a generation that holds */
    STEP_PARKED, /* left out of a newer generation that is not known to be active yet */
    STEP_FINISHED,
    STEP_STOPPED /* the members differ: it commits nothing more, but tells those who ask */
};

struct step_config {
    wid self;
    uint32_t slices_n;
    uint32_t members_max;
    uint64_t steps_n; /* of the whole run; 0: no end */
    uint64_t orphan_ms;
    uint64_t digest_every; /* steps between comparisons of the states; 0: never */
    uint64_t check_every;  /* steps between those with a check slice; 0: only the first of a
                            * generation with newcomers, which always has one */
    bool heals; /* every state that is saved is compared, too, so that there is one to go back to:
                 * those of which a READY said that it is to be saved, and … */
    uint64_t save_every; /* … these; 0: none */
    bool keeps_none;     /* gradients depend on the group: a loss makes them void, and there
                          * are no check slices */
};

/* What a member vouches for; zero: it has nothing to compare. */
struct vouch {
    uint8_t digest[HASH_BYTES]; /* of its state */
    uint8_t check[HASH_BYTES];  /* of the check slice's gradient */
};

/* A generation as one of its workers needs it. */
struct group {
    uint64_t number, from, base_step;
    uint8_t kind, flags;
    uint8_t key[KEY_BYTES];
    uint32_t n;
    uint32_t me;        /* rank; UINT32_MAX if not in it */
    wid *ids;           /* by rank; members_max */
    uint8_t *caught_up; /* by rank */
    bool newcomers;
};

/* What a member has said in this generation. */
struct peer {
    bool ready;
    uint64_t ready_step;
    uint64_t ready_newest;
    struct vouch ready_vouch;
    uint64_t save_step; /* the last that it wants to be saved */
    bool settled;
    uint64_t settle_step;
    bool settle_held;
    bool settle_diverged;
    struct vouch settle_vouch;
    struct slices settle_slices;
};

struct step {
    struct step_config config;
    enum step_phase phase;
    uint64_t now_ms;
    uint64_t lease_ms; /* when the last acknowledged renewal was sent */
    uint64_t committed;
    uint64_t agreed;  /* the newest step after which all members had the same state; 0: none */
    bool saved;       /* that of `committed` was to be saved, all know */
    bool applied;     /* … and the update has been made: the state exists */
    uint64_t entered; /* the generation it acts in and is caught up in; 0 if none */
    bool confirmed;   /* … and that is active */
    bool linked;      /* to every newcomer of `next` */
    bool computing;   /* the slices of this step have been asked for */
    bool reducing;
    bool holds;             /* the whole result of the next step is here */
    bool has_said;          /* READY, in `group`, for the next step */
    bool had_said;          /* … in `previous`, for the last one there */
    bool moved;             /* something was committed in `group`: all of it have settled */
    bool over;              /* this life has ended: deaf until step_reset() */
    bool diverged;          /* the members differ, and this one has been told */
    bool save_asked;        /* this worker wants a step to be saved: it says so in READY */
    uint64_t first;         /* of the group's steps */
    bool digested, checked; /* `vouch` has a digest of the state, a hash of the check slice */
    struct vouch vouch;
    struct slices have; /* gradients of the next step */
    struct plan plan;
    struct group group, next, previous;
    struct peer *peers;  /* by rank of `group` */
    struct slices *held; /* scratch, by rank */
    struct vouch *vouches;
    uint32_t *odd;
    struct msg_ready said, said_before;
    struct msg_settle snapshot; /* how it stood when it entered a failure generation */
};

enum step_effect_kind {
    STEP_REPORT,  /* phase, entered or committed changed: tell the agent */
    STEP_LINK,    /* connect to the newcomers of `next`; then STEP_LINKED */
    STEP_BASE,    /* rank 0 of a fresh generation: load the initial state or the checkpoint; then
                     STEP_LOADED */
    STEP_COMPUTE, /* these slices of step `step`; STEP_COMPUTED for each */
    STEP_CHECK,   /* comes before STEP_COMPUTE: the hash of the gradient of slice `slice` of `step`
                     is wanted, the same bytes as a contribution to the sum would have; then
                     STEP_CHECKED. If the slice is not among those that are computed here it is
                     computed for this alone, and contributes nothing. STEP_REDUCE waits for it */
    STEP_DIGEST,  /* of the state as it is, which is that after `step`; then STEP_DIGESTED. READY
                     waits for it */
    STEP_REDUCE,  /* step `step` by `plan`; then STEP_REDUCED */
    STEP_CANCEL,  /* whatever reduce is under way */
    STEP_COMMIT,  /* show the result of `step` to the user; STEP_APPLIED when the update is made.
                     `save`: a member wants the state after it to be saved, and all know */
    STEP_STREAM,  /* send the state to every newcomer of the group */
    STEP_SEND_READY,
    STEP_SEND_SETTLE,
    STEP_DIVERGED, /* step `step` is not committed: the members differ in `difference`, and `odd`
                      are those who are not like most (all who were compared, if there is no
                      most; `most`: it is more than half of them). Others may not know yet:
                      STEP_RESEND until they do */
    STEP_FORGET /* drop the state: this life of the worker is over, its agent gives it a new one */
};

enum step_difference {
    STEP_STATES,    /* the digests of their states */
    STEP_GRADIENTS, /* what they computed of the same slice */
    STEP_TOLD       /* found by a member who said so after a loss; nobody is named */
};

/* Everything it points to is borrowed until emit() returns. */
struct step_effect {
    enum step_effect_kind kind;
    uint64_t step;
    uint32_t slice;
    bool save;
    const struct slices *slices;
    const struct group *group; /* sends go to all others in it, under its number and key */
    const struct msg_ready *ready;
    const struct msg_settle *settle;
    enum step_difference difference;
    const uint32_t *odd; /* ranks in `group`, ascending */
    uint32_t odd_n;
    bool most;
};

struct step_effects {
    void (*emit)(struct step_effects *fx, const struct step_effect *e);
};

enum step_event_kind {
    STEP_ON_GENERATION,
    STEP_ON_ACTIVE,   /* `generation` is active */
    STEP_ON_LEASE,    /* `time_ms`: when the last acknowledged renewal was sent */
    STEP_ON_LINKED,   /* to all newcomers of `generation` */
    STEP_ON_LOADED,   /* the state of `step` has come, in `generation` */
    STEP_ON_COMPUTED, /* with keeps_none: in `generation`, when it was asked for */
    STEP_ON_CHECKED,  /* slice `slice` of `step`: u.hash */
    STEP_ON_DIGEST,   /* of the state after `step`: u.hash */
    STEP_ON_REDUCED,
    STEP_ON_APPLIED,
    STEP_ON_READY,
    STEP_ON_SETTLE,
    STEP_ON_SAVE,   /* the state after the next step is to be saved, by all members */
    STEP_ON_RESEND, /* a link came back, or nothing has moved for a while: say again how things
                       stand */
    STEP_ON_TICK
};

struct step_event {
    enum step_event_kind kind;
    uint64_t now_ms;
    uint64_t generation; /* of the frame, for peers' messages */
    const uint8_t *key;  /* … and what it was proved with */
    uint64_t step;
    uint32_t slice;
    uint64_t time_ms;
    union {
        const struct generation *generation;
        const struct msg_ready *ready;
        const struct msg_settle *settle;
        const uint8_t *hash; /* HASH_BYTES, not all of them zero */
    } u;
};

/* MU_EINVAL, MU_ENOMEM. */
int step_init(struct step *s, const struct step_config *config);
void step_close(struct step *s);

/* A new life: `self` changes, nothing of the last one is left. */
void step_reset(struct step *s, wid self);

void step_event(struct step *s, const struct step_event *e, struct step_effects *fx);

/* May a frame with this generation and key be parsed at all? */
bool step_fence(const struct step *s, uint64_t generation, const uint8_t *key);

/* The slice of a step that is checked, if any is. */
uint32_t step_check_slice(uint64_t step, uint32_t slices_n);

/* Is this slice, which is yet to be computed, the last one that the reduce waits for here? */
bool step_is_last(const struct step *s, uint32_t slice);

/* Can it go on only when its peers do something? Then a peer that is silent is to be suspected. */
bool step_waits(const struct step *s);

/* Has it acted on nothing it was told for longer than it may? */
bool step_orphaned(const struct step *s);

#endif
