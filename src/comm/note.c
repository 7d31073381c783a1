/* Heads as bytes. All of the 64 are used:
 *
 *    0  magic   4  checksum of all that follows   8  generation   16  call   24  count   32  offset
 *   40  bytes  48  root   52  index   56  width   60  kind   61  op   62  reduce   63  dtype */
#include "comm/note.h"

#include "base/crc32c.h"
#include "wire/bytes.h"

#include <inttypes.h>
#include <stdio.h>

#define NOTE_MAGIC UINT32_C(0x316e756d) /* "mun1" */
#define NOTE_PROOF_BYTES 32

const char *comm_op_name(enum comm_op op)
{
    static const char *const names[COMM_OP_N] = {"nothing",   "allreduce", "reduce_scatter",
                                                 "allgather", "broadcast", "reduce",
                                                 "barrier",   "send",      "share"};

    return op < COMM_OP_N ? names[op] : "unknown";
}

bool note_valid(const struct note *note)
{
    if (note->kind >= NOTE_KIND_N || note->op >= COMM_OP_N || note->reduce >= REDUCE_OP_N ||
        note->dtype >= DTYPE_N || note->generation == 0 ||
        note->bytes > UINT64_MAX - note->offset ||
        (uint64_t)note->index + note->width > UINT64_C(1) << 32) {
        return false;
    }
    return note->kind == NOTE_MOVE   ? note->bytes == NOTE_PROOF_BYTES && note->op == COMM_NONE
           : note->kind == NOTE_MAIL ? note->bytes <= NOTE_DATA_MAX && note->op == COMM_NONE
                                     : true;
}

static uint32_t sum(const uint8_t head[NOTE_BYTES])
{
    return crc32c(0, head + 8, NOTE_BYTES - 8);
}

void note_encode(const struct note *note, uint8_t out[NOTE_BYTES])
{
    put_u32(out, NOTE_MAGIC);
    put_u64(out + 8, note->generation);
    put_u64(out + 16, note->call);
    put_u64(out + 24, note->count);
    put_u64(out + 32, note->offset);
    put_u64(out + 40, note->bytes);
    put_u32(out + 48, note->root);
    put_u32(out + 52, note->index);
    put_u32(out + 56, note->width);
    out[60] = note->kind;
    out[61] = note->op;
    out[62] = note->reduce;
    out[63] = note->dtype;
    put_u32(out + 4, sum(out));
}

int note_decode(const uint8_t in[NOTE_BYTES], struct note *note_out)
{
    if (get_u32(in) != NOTE_MAGIC || get_u32(in + 4) != sum(in)) {
        return MU_EPROTO;
    }
    const struct note note = {
        .generation = get_u64(in + 8),
        .call = get_u64(in + 16),
        .count = get_u64(in + 24),
        .offset = get_u64(in + 32),
        .bytes = get_u64(in + 40),
        .root = get_u32(in + 48),
        .index = get_u32(in + 52),
        .width = get_u32(in + 56),
        .kind = in[60],
        .op = in[61],
        .reduce = in[62],
        .dtype = in[63],
    };

    if (!note_valid(&note)) {
        return MU_EPROTO;
    }
    *note_out = note;
    return MU_OK;
}

void note_print(const struct note *note, char text[NOTE_TEXT_MAX])
{
    const char *name = comm_op_name((enum comm_op)note->op);
    const char *reduce =
        comm_op_adds((enum comm_op)note->op) ? reduce_op_name((enum reduce_op)note->reduce) : "";
    char more[32] = "";

    if (note->op == COMM_BROADCAST) {
        snprintf(more, sizeof(more), ", from rank %" PRIu32, note->root);
    } else if (note->op == COMM_REDUCE) {
        snprintf(more, sizeof(more), ", to rank %" PRIu32, note->root);
    } else if (note->op == COMM_SEND) {
        snprintf(more, sizeof(more), ", tag %" PRIu32, note->root);
    } else if (note->op == COMM_SHARE) {
        snprintf(more, sizeof(more), ", holders %08" PRIx32, note->root);
    }
    if (note->op == COMM_NONE || note->op == COMM_BARRIER) {
        snprintf(text, NOTE_TEXT_MAX, "%s (call %" PRIu64 ")", name, note->call);
    } else {
        snprintf(text, NOTE_TEXT_MAX, "%s of %" PRIu64 " %s%s%s%s (call %" PRIu64 ")", name,
                 note->count, dtype_name((enum dtype)note->dtype), reduce[0] != '\0' ? ", " : "",
                 reduce, more, note->call);
    }
}
