/* Built with --wrap for malloc, calloc and realloc. */
#include "unit/deny.h"

#include "unit/unit.h"

#include <stdatomic.h>
#include <stdlib.h>

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);

/* What is tested may have threads. */
static atomic_bool counting, here_only;
static _Thread_local bool here;
static bool was_counting;
static atomic_uint taken_n, denied;

static bool deny(void)
{
    return counting && (here || !here_only) && ++taken_n == denied;
}

void *__wrap_malloc(size_t n)
{
    return deny() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return deny() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return deny() ? NULL : __real_realloc(p, n);
}

void deny_begin(uint32_t nth)
{
    taken_n = 0;
    denied = nth;
    here_only = false;
    counting = true;
}

void deny_begin_here(uint32_t nth)
{
    deny_begin(nth);
    here = true;
    here_only = true;
}

void deny_end(void)
{
    counting = false;
}

void deny_pause(void)
{
    was_counting = counting;
    counting = false;
}

void deny_resume(void)
{
    counting = was_counting;
}

uint32_t deny_taken(void)
{
    return taken_n;
}

uint32_t deny_sweep(int (*try)(void *arg), void *arg)
{
    for (uint32_t nth = 1;; nth++) {
        int rc;

        deny_begin(nth);
        rc = try(arg);
        deny_end();
        if (taken_n < nth) {
            assert_int_equal(rc, MU_OK);
            return taken_n;
        }
        assert_int_equal(rc, MU_ENOMEM);
    }
}
