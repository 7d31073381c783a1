/* The worker's side of the protocol: which generation it acts in, which step counts, what it does
 * next, and what it does when a peer dies or can't be reached.
 *
 * Pure, like the cluster: an event comes in, effects go out through emit(), and step_next() says
 * what is to be done now. The driver moves the data: it computes slices, reduces, applies updates,
 * streams states, moves the data plane, and says by an event how that went. It decides nothing. It
 * must drop any frame that step_fence() does not let through.
 *
 *   out ── a generation with me in it ──> loading ──> computing ──> held ──> (commit) ──> computing
 *   … ── failure generation, or a link broke ──> settling ──> as before
 *   … ── left out of the next one ──> parked, state kept, until that one is active
 *   held or settling ── the members' states or gradients differ ──> stopped
 *   stopped ── a fresh generation, from what all had ──> loading
 *   computing ── all steps are done ──> closing (states are compared) ──> finished
 *
 * A worker commits nothing in a generation before it knows that it is active (every member has
 * entered it and is caught up, and the orchestrator has journaled that). So the members of the last
 * active generation, and nobody else, hold the lineage.
 *
 * Rounds. When a link between members breaks, they settle anew in the next round of the same
 * generation as soon as all links are there again: nobody else has to know. A member enters a round
 * when its own link broke, or when it hears of one who has; from then on it neither says nor counts
 * a READY of a lower round. How it stands it says once in a round, when all are in it; until they
 * have settled nothing is committed. Results held from different terms are never committed as one.
 * See step_round.c.
 *
 * What is saved, by whom, and when that is a checkpoint: see step_save.c.
 *
 * Members vouch for what they have (step_agree.c): at intervals, and after the last step, each says
 * the digest of its state, and in some steps one slice, the check slice, is computed by several of
 * them, who say the hash of its gradient. Where two differ nothing is committed: every member
 * stops, and knows why. */
#ifndef CORE_STEP_H
#define CORE_STEP_H

#include "core/membership.h"
#include "core/plan.h"

enum step_phase {
    STEP_OUT,
    STEP_LOADING,
    STEP_SETTLING,
    STEP_COMPUTING,
    STEP_HELD,    /* the whole result of the next step is here, not yet committed */
    STEP_IDLE,    /* in a generation that holds */
    STEP_PARKED,  /* left out of a newer generation that is not known to be active yet */
    STEP_CLOSING, /* all steps are done, and the last states are compared */
    STEP_FINISHED,
    STEP_STOPPED /* the members differ: it commits nothing more, but tells those who ask */
};

/* Who writes a state that is saved: those who have the same folder, as each says in its words; of
 * one who has not said yet it is taken to be as it should be. */
enum saves_by {
    SAVES_NEVER,
    SAVES_HOST, /* it should be one checkpoint for each host */
    SAVES_ALL,  /* it should be one checkpoint for all */
    SAVES_ONE   /* the same, and the first of them writes all of it */
};

struct step_config {
    wid self;
    uint32_t slices_n;
    uint32_t members_max;
    uint64_t steps_n; /* of the whole run; 0: no end */
    uint64_t orphan_ms;
    uint64_t silence_ms;   /* a peer that says nothing for so long is suspected; 0: never */
    uint64_t digest_every; /* steps between comparisons of the states; 0: only the last one */
    uint64_t check_every;  /* steps between those with a check slice; 0: only the first of a
                            * generation with newcomers, which always has one */
    bool heals; /* every state that is saved is compared, too, so that there is one to go back to:
                 * those of which a READY said that it is to be saved, and those of save_every */
    uint64_t save_every; /* the state after each step that is a multiple of this; 0: none */
    enum saves_by saves[SAVES_N]; /* by place. In memory: every state */
    uint64_t folders[SAVES_N];    /* the folder of each place where it saves: not 0 */
    bool keeps_none; /* gradients depend on the group: a loss makes them void, and there
                      * are no check slices */
    bool calls; /* it does not train: a step is a call that all members agree on, and the caller
                 * says when it moves to a planned generation. Nobody has a state, so all settle in
                 * every term, and newcomers learn the number of the last call from the others */
};

/* An attempt to save the state, as far as this worker knows of it. */
struct saving {
    struct attempt own; /* its own part in the last one: it says so to all */
    struct attempt told;

    /* the one whose words are waited for */
    struct membership *group; /* that has cut the state; NULL: there is none */
    uint64_t step;
    uint32_t first; /* of the writers: the one who ends it, by rank of `group` */
    uint8_t *said;  /* by rank of `group`: enum save_how */
    bool ending;    /* all have said that theirs is durable: this worker ends it */
    bool was_alone;

    bool alone; /* the state is to be saved now, by the first of the group alone */
    bool again; /* one that failed was tried again, and none has succeeded since */
};

/* What a member vouches for; zero: it has nothing to compare. */
struct vouch {
    uint8_t digest[HASH_BYTES]; /* of its state */
    uint8_t check[HASH_BYTES];  /* of the check slice's gradient */
};

/* What a member has said in this term, and since when it can't be reached. */
struct peer {
    bool ready;
    uint64_t ready_step;
    uint64_t ready_newest;
    struct vouch ready_vouch;
    uint64_t save_step; /* the last that it wants to be saved */
    bool settled;
    struct msg_settle settle;

    /* From here on also over rounds. */
    bool lacks;                    /* it has no state yet */
    bool broke;                    /* a link to it has broken since the last commit */
    uint64_t missing_ms;           /* since when there is no link to it; 0: there is */
    uint64_t idle_ms;              /* for how long it has done nothing, when that was too long; 0 */
    struct attempt saved[SAVES_N]; /* its last word on these */
};

/* Where a member saves, by place; also over generations. */
struct folders {
    uint64_t at[SAVES_N];
};

/* Nobody but core/step*.c reads or writes these; step_init() makes them. */
struct step {
    struct step_config config;
    enum step_phase phase;
    uint64_t now_ms;
    uint64_t lease_ms; /* when the last acknowledged renewal was sent */

    /* the state */
    uint64_t committed;
    uint64_t agreed;     /* the newest step after which all members had the same state; 0: none */
    bool save;           /* that of `committed` was to be saved, all know */
    bool shown, applied; /* the result of `committed` was given to the caller; the state exists */
    bool digested, checked; /* `vouch` has a digest of the state, a hash of the check slice */
    struct vouch vouch;

    /* the next step */
    struct slices have; /* gradients */
    struct plan plan;
    bool holds;       /* its whole result is here */
    uint64_t held_in; /* the term whose members made that result */
    bool has_said;    /* READY, in this term */
    bool save_asked;  /* this worker wants a step to be saved: it says so in READY */
    struct msg_ready said;
    uint64_t said_in; /* the term of that */

    /* what is saved */
    struct saving saves[SAVES_N];
    uint64_t
        committed_in; /* the generation whose members have, or moved to, `committed` together */
    uint64_t words_in, words_ms; /* when it last said how its attempts stand: term, time */

    /* generations */
    uint64_t number;          /* the newest that it was in, or was left out of; 0: none */
    struct membership *group; /* it acts in this one, as rank `me`; NULL: in none */
    struct membership *next;  /* planned: entered at a boundary, as rank `next_me`; NULL */
    uint32_t me, next_me;     /* NO_RANK: not in it */
    uint64_t entered;         /* it is caught up in this one; 0: in none */
    bool confirmed;           /* the generation it is caught up in is active */
    uint64_t left;            /* parked: at the boundary before this one; 0: it was dropped */
    bool over;                /* this life has ended: deaf until step_reset() */
    uint64_t first;           /* of the group's steps */
    bool links_known;         /* `ahead` is of `next` */
    uint64_t *ahead;          /* by rank of `next`: as missing_ms of peers */

    /* the term */
    uint64_t term;
    uint32_t rounds_n; /* since the last commit */
    bool there;        /* the data plane is in it, with all members */
    bool settled;      /* what it goes on from is known */
    bool planned;      /* `plan` is that of this term */
    bool based;        /* fresh generation: what it starts from is agreed on */
    bool streamed;     /* those who lacked the state were given it, as far as this worker knows */
    uint64_t heard_ms; /* when a peer last said something, or it began to wait */

    /* why it has stopped */
    bool diverged;
    uint8_t fault; /* enum fault */
    wid odd;       /* the first of those who are not like most; 0: there is no most */

    uint32_t apart_said; /* a sum over those it has reported as out of reach */
    struct {
        wid peer;
        uint64_t linked_ms; /* since when there is a link to it; 0: there is none */
    } kept[APART_MAX];      /* those it could not reach when it backed out of a generation */
    uint32_t kept_n;
    struct membership *around; /* it is out: the newest generation that it was told of */
    struct peer *peers;        /* by rank of `group` */
    struct folders *folders;   /* the same */
    struct slices *held;       /* scratch, by rank */
    struct folders *scratch;
    struct vouch *vouches;
    uint32_t *ranks;
    uint8_t *holders;
};

/* ---- what is to be done now ---- */

enum step_do {
    STEP_WAIT,   /* for the agent's word */
    STEP_FORGET, /* drop the state: this life of the worker is over, its agent gives it a new one */
    STEP_SHOW,   /* the result of `step` to the caller; then ON_SHOWN, and ON_APPLIED when the
                    update is made */
    STEP_SAVE,   /* `place`: copy this worker's shard of the state, which is that after `step`, and
                    write it: as step_writes() says, or all of it (`alone`). Then ON_CUT, and
                    ON_SAVED when it is written */
    STEP_MOVE,   /* the data plane to `term`, with all members; then ON_MOVED */
    STEP_BASE,   /* with all members: agree on what a fresh generation starts from; then ON_BASE */
    STEP_STREAM, /* with all members: those who hold the state (step_holders()) give it to those who
                    don't; then ON_STREAMED, with the step for whoever got it */
    STEP_DIGEST, /* of the state, which is that after `step`; then ON_DIGEST */
    STEP_GIVE,   /* `slice` of `step` to the caller; then step_computed(). `hash`: that of its
                    gradient is wanted, the same bytes as a contribution would have: ON_CHECKED
                    before. `alone`: for that only, it contributes nothing */
    STEP_REDUCE, /* `step` with all members, by the plan; then ON_REDUCED */
    STEP_OPEN,   /* calls can be made */
    STEP_HEAR,   /* what the others say */
    STEP_STOP,   /* the same, having stopped: the others are to find out before this one goes */
    STEP_FINISH  /* the same, all steps being done: others may still need what it knows */
};

struct step_todo {
    enum step_do what;
    uint64_t due_ms; /* look again then, whatever has happened; UINT64_MAX: no need to */
    uint64_t term;
    uint64_t step;
    uint32_t slice;
    bool hash, alone;
    enum save_place place;
};

void step_next(const struct step *s, struct step_todo *todo_out);

/* ---- what is to be told, or done at once ---- */

enum step_effect_kind {
    STEP_REPORT, /* what step_report() gives has changed: tell the agent */
    STEP_DROP,   /* gradients that are here, and what they were folded to, count no more */
    STEP_COMMIT, /* `step` counts. `save`: a member wants the state after it to be saved, and all
                    know. STEP_SHOW is next */
    STEP_SEND_READY,
    STEP_SEND_SETTLE,
    STEP_SAVED,   /* `place`: all shards of `step` are durable. End the checkpoint; then ON_SAVED */
    STEP_UNSAVED, /* `place`: there will be no checkpoint of `step`. Take away what is there of it
                   */
    STEP_DIVERGED /* step `step` is not committed: the members differ in `difference`, and `odd`
                     are those who are not like most (all who were compared, if there is no
                     most; `most`: it is more than half of them) */
};

enum step_difference {
    STEP_STATES,    /* the digests of their states */
    STEP_GRADIENTS, /* what they computed of the same slice */
    STEP_TOLD       /* found by a member who said so after a loss; nobody is named */
};

enum step_unsaved {
    STEP_UNSAVED_FAILED, /* a writer has, or had no part in it */
    STEP_UNSAVED_LOST,   /* a writer was lost */
    STEP_UNSAVED_BUSY    /* this one still writes, or waits for, the one before: which goes on */
};

/* Everything it points to is borrowed until emit() returns. */
struct step_effect {
    enum step_effect_kind kind;
    uint64_t step;
    bool save, settled; /* settled: committed after a loss or a break, not by READYs */
    uint64_t term;      /* sends go to all others in the group, under this and its key */
    const struct msg_ready *ready;
    const struct msg_settle *settle;
    enum step_difference difference;
    const struct membership *group;
    const uint32_t *odd; /* ranks in `group`, ascending */
    uint32_t odd_n;
    bool most;
    enum save_place place;
    enum step_unsaved unsaved;
};

struct step_effects {
    void (*emit)(struct step_effects *fx, const struct step_effect *e);
};

/* ---- events ---- */

/* Those that say how something went carry the term in which it was done. */
enum step_event_kind {
    STEP_ON_GENERATION, /* u.membership; a reference is kept if it is needed */
    STEP_ON_ACTIVE,     /* `generation` is active */
    STEP_ON_LEASE,      /* `time_ms`: when the last acknowledged renewal was sent */
    STEP_ON_LINKS,      /* to which members of the group and of the next generation there is no
                           link now: u.missing, all of them */
    STEP_ON_MOVED,
    STEP_ON_CLAIM,    /* a member proves to be in `term`, which is not this worker's */
    STEP_ON_BROKEN,   /* what was being done with the others failed: because of `peer` (0: not
                         known). idle_ms: it lives, but has done nothing for so long */
    STEP_ON_BASE,     /* it is that of `step`; u.holds, by rank: who has it */
    STEP_ON_STREAMED, /* all have the state; for one who lacked it, that of `step` */
    STEP_ON_CHECKED,  /* slice `slice` of `step`: u.hash */
    STEP_ON_DIGEST,   /* of the state after `step`: u.hash */
    STEP_ON_REDUCED,  /* the result of `step` is here: it is held */
    STEP_ON_AGREED,   /* a call: all members hold the result of `step` */
    STEP_ON_REGROUP,  /* calls: the caller wants to move to the newest generation. To be said
                         again while it does: it may hear of one meanwhile */
    STEP_ON_SHOWN,
    STEP_ON_APPLIED,
    STEP_ON_READY,
    STEP_ON_SETTLE,
    STEP_ON_CUT, /* `place`: the state after `step` was cut into `shards_n`; `how`: this worker's is
                    being written, or it has failed */
    STEP_ON_SAVED,  /* `place`: this worker's shard of `step`, cut in `generation`, is durable; or
                       the  checkpoint is whole; or it has failed: `how` */
    STEP_ON_SAVE,   /* the state after the next step is to be saved, by all members */
    STEP_ON_NUDGED, /* a peer says that it lives, although it does nothing */
    STEP_ON_TICK
};

struct step_event {
    enum step_event_kind kind;
    uint64_t now_ms;
    uint64_t generation;
    uint64_t term;
    const uint8_t *key; /* what the frame was proved with */
    uint64_t step;
    uint32_t slice;
    wid peer;
    uint64_t idle_ms;
    uint64_t time_ms;
    uint32_t missing_n;
    enum save_place place;
    uint32_t shards_n;
    uint8_t how; /* enum save_how */
    union {
        struct membership *membership;
        const struct msg_ready *ready;
        const struct msg_settle *settle;
        const uint8_t *hash; /* HASH_BYTES, not all of them zero */
        const uint8_t *holds;
        const wid *missing;
    } u;
};

/* MU_EINVAL, MU_ENOMEM. */
int step_init(struct step *s, const struct step_config *config);
void step_close(struct step *s);

/* A new life: `self` changes, nothing of the last one is left. */
void step_reset(struct step *s, wid self);

void step_event(struct step *s, const struct step_event *e, struct step_effects *fx);

/* The gradient of a slice is here, as STEP_GIVE wanted it in `generation`. True: it counts, and is
 * to be kept for the reduce; false: it is of no use any more. */
bool step_computed(struct step *s, uint64_t step, uint32_t slice, uint64_t generation,
                   uint64_t now_ms, struct step_effects *fx);

/* No step after this one: there is nothing more to train on. */
void step_end_at(struct step *s, uint64_t step);

/* ---- what others may know of it ---- */

/* May a frame of this term and key be parsed at all? */
bool step_fence(const struct step *s, uint64_t term, const uint8_t *key);

enum step_phase step_phase(const struct step *s);
wid step_self(const struct step *s);
uint64_t step_committed(const struct step *s);
uint64_t step_steps_n(const struct step *s);
uint64_t step_entered(const struct step *s); /* the generation it is caught up in; 0: none */
uint64_t step_term(const struct step *s);
bool step_there(const struct step *s); /* the data plane is in that term */
/* The generation it acts in; NULL: none. Borrowed until the next event. */
struct membership *step_group(const struct step *s);
uint32_t step_rank(const struct step *s); /* in it; NO_RANK */
uint32_t step_size(const struct step *s); /* of it; 0 */
const struct plan *step_plan(const struct step *s);
/* By rank of the group: 1 for those who hold the state. Borrowed until the next event. */
const uint8_t *step_holders(const struct step *s);
bool step_holds(const struct step *s); /* the result of the next step is here */
bool step_applied(const struct step *s);
bool step_is_shown(const struct step *s);   /* the caller is applying the update */
bool step_is_again(const struct step *s);   /* what is computed now was begun in another term */
bool step_confirmed(const struct step *s);  /* its generation is known to be active */
uint64_t step_newest(const struct step *s); /* the newest generation that it has been told of */
bool step_diverged(const struct step *s);
/* This worker ends a checkpoint, and waits for what others say of their shards. */
bool step_awaits_words(const struct step *s);
/* Does this worker write the state that is saved, if all who can do? It is `writer` of `writers_n`
 * then; those of the shards that there are. */
bool step_writes(const struct step *s, enum save_place place, uint32_t *writer_out,
                 uint32_t *writers_n_out);
/* Does the member of this rank save into the same folder as this worker? */
bool step_is_near(const struct step *s, enum save_place place, uint32_t rank);
uint64_t step_lease_ms(const struct step *s);

/* Fills in what a report says of training: entered, step, agreed, fault, odd, apart. */
void step_report(const struct step *s, struct report *r);

/* The slice of a step that is checked, if any is. */
uint32_t step_check_slice(uint64_t step, uint32_t slices_n);

/* Is this slice, which is yet to be computed, the last one that the reduce waits for here? */
bool step_is_last(const struct step *s, uint32_t slice);

/* True when no lease was acknowledged for `orphan_ms`. */
bool step_orphaned(const struct step *s);

#endif
