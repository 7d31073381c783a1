#include "comm/exchange.h"

#include <string.h>

/* ---- giving ---- */

static uint8_t give_kind(const struct op *op)
{
    return op->c->exchange->adds ? NOTE_RESULT : NOTE_DATA;
}

static int give_piece(struct op *op, uint32_t rank, uint64_t lo, uint64_t hi, const uint8_t *data,
                      struct stage_slot *slot)
{
    struct exchange *x = op->c->exchange;
    struct link *l = op_link(op, rank);
    struct note note = op->base;
    bool copy = hi - lo <= LINK_COPY_MAX && !(x->view != NULL && is_shm(l));
    int rc;

    note.kind = give_kind(op);
    note.offset = lo;
    note.bytes = hi - lo;
    rc = op_send(op, rank, &note, data, copy);
    if (rc != MU_OK) {
        return rc;
    }
    if (!copy && slot != NULL) {
        slot->seq[rank] = l->sent_n;
    }
    if (!is_shm(l) || (!copy && slot == NULL && x->target_kept)) {
        x->peers[rank].kept = l->sent_n;
    }
    return MU_OK;
}

int exchange_give(struct op *op, uint32_t rank)
{
    struct exchange *x = op->c->exchange;
    struct exchange_peer *p = &x->peers[rank];
    const struct extent mine = exchange_me(op)->give;

    while (p->takes && p->given < MIN(x->done, mine.hi)) {
        uint64_t lo = p->given, hi = MIN(x->done, mine.hi), at = lo - mine.lo;
        struct stage_slot *slot = NULL;
        const uint8_t *data = x->target != NULL ? x->target + at : NULL;
        int rc;

        if (x->target == NULL) {
            slot = &x->slots[at / STAGE_PIECE % STAGE_SLOTS];
            data = slot->memory + at % STAGE_PIECE;
            hi = MIN(hi, lo - at % STAGE_PIECE + STAGE_PIECE);
        } else if (!is_shm(op_link(op, rank))) {
            hi = MIN(hi, lo + PIECE);
        }
        rc = give_piece(op, rank, lo, hi, data, slot);
        if (rc != MU_OK) {
            return rc;
        }
        p->given = hi;
    }
    return MU_OK;
}

/* ---- taking ---- */

static int take_copy(struct op *op, uint32_t rank, const struct note *note, uint8_t *place)
{
    const void *data;
    int rc = op_body(op, rank, place, &data);

    if (rc == MU_OK && data != place && op->c->exchange->large) {
        copy_far(place, data, note->bytes);
        copy_far_done();
    } else if (rc == MU_OK && data != place) {
        copy_bytes(place, data, note->bytes);
    }
    return rc;
}

static int take_mapped(struct op *op, uint32_t rank, const struct note *note)
{
    int rc = view_map(op, op->c->exchange->view, rank, note);

    if (rc == MU_EPROTO) {
        return op_broke(op, rank, "a part of a result that can't be shown");
    }
    if (rc != MU_OK && rc != MU_EAGAIN) {
        return op_fail(op, rc, COMM_NOBODY, "a part of the result can't be mapped");
    }
    return rc;
}

int exchange_take(struct op *op, uint32_t rank, const struct note *note)
{
    struct exchange *x = op->c->exchange;
    struct exchange_peer *p = &x->peers[rank];
    uint8_t *place;
    int rc;

    if (!p->gives || note->kind != give_kind(op) || note->offset != p->took || note->bytes == 0 ||
        note->bytes > p->give.hi - p->took) {
        return op_broke(op, rank, "a part of a result that is not its turn");
    }
    place = x->out + (note->offset - x->out_lo);
    rc = x->view != NULL && is_shm(op_link(op, rank)) ? take_mapped(op, rank, note)
                                                      : take_copy(op, rank, note, place);
    if (rc == MU_OK) {
        p->took += note->bytes;
        rc = op_done(op, rank);
    }
    return rc;
}
