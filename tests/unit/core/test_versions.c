#include "unit/unit.h"

#include "base/prng.h"
#include "core/versions.h"

#include <string.h>

#define CAP 16

static struct versions_entry entries[CAP];
static struct versions versions;
static int given[3];
static uint32_t dropped_n;

static void count_drop(void *arg, void *value)
{
    assert_ptr_equal(arg, &dropped_n);
    (*(int *)value)++;
    dropped_n++;
}

static int setup(void **state)
{
    dropped_n = 0;
    memset(given, 0, sizeof(given));
    versions_init(&versions, entries, CAP, 1, count_drop, &dropped_n);
    return 0;
}

static bool has(uint64_t version, const char *name)
{
    void *value;

    return versions_get(&versions, version, name, &value) == MU_OK;
}

static void with_a_window_of_one_the_second_version_evicts_the_first(void **state)
{
    assert_int_equal(versions_create(&versions, 1, "x", &given[0]), MU_OK);
    assert_true(has(1, "x"));
    assert_int_equal(versions_create(&versions, 2, "x", &given[1]), MU_OK);
    assert_false(has(1, "x"));
    assert_true(has(2, "x"));
    assert_int_equal(dropped_n, 1);
    assert_int_equal(given[0], 1);
}

static void creating_the_same_again_is_an_error(void **state)
{
    assert_int_equal(versions_create(&versions, 1, "x", &given[0]), MU_OK);
    assert_int_equal(versions_create(&versions, 1, "x", &given[1]), MU_EEXIST);
    assert_int_equal(versions_create(&versions, 1, "y", &given[1]), MU_OK);
    assert_int_equal(dropped_n, 0);
}

static void a_version_older_than_the_window_is_refused(void **state)
{
    assert_int_equal(versions_create(&versions, 5, "x", &given[0]), MU_OK);
    assert_int_equal(versions_create(&versions, 4, "x", &given[1]), MU_ESTALE);
    assert_true(has(5, "x"));
    assert_int_equal(dropped_n, 0);
}

static void names_have_bounds_and_so_has_the_table(void **state)
{
    char name[NAME_MAX_LEN + 1];

    memset(name, 'n', sizeof(name));
    name[NAME_MAX_LEN] = '\0';
    assert_int_equal(versions_create(&versions, 1, "", &given[0]), MU_EINVAL);
    assert_int_equal(versions_create(&versions, 1, name, &given[0]), MU_EINVAL);
    for (int i = 0; i < CAP; i++) {
        char letter[2] = {(char)('a' + i), '\0'};
        assert_int_equal(versions_create(&versions, 1, letter, &given[0]), MU_OK);
    }
    assert_int_equal(versions_create(&versions, 1, "z", &given[0]), MU_ELIMIT);
    assert_int_equal(dropped_n, 0);
    assert_int_equal(versions_create(&versions, 2, "z", &given[0]), MU_OK);
    assert_int_equal(dropped_n, CAP);
}

static void close_drops_what_is_left_and_may_be_repeated(void **state)
{
    assert_int_equal(versions_create(&versions, 1, "x", &given[0]), MU_OK);
    assert_int_equal(versions_create(&versions, 1, "y", &given[1]), MU_OK);
    versions_close(&versions);
    versions_close(&versions);
    assert_int_equal(dropped_n, 2);
}

/* Against the definition: there iff created and fewer than `window` newer versions since. */
static void the_newest_versions_are_there_and_no_others(void **state)
{
    struct prng rng;

    prng_init(&rng, 12);
    for (int round = 0; round < 300; round++) {
        uint32_t window = (uint32_t)prng_between(&rng, 1, 4);
        bool created[20][2] = {{false}};
        versions_init(&versions, entries, CAP, window, NULL, NULL);
        for (int op = 0; op < 60; op++) {
            uint64_t v = prng_below(&rng, 20);
            uint64_t k = prng_below(&rng, 2);
            uint32_t newer_n = 0;
            for (uint64_t u = v + 1; u < 20; u++) {
                newer_n += created[u][0] || created[u][1];
            }
            int want = newer_n >= window ? MU_ESTALE : created[v][k] ? MU_EEXIST : MU_OK;
            assert_int_equal(versions_create(&versions, v, k == 0 ? "a" : "b", NULL), want);
            created[v][k] |= want == MU_OK;
            newer_n = 0;
            for (int u = 19; u >= 0; u--) {
                assert_int_equal(has((uint64_t)u, "a"), created[u][0] && newer_n < window);
                assert_int_equal(has((uint64_t)u, "b"), created[u][1] && newer_n < window);
                newer_n += created[u][0] || created[u][1];
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(with_a_window_of_one_the_second_version_evicts_the_first, setup),
        cmocka_unit_test_setup(creating_the_same_again_is_an_error, setup),
        cmocka_unit_test_setup(a_version_older_than_the_window_is_refused, setup),
        cmocka_unit_test_setup(names_have_bounds_and_so_has_the_table, setup),
        cmocka_unit_test_setup(close_drops_what_is_left_and_may_be_repeated, setup),
        cmocka_unit_test_setup(the_newest_versions_are_there_and_no_others, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
