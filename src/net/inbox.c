#include "net/inbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_LEAST 512u
#define DESK_KEEP (64u << 10)

/* How much longer lists get by decoding, at most: a member of version 1.0 without an address is 22
 * bytes, a report 49. */
#define DESK_GROWTH 6u
_Static_assert(sizeof(struct member) <= 22 * DESK_GROWTH, "raise DESK_GROWTH");
_Static_assert(sizeof(struct report) <= 49 * DESK_GROWTH, "raise DESK_GROWTH");

void inbox_close(struct inbox *in)
{
    free(in->buf);
    memset(in, 0, sizeof(*in));
}

static int refuse(struct wire_fault *fault, int status, const char *text)
{
    fault->status = status;
    snprintf(fault->text, sizeof(fault->text), "%s", text);
    return status;
}

static int read_header(const uint8_t *bytes, uint32_t frame_max, struct wire_header *h,
                       struct wire_fault *fault)
{
    int rc = wire_header_decode(bytes, h, fault);

    if (rc == MU_ELIMIT) {
        rc = fault->status = MU_EPROTO;
    }
    if (rc == MU_OK && frame_max != 0 && h->length > frame_max) {
        rc = fault->status = MU_EPROTO;
        snprintf(fault->text, sizeof(fault->text),
                 "%s: a payload of %u bytes; at most %u are taken here", wire_name(h->type),
                 (unsigned)h->length, (unsigned)frame_max);
    }
    return rc;
}

/* Room for `part` more, towards a frame of `total`. Doubling bounds the copying; never more than
 * twice what has arrived bounds the memory. */
static int reserve(struct inbox *in, size_t part, size_t total, struct wire_fault *fault)
{
    const size_t need = in->have + part;

    if (need <= in->cap) {
        return MU_OK;
    }
    const size_t cap = MAX(MIN(MAX(need, (size_t)in->cap * 2), total), BUF_LEAST);
    uint8_t *buf = realloc(in->buf, cap);

    if (buf == NULL) {
        return refuse(fault, MU_ENOMEM, "out of memory for a frame");
    }
    in->buf = buf;
    in->cap = (uint32_t)cap;
    return MU_OK;
}

static int stash(struct inbox *in, const uint8_t **bytes, size_t *n, size_t total,
                 struct wire_fault *fault)
{
    const size_t part = MIN(*n, total - in->have);

    if (part == 0) {
        return MU_OK;
    }
    int rc = reserve(in, part, total, fault);

    if (rc == MU_OK) {
        memcpy(in->buf + in->have, *bytes, part);
        in->have += (uint32_t)part;
        *bytes += part;
        *n -= part;
    }
    return rc;
}

/* A frame that was begun earlier. */
static int go_on(struct inbox *in, const uint8_t **bytes, size_t *n, uint32_t frame_max,
                 struct wire_header *h, struct wire_fault *fault)
{
    int rc = in->have < WIRE_HEADER_BYTES ? stash(in, bytes, n, WIRE_HEADER_BYTES, fault) : MU_OK;

    if (rc != MU_OK || in->have < WIRE_HEADER_BYTES) {
        return rc != MU_OK ? rc : MU_EAGAIN;
    }
    rc = read_header(in->buf, frame_max, h, fault);
    if (rc == MU_OK) {
        rc = stash(in, bytes, n, WIRE_HEADER_BYTES + (size_t)h->length, fault);
    }
    if (rc == MU_OK && in->have < WIRE_HEADER_BYTES + (size_t)h->length) {
        return MU_EAGAIN;
    }
    return rc;
}

int inbox_next(struct inbox *in, const uint8_t **bytes, size_t *n, uint32_t frame_max,
               struct wire_header *h_out, const uint8_t **payload_out, struct wire_fault *fault)
{
    struct wire_header h = {0};
    int rc;

    if (in->whole) {
        inbox_close(in);
    }
    if (in->have == 0 && *n >= WIRE_HEADER_BYTES) {
        rc = read_header(*bytes, frame_max, &h, fault);
        if (rc != MU_OK) {
            return rc;
        }
        if (*n >= WIRE_HEADER_BYTES + (size_t)h.length) {
            *payload_out = *bytes + WIRE_HEADER_BYTES;
            *bytes += WIRE_HEADER_BYTES + (size_t)h.length;
            *n -= WIRE_HEADER_BYTES + (size_t)h.length;
            *h_out = h;
            return MU_OK;
        }
    }
    if (in->have == 0 && *n == 0) {
        return MU_EAGAIN;
    }
    rc = go_on(in, bytes, n, frame_max, &h, fault);
    if (rc == MU_OK) {
        in->whole = true;
        *h_out = h;
        *payload_out = in->buf + WIRE_HEADER_BYTES;
    }
    return rc;
}

void desk_close(struct inbox_desk *desk)
{
    free(desk->scratch.mem);
    desk->scratch = (struct wire_scratch){NULL, 0, 0};
}

int desk_decode(struct inbox_desk *desk, const struct wire_header *h, const uint8_t *payload,
                struct wire_fault *fault)
{
    const size_t most = (size_t)MEMBERS_MAX * sizeof(struct member) + DESK_KEEP;
    const size_t need = MIN((size_t)h->length * DESK_GROWTH + 64, most);

    if (desk->scratch.cap < need) {
        const size_t cap = MAX(need, DESK_KEEP / 4);

        desk_close(desk);
        desk->scratch.mem = malloc(cap);
        if (desk->scratch.mem == NULL) {
            return refuse(fault, MU_ENOMEM, "out of memory to decode a frame");
        }
        desk->scratch.cap = cap;
    }
    desk->scratch.used = 0;
    int rc = wire_decode(h, payload, h->length, &desk->msg, &desk->scratch, fault);

    if (rc == MU_ELIMIT) {
        rc = fault->status = MU_EPROTO;
    }
    return rc;
}

void desk_clear(struct inbox_desk *desk)
{
    if (desk->scratch.cap > DESK_KEEP) {
        desk_close(desk);
    }
}

void intake_close(struct intake *in)
{
    inbox_close(&in->inbox);
    desk_close(&in->desk);
    in->at_n = 0;
}

int intake_next(struct intake *in, struct wire_header *h_out, struct wire_fault *fault)
{
    const uint8_t *payload;
    struct wire_header h;
    int rc;

    desk_clear(&in->desk);
    rc = inbox_next(&in->inbox, &in->at, &in->at_n, 0, &h, &payload, fault);
    if (rc == MU_OK) {
        rc = desk_decode(&in->desk, &h, payload, fault);
    }
    if (rc == MU_OK) {
        *h_out = h;
    }
    return rc;
}

void intake_filled(struct intake *in, size_t n)
{
    mu_assert(in->at_n == 0 && n <= sizeof(in->bytes));
    in->at = in->bytes;
    in->at_n = n;
}
