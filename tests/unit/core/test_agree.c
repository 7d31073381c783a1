#include "unit/unit.h"

#include "core/agree.h"

#include <string.h>

static uint8_t storage[8];

/* Each peer contributes its rank. */
static void differing_values_agree_only_alone(void **state)
{
    for (uint32_t peers_n = 1; peers_n <= 8; peers_n++) {
        struct agree a;
        agree_init(&a, storage, sizeof(storage));
        for (uint32_t rank = 0; rank < peers_n; rank++) {
            assert_int_equal(agree_add(&a, &rank, sizeof(rank)), MU_OK);
        }
        assert_int_equal(agree_reached(&a), peers_n == 1);
    }
}

static void equal_values_agree_however_many(void **state)
{
    struct agree a;

    agree_init(&a, storage, sizeof(storage));
    for (uint32_t rank = 0; rank < 1000; rank++) {
        assert_int_equal(agree_add(&a, "size=4", 6), MU_OK);
        assert_true(agree_reached(&a));
    }
}

/* Whichever peer it is, and whichever byte; a prefix is not the same either. */
static void one_dissenter_is_enough(void **state)
{
    static const char *others[] = {"xbcd", "abxd", "abcx", "abc", "abcde", ""};

    for (size_t k = 0; k < ARRAY_LEN(others); k++) {
        for (uint32_t who = 0; who < 5; who++) {
            struct agree a;
            agree_init(&a, storage, sizeof(storage));
            for (uint32_t rank = 0; rank < 5; rank++) {
                const char *value = rank == who ? others[k] : "abcd";
                assert_int_equal(agree_add(&a, value, strlen(value)), MU_OK);
            }
            assert_false(agree_reached(&a));
        }
    }
}

static void nobody_agrees_on_nothing_but_empty_values_are_equal(void **state)
{
    struct agree a;

    agree_init(&a, NULL, 0);
    assert_false(agree_reached(&a));
    assert_int_equal(agree_add(&a, NULL, 0), MU_OK);
    assert_int_equal(agree_add(&a, NULL, 0), MU_OK);
    assert_true(agree_reached(&a));
}

static void a_value_too_long_is_refused_and_changes_nothing(void **state)
{
    struct agree a;

    agree_init(&a, storage, sizeof(storage));
    assert_int_equal(agree_add(&a, "abcd", 4), MU_OK);
    assert_int_equal(agree_add(&a, "123456789", 9), MU_ELIMIT);
    assert_true(agree_reached(&a));
    assert_int_equal(a.peers_n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differing_values_agree_only_alone),
        cmocka_unit_test(equal_values_agree_however_many),
        cmocka_unit_test(one_dissenter_is_enough),
        cmocka_unit_test(nobody_agrees_on_nothing_but_empty_values_are_equal),
        cmocka_unit_test(a_value_too_long_is_refused_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
