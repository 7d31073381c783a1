/* What went wrong, and whose fault it is. A survivor that gives up because of a dead peer looks, to
 * those who have not noticed that death yet, as if it had failed itself; suspicions are made from
 * this, so the blame is passed on (NOTE_ABORT) and never put on a rank that only passed it on. */
#include "comm/exchange.h"
#include "comm/links.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define SEEK_NS UINT64_C(100000000) /* how long a rank that gave up has to say why */

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

const char *op_who(const struct op *op, uint32_t rank, char text[OP_WHO_MAX])
{
    char name[WID_TEXT_MAX];
    wid w = rank < op->c->group.n ? op->c->group.members[rank].worker : 0;

    snprintf(text, OP_WHO_MAX, "rank %" PRIu32 " (%s)", rank, wid_print(w, name));
    return text;
}

int op_lost(struct op *op, uint32_t rank)
{
    char text[NOTE_TEXT_MAX], name[OP_WHO_MAX];

    note_print(&op->base, text);
    return op_fail(op, MU_EPEER, rank, "%s was lost during %s", op_who(op, rank, name), text);
}

bool blame_lost(struct op *op)
{
    struct comm_group *g = &op->c->group;

    for (uint32_t r = 0; r < g->n; r++) {
        if (r != g->me && atomic_load(&g->links[r]->lost) != MU_OK) {
            op_lost(op, r);
            return true;
        }
    }
    return false;
}

int op_broke(struct op *op, uint32_t rank, const char *what)
{
    char name[OP_WHO_MAX];

    link_lose(op_link(op, rank), MU_EPROTO, what);
    return op_fail(op, MU_EPEER, rank, "%s broke the protocol: %s", op_who(op, rank, name), what);
}

/* ---- another call ---- */

int blame_order(struct op *op, uint32_t rank, const struct note *theirs)
{
    char mine[NOTE_TEXT_MAX], other[NOTE_TEXT_MAX], name[OP_WHO_MAX];

    if (op->c->group.broken == MU_OK) {
        op->c->group.broken_note = *theirs;
    }
    note_print(&op->base, mine);
    note_print(theirs, other);
    return op_fail(op, MU_EORDER, rank, "this rank makes %s, but %s makes %s", mine,
                   op_who(op, rank, name), other);
}

/* ---- time ---- */

/* A note that is held until others come has been heard, too. */
static uint32_t heard(const struct exchange_peer *p)
{
    return p->heard_n + (p->held ? 1 : 0);
}

/* Of those that it waits for, the one that has said least: the others wait for that one, too. */
static uint32_t quietest(const struct op *op)
{
    const struct comm_group *g = &op->c->group;
    const struct exchange *x = op->c->exchange;
    uint32_t found = COMM_NOBODY;

    for (uint32_t r = 0; r < g->n && x->room_n == g->n && op->wants_rx != NULL; r++) {
        if (r != g->me && (op->wants_rx(op, r) || op->wants_tx(op, r)) &&
            (found == COMM_NOBODY || heard(&x->peers[r]) < heard(&x->peers[found]))) {
            found = r;
        }
    }
    return found;
}

int blame_time(struct op *op)
{
    char text[NOTE_TEXT_MAX], name[OP_WHO_MAX];
    uint32_t rank = quietest(op);

    if (op->c->group.broken == MU_OK) {
        op->c->group.broken_idle_ms = MAX(op->timeout_ns / 1000000, 1);
    }
    note_print(&op->base, text);
    return op_fail(op, MU_EPEER, rank, "%s has done nothing for %" PRIu64 " ms during %s",
                   op_who(op, rank, name), op->timeout_ns / 1000000, text);
}

/* ---- what others say ---- */

/* Who said that a call is not the same: the aborting rank's own call, and the odd one. */
static int abort_order(struct op *op, uint32_t rank, const struct note *note)
{
    const uint8_t *bytes;
    const void *data;
    struct note theirs, odd;
    struct link *l = op_link(op, rank);

    if (note->bytes != 2 * NOTE_BYTES || l->ops->body(l, NULL, &data) != MU_OK) {
        return op_broke(op, rank, "it gave up without saying why");
    }
    bytes = data;
    if (note_decode(bytes, &theirs) != MU_OK || note_decode(bytes + NOTE_BYTES, &odd) != MU_OK) {
        return op_broke(op, rank, "it gave up and said nonsense");
    }
    /* Whichever is not what this rank does, or did before. */
    if (op_is_of(op, &odd) || note->index >= op->c->group.n || note->index == op->c->group.me) {
        return blame_order(op, rank, &theirs);
    }
    return blame_order(op, note->index, &odd);
}

static int gave_up(struct op *op, uint32_t rank)
{
    char text[NOTE_TEXT_MAX], name[OP_WHO_MAX];

    note_print(&op->base, text);
    return op_fail(op, MU_EPEER, COMM_NOBODY, "%s gave up during %s", op_who(op, rank, name), text);
}

int blame_abort(struct op *op, uint32_t rank, const struct note *note)
{
    char text[NOTE_TEXT_MAX], name[OP_WHO_MAX], lost[OP_WHO_MAX];
    uint32_t guilty = note->index;

    if ((int32_t)note->root == MU_EORDER) {
        return abort_order(op, rank, note);
    }
    if (blame_lost(op)) {
        return op->c->group.broken;
    }
    guilty = guilty == op->c->group.me ? quietest(op) : guilty;
    if (guilty >= op->c->group.n) {
        return gave_up(op, rank);
    }
    note_print(&op->base, text);
    return op_fail(op, MU_EPEER, guilty, "%s was lost during %s, says %s", op_who(op, guilty, lost),
                   text, op_who(op, rank, name));
}

struct seeking {
    struct op op;
    uint32_t rank;
    struct note found;
};

static int seek_step(struct op *op)
{
    struct seeking *s = (struct seeking *)op;
    struct link *l = op_link(op, s->rank);
    int rc;

    while ((rc = l->ops->head(l, &s->found)) == MU_OK && s->found.kind != NOTE_ABORT) {
        (void)l->ops->done(l);
    }
    return rc == MU_OK || rc == MU_EAGAIN ? rc : op_lost(op, s->rank);
}

static bool seek_wants_rx(const struct op *op, uint32_t rank)
{
    return rank == ((const struct seeking *)op)->rank;
}

int blame_void(struct op *op, uint32_t rank)
{
    struct seeking s = {.op = {.c = op->c,
                               .base = op->base,
                               .timeout_ns = SEEK_NS,
                               .patient = true,
                               .step = seek_step,
                               .wants_rx = seek_wants_rx,
                               .wants_tx = op_wants_nothing},
                        .rank = rank};

    if (blame_lost(op)) {
        return op->c->group.broken;
    }
    switch (op_drive(&s.op)) {
    case MU_OK:
        return blame_abort(op, rank, &s.found);
    case MU_ETIMEDOUT:
        return gave_up(op, rank);
    default:
        return op->c->group.broken;
    }
}

/* ---- telling ---- */

static void tell(struct link *l, const struct note *note, const uint8_t *calls)
{
    l->ops->drop(l);
    if (atomic_load(&l->lost) == MU_OK) {
        (void)l->ops->send(l, note, calls, true);
        (void)l->ops->flush(l);
    }
}

void blame_tell(struct op *op)
{
    struct comm_group *g = &op->c->group;
    struct note note = op->base;
    uint8_t calls[2 * NOTE_BYTES];
    const bool order = g->broken == MU_EORDER && g->broken_note.generation == g->number;

    if (order) {
        note_encode(&op->base, calls);
        note_encode(&g->broken_note, calls + NOTE_BYTES);
    }
    note.kind = NOTE_ABORT;
    note.root = (uint32_t)g->broken;
    note.index = g->broken_by;
    note.offset = note.width = 0;
    note.bytes = order ? sizeof(calls) : 0;
    for (uint32_t r = 0; r < g->n; r++) {
        if (r != g->me && g->links[r] != NULL && g->links[r]->proved == g->number) {
            tell(g->links[r], &note, calls);
        }
    }
    if (group_flush(op->c)) {
        links_flush(op->c); /* Nobody else sends the rest once this call has returned. */
    }
}
