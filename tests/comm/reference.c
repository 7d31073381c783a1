#include "comm/reference.h"

#include "base/prng.h"

#include <math.h>
#include <string.h>

/* ---- halves, by arithmetic ---- */

struct half {
    int digits; /* of the significand, the hidden one included */
    int bias;
    int most; /* of the exponent field */
};

static const struct half BF16 = {8, 127, 255}, F16 = {11, 15, 31};

static double half_widen(const struct half *h, uint16_t bits)
{
    const int field = bits >> (h->digits - 1) & h->most;
    const int low = bits & ((1 << (h->digits - 1)) - 1);
    double v;

    if (field == h->most) {
        v = low == 0 ? INFINITY : NAN;
    } else if (field == 0) {
        v = ldexp(low, 2 - h->bias - h->digits);
    } else {
        v = ldexp(low + (1 << (h->digits - 1)), field - h->bias - h->digits + 1);
    }
    return bits >> 15 ? -v : v;
}

static uint16_t half_narrow(const struct half *h, double v)
{
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    const int hidden = 1 << (h->digits - 1);
    double units;
    int e, field, whole;

    if (isnan(v)) {
        return (uint16_t)(h->most << (h->digits - 1) | hidden >> 1);
    }
    v = fabs(v);
    if (v == 0) {
        return sign;
    }
    if (isinf(v)) {
        return (uint16_t)(sign | h->most << (h->digits - 1));
    }
    frexp(v, &e); /* v in [2^(e-1), 2^e) */
    field = e - 1 + h->bias;
    if (field < 1) {
        field = 1; /* Below it all have the same unit. */
    }
    units = ldexp(v, -(field - h->bias - h->digits + 1));
    whole = (int)units;
    if (units - whole > 0.5 || (units - whole == 0.5 && whole % 2 == 1)) {
        whole++;
    }
    if (whole == 2 * hidden) {
        whole = hidden;
        field++;
    }
    if (whole < hidden) {
        field = 0; /* subnormal, or zero */
    }
    if (field >= h->most) {
        return (uint16_t)(sign | h->most << (h->digits - 1));
    }
    return (uint16_t)(sign | field << (h->digits - 1) | (whole & (hidden - 1)));
}

/* ---- one value of any type ---- */

struct value {
    double d;  /* halves, f64 */
    float f;   /* f32 */
    int64_t i; /* integers */
};

static struct value get(enum dtype dtype, const void *from, size_t i)
{
    const uint8_t *at = (const uint8_t *)from + i * dtype_size(dtype);
    struct value v = {0, 0, 0};
    uint16_t h;
    int32_t w;

    switch (dtype) {
    case DTYPE_F32:
        memcpy(&v.f, at, 4);
        break;
    case DTYPE_F64:
        memcpy(&v.d, at, 8);
        break;
    case DTYPE_BF16:
    case DTYPE_F16:
        memcpy(&h, at, 2);
        v.d = half_widen(dtype == DTYPE_F16 ? &F16 : &BF16, h);
        break;
    case DTYPE_I32:
        memcpy(&w, at, 4);
        v.i = w;
        break;
    case DTYPE_I64:
        memcpy(&v.i, at, 8);
        break;
    default:
        v.i = *at;
        break;
    }
    return v;
}

/* As it is once it has been stored: every node of the tree has the buffer's type. */
static struct value stored(enum dtype dtype, struct value v)
{
    if (dtype == DTYPE_BF16 || dtype == DTYPE_F16) {
        const struct half *h = dtype == DTYPE_F16 ? &F16 : &BF16;

        v.d = half_widen(h, half_narrow(h, v.d));
    } else if (dtype == DTYPE_I32) {
        v.i = (int32_t)(uint32_t)v.i;
    } else if (dtype == DTYPE_U8) {
        v.i = (uint8_t)v.i;
    }
    return v;
}

static void put(enum dtype dtype, void *to, size_t i, struct value v)
{
    uint8_t *at = (uint8_t *)to + i * dtype_size(dtype);
    uint32_t nan32 = 0x7fc00000;
    uint64_t nan64 = UINT64_C(0x7ff8000000000000);
    uint16_t h;

    switch (dtype) {
    case DTYPE_F32:
        memcpy(at, isnan(v.f) ? (void *)&nan32 : (void *)&v.f, 4);
        break;
    case DTYPE_F64:
        memcpy(at, isnan(v.d) ? (void *)&nan64 : (void *)&v.d, 8);
        break;
    case DTYPE_BF16:
    case DTYPE_F16:
        h = half_narrow(dtype == DTYPE_F16 ? &F16 : &BF16, v.d);
        memcpy(at, &h, 2);
        break;
    case DTYPE_I32: {
        int32_t w = (int32_t)v.i;
        memcpy(at, &w, 4);
        break;
    }
    case DTYPE_I64:
        memcpy(at, &v.i, 8);
        break;
    default:
        *at = (uint8_t)v.i;
        break;
    }
}

/* ---- the tree ---- */

static double pick(double a, double b, bool least)
{
    if (isnan(a) || isnan(b)) {
        return NAN;
    }
    if (a == b) {
        return (signbit(a) != 0) == least ? a : b; /* -0 is below +0 */
    }
    return (a < b) == least ? a : b;
}

static struct value join(enum dtype dtype, enum reduce_op op, struct value a, struct value b)
{
    struct value v;

    if (op == REDUCE_MIN || op == REDUCE_MAX) {
        const bool least = op == REDUCE_MIN;

        v.d = pick(a.d, b.d, least);
        v.f = (float)pick(a.f, b.f, least);
        v.i = (a.i < b.i) == least ? a.i : b.i;
        return v;
    }
    v.d = a.d + b.d;
    v.f = a.f + b.f;
    v.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i);
    return stored(dtype, v);
}

static struct value node(enum dtype dtype, enum reduce_op op, const struct value *leaves,
                         uint32_t k)
{
    uint32_t left = 1;

    if (k == 1) {
        return leaves[0];
    }
    while (2 * left < k) {
        left *= 2;
    }
    return join(dtype, op, node(dtype, op, leaves, left), node(dtype, op, leaves + left, k - left));
}

void reference_fold(enum dtype dtype, enum reduce_op op, uint64_t divisor, void *out,
                    const void *const *in, uint32_t k, size_t from, size_t to)
{
    struct value leaves[1024], sum;

    mu_assert(k >= 1 && k <= ARRAY_LEN(leaves));
    for (size_t i = from; i < to; i++) {
        for (uint32_t j = 0; j < k; j++) {
            leaves[j] = get(dtype, in[j], i);
        }
        sum = node(dtype, op, leaves, k);
        if (op == REDUCE_MEAN) {
            sum.d /= (double)divisor;
            sum.f /= (float)divisor;
            sum.i /= (int64_t)divisor;
        }
        put(dtype, out, i, sum);
    }
}

/* ---- numbers to add ---- */

static uint64_t with_taste(enum dtype dtype, unsigned taste, uint64_t word)
{
    static const uint64_t TINY[] = {UINT64_C(0x80ffffff80ffffff), UINT64_C(0x800fffffffffffff),
                                    UINT64_C(0x81ff81ff81ff81ff), UINT64_C(0x87ff87ff87ff87ff)};
    double d = (double)(int64_t)word / 0x1p+60;
    float f = (float)d;
    uint64_t quarters = 0;

    if (taste == 0 || dtype > DTYPE_F16) {
        return word;
    }
    if (taste == 2) {
        return word & TINY[dtype];
    }
    if (dtype == DTYPE_F64) {
        memcpy(&word, &d, 8);
        return word;
    }
    if (dtype == DTYPE_F32) {
        float g = (float)(int32_t)word / 0x1p+28f;

        memcpy(&quarters, &f, 4);
        memcpy((uint8_t *)&quarters + 4, &g, 4);
        return quarters;
    }
    for (int i = 0; i < 4; i++) {
        double q = (double)(int16_t)(word >> 16 * i) / 0x1p+12;

        quarters |= (uint64_t)half_narrow(dtype == DTYPE_F16 ? &F16 : &BF16, q) << 16 * i;
    }
    return quarters;
}

void reference_fill(enum dtype dtype, unsigned taste, uint64_t seed, void *out, size_t n)
{
    const size_t bytes = n * dtype_size(dtype);
    uint64_t word, state = prng_mix(seed);

    for (size_t at = 0; at < bytes; at += 8) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        word = prng_mix(state);
        word = with_taste(dtype, taste == 3 ? (unsigned)(word >> 7 & 3) % 3 : taste, word);
        memcpy((uint8_t *)out + at, &word, MIN(8, bytes - at));
    }
}

uint64_t reference_hash(const void *data, size_t n)
{
    const uint8_t *at = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ n, word;

    for (; n >= 8; n -= 8, at += 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    for (; n > 0; n--, at++) {
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    }
    return hash;
}
