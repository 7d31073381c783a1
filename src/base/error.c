#include "base/error.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char last[ERROR_MAX];

const char *mu_error(void)
{
    return last;
}

int error_vsay(int status, const char *fmt, va_list args)
{
    char text[ERROR_MAX];

    (void)vsnprintf(text, sizeof(text), fmt, args);
    strcpy(last, text);
    return status;
}

int error_say(int status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)error_vsay(status, fmt, args);
    va_end(args);
    return status;
}
