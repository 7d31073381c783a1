/* What leaves. The END of a large body is in a later batch than its bytes, so that nothing counts
 * whose memory was asked back. Slots that have something to say take turns, one frame of each in a
 * batch, which is written before the next is made. Small bodies are copied behind their heads: many
 * frames are one piece of memory then. */
#include "link/helper_state.h"

#include <string.h>

/* Stands for memory that is no longer lent. Not const: so it costs nothing in the file. */
static uint8_t zeros[HELPER_PIECE];

static void make_ready(struct helper_slot *s)
{
    if (!s->queued && !s->batched) {
        s->queued = true;
        TAILQ_INSERT_TAIL(&s->conn->ready, s, link);
    }
    s->conn->dirty = true;
}

void helper_say(struct helper_slot *s, const struct helper_head *head, const struct iovec *parts,
                uint64_t size)
{
    s->head = *head;
    s->parts = parts;
    s->part = 0;
    s->part_at = 0;
    s->size = size;
    s->sent = 0;
    s->out_open = true;
    make_ready(s);
}

static void unread(struct helper_slot *s)
{
    struct helper_conn *c = s->conn;

    for (uint32_t i = c->piece; i < c->pieces_n; i++) {
        if (c->of[i] == s) {
            mu_assert(c->pieces[i].iov_len <= sizeof(zeros));
            c->pieces[i].iov_base = zeros;
            c->of[i] = NULL;
        }
    }
    s->parts = NULL;
}

void helper_cut(struct helper_slot *s, int status)
{
    unread(s);
    s->out_open = true;
    s->head = (struct helper_head){
        .what = HELPER_CUT, .slot = s->index, .number = s->number, .value = status};
    make_ready(s);
}

/* ---- a batch ---- */

/* Up to `most` bytes of its parts, as pieces. */
static uint32_t lend(struct helper_conn *c, struct helper_slot *s, uint32_t most)
{
    uint32_t bytes = 0;

    while (bytes < most && c->pieces_n < HELPER_BATCH_PIECES) {
        const struct iovec *part = &s->parts[s->part];
        const uint32_t n = (uint32_t)MIN(part->iov_len - s->part_at, most - bytes);

        if (n > 0) {
            c->pieces[c->pieces_n] =
                (struct iovec){.iov_base = (uint8_t *)part->iov_base + s->part_at, .iov_len = n};
            c->of[c->pieces_n++] = s;
        }
        bytes += n;
        s->part_at += n;
        if (s->part_at == part->iov_len) {
            s->part++;
            s->part_at = 0;
        }
    }
    return bytes;
}

static void copy(struct helper_conn *c, struct helper_slot *s, uint32_t bytes)
{
    while (bytes > 0) {
        const struct iovec *part = &s->parts[s->part];
        const uint32_t n = (uint32_t)MIN(part->iov_len - s->part_at, bytes);

        if (n > 0) {
            memcpy(c->gather + c->gathered, (const uint8_t *)part->iov_base + s->part_at, n);
        }
        c->gathered += n;
        bytes -= n;
        s->part_at += n;
        if (s->part_at == part->iov_len) {
            s->part++;
            s->part_at = 0;
        }
    }
}

/* n more bytes of `gather`, which lie behind those of the last piece if that is of it. */
static void add_gathered(struct helper_conn *c, const uint8_t *at, size_t n)
{
    struct iovec *last = c->pieces_n > 0 ? &c->pieces[c->pieces_n - 1] : NULL;

    if (last != NULL && c->of[c->pieces_n - 1] == NULL &&
        (uint8_t *)last->iov_base + last->iov_len == at) {
        last->iov_len += n;
        return;
    }
    c->pieces[c->pieces_n] = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = n};
    c->of[c->pieces_n++] = NULL;
}

/* One frame. The head's bytes are in the batch before its body's number is known. */
static size_t add_frame(struct helper_conn *c, struct helper_slot *s)
{
    const uint64_t left = s->head.what == HELPER_CUT ? 0 : s->size - s->sent;
    const uint32_t most = (uint32_t)MIN(left, HELPER_PIECE);
    const bool whole = s->size <= HELPER_WHOLE;
    uint8_t *at = c->gather + c->gathered;
    struct helper_head head = s->head;

    c->gathered += HELPER_HEAD_BYTES;
    add_gathered(c, at, HELPER_HEAD_BYTES);
    if (whole || most == 0) {
        copy(c, s, most);
        add_gathered(c, at + HELPER_HEAD_BYTES, most);
        head.bytes = most;
    } else {
        head.bytes = lend(c, s, most);
    }
    helper_head_encode(&head, at);
    s->sent += head.bytes;
    s->out_open = left > head.bytes ||
                  (s->size > HELPER_WHOLE && head.what != HELPER_END && head.what != HELPER_CUT);
    s->head = (struct helper_head){.what = left > head.bytes ? HELPER_MORE : HELPER_END,
                                   .slot = s->index,
                                   .number = s->number};
    s->batched = true;
    c->batch[c->batch_n++] = s;
    return HELPER_HEAD_BYTES + head.bytes;
}

static bool fits(const struct helper_conn *c)
{
    return c->pieces_n + 2 <= HELPER_BATCH_PIECES && c->batch_n < HELPER_BATCH_PIECES &&
           c->gathered + HELPER_HEAD_BYTES + HELPER_WHOLE <= HELPER_GATHER;
}

static void make_batch(struct helper_conn *c)
{
    struct helper_slot *s;
    size_t bytes = 0;

    c->piece = c->pieces_n = c->batch_n = 0;
    c->gathered = 0;
    while (fits(c) && bytes < HELPER_BATCH_BYTES && (s = TAILQ_FIRST(&c->ready)) != NULL) {
        TAILQ_REMOVE(&c->ready, s, link);
        s->queued = false;
        bytes += add_frame(c, s);
    }
}

static void end_batch(struct helper_conn *c)
{
    const uint32_t n = c->batch_n;

    c->piece = c->pieces_n = c->batch_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct helper_slot *s = c->batch[i];

        s->batched = false;
        if (s->out_open) {
            make_ready(s);
        } else if (c->peer != NULL) {
            helper_asked(s);
        } else {
            helper_answered(s);
        }
    }
}

static void advance(struct helper_conn *c, size_t bytes)
{
    while (bytes > 0) {
        struct iovec *p = &c->pieces[c->piece];
        const size_t n = MIN(bytes, p->iov_len);

        p->iov_base = (uint8_t *)p->iov_base + n;
        p->iov_len -= n;
        bytes -= n;
        c->piece += p->iov_len == 0;
    }
}

bool helper_has_more(const struct helper_conn *c)
{
    return c->piece < c->pieces_n || !TAILQ_EMPTY(&c->ready) ||
           link_stream_has_left_over(&c->stream);
}

int helper_write(struct helper_conn *c)
{
    size_t all = 0;

    while (helper_has_more(c)) {
        struct iovec pieces[HELPER_BATCH_PIECES];

        if (c->piece == c->pieces_n) {
            make_batch(c);
        }
        const uint32_t n = c->pieces_n - c->piece;

        memcpy(pieces, c->pieces + c->piece, n * sizeof(*pieces));
        const ssize_t sent = link_stream_write(&c->stream, pieces, n);

        if (sent < 0) {
            return (int)sent;
        }
        c->h->writes_n++;
        advance(c, (size_t)sent);
        if (c->piece == c->pieces_n && c->batch_n > 0) {
            end_batch(c);
        }
        all += (size_t)sent;
        if (sent == 0 || all >= HELPER_READ_MAX) {
            return helper_has_more(c) ? MU_EAGAIN : MU_OK;
        }
    }
    return MU_OK;
}
