#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int results_n;

void bench_begin(const char *bench)
{
    results_n = 0;
    printf("{\"bench\": \"%s\", \"version\": \"%s\", \"results\": [", bench, mu_version());
}

void bench_result(const char *name, double value, const char *unit)
{
    printf("%s\n  {\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}",
           results_n++ > 0 ? "," : "", name, value, unit);
    fflush(stdout);
}

void bench_end(void)
{
    printf("\n]}\n");
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double bench_median(double *values, size_t n, double *spread_out)
{
    double median;

    qsort(values, n, sizeof(values[0]), ascending);
    median = (values[(n - 1) / 2] + values[n / 2]) / 2;
    *spread_out = (values[n - 1] - values[0]) / median * 100;
    return median;
}

double bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void bench_use(uint64_t value)
{
    __asm__ volatile("" : : "r"(value));
}
