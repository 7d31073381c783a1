/* Links in the tender's eyes: what it hears of them, what it does for those that are in no group,
 * and what becomes of the lost. */
#include "comm/links.h"

#include "comm/shm.h"
#include "link/stream.h"

#include <poll.h>
#include <sys/epoll.h>

/* What a TCP link carries is the engine's. Here its end is told, and, while it is in no group, its
 * first claim: so that one who is in a generation of the past hears it soon. A unix socket
 * that is full is waited for until it has room again. */
static uint32_t events_of(struct link *l)
{
    if (l->path == COMM_TCP) {
        return EPOLLRDHUP | EPOLLONESHOT | (l->in_group || l->claim != 0 ? 0 : (uint32_t)EPOLLIN);
    }
    return EPOLLRDHUP | EPOLLIN | (shm_link_events(l) & POLLOUT ? (uint32_t)EPOLLOUT : 0);
}

static int pidfd_of(struct link *l)
{
    return l->path == COMM_SHM ? shm_link_pidfd(l) : -1;
}

void link_watch(struct comm *c, struct link *l)
{
    const uint32_t events = events_of(l);

    if (events == l->watched || l->readable) {
        return;
    }
    (void)tender_watch(c->tender, l->fd, events, LINK_GROUP, l->id);
    if (pidfd_of(l) >= 0 && l->watched == 0) {
        (void)tender_watch(c->tender, pidfd_of(l), EPOLLIN, LINK_GROUP, l->id);
    }
    l->watched = events;
}

static void unwatch(struct comm *c, struct link *l)
{
    if (l->watched == 0) {
        return;
    }
    l->watched = 0;
    tender_unwatch(c->tender, l->fd);
    if (pidfd_of(l) >= 0) {
        tender_unwatch(c->tender, pidfd_of(l));
    }
}

/* Under c->lock. */
static void count_lost(struct comm *c, struct link *l)
{
    if (!l->counted && atomic_load(&l->lost) != MU_OK) {
        l->counted = true;
        c->stats.lost_n++;
        want_look(c, l->session.peer);
    }
}

static struct link *find(struct comm *c, uint64_t id)
{
    struct link *l = c->links;

    while (l != NULL && l->id != id) {
        l = l->next;
    }
    return l;
}

void link_event(void *comm, uint64_t id)
{
    struct comm *c = comm;

    pthread_mutex_lock(&c->lock);
    struct link *l = find(c, id);

    if (l == NULL || atomic_load(&l->lost) != MU_OK) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    if (l->path == COMM_SHM) {
        c->tended->hearing = l;
        pthread_mutex_unlock(&c->lock);
        shm_link_hear(l);
        pthread_mutex_lock(&c->lock);
        c->tended->hearing = NULL;
        pthread_cond_broadcast(&c->changed);
    } else if (!l->in_group && link_hung_up(l->fd)) {
        link_lose(l, MU_EPEER, "it has closed the connection");
    } else if (!l->in_group) {
        l->readable = true;
    }
    /* Otherwise the engine reads on to the end: what was sent before counts. */
    pthread_mutex_unlock(&c->lock);
    comm_ring(c);
}

static void take_out(struct comm *c, struct link *l)
{
    struct link **at = &c->links;

    while (*at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
    unwatch(c, l);
    count_lost(c, l);
    want_look(c, l->session.peer);
}

void link_put_away(struct comm *c, struct link *l)
{
    pthread_mutex_lock(&c->lock);
    take_out(c, l);
    while (c->tended->hearing == l) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    l->ops->close(l);
}

static bool is_stray(const struct link *l)
{
    return !l->in_group && atomic_load(&l->lost) != MU_OK;
}

static bool is_readable(const struct link *l)
{
    return !l->in_group && l->readable;
}

/* Under c->lock. */
static struct link *find_link(struct comm *c, bool (*fits)(const struct link *l))
{
    struct link *l = c->links;

    while (l != NULL && !fits(l)) {
        l = l->next;
    }
    return l;
}

void links_put_away(struct comm *c, bool (*fits)(const struct link *l))
{
    struct link *l;

    do {
        pthread_mutex_lock(&c->lock);
        l = find_link(c, fits);
        pthread_mutex_unlock(&c->lock);
        if (l != NULL) {
            link_put_away(c, l);
        }
    } while (l != NULL);
}

/* What is the engine's to do for links that are in no group. It is held. */
static void tend_strangers(struct comm *c)
{
    struct link *l;
    struct note note;

    do {
        links_put_away(c, is_stray);
        pthread_mutex_lock(&c->lock);
        l = find_link(c, is_readable);
        if (l != NULL) {
            l->readable = false;
            l->watched = EPOLLONESHOT; /* It has fired. */
        }
        pthread_mutex_unlock(&c->lock);
        if (l != NULL) {
            (void)l->ops->head(l, &note); /* No note is given before its worker is in the group. */
        }
    } while (l != NULL);
}

/* Asks after hosts that have gone without a word. */
uint64_t links_check(struct comm *c, uint64_t now_ns)
{
    struct tended *k = c->tended;
    bool any = false;
    const bool due = k->check_ns <= now_ns;

    pthread_mutex_lock(&c->lock);
    for (struct link *l = c->links; l != NULL; l = l->next) {
        if (l->path == COMM_TCP && atomic_load(&l->lost) == MU_OK) {
            any = true;
            if (due && link_stream_is_silent(l->fd)) {
                link_lose(l, MU_EPEER, "its host has not answered for too long");
            }
        }
    }
    pthread_mutex_unlock(&c->lock);
    if (due) {
        k->check_ns = now_ns + STREAM_CHECK_MS * MS;
    }
    return any ? k->check_ns : UINT64_MAX;
}

bool links_sweep(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    for (struct link *l = c->links; l != NULL; l = l->next) {
        if (atomic_load(&l->lost) != MU_OK) {
            unwatch(c, l);
            count_lost(c, l);
        }
    }
    bool left = find_link(c, is_stray) != NULL || find_link(c, is_readable) != NULL;

    pthread_mutex_unlock(&c->lock);
    /* A call that is made may take as long as it likes. */
    if (left && pthread_mutex_trylock(&c->engine) == 0) {
        tend_strangers(c);
        pthread_mutex_unlock(&c->engine);
        left = false;
    }
    pthread_mutex_lock(&c->lock);
    for (struct link *l = c->links; l != NULL; l = l->next) {
        if (atomic_load(&l->lost) == MU_OK) {
            link_watch(c, l);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return left;
}
