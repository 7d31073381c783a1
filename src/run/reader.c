#include "run/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 4096 };

void reader_init(struct reader *r)
{
    *r = (struct reader){.need = WIRE_HEADER_BYTES};
}

void reader_close(struct reader *r)
{
    free(r->buf);
    free(r->scratch);
    *r = (struct reader){0};
}

int reader_room(struct reader *r, uint8_t **at_out, size_t *n_out)
{
    size_t have = r->n - r->at;

    if (r->at > 0) {
        memmove(r->buf, r->buf + r->at, have);
        r->at = 0;
        r->n = have;
    }
    if (r->cap - have < ROOM_MIN && r->cap < r->need + ROOM_MIN) {
        size_t cap = MAX(2 * have, 2 * (size_t)ROOM_MIN);
        uint8_t *buf = realloc(r->buf, cap);

        if (buf == NULL) {
            return MU_ENOMEM;
        }
        r->buf = buf;
        r->cap = cap;
    }
    mu_assert(r->cap > r->n);
    *at_out = r->buf + r->n;
    *n_out = r->cap - r->n;
    return MU_OK;
}

void reader_filled(struct reader *r, size_t n)
{
    mu_assert(n <= r->cap - r->n);
    r->n += n;
}

/* A decoded list takes at most four times the bytes of its encoding: the smallest member has 22
 * bytes and becomes a struct of 88. */
static int make_scratch(struct reader *r, size_t payload)
{
    size_t cap = 5 * payload + 1024;

    if (r->scratch_cap >= cap) {
        return MU_OK;
    }
    free(r->scratch);
    r->scratch_cap = 0;
    r->scratch = malloc(cap);
    if (r->scratch == NULL) {
        return MU_ENOMEM;
    }
    r->scratch_cap = cap;
    return MU_OK;
}

int reader_next(struct reader *r, struct wire_header *h_out, union wire_any *msg,
                struct wire_fault *fault)
{
    const uint8_t *frame;
    struct wire_header h;
    int rc;

    if (r->n - r->at < WIRE_HEADER_BYTES) {
        r->need = WIRE_HEADER_BYTES;
        return MU_EAGAIN;
    }
    frame = r->buf + r->at;
    rc = wire_header_decode(frame, &h, fault);
    if (rc != MU_OK) {
        return rc;
    }
    r->need = WIRE_HEADER_BYTES + (size_t)h.length;
    if (r->n - r->at < r->need) {
        return MU_EAGAIN;
    }
    rc = make_scratch(r, h.length);
    if (rc == MU_OK) {
        struct wire_scratch scratch = {(uint8_t *)r->scratch, r->scratch_cap, 0};

        rc = wire_decode(&h, frame + WIRE_HEADER_BYTES, h.length, msg, &scratch, fault);
    } else {
        fault->status = rc;
        snprintf(fault->text, sizeof(fault->text), "out of memory");
    }
    if (rc == MU_OK) {
        r->at += r->need;
        *h_out = h;
    }
    return rc;
}
