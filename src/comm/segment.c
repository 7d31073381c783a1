#include "comm/segment.h"

#include "base/log.h"
#include "comm/fence.h"
#include "comm/memfd.h"
#include "comm/shm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* All atomic: segment_find() reads them while they move, and then looks again. */
struct entry {
    _Atomic uintptr_t base;
    _Atomic size_t bytes;
    _Atomic uint32_t id;
    _Atomic int fd;
};

/* Sorted by address. Writers hold the lock and make `version` odd while entries move. */
struct segments {
    pthread_mutex_t lock;
    _Atomic uint32_t version;
    _Atomic uint32_t n;
    _Atomic uint32_t hot; /* where the last one was found */
    uint32_t last_id;
    struct shm_board *board;
    struct entry entries[SEGMENTS_MAX];
};

static void entry_copy(struct entry *to, struct entry *from)
{
    atomic_store_explicit(&to->base, from->base, memory_order_relaxed);
    atomic_store_explicit(&to->bytes, from->bytes, memory_order_relaxed);
    atomic_store_explicit(&to->id, from->id, memory_order_relaxed);
    atomic_store_explicit(&to->fd, from->fd, memory_order_relaxed);
}

int segments_open(struct segments **segments_out)
{
    struct segments *s = calloc(1, sizeof(*s));
    int rc;

    if (s == NULL) {
        return MU_ENOMEM;
    }
    rc = shm_board_open(&s->board);
    if (rc != MU_OK) {
        free(s);
        return rc;
    }
    pthread_mutex_init(&s->lock, NULL);
    *segments_out = s;
    return MU_OK;
}

void segments_close(struct segments *s)
{
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        munmap((void *)s->entries[i].base, s->entries[i].bytes);
        close(s->entries[i].fd);
    }
    shm_board_close(s->board);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct shm_board *segments_board(struct segments *s)
{
    return s->board;
}

/* The number of entries below `base`. The lock is held. */
static uint32_t place_of(struct segments *s, uintptr_t base)
{
    uint32_t low = 0, high = s->n;

    while (low < high) {
        const uint32_t mid = (low + high) / 2;

        if (s->entries[mid].base < base) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static void change_begin(struct segments *s)
{
    atomic_store_explicit(&s->version, s->version + 1, memory_order_relaxed);
    fence_release();
}

static void change_end(struct segments *s)
{
    atomic_store_explicit(&s->version, s->version + 1, memory_order_release);
}

static void insert(struct segments *s, uintptr_t base, size_t bytes, int fd)
{
    const uint32_t at = place_of(s, base);
    struct entry new = {.base = base, .bytes = bytes, .id = s->last_id, .fd = fd};

    change_begin(s);
    for (uint32_t i = s->n; i > at; i--) {
        entry_copy(&s->entries[i], &s->entries[i - 1]);
    }
    entry_copy(&s->entries[at], &new);
    s->n++;
    change_end(s);
}

int segment_make(struct segments *s, size_t bytes, void **memory_out, uint32_t *id_out)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t rounded = (MAX(bytes, 1u) + page - 1) & ~(page - 1);
    void *memory;
    int fd, rc;

    if (bytes > (size_t)PTRDIFF_MAX - page) {
        return MU_ENOMEM;
    }
    rc = memfd_make("muster", rounded, &memory, &fd);
    if (rc != MU_OK) {
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    if (s->n == SEGMENTS_MAX || s->last_id == UINT32_MAX) {
        pthread_mutex_unlock(&s->lock);
        munmap(memory, rounded);
        close(fd);
        log_error("comm", "%d pieces of shared memory are in use: free some, or make them larger",
                  SEGMENTS_MAX);
        return MU_ELIMIT;
    }
    s->last_id++;
    insert(s, (uintptr_t)memory, rounded, fd);
    *id_out = s->last_id;
    pthread_mutex_unlock(&s->lock);
    *memory_out = memory;
    return MU_OK;
}

void segment_free(struct segments *s, void *memory)
{
    uint32_t at;
    size_t bytes;
    int fd;

    pthread_mutex_lock(&s->lock);
    at = place_of(s, (uintptr_t)memory);
    mu_assert(at < s->n && s->entries[at].base == (uintptr_t)memory);
    bytes = s->entries[at].bytes;
    fd = s->entries[at].fd;
    change_begin(s);
    for (uint32_t i = at + 1; i < s->n; i++) {
        entry_copy(&s->entries[i - 1], &s->entries[i]);
    }
    s->n--;
    change_end(s);
    pthread_mutex_unlock(&s->lock);
    munmap(memory, bytes);
    close(fd);
}

int segment_show(struct segments *s, const void *memory, size_t bytes, void *at)
{
    pthread_mutex_lock(&s->lock);
    const uint32_t at_entry = place_of(s, (uintptr_t)memory);
    const struct entry *e = &s->entries[at_entry];

    mu_assert(at_entry < s->n && e->base == (uintptr_t)memory && bytes <= e->bytes);
    const void *map = mmap(at, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, e->fd, 0);

    pthread_mutex_unlock(&s->lock);
    return map == MAP_FAILED ? MU_ENOMEM : MU_OK;
}

/* Whether the data lies in entry i, as far as can be seen without the lock. */
static bool lies_in(struct segments *s, uint32_t i, uintptr_t data, size_t bytes,
                    struct segment_ref *ref)
{
    const uintptr_t base = atomic_load_explicit(&s->entries[i].base, memory_order_relaxed);
    const size_t has = atomic_load_explicit(&s->entries[i].bytes, memory_order_relaxed);

    if (data < base || data - base > has || bytes > has - (data - base)) {
        return false;
    }
    ref->id = atomic_load_explicit(&s->entries[i].id, memory_order_relaxed);
    ref->offset = data - base;
    return true;
}

static bool look_up(struct segments *s, uintptr_t data, size_t bytes, struct segment_ref *ref)
{
    uint32_t low = 0, high = MIN(atomic_load_explicit(&s->n, memory_order_relaxed), SEGMENTS_MAX);
    uint32_t hot = atomic_load_explicit(&s->hot, memory_order_relaxed);

    if (hot < high && lies_in(s, hot, data, bytes, ref)) {
        return true;
    }
    while (low < high) {
        const uint32_t mid = (low + high) / 2;

        if (atomic_load_explicit(&s->entries[mid].base, memory_order_relaxed) <= data) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == 0 || !lies_in(s, low - 1, data, bytes, ref)) {
        return false;
    }
    atomic_store_explicit(&s->hot, low - 1, memory_order_relaxed);
    return true;
}

bool segment_find(struct segments *s, const void *data, size_t bytes, struct segment_ref *ref_out)
{
    for (;;) {
        const uint32_t version = atomic_load_explicit(&s->version, memory_order_acquire);
        struct segment_ref ref;
        const bool found = look_up(s, (uintptr_t)data, bytes, &ref);

        fence_acquire();
        if ((version & 1) == 0 &&
            version == atomic_load_explicit(&s->version, memory_order_relaxed)) {
            if (found) {
                *ref_out = ref;
            }
            return found;
        }
    }
}

int segment_each(struct segments *s, uint32_t after, segment_fn *fn, void *arg)
{
    int rc = MU_OK;

    pthread_mutex_lock(&s->lock);
    while (rc == MU_OK) {
        struct entry *next = NULL;

        for (uint32_t i = 0; i < s->n; i++) {
            struct entry *e = &s->entries[i];

            if (e->id > after && (next == NULL || e->id < next->id)) {
                next = e;
            }
        }
        if (next == NULL) {
            break;
        }
        after = next->id;
        rc = fn(arg, next->id, next->fd, next->bytes);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}
