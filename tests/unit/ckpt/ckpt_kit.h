/* Checkpoints for tests: a folder that goes at the end, a state that follows from a seed, and a
 * save from its first shard to its commit. */
#ifndef UNIT_CKPT_CKPT_KIT_H
#define UNIT_CKPT_CKPT_KIT_H

#include "ckpt/ckpt.h"

#include <limits.h>

#define KIT_JOB "mnist"
#define KIT_PARTS 5

/* Parts of a state: small ones, none, one that begins and ends within chunks, one that is long. */
struct ckpt_kit {
    char dir[PATH_MAX];
    struct ckpt_part parts[KIT_PARTS];
    uint64_t bytes;
    uint8_t *state; /* as ckpt_kit_fill() left it */
};

/* In a new folder below $TMPDIR, or /tmp. large: 4 chunks and a bit, otherwise 1 and a bit. */
void ckpt_kit_open(struct ckpt_kit *k, bool large);
/* … in memory where that can be: for sweeps that ask nothing of the disk. */
void ckpt_kit_open_fast(struct ckpt_kit *k);
/* … below this one, which stays. */
void ckpt_kit_open_in(struct ckpt_kit *k, const char *folder, bool large);
void ckpt_kit_close(struct ckpt_kit *k);

/* Another seed, another state, in every chunk. */
void ckpt_kit_fill(struct ckpt_kit *k, uint64_t seed);

struct ckpt_target ckpt_kit_target(const struct ckpt_kit *k, uint64_t step, const char *tag,
                                   uint32_t shards_n);
struct ckpt_mark ckpt_kit_mark(uint64_t step);
/* One writer's data. */
const uint8_t *ckpt_kit_data(const struct ckpt_kit *k, const struct ckpt_target *t, uint32_t shard);
/* All writers, one after another, and the commit; the first that fails ends it. */
int ckpt_kit_save(const struct ckpt_kit *k, const struct ckpt_target *t, struct ckpt_why *why);

/* ---- by intake ---- */

/* One chunk of the state, as it is. */
int ckpt_kit_put(const struct ckpt_kit *k, struct ckpt_intake *i, uint32_t chunk,
                 struct ckpt_why *why);
/* The state's manifest, with one shard: free(). */
void ckpt_kit_manifest(const struct ckpt_kit *k, uint64_t step, char **text_out, size_t *n_out);
/* … of another job. */
void ckpt_kit_manifest_of(const struct ckpt_kit *k, const char *job, uint64_t step, char **text_out,
                          size_t *n_out);
/* How many of the chunks that the intake has are the state's, if they all are; otherwise 0. */
uint32_t ckpt_kit_has(const struct ckpt_kit *k, const struct ckpt_intake *i);
/* All of it, from where an earlier one has come to: *had_out chunks (may be NULL). */
int ckpt_kit_take_in(const struct ckpt_kit *k, uint64_t step, uint32_t *had_out,
                     struct ckpt_why *why);

/* Opens, reads part by part and chunk by chunk, and compares with the state. MU_OK: it is that;
 * MU_EDONE: it was read without a word, and is another. */
int ckpt_kit_load(const struct ckpt_kit *k, uint64_t step, struct ckpt_why *why);
/* The newest that ckpt_open() and ckpt_verify() accept; 0: none. */
uint64_t ckpt_kit_newest(const struct ckpt_kit *k);
/* How many there are. */
uint32_t ckpt_kit_count(const struct ckpt_kit *k);

/* DIR/JOB/name, in one of a few buffers. */
const char *ckpt_kit_path(const struct ckpt_kit *k, const char *name);
/* Removes a folder and all in it. */
void ckpt_kit_wipe(const char *path);

#endif
