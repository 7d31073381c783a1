/* Slices: which samples they have, who computes them, and what becomes of what was computed. */
#include "base/hook.h"
#include "train/train.h"

#include <stdlib.h>

/* The elements of the next round, of a run that shards: a worker without a slice can take none. */
static uint64_t shard_n(const struct train *t)
{
    const uint64_t takers = MIN(step_size(&t->crew.step), t->crew.run->config.slices);

    return MIN(takers, t->what.shard.elements_n - t->what.shard.offset);
}

uint64_t train_step_samples(const struct train *t, uint64_t step)
{
    return t->what.sharded ? shard_n(t) : order_batch(&t->what.walk, step - 1).n;
}

/* Of a run that shards, each rank's first slice has its element, the others are empty. */
static size_t find_element(const struct train *t, uint32_t slice, uint64_t *element_out)
{
    const uint32_t me = step_rank(&t->crew.step);
    const struct plan_share share = plan_share(step_plan(&t->crew.step), me);

    *element_out = t->what.shard.offset + me;
    return share.n > 0 && share.first == slice && me < shard_n(t);
}

struct order_span train_span(const struct train *t, uint64_t step, uint32_t slice,
                             uint64_t *samples, size_t room)
{
    const struct order_span span = order_slice(&t->what.walk, step - 1, slice);
    struct order order;

    mu_assert(order_init(&order, t->what.seed, span.epoch, t->what.walk.samples_n) == MU_OK);
    for (uint64_t i = 0; i < MIN(span.n, room); i++) {
        samples[i] = order_sample(&order, span.first + i);
    }
    return span;
}

int train_samples(struct train *t, uint64_t step, uint32_t slice)
{
    const size_t n = t->what.sharded ? 1 : order_slice(&t->what.walk, step - 1, slice).n;

    if (n > t->lent.samples_cap) {
        uint64_t *more = realloc(t->lent.samples, n * sizeof(*more));

        if (more == NULL) {
            return run_fail(MU_ENOMEM, "out of memory for the %zu samples of a slice", n);
        }
        t->lent.samples = more;
        t->lent.samples_cap = n;
    }
    if (t->what.sharded) {
        t->lent.samples_n = find_element(t, slice, t->lent.samples);
        t->lent.position = t->lent.samples[0];
    } else {
        t->lent.samples_n = n;
        t->lent.position = train_span(t, step, slice, t->lent.samples, n).first;
    }
    return MU_OK;
}

uint64_t train_epoch(const struct train *t, uint64_t step)
{
    return t->what.sharded ? 0 : (step - 1) / order_steps_per_epoch(&t->what.walk);
}

/* The leaf's bytes, for another one who computes it, too. */
static void check_leaf(struct train *t)
{
    uint8_t hash[HASH_BYTES];

    blocks_hash(&t->blocks, t->lent.buffer, hash);
    crew_event(&t->crew, (struct step_event){.kind = STEP_ON_CHECKED,
                                             .step = t->lent.todo.step,
                                             .slice = t->lent.todo.slice,
                                             .u.hash = hash});
}

static bool counts(struct train *t)
{
    const struct step_todo *todo = &t->lent.todo;
    struct crew *c = &t->crew;

    HOOK();
    return !todo->alone && step_computed(&c->step, todo->step, todo->slice,
                                         term_generation(todo->term), clock_boot_ms(), &c->fx);
}

void train_put(struct train *t, const double *metrics)
{
    const bool begun = t->flights.begun;
    uint8_t *buffer = t->lent.buffer;

    t->flights.ready = 0;
    t->flights.begun = false;
    if (!begun) {
        blocks_leaf(&t->blocks, t->lent.samples_n, buffer);
    }
    blocks_metrics(&t->blocks, t->lent.samples_n, buffer, metrics);
    if (t->lent.todo.hash) {
        check_leaf(t);
    }
    if (!counts(t) && !begun) {
        blocks_drop(&t->blocks, buffer);
    } else {
        if (!begun) {
            blocks_put_begin(&t->blocks, t->lent.todo.slice, buffer);
        }
        blocks_put_end(&t->blocks);
    }
    t->lent.buffer = NULL;
}

static mu_work work_of(struct train *t)
{
    const struct step_todo *todo = &t->lent.todo;

    return (mu_work){.kind = MU_SLICE,
                     .step = todo->step,
                     .slice = todo->slice,
                     .samples = t->lent.samples,
                     .samples_n = t->lent.samples_n,
                     .position = t->lent.position,
                     .seed = order_seed(t->what.seed, todo->step - 1, todo->slice),
                     .out = t->lent.buffer,
                     .outs = t->lent.outs,
                     .epoch = train_epoch(t, todo->step),
                     .generation = term_generation(todo->term),
                     .rank = (int)step_rank(&t->crew.step),
                     .world = (int)step_size(&t->crew.step)};
}

int train_give(struct train *t, const struct step_todo *todo, mu_work *work)
{
    int rc = train_samples(t, todo->step, todo->slice);

    if (rc != MU_OK) {
        return rc;
    }
    t->lent.todo = *todo;
    t->lent.buffer = blocks_take(&t->blocks);
    if (t->lent.buffer == NULL) {
        return run_fail(MU_ENOMEM, "out of memory for the gradient of a slice");
    }
    if (t->lent.samples_n == 0) {
        train_put(t, NULL);
        return MU_EAGAIN;
    }
    train_pause_end(t);
    if (t->before_step != todo->step && t->hooks.before_step != NULL) {
        t->hooks.before_step(t->hooks.arg, todo->step);
    }
    t->before_step = todo->step;
    for (uint32_t p = 0; p < t->what.parts_n; p++) {
        t->lent.outs[p] = t->lent.buffer + t->blocks.at[p];
    }
    *work = work_of(t);
    return MU_OK;
}
