/* Checkpoints that the orchestrator keeps, seen from outside: what is asked of it, by frames
 * (DEPOT, DEPOT_SAYS of core/message.h) over a line that somebody else has made. Workers have
 * theirs through their agent (run/depot_line.c), commands by TLS (cli/depot_line.c).
 *
 *   depot.c       asks and answers, several on their way at once; a line that breaks is made again
 *   depot_put.c   a state is put there: chunk by chunk, from where an earlier try has come to
 *   depot_get.c   one is opened like one in a folder, and read chunk by chunk (depot_manifest.c)
 *   depot_list.c  what there is; one is removed
 *
 * Blocking; one thread at a time. What a person should read is put in *why. */
#ifndef DEPOT_DEPOT_H
#define DEPOT_DEPOT_H

#include "ckpt/ckpt.h"
#include "wire/wire.h"

/* How frames come and go. */
struct depot_line {
    /* Makes the connection, anew if there was one. MU_EIO: it can't be made now; MU_EREFUSED. */
    int (*open)(void *arg, struct ckpt_why *why);
    /* MU_EIO: it is broken. */
    int (*say)(void *arg, const struct msg_depot *m, uint64_t request, struct ckpt_why *why);
    /* The next answer; *m_out is valid until the next call. MU_EIO: it is broken. MU_ETIMEDOUT. */
    int (*next)(void *arg, uint32_t wait_ms, uint64_t *request_out,
                const struct msg_depot_says **m_out, struct ckpt_why *why);
    void (*close)(void *arg); /* also if it is closed, or never was open */
    void *arg;
    uint32_t patience_ms; /* for how long a line that broke is made again and again; 0: not once */
};

struct depot;

/* Nothing is connected yet. *line is copied; its arg is the caller's and must outlive the depot.
 * MU_ENOMEM. */
int depot_open(const struct depot_line *line, struct depot **d_out);
void depot_close(struct depot *d); /* closes the line; NULL is fine */

/* `cancel` (may be NULL) is looked at while waiting: MU_EDONE. Applies to all calls below. */
void depot_cancel(struct depot *d, const _Atomic bool *cancel);

/* As ckpt_list(), ckpt_jobs() and ckpt_remove(). MU_EIO: nobody answers. */
int depot_list(struct depot *d, const char *job, struct ckpt_entry **entries_out, uint32_t *n_out,
               struct ckpt_why *why);
int depot_jobs(struct depot *d, char **names_out, struct ckpt_why *why);
int depot_remove(struct depot *d, const char *job, uint64_t step, struct ckpt_why *why);

/* As ckpt_open(); the depot must outlive it, and serves nothing else while it is being read. */
int depot_get(struct depot *d, const char *job, uint64_t step, struct ckpt **c_out,
              struct ckpt_why *why);

struct depot_copy {
    const struct ckpt_mark *mark; /* its job and step are the checkpoint's */
    const struct ckpt_part *parts;
    uint32_t parts_n;
    const uint8_t *data; /* all parts, one after another: `bytes` */
    uint64_t bytes;
    bool zstd;
    uint32_t keep; /* as ckpt_prune() */
    uint64_t keep_every;
};

/* It is safe there when this returns MU_OK. What an earlier, broken try has left there is not sent
 * again. MU_ELIMIT: there is no room for it; MU_EIO, MU_ECORRUPT, MU_EREFUSED, MU_ENOMEM. */
int depot_put(struct depot *d, const struct depot_copy *copy, struct ckpt_why *why);

#endif
