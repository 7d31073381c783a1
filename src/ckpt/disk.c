/* Checkpoints as files: for those who keep them for others. */
#include "ckpt/shard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a piece of a file ---- */

/* -1, and errno: there is none. */
static int open_file(const char *folder, uint32_t shard, struct path *p)
{
    int rc = shard == CKPT_MANIFEST_FILE ? path_set(p, NULL, "%s/manifest", folder)
                                         : shard_path(p, folder, shard, "", NULL);

    if (rc != MU_OK) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(p->text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static int read_piece(int fd, const char *path, uint64_t at, size_t n, uint8_t *to, size_t *n_out,
                      uint64_t *total_out, struct ckpt_why *why)
{
    size_t got = 0;
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return file_failed(why, "read", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return ckpt_say(why, MU_ECORRUPT, "%s is no file", path);
    }
    n = at < (uint64_t)st.st_size ? (size_t)MIN(n, (uint64_t)st.st_size - at) : 0;
    while (got < n) {
        const ssize_t did = pread(fd, to + got, n - got, (off_t)(at + got));

        if (did < 0 && errno == EINTR) {
            continue;
        }
        if (did <= 0) {
            errno = did == 0 ? EIO : errno;
            return file_failed(why, "read", path);
        }
        got += (size_t)did;
    }
    *n_out = n;
    *total_out = (uint64_t)st.st_size;
    return MU_OK;
}

int ckpt_read_file(const char *dir, const char *job, uint64_t step, uint32_t shard, uint64_t at,
                   size_t n, uint8_t *to, size_t *n_out, uint64_t *total_out, struct ckpt_why *why)
{
    struct path folder, p;
    int fd, rc = path_step(&folder, dir, job, step, why);

    if (rc != MU_OK) {
        return rc;
    }
    fd = open_file(folder.text, shard, &p);
    if (fd < 0 && errno == ENOENT && /* It may be put aside, by a commit that was interrupted. */
        path_attempt(&folder, dir, job, step, NAME_OLD, NULL) == MU_OK) {
        fd = open_file(folder.text, shard, &p);
    }
    if (fd < 0) {
        return errno == ENOENT
                   ? ckpt_say(why, MU_ENOENT,
                              "there is no such file of a checkpoint of step %" PRIu64 " of job %s",
                              step, job)
                   : file_failed(why, "read", p.text);
    }
    rc = read_piece(fd, p.text, at, n, to, n_out, total_out, why);
    close(fd);
    return rc;
}

/* ---- how much there is ---- */

static DIR *open_in(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (d == NULL && fd >= 0) {
        close(fd);
    }
    return d;
}

static uint64_t folder_bytes(int dir_fd, const char *name)
{
    DIR *d = open_in(dir_fd, name);
    uint64_t sum = 0;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        struct stat st;

        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
            sum += (uint64_t)st.st_size;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return sum;
}

static void count_job(int dir_fd, const char *job, ckpt_count *count, void *arg)
{
    DIR *d = open_in(dir_fd, job);

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        const char *tag;
        uint64_t step;

        if (name_is_step(e->d_name, &step)) {
            count(arg, job, true, folder_bytes(dirfd(d), e->d_name));
        } else if (name_is_attempt(e->d_name, &step, &tag)) {
            count(arg, job, strcmp(tag, NAME_OLD) == 0, folder_bytes(dirfd(d), e->d_name));
        }
    }
    if (d != NULL) {
        closedir(d);
    }
}

int ckpt_usage(const char *dir, ckpt_count *count, void *arg, struct ckpt_why *why)
{
    DIR *d = opendir(dir);

    if (d == NULL) {
        return errno == ENOENT ? MU_OK : file_failed(why, "read the folder", dir);
    }
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (name_is_job(e->d_name)) {
            count_job(dirfd(d), e->d_name, count, arg);
        }
    }
    closedir(d);
    return MU_OK;
}
