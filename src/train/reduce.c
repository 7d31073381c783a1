/* The end of a step: what this worker has is reduced with what the others have, and shown when it
 * is committed. */
#include "train/train.h"

#include <inttypes.h>
#include <string.h>

void train_release(struct train *t)
{
    for (uint32_t p = 0; p < t->what.parts_n; p++) {
        if (t->result.views[p] != NULL) {
            comm_release(t->crew.run->data.comm, t->result.views[p]);
            t->result.views[p] = NULL;
        }
    }
}

/* One call of the reduce: of a part, or (part == parts_n) of the metrics. What it points to stays
 * until the next one of that part. */
static struct comm_call reduce_call(struct train *t, uint32_t part)
{
    const struct plan *plan = step_plan(&t->crew.step);
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
                             .slices_n = plan->slices_n,
                             .owners = plan->owner};

    call.parts = blocks_trees(&t->blocks, plan, step_rank(&t->crew.step), part, &call.parts_n);
    return call;
}

/* ---- parts that begin before the end of the step ----
 *
 * The reduce of a part that is complete begins while the caller computes the others. Nothing is
 * decided between mu_next() and mu_put(): so the last slice of a step that is out will count, its
 * place among the blocks is known, and the plan stays what it is until the calls have been waited
 * for, which is the first thing that the next mu_next() does. */

static bool can_fly(const struct train *t)
{
    const struct step *s = &t->crew.step;

    return step_size(s) > 1 && !t->lent.todo.hash && t->lent.todo.term == step_term(s) &&
           step_is_last(s, t->lent.todo.slice);
}

/* The first part of this step that is complete. */
static void begin(struct train *t)
{
    const struct plan *plan = step_plan(&t->crew.step);

    memcpy(t->flights.owners, plan->owner, plan->slices_n * sizeof(*plan->owner));
    t->result.samples = train_step_samples(t, t->lent.todo.step);
    blocks_leaf(&t->blocks, t->lent.samples_n, t->lent.buffer);
    blocks_put_begin(&t->blocks, t->lent.todo.slice, t->lent.buffer);
    t->flights.begun = true;
}

static int start(struct train *t, uint32_t part)
{
    struct comm_call call;

    blocks_put_part(&t->blocks, part);
    call = reduce_call(t, part);
    call.owners = t->flights.owners;
    return comm_start(t->crew.run->data.comm, &call, &t->flights.started[part]);
}

/* The last part is for the end of the step: until this worker is there nobody can have all of it.
 * One that can't be started now is reduced then, too, and so are those after it. */
void train_part(struct train *t, uint32_t part)
{
    struct flights *f = &t->flights;

    f->ready |= 1u << part;
    if (t->what.parts_n == 1 || (f->ready & 1u) == 0 || !can_fly(t)) {
        return;
    }
    if (!f->begun) {
        begin(t);
    }
    while (f->n + 1 < t->what.parts_n && (f->ready & 1u << f->n) != 0 && start(t, f->n) == MU_OK) {
        f->n++;
    }
}

void train_abandon(struct train *t)
{
    while (t->flights.n > 0) {
        comm_abandon(t->flights.started[--t->flights.n]);
    }
}

/* ---- the end of the step ---- */

/* Parts that are under way are waited for, whatever became of those before them. */
static int reduce_all(struct train *t, struct comm_result *result)
{
    const uint32_t calls_n = t->what.parts_n + (t->crew.run->metrics.named_n > 0 ? 1 : 0);
    const uint32_t flown_n = t->flights.n;
    struct comm_result one;
    int rc = MU_OK;

    t->flights.n = 0;
    for (uint32_t p = 0; p < calls_n && (rc == MU_OK || p < flown_n); p++) {
        struct comm_call call;
        int got;

        if (p < flown_n) {
            got = comm_finish(t->flights.started[p], MU_FOREVER, &one);
        } else {
            call = reduce_call(t, p);
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
    const uint64_t began_us = clock_us();
    const int64_t step_ms = t->crew.run->config.step_ms;
    struct comm_result result = {.rank = COMM_NOBODY};
    uint64_t for_ms;
    int rc;

    train_pause_end(t);
    train_release(t);
    t->result.samples = train_step_samples(t, todo->step);
    /* After the reduce the others can commit even if this worker dies: the audit comes first. */
    audit_slices(t, todo->step);
    rc = reduce_all(t, &result);
    if (rc == MU_OK) {
        t->result.term = todo->term;
        t->result.rank = step_rank(s);
        t->result.world = step_size(s);
        crew_event(&t->crew, (struct step_event){
                                 .kind = STEP_ON_REDUCED, .term = todo->term, .step = todo->step});
        return MU_OK;
    }
    train_release(t);
    for_ms = (clock_us() - began_us) / 1000;
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

    crew_event(&t->crew, (struct step_event){.kind = STEP_ON_SHOWN, .step = todo->step});
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
