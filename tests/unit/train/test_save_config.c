/* What the environment says of checkpoints: taken, or refused with a word that helps. */
#include "unit/unit.h"

#include "run/run.h"
#include "train/saver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const NAMES[] = {"MUSTER_CKPT_DIR",    "MUSTER_CKPT_EVERY",
                                    "MUSTER_CKPT_KEEP",   "MUSTER_CKPT_KEEP_EVERY",
                                    "MUSTER_CKPT_SHARED", "MUSTER_CKPT_ZSTD"};

static int forget(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        unsetenv(NAMES[i]);
    }
    return 0;
}

static struct save_config read_well(void)
{
    struct save_config c;

    assert_int_equal(save_config_read(&c, NULL, 0, -1), MU_OK);
    return c;
}

static void without_a_folder_nothing_is_saved(void **state)
{
    setenv("MUSTER_CKPT_EVERY", "nonsense", 1); /* and nobody looks further */
    assert_string_equal(read_well().dir, "");
}

static void what_is_not_said_has_a_default(void **state)
{
    setenv("MUSTER_CKPT_DIR", "/data/ckpt", 1);
    const struct save_config c = read_well();

    assert_string_equal(c.dir, "/data/ckpt");
    assert_int_equal(c.every.ms, 600000);
    assert_int_equal(c.every.steps, 0);
    assert_int_equal(c.keep, 3);
    assert_int_equal(c.keep_every, 0);
    assert_false(c.shared || c.zstd);
}

static void everything_can_be_said(void **state)
{
    setenv("MUSTER_CKPT_DIR", "/data/ckpt", 1);
    setenv("MUSTER_CKPT_KEEP", "7", 1);
    setenv("MUSTER_CKPT_KEEP_EVERY", "1000", 1);
    setenv("MUSTER_CKPT_SHARED", "1", 1);
    setenv("MUSTER_CKPT_ZSTD", "1", 1);
    const struct save_config c = read_well();

    assert_int_equal(c.keep, 7);
    assert_int_equal(c.keep_every, 1000);
    assert_true(c.shared && c.zstd);
    setenv("MUSTER_CKPT_ZSTD", "0", 1);
    assert_false(read_well().zstd);
}

static void what_the_orchestrator_keeps_is_no_folder(void **state)
{
    struct save_config c;

    setenv("MUSTER_CKPT_DIR", "orchestrator:", 1);
    setenv("MUSTER_CKPT_SHARED", "1", 1); /* of no use there */
    c = read_well();
    assert_string_equal(c.dir, "orchestrator:");
    assert_true(c.depot);
    assert_false(c.shared || c.memory);
    assert_int_equal(c.keep, 3);
    assert_int_equal(save_config_read(&c, "/data", 0, -1), MU_OK);
    assert_false(c.depot);
    unsetenv("MUSTER_CKPT_DIR");
    assert_int_equal(save_config_read(&c, "orchestrator:", 0, -1), MU_OK);
    assert_true(c.depot);
    assert_int_equal(save_config_read(&c, "orchestrator:/data", 0, -1), MU_EINVAL);
    assert_non_null(strstr(mu_error(), "'orchestrator:', and no more"));
}

static void every_is_in_steps_or_in_time(void **state)
{
    static const struct {
        const char *text;
        uint64_t steps, ms;
    } CASES[] = {{"200", 200, 0},   {"1", 1, 0},        {"250ms", 0, 250},
                 {"90s", 0, 90000}, {"10m", 0, 600000}, {"2h", 0, 7200000}};

    setenv("MUSTER_CKPT_DIR", "/d", 1);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        setenv("MUSTER_CKPT_EVERY", CASES[i].text, 1);
        const struct save_config c = read_well();

        assert_int_equal(c.every.steps, CASES[i].steps);
        assert_int_equal(c.every.ms, CASES[i].ms);
    }
}

static void what_makes_no_sense_is_refused_by_name(void **state)
{
    static const struct {
        const char *name, *text;
    } CASES[] = {{"MUSTER_CKPT_EVERY", "0"},
                 {"MUSTER_CKPT_EVERY", "ten"},
                 {"MUSTER_CKPT_EVERY", "-5"},
                 {"MUSTER_CKPT_EVERY", "5 minutes"},
                 {"MUSTER_CKPT_EVERY", "99999999999999999999"},
                 {"MUSTER_CKPT_KEEP", "0"},
                 {"MUSTER_CKPT_KEEP", "3x"},
                 {"MUSTER_CKPT_KEEP_EVERY", "-1"}};
    struct save_config c;

    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        forget(NULL);
        setenv("MUSTER_CKPT_DIR", "/d", 1);
        setenv(CASES[i].name, CASES[i].text, 1);
        assert_int_equal(save_config_read(&c, NULL, 0, -1), MU_EINVAL);
        assert_non_null(strstr(mu_error(), CASES[i].name));
        assert_non_null(strstr(mu_error(), CASES[i].text));
    }
}

static void the_callers_word_comes_first_and_a_folder_is_found_from_here(void **state)
{
    char here[CKPT_PATH_MAX], want[CKPT_PATH_MAX + 8];
    struct save_config c;

    setenv("MUSTER_CKPT_DIR", "/elsewhere", 1);
    setenv("MUSTER_CKPT_EVERY", "10m", 1);
    assert_int_equal(save_config_read(&c, "ck", 50, -1), MU_OK);
    assert_non_null(getcwd(here, sizeof(here)));
    snprintf(want, sizeof(want), "%s/ck", here);
    assert_string_equal(c.dir, want);
    assert_int_equal(c.every.steps, 50);
    assert_int_equal(c.every.ms, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_folder_nothing_is_saved, forget),
        cmocka_unit_test_setup(what_is_not_said_has_a_default, forget),
        cmocka_unit_test_setup(everything_can_be_said, forget),
        cmocka_unit_test_setup(what_the_orchestrator_keeps_is_no_folder, forget),
        cmocka_unit_test_setup(every_is_in_steps_or_in_time, forget),
        cmocka_unit_test_setup(what_makes_no_sense_is_refused_by_name, forget),
        cmocka_unit_test_setup(the_callers_word_comes_first_and_a_folder_is_found_from_here,
                               forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
