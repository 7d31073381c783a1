/* Which samples belong to which slice of which step: nothing but arithmetic, so the place in the
 * data is the step number and no list is ever kept. All of it is a promise: other values for the
 * same arguments would change the bits of every run.
 *
 * A step is named here by its index t >= 0, the number of steps committed before it: the first
 * update is t = 0, and committing it makes the job's step number t + 1. */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include "core/slices.h"

#define ORDER_SAMPLES_MAX (UINT64_C(1) << 48)
#define ORDER_ROUNDS_MAX 30

/* The permutation of one epoch, made ready by order_init. Plain data. */
struct order {
    uint64_t n;
    uint32_t hi_bits;
    uint32_t lo_bits;
    uint32_t rounds;
    uint64_t keys[ORDER_ROUNDS_MAX];
};

/* MU_EINVAL unless n is in [1, ORDER_SAMPLES_MAX]. */
int order_init(struct order *order, uint64_t seed, uint64_t epoch, uint64_t n);

/* The sample at a position: a bijection on [0, n). Constant memory; less than two evaluations of
 * the network on average (four if n = 1). */
uint64_t order_sample(const struct order *order, uint64_t position);

/* How a job walks its data. Every epoch has all samples once; its last batch may be smaller. */
struct order_walk {
    uint64_t samples_n; /* [1, ORDER_SAMPLES_MAX] */
    uint64_t batch_n;   /* global batch, [1, ORDER_SAMPLES_MAX] */
    uint64_t epochs_n;  /* 0: without end */
    uint32_t slices_n;  /* S */
};

/* MU_EINVAL if a field is out of its range. The functions below need a walk that passes. */
int order_walk_check(const struct order_walk *walk);

/* ceil(samples_n / batch_n) */
uint64_t order_steps_per_epoch(const struct order_walk *walk);

/* The number of steps of the job; UINT64_MAX if it has no end. */
uint64_t order_steps(const struct order_walk *walk);

/* Positions [first, first + n) of an epoch's order. */
struct order_span {
    uint64_t epoch;
    uint64_t first;
    uint64_t n; /* may be 0 */
};

/* The whole batch of step t. */
struct order_span order_batch(const struct order_walk *walk, uint64_t t);

/* Slice s of it: of a batch of b samples, those from floor(b * s / S) to floor(b * (s + 1) / S). */
struct order_span order_slice(const struct order_walk *walk, uint64_t t, uint32_t slice);

/* A seed for whatever is random inside slice s of step t (dropout, augmentation), the same wherever
 * it is computed. */
uint64_t order_seed(uint64_t seed, uint64_t t, uint32_t slice);

#endif
