/* libmuster from inside: one worker, its connection to its agent, and the thread that tends it.
 *
 * Threads: `lock` guards everything but what is set before the control thread starts (`line.fd`,
 * `wake_fd`, `place`, `pid`, `alone`). Callers queue frames on `line`, wake the thread and wait for
 * `changed`; the thread sends, reads, answers and broadcasts. Whoever calls
 * into the data plane (comm/) and may wait there does so without the lock; the control thread tells
 * it what never waits (fence, newest, stop). */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "comm/comm.h"
#include "core/config.h"
#include "run/agent_line.h"
#include "run/marks.h"

#include <pthread.h>
#include <sys/types.h>

#define ERROR_MAX 512

/* A mu_sync() that waits. On its caller's stack; on the list from its first frame to its answer. */
struct call {
    struct call *next;
    struct msg_sync m; /* worker and wait_ms are filled in when it is sent */
    uint64_t due_ms;   /* UINT64_MAX: never */
    bool done;
    int status;
    bool missed; /* all had come, but this worker's answer was lost */
    char text[TEXT_MAX_LEN];
    mu_values values; /* items_n of them have come */
    size_t items_n;
};

/* A mu_config_…() that waits, in the same way. */
struct ask {
    struct ask *next;
    struct msg_config m; /* worker and wait_ms are filled in when it is sent */
    uint64_t due_ms;     /* UINT64_MAX: never */
    bool done;
    int status;
    char text[TEXT_MAX_LEN];
    mu_settings got; /* what has come; of a put, the version alone */
    size_t cap;      /* of its items */
};

/* What this worker knows of its data plane. */
struct data {
    struct comm *comm; /* NULL: not open yet. Set once, under the lock; closed by mu_leave() */
    char asked[ADDR_MAX_LEN]; /* mu_config.address; "": none */
    unsigned paths;           /* MUSTER_TRANSPORT … */
    bool tls;                 /* … and MUSTER_TLS */
    pthread_t follower;       /* tells the data plane what the agent says, where that may wait */
    bool has_follower;
    bool moving;        /* a thread is in regroup() */
    uint64_t group;     /* the term that calls are made in; 0: none yet */
    wid group_as;       /* … and as whom */
    mu_group_info info; /* … for mu_group() */
    int broken;         /* MU_EPEER, MU_EORDER: no more calls can be made in it */
    bool stale;         /* it was left out, and has been told */
    bool away;          /* the caller does something else: the others are told that it lives */
};

/* The newest numbers of training, for the orchestrator. */
struct metrics {
    bool due;       /* they are to be said … */
    uint64_t at_ms; /* … not before this */
    uint64_t step;
    uint32_t named_n;                 /* mu_metric() has named so many … */
    uint32_t n;                       /* … of which so many have a value: none, or all */
    struct metric items[METRICS_MAX]; /* … as they were named */
    uint32_t logged_n;
    struct metric logged[METRICS_MAX]; /* mu_log() */
};

struct crew;

/* Training with mu_next(), as the run sees it: it is a layer above. All but close() are called
 * under the lock. */
struct train;

struct trainer_ops {
    /* Is it set up? Then it has the group: nobody else makes calls in it. */
    bool (*is_started)(const struct train *t);
    /* Fills in what a report says of training, and the crew does not know: phase, checkpoint. */
    void (*report)(const struct train *t, struct report *r);
    /* People want a checkpoint of the next step. */
    void (*want_save)(struct train *t);
    /* This worker leaves: others may need what it knows, and what is being saved is to be whole.
     * The lock is given away meanwhile. */
    void (*leave)(struct train *t);
    /* Frees it. No thread is in a call any more. */
    void (*close)(struct train *t);
};

struct mu_run {
    mu_config config; /* without its pointers */
    char *ckpt_dir;   /* NULL: the environment's */
    pid_t pid;        /* of the process that joined: a forked child is another */
    bool alone;
    int wake_fd; /* eventfd: there is something to be sent, or it is time to stop */
    struct agent_place place;
    struct agent_line line; /* to the agent */
    char addr[ADDR_MAX_LEN];
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* on the monotonic clock */
    uint32_t callers_n;     /* threads inside a call; mu_leave() waits for them */
    bool leaving;
    bool given_up; /* mu_stop() */
    bool stop;     /* the thread: send what is left, see that it is read, then end … */
    bool shut;
    uint64_t stop_ms; /* … by then at the latest */
    uint64_t beat_ms; /* when the next is due */

    int lost; /* not MU_OK: the agent is gone, and `why` says how */
    char why[ERROR_MAX];
    bool ended;
    struct msg_ended end;
    bool attached;
    struct msg_life life;
    struct membership *newest; /* NULL: none */
    int32_t rank;              /* in it; -1: no member */
    uint64_t joined;           /* it has been a member since this one; 0: it is none */
    uint64_t entered;          /* the newest that it was a member of, in this life; 0: none */
    uint64_t active;           /* the newest generation that counts, as told */
    uint64_t lease_ms;         /* when the last acknowledged renewal was sent, on the boot clock */
    bool saves_known;          /* … with it came how often somebody wanted a checkpoint */
    uint32_t saves;
    uint64_t news;      /* grows with whatever the agent says */
    bool warm;          /* it has called something that needs the others */
    bool forgetting;    /* it has asked for another life, and waits for that */
    struct report said; /* the last report */
    uint64_t step;      /* as mu_progress() had it */
    bool step_due;      /* it is to be reported … */
    uint64_t step_ms;   /* … not before this */

    uint64_t request;
    struct call *calls;
    struct marks marks;
    struct ask *asks;
    uint64_t resize;        /* the request of the last mu_resize(), until it is answered; 0 */
    struct config settings; /* of a job of one; without memory until they are needed */
    struct data data;
    struct crew *crew;                 /* NULL: it has done nothing with the others yet */
    struct train *train;               /* NULL: it does not train with mu_next() */
    const struct trainer_ops *trainer; /* set with `train` */
    struct metrics metrics;
};

/* The number of the newest generation; 0: none. Under the lock. */
static inline uint64_t run_newest(const struct mu_run *run)
{
    return run->newest != NULL ? run->newest->g.number : 0;
}

/* ---- error.c ---- */

/* Keeps the text for mu_error() and gives status. */
int run_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

uint64_t run_now_ms(void);
/* UINT64_MAX for a negative timeout. */
uint64_t run_due_ms(int64_t timeout_ms);

/* ---- control.c: the thread ---- */

/* Starts it on run->line, which is connected. MU_ENOMEM. */
int control_start(struct mu_run *run);
/* Sends what is left and sees that the agent has read it, for at most flush_ms; waits for its end.
 * The lock is not held. */
void control_stop(struct mu_run *run, uint32_t flush_ms);

/* Under the lock from here on. */

/* Queues a frame. MU_EINVAL: it can't be encoded; MU_ENOMEM. */
int control_say(struct mu_run *run, enum wire_type type, const void *msg);

/* The thread looks at what is due. */
void control_wake(struct mu_run *run);

/* The agent is gone, or not to be trusted any more: everyone who waits hears so. */
void control_lost(struct mu_run *run, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- told.c: what the agent says ---- */

/* The newest generation that it is in, and caught up; 0: none. */
uint64_t told_entered(const struct mu_run *run);
/* This worker needs the others from now on: it can be taken in. */
void told_warm(struct mu_run *run);
/* MU_EBUSY: it trains with mu_next(), which has the group. Says so. */
int told_may_call(const struct mu_run *run);
void told_frame(struct mu_run *run, const struct wire_header *h, const union wire_any *msg);
/* It was left out of the newest generation, and that does not count yet: until it does this worker
 * is one of those who hold the state, and its end would be a loss. */
bool told_is_needed(const struct mu_run *run);
void told_finished(struct mu_run *run); /* this worker's last report */
void told_again(struct mu_run *run);    /* reports what has changed, if anything has */
/* Reports the step if it is time to; gives how long poll() may wait, as poll() has it. */
int told_progress(struct mu_run *run);

/* ---- metrics.c ---- */

/* Names another metric of the steps; copied. MU_EEXIST, MU_ELIMIT; says why. */
int metrics_add(struct mu_run *run, const char *name);
/* Their values for this step, in the order of their names: said when there is time, the newest
 * only. */
void told_metrics(struct mu_run *run, uint64_t step, const double *means);
/* Says the newest numbers if it is time to; gives how long poll() may wait, as poll() has it. */
int metrics_tend(struct mu_run *run);
/* The last of them, now. */
void metrics_flush(struct mu_run *run);

/* ---- values.c ---- */

void values_told(struct mu_run *run, const struct msg_synced *m);
void values_repeat(struct mu_run *run); /* this worker goes on as another */
void values_end(struct mu_run *run, int status, const char *text);

/* ---- settings.c ---- */

void settings_told(struct mu_run *run, const struct msg_setting *m);
void settings_end(struct mu_run *run, int status, const char *text);

/* ---- settings_alone.c: those of a job of one ---- */

/* Does what is asked, and fails with its text. */
int settings_alone(struct mu_run *run, struct ask *a);

/* ---- settings_list.c ---- */

/* Adds one. value NULL: it was removed. MU_ENOMEM. */
int settings_add(struct ask *a, const char *key, const void *value, size_t value_n,
                 uint64_t version);
void settings_sort(mu_settings *settings); /* by key */

/* ---- data.c: the data plane's life ---- */

/* What the environment says of it. MU_EINVAL. */
int data_config(struct mu_run *run, const mu_config *config);
/* Opens it as this life says, and fills in run->addr. error: COMM_ERROR_MAX. */
int data_open(struct mu_run *run, char *error);
/* Every call that waits in it returns MU_EDONE; also before it is open. */
void data_stop(struct mu_run *run);
/* Nobody is in a call any more. Without the lock. */
void data_close(struct mu_run *run);
/* The newest generation is another one. */
void data_generation(struct mu_run *run);
/* The data plane goes by the name of this life; it takes a new one soon. */
bool data_is_named(const struct mu_run *run);
/* The number of the newest generation that the data plane follows, if there is a link to each of
 * its members now; else 0. */
uint64_t data_linked(const struct mu_run *run);

/* ---- regroup.c: for those who make calls ---- */

/* Moves to the newest generation, as mu_regroup() has it; the lock is given away meanwhile. */
int regroup(struct mu_run *run, uint64_t due_ms);
/* The generation that calls are made in is known to be active: what all agree on there counts.
 * Waits for that; the lock is given away meanwhile. MU_EPEER: it was overtaken. */
int regroup_confirm(struct mu_run *run, uint64_t due_ms);
/* This worker goes on as another than the one that was in the group … */
bool regroup_is_other(const struct mu_run *run);
/* … and hears so, once: MU_ESTALE. */
int regroup_left_out(struct mu_run *run);
void regroup_close(struct mu_run *run);

/* ---- resolve.c ---- */

/* Numbers for addresses that are names. That may wait, so it is called without the lock. */
void run_resolve(struct generation *g);

/* "n3.0#2" */
#define WHO_MAX 40
const char *run_who(wid worker, char text[WHO_MAX]);

/* ---- call.c: what every call begins and ends with ---- */

/* Takes the lock. MU_EINVAL: no run, or not of this process; nothing is held then. */
int call_enter(struct mu_run *run);
void call_exit(struct mu_run *run);

/* Why this call can't go on: MU_EDONE, or what lost the agent. MU_OK otherwise. Says so. */
int call_state(const struct mu_run *run);

/* Waits for a change. False: the time was over. */
bool call_wait(struct mu_run *run, uint64_t due_ms);

#endif
