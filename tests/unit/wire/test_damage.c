#include "unit/unit.h"

#include "base/crc32c.h"
#include "lib/wire_sample.h"
#include "lib/wire_types.h"
#include "wire/bytes.h"
#include "wire/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRATCH_CAP (64u << 10)

static uint64_t memory[2][SCRATCH_CAP / 8];
static uint8_t buffer[16u << 10];

static struct wire_scratch scratch(int which)
{
    return (struct wire_scratch){(uint8_t *)memory[which], SCRATCH_CAP, 0};
}

/* A sample of that type with non-empty lists of up to 3; its length. */
static size_t sample(enum wire_type type, struct prng *p, uint8_t *out, size_t cap)
{
    struct wire_scratch s = scratch(0);
    union wire_any in;
    size_t n = 0;

    assert_int_equal(wire_sample(type, p, 3, &in, &s), MU_OK);
    if (wire_is_message(type)) {
        assert_int_equal(wire_encode(type, &in, 5, 6, out, cap, &n), MU_OK);
    } else {
        assert_int_equal(wire_record_encode(type, &in, out, cap, &n), MU_OK);
    }
    return n;
}

/* Decodes from a block of exactly n bytes, so that a sanitizer sees a read beyond them. */
static int decode(enum wire_type type, const uint8_t *bytes, size_t n, struct wire_fault *fault)
{
    struct wire_scratch s = scratch(1);
    uint8_t *exact = malloc(n + 1);
    struct wire_header h;
    union wire_any out;
    unsigned got;
    int rc;

    assert_non_null(exact);
    memcpy(exact + 1, bytes, n); /* at an odd address */
    if (wire_is_message(type)) {
        rc = wire_frame_decode(exact + 1, n, &h, &out, &s, fault);
    } else {
        rc = wire_record_decode(exact + 1, n, &got, &out, &s, fault);
    }
    free(exact);
    assert_true(rc == MU_OK || s.used == 0);
    return rc;
}

/* Makes length and checksum right again. */
static void mend(enum wire_type type, uint8_t *bytes, size_t n)
{
    size_t at = wire_is_message(type) ? 28 : 8;
    size_t head = wire_is_message(type) ? WIRE_HEADER_BYTES : WIRE_RECORD_HEADER_BYTES;

    put_u32(bytes + (wire_is_message(type) ? 8 : 4), (uint32_t)(n - head));
    put_u32(bytes + at, 0);
    put_u32(bytes + at, crc32c(0, bytes, n));
}

static void every_truncation_is_refused(void **state)
{
    struct wire_fault fault;
    struct prng p;

    prng_init(&p, 51);
    for (uint32_t i = 0; i < wire_types_n; i++) {
        enum wire_type type = (enum wire_type)wire_types[i];
        uint8_t cut[sizeof(buffer)];
        size_t n = sample(type, &p, buffer, sizeof(buffer));
        size_t head = wire_is_message(type) ? WIRE_HEADER_BYTES : WIRE_RECORD_HEADER_BYTES;

        assert_int_equal(decode(type, buffer, n, NULL), MU_OK);
        for (size_t len = 0; len < n; len++) {
            fault.text[0] = '\0';
            assert_true(decode(type, buffer, len, &fault) < 0);
            assert_true(fault.text[0] != '\0');
            if (len >= head) {
                /* Even by a sender who says so: every field is missed. */
                memcpy(cut, buffer, len);
                mend(type, cut, len);
                assert_int_equal(decode(type, cut, len, &fault), MU_EPROTO);
            }
        }
        memcpy(cut, buffer, n);
        cut[n] = 0;
        mend(type, cut, n + 1);
        int rc = decode(type, cut, n + 1, &fault);

        assert_true(rc == MU_EPROTO || rc == MU_ELIMIT);
    }
}

static void every_flipped_bit_is_refused(void **state)
{
    struct wire_fault fault;
    struct prng p;

    prng_init(&p, 52);
    for (uint32_t i = 0; i < wire_types_n; i++) {
        enum wire_type type = (enum wire_type)wire_types[i];
        size_t n = sample(type, &p, buffer, sizeof(buffer));

        for (size_t bit = 0; bit < n * 8; bit++) {
            buffer[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_true(decode(type, buffer, n, &fault) < 0);
            if (!wire_is_message(type)) {
                assert_int_equal(fault.status, MU_ECORRUPT);
            } else if (bit >= 12 * 8) {
                assert_int_equal(fault.status, MU_ECORRUPT);
            }
            buffer[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_int_equal(decode(type, buffer, n, &fault), MU_OK);
    }
}

static void random_damage_behind_a_good_checksum_is_never_fatal(void **state)
{
    uint8_t bytes[sizeof(buffer)];
    struct wire_fault fault;
    struct prng p;

    prng_init(&p, 53);
    for (int round = 0; round < 40000; round++) {
        enum wire_type type = (enum wire_type)wire_types[prng_below(&p, wire_types_n)];
        size_t head = wire_is_message(type) ? WIRE_HEADER_BYTES : WIRE_RECORD_HEADER_BYTES;
        size_t n = sample(type, &p, bytes, sizeof(bytes));

        for (uint64_t k = prng_between(&p, 1, 4); k > 0; k--) {
            bytes[prng_between(&p, head, n - 1)] = (uint8_t)prng_u64(&p);
        }
        mend(type, bytes, n);
        decode(type, bytes, n, &fault);
    }
}

static void lengths_beyond_the_bound_are_refused_by_the_header_alone(void **state)
{
    uint8_t bytes[WIRE_HEADER_BYTES] = {0};
    struct wire_fault fault;
    struct wire_header h;

    for (uint32_t i = 0; i < wire_types_n; i++) {
        if (!wire_is_message(wire_types[i])) {
            continue;
        }
        uint32_t max = wire_payload_max(wire_types[i]);

        put_u32(bytes, WIRE_MAGIC);
        bytes[4] = WIRE_MAJOR;
        bytes[5] = WIRE_MINOR;
        put_u16(bytes + 6, wire_types[i]);
        put_u32(bytes + 8, max);
        assert_int_equal(wire_header_decode(bytes, &h, &fault), MU_OK);
        put_u32(bytes + 8, max + 1);
        assert_int_equal(wire_header_decode(bytes, &h, &fault), MU_ELIMIT);
        put_u32(bytes + 8, UINT32_MAX);
        assert_int_equal(wire_header_decode(bytes, &h, &fault), MU_ELIMIT);
        bytes[5] = WIRE_MINOR + 1; /* It may have grown, within bounds. */
        put_u32(bytes + 8, 2 * max + 1024);
        assert_int_equal(wire_header_decode(bytes, &h, &fault), MU_OK);
        put_u32(bytes + 8, 2 * max + 1025);
        assert_int_equal(wire_header_decode(bytes, &h, &fault), MU_ELIMIT);
    }
}

/* Encodes msg, lets the caller's byte be put at `at` of the payload, and expects a refusal. */
static void expect(enum wire_type type, const void *msg, size_t at, uint64_t value, int width,
                   int status, const char *text)
{
    size_t head = wire_is_message(type) ? WIRE_HEADER_BYTES : WIRE_RECORD_HEADER_BYTES;
    struct wire_fault fault = {0};
    size_t n = 0;

    if (wire_is_message(type)) {
        assert_int_equal(wire_encode(type, msg, 0, 0, buffer, sizeof(buffer), &n), MU_OK);
    } else {
        assert_int_equal(wire_record_encode(type, msg, buffer, sizeof(buffer), &n), MU_OK);
    }
    for (int i = 0; i < width; i++) {
        buffer[head + at + (size_t)i] = (uint8_t)(value >> 8 * i);
    }
    mend(type, buffer, n);
    assert_int_equal(decode(type, buffer, n, &fault), status);
    assert_int_equal(fault.status, status);
    assert_string_equal(fault.text, text);
}

static void a_refusal_names_message_field_and_place(void **state)
{
    struct msg_ask ask = {.job = "job", .topic = "t"};
    struct report report = {.slot = 1, .addr = "host:1"};
    struct msg_reports reports = {.reports_n = 1, .reports = &report};
    struct rec_config config = {.job = "j", .key = "k"};
    struct msg_says says = {.status = 1};
    const size_t end = wire_size(WIRE_REPORTS, &reports) - WIRE_HEADER_BYTES;
    char text[TEXT_MAX_LEN];

    expect(WIRE_ASK, &ask, 30, NAME_MAX_LEN, 2, MU_ELIMIT,
           "ask: job at byte 30: the string is too long");
    expect(WIRE_ASK, &ask, 30, NAME_MAX_LEN - 1, 2, MU_EPROTO,
           "ask: job at byte 30: the bytes end within it");
    expect(WIRE_ASK, &ask, 33, '\n', 1, MU_EPROTO,
           "ask: job at byte 30: it has control characters or is not UTF-8");
    expect(WIRE_ASK, &ask, 35, 0, 2, MU_EPROTO, "ask: body at byte 37: the bytes end within it");
    expect(WIRE_SAYS, &says, 20, 2, 1, MU_EPROTO, "says: more at byte 20: no such value");
    expect(WIRE_REPORTS, &reports, 8, SLOTS_MAX + 1, 4, MU_ELIMIT,
           "reports: reports at byte 8: there are too many");
    expect(WIRE_REPORTS, &reports, 8, SLOTS_MAX, 4, MU_EPROTO,
           "reports: reports at byte 8: the bytes end within it");
    snprintf(text, sizeof(text), "reports: at byte %zu: the list ends early", end);
    expect(WIRE_REPORTS, &reports, 8, 2, 4, MU_EPROTO, text);
    expect(WIRE_REPORTS, &reports, 22, PHASE_N, 1, MU_EPROTO,
           "reports: report.phase at byte 22: no such value");
    snprintf(text, sizeof(text), "reports: report.apart at byte %zu: the bytes end within it",
             end - 6);
    expect(WIRE_REPORTS, &reports, 12, end - 17, 2, MU_EPROTO, text);
    snprintf(text, sizeof(text), "reports: report.apart at byte %zu: there are too many", end - 6);
    expect(WIRE_REPORTS, &reports, end - 6, APART_MAX + 1, 4, MU_ELIMIT, text);
    snprintf(text, sizeof(text), "reports: report.addr at byte %zu: the bytes end within it",
             end - 38 - strlen(report.addr));
    expect(WIRE_REPORTS, &reports, 12, end - 51, 2, MU_EPROTO, text);
    expect(WIRE_SAYS, &says, 33, SAYS_BODY_MAX + 1, 4, MU_ELIMIT,
           "says: body at byte 33: there are too many");
    expect(WIRE_SAYS, &says, 33, SAYS_BODY_MAX, 4, MU_EPROTO,
           "says: body at byte 33: the bytes end within it");
    expect(WIRE_REC_CONFIG, &config, 15, CONFIG_VALUE_MAX + 1, 4, MU_ELIMIT,
           "config: value at byte 15: there are too many");
    expect(WIRE_REC_CONFIG, &config, 15, CONFIG_VALUE_MAX, 4, MU_EPROTO,
           "config: value at byte 15: the bytes end within it");
}

static void a_row_of_an_unknown_type_is_refused_by_its_number(void **state)
{
    struct rec_gone gone = {.node = 4};
    struct wire_fault fault;
    size_t n = 0;

    assert_int_equal(wire_record_encode(WIRE_REC_GONE, &gone, buffer, sizeof(buffer), &n), MU_OK);
    put_u16(buffer, 700);
    mend(WIRE_REC_GONE, buffer, n);
    assert_int_equal(decode(WIRE_REC_GONE, buffer, n, &fault), MU_EPROTO);
    assert_string_equal(fault.text, "record type 700 of version 1.8 is not known to version 1.8");
    put_u16(buffer, WIRE_BYE); /* A message is no record. */
    mend(WIRE_REC_GONE, buffer, n);
    assert_int_equal(decode(WIRE_REC_GONE, buffer, n, &fault), MU_EPROTO);
}

static void what_is_no_frame_is_refused(void **state)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct msg_bye bye = {.node = 4};
    struct wire_fault fault;
    size_t n = 0;

    assert_int_equal(decode(WIRE_BYE, (const uint8_t *)http, sizeof(http), &fault), MU_EPROTO);
    assert_string_equal(fault.text, "not a muster frame: it starts with 0x20544547");
    assert_int_equal(wire_encode(WIRE_BYE, &bye, 0, 0, buffer, sizeof(buffer), &n), MU_OK);
    put_u16(buffer + 6, WIRE_REC_GONE); /* A record is no message. */
    mend(WIRE_BYE, buffer, n);
    assert_int_equal(decode(WIRE_BYE, buffer, n, &fault), MU_EPROTO);
    assert_string_equal(fault.text, "message type 258 of version 1.8 is not known to version 1.8");
}

static void a_payload_of_another_length_than_its_header_says_is_refused(void **state)
{
    struct wire_scratch s = scratch(0);
    struct msg_bye bye = {.node = 4};
    struct wire_fault fault;
    struct wire_header h;
    union wire_any out;
    size_t n = 0;

    assert_int_equal(wire_encode(WIRE_BYE, &bye, 0, 0, buffer, sizeof(buffer), &n), MU_OK);
    assert_int_equal(wire_header_decode(buffer, &h, &fault), MU_OK);
    for (size_t len = 0; len < 24; len++) {
        int rc = wire_decode(&h, buffer + WIRE_HEADER_BYTES, len, &out, &s, &fault);

        assert_int_equal(rc, len == 21 ? MU_OK : MU_EPROTO);
    }
    assert_string_equal(fault.text, "bye: the header says 21 bytes, there are 23");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(random_damage_behind_a_good_checksum_is_never_fatal),
        cmocka_unit_test(lengths_beyond_the_bound_are_refused_by_the_header_alone),
        cmocka_unit_test(a_refusal_names_message_field_and_place),
        cmocka_unit_test(a_row_of_an_unknown_type_is_refused_by_its_number),
        cmocka_unit_test(what_is_no_frame_is_refused),
        cmocka_unit_test(a_payload_of_another_length_than_its_header_says_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
