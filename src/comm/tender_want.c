/* Who is wanted: the members of the generation that comm_want() was told last, and whoever a move
 * waits for. Whether there is a link to each of them is kept with them, as links come and go. */
#include "comm/tender.h"

#include <stdlib.h>

/* Two that lose a link, or hear of each other, at the same time: the one with the higher number
 * dials, and the other one only if that came to nothing. */
#define SECOND_MS 20

static struct want **bucket_of(struct tender *t, wid worker)
{
    return &t->buckets[worker * UINT64_C(0x9e3779b97f4a7c15) >> (64 - WANT_BITS)];
}

static struct want *find(struct tender *t, wid worker)
{
    struct want *w = *bucket_of(t, worker);

    while (w != NULL && w->member.worker != worker) {
        w = w->beside;
    }
    return w;
}

void want_free(struct tender *t, struct want *w)
{
    struct want **at = bucket_of(t, w->member.worker);

    while (*at != w) {
        at = &(*at)->beside;
    }
    *at = w->beside;
    free(w);
}

/* Under c->lock. NULL: out of memory. */
static struct want *want_get(struct comm *c, const struct member *m)
{
    struct tender *t = c->tender;
    struct want *w = find(t, m->worker);

    if (w != NULL) {
        return w;
    }
    w = calloc(1, sizeof(*w));
    if (w != NULL) {
        w->member = *m;
        w->pause_ms = DIAL_FIRST_MS;
        w->linked = group_find(c, m->worker) != NULL;
        w->since_ns = wait_now_ns();
        w->next = t->wants;
        t->wants = w;
        w->beside = *bucket_of(t, m->worker);
        *bucket_of(t, m->worker) = w;
    }
    return w;
}

int tender_want(struct comm *c, const struct member *m)
{
    pthread_mutex_lock(&c->lock);
    struct want *w = want_get(c, m);
    const bool new = w != NULL && !w->sought;

    if (new) {
        w->sought = true;
    }
    pthread_mutex_unlock(&c->lock);
    if (new) {
        tender_wake(c);
    }
    return w != NULL ? MU_OK : MU_ENOMEM;
}

void tender_forget(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    for (struct want *w = c->tender->wants; w != NULL; w = w->next) {
        w->sought = false;
    }
    pthread_mutex_unlock(&c->lock);
    tender_wake(c);
}

void wants_close(struct tender *t)
{
    while (t->wants != NULL) {
        struct want *w = t->wants;

        t->wants = w->next;
        free(w);
    }
}

/* ---- a link came, or went ---- */

/* Under c->lock. */
static void wait_turn(struct comm *c, struct want *w)
{
    const bool second = !w->sought && w->member.worker > c->hello.self;

    w->turn_ns = wait_now_ns() + (second ? SECOND_MS * MS : 0);
}

void want_look(struct comm *c, wid worker)
{
    const bool linked = group_find(c, worker) != NULL;
    struct want *w = find(c->tender, worker);

    if (w == NULL || w->linked == linked) {
        return;
    }
    w->linked = linked;
    w->since_ns = wait_now_ns();
    if (!linked) {
        wait_turn(c, w);
    }
}

/* ---- a generation ---- */

void wants_unname(struct tender *t)
{
    t->goal = 0;
    for (struct want *w = t->wants; w != NULL; w = w->next) {
        w->named = false;
    }
}

/* Under c->lock. Without memory nothing is wanted. */
static int name_all(struct comm *c, const struct generation *g)
{
    wants_unname(c->tender);
    for (uint32_t i = 0; i < g->members_n; i++) {
        const struct member *m = &g->members[i];

        if (m->worker == c->hello.self) {
            continue;
        }
        const bool known = find(c->tender, m->worker) != NULL;
        struct want *w = want_get(c, m);

        if (w == NULL) {
            wants_unname(c->tender);
            return MU_ENOMEM;
        }
        if (!known) {
            wait_turn(c, w);
        }
        w->named = true;
        w->member = *m;
    }
    c->tender->goal = g->number;
    return MU_OK;
}

int comm_want(struct comm *c, const struct generation *g)
{
    int rc = comm_enter(c);

    if (rc == MU_OK) {
        pthread_mutex_lock(&c->lock);
        rc = name_all(c, g);
        pthread_mutex_unlock(&c->lock);
        tender_wake(c);
        comm_leave(c);
    }
    return rc;
}

/* Under c->lock. */
static uint64_t linked(const struct tender *t)
{
    for (const struct want *w = t->wants; w != NULL; w = w->next) {
        if (w->named && !w->linked) {
            return 0;
        }
    }
    return t->goal;
}

uint64_t comm_linked(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    const uint64_t number = linked(c->tender);

    pthread_mutex_unlock(&c->lock);
    return number;
}

uint32_t comm_unlinked(struct comm *c, uint64_t ms, wid *workers_out, uint32_t room)
{
    const uint64_t now_ns = wait_now_ns();
    uint32_t n = 0;

    pthread_mutex_lock(&c->lock);
    for (const struct want *w = c->tender->wants; w != NULL && n < room; w = w->next) {
        if (w->named && !w->linked && now_ns >= w->since_ns + ms * MS) {
            workers_out[n++] = w->member.worker;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

void wants_tell(struct comm *c)
{
    struct tender *t = c->tender;
    const uint64_t number = comm_linked(c);

    if (number == t->told) {
        return;
    }
    t->told = number;
    if (c->config.on_linked != NULL) {
        c->config.on_linked(c->config.arg);
    }
}
