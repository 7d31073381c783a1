/* What a reduction has to give, element by element, as plainly as can be: one process, no vectors,
 * written from the definitions in comm/reduce.h and comm/dtype.h and from nothing else. */
#ifndef COMM_REFERENCE_H
#define COMM_REFERENCE_H

#include "comm/dtype.h"

/* out[i] for i in [from, to) = the fold of in[0][i] … in[k - 1][i] along the tree, divided if
 * it is a mean. The caller's floating-point unit must be as it is by default. */
void reference_fold(enum dtype dtype, enum reduce_op op, uint64_t divisor, void *out,
                    const void *const *in, uint32_t k, size_t from, size_t to);

/* Fills with numbers that are a function of the seed: `taste` 0 any bits, 1 ordinary numbers, 2
 * tiny ones and zeros of both signs, 3 some of each, with infinities and NaN. */
#define REFERENCE_TASTES 4
void reference_fill(enum dtype dtype, unsigned taste, uint64_t seed, void *out, size_t n);

/* A hash of bytes, to see whether they were changed. */
uint64_t reference_hash(const void *data, size_t n);

#endif
