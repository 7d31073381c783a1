/* One setting for programs: `muster config --json`, and /v1/jobs/J/config with its streams. */
#ifndef ORCHESTRATOR_SETTING_JSON_H
#define ORCHESTRATOR_SETTING_JSON_H

#include "core/message.h"

#include <jansson.h>

/* A new object: key, version, and value if it is UTF-8, otherwise value_base64; neither if it was
 * removed. NULL: out of memory. */
json_t *setting_json(const struct rec_config *r);

#endif
