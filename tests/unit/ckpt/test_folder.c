/* Which folder it is: the same number for all who see the same one, whatever they call it. */
#include "ckpt/ckpt.h"
#include "unit/ckpt/ckpt_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/mu-folder-XXXXXX";

static int make(void **state)
{
    (void)state;
    strcpy(top + strlen(top) - 6, "XXXXXX");
    return mkdtemp(top) != NULL ? 0 : -1;
}

static int wipe(void **state)
{
    (void)state;
    ckpt_kit_wipe(top);
    return 0;
}

static const char *below(const char *name)
{
    static char paths[4][sizeof(top) + 64];
    static uint32_t n;
    char *path = paths[n++ % ARRAY_LEN(paths)];

    snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
    return path;
}

static uint64_t number_of(const char *name, uint64_t host, uint64_t run)
{
    struct ckpt_why why;
    uint64_t id = 0;

    assert_int_equal(ckpt_folder(below(name), "job", host, run, &id, &why), MU_OK);
    return id;
}

static void a_host_knows_a_folder_by_any_of_its_paths(void **state)
{
    const uint64_t a = number_of("a", 1, 0);

    (void)state;
    assert_int_equal(symlink(below("a"), below("alias")), 0);
    assert_true(number_of("alias", 1, 0) == a);
    assert_true(number_of("b", 1, 0) != a);
    assert_true(number_of("a", 2, 0) !=
                a); /* What is another host's has the same number by chance. */
}

static void a_mark_tells_all_of_a_run_that_they_see_the_same_one(void **state)
{
    const uint64_t a = number_of("a", 1, 7);

    (void)state;
    assert_true(number_of("a", 2, 7) == a);
    assert_true(number_of("b", 1, 7) != a);
}

static void marks_of_runs_before_do_not_count_and_go(void **state)
{
    const uint64_t a = number_of("a", 1, 7);

    (void)state;
    /* As if it had been copied to another container, with all that is in it. */
    assert_int_equal(mkdir(below("b"), 0700), 0);
    assert_int_equal(mkdir(below("b/job"), 0700), 0);
    assert_int_equal(symlink("0123456789abcdef", below("b/job/.folder-0000000000000007")), 0);
    assert_true(number_of("a", 1, 8) != number_of("b", 1, 8));
    assert_true(number_of("a", 1, 8) != a);
    assert_true(readlink(below("b/job/.folder-0000000000000007"), (char[1]){0}, 1) < 0);
}

static void where_none_can_be_made_that_is_said(void **state)
{
    struct ckpt_why why = {.text = ""};
    uint64_t id = 3;

    (void)state;
    assert_int_equal(symlink("nowhere/at/all", below("c")), 0);
    assert_int_not_equal(ckpt_folder(below("c"), "job", 1, 0, &id, &why), MU_OK);
    assert_non_null(strstr(why.text, "/c"));
    assert_int_equal(id, 3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make, wipe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_host_knows_a_folder_by_any_of_its_paths),
        CASE(a_mark_tells_all_of_a_run_that_they_see_the_same_one),
        CASE(marks_of_runs_before_do_not_count_and_go),
        CASE(where_none_can_be_made_that_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
