/* Memory that peers on this host can see: they are told of each piece as it comes and goes. */
#include "comm/links.h"

/* Making and freeing may take long, so only the telling is done under the lock. A link that is made
 * meanwhile was told of all there were by then; to hear of one twice, or of the end of one that it
 * never knew, does it no harm. */
static void tell_all(struct comm *c, void (*tell)(struct link *l, uint32_t segment), uint32_t id)
{
    pthread_mutex_lock(&c->lock);
    for (struct link *l = c->links; l != NULL; l = l->next) {
        if (l->path == COMM_SHM && atomic_load(&l->lost) == MU_OK) {
            tell(l, id);
        }
    }
    pthread_mutex_unlock(&c->lock);
    links_wake(c);
}

void *comm_alloc(struct comm *c, size_t bytes)
{
    void *memory;
    uint32_t id;
    const int rc = segment_make(c->segments, bytes, &memory, &id);

    if (rc != MU_OK) {
        log_error("comm", "can't make shared memory of %zu bytes: %s", bytes, mu_strerror(rc));
        return NULL;
    }
    tell_all(c, shm_link_tell, id);
    return memory;
}

void comm_free(struct comm *c, void *memory)
{
    struct segment_ref ref;

    if (memory == NULL) {
        return;
    }
    const bool found = segment_find(c->segments, memory, 1, &ref);

    mu_assert(found && ref.offset == 0);
    segment_free(c->segments, memory);
    tell_all(c, shm_link_tell_gone, ref.id);
}
