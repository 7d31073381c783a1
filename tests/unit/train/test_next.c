/* Training with mu_next() in a job of one: the loop, what it asks for, and what it refuses. */
#include "unit/deny.h"
#include "unit/unit.h"

#include "base/prng.h"
#include "comm/reduce.h"
#include "core/order.h"
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WEIGHTS 37
#define SEED 11

static mu_run *run;

static int join(void **state)
{
    (void)state;
    unsetenv("MUSTER_SOCKET");
    assert_int_equal(mu_join(NULL, &run), MU_OK);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    assert_int_equal(mu_leave(run), MU_OK);
    run = NULL;
    return 0;
}

/* ---- a model: what a slice gives depends on the weights and on each sample ---- */

static void gradient_of(const float *weights, const uint64_t *samples, size_t n, float *out)
{
    for (size_t i = 0; i < WEIGHTS; i++) {
        double sum = 0;

        for (size_t k = 0; k < n; k++) {
            sum += (double)((samples[k] * 31 + i * 7) % 101) / 101.0 - 0.4;
        }
        out[i] = (float)(sum / (double)n) + 0.25f * weights[i];
    }
}

static void update(float *weights, const float *mean)
{
    for (size_t i = 0; i < WEIGHTS; i++) {
        weights[i] -= 0.125f * mean[i];
    }
}

/* The same by the definitions alone. */
static void train_plainly(const struct order_walk *walk, uint64_t steps, float *weights)
{
    static float leaves[64][WEIGHTS], mean[WEIGHTS];
    static uint64_t samples[1000];
    const void *in[64];

    for (uint64_t t = 0; t < steps; t++) {
        struct order_span all = order_batch(walk, t);
        struct order order;

        assert_int_equal(order_init(&order, SEED, all.epoch, walk->samples_n), MU_OK);
        for (uint32_t s = 0; s < walk->slices_n; s++) {
            struct order_span span = order_slice(walk, t, s);

            memset(leaves[s], 0, sizeof(leaves[s]));
            for (uint64_t i = 0; i < span.n; i++) {
                samples[i] = order_sample(&order, span.first + i);
            }
            if (span.n > 0) {
                gradient_of(weights, samples, span.n, leaves[s]);
            }
            for (size_t i = 0; i < WEIGHTS; i++) {
                leaves[s][i] *= (float)span.n;
            }
            in[s] = leaves[s];
        }
        reduce_fold(NULL, DTYPE_F32, REDUCE_MEAN, all.n, mean, NULL, in, NULL, walk->slices_n,
                    WEIGHTS);
        update(weights, mean);
    }
}

struct seen {
    uint64_t slices, steps, samples;
    uint32_t *times; /* by sample */
    double metric;
};

static int train(float *weights, struct seen *seen)
{
    float gradient[WEIGHTS];
    mu_work work;
    int rc;

    while ((rc = mu_next(run, &work)) == MU_OK) {
        if (work.kind == MU_SLICE) {
            float *out = work.slice % 2 == 0 ? work.out : gradient; /* either will do */
            double metric = (double)work.samples_n;

            gradient_of(weights, work.samples, work.samples_n, out);
            for (size_t i = 0; i < work.samples_n && seen->times != NULL; i++) {
                seen->times[work.samples[i]]++;
            }
            seen->slices++;
            assert_int_equal(mu_put(run, out, &metric), MU_OK);
        } else {
            assert_int_equal(work.step, seen->steps + 1);
            seen->steps++;
            seen->samples += work.step_samples;
            seen->metric = work.metrics[0];
            update(weights, work.gradient);
        }
    }
    return rc;
}

static void set_up(float *weights)
{
    assert_int_equal(mu_state(run, "weights", weights, WEIGHTS * sizeof(*weights)), MU_OK);
    assert_int_equal(mu_gradient(run, WEIGHTS, MU_F32), MU_OK);
    assert_int_equal(mu_metric(run, "size"), MU_OK);
}

/* ---- what it gives ---- */

static void a_run_gives_what_the_definitions_say(void **state)
{
    const struct order_walk walk = {
        .samples_n = 50, .batch_n = 21, .epochs_n = 3, .slices_n = 8}; /* 21, 21, 8 */
    float weights[WEIGHTS] = {1, 2, 3}, want[WEIGHTS] = {1, 2, 3};
    uint32_t times[50] = {0};
    struct seen seen = {.times = times};
    mu_training told;

    (void)state;
    set_up(weights);
    assert_int_equal(mu_data(run, 50, 21, 3, SEED), MU_OK);
    assert_int_equal(train(weights, &seen), MU_EDONE);
    train_plainly(&walk, 9, want);
    assert_memory_equal(weights, want, sizeof(want));
    assert_int_equal(seen.steps, 9);
    assert_int_equal(seen.samples, 150);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(times[i], 3);
    }
    assert_true(seen.metric == 1.0); /* of the last step: eight slices of one sample each */
    assert_int_equal(mu_training_get(run, &told), MU_OK);
    assert_int_equal(told.step, 9);
    assert_int_equal(told.samples, 150);
    assert_int_equal(told.slices, seen.slices);
    assert_int_equal(told.slices_again, 0);
}

static void empty_slices_are_never_asked_for(void **state)
{
    const struct order_walk walk = {.samples_n = 10, .batch_n = 3, .epochs_n = 2, .slices_n = 8};
    float weights[WEIGHTS] = {1}, want[WEIGHTS] = {1};
    struct seen seen = {0};

    (void)state;
    set_up(weights);
    assert_int_equal(mu_data(run, 10, 3, 2, SEED), MU_OK);
    assert_int_equal(train(weights, &seen), MU_EDONE);
    train_plainly(&walk, 8, want);
    assert_memory_equal(weights, want, sizeof(want));
    assert_int_equal(seen.slices, 20);
    assert_int_equal(seen.samples, 20);
}

static void a_run_may_end_before_its_data(void **state)
{
    float weights[WEIGHTS] = {0};
    struct seen seen = {0};
    mu_config config;

    (void)state;
    assert_int_equal(mu_leave(run), MU_OK);
    mu_config_init(&config);
    config.steps = 4;
    config.slices = 1;
    config.digest_every = 1;
    assert_int_equal(mu_join(&config, &run), MU_OK);
    set_up(weights);
    assert_int_equal(mu_data(run, 10, 3, 0, SEED), MU_OK);
    assert_int_equal(train(weights, &seen), MU_EDONE);
    assert_int_equal(seen.steps, 4);
    assert_int_equal(train(weights, &seen), MU_EDONE); /* … and stays so */
}

static void shards_give_each_element_once_and_in_order(void **state)
{
    float gradient[WEIGHTS] = {0};
    double metric = 0;
    uint64_t next = 0;
    mu_work work;
    int rc;

    (void)state;
    set_up(gradient);
    assert_int_equal(mu_shard(run, 5), MU_OK);
    while ((rc = mu_next(run, &work)) == MU_OK) {
        if (work.kind == MU_SLICE) {
            assert_int_equal(work.samples_n, 1);
            assert_int_equal(work.samples[0], next++);
            assert_int_equal(mu_put(run, gradient, &metric), MU_OK);
        } else {
            assert_int_equal(work.step, next);
        }
    }
    assert_int_equal(rc, MU_EDONE);
    assert_int_equal(next, 5);
}

static void seeds_are_of_the_step_and_the_slice(void **state)
{
    float weights[WEIGHTS] = {0};
    double metric = 0;
    mu_work work;

    (void)state;
    set_up(weights);
    assert_int_equal(mu_data(run, 100, 50, 1, SEED), MU_OK);
    while (mu_next(run, &work) == MU_OK) {
        if (work.kind == MU_SLICE) {
            assert_int_equal(work.seed, order_seed(SEED, work.step - 1, work.slice));
            assert_int_equal(work.rank, 0);
            assert_int_equal(work.world, 1);
            memset(work.out, 0, sizeof(weights));
            assert_int_equal(mu_put(run, work.out, &metric), MU_OK);
        }
    }
}

/* ---- parts ---- */

static void parts_have_their_own_types_and_means(void **state)
{
    double weights[2] = {0}, metric = 0;
    mu_work work;

    (void)state;
    assert_int_equal(mu_state(run, "weights", weights, sizeof(weights)), MU_OK);
    assert_int_equal(mu_slices(run, 4), MU_OK);
    assert_int_equal(mu_gradient(run, 3, MU_F32), MU_OK);
    assert_int_equal(mu_gradient(run, 2, MU_F64), MU_OK);
    assert_int_equal(mu_metric(run, "size"), MU_OK);
    assert_int_equal(mu_data(run, 40, 20, 1, SEED), MU_OK);
    while (mu_next(run, &work) == MU_OK) {
        if (work.kind == MU_SLICE) {
            assert_true(work.slice < 4 && work.samples_n == 5 && work.outs[0] == work.out);
            for (int i = 0; i < 3; i++) {
                ((float *)work.outs[0])[i] = (float)(work.slice + 1);
            }
            assert_int_equal(mu_part(run, 0), MU_OK);
            ((double *)work.outs[1])[0] =
                1e-12 * (double)work.slice; /* No f32 would hold the sum. */
            ((double *)work.outs[1])[1] = 1.0;
            assert_int_equal(mu_put(run, work.out, &metric), MU_OK);
        } else {
            const float *f = work.gradients[0];
            const double *d = work.gradients[1];

            assert_ptr_equal(work.gradient, f);
            assert_true(f[0] == 2.5f && f[1] == 2.5f && f[2] == 2.5f && d[1] == 1.0);
            assert_true(d[0] > 1.49e-12 && d[0] < 1.51e-12);
            weights[0]++;
        }
    }
    assert_true(weights[0] == 2);
}

static void parts_that_are_none_or_given_before_are_refused(void **state)
{
    float weights[WEIGHTS] = {0};
    double metric = 0;
    mu_work work;

    (void)state;
    set_up(weights);
    for (int i = 1; i < MU_PARTS_MAX; i++) {
        assert_int_equal(mu_gradient(run, 1, MU_F16), MU_OK);
    }
    assert_int_equal(mu_gradient(run, 1, MU_F32), MU_ELIMIT);
    assert_int_equal(mu_part(run, 0), MU_EINVAL);
    assert_int_equal(mu_data(run, 10, 2, 1, SEED), MU_OK);
    assert_int_equal(mu_part(run, 0), MU_EINVAL);
    assert_int_equal(mu_next(run, &work), MU_OK);
    assert_int_equal(mu_part(run, MU_PARTS_MAX), MU_EINVAL);
    assert_int_equal(mu_part(run, 3), MU_OK);
    assert_int_equal(mu_part(run, 3), MU_EINVAL);
    assert_int_equal(mu_put(run, weights, &metric), MU_EINVAL); /* It has more than one part. */
    assert_non_null(strstr(mu_error(), "work.outs"));
    assert_int_equal(mu_put(run, work.out, &metric), MU_OK);
    assert_int_equal(mu_part(run, 3), MU_EINVAL);
}

/* ---- looking ahead ---- */

static void samples_of_any_slice_are_those_that_it_will_have(void **state)
{
    float weights[WEIGHTS] = {0};
    double metric = 0;
    uint64_t ahead[64], position;
    mu_work work;
    size_t n;

    (void)state;
    assert_int_equal(mu_samples(run, 1, 0, ahead, 64, &n, &position), MU_EINVAL);
    set_up(weights);
    assert_int_equal(mu_data(run, 100, 50, 2, SEED), MU_OK);
    assert_int_equal(mu_samples(run, 0, 0, ahead, 64, &n, &position), MU_EINVAL);
    assert_int_equal(mu_samples(run, 5, 0, ahead, 64, &n, &position), MU_EINVAL);
    assert_int_equal(mu_samples(run, 1, 8, ahead, 64, &n, &position), MU_EINVAL);
    while (mu_next(run, &work) == MU_OK) {
        if (work.kind == MU_SLICE) {
            assert_int_equal(mu_samples(run, work.step, work.slice, ahead, 64, &n, &position),
                             MU_OK);
            assert_true(n == work.samples_n && position == work.position);
            assert_memory_equal(ahead, work.samples, n * sizeof(*ahead));
            ahead[1] = 7;
            assert_int_equal(mu_samples(run, work.step, work.slice, ahead, 1, &n, &position),
                             MU_OK);
            assert_true(n == work.samples_n && ahead[1] == 7); /* There was room for one. */
            memset(work.out, 0, sizeof(weights));
            assert_int_equal(mu_put(run, work.out, &metric), MU_OK);
        }
    }
}

/* ---- hooks ---- */

struct told {
    uint64_t before, after, generations;
};

static void on_before(void *arg, uint64_t step)
{
    struct told *t = arg;

    assert_int_equal(step, ++t->before);
}

static void on_after(void *arg, uint64_t step)
{
    struct told *t = arg;

    assert_int_equal(step, ++t->after);
}

static void on_generation(void *arg, const mu_world_info *before, const mu_world_info *now)
{
    struct told *t = arg;

    assert_int_equal(before->rank, -1);
    assert_int_equal(now->rank, 0);
    assert_int_equal(now->size, 1);
    t->generations++;
}

static void hooks_are_told_of_every_step_and_generation(void **state)
{
    struct told told = {0};
    const mu_hooks hooks = {on_generation, on_before, on_after, &told};
    float weights[WEIGHTS] = {0};
    struct seen seen = {0};

    (void)state;
    set_up(weights);
    assert_int_equal(mu_hooks_set(run, &hooks), MU_OK);
    assert_int_equal(mu_data(run, 10, 2, 1, SEED), MU_OK);
    assert_int_equal(train(weights, &seen), MU_EDONE);
    assert_int_equal(told.before, 5);
    assert_int_equal(told.after, 5);
    assert_int_equal(told.generations, 1);
}

/* ---- what it refuses ---- */

static void what_is_out_of_order_is_refused(void **state)
{
    float weights[WEIGHTS] = {0};
    double metric = 0;
    mu_work work;

    (void)state;
    assert_int_equal(mu_next(run, &work), MU_EINVAL);
    assert_non_null(strstr(mu_error(), "mu_data()"));
    assert_int_equal(mu_put(run, weights, &metric), MU_EINVAL);
    assert_int_equal(mu_data(run, 10, 2, 1, SEED), MU_EINVAL);
    assert_non_null(strstr(mu_error(), "mu_gradient()"));
    set_up(weights);
    assert_int_equal(mu_metric(run, "size"), MU_EEXIST);
    assert_int_equal(mu_metric(run, "two words"), MU_EINVAL);
    assert_int_equal(mu_metric(run, "bell\a"), MU_EINVAL);
    assert_int_equal(mu_metric(run, ""), MU_EINVAL);
    assert_int_equal(mu_state(run, "weights", weights, 4), MU_EEXIST);
    assert_int_equal(mu_state(run, "nothing", NULL, 4), MU_EINVAL);
    assert_int_equal(mu_gradient(run, 0, MU_F32), MU_EINVAL);
    assert_int_equal(mu_gradient(run, 4, MU_I32), MU_EINVAL);
    assert_int_equal(mu_data(run, 0, 2, 1, SEED), MU_EINVAL);
    assert_int_equal(mu_shard(run, 0), MU_EINVAL);
    assert_int_equal(mu_resize(run, 0), MU_EINVAL);
    assert_int_equal(mu_data(run, 10, 2, 1, SEED), MU_OK);
    assert_int_equal(mu_data(run, 10, 2, 1, SEED), MU_EBUSY);
    assert_int_equal(mu_metric(run, "late"), MU_EBUSY);
    assert_int_equal(mu_slices(run, 4), MU_EBUSY);
    assert_int_equal(mu_fact(run, "late", "yes", 0), MU_EBUSY);
    assert_int_equal(mu_next(run, NULL), MU_EINVAL);
    assert_int_equal(mu_next(run, &work), MU_OK);
    assert_int_equal(mu_next(run, &work), MU_EINVAL);
    assert_non_null(strstr(mu_error(), "mu_put()"));
    assert_int_equal(mu_put(run, weights, NULL), MU_EINVAL);
    assert_int_equal(mu_put(run, NULL, &metric), MU_EINVAL);
    assert_int_equal(mu_put(run, weights, &metric), MU_OK);
    assert_int_equal(mu_put(run, weights, &metric), MU_EINVAL);
}

static void slices_are_a_power_of_two(void **state)
{
    float weights[WEIGHTS] = {0};
    mu_config config;

    (void)state;
    assert_int_equal(mu_leave(run), MU_OK);
    mu_config_init(&config);
    config.slices = 6;
    assert_int_equal(mu_join(&config, &run), MU_OK);
    set_up(weights);
    assert_int_equal(mu_data(run, 10, 2, 1, SEED), MU_EINVAL);
    assert_non_null(strstr(mu_error(), "power of two"));
    assert_int_equal(mu_slices(run, 0), MU_EINVAL);
    assert_int_equal(mu_slices(run, 12), MU_EINVAL);
    assert_int_equal(mu_slices(run, 2048), MU_EINVAL);
    assert_int_equal(mu_slices(run, 16), MU_OK);
    assert_int_equal(mu_data(run, 10, 2, 1, SEED), MU_OK);
}

static void collectives_are_refused_while_the_step_has_the_group(void **state)
{
    float weights[WEIGHTS] = {0}, in = 1, out = 0;

    (void)state;
    set_up(weights);
    assert_int_equal(mu_allreduce(run, &in, &out, 1, MU_F32, MU_SUM, 1000), MU_OK);
    assert_int_equal(mu_data(run, 10, 2, 1, SEED), MU_OK);
    assert_int_equal(mu_allreduce(run, &in, &out, 1, MU_F32, MU_SUM, 1000), MU_EBUSY);
    assert_int_equal(mu_regroup(run, 1000), MU_EBUSY);
}

/* ---- memory ---- */

static int try_data(void *arg)
{
    return mu_data(run, 10, 2, 1, SEED);
}

static void training_that_lacks_memory_can_be_set_up_again(void **state)
{
    char dir[] = "/tmp/mu-next-XXXXXX", memory[64], command[64];
    float weights[WEIGHTS] = {0};
    struct seen seen = {0};

    assert_non_null(mkdtemp(dir));
    setenv("MUSTER_CKPT_DIR", dir, 1);
    snprintf(memory, sizeof(memory), "%s/memory", dir);
    setenv("MUSTER_CKPT_MEMORY", memory, 1);
    set_up(weights);
    assert_true(deny_sweep(try_data, NULL) > 4);
    unsetenv("MUSTER_CKPT_DIR");
    unsetenv("MUSTER_CKPT_MEMORY");
    assert_int_equal(train(weights, &seen), MU_EDONE);
    assert_int_equal(seen.steps, 5);
    assert_int_equal(mu_leave(run), MU_OK);
    assert_int_equal(mu_join(NULL, &run), MU_OK);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* ---- blocks ---- */

static struct comm *comm_alone(void)
{
    struct comm_config cc = {.job = "j", .run = 1, .self = wid_make(1, 0, 1)};
    char error[COMM_ERROR_MAX];
    struct comm *c;

    assert_int_equal(comm_open(&cc, &c, error), MU_OK);
    return c;
}

/* Whatever part of the slices a worker has, and in whatever order they come: its blocks are the
 * whole subtrees, and the tree over them gives what the tree over all slices gives. */
static void blocks_add_up_to_the_same_bits_in_any_order(void **state)
{
    enum { S = 32, N = 19, RANKS = 3 };
    static float leaves[S][N];
    struct comm *c = comm_alone();
    struct prng prng;
    const void *in[S];
    float want[N], got[N];

    (void)state;
    prng_init(&prng, 5);
    for (uint32_t s = 0; s < S; s++) {
        for (uint32_t i = 0; i < N; i++) {
            leaves[s][i] = (float)prng_below(&prng, 1000000) / 777.0f - 600.0f;
        }
        in[s] = leaves[s];
    }
    reduce_fold(NULL, DTYPE_F32, REDUCE_SUM, 1, want, NULL, in, NULL, S, N);
    for (int round = 0; round < 200; round++) {
        struct blocks of[RANKS];
        uint32_t order[S], widths[S], n = 0;
        double metric = 1;

        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(blocks_open(&of[r], c, &(struct gradient_part){N, DTYPE_F32}, 1, 1, S),
                             MU_OK);
        }
        for (uint32_t s = 0; s < S; s++) {
            uint32_t at = (uint32_t)prng_below(&prng, s + 1);

            order[s] = order[at];
            order[at] = s;
        }
        for (uint32_t i = 0; i < S; i++) {
            struct blocks *b = &of[prng_below(&prng, RANKS)];
            uint8_t *buffer = blocks_take(b);

            assert_non_null(buffer);
            memcpy(buffer, leaves[order[i]], sizeof(leaves[0]));
            blocks_leaf(b, 1, buffer);
            blocks_metrics(b, 1, buffer, &metric);
            blocks_put_begin(b, order[i], buffer);
            blocks_put_end(b);
        }
        for (uint32_t s = 0; s < S; s += widths[n++]) {
            in[n] = NULL;
            for (uint32_t r = 0; r < RANKS; r++) {
                for (uint32_t i = 0; i < of[r].n; i++) {
                    if (of[r].items[i].lo == s) {
                        in[n] = of[r].items[i].sum;
                        widths[n] = of[r].items[i].width;
                        assert_true(*(const double *)blocks_part(&of[r], &of[r].items[i], 1) ==
                                    (double)widths[n]);
                    }
                }
            }
            assert_non_null(in[n]);
        }
        reduce_fold(NULL, DTYPE_F32, REDUCE_SUM, 1, got, NULL, in, widths, n, N);
        assert_memory_equal(got, want, sizeof(want));
        for (uint32_t r = 0; r < RANKS; r++) {
            blocks_close(&of[r]);
        }
    }
    comm_close(c);
}

/* Neighbours become one at once, so a worker that computes its slices in their order holds few. */
static void blocks_are_few(void **state)
{
    enum { S = 256 };
    struct comm *c = comm_alone();
    struct blocks b;
    uint32_t most = 0;

    (void)state;
    assert_int_equal(blocks_open(&b, c, &(struct gradient_part){3, DTYPE_BF16}, 1, 0, S), MU_OK);
    for (uint32_t s = 0; s < S; s++) {
        uint8_t *buffer = blocks_take(&b);

        memset(buffer, 0, 6);
        blocks_leaf(&b, s % 3, buffer);
        blocks_put_begin(&b, s, buffer);
        blocks_put_end(&b);
        most = MAX(most, b.n);
    }
    assert_int_equal(b.n, 1);
    assert_int_equal(b.items[0].width, S);
    assert_int_equal(most, 8);
    assert_true(b.spare_n <= 9);
    blocks_close(&b);
    comm_close(c);
}

#define LOOP(f) cmocka_unit_test_setup_teardown(f, join, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP(a_run_gives_what_the_definitions_say),
        LOOP(empty_slices_are_never_asked_for),
        LOOP(a_run_may_end_before_its_data),
        LOOP(shards_give_each_element_once_and_in_order),
        LOOP(seeds_are_of_the_step_and_the_slice),
        LOOP(parts_have_their_own_types_and_means),
        LOOP(parts_that_are_none_or_given_before_are_refused),
        LOOP(samples_of_any_slice_are_those_that_it_will_have),
        LOOP(hooks_are_told_of_every_step_and_generation),
        LOOP(what_is_out_of_order_is_refused),
        LOOP(slices_are_a_power_of_two),
        LOOP(collectives_are_refused_while_the_step_has_the_group),
        LOOP(training_that_lacks_memory_can_be_set_up_again),
        cmocka_unit_test(blocks_add_up_to_the_same_bits_in_any_order),
        cmocka_unit_test(blocks_are_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
