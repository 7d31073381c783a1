/* Which folder it is. A path says little: containers of one host may have different folders at the
 * same one, and two hosts the same folder at different ones. So it is looked at: on one host the
 * kernel tells folders apart; between hosts a mark does, which the first who comes leaves there. */
#include "base/random.h"
#include "ckpt/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MARK ".folder-"
#define MARK_DIGITS 16

/* Of runs before this one, whose folder it was then. */
static void forget_marks(const char *folder, const char *mine)
{
    DIR *d = opendir(folder);
    const struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, MARK, strlen(MARK)) == 0 && strcmp(e->d_name, mine) != 0) {
            (void)file_unlink(dirfd(d), e->d_name, false);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
}

/* A link that leads nowhere: it is there with all that it says, or it is not. */
static int read_mark(const char *folder, uint64_t run, uint64_t *id_out, struct ckpt_why *why)
{
    char name[sizeof(MARK) + MARK_DIGITS], text[MARK_DIGITS + 1] = "";
    struct path path;
    uint64_t id;
    int rc;

    snprintf(name, sizeof(name), MARK "%016llx", (unsigned long long)run);
    rc = path_set(&path, why, "%s/%s", folder, name);
    if (rc != MU_OK) {
        return rc;
    }
    random_bytes(&id, sizeof(id));
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)id);
    if (symlink(text, path.text) == 0) {
        forget_marks(folder, name);
    } else if (errno != EEXIST) {
        return file_failed(why, "leave a mark in", folder);
    }
    if (readlink(path.text, text, MARK_DIGITS) != MARK_DIGITS) {
        return file_failed(why, "read the mark in", folder);
    }
    *id_out = strtoull(text, NULL, 16);
    return MU_OK;
}

int ckpt_folder(const char *dir, const char *job, uint64_t host, uint64_t run, uint64_t *id_out,
                struct ckpt_why *why)
{
    struct path folder;
    struct stat st;
    int rc = path_job(&folder, dir, job, why);

    if (rc == MU_OK) {
        rc = file_mkdirs(folder.text, why);
    }
    if (rc == MU_OK && run != 0) {
        return read_mark(folder.text, run, id_out, why);
    }
    if (rc == MU_OK && stat(folder.text, &st) != 0) {
        rc = file_failed(why, "look at", folder.text);
    }
    if (rc == MU_OK) {
        const uint64_t what[] = {host, st.st_dev, st.st_ino};

        *id_out = XXH3_64bits(what, sizeof(what));
    }
    return rc;
}
