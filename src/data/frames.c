/* Snappy's framing: a head "sNaPpY", then frames of {u8 type, u24 length, sum, bytes}. Records and
 * frames have nothing to do with each other. */
#include "data/chunk.h"

#include "base/crc32c.h"

#include <inttypes.h>
#include <snappy-c.h>
#include <string.h>

#define NAMED "sNaPpY"
#define HEAD "\xff\x06\x00\x00" NAMED
#define HEAD_BYTES 10
#define FRAME 65536u /* what a frame holds, at most; those of others are believed to be longer */
#define PACKED 0x00
#define PLAIN 0x01
#define NAME 0xff

static uint32_t masked(const uint8_t *p, size_t n)
{
    const uint32_t crc = crc32c(0, p, n);

    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static int damaged(const char *what)
{
    return error_say(MU_ECORRUPT, "frames of snappy in a chunk: %s", what);
}

/* The bytes behind a frame's sum, appended. */
static int unpack_frame(uint8_t type, const uint8_t *p, size_t n, uint64_t max, struct bytes *to)
{
    size_t size;
    int rc;

    if (n < 4) {
        return damaged("one has no sum");
    }
    size = n - 4;
    if (type == PACKED &&
        (snappy_uncompressed_length((const char *)p + 4, n - 4, &size) != SNAPPY_OK ||
         size / 32 > n)) { /* A block expands less than that. */
        return damaged("one tells of no length that can be");
    }
    if (size > max - to->n) {
        return error_say(MU_ELIMIT, "a chunk holds more than %" PRIu64 " bytes", max);
    }
    rc = bytes_room(to, to->n + size + 1);
    if (rc != MU_OK) {
        return rc;
    }
    if (type == PLAIN) {
        memcpy(to->data + to->n, p + 4, size);
    } else if (snappy_uncompress((const char *)p + 4, n - 4, (char *)to->data + to->n, &size) !=
               SNAPPY_OK) {
        return damaged("one can't be uncompressed");
    }
    if (masked(to->data + to->n, size) != le32(p)) {
        return damaged("one is not what was written");
    }
    to->n += size;
    return MU_OK;
}

int frames_unpack(const uint8_t *p, size_t n, uint64_t max, struct bytes *to)
{
    size_t at = HEAD_BYTES;
    int rc = MU_OK;

    if (n < HEAD_BYTES || memcmp(p, HEAD, HEAD_BYTES) != 0) {
        return damaged("they don't begin as such do");
    }
    while (rc == MU_OK && at < n) {
        const uint8_t type = p[at];
        const size_t frame_n = n - at >= 4 ? le32(p + at) >> 8 : 0;

        if (n - at < 4 || frame_n > n - at - 4) {
            return damaged("the last one is cut short");
        }
        at += 4;
        if (type == PACKED || type == PLAIN) {
            rc = unpack_frame(type, p + at, frame_n, max, to);
        } else if (type < 0x80) {
            rc = damaged("there is a kind of them that nobody knows");
        } else if (type == NAME && (frame_n != 6 || memcmp(p + at, NAMED, 6) != 0)) {
            rc = damaged("a second beginning is none");
        }
        at += frame_n;
    }
    return rc;
}

static int pack_frame(const uint8_t *p, size_t n, struct bytes *to)
{
    size_t size = snappy_max_compressed_length(n);
    int rc = bytes_room(to, to->n + 8 + MAX(size, n));
    uint8_t *frame;
    uint32_t crc;

    if (rc != MU_OK) {
        return rc;
    }
    frame = to->data + to->n;
    frame[0] = PACKED;
    if (snappy_compress((const char *)p, n, (char *)frame + 8, &size) != SNAPPY_OK ||
        size >= n - n / 8) {
        frame[0] = PLAIN; /* It isn't worth it. */
        memcpy(frame + 8, p, n);
        size = n;
    }
    crc = masked(p, n);
    for (int i = 0; i < 4; i++) {
        frame[4 + i] = (uint8_t)(crc >> 8 * i);
    }
    for (int i = 0; i < 3; i++) {
        frame[1 + i] = (uint8_t)((size + 4) >> 8 * i);
    }
    to->n += 8 + size;
    return MU_OK;
}

int frames_pack(const uint8_t *p, size_t n, struct bytes *to)
{
    int rc = bytes_room(to, to->n + HEAD_BYTES);

    if (rc == MU_OK) {
        memcpy(to->data + to->n, HEAD, HEAD_BYTES);
        to->n += HEAD_BYTES;
    }
    for (size_t at = 0; rc == MU_OK && at < n; at += FRAME) {
        rc = pack_frame(p + at, MIN(n - at, (size_t)FRAME), to);
    }
    return rc;
}
