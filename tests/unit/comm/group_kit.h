/* Workers of one job in one process, or in children of it, and generations made of them. */
#ifndef UNIT_COMM_GROUP_KIT_H
#define UNIT_COMM_GROUP_KIT_H

#include "comm/comm_state.h"

#define KIT_MAX 8
#define KIT_LONG_MS 60000 /* against hanging only */

struct kit {
    struct comm *comms[KIT_MAX];
    struct member members[KIT_MAX];
    uint32_t round; /* that all move to, of whatever generation */
};

/* As a worker of node i would have it; its host is i + 1 if `apart`, else 1. */
void kit_config(uint32_t i, unsigned paths, bool apart, struct comm_config *config_out);

/* Opens worker i; asserts that it worked. */
void kit_open(struct kit *kit, uint32_t i, unsigned paths, bool apart);
void kit_open_all(struct kit *kit, uint32_t n, unsigned paths, bool apart);
void kit_close(struct kit *kit);

/* A generation of the workers whose bits are set, in order. Its key follows from its number. Valid
 * until the next one is made of the same `room`. */
struct kit_room {
    struct generation generation;
    struct member members[KIT_MAX];
};
const struct generation *kit_generation(const struct kit *kit, uint64_t number, unsigned who,
                                        struct kit_room *room);

/* Each of `who` moves, all at once; by worker: what came of it and who was missing. */
struct kit_moved {
    int rc[KIT_MAX];
    wid missing[KIT_MAX];
};
void kit_move(struct kit *kit, const struct generation *g, unsigned who, int64_t timeout_ms,
              struct kit_moved *moved_out);
/* The same, each with a generation of its own; NULL: it stays. */
void kit_move_each(struct kit *kit, const struct generation *const g[KIT_MAX], int64_t timeout_ms,
                   struct kit_moved *moved_out);
/* All of `who` move to that generation of them; asserts that it worked. */
void kit_enter(struct kit *kit, uint64_t number, unsigned who);

/* Links to all members are made; asserts that it worked. */
void kit_link_all(struct comm *c, const struct generation *g);

/* One that moves in a thread of its own, for as long as it takes. */
struct kit_waiting {
    pthread_t thread;
    struct comm *comm;
    const struct generation *g;
    _Atomic int rc; /* MU_EAGAIN: it waits */
};
void kit_wait_begin(struct kit_waiting *w, struct comm *c, const struct generation *g);
int kit_wait_end(struct kit_waiting *w);

/* A barrier of all `who`, at once; asserts that it worked. */
void kit_barrier(struct kit *kit, unsigned who);

/* The link of worker i to worker j in its group, or NULL. */
struct link *kit_link(struct kit *kit, uint32_t i, uint32_t j);

/* Waits until the condition holds; fails the test if it never does. */
#define kit_until(condition)                                               \
    do {                                                                   \
        const uint64_t kit_end_ns = clock_ns() + KIT_LONG_MS * 1000000ull; \
        while (!(condition)) {                                             \
            assert_true(clock_ns() < kit_end_ns);                          \
            kit_nap();                                                     \
        }                                                                  \
    } while (0)
void kit_nap(void);

#endif
