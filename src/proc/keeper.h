/* The keeper: a small process between an owner and the processes that it wants to run. It starts
 * them, each in a session of its own, and reports how they end. When the owner is gone, however it
 * died, the keeper kills everything below it, says the owner's last word, and ends. It is a
 * subreaper, so nothing can get out from under it.
 *
 * This is the owner's half, on the owner's loop. The other half is keeper_main(), the hidden
 * command `muster keeper`. */
#ifndef PROC_KEEPER_H
#define PROC_KEEPER_H

#include "base/base.h"

#include <uv.h>

#define KEEPER_MAX 256       /* processes at a time */
#define KEEPER_WHY_MAX 256   /* of a text, terminator included */
#define KEEPER_WILL_MAX 4096 /* bytes */

struct keeper;

struct keeper_handler {
    /* The process of that start runs as pid. */
    void (*started)(void *data, uint64_t cookie, int pid);
    /* It has ended, and everything of its group and session with it. code: 0–127 its own, 128 +
     * signal. A program that can't be started ends with 126 or 127, and `why` says so ("" else). */
    void (*exited)(void *data, uint64_t cookie, uint32_t code, const char *why);
    /* The keeper itself was killed; its processes have been killed too, and no `exited` follows. */
    void (*lost)(void *data);
};

/* Starts `exe` ("/proc/self/exe") as keeper on the loop. handler is borrowed until close. */
int keeper_open(uv_loop_t *loop, const char *exe, const struct keeper_handler *handler, void *data,
                struct keeper **k_out);

struct keeper_start {
    uint64_t cookie;   /* random, not 0: names this start, and marks what it leaves behind */
    char *const *argv; /* found in PATH */
    char *const *env;  /* without KEEPER_MARKER, which is added */
    const char *dir;   /* NULL: the owner's */
    int out_fd;        /* its stdout and stderr; stay the caller's */
    int err_fd;
};

/* Everything is borrowed for the call. MU_EBUSY: a process of that cookie runs; MU_ELIMIT: too many
 * processes, or descriptors; MU_EAGAIN, MU_ENOMEM, MU_EIO (the keeper is gone). */
int keeper_start(struct keeper *k, const struct keeper_start *start);

/* SIGTERM to the group now, SIGKILL to all that is left of it after grace_ms (0: at once); again
 * with a shorter grace shortens it. Nothing happens if no process of that cookie runs. */
void keeper_stop(struct keeper *k, uint64_t cookie, uint32_t grace_ms);

/* What the keeper gives to its `execute` when the owner is killed, instead of what it was given
 * before; copied, at most KEEPER_WILL_MAX bytes. A keeper that is busy gets it, or what is newer by
 * then, as soon as it listens. It is forgotten at keeper_close(). */
void keeper_set_will(struct keeper *k, const void *will, size_t n);

/* Kills whatever still runs, and the keeper ends. No more callbacks; freed from the loop. NULL is
 * fine. */
void keeper_close(struct keeper *k);

/* `muster keeper FD`: the other half; never returns to the owner's code. `execute` is called with
 * the will, if there is one, once nothing is left; nobody waits for it. */
int keeper_main(int argc, char **argv, void (*execute)(const void *will, size_t n));

#endif
