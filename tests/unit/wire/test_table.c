#include "unit/unit.h"

#include "base/crc32c.h"
#include "core/text.h"
#include "lib/wire_types.h"
#include "wire/table.h"

#include <string.h>

static size_t field_bytes(const struct wire_field *f)
{
    switch ((enum wire_kind)f->kind) {
    case KIND_U8:
    case KIND_ENUM:
        return 1;
    case KIND_U16:
        return 2;
    case KIND_U64:
    case KIND_WID:
    case KIND_HEX:
        return 8;
    case KIND_STRING:
    case KIND_BYTES:
    case KIND_BITS:
    case KIND_SECRET:
        return f->max;
    default: /* U32, I32 and counts */
        return 4;
    }
}

static void mark(uint8_t *taken, size_t size, size_t offset, size_t n)
{
    for (size_t i = offset; i < offset + n; i++) {
        assert_true(i < size);
        assert_int_equal(taken[i], 0); /* No two fields share a byte. */
        taken[i] = 1;
    }
}

/* What no field takes is less than one alignment in a row: too little for a forgotten u64.
 * (That smaller ones are not forgotten either is checked when table.c is compiled.) */
static void check_cover(const struct wire_desc *d)
{
    uint8_t taken[4096] = {0};
    size_t gap = 0;

    assert_true(d->size <= sizeof(taken));
    for (uint32_t i = 0; i < d->fields_n; i++) {
        const struct wire_field *f = &d->fields[i];

        mark(taken, d->size, f->offset, field_bytes(f));
        if (f->kind == KIND_BLOB || f->kind == KIND_LIST) {
            mark(taken, d->size, f->data, sizeof(void *));
        } else if (f->kind == KIND_ITEMS) {
            mark(taken, d->size, f->data, f->max * f->sub()->size);
        }
        if (wire_has_items(f)) {
            check_cover(f->sub());
        }
    }
    for (size_t i = 0; i < d->size; i++) {
        gap = taken[i] ? 0 : gap + 1;
        assert_true(gap < sizeof(uint64_t));
    }
}

static void fields_cover_their_structs_without_overlap(void **state)
{
    for (uint32_t i = 0; i < wire_types_n; i++) {
        check_cover(wire_desc(wire_types[i]));
    }
}

static void every_enum_has_a_name_for_each_value(void **state)
{
    for (uint32_t i = 0; i < wire_types_n; i++) {
        const struct wire_desc *d = wire_desc(wire_types[i]);

        for (uint32_t k = 0; k < d->fields_n; k++) {
            const char *p = d->fields[k].values;
            uint32_t names = 1;

            if (d->fields[k].kind != KIND_ENUM) {
                continue;
            }
            while ((p = strchr(p, '|')) != NULL) {
                names++;
                p++;
            }
            assert_int_equal(names, d->fields[k].max);
        }
    }
}

static void fields_are_appended_never_inserted(void **state)
{
    for (uint32_t i = 0; i < wire_types_n; i++) {
        const struct wire_desc *d = wire_desc(wire_types[i]);

        assert_true(d->fields_n > 0);
        assert_true(d->fields[0].since <= WIRE_MINOR);
        for (uint32_t k = 1; k < d->fields_n; k++) {
            assert_true(d->fields[k].since >= d->fields[k - 1].since);
            assert_true(d->fields[k].since <= WIRE_MINOR);
        }
    }
}

/* Names, kinds and order of all fields that a minor version brought, of one message after the
 * other; lists by what is in them. */
static uint32_t digest(const struct wire_desc *d, uint8_t since, uint32_t crc)
{
    for (uint32_t k = 0; k < d->fields_n; k++) {
        const struct wire_field *f = &d->fields[k];

        if (wire_has_items(f)) {
            crc = digest(f->sub(), since, crc);
        }
        if (f->since == since) {
            crc = crc32c(crc, f->name, strlen(f->name) + 1);
            crc = crc32c(crc, &f->kind, sizeof(f->kind));
        }
    }
    return crc;
}

/* But for messages 19, 48, 51, 52, 53 and 64, which nobody says any more. */
static void what_1_0_had_is_as_it_was(void **state)
{
    uint32_t crc = 0;

    for (uint32_t i = 0; i < wire_types_n; i++) {
        const struct wire_desc *d = wire_desc(wire_types[i]);

        if (d->fields[0].since == 0) {
            crc = crc32c(crc, &wire_types[i], sizeof(wire_types[i]));
        }
        crc = digest(d, 0, crc);
    }
    assert_int_equal(crc, 0x457e9a91);
}

static void numbers_of_messages_and_records_stay_apart(void **state)
{
    for (uint32_t i = 0; i < wire_types_n; i++) {
        assert_true(wire_types[i] > 0);
        assert_true(wire_is_message(wire_types[i]) != wire_is_record(wire_types[i]));
        assert_true(wire_is_record(wire_types[i]) == (wire_types[i] >= 256));
    }
    assert_ptr_equal(wire_desc(WIRE_GENERATION), wire_desc(WIRE_REC_GENERATION));
    assert_null(wire_desc(0));
    assert_null(wire_desc(255));
    assert_null(wire_desc(UINT32_MAX));
    assert_string_equal(wire_name(WIRE_READY), "ready");
    assert_string_equal(wire_name(9999), "unknown");
    assert_int_equal(wire_payload_max(WIRE_READY), 131);
    assert_int_equal(wire_payload_max(9999), 0);
}

static void text_is_utf8_without_control_characters(void **state)
{
    static const char *const good[] = {
        "",
        "a b~",
        "h\xc3\xa9",
        "\xc2\xa0",
        "\xe2\x80\xa6",
        "\xef\xbf\xbd",
        "\xf0\x9f\x98\x80",
        "\xf4\x8f\xbf\xbf",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
    };
    static const char *const bad[] = {
        "\n",
        "a\x1b[2J",
        "\x7f",
        "\x80",
        "\xc2",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc2\x85",
        "\xc2\x9f",
        "\xe2\x80",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3(",
        "\xe2(\x80",
        "\xe2\x80(",
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(text_valid((const uint8_t *)good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(text_valid((const uint8_t *)bad[i], strlen(bad[i])));
    }
    assert_false(text_valid((const uint8_t *)"a\0b", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_cover_their_structs_without_overlap),
        cmocka_unit_test(every_enum_has_a_name_for_each_value),
        cmocka_unit_test(fields_are_appended_never_inserted),
        cmocka_unit_test(what_1_0_had_is_as_it_was),
        cmocka_unit_test(numbers_of_messages_and_records_stay_apart),
        cmocka_unit_test(text_is_utf8_without_control_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
