/* What anybody may ask of the group, or tell it. */
#include "comm/links.h"
#include "core/membership.h"

#include <openssl/evp.h>
#include <string.h>

#define SECRET_WORDS "muster group secret 1"

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

static void raise_to(_Atomic uint64_t *number, uint64_t to)
{
    uint64_t now = atomic_load(number);

    while (now < to && !atomic_compare_exchange_weak(number, &now, to)) {
    }
}

void fence_at(struct comm *c, uint64_t term)
{
    raise_to(&c->fence, term);
    comm_ring(c);
}

void comm_fence(struct comm *c, uint64_t generation)
{
    fence_at(c, term_make(generation, 0));
}

void comm_newest(struct comm *c, uint64_t generation)
{
    raise_to(&c->newest, generation);
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
    return tender_address(c->tender);
}

static pthread_mutex_t *lock_of(const struct comm *c)
{
    return (pthread_mutex_t *)(uintptr_t)&c->lock;
}

wid comm_self(const struct comm *c)
{
    pthread_mutex_lock(lock_of(c));
    const wid self = c->hello.self;

    pthread_mutex_unlock(lock_of(c));
    return self;
}

uint64_t comm_generation(const struct comm *c)
{
    pthread_mutex_lock(lock_of(c));
    const uint64_t number = c->group.number;

    pthread_mutex_unlock(lock_of(c));
    return term_generation(number);
}

/* The key is random: this is HKDF's second half, one block of it. */
int comm_secret(struct comm *c, uint64_t generation, const char *label, uint8_t out[KEY_BYTES])
{
    uint8_t info[sizeof(SECRET_WORDS) + COMM_LABEL_MAX + 1];
    size_t label_n = strlen(label), n = 0;
    int rc = MU_EPEER;

    mu_assert(label_n <= COMM_LABEL_MAX);
    memcpy(info, SECRET_WORDS, sizeof(SECRET_WORDS));
    memcpy(info + sizeof(SECRET_WORDS), label, label_n);
    info[sizeof(SECRET_WORDS) + label_n] = 1;
    pthread_mutex_lock(&c->lock);
    if (c->group.of != NULL && term_generation(c->group.number) == generation) {
        mu_assert(EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, c->group.of->g.key, KEY_BYTES, info,
                            sizeof(SECRET_WORDS) + label_n + 1, out, KEY_BYTES, &n) != NULL);
        mu_assert(n == KEY_BYTES);
        rc = MU_OK;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

uint64_t comm_claim(struct comm *c)
{
    uint64_t claim = 0;

    pthread_mutex_lock(&c->lock);
    for (const struct link *l = c->links; l != NULL; l = l->next) {
        if (l->in_group && l->rank != UINT32_MAX && atomic_load(&l->lost) == MU_OK) {
            claim = MAX(claim, l->claim);
        }
    }
    claim = claim > c->group.number ? claim : 0;
    pthread_mutex_unlock(&c->lock);
    return claim;
}

bool comm_has_link(struct comm *c, wid worker)
{
    pthread_mutex_lock(&c->lock);
    const bool there = group_find(c, worker) != NULL;

    pthread_mutex_unlock(&c->lock);
    return there;
}

uint32_t comm_changes(const struct comm *c)
{
    return atomic_load(&c->alarm);
}

bool comm_is_fenced(const struct comm *c)
{
    return term_generation(atomic_load(&c->fence)) > comm_generation(c);
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
    uint64_t refused_n;

    pthread_mutex_lock(&c->lock);
    stats = c->stats;
    tender_counts(c->tender, &refused_n, &stats.timed_out_n);
    stats.refused_n += refused_n;
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

uint64_t group_due_ns(int64_t timeout_ms)
{
    const uint64_t now_ns = clock_ns();

    if (timeout_ms < 0 || (uint64_t)timeout_ms > (UINT64_MAX - now_ns) / MS) {
        return UINT64_MAX;
    }
    return now_ns + (uint64_t)timeout_ms * MS;
}
