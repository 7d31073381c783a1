/* RecordIO: a scan beside the same bytes summed by hand, and records in any order.
 *
 * usage: bench_data [DIR]   a folder for its file of 32 MiB; TMPDIR, or /tmp, if missing */
#include "bench.h"

#include "base/prng.h"
#include "data/chunk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RECORD 1000
#define RECORDS 32000
#define ROUNDS 5
#define PICKS 5000

static char path[4096];

/* Of this thread: what others do on the machine meanwhile is not ours. */
static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void write_file(const char *options)
{
    uint8_t record[RECORD];
    struct prng p;
    mu_writer *w;

    prng_init(&p, 1);
    mu_assert(mu_writer_open(path, options, &w) == MU_OK);
    for (int i = 0; i < RECORDS; i++) {
        for (size_t k = 0; k < RECORD; k++) { /* Half of it can be compressed away. */
            record[k] = k % 2 == 0 ? (uint8_t)prng_below(&p, 256) : 0;
        }
        mu_assert(mu_writer_put(w, record, RECORD) == MU_OK);
    }
    mu_assert(mu_writer_finish(w) == MU_OK);
    mu_writer_close(w);
}

/* Heads followed, payloads summed, each record's first byte looked at; nothing is checked but the
 * sums. */
static double by_hand(void)
{
    const double begin = now();
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    const uint8_t *map, *p;
    uint64_t sum = 0;

    mu_assert(fd >= 0 && fstat(fd, &st) == 0);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    mu_assert(map != MAP_FAILED);
    for (p = map; p < map + st.st_size;) {
        const uint32_t bytes = le32(p + 12);

        mu_assert(crc32(0, p + CHUNK_HEAD, bytes) == le32(p + 4));
        for (const uint8_t *r = p + CHUNK_HEAD, *end = r + bytes; r < end; r += 4 + le32(r)) {
            sum += r[4];
        }
        p += CHUNK_HEAD + bytes;
    }
    bench_use(sum);
    munmap((void *)(uintptr_t)map, (size_t)st.st_size);
    close(fd);
    return now() - begin;
}

static double by_scan(void)
{
    const double begin = now();
    const char *source = path;
    uint64_t sum = 0, n = 0;
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;

    mu_assert(mu_reader_open(&source, 1, NULL, &reader) == MU_OK);
    mu_assert(mu_scan_open(reader, 0, UINT64_MAX, &scan) == MU_OK);
    while (mu_scan_next(scan, &record) == MU_OK) {
        sum += *(const uint8_t *)record.data;
        n++;
    }
    mu_assert(n == RECORDS);
    bench_use(sum);
    mu_scan_close(scan);
    mu_reader_close(reader);
    return now() - begin;
}

static double by_chance(void)
{
    const char *source = path;
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    struct prng p;
    double begin;

    prng_init(&p, 2);
    mu_assert(mu_reader_open(&source, 1, NULL, &reader) == MU_OK);
    mu_assert(mu_scan_open(reader, 0, UINT64_MAX, &scan) == MU_OK);
    for (uint64_t i = 0; i < RECORDS; i += 64) { /* Every chunk has been seen once. */
        mu_assert(mu_scan_at(scan, i, &record) == MU_OK);
    }
    begin = now();
    for (int i = 0; i < PICKS; i++) {
        mu_assert(mu_scan_at(scan, prng_below(&p, RECORDS), &record) == MU_OK);
        bench_use(*(const uint8_t *)record.data);
    }
    begin = now() - begin;
    mu_scan_close(scan);
    mu_reader_close(reader);
    return begin;
}

int main(int argc, char **argv)
{
    static const char *const kinds[][2] = {{"none", "compressor=none"},
                                           {"snappy", "compressor=snappy"}};
    const double mib = (double)RECORD * RECORDS / (1 << 20);
    const char *tmp = argc > 1 ? argv[1] : getenv("TMPDIR");
    char name[80];

    snprintf(path, sizeof(path), "%s/muster-bench-%d.recordio", tmp != NULL ? tmp : "/tmp",
             (int)getpid());
    bench_begin("data");
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        double hand = 1e9, scan = 1e9, chance = 1e9;

        write_file(kinds[k][1]);
        for (int i = 0; i < ROUNDS; i++) { /* By turns: the machine is not the same all the time. */
            hand = k == 0 ? MIN(hand, by_hand()) : hand;
            scan = MIN(scan, by_scan());
            chance = MIN(chance, by_chance());
        }
        if (k == 0) {
            bench_result("the bytes of a file summed by hand", mib / hand, "MiB/s");
            bench_result("scan beside that, compressor none (goal 0.8)", hand / scan, "x");
        }
        snprintf(name, sizeof(name), "scan, compressor %s", kinds[k][0]);
        bench_result(name, mib / scan, "MiB/s");
        snprintf(name, sizeof(name), "records in any order, compressor %s", kinds[k][0]);
        bench_result(name, PICKS / chance, "records/s");
    }
    bench_end();
    unlink(path);
    return 0;
}
