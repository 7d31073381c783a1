/* Links that break between living members: rounds of one generation. */
#include "unit/core/step_kit.h"

#include <string.h>

static void expect_all(uint32_t n, uint64_t step, uint64_t generation)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(committed(i), step);
        assert_int_equal(in_generation(i), generation);
    }
}

/* ---- what a break costs ---- */

static void a_break_costs_a_round_and_no_generation(void **state)
{
    trained(3, 3);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
        crew.men[i].computed_n = crew.men[i].reports_n = 0;
    }
    reduce(2);
    snap(0, 1);
    assert_int_equal(in_round(0), 1);
    assert_int_equal(in_round(2), 0);
    flow(4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(in_round(i), 1); /* 2 has heard of it. */
        assert_int_equal(crew.men[i].computed_n, 0);
        assert_int_equal(crew.men[i].reports_n, 1); /* of the commit, as always */
        expect_apart(i, "");
    }
    expect_all(3, 4, 1);
    flow(6);
    expect_all(3, 6, 1);
}

static void a_break_in_any_phase_is_survived(void **state)
{
    /* compute, reduce, READY, apply, then the next step */
    for (uint32_t when = 0; when < 40; when++) {
        uint32_t done = 0;

        crew_teardown(NULL);
        crew_setup(NULL);
        crew_config((struct step_config){.digest_every = 2, .check_every = 3});
        trained(3, 2);
        for (uint32_t i = 0; done < when; i = (i + 1) % 3, done++) {
            if (next(i) == STEP_GIVE) {
                compute_one(i);
            } else if (next(i) == STEP_REDUCE) {
                reduce(i);
            } else if (next(i) == STEP_SHOW) {
                apply(i);
            } else if (done % 2 == 0) {
                deliver();
            }
        }
        snap(when % 3, (when + 1) % 3);
        flow(7);
        expect_all(3, 7, 1);
        assert_int_equal(in_round(0), 1);
    }
}

static void several_links_that_break_together_cost_one_round(void **state)
{
    trained(4, 3);
    hold(4);
    snap(0, 1);
    snap(2, 3);
    snap(1, 2);
    flow(5);
    expect_all(4, 5, 1);
    assert_int_equal(in_round(0), 1);
}

static void what_all_hold_is_committed_by_the_round(void **state)
{
    trained(3, 3);
    hold(3);
    crew.letters[0].lost[1] = true;
    deliver();
    assert_int_equal(committed(0), 4);
    assert_int_equal(committed(1), 3);
    snap(0, 1);
    crew.men[1].settled_n = 0;
    flow(4);
    expect_all(3, 4, 1);
    assert_int_equal(crew.men[1].settled_n, 1);
}

static void a_break_while_a_round_is_being_made_is_the_same_round(void **state)
{
    trained(3, 3);
    snap(0, 1);
    broken(0, 2, 0);
    broken(0, 1, 0);
    assert_int_equal(in_round(0), 1);
    claimed(2, term_make(1, 1));
    move_all();
    snap(0, 1);
    assert_int_equal(in_round(0), 2);
    flow(5);
    expect_all(3, 5, 1);
}

/* What it was told of a term that is over. */
static void a_break_of_another_term_is_none(void **state)
{
    struct step_event e = {
        .kind = STEP_ON_BROKEN, .term = term_make(1, 0), .peer = wid_make(2, 0, 1)};

    trained(2, 3);
    snap(0, 1);
    flow(4);
    assert_int_equal(in_round(0), 1);
    event(0, e);
    e.term = term_make(1, 2);
    event(0, e);
    assert_int_equal(in_round(0), 1);
    event(5, e); /* It is in no group at all. */
}

/* ---- what was said in a lower round ---- */

static void readies_of_a_lower_round_do_not_count(void **state)
{
    trained(3, 3);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    reduce(0);
    reduce(1);
    deliver(); /* 2 knows that they are ready, in round 0. */
    snap(0, 1);
    claimed(2, term_make(1, 1));
    move_all();
    deliver();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(next(i), STEP_REDUCE); /* Not all held it: it is dropped. */
    }
    reduce(2);
    assert_int_equal(committed(2), 3);
    reduce(0);
    reduce(1);
    deliver();
    expect_all(3, 4, 1);
}

static void a_ready_that_comes_late_from_a_lower_round_does_not_count(void **state)
{
    struct letter late;

    trained(3, 3);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    reduce(0);
    late = crew.letters[0];
    snap(0, 1);
    claimed(2, term_make(1, 1));
    move_all();
    deliver();
    reduce(1);
    reduce(2);
    crew.letters[crew.letters_n++] = late;
    deliver();
    assert_int_equal(committed(1), 3);
    assert_int_equal(committed(2), 3);
    reduce(0);
    deliver();
    expect_all(3, 4, 1);
}

static void a_result_of_a_lower_round_is_not_taken(void **state)
{
    trained(2, 3);
    compute(0);
    snap(0, 1);
    reduced(0, term_make(1, 0), 4);
    assert_false(step_holds(worker(0)));
    move_all();
    deliver();
    reduced(0, term_make(1, 0), 4);
    assert_false(step_holds(worker(0)));
}

/* All take the same plan: of what each says that it has, also what came after its link broke. */
static void what_is_computed_before_it_settles_counts(void **state)
{
    struct slices mine;

    trained(3, 3);
    compute_one(0);
    mine = crew.men[0].kept;
    snap(0, 1);
    /* It was computing that when the link broke. */
    assert_true(computed(0, 1, 4, CREW_SLICES - 1));
    slices_add(&mine, CREW_SLICES - 1);
    claimed(2, term_make(1, 1));
    move_all();
    assert_int_equal(settle_of(0)->slices[0], mine.bits[0]);
    flow(3);
    for (uint32_t i = 1; i < 3; i++) {
        assert_memory_equal(step_plan(worker(i)), step_plan(worker(0)), sizeof(struct plan));
    }
    flow(5);
    expect_all(3, 5, 1);
}

static void a_settle_is_said_once_in_a_term(void **state)
{
    trained(2, 3);
    snap(0, 1);
    crew.men[0].settles_n = 0;
    move_all();
    event(0, (struct step_event){.kind = STEP_ON_MOVED, .term = step_term(worker(0))});
    event(0, (struct step_event){.kind = STEP_ON_MOVED, .term = term_make(1, 0)});
    assert_int_equal(crew.men[0].settles_n, 1);
}

/* ---- results of different groups ---- */

/* 3 holds the result of generation 1; 0 to 2, left without it, make one of their own and hold that,
 * but their generation never was active. 0 dies, 3 is back: all three hold step 4, not the same. */
static void results_of_different_groups_are_not_committed_as_one(void **state)
{
    trained(4, 3);
    for (uint32_t i = 0; i < 4; i++) {
        compute(i);
    }
    reduce(3);
    lose_letters();
    crew.men[3].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1 2"));
    tell(3, generation(2, GENERATION_FAILURE, 1, 0, "0 1 2"));
    flow(4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(step_holds(worker(i)));
        assert_int_equal(committed(i), 3);
    }
    crew.men[0].gone = true;
    crew.men[3].gone = false;
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "1 2 3"));
    tell_active_all(3);
    move_all();
    assert_int_equal(settle_of(1)->held_in, term_make(2, 0));
    assert_int_equal(settle_of(3)->held_in, term_make(1, 0));
    deliver();
    for (uint32_t i = 1; i < 4; i++) {
        assert_false(step_holds(worker(i)));
        assert_int_equal(committed(i), 3);
    }
    flow(5);
    for (uint32_t i = 1; i < 4; i++) {
        assert_int_equal(committed(i), 5);
    }
    assert_int_equal(crew.made_in[4], term_make(3, 0));
}

/* The same members, and the same rule. 0 says that the result it holds is that of round 0. */
static void results_of_different_rounds_are_not_committed_as_one(void **state)
{
    trained(3, 3);
    snap(0, 1);
    claimed(2, term_make(1, 1));
    move_all();
    deliver();
    hold(3);
    lose_letters();
    snap(1, 2);
    claimed(0, term_make(1, 2));
    move_all();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(settle_of(i)->held_in, term_make(1, 1));
    }
    crew.letters[0].settle.held_in = term_make(1, 0);
    deliver();
    assert_int_equal(committed(0), 4); /* It knows of its own only. */
    assert_int_equal(committed(1), 3);
    assert_int_equal(next(1), STEP_REDUCE);
}

/* ---- those who have gone ahead ---- */

/* 1 hears of the boundary that 0 has moved at by 0's being there: what 1 had to hear of it was lost
 * with the link. */
static void one_that_moved_at_a_boundary_is_followed_by_its_claim(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    links(0);
    links(1);
    hold(2);
    crew.letters[0].lost[1] = true;
    deliver();
    assert_int_equal(in_generation(0), 2);
    assert_int_equal(committed(1), 3);
    broken(1, 0, 0);
    assert_int_equal(step_term(worker(1)), term_make(1, 1));
    crew.men[1].settled_n = 0;
    claimed(1, term_make(2, 0));
    assert_int_equal(committed(1), 4);
    assert_int_equal(in_generation(1), 2);
    assert_int_equal(crew.men[1].settled_n, 1);
    flow(4);
    tell_active_all(2);
    flow(6);
    expect_all(3, 6, 2);
}

static void also_without_a_step_between_them(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, GENERATION_HOLD, "0 1"));
    flow(4);
    tell_active_all(2);
    tell_all(generation(3, GENERATION_BOUNDARY, 2, 0, "0 1 2+"));
    links(0);
    links(1);
    crew.letters[0].lost[1] = true;
    deliver();
    assert_int_equal(in_generation(0), 3);
    assert_int_equal(in_generation(1), 2);
    broken(1, 0, 0);
    flow(4);
    expect_all(3, 4, 3);
    tell_active_all(3);
    flow(5);
    expect_all(3, 5, 3);
}

static void a_claim_of_what_it_was_not_ready_for_is_not_followed(void **state)
{
    trained(2, 3);
    claimed(0, term_make(2, 0)); /* It does not know of that one … */
    tell(0, generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    claimed(0, term_make(2, 0)); /* … and has not said that it could go there. */
    compute(0);
    compute(1);
    reduce(0);
    assert_int_equal(ready_of(0)->newest, 1);
    claimed(0, term_make(2, 0));
    claimed(0, term_make(1, 0)); /* It is there. */
    claimed(0, term_make(0, 9));
    assert_int_equal(step_term(worker(0)), term_make(1, 0));
    assert_int_equal(committed(0), 3);
    claimed(5, term_make(1, 1)); /* It is in no group. */
    assert_int_equal(step_phase(worker(5)), STEP_OUT);
}

/* It said READY, and then the result was dropped in a round: nobody can have committed that. */
static void a_claim_does_not_bring_back_what_a_round_has_dropped(void **state)
{
    trained(3, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1"));
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    reduce(0);
    assert_int_equal(ready_of(0)->newest, 2);
    snap(0, 1);
    claimed(2, term_make(1, 1));
    move_all();
    deliver();
    claimed(0, term_make(2, 0));
    assert_int_equal(committed(0), 3);
    assert_int_equal(in_generation(0), 1);
}

/* ---- leavers ---- */

static void a_leaver_says_in_a_round_where_it_left(void **state)
{
    trained(3, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1"));
    hold(3);
    crew.letters[2].lost[0] = crew.letters[2].lost[1] = true;
    deliver();
    assert_int_equal(step_phase(worker(2)), STEP_PARKED);
    assert_int_equal(committed(0), 3);
    snap(2, 0);
    assert_int_equal(next(2), STEP_SHOW);
    apply(2);
    assert_int_equal(next(2), STEP_MOVE); /* It is needed once more. */
    assert_int_equal(step_phase(worker(2)), STEP_PARKED);
    claimed(1, term_make(1, 1));
    move_all();
    assert_int_equal(settle_of(2)->moved, 2);
    assert_int_equal(settle_of(2)->step, 4);
    flow(4);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(committed(i), 4);
        assert_int_equal(in_generation(i), 2);
    }
    assert_int_equal(step_phase(worker(2)), STEP_PARKED);
    assert_int_equal(committed(2), 4);
    tell_active_all(2);
    flow(6);
    assert_int_equal(committed(1), 6);
    assert_int_equal(next(2), STEP_FORGET);
}

static void a_leaver_that_was_dropped_is_in_no_round(void **state)
{
    trained(3, 3);
    tell(2, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(step_phase(worker(2)), STEP_PARKED);
    claimed(2, term_make(1, 1));
    broken(2, 0, 0);
    assert_int_equal(next(2), STEP_WAIT);
    assert_int_equal(in_round(2), 0);
}

/* ---- newcomers ---- */

static void up_to_the_stream(void)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    links(0);
    links(1);
    hold(2);
    deliver();
    move_all();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(next(i), STEP_STREAM);
    }
}

static void a_newcomer_whose_link_broke_is_given_the_state_again(void **state)
{
    up_to_the_stream();
    stream(0, 0); /* It has given all it had to give … */
    stream(1, 0);
    compute(0);
    snap(0, 2); /* … and 2 has not got it. */
    assert_int_equal(step_phase(worker(2)), STEP_LOADING);
    claimed(1, term_make(2, 1));
    move_all();
    assert_int_equal(settle_of(2)->lacks, 1);
    assert_int_equal(settle_of(0)->lacks, 0);
    deliver();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(next(i), STEP_STREAM);
        assert_memory_equal(step_holders(worker(i)), ((uint8_t[]){1, 1, 0}), 3);
    }
    flow(4);
    assert_int_equal(step_entered(worker(2)), 2);
    tell_active_all(2);
    flow(6);
    expect_all(3, 6, 2);
}

static void one_that_has_the_state_is_not_given_it_again(void **state)
{
    up_to_the_stream();
    stream(0, 0);
    stream(2, 4); /* It has it; 1 does not know. */
    snap(1, 2);
    claimed(0, term_make(2, 1));
    move_all();
    deliver();
    for (uint32_t i = 0; i < 3; i++) {
        assert_memory_equal(step_holders(worker(i)), ((uint8_t[]){1, 1, 1}), 3);
        assert_int_equal(next(i), STEP_GIVE);
    }
    tell_active_all(2);
    flow(6);
    expect_all(3, 6, 2);
}

static void a_state_of_a_lower_round_is_not_taken(void **state)
{
    up_to_the_stream();
    snap(0, 2);
    event(2, (struct step_event){.kind = STEP_ON_STREAMED, .term = term_make(2, 0), .step = 4});
    assert_int_equal(step_phase(worker(2)), STEP_LOADING);
    assert_int_equal(step_entered(worker(2)), 0);
}

static void a_fresh_base_that_nobody_has_is_agreed_on_again(void **state)
{
    struct generation *g = generation(1, GENERATION_FRESH, 0, 0, "0 1 2");

    g->base_step = 40;
    tell_all(g);
    move_all();
    snap(0, 1);
    claimed(2, term_make(1, 1));
    move_all();
    deliver();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(next(i), STEP_BASE);
    }
    flow(0);
    expect_all(3, 40, 1);
    tell_active_all(1);
    flow(42);
    expect_all(3, 42, 1);
}

static void a_fresh_base_that_one_has_is_handed_on_by_it(void **state)
{
    struct generation *g = generation(1, GENERATION_FRESH, 0, 0, "0 1 2");

    g->base_step = 40;
    tell_all(g);
    move_all();
    base(1, 40, "1");
    snap(0, 1);
    claimed(2, term_make(1, 1));
    move_all();
    deliver();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(next(i), STEP_STREAM);
        assert_memory_equal(step_holders(worker(i)), ((uint8_t[]){0, 1, 0}), 3);
    }
    flow(0);
    tell_active_all(1);
    flow(42);
    expect_all(3, 42, 1);
}

/* ---- generations ---- */

static void a_failure_generation_ends_the_rounds_of_the_one_before(void **state)
{
    trained(3, 3);
    hold(3);
    snap(0, 1);
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(step_term(worker(0)), term_make(2, 0));
    claimed(0, term_make(1, 5));
    assert_int_equal(step_term(worker(0)), term_make(2, 0));
    tell_active_all(2);
    flow(5);
    expect_all(2, 5, 2);
}

static void a_generation_that_holds_has_rounds_as_well(void **state)
{
    trained(3, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, GENERATION_HOLD, "0 1 2"));
    flow(4);
    tell_active_all(2);
    snap(0, 2);
    flow(9);
    expect_all(3, 4, 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_IDLE);
        assert_int_equal(in_round(i), 1);
    }
    tell_all(generation(3, GENERATION_BOUNDARY, 2, 0, "0 1 2"));
    flow(5);
    tell_active_all(3);
    flow(5);
    expect_all(3, 5, 3);
}

/* No number is left for a further one: the pair is suspected, so that a generation ends it. */
static void rounds_have_a_last_number(void **state)
{
    trained(2, 3);
    claimed(0, term_make(1, ROUND_MAX));
    claimed(1, term_make(1, ROUND_MAX));
    flow(4);
    expect_all(2, 4, 1);
    assert_int_equal(in_round(0), ROUND_MAX);
    snap(0, 1);
    assert_int_equal(step_term(worker(0)), term_make(1, ROUND_MAX));
    expect_apart(0, "1");
    expect_apart(1, "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(a_break_costs_a_round_and_no_generation),
        CREW_CASE(a_break_in_any_phase_is_survived),
        CREW_CASE(several_links_that_break_together_cost_one_round),
        CREW_CASE(what_all_hold_is_committed_by_the_round),
        CREW_CASE(a_break_while_a_round_is_being_made_is_the_same_round),
        CREW_CASE(a_break_of_another_term_is_none),
        CREW_CASE(readies_of_a_lower_round_do_not_count),
        CREW_CASE(a_ready_that_comes_late_from_a_lower_round_does_not_count),
        CREW_CASE(a_result_of_a_lower_round_is_not_taken),
        CREW_CASE(what_is_computed_before_it_settles_counts),
        CREW_CASE(a_settle_is_said_once_in_a_term),
        CREW_CASE(results_of_different_groups_are_not_committed_as_one),
        CREW_CASE(results_of_different_rounds_are_not_committed_as_one),
        CREW_CASE(one_that_moved_at_a_boundary_is_followed_by_its_claim),
        CREW_CASE(also_without_a_step_between_them),
        CREW_CASE(a_claim_of_what_it_was_not_ready_for_is_not_followed),
        CREW_CASE(a_claim_does_not_bring_back_what_a_round_has_dropped),
        CREW_CASE(a_leaver_says_in_a_round_where_it_left),
        CREW_CASE(a_leaver_that_was_dropped_is_in_no_round),
        CREW_CASE(a_newcomer_whose_link_broke_is_given_the_state_again),
        CREW_CASE(one_that_has_the_state_is_not_given_it_again),
        CREW_CASE(a_state_of_a_lower_round_is_not_taken),
        CREW_CASE(a_fresh_base_that_nobody_has_is_agreed_on_again),
        CREW_CASE(a_fresh_base_that_one_has_is_handed_on_by_it),
        CREW_CASE(a_failure_generation_ends_the_rounds_of_the_one_before),
        CREW_CASE(a_generation_that_holds_has_rounds_as_well),
        CREW_CASE(rounds_have_a_last_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
