/* A load generator: many nodes in one process, each with a TLS connection of its own and the real
 * state machine of an agent, in restart mode, without processes: a script that is to start runs at
 * once, one that is to stop has ended. */
#ifndef BENCH_SWARM_H
#define BENCH_SWARM_H

#include "base/prng.h"
#include "core/agent.h"
#include "net/conn.h"

#define SWARM_BUCKETS 512

struct swarm_config {
    struct endpoints to;
    struct token token;
    const char *jobs;   /* job j is "<jobs>-<j>" */
    uint32_t first, n;  /* nodes first … first + n - 1 of all */
    uint32_t per_job;   /* nodes of one job: no more, no fewer */
    uint32_t at_a_time; /* handshakes; 0: all at once, as after an orchestrator's restart */
    uint32_t renew_ms;
};

struct swarm_node {
    struct swarm *swarm;
    uint32_t index; /* of all nodes */
    struct conn *conn;
    uv_timer_t timer;
    uint64_t timer_ms;
    struct agent agent;
    uint32_t tries_n; /* since the last welcome */
    uint64_t retry_ms;
    bool exits, moves; /* to be told to the agent: its script has ended; its next port */
    bool opened;       /* counted in swarm.opening_n no more */
    uint64_t welcomed_ns, active_ns;  /* the first time; 0: not yet */
    uint64_t sent_ns[AGENT_RENEWALS]; /* renewals under way; 0: answered */
};

/* What happened since it was last asked. */
struct swarm_counts {
    uint64_t renewals, acks, generations, closed, refused;
    uint64_t rtt_us[SWARM_BUCKETS]; /* how many, by swarm_bucket() */
};

struct swarm {
    struct swarm_config config;
    uv_loop_t loop;
    struct prng prng; /* jitter */
    struct tls *tls;
    struct swarm_node *nodes;
    struct swarm_counts counts;
    uint32_t next;      /* to be connected for the first time */
    uint32_t opening_n; /* being connected for the first time */
    uint32_t welcomed_n, active_n;
    uint32_t depth; /* renewals that each keeps under way; 0: only those that are due */
    void (*admitted)(struct swarm *s); /* all are in an active generation, for the first time */
};

uint64_t swarm_now_ns(void);

/* Buckets are 1/16 of a power of two wide: the longest time of a bucket is at most 6.25 % more than
 * the shortest. */
uint32_t swarm_bucket(uint64_t us);
uint64_t swarm_bucket_us(uint32_t bucket); /* the longest time in it */

/* swarm_node.c. MU_ENOMEM. */
int swarm_node_init(struct swarm *s, struct swarm_node *n, uint32_t index);
void swarm_node_close(struct swarm_node *n);
/* As many as may be in their handshake. */
void swarm_connect(struct swarm *s);
/* Keeps s->depth renewals of this node under way, from now on. */
void swarm_node_flood(struct swarm_node *n);

#endif
