/* A checkpoint is read. Chunks go straight to where the caller wants them; a chunk of which only a
 * part is wanted is read once, and kept for who wants the next part of it. While one chunk is read
 * and summed, the kernel reads the next. */
#include "ckpt/load.h"

#include "ckpt/file.h"
#include "ckpt/shard.h"
#include "ckpt/sum.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define PIECE ((size_t)256 << 10) /* summed while the processor still has it near */
#define AHEAD 2                   /* chunks */
#define NONE UINT32_MAX

struct ckpt {
    struct ckpt_manifest m;
    struct path folder;
    uint32_t shard; /* whose file is open; NONE: none is */
    int fd;
    struct sum_state *sum;
    uint32_t held_chunk; /* that `held` has; NONE: none */
    uint8_t *held;       /* these three: room for a chunk, NULL until it is needed */
    uint8_t *packed;
    ZSTD_DCtx *zstd;
};

/* ---- opening ---- */

static int damaged(const struct ckpt *c, uint32_t shard, struct ckpt_why *why, const char *what)
{
    return ckpt_say(why, MU_ECORRUPT, "%s/shard-%04" PRIu32 " %s", c->folder.text, shard, what);
}

static uint64_t shard_bytes(const struct ckpt_manifest *m, uint32_t shard)
{
    uint32_t first, end;

    ckpt_shard_chunks(m->chunks_n, m->shards_n, shard, &first, &end);
    return first < end ? m->chunks[end - 1].at + m->chunks[end - 1].stored : 0;
}

static int check_shards(struct ckpt *c, struct ckpt_why *why)
{
    for (uint32_t i = 0; i < c->m.shards_n; i++) {
        const uint64_t bytes = shard_bytes(&c->m, i);
        struct path p;
        struct stat st;
        int rc = shard_path(&p, c->folder.text, i, "", why);

        if (rc != MU_OK) {
            return rc;
        }
        if (stat(p.text, &st) != 0) {
            return errno == ENOENT ? damaged(c, i, why, "is missing")
                                   : file_failed(why, "read", p.text);
        }
        if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes) {
            return ckpt_say(why, MU_ECORRUPT,
                            "%s is damaged: it has %" PRIu64 " bytes and should have %" PRIu64,
                            p.text, (uint64_t)st.st_size, bytes);
        }
    }
    return MU_OK;
}

static int read_manifest(struct ckpt *c, uint64_t step, struct ckpt_why *why)
{
    struct ckpt_why own = {{0}};
    struct path p;
    char *text;
    size_t n;
    int rc = path_set(&p, why, "%s/manifest", c->folder.text);

    if (rc != MU_OK) {
        return rc;
    }
    rc = file_get(p.text, CKPT_MANIFEST_MAX, &text, &n, why);
    if (rc != MU_OK) { /* The folder is there: what is not in it was lost. */
        return rc == MU_ENOENT || rc == MU_ELIMIT ? MU_ECORRUPT : rc;
    }
    rc = ckpt_manifest_parse(text, n, &c->m, &own);
    free(text);
    if (rc != MU_OK) {
        return ckpt_say(why, rc, "%s: %.300s", p.text, own.text);
    }
    if (c->m.mark.step != step) {
        return ckpt_say(why, MU_ECORRUPT, "%s is that of step %" PRIu64 ": the folder was renamed",
                        p.text, c->m.mark.step);
    }
    return MU_OK;
}

/* Where it is: in its place, or put aside by a commit that did not come to its end. */
static int find_folder(struct ckpt *c, const char *dir, const char *job, uint64_t step,
                       struct ckpt_why *why)
{
    struct stat st;
    int rc = path_step(&c->folder, dir, job, step, why);

    if (rc != MU_OK || stat(c->folder.text, &st) == 0) {
        return rc;
    }
    if (errno != ENOENT) {
        return file_failed(why, "read", c->folder.text);
    }
    rc = path_attempt(&c->folder, dir, job, step, NAME_OLD, why);
    if (rc != MU_OK || stat(c->folder.text, &st) == 0) {
        return rc;
    }
    return ckpt_say(why, MU_ENOENT, "there is no checkpoint of step %" PRIu64 " of job %s in %s",
                    step, job, dir);
}

int ckpt_open(const char *dir, const char *job, uint64_t step, struct ckpt **c_out,
              struct ckpt_why *why)
{
    struct ckpt *c = calloc(1, sizeof(*c));
    int rc;

    if (c == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to open a checkpoint");
    }
    c->fd = -1;
    c->shard = c->held_chunk = NONE;
    c->sum = sum_open();
    rc = c->sum != NULL ? MU_OK : ckpt_say(why, MU_ENOMEM, "no memory to open a checkpoint");
    rc = rc == MU_OK ? find_folder(c, dir, job, step, why) : rc;
    rc = rc == MU_OK ? read_manifest(c, step, why) : rc;
    rc = rc == MU_OK ? check_shards(c, why) : rc;
    if (rc != MU_OK) {
        ckpt_close(c);
        return rc;
    }
    *c_out = c;
    return MU_OK;
}

void ckpt_close(struct ckpt *c)
{
    if (c == NULL) {
        return;
    }
    if (c->fd >= 0) {
        close(c->fd);
    }
    if (c->sum != NULL) {
        sum_close(c->sum);
    }
    ckpt_manifest_free(&c->m);
    ZSTD_freeDCtx(c->zstd);
    free(c->held);
    free(c->packed);
    free(c);
}

const struct ckpt_manifest *ckpt_manifest(const struct ckpt *c)
{
    return &c->m;
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
    if (c->fd >= 0) {
        close(c->fd);
    }
    c->shard = NONE;
    c->fd = open(p.text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0) {
        return errno == ENOENT ? damaged(c, shard, why, "is missing")
                               : file_failed(why, "read", p.text);
    }
    c->shard = shard;
    (void)posix_fadvise(c->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return MU_OK;
}

/* Hints: what comes next, in this shard. */
static void look_ahead(const struct ckpt *c, uint32_t chunk)
{
    const uint32_t next = chunk + AHEAD;

    if (next < c->m.chunks_n && c->m.chunks[next].shard == c->shard) {
        (void)posix_fadvise(c->fd, (off_t)c->m.chunks[next].at, (off_t)c->m.chunks[next].stored,
                            POSIX_FADV_WILLNEED);
    }
}

static int read_stored(struct ckpt *c, uint32_t chunk, uint8_t *to, struct ckpt_why *why)
{
    const struct ckpt_chunk *k = &c->m.chunks[chunk];
    uint8_t sum[CKPT_SUM_BYTES];
    size_t n = 0;
    int rc = open_shard(c, k->shard, why);

    if (rc != MU_OK) {
        return rc;
    }
    look_ahead(c, chunk);
    sum_begin(c->sum);
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
            return damaged(c, k->shard, why, "is damaged: it ends too early");
        }
        sum_add(c->sum, to + n, (size_t)did);
        n += (size_t)did;
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
        rc = damaged(c, k->shard, why, "is damaged: a chunk in it can't be decompressed");
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
    c->held_chunk = NONE;
    rc = ckpt_read_chunk(c, chunk, c->held, why);
    c->held_chunk = rc == MU_OK ? chunk : NONE;
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
        c->held_chunk = NONE; /* What was read before is no proof of what is there. */
        rc = hold(c, i, why);
    }
    return rc;
}
