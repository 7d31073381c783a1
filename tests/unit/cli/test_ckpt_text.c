#include "cli/ckpt_text.h"
#include "cli/table.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

static void a_time_is_that_of_the_clock_on_the_wall(void **state)
{
    char text[CKPT_TEXT_MAX];

    ckpt_text_time(1700000000999, text);
    assert_string_equal(text, "2023-11-14 22:13:20");
    ckpt_text_time(UINT64_MAX, text); /* the year 584 million */
    assert_int_equal(strspn(text, "0123456789-: "), strlen(text));
}

static void an_age_is_told_in_its_largest_unit(void **state)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {
        {0, "less than a minute"}, {59999, "less than a minute"},
        {60000, "1 minute"},       {3599999, "59 minutes"},
        {3600000, "1 hour"},       {86399999, "23 hours"},
        {86400000, "1 day"},       {(uint64_t)86400000 * 400, "400 days"},
    };
    char text[CKPT_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ckpt_text_age(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void a_step_is_a_number_or_the_name_of_its_folder(void **state)
{
    static const char *const bad[] = {
        "",        "0",      "-1",  "+1",   "1x",   " 1",  "step-",    "step-0",
        "stepp-1", "step 1", "1.0", "0x10", "last", "1,2", "step--12", "99999999999999999999"};
    uint64_t step = 0;

    assert_true(ckpt_text_step("1200", &step));
    assert_int_equal(step, 1200);
    assert_true(ckpt_text_step("step-000000001300", &step));
    assert_int_equal(step, 1300);
    assert_true(ckpt_text_step("18446744073709551615", &step));
    assert_true(step == UINT64_MAX);
    step = 7;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (ckpt_text_step(bad[i], &step)) {
            fail_msg("\"%s\" is no step", bad[i]);
        }
    }
    assert_int_equal(step, 7);
}

static void an_ending_needs_something_before_it(void **state)
{
    assert_true(ckpt_text_ends("a.npz", ".npz"));
    assert_true(ckpt_text_ends("d/a.npz", ".npz"));
    assert_false(ckpt_text_ends(".npz", ".npz"));
    assert_false(ckpt_text_ends("d/.npz", ".npz"));
    assert_false(ckpt_text_ends("a.npz/", ".npz"));
    assert_false(ckpt_text_ends("a.npy", ".npz"));
}

/* ---- tables ---- */

static const struct table_column columns[] = {{.title = "JOB"},
                                              {.title = "STEP", .right = true},
                                              {.title = "NEVER"},
                                              {.title = "NOTE"},
                                              {.title = "N", .right = true}};

static void add(struct table *t, const char *job, int step, const char *note, const char *n)
{
    table_cell(t, "%s", job);
    table_cell(t, "%d", step);
    table_cell(t, "%s", "");
    table_cell(t, "%s", note);
    table_cell(t, "%s", n);
}

static void expect_table(struct table *t, const char *want)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);

    assert_non_null(to);
    assert_int_equal(table_end(t, to), MU_OK);
    fclose(to);
    assert_string_equal(text, want);
    free(text);
    assert_null(t->cells);
}

static void columns_stand_in_line_and_empty_ones_are_left_out(void **state)
{
    struct table t = {.columns = columns, .columns_n = ARRAY_LEN(columns)};

    add(&t, "a", 5, "", "10");
    add(&t, "longer", 12345, "note", "7");
    add(&t, "b", 1, "", "");
    expect_table(&t, "JOB      STEP  NOTE   N\n"
                     "a           5        10\n"
                     "longer  12345  note   7\n"
                     "b           1\n");
}

static void a_table_without_rows_is_nothing(void **state)
{
    struct table t = {.columns = columns, .columns_n = ARRAY_LEN(columns)};

    expect_table(&t, "");
}

static void a_table_can_have_many_rows(void **state)
{
    struct table t = {.columns = columns, .columns_n = ARRAY_LEN(columns)};
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);

    for (int i = 0; i < 1000; i++) {
        add(&t, "j", i, "", "");
    }
    assert_int_equal(table_end(&t, to), MU_OK);
    fclose(to);
    assert_int_equal(n, 1001 * strlen("JOB  STEP\n"));
    assert_non_null(strstr(text, "\nj     999\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_that_of_the_clock_on_the_wall),
        cmocka_unit_test(an_age_is_told_in_its_largest_unit),
        cmocka_unit_test(a_step_is_a_number_or_the_name_of_its_folder),
        cmocka_unit_test(an_ending_needs_something_before_it),
        cmocka_unit_test(columns_stand_in_line_and_empty_ones_are_left_out),
        cmocka_unit_test(a_table_without_rows_is_nothing),
        cmocka_unit_test(a_table_can_have_many_rows),
    };

    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
