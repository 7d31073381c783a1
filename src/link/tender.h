/* A worker's place to be reached at: one thread that listens, dials and shakes hands, for all
 * classes of links (hello.h). What both sides have proved is given to whoever has attached itself
 * for the class; what is said from then on is nothing of the tender's.
 *
 * Threads: the callbacks of a link_user come from the tender's thread, which holds no lock that
 * others wait for but tender_detach(). link_dial_at(), link_dial_go(), link_dial_stop(),
 * tender_watch() and tender_unwatch() may be called from such a callback only; the rest from
 * anywhere. */
#ifndef LINK_TENDER_H
#define LINK_TENDER_H

#include "link/addr.h"
#include "link/hello.h"

#define MS UINT64_C(1000000) /* in ns */

/* How two workers reach each other: through a unix socket of the listener's host, or by TCP. */
#define LINK_UNIX 1u
#define LINK_TCP 2u

struct tender;

struct tender_config {
    struct hello_config hello; /* classes: not used */
    uint64_t host;             /* workers with the same are on one host */
    const char *address;       /* as addr_choose(); borrowed, as is iface, for tender_open() */
    const char *iface;
    unsigned paths; /* LINK_UNIX | LINK_TCP */
};

/* A connection that both sides have proved. */
struct link_made {
    struct hello_session session;
    wid self; /* who this side said it is */
    int fd;   /* non-blocking. By unix socket: SOCK_SEQPACKET for GROUP, SOCK_STREAM for HELPER */
    unsigned path;
    char from[ADDR_MAX_LEN]; /* for the log */
};

/* Whoever takes the connections of one class. */
struct link_user {
    void *arg;

    /* Is there a live link to that worker, so that one that was dialed is of no use? The dialer
     * asks before its last word. NULL: never. */
    bool (*has)(void *arg, wid peer);

    /* True: fd is taken. False: it is closed, and a dialer tries again later. */
    bool (*made)(void *arg, const struct link_made *made);

    /* What was given to tender_watch() under this id has something to tell. NULL: never done. */
    void (*event)(void *arg, uint64_t id);

    /* What is due: after every event and tender_wake(). When to be called again; UINT64_MAX. */
    uint64_t (*due)(void *arg);

    /* This worker has another name: what was made under the old one counts no more. NULL: whoever
     * renames sees to it. */
    void (*renamed)(void *arg);
};

/* Listens; nobody is let in before somebody has attached himself. `error` (LINK_ERROR_MAX) says
 * what happened and what to do. MU_EINVAL, MU_EIO, MU_ENOMEM. */
int tender_open(const struct tender_config *config, struct tender **tender_out, char *error);

/* Ends the thread; what it held stays until tender_close(). */
void tender_stop(struct tender *t);
void tender_close(struct tender *t);

/* From now on that class is served (the user is copied). The first one starts the thread. Not
 * from a callback.
 * MU_ENOMEM. MU_EEXIST: somebody else serves it. */
int tender_attach(struct tender *t, enum link_class class, const struct link_user *user);
/* When it returns, no callback is under way, none will come, and no dial of that class is used. Not
 * from a callback. */
void tender_detach(struct tender *t, enum link_class class);

/* It is to call due() soon. */
void tender_wake(struct tender *t);

/* Where others reach it: "10.0.0.1:40123". */
const char *tender_address(const struct tender *t);

/* This worker goes on as another: hands that are being shaken under the old name are dropped. */
void tender_rename(struct tender *t, wid self);

/* Connections that came to nothing: refused, and out of time. */
void tender_counts(const struct tender *t, uint64_t *refused_n_out, uint64_t *timed_out_n_out);

/* Adds a descriptor, or changes what is awaited; events as of epoll. The user of that class hears
 * of it. MU_ENOMEM, MU_EIO. */
int tender_watch(struct tender *t, int fd, uint32_t events, enum link_class class, uint64_t id);
void tender_unwatch(struct tender *t, int fd);

/* ---- dialing ---- */

/* Somebody who is to be reached: by the unix socket of its port if it is on this host, else by TCP;
 * again and again, after 1 ms, 2 ms … 200 ms. All zero is one that was never tried. */
struct dial {
    uint64_t next_ns;   /* when to dial (again) */
    uint32_t pause_ms;  /* how long to wait after that */
    struct hand *hand;  /* under way */
    uint32_t refused_n; /* how often its unix socket came to nothing */
    bool said;          /* that it can't be dialed was logged */
    uint8_t made;       /* path of the last link; 0: none */
    uint64_t made_ns;   /* when that was made */
    struct member to;   /* as it is dialed */
};

/* When the next try is due, of one that has no link; UINT64_MAX: one is under way. */
uint64_t link_dial_at(struct dial *d, uint64_t now_ns);
/* Tries. Never waits. */
void link_dial_go(struct tender *t, struct dial *d, enum link_class class, const struct member *to);
/* Nobody is to be reached any more; one that is not under way is fine. */
void link_dial_stop(struct tender *t, struct dial *d);

/* The other side has closed the connection, or both are about to. */
bool link_hung_up(int fd);

#endif
