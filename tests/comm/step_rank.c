/* A rank that trains: core/step decides, the data plane carries. Its gradients depend on the
 * weights, so a step that was lost, made twice or made from other slices would show in all that
 * follow. */
#include "comm/step.h"

#include "base/crc32c.h"
#include "base/hook.h"
#include "comm/drive.h"
#include "comm/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank that has it gives to those who don't. */
struct model {
    uint64_t step;
    float weights[STEP_WEIGHTS];
};

struct trainer {
    struct drive d; /* first */
    struct step_shared *shared;
    struct model model;
    float want[STEP_STEPS + 1][STEP_WEIGHTS]; /* as one process has them */
    float gradients[STEP_SLICES][STEP_WEIGHTS];
    uint64_t gradient_step[STEP_SLICES];
    float sum[STEP_WEIGHTS], result[STEP_WEIGHTS];
    float parts[STEP_SLICES][STEP_WEIGHTS];
    bool ended;
};

/* ---- the model ---- */

static void gradient(const float *weights, uint64_t step, uint32_t slice, float *out)
{
    reference_fill(DTYPE_F32, 1, step * STEP_SLICES + slice, out, STEP_WEIGHTS);
    for (uint32_t i = 0; i < STEP_WEIGHTS; i++) {
        out[i] += 0.25f * weights[i];
    }
}

static void update(float *weights, const float *mean)
{
    for (uint32_t i = 0; i < STEP_WEIGHTS; i++) {
        weights[i] -= 0.125f * mean[i];
    }
}

/* One undisturbed process. */
static void train_alone(struct trainer *t)
{
    static float slices[STEP_SLICES][STEP_WEIGHTS], mean[STEP_WEIGHTS];
    const void *in[STEP_SLICES];

    for (uint64_t step = 1; step <= STEP_STEPS; step++) {
        for (uint32_t s = 0; s < STEP_SLICES; s++) {
            gradient(t->want[step - 1], step, s, slices[s]);
            in[s] = slices[s];
        }
        reference_fold(DTYPE_F32, REDUCE_MEAN, STEP_SLICES, mean, in, STEP_SLICES, 0, STEP_WEIGHTS);
        memcpy(t->want[step], t->want[step - 1], sizeof(mean));
        update(t->want[step], mean);
    }
}

/* ---- effects ---- */

static void on_effect(struct drive *d, const struct step_effect *e)
{
    struct trainer *t = (struct trainer *)d;

    switch (e->kind) {
    case STEP_DROP:
        memset(t->gradient_step, 0, sizeof(t->gradient_step));
        break;
    case STEP_COMMIT:
        t->shared->settled_n += e->settled;
        memcpy(t->result, t->sum, sizeof(t->result));
        break;
    default:
        rank_fail(d->r, "effect %d is not of this test", e->kind);
    }
}

/* ---- what is next ---- */

static void vouch(struct trainer *t, struct step_event e, const float *values)
{
    uint8_t hash[HASH_BYTES] = {1};
    uint32_t crc = crc32c(0, values, STEP_WEIGHTS * sizeof(*values));

    memcpy(hash + 1, &crc, sizeof(crc));
    e.u.hash = hash;
    drive_event(&t->d, e);
}

static void compute(struct trainer *t, const struct step_todo *todo)
{
    const uint32_t s = todo->slice;
    float alone[STEP_WEIGHTS], *to = todo->alone ? alone : t->gradients[s];

    gradient(t->model.weights, todo->step, s, to);
    if (todo->hash) {
        vouch(t, (struct step_event){.kind = STEP_ON_CHECKED, .step = todo->step, .slice = s}, to);
    }
    if (!todo->alone) {
        t->shared->redone_n += t->gradient_step[s] == todo->step;
        t->gradient_step[s] = todo->step;
        (void)step_computed(&t->d.step, todo->step, s, term_generation(todo->term),
                            ranks_now_ns() / 1000000, &t->d.fx);
    }
}

static int call(struct trainer *t, const struct step_todo *todo, const struct comm_call *call)
{
    struct comm_result result;
    int rc = comm_run(t->d.r->comm, call, &result);

    rank_check(t->d.r, rc == MU_OK || rc == MU_EPEER, "step %llu: %s: %s",
               (unsigned long long)todo->step, mu_strerror(rc), result.error);
    if (rc != MU_OK) {
        drive_failed(&t->d, todo->term, result.worker);
    }
    return rc;
}

/* The sum of each of this rank's subtrees. */
static uint32_t fold_own(struct trainer *t, struct comm_part parts[STEP_SLICES])
{
    const struct step *s = &t->d.step;
    struct subtree tree;
    uint32_t n = 0;

    for (uint32_t from = 0; plan_next_subtree(step_plan(s), step_rank(s), from, &tree);
         from = tree.lo + tree.width) {
        const void *in[STEP_SLICES];

        for (uint32_t i = 0; i < tree.width; i++) {
            in[i] = t->gradients[tree.lo + i];
        }
        reduce_fold(NULL, DTYPE_F32, REDUCE_SUM, 1, t->parts[n], NULL, in, NULL, tree.width,
                    STEP_WEIGHTS);
        parts[n] = (struct comm_part){tree.lo, tree.width, t->parts[n]};
        n++;
    }
    return n;
}

static void reduce(struct trainer *t, const struct step_todo *todo)
{
    struct comm_part parts[STEP_SLICES];
    struct comm_call c = {.op = COMM_ALLREDUCE,
                          .out = t->sum,
                          .count = STEP_WEIGHTS,
                          .dtype = DTYPE_F32,
                          .reduce = REDUCE_MEAN,
                          .timeout_ms = -1,
                          .slices_n = STEP_SLICES,
                          .owners = step_plan(&t->d.step)->owner,
                          .parts = parts};

    c.parts_n = fold_own(t, parts);
    if (call(t, todo, &c) == MU_OK) {
        drive_event(&t->d, (struct step_event){
                               .kind = STEP_ON_REDUCED, .term = todo->term, .step = todo->step});
    }
}

/* Rank 0 has a model, which the others are given. */
static void begin(struct trainer *t, const struct step_todo *todo)
{
    const uint8_t holds[RANKS_MAX] = {1};

    drive_event(&t->d,
                (struct step_event){.kind = STEP_ON_BASE, .term = todo->term, .u.holds = holds});
}

static void stream(struct trainer *t, const struct step_todo *todo)
{
    struct model got;
    const uint8_t *holds = step_holders(&t->d.step);
    const bool lacks = holds[step_rank(&t->d.step)] == 0;
    const struct comm_call c = {.op = COMM_SHARE,
                                .in = &t->model,
                                .out = lacks ? &got : NULL,
                                .count = sizeof(got),
                                .dtype = DTYPE_U8,
                                .holds = holds,
                                .timeout_ms = -1};

    t->model.step = step_committed(&t->d.step);
    if (call(t, todo, &c) == MU_OK) {
        t->model = lacks ? got : t->model;
        drive_event(&t->d, (struct step_event){.kind = STEP_ON_STREAMED,
                                               .term = todo->term,
                                               .step = t->model.step});
    }
}

static void apply(struct trainer *t, const struct step_todo *todo)
{
    drive_event(&t->d, (struct step_event){.kind = STEP_ON_SHOWN, .step = todo->step});
    update(t->model.weights, t->result);
    rank_check(t->d.r, memcmp(t->model.weights, t->want[todo->step], sizeof(t->result)) == 0,
               "after step %llu the weights are not what one process has",
               (unsigned long long)todo->step);
#ifdef MUSTER_HOOKS
    const struct step_case *c = t->d.r->arg;
    char order[32];

    if (c->k != 0 && t->d.r->index == c->victim && todo->step == STEP_ARMED) {
        snprintf(order, sizeof(order), "kill:%lu", c->k);
        hook_arm(order);
    }
#endif
    drive_event(&t->d, (struct step_event){.kind = STEP_ON_APPLIED, .step = todo->step});
}

/* The test knows when all have ended: those who are behind may still need this one. */
static void end(struct trainer *t)
{
    struct rank *r = t->d.r;

    if (t->ended) {
        return;
    }
    t->ended = true;
    rank_check(r, step_committed(&t->d.step) == STEP_STEPS, "it finished after step %llu",
               (unsigned long long)step_committed(&t->d.step));
#ifdef MUSTER_HOOKS
    if (((const struct step_case *)r->arg)->victim == r->index) {
        atomic_store(&t->shared->points, hook_count());
    }
#endif
    rank_say(r, STEP_ENDED, step_committed(&t->d.step), 0);
}

static void turn(struct trainer *t)
{
    struct step_todo todo;

    drive_next(&t->d, &todo);
    switch (todo.what) {
    case STEP_SHOW:
        apply(t, &todo);
        break;
    case STEP_GIVE:
        compute(t, &todo);
        break;
    case STEP_DIGEST:
        vouch(t, (struct step_event){.kind = STEP_ON_DIGEST, .step = todo.step}, t->model.weights);
        break;
    case STEP_REDUCE:
        reduce(t, &todo);
        break;
    case STEP_BASE:
        begin(t, &todo);
        break;
    case STEP_STREAM:
        stream(t, &todo);
        break;
    case STEP_FINISH:
        end(t);
        drive_do(&t->d, &todo);
        break;
    default:
        drive_do(&t->d, &todo);
        break;
    }
}

void step_body(struct rank *r)
{
    struct trainer *t = calloc(1, sizeof(*t));
    const struct step_config config = {.self = r->self,
                                       .slices_n = STEP_SLICES,
                                       .members_max = RANKS_MAX,
                                       .steps_n = STEP_STEPS,
                                       .orphan_ms = 10 * RANKS_LIMIT_MS,
                                       .digest_every = 1,
                                       .check_every = 2};

    rank_check(r, t != NULL, "no memory");
    t->shared = (struct step_shared *)(void *)r->shared;
    t->d = (struct drive){
        .r = r, .active = &t->shared->active, .entered_says = STEP_ENTERED, .effect = on_effect};
    drive_open(&t->d, &config);
    train_alone(t);
    while (!rank_has_word(r)) {
        turn(t);
    }
    drive_close(&t->d);
    free(t);
}
