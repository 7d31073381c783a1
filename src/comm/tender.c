/* The tender's thread: what it sleeps on, and what each event means. */
#include "comm/tender.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 32
#define SWEEP_AGAIN_MS 50
#define FLUSH_AGAIN_MS 1

int tender_watch(struct tender *t, int fd, uint32_t events, enum tender_what what, uint64_t id)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)what << WHAT_SHIFT | id};

    if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ||
        (errno == EEXIST && epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0)) {
        return MU_OK;
    }
    return errno == ENOMEM ? MU_ENOMEM : MU_EIO;
}

void tender_unwatch(struct tender *t, int fd)
{
    (void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void tender_wake(struct comm *c)
{
    const uint64_t one = 1;

    /* It can only fail when the counter is full, and then the thread has been told. */
    (void)!write(c->tender->wake_fd, &one, sizeof(one));
}

static void on_hand(struct comm *c, uint64_t id)
{
    for (struct hand *h = c->tender->hands; h != NULL; h = h->next) {
        if (h->id == id) {
            hand_go(c, h);
            return;
        }
    }
}

static void on_event(struct comm *c, uint64_t data)
{
    const enum tender_what what = (enum tender_what)(data >> WHAT_SHIFT);
    const uint64_t id = data & ((UINT64_C(1) << WHAT_SHIFT) - 1);
    uint64_t n;

    switch (what) {
    case WHAT_WAKE:
        (void)!read(c->tender->wake_fd, &n, sizeof(n));
        break;
    case WHAT_TCP:
    case WHAT_UNIX:
        listener_accept(c, what);
        break;
    case WHAT_HAND:
        on_hand(c, id);
        break;
    case WHAT_LINK:
        link_event(c, id);
        break;
    }
}

/* This worker has another name since: nothing said under the old one counts. */
static void drop_renamed(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    const bool renamed = c->tender->renamed;

    c->tender->renamed = false;
    pthread_mutex_unlock(&c->lock);
    if (renamed) {
        hands_drop(c);
    }
}

/* What calls that are over have left queued. A call that is made sends it by itself. */
static bool flush_left(struct comm *c)
{
    bool left = atomic_load(&c->tender->flush);

    if (left && pthread_mutex_trylock(&c->engine) == 0) {
        left = group_flush(c);
        atomic_store(&c->tender->flush, left);
        pthread_mutex_unlock(&c->engine);
    }
    return left;
}

void tender_flush(struct comm *c)
{
    atomic_store(&c->tender->flush, true);
    tender_wake(c);
}

/* What is due, and how long there is nothing to do: in ms, -1: until something happens. */
static int do_due(struct comm *c)
{
    drop_renamed(c);

    const bool left = links_sweep(c);
    const uint64_t now_ns = wait_now_ns();
    uint64_t due_ns = hands_expire(c, now_ns);

    due_ns = MIN(due_ns, wants_dial(c, now_ns));
    due_ns = MIN(due_ns, links_check(c, now_ns));
    due_ns = MIN(due_ns, listeners_resume(c, now_ns));
    if (left) {
        due_ns = MIN(due_ns, now_ns + SWEEP_AGAIN_MS * MS);
    }
    if (flush_left(c)) {
        due_ns = MIN(due_ns, now_ns + FLUSH_AGAIN_MS * MS);
    }
    wants_tell(c);
    if (due_ns == UINT64_MAX) {
        return -1;
    }
    const uint64_t then_ns = wait_now_ns();

    return due_ns <= then_ns ? 0 : (int)MIN((due_ns - then_ns + MS - 1) / MS, 60000);
}

static void *tender_run(void *arg)
{
    struct comm *c = arg;
    struct epoll_event events[EVENTS_MAX];

    while (!atomic_load(&c->tender->stop)) {
        const int timeout_ms = do_due(c);
        const int n = epoll_wait(c->tender->epoll_fd, events, EVENTS_MAX, timeout_ms);

        mu_assert(n >= 0 || errno == EINTR);
        for (int i = 0; i < n; i++) {
            on_event(c, events[i].data.u64);
        }
    }
    return NULL;
}

static int fail(char *error, const char *what)
{
    snprintf(error, COMM_ERROR_MAX, "%s: %s; is the limit of open files or threads reached?", what,
             strerror(errno));
    return MU_EIO;
}

int tender_open(struct comm *c, const struct comm_config *config, char *error)
{
    struct tender *t = calloc(1, sizeof(*t));
    int rc;

    if (t == NULL) {
        snprintf(error, COMM_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    c->tender = t;
    t->tcp_fd = t->unix_fd = -1;
    pthread_mutex_init(&t->pace_lock, NULL);
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    t->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (t->epoll_fd < 0 || t->wake_fd < 0 ||
        tender_watch(t, t->wake_fd, EPOLLIN, WHAT_WAKE, 0) != MU_OK) {
        rc = fail(error, "can't watch connections");
        goto err_tender;
    }
    rc = listeners_open(c, config, error);
    if (rc != MU_OK) {
        goto err_tender;
    }
    t->running = thread_start(&t->thread, tender_run, c) == MU_OK;
    if (!t->running) {
        rc = fail(error, "can't start a thread");
        goto err_tender;
    }
    return MU_OK;
err_tender:
    tender_close(c);
    return rc;
}

void tender_stop(struct comm *c)
{
    struct tender *t = c->tender;

    if (t == NULL || !t->running) {
        return;
    }
    atomic_store(&t->stop, true);
    tender_wake(c);
    pthread_join(t->thread, NULL);
    t->running = false;
}

void tender_close(struct comm *c)
{
    struct tender *t = c->tender;

    if (t == NULL) {
        return;
    }
    tender_stop(c);
    hands_drop(c);
    wants_close(t);
    listeners_close(t);
    if (t->wake_fd >= 0) {
        close(t->wake_fd);
    }
    if (t->epoll_fd >= 0) {
        close(t->epoll_fd);
    }
    pthread_mutex_destroy(&t->pace_lock);
    free(t);
    c->tender = NULL;
}
