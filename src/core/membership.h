/* A generation that several parts of a process look at: made once, never changed, freed with the
 * last reference. Counting is safe from any thread. */
#ifndef CORE_MEMBERSHIP_H
#define CORE_MEMBERSHIP_H

#include "core/message.h"

#define NO_RANK UINT32_MAX

struct membership {
    uint32_t refs;
    struct generation g; /* g.members points to what follows */
    struct member members[];
};

/* A copy of g, with one reference, the caller's. MU_ENOMEM. */
int membership_open(const struct generation *g, struct membership **m_out);
/* One reference more; NULL is fine. Gives m. */
struct membership *membership_keep(struct membership *m);
/* One less; NULL is fine. */
void membership_close(struct membership *m);

/* Where this worker is in it; NO_RANK: it is not. */
uint32_t membership_rank(const struct membership *m, wid worker);
bool membership_has_newcomers(const struct membership *m);

#endif
