/* The tender from inside.
 *
 * tender.c         its life; what it sleeps on, and what each event means
 * tender_listen.c  where it listens, and whom it lets in
 * hand.c           hands being shaken: bytes in, bytes out, time
 * dial.c           when and by which path somebody is dialed
 *
 * Locks: `busy` is held by the thread whenever it does not sleep, and by whoever attaches or
 * detaches; `lock`, for moments, guards what is named below. What epoll reports is looked up by a
 * number that is never used twice: it may be gone by then. */
#ifndef LINK_TENDER_STATE_H
#define LINK_TENDER_STATE_H

#include "base/clock.h"
#include "base/log.h"
#include "core/text.h"
#include "link/tender.h"

#include <pthread.h>
#include <stdatomic.h>

/* That others may hold out at a time; the one that waits longest gives way. */
#define HANDS_MAX 64

/* What an event is about: in the upper byte of epoll's data, a number in the rest. */
enum tender_what {
    WHAT_WAKE,
    WHAT_LISTENER, /* and which */
    WHAT_HAND,
    WHAT_USER, /* + its class */
};
#define WHAT_SHIFT 56

/* What there may be to listen on. */
enum listener { LISTENER_TCP, LISTENER_GROUP, LISTENER_HELPER, LISTENERS };

/* One connection until it is a link. */
struct hand {
    struct hand *next;
    uint64_t id;
    int fd;
    unsigned path;
    bool packets;      /* each message is one */
    bool connecting;   /* dialed, and not there yet */
    bool spoke;        /* the other side */
    struct dial *dial; /* dialed: for whom; NULL: it came to us */
    char from[ADDR_MAX_LEN];
    uint64_t due_ns;
    struct hello hello;
    uint8_t out[HELLO_BYTES];
    size_t out_n, out_at;
};

struct tender {
    struct tender_config config; /* hello.self: under the lock; address, iface: NULL */
    char address[ADDR_MAX_LEN];
    pthread_t thread;
    bool running; /* the thread was started */
    int epoll_fd;
    int wake_fd;
    int listeners[LISTENERS]; /* -1: none */
    _Atomic bool stop;
    _Atomic uint64_t refused_n, timed_out_n;

    pthread_mutex_t busy;
    struct link_user users[LINK_CLASSES]; /* made NULL: none */
    struct hand *hands;
    uint32_t accepted_n; /* of them, those that came to us */
    uint64_t ids_n;
    uint64_t accept_ns; /* no descriptors were left: not before this; 0: now */
    struct log_pace refused_pace;

    pthread_mutex_t lock;
    bool renamed; /* all hands are to be dropped */
};

/* ---- tender.c ---- */

int tender_await(struct tender *t, int fd, uint32_t events, unsigned what, uint64_t id);

/* ---- tender_listen.c ---- */

int listeners_open(struct tender *t, const struct tender_config *config, char *error);
void listeners_close(struct tender *t);
/* Takes whoever has come. */
void listener_accept(struct tender *t, enum listener which);
/* Listens again after a pause for want of descriptors; when to look again, or UINT64_MAX. */
uint64_t listeners_resume(struct tender *t, uint64_t now_ns);

/* ---- hand.c ---- */

/* A hand for a connection of ours, or (dial NULL) one that came; fd is given on success. MU_ENOMEM,
 * MU_EIO. */
int hand_open(struct tender *t, int fd, unsigned path, enum link_class class, struct dial *dial,
              struct hand **hand_out);
void hand_close(struct tender *t, struct hand *h);
/* Something happened on it; it may be gone afterwards. */
void hand_go(struct tender *t, struct hand *h);
/* Closes those that took too long; the next one's time, or UINT64_MAX. */
uint64_t hands_expire(struct tender *t, uint64_t now_ns);
/* Closes all, or those of one class. */
void hands_drop(struct tender *t, enum link_class class);
/* There is no room for more: the one that has been silent longest goes. */
void hands_make_room(struct tender *t);

/* ---- dial.c ---- */

/* A dialed connection is there: the same hand, or another if there is a better path now. False:
 * neither, and the hand is gone. */
bool link_dial_connected(struct tender *t, struct hand **hand);
/* The hand, which is gone, came to nothing: again later, perhaps by another path. refused: there
 * was somebody, who did not want to. */
void link_dial_failed(struct dial *d, unsigned path, bool refused);

#endif
