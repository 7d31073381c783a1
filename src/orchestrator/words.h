/* One vocabulary for logs, event streams and status. */
#ifndef ORCHESTRATOR_WORDS_H
#define ORCHESTRATOR_WORDS_H

#include "core/cluster.h"

#define WORDS_LINE_MAX 640
#define WORDS_TIME_MAX 32

/* "joined", "lost" …; "unknown" for a kind of a newer version. */
const char *words_kind(unsigned kind);

/* One line for a person, without time and end: "job 'default': node 'a' joined as n3". */
void words_event(const struct msg_event *e, char *buf, size_t cap);

/* "2026-11-16T03:55:46.123Z" */
void words_time(uint64_t wall_ms, char text[WORDS_TIME_MAX]);

double words_metric(const struct metric *m);

/* "loss 0.4321, accuracy 0.8765"; cut after a whole one when cap is too small. */
void words_metrics(const struct metric *metrics, uint32_t n, char *buf, size_t cap);

/* fresh, boundary, failure */
const char *words_generation(unsigned kind);

/* "n3.0#2" */
void words_worker(wid w, char *buf, size_t cap);

const char *words_role(unsigned role);
const char *words_mode(unsigned mode);

/* registered, warming, warm, member, leaving, gone */
const char *words_slot(const struct node_look *n, const struct slot_look *s);
const char *words_node(const struct node_look *n);

/* forming, running, holding, ending, done, failed; why is one sentence, or "". */
const char *words_job(const struct job_look *j, char *why, size_t cap);

#endif
