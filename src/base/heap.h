/* A binary min-heap of (key, value) in the caller's storage: deadlines, mostly.
 * Ties leave in the order of their values, so a run is the same everywhere. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/base.h"

struct heap_item {
    uint64_t key;
    uint32_t value;
};

struct heap {
    struct heap_item *items; /* borrowed for the heap's life */
    uint32_t n;
    uint32_t cap;
};

void heap_init(struct heap *h, struct heap_item *items, uint32_t cap);

/* Asserts that there is room: the caller's bound is the heap's. */
void heap_push(struct heap *h, uint64_t key, uint32_t value);

/* NULL when empty; valid until the next push or pop. */
const struct heap_item *heap_top(const struct heap *h);

void heap_pop(struct heap *h);

#endif
