/* A trainer: its gradients depend on the weights and on the samples, so a step that was lost, made
 * twice or made of other samples shows in all that follow. */
#include "run/sweep.h"

#include "base/hook.h"
#include "core/order.h"
#include "unit/deny.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PART 100 /* of the gradient: it travels while the rest is computed */

struct trainer {
    const struct sweep_case *c;
    uint32_t index;
    struct sweep_shared *shared;
    float weights[SWEEP_WEIGHTS], momentum[SWEEP_WEIGHTS], gradient[SWEEP_WEIGHTS];
};

static _Noreturn void give_up(const char *what, int rc)
{
    fprintf(stderr, "worker: %s: %s: %s\n", what, mu_strerror(rc), mu_error());
    _exit(1);
}

static void check(const char *what, int rc)
{
    if (rc != MU_OK) {
        give_up(what, rc);
    }
}

/* ---- the model ---- */

static void compute(struct trainer *t, const mu_work *work, double *loss)
{
    *loss = 0;
    memset(t->gradient, 0, sizeof(t->gradient));
    for (size_t s = 0; s < work->samples_n; s++) {
        float x = (float)(work->samples[s] % 17) / 17 + (float)(work->seed % 13) / 64;

        for (size_t i = 0; i < SWEEP_WEIGHTS; i++) {
            t->gradient[i] += 0.3f * t->weights[i] - x * (float)(i % 7 + 1) / 9;
        }
        *loss += (double)t->weights[work->samples[s] % SWEEP_WEIGHTS];
    }
    for (size_t i = 0; i < SWEEP_WEIGHTS; i++) {
        t->gradient[i] /= (float)work->samples_n;
    }
    *loss /= (double)work->samples_n;
}

static void update(struct trainer *t, size_t lo, size_t hi, const float *mean)
{
    for (size_t i = lo; i < hi; i++) {
        t->momentum[i] = 0.9f * t->momentum[i] + mean[i - lo];
        t->weights[i] -= 0.05f * t->momentum[i];
    }
}

/* ---- a state by calls, which fail for want of memory ---- */

static int need_memory(void)
{
    void *memory = malloc(1);
    int rc = memory != NULL ? MU_OK : MU_EIO; /* Whatever it is, mu_next() gives it. */

    free(memory);
    return rc;
}

static int save_momentum(void *arg, const void **data_out, size_t *n_out)
{
    struct trainer *t = arg;

    *data_out = t->momentum;
    *n_out = sizeof(t->momentum);
    return need_memory();
}

static int load_momentum(void *arg, const void *data, size_t n)
{
    struct trainer *t = arg;
    int rc = n == sizeof(t->momentum) ? need_memory() : MU_ECORRUPT;

    if (rc == MU_OK) {
        memcpy(t->momentum, data, n);
    }
    return rc;
}

/* ---- when it is to die, or to want for memory ---- */

static void arm(const struct trainer *t)
{
    char order[32];

    if (t->index == t->c->victim && t->c->denied) {
        deny_begin_here((uint32_t)t->c->k);
        deny_pause(); /* … until it calls. */
    } else if (t->index == t->c->victim) {
        snprintf(order, sizeof(order), "kill:%lu", t->c->k);
        hook_arm(t->c->k != 0 ? order : NULL);
    }
}

static void after_step(struct trainer *t, const mu_work *work)
{
    const uint64_t step = work->step;

    if (t->c->story == SWEEP_JOINING && work->world < SWEEP_MAX) {
        usleep(2000); /* Time for the newcomer: steps take far less. */
    }
    if (step != SWEEP_ARMED || t->c->story == SWEEP_WHOLE || t->index >= SWEEP_FIRST) {
        return;
    }
    while (t->c->story == SWEEP_JOINING && atomic_load(&t->shared->may_go) == 0) {
        usleep(200);
    }
    arm(t);
}

static void environment(const struct trainer *t, const char *agent)
{
    char cookie[32];

    if (agent[0] == '\0') {
        unsetenv("MUSTER_SOCKET");
        unsetenv("MUSTER_AUDIT"); /* That is about the others. */
        return;
    }
    snprintf(cookie, sizeof(cookie), "%016x", t->index + 1);
    setenv("MUSTER_SOCKET", agent, 1);
    setenv("MUSTER_SLOT", "0", 1);
    setenv("MUSTER_COOKIE", cookie, 1);
    setenv("MUSTER_TRANSPORT", t->c->layout == SWEEP_TCP ? "tcp" : "auto", 1);
}

static mu_run *begin(struct trainer *t)
{
    mu_config config;
    mu_run *run = NULL;

    mu_config_init(&config);
    config.slices = SWEEP_SLICES;
    config.steps = SWEEP_STEPS;
    config.digest_every = 2;
    config.address = "127.0.0.1";
    config.ckpt_dir = t->c->dir;
    config.ckpt_steps = t->c->dir != NULL ? 1 : 0;
    check("mu_join", mu_join(&config, &run));
    check("mu_state", mu_state(run, "weights", t->weights, sizeof(t->weights)));
    if (t->c->denied) {
        check("mu_state_calls", mu_state_calls(run, "momentum", save_momentum, load_momentum, t));
        check("mu_gradient", mu_gradient(run, PART, MU_F32));
        check("mu_gradient", mu_gradient(run, SWEEP_WEIGHTS - PART, MU_F32));
    } else {
        check("mu_state", mu_state(run, "momentum", t->momentum, sizeof(t->momentum)));
        check("mu_gradient", mu_gradient(run, SWEEP_WEIGHTS, MU_F32));
    }
    check("mu_metric", mu_metric(run, "loss"));
    check("mu_data", mu_data(run, SWEEP_SAMPLES, SWEEP_BATCH, 0, 7));
    return run;
}

static void finish(struct trainer *t, mu_run *run)
{
    mu_training told;

    check("mu_training_get", mu_training_get(run, &told));
    memcpy(t->shared->worker[t->index].weights, t->weights, sizeof(t->weights));
    memcpy(t->shared->worker[t->index].weights + SWEEP_WEIGHTS, t->momentum, sizeof(t->momentum));
    atomic_store(&t->shared->worker[t->index].steps, told.step);
    atomic_store(&t->shared->worker[t->index].slices, told.slices);
    atomic_store(&t->shared->worker[t->index].slices_again, told.slices_again);
    check("mu_leave", mu_leave(run));
    atomic_store(&t->shared->worker[t->index].points, t->c->denied ? deny_taken() : hook_count());
    atomic_store(&t->shared->worker[t->index].done, 1);
}

#ifdef SWEEP_BROKEN
/* The rule that the samples of a slice depend on nothing but the step and the slice is broken, as
 * by samplers that deal out anew what is left when the number of workers changes. By --wrap. */
struct order_span __real_order_slice(const struct order_walk *walk, uint64_t t, uint32_t slice);
struct order_span __wrap_order_slice(const struct order_walk *walk, uint64_t t, uint32_t slice);
static int world_seen;

struct order_span __wrap_order_slice(const struct order_walk *walk, uint64_t t, uint32_t slice)
{
    struct order_span span = __real_order_slice(walk, t, slice);

    if (world_seen != 0 && world_seen < SWEEP_FIRST && span.first + span.n < walk->samples_n) {
        span.first++;
    }
    return span;
}
#define SEE(world) (world_seen = (world))
#else
#define SEE(world) ((void)(world))
#endif

/* Whatever it lacked memory for it does the next time. */
static int next(struct trainer *t, mu_run *run, mu_work *work)
{
    const uint32_t most = t->c->denied && t->c->k != 0 && t->index == t->c->victim ? 1 : 0;
    uint32_t n = 0;
    int rc;

    for (;;) {
        deny_resume();
        rc = mu_next(run, work);
        deny_pause();
        if ((rc != MU_ENOMEM && rc != MU_EIO) || n++ == most) {
            return rc;
        }
        fprintf(stderr, "worker: mu_next, which is called again: %s\n", mu_error());
        atomic_fetch_add(&t->shared->worker[t->index].failed_n, 1);
    }
}

static void on_slice(struct trainer *t, mu_run *run, const mu_work *work)
{
    double loss;

    compute(t, work, &loss);
    if (!t->c->denied) {
        check("mu_put", mu_put(run, t->gradient, &loss));
        return;
    }
    memcpy(work->outs[0], t->gradient, PART * sizeof(float));
    deny_resume();
    check("mu_part", mu_part(run, 0));
    deny_pause();
    memcpy(work->outs[1], t->gradient + PART, (SWEEP_WEIGHTS - PART) * sizeof(float));
    check("mu_put", mu_put(run, work->out, &loss));
}

static void on_step(struct trainer *t, const mu_work *work)
{
    const size_t end = t->c->denied ? PART : SWEEP_WEIGHTS;

    update(t, 0, end, work->gradients[0]);
    if (t->c->denied) {
        update(t, end, SWEEP_WEIGHTS, work->gradients[1]);
    }
    after_step(t, work);
}

_Noreturn void sweep_worker(const struct sweep_case *c, uint32_t index, const char *agent,
                            struct sweep_shared *shared)
{
    struct trainer *t = calloc(1, sizeof(*t));
    mu_work work;
    mu_run *run;
    int rc;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (t == NULL) {
        _exit(1);
    }
    *t = (struct trainer){.c = c, .index = index, .shared = shared};
    for (size_t i = 0; i < SWEEP_WEIGHTS; i++) {
        t->weights[i] =
            index >= SWEEP_FIRST ? 1e6f : (float)(i % 11) / 11; /* A newcomer's own is of no use. */
    }
    environment(t, agent);
    hook_arm(NULL);
    if (c->story == SWEEP_WHOLE || index >= SWEEP_FIRST) {
        arm(t);
    }
    run = begin(t);
    while ((rc = next(t, run, &work)) == MU_OK) {
        SEE(agent[0] != '\0' ? work.world : 0);
        if (work.step <= c->from) {
            fprintf(stderr, "worker: step %d was saved\n", (int)work.step);
            _exit(1);
        }
        if (work.kind == MU_SLICE) {
            on_slice(t, run, &work);
        } else {
            on_step(t, &work);
        }
    }
    if (rc == MU_EDONE) {
        finish(t, run);
    } else if (rc == MU_ELEFT && index >= SWEEP_FIRST) {
        check("mu_leave", mu_leave(run)); /* The newcomer came too late: all is done. */
    } else {
        give_up("mu_next", rc);
    }
    free(t);
    _exit(0);
}
