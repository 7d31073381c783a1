#include "unit/unit.h"

#include "core/shard.h"

/* Every worker of every step sees want[step]. */
static void check(const int *list, uint64_t list_n, const uint32_t *worlds, const int *want,
                  uint32_t steps_n)
{
    struct shard shard = {.elements_n = list_n};
    uint64_t element;

    for (uint32_t step = 0; step < steps_n; step++) {
        for (uint32_t rank = 0; rank < worlds[step]; rank++) {
            assert_int_equal(shard_element(&shard, rank, worlds[step], &element), MU_OK);
            assert_int_equal(list[element], want[step]);
        }
        shard_advance(&shard, worlds[step]);
    }
    assert_int_equal(shard.offset, list_n);
    assert_int_equal(shard_element(&shard, 0, 1, &element), MU_EDONE);
}

static void three_workers_see_1_2_then_two_see_3_to_6(void **state)
{
    static const int list[] = {1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6};
    static const uint32_t worlds[] = {3, 3, 2, 2, 2, 2};
    static const int want[] = {1, 2, 3, 4, 5, 6};

    check(list, ARRAY_LEN(list), worlds, want, ARRAY_LEN(want));
}

/* The design note's [11, 22, 333, 444, 555]. */
static void two_workers_then_three_all_see_1_to_5(void **state)
{
    static const int list[] = {1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5};
    static const uint32_t worlds[] = {2, 2, 3, 3, 3};
    static const int want[] = {1, 2, 3, 4, 5};

    check(list, ARRAY_LEN(list), worlds, want, ARRAY_LEN(want));
}

static void a_short_last_round_serves_the_lowest_ranks(void **state)
{
    struct shard shard = {.elements_n = 5};
    uint64_t element;

    assert_int_equal(shard_rounds(&shard, 3), 1);
    shard_advance(&shard, 3);
    assert_int_equal(shard_rounds(&shard, 3), 0);
    assert_int_equal(shard_element(&shard, 0, 3, &element), MU_OK);
    assert_int_equal(element, 3);
    assert_int_equal(shard_element(&shard, 1, 3, &element), MU_OK);
    assert_int_equal(element, 4);
    assert_int_equal(shard_element(&shard, 2, 3, &element), MU_EDONE);
    assert_int_equal(element, 4);
    shard_advance(&shard, 3);
    assert_int_equal(shard.offset, 5);
    shard_advance(&shard, 3);
    assert_int_equal(shard.offset, 5);
}

/* A step that was not committed is read again, from the same offset, by those that are left. */
static void a_step_done_again_by_fewer_loses_nothing(void **state)
{
    struct shard shard = {.elements_n = 7};
    uint64_t element;

    shard_advance(&shard, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(shard_element(&shard, rank, 3, &element), MU_OK);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(shard_element(&shard, rank, 2, &element), MU_OK);
        assert_int_equal(element, 3 + rank);
    }
    shard_advance(&shard, 2);
    assert_int_equal(shard.offset, 5);
}

static void an_endless_list_does_not_overflow(void **state)
{
    struct shard shard = {.elements_n = UINT64_MAX, .offset = UINT64_MAX - 2};
    uint64_t element;

    assert_int_equal(shard_element(&shard, 1, 4, &element), MU_OK);
    assert_true(element == UINT64_MAX - 1);
    assert_int_equal(shard_element(&shard, 2, 4, &element), MU_EDONE);
    shard_advance(&shard, 4);
    assert_true(shard.offset == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_workers_see_1_2_then_two_see_3_to_6),
        cmocka_unit_test(two_workers_then_three_all_see_1_to_5),
        cmocka_unit_test(a_short_last_round_serves_the_lowest_ranks),
        cmocka_unit_test(a_step_done_again_by_fewer_loses_nothing),
        cmocka_unit_test(an_endless_list_does_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
