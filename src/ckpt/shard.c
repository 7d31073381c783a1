/* A shard is written: whole chunks straight from the caller's memory (or compressed, one at a
 * time), each on its way to the disk while the next is summed, so that little is left for the fsync
 * at the end. */
#include "ckpt/shard.h"

#include "base/hook.h"
#include "ckpt/sums.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

struct writer {
    const struct ckpt_target *t;
    struct path path;
    int fd;
    bool direct; /* past the page cache */
    uint64_t at;
    struct ckpt_packer *packer;
    struct ckpt_chunk *chunks;
};

int shard_path(struct path *p, const char *folder, uint32_t shard, const char *end,
               struct ckpt_why *why)
{
    return path_set(p, why, "%s/shard-%04" PRIu32 "%s", folder, shard, end);
}

/* ---- memory and the file ---- */

static void writer_close(struct writer *w)
{
    if (w->fd >= 0) {
        close(w->fd);
    }
    ckpt_pack_free(w->packer);
    free(w->chunks);
}

static int no_memory(const struct writer *w, struct ckpt_why *why)
{
    return ckpt_say(why, MU_ENOMEM, "no memory to write %s", w->path.text);
}

static int writer_memory(struct writer *w, uint32_t chunks_n, struct ckpt_why *why)
{
    w->chunks = calloc(MAX(chunks_n, 1), sizeof(*w->chunks));
    return w->chunks != NULL ? MU_OK : no_memory(w, why);
}

/* Opens the file with all its room, if that can be known: a full disk is found before the work. */
static int writer_file(struct writer *w, uint64_t bytes, struct ckpt_why *why)
{
    w->fd = file_create(w->path.text);
    if (w->fd < 0) {
        return file_failed(why, "make", w->path.text);
    }
    if (!w->t->zstd && bytes > 0) {
        HOOK();
        if (fallocate(w->fd, 0, 0, (off_t)bytes) != 0 && (errno == ENOSPC || errno == EDQUOT)) {
            return file_failed(why, "write", w->path.text);
        }
    }
    return MU_OK;
}

/* ---- chunks ---- */

/* Past the page cache as far as whole pages go: training needs the memory, and the time that new
 * pages take. A file system that can't says EINVAL. */
static int put_bytes(struct writer *w, const uint8_t *data, size_t n)
{
    const size_t pages = n / FILE_PAGE * FILE_PAGE;

    if (w->direct && file_write(w->fd, data, pages) == 0) {
        data += pages;
        n -= pages;
    } else if (w->direct && errno != EINVAL) {
        return -1;
    }
    if (n > 0 && w->direct) {
        w->direct = false; /* It is the last chunk, or not possible. */
        (void)file_direct(w->fd, false);
    }
    return n > 0 ? file_write(w->fd, data, n) : 0;
}

static int write_chunk(struct writer *w, const uint8_t *data, size_t n, struct ckpt_chunk *c,
                       struct ckpt_why *why)
{
    const uint8_t *stored;

    if (ckpt_pack(&w->packer, data, n, w->t->zstd, &stored, &c->stored, c->sum) != MU_OK) {
        return no_memory(w, why);
    }
    c->at = w->at;
    if (put_bytes(w, stored, c->stored) != 0) {
        return file_failed(why, "write", w->path.text);
    }
    if (!w->direct) { /* A hint: what is lost by its failure is time. */
        (void)sync_file_range(w->fd, (off_t)w->at, (off_t)c->stored, SYNC_FILE_RANGE_WRITE);
    }
    w->at += c->stored;
    return MU_OK;
}

static int write_chunks(struct writer *w, uint32_t first, uint32_t end, const uint8_t *data,
                        const _Atomic bool *cancel, struct ckpt_why *why)
{
    for (uint32_t i = first; i < end; i++) {
        const uint64_t n = ckpt_chunk_bytes(w->t->bytes, i);
        int rc;

        if (cancel != NULL && *cancel) {
            return ckpt_say(why, MU_EDONE, "writing %s was called off", w->path.text);
        }
        rc = write_chunk(w, data, (size_t)n, &w->chunks[i - first], why);
        if (rc != MU_OK) {
            return rc;
        }
        data += n;
    }
    return MU_OK;
}

static int finish(struct writer *w, struct ckpt_why *why)
{
    int rc = MU_OK;

    if (file_sync(w->fd) != 0) {
        rc = file_failed(why, "bring to the disk", w->path.text);
    }
    if (close(w->fd) != 0 && rc == MU_OK) {
        rc = file_failed(why, "write", w->path.text);
    }
    w->fd = -1;
    return rc;
}

/* What a process before this one has told, in an attempt of the same name that it did not live to
 * end, is not true any more. */
static int forget(const char *folder, uint32_t shard, struct ckpt_why *why)
{
    struct path p;
    int rc = shard_path(&p, folder, shard, SHARD_SUMS, why);

    if (rc == MU_OK && file_unlink(AT_FDCWD, p.text, false) != 0 && errno != ENOENT) {
        rc = file_failed(why, "take away", p.text);
    }
    return rc;
}

static int write_shard(const struct ckpt_target *t, const char *folder, uint32_t shard,
                       const uint8_t *data, const _Atomic bool *cancel, struct ckpt_why *why)
{
    const uint32_t chunks_n = ckpt_chunks(t->bytes);
    struct writer w = {.t = t, .fd = -1};
    uint32_t first, end;
    int rc = shard_path(&w.path, folder, shard, "", why);

    ckpt_shard_chunks(chunks_n, t->shards_n, shard, &first, &end);
    if (rc == MU_OK) {
        rc = writer_memory(&w, end - first, why);
    }
    if (rc == MU_OK) {
        const uint64_t upto = end == chunks_n ? t->bytes : end * CKPT_CHUNK;

        rc = writer_file(&w, upto - MIN(first * CKPT_CHUNK, upto), why);
    }
    if (rc == MU_OK) {
        w.direct = !t->zstd && (uintptr_t)data % FILE_PAGE == 0 && file_direct(w.fd, true);
        rc = write_chunks(&w, first, end, data, cancel, why);
    }
    if (rc == MU_OK) {
        rc = finish(&w, why);
    }
    if (rc == MU_OK) {
        rc = sums_write(t, folder, shard, w.chunks, end - first, why);
    }
    if (rc != MU_OK && w.path.text[0] != '\0') {
        (void)file_unlink(AT_FDCWD, w.path.text, false);
    }
    writer_close(&w);
    return rc;
}

/* The job's is on the disk from now on; the attempt's need not be before it is committed. */
static int make_folders(const struct ckpt_target *t, const char *folder, struct ckpt_why *why)
{
    struct path job;
    int rc = path_job(&job, t->dir, t->job, why);

    rc = rc == MU_OK ? file_mkdirs(job.text, why) : rc;
    return rc == MU_OK ? file_mkdir(folder, why) : rc;
}

int ckpt_write_shard(const struct ckpt_target *t, uint32_t shard, const uint8_t *data,
                     const _Atomic bool *cancel, struct ckpt_why *why)
{
    struct path folder;
    int rc = path_target(&folder, t, why);

    if (rc == MU_OK && shard >= t->shards_n) {
        rc = ckpt_say(why, MU_EINVAL, "there is no shard %" PRIu32 " of %" PRIu32, shard,
                      t->shards_n);
    }
    rc = rc == MU_OK ? make_folders(t, folder.text, why) : rc;
    rc = rc == MU_OK ? forget(folder.text, shard, why) : rc;
    return rc == MU_OK ? write_shard(t, folder.text, shard, data, cancel, why) : rc;
}
