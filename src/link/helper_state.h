/* Helpers' links from inside.
 *
 * helper.c        their life, the thread, what others give to it
 * helper_peers.c  who can be asked; connections that are made
 * helper_ask.c    calls: from helper_call() to done()
 * helper_serve.c  requests: from place() to sent()
 * helper_out.c    what leaves: frames of many slots, by one system call
 * helper_in.c     what comes: frames, and bodies to their places
 *
 * `lock` guards what is named below, for moments. All else is the thread's: connections, slots, and
 * calls once it has taken them. */
#ifndef LINK_HELPER_STATE_H
#define LINK_HELPER_STATE_H

#include "base/log.h"
#include "link/helper.h"
#include "link/helper_head.h"
#include "link/stream.h"

#include <pthread.h>

#define HELPER_PIECE (1u << 20)       /* of a body, in one frame */
#define HELPER_BATCH_BYTES (1u << 20) /* that leave together, about */
#define HELPER_BATCH_PIECES 128
#define HELPER_GATHER (256u << 10) /* heads, and small bodies behind them */
#define HELPER_BUFFER (64u << 10)
#define HELPER_READ_MAX (4u << 20) /* at a time: others have something to say, too */
#define HELPER_EVENTS_MAX 64
#define PEER_BITS 10

TAILQ_HEAD(helper_calls, helper_call);
TAILQ_HEAD(helper_answers, helper_taken);
TAILQ_HEAD(helper_slots, helper_slot);

enum { CALL_IDLE, CALL_GIVEN, CALL_TAKEN };

struct helper_peer {
    struct helper_peer *next, *beside;
    wid worker;
    struct dial dial; /* the tender's thread's */

    /* Under the lock. */
    struct member member;
    bool listed;        /* by the last helper_peers() */
    bool wanted;        /* there is something to ask */
    bool linked;        /* a connection is there */
    uint32_t pending_n; /* its calls that have not ended */

    /* The thread's. */
    struct helper_conn *conn;
    struct helper_calls waiting;
};

/* A request, from inside. */
struct helper_taken {
    struct helper_request r; /* first */
    TAILQ_ENTRY(helper_taken) link;
    struct helper *h;
    struct helper_slot *slot; /* under the lock: NULL: nobody waits for an answer any more */
    bool placed;              /* by place() */

    /* The answer. */
    int status;
    const struct iovec *parts;
    uint32_t parts_n;
    void (*sent)(void *arg, bool whole);
    void *arg;
    struct iovec copy;
};

/* One request of a connection, on either side. */
struct helper_slot {
    TAILQ_ENTRY(helper_slot) link; /* of those with something to say */
    struct helper_conn *conn;
    uint16_t index;
    uint64_t number;            /* 0: free */
    struct helper_call *call;   /* who asks; NULL: nobody wants the answer */
    struct helper_taken *taken; /* who answers, while place(), take() or the answer last */
    struct timer timer;         /* who answers */

    bool out_open, in_open;  /* there is more to say, to hear */
    bool queued;             /* in conn->ready */
    bool batched;            /* part of it is under way */
    bool answering;          /* who answers: the answer was given, or one made for it */
    struct helper_head head; /* what is said first */
    const struct iovec *parts;
    uint32_t part; /* where the next bytes come from */
    size_t part_at;
    uint64_t size, sent;

    uint8_t *place; /* where the next bytes go; NULL: nowhere */
    uint64_t total, got;
};

struct helper_conn {
    struct helper_conn *next; /* of all; or of those that have arrived */
    struct helper *h;
    struct link_made made;
    struct stream stream;
    uint32_t watched;
    bool lost;
    bool dirty;               /* something new is to leave */
    bool unread;              /* something may have come that epoll knows nothing of */
    struct helper_peer *peer; /* whom we ask here; NULL: we answer */

    struct helper_slot *slots[HELPER_WINDOW];
    uint16_t free_slots[HELPER_WINDOW], free_n;
    uint64_t number; /* of the last request */

    /* In. */
    uint8_t *buffer; /* HELPER_BUFFER: [from, to) has come and was not looked at */
    size_t from, to;
    struct helper_slot *in; /* whose body comes; NULL: a head does */
    uint32_t in_left;

    /* Out. */
    struct helper_slots ready;
    uint8_t *gather; /* HELPER_GATHER */
    size_t gathered;
    struct iovec pieces[HELPER_BATCH_PIECES];
    struct helper_slot *of[HELPER_BATCH_PIECES]; /* whose memory that is; NULL: of `gather` */
    struct helper_slot *batch[HELPER_BATCH_PIECES];
    uint32_t piece, pieces_n, batch_n;
};

struct helper {
    struct tender *tender;
    struct helper_config config;
    uint8_t run_key[KEY_BYTES];
    pthread_t thread;
    bool running;
    int epoll_fd, wake_fd;

    pthread_mutex_t lock;
    bool awake; /* the thread will look here before it sleeps */
    bool closing, renamed;
    uint32_t refs_n; /* the owner's, and one for each request that is taken */
    struct helper_calls given;
    struct helper_calls cancels;
    struct helper_answers answers;
    struct helper_conn *arrived;
    struct helper_peer *peers, *buckets[1u << PEER_BITS];
    uint32_t conns_n;
    bool peers_news;
    struct helper_stats stats;

    /* The thread's. */
    struct timers timers;
    uint64_t now_ms;
    uint64_t check_ms;
    struct helper_conn *conns;
    uint64_t writes_n;
    bool unread; /* a connection is */
    struct log_pace pace;
};

/* ---- helper.c ---- */

/* Under the lock. */
void helper_wake(struct helper *h);
void helper_unref(struct helper *h); /* without it */
/* Any thread: fd is given on success. */
int helper_conn_open(struct helper *h, const struct link_made *made, struct helper_conn **conn_out);
void helper_conn_close(struct helper_conn *c);
/* What it has to do now. */
void helper_conn_flush(struct helper_conn *c);
/* The connection is over, at the end of this turn; every call and request of it at once. */
void helper_conn_lose(struct helper_conn *c, int status, const char *why);

/* ---- helper_peers.c ---- */

struct helper_peer *helper_peer_find(struct helper *h, wid worker); /* under the lock */
uint64_t helper_peers_due(void *arg);
bool helper_made(void *arg, const struct link_made *made);
void helper_peers_free(struct helper *h);
/* The thread: calls to peers that are listed no more end. */
void helper_peers_look(struct helper *h);

/* ---- helper_ask.c ---- */

void helper_take_calls(struct helper *h);
/* There may be room for calls that wait. */
void helper_go_on(struct helper_peer *p);
void helper_end_call(struct helper *h, struct helper_call *call, int status);
void helper_end_waiting(struct helper *h, struct helper_peer *p, int status);
/* An answer: MU_OK, or what it breaks. */
int helper_answer_begins(struct helper_slot *s, const struct helper_head *head);
void helper_answer_ends(struct helper_slot *s, int status);
/* All of its request has left, or what it cut off. */
void helper_asked(struct helper_slot *s);

/* ---- helper_serve.c ---- */

void helper_take_answers(struct helper *h);
int helper_request_begins(struct helper_slot *s, const struct helper_head *head);
void helper_request_ends(struct helper_slot *s);
/* The peer does not want it. */
void helper_request_cut(struct helper_slot *s);
void helper_answered(struct helper_slot *s);
/* The connection is lost. */
void helper_request_lost(struct helper_slot *s);

/* ---- helper_out.c ---- */

/* head, then `size` bytes of the parts. */
void helper_say(struct helper_slot *s, const struct helper_head *head, const struct iovec *parts,
                uint64_t size);
/* What has not left of the parts is not read any more, and the peer hears a CUT. */
void helper_cut(struct helper_slot *s, int status);
/* Writes what there is. MU_EAGAIN: some is left. MU_EPEER, MU_EPROTO: c->stream.why */
int helper_write(struct helper_conn *c);
bool helper_has_more(const struct helper_conn *c);

/* ---- helper_in.c ---- */

/* Reads what there is, up to a bound: MU_OK: there may be more; MU_EAGAIN; MU_EPEER, MU_EPROTO,
 * MU_ENOMEM, and *why_out. */
int helper_read(struct helper_conn *c, const char **why_out);

/* ---- slots ---- */

struct helper_slot *helper_slot_open(struct helper_conn *c, uint16_t index); /* NULL: no memory */
/* If both bodies are over. */
void helper_slot_done(struct helper_slot *s);

#endif
