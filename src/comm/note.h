/* What one worker tells another: a head of fixed size, and bytes that belong to it. Pure.
 *
 * On TCP a note is NOTE_BYTES of head, little-endian with a checksum, then its bytes, then a word
 * that says whether they count (see tcp.h); in shared memory the same head lies in a ring, and
 * says where the bytes are. Everything a head says is checked against the call that this
 * worker makes before the bytes are looked at. */
#ifndef COMM_NOTE_H
#define COMM_NOTE_H

#include "comm/dtype.h"
#include "core/message.h"

#define NOTE_BYTES 64
#define NOTE_DATA_MAX (1u << 20) /* bytes of one note on TCP; MAIL: of one in any case */

enum note_kind {
    NOTE_INPUT,  /* a part of the sender's contribution, for whoever folds that part */
    NOTE_RESULT, /* a part of the result, folded by the sender */
    NOTE_DATA,   /* what is gathered, broadcast or sent */
    NOTE_HERE,   /* the sender has come: a barrier's, READY's of an agreed call (see NOTE_READY) */
    NOTE_READY,  /* it holds the whole result of agreed call `count`; `offset`: newest generation */
    NOTE_MAIL,   /* a frame of wire/: READY, SETTLE and others */
    NOTE_ABORT,  /* its call failed: `root` is the status, `index` the rank that it blames */
    NOTE_MOVE,   /* a proof (32 bytes) that the sender knows the key of `generation`; TCP only */
    NOTE_KIND_N
};

enum comm_op {
    COMM_NONE, /* MAIL, MOVE */
    COMM_ALLREDUCE,
    COMM_REDUCE_SCATTER,
    COMM_ALLGATHER,
    COMM_BROADCAST,
    COMM_REDUCE,
    COMM_BARRIER,
    COMM_SEND, /* and its recv: the same to both */
    COMM_SHARE,
    COMM_OP_N
};

struct note {
    uint64_t generation;
    uint64_t call;   /* from 1 in each generation; of COMM_SEND: of this pair, each way */
    uint64_t count;  /* elements of the whole call, as its caller gave them */
    uint64_t offset; /* of these bytes in what the kind speaks of */
    uint64_t bytes;
    uint32_t root;  /* rank; of COMM_SEND: the tag; of COMM_SHARE: a sum of who holds it */
    uint32_t index; /* which contribution, or subtree: its first slice */
    uint32_t width; /* how many slices it spans */
    uint8_t kind;
    uint8_t op;
    uint8_t reduce;
    uint8_t dtype;
};

const char *comm_op_name(enum comm_op op);

/* Whether contributions are added in it. */
static inline bool comm_op_adds(enum comm_op op)
{
    return op == COMM_ALLREDUCE || op == COMM_REDUCE || op == COMM_REDUCE_SCATTER;
}

/* Whether it says nothing that can't be: its kind and the like are known, so names and sizes may be
 * looked up by them, and no sum of its numbers overflows. What a peer wrote is checked first. */
bool note_valid(const struct note *note);

void note_encode(const struct note *note, uint8_t out[NOTE_BYTES]);

/* MU_EPROTO: not a note (magic, checksum), or one that says what can't be: *note_out is untouched.
 * Never reads more than NOTE_BYTES. */
int note_decode(const uint8_t in[NOTE_BYTES], struct note *note_out);

/* "allreduce of 1024 f32, sum (call 7)", for errors. */
#define NOTE_TEXT_MAX 128
void note_print(const struct note *note, char text[NOTE_TEXT_MAX]);

#endif
