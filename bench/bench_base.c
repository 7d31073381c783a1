#include "bench.h"

#include "base/crc32c.h"
#include "base/heap.h"
#include "base/prng.h"

#include <string.h>

static void checksum(const char *name, uint32_t (*sum)(uint32_t, const void *, size_t), size_t n)
{
    static unsigned char bytes[1 << 20];
    const size_t rounds = (UINT64_C(1) << 30) / n;
    uint32_t crc = 0;
    double start;

    memset(bytes, 0x5a, sizeof(bytes));
    start = bench_now();
    for (size_t i = 0; i < rounds; i++) {
        crc = sum(crc, bytes, n);
    }
    bench_use(crc);
    bench_result(name, (double)rounds * (double)n / (bench_now() - start) / 1e9, "GB/s");
}

static void numbers(void)
{
    const int n = 100000000;
    uint64_t x = 0;
    struct prng p;
    double start;

    prng_init(&p, 1);
    start = bench_now();
    for (int i = 0; i < n; i++) {
        x ^= prng_below(&p, 1000);
    }
    bench_use(x);
    bench_result("prng_below", n / (bench_now() - start), "calls/s");
}

static void deadlines(void)
{
    enum { HELD = 100000, ROUNDS = 5000000 };
    static struct heap_item storage[HELD];
    struct prng p;
    struct heap h;
    double start;

    prng_init(&p, 1);
    heap_init(&h, storage, HELD);
    for (uint32_t i = 0; i < HELD; i++) {
        heap_push(&h, prng_below(&p, 1000000), i);
    }
    start = bench_now();
    for (int i = 0; i < ROUNDS; i++) {
        struct heap_item top = *heap_top(&h);

        heap_pop(&h);
        heap_push(&h, top.key + prng_below(&p, 1000000), top.value);
    }
    bench_result("heap pop and push, 100000 held", ROUNDS / (bench_now() - start), "pairs/s");
}

int main(void)
{
    bench_begin("base");
    checksum("crc32c of 64 B", crc32c, 64);
    checksum("crc32c of 1 MiB", crc32c, 1 << 20);
    checksum("crc32c of 1 MiB, portable", crc32c_portable, 1 << 20);
    numbers();
    deadlines();
    bench_end();
    return 0;
}
