/* The data plane of one worker: its links to the others of its generation, and what they do
 * together.
 *
 *   comm_open()           listens; from then on others can link to it, and it to them
 *   comm_move(generation) the group is that one; links between survivors are kept
 *   comm_run(call)        a collective; all ranks make the same calls in the same order
 *
 * A call that fails with MU_EPEER has changed no input and may be made again once the group has
 * moved. Results depend on the contributions and their order alone: not on timing, on the path, or
 * on which ranks share a host.
 *
 * Threads: any number; calls are made one at a time, in the order in which they came. A call that
 * is made in the caller's thread waits for those that were started before it. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "comm/note.h"
#include "comm/reduce.h"
#include "core/membership.h"

#define COMM_ERROR_MAX 256
#define COMM_NOBODY UINT32_MAX

/* Paths that may be used; shm between workers of one host where both allow it. */
#define COMM_SHM 1u
#define COMM_TCP 2u

struct comm;
struct tender; /* link/tender.h */

struct comm_config {
    char job[NAME_MAX_LEN];
    uint32_t run;
    uint8_t run_key[KEY_BYTES]; /* the same for all workers of the run; proves no more than that */
    wid self;
    uint64_t host; /* workers with the same can share memory */
    const char
        *address;      /* "host[:port]" to listen on; NULL: 127.0.0.1. Borrowed for comm_open(). */
    const char *iface; /* the interface whose address to listen on instead; NULL, "": none */
    unsigned paths;    /* COMM_SHM | COMM_TCP; 0: both */
    bool tls;          /* between hosts; all members must say the same */
    /* comm_linked() is another than it was (NULL: nobody wants to know). From a thread of the data
     * plane that holds no lock; it must return soon. */
    void (*on_linked)(void *arg);
    void *arg;
};

/* error: COMM_ERROR_MAX; what happened and what to do. MU_EINVAL, MU_EIO, MU_ENOMEM. */
int comm_open(const struct comm_config *config, struct comm **comm_out, char *error);

/* Every call that waits, or is made later, returns MU_EDONE. Nothing is freed: for an owner that
 * has other threads in calls, and closes when they are out. Never waits; from any thread; again is
 * fine. */
void comm_stop(struct comm *c);

/* Every call that waits returns MU_EDONE first. NULL is fine. */
void comm_close(struct comm *c);

/* Where others reach it: "10.0.0.1:40123". */
const char *comm_address(const struct comm *c);

/* The same thread and port serve other classes of links, until comm_close(). */
struct tender *comm_tender(struct comm *c);

/* This worker goes on as another (a new life): the group is none, no generation is wanted, all
 * links are dropped. */
void comm_rename(struct comm *c, wid self);
wid comm_self(const struct comm *c); /* who it is */

/* ---- the group ---- */

/* From now on links to all other members of this generation (copied) are made, and made again when
 * they are lost, until another generation is wanted or this worker has another name. Needs no key,
 * so a worker that wants to join may ask for it, too. Links of the group are not touched. Again
 * with the same generation: the addresses may be other ones. Never waits; from any thread.
 * MU_ENOMEM, MU_EDONE. */
int comm_want(struct comm *c, const struct generation *g);

/* The number of the wanted generation while there is a live link to each of its members; else 0.
 * comm_config.on_linked says when it may have changed. */
uint64_t comm_linked(struct comm *c);

/* Members of the wanted generation to whom there has been no link for that long: at most `room` of
 * them. How many were put out. */
uint32_t comm_unlinked(struct comm *c, uint64_t ms, wid *workers_out, uint32_t room);

/* The group is this generation (a reference is kept), of which this worker is a member, in this
 * round: calls in older terms fail with MU_EPEER. Keeps every link to a worker that is in both,
 * drops the others, makes what is missing, and returns when each member has proved that it is in
 * this term, too. May be called again, with the same one or a newer one. On failure the group is in
 * that term all the same, and who is missing can still come. MU_ETIMEDOUT, MU_EPEER: a member is in
 * a newer term (comm_claim()), or it is fenced (*missing_out, may be NULL, says who), MU_ESTALE:
 * the group is in a newer one. MU_EDONE. */
int comm_move(struct comm *c, struct membership *m, uint32_t round, int64_t timeout_ms,
              wid *missing_out);

/* The newest term that a member of the group is in, if that is newer than the group's; else 0. */
uint64_t comm_claim(struct comm *c);

/* Is there a live link to this worker? */
bool comm_has_link(struct comm *c, wid worker);
/* Changes whenever a link is made or lost, or a peer says that it is in another term. */
uint32_t comm_changes(const struct comm *c);

/* A failure generation newer than the group is known: calls that wait, now or later, in an older
 * one return MU_EPEER. Never waits; from any thread. */
void comm_fence(struct comm *c, uint64_t generation);
bool comm_is_fenced(const struct comm *c); /* so no call can be made in the group */

/* The newest boundary generation this worker holds: agreed calls carry it (see comm_call). */
void comm_newest(struct comm *c, uint64_t generation);

uint64_t comm_generation(const struct comm *c); /* of the group; 0: none */
#define COMM_LABEL_MAX 64
/* Made from the group's key and a label (up to COMM_LABEL_MAX bytes): its members get the same, and
 * nobody else can. MU_EPEER: there is no group of that generation. */
int comm_secret(struct comm *c, uint64_t generation, const char *label, uint8_t out[KEY_BYTES]);
uint32_t comm_rank(const struct comm *c); /* COMM_NOBODY: none */
uint32_t comm_size(const struct comm *c);
wid comm_worker(const struct comm *c, uint32_t rank); /* 0: no such rank */

/* ---- memory that travels without a copy ---- */

/* Zeroed, aligned to a page. NULL: there is no more. */
void *comm_alloc(struct comm *c, size_t bytes);
void comm_free(struct comm *c, void *memory); /* NULL is fine */

/* ---- calls ---- */

/* Flags. */
#define COMM_AGREE 1u /* ends with READY: when it is MU_OK it is so for all (see comm_settled) */
#define COMM_VIEW 2u  /* of allreduce: the result is a view, nothing is written to `out` */

/* in, out and their elements, N ranks:
 *
 *   ALLREDUCE       count, count       REDUCE   count, count at the root
 *   REDUCE_SCATTER  N * count, count   SEND     count to rank `peer`; recv: into out, from `peer`
 *   ALLGATHER       count, N * count   BARRIER  none
 *   BROADCAST       in at the root, out at the others (the root's may be NULL)
 *   SHARE           in at those who hold it, out at the others: each holder gives a part of it to
 *                   all who lack it (comm_share_part)
 *
 * in and out do not overlap, but for allreduce, reduce and broadcast they may be the same: then a
 * failed call leaves it unknown what is there. `parts`: instead of `in`, this rank's contributions.
 */
struct comm_part {
    uint32_t index, width; /* slices [index, index + width) */
    const void *data;
};

struct comm_call {
    enum comm_op op;
    const void *in;
    void *out;
    uint64_t count;
    enum dtype dtype;
    enum reduce_op reduce;
    uint64_t divisor; /* of REDUCE_MEAN; 0: the number of contributions */
    uint32_t root;    /* reduce, broadcast */
    uint32_t peer;    /* send, recv */
    uint32_t tag;
    uint32_t lane; /* of a view: two of each lane and size can be held */
    bool recv;
    const uint8_t *holds; /* share: 1 or 0 by rank, the same on all ranks */
    unsigned flags;
    uint64_t term;      /* it fails with MU_EPEER if the group is in another; 0: in any */
    int64_t timeout_ms; /* for a peer that does nothing; negative: none */

    /* allreduce over a tree of `slices_n` leaves (a power of two) instead of one contribution a
     * rank. */
    uint32_t slices_n;
    const uint32_t *owners;        /* rank by slice, the same on all ranks (core/plan.h) */
    const struct comm_part *parts; /* this rank's maximal subtrees, in order */
    uint32_t parts_n;
};

struct comm_result {
    uint32_t rank;    /* MU_EPEER, MU_EORDER: who; COMM_NOBODY: not known, or nobody is to blame */
    wid worker;       /* of that rank; 0 */
    uint64_t idle_ms; /* how long that rank has done nothing, although it lives; 0 */
    uint64_t generation; /* whose members' contributions the result holds */
    uint32_t members_n;  /* how many members that has */
    uint64_t newest;     /* agreed: the smallest `newest` of all members: all may move there now */
    const void *view;    /* COMM_VIEW: read-only, until comm_release() */
    char error[COMM_ERROR_MAX];
};

/* *result_out (may be NULL unless COMM_VIEW) is set in any case.
 * MU_EPEER: a peer died, hung past timeout_ms, or was left behind; inputs are as they were.
 * MU_EORDER: the ranks did not make the same calls; nothing more can be done in this generation.
 * MU_ELIMIT: too many views are held. MU_EINVAL, MU_ENOMEM, MU_EDONE. */
int comm_run(struct comm *c, const struct comm_call *call, struct comm_result *result_out);

/* The same in the background: `call` is copied, what it points to must stay. comm_finish() waits,
 * gives what comm_run() would have, and frees; each must be finished, in any order. timeout_ms < 0:
 * none; MU_ETIMEDOUT: not yet, and nothing is freed. *result_out (may be NULL) is set in any case.
 */
struct comm_started;
int comm_start(struct comm *c, const struct comm_call *call, struct comm_started **started_out);
int comm_finish(struct comm_started *started, int64_t timeout_ms, struct comm_result *result_out);
/* The same for one that nobody wants any more: its result is released. Also after comm_stop(). */
void comm_abandon(struct comm_started *started);

void comm_release(struct comm *c, const void *view);

/* Which bytes of `bytes` a rank gives in a share: [lo, hi), none if it does not hold them. holds:
 * of ranks_n. */
void comm_share_part(uint64_t bytes, const uint8_t *holds, uint32_t ranks_n, uint32_t rank,
                     uint64_t *lo_out, uint64_t *hi_out);

/* Nothing more is done in this term: calls that wait there, now or later, fail with MU_EPEER. Gives
 * how many agreed calls have gone well since this was last asked, and whether the whole result of
 * the next one, which failed, is here: for whoever tells the others how it stands. */
uint64_t comm_halt(struct comm *c, uint64_t term, bool *held_out);

/* The members have settled whether the agreed call that failed here, and whose result is held,
 * counts. If it does, the next COMM_AGREE call must be that one again, and gives the result at
 * once; otherwise nobody has it, and it can be made anew. Gives whether there is one that counts.
 */
bool comm_settled(struct comm *c, bool counts);

/* ---- mail: small messages outside of calls, for the elastic step ---- */

/* A frame of wire/ (at most LINK_COPY_MAX bytes, copied) to one member, or to all others
 * (COMM_NOBODY). */
int comm_mail(struct comm *c, uint32_t rank, const void *frame, size_t n);

/* Takes the next mail of this generation, waiting for it; also handed out while calls run. One that
 * has moved on to a newer generation is no reason to end: what it said before can be heard, and
 * what others say. MU_ETIMEDOUT, MU_EPEER (a link is lost, or the group was overtaken: *rank_out
 * says whose fault that is, or COMM_NOBODY), MU_ELIMIT: room is too small, MU_EAGAIN: comm_poke().
 */
int comm_hear(struct comm *c, int64_t timeout_ms, void *frame, size_t room, size_t *n_out,
              uint32_t *rank_out);

/* Whoever is in comm_hear(), or calls it next, returns from it: there is something else to look at.
 * Never waits; from any thread. */
void comm_poke(struct comm *c);

/* Tells the others that this worker lives, although it does nothing: whoever waits for it, in a
 * call or in comm_hear(), waits as long again. Not told to those for whom there is no room: they
 * don't listen. Never waits; from any thread. */
void comm_nudge(struct comm *c);
/* How many have come. */
uint32_t comm_nudges(struct comm *c);

/* ---- what happened ---- */

struct comm_stats {
    uint64_t linked_n, kept_n, refused_n, timed_out_n, lost_n;
    uint64_t shm_links, tcp_links;
};
void comm_stats(struct comm *c, struct comm_stats *stats_out);

#endif
