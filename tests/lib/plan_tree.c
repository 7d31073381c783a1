#include "lib/plan_tree.h"

void plan_tree_init(struct plan_tree *tree, struct subtree root)
{
    *tree = (struct plan_tree){.root = root, .node = {root.lo, 0}};
}

/* A right child that is done completes its parent; after a left one comes the leaf beside it. */
bool plan_tree_next(struct plan_tree *tree, const struct plan *plan)
{
    struct subtree *node = &tree->node;

    if (node->width == tree->root.width) {
        return false;
    }
    tree->add = (node->lo & node->width) != 0;
    if (tree->add) {
        *node = (struct subtree){node->lo - node->width, 2 * node->width};
    } else {
        *node = (struct subtree){node->lo + node->width, 1};
        if (plan != NULL) {
            mu_assert(plan_next_subtree_any(plan, node->lo, node));
            node->width = MIN(node->width, tree->root.width); /* one owner may have more */
        }
    }
    return true;
}
