/* The sum of a chunk as it is stored: xxh3-128, the fastest that this processor has. */
#ifndef CKPT_SUM_H
#define CKPT_SUM_H

#include "ckpt/ckpt.h"

/* Of bytes that are all there. */
void sum_of(const void *data, size_t n, uint8_t sum_out[CKPT_SUM_BYTES]);

/* The sum of bytes that come piece by piece. */
struct sum_state;

/* NULL: no memory. */
struct sum_state *sum_open(void);
void sum_close(struct sum_state *s);

void sum_begin(struct sum_state *s);
void sum_add(struct sum_state *s, const void *data, size_t n);
void sum_end(struct sum_state *s, uint8_t sum_out[CKPT_SUM_BYTES]);

#endif
