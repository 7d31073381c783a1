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
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    for (; *who != '\0'; who++) {
        reduce((uint32_t)(*who - '0'));
    }
}

static void expect_same_plan(uint32_t a, uint32_t b)
{
    assert_memory_equal(step_plan(worker(a)), step_plan(worker(b)), sizeof(struct plan));
}

static void a_laggard_commits_what_the_others_have_committed(void **state)
{
    hold_4("012");
    crew.letters[1].lost[0] = crew.letters[2].lost[0] = true; /* 0 hears nobody. */
    deliver();
    assert_int_equal(committed(0), 3);
    assert_int_equal(committed(1), 4);
    lose(2);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    move_all();
    deliver();
    assert_int_equal(committed(0), 4); /* at once: it can have no other outcome */
    assert_int_equal(crew.men[0].commits_n, crew.men[1].commits_n);
    flow(4);
    expect_same_plan(0, 1);
    tell_active_all(2);
    flow(6);
    assert_int_equal(committed(0), 6);
    assert_int_equal(committed(1), 6);
}

static void what_all_hold_is_committed_once_the_generation_is_active(void **state)
{
    hold_4("012");
    lose_letters();
    lose(2); /* It may have committed step 4 before it died. */
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    move_all();
    deliver();
    assert_int_equal(committed(0), 3);
    assert_int_equal(step_phase(worker(0)), STEP_SETTLING);
    tell_active(0, 2);
    assert_int_equal(committed(0), 4);
    assert_int_equal(committed(1), 3);
    tell_active(1, 2);
    assert_int_equal(committed(1), 4);
    assert_int_equal(crew.men[0].computed_n + crew.men[1].computed_n + crew.men[2].computed_n,
                     4 * CREW_SLICES);
    flow(6);
    assert_int_equal(committed(1), 6);
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
    assert_int_equal(next(1), STEP_MOVE); /* no longer the reduce */
    move_all();
    deliver();
    assert_false(step_holds(worker(0)));
    assert_int_equal(committed(0), 3);
    assert_int_equal(step_phase(worker(0)), STEP_COMPUTING);
    expect_same_plan(0, 1);
    flow(4);
    assert_int_equal(crew.men[0].computed_n + crew.men[1].computed_n, missing_n);
    tell_active_all(2);
    assert_int_equal(committed(0), 4);
    assert_int_equal(committed(1), 4);
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
        plan_slices(step_plan(worker(i)), i, &mine);
        for (uint32_t s = 0; s < CREW_SLICES; s++) {
            if (slices_has(&crew.men[i].computed, s)) {
                assert_true(slices_has(&mine, s));
            }
        }
    }
    flow(4);
    tell_active_all(2);
    flow(5);
    assert_int_equal(committed(2), 5);
}

static void gradients_of_a_laggard_are_those_of_the_step_before(void **state)
{
    struct slices mine;

    hold_4("012");
    crew.letters[1].lost[0] = crew.letters[2].lost[0] = true;
    deliver();
    apply(1); /* 1 is at step 4 and has begun step 5; 0 is at 3 with gradients of step 4. */
    compute(1);
    lose(2);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    move_all();
    deliver();
    expect_same_plan(0, 1);
    plan_slices(step_plan(worker(0)), 0, &mine);
    assert_int_equal(slices_count(&crew.men[0].kept), 0);
    apply(0);
    compute(0);
    assert_int_equal(slices_count(&crew.men[0].computed), slices_count(&mine));
    tell_active_all(2);
    flow(5);
    assert_int_equal(committed(0), 5);
    assert_int_equal(committed(1), 5);
}

static void settling_needs_the_word_of_every_survivor(void **state)
{
    hold_4("0");
    lose(2);
    lose_letters();
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(next(0), STEP_MOVE);
    move(0);
    deliver();
    assert_int_equal(step_phase(worker(0)), STEP_SETTLING);
    assert_int_equal(next(0), STEP_HEAR);
    assert_int_equal(next(1), STEP_MOVE);
    move(1);
    deliver();
    assert_int_equal(step_phase(worker(0)), STEP_COMPUTING);
}

static void a_second_loss_while_settling_settles_again(void **state)
{
    trained(4, 3);
    hold(4);
    lose_letters();
    lose(3);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1 2"));
    move_all();
    lose_letters();
    lose(2);
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "0 1"));
    move_all();
    deliver();
    assert_int_equal(committed(0), 3);
    tell_active_all(3);
    flow(4);
    assert_int_equal(committed(0), 4); /* All of those left hold it. */
    assert_int_equal(committed(1), 4);
}

static void an_orphan_does_not_commit_what_all_hold(void **state)
{
    hold_4("012");
    lose_letters();
    lose(2);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    later(CREW_ORPHAN_MS + 1);
    tell_active_all(2);
    move_all();
    deliver();
    assert_int_equal(committed(0), 3);
    lease(0);
    assert_int_equal(committed(0), 4);
}

static void the_last_survivor_settles_with_itself(void **state)
{
    hold_4("012");
    lose_letters();
    lose(0);
    lose(1);
    tell(2, generation(2, GENERATION_FAILURE, 1, 0, "2"));
    move(2);
    assert_int_equal(committed(2), 3); /* It holds step 4; not before it is active. */
    tell_active(2, 2);
    assert_int_equal(committed(2), 4);
    flow(7);
    assert_int_equal(committed(2), 7);
}

static void a_failure_generation_that_holds_settles_and_then_waits(void **state)
{
    hold_4("012");
    lose_letters();
    lose(2);
    tell_all(generation(2, GENERATION_FAILURE, 1, GENERATION_HOLD, "0 1"));
    tell_active_all(2);
    flow(9);
    assert_int_equal(committed(0), 4);
    assert_int_equal(step_phase(worker(0)), STEP_IDLE);
    tell_all(generation(3, GENERATION_BOUNDARY, 2, 0, "0 1 3+"));
    flow(4);
    tell_active_all(3);
    flow(5);
    assert_int_equal(committed(3), 5);
}

/* Subtrees are joined as slices come: one too many, and the plan's are not to be found. */
static void after_a_hold_nobody_has_slices_that_are_not_its_own(void **state)
{
    struct slices mine;

    trained(3, 3);
    compute(1);
    compute(2);
    lose(0);
    lose_letters();
    tell_all(generation(2, GENERATION_FAILURE, 1, GENERATION_HOLD, "1 2"));
    tell_active_all(2);
    flow(4);
    assert_int_equal(step_phase(worker(1)), STEP_IDLE);
    assert_int_equal(committed(1), 3);
    tell_all(generation(3, GENERATION_BOUNDARY, 2, 0, "1 2 3+"));
    links(1);
    links(2);
    deliver();
    move_all();
    for (uint32_t i = 1; i <= 3; i++) {
        stream(i, 3);
    }
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(in_generation(i), 3);
        compute(i);
        plan_slices(step_plan(worker(i)), step_rank(worker(i)), &mine);
        assert_memory_equal(&crew.men[i].kept, &mine, sizeof(mine));
    }
    flow(4);
    tell_active_all(3);
    flow(5);
    assert_int_equal(committed(3), 5);
}

static void a_member_that_has_entered_says_no_ready_in_the_old_generation(void **state)
{
    hold_4("01");
    lose_letters();
    tell(0, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    reduce(2); /* The one that was left out finds out last. */
    deliver();
    assert_int_equal(committed(2), 3);
    assert_int_equal(committed(0), 3);
}

static void a_loss_in_the_middle_of_a_planned_change_goes_back_to_the_active_one(void **state)
{
    trained(3, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2 3+"));
    links(0);
    links(1);
    links(2);
    hold(3);
    crew.letters[1].lost[0] = crew.letters[2].lost[0] = true;
    deliver();
    assert_int_equal(in_generation(1), 2); /* 1 has moved on, 0 has not. */
    assert_int_equal(in_generation(0), 1);
    lose(2);
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "0 1"));
    move_all();
    deliver();
    assert_int_equal(committed(0), 4);
    assert_int_equal(step_phase(worker(3)), STEP_OUT);
    flow(4);
    tell_active_all(3);
    flow(6);
    assert_int_equal(committed(0), 6);
    assert_int_equal(committed(1), 6);
}

/* ---- what can't be ---- */

/* 0 and 1 settle at step 3; 1 says that it stands somewhere else. */
static void settle_with_a_lie(uint64_t step, bool held)
{
    hold_4("");
    lose(2);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    move_all();
    assert_int_equal(crew.letters[1].from, 1);
    crew.letters[1].settle.step = step;
    crew.letters[1].settle.held = held;
    crew.letters[1].settle.held_in = held ? term_make(1, 0) : 0;
    deliver();
}

static void expect_told_to_stop(uint32_t i)
{
    assert_int_equal(step_phase(worker(i)), STEP_STOPPED);
    assert_int_equal(crew.men[i].stops_n, 1);
    assert_int_equal(crew.men[i].difference, STEP_TOLD);
    assert_int_equal(crew.men[i].odd_n, 0);
    assert_int_equal(committed(i), 3);
    assert_int_equal(next(i), STEP_STOP);
}

/* It has not said READY for it: nobody can have committed that. */
static void a_commit_of_what_this_one_does_not_hold_stops_it(void **state)
{
    settle_with_a_lie(4, false);
    expect_told_to_stop(0);
}

static void a_member_that_is_two_steps_ahead_stops_it(void **state)
{
    settle_with_a_lie(5, true);
    expect_told_to_stop(0);
}

/* The others would compute with one that is not there. */
static void a_member_that_is_behind_and_holds_nothing_stops_it(void **state)
{
    settle_with_a_lie(2, false);
    expect_told_to_stop(0);
}

static void a_member_that_is_two_steps_behind_stops_it(void **state)
{
    settle_with_a_lie(1, true);
    expect_told_to_stop(0);
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
        CREW_CASE(a_commit_of_what_this_one_does_not_hold_stops_it),
        CREW_CASE(a_member_that_is_two_steps_ahead_stops_it),
        CREW_CASE(a_member_that_is_behind_and_holds_nothing_stops_it),
        CREW_CASE(a_member_that_is_two_steps_behind_stops_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
