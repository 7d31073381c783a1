#include "comm/exchange.h"
#include "comm/links.h"

#include <inttypes.h>

/* ---- notes ---- */

bool op_is_of(const struct op *op, const struct note *note)
{
    const struct note *base = &op->base;

    return note->call == base->call && note->op == base->op && note->count == base->count &&
           note->dtype == base->dtype && note->reduce == base->reduce && note->root == base->root;
}

bool op_wants_nothing(const struct op *op, uint32_t rank)
{
    (void)op;
    (void)rank;
    return false;
}

int op_peek(struct op *op, uint32_t rank, struct note *note_out)
{
    struct link *l = op_link(op, rank);
    int rc = l->ops->head(l, note_out);

    while (rc == MU_OK && note_out->kind == NOTE_MAIL) {
        rc = mailbox_take(op->c, l, rank, note_out);
        if (rc == MU_OK) {
            op->moved = true;
            rc = l->ops->head(l, note_out);
        }
    }
    return rc;
}

int op_head(struct op *op, uint32_t rank, struct note *note_out)
{
    const int rc = op_peek(op, rank, note_out);

    if (rc != MU_OK) {
        return rc == MU_EAGAIN ? rc : op_lost(op, rank);
    }
    if (note_out->kind == NOTE_ABORT) {
        return blame_abort(op, rank, note_out);
    }
    return op_is_of(op, note_out) ? MU_OK : blame_order(op, rank, note_out);
}

int op_body(struct op *op, uint32_t rank, void *place, const void **data_out)
{
    struct link *l = op_link(op, rank);
    int rc = l->ops->body(l, place, data_out);

    return rc == MU_OK || rc == MU_EAGAIN ? rc : blame_void(op, rank);
}

int op_done(struct op *op, uint32_t rank)
{
    struct link *l = op_link(op, rank);

    op->moved = true;
    if (op->c->exchange->room_n == op->c->group.n) {
        op->c->exchange->peers[rank].heard_n++;
    }
    return l->ops->done(l) == MU_OK ? MU_OK : blame_void(op, rank);
}

int op_send(struct op *op, uint32_t rank, const struct note *note, const void *data, bool copy)
{
    struct link *l = op_link(op, rank);
    int rc = l->ops->send(l, note, data, copy);

    if (rc == MU_OK) {
        op->moved = true;
    }
    return rc == MU_OK || rc == MU_EAGAIN ? rc : op_lost(op, rank);
}

/* ---- driving ---- */

/* The rank has moved to a newer term: whatever it had to say here was said before. 0: it has
 * not. */
static uint64_t moved_to(struct op *op, uint32_t rank)
{
    struct comm *c = op->c;

    pthread_mutex_lock(&c->lock);
    const uint64_t claim = op_link(op, rank)->claim;

    pthread_mutex_unlock(&c->lock);
    return claim > c->group.number ? claim : 0;
}

/* Who of those that this call waits for will never do its part; COMM_NOBODY. One that has done its
 * part may go: others wait for those who are left. *calm_out: nobody is gone at all. */
static uint32_t find_gone(struct op *op, uint64_t *to_out, bool *calm_out)
{
    const struct comm_group *g = &op->c->group;

    *calm_out = true;
    for (uint32_t r = 0; r < g->n; r++) {
        const bool lost = r != g->me && atomic_load(&op_link(op, r)->lost) != MU_OK;
        const uint64_t to = r != g->me ? moved_to(op, r) : 0;

        if (lost || to != 0) {
            const bool round = term_generation(to) == term_generation(g->number);
            const bool rx = op->wants_rx(op, r) && (lost || round || !op->outlasts);

            *calm_out = false;
            *to_out = to;
            if (rx || (lost && op->wants_tx(op, r))) {
                return r;
            }
        }
    }
    return COMM_NOBODY;
}

static int has_gone(struct op *op, uint32_t rank, uint64_t to)
{
    char text[NOTE_TEXT_MAX], name[OP_WHO_MAX];

    if (to == 0) {
        return op_lost(op, rank);
    }
    note_print(&op->base, text);
    return op_fail(op, MU_EPEER, COMM_NOBODY,
                   "%s has moved on to generation %" PRIu64 ", round %" PRIu32 " during %s",
                   op_who(op, rank, name), term_generation(to), term_round(to), text);
}

/* What only matters when nothing gets on: is it because somebody is gone? What it said or took
 * before may have come since this call has looked: MU_EAGAIN, look once more, and then be sure.
 * Whoever goes rings the alarm: if all was well then and it has not rung, all is well. */
static int look_around(struct op *op, bool sure)
{
    struct comm *c = op->c;
    const uint32_t alarm = atomic_load(&c->alarm);
    char text[NOTE_TEXT_MAX];
    uint64_t to;
    uint32_t gone;
    bool calm;

    if (alarm == c->calm) {
        return MU_OK;
    }
    if (atomic_load(&c->closing)) {
        return op_fail(op, MU_EDONE, COMM_NOBODY, "this worker is leaving");
    }
    gone = find_gone(op, &to, &calm);
    if (gone != COMM_NOBODY) {
        return sure ? has_gone(op, gone, to) : MU_EAGAIN;
    }
    if (atomic_load(&c->fence) > c->group.number) {
        note_print(&op->base, text);
        return op_fail(op, MU_EPEER, COMM_NOBODY, "generation %" PRIu64 " was overtaken during %s",
                       term_generation(c->group.number), text);
    }
    if (calm) {
        c->calm = alarm;
    }
    return MU_OK;
}

/* One that is only given something says nothing, unless its own call has failed: then it will not
 * take any more (but mail, which is no call). It may have taken what this call waits for before:
 * MU_EAGAIN, look once more, and then be sure. */
static int hear_aborts(struct op *op, bool sure)
{
    const struct comm_group *g = &op->c->group;
    struct note note;

    for (uint32_t r = 0; r < g->n && op->base.op != COMM_NONE; r++) {
        if (r != g->me && op->wants_tx(op, r) && !op->wants_rx(op, r) &&
            op_peek(op, r, &note) == MU_OK && note.kind == NOTE_ABORT) {
            return sure ? blame_abort(op, r, &note) : MU_EAGAIN;
        }
    }
    return MU_OK;
}

/* On what hear_aborts() has looked at, too: a note that it saw is no reason to wake. */
static int sleep_until_changed(struct op *op, struct waiter *w, uint64_t *due_ns)
{
    struct comm_group *g = &op->c->group;

    if (op->timeout_ns != UINT64_MAX && *due_ns == UINT64_MAX) {
        *due_ns = clock_ns() + op->timeout_ns;
    }
    for (uint32_t r = 0; r < g->n; r++) {
        if (r != g->me) {
            const bool tx = op->wants_tx(op, r);
            const bool rx = op->wants_rx(op, r) || (tx && op->base.op != COMM_NONE);

            g->links[r]->ops->await(g->links[r], rx, tx, w);
        }
    }
    return wait_for(w, *due_ns);
}

int op_drive(struct op *op)
{
    struct waiter *w = &op->c->waiter;
    uint64_t due_ns = UINT64_MAX;
    uint32_t looked; /* the alarm, when all was well: it rings when anybody goes */
    uint32_t nudges = op->c->nudges;
    bool sure = false, heard = false;

    wait_begin(w, op->c);
    looked = w->alarm_seen - 1;
    for (;;) {
        int rc;

        op->moved = false;
        w->alarm_seen = atomic_load(&op->c->alarm); /* What rings from here on ends the wait. */
        (void)group_flush(op->c);
        rc = op->step(op);
        if (rc != MU_EAGAIN) {
            return rc;
        }
        if (op->moved) {
            wait_restart(w);
            due_ns = UINT64_MAX;
            looked = w->alarm_seen - 1; /* It may wait for another one now. */
            sure = heard = false;
            continue;
        }
        rc = looked != w->alarm_seen || sure ? look_around(op, sure) : MU_OK;
        sure = rc == MU_EAGAIN;
        rc = rc == MU_OK ? hear_aborts(op, heard) : rc;
        heard = rc == MU_EAGAIN && !sure;
        if (sure || heard) {
            continue;
        }
        looked = w->alarm_seen;
        rc = rc == MU_OK ? sleep_until_changed(op, w, &due_ns) : rc;
        if (rc == MU_ETIMEDOUT && !op->patient) {
            rc = op->c->nudges != nudges ? MU_OK : blame_time(op);
            nudges = op->c->nudges;
            due_ns = UINT64_MAX;
        }
        if (rc != MU_OK) {
            return rc;
        }
    }
}
