#include "base/hook.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic unsigned long count, victim_at; /* 0: never */
static _Atomic int victim_signal;
static pthread_once_t begun = PTHREAD_ONCE_INIT;

static void obey(const char *order)
{
    const char *colon = order != NULL ? strchr(order, ':') : NULL;

    atomic_store(&count, 0);
    if (colon == NULL) {
        atomic_store(&victim_at, 0);
        return;
    }
    atomic_store(&victim_signal, order[0] == 'k' ? SIGKILL : SIGSTOP);
    atomic_store(&victim_at, strtoul(colon + 1, NULL, 10));
}

static void obey_environment(void)
{
    obey(getenv("MUSTER_HOOK"));
}

static void nothing(void)
{
}

void hook_arm(const char *order)
{
    pthread_once(&begun, nothing); /* What the environment says is no longer asked. */
    obey(order);
}

unsigned long hook_count(void)
{
    return atomic_load(&count);
}

void hook_point(void)
{
    unsigned long at;

    pthread_once(&begun, obey_environment);
    at = atomic_fetch_add(&count, 1) + 1;
    if (at == atomic_load(&victim_at)) {
        kill(getpid(), atomic_load(&victim_signal)); /* Nothing after this line in any thread. */
    }
}
