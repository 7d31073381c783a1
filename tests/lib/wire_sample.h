#ifndef LIB_WIRE_SAMPLE_H
#define LIB_WIRE_SAMPLE_H

#include "base/prng.h"
#include "wire/wire.h"

/* Fills *msg with valid values from p: test data and fuzz seeds. Lists and blobs get up
 * to list_max elements, all from the scratch; MU_ELIMIT when that is full. */
int wire_sample(enum wire_type type, struct prng *p, uint32_t list_max, union wire_any *msg,
                struct wire_scratch *scratch);

#endif
