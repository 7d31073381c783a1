/* How versions get along: descriptors of a pretend message as 1.0, 1.1 and 1.2 have it, one
 * sending, the other receiving. (test_wire_bytes.c has the real ones.) */
#include "unit/unit.h"

#include "base/crc32c.h"
#include "wire/bytes.h"
#include "wire/table.h"

#include <string.h>

struct item {
    uint32_t id;
    char name[16]; /* since 1.1 */
};

struct pretend {
    uint32_t first;
    uint32_t items_n;
    struct item *items;
    uint64_t later;  /* since 1.1 */
    char label[16];  /* since 1.1 */
    uint16_t latest; /* since 1.2 */
};

static const struct wire_field item_fields[] = {
    {.name = "id", .offset = offsetof(struct item, id), .kind = KIND_U32},
    {.name = "name",
     .max = 16,
     .offset = offsetof(struct item, name),
     .kind = KIND_STRING,
     .since = 1},
};

static const struct wire_field pretend_fields[] = {
    {.name = "first", .offset = offsetof(struct pretend, first), .kind = KIND_U32},
    {.name = "items",
     .max = 4,
     .offset = offsetof(struct pretend, items_n),
     .data = offsetof(struct pretend, items),
     .kind = KIND_LIST},
    {.name = "later", .offset = offsetof(struct pretend, later), .kind = KIND_U64, .since = 1},
    {.name = "label",
     .max = 16,
     .offset = offsetof(struct pretend, label),
     .kind = KIND_STRING,
     .since = 1},
    {.name = "latest", .offset = offsetof(struct pretend, latest), .kind = KIND_U16, .since = 2},
};

/* The table as a side of minor version 0, 1 or 2 has it. */
static struct wire_field known[3][ARRAY_LEN(pretend_fields)];
static struct wire_desc items[3], descs[3];

static const struct wire_desc *items_0(void)
{
    return &items[0];
}

static const struct wire_desc *items_1(void)
{
    return &items[1];
}

static int set_up(void **state)
{
    static const uint32_t fields_n[] = {2, 4, 5};

    for (int v = 0; v < 3; v++) {
        memcpy(known[v], pretend_fields, sizeof(pretend_fields));
        known[v][1].sub = v == 0 ? items_0 : items_1;
        items[v] = (struct wire_desc){"item", item_fields, v == 0 ? 1 : 2, sizeof(struct item), 22};
        descs[v] =
            (struct wire_desc){"pretend", known[v], fields_n[v], sizeof(struct pretend), 200};
    }
    return 0;
}

static struct item some_items[] = {{7, "seven"}, {8, "eight"}};
static const struct pretend some = {5, 2, some_items, 99, "label", 3};

/* A side of minor `theirs` encodes; a side of minor `ours` decodes. */
static int pass(uint8_t theirs, uint8_t ours, struct pretend *out, struct wire_fault *fault)
{
    static uint64_t memory[64];
    struct wire_scratch s = {(uint8_t *)memory, sizeof(memory), 0};
    uint8_t bytes[256];
    size_t n = 0;

    assert_int_equal(wire_fields_encode(&descs[theirs], theirs, &some, bytes, sizeof(bytes), &n),
                     MU_OK);
    assert_int_equal(n, wire_fields_size(&descs[theirs], theirs, &some));
    return wire_fields_decode(&descs[ours], theirs, ours, bytes, n, out, &s, fault);
}

static void fields_of_a_newer_minor_are_skipped_in_messages_and_elements(void **state)
{
    struct pretend out;

    for (uint8_t theirs = 1; theirs <= 2; theirs++) {
        assert_int_equal(pass(theirs, 0, &out, NULL), MU_OK);
        assert_int_equal(out.first, 5);
        assert_int_equal(out.items_n, 2);
        assert_int_equal(out.items[1].id, 8);
        assert_string_equal(out.items[1].name, "");
        assert_true(out.later == 0 && out.label[0] == '\0' && out.latest == 0);
    }
}

static void fields_that_an_older_minor_lacks_are_zero(void **state)
{
    struct pretend out;

    assert_int_equal(pass(0, 2, &out, NULL), MU_OK);
    assert_int_equal(out.first, 5);
    assert_int_equal(out.items[0].id, 7);
    assert_string_equal(out.items[0].name, "");
    assert_true(out.later == 0 && out.label[0] == '\0' && out.latest == 0);
    assert_int_equal(pass(1, 2, &out, NULL), MU_OK);
    assert_string_equal(out.items[0].name, "seven");
    assert_string_equal(out.label, "label");
    assert_true(out.later == 99 && out.latest == 0);
    assert_int_equal(pass(2, 2, &out, NULL), MU_OK);
    assert_int_equal(out.latest, 3);
}

/* A field that the sender's version has is never taken as zero. */
static void fields_of_the_senders_own_version_may_not_be_missing(void **state)
{
    static uint64_t memory[64];
    struct wire_fault fault;
    struct pretend out;
    uint8_t bytes[256];

    for (uint8_t theirs = 0; theirs <= 2; theirs++) {
        for (uint8_t ours = theirs; ours <= 2; ours++) {
            size_t n = 0;

            assert_int_equal(
                wire_fields_encode(&descs[theirs], theirs, &some, bytes, sizeof(bytes), &n), MU_OK);
            for (size_t len = 0; len < n; len++) {
                struct wire_scratch s = {(uint8_t *)memory, sizeof(memory), 0};

                assert_int_equal(
                    wire_fields_decode(&descs[ours], theirs, ours, bytes, len, &out, &s, &fault),
                    MU_EPROTO);
            }
        }
    }
}

static void bytes_left_over_are_an_error_unless_the_sender_is_newer(void **state)
{
    uint64_t memory[64];
    struct wire_scratch s = {(uint8_t *)memory, sizeof(memory), 0};
    struct wire_fault fault;
    struct pretend out;
    uint8_t bytes[256] = {0};
    size_t n = 0;

    assert_int_equal(wire_fields_encode(&descs[1], 1, &some, bytes, sizeof(bytes), &n), MU_OK);
    assert_int_equal(wire_fields_decode(&descs[1], 1, 1, bytes, n + 1, &out, &s, &fault),
                     MU_EPROTO);
    assert_non_null(strstr(fault.text, "bytes are left over"));
    assert_int_equal(wire_fields_decode(&descs[1], 1, 2, bytes, n + 1, &out, &s, &fault),
                     MU_EPROTO);
    assert_int_equal(wire_fields_decode(&descs[1], 2, 1, bytes, n + 1, &out, &s, &fault), MU_OK);
}

/* A real frame with a byte changed and its checksum made right. */
static int decode_changed(size_t at, uint8_t value, size_t extra, struct wire_fault *fault)
{
    struct wire_scratch none = {NULL, 0, 0};
    struct msg_ready ready = {.from = 1, .step = 2, .newest = 3};
    uint8_t bytes[256] = {0};
    struct wire_header h;
    union wire_any out;
    size_t n = 0;

    assert_int_equal(wire_encode(WIRE_READY, &ready, 4, 5, bytes, sizeof(bytes), &n), MU_OK);
    bytes[at] = value;
    n += extra;
    put_u32(bytes + 8, (uint32_t)(n - WIRE_HEADER_BYTES));
    put_u32(bytes + 28, 0);
    put_u32(bytes + 28, crc32c(0, bytes, n));
    int rc = wire_frame_decode(bytes, n, &h, &out, &none, fault);

    if (rc == MU_OK) {
        assert_true(out.ready.newest == 3);
    }
    return rc;
}

static void another_major_is_refused_by_the_header_naming_both(void **state)
{
    struct wire_fault fault;

    assert_int_equal(decode_changed(4, WIRE_MAJOR + 1, 0, &fault), MU_EVERSION);
    assert_int_equal(fault.status, MU_EVERSION);
    assert_string_equal(fault.text, "this side speaks wire version 1.8, the other 2.8: "
                                    "install the same major version of muster on both");
    assert_int_equal(decode_changed(4, 0, 0, &fault), MU_EVERSION);
    assert_int_equal(decode_changed(4, 0, 0, NULL), MU_EVERSION);
}

static void a_frame_of_a_newer_minor_is_read_as_far_as_it_is_known(void **state)
{
    struct wire_fault fault;

    assert_int_equal(decode_changed(5, WIRE_MINOR + 1, 0, &fault), MU_OK);
    assert_int_equal(decode_changed(5, WIRE_MINOR + 1, 20, &fault), MU_OK);
    assert_int_equal(decode_changed(5, 255, 20, &fault), MU_OK);
    assert_true(decode_changed(5, WIRE_MINOR, 20, &fault) < 0);
}

static void a_record_of_another_major_or_an_unknown_newer_type_is_a_version_error(void **state)
{
    uint64_t memory[8];
    struct wire_scratch s = {(uint8_t *)memory, sizeof(memory), 0};
    struct rec_gone gone = {.node = 4};
    struct wire_fault fault;
    union wire_any out;
    uint8_t bytes[64];
    unsigned type;
    size_t n = 0;

    assert_int_equal(wire_record_encode(WIRE_REC_GONE, &gone, bytes, sizeof(bytes), &n), MU_OK);
    bytes[2] = 3;
    put_u32(bytes + 8, 0);
    put_u32(bytes + 8, crc32c(0, bytes, n));
    assert_int_equal(wire_record_decode(bytes, n, &type, &out, &s, &fault), MU_EVERSION);
    assert_non_null(strstr(fault.text, "the other 3.8"));
    bytes[2] = WIRE_MAJOR;
    bytes[3] = WIRE_MINOR + 1;
    put_u16(bytes, 999);
    put_u32(bytes + 8, 0);
    put_u32(bytes + 8, crc32c(0, bytes, n));
    assert_int_equal(wire_record_decode(bytes, n, &type, &out, &s, &fault), MU_EVERSION);
    assert_string_equal(fault.text, "record type 999 of version 1.9 is not known to version 1.8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_newer_minor_are_skipped_in_messages_and_elements),
        cmocka_unit_test(fields_that_an_older_minor_lacks_are_zero),
        cmocka_unit_test(fields_of_the_senders_own_version_may_not_be_missing),
        cmocka_unit_test(bytes_left_over_are_an_error_unless_the_sender_is_newer),
        cmocka_unit_test(another_major_is_refused_by_the_header_naming_both),
        cmocka_unit_test(a_frame_of_a_newer_minor_is_read_as_far_as_it_is_known),
        cmocka_unit_test(a_record_of_another_major_or_an_unknown_newer_type_is_a_version_error),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
