/* A call that is being made: by the holder of the engine, from call_make() until it returns.
 *
 * Each kind of call has a step() that does whatever can be done without waiting; op_drive() calls
 * it again and again, and sleeps when nothing got on. A call that fails drops what it has sent,
 * tells the others (NOTE_ABORT), and the group is broken until it moves: numbers no longer match.
 */
#ifndef COMM_OP_H
#define COMM_OP_H

#include "comm/comm_state.h"

struct op {
    struct comm *c;
    const struct comm_call *call;
    struct comm_result *result;
    struct note base;    /* what every note of this call says */
    uint64_t timeout_ns; /* UINT64_MAX: none */
    bool moved;          /* something got on in this step */
    bool patient;        /* running out of time is MU_ETIMEDOUT, and nobody's fault */
    bool outlasts;       /* a peer in a newer generation does not fail this call; one in a further
                          * round of this generation does */

    /* MU_OK: done. MU_EAGAIN: something must come first. */
    int (*step)(struct op *op);
    /* Does it wait for a note of this rank; for room towards it, or for its being done with one? As
     * things were when step() looked: whatever has happened since then ends the wait at once. */
    bool (*wants_rx)(const struct op *op, uint32_t rank);
    bool (*wants_tx)(const struct op *op, uint32_t rank);
};

/* For those who wait for no note, or for no room. */
bool op_wants_nothing(const struct op *op, uint32_t rank);

/* Until step() is done, or has failed. */
int op_drive(struct op *op);

/* Is it of the same call? */
bool op_is_of(const struct op *op, const struct note *note);

/* The note at the head of this rank's link, as link_ops has it; mail before it is put aside. */
int op_peek(struct op *op, uint32_t rank, struct note *note_out);
/* A note of this call from a rank that owes one; MU_EAGAIN: not yet. Mail on the way is put aside.
 * Anything else is the end of the call. */
int op_head(struct op *op, uint32_t rank, struct note *note_out);
/* Its bytes, and being done with it, as link_ops has them; failures are the call's. */
int op_body(struct op *op, uint32_t rank, void *place, const void **data_out);
int op_done(struct op *op, uint32_t rank);
/* MU_EAGAIN: no room. */
int op_send(struct op *op, uint32_t rank, const struct note *note, const void *data, bool copy);

static inline struct link *op_link(const struct op *op, uint32_t rank)
{
    return op->c->group.links[rank];
}

/* ---- blame.c: what went wrong, and whose fault it is ---- */

/* Gives status, says why, and whom it blames (COMM_NOBODY: nobody). The first failure stays: the
 * group is broken. */
int op_fail(struct op *op, int status, uint32_t rank, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define OP_WHO_MAX 64
const char *op_who(const struct op *op, uint32_t rank,
                   char text[OP_WHO_MAX]);                    /* "rank 2 (n3.0#1)" */
int op_lost(struct op *op, uint32_t rank);                    /* its link is lost */
int op_broke(struct op *op, uint32_t rank, const char *what); /* it said what can't be */

int blame_order(struct op *op, uint32_t rank,
                const struct note *theirs);                             /* it makes another call */
int blame_abort(struct op *op, uint32_t rank, const struct note *note); /* its call failed */
int blame_void(struct op *op, uint32_t rank); /* what it had sent does not count any more */
int blame_time(struct op *op);                /* nothing has happened for too long */
/* Is somebody's link lost? Then that one is to blame, whatever else was seen of it. */
bool blame_lost(struct op *op);
/* Tells the others: they need not find out by themselves. */
void blame_tell(struct op *op);

/* ---- meet.c: everyone says one thing to everyone ---- */

/* `mine` goes to all; what rank r said is then exchange->said[r] (and [me] is mine). */
int meet(struct op *op, const struct note *mine);

/* ---- exchange.c: everything that moves data ---- */

int exchange_run(struct op *op);

/* ---- agree.c ---- */

/* Is this call's result known already, since the survivors have settled that it counts? Then it is
 * given, and *rc_out is what the call returns. */
bool agreed_again(struct op *op, int *rc_out);
/* After the data: READY to all, READY from all. */
int agreed_ready(struct op *op);

/* ---- mail.c ---- */

/* The note at the head of this link is mail: into the box. MU_EAGAIN: not all here, or no room. */
int mailbox_take(struct comm *c, struct link *l, uint32_t rank, const struct note *note);

/* ---- mover.c ---- */

/* Are calls queued or under way in the background? */
bool moving_busy(struct comm *c);
/* A call that waits for its turn behind them. */
int moving_run(struct comm *c, const struct comm_call *call, struct comm_result *result);

/* ---- call.c ---- */

/* Can calls be made in this group? MU_EINVAL: there is none; MU_EPEER, MU_EORDER: it is broken,
 * overtaken, or not everybody is there. Says so in the group if it is the first to find out. */
int call_ready(struct op *op);

/* How many bytes of `in` and `out` this rank reads and writes in a valid call. */
void call_bytes(const struct comm *c, const struct comm_call *call, uint64_t *in_out,
                uint64_t *out_out);

/* In the caller's thread, whatever has been started. The engine is held. */
int call_make(struct comm *c, const struct comm_call *call, struct comm_result *result);

/* The result of a call that was not made, and why. Gives back the status. */
int call_refuse(struct comm_result *result, int status, const char *why);

#endif
