#include "core/membership.h"

#include <stdlib.h>
#include <string.h>

int membership_open(const struct generation *g, struct membership **m_out)
{
    const size_t bytes = g->members_n * sizeof(*g->members);
    struct membership *m = malloc(sizeof(*m) + bytes);

    if (m == NULL) {
        return MU_ENOMEM;
    }
    m->refs = 1;
    m->g = *g;
    m->g.members = m->members;
    if (bytes > 0) {
        memcpy(m->members, g->members, bytes);
    }
    *m_out = m;
    return MU_OK;
}

struct membership *membership_keep(struct membership *m)
{
    if (m != NULL) {
        __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
    }
    return m;
}

void membership_close(struct membership *m)
{
    if (m != NULL && __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        free(m);
    }
}

uint32_t membership_rank(const struct membership *m, wid worker)
{
    for (uint32_t i = 0; i < m->g.members_n; i++) {
        if (m->members[i].worker == worker) {
            return i;
        }
    }
    return NO_RANK;
}

bool membership_has_newcomers(const struct membership *m)
{
    for (uint32_t i = 0; i < m->g.members_n; i++) {
        if ((m->members[i].flags & MEMBER_CAUGHT_UP) == 0) {
            return true;
        }
    }
    return false;
}
