#include "unit/unit.h"

#include "base/prng.h"
#include "lib/chance.h"

/* The published first outputs of splitmix64 from state 1234567. */
static void the_mixer_is_splitmix64(void **state)
{
    static const uint64_t published[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };

    for (uint64_t i = 0; i < ARRAY_LEN(published); i++) {
        assert_true(prng_mix(1234567 + i * UINT64_C(0x9e3779b97f4a7c15)) == published[i]);
    }
}

/* The first outputs of the reference implementation from state {1, 2, 3, 4}. */
static void the_generator_is_xoshiro256_starstar(void **state)
{
    static const uint64_t reference[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
    };
    struct prng p = {{1, 2, 3, 4}};

    for (size_t i = 0; i < ARRAY_LEN(reference); i++) {
        assert_true(prng_u64(&p) == reference[i]);
    }
}

static void the_same_seed_gives_the_same_numbers_and_another_seed_others(void **state)
{
    struct prng a, b, other;
    int same = 0;

    prng_init(&a, 42);
    prng_init(&b, 42);
    prng_init(&other, 43);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = prng_u64(&a);

        assert_true(x == prng_u64(&b));
        same += x == prng_u64(&other);
    }
    assert_int_equal(same, 0);
}

/* Chi-square against the 99.99 % quantile for 6 degrees of freedom, which is 27.9. */
static void below_is_even(void **state)
{
    enum { N = 7, DRAWS = 700000 };
    int counts[N] = {0};
    double chi2 = 0;
    struct prng p;

    prng_init(&p, 7);
    for (int i = 0; i < DRAWS; i++) {
        counts[prng_below(&p, N)]++;
    }
    for (int i = 0; i < N; i++) {
        double off = counts[i] - DRAWS / N;

        chi2 += off * off / (DRAWS / N);
    }
    assert_true(chi2 < 27.9);
}

/* With n = 3 * 2^62, plain modulo would land in the lowest third twice as often as in each
 * of the others. */
static void below_is_even_where_modulo_is_not(void **state)
{
    const uint64_t third = UINT64_C(1) << 62;
    int lowest = 0;
    struct prng p;

    prng_init(&p, 8);
    for (int i = 0; i < 30000; i++) {
        uint64_t x = prng_below(&p, 3 * third);

        assert_true(x < 3 * third);
        lowest += x < third;
    }
    assert_in_range(lowest, 9500, 10500);
}

static void below_one_is_zero(void **state)
{
    struct prng p;

    prng_init(&p, 9);
    assert_int_equal(prng_below(&p, 1), 0);
}

static void between_reaches_both_ends_and_never_passes_them(void **state)
{
    bool low = false, high = false;
    struct prng p;

    prng_init(&p, 10);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = prng_between(&p, UINT64_MAX - 3, UINT64_MAX);

        assert_true(x >= UINT64_MAX - 3);
        low |= x == UINT64_MAX - 3;
        high |= x == UINT64_MAX;
    }
    assert_true(low && high);
    assert_int_equal(prng_between(&p, 5, 5), 5);
    (void)prng_between(&p, 0, UINT64_MAX);
}

static void chance_is_never_at_zero_always_at_a_million_and_fair_between(void **state)
{
    int hits = 0;
    struct prng p;

    prng_init(&p, 11);
    for (int i = 0; i < 100000; i++) {
        assert_false(prng_chance(&p, 0));
        assert_true(prng_chance(&p, 1000000));
        hits += prng_chance(&p, 250000);
    }
    assert_in_range(hits, 24300, 25700);
}

static void below_zero(void *arg)
{
    (void)prng_below(arg, 0);
}

static void backwards(void *arg)
{
    (void)prng_between(arg, 2, 1);
}

static void empty_ranges_panic(void **state)
{
    struct prng p;

    prng_init(&p, 12);
    assert_true(unit_panics(below_zero, &p));
    assert_true(unit_panics(backwards, &p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mixer_is_splitmix64),
        cmocka_unit_test(the_generator_is_xoshiro256_starstar),
        cmocka_unit_test(the_same_seed_gives_the_same_numbers_and_another_seed_others),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(below_is_even_where_modulo_is_not),
        cmocka_unit_test(below_one_is_zero),
        cmocka_unit_test(between_reaches_both_ends_and_never_passes_them),
        cmocka_unit_test(chance_is_never_at_zero_always_at_a_million_and_fair_between),
        cmocka_unit_test(empty_ranges_panic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
