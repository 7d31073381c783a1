/* What a buffer is made of, and what is done with it. */
#ifndef COMM_DTYPE_H
#define COMM_DTYPE_H

#include "base/base.h"

enum dtype { DTYPE_F32, DTYPE_F64, DTYPE_BF16, DTYPE_F16, DTYPE_I32, DTYPE_I64, DTYPE_U8, DTYPE_N };

/* Sums of integers wrap. A mean is the sum divided once, by the number of contributions: that of
 * integers is cut off towards zero. Of min and max, NaN wins over all, and -0 is below +0. */
enum reduce_op { REDUCE_SUM, REDUCE_MEAN, REDUCE_MIN, REDUCE_MAX, REDUCE_OP_N };

static inline size_t dtype_size(enum dtype dtype)
{
    static const uint8_t sizes[DTYPE_N] = {4, 8, 2, 2, 4, 8, 1};

    return sizes[dtype];
}

const char *dtype_name(enum dtype dtype);
const char *reduce_op_name(enum reduce_op op);

#endif
