#include "comm/exchange.h"

#include <stdlib.h>
#include <string.h>

int exchange_open(struct comm *c)
{
    c->exchange = calloc(1, sizeof(*c->exchange));
    c->calm = atomic_load(&c->alarm) - 1;
    return c->exchange != NULL ? MU_OK : MU_ENOMEM;
}

static void free_room(struct exchange *x)
{
    free(x->peers);
    free(x->said);
    free(x->slots);
    free(x->seqs);
    x->peers = NULL;
    x->said = NULL;
    x->slots = NULL;
    x->seqs = NULL;
    x->room_n = 0;
}

void exchange_close(struct comm *c)
{
    struct exchange *x = c->exchange;

    if (x == NULL) {
        return;
    }
    free_room(x);
    for (uint32_t i = 0; i < REDUCE_INPUTS_MAX; i++) {
        free(x->gather[i]);
    }
    comm_free(c, x->stage);
    free(x);
    c->exchange = NULL;
}

/* Notes that old links carried have been dropped: nobody reads the stage. */
void exchange_forget(struct comm *c)
{
    c->calm = atomic_load(&c->alarm) - 1;
    free_room(c->exchange);
    comm_free(c, c->exchange->stage);
    c->exchange->stage = NULL;
}

static int make_room(struct exchange *x, uint32_t n)
{
    const uint32_t slots_n = STAGE_SLOTS + MAX(STAGE_SLOTS, 2 * n);

    free_room(x);
    x->peers = calloc(n, sizeof(*x->peers));
    x->said = calloc(n, sizeof(*x->said));
    x->slots = calloc(slots_n, sizeof(*x->slots));
    x->seqs = calloc((size_t)slots_n * n, sizeof(*x->seqs));
    if (x->peers == NULL || x->said == NULL || x->slots == NULL || x->seqs == NULL) {
        free_room(x);
        return MU_ENOMEM;
    }
    for (uint32_t i = 0; i < slots_n; i++) {
        x->slots[i].seq = x->seqs + (size_t)i * n;
    }
    x->slots_n = slots_n;
    x->room_n = n;
    return MU_OK;
}

int exchange_room(struct op *op)
{
    struct exchange *x = op->c->exchange;
    uint32_t n = op->c->group.n;

    if (x->room_n != n && make_room(x, n) != MU_OK) {
        return op_fail(op, MU_ENOMEM, COMM_NOBODY, "no memory for a group of %u", n);
    }
    memset(x->peers, 0, n * sizeof(*x->peers));
    return MU_OK;
}

/* ---- one step ---- */

static bool owes(const struct op *op, uint32_t rank)
{
    const struct exchange_peer *p = &op->c->exchange->peers[rank];

    return exchange_owes_input(op, rank) || (p->gives && p->took < p->give.hi);
}

static int receive(struct op *op, uint32_t rank)
{
    struct exchange_peer *p = &op->c->exchange->peers[rank];
    int rc = MU_OK;

    while (rc == MU_OK && !p->held && owes(op, rank)) {
        struct note note;

        rc = op_head(op, rank, &note);
        if (rc == MU_OK) {
            rc = note.kind == NOTE_INPUT ? exchange_take_input(op, rank, &note)
                                         : exchange_take(op, rank, &note);
        }
    }
    return rc;
}

/* More than before may have been what something in this step would have needed: so it gets on. */
uint64_t exchange_taken(struct op *op, uint32_t rank)
{
    struct link *l = op_link(op, rank);
    struct exchange_peer *p = &op->c->exchange->peers[rank];
    uint64_t taken = l->ops->taken(l);

    if (taken != p->taken) {
        p->taken = taken;
        op->moved = true;
    }
    return taken;
}

/* The peer still reads what the caller may want to change. */
static bool is_kept(const struct op *op, uint32_t rank)
{
    const struct exchange_peer *p = &op->c->exchange->peers[rank];

    return p->taken < p->kept;
}

static bool has_unsent(const struct op *op, uint32_t rank)
{
    const struct exchange *x = op->c->exchange;
    const struct exchange_peer *p = &x->peers[rank], *me = &x->peers[op->c->group.me];

    return p->in_at < p->fold.hi || (p->takes && p->given < me->give.hi);
}

static bool exchange_wants_rx(const struct op *op, uint32_t rank)
{
    return owes(op, rank) && !op->c->exchange->peers[rank].held;
}

static bool exchange_wants_tx(const struct op *op, uint32_t rank)
{
    return has_unsent(op, rank) || is_kept(op, rank) ||
           (op->c->exchange->stage_full && is_shm(op_link(op, rank)));
}

static bool is_settled(struct op *op, uint32_t rank)
{
    if (owes(op, rank) || has_unsent(op, rank)) {
        return false;
    }
    return exchange_taken(op, rank) >= op->c->exchange->peers[rank].kept;
}

static int with_each(struct op *op, int (*act)(struct op *op, uint32_t rank))
{
    const struct comm_group *g = &op->c->group;

    /* Beginning with the next rank: so that not all turn to the same one at once. */
    for (uint32_t i = 1; i < g->n; i++) {
        int rc = act(op, (g->me + i) % g->n);

        if (rc != MU_OK && rc != MU_EAGAIN) {
            return rc;
        }
    }
    return MU_OK;
}

static int exchange_step(struct op *op)
{
    struct exchange *x = op->c->exchange;
    const struct exchange_peer *me = exchange_me(op);
    const uint64_t hi = x->adds ? me->fold.hi : me->give.hi;
    int rc;

    x->stage_full = false;
    rc = with_each(op, exchange_send_inputs);
    if (rc == MU_OK) {
        rc = with_each(op, receive);
    }
    if (rc == MU_OK) {
        rc = exchange_fold(op);
    }
    if (rc == MU_OK) {
        rc = with_each(op, exchange_give);
    }
    if (rc != MU_OK) {
        return rc;
    }
    for (uint32_t r = 0; r < op->c->group.n; r++) {
        if (r != op->c->group.me && !is_settled(op, r)) {
            return MU_EAGAIN;
        }
    }
    return x->done < hi ? MU_EAGAIN : MU_OK;
}

int exchange_run(struct op *op)
{
    struct exchange *x = op->c->exchange;
    int rc = exchange_plan(op);

    if (rc == MU_OK) {
        op->step = exchange_step;
        op->wants_rx = exchange_wants_rx;
        op->wants_tx = exchange_wants_tx;
        rc = op_drive(op);
    }
    if (x->view != NULL) {
        op->result->view = view_end(op->c, x->view, rc == MU_OK);
    }
    x->view = NULL;
    return rc;
}
