/* The inside of a node, shared by the files node*.c: one thread, one loop.
 *
 *   node.c         the loop, events in, effects out, the end
 *   node_slot.c    the processes of the slots
 *   node_keeper.c  what the keeper says of them, and how they end
 *   node_ask.c     what workers ask of the orchestrator
 *   node_addr.c    where other nodes reach the workers
 *   node_note.c    the word about a process that has ended
 *   node_frame.c   the line to the orchestrator, and what it says
 *   node_local.c   what workers say over the unix socket
 *   node_signal.c  SIGTERM and its like
 *
 * core/agent decides; these only do. Effects arrive in the middle of agent_event(), so nothing that
 * happens in one may call it: what follows is queued (node_queue) and handled after. */
#ifndef AGENT_NODE_STATE_H
#define AGENT_NODE_STATE_H

#include "agent/local.h"
#include "agent/node.h"
#include "agent/node_alone.h"
#include "agent/node_name.h"
#include "agent/output.h"
#include "agent/ports.h"
#include "base/log.h"
#include "base/timers.h"
#include "core/agent.h"
#include "net/line.h"
#include "proc/keeper.h"
#include "wire/ask.h"

#include <sys/queue.h>

#define NODE_AREA "agent"
#define NODE_QUEUE 512
#define NODE_SIGNALS 4
#define NODE_ASKS_MAX 64              /* of a slot, unanswered */
#define NODE_ASK_BYTES_MAX (8u << 20) /* of their bodies, all slots together */
#define NODE_ALONE UINT32_MAX         /* no rank */

/* What a worker asks of the orchestrator, until it is answered. */
struct node_ask {
    TAILQ_ENTRY(node_ask) link;
    uint64_t due_ms;
    struct timer late;
    struct timer again; /* off: not before the next welcome */
    bool sent;          /* over the connection that there is */
    bool heard;         /* a stream: there was nothing for it up to `m.at`, by that connection */
    bool begun;         /* the worker has part of the answer */
    struct msg_ask m;
    uint8_t body[];
};

/* A process that is gone. */
struct node_exit {
    struct timer timer; /* until then what it said is still being read */
    uint32_t code;
    char why[TEXT_MAX_LEN];
};

/* What is to be logged about it once its output is there. */
struct node_note {
    struct timer timer; /* at the latest; off: nothing is to be logged */
    uint32_t start;     /* whose output, see output_starts() */
    enum log_level level;
    char text[TEXT_MAX_LEN + 160];
};

struct node_slot {
    uint64_t cookie; /* of the process that runs; 0: none does */
    int pid;
    wid worker;
    uint64_t generation; /* that it was started in, or last told of; 0: none */
    uint32_t rank;       /* in that; NODE_ALONE: none */
    uint32_t world;
    bool stopping;
    bool told_ended;
    struct node_exit exit;
    struct node_note note;
    struct timer stop;           /* it may end by itself until then; off: nothing to wait for */
    char own_addr[ADDR_MAX_LEN]; /* of the process that runs */
    char addr[ADDR_MAX_LEN];     /* of the next one, and its port */
    uint32_t port;
    TAILQ_HEAD(, node_ask) asks;
    uint32_t asks_n;
    uint64_t latest_ms[ASK_KINDS_N]; /* not before this the newest is said */
};

struct node_addr {
    char host[ADDR_MAX_LEN]; /* "" until it is known */
    bool fixed;              /* by --address, or MUSTER_IFACE */
    uint16_t port;           /* of slot 0, by --address; 0: a free one for each start */
    bool warned;
};

struct node_queued {
    struct agent_event event;
    struct report report; /* what u.report of AGENT_ON_ADDR points to */
};

struct node {
    const struct node_config *config;
    char memory_dir[NAME_MAX_LEN + 80]; /* "": none (yet) */
    int memory_fd;                      /* keeps the folder from those who clean up */
    uv_loop_t loop;
    uv_timer_t timer;     /* for the first of: */
    struct timers timers; /* all that this node waits for */
    uv_signal_t signals[NODE_SIGNALS];
    struct agent agent;
    struct keeper *keeper;
    struct local *local;
    struct relay_dial dial; /* of the workers' lines to the orchestrator's checkpoints */
    struct output *output;
    struct alone *alone;
    struct ports ports;
    struct tls *tls;
    struct line *line; /* to the orchestrator; training goes on without it */
    bool welcomed;     /* ever */
    struct node_addr addr;
    struct node_name name; /* its fd: a name that we chose ourselves */
    struct node_slot slots[SLOTS_MAX];
    struct msg_life life;          /* what workers are told, but for `worker` and `addr` */
    size_t ask_bytes;              /* see NODE_ASK_BYTES_MAX */
    uint64_t follows[ASK_KINDS_N]; /* the requests of the streams that are followed; 0: it is not */
    uint64_t follow_request;       /* the last of them */
    char log_dir[PATH_MAX_LEN];    /* made by us, if there was to be one */

    struct node_queued queue[NODE_QUEUE]; /* a ring */
    uint32_t queue_at, queue_n;
    bool busy; /* in agent_event() */

    bool ended; /* the orchestrator has said so: */
    struct msg_ended end;
    uint32_t refused_n; /* refusals in a row */
    bool drained;       /* a signal has asked for it */
    struct timer tick;  /* core/agent's deadline */
    struct timer idle;  /* when to say that we are still waiting */
    struct timer force; /* when to end without the workers' exits */
    struct timer drain; /* when a drain ends for those who are still there */
    bool over;
    int code;         /* what `muster run` exits with */
    int status;       /* not MU_OK: nothing was started */
    char *error;      /* why nothing was started */
    int forced_code;  /* 128 + signal; 0: not forced */
    uint32_t lives_n; /* processes started, for the last line */
};

/* ---- node.c ---- */

/* Handles it and whatever follows; e->now_ms is filled in. From callbacks, not from effects. */
void node_event(struct node *n, struct agent_event *e);

/* Calls fn(n, t) from the loop at that time, or as soon as it can; what t was armed for is void. */
void node_at(struct node *n, struct timer *t, uint64_t at_ms, void (*fn)(void *n, struct timer *t));
void node_after(struct node *n, struct timer *t, uint64_t ms, void (*fn)(void *n, struct timer *t));
void node_off(struct node *n, struct timer *t);

/* From anywhere: handled after the event at hand, or at once. report may be NULL; it is copied. */
void node_queue(struct node *n, enum agent_event_kind kind, uint32_t slot, uint32_t code,
                const struct report *report);

/* Ends the loop: exit with code. */
void node_end(struct node *n, int code);

/* Ends the loop before anything was started. */
void node_fail(struct node *n, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- node_frame.c ---- */

int node_line_open(struct node *n, char *error);

/* ---- node_slot.c ---- */

/* "generation 7: rank 0 of 2", "warming up" */
struct node_who {
    char text[96];
};

struct node_who node_slot_who(const struct node *n, uint32_t slot);
void node_slot_start(struct node *n, const struct agent_effect *e);
void node_slot_stop(struct node *n, uint32_t slot);
/* It hangs. */
void node_slot_replace(struct node *n, uint32_t slot);
/* The process goes on as another worker. */
void node_slot_life(struct node *n, uint32_t slot, wid worker);
void node_slot_generation(struct node *n, uint32_t slot, const struct generation *g);
void node_slot_say_life(struct node *n, uint32_t slot);
void node_slot_kill_all(struct node *n, uint32_t grace_ms);
/* As that, but for those who have been told to leave, and have time of their own to do so. */
void node_slot_kill_rest(struct node *n, uint32_t grace_ms);
int node_slots_open(struct node *n, char *error);

/* ---- node_keeper.c ---- */

extern const struct keeper_handler node_keeper_handler;

/* From here on the keeper says goodbye in our place if we are killed. */
void node_keeper_will(struct node *n, const struct msg_welcome *m);
/* Nothing more is to be read from the process of the slot. */
void node_exit_detached(struct node *n, uint32_t slot);

/* ---- node_note.c ---- */

/* The process of the slot has ended; to be called before its place is used again. */
void node_note_exit(struct node *n, uint32_t slot, uint32_t code, const char *why);
/* Says what is still to be said of the slot. */
void node_note_say(struct node *n, uint32_t slot);
/* Says what can be said by now; all: everything. */
void node_notes_look(struct node *n, bool all);

/* ---- node_local.c ---- */

extern const struct local_handler node_local_handler;

/* ---- node_addr.c ---- */

int node_addr_open(struct node *n, char *error);
/* We reached the orchestrator at `peer` ("1.2.3.4:5"): finds our own address, unless it is fixed,
 * and tells the agent where its slots are if that is news. */
void node_addr_learn(struct node *n, const char *peer);
/* Where the next process of the slot will be; queues AGENT_ON_ADDR. */
void node_addr_next(struct node *n, uint32_t slot);
/* Says once that members on other hosts can't reach a loopback address. */
void node_addr_check(struct node *n, const struct generation *g);

/* ---- node_ask.c ---- */

/* A worker's question: kept, and passed on. */
void node_ask_take(struct node *n, uint32_t slot, const struct msg_ask *m);
/* What the orchestrator says to one: passed on to its slot. */
void node_ask_answer(struct node *n, const struct msg_says *m);
/* After a welcome: what has not been said over this connection is, with the time that is left. */
void node_ask_repeat(struct node *n);
void node_ask_lost(struct node *n); /* the connection is lost */
/* All of a slot are answered with this (MU_ESTALE: only those that belong to its life). */
void node_ask_end(struct node *n, uint32_t slot, int status, const char *text);
/* Those of the slot are forgotten: nobody is left to hear an answer. */
void node_ask_drop(struct node *n, uint32_t slot);
/* The worker says no more: the newest of what it has said goes now. */
void node_ask_flush(struct node *n, uint32_t slot);

/* ---- node_signal.c ---- */

int node_signals_open(struct node *n);
/* They are still caught, and mean nothing any more: what is over ends with its own code. */
void node_signals_unref(struct node *n);
void node_signals_close(struct node *n);

/* ---- node_memory.c ---- */

/* Where workers keep their newest state; NULL: nowhere. The agent has been welcomed. */
const char *node_memory_dir(struct node *n);
/* Nobody needs it any more if the run has ended, or this node has left and no other is here. */
void node_memory_close(struct node *n);
/* Takes away what agents of this user that were killed have left in memory here, and nobody needs:
 * in the background. */
void node_memory_sweep(const struct node *n, const struct msg_welcome *m);

#endif
