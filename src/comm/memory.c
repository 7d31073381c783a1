/* Memory that peers on this host can see: they are told of each piece as it comes and goes. */
#include "comm/tender.h"

/* Those of one list and one lock: a link that is made meanwhile either is told here, or was told of
 * all there are when it was made (tender_link.c). */
void *comm_alloc(struct comm *c, size_t bytes)
{
    void *memory;
    uint32_t id;

    pthread_mutex_lock(&c->lock);
    const int rc = segment_make(c->segments, bytes, &memory, &id);

    if (rc == MU_OK) {
        for (struct link *l = c->links; l != NULL; l = l->next) {
            if (l->path == COMM_SHM && atomic_load(&l->lost) == MU_OK) {
                shm_link_tell(l, id);
            }
        }
    }
    pthread_mutex_unlock(&c->lock);
    if (rc != MU_OK) {
        log_error("comm", "can't make shared memory of %zu bytes: %s", bytes, mu_strerror(rc));
        return NULL;
    }
    tender_wake(c);
    return memory;
}

void comm_free(struct comm *c, void *memory)
{
    struct segment_ref ref;

    if (memory == NULL) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    mu_assert(segment_find(c->segments, memory, 1, &ref) && ref.offset == 0);
    segment_free(c->segments, memory);
    for (struct link *l = c->links; l != NULL; l = l->next) {
        if (l->path == COMM_SHM && atomic_load(&l->lost) == MU_OK) {
            shm_link_tell_gone(l, ref.id);
        }
    }
    pthread_mutex_unlock(&c->lock);
    tender_wake(c);
}
