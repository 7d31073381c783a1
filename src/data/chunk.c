#include "data/chunk.h"

#include "base/crc32c.h"

#include <inttypes.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>

#define EXPANDS_SNAPPY 32 /* more than a block can: 64 bytes from 3 */
#define EXPANDS_GZIP 1100 /* … from gzip: 258 bytes from 2 bits */

int bytes_room(struct bytes *b, size_t n)
{
    const size_t cap = MAX(n, b->cap + b->cap / 2);
    uint8_t *data;

    if (n <= b->cap) {
        return MU_OK;
    }
    data = realloc(b->data, cap);
    if (data == NULL) {
        return error_say(MU_ENOMEM, "no memory for %zu bytes of records", n);
    }
    b->data = data;
    b->cap = cap;
    return MU_OK;
}

bool chunk_parse(enum layout layout, const uint8_t *p, uint64_t left, struct chunk_head *out)
{
    const bool a = layout == LAYOUT_A;
    uint32_t compressor;
    uint64_t most;

    if (left < CHUNK_HEAD || memcmp(p, CHUNK_MAGIC, 4) != 0) {
        return false;
    }
    compressor = a ? le32(p + 8) : le32(p + 12) - 1;
    if (compressor > COMPRESS_GZIP) {
        return false;
    }
    *out = (struct chunk_head){layout, (enum compressor)compressor, le32(p + (a ? 4 : 8)),
                               le32(p + (a ? 12 : 16)), le32(p + (a ? 16 : 4))};
    most = (uint64_t)out->bytes * (compressor == COMPRESS_NONE     ? 1
                                   : compressor == COMPRESS_SNAPPY ? EXPANDS_SNAPPY
                                                                   : EXPANDS_GZIP);
    return out->bytes <= left - CHUNK_HEAD && out->records <= most / 4;
}

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

void chunk_write(const struct chunk_head *head, uint8_t out[CHUNK_HEAD])
{
    memcpy(out, CHUNK_MAGIC, 4);
    put32(out + 4, head->crc);
    put32(out + 8, head->compressor);
    put32(out + 12, head->bytes);
    put32(out + 16, head->records);
}

bool chunk_sum_holds(const struct chunk_head *head, const uint8_t *payload)
{
    return head->crc == (head->layout == LAYOUT_A ? (uint32_t)crc32(0, payload, head->bytes)
                                                  : crc32c(0, payload, head->bytes));
}

static int unpack_gzip(const uint8_t *p, size_t n, uint64_t max, struct bytes *to)
{
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)p, .avail_in = (unsigned)n};
    int rc = bytes_room(to, n * 2 + 64), z_rc = Z_OK;

    if (rc == MU_OK && inflateInit2(&z, 15 + 32) != Z_OK) { /* gzip, or (in B) zlib */
        return error_say(MU_ENOMEM, "no memory to inflate");
    }
    while (rc == MU_OK) {
        if (to->n == to->cap) {
            rc = to->n >= max
                     ? error_say(MU_ELIMIT, "a chunk holds more than %" PRIu64 " bytes", max)
                     : bytes_room(to, to->n + 1);
            continue;
        }
        z.next_out = to->data + to->n;
        z.avail_out = (unsigned)MIN(to->cap - to->n, (size_t)1 << 30);
        z_rc = inflate(&z, Z_NO_FLUSH);
        to->n = (size_t)(z.next_out - to->data);
        if (z_rc == Z_STREAM_END && z.avail_in > 0) { /* One member after another. */
            z_rc = inflateReset(&z);
        } else if (z_rc == Z_STREAM_END) {
            break;
        }
        if (z_rc != Z_OK) {
            rc = z_rc == Z_MEM_ERROR
                     ? error_say(MU_ENOMEM, "no memory to inflate")
                     : error_say(MU_ECORRUPT, "what is compressed in a chunk can't be inflated");
        }
    }
    inflateEnd(&z);
    return rc;
}

static int unpack_block(const uint8_t *p, size_t n, uint64_t max, struct bytes *to)
{
    size_t size;
    int rc;

    if (snappy_uncompressed_length((const char *)p, n, &size) != SNAPPY_OK ||
        size / EXPANDS_SNAPPY > n) {
        return error_say(MU_ECORRUPT, "what is compressed in a chunk is no block of snappy");
    }
    if (size > max) {
        return error_say(MU_ELIMIT, "a chunk holds %zu bytes, more than %" PRIu64, size, max);
    }
    rc = bytes_room(to, size + 1);
    if (rc == MU_OK &&
        snappy_uncompress((const char *)p, n, (char *)to->data, &size) != SNAPPY_OK) {
        rc = error_say(MU_ECORRUPT, "what is compressed in a chunk can't be uncompressed");
    }
    to->n = rc == MU_OK ? size : 0;
    return rc;
}

int chunk_unpack(const struct chunk_head *head, const uint8_t *payload, uint64_t max,
                 struct bytes *to, const uint8_t **data_out, size_t *n_out)
{
    int rc = MU_OK;

    *data_out = payload;
    *n_out = head->bytes;
    if (head->compressor == COMPRESS_NONE || head->bytes == 0) {
        return MU_OK;
    }
    to->n = 0;
    if (head->compressor == COMPRESS_GZIP) {
        rc = unpack_gzip(payload, head->bytes, max, to);
    } else if (head->layout == LAYOUT_A) {
        rc = frames_unpack(payload, head->bytes, max, to);
    } else {
        rc = unpack_block(payload, head->bytes, max, to);
    }
    *data_out = to->data;
    *n_out = to->n;
    return rc;
}

bool chunk_holds(const uint8_t *data, size_t n, uint32_t records)
{
    size_t at = 0;

    for (; records > 0; records--) {
        if (n - at < 4 || le32(data + at) > n - at - 4) {
            return false;
        }
        at += 4 + (size_t)le32(data + at);
    }
    return at == n;
}
