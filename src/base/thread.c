#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

int thread_start(pthread_t *thread_out, void *(*main)(void *arg), void *arg)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread_out, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? MU_OK : MU_ENOMEM;
}

void thread_condition(pthread_cond_t *cond_out)
{
    pthread_condattr_t attr;

    mu_assert(pthread_condattr_init(&attr) == 0 &&
              pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(cond_out, &attr) == 0);
    pthread_condattr_destroy(&attr);
}

bool thread_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t due_ms)
{
    const struct timespec due = {(time_t)(due_ms / 1000), (long)(due_ms % 1000) * 1000000};

    if (due_ms == UINT64_MAX) {
        pthread_cond_wait(cond, lock);
        return true;
    }
    return pthread_cond_timedwait(cond, lock, &due) != ETIMEDOUT;
}
