/* Planned changes as a worker sees them: the minimum rule, holds, leavers, newcomers. */
#include "unit/core/step_kit.h"

/* ---- boundaries ---- */

static void all_move_on_at_the_same_boundary_once_all_hold_the_next(void **state)
{
    struct generation *g = generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+");

    trained(2, 3);
    part(1, 2, true);
    tell(0, g);
    tell(2, g);
    flow(5); /* 1 has not heard of it. */
    assert_int_equal(in_generation(0), 1);
    assert_int_equal(in_generation(1), 1);
    assert_int_equal(committed(0), 5);
    tell(1, g);
    flow(7); /* It can't reach the newcomer yet. */
    assert_int_equal(in_generation(0), 1);
    assert_int_equal(committed(0), 7);
    part(1, 2, false);
    flow(8);
    assert_int_equal(in_generation(0), 2);
    assert_int_equal(in_generation(1), 2);
    assert_int_equal(committed(0), 8); /* the first of them, not one later */
    assert_int_equal(committed(2), 8); /* The newcomer has the state of that boundary. */
    assert_int_equal(step_entered(worker(2)), 2);
    tell_active_all(2);
    flow(9);
    assert_int_equal(committed(2), 9);
}

static void a_member_that_is_past_the_boundary_stays_with_the_others(void **state)
{
    struct generation *g = generation(2, GENERATION_BOUNDARY, 1, 0, "0 1");

    trained(3, 3);
    flow(3);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    reduce(0); /* READY before it hears of generation 2 */
    for (uint32_t i = 0; i < 3; i++) {
        tell(i, g);
    }
    reduce(1);
    reduce(2);
    deliver();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(committed(i), 4);
        assert_int_equal(in_generation(i), 1);
    }
    flow(5);
    assert_int_equal(in_generation(0), 2);
    assert_int_equal(in_generation(1), 2);
    assert_int_equal(step_phase(worker(2)), STEP_PARKED);
}

/* A level: it has to be said of this generation, not only that nothing is known to be missing. */
static void ready_names_the_next_once_its_newcomers_are_known_to_be_linked(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    links(1);
    hold(2);
    assert_int_equal(ready_of(0)->newest, 1); /* 0 has not looked yet. */
    assert_int_equal(ready_of(1)->newest, 2);
}

static void without_newcomers_no_link_is_waited_for(void **state)
{
    trained(3, 3);
    part(0, 1, true); /* They are members already: a break, if it is one, is for a round. */
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1"));
    hold(3);
    assert_int_equal(ready_of(0)->newest, 2);
    assert_int_equal(ready_of(2)->newest, 2); /* It leaves: it needs no link to anybody. */
}

/* Whoever is slower with its update, or its slices, holds up nobody. */
static void where_nobody_joins_slices_come_before_the_move(void **state)
{
    trained(3, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1"));
    hold(3);
    deliver();
    apply(0);
    assert_int_equal(in_generation(0), 2);
    assert_false(step_there(worker(0)));
    assert_int_equal(next(0), STEP_GIVE);
    compute(0);
    assert_int_equal(next(0), STEP_MOVE);
    apply(1);
    compute(1);
    move(0);
    assert_int_equal(next(0), STEP_REDUCE);
}

static void state_is_streamed_once_the_update_is_made(void **state)
{
    struct generation *g = generation(2, GENERATION_BOUNDARY, 1, 0, "0 1+");

    trained(1, 3);
    tell(0, g);
    tell(1, g);
    links(0);
    hold(1);
    assert_int_equal(in_generation(0), 2);
    assert_int_equal(next(0), STEP_SHOW);
    assert_int_equal(next(1), STEP_MOVE);
    apply(0);
    move_all();
    assert_int_equal(next(0), STEP_STREAM);
    assert_int_equal(next(1), STEP_STREAM);
    assert_int_equal(step_entered(worker(1)), 0);
    stream(1, 4);
    assert_int_equal(step_entered(worker(1)), 2);
    assert_int_equal(committed(1), 4);
    stream(0, 0);
    assert_int_equal(committed(0), 4);
    assert_int_equal(next(0), STEP_GIVE);
}

static void a_generation_that_holds_computes_nothing_and_moves_on(void **state)
{
    uint32_t computed_n;

    trained(3, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, GENERATION_HOLD, "0 1 2"));
    flow(4);
    tell_active_all(2);
    computed_n = crew.men[0].computed_n;
    flow(9);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_IDLE);
        assert_int_equal(committed(i), 4);
    }
    assert_int_equal(crew.men[0].computed_n, computed_n);
    tell_all(generation(3, GENERATION_BOUNDARY, 2, 0, "0 1 2 3+"));
    flow(4);
    tell_active_all(3);
    flow(6);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(committed(i), 6);
        assert_int_equal(in_generation(i), 3);
    }
}

/* ---- leaving ---- */

static void a_leaver_parks_and_forgets_only_when_the_next_is_active(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0"));
    flow(4);
    assert_int_equal(step_phase(worker(1)), STEP_PARKED);
    assert_int_equal(committed(1), 4);
    assert_int_equal(step_entered(worker(1)), 1); /* It still holds the lineage, and says so. */
    assert_int_not_equal(next(1), STEP_FORGET);
    tell_active(1, 1);
    assert_int_not_equal(next(1), STEP_FORGET);
    tell_active(1, 2);
    assert_int_equal(next(1), STEP_FORGET);
    assert_int_equal(step_entered(worker(1)), 0);
}

static void a_leaver_can_be_called_back_by_a_failure(void **state)
{
    trained(3, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1"));
    flow(4);
    assert_int_equal(step_phase(worker(2)), STEP_PARKED);
    crew.men[0].gone = true;
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "1 2"));
    flow(4);
    tell_active_all(3);
    flow(6);
    assert_int_equal(committed(1), 6);
    assert_int_equal(committed(2), 6);
}

static void after_forgetting_a_worker_is_deaf_until_it_has_a_new_life(void **state)
{
    struct generation *g;

    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0"));
    flow(4);
    tell_active_all(2);
    assert_int_equal(next(1), STEP_FORGET);
    g = generation(3, GENERATION_BOUNDARY, 2, 0, "0 1+");
    tell(1, g);
    assert_int_equal(step_phase(worker(1)), STEP_OUT);
    step_reset(worker(1), wid_make(2, 0, 2));
    assert_int_equal(next(1), STEP_WAIT);
    assert_int_equal(committed(1), 0);
    tell(1, g);
    assert_int_equal(step_phase(worker(1)), STEP_OUT); /* That one names its life before. */
    g = generation(4, GENERATION_BOUNDARY, 2, 0, "0 1+");
    g->members[1].worker = wid_make(2, 0, 2);
    tell(1, g);
    assert_int_equal(step_phase(worker(1)), STEP_LOADING);
}

static void a_newcomer_of_a_generation_that_was_overtaken_is_out_again(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    assert_int_equal(step_phase(worker(2)), STEP_LOADING);
    crew.men[1].gone = true;
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "0"));
    assert_int_equal(step_phase(worker(2)), STEP_OUT);
    assert_int_not_equal(next(2), STEP_FORGET);
    tell(2, generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+")); /* It comes once more, late. */
    assert_int_equal(step_phase(worker(2)), STEP_OUT);
    tell_all(generation(4, GENERATION_BOUNDARY, 3, 0, "0 2+"));
    assert_int_equal(step_phase(worker(2)), STEP_LOADING);
}

static void one_left_out_of_an_active_lineage_forgets(void **state)
{
    trained(3, 3);
    tell(0, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell(1, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell(2, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(step_phase(worker(2)), STEP_PARKED);
    assert_int_equal(step_entered(worker(2)), 1);
    tell(2, generation(3, GENERATION_BOUNDARY, 2, 0, "0 1 2+")); /* so 2 has been active */
    assert_int_equal(next(2), STEP_FORGET);
}

/* It has entered a generation that became active without its hearing so, and is left out of a
 * takeover: what that gives up tells it that it holds the state. */
static void a_newcomer_that_did_not_hear_of_active_keeps_its_state_through_a_takeover(void **state)
{
    struct generation *g = generation(2, GENERATION_BOUNDARY, 1, 0, "0 1+");

    trained(1, 3);
    tell(0, g);
    tell(1, g);
    flow(4);
    assert_int_equal(step_entered(worker(1)), 2);
    assert_false(step_confirmed(worker(1)));
    crew.men[0].gone = true;
    tell(1, generation(3, GENERATION_FRESH, 2, 0, "2+"));
    assert_int_equal(step_phase(worker(1)), STEP_PARKED);
    tell(1, generation(4, GENERATION_FAILURE, 2, 0, "1"));
    tell_active(1, 4);
    flow(5);
    assert_int_equal(committed(1), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(all_move_on_at_the_same_boundary_once_all_hold_the_next),
        CREW_CASE(a_member_that_is_past_the_boundary_stays_with_the_others),
        CREW_CASE(ready_names_the_next_once_its_newcomers_are_known_to_be_linked),
        CREW_CASE(without_newcomers_no_link_is_waited_for),
        CREW_CASE(where_nobody_joins_slices_come_before_the_move),
        CREW_CASE(state_is_streamed_once_the_update_is_made),
        CREW_CASE(a_generation_that_holds_computes_nothing_and_moves_on),
        CREW_CASE(a_leaver_parks_and_forgets_only_when_the_next_is_active),
        CREW_CASE(a_leaver_can_be_called_back_by_a_failure),
        CREW_CASE(after_forgetting_a_worker_is_deaf_until_it_has_a_new_life),
        CREW_CASE(a_newcomer_of_a_generation_that_was_overtaken_is_out_again),
        CREW_CASE(one_left_out_of_an_active_lineage_forgets),
        CREW_CASE(a_newcomer_that_did_not_hear_of_active_keeps_its_state_through_a_takeover),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
