/* Randomness for keys and ids. What has to be drawn again from a seed is prng.h's. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/base.h"

/* Fresh bytes of the system; never fails. */
void random_bytes(void *out, size_t n);

#endif
