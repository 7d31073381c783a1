/* Who computes which slice: a pure function of the number of slices S, the number of ranks N and,
 * after a loss, of the slices whose gradients the ranks already hold.
 *
 * plan_init: every rank has one contiguous range, in the order of ranks, cut into whole subtrees.
 * If S >= 8N a rank has at most PLAN_SUBTREES_MAX subtrees and at most 1.125 * S/N slices;
 * otherwise at most ceil(S/N) slices. Ranks from S on have nothing; of the others each has some.
 *
 * plan_regroup: held slices stay where they are and only the missing ones are shared out, so a
 * rank's slices need be neither contiguous nor few subtrees.
 *
 * Either way the sum is folded along the same tree, so its bits depend on S alone. */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include "core/slices.h"

#define PLAN_RANKS_MAX MEMBERS_MAX
#define PLAN_SUBTREES_MAX 4

/* In the caller's storage; plain data, copied by assignment. */
struct plan {
    uint32_t slices_n;
    uint32_t ranks_n;
    uint32_t owner[SLICES_MAX]; /* rank by slice, the first slices_n of them */
};

/* A rank's share: its lowest slice and how many it has; first = 0 when it has none. */
struct plan_share {
    uint32_t first;
    uint32_t n;
};

/* MU_EINVAL unless S is a power of two in [1, 1024] and N in [1, PLAN_RANKS_MAX]. */
int plan_init(struct plan *plan, uint32_t slices_n, uint32_t ranks_n);

/* The plan of a new generation inside a step. held[r] (ranks_n of them, borrowed for the call) are
 * the slices whose gradient rank r already has; bits from S on are ignored. A slice held by several
 * stays with the lowest. The missing ones are the work that remains: no two ranks get numbers of
 * them that differ by more than one, the odd ones going to those that keep the fewest, then to the
 * lowest rank; each gets a run of them in slice order. MU_EINVAL as plan_init. */
int plan_regroup(struct plan *plan, uint32_t slices_n, uint32_t ranks_n, const struct slices *held);

/* The rank that has this slice; slice < S. */
uint32_t plan_rank(const struct plan *plan, uint32_t slice);

struct plan_share plan_share(const struct plan *plan, uint32_t rank);

void plan_slices(const struct plan *plan, uint32_t rank, struct slices *out);

/* Lists one rank's subtrees in order: begin with from = 0, go on with from = out->lo + out->width.
 * False, and *out untouched, after the last. */
bool plan_next_subtree(const struct plan *plan, uint32_t rank, uint32_t from, struct subtree *out);

/* Lists the subtrees of all ranks in slice order; out->lo's rank has the whole of it. */
bool plan_next_subtree_any(const struct plan *plan, uint32_t from, struct subtree *out);

#endif
