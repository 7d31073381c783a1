#include "comm/exchange.h"

int stage_open(struct op *op)
{
    struct exchange *x = op->c->exchange;

    if (x->stage != NULL) {
        return MU_OK;
    }
    x->stage = comm_alloc(op->c, 2 * STAGE_SLOTS * STAGE_PIECE);
    if (x->stage == NULL) {
        return op_fail(op, MU_ENOMEM, COMM_NOBODY, "no shared memory for a stage of %u KiB",
                       (unsigned)(2 * STAGE_SLOTS * STAGE_PIECE >> 10));
    }
    for (uint32_t i = 0; i < STAGE_SLOTS; i++) {
        x->in_slots[i].memory = x->stage + i * STAGE_PIECE;
        x->out_slots[i].memory = x->stage + (STAGE_SLOTS + i) * STAGE_PIECE;
    }
    return MU_OK;
}

bool stage_is_free(const struct op *op, const struct stage_slot *slot)
{
    const struct comm_group *g = &op->c->group;

    for (uint32_t r = 0; r < g->n; r++) {
        if (slot->seq[r] != 0 && g->links[r]->ops->taken(g->links[r]) < slot->seq[r]) {
            return false;
        }
    }
    return true;
}

struct stage_slot *stage_take(struct op *op)
{
    struct exchange *x = op->c->exchange;
    struct stage_slot *slot = &x->in_slots[x->in_slot];

    if (!stage_is_free(op, slot)) {
        x->stage_full = true;
        return NULL;
    }
    for (uint32_t r = 0; r < op->c->group.n; r++) {
        slot->seq[r] = 0;
    }
    x->in_slot = (x->in_slot + 1) % STAGE_SLOTS;
    return slot;
}
