/* muster: elastic distributed training. The public C API.
 *
 * Functions that return int give MU_OK or a negative MU_E… status; mu_strerror() turns either into
 * a sentence, and mu_error() says what happened, to what, and what to do.
 *
 * A trainer that was started by `muster run` is one worker of a job:
 *
 *     mu_run *run;
 *     float mine[1024], sum[1024];
 *     int rc = mu_join(NULL, &run);
 *
 *     while (rc == MU_OK) {
 *         compute(mine);
 *         rc = mu_allreduce(run, mine, sum, 1024, MU_F32, MU_SUM, MU_FOREVER);
 *         if (rc == MU_EPEER) {                    // somebody is gone; `mine` is as it was
 *             rc = mu_regroup(run, MU_FOREVER);    // the others are together again
 *         }
 *     }
 *     mu_leave(run);
 *
 * Started by itself it is a job of one, rank 0 of 1: the same program, unchanged. */
#ifndef MUSTER_H
#define MUSTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MU_VERSION_MAJOR 0
#define MU_VERSION_MINOR 1
#define MU_VERSION_PATCH 0

#if defined(__GNUC__)
#define MU_API __attribute__((visibility("default")))
#else
#define MU_API
#endif

/* One list makes the enum and its texts. Numbers are part of the ABI: append only. */
#define MU_STATUS_MAP(X)                                                      \
    X(OK, 0, "ok")                                                            \
    X(ENOMEM, -1, "out of memory")                                            \
    X(EINVAL, -2, "invalid argument")                                         \
    X(EIO, -3, "input/output error")                                          \
    X(ECORRUPT, -4, "stored data is damaged")                                 \
    X(EVERSION, -5, "the other side speaks another version")                  \
    X(ELIMIT, -6, "a limit was reached")                                      \
    X(EEXIST, -7, "it exists already")                                        \
    X(ENOENT, -8, "no such thing")                                            \
    X(ESTALE, -9, "that generation is no longer current")                     \
    X(ECONFLICT, -10, "it was changed by someone else meanwhile")             \
    X(EBUSY, -11, "it is in use")                                             \
    X(EPROTO, -12, "the other side broke the protocol")                       \
    X(EAGAIN, -13, "not now; try again")                                      \
    X(ETIMEDOUT, -14, "it took too long")                                     \
    X(EPEER, -15, "a peer was lost")                                          \
    X(EORDER, -16, "the ranks did not make the same calls in the same order") \
    X(EDONE, -17, "the job is done")                                          \
    X(EREFUSED, -18, "refused")                                               \
    X(ELEFT, -19, "this worker has left; the job goes on")                    \
    X(EDIVERGED, -20, "the workers' states are not the same")

enum mu_status {
#define X(name, value, text) MU_##name = (value),
    MU_STATUS_MAP(X)
#undef X
};

#define MU_NAME_MAX 64          /* of jobs and nodes, terminator included */
#define MU_ADDRESS_MAX 64       /* of a worker, "host:port" */
#define MU_TAG_MAX 128          /* of mu_sync() and mu_barrier() */
#define MU_VALUE_MAX (64 << 10) /* bytes of one value */
#define MU_KEY_MAX 128          /* of a setting, terminator included */
#define MU_REDUCE_MAX 1024      /* members of a group that can reduce together */
#define MU_ANY UINT64_MAX       /* as the expected version of a setting: any */
#define MU_FOREVER (-1)         /* as a timeout: any negative number */

/* The sentence for a status; never NULL, never freed. */
MU_API const char *mu_strerror(int status);

/* What went wrong in the last call of this thread that failed; "" if none has. Valid until the
 * next one that fails. */
MU_API const char *mu_error(void);

/* "0.1.0" */
MU_API const char *mu_version(void);

/* ---- being a worker of a job ---- */

/* One worker. Any thread may use it, several at a time, until mu_leave(). A forked child is not
 * this worker: whatever it calls is MU_EINVAL. */
typedef struct mu_run mu_run;

typedef struct mu_config {
    size_t size;         /* of this struct, as mu_config_init() saw it */
    const char *address; /* "host:port" or "host" where this worker listens, and others reach it;
                          * NULL: on the interface MUSTER_IFACE, or as its agent finds out */
    int64_t join_ms;     /* mu_join() takes no longer than this; 10,000 */

    /* Of training with mu_next(); the same for all workers of a run. */
    uint32_t slices;       /* of every step's batch: a power of two up to 1024; 8. The bits of a
                            * result depend on it, never on the number of workers */
    uint64_t steps;        /* the run ends after this many; 0: when the data does */
    uint64_t digest_every; /* steps between comparisons of the workers' states; 100; 0: last only */
    uint64_t check_every;  /* steps between those in which one slice is computed by two workers
                            * and compared; 0: only when somebody joins */
    int64_t step_ms;       /* a worker that does not move for this long is suspected, and the
                            * others go on without it; MU_FOREVER, or what --step-timeout says */

    /* Checkpoints. Whatever is not said here is as `muster run --ckpt-…` says. */
    const char *ckpt_dir; /* a folder for them, or "orchestrator:"; NULL */
    uint64_t ckpt_steps;  /* saves after every so many steps; 0 */
    int64_t ckpt_ms;      /* or so often by the clock; MU_FOREVER: not said */
} mu_config;

MU_API void mu_config_init(mu_config *config);

/* Attaches to the agent that started this process, as MUSTER_SOCKET, MUSTER_SLOT and MUSTER_COOKIE
 * say; without them it is a job of one. config is copied; NULL: as mu_config_init() has it. From
 * then on a thread of the library tells the agent that this worker lives. On success *run_out is
 * the caller's, released by mu_leave(); otherwise it is untouched. It may warm up
 * for as long as it needs: it is taken into a generation once it has called something that needs
 * the others (mu_next(), mu_wait(), a collective, a sync, mu_progress()).
 *
 * MU_EBUSY: this process has joined already. MU_EPEER: no agent answers. MU_EDONE: the run has
 * ended. MU_EREFUSED, MU_ETIMEDOUT, MU_EINVAL, MU_ENOMEM. */
MU_API int mu_join(const mu_config *config, mu_run **run_out);

/* This worker leaves: the process may now exit with 0. Calls of other threads that are still
 * waiting return MU_EDONE first. Without mu_next(), or after it gave MU_EDONE, that means that its
 * work is finished, and the job ends when all say so. One that leaves in the middle of training
 * leaves for good, and the others go on without it; when all have left that way, the job has ended,
 * too. A worker that has been left out of the newest generation may leave at any time, and the job
 * goes on without it; the call takes until the others are in that generation, a few seconds at
 * most. The run is released. NULL is fine. */
MU_API int mu_leave(mu_run *run);

/* This worker gives up: every call that waits, or is made later, returns MU_EDONE; then mu_leave()
 * releases the run, and says nothing of work that is finished. From any thread; never waits. */
MU_API int mu_stop(mu_run *run);

typedef struct mu_world_info {
    uint64_t generation; /* the newest; 0: there is none yet */
    int rank;            /* in it; -1: this worker is no member of it */
    int size;
    int local_rank; /* among the members on this node; -1 */
    int local_size;
    int ended;  /* the run is over: every call that waits gives MU_EDONE */
    int failed; /* … and not well */
    char job[MU_NAME_MAX];
    char node[MU_NAME_MAX];
    const char *const *addresses; /* of the members, by rank */
} mu_world_info;

/* How things stand now. On success *world_out is to be released by mu_world_free(). */
MU_API int mu_world(mu_run *run, mu_world_info *world_out);
MU_API void mu_world_free(mu_world_info *world);

/* Waits until this worker is in a generation newer than the given one; 0: in any.
 * MU_ETIMEDOUT, MU_EDONE, MU_EPEER (its agent is gone). */
MU_API int mu_wait(mu_run *run, uint64_t generation, int64_t timeout_ms);

/* ---- those who help ----
 *
 * A chief, a parameter server or an evaluator (`muster run --role chief|ps|evaluator`) is in no
 * generation: it computes nothing with the others, who find it by the roster, and the job waits for
 * none of them. So is a worker that serves instead of training. It has a lease, and is started
 * again when it dies, or stops for good:
 *
 *     mu_join(NULL, &run);
 *     load();
 *     while (mu_serve(run, 100) == MU_OK) {   // MU_EDONE: the job is done
 *         answer();
 *     }
 *     mu_leave(run);
 *
 * The job is done when those who train have finished; in a job that nobody trains, when the chief
 * has. Calls for those who train give MU_EINVAL here. */

enum mu_role { MU_WORKER, MU_CHIEF, MU_PS, MU_EVALUATOR };

/* From now on this worker is in the roster as one that serves. Returns MU_OK when timeout_ms is
 * over (0: at once); it goes on serving. MU_EDONE: the run is over. MU_ELEFT: this worker was to
 * leave. MU_EINVAL: it trains, or the job runs in restart mode. MU_EPEER (its agent is gone). */
MU_API int mu_serve(mu_run *run, int64_t timeout_ms);

enum mu_standing {
    MU_WARMING, /* it helps, and does not serve yet */
    MU_SERVING,
    MU_MEMBER /* of the newest generation */
};

typedef struct mu_peer {
    uint64_t id; /* of this life of it: whoever takes its place has a higher one */
    enum mu_role role;
    enum mu_standing standing;
    int number; /* MU_MEMBER: its rank. MU_CHIEF, MU_PS, MU_EVALUATOR: from 0 among those of its
                 * role, and whoever takes its place has it again. A worker that serves: -1 */
    const char *address; /* where it listens */
} mu_peer;

typedef struct mu_roster_info {
    uint64_t version; /* grows with every change that this worker hears of */
    size_t n;
    mu_peer *items; /* members by rank, then the others by role and number */
} mu_roster_info;

/* Who is there: the members of the newest generation, and all who help and are not known to be
 * lost. Waits until its version is above `after`: 0 gives it as it is now, and its own version
 * waits for the next change. While the orchestrator is away it stays as it was. On success
 * *roster_out is to be released by mu_roster_free(). MU_ETIMEDOUT, MU_EDONE, MU_EPEER (its agent is
 * gone), MU_ENOMEM. */
MU_API int mu_roster(mu_run *run, uint64_t after, int64_t timeout_ms, mu_roster_info *roster_out);
MU_API void mu_roster_free(mu_roster_info *roster);

typedef struct mu_value {
    const char *address; /* whose it is */
    const void *data;
    size_t data_n;
} mu_value;

typedef struct mu_values {
    uint64_t generation; /* whose members' values these are */
    size_t n;
    mu_value *items; /* by rank */
} mu_values;

/* Everyone in the generation gets everyone's value: returns when every member has called this with
 * the same tag. A worker that is in no generation yet waits until it is. The same tag may be
 * used again and again, by one thread of a worker at a time. data: n bytes, copied. On success
 * *values_out is to be released by mu_values_free(); NULL if nobody wants to know.
 *
 * MU_ETIMEDOUT: mu_error() names who is missing; the value is withdrawn. MU_EDONE. MU_EPEER: its
 * agent is gone; or all had come and the others have their answer, but the orchestrator was lost
 * before this worker had it (with values_out NULL that is a success).
 * MU_EINVAL: the tag is empty, too long or not UTF-8. MU_ELIMIT: too many bytes. MU_EBUSY: another
 * thread waits with this tag. */
MU_API int mu_sync(mu_run *run, const char *tag, const void *data, size_t n, int64_t timeout_ms,
                   mu_values *values_out);
MU_API void mu_values_free(mu_values *values);

/* Returns when every member has come. As mu_sync() with nothing to say. */
MU_API int mu_barrier(mu_run *run, const char *tag, int64_t timeout_ms);

/* Do all members say the same? As mu_sync(); on success *same_out is 1 or 0, the same for all. */
MU_API int mu_agree(mu_run *run, const char *tag, const void *data, size_t n, int64_t timeout_ms,
                    int *same_out);

/* This worker has done that many steps: for `muster status`, and for the job's schedule. Never
 * waits. A smaller number than before is fine: the work was started over. MU_EDONE, MU_EPEER. */
MU_API int mu_progress(mu_run *run, uint64_t step);

/* ---- the data plane: what workers do together ----
 *
 * A group is the members of one generation, linked to each other: by shared memory on one host
 * (MUSTER_TRANSPORT=tcp forbids it), by TCP between hosts. All members make the same calls in the
 * same order; calls of several threads of one worker are made one after the other.
 *
 * Results depend on the contributions and their ranks alone, to the last bit: not on timing, on the
 * path, or on which ranks share a host. Nothing is reduced in place: a call that fails has changed
 * no input (unless in and out are the same), and can be made again.
 *
 * A peer that dies, or does nothing for timeout_ms: every call that waits returns MU_EPEER. Then
 * mu_regroup(), and the survivors go on. With MU_AGREE a call has succeeded for all or for none,
 * also if somebody dies in it; without, some may have their result while others have not.
 *
 * Workers prove to each other who they are. What they send between hosts is not encrypted unless
 * MUSTER_TLS=1 is set for all of them. */

enum mu_dtype { MU_F32, MU_F64, MU_BF16, MU_F16, MU_I32, MU_I64, MU_U8 };

/* Sums of integers wrap. A mean is the sum divided once; that of integers is cut off towards zero.
 * Of min and max, NaN wins over all, and -0 is below +0. */
enum mu_reduction { MU_SUM, MU_MEAN, MU_MIN, MU_MAX };

typedef struct mu_group_info {
    uint64_t generation; /* 0: there is no group yet */
    int rank;            /* -1 */
    int size;            /* 0 */
    int settled;         /* the agreed call that failed here with MU_EPEER counts all the same: make
                          * it again before any other, and it gives its result at once */
} mu_group_info;

/* The group that calls are made in. It is another one than mu_world() tells of, which is the
 * newest, until mu_regroup(). */
MU_API int mu_group(mu_run *run, mu_group_info *group_out);

/* For what the members of the group do together by other means than these calls, such as another
 * library's connections: can it still succeed? Waits for nobody. MU_EPEER: a member of that
 * generation is lost or was left out, or the group is another one by now. MU_EDONE. MU_EPEER: its
 * agent is gone. */
MU_API int mu_group_check(mu_run *run, uint64_t generation);

/* For members to know each other elsewhere: 32 bytes that all members of the group get for the same
 * label (1 to 64 bytes), and that nobody else can know. Waits for nobody. MU_EPEER: as
 * mu_group_check(). */
#define MU_SECRET_BYTES 32
MU_API int mu_group_secret(mu_run *run, uint64_t generation, const char *label,
                           uint8_t secret_out[MU_SECRET_BYTES]);

/* Moves to the newest generation: waits until this worker is a member of it and all members are
 * there; links between those who were together before are kept. When it returns MU_OK calls can be
 * made (again). The first call of all does this by itself. When there is nothing to move to it
 * returns at once.
 *
 * Growth hurries nobody: while a newer generation is known (mu_world()), the calls of the group
 * go on until its members regroup. Whoever is in a call then with one that has moved gets MU_EPEER,
 * and regroups too. With MU_AGREE all can do so at the same call: see mu_result.
 *
 * MU_ESTALE: this worker was left out meanwhile; what it has computed goes on without it. It may
 * mu_leave(), or call mu_regroup() again to wait until it is taken in anew, as a newcomer.
 * MU_ETIMEDOUT: mu_error() says who is missing; call it again. MU_EORDER: the members did not make
 * the same calls before. MU_EDONE, MU_EPEER (its agent is gone), MU_ENOMEM. */
MU_API int mu_regroup(mu_run *run, int64_t timeout_ms);

/* Memory that travels without a copy to workers on the same host, zeroed and aligned to a page.
 * Any other pointer works too. NULL: there is no more; mu_error() says why. Valid until mu_free()
 * or mu_leave(). */
MU_API void *mu_alloc(mu_run *run, size_t bytes);
MU_API void mu_free(mu_run *run, void *memory); /* NULL is fine */

/* The calls. in and out do not overlap, or are the same where that is said. Counts are in
 * elements. timeout_ms: how long a peer may do nothing; one that takes longer is suspected when
 * this worker regroups, and the job may go on without it.
 *
 * MU_EPEER: a peer was lost, or has moved on: mu_error() names it; mu_regroup(), then again.
 * MU_EORDER: the members did not make the same call; mu_error() says which ones. MU_ESTALE: as
 * mu_regroup() has it, of the first call. MU_EINVAL, MU_ELIMIT, MU_ENOMEM, MU_EDONE. */

/* out, count elements on every rank, is the reduction of all `in`. They may be the same. */
MU_API int mu_allreduce(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                        enum mu_reduction reduction, int64_t timeout_ms);

/* `in` has size * count elements; rank r gets the r-th part of their reduction. */
MU_API int mu_reduce_scatter(mu_run *run, const void *in, void *out, size_t count,
                             enum mu_dtype dtype, enum mu_reduction reduction, int64_t timeout_ms);

/* out, size * count elements, is every rank's `in`, by rank. */
MU_API int mu_allgather(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                        int64_t timeout_ms);

/* The root's buffer is everybody's. */
MU_API int mu_broadcast(mu_run *run, void *buffer, size_t count, enum mu_dtype dtype, int root,
                        int64_t timeout_ms);

/* As mu_allreduce(), at the root alone; elsewhere `out` may be NULL. */
MU_API int mu_reduce(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                     enum mu_reduction reduction, int root, int64_t timeout_ms);

/* Returns when every member of the group has come. Needs no tag, and no orchestrator: compare
 * mu_barrier(). */
MU_API int mu_meet(mu_run *run, int64_t timeout_ms);

/* From one rank to another. Those of one pair are matched in their order; count, dtype and tag
 * must be the same on both sides. */
MU_API int mu_send(mu_run *run, const void *in, size_t count, enum mu_dtype dtype, int to,
                   uint32_t tag, int64_t timeout_ms);
MU_API int mu_recv(mu_run *run, void *out, size_t count, enum mu_dtype dtype, int from,
                   uint32_t tag, int64_t timeout_ms);

/* The result as it lies in the memory of those who made it, mapped side by side: read-only, and no
 * copy is made where memory is shared. *view_out is to be released by mu_view_release(). MU_ELIMIT:
 * two of this size are held already. */
MU_API int mu_allreduce_view(mu_run *run, const void *in, size_t count, enum mu_dtype dtype,
                             enum mu_reduction reduction, int64_t timeout_ms,
                             const void **view_out);
MU_API void mu_view_release(mu_run *run, const void *view); /* NULL is fine */

/* ---- the same with everything that can be said about a call ---- */

enum mu_kind {
    MU_ALLREDUCE,
    MU_REDUCE_SCATTER,
    MU_ALLGATHER,
    MU_BROADCAST,
    MU_REDUCE,
    MU_MEET,
    MU_SEND,
    MU_RECV
};

/* Flags. */
#define MU_AGREE 1u /* it succeeds for all members, or for none: not of send and recv */
#define MU_VIEW 2u  /* of allreduce: the result is a view, and out is NULL */

typedef struct mu_call {
    size_t size; /* of this struct, as mu_call_init() saw it */
    enum mu_kind kind;
    const void *in;
    void *out;
    size_t count;
    enum mu_dtype dtype;
    enum mu_reduction reduction;
    int rank; /* the root; of send and recv the other one */
    uint32_t tag;
    unsigned flags;
    int64_t timeout_ms; /* MU_FOREVER */
} mu_call;

/* All others are zero. */
MU_API void mu_call_init(mu_call *call, enum mu_kind kind);

typedef struct mu_result {
    uint64_t generation; /* whose members' contributions it holds … */
    int members;         /* … and how many they are */
    uint64_t newest;     /* of an agreed call: every member knows this generation by now, so that,
                          * if it is newer, all can mu_regroup() after this same call; 0 */
    int lost_rank;       /* MU_EPEER, MU_EORDER: who; -1: nobody, or unknown */
    const void *view;    /* MU_VIEW: to be released by mu_view_release(); else NULL */
} mu_result;

/* Makes the call. *result_out (may be NULL unless MU_VIEW) is set on MU_EPEER and MU_EORDER too.
 *
 * An agreed call that failed with MU_EPEER may count all the same: if every survivor held its
 * result, or if one has returned it. mu_regroup() settles that, and mu_group() tells. So make the
 * very same call again: it gives that result, at once and without the others, or else a new one of
 * those who are left; result_out says whose contributions it holds. */
MU_API int mu_make(mu_run *run, const mu_call *call, mu_result *result_out);

/* The same in the background, so that it overlaps with what the caller computes: `call` is copied,
 * its buffers must stay as they are. On success *started_out is to be given to mu_finish(), which
 * waits for it; each once, in any order, before mu_leave(). MU_ETIMEDOUT: it goes on; finish it
 * later. NULL gives MU_EINVAL. */
typedef struct mu_started mu_started;
MU_API int mu_start(mu_run *run, const mu_call *call, mu_started **started_out);
MU_API int mu_finish(mu_started *started, int64_t timeout_ms, mu_result *result_out);

/* ---- training: the elastic step ----
 *
 * Any schedule of joins, leaves and crashes gives the same bits as one worker by itself, and every
 * sample counts exactly once.
 *
 *     mu_config_init(&config);
 *     mu_join(&config, &run);
 *     mu_state(run, "weights", w, sizeof(w));
 *     mu_state(run, "momentum", m, sizeof(m));
 *     mu_gradient(run, n, MU_F32);
 *     mu_metric(run, "loss");
 *     mu_data(run, samples_n, global_batch, epochs, seed);
 *     while ((rc = mu_next(run, &work)) == MU_OK) {
 *         if (work.kind == MU_SLICE) {
 *             gradient(w, work.samples, work.samples_n, g, &loss);   // means over these samples
 *             mu_put(run, g, &loss);
 *         } else {                                                   // MU_STEP: it is committed
 *             update(w, m, work.gradient, rate(work.step));
 *         }
 *     }
 *     mu_leave(run);                                                 // rc is MU_EDONE or MU_ELEFT
 *
 * Every step's batch is cut into `slices` slices, whatever the number of workers. A worker is given
 * slices to compute; when all are there the step is committed, for all workers or for none, and
 * each applies the same update. When a worker is lost its slices of that step are given to others;
 * nothing that was committed is done again. A newcomer warms up until its first mu_next(), is taken
 * in at the end of a step, and is given the state by the others.
 *
 * Memory: beside its state and what the caller has, a worker holds the sums of the slices it has
 * computed (a step's slices that are neighbours become one: with N workers no more than
 * 2 + log2(slices / N) gradients, and after a loss up to as many as it has slices) and two results.
 *
 * All of it is called from one thread. Collectives of the data plane above are refused with
 * MU_EBUSY once mu_data() or mu_shard() was called: the step has the group. */

/* A part of what a worker must know to go on: `bytes` bytes at `data`, the caller's, there until
 * mu_leave(). The first workers of a run all get what rank 0 has. Names, sizes and order must be
 * the same everywhere. Before mu_data(). MU_EINVAL, MU_EEXIST, MU_ELIMIT, MU_ENOMEM. */
MU_API int mu_state(mu_run *run, const char *name, void *data, size_t bytes);

/* The same for what does not lie in one place. save: sets *data_out to n bytes that stay until it
 * is called again with the same arg. load: takes what save gave elsewhere. Both give MU_OK, or else
 * mu_next() fails with what they gave, and asks them again in the next call. If load finds that
 * what it is given is damaged, MU_ECORRUPT: of a checkpoint, the one before it is tried then. What
 * save can't give for a checkpoint is logged, and the state after the next step is saved instead.
 */
typedef int mu_save_fn(void *arg, const void **data_out, size_t *n_out);
typedef int mu_load_fn(void *arg, const void *data, size_t n);
MU_API int mu_state_calls(mu_run *run, const char *name, mu_save_fn *save, mu_load_fn *load,
                          void *arg);

/* What mu_put() gives: count elements. Floating point types. Before mu_data(). Called again, it
 * adds another part, which may be of another type. Parts are reduced one after the other, in the
 * order of these calls: mu_part() lets those that are complete travel while others are computed. */
#define MU_PARTS_MAX 16
MU_API int mu_gradient(mu_run *run, size_t count, enum mu_dtype dtype);

/* Instead of config.slices, for those who know it later. Before mu_data(). */
MU_API int mu_slices(mu_run *run, uint32_t slices);

/* Something that must be the same for all workers of a run, a name and a value, one line each: a
 * newcomer that differs is refused with both of them. numeric: it decides the bits of a gradient,
 * no more (--numerics warn lets it pass). A name has no blanks. Before mu_data(). MU_EINVAL,
 * MU_EEXIST, MU_ELIMIT, MU_ENOMEM. */
MU_API int mu_fact(mu_run *run, const char *name, const char *value, int numeric);

/* A number that goes with every slice: its mean over a step's samples comes with the step, and is
 * shown with the job. mu_put() gives them in the order of these calls. A name has letters, digits
 * and ._- only. Before mu_data(). */
#define MU_METRICS_MAX 16
MU_API int mu_metric(mu_run *run, const char *name);

/* What is trained on: samples 0 … samples_n - 1, in another order in each epoch, global_batch of
 * them in a step (the last step of an epoch may have fewer). epochs 0: without end. */
MU_API int mu_data(mu_run *run, uint64_t samples_n, uint64_t global_batch, uint64_t epochs,
                   uint64_t seed);

/* Instead of it: one element for each worker and step, whatever their number; work.samples has it.
 * Every element is used once, in order; the result depends on the number of workers. In the last
 * round the highest ranks may have none; neither have those beyond the number of slices. */
MU_API int mu_shard(mu_run *run, uint64_t elements_n);

enum mu_work_kind { MU_SLICE, MU_STEP };

typedef struct mu_work {
    enum mu_work_kind kind;
    uint64_t step; /* the number, from 1, of the step that this slice is of, or that is committed */
    uint64_t epoch; /* from 0 */
    uint64_t generation;
    int rank, world; /* in it; of MU_STEP: in the one whose members made the result */

    /* MU_SLICE: compute the mean gradient of these samples, then mu_put(). */
    uint32_t slice;
    const uint64_t *samples; /* until the next call */
    size_t samples_n;        /* 1 or more */
    uint64_t position;       /* of the first of them in its epoch; the others follow */
    uint64_t seed;           /* for dropout and augmentation: of (job's seed, step, slice) alone */
    void *out; /* memory for the gradient that travels without a copy: may be given to mu_put() */
    void *const *outs; /* … for each of its parts; outs[0] is out */

    /* MU_STEP: apply this. Means over the step's samples; read-only, until the next call. */
    const void *gradient;
    const void *const *gradients; /* its parts; gradients[0] is gradient */
    const double *metrics;        /* by the order of mu_metric() */
    uint64_t step_samples;        /* of the whole step */
} mu_work;

/* What to do next; waits until there is something. The first call says that this worker is warm.
 * *work_out is valid until the next call.
 *
 * MU_EDONE: the run is over, all steps are done, and this worker has the last state. MU_ELEFT: it
 * was to leave (drain, preemption, shutdown) and the others go on, or the run ended while it waited
 * to be taken in. MU_EDIVERGED: the workers' states are not the same; mu_error()
 * names who differs; the job is stopped. MU_EREFUSED: this worker can't take part: its numeric kind
 * or its state is not what the others, or the checkpoint, have; mu_error() says how it differs.
 * MU_EINVAL: mu_put() is due. MU_EPEER: its agent is gone, or the run has failed. MU_ESTALE: the
 * job starts over from a step whose state this process has not. MU_ECORRUPT: the state that came is
 * not what was sent, or there are checkpoints and none is intact. MU_EIO: all steps are done, and
 * the last state could not be saved.
 *
 * MU_ENOMEM, or what save or load gave: nothing is lost, and the same is tried in the next call;
 * the other workers wait for that. Whatever else it gives, MU_EINVAL apart, is for good. */
MU_API int mu_next(mu_run *run, mu_work *work_out);

/* The slice's gradient and metrics, means over its samples. Both are copied unless gradient is
 * work.out: then, and if it has several parts, it is what is in work.outs. metrics may be NULL if
 * there are none. */
MU_API int mu_put(mu_run *run, const void *gradient, const double *metrics);

/* This part of the slice that is out is complete, in work.outs[part], and stays as it is: it may
 * begin to travel while the caller computes the others. mu_put() says so of all that are left.
 * Never needed; returns at once. */
MU_API int mu_part(mu_run *run, uint32_t part);

/* The samples of any step and slice, so that they can be fetched before they are due: as many as
 * there is room for; *n_out is how many there are, *position_out what work.position would be. Not
 * of mu_shard(). MU_EINVAL: there is no such slice, or mu_data() was not called. */
MU_API int mu_samples(mu_run *run, uint64_t step, uint32_t slice, uint64_t *samples, size_t room,
                      size_t *n_out, uint64_t *position_out);

/* From now until the next mu_next() this worker does something else, such as evaluating what it has
 * trained: the others wait for it however long that takes, and nobody suspects it. */
MU_API int mu_away(mu_run *run);

/* A number to be shown with the job beside the metrics of its steps: the last one that rank 0 has
 * said counts; what others say is not. Names as mu_metric() has them, together no more than
 * MU_METRICS_MAX. Never waits. */
MU_API int mu_log(mu_run *run, const char *name, double value);

/* Wants the state after the next step to be saved, by all workers, as it is at intervals; returns
 * at once. A run with a folder for checkpoints goes on from the newest one that is intact.
 * MU_EINVAL: there is no such folder. */
MU_API int mu_checkpoint(mu_run *run);

/* Who wants to know. Called from mu_next(); any may be NULL. */
typedef struct mu_hooks {
    /* Without addresses and local ranks: mu_world() has those of the newest. */
    void (*on_generation)(void *arg, const mu_world_info *before, const mu_world_info *now);
    void (*before_step)(void *arg, uint64_t step);
    void (*after_step)(void *arg, uint64_t step); /* the update has been applied */
    void *arg;
} mu_hooks;
MU_API int mu_hooks_set(mu_run *run, const mu_hooks *hooks);

/* Wants so many nodes from now on: the setting `size`. Any worker may; returns at once, and the log
 * says so if it is refused later. mu_config_put() waits for the answer. */
MU_API int mu_resize(mu_run *run, uint32_t nodes);

typedef struct mu_training {
    uint64_t step;         /* the last that was committed */
    uint64_t samples;      /* of the steps that this worker saw committed, by all workers */
    uint64_t slices;       /* that this worker has computed … */
    uint64_t slices_again; /* … of those, for one that was lost */
    uint64_t generations;  /* that it was in */
    uint64_t pause_us;     /* from the end of one step to the beginning of the next, when the
                            * generation changed between them: the last, … */
    uint64_t pause_max_us; /* … the longest, … */
    uint64_t pause_all_us; /* … all of them */
    uint64_t state_sent, state_got; /* bytes */
    uint8_t digest[16];             /* of the state, when it was last compared; or zero */
    uint64_t checkpoint;            /* the last step that this worker saw saved, or read; 0 */
    uint64_t saves;                 /* … how many it saw */
    uint64_t save_us;               /* … and how long the last one held up training here */
} mu_training;
MU_API int mu_training_get(mu_run *run, mu_training *training_out);

/* ---- the job's settings ----
 *
 * Keys with values that everyone in a job, and people, can read, change and watch. They outlive
 * every process of the job. Some mean something to muster: size (wanted number of nodes), members
 * (names of the nodes that stay, with commas), min, max, schedule ("size:steps,size:steps,size"),
 * paused (true or false).
 *
 * One counter, the settings' version, grows with every change; a key's version is what it was at
 * the key's last change. */

typedef struct mu_setting {
    const char *key;
    const void *value; /* value_n bytes, and a zero byte behind them; NULL: it was removed */
    size_t value_n;
    uint64_t version;
} mu_setting;

typedef struct mu_settings {
    uint64_t version; /* of all: what to watch after */
    size_t n;
    mu_setting *items; /* by key */
} mu_settings;

/* On success *setting_out is to be released by mu_setting_free(). MU_ENOENT: there is no such key.
 * MU_EINVAL: that is no key. MU_ELIMIT: too many calls about settings wait on this node already.
 * MU_ETIMEDOUT, MU_EDONE, MU_EPEER, MU_ENOMEM. */
MU_API int mu_config_get(mu_run *run, const char *key, int64_t timeout_ms, mu_setting *setting_out);
MU_API void mu_setting_free(mu_setting *setting);

/* Those that begin with the prefix; "": all. To be released by mu_settings_free(). */
MU_API int mu_config_list(mu_run *run, const char *prefix, int64_t timeout_ms,
                          mu_settings *settings_out);
MU_API void mu_settings_free(mu_settings *settings);

/* Sets a key if its version is the expected one; 0: if it does not exist; MU_ANY: in any case. On
 * success it is durable, and *version_out (may be NULL) is its new version.
 *
 * MU_EEXIST, MU_ECONFLICT: it was changed meanwhile; read it again. MU_EINVAL: the key or the value
 * is not valid; mu_error() says why. MU_ELIMIT: too large or too many. MU_EAGAIN: the
 * orchestrator was lost, or could not write, before it answered: the change may or may not have
 * been made; read it again. MU_ETIMEDOUT is the same. MU_EDONE, MU_EPEER, MU_ENOMEM. */
MU_API int mu_config_put(mu_run *run, const char *key, const void *value, size_t n, uint64_t expect,
                         int64_t timeout_ms, uint64_t *version_out);

/* Removes a key, in the same way. MU_ENOENT: it is not there. */
MU_API int mu_config_remove(mu_run *run, const char *key, uint64_t expect, int64_t timeout_ms);

/* Waits until something has changed after that version of the settings: the key, or, if it ends
 * with '/' or is "", any that begins with it. On success *settings_out has what changed, each key
 * as it is now, and the version to go on from.
 *
 * MU_ETIMEDOUT: nothing has. MU_ESTALE: changes have been forgotten; mu_config_list(), and go on
 * from its version. MU_ELIMIT: too many wait. MU_EDONE, MU_EPEER, MU_EINVAL, MU_ENOMEM. */
MU_API int mu_config_watch(mu_run *run, const char *key, uint64_t after, int64_t timeout_ms,
                           mu_settings *settings_out);

/* ---- reading and writing records ----
 *
 * A reader is a row of records, numbered from 0, in one file or many, whatever their format. It is
 * indexed once, when it is opened, and may then be used by any number of threads, each with a scan
 * of its own. It needs no run. docs/data.md tells of the formats. */
typedef struct mu_reader mu_reader;
typedef struct mu_scan mu_scan; /* used by one thread at a time; the reader outlives it */

enum mu_type { MU_BYTES, MU_TEXT, MU_INTEGER, MU_REAL, MU_NULL };

typedef struct mu_column {
    const char *name;
    enum mu_type type;
    const char *detail; /* what the format calls its type: "jpeg", "u8[28,28]", "INTEGER" */
} mu_column;

/* A value of a record that has columns. data is what is stored; numbers are in integer or real too.
 */
typedef struct mu_field {
    const char *name;
    enum mu_type type;
    const void *data;
    size_t n;
    int64_t integer;
    double real;
} mu_field;

/* Valid until the next call with the same scan. */
typedef struct mu_record {
    uint64_t number;
    const void *data; /* all of it, as it is stored */
    size_t n;
    const mu_field *fields; /* none if the format has no columns */
    uint32_t fields_n;
} mu_record;

/* A part of a reader's records: most often a file. */
typedef struct mu_reader_shard {
    const char *name;   /* the file's path */
    const char *format; /* "recordio", "csv", … */
    uint64_t first;     /* number in the reader of its first record */
    uint64_t records;
    uint64_t chunks;    /* of RecordIO; otherwise 0 */
    uint64_t bytes;     /* as they are stored */
    uint64_t skipped;   /* damaged places left out, as the option skip=yes has it */
    const char *packed; /* "none", "snappy", "gzip", "zlib", "zstd", "mixed" */
} mu_reader_shard;

/* A reader of your own. Functions give MU_OK or a status; begin, columns and close may be NULL. */
typedef struct mu_reader_calls {
    size_t size; /* of this struct */
    /* Told once: names and numbers of records are copied, the rest is ignored. */
    int (*shards)(void *arg, const mu_reader_shard **shards_out, size_t *n_out);
    int (*columns)(void *arg, const mu_column **columns_out, size_t *n_out); /* copied */
    /* What a scan needs for itself; begin() and end() are called by the scan's thread. */
    int (*begin)(void *arg, void **scan_out);
    void (*end)(void *arg, void *scan);
    /* Record `number` of that shard, from 0. record_out->number is set by the library; what it
     * points to stays as it is until the next call with the same scan. Called by many threads. */
    int (*read)(void *arg, void *scan, size_t shard, uint64_t number, mu_record *record_out);
    void (*close)(void *arg);
} mu_reader_calls;

/* Each source is a file, a folder (the files below it, by name) or a pattern ("data/part-*"); with
 * a format in front ("csv:FILE"), and options behind it ("sqlite:FILE?table=t&columns=a,b").
 * Without a format it is found out from what is in the file. `options` hold for all sources:
 * "skip=yes&header=no"; NULL: none.
 *
 * MU_ENOENT, MU_ECORRUPT (mu_error() names file and offset), MU_EINVAL: a format or an option can't
 * be. MU_ELIMIT, MU_EIO, MU_ENOMEM. */
MU_API int mu_reader_open(const char *const *sources, size_t n, const char *options,
                          mu_reader **reader_out);
/* arg is given: calls->close(arg) is called by mu_reader_close(), or before an error is returned.
 */
MU_API int mu_reader_custom(const mu_reader_calls *calls, void *arg, mu_reader **reader_out);
MU_API void mu_reader_close(mu_reader *reader); /* NULL is fine */

MU_API uint64_t mu_reader_records(const mu_reader *reader);
/* Both as long as the reader lives. */
MU_API const mu_reader_shard *mu_reader_shards(const mu_reader *reader, size_t *n_out);
MU_API const mu_column *mu_reader_columns(const mu_reader *reader, size_t *n_out);

/* Records [first, first + n), as far as there are any; UINT64_MAX: to the end. MU_EINVAL: first is
 * behind the end. MU_ENOMEM. */
MU_API int mu_scan_open(mu_reader *reader, uint64_t first, uint64_t n, mu_scan **scan_out);
/* MU_EDONE: no more; it says so every time. MU_ECORRUPT: this one is damaged, and the next call
 * goes on behind it. MU_ESTALE: the file was changed. MU_EIO, MU_ENOMEM. */
MU_API int mu_scan_next(mu_scan *scan, mu_record *record_out);
/* Any record of the reader; mu_scan_next() goes on where it was. MU_EINVAL: there is none of that
 * number. */
MU_API int mu_scan_at(mu_scan *scan, uint64_t number, mu_record *record_out);
MU_API void mu_scan_close(mu_scan *scan); /* NULL is fine */

/* A file of records in RecordIO. It is seen under its name when it is finished. */
typedef struct mu_writer mu_writer;

/* options: "compressor=none|snappy|gzip&chunk=BYTES" (snappy, 256 KiB); NULL. */
MU_API int mu_writer_open(const char *path, const char *options, mu_writer **writer_out);
/* After an error every call gives that error again. MU_EINVAL: it is finished. */
MU_API int mu_writer_put(mu_writer *writer, const void *data, size_t n);
/* All of it is on the disk, and has its name. */
MU_API int mu_writer_finish(mu_writer *writer);
/* One that was not finished leaves nothing behind. NULL is fine. */
MU_API void mu_writer_close(mu_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
