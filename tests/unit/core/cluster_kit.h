/* A cluster with a clock, a journal and agents that a test moves by hand.
 *
 * There is one at a time: kit_setup() makes it, kit_teardown() checks that the journal and
 * a snapshot rebuild it, and closes it. Agents are known by the name of their node; each does only
 * what the test has it do. What the cluster says is kept as lines of text:
 *
 *   record generation 2 boundary a b c+     a record was handed out; + marks newcomers
 *   a: generation 2                         a message to the agent of node a
 *   note lost                               a note
 *
 * A worker is written a (slot 0), a.1 (slot 1), a#2 (its second life). */
#ifndef UNIT_CORE_CLUSTER_KIT_H
#define UNIT_CORE_CLUSTER_KIT_H

#include "unit/unit.h"

#include "core/cluster.h"
#include "lib/mind.h"

#define CASE(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

#define LEASE_MS 5000u
#define WINDOW_MS 2000u
#define TEXT_MAX 512
#define WALL_MS UINT64_C(1700000000000) /* at time 0 */

struct stub {
    char name[16];
    char job[NAME_MAX_LEN];
    bool silent; /* it sends no renewals while time passes */
    bool spare;  /* settle() leaves it as it is */
    uint32_t conn;
    uint32_t node;
    uint64_t incarnation, host, store;
    uint32_t slots, min, max, max_restarts, flags;
    uint8_t role, mode;
    uint64_t held, active, seq, renew_seq, renewed_ms;
    uint64_t roster;            /* the version of the one that it was told last */
    char helpers[TEXT_MAX_LEN]; /* what that says: "p#2 0 serving, …" */
    struct report reports[8];
    /* What it was told last. */
    struct msg_ack ack;
    int refused; /* status, 0 if it was not */
    char refusal[TEXT_MAX_LEN];
    bool ended;
    uint64_t ended_step;
    uint8_t key[KEY_BYTES];
};

struct kit {
    struct effects fx;
    struct cluster_config config;
    struct mind mind;
    struct cluster *c; /* of it */
    uint64_t now_ms;
    int rc; /* of the last event */
    /* Journaled at once, unless held: then sync_one(), sync_all() and fail_all() move it on. */
    bool hold;
    struct record *journal;
    uint32_t journal_n, journal_cap, synced_n;
    bool replay_differs; /* set by tests of damage: the teardown compares nothing */
    struct stub stubs[32];
    uint32_t stubs_n, conns_n, keys_n;
    char (*log)[TEXT_MAX];
    uint32_t log_n, log_cap;
    /* What nodes say of their job unless the test changes it. */
    uint32_t min, max, slots, max_restarts;
    uint8_t mode;
    const char *job;
    char why[256]; /* the last setting was not taken */
};

extern struct kit f;

int kit_setup(void **state);
int kit_teardown(void **state);

void kit_open(void); /* again, after f.config was changed; nothing of before is left */

/* ---- agents ---- */

void shape(uint32_t min, uint32_t max); /* of the nodes made from here on */
struct stub *at(const char *name);      /* made on first use, by what f says of its job */
void hello(const char *name);           /* by a new connection if it has none */
void rejoin(const char *name);          /* a new agent process of that name says hello */
void renew(const char *name);
void report(const char *name, uint32_t slot, enum phase phase, uint64_t entered, uint64_t reached);
void resend(const char *name); /* its reports as they stand */
void warm(const char *names);  /* all slots, having reached all */
void enter(const char *names); /* all slots act in the newest generation */
void exits(const char *name, uint32_t slot, uint32_t code);
void next_life(const char *name, uint32_t slot); /* starts warming */
void bye(const char *name); /* knowing that the run has ended, if it was told */
void closed(const char *name);
void suspect(const char *by,
             const char *peer); /* slot 0 of it says so from here on, in what it holds */
void suspect_idle(const char *by, const char *peer, uint32_t idle_ms); /* it did nothing */
void reaches_all(const char *name);                                    /* … and no longer */
void silence(const char *names);
void join(const char *names); /* hello and warm, one after the other */

/* Everybody does what it was told until nothing changes: members enter, those left out start
 * anew, those waiting reach the newest members. */
void settle(void);

/* join() and settle(): a first generation of exactly these, active. */
void form(const char *names);

/* ---- people ---- */

void want(uint32_t size);
void want_nodes(const char *names);
/* value NULL: removes it. f.why says why not. */
int setting(const char *key, const char *value);
void paused(bool paused);
int admin(enum admin_verb verb, const char *node);
int decide(enum mode mode);

/* ---- time and the journal ---- */

void pass(uint64_t ms); /* with ticks when they are wanted, and renewals */
void jump(uint64_t ms); /* one tick, that much later */
void tick(void);
void hold(void); /* records wait from here on */
void sync_one(void);
void sync_all(void); /* … and no longer wait */
void fail_all(void); /* a write fails, and with it all that waited */
void restart(void);  /* a new orchestrator on the journal; what waited is lost; no connections */
void restart_from_snapshot(void);

void kit_step(struct event *e);          /* at f.now_ms; its result is f.rc */
void kit_record(const struct record *r); /* that the cluster did not hand out */

/* ---- what came out ---- */

void forget(void);                                                         /* the lines so far */
uint32_t said(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* how often */
uint32_t said_like(const char *start);                                     /* beginning so */
void expect_order(const char *first, const char *second);
void expect_log(const char *lines); /* all of them, but for acks and notes; each ends in \n */

struct job_view job(void);
void expect_generation(const char *kind, const char *members);
void expect_active(const char *kind, const char *members);
bool member(const char *name);

/* The journal so far and a snapshot rebuild what is there. */
void expect_replays(void);

/* The records of a snapshot of c as sorted text. */
char *dump_text(struct mind *m);

void kit_effects(struct effects *fx); /* where effects go: into the kit */

/* ---- cluster_text.c ---- */

void record_brief(const struct record *r, char *out); /* as in the log */
void record_full(const struct record *r, char *out, size_t cap);
void member_name(wid w, char *out, size_t cap);
const char *node_name(uint32_t number);
void node_named(uint32_t number, const char *name);
void generation_text(const struct generation *g, char *out, size_t cap);
struct record record_copy(const struct record *r);
void record_free(struct record *r);

#endif
