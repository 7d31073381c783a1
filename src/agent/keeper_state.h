/* The keeper's own half, inside: its slots, and what its files do for each other. The process has
 * one thread and no loop but poll(); nothing in it waits for the agent, a worker or a console. */
#ifndef AGENT_KEEPER_STATE_H
#define AGENT_KEEPER_STATE_H

#include "agent/keeper_message.h"
#include "agent/keeper_will.h"

#include <sys/types.h>

enum place_state {
    PLACE_FREE,
    PLACE_STARTING, /* forked, not yet known to run its program */
    PLACE_RUNNING,
    PLACE_ENDED, /* the leader has; what it left behind is being killed */
    PLACE_EXITED /* all have; to be told */
};

/* What a slot's process is doing. The leader's pid is also its group and its session. */
struct place {
    enum place_state state;
    uint64_t cookie;
    uint64_t marker;
    pid_t pid;
    bool tell_started;
    bool stopping;        /* was asked to end */
    bool told_to_end;     /* SIGTERM was sent */
    uint64_t kill_ms;     /* stopping: when SIGKILL follows; 0 once it did */
    uint32_t strays;      /* ENDED: found at the last look */
    uint32_t unsettled_n; /* … and looks that were in doubt */
    int report_fd;        /* STARTING: what the child says when it can't exec; else -1 */
    uint32_t code;        /* ENDED, EXITED */
    char why[TEXT_MAX_LEN];
};

struct keep {
    int agent_fd;
    int signal_fd;
    bool unsent;    /* the agent's queue is full */
    bool unsettled; /* a look was overtaken by an end */
    struct keeper_will will;
    struct place places[SLOTS_MAX];
};

uint64_t keep_now_ms(void);

/* keeper_child.c: forks the process of a place, which becomes STARTING, or EXITED if that fails.
 * The descriptors stay the caller's. */
void keep_start(struct keep *kp, uint32_t slot, const struct keeper_message *m,
                const int fds[KEEPER_FDS]);

/* What the child reported instead of running the program. False: nothing so far. */
struct keep_failure {
    uint32_t code;
    char why[TEXT_MAX_LEN];
};

/* keeper_reap.c */

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
