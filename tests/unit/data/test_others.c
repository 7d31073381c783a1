/* Files by other implementations; golden/README.md says how they were made. */
#include "unit/data/data_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *golden(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", DATA_GOLDEN, name);
    return path;
}

static void recordio_of_others_is_read(void **state)
{
    static const char *const names[] = {"pyrecordio-0.0.7.recordio", "recordio-0.1.7.recordio",
                                        "pyrecordio-0.0.2-no_compression.recordio",
                                        "pyrecordio-0.0.2-snappy.recordio",
                                        "pyrecordio-0.0.2-gzip.recordio"};
    static const char last[] = "|\x04\x03\x02\x01 is the magic number|last|";
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *source = golden(names[i]);

        assert_int_equal(mu_reader_open(&source, 1, "skip=yes", &reader), MU_OK);
        assert_int_equal(mu_reader_records(reader), 6);
        assert_int_equal(mu_scan_open(reader, 0, UINT64_MAX, &scan), MU_OK);
        assert_int_equal(mu_scan_at(scan, 3, &record), MU_OK);
        assert_int_equal(record.n, 256);
        for (size_t b = 0; b < 256; b++) {
            assert_int_equal(((const uint8_t *)record.data)[b], b);
        }
        assert_int_equal(mu_scan_at(scan, 0, &record), MU_OK);
        assert_int_equal(record.n, 0);
        assert_int_equal(mu_scan_at(scan, 4, &record), MU_OK);
        assert_int_equal(record.n, strlen(last) - 7);
        assert_memory_equal(record.data, last + 1, record.n);
        mu_scan_close(scan);
        mu_reader_close(reader);
    }
}

static void tfrecords_of_others_are_read(void **state)
{
    static const char *const names[] = {"tfrecord-1.14.6.tfrecord", "tfrecord-1.14.6.gzip",
                                        "tfrecord-1.14.6.zlib"};
    char first[256];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *shown = kit_show(golden(names[i]), NULL);

        assert_null(strstr(shown, "#-"));
        if (i == 0) {
            snprintf(first, sizeof(first), "%s", shown);
        }
        assert_string_equal(shown, first);
        (void)kit_show(golden(names[i]), "skip=yes");
        assert_int_equal(kit_skipped, 0);
    }
}

static void samples_of_webdataset_are_read(void **state)
{
    assert_string_equal(kit_fields(golden("webdataset-1.0.2.tar"), NULL, 2),
                        "__key__='sample2' cls=\"2\" json=\"{\"n\": 2}\" txt=\"text 2\"");
}

static void mds_is_read_packed_or_not(void **state)
{
    static const char *const names[] = {"mds-0.13.0", "mds-0.13.0-zstd"};

    for (int i = 0; i < 2; i++) {
        assert_string_equal(
            kit_fields(golden(names[i]), "skip=yes", 3),
            "data=\"\x03\x03\x03\" number=-2 real=0.75 small=-3 text='word word word '");
        assert_string_equal(
            kit_fields(golden(names[i]), NULL, 9) + 16,
            " number=4 real=2.25 small=-9 text='word word word word word word word word word '");
    }
}

static void copy(const char *from, const char *to)
{
    char command[600];

    snprintf(command, sizeof(command), "cp -r '%s' '%s'", golden(from), kit_path(to));
    assert_int_equal(system(command), 0);
}

static void every_flipped_byte_of_an_mds_shard_is_told_of(void **state)
{
    static const char *const names[][2] = {{"mds-0.13.0", "m/shard.00001.mds"},
                                           {"mds-0.13.0-zstd", "z/shard.00001.mds.zstd"}};

    for (int i = 0; i < 2; i++) {
        const char *folder = i == 0 ? "m" : "z";
        uint8_t *file;
        size_t n;

        copy(names[i][0], folder);
        file = kit_read(kit_path(names[i][1]), &n);
        for (size_t at = 0; at < n; at++) {
            file[at] ^= 0x20;
            kit_write(names[i][1], file, n);
            file[at] ^= 0x20;
            (void)kit_show(kit_path(folder), "skip=yes");
            assert_int_equal(kit_skipped, 1);
        }
        kit_write(names[i][1], file, n - 1);
        assert_non_null(strstr(kit_fields(kit_path(folder), NULL, 3), "it ends there"));
        assert_int_equal(unlink(kit_path(names[i][1])), 0);
        assert_non_null(strstr(kit_fields(kit_path(folder), NULL, 3), "can't read"));
        free(file);
    }
}

static void an_index_that_leads_elsewhere_is_refused(void **state)
{
    static const char *const indices[] = {
        "{\"shards\": [{\"format\": \"mds\", \"version\": 2, \"samples\": 1, \"column_names\": "
        "[\"a\"], \"column_encodings\": [\"int\"], "
        "\"column_sizes\": [8], \"raw_data\": {\"basename\": \"../../etc/passwd\", \"bytes\": 1, "
        "\"hashes\": {}}}]}",
        "{\"shards\": [{\"format\": \"mds\", \"version\": 2, \"samples\": -1, \"column_names\": "
        "[\"a\"], \"column_encodings\": [\"int\"], "
        "\"column_sizes\": [8], \"raw_data\": {\"basename\": \"x\", \"bytes\": 1, \"hashes\": "
        "{}}}]}",
        "{\"shards\": [{\"format\": \"mds\"}]}", "{\"shards\": 7}", "no json \"shards\" \"mds\""};

    for (size_t i = 0; i < ARRAY_LEN(indices); i++) {
        kit_write("index.json", indices[i], strlen(indices[i]));
        assert_string_equal(kit_show(kit_path("index.json"), "format=mds"), "#-4 at 0");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(recordio_of_others_is_read),
        KIT_TEST(tfrecords_of_others_are_read),
        KIT_TEST(samples_of_webdataset_are_read),
        KIT_TEST(mds_is_read_packed_or_not),
        KIT_TEST(every_flipped_byte_of_an_mds_shard_is_told_of),
        KIT_TEST(an_index_that_leads_elsewhere_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
