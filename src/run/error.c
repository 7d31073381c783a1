/* Texts of errors, and how long callers wait. */
#include "run/run.h"

int run_fail(int status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)error_vsay(status, fmt, args);
    va_end(args);
    return status;
}

uint64_t run_due_ms(int64_t timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)timeout_ms;
}

uint32_t run_left_ms(uint64_t due_ms)
{
    const uint64_t now_ms = clock_ms();

    return (uint32_t)MIN(due_ms - MIN(due_ms, now_ms), (uint64_t)UINT32_MAX);
}
