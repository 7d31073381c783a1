/* The last rename. See place.h. */
#include "ckpt/place.h"

#include "ckpt/remove.h"

#include <errno.h>
#include <string.h>

static bool same_mark(const struct ckpt_mark *a, const struct ckpt_mark *b)
{
    return a->step == b->step && a->epoch == b->epoch && a->samples == b->samples &&
           a->offset == b->offset && a->seed == b->seed && a->data_n == b->data_n &&
           a->batch == b->batch && a->slices == b->slices && strcmp(a->job, b->job) == 0;
}

static bool same_state(const struct ckpt_manifest *a, const struct ckpt_manifest *b)
{
    bool same = a->bytes == b->bytes && a->zstd == b->zstd && a->parts_n == b->parts_n &&
                a->chunks_n == b->chunks_n && same_mark(&a->mark, &b->mark);

    for (uint32_t i = 0; same && i < a->parts_n; i++) {
        same = a->parts[i].bytes == b->parts[i].bytes &&
               strcmp(a->parts[i].name, b->parts[i].name) == 0;
    }
    for (uint32_t i = 0; same && i < a->chunks_n; i++) {
        same = a->chunks[i].stored == b->chunks[i].stored &&
               memcmp(a->chunks[i].sum, b->chunks[i].sum, CKPT_SUM_BYTES) == 0;
    }
    return same;
}

/* Is there the same already, and intact? A run that went back behind a damaged checkpoint comes to
 * its step again, with the same chunks: that one must not stay. */
static bool stays(const char *dir, const struct ckpt_manifest *m)
{
    struct ckpt *c;
    bool same;

    if (ckpt_open(dir, m->mark.job, m->mark.step, &c, NULL) != MU_OK) {
        return false;
    }
    same = same_state(ckpt_manifest(c), m) && ckpt_verify(c, NULL) == MU_OK;
    ckpt_close(c);
    return same;
}

/* Where names can't be swapped, the old one is put aside for a moment; it is found there. */
static int put_aside(const char *dir, const struct ckpt_mark *mark, const char *folder,
                     const char *place, struct ckpt_why *why)
{
    struct path old;
    int rc = path_attempt(&old, dir, mark->job, mark->step, NAME_OLD, why);

    if (rc == MU_OK) {
        rc = remove_folder(old.text, why); /* Of an earlier try: there is one in its place. */
    }
    if (rc != MU_OK) {
        return rc;
    }
    if (file_rename(place, old.text) != 0) {
        return file_failed(why, "put aside", place);
    }
    if (file_rename(folder, place) != 0) {
        rc = file_failed(why, "rename to its name", place);
        (void)file_rename(old.text, place);
        return rc;
    }
    return MU_OK;
}

static int into_place(const char *dir, const struct ckpt_manifest *m, const char *folder,
                      struct ckpt_why *why)
{
    struct path place;
    int rc = path_step(&place, dir, m->mark.job, m->mark.step, why);

    if (rc != MU_OK || file_rename(folder, place.text) == 0) {
        return rc;
    }
    if (errno != EEXIST && errno != ENOTEMPTY) {
        return file_failed(why, "rename to its name", place.text);
    }
    if (stays(dir, m) || file_swap(folder, place.text) == 0) {
        return MU_OK;
    }
    return put_aside(dir, &m->mark, folder, place.text, why);
}

/* The new name is on the disk, and what made place goes. */
static int settle(const char *dir, const struct ckpt_mark *mark, const char *folder,
                  struct ckpt_why *why)
{
    struct path job, old;
    int rc = path_job(&job, dir, mark->job, why);

    if (rc == MU_OK) {
        rc = file_sync_folder(job.text, why);
    }
    if (rc == MU_OK) {
        rc = file_sync_folder(dir, why);
    }
    if (rc == MU_OK) {
        rc = path_attempt(&old, dir, mark->job, mark->step, NAME_OLD, why);
    }
    if (rc == MU_OK) { /* What can't go now is there for ckpt_prune(). */
        (void)remove_folder(folder, NULL);
        (void)remove_folder(old.text, NULL);
    }
    return rc;
}

int place_take(const char *dir, const struct ckpt_manifest *m, const char *folder,
               struct ckpt_why *why)
{
    int rc = into_place(dir, m, folder, why);

    return rc == MU_OK ? settle(dir, &m->mark, folder, why) : rc;
}
