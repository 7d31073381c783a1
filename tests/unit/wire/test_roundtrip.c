#include "unit/unit.h"

#include "lib/wire_sample.h"
#include "lib/wire_types.h"
#include "wire/table.h"

#include <string.h>

#define FRAME_CAP (256u << 10)
#define SCRATCH_CAP (256u << 10)
#define ROUNDS 400
#define LIST_MAX 40
/* An element of a list may be larger than a message. */
#define ELEMENT_MAX (sizeof(union wire_any) + 4096)

/* Too large for the stack; every test begins by taking them anew. */
static uint8_t frame[FRAME_CAP], again[FRAME_CAP];
static uint64_t memory[2][SCRATCH_CAP / 8];

static struct wire_scratch scratch(int which)
{
    return (struct wire_scratch){(uint8_t *)memory[which], SCRATCH_CAP, 0};
}

static bool same(const struct wire_desc *d, const uint8_t *a, const uint8_t *b);

static bool same_items(const struct wire_field *f, const uint8_t *a, const uint8_t *b)
{
    const uint8_t *items_a = wire_items(f, a), *items_b = wire_items(f, b);
    uint32_t n;

    memcpy(&n, a + f->offset, sizeof(n));
    if (f->kind != KIND_LIST) {
        return n == 0 || memcmp(items_a, items_b, n) == 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        size_t at = (size_t)i * f->sub()->size;

        if (!same(f->sub(), items_a + at, items_b + at)) {
            return false;
        }
    }
    return true;
}

/* All bytes of the structs but their pointers, padding included, and what those point at. */
static bool same(const struct wire_desc *d, const uint8_t *a, const uint8_t *b)
{
    uint8_t copy[ELEMENT_MAX];

    assert_true(d->size <= sizeof(copy));
    memcpy(copy, b, d->size);
    for (uint32_t i = 0; i < d->fields_n; i++) {
        const struct wire_field *f = &d->fields[i];

        if (f->kind == KIND_BLOB || f->kind == KIND_LIST) {
            memcpy(copy + f->data, a + f->data, sizeof(void *));
        }
    }
    if (memcmp(a, copy, d->size) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < d->fields_n; i++) {
        const struct wire_field *f = &d->fields[i];

        if ((f->kind == KIND_BLOB || f->kind == KIND_LIST) && !same_items(f, a, b)) {
            return false;
        }
    }
    return true;
}

static void check_message(enum wire_type type, const union wire_any *in, struct prng *p)
{
    struct wire_scratch s = scratch(1);
    uint64_t generation = prng_u64(p), request = prng_u64(p);
    struct wire_fault fault = {0};
    struct wire_header h;
    union wire_any out;
    size_t n = 0;

    memset(&out, 0xff, sizeof(out));
    assert_int_equal(wire_encode(type, in, generation, request, frame, sizeof(frame), &n), MU_OK);
    assert_int_equal(n, wire_size(type, in));
    assert_true(n - WIRE_HEADER_BYTES <= wire_payload_max(type));
    if (wire_frame_decode(frame, n, &h, &out, &s, &fault) != MU_OK) {
        fail_msg("%s", fault.text);
    }
    assert_int_equal(h.type, type);
    assert_true(h.generation == generation && h.request == request);
    assert_int_equal(h.length, n - WIRE_HEADER_BYTES);
    assert_true(same(wire_desc(type), (const uint8_t *)in, (const uint8_t *)&out));

    size_t m = 0;

    assert_int_equal(wire_encode(type, &out, generation, request, again, sizeof(again), &m), MU_OK);
    assert_int_equal(m, n);
    assert_memory_equal(again, frame, n);
    /* One byte less than it needs is refused, and nothing lies beyond what it says. */
    again[n - 1] = 0x5a;
    assert_int_equal(wire_encode(type, in, 0, 0, again, n - 1, &m), MU_ELIMIT);
    assert_int_equal(again[n - 1], 0x5a);
}

static void check_record(enum wire_type type, const union wire_any *in)
{
    struct wire_scratch s = scratch(1);
    struct wire_fault fault = {0};
    union wire_any out;
    unsigned got = 0;
    size_t n = 0, m = 0;

    memset(&out, 0xff, sizeof(out));
    assert_int_equal(wire_record_encode(type, in, frame, sizeof(frame), &n), MU_OK);
    assert_int_equal(n, wire_record_size(type, in));
    if (wire_record_decode(frame, n, &got, &out, &s, &fault) != MU_OK) {
        fail_msg("%s", fault.text);
    }
    assert_int_equal(got, type);
    assert_true(same(wire_desc(type), (const uint8_t *)in, (const uint8_t *)&out));
    assert_int_equal(wire_record_encode(type, &out, again, sizeof(again), &m), MU_OK);
    assert_int_equal(m, n);
    assert_memory_equal(again, frame, n);
    assert_int_equal(wire_record_encode(type, in, again, n - 1, &m), MU_ELIMIT);
}

static void whatever_is_encoded_decodes_to_the_same(void **state)
{
    struct prng p;

    prng_init(&p, 41);
    for (uint32_t i = 0; i < wire_types_n; i++) {
        for (int round = 0; round < ROUNDS; round++) {
            struct wire_scratch s = scratch(0);
            union wire_any in;

            assert_int_equal(wire_sample((enum wire_type)wire_types[i], &p, LIST_MAX, &in, &s),
                             MU_OK);
            if (wire_is_message(wire_types[i])) {
                check_message((enum wire_type)wire_types[i], &in, &p);
            } else {
                check_record((enum wire_type)wire_types[i], &in);
            }
        }
    }
}

/* A sample fills all of a struct's fields, so the round trip above sees them all. */
static void samples_set_every_field_sooner_or_later(void **state)
{
    struct prng p;

    prng_init(&p, 42);
    for (uint32_t i = 0; i < wire_types_n; i++) {
        const struct wire_desc *d = wire_desc(wire_types[i]);
        uint8_t seen[sizeof(union wire_any)] = {0};

        for (int round = 0; round < 200; round++) {
            struct wire_scratch s = scratch(0);
            union wire_any in;

            wire_sample((enum wire_type)wire_types[i], &p, 3, &in, &s);
            for (size_t k = 0; k < d->size; k++) {
                seen[k] |= ((const uint8_t *)&in)[k];
            }
        }
        for (uint32_t k = 0; k < d->fields_n; k++) {
            assert_true(seen[d->fields[k].offset] != 0);
        }
    }
}

/* Bodies of questions and answers, in a frame that knows nothing of them. */
static void a_body_comes_back_and_its_damage_is_found(void **state)
{
    static const uint16_t bodies[] = {
#define T_BODY(number, NAME, ident, type) (number),
#include "wire/table.def"
    };
    static uint64_t rooms[2][1 << 14];
    static uint8_t bytes[SAYS_BODY_MAX], back[SAYS_BODY_MAX];
    struct prng p;

    prng_init(&p, 20);
    for (size_t i = 0; i < 100 * ARRAY_LEN(bodies); i++) {
        const enum wire_type type = (enum wire_type)bodies[i % ARRAY_LEN(bodies)];
        struct wire_scratch in_room = {(uint8_t *)rooms[0], sizeof(rooms[0]), 0};
        struct wire_scratch out_room = {(uint8_t *)rooms[1], sizeof(rooms[1]), 0};
        union wire_any in, out;
        size_t n = 0, back_n = 0;

        assert_true(wire_is_body(type) && !wire_is_message(type) && !wire_is_record(type));
        assert_int_equal(wire_sample(type, &p, LIST_MAX, &in, &in_room), MU_OK);
        assert_int_equal(wire_body_encode(type, &in, bytes, sizeof(bytes), &n), MU_OK);
        assert_int_equal(n, wire_body_size(type, &in));
        assert_int_equal(wire_body_encode(type, &in, back, n - 1, &back_n), MU_ELIMIT);
        assert_int_equal(wire_body_decode(type, bytes, n, &out, &out_room, NULL), MU_OK);
        assert_int_equal(wire_body_encode(type, &out, back, sizeof(back), &back_n), MU_OK);
        assert_int_equal(back_n, n);
        assert_memory_equal(back, bytes, n);
        assert_int_equal(wire_body_decode(type, bytes, 0, &out, &out_room, NULL), MU_EPROTO);
        assert_int_not_equal(wire_body_decode(type, bytes, n - 1, &out, &out_room, NULL), MU_OK);
        assert_int_not_equal(wire_body_decode(type, bytes, n + 1, &out, &out_room, NULL), MU_OK);
    }
}

static void blobs_are_not_copied(void **state)
{
    struct wire_scratch none = {NULL, 0, 0};
    uint8_t data[] = {1, 2, 3};
    struct msg_says says = {.status = 1, .body_n = 3, .body = data};
    struct wire_header h;
    union wire_any out;
    size_t n = 0;

    assert_int_equal(wire_encode(WIRE_SAYS, &says, 0, 0, frame, sizeof(frame), &n), MU_OK);
    assert_int_equal(wire_frame_decode(frame, n, &h, &out, &none, NULL), MU_OK);
    assert_ptr_equal(out.says.body, frame + n - 3);
}

static void lists_are_aligned_in_any_scratch(void **state)
{
    struct member members[2] = {{.worker = 1}, {.worker = 2}};
    struct generation g = {.job = "a", .members_n = 2, .members = members};
    size_t n = 0;

    assert_int_equal(wire_encode(WIRE_GENERATION, &g, 0, 0, frame, sizeof(frame), &n), MU_OK);
    for (size_t skew = 0; skew < 8; skew++) {
        struct wire_scratch s = {(uint8_t *)memory[0] + skew, 1024, 0};
        struct wire_header h;
        union wire_any out;

        assert_int_equal(wire_frame_decode(frame, n, &h, &out, &s, NULL), MU_OK);
        assert_int_equal((uintptr_t)out.generation.members % 8, 0);
        assert_true(out.generation.members[1].worker == 2);
        /* What is lost to alignment counts against the room. */
        s = (struct wire_scratch){s.mem, sizeof(members) + (8 - skew) % 8, 0};
        assert_int_equal(wire_frame_decode(frame, n, &h, &out, &s, NULL), MU_OK);
        s = (struct wire_scratch){s.mem, s.cap - 1, 0};
        assert_int_equal(wire_frame_decode(frame, n, &h, &out, &s, NULL), MU_ELIMIT);
    }
}

static void a_full_scratch_is_a_limit_and_stays_as_it_was(void **state)
{
    struct report reports[3] = {{.slot = 1}, {.slot = 2}, {.slot = 3}};
    struct msg_reports msg = {.seq = 1, .reports_n = 3, .reports = reports};
    struct wire_header h;
    union wire_any out;
    size_t n = 0;

    assert_int_equal(wire_encode(WIRE_REPORTS, &msg, 0, 0, frame, sizeof(frame), &n), MU_OK);
    for (size_t cap = 0; cap <= 16 + sizeof(reports); cap++) {
        struct wire_scratch s = {(uint8_t *)memory[0], cap, MIN(cap, 16)};
        struct wire_fault fault = {0};
        int rc = wire_frame_decode(frame, n, &h, &out, &s, &fault);

        if (cap == 16 + sizeof(reports)) {
            assert_int_equal(rc, MU_OK);
            assert_int_equal(s.used, cap);
            continue;
        }
        assert_int_equal(rc, MU_ELIMIT);
        assert_int_equal(s.used, MIN(cap, 16));
        assert_string_equal(fault.text,
                            "reports: reports at byte 8: no room left to decode it into");
    }
}

static void what_no_decoder_takes_is_not_encoded(void **state)
{
    struct msg_attach attach = {.why = ATTACH_N};
    struct msg_ask ask = {.job = "a", .topic = "b"};
    struct msg_says says = {.body_n = 1, .body = NULL};
    struct msg_reports reports = {.reports_n = SLOTS_MAX + 1};
    struct report many[SLOTS_MAX + 1] = {{0}};
    size_t n = 7;

    assert_int_equal(wire_encode(WIRE_ATTACH, &attach, 0, 0, frame, sizeof(frame), &n), MU_EINVAL);
    ask.job[0] = '\n';
    assert_int_equal(wire_encode(WIRE_ASK, &ask, 0, 0, frame, sizeof(frame), &n), MU_EINVAL);
    memset(ask.job, 'x', sizeof(ask.job));
    assert_int_equal(wire_encode(WIRE_ASK, &ask, 0, 0, frame, sizeof(frame), &n), MU_EINVAL);
    ask.job[NAME_MAX_LEN - 1] = '\0';
    assert_int_equal(wire_encode(WIRE_SAYS, &says, 0, 0, frame, sizeof(frame), &n), MU_EINVAL);
    says.body = frame;
    says.body_n = SAYS_BODY_MAX + 1;
    assert_int_equal(wire_encode(WIRE_SAYS, &says, 0, 0, frame, sizeof(frame), &n), MU_EINVAL);
    reports.reports = many;
    assert_int_equal(wire_encode(WIRE_REPORTS, &reports, 0, 0, frame, sizeof(frame), &n),
                     MU_EINVAL);
    assert_int_equal(n, 7);
    assert_int_equal(wire_encode(WIRE_ASK, &ask, 0, 0, frame, sizeof(frame), &n), MU_OK);
}

static void encode_record_as_frame(void *arg)
{
    struct rec_gone gone = {.node = 1};
    size_t n;

    wire_encode(WIRE_REC_GONE, &gone, 0, 0, frame, sizeof(frame), &n);
}

static void encode_message_as_record(void *arg)
{
    struct msg_bye bye = {.node = 1};
    size_t n;

    wire_record_encode(WIRE_BYE, &bye, frame, sizeof(frame), &n);
}

static void a_record_is_no_frame_and_a_message_no_record(void **state)
{
    assert_true(unit_panics(encode_record_as_frame, NULL));
    assert_true(unit_panics(encode_message_as_record, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_encoded_decodes_to_the_same),
        cmocka_unit_test(samples_set_every_field_sooner_or_later),
        cmocka_unit_test(a_body_comes_back_and_its_damage_is_found),
        cmocka_unit_test(blobs_are_not_copied),
        cmocka_unit_test(lists_are_aligned_in_any_scratch),
        cmocka_unit_test(a_full_scratch_is_a_limit_and_stays_as_it_was),
        cmocka_unit_test(what_no_decoder_takes_is_not_encoded),
        cmocka_unit_test(a_record_is_no_frame_and_a_message_no_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
