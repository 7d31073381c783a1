#include "unit/ckpt/ckpt_kit.h"

#include "base/prng.h"
#include "ckpt/sum.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- life ---- */

static void set_parts(struct ckpt_kit *k, bool large)
{
    const uint64_t long_one = large ? 3 * CKPT_CHUNK + 70001 : CKPT_CHUNK - 5000;
    const struct ckpt_part parts[KIT_PARTS] = {{"bias", 1000},
                                               {"model/weights", long_one},
                                               {"nothing", 0},
                                               {"optimizer.m", 50021},
                                               {"rng", 16}};

    memcpy(k->parts, parts, sizeof(parts));
    k->bytes = 0;
    for (int i = 0; i < KIT_PARTS; i++) {
        k->bytes += parts[i].bytes;
    }
}

void ckpt_kit_open_in(struct ckpt_kit *k, const char *folder, bool large)
{
    snprintf(k->dir, sizeof(k->dir), "%s/ckpt-test-XXXXXX", folder);
    mu_assert(mkdtemp(k->dir) != NULL);
    set_parts(k, large);
    /* As a saver's: then it is written past the page cache. */
    mu_assert(posix_memalign((void **)&k->state, 4096, (size_t)k->bytes) == 0);
    ckpt_kit_fill(k, 1);
}

void ckpt_kit_open(struct ckpt_kit *k, bool large)
{
    const char *tmp = getenv("TMPDIR");

    ckpt_kit_open_in(k, tmp != NULL ? tmp : "/tmp", large);
}

void ckpt_kit_open_fast(struct ckpt_kit *k)
{
    if (access("/dev/shm", W_OK) == 0) {
        ckpt_kit_open_in(k, "/dev/shm", false);
    } else {
        ckpt_kit_open(k, false);
    }
}

static int wipe_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

void ckpt_kit_wipe(const char *path)
{
    (void)nftw(path, wipe_one, 16, FTW_DEPTH | FTW_PHYS);
}

void ckpt_kit_close(struct ckpt_kit *k)
{
    ckpt_kit_wipe(k->dir);
    free(k->state);
    k->state = NULL;
}

/* ---- saving ---- */

void ckpt_kit_fill(struct ckpt_kit *k, uint64_t seed)
{
    for (uint64_t i = 0; i < k->bytes; i += 8) {
        const uint64_t word = prng_mix(seed * 1000003 + i);

        memcpy(k->state + i, &word, (size_t)MIN(8, k->bytes - i));
    }
}

struct ckpt_target ckpt_kit_target(const struct ckpt_kit *k, uint64_t step, const char *tag,
                                   uint32_t shards_n)
{
    return (struct ckpt_target){.dir = k->dir,
                                .job = KIT_JOB,
                                .step = step,
                                .tag = tag,
                                .shards_n = shards_n,
                                .bytes = k->bytes};
}

struct ckpt_mark ckpt_kit_mark(uint64_t step)
{
    return (struct ckpt_mark){.job = KIT_JOB,
                              .run = 1,
                              .generation = 3,
                              .step = step,
                              .epoch = 2,
                              .samples = step * 32,
                              .seed = 7,
                              .data_n = 60000,
                              .batch = 32,
                              .slices = 8,
                              .saved_ms = 1700000000000};
}

const uint8_t *ckpt_kit_data(const struct ckpt_kit *k, const struct ckpt_target *t, uint32_t shard)
{
    uint32_t first, end;

    ckpt_shard_chunks(ckpt_chunks(t->bytes), t->shards_n, shard, &first, &end);
    return k->state + first * CKPT_CHUNK;
}

int ckpt_kit_save(const struct ckpt_kit *k, const struct ckpt_target *t, struct ckpt_why *why)
{
    const struct ckpt_mark mark = ckpt_kit_mark(t->step);
    int rc = MU_OK;

    for (uint32_t i = 0; rc == MU_OK && i < t->shards_n; i++) {
        rc = ckpt_write_shard(t, i, ckpt_kit_data(k, t, i), NULL, why);
    }
    return rc == MU_OK ? ckpt_commit(t, &mark, k->parts, KIT_PARTS, why) : rc;
}

/* ---- by intake ---- */

static struct ckpt_chunk chunk_of(const struct ckpt_kit *k, uint32_t chunk)
{
    struct ckpt_chunk c = {.at = chunk * CKPT_CHUNK,
                           .stored = (uint32_t)ckpt_chunk_bytes(k->bytes, chunk)};

    sum_of(k->state + c.at, c.stored, c.sum);
    return c;
}

int ckpt_kit_put(const struct ckpt_kit *k, struct ckpt_intake *i, uint32_t chunk,
                 struct ckpt_why *why)
{
    const struct ckpt_chunk c = chunk_of(k, chunk);

    return ckpt_intake_put(i, chunk, k->state + c.at, c.stored, c.sum, why);
}

void ckpt_kit_manifest_of(const struct ckpt_kit *k, const char *job, uint64_t step, char **text_out,
                          size_t *n_out)
{
    struct ckpt_chunk chunks[8];
    struct ckpt_part parts[KIT_PARTS];
    struct ckpt_manifest m = {.version = "0.0.0",
                              .mark = ckpt_kit_mark(step),
                              .parts = parts,
                              .parts_n = KIT_PARTS,
                              .bytes = k->bytes,
                              .shards_n = 1,
                              .chunks = chunks,
                              .chunks_n = ckpt_chunks(k->bytes)};

    mu_assert(m.chunks_n <= ARRAY_LEN(chunks));
    snprintf(m.mark.job, sizeof(m.mark.job), "%s", job);
    memcpy(parts, k->parts, sizeof(parts));
    for (uint32_t i = 0; i < m.chunks_n; i++) {
        chunks[i] = chunk_of(k, i);
    }
    mu_assert(ckpt_manifest_write(&m, text_out, n_out) == MU_OK);
}

void ckpt_kit_manifest(const struct ckpt_kit *k, uint64_t step, char **text_out, size_t *n_out)
{
    ckpt_kit_manifest_of(k, KIT_JOB, step, text_out, n_out);
}

uint32_t ckpt_kit_has(const struct ckpt_kit *k, const struct ckpt_intake *i)
{
    uint8_t theirs[CKPT_SUM_BYTES], ours[CKPT_SUM_BYTES], sums[8 * CKPT_SUM_BYTES];
    const uint32_t n = ckpt_intake_has(i, theirs);

    if (n > ckpt_chunks(k->bytes)) {
        return 0;
    }
    for (uint32_t c = 0; c < n; c++) {
        memcpy(sums + c * CKPT_SUM_BYTES, chunk_of(k, c).sum, CKPT_SUM_BYTES);
    }
    sum_of(sums, n * CKPT_SUM_BYTES, ours);
    return memcmp(ours, theirs, sizeof(ours)) == 0 ? n : 0;
}

int ckpt_kit_take_in(const struct ckpt_kit *k, uint64_t step, uint32_t *had_out,
                     struct ckpt_why *why)
{
    struct ckpt_intake *i = NULL;
    char *text = NULL;
    size_t n = 0;
    uint32_t chunk;
    int rc = ckpt_intake_open(k->dir, KIT_JOB, step, k->bytes, &i, why);

    if (rc != MU_OK) {
        return rc;
    }
    chunk = ckpt_kit_has(k, i);
    if (had_out != NULL) {
        *had_out = chunk;
    }
    for (; rc == MU_OK && chunk < ckpt_chunks(k->bytes); chunk++) {
        rc = ckpt_kit_put(k, i, chunk, why);
    }
    if (rc == MU_OK) {
        ckpt_kit_manifest(k, step, &text, &n);
        rc = ckpt_intake_commit(i, text, n, why);
        free(text);
    }
    ckpt_intake_close(i);
    return rc;
}

/* ---- loading ---- */

static int read_chunks(struct ckpt *c, uint8_t *to, struct ckpt_why *why)
{
    int rc = MU_OK;

    for (uint32_t i = 0; rc == MU_OK && i < ckpt_manifest(c)->chunks_n; i++) {
        rc = ckpt_read_chunk(c, i, to + i * CKPT_CHUNK, why);
    }
    return rc;
}

static int read_parts(struct ckpt *c, uint8_t *to, struct ckpt_why *why)
{
    int rc = MU_OK;

    for (uint32_t i = 0; rc == MU_OK && i < ckpt_manifest(c)->parts_n; i++) {
        rc = ckpt_read_part(c, i, to, why);
        to += ckpt_manifest(c)->parts[i].bytes;
    }
    return rc;
}

int ckpt_kit_load(const struct ckpt_kit *k, uint64_t step, struct ckpt_why *why)
{
    int (*const reads[])(struct ckpt *, uint8_t *, struct ckpt_why *) = {read_parts, read_chunks};
    uint8_t *got = malloc((size_t)k->bytes);
    struct ckpt *c = NULL;
    int rc = ckpt_open(k->dir, KIT_JOB, step, &c, why);

    mu_assert(got != NULL);
    for (int i = 0; rc == MU_OK && i < 2; i++) {
        memset(got, 0xee, (size_t)k->bytes);
        if (ckpt_manifest(c)->bytes != k->bytes) {
            rc = MU_EDONE;
            break;
        }
        rc = reads[i](c, got, why);
        if (rc == MU_OK && memcmp(got, k->state, (size_t)k->bytes) != 0) {
            rc = MU_EDONE;
        }
    }
    ckpt_close(c);
    free(got);
    return rc;
}

uint64_t ckpt_kit_newest(const struct ckpt_kit *k)
{
    struct ckpt_entry *entries = NULL;
    uint64_t found = 0;
    uint32_t n = 0;

    mu_assert(ckpt_list(k->dir, KIT_JOB, &entries, &n, NULL) == MU_OK);
    for (uint32_t i = 0; found == 0 && i < n; i++) {
        struct ckpt *c;

        if (ckpt_open(k->dir, KIT_JOB, entries[i].step, &c, NULL) == MU_OK) {
            found = ckpt_verify(c, NULL) == MU_OK ? entries[i].step : 0;
            ckpt_close(c);
        }
    }
    free(entries);
    return found;
}

uint32_t ckpt_kit_count(const struct ckpt_kit *k)
{
    struct ckpt_entry *entries = NULL;
    uint32_t n = 0;

    mu_assert(ckpt_list(k->dir, KIT_JOB, &entries, &n, NULL) == MU_OK);
    free(entries);
    return n;
}

const char *ckpt_kit_path(const struct ckpt_kit *k, const char *name)
{
    static char paths[4][PATH_MAX + 128];
    static unsigned next;
    char *path = paths[next++ % ARRAY_LEN(paths)];

    snprintf(path, sizeof(paths[0]), "%s/%s/%s", k->dir, KIT_JOB, name);
    return path;
}
