/* The end of a step: what this worker has is reduced with what the others have, and shown when it
 * is committed. */
#include "run/train.h"

#include <inttypes.h>

void train_release(struct train *t)
{
    if (t->view != NULL) {
        comm_release(t->run->data.comm, t->view);
        t->view = NULL;
    }
}

static uint32_t find_parts(struct train *t, struct comm_part *parts, bool metrics)
{
    struct subtree tree;
    uint32_t n = 0;

    for (uint32_t from = 0; plan_next_subtree(&t->step.plan, t->step.group.me, from, &tree);
         from = tree.lo + tree.width) {
        const struct block *b = blocks_find(&t->blocks, tree);

        mu_assert(b != NULL);
        parts[n++] =
            (struct comm_part){tree.lo, tree.width, metrics ? (void *)b->metrics : (void *)b->sum};
    }
    return n;
}

static int reduce_one(struct train *t, bool metrics, struct comm_result *result)
{
    struct comm_part parts[SLICES_MAX];
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .out = metrics ? t->means : NULL,
                             .count = metrics ? t->metrics_n : t->gradient_n,
                             .dtype = metrics ? DTYPE_F64 : t->dtype,
                             .reduce = REDUCE_MEAN,
                             .divisor = t->result_samples,
                             .flags = metrics ? 0 : COMM_VIEW,
                             .timeout_ms = t->run->config.step_ms,
                             .slices_n = t->step.config.slices_n,
                             .owners = t->step.plan.owner,
                             .parts = parts};

    call.parts_n = find_parts(t, parts, metrics);
    return comm_run(t->run->data.comm, &call, result);
}

static void audit_parts(struct train *t)
{
    for (uint32_t s = 0; s < t->step.config.slices_n; s++) {
        if (plan_rank(&t->step.plan, s) == t->step.group.me) {
            audit_slice(t, t->reduce_step, s);
        }
    }
}

int train_reduce(struct train *t)
{
    const uint64_t began_us = train_now_us();
    struct comm_result result;
    int rc;

    t->reduce_due = false;
    train_save_keep(t);
    train_pause_end(t);
    train_release(t);
    t->result_samples = train_step_samples(t, t->reduce_step);
    audit_parts(t); /* The others may commit it without another word of this one. */
    rc = reduce_one(t, false, &result);
    if (rc == MU_OK) {
        t->view = result.view;
        rc = t->metrics_n > 0 ? reduce_one(t, true, &result) : MU_OK;
    }
    if (rc == MU_EPEER) {
        train_release(t);
        train_break(t, result.rank != COMM_NOBODY ? result.worker : 0,
                    t->run->config.step_ms >= 0 &&
                        train_now_us() - began_us >= (uint64_t)t->run->config.step_ms * 1000);
        return MU_EAGAIN;
    }
    if (rc != MU_OK) {
        return rc == MU_EDONE ? MU_EAGAIN
                              : run_fail(rc, "step %" PRIu64 ": %s", t->reduce_step, result.error);
    }
    t->result_generation = t->group.number;
    t->result_rank = t->step.group.me;
    t->result_world = t->step.group.n;
    train_save_writers(t);
    train_event(t, (struct step_event){.kind = STEP_ON_REDUCED,
                                       .generation = t->group.number,
                                       .step = t->reduce_step});
    return MU_EAGAIN;
}

int train_show(struct train *t, mu_work *work)
{
    struct mu_run *run = t->run;

    t->apply_due = false;
    t->applying = t->touched = true;
    pthread_mutex_lock(&run->lock);
    t->told.samples += t->result_samples;
    if (t->metrics_n > 0 && t->step.group.me == 0 && !run->alone) {
        told_metrics(run, t->apply_step, t->means);
    }
    pthread_mutex_unlock(&run->lock);
    *work = (mu_work){.kind = MU_STEP,
                      .step = t->apply_step,
                      .epoch = train_epoch(t, t->apply_step),
                      .generation = t->result_generation,
                      .rank = (int)t->result_rank,
                      .world = (int)t->result_world,
                      .gradient = t->view,
                      .metrics = t->means,
                      .step_samples = t->result_samples};
    return MU_OK;
}
