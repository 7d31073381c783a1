/* The answer to a question for the status, as lines for people. */
#ifndef CLI_STATUS_TEXT_H
#define CLI_STATUS_TEXT_H

#include "base/base.h"

#include <jansson.h>

/* The jobs in an answer about one of them or about all: a new array, the caller's. */
json_t *status_jobs(json_t *answer);

/* One job, on stdout. Fields that it does not have are left out. */
void status_print(const json_t *job, bool colours);

/* The orchestrator's own part of an answer about all, on stdout. */
void status_print_self(const json_t *self);

#endif
