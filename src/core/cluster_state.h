/* The inside of a cluster, shared by the cluster_*.c files and by nobody else.
 *
 * Nodes and workers live in pools; links are indices, NONE where there is none. A node's
 * slots are neighbours in the worker pool. `seniors` is the list of nodes with a worker
 * in the active or the published generation, in rank order; all others wait in `others`. */
#ifndef CORE_CLUSTER_STATE_H
#define CORE_CLUSTER_STATE_H

#include "base/heap.h"
#include "core/cluster.h"
#include "core/schedule.h"

#define NONE UINT32_MAX
#define NUMBER_MAX INT32_MAX /* of a node: far from where numbers turn over */
#define NEVER UINT64_MAX

/* Another worker that this one can't talk to, by its own word. */
struct distance {
    wid peer;
    uint32_t idle_ms;  /* what it has waited for it; 0: it can't be reached */
    uint64_t since_ms; /* when it said so first, in this generation */
};

/* One slot. An incarnation of 0 means "not in it". */
struct worker {
    uint32_t incarnation; /* the newest that was reported */
    uint32_t active_inc;  /* the one in the active generation */
    uint32_t current_inc; /* the one in the published generation */
    uint32_t spent;       /* of its restart budget */
    uint32_t charged;     /* spending that is on its way to the journal */
    uint32_t charged_inc;
    uint32_t spent_inc; /* the incarnation that was charged last */
    uint32_t exited;    /* 1 + the exit code of its last life that has ended; 0: none that we saw */
    bool caught_up;     /* in the published generation, as one that holds the state */
    bool serves;        /* by its own word, or that of its last life */
    bool asks;          /* it wants the roster */
    uint8_t phase;
    uint64_t entered;
    uint64_t reached;
    uint64_t step;
    uint64_t checkpoint; /* as it said last; it counts if its life is active */
    uint32_t fault_inc;  /* the life that has stopped; the rest is as it said then */
    uint8_t fault;
    uint64_t fault_step;
    wid odd;
    uint64_t agreed;
    char addr[ADDR_MAX_LEN]; /* as it says now, for the next generation */
    uint32_t port;
    bool unkept;                   /* as its report has it */
    bool port_used;                /* by the published generation: another is on its way */
    char named_addr[ADDR_MAX_LEN]; /* its address in the published generation */
    uint32_t named_port;
    uint64_t apart_in; /* as its report has it */
    uint32_t apart_n;
    struct distance apart[APART_MAX];
    /* In the judgement of suspicions with this number; one with another says nothing. */
    uint64_t judged;
    uint32_t named_n; /* so many others are apart from it */
    uint32_t idle_ms; /* so long those others have waited for it */
    bool complains;   /* it is apart from others by its own word */
    bool dropped;     /* it is to go */
};

enum node_state {
    NODE_FREE,
    NODE_JOINING, /* its record is not durable yet */
    NODE_UP,
    NODE_GONE, /* for good; kept while a generation names it, or to remember something of it */
};

/* What a node's workers add to their job's counts. */
struct tally {
    uint32_t lost_n;      /* of the generations that matter now, not living */
    uint32_t entered_n;   /* of the published one, entered and caught up */
    uint32_t finished_n;  /* of the active one, finished */
    uint32_t survivors_n; /* of the active one, living */
    uint32_t dead_n;      /* of the active one, proved dead */
    uint32_t trainers_n;  /* they may train, now or later */
    uint32_t led_n;       /* chiefs that have done their work */
    uint32_t unheard_n;   /* how they are has yet to be said since the orchestrator started */
};

struct node {
    char name[NAME_MAX_LEN];
    uint64_t incarnation;
    uint64_t host;
    uint32_t number;
    uint32_t job;
    uint32_t conn; /* 0: none */
    uint32_t workers;
    uint32_t slots;
    uint8_t role;
    uint8_t duty;   /* enum duty */
    uint32_t place; /* of a helper: the number of its first slot among those of its role */
    uint8_t state;
    bool lapsed;
    bool draining;
    bool drained; /* draining by a record, not by its own wish */
    bool heals;   /* it was started with --heal */
    bool saw_end; /* it has left, knowing that the run is over or ending */
    bool silent;  /* auto: its scripts may be restarted for a planned change */
    bool listed;
    bool senior;
    bool timed;       /* its lease is in the heap */
    bool timed_close; /* the end of its time to reconnect is in the heap */
    bool going;       /* a record that ends it is on its way */
    uint64_t lease_end_ms;
    uint64_t closed_ms; /* NEVER while connected, or never seen connected */
    uint64_t held;
    uint64_t active;
    uint64_t reports_seq;
    uint64_t sent, sent_ms; /* the generation that was sent by this connection last, and when */
    uint64_t seen;          /* in the record of this generation, while that is checked */
    bool asks;              /* one of its workers wants the roster */
    bool unheard;           /* it is known from the journal, and has said nothing since */
    uint64_t roster;        /* the version that it holds */
    uint64_t roster_sent, roster_sent_ms; /* the version that it was sent last, and when */
    uint64_t shown;                       /* what the roster says of it, as a hash; 0: nothing */
    uint32_t prev, next;                  /* seniors or others */
    uint32_t chain_name, chain_number, chain_conn;
    /* What node_refresh() last counted into the job. */
    bool available; /* all its slots can be in a fresh generation */
    bool joinable;  /* all its slots can join the published generation */
    struct tally tally;
};

struct list {
    uint32_t first, last;
};

/* What the settings of a job say of its size; 0 where they say nothing. */
struct wish {
    uint32_t min, max, size;
    uint64_t size_version, schedule_version;
    bool paused;
    bool listed; /* there are names of nodes: only those stay */
    struct schedule schedule;
};

/* A script that failed while others ran: it is charged at `until_ms`, unless it turns out that
 * another member was lost and this one fell with it. 0: none. */
struct blame {
    uint64_t until_ms;
    uint32_t node, slot, incarnation, code;
};

/* The last time that the job went back because states differed. */
struct heal {
    uint64_t generation; /* that was given up; 0: never */
    uint64_t step;       /* what follows starts from a checkpoint not after this */
    uint64_t at;         /* the last step that was committed when it was found out */
    uint32_t count;      /* of heals since the job last got past the step where one began */
    wid odd;
};

/* Volatile: an orchestrator that starts begins anew, above what the nodes say that they hold. */
struct roster {
    uint64_t version; /* of what was told last */
    uint64_t due_ms;  /* not again before this */
    bool dirty;       /* it has changed since */
};

struct job {
    char name[NAME_MAX_LEN];
    bool used;
    uint32_t run;
    uint32_t min, max; /* --nnodes; what is in force: job_min(), job_max() */
    uint32_t max_restarts;
    uint32_t next_min, next_max; /* while `creating`: what its record will say */
    uint8_t next_mode;
    uint8_t mode;
    /* The published generation. */
    uint64_t number, from, base_step;
    uint8_t kind, flags;
    uint8_t key[KEY_BYTES];
    uint32_t members_n;
    uint64_t active;
    uint32_t active_n;
    uint64_t checkpoint;
    uint64_t checkpoint_before; /* the one before it; 0: none that is known */
    struct heal heal;
    uint64_t finished_step;
    uint64_t ended_ms; /* by the wall clock; 0: long ago */
    uint64_t over_ms;  /* the same, but not after the orchestrator's start if it was before */
    bool finished, ended, failed;
    char why[TEXT_MAX_LEN]; /* it ended so */
    struct wish wish;
    struct list seniors, others;
    uint32_t nodes_n;
    /* Volatile. */
    uint32_t coming_n; /* nodes whose record is on its way */
    uint64_t left_ms;  /* when the last node left */
    bool forgetting;   /* its place is to be another's: that record is on its way */
    uint64_t step;
    bool stepped; /* every member has said how far it is */
    uint32_t available_n;
    struct tally tally;
    uint64_t proposed; /* the number of the generation that is on its way to the journal; 0: none */
    uint64_t next_number; /* generation numbers are never tried twice */
    uint64_t word_ms;     /* when a member of the active generation was last heard */
    uint64_t saved;       /* newest checkpoint reported */
    uint32_t saves;       /* how often people have asked for one, since the orchestrator started */
    uint64_t retry_ms;    /* no record before this, after a failed write */
    uint64_t published_ms;
    uint32_t futile_n;    /* generations in a row that failed soon after they started */
    uint32_t futile_node; /* the node because of which they failed */
    bool futile_mixed;    /* several nodes were to blame */
    struct blame blame;
    uint64_t mend_ms; /* scripts that ended just now may be ready again until then */
    bool deciding;    /* its mode is on its way to the journal */
    bool pending;     /* a membership record is on its way */
    bool creating;    /* its own record is on its way */
    bool finishing;   /* its end is on its way to the journal */
    bool failing;     /* it has failed, which could not be written yet */
    bool done;        /* a member has said that it has finished, and may have gone since */
    bool led;         /* the chief has, likewise */
    bool deserted;    /* the last node is gone, all its workers having left */
    bool saving;
    bool faulted; /* a member has stopped, and it is to be seen whether the job can heal */
    bool dirty;   /* something that may change the plan has happened */
    bool touched; /* it is in the list of jobs to judge after this event */
    uint32_t next_touched;
    bool takeover_asked;
    bool suspected;  /* its members may be apart from others */
    uint64_t judged; /* the number of the last judgement of suspicions */
    uint64_t newcomer_ms;
    uint64_t due_ms;
    struct roster roster;
};

/* What is left of a job that was forgotten. */
struct memory {
    uint64_t name;                                /* a hash */
    uint64_t generation, step, ended_ms, over_ms; /* as a job has them */
    uint32_t run;                                 /* 0: nothing */
    bool done;
};

/* Members on one host; a slot of an open hash. */
struct load {
    uint64_t host;
    uint32_t n;
    bool used;
};

struct cluster {
    struct cluster_config config;
    uint64_t now_ms, start_ms, grace_ms, jump_ms;
    uint64_t wall_zero_ms; /* what the wall clock showed at time 0 */
    bool started;
    uint32_t next_node;   /* volatile: of the records that are on their way too */
    uint32_t nodes_floor; /* numbers below this have been given away, by the journal */
    uint64_t jobs_due_ms;
    uint32_t touched; /* jobs to judge after this event */
    struct job *jobs;
    struct config_table *settings;
    struct node *nodes;
    struct worker *workers;
    struct member *scratch;       /* workers_max: the generation being built or sent */
    struct roster_entry *helpers; /* workers_max: those of the roster in `filled` */
    struct msg_roster filled;     /* the roster that was sent last, … */
    uint32_t filled_job;          /* its job, or NONE */
    uint32_t *picked;             /* nodes_max: the nodes of the plan */
    struct heap_item *ranking;    /* nodes_max: newcomers by the load of their host */
    struct load *loads;           /* buckets: members per host, while newcomers are picked */
    uint32_t *by_name, *by_number, *by_conn; /* chain heads; buckets is a power of two */
    uint32_t buckets;
    uint32_t free_node;
    uint32_t free_slots[SLOTS_MAX + 1]; /* freed runs of that many workers, linked by `spent` */
    uint32_t workers_used;
    struct heap heap;
    struct memory *memories; /* a ring: the oldest is at `memories_at` */
    uint32_t memories_at;
    size_t memory;
    const struct job *taken_over; /* the one whose takeover this event asks for */
};

/* cluster_table.c: finding, making and freeing */
struct job *job_find(struct cluster *c, const char *name);
struct job *job_make(struct cluster *c, const char *name);
void job_free(struct cluster *c, struct job *j); /* with what is left of its nodes */
uint32_t job_index(const struct cluster *c, const struct job *j);
uint64_t job_hash(const char *name);
bool nodes_full(const struct cluster *c);
struct node *node_by_name(struct cluster *c, uint32_t job, const char *name);
/* The same, but not one whose record is not durable yet. */
struct node *node_by_name_durable(struct cluster *c, uint32_t job, const char *name);
/* The one whose record is on its way, or NULL. */
struct node *node_joining(struct cluster *c, const char *job, const char *name,
                          uint64_t incarnation);
struct node *node_by_number(struct cluster *c, uint32_t number);
struct node *node_by_conn(struct cluster *c, uint32_t conn);
uint32_t node_index(const struct cluster *c, const struct node *n);
struct node *node_make(struct cluster *c, uint32_t job, const char *name, uint32_t slots);
void node_number(struct cluster *c, struct node *n, uint32_t number);
void node_forget_name(struct cluster *c, struct node *n);
void numbers_given(struct cluster *c, uint32_t floor);
void forget_tombs(struct cluster *c, uint32_t job); /* nodes that are gone, and named nowhere */
void node_free(struct cluster *c, struct node *n);
void conn_bind(struct cluster *c, struct node *n, uint32_t conn);
void conn_drop(struct cluster *c, struct node *n);
void list_push(struct cluster *c, struct list *l, struct node *n);
void list_remove(struct cluster *c, struct list *l, struct node *n);

static inline struct worker *node_worker(struct cluster *c, const struct node *n, uint32_t slot)
{
    return &c->workers[n->workers + slot];
}

static inline struct node *node_at(struct cluster *c, uint32_t index)
{
    return index == NONE ? NULL : &c->nodes[index];
}

/* It helps, and is in no generation for that. */
static inline bool node_serves(const struct cluster *c, const struct node *n)
{
    return n->duty == DUTY_HELPS && c->jobs[n->job].mode == MODE_INPROCESS;
}

/* cluster_live.c: who is alive, and what that means for its job's counts */
bool worker_lives(const struct node *n, const struct worker *w, uint32_t incarnation);
bool worker_joinable(const struct cluster *c, const struct node *n, const struct worker *w);
bool worker_dead(const struct node *n, const struct worker *w, uint32_t incarnation);
bool worker_left(const struct worker *w);
bool node_alive(const struct node *n);
uint32_t node_staff(struct cluster *c, const struct node *n); /* slots that have not left */
void node_refresh(struct cluster *c, struct node *n);
void job_refresh(struct cluster *c, struct job *j);
void node_heard(struct cluster *c, struct node *n);
void node_watch(struct cluster *c, struct node *n);
void live_tick(struct cluster *c, struct effects *fx);
void job_touch(struct cluster *c, struct job *j);
void job_due(struct cluster *c, struct job *j, uint64_t at_ms);

/* cluster_roster.c: helpers, and who is told of them */
enum duty node_duty(struct cluster *c, const struct node *n); /* worked out anew */
void roster_look(struct cluster *c, struct node *n); /* what is said of the node may have changed */
void roster_heard(struct cluster *c, struct node *n,
                  uint64_t version); /* which it holds, by hello */
void roster_say(struct cluster *c, struct node *n,
                struct effects *fx); /* what it has yet to hear */
void roster_publish(struct cluster *c, struct job *j, struct effects *fx); /* if it has changed */
void roster_restart(struct job *j); /* the orchestrator has started */
/* The place of a helper that says hello; false: there is none left. */
bool roster_place(struct cluster *c, const struct job *j, const struct msg_hello *h,
                  uint32_t *place_out);

/* cluster_hello.c and cluster_report.c: what agents say */
int on_hello(struct cluster *c, const struct event *e, struct effects *fx);
int on_renew(struct cluster *c, const struct event *e, struct effects *fx);
int on_reports(struct cluster *c, const struct event *e, struct effects *fx);
int on_bye(struct cluster *c, const struct event *e, struct effects *fx);
int on_closed(struct cluster *c, const struct event *e, struct effects *fx);
void take_reports(struct cluster *c, struct node *n, uint64_t seq, const struct report *reports,
                  uint32_t reports_n, struct effects *fx);
void take_checkpoint(struct job *j, const struct worker *w); /* if its life is active */
void node_leave(struct cluster *c, struct node *n, struct effects *fx);

/* cluster_forget.c: places for others, and what is remembered. true: one will be free soon. */
bool forget_job(struct cluster *c, struct effects *fx);
bool forget_node(struct cluster *c, uint32_t slots, struct effects *fx);
int apply_forgotten(struct cluster *c, const struct rec_forgotten *r);
const struct memory *memory_find(const struct cluster *c, const char *job); /* or NULL */
void memory_drop(struct cluster *c, const char *job);
void dump_memory(const struct cluster *c, uint32_t i, struct sink *to); /* the i-th oldest */

/* cluster_budget.c: whose fault an end was, and what it costs */
void blame(struct cluster *c, struct node *n, const struct report *r, struct effects *fx);
/* A member was lost (slot NONE: a whole node): who failed beside it is not to blame. */
void blame_excuse(struct cluster *c, struct job *j, const struct node *n, uint32_t slot);
void blame_left(struct cluster *c, const struct node *n, struct effects *fx);
void blame_settle(struct cluster *c, struct job *j, struct effects *fx);
bool budget_spent(struct cluster *c, const struct job *j, const struct node *n);
void budget_refuse(struct cluster *c, struct job *j, struct node *n, uint32_t conn,
                   struct effects *fx);

/* cluster_heal.c: members that differ, and what becomes of the job */
void take_fault(struct cluster *c, struct job *j, const struct node *n, struct worker *w,
                const struct report *r, struct effects *fx);
/* Are all members who live known to have stopped? Then it ends the job, or gives up the generation;
 * true: something is on its way. deserted: no member lives, and none will come back. */
bool heal_try(struct cluster *c, struct job *j, bool deserted, struct effects *fx);
/* A generation has been given up, and none is active since: whatever is formed starts anew. */
bool job_heals(const struct job *j);
bool job_must_heal(const struct job *j); /* it heals, and nothing has been formed yet */
void note_healed(struct cluster *c, struct job *j, struct effects *fx);

/* cluster_suspect.c */
void take_apart(struct cluster *c, struct job *j, struct worker *w, const struct report *r);
/* Judges who is to go. True: one of them is in a generation that matters now. */
bool suspect_judge(struct cluster *c, struct job *j);
bool suspect_drops(const struct job *j, const struct worker *w); /* by the last judgement */
/* Says who of the published generation is left out of generation `number`, which is durable. */
void suspect_note(struct cluster *c, const struct job *j, uint64_t number, struct effects *fx);

/* cluster_pick.c: which nodes a planned or fresh generation should have */
uint32_t pick_nodes(struct cluster *c, struct job *j, bool whole);

/* cluster_form.c: who is in the next generation */
void job_evaluate(struct cluster *c, struct job *j, struct effects *fx);

/* cluster_dump.c: the machine's */
bool cluster_dump(void *cluster, struct cursor *at, struct sink *to);

/* cluster.c: judges every job that something has happened to */
void cluster_settle(struct cluster *c, struct effects *fx);

/* cluster_wish.c: what settings mean for a job's size */
uint32_t job_min(const struct job *j);
uint32_t job_max(const struct job *j);
uint32_t job_size(struct cluster *c, const struct job *j);
bool job_scheduled(const struct job *j); /* its schedule rules the size */
void job_stepped(struct cluster *c, struct job *j, uint64_t step);
void wish_read(struct cluster *c, struct job *j);
void wish_of_node(struct cluster *c, struct node *n);
void nodes_unlist(struct cluster *c, struct job *j);
void hear_config(struct cluster *c, const struct rec_config *r, struct effects *fx);

/* cluster_admin.c: what people ask for besides */
int on_admin(struct cluster *c, const struct event *e, struct effects *fx);
int on_mode(struct cluster *c, const struct event *e, struct effects *fx);
void record_mode(const struct job *j, uint8_t mode, struct effects *fx);
void record_finished(struct cluster *c, struct job *j, bool ended, const char *why,
                     struct effects *fx);
void record_deserted(struct cluster *c, struct job *j, struct effects *fx); /* all have left */
void record_failed(struct cluster *c, struct job *j, struct effects *fx, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* cluster_say.c: effects */
void say_record(struct effects *fx, const struct record *r, bool asked);
void say_refused(struct effects *fx, uint32_t conn, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void say_welcome(struct cluster *c, struct node *n, struct effects *fx);
void say_ack(struct cluster *c, const struct node *n, struct msg_ack *ack, struct effects *fx);
void say_ended(const struct job *j, uint32_t conn, struct effects *fx);
void say_note(struct effects *fx, const struct note *note);
void say_level(struct cluster *c, struct node *n, struct effects *fx);
void publish_generation(struct cluster *c, struct job *j, struct effects *fx);
void publish_active(struct cluster *c, struct job *j, struct effects *fx);
void publish_mode(struct cluster *c, struct job *j, struct effects *fx);
void publish_ended(struct cluster *c, struct job *j, struct effects *fx);
void generation_fill(struct cluster *c, struct job *j, struct generation *g);

#endif
