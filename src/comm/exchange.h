/* Everything that moves data is one machine in two halves, which run at once, in pieces.
 *
 *   fold   rank r folds range fold[r] of the vector: it gets that range of every contribution, and
 *          adds them in the order of the tree
 *   give   rank r has range give[r] of the result, and gives it to those whom it concerns
 *
 *   op              fold                                     give
 *
 *   allreduce       part r each (small: all everything)      part r, to all
 *   reduce          part r each (small: the root everything) part r, to the root
 *   reduce_scatter  block r each                             nothing
 *   allgather       nothing                                  block r, to all
 *   broadcast       nothing                                  everything, from the root to all
 *   send            nothing                                  everything, to one
 *   share           nothing                                  a part each of those who hold it, to
 *                                                            all others
 *
 * What is given lies in memory that peers can read until they are done with it: the caller's, if it
 * is shared or if nobody reads it there; a view's; or the stage, a ring of small pieces. */
#ifndef COMM_EXCHANGE_H
#define COMM_EXCHANGE_H

#include "comm/copy.h"
#include "comm/op.h"

#define PIECE ((uint64_t)256 << 10)        /* of what is folded, and of what goes by TCP */
#define STAGE_PIECE ((uint64_t)128 << 10)  /* of what is staged */
#define SHARED_PIECE ((uint64_t)512 << 10) /* of what is folded where it lies */
#define STAGE_SLOTS 16                     /* of results */
#define INPUTS_AHEAD ((uint64_t)1 << 20)   /* how far inputs may be ahead of results */
#define SHARED_COPY_MAX 1024               /* of what could be read in place */
#define LARGE ((uint64_t)4 << 20)          /* of results that no cache keeps */
#define PART_ALIGN ((uint64_t)4096)        /* so that parts can be mapped side by side */

/* Bytes [lo, hi) of the vector. */
struct extent {
    uint64_t lo, hi;
};

/* A piece of shared memory for what is in none. Free when every rank is done with the note that was
 * number seq[rank] on its link; 0: it got none. */
struct stage_slot {
    uint8_t *memory;
    uint64_t *seq; /* by rank */
};

struct exchange_peer {
    bool sent, got;   /* of meet() */
    uint32_t heard_n; /* notes of this call */

    struct extent fold, give;
    bool takes; /* this rank's give range goes to it */
    bool gives; /* its give range comes here */

    /* To it: this rank's contributions to its fold range. [in_at, in_hi) of contribution in_n is
     * next. */
    uint64_t in_at, in_hi;
    uint32_t in_n;
    uint64_t given; /* this rank's give range went up to here */
    uint64_t taken; /* notes that it is done with, when last looked at */
    uint64_t
        kept; /* the call waits until this note is taken: its bytes are the caller's, or still
               * in this process, and by TCP nobody else would send them on; 0: there is none */

    /* From it: its contributions to this rank's fold range: [got_at, got_hi) of got_n of them is
     * here. `held`: the last one's note is not done with, for its bytes are used where they are. */
    uint64_t got_at, got_hi;
    uint32_t got_n;
    bool held;
    uint64_t took; /* its give range came up to here */

    uint32_t first, parts_n; /* its contributions: from by_rank[first] on */
};

/* A contribution, in the order of the tree. */
struct exchange_leaf {
    uint32_t rank;
    uint32_t index, width;
    const uint8_t *data; /* byte got_at of its rank's; of this rank's own: byte 0 */
};

struct exchange {
    uint32_t room_n; /* ranks that there is memory for */
    struct exchange_peer *peers;
    struct note mine;  /* what this rank says in meet() */
    struct note *said; /* what each rank said in meet() */

    uint32_t leaves_n;
    struct exchange_leaf leaves[REDUCE_INPUTS_MAX];
    uint32_t widths[REDUCE_INPUTS_MAX];
    uint16_t by_rank[REDUCE_INPUTS_MAX]; /* leaves, rank after rank */
    uint8_t *gather[REDUCE_INPUTS_MAX];  /* PIECE each, of those leaves that must be copied */
    uint64_t divisor;
    size_t size;   /* of an element */
    bool adds;     /* false: what is given is `in` itself */
    bool shares;   /* `in` is in a segment */
    bool one_each; /* every rank has one contribution */
    bool has_shm;
    bool far;   /* others read what this rank folds where it folds it */
    bool large; /* the result does not stay in the caches anyway */

    const uint8_t *in; /* byte in_lo first; NULL with contributions that are subtrees */
    uint64_t in_lo;
    uint8_t *out; /* byte out_lo first; NULL: nobody wants it here */
    uint64_t out_lo;
    uint8_t *target;   /* what is given, byte give.lo (or fold.lo) first; NULL: it is staged */
    bool target_kept;  /* the target is the caller's memory */
    struct view *view; /* NULL: the result goes to out */
    uint64_t done;     /* this rank's range is folded, or copied, up to here */

    uint8_t *stage; /* one segment; NULL until it is needed */
    struct stage_slot
        *slots;     /* STAGE_SLOTS for results, then two for each rank's inputs, at least */
    uint64_t *seqs; /* of all slots */
    uint32_t slots_n;
    uint32_t in_slot; /* the next one for inputs; 0: the first of them */
    bool stage_full;  /* a slot was wanted, and none was free */
};

static inline struct exchange_peer *exchange_me(struct op *op)
{
    return &op->c->exchange->peers[op->c->group.me];
}

static inline bool is_shm(const struct link *l)
{
    return l->path == COMM_SHM;
}

/* ---- exchange.c ---- */

/* Memory for the ranks of the group, all zero. MU_ENOMEM. */
int exchange_room(struct op *op);

/* How many notes this rank is done with. */
uint64_t exchange_taken(struct op *op, uint32_t rank);

/* ---- exchange_plan.c: who folds and gives what ---- */

int exchange_plan(struct op *op);

/* ---- exchange_in.c: the fold ---- */

int exchange_send_inputs(struct op *op, uint32_t rank);
int exchange_take_input(struct op *op, uint32_t rank, const struct note *note);
bool exchange_owes_input(const struct op *op, uint32_t rank);
/* Folds, or copies to the stage, what can be. */
int exchange_fold(struct op *op);

/* ---- exchange_out.c: giving and taking ---- */

int exchange_give(struct op *op, uint32_t rank);
int exchange_take(struct op *op, uint32_t rank, const struct note *note);

/* ---- stage.c ---- */

int stage_open(struct op *op); /* before its first use. MU_ENOMEM */
/* Every rank is done with it. */
bool stage_is_free(struct op *op, const struct stage_slot *slot);
/* A free one for something that this rank alone gets; NULL: none. */
struct stage_slot *stage_take(struct op *op);

/* ---- views.c ---- */

/* For a result of so many bytes, of which this rank makes `mine`. MU_ELIMIT, MU_ENOMEM. */
int view_take(struct op *op, uint64_t bytes, struct extent mine, struct view **view_out);
uint8_t *view_mine(struct view *v); /* this rank's part, to be written */
uint8_t *view_base(struct view *v); /* all of it; parts that come by TCP are put there */
/* Shows what this note of an shm link says in the view. MU_EAGAIN, MU_EPROTO, MU_ENOMEM. */
int view_map(struct op *op, struct view *v, uint32_t rank, const struct note *note);
/* The call is done: gives it to the caller, if that went well; else NULL. */
const void *view_end(struct comm *c, struct view *v, bool ok);

#endif
