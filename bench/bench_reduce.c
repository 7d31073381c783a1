/* Adding buffers: bytes of result a second, by their size, type and number. One thread.
 *
 * Medians over several repetitions, and the widest spread between the fastest and the slowest. With
 * them what the memory does: plain copies of the same size.
 *
 * usage: bench_reduce [MAX_BYTES]   sizes up to that alone */
#include "bench.h"

#include "comm/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 7
#define INPUTS_MAX 8
#define REPEAT_S 0.03 /* at least */

static const size_t SIZES[] = {4u << 10, 64u << 10, 1u << 20, 16u << 20, 100u << 20};

static uint8_t *inputs[INPUTS_MAX], *out, *also;
static double spread_max;

/* What is done in one round. */
struct job {
    enum dtype dtype;
    enum reduce_op op;
    uint32_t inputs_n; /* 0: a copy */
    bool also, far;
    size_t bytes;
};

static void round_of(const struct job *j)
{
    if (j->inputs_n == 0) {
        memcpy(out, inputs[0], j->bytes);
    } else {
        (j->far ? reduce_fold_far : reduce_fold)(
            NULL, j->dtype, j->op, j->inputs_n + 1, out, j->also ? also : NULL,
            (const void *const *)inputs, NULL, j->inputs_n, j->bytes / dtype_size(j->dtype));
    }
    bench_use(out[j->bytes / 2]);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* GB of result a second. */
static double measure(const struct job *j)
{
    double rates[REPEATS];

    round_of(j);
    for (int r = 0; r < REPEATS; r++) {
        double start = bench_now(), took;
        uint64_t n = 0;

        do {
            round_of(j);
            n++;
            took = bench_now() - start;
        } while (took < REPEAT_S);
        rates[r] = (double)(n * j->bytes) / took / 1e9;
    }
    qsort(rates, REPEATS, sizeof(rates[0]), ascending);
    spread_max = MAX(spread_max, (rates[REPEATS - 1] - rates[0]) / rates[REPEATS / 2] * 100);
    return rates[REPEATS / 2];
}

static const char *size_text(size_t bytes)
{
    static char text[16];

    snprintf(text, sizeof(text), bytes < 1u << 20 ? "%zu KB" : "%zu MB",
             bytes < 1u << 20 ? bytes >> 10 : bytes >> 20);
    return text;
}

static void show(struct job j, const char *what)
{
    char name[96];

    if (j.inputs_n == 0) {
        snprintf(name, sizeof(name), "%s: copy", size_text(j.bytes));
    } else {
        snprintf(name, sizeof(name), "%s: %s %s, %u inputs%s", size_text(j.bytes),
                 dtype_name(j.dtype), reduce_op_name(j.op), j.inputs_n, what);
    }
    bench_result(name, measure(&j), "GB/s");
}

static void all_of(size_t bytes)
{
    static const uint32_t NUMBERS[] = {2, 3, 4, 8};

    show((struct job){.bytes = bytes}, "");
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        show((struct job){DTYPE_F32, REDUCE_SUM, NUMBERS[i], false, false, bytes}, "");
    }
    show((struct job){DTYPE_F32, REDUCE_SUM, 2, true, false, bytes}, ", two results");
    show((struct job){DTYPE_F32, REDUCE_SUM, 2, false, true, bytes}, ", past the caches");
    show((struct job){DTYPE_F32, REDUCE_MEAN, 2, false, false, bytes}, "");
    show((struct job){DTYPE_F32, REDUCE_MAX, 2, false, false, bytes}, "");
    for (int d = DTYPE_F64; d < DTYPE_N; d++) {
        show((struct job){(enum dtype)d, REDUCE_SUM, 2, false, false, bytes}, "");
    }
}

static uint8_t *buffer(size_t bytes, bool numbers)
{
    uint8_t *b = aligned_alloc(4096, bytes);

    mu_assert(b != NULL);
    for (size_t i = 0; i < bytes; i += 4) { /* 1.0 of f32; a number in every type */
        memcpy(b + i, &(uint32_t){numbers ? 0x3f800000 : 0}, 4);
    }
    return b;
}

int main(int argc, char **argv)
{
    size_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : SIZE_MAX;
    size_t room = SIZES[ARRAY_LEN(SIZES) - 1];

    for (size_t i = 0; i < INPUTS_MAX; i++) {
        inputs[i] = buffer(room, true);
    }
    out = buffer(room, false);
    also = buffer(room, false);
    bench_begin("reduce");
    for (size_t i = 0; i < ARRAY_LEN(SIZES) && SIZES[i] <= most; i++) {
        all_of(SIZES[i]);
    }
    bench_result("widest spread", spread_max, "%");
    bench_end();
    return 0;
}
