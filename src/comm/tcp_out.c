/* The queue of frames, and writing it. Only its first frame may have begun. */
#include "comm/tcp.h"

#include "wire/bytes.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t zeros[32768];
_Static_assert(NOTE_DATA_MAX / sizeof(zeros) + 2 <= TCP_PIECES_MAX, "a void frame must fit");

static size_t frame_bytes(const struct tcp_frame *f)
{
    return NOTE_BYTES + f->bytes + TCP_WORD_BYTES;
}

/* Whether all of its data has been written. */
static bool is_taken(const struct tcp_frame *f)
{
    return f->voided || f->written >= NOTE_BYTES + f->bytes;
}

int tcp_out_open(struct tcp_out *out)
{
    out->rooms = malloc(ARRAY_LEN(out->frames) * LINK_COPY_MAX);
    if (out->rooms == NULL) {
        return MU_ENOMEM;
    }
    for (uint32_t i = 0; i < ARRAY_LEN(out->frames); i++) {
        out->frames[i].room = out->rooms + (size_t)i * LINK_COPY_MAX;
        out->order[i] = &out->frames[i];
    }
    return MU_OK;
}

void tcp_out_close(struct tcp_out *out)
{
    free(out->rooms);
}

static void remove_at(struct tcp_out *out, uint32_t i)
{
    struct tcp_frame *f = out->order[i];

    out->n--;
    memmove(&out->order[i], &out->order[i + 1], (out->n - i) * sizeof(f));
    out->order[out->n] = f;
}

/* ---- writing ---- */

static uint32_t add_piece(struct iovec *pieces, uint32_t n, const uint8_t *from, size_t bytes,
                          size_t *written)
{
    const size_t off = MIN(*written, bytes);

    *written -= off;
    if (off == bytes) {
        return n;
    }
    /* It is only read. */
    pieces[n].iov_base = (void *)(uintptr_t)(from + off);
    pieces[n].iov_len = bytes - off;
    return n + 1;
}

/* For data that may be gone. */
static uint32_t add_zeros(struct iovec *pieces, uint32_t n, size_t bytes, size_t *written)
{
    while (bytes > 0) {
        const size_t part = MIN(bytes, sizeof(zeros));

        n = add_piece(pieces, n, zeros, part, written);
        bytes -= part;
    }
    return n;
}

/* What is left of the queue's frames, as far as it fits. */
static uint32_t gather(const struct tcp_out *out, struct iovec pieces[TCP_PIECES_MAX])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < out->n && n + 3 <= TCP_PIECES_MAX; i++) {
        const struct tcp_frame *f = out->order[i];
        size_t written = f->written;

        mu_assert(i == 0 || !f->voided); /* so all its zeros fit */
        n = add_piece(pieces, n, f->head, NOTE_BYTES, &written);
        n = f->voided ? add_zeros(pieces, n, f->bytes, &written)
                      : add_piece(pieces, n, f->data, f->bytes, &written);
        n = add_piece(pieces, n, f->word, TCP_WORD_BYTES, &written);
    }
    return n;
}

static void advance(struct tcp_out *out, size_t bytes)
{
    while (bytes > 0) {
        struct tcp_frame *f = out->order[0];
        const size_t part = MIN(bytes, frame_bytes(f) - f->written);

        mu_assert(out->n > 0 && part > 0);
        f->written += part;
        bytes -= part;
        if (f->written == frame_bytes(f)) {
            remove_at(out, 0);
        }
    }
}

/* Nothing more is written; what the peer has said can still be read. */
static void fall_mute(struct tcp_out *out)
{
    out->mute = true;
    out->n = 0;
}

static int write_queue(struct tcp_link *t)
{
    while (t->out.n > 0 || link_stream_has_left_over(&t->stream)) {
        struct iovec pieces[TCP_PIECES_MAX];
        const uint32_t n = gather(&t->out, pieces);
        const ssize_t sent = link_stream_write(&t->stream, pieces, n);

        if (sent == MU_EPEER) {
            fall_mute(&t->out);
            return MU_OK;
        }
        if (sent < 0) {
            link_lose(&t->link, (int)sent, t->stream.why);
            return MU_EPEER;
        }
        advance(&t->out, (size_t)sent);
        if (sent == 0 && (n > 0 || link_stream_has_left_over(&t->stream))) {
            return MU_EAGAIN;
        }
    }
    return MU_OK;
}

int tcp_flush(struct link *l)
{
    struct tcp_link *t = tcp_of(l);

    if (atomic_load(&l->lost) != MU_OK) {
        return MU_EPEER;
    }
    return t->out.mute ? MU_OK : write_queue(t);
}

/* ---- the queue ---- */

static void enqueue(struct tcp_link *t, const struct note *note, const void *data, bool copy)
{
    struct tcp_frame *f = t->out.order[t->out.n++];

    f->number = t->link.sent_n;
    f->bytes = note->bytes;
    f->written = 0;
    f->kind = note->kind;
    f->voided = false;
    f->data = data;
    if (copy && note->bytes > 0) {
        memcpy(f->room, data, note->bytes);
        f->data = f->room;
    }
    note_encode(note, f->head);
    put_u32(f->word, TCP_COUNTS);
}

static int put(struct tcp_link *t, const struct note *note, const void *data, bool copy)
{
    t->link.sent_n++;
    if (!t->out.mute) {
        enqueue(t, note, data, copy);
    }
    return tcp_flush(&t->link) == MU_EPEER ? MU_EPEER : MU_OK;
}

int tcp_send(struct link *l, const struct note *note, const void *data, bool copy)
{
    struct tcp_link *t = tcp_of(l);

    mu_assert(note_valid(note) && note->bytes <= (copy ? LINK_COPY_MAX : NOTE_DATA_MAX));
    if (atomic_load(&l->lost) != MU_OK) {
        return MU_EPEER;
    }
    if (t->out.n >= TCP_QUEUE && tcp_flush(l) != MU_OK && t->out.n >= TCP_QUEUE) {
        return atomic_load(&l->lost) != MU_OK ? MU_EPEER : MU_EAGAIN;
    }
    return put(t, note, data, copy);
}

int tcp_prove(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES])
{
    struct tcp_link *t = tcp_of(l);
    struct tcp_out *out = &t->out;
    const struct note note = {
        .generation = generation, .bytes = HELLO_PROOF_BYTES, .kind = NOTE_MOVE};

    if (atomic_load(&l->lost) != MU_OK) {
        return MU_EPEER;
    }
    /* A peer that stands still while generations pass needs only the last of these. */
    if (out->n > 0 && out->order[out->n - 1]->kind == NOTE_MOVE &&
        out->order[out->n - 1]->written == 0) {
        out->n--;
    }
    return out->n == ARRAY_LEN(out->frames) ? MU_EAGAIN : put(t, &note, proof, true);
}

uint64_t tcp_taken(struct link *l)
{
    const struct tcp_out *out = &tcp_of(l)->out;

    for (uint32_t i = 0; i < out->n; i++) {
        if (!is_taken(out->order[i])) {
            return out->order[i]->number - 1;
        }
    }
    return l->sent_n;
}

/* Not of a call, and its data is here: it stays. */
static bool outlives_calls(const struct tcp_frame *f)
{
    return (f->kind == NOTE_MAIL || f->kind == NOTE_MOVE || f->kind == NOTE_ABORT) &&
           (f->data == f->room || f->bytes == 0);
}

void tcp_out_drop(struct tcp_link *t)
{
    struct tcp_out *out = &t->out;

    for (uint32_t i = 0; i < out->n;) {
        struct tcp_frame *f = out->order[i];

        if (outlives_calls(f) || is_taken(f)) {
            i++;
        } else if (f->written > 0) {
            f->voided = true;
            f->data = NULL;
            put_u32(f->word, TCP_VOID);
            i++;
        } else {
            remove_at(out, i);
        }
    }
}
