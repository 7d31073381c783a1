#include "unit/unit.h"

#include <string.h>

static const int statuses[] = {
#define X(name, value, text) MU_##name,
    MU_STATUS_MAP(X)
#undef X
};

static void every_status_has_its_own_text(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        assert_string_not_equal(mu_strerror(statuses[i]), "unknown status");
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(mu_strerror(statuses[i]), mu_strerror(statuses[j]));
        }
    }
}

static void errors_are_negative_and_ok_is_zero(void **state)
{
    assert_int_equal(MU_OK, 0);
    for (size_t i = 1; i < ARRAY_LEN(statuses); i++) {
        assert_true(statuses[i] < 0);
    }
}

static void a_strange_status_still_has_a_text(void **state)
{
    assert_string_equal(mu_strerror(1), "unknown status");
    assert_string_equal(mu_strerror(-100000), "unknown status");
}

static void library_and_build_agree_on_the_version(void **state)
{
    assert_string_equal(mu_version(), MUSTER_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_text),
        cmocka_unit_test(errors_are_negative_and_ok_is_zero),
        cmocka_unit_test(a_strange_status_still_has_a_text),
        cmocka_unit_test(library_and_build_agree_on_the_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
