/* What every unit test includes: cmocka with what it needs, and a way to expect a panic. */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Whether body(arg) ends in a failed mu_assert. It runs in a child with stderr closed, so the
 * panic is real and leaves no trace here. */
bool unit_panics(void (*body)(void *arg), void *arg);

/* MUSTER_TEST_FULL: all of a sweep, or a larger sample. */
bool unit_full(void);

/* Where a test's files are soon on the disk: memory, if there is such a place with a lot of room.
 */
const char *unit_fast_dir(void);

/* A pipe in place of stderr, until unit_stderr_end() puts it back and gives what was written
 * to it, as a string in the caller's buffer. What is written must fit in a pipe (64 KiB). */
void unit_stderr_begin(void);
void unit_stderr_end(char *text, size_t cap);

#endif
