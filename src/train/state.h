/* The state from inside: what state.c and stream.c share, and hashes. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "train/train.h"

#include <string.h>
#include <sys/mman.h>
#ifdef HASH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define STATE_PART_BYTES_MAX (SIZE_MAX >> 16) /* no sum of the parts' lengths overflows */

/* The bytes of a part, on their way. */
struct piece {
    uint8_t
        *data; /* a holder's, only read; a newcomer's: its own place, or memory for what comes */
    uint64_t bytes;
};

/* Where the bytes of all parts are, and how many: of those by calls, what save gives. Fails with
 * what save gave, or MU_EINVAL; says why. */
int state_collect(const struct state *s, struct piece *pieces);
/* Gives a part by calls what its save gave elsewhere. Fails with what load gave; says so. */
int state_load(const struct state_part *p, const void *data, size_t n);

/* A hash as bytes that are the same on every machine. */
static inline void state_sum(XXH128_hash_t h, uint8_t sum_out[DIGEST_BYTES])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, h);
    memcpy(sum_out, canonical.digest, DIGEST_BYTES);
}

#endif
