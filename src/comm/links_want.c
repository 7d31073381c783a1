/* Who is wanted: the members of the generation that comm_want() was told last, and whoever a move
 * waits for. Whether there is a link to each of them is kept with them, as links come and go. */
#include "comm/links.h"

#include <stdlib.h>

/* Two that lose a link, or hear of each other, at the same time: the one with the higher number
 * dials, and the other one only if that came to nothing. */
#define SECOND_MS 20

static struct want **bucket_of(struct tended *k, wid worker)
{
    return &k->buckets[worker * UINT64_C(0x9e3779b97f4a7c15) >> (64 - WANT_BITS)];
}

static struct want *find(struct tended *k, wid worker)
{
    struct want *w = *bucket_of(k, worker);

    while (w != NULL && w->member.worker != worker) {
        w = w->beside;
    }
    return w;
}

static void want_free(struct tended *k, struct want *w)
{
    struct want **at = bucket_of(k, w->member.worker);

    while (*at != w) {
        at = &(*at)->beside;
    }
    *at = w->beside;
    free(w);
}

/* Under c->lock. NULL: out of memory. */
static struct want *want_get(struct comm *c, const struct member *m)
{
    struct tended *k = c->tended;
    struct want *w = find(k, m->worker);

    if (w != NULL) {
        return w;
    }
    w = calloc(1, sizeof(*w));
    if (w != NULL) {
        w->member = *m;
        w->linked = group_find(c, m->worker) != NULL;
        w->since_ns = clock_ns();
        w->next = k->wants;
        k->wants = w;
        w->beside = *bucket_of(k, m->worker);
        *bucket_of(k, m->worker) = w;
    }
    return w;
}

int links_seek(struct comm *c, const struct member *m)
{
    pthread_mutex_lock(&c->lock);
    struct want *w = want_get(c, m);
    const bool new = w != NULL && !w->sought;

    if (new) {
        w->sought = true;
    }
    pthread_mutex_unlock(&c->lock);
    if (new) {
        links_wake(c);
    }
    return w != NULL ? MU_OK : MU_ENOMEM;
}

void links_forget(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    for (struct want *w = c->tended->wants; w != NULL; w = w->next) {
        w->sought = false;
    }
    pthread_mutex_unlock(&c->lock);
    links_wake(c);
}

static uint64_t when(struct want *w, uint64_t now_ns)
{
    const uint64_t at_ns = link_dial_at(&w->dial, now_ns);

    return at_ns == UINT64_MAX ? at_ns : MAX(at_ns, w->turn_ns);
}

/* Nobody else takes one out of the list, so the place in it is good while the lock is not held. */
uint64_t wants_dial(struct comm *c, uint64_t now_ns)
{
    struct tended *k = c->tended;
    uint64_t due_ns = UINT64_MAX;
    struct want *w;

    pthread_mutex_lock(&c->lock);
    for (struct want **at = &k->wants; (w = *at) != NULL;) {
        const bool wanted = w->sought || w->named;

        if (!wanted || w->linked) {
            link_dial_stop(c->tender, &w->dial);
        }
        if (!wanted) {
            *at = w->next;
            want_free(k, w);
            continue;
        }
        if (!w->linked) {
            if (when(w, now_ns) <= now_ns) {
                const struct member m = w->member;

                pthread_mutex_unlock(&c->lock);
                link_dial_go(c->tender, &w->dial, LINK_GROUP, &m);
                pthread_mutex_lock(&c->lock);
            }
            due_ns = MIN(due_ns, when(w, now_ns));
        }
        at = &w->next;
    }
    pthread_mutex_unlock(&c->lock);
    return due_ns;
}

void wants_close(struct tended *k)
{
    while (k->wants != NULL) {
        struct want *w = k->wants;

        k->wants = w->next;
        free(w);
    }
}

/* ---- a link came, or went ---- */

/* Under c->lock. */
static void wait_turn(struct comm *c, struct want *w)
{
    const bool second = !w->sought && w->member.worker > c->hello.self;

    w->turn_ns = clock_ns() + (second ? SECOND_MS * MS : 0);
}

void want_look(struct comm *c, wid worker)
{
    const bool linked = group_find(c, worker) != NULL;
    struct want *w = find(c->tended, worker);

    if (w == NULL || w->linked == linked) {
        return;
    }
    w->linked = linked;
    w->since_ns = clock_ns();
    if (!linked) {
        wait_turn(c, w);
    }
}

/* ---- a generation ---- */

void wants_unname(struct tended *k)
{
    k->goal = 0;
    for (struct want *w = k->wants; w != NULL; w = w->next) {
        w->named = false;
    }
}

/* Under c->lock. Without memory nothing is wanted. */
static int name_all(struct comm *c, const struct generation *g)
{
    wants_unname(c->tended);
    for (uint32_t i = 0; i < g->members_n; i++) {
        const struct member *m = &g->members[i];

        if (m->worker == c->hello.self) {
            continue;
        }
        const bool known = find(c->tended, m->worker) != NULL;
        struct want *w = want_get(c, m);

        if (w == NULL) {
            wants_unname(c->tended);
            return MU_ENOMEM;
        }
        if (!known) {
            wait_turn(c, w);
        }
        w->named = true;
        w->member = *m;
    }
    c->tended->goal = g->number;
    return MU_OK;
}

int comm_want(struct comm *c, const struct generation *g)
{
    int rc = comm_enter(c);

    if (rc == MU_OK) {
        pthread_mutex_lock(&c->lock);
        rc = name_all(c, g);
        pthread_mutex_unlock(&c->lock);
        links_wake(c);
        comm_leave(c);
    }
    return rc;
}

/* Under c->lock. */
static uint64_t linked(const struct tended *k)
{
    for (const struct want *w = k->wants; w != NULL; w = w->next) {
        if (w->named && !w->linked) {
            return 0;
        }
    }
    return k->goal;
}

uint64_t comm_linked(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    const uint64_t number = linked(c->tended);

    pthread_mutex_unlock(&c->lock);
    return number;
}

uint32_t comm_unlinked(struct comm *c, uint64_t ms, wid *workers_out, uint32_t room)
{
    const uint64_t now_ns = clock_ns();
    uint32_t n = 0;

    pthread_mutex_lock(&c->lock);
    for (const struct want *w = c->tended->wants; w != NULL && n < room; w = w->next) {
        if (w->named && !w->linked && now_ns >= w->since_ns + ms * MS) {
            workers_out[n++] = w->member.worker;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

void wants_tell(struct comm *c)
{
    struct tended *k = c->tended;
    const uint64_t number = comm_linked(c);

    if (number == k->told) {
        return;
    }
    k->told = number;
    if (c->config.on_linked != NULL) {
        c->config.on_linked(c->config.arg);
    }
}
