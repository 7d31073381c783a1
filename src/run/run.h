/* libmuster from inside: one worker, its connection to its agent, and the thread that tends it.
 *
 * Threads: `lock` guards everything but what is set before the control thread starts (`line.fd`,
 * `wake_fd`, `place`, `pid`, `alone`). Callers queue frames on `line`, wake the thread and wait for
 * `changed`; the thread sends, reads, answers and broadcasts. Whoever calls
 * into the data plane (comm/) and may wait there does so without the lock; the control thread tells
 * it what never waits (fence, newest, stop). */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "base/clock.h"
#include "base/error.h"
#include "comm/comm.h"
#include "core/config.h"
#include "core/text.h"
#include "run/agent_line.h"
#include "wire/ask.h"

#include <pthread.h>
#include <sys/types.h>

/* Something that was asked of the orchestrator, through the agent. Most often on its caller's
 * stack; on the list from its first frame to its answer. */
struct ask {
    struct ask *next;
    struct msg_ask m; /* kind, topic and at are the caller's; its body is made when it is said */
    uint64_t due_ms;  /* UINT64_MAX: never */
    bool done;
    int status;
    char text[TEXT_MAX_LEN];
    /* What goes with it, as things are now; NULL: nothing. */
    const void *(*body)(const struct mu_run *run, struct ask *a);
    /* Whatever is said to it, failures too; body: NULL if it has none. MU_EPROTO: that can't be.
     * NULL: only how it ends matters. */
    int (*take)(struct mu_run *run, struct ask *a, const struct msg_says *m,
                const union wire_any *body);
    void (*clear)(struct ask *a);      /* frees what has come; NULL: that is nothing */
    void (*over)(const struct ask *a); /* it is answered, and nobody waits for that; NULL */
};

/* A mu_config_…() that waits. */
struct config_ask {
    struct ask ask; /* first */
    struct body_setting body;
    mu_settings got; /* what has come; of a change, the version alone */
};

/* Which round of each tag this worker has the answer of: it says so with its next value under that
 * tag, so that the orchestrator never mixes values of different rounds. The tags that were used
 * last are remembered; for the others nothing is claimed. */
#define MARKS_N 64

struct mark {
    char tag[SYNC_TAG_MAX]; /* "": free */
    uint64_t generation;
    uint32_t n;
};

struct marks {
    struct mark items[MARKS_N]; /* the last that was set comes first */
    bool forgot;                /* a tag that is not here may have been used */
};

/* Something that is said now and then, if it is due, and not to an agent that lags behind. */
struct paced {
    bool due;
    uint64_t at_ms; /* not before this */
};

/* What this worker knows of its data plane. */
struct data {
    struct comm *comm;  /* NULL: not open yet. Set once, under the lock; closed by mu_leave() */
    unsigned paths;     /* as MUSTER_TRANSPORT says */
    bool tls;           /* as MUSTER_TLS says */
    pthread_t follower; /* tells the data plane what the agent says, where that may wait */
    bool moving;        /* a thread drives the crew, for those who make calls */
    uint64_t group;     /* the term that calls are made in; 0: none yet */
    wid group_as;       /* the name of this worker in that term */
    mu_group_info info; /* that term, as mu_group() gives it */
    int broken;         /* MU_EPEER, MU_EORDER: no more calls can be made in it */
    uint64_t left_out;  /* it was told that it is left out after this generation; 0: it was not,
                         * or has regrouped since */
    bool away;          /* the caller does something else: the others are told that it lives */
};

/* The newest numbers of training, for the orchestrator. */
struct metrics {
    struct paced pace;
    uint64_t step;
    uint32_t named_n;                 /* metrics that mu_metric() has named */
    uint32_t n;                       /* metrics that have a value: none or all of them */
    struct metric items[METRICS_MAX]; /* in the order in which they were named */
    uint32_t logged_n;
    struct metric logged[METRICS_MAX]; /* mu_log() */
};

struct crew;

/* Training with mu_next(), as the run sees it: it is a layer above. All but close() are called
 * under the lock. */
struct train;

struct trainer_ops {
    /* Fills in what a report says of training, and the crew does not know: phase, checkpoint. A
     * fault that the agent is not to know yet is left out. */
    void (*report)(const struct train *t, struct report *r);
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
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* on the monotonic clock */
    uint32_t callers_n;     /* threads inside a call; mu_leave() waits for them */
    bool leaving;
    bool given_up;    /* mu_stop() */
    bool stop;        /* the thread sends what is left, sees that it is read, and ends */
    bool shut;        /* all of that is sent, and this side of the line is closed */
    uint64_t stop_ms; /* the thread ends by then at the latest */
    struct paced beat;
    struct paced progress; /* another step, and nothing else: it can wait a little */

    int lost; /* not MU_OK: the agent is gone, and `why` says how */
    char why[ERROR_MAX];
    bool ended;
    struct msg_ended end;
    bool attached;
    struct msg_life life;
    struct membership *newest; /* NULL: none */
    uint64_t joined;           /* it has been a member since this one; 0: it is none */
    uint64_t entered;          /* the newest that it was a member of, in this life; 0: none */
    uint64_t active;           /* the newest generation that counts, as told */
    uint64_t lease_ms;         /* when the last acknowledged renewal was sent, on the boot clock */
    bool saves_known;          /* `saves` is known: it comes with the lease */
    uint32_t saves;            /* how often somebody wanted a checkpoint */
    uint64_t news;             /* grows with whatever the agent says */
    bool warm;                 /* it has called something that needs the others */
    bool forgetting;           /* it has asked for another life, and waits for that */
    bool serves;               /* it helps: it is in no generation */
    struct msg_roster roster;  /* the helpers, as told; its own copy */
    uint64_t roster_version;   /* grows when it changes, or the members do; 0: not known yet */
    struct report now;  /* how this worker stands, but for what is known elsewhere (told.c) */
    struct report said; /* the last report */

    uint64_t request;
    struct ask *asks;
    struct marks marks;
    struct config_ask resize; /* the last mu_resize() */
    struct config settings;   /* of a job of one; without memory until they are needed */
    struct data data;
    struct crew *crew;                 /* NULL: it has done nothing with the others yet */
    struct train *train;               /* NULL: it does not train with mu_next() */
    const struct trainer_ops *trainer; /* set with `train` */
    bool trains;              /* it is set up, and has the group: nobody else makes calls in it */
    _Atomic bool save_wanted; /* somebody wants a checkpoint of the next step */
    struct metrics metrics;
};

/* The number of the newest generation; 0: none. Under the lock. */
static inline uint64_t run_newest(const struct mu_run *run)
{
    return run->newest != NULL ? run->newest->g.number : 0;
}

/* This worker's rank in it; -1: it is no member. Under the lock. */
static inline int32_t run_rank(const struct mu_run *run)
{
    const uint32_t rank =
        run->newest != NULL ? membership_rank(run->newest, run->life.worker) : NO_RANK;

    return rank == NO_RANK ? -1 : (int32_t)rank;
}

/* ---- error.c ---- */

/* Keeps the text for mu_error() and gives status. */
int run_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* UINT64_MAX for a negative timeout. */
uint64_t run_due_ms(int64_t timeout_ms);
uint32_t run_left_ms(uint64_t due_ms); /* until then, or the most that a message can say */

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

/* This worker needs the others from now on: it can be taken in. MU_EINVAL: it helps, and never is.
 */
int told_warm(struct mu_run *run);
void told_frame(struct mu_run *run, const struct wire_header *h, const union wire_any *msg);
/* It was left out of the newest generation, and that does not count yet: until it does this worker
 * is one of those who hold the state, and its end would be a loss. */
bool told_is_needed(const struct mu_run *run);
void told_last(struct mu_run *run);   /* this worker's last report: it has finished, or leaves */
void told_again(struct mu_run *run);  /* reports what has changed, if anything has */
void told_step(struct mu_run *run);   /* the same when only the step has: soon */
void told_clear(struct mu_run *run);  /* it acts in no generation: nothing of that is reported */
void told_forget(struct mu_run *run); /* asks for another life, once */

/* ---- roster.c ---- */

/* By its role, or because it serves, it is in no generation. */
bool roster_helps(const struct mu_run *run);
void roster_told(struct mu_run *run, const struct msg_roster *m);
void roster_members(struct mu_run *run); /* there is another generation */
void roster_close(struct mu_run *run);

/* ---- metrics.c ---- */

int metrics_check(const char *name); /* MU_EINVAL: it can't be one's name; says why */
/* Names another metric of the steps; copied. MU_EEXIST, MU_ELIMIT; says why. */
int metrics_add(struct mu_run *run, const char *name);
/* Their values for this step, in the order of their names: said when there is time, the newest
 * only. */
void told_metrics(struct mu_run *run, uint64_t step, const double *means);
/* Says the newest numbers. */
void metrics_say(struct mu_run *run);

/* ---- ask.c ---- */

/* What every question begins with: the bytes that go with it are sound, and the run goes on. Says
 * why not. */
int ask_check(const struct mu_run *run, const char *what, const void *data, size_t n);
/* Says it, and waits for its answer. If that is none of MU_OK, says why. */
int ask_call(struct mu_run *run, struct ask *a);
/* The same in two: says it, and takes it off the list, also if it is not there. */
int ask_begin(struct mu_run *run, struct ask *a);
void ask_end(struct mu_run *run, struct ask *a);
/* Only says it. body may be NULL. MU_EINVAL: it can't be encoded; MU_ENOMEM. */
int ask_send(struct mu_run *run, struct msg_ask *m, const void *body);
/* The answer is complete, or it has failed: then what has come is freed. */
void ask_answer(struct ask *a, int status, const char *text);
void asks_told(struct mu_run *run, const struct msg_says *m);
void asks_repeat(struct mu_run *run); /* this worker goes on as another */
void asks_over(struct mu_run *run);   /* nothing more is answered */

/* ---- values.c ---- */

/* NULL: the tag was never used, or (forgot) that can't be told any more. */
const struct mark *marks_find(const struct marks *marks, const char *tag);
void marks_set(struct marks *marks, const char *tag, uint64_t generation, uint32_t n);

/* ---- settings.c ---- */

void settings_ask_init(struct config_ask *a, enum ask_kind kind);

/* ---- settings_alone.c: those of a job of one ---- */

/* Does what is asked, and fails with its text. */
int settings_alone(struct mu_run *run, struct config_ask *a);

/* ---- settings_list.c ---- */

/* One block: the value, aligned for anything, then a zero byte and the key; or the key alone
 * (removed). MU_ENOMEM. */
int setting_make(mu_setting *setting, const char *key, bool removed, const void *value,
                 size_t value_n, uint64_t version);
/* Adds one to what has come. MU_ENOMEM. */
int settings_add(struct config_ask *a, const char *key, bool removed, const void *value,
                 size_t value_n, uint64_t version);
void settings_sort(mu_settings *settings); /* by key */

/* ---- data.c: the data plane's life ---- */

/* What the environment says of it. MU_EINVAL. */
int data_config(struct mu_run *run);
/* Opens it as this life says, unless it is open, and fills in now.addr. Says why not. */
int data_open(struct mu_run *run);
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
/* Does this worker go on as another than the one that was in the group? */
bool regroup_is_other(const struct mu_run *run);
/* It hears that it was left out, until it regroups. MU_ESTALE. */
int regroup_left_out(struct mu_run *run);
/* Calls are made no more: nobody is in one. */
void regroup_close(struct mu_run *run);

/* ---- call.c: what every call begins and ends with ---- */

/* Takes the lock. MU_EINVAL: no run, or not of this process; nothing is held then. */
int call_enter(struct mu_run *run);
/* Gives the lock back, and rc. */
int call_exit(struct mu_run *run, int rc);

/* Why this call can't go on: MU_EDONE, or what lost the agent. MU_OK otherwise. Says so. */
int call_state(const struct mu_run *run);

/* Waits for a change. False: the time was over. */
bool call_wait(struct mu_run *run, uint64_t due_ms);
/* There is news: whoever waits, or hears the others, looks again. */
void call_news(struct mu_run *run);
/* The run is over for this worker: every call that waits ends, with what call_state() says. */
void call_over(struct mu_run *run);

#endif
