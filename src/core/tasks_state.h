/* The inside of a task manager, shared by core/tasks*.c and by nobody else. */
#ifndef CORE_TASKS_STATE_H
#define CORE_TASKS_STATE_H

#include "core/mutation.h"
#include "core/order.h"
#include "core/tasks.h"
#include "core/tasks_metric.h"
#include "core/tasks_table.h"

#include <inttypes.h>

#define JUMP_MS 15000u    /* of the clock in one step: more, and the process was stopped */
#define SAMPLES_MIN 8u    /* durations, before slow ones are known */
#define SAMPLES_MAX 4096u /* then they count half */
#define SLOW_PERCENT 95u
#define BLOCK_MAX 1024u /* tasks of a loose pass reserved at once */
#define COPIES_LOOKED_AT 64u

/* ---- data sets ---- */

struct file {
    uint32_t name; /* in names */
    uint32_t task; /* the first of its tasks; those of an empty one are none */
    uint64_t first;
    uint64_t n;
};

struct set {
    bool there; /* a head */
    bool pending;
    struct rec_tasks_set head;
    struct file *files;
    char *names;
    uint32_t files_n;
    uint32_t names_n;
    uint32_t tasks_n;
    uint64_t digest; /* of the files so far */
};

/* ---- passes ---- */

/* Two epochs may be open; of all else one. */
enum {
    SLOT_EPOCH,
    SLOT_OTHER_EPOCH,
    SLOT_EVALUATION,
    SLOT_PREDICTION,
    SLOT_SAVE,
    SLOT_END,
    SLOTS_N
};
#define SLOTS_WIDE 4 /* the others are of one task */

struct pass {
    bool open;
    uint8_t kind;
    uint64_t epoch, version;
    uint64_t first_id;
    uint32_t start;
    uint32_t n;
    uint32_t settled_n; /* done or parked: their bits are 1 */
    uint32_t parked_n;
    uint64_t *bits; /* by position: the order in which they are given out */
    struct order order;
    /* Of this life. */
    bool opening;                 /* a record of the next in this slot is on its way, */
    bool filling;                 /* … or one that changes this one */
    uint32_t next;                /* the first position that was not looked at */
    uint32_t block_at, block_end; /* loose: reserved and to be given out */
    struct chain back;            /* entries */
};

/* ---- what this life knows of tasks that are given out ---- */

enum { ENTRY_DOING, ENTRY_BACK, ENTRY_PENDING };

/* One of two: the second is a copy. An attempt whose hold is over may still report, until the task
 * is given out again. */
struct hold {
    uint64_t attempt; /* 0: none */
    uint32_t worker;  /* NONE: it is over */
    uint64_t given_ms;
    uint64_t number; /* of the question, or the last one before it was claimed */
    bool claimed;    /* since when it works on it is not known */
    uint64_t seen;   /* the last claim that has it */
};

struct entry {
    uint8_t state;
    uint8_t slot;
    uint16_t failures;
    uint16_t losses;
    struct hold holds[2]; /* hold k of entry e is number 2 e + k in lists */
};

struct worker {
    uint64_t asked;     /* number of its last question */
    uint32_t given_n;   /* and how many it was given */
    uint32_t pending_n; /* records that name it */
    struct chain holds;
    struct chain won;
};

struct won {
    uint64_t number;
    uint32_t worker;
};

struct totals {
    uint64_t done, records, failed_records, parked;
    uint32_t took[TASKS_TOOK_N];
    uint32_t took_n;
};

/* For what a record of a dump points to. */
struct scratch {
    struct task_file files[TASKS_PART_MAX];
    struct task_value values[MAX(TASKS_WAITING_MAX, TASKS_TOOK_N)];
    struct task_metric metrics[TASKS_METRICS_MAX];
    struct task_won won[TASKS_REPORT_MAX];
    uint8_t bytes[MAX(TASKS_BITS_MAX, TASKS_VALUES_MAX)];
};

struct tasks {
    char job[NAME_MAX_LEN];
    struct tasks_limits limits;

    /* Durable: a function of the records. */
    struct set sets[TASK_SETS];
    struct pass passes[SLOTS_N];
    struct totals totals[TASK_KINDS];
    uint32_t start;
    uint64_t next_id;
    uint64_t next_epoch;
    uint64_t sure_version; /* of the model; a newer one may be known in this life */
    uint64_t asked;        /* the newest version whose evaluation was asked for */
    uint64_t waiting[TASKS_WAITING_MAX];
    uint32_t waiting_n;
    bool cleared;
    uint8_t once; /* kinds whose only pass was opened, as bits */
    struct metrics metrics;
    struct tasks_result results[TASKS_RESULTS_MAX]; /* n - 1 is the newest */
    uint32_t results_n;
    struct rec_tasks_parked *parked;
    uint32_t parked_listed_n;
    uint64_t parked_n;
    struct table won_ids; /* by task; in step with: */
    struct won *won;
    struct link *won_links;    /* of all, in the order of their records */
    struct link *won_of_links; /* … of a worker */
    struct chain won_all;

    /* Of this life. */
    uint64_t version;
    bool live, starting, started;
    uint64_t clock_ms, seen_ms;
    uint64_t grace_ms;
    bool due;
    uint64_t counter;
    uint64_t asking; /* the newest version that is on its way */
    uint32_t asking_n;
    bool clearing;
    uint32_t won_pending, metrics_pending;
    uint64_t given_n, again_n;
    uint64_t claims_n;
    struct task_done items[TASKS_REPORT_MAX]; /* of a record on its way out */
    struct table entry_ids;                   /* by task */
    struct entry *entries;
    struct link *back_links;    /* by entry */
    struct link *hold_links;    /* of a kind, oldest first */
    struct link *hold_of_links; /* of a worker */
    struct chain holds[TASK_KINDS];
    struct table worker_ids;
    struct worker *workers;
    uint32_t worker_hand;
    struct scratch *scratch;
};

/* tasks_set.c */
uint32_t set_whole(const struct set *s); /* the number of its tasks, 0 if it is not */
const struct rec_tasks_set *set_of(const struct tasks *t, uint8_t kind); /* whose rules hold */
uint64_t set_digest(const struct set *s);
void set_reset(struct set *s);
int set_head_check(const struct tasks *t, const struct rec_tasks_set *head, char *why, size_t cap);
int set_files_check(const struct tasks *t, const struct rec_tasks_files *part, char *why,
                    size_t cap);
void set_apply_head(struct tasks *t, const struct rec_tasks_set *head);
void set_apply_files(struct tasks *t, const struct rec_tasks_files *part);
/* Where the task at a position of a pass lies. */
struct place {
    uint32_t file;
    uint64_t first, end;
    uint32_t index; /* of the task, in the order of the files */
};
struct place set_place(const struct tasks *t, const struct pass *p, uint32_t position);

/* tasks_pass.c */
uint32_t pass_slot(uint8_t kind, uint64_t epoch);
struct pass *pass_of(struct tasks *t, uint64_t id); /* open, or NULL */
static inline bool pass_over(const struct pass *p)
{
    return p->settled_n == p->n;
}
bool pass_bit(const struct pass *p, uint32_t position);
uint32_t pass_tasks(const struct tasks *t, uint8_t kind); /* how many it would have */
void pass_open(struct tasks *t, const struct rec_tasks_pass *r);
void pass_settle(struct tasks *t, struct pass *p, uint32_t position);
uint32_t pass_unsettled(const struct pass *p, uint32_t from); /* the first from there on, or n */
bool pass_ready(const struct tasks *t, const struct pass *p);
bool bits_fit(const struct pass *p, const struct rec_tasks_bits *part);
bool pass_loose(const struct tasks *t, const struct pass *p);
bool training_over(const struct tasks *t);
void passes_advance(struct tasks *t, struct tasks_out *out);
bool tasks_finished(const struct tasks *t);

/* tasks_give.c */
uint32_t entry_open(struct tasks *t, uint64_t id, uint8_t slot); /* NONE: no room */
void entry_drop(struct tasks *t, uint32_t e);
void entry_back(struct tasks *t, uint32_t e);
void entry_pend(struct tasks *t, uint32_t e);
void hold_end(struct tasks *t, uint32_t h);
/* A hold has ended by itself, in failure or loss: the task goes back, or is parked. */
void entry_again(struct tasks *t, uint32_t e, wid worker, const char *text, struct tasks_out *out);
uint32_t worker_open(struct tasks *t, wid worker); /* NONE: no room */
uint32_t timeout_of(const struct tasks *t, uint8_t kind);
uint32_t own_start(const struct tasks *t);
bool attempt_before(const struct tasks *t, uint64_t attempt); /* of an earlier life */
void holds_time_out(struct tasks *t, struct tasks_out *out);

/* tasks_apply.c */
void won_drop(struct tasks *t, uint32_t w);
uint32_t took_bucket(uint32_t ms);
uint64_t took_slow(const struct totals *of); /* 0: not known */

/* tasks.c */
void tasks_pass_time(struct tasks *t, uint64_t now_ms);
void tasks_put(struct tasks_out *out, const struct tasks_record *r);

#endif
