/* The tender's thread: what it sleeps on, and what each event means. */
#include "link/tender_state.h"

#include "base/thread.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 32

int tender_await(struct tender *t, int fd, uint32_t events, unsigned what, uint64_t id)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)what << WHAT_SHIFT | id};

    if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ||
        (errno == EEXIST && epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0)) {
        return MU_OK;
    }
    return errno == ENOMEM ? MU_ENOMEM : MU_EIO;
}

int tender_watch(struct tender *t, int fd, uint32_t events, enum link_class class, uint64_t id)
{
    return tender_await(t, fd, events, WHAT_USER + class, id);
}

void tender_unwatch(struct tender *t, int fd)
{
    (void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void tender_wake(struct tender *t)
{
    const uint64_t one = 1;

    /* It can only fail when the counter is full, and then the thread has been told. */
    (void)!write(t->wake_fd, &one, sizeof(one));
}

const char *tender_address(const struct tender *t)
{
    return t->address;
}

void tender_counts(const struct tender *t, uint64_t *refused_n_out, uint64_t *timed_out_n_out)
{
    *refused_n_out = atomic_load(&t->refused_n);
    *timed_out_n_out = atomic_load(&t->timed_out_n);
}

bool link_hung_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* ---- the thread ---- */

static void on_hand(struct tender *t, uint64_t id)
{
    for (struct hand *h = t->hands; h != NULL; h = h->next) {
        if (h->id == id) {
            hand_go(t, h);
            return;
        }
    }
}

static void on_event(struct tender *t, uint64_t data)
{
    const unsigned what = (unsigned)(data >> WHAT_SHIFT);
    const uint64_t id = data & ((UINT64_C(1) << WHAT_SHIFT) - 1);
    uint64_t n;

    switch (what) {
    case WHAT_WAKE:
        (void)!read(t->wake_fd, &n, sizeof(n));
        break;
    case WHAT_LISTENER:
        listener_accept(t, (enum listener)id);
        break;
    case WHAT_HAND:
        on_hand(t, id);
        break;
    default:
        if (t->users[what - WHAT_USER].event != NULL) {
            t->users[what - WHAT_USER].event(t->users[what - WHAT_USER].arg, id);
        }
    }
}

/* This worker has another name since: nothing said under the old one counts. */
static void drop_renamed(struct tender *t)
{
    pthread_mutex_lock(&t->lock);
    const bool renamed = t->renamed;

    t->renamed = false;
    pthread_mutex_unlock(&t->lock);
    if (renamed) {
        hands_drop(t, LINK_CLASSES);
    }
    for (int i = 0; i < LINK_CLASSES && renamed; i++) {
        if (t->users[i].renamed != NULL) {
            t->users[i].renamed(t->users[i].arg);
        }
    }
}

/* What is due, and how long there is nothing to do: in ms, -1: until something happens. */
static int do_due(struct tender *t)
{
    drop_renamed(t);

    const uint64_t now_ns = clock_ns();
    uint64_t due_ns = hands_expire(t, now_ns);

    due_ns = MIN(due_ns, listeners_resume(t, now_ns));
    for (int i = 0; i < LINK_CLASSES; i++) {
        if (t->users[i].due != NULL) {
            const uint64_t its_ns = t->users[i].due(t->users[i].arg);

            due_ns = MIN(due_ns, its_ns);
        }
    }
    if (due_ns == UINT64_MAX) {
        return -1;
    }
    const uint64_t then_ns = clock_ns();

    return due_ns <= then_ns ? 0 : (int)MIN((due_ns - then_ns + MS - 1) / MS, 60000);
}

static void *tender_run(void *arg)
{
    struct tender *t = arg;
    struct epoll_event events[EVENTS_MAX];

    while (!atomic_load(&t->stop)) {
        pthread_mutex_lock(&t->busy);
        const int timeout_ms = do_due(t);

        pthread_mutex_unlock(&t->busy);
        const int n = epoll_wait(t->epoll_fd, events, EVENTS_MAX, timeout_ms);

        mu_assert(n >= 0 || errno == EINTR);
        pthread_mutex_lock(&t->busy);
        for (int i = 0; i < n; i++) {
            on_event(t, events[i].data.u64);
        }
        pthread_mutex_unlock(&t->busy);
    }
    return NULL;
}

/* ---- its life ---- */

static int fail(char *error)
{
    snprintf(error, LINK_ERROR_MAX,
             "can't watch connections: %s; is the limit of open files reached?", strerror(errno));
    return MU_EIO;
}

int tender_open(const struct tender_config *config, struct tender **tender_out, char *error)
{
    struct tender *t = calloc(1, sizeof(*t));
    int rc = MU_OK;

    if (t == NULL) {
        snprintf(error, LINK_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    /* The process may exit while our threads are at it: OpenSSL does not go before them. */
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    t->config = *config;
    t->config.address = t->config.iface = NULL;
    for (int i = 0; i < LISTENERS; i++) {
        t->listeners[i] = -1;
    }
    pthread_mutex_init(&t->busy, NULL);
    pthread_mutex_init(&t->lock, NULL);
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    t->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (t->epoll_fd < 0 || t->wake_fd < 0 ||
        tender_await(t, t->wake_fd, EPOLLIN, WHAT_WAKE, 0) != MU_OK) {
        rc = fail(error);
    }
    rc = rc == MU_OK ? listeners_open(t, config, error) : rc;
    if (rc != MU_OK) {
        tender_close(t);
        return rc;
    }
    *tender_out = t;
    return MU_OK;
}

int tender_attach(struct tender *t, enum link_class class, const struct link_user *user)
{
    int rc = MU_OK;

    pthread_mutex_lock(&t->busy);
    if (t->users[class].made != NULL) {
        rc = MU_EEXIST;
    } else if (!t->running) {
        rc = thread_start(&t->thread, tender_run, t);
        t->running = rc == MU_OK;
    }
    if (rc == MU_OK) {
        t->users[class] = *user;
    }
    pthread_mutex_unlock(&t->busy);
    tender_wake(t);
    return rc;
}

void tender_detach(struct tender *t, enum link_class class)
{
    pthread_mutex_lock(&t->busy);
    hands_drop(t, class);
    t->users[class] = (struct link_user){0};
    pthread_mutex_unlock(&t->busy);
}

void tender_rename(struct tender *t, wid self)
{
    pthread_mutex_lock(&t->lock);
    t->config.hello.self = self;
    t->renamed = true;
    pthread_mutex_unlock(&t->lock);
    tender_wake(t);
}

void tender_stop(struct tender *t)
{
    if (!t->running) {
        return;
    }
    atomic_store(&t->stop, true);
    tender_wake(t);
    pthread_join(t->thread, NULL);
    t->running = false;
}

void tender_close(struct tender *t)
{
    tender_stop(t);
    hands_drop(t, LINK_CLASSES);
    listeners_close(t);
    if (t->wake_fd >= 0) {
        close(t->wake_fd);
    }
    if (t->epoll_fd >= 0) {
        close(t->epoll_fd);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->busy);
    OPENSSL_cleanse(&t->config, sizeof(t->config));
    free(t);
}
