/* One element of a list per worker and step, whatever the world's size: the worker of rank r takes
 * element offset + r; when the step is committed the offset grows by the world's size. The offset
 * is part of the job's state, so a step that is done again by fewer workers loses no element and
 * repeats none that counted. */
#ifndef CORE_SHARD_H
#define CORE_SHARD_H

#include "base/base.h"

struct shard {
    uint64_t elements_n;
    uint64_t offset; /* the first element that no committed step has taken */
};

/* The step was committed by `world` workers. */
void shard_advance(struct shard *shard, uint32_t world);

#endif
