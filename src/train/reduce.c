/* The end of a step: what this worker has is reduced with what the others have, and shown when it
 * is committed. */
#include "train/train.h"

#include <inttypes.h>

void train_release(struct train *t)
{
    for (uint32_t p = 0; p < t->what.parts_n; p++) {
        if (t->result.views[p] != NULL) {
            comm_release(t->crew.run->data.comm, t->result.views[p]);
            t->result.views[p] = NULL;
        }
    }
}

static uint32_t find_trees(struct train *t, uint32_t part, struct comm_part *trees)
{
    struct subtree tree;
    uint32_t n = 0;

    for (uint32_t from = 0;
         plan_next_subtree(step_plan(&t->crew.step), step_rank(&t->crew.step), from, &tree);
         from = tree.lo + tree.width) {
        const struct block *b = blocks_find(&t->blocks, tree);

        mu_assert(b != NULL);
        trees[n++] = (struct comm_part){tree.lo, tree.width,
                                        part < t->what.parts_n ? blocks_part(&t->blocks, b, part)
                                                               : b->metrics};
    }
    return n;
}

struct comm_call train_reduce_call(struct train *t, uint32_t part, struct comm_part *trees)
{
    const bool metrics = part == t->what.parts_n;
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .out = metrics ? t->result.means : NULL,
                             .count =
                                 metrics ? t->crew.run->metrics.named_n : t->what.parts[part].count,
                             .dtype = metrics ? DTYPE_F64 : t->what.parts[part].dtype,
                             .reduce = REDUCE_MEAN,
                             .divisor = t->result.samples,
                             .flags = metrics ? 0 : COMM_VIEW,
                             .lane = part,
                             .timeout_ms = t->crew.run->config.step_ms,
                             .slices_n = step_plan(&t->crew.step)->slices_n,
                             .owners = step_plan(&t->crew.step)->owner,
                             .parts = trees};

    call.parts_n = find_trees(t, part, trees);
    return call;
}

static void audit_parts(struct train *t, uint64_t step)
{
    const struct plan *plan = step_plan(&t->crew.step);

    for (uint32_t s = 0; s < plan->slices_n; s++) {
        if (plan_rank(plan, s) == step_rank(&t->crew.step)) {
            audit_slice(t, step, s);
        }
    }
}

/* Parts that are under way are waited for, whatever became of those before them. */
static int reduce_all(struct train *t, struct comm_result *result)
{
    struct comm_part trees[SLICES_MAX];
    struct comm_result one;
    const uint32_t calls_n = t->what.parts_n + (t->crew.run->metrics.named_n > 0 ? 1 : 0);
    const uint32_t flown_n = t->flights.n;
    int rc = MU_OK;

    for (uint32_t p = 0; p < calls_n && (rc == MU_OK || p < flown_n); p++) {
        struct comm_call call;
        int got;

        if (p < flown_n) {
            got = train_land(t, p, &one);
        } else {
            call = train_reduce_call(t, p, trees);
            got = comm_run(t->crew.run->data.comm, &call, &one);
        }
        if (got == MU_OK && p < t->what.parts_n) {
            t->result.views[p] = one.view;
        }
        if (rc == MU_OK) {
            rc = got;
            *result = one;
        }
    }
    return rc;
}

int train_reduce(struct train *t, const struct step_todo *todo)
{
    const struct step *s = &t->crew.step;
    const uint64_t began_us = train_now_us();
    const int64_t step_ms = t->crew.run->config.step_ms;
    struct comm_result result = {.rank = COMM_NOBODY};
    uint64_t for_ms;
    int rc;

    train_pause_end(t);
    train_release(t);
    t->result.samples = train_step_samples(t, todo->step);
    /* After the reduce the others can commit even if this worker dies: the audit comes first. */
    audit_parts(t, todo->step);
    rc = reduce_all(t, &result);
    if (rc == MU_OK) {
        t->result.term = todo->term;
        t->result.rank = step_rank(s);
        t->result.world = step_size(s);
        train_event(t, (struct step_event){
                           .kind = STEP_ON_REDUCED, .term = todo->term, .step = todo->step});
        return MU_OK;
    }
    train_release(t);
    for_ms = (train_now_us() - began_us) / 1000;
    if (rc != MU_EDONE) { /* Whatever failed here: all settle anew, and it is tried again. */
        crew_failed(&t->crew, todo->term, result.rank != COMM_NOBODY ? result.worker : 0,
                    step_ms >= 0 && for_ms >= (uint64_t)step_ms ? for_ms : 0);
    }
    return rc == MU_EPEER || rc == MU_EDONE
               ? MU_OK
               : run_fail(rc, "step %" PRIu64 ": %s", todo->step, result.error);
}

int train_show(struct train *t, const struct step_todo *todo, mu_work *work)
{
    struct mu_run *run = t->crew.run;

    train_event(t, (struct step_event){.kind = STEP_ON_SHOWN, .step = todo->step});
    t->touched = true;
    pthread_mutex_lock(&run->lock);
    t->told.samples += t->result.samples;
    if (run->metrics.named_n > 0 && t->result.rank == 0 && !run->alone) {
        told_metrics(run, todo->step, t->result.means);
    }
    pthread_mutex_unlock(&run->lock);
    *work = (mu_work){.kind = MU_STEP,
                      .step = todo->step,
                      .epoch = train_epoch(t, todo->step),
                      .generation = term_generation(t->result.term),
                      .rank = (int)t->result.rank,
                      .world = (int)t->result.world,
                      .gradient = t->result.views[0],
                      .gradients = t->result.views,
                      .metrics = t->result.means,
                      .step_samples = t->result.samples};
    return MU_OK;
}
