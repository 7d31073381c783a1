/* Damaged RecordIO: every length that a small file may be cut to, and every byte of it flipped, is
 * a clear error, or with skip=yes the exact records that are left. */
#include "unit/data/data_kit.h"

#include <stdio.h>
#include <string.h>

#define CHUNKS 4

static const char *const chunks[CHUNKS] = {"alpha|beta||x", "y", "\x04\x03\x02\x01 magic|gamma",
                                           "the last|one"};

/* What has to be shown: those of the chunks that are whole. */
static const char *expect(const bool whole[CHUNKS])
{
    static char text[512];

    text[0] = '\0';
    for (int i = 0; i < CHUNKS; i++) {
        if (whole[i]) {
            strcat(text, chunks[i]);
            strcat(text, "|");
        }
    }
    return text;
}

static void make(struct made *m, enum layout layout, int compressor, size_t ends[CHUNKS])
{
    m->n = 0;
    for (int i = 0; i < CHUNKS; i++) {
        made_records(m, layout, (enum compressor)compressor, chunks[i]);
        ends[i] = m->n;
    }
}

static const char *option_of(enum layout layout, bool skip)
{
    return layout == LAYOUT_A ? (skip ? "layout=a&skip=yes" : "layout=a")
                              : (skip ? "layout=b&skip=yes" : "layout=b");
}

static void each(void (*check)(enum layout layout, int compressor))
{
    for (int compressor = 0; compressor < 3; compressor++) {
        check(LAYOUT_A, compressor);
        check(LAYOUT_B, compressor);
    }
}

static void check_cuts(enum layout layout, int compressor)
{
    static struct made m;
    size_t ends[CHUNKS];

    make(&m, layout, compressor, ends);
    for (size_t n = 0; n <= m.n; n++) {
        bool whole[CHUNKS], at_end = n == 0;
        size_t last = 0;
        char error[64];

        for (int i = 0; i < CHUNKS; i++) {
            whole[i] = n >= ends[i];
            at_end |= n == ends[i];
            last = whole[i] ? ends[i] : last;
        }
        kit_write("f.recordio", m.b, n);
        snprintf(error, sizeof(error), "#%d at %zu", MU_ECORRUPT, last);
        assert_string_equal(kit_show(kit_path("f.recordio"), option_of(layout, false)),
                            at_end ? expect(whole) : error);
        assert_string_equal(kit_show(kit_path("f.recordio"), option_of(layout, true)),
                            expect(whole));
        assert_int_equal(kit_skipped, at_end ? 0 : 1);
    }
}

static void every_length_of_a_cut_file_is_told_of(void **state)
{
    each(check_cuts);
}

static void check_flips(enum layout layout, int compressor)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    static struct made m;
    size_t ends[CHUNKS];

    make(&m, layout, compressor, ends);
    for (size_t at = 0; at < m.n; at++) {
        for (size_t k = 0; k < ARRAY_LEN(masks); k++) {
            bool whole[CHUNKS];
            const char *shown;

            for (int i = 0; i < CHUNKS; i++) {
                whole[i] = at >= ends[i] || at < (i > 0 ? ends[i - 1] : 0);
            }
            m.b[at] ^= masks[k];
            kit_write("f.recordio", m.b, m.n);
            m.b[at] ^= masks[k];
            shown = kit_show(kit_path("f.recordio"), option_of(layout, false));
            assert_non_null(strstr(shown, "#-4 at "));
            assert_string_equal(kit_show(kit_path("f.recordio"), option_of(layout, true)),
                                expect(whole));
            assert_int_equal(kit_skipped, 1);
            assert_non_null(strstr(kit_show(kit_path("f.recordio"), NULL),
                                   "#-4 at ")); /* Whichever layout it seems. */
        }
    }
}

static void every_flipped_byte_is_told_of(void **state)
{
    each(check_flips);
}

/* A record that is a whole file by itself is still one record, and its chunks are none of ours. */
static void a_file_within_a_record_is_not_taken_for_chunks(void **state)
{
    static struct made inner, payload, m;

    inner.n = payload.n = m.n = 0;
    made_records(&inner, LAYOUT_A, COMPRESS_NONE, "inner one|inner two");
    made_le(&payload, 3, 4);
    made_text(&payload, "abc");
    made_le(&payload, inner.n, 4);
    made_bytes(&payload, inner.b, inner.n);
    made_le(&payload, 3, 4);
    made_text(&payload, "def");
    made_chunk(&m, LAYOUT_A, 0, payload.b, payload.n, 3);
    made_records(&m, LAYOUT_A, COMPRESS_NONE, "outer");
    m.b[CHUNK_HEAD + 4] ^= 1; /* In "abc". */
    kit_write("f.recordio", m.b, m.n);
    assert_string_equal(kit_show(kit_path("f.recordio"), "skip=yes"), "outer|");
    assert_int_equal(kit_skipped, 1);
    m.b[CHUNK_HEAD + 4] ^= 1;
    m.b[CHUNK_HEAD] ^= 1; /* Its length. */
    kit_write("f.recordio", m.b, m.n);
    assert_string_equal(kit_show(kit_path("f.recordio"), "skip=yes"), "outer|");
}

/* A damaged length that points to the beginning of a later chunk loses nothing between. */
static void a_length_that_lands_on_a_later_chunk_is_not_believed(void **state)
{
    static struct made m;
    size_t size;

    m.n = 0;
    made_records(&m, LAYOUT_A, COMPRESS_NONE, "aaaa|bb");
    size = m.n;
    made_records(&m, LAYOUT_A, COMPRESS_NONE, "cccc|dd");
    made_records(&m, LAYOUT_A, COMPRESS_NONE, "eeee|ff");
    m.b[12] = (uint8_t)(m.b[12] + size);
    kit_write("f.recordio", m.b, m.n);
    assert_string_equal(kit_show(kit_path("f.recordio"), "skip=yes"), "cccc|dd|eeee|ff|");
    assert_int_equal(kit_skipped, 1);
}

static void sizes_that_cannot_be_take_no_memory(void **state)
{
    static struct made m;

    m.n = 0; /* A block of snappy that claims 4 GiB. */
    made_chunk(&m, LAYOUT_B, 2, "\xff\xff\xff\xff\x0f\x00", 6, 1);
    kit_write("f.recordio", m.b, m.n);
    assert_string_equal(kit_show(kit_path("f.recordio"), NULL), "#-4 at 0|");
    m.n = 0;
    made_chunk(&m, LAYOUT_A, 1,
               "\xff\x06\x00\x00sNaPpY\x00\x0a\x00\x00....\xff\xff\xff\xff\x0f\x00", 24, 1);
    kit_write("f.recordio", m.b, m.n);
    assert_string_equal(kit_show(kit_path("f.recordio"), "layout=a"), "#-4 at 0|");
    m.n = 0;
    made_chunk(&m, LAYOUT_A, 0, "\xff\xff\xff\xff", 4, 1);
    kit_write("f.recordio", m.b, m.n);
    assert_string_equal(kit_show(kit_path("f.recordio"), NULL), "#-4 at 0|");
    m.n = 0; /* More records than bytes. */
    made_chunk(&m, LAYOUT_A, 0, "....", 4, UINT32_MAX);
    kit_write("f.recordio", m.b, m.n);
    assert_string_equal(kit_show(kit_path("f.recordio"), NULL), "#-4 at 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(every_length_of_a_cut_file_is_told_of),
        KIT_TEST(every_flipped_byte_is_told_of),
        KIT_TEST(a_file_within_a_record_is_not_taken_for_chunks),
        KIT_TEST(a_length_that_lands_on_a_later_chunk_is_not_believed),
        KIT_TEST(sizes_that_cannot_be_take_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
