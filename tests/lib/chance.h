#ifndef LIB_CHANCE_H
#define LIB_CHANCE_H

#include "base/prng.h"

/* True with probability ppm / 1,000,000. */
static inline bool prng_chance(struct prng *p, uint32_t ppm)
{
    return prng_below(p, 1000000) < ppm;
}

#endif
