/* Values by tag, from inside. Places in the pools are numbers; NONE is no place. */
#ifndef CORE_SYNC_STATE_H
#define CORE_SYNC_STATE_H

#include "core/arena.h"
#include "core/sync.h"

#define NONE ARENA_NONE

/* As a job's list holds them, by worker. */
struct sync_member {
    wid worker;
    uint32_t rank;
    char addr[ADDR_MAX_LEN];
};

/* A round of a tag that was complete; (0, 0): none. Later ones are greater. */
struct sync_mark {
    uint64_t generation;
    uint32_t n; /* in that generation, from 1 */
};

/* One request. In an open round it waits, or has given up: its time was over, it was answered, and
 * it stays only so that others can be told so. In a complete round it is one of the answer. */
struct sync_value {
    wid worker;
    uint64_t request;
    struct sync_mark done; /* the last that its worker has the answer of */
    uint64_t joined;
    char last_tag[SYNC_TAG_MAX]; /* the last of any tag */
    struct sync_mark last;
    uint64_t due_ms; /* UINT64_MAX: never */
    uint32_t due_at; /* in the heap of those who wait; NONE */
    uint32_t conn;   /* 0: gone; it will be repeated */
    uint32_t round;
    uint32_t rank; /* in the job's generation; NONE: no member of it */
    uint32_t data; /* in the arena; NONE if it is empty */
    uint32_t data_n;
    uint32_t prev, next; /* in its round; when that is complete, by rank */
    uint32_t chain;      /* next of the values whose slots have the same hash */
    bool gave_up;
    char addr[ADDR_MAX_LEN]; /* once complete */
};

struct sync_round {
    char tag[SYNC_TAG_MAX];
    uint32_t job; /* NONE: it is complete */
    uint32_t first, last;
    uint32_t waiting_n;    /* values that have not given up */
    uint32_t here_n;       /* values of members that have not given up */
    uint32_t prev, next;   /* open: of its job; complete: the next newer one */
    struct sync_mark past; /* the last that somebody has the answer of */
    struct sync_mark mark; /* complete: which one this is */
    uint64_t end_ms;       /* complete: forgotten then */
};

struct sync_job {
    char name[NAME_MAX_LEN]; /* "": free */
    uint64_t generation;
    uint32_t members_n;
    uint32_t members; /* in the arena, sorted by worker */
    uint32_t rounds;  /* the first open one */
    bool ended;
    bool crowded; /* there was no room for the list of its members */
};

struct sync {
    struct sync_config config;
    struct sync_job *jobs;
    struct sync_round *rounds;
    uint32_t rounds_fresh_n, rounds_free, open_n, kept_n;
    uint32_t kept_first, kept_last;
    struct sync_value *values;
    uint32_t values_fresh_n, values_free, values_n;
    uint32_t *buckets; /* the first value of each, plus 1 */
    uint32_t buckets_n;
    uint32_t *due; /* a heap of values, the earliest first */
    uint32_t due_n;
    uint32_t *order; /* scratch: values by rank */
    struct arena arena;
};

/* ---- sync_due.c: who waits until when ---- */

void sync_due_set(struct sync *s, uint32_t value, uint64_t due_ms);
void sync_due_clear(struct sync *s, uint32_t value);

/* ---- sync_pool.c: taking and giving back; complete rounds make room, the oldest first ---- */

int sync_value_take(struct sync *s, const struct msg_sync *m, uint32_t *value_out, char *why);
int sync_round_take(struct sync *s, uint32_t job, const char *tag, uint32_t *round_out, char *why);
int sync_bytes_take(struct sync *s, uint32_t n, uint32_t *piece_out);

/* At the end of its round. */
void sync_value_link(struct sync *s, uint32_t value, uint32_t round);
void sync_value_unlink(struct sync *s, uint32_t value);

/* Unlinks it too. Its round stays, even without values. */
void sync_value_give(struct sync *s, uint32_t value);
/* With all of its values. */
void sync_round_give(struct sync *s, uint32_t round);

/* Goes through the values of a slot, whatever their worker's life, in no order: begin with NONE. */
uint32_t sync_slot_next(const struct sync *s, wid worker, uint32_t value);

/* ---- sync_round.c ---- */

/* One frame with a status; to nobody if conn is 0: it comes back, and asks again. */
void sync_refuse(uint32_t conn, wid worker, uint64_t request, int status, uint64_t generation,
                 const char *why, struct sync_effects *fx);

/* All values of a complete round, in order of rank, to one of them. */
void sync_answer(const struct sync *s, uint32_t value, uint32_t conn, struct sync_effects *fx);

bool sync_is_complete(const struct sync *s, uint32_t round);
void sync_finish(struct sync *s, uint32_t round, uint64_t now_ms, struct sync_effects *fx);

/* Whoever's time is over is told who is missing, all with the same words. */
void sync_time_out(struct sync *s, uint32_t round, uint64_t now_ms, struct sync_effects *fx);

/* A value has come: did it, or do others, belong to a round that is long complete? False: it did,
 * and is gone. */
bool sync_look_back(struct sync *s, uint32_t value, struct sync_effects *fx);

/* ---- sync.c ---- */

/* The open round of a tag; NONE. */
uint32_t sync_round_find(const struct sync *s, uint32_t job, const char *tag);

/* ---- sync_members.c ---- */

int sync_members_set(struct sync *s, struct sync_job *j, const struct generation *g);

/* The member of the same slot, whatever its life; NULL. Valid until the next sync_*_take. */
const struct sync_member *sync_member_of(const struct sync *s, const struct sync_job *j, wid w);

/* Who is missing in an open round, for a person. */
void sync_missing_text(struct sync *s, uint32_t round, char *buf, size_t cap);

#endif
