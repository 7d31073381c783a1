/* The task manager in a small world: an orchestrator that crashes, a disk that loses what was not
 * synced, workers that crash, hang and are taken for lost, and messages that are late, lost and
 * repeated. First anything may happen; then it heals, and all tasks must be settled within a bound.
 *
 * Checked: each task's result counts once (and a worker hears so if, and only if, it is its own);
 * no attempt number is used twice; an older attempt never counts against a newer one; epochs and
 * evaluations come in order; nothing that a living worker holds is given out in the grace after a
 * start; what the disk has rebuilds the state, byte by byte. */
#ifndef SIM_TASKS_WORLD_H
#define SIM_TASKS_WORLD_H

#include "core/mutation.h"
#include "core/tasks.h"
#include "lib/chance.h"

#define WORKERS_MAX 5u
#define HELD_MAX 6u
#define REPORTS_MAX 3u
#define MESSAGES_MAX 512u
#define LOG_MAX 16384u
#define TASKS_MAX 4096u /* of a seed, by id */
#define LEASE_MS 2000u
#define STEP_MS 50u

struct bytes {
    uint8_t *p;
    size_t n;
};

/* Records that outlive a crash, and those that do not. */
struct disk {
    struct bytes snapshot[256], fresh[256], log[LOG_MAX], queue[1024];
    uint32_t snapshot_n, fresh_n, log_n, queue_n;
    uint32_t fence;    /* records of the log that the snapshot stands for */
    uint32_t shadow_n; /* … that the shadow has applied */
    bool dumping;
    struct tasks_cursor at;
};

struct held {
    struct task task;
    uint64_t since_ms;
    uint64_t done_ms; /* 0: not begun */
    bool taken;       /* it was taken for lost, and heard nothing of it */
    uint64_t report;  /* the number of the report that it is in, or 0 */
};

struct says {
    uint64_t number; /* 0: free */
    uint64_t again_ms;
    uint32_t items_n;
    struct task_item items[HELD_MAX];
    bool metrics;
};

struct worker {
    wid self;
    bool alive;
    uint64_t back_ms; /* of the next life, or when it goes on */
    bool hangs;
    uint64_t asked, got; /* numbers of questions */
    uint64_t again_ms;
    uint64_t reported, acked;
    struct held held[HELD_MAX];
    uint32_t held_n;
    struct says says[REPORTS_MAX];
};

enum message_kind { MSG_GET, MSG_REPORT, MSG_CLAIM, MSG_LOST, MSG_GONE, MSG_GIVEN, MSG_VERDICTS };

struct message {
    uint64_t at_ms; /* 0: none */
    enum message_kind kind;
    wid worker;
    uint64_t number, acked;
    uint32_t n;
    struct task tasks[HELD_MAX];
    struct task_item items[HELD_MAX];
    uint8_t verdicts[HELD_MAX];
    struct task_held held[HELD_MAX];
    bool metrics;
    uint32_t record; /* an answer that waits for this one of the log */
};

/* What is true of a task, by its id. */
struct truth {
    uint64_t given; /* the newest attempt … */
    uint32_t life;  /* … and the orchestrator's life that gave it */
    wid winner;
    uint64_t number; /* of its report */
    bool parked, told;
    uint8_t kind;
    uint64_t epoch, version;
};

struct world {
    struct prng prng;
    uint64_t now_ms;
    bool failed;
    char why[256];

    struct rec_tasks_set sets[2];
    struct task_file files[3];
    uint32_t files_n, eval_n, per_epoch;
    uint32_t workers_n;
    uint32_t lose_ppm, repeat_ppm, late_ms;
    bool healed, hangs, copies;
    uint64_t version;

    struct tasks *tasks, *shadow, *other;
    uint32_t life;
    uint64_t life_ms; /* since when */
    uint64_t newest_attempt;
    struct disk disk;
    uint64_t sync_ms;
    struct worker workers[WORKERS_MAX];
    uint32_t lives_n;
    bool gone[4096]; /* by life: nothing of it is heard any more */
    struct message messages[MESSAGES_MAX];
    uint32_t messages_n; /* that were ever used */
    struct message waiting[256];
    uint32_t waiting_n;
    struct truth truths[TASKS_MAX];
    uint64_t ids_n;     /* of all passes that were opened */
    uint64_t evaluated; /* the last version whose evaluation was opened */
    uint64_t counted_n, crashes_n, parked_n, again_n;
};

void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint64_t world_between(struct world *w, uint64_t lo, uint64_t hi);

void world_open_tasks(struct tasks **t_out);

/* disk.c */
void disk_free(struct disk *d);
void disk_put(struct world *w, const struct tasks_record *r);
void disk_turn(struct world *w);
void disk_crash(struct world *w); /* and the orchestrator with it; it starts again */
void disk_check(struct world *w); /* what is there rebuilds the state */
extern struct tasks_out disk_out;
extern struct world *disk_world;

/* check.c */
void check_given(struct world *w, wid worker, const struct task *task);
void check_counts(struct world *w, const struct tasks_report *r, const uint8_t *verdicts);
void check_record(struct world *w, const struct tasks_record *r);
void check_told(struct world *w, wid worker, uint64_t number, uint64_t id, uint8_t verdict);
void check_end(struct world *w);

/* workers.c */
void workers_turn(struct world *w);
void worker_hear(struct world *w, const struct message *m);
void workers_claim(struct world *w);
bool worker_alive(struct world *w, wid worker);
void worker_lost(struct world *w, wid worker);
struct message *world_send(struct world *w, enum message_kind kind, wid worker);

#endif
