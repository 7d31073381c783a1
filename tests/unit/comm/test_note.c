#include "unit/unit.h"

#include "base/crc32c.h"
#include "base/prng.h"
#include "comm/note.h"
#include "wire/bytes.h"

#include <string.h>

static const struct note example = {
    .generation = 0x0102030405060708,
    .call = 7,
    .count = 1024,
    .offset = 4096,
    .bytes = 65536,
    .root = 3,
    .index = 5,
    .width = 2,
    .kind = NOTE_RESULT,
    .op = COMM_ALLREDUCE,
    .reduce = REDUCE_MEAN,
    .dtype = DTYPE_BF16,
};

static bool same(const struct note *a, const struct note *b)
{
    return a->generation == b->generation && a->call == b->call && a->count == b->count &&
           a->offset == b->offset && a->bytes == b->bytes && a->root == b->root &&
           a->index == b->index && a->width == b->width && a->kind == b->kind && a->op == b->op &&
           a->reduce == b->reduce && a->dtype == b->dtype;
}

/* The checksum is made right, so that what the head says is judged. */
static void mend(uint8_t head[NOTE_BYTES])
{
    put_u32(head + 4, crc32c(0, head + 8, NOTE_BYTES - 8));
}

static int decode_mended(const struct note *note)
{
    uint8_t head[NOTE_BYTES];
    struct note out;

    note_encode(note, head);
    return note_decode(head, &out);
}

static void the_bytes_of_a_head_are_these(void **state)
{
    static const uint8_t expected[NOTE_BYTES] = {
        'm', 'u', 'n', '1', 0, 0, 0, 0,             /* the checksum is filled in below */
        8,   7,   6,   5,   4, 3, 2, 1, 7, 0, 0, 0, /* generation, call */
        0,   0,   0,   0,   0, 4, 0, 0, 0, 0, 0, 0, /* count */
        0,   16,  0,   0,   0, 0, 0, 0, 0, 0, 1, 0, /* offset, bytes */
        0,   0,   0,   0,   3, 0, 0, 0, 5, 0, 0, 0, /* root, index */
        2,   0,   0,   0,   1, 1, 1, 2,             /* width; kind, op, reduce, dtype */
    };
    uint8_t right[NOTE_BYTES], head[NOTE_BYTES];

    memcpy(right, expected, sizeof(right));
    mend(right);
    note_encode(&example, head);
    assert_memory_equal(head, right, NOTE_BYTES);
}

static void what_is_encoded_is_decoded(void **state)
{
    struct prng p;

    prng_init(&p, 1);
    for (int i = 0; i < 10000; i++) {
        struct note in = {.generation = 1 + prng_below(&p, 1000),
                          .call = prng_u64(&p),
                          .count = prng_u64(&p),
                          .offset = prng_u64(&p) >> 1,
                          .bytes = prng_u64(&p) >> 1,
                          .root = (uint32_t)prng_u64(&p),
                          .index = (uint32_t)prng_u64(&p) >> 1,
                          .width = (uint32_t)prng_u64(&p) >> 1,
                          .kind = (uint8_t)prng_below(&p, NOTE_MAIL),
                          .op = (uint8_t)prng_below(&p, COMM_OP_N),
                          .reduce = (uint8_t)prng_below(&p, REDUCE_OP_N),
                          .dtype = (uint8_t)prng_below(&p, DTYPE_N)};
        uint8_t head[NOTE_BYTES];
        struct note out;

        note_encode(&in, head);
        assert_int_equal(note_decode(head, &out), MU_OK);
        assert_true(same(&in, &out));
    }
}

static void any_changed_bit_is_refused_and_nothing_is_given(void **state)
{
    uint8_t head[NOTE_BYTES];

    note_encode(&example, head);
    for (size_t bit = 0; bit < 8 * sizeof(head); bit++) {
        struct note out = {.call = 99};

        head[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(note_decode(head, &out), MU_EPROTO);
        assert_true(out.call == 99 && out.bytes == 0);
        head[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void what_cannot_be_is_refused_though_its_checksum_is_right(void **state)
{
    struct note n[14];

    assert_int_equal(decode_mended(&example), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(n); i++) {
        n[i] = example;
    }
    n[0].kind = NOTE_KIND_N;
    n[1].kind = UINT8_MAX;
    n[2].op = COMM_OP_N;
    n[3].reduce = REDUCE_OP_N;
    n[4].dtype = DTYPE_N;
    n[5].generation = 0;
    n[6].offset = UINT64_MAX - n[6].bytes + 1;
    n[7].index = UINT32_MAX;
    n[8] = (struct note){.generation = 1, .kind = NOTE_MOVE, .bytes = 31};
    n[9] = (struct note){.generation = 1, .kind = NOTE_MOVE, .bytes = 0};
    n[10] = (struct note){.generation = 1, .kind = NOTE_MOVE, .bytes = 32, .op = COMM_SEND};
    n[11] = (struct note){.generation = 1, .kind = NOTE_MAIL, .bytes = NOTE_DATA_MAX + 1};
    n[12] = (struct note){.generation = 1, .kind = NOTE_MAIL, .op = COMM_ALLREDUCE};
    n[13].bytes = UINT64_MAX;
    for (size_t i = 0; i < ARRAY_LEN(n); i++) {
        assert_int_equal(decode_mended(&n[i]), MU_EPROTO);
        assert_false(note_valid(&n[i]));
    }
}

static void the_largest_of_everything_can_be(void **state)
{
    struct note n = example;

    n.offset = UINT64_MAX - n.bytes;
    n.count = n.call = n.generation = UINT64_MAX;
    assert_int_equal(decode_mended(&n), MU_OK);
    n = (struct note){.generation = 1, .kind = NOTE_ABORT, .index = UINT32_MAX, .root = UINT32_MAX};
    assert_int_equal(decode_mended(&n), MU_OK);
    n = (struct note){.generation = 1, .kind = NOTE_READY, .offset = UINT64_MAX};
    assert_int_equal(decode_mended(&n), MU_OK);
    n = (struct note){.generation = 1, .kind = NOTE_MOVE, .bytes = 32};
    assert_int_equal(decode_mended(&n), MU_OK);
}

static void a_note_reads_as_the_call_that_it_is_of(void **state)
{
    static const struct {
        struct note note;
        const char *text;
    } cases[] = {
        {{.op = COMM_ALLREDUCE, .count = 1024, .call = 7}, "allreduce of 1024 f32, sum (call 7)"},
        {{.op = COMM_REDUCE,
          .count = 1,
          .call = 2,
          .root = 3,
          .reduce = REDUCE_MAX,
          .dtype = DTYPE_I64},
         "reduce of 1 i64, max, to rank 3 (call 2)"},
        {{.op = COMM_BROADCAST, .count = 9, .call = 1, .dtype = DTYPE_U8},
         "broadcast of 9 u8, from rank 0 (call 1)"},
        {{.op = COMM_SEND, .count = 9, .call = 1, .root = 77, .dtype = DTYPE_F16},
         "send of 9 f16, tag 77 (call 1)"},
        {{.op = COMM_SHARE, .count = 9, .call = 1, .root = 0xab12, .dtype = DTYPE_U8},
         "share of 9 u8, holders 0000ab12 (call 1)"},
        {{.op = COMM_ALLGATHER, .count = 5, .call = 1, .dtype = DTYPE_BF16},
         "allgather of 5 bf16 (call 1)"},
        {{.op = COMM_BARRIER, .call = 12}, "barrier (call 12)"},
        {{.op = 200, .dtype = 200, .reduce = 200}, "unknown of 0 unknown (call 0)"},
    };
    char text[NOTE_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        note_print(&cases[i].note, text);
        assert_string_equal(text, cases[i].text);
    }
    const struct note longest = {.op = COMM_REDUCE,
                                 .count = UINT64_MAX,
                                 .call = UINT64_MAX,
                                 .root = UINT32_MAX,
                                 .reduce = REDUCE_MEAN,
                                 .dtype = DTYPE_BF16};

    note_print(&longest, text);
    assert_string_equal(text, "reduce of 18446744073709551615 bf16, mean, to rank 4294967295 "
                              "(call 18446744073709551615)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_a_head_are_these),
        cmocka_unit_test(what_is_encoded_is_decoded),
        cmocka_unit_test(any_changed_bit_is_refused_and_nothing_is_given),
        cmocka_unit_test(what_cannot_be_is_refused_though_its_checksum_is_right),
        cmocka_unit_test(the_largest_of_everything_can_be),
        cmocka_unit_test(a_note_reads_as_the_call_that_it_is_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
