/* Memory that runs out at any allocation: a status, nothing lost, nothing half. */
#include "unit/data/data_kit.h"
#include "unit/deny.h"

#include <stdio.h>
#include <string.h>

static int try_read(void *arg)
{
    const char *source = arg;
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    int rc = mu_reader_open(&source, 1, "skip=yes", &reader);

    if (rc != MU_OK) {
        return rc;
    }
    rc = mu_scan_open(reader, 0, UINT64_MAX, &scan);
    if (rc == MU_OK) {
        while (rc == MU_OK) {
            rc = mu_scan_next(scan, &record);
        }
        mu_scan_close(scan);
    }
    mu_reader_close(reader);
    return rc == MU_EDONE ? MU_OK : rc;
}

static int try_write(void *arg)
{
    mu_writer *w;
    int rc = mu_writer_open(kit_path("w"), arg, &w);

    if (rc != MU_OK) {
        return rc;
    }
    for (int i = 0; i < 3 && rc == MU_OK; i++) {
        rc = mu_writer_put(w, "some record", 11);
    }
    rc = rc == MU_OK ? mu_writer_finish(w) : rc;
    mu_writer_close(w);
    return rc;
}

static void sweep(const char *source)
{
    char copy[512];

    snprintf(copy, sizeof(copy), "%s", source);
    assert_true(deny_sweep(try_read, copy) > 3);
}

static void readers_without_memory_say_so(void **state)
{
    static struct made m;
    char source[512];

    for (int i = 0; i < 3; i++) {
        m.n = 0;
        made_records(&m, LAYOUT_A, (enum compressor)i, "one|two");
        made_records(&m, LAYOUT_A, (enum compressor)i, "three");
        kit_write("f", m.b, m.n);
        sweep(kit_path("f"));
    }
    kit_write("t.csv", "a,b\n1,\"x\"\"\"\n", 13);
    snprintf(source, sizeof(source), "csv:%s?columns=b,a", kit_path("t.csv"));
    sweep(source);
    kit_write("t.txt", "a\nb\n", 4);
    sweep(kit_path("t.txt"));
    kit_write("i", "\x00\x00\x08\x01\x00\x00\x00\x02\x61\x62", 10);
    sweep(kit_path("i"));
    sweep(DATA_GOLDEN "/tfrecord-1.14.6.gzip");
    sweep(DATA_GOLDEN "/webdataset-1.0.2.tar");
}

static void writers_without_memory_say_so(void **state)
{
    static char options[][40] = {"compressor=none&chunk=12", "compressor=snappy&chunk=12",
                                 "compressor=gzip&chunk=12"};

    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        assert_true(deny_sweep(try_write, options[i]) > 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(readers_without_memory_say_so),
        KIT_TEST(writers_without_memory_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
