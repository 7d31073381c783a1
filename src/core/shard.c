#include "core/shard.h"

void shard_advance(struct shard *shard, uint32_t world)
{
    mu_assert(shard->offset <= shard->elements_n);
    shard->offset += MIN(world, shard->elements_n - shard->offset);
}
