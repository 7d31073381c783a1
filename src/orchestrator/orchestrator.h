/* The orchestrator: a driver around core/cluster. Frames become events, effects become frames and
 * journal records. It runs on one libuv loop, by itself (`muster serve`) or inside an agent
 * (`muster run --standalone`). */
#ifndef ORCHESTRATOR_ORCHESTRATOR_H
#define ORCHESTRATOR_ORCHESTRATOR_H

#include "core/cluster.h"
#include "net/listen.h"

struct orchestrator;

struct orchestrator_config {
    struct endpoint listen; /* port 0: any free one */
    const char *data_dir;   /* of the journal; made if missing */
    struct token token;
    struct cluster_config cluster; /* `store` is filled in from the journal */
    uint32_t conns_max;            /* 0: as open files allow */
};

/* Opens the journal, replays it, listens. error (at least STORE_ERROR_MAX) says what happened and
 * what to do. Everything is copied. */
int orchestrator_open(uv_loop_t *loop, const struct orchestrator_config *config,
                      struct orchestrator **o_out, char *error);

uint16_t orchestrator_port(const struct orchestrator *o);

/* Says goodbye to nobody: agents reconnect to the next one. Writes what is queued, then frees. */
void orchestrator_close(struct orchestrator *o);

#endif
