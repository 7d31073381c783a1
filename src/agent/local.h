/* The unix socket that in-process workers connect to. It lies in a directory of its own that only
 * this user can enter; a peer is of the same user, and its first frame names the start that it is
 * of by the cookie from its environment. One connection per slot, and beside it one that is passed
 * on to the orchestrator's checkpoints (relay.h). What a peer does wrong closes its own connection
 * and nothing else. */
#ifndef AGENT_LOCAL_H
#define AGENT_LOCAL_H

#include "agent/relay.h"
#include "wire/wire.h"

#include <uv.h>

struct local;

struct local_handler {
    /* The process of `slot` is there; local_say() works from now on. */
    void (*attached)(void *data, uint32_t slot, uint32_t pid);
    /* It has loaded libmuster and will join. */
    void (*loaded)(void *data, uint32_t slot);
    /* REPORT, BEAT, FORGET or ASK. What they say of slot and worker is the peer's
     * word: `slot` is right. Borrowed for the call. */
    void (*frame)(void *data, uint32_t slot, const struct wire_header *h,
                  const union wire_any *msg);
    /* The connection is gone; the process may live and come back. */
    void (*detached)(void *data, uint32_t slot);
};

/* Makes the directory, muster-PID-XXXXXX in $XDG_RUNTIME_DIR or muster-UID-PID-XXXXXX in /tmp, and
 * listens; removes those of agents that are dead. handler is borrowed until close. error:
 * NET_ERROR_MAX. */
int local_open(uv_loop_t *loop, const struct local_handler *handler, void *data,
               struct local **l_out, char *error);

/* From now on workers may ask for the checkpoints that the orchestrator keeps. dial is borrowed
 * until close. */
void local_relay(struct local *l, const struct relay_dial *dial);

/* For MUSTER_SOCKET; valid until close. */
const char *local_path(const struct local *l);

/* A process of `slot` is about to start: to be called before keeper_start(). Whoever was attached
 * there before is forgotten. */
void local_expect(struct local *l, uint32_t slot, uint64_t cookie);

/* It has ended: its connection is closed, without `detached`, and nobody can attach any more. */
void local_forget(struct local *l, uint32_t slot);

bool local_is_attached(const struct local *l, uint32_t slot);

/* Queues a frame; dropped in silence if nobody is attached. msg is borrowed. */
void local_say(struct local *l, uint32_t slot, enum wire_type type, const void *msg,
               uint64_t generation, uint64_t request);

/* Removes the directory; no more callbacks; freed from the loop. What is queued may still leave for
 * flush_ms. NULL is fine. */
void local_close(struct local *l, uint32_t flush_ms);

#endif
