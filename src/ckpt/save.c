/* A checkpoint from its first folder to its last rename. Up to that rename nothing that was there
 * before is touched; and when it happens all that it shows is on the disk. */
#include "ckpt/lines.h"
#include "ckpt/place.h"
#include "ckpt/shard.h"
#include "ckpt/sums.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING(x) #x
#define DOTTED(a, b, c) STRING(a) "." STRING(b) "." STRING(c)

#define FAILED_TEXT_MAX ((size_t)CKPT_PATH_MAX + 256)

/* ---- have all left their sums? ---- */

/* What the name of a file in an attempt's folder says of a shard. */
static bool tells(const char *name, const char *end, uint32_t shards_n, uint32_t *shard_out)
{
    char again[64];
    unsigned shard;

    if (sscanf(name, "shard-%4u", &shard) != 1 || shard >= shards_n) {
        return false;
    }
    snprintf(again, sizeof(again), "shard-%04u%s", shard, end);
    if (strcmp(name, again) != 0) {
        return false;
    }
    *shard_out = shard;
    return true;
}

static int failed_shard(const char *folder, uint32_t shard, struct ckpt_why *why)
{
    struct path p;
    char *text = NULL;
    size_t n = 0;

    if (shard_path(&p, folder, shard, SHARD_FAILED, NULL) == MU_OK &&
        file_get(p.text, FAILED_TEXT_MAX, &text, &n, NULL) == MU_OK && n > 0) {
        ckpt_say(why, MU_EIO, "%s", text);
    } else {
        ckpt_say(why, MU_EIO, "the writer of shard %" PRIu32 " in %s has failed", shard, folder);
    }
    free(text);
    return MU_EIO;
}

int ckpt_gathered(const struct ckpt_target *t, uint32_t *shard_out, struct ckpt_why *why)
{
    bool there[CKPT_SHARDS_MAX] = {false};
    uint32_t shard, missing = 0, failed = UINT32_MAX;
    struct path folder;
    DIR *d;
    int rc = path_target(&folder, t, why);

    if (rc != MU_OK) {
        return rc;
    }
    d = opendir(folder.text);
    if (d == NULL && errno != ENOENT) {
        return file_failed(why, "read the folder", folder.text);
    }
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        if (tells(e->d_name, SHARD_FAILED, t->shards_n, &shard)) {
            failed = MIN(failed, shard);
        } else if (tells(e->d_name, SHARD_SUMS, t->shards_n, &shard)) {
            there[shard] = true;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    while (missing < t->shards_n && there[missing]) {
        missing++;
    }
    if (failed == UINT32_MAX && missing == t->shards_n) {
        return MU_OK;
    }
    if (shard_out != NULL) {
        *shard_out = failed != UINT32_MAX ? failed : missing;
    }
    return failed != UINT32_MAX
               ? failed_shard(folder.text, failed, why)
               : ckpt_say(why, MU_EAGAIN, "shard %" PRIu32 " is not there yet", missing);
}

/* ---- the manifest ---- */

/* m's parts are the caller's, its chunks are to be freed. */
static int gather(const struct ckpt_target *t, const char *folder, struct ckpt_manifest *m,
                  struct ckpt_why *why)
{
    int rc = MU_OK;

    m->chunks_n = ckpt_chunks(t->bytes);
    m->chunks = calloc(MAX(m->chunks_n, 1), sizeof(*m->chunks));
    if (m->chunks == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory for the sums of %s", folder);
    }
    for (uint32_t i = 0; rc == MU_OK && i < t->shards_n; i++) {
        rc = sums_read(t, folder, i, m->chunks, why);
    }
    return rc;
}

static int put_manifest(const struct ckpt_manifest *m, const char *folder, struct ckpt_why *why)
{
    struct path p;
    char *text;
    size_t n;
    int rc = path_set(&p, why, "%s/manifest", folder);

    if (rc != MU_OK) {
        return rc;
    }
    rc = ckpt_manifest_write(m, &text, &n);
    if (rc != MU_OK) {
        return ckpt_say(why, rc, "can't write %s: %s", p.text,
                        rc == MU_ENOMEM ? "no memory" : "its parts and chunks don't add up");
    }
    rc = file_put(p.text, text, n, true, why);
    free(text);
    return rc;
}

/* All that is in the folder is what will be in the checkpoint, and on the disk. */
static int complete(const struct ckpt_target *t, const struct ckpt_manifest *m, const char *folder,
                    struct ckpt_why *why)
{
    int rc = put_manifest(m, folder, why);

    for (uint32_t i = 0; rc == MU_OK && i < t->shards_n; i++) {
        struct path p;

        rc = shard_path(&p, folder, i, SHARD_SUMS, why);
        if (rc == MU_OK && file_unlink(AT_FDCWD, p.text, false) != 0 && errno != ENOENT) {
            rc = file_failed(why, "take away", p.text);
        }
    }
    return rc == MU_OK ? file_sync_folder(folder, why) : rc;
}

int ckpt_commit(const struct ckpt_target *t, const struct ckpt_mark *mark,
                const struct ckpt_part *parts, uint32_t parts_n, struct ckpt_why *why)
{
    struct ckpt_manifest m = {
        .version = DOTTED(MU_VERSION_MAJOR, MU_VERSION_MINOR, MU_VERSION_PATCH),
        .mark = *mark,
        .zstd = t->zstd,
        .parts_n = parts_n,
        .bytes = t->bytes,
        .shards_n = t->shards_n,
    };
    struct path folder;
    int rc = path_target(&folder, t, why);

    if (rc != MU_OK) {
        return rc;
    }
    if (mark->step != t->step || strcmp(mark->job, t->job) != 0 || parts_n > CKPT_PARTS_MAX) {
        return ckpt_say(why, MU_EINVAL, "the mark is not of step %" PRIu64 " of job %s", t->step,
                        t->job);
    }
    m.parts = malloc(MAX(parts_n, 1) * sizeof(*parts));
    if (m.parts == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory for a manifest");
    }
    if (parts_n > 0) {
        memcpy(m.parts, parts, parts_n * sizeof(*parts));
    }
    rc = gather(t, folder.text, &m, why);
    rc = rc == MU_OK ? complete(t, &m, folder.text, why) : rc;
    rc = rc == MU_OK ? place_take(t->dir, &m, folder.text, why) : rc;
    ckpt_manifest_free(&m);
    return rc;
}
