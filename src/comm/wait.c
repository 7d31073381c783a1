#include "comm/wait.h"

#include "comm/comm_state.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define SPIN_NS 80000  /* what sleeping and being woken would cost, about */
#define SPIN_TURNS 32  /* between two looks at the clock and the sockets */
#define CAP_NS 1000000 /* of a sleep that can't hear everything */

_Static_assert(WAIT_WORDS_MAX + 1 <= FUTEX_WAITV_MAX, "all words and the alarm in one wait");

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

void wait_begin(struct waiter *w, struct comm *comm)
{
    w->comm = comm;
    w->alarm_seen = atomic_load_explicit(&comm->alarm, memory_order_acquire);
    w->rounds_n = 0;
    w->words_n = w->fds_n = 0;
}

void wait_add_word(struct waiter *w, const _Atomic uint32_t *word, uint32_t seen,
                   _Atomic uint32_t *flag)
{
    if (w->words_n < WAIT_WORDS_MAX) {
        w->words[w->words_n] = (struct wait_word){word, seen, flag};
    }
    w->words_n++;
}

/* The last of fds[] is kept for the alarm. */
void wait_add_fd(struct waiter *w, int fd, short events)
{
    if (w->fds_n < WAIT_FDS_MAX - 1) {
        w->fds[w->fds_n] = (struct pollfd){.fd = fd, .events = events};
    }
    w->fds_n++;
}

void wait_restart(struct waiter *w)
{
    w->rounds_n = 0;
}

static uint32_t words_kept(const struct waiter *w)
{
    return MIN(w->words_n, WAIT_WORDS_MAX);
}

static uint32_t fds_kept(const struct waiter *w)
{
    return MIN(w->fds_n, WAIT_FDS_MAX - 1);
}

static bool has_changed(const struct waiter *w)
{
    const uint32_t n = words_kept(w);

    if (atomic_load(&w->comm->alarm) != w->alarm_seen) {
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (atomic_load(w->words[i].word) != w->words[i].seen) {
            return true;
        }
    }
    return false;
}

/* Whether each member on this host can have a core to look from. A generation's members never
 * change, so they are counted once; one too many is enough to know. */
static bool has_cores(struct waiter *w)
{
    const struct comm *c = w->comm;
    const struct comm_group *g = &c->group;

    if (w->counted != g->number) {
        w->here_n = 0;
        for (uint32_t r = 0; r < g->n && w->here_n <= c->cores_n; r++) {
            w->here_n += g->members[r].host == c->config.host;
        }
        w->counted = g->number;
    }
    return w->here_n <= c->cores_n;
}

static bool fds_ready(struct waiter *w)
{
    return w->fds_n > 0 && poll(w->fds, fds_kept(w), 0) > 0;
}

/* True: something has happened. Where others need this core to get on, looking only delays
 * them: it is given away once, which is cheaper than to sleep if they are quick. */
static bool look_for_a_while(struct waiter *w, uint64_t due_ns)
{
    uint64_t end_ns = 0;

    if (w->rounds_n > 0) {
        return false;
    }
    if (!has_cores(w)) {
        sched_yield();
        return has_changed(w) || fds_ready(w);
    }
    for (;;) {
        uint64_t now_ns;

        for (uint32_t i = 0; i < SPIN_TURNS; i++) {
            if (has_changed(w)) {
                return true;
            }
            pause_cpu();
        }
        if (fds_ready(w)) {
            return true;
        }
        now_ns = clock_ns();
        if (end_ns == 0) {
            end_ns = MIN(now_ns + SPIN_NS, due_ns);
        }
        if (now_ns >= end_ns) {
            return false;
        }
        /* The one it waits for may be waiting for this very core: whoever wakes another likes to
         * have it near. */
        sched_yield();
    }
}

struct timespec wait_time(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

/* Not FUTEX_PRIVATE: the words lie in memory of others, and one kind is enough for the alarm. */
static void sleep_on_words(struct waiter *w, uint64_t until_ns)
{
    struct futex_waitv all[WAIT_WORDS_MAX + 1];
    const uint32_t n = words_kept(w);
    struct timespec until = wait_time(until_ns);

    for (uint32_t i = 0; i < n; i++) {
        all[i] = (struct futex_waitv){
            .val = w->words[i].seen, .uaddr = (uintptr_t)w->words[i].word, .flags = FUTEX_32};
    }
    all[n] = (struct futex_waitv){
        .val = w->alarm_seen, .uaddr = (uintptr_t)&w->comm->alarm, .flags = FUTEX_32};
    if (syscall(SYS_futex_waitv, all, n + 1, 0, until_ns == UINT64_MAX ? NULL : &until,
                CLOCK_MONOTONIC) < 0 &&
        (errno == ENOSYS || errno == EPERM)) {
        /* Before Linux 5.16, or forbidden: one word can wake it, the others are looked at often. */
        const struct timespec cap = wait_time(CAP_NS);

        syscall(SYS_futex, (uintptr_t)all[0].uaddr, FUTEX_WAIT, (uint32_t)all[0].val, &cap, NULL,
                0);
    }
}

static void sleep_in_poll(struct waiter *w, uint64_t until_ns)
{
    const uint32_t n = fds_kept(w);
    const uint64_t now_ns = clock_ns();
    struct timespec left = wait_time(until_ns > now_ns ? until_ns - now_ns : 0);
    uint64_t count;

    w->fds[n] = (struct pollfd){.fd = w->comm->alarm_fd, .events = POLLIN};
    if (ppoll(w->fds, n + 1, until_ns == UINT64_MAX ? NULL : &left, NULL) > 0 &&
        w->fds[n].revents != 0) {
        while (read(w->comm->alarm_fd, &count, sizeof(count)) < 0 && errno == EINTR) {
        }
    }
}

/* A flag is set before the last look at its word, and the one who changes the word looks at the
 * flag after that: one of them sees the other (all are memory_order_seq_cst). */
static void flags_set(struct waiter *w, enum wait_flag flag)
{
    const uint32_t n = words_kept(w);

    for (uint32_t i = 0; i < n; i++) {
        atomic_store(w->words[i].flag, flag);
    }
}

static int sleep_for(struct waiter *w, uint64_t due_ns)
{
    const uint64_t now_ns = clock_ns();
    uint64_t until_ns = due_ns;

    if (now_ns >= due_ns) {
        return MU_ETIMEDOUT;
    }
    if (w->words_n > WAIT_WORDS_MAX || w->fds_n > WAIT_FDS_MAX - 1) {
        until_ns = MIN(due_ns, now_ns + CAP_NS);
    }
    flags_set(w, w->fds_n > 0 ? WAIT_EVENTFD : WAIT_FUTEX);
    if (!has_changed(w)) {
        if (w->fds_n > 0) {
            sleep_in_poll(w, until_ns);
        } else {
            sleep_on_words(w, until_ns);
        }
    }
    flags_set(w, WAIT_AWAKE);
    w->rounds_n++;
    return MU_OK;
}

int wait_for(struct waiter *w, uint64_t due_ns)
{
    int rc = look_for_a_while(w, due_ns) ? MU_OK : sleep_for(w, due_ns);

    w->words_n = w->fds_n = 0;
    w->alarm_seen = atomic_load_explicit(&w->comm->alarm, memory_order_acquire);
    return rc;
}

static void event_ring(int fd)
{
    const uint64_t one = 1;

    /* Full: it rings already. */
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

void wait_wake(const _Atomic uint32_t *word, const _Atomic uint32_t *flag, int event_fd)
{
    switch (atomic_load(flag)) {
    case WAIT_FUTEX:
        syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        break;
    case WAIT_EVENTFD:
        event_ring(event_fd);
        break;
    default:
        break;
    }
}

void wait_ring(_Atomic uint32_t *alarm, int alarm_fd)
{
    atomic_fetch_add(alarm, 1);
    syscall(SYS_futex, alarm, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    event_ring(alarm_fd);
}
