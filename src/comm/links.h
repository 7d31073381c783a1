/* The group's links: made by the tender (link/tender.h), in whose thread all of this runs but what
 * says otherwise. It watches the sockets of links for what only their ends tell, and puts away
 * links that were lost and are nobody's.
 *
 * links.c        what the tender's thread does for the group
 * links_want.c   who is wanted, and whether there is a link to each of them
 * links_make.c   from a connection to a link; which of two stays
 * links_watch.c  what is heard of links, and what becomes of the lost
 *
 * Wants and links are shared, under c->lock. */
#ifndef COMM_LINKS_H
#define COMM_LINKS_H

#include "base/log.h"
#include "comm/comm_state.h"
#include "core/text.h"

#define WANT_BITS 10

/* A member that a link is wanted to; freed by the thread when it is wanted no more. */
struct want {
    struct want *next;
    struct want *beside; /* of the same bucket */
    struct member member;
    bool sought;       /* comm_move() waits for it */
    bool named;        /* the generation of comm_want() names it */
    bool linked;       /* there is a live link */
    uint64_t since_ns; /* when `linked` became what it is */
    uint64_t turn_ns;  /* not to be dialed before this, for the other side may */
    struct dial dial;  /* the thread's */
};

struct tended {
    _Atomic bool flush; /* calls that are over have left something queued */
    uint64_t check_ns;  /* the thread's: when links_check() is due */
    uint64_t told;      /* the thread's: what comm_linked() was when on_linked() was called last */

    /* Under c->lock. */
    struct want *wants;
    struct want *buckets[1u << WANT_BITS]; /* the same by worker: there may be many thousands */
    uint64_t goal;                         /* the generation of comm_want(); 0: none */
    struct link *hearing;                  /* in use by the thread: not to be closed now */
    uint64_t ids_n;

    pthread_mutex_t pace_lock; /* a leaf: log of losses */
    struct log_pace lost_pace;
};

/* ---- links.c: any thread ---- */

/* The tender is to look at everything anew. */
void links_wake(struct comm *c);
/* The group's links have something queued, and no call is made that would send it: from now on it
 * leaves as peers read. */
void links_flush(struct comm *c);

/* ---- links_want.c ---- */

/* Under c->lock: a link to that worker is there, or lost. */
void want_look(struct comm *c, wid worker);
/* Under c->lock: comm_want() is as if it had not been called. */
void wants_unname(struct tended *k);
/* Calls on_linked() if there is reason to. */
void wants_tell(struct comm *c);
/* Dials whoever is due; when to look again, or UINT64_MAX. */
uint64_t wants_dial(struct comm *c, uint64_t now_ns);
void wants_close(struct tended *k);

/* ---- links_make.c ---- */

/* As link_user.made. */
bool link_make(void *comm, const struct link_made *made);

/* ---- links_watch.c ---- */

/* Under c->lock. */
void link_watch(struct comm *c, struct link *l);
/* Its socket, or its peer's process, has something to tell. */
void link_event(void *comm, uint64_t id);
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
