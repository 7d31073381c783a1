/* Who can be asked, and the connections to them: dialed from the tender's thread. */
#include "link/helper_state.h"

#include "base/clock.h"

#include <stdlib.h>

static struct helper_peer **bucket_of(struct helper *h, wid worker)
{
    return &h->buckets[worker * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PEER_BITS)];
}

struct helper_peer *helper_peer_find(struct helper *h, wid worker)
{
    struct helper_peer *p = *bucket_of(h, worker);

    while (p != NULL && p->worker != worker) {
        p = p->beside;
    }
    return p;
}

/* Under the lock. */
static int list(struct helper *h, const struct member *m)
{
    struct helper_peer *p = helper_peer_find(h, m->worker);

    if (p == NULL) {
        p = calloc(1, sizeof(*p));
        if (p == NULL) {
            return MU_ENOMEM;
        }
        TAILQ_INIT(&p->waiting);
        p->worker = m->worker;
        p->next = h->peers;
        h->peers = p;
        p->beside = *bucket_of(h, m->worker);
        *bucket_of(h, m->worker) = p;
    }
    p->member = *m;
    p->listed = true;
    return MU_OK;
}

int helper_peers(struct helper *h, const struct member *peers, uint32_t n)
{
    int rc = MU_OK;

    pthread_mutex_lock(&h->lock);
    for (struct helper_peer *p = h->peers; p != NULL; p = p->next) {
        p->listed = false;
    }
    for (uint32_t i = 0; i < n && rc == MU_OK; i++) {
        rc = list(h, &peers[i]);
    }
    h->peers_news = true;
    helper_wake(h);
    pthread_mutex_unlock(&h->lock);
    tender_wake(h->tender);
    return rc;
}

void helper_peers_look(struct helper *h)
{
    struct helper_peer *p;

    pthread_mutex_lock(&h->lock);
    const bool news = h->peers_news;

    h->peers_news = false;
    p = news ? h->peers : NULL;
    while (p != NULL) {
        const bool over = !p->listed && (p->pending_n > 0 || p->conn != NULL);
        struct helper_peer *next = p->next; /* Only the tender's thread takes one out. */

        if (over) {
            p->pending_n++; /* It stays while the lock is not held. */
            pthread_mutex_unlock(&h->lock);
            if (p->conn != NULL) {
                helper_conn_lose(p->conn, MU_EPEER, "it is in the roster no more");
            }
            helper_end_waiting(h, p, MU_EPEER);
            pthread_mutex_lock(&h->lock);
            p->pending_n--;
            next = p->next;
        }
        p = next;
    }
    pthread_mutex_unlock(&h->lock);
}

static void forget(struct helper *h, struct helper_peer **at)
{
    struct helper_peer *p = *at, **beside = bucket_of(h, p->worker);

    while (*beside != p) {
        beside = &(*beside)->beside;
    }
    *beside = p->beside;
    *at = p->next;
    free(p);
}

/* The tender's thread; nobody else takes one out of the list. */
uint64_t helper_peers_due(void *arg)
{
    struct helper *h = arg;
    const uint64_t now_ns = clock_ns();
    uint64_t due_ns = UINT64_MAX;
    struct helper_peer *p;

    pthread_mutex_lock(&h->lock);
    for (struct helper_peer **at = &h->peers; (p = *at) != NULL;) {
        p->wanted &= p->listed && p->pending_n > 0;
        if (!p->wanted || p->linked) {
            link_dial_stop(h->tender, &p->dial);
        }
        if (!p->listed && !p->linked && p->pending_n == 0 && p->conn == NULL) {
            forget(h, at);
            continue;
        }
        if (p->wanted && !p->linked) {
            if (link_dial_at(&p->dial, now_ns) <= now_ns) {
                const struct member m = p->member;

                p->pending_n++;
                pthread_mutex_unlock(&h->lock);
                link_dial_go(h->tender, &p->dial, LINK_HELPER, &m);
                pthread_mutex_lock(&h->lock);
                p->pending_n--;
            }
            due_ns = MIN(due_ns, link_dial_at(&p->dial, now_ns));
        }
        at = &p->next;
    }
    pthread_mutex_unlock(&h->lock);
    return due_ns;
}

void helper_peers_free(struct helper *h)
{
    while (h->peers != NULL) {
        struct helper_peer *p = h->peers;

        h->peers = p->next;
        free(p);
    }
}

/* The tender's thread. */
bool helper_made(void *arg, const struct link_made *made)
{
    struct helper *h = arg;
    struct helper_conn *c;

    if (helper_conn_open(h, made, &c) != MU_OK) {
        return false;
    }
    pthread_mutex_lock(&h->lock);
    if (made->session.dialed) {
        struct helper_peer *p = helper_peer_find(h, made->session.peer);

        c->peer = p != NULL && p->listed && !p->linked ? p : NULL;
    }
    const bool taken = h->conns_n < HELPER_CONNS_MAX && (c->peer != NULL || !made->session.dialed);

    if (taken) {
        if (c->peer != NULL) {
            c->peer->linked = true;
        }
        c->next = h->arrived;
        h->arrived = c;
        h->conns_n++;
        h->stats.linked_n++;
        helper_wake(h);
    }
    pthread_mutex_unlock(&h->lock);
    if (!taken) {
        c->made.fd = -1; /* The tender's, still. */
        helper_conn_close(c);
    }
    return taken;
}
