/* Between load.c and export.c. */
#ifndef CKPT_LOAD_H
#define CKPT_LOAD_H

#include "ckpt/ckpt.h"

/* n bytes of the state from `at` on, verified. */
int load_range(struct ckpt *c, uint64_t at, uint64_t n, uint8_t *to, struct ckpt_why *why);

#endif
