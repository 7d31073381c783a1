/* Between shard.c, save.c and sums.c: what a writer leaves beside its shard. */
#ifndef CKPT_SUMS_H
#define CKPT_SUMS_H

#include "ckpt/file.h"

/* chunks: of this shard. */
int sums_write(const struct ckpt_target *t, const char *folder, uint32_t shard,
               const struct ckpt_chunk *chunks, uint32_t chunks_n, struct ckpt_why *why);

/* chunks: all there are; those of this shard are filled in. MU_EIO, MU_ENOMEM. */
int sums_read(const struct ckpt_target *t, const char *folder, uint32_t shard,
              struct ckpt_chunk *chunks, struct ckpt_why *why);

#endif
