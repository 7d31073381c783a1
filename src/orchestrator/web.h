/* The orchestrator's HTTP side: the routes, and what they need to be kept for.
 *
 * All of it runs in the loop's thread; src/http has the other one. It looks into the cluster and
 * asks for changes of settings by settings.c, like everybody: nothing here changes a job. */
#ifndef ORCHESTRATOR_WEB_H
#define ORCHESTRATOR_WEB_H

#include "http/http.h"
#include "orchestrator/orchestrator.h"

/* Every route there is; `muster help http` and docs/http.md come from it. */
extern const struct http_route web_routes[];
extern const uint32_t web_routes_n;

/* "none", "viewer", "operator" */
const char *web_role(enum http_role role);

/* Before the journal is replayed: what has to be kept of it. Nothing if it is not wanted. */
int web_init(struct orchestrator *o, const struct orchestrator_config *config, char *error);

/* Listens. */
int web_start(struct orchestrator *o, const struct orchestrator_config *config, char *error);

/* One line about where. */
void web_announce(const struct orchestrator *o, const struct orchestrator_config *config);

/* After settings_close(): whoever waits has been answered. */
void web_close(struct orchestrator *o);

/* What happens. Each does nothing if there is no HTTP side. */
void web_note(struct orchestrator *o, const struct msg_event *e);
void web_record(struct orchestrator *o, const struct record *r, bool replayed);

#endif
