/* The group as a list of members with their links: made, changed for another, freed. */
#include "comm/links.h"

#include <stdlib.h>

void group_free(struct comm_group *g)
{
    membership_close(g->of);
    free(g->links);
    free(g->sends);
    free(g->recvs);
}

int group_make(struct membership *of, uint64_t term, uint32_t me, struct comm_group *g_out)
{
    struct comm_group g = {.number = term,
                           .of = membership_keep(of),
                           .n = of->g.members_n,
                           .me = me,
                           .members = of->members,
                           .broken_by = COMM_NOBODY};

    g.links = calloc(g.n, sizeof(struct link *));
    g.sends = calloc(g.n, sizeof(*g.sends));
    g.recvs = calloc(g.n, sizeof(*g.recvs));
    if (g.links == NULL || g.sends == NULL || g.recvs == NULL) {
        group_free(&g);
        return MU_ENOMEM;
    }
    *g_out = g;
    return MU_OK;
}

void group_adopt(struct comm *c, uint32_t rank, struct link *l)
{
    l->rank = rank;
    l->in_group = true;
    c->group.links[rank] = l;
}

/* It was in the group before, and has no rank in this one. */
static bool is_left(const struct link *l)
{
    return l->in_group && l->rank == UINT32_MAX;
}

void group_set(struct comm *c, const struct comm_group *g)
{
    struct comm_group old;

    /* Those who are late with the last call of the old group get nothing more of it. */
    for (uint32_t r = 0; r < c->group.n; r++) {
        if (c->group.links[r] != NULL) {
            c->group.links[r]->ops->drop(c->group.links[r]);
        }
    }
    views_abandon(c);
    exchange_forget(c);
    pthread_mutex_lock(&c->lock);
    old = c->group;
    c->group = *g;
    for (struct link *l = c->links; l != NULL; l = l->next) {
        l->rank = UINT32_MAX;
    }
    for (uint32_t r = 0; r < g->n; r++) {
        struct link *l = r == g->me ? NULL : group_find(c, g->members[r].worker);

        if (l != NULL) {
            c->stats.kept_n += l->in_group;
            group_adopt(c, r, l);
        }
    }
    pthread_mutex_unlock(&c->lock);
    links_put_away(c, is_left);
    group_free(&old);
}

/* A link that is lost is seen by whoever needs it. */
bool group_flush(struct comm *c)
{
    const struct comm_group *g = &c->group;
    bool left = false;

    for (uint32_t r = 0; r < g->n; r++) {
        struct link *l = r != g->me ? g->links[r] : NULL;

        left |= l != NULL && l->ops->flush(l) == MU_EAGAIN;
    }
    return left;
}
