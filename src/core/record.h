/* Records, and the machines that they are for.
 *
 * A machine is state that changes by nothing but records: what one does to it is a function of the
 * state and the record, so that applying a journal to a new machine rebuilds it, byte by byte.
 * src/journal keeps, replays and snapshots the records of any number of machines, each of which has
 * a range of kinds to itself. Machines are pure: see cluster.h and config_table.h. */
#ifndef CORE_RECORD_H
#define CORE_RECORD_H

#include "core/message_tasks.h"

/* Those of wire/table.def, where they have the same numbers: for ever. From RECORD_OTHER on they
 * are nobody's: of tests, and of what brings a codec of its own. */
enum record_kind {
    RECORD_JOB = 256,
    RECORD_NODE,
    RECORD_GONE,
    RECORD_GENERATION,
    RECORD_ACTIVE,
    RECORD_FINISHED,
    RECORD_SPENT,
    RECORD_CHECKPOINT,
    RECORD_DRAIN = 265,
    RECORD_CONFIG,
    RECORD_HEAL,
    RECORD_FORGOTTEN
};

/* As in core/tasks.h. */
enum {
    RECORD_TASKS_SET = 336,
    RECORD_TASKS_FILES,
    RECORD_TASKS_START,
    RECORD_TASKS_PASS,
    RECORD_TASKS_BITS,
    RECORD_TASKS_DONE,
    RECORD_TASKS_PARKED,
    RECORD_TASKS_GONE,
    RECORD_TASKS_EVAL,
    RECORD_TASKS_CLEARED,
    RECORD_TASKS_RESERVE,
    RECORD_TASKS_STATE,
    RECORD_TASKS_TOTALS,
    RECORD_TASKS_WON,
    RECORD_TASKS_METRICS
};

#define RECORD_CLUSTER_LAST 319 /* but for RECORD_CONFIG, which is the settings' */
#define RECORD_OTHER 0xe000

struct record {
    enum record_kind kind;
    union {
        struct rec_job job;
        struct rec_node node;
        struct rec_gone gone;
        struct generation generation;
        struct rec_active active;
        struct rec_finished finished;
        struct rec_spent spent;
        struct rec_checkpoint checkpoint;
        struct rec_config config;
        struct rec_drain drain;
        struct rec_heal heal;
        struct rec_forgotten forgotten;
        struct rec_tasks_set tasks_set;
        struct rec_tasks_files tasks_files;
        struct rec_tasks_start tasks_start;
        struct rec_tasks_pass tasks_pass;
        struct rec_tasks_bits tasks_bits;
        struct rec_tasks_done tasks_done;
        struct rec_tasks_parked tasks_parked;
        struct rec_tasks_gone tasks_gone;
        struct rec_tasks_eval tasks_eval;
        struct rec_tasks_cleared tasks_cleared;
        struct rec_tasks_reserve tasks_reserve;
        struct rec_tasks_state tasks_state;
        struct rec_tasks_totals tasks_totals;
        struct rec_tasks_won tasks_won;
        struct rec_tasks_metrics tasks_metrics;
        uint64_t other[64]; /* what RECORD_OTHER and beyond say */
    } u;
};

/* Where the records of a dump go. They are borrowed until put() returns, which must not call back
 * into the machine. */
struct sink {
    void (*put)(struct sink *to, const struct record *r);
};

/* How far a dump is; zeros at its beginning. What the numbers mean is the machine's. */
struct cursor {
    uint32_t part;
    uint32_t at;
    uint64_t after;
};

/* `fx` is where a live machine's effects go, in the machine's own words; NULL in a replay, where
 * time stands still and nobody is told anything. What a record does to the durable state is the
 * same. */
struct machine_type {
    const char *name;
    unsigned first, last; /* its kinds; where two overlap they are the narrower one's */

    /* A record of its own is durable. MU_ECORRUPT: it contradicts those before it; MU_ELIMIT: there
     * is no room. Nothing has changed then. */
    int (*apply)(void *state, const struct record *r, void *fx);

    /* So is one of another machine, which has applied it. NULL: it listens to none. */
    int (*hear)(void *state, const struct record *r, void *fx);

    /* A record that it handed out will never be durable. NULL: it need not know. */
    void (*failed)(void *state, const struct record *r, uint64_t now_ms, void *fx);

    /* The next few of the records that rebuild the state, and no others: true if there are more.
     * From the first call to the last the state stays as it is. Their order is a function of the
     * durable state, so that two machines with the same state say the same. */
    bool (*dump)(void *state, struct cursor *at, struct sink *to);

    /* When it wants a tick; what is done then. NULL: it does nothing of itself. */
    uint64_t (*deadline)(const void *state);
    void (*tick)(void *state, uint64_t now_ms, void *fx);
};

/* One that lives. */
struct machine_live {
    const struct machine_type *machine;
    void *state;
    void *fx;
};

/* Whose record it is; NULL: nobody's. */
const struct machine_live *machine_of(const struct machine_live *all, uint32_t n, unsigned kind);

/* Its own machine applies it, then the others hear it, in their order. MU_ENOENT: it is nobody's.
 * MU_ECORRUPT or MU_ELIMIT from one that only heard it: they don't go together any more. */
int machines_apply(const struct machine_live *all, uint32_t n, const struct record *r, bool live);

/* The rest of all dumps, one machine after the other. */
void machines_dump(const struct machine_live *all, uint32_t n, struct sink *to);

#endif
