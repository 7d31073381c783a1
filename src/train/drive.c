/* The loop of a worker that trains: it does what core/step says is next, until the caller is needed
 * for something. */
#include "base/log.h"
#include "train/train.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AREA "run"

enum {
    FINISH_MS = 10000, /* the others have this long to find out how it ended here */
    NAMING_MS = 1500   /* and this long to come and say which states differ */
};

int train_gather(struct train *t, const void *mine, size_t bytes, void *all, int64_t timeout_ms)
{
    const struct comm_call call = {.op = COMM_ALLGATHER,
                                   .in = mine,
                                   .out = all,
                                   .count = bytes,
                                   .dtype = DTYPE_U8,
                                   .timeout_ms = timeout_ms};
    struct comm_result result;
    int rc = comm_run(t->crew.run->data.comm, &call, &result);

    if (rc == MU_EPEER) {
        crew_failed(&t->crew, step_term(&t->crew.step), result.worker, 0);
    }
    return rc == MU_OK
               ? rc
               : run_fail(rc, "the members can't tell each other what they have: %s", result.error);
}

/* ---- pauses ---- */

/* Nothing gets on, until train_pause_end(). */
static void begin_pause(struct train *t)
{
    if (t->pause_us == 0 && step_entered(&t->crew.step) != 0) {
        t->pause_us = clock_us();
    }
}

void train_pause_end(struct train *t)
{
    const struct step *s = &t->crew.step;
    uint64_t us;

    if (t->pause_us == 0) {
        return;
    }
    us = clock_us() - t->pause_us;
    t->pause_us = 0;
    pthread_mutex_lock(&t->crew.run->lock);
    t->told.pause_us = us;
    t->told.pause_max_us = MAX(t->told.pause_max_us, us);
    t->told.pause_all_us += us;
    pthread_mutex_unlock(&t->crew.run->lock);
    log_info(AREA,
             "generation %" PRIu64 ": rank %" PRIu32 " of %" PRIu32 " goes on with step %" PRIu64
             " after %" PRIu64 ".%03" PRIu64 " ms",
             term_generation(step_term(s)), step_rank(s), step_size(s), step_committed(s) + 1,
             us / 1000, us % 1000);
}

/* ---- the state ---- */

int train_break_off(struct train *t, const struct step_todo *todo, int rc, wid lost)
{
    crew_failed(&t->crew, todo->term, lost, 0);
    return rc == MU_EPEER ? MU_OK : rc;
}

/* Everyone who is in this generation takes part: who has the state gives it. */
static int stream(struct train *t, const struct step_todo *todo)
{
    struct step *s = &t->crew.step;
    const uint8_t *holds = step_holders(s);
    const bool loading = holds[step_rank(s)] == 0;
    const bool fresh = step_group(s)->g.kind == GENERATION_FRESH;
    struct state_mark mark = {step_committed(s), t->samples_all, t->what.shard.offset};
    wid lost = 0;
    int rc = state_stream(&t->what.state, t->crew.run->data.comm, holds, fresh, &mark, &lost);

    if (rc != MU_OK) {
        t->touched |= loading && (!fresh || rc != MU_EPEER); /* Load may have taken some of it. */
        return train_break_off(t, todo, rc, lost);
    }
    if (loading) {
        t->samples_all = mark.samples;
        t->what.shard.offset = mark.offset;
        t->touched |= mark.step != 0;
        log_info(AREA, "generation %" PRIu64 ": this worker has the state of step %" PRIu64,
                 term_generation(todo->term), mark.step);
        train_check_end(t, mark.step);
    }
    crew_event(&t->crew, (struct step_event){
                             .kind = STEP_ON_STREAMED, .term = todo->term, .step = mark.step});
    return MU_OK;
}

static int digest(struct train *t, const struct step_todo *todo)
{
    uint8_t hash[HASH_BYTES];
    int rc = state_digest(&t->what.state, hash);

    if (rc != MU_OK) {
        return rc;
    }
    pthread_mutex_lock(&t->crew.run->lock);
    memcpy(t->told.digest, hash, sizeof(hash));
    pthread_mutex_unlock(&t->crew.run->lock);
    crew_event(&t->crew,
               (struct step_event){.kind = STEP_ON_DIGEST, .step = todo->step, .u.hash = hash});
    return MU_OK;
}

/* ---- the end ---- */

static void say_finished(struct train *t)
{
    pthread_mutex_lock(&t->crew.run->lock);
    if (t->finished_ms == 0) {
        t->finished_ms = clock_ms();
        told_again(t->crew.run);
    }
    pthread_mutex_unlock(&t->crew.run->lock);
}

/* How it ends: well, if what all the work was for is saved. */
static int tell_done(const struct train *t)
{
    const uint64_t step = step_committed(&t->crew.step);

    return t->crew.run->now.fault != FAULT_UNSAVED
               ? run_fail(MU_EDONE, "all %" PRIu64 " steps are done", step)
               : run_fail(MU_EIO,
                          "all %" PRIu64 " steps are done, but the state after the last one could "
                          "not be saved (the log says why)",
                          step);
}

/* All steps are done, and the states are the same. Somebody may have been lost with the last step:
 * then those who are left need this worker's word. */
static int finish(struct train *t, const struct step_todo *todo)
{
    say_finished(t);
    if (t->crew.run->alone || step_size(&t->crew.step) == 1 ||
        clock_ms() > t->finished_ms + FINISH_MS) {
        return tell_done(t);
    }
    return crew_hear(&t->crew, todo);
}

/* The members differ. The others are to find out, and the job is to end, before this one goes; or,
 * if it can heal, to go back: however long that takes, for the orchestrator may be away. */
static bool is_stopped(const struct train *t)
{
    const bool waits = t->heals && t->crew.run->now.fault == FAULT_STATES;

    return step_diverged(&t->crew.step) &&
           (t->crew.run->alone || (!waits && clock_ms() > t->fault.ms + FINISH_MS));
}

static bool is_to_name(const struct train *t)
{
    return t->crew.run->now.fault == FAULT_STATES && t->what.state.n > 0 && !t->fault.named;
}

/* The job ends as soon as one has told of it: not before they know which states differ. */
static void tell_fault(struct train *t)
{
    struct mu_run *run = t->crew.run;

    if (!step_diverged(&t->crew.step) || t->fault.told ||
        (is_to_name(t) && clock_ms() < t->fault.ms + NAMING_MS)) {
        return;
    }
    pthread_mutex_lock(&run->lock);
    t->fault.told = true;
    told_again(run);
    pthread_mutex_unlock(&run->lock);
}

/* Which states differ is found out once, with all who have stopped. */
static int stop(struct train *t, const struct step_todo *todo)
{
    if (is_to_name(t)) {
        const int rc = train_name_states(t);

        t->fault.named = rc != MU_EPEER;
        if (!t->fault.named) {
            (void)train_break_off(t, todo, rc, 0);
        }
        return MU_OK;
    }
    tell_fault(t);
    return crew_hear(&t->crew, todo);
}

/* Why nothing more can be done: the run is over, or the agent is gone. */
static int find_end(struct train *t)
{
    struct mu_run *run = t->crew.run;
    int rc;

    tell_fault(t);
    pthread_mutex_lock(&run->lock);
    rc = call_state(run);
    if (rc == MU_EDONE && run->ended && run->end.failed) {
        rc = run_fail(MU_EPEER, "the run has failed: %s", run->end.why);
    } else if (rc == MU_EDONE && run->ended && t->finished_ms == 0 &&
               !train_is_last(t, step_committed(&t->crew.step))) {
        rc = run_fail(MU_ELEFT, "this worker has left after step %" PRIu64 "%s%s",
                      step_committed(&t->crew.step), run->end.why[0] != '\0' ? ": " : "",
                      run->end.why);
    }
    pthread_mutex_unlock(&run->lock);
    if (is_stopped(t) || (rc != MU_OK && step_diverged(&t->crew.step))) {
        return run_fail(MU_EDIVERGED, "%s", t->fault.why);
    }
    return rc;
}

/* ---- the loop ---- */

/* MU_OK: the caller is needed; MU_EAGAIN: go on. */
static int turn(struct train *t, const struct step_todo *todo, mu_work *work)
{
    int rc = MU_OK;

    switch (todo->what) {
    case STEP_SHOW:
        return train_show(t, todo, work);
    case STEP_GIVE:
        return train_give(t, todo, work);
    case STEP_REDUCE:
        rc = train_reduce(t, todo);
        break;
    case STEP_DIGEST:
        rc = digest(t, todo);
        break;
    case STEP_SAVE:
        train_save(t, todo);
        break;
    case STEP_MOVE:
        begin_pause(t);
        rc = crew_do(&t->crew, todo);
        break;
    case STEP_BASE:
        rc = train_base(t, todo);
        break;
    case STEP_STREAM:
        rc = stream(t, todo);
        break;
    case STEP_FINISH:
        rc = finish(t, todo);
        break;
    case STEP_STOP:
        rc = stop(t, todo);
        break;
    case STEP_HEAR:
    case STEP_FORGET:
    case STEP_WAIT:
    case STEP_OPEN:
        rc = crew_do(&t->crew, todo);
        break;
    }
    return rc == MU_OK ? MU_EAGAIN : rc;
}

/* Parts of the step are under way: before anything else happens they are waited for. */
static int land(struct train *t)
{
    struct step_todo todo;

    crew_next(&t->crew, &todo);
    if (todo.what == STEP_REDUCE) {
        return train_reduce(t, &todo);
    }
    train_abandon(t);
    return MU_OK;
}

/* What is next. MU_EAGAIN: it has waited, look again. */
static int look(struct train *t, struct step_todo *todo_out)
{
    const struct step *s = &t->crew.step;
    int rc = find_end(t);

    if (rc != MU_OK) {
        return rc;
    }
    if (crew_news(&t->crew) != MU_OK) {
        crew_wait(&t->crew, UINT64_MAX);
        return MU_EAGAIN;
    }
    /* What is saved gets on between two slices, too, not only when the others are heard. */
    train_save_news(t);
    if (step_there(s) && step_awaits_words(s)) {
        crew_listen(&t->crew);
    }
    crew_next(&t->crew, todo_out);
    return MU_OK;
}

int train_drive(struct train *t, mu_work *work_out)
{
    int rc = t->flights.n > 0 ? land(t) : MU_OK;
    struct step_todo todo;

    if (rc != MU_OK) {
        return rc;
    }
    do {
        rc = look(t, &todo);
        if (rc == MU_OK) {
            rc = turn(t, &todo, work_out);
        }
    } while (rc == MU_EAGAIN);
    return rc;
}

/* Others may need what this worker knows, until they do not: it goes on with them, but computes
 * nothing any more. */
void train_linger(struct train *t)
{
    const uint64_t due_ms = clock_ms() + FINISH_MS / 2;
    struct step_todo todo;
    int rc = MU_EAGAIN;

    if (train_is_last(t, step_committed(&t->crew.step))) {
        say_finished(t);
    }
    while ((rc == MU_OK || rc == MU_EAGAIN) && !t->crew.run->alone &&
           step_size(&t->crew.step) > 1 && clock_ms() < due_ms) {
        rc = look(t, &todo);
        if (rc != MU_OK) {
            continue;
        }
        if (todo.what == STEP_MOVE) {
            (void)crew_do(&t->crew, &todo);
        } else if (todo.what == STEP_HEAR || todo.what == STEP_FINISH || todo.what == STEP_STOP) {
            (void)crew_hear(&t->crew, &todo);
        } else if (todo.what == STEP_WAIT || todo.what == STEP_FORGET) {
            return;
        } else {
            crew_wait(&t->crew, clock_boot_ms() + FINISH_MS);
        }
    }
}
