#include "unit/unit.h"

#include "core/schedule.h"

#include <stdio.h>
#include <string.h>

static struct schedule schedule;
static char why[160];

static int parse(const char *text)
{
    why[0] = '\0';
    return schedule_parse(text, strlen(text), &schedule, why, sizeof(why));
}

/* Resize points 10:2, 20:3, 40:4, 50:1 of a job that begins alone. */
static void sizes_change_at_steps_10_20_40_50(void **state)
{
    static const char *texts[] = {"1:10,2:10,3:20,4:10,1", "1:10, 2:10, 3:20, 4:10, 1:5"};

    for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
        assert_int_equal(parse(texts[k]), MU_OK);
        for (uint64_t step = 0; step < 100; step++) {
            uint32_t want = step < 10 ? 1 : step < 20 ? 2 : step < 40 ? 3 : step < 50 ? 4 : 1;
            assert_int_equal(schedule_size(&schedule, step), want);
        }
        assert_int_equal(schedule_size(&schedule, UINT64_MAX), 1);
    }
}

static void a_single_size_is_for_ever(void **state)
{
    assert_int_equal(parse("3"), MU_OK);
    assert_int_equal(schedule_size(&schedule, 0), 3);
    assert_int_equal(schedule_size(&schedule, UINT64_MAX), 3);
}

static void errors_say_what_is_wrong_and_where(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } bad[] = {
        {"", "part 1 is empty: write size:steps"},
        {"2:10,", "part 2 is empty: write size:steps"},
        {"2:10,,3:1", "part 2 is empty: write size:steps"},
        {"two:10", "part 1: size must be a whole number from 1 to 131072, not \"two\""},
        {"2:10,0:5", "part 2: size must be a whole number from 1 to 131072, not \"0\""},
        {"131073:5", "part 1: size must be a whole number from 1 to 131072, not \"131073\""},
        {":5", "part 1: size must be a whole number from 1 to 131072, not \"\""},
        {"-1:5", "part 1: size must be a whole number from 1 to 131072, not \"-1\""},
        {"1 :5", "part 1: size must be a whole number from 1 to 131072, not \"1 \""},
        {"2:", "part 1: steps must be a whole number from 1 to 2^48, not \"\""},
        {"2:0", "part 1: steps must be a whole number from 1 to 2^48, not \"0\""},
        {"2:1:1", "part 1: steps must be a whole number from 1 to 2^48, not \"1:1\""},
        {"2:99999999999999999999", "part 1: steps must be a whole number from 1 to 2^48, not "
                                   "\"99999999999999999999\""},
        {"2:10,3,4:1", "part 2 has no steps: only the last may go without"},
        {"2\n:1", "part 1: size must be a whole number from 1 to 131072, not \"2?\""},
    };

    assert_int_equal(parse("7:7"), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(parse(bad[i].text), MU_EINVAL);
        assert_string_equal(why, bad[i].why);
        assert_int_equal(schedule_size(&schedule, 0), 7);
    }
}

static void there_is_room_for_64_parts_and_no_more(void **state)
{
    char text[8 * (SCHEDULE_PARTS_MAX + 1)] = "";

    for (int i = 1; i <= SCHEDULE_PARTS_MAX; i++) {
        (void)sprintf(text + strlen(text), "%s%d:2", i == 1 ? "" : ",", i);
    }
    assert_int_equal(parse(text), MU_OK);
    assert_int_equal(schedule_size(&schedule, 125), 63);
    assert_int_equal(schedule_size(&schedule, 126), 64);
    strcat(text, ",1:1");
    assert_int_equal(parse(text), MU_EINVAL);
    assert_string_equal(why, "there are more than 64 parts");
}

/* 64 times the largest number of steps still fits. */
static void the_longest_schedule_does_not_overflow(void **state)
{
    char text[32 * SCHEDULE_PARTS_MAX] = "";

    for (int i = 1; i <= SCHEDULE_PARTS_MAX; i++) {
        (void)sprintf(text + strlen(text), "%s%d:281474976710656", i == 1 ? "" : ",", i);
    }
    assert_int_equal(parse(text), MU_OK);
    assert_int_equal(schedule_size(&schedule, 63 * SCHEDULE_STEPS_MAX - 1), 63);
    assert_int_equal(schedule_size(&schedule, 63 * SCHEDULE_STEPS_MAX), 64);
}

static void a_text_need_not_be_terminated_nor_an_error_wanted(void **state)
{
    assert_int_equal(schedule_parse("4:10,5", 4, &schedule, NULL, 0), MU_OK);
    assert_int_equal(schedule_size(&schedule, 10), 4);
    assert_int_equal(schedule_parse(NULL, 0, &schedule, NULL, 0), MU_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_change_at_steps_10_20_40_50),
        cmocka_unit_test(a_single_size_is_for_ever),
        cmocka_unit_test(errors_say_what_is_wrong_and_where),
        cmocka_unit_test(there_is_room_for_64_parts_and_no_more),
        cmocka_unit_test(the_longest_schedule_does_not_overflow),
        cmocka_unit_test(a_text_need_not_be_terminated_nor_an_error_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
