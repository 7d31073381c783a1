/* The part of the vocabulary that is about data tasks: records, and what they are made of.
 * core/tasks.h says what they mean. */
#ifndef CORE_MESSAGE_TASKS_H
#define CORE_MESSAGE_TASKS_H

#include "core/message.h"

#define TASKS_SET_MAX 256  /* of a data set's name, terminator included */
#define TASKS_FILE_MAX 512 /* of a file's or shard's */
#define TASKS_PART_MAX 64  /* files described at once */
#define TASKS_REPORT_MAX 256
#define TASKS_WINDOW 16 /* reports of a worker that may be without an answer */
#define TASKS_METRICS_MAX 16
#define TASKS_METRIC_WORDS 38   /* of a mean, as it is kept */
#define TASKS_COUNTS_MAX 7168   /* of all histograms of an evaluation */
#define TASKS_VALUES_MAX 65536u /* bytes: all of that, in words of 8 */
#define TASKS_BITS_MAX 32768u   /* bytes of a bitmap, in words of 8 */
#define TASKS_WAITING_MAX 256   /* evaluations */
#define TASKS_TOOK_N 64         /* durations are counted by half octaves of milliseconds */

enum task_kind { TASK_TRAINING, TASK_EVALUATION, TASK_PREDICTION, TASK_SAVE, TASK_END, TASK_KINDS };
#define TASK_SETS 3 /* the first three kinds have a data set each */

/* In which order a task's records are to be read: as they lie; the task's own, mixed; or a part of
 * all records of its file, mixed. */
enum task_shuffle { TASK_SHUFFLE_NONE, TASK_SHUFFLE_OWN, TASK_SHUFFLE_FILE, TASK_SHUFFLE_N };

/* The head of a description. */
struct rec_tasks_set {
    char job[NAME_MAX_LEN];
    uint8_t kind; /* one of the first TASK_SETS */
    char name[TASKS_SET_MAX];
    uint32_t files_n;
    uint64_t per_task;     /* records */
    int32_t epochs;        /* 0 or less: without end */
    uint64_t seed;         /* of all that is mixed */
    uint8_t shuffle_tasks; /* the order of the tasks, in each epoch anew */
    uint8_t shuffle;       /* enum task_shuffle */
    uint8_t overlap;       /* the next epoch begins when all of the last one is given out */
    uint8_t loose;         /* training: given out at most once, nothing is tracked */
    uint8_t copies;        /* the last slow tasks are given to a second worker too */
    uint8_t at_once;       /* evaluation: once, without being asked */
    uint8_t save;          /* training: then a task of TASK_SAVE … */
    uint8_t end;           /* … and one of TASK_END, when all else is done */
    uint32_t attempts;     /* a task that failed so often is parked … */
    uint32_t losses; /* … as is one that was lost with its worker, or late, so often; 0: never */
    uint64_t max_steps;   /* training ends at this version of the model; 0: it does not */
    uint64_t eval_steps;  /* training: evaluate whenever the version is a multiple; 0: never */
    uint32_t timeout_ms;  /* a task may take so long … */
    uint32_t slow_factor; /* … or so many times what slow ones took, if that is more */
    /* Training goes on where a checkpoint was taken: so many tasks of this epoch and of the next
     * are done, and a RESUME says which; digest: of the description that they belong to. */
    uint64_t resume_epoch;
    uint32_t resume_done;
    uint32_t resume_next;
    uint64_t resume_version;
    uint64_t resume_digest;
};

struct task_file {
    char name[TASKS_FILE_MAX];
    uint64_t first; /* number of its first record */
    uint64_t n;
};

struct rec_tasks_files {
    char job[NAME_MAX_LEN];
    uint8_t kind;
    uint64_t head; /* tasks_head_digest() of the description that they belong to */
    uint32_t at;   /* number of the first of these files */
    uint32_t files_n;
    struct task_file *files;
};

/* A new life of the task manager: the upper part of the attempts that it gives out. */
struct rec_tasks_start {
    char job[NAME_MAX_LEN];
    uint32_t start;
};

/* A pass over a data set is open: an epoch, an evaluation, … */
struct rec_tasks_pass {
    char job[NAME_MAX_LEN];
    uint8_t kind;
    uint64_t epoch;
    uint64_t version;
    uint64_t first_id;   /* of its tasks; the others follow */
    uint32_t start;      /* that opened it */
    uint8_t kept;        /* snapshots: as it was … */
    uint32_t parked_n;   /* … with so many parked, */
    uint32_t settled_to; /* … and all settled before this one */
};

/* Tasks of a pass that are settled: in a snapshot, or (training) in a checkpoint. */
struct rec_tasks_bits {
    char job[NAME_MAX_LEN];
    uint8_t kind;
    uint64_t epoch;
    uint32_t at; /* the first word */
    uint32_t words_n;
    uint8_t *words; /* little-endian, 8 bytes each */
};

struct task_done {
    uint64_t id;
    uint32_t took_ms; /* 0: not known */
    uint32_t failed_records;
};

#define TASKS_METRIC_MEAN 0 /* a sum (f64) and a count */
#define TASKS_METRIC_AUC 1  /* counts of positives by threshold, then of negatives */
#define TASKS_METRIC_TYPES 2

struct task_metric {
    char name[METRIC_NAME_MAX];
    uint8_t type;
    uint32_t n; /* values */
};

struct rec_tasks_done {
    char job[NAME_MAX_LEN];
    wid worker;
    uint64_t number; /* of its report */
    uint64_t acked;  /* answers up to this one have reached it */
    uint32_t items_n;
    struct task_done *items;
    uint32_t metrics_n; /* of an evaluation's only task here */
    struct task_metric *metrics;
    uint32_t values_n;
    uint8_t *values; /* words of all metrics, in order */
};

struct rec_tasks_parked {
    char job[NAME_MAX_LEN];
    uint64_t id;
    uint32_t failures;
    uint32_t losses;
    wid worker; /* the last one to fail */
    char text[TEXT_MAX_LEN];
    uint8_t kept; /* snapshots: it was parked before, and its pass may be over */
    uint8_t kind;
    uint64_t epoch;
    uint32_t file;
    uint64_t first;
    uint64_t end;
};

/* A worker that will not be heard again: who won what is forgotten. */
struct rec_tasks_gone {
    char job[NAME_MAX_LEN];
    wid worker;
};

/* An evaluation of this version was asked for. */
struct rec_tasks_eval {
    char job[NAME_MAX_LEN];
    uint64_t version;
};

/* The steps are done: what is left of training is not. */
struct rec_tasks_cleared {
    char job[NAME_MAX_LEN];
    uint64_t version;
};

/* Tasks of a loose pass that may be given out from now on, and never again. */
struct rec_tasks_reserve {
    char job[NAME_MAX_LEN];
    uint64_t first_id;
    uint32_t n;
};

struct task_value {
    uint64_t value;
};

/* ---- of snapshots alone ---- */

struct rec_tasks_state {
    char job[NAME_MAX_LEN];
    uint32_t start;
    uint64_t next_id;
    uint64_t next_epoch;
    uint64_t asked;
    uint64_t version;
    uint8_t cleared;
    uint8_t once; /* kinds whose only pass was opened, as bits */
    uint32_t waiting_n;
    struct task_value *waiting; /* evaluations */
    uint64_t parked_n;
};

struct rec_tasks_totals {
    char job[NAME_MAX_LEN];
    uint8_t kind;
    uint64_t done;
    uint64_t records;
    uint64_t failed_records;
    uint64_t parked;
    uint32_t took_n;
    struct task_value *took;
};

struct task_won {
    wid worker;
    uint64_t number;
    uint64_t id;
};

struct rec_tasks_won {
    char job[NAME_MAX_LEN];
    uint32_t items_n;
    struct task_won *items;
};

/* Of the evaluation that is open, as they are kept; or of one that is over: a word for each. */
struct rec_tasks_metrics {
    char job[NAME_MAX_LEN];
    uint8_t over;
    uint64_t version;
    uint32_t metrics_n;
    struct task_metric *metrics;
    uint32_t values_n;
    uint8_t *values;
};

#endif
