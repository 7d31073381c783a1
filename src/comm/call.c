#include "comm/op.h"

#include "base/crc32c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what is wrong with a call, before anybody hears of it ---- */

static const char *bad(const struct comm *c, const struct comm_call *call)
{
    const uint32_t n = c->group.n, me = c->group.me;
    const bool view = (call->flags & COMM_VIEW) != 0;
    uint64_t in, out;

    if (call->op <= COMM_NONE || call->op >= COMM_OP_N) {
        return "there is no such call";
    }
    if (call->dtype >= DTYPE_N || call->reduce >= REDUCE_OP_N) {
        return "there is no such type or reduction";
    }
    if (call->count > UINT64_MAX / 16 / MAX(n, 1)) {
        return "the count is too large";
    }
    if (comm_op_adds(call->op) && n > REDUCE_INPUTS_MAX) {
        return "there are too many ranks for one reduction";
    }
    if ((call->op == COMM_BROADCAST || call->op == COMM_REDUCE) && call->root >= n) {
        return "the root is no rank of the group";
    }
    if (call->op == COMM_SEND && (call->peer >= n || call->peer == me)) {
        return "the peer is no other rank of the group";
    }
    if (call->op == COMM_SHARE && (call->holds == NULL || memchr(call->holds, 1, n) == NULL)) {
        return "nobody holds what is to be shared";
    }
    if (view && call->op != COMM_ALLREDUCE) {
        return "only the result of allreduce can be a view";
    }
    if (call->slices_n != 0 &&
        (call->op != COMM_ALLREDUCE || call->slices_n > SLICES_MAX ||
         (call->slices_n & (call->slices_n - 1)) != 0 || call->owners == NULL)) {
        return "contributions by slices are for allreduce, and their number is a power of two";
    }
    for (uint32_t s = 0; s < call->slices_n; s++) {
        if (call->owners[s] >= n) {
            return "a slice belongs to no rank of the group";
        }
    }
    call_bytes(c, call, &in, &out);
    return (in > 0 && call->in == NULL) || (out > 0 && call->out == NULL && !view)
               ? "a buffer is missing"
               : NULL;
}

void call_bytes(const struct comm *c, const struct comm_call *call, uint64_t *in_out,
                uint64_t *out_out)
{
    const uint64_t n = call->count * dtype_size(call->dtype);
    const bool root = c->group.me == call->root;
    uint64_t in = n, out = n;

    switch (call->op) {
    case COMM_ALLREDUCE:
        in = call->slices_n == 0 ? n : 0;
        break;
    case COMM_REDUCE_SCATTER:
        in = n * c->group.n;
        break;
    case COMM_ALLGATHER:
        out = n * c->group.n;
        break;
    case COMM_BROADCAST:
        in = root ? n : 0;
        out = root && call->out == NULL ? 0 : n;
        break;
    case COMM_REDUCE:
        out = root ? n : 0;
        break;
    case COMM_SEND:
        in = call->recv ? 0 : n;
        out = n - in;
        break;
    case COMM_SHARE:
        in = call->holds[c->group.me] ? n : 0;
        out = n - in;
        break;
    default: /* COMM_BARRIER */
        in = out = 0;
    }
    *in_out = in;
    *out_out = out;
}

/* ---- the group ---- */

int call_ready(struct op *op)
{
    struct comm_group *g = &op->c->group;

    if (g->number == 0) {
        return MU_EINVAL;
    }
    if (g->broken != MU_OK) {
        return g->broken;
    }
    if (atomic_load(&op->c->fence) > g->number) {
        return op_fail(op, MU_EPEER, COMM_NOBODY, "generation %" PRIu64 " was overtaken",
                       term_generation(g->number));
    }
    for (uint32_t r = 0; r < g->n; r++) {
        if (r != g->me && (g->links[r] == NULL || g->links[r]->proved != g->number)) {
            return op_fail(op, MU_EPEER, r, "rank %" PRIu32 " is not in generation %" PRIu64 " yet",
                           r, term_generation(g->number));
        }
    }
    return MU_OK;
}

static void number_it(struct op *op)
{
    struct comm_group *g = &op->c->group;
    const struct comm_call *call = op->call;

    op->base = (struct note){.generation = g->number,
                             .count = call->count,
                             .op = (uint8_t)call->op,
                             .dtype = (uint8_t)call->dtype,
                             .reduce = (uint8_t)call->reduce,
                             .root = call->root};
    if (call->op == COMM_SEND) {
        op->base.root = call->tag;
        op->base.reduce = 0;
        op->base.call = call->recv ? ++g->recvs[call->peer] : ++g->sends[call->peer];
    } else {
        op->base.call = ++g->call;
    }
    if (call->op == COMM_SHARE) {
        op->base.root = crc32c(0, call->holds, g->n);
    }
}

/* ---- making it ---- */

static int barrier(struct op *op)
{
    struct note mine = op->base;

    mine.kind = NOTE_HERE;
    return meet(op, &mine);
}

static int make(struct op *op)
{
    int rc = op->call->op == COMM_BARRIER ? barrier(op) : exchange_run(op);

    if (rc == MU_OK && (op->call->flags & COMM_AGREE) != 0) {
        rc = agreed_ready(op);
    }
    return rc;
}

int call_refuse(struct comm_result *result, int status, const char *why)
{
    *result = (struct comm_result){.rank = COMM_NOBODY};
    snprintf(result->error, sizeof(result->error), "%s", why);
    return status;
}

static void tell_why(struct op *op, struct comm_result *result)
{
    const struct comm_group *g = &op->c->group;

    result->rank = g->broken_by;
    result->worker = g->broken_by < g->n ? g->members[g->broken_by].worker : 0;
    result->idle_ms = g->broken_idle_ms;
    snprintf(result->error, sizeof(result->error), "%s", g->broken_why);
}

int call_make(struct comm *c, const struct comm_call *call, struct comm_result *result)
{
    struct op op = {.c = c, .call = call, .result = result};
    const char *why;
    int rc;

    *result = (struct comm_result){.rank = COMM_NOBODY};
    op.timeout_ns = call->timeout_ms < 0 ? UINT64_MAX : (uint64_t)call->timeout_ms * 1000000;
    if (c->group.number == 0) {
        return call_refuse(result, MU_EINVAL, "this worker is in no generation yet");
    }
    if (call->term != 0 && call->term != c->group.number) {
        return call_refuse(result, MU_EPEER, "the group has moved on");
    }
    why = bad(c, call);
    if (why != NULL) {
        return call_refuse(result, MU_EINVAL, why);
    }
    rc = call_ready(&op);
    if (rc != MU_OK) {
        tell_why(&op, result);
        return rc;
    }
    if ((call->flags & COMM_AGREE) != 0 && agreed_again(&op, &rc)) {
        if (rc != MU_OK && c->group.broken != MU_OK) {
            tell_why(&op, result);
        }
        return rc;
    }
    result->generation = term_generation(c->group.number);
    result->members_n = c->group.n;
    number_it(&op);
    rc = make(&op);
    if (rc == MU_ELIMIT && c->group.broken == MU_OK) {
        c->group.call--; /* Nobody has heard of it: it can be made when a view was released. */
        return call_refuse(result, rc, "two views of this size are held: release one");
    }
    if (rc != MU_OK && c->group.broken != MU_OK) {
        blame_tell(&op);
        views_abandon(c);
        tell_why(&op, result);
    }
    return rc;
}

int comm_run(struct comm *c, const struct comm_call *call, struct comm_result *result_out)
{
    struct comm_result unused, *result = result_out != NULL ? result_out : &unused;
    int rc;

    mu_assert(result_out != NULL || (call->flags & COMM_VIEW) == 0);
    rc = comm_enter(c);
    if (rc != MU_OK) {
        return call_refuse(result, rc, "this worker is leaving");
    }
    if (moving_busy(c)) {
        rc = moving_run(c, call, result);
    } else {
        pthread_mutex_lock(&c->engine);
        rc = call_make(c, call, result);
        pthread_mutex_unlock(&c->engine);
    }
    comm_leave(c);
    return rc;
}
