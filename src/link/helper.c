/* The helper's thread: connections, and what other threads give to it. */
#include "link/helper_state.h"

#include "base/thread.h"
#include "core/text.h"
#include "link/tender_state.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

void helper_wake(struct helper *h)
{
    const uint64_t one = 1;

    if (!h->awake) {
        h->awake = true;
        (void)!write(h->wake_fd, &one, sizeof(one));
    }
}

/* ---- connections ---- */

int helper_conn_open(struct helper *h, const struct link_made *made, struct helper_conn **conn_out)
{
    struct helper_conn *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return MU_ENOMEM;
    }
    c->h = h;
    c->made = *made;
    TAILQ_INIT(&c->ready);
    for (uint16_t i = 0; i < HELPER_WINDOW; i++) {
        c->free_slots[i] = (uint16_t)(HELPER_WINDOW - 1 - i);
    }
    c->free_n = HELPER_WINDOW;
    c->buffer = malloc(HELPER_BUFFER);
    c->gather = malloc(HELPER_GATHER);
    if (c->buffer == NULL || c->gather == NULL ||
        link_stream_open(&c->stream, made->fd, &made->session,
                         h->config.tls && made->path == LINK_TCP ? h->run_key : NULL) != MU_OK) {
        c->made.fd = -1;
        helper_conn_close(c);
        return MU_ENOMEM;
    }
    *conn_out = c;
    return MU_OK;
}

void helper_conn_close(struct helper_conn *c)
{
    for (uint32_t i = 0; i < HELPER_WINDOW; i++) {
        free(c->slots[i]);
    }
    link_stream_close(&c->stream);
    if (c->made.fd >= 0) {
        close(c->made.fd);
    }
    free(c->buffer);
    free(c->gather);
    free(c);
}

static void log_loss(struct helper_conn *c, int status, const char *why)
{
    char who[WID_TEXT_MAX], more[LOG_PACE_TEXT];

    if (log_pace_take(&c->h->pace, c->h->now_ms, more)) {
        log_write(status == MU_EPEER ? LOG_DEBUG : LOG_WARN, "link",
                  "the helper's link %s worker %s is closed: %s%s", c->peer != NULL ? "to" : "from",
                  wid_print(c->made.session.peer, who), why, more);
    }
}

void helper_conn_lose(struct helper_conn *c, int status, const char *why)
{
    struct helper *h = c->h;
    struct helper_peer *p = c->peer;

    if (c->lost) {
        return;
    }
    c->lost = true;
    log_loss(c, status, why);
    epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, c->made.fd, NULL);
    (void)shutdown(c->made.fd, SHUT_RDWR);
    c->pieces_n = c->piece = 0; /* Nothing that is lent is read any more. */
    for (uint32_t i = 0; i < HELPER_WINDOW; i++) {
        struct helper_slot *s = c->slots[i];

        if (s != NULL && s->number != 0 && s->call != NULL) {
            helper_end_call(h, s->call, h->closing ? MU_EDONE : MU_EPEER);
        } else if (s != NULL && s->number != 0) {
            helper_request_lost(s);
        }
    }
    if (p != NULL) {
        helper_end_waiting(h, p, h->closing ? MU_EDONE : MU_EPEER);
    }
    pthread_mutex_lock(&h->lock);
    h->stats.lost_n++;
    h->stats.broken_n += status == MU_EPROTO;
    h->conns_n--;
    if (p != NULL) {
        p->conn = NULL;
        p->linked = p->wanted = false;
    }
    pthread_mutex_unlock(&h->lock);
}

static void watch(struct helper_conn *c, bool out)
{
    const short events = link_stream_events(&c->stream, (short)(out ? POLLIN | POLLOUT : POLLIN));
    struct epoll_event event = {.events = (uint32_t)events, .data.ptr = c};
    const int op = c->watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    if (c->watched == event.events) {
        return;
    }
    c->watched = event.events;
    if (epoll_ctl(c->h->epoll_fd, op, c->made.fd, &event) != 0) {
        helper_conn_lose(c, MU_EIO, "it can't be watched: is memory short?");
    }
}

void helper_conn_flush(struct helper_conn *c)
{
    c->dirty = false;
    const int rc = helper_write(c);

    if (rc != MU_OK && rc != MU_EAGAIN) {
        helper_conn_lose(c, rc, c->stream.why);
        return;
    }
    watch(c, helper_has_more(c));
}

static void adopt(struct helper *h)
{
    pthread_mutex_lock(&h->lock);
    struct helper_conn *c = h->arrived, *next;

    h->arrived = NULL;
    pthread_mutex_unlock(&h->lock);
    for (; c != NULL; c = next) {
        next = c->next;
        c->next = h->conns;
        h->conns = c;
        c->dirty = true;
        if (c->peer != NULL) {
            pthread_mutex_lock(&h->lock);
            c->peer->conn = c;
            pthread_mutex_unlock(&h->lock);
            helper_go_on(c->peer);
        }
    }
}

/* ---- the thread ---- */

static void sweep(struct helper *h)
{
    for (struct helper_conn **at = &h->conns; *at != NULL;) {
        struct helper_conn *c = *at;

        if (!c->lost && c->dirty) {
            helper_conn_flush(c);
        }
        if (c->lost) {
            *at = c->next;
            helper_conn_close(c);
        } else {
            at = &c->next;
        }
    }
}

static void lose_all(struct helper *h, const char *why)
{
    for (struct helper_conn *c = h->conns; c != NULL; c = c->next) {
        helper_conn_lose(c, MU_EPEER, why);
    }
}

static void check_hosts(struct helper *h)
{
    if (h->conns == NULL || h->now_ms < h->check_ms) {
        return;
    }
    h->check_ms = h->now_ms + STREAM_CHECK_MS;
    for (struct helper_conn *c = h->conns; c != NULL; c = c->next) {
        if (!c->lost && c->made.path == LINK_TCP && link_stream_is_silent(c->made.fd)) {
            helper_conn_lose(c, MU_EPEER, "its host has not answered for too long");
        }
    }
}

/* TLS may have more than the socket has. */
static void read_conn(struct helper_conn *c)
{
    const char *why = NULL;
    const int rc = helper_read(c, &why);

    if (rc != MU_OK && rc != MU_EAGAIN) {
        helper_conn_lose(c, rc, why);
    }
    c->unread = rc == MU_OK && c->stream.tls != NULL;
    c->h->unread |= c->unread;
}

static void read_on(struct helper *h)
{
    const bool any = h->unread;

    h->unread = false;
    for (struct helper_conn *c = any ? h->conns : NULL; c != NULL; c = c->next) {
        if (c->unread && !c->lost) {
            read_conn(c);
        }
    }
}

static void expire(struct helper *h)
{
    struct timer *t;

    while ((t = timers_take(&h->timers, h->now_ms)) != NULL) {
        t->fn(h, t);
    }
}

/* All that can be done without waiting. False: it closes. */
static bool turn(struct helper *h)
{
    h->now_ms = clock_ms();
    pthread_mutex_lock(&h->lock);
    const bool closing = h->closing, renamed = h->renamed;

    h->awake = true;
    h->renamed = false;
    h->stats.writes_n = h->writes_n;
    pthread_mutex_unlock(&h->lock);
    adopt(h);
    read_on(h);
    if (renamed) {
        lose_all(h, "this worker has another name now");
    }
    helper_peers_look(h);
    helper_take_calls(h);
    helper_take_answers(h);
    expire(h);
    check_hosts(h);
    sweep(h);
    return !closing;
}

/* Whether anything was given since. */
static bool may_sleep(struct helper *h)
{
    pthread_mutex_lock(&h->lock);
    const bool idle = TAILQ_EMPTY(&h->given) && TAILQ_EMPTY(&h->answers) &&
                      TAILQ_EMPTY(&h->cancels) && h->arrived == NULL && !h->peers_news &&
                      !h->renamed && !h->closing;

    h->awake = !idle;
    pthread_mutex_unlock(&h->lock);
    return idle;
}

static int pause_ms(struct helper *h)
{
    uint64_t due_ms = timers_next_ms(&h->timers);

    if (h->conns != NULL) {
        due_ms = MIN(due_ms, h->check_ms);
    }
    if (h->unread || !may_sleep(h)) {
        return 0;
    }
    return due_ms == UINT64_MAX  ? -1
           : due_ms <= h->now_ms ? 0
                                 : (int)MIN(due_ms - h->now_ms, 60000);
}

static void on_event(struct helper *h, const struct epoll_event *event)
{
    struct helper_conn *c =
        event->data.ptr; /* Freed in sweep() only, when it is watched no more. */
    uint64_t n;

    if (c == NULL) {
        (void)!read(h->wake_fd, &n, sizeof(n));
        return;
    }
    if (!c->lost) {
        c->dirty = true;
        if ((event->events & ~(uint32_t)EPOLLOUT) != 0 || c->stream.tls != NULL) {
            read_conn(c);
        }
    }
}

static void end_all(struct helper *h)
{
    adopt(h);
    lose_all(h, "this worker closes it");
    for (struct helper_peer *p = h->peers; p != NULL; p = p->next) {
        helper_end_waiting(h, p, MU_EDONE);
    }
    helper_take_answers(h);
    sweep(h);
}

static void *run(void *arg)
{
    struct helper *h = arg;
    struct epoll_event events[HELPER_EVENTS_MAX];

    while (turn(h)) {
        const int n = epoll_wait(h->epoll_fd, events, HELPER_EVENTS_MAX, pause_ms(h));

        mu_assert(n >= 0 || errno == EINTR);
        h->now_ms = clock_ms();
        for (int i = 0; i < n; i++) {
            on_event(h, &events[i]);
        }
    }
    end_all(h);
    return NULL;
}

/* ---- its life ---- */

static void renamed(void *arg)
{
    struct helper *h = arg;

    pthread_mutex_lock(&h->lock);
    h->renamed = true;
    helper_wake(h);
    pthread_mutex_unlock(&h->lock);
}

void helper_unref(struct helper *h)
{
    pthread_mutex_lock(&h->lock);
    const bool last = --h->refs_n == 0;

    pthread_mutex_unlock(&h->lock);
    if (!last) {
        return;
    }
    helper_peers_free(h);
    if (h->wake_fd >= 0) {
        close(h->wake_fd);
    }
    if (h->epoll_fd >= 0) {
        close(h->epoll_fd);
    }
    pthread_mutex_destroy(&h->lock);
    OPENSSL_cleanse(h->run_key, sizeof(h->run_key));
    free(h);
}

/* All but the thread. */
static int set_up(struct helper *h)
{
    struct epoll_event event = {.events = EPOLLIN};

    TAILQ_INIT(&h->given);
    TAILQ_INIT(&h->cancels);
    TAILQ_INIT(&h->answers);
    pthread_mutex_init(&h->lock, NULL);
    h->refs_n = 1;
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return h->epoll_fd >= 0 && h->wake_fd >= 0 &&
                   epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, h->wake_fd, &event) == 0
               ? MU_OK
               : MU_EIO;
}

int helper_open(struct tender *t, const struct helper_config *config, struct helper **h_out)
{
    struct helper *h = calloc(1, sizeof(*h));
    const struct link_user user = {
        .arg = h, .made = helper_made, .due = helper_peers_due, .renamed = renamed};
    int rc;

    if (h == NULL) {
        return MU_ENOMEM;
    }
    h->tender = t;
    h->config = *config;
    memcpy(h->run_key, t->config.hello.run_key, KEY_BYTES);
    rc = set_up(h);
    if (rc == MU_OK) {
        rc = thread_start(&h->thread, run, h);
        h->running = rc == MU_OK;
    }
    if (rc == MU_OK) {
        rc = tender_attach(t, LINK_HELPER, &user);
    }
    if (rc != MU_OK) {
        h->tender = NULL;
        helper_close(h);
        return rc;
    }
    *h_out = h;
    return MU_OK;
}

void helper_close(struct helper *h)
{
    if (h == NULL) {
        return;
    }
    if (h->tender != NULL) {
        tender_detach(h->tender, LINK_HELPER);
    }
    pthread_mutex_lock(&h->lock);
    h->closing = true;
    helper_wake(h);
    pthread_mutex_unlock(&h->lock);
    if (h->running) {
        pthread_join(h->thread, NULL);
    }
    helper_unref(h);
}

void helper_stats(struct helper *h, struct helper_stats *stats_out)
{
    pthread_mutex_lock(&h->lock);
    *stats_out = h->stats;
    pthread_mutex_unlock(&h->lock);
}
