/* Each allocation of libmuster's calls is denied in turn: a clear status, outputs untouched,
 * nothing left behind, and the same call works the next time. */
#include "unit/deny.h"
#include "unit/unit.h"

#include <string.h>

static void check_error(void)
{
    assert_non_null(strstr(mu_error(), "out of memory"));
}

static int try_join(void *none)
{
    mu_run *run = none;
    int rc = mu_join(NULL, &run);

    if (rc == MU_OK) {
        assert_int_equal(mu_leave(run), MU_OK);
    } else {
        assert_ptr_equal(run, none);
        check_error();
    }
    return rc;
}

static int try_world(void *run)
{
    mu_world_info world = {.size = 77};
    int rc = mu_world(run, &world);

    if (rc == MU_OK) {
        mu_world_free(&world);
    } else {
        assert_int_equal(world.size, 77);
        check_error();
    }
    return rc;
}

static int try_sync(void *run)
{
    mu_values values = {.n = 77};
    int rc = mu_sync(run, "t", "abc", 3, 0, &values);

    if (rc == MU_OK) {
        mu_values_free(&values);
    } else {
        assert_int_equal(values.n, 77);
        check_error();
    }
    return rc;
}

static int try_put(void *run)
{
    uint64_t version = 77;
    int rc = mu_config_put(run, "k", "abc", 3, MU_ANY, 0, &version);

    if (rc != MU_OK) {
        assert_int_equal(version, 77);
        check_error();
    }
    return rc;
}

static int try_get(void *run)
{
    mu_setting setting = {.version = 77};
    int rc = mu_config_get(run, "k", 0, &setting);

    if (rc == MU_OK) {
        mu_setting_free(&setting);
    } else {
        assert_int_equal(setting.version, 77);
        check_error();
    }
    return rc;
}

static int check_settings(int rc, mu_settings *settings)
{
    if (rc == MU_OK) {
        mu_settings_free(settings);
    } else {
        assert_int_equal(settings->version, 77);
        check_error();
    }
    return rc;
}

static int try_list(void *run)
{
    mu_settings settings = {.version = 77};

    return check_settings(mu_config_list(run, "", 0, &settings), &settings);
}

static int try_watch(void *run)
{
    mu_settings settings = {.version = 77};

    return check_settings(mu_config_watch(run, "", 0, 0, &settings), &settings);
}

static void a_run_is_made_whole_or_not_at_all(void **state)
{
    assert_true(deny_sweep(try_join, NULL) >= 2);
}

static void calls_say_that_there_is_no_memory(void **state)
{
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_true(deny_sweep(try_world, run) >= 1);
    assert_true(deny_sweep(try_sync, run) >= 2);
    assert_true(deny_sweep(try_put, run) >= 3);
    assert_true(deny_sweep(try_get, run) >= 2);
    assert_true(deny_sweep(try_list, run) >= 2);
    assert_true(deny_sweep(try_watch, run) >= 2);
    assert_int_equal(mu_leave(run), MU_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_made_whole_or_not_at_all),
        cmocka_unit_test(calls_say_that_there_is_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
