/* Chunks are read one ahead, past the page cache; where that can't be, straight to where the caller
 * wants them. A chunk of which only a part is wanted is read once, and kept for who wants the next
 * part of it. */
#include "ckpt/ahead.h"
#include "ckpt/load.h"
#include "ckpt/shard.h"
#include "ckpt/sum.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define PIECE ((size_t)256 << 10) /* summed while the processor still has it near */

int load_damaged(const struct ckpt *c, uint32_t shard, struct ckpt_why *why, const char *what)
{
    return ckpt_say(why, MU_ECORRUPT, "%s/shard-%04" PRIu32 " %s", c->folder.text, shard, what);
}

/* ---- a chunk as it is stored ---- */

/* One file at a time: there may be more shards than a process may have open. */
static int open_shard(struct ckpt *c, uint32_t shard, struct ckpt_why *why)
{
    struct path p;
    int rc;

    if (c->shard == shard) {
        return MU_OK;
    }
    rc = shard_path(&p, c->folder.text, shard, "", why);
    if (rc != MU_OK) {
        return rc;
    }
    ahead_file(c->ahead, -1);
    if (c->fd >= 0) {
        close(c->fd);
    }
    c->shard = LOAD_NONE;
    c->fd = open(p.text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0) {
        return errno == ENOENT ? load_damaged(c, shard, why, "is missing")
                               : file_failed(why, "read", p.text);
    }
    c->shard = shard;
    (void)posix_fadvise(c->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    if (!c->m.zstd && c->m.chunks_n > 1) { /* Compressed ones lie anywhere. */
        c->ahead = c->ahead != NULL ? c->ahead : ahead_open();
        ahead_file(c->ahead, c->fd);
    }
    return MU_OK;
}

/* The chunk after it, if it is in the same file, is on its way meanwhile. */
static int read_ahead(struct ckpt *c, const struct ckpt_chunk *k, uint8_t *to)
{
    const struct ckpt_chunk *next = k + 1 < c->m.chunks + c->m.chunks_n ? k + 1 : NULL;
    const uint32_t next_n = next != NULL && next->shard == k->shard ? next->stored : 0;
    const uint8_t *data;
    int rc = ahead_read(c->ahead, k->at, k->stored, next_n > 0 ? next->at : 0, next_n, &data);

    for (size_t n = 0; rc == MU_OK && n < k->stored; n += PIECE) {
        const size_t piece = MIN(PIECE, k->stored - n);

        sum_add(c->sum, data + n, piece);
        memcpy(to + n, data + n, piece);
    }
    return rc;
}

static int read_file(struct ckpt *c, const struct ckpt_chunk *k, uint8_t *to, struct ckpt_why *why)
{
    size_t n = 0;
    int rc = open_shard(c, k->shard, why);

    if (rc != MU_OK || read_ahead(c, k, to) == MU_OK) {
        return rc;
    }
    while (n < k->stored) {
        const ssize_t did = pread(c->fd, to + n, MIN(PIECE, k->stored - n), (off_t)(k->at + n));

        if (did < 0 && errno == EINTR) {
            continue;
        }
        if (did < 0) {
            return ckpt_say(why, MU_EIO, "can't read %s/shard-%04" PRIu32 " at %" PRIu64 ": %s",
                            c->folder.text, k->shard, k->at + n, strerror(errno));
        }
        if (did == 0) {
            return load_damaged(c, k->shard, why, "is damaged: it ends too early");
        }
        sum_add(c->sum, to + n, (size_t)did);
        n += (size_t)did;
    }
    return MU_OK;
}

/* All of it at once: a source knows best how it comes. */
static int read_source(struct ckpt *c, const struct ckpt_chunk *k, uint8_t *to,
                       struct ckpt_why *why)
{
    int rc = c->source.read(c->source.arg, k->shard, k->at, k->stored, to, why);

    if (rc == MU_OK) {
        sum_add(c->sum, to, k->stored);
    }
    return rc == MU_ENOENT ? load_damaged(c, k->shard, why, "is missing or ends too early") : rc;
}

static int read_stored(struct ckpt *c, uint32_t chunk, uint8_t *to, struct ckpt_why *why)
{
    const struct ckpt_chunk *k = &c->m.chunks[chunk];
    uint8_t sum[CKPT_SUM_BYTES];
    int rc;

    sum_begin(c->sum);
    rc = c->sourced ? read_source(c, k, to, why) : read_file(c, k, to, why);
    if (rc != MU_OK) {
        return rc;
    }
    sum_end(c->sum, sum);
    if (memcmp(sum, k->sum, sizeof(sum)) != 0) {
        return ckpt_say(why, MU_ECORRUPT,
                        "%s/shard-%04" PRIu32 " is damaged: chunk %" PRIu32 " (%" PRIu32
                        " bytes at %" PRIu64 ") is not what was written",
                        c->folder.text, k->shard, chunk, k->stored, k->at);
    }
    return MU_OK;
}

/* ---- a chunk of the state ---- */

static int read_packed(struct ckpt *c, uint32_t chunk, uint8_t *to, size_t bytes,
                       struct ckpt_why *why)
{
    const struct ckpt_chunk *k = &c->m.chunks[chunk];
    int rc;

    if (c->packed == NULL) {
        c->packed = malloc((size_t)CKPT_CHUNK);
    }
    if (c->zstd == NULL) {
        c->zstd = ZSTD_createDCtx();
    }
    if (c->packed == NULL || c->zstd == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to read a compressed chunk");
    }
    rc = read_stored(c, chunk, c->packed, why);
    if (rc == MU_OK && ZSTD_decompressDCtx(c->zstd, to, bytes, c->packed, k->stored) != bytes) {
        rc = load_damaged(c, k->shard, why, "is damaged: a chunk in it can't be decompressed");
    }
    return rc;
}

int ckpt_read_chunk(struct ckpt *c, uint32_t chunk, uint8_t *to, struct ckpt_why *why)
{
    uint64_t bytes;

    if (chunk >= c->m.chunks_n) {
        return ckpt_say(why, MU_EINVAL, "there is no chunk %" PRIu32 " of %" PRIu32, chunk,
                        c->m.chunks_n);
    }
    bytes = ckpt_chunk_bytes(c->m.bytes, chunk);
    return c->m.chunks[chunk].stored < bytes ? read_packed(c, chunk, to, (size_t)bytes, why)
                                             : read_stored(c, chunk, to, why);
}

static int hold(struct ckpt *c, uint32_t chunk, struct ckpt_why *why)
{
    int rc;

    if (c->held_chunk == chunk) {
        return MU_OK;
    }
    if (c->held == NULL) {
        c->held = malloc((size_t)CKPT_CHUNK);
    }
    if (c->held == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory for a chunk");
    }
    c->held_chunk = LOAD_NONE;
    rc = ckpt_read_chunk(c, chunk, c->held, why);
    c->held_chunk = rc == MU_OK ? chunk : LOAD_NONE;
    return rc;
}

int load_range(struct ckpt *c, uint64_t at, uint64_t n, uint8_t *to, struct ckpt_why *why)
{
    mu_assert(at <= c->m.bytes && n <= c->m.bytes - at);
    while (n > 0) {
        const uint32_t chunk = (uint32_t)(at / CKPT_CHUNK);
        const uint64_t skip = at % CKPT_CHUNK, bytes = ckpt_chunk_bytes(c->m.bytes, chunk);
        const uint64_t take = MIN(bytes - skip, n);
        int rc;

        if (take == bytes && c->held_chunk != chunk) {
            rc = ckpt_read_chunk(c, chunk, to, why);
        } else {
            rc = hold(c, chunk, why);
            if (rc == MU_OK) {
                memcpy(to, c->held + skip, (size_t)take);
            }
        }
        if (rc != MU_OK) {
            return rc;
        }
        at += take;
        to += take;
        n -= take;
    }
    return MU_OK;
}

int ckpt_read_part(struct ckpt *c, uint32_t part, uint8_t *to, struct ckpt_why *why)
{
    uint64_t at = 0;

    if (part >= c->m.parts_n) {
        return ckpt_say(why, MU_EINVAL, "there is no part %" PRIu32 " of %" PRIu32, part,
                        c->m.parts_n);
    }
    for (uint32_t i = 0; i < part; i++) {
        at += c->m.parts[i].bytes;
    }
    return load_range(c, at, c->m.parts[part].bytes, to, why);
}

int ckpt_verify(struct ckpt *c, struct ckpt_why *why)
{
    int rc = MU_OK;

    for (uint32_t i = 0; rc == MU_OK && i < c->m.chunks_n; i++) {
        c->held_chunk = LOAD_NONE; /* What was read before is no proof of what is there. */
        rc = hold(c, i, why);
    }
    return rc;
}
