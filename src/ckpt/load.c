/* A checkpoint is opened: its manifest holds, and its shards are there. read.c reads them. */
#include "ckpt/load.h"

#include "ckpt/shard.h"
#include "ckpt/sum.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
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
    c->shard = c->held_chunk = LOAD_NONE;
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
