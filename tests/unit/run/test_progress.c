/* mu_progress, mu_agree, and leaving as one who was left out. */
#include "lib/asks.h"
#include "unit/run/run_kit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct fake agent;

/* ---- steps ---- */

static void a_step_is_reported(void **state)
{
    mu_run *run = fake_join_world(&agent, "3 4 5");
    union wire_any msg;

    assert_int_equal(mu_progress(run, 41), MU_OK);
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_true(msg.report.step == 41 && msg.report.phase == PHASE_IN && msg.report.entered == 7);
    assert_int_equal(mu_progress(run, 3), MU_OK); /* It was started over. */
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_true(msg.report.step == 3);
    fake_generation(&agent, 8, "4");
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_true(msg.report.step == 3 && msg.report.entered == 8);
    assert_int_equal(mu_progress(NULL, 1), MU_EINVAL);
    fake_leave(&agent, run);
    assert_true(agent.last.phase == PHASE_FINISHED && agent.last.step == 3);
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* However many there are, a few are said, in their order, and the last one always is. */
static void of_many_steps_the_newest_are_reported(void **state)
{
    enum { STEPS = 100000 };
    mu_run *run = fake_join_world(&agent, "4");
    uint64_t began_ms = now_ms(), last = 0;
    union wire_any msg;
    uint64_t reports_n = 0;

    for (uint64_t step = 1; step <= STEPS; step++) {
        assert_int_equal(mu_progress(run, step), MU_OK);
    }
    while (last < STEPS) {
        fake_next(&agent, WIRE_REPORT, &msg);
        assert_true(msg.report.step > last);
        last = msg.report.step;
        reports_n++;
    }
    assert_true(reports_n <= (now_ms() - began_ms) / 50 + 2);
    fake_leave(&agent, run);
}

static void the_last_step_is_in_the_last_words(void **state)
{
    mu_run *run = fake_join_world(&agent, "4");

    for (uint64_t step = 1; step <= 1000; step++) {
        assert_int_equal(mu_progress(run, step), MU_OK);
    }
    fake_leave(&agent, run);
    assert_true(agent.last.phase == PHASE_FINISHED && agent.last.step == 1000);
}

/* ---- agreement ---- */

struct agreeing {
    pthread_t thread;
    mu_run *run;
    int status;
    int same;
};

static void *agree_main(void *arg)
{
    struct agreeing *a = arg;

    a->status = mu_agree(a->run, "t", "abc", 3, MU_FOREVER, &a->same);
    return NULL;
}

static void agree(mu_run *run, const char *const values[3], int status, int same)
{
    struct agreeing a = {.run = run, .same = 77};
    static struct asks_frame frame;
    struct msg_sync asked;
    union wire_any msg;

    assert_int_equal(pthread_create(&a.thread, NULL, agree_main, &a), 0);
    assert_true(asks_is_value(&fake_next(&agent, WIRE_ASK, &msg)->ask, &asked));
    for (uint32_t i = 0; i < 3; i++) {
        struct msg_synced m = {.worker = asked.worker,
                               .request = asked.request,
                               .generation = 7,
                               .status = status,
                               .index = i,
                               .total = 3,
                               .data_n = (uint32_t)strlen(values[i]),
                               .data = (uint8_t *)(uintptr_t)values[i]};

        asks_values(&frame, &m);
        fake_say(&agent, WIRE_SAYS, &frame.says);
    }
    pthread_join(a.thread, NULL);
    assert_int_equal(a.status, status);
    assert_int_equal(a.same, same);
}

static void all_agree_only_if_all_say_the_same(void **state)
{
    mu_run *run = fake_join_world(&agent, "3 4 5");

    agree(run, (const char *const[]){"abc", "abc", "abc"}, MU_OK, 1);
    agree(run, (const char *const[]){"abc", "abc", "abd"}, MU_OK, 0);
    agree(run, (const char *const[]){"abc", "ab", "abc"}, MU_OK, 0);
    agree(run, (const char *const[]){"", "abc", ""}, MU_OK, 0);
    agree(run, (const char *const[]){"", "", ""}, MU_OK, 1);
    agree(run, (const char *const[]){"", "", ""}, MU_ETIMEDOUT, 77);
    fake_leave(&agent, run);
}

static void one_that_is_alone_agrees(void **state)
{
    int same = 0;
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_agree(run, "t", "x", 1, 0, &same), MU_OK);
    assert_int_equal(same, 1);
    same = 0;
    assert_int_equal(mu_agree(run, "t", NULL, 0, 0, &same), MU_OK);
    assert_int_equal(same, 1);
    assert_int_equal(mu_leave(run), MU_OK);
}

/* ---- leaving when left out ---- */

static void *leave_main(void *arg)
{
    assert_int_equal(mu_leave(arg), MU_OK);
    return NULL;
}

/* Until the generation without it counts, its end would be a loss: so it stays, and what it says
 * then is said by its next life, which is nobody's member. */
static void one_that_is_left_out_leaves_when_the_others_can_do_without(void **state)
{
    struct msg_life life = {.worker = wid_make(4, 1, 3), .lease_ms = 1000, .job = "mnist"};
    struct msg_active active = {8};
    mu_run *run = fake_join_world(&agent, "3 4");
    union wire_any msg;
    pthread_t thread;

    fake_generation(&agent, 8, "3");
    fake_told(run, 8);
    assert_int_equal(pthread_create(&thread, NULL, leave_main, run), 0);
    fake_say(&agent, WIRE_ACTIVE, &active);
    fake_next(&agent, WIRE_FORGET, &msg);
    assert_true(msg.forget.worker == FAKE_WORKER);
    fake_say(&agent, WIRE_LIFE, &life);
    fake_end_begin(&agent);
    pthread_join(thread, NULL);
    fake_end_join(&agent);
    assert_true(agent.last.phase == PHASE_FINISHED && agent.last.incarnation == 3);
    assert_true(agent.last.entered == 0);
    fake_close(&agent);
}

/* The others never get there: it goes in the end, but does not say that its work is finished. */
static void one_that_is_still_needed_says_nothing_of_having_finished(void **state)
{
    mu_run *run = fake_join_world(&agent, "3 4");

    fake_generation(&agent, 8, "3");
    fake_told(run, 8);
    fake_hurry(true);
    fake_leave(&agent, run);
    fake_hurry(false);
    assert_true(agent.last.phase != PHASE_FINISHED);
}

static void a_spare_leaves_at_once(void **state)
{
    mu_run *run = fake_join_world(&agent, "3 5");

    fake_leave(&agent, run);
    assert_true(agent.last.phase == PHASE_FINISHED && agent.last.entered == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_reported),
        cmocka_unit_test(of_many_steps_the_newest_are_reported),
        cmocka_unit_test(the_last_step_is_in_the_last_words),
        cmocka_unit_test(all_agree_only_if_all_say_the_same),
        cmocka_unit_test(one_that_is_alone_agrees),
        cmocka_unit_test(one_that_is_left_out_leaves_when_the_others_can_do_without),
        cmocka_unit_test(one_that_is_still_needed_says_nothing_of_having_finished),
        cmocka_unit_test(a_spare_leaves_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
