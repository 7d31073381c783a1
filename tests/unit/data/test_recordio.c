/* RecordIO: layouts, compressors, many files as one, ranges, the writer. */
#include "unit/data/data_kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct made made;

/* The file by hand: layout A, nothing compressed. */
static void bytes_of_layout_a_are_read(void **state)
{
    static const uint8_t file[] = {
        4, 3,   2,   1,   0x87, 0x3a, 0x67, 0x95, 0,   0,    0,    0,    17,   0,   0,  0,
        2, 0,   0,   0,   5,    0,    0,    0,    '1', '2',  '3',  '4',  '5',  4,   0,  0,
        0, '1', '2', '3', '4',  4,    3,    2,    1,   0x9a, 0x56, 0x80, 0xf2, 0,   0,  0,
        0, 6,   0,   0,   0,    1,    0,    0,    0,   2,    0,    0,    0,    '1', '2'};

    kit_write("a", file, sizeof(file));
    assert_string_equal(kit_show(kit_path("a"), NULL), "12345|1234|12|");
    made.n = 0;
    made_records(&made, LAYOUT_A, COMPRESS_NONE, "12345|1234");
    assert_int_equal(made.n, 37);
    made_records(&made, LAYOUT_A, COMPRESS_NONE, "12");
    assert_int_equal(made.n, sizeof(file));
    assert_memory_equal(made.b, file, sizeof(file));
}

static void all_layouts_and_compressors_are_read_and_told_apart(void **state)
{
    for (int layout = LAYOUT_A; layout <= LAYOUT_B; layout++) {
        for (int compressor = COMPRESS_NONE; compressor <= COMPRESS_GZIP; compressor++) {
            made.n = 0;
            made_records(&made, layout, compressor, "one||three|\x04\x03\x02\x01");
            made_records(&made, layout, compressor, "");
            made_records(&made, layout, compressor, "the last of all");
            kit_write("f", made.b, made.n);
            assert_string_equal(kit_show(kit_path("f"), NULL),
                                "one||three|\x04\x03\x02\x01||the last of all|");
            assert_string_equal(
                kit_show(kit_path("f"), layout == LAYOUT_A ? "layout=a" : "layout=b"),
                "one||three|\x04\x03\x02\x01||the last of all|");
        }
    }
}

/* Layout B's writer leaves a chunk of no records before one that is too long for its limit. */
static void a_chunk_may_be_empty(void **state)
{
    made.n = 0;
    made_chunk(&made, LAYOUT_B, 1, "", 0, 0);
    made_records(&made, LAYOUT_B, COMPRESS_SNAPPY, "a|b");
    made_chunk(&made, LAYOUT_B, 1, "", 0, 0);
    kit_write("f", made.b, made.n);
    assert_string_equal(kit_show(kit_path("f"), NULL), "a|b|");
}

/* The i-th of ten has i records: the first is empty. */
static void many_files_are_one_row_of_records(void **state)
{
    const char *sources[10];
    char names[10][200];
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    size_t n;

    for (int i = 0; i < 10; i++) {
        made.n = 0;
        for (int k = 0; k < i; k++) {
            char text[16];

            snprintf(text, sizeof(text), "%d.%d", i, k);
            made_records(&made, LAYOUT_A, k % 3, text);
        }
        snprintf(names[i], sizeof(names[i]), "%s", kit_path("f0"));
        names[i][strlen(names[i]) - 1] = (char)('0' + i);
        kit_write(strrchr(names[i], '/') + 1, made.b, made.n);
        sources[i] = names[i];
    }
    assert_int_equal(mu_reader_open(sources, 10, NULL, &reader), MU_OK);
    assert_int_equal(mu_reader_records(reader), 45);
    assert_int_equal(mu_reader_shards(reader, &n)[9].first, 36);
    assert_int_equal(n, 10);
    assert_int_equal(mu_scan_open(reader, 0, UINT64_MAX, &scan), MU_OK);
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < i; k++) {
            char text[16];

            snprintf(text, sizeof(text), "%d.%d", i, k);
            assert_int_equal(mu_scan_next(scan, &record), MU_OK);
            assert_int_equal(record.n, strlen(text));
            assert_memory_equal(record.data, text, record.n);
        }
    }
    assert_int_equal(mu_scan_next(scan, &record), MU_EDONE);
    for (uint64_t i = 45; i-- > 0;) { /* From any place, backwards too. */
        assert_int_equal(mu_scan_at(scan, i, &record), MU_OK);
        assert_int_equal(record.number, i);
    }
    assert_int_equal(((const char *)record.data)[0], '1');
    assert_int_equal(mu_scan_at(scan, 45, &record), MU_EINVAL);
    mu_scan_close(scan);
    mu_reader_close(reader);
    assert_string_equal(kit_show(kit_path("f[12]"), NULL), "1.0|2.0|2.1|"); /* A pattern. */
}

static void a_range_ends_and_says_so_every_time(void **state)
{
    const char *source = kit_path("f");
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;

    made.n = 0;
    made_records(&made, LAYOUT_A, COMPRESS_SNAPPY, "0|1|2|3|4|5");
    kit_write("f", made.b, made.n);
    assert_int_equal(mu_reader_open(&source, 1, NULL, &reader), MU_OK);
    assert_int_equal(mu_scan_open(reader, 2, 1, &scan), MU_OK);
    assert_int_equal(mu_scan_next(scan, &record), MU_OK);
    assert_memory_equal(record.data, "2", 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mu_scan_next(scan, &record), MU_EDONE);
    }
    mu_scan_close(scan);
    assert_int_equal(mu_scan_open(reader, 6, 1, &scan), MU_OK);
    assert_int_equal(mu_scan_next(scan, &record), MU_EDONE);
    mu_scan_close(scan);
    assert_int_equal(mu_scan_open(reader, 7, 1, &scan), MU_EINVAL);
    mu_reader_close(reader);
}

/* ---- one index, many threads ---- */

struct reading {
    mu_reader *reader;
    uint64_t seed;
    bool ok;
};

static void *read_anywhere(void *arg)
{
    struct reading *r = arg;
    mu_record record;
    mu_scan *scan;

    r->ok = mu_scan_open(r->reader, 0, 0, &scan) == MU_OK;
    for (int i = 0; r->ok && i < 2000; i++) {
        const uint64_t number =
            (r->seed = r->seed * 6364136223846793005u + 1442695040888963407u) >> 33;
        char text[32];

        snprintf(text, sizeof(text), "record %d", (int)(number % 5000));
        r->ok = mu_scan_at(scan, number % 5000, &record) == MU_OK && record.n == strlen(text) &&
                memcmp(record.data, text, record.n) == 0;
    }
    mu_scan_close(scan);
    return NULL;
}

static void an_index_is_shared_by_threads(void **state)
{
    const char *source = kit_path("f");
    struct reading readings[4];
    pthread_t threads[4];
    mu_reader *reader;
    mu_writer *w;

    for (int compressor = 0; compressor < 3; compressor++) {
        static const char *const options[] = {"compressor=none&chunk=4KiB",
                                              "compressor=snappy&chunk=4KiB",
                                              "compressor=gzip&chunk=4KiB"};

        assert_int_equal(mu_writer_open(source, options[compressor], &w), MU_OK);
        for (int i = 0; i < 5000; i++) {
            char text[32];

            snprintf(text, sizeof(text), "record %d", i);
            assert_int_equal(mu_writer_put(w, text, strlen(text)), MU_OK);
        }
        assert_int_equal(mu_writer_finish(w), MU_OK);
        mu_writer_close(w);
        assert_int_equal(mu_reader_open(&source, 1, NULL, &reader), MU_OK);
        for (int i = 0; i < 4; i++) {
            readings[i] = (struct reading){reader, (uint64_t)i, false};
            assert_int_equal(pthread_create(&threads[i], NULL, read_anywhere, &readings[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_true(readings[i].ok);
        }
        mu_reader_close(reader);
    }
}

/* ---- the writer ---- */

static void chunks_are_cut_by_the_sum_of_lengths(void **state)
{
    mu_writer *w;
    uint8_t *file;
    size_t n;

    assert_int_equal(mu_writer_open(kit_path("f"), "compressor=none&chunk=10", &w), MU_OK);
    assert_int_equal(mu_writer_put(w, "12345", 5), MU_OK);
    assert_int_equal(mu_writer_put(w, "1234", 4), MU_OK);
    assert_int_equal(mu_writer_put(w, "12", 2), MU_OK);
    assert_int_not_equal(access(kit_path("f"), F_OK), 0); /* It is there when it is whole. */
    assert_int_equal(mu_writer_finish(w), MU_OK);
    assert_int_equal(mu_writer_put(w, "late", 4), MU_EINVAL);
    assert_non_null(strstr(mu_error(), "finished"));
    assert_int_equal(mu_writer_finish(w), MU_EINVAL);
    mu_writer_close(w);
    made.n = 0;
    made_records(&made, LAYOUT_A, COMPRESS_NONE, "12345|1234");
    made_records(&made, LAYOUT_A, COMPRESS_NONE, "12");
    file = kit_read(kit_path("f"), &n);
    assert_int_equal(n, made.n);
    assert_memory_equal(file, made.b, n);
    free(file);
}

static void a_long_record_has_a_chunk_of_its_own(void **state)
{
    mu_writer *w;

    assert_int_equal(mu_writer_open(kit_path("f"), "compressor=none&chunk=4", &w), MU_OK);
    assert_int_equal(mu_writer_put(w, "ab", 2), MU_OK);
    assert_int_equal(mu_writer_put(w, "longer than four", 16), MU_OK);
    assert_int_equal(mu_writer_put(w, "", 0), MU_OK);
    assert_int_equal(mu_writer_put(w, "cd", 2), MU_OK);
    assert_int_equal(mu_writer_finish(w), MU_OK);
    mu_writer_close(w);
    assert_string_equal(kit_show(kit_path("f"), NULL), "ab|longer than four||cd|");
}

static void records_of_all_lengths_come_back(void **state)
{
    static const char *const options[] = {"compressor=none", "compressor=snappy&chunk=1000",
                                          "compressor=gzip&chunk=100KiB"};
    const char *source = kit_path("f");
    uint8_t bytes[1000];
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    mu_writer *w;

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * i);
    }
    for (int o = 0; o < 3; o++) {
        assert_int_equal(mu_writer_open(source, options[o], &w), MU_OK);
        for (size_t i = 0; i < 1000; i++) {
            assert_int_equal(mu_writer_put(w, bytes, i), MU_OK);
        }
        assert_int_equal(mu_writer_finish(w), MU_OK);
        mu_writer_close(w);
        assert_int_equal(mu_reader_open(&source, 1, "skip=yes", &reader), MU_OK);
        assert_int_equal(mu_scan_open(reader, 0, UINT64_MAX, &scan), MU_OK);
        for (size_t i = 0; i < 1000; i++) {
            assert_int_equal(mu_scan_next(scan, &record), MU_OK);
            assert_int_equal(record.n, i);
            assert_memory_equal(record.data, bytes, i);
        }
        mu_scan_close(scan);
        mu_reader_close(reader);
    }
}

static void what_is_not_finished_leaves_nothing(void **state)
{
    mu_writer *w;

    assert_int_equal(mu_writer_open(kit_path("f"), NULL, &w), MU_OK);
    assert_int_equal(mu_writer_put(w, "ab", 2), MU_OK);
    mu_writer_close(w);
    assert_int_equal(rmdir(kit_path("")), 0);
    assert_int_equal(mu_writer_open(kit_path("f"), NULL, &w), MU_ENOENT);
    assert_int_equal(mu_writer_open(kit_path("f"), "compressor=lzma", &w), MU_EINVAL);
    assert_int_equal(mu_writer_open(kit_path("f"), "chunks=3", &w), MU_EINVAL);
}

/* A limit on the size of files is as good as a full disk. */
static void a_full_disk_is_a_clear_error(void **state)
{
    const struct rlimit small = {8192, RLIM_INFINITY};
    struct rlimit was;
    mu_writer *w;
    char bytes[1000] = "";
    int rc = MU_OK;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(mu_writer_open(kit_path("f"), "compressor=none&chunk=2000", &w), MU_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 100 && rc == MU_OK; i++) {
        rc = mu_writer_put(w, bytes, sizeof(bytes));
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(rc, MU_EIO);
    assert_non_null(strstr(mu_error(), kit_path("f")));
    assert_int_equal(mu_writer_put(w, bytes, 1), MU_EIO); /* It stays so. */
    assert_int_equal(mu_writer_finish(w), MU_EIO);
    mu_writer_close(w);
    assert_int_equal(rmdir(kit_path("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(bytes_of_layout_a_are_read),
        KIT_TEST(all_layouts_and_compressors_are_read_and_told_apart),
        KIT_TEST(a_chunk_may_be_empty),
        KIT_TEST(many_files_are_one_row_of_records),
        KIT_TEST(a_range_ends_and_says_so_every_time),
        KIT_TEST(an_index_is_shared_by_threads),
        KIT_TEST(chunks_are_cut_by_the_sum_of_lengths),
        KIT_TEST(a_long_record_has_a_chunk_of_its_own),
        KIT_TEST(records_of_all_lengths_come_back),
        KIT_TEST(what_is_not_finished_leaves_nothing),
        KIT_TEST(a_full_disk_is_a_clear_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
