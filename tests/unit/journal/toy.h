/* A machine of one's own: sixteen counters. */
#ifndef UNIT_JOURNAL_TOY_H
#define UNIT_JOURNAL_TOY_H

#include "wire/record.h"

#define TOY_ADD RECORD_OTHER
#define TOY_N 16

struct toy {
    uint64_t counter[TOY_N];
    uint64_t told_n, failed_n; /* volatile */
};

struct toy_add {
    uint32_t which, blob_n; /* as many bytes more, to make it long */
    uint64_t by;
};

extern const struct machine_type toy_machine; /* state: a struct toy; fx: it */
extern const struct codec toy_codec;

struct record toy_add(uint32_t which, uint64_t by, uint32_t blob_n);

#endif
