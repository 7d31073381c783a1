/* The parts of a checkpoint, verified as they are read, in files that other tools can open. A name
 * is kept as far as that is safe: what could lead out of a folder, or is not ASCII, becomes %XX. */
#include "ckpt/load.h"
#include "ckpt/npz.h"
#include "ckpt/remove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names ---- */

/* No two names become one. A slash stays, if `slashes`, between what is no dot and not empty. */
static void safe_name(const char *name, bool slashes, char out[NPZ_NAME_MAX])
{
    size_t n = 0;

    for (size_t i = 0; name[i] != '\0'; i++) {
        const uint8_t c = (uint8_t)name[i];
        const bool first = i == 0 || name[i - 1] == '/';
        bool plain = c > ' ' && c < 0x7f && strchr("%\\:*?\"<>|", c) == NULL;

        if (c == '/') {
            plain = slashes && !first && name[i + 1] != '\0';
        } else if (c == '.') {
            plain = !first;
        }
        n += (size_t)snprintf(out + n, NPZ_NAME_MAX - n, plain ? "%c" : "%%%02X", c);
    }
}

/* ---- one part ---- */

/* Where its bytes go. */
struct sink {
    int fd;
    struct npz *npz; /* NULL: to fd as they are */
};

static int copy_part(struct ckpt *c, uint64_t at, uint64_t bytes, struct sink *to, uint8_t *buffer,
                     const char *path, struct ckpt_why *why)
{
    while (bytes > 0) {
        const uint64_t n = MIN(bytes, CKPT_CHUNK - at % CKPT_CHUNK);
        int rc = load_range(c, at, n, buffer, why);

        if (rc != MU_OK) {
            return rc;
        }
        if ((to->npz != NULL ? npz_add(to->npz, buffer, (size_t)n)
                             : file_write(to->fd, buffer, (size_t)n)) != 0) {
            return file_failed(why, "write", path);
        }
        at += n;
        bytes -= n;
    }
    return MU_OK;
}

static int finish(int fd, int rc, const char *path, struct ckpt_why *why)
{
    if (rc == MU_OK && file_sync(fd) != 0) {
        rc = file_failed(why, "bring to the disk", path);
    }
    if (close(fd) != 0 && rc == MU_OK) {
        rc = file_failed(why, "write", path);
    }
    return rc;
}

/* ---- .npz ---- */

static int write_npz(struct ckpt *c, struct npz *z, bool f32, uint8_t *buffer, const char *path,
                     struct ckpt_why *why)
{
    const struct ckpt_manifest *m = ckpt_manifest(c);
    struct sink to = {.npz = z};
    uint64_t at = 0;

    for (uint32_t i = 0; i < m->parts_n; i++) {
        const struct ckpt_part *p = &m->parts[i];
        char name[NPZ_NAME_MAX];
        int rc;

        safe_name(p->name, true, name);
        if (npz_begin(z, name, p->bytes, f32 && p->bytes % 4 == 0) != 0) {
            return file_failed(why, "write", path);
        }
        rc = copy_part(c, at, p->bytes, &to, buffer, path, why);
        if (rc != MU_OK) {
            return rc;
        }
        if (npz_end(z) != 0) {
            return file_failed(why, "write", path);
        }
        at += p->bytes;
    }
    return npz_finish(z) == 0 ? MU_OK : file_failed(why, "write", path);
}

static int export_npz(struct ckpt *c, const char *to, bool f32, uint8_t *buffer,
                      struct ckpt_why *why)
{
    struct npz_entry *entries;
    struct path part;
    struct npz z;
    int fd, rc = path_set(&part, why, "%s.part", to);

    if (rc != MU_OK) {
        return rc;
    }
    entries = calloc(MAX(ckpt_manifest(c)->parts_n, 1), sizeof(*entries));
    if (entries == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to write %s", to);
    }
    fd = file_create(part.text);
    if (fd < 0) {
        rc = file_failed(why, "make", part.text);
        goto err_entries;
    }
    npz_init(&z, fd, entries);
    rc = finish(fd, write_npz(c, &z, f32, buffer, part.text, why), part.text, why);
    if (rc == MU_OK && file_rename(part.text, to) != 0) {
        rc = file_failed(why, "rename to its name", to);
    }
    if (rc != MU_OK) {
        (void)file_unlink(AT_FDCWD, part.text, false);
    }
err_entries:
    free(entries);
    return rc;
}

/* ---- a file each ---- */

static int write_file(struct ckpt *c, uint32_t part, uint64_t at, const char *folder,
                      uint8_t *buffer, struct ckpt_why *why)
{
    const struct ckpt_part *p = &ckpt_manifest(c)->parts[part];
    struct sink to = {.npz = NULL};
    char name[NPZ_NAME_MAX];
    struct path path;
    int rc;

    safe_name(p->name, false, name);
    rc = path_set(&path, why, "%s/%s", folder, name);
    if (rc != MU_OK) {
        return rc;
    }
    to.fd = file_create(path.text);
    if (to.fd < 0) {
        return file_failed(why, "make", path.text);
    }
    return finish(to.fd, copy_part(c, at, p->bytes, &to, buffer, path.text, why), path.text, why);
}

static int write_files(struct ckpt *c, const char *folder, uint8_t *buffer, struct ckpt_why *why)
{
    const struct ckpt_manifest *m = ckpt_manifest(c);
    uint64_t at = 0;
    int rc = file_mkdirs(folder, why);

    for (uint32_t i = 0; rc == MU_OK && i < m->parts_n; i++) {
        rc = write_file(c, i, at, folder, buffer, why);
        at += m->parts[i].bytes;
    }
    return rc == MU_OK ? file_sync_folder(folder, why) : rc;
}

static int export_raw(struct ckpt *c, const char *to, uint8_t *buffer, struct ckpt_why *why)
{
    struct path part;
    int rc = path_set(&part, why, "%s.part", to);

    if (rc != MU_OK || (rc = remove_folder(part.text, why)) != MU_OK) { /* Of an earlier try. */
        return rc;
    }
    rc = write_files(c, part.text, buffer, why);
    if (rc == MU_OK && file_rename(part.text, to) != 0) {
        rc =
            errno == EEXIST || errno == ENOTEMPTY
                ? ckpt_say(why, MU_EEXIST, "%s is there already, and not empty; choose another", to)
                : file_failed(why, "rename to its name", to);
    }
    if (rc != MU_OK) {
        (void)remove_folder(part.text, NULL);
    }
    return rc;
}

int ckpt_export(struct ckpt *c, const char *to, bool raw, bool f32, struct ckpt_why *why)
{
    struct path name;
    uint8_t *buffer;
    size_t n;
    int rc = path_set(&name, why, "%s", to);

    if (rc != MU_OK) {
        return rc;
    }
    for (n = strlen(name.text); n > 1 && name.text[n - 1] == '/'; n--) {
        name.text[n - 1] = '\0';
    }
    if (n == 0) {
        return ckpt_say(why, MU_EINVAL, "what is to be written has no name");
    }
    buffer = malloc((size_t)CKPT_CHUNK);
    if (buffer == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to write %s", to);
    }
    rc = raw ? export_raw(c, name.text, buffer, why) : export_npz(c, name.text, f32, buffer, why);
    free(buffer);
    return rc;
}
