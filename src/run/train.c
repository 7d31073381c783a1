/* What a trainer calls. */
#include "run/train.h"

#include "base/log.h"
#include "core/text.h"

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
    free(t->samples);
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

/* Takes the lock, and gives what is being set up. NULL: it is too late, or there is no memory. */
static int set_up(struct mu_run *run, struct train **t_out)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = call_state(run);
    if (rc == MU_OK && run->train != NULL && run->train->started) {
        rc = run_fail(MU_EBUSY, "training has been set up: this comes before mu_data()");
    }
    if (rc == MU_OK) {
        *t_out = train_get(run);
        rc = *t_out != NULL ? MU_OK : MU_ENOMEM;
    }
    if (rc != MU_OK) {
        call_exit(run);
    }
    return rc;
}

static int add_state(struct mu_run *run, const char *name, struct state_part *part)
{
    struct train *t;
    int rc;

    if (name == NULL || strnlen(name, STATE_NAME_MAX) == STATE_NAME_MAX) {
        return run_fail(MU_EINVAL, "a part of the state needs a name of up to %d bytes",
                        STATE_NAME_MAX - 1);
    }
    strcpy(part->name, name);
    rc = set_up(run, &t);
    if (rc == MU_OK) {
        rc = state_add(&t->state, part);
        call_exit(run);
    }
    return rc;
}

int mu_state(mu_run *run, const char *name, void *data, size_t bytes)
{
    struct state_part part = {.data = data, .bytes = bytes};

    if (data == NULL) {
        return run_fail(MU_EINVAL, "there is no memory of this state: data is NULL");
    }
    return add_state(run, name, &part);
}

int mu_state_calls(mu_run *run, const char *name, mu_save_fn *save, mu_load_fn *load, void *arg)
{
    struct state_part part = {.save = save, .load = load, .arg = arg};

    if (save == NULL || load == NULL) {
        return run_fail(MU_EINVAL, "a state by calls needs both of them, save and load");
    }
    return add_state(run, name, &part);
}

int mu_gradient(mu_run *run, size_t count, enum mu_dtype dtype)
{
    struct train *t;
    int rc;

    if (count == 0 || (unsigned)dtype > MU_F16) {
        return run_fail(MU_EINVAL, "a gradient has elements, of type f32, f64, bf16 or f16");
    }
    rc = set_up(run, &t);
    if (rc == MU_OK) {
        t->gradient_n = count;
        t->dtype = (enum dtype)dtype;
        call_exit(run);
    }
    return rc;
}

static int add_metric(struct train *t, const char *name)
{
    if (t->metrics_n == MU_METRICS_MAX) {
        return run_fail(MU_ELIMIT, "there are %d metrics already", MU_METRICS_MAX);
    }
    for (uint32_t i = 0; i < t->metrics_n; i++) {
        if (strcmp(t->metrics[i], name) == 0) {
            return run_fail(MU_EEXIST, "there is a metric '%s' already", name);
        }
    }
    strcpy(t->metrics[t->metrics_n++], name);
    return MU_OK;
}

int mu_metric(mu_run *run, const char *name)
{
    struct train *t;
    int rc;

    if (name == NULL || !text_is_name(name, strnlen(name, STATE_NAME_MAX))) {
        return run_fail(MU_EINVAL,
                        "a metric's name is 1 to %d letters, digits, dots, dashes and underscores",
                        STATE_NAME_MAX - 1);
    }
    rc = set_up(run, &t);
    if (rc == MU_OK) {
        rc = add_metric(t, name);
        call_exit(run);
    }
    return rc;
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
        rc = blocks_open(&t->blocks, t->run->data.comm, t->gradient_n, t->dtype, t->metrics_n,
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

    if (t->gradient_n == 0) {
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
    int rc = set_up(run, &t);

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
    int rc = set_up(run, &t);

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
            memcpy(t->buffer, gradient, t->gradient_n * dtype_size(t->dtype));
        }
        train_put(t, metrics);
    }
    pthread_mutex_lock(&run->lock);
    call_exit(run);
    return rc;
}

/* ---- who wants to know ---- */

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
