/* Between load.c, read.c and export.c: a checkpoint that is open. */
#ifndef CKPT_LOAD_H
#define CKPT_LOAD_H

#include "ckpt/file.h"

#define LOAD_NONE UINT32_MAX

struct ckpt {
    struct ckpt_manifest m;
    struct path folder; /* or what the source calls itself */
    bool sourced;       /* there are no files: the source is read */
    struct ckpt_source source;
    uint32_t shard; /* whose file is open; LOAD_NONE: none is */
    int fd;
    struct ahead *ahead; /* NULL: files are read in the plain way */
    struct sum_state *sum;
    uint32_t held_chunk; /* that `held` has; LOAD_NONE: none */
    uint8_t *held;       /* these three: room for a chunk, NULL until it is needed */
    uint8_t *packed;
    struct ZSTD_DCtx_s *zstd;
};

/* "FOLDER/shard-0007 WHAT"; MU_ECORRUPT. */
int load_damaged(const struct ckpt *c, uint32_t shard, struct ckpt_why *why, const char *what);

/* n bytes of the state from `at` on, verified. */
int load_range(struct ckpt *c, uint64_t at, uint64_t n, uint8_t *to, struct ckpt_why *why);

#endif
