#include "unit/unit.h"

#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[65536];

static size_t count(const char *what)
{
    size_t n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) {
        n++;
    }
    return n;
}

static int at_info(void **state)
{
    log_set_level(LOG_INFO);
    unsetenv("MUSTER_LOG");
    return 0;
}

static void a_line_has_time_level_area_and_text(void **state)
{
    int year, n = 0;

    unit_stderr_begin();
    log_warn("store", "row %d is %s", 7, "torn");
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(sscanf(text, "%d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ%n", &year, &n), 1);
    assert_true(year >= 2024);
    assert_string_equal(text + n, " warn  store: row 7 is torn\n");
}

static void lines_above_the_level_are_dropped(void **state)
{
    unit_stderr_begin();
    log_debug("a", "unseen");
    log_info("a", "seen");
    log_set_level(LOG_ERROR);
    log_warn("a", "unseen");
    log_error("a", "seen");
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count("\n"), 2);
    assert_int_equal(count("a: seen"), 2);
}

static void the_environment_sets_the_level(void **state)
{
    setenv("MUSTER_LOG", "debug", 1);
    log_init();
    unit_stderr_begin();
    log_debug("a", "seen");
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count("seen"), 1);
}

static void a_wrong_level_in_the_environment_is_told_and_changes_nothing(void **state)
{
    setenv("MUSTER_LOG", "loud", 1);
    unit_stderr_begin();
    log_init();
    log_info("a", "seen");
    log_debug("a", "unseen");
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count("MUSTER_LOG=loud is no level"), 1);
    assert_int_equal(count("a: seen"), 1);
    assert_int_equal(count("unseen"), 0);
}

static void a_text_cannot_forge_a_line_or_drive_the_terminal(void **state)
{
    unit_stderr_begin();
    log_info("peer", "hello\n2030-01-01 error: forged \x1b[2J");
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count("\n"), 1);
    assert_int_equal(count("\x1b"), 0);
}

static void a_text_too_long_is_cut_and_marked(void **state)
{
    static char big[10000];

    memset(big, 'x', sizeof(big) - 1);
    unit_stderr_begin();
    log_info("a", "%s", big);
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count("\n"), 1);
    assert_true(strlen(text) < 4096);
    assert_string_equal(text + strlen(text) - 5, "x...\n");
}

static void *write_fifty(void *arg)
{
    for (int i = 0; i < 50; i++) {
        log_info("a", "begin %s end", (const char *)arg);
    }
    return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    char ones[] = "1111111111", twos[] = "2222222222";
    pthread_t a, b;

    unit_stderr_begin();
    assert_int_equal(pthread_create(&a, NULL, write_fifty, ones), 0);
    assert_int_equal(pthread_create(&b, NULL, write_fifty, twos), 0);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count("\n"), 100);
    assert_int_equal(count("begin 1111111111 end\n"), 50);
    assert_int_equal(count("begin 2222222222 end\n"), 50);
}

static void a_pace_lets_one_line_a_second_through_and_counts_the_rest(void **state)
{
    struct log_pace pace = {0};
    char more[LOG_PACE_TEXT] = "x";

    assert_true(log_pace_take(&pace, 5, more));
    assert_string_equal(more, "");
    assert_false(log_pace_take(&pace, 6, more));
    assert_false(log_pace_take(&pace, 1004, more));
    assert_true(log_pace_take(&pace, 1005, more));
    assert_string_equal(more, " (and 2 more like this since the last line)");
    assert_true(log_pace_take(&pace, 2005, more));
    assert_string_equal(more, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_line_has_time_level_area_and_text, at_info),
        cmocka_unit_test_setup(lines_above_the_level_are_dropped, at_info),
        cmocka_unit_test_setup(the_environment_sets_the_level, at_info),
        cmocka_unit_test_setup(a_wrong_level_in_the_environment_is_told_and_changes_nothing,
                               at_info),
        cmocka_unit_test_setup(a_text_cannot_forge_a_line_or_drive_the_terminal, at_info),
        cmocka_unit_test_setup(a_text_too_long_is_cut_and_marked, at_info),
        cmocka_unit_test_setup(lines_of_several_threads_do_not_mix, at_info),
        cmocka_unit_test(a_pace_lets_one_line_a_second_through_and_counts_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
