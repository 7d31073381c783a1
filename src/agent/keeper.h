/* The keeper: a small process between an agent and its workers. It starts them, each in a session
 * of its own, and reports how they end. When the agent is gone, however it died, the keeper kills
 * everything below it, and ends: it is a subreaper, so nothing can get out from under it.
 *
 * This is the agent's half. The other is keeper_main(), the hidden command `muster keeper`. */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

#include "agent/keeper_will.h"

#include <uv.h>

struct keeper;

struct keeper_handler {
    /* The process of `slot` runs as pid. */
    void (*started)(void *data, uint32_t slot, uint64_t cookie, int pid);
    /* It has ended, and everything of its group and session with it. code: 0–127 its own, 128 +
     * signal. A program that can't be started ends with 126 or 127, and `why` says so ("" else). */
    void (*exited)(void *data, uint32_t slot, uint64_t cookie, uint32_t code, const char *why);
    /* The keeper itself was killed; its workers have been killed too, and no `exited` follows. */
    void (*lost)(void *data);
};

/* Starts `exe` ("/proc/self/exe") as keeper on the loop. handler is borrowed until close. */
int keeper_open(uv_loop_t *loop, const char *exe, const struct keeper_handler *handler, void *data,
                struct keeper **k_out);

struct keeper_start {
    uint32_t slot;
    uint64_t cookie;   /* comes back in `exited` */
    char *const *argv; /* found in PATH */
    char *const *env;
    const char *dir; /* NULL: the agent's */
    int out_fd;      /* the worker's stdout and stderr; stay the caller's */
    int err_fd;
    uint64_t marker; /* also in its environment: strays that carry it are its own */
};

/* One process per slot at a time. Everything is borrowed for the call. */
int keeper_start(struct keeper *k, const struct keeper_start *start);

/* SIGTERM to the group now, SIGKILL to all that is left of it after grace_ms; again with a shorter
 * grace shortens it. */
void keeper_stop(struct keeper *k, uint32_t slot, uint32_t grace_ms);

/* What to say when we are killed, instead of what was to be said before; copied. A keeper that is
 * busy gets it, or what is newer by then, as soon as it listens. It is forgotten at keeper_close().
 */
void keeper_set_will(struct keeper *k, const struct keeper_will *will);

/* Kills whatever still runs, and the keeper ends. No more callbacks; freed from the loop. */
void keeper_close(struct keeper *k);

/* `muster keeper FD`: the other half; never returns to the agent's code. */
int keeper_main(int argc, char **argv);

#endif
