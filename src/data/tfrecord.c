/* TFRecord: u64 length, its sum, the bytes, their sum; sums are CRC-32C, masked. A file may be
 * packed with gzip or zlib as a whole. */
#include "data/shard.h"

#include "base/crc32c.h"

#include <inttypes.h>

#define HEAD 12
#define TAIL 4

static uint32_t masked(const void *data, size_t n)
{
    const uint32_t crc = crc32c(0, data, n);

    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static bool guess(const struct guess *g)
{
    return g->head_n >= HEAD && masked(g->head, 8) == le32(g->head + 8);
}

static int next(const struct shard *s, struct cursor *c, uint64_t at, bool whole,
                struct extent *out)
{
    const uint64_t left = s->source.size - at;
    const uint8_t *p;
    uint64_t have, n;
    int rc;

    if (at >= s->source.size) {
        return MU_EDONE;
    }
    rc = window_need(&c->window, at, HEAD, &p, &have);
    if (rc != MU_OK) {
        return rc;
    }
    if (left < HEAD + TAIL) {
        return shard_damaged(s, at, "it ends in the middle of a record");
    }
    if (masked(p, 8) != le32(p + 8)) {
        return shard_damaged(s, at,
                             "the length of a record is damaged: what follows can't be found");
    }
    n = le64(p);
    if (n > left - HEAD - TAIL) {
        return shard_damaged(s, at, "it ends in the middle of a record of %" PRIu64 " bytes", n);
    }
    *out = (struct extent){.at = at + HEAD, .n = n, .next = at + HEAD + n + TAIL};
    if (n > s->o->max) {
        return shard_damaged(
            s, at, "a record of %" PRIu64 " bytes is longer than %" PRIu64 " (the option max)", n,
            s->o->max);
    }
    if (!whole) {
        return MU_OK;
    }
    rc = window_need(&c->window, at, HEAD + n + TAIL, &p, &have);
    if (rc == MU_OK && masked(p + HEAD, (size_t)n) != le32(p + HEAD + n)) {
        return shard_damaged(s, at, "a record of %" PRIu64 " bytes is not what was written", n);
    }
    return rc;
}

const struct format format_tfrecord = {.name = "tfrecord",
                                       .zlib = true,
                                       .guess = guess,
                                       .open = walk_open,
                                       .read = walk_read,
                                       .next = next};
