/* The orchestrator: a driver around core/cluster. Frames become events, effects become frames and
 * journal records. It runs on one libuv loop, by itself (`muster serve`) or inside an agent
 * (`muster run --standalone`). */
#ifndef ORCHESTRATOR_ORCHESTRATOR_H
#define ORCHESTRATOR_ORCHESTRATOR_H

#include "core/cluster.h"
#include "net/listen.h"

/* What people ask, and how it is answered; `request` is the frame's.
 *
 *   ADMIN         one ANSWER, once its record is durable or could not be written. A drain without a
 *                 job finds the only one that has such a node.
 *   ASK status    ANSWERs with pieces of one JSON text, all but the last with `more`: of a job, or
 *                 of all ("jobs") with the orchestrator itself ("orchestrator").
 *   ASK events    ANSWER with `more`, its text says if some are no longer kept; EVENT frames (of no
 *                 request); ANSWER.
 *   ASK follow    the same without an end. */

struct orchestrator;

/* The HTTP side (orchestrator/web.h). */
struct web_config {
    bool wanted;
    struct endpoint listen; /* port 0: any free one */
    const char *cert_file;  /* NULL: plain HTTP, and only on loopback */
    const char *key_file;
    const char *const *hosts; /* names of this machine that are good in Host */
    uint32_t hosts_n;
};

struct orchestrator_config {
    struct endpoint listen; /* port 0: any free one */
    const char *data_dir;   /* of the journal and the checkpoints; made if missing */
    const char *store;      /* where the journal is, by URL; NULL: on SQLite, in data_dir */
    struct token token;
    struct cluster_config cluster; /* `store` is filled in from the journal */
    uint32_t conns_max;            /* 0: as open files allow */
    uint64_t ckpt_quota;           /* bytes of checkpoints to keep; 0: as the disk allows */
    struct web_config web;
    bool quiet; /* what is no warning is logged for those only who want to see everything */
};

/* Opens the journal, replays it, listens. error (at least STORE_ERROR_MAX) says what happened and
 * what to do. Everything is copied. After an error too the loop must run until nothing is left. */
int orchestrator_open(uv_loop_t *loop, const struct orchestrator_config *config,
                      struct orchestrator **o_out, char *error);

uint16_t orchestrator_port(const struct orchestrator *o);
uint16_t orchestrator_http_port(const struct orchestrator *o); /* 0: it has none */

/* Says goodbye to nobody: agents reconnect to the next one. Writes what is queued, then frees. */
void orchestrator_close(struct orchestrator *o);

#endif
