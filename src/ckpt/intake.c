/* A checkpoint that comes over a connection. In the attempt's folder, whose tag no writer of a
 * folder has:
 *
 *   shard-0000          the chunks that have come, one after another
 *   shard-0000.taken    a record for each, written after its bytes: u32 stored, the sum;
 * little-endian
 *
 * Nothing is brought to the disk before the commit, so a record promises nothing: when an intake is
 * taken up again every chunk is read and held against its record, and the first that does not hold
 * goes with all after it. */
#include "ckpt/place.h"
#include "ckpt/remove.h"
#include "ckpt/shard.h"
#include "ckpt/sum.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG "intake"
#define SHARD_TAKEN ".taken"
#define RECORD_BYTES (4 + CKPT_SUM_BYTES)

struct taken {
    uint64_t at;
    uint32_t stored;
    uint8_t sum[CKPT_SUM_BYTES];
};

struct ckpt_intake {
    char dir[CKPT_PATH_MAX];
    char job[MU_NAME_MAX];
    uint64_t step;
    uint64_t bytes_max;
    struct path folder, shard, records;
    int fd, records_fd;
    struct sum_state *sum;
    struct taken *chunks;
    uint32_t n, cap;
};

/* ---- chunks that are there ---- */

static uint64_t end_of(const struct ckpt_intake *i, uint32_t n)
{
    return n > 0 ? i->chunks[n - 1].at + i->chunks[n - 1].stored : 0;
}

static int grow(struct ckpt_intake *i, struct ckpt_why *why)
{
    const uint32_t cap = MAX(2 * i->cap, 64);
    struct taken *chunks;

    if (i->n < i->cap) {
        return MU_OK;
    }
    chunks = realloc(i->chunks, cap * sizeof(*chunks));
    if (chunks == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory for the sums of %s", i->shard.text);
    }
    i->chunks = chunks;
    i->cap = cap;
    return MU_OK;
}

/* Only the first n stay. The records go first: one without its chunk would be found out, but it
 * costs a read. */
static int keep(struct ckpt_intake *i, uint32_t n, struct ckpt_why *why)
{
    if (file_truncate(i->records_fd, (uint64_t)n * RECORD_BYTES) != 0) {
        return file_failed(why, "cut", i->records.text);
    }
    if (file_truncate(i->fd, end_of(i, n)) != 0) {
        return file_failed(why, "cut", i->shard.text);
    }
    i->n = n;
    return MU_OK;
}

/* ---- what an earlier one has left ---- */

/* As pread(), but less than n only at the file's end. */
static ssize_t read_at(int fd, uint8_t *to, size_t n, uint64_t at)
{
    size_t got = 0;

    while (got < n) {
        const ssize_t did = pread(fd, to + got, n - got, (off_t)(at + got));

        if (did < 0 && errno == EINTR) {
            continue;
        }
        if (did <= 0) {
            return did < 0 ? -1 : (ssize_t)got;
        }
        got += (size_t)did;
    }
    return (ssize_t)got;
}

static bool record_holds(const struct ckpt_intake *i, const struct taken *t)
{
    return t->stored > 0 && t->stored <= CKPT_CHUNK && t->at + t->stored <= i->bytes_max &&
           i->n < CKPT_CHUNKS_MAX;
}

/* MU_ENOENT: there is no further chunk that holds. */
static int take_up_one(struct ckpt_intake *i, uint8_t *room, struct ckpt_why *why)
{
    struct taken t = {.at = end_of(i, i->n)};
    uint8_t record[RECORD_BYTES], sum[CKPT_SUM_BYTES];
    ssize_t n = read_at(i->records_fd, record, sizeof(record), (uint64_t)i->n * RECORD_BYTES);
    int rc;

    if (n < 0) {
        return file_failed(why, "read", i->records.text);
    }
    t.stored = (uint32_t)record[0] | (uint32_t)record[1] << 8 | (uint32_t)record[2] << 16 |
               (uint32_t)record[3] << 24;
    memcpy(t.sum, record + 4, sizeof(t.sum));
    if (n != RECORD_BYTES || !record_holds(i, &t)) {
        return MU_ENOENT;
    }
    n = read_at(i->fd, room, t.stored, t.at);
    if (n < 0) {
        return file_failed(why, "read", i->shard.text);
    }
    sum_of(room, (size_t)n, sum);
    if (n != (ssize_t)t.stored || memcmp(sum, t.sum, sizeof(sum)) != 0) {
        return MU_ENOENT;
    }
    rc = grow(i, why);
    if (rc == MU_OK) {
        i->chunks[i->n++] = t;
    }
    return rc;
}

static int take_up(struct ckpt_intake *i, struct ckpt_why *why)
{
    uint8_t *room = malloc((size_t)CKPT_CHUNK);
    int rc = MU_OK;

    if (room == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to read %s", i->shard.text);
    }
    while (rc == MU_OK) {
        rc = take_up_one(i, room, why);
    }
    free(room);
    return rc == MU_ENOENT ? keep(i, i->n, why) : rc;
}

/* ---- beginning and end ---- */

/* Those for other steps: one putter at a time, and this is the newest. */
static int sweep(const char *job_folder, uint64_t but, struct ckpt_why *why)
{
    DIR *d = opendir(job_folder);
    int rc = MU_OK;

    if (d == NULL) {
        return errno == ENOENT ? MU_OK : file_failed(why, "read the folder", job_folder);
    }
    for (struct dirent *e = readdir(d); e != NULL && rc == MU_OK; e = readdir(d)) {
        const char *tag;
        struct path p;
        uint64_t step;

        if (name_is_attempt(e->d_name, &step, &tag) && strcmp(tag, TAG) == 0 && step != but) {
            rc = path_set(&p, why, "%s/%s", job_folder, e->d_name);
            rc = rc == MU_OK ? remove_folder(p.text, why) : rc;
        }
    }
    closedir(d);
    return rc;
}

int ckpt_intake_forget(const char *dir, const char *job, struct ckpt_why *why)
{
    struct path p;
    int rc = path_job(&p, dir, job, why);

    return rc == MU_OK ? sweep(p.text, 0, why) : rc; /* No step is 0. */
}

static int open_files(struct ckpt_intake *i, struct ckpt_why *why)
{
    int rc = file_mkdir(i->folder.text, why);

    rc = rc == MU_OK ? shard_path(&i->shard, i->folder.text, 0, "", why) : rc;
    rc = rc == MU_OK ? shard_path(&i->records, i->folder.text, 0, SHARD_TAKEN, why) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    i->fd = file_open(i->shard.text);
    if (i->fd < 0) {
        return file_failed(why, "open", i->shard.text);
    }
    i->records_fd = file_open(i->records.text);
    return i->records_fd >= 0 ? MU_OK : file_failed(why, "open", i->records.text);
}

static int begin(struct ckpt_intake *i, struct ckpt_why *why)
{
    struct path job;
    int rc = path_job(&job, i->dir, i->job, why);

    rc = rc == MU_OK ? path_attempt(&i->folder, i->dir, i->job, i->step, TAG, why) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    i->sum = sum_open();
    if (i->sum == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to take in a checkpoint");
    }
    rc = file_mkdirs(job.text, why);
    rc = rc == MU_OK ? sweep(job.text, i->step, why) : rc;
    rc = rc == MU_OK ? open_files(i, why) : rc;
    return rc == MU_OK ? take_up(i, why) : rc;
}

int ckpt_intake_open(const char *dir, const char *job, uint64_t step, uint64_t bytes,
                     struct ckpt_intake **i_out, struct ckpt_why *why)
{
    struct ckpt_intake *i;
    struct path p;
    int rc = path_job(&p, dir, job, why); /* Both names are short enough to be kept. */

    if (rc != MU_OK) {
        return rc;
    }
    if (step == 0 || bytes > CKPT_CHUNKS_MAX * CKPT_CHUNK) {
        return ckpt_say(why, MU_EINVAL,
                        "a checkpoint is of step 1 or later and of at most %" PRIu64
                        " bytes, not of step %" PRIu64 " and %" PRIu64 " bytes",
                        CKPT_CHUNKS_MAX * CKPT_CHUNK, step, bytes);
    }
    i = calloc(1, sizeof(*i));
    if (i == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to take in a checkpoint");
    }
    i->fd = i->records_fd = -1;
    i->step = step;
    i->bytes_max = bytes;
    strcpy(i->dir, dir);
    strcpy(i->job, job);
    rc = begin(i, why);
    if (rc != MU_OK) {
        ckpt_intake_close(i);
        return rc;
    }
    *i_out = i;
    return MU_OK;
}

void ckpt_intake_close(struct ckpt_intake *i)
{
    if (i == NULL) {
        return;
    }
    if (i->fd >= 0) {
        close(i->fd);
    }
    if (i->records_fd >= 0) {
        close(i->records_fd);
    }
    if (i->sum != NULL) {
        sum_close(i->sum);
    }
    free(i->chunks);
    free(i);
}

uint32_t ckpt_intake_has(const struct ckpt_intake *i, uint8_t sum_out[CKPT_SUM_BYTES])
{
    sum_begin(i->sum);
    for (uint32_t k = 0; k < i->n; k++) {
        sum_add(i->sum, i->chunks[k].sum, CKPT_SUM_BYTES);
    }
    sum_end(i->sum, sum_out);
    return i->n;
}

/* ---- a chunk comes ---- */

static int write_at(int fd, const char *path, uint64_t at, const void *data, size_t n,
                    struct ckpt_why *why)
{
    if (lseek(fd, (off_t)at, SEEK_SET) < 0 || file_write(fd, data, n) != 0) {
        return file_failed(why, "write", path);
    }
    return MU_OK;
}

static int append(struct ckpt_intake *i, const struct taken *t, const uint8_t *data,
                  struct ckpt_why *why)
{
    uint8_t record[RECORD_BYTES] = {(uint8_t)t->stored, (uint8_t)(t->stored >> 8),
                                    (uint8_t)(t->stored >> 16), (uint8_t)(t->stored >> 24)};
    int rc = write_at(i->fd, i->shard.text, t->at, data, t->stored, why);

    if (rc == MU_OK) {
        /* A hint: what is lost by its failure is time. */
        (void)sync_file_range(i->fd, (off_t)t->at, (off_t)t->stored, SYNC_FILE_RANGE_WRITE);
        memcpy(record + 4, t->sum, sizeof(t->sum));
        rc = write_at(i->records_fd, i->records.text, (uint64_t)i->n * RECORD_BYTES, record,
                      sizeof(record), why);
    }
    if (rc == MU_OK) {
        i->chunks[i->n++] = *t;
    } else { /* Half of it takes room, if no more: the disk may be full. */
        (void)keep(i, i->n, NULL);
    }
    return rc;
}

int ckpt_intake_put(struct ckpt_intake *i, uint32_t chunk, const uint8_t *data, uint32_t stored,
                    const uint8_t sum[CKPT_SUM_BYTES], struct ckpt_why *why)
{
    struct taken t = {.stored = stored};
    int rc;

    if (chunk > i->n || chunk >= CKPT_CHUNKS_MAX) {
        return ckpt_say(why, MU_EINVAL, "chunk %" PRIu32 " has come, and chunk %" PRIu32 " is next",
                        chunk, i->n);
    }
    t.at = end_of(i, chunk);
    if (stored == 0 || stored > CKPT_CHUNK || t.at + stored > i->bytes_max) {
        return ckpt_say(why, MU_ELIMIT,
                        "chunk %" PRIu32 " of %" PRIu32 " bytes is none: a chunk has 1 to %" PRIu64
                        ", and all of them no more than %" PRIu64,
                        chunk, stored, CKPT_CHUNK, i->bytes_max);
    }
    sum_of(data, stored, t.sum);
    if (memcmp(t.sum, sum, sizeof(t.sum)) != 0) {
        return ckpt_say(why, MU_ECORRUPT, "chunk %" PRIu32 " was damaged on its way", chunk);
    }
    rc = chunk < i->n ? keep(i, chunk, why) : MU_OK;
    rc = rc == MU_OK ? grow(i, why) : rc;
    return rc == MU_OK ? append(i, &t, data, why) : rc;
}

/* ---- all have come ---- */

static bool is_of_these(const struct ckpt_intake *i, const struct ckpt_manifest *m)
{
    bool same = m->shards_n == 1 && m->chunks_n == i->n && m->mark.step == i->step &&
                strcmp(m->mark.job, i->job) == 0;

    for (uint32_t k = 0; same && k < i->n; k++) {
        same = m->chunks[k].shard == 0 && m->chunks[k].at == i->chunks[k].at &&
               m->chunks[k].stored == i->chunks[k].stored &&
               memcmp(m->chunks[k].sum, i->chunks[k].sum, CKPT_SUM_BYTES) == 0;
    }
    return same;
}

/* All that is in the folder is what will be in the checkpoint, and on the disk. */
static int complete(struct ckpt_intake *i, const char *manifest, size_t n, struct ckpt_why *why)
{
    struct path p;
    int rc = path_set(&p, why, "%s/manifest", i->folder.text);

    if (rc == MU_OK && file_truncate(i->fd, end_of(i, i->n)) != 0) {
        rc = file_failed(why, "cut", i->shard.text);
    }
    if (rc == MU_OK && file_sync(i->fd) != 0) {
        rc = file_failed(why, "bring to the disk", i->shard.text);
        (void)keep(i, 0, NULL); /* What was not written may pass for written from now on. */
    }
    rc = rc == MU_OK ? file_put(p.text, manifest, n, true, why) : rc;
    if (rc == MU_OK && file_unlink(AT_FDCWD, i->records.text, false) != 0 && errno != ENOENT) {
        rc = file_failed(why, "take away", i->records.text);
    }
    return rc == MU_OK ? file_sync_folder(i->folder.text, why) : rc;
}

int ckpt_intake_commit(struct ckpt_intake *i, const char *manifest, size_t n, struct ckpt_why *why)
{
    struct ckpt_manifest m;
    int rc = ckpt_manifest_parse(manifest, n, &m, why);

    if (rc != MU_OK) {
        return rc;
    }
    if (!is_of_these(i, &m)) {
        rc = ckpt_say(why, MU_ECORRUPT,
                      "the manifest is not of the %" PRIu32 " chunks of step %" PRIu64
                      " of job %s that have come",
                      i->n, i->step, i->job);
    }
    rc = rc == MU_OK ? complete(i, manifest, n, why) : rc;
    rc = rc == MU_OK ? place_take(i->dir, &m, i->folder.text, why) : rc;
    ckpt_manifest_free(&m);
    return rc;
}
