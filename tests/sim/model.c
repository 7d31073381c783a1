/* The toy model: exact, cheap, and sensitive to everything that must not matter. */
#include "sim/sim.h"

#include <string.h>

#define SAMPLES_N 21
#define BATCH_N 6 /* the last batch of an epoch has 3, so some slices are empty */

/* The samples of slice s of step t, as a digest and a count; the same for all seeds. */
static struct value samples_of[STEPS_N + 1][SLICES_N];

static void samples_init(const struct order_walk *walk)
{
    for (uint64_t t = 1; t <= STEPS_N; t++) {
        for (uint32_t s = 0; s < SLICES_N; s++) {
            struct order_span span = order_slice(walk, t - 1, s);
            struct value *v = &samples_of[t][s];
            struct order order;

            mu_assert(order_init(&order, 7, span.epoch, walk->samples_n) == MU_OK);
            v->n = span.n;
            v->h = t;
            for (uint64_t i = 0; i < span.n; i++) {
                v->h = prng_mix(v->h * 31 + order_sample(&order, span.first + i));
            }
        }
    }
}

struct value model_add(struct value left, struct value right)
{
    return (struct value){.h = prng_mix(left.h * 3 + right.h), .n = left.n + right.n};
}

struct value model_leaf(const struct model *m, const uint64_t *weights, uint64_t step,
                        uint32_t slice, uint32_t part)
{
    struct value v = samples_of[step][slice];

    v.h = prng_mix(v.h ^ weights[part] ^ (m->seed + slice * UINT64_C(0x9e3779b9) + part));
    return v;
}

uint64_t model_update(uint64_t weight, struct value sum)
{
    return prng_mix(weight ^ sum.h) + sum.n;
}

/* One undisturbed process: the reference for every other. */
void model_init(struct model *m, uint64_t seed, uint64_t steps_n)
{
    m->seed = seed;
    m->steps_n = steps_n;
    m->walk = (struct order_walk){
        .samples_n = SAMPLES_N, .batch_n = BATCH_N, .epochs_n = 0, .slices_n = SLICES_N};
    if (samples_of[1][0].h == 0) {
        samples_init(&m->walk);
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        m->weights[0][p] = prng_mix(seed + p);
    }
    for (uint64_t t = 1; t <= steps_n; t++) {
        for (uint32_t p = 0; p < PARTS_N; p++) {
            struct value stack[PLAN_TREE_DEPTH];
            struct plan_tree tree;
            uint32_t n = 0;

            plan_tree_init(&tree, (struct subtree){0, SLICES_N});
            while (plan_tree_next(&tree, NULL)) {
                if (tree.add) {
                    n--;
                    stack[n - 1] = model_add(stack[n - 1], stack[n]);
                } else {
                    stack[n++] = model_leaf(m, m->weights[t - 1], t, tree.node.lo, p);
                }
            }
            m->sum[t][p] = stack[0];
            m->weights[t][p] = model_update(m->weights[t - 1][p], stack[0]);
        }
    }
}
