/* Between the files of this folder: what the files of a shard are called. */
#ifndef CKPT_SHARD_H
#define CKPT_SHARD_H

#include "ckpt/file.h"

#define SHARD_SUMS ".sums"

/* FOLDER/shard-0007END */
int shard_path(struct path *p, const char *folder, uint32_t shard, const char *end,
               struct ckpt_why *why);

#endif
