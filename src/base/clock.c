#include "base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t clock)
{
    struct timespec t;

    mu_assert(clock_gettime(clock, &t) == 0);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t clock_ns(void)
{
    struct timespec t;

    mu_assert(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_us(void)
{
    return clock_ns() / 1000;
}

uint64_t clock_ms(void)
{
    return clock_us() / 1000;
}

uint64_t clock_boot_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

uint64_t clock_boot_ms(void)
{
    return clock_boot_us() / 1000;
}

uint64_t clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}
