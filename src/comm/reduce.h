/* Adding buffers, always in the same order and to the same bits.
 *
 * The order is a binary tree over the k contributions: [0, k) is split at the largest power of two
 * below k, each side is folded, then the two are added. Every node has the buffer's type: bf16 and
 * f16 are widened for one addition and rounded to nearest even. A NaN in a result has one form,
 * whatever it came from. So the bits depend on the contributions and their numbers alone: not on
 * the instruction set, the length, the alignment, or how the caller has set up its floating-point
 * unit (flush to zero, rounding). */
#ifndef COMM_REDUCE_H
#define COMM_REDUCE_H

#include "comm/dtype.h"

#define REDUCE_INPUTS_MAX 1024

/* Some inputs, folded along their tree, and n elements of each: 0, (0 1), (0 1) 2, (0 1) (2 3), or
 * eight. `out` is one of them or overlaps none. Divides if it is a mean; NaN gets its form. */
typedef void reduce_fold_fn(void *out, const void *const *in, uint64_t divisor, size_t n);

/* out = left * left_times + right * right_times; `out` is one of them or overlaps none. */
typedef void reduce_leaves_fn(void *out, const void *left, const void *right, uint64_t left_times,
                              uint64_t right_times, size_t n);

enum reduce_arity { REDUCE_1, REDUCE_2, REDUCE_3, REDUCE_4, REDUCE_8, REDUCE_ARITY_N };

/* What one instruction set has. */
struct reduce_kernels {
    const char *name; /* "portable", "avx2", "avx512" */
    reduce_fold_fn *fold[REDUCE_OP_N][DTYPE_N][REDUCE_ARITY_N];
    reduce_fold_fn *times[DTYPE_N]; /* one input, multiplied; NULL: not of integers */
    reduce_leaves_fn *leaves[DTYPE_N];
};

/* All that were built, and can run here: the best first. NULL after the last. */
const struct reduce_kernels *reduce_kernels(unsigned i);

/* out = the fold of in[0] … in[k - 1], n elements each. divisor: REDUCE_MEAN divides by it; others
 * ignore it. `kernels` NULL: the best. `also` (NULL: none) gets the same as out, past the
 * caches: it is for others to read (copy.h). widths (NULL: all 1): input i stands for so many
 * leaves of the tree, whose own sum it is: the tree is that over all leaves, and no input straddles
 * one of its splits. Nothing is read after it was overwritten if out is in[i]; otherwise out and
 * also overlap nothing. k from 1 to REDUCE_INPUTS_MAX. */
void reduce_fold(const struct reduce_kernels *kernels, enum dtype dtype, enum reduce_op op,
                 uint64_t divisor, void *out, void *also, const void *const *in,
                 const uint32_t *widths, uint32_t k, size_t n);

/* The same for an `out` that is larger than the caches and not read soon: it is written past them
 * where the processor can do that. It overlaps nothing. */
void reduce_fold_far(const struct reduce_kernels *kernels, enum dtype dtype, enum reduce_op op,
                     uint64_t divisor, void *out, void *also, const void *const *in,
                     const uint32_t *widths, uint32_t k, size_t n);

/* One node of the tree: out = a op b, without the division that only the root has. `out` may be a
 * or b. */
void reduce_pair(enum dtype dtype, enum reduce_op op, void *out, const void *a, const void *b,
                 size_t n);
/* out = in * factor, one multiplication in the type; `out` may be `in`. Floating point only. */
void reduce_times(enum dtype dtype, uint64_t factor, void *out, const void *in, size_t n);
/* The same bits as reduce_times() of both and then the reduce_pair() of their sum, in one pass.
 * `out` may be left or right. Floating point only. */
void reduce_leaves(enum dtype dtype, void *out, const void *left, uint64_t left_times,
                   const void *right, uint64_t right_times, size_t n);

#endif
