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

/* MU_EDONE when nothing is left for this rank: in a last round of fewer elements than workers, that
 * is so for the highest ranks only. */
int shard_element(const struct shard *shard, uint32_t rank, uint32_t world, uint64_t *element_out);

/* The step was committed by `world` workers. */
void shard_advance(struct shard *shard, uint32_t world);

/* Rounds left in which each of `world` workers has an element. */
uint64_t shard_rounds(const struct shard *shard, uint32_t world);

#endif
