/* What comes: heads into the connection's buffer, bodies straight to their places as far as that
 * goes. */
#include "link/helper_state.h"

#include <stdlib.h>
#include <string.h>

#define SPILL 4096 /* read along with a large body */

/* ---- slots ---- */

struct helper_slot *helper_slot_open(struct helper_conn *c, uint16_t index)
{
    if (c->slots[index] == NULL) {
        c->slots[index] = calloc(1, sizeof(struct helper_slot));
        if (c->slots[index] != NULL) {
            c->slots[index]->conn = c;
            c->slots[index]->index = index;
        }
    }
    return c->slots[index];
}

void helper_slot_done(struct helper_slot *s)
{
    struct helper_conn *c = s->conn;

    if (s->number == 0 || s->out_open || s->in_open || s->batched || s->queued || s->call != NULL ||
        s->taken != NULL) {
        return;
    }
    s->number = 0;
    timers_disarm(&c->h->timers, &s->timer);
    if (c->peer != NULL) {
        c->free_slots[c->free_n++] = s->index;
        helper_go_on(c->peer);
    }
}

/* ---- frames ---- */

static struct helper_slot *find(struct helper_conn *c, const struct helper_head *head)
{
    struct helper_slot *s = c->slots[head->slot];

    return s != NULL && s->number == head->number ? s : NULL;
}

static int begin_request(struct helper_conn *c, const struct helper_head *head)
{
    struct helper_slot *s = helper_slot_open(c, head->slot);

    if (s == NULL) {
        return MU_ENOMEM;
    }
    if (c->peer != NULL || c->h->config.ops.take == NULL || head->number <= c->number ||
        s->number != 0) {
        return MU_EPROTO;
    }
    c->number = s->number = head->number;
    s->total = head->total;
    s->got = 0;
    s->in_open = true;
    s->answering = false;
    c->in = s;
    return helper_request_begins(s, head);
}

static int begin_answer(struct helper_conn *c, const struct helper_head *head)
{
    struct helper_slot *s = find(c, head);

    if (c->peer == NULL || s == NULL || !s->in_open || s->answering) {
        return MU_EPROTO;
    }
    s->answering = true;
    s->total = head->total;
    s->got = 0;
    c->in = s;
    return helper_answer_begins(s, head);
}

static int begin_more(struct helper_conn *c, const struct helper_head *head)
{
    struct helper_slot *s = find(c, head);

    if (s == NULL || !s->in_open || (c->peer != NULL && !s->answering) ||
        head->bytes > s->total - s->got) {
        return MU_EPROTO;
    }
    c->in = s;
    return MU_OK;
}

static int take_cut(struct helper_conn *c, const struct helper_head *head)
{
    struct helper_slot *s = find(c, head);

    if (c->peer == NULL) {
        if (s != NULL) {
            helper_request_cut(s);
        }
        return head->number <= c->number ? MU_OK : MU_EPROTO;
    }
    if (s == NULL || !s->in_open) {
        return head->number <= c->number ? MU_OK : MU_EPROTO;
    }
    helper_answer_ends(s, head->value != MU_OK ? head->value : MU_EPEER);
    return MU_OK;
}

static void end_body(struct helper_slot *s)
{
    if (s->conn->peer != NULL) {
        helper_answer_ends(s, MU_OK);
    } else {
        helper_request_ends(s);
    }
}

static int take_end(struct helper_conn *c, const struct helper_head *head)
{
    struct helper_slot *s = find(c, head);

    if (s == NULL || !s->in_open || (c->peer != NULL && !s->answering) ||
        s->total <= HELPER_WHOLE || s->got < s->total) {
        return MU_EPROTO;
    }
    end_body(s);
    return MU_OK;
}

static int begin_frame(struct helper_conn *c, const uint8_t *bytes)
{
    struct helper_head head;

    if (helper_head_decode(bytes, &head) != MU_OK) {
        return MU_EPROTO;
    }
    c->in_left = head.bytes;
    switch (head.what) {
    case HELPER_REQUEST:
        return begin_request(c, &head);
    case HELPER_ANSWER:
        return begin_answer(c, &head);
    case HELPER_MORE:
        return begin_more(c, &head);
    case HELPER_END:
        return take_end(c, &head);
    default:
        return take_cut(c, &head);
    }
}

static void end_frame(struct helper_conn *c)
{
    struct helper_slot *s = c->in;

    c->in = NULL;
    if (s->got == s->total && s->total <= HELPER_WHOLE) {
        end_body(s);
    }
}

static void got(struct helper_conn *c, size_t n)
{
    c->in->got += n;
    c->in_left -= (uint32_t)n;
}

/* All that is in the buffer, but the beginning of a head. */
static int consume(struct helper_conn *c)
{
    while (!c->lost) {
        if (c->in != NULL) {
            const size_t n = MIN(c->in_left, c->to - c->from);

            if (c->in->place != NULL && n > 0) {
                memcpy(c->in->place + c->in->got, c->buffer + c->from, n);
            }
            c->from += n;
            got(c, n);
            if (c->in_left > 0) {
                break;
            }
            end_frame(c);
        } else if (c->to - c->from < HELPER_HEAD_BYTES) {
            break;
        } else {
            const uint8_t *head = c->buffer + c->from;

            c->from += HELPER_HEAD_BYTES;
            const int rc = begin_frame(c, head);

            if (rc != MU_OK) {
                return rc;
            }
        }
    }
    memmove(c->buffer, c->buffer + c->from, c->to - c->from);
    c->to -= c->from;
    c->from = 0;
    return MU_OK;
}

/* How many; 0: none now. */
static ssize_t read_some(struct helper_conn *c)
{
    const bool direct = c->in != NULL && c->in->place != NULL;
    const size_t room = HELPER_BUFFER - c->to;
    struct iovec pieces[2];
    uint32_t n = 0;

    if (direct) {
        pieces[n++] = (struct iovec){c->in->place + c->in->got, c->in_left};
    }
    pieces[n++] = (struct iovec){c->buffer + c->to,
                                 direct && c->in_left > HELPER_BUFFER ? MIN(room, SPILL) : room};
    const ssize_t all = link_stream_read(&c->stream, pieces, n);

    if (all > 0) {
        const size_t placed = direct ? MIN((size_t)all, c->in_left) : 0;

        if (placed > 0) {
            got(c, placed);
        }
        c->to += (size_t)all - placed;
    }
    return all;
}

int helper_read(struct helper_conn *c, const char **why_out)
{
    for (size_t all = 0; all < HELPER_READ_MAX && !c->lost;) {
        const ssize_t n = read_some(c);

        if (n <= 0) {
            *why_out = c->stream.why;
            return n == 0 ? MU_EAGAIN : (int)n;
        }
        all += (size_t)n;
        const int rc = consume(c);

        if (rc != MU_OK) {
            *why_out = rc == MU_ENOMEM ? "no memory for what it asks"
                                       : "what it sent is neither a request nor an answer, or is "
                                         "out of turn";
            return rc;
        }
    }
    return MU_OK;
}
