/* The orchestrator's mind: jobs, nodes, workers, leases and generations.
 *
 * Pure: cluster_step() takes an event that carries the time, changes volatile state at
 * once and hands out effects. Durable state changes only in cluster_apply(), called by
 * the driver once a record that was handed out is durable, in the order they were handed
 * out. Applying the journal to a new cluster rebuilds it.
 *
 * Which workers hold the lineage is never guessed. A generation becomes *active* only
 * when every member has reported that it has entered it and is caught up, and that
 * is journaled; members commit nothing in it before they hear so. Hence the members of the last
 * active generation, and only they, hold the last committed step, and whoever of them
 * lives can carry on.
 *
 * Memory is taken in cluster_init() alone. Renewals and reports cost the same whatever
 * the number of workers; forming a generation is linear in the nodes of its job. */
#ifndef CORE_CLUSTER_H
#define CORE_CLUSTER_H

#include "core/config_table.h"

struct cluster;

extern const struct machine_type
    cluster_machine; /* state: a struct cluster; fx: a struct effects */

struct cluster_config {
    uint32_t jobs_max;
    uint32_t nodes_max;
    uint32_t workers_max;
    uint32_t memories_max; /* of jobs that were forgotten */
    uint32_t group_max;    /* members of a generation, in-process */
    uint32_t lease_ms;
    uint32_t reconnect_ms;   /* a closed connection has this long to come back */
    uint32_t suspect_ms;     /* suspicions gather this long */
    uint32_t join_window_ms; /* the first generation waits this long after a newcomer */
    uint32_t orphan_ms;
    uint32_t takeover_ms; /* must be more than orphan_ms + lease_ms */
    uint32_t retry_ms;    /* after a failed write */
    uint32_t
        linger_ms;  /* who comes so soon after the end of a run, and has not seen that, is told */
    uint64_t store; /* this store's id; agents of another are refused */
    bool adopt;     /* agents of another store come in as newcomers */
    struct config_limits settings; /* of each job: for config_table_init() */
};

/* Sane times for a cluster of machines on one network; the store's id is left 0. */
struct cluster_config cluster_defaults(void);

enum note_kind {
    NOTE_JOINED,
    NOTE_WARM,
    NOTE_GENERATION,
    NOTE_ACTIVE,
    NOTE_LOST,
    NOTE_BACK,
    NOTE_DRAINING,
    NOTE_GONE,
    NOTE_REFUSED,
    NOTE_TAKEOVER, /* from checkpoint `value`; 0: none is known, so from what its nodes have */
    NOTE_FINISHED,
    NOTE_ENDED,
    NOTE_RESTARTED,
    NOTE_RESIZED,  /* people have changed what they want of a job: the reason says what */
    NOTE_DRAINED,  /* a node that was asked to leave, or a worker of its own will, has left */
    NOTE_LEFT_OUT, /* others can't work with a worker that lives: it has done nothing for `value`
                    * ms, or (0) can't be reached */
    NOTE_METRICS,  /* numbers of training after step `value`; the driver's, the cluster says none */
    NOTE_SAVED,    /* there is a checkpoint of step `value` */
    NOTE_HEALED,   /* states differed: all have gone back to step `value`; the reason says who was
                    * not like most, and after which step */
    NOTE_N
};

/* One happening, for logs, event streams and traces. Strings are constant or borrowed. */
struct note {
    enum note_kind kind;
    const char *job;
    const char *node; /* its name, or NULL */
    wid worker;       /* 0 if the note is not about one */
    uint64_t generation;
    uint64_t value; /* step, count or exit code, as the kind has it */
    const char *reason;
    struct metric *metrics; /* NOTE_METRICS */
    uint32_t metrics_n;
};

enum effect_kind {
    EFFECT_RECORD, /* make it durable, then cluster_apply() it; or say EVENT_WRITE_FAILED */
    EFFECT_WELCOME,
    EFFECT_REFUSED,
    EFFECT_ACK,
    EFFECT_GENERATION,
    EFFECT_ACTIVE,
    EFFECT_ROSTER,
    EFFECT_ENDED,
    EFFECT_NOTE
};

/* Everything it points to is borrowed until emit() returns. */
struct effect {
    enum effect_kind kind;
    uint32_t conn; /* messages: the connection to send it on */
    bool asked;    /* a record: what the event's request asked for, which it answers */
    union {
        const struct record *record;
        const struct msg_welcome *welcome;
        const struct msg_refused *refused;
        const struct msg_ack *ack;
        const struct generation *generation;
        const struct msg_active *active;
        const struct msg_roster *roster;
        const struct msg_ended *ended;
        const struct note *note;
    } u;
};

/* Where effects go and where keys come from. emit() must not call back into the cluster. */
struct effects {
    void (*emit)(struct effects *fx, const struct effect *e);
    void (*random)(struct effects *fx, uint8_t *out, size_t n);
};

enum event_kind {
    EVENT_TICK,
    EVENT_HELLO,
    EVENT_RENEW,
    EVENT_REPORTS,
    EVENT_BYE,
    EVENT_CLOSED, /* the connection is gone */
    EVENT_ADMIN,
    EVENT_MODE,        /* u.job names the job and the mode that its first worker decided */
    EVENT_WRITE_FAILED /* this record will never be durable */
};

/* `conn` is the driver's number of the connection it came by, never 0 and not reused
 * before EVENT_CLOSED. Messages are borrowed for the call. */
struct event {
    enum event_kind kind;
    uint64_t now_ms; /* never goes back */
    uint32_t conn;
    union {
        const struct msg_hello *hello;
        const struct msg_renew *renew;
        const struct msg_reports *reports;
        const struct msg_bye *bye;
        const struct msg_admin *admin;
        const struct rec_job *job;
        const struct record *record;
    } u;
};

/* On success the cluster is the caller's, released by cluster_close(). MU_EINVAL when the
 * times make no sense together, MU_ENOMEM. settings: what it reads, and hears of by their records;
 * borrowed for its life, NULL: there are none. */
int cluster_init(const struct cluster_config *config, struct config_table *settings,
                 struct cluster **c_out);
void cluster_close(struct cluster *c);

/* The store's id, which the driver learns only when it has replayed it; before cluster_start(). */
void cluster_set_store(struct cluster *c, uint64_t store);

/* After the last record of the journal has been applied: the time starts, and every
 * known node has a lease from now (the grace). wall_ms: since 1970, for what is to be remembered
 * longer than an orchestrator lives. */
void cluster_start(struct cluster *c, uint64_t now_ms, uint64_t wall_ms, struct effects *fx);

/* MU_OK, or why a request (admin, mode) was not taken: nothing has changed then. */
int cluster_step(struct cluster *c, const struct event *e, struct effects *fx);

/* `r` is durable. While the journal is replayed fx is NULL. MU_ECORRUPT when the record
 * contradicts those before it; the cluster is unchanged then. */
int cluster_apply(struct cluster *c, const struct record *r, struct effects *fx);

/* A change of a job's settings: the record that makes it, which is then on its way
 * (config_check()); its value is the request's own pointer. One change per job at a time: MU_EAGAIN
 * while there is another. MU_ENOENT: there is no such job, or no such key to remove. When it is not
 * taken a sentence is in why (cap bytes). */
int cluster_wish(struct cluster *c, const char *job, const struct config_request *q,
                 struct record *r_out, char *why, size_t cap);

/* When EVENT_TICK is wanted next. */
uint64_t cluster_deadline(const struct cluster *c);

/* ---- looking in (status, tests): nothing here changes anything ---- */

struct job_view {
    const char *name;
    uint32_t run;
    uint64_t generation;
    uint64_t active;
    uint8_t kind;
    uint8_t flags;
    uint32_t members_n; /* of `generation` */
    uint32_t nodes_n;
    uint32_t available_n; /* nodes with all their slots live */
    uint64_t step;
    uint64_t checkpoint;
    bool finished;
    bool ended;
};

/* MU_ENOENT if there is no such job. */
int cluster_job(const struct cluster *c, const char *job, struct job_view *view_out);

/* Fills in the published generation as it was sent; members point into the cluster's
 * scratch, valid until the next call. MU_ENOENT if there is none. */
int cluster_generation(struct cluster *c, const char *job, struct generation *g_out);

size_t cluster_memory(const struct cluster *c);

/* The job's settings; NULL if there is no such job. */
const struct config *cluster_settings(const struct cluster *c, const char *job);

/* The rest of a job, for those who show it. */
struct job_look {
    struct job_view view;
    uint32_t min, max; /* as they are in force: --nnodes, or what people have set */
    uint32_t max_restarts;
    uint32_t want_size;   /* nodes that people want, or their schedule; 0: as many as max */
    uint32_t survivors_n; /* living members of the active generation */
    uint8_t mode;
    bool paused;
    bool listed;     /* people have named the nodes that stay */
    bool scheduled;  /* want_size is that of their schedule, now */
    bool heals;      /* it has given up its last generation, and goes back to a checkpoint */
    bool failed;     /* it ended so */
    const char *why; /* why it ended; "" if there is nothing to say */
};

/* One slot of a node. */
struct slot_look {
    wid worker;  /* its newest life; 0: none was reported yet */
    wid member;  /* the life that is in the published generation; 0: none */
    bool active; /* one of its lives is in the active generation */
    bool lives;  /* by its own word and its agent's */
    uint8_t phase;
    uint64_t entered, step;
    uint32_t spent;  /* of its restart budget */
    bool has_exited; /* one of its lives, since the orchestrator started; the last one with … */
    uint32_t exit_code;
    const char *addr; /* as the published generation has it; of others, as they say */
    uint32_t port;    /* 0: none */
    bool unkept;      /* it was to keep its newest state in memory, and could not */
};

/* A node whose record is durable. */
struct node_look {
    const char *name;
    uint32_t number;
    uint32_t conn; /* 0: none */
    uint64_t host;
    uint8_t role;
    bool helps;     /* in no generation, … */
    uint32_t place; /* then: the number of its first slot among those of its role */
    bool gone;      /* for good; a generation still names it */
    bool lapsed;    /* out of touch */
    bool draining;  /* it is to leave */
    bool member;    /* a slot of it is in the published generation */
    uint64_t held;
    uint32_t slots;
    const struct slot_look *slot; /* `slots` of them */
};

/* What they get is borrowed for the call; they must not call what changes the cluster. */
typedef void cluster_job_fn(void *arg, const struct job_look *j);
typedef void cluster_node_fn(void *arg, const struct node_look *n);

/* MU_ENOENT if there is no such job. */
int cluster_look_job(const struct cluster *c, const char *job, struct job_look *look_out);
void cluster_each_job(const struct cluster *c, cluster_job_fn *fn, void *arg);

/* Those with members first, so that their member slots come in order of rank. MU_ENOENT. */
int cluster_each_node(const struct cluster *c, const char *job, cluster_node_fn *fn, void *arg);

#endif
