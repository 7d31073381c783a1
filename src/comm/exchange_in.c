#include "comm/exchange.h"

#include <stdlib.h>
#include <string.h>

/* ---- to those who fold ---- */

/* Where it can be read in place, the only contribution of each rank goes in larger pieces. But not
 * as a whole: its reader holds it until it has folded all of it, takes no results behind it
 * meanwhile, and may need somebody to do just that before it can fold on. */
static uint64_t piece_for(struct op *op, uint32_t rank)
{
    const struct exchange *x = op->c->exchange;

    if (!is_shm(op_link(op, rank))) {
        return PIECE;
    }
    return !x->shares ? STAGE_PIECE : x->one_each ? SHARED_PIECE : PIECE;
}

/* What is read in place must be waited for. And if all fold everything, the result must not be
 * written to where others still read. */
static uint64_t copied_max(const struct op *op, const struct link *l)
{
    const bool in_place = op->c->exchange->shares && is_shm(l) && op->call->in != op->call->out;

    return in_place ? SHARED_COPY_MAX : LINK_COPY_MAX;
}

static int send_input(struct op *op, uint32_t rank, const struct note *note, const uint8_t *data)
{
    struct exchange *x = op->c->exchange;
    struct link *l = op_link(op, rank);
    const bool copy = note->bytes <= copied_max(op, l);
    struct stage_slot *slot;
    int rc;

    if (copy || !is_shm(l) || x->shares) {
        rc = op_send(op, rank, note, data, copy);
        if (rc == MU_OK && !(copy && is_shm(l))) {
            x->peers[rank].kept = l->sent_n;
        }
        return rc;
    }
    slot = stage_take(op);
    if (slot == NULL) {
        return MU_EAGAIN;
    }
    copy_far(slot->memory, data, note->bytes);
    copy_far_done();
    rc = op_send(op, rank, note, slot->memory, false);
    if (rc == MU_OK) {
        slot->seq[rank] = l->sent_n;
    }
    return rc;
}

/* Inputs and results share a lane, slots and a head of line, so inputs must not run away. This
 * keeps all going: nobody is sent a piece before everyone was sent the one before it (none can fold
 * it without all; by TCP that is no matter), nor while this rank's result of INPUTS_AHEAD earlier
 * is not on its way (it would wait behind the piece, and the slot of that result for it). It also
 * keeps what is under way in the caches. */
static bool is_its_turn(struct op *op, uint32_t rank)
{
    const struct exchange *x = op->c->exchange;
    const struct extent mine = exchange_me(op)->give;
    const uint64_t at = x->peers[rank].in_at - x->peers[rank].fold.lo;
    const bool shm = is_shm(op_link(op, rank));

    for (uint32_t r = 0; r < op->c->group.n; r++) {
        const struct exchange_peer *p = &x->peers[r];

        if (r == op->c->group.me) {
            continue;
        }
        if (shm && is_shm(op_link(op, r)) && p->in_at < p->fold.hi && p->in_at - p->fold.lo < at) {
            return false;
        }
        if (p->takes && p->given < mine.hi && p->given - mine.lo + INPUTS_AHEAD < at) {
            return false;
        }
    }
    return true;
}

int exchange_send_inputs(struct op *op, uint32_t rank)
{
    struct exchange *x = op->c->exchange;
    struct exchange_peer *p = &x->peers[rank];
    const struct exchange_peer *me = exchange_me(op);

    while (p->in_at < p->fold.hi && is_its_turn(op, rank)) {
        const struct exchange_leaf *leaf = &x->leaves[x->by_rank[me->first + p->in_n]];
        struct note note = op->base;
        int rc;

        if (p->in_n == 0) {
            uint64_t piece = piece_for(op, rank);
            p->in_hi = p->fold.hi - p->in_at > piece ? p->in_at + piece : p->fold.hi;
        }
        note.kind = NOTE_INPUT;
        note.offset = p->in_at;
        note.bytes = p->in_hi - p->in_at;
        note.index = leaf->index;
        note.width = leaf->width;
        rc = send_input(op, rank, &note, leaf->data + p->in_at);
        if (rc != MU_OK) {
            return rc;
        }
        if (++p->in_n == me->parts_n) {
            p->in_n = 0;
            p->in_at = p->in_hi;
        }
    }
    return MU_OK;
}

/* ---- from those who contribute ---- */

bool exchange_owes_input(const struct op *op, uint32_t rank)
{
    const struct exchange *x = op->c->exchange;
    const struct exchange_peer *p = &x->peers[rank];

    return x->adds && p->parts_n > 0 && p->got_at < x->peers[op->c->group.me].fold.hi;
}

static bool is_expected(struct op *op, uint32_t rank, const struct note *note)
{
    const struct exchange *x = op->c->exchange;
    const struct exchange_peer *p = &x->peers[rank];
    const struct exchange_leaf *leaf = &x->leaves[x->by_rank[p->first + p->got_n]];
    const uint64_t hi = exchange_me(op)->fold.hi;

    if (!exchange_owes_input(op, rank) || note->index != leaf->index ||
        note->width != leaf->width || note->offset != p->got_at || note->bytes == 0) {
        return false;
    }
    return p->got_n == 0 ? note->bytes <= hi - p->got_at && note->bytes % x->size == 0
                         : note->bytes == p->got_hi - p->got_at;
}

/* Of several contributions, all but the last are copied: a link shows one note at a time. */
static int gather(struct op *op, uint32_t rank, const struct note *note, uint16_t leaf)
{
    struct exchange *x = op->c->exchange;
    const void *data;
    int rc;

    if (note->bytes > PIECE) {
        return op_broke(op, rank, "a contribution in too large a piece");
    }
    if (x->gather[leaf] == NULL) {
        x->gather[leaf] = malloc(PIECE);
        if (x->gather[leaf] == NULL) {
            return op_fail(op, MU_ENOMEM, COMM_NOBODY, "no memory for a contribution");
        }
    }
    rc = op_body(op, rank, x->gather[leaf], &data);
    if (rc != MU_OK) {
        return rc;
    }
    if (data != x->gather[leaf]) {
        copy_bytes(x->gather[leaf], data, note->bytes);
    }
    x->leaves[leaf].data = x->gather[leaf];
    return op_done(op, rank);
}

int exchange_take_input(struct op *op, uint32_t rank, const struct note *note)
{
    struct exchange *x = op->c->exchange;
    struct exchange_peer *p = &x->peers[rank];
    uint16_t leaf;
    int rc;

    if (!is_expected(op, rank, note)) {
        return op_broke(op, rank, "a contribution that is not its turn");
    }
    leaf = x->by_rank[p->first + p->got_n];
    if (p->got_n + 1 < p->parts_n) {
        rc = gather(op, rank, note, leaf);
    } else {
        const void *data;
        rc = op_body(op, rank, NULL, &data);
        if (rc == MU_OK) {
            x->leaves[leaf].data = data;
            p->held = true;
        }
    }
    if (rc == MU_OK) {
        op->moved = true;
        p->got_hi = note->offset + note->bytes;
        p->got_n++;
    }
    return rc;
}

/* ---- adding ---- */

/* Up to where everybody's contributions are here. */
static uint64_t complete_to(struct op *op)
{
    const struct exchange *x = op->c->exchange;
    uint64_t hi = exchange_me(op)->fold.hi;

    for (uint32_t r = 0; r < op->c->group.n; r++) {
        const struct exchange_peer *p = &x->peers[r];
        if (r != op->c->group.me && p->parts_n > 0) {
            hi = MIN(hi, p->held ? p->got_hi : p->got_at);
        }
    }
    return hi;
}

static int let_go(struct op *op, uint64_t to)
{
    struct exchange *x = op->c->exchange;

    for (uint32_t r = 0; r < op->c->group.n; r++) {
        struct exchange_peer *p = &x->peers[r];

        if (p->held && p->got_hi == to) {
            int rc = op_done(op, r);
            if (rc != MU_OK) {
                return rc;
            }
            p->held = false;
            p->got_at = to;
            p->got_n = 0;
        }
    }
    return MU_OK;
}

static void add(struct op *op, uint64_t lo, uint64_t hi, bool far, uint8_t *to, uint8_t *also)
{
    struct exchange *x = op->c->exchange;
    const void *in[REDUCE_INPUTS_MAX];

    for (uint32_t i = 0; i < x->leaves_n; i++) {
        const struct exchange_leaf *leaf = &x->leaves[i];
        bool own = leaf->rank == op->c->group.me;
        in[i] = leaf->data + (lo - (own ? 0 : x->peers[leaf->rank].got_at));
    }
    (far ? reduce_fold_far : reduce_fold)(NULL, op->call->dtype, op->call->reduce, x->divisor, to,
                                          also, in, x->one_each ? NULL : x->widths, x->leaves_n,
                                          (hi - lo) / x->size);
}

/* The slot for the piece at `done`, once everybody has had what was in it before; NULL: not yet. */
static struct stage_slot *next_slot(struct op *op, struct extent mine)
{
    struct exchange *x = op->c->exchange;
    uint64_t piece = (x->done - mine.lo) / STAGE_PIECE;
    uint64_t old_hi =
        piece < STAGE_SLOTS ? mine.lo : mine.lo + (piece - STAGE_SLOTS + 1) * STAGE_PIECE;
    struct stage_slot *slot = &x->slots[piece % STAGE_SLOTS];

    for (uint32_t r = 0; r < op->c->group.n; r++) {
        if (r != op->c->group.me && x->peers[r].takes && x->peers[r].given < old_hi) {
            return NULL;
        }
    }
    return stage_is_free(op, slot) ? slot : NULL;
}

static int fold_piece(struct op *op, struct extent mine, uint64_t hi)
{
    struct exchange *x = op->c->exchange;
    uint64_t lo = x->done;
    uint8_t *to = x->target, *also = NULL;
    bool far = x->far;
    int rc = MU_OK;

    if (to == NULL) {
        struct stage_slot *slot = next_slot(op, mine);
        if (slot == NULL) {
            x->stage_full = true;
            return MU_EAGAIN;
        }
        hi = MIN(hi, lo - (lo - mine.lo) % STAGE_PIECE + STAGE_PIECE);
        to = slot->memory + (lo - mine.lo) % STAGE_PIECE;
        if (x->out != NULL && x->adds) {
            also = to;
            to = x->out + (lo - x->out_lo);
            far = x->large;
        }
    } else {
        to += lo - mine.lo;
        if (x->view == NULL || !x->has_shm) {
            hi = MIN(hi, lo + PIECE);
        }
    }
    if (x->adds) {
        add(op, lo, hi, far, to, also);
        rc = let_go(op, hi);
    } else {
        copy_far(to, x->in + (lo - x->in_lo), hi - lo);
        copy_far_done();
    }
    x->done = hi;
    op->moved = true;
    return rc;
}

int exchange_fold(struct op *op)
{
    struct exchange *x = op->c->exchange;
    const struct exchange_peer *me = exchange_me(op);
    const struct extent mine = x->adds ? me->fold : me->give;
    uint64_t hi = x->adds ? complete_to(op) : mine.hi;

    /* One piece at a time: what it makes is given, and what others give taken, while it is in the
     * cache. */
    if (x->done < hi) {
        int rc = fold_piece(op, mine, hi);
        return rc == MU_EAGAIN ? MU_OK : rc;
    }
    return MU_OK;
}
