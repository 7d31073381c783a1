/* Values by tag: everyone in a job's generation hands in a value, and when all have, each gets
 * all. A barrier is the same with empty values.
 *
 * Pure: time comes in, answers go out through emit(), memory is taken in sync_init() alone. The
 * orchestrator's driver owns one; nothing of it is durable. Requests are repeated by those who
 * made them, with the same number, when their connection or the orchestrator was gone: a repeated
 * one takes its old place, and one whose round is complete gets the same answer again, for keep_ms.
 *
 * A round is complete when every member of the job's newest generation has put a value under its
 * tag. A worker that is no member (yet, or any more) waits, and is waited for from the moment that
 * a generation names it; one that a generation no longer names is not waited for, and its
 * value is in no result. Rounds of one tag follow each other; each worker says which was the last
 * that it has the answer of, of this tag and of any, so that values of different rounds are never
 * mixed: one that missed an answer, because the orchestrator was lost with all that it remembered,
 * gets MU_EPEER, with the number of that round, and is taken up in the next. Every request has
 * exactly one answer, unless its worker puts another value under the same tag, or goes on with
 * another life. */
#ifndef CORE_SYNC_H
#define CORE_SYNC_H

#include "core/message.h"

/* A value for all under a tag. It is repeated, with the same request, until it is answered. */
struct msg_sync {
    wid worker;
    uint64_t request; /* grows from call to call of one worker */
    uint32_t wait_ms; /* what is left of its time */
    char tag[SYNC_TAG_MAX];
    uint32_t data_n;
    uint8_t *data;
    /* The last round of the tag that it has the answer of: number `done_n` of that generation. */
    uint64_t done_generation;
    uint32_t done_n;
    uint64_t joined; /* it has been a member since this generation; 0: no, or it can't tell */
    /* The round of any tag that it had the answer of last; "": none. */
    char last_tag[SYNC_TAG_MAX];
    uint64_t last_generation;
    uint32_t last_n;
};

/* One of `total` values, in order of rank; or, with a status other than MU_OK, the only answer. */
struct msg_synced {
    wid worker;
    uint64_t request;
    int32_t status;
    uint64_t generation; /* whose members' values these are */
    uint32_t index;
    uint32_t total;
    wid from;
    char addr[ADDR_MAX_LEN];
    char text[TEXT_MAX_LEN]; /* on failure: what happened, naming who is missing */
    uint32_t data_n;
    uint8_t *data;
    uint32_t round; /* its number in `generation`; also on MU_EPEER: the last that it has missed */
};

#define SYNC_FOREVER UINT32_MAX /* as wait_ms */

struct sync;

struct sync_config {
    uint32_t jobs_max;
    uint32_t rounds_max; /* open and remembered ones */
    uint32_t values_max; /* values in all rounds */
    uint32_t bytes_max;  /* bytes of those values; lists of members count too */
    uint32_t keep_ms;    /* complete rounds are remembered this long, if there is room */
};

/* Limits for large clusters; pages that are never used cost nothing. */
struct sync_config sync_defaults(void);

/* Where answers go: m is borrowed for the call. emit() must not call back. */
struct sync_effects {
    void (*emit)(struct sync_effects *fx, uint32_t conn, const struct msg_synced *m);
};

/* On success *s_out is the caller's, released by sync_close(). MU_EINVAL: a limit is 0 or too
 * large; MU_ENOMEM. */
int sync_init(const struct sync_config *config, struct sync **s_out);
void sync_close(struct sync *s); /* NULL is fine */

/* `m` came by the connection `conn` (never 0) from a node of `job`. Everything is copied. The
 * answer is `total` frames in order of rank, or one with a status: MU_ETIMEDOUT after m->wait_ms
 * (0: now or never), MU_EDONE, MU_ELIMIT, MU_EPEER, each with a text. */
void sync_put(struct sync *s, uint64_t now_ms, uint32_t conn, const char *job,
              const struct msg_sync *m, struct sync_effects *fx);

/* The generation g of job g->job was published; copied. To be called for every job's newest one
 * after a restart too, before anything is put. MU_ELIMIT: no room for its list of members; whatever
 * is put in this job is refused until there is. */
int sync_generation(struct sync *s, uint64_t now_ms, const struct generation *g,
                    struct sync_effects *fx);

/* The job's run has ended: whoever waits, and whoever puts from now on until the job has another
 * generation, gets MU_EDONE. After a restart too. */
void sync_ended(struct sync *s, uint64_t now_ms, const char *job, struct sync_effects *fx);

/* The connection is gone. What came by it stays: its agent will repeat it. */
void sync_closed(struct sync *s, uint32_t conn);

void sync_tick(struct sync *s, uint64_t now_ms, struct sync_effects *fx);

/* When sync_tick() is wanted next; UINT64_MAX: not before something happens. */
uint64_t sync_deadline(const struct sync *s);

#endif
