/* The inside of the orchestrator, shared by the files of this folder and by nobody else.
 *
 * One thread, the loop's. The way of a frame: session.c makes it an event, cluster_step() changes
 * its mind, emit() (effects.c) turns what comes out into frames and records at once, since all of
 * it is borrowed. The way of a record: the journal (src/journal) keeps its bytes until they are
 * durable, then has the machines apply it or take it back, and tells records.c and who asked for
 * it. Nothing calls the cluster from within emit(). */
#ifndef ORCHESTRATOR_DRIVER_H
#define ORCHESTRATOR_DRIVER_H

#include "base/log.h"
#include "core/sync.h"
#include "journal/journal.h"
#include "net/tls.h"
#include "orchestrator/orchestrator.h"
#include "orchestrator/web.h"
#include "wire/ask.h"

#include <sys/queue.h>

#define FOLLOWERS_MAX 256
#define EVENTS_MAX 4096
#define REFUSALS_AT_ONCE 10 /* that are noted; then one a second */
#define ADMIN_PENDING_MAX 4096
#define SETTING_ASKS_MAX 1024
#define SETTING_BYTES_MAX (16u << 20) /* of the values that wait */
#define SETTING_WATCHES_MAX 16384
#define SETTING_BUCKETS 64
#define NOBODY 0

struct session_watch;
struct watched;

/* ---- connections: numbers for the cluster, names for the log ---- */

struct session {
    struct orchestrator *o;
    struct conn *conn;
    uint32_t number;
    uint32_t silent_n; /* sweeps without a frame */
    bool is_agent;     /* it has said hello: as this node, and as no other */
    bool follows;
    uint64_t follow_request;
    struct session_watch *watch; /* of settings; NULL: none */
    uint32_t depot_n;            /* questions about checkpoints that are not answered yet */
    bool depot_reads;            /* it has had answers with bytes, and is on the list of those */
    LIST_ENTRY(session) depot_link;
    char job[NAME_MAX_LEN];
    char node[NAME_MAX_LEN];
    uint32_t node_number; /* that it was given last; 0: none yet */
    uint64_t incarnation;
    char follow_job[NAME_MAX_LEN];
};

/* A number is a place and a count of how often that was used before, so that a number of the past
 * finds nobody. */
struct seat {
    struct session *session;
    uint32_t times;
    uint32_t next_free;
};

struct sessions {
    struct seat *seats;
    uint32_t seats_n, cap, first_free, now_n;
};

/* ---- notes, kept as what is said of them ---- */

struct kept_event {
    char job[NAME_MAX_LEN];
    uint64_t number;
    uint32_t n;
    uint8_t *body; /* NULL: there was no memory */
};

struct events {
    uint64_t last; /* number of the newest; the first is 1 */
    struct kept_event ring[EVENTS_MAX];
    struct session *followers[FOLLOWERS_MAX];
    uint32_t followers_n;
    uint64_t refusals_ms;   /* until when room for refusals has been counted */
    uint32_t refusals_room; /* that many may be noted at once */
    uint32_t refusals_n;    /* not noted since the last that was */
};

/* Whose request the cluster is looking at; the record that it makes of it answers. */
struct asking {
    uint32_t conn;
    uint64_t request;
    bool waits; /* for a record */
};

struct values {
    struct sync_effects fx; /* first, as below */
    struct orchestrator *o;
    struct sync *sync;
};

/* ---- settings ---- */

/* A change. It is the asker's, who may not touch it until done() was called: once, perhaps at once,
 * when the change is durable (then `version` is the key's) or is not made (then why says so). */
struct setting_ask {
    struct setting_ask *next;
    char job[NAME_MAX_LEN];
    struct config_request request; /* key and value are the asker's, and stay until done() */
    void (*done)(struct orchestrator *o, struct setting_ask *a, int status, uint64_t version,
                 const char *why);
    struct orchestrator *o; /* settings.c's, as is the next */
    bool written;           /* its record is on its way */
};

/* Somebody who watches a key: waits for a change of it, or of any that begins with it if it ends
 * with '/' or is "". It is the watcher's. */
struct setting_watch {
    uint64_t due_ms; /* UINT64_MAX: never */
    bool lasts;      /* told at once of all up to now, then again and again; or once, and is over */
    /* MU_OK: something has changed after version `since` (or nothing, when one that lasts begins).
     * Else it is over, and off the list: MU_ETIMEDOUT, there may be something all the same;
     * MU_ESTALE, as config_since() has it; MU_ENOENT, there is no such job; MU_ELIMIT, too many
     * wait; MU_EAGAIN, the orchestrator is going. One that does not last is off the list anyway. */
    void (*told)(struct orchestrator *o, struct setting_watch *w, int status, uint64_t since);
    /* watches.c's: */
    TAILQ_ENTRY(setting_watch) link;
    struct watched *of; /* NULL: it watches nothing */
    bool ready;
    int status;
    uint64_t since;
};

TAILQ_HEAD(setting_watches, setting_watch);
TAILQ_HEAD(watched_list, watched);

struct settings {
    struct setting_ask *first, **last; /* of all jobs, in their order */
    uint32_t asks_n;
    uint64_t bytes;
    bool taking, again;                           /* `again`: somebody has asked meanwhile */
    struct watched_list watched[SETTING_BUCKETS]; /* by job */
    struct setting_watches ready;                 /* to be told */
    uint32_t watches_n;
    uint64_t due_ms; /* none is due before */
};

/* ---- numbers of training ---- */

/* The newest of a job. */
struct training {
    struct training *next;
    char job[NAME_MAX_LEN];
    uint32_t run;
    wid worker; /* who said them */
    uint64_t step;
    uint32_t n; /* 0: none yet, in this run */
    struct metric items[METRICS_MAX];
    bool over;        /* training has started over since: any step may come */
    bool due;         /* an event is to tell of them */
    uint64_t next_ms; /* when that event may be sent */
};

/* ---- what has happened so far, for /metrics ---- */

struct counts {
    uint64_t generations[GENERATION_KIND_N];
    uint64_t lost_nodes, lost_workers;
    uint64_t healed;
    uint64_t refused; /* agents, by the cluster */
    uint64_t renewals;
    uint64_t settings;
    uint64_t ckpt_received, ckpt_given; /* bytes of checkpoints */
    uint64_t ckpt_refused;
};

struct web;
struct deposits;

struct orchestrator {
    struct effects fx; /* first: emit() finds the rest by it */
    uv_loop_t *loop;
    uv_async_t news; /* the journal has something to deliver */
    uv_timer_t timer;
    uint32_t handles_n;
    bool closing;
    bool quiet;
    uint64_t now_ms, start_ms, armed_ms, sweep_ms;
    uint64_t start_wall_ms;
    struct cluster_config config;
    struct cluster *cluster;
    struct config_table *configs; /* the settings of all jobs */
    struct {
        struct cluster *cluster;
        struct config_table *configs;
    } shadow; /* for snapshots */
    struct journal *journal;
    struct tls *tls;
    struct listener *listener;
    struct sessions sessions;
    struct events events;
    struct asking asking;
    struct values values;
    struct settings settings;
    struct training *trainings; /* one for each job that has said any */
    struct counts counts;
    struct deposits *deposits;
    struct web *web;         /* NULL: there is no HTTP side */
    struct frame *cached[2]; /* the generation of this event, without and with its key */
    char cached_job[NAME_MAX_LEN];
    uint64_t cached_number;
    char data_dir[PATH_MAX_LEN];
};

/* orchestrator.c: an event goes to the cluster with the time of now. */
int driver_step(struct orchestrator *o, struct event *e);
void driver_time(struct orchestrator *o);
void driver_arm(struct orchestrator *o);
/* The level of what is worth a line, but no warning. */
static inline enum log_level driver_info(const struct orchestrator *o)
{
    return o->quiet ? LOG_DEBUG : LOG_INFO;
}

/* effects.c */
void effects_init(struct orchestrator *o);
void effects_forget(struct orchestrator *o); /* what was cached for one event */

/* records.c: the machines and their journal. records_open() replays; store: a URL, or NULL for that
 * in the data directory. */
int machines_open(struct orchestrator *o);
void machines_close(struct orchestrator *o);
int records_open(struct orchestrator *o, const char *store, char *error);
void records_close(struct orchestrator *o);
void records_append(struct orchestrator *o, const struct record *r, bool asked);

/* session.c */
extern const struct conn_handler session_handler;
struct session *session_find(struct orchestrator *o, uint32_t number);
/* The connection is closed, and the session is gone. */
void session_end(struct session *s, uint32_t flush_ms);
void sessions_sweep(struct orchestrator *o);
void sessions_close(struct orchestrator *o);

/* ask.c: questions, and what is said to them */

/* Whom to answer, now or later. */
struct asker {
    uint32_t conn;
    wid worker;
    uint64_t request;
    uint16_t kind;
};

/* m->job is the agent's, if one asks. body: NULL if its kind has none. All is borrowed. */
typedef void ask_server(struct session *s, const struct asker *from, const struct msg_ask *m,
                        const union wire_any *body);

/* The servers, each in a file of its own or with its like. Some serve several kinds. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
#define ASK(number, NAME, what, server, request, answer, policy, who, max) \
    ask_server serve_##server;
#include "wire/ask.def"
#pragma GCC diagnostic pop

void ask_take(struct session *s, const struct msg_ask *m);
/* Nobody is told if the connection is gone. Its own body counts, or the one that is given. */
void ask_says(struct orchestrator *o, const struct asker *to, struct msg_says *m);
void ask_says_body(struct orchestrator *o, const struct asker *to, struct msg_says *m,
                   const void *body);
/* An answer's end; status may be MU_OK. */
void ask_fails(struct orchestrator *o, const struct asker *to, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void ask_no_job(struct orchestrator *o, const struct asker *to, const char *job);

/* people.c */
void people_answer(const struct session *s, uint64_t request, int status, bool more,
                   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* events.c */
void events_note(struct orchestrator *o, const struct note *note);
void events_unfollow(struct session *s);
void events_close(struct orchestrator *o);

/* settings.c: the settings of jobs, for frames and for HTTP alike. Reading: cluster_settings(). */

/* Asks of one job are taken in their order, one at a time. At most SETTING_ASKS_MAX wait: then
 * MU_EAGAIN. A write that fails: MU_EIO. */
void settings_change(struct orchestrator *o, struct setting_ask *a);

void settings_watch(struct orchestrator *o, struct setting_watch *w, const char *job,
                    const char *key, uint64_t after);
void settings_unwatch(struct orchestrator *o, struct setting_watch *w); /* also if it waits not */

void settings_open(struct orchestrator *o);
void settings_close(struct orchestrator *o); /* who waits is told MU_EAGAIN */
void settings_record(struct orchestrator *o, const struct record *r);
void settings_tick(struct orchestrator *o);
uint64_t settings_deadline(const struct orchestrator *o);

void settings_closed(struct session *s); /* settings_ask.c */

/* watches.c, for settings.c */
void watches_open(struct orchestrator *o);
void watches_close(struct orchestrator *o);
void watches_wake(struct orchestrator *o, const char *job); /* its settings have changed */
void watches_tick(struct orchestrator *o);

/* values.c: values by tag. A record that was applied may complete or end some. */
int values_open(struct orchestrator *o);
void values_restore(struct orchestrator *o);
void values_close(struct orchestrator *o);
void values_record(struct orchestrator *o, const struct record *r);
void values_closed(struct session *s);
void values_tick(struct orchestrator *o);
uint64_t values_deadline(const struct orchestrator *o);

/* training.c: what workers say of training */
/* The newest numbers of a job's run; NULL: there are none. */
const struct training *training_of(const struct orchestrator *o, const char *job);
void training_record(struct orchestrator *o, const struct record *r);
void training_tick(struct orchestrator *o);
uint64_t training_deadline(const struct orchestrator *o);
void training_close(struct orchestrator *o);

/* depot*.c: checkpoints that are kept for others; see depot.h. quota: bytes; 0: no number. */
int deposits_open(struct orchestrator *o, uint64_t quota);
void deposits_close(struct orchestrator *o);
void deposits_frame(struct session *s, const struct msg_depot *m, uint64_t request);
void deposits_closed(struct session *s);
uint64_t deposits_kept(const struct orchestrator *o);

/* status.c: JSON text, to be freed; NULL: out of memory. MU_ENOENT: no such job. */
int status_text(struct orchestrator *o, const char *job, char **text_out);
/* All jobs, without their members, and the orchestrator itself. */
int status_list_text(struct orchestrator *o, char **text_out);
/* A job's members and those who wait, and no more. */
int status_members_text(struct orchestrator *o, const char *job, char **text_out);

#endif
