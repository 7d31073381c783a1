/* The kernels, built once for each instruction set with its flags (REDUCE_ISA names it). Plain
 * loops: the compiler makes vectors of them, without leave to change what they compute. */
#include "comm/reduce.h"

#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

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

/* To nearest, ties to even. A NaN stays one: its form is given at the end. */
static inline uint16_t bf16_narrow(float f)
{
    uint32_t bits = bits_of(f);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t is_nan = (bits & 0x7fffffff) > 0x7f800000;

    return (uint16_t)(is_nan ? 0x7fc0 : rounded);
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
    result = magnitude > 0x7f800000 ? 0x7e00 : result;
    return (uint16_t)(result | sign);
}

/* ---- operations on one element ---- */

/* Of equals only zeros differ in their bits: -0 is min, +0 is max. */
#define MIN_BITS(name, type, uint)                           \
    static inline type PASTE(min_, name)(type a, type b)     \
    {                                                        \
        type r = a < b ? a : b;                              \
        uint x, y;                                           \
        memcpy(&x, &a, sizeof(x));                           \
        memcpy(&y, &b, sizeof(y));                           \
        x |= y;                                              \
        type z;                                              \
        memcpy(&z, &x, sizeof(z));                           \
        r = a == b ? z : r;                                  \
        return a != a ? a : r; /* b's NaN: a < b is false */ \
    }                                                        \
    static inline type PASTE(max_, name)(type a, type b)     \
    {                                                        \
        type r = a > b ? a : b;                              \
        uint x, y;                                           \
        memcpy(&x, &a, sizeof(x));                           \
        memcpy(&y, &b, sizeof(y));                           \
        x &= y;                                              \
        type z;                                              \
        memcpy(&z, &x, sizeof(z));                           \
        r = a == b ? z : r;                                  \
        return a != a ? a : r;                               \
    }

MIN_BITS(float, float, uint32_t)
MIN_BITS(double, double, uint64_t)

#define SAME(x) (x)
#define ADD(a, b) ((a) + (b))
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))

/* ---- loops ---- */

#define PAIR(name, type, wide, op, narrow)                              \
    static void name(void *out, const void *a, const void *b, size_t n) \
    {                                                                   \
        type *o = out;                                                  \
        const type *x = a, *y = b;                                      \
        for (size_t i = 0; i < n; i++) {                                \
            o[i] = (type)narrow(op(wide(x[i]), wide(y[i])));            \
        }                                                               \
    }

PAIR(sum_f32, float, SAME, ADD, SAME)
PAIR(min_f32, float, SAME, min_float, SAME)
PAIR(max_f32, float, SAME, max_float, SAME)
PAIR(sum_f64, double, SAME, ADD, SAME)
PAIR(min_f64, double, SAME, min_double, SAME)
PAIR(max_f64, double, SAME, max_double, SAME)
PAIR(sum_bf16, uint16_t, bf16_wide, ADD, bf16_narrow)
PAIR(min_bf16, uint16_t, bf16_wide, min_float, bf16_narrow)
PAIR(max_bf16, uint16_t, bf16_wide, max_float, bf16_narrow)
PAIR(sum_i32, uint32_t, SAME, ADD, SAME)
PAIR(min_i32, int32_t, SAME, LESS, SAME)
PAIR(max_i32, int32_t, SAME, MORE, SAME)
PAIR(sum_i64, uint64_t, SAME, ADD, SAME)
PAIR(min_i64, int64_t, SAME, LESS, SAME)
PAIR(max_i64, int64_t, SAME, MORE, SAME)
PAIR(sum_u8, uint8_t, SAME, ADD, SAME)
PAIR(min_u8, uint8_t, SAME, LESS, SAME)
PAIR(max_u8, uint8_t, SAME, MORE, SAME)

PAIR(rest_sum_f16, uint16_t, f16_wide, ADD, f16_narrow)
PAIR(rest_min_f16, uint16_t, f16_wide, min_float, f16_narrow)
PAIR(rest_max_f16, uint16_t, f16_wide, max_float, f16_narrow)

/* The processor's own conversions round as ours do; NaN is given its form at the end. */
#ifdef __F16C__
#define PAIR_F16(op, vector)                                                                   \
    static void PASTE(op, _f16)(void *out, const void *a, const void *b, size_t n)             \
    {                                                                                          \
        uint16_t *o = out;                                                                     \
        const uint16_t *x = a, *y = b;                                                         \
        size_t i = 0;                                                                          \
        for (; i + 8 <= n; i += 8) {                                                           \
            __m256 v = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)&x[i])); \
            __m256 w = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)&y[i])); \
            _mm_storeu_si128((__m128i *)(void *)&o[i],                                         \
                             _mm256_cvtps_ph(vector(v, w), _MM_FROUND_TO_NEAREST_INT));        \
        }                                                                                      \
        PASTE(PASTE(rest_, op), _f16)(&o[i], &x[i], &y[i], n - i);                             \
    }

static inline __m256 wide_min(__m256 a, __m256 b)
{
    __m256 r = _mm256_min_ps(a, b);

    r = _mm256_blendv_ps(r, _mm256_or_ps(a, b), _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
    return _mm256_blendv_ps(r, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

static inline __m256 wide_max(__m256 a, __m256 b)
{
    __m256 r = _mm256_max_ps(a, b);

    r = _mm256_blendv_ps(r, _mm256_and_ps(a, b), _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
    return _mm256_blendv_ps(r, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

PAIR_F16(sum, _mm256_add_ps)
PAIR_F16(min, wide_min)
PAIR_F16(max, wide_max)
#else
#define sum_f16 rest_sum_f16
#define min_f16 rest_min_f16
#define max_f16 rest_max_f16
#endif

/* ---- the root ---- */

/* One division, in the type (halves: in f32, then rounded once), and one form of NaN. */
#define END(name, type, wide, quotient, narrow, is_nan, nan)   \
    static void name(void *io, uint64_t divisor, size_t n)     \
    {                                                          \
        type *x = io;                                          \
        if (divisor != 1) {                                    \
            const quotient d = (quotient)divisor;              \
            for (size_t i = 0; i < n; i++) {                   \
                x[i] = (type)narrow((quotient)wide(x[i]) / d); \
            }                                                  \
        }                                                      \
        for (size_t i = 0; i < n; i++) {                       \
            x[i] = is_nan(x[i]) ? (type)(nan) : x[i];          \
        }                                                      \
    }

#define IS_NAN(x) ((x) != (x))
#define IS_NAN_BF16(x) (((x)&0x7fff) > 0x7f80)
#define IS_NAN_F16(x) (((x)&0x7fff) > 0x7c00)
#define NEVER_NAN(x) false

END(end_f32, float, SAME, float, SAME, IS_NAN, __builtin_nanf(""))
END(end_f64, double, SAME, double, SAME, IS_NAN, __builtin_nan(""))
END(end_bf16, uint16_t, bf16_wide, float, bf16_narrow, IS_NAN_BF16, 0x7fc0)
END(end_f16, uint16_t, f16_wide, float, f16_narrow, IS_NAN_F16, 0x7e00)

#define END_INTEGER(name, type)                            \
    static void name(void *io, uint64_t divisor, size_t n) \
    {                                                      \
        type *x = io;                                      \
        const int64_t d = (int64_t)divisor;                \
        for (size_t i = 0; d != 1 && i < n; i++) {         \
            x[i] = (type)(x[i] / d);                       \
        }                                                  \
    }

END_INTEGER(end_i32, int32_t)
END_INTEGER(end_i64, int64_t)
END_INTEGER(end_u8, uint8_t)

extern const struct reduce_kernels PASTE(reduce_, REDUCE_ISA);

#define ALL(op)                                                              \
    {                                                                        \
        op##_f32, op##_f64, op##_bf16, op##_f16, op##_i32, op##_i64, op##_u8 \
    }

const struct reduce_kernels PASTE(reduce_, REDUCE_ISA) = {
    .name = TEXT(REDUCE_ISA),
    .sum = ALL(sum),
    .min = ALL(min),
    .max = ALL(max),
    .end = ALL(end),
};
