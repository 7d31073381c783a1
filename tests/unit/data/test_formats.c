/* Lines, fixed sizes, IDX, TFRecord, tar, whole files; packed ones; sources and their options. */
#include "base/crc32c.h"
#include "unit/data/data_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct made made;

static void write_text(const char *name, const char *text)
{
    kit_write(name, text, strlen(text));
}

static void pack(const char *name, const void *data, size_t n, int bits)
{
    uint8_t *to = malloc(n + 1024);
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)data,
                  .avail_in = (unsigned)n,
                  .next_out = to,
                  .avail_out = (unsigned)n + 1024};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    kit_write(name, to, z.total_out);
    deflateEnd(&z);
    free(to);
}

static void lines_end_in_two_ways_or_not_at_all(void **state)
{
    write_text("t.txt", "one\ntwo\r\n\nthree");
    assert_string_equal(kit_show(kit_path("t.txt"), NULL), "one|two||three|");
    write_text("t.txt", "one\n");
    assert_string_equal(kit_show(kit_path("t.txt"), NULL), "one|");
    write_text("t.txt", "");
    assert_string_equal(kit_show(kit_path("t.txt"), NULL), "");
    write_text("t.txt", "short\nthis one is long\nok\n");
    assert_string_equal(kit_show(kit_path("t.txt"), "max=8"), "#-4 at 6");
    assert_string_equal(kit_show(kit_path("t.txt"), "max=8&skip=yes"), "short|ok|");
    assert_int_equal(kit_skipped, 1);
}

static void fixed_sizes_need_to_be_said(void **state)
{
    char source[256];

    write_text("f", "HEADabcdefgh");
    snprintf(source, sizeof(source), "fixed:%s?record=4&head=4", kit_path("f"));
    assert_string_equal(kit_show(source, NULL), "abcd|efgh|");
    assert_non_null(strstr(kit_show(kit_path("f"), "format=fixed"), "how many bytes"));
    assert_string_equal(kit_show(kit_path("f"), "format=fixed&record=5"), "#-4 at 10");
    assert_string_equal(kit_show(kit_path("f"), "format=fixed&record=5&skip=yes"), "HEADa|bcdef|");
    assert_string_equal(kit_show(kit_path("f"), "format=fixed&record=4&head=100"), "#-4 at 12");
}

static void idx_is_what_its_head_says(void **state)
{
    static const uint8_t file[] = {0, 0, 8, 3, 0, 0,   0,   2,   0,   0,   0,
                                   1, 0, 0, 0, 3, 'a', 'b', 'c', 'd', 'e', 'f'};
    static const uint8_t huge[] = {0,   0,   14,  3,   255, 255, 255, 255,
                                   255, 255, 255, 255, 255, 255, 255, 255};
    const char *source = kit_path("f");
    mu_reader *reader;
    size_t n;

    kit_write("f", file, sizeof(file));
    assert_string_equal(kit_show(source, NULL), "abc|def|");
    assert_int_equal(mu_reader_open(&source, 1, NULL, &reader), MU_OK);
    assert_string_equal(mu_reader_columns(reader, &n)->detail, "u8[1,3]");
    mu_reader_close(reader);
    for (size_t cut = 0; cut < sizeof(file); cut++) {
        kit_write("f", file, cut);
        assert_non_null(strstr(kit_show(source, "format=idx"), "#-4 at "));
        assert_string_equal(kit_show(source, "format=idx&skip=yes"), cut < 19 ? "" : "abc|");
    }
    kit_write("f", huge, sizeof(huge));
    assert_non_null(strstr(kit_show(source, "format=idx"), "#-4 at "));
    pack("i.gz", file, sizeof(file), 15 + 16);
    assert_string_equal(kit_show(kit_path("i.gz"), NULL), "abc|def|");
}

static void made_tfrecord(struct made *m, const char *text)
{
    const size_t n = strlen(text), at = m->n;
    uint32_t crc;

    made_le(m, n, 8);
    crc = crc32c(0, m->b + at, 8);
    made_le(m, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
    made_text(m, text);
    crc = crc32c(0, text, n);
    made_le(m, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
}

static void tfrecords_are_checked(void **state)
{
    static const char *const texts[] = {"one", "", "three and more"};
    size_t ends[3];

    made.n = 0;
    for (int i = 0; i < 3; i++) {
        made_tfrecord(&made, texts[i]);
        ends[i] = made.n;
    }
    kit_write("f", made.b, made.n);
    assert_string_equal(kit_show(kit_path("f"), NULL), "one||three and more|");
    pack("gz", made.b, made.n, 15 + 16);
    assert_string_equal(kit_show(kit_path("gz"), NULL), "one||three and more|");
    pack("z", made.b, made.n, 15);
    assert_string_equal(kit_show(kit_path("z"), NULL), "one||three and more|");
    for (size_t n = 1; n < made.n; n++) {
        const int whole = n >= ends[1] ? 2 : n >= ends[0];

        kit_write("f", made.b, n);
        assert_string_equal(kit_show(kit_path("f"), "format=tfrecord&skip=yes"),
                            whole == 2   ? "one||"
                            : whole == 1 ? "one|"
                                         : "");
        assert_int_equal(kit_skipped, n != ends[0] && n != ends[1]);
    }
    for (size_t at = 0; at < made.n; at++) {
        made.b[at] ^= 0x10;
        kit_write("f", made.b, made.n);
        made.b[at] ^= 0x10;
        assert_non_null(strstr(kit_show(kit_path("f"), "format=tfrecord"), "#-4 at "));
        (void)kit_show(kit_path("f"), "format=tfrecord&skip=yes");
        assert_int_equal(kit_skipped, 1);
    }
}

/* ---- tar ---- */

static void made_head(struct made *m, const char *name, size_t n, char type)
{
    uint8_t head[512] = {0};
    unsigned sum = 0;

    snprintf((char *)head, 100, "%s", name);
    snprintf((char *)head + 124, 12, "%011o", (unsigned)n);
    memset(head + 148, ' ', 8);
    head[156] = (uint8_t)type;
    memcpy(head + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof(head); i++) {
        sum += head[i];
    }
    snprintf((char *)head + 148, 8, "%06o", sum);
    made_bytes(m, head, sizeof(head));
}

static void made_file(struct made *m, const char *name, const char *text, char type)
{
    static const uint8_t zeros[512];

    made_head(m, name, strlen(text), type);
    made_text(m, text);
    made_bytes(m, zeros, (512 - strlen(text) % 512) % 512);
}

static void a_tar_sample_is_the_files_of_one_name(void **state)
{
    static const uint8_t zeros[1024];
    char pax[64];

    made.n = 0;
    made_file(&made, "dir/", "", '5');
    made_file(&made, "dir/a.b.jpg", "JPEG", '0');
    made_file(&made, "dir/a.cls", "7", '0');
    made_file(&made, "README", "belongs to none", '0');
    snprintf(pax, sizeof(pax), "22 path=long/name.txt\n");
    made_file(&made, "x", pax, 'x');
    made_file(&made, "ignored", "text", '0');
    made_bytes(&made, zeros, sizeof(zeros));
    kit_write("f.tar", made.b, made.n);
    assert_string_equal(kit_fields(kit_path("f.tar"), NULL, 0),
                        "__key__='dir/a' b.jpg=\"JPEG\" cls=\"7\"");
    assert_string_equal(kit_fields(kit_path("f.tar"), NULL, 1), "__key__='long/name' txt=\"text\"");
    assert_non_null(strstr(kit_fields(kit_path("f.tar"), NULL, 2), "there is no record 2 of 2"));
    pack("f.tar.gz", made.b, made.n, 15 + 16);
    assert_string_equal(kit_fields(kit_path("f.tar.gz"), NULL, 1),
                        "__key__='long/name' txt=\"text\"");
    made.b[512 + 3] ^= 1; /* The head of the first file: the second is a sample of its own. */
    kit_write("f.tar", made.b, made.n);
    assert_string_equal(kit_show(kit_path("f.tar"), NULL), "#-4 at 512");
    assert_string_equal(kit_fields(kit_path("f.tar"), "skip=yes", 0), "__key__='dir/a' cls=\"7\"");
}

static void two_files_of_one_kind_are_no_sample(void **state)
{
    made.n = 0;
    made_file(&made, "a.txt", "1", '0');
    made_file(&made, "a.txt", "2", '0');
    kit_write("f.tar", made.b, made.n);
    assert_string_equal(kit_show(kit_path("f.tar"), NULL), "#-4 at 1024");
    assert_non_null(strstr(mu_error(), "two files called .txt"));
}

/* ---- packed files ---- */

/* Much more than a window, and from one mark to the next; the other end is read first. */
static void a_packed_file_is_read_from_any_place(void **state)
{
    const size_t lines = 1500000;
    char *text = malloc(lines * 9 + 1);
    const char *source = kit_path("t.gz");
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;

    for (size_t i = 0; i < lines; i++) {
        sprintf(text + 9 * i, "%08zu\n", i * 7919 % lines);
    }
    pack("t.gz", text, lines * 9, 15 + 16);
    assert_int_equal(mu_reader_open(&source, 1, NULL, &reader), MU_OK);
    assert_int_equal(mu_reader_records(reader), lines);
    assert_int_equal(mu_scan_open(reader, 0, UINT64_MAX, &scan), MU_OK);
    for (size_t i = 0; i < 60; i++) {
        const size_t number = (lines - 1 - i * 104729 % lines) % lines;

        assert_int_equal(mu_scan_at(scan, number, &record), MU_OK);
        assert_int_equal(record.n, 8);
        assert_memory_equal(record.data, text + 9 * number, 8);
    }
    mu_scan_close(scan);
    mu_reader_close(reader);
    free(text);
}

static void damaged_packing_is_told_of(void **state)
{
    char error[64];
    uint8_t *gz;
    size_t n;

    made.n = 0;
    for (int i = 0; i < 60; i++) {
        char line[16];

        snprintf(line, sizeof(line), "line %d\n", i);
        made_text(&made, line);
    }
    pack("t.gz", made.b, made.n, 15 + 16);
    gz = kit_read(kit_path("t.gz"), &n);
    kit_write("t.gz", gz, n - 1);
    snprintf(error, sizeof(error), "#-4 at %zu", n - 1);
    assert_string_equal(kit_show(kit_path("t.gz"), "format=lines"), error);
    for (size_t at = 10; at < n; at++) {
        gz[at] ^= 4;
        kit_write("t.gz", gz, n);
        gz[at] ^= 4;
        assert_non_null(strstr(kit_show(kit_path("t.gz"), "format=lines"), "#-4 at "));
        (void)kit_show(kit_path("t.gz"), "format=lines&skip=yes");
        assert_int_equal(kit_skipped, 1);
    }
    /* One member after another is one file. */
    memcpy(gz + n, gz, n);
    kit_write("t.gz", gz, 2 * n);
    assert_int_equal(strlen(kit_show(kit_path("t.gz"), NULL)), 2 * made.n);
    free(gz);
}

/* ---- sources ---- */

static void a_folder_is_the_files_below_it(void **state)
{
    assert_int_equal(mkdir(kit_path("d"), 0777), 0);
    assert_int_equal(mkdir(kit_path("d/e"), 0777), 0);
    write_text("d/2.txt", "two\n");
    write_text("d/e/1.txt", "one\n");
    write_text("d/.hidden", "no\n");
    assert_string_equal(kit_show(kit_path("d"), NULL), "two|one|");
    assert_non_null(strstr(kit_fields(kit_path("d/2.txt"), "format=file", 0), "data=\"two\n\""));
}

static void what_cannot_be_is_said(void **state)
{
    kit_write("b", "\x00\x01\x02\x03", 4);
    assert_non_null(strstr(kit_show(kit_path("b"), NULL), "can't be told"));
    assert_non_null(strstr(kit_show(kit_path("none"), NULL), "#-8 can't read"));
    assert_non_null(strstr(kit_show(kit_path("none*"), NULL), "#-8 no file fits"));
    assert_non_null(strstr(kit_show(kit_path("b"), "format=parquet"), "no format 'parquet'"));
    assert_non_null(strstr(kit_show(kit_path("b"), "colour=red"), "no option 'colour'"));
    assert_non_null(strstr(kit_show(kit_path("b"), "skip"), "has no value"));
    assert_non_null(strstr(kit_show(kit_path("b"), "skip=perhaps"), "yes or no"));
    assert_non_null(strstr(kit_show(kit_path("b"), "max=-1"), "wants bytes"));
    assert_non_null(strstr(kit_show("/dev/null", NULL), "no regular file"));
}

/* ---- a user's own ---- */

static int own_shards(void *arg, const mu_reader_shard **shards_out, size_t *n_out)
{
    static const mu_reader_shard shards[] = {
        {.name = "few", .records = 2}, {.name = "none"}, {.name = "more", .records = 3}};

    *shards_out = shards;
    *n_out = 3;
    return MU_OK;
}

static int own_read(void *arg, void *scan, size_t shard, uint64_t number, mu_record *record_out)
{
    static const char *const texts[] = {"a0", "a1", "", "", "c0", "c1", "c2"};

    record_out->data = texts[shard * 2 + number];
    record_out->n = 2;
    return MU_OK;
}

static void own_close(void *arg)
{
    ++*(int *)arg;
}

static void a_reader_may_be_ones_own(void **state)
{
    const mu_reader_calls calls = {
        .size = sizeof(calls), .shards = own_shards, .read = own_read, .close = own_close};
    const mu_reader_calls none = {.size = sizeof(none), .close = own_close};
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    int closed = 0;

    assert_int_equal(mu_reader_custom(&calls, &closed, &reader), MU_OK);
    assert_int_equal(mu_reader_records(reader), 5);
    assert_int_equal(mu_scan_open(reader, 1, 3, &scan), MU_OK);
    for (int i = 0; i < 3; i++) {
        static const char *const want[] = {"a1", "c0", "c1"};

        assert_int_equal(mu_scan_next(scan, &record), MU_OK);
        assert_memory_equal(record.data, want[i], 2);
        assert_int_equal(record.number, i + 1);
    }
    assert_int_equal(mu_scan_next(scan, &record), MU_EDONE);
    mu_scan_close(scan);
    mu_reader_close(reader);
    assert_int_equal(closed, 1);
    assert_int_equal(mu_reader_custom(&none, &closed, &reader), MU_EINVAL);
    assert_int_equal(closed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(lines_end_in_two_ways_or_not_at_all),
        KIT_TEST(fixed_sizes_need_to_be_said),
        KIT_TEST(idx_is_what_its_head_says),
        KIT_TEST(tfrecords_are_checked),
        KIT_TEST(a_tar_sample_is_the_files_of_one_name),
        KIT_TEST(two_files_of_one_kind_are_no_sample),
        KIT_TEST(a_packed_file_is_read_from_any_place),
        KIT_TEST(damaged_packing_is_told_of),
        KIT_TEST(a_folder_is_the_files_below_it),
        KIT_TEST(what_cannot_be_is_said),
        KIT_TEST(a_reader_may_be_ones_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
