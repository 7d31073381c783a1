/* The protocol's vocabulary: what agents, the orchestrator and workers say to each
 * other, and what the journal keeps. Plain data; wire/ turns it into bytes and back.
 *
 * Agents speak in levels, not edges: a hello, renewal or report says how things stand
 * and may be lost, repeated or overtaken without harm. */
#ifndef CORE_MESSAGE_H
#define CORE_MESSAGE_H

#include "base/base.h"

#define NAME_MAX_LEN 64 /* of jobs and nodes, terminator included */
#define ADDR_MAX_LEN 64
#define TEXT_MAX_LEN 256
#define KEY_BYTES 32
#define HASH_BYTES 16
#define SLOTS_MAX 64
#define SLICES_MAX 1024
#define MEMBERS_MAX 131072
#define SYNC_TAG_MAX 128
#define SYNC_DATA_MAX (64u << 10)
#define CONFIG_KEY_MAX 128
#define CONFIG_VALUE_MAX (64u << 10)
#define ASK_TOPIC_MAX 128 /* that of a tag, and of a key */
#define ASK_BODY_MAX ((64u << 10) + 1024)
#define TEXT_PIECE_MAX (256u << 10)
#define SAYS_BODY_MAX (TEXT_PIECE_MAX + 1024)
#define METRICS_MAX 16
#define METRIC_NAME_MAX 64

/* One life of one worker: (node, slot, incarnation), never used twice in a store. */
typedef uint64_t wid;

static inline wid wid_make(uint32_t node, uint32_t slot, uint32_t incarnation)
{
    return (uint64_t)node << 32 | (uint64_t)slot << 24 | (incarnation & 0xffffffu);
}

static inline uint32_t wid_node(wid w)
{
    return (uint32_t)(w >> 32);
}

static inline uint32_t wid_slot(wid w)
{
    return (uint32_t)(w >> 24) & 0xffu;
}

static inline uint32_t wid_incarnation(wid w)
{
    return (uint32_t)w & 0xffffffu;
}

enum role { ROLE_WORKER, ROLE_CHIEF, ROLE_PS, ROLE_EVALUATOR, ROLE_N };

/* auto until the first worker decides it. */
enum mode { MODE_AUTO, MODE_RESTART, MODE_INPROCESS, MODE_N };

/* What a worker is there for. Those who train count for min and max, and for the end of the job.
 * The others are there to help: in restart mode they are started and stopped with each generation,
 * in-process they are in none, and found by the roster. */
enum duty { DUTY_TRAINS, DUTY_HELPS };

/* By its role alone: in-process a chief leads, and a worker that serves helps, too. */
static inline enum duty duty_of(uint8_t role, uint8_t mode)
{
    const bool chief_trains = mode != MODE_INPROCESS;

    return role == ROLE_WORKER || (role == ROLE_CHIEF && chief_trains) ? DUTY_TRAINS : DUTY_HELPS;
}

/* How a worker stands, by its own and its agent's word. LOST is the agent's suspicion
 * (no beat for a lease) and may pass; EXITED is proof of death. */
enum phase {
    PHASE_NONE,
    PHASE_WARMING,
    PHASE_WARM,
    PHASE_IN,
    PHASE_FINISHED,
    PHASE_LOST,
    PHASE_EXITED,
    PHASE_SERVING, /* it helps: in no generation, and ready for whoever looks for it */
    PHASE_N
};

/* Why a worker has stopped: the members of its generation differ; or all steps are done, and nobody
 * could save the last state. */
enum fault { FAULT_NONE, FAULT_STATES, FAULT_GRADIENTS, FAULT_UNSAVED, FAULT_N };

#define APART_MAX 8

/* A member that a worker waits for in vain. */
struct apart {
    wid peer;
    uint32_t idle_ms; /* it has done nothing for so long; 0: it can't be reached */
};

struct report {
    uint32_t slot;
    uint32_t incarnation;
    uint8_t phase;
    uint32_t exit_code;  /* EXITED: 0–127 its own, 128 + signal when killed */
    uint64_t entered;    /* newest generation it acts in and is caught up in; 0 if none */
    uint64_t step;       /* its last committed step */
    uint64_t checkpoint; /* newest step it has saved for all; 0 if none */
    uint64_t reached;    /* newest generation to all of whose members it has a link now; 0 */
    char addr[ADDR_MAX_LEN];
    uint32_t port;     /* free on its host for the next generation, as MASTER_PORT; 0 if none */
    uint8_t hung;      /* EXITED: its agent ended it, for it did not notice that it was left out */
    uint8_t fault;     /* enum fault: it commits nothing more */
    wid odd;           /* with a fault: the first of those who are not like most; 0: there is no
                        * most, or it is not known */
    uint64_t agreed;   /* newest step after which its generation's states were the same; 0: none */
    uint64_t apart_in; /* the generation whose members `apart` are */
    uint32_t apart_n;  /* said until a generation has no broken pair of these */
    struct apart apart[APART_MAX];
    uint8_t unkept; /* it was to keep its newest state in memory, and could not */
    uint8_t asks;   /* it wants to be told the roster, now and whenever it changes */
};

/* ---- agent -> orchestrator ---- */

/* Flags of hello, renewal and (the first) acknowledgement. */
#define NODE_DRAINING 1u  /* this node is to leave */
#define NODE_INPROCESS 2u /* a worker of it has connected to its agent */
#define NODE_RESTART 4u   /* one that never connected has ended well: its script knows no muster */
#define NODE_ENDING 8u    /* acknowledgement: a worker of the job has finished */
#define NODE_HEAL 16u     /* when states differ, go back to what all had, instead of ending */
#define NODE_RERUN 32u    /* hello: another run, if the last one is over */
#define NODE_SILENT 64u   /* auto: nothing is known, and scripts that run may be restarted by now */

struct msg_hello {
    uint64_t store; /* id of the store that gave `node`; 0 if none did */
    char job[NAME_MAX_LEN];
    char name[NAME_MAX_LEN];
    uint64_t incarnation; /* random, one per agent process */
    uint32_t node;        /* the number given before; 0 if none */
    uint32_t run;         /* the run in which that number was given */
    uint64_t host;        /* nodes of one host have the same */
    uint32_t min;
    uint32_t max;
    uint32_t slots;
    uint8_t role;
    uint8_t mode;
    uint32_t max_restarts;
    uint32_t flags;
    uint64_t held;   /* newest generation the agent holds */
    uint64_t active; /* newest generation it knows to be active */
    uint64_t seq;    /* of the reports, as in msg_reports */
    uint32_t reports_n;
    struct report *reports; /* up to SLOTS_MAX */
    uint64_t roster;        /* version of the roster that it holds; 0: of none */
};

struct msg_renew {
    uint64_t seq;
    uint64_t held;
    uint64_t active;
    uint32_t flags;
    uint64_t roster; /* as in msg_hello */
};

struct msg_reports {
    uint64_t seq; /* grows with every change; acknowledged in msg_ack.reports */
    uint32_t reports_n;
    struct report *reports;
};

/* The node is gone for good: every process below it has ended. By its own connection, or, when its
 * agent was killed, by its keeper's, which says which agent it was. */
struct msg_bye {
    uint32_t node;
    uint64_t store;
    uint64_t incarnation;
    uint8_t ended; /* it knows that the run is over, or ending */
};

/* ---- orchestrator -> agent ---- */

struct msg_welcome {
    uint64_t store;
    uint32_t node; /* another number than before: whatever the workers held is forgotten */
    uint32_t run;
    uint32_t lease_ms;
    uint32_t orphan_ms;
    uint8_t mode; /* the job's, as in msg_ack */
};

struct msg_refused {
    int32_t status;
    char text[TEXT_MAX_LEN];
};

struct msg_ack {
    uint64_t seq;
    uint64_t reports;
    uint32_t flags;      /* NODE_DRAINING: somebody wants this node to leave */
    uint64_t generation; /* the newest: whoever holds an older one has no lease yet */
    uint8_t mode;        /* the job's: auto until it is decided, then for the run */
    uint32_t saves;      /* how often people have asked for a checkpoint of it */
};

enum generation_kind {
    GENERATION_FRESH,    /* nobody holds a state: all start from the base */
    GENERATION_BOUNDARY, /* planned: entered together at a step's end */
    GENERATION_FAILURE,  /* survivors of `from`: entered at once */
    GENERATION_KIND_N
};

#define GENERATION_HOLD 1u         /* settle, then wait: no step is computed in it */
#define GENERATION_CHECKPOINTED 2u /* fresh: the base is checkpoint `base_step` */
#define GENERATION_HEALS                                                                    \
    4u /* fresh: the base is that one, or the newest before it: those after it, in whatever \
        * place, may be of a state that not all members had */

#define MEMBER_CAUGHT_UP 1u /* was in `from`, so it holds the lineage's state */

struct member {
    wid worker;
    uint64_t host;
    uint8_t role;
    uint8_t flags;
    char addr[ADDR_MAX_LEN];
    uint32_t port; /* rank 0's is MASTER_PORT */
};

/* Ranks count those who train: a helper is a member without one. */
static inline bool member_is_ranked(const struct member *m)
{
    return duty_of(m->role, MODE_RESTART) == DUTY_TRAINS;
}

/* Both a message and a record. To nodes that have no member in it, the key is zero. */
struct generation {
    char job[NAME_MAX_LEN];
    uint32_t run;
    uint64_t number;
    uint64_t from; /* the last active one, which it continues or (fresh) gives up; 0 if none */
    uint8_t kind;
    uint8_t flags;
    uint64_t base_step; /* fresh only: the step its members start from */
    uint8_t key[KEY_BYTES];
    uint32_t members_n;
    struct member *members; /* by rank; up to MEMBERS_MAX */
};

#define HELPERS_MAX 1024 /* of one role in a job; workers that serve do not count */

/* A worker that others may look for although it is in no generation. */
struct roster_entry {
    wid worker; /* that of whoever takes its place is higher */
    uint64_t host;
    uint8_t role;
    uint8_t phase; /* WARMING or SERVING */
    uint32_t
        number; /* among those of its role; whoever takes its place has it again. Of workers: 0 */
    char addr[ADDR_MAX_LEN];
};

/* The helpers of the job, told to the nodes that ask. Members are not in it: the generation says
 * who they are. */
struct msg_roster {
    uint32_t run;
    uint64_t version; /* higher than whatever the node has held in this run */
    uint32_t helpers_n;
    struct roster_entry *helpers; /* in any order; up to MEMBERS_MAX */
};

/* From here on results of this generation may be committed, and of no other. */
struct msg_active {
    uint64_t generation;
};

/* The run is over: exit 0, or 1 if it failed. Told to workers too, and to one that leaves. */
struct msg_ended {
    uint32_t run;
    uint64_t step;
    uint8_t failed;
    char why[TEXT_MAX_LEN]; /* "" unless it failed or was shut down */
    uint8_t left;           /* to a worker: the run goes on, without this one; exit 0 */
};

/* ---- agent <-> its workers (unix socket) ---- */

enum attach_why {
    ATTACH_JOINS,  /* the worker itself: one per slot */
    ATTACH_DEPOT,  /* only to talk to the orchestrator's depot: a connection of its own */
    ATTACH_LOADED, /* it has loaded libmuster, and will join; nothing follows */
    ATTACH_N
};

/* A worker's first frame: which start of which slot it is, by its environment. */
struct msg_attach {
    uint32_t slot;
    uint64_t cookie; /* random, one per start */
    uint32_t pid;
    uint8_t why; /* enum attach_why */
};

/* The agent's answer, and again whenever the worker goes on as another. */
struct msg_life {
    wid worker;
    uint32_t run;
    uint32_t slots; /* of the node */
    uint32_t lease_ms;
    uint32_t orphan_ms;
    uint8_t mode;
    char job[NAME_MAX_LEN];
    char node[NAME_MAX_LEN];
    uint8_t key[KEY_BYTES];  /* of the run: the same for all its workers, and no others */
    uint64_t host;           /* as in `member` */
    char addr[ADDR_MAX_LEN]; /* "host:port" where the others are told to look for it */
    uint8_t role;
};

struct msg_beat {
    wid worker;
};

/* It has dropped its state and wants another life. */
struct msg_forget {
    wid worker;
};

/* When the last acknowledged renewal was sent, on the host's boot clock. */
struct msg_lease {
    uint64_t sent_ms;
    uint32_t saves; /* when it changes, the state after the next step is to be saved */
};

/* ---- questions: whoever asks, through its agent or by itself, <-> orchestrator ---- */

/* One question, or one word that wants no answer; wire/ask.def has the kinds and what goes with
 * each. Whoever passes it on looks at this much and not into the body. */
struct msg_ask {
    wid worker;                /* 0: people ask, or an agent */
    uint64_t request;          /* comes back in whatever is said to it */
    uint16_t kind;             /* enum ask_kind */
    uint32_t wait_ms;          /* what is left of its time; UINT32_MAX: it has no end */
    uint64_t at;               /* a version: where a stream goes on, what a change expects */
    char job[NAME_MAX_LEN];    /* of an agent: its own, whatever it says */
    char topic[ASK_TOPIC_MAX]; /* what it is about: a key, a tag, a node */
    uint32_t body_n;
    uint8_t *body; /* wire_body_decode() */
};

/* Part of an answer. A stream says in one batch after the other what has come to be, and behind
 * each an empty one with `more`: that was all up to `at`. From an agent to its worker, and to a
 * question that is no stream, an empty one with `more` says that what came before is void: it broke
 * off, and comes again. */
struct msg_says {
    wid worker;
    uint64_t request;
    int32_t status;
    uint8_t more; /* something follows */
    uint64_t at;
    char topic[ASK_TOPIC_MAX];
    char text[TEXT_MAX_LEN]; /* on failure: what happened and what to do */
    uint32_t body_n;
    uint8_t *body;
};

/* A setting, whose key is the topic: what it is to be, or is; `at` is the version. */
struct body_setting {
    uint8_t deleted;
    uint32_t value_n;
    uint8_t *value;
};

/* A value for all under a tag, which is the topic (core/sync.h). */
struct body_value {
    uint32_t data_n;
    uint8_t *data;
    uint64_t done_generation;
    uint32_t done_n;
    uint64_t joined;
    char last_tag[SYNC_TAG_MAX];
    uint64_t last_generation;
    uint32_t last_n;
};

/* One of them all. */
struct body_values {
    uint64_t generation;
    uint32_t round;
    uint32_t index;
    uint32_t total;
    char addr[ADDR_MAX_LEN];
    uint32_t data_n;
    uint8_t *data;
};

/* A number that training gives, as its trainer calls it. */
struct metric {
    char name[METRIC_NAME_MAX];
    uint64_t bits; /* of the double */
};

/* The job's numbers after a step, by its rank 0. The newest counts; any may be lost. */
struct body_metrics {
    uint64_t step;
    uint32_t metrics_n;
    struct metric *metrics;
};

/* A piece of a text. */
struct body_text {
    uint32_t data_n;
    uint8_t *data;
};

/* ---- worker <-> worker; the frame's term and the group's key fence them ---- */

/* Members of a generation settle in rounds: round 0 is the one that they enter it with, and each
 * time links between them have broken and come back there is another. Whatever they say to each
 * other carries both as one number, the term, which only grows: a frame of another term changes
 * nothing. */
#define ROUND_BITS 20
#define ROUND_MAX ((1u << ROUND_BITS) - 1)

static inline uint64_t term_make(uint64_t generation, uint32_t round)
{
    return generation << ROUND_BITS | round;
}

static inline uint64_t term_generation(uint64_t term)
{
    return term >> ROUND_BITS;
}

static inline uint32_t term_round(uint64_t term)
{
    return (uint32_t)term & ROUND_MAX;
}

/* Where states are saved. */
enum save_place { SAVE_DISK, SAVE_MEMORY, SAVES_N };

enum save_how {
    SAVE_NONE, /* this member has no part in it */
    SAVE_WRITING,
    SAVE_DURABLE, /* this member's shard is written */
    SAVE_WHOLE,   /* the checkpoint is there: its first writer says so */
    SAVE_FAILED,
    SAVE_HOW_N
};

/* A member's last attempt to save a state, in one of the places. */
struct attempt {
    uint64_t step;
    uint64_t generation; /* whose members are its writers */
    uint8_t how;         /* enum save_how */
    uint64_t decided;    /* it takes part in no other attempt for this step, or one before */
    uint64_t folder;     /* where it writes: the same for those who see the same one. NO_FOLDER: it
                          * saves nothing there; 0: it has not said */
};

#define NO_FOLDER UINT64_MAX

struct msg_ready {
    wid from;
    uint64_t step;              /* it holds the whole result of this step */
    uint64_t newest;            /* newest generation it holds in full, linked to every newcomer */
    uint8_t digest[HASH_BYTES]; /* of the state after step - 1; zero: none was due */
    uint8_t check[HASH_BYTES];  /* of the gradient of the step's check slice, if it has computed
                                   that; zero: it has not */
    uint8_t save;               /* it wants the state after this step to be saved */
    uint32_t saved_n;           /* 0, or SAVES_N */
    struct attempt saved[SAVES_N]; /* by place */
};

struct msg_settle {
    wid from;
    uint64_t step;                  /* last committed when it entered the term */
    uint8_t held;                   /* it holds the result of step + 1 */
    uint8_t slices[SLICES_MAX / 8]; /* gradients of step + 1 that it keeps, a bit each */
    uint8_t digest[HASH_BYTES];     /* of the state after `step` */
    uint8_t check[HASH_BYTES];      /* of the check slice of step + 1, as in READY */
    uint8_t diverged;               /* it has stopped: somebody's differed */
    uint64_t held_in;               /* the term whose members made the result that it holds */
    uint64_t moved;                 /* it has left for this generation at a boundary, after `step`;
                                     * 0: it has not */
    uint8_t lacks;                  /* it has no state yet */
    uint32_t saved_n;               /* as in READY */
    struct attempt saved[SAVES_N];
};

/* ---- what people want ---- */

enum admin_verb { ADMIN_DRAIN, ADMIN_TAKEOVER, ADMIN_SHUTDOWN, ADMIN_SAVE, ADMIN_N };

struct msg_admin {
    uint8_t verb;
    char job[NAME_MAX_LEN];
    char node[NAME_MAX_LEN];
};

/* Checkpoints that the orchestrator keeps, one request at a time or several at once: the answer has
 * the number of the request. A checkpoint is put in one shard, chunk by chunk in their order; what
 * is put counts when the manifest has been committed. */
enum depot_op {
    DEPOT_LIST,   /* checkpoints of the job below step `at` (0: all), the newest first; of job "":
                   * names of jobs after the one in `data` */
    DEPOT_READ,   /* `total` bytes from `at` on of file `item` of a checkpoint */
    DEPOT_BEGIN,  /* one of `total` bytes is to be put; whoever else puts one of this job is done */
    DEPOT_PUT,    /* a piece of chunk `item`, from its byte `at` on; the pieces in their order.
                   * Answered once, when the chunk is there */
    DEPOT_COMMIT, /* a piece of the manifest's text, likewise; answered when the checkpoint is safe
                   */
    DEPOT_REMOVE,
    DEPOT_N
};

#define DEPOT_MANIFEST UINT32_MAX /* the file; others are shards */
#define DEPOT_DATA_MAX (128u << 10)
#define DEPOT_SUM_BYTES 16

struct msg_depot {
    uint8_t op;
    char job[NAME_MAX_LEN];
    uint64_t step;
    uint32_t item;
    uint64_t at;
    uint64_t total;               /* put: bytes of the chunk as it is stored; commit: of the text */
    uint8_t sum[DEPOT_SUM_BYTES]; /* put: the chunk's */
    uint32_t keep;                /* begin, commit: how many of the newest stay; 0: all */
    uint64_t keep_every;          /* all whose step is a multiple of this stay, too; 0: none */
    uint32_t data_n;
    uint8_t *data;
};

struct msg_depot_says {
    uint8_t op;
    int32_t status;
    char text[TEXT_MAX_LEN];      /* on failure: what happened and what to do */
    uint32_t item;                /* put: the chunk; begin: how many chunks are there already */
    uint64_t at;                  /* read: as asked */
    uint64_t total;               /* read: bytes of the file */
    uint8_t sum[DEPOT_SUM_BYTES]; /* begin: xxh3-128 of the sums of those chunks, one by one */
    uint8_t more;                 /* list: it is not all */
    uint32_t data_n;              /* list: u64 step, u64 bytes on the disk, for each; of job "":
                                   * names, each ended by 0 */
    uint8_t *data;
};

/* One note of the orchestrator's, for those who follow. */
struct msg_event {
    uint64_t number;  /* from 1, in this life of the orchestrator */
    uint64_t time_ms; /* wall clock, since 1970 */
    uint8_t kind;     /* enum note_kind of core/cluster.h */
    char job[NAME_MAX_LEN];
    char node[NAME_MAX_LEN];
    wid worker;
    uint64_t generation;
    uint64_t value;
    char reason[TEXT_MAX_LEN];
    uint32_t metrics_n; /* of a job's numbers: those after step `value` */
    struct metric *metrics;
};

/* ---- records: the durable state is what applying them in order gives ---- */

struct rec_job {
    char job[NAME_MAX_LEN];
    uint32_t run; /* a higher one than before: a new run, nothing of the last is kept */
    uint32_t min;
    uint32_t max;
    uint32_t max_restarts;
    uint8_t mode;
    uint32_t nodes_floor; /* snapshots: numbers below these have been given away */
    uint64_t generation_floor;
};

struct rec_node {
    char job[NAME_MAX_LEN];
    char name[NAME_MAX_LEN];
    uint32_t node;
    uint64_t incarnation;
    uint64_t host;
    uint32_t slots;
    uint8_t role;
    uint32_t place; /* of a helper: the number of its first slot among those of its role */
};

struct rec_gone {
    uint32_t node;
    uint8_t ended;     /* it saw the end of the run */
    uint8_t forgotten; /* it was gone before; now another one needs its place */
};

struct rec_active {
    char job[NAME_MAX_LEN];
    uint64_t generation;
};

struct rec_finished {
    char job[NAME_MAX_LEN];
    uint32_t run;
    uint64_t step;
    uint8_t ended; /* every member has finished: all may leave */
    uint8_t failed;
    char why[TEXT_MAX_LEN];
    uint64_t at_ms; /* wall clock, since 1970; 0: it is not known */
};

/* `count` of the restart budget of (job, name, slot) is used up, the last of it by `worker`. */
struct rec_spent {
    char job[NAME_MAX_LEN];
    char name[NAME_MAX_LEN];
    uint32_t slot;
    uint32_t count;
    wid worker;
};

struct rec_checkpoint {
    char job[NAME_MAX_LEN];
    uint32_t run;
    uint64_t step;
};

/* The states of `generation`'s members differed after step `at`: it is given up, and what follows
 * starts from the newest checkpoint that is not after `step`. */
struct rec_heal {
    char job[NAME_MAX_LEN];
    uint32_t run;
    uint64_t generation;
    uint64_t step;
    uint64_t at;
    uint32_t count; /* of heals in a row that did not get past the step where they began */
    wid odd;
};

struct rec_drain {
    uint32_t node;
};

/* Another job needs its place; nobody is in it. */
struct rec_forgotten {
    char job[NAME_MAX_LEN]; /* snapshots: "", that was before */
    uint64_t name;          /* a hash of it */
    uint32_t run;           /* its last run */
    uint64_t generation;    /* the last generation of that run */
    uint64_t step;
    uint8_t done;         /* it ended, and did not fail */
    uint64_t at_ms;       /* when it ended, as in `finished` */
    uint32_t nodes_floor; /* as in `job` */
};

struct rec_config {
    char job[NAME_MAX_LEN];
    char key[CONFIG_KEY_MAX];
    uint64_t version;
    uint8_t deleted;
    uint32_t value_n;
    uint8_t *value;
};

#endif
