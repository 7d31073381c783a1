/* Frames as they come. What is done with a note depends on its generation and on what the peer has
 * proved:
 *
 *   older than the group's   thrown away, with its bytes
 *   a MOVE                   a claim (link.h), as soon as its bytes are here
 *   any other                if there was no MOVE for its generation, the link is lost; if its
 *                            proof is not checked yet, or the group has not moved, it waits;
 *                            otherwise it is the next note
 *
 * A MOVE for a generation older than the group's is a claim if it is the first of the connection:
 * that peer is refused. Later ones were only overtaken by this worker. */
#include "comm/tcp.h"

#include "wire/bytes.h"

#include <stdlib.h>
#include <string.h>

int tcp_in_open(struct tcp_in *in)
{
    in->buffer = malloc(TCP_BUFFER);
    return in->buffer == NULL ? MU_ENOMEM : MU_OK;
}

void tcp_in_close(struct tcp_in *in)
{
    free(in->buffer);
    free(in->own);
}

static int lose(struct tcp_link *t, int status, const char *why)
{
    link_lose(&t->link, status, why);
    return MU_EPEER;
}

/* Up to `room` bytes to `place` (NULL: none), what comes after them into the buffer, which is
 * empty or begins at 0. */
static int read_more(struct tcp_link *t, uint8_t *place, size_t room, size_t *placed_out)
{
    struct tcp_in *in = &t->in;
    struct iovec pieces[] = {{place, room}, {in->buffer + in->to, TCP_BUFFER - in->to}};
    const uint32_t first = room == 0 ? 1 : 0;
    const ssize_t got = tcp_read(t, pieces + first, 2 - first);

    if (got < 0) {
        return lose(t, (int)got, t->why);
    }
    if (got == 0) {
        return MU_EAGAIN;
    }
    *placed_out = MIN((size_t)got, room);
    in->to += (size_t)got - *placed_out;
    return MU_OK;
}

/* Until n bytes are in the buffer, one after the other. */
static int have(struct tcp_link *t, size_t n)
{
    struct tcp_in *in = &t->in;
    size_t none;

    while (in->to - in->from < n) {
        if (in->from > 0) {
            memmove(in->buffer, in->buffer + in->from, in->to - in->from);
            in->to -= in->from;
            in->from = 0;
        }
        int rc = read_more(t, NULL, 0, &none);

        if (rc != MU_OK) {
            return rc;
        }
    }
    return MU_OK;
}

static int skip_rest(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;

    for (;;) {
        const size_t part = (size_t)MIN(in->skip, in->to - in->from);
        int rc;

        in->from += part;
        in->skip -= part;
        if (in->skip == 0) {
            return MU_OK;
        }
        rc = have(t, 1);
        if (rc != MU_OK) {
            return rc;
        }
    }
}

static void finish(struct tcp_in *in)
{
    in->held = false;
    in->skip = in->note.bytes - in->got + (in->whole ? 0 : TCP_WORD_BYTES);
    in->at_note = false;
    in->place = NULL;
}

static int read_head(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    int rc = skip_rest(t);

    if (rc == MU_OK) {
        rc = have(t, NOTE_BYTES);
    }
    if (rc != MU_OK) {
        return rc;
    }
    const uint8_t *head = in->buffer + in->from;

    if (note_decode(head, &in->note) != MU_OK) {
        return lose(t, MU_EPROTO,
                    head[0] == 0x16 && head[1] == 0x03
                        ? "it speaks TLS and this worker does not: set all to the same"
                        : "what it sent is not a note");
    }
    if (in->note.bytes > NOTE_DATA_MAX) {
        return lose(t, MU_EPROTO, "a note is too large");
    }
    in->from += NOTE_BYTES;
    in->at_note = true;
    in->shown = in->held = false;
    in->place = NULL;
    in->got = 0;
    in->whole = false;
    return MU_OK;
}

/* The word after the bytes, `ahead` bytes from here. MU_EAGAIN: it is not in the buffer yet. */
static int look_at_word(struct tcp_link *t, size_t ahead)
{
    struct tcp_in *in = &t->in;

    if (in->to - in->from < ahead + TCP_WORD_BYTES) {
        return MU_EAGAIN;
    }
    const uint32_t word = get_u32(in->buffer + in->from + ahead);

    if (word != TCP_COUNTS && word != TCP_VOID) {
        return lose(t, MU_EPROTO, "a note does not end as it should");
    }
    in->counts = word == TCP_COUNTS;
    return MU_OK;
}

static int take_claim(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    int rc = have(t, HELLO_PROOF_BYTES + TCP_WORD_BYTES);

    if (rc == MU_OK) {
        rc = look_at_word(t, HELLO_PROOF_BYTES);
    }
    if (rc != MU_OK) {
        return rc;
    }
    if (in->counts) {
        in->said = MAX(in->said, in->note.generation);
        link_claim(&t->link, in->note.generation, in->buffer + in->from);
    }
    finish(in);
    return atomic_load(&t->link.lost) != MU_OK ? MU_EPEER : MU_OK;
}

/* One that is for the caller. If it can be seen already that it is void, it is not. */
static int show(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    int rc = MU_OK;

    if (in->shown) {
        return MU_OK;
    }
    if (in->note.bytes == 0) {
        rc = have(t, TCP_WORD_BYTES);
    }
    if (rc == MU_OK) {
        rc = look_at_word(t, in->note.bytes);
    }
    if (rc == MU_OK && !in->counts) {
        finish(in);
    } else if (rc == MU_OK || (rc == MU_EAGAIN && in->note.bytes > 0)) {
        in->shown = true;
        rc = MU_OK;
    }
    return rc;
}

/* MU_OK: it is the next note, or it is done with (!at_note). */
static int judge(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    const uint64_t now = t->link.comm->group.number;
    const uint64_t its = in->note.generation;

    in->held = false;
    if (in->note.kind == NOTE_MOVE && (its >= now || in->said == 0) && t->link.proved != its) {
        return take_claim(t);
    }
    if (in->note.kind == NOTE_MOVE || its < now) {
        finish(in);
        return MU_OK;
    }
    if (its != in->said) {
        return lose(t, MU_EPROTO, "it acts in a generation that it has not proved to be in");
    }
    if (its > now || t->link.proved != its) {
        in->held = true;
        return MU_EAGAIN;
    }
    return show(t);
}

int tcp_head(struct link *l, struct note *note_out)
{
    struct tcp_link *t = tcp_of(l);

    if (atomic_load(&l->lost) != MU_OK) {
        return MU_EPEER;
    }
    do {
        int rc = t->in.at_note ? MU_OK : read_head(t);

        if (rc == MU_OK) {
            rc = judge(t);
        }
        if (rc != MU_OK) {
            return rc;
        }
    } while (!t->in.at_note);
    *note_out = t->in.note;
    return MU_OK;
}

static uint8_t *own_place(struct tcp_in *in)
{
    if (in->own == NULL) {
        in->own = aligned_alloc(4096, NOTE_DATA_MAX);
    }
    return in->own;
}

/* Bytes to their place, from the buffer first. */
static int fill(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    const size_t part = MIN(in->to - in->from, in->note.bytes - in->got);

    memcpy(in->place + in->got, in->buffer + in->from, part);
    in->from += part;
    in->got += part;
    while (in->got < in->note.bytes) {
        size_t placed;

        in->from = in->to = 0;
        int rc = read_more(t, in->place + in->got, in->note.bytes - in->got, &placed);

        if (rc != MU_OK) {
            return rc;
        }
        in->got += placed;
    }
    int rc = have(t, TCP_WORD_BYTES);

    if (rc == MU_OK) {
        rc = look_at_word(t, 0);
    }
    if (rc == MU_OK) {
        in->from += TCP_WORD_BYTES;
        in->whole = true;
    }
    return rc;
}

int tcp_body(struct link *l, void *place, const void **data_out)
{
    struct tcp_link *t = tcp_of(l);
    struct tcp_in *in = &t->in;
    int rc = MU_OK;

    if (atomic_load(&l->lost) != MU_OK) {
        return MU_EPEER;
    }
    mu_assert(in->at_note && in->shown);
    if (in->place == NULL) {
        in->lent = place != NULL;
        in->place = place != NULL ? place : own_place(in);
    }
    if (in->place == NULL) {
        return MU_ENOMEM;
    }
    if (!in->whole) {
        rc = fill(t);
    }
    if (rc == MU_OK && !in->counts) {
        rc = MU_EPEER;
    }
    if (rc == MU_OK) {
        *data_out = in->place;
    }
    return rc;
}

int tcp_done(struct link *l)
{
    struct tcp_in *in = &tcp_of(l)->in;
    const bool counts = !in->whole || in->counts;

    mu_assert(in->at_note && in->shown);
    finish(in);
    return counts ? MU_OK : MU_EPEER;
}

void tcp_in_drop(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;

    if (!in->at_note || in->place == NULL || !in->lent) {
        return;
    }
    uint8_t *own = own_place(in);

    if (own == NULL) {
        in->at_note = false;
        lose(t, MU_ENOMEM, "no memory for what it sends");
        return;
    }
    memcpy(own, in->place, in->got);
    in->place = own;
    in->lent = false;
}

bool tcp_in_waits(const struct tcp_in *in)
{
    return in->at_note && in->shown ? in->place != NULL && !in->whole : !in->held;
}
