/* One task manager, its journal in memory, and workers who do what the test says. Records are
 * applied at once, unless held() keeps them back. */
#ifndef UNIT_CORE_TASKS_KIT_H
#define UNIT_CORE_TASKS_KIT_H

#include "unit/unit.h"

#include "core/tasks.h"
#include "core/tasks_metric.h"

#define KIT_LEASE_MS 1000u

extern struct tasks *kit;
extern uint64_t kit_now_ms;
extern char kit_why[TEXT_MAX_LEN];
extern struct rec_tasks_set kit_set; /* changed by a test before kit_describe() */
extern struct tasks_out kit_out;

int kit_setup(void **state);
int kit_teardown(void **state);

/* Records wait from now on, until kit_release(); or are lost. */
void kit_hold(void);
void kit_release(void);
void kit_lose(void);
uint32_t kit_waiting(enum tasks_kind kind); /* how many */

/* The head in kit_set, and files of n records each, from `first` on, named f0, f1, … */
int kit_describe(uint32_t files_n, uint64_t first, const uint64_t *n);
void kit_train(uint64_t records, uint64_t per_task); /* one file; asserts */

/* The process dies, and the journal is replayed by another; then time passes for the lease. */
void kit_crash(void);
void kit_restart(void);

void kit_tick(uint64_t ms);

/* The state of tasks_given. */
int kit_get(wid worker, struct task *out);
struct task kit_take(wid worker);                        /* asserts that there is one */
uint8_t kit_report(wid worker, const struct task *task); /* its verdict */
uint8_t kit_fail(wid worker, const struct task *task, const char *text);
uint32_t kit_all(wid worker, struct task *out,
                 uint32_t cap); /* takes and reports until none is left */

struct tasks_progress kit_look(void);

/* The same durable state, byte by byte, is what the journal and a snapshot rebuild. */
void kit_check_rebuilt(void);

#endif
