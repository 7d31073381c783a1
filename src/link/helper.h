/* Requests and answers between any two workers of a run: class HELPER. A connection is proved both
 * ways with the run's key before a byte is parsed; the bodies are opaque bytes, of any size.
 *
 * Who asks has dialed, who answers has listened. A worker can do both: from one tender, by one
 * thread here. Many calls are under way at a time, and are answered in any order; large bodies are
 * sent in pieces, so that small ones pass them by, and from and to where they lie. What is ready to
 * leave at one moment leaves by one system call.
 *
 * Bounds: HELPER_WINDOW requests of a connection are not answered at a time, more wait with who
 * asks (up to HELPER_WAITING_MAX for a peer). Who answers holds no body but in memory that place()
 * gave, and small ones; what is not complete within the time that the asker gave it is dropped. A
 * connection is closed by bytes that break the protocol, and nothing else is touched.
 *
 * Threads: callbacks come from the helper's thread, which holds no lock; they must return soon, and
 * may call anything here but helper_close() and helper_ask(). Everything else is for any thread. */
#ifndef LINK_HELPER_H
#define LINK_HELPER_H

#include "base/timers.h"
#include "link/tender.h"

#include <sys/queue.h>
#include <sys/uio.h>

#define HELPER_WINDOW 1024
#define HELPER_WAITING_MAX 65536
#define HELPER_SMALL 4096
#define HELPER_BODY_MAX (UINT64_C(1) << 40)
#define HELPER_CONNS_MAX 4096

struct helper;

/* ---- the side that answers ---- */

/* One that somebody else has made: from place() or take() on until helper_answer() or drop(). */
struct helper_request {
    wid peer;
    uint16_t kind;
    uint32_t timeout_ms; /* how long the peer waits for its answer */
    uint64_t bytes;
    void *body;
    void *data; /* its handler's */
};

struct helper_ops {
    void *arg;
    /* A request of more than HELPER_SMALL bytes has begun: memory for all of them, its handler's.
     * NULL: there is none, and the peer hears MU_ELIMIT. */
    void *(*place)(void *arg, struct helper_request *r);
    /* It is complete: answer it, now or later. Small bodies lie in memory of the request. */
    void (*take)(void *arg, struct helper_request *r);
    /* One that place() was called for will not become complete: nothing more is written there. */
    void (*drop)(void *arg, struct helper_request *r);
};

/* Once for each that was taken, also after helper_close(); r is gone then. status: MU_OK or a
 * negative one, which the peer's call ends with. The parts stay as they are until sent(), which may
 * come before this returns; whole false: not all of it has left, or nobody wanted it. sent NULL:
 * they are copied (for small ones; without memory the peer hears MU_ENOMEM). */
void helper_answer(struct helper_request *r, int status, const struct iovec *parts,
                   uint32_t parts_n, void (*sent)(void *arg, bool whole), void *arg);

/* ---- the side that asks ---- */

/* The caller's, and what it points to, from helper_call() until done(). */
struct helper_call {
    wid peer;
    uint16_t kind;
    uint32_t timeout_ms; /* 1 … INT32_MAX: for all of it */
    const struct iovec *parts;
    uint32_t parts_n;
    void *answer; /* an answer of up to `room` bytes goes here */
    uint64_t room;
    /* Where a larger one goes (then `answer`). NULL, or gives NULL: the call ends with MU_ELIMIT.
     */
    void *(*place)(struct helper_call *call, uint64_t bytes);
    void (*done)(struct helper_call *call);

    /* What came of it: MU_OK, or what the peer said; MU_EPEER: the connection, or the peer, is
     * lost, and it may have been done or not; MU_ETIMEDOUT; MU_ELIMIT: the answer, or the request,
     * is too large for who would receive it; MU_EDONE: cancelled, or closed; MU_ENOMEM. */
    int status;
    uint64_t bytes; /* of the answer */

    /* The helper's. */
    TAILQ_ENTRY(helper_call) link, cancels;
    struct timer timer;
    struct helper_peer *to;
    struct helper_slot *slot;
    struct helper_gate *gate;
    uint64_t due_ms, size;
    uint8_t state;
    bool cancelled;
    bool waits;
};

/* ---- both ---- */

struct helper_config {
    struct helper_ops ops; /* take NULL: this worker answers nobody */
    bool tls;              /* between hosts; all must say the same */
};

/* At this worker's tender, which must outlive it. MU_ENOMEM, MU_EIO, MU_EEXIST: there is one. */
int helper_open(struct tender *t, const struct helper_config *config, struct helper **h_out);

/* All calls end with MU_EDONE; requests that were taken can still be answered. NULL is fine. */
void helper_close(struct helper *h);

/* Who can be asked, and where, is this from now on (copied): as the roster says. Calls to others
 * end with MU_EPEER. MU_ENOMEM: some may be missing. */
int helper_peers(struct helper *h, const struct member *peers, uint32_t n);

/* Makes n calls, to the same or to several peers. A peer is dialed when there is something to ask,
 * again and again within the calls' time. None is made and done() comes for none but with MU_OK.
 * MU_ENOENT: a peer is none of helper_peers(); MU_ELIMIT: too many wait for one; MU_EINVAL,
 * MU_EDONE.
 */
int helper_call(struct helper *h, struct helper_call *const *calls, uint32_t n);

/* The same, and waits until all have ended: `done` is not used. MU_OK: each has its status. */
int helper_ask(struct helper *h, struct helper_call *const *calls, uint32_t n);

/* It ends with MU_EDONE soon, if it has not ended otherwise. Of a call whose memory is still there.
 */
void helper_cancel(struct helper *h, struct helper_call *call);

struct helper_stats {
    uint64_t linked_n, lost_n,
        broken_n; /* connections: made, ended, ended for breaking the protocol */
    uint64_t calls_n, requests_n, writes_n;
};
void helper_stats(struct helper *h, struct helper_stats *stats_out);

#endif
