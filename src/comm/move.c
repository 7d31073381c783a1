/* From one term to the next. Links are the workers', not the group's: those between members
 * of both are only numbered anew. Then each side proves to each other one that it knows the
 * generation's key, and the move is over when all have. */
#include "comm/links.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- one member ---- */

static void say_proof(struct comm *c, struct link *l)
{
    const struct comm_group *g = &c->group;
    uint8_t proof[HELLO_PROOF_BYTES];

    hello_proof(&c->hello, &l->session, g->number, g->of->g.key, c->hello.self, g->me,
                l->session.peer, l->rank, proof);
    if (l->ops->prove(l, g->number, proof) == MU_OK) {
        l->said = g->number;
    }
}

/* MU_OK: it has proved that it is in this term; MU_EAGAIN: not yet; MU_EPEER: it never will, for it
 * is in a newer one. */
static int check_claim(struct comm *c, struct link *l)
{
    const struct comm_group *g = &c->group;
    uint8_t right[HELLO_PROOF_BYTES], proof[HELLO_PROOF_BYTES];
    char who[WID_TEXT_MAX];

    if (l->proved == g->number) {
        return MU_OK;
    }
    pthread_mutex_lock(&c->lock);
    const uint64_t claim = l->claim;

    memcpy(proof, l->claim_proof, sizeof(proof));
    pthread_mutex_unlock(&c->lock);
    if (claim != g->number) {
        return claim > g->number ? MU_EPEER : MU_EAGAIN;
    }
    hello_proof(&c->hello, &l->session, g->number, g->of->g.key, l->session.peer, l->rank,
                c->hello.self, g->me, right);
    if (!hello_equal(right, proof)) {
        pthread_mutex_lock(&c->lock);
        c->stats.refused_n++;
        pthread_mutex_unlock(&c->lock);
        link_lose(l, MU_EREFUSED, "it does not know the key of the generation that it claims");
        return MU_EAGAIN;
    }
    log_write(l->proved == 0 ? LOG_INFO : LOG_DEBUG, "comm",
              "rank %" PRIu32 ", worker %s, by %s (%s)", l->rank, wid_print(l->session.peer, who),
              l->where, l->proved == 0 ? "new" : "kept");
    l->proved = g->number;
    return MU_OK;
}

/* The link to this rank, if there is one; the higher rank dials. */
static struct link *seek(struct comm *c, uint32_t rank)
{
    struct comm_group *g = &c->group;
    struct link *l = g->links[rank];

    if (l != NULL && atomic_load(&l->lost) != MU_OK) {
        g->links[rank] = NULL;
        link_put_away(c, l);
        l = NULL;
    }
    if (l == NULL) {
        pthread_mutex_lock(&c->lock);
        l = group_find(c, g->members[rank].worker);
        if (l != NULL) {
            group_adopt(c, rank, l);
        }
        pthread_mutex_unlock(&c->lock);
    }
    if (l == NULL && rank < g->me) {
        (void)links_seek(c, &g->members[rank]);
    }
    return l;
}

static int meet(struct comm *c, uint32_t rank)
{
    struct link *l = seek(c, rank);
    struct note note;

    if (l == NULL) {
        return MU_EAGAIN;
    }
    if (l->said != c->group.number) {
        say_proof(c, l);
    }
    const bool busy = l->ops->flush(l) == MU_EAGAIN || l->said != c->group.number;

    /* By TCP claims come among the notes. */
    (void)l->ops->head(l, &note);
    const int rc = check_claim(c, l);

    if (rc == MU_OK && !busy) {
        return atomic_load(&l->lost) == MU_OK ? MU_OK : MU_EAGAIN;
    }
    l->ops->await(l, rc != MU_OK && l->path == COMM_TCP, busy, &c->waiter);
    return rc == MU_OK ? MU_EAGAIN : rc;
}

/* ---- all of them ---- */

/* *missing is the first who is not there yet, or who never will be. */
static int meet_all(struct comm *c, uint32_t *missing)
{
    const struct comm_group *g = &c->group;
    int rc = MU_OK;

    for (uint32_t r = 0; r < g->n; r++) {
        const int one = r == g->me ? MU_OK : meet(c, r);

        if (one != MU_OK && rc != MU_EPEER && (rc == MU_OK || one == MU_EPEER)) {
            *missing = r;
            rc = one;
        }
    }
    return rc;
}

static int move_run(struct comm *c, uint64_t due_ns, uint32_t *missing)
{
    wait_begin(&c->waiter, c);
    for (;;) {
        int rc = meet_all(c, missing);

        if (rc != MU_EAGAIN) {
            return rc;
        }
        if (atomic_load(&c->closing)) {
            return MU_EDONE;
        }
        if (atomic_load(&c->fence) > c->group.number) {
            return MU_EPEER;
        }
        rc = wait_for(&c->waiter, due_ns);
        if (rc != MU_OK) {
            return rc;
        }
    }
}

static void settle(struct comm *c, int rc, uint32_t missing)
{
    struct comm_group *g = &c->group;
    char who[WID_TEXT_MAX];
    struct comm_stats stats;

    if (rc == MU_OK) {
        g->broken = g->entered ? g->broken : MU_OK;
        g->entered = true;
        comm_stats(c, &stats);
        log_info("comm",
                 "generation %" PRIu64 ", round %" PRIu32 ": rank %" PRIu32 " of %" PRIu32
                 "; links: %" PRIu64 " by shm, %" PRIu64 " by tcp",
                 term_generation(g->number), term_round(g->number), g->me, g->n, stats.shm_links,
                 stats.tcp_links);
        return;
    }
    g->broken = MU_EPEER;
    g->broken_by = missing;
    snprintf(g->broken_why, sizeof(g->broken_why),
             "worker %s (rank %" PRIu32 ") has not come to generation %" PRIu64 ", round %" PRIu32,
             wid_print(g->members[missing].worker, who), missing, term_generation(g->number),
             term_round(g->number));
    /* Whoever waits tries again and again. */
    log_write(rc == MU_ETIMEDOUT ? LOG_DEBUG : LOG_INFO, "comm", "%s: %s", g->broken_why,
              mu_strerror(rc));
}

/* The engine is held. */
static int move_to(struct comm *c, struct membership *to, uint64_t term, uint32_t me,
                   uint64_t due_ns, wid *missing_out)
{
    struct comm_group g;
    uint32_t missing = me;
    int rc;

    if (term > c->group.number) {
        rc = group_make(to, term, me, &g);
        if (rc != MU_OK) {
            return rc;
        }
        group_set(c, &g);
    }
    rc = move_run(c, due_ns, &missing);
    links_forget(c);
    settle(c, rc, missing);
    if ((rc == MU_ETIMEDOUT || rc == MU_EPEER) && missing_out != NULL) {
        *missing_out = c->group.members[missing].worker;
    }
    return rc;
}

/* Where this worker is in it. */
static int find_self(struct comm *c, const struct membership *m, uint64_t term, uint32_t *me_out)
{
    int rc = m->g.number == 0 || m->g.run != c->config.run ? MU_EINVAL : MU_OK;

    pthread_mutex_lock(&c->lock);
    *me_out = membership_rank(m, c->hello.self);
    if (term < c->group.number) {
        rc = MU_ESTALE;
    } else if (*me_out == NO_RANK ||
               (m->g.number == term_generation(c->group.number) && m->g.members_n != c->group.n)) {
        rc = MU_EINVAL; /* One number names one membership. */
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

int comm_move(struct comm *c, struct membership *m, uint32_t round, int64_t timeout_ms,
              wid *missing_out)
{
    const uint64_t term = term_make(m->g.number, round);
    const uint64_t due_ns = group_due_ns(timeout_ms);
    uint32_t me;
    int rc = comm_enter(c);

    if (rc != MU_OK) {
        return rc;
    }
    rc = find_self(c, m, term, &me);
    if (rc == MU_OK) {
        fence_at(c, term); /* Whoever makes a call in an older one gives up the engine. */
        pthread_mutex_lock(&c->engine);
        rc = find_self(c, m, term, &me); /* It may have moved meanwhile, or have another name. */
        rc = rc == MU_OK ? move_to(c, m, term, me, due_ns, missing_out) : rc;
        pthread_mutex_unlock(&c->engine);
    }
    comm_leave(c);
    return rc;
}
