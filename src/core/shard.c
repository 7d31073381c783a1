#include "core/shard.h"

static uint64_t left(const struct shard *shard)
{
    mu_assert(shard->offset <= shard->elements_n);
    return shard->elements_n - shard->offset;
}

int shard_element(const struct shard *shard, uint32_t rank, uint32_t world, uint64_t *element_out)
{
    mu_assert(rank < world);
    if (rank >= left(shard)) {
        return MU_EDONE;
    }
    *element_out = shard->offset + rank;
    return MU_OK;
}

void shard_advance(struct shard *shard, uint32_t world)
{
    shard->offset += MIN(world, left(shard));
}

uint64_t shard_rounds(const struct shard *shard, uint32_t world)
{
    mu_assert(world > 0);
    return left(shard) / world;
}
