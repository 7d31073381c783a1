/* Each allocation of libmuster's calls is denied in turn: a clear status, outputs untouched,
 * nothing left behind, and the same call works the next time. Built with --wrap for malloc and
 * calloc. */
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);

static uint32_t taken_n, denied;

void *__wrap_malloc(size_t n)
{
    return ++taken_n == denied ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return ++taken_n == denied ? NULL : __real_calloc(n, size);
}

/* Denies the first, the second, … until try() needs fewer; gives how many it needs. */
static uint32_t sweep(int (*try)(mu_run *run), mu_run *run)
{
    for (uint32_t n = 1;; n++) {
        int rc;

        taken_n = 0;
        denied = n;
        rc = try(run);
        denied = 0;
        if (taken_n < n) {
            assert_int_equal(rc, MU_OK);
            return n - 1;
        }
        assert_int_equal(rc, MU_ENOMEM);
        assert_non_null(strstr(mu_error(), "out of memory"));
    }
}

static int try_join(mu_run *none)
{
    mu_run *run = none;
    int rc = mu_join(NULL, &run);

    if (rc == MU_OK) {
        assert_int_equal(mu_leave(run), MU_OK);
    } else {
        assert_ptr_equal(run, none);
    }
    return rc;
}

static int try_world(mu_run *run)
{
    mu_world_info world = {.size = 77};
    int rc = mu_world(run, &world);

    if (rc == MU_OK) {
        mu_world_free(&world);
    } else {
        assert_int_equal(world.size, 77);
    }
    return rc;
}

static int try_sync(mu_run *run)
{
    mu_values values = {.n = 77};
    int rc = mu_sync(run, "t", "abc", 3, 0, &values);

    if (rc == MU_OK) {
        mu_values_free(&values);
    } else {
        assert_int_equal(values.n, 77);
    }
    return rc;
}

static void a_run_is_made_whole_or_not_at_all(void **state)
{
    assert_true(sweep(try_join, NULL) >= 2);
}

static void calls_say_that_there_is_no_memory(void **state)
{
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_true(sweep(try_world, run) >= 1);
    assert_true(sweep(try_sync, run) >= 2);
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
