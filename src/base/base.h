/* What every file may use: assertions that stay on in release builds, and a few helpers. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <muster.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Our own fault, never a peer's: says where and ends the process. */
#define mu_assert(cond) ((cond) ? (void)0 : base_panic(__FILE__, __LINE__, #cond))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define CONTAINER_OF(at, type, member) ((type *)(void *)((char *)(at)-offsetof(type, member)))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

_Noreturn void base_panic(const char *file, int line, const char *what);

/* Called once by base_panic after it has printed, before abort(). Tests set it. */
extern void (*base_on_panic)(void);

#endif
