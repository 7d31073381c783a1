/* A worker's line to the checkpoints that the orchestrator keeps: a second connection to its agent,
 * which passes frames on (agent/relay.h). Blocking, one thread at a time; made for each use, and
 * closed after it. */
#ifndef RUN_DEPOT_LINE_H
#define RUN_DEPOT_LINE_H

#include "depot/depot.h"
#include "run/reader.h"

#define DEPOT_SOCKET_MAX 108 /* of a unix socket's name */

/* Where this worker's agent is, and as whom it knows the worker. */
struct depot_place {
    char socket[DEPOT_SOCKET_MAX]; /* "": there is no agent */
    struct msg_attach attach;
};

struct agent_line {
    const struct depot_place *place;
    int fd; /* -1: none */
    struct reader in;
    uint8_t *out;
    size_t out_cap;
    union wire_any msg;
};

/* place is borrowed until close. */
void agent_line_init(struct agent_line *l, const struct depot_place *place);
void agent_line_close(struct agent_line *l);

/* What depot_open() needs; l must outlive it. */
struct depot_line agent_line_hooks(struct agent_line *l, uint32_t patience_ms);

#endif
