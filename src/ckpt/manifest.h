/* Between manifest.c and manifest_parse.c.
 *
 *   muster-checkpoint 1
 *   version 0.1.0
 *   job mnist
 *   run … saved_ms      the mark: a line each, in this order
 *   slices 8
 *   zstd 0
 *   bytes 4195328       of the state
 *   shards 2
 *   parts 2
 *   part 1024 bias      bytes, name
 *   part 4194304 weights
 *   chunks 2
 *   chunk 0 0 4194304 d41d…      shard, place in it, bytes there, xxh3-128
 *   chunk 1 0 1024 9e10…
 *   sha256 e3b0…        of all lines before
 *
 * A later format keeps the first line and the last. */
#ifndef CKPT_MANIFEST_H
#define CKPT_MANIFEST_H

#include "ckpt/file.h"

#define MANIFEST_FORMAT 1
#define MANIFEST_WORD "muster-checkpoint"

/* The numbers of a mark in the order of their lines; slices follow. */
#define MANIFEST_MARK(X) \
    X(run)               \
    X(generation)        \
    X(step)              \
    X(epoch)             \
    X(samples)           \
    X(offset)            \
    X(seed)              \
    X(data_n)            \
    X(batch)             \
    X(saved_ms)

/* Names, limits and sums. */
bool manifest_adds_up(const struct ckpt_manifest *m, struct ckpt_why *why);

#endif
