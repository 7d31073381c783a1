#include "comm/reduce.h"

#include "comm/copy.h"

#include <fenv.h>
#include <string.h>

#ifdef REDUCE_X86
#include <cpuid.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* What is between the levels of the tree stays in the first-level cache, and is apart from inputs
 * that begin with a page. */
#define TILE_BYTES 4096u
#define TILE_ROOM (TILE_BYTES + 320)
#define PARTS_MAX 8
#define DEPTH_MAX 5 /* of a tree over REDUCE_INPUTS_MAX leaves, two levels at a time */

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

/* ---- the caller's floating-point unit ---- */

#ifdef __SSE2__
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

/* Some inputs in a row, and the leaves they stand for. */
struct range {
    uint32_t lo, n;
    uint32_t leaves_n;
};

struct fold {
    reduce_fold_fn *const *root, *const *inner; /* by enum reduce_arity */
    uint64_t divisor;
    const void *const *in;
    const uint32_t *widths; /* NULL: all 1 */
    struct range all;
    size_t offset; /* bytes, of the tile */
    size_t n;      /* elements of it */
    _Alignas(64) uint8_t result[TILE_ROOM];
    _Alignas(64) uint8_t tiles[DEPTH_MAX][PARTS_MAX][TILE_ROOM];
};

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

/* The two sides of each of some ranges, or itself if it has none. False: only itself, everywhere.
 */
static uint32_t split_all(const struct fold *f, const struct range *in, uint32_t n,
                          struct range *out)
{
    uint32_t out_n = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (in[i].n == 1) {
            out[out_n++] = in[i];
        } else {
            struct range left = left_of(f, in[i]);

            out[out_n++] = left;
            out[out_n++] = right_of(in[i], left);
        }
    }
    return out_n;
}

/* What a kernel can make this node of at once: eight below it if there are so many, or the two to
 * four of two levels. */
static enum reduce_arity parts_of(const struct fold *f, struct range r, struct range out[PARTS_MAX])
{
    struct range two[2], four[4];
    uint32_t two_n = split_all(f, &r, 1, two), four_n = split_all(f, two, two_n, four);

    if (four_n == 4 && split_all(f, four, 4, out) == PARTS_MAX) {
        return REDUCE_8;
    }
    if (four_n == 3 && two[0].n == 1) { /* The pair goes first; no operation minds. */
        memcpy(out, (struct range[]){four[1], four[2], four[0]}, 3 * sizeof(*out));
    } else {
        memcpy(out, four, four_n * sizeof(*out));
    }
    return (enum reduce_arity)(REDUCE_1 + four_n - 1);
}

static void fold_tile(struct fold *f, struct range r, unsigned depth, void *out)
{
    reduce_fold_fn *const *kernels = depth == 0 ? f->root : f->inner;
    struct range parts[PARTS_MAX];
    const void *in[PARTS_MAX];
    enum reduce_arity arity = parts_of(f, r, parts);
    uint32_t parts_n = arity == REDUCE_8 ? PARTS_MAX : (uint32_t)arity + 1;

    for (uint32_t i = 0; i < parts_n; i++) {
        if (parts[i].n == 1) {
            in[i] = (const uint8_t *)f->in[parts[i].lo] + f->offset;
        } else {
            mu_assert(depth < DEPTH_MAX);
            fold_tile(f, parts[i], depth + 1, f->tiles[depth][i]);
            in[i] = f->tiles[depth][i];
        }
    }
    kernels[arity](out, in, f->divisor, f->n);
}

static uint32_t leaves_of(const uint32_t *widths, uint32_t k)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < k && widths != NULL; i++) {
        n += widths[i];
    }
    return widths != NULL ? n : k;
}

/* ---- all tiles ---- */

static void fold_init(struct fold *f, const struct reduce_kernels *kernels, enum dtype dtype,
                      enum reduce_op op)
{
    const struct reduce_kernels *use = kernels != NULL ? kernels : best();

    f->root = use->fold[op][dtype];
    f->inner = use->fold[op == REDUCE_MEAN ? REDUCE_SUM : op][dtype];
}

/* far: the result is made in a tile and goes on from there. */
static void fold_all(struct fold *f, size_t size, size_t n, bool far, uint8_t *out, uint8_t *also)
{
    const size_t tile_n = TILE_BYTES / size;

    for (size_t at = 0; at < n; at += tile_n) {
        uint8_t *result = far ? f->result : out + at * size;
        size_t bytes;

        f->offset = at * size;
        f->n = MIN(tile_n, n - at);
        bytes = f->n * size;
        fold_tile(f, f->all, 0, result);
        if (far) {
            copy_far(out + at * size, result, bytes);
        }
        if (also != NULL) {
            copy_far(also + at * size, result, bytes);
        }
    }
}

static void fold_any(const struct reduce_kernels *kernels, enum dtype dtype, enum reduce_op op,
                     uint64_t divisor, const void *const *in, const uint32_t *widths, uint32_t k,
                     size_t n, bool far, void *out, void *also)
{
    struct fold f;
    fp_state was = fp_enter();

    fold_init(&f, kernels, dtype, op);
    f.divisor = divisor;
    f.in = in;
    f.widths = widths;
    f.all = (struct range){0, k, leaves_of(widths, k)};
    mu_assert(k >= 1 && f.all.leaves_n <= REDUCE_INPUTS_MAX && divisor >= 1);
    fold_all(&f, dtype_size(dtype), n, far, out, also);
    if (far || also != NULL) {
        copy_far_done();
    }
    fp_leave(was);
}

void reduce_fold(const struct reduce_kernels *kernels, enum dtype dtype, enum reduce_op op,
                 uint64_t divisor, void *out, void *also, const void *const *in,
                 const uint32_t *widths, uint32_t k, size_t n)
{
    fold_any(kernels, dtype, op, divisor, in, widths, k, n, false, out, also);
}

void reduce_fold_far(const struct reduce_kernels *kernels, enum dtype dtype, enum reduce_op op,
                     uint64_t divisor, void *out, void *also, const void *const *in,
                     const uint32_t *widths, uint32_t k, size_t n)
{
    fold_any(kernels, dtype, op, divisor, in, widths, k, n, true, out, also);
}

void reduce_pair(enum dtype dtype, enum reduce_op op, void *out, const void *a, const void *b,
                 size_t n)
{
    struct fold f;
    fp_state was = fp_enter();

    fold_init(&f, NULL, dtype, op);
    f.inner[REDUCE_2](out, (const void *[]){a, b}, 1, n);
    fp_leave(was);
}

void reduce_times(enum dtype dtype, uint64_t factor, void *out, const void *in, size_t n)
{
    fp_state was = fp_enter();

    mu_assert(best()->times[dtype] != NULL);
    best()->times[dtype](out, (const void *[]){in}, factor, n);
    fp_leave(was);
}

void reduce_leaves(enum dtype dtype, void *out, const void *left, uint64_t left_times,
                   const void *right, uint64_t right_times, size_t n)
{
    fp_state was = fp_enter();

    mu_assert(best()->leaves[dtype] != NULL);
    best()->leaves[dtype](out, left, right, left_times, right_times, n);
    fp_leave(was);
}
