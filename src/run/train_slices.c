/* Slices: which samples they have, who computes them, and what becomes of what was computed. */
#include "run/train.h"

#include <stdlib.h>

/* The elements of the next round, of a run that shards: a worker without a slice can take none. */
static uint64_t shard_n(const struct train *t)
{
    const uint64_t takers = MIN(t->step.group.n, t->step.config.slices_n);

    return MIN(takers, t->shard.elements_n - t->shard.offset);
}

uint64_t train_step_samples(const struct train *t, uint64_t step)
{
    return t->sharded ? shard_n(t) : order_batch(&t->walk, step - 1).n;
}

static int samples_room(struct train *t, size_t n)
{
    uint64_t *more;

    if (n <= t->samples_cap) {
        return MU_OK;
    }
    more = realloc(t->samples, n * sizeof(*more));
    if (more == NULL) {
        return run_fail(MU_ENOMEM, "out of memory for the %zu samples of a slice", n);
    }
    t->samples = more;
    t->samples_cap = n;
    return MU_OK;
}

/* Of a run that shards, each rank's first slice has its element, the others are empty. */
static int find_element(struct train *t, uint32_t slice)
{
    struct plan_share share = plan_share(&t->step.plan, t->step.group.me);

    t->samples_n = 0;
    if (share.n == 0 || share.first != slice || t->step.group.me >= shard_n(t)) {
        return MU_OK;
    }
    t->samples[0] = t->shard.offset + t->step.group.me;
    t->samples_n = 1;
    return MU_OK;
}

int train_samples(struct train *t, uint64_t step, uint32_t slice)
{
    struct order_span span;
    int rc;

    if (t->sharded) {
        rc = samples_room(t, 1);
        return rc == MU_OK ? find_element(t, slice) : rc;
    }
    span = order_slice(&t->walk, step - 1, slice);
    rc = samples_room(t, span.n);
    if (rc != MU_OK) {
        return rc;
    }
    if (t->order.n == 0 || t->order_epoch != span.epoch) {
        mu_assert(order_init(&t->order, t->seed, span.epoch, t->walk.samples_n) == MU_OK);
        t->order_epoch = span.epoch;
    }
    for (uint64_t i = 0; i < span.n; i++) {
        t->samples[i] = order_sample(&t->order, span.first + i);
    }
    t->samples_n = span.n;
    return MU_OK;
}

uint64_t train_epoch(const struct train *t, uint64_t step)
{
    return t->sharded ? 0 : (step - 1) / order_steps_per_epoch(&t->walk);
}

/* The leaf's bytes, for another one who computes it, too. */
static void check_leaf(struct train *t)
{
    uint8_t hash[HASH_BYTES];

    if (t->check_due && t->check_slice == t->slice && t->check_step == t->todo_step) {
        t->check_due = false;
        blocks_hash(&t->blocks, t->buffer, hash);
        train_event(t, (struct step_event){.kind = STEP_ON_CHECKED,
                                           .step = t->check_step,
                                           .slice = t->slice,
                                           .u.hash = hash});
    }
}

void train_put(struct train *t, const double *metrics)
{
    const bool begun = t->flights.n > 0; /* Its place among the blocks is known. */

    t->out = false;
    t->flights.ready = 0;
    if (!begun) {
        blocks_leaf(&t->blocks, t->samples_n, t->buffer);
    }
    blocks_metrics(&t->blocks, t->samples_n, t->buffer, metrics);
    check_leaf(t);
    if (t->checking) {
        t->checking = false;
        blocks_drop(&t->blocks, t->buffer);
        t->buffer = NULL;
        return;
    }
    train_event(t, (struct step_event){.kind = STEP_ON_COMPUTED,
                                       .generation = t->todo_generation,
                                       .step = t->todo_step,
                                       .slice = t->slice});
    if (begun) {
        mu_assert(slices_has(&t->step.have, t->slice));
        blocks_put_end(&t->blocks);
    } else if (t->todo_step == t->step.committed + 1 && slices_has(&t->step.have, t->slice)) {
        blocks_put(&t->blocks, t->slice, t->buffer);
    } else { /* It came too late to count. */
        blocks_drop(&t->blocks, t->buffer);
    }
    t->buffer = NULL;
}

int train_give(struct train *t, mu_work *work)
{
    int rc;

    t->slice = slices_next(&t->todo, 0);
    t->checking = t->slice >= t->step.config.slices_n;
    if (t->checking) {
        t->slice = t->check_slice;
    } else {
        slices_remove(&t->todo, t->slice);
    }
    rc = train_samples(t, t->todo_step, t->slice);
    if (rc != MU_OK) {
        return rc;
    }
    t->buffer = blocks_take(&t->blocks);
    if (t->buffer == NULL) {
        return run_fail(MU_ENOMEM, "out of memory for the gradient of a slice");
    }
    if (t->samples_n == 0) {
        train_put(t, NULL);
        return MU_EAGAIN;
    }
    train_pause_end(t);
    if (t->before_step != t->todo_step && t->hooks.before_step != NULL) {
        t->hooks.before_step(t->hooks.arg, t->todo_step);
    }
    t->before_step = t->todo_step;
    t->out = true;
    for (uint32_t p = 0; p < t->parts_n; p++) {
        t->outs[p] = t->buffer + t->blocks.at[p];
    }
    *work =
        (mu_work){.kind = MU_SLICE,
                  .step = t->todo_step,
                  .slice = t->slice,
                  .samples = t->samples,
                  .samples_n = t->samples_n,
                  .position = t->sharded ? t->samples[0]
                                         : order_slice(&t->walk, t->todo_step - 1, t->slice).first,
                  .seed = order_seed(t->seed, t->todo_step - 1, t->slice),
                  .out = t->buffer,
                  .outs = t->outs,
                  .epoch = train_epoch(t, t->todo_step),
                  .generation = t->group.number,
                  .rank = (int)t->step.group.me,
                  .world = (int)t->step.group.n};
    return MU_OK;
}

bool train_has_slices(const struct train *t)
{
    return t->todo_generation == t->step.group.number && t->todo_step == t->step.committed + 1 &&
           (slices_next(&t->todo, 0) < t->step.config.slices_n ||
            (t->check_due && t->check_step == t->todo_step));
}
