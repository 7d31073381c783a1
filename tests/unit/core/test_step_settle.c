/* After a loss: what the survivors settle on, and what they compute again. */
#include "unit/core/step_kit.h"

#include <string.h>

static void lose(uint32_t i)
{
    crew.men[i].gone = true;
}

/* All compute and reduce step 4; READYs are written, not delivered. */
static void hold_4(const char *who)
{
    trained(3, 3);
    crew.stop_at = 4;
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    for (; *who != '\0'; who++) {
        reduce((uint32_t)(*who - '0'));
    }
}

static void expect_same_plan(uint32_t a, uint32_t b)
{
    assert_memory_equal(&worker(a)->plan, &worker(b)->plan, sizeof(struct plan));
}

static void a_laggard_commits_what_the_others_have_committed(void **state)
{
    hold_4("012");
    crew.cut[1][0] = crew.cut[2][0] = true; /* 0 hears nobody. */
    deliver();
    assert_int_equal(worker(0)->committed, 3);
    assert_int_equal(worker(1)->committed, 4);
    lose(2);
    memset(crew.cut, 0, sizeof(crew.cut));
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    deliver();
    assert_int_equal(worker(0)->committed, 4); /* at once: it can have no other outcome */
    assert_int_equal(crew.men[0].commits_n, crew.men[1].commits_n);
    flow(4);
    expect_same_plan(0, 1);
    tell_active_all(2);
    flow(6);
    assert_int_equal(worker(0)->committed, 6);
    assert_int_equal(worker(1)->committed, 6);
}

static void what_all_hold_is_committed_once_the_generation_is_active(void **state)
{
    hold_4("012");
    lose_letters();
    lose(2); /* It may have committed step 4 before it died. */
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    deliver();
    assert_int_equal(worker(0)->committed, 3);
    assert_int_equal(worker(0)->phase, STEP_SETTLING);
    tell_active(0, 2);
    assert_int_equal(worker(0)->committed, 4);
    assert_int_equal(worker(1)->committed, 3);
    tell_active(1, 2);
    assert_int_equal(worker(1)->committed, 4);
    assert_int_equal(crew.men[0].computed_n + crew.men[1].computed_n + crew.men[2].computed_n,
                     4 * CREW_SLICES);
    flow(6);
    assert_int_equal(worker(1)->committed, 6);
}

static void what_not_all_hold_is_dropped_and_only_missing_slices_are_computed(void **state)
{
    uint32_t missing_n;

    hold_4("0");
    missing_n = slices_count(&crew.men[2].computed);
    lose(2);
    for (uint32_t i = 0; i < 2; i++) {
        crew.men[i].computed_n = 0;
    }
    lose_letters();
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(crew.men[1].cancels_n, 1);
    deliver();
    assert_false(worker(0)->holds);
    assert_int_equal(worker(0)->committed, 3);
    assert_int_equal(worker(0)->phase, STEP_COMPUTING);
    expect_same_plan(0, 1);
    flow(4);
    assert_int_equal(crew.men[0].computed_n + crew.men[1].computed_n, missing_n);
    tell_active_all(2);
    assert_int_equal(worker(0)->committed, 4);
    assert_int_equal(worker(1)->committed, 4);
}

static void kept_gradients_stay_where_they_are(void **state)
{
    struct slices mine;

    trained(4, 3);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i); /* 3 dies before it has computed anything. */
    }
    lose(3);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1 2"));
    flow(3);
    for (uint32_t i = 0; i < 3; i++) {
        expect_same_plan(0, i);
        plan_slices(&worker(i)->plan, i, &mine);
        for (uint32_t s = 0; s < CREW_SLICES; s++) {
            if (slices_has(&crew.men[i].computed, s)) {
                assert_true(slices_has(&mine, s));
            }
        }
    }
    crew.stop_at = 4;
    flow(4);
    tell_active_all(2);
    flow(5);
    assert_int_equal(worker(2)->committed, 5);
}

static void gradients_of_a_laggard_are_those_of_the_step_before(void **state)
{
    struct slices mine;

    hold_4("012");
    crew.cut[1][0] = crew.cut[2][0] = true;
    deliver();
    apply(1); /* 1 is at step 4 and has begun step 5; 0 is at 3 with gradients of step 4. */
    compute(1);
    lose(2);
    memset(crew.cut, 0, sizeof(crew.cut));
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    deliver();
    expect_same_plan(0, 1);
    plan_slices(&worker(0)->plan, 0, &mine);
    assert_int_equal(slices_count(&worker(0)->have), 0);
    apply(0);
    assert_int_equal(slices_count(&crew.men[0].asked), slices_count(&mine));
    tell_active_all(2);
    flow(5);
    assert_int_equal(worker(0)->committed, 5);
    assert_int_equal(worker(1)->committed, 5);
}

static void settling_needs_the_word_of_every_survivor(void **state)
{
    hold_4("0");
    lose(2);
    lose_letters();
    crew.cut[1][0] = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    deliver();
    assert_int_equal(worker(0)->phase, STEP_SETTLING);
    assert_true(step_waits(worker(0)));
    crew.cut[1][0] = false;
    say_again(1);
    deliver();
    assert_int_equal(worker(0)->phase, STEP_COMPUTING);
}

static void a_second_loss_while_settling_settles_again(void **state)
{
    trained(4, 3);
    crew.stop_at = 4;
    for (uint32_t i = 0; i < 4; i++) {
        compute(i);
    }
    for (uint32_t i = 0; i < 4; i++) {
        reduce(i);
    }
    lose_letters();
    lose(3);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1 2"));
    lose_letters();
    lose(2);
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "0 1"));
    deliver();
    assert_int_equal(worker(0)->committed, 3);
    tell_active_all(3);
    flow(4);
    assert_int_equal(worker(0)->committed, 4); /* All of those left hold it. */
    assert_int_equal(worker(1)->committed, 4);
}

static void an_orphan_does_not_commit_what_all_hold(void **state)
{
    hold_4("012");
    lose_letters();
    lose(2);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    later(CREW_ORPHAN_MS + 1);
    tell_active_all(2);
    deliver();
    assert_int_equal(worker(0)->committed, 3);
    lease(0);
    assert_int_equal(worker(0)->committed, 4);
}

static void the_last_survivor_settles_with_itself(void **state)
{
    hold_4("012");
    lose_letters();
    lose(0);
    lose(1);
    tell(2, generation(2, GENERATION_FAILURE, 1, 0, "2"));
    assert_int_equal(worker(2)->committed, 3); /* It holds step 4; not before it is active. */
    tell_active(2, 2);
    assert_int_equal(worker(2)->committed, 4);
    flow(7);
    assert_int_equal(worker(2)->committed, 7);
}

static void a_failure_generation_that_holds_settles_and_then_waits(void **state)
{
    hold_4("012");
    lose_letters();
    lose(2);
    tell_all(generation(2, GENERATION_FAILURE, 1, GENERATION_HOLD, "0 1"));
    tell_active_all(2);
    flow(9);
    assert_int_equal(worker(0)->committed, 4);
    assert_int_equal(worker(0)->phase, STEP_IDLE);
    tell_all(generation(3, GENERATION_BOUNDARY, 2, 0, "0 1 3+"));
    flow(4);
    tell_active_all(3);
    flow(5);
    assert_int_equal(worker(3)->committed, 5);
}

/* Subtrees are joined as slices come: one too many, and the plan's are not to be found. */
static void after_a_hold_nobody_has_slices_that_are_not_its_own(void **state)
{
    struct slices mine;

    trained(3, 3);
    crew.stop_at = 4;
    compute(1);
    compute(2);
    lose(0);
    lose_letters();
    tell_all(generation(2, GENERATION_FAILURE, 1, GENERATION_HOLD, "1 2"));
    tell_active_all(2);
    flow(4);
    assert_int_equal(worker(1)->phase, STEP_IDLE);
    assert_int_equal(worker(1)->committed, 3);
    tell_all(generation(3, GENERATION_BOUNDARY, 2, 0, "1 2 3+"));
    linked(1);
    linked(2);
    deliver();
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(worker(i)->group.number, 3);
        compute(i);
        plan_slices(&worker(i)->plan, worker(i)->group.me, &mine);
        assert_memory_equal(&worker(i)->have, &mine, sizeof(mine));
    }
    flow(4);
    tell_active_all(3);
    flow(5);
    assert_int_equal(worker(3)->committed, 5);
}

static void a_member_that_has_entered_says_no_ready_in_the_old_generation(void **state)
{
    hold_4("01");
    lose_letters();
    tell(0, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    reduce(2); /* The one that was left out finds out last. */
    deliver();
    assert_int_equal(worker(2)->committed, 3);
    assert_int_equal(worker(0)->committed, 3);
}

static void a_loss_in_the_middle_of_a_planned_change_goes_back_to_the_active_one(void **state)
{
    trained(3, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2 3+"));
    linked(0);
    linked(1);
    linked(2);
    crew.stop_at = 4;
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        reduce(i);
    }
    crew.cut[2][0] = crew.cut[1][0] = true;
    deliver();
    assert_int_equal(worker(1)->group.number, 2); /* 1 has moved on, 0 has not. */
    assert_int_equal(worker(0)->group.number, 1);
    lose(2);
    memset(crew.cut, 0, sizeof(crew.cut));
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "0 1"));
    deliver();
    assert_int_equal(worker(0)->committed, 4);
    assert_int_equal(worker(3)->phase, STEP_OUT);
    flow(4);
    tell_active_all(3);
    flow(6);
    assert_int_equal(worker(0)->committed, 6);
    assert_int_equal(worker(1)->committed, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(a_laggard_commits_what_the_others_have_committed),
        CREW_CASE(what_all_hold_is_committed_once_the_generation_is_active),
        CREW_CASE(what_not_all_hold_is_dropped_and_only_missing_slices_are_computed),
        CREW_CASE(kept_gradients_stay_where_they_are),
        CREW_CASE(gradients_of_a_laggard_are_those_of_the_step_before),
        CREW_CASE(settling_needs_the_word_of_every_survivor),
        CREW_CASE(a_second_loss_while_settling_settles_again),
        CREW_CASE(an_orphan_does_not_commit_what_all_hold),
        CREW_CASE(the_last_survivor_settles_with_itself),
        CREW_CASE(a_failure_generation_that_holds_settles_and_then_waits),
        CREW_CASE(after_a_hold_nobody_has_slices_that_are_not_its_own),
        CREW_CASE(a_member_that_has_entered_says_no_ready_in_the_old_generation),
        CREW_CASE(a_loss_in_the_middle_of_a_planned_change_goes_back_to_the_active_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
