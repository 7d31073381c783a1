/* mu_make, mu_start, mu_finish: calls of the data plane, and what becomes of them. */
#include "run/crew.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)MU_F32 == DTYPE_F32 && (int)MU_F64 == DTYPE_F64 && (int)MU_BF16 == DTYPE_BF16 &&
                   (int)MU_F16 == DTYPE_F16 && (int)MU_I32 == DTYPE_I32 &&
                   (int)MU_I64 == DTYPE_I64 && (int)MU_U8 == DTYPE_U8,
               "the public types are the data plane's");
_Static_assert((int)MU_SUM == REDUCE_SUM && (int)MU_MEAN == REDUCE_MEAN &&
                   (int)MU_MIN == REDUCE_MIN && (int)MU_MAX == REDUCE_MAX,
               "… and the reductions");
_Static_assert(MU_AGREE == COMM_AGREE && MU_VIEW == COMM_VIEW && MU_REDUCE_MAX == REDUCE_INPUTS_MAX,
               "… and the flags, and the limit");

struct mu_started {
    struct mu_run *run;
    struct comm_started *comm;
    struct comm_call call;
};

void mu_call_init(mu_call *call, enum mu_kind kind)
{
    *call = (mu_call){.size = sizeof(*call), .kind = kind, .timeout_ms = MU_FOREVER};
}

/* ---- there and back ---- */

static int check(const mu_call *call, const mu_result *result_out)
{
    if (call == NULL || call->size != sizeof(*call)) {
        return run_fail(MU_EINVAL, "the mu_call was not made by mu_call_init()");
    }
    if ((unsigned)call->kind > MU_RECV) {
        return run_fail(MU_EINVAL, "there is no kind of call with number %d", (int)call->kind);
    }
    if ((call->flags & ~(MU_AGREE | MU_VIEW)) != 0) {
        return run_fail(MU_EINVAL, "there are no such flags: %#x", call->flags);
    }
    if ((call->flags & MU_VIEW) != 0 && result_out == NULL) {
        return run_fail(MU_EINVAL, "there is nowhere to put the view");
    }
    if ((call->flags & MU_AGREE) != 0 && call->kind >= MU_SEND) {
        return run_fail(MU_EINVAL, "only what all members do together can be agreed on");
    }
    if (call->rank < 0) {
        return run_fail(MU_EINVAL, "%d is no rank", call->rank);
    }
    return MU_OK;
}

static struct comm_call to_comm(const mu_call *call)
{
    static const enum comm_op ops[] = {
        [MU_ALLREDUCE] = COMM_ALLREDUCE, [MU_REDUCE_SCATTER] = COMM_REDUCE_SCATTER,
        [MU_ALLGATHER] = COMM_ALLGATHER, [MU_BROADCAST] = COMM_BROADCAST,
        [MU_REDUCE] = COMM_REDUCE,       [MU_MEET] = COMM_BARRIER,
        [MU_SEND] = COMM_SEND,           [MU_RECV] = COMM_SEND};

    return (struct comm_call){.op = ops[call->kind],
                              .in = call->in,
                              .out = call->out,
                              .count = call->count,
                              .dtype = (enum dtype)call->dtype,
                              .reduce = (enum reduce_op)call->reduction,
                              .root = call->kind < MU_SEND ? (uint32_t)call->rank : 0,
                              .peer = call->kind >= MU_SEND ? (uint32_t)call->rank : 0,
                              .tag = call->tag,
                              .recv = call->kind == MU_RECV,
                              .flags = call->flags,
                              .timeout_ms = call->timeout_ms};
}

static void from_comm(int rc, const struct comm_result *r, mu_result *result_out)
{
    bool blames = rc != MU_OK && r->rank != COMM_NOBODY;

    *result_out = (mu_result){.generation = rc == MU_OK ? r->generation : 0,
                              .members = rc == MU_OK ? (int)r->members_n : 0,
                              .newest = rc == MU_OK ? r->newest : 0,
                              .lost_rank = blames ? (int)r->rank : -1,
                              .view = rc == MU_OK ? r->view : NULL};
}

/* Says how it went, and remembers that nothing more can be done in that group. Under the lock. */
static int outcome(struct mu_run *run, const struct comm_call *call, int rc,
                   const struct comm_result *r)
{
    struct data *d = &run->data;

    if (rc == MU_OK) {
        d->info.settled = (call->flags & COMM_AGREE) != 0 ? 0 : d->info.settled;
        return MU_OK;
    }
    if ((rc == MU_EPEER || rc == MU_EORDER) && call->term == d->group && d->broken == MU_OK) {
        d->broken = rc;
    }
    if (run->leaving || run->ended || run->lost != MU_OK) {
        return call_state(run);
    }
    if (call->term == d->group && regroup_is_other(run)) {
        return regroup_left_out(run);
    }
    if (rc == MU_EPEER) {
        return run_fail(rc, "%s: mu_regroup() and make the call again",
                        r->error[0] != '\0' ? r->error : "a peer was lost");
    }
    if (rc == MU_ELIMIT) {
        return run_fail(rc, "two views of this size are held: mu_view_release() one first");
    }
    return run_fail(rc, "%s", r->error[0] != '\0' ? r->error : mu_strerror(rc));
}

/* A call is over: the crew hears if a peer was to blame, and the caller how it went. Not under the
 * lock, and takes it. */
static int end(struct mu_run *run, const struct comm_call *call, int rc,
               const struct comm_result *r, mu_result *result_out)
{
    if (rc == MU_EPEER && run->crew != NULL) {
        crew_failed(run->crew, call->term, r->worker, r->idle_ms);
    }
    if (result_out != NULL) {
        from_comm(rc, r, result_out);
    } else if (r->view != NULL) {
        comm_release(run->data.comm, r->view);
    }
    pthread_mutex_lock(&run->lock);
    return outcome(run, call, rc, r);
}

/* This worker may make calls, and has a data plane for them. Under the lock. */
static int open_plane(struct mu_run *run)
{
    int rc = call_state(run);

    if (rc == MU_OK && run->trains) {
        rc = run_fail(MU_EBUSY, "this worker trains with mu_next(), which has the group: a number "
                                "of every slice can be a metric");
    }
    if (rc == MU_OK) {
        rc = told_warm(run);
    }
    return rc == MU_OK ? data_open(run) : rc;
}

/* There is a group to make this call in, and to agree in: *cc_out is the call. Under the lock. */
static int begin(struct mu_run *run, const mu_call *call, const mu_result *result_out,
                 struct comm_call *cc_out)
{
    uint64_t due_ms;
    int rc = check(call, result_out);

    if (rc == MU_OK) {
        rc = open_plane(run);
    }
    if (rc != MU_OK) {
        return rc;
    }
    due_ms = run_due_ms(call->timeout_ms);
    if (run->data.left_out != 0 || regroup_is_other(run)) {
        return regroup_left_out(run);
    }
    if (run->data.group == 0) {
        rc = regroup(run, due_ms);
    }
    if (rc == MU_OK && (call->flags & MU_AGREE) != 0) {
        rc = regroup_confirm(run, due_ms);
    }
    if (rc == MU_OK) {
        *cc_out = to_comm(call);
        cc_out->term = run->data.group;
    }
    return rc;
}

/* ---- the calls ---- */

int mu_make(mu_run *run, const mu_call *call, mu_result *result_out)
{
    struct comm_result r = {.rank = COMM_NOBODY};
    struct comm_call cc;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = begin(run, call, result_out, &cc);
    if (rc == MU_OK) {
        pthread_mutex_unlock(&run->lock);
        rc = comm_run(run->data.comm, &cc, &r);
        rc = end(run, &cc, rc, &r, result_out);
    }
    return call_exit(run, rc);
}

int mu_start(mu_run *run, const mu_call *call, mu_started **started_out)
{
    struct mu_started *s;
    mu_result anywhere;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    s = malloc(sizeof(*s));
    rc = s != NULL ? MU_OK : run_fail(MU_ENOMEM, "out of memory for a call");
    if (rc == MU_OK) {
        s->run = run;
        rc = begin(run, call, &anywhere, &s->call);
    }
    if (rc == MU_OK) {
        rc = comm_start(run->data.comm, &s->call, &s->comm);
        if (rc != MU_OK) {
            rc = run_fail(rc, "a call can't be started: %s", mu_strerror(rc));
        }
    }
    rc = call_exit(run, rc);
    if (rc == MU_OK) {
        *started_out = s;
    } else {
        free(s);
    }
    return rc;
}

int mu_finish(mu_started *started, int64_t timeout_ms, mu_result *result_out)
{
    struct comm_result r = {.rank = COMM_NOBODY};
    struct mu_run *run;
    int rc;

    if (started == NULL) {
        return run_fail(MU_EINVAL, "there is no call to finish: mu_start() gives one");
    }
    run = started->run;
    rc = call_enter(run);
    if (rc != MU_OK) {
        return rc;
    }
    pthread_mutex_unlock(&run->lock);
    rc = comm_finish(started->comm, timeout_ms, &r);
    if (rc == MU_ETIMEDOUT) {
        pthread_mutex_lock(&run->lock);
        rc = run_fail(MU_ETIMEDOUT, "the call goes on; mu_finish() it later");
    } else {
        rc = end(run, &started->call, rc, &r, result_out);
        free(started);
    }
    return call_exit(run, rc);
}

/* ---- the group ---- */

int mu_regroup(mu_run *run, int64_t timeout_ms)
{
    uint64_t due_ms = run_due_ms(timeout_ms);
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = open_plane(run);
    if (rc == MU_OK) {
        run->data.left_out = 0; /* It has been told, and goes on all the same. */
        rc = regroup(run, due_ms);
    }
    return call_exit(run, rc);
}

int mu_group(mu_run *run, mu_group_info *group_out)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    *group_out = run->data.group != 0 ? run->data.info : (mu_group_info){.rank = -1};
    return call_exit(run, MU_OK);
}

/* Who is in the group but not in the newest generation; 0: nobody. */
static wid gone(const struct mu_run *run)
{
    const struct comm *c = run->data.comm;

    for (uint32_t r = 0; run_newest(run) > comm_generation(c) && r < comm_size(c); r++) {
        if (membership_rank(run->newest, comm_worker(c, r)) == NO_RANK) {
            return comm_worker(c, r);
        }
    }
    return 0;
}

static int check_group(const struct mu_run *run, uint64_t generation)
{
    const int state = call_state(run);
    char who[WID_TEXT_MAX];
    wid worker;

    if (state != MU_OK) {
        return state;
    }
    if (generation == 0 || term_generation(run->data.group) != generation ||
        comm_generation(run->data.comm) != generation) {
        return run_fail(MU_EPEER, "this worker is in the group of generation %" PRIu64 " no more",
                        generation);
    }
    worker = gone(run);
    if (worker != 0) {
        return run_fail(MU_EPEER, "%s of generation %" PRIu64 " is gone", wid_print(worker, who),
                        generation);
    }
    if (comm_is_fenced(run->data.comm)) {
        return run_fail(MU_EPEER, "generation %" PRIu64 " was overtaken by %" PRIu64, generation,
                        run_newest(run));
    }
    return MU_OK;
}

int mu_group_check(mu_run *run, uint64_t generation)
{
    int rc = call_enter(run);

    return rc == MU_OK ? call_exit(run, check_group(run, generation)) : rc;
}

int mu_group_secret(mu_run *run, uint64_t generation, const char *label,
                    uint8_t secret_out[MU_SECRET_BYTES])
{
    size_t label_n = label != NULL ? strnlen(label, COMM_LABEL_MAX + 1) : 0;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    if (label_n == 0 || label_n > COMM_LABEL_MAX) {
        rc = run_fail(MU_EINVAL, "a label has 1 to %d bytes", COMM_LABEL_MAX);
    } else if ((rc = check_group(run, generation)) == MU_OK) {
        rc = comm_secret(run->data.comm, generation, label, secret_out);
    }
    return call_exit(run, rc);
}

/* ---- memory ---- */

void *mu_alloc(mu_run *run, size_t bytes)
{
    void *memory = NULL;

    if (call_enter(run) != MU_OK) {
        return NULL;
    }
    if (data_open(run) == MU_OK) {
        pthread_mutex_unlock(&run->lock);
        memory = comm_alloc(run->data.comm, bytes);
        pthread_mutex_lock(&run->lock);
        if (memory == NULL) {
            (void)run_fail(MU_ENOMEM, "there are no %zu bytes of shared memory left", bytes);
        }
    }
    (void)call_exit(run, MU_OK);
    return memory;
}

/* What the data plane has given goes back to it: a view, or memory. */
static void give_back(struct mu_run *run, const void *view, void *memory)
{
    if ((view != NULL || memory != NULL) && call_enter(run) == MU_OK) {
        mu_assert(run->data.comm != NULL);
        pthread_mutex_unlock(&run->lock);
        comm_release(run->data.comm, view);
        comm_free(run->data.comm, memory);
        pthread_mutex_lock(&run->lock);
        (void)call_exit(run, MU_OK);
    }
}

void mu_free(mu_run *run, void *memory)
{
    give_back(run, NULL, memory);
}

void mu_view_release(mu_run *run, const void *view)
{
    give_back(run, view, NULL);
}
