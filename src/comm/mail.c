#include "comm/links.h"
#include "comm/op.h"

#include <stdlib.h>
#include <string.h>

struct mail {
    uint64_t generation;
    uint32_t rank;
    uint32_t n;
    uint8_t bytes[LINK_COPY_MAX];
};

static struct mail *box_pop(struct mailbox *box)
{
    struct mail *m = box->n > 0 ? box->mails[box->first] : NULL;

    if (m != NULL) {
        box->first = (box->first + 1) % MAILBOX_MAX;
        box->n--;
    }
    return m;
}

void mailbox_close(struct comm *c)
{
    while (c->mailbox.n > 0) {
        free(box_pop(&c->mailbox));
    }
}

int mailbox_take(struct comm *c, struct link *l, uint32_t rank, const struct note *note)
{
    struct mailbox *box = &c->mailbox;
    struct mail *m;
    const void *data;
    int rc;

    if (note->bytes > LINK_COPY_MAX) {
        link_lose(l, MU_EPROTO, "a mail that is too long");
        return MU_EPEER;
    }
    if (note->bytes == 0) { /* A nudge: there is nothing to keep. */
        c->nudges++;
        (void)l->ops->done(l);
        return MU_OK;
    }
    if (box->n == MAILBOX_MAX) {
        return MU_EAGAIN;
    }
    rc = l->ops->body(l, NULL, &data);
    if (rc != MU_OK) {
        return rc;
    }
    m = malloc(sizeof(*m));
    if (m == NULL) {
        return MU_EAGAIN;
    }
    m->generation = note->generation;
    m->rank = rank;
    m->n = (uint32_t)note->bytes;
    memcpy(m->bytes, data, m->n);
    if (l->ops->done(l) != MU_OK) { /* It was taken back. */
        free(m);
        return MU_OK;
    }
    box->mails[(box->first + box->n++) % MAILBOX_MAX] = m;
    return MU_OK;
}

/* ---- sending and hearing, outside of calls ---- */

struct mailing {
    struct op op;
    const struct note *note;
    const void *frame;
    uint32_t next, last;
};

static int send_step(struct op *op)
{
    struct mailing *m = (struct mailing *)op;

    for (; m->next <= m->last; m->next++) {
        if (m->next != op->c->group.me) {
            int rc = op_send(op, m->next, m->note, m->frame, true);
            if (rc != MU_OK) {
                return rc;
            }
        }
    }
    return MU_OK;
}

static bool send_wants_tx(const struct op *op, uint32_t rank)
{
    return rank >= ((const struct mailing *)op)->next;
}

static bool wants_all(const struct op *op, uint32_t rank)
{
    (void)op;
    (void)rank;
    return true;
}

int comm_mail(struct comm *c, uint32_t rank, const void *frame, size_t n)
{
    struct note note = {.kind = NOTE_MAIL, .op = COMM_NONE, .bytes = n};
    struct mailing m = {.op = {.c = c,
                               .timeout_ns = UINT64_MAX,
                               .step = send_step,
                               .wants_rx = op_wants_nothing,
                               .wants_tx = send_wants_tx},
                        .note = &note,
                        .frame = frame};
    int rc;

    if (n > LINK_COPY_MAX || n == 0) {
        return MU_EINVAL;
    }
    rc = comm_enter(c);
    if (rc != MU_OK) {
        return rc;
    }
    pthread_mutex_lock(&c->engine);
    rc = call_ready(&m.op);
    if (rc == MU_OK && rank != COMM_NOBODY && rank >= c->group.n) {
        rc = MU_EINVAL;
    }
    if (rc == MU_OK) {
        note.generation = c->group.number;
        m.op.base = note;
        m.next = rank == COMM_NOBODY ? 0 : rank;
        m.last = rank == COMM_NOBODY ? c->group.n - 1 : rank;
        rc = op_drive(&m.op);
    }
    pthread_mutex_unlock(&c->engine);
    comm_leave(c);
    return rc;
}

static bool poked(const struct comm *c)
{
    return atomic_load(&c->pokes) != c->pokes_seen;
}

/* Whatever is mail, from anybody; what is of a call stays where it is. But a peer whose call has
 * failed says so to all, also to those who have the result: its word is passed over, for behind it
 * comes the proof that it is in the next round. No mail, and no nudge, makes the wait longer. */
static int hear_step(struct op *op)
{
    struct comm *c = op->c;
    struct note note;

    for (uint32_t r = 0; r < c->group.n; r++) {
        while (r != c->group.me && op_peek(op, r, &note) == MU_OK && note.kind == NOTE_ABORT &&
               op_link(op, r)->ops->done(op_link(op, r)) == MU_OK) {
        }
    }
    op->moved = false;
    return c->mailbox.n > 0 || poked(c) ? MU_OK : MU_EAGAIN;
}

static int hear(struct comm *c, struct op *op, void *frame, size_t room, size_t *n_out,
                uint32_t *rank_out)
{
    for (;;) {
        struct mail *m;

        if (c->mailbox.n == 0) {
            int rc = op_drive(op);
            if (rc != MU_OK) {
                return rc;
            }
        }
        if (c->mailbox.n == 0) {
            c->pokes_seen = atomic_load(&c->pokes);
            return MU_EAGAIN;
        }
        m = c->mailbox.mails[c->mailbox.first];
        if (m->generation == c->group.number && m->n > room) {
            return MU_ELIMIT;
        }
        m = box_pop(&c->mailbox);
        if (m->generation == c->group.number) {
            memcpy(frame, m->bytes, m->n);
            *n_out = m->n;
            *rank_out = m->rank;
            free(m);
            return MU_OK;
        }
        free(m);
    }
}

int comm_hear(struct comm *c, int64_t timeout_ms, void *frame, size_t room, size_t *n_out,
              uint32_t *rank_out)
{
    struct op op = {.c = c,
                    .step = hear_step,
                    .wants_rx = wants_all,
                    .wants_tx = op_wants_nothing,
                    .patient = true,
                    .outlasts = true,
                    .timeout_ns = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * 1000000};
    int rc = comm_enter(c);

    if (rc != MU_OK) {
        return rc;
    }
    pthread_mutex_lock(&c->engine);
    rc = call_ready(&op);
    if (rc == MU_OK) {
        op.base = (struct note){.generation = c->group.number, .kind = NOTE_MAIL};
        rc = hear(c, &op, frame, room, n_out, rank_out);
    }
    if (rc != MU_OK) {
        *rank_out = c->group.broken != MU_OK ? c->group.broken_by : COMM_NOBODY;
    }
    pthread_mutex_unlock(&c->engine);
    comm_leave(c);
    return rc;
}

void comm_poke(struct comm *c)
{
    atomic_fetch_add(&c->pokes, 1);
    comm_ring(c);
}

void comm_nudge(struct comm *c)
{
    struct note note = {.kind = NOTE_MAIL, .op = COMM_NONE};
    struct op op = {.c = c};

    if (comm_enter(c) != MU_OK) {
        return;
    }
    if (pthread_mutex_trylock(&c->engine) == 0) { /* Else it is in a call, and does something. */
        if (call_ready(&op) == MU_OK) {
            note.generation = c->group.number;
            for (uint32_t r = 0; r < c->group.n; r++) {
                if (r != c->group.me) {
                    (void)c->group.links[r]->ops->send(c->group.links[r], &note, NULL, true);
                }
            }
            (void)group_flush(c);
        }
        pthread_mutex_unlock(&c->engine);
    }
    comm_leave(c);
}

uint32_t comm_nudges(struct comm *c)
{
    uint32_t n;

    pthread_mutex_lock(&c->engine);
    n = c->nudges;
    pthread_mutex_unlock(&c->engine);
    return n;
}
