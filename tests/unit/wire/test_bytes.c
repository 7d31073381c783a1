/* Messages of each minor version, byte by byte. Those of 1.0 were written by muster as it was
 * then: they must be understood for ever. Those of 1.1 are what is written now, too, but for what
 * later versions have appended, and the number of the version. A change here is a change of the
 * protocol: it needs another version, not another golden. */
#include "unit/unit.h"

#include "base/crc32c.h"
#include "lib/wire_types.h"
#include "wire/bytes.h"
#include "wire/table.h"

#include <stdio.h>
#include <string.h>

#define REQUEST 0x0102030405060708u
#define N3 (3ull << 32 | 2)           /* n3.0#2 */
#define N4 (4ull << 32 | 1 << 24 | 1) /* n4.1#1 */

static uint64_t memory[512];
static uint8_t data[] = {0xd1, 0, 0xd3};

/* ---- what was there in 1.0; fields of 1.1 have a value too ---- */

static struct report reports[] = {
    {1, 2, PHASE_IN, 0, 7, 41, 40, 8, "a:1", 29500, 0, 0, 0, 0, 0, 0, {{0}}, 0, 0},
    {2, 3, PHASE_EXITED, 137, 0, 0, 0, 0, "", 0, 0, 0, 0, 0, 0, 0, {{0}}, 0, 0},
};
static struct msg_reports all_reports = {4, 2, reports};
static struct msg_welcome welcome = {0xabcdef, 4, 2, 1000, 600000, MODE_INPROCESS};
static struct msg_ack ack = {9, 4, NODE_DRAINING, 7, MODE_RESTART, 0};
static struct member members[] = {
    {N3, 0x11, ROLE_CHIEF, MEMBER_CAUGHT_UP, "a:1", 29500},
    {N4, 0x12, ROLE_WORKER, 0, "b:2", 0},
};
static struct generation generation = {
    .job = "j",
    .run = 2,
    .number = 7,
    .from = 6,
    .kind = GENERATION_FAILURE,
    .flags = GENERATION_HOLD,
    .key = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
            16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
    .members_n = 2,
    .members = members,
};
static struct msg_ended ended = {2, 41, 1, "no", 0};
static struct msg_bye bye = {4, 0xabcdef, 0x1234, 1};
static struct msg_ready ready = {N3, 41, 8, {0xd1, 0xd2}, {0xc1}, 0, 0, {{0}}};
static struct rec_finished finished = {"j", 2, 41, 1, 1, "no", 1700000000000};

struct golden {
    enum wire_type type;
    const void *msg;
    const char *bytes_0;
    const char *bytes_1;
};

static const struct golden kept[] = {
    {WIRE_REPORT, &reports[0],
     "4d5354520100010032000000070000000000000008070605040302015d1af54b0100000002000000"
     "03000000000700000000000000290000000000000028000000000000000800000000000000030061"
     "3a31",
     "4d535452010101003600000007000000000000000807060504030201f61f423f0100000002000000"
     "03000000000700000000000000290000000000000028000000000000000800000000000000030061"
     "3a313c730000"},
    {WIRE_REPORTS, &all_reports,
     "4d53545201001200710000000700000000000000080706050403020190e49b680400000000000000"
     "02000000320001000000020000000300000000070000000000000029000000000000002800000000"
     "00000008000000000000000300613a312f0002000000030000000689000000000000000000000000"
     "00000000000000000000000000000000000000000000000000",
     "4d5354520101120079000000070000000000000008070605040302010e561b1d0400000000000000"
     "02000000360001000000020000000300000000070000000000000029000000000000002800000000"
     "00000008000000000000000300613a313c7300003300020000000300000006890000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000"},
    {WIRE_WELCOME, &welcome,
     "4d5354520100200018000000070000000000000008070605040302012d6e396fefcdab0000000000"
     "0400000002000000e8030000c0270900",
     "4d5354520101200019000000070000000000000008070605040302016d92544fefcdab0000000000"
     "0400000002000000e8030000c027090002"},
    {WIRE_ACK, &ack,
     "4d535452010022001c00000007000000000000000807060504030201f7b611200900000000000000"
     "0400000000000000010000000700000000000000",
     "4d535452010122001d00000007000000000000000807060504030201e8e4d5d00900000000000000"
     "040000000000000001000000070000000000000001"},
    {WIRE_GENERATION, &generation,
     "4d5354520100230077000000070000000000000008070605040302016fa1d44501006a0200000007"
     "00000000000000060000000000000002010000000000000000000102030405060708090a0b0c0d0e"
     "0f101112131415161718191a1b1c1d1e1f0200000017000200000003000000110000000000000001"
     "010300613a3117000100000104000000120000000000000000000300623a32",
     "4d535452010123007f00000007000000000000000807060504030201aa8319b501006a0200000007"
     "00000000000000060000000000000002010000000000000000000102030405060708090a0b0c0d0e"
     "0f101112131415161718191a1b1c1d1e1f020000001b000200000003000000110000000000000001"
     "010300613a313c7300001b000100000104000000120000000000000000000300623a3200000000"},
    {WIRE_ENDED, &ended,
     "4d535452010025000c00000007000000000000000807060504030201699834dd0200000029000000"
     "00000000",
     "4d535452010125001100000007000000000000000807060504030201da1d90b60200000029000000"
     "000000000102006e6f"},
    {WIRE_BYE, &bye, "4d5354520100140004000000070000000000000008070605040302011e455f2704000000",
     "4d535452010114001400000007000000000000000807060504030201d1e0f22904000000efcdab00"
     "000000003412000000000000"},
    {WIRE_READY, &ready,
     "4d5354520100310018000000070000000000000008070605040302014e6f2ed60200000003000000"
     "29000000000000000800000000000000",
     "4d535452010131001800000007000000000000000807060504030201c85506ef0200000003000000"
     "29000000000000000800000000000000"},
    {WIRE_REC_FINISHED, &finished, "0501010010000000bcee020d01006a02000000290000000000000001",
     "05010101150000005930d6f601006a020000002900000000000000010102006e6f"},
    {WIRE_REC_GENERATION, &generation,
     "03010100770000008d2437a701006a02000000070000000000000006000000000000000201000000"
     "0000000000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f020000"
     "0017000200000003000000110000000000000001010300613a311700010000010400000012000000"
     "0000000000000300623a32",
     "030101017f00000088a9f6a701006a02000000070000000000000006000000000000000201000000"
     "0000000000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f020000"
     "001b000200000003000000110000000000000001010300613a313c7300001b000100000104000000"
     "120000000000000000000300623a3200000000"},
};

/* ---- what 1.1 added ---- */

static struct msg_attach attach = {3, 0xc00c1e, 4711, 0};
static struct msg_forget forget = {N3};
static const struct golden added[] = {
    {WIRE_ATTACH, &attach, NULL,
     "4d5354520101040010000000070000000000000008070605040302014bb6810a030000001e0cc000"
     "0000000067120000"},
    {WIRE_FORGET, &forget, NULL,
     "4d53545201010600080000000700000000000000080706050403020147d4c0590200000003000000"},
};

static size_t unhex(const char *text, uint8_t *out)
{
    size_t n = strlen(text) / 2;

    for (size_t i = 0; i < n; i++) {
        unsigned byte = 0;

        assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return n;
}

static void expect_hex(const uint8_t *bytes, size_t n, const char *want_hex)
{
    char text[2048];

    assert_true(n * 2 < sizeof(text));
    for (size_t i = 0; i < n; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    assert_string_equal(text, want_hex);
}

static size_t encode(enum wire_type type, const void *msg, uint8_t *out, size_t cap)
{
    size_t n = 0;
    int rc = wire_is_message(type) ? wire_encode(type, msg, 7, REQUEST, out, cap, &n)
                                   : wire_record_encode(type, msg, out, cap, &n);

    assert_int_equal(rc, MU_OK);
    return n;
}

/* What is written now, less what has been appended since that minor version. */
static void expect_as(uint8_t minor, enum wire_type type, const void *msg, const char *want_hex)
{
    const size_t head_n = wire_is_message(type) ? WIRE_HEADER_BYTES : WIRE_RECORD_HEADER_BYTES;
    const size_t crc_at = wire_is_message(type) ? 28 : 8;
    const size_t length_at = wire_is_message(type) ? 8 : 4;
    uint8_t bytes[1024];
    size_t n = 0;

    encode(type, msg, bytes, sizeof(bytes));
    assert_int_equal(bytes[wire_is_message(type) ? 5 : 3], WIRE_MINOR);
    assert_int_equal(
        wire_fields_encode(wire_desc(type), minor, msg, bytes + head_n, sizeof(bytes) - head_n, &n),
        MU_OK);
    bytes[wire_is_message(type) ? 5 : 3] = minor;
    put_u32(bytes + length_at, (uint32_t)n);
    put_u32(bytes + crc_at, 0);
    put_u32(bytes + crc_at, crc32c(0, bytes, head_n + n));
    expect_hex(bytes, head_n + n, want_hex);
}

/* bytes must outlive *msg. */
static void decode(enum wire_type type, const uint8_t *bytes, size_t n, union wire_any *msg)
{
    struct wire_scratch scratch = {(uint8_t *)memory, sizeof(memory), 0};
    struct wire_fault fault = {0};
    struct wire_header h;
    unsigned got = 0;

    if (wire_is_message(type)) {
        assert_int_equal(wire_frame_decode(bytes, n, &h, msg, &scratch, &fault), MU_OK);
        assert_int_equal(h.type, type);
        assert_true(h.generation == 7 && h.request == REQUEST);
    } else {
        assert_int_equal(wire_record_decode(bytes, n, &got, msg, &scratch, &fault), MU_OK);
        assert_int_equal(got, type);
    }
}

static void check_now(const struct golden *g)
{
    uint8_t bytes[1024];
    union wire_any msg;

    expect_as(1, g->type, g->msg, g->bytes_1);
    decode(g->type, bytes, unhex(g->bytes_1, bytes), &msg);
    expect_as(1, g->type, &msg, g->bytes_1);
}

static void each_message_of_1_0_is_written_with_these_bytes_now(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        check_now(&kept[i]);
    }
}

static void each_message_that_1_1_added_has_these_bytes(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(added); i++) {
        check_now(&added[i]);
    }
}

/* The fields that 1.1 added are zero; the others are those of the struct above: with the new ones
 * put in, it encodes to the bytes of 1.1. */
static void put_new_fields(enum wire_type type, union wire_any *msg)
{
    switch (type) {
    case WIRE_REPORT:
        assert_int_equal(msg->report.port, 0);
        msg->report.port = reports[0].port;
        break;
    case WIRE_REPORTS:
        assert_true(msg->reports.reports[0].port == 0 && msg->reports.reports[1].port == 0);
        msg->reports.reports[0].port = reports[0].port;
        break;
    case WIRE_WELCOME:
        assert_int_equal(msg->welcome.mode, 0);
        msg->welcome.mode = welcome.mode;
        break;
    case WIRE_ACK:
        assert_int_equal(msg->ack.mode, 0);
        msg->ack.mode = ack.mode;
        break;
    case WIRE_GENERATION:
    case WIRE_REC_GENERATION:
        assert_true(msg->generation.members[0].port == 0 && msg->generation.members[1].port == 0);
        msg->generation.members[0].port = members[0].port;
        break;
    case WIRE_ENDED:
        assert_true(msg->ended.failed == 0 && msg->ended.why[0] == '\0');
        msg->ended.failed = 1;
        strcpy(msg->ended.why, ended.why);
        break;
    case WIRE_REC_FINISHED:
        assert_true(msg->rec_finished.failed == 0 && msg->rec_finished.why[0] == '\0');
        msg->rec_finished.failed = 1;
        strcpy(msg->rec_finished.why, finished.why);
        break;
    case WIRE_BYE:
        assert_true(msg->bye.store == 0 && msg->bye.incarnation == 0);
        msg->bye.store = bye.store;
        msg->bye.incarnation = bye.incarnation;
        break;
    default: /* It has no new fields. */
        break;
    }
}

static void bytes_of_1_0_are_understood_with_later_fields_zero(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        uint8_t bytes[1024];
        union wire_any msg;

        decode(kept[i].type, bytes, unhex(kept[i].bytes_0, bytes), &msg);
        put_new_fields(kept[i].type, &msg);
        expect_as(1, kept[i].type, &msg, kept[i].bytes_1);
    }
}

/* ---- what 1.2 made longer ---- */

static struct msg_life life = {
    N3, 2, 4, 1000, 600000, MODE_AUTO, "j", "n", {1, 2, 3, [31] = 32}, 0x11, "a:1", 0,
};
static const char life_1_1[] =
    "4d535452010105001f0000000700000000000000080706050403020121b6d4110200000003000000"
    "0200000004000000e8030000c02709000001006a01006e";
static const char life_1_2[] =
    "4d535452010205004c00000007000000000000000807060504030201045f0c750200000003000000"
    "0200000004000000e8030000c02709000001006a01006e0102030000000000000000000000000000"
    "00000000000000000000000000002011000000000000000300613a31";

static void a_life_of_1_1_is_understood_and_1_2_says_more(void **state)
{
    uint8_t bytes[1024];
    struct msg_life zero = {0};
    union wire_any msg;

    decode(WIRE_LIFE, bytes, unhex(life_1_1, bytes), &msg);
    assert_true(msg.life.worker == N3 && msg.life.host == 0 && msg.life.addr[0] == '\0');
    assert_memory_equal(msg.life.key, zero.key, sizeof(zero.key));
    memcpy(msg.life.key, life.key, sizeof(life.key));
    msg.life.host = life.host;
    strcpy(msg.life.addr, life.addr);
    expect_as(2, WIRE_LIFE, &msg, life_1_2);
    expect_as(2, WIRE_LIFE, &life, life_1_2);
    decode(WIRE_LIFE, bytes, unhex(life_1_2, bytes), &msg);
    expect_as(2, WIRE_LIFE, &msg, life_1_2);
}

/* ---- what 1.3 brought ---- */

static struct report hung = {2, 3, PHASE_EXITED, 143, 7, 41, 0, 0, "", 0, 1, FAULT_STATES, N4, 0,
                             0, 0, {{0}},        0,   0};
static struct msg_settle settle = {N3, 41, 1, {0x81}, {0xd1, 0xd2}, {0xc1}, 1, 0, 0, 0, 0, {{0}}};
static struct msg_ended left = {2, 41, 0, "", 1};
static const struct {
    enum wire_type type;
    const void *msg;
    const char *bytes;
} of_1_3[] = {
    {WIRE_REPORT, &hung,
     "4d535452010301003d00000007000000000000000807060504030201a48f71a30200000003000000"
     "068f0000000700000000000000290000000000000000000000000000000000000000000000000000"
     "00000001010100000104000000"},
    {WIRE_READY, &ready,
     "4d5354520103310038000000070000000000000008070605040302016fa0bdc40200000003000000"
     "29000000000000000800000000000000d1d20000000000000000000000000000c100000000000000"
     "0000000000000000"},
    {WIRE_SETTLE, &settle,
     "4d53545201033200b2000000070000000000000008070605040302014d1d6dcc0200000003000000"
     "29000000000000000181000000000000000000000000000000000000000000000000000000000000"
     "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "0000000000000000000000000000000000d1d20000000000000000000000000000c1000000000000"
     "00000000000000000001"},
    {WIRE_ENDED, &left,
     "4d53545201032500100000000700000000000000080706050403020153b206950200000029000000"
     "0000000000000001"},
};

static void what_1_3_brought_has_these_bytes(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(of_1_3); i++) {
        uint8_t bytes[1024];
        union wire_any msg;

        expect_as(3, of_1_3[i].type, of_1_3[i].msg, of_1_3[i].bytes);
        decode(of_1_3[i].type, bytes, unhex(of_1_3[i].bytes, bytes), &msg);
        expect_as(3, of_1_3[i].type, &msg, of_1_3[i].bytes);
    }
}

/* ---- what 1.4 added ---- */

static struct msg_lease lease = {77, 3};
static struct msg_ack wished = {9, 4, NODE_DRAINING, 7, MODE_RESTART, 3};
static struct msg_ready saving = {N3, 41, 8, {0xd1, 0xd2}, {0xc1}, 1, 0, {{0}}};

static const struct {
    enum wire_type type;
    const void *msg;
    const char *bytes;
} of_1_4[] = {
    {WIRE_LEASE, &lease,
     "4d535452010403000c00000007000000000000000807060504030201d89623944d00000000000000"
     "03000000"},
    {WIRE_ACK, &wished,
     "4d5354520104220021000000070000000000000008070605040302013b23446c0900000000000000"
     "04000000000000000100000007000000000000000103000000"},
    {WIRE_READY, &saving,
     "4d535452010431003900000007000000000000000807060504030201d998b0640200000003000000"
     "29000000000000000800000000000000d1d20000000000000000000000000000c100000000000000"
     "000000000000000001"},
};

static void what_1_4_brought_has_these_bytes(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(of_1_4); i++) {
        uint8_t bytes[1024];
        union wire_any msg;

        expect_as(4, of_1_4[i].type, of_1_4[i].msg, of_1_4[i].bytes);
        decode(of_1_4[i].type, bytes, unhex(of_1_4[i].bytes, bytes), &msg);
        expect_as(4, of_1_4[i].type, &msg, of_1_4[i].bytes);
    }
}

/* ---- what 1.5 added ---- */

static struct report agreed = {1,  2,  PHASE_IN, 0, 7,     41, 40, 8, "a:1", 0, 0, FAULT_STATES,
                               N4, 30, 0,        0, {{0}}, 0,  0};
static struct msg_attach carrier = {3, 0xc00c1e, 4711, 1};
static struct msg_depot put = {DEPOT_PUT, "j", 41, 2, 5, 8, {0xa1, 0xa2}, 3, 100, 3, data};
static struct msg_depot_says says = {DEPOT_READ, MU_ENOENT, "no", 2, 5, 8, {0xa1}, 1, 3, data};

static const struct {
    enum wire_type type;
    const void *msg;
    const char *bytes;
} of_1_5[] = {
    {WIRE_REPORT, &agreed,
     "4d5354520105010048000000070000000000000008070605040302018ec4bf1f0100000002000000"
     "03000000000700000000000000290000000000000028000000000000000800000000000000030061"
     "3a3100000000000101000001040000001e00000000000000"},
    {WIRE_ATTACH, &carrier,
     "4d5354520105040011000000070000000000000008070605040302019ee4af45030000001e0cc000"
     "000000006712000001"},
    {WIRE_DEPOT, &put,
     "4d535452010544004300000007000000000000000807060504030201a3cb91930301006a29000000"
     "000000000200000005000000000000000800000000000000a1a20000000000000000000000000000"
     "03000000640000000000000003000000d100d3"},
    {WIRE_DEPOT_SAYS, &says,
     "4d53545201054500350000000700000000000000080706050403020103f5d03c01f8ffffff02006e"
     "6f0200000005000000000000000800000000000000a1000000000000000000000000000000010300"
     "0000d100d3"},
};

static void what_1_5_brought_has_these_bytes(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(of_1_5); i++) {
        uint8_t bytes[1024];
        union wire_any msg;

        expect_as(5, of_1_5[i].type, of_1_5[i].msg, of_1_5[i].bytes);
        decode(of_1_5[i].type, bytes, unhex(of_1_5[i].bytes, bytes), &msg);
        expect_as(5, of_1_5[i].type, &msg, of_1_5[i].bytes);
    }
}

/* ---- what 1.6 added ---- */

static struct report apart = {
    1, 2, PHASE_IN, 0, 7, 41, 40, 8, "a:1", 0, 0, 0, 0, 30, 7, 2, {{N3, 0}, {N4, 5000}}, 0, 0};
static const char apart_1_6[] =
    "4d535452010601007000000007000000000000000807060504030201a949de8b0100000002000000"
    "03000000000700000000000000290000000000000028000000000000000800000000000000030061"
    "3a3100000000000000000000000000001e000000000000000700000000000000020000000c000200"
    "000003000000000000000c00010000010400000088130000";

static struct msg_settle broke = {N3,
                                  41,
                                  1,
                                  {0x81},
                                  {0xd1, 0xd2},
                                  {0xc1},
                                  0,
                                  UINT64_C(7) << ROUND_BITS | 2,
                                  8,
                                  1,
                                  2,
                                  {{40, 7, SAVE_DURABLE, 41, 0}, {41, 7, SAVE_WRITING, 41, 0}}};
static const char broke_1_6[] =
    "4d53545201063200fd00000007000000000000000807060504030201bce308500200000003000000"
    "29000000000000000181000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000d1d20000000000000000000000000000c1000000000000"
    "00000000000000000000020070000000000008000000000000000102000000190028000000000000"
    "00070000000000000002290000000000000019002900000000000000070000000000000001290000"
    "0000000000";

static void a_report_of_1_6_says_who_is_apart(void **state)
{
    uint8_t bytes[1024];
    union wire_any msg;

    expect_as(6, WIRE_REPORT, &apart, apart_1_6);
    decode(WIRE_REPORT, bytes, unhex(apart_1_6, bytes), &msg);
    assert_true(msg.report.apart_in == 7 && msg.report.apart_n == 2);
    assert_true(msg.report.apart[1].peer == N4 && msg.report.apart[1].idle_ms == 5000);
    expect_as(6, WIRE_REPORT, &msg, apart_1_6);
}

static void a_settle_of_1_6_says_what_it_holds_and_where_it_went(void **state)
{
    uint8_t bytes[1024];
    union wire_any msg;

    expect_as(6, WIRE_SETTLE, &broke, broke_1_6);
    decode(WIRE_SETTLE, bytes, unhex(broke_1_6, bytes), &msg);
    assert_true(msg.settle.held_in == term_make(7, 2) && msg.settle.moved == 8);
    assert_int_equal(msg.settle.lacks, 1);
    expect_as(6, WIRE_SETTLE, &msg, broke_1_6);
}

/* ---- what 1.7 added ---- */

static struct rec_gone saw_end = {4, 1, 0};
static struct rec_forgotten forgotten = {"j", 0x1234, 2, 7, 41, 1, 1700000000000, 5};

static const struct {
    enum wire_type type;
    const void *msg;
    const char *bytes;
} of_1_7[] = {
    {WIRE_BYE, &bye,
     "4d535452010714001500000007000000000000000807060504030201b32ae1a704000000efcdab00"
     "00000000341200000000000001"},
    {WIRE_REC_GONE, &saw_end, "020101070600000040bbf315040000000100"},
    {WIRE_REC_FINISHED, &finished,
     "050101071d000000c69ec4a401006a020000002900000000000000010102006e6f0068e5cf8b0100"
     "00"},
    {WIRE_REC_FORGOTTEN, &forgotten,
     "0c0101072c000000520f9d3401006a34120000000000000200000007000000000000002900000000"
     "000000010068e5cf8b01000005000000"},
};

static void what_1_7_added_has_these_bytes(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(of_1_7); i++) {
        uint8_t bytes[1024];
        union wire_any msg;

        expect_as(7, of_1_7[i].type, of_1_7[i].msg, of_1_7[i].bytes);
        decode(of_1_7[i].type, bytes, unhex(of_1_7[i].bytes, bytes), &msg);
        expect_as(7, of_1_7[i].type, &msg, of_1_7[i].bytes);
    }
}

/* ---- what 1.8 brought ---- */

static struct msg_ask a_question = {N3, 5, 3, 250, 9, "j", "k", 3, data};
static struct msg_says an_answer = {N3, 5, MU_ESTALE, 1, 7, "k", "no", 3, data};
static struct metric metrics[] = {{"loss", 0x3fe0000000000000}, {"nan", 0x7ff8000000000000}};
static struct body_setting setting = {1, 3, data};
static struct body_value value = {3, data, 6, 9, 4, "u", 5, 8};
static struct body_values values = {7, 9, 1, 2, "b:2", 3, data};
static struct body_metrics all_metrics = {41, 2, metrics};
static struct body_text text = {3, data};
static struct msg_event event = {13, 1700000000000, 2, "j", "n", N3, 7, 41, "why", 1, metrics};

static const struct {
    enum wire_type type;
    const void *body;
    const char *bytes;
} bodies_1_8[] = {
    {WIRE_BODY_SETTING, &setting, "0103000000d100d3"},
    {WIRE_BODY_VALUE, &value,
     "03000000d100d3060000000000000009000000040000000000000001007505000000000000000800"
     "0000"},
    {WIRE_BODY_VALUES, &values, "07000000000000000900000001000000020000000300623a3203000000d100d3"},
    {WIRE_BODY_METRICS, &all_metrics,
     "2900000000000000020000000e0004006c6f7373000000000000e03f0d0003006e616e0000000000"
     "00f87f"},
    {WIRE_BODY_TEXT, &text, "03000000d100d3"},
    {WIRE_BODY_EVENT, &event,
     "0d000000000000000068e5cf8b0100000201006a01006e0200000003000000070000000000000029"
     "000000000000000300776879010000000e0004006c6f7373000000000000e03f"},
};

static void questions_of_1_8_have_these_bytes(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(bodies_1_8); i++) {
        uint8_t bytes[1024];
        char hex[2048] = "";
        size_t n = 0;

        assert_int_equal(
            wire_body_encode(bodies_1_8[i].type, bodies_1_8[i].body, bytes, sizeof(bytes), &n),
            MU_OK);
        assert_int_equal(bytes[0], WIRE_MINOR);
        for (size_t k = 1; k < n; k++) {
            snprintf(hex + 2 * (k - 1), 3, "%02x", bytes[k]);
        }
        assert_string_equal(hex, bodies_1_8[i].bytes);
    }
    expect_as(8, WIRE_ASK, &a_question,
              "4d53545201080c002b000000070000000000000008070605040302016e4fe5c90200000003000000"
              "05000000000000000300fa000000090000000000000001006a01006b03000000d100d3");
    expect_as(8, WIRE_SAYS, &an_answer,
              "4d53545201080d002b000000070000000000000008070605040302010f5d4ad40200000003000000"
              "0500000000000000f7ffffff01070000000000000001006b02006e6f03000000d100d3");
}

static struct msg_ready folders = {
    N3, 41, 8, {0}, {0}, 0, 2, {{40, 7, SAVE_DURABLE, 41, 0xf01de4}, {41, 7, 0, 41, NO_FOLDER}}};
static const char folders_1_7[] =
    "4d53545201073100830000000700000000000000080706050403020174c117e00200000003000000"
    "29000000000000000800000000000000000000000000000000000000000000000000000000000000"
    "00000000000000000002000000210028000000000000000700000000000000022900000000000000"
    "e41df00000000000210029000000000000000700000000000000002900000000000000ffffffffff"
    "ffffff";

static struct report unkept = {1, 2,  PHASE_IN, 0, 7,     41, 40, 8, "a:1", 0, 0, FAULT_UNSAVED,
                               0, 30, 0,        0, {{0}}, 1,  0};
static const char unkept_1_7[] =
    "4d53545201070100550000000700000000000000080706050403020109c5fe480100000002000000"
    "03000000000700000000000000290000000000000028000000000000000800000000000000030061"
    "3a3100000000000300000000000000001e0000000000000000000000000000000000000001";

static void a_report_of_1_7_says_that_nothing_is_kept(void **state)
{
    uint8_t bytes[1024];
    union wire_any msg;

    expect_as(7, WIRE_REPORT, &unkept, unkept_1_7);
    decode(WIRE_REPORT, bytes, unhex(unkept_1_7, bytes), &msg);
    assert_true(msg.report.unkept == 1 && msg.report.fault == FAULT_UNSAVED);
}

static void a_ready_of_1_7_says_where_it_saves(void **state)
{
    uint8_t bytes[1024];
    union wire_any msg;

    expect_as(7, WIRE_READY, &folders, folders_1_7);
    decode(WIRE_READY, bytes, unhex(folders_1_7, bytes), &msg);
    assert_true(msg.ready.saved[0].folder == 0xf01de4 && msg.ready.saved[1].folder == NO_FOLDER);
}

/* ---- what 1.8 added ---- */

static struct roster_entry helpers[] = {
    {N3, 0x11, ROLE_PS, PHASE_SERVING, 1, "a:1"},
    {N4, 0x12, ROLE_WORKER, PHASE_WARMING, 0, "b:2"},
};
static struct msg_roster roster = {2, 9, 2, helpers};
static struct msg_renew renewal = {5, 7, 6, 1, 9};
static struct rec_node helper_node = {"j", "n", 4, 0x1234, 0x11, 2, ROLE_PS, 3};
static struct report asking = {1, 2, PHASE_SERVING, 0, 0, 0, 0, 0, "a:1", 0, 0, 0, 0, 0,
                               0, 0, {{0}},         0, 1};

static const struct {
    enum wire_type type;
    const void *msg;
    const char *bytes;
} of_1_8[] = {
    {WIRE_ROSTER, &roster,
     "4d535452010826004a000000070000000000000008070605040302010738c21f0200000009000000"
     "00000000020000001b00020000000300000011000000000000000207010000000300613a311b0001"
     "0000010400000012000000000000000001000000000300623a32"},
    {WIRE_RENEW, &renewal,
     "4d535452010811002400000007000000000000000807060504030201b451e30c0500000000000000"
     "07000000000000000600000000000000010000000900000000000000"},
    {WIRE_REPORT, &asking,
     "4d535452010801005600000007000000000000000807060504030201a8ddbf160100000002000000"
     "07000000000000000000000000000000000000000000000000000000000000000000000000030061"
     "3a31000000000000000000000000000000000000000000000000000000000000000000000001"},
    {WIRE_REC_NODE, &helper_node,
     "0101010823000000a3c5a8ad01006a01006e04000000341200000000000011000000000000000200"
     "00000203000000"},
};

static void what_1_8_added_has_these_bytes(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(of_1_8); i++) {
        uint8_t bytes[1024];
        union wire_any msg;

        expect_as(8, of_1_8[i].type, of_1_8[i].msg, of_1_8[i].bytes);
        decode(of_1_8[i].type, bytes, unhex(of_1_8[i].bytes, bytes), &msg);
        expect_as(8, of_1_8[i].type, &msg, of_1_8[i].bytes);
    }
}

/* The bytes of 1.1 above are those of a run that is over for all. */
static void an_end_of_1_1_is_nobodys_leaving(void **state)
{
    uint8_t bytes[1024];
    union wire_any msg;

    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        if (kept[i].type == WIRE_ENDED) {
            decode(WIRE_ENDED, bytes, unhex(kept[i].bytes_1, bytes), &msg);
            assert_int_equal(msg.ended.left, 0);
        }
    }
}

static bool has(const struct wire_desc *d, uint8_t since)
{
    bool found = false;

    for (uint32_t k = 0; k < d->fields_n; k++) {
        found |= d->fields[k].since == since;
        found |= wire_has_items(&d->fields[k]) && has(d->fields[k].sub(), since);
    }
    return found;
}

/* A hello has the same reports as the message of that name. */
static void nothing_of_1_1_or_1_2_is_without_its_bytes(void **state)
{
    for (uint32_t i = 0; i < wire_types_n; i++) {
        bool found = !has(wire_desc(wire_types[i]), 1) || wire_types[i] == WIRE_HELLO ||
                     wire_types[i] == WIRE_LIFE;

        assert_true(has(wire_desc(wire_types[i]), 2) == (wire_types[i] == WIRE_LIFE));

        for (size_t k = 0; k < ARRAY_LEN(kept); k++) {
            found |= kept[k].type == wire_types[i];
        }
        for (size_t k = 0; k < ARRAY_LEN(added); k++) {
            found |= added[k].type == wire_types[i];
        }
        if (!found) {
            fail_msg("%s has fields of 1.1: its bytes of 1.0 and 1.1 belong into the table above",
                     wire_name(wire_types[i]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_of_1_0_is_written_with_these_bytes_now),
        cmocka_unit_test(each_message_that_1_1_added_has_these_bytes),
        cmocka_unit_test(bytes_of_1_0_are_understood_with_later_fields_zero),
        cmocka_unit_test(a_life_of_1_1_is_understood_and_1_2_says_more),
        cmocka_unit_test(what_1_3_brought_has_these_bytes),
        cmocka_unit_test(what_1_4_brought_has_these_bytes),
        cmocka_unit_test(what_1_5_brought_has_these_bytes),
        cmocka_unit_test(a_report_of_1_6_says_who_is_apart),
        cmocka_unit_test(a_settle_of_1_6_says_what_it_holds_and_where_it_went),
        cmocka_unit_test(what_1_7_added_has_these_bytes),
        cmocka_unit_test(questions_of_1_8_have_these_bytes),
        cmocka_unit_test(a_ready_of_1_7_says_where_it_saves),
        cmocka_unit_test(a_report_of_1_7_says_that_nothing_is_kept),
        cmocka_unit_test(what_1_8_added_has_these_bytes),
        cmocka_unit_test(an_end_of_1_1_is_nobodys_leaving),
        cmocka_unit_test(nothing_of_1_1_or_1_2_is_without_its_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
