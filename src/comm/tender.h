/* The thread that makes links, from inside: it listens, dials, shakes hands, watches the sockets of
 * links for what only their ends tell, and puts away links that were lost and are nobody's.
 *
 * tender.c         the thread: what it sleeps on, and what each event means
 * tender_listen.c  where it listens, and whom it lets in
 * tender_hand.c    hands being shaken: bytes in, bytes out, time
 * tender_want.c    who is wanted, and whether there is a link to each of them
 * tender_dial.c    wanted members: when and by which path they are dialed
 * tender_link.c    from a handshake to a link; which of two stays
 * tender_watch.c   what is heard of links, and what becomes of the lost
 *
 * Hands are the thread's alone. Wants and links are shared, under c->lock. What epoll reports is
 * looked up by a number that is never used twice: it may be gone by then. */
#ifndef COMM_TENDER_H
#define COMM_TENDER_H

#include "base/log.h"
#include "comm/addr.h"
#include "comm/comm_state.h"
#include "core/text.h"

#define HANDS_MAX                                                                  \
    64 /* that others may hold out at a time; the one that waits longest gives way \
        */
#define WANT_BITS 10
#define DIAL_FIRST_MS 1
#define DIAL_LAST_MS 200
#define MS UINT64_C(1000000) /* in ns */

/* What an event is about: in the upper byte of epoll's data, a number in the rest. */
enum tender_what {
    WHAT_WAKE,
    WHAT_TCP,  /* the listener for TCP */
    WHAT_UNIX, /* the unix listener */
    WHAT_HAND,
    WHAT_LINK, /* its socket, or the pidfd of its peer */
};
#define WHAT_SHIFT 56

/* One connection until it is a link. */
struct hand {
    struct hand *next;
    uint64_t id;
    int fd;
    uint8_t path;      /* COMM_SHM, COMM_TCP */
    bool connecting;   /* dialed, and not there yet */
    bool spoke;        /* the other side */
    struct want *want; /* dialed: for whom; NULL: it came to us, or is wanted no more */
    char from[ADDR_MAX_LEN];
    uint64_t due_ns;
    struct hello hello;
    uint8_t out[HELLO_BYTES];
    size_t out_n, out_at;
};

/* A member that a link is wanted to; freed by the thread when it is wanted no more. */
struct want {
    struct want *next;
    struct want *beside; /* of the same bucket */
    struct member member;
    bool sought;        /* comm_move() waits for it */
    bool named;         /* the generation of comm_want() names it */
    bool linked;        /* there is a live link */
    uint64_t since_ns;  /* when `linked` became what it is */
    uint64_t turn_ns;   /* not to be dialed before this, for the other side may */
    uint64_t next_ns;   /* the thread's: when to dial (again) */
    uint32_t pause_ms;  /* the thread's: how long to wait after that */
    struct hand *hand;  /* the thread's: under way */
    uint32_t refused_n; /* the thread's: how often its unix socket came to nothing */
    bool said;          /* the thread's: that it can't be dialed was logged */
    uint8_t made;       /* the thread's: path of the last link; 0: none */
    uint64_t made_ns;   /* the thread's: when that was made */
};

struct tender {
    pthread_t thread;
    bool running; /* the thread was started */
    int epoll_fd;
    int wake_fd;
    int tcp_fd, unix_fd; /* listeners; -1: none */
    _Atomic bool stop;
    _Atomic bool flush; /* a call that is over has left something queued */

    /* The thread's. */
    struct hand *hands;
    uint32_t accepted_n; /* of them, those that came to us */
    uint64_t ids_n;
    uint64_t accept_ns; /* no descriptors were left: not before this; 0: now */
    uint64_t check_ns;  /* when links_check() is due */
    uint64_t told;      /* what comm_linked() was when on_linked() was called last */
    struct log_pace refused_pace;

    /* Under c->lock. */
    struct want *wants;
    struct want *buckets[1u << WANT_BITS]; /* the same by worker: there may be many thousands */
    uint64_t goal;                         /* the generation of comm_want(); 0: none */
    struct link *hearing;                  /* in use by the thread: not to be closed now */
    bool renamed;                          /* all hands are to be dropped */

    pthread_mutex_t pace_lock; /* a leaf: log of losses */
    struct log_pace lost_pace;
};

/* ---- tender.c ---- */

/* Ends the thread; what it held stays until tender_close(). */
void tender_stop(struct comm *c);
/* Any thread: it is to look at everything anew. */
void tender_wake(struct comm *c);
/* The group's links have something queued, and no call is made that would send it: from now on it
 * leaves as peers read. */
void tender_flush(struct comm *c);
/* The thread's: adds a descriptor; events as of epoll. */
int tender_watch(struct tender *t, int fd, uint32_t events, enum tender_what what, uint64_t id);
void tender_unwatch(struct tender *t, int fd);

/* ---- tender_listen.c ---- */

int listeners_open(struct comm *c, const struct comm_config *config, char *error);
void listeners_close(struct tender *t);
/* Takes whoever has come. */
void listener_accept(struct comm *c, enum tender_what what);
/* Listens again after a pause for want of descriptors; when to look again, or UINT64_MAX. */
uint64_t listeners_resume(struct comm *c, uint64_t now_ns);

/* ---- tender_hand.c: all of the thread's ---- */

/* A hand for a connection; fd is given on success. want NULL: we listen. MU_ENOMEM, MU_EIO. */
int hand_open(struct comm *c, int fd, uint8_t path, struct want *want, struct hand **hand_out);
void hand_close(struct comm *c, struct hand *h);
/* Something happened on it; it may be gone afterwards. */
void hand_go(struct comm *c, struct hand *h);
/* Closes those that took too long; the next one's time, or UINT64_MAX. */
uint64_t hands_expire(struct comm *c, uint64_t now_ns);
void hands_drop(struct comm *c);
/* There is no room for more: the one that has been silent longest goes. */
void hands_make_room(struct comm *c);
/* Counts and logs a connection that was turned away. */
void hand_refuse(struct comm *c, struct hand *h, const char *why, bool timed_out);

/* ---- tender_want.c ---- */

/* Under c->lock: a link to that worker is there, or lost. */
void want_look(struct comm *c, wid worker);
/* Under c->lock: comm_want() is as if it had not been called. */
void wants_unname(struct tender *t);
/* The thread's: calls on_linked() if there is reason to. */
void wants_tell(struct comm *c);
/* The thread's, under c->lock: it is out of the list. */
void want_free(struct tender *t, struct want *w);
void wants_close(struct tender *t);

/* ---- tender_dial.c ---- */

/* Dials whoever is due; when to look again, or UINT64_MAX. */
uint64_t wants_dial(struct comm *c, uint64_t now_ns);
/* A dialed connection is there: the same hand, or another if there is a better path now. False:
 * neither, and the hand is gone. */
bool want_connected(struct comm *c, struct hand **hand);
/* The hand, which is gone, came to nothing: again later, perhaps by another path. refused: there
 * was somebody, who did not want to. */
void want_failed(struct want *w, uint8_t path, bool refused);

/* ---- tender_link.c ---- */

/* Both sides are sure of each other. The hand is gone afterwards. */
void link_make(struct comm *c, struct hand *h);

/* ---- tender_watch.c ---- */

/* Under c->lock. */
void link_watch(struct tender *t, struct link *l);
/* The other side has closed the connection, or both are about to. */
bool link_hung_up(int fd);
/* Its socket, or its peer's process, has something to tell. */
void link_event(struct comm *c, uint64_t id);
/* Stops watching what was lost, reads claims of those in no group, and puts away what is nobody's.
 * True: something is left that could not be done now. */
bool links_sweep(struct comm *c);
/* Loses links to hosts that no longer answer; when to look again, or UINT64_MAX. */
uint64_t links_check(struct comm *c, uint64_t now_ns);
/* The engine's holder, without c->lock: takes a link out of the list, waits until the tender is
 * done with it, and closes it. */
void link_put_away(struct comm *c, struct link *l);
/* The same for every link that fits. */
void links_put_away(struct comm *c, bool (*fits)(const struct link *l));

/* ---- group.c, members.c ---- */

/* In this term of a generation. MU_ENOMEM. */
int group_make(struct membership *of, uint64_t term, uint32_t me, struct comm_group *g_out);
void group_free(struct comm_group *g);
/* The engine's holder: the group is this one (what it points to is given), with the links that
 * there are; others of the group before are closed. */
void group_set(struct comm *c, const struct comm_group *g);
/* The engine's holder: sends what is queued, as far as it goes; true: something is left. */
bool group_flush(struct comm *c);
/* The engine's holder, under c->lock: this link is the one to that rank. */
void group_adopt(struct comm *c, uint32_t rank, struct link *l);

#endif
