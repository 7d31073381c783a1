/* The state from inside: what state.c, stream.c and batches.c share, and hashes. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "train/train.h"

#include <string.h>
#ifdef HASH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#define STATE_PART_BYTES_MAX (SIZE_MAX >> 16) /* no sum of the parts' lengths overflows */

/* Can it stand in a line of a text that people read? blanks: they may be in it. */
bool state_is_line(const char *text, size_t room, bool blanks);

/* Where a part's bytes are, and how many: of one by calls, what save gives. Fails with what save
 * gave, or MU_EINVAL; says why. */
int state_save(const struct state_part *p, const void **data_out, size_t *n_out);
/* Gives a part by calls what its save gave elsewhere. Fails with what load gave; says so. */
int state_load(const struct state_part *p, const void *data, size_t n);

/* A hash as bytes that are the same on every machine. */
static inline void state_sum(XXH128_hash_t h, uint8_t sum_out[DIGEST_BYTES])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, h);
    memcpy(sum_out, canonical.digest, DIGEST_BYTES);
}

/* ---- a stream ---- */

struct piece {
    const uint8_t *from; /* a holder's */
    uint8_t *to;         /* a newcomer's: its own place, or memory for what comes */
    uint64_t bytes;
};

struct stream {
    struct state *s;
    struct comm *c;
    const uint8_t *holds;
    bool whole;
    bool gives; /* this rank holds it */
    uint32_t ranks_n, me, giver, lacking_n;
    wid *lost_out;

    struct piece *pieces;  /* by part */
    uint64_t *head, *said; /* this rank's, and the first holder's */
    uint32_t head_n;
    int32_t *ready; /* by rank: a status */

    /* batches.c */
    uint8_t *packed[2]; /* one is on its way, the other is looked at */
    uint64_t chunks_n;  /* of the rank that sends most of them */
    uint64_t *hashed;   /* by rank: how many so far */
    uint8_t *sums;      /* by rank, chunks_n each: hashes of what this rank has sent, or got */
    uint8_t *theirs;    /* in the same order: what each says of what it has sent */
};

/* A call of all members. What failed is said, and who is to blame. */
int stream_make(struct stream *t, struct comm_call call);
int stream_fail(struct stream *t, int rc, const struct comm_result *result);

/* ---- batches.c ---- */

/* The lengths of all pieces are known: room for what follows. MU_ENOMEM. */
int batches_open(struct stream *t);
void batches_close(struct stream *t);
/* All bytes are shared, and hashed on both sides. */
int batches_share(struct stream *t);
/* Those who have sent them say what the hashes are. MU_ECORRUPT. */
int batches_check(struct stream *t);

#endif
