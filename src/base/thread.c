#include "base/thread.h"

#include <signal.h>

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
