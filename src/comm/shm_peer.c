#include "comm/memfd.h"
#include "comm/shm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void shm_peer_init(struct shm_peer *p)
{
    pthread_mutex_init(&p->lock, NULL);
}

static void unmap(struct shm_segment *s)
{
    munmap((void *)(uintptr_t)s->map, s->bytes);
    close(s->fd);
}

void shm_peer_close(struct shm_peer *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        unmap(&p->segments[i]);
    }
    free(p->segments);
    pthread_mutex_destroy(&p->lock);
}

/* The first with this id or a larger one. The lock is held. */
static uint32_t place_of(const struct shm_peer *p, uint32_t id)
{
    uint32_t low = 0, high = p->n;

    while (low < high) {
        const uint32_t mid = (low + high) / 2;

        if (p->segments[mid].id < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static struct shm_segment *find(struct shm_peer *p, uint32_t id)
{
    const uint32_t i = place_of(p, id);

    return i < p->n && p->segments[i].id == id ? &p->segments[i] : NULL;
}

static int room_for_one(struct shm_peer *p)
{
    if (p->n == p->cap) {
        const uint32_t cap = p->cap == 0 ? 16 : 2 * p->cap;
        struct shm_segment *more = realloc(p->segments, cap * sizeof(*more));

        if (more == NULL) {
            return MU_ENOMEM;
        }
        p->segments = more;
        p->cap = cap;
    }
    return MU_OK;
}

static int append(struct shm_peer *p, const struct shm_segment *s, const char **why_out)
{
    if (s->id <= p->last_id) {
        *why_out = "the number of its shared memory is not a new one";
        return MU_EPROTO;
    }
    if (p->n - p->gone_n >= SEGMENTS_MAX) {
        *why_out = "it shares more pieces of memory than allowed";
        return MU_EPROTO;
    }
    if (room_for_one(p) != MU_OK) {
        *why_out = "out of memory";
        return MU_ENOMEM;
    }
    p->segments[p->n++] = *s;
    p->last_id = s->id;
    return MU_OK;
}

int shm_peer_add(struct shm_peer *p, uint32_t id, int fd, size_t bytes, const char **why_out)
{
    struct shm_segment s = {.id = id, .fd = fd, .bytes = bytes};
    void *map;
    int rc;

    if (bytes == 0) {
        *why_out = "its shared memory has no length";
        return MU_EPROTO;
    }
    rc = memfd_check(fd, bytes, why_out);
    if (rc != MU_OK) {
        return rc;
    }
    map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        *why_out = "its shared memory can't be mapped";
        return MU_ENOMEM;
    }
    s.map = map;
    pthread_mutex_lock(&p->lock);
    rc = append(p, &s, why_out);
    pthread_mutex_unlock(&p->lock);
    if (rc != MU_OK) {
        munmap(map, bytes);
    }
    return rc;
}

static void forget(struct shm_peer *p, struct shm_segment *s)
{
    unmap(s);
    memmove(s, s + 1, (size_t)(p->segments + p->n - (s + 1)) * sizeof(*s));
    p->n--;
}

void shm_peer_gone(struct shm_peer *p, uint32_t id)
{
    struct shm_segment *s;

    pthread_mutex_lock(&p->lock);
    s = find(p, id);
    if (s != NULL && !s->used) {
        forget(p, s);
    } else if (s != NULL && !s->gone) {
        s->gone = true;
        p->gone_n++;
        atomic_store(&p->sweep, true);
    }
    pthread_mutex_unlock(&p->lock);
}

int shm_peer_find(struct shm_peer *p, uint32_t id, const uint8_t **map_out, size_t *bytes_out)
{
    struct shm_segment *hot = &p->hot[id % SHM_HOT];
    int rc = MU_OK;

    if (hot->id != id) {
        struct shm_segment *s;

        pthread_mutex_lock(&p->lock);
        s = find(p, id);
        if (s != NULL) {
            s->used = true;
            *hot = *s;
        } else {
            rc = id > p->last_id ? MU_EAGAIN : MU_ENOENT;
        }
        pthread_mutex_unlock(&p->lock);
    }
    if (rc == MU_OK) {
        *map_out = hot->map;
        *bytes_out = hot->bytes;
    }
    return rc;
}

void shm_peer_sweep(struct shm_peer *p)
{
    pthread_mutex_lock(&p->lock);
    memset(p->hot, 0, sizeof(p->hot));
    for (uint32_t i = p->n; i > 0; i--) {
        if (p->segments[i - 1].gone) {
            forget(p, &p->segments[i - 1]);
        }
    }
    p->gone_n = 0;
    atomic_store(&p->sweep, false);
    pthread_mutex_unlock(&p->lock);
}

int shm_map_at(struct link *l, uint32_t segment, uint64_t offset, size_t bytes, void *at)
{
    struct shm_link *s = shm_of(l);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint8_t *map;
    size_t has;
    int rc = shm_peer_find(&s->peer, segment, &map, &has);

    if (rc != MU_OK) {
        return rc == MU_ENOENT ? MU_EPEER : rc;
    }
    if (bytes == 0 || offset % page != 0 || (uintptr_t)at % page != 0 || offset > has ||
        bytes > has - offset) {
        return MU_EINVAL;
    }
    /* The engine's copy has the fd, which stays open until the engine itself sweeps. */
    return mmap(at, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, s->peer.hot[segment % SHM_HOT].fd,
                (off_t)offset) == MAP_FAILED
               ? MU_ENOMEM
               : MU_OK;
}
