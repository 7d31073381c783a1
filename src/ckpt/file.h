/* Between the files of this folder: names, paths, words for a person, and the few system calls that
 * checkpoints are made of. Before each that another process could see the effect of there is a
 * HOOK(). */
#ifndef CKPT_FILE_H
#define CKPT_FILE_H

#include "ckpt/ckpt.h"

/* ---- words ---- */

/* "can't WHAT PATH: " and what errno means, with what to do about it; gives its status. */
int file_failed(struct ckpt_why *why, const char *what, const char *path);

/* ---- names ---- */

/* [A-Za-z0-9._-], not beginning with a dot. */
bool name_is_job(const char *name);
bool name_is_tag(const char *tag);
/* As mu_state() has it: no blanks, nothing that can't be seen. */
bool name_is_part(const char *name);

/* "step-000000001200" */
bool name_is_step(const char *name, uint64_t *step_out);
/* ".step-000000001200.TAG"; what a checkpoint is called that makes place, or goes, is one too. */
bool name_is_attempt(const char *name, uint64_t *step_out, const char **tag_out);

/* No tag of an attempt: they have no "_". */
#define NAME_OLD "_old"   /* put aside until another of its step is in its place */
#define NAME_GONE "_gone" /* being taken away */

/* ---- paths ---- */

struct path {
    char text[CKPT_PATH_MAX];
};

/* MU_EINVAL: too long. */
int path_set(struct path *p, struct ckpt_why *why, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Checks the job's name too. */
int path_job(struct path *p, const char *dir, const char *job, struct ckpt_why *why);
int path_step(struct path *p, const char *dir, const char *job, uint64_t step,
              struct ckpt_why *why);
/* Of an attempt; or, with NAME_OLD and NAME_GONE, of what makes place. */
int path_attempt(struct path *p, const char *dir, const char *job, uint64_t step, const char *tag,
                 struct ckpt_why *why);
/* The attempt's folder; and what must hold of every target. */
int path_target(struct path *p, const struct ckpt_target *t, struct ckpt_why *why);

/* ---- files ----
 *
 * Those without `why` give 0, or -1 and errno. */

/* One, if it is not there. */
int file_mkdir(const char *path, struct ckpt_why *why);
/* With those above it, and on the disk. */
int file_mkdirs(const char *path, struct ckpt_why *why);
int file_create(const char *path);
/* To read and to write what is there; made if it is not. */
int file_open(const char *path);
int file_truncate(int fd, uint64_t n);
int file_write(int fd, const void *data, size_t n);
/* What is written or read goes past the page cache from now on, or no more. Then all must be whole
 * pages of FILE_PAGE bytes, in memory too. False: it can't. */
#define FILE_PAGE ((size_t)4096) /* what any disk is content with */
bool file_direct(int fd, bool on);
int file_sync(int fd);
int file_rename(const char *from, const char *to);
/* Each takes the other's name at one moment. EINVAL, ENOSYS: not in this file system. */
int file_swap(const char *a, const char *b);
int file_unlink(int dir_fd, const char *name, bool folder);

int file_sync_folder(const char *path, struct ckpt_why *why);
/* Written, on the disk if `durable`, and only then seen under its name. */
int file_put(const char *path, const void *data, size_t n, bool durable, struct ckpt_why *why);
/* All of it, or MU_ELIMIT (longer than max), MU_ENOENT, MU_EIO, MU_ENOMEM. *data_out: free(). */
int file_get(const char *path, size_t max, char **data_out, size_t *n_out, struct ckpt_why *why);

#endif
