#include "ckpt/file.h"

#include "base/hook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_MAX ((size_t)64 << 20) /* of one write(); Linux takes no more than 2 GiB */

/* ---- words ---- */

int ckpt_say(struct ckpt_why *why, int rc, const char *fmt, ...)
{
    va_list args;

    if (why != NULL) {
        va_start(args, fmt);
        vsnprintf(why->text, sizeof(why->text), fmt, args);
        va_end(args);
    }
    return rc;
}

int file_failed(struct ckpt_why *why, const char *what, const char *path)
{
    const int error = errno;

    switch (error) {
    case ENOSPC:
        return ckpt_say(why, MU_ELIMIT, "can't %s %s: the disk is full; make room there", what,
                        path);
    case EDQUOT:
        return ckpt_say(why, MU_ELIMIT, "can't %s %s: the quota is used up; make room there", what,
                        path);
    case EFBIG:
        return ckpt_say(why, MU_ELIMIT, "can't %s %s: files may not be that long there", what,
                        path);
    case EACCES:
    case EPERM:
    case EROFS:
        return ckpt_say(why, MU_EIO,
                        "can't %s %s: %s; give this user the right to, or choose "
                        "another folder",
                        what, path, strerror(error));
    case ENOMEM:
        return ckpt_say(why, MU_ENOMEM, "can't %s %s: no memory", what, path);
    default:
        return ckpt_say(why, MU_EIO, "can't %s %s: %s", what, path, strerror(error));
    }
}

/* ---- changes ---- */

int file_mkdir(const char *path, struct ckpt_why *why)
{
    struct stat st;
    int error;

    HOOK();
    if (mkdir(path, 0777) == 0) {
        return MU_OK;
    }
    error = errno;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return MU_OK;
    }
    errno = error;
    return file_failed(why, "make the folder", path);
}

/* One folder whose parent is there; that it is there is on the disk. */
static int make_folder(const char *path, struct ckpt_why *why)
{
    struct path parent;
    char *slash;
    int rc = file_mkdir(path, why);

    if (rc != MU_OK) {
        return rc;
    }
    rc = path_set(&parent, why, "%s", path);
    if (rc != MU_OK) {
        return rc;
    }
    slash = strrchr(parent.text, '/');
    if (slash == NULL) {
        return file_sync_folder(".", why);
    }
    *slash = '\0';
    return file_sync_folder(slash == parent.text ? "/" : parent.text, why);
}

int file_mkdirs(const char *path, struct ckpt_why *why)
{
    struct path upto;
    struct stat st;
    int rc;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return MU_OK;
    }
    rc = path_set(&upto, why, "%s", path);
    for (char *p = upto.text; rc == MU_OK && *p != '\0'; p++) {
        if (*p == '/' && p > upto.text && p[-1] != '/') {
            *p = '\0';
            if (stat(upto.text, &st) != 0) { /* May be one in which nothing may be made. */
                rc = make_folder(upto.text, why);
            }
            *p = '/';
        }
    }
    return rc == MU_OK ? make_folder(upto.text, why) : rc;
}

int file_create(const char *path)
{
    HOOK();
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
}

int file_open(const char *path)
{
    HOOK();
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
}

int file_truncate(int fd, uint64_t n)
{
    HOOK();
    return ftruncate(fd, (off_t)n);
}

int file_write(int fd, const void *data, size_t n)
{
    const char *p = data;

    while (n > 0) {
        HOOK();
        const ssize_t did = write(fd, p, MIN(n, WRITE_MAX));

        if (did < 0 && errno == EINTR) {
            continue;
        }
        if (did <= 0) {
            errno = did == 0 ? EIO : errno;
            return -1;
        }
        p += did;
        n -= (size_t)did;
    }
    return 0;
}

bool file_direct(int fd, bool on)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

int file_sync(int fd)
{
    HOOK();
    return fsync(fd);
}

int file_rename(const char *from, const char *to)
{
    HOOK();
    return rename(from, to);
}

int file_swap(const char *a, const char *b)
{
    HOOK();
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

int file_unlink(int dir_fd, const char *name, bool folder)
{
    HOOK();
    return unlinkat(dir_fd, name, folder ? AT_REMOVEDIR : 0);
}

int file_sync_folder(const char *path, struct ckpt_why *why)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = MU_OK;

    if (fd < 0) {
        return file_failed(why, "open the folder", path);
    }
    if (file_sync(fd) != 0 && errno != EINVAL) { /* There are file systems that can't, nor need. */
        rc = file_failed(why, "bring to the disk the folder", path);
    }
    close(fd);
    return rc;
}

/* ---- whole files ---- */

static int write_whole(const char *path, const void *data, size_t n, bool durable,
                       struct ckpt_why *why)
{
    int fd = file_create(path);
    int rc = MU_OK;

    if (fd < 0) {
        return file_failed(why, "make", path);
    }
    if (file_write(fd, data, n) != 0 || (durable && file_sync(fd) != 0)) {
        rc = file_failed(why, "write", path);
    }
    if (close(fd) != 0 && rc == MU_OK) {
        rc = file_failed(why, "write", path);
    }
    return rc;
}

int file_put(const char *path, const void *data, size_t n, bool durable, struct ckpt_why *why)
{
    struct path beside;
    int rc = path_set(&beside, why, "%s.part", path);

    if (rc != MU_OK) {
        return rc;
    }
    rc = write_whole(beside.text, data, n, durable, why);
    if (rc == MU_OK && file_rename(beside.text, path) != 0) {
        rc = file_failed(why, "rename to its name", path);
    }
    if (rc != MU_OK) {
        (void)file_unlink(AT_FDCWD, beside.text, false);
    }
    return rc;
}

/* The n bytes of an open file; fewer are an error. */
static int read_whole(int fd, char *to, size_t n, const char *path, struct ckpt_why *why)
{
    size_t at = 0;

    while (at < n) {
        const ssize_t did = read(fd, to + at, n - at);

        if (did < 0 && errno == EINTR) {
            continue;
        }
        if (did < 0) {
            return file_failed(why, "read", path);
        }
        if (did == 0) {
            return ckpt_say(why, MU_EIO, "can't read %s: it became shorter meanwhile", path);
        }
        at += (size_t)did;
    }
    return MU_OK;
}

int file_get(const char *path, size_t max, char **data_out, size_t *n_out, struct ckpt_why *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* A pipe would be waited for. */
    struct stat st;
    char *data = NULL;
    int rc;

    if (fd < 0) {
        const bool missing = errno == ENOENT;

        rc = file_failed(why, "read", path);
        return missing ? MU_ENOENT : rc;
    }
    if (fstat(fd, &st) != 0) {
        rc = file_failed(why, "read", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max) {
        rc = ckpt_say(why, MU_ELIMIT, "%s is no file of at most %zu bytes", path, max);
        goto out;
    }
    data = malloc((size_t)st.st_size + 1);
    if (data == NULL) {
        rc = ckpt_say(why, MU_ENOMEM, "no memory to read %s", path);
        goto out;
    }
    rc = read_whole(fd, data, (size_t)st.st_size, path, why);
out:
    close(fd);
    if (rc != MU_OK) {
        free(data);
        return rc;
    }
    data[st.st_size] = '\0';
    *data_out = data;
    *n_out = (size_t)st.st_size;
    return MU_OK;
}
