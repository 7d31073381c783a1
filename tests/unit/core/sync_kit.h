/* Values by tag under test: puts in short form, and the answers as lines. */
#ifndef UNIT_CORE_SYNC_KIT_H
#define UNIT_CORE_SYNC_KIT_H

#include "unit/unit.h"

#include "core/sync.h"

#define ANSWERS_MAX 4096
#define MEMBERS_MOST 16

struct answer {
    uint32_t conn;
    struct msg_synced m; /* without data */
    char data[64];       /* the first bytes of it */
};

struct sync_kit {
    struct sync_effects fx; /* first */
    struct sync *s;
    uint64_t now_ms;
    struct answer answers[ANSWERS_MAX];
    uint32_t answers_n;
};

/* NULL: small limits that hold a few rounds of a few workers. */
void sync_kit_open(struct sync_kit *f, const struct sync_config *config);
void sync_kit_close(struct sync_kit *f);

/* The worker of `node`, slot 0, first life. Its connection has the node's number. */
wid sync_worker(uint32_t node);

/* By a worker, over the connection of its node. */
void sync_kit_put(struct sync_kit *f, wid worker, uint64_t request, uint32_t wait_ms,
                  const char *tag, const char *data);

/* Members by node, "1 2 3"; their addresses are "h1:1" and so on. */
int sync_kit_generation(struct sync_kit *f, uint64_t number, const char *nodes);

/* Time goes on; ticks at each deadline on the way. */
void sync_kit_wait(struct sync_kit *f, uint32_t ms);

/* What was answered since, in order, and forgets it: "c1 r5 ok 0/2 n1=a; c2 …" or
 * "c1 r5 -14 text". */
void sync_kit_expect(struct sync_kit *f, const char *want);

/* What is in its pools. */
struct sync_counts {
    uint32_t open_n; /* rounds that wait for somebody */
    uint32_t kept_n; /* complete ones */
    uint32_t values_n;
    uint32_t bytes_n;
};

struct sync_counts sync_counts(const struct sync *s);

#endif
