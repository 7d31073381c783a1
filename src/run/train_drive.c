/* The loop of a worker that trains: it looks at the news, does what is due, and waits, until the
 * caller is needed for something. */
#include "base/hook.h"
#include "base/log.h"
#include "run/train.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AREA "run"
#define FRAME_MAX 4096

enum {
    NEWS_MS = 1000,   /* it looks again after so long, whatever it has heard */
    FINISH_MS = 10000 /* the others have this long to find out that all steps are done */
};

uint64_t train_now_us(void)
{
    struct timespec ts;

    mu_assert(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void train_event(struct train *t, struct step_event e)
{
    HOOK();
    e.now_ms = train_boot_ms();
    step_event(&t->step, &e, &t->fx);
}

/* ---- waiting ---- */

/* For whatever the agent says that train_news() has not seen. */
static void wait_news(struct train *t)
{
    struct mu_run *run = t->run;
    const uint64_t due_ms = run_now_ms() + NEWS_MS;
    bool in_time = true;

    pthread_mutex_lock(&run->lock);
    while (in_time && run->news == t->news && call_state(run) == MU_OK) {
        in_time = call_wait(run, due_ms);
    }
    pthread_mutex_unlock(&run->lock);
}

/* Nobody of those it waits for has said anything for too long: the first of them is named. */
static void suspect_silent(struct train *t)
{
    const struct group *g = &t->step.group;

    for (uint32_t r = 0; r < g->n; r++) {
        const struct peer *p = &t->step.peers[r];
        bool silent = t->step.phase == STEP_HELD ? !p->ready || p->ready_step <= t->step.committed
                                                 : t->step.phase == STEP_SETTLING && !p->settled;

        if (r != g->me && silent) {
            train_break(t, g->ids[r], true);
            return;
        }
    }
}

static void take_frame(struct train *t, const uint8_t *frame, size_t n)
{
    struct wire_scratch none = {0};
    struct wire_header h;
    union wire_any msg;
    struct step_event e = {.key = t->group.key};

    if (wire_frame_decode(frame, n, &h, &msg, &none, NULL) != MU_OK ||
        !step_fence(&t->step, h.generation, t->group.key)) {
        return;
    }
    e.generation = h.generation;
    if (h.type == WIRE_READY) {
        e.kind = STEP_ON_READY;
        e.u.ready = &msg.ready;
        train_event(t, e);
    } else if (h.type == WIRE_SETTLE) {
        e.kind = STEP_ON_SETTLE;
        e.u.settle = &msg.settle;
        train_event(t, e);
    }
}

/* For what the others say. */
static int hear(struct train *t)
{
    const int64_t step_ms = t->run->config.step_ms;
    uint8_t frame[FRAME_MAX];
    uint32_t rank;
    size_t n;
    int rc;

    if (t->silent_us == 0 || comm_nudges(t->run->data.comm) != t->nudges) {
        t->silent_us = train_now_us();
        t->nudges = comm_nudges(t->run->data.comm);
    }
    rc = comm_hear(t->run->data.comm, NEWS_MS, frame, sizeof(frame), &n, &rank, NULL);
    if (rc == MU_OK) {
        t->silent_us = 0;
        take_frame(t, frame, n);
    } else if (rc == MU_EPEER) {
        train_break(t, rank < t->step.group.n ? t->step.group.ids[rank] : 0, false);
    } else if (rc == MU_ETIMEDOUT && step_ms >= 0 &&
               train_now_us() - t->silent_us > (uint64_t)step_ms * 1000) {
        suspect_silent(t);
    } else if (rc != MU_ETIMEDOUT && rc != MU_EAGAIN && rc != MU_EDONE) {
        return run_fail(rc, "the data plane failed: %s", mu_strerror(rc));
    }
    return MU_EAGAIN;
}

/* ---- pauses ---- */

void train_pause_begin(struct train *t)
{
    if (t->pause_us == 0 && t->step.entered != 0) {
        t->pause_us = train_now_us();
    }
}

void train_pause_end(struct train *t)
{
    uint64_t us;

    if (t->pause_us == 0) {
        return;
    }
    us = train_now_us() - t->pause_us;
    t->pause_us = 0;
    pthread_mutex_lock(&t->run->lock);
    t->told.pause_us = us;
    t->told.pause_max_us = MAX(t->told.pause_max_us, us);
    t->told.pause_all_us += us;
    pthread_mutex_unlock(&t->run->lock);
    log_info(AREA,
             "generation %" PRIu64 ": rank %" PRIu32 " of %" PRIu32 " goes on with step %" PRIu64
             " after %" PRIu64 ".%03" PRIu64 " ms",
             t->group.number, t->step.group.me, t->step.group.n, t->step.committed + 1, us / 1000,
             us % 1000);
}

/* ---- the state ---- */

/* What this generation starts from is known. MU_EAGAIN: a peer was lost, and it is not. */
static int find_base(struct train *t)
{
    wid lost = 0;
    int rc = train_base(t, &lost);

    if (rc == MU_EPEER) {
        train_break(t, lost, false);
        return MU_EAGAIN;
    }
    return rc;
}

/* Rank 0 of a fresh generation. If others have what it starts from, they give it to this one. */
static int load_base(struct train *t)
{
    int rc = find_base(t);

    if (rc != MU_OK) {
        return rc;
    }
    t->base_due = false;
    if (t->base_holds[0]) {
        train_event(t, (struct step_event){.kind = STEP_ON_LOADED,
                                           .generation = t->group.number,
                                           .step = t->base_step});
    }
    return MU_EAGAIN;
}

/* Everyone who is in this generation takes part: who has the state gives it. */
static int stream(struct train *t)
{
    const struct group *g = &t->step.group;
    const bool loading = t->step.phase == STEP_LOADING;
    struct state_mark mark = {t->step.committed, t->samples_all, t->shard.offset};
    const bool fresh = g->kind == GENERATION_FRESH;
    wid lost = 0;
    int rc = fresh ? find_base(t) : MU_OK;

    if (rc != MU_OK) {
        return rc;
    }
    t->stream_due = false;
    mark.step = fresh ? t->base_step : mark.step;
    if (g->n > 1) {
        rc = state_stream(&t->state, t->run->data.comm, fresh ? t->base_holds : g->caught_up, fresh,
                          &mark, &lost);
    }
    if (rc == MU_EPEER) {
        t->touched |= loading && !fresh;
        train_break(t, lost, false);
        return MU_EAGAIN;
    }
    if (rc != MU_OK || !loading) {
        return rc != MU_OK ? rc : MU_EAGAIN;
    }
    t->samples_all = mark.samples;
    t->shard.offset = mark.offset;
    t->touched |= mark.step != 0;
    log_info(AREA, "generation %" PRIu64 ": this worker has the state of step %" PRIu64,
             t->group.number, mark.step);
    train_event(t, (struct step_event){
                       .kind = STEP_ON_LOADED, .generation = t->group.number, .step = mark.step});
    t->stream_due = false; /* Rank 0 of a fresh generation would give what all have by now. */
    return MU_EAGAIN;
}

static int digest(struct train *t)
{
    uint8_t hash[HASH_BYTES];
    int rc = state_digest(&t->state, hash);

    t->digest_due = false;
    if (rc != MU_OK) {
        return rc;
    }
    pthread_mutex_lock(&t->run->lock);
    memcpy(t->told.digest, hash, sizeof(hash));
    pthread_mutex_unlock(&t->run->lock);
    train_event(
        t, (struct step_event){.kind = STEP_ON_DIGEST, .step = t->digest_step, .u.hash = hash});
    return MU_EAGAIN;
}

/* ---- the end ---- */

static void say_finished(struct train *t)
{
    pthread_mutex_lock(&t->run->lock);
    if (!t->finished) {
        t->finished = true;
        t->finished_ms = run_now_ms();
        if (!t->run->alone) {
            told_again(t->run);
        }
    }
    pthread_mutex_unlock(&t->run->lock);
}

/* All steps are done here. Somebody may have been lost with the last: then those who are left need
 * this worker's word. */
static int finish(struct train *t)
{
    say_finished(t);
    if (t->run->alone || t->step.group.n == 1 || run_now_ms() > t->finished_ms + FINISH_MS) {
        return run_fail(MU_EDONE, "all %" PRIu64 " steps are done", t->step.committed);
    }
    if (t->broken) {
        wait_news(t);
        return MU_EAGAIN;
    }
    return hear(t);
}

static bool is_out(const struct train *t)
{
    return t->step.phase == STEP_OUT || t->step.phase == STEP_PARKED;
}

/* The members differ. The others are to find out, and the job is to end, before this one goes; or,
 * if it can heal, to go back: however long that takes, for the orchestrator may be away. */
static int stop(struct train *t)
{
    const bool waits = t->heals && t->fault == FAULT_STATES;

    if (t->run->alone || (!waits && run_now_ms() > t->diverged_ms + FINISH_MS)) {
        return run_fail(MU_EDIVERGED, "%s", t->why);
    }
    train_event(t, (struct step_event){.kind = STEP_ON_RESEND});
    if (t->broken || is_out(t)) {
        wait_news(t);
        return MU_EAGAIN;
    }
    return hear(t);
}

/* Why nothing more can be done: the run is over, or the agent is gone. */
static int find_end(struct train *t)
{
    struct mu_run *run = t->run;
    int rc;

    pthread_mutex_lock(&run->lock);
    rc = call_state(run);
    if (rc == MU_EDONE && run->ended && run->end.failed) {
        rc = run_fail(MU_EPEER, "the run has failed: %s", run->end.why);
    } else if (rc == MU_EDONE && run->ended && !t->finished) {
        rc = run_fail(MU_ELEFT, "this worker has left after step %" PRIu64 "%s%s",
                      t->step.committed, run->end.why[0] != '\0' ? ": " : "", run->end.why);
    }
    pthread_mutex_unlock(&run->lock);
    return rc != MU_OK && t->diverged ? run_fail(MU_EDIVERGED, "%s", t->why) : rc;
}

/* ---- the loop ---- */

static bool is_streaming(const struct train *t)
{
    return t->stream_due || (t->step.phase == STEP_LOADING && !t->base_due);
}

/* Nobody joins, and nobody was lost: the others are needed when the slices are there, not before.
 * Whoever is slower with its update then holds up nobody. */
static bool can_compute_first(const struct train *t)
{
    return t->moved != t->group.number && t->group.kind == GENERATION_BOUNDARY &&
           !t->step.group.newcomers && t->step.phase == STEP_COMPUTING && train_has_slices(t);
}

/* One thing that is due. MU_OK: the caller is needed; MU_EAGAIN: go on. */
static int turn(struct train *t, mu_work *work)
{
    int rc;

    if (t->apply_due) {
        return train_show(t, work);
    }
    if (t->diverged) {
        return stop(t);
    }
    if (is_out(t)) {
        wait_news(t);
        return MU_EAGAIN;
    }
    rc = train_follow(t);
    if (rc == MU_OK && can_compute_first(t)) {
        return t->digest_due ? digest(t) : train_give(t, work);
    }
    if (rc == MU_OK) {
        rc = train_move(t);
    }
    if (rc != MU_OK) {
        return rc == MU_EDONE ? MU_EAGAIN : rc;
    }
    if (t->step.phase == STEP_FINISHED && !t->settle_due && !t->stream_due) {
        return finish(t);
    }
    if (t->broken) {
        wait_news(t);
        return MU_EAGAIN;
    }
    if (t->settle_due) {
        train_say_settle(t);
        return MU_EAGAIN;
    }
    if (t->base_due) {
        return load_base(t);
    }
    if (is_streaming(t)) {
        return stream(t);
    }
    if (t->digest_due) {
        return digest(t);
    }
    if (train_has_slices(t)) {
        return train_give(t, work);
    }
    return t->reduce_due ? train_reduce(t) : hear(t);
}

/* Parts of the step are under way: before anything else happens they are waited for. */
static int land(struct train *t)
{
    if (t->flights.n > 0 && t->reduce_due) {
        return train_reduce(t);
    }
    train_abandon(t);
    return MU_EAGAIN;
}

int train_drive(struct train *t, mu_work *work_out)
{
    int landed = t->flights.n > 0 ? land(t) : MU_EAGAIN;

    if (landed != MU_EAGAIN) {
        return landed;
    }
    for (;;) {
        int rc = find_end(t);

        if (rc == MU_OK) {
            rc = train_news(t);
            if (rc == MU_EAGAIN && !t->forget_due) {
                wait_news(t);
            }
        } else {
            return rc;
        }
        if (rc == MU_OK) {
            rc = turn(t, work_out);
        }
        if (rc != MU_EAGAIN) {
            return rc;
        }
    }
}

void train_linger(struct train *t)
{
    const uint64_t due_ms = run_now_ms() + FINISH_MS / 2;

    say_finished(t);
    while (!t->run->alone && t->step.group.n > 1 && run_now_ms() < due_ms && !is_out(t) &&
           find_end(t) == MU_OK) {
        if (train_news(t) == MU_OK && train_follow(t) == MU_OK && train_move(t) == MU_OK &&
            !t->broken) {
            if (t->settle_due) {
                train_say_settle(t);
            }
            (void)hear(t);
        } else {
            wait_news(t);
        }
    }
}
