/* A worker's line to the checkpoints that the orchestrator keeps: what it says over its unix socket
 * goes up over a TLS connection that is made for it, and what is answered comes down. Nothing but
 * DEPOT and DEPOT_SAYS, and of the worker's own job. The worker never sees the token, and the
 * agent's own connection, with its leases, is not touched.
 *
 * The end of either side is the end of the other: whoever needs a line makes a new one, and goes on
 * where it was. What is queued is bounded by what may be unanswered (depot/depot.h); a side that
 * does not keep to that is closed. */
#ifndef AGENT_RELAY_H
#define AGENT_RELAY_H

#include "net/conn.h"

struct relay;

/* How the orchestrator is reached. All of it is borrowed for as long as there are relays. */
struct relay_dial {
    uv_loop_t *loop;
    const struct endpoints *to;
    struct tls *tls;
    const char *job;
};

/* Starts to connect. `worker` stays the caller's, who passes on its frames and says when it is
 * gone. `ended` is called once if the orchestrator's side ends, with why, as a person should read
 * it; the relay is freed by then. Not from within these calls. */
int relay_open(const struct relay_dial *dial, struct conn *worker,
               void (*ended)(void *arg, int status, const char *why), void *arg,
               struct relay **r_out);

/* What the worker says. MU_EPROTO: it has no business to; *why_out says which. */
int relay_up(struct relay *r, const struct wire_header *h, const union wire_any *msg,
             const char **why_out);

/* The worker is gone. NULL is fine. */
void relay_close(struct relay *r);

#endif
