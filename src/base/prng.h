/* A small seeded generator (xoshiro256**) for simulation and jitter. Not for keys. */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include "base/base.h"

struct prng {
    uint64_t s[4];
};

void prng_init(struct prng *p, uint64_t seed);
uint64_t prng_u64(struct prng *p);

/* Uniform in [0, n); n > 0. */
uint64_t prng_below(struct prng *p, uint64_t n);

/* Uniform in [lo, hi], both included. */
uint64_t prng_between(struct prng *p, uint64_t lo, uint64_t hi);

/* One step of splitmix64: a good mixer of 64 bits. */
uint64_t prng_mix(uint64_t x);

#endif
