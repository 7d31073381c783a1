#include "comm/exchange.h"

int stage_open(struct op *op)
{
    struct exchange *x = op->c->exchange;
    const uint64_t bytes = x->slots_n * STAGE_PIECE;

    if (x->stage != NULL) {
        return MU_OK;
    }
    x->stage = comm_alloc(op->c, bytes);
    if (x->stage == NULL) {
        return op_fail(op, MU_ENOMEM, COMM_NOBODY, "no shared memory for a stage of %u KiB",
                       (unsigned)(bytes >> 10));
    }
    for (uint32_t i = 0; i < x->slots_n; i++) {
        x->slots[i].memory = x->stage + i * STAGE_PIECE;
    }
    x->in_slot = 0;
    return MU_OK;
}

bool stage_is_free(struct op *op, const struct stage_slot *slot)
{
    for (uint32_t r = 0; r < op->c->group.n; r++) {
        if (slot->seq[r] != 0 && exchange_taken(op, r) < slot->seq[r]) {
            return false;
        }
    }
    return true;
}

struct stage_slot *stage_take(struct op *op)
{
    struct exchange *x = op->c->exchange;
    struct stage_slot *slot = &x->slots[STAGE_SLOTS + x->in_slot];

    if (!stage_is_free(op, slot)) {
        x->stage_full = true;
        return NULL;
    }
    for (uint32_t r = 0; r < op->c->group.n; r++) {
        slot->seq[r] = 0;
    }
    x->in_slot = (x->in_slot + 1) % (x->slots_n - STAGE_SLOTS);
    return slot;
}
