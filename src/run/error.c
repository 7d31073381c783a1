/* Texts of errors, one per thread, and time. */
#include "run/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static _Thread_local char last[ERROR_MAX];

const char *mu_error(void)
{
    return last;
}

int run_fail(int status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(last, sizeof(last), fmt, args);
    va_end(args);
    return status;
}

static uint64_t read_us(clockid_t clock)
{
    struct timespec ts;

    mu_assert(clock_gettime(clock, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t run_now_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

uint64_t run_now_ms(void)
{
    return run_now_us() / 1000;
}

uint64_t run_boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

uint64_t run_due_ms(int64_t timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : run_now_ms() + (uint64_t)timeout_ms;
}
