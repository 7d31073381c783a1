/* The task manager of one job: data sets cut into tasks [first, end), which workers take, work on
 * and report, each at its own pace. A task's result counts once; none is lost; one that fails again
 * and again is parked and named.
 *
 * A data set is a list of files, described once for training, evaluation and prediction each. A
 * pass goes over one: an epoch, an evaluation of one version of the model, the prediction; the
 * tasks of saving the model and of the end of training are passes of one task. A pass of any number
 * of tasks is an interval of ids and a bitmap, in the order in which they are given out: what a
 * call costs does not depend on the number of tasks.
 *
 * As in the cluster, what is durable changes in tasks_apply() alone, once a record is durable: what
 * was described, what is done (and who won), what is parked, which passes are open. Who works on
 * what is not journaled: an attempt is the journaled number of this life of the manager and a
 * counter, so it names one giving out for ever. After a start workers claim what they hold; what
 * nobody has claimed is given out when a lease has passed.
 *
 *     todo --get--> doing --report--> on its way to the journal --applied--> done
 *              \<-- failed, lost, late, not written --/        (or parked)
 *
 * Time comes in with each call and stands still between them; a jump (the process was stopped)
 * counts as JUMP_MS. All memory is taken at tasks_init(). Not for several threads. */
#ifndef CORE_TASKS_H
#define CORE_TASKS_H

#include "core/message_tasks.h"

/* Records: numbers of wire/table.def, where they are for ever. */
enum tasks_kind {
    TASKS_SET = 336,
    TASKS_FILES,
    TASKS_START,
    TASKS_PASS,
    TASKS_BITS,
    TASKS_DONE,
    TASKS_PARKED,
    TASKS_GONE,
    TASKS_EVAL,
    TASKS_CLEARED,
    TASKS_RESERVE,
    TASKS_STATE,
    TASKS_TOTALS,
    TASKS_WON,
    TASKS_METRICS,
    TASKS_LAST = 367 /* up to here the numbers are ours */
};

struct tasks_record {
    enum tasks_kind kind;
    union {
        struct rec_tasks_set set;
        struct rec_tasks_files files;
        struct rec_tasks_start start;
        struct rec_tasks_pass pass;
        struct rec_tasks_bits bits;
        struct rec_tasks_done done;
        struct rec_tasks_parked parked;
        struct rec_tasks_gone gone;
        struct rec_tasks_eval eval;
        struct rec_tasks_cleared cleared;
        struct rec_tasks_reserve reserve;
        struct rec_tasks_state state;
        struct rec_tasks_totals totals;
        struct rec_tasks_won won;
        struct rec_tasks_metrics metrics;
    } u;
};

/* Where records go; borrowed until put() returns, which must not call back. To a journal:
 * tasks_apply() follows once one is durable, in this order, or tasks_failed() if it never will be.
 */
struct tasks_out {
    void (*put)(struct tasks_out *to, const struct tasks_record *r);
};

struct tasks_limits {
    uint32_t tasks_n;     /* of a pass: a bit each, in 4 bitmaps */
    uint32_t files_n;     /* of a data set */
    uint32_t names_bytes; /* of their names */
    uint32_t held_n;      /* tasks given out, or back and not given out again */
    uint32_t workers_n;
    uint32_t won_n;    /* results whose workers don't know yet that they count */
    uint32_t parked_n; /* that are listed; more are counted */
};
struct tasks_limits tasks_limits_default(void);

struct tasks;

/* MU_EINVAL: no name, or a limit that is 0 or too large; MU_ENOMEM. */
int tasks_init(const char *job, const struct tasks_limits *limits, struct tasks **t_out);
void tasks_close(struct tasks *t); /* NULL is fine */

/* As new, for another run of the job; but no id or attempt is used again. */
void tasks_reset(struct tasks *t);
size_t tasks_memory(const struct tasks *t);

/* The journal was replayed: a new life. Nothing is given out until its record is durable, and for
 * lease_ms only what was claimed, or is of passes that this life has opened. */
void tasks_start(struct tasks *t, uint64_t now_ms, uint32_t lease_ms);

/* Time-outs, and whatever is due: call it after tasks_apply() and tasks_failed() too. */
void tasks_tick(struct tasks *t, uint64_t now_ms, struct tasks_out *out);
uint64_t tasks_deadline(const struct tasks *t); /* of a tick; UINT64_MAX: none */

/* MU_ECORRUPT: it can't follow the state; MU_ELIMIT: there is no room. Nothing has changed then. */
int tasks_apply(struct tasks *t, const struct tasks_record *r);
void tasks_failed(struct tasks *t, const struct tasks_record *r);

/* The next few of the records that rebuild the state, from *at = zeros; true if there are more. The
 * state must not change in between (the journal's shadow does not). Two with the same state say the
 * same. */
struct tasks_cursor {
    uint32_t part;
    uint32_t at;
};
bool tasks_dump(struct tasks *t, struct tasks_cursor *at, struct tasks_out *out);

/* ---- what the data is ---- */

/* With defaults for all but its name, kind, files_n and per_task. */
struct rec_tasks_set tasks_set(enum task_kind kind, const char *name, uint32_t files_n,
                               uint64_t per_task);

/* Says what a data set is: first its head, then all files in parts of any size up to
 * TASKS_PART_MAX. What is there already and the same is fine. MU_OK and *pending: a record was
 * handed out; otherwise all of it is there. Before its last file a description is replaced by
 * another one; after it the first one stays:
 *
 *   MU_ECONFLICT  it is another one; why says in what
 *   MU_EINVAL     it makes no sense
 *   MU_ELIMIT     too many files or tasks, or names too long
 *   MU_EAGAIN     a part of it is being written */
int tasks_describe(struct tasks *t, const struct rec_tasks_set *set, struct tasks_out *out,
                   bool *pending, char *why, size_t cap);
int tasks_files(struct tasks *t, const struct rec_tasks_files *part, struct tasks_out *out,
                bool *pending, char *why, size_t cap);
/* … and last, if its head has a resume_done, which tasks those were. */
int tasks_resume(struct tasks *t, const struct rec_tasks_bits *part, struct tasks_out *out,
                 bool *pending, char *why, size_t cap);
uint64_t tasks_head_digest(const struct rec_tasks_set *set);

/* For a checkpoint: the head from which training goes on as it is now, and the bits for
 * tasks_resume(), part by part: true if there are more. Parked tasks are to be tried again.
 * MU_ENOENT: nothing was described. words: room for TASKS_BITS_MAX, of which the part is made. */
int tasks_export(const struct tasks *t, struct rec_tasks_set *set_out);
bool tasks_export_bits(const struct tasks *t, struct tasks_cursor *at, uint8_t *words,
                       struct rec_tasks_bits *part_out);

/* ---- workers ---- */

struct task {
    uint64_t id; /* from 1, in the job */
    uint64_t attempt;
    uint8_t kind;
    uint64_t epoch;
    uint64_t version; /* of the model, for evaluation */
    const char *file; /* until the job is reset */
    uint64_t first, end;
    /* Of its records, if they are mixed: tasks_record(). */
    uint64_t mixed_n; /* 0: they are not */
    uint64_t seed, base, at;
};

/* The number of a task's k-th record to be read, k < end - first. */
uint64_t tasks_record(const struct task *task, uint64_t k);

enum tasks_state { TASKS_GIVEN, TASKS_WAIT, TASKS_FINISHED };

struct tasks_given {
    uint8_t state;    /* WAIT: ask again, at once if a task comes back */
    uint64_t version; /* of the model, as far as it is known */
    uint64_t parked_n;
    uint32_t tasks_n;
};

/* Up to n tasks for a worker. `number` grows with each question of this worker; a repeated one has
 * the answer that it had. MU_ESTALE: a later one was answered already. */
int tasks_get(struct tasks *t, wid worker, uint64_t number, uint32_t n, uint64_t now_ms,
              struct tasks_out *out, struct task *tasks, struct tasks_given *given);

/* A level: all that a worker holds, having had the answers to its questions up to `got`. What it
 * was given in them and does not hold goes back; what it holds and nobody was given since is its.
 */
struct task_held {
    uint64_t id;
    uint64_t attempt;
};
void tasks_claim(struct tasks *t, wid worker, uint64_t got, const struct task_held *held,
                 uint32_t held_n, uint64_t now_ms);

/* A worker is lost: what it holds is given to others. It may come back. */
void tasks_lost(struct tasks *t, wid worker, struct tasks_out *out);
/* It will never be heard again: what is kept for it is forgotten, too. */
void tasks_gone(struct tasks *t, wid worker, struct tasks_out *out);

struct task_item {
    uint64_t id;
    uint64_t attempt;
    uint32_t failed_records; /* that were skipped */
    bool failed;
};

struct tasks_report {
    wid worker;
    uint64_t number; /* from 1, at most acked + TASKS_WINDOW; the same when it is repeated */
    uint64_t acked;  /* the answers to all up to this one have reached the worker */
    uint32_t items_n;
    const struct task_item *items;
    const char *text;   /* why they failed; may be NULL */
    uint32_t metrics_n; /* of an evaluation: one task then */
    const struct task_metric *metrics;
    uint32_t values_n;
    const uint8_t *values;
};

enum task_verdict {
    TASK_COUNTED, /* its result counts: this one and no other */
    TASK_NOTED,   /* that it failed */
    TASK_STALE,   /* refused: it was given to another since, or never to this one so */
    TASK_TAKEN,   /* refused: another result counts */
    TASK_IS_PARKED,
    TASK_OVER, /* refused: training has ended, or there is no such task */
    TASK_VERDICTS
};
const char *task_verdict_text(enum task_verdict v);

/* MU_OK: a verdict for each item. With *pending they are true once the DONE record that was handed
 * out is applied, and are not to be said before. Otherwise nothing has changed: MU_EAGAIN: ask
 * again, something of it is being written; MU_EINVAL. */
int tasks_report(struct tasks *t, const struct tasks_report *report, uint64_t now_ms,
                 struct tasks_out *out, uint8_t *verdicts, bool *pending, char *why, size_t cap);

/* The answers to all reports up to this one have reached a worker, as it says with its questions,
 * too: it costs a record only when there is little room left for more results. */
void tasks_acked(struct tasks *t, wid worker, uint64_t acked, struct tasks_out *out);

/* ---- evaluation ---- */

/* The model has reached a version (only more is news): an evaluation may be due, training may end.
 */
void tasks_version(struct tasks *t, uint64_t version, struct tasks_out *out);

/* Evaluate this version. MU_ESTALE: it is not newer than the last; MU_ENOENT: there is no data for
 * it; MU_ELIMIT: too many wait. */
int tasks_evaluate(struct tasks *t, uint64_t version, struct tasks_out *out, char *why, size_t cap);

#define TASKS_RESULTS_MAX 16

struct tasks_result {
    uint64_t version;
    uint32_t metrics_n;
    struct {
        char name[METRIC_NAME_MAX];
        double value;
    } metrics[TASKS_METRICS_MAX];
};

/* The i-th of the last results, 0 the newest; NULL. */
const struct tasks_result *tasks_result(const struct tasks *t, uint32_t i);

/* ---- looking in ---- */

struct tasks_progress {
    struct {
        uint64_t total; /* of the passes that are open */
        uint64_t todo, doing, settled;
        uint64_t done, records, failed_records, parked; /* ever */
        uint32_t timeout_ms;
    } kinds[TASK_KINDS];
    uint64_t epoch; /* the oldest that is open, or the next */
    int32_t epochs;
    uint64_t version;
    uint64_t evaluating; /* 0: none */
    uint32_t waiting_n;
    uint64_t given_n, again_n; /* in this life */
    uint64_t parked_n;
    bool described, finished;
};
void tasks_look(const struct tasks *t, struct tasks_progress *out);

/* One line for people: how far it is, and what is wrong. */
void tasks_say(const struct tasks *t, char *text, size_t cap);

/* The i-th of the listed parked tasks, or NULL; its file in *file_out. */
const struct rec_tasks_parked *tasks_parked(const struct tasks *t, uint32_t i,
                                            const char **file_out);

#endif
