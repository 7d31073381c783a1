/* A connection to the agent of this node. The control thread has one for as long as the run lasts,
 * and never waits on it (control.c). Whoever uses the checkpoints that the orchestrator keeps makes
 * one for each use, and waits on it (depot_line.c); the agent passes its frames on. */
#ifndef RUN_AGENT_LINE_H
#define RUN_AGENT_LINE_H

#include "depot/depot.h"
#include "net/inbox.h"

#define AGENT_SOCKET_MAX 108 /* of a unix socket's name */

/* Where this worker's agent is, and as whom it knows the worker. */
struct agent_place {
    char socket[AGENT_SOCKET_MAX]; /* "": there is no agent */
    struct msg_attach attach;
};

struct agent_line {
    const struct agent_place *place;
    int fd; /* -1: none */
    uint8_t *out;
    size_t out_n, out_cap;
    struct intake in;
};

/* place is borrowed for as long as the line is used. */
void agent_line_init(struct agent_line *l, const struct agent_place *place);
/* Forgets what is queued, too. It can be dialed anew; again is fine. */
void agent_line_close(struct agent_line *l);

/* Connects, and queues the first frame. wait_ms: how long an agent may take to accept, and later to
 * read. MU_ELIMIT: there is no socket; MU_ETIMEDOUT: it does not accept; MU_EPEER, MU_ENOMEM. Says
 * why. */
int agent_line_dial(struct agent_line *l, uint64_t wait_ms, enum attach_why why);

/* Queues a frame. MU_EINVAL: it can't be encoded; MU_ENOMEM. */
int agent_line_say(struct agent_line *l, enum wire_type type, const void *msg, uint64_t request);
/* Sends what is queued. flags: 0 or MSG_DONTWAIT. MU_EAGAIN: the agent does not read now; MU_EPEER:
 * it is gone. errno says why. */
int agent_line_send(struct agent_line *l, int flags);
/* Takes what has come, and does not wait; only when intake_next() has given MU_EAGAIN. MU_EAGAIN:
 * nothing has come. MU_EPEER: the agent has closed it (errno is 0), or it is broken. */
int agent_line_receive(struct agent_line *l);

/* What depot_open() needs (depot_line.c); l must outlive it. */
struct depot_line agent_line_hooks(struct agent_line *l, uint32_t patience_ms);

#endif
