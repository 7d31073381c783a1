/* What anybody may ask of the group, or tell it. */
#include "comm/tender.h"

#include <errno.h>
#include <time.h>

int comm_enter(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    const bool closing = atomic_load(&c->closing);

    c->inside_n += !closing;
    pthread_mutex_unlock(&c->lock);
    return closing ? MU_EDONE : MU_OK;
}

void comm_leave(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    if (--c->inside_n == 0) {
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
}

/* Those on `changed` look at what changes under the lock only, so it need not be held here. */
void comm_ring(struct comm *c)
{
    wait_ring(&c->alarm, c->alarm_fd);
    pthread_cond_broadcast(&c->changed);
}

void comm_fence(struct comm *c, uint64_t generation)
{
    uint64_t fence = atomic_load(&c->fence);

    while (fence < generation && !atomic_compare_exchange_weak(&c->fence, &fence, generation)) {
    }
    comm_ring(c);
}

void comm_newest(struct comm *c, uint64_t generation)
{
    uint64_t newest = atomic_load(&c->newest);

    while (newest < generation && !atomic_compare_exchange_weak(&c->newest, &newest, generation)) {
    }
}

struct link *group_find(struct comm *c, wid worker)
{
    for (struct link *l = c->links; l != NULL; l = l->next) {
        if (l->session.peer == worker && atomic_load(&l->lost) == MU_OK) {
            return l;
        }
    }
    return NULL;
}

const char *comm_address(const struct comm *c)
{
    return c->address;
}

static pthread_mutex_t *lock_of(const struct comm *c)
{
    return (pthread_mutex_t *)(uintptr_t)&c->lock;
}

uint64_t comm_generation(const struct comm *c)
{
    pthread_mutex_lock(lock_of(c));
    const uint64_t number = c->group.number;

    pthread_mutex_unlock(lock_of(c));
    return number;
}

uint32_t comm_rank(const struct comm *c)
{
    pthread_mutex_lock(lock_of(c));
    const uint32_t rank = c->group.number > 0 ? c->group.me : COMM_NOBODY;

    pthread_mutex_unlock(lock_of(c));
    return rank;
}

uint32_t comm_size(const struct comm *c)
{
    pthread_mutex_lock(lock_of(c));
    const uint32_t size = c->group.n;

    pthread_mutex_unlock(lock_of(c));
    return size;
}

wid comm_worker(const struct comm *c, uint32_t rank)
{
    pthread_mutex_lock(lock_of(c));
    const wid worker = rank < c->group.n ? c->group.members[rank].worker : 0;

    pthread_mutex_unlock(lock_of(c));
    return worker;
}

void comm_stats(struct comm *c, struct comm_stats *stats_out)
{
    struct comm_stats stats;

    pthread_mutex_lock(&c->lock);
    stats = c->stats;
    stats.shm_links = stats.tcp_links = 0;
    for (const struct link *l = c->links; l != NULL; l = l->next) {
        const bool lives = atomic_load(&l->lost) == MU_OK;

        stats.shm_links += lives && l->path == COMM_SHM;
        stats.tcp_links += lives && l->path == COMM_TCP;
        stats.lost_n += !lives && !l->counted;
    }
    pthread_mutex_unlock(&c->lock);
    *stats_out = stats;
}

/* ---- probing ---- */

uint64_t group_due_ns(int64_t timeout_ms)
{
    const uint64_t now_ns = wait_now_ns();

    if (timeout_ms < 0 || (uint64_t)timeout_ms > (UINT64_MAX - now_ns) / MS) {
        return UINT64_MAX;
    }
    return now_ns + (uint64_t)timeout_ms * MS;
}

/* Under c->lock, on the monotonic clock. False: it is too late. */
static bool wait_changed(struct comm *c, uint64_t due_ns)
{
    if (due_ns == UINT64_MAX) {
        pthread_cond_wait(&c->changed, &c->lock);
        return true;
    }
    const struct timespec due = {.tv_sec = (time_t)(due_ns / 1000000000u),
                                 .tv_nsec = (long)(due_ns % 1000000000u)};

    return pthread_cond_timedwait(&c->changed, &c->lock, &due) != ETIMEDOUT;
}

/* Waits until there is a link to each; else *missing is the first without. Under c->lock. */
static int wait_linked(struct comm *c, const struct generation *g, wid self, uint64_t due_ns,
                       const struct member **missing)
{
    for (;;) {
        *missing = NULL;
        for (uint32_t r = 0; r < g->members_n && *missing == NULL; r++) {
            const struct member *m = &g->members[r];

            if (m->worker != self && group_find(c, m->worker) == NULL) {
                *missing = m;
            }
        }
        if (*missing == NULL) {
            return MU_OK;
        }
        if (atomic_load(&c->closing)) {
            return MU_EDONE;
        }
        if (!wait_changed(c, due_ns) && wait_now_ns() >= due_ns) {
            return MU_ETIMEDOUT;
        }
    }
}

/* Those before `n`, but not this worker itself. */
static void forget_all(struct comm *c, const struct generation *g, wid self, uint32_t n)
{
    while (n-- > 0) {
        if (g->members[n].worker != self) {
            tender_forget(c, g->members[n].worker);
        }
    }
}

static int probe_all(struct comm *c, const struct generation *g, uint64_t due_ns, wid *missing_out)
{
    const struct member *missing = NULL;
    uint32_t n = 0;
    int rc = MU_OK;

    pthread_mutex_lock(&c->lock);
    const wid self = c->hello.self;

    pthread_mutex_unlock(&c->lock);
    while (n < g->members_n) {
        rc = g->members[n].worker == self ? MU_OK : tender_want(c, &g->members[n]);
        if (rc != MU_OK) {
            goto err_wants;
        }
        n++;
    }
    pthread_mutex_lock(&c->lock);
    rc = wait_linked(c, g, self, due_ns, &missing);
    pthread_mutex_unlock(&c->lock);
    if (rc == MU_ETIMEDOUT && missing_out != NULL) {
        *missing_out = missing->worker;
    }
err_wants:
    forget_all(c, g, self, n);
    return rc;
}

int comm_probe(struct comm *c, const struct generation *g, int64_t timeout_ms, wid *missing_out)
{
    const uint64_t due_ns = group_due_ns(timeout_ms);
    int rc = comm_enter(c);

    if (rc == MU_OK) {
        rc = probe_all(c, g, due_ns, missing_out);
        comm_leave(c);
    }
    return rc;
}
