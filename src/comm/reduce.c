#include "comm/reduce.h"

#include <fenv.h>
#include <string.h>

#ifdef REDUCE_X86
#include <cpuid.h>
#endif
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* One tile of every level of the tree stays in the first-level cache. */
#define TILE_BYTES 4096u
#define DEPTH_MAX 11 /* of a tree over REDUCE_INPUTS_MAX leaves, and one */

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[DTYPE_N] = {"f32", "f64", "bf16", "f16", "i32", "i64", "u8"};

    return dtype < DTYPE_N ? names[dtype] : "unknown";
}

const char *reduce_op_name(enum reduce_op op)
{
    static const char *const names[REDUCE_OP_N] = {"sum", "mean", "min", "max"};

    return op < REDUCE_OP_N ? names[op] : "unknown";
}

/* ---- which kernels ---- */

extern const struct reduce_kernels reduce_portable;

#ifdef REDUCE_X86
extern const struct reduce_kernels reduce_avx2, reduce_avx512;

/* Not every compiler's __builtin_cpu_supports() knows it. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

const struct reduce_kernels *reduce_kernels(unsigned i)
{
    const struct reduce_kernels *list[4] = {NULL};
    unsigned n = 0;

    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && has_f16c()) {
        list[n++] = &reduce_avx512;
    }
    if (__builtin_cpu_supports("avx2") && has_f16c()) {
        list[n++] = &reduce_avx2;
    }
    list[n++] = &reduce_portable;
    return i < n ? list[i] : NULL;
}
#else
const struct reduce_kernels *reduce_kernels(unsigned i)
{
    return i == 0 ? &reduce_portable : NULL;
}
#endif

static const struct reduce_kernels *best(void)
{
    static const struct reduce_kernels *found; /* Whoever comes first finds the same. */
    const struct reduce_kernels *k = __atomic_load_n(&found, __ATOMIC_RELAXED);

    if (k == NULL) {
        k = reduce_kernels(0);
        __atomic_store_n(&found, k, __ATOMIC_RELAXED);
    }
    return k;
}

static reduce_pair_fn *pair_of(const struct reduce_kernels *k, enum dtype dtype, enum reduce_op op)
{
    return op == REDUCE_MIN ? k->min[dtype] : op == REDUCE_MAX ? k->max[dtype] : k->sum[dtype];
}

/* ---- the caller's floating-point unit ---- */

#ifdef __SSE__
#define MXCSR_DEFAULT 0x1f80u /* to nearest, nothing flushed, nothing trapped */

typedef unsigned fp_state;

static fp_state fp_enter(void)
{
    fp_state was = _mm_getcsr();

    _mm_setcsr(MXCSR_DEFAULT);
    return was;
}

static void fp_leave(fp_state was)
{
    _mm_setcsr(was);
}
#else
typedef fenv_t fp_state;

static fp_state fp_enter(void)
{
    fp_state was;

    fegetenv(&was);
    fesetenv(FE_DFL_ENV);
    return was;
}

static void fp_leave(fp_state was)
{
    fesetenv(&was);
}
#endif

/* ---- the tree ---- */

struct fold {
    reduce_pair_fn *pair;
    const void *const *in;
    const uint32_t *widths; /* NULL: all 1 */
    size_t offset;          /* bytes, of the tile */
    size_t n;               /* elements of it */
    _Alignas(64) uint8_t tiles[DEPTH_MAX][2][TILE_BYTES];
};

/* Some inputs in a row, and the leaves they stand for. */
struct range {
    uint32_t lo, n;
    uint32_t leaves_n;
};

static const void *leaf(const struct fold *f, uint32_t i)
{
    return (const uint8_t *)f->in[i] + f->offset;
}

/* The left part: as many leaves as the largest power of two below all of them. */
static struct range left_of(const struct fold *f, struct range r)
{
    struct range left = {r.lo, 0, 1u << (31 - __builtin_clz(r.leaves_n - 1))};
    uint32_t leaves_n = 0;

    if (f->widths == NULL) {
        left.n = left.leaves_n;
        return left;
    }
    while (leaves_n < left.leaves_n) {
        leaves_n += f->widths[left.lo + left.n++];
    }
    mu_assert(leaves_n == left.leaves_n);
    return left;
}

static struct range right_of(struct range r, struct range left)
{
    return (struct range){r.lo + left.n, r.n - left.n, r.leaves_n - left.leaves_n};
}

/* The fold of a range: an input's own tile, or one of ours at this depth and side. */
static const void *node(struct fold *f, struct range r, unsigned depth, unsigned side)
{
    struct range left;
    const void *a, *b;

    if (r.n == 1) {
        return leaf(f, r.lo);
    }
    left = left_of(f, r);
    a = node(f, left, depth + 1, 0);
    b = node(f, right_of(r, left), depth + 1, 1);
    f->pair(f->tiles[depth][side], a, b, f->n);
    return f->tiles[depth][side];
}

static void fold_tile(struct fold *f, void *out, struct range all)
{
    struct range left = left_of(f, all);
    const void *a = node(f, left, 1, 0);
    const void *b = node(f, right_of(all, left), 1, 1);

    f->pair(out, a, b, f->n);
}

static uint32_t leaves_of(const uint32_t *widths, uint32_t k)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < k && widths != NULL; i++) {
        n += widths[i];
    }
    return widths != NULL ? n : k;
}

void reduce_fold(const struct reduce_kernels *kernels, enum dtype dtype, enum reduce_op op,
                 uint64_t divisor, void *out, void *also, const void *const *in,
                 const uint32_t *widths, uint32_t k, size_t n)
{
    const struct reduce_kernels *use = kernels != NULL ? kernels : best();
    const size_t size = dtype_size(dtype), tile_n = TILE_BYTES / size;
    const struct range all = {0, k, leaves_of(widths, k)};
    struct fold f;
    fp_state was = fp_enter();

    mu_assert(k >= 1 && all.leaves_n <= REDUCE_INPUTS_MAX && divisor >= 1);
    f.pair = pair_of(use, dtype, op);
    f.in = in;
    f.widths = widths;
    for (size_t at = 0; at < n; at += tile_n) {
        uint8_t *to = (uint8_t *)out + at * size;

        f.offset = at * size;
        f.n = MIN(tile_n, n - at);
        if (k > 1) {
            fold_tile(&f, to, all);
        } else if (to != leaf(&f, 0)) {
            memcpy(to, leaf(&f, 0), f.n * size);
        }
        use->end[dtype](to, op == REDUCE_MEAN ? divisor : 1, f.n);
        if (also != NULL) {
            memcpy((uint8_t *)also + at * size, to, f.n * size);
        }
    }
    fp_leave(was);
}

void reduce_pair(enum dtype dtype, enum reduce_op op, void *out, const void *a, const void *b,
                 size_t n)
{
    fp_state was = fp_enter();

    pair_of(best(), dtype, op)(out, a, b, n);
    fp_leave(was);
}

void reduce_end(enum dtype dtype, enum reduce_op op, uint64_t divisor, void *io, size_t n)
{
    fp_state was = fp_enter();

    best()->end[dtype](io, op == REDUCE_MEAN ? divisor : 1, n);
    fp_leave(was);
}
