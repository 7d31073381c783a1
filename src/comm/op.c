#include "comm/op.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failing ---- */

int op_fail(struct op *op, int status, uint32_t rank, const char *fmt, ...)
{
    struct comm_group *g = &op->c->group;
    va_list args;

    if (g->broken != MU_OK) {
        return g->broken;
    }
    va_start(args, fmt);
    vsnprintf(g->broken_why, sizeof(g->broken_why), fmt, args);
    va_end(args);
    g->broken = status;
    g->broken_by = rank;
    return status;
}

/* "rank 2 (n3.0#1)" */
#define WHO_MAX 64
static const char *who(const struct op *op, uint32_t rank, char text[WHO_MAX])
{
    wid w = rank < op->c->group.n ? op->c->group.members[rank].worker : 0;

    snprintf(text, WHO_MAX, "rank %" PRIu32 " (n%" PRIu32 ".%" PRIu32 "#%" PRIu32 ")", rank,
             wid_node(w), wid_slot(w), wid_incarnation(w));
    return text;
}

int op_lost(struct op *op, uint32_t rank)
{
    char text[NOTE_TEXT_MAX], name[WHO_MAX];

    note_print(&op->base, text);
    return op_fail(op, MU_EPEER, rank, "%s was lost during %s", who(op, rank, name), text);
}

int op_broke(struct op *op, uint32_t rank, const char *what)
{
    char name[WHO_MAX];

    link_lose(op_link(op, rank), MU_EPROTO, what);
    return op_fail(op, MU_EPEER, rank, "%s broke the protocol: %s", who(op, rank, name), what);
}

static int out_of_order(struct op *op, uint32_t rank, const struct note *theirs)
{
    char mine[NOTE_TEXT_MAX], other[NOTE_TEXT_MAX], name[WHO_MAX];

    note_print(&op->base, mine);
    note_print(theirs, other);
    return op_fail(op, MU_EORDER, rank, "this rank makes %s, but %s makes %s", mine,
                   who(op, rank, name), other);
}

/* Somebody's call failed, for a reason that it names. */
static int aborted(struct op *op, uint32_t rank, const struct note *note)
{
    char text[NOTE_TEXT_MAX], name[WHO_MAX], lost[WHO_MAX];

    note_print(&op->base, text);
    if ((int32_t)note->root == MU_EORDER) {
        return op_fail(op, MU_EORDER, rank,
                       "%s says that the ranks did not make the same calls; this one makes %s",
                       who(op, rank, name), text);
    }
    if (note->index == op->c->group.me || note->index >= op->c->group.n) {
        return op_fail(op, MU_EPEER, rank, "%s gave up during %s", who(op, rank, name), text);
    }
    return op_fail(op, MU_EPEER, note->index, "%s was lost during %s, says %s",
                   who(op, note->index, lost), text, who(op, rank, name));
}

/* ---- notes ---- */

static bool is_of(const struct note *base, const struct note *note)
{
    return note->call == base->call && note->op == base->op && note->count == base->count &&
           note->dtype == base->dtype && note->reduce == base->reduce && note->root == base->root;
}

int op_head(struct op *op, uint32_t rank, struct note *note_out)
{
    struct link *l = op_link(op, rank);

    for (;;) {
        int rc = l->ops->head(l, note_out);

        if (rc != MU_OK) {
            return rc == MU_EAGAIN ? rc : op_lost(op, rank);
        }
        if (note_out->kind == NOTE_ABORT) {
            return aborted(op, rank, note_out);
        }
        if (note_out->kind != NOTE_MAIL) {
            return is_of(&op->base, note_out) ? MU_OK : out_of_order(op, rank, note_out);
        }
        rc = mailbox_take(op->c, l, rank, note_out);
        if (rc != MU_OK) {
            return rc == MU_EAGAIN ? rc : op_lost(op, rank);
        }
        op->moved = true;
    }
}

int op_body(struct op *op, uint32_t rank, void *place, const void **data_out)
{
    struct link *l = op_link(op, rank);
    int rc = l->ops->body(l, place, data_out);

    return rc == MU_OK || rc == MU_EAGAIN ? rc : op_lost(op, rank);
}

int op_done(struct op *op, uint32_t rank)
{
    struct link *l = op_link(op, rank);

    op->moved = true;
    return l->ops->done(l) == MU_OK ? MU_OK : op_lost(op, rank);
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

/* What only matters when nothing gets on: is it because somebody is gone? */
static int look_around(struct op *op)
{
    struct comm *c = op->c;
    struct comm_group *g = &c->group;
    char text[NOTE_TEXT_MAX];

    if (atomic_load(&c->closing)) {
        return op_fail(op, MU_EDONE, COMM_NOBODY, "this worker is leaving");
    }
    for (uint32_t r = 0; r < g->n; r++) {
        if (r != g->me && atomic_load(&g->links[r]->lost) != MU_OK) {
            return op_lost(op, r);
        }
    }
    if (atomic_load(&c->fence) > g->number) {
        note_print(&op->base, text);
        return op_fail(op, MU_EPEER, COMM_NOBODY, "generation %" PRIu64 " was overtaken during %s",
                       g->number, text);
    }
    return MU_OK;
}

static int timed_out(struct op *op)
{
    char text[NOTE_TEXT_MAX], name[WHO_MAX];
    uint32_t rank = 0;

    while (rank + 1 < op->c->group.n &&
           (rank == op->c->group.me || !(op->wants_rx(op, rank) || op->wants_tx(op, rank)))) {
        rank++;
    }
    note_print(&op->base, text);
    return op_fail(op, MU_EPEER, rank, "%s has done nothing for %" PRIu64 " ms during %s",
                   who(op, rank, name), op->timeout_ns / 1000000, text);
}

static int sleep_until_changed(struct op *op, struct waiter *w, uint64_t *due_ns)
{
    struct comm_group *g = &op->c->group;

    if (op->timeout_ns != UINT64_MAX && *due_ns == UINT64_MAX) {
        *due_ns = wait_now_ns() + op->timeout_ns;
    }
    for (uint32_t r = 0; r < g->n; r++) {
        if (r != g->me) {
            bool rx = op->wants_rx(op, r), tx = op->wants_tx(op, r);
            if (rx || tx) {
                g->links[r]->ops->await(g->links[r], rx, tx, w);
            }
        }
    }
    return wait_for(w, *due_ns);
}

static int flush(struct op *op)
{
    struct comm_group *g = &op->c->group;

    for (uint32_t r = 0; r < g->n; r++) {
        if (r != g->me) {
            int rc = g->links[r]->ops->flush(g->links[r]);
            if (rc != MU_OK && rc != MU_EAGAIN) {
                return op_lost(op, r);
            }
        }
    }
    return MU_OK;
}

int op_drive(struct op *op)
{
    struct waiter *w = &op->c->waiter;
    uint64_t due_ns = UINT64_MAX;

    wait_begin(w, op->c);
    for (;;) {
        int rc;

        op->moved = false;
        w->alarm_seen = atomic_load(&op->c->alarm); /* What rings from here on ends the wait. */
        rc = flush(op);
        if (rc == MU_OK) {
            rc = op->step(op);
        }
        if (rc != MU_EAGAIN) {
            return rc;
        }
        if (op->moved) {
            wait_restart(w);
            due_ns = UINT64_MAX;
            continue;
        }
        rc = look_around(op);
        if (rc == MU_OK && sleep_until_changed(op, w, &due_ns) == MU_ETIMEDOUT) {
            rc = op->patient ? MU_ETIMEDOUT : timed_out(op);
        }
        if (rc != MU_OK) {
            return rc;
        }
    }
}
