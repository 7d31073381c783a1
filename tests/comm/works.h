/* Calls drawn at random, the same on all ranks, with what each must give. The contributions of all
 * lie in memory that the ranks share, where each then computes a part of the reference; the
 * buffers of the call itself are private, and of any kind: from comm_alloc() or plain, aligned or
 * not, the input in place of the output. */
#ifndef COMM_WORKS_H
#define COMM_WORKS_H

#include "base/prng.h"
#include "comm/ranks.h"
#include "core/plan.h"

#define WORKS_SHARED_BYTES ((size_t)512 << 20)
#define WORKS_SLICES_MAX 64

struct spec {
    enum comm_op op;
    enum dtype dtype;
    enum reduce_op reduce;
    uint64_t count;
    uint64_t divisor;
    uint32_t root, peer; /* SEND: from root to peer */
    uint32_t tag;
    uint8_t holds[RANKS_MAX]; /* SHARE: what root has, and maybe others */
    unsigned taste;
    bool same, view, agree;
    struct plan plan; /* slices_n 0: one contribution a rank */
    uint64_t seed;
};

/* bytes_max: of the largest buffer. */
void spec_draw(struct prng *p, uint32_t ranks_n, size_t bytes_max, struct spec *out);
/* … an all-reduce of contributions by subtrees. */
void spec_draw_slices(struct prng *p, uint32_t ranks_n, size_t bytes_max, struct spec *out);
void spec_print(const struct spec *spec, char text[256]);

struct buffer {
    uint8_t *base, *data;
    size_t base_bytes, bytes;
    bool shared;
};

struct work {
    struct spec spec;
    char text[256];
    struct comm_call call;
    bool mine;                /* this rank has a part in it */
    uint8_t *leaves, *wanted; /* in the ranks' memory: all contributions; the result */
    size_t leaf_bytes;
    uint32_t leaves_n;
    struct buffer in, out;
    struct buffer parts[WORKS_SLICES_MAX];
    struct comm_part list[WORKS_SLICES_MAX];
    uint64_t in_hash;
};

/* All ranks prepare the same works in the same order; *room counts what they take of the shared
 * memory, from 0. Afterwards the reference is there. */
void work_prepare(struct rank *r, const struct spec *spec, size_t *room, struct work *out);
/* Fails the rank if it is not what it must be: status, result, inputs, bytes around the output. */
void work_check(struct rank *r, struct work *w, int rc, const struct comm_result *result);
void work_free(struct rank *r, struct work *w);

/* Waits until all ranks have come here; not by what is tested. */
void works_meet(struct rank *r);

#endif
