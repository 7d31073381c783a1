/* Several workers on this machine, each a process with a data plane of its own. The test is their
 * orchestrator and their agents: it publishes generations, sees deaths, stops and kills.
 *
 *   ranks_open()     forks them; each opens its comm, says its address, and runs the body
 *   ranks_publish()  a generation goes to its members: a thread in each fences, the body moves
 *   ranks_next()     what they said, and who died or stopped
 *   ranks_close()    kills whoever is left; nothing stays behind
 *
 * A rank that finds a fault says so by rank_fail() and ends: the test then fails with that text.
 * All waits have an end: RANKS_LIMIT_MS, or what the caller says. If the test's process is killed,
 * so are the ranks. */
#ifndef COMM_RANKS_H
#define COMM_RANKS_H

#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define RANKS_MAX 16
#define RANKS_LIMIT_MS 120000
#define RANKS_GENERATIONS_MAX 64
#define RANKS_TEXT_MAX 512

struct rank;
typedef void rank_body(struct rank *r);

struct ranks_config {
    uint32_t n;
    unsigned paths;               /* as in struct comm_config */
    uint64_t hosts[RANKS_MAX];    /* all 0: one host */
    const char *netns[RANKS_MAX]; /* a network namespace's file to enter first; NULL: none */
    const char *addresses[RANKS_MAX];
    bool tls;
    rank_body *body;
    const void *arg;     /* for the body: as it was before the fork */
    size_t shared_bytes; /* memory that all of them and the test share; zeroed */
};

/* ---- in a rank ---- */

struct rank {
    uint32_t index; /* of the process; its rank is comm_rank()'s */
    wid self;
    struct comm *comm;
    const void *arg;
    uint8_t *shared;
    const struct ranks_config *config;

    /* Private. */
    int fd;
    pthread_t control;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t generations_n, words_n, words_taken;
    struct generation generations[RANKS_GENERATIONS_MAX];
    struct member members[RANKS_GENERATIONS_MAX][RANKS_MAX];
    uint64_t words[256];
};

/* Forks off nothing: runs in a child of ranks_open() until its end. */
_Noreturn void rank_live(struct rank *r, const struct ranks_config *config, uint64_t key_seed);

/* The newest generation with a number above `after`: waits for it. */
const struct generation *rank_await(struct rank *r, uint64_t after);
/* Waits for the next generation and moves to it; fails if that fails. */
const struct generation *rank_enter(struct rank *r, uint64_t after);
/* The next word that the test gave (ranks_word). */
uint64_t rank_word(struct rank *r);
bool rank_has_word(struct rank *r); /* … is there */
/* Waits until all of them have come here; by a counter in their shared memory, from 0, and not by
 * what is tested. */
void rank_meet(struct rank *r, _Atomic uint32_t *come_n);
/* Tells the test: kind is the test's own, from 1. */
void rank_say(struct rank *r, uint32_t kind, uint64_t value, uint64_t value2);
_Noreturn void rank_fail(struct rank *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define rank_check(r, cond, ...)         \
    do {                                 \
        if (!(cond)) {                   \
            rank_fail((r), __VA_ARGS__); \
        }                                \
    } while (0)

/* ---- in the test ---- */

enum ranks_event_kind { RANKS_SAID, RANKS_DIED, RANKS_STOPPED };

struct ranks_event {
    enum ranks_event_kind kind;
    uint32_t who;
    uint32_t said; /* SAID */
    uint64_t value, value2;
    int status; /* DIED: as from waitpid() */
};

struct ranks {
    struct ranks_config config;
    uint8_t *shared;
    uint64_t key_seed;
    uint64_t generation; /* the last that was published */
    uint32_t alive_n;
    char what[128]; /* said with every failure: which case it is */

    /* Private. */
    int signal_fd;
    struct {
        pid_t pid; /* 0: it has ended, and nobody else's yet */
        int fd;
        wid self;
        bool stopped;
        char address[ADDR_MAX_LEN];
    } rank[RANKS_MAX];
    struct ranks_event queue[1024];
    uint32_t queue_from, queue_n;
};

/* Never fails but by failing the test; so do all that follow. */
void ranks_open(struct ranks *s, const struct ranks_config *config);
void ranks_close(struct ranks *s);

/* who: rank_n indices, by rank. Returns its number. */
uint64_t ranks_publish(struct ranks *s, enum generation_kind kind, const uint32_t *who,
                       uint32_t who_n);
uint64_t ranks_publish_all(struct ranks *s);                   /* a fresh one of all, in order */
uint64_t ranks_publish_without(struct ranks *s, uint32_t who); /* a failure one of the others */

void ranks_word(struct ranks *s, uint32_t who, uint64_t word);
void ranks_signal(struct ranks *s, uint32_t who, int signal);
wid ranks_wid(uint32_t index);

/* False: nothing within that time. */
bool ranks_next(struct ranks *s, int64_t timeout_ms, struct ranks_event *out);
/* Waits for a rank to say this; other events stay for later, but a bad end fails the test. */
void ranks_await(struct ranks *s, uint32_t who, uint32_t said, struct ranks_event *out);
/* Waits until all that live have ended well (exit status 0), then closes. */
void ranks_finish(struct ranks *s);

_Noreturn void ranks_fail(struct ranks *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- in either ---- */

uint64_t ranks_now_ns(void);
bool ranks_full(void); /* MUSTER_TEST_FULL */
/* MUSTER_COMM_SEED, or a fixed one. */
uint64_t ranks_seed(void);

/* The three ways in which tests lay out n ranks. */
enum ranks_layout { RANKS_SHM, RANKS_TCP, RANKS_MIXED, RANKS_LAYOUTS };
const char *ranks_layout_name(enum ranks_layout layout);
void ranks_lay_out(struct ranks_config *config, enum ranks_layout layout);
/* In a rank that is in a group: its links are what the layout says. */
void ranks_check_links(struct rank *r, enum ranks_layout layout);

#endif
