/* A thread of the library's own, inside somebody else's program. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/base.h"

#include <pthread.h>

/* As pthread_create(), with all signals blocked: they are the program's own threads' business.
 * MU_ENOMEM: there is no room for another thread. */
int thread_start(pthread_t *thread_out, void *(*main)(void *arg), void *arg);

/* A condition whose times are those of the monotonic clock. On Linux it can't fail. */
void thread_condition(pthread_cond_t *cond_out);

/* Waits for such a condition until due_ms (base/clock.h; UINT64_MAX: for ever). False: the time was
 * over. */
bool thread_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t due_ms);

#endif
