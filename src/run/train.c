/* What a trainer calls. */
#include "run/train.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

struct train *train_get(struct mu_run *run)
{
    struct train *t = run->train;

    if (t == NULL) {
        t = calloc(1, sizeof(*t));
        if (t == NULL) {
            run_fail(MU_ENOMEM, "out of memory for training");
            return NULL;
        }
        t->run = run;
        t->fx.emit = train_emit;
        t->audit_fd = -1;
        run->train = t;
    }
    return t;
}

void train_close(struct mu_run *run)
{
    struct train *t = run->train;

    if (t == NULL) {
        return;
    }
    if (t->started) {
        train_abandon(t);
        train_release(t);
        blocks_drop(&t->blocks, t->buffer);
        blocks_close(&t->blocks);
        step_close(&t->step);
    }
    for (int i = 0; i < SAVERS_N; i++) {
        saver_close(&t->savers[i], 0);
    }
    audit_close(t);
    state_close(&t->state);
    for (uint32_t p = 0; p < t->parts_n; p++) {
        free(t->flights.items[p].trees);
    }
    free(t->flights.owners);
    free(t->samples);
    free(t->facts);
    free(t->pending.members);
    free(t->group.members);
    free(t);
    run->train = NULL;
}

uint8_t train_phase(const struct train *t)
{
    if (t->finished) {
        return PHASE_FINISHED;
    }
    if (t->entered != 0) {
        return PHASE_IN;
    }
    return t->warm ? PHASE_WARM : PHASE_WARMING;
}

/* ---- the beginning ---- */

static int open_step(struct train *t, uint64_t steps_n)
{
    const mu_config *config = &t->run->config;
    struct step_config sc = {.self = t->run->life.worker,
                             .slices_n = config->slices,
                             .members_max = MU_REDUCE_MAX,
                             .steps_n = steps_n,
                             .digest_every = config->digest_every,
                             .check_every = config->check_every,
                             .heals = t->heals,
                             .save_every = t->savers[SAVER_DISK].config.every_steps,
                             .keeps_none = t->sharded,
                             .orphan_ms = t->run->alone ? UINT64_MAX : t->run->life.orphan_ms};
    int rc = step_init(&t->step, &sc);

    if (rc == MU_EINVAL) {
        return run_fail(rc, "a step has 1 to %d slices, a power of two, not %" PRIu32, SLICES_MAX,
                        config->slices);
    }
    if (rc == MU_OK) {
        rc = blocks_open(&t->blocks, t->run->data.comm, t->parts, t->parts_n, t->metrics_n,
                         config->slices);
        if (rc != MU_OK) {
            step_close(&t->step);
        }
    }
    return rc == MU_OK ? rc : run_fail(rc, "out of memory for training");
}

/* What --step-timeout says, unless the trainer has its own idea. */
static int find_step_ms(struct mu_run *run)
{
    const char *text = getenv("MUSTER_STEP_TIMEOUT_MS");
    long long ms;
    char *end;

    if (run->config.step_ms >= 0 || text == NULL || text[0] == '\0') {
        return MU_OK;
    }
    ms = strtoll(text, &end, 10);
    if (*end != '\0' || ms < 0) {
        return run_fail(MU_EINVAL, "MUSTER_STEP_TIMEOUT_MS is '%.60s'; it is a number", text);
    }
    run->config.step_ms = ms > 0 ? ms : MU_FOREVER;
    return MU_OK;
}

/* --heal: what is saved is compared, too, and who has stopped waits to go back. */
static bool is_healing(const struct mu_run *run)
{
    const char *text = getenv("MUSTER_HEAL");

    return !run->alone && text != NULL && text[0] != '\0' && strcmp(text, "0") != 0;
}

/* The lock is held. */
static int start(struct train *t, uint64_t steps_n)
{
    char error[COMM_ERROR_MAX];
    int rc;

    if (t->parts_n == 0) {
        return run_fail(MU_EINVAL, "nothing is known of the gradient: call mu_gradient() first");
    }
    rc = data_open(t->run, error);
    if (rc != MU_OK) {
        return run_fail(rc, "%s", error);
    }
    rc = find_step_ms(t->run);
    t->heals = is_healing(t->run);
    if (rc == MU_OK) {
        rc = audit_open(t);
    }
    if (rc == MU_OK) {
        rc = train_save_open(t);
    }
    if (rc == MU_OK) {
        rc = open_step(t, steps_n);
    }
    t->started = rc == MU_OK;
    return rc;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a == 0 ? b : b == 0 ? a : MIN(a, b);
}

int mu_data(mu_run *run, uint64_t samples_n, uint64_t global_batch, uint64_t epochs, uint64_t seed)
{
    struct train *t;
    uint64_t steps_n;
    int rc = train_set_up(run, &t);

    if (rc != MU_OK) {
        return rc;
    }
    t->walk = (struct order_walk){samples_n, global_batch, epochs, run->config.slices};
    t->seed = seed;
    if (order_walk_check(&t->walk) != MU_OK) {
        rc = run_fail(MU_EINVAL,
                      "there must be samples, a batch of at least one, and slices (a power of two "
                      "up to %d): not %" PRIu64 ", %" PRIu64 ", %" PRIu32,
                      SLICES_MAX, samples_n, global_batch, run->config.slices);
    } else {
        steps_n = order_steps(&t->walk);
        rc = start(t, least(steps_n == UINT64_MAX ? 0 : steps_n, run->config.steps));
    }
    call_exit(run);
    return rc;
}

int mu_shard(mu_run *run, uint64_t elements_n)
{
    struct train *t;
    int rc = train_set_up(run, &t);

    if (rc != MU_OK) {
        return rc;
    }
    t->sharded = elements_n > 0;
    t->shard = (struct shard){.elements_n = elements_n};
    rc = t->sharded ? start(t, run->config.steps)
                    : run_fail(MU_EINVAL, "there are no elements to share out");
    t->sharded &= rc == MU_OK;
    call_exit(run);
    return rc;
}

/* ---- the loop ---- */

/* Takes part from now on: this is what a newcomer's warming up ends with. */
static int come_in(struct train *t)
{
    int rc = t->kind_known ? MU_OK : kind_check(t);

    if (rc != MU_OK || t->warm) {
        return rc;
    }
    t->kind_known = true;
    state_warm(&t->state);
    pthread_mutex_lock(&t->run->lock);
    t->warm = true;
    if (!t->run->alone) {
        told_again(t->run);
    }
    pthread_mutex_unlock(&t->run->lock);
    return MU_OK;
}

/* The caller has applied the update of the step that it was shown: the state is that step's. */
static void applied(struct train *t)
{
    t->applying = false;
    train_release(t);
    if (t->step.group.number != t->moved) {
        train_pause_begin(t);
    }
    if (t->hooks.after_step != NULL) {
        t->hooks.after_step(t->hooks.arg, t->apply_step);
    }
    train_save(t, t->apply_step);
    train_event(t, (struct step_event){.kind = STEP_ON_APPLIED, .step = t->apply_step});
}

/* Without the lock. */
static int next(struct train *t, mu_work *work_out)
{
    int rc;

    if (t->out) {
        return run_fail(MU_EINVAL, "slice %" PRIu32 " of step %" PRIu64 " is out: mu_put() first",
                        t->slice, t->todo_step);
    }
    rc = come_in(t);
    if (rc != MU_OK) {
        return rc;
    }
    if (t->applying) {
        applied(t);
    }
    return train_drive(t, work_out);
}

static struct train *started(struct mu_run *run)
{
    if (run->train == NULL || !run->train->started) {
        run_fail(MU_EINVAL, "nothing is known of the data: call mu_data() or mu_shard() first");
        return NULL;
    }
    return run->train;
}

int mu_next(mu_run *run, mu_work *work_out)
{
    struct train *t;
    int rc;

    if (work_out == NULL) {
        return run_fail(MU_EINVAL, "there is nowhere to put the work");
    }
    rc = call_enter(run);
    if (rc != MU_OK) {
        return rc;
    }
    t = started(run);
    if (t == NULL) {
        call_exit(run);
        return MU_EINVAL;
    }
    run->data.away = false;
    pthread_mutex_unlock(&run->lock);
    rc = next(t, work_out);
    pthread_mutex_lock(&run->lock);
    call_exit(run);
    return rc;
}

static int check_put(const struct train *t, const void *gradient, const double *metrics)
{
    if (!t->out) {
        return run_fail(MU_EINVAL, "no slice is out: mu_next() gives one");
    }
    if (gradient == NULL || (metrics == NULL && t->metrics_n > 0)) {
        return run_fail(MU_EINVAL, "a slice has a gradient and %" PRIu32 " metrics", t->metrics_n);
    }
    if (gradient != t->buffer && t->parts_n > 1) {
        return run_fail(MU_EINVAL, "a gradient of %" PRIu32 " parts is what is in work.outs",
                        t->parts_n);
    }
    if (gradient != t->buffer && t->flights.ready != 0) {
        return run_fail(MU_EINVAL, "mu_part() has said that the gradient is in work.out");
    }
    return MU_OK;
}

int mu_put(mu_run *run, const void *gradient, const double *metrics)
{
    struct train *t;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    t = started(run);
    rc = t != NULL ? check_put(t, gradient, metrics) : MU_EINVAL;
    if (rc == MU_OK) {
        t->told.slices++;
        t->told.slices_again += t->group.kind == GENERATION_FAILURE && !t->step.moved;
    }
    pthread_mutex_unlock(&run->lock);
    if (rc == MU_OK) {
        if (gradient != t->buffer) {
            memcpy(t->buffer, gradient, t->parts[0].count * dtype_size(t->parts[0].dtype));
        }
        train_put(t, metrics);
    }
    pthread_mutex_lock(&run->lock);
    call_exit(run);
    return rc;
}

int mu_part(mu_run *run, uint32_t part)
{
    struct train *t;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    t = started(run);
    if (t == NULL || !t->out) {
        rc = t == NULL ? MU_EINVAL : run_fail(MU_EINVAL, "no slice is out: mu_next() gives one");
    } else if (part >= t->parts_n || (t->flights.ready & 1u << part) != 0) {
        rc = run_fail(MU_EINVAL, "part %" PRIu32 " %s", part,
                      part >= t->parts_n ? "is not one of the gradient" : "was given already");
    }
    pthread_mutex_unlock(&run->lock);
    if (rc == MU_OK) {
        train_part(t, part);
    }
    pthread_mutex_lock(&run->lock);
    call_exit(run);
    return rc;
}

/* ---- who wants to know ---- */

int mu_samples(mu_run *run, uint64_t step, uint32_t slice, uint64_t *samples, size_t room,
               size_t *n_out, uint64_t *position_out)
{
    struct order_span span;
    struct order order;
    struct train *t;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    t = started(run);
    if (t == NULL) {
        rc = MU_EINVAL;
    } else if (t->sharded || step == 0 || slice >= t->walk.slices_n ||
               step > order_steps(&t->walk)) {
        rc = run_fail(MU_EINVAL, "there is no slice %" PRIu32 " of a step %" PRIu64, slice, step);
    } else {
        span = order_slice(&t->walk, step - 1, slice);
        mu_assert(order_init(&order, t->seed, span.epoch, t->walk.samples_n) == MU_OK);
        for (uint64_t i = 0; i < MIN(span.n, room); i++) {
            samples[i] = order_sample(&order, span.first + i);
        }
        *n_out = span.n;
        *position_out = span.first;
    }
    call_exit(run);
    return rc;
}

int mu_away(mu_run *run)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    run->data.away = true;
    pthread_cond_broadcast(&run->changed);
    call_exit(run);
    return MU_OK;
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
    call_exit(run);
    return t != NULL ? MU_OK : MU_ENOMEM;
}

int mu_training_get(mu_run *run, mu_training *training_out)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    *training_out = run->train != NULL ? run->train->told : (mu_training){0};
    if (run->train != NULL) {
        training_out->state_sent = run->train->state.sent;
        training_out->state_got = run->train->state.got;
    }
    call_exit(run);
    return MU_OK;
}

int mu_resize(mu_run *run, uint32_t nodes)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%" PRIu32, nodes);

    if (nodes == 0) {
        return run_fail(MU_EINVAL, "a job has at least one node");
    }
    return mu_config_put(run, "size", text, (size_t)n, MU_ANY, RESIZE_MS, NULL);
}
