/* The data plane from inside.
 *
 * Locks: `engine` is held by whoever makes a call or moves the group, and only its holder uses
 * links and `group`. `lock` is held for moments: for the list of links, and for what the tender and
 * callers tell each other. It is taken after `engine`, never before it.
 *
 * Threads: the tender listens, shakes hands, takes what unix sockets carry, and watches for deaths.
 * The mover, from the first comm_start() on, makes the calls that were started. */
#ifndef COMM_COMM_STATE_H
#define COMM_COMM_STATE_H

#include "comm/comm.h"
#include "comm/link.h"
#include "comm/segment.h"
#include "comm/wait.h"
#include "link/tender.h"

#include <pthread.h>
#include <sys/queue.h>

struct tended;
struct exchange;
struct view;
struct mail;

/* The generation that this worker acts in, with its members' links by rank. Changed by the engine's
 * holder; number, n, me and members under the lock as well, so that either is enough to read them.
 */
struct comm_group {
    uint64_t number; /* the term: generation and round */
    struct membership *of;
    uint32_t n;
    uint32_t me;
    const struct member *members; /* by rank; of `of` */
    struct link **links;          /* by rank; NULL: none (yet), or me */
    uint64_t *sends, *recvs;      /* by rank: numbers of the pair's SENDs */
    uint64_t call;                /* number of the last collective */
    bool entered;                 /* comm_move() to it has succeeded: calls can be made */
    int broken;                   /* not MU_OK: no further call can be made in it */
    uint32_t broken_by;           /* the rank that is to blame; COMM_NOBODY */
    uint64_t broken_idle_ms;      /* how long that rank has done nothing, although it lives; 0 */
    char broken_why[COMM_ERROR_MAX];
    struct note broken_note; /* MU_EORDER: the call that rank makes instead */
};

#define MAILBOX_MAX 256

/* What has come while nobody asked for it; the oldest at `first`. */
struct mailbox {
    struct mail *mails[MAILBOX_MAX];
    uint32_t first, n;
};

struct views {
    pthread_mutex_t lock;
    struct view *list;
    uint64_t clock;
};

/* The result of the last agreed call, if that has failed: until all know whether it counts. */
struct agreed {
    bool holds;      /* the result is here */
    bool counts;     /* it was settled that it counts */
    uint64_t done_n; /* calls that went well, and comm_halt() has not told of */

    struct note of;
    uint64_t generation;
    uint32_t members_n;
    const void *view; /* of a call with COMM_VIEW; else bytes_n bytes */
    uint8_t *bytes;
    size_t bytes_n;
};

TAILQ_HEAD(comm_calls, comm_started);

/* The mover and its queue. */
struct moving {
    pthread_mutex_t lock;
    pthread_cond_t changed;    /* on the monotonic clock */
    struct comm_calls all;     /* that are not finished yet, in the order in which they came */
    struct comm_started *next; /* the first of them that was not begun; NULL: none */
    pthread_t thread;
    bool has_thread, stop;
    _Atomic uint32_t pending_n; /* not begun, or under way */
};

struct comm {
    struct comm_config config; /* address, iface: NULL */
    struct hello_config hello;
    struct segments *segments;
    uint32_t cores_n; /* that this process may run on */

    pthread_mutex_t engine;
    struct comm_group group;
    struct waiter waiter; /* the engine's */
    uint32_t calm;        /* when the alarm was this, nobody of the group was gone */
    struct mailbox mailbox;
    struct exchange *exchange;
    struct views views;
    struct agreed agreed;
    struct moving moving;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a link is there, lost, or has made a claim; a segment has come */
    struct link *links;     /* all of them, in the group or not */
    struct tended *tended;
    struct tender *tender;
    _Atomic bool closing; /* set under the lock; whoever waits looks at it after the alarm */
    uint32_t inside_n;    /* threads between comm_enter() and comm_leave() */
    struct comm_stats stats;

    _Atomic uint64_t fence;  /* calls in terms before this one fail */
    _Atomic uint64_t newest; /* as comm_newest() had it */
    _Atomic uint32_t alarm;  /* a futex word: part of every wait */
    _Atomic uint32_t pokes;  /* how often comm_poke() was called */
    uint32_t nudges;         /* that have come; under the engine */
    uint32_t pokes_seen;     /* those that comm_hear() has returned for; under the engine */
    int alarm_fd; /* eventfd: the same for those in poll(), and what peers in shared memory ring */
};

/* ---- links.c, links_want.c: what the tender does for the group ---- */

/* Listens where the config says. */
int links_open(struct comm *c, const struct comm_config *config, char *error);
void links_close(struct comm *c);
/* Wants a link to this member (copied); returns at once. Made by TCP or unix socket, tried again
 * while wanted, also when it is lost later. Again is fine. MU_ENOMEM. */
int links_seek(struct comm *c, const struct member *m);
/* Takes back every links_seek(). */
void links_forget(struct comm *c);
/* Bumps the alarm and wakes whoever waits. From any thread. */
void comm_ring(struct comm *c);

/* ---- what makes links of connections that have shaken hands; fd is given on success ---- */

int tcp_link_open(struct comm *c, int fd, const struct hello_session *session,
                  struct link **link_out);
int shm_link_open(struct comm *c, int fd, const struct hello_session *session,
                  struct link **link_out);

/* The tender: a unix socket of a link has something to read, or hung up. */
void shm_link_hear(struct link *l);
/* The peer's pidfd, for the tender to watch; it stays the link's. -1: none. */
int shm_link_pidfd(struct link *l);
/* Any thread, under c->lock: tells the peer of a segment that is new (and of any that it was not
 * told of), or gone. */
void shm_link_tell(struct link *l, uint32_t segment);
void shm_link_tell_gone(struct link *l, uint32_t segment);

/* ---- calls: what they keep between them, made by comm_open() and freed by comm_close() ---- */

int exchange_open(struct comm *c);
void exchange_close(struct comm *c);
void views_close(struct comm *c);
void agreed_forget(struct comm *c); /* what was called is forgotten. The engine is held */
void mailbox_close(struct comm *c);
/* Before the others: it ends the mover, which may be in a call. */
void moving_close(struct comm *c);

/* The group has changed, or is about to: results that peers may still look at are left to them. The
 * engine is held. */
void views_abandon(struct comm *c);
void exchange_forget(struct comm *c);

/* ---- group.c ---- */

/* Every public function that waits, or takes the engine, does so between these two: comm_close()
 * goes on when all have left. MU_EDONE: it closes; there is nothing to leave then. */
int comm_enter(struct comm *c);
void comm_leave(struct comm *c);

/* Calls in terms before this one fail, now or later. */
void fence_at(struct comm *c, uint64_t term);

/* On the monotonic clock; UINT64_MAX: never, if timeout_ms is negative. */
uint64_t group_due_ns(int64_t timeout_ms);

/* The live link to a worker, or NULL; under c->lock. */
struct link *group_find(struct comm *c, wid worker);

#endif
