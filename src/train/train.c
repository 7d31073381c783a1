/* What a trainer calls. */
#include "train/train.h"

#include "base/env.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_MS ((uint64_t)600000) /* for what is being written when the run ends */

/* ---- what the run asks of it ---- */

static void report(const struct train *t, struct report *r)
{
    r->phase = t->finished_ms != 0 ? PHASE_FINISHED
               : r->entered != 0   ? PHASE_IN
               : t->warm           ? PHASE_WARM
                                   : PHASE_WARMING;
    r->checkpoint = t->told.checkpoint;
    r->unkept = t->unkept;
    if (r->fault == FAULT_STATES && !t->fault.told) {
        r->fault = FAULT_NONE;
        r->odd = 0;
    }
}

static void leave(struct train *t)
{
    /* One that leaves in the middle is needed only if the others have gone on without it. */
    const bool needed =
        t->finished_ms != 0 || train_is_last(t, t->crew.run->now.step) || run_rank(t->crew.run) < 0;
    const bool lingers = needed && t->crew.run->now.entered != 0 && !t->crew.run->given_up;

    if (!t->crew.run->trains) {
        return;
    }
    pthread_mutex_unlock(&t->crew.run->lock);
    if (lingers) {
        train_linger(t);
    }
    train_save_close(t, CLOSE_MS);
    pthread_mutex_lock(&t->crew.run->lock);
}

static void close_train(struct train *t)
{
    train_save_close(t, 0);
    if (t->crew.run->trains) {
        train_abandon(t);
        train_release(t);
        if (!t->flights.begun) {
            blocks_drop(&t->blocks, t->lent.buffer);
        }
        blocks_close(&t->blocks);
        crew_close(&t->crew);
    }
    audit_close(t);
    state_close(&t->what.state);
    free(t->lent.samples);
    free(t->what.facts);
    free(t);
}

static const struct trainer_ops ops = {.report = report, .leave = leave, .close = close_train};

struct train *train_get(struct mu_run *run)
{
    struct train *t = run->train;

    if (t == NULL) {
        t = calloc(1, sizeof(*t));
        if (t == NULL) {
            run_fail(MU_ENOMEM, "out of memory for training");
            return NULL;
        }
        t->crew.run = run;
        t->crew.effect = train_effect;
        t->crew.reset = train_reset;
        t->crew.moved = train_moved;
        run->train = t;
        run->trainer = &ops;
    }
    return t;
}

/* ---- the beginning ---- */

/* Who writes there. */
static enum saves_by saves_by(const struct saver *s)
{
    return !s->open           ? SAVES_NEVER
           : s->config.depot  ? SAVES_ONE
           : s->config.shared ? SAVES_ALL
                              : SAVES_HOST;
}

static int open_step(struct train *t, uint64_t steps_n)
{
    const mu_config *config = &t->crew.run->config;
    const struct step_config sc = {
        .self = t->crew.run->life.worker,
        .slices_n = config->slices,
        .members_max = MU_REDUCE_MAX,
        .steps_n = steps_n,
        .digest_every = config->digest_every,
        .check_every = config->check_every,
        .silence_ms = config->step_ms > 0 ? (uint64_t)config->step_ms : 0,
        .heals = t->heals,
        .save_every = t->savers[SAVE_DISK].config.every.steps,
        .saves = {saves_by(&t->savers[SAVE_DISK]), saves_by(&t->savers[SAVE_MEMORY])},
        .folders = {t->savers[SAVE_DISK].folder, t->savers[SAVE_MEMORY].folder},
        .keeps_none = t->what.sharded,
        .orphan_ms = t->crew.run->alone ? UINT64_MAX : t->crew.run->life.orphan_ms};
    int rc;

    if (t->crew.run->data.moving) {
        return run_fail(MU_EBUSY, "another thread of this worker is in mu_regroup()");
    }
    regroup_close(t->crew.run);
    rc = crew_open(&t->crew, t->crew.run, &sc);
    if (rc == MU_OK) {
        rc = blocks_open(&t->blocks, t->crew.run->data.comm, t->what.parts, t->what.parts_n,
                         t->crew.run->metrics.named_n, config->slices);
        if (rc != MU_OK) {
            crew_close(&t->crew);
        }
    }
    if (rc != MU_OK) {
        t->crew.run->data.group = 0; /* Calls have no crew any more: they begin anew, too. */
    }
    if (rc == MU_EINVAL) {
        return run_fail(rc, "a step has 1 to %d slices, a power of two, not %" PRIu32, SLICES_MAX,
                        config->slices);
    }
    return rc == MU_OK ? rc : run_fail(rc, "out of memory for training");
}

/* What --step-timeout says, unless the trainer has its own idea. */
static int find_step_ms(int64_t *step_ms)
{
    uint64_t ms = 0;
    int rc = *step_ms < 0 ? env_number("MUSTER_STEP_TIMEOUT_MS", 0, INT64_MAX, &ms) : MU_OK;

    *step_ms = ms > 0 ? (int64_t)ms : *step_ms;
    return rc;
}

/* The lock is held. */
static int start(struct train *t, uint64_t steps_n)
{
    int rc;

    if (t->what.parts_n == 0) {
        return run_fail(MU_EINVAL, "nothing is known of the gradient: call mu_gradient() first");
    }
    /* With --heal what is saved is compared, too, and whoever has stopped waits to go back. */
    t->heals = !t->crew.run->alone && env_is_on("MUSTER_HEAL");
    if ((rc = data_open(t->crew.run)) == MU_OK &&
        (rc = find_step_ms(&t->crew.run->config.step_ms)) == MU_OK &&
        (rc = audit_open(t)) == MU_OK && (rc = train_save_open(t)) == MU_OK) {
        rc = open_step(t, steps_n);
    }
    if (rc != MU_OK) { /* It may be asked again. */
        train_save_close(t, 0);
        audit_close(t);
    }
    t->crew.run->trains = rc == MU_OK;
    return rc;
}

int mu_data(mu_run *run, uint64_t samples_n, uint64_t global_batch, uint64_t epochs, uint64_t seed)
{
    struct train *t;
    uint64_t steps_n;
    int rc = train_set_up(run, &t);

    if (rc != MU_OK) {
        return rc;
    }
    t->what.walk = (struct order_walk){samples_n, global_batch, epochs, run->config.slices};
    t->what.seed = seed;
    if (order_walk_check(&t->what.walk) != MU_OK) {
        rc = run_fail(MU_EINVAL,
                      "there must be samples, a batch of at least one, and slices (a power of two "
                      "up to %d): not %" PRIu64 ", %" PRIu64 ", %" PRIu32,
                      SLICES_MAX, samples_n, global_batch, run->config.slices);
    } else {
        steps_n = run->config.steps > 0 ? run->config.steps : UINT64_MAX;
        steps_n = MIN(steps_n, order_steps(&t->what.walk));
        rc = start(t, steps_n == UINT64_MAX ? 0 : steps_n);
    }
    return call_exit(run, rc);
}

int mu_shard(mu_run *run, uint64_t elements_n)
{
    struct train *t;
    int rc = train_set_up(run, &t);

    if (rc != MU_OK) {
        return rc;
    }
    t->what.sharded = elements_n > 0;
    t->what.shard = (struct shard){.elements_n = elements_n};
    rc = t->what.sharded ? start(t, run->config.steps)
                         : run_fail(MU_EINVAL, "there are no elements to share out");
    t->what.sharded &= rc == MU_OK;
    return call_exit(run, rc);
}

/* ---- the loop ---- */

/* Takes part from now on: this is what a newcomer's warming up ends with. */
static int come_in(struct train *t)
{
    int rc = t->warm ? MU_OK : kind_check(t);

    if (rc != MU_OK || t->warm) {
        return rc;
    }
    state_warm(&t->what.state);
    pthread_mutex_lock(&t->crew.run->lock);
    t->warm = true;
    told_again(t->crew.run);
    pthread_mutex_unlock(&t->crew.run->lock);
    return MU_OK;
}

/* The caller has applied the update of the step that it was shown: the state is that step's. */
static void applied(struct train *t)
{
    const uint64_t step = step_committed(&t->crew.step);

    train_release(t);
    if (t->hooks.after_step != NULL) {
        t->hooks.after_step(t->hooks.arg, step);
    }
    train_save_ahead(t);
    crew_event(&t->crew, (struct step_event){.kind = STEP_ON_APPLIED, .step = step});
}

/* Without the lock. */
static int next(struct train *t, mu_work *work_out)
{
    int rc;

    if (t->lent.buffer != NULL) {
        return run_fail(MU_EINVAL, "slice %" PRIu32 " of step %" PRIu64 " is out: mu_put() first",
                        t->lent.todo.slice, t->lent.todo.step);
    }
    rc = come_in(t);
    if (rc != MU_OK &&
        rc != MU_EDONE) { /* The loop knows how it has ended for one who came late. */
        return rc;
    }
    if (step_is_shown(&t->crew.step)) {
        applied(t);
    }
    return train_drive(t, work_out);
}

int train_enter(struct mu_run *run, struct train **t_out)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    *t_out = run->train;
    if (!run->trains) {
        rc = call_exit(
            run, run_fail(MU_EINVAL,
                          "nothing is known of the data: call mu_data() or mu_shard() first"));
    }
    return rc;
}

int mu_next(mu_run *run, mu_work *work_out)
{
    struct train *t;
    int rc;

    if (work_out == NULL) {
        return run_fail(MU_EINVAL, "there is nowhere to put the work");
    }
    rc = train_enter(run, &t);
    if (rc != MU_OK) {
        return rc;
    }
    run->data.away = false;
    pthread_mutex_unlock(&run->lock);
    rc = next(t, work_out);
    pthread_mutex_lock(&run->lock);
    return call_exit(run, rc);
}

static int check_put(const struct train *t, const void *gradient, const double *metrics)
{
    if (t->lent.buffer == NULL) {
        return run_fail(MU_EINVAL, "no slice is out: mu_next() gives one");
    }
    if (gradient == NULL || (metrics == NULL && t->crew.run->metrics.named_n > 0)) {
        return run_fail(MU_EINVAL, "a slice has a gradient and %" PRIu32 " metrics",
                        t->crew.run->metrics.named_n);
    }
    if (gradient != t->lent.buffer && t->what.parts_n > 1) {
        return run_fail(MU_EINVAL, "a gradient of %" PRIu32 " parts is what is in work.outs",
                        t->what.parts_n);
    }
    if (gradient != t->lent.buffer && t->flights.ready != 0) {
        return run_fail(MU_EINVAL, "mu_part() has said that the gradient is in work.out");
    }
    return MU_OK;
}

int mu_put(mu_run *run, const void *gradient, const double *metrics)
{
    struct train *t;
    int rc = train_enter(run, &t);

    if (rc != MU_OK) {
        return rc;
    }
    rc = check_put(t, gradient, metrics);
    if (rc == MU_OK) {
        t->told.slices++;
        t->told.slices_again += step_is_again(&t->crew.step);
        pthread_mutex_unlock(&run->lock);
        if (gradient != t->lent.buffer) {
            memcpy(t->lent.buffer, gradient,
                   t->what.parts[0].count * dtype_size(t->what.parts[0].dtype));
        }
        train_put(t, metrics);
        pthread_mutex_lock(&run->lock);
    }
    return call_exit(run, rc);
}

int mu_part(mu_run *run, uint32_t part)
{
    struct train *t;
    int rc = train_enter(run, &t);

    if (rc != MU_OK) {
        return rc;
    }
    if (t->lent.buffer == NULL) {
        rc = run_fail(MU_EINVAL, "no slice is out: mu_next() gives one");
    } else if (part >= t->what.parts_n || (t->flights.ready & 1u << part) != 0) {
        rc = run_fail(MU_EINVAL, "part %" PRIu32 " %s", part,
                      part >= t->what.parts_n ? "is not one of the gradient" : "was given already");
    } else {
        pthread_mutex_unlock(&run->lock);
        train_part(t, part);
        pthread_mutex_lock(&run->lock);
    }
    return call_exit(run, rc);
}

/* ---- who wants to know ---- */

int mu_samples(mu_run *run, uint64_t step, uint32_t slice, uint64_t *samples, size_t room,
               size_t *n_out, uint64_t *position_out)
{
    struct order_span span;
    struct train *t;
    int rc = train_enter(run, &t);

    if (rc != MU_OK) {
        return rc;
    }
    if (t->what.sharded || step == 0 || slice >= t->what.walk.slices_n ||
        step > order_steps(&t->what.walk)) {
        rc = run_fail(MU_EINVAL, "there is no slice %" PRIu32 " of a step %" PRIu64, slice, step);
    } else {
        span = train_span(t, step, slice, samples, room);
        *n_out = span.n;
        *position_out = span.first;
    }
    return call_exit(run, rc);
}

int mu_away(mu_run *run)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    run->data.away = true;
    pthread_cond_broadcast(&run->changed);
    return call_exit(run, MU_OK);
}

int mu_hooks_set(mu_run *run, const mu_hooks *hooks)
{
    struct train *t;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    t = train_get(run);
    if (t != NULL) {
        t->hooks = hooks != NULL ? *hooks : (mu_hooks){0};
    }
    return call_exit(run, t != NULL ? MU_OK : MU_ENOMEM);
}

int mu_training_get(mu_run *run, mu_training *training_out)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    *training_out = run->train != NULL ? run->train->told : (mu_training){0};
    if (run->train != NULL) {
        training_out->step = run->now.step;
        training_out->state_sent = run->train->what.state.sent;
        training_out->state_got = run->train->what.state.got;
    }
    return call_exit(run, MU_OK);
}
