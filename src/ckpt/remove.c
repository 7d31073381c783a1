/* A checkpoint that goes is first renamed to what nobody takes for one, and that is on the disk
 * before the first of its files goes. */
#include "ckpt/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static int remove_files(DIR *d, const char *path, struct ckpt_why *why)
{
    int rc = MU_OK;

    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            file_unlink(dirfd(d), e->d_name, false) != 0 && errno != ENOENT && rc == MU_OK) {
            rc = file_failed(why, "take away what is in", path);
        }
    }
    return rc;
}

int remove_folder(const char *path, struct ckpt_why *why)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    int rc;

    if (d == NULL) {
        rc = errno == ENOENT ? MU_OK : file_failed(why, "open the folder", path);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    rc = remove_files(d, path, why);
    closedir(d);
    if (rc == MU_OK && file_unlink(AT_FDCWD, path, true) != 0 && errno != ENOENT) {
        rc = file_failed(why, "take away the folder", path);
    }
    return rc;
}

/* MU_ENOENT: there is none at `path`. */
static int remove_one(const char *dir, const char *job, uint64_t step, const char *path,
                      struct ckpt_why *why)
{
    struct path gone, folder;
    int rc = path_attempt(&gone, dir, job, step, NAME_GONE, why);

    if (rc != MU_OK || (rc = path_job(&folder, dir, job, why)) != MU_OK) {
        return rc;
    }
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return MU_ENOENT;
    }
    rc = remove_folder(gone.text, why); /* Of an earlier try. */
    if (rc != MU_OK) {
        return rc;
    }
    if (file_rename(path, gone.text) != 0) {
        return errno == ENOENT ? MU_ENOENT : file_failed(why, "rename", path);
    }
    rc = file_sync_folder(folder.text, why);
    return rc == MU_OK ? remove_folder(gone.text, why) : rc;
}

int ckpt_remove(const char *dir, const char *job, uint64_t step, struct ckpt_why *why)
{
    struct path p;
    int old, rc = path_attempt(&p, dir, job, step, NAME_OLD, why);

    if (rc != MU_OK) {
        return rc;
    }
    /* First what would be found in the other's place. */
    old = remove_one(dir, job, step, p.text, why);
    if (old != MU_OK && old != MU_ENOENT) {
        return old;
    }
    rc = path_step(&p, dir, job, step, why);
    if (rc == MU_OK) {
        rc = remove_one(dir, job, step, p.text, why);
    }
    if (rc == MU_ENOENT && old == MU_OK) {
        return MU_OK;
    }
    return rc == MU_ENOENT
               ? ckpt_say(why, rc, "there is no checkpoint of step %" PRIu64 " of job %s in %s",
                          step, job, dir)
               : rc;
}

void ckpt_abandon(const struct ckpt_target *t)
{
    struct path p;

    if (path_target(&p, t, NULL) == MU_OK) {
        (void)remove_folder(p.text, NULL);
    }
}
