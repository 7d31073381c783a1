/* The state from inside: what state.c, stream.c and batches.c share. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "train/train.h"

#define STATE_PART_BYTES_MAX (SIZE_MAX >> 16) /* no sum of the parts' lengths overflows */

/* Where a part's bytes are, and how many: of one by calls, what save gives. Fails with what save
 * gave, or MU_EINVAL; says why. */
int state_save(const struct state_part *p, const void **data_out, size_t *n_out);

/* ---- a stream ---- */

struct piece {
    const uint8_t *from; /* a holder's */
    uint8_t *to;         /* a newcomer's: its own place, or in the arena */
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

    struct piece *pieces; /* by part */
    uint8_t *head, *said; /* this rank's, and the first holder's */
    size_t head_bytes;
    uint8_t *ready; /* by rank, 8 bytes each */
    uint8_t *arena;

    /* batches.c */
    uint8_t *packed[2]; /* one is on its way, the other is looked at */
    uint64_t chunks_n;  /* of the rank that sends most of them */
    uint64_t *hashed;   /* by rank: how many so far */
    uint8_t *mine;      /* hashes of what this rank has sent */
    uint8_t *theirs;    /* … of what each says that it has, ranks_n * chunks_n */
    uint8_t *came;      /* … of what has come, in the same order */
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
