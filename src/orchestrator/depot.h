/* The inside of the depot: checkpoints that the orchestrator keeps, in DATA_DIR/ckpt, as src/ckpt
 * has them. Shared by depot*.c and by nobody else.
 *
 * The loop's thread decides, others do the work of the disk: a frame becomes a task in one of two
 * lanes, the lane gives it to a thread when its turn has come, and what came of it is answered on
 * the loop's thread again. Answers to one connection keep the order of its frames.
 *
 *   changes   begin, put, commit, remove: CHANGES_AT_ONCE run side by side, of one job one at a
 * time, in their order looks     list, read: one at a time; those of a connection whose peer does
 * not read wait
 *
 * Together they leave a thread of libuv's four to those who look up names.
 *
 *   depot.c        frames; what is answered; beginning and end
 *   depot_task.c   tasks and lanes
 *   depot_put.c    uploads: pieces become chunks and manifests, and these become tasks
 *   depot_look.c   list, read, remove
 *   depot_room.c   quota, and what stays free on the disk
 *
 * Bounds: UPLOADS_MAX uploads with CHUNKS_MAX chunks each, TASKS_MAX tasks in all and
 * SESSION_TASKS_MAX of a connection, ANSWERS_MAX bytes that wait to leave. */
#ifndef ORCHESTRATOR_DEPOT_H
#define ORCHESTRATOR_DEPOT_H

#include "ckpt/ckpt.h"
#include "orchestrator/driver.h"

#define UPLOADS_MAX 16
#define CHUNKS_MAX 2 /* of an upload, in memory */
#define TASKS_MAX 1024
#define SESSION_TASKS_MAX 16
#define ANSWERS_MAX ((size_t)64 << 20) /* queued answers, to all */
#define ANSWERS_HIGH ((size_t)1 << 20) /* queued answers, to one */
#define UPLOAD_IDLE_LEASES 6           /* so long silent, one makes room for others */
#define CHANGES_AT_ONCE 2
#define LOOKS_AT_ONCE 1

struct depot_task;
struct upload;

/* ---- depot_task.c ---- */

struct depot_lane {
    struct depot_task *first, **last;
    struct depot_task *running[CHANGES_AT_ONCE];
    uint32_t running_max;
    bool looks;
};

/* What an upload has brought, for those who look for room; all that it will bring if it begins. */
struct depot_claim {
    char job[NAME_MAX_LEN];
    uint64_t bytes;
};

struct depot_task {
    struct depot_task *next;
    uv_work_t work;
    struct deposits *d;
    struct depot_lane *lane;
    struct upload *upload; /* NULL: it belongs to none */
    uint32_t session;      /* whom to answer; NOBODY */
    uint64_t request;
    struct msg_depot ask; /* its data is `data` */
    struct msg_depot_says says;
    struct ckpt_why why; /* of a status other than MU_OK; "": the status' own text */
    uint8_t *data;       /* the task's own: what is written, or what was read */
    /* On another thread; NULL: the status is known. It may use what is here, d->dir, d->quota, and
     * the upload's intake. */
    void (*run)(struct depot_task *t);
    /* On the loop's, before the answer; may be NULL, and is not called when all is being closed.
     * False: the task is queued again, and there is no answer yet. */
    bool (*done)(struct depot_task *t);
    bool alone;    /* no other change at the same time */
    bool measured; /* `kept` is what there is now */
    uint64_t kept;
    uint64_t left; /* by uploads that broke off */
    struct depot_claim claims[UPLOADS_MAX];
    uint32_t claims_n;
};

/* A task for a frame, and where it goes; NULL: it was not to be had, and that was answered, or
 * has cost the session: then nothing may be said to it any more. */
struct depot_task *depot_task_new(struct session *s, const struct msg_depot *m, uint64_t request);
/* Gives it to its lane. */
void depot_task_start(struct depot_task *t, struct depot_lane *lane);
/* The same with an answer that is known: it waits for its turn. */
void depot_task_fail(struct depot_task *t, struct depot_lane *lane, int status, const char *fmt,
                     ...) __attribute__((format(printf, 4, 5)));
/* From done(): once more, before all others of its lane. */
void depot_task_again(struct depot_task *t);
/* Starts what can be. */
void depot_lane_pump(struct depot_lane *lane, struct deposits *d);
void depot_lanes_init(struct deposits *d);
/* All that waits is forgotten, except for the ends of uploads. */
void depot_lanes_clear(struct deposits *d);

/* ---- depot_put.c ---- */

/* One that is coming in: of one job there is one. */
struct upload {
    struct upload *next;
    struct deposits *d;
    uint32_t owner; /* whose it is */
    bool begun;     /* the owner was told that it may send */
    bool dead;      /* it has ended; tasks that are left do nothing */
    bool committing;
    char job[NAME_MAX_LEN];
    uint64_t step, bytes;
    uint64_t received;          /* of them; only these are reserved */
    uint64_t heard_ms;          /* when a piece came last */
    struct ckpt_intake *intake; /* the running task's */
    /* What is being put together: a chunk, or a manifest. */
    struct depot_task *building;
    uint64_t got;
    uint32_t chunks_n;     /* that wait to be written */
    struct depot_task end; /* so that an end needs no memory */
};

void upload_begin(struct session *s, const struct msg_depot *m, uint64_t request);
void upload_piece(struct session *s, const struct msg_depot *m, uint64_t request);
/* Nobody puts it any more. What has come stays on the disk. */
void upload_end(struct upload *u);
/* Its task has come too late. */
void upload_stale(struct depot_task *t);

/* ---- depot_look.c ---- */

void look_list(struct session *s, const struct msg_depot *m, uint64_t request);
void look_read(struct session *s, const struct msg_depot *m, uint64_t request);
void look_remove(struct session *s, const struct msg_depot *m, uint64_t request);

/* ---- depot_room.c: on a task's thread ---- */

/* Fills in kept and left. */
int room_measure(struct depot_task *t);
/* Is there room for all claims? If not, what can go goes. MU_ELIMIT. */
int room_make(struct depot_task *t);
/* Takes older ones of its job away: the newest `keep` up to its step stay. */
int room_prune(struct depot_task *t, uint32_t keep, struct ckpt_why *why);
/* That what is to stay free on the disk is free now. */
int room_on_disk(const struct deposits *d, struct ckpt_why *why);

/* ---- depot.c ---- */

struct deposits {
    struct orchestrator *o; /* NULL: it is gone */
    uv_loop_t *loop;
    uv_timer_t timer;        /* looks again whether answers have left */
    char disk[PATH_MAX_LEN]; /* where there must be room */
    char dir[PATH_MAX_LEN + 8];
    uint64_t quota; /* 0: none */
    struct depot_lane changes, looks;
    uint32_t tasks_n; /* that wait or run, ends of uploads left out */
    uint32_t works_n; /* that run */
    bool timer_closed;
    struct upload *uploads; /* those that live */
    uint32_t uploads_n;     /* uploads that live */
    uint32_t ending_n;      /* uploads that end */
    LIST_HEAD(, session) readers;
    uint64_t kept;
    uint64_t warned_ms; /* of one that was refused */
};

/* Answers at once: only to one who waits for no other answer. */
void depot_answer(struct session *s, const struct msg_depot *m, uint64_t request, int status,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* It has said what nobody says: it is told so, and that was it. The session is gone. */
void depot_wrong(struct session *s, const struct msg_depot *m, uint64_t request, const char *fmt,
                 ...) __attribute__((format(printf, 4, 5)));
bool depot_is_job(const char *job);
/* After the last task, when all is closed. */
void depot_free_if_over(struct deposits *d);

#endif
