/* The cut of slices among ranks: the whole domain is small enough to walk. */
#include "unit/unit.h"

#include "base/prng.h"
#include "core/plan.h"
#include "lib/chance.h"
#include "lib/plan_tree.h"

#include <stdlib.h>

static struct plan plan;

static uint32_t subtrees_of(uint32_t rank, uint32_t *slices_n_out)
{
    struct subtree t = {0, 0};
    uint32_t n = 0;

    *slices_n_out = 0;
    for (; plan_next_subtree(&plan, rank, t.lo + t.width, &t); n++) {
        assert_int_equal(t.width & (t.width - 1), 0);
        assert_int_equal(t.lo % t.width, 0);
        for (uint32_t s = t.lo; s < t.lo + t.width; s++) {
            assert_int_equal(plan_rank(&plan, s), rank);
        }
        *slices_n_out += t.width;
    }
    return n;
}

/* Every slice once, in the order of ranks, in contiguous ranges that their subtrees cover. */
static void check_tiling(uint32_t slices_n, uint32_t ranks_n)
{
    uint32_t next = 0;
    uint32_t covered_n;

    assert_int_equal(plan_init(&plan, slices_n, ranks_n), MU_OK);
    for (uint32_t r = 0; r < MIN(ranks_n, slices_n); r++) {
        struct plan_share share = plan_share(&plan, r);
        assert_int_equal(share.first, next);
        assert_true(share.n >= 1);
        assert_true(share.n <=
                    MAX(9 * slices_n / (8 * ranks_n), (slices_n + ranks_n - 1) / ranks_n));
        uint32_t subtrees_n = subtrees_of(r, &covered_n);
        assert_int_equal(covered_n, share.n);
        assert_true(subtrees_n <= PLAN_SUBTREES_MAX);
        for (uint32_t s = share.first; s < share.first + share.n; s++) {
            assert_int_equal(plan_rank(&plan, s), r);
        }
        next += share.n;
    }
    assert_int_equal(next, slices_n);
    for (uint32_t r = slices_n; r < ranks_n; r++) {
        assert_false(plan_next_subtree(&plan, r, 0, &(struct subtree){0, 0}));
    }
}

static void every_slice_has_one_rank_and_ranges_are_contiguous(void **state)
{
    for (uint32_t slices_n = 1; slices_n <= SLICES_MAX; slices_n *= 2) {
        uint32_t stride = getenv("MUSTER_TEST_FULL") != NULL || slices_n <= 128 ? 1 : 7;
        for (uint32_t ranks_n = 1; ranks_n <= slices_n; ranks_n += stride) {
            check_tiling(slices_n, ranks_n);
        }
        for (uint32_t ranks_n = slices_n; ranks_n <= 4096; ranks_n += 97) {
            check_tiling(slices_n, ranks_n);
        }
        check_tiling(slices_n, 4096);
    }
}

/* The promise, over its whole domain, in integers: share * 8N <= 9S. */
static void share_is_at_most_an_eighth_above_ideal_in_four_subtrees(void **state)
{
    for (uint32_t slices_n = 8; slices_n <= SLICES_MAX; slices_n *= 2) {
        for (uint32_t ranks_n = 1; 8 * ranks_n <= slices_n; ranks_n++) {
            assert_int_equal(plan_init(&plan, slices_n, ranks_n), MU_OK);
            for (uint32_t r = 0; r < ranks_n; r++) {
                uint32_t n;
                assert_true(subtrees_of(r, &n) <= 4);
                assert_true(n * 8 * ranks_n <= 9 * slices_n);
            }
        }
    }
}

static void equal_powers_of_two_get_one_subtree_each(void **state)
{
    for (uint32_t ranks_n = 1; ranks_n <= SLICES_MAX; ranks_n *= 2) {
        assert_int_equal(plan_init(&plan, SLICES_MAX, ranks_n), MU_OK);
        for (uint32_t r = 0; r < ranks_n; r++) {
            uint32_t n;
            assert_int_equal(subtrees_of(r, &n), 1);
            assert_int_equal(n, SLICES_MAX / ranks_n);
        }
    }
}

static void sizes_out_of_range_are_refused(void **state)
{
    assert_int_equal(plan_init(&plan, 0, 1), MU_EINVAL);
    assert_int_equal(plan_init(&plan, 12, 1), MU_EINVAL);
    assert_int_equal(plan_init(&plan, 2048, 1), MU_EINVAL);
    assert_int_equal(plan_init(&plan, 8, 0), MU_EINVAL);
    assert_int_equal(plan_init(&plan, 8, PLAN_RANKS_MAX + 1), MU_EINVAL);
    assert_int_equal(plan_regroup(&plan, 3, 1, NULL), MU_EINVAL);
}

static struct slices held[64];

/* Checks plan against held: kept where lowest held; work within one of each other. */
static void check_regroup(uint32_t slices_n, uint32_t ranks_n)
{
    uint32_t kept_n[64] = {0};
    uint32_t more_n[64] = {0};
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;

    for (uint32_t s = 0; s < slices_n; s++) {
        uint32_t lowest = 0;
        while (lowest < ranks_n && !slices_has(&held[lowest], s)) {
            lowest++;
        }
        uint32_t r = plan_rank(&plan, s);
        assert_true(r < ranks_n);
        assert_true(lowest == ranks_n || r == lowest);
        (lowest == ranks_n ? more_n : kept_n)[r]++;
    }
    for (uint32_t r = 0; r < ranks_n; r++) {
        least = MIN(least, more_n[r]);
        most = MAX(most, more_n[r]);
    }
    assert_true(most - least <= 1);
    for (uint32_t a = 0; a < ranks_n; a++) {
        for (uint32_t b = 0; b < ranks_n; b++) {
            /* An odd one never went to b while a, that keeps fewer, had none. */
            assert_false(kept_n[a] < kept_n[b] && more_n[a] < more_n[b]);
        }
    }
}

static void regroup_keeps_what_is_held_and_shares_the_rest_evenly(void **state)
{
    struct prng rng;

    prng_init(&rng, 2);
    for (int round = 0; round < 2000; round++) {
        uint32_t slices_n = 1u << prng_below(&rng, 11);
        uint32_t ranks_n = (uint32_t)prng_between(&rng, 1, 64);
        uint32_t ppm = (uint32_t)prng_below(&rng, 200000);
        for (uint32_t r = 0; r < ranks_n; r++) {
            slices_clear(&held[r]);
            for (uint32_t s = 0; s < SLICES_MAX; s++) { /* those from slices_n on are noise */
                if (prng_chance(&rng, ppm)) {
                    slices_add(&held[r], s);
                }
            }
        }
        assert_int_equal(plan_regroup(&plan, slices_n, ranks_n, held), MU_OK);
        check_regroup(slices_n, ranks_n);
    }
}

/* Four ranks of two slices each; the second dies: its two slices go to the ranks that are left, one
 * each, lowest first, and nobody computes anything twice. */
static void regroup_after_one_loss_moves_only_the_lost_slices(void **state)
{
    static const uint32_t want[8] = {0, 0, 0, 1, 1, 1, 2, 2};

    memset(held, 0, sizeof(held));
    for (uint32_t r = 0; r < 3; r++) {
        uint32_t old_rank = r == 0 ? 0 : r + 1;
        slices_add(&held[r], 2 * old_rank);
        slices_add(&held[r], 2 * old_rank + 1);
    }
    assert_int_equal(plan_regroup(&plan, 8, 3, held), MU_OK);
    for (uint32_t s = 0; s < 8; s++) {
        assert_int_equal(plan_rank(&plan, s), want[s]);
    }
}

static void regroup_with_nothing_held_gives_contiguous_shares(void **state)
{
    memset(held, 0, sizeof(held));
    for (uint32_t ranks_n = 1; ranks_n <= 64; ranks_n++) {
        assert_int_equal(plan_regroup(&plan, 64, ranks_n, held), MU_OK);
        check_regroup(64, ranks_n);
        for (uint32_t s = 1; s < 64; s++) {
            assert_true(plan_rank(&plan, s - 1) <= plan_rank(&plan, s));
        }
    }
}

/* Not associative, so any other order of additions would show. */
static uint64_t mix(uint64_t left, uint64_t right)
{
    return prng_mix(left * 3 + right);
}

static uint64_t fold(struct subtree root, const struct plan *p)
{
    uint64_t stack[PLAN_TREE_DEPTH];
    uint32_t n = 0;
    struct plan_tree t;

    plan_tree_init(&t, root);
    while (plan_tree_next(&t, p)) {
        if (t.add) {
            n--;
            stack[n - 1] = mix(stack[n - 1], stack[n]);
        } else {
            assert_true(n < PLAN_TREE_DEPTH);
            stack[n++] = t.node.width == 1 ? prng_mix(t.node.lo) : fold(t.node, NULL);
        }
    }
    assert_int_equal(n, 1);
    return stack[0];
}

static uint64_t fold_by_definition(uint32_t lo, uint32_t width)
{
    return width == 1 ? prng_mix(lo)
                      : mix(fold_by_definition(lo, width / 2),
                            fold_by_definition(lo + width / 2, width / 2));
}

static void sum_is_the_same_whatever_the_partition(void **state)
{
    struct prng rng;

    prng_init(&rng, 3);
    for (uint32_t slices_n = 1; slices_n <= SLICES_MAX; slices_n *= 2) {
        struct subtree root = {0, slices_n};
        uint64_t want = fold_by_definition(0, slices_n);
        assert_true(fold(root, NULL) == want);
        for (uint32_t ranks_n = 1; ranks_n <= 2 * slices_n; ranks_n += 1 + slices_n / 16) {
            assert_int_equal(plan_init(&plan, slices_n, ranks_n), MU_OK);
            assert_true(fold(root, &plan) == want);
        }
        for (int round = 0; round < 50; round++) {
            for (uint32_t s = 0; s < slices_n; s++) {
                plan.owner[s] = (uint32_t)prng_below(&rng, 3);
            }
            assert_true(fold(root, &plan) == want);
            if (slices_n > 1) { /* a part of the tree, too */
                struct subtree right = {slices_n / 2, slices_n / 2};
                assert_true(fold(right, &plan) == fold(right, NULL));
            }
        }
    }
}

static void subtrees_of_all_ranks_tile_the_slices(void **state)
{
    struct subtree t = {0, 0};
    uint32_t next = 0;

    assert_int_equal(plan_init(&plan, 1024, 37), MU_OK);
    while (plan_next_subtree_any(&plan, t.lo + t.width, &t)) {
        assert_int_equal(t.lo, next);
        next += t.width;
        for (uint32_t s = t.lo; s < next; s++) {
            assert_int_equal(plan_rank(&plan, s), plan_rank(&plan, t.lo));
        }
    }
    assert_int_equal(next, 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slice_has_one_rank_and_ranges_are_contiguous),
        cmocka_unit_test(share_is_at_most_an_eighth_above_ideal_in_four_subtrees),
        cmocka_unit_test(equal_powers_of_two_get_one_subtree_each),
        cmocka_unit_test(sizes_out_of_range_are_refused),
        cmocka_unit_test(regroup_keeps_what_is_held_and_shares_the_rest_evenly),
        cmocka_unit_test(regroup_after_one_loss_moves_only_the_lost_slices),
        cmocka_unit_test(regroup_with_nothing_held_gives_contiguous_shares),
        cmocka_unit_test(sum_is_the_same_whatever_the_partition),
        cmocka_unit_test(subtrees_of_all_ranks_tile_the_slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
