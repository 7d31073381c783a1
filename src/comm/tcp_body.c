/* The bytes of a note: to where the caller wants them, or into memory of the link's. */
#include "comm/tcp.h"

#include <stdlib.h>
#include <string.h>

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
        int rc = tcp_read_more(t, in->place + in->got, in->note.bytes - in->got, &placed);

        if (rc != MU_OK) {
            return rc;
        }
        in->got += placed;
    }
    int rc = tcp_have(t, TCP_WORD_BYTES);

    if (rc == MU_OK) {
        rc = tcp_look_at_word(t, 0);
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
    tcp_finish(in);
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
        tcp_lose(t, MU_ENOMEM, "no memory for what it sends");
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
