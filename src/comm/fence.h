/* Fences. ThreadSanitizer does not see them, and gcc says so; what they order here is shared by two
 * mappings or atomic anyway, so that it has nothing to see. */
#ifndef COMM_FENCE_H
#define COMM_FENCE_H

#include <stdatomic.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* What was read before is read before what follows. */
static inline void fence_acquire(void)
{
    atomic_thread_fence(memory_order_acquire);
}

/* What was written before is seen before what follows. */
static inline void fence_release(void)
{
    atomic_thread_fence(memory_order_release);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
