/* The format, byte by byte, and lines as people read them. From the first release on, a
 * change here is a change of the protocol: it needs another version, not another golden. */
#include "unit/unit.h"

#include "lib/wire_print.h"
#include "wire/table.h"

#include <stdio.h>
#include <string.h>

/* want: hexadecimal, blanks between fields. */
static void expect_hex(const uint8_t *bytes, size_t n, const char *want)
{
    char text[2048], packed[2048];
    size_t packed_n = 0;

    assert_true(n * 2 < sizeof(text) && strlen(want) < sizeof(packed));
    for (size_t i = 0; i < n; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    for (; *want != '\0'; want++) {
        if (*want != ' ') {
            packed[packed_n++] = *want;
        }
    }
    packed[packed_n] = '\0';
    assert_string_equal(text, packed);
}

static void a_ready_frame_has_these_bytes(void **state)
{
    struct msg_ready ready = {.from = wid_make(3, 0, 2), .step = 41, .newest = 8};
    uint8_t bytes[128];
    size_t n = 0;

    assert_int_equal(
        wire_encode(WIRE_READY, &ready, 7, 0x0102030405060708, bytes, sizeof(bytes), &n), MU_OK);
    expect_hex(bytes, n,
               "4d535452 01 08 3100 3d000000 0700000000000000 0807060504030201 cc8b6302 "
               "0200000003000000 2900000000000000 0800000000000000 "
               "00000000000000000000000000000000 00000000000000000000000000000000 00 "
               "00000000");
}

struct item {
    uint32_t id;
    char name[8];
};

static const struct wire_desc *item_desc(void)
{
    static const struct wire_field fields[] = {
        {.name = "id", .offset = offsetof(struct item, id), .kind = KIND_U32},
        {.name = "name", .max = 8, .offset = offsetof(struct item, name), .kind = KIND_STRING},
    };
    static const struct wire_desc desc = {"item", fields, 2, sizeof(struct item), 13};

    return &desc;
}

struct every {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    wid worker;
    uint64_t hex;
    uint8_t choice;
    char string[8];
    uint8_t bytes[2];
    uint8_t bits[1];
    uint8_t secret[2];
    uint32_t blob_n;
    uint8_t *blob;
    uint32_t items_n;
    struct item *items;
    uint32_t some_n;
    struct item some[9];
};

#define AT(field) .name = #field, .offset = offsetof(struct every, field)
#define AT_LIST(field)                                                     \
    .name = #field, .max = 9, .offset = offsetof(struct every, field##_n), \
    .data = offsetof(struct every, field)

static void each_kind_of_field_has_these_bytes(void **state)
{
    static const struct wire_field fields[] = {
        {AT(u8), .kind = KIND_U8},
        {AT(u16), .kind = KIND_U16},
        {AT(u32), .kind = KIND_U32},
        {AT(i32), .kind = KIND_I32},
        {AT(u64), .kind = KIND_U64},
        {AT(worker), .kind = KIND_WID},
        {AT(hex), .kind = KIND_HEX},
        {AT(choice), .max = 3, .kind = KIND_ENUM},
        {AT(string), .max = 8, .kind = KIND_STRING},
        {AT(bytes), .max = 2, .kind = KIND_BYTES},
        {AT(bits), .max = 1, .kind = KIND_BITS},
        {AT(secret), .max = 2, .kind = KIND_SECRET},
        {AT_LIST(blob), .kind = KIND_BLOB},
        {AT_LIST(items), .kind = KIND_LIST, .sub = item_desc},
        {AT_LIST(some), .kind = KIND_ITEMS, .sub = item_desc},
    };
    static const struct wire_desc desc = {"every", fields, ARRAY_LEN(fields), sizeof(struct every),
                                          1000};
    uint8_t blob[] = {0xb1, 0xb2, 0xb3};
    struct item items[] = {{7, "xy"}, {8, ""}};
    struct every every = {
        1,
        0x0203,
        0x04050607,
        -2,
        0x08090a0b0c0d0e0f,
        wid_make(3, 0, 2),
        0x10,
        2,
        "h\xc3\xb6",
        {0xa1, 0xa2},
        {0x05},
        {0x77, 0x78},
        3,
        blob,
        2,
        items,
        1,
        {{9, "z"}},
    };
    uint64_t memory[16];
    struct wire_scratch scratch = {(uint8_t *)memory, sizeof(memory), 0};
    struct every out;
    uint8_t bytes[256];
    size_t n = 0;

    assert_int_equal(wire_fields_encode(&desc, 0, &every, bytes, sizeof(bytes), &n), MU_OK);
    expect_hex(bytes, n,
               "01 0302 07060504 feffffff 0f0e0d0c0b0a0908 0200000003000000 1000000000000000 02 "
               "030068c3b6 a1a2 05 7778 03000000 b1b2b3 02000000 0800 "
               "07000000 02007879 0600 08000000 0000 01000000 0700 09000000 01007a");
    assert_int_equal(wire_fields_decode(&desc, 0, 0, bytes, n, &out, &scratch, NULL), MU_OK);
    assert_true(out.i32 == -2 && out.u16 == 0x0203 && out.choice == 2 && out.bytes[1] == 0xa2);
    assert_true(out.blob[2] == 0xb3 && out.items[1].id == 8);
    assert_true(out.some_n == 1 && out.some[0].id == 9);
}

static void a_config_record_has_these_bytes(void **state)
{
    uint8_t value[] = {'v', 0, 0xff};
    struct rec_config config = {.job = "", .key = "k", .version = 9, .value_n = 3, .value = value};
    uint8_t bytes[64];
    size_t n = 0;

    assert_int_equal(wire_record_encode(WIRE_REC_CONFIG, &config, bytes, sizeof(bytes), &n), MU_OK);
    expect_hex(bytes, n,
               "0a01 01 08 15000000 7e70ce57 0000 01006b 0900000000000000 00 03000000 7600ff");
}

static void expect_line(enum wire_type type, const void *msg, uint64_t generation, const char *want)
{
    char line[1024];

    assert_int_equal(wire_print(type, msg, generation, line, sizeof(line)), strlen(want));
    assert_string_equal(line, want);
}

static void lines_read_like_this(void **state)
{
    struct msg_ready ready = {.from = wid_make(3, 0, 2), .step = 41, .newest = 8};
    struct msg_settle settle = {.from = wid_make(1, 2, 3), .step = 40, .held = 1};
    struct msg_refused refused = {.status = MU_EVERSION, .text = "say \"no\" to it"};
    struct report reports[] = {{.slot = 0, .phase = PHASE_IN, .entered = 7, .addr = "10.0.0.1:99"},
                               {.slot = 1, .incarnation = 2, .phase = PHASE_EXITED}};
    struct msg_reports all = {.seq = 4, .reports_n = 2, .reports = reports};
    struct msg_ask ask = {
        .worker = wid_make(1, 0, 1), .request = 2, .kind = 5, .topic = "go", .body_n = 5};
    struct msg_says says = {.more = 1, .body_n = 4096};
    struct msg_welcome welcome = {.store = 0xabcdef, .node = 4, .lease_ms = 1000};
    struct msg_ended ended = {.run = 1, .step = 9, .failed = 1, .why = "n2.0#1 exited with 3"};

    expect_line(WIRE_READY, &ready, 7,
                "ready gen=7 from=n3.0#2 step=41 newest=8 digest=00000000000000000000000000000000 "
                "check=00000000000000000000000000000000 save=no saved=[]");
    expect_line(WIRE_SETTLE, &settle, 9,
                "settle gen=9 from=n1.2#3 step=40 held=yes slices=none "
                "digest=00000000000000000000000000000000 "
                "check=00000000000000000000000000000000 diverged=no held_in=0 moved=0 lacks=no "
                "saved=[]");
    settle.slices[0] = 0x0f;
    settle.slices[1] = 0x41;
    settle.slices[127] = 0xc0;
    expect_line(WIRE_SETTLE, &settle, 9,
                "settle gen=9 from=n1.2#3 step=40 held=yes slices=0-3,8,14,1022-1023 "
                "digest=00000000000000000000000000000000 "
                "check=00000000000000000000000000000000 diverged=no held_in=0 moved=0 lacks=no "
                "saved=[]");
    expect_line(WIRE_REFUSED, &refused, 0, "refused status=-5 text=\"say \\\"no\\\" to it\"");
    expect_line(WIRE_REPORTS, &all, 0,
                "reports seq=4 reports=[slot=0 phase=in entered=7 addr=10.0.0.1:99, "
                "slot=1 incarnation=2 phase=exited]");
    expect_line(WIRE_SAYS, &says, 0,
                "says worker=n0.0#0 request=0 status=0 more=yes at=0 topic=\"\" text=\"\" "
                "body=4096B");
    expect_line(WIRE_WELCOME, &welcome, 0,
                "welcome store=0xabcdef node=4 run=0 lease_ms=1000 orphan_ms=0 mode=auto");
    expect_line(WIRE_ASK, &ask, 0,
                "ask worker=n1.0#1 request=2 kind=5 wait_ms=0 at=0 job=\"\" topic=go body=5B");
    expect_line(WIRE_ENDED, &ended, 0,
                "ended run=1 step=9 failed=yes why=\"n2.0#1 exited with 3\" left=no");
    expect_line((enum wire_type)9999, NULL, 0, "unknown");
}

static void a_group_key_is_never_printed(void **state)
{
    struct member member = {.worker = wid_make(1, 0, 1), .flags = MEMBER_CAUGHT_UP, .addr = "a:1"};
    struct generation g = {.job = "mnist",
                           .run = 1,
                           .number = 7,
                           .from = 6,
                           .kind = GENERATION_FAILURE,
                           .members_n = 1,
                           .members = &member};

    expect_line(WIRE_REC_GENERATION, &g, 0,
                "generation job=mnist run=1 number=7 from=6 kind=failure flags=0 base_step=0 "
                "key=no members=[worker=n1.0#1 flags=1 addr=a:1]");
    g.key[31] = 0xee;
    expect_line(WIRE_GENERATION, &g, 7,
                "generation gen=7 job=mnist run=1 number=7 from=6 kind=failure flags=0 "
                "base_step=0 key=yes members=[worker=n1.0#1 flags=1 addr=a:1]");
}

static void a_line_is_cut_with_an_ellipsis_between_characters(void **state)
{
    struct msg_refused refused = {.status = 1, .text = "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"};
    static const char whole[] = "refused status=1 text=\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";
    char line[64];

    for (size_t cap = 0; cap <= sizeof(whole); cap++) {
        memset(line, 'x', sizeof(line));
        size_t n = wire_print(WIRE_REFUSED, &refused, 0, line, cap);

        assert_int_equal(line[cap], 'x');
        if (cap == 0) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_true(n < cap);
        assert_int_equal(line[n], '\0');
        if (cap >= sizeof(whole)) {
            assert_string_equal(line, whole);
        } else if (cap >= 4) {
            assert_string_equal(line + n - 3, "\xe2\x80\xa6");
            assert_memory_equal(line, whole, n - 3);
            assert_true(((uint8_t)whole[n - 3] & 0xc0) != 0x80);
        }
    }
    assert_int_equal(wire_print(WIRE_REFUSED, &refused, 0, line, 27), 25);
    assert_string_equal(line, "refused status=1 text=\xe2\x80\xa6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ready_frame_has_these_bytes),
        cmocka_unit_test(each_kind_of_field_has_these_bytes),
        cmocka_unit_test(a_config_record_has_these_bytes),
        cmocka_unit_test(lines_read_like_this),
        cmocka_unit_test(a_group_key_is_never_printed),
        cmocka_unit_test(a_line_is_cut_with_an_ellipsis_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
