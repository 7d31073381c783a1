/* A connection: frames one after the other, arriving in pieces of any size. However it is cut, the
 * same frames are seen and the same one is refused. The first byte seeds the cuts; its lowest
 * bit makes the checksums right. */
#include "base/crc32c.h"
#include "base/prng.h"
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"

#include <stdlib.h>
#include <string.h>

/* What a receiver is: a buffer that holds no more than one frame, and the header once it is there.
 */
struct receiver {
    uint8_t *frame; /* header and payload of exactly the length that the header says */
    size_t have;
    struct wire_header h;
    uint64_t seen; /* a digest of all that was decoded */
    uint32_t frames_n;
    int status;
};

static void note(struct receiver *r, uint64_t value)
{
    r->seen = prng_mix(r->seen ^ value);
}

static void finish_frame(struct receiver *r)
{
    const size_t n = WIRE_HEADER_BYTES + r->h.length;
    struct wire_scratch scratch = wire_check_scratch(0);
    struct wire_fault fault = {0};
    union wire_any msg;

    r->status =
        wire_decode(&r->h, r->frame + WIRE_HEADER_BYTES, r->h.length, &msg, &scratch, &fault);
    if (r->status == MU_OK) {
        wire_check_frame(&r->h, &msg, r->frame, n);
        note(r, crc32c(0, r->frame, n));
        r->frames_n++;
    } else {
        wire_check_refused(r->status, &fault, &scratch);
    }
    free(r->frame);
    r->frame = NULL;
    r->have = 0;
}

/* Takes what it needs next of p[0..n) and returns how much that was. */
static size_t take(struct receiver *r, const uint8_t *p, size_t n)
{
    const size_t want =
        r->have < WIRE_HEADER_BYTES ? WIRE_HEADER_BYTES : WIRE_HEADER_BYTES + (size_t)r->h.length;
    const size_t part = MIN(n, want - r->have);

    if (r->frame == NULL) {
        r->frame = malloc(WIRE_HEADER_BYTES);
        mu_assert(r->frame != NULL);
    }
    memcpy(r->frame + r->have, p, part);
    r->have += part;
    if (r->have == WIRE_HEADER_BYTES && want == WIRE_HEADER_BYTES) {
        struct wire_fault fault = {0};
        struct wire_scratch none = {NULL, 0, 0};

        r->status = wire_header_decode(r->frame, &r->h, &fault);
        if (r->status != MU_OK) {
            wire_check_refused(r->status, &fault, &none);
            return part;
        }
        mu_assert(r->h.length <= 2 * (size_t)wire_payload_max(r->h.type) + 1024);
        r->frame = realloc(r->frame, WIRE_HEADER_BYTES + (size_t)r->h.length);
        mu_assert(r->frame != NULL);
    }
    if (r->have >= WIRE_HEADER_BYTES && r->have == WIRE_HEADER_BYTES + (size_t)r->h.length) {
        finish_frame(r);
    }
    return part;
}

/* A refusal ends the connection. */
static void receive(void *arg, const uint8_t *p, size_t n)
{
    struct receiver *r = arg;

    while (n > 0 && r->status == MU_OK) {
        size_t part = take(r, p, n);

        p += part;
        n -= part;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct receiver whole = {0}, cut = {0};

    if (n == 0) {
        return 0;
    }
    const uint8_t options = *data++;
    uint8_t *stream = wire_check_copy(data, --n);

    if ((options & 1) != 0) {
        wire_check_mend_stream(stream, n);
    }
    receive(&whole, stream, n);
    wire_check_cut(stream, n, options, receive, &cut);
    mu_assert(whole.status == cut.status && whole.frames_n == cut.frames_n);
    mu_assert(whole.seen == cut.seen);
    free(whole.frame);
    free(cut.frame);
    free(stream);
    return 0;
}
