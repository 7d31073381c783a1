/* What went wrong in the last call of this thread that failed: the text of mu_error(). */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/base.h"

#include <stdarg.h>

#define ERROR_MAX 512

/* Keeps the text and gives status. The text may be made of mu_error()'s own. */
int error_say(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int error_vsay(int status, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

#endif
