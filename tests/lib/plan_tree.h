#ifndef LIB_PLAN_TREE_H
#define LIB_PLAN_TREE_H

#include "core/plan.h"

/* The order in which partial sums combine, for models and references in tests: a walk of the tree
 * under `root` in post-order, as steps of a stack machine. Each plan_tree_next sets `node`; `add`
 * false says "push the sum of node", true says "pop the right sum, add it to the left one below it,
 * which then is the sum of node". After the last step the stack holds the sum of root alone; it
 * never holds more than PLAN_TREE_DEPTH.
 *
 *   plan_tree_init(&t, (struct subtree){0, S});
 *   while (plan_tree_next(&t, plan)) {
 *       if (t.add) { n--; add(stack[n - 1], stack[n]); } else { fetch(stack[n++], t.node); }
 *   }
 *
 * With a plan the leaves are its ranks' subtrees; with plan = NULL they are single slices: so
 * a rank folds its own. The additions inside the leaves and those here are, together, always the
 * same ones. */
#define PLAN_TREE_DEPTH 11

struct plan_tree {
    struct subtree root;
    struct subtree node;
    bool add;
};

void plan_tree_init(struct plan_tree *tree, struct subtree root);
bool plan_tree_next(struct plan_tree *tree, const struct plan *plan);

#endif
