/* Calls that all have, or none has.
 *
 * A rank that holds the whole result says READY; once it has everyone's READY the call counts, and
 * returns. If somebody dies before that, the survivors tell each other how they stand, and
 * core/step says whether it counts for all (comm_settled). What is held until then is here. */
#include "comm/exchange.h"

#include <stdlib.h>
#include <string.h>

struct agreed {
    bool holds;      /* the result of the last agreed call, which failed, is here … */
    bool counts;     /* … and it was settled that it counts */
    uint64_t done_n; /* that went well, and comm_halt() has not told of */

    /* What is held, of which call. */
    struct note of;
    uint64_t generation;
    uint32_t members_n;
    uint8_t *bytes;
    size_t bytes_n;
};

int agreed_open(struct comm *c)
{
    c->agreed = calloc(1, sizeof(*c->agreed));
    return c->agreed != NULL ? MU_OK : MU_ENOMEM;
}

static void forget(struct agreed *a)
{
    free(a->bytes);
    a->bytes = NULL;
    a->holds = a->counts = false;
}

void agreed_forget(struct comm *c)
{
    forget(c->agreed);
    c->agreed->done_n = 0;
}

void agreed_close(struct comm *c)
{
    if (c->agreed != NULL) {
        forget(c->agreed);
        free(c->agreed);
        c->agreed = NULL;
    }
}

static size_t result_bytes(const struct op *op)
{
    const struct comm_call *call = op->call;
    size_t n = call->count * dtype_size(call->dtype);

    switch (call->op) {
    case COMM_ALLGATHER:
        return n * op->c->group.n;
    case COMM_REDUCE:
        return op->c->group.me == call->root ? n : 0;
    case COMM_BROADCAST:
        return op->c->group.me == call->root && call->out == NULL ? 0 : n;
    case COMM_BARRIER:
        return 0;
    case COMM_SEND:
        return call->recv ? n : 0;
    case COMM_SHARE:
        return call->holds[op->c->group.me] ? 0 : n;
    default:
        return n;
    }
}

/* The caller may change what it was given, once it knows that the call failed: so it is copied, now
 * that it is known to be needed. */
static int hold(struct op *op, const void *result)
{
    struct agreed *a = op->c->agreed;
    size_t n = result_bytes(op);

    forget(a);
    a->bytes = malloc(MAX(n, 1));
    if (a->bytes == NULL) {
        return MU_ENOMEM;
    }
    if (n > 0) {
        memcpy(a->bytes, result, n);
    }
    a->bytes_n = n;
    a->of = op->base;
    a->generation = op->result->generation;
    a->members_n = op->result->members_n;
    a->holds = true;
    return MU_OK;
}

static bool is_same(const struct note *of, const struct comm_call *call)
{
    return of->op == call->op && of->count == call->count && of->dtype == call->dtype &&
           of->reduce == call->reduce;
}

bool agreed_again(struct op *op, int *rc_out)
{
    struct agreed *a = op->c->agreed;

    if (!a->holds) {
        return false;
    }
    if (!a->counts) {
        *rc_out = op_fail(op, MU_EORDER, COMM_NOBODY,
                          "it is not settled whether the last agreed call counts");
        return true;
    }
    if (!is_same(&a->of, op->call) || a->bytes_n != result_bytes(op)) {
        *rc_out = op_fail(op, MU_EORDER, COMM_NOBODY,
                          "the agreed call that was settled is to be made again first");
        return true;
    }
    op->result->generation = a->generation;
    op->result->members_n = a->members_n;
    op->result->newest = term_generation(op->c->group.number);
    *rc_out = MU_OK;
    if ((op->call->flags & COMM_VIEW) != 0) {
        *rc_out = view_of(op->c, a->bytes, &op->result->view);
        if (*rc_out != MU_OK) {
            return true;
        }
        a->bytes = NULL;
    } else if (a->bytes_n > 0) {
        memcpy(op->call->out, a->bytes, a->bytes_n);
    }
    forget(a);
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
        c->agreed->done_n++;
        op->result->newest = UINT64_MAX;
        for (uint32_t r = 0; r < c->group.n; r++) {
            op->result->newest = MIN(op->result->newest, c->exchange->said[r].offset);
        }
        return MU_OK;
    }
    if (hold(op, op->result->view != NULL ? op->result->view : op->call->out) != MU_OK) {
        rc = MU_ENOMEM;
    }
    if (op->result->view != NULL) {
        comm_release(c, op->result->view);
        op->result->view = NULL;
    }
    return rc;
}

uint64_t comm_halt(struct comm *c, uint64_t term, bool *held_out)
{
    struct agreed *a = c->agreed;
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
    struct agreed *a = c->agreed;

    pthread_mutex_lock(&c->engine);
    if (counts && a->holds) {
        a->counts = true;
    } else if (!a->counts) {
        forget(a);
    }
    counts = a->counts;
    pthread_mutex_unlock(&c->engine);
    return counts;
}
