#include "comm/exchange.h"

#include <string.h>

/* ---- contributions ---- */

/* One a rank, in the order of ranks. */
static void plan_ranks(struct op *op)
{
    struct exchange *x = op->c->exchange;

    x->leaves_n = op->c->group.n;
    for (uint32_t r = 0; r < op->c->group.n; r++) {
        x->leaves[r] = (struct exchange_leaf){.rank = r, .index = r, .width = 1};
        x->widths[r] = 1;
        x->by_rank[r] = (uint16_t)r;
        x->peers[r].first = r;
        x->peers[r].parts_n = 1;
    }
    x->leaves[op->c->group.me].data = x->in;
}

/* The widest subtree at `lo` whose slices are all of one rank. */
static uint32_t widest(const struct comm_call *call, uint32_t lo)
{
    uint32_t width = 1;

    while ((lo & width) == 0 && lo + 2 * width <= call->slices_n) {
        for (uint32_t s = lo + width; s < lo + 2 * width; s++) {
            if (call->owners[s] != call->owners[lo]) {
                return width;
            }
        }
        width *= 2;
    }
    return width;
}

/* As many as the ranks have whole subtrees. */
static int plan_subtrees(struct op *op)
{
    struct exchange *x = op->c->exchange;
    const struct comm_call *call = op->call;
    uint32_t mine_n = 0, at = 0;

    x->leaves_n = 0;
    for (uint32_t lo = 0, width; lo < call->slices_n; lo += width) {
        uint32_t rank = call->owners[lo];

        width = widest(call, lo);
        x->leaves[x->leaves_n] = (struct exchange_leaf){.rank = rank, .index = lo, .width = width};
        x->widths[x->leaves_n] = width;
        x->peers[rank].parts_n++;
        if (rank == op->c->group.me) {
            if (mine_n == call->parts_n || call->parts[mine_n].index != lo ||
                call->parts[mine_n].width != width) {
                return op_fail(op, MU_EINVAL, COMM_NOBODY,
                               "this rank's contributions are not those that the plan gives it");
            }
            x->leaves[x->leaves_n].data = call->parts[mine_n++].data;
        }
        x->leaves_n++;
    }
    for (uint32_t r = 0; r < op->c->group.n; r++) {
        x->peers[r].first = at;
        for (uint32_t i = 0; i < x->leaves_n; i++) {
            if (x->leaves[i].rank == r) {
                x->by_rank[at++] = (uint16_t)i;
            }
        }
    }
    return MU_OK;
}

static bool all_shared(struct op *op)
{
    struct exchange *x = op->c->exchange;
    const uint64_t bytes = op->call->count * x->size;
    struct segment_ref ref;
    uint64_t in, out;

    call_bytes(op->c, op->call, &in, &out);
    if (op->call->slices_n == 0) {
        return x->in != NULL && segment_find(op->c->segments, x->in, in, &ref);
    }
    for (uint32_t i = 0; i < op->call->parts_n; i++) {
        if (!segment_find(op->c->segments, op->call->parts[i].data, bytes, &ref)) {
            return false;
        }
    }
    return true;
}

/* ---- ranges ---- */

static struct extent block(uint64_t bytes, uint32_t rank)
{
    return (struct extent){rank * bytes, (rank + 1) * bytes};
}

/* Part r of the vector; the last ones may be empty. */
static struct extent part(uint64_t bytes, uint32_t n, uint32_t rank)
{
    uint64_t each = (bytes + n - 1) / n;

    each = (each + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    return (struct extent){MIN(bytes, rank * each), MIN(bytes, (rank + 1) * each)};
}

void comm_share_part(uint64_t bytes, const uint8_t *holds, uint32_t ranks_n, uint32_t rank,
                     uint64_t *lo_out, uint64_t *hi_out)
{
    struct extent e = {0, 0};
    uint32_t n = 0, at = 0;

    for (uint32_t r = 0; r < ranks_n; r++) {
        n += holds[r] ? 1 : 0;
        at += r < rank && holds[r] ? 1 : 0;
    }
    if (n < ranks_n && holds[rank]) {
        e = part(bytes, n, at);
    }
    *lo_out = e.lo;
    *hi_out = e.hi;
}

static void plan_ranges(struct op *op, uint64_t bytes)
{
    struct exchange *x = op->c->exchange;
    const struct comm_group *g = &op->c->group;
    const struct comm_call *call = op->call;
    const bool small = bytes <= LINK_COPY_MAX;
    const struct extent all = {0, bytes}, none = {0, 0};

    for (uint32_t r = 0; r < g->n; r++) {
        struct exchange_peer *p = &x->peers[r];

        p->fold = p->give = none;
        switch (call->op) {
        case COMM_ALLREDUCE:
            p->fold = small ? all : part(bytes, g->n, r);
            p->give = small ? none : p->fold;
            p->takes = p->gives = !small;
            break;
        case COMM_REDUCE:
            p->fold = !small ? part(bytes, g->n, r) : r == call->root ? all : none;
            p->give = small ? none : p->fold;
            p->takes = !small && r == call->root;
            p->gives = !small && g->me == call->root;
            break;
        case COMM_REDUCE_SCATTER:
            p->fold = block(bytes, r);
            break;
        case COMM_ALLGATHER:
            p->give = block(bytes, r);
            p->takes = p->gives = true;
            break;
        case COMM_BROADCAST:
            p->give = r == call->root ? all : none;
            p->takes = g->me == call->root;
            p->gives = r == call->root;
            break;
        case COMM_SHARE:
            comm_share_part(bytes, call->holds, g->n, r, &p->give.lo, &p->give.hi);
            p->takes = call->holds[g->me] && !call->holds[r];
            p->gives = !call->holds[g->me] && call->holds[r];
            break;
        default: /* COMM_SEND */
            p->give = r == (call->recv ? call->peer : g->me) ? all : none;
            p->takes = !call->recv && r == call->peer;
            p->gives = call->recv && r == call->peer;
            break;
        }
    }
}

static void start_at_begins(struct op *op)
{
    struct exchange *x = op->c->exchange;
    const struct exchange_peer *me = exchange_me(op);

    for (uint32_t r = 0; r < op->c->group.n; r++) {
        struct exchange_peer *p = &x->peers[r];

        p->in_at = x->adds && me->parts_n > 0 ? p->fold.lo : p->fold.hi;
        p->got_at = p->got_hi = me->fold.lo;
        p->given = me->give.lo;
        p->took = p->give.lo;
    }
    x->done = x->adds ? me->fold.lo : me->give.lo;
}

/* ---- where things are ---- */

static bool has_takers(struct op *op, bool shm_only)
{
    for (uint32_t r = 0; r < op->c->group.n; r++) {
        if (r != op->c->group.me && op->c->exchange->peers[r].takes &&
            (!shm_only || is_shm(op_link(op, r)))) {
            return true;
        }
    }
    return false;
}

/* What is added goes to the view, to where the caller wants it if those who read it can read it
 * there, or through the stage. */
static int plan_target(struct op *op, uint64_t bytes)
{
    struct exchange *x = op->c->exchange;
    const struct exchange_peer *me = exchange_me(op);
    const struct extent mine = x->adds ? me->fold : me->give;
    struct segment_ref ref;

    x->target = NULL;
    x->target_kept = false;
    if ((op->call->flags & COMM_VIEW) != 0) {
        int rc = view_take(op, bytes, mine, &x->view);
        if (rc == MU_OK) {
            x->target = view_mine(x->view);
            x->out = view_base(x->view);
            x->out_lo = 0;
        }
        return rc;
    }
    if (!x->adds) {
        if (x->in != NULL && (x->shares || !has_takers(op, true))) {
            x->target = (uint8_t *)(uintptr_t)x->in + (mine.lo - x->in_lo); /* Only read. */
            x->target_kept = true;
            x->done = mine.hi;
        }
    } else if (x->out != NULL && (!has_takers(op, true) ||
                                  segment_find(op->c->segments, x->out + (mine.lo - x->out_lo),
                                               mine.hi - mine.lo, &ref))) {
        x->target = x->out + (mine.lo - x->out_lo);
        x->target_kept = has_takers(op, false);
    }
    return MU_OK;
}

/* What this rank gives is part of its own result, too. */
static void put_own(struct op *op, uint64_t bytes)
{
    struct exchange *x = op->c->exchange;
    const bool wanted = op->call->op == COMM_ALLGATHER ||
                        (op->call->op == COMM_BROADCAST && op->c->group.me == op->call->root);

    if (wanted && x->out != NULL && bytes > 0) {
        uint8_t *to = x->out + (exchange_me(op)->give.lo - x->out_lo);
        if (to != x->in) {
            copy_bytes(to, x->in, bytes);
        }
    }
}

int exchange_plan(struct op *op)
{
    struct exchange *x = op->c->exchange;
    const struct comm_group *g = &op->c->group;
    const struct comm_call *call = op->call;
    uint64_t bytes;
    int rc = exchange_room(op);

    if (rc != MU_OK) {
        return rc;
    }
    x->size = dtype_size(call->dtype);
    bytes = call->count * x->size;
    x->adds = comm_op_adds(call->op);
    x->divisor = call->divisor != 0 ? call->divisor : call->slices_n != 0 ? call->slices_n : g->n;
    x->in = call->in;
    x->in_lo = call->op == COMM_ALLGATHER ? g->me * bytes : 0;
    x->out = call->op == COMM_REDUCE && g->me != call->root ? NULL : call->out;
    x->out_lo = call->op == COMM_REDUCE_SCATTER ? g->me * bytes : 0;
    x->view = NULL;
    x->has_shm = false;
    for (uint32_t r = 0; r < g->n; r++) {
        x->has_shm |= r != g->me && is_shm(g->links[r]);
    }
    if (call->slices_n != 0) {
        rc = plan_subtrees(op);
    } else if (x->adds) {
        plan_ranks(op);
    }
    if (rc != MU_OK) {
        return rc;
    }
    x->one_each = call->slices_n == 0;
    x->shares = all_shared(op);
    plan_ranges(op, bytes);
    start_at_begins(op);
    x->far = has_takers(op, true);
    x->large = bytes >= LARGE;
    rc = plan_target(op, bytes);
    if (rc == MU_OK && (bytes > LINK_COPY_MAX || x->target == NULL)) {
        rc = stage_open(op);
    }
    if (rc == MU_OK && !x->adds) {
        put_own(op, bytes);
    }
    return rc;
}
