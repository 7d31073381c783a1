/* Calls that all have, or none has.
 *
 * A rank that holds the whole result says READY; once it has everyone's READY the call counts, and
 * returns. If somebody dies before that, the survivors tell each other how they stand, and
 * core/step says whether it counts for all (comm_settled). What is held until then is here. */
#include "comm/exchange.h"

#include <stdlib.h>
#include <string.h>

static void forget(struct comm *c)
{
    struct agreed *a = &c->agreed;

    comm_release(c, a->view);
    free(a->bytes);
    *a = (struct agreed){.done_n = a->done_n};
}

void agreed_forget(struct comm *c)
{
    forget(c);
    c->agreed.done_n = 0;
}

/* The caller may change what it was given, once it knows that the call failed: so it is copied, now
 * that it is known to be needed. A view was not given to it, and nobody writes to that any more. */
static int hold(struct op *op)
{
    struct agreed *a = &op->c->agreed;
    uint64_t in, out;

    call_bytes(op->c, op->call, &in, &out);
    forget(op->c);
    a->view = op->result->view;
    op->result->view = NULL;
    if (a->view == NULL && out > 0) {
        a->bytes = malloc(out);
        if (a->bytes == NULL) {
            return MU_ENOMEM;
        }
        memcpy(a->bytes, op->call->out, out);
        a->bytes_n = out;
    }
    a->of = op->base;
    a->generation = op->result->generation;
    a->members_n = op->result->members_n;
    a->holds = true;
    return MU_OK;
}

static bool is_same(const struct agreed *a, const struct op *op)
{
    const struct note *of = &a->of;
    const struct comm_call *call = op->call;
    const bool view = (call->flags & COMM_VIEW) != 0;
    uint64_t in, out;

    call_bytes(op->c, call, &in, &out);
    return of->op == call->op && of->count == call->count && of->dtype == call->dtype &&
           of->reduce == call->reduce && view == (a->view != NULL) && (view || a->bytes_n == out);
}

bool agreed_again(struct op *op, int *rc_out)
{
    struct agreed *a = &op->c->agreed;

    if (!a->holds) {
        return false;
    }
    if (!a->counts) {
        *rc_out = op_fail(op, MU_EORDER, COMM_NOBODY,
                          "it is not settled whether the last agreed call counts");
        return true;
    }
    if (!is_same(a, op)) {
        *rc_out = op_fail(op, MU_EORDER, COMM_NOBODY,
                          "the agreed call that was settled is to be made again first");
        return true;
    }
    op->result->generation = a->generation;
    op->result->members_n = a->members_n;
    op->result->newest = term_generation(op->c->group.number);
    op->result->view = a->view;
    a->view = NULL;
    if (a->bytes_n > 0) {
        memcpy(op->call->out, a->bytes, a->bytes_n);
    }
    forget(op->c);
    *rc_out = MU_OK;
    return true;
}

int agreed_ready(struct op *op)
{
    struct comm *c = op->c;
    struct note mine = op->base;
    int rc;

    mine.kind = NOTE_READY;
    mine.offset = atomic_load(&c->newest);
    rc = meet(op, &mine);
    if (rc == MU_OK) {
        c->agreed.done_n++;
        op->result->newest = UINT64_MAX;
        for (uint32_t r = 0; r < c->group.n; r++) {
            op->result->newest = MIN(op->result->newest, c->exchange->said[r].offset);
        }
        return MU_OK;
    }
    return hold(op) == MU_OK ? rc : MU_ENOMEM;
}

uint64_t comm_halt(struct comm *c, uint64_t term, bool *held_out)
{
    struct agreed *a = &c->agreed;
    uint64_t done_n;

    fence_at(c, term + 1); /* Whoever is in a call gives up the engine. */
    pthread_mutex_lock(&c->engine);
    done_n = a->done_n;
    a->done_n = 0;
    *held_out = a->holds && !a->counts;
    pthread_mutex_unlock(&c->engine);
    return done_n;
}

bool comm_settled(struct comm *c, bool counts)
{
    struct agreed *a = &c->agreed;

    pthread_mutex_lock(&c->engine);
    if (counts && a->holds) {
        a->counts = true;
    } else if (!a->counts) {
        forget(c);
    }
    counts = a->counts;
    pthread_mutex_unlock(&c->engine);
    return counts;
}
