/* The end of a step: what this worker has is reduced with what the others have, and shown when it
 * is committed. */
#include "run/train.h"

#include <inttypes.h>

void train_release(struct train *t)
{
    for (uint32_t p = 0; p < t->parts_n; p++) {
        if (t->views[p] != NULL) {
            comm_release(t->run->data.comm, t->views[p]);
            t->views[p] = NULL;
        }
    }
}

static uint32_t find_trees(struct train *t, uint32_t part, struct comm_part *trees)
{
    struct subtree tree;
    uint32_t n = 0;

    for (uint32_t from = 0; plan_next_subtree(&t->step.plan, t->step.group.me, from, &tree);
         from = tree.lo + tree.width) {
        const struct block *b = blocks_find(&t->blocks, tree);

        mu_assert(b != NULL);
        trees[n++] = (struct comm_part){
            tree.lo, tree.width, part < t->parts_n ? blocks_part(&t->blocks, b, part) : b->metrics};
    }
    return n;
}

struct comm_call train_reduce_call(struct train *t, uint32_t part, struct comm_part *trees)
{
    const bool metrics = part == t->parts_n;
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .out = metrics ? t->means : NULL,
                             .count = metrics ? t->metrics_n : t->parts[part].count,
                             .dtype = metrics ? DTYPE_F64 : t->parts[part].dtype,
                             .reduce = REDUCE_MEAN,
                             .divisor = t->result_samples,
                             .flags = metrics ? 0 : COMM_VIEW,
                             .lane = part,
                             .timeout_ms = t->run->config.step_ms,
                             .slices_n = t->step.config.slices_n,
                             .owners = t->step.plan.owner,
                             .parts = trees};

    call.parts_n = find_trees(t, part, trees);
    return call;
}

static void audit_parts(struct train *t)
{
    for (uint32_t s = 0; s < t->step.config.slices_n; s++) {
        if (plan_rank(&t->step.plan, s) == t->step.group.me) {
            audit_slice(t, t->reduce_step, s);
        }
    }
}

/* Parts that are under way are waited for, whatever became of those before them. */
static int reduce_all(struct train *t, struct comm_result *result)
{
    struct comm_part trees[SLICES_MAX];
    struct comm_result one;
    const uint32_t calls_n = t->parts_n + (t->metrics_n > 0 ? 1 : 0);
    const uint32_t flown_n = t->flights.n;
    int rc = MU_OK;

    for (uint32_t p = 0; p < calls_n && (rc == MU_OK || p < flown_n); p++) {
        struct comm_call call;
        int got;

        if (p < flown_n) {
            got = train_land(t, p, &one);
        } else {
            call = train_reduce_call(t, p, trees);
            got = comm_run(t->run->data.comm, &call, &one);
        }
        if (got == MU_OK && p < t->parts_n) {
            t->views[p] = one.view;
        }
        if (rc == MU_OK) {
            rc = got;
            *result = one;
        }
    }
    return rc;
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
    rc = reduce_all(t, &result);
    if (rc != MU_OK) {
        train_release(t);
    }
    if (rc == MU_EPEER) {
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
                      .gradient = t->views[0],
                      .gradients = t->views,
                      .metrics = t->means,
                      .step_samples = t->result_samples};
    return MU_OK;
}
