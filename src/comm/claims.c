/* What peers say of themselves, and how links are lost. */
#include "comm/links.h"

#include <string.h>

/* Whoever is refused may go on asking, and whole racks are lost at once: at most a line a second.
 */
static void log_loss(struct link *l, int status, const char *why)
{
    struct tended *k = l->comm->tended;
    char who[WID_TEXT_MAX], more[LOG_PACE_TEXT];
    const bool ours = status == MU_EPEER; /* the others are its fault */

    pthread_mutex_lock(&k->pace_lock);
    const bool now = log_pace_take(&k->lost_pace, clock_ns() / MS, more);

    pthread_mutex_unlock(&k->pace_lock);
    if (now) {
        log_write(ours ? LOG_INFO : LOG_WARN, "comm", "the link to worker %s by %s is lost: %s%s",
                  wid_print(l->session.peer, who), l->where, why, more);
    }
}

void link_lose(struct link *l, int status, const char *why)
{
    struct comm *c = l->comm;
    int none = MU_OK;

    mu_assert(status != MU_OK);
    if (!atomic_compare_exchange_strong(&l->lost, &none, status)) {
        return;
    }
    if (l->id == 0) {
        return; /* It is being made, and by whoever sees to it. */
    }
    (void)shutdown(l->fd, SHUT_RDWR);
    log_loss(l, status, why);
    links_wake(c);
    comm_ring(c);
}

static bool is_member(const struct comm_group *g, wid worker)
{
    return g->of != NULL && membership_rank(g->of, worker) != NO_RANK;
}

void link_claim(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES])
{
    struct comm *c = l->comm;

    pthread_mutex_lock(&c->lock);
    if (generation < c->group.number) {
        c->stats.refused_n++;
        /* A member that is late comes again with the newer one. */
        if (!is_member(&c->group, l->session.peer)) {
            link_lose(l, MU_ESTALE, "it is in a generation that is no longer current");
        }
    } else if (generation == c->group.number && !is_member(&c->group, l->session.peer)) {
        c->stats.refused_n++;
        link_lose(l, MU_EREFUSED, "it is not in the generation that it says it is in");
    } else if (generation >= l->claim) {
        l->claim = generation;
        memcpy(l->claim_proof, proof, HELLO_PROOF_BYTES);
    }
    pthread_mutex_unlock(&c->lock);
    comm_ring(c);
}
