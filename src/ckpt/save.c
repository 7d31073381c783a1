/* A checkpoint from its first folder to its last rename. Up to that rename nothing that was there
 * before is touched; and when it happens all that it shows is on the disk. */
#include "ckpt/lines.h"
#include "ckpt/place.h"
#include "ckpt/shard.h"
#include "ckpt/sums.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STRING(x) #x
#define DOTTED(a, b, c) STRING(a) "." STRING(b) "." STRING(c)

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
