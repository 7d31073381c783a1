#include "ckpt/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders ---- */

/* NULL, and MU_OK: there is none. */
static int open_folder(const char *path, DIR **d_out, struct ckpt_why *why)
{
    DIR *d = opendir(path);

    if (d == NULL && errno != ENOENT) {
        return file_failed(why, "read the folder", path);
    }
    *d_out = d;
    return MU_OK;
}

static bool is_folder(int dir_fd, const char *name)
{
    struct stat st;

    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Of all files in it. */
static uint64_t bytes_in(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    uint64_t sum = 0;

    if (d == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return 0;
    }
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        struct stat st;

        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
            sum += (uint64_t)st.st_size;
        }
    }
    closedir(d);
    return sum;
}

/* ---- what there is ---- */

struct list {
    struct ckpt_entry *entries;
    uint32_t n, cap;
};

static bool add(struct list *l, uint64_t step, uint64_t bytes)
{
    if (l->n == l->cap) {
        const uint32_t cap = MAX(2 * l->cap, 16);
        struct ckpt_entry *entries = realloc(l->entries, cap * sizeof(*entries));

        if (entries == NULL) {
            return false;
        }
        l->entries = entries;
        l->cap = cap;
    }
    l->entries[l->n++] = (struct ckpt_entry){.step = step, .bytes = bytes};
    return true;
}

/* One that was put aside counts too: it is whole, and may be alone. */
static bool is_checkpoint(int dir_fd, const char *name, uint64_t *step_out)
{
    const char *tag = "";
    uint64_t step;

    if (!name_is_step(name, &step) &&
        !(name_is_attempt(name, &step, &tag) && strcmp(tag, NAME_OLD) == 0)) {
        return false;
    }
    *step_out = step;
    return is_folder(dir_fd, name);
}

static int newest_first(const void *a, const void *b)
{
    const uint64_t x = ((const struct ckpt_entry *)a)->step;
    const uint64_t y = ((const struct ckpt_entry *)b)->step;

    return x < y ? 1 : x > y ? -1 : 0;
}

static void sort(struct list *l)
{
    uint32_t n = 0;

    if (l->n == 0) {
        return;
    }
    qsort(l->entries, l->n, sizeof(*l->entries), newest_first);
    for (uint32_t i = 0; i < l->n; i++) { /* Of one step there is one, whatever makes place. */
        if (n == 0 || l->entries[n - 1].step != l->entries[i].step) {
            l->entries[n++] = l->entries[i];
        }
    }
    l->n = n;
}

int ckpt_list(const char *dir, const char *job, struct ckpt_entry **entries_out, uint32_t *n_out,
              struct ckpt_why *why)
{
    struct list l = {.entries = NULL};
    struct path p;
    DIR *d = NULL;
    int rc = path_job(&p, dir, job, why);

    if (rc != MU_OK || (rc = open_folder(p.text, &d, why)) != MU_OK) {
        return rc;
    }
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        uint64_t step;

        if (is_checkpoint(dirfd(d), e->d_name, &step) &&
            !add(&l, step, bytes_in(dirfd(d), e->d_name))) {
            rc = ckpt_say(why, MU_ENOMEM, "no memory for a list of the checkpoints in %s", p.text);
            break;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    if (rc != MU_OK) {
        free(l.entries);
        return rc;
    }
    sort(&l);
    *entries_out = l.entries;
    *n_out = l.n;
    return MU_OK;
}

/* ---- jobs ---- */

static bool has_checkpoints(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    bool found = false;
    uint64_t step;

    if (d == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    for (struct dirent *e = readdir(d); e != NULL && !found; e = readdir(d)) {
        found = is_checkpoint(dirfd(d), e->d_name, &step);
    }
    closedir(d);
    return found;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int may_be_job(const struct dirent *e)
{
    return name_is_job(e->d_name);
}

int ckpt_jobs(const char *dir, char **names_out, struct ckpt_why *why)
{
    struct dirent **found = NULL;
    int found_n = scandir(dir, &found, may_be_job, by_name);
    int fd = -1, rc = MU_OK;
    char *names = NULL, *at;

    if (found_n < 0 && errno != ENOENT) {
        return file_failed(why, "read the folder", dir);
    }
    found_n = MAX(found_n, 0);
    names = at = calloc((size_t)found_n + 1, MU_NAME_MAX);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (names == NULL) {
        rc = ckpt_say(why, MU_ENOMEM, "no memory for a list of the jobs in %s", dir);
    }
    for (int i = 0; i < found_n; i++) {
        if (names != NULL && has_checkpoints(fd, found[i]->d_name)) {
            at = stpcpy(at, found[i]->d_name) + 1;
        }
        free(found[i]);
    }
    free(found);
    if (fd >= 0) {
        close(fd);
    }
    if (rc == MU_OK) {
        *names_out = names;
    }
    return rc;
}

/* ---- what can go ---- */

static bool is_left_behind(const char *name, uint64_t newest, const char *tag)
{
    const char *its = "";
    uint64_t step;

    if (!name_is_attempt(name, &step, &its) || strcmp(its, NAME_OLD) == 0) {
        return false;
    }
    return strcmp(its, NAME_GONE) == 0 || step < newest ||
           (step == newest && (tag == NULL || strcmp(its, tag) != 0));
}

static int sweep(const char *folder, uint64_t newest, const char *tag, struct ckpt_why *why)
{
    DIR *d = NULL;
    int rc = open_folder(folder, &d, why);

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        struct path p;

        if (is_left_behind(e->d_name, newest, tag) &&
            path_set(&p, why, "%s/%s", folder, e->d_name) == MU_OK) {
            const int one = remove_folder(p.text, rc == MU_OK ? why : NULL);

            rc = rc == MU_OK ? one : rc;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return rc;
}

/* What an interrupted commit has put aside, once the other is in its place. */
static int sweep_old(const char *dir, const char *job, uint64_t step, struct ckpt_why *why)
{
    struct path old, now;
    int rc = path_attempt(&old, dir, job, step, NAME_OLD, why);

    if (rc == MU_OK) {
        rc = path_step(&now, dir, job, step, why);
    }
    return rc == MU_OK && access(now.text, F_OK) == 0 ? remove_folder(old.text, why) : rc;
}

int ckpt_prune(const char *dir, const char *job, uint64_t step, uint32_t keep_n, uint64_t every,
               const char *tag, struct ckpt_why *why)
{
    struct ckpt_entry *entries = NULL;
    struct path folder;
    uint32_t n = 0, after_n = 0;
    int rc = path_job(&folder, dir, job, why);

    if (rc != MU_OK || (rc = ckpt_list(dir, job, &entries, &n, why)) != MU_OK) {
        return rc;
    }
    while (after_n < n && entries[after_n].step > step) {
        after_n++;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct ckpt_why *words = rc == MU_OK ? why : NULL; /* of the first that fails */
        const bool keep =
            i < (uint64_t)after_n + MAX(keep_n, 1) || (every > 0 && entries[i].step % every == 0);
        const int one = keep ? sweep_old(dir, job, entries[i].step, words)
                             : ckpt_remove(dir, job, entries[i].step, words);

        rc = rc == MU_OK && one != MU_ENOENT ? one : rc;
    }
    if (after_n < n) {
        const int one = sweep(folder.text, entries[after_n].step, tag, rc == MU_OK ? why : NULL);

        rc = rc == MU_OK ? one : rc;
    }
    free(entries);
    return rc;
}
