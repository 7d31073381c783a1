#include "unit/unit.h"

#include "core/shard.h"

/* Three workers take two rounds, then two take four: 14 elements, each once. */
static void the_offset_grows_by_the_world_of_each_step(void **state)
{
    static const uint32_t worlds[] = {3, 3, 2, 2, 2, 2};
    static const uint64_t want[] = {3, 6, 8, 10, 12, 14};
    struct shard shard = {.elements_n = 14};

    for (uint32_t step = 0; step < ARRAY_LEN(worlds); step++) {
        shard_advance(&shard, worlds[step]);
        assert_int_equal(shard.offset, want[step]);
    }
}

static void a_short_last_round_ends_with_the_list(void **state)
{
    struct shard shard = {.elements_n = 5};

    shard_advance(&shard, 3);
    assert_int_equal(shard.offset, 3);
    shard_advance(&shard, 3);
    assert_int_equal(shard.offset, 5);
    shard_advance(&shard, 3);
    assert_int_equal(shard.offset, 5);
}

static void an_endless_list_does_not_overflow(void **state)
{
    struct shard shard = {.elements_n = UINT64_MAX, .offset = UINT64_MAX - 2};

    shard_advance(&shard, 4);
    assert_true(shard.offset == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_offset_grows_by_the_world_of_each_step),
        cmocka_unit_test(a_short_last_round_ends_with_the_list),
        cmocka_unit_test(an_endless_list_does_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
