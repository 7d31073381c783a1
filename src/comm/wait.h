/* Waiting for peers: for a moment by looking again and again, then asleep.
 *
 *   wait_begin(&w, comm);              what it is for is added by each link's await()
 *   while (nothing can be done) {
 *       link->ops->await(l, rx, tx, &w) for all links;
 *       rc = wait_for(&w, due_ns);
 *   }
 *
 * With shared memory alone one sleeps on futexes, with sockets alone or both in poll(): then
 * peers in shared memory ring an eventfd instead. The alarm of the comm is part of every wait: it
 * rings when a link is lost, when a newer generation is known, and when it closes. */
#ifndef COMM_WAIT_H
#define COMM_WAIT_H

#include "base/base.h"
#include "base/clock.h"

#include <poll.h>
#include <stdatomic.h>
#include <time.h>

struct comm;

#define WAIT_WORDS_MAX 127
#define WAIT_FDS_MAX 1024

/* A word in shared memory, of which `seen` was the value when nothing could be done. `flag`, in
 * our own memory, tells its owner that somebody sleeps on it. */
enum wait_flag { WAIT_AWAKE, WAIT_FUTEX, WAIT_EVENTFD };

struct wait_word {
    const _Atomic uint32_t *word;
    uint32_t seen;
    _Atomic uint32_t *flag;
};

struct waiter {
    struct comm *comm;
    uint32_t alarm_seen;
    uint32_t rounds_n;       /* how often it has slept since something happened */
    uint32_t words_n, fds_n; /* what was added; those for which there is no room are counted, too */
    uint64_t counted;        /* the generation for which here_n was counted */
    uint32_t here_n;         /* its members on this host, at most cores_n + 1 */
    struct wait_word words[WAIT_WORDS_MAX];
    struct pollfd *fds; /* the comm's, WAIT_FDS_MAX of them */
};

/* Takes note of the alarm: before the caller looks whether a link is lost. */
void wait_begin(struct waiter *w, struct comm *comm);

void wait_add_word(struct waiter *w, const _Atomic uint32_t *word, uint32_t seen,
                   _Atomic uint32_t *flag);
void wait_add_fd(struct waiter *w, int fd, short events);

/* Something got on: the next wait begins with looking again. */
void wait_restart(struct waiter *w);

/* Returns when it may be worth looking again, and forgets what was added. due_ns: on the monotonic
 * clock, UINT64_MAX: never. MU_ETIMEDOUT. */
int wait_for(struct waiter *w, uint64_t due_ns);

/* Of the one who changed `word` (ours, which a peer may sleep on; memory_order_seq_cst): wakes it
 * if its flag says so. event_fd: the peer's. */
void wait_wake(const _Atomic uint32_t *word, const _Atomic uint32_t *flag, int event_fd);

/* Bumps the alarm and wakes whoever waits, by futex or in poll(). Any thread. */
void wait_ring(_Atomic uint32_t *alarm, int alarm_fd);

struct timespec wait_time(uint64_t ns);

#endif
