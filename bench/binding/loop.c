/* The C side of bench_binding.py: all-reduces on the very run that Python has. It is linked with
 * the objects of the extension, and takes its place in that process. */
#include <muster.h>
#include <stdint.h>
#include <time.h>

__attribute__((visibility("default"))) int bench_loop(mu_run *run, const void *in, void *out,
                                                      size_t count, uint32_t n, double *us);

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The µs of each of n calls. */
int bench_loop(mu_run *run, const void *in, void *out, size_t count, uint32_t n, double *us)
{
    int rc = MU_OK;

    for (uint32_t i = 0; rc == MU_OK && i < n; i++) {
        const double from_us = now_us();

        rc = mu_allreduce(run, in, out, count, MU_F32, MU_SUM, MU_FOREVER);
        us[i] = now_us() - from_us;
    }
    return rc;
}
