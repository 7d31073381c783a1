/* One event of the orchestrator for programs: `muster events --json`, /v1/events, and the data of
 * its streams are all made here. */
#ifndef ORCHESTRATOR_EVENT_JSON_H
#define ORCHESTRATOR_EVENT_JSON_H

#include "core/message.h"

#include <jansson.h>

#define EVENT_ID_MAX 64

/* "5f0c19ab77de1234-7": `life` tells this life of the orchestrator from others. */
void event_id(const char *life, uint64_t number, char id[EVENT_ID_MAX]);

/* A new object, {"step": 41, "loss": 0.4321}; null for a number that is none. NULL: out of memory.
 */
json_t *metrics_json(const struct metric *metrics, uint32_t n, uint64_t step);

/* A new object; NULL: out of memory. What an event has not is null in it. `id` is left out if life
 * is NULL. */
json_t *event_json(const struct msg_event *e, const char *life);

#endif
