#include "comm/exchange.h"

/* What is left to be done with each rank is in the exchange's peers. */

static bool meet_wants_rx(const struct op *op, uint32_t rank)
{
    return !op->c->exchange->peers[rank].got;
}

static bool meet_wants_tx(const struct op *op, uint32_t rank)
{
    return !op->c->exchange->peers[rank].sent;
}

static int meet_step(struct op *op)
{
    struct comm_group *g = &op->c->group;
    struct exchange *x = op->c->exchange;
    bool missing = false;

    for (uint32_t r = 0; r < g->n; r++) {
        int rc;

        if (r == g->me || x->peers[r].sent) {
            continue;
        }
        rc = op_send(op, r, &x->mine, NULL, true);
        x->peers[r].sent = rc == MU_OK;
        if (rc != MU_OK && rc != MU_EAGAIN) {
            return rc;
        }
        missing |= !x->peers[r].sent;
    }
    for (uint32_t r = 0; r < g->n; r++) {
        int rc;

        if (r == g->me || x->peers[r].got) {
            continue;
        }
        rc = op_head(op, r, &x->said[r]);
        if (rc == MU_OK) {
            if (x->said[r].kind != x->mine.kind || x->said[r].bytes != 0) {
                return op_broke(op, r, "a note of another kind than the call's");
            }
            rc = op_done(op, r);
            x->peers[r].got = true;
        }
        if (rc != MU_OK && rc != MU_EAGAIN) {
            return rc;
        }
        missing |= !x->peers[r].got;
    }
    return missing ? MU_EAGAIN : MU_OK;
}

int meet(struct op *op, const struct note *mine)
{
    struct exchange *x = op->c->exchange;
    int rc = exchange_room(op);

    if (rc != MU_OK) {
        return rc;
    }
    x->mine = *mine;
    x->said[op->c->group.me] = *mine;
    op->step = meet_step;
    op->wants_rx = meet_wants_rx;
    op->wants_tx = meet_wants_tx;
    return op_drive(op);
}
