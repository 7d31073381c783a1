/* The inside of src/proc: what an owner and its keeper say to each other, and the keeper's places.
 * The keeper's process has one thread and no loop but poll(); nothing in it waits for the owner, a
 * process that it has started, or a console. */
#ifndef PROC_KEEP_H
#define PROC_KEEP_H

#include "proc/keeper.h"

#include <sys/types.h>

/* ---- packets, on a SOCK_SEQPACKET pair ---- */

enum keeper_kind {
    KEEPER_START, /* with three descriptors: the command (below), stdout, stderr */
    KEEPER_STOP,
    KEEPER_WILL, /* followed by its bytes */
    KEEPER_STARTED,
    KEEPER_EXITED
};

#define KEEPER_FDS 3

/* Both sides are the same binary, so the struct is the format. */
struct keeper_message {
    uint32_t kind;
    uint32_t place; /* chosen by the owner's half, which knows what is free */
    uint64_t cookie;
    int32_t pid;
    uint32_t grace_ms;
    uint32_t code;
    char why[KEEPER_WHY_MAX];
};

struct keeper_packet {
    struct keeper_message m;
    uint8_t will[KEEPER_WILL_MAX];
};

/* command.c: argv, environment and directory in one memfd, because an environment may be longer
 * than any packet. *fd_out is the caller's. MU_ENOMEM, MU_ELIMIT (no descriptors). */
int keeper_pack(const struct keeper_start *start, int *fd_out);

/* ---- the owner's half ---- */

/* hunt.c: when the keeper itself was killed, the leaders die with it, but not what they started.
 * The owner hunts those down: by group, by session, by marker, until there is nobody to be seen. */
struct keeper_hunt {
    uv_timer_t timer;
    void (*done)(void *data);
    void *data;
    bool on;
    uint32_t looks_n;
    uint32_t found_n; /* at the last look */
    uint32_t clean_n; /* looks in a row that found nobody */
    uint32_t prey_n;
    struct {
        pid_t session; /* 0: not known */
        uint64_t cookie;
    } prey[KEEPER_MAX];
};

void keeper_hunt_add(struct keeper_hunt *h, pid_t session, uint64_t cookie);

/* done is called from the loop, once nobody is left, or nobody who can be killed. */
void keeper_hunt_start(struct keeper_hunt *h, void (*done)(void *data), void *data);

/* ---- the keeper's half ---- */

enum place_state {
    PLACE_FREE,
    PLACE_STARTING, /* forked, not yet known to run its program */
    PLACE_RUNNING,
    PLACE_ENDED, /* the leader has; what it left behind is being killed */
    PLACE_EXITED /* all have; to be told */
};

/* One start. The leader's pid is also its group and its session. */
struct place {
    enum place_state state;
    uint64_t cookie;
    pid_t pid;
    bool tell_started;
    bool stopping;        /* was asked to end */
    bool told_to_end;     /* SIGTERM was sent */
    uint64_t kill_ms;     /* stopping: when SIGKILL follows; 0 once it did */
    uint32_t strays;      /* ENDED: found at the last look */
    uint32_t unsettled_n; /* ENDED: looks that were in doubt */
    int report_fd;        /* STARTING: what the child says when it can't exec; else -1 */
    uint32_t code;        /* ENDED, EXITED */
    char why[KEEPER_WHY_MAX];
};

struct keep {
    int owner_fd;
    int signal_fd;
    bool unsent;    /* the owner's queue is full */
    bool unsettled; /* a look was overtaken by an end */
    uint8_t will[KEEPER_WILL_MAX];
    size_t will_n;
    struct place places[KEEPER_MAX];
};

/* command.c: forks the process of a place, which becomes STARTING, or EXITED if that fails. The
 * descriptors stay the caller's. */
void keep_start(struct place *p, uint64_t cookie, const int fds[KEEPER_FDS]);

/* What the child reports instead of running the program. */
struct keep_failure {
    uint32_t code;
    char why[KEEPER_WHY_MAX];
};

/* reap.c */

/* The report of a starting child, if it is there: the program runs, or can't be run. */
void keep_listen(struct place *p);
void keep_stop(struct place *p, uint32_t grace_ms);
/* Takes the ended, kills what they left, sends the SIGKILLs that are due. */
void keep_reap(struct keep *kp);
/* When to call it again without a signal; 0: not at all. */
uint64_t keep_deadline(const struct keep *kp);

/* Kills everything below this process and returns when nothing is left. */
void keep_bury(struct keep *kp);

#endif
