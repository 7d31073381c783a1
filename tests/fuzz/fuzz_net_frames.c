/* What a connection does with the bytes of a peer: frames through an inbox and a desk, in pieces of
 * any size. However they are cut, the same frames are seen and the same one is refused, and the
 * inbox never holds more than twice what has arrived. The first byte seeds the cuts; its lowest bit
 * makes the checksums right, the next one sets a limit on payloads. */
#include "base/crc32c.h"
#include "base/prng.h"
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"
#include "net/inbox.h"

#include <stdlib.h>

#define INBOX_LEAST 512u

struct receiver {
    struct inbox in;
    struct inbox_desk desk;
    uint32_t frame_max;
    size_t arrived; /* since the frame that it is at began, at least */
    uint64_t seen;
    uint32_t frames_n;
    int status;
};

static void check_frame(struct receiver *r, const struct wire_header *h, const uint8_t *payload)
{
    const size_t n = WIRE_HEADER_BYTES + (size_t)h->length;

    mu_assert(r->frame_max == 0 || h->length <= r->frame_max);
    wire_check_frame(h, &r->desk.msg, payload - WIRE_HEADER_BYTES, n);
    r->seen = prng_mix(r->seen ^ crc32c(0, payload - WIRE_HEADER_BYTES, n));
    r->frames_n++;
}

static void receive(void *arg, const uint8_t *data, size_t n)
{
    struct receiver *r = arg;
    uint8_t *piece = wire_check_copy(data, n);
    const uint8_t *bytes = piece;

    r->arrived += n;
    while (r->status == MU_OK) {
        struct wire_fault fault = {0};
        struct wire_header h;
        const uint8_t *payload;
        int rc = inbox_next(&r->in, &bytes, &n, r->frame_max, &h, &payload, &fault);

        mu_assert(r->in.cap <= MAX(2 * r->arrived, INBOX_LEAST) && r->in.have <= r->in.cap);
        if (rc == MU_EAGAIN) {
            mu_assert(n == 0 && !r->in.whole);
            break;
        }
        if (rc == MU_OK) {
            rc = desk_decode(&r->desk, &h, payload, &fault);
        }
        if (rc == MU_OK) {
            check_frame(r, &h, payload);
            desk_clear(&r->desk);
        } else {
            mu_assert(fault.text[0] != '\0');
            mu_assert(rc == MU_EPROTO || rc == MU_EVERSION || rc == MU_ECORRUPT);
            r->status = rc;
        }
    }
    free(piece);
}

static void end(struct receiver *r)
{
    inbox_close(&r->in);
    desk_close(&r->desk);
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
    whole.frame_max = cut.frame_max = (options & 2) != 0 ? 64 : 0;
    receive(&whole, stream, n);
    wire_check_cut(stream, n, options, receive, &cut);
    mu_assert(whole.status == cut.status && whole.frames_n == cut.frames_n);
    mu_assert(whole.seen == cut.seen);
    end(&whole);
    end(&cut);
    free(stream);
    return 0;
}
