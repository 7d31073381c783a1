#include "unit/unit.h"

#include "base/prng.h"
#include "core/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seeds are fixed, so these statistics are the same in every run; the thresholds are some six
 * standard deviations of a true random permutation. */

#define BIG_N 65521 /* a prime just below 2^16 */

static uint32_t values[1 << 17];

static void fill(uint64_t seed, uint64_t epoch, uint32_t n)
{
    struct order o;

    assert_int_equal(order_init(&o, seed, epoch, n), MU_OK);
    for (uint32_t i = 0; i < n; i++) {
        values[i] = (uint32_t)order_sample(&o, i);
    }
}

/* The inverse, from the definition at the top of core/order.c: the same rounds, the last one first.
 */
static uint64_t position_of(const struct order *o, uint64_t sample)
{
    uint64_t x = sample;

    do {
        for (uint32_t i = o->rounds; i-- > 0;) {
            uint64_t hi = x >> o->lo_bits;
            uint64_t lo = x & ((UINT64_C(1) << o->lo_bits) - 1);

            if (i % 2 == 0) {
                hi ^= prng_mix(lo ^ o->keys[i]) >> (64 - o->hi_bits);
            } else {
                lo ^= prng_mix(hi ^ o->keys[i]) >> (64 - o->lo_bits);
            }
            x = hi << o->lo_bits | lo;
        }
    } while (x >= o->n);
    return x;
}

static void check_bijection(uint64_t seed, uint64_t n)
{
    static bool seen[1 << 17];
    struct order o;

    assert_int_equal(order_init(&o, seed, 0, n), MU_OK);
    memset(seen, 0, n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t sample = order_sample(&o, i);
        assert_true(sample < n);
        assert_false(seen[sample]);
        seen[sample] = true;
        assert_true(position_of(&o, sample) == i);
    }
}

static void every_sample_has_one_position(void **state)
{
    uint64_t n_max = getenv("MUSTER_TEST_FULL") != NULL ? 4200 : 300;

    for (uint64_t n = 1; n <= n_max; n++) {
        check_bijection(n * 7, n);
    }
    check_bijection(1, 65535);
    check_bijection(2, 65536);
    check_bijection(3, 65537);
    check_bijection(4, 100000);
}

static void the_largest_orders_invert_too(void **state)
{
    struct prng rng;
    struct order o;

    prng_init(&rng, 4);
    for (uint32_t bits = 17; bits <= 48; bits++) {
        uint64_t n = (UINT64_C(1) << bits) - prng_below(&rng, 3);
        assert_int_equal(order_init(&o, bits, bits, n), MU_OK);
        for (int i = 0; i < 200; i++) {
            uint64_t position = i == 0 ? n - 1 : prng_below(&rng, n);
            uint64_t sample = order_sample(&o, position);
            assert_true(sample < n);
            assert_true(position_of(&o, sample) == position);
        }
    }
}

static void sizes_out_of_range_are_refused(void **state)
{
    struct order o;

    assert_int_equal(order_init(&o, 1, 1, 0), MU_EINVAL);
    assert_int_equal(order_init(&o, 1, 1, ORDER_SAMPLES_MAX + 1), MU_EINVAL);
    assert_int_equal(order_init(&o, 1, 1, ORDER_SAMPLES_MAX), MU_OK);
}

/* These values are part of every run that was ever made: they must never change. */
static void the_order_is_the_one_it_always_was(void **state)
{
    static const uint64_t small[10] = {7, 8, 1, 2, 0, 6, 3, 4, 5, 9};
    struct order o;

    assert_int_equal(order_init(&o, 1, 0, 10), MU_OK);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(order_sample(&o, i), small[i]);
    }
    assert_int_equal(order_init(&o, 42, 7, 60000), MU_OK);
    assert_int_equal(order_sample(&o, 12345), 46819);
    assert_int_equal(order_init(&o, UINT64_MAX, UINT64_MAX, ORDER_SAMPLES_MAX), MU_OK);
    assert_true(order_sample(&o, ORDER_SAMPLES_MAX - 1) == UINT64_C(4370745935031));
    assert_true(order_seed(1, 2, 3) == UINT64_C(47423848690574485));
}

/* Where a sample comes from says nothing of where it goes: 16 x 16 cells, 225 degrees of freedom.
 */
static void position_and_value_are_independent(void **state)
{
    static const uint32_t sizes[] = {4096, 10007, BIG_N, 1 << 16, 100000};

    for (uint64_t seed = 0; seed < 5 * ARRAY_LEN(sizes); seed++) {
        uint32_t n = sizes[seed % ARRAY_LEN(sizes)];
        double cells[16][16] = {{0}};
        double chi2 = 0;
        fill(seed, 1, n);
        for (uint64_t i = 0; i < n; i++) {
            cells[16 * i / n][16 * (uint64_t)values[i] / n]++;
        }
        for (int k = 0; k < 256; k++) {
            double off = cells[k / 16][k % 16] - n / 256.0;
            chi2 += off * off / (n / 256.0);
        }
        assert_true(chi2 > 225 - 127 && chi2 < 225 + 127);
    }
}

static double correlation(const uint32_t *a, const uint32_t *b, uint32_t n, uint32_t range)
{
    double mean = (range - 1) / 2.0;
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += (a[i] - mean) * (b[i] - mean);
    }
    return sum / n / (((double)range * range - 1) / 12);
}

static void neighbours_are_not_correlated(void **state)
{
    static const uint32_t lags[] = {1, 2, 3, 7, 64, 256, 4096};
    static const uint32_t sizes[] = {10007, BIG_N, 1 << 16};

    for (uint64_t seed = 0; seed < 10; seed++) {
        for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
            fill(seed, 0, sizes[k]);
            for (size_t j = 0; j < ARRAY_LEN(lags); j++) {
                uint32_t n = sizes[k] - lags[j];
                assert_true(fabs(correlation(values, values + lags[j], n, sizes[k])) < 6 / sqrt(n));
            }
        }
    }
}

/* A random permutation has one fixed point on average, with variance one; so have two independent
 * ones one place where they agree. */
static void fixed_points_are_as_many_as_chance_has(void **state)
{
    int fixed = 0;

    for (uint64_t seed = 0; seed < 400; seed++) {
        fill(seed, 3, 1000);
        for (uint32_t i = 0; i < 1000; i++) {
            fixed += values[i] == i;
        }
    }
    assert_in_range(fixed, 400 - 120, 400 + 120);
}

static void next_epoch_and_next_seed_agree_no_more_than_chance_does(void **state)
{
    static uint32_t first[1000];
    int same[2] = {0, 0};

    for (uint64_t i = 0; i < 400; i++) {
        fill(i, i, 1000);
        memcpy(first, values, sizeof(first));
        for (uint64_t k = 0; k < 2; k++) {
            fill(i + k, i + 1 - k, 1000);
            for (uint32_t p = 0; p < 1000; p++) {
                same[k] += first[p] == values[p];
            }
            assert_true(fabs(correlation(first, values, 1000, 1000)) < 6 / sqrt(1000));
        }
    }
    assert_in_range(same[0], 400 - 120, 400 + 120);
    assert_in_range(same[1], 400 - 120, 400 + 120);
}

/* One flipped bit of seed or epoch moves nearly every sample. */
static void one_bit_of_the_key_changes_everything(void **state)
{
    static uint32_t first[1000];

    fill(99, 5, 1000);
    memcpy(first, values, sizeof(first));
    for (uint32_t bit = 0; bit < 128; bit++) {
        uint64_t flip = UINT64_C(1) << (bit % 64);
        uint32_t same = 0;
        fill(99 ^ (bit < 64 ? flip : 0), 5 ^ (bit < 64 ? 0 : flip), 1000);
        for (uint32_t p = 0; p < 1000; p++) {
            same += first[p] == values[p];
        }
        assert_true(same <= 9);
    }
}

/* The number of a permutation of n values among the n! in lexical order. */
static uint32_t index_of(uint32_t n)
{
    uint32_t index = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t smaller = 0;
        for (uint32_t j = i + 1; j < n; j++) {
            smaller += values[j] < values[i];
        }
        index = index * (n - i) + smaller;
    }
    return index;
}

/* by_epoch: the epochs of one seed, otherwise one epoch of many seeds. */
static void check_all_permutations(uint32_t n, bool by_epoch)
{
    static uint32_t counts[5040];
    uint32_t kinds = 1;
    double chi2 = 0;

    for (uint32_t i = 2; i <= n; i++) {
        kinds *= i;
    }
    memset(counts, 0, sizeof(counts));
    for (uint64_t i = 0; i < 200 * (uint64_t)kinds; i++) {
        fill(by_epoch ? 1 : i, by_epoch ? i : 1, n);
        counts[index_of(n)]++;
    }
    for (uint32_t i = 0; i < kinds; i++) {
        double off = counts[i] - 200.0;
        chi2 += off * off / 200.0;
    }
    double freedom = kinds - 1;
    assert_true(fabs(chi2 - freedom) < 6 * sqrt(2 * freedom) + 6);
}

static void all_permutations_of_a_few_are_equally_likely(void **state)
{
    uint32_t n_max = getenv("MUSTER_TEST_FULL") != NULL ? 7 : 5;

    for (uint32_t n = 2; n <= n_max; n++) {
        check_all_permutations(n, false);
        check_all_permutations(n, true);
    }
}

static void check_epoch(const struct order_walk *walk, uint64_t epoch)
{
    static uint8_t seen[1 << 12];
    uint64_t per_epoch = order_steps_per_epoch(walk);
    uint64_t next = 0;
    struct order o;

    memset(seen, 0, sizeof(seen));
    assert_int_equal(order_init(&o, 5, epoch, walk->samples_n), MU_OK);
    for (uint64_t t = epoch * per_epoch; t < (epoch + 1) * per_epoch; t++) {
        struct order_span batch = order_batch(walk, t);
        assert_true(batch.epoch == epoch && batch.first == next && batch.n >= 1);
        assert_true(batch.n == walk->batch_n || t + 1 == (epoch + 1) * per_epoch);
        for (uint32_t s = 0; s < walk->slices_n; s++) {
            struct order_span slice = order_slice(walk, t, s);
            assert_true(slice.epoch == epoch && slice.first == next);
            assert_true(slice.n <= batch.n / walk->slices_n + 1);
            for (uint64_t i = 0; i < slice.n; i++) {
                seen[order_sample(&o, slice.first + i)]++;
            }
            next += slice.n;
        }
    }
    for (uint64_t i = 0; i < walk->samples_n; i++) {
        assert_int_equal(seen[i], 1);
    }
}

static void every_epoch_has_every_sample_once(void **state)
{
    struct prng rng;
    int rounds = getenv("MUSTER_TEST_FULL") != NULL ? 20000 : 600;

    prng_init(&rng, 6);
    for (int i = 0; i < rounds; i++) {
        uint64_t n = prng_between(&rng, 1, i % 2 == 0 ? 40 : 2000);
        struct order_walk walk = {
            .samples_n = n,
            .batch_n = prng_between(&rng, 1, n + n / 4 + 1),
            .slices_n = 1u << prng_below(&rng, 8),
        };
        assert_int_equal(order_walk_check(&walk), MU_OK);
        check_epoch(&walk, prng_below(&rng, 1000));
    }
}

static void the_last_batch_is_what_is_left(void **state)
{
    struct order_walk walk = {.samples_n = 10, .batch_n = 4, .epochs_n = 3, .slices_n = 8};

    assert_int_equal(order_steps_per_epoch(&walk), 3);
    assert_int_equal(order_steps(&walk), 9);
    struct order_span last = order_batch(&walk, 5);
    assert_int_equal(last.epoch, 1);
    assert_int_equal(last.first, 8);
    assert_int_equal(last.n, 2);
    assert_int_equal(order_slice(&walk, 5, 0).n, 0);
    assert_int_equal(order_slice(&walk, 5, 3).n, 1);
    assert_int_equal(order_slice(&walk, 5, 7).first, 9);
}

static void nothing_overflows_at_the_limits(void **state)
{
    struct order_walk walk = {.samples_n = ORDER_SAMPLES_MAX,
                              .batch_n = ORDER_SAMPLES_MAX - 1,
                              .epochs_n = UINT64_MAX,
                              .slices_n = SLICES_MAX};

    assert_int_equal(order_walk_check(&walk), MU_OK);
    assert_int_equal(order_steps_per_epoch(&walk), 2);
    assert_true(order_steps(&walk) == UINT64_MAX);
    struct order_span last = order_slice(&walk, 0, SLICES_MAX - 1);
    assert_true(last.first + last.n == ORDER_SAMPLES_MAX - 1);
    last = order_slice(&walk, UINT64_MAX, SLICES_MAX - 1);
    assert_true(last.epoch == UINT64_MAX / 2);
    assert_true(last.first + last.n == ORDER_SAMPLES_MAX && last.n == 1);

    walk.batch_n = 1;
    walk.epochs_n = 0;
    assert_true(order_steps(&walk) == UINT64_MAX);
    walk.epochs_n = 1;
    assert_true(order_steps(&walk) == ORDER_SAMPLES_MAX);
    walk.batch_n = 0;
    assert_int_equal(order_walk_check(&walk), MU_EINVAL);
    walk.batch_n = ORDER_SAMPLES_MAX + 1;
    assert_int_equal(order_walk_check(&walk), MU_EINVAL);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void every_slice_of_every_step_has_its_own_seed(void **state)
{
    static uint64_t seeds[2 * 500 * 64];
    uint32_t n = 0;
    uint32_t ones = 0;

    for (uint64_t job = 0; job < 2; job++) {
        for (uint64_t t = 0; t < 500; t++) {
            for (uint32_t s = 0; s < 64; s++) {
                seeds[n++] = order_seed(job, t, s);
                ones += (uint32_t)__builtin_popcountll(order_seed(job, t, s));
            }
        }
    }
    qsort(seeds, n, sizeof(seeds[0]), compare_u64);
    for (uint32_t i = 1; i < n; i++) {
        assert_true(seeds[i - 1] != seeds[i]);
    }
    assert_in_range(ones, 32 * n - 6 * 1012, 32 * n + 6 * 1012); /* sd: sqrt(64000 * 64 / 4) */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_has_one_position),
        cmocka_unit_test(the_largest_orders_invert_too),
        cmocka_unit_test(sizes_out_of_range_are_refused),
        cmocka_unit_test(the_order_is_the_one_it_always_was),
        cmocka_unit_test(position_and_value_are_independent),
        cmocka_unit_test(neighbours_are_not_correlated),
        cmocka_unit_test(fixed_points_are_as_many_as_chance_has),
        cmocka_unit_test(next_epoch_and_next_seed_agree_no_more_than_chance_does),
        cmocka_unit_test(one_bit_of_the_key_changes_everything),
        cmocka_unit_test(all_permutations_of_a_few_are_equally_likely),
        cmocka_unit_test(every_epoch_has_every_sample_once),
        cmocka_unit_test(the_last_batch_is_what_is_left),
        cmocka_unit_test(nothing_overflows_at_the_limits),
        cmocka_unit_test(every_slice_of_every_step_has_its_own_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
