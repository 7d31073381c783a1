/* The kernels, built once for each instruction set with its flags (REDUCE_ISA names it). Plain
 * loops: the compiler makes vectors of them, without leave to change what they compute.
 *
 * One kernel folds up to eight inputs, so that a small tree needs no memory in between, and ends
 * with what a root has: the division of a mean, one form of NaN. That form does no harm
 * further down in a tree. */
#include "comm/reduce.h"

#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

/* `out` is apart from an input or the same, so elements can be done in any order. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define ANY_ORDER _Pragma("clang loop vectorize(assume_safety)")
#else
#define ANY_ORDER _Pragma("GCC ivdep")
#endif

/* ---- halves ---- */

static inline float float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static inline uint32_t bits_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static inline float bf16_wide(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

/* To nearest, ties to even; NaN in its form. Still a float. */
static inline float bf16_round(float f)
{
    uint32_t bits = bits_of(f);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;

    return float_of(f != f ? 0x7fc00000 : rounded);
}

static inline uint16_t bf16_narrow(float f)
{
    return (uint16_t)(bits_of(bf16_round(f)) >> 16);
}

/* Without branches, so that it can be made a vector. Subnormals are scaled by an exact product. */
static inline float f16_wide(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    float scaled = float_of(magnitude) * 0x1p+112f; /* exact: the exponents differ by 112 */
    uint32_t special = magnitude | 0x7f800000;      /* infinity and NaN */
    uint32_t bits = magnitude >= 0x0f800000 ? special : bits_of(scaled);

    return float_of(bits | sign);
}

static inline uint16_t f16_narrow(float f)
{
    uint32_t bits = bits_of(f);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    /* Normal: rebias, round in the bits that fall off. */
    uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    /* Subnormal: adding a half rounds at its last bit, to nearest even, and leaves it there. */
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
    uint32_t result = magnitude < 0x38800000 ? subnormal : normal;

    result = magnitude >= 0x477ff000 ? 0x7c00 : result; /* 65520 and more is infinity */
    result |= sign;
    return (uint16_t)(magnitude > 0x7f800000 ? 0x7e00 : result);
}

static inline float f16_round(float f)
{
    return f16_wide(f16_narrow(f));
}

/* ---- operations on one element ---- */

/* Of equals only zeros differ in their bits: -0 is min, +0 is max. */
#define EXTREME(name, type, uint, is_better, mix)                    \
    static inline type name(type a, type b)                          \
    {                                                                \
        type r = a is_better b ? a : b;                              \
        uint x, y;                                                   \
        memcpy(&x, &a, sizeof(x));                                   \
        memcpy(&y, &b, sizeof(y));                                   \
        x = x mix y;                                                 \
        type z;                                                      \
        memcpy(&z, &x, sizeof(z));                                   \
        r = a == b ? z : r;                                          \
        return a != a ? a : r; /* b's NaN: a is_better b is false */ \
    }

EXTREME(min_float, float, uint32_t, <, |)
EXTREME(max_float, float, uint32_t, >, &)
EXTREME(min_double, double, uint64_t, <, |)
EXTREME(max_double, double, uint64_t, >, &)

#define SAME(x) (x)
#define ADD(a, b) ((a) + (b))
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))

#define F32_END(x) ((x) != (x) ? __builtin_nanf("") : (x))
#define F64_END(x) ((x) != (x) ? __builtin_nan("") : (x))

/* ---- trees: V(k) is the element of input k ---- */

#define TREE_1(op, round) V(0)
#define TREE_2(op, round) op(V(0), V(1))
#define TREE_3(op, round) op(round(op(V(0), V(1))), V(2))
#define TREE_4(op, round) op(round(op(V(0), V(1))), round(op(V(2), V(3))))
#define TREE_8(op, round)                                       \
    op(round(op(round(op(V(0), V(1))), round(op(V(2), V(3))))), \
       round(op(round(op(V(4), V(5))), round(op(V(6), V(7))))))

/* The same for each number of inputs that there is a kernel for. */
#define EACH(make, ...)                                                                 \
    make(1, __VA_ARGS__) make(2, __VA_ARGS__) make(3, __VA_ARGS__) make(4, __VA_ARGS__) \
        make(8, __VA_ARGS__)

/* x0 … x7: where the inputs are, the last again for those that there are not. v0 … v7: an element
 * of each. What is not used costs nothing. */
#define INPUTS(k, memory)                                                                   \
    const memory *x0 = in[0], *x1 = in[MIN(1, k - 1)], *x2 = in[MIN(2, k - 1)],             \
                 *x3 = in[MIN(3, k - 1)], *x4 = in[MIN(4, k - 1)], *x5 = in[MIN(5, k - 1)], \
                 *x6 = in[MIN(6, k - 1)], *x7 = in[MIN(7, k - 1)]
#define ELEMENTS(type, load)                                                           \
    const type v0 = load(x0[i]), v1 = load(x1[i]), v2 = load(x2[i]), v3 = load(x3[i]), \
               v4 = load(x4[i]), v5 = load(x5[i]), v6 = load(x6[i]), v7 = load(x7[i]); \
    (void)v1, (void)v2, (void)v3, (void)v4, (void)v5, (void)v6, (void)v7
#define V(k) v##k

/* ---- loops ---- */

/* What a sum, a minimum and a maximum end with, and a mean: one division, of the rounded sum. */
#define WHOLE(r, round, by) (r)
#define DIVIDED(r, round, by) (round(r) / (by))

/* memory: an element in a buffer; type: what it is computed as; by: what it is divided by. */
#define FOLD(k, name, memory, type, by_type, wide, op, round, finish, end)            \
    static void name##k(void *out, const void *const *in, uint64_t divisor, size_t n) \
    {                                                                                 \
        memory *o = out;                                                              \
        const by_type by = (by_type)divisor;                                          \
        INPUTS(k, memory);                                                            \
        (void)by;                                                                     \
        ANY_ORDER                                                                     \
        for (size_t i = 0; i < n; i++) {                                              \
            ELEMENTS(type, wide);                                                     \
            const type r = (type)TREE_##k(op, round);                                 \
            o[i] = (memory)end(finish(r, round, by));                                 \
        }                                                                             \
    }

#define FLOATS(name, memory, type, wide, round, end)                                   \
    EACH(FOLD, sum_##name##_, memory, type, type, wide, ADD, round, WHOLE, end)        \
    EACH(FOLD, mean_##name##_, memory, type, type, wide, ADD, round, DIVIDED, end)     \
    EACH(FOLD, min_##name##_, memory, type, type, wide, min_##type, round, WHOLE, end) \
    EACH(FOLD, max_##name##_, memory, type, type, wide, max_##type, round, WHOLE, end)

/* Sums are unsigned, because they wrap; they are divided as what they stand for. */
#define INTEGERS(name, type, utype, finish)                                             \
    EACH(FOLD, sum_##name##_, utype, utype, int64_t, SAME, ADD, (utype), WHOLE, SAME)   \
    EACH(FOLD, mean_##name##_, utype, utype, int64_t, SAME, ADD, (utype), finish, SAME) \
    EACH(FOLD, min_##name##_, type, type, int64_t, SAME, LESS, SAME, WHOLE, SAME)       \
    EACH(FOLD, max_##name##_, type, type, int64_t, SAME, MORE, SAME, WHOLE, SAME)

#define DIVIDED_I32(r, round, by) ((int32_t)(r) / (by))
#define DIVIDED_I64(r, round, by) ((int64_t)(r) / (by))

FLOATS(f32, float, float, SAME, SAME, F32_END)
FLOATS(f64, double, double, SAME, SAME, F64_END)
INTEGERS(i32, int32_t, uint32_t, DIVIDED_I32)
INTEGERS(i64, int64_t, uint64_t, DIVIDED_I64)
INTEGERS(u8, uint8_t, uint8_t, DIVIDED)

/* ---- bf16, two at a time: each is the upper half of a word, or is moved there ---- */

FLOATS(rest_bf16, uint16_t, float, bf16_wide, bf16_round, bf16_narrow)

typedef uint32_t __attribute__((aligned(2), may_alias)) bf16_pair;

#define BF16_UPPER(x) float_of((x)&0xffff0000)
#define BF16_LOWER(x) float_of((x) << 16)

#define FOLD_PAIRS(k, name, op, finish)                                                      \
    static void name##bf16_##k(void *out, const void *const *in, uint64_t divisor, size_t n) \
    {                                                                                        \
        bf16_pair *o = out;                                                                  \
        const float by = (float)divisor;                                                     \
        INPUTS(k, bf16_pair);                                                                \
        (void)by;                                                                            \
        ANY_ORDER                                                                            \
        for (size_t i = 0; i < n / 2; i++) {                                                 \
            uint32_t upper, lower;                                                           \
            {                                                                                \
                ELEMENTS(float, BF16_UPPER);                                                 \
                const float r = TREE_##k(op, bf16_round);                                    \
                upper = bits_of(bf16_round(finish(r, bf16_round, by)));                      \
            }                                                                                \
            {                                                                                \
                ELEMENTS(float, BF16_LOWER);                                                 \
                const float r = TREE_##k(op, bf16_round);                                    \
                lower = bits_of(bf16_round(finish(r, bf16_round, by)));                      \
            }                                                                                \
            o[i] = upper | lower >> 16;                                                      \
        }                                                                                    \
        const size_t done = n / 2;                                                           \
        const void *rest[] = {x0 + done, x1 + done, x2 + done, x3 + done,                    \
                              x4 + done, x5 + done, x6 + done, x7 + done};                   \
        name##rest_bf16_##k(o + done, rest, divisor, n % 2);                                 \
    }

EACH(FOLD_PAIRS, sum_, ADD, WHOLE)
EACH(FOLD_PAIRS, mean_, ADD, DIVIDED)
EACH(FOLD_PAIRS, min_, min_float, WHOLE)
EACH(FOLD_PAIRS, max_, max_float, WHOLE)

/* ---- f16, eight at a time where the processor converts them ---- */

#ifdef __F16C__
FLOATS(rest_f16, uint16_t, float, f16_wide, f16_round, f16_narrow)

/* Its conversions round as ours do. */
static inline __m256 f16_load_8(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
}

static inline __m256 f16_round_8(__m256 v)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline void f16_store_8(uint16_t *x, __m256 v)
{
    const __m256 nan = _mm256_set1_ps(__builtin_nanf(""));

    v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    _mm_storeu_si128((__m128i *)(void *)x, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/* As EXTREME has it. */
#define EXTREME_8(name, better, mix)                                         \
    static inline __m256 name(__m256 a, __m256 b)                            \
    {                                                                        \
        __m256 r = better(a, b);                                             \
        r = _mm256_blendv_ps(r, mix(a, b), _mm256_cmp_ps(a, b, _CMP_EQ_OQ)); \
        return _mm256_blendv_ps(r, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));    \
    }

EXTREME_8(min_8, _mm256_min_ps, _mm256_or_ps)
EXTREME_8(max_8, _mm256_max_ps, _mm256_and_ps)

#define LOAD_8(x) f16_load_8(&(x))
#define DIVIDED_8(r, round, by) _mm256_div_ps(round(r), by)

#define FOLD_8(k, name, op, finish)                                                            \
    static void name##f16_##k(void *out, const void *const *in, uint64_t divisor, size_t n)    \
    {                                                                                          \
        uint16_t *o = out;                                                                     \
        const __m256 by = _mm256_set1_ps((float)divisor);                                      \
        size_t i = 0;                                                                          \
        INPUTS(k, uint16_t);                                                                   \
        (void)by;                                                                              \
        for (; i + 8 <= n; i += 8) {                                                           \
            ELEMENTS(__m256, LOAD_8);                                                          \
            const __m256 r = TREE_##k(op, f16_round_8);                                        \
            f16_store_8(o + i, finish(r, f16_round_8, by));                                    \
        }                                                                                      \
        const void *rest[] = {x0 + i, x1 + i, x2 + i, x3 + i, x4 + i, x5 + i, x6 + i, x7 + i}; \
        name##rest_f16_##k(o + i, rest, divisor, n - i);                                       \
    }

EACH(FOLD_8, sum_, _mm256_add_ps, WHOLE)
EACH(FOLD_8, mean_, _mm256_add_ps, DIVIDED_8)
EACH(FOLD_8, min_, min_8, WHOLE)
EACH(FOLD_8, max_, max_8, WHOLE)
#else
FLOATS(f16, uint16_t, float, f16_wide, f16_round, f16_narrow)
#endif

/* ---- multiplied: what a contribution is that stands for several ---- */

#define TIMES(r, round, by) ((r) * (by))

FOLD(1, times_f32_, float, float, float, SAME, ADD, SAME, TIMES, F32_END)
FOLD(1, times_f64_, double, double, double, SAME, ADD, SAME, TIMES, F64_END)
FOLD(1, times_bf16_, uint16_t, float, float, bf16_wide, ADD, SAME, TIMES, bf16_narrow)
FOLD(1, times_f16_, uint16_t, float, float, f16_wide, ADD, SAME, TIMES, f16_narrow)

/* Two of them added at once: what each is multiplied with is rounded first, as if it were stored.
 */
#define LEAVES(name, memory, type, wide, round, end)                                      \
    static void name(void *out, const void *left, const void *right, uint64_t left_times, \
                     uint64_t right_times, size_t n)                                      \
    {                                                                                     \
        memory *o = out;                                                                  \
        const memory *a = left, *b = right;                                               \
        const type by_a = (type)left_times, by_b = (type)right_times;                     \
        ANY_ORDER                                                                         \
        for (size_t i = 0; i < n; i++) {                                                  \
            const type x = round(wide(a[i]) * by_a), y = round(wide(b[i]) * by_b);        \
            o[i] = (memory)end(x + y);                                                    \
        }                                                                                 \
    }

LEAVES(leaves_f32, float, float, SAME, SAME, F32_END)
LEAVES(leaves_f64, double, double, SAME, SAME, F64_END)
LEAVES(leaves_bf16, uint16_t, float, bf16_wide, bf16_round, bf16_narrow)
LEAVES(leaves_f16, uint16_t, float, f16_wide, f16_round, f16_narrow)

/* ---- the table ---- */

extern const struct reduce_kernels PASTE(reduce_, REDUCE_ISA);

#define BY_ARITY(name)                                   \
    {                                                    \
        name##_1, name##_2, name##_3, name##_4, name##_8 \
    }
#define BY_DTYPE(op)                                                                     \
    {                                                                                    \
        BY_ARITY(op##_f32), BY_ARITY(op##_f64), BY_ARITY(op##_bf16), BY_ARITY(op##_f16), \
            BY_ARITY(op##_i32), BY_ARITY(op##_i64), BY_ARITY(op##_u8)                    \
    }

const struct reduce_kernels PASTE(reduce_, REDUCE_ISA) = {
    .name = TEXT(REDUCE_ISA),
    .fold = {BY_DTYPE(sum), BY_DTYPE(mean), BY_DTYPE(min), BY_DTYPE(max)},
    .times = {times_f32_1, times_f64_1, times_bf16_1, times_f16_1},
    .leaves = {leaves_f32, leaves_f64, leaves_bf16, leaves_f16},
};
