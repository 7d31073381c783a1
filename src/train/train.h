/* Training with mu_next(): core/step decides, comm/ carries, the caller computes. From inside.
 *
 * Everything here is done by the caller's thread, in mu_next() and mu_put(): so no slice is ever
 * half computed, and no state half updated, when something is decided. What the agent says comes
 * through mu_run (under its lock): the newest generation, which one is active, the lease; the
 * thread that listens to it wakes this one by mu_run.changed and by comm_poke().
 *
 *   train.c    what the caller calls; setup.c: what it calls before it trains
 *   drive.c    the loop: does what core/step says is next
 *   effects.c  what core/step wants at once
 *   slices.c   which samples a slice has, and what becomes of its gradient
 *   reduce.c   the end of a step, and parts of it that begin before
 *   blocks.c   the gradients of a step: folded along the tree as they come
 *   state.c    what the caller has named as its state: it is described and digested
 *   stream.c   the state is given to those who lack it
 *   base.c     what a run starts from: a checkpoint, or what rank 0 has made
 *   save.c     when the state is saved; saver.h: how
 *   kind.c     is this worker of the same kind as the others?
 *   audit.c    which samples counted, for those who want to check it */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "core/order.h"
#include "core/shard.h"
#include "run/crew.h"
#include "train/saver.h"

#include <stdio.h>

#define STATE_NAME_MAX 64
#define STATE_PARTS_MAX 4096
#define DIGEST_BYTES 16

/* ---- state.c ---- */

struct state_part {
    char name[STATE_NAME_MAX];
    void *data; /* NULL: by calls */
    size_t bytes;
    mu_save_fn *save;
    mu_load_fn *load;
    void *arg;
};

struct state {
    struct state_part *parts;
    uint32_t n;
    uint64_t sent, got; /* bytes */
};

/* MU_EINVAL, MU_EEXIST, MU_ELIMIT, MU_ENOMEM; says why. */
int state_add(struct state *s, const struct state_part *part);
void state_close(struct state *s);

/* Gets all of its memory from the system now, so that nobody waits for that when it comes. */
void state_warm(const struct state *s);

/* A line for each part, "state weights 4000 bytes": the same text everywhere, or it is another
 * model. */
void state_describe(const struct state *s, FILE *out);

/* Of all of it as it is now; the same bytes give the same digest everywhere. Or of each part, n *
 * DIGEST_BYTES. */
int state_digest(struct state *s, uint8_t digest_out[DIGEST_BYTES]);
int state_digests(struct state *s, uint8_t *digests_out);

/* What goes with the state: where the run stands. */
struct state_mark {
    uint64_t step;    /* the last committed */
    uint64_t samples; /* of all steps up to it */
    uint64_t offset;  /* of mu_shard() */
};

/* Those who hold the state give it to those who don't: all members of the comm's group call this,
 * right after they have moved to it. holds: by rank; at least one does. Each holder sends a part of
 * its own, in hashed chunks. A newcomer's state is changed only if all of it has come when
 * `whole` says so (it takes as much memory again); otherwise what it has after a failure is
 * nothing to go by. mark: what holders say, and newcomers get.
 *
 * MU_EPEER: somebody was lost; *lost_out is who, or 0. MU_ECORRUPT: what came is not
 * what was sent. Else what save or load gave. Says why. */
int state_stream(struct state *s, struct comm *c, const uint8_t *holds, bool whole,
                 struct state_mark *mark, wid *lost_out);

/* ---- blocks.c ---- */

/* What the caller computes for a slice: one or more rows of numbers. */
struct gradient_part {
    size_t count;
    enum dtype dtype;
};

/* The sum of slices [lo, lo + width) of a step: a whole subtree. */
struct block {
    uint32_t lo, width;
    uint8_t *sum; /* of the gradient's parts, one after another, and of the metrics */
};

/* Two blocks that become one. */
struct fold {
    uint8_t *into, *from;
    bool leaves; /* neither has been multiplied by its samples yet */
};

#define FOLDS_MAX 16 /* of one slice: one for each level of the tree, and some */

struct blocks {
    struct comm *comm;
    struct gradient_part parts[MU_PARTS_MAX];
    size_t at[MU_PARTS_MAX + 1]; /* where each is in a buffer, and their end */
    uint32_t parts_n;
    uint32_t metrics_n;
    struct block *items; /* by lo; room for `slices` */
    uint32_t n, slices_n;
    uint8_t **spare; /* buffers that nobody uses */
    uint32_t spare_n;
    struct comm_part *trees; /* what calls point to: slices_n for each part, and for the metrics */

    /* the slice that is being put: its place is known, its parts are added one by one */
    struct fold folds[FOLDS_MAX];
    uint32_t folds_n;
    uint32_t folded; /* bits: these parts are */
};

int blocks_open(struct blocks *b, struct comm *c, const struct gradient_part *parts,
                uint32_t parts_n, uint32_t metrics_n, uint32_t slices_n);
void blocks_close(struct blocks *b);
void blocks_clear(struct blocks *b); /* the step is committed */
/* A buffer for a gradient; NULL: no memory. It is taken back by blocks_put() or blocks_drop(). Part
 * p of it is at buffer + at[p]. */
uint8_t *blocks_take(struct blocks *b);
void blocks_drop(struct blocks *b, uint8_t *buffer);
/* The mean gradient of n samples is, or will be, in buffer: a leaf (times n, which is done when it
 * is first needed). n 0: that of an empty slice, whatever is in the buffer. */
void blocks_leaf(struct blocks *b, uint64_t n, uint8_t *buffer);
void blocks_metrics(struct blocks *b, uint64_t n, uint8_t *buffer, const double *metrics);
/* The leaf of a slice is added to its neighbours: its place first, then parts of it in any order,
 * if they are wanted early, and what is left of it. */
void blocks_put_begin(struct blocks *b, uint32_t slice, uint8_t *buffer);
void blocks_put_part(struct blocks *b, uint32_t part);
void blocks_put_end(struct blocks *b);
/* Of a leaf's gradient; never all zero. */
void blocks_hash(const struct blocks *b, const uint8_t *buffer, uint8_t hash_out[HASH_BYTES]);
/* A part of its sum; parts_n: the metrics. A leaf's is multiplied by now. */
const void *blocks_part(struct blocks *b, const struct block *block, uint32_t part);
/* The same of all subtrees that a rank has by the plan, which are all there. Valid until the next
 * call for that part. */
const struct comm_part *blocks_trees(struct blocks *b, const struct plan *plan, uint32_t rank,
                                     uint32_t part, uint32_t *n_out);

/* ---- reduce.c ---- */

/* Reduces of single parts that were started while the caller computes the rest of its last slice.
 * They are started in the order of the parts, as all workers do. */
struct flights {
    uint32_t ready; /* bits: parts that the caller has completed */
    bool begun;     /* the slice that is out has its place among the blocks */
    uint32_t n;     /* the first n parts are under way, or done */
    struct comm_started *started[MU_PARTS_MAX];
    uint32_t owners[SLICES_MAX]; /* a copy: the plan may change before the calls are over */
};

/* ---- train.c ---- */

/* What is trained, as the caller says before it begins. */
struct subject {
    struct state state;
    struct gradient_part parts[MU_PARTS_MAX];
    uint32_t parts_n;
    char *facts; /* lines of kind.h; NULL: none */
    size_t facts_n;
    bool sharded;
    struct order_walk walk;
    struct shard shard;
    uint64_t seed;
};

/* The slice that the caller has. */
struct lent {
    uint8_t *buffer;          /* NULL: it has none */
    struct step_todo todo;    /* why it has it */
    void *outs[MU_PARTS_MAX]; /* its parts */
    uint64_t *samples;
    size_t samples_n, samples_cap;
    uint64_t position; /* of the first of them in its epoch */
};

/* The result of the step that is held, or was committed last. */
struct result {
    const void *views[MU_PARTS_MAX]; /* NULL: there is none */
    double means[MU_METRICS_MAX];
    uint64_t samples;
    uint64_t term;        /* whose members made it */
    uint32_t rank, world; /* this worker's place among them */
};

/* Why it has stopped. */
struct difference {
    uint64_t ms;  /* since when */
    bool odd_one; /* this worker was not like most */
    bool named;   /* it was found out which states differ */
    bool told;    /* its agent may know. Under the run's lock */
    char why[ERROR_MAX];
};

struct train {
    struct crew crew; /* first: core/step, and the group */
    bool warm;        /* mu_next() was called; under the run's lock, as what is reported */
    bool touched;     /* the state is not what the caller had at first */
    bool heals;       /* the orchestrator may have all go back: it is waited for */
    struct subject what;
    uint64_t samples_all; /* of the committed steps */
    mu_hooks hooks;
    mu_training told; /* for mu_training_get(); under the run's lock */
    struct lent lent;
    struct blocks blocks;
    struct flights flights;
    struct result result;
    struct difference fault;
    struct saver savers[SAVES_N];
    uint64_t save_ms; /* when saving was last thought of */
    bool unkept;      /* the newest state is not in memory, as it should be; under the run's lock */
    FILE *audit;      /* NULL: none */
    uint64_t before_step; /* the last that the caller was told of */
    uint64_t pause_us;    /* since when nothing gets on; 0: it does */
    uint64_t finished_ms; /* when it had done all steps; 0: it has not. Under the run's lock */
};

/* Gives run->train, made when it is first needed. Under the lock. NULL: no memory. */
struct train *train_get(struct mu_run *run);

/* Takes the lock, and gives what is trained. MU_EINVAL: nothing is, yet. */
int train_enter(struct mu_run *run, struct train **t_out);

/* ---- save_config.c: the environment ---- */

/* *n_out is set if the variable is. MU_EINVAL: it is no number in that range; says so. */
int env_number(const char *name, uint64_t least, uint64_t most, uint64_t *n_out);

/* ---- setup.c ---- */

#define FACTS_MAX (24 << 10) /* bytes of all facts together */

/* Takes the lock, and gives what is being set up. MU_EBUSY: it is too late. MU_ENOMEM. */
int train_set_up(struct mu_run *run, struct train **t_out);

/* ---- drive.c ---- */

/* Goes on until the caller is needed: MU_OK, and *work_out says for what. */
int train_drive(struct train *t, mu_work *work_out);
/* All steps are done, and others may still need what this worker knows: until they do not. */
void train_linger(struct train *t);
/* A call of all members: each says `bytes` bytes, and gets what all say, by rank. MU_EPEER:
 * somebody was lost, and core/step has been told. Says why. */
int train_gather(struct train *t, const void *mine, size_t bytes, void *all, int64_t timeout_ms);
/* Such a call, or what is done between two of them, has failed with rc. It is not known how many of
 * their calls the others have made: all settle anew, and make them from the first on. MU_OK: for
 * MU_EPEER, because of `lost`, or 0. Whatever else failed here is to be told, too. */
int train_break_off(struct train *t, const struct step_todo *todo, int rc, wid lost);
void train_pause_end(struct train *t); /* it gets on again: how long it did not is told */

/* ---- slices.c ---- */

/* MU_OK: the caller has one; MU_EAGAIN: it was empty. */
int train_give(struct train *t, const struct step_todo *todo, mu_work *work);
/* What is in lent.buffer. */
void train_put(struct train *t, const double *metrics);
/* The samples of a slice, as many as there is room for; not of a run that shards. */
struct order_span train_span(const struct train *t, uint64_t step, uint32_t slice,
                             uint64_t *samples, size_t room);
/* Puts the samples of a slice into lent.samples. */
int train_samples(struct train *t, uint64_t step, uint32_t slice);
uint64_t train_step_samples(const struct train *t, uint64_t step);
uint64_t train_epoch(const struct train *t, uint64_t step);

/* ---- reduce.c ---- */

int train_reduce(struct train *t, const struct step_todo *todo); /* MU_OK: look what is next */
int train_show(struct train *t, const struct step_todo *todo, mu_work *work);
void train_release(struct train *t); /* the result that is held, if any */
/* The caller has completed a part of its slice. If it is its last one, it goes on its way. */
void train_part(struct train *t, uint32_t part);
/* What is under way comes to nothing. Before the step, or its plan, is another one. */
void train_abandon(struct train *t);

/* ---- effects.c ---- */

void train_effect(struct crew *c, const struct step_effect *e);
void train_reset(struct crew *c);
void train_moved(struct crew *c);
/* All members have stopped because their states differ: they find out which, and say so. As
 * train_gather(). */
int train_name_states(struct train *t);
/* The state is that of `step`: is anything left to train on? */
void train_check_end(struct train *t, uint64_t step);

/* ---- base.c ---- */

/* STEP_BASE: agrees on what a fresh generation starts from, and reads that if this worker is to.
 * MU_OK: look what is next. MU_ECORRUPT: nothing that is there can be read; MU_EREFUSED: it is of
 * another model; MU_ESTALE; MU_EIO. Says why. */
int train_base(struct train *t, const struct step_todo *todo);

/* ---- save.c ---- */

/* As the environment and mu_config say. Under the run's lock. MU_EINVAL, MU_ENOMEM. */
int train_save_open(struct train *t);
/* What is being written is written to its end, if that takes no longer; nothing is saved after
 * this. */
void train_save_close(struct train *t, uint64_t wait_ms);
/* There is no step after it. */
bool train_is_last(const struct train *t, uint64_t step);
/* Where the run stands after a step. */
struct ckpt_mark train_mark(const struct train *t, uint64_t step);
/* STEP_SAVE is carried out. */
void train_save(struct train *t, const struct step_todo *todo);
/* From a saver's thread: there is a checkpoint of this step, which outlives the run. */
void train_saved(struct train *t, uint64_t step);
/* In memory the newest state is not kept, or is again; true: it was not so before. */
bool train_unkept(struct train *t, bool unkept);
/* Tells core/step what the savers' threads have done. */
void train_save_news(struct train *t);
/* STEP_SAVED and STEP_UNSAVED are carried out. */
void train_save_ends(struct train *t, const struct step_effect *e);
/* Another step is done: looks whether the next one is to be saved, and makes room for that. */
void train_save_ahead(struct train *t);

/* ---- kind.c ---- */

/* Is what this worker trains what the others do, and is it of their numeric kind? Waits for the
 * orchestrator. MU_EREFUSED: no; says how they differ. */
int kind_check(struct train *t);

/* ---- audit.c ---- */

/* MUSTER_AUDIT names a folder: this worker writes there what it contributed and what it saw
 * committed. See docs/ARCHITECTURE.md, "Every sample once". */
int audit_open(struct train *t);
void audit_close(struct train *t);
void audit_slices(struct train *t, uint64_t step); /* those of this worker, by the plan */
void audit_commit(struct train *t, uint64_t step);

#endif
