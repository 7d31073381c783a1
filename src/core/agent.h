/* The agent's side of the protocol: one node, its connection to the orchestrator, its workers.
 *
 * Pure, like the cluster: an event comes in, effects go out through emit(). The driver owns the
 * connection, the processes and the unix sockets. The agent says how its workers stand, again
 * until it is acknowledged; it passes generations down; it gives each life of a worker its id.
 *
 * In-process mode: a life is a process; it starts at once, warms up, and enters generations by
 * itself. Restart mode, and auto as long as its script has not connected: a life waits, without a
 * process, until it is in a generation; then its script starts in that generation, and is stopped
 * and started again for the next. Its exit with 0 is the end; its exit by itself with anything else
 * ends the life. */
#ifndef CORE_AGENT_H
#define CORE_AGENT_H

#include "core/message.h"

#define AGENT_RENEWALS 16 /* of which it remembers when they were sent */

struct agent_config {
    struct msg_hello hello; /* who we are; the volatile fields are filled in at each hello. Of its
                             * flags NODE_HEAL and NODE_RERUN count, the others are filled in */
    uint32_t renew_ms;      /* at most this between renewals; a third of the lease if less */
    uint32_t early_ms; /* any number: the first renewal after a welcome comes that much earlier, so
                        * that nodes welcomed together do not renew together for ever; likewise
                        * for those that are refused together */
    uint32_t members_max;
    uint32_t exit_timeout_ms; /* a job that is ending has this long; 0: 300,000 */
    uint32_t hung_ms;   /* a worker that was left out and does not say so for this long (and a lease
                         * at least) hangs, and is replaced; 0: never */
    bool keeps_hung;    /* nor is a helper that has been lost for a lease */
    uint32_t silent_ms; /* auto: a script that runs for so long without a word may be restarted for
                         * a planned change; 0: 60,000 */
};

/* What a slot's process is doing, as the agent knows it. */
enum slot_state {
    SLOT_EMPTY,
    SLOT_WAITING, /* a life without a process, until a generation names it */
    SLOT_RUNNING,
    SLOT_RESTARTING, /* asked to exit, to start again in another generation */
    SLOT_STOPPING,   /* asked to exit for good, or (it hung) to be replaced */
    SLOT_EXITED,     /* its exit is to be acknowledged before the next life starts */
    SLOT_FINISHED    /* it has exited with 0 */
};

struct slot {
    enum slot_state state;
    struct report report; /* as the worker last said; incarnation is its life */
    uint64_t beat_ms;
    bool attached; /* it has said something over its agent's socket */
    bool ours;     /* it has, or has loaded libmuster and will */
    bool lost;
    bool leave;        /* do not start it again */
    bool left;         /* it was in a generation and has left that: it may take its time to end */
    uint64_t out_ms;   /* since when it should know that it was left out; 0: it is not, or does */
    bool hung;         /* it was made to end */
    bool failed;       /* it ended by itself, and not with 0 */
    uint64_t reported; /* in the reports up to this number */
    bool unleased;     /* it was lost: no lease until the orchestrator knows that it is back */
    uint64_t started;  /* the generation that its script was started in; 0: none */
    uint64_t started_ms;
    uint64_t ready_ms; /* the next life does not start before */
    uint32_t quick_n;  /* lives in a row that were over at once */
    uint32_t failed_n; /* exits with 1–127 */
    char addr[ADDR_MAX_LEN];
    uint32_t port;
};

struct agent {
    struct agent_config config;
    uint64_t now_ms;
    uint8_t mode; /* the job's, as the orchestrator last said */
    bool connected, welcomed, draining;
    bool attached;      /* a worker has connected to its agent */
    bool unattached;    /* a worker has ended well that never connected */
    uint64_t drain_ms;  /* since when we are draining */
    uint64_t ending_ms; /* since when the job is ending; 0: it is not */
    uint32_t last_code; /* of the last script that failed */
    bool over;          /* the run has ended, or we were refused: nothing is started any more */
    bool ended;         /* the run has ended */
    bool done;
    uint64_t store;
    uint32_t node;
    uint32_t run;
    uint32_t lease_len_ms;
    uint32_t refused_n; /* in a row, for now; each makes the next hello later */
    uint64_t exists_ms; /* since when we are refused because of our name; 0: we are not */
    uint64_t hello_ms;  /* when to try again; 0: not waiting */
    uint64_t renew_at_ms;
    uint64_t renew_seq;
    uint64_t sent_ms[AGENT_RENEWALS];
    uint64_t lease_ms; /* when the newest acknowledged renewal was sent */
    uint32_t saves;    /* wishes for a checkpoint, as acknowledgements had it */
    uint64_t reports_seq, reports_acked;
    uint64_t reports_at_ms;
    bool progress; /* steps were committed: the next renewal says so */
    uint64_t active;
    struct generation held;   /* members are its own copy */
    struct msg_roster roster; /* likewise; version 0: none */
    struct slot slots[SLOTS_MAX];
    struct report out[SLOTS_MAX];
    int exit_code;
};

enum agent_effect_kind {
    AGENT_CONNECT, /* the first try at once, then with back-off */
    AGENT_HELLO,
    AGENT_RENEW,
    AGENT_REPORTS,
    AGENT_BYE,
    AGENT_START, /* a process for `slot`, as `worker`; u.generation: in that one, or NULL: warm up
                  * first. code: how often it has failed before */
    AGENT_STOP,  /* ask it to end, then make it; AGENT_ON_EXIT follows */
    AGENT_KILL,  /* it hangs: make it end; AGENT_ON_EXIT follows */
    AGENT_LIFE,  /* the running process of `slot` goes on as `worker`, a newcomer */
    AGENT_ADDR,  /* `slot` needs another address and port; AGENT_ON_ADDR follows */
    AGENT_TELL_GENERATION,
    AGENT_TELL_ACTIVE,
    AGENT_TELL_ROSTER,
    AGENT_TELL_LEASE,
    AGENT_TELL_ENDED, /* the run is over, or goes on without it; AGENT_STOP follows */
    AGENT_DONE        /* nothing is left to do: exit with `code` */
};

struct agent_effect {
    enum agent_effect_kind kind;
    uint32_t slot;
    wid worker;
    int code;
    union {
        const struct msg_hello *hello;
        const struct msg_renew *renew;
        const struct msg_reports *reports;
        const struct msg_bye *bye;
        const struct generation *generation;
        const struct msg_active *active;
        const struct msg_roster *roster;
        const struct msg_lease *lease;
        const struct msg_ended *ended;
    } u;
};

struct agent_effects {
    void (*emit)(struct agent_effects *fx, const struct agent_effect *e);
};

enum agent_event_kind {
    AGENT_ON_CONNECTED,
    AGENT_ON_CLOSED,
    AGENT_ON_WELCOME,
    AGENT_ON_REFUSED,
    AGENT_ON_ACK,
    AGENT_ON_GENERATION,
    AGENT_ON_ACTIVE,
    AGENT_ON_ROSTER,
    AGENT_ON_ENDED,
    AGENT_ON_ADDR,     /* u.report: addr and port of `slot` for the next generation; the first time
                        * before AGENT_ON_CONNECTED, then after each start and when wanted */
    AGENT_ON_LOADED,   /* the process of `slot` has loaded libmuster, and will join */
    AGENT_ON_ATTACHED, /* the process of `slot` has connected to its agent */
    AGENT_ON_DETACHED, /* that connection is gone; the process may live */
    AGENT_ON_BEAT,     /* `slot` lives */
    AGENT_ON_REPORT,   /* u.report: phase, entered, step, checkpoint, addr, apart … */
    AGENT_ON_FORGET,   /* the worker has dropped its state and wants another life */
    AGENT_ON_EXIT,     /* the process of `slot` ended with `code` */
    AGENT_ON_DRAIN,
    AGENT_ON_TICK
};

struct agent_event {
    enum agent_event_kind kind;
    uint64_t now_ms; /* the boot clock: it goes on while the machine sleeps */
    uint32_t slot;
    uint32_t code;
    union {
        const struct msg_welcome *welcome;
        const struct msg_refused *refused;
        const struct msg_ack *ack;
        const struct generation *generation;
        const struct msg_active *active;
        const struct msg_roster *roster;
        const struct msg_ended *ended;
        const struct report *report;
    } u;
};

/* MU_EINVAL, MU_ENOMEM. */
int agent_init(struct agent *a, const struct agent_config *config);
void agent_close(struct agent *a);

void agent_event(struct agent *a, const struct agent_event *e, struct agent_effects *fx);

/* When AGENT_ON_TICK is wanted next. */
uint64_t agent_deadline(const struct agent *a);

#endif
