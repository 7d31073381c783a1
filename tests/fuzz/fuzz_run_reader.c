/* A worker's reader of frames: whatever comes from an agent, in pieces of any size. It sees the
 * same frames as a decoder that has each whole, refuses the same one, and its memory follows what
 * has come. The first byte seeds the cuts; its lowest bit makes the checksums right. */
#include "base/crc32c.h"
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"
#include "run/reader.h"

#include <stdlib.h>
#include <string.h>

struct seen {
    uint64_t digest;
    int status; /* MU_EAGAIN: what is left is the beginning of a frame */
};

static void note(struct seen *seen, const struct wire_header *h, const union wire_any *msg)
{
    char line[4096];
    size_t n = wire_print(h->type, msg, h->generation, line, sizeof(line));

    seen->digest = prng_mix(seen->digest ^ crc32c(h->type, line, n));
}

/* Frame by frame, each whole. */
static struct seen expect(const uint8_t *p, size_t n)
{
    struct seen seen = {0, MU_OK};
    struct wire_fault fault = {0};
    struct wire_header h;
    union wire_any msg;

    while (seen.status == MU_OK) {
        if (n < WIRE_HEADER_BYTES) {
            seen.status = MU_EAGAIN;
            break;
        }
        seen.status = wire_header_decode(p, &h, &fault);
        if (seen.status != MU_OK) {
            break;
        }
        size_t len = WIRE_HEADER_BYTES + (size_t)h.length;

        if (n < len) {
            seen.status = MU_EAGAIN;
            break;
        }
        struct wire_scratch scratch = wire_check_scratch(0);

        seen.status = wire_decode(&h, p + WIRE_HEADER_BYTES, h.length, &msg, &scratch, &fault);
        if (seen.status == MU_OK) {
            note(&seen, &h, &msg);
        }
        p += len;
        n -= len;
    }
    return seen;
}

static struct seen read_in_pieces(const uint8_t *p, size_t n, uint64_t seed)
{
    struct seen seen = {0, MU_EAGAIN};
    struct wire_fault fault = {0};
    struct wire_header h;
    union wire_any msg;
    struct reader r;
    struct prng cuts;
    size_t at = 0;

    reader_init(&r);
    prng_init(&cuts, seed);
    while (seen.status == MU_EAGAIN && at < n) {
        uint8_t *to;
        size_t room;

        mu_assert(reader_room(&r, &to, &room) == MU_OK && room > 0);
        mu_assert(r.cap <= 8192 + 2 * at);
        size_t part = prng_between(&cuts, 1, prng_chance(&cuts, 500000) ? 3 : 5000);

        part = MIN(MIN(part, room), n - at);
        memcpy(to, p + at, part);
        reader_filled(&r, part);
        at += part;
        while ((seen.status = reader_next(&r, &h, &msg, &fault)) == MU_OK) {
            note(&seen, &h, &msg);
        }
    }
    mu_assert(seen.status == MU_EAGAIN || fault.text[0] != '\0');
    reader_close(&r);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) {
        return 0;
    }
    const uint8_t options = *data++;
    uint8_t *stream = wire_check_copy(data, --n);

    if ((options & 1) != 0) {
        wire_check_mend_stream(stream, n);
    }
    struct seen want = expect(stream, n);
    struct seen got = read_in_pieces(stream, n, options);

    /* A count that promises more than follows may find no room before it is found out. */
    mu_assert(want.status == got.status || (want.status == MU_EPROTO && got.status == MU_ELIMIT));
    mu_assert(want.digest == got.digest);
    free(stream);
    return 0;
}
