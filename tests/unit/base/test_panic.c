#include "unit/unit.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_that(void *arg)
{
    const bool *holds = arg;

    mu_assert(*holds);
}

static void a_condition_that_holds_goes_on(void **state)
{
    bool holds = true;

    assert_false(unit_panics(assert_that, &holds));
}

static void a_condition_that_fails_runs_the_hook(void **state)
{
    bool holds = false;

    assert_true(unit_panics(assert_that, &holds));
}

/* In a child: no core file, and the signal of abort() is what the parent sees. */
static int status_of_child_that_panics(void (*hook)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        base_on_panic = hook;
        mu_assert(1 + 1 == 3);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void panic_again(void)
{
    mu_assert(!"again");
}

static void a_panic_names_the_condition_the_file_and_the_version(void **state)
{
    char text[4096];
    int status;

    unit_stderr_begin();
    status = status_of_child_that_panics(NULL);
    unit_stderr_end(text, sizeof(text));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "1 + 1 == 3"));
    assert_non_null(strstr(text, "test_panic.c:"));
    assert_non_null(strstr(text, mu_version()));
}

static void a_hook_that_panics_does_not_loop(void **state)
{
    char text[4096];
    int status;

    unit_stderr_begin();
    status = status_of_child_that_panics(panic_again);
    unit_stderr_end(text, sizeof(text));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "again"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_condition_that_holds_goes_on),
        cmocka_unit_test(a_condition_that_fails_runs_the_hook),
        cmocka_unit_test(a_panic_names_the_condition_the_file_and_the_version),
        cmocka_unit_test(a_hook_that_panics_does_not_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
