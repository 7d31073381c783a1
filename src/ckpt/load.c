/* A checkpoint is opened: its manifest holds, and its shards are there, if they are files. read.c
 * reads them. */
#include "ckpt/load.h"

#include "ckpt/ahead.h"
#include "ckpt/shard.h"
#include "ckpt/sum.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

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
            return errno == ENOENT ? load_damaged(c, i, why, "is missing")
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

/* where: what the text is called for people. */
static int take_manifest(struct ckpt *c, const char *where, const char *text, size_t n,
                         uint64_t step, struct ckpt_why *why)
{
    struct ckpt_why own = {{0}};
    int rc = ckpt_manifest_parse(text, n, &c->m, &own);

    if (rc != MU_OK) {
        return ckpt_say(why, rc, "%s: %.300s", where, own.text);
    }
    if (c->m.mark.step != step) {
        return ckpt_say(why, MU_ECORRUPT, "%s is that of step %" PRIu64 ": the folder was renamed",
                        where, c->m.mark.step);
    }
    return MU_OK;
}

static int read_manifest(struct ckpt *c, uint64_t step, struct ckpt_why *why)
{
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
    rc = take_manifest(c, p.text, text, n, step, why);
    free(text);
    return rc;
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

/* NULL: no memory. */
static struct ckpt *make(struct ckpt_why *why)
{
    struct ckpt *c = calloc(1, sizeof(*c));
    struct sum_state *sum = sum_open();

    if (c == NULL || sum == NULL) {
        free(c);
        if (sum != NULL) {
            sum_close(sum);
        }
        (void)ckpt_say(why, MU_ENOMEM, "no memory to open a checkpoint");
        return NULL;
    }
    c->fd = -1;
    c->shard = c->held_chunk = LOAD_NONE;
    c->sum = sum;
    return c;
}

int ckpt_open(const char *dir, const char *job, uint64_t step, struct ckpt **c_out,
              struct ckpt_why *why)
{
    struct ckpt *c = make(why);
    int rc;

    if (c == NULL) {
        return MU_ENOMEM;
    }
    rc = find_folder(c, dir, job, step, why);
    rc = rc == MU_OK ? read_manifest(c, step, why) : rc;
    rc = rc == MU_OK ? check_shards(c, why) : rc;
    if (rc != MU_OK) {
        ckpt_close(c);
        return rc;
    }
    *c_out = c;
    return MU_OK;
}

int ckpt_open_source(const char *text, size_t n, const char *job, uint64_t step,
                     const struct ckpt_source *source, struct ckpt **c_out, struct ckpt_why *why)
{
    struct ckpt *c = make(why);
    struct path p;
    int rc;

    if (c == NULL) {
        source->close(source->arg);
        return MU_ENOMEM;
    }
    c->sourced = true;
    c->source = *source;
    rc = path_set(&c->folder, why, "%s", source->name);
    rc = rc == MU_OK ? path_set(&p, why, "%s/manifest", source->name) : rc;
    rc = rc == MU_OK ? take_manifest(c, p.text, text, n, step, why) : rc;
    if (rc == MU_OK && strcmp(c->m.mark.job, job) != 0) {
        rc = ckpt_say(why, MU_ECORRUPT, "%s is that of job %s: the folder was renamed", p.text,
                      c->m.mark.job);
    }
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
    if (c->sourced) {
        c->source.close(c->source.arg);
    }
    ahead_close(c->ahead);
    if (c->fd >= 0) {
        close(c->fd);
    }
    sum_close(c->sum);
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
