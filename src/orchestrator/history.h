/* The last generations of each job, for those who ask how it came to the present one. Bounded per
 * job in number and in bytes; the newest is always there. What was replayed from the journal has no
 * times: it keeps none. */
#ifndef ORCHESTRATOR_HISTORY_H
#define ORCHESTRATOR_HISTORY_H

#include "core/cluster.h"

#include <jansson.h>

struct history;

struct history_limits {
    uint32_t jobs_n;
    uint32_t generations_n; /* of one job */
    size_t bytes;           /* of one job */
};

int history_open(const struct history_limits *limits, struct history **h_out);
void history_close(struct history *h); /* NULL is fine */

/* Something was noted: it may be the reason of the generation that comes next. */
void history_note(struct history *h, const struct msg_event *e);

/* `r` has been applied to `c`. wall_ms 0: it was replayed. Without memory it is left out. */
void history_record(struct history *h, const struct cluster *c, const struct record *r,
                    uint64_t wall_ms);

/* A new array: those after number `since`, the oldest first. NULL: out of memory. */
json_t *history_json(const struct history *h, const char *job, uint64_t since);

#endif
