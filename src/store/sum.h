/* The checksums of the journal's files: XXH3-128 of (kind, previous sum, number, bytes). Chained by
 * the previous sum, so a row that is missing, swapped or from another time is noticed like one
 * whose bytes have changed. They guard against damage, not against an author of false rows. */
#ifndef STORE_SUM_H
#define STORE_SUM_H

#include "base/base.h"

#define SUM_BYTES 16

struct sum {
    unsigned char b[SUM_BYTES];
};

enum sum_kind {
    SUM_GENESIS = 1,  /* before record 1; previous: the store's id */
    SUM_RECORD = 2,   /* previous: the record before */
    SUM_SNAPSHOT = 3, /* before a snapshot's first row; previous: the last record it stands for */
    SUM_PART = 4,     /* one row of a snapshot */
    SUM_META = 5,
    SUM_HEAD = 6,
};

/* n bytes of data may be none. */
struct sum sum_next(enum sum_kind kind, struct sum previous, uint64_t number, const void *data,
                    size_t n);

bool sum_equal(struct sum a, struct sum b);

/* Little-endian, wherever. */
void sum_put_u64(unsigned char *to, uint64_t v);
uint64_t sum_get_u64(const unsigned char *from);

#endif
