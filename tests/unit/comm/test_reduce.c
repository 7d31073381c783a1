/* Adding buffers: the same bits from every instruction set, in the order of the tree, whatever the
 * caller's floating-point unit is set to. */
#include "unit/unit.h"

#include "base/prng.h"
#include "comm/reduce.h"

#include <math.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#define N_MAX 5000

static uint8_t inputs[17][N_MAX * 8 + 64], results[3][N_MAX * 8 + 64];

static void fill(struct prng *p, enum dtype dtype, unsigned taste)
{
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++) {
        for (size_t k = 0; k + 8 <= sizeof(inputs[i]); k += 8) {
            uint64_t word = prng_u64(p);
            double d = (double)(int64_t)word / 0x1p+60;
            float f = (float)d;

            if (taste == 1 && dtype == DTYPE_F64) {
                memcpy(&word, &d, 8);
            } else if (taste == 1 && dtype == DTYPE_F32) {
                memcpy(&word, &f, 4);
            } else if (taste == 2) { /* small exponents: subnormals, zeros of both signs */
                word &= UINT64_C(0x80ff83ff80ff83ff);
            }
            memcpy(&inputs[i][k], &word, 8);
        }
    }
}

static void fold_into(unsigned r, const struct reduce_kernels *k, enum dtype dtype,
                      enum reduce_op op, uint32_t inputs_n, size_t shift, size_t n)
{
    const void *in[ARRAY_LEN(inputs)];

    for (size_t i = 0; i < ARRAY_LEN(inputs); i++) {
        in[i] = inputs[i] + shift * dtype_size(dtype) * (i % 3);
    }
    memset(results[r], 0xa5, sizeof(results[r]));
    reduce_fold(k, dtype, op, inputs_n + 2, results[r], NULL, in, NULL, inputs_n, n);
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    static const size_t LENGTHS[] = {0, 1, 2, 3, 7, 8, 9, 15, 17, 31, 33, 64, 67, 1023, 4097, 4999};
    struct prng p;
    unsigned sets_n = 0;

    prng_init(&p, 1);
    while (reduce_kernels(sets_n) != NULL) {
        sets_n++;
    }
    print_message("# instruction sets here:");
    for (unsigned s = 0; s < sets_n; s++) {
        print_message(" %s", reduce_kernels(s)->name);
    }
    print_message("\n");
    for (int round = 0; round < 6 * DTYPE_N * REDUCE_OP_N; round++) {
        enum dtype dtype = (enum dtype)(round % DTYPE_N);
        enum reduce_op op = (enum reduce_op)(round / DTYPE_N % REDUCE_OP_N);

        fill(&p, dtype, (unsigned)round % 3);
        for (size_t l = 0; l < ARRAY_LEN(LENGTHS); l++) {
            uint32_t k = (uint32_t)prng_between(&p, 1, ARRAY_LEN(inputs));
            size_t shift = prng_below(&p, 2);

            fold_into(0, reduce_kernels(sets_n - 1), dtype, op, k, shift, LENGTHS[l]);
            for (unsigned s = 0; s + 1 < sets_n; s++) {
                fold_into(1, reduce_kernels(s), dtype, op, k, shift, LENGTHS[l]);
                if (memcmp(results[0], results[1], sizeof(results[0])) != 0) {
                    fail_msg("%s differs: %s of %u %s, %zu elements", reduce_kernels(s)->name,
                             reduce_op_name(op), k, dtype_name(dtype), LENGTHS[l]);
                }
            }
        }
    }
}

/* ---- against definitions ---- */

static float tree(const float *const *in, uint32_t lo, uint32_t k, size_t i)
{
    uint32_t half = 1;

    if (k == 1) {
        return in[lo][i];
    }
    while (half * 2 < k) {
        half *= 2;
    }
    volatile float left = tree(in, lo, half, i), right = tree(in, lo + half, k - half, i);

    return left + right;
}

static void additions_follow_the_tree(void **state)
{
    const float *in[ARRAY_LEN(inputs)];
    struct prng p;

    prng_init(&p, 2);
    fill(&p, DTYPE_F32, 1);
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++) {
        in[i] = (const float *)(const void *)inputs[i];
    }
    for (uint32_t k = 1; k <= ARRAY_LEN(inputs); k++) {
        fold_into(0, NULL, DTYPE_F32, REDUCE_SUM, k, 0, N_MAX);
        for (size_t i = 0; i < N_MAX; i++) {
            float want = tree(in, 0, k, i), got;

            memcpy(&got, results[0] + 4 * i, 4);
            if (!isnan(want)) {
                assert_memory_equal(&got, &want, 4);
            }
        }
    }
}

/* Rounds to a type with so many bits and that least exponent, by arithmetic alone. */
static double rounded(double v, int bits, int least, double most)
{
    int e;

    if (v == 0 || isnan(v) || isinf(v)) {
        return v;
    }
    frexp(v, &e);
    e = e - bits < least ? least : e - bits;
    v = ldexp(nearbyint(ldexp(v, -e)), e);
    return fabs(v) > most ? copysign(INFINITY, v) : v;
}

static double wide(enum dtype dtype, uint16_t h)
{
    int e = dtype == DTYPE_F16 ? h >> 10 & 31 : h >> 7 & 255;
    int m = dtype == DTYPE_F16 ? h & 1023 : h & 127;
    int m_bits = dtype == DTYPE_F16 ? 10 : 7, e_most = dtype == DTYPE_F16 ? 31 : 255;
    double v = e == e_most ? (m == 0 ? INFINITY : NAN)
                           : ldexp(e == 0 ? m : m + (1 << m_bits), MAX(e, 1) - e_most / 2 - m_bits);

    return h >> 15 ? -v : v;
}

static void halves_are_rounded_to_nearest_even(void **state)
{
    static uint16_t a[1 << 16], b[1 << 16], out[1 << 16];
    const void *in[] = {a, b};
    struct prng p;

    prng_init(&p, 3);
    for (int round = 0; round < 24; round++) {
        enum dtype dtype = round % 2 == 0 ? DTYPE_F16 : DTYPE_BF16;
        uint16_t other = round < 2 ? 0 : round < 4 ? 0x8000 : (uint16_t)prng_u64(&p);

        for (uint32_t i = 0; i < ARRAY_LEN(a); i++) {
            a[i] = (uint16_t)i;
            b[i] = round < 12 ? other : (uint16_t)prng_u64(&p);
        }
        for (unsigned s = 0; reduce_kernels(s) != NULL; s++) {
            reduce_fold(reduce_kernels(s), dtype, REDUCE_SUM, 1, out, NULL, in, NULL, 2,
                        ARRAY_LEN(a));
            for (uint32_t i = 0; i < ARRAY_LEN(a); i++) {
                double want = wide(dtype, a[i]) + wide(dtype, b[i]);

                want = dtype == DTYPE_F16 ? rounded(want, 11, -24, 65504)
                                          : rounded(want, 8, -133, 0x1.fep+127);
                if (isnan(want)) {
                    assert_int_equal(out[i], dtype == DTYPE_F16 ? 0x7e00 : 0x7fc0);
                } else if (wide(dtype, out[i]) != want ||
                           signbit(wide(dtype, out[i])) != signbit(want)) {
                    fail_msg("%s %s: %04x + %04x is %04x", reduce_kernels(s)->name,
                             dtype_name(dtype), a[i], b[i], out[i]);
                }
            }
        }
    }
}

static void zeros_and_nan_have_their_order(void **state)
{
    const float inf = INFINITY, nan = NAN;
    const float a[] = {0.0f, -0.0f, nan, 1.0f, -inf, inf, -nan};
    const float b[] = {-0.0f, 0.0f, 1.0f, nan, inf, -inf, nan};
    const float least[] = {-0.0f, -0.0f, nan, nan, -inf, -inf, nan};
    const float most[] = {0.0f, 0.0f, nan, nan, inf, inf, nan};
    const float sum[] = {0.0f, 0.0f, nan, nan, nan, nan, nan};
    const void *in[] = {a, b};
    float out[ARRAY_LEN(a)];

    for (unsigned s = 0; reduce_kernels(s) != NULL; s++) {
        reduce_fold(reduce_kernels(s), DTYPE_F32, REDUCE_MIN, 1, out, NULL, in, NULL, 2,
                    ARRAY_LEN(a));
        assert_memory_equal(out, least, sizeof(out));
        reduce_fold(reduce_kernels(s), DTYPE_F32, REDUCE_MAX, 1, out, NULL, in, NULL, 2,
                    ARRAY_LEN(a));
        assert_memory_equal(out, most, sizeof(out));
        reduce_fold(reduce_kernels(s), DTYPE_F32, REDUCE_SUM, 1, out, NULL, in, NULL, 2,
                    ARRAY_LEN(a));
        assert_memory_equal(out, sum, sizeof(out));
    }
}

static void integers_wrap_and_their_means_are_cut_off(void **state)
{
    const int32_t a[] = {INT32_MAX, -7, 7}, b[] = {1, 0, 0}, c[] = {0, 0, 0};
    const int32_t sum[] = {INT32_MIN, -7, 7}, mean[] = {INT32_MIN / 3, -2, 2};
    const uint8_t x[] = {200, 3}, y[] = {100, 4}, wrapped[] = {44, 7};
    const void *in[] = {a, b, c}, *bytes[] = {x, y};
    int32_t out[3];
    uint8_t small[2];

    reduce_fold(NULL, DTYPE_I32, REDUCE_SUM, 3, out, NULL, in, NULL, 3, 3);
    assert_memory_equal(out, sum, sizeof(out));
    reduce_fold(NULL, DTYPE_I32, REDUCE_MEAN, 3, out, NULL, in, NULL, 3, 3);
    assert_memory_equal(out, mean, sizeof(out));
    reduce_fold(NULL, DTYPE_U8, REDUCE_SUM, 1, small, NULL, bytes, NULL, 2, 2);
    assert_memory_equal(small, wrapped, sizeof(small));
}

static void a_result_may_take_the_place_of_an_input(void **state)
{
    const void *in[] = {inputs[0], inputs[1], inputs[2]};
    struct prng p;

    prng_init(&p, 4);
    fill(&p, DTYPE_F64, 1);
    reduce_fold(NULL, DTYPE_F64, REDUCE_SUM, 1, results[0], NULL, in, NULL, 3, N_MAX);
    reduce_fold(NULL, DTYPE_F64, REDUCE_SUM, 1, inputs[1], NULL, in, NULL, 3, N_MAX);
    assert_memory_equal(inputs[1], results[0], N_MAX * 8);
}

static void a_callers_floating_point_unit_changes_nothing(void **state)
{
#ifdef __SSE__
    const unsigned ODD = 0x1f80 | 0x8040 | 0x6000; /* flush both ways, round towards zero */
    struct prng p;

    prng_init(&p, 5);
    for (int dtype = 0; dtype < DTYPE_I32; dtype++) {
        for (int op = 0; op < REDUCE_OP_N; op++) {
            fill(&p, (enum dtype)dtype, 2);
            fold_into(0, NULL, (enum dtype)dtype, (enum reduce_op)op, 5, 0, 1000);
            unsigned was = _mm_getcsr();

            _mm_setcsr(ODD);
            fold_into(1, NULL, (enum dtype)dtype, (enum reduce_op)op, 5, 0, 1000);
            unsigned after = _mm_getcsr();

            _mm_setcsr(was);
            assert_int_equal(after, ODD);
            assert_memory_equal(results[0], results[1], sizeof(results[0]));
        }
    }
#else
    skip();
#endif
}

static void one_node_after_the_other_is_the_same_as_all_at_once(void **state)
{
    const void *in[] = {inputs[0], inputs[1], inputs[2], inputs[3]};
    struct prng p;

    prng_init(&p, 6);
    for (int dtype = 0; dtype < DTYPE_N; dtype++) {
        enum dtype d = (enum dtype)dtype;

        fill(&p, d, 0);
        reduce_fold(NULL, d, REDUCE_MEAN, 12, results[0], NULL, in, NULL, 4, N_MAX);
        reduce_pair(d, REDUCE_MEAN, inputs[0], inputs[0], inputs[1], N_MAX);
        reduce_pair(d, REDUCE_MEAN, inputs[2], inputs[2], inputs[3], N_MAX);
        reduce_pair(d, REDUCE_MEAN, results[1], inputs[0], inputs[2], N_MAX);
        reduce_fold(NULL, d, REDUCE_MEAN, 12, results[1], NULL, (const void *[]){results[1]}, NULL,
                    1, N_MAX);
        assert_memory_equal(results[1], results[0], N_MAX * dtype_size(d));
    }
}

/* ---- subtrees in the place of leaves ---- */

/* Cuts the tree over [lo, lo + n) into subtrees at random; their widths. */
static uint32_t cut(struct prng *p, uint32_t lo, uint32_t n, uint32_t *widths)
{
    uint32_t half = 1, left_n;

    while (half * 2 < n) {
        half *= 2;
    }
    if (n == 1 || prng_below(p, 4) == 0) {
        widths[0] = n;
        return 1;
    }
    left_n = cut(p, lo, half, widths);
    return left_n + cut(p, lo + half, n - half, widths + left_n);
}

/* Folds each subtree on its own, with reduce_pair() alone: what another rank would have done. */
static void fold_subtree(enum dtype dtype, enum reduce_op op, uint32_t lo, uint32_t n, size_t len,
                         uint8_t (*work)[N_MAX * 8 + 64])
{
    uint32_t half = 1;

    if (n == 1) {
        memcpy(work[lo], inputs[lo], sizeof(work[lo]));
        return;
    }
    while (half * 2 < n) {
        half *= 2;
    }
    fold_subtree(dtype, op, lo, half, len, work);
    fold_subtree(dtype, op, lo + half, n - half, len, work);
    reduce_pair(dtype, op, work[lo], work[lo], work[lo + half], len);
}

static void a_fold_over_subtrees_is_the_fold_over_their_leaves(void **state)
{
    static uint8_t work[ARRAY_LEN(inputs)][N_MAX * 8 + 64];
    uint32_t widths[ARRAY_LEN(inputs)];
    struct prng p;

    prng_init(&p, 7);
    for (int round = 0; round < 8 * DTYPE_N * REDUCE_OP_N; round++) {
        enum dtype dtype = (enum dtype)(round % DTYPE_N);
        enum reduce_op op = (enum reduce_op)(round / DTYPE_N % REDUCE_OP_N);
        uint32_t leaves_n = (uint32_t)prng_between(&p, 1, ARRAY_LEN(inputs));
        uint32_t parts_n = cut(&p, 0, leaves_n, widths);
        size_t len = prng_between(&p, 1, 2500);
        const void *in[ARRAY_LEN(inputs)];

        fill(&p, dtype, (unsigned)round % 3);
        fold_into(0, NULL, dtype, op, leaves_n, 0, len);
        for (uint32_t i = 0, lo = 0; i < parts_n; lo += widths[i++]) {
            fold_subtree(dtype, op, lo, widths[i], len, work);
            in[i] = work[lo];
        }
        for (unsigned s = 0; reduce_kernels(s) != NULL; s++) {
            memset(results[1], 0xa5, sizeof(results[1]));
            reduce_fold(reduce_kernels(s), dtype, op, leaves_n + 2, results[1], NULL, in, widths,
                        parts_n, len);
            if (memcmp(results[0], results[1], sizeof(results[0])) != 0) {
                fail_msg("%s: %s of %u %s in %u subtrees, %zu elements", reduce_kernels(s)->name,
                         reduce_op_name(op), leaves_n, dtype_name(dtype), parts_n, len);
            }
        }
    }
}

/* Multiplied and added in one pass, or in three that store what they have. */
static void leaves_are_added_as_if_each_were_multiplied_first(void **state)
{
    static const size_t LENGTHS[] = {0, 1, 7, 16, 33, 4999};
    static const uint64_t TIMES[] = {1, 3, 8, 1000003};
    struct prng p;

    (void)state;
    prng_init(&p, 9);
    for (unsigned round = 0; round < 4 * 3 * ARRAY_LEN(LENGTHS); round++) {
        enum dtype dtype = (enum dtype)(DTYPE_F32 + round % 4);
        size_t n = LENGTHS[round / 12];
        uint64_t a = TIMES[prng_below(&p, ARRAY_LEN(TIMES))];
        uint64_t b = TIMES[prng_below(&p, ARRAY_LEN(TIMES))];

        fill(&p, dtype, round / 4 % 3);
        reduce_times(dtype, a, results[0], inputs[0], n);
        reduce_times(dtype, b, results[1], inputs[1], n);
        reduce_pair(dtype, REDUCE_SUM, results[0], results[0], results[1], n);
        for (unsigned s = 0; reduce_kernels(s) != NULL; s++) {
            memcpy(results[2], inputs[0], sizeof(results[2]));
            reduce_kernels(s)->leaves[dtype](results[2], results[2], inputs[1], a, b, n);
            if (memcmp(results[0], results[2], n * dtype_size(dtype)) != 0) {
                fail_msg("%s: %zu of %s, times %d and %d", reduce_kernels(s)->name, n,
                         dtype_name(dtype), (int)a, (int)b);
            }
        }
        reduce_leaves(dtype, results[1], inputs[0], a, inputs[1], b, n);
        assert_memory_equal(results[0], results[1], n * dtype_size(dtype));
    }
}

/* Also one that is written past the caches, wherever it begins. */
static void every_copy_of_a_result_is_the_same(void **state)
{
    const void *in[ARRAY_LEN(inputs)];
    struct prng p;

    prng_init(&p, 8);
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++) {
        in[i] = inputs[i];
    }
    for (int round = 0; round < 4 * DTYPE_N * REDUCE_OP_N; round++) {
        enum dtype dtype = (enum dtype)(round % DTYPE_N);
        enum reduce_op op = (enum reduce_op)(round / DTYPE_N % REDUCE_OP_N);
        uint32_t k = (uint32_t)prng_between(&p, 1, ARRAY_LEN(inputs));
        size_t size = dtype_size(dtype), shift = size * prng_below(&p, 64 / size);
        size_t n = prng_below(&p, N_MAX);

        fill(&p, dtype, (unsigned)round % 3);
        fold_into(0, NULL, dtype, op, k, 0, n);
        memset(results[1], 0xa5, sizeof(results[1]));
        memset(results[2], 0xa5, sizeof(results[2]));
        (round % 2 == 0 ? reduce_fold : reduce_fold_far)(NULL, dtype, op, k + 2, results[1] + shift,
                                                         results[2], in, NULL, k, n);
        assert_memory_equal(results[2], results[0], sizeof(results[0]));
        assert_memory_equal(results[1] + shift, results[0], sizeof(results[0]) - shift);
        for (size_t i = 0; i < shift; i++) {
            assert_int_equal(results[1][i], 0xa5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(additions_follow_the_tree),
        cmocka_unit_test(halves_are_rounded_to_nearest_even),
        cmocka_unit_test(zeros_and_nan_have_their_order),
        cmocka_unit_test(integers_wrap_and_their_means_are_cut_off),
        cmocka_unit_test(a_result_may_take_the_place_of_an_input),
        cmocka_unit_test(a_callers_floating_point_unit_changes_nothing),
        cmocka_unit_test(one_node_after_the_other_is_the_same_as_all_at_once),
        cmocka_unit_test(a_fold_over_subtrees_is_the_fold_over_their_leaves),
        cmocka_unit_test(leaves_are_added_as_if_each_were_multiplied_first),
        cmocka_unit_test(every_copy_of_a_result_is_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
