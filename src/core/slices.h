/* A set of slices (a bitmap), and a subtree of them. Plain values: copied by assignment, no memory
 * of their own.
 *
 * A subtree is a node of the fixed binary tree over a job's S slices, S a power of two: the block
 * [lo, lo + width) where width is a power of two and lo a multiple of it. */
#ifndef CORE_SLICES_H
#define CORE_SLICES_H

#include "core/message.h"

#include <string.h>

struct slices {
    uint64_t bits[SLICES_MAX / 64];
};

struct subtree {
    uint32_t lo;
    uint32_t width; /* 0: none */
};

static inline void slices_clear(struct slices *set)
{
    memset(set, 0, sizeof(*set));
}

static inline void slices_add(struct slices *set, uint32_t slice)
{
    mu_assert(slice < SLICES_MAX);
    set->bits[slice / 64] |= UINT64_C(1) << (slice % 64);
}

static inline void slices_remove(struct slices *set, uint32_t slice)
{
    mu_assert(slice < SLICES_MAX);
    set->bits[slice / 64] &= ~(UINT64_C(1) << (slice % 64));
}

static inline bool slices_has(const struct slices *set, uint32_t slice)
{
    return slice < SLICES_MAX && (set->bits[slice / 64] >> (slice % 64) & 1) != 0;
}

static inline uint32_t slices_count(const struct slices *set)
{
    uint32_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(set->bits); i++) {
        n += (uint32_t)__builtin_popcountll(set->bits[i]);
    }
    return n;
}

/* The first slice of the set at or after `from`; SLICES_MAX if there is none. */
static inline uint32_t slices_next(const struct slices *set, uint32_t from)
{
    for (uint32_t i = from / 64; i < ARRAY_LEN(set->bits); i++) {
        uint64_t word = set->bits[i] & (i == from / 64 ? UINT64_MAX << (from % 64) : UINT64_MAX);
        if (word != 0) {
            return 64 * i + (uint32_t)__builtin_ctzll(word);
        }
    }
    return SLICES_MAX;
}

/* S is right: a power of two in [1, SLICES_MAX]. */
static inline bool slices_valid_n(uint32_t slices_n)
{
    return slices_n >= 1 && slices_n <= SLICES_MAX && (slices_n & (slices_n - 1)) == 0;
}

#endif
