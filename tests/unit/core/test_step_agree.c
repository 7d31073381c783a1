/* Members that are not the same: digests of states, check slices, who is named, and what a loss
 * changes. */
#include "unit/core/step_kit.h"

#include <string.h>

static void expect_stopped(uint32_t i, uint64_t step, enum step_difference difference,
                           const char *odd)
{
    const struct crewman *m = &crew.men[i];

    assert_int_equal(step_phase(worker(i)), STEP_STOPPED);
    assert_int_equal(committed(i), step);
    assert_int_equal(m->stops_n, 1);
    assert_int_equal(m->difference, difference);
    assert_int_equal(m->odd_n, strlen(odd));
    for (uint32_t k = 0; k < m->odd_n; k++) {
        assert_int_equal(m->odd[k], odd[k] - '0');
    }
}

static bool is_zero(const uint8_t *hash)
{
    static const uint8_t zero[HASH_BYTES];

    return memcmp(hash, zero, HASH_BYTES) == 0;
}

/* ---- states ---- */

static void a_digest_is_asked_for_at_the_interval_and_said_with_the_next_ready(void **state)
{
    crew_config((struct step_config){.digest_every = 3});
    trained(2, 2);
    assert_int_equal(crew.men[0].digests_n, 0);
    hold(2);
    assert_true(is_zero(ready_of(0)->digest)); /* of step 3, after state 2 */
    deliver();
    apply(0);
    apply(1);
    assert_int_equal(crew.men[0].digests_n, 1);
    hold(2);
    assert_int_equal(ready_of(0)->step, 4);
    assert_false(is_zero(ready_of(0)->digest));
    assert_memory_equal(ready_of(0)->digest, ready_of(1)->digest, HASH_BYTES);
    deliver();
    assert_int_equal(committed(0), 4);
    apply(0);
    apply(1);
    hold(2);
    assert_true(is_zero(ready_of(1)->digest)); /* It is of another state by now. */
}

/* Its driver does not do what is next: it computes and reduces without the digest. */
static void hold_without_digest(uint32_t i)
{
    struct slices mine;

    assert_int_equal(next(i), STEP_DIGEST);
    plan_slices(step_plan(worker(i)), step_rank(worker(i)), &mine);
    for (uint32_t s = slices_next(&mine, 0); s < SLICES_MAX; s = slices_next(&mine, s + 1)) {
        assert_true(computed(i, 1, committed(i) + 1, s));
    }
    reduced(i, term_make(1, 0), committed(i) + 1);
    assert_int_equal(step_phase(worker(i)), STEP_HELD);
}

static void ready_waits_for_the_digest(void **state)
{
    crew_config((struct step_config){.digest_every = 1});
    trained(2, 1);
    hold(2);
    deliver();
    crew.no_digests = true;
    apply(0);
    crew.men[0].readies_n = 0;
    hold_without_digest(0);
    assert_int_equal(crew.men[0].readies_n, 0);
    digest(0);
    assert_int_equal(crew.men[0].readies_n, 1);
}

static void a_state_that_differs_stops_all_and_is_named(void **state)
{
    crew_config((struct step_config){.digest_every = 2});
    trained(3, 3);
    crew.men[1].odd_digest = 1;
    flow(20);
    for (uint32_t i = 0; i < 3; i++) {
        expect_stopped(i, 4, STEP_STATES, "1");
        assert_int_equal(next(i), STEP_STOP);
        assert_int_equal(step_entered(worker(i)), 1); /* still a member */
    }
}

static void where_nobody_is_the_most_all_are_named(void **state)
{
    crew_config((struct step_config){.digest_every = 1});
    trained(4, 1);
    crew.men[1].odd_digest = crew.men[2].odd_digest = 1;
    flow(20);
    expect_stopped(0, 2, STEP_STATES, "0123");
    expect_stopped(3, 2, STEP_STATES, "0123");
}

static void the_largest_set_is_right_even_if_it_is_not_the_half(void **state)
{
    crew_config((struct step_config){.digest_every = 1});
    trained(5, 1);
    for (uint8_t i = 2; i < 5; i++) {
        crew.men[i].odd_digest = i;
    }
    flow(20);
    expect_stopped(4, 2, STEP_STATES, "234");
}

static void one_that_is_alone_differs_from_nobody(void **state)
{
    crew_config((struct step_config){.digest_every = 1, .check_every = 1});
    trained(1, 1);
    crew.men[0].odd_digest = 1;
    flow(5);
    assert_int_equal(committed(0), 5);
    assert_int_equal(crew.men[0].checks_n, 0);
}

static void a_newcomer_vouches_for_the_state_it_was_given(void **state)
{
    crew_config((struct step_config){.digest_every = 4});
    trained(2, 3);
    crew.men[2].odd_digest = 1;
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    flow(4);
    assert_int_equal(committed(2), 4);
    tell_active_all(2);
    flow(8);
    for (uint32_t i = 0; i < 3; i++) {
        expect_stopped(i, 4, STEP_STATES, "2");
    }
}

/* A READY was lost with its link: the round that follows tells. */
static void the_stopped_tell_those_whose_link_broke(void **state)
{
    crew_config((struct step_config){.digest_every = 1});
    trained(3, 1);
    hold(3);
    deliver();
    crew.men[1].odd_digest = 1;
    for (uint32_t i = 0; i < 3; i++) {
        apply(i);
    }
    hold(3);
    crew.letters[1].lost[2] = true; /* That of 1, to 2. */
    deliver();
    expect_stopped(0, 2, STEP_STATES, "1");
    assert_int_equal(step_phase(worker(2)), STEP_HELD);
    snap(1, 2);
    flow(5);
    expect_stopped(0, 2, STEP_STATES, "1"); /* It had said so, once. */
    expect_stopped(2, 2, STEP_STATES, "1");
    assert_int_equal(in_generation(0), 1);
}

/* ---- the last state ---- */

static void the_states_after_the_last_step_are_always_compared(void **state)
{
    crew_config((struct step_config){.steps_n = 3});
    trained(3, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(crew.men[i].digests_n, 1);
        assert_int_equal(step_phase(worker(i)), STEP_FINISHED);
        assert_int_equal(agreed(i), 3);
    }
}

static void a_worker_is_closing_until_all_have_vouched_for_the_last_state(void **state)
{
    crew_config((struct step_config){.steps_n = 3});
    trained(3, 2);
    hold(3);
    deliver();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_CLOSING);
        apply(i);
    }
    assert_int_equal(ready_of(0)->step, 4); /* Nobody will compute that one. */
    assert_false(is_zero(ready_of(0)->digest));
    crew.letters[2].lost[0] = true;
    deliver();
    assert_int_equal(step_phase(worker(0)), STEP_CLOSING);
    assert_int_equal(next(0), STEP_HEAR);
    assert_int_equal(step_phase(worker(1)), STEP_FINISHED);
    snap(0, 2);
    flow(9); /* 1 comes back for it. */
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_FINISHED);
        assert_int_equal(committed(i), 3);
    }
}

static void a_difference_in_the_last_state_is_found(void **state)
{
    crew_config((struct step_config){.steps_n = 3});
    crew.men[2].odd_digest = 1;
    tell_all(generation(1, GENERATION_FRESH, 0, 0, "0 1 2"));
    flow(0);
    tell_active_all(1);
    flow(9);
    for (uint32_t i = 0; i < 3; i++) {
        expect_stopped(i, 3, STEP_STATES, "2");
    }
}

/* A loss does not spare them. */
static void a_difference_in_the_last_state_is_found_by_settling(void **state)
{
    crew_config((struct step_config){.steps_n = 3});
    trained(3, 2);
    crew.men[1].odd_digest = 1;
    hold(3);
    deliver();
    for (uint32_t i = 0; i < 3; i++) {
        apply(i);
    }
    lose_letters();
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    flow(9);
    expect_stopped(0, 3, STEP_STATES, "01");
    expect_stopped(1, 3, STEP_STATES, "01");
}

static void one_that_is_alone_compares_its_last_state_with_nobody(void **state)
{
    crew_config((struct step_config){.steps_n = 3});
    trained(1, 3);
    assert_int_equal(step_phase(worker(0)), STEP_FINISHED);
    assert_int_equal(crew.men[0].digests_n, 0);
}

/* ---- check slices ---- */

static void at_the_interval_one_other_computes_the_check_slice(void **state)
{
    uint32_t total = 0;

    crew_config((struct step_config){.check_every = 4});
    trained(3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        crew.men[i].checks_n = 0;
    }
    flow(3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(crew.men[i].checks_n, 0);
    }
    crew.stop_at = 4;
    hold(3);
    for (uint32_t i = 0; i < 3; i++) {
        total += crew.men[i].checks_n;
        assert_int_equal(is_zero(ready_of(i)->check), crew.men[i].checks_n == 0);
    }
    assert_int_equal(total, 2);
    assert_int_equal(
        crew.men[plan_rank(step_plan(worker(0)), step_check_slice(4, CREW_SLICES))].checks_n, 1);
    deliver();
    assert_int_equal(committed(0), 4);
}

static void nothing_is_reduced_before_the_check_slice_is_there(void **state)
{
    uint32_t other;

    crew_config((struct step_config){.check_every = 1});
    trained(2, 1);
    other = 1 - plan_rank(step_plan(worker(0)), step_check_slice(2, CREW_SLICES));
    crew.men[other].checks_n = 0;
    for (uint32_t n = 0; n < CREW_SLICES / 2; n++) {
        compute_one(other);
    }
    assert_int_equal(crew.men[other].checks_n, 0);
    assert_int_equal(slices_count(&crew.men[other].kept), CREW_SLICES / 2);
    reduced(other, term_make(1, 0), 2);
    assert_false(step_holds(worker(other)));
    assert_int_equal(next(other), STEP_GIVE); /* for the hash only */
    compute_one(other);
    assert_int_equal(crew.men[other].checks_n, 1);
    assert_int_equal(slices_count(&crew.men[other].kept), CREW_SLICES / 2);
    assert_int_equal(next(other), STEP_REDUCE);
}

static void a_gradient_that_differs_stops_all(void **state)
{
    crew_config((struct step_config){.check_every = 5});
    trained(2, 3);
    crew.men[1].odd_check = 1;
    flow(20);
    expect_stopped(0, 4, STEP_GRADIENTS, "01");
    expect_stopped(1, 4, STEP_GRADIENTS, "01");
}

static void every_check_slice_comes_round(void **state)
{
    struct slices seen;

    slices_clear(&seen);
    for (uint64_t step = 8; step <= 8 * 200; step += 8) {
        slices_add(&seen, step_check_slice(step, CREW_SLICES));
    }
    assert_int_equal(slices_count(&seen), CREW_SLICES);
    assert_int_equal(step_check_slice(5, 1), 0);
}

/* In the first step everyone is new but rank 0, and is compared with it. */
static void all_newcomers_compute_what_veterans_compute(void **state)
{
    uint32_t checks_n = 0;

    crew_config((struct step_config){0});
    trained(3, 4);
    for (uint32_t i = 0; i < 3; i++) {
        checks_n += crew.men[i].checks_n;
    }
    assert_int_equal(checks_n, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2 3+ 4+"));
    flow(5);
    tell_active_all(2);
    checks_n = 0;
    for (uint32_t i = 0; i < 5; i++) {
        crew.men[i].checks_n = 0;
    }
    flow(6);
    for (uint32_t i = 0; i < 3; i++) {
        checks_n += crew.men[i].checks_n;
    }
    assert_true(checks_n >= 2); /* so that one newcomer can't be as many */
    assert_true(checks_n <= 3);
    assert_int_equal(crew.men[3].checks_n, 1);
    assert_int_equal(crew.men[4].checks_n, 1);
    flow(7);
    assert_int_equal(crew.men[4].checks_n, 1);
}

static void a_newcomer_that_computes_something_else_is_found_in_its_first_step(void **state)
{
    crew_config((struct step_config){0});
    trained(2, 4);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+ 3+"));
    crew.men[3].odd_check = 1;
    flow(5);
    tell_active_all(2);
    flow(9);
    for (uint32_t i = 0; i < 4; i++) {
        expect_stopped(i, 5, STEP_GRADIENTS, "3");
    }
}

static void one_newcomer_is_outvoted_by_two_veterans(void **state)
{
    crew_config((struct step_config){0});
    trained(4, 4);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2 3 4+"));
    crew.men[4].odd_check = 1;
    flow(5);
    tell_active_all(2);
    flow(9);
    expect_stopped(0, 5, STEP_GRADIENTS, "4");
    expect_stopped(4, 5, STEP_GRADIENTS, "4");
}

/* ---- after a loss ---- */

/* 0 to 2 hold step 3, 1 has another state, and nobody has heard of it. */
static void hold_3_with_an_odd_1(void)
{
    crew_config((struct step_config){.digest_every = 2});
    trained(3, 1);
    hold(3);
    deliver();
    crew.men[1].odd_digest = 1;
    for (uint32_t i = 0; i < 3; i++) {
        apply(i);
    }
    hold(3);
}

static void what_all_hold_is_not_committed_past_a_difference(void **state)
{
    hold_3_with_an_odd_1();
    lose_letters();
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    move_all();
    deliver();
    expect_stopped(0, 2, STEP_STATES, "01");
    expect_stopped(1, 2, STEP_STATES, "01");
}

static void the_difference_of_a_dead_member_stops_nobody(void **state)
{
    hold_3_with_an_odd_1();
    lose_letters();
    crew.men[1].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 2"));
    tell_active_all(2);
    flow(6);
    assert_int_equal(committed(0), 6);
    assert_int_equal(committed(2), 6);
}

static void one_that_has_stopped_stops_those_it_is_left_with(void **state)
{
    hold_3_with_an_odd_1();
    crew.letters[0].lost[2] = crew.letters[1].lost[2] = true; /* 2 hears nobody. */
    deliver();
    expect_stopped(0, 2, STEP_STATES, "1");
    assert_int_equal(step_phase(worker(2)), STEP_HELD);
    crew.men[1].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 2"));
    tell_active_all(2);
    flow(6);
    expect_stopped(0, 2, STEP_STATES, "1"); /* It had said so, once. */
    expect_stopped(2, 2, STEP_TOLD, "");
}

static void a_laggard_commits_what_was_committed_before_it_stops(void **state)
{
    crew_config((struct step_config){.digest_every = 2});
    trained(3, 1);
    hold(3);
    crew.letters[0].lost[2] = crew.letters[1].lost[2] = true; /* 2 hears nobody. */
    deliver();
    crew.men[1].odd_digest = 1;
    apply(0);
    apply(1);
    assert_int_equal(committed(2), 1);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1 2"));
    move_all();
    deliver();
    expect_stopped(0, 2, STEP_STATES, "01");
    expect_stopped(2, 2, STEP_STATES, "01");
}

/* Nobody can have committed a step that it has not said READY for: it is dropped, and compared when
 * it is made again. */
static void one_without_its_digest_holds_nothing(void **state)
{
    crew_config((struct step_config){.digest_every = 2});
    trained(3, 1);
    hold(3);
    deliver();
    crew.no_digests = true;
    for (uint32_t i = 0; i < 3; i++) {
        apply(i);
    }
    digest(0);
    crew.men[1].odd_digest = 1;
    compute(0);
    reduce(0);
    hold_without_digest(1);
    crew.men[2].gone = true;
    lose_letters();
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    move_all();
    assert_int_equal(settle_of(0)->held, 1);
    assert_int_equal(settle_of(1)->held, 0);
    deliver();
    assert_int_equal(step_phase(worker(0)), STEP_COMPUTING);
    digest(1);
    crew.no_digests = false;
    flow(6);
    expect_stopped(0, 2, STEP_STATES, "01");
    expect_stopped(1, 2, STEP_STATES, "01");
}

static void a_check_slice_is_hashed_once_also_if_the_step_is_made_again(void **state)
{
    uint32_t owner;

    crew_config((struct step_config){.check_every = 1});
    trained(3, 1);
    owner = plan_rank(step_plan(worker(0)), step_check_slice(2, CREW_SLICES));
    for (uint32_t i = 0; i < 3; i++) {
        crew.men[i].checks_n = 0;
        compute(i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        crew.men[i].gone = i != owner && crew.men[i].checks_n == 0; /* the one that did not */
    }
    tell_all(generation(2, GENERATION_FAILURE, 1, 0,
                        crew.men[0].gone   ? "1 2"
                        : crew.men[1].gone ? "0 2"
                                           : "0 1"));
    tell_active_all(2);
    flow(2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(crew.men[i].checks_n, !crew.men[i].gone);
        assert_int_equal(committed(i), crew.men[i].gone ? 1 : 2);
    }
}

static void a_fresh_generation_begins_anew(void **state)
{
    crew_config((struct step_config){.digest_every = 1});
    trained(2, 1);
    crew.men[1].odd_digest = 1;
    flow(5);
    assert_int_equal(step_phase(worker(0)), STEP_STOPPED);
    crew.men[1].odd_digest = 0;
    tell_all(generation(2, GENERATION_FRESH, 1, 0, "0 1"));
    flow(0);
    tell_active_all(2);
    flow(3);
    assert_int_equal(committed(0), 3);
    assert_int_equal(committed(1), 3);
}

/* ---- gradients that depend on the group ---- */

static void with_keeps_none_a_loss_makes_all_gradients_void(void **state)
{
    crew_config((struct step_config){.check_every = 1, .keeps_none = true});
    trained(3, 3);
    assert_int_equal(crew.men[0].checks_n, 0);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(slices_count(&crew.men[0].kept), 0);
    assert_false(computed(0, 1, 4, 0)); /* asked for in the group that is no more */
    for (uint32_t i = 0; i < 2; i++) {
        crew.men[i].computed_n = 0;
    }
    tell_active_all(2);
    flow(4);
    assert_int_equal(crew.men[0].computed_n + crew.men[1].computed_n, CREW_SLICES);
    assert_int_equal(committed(1), 4);
}

static void with_keeps_none_a_result_that_all_hold_still_counts(void **state)
{
    crew_config((struct step_config){.keeps_none = true});
    trained(3, 3);
    hold(3);
    lose_letters();
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    move_all();
    deliver();
    tell_active_all(2);
    assert_int_equal(committed(0), 4);
    assert_int_equal(committed(1), 4);
}

/* The group is the same one: they are not void. */
static void with_keeps_none_a_round_drops_no_gradient(void **state)
{
    crew_config((struct step_config){.keeps_none = true});
    trained(3, 3);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
        crew.men[i].computed_n = 0;
    }
    snap(0, 1);
    flow(4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(committed(i), 4);
        assert_int_equal(crew.men[i].computed_n, 0);
    }
}

/* Which slice has a rank's element is the plan's: a kept gradient is right by that plan only. */
static void with_keeps_none_a_round_does_not_change_the_plan(void **state)
{
    struct plan plan;

    crew_config((struct step_config){.keeps_none = true});
    trained(2, 3);
    plan = *step_plan(worker(0));
    compute_one(1); /* 0 has computed nothing yet. */
    compute_one(1);
    snap(0, 1);
    flow(3);
    assert_int_equal(in_round(0), 1);
    assert_memory_equal(step_plan(worker(0)), &plan, sizeof(plan));
    assert_memory_equal(step_plan(worker(1)), &plan, sizeof(plan));
    flow(4);
    assert_int_equal(committed(0), 4);
    assert_int_equal(committed(1), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(a_digest_is_asked_for_at_the_interval_and_said_with_the_next_ready),
        CREW_CASE(ready_waits_for_the_digest),
        CREW_CASE(a_state_that_differs_stops_all_and_is_named),
        CREW_CASE(where_nobody_is_the_most_all_are_named),
        CREW_CASE(the_largest_set_is_right_even_if_it_is_not_the_half),
        CREW_CASE(one_that_is_alone_differs_from_nobody),
        CREW_CASE(a_newcomer_vouches_for_the_state_it_was_given),
        CREW_CASE(the_stopped_tell_those_whose_link_broke),
        CREW_CASE(the_states_after_the_last_step_are_always_compared),
        CREW_CASE(a_worker_is_closing_until_all_have_vouched_for_the_last_state),
        CREW_CASE(a_difference_in_the_last_state_is_found),
        CREW_CASE(a_difference_in_the_last_state_is_found_by_settling),
        CREW_CASE(one_that_is_alone_compares_its_last_state_with_nobody),
        CREW_CASE(at_the_interval_one_other_computes_the_check_slice),
        CREW_CASE(nothing_is_reduced_before_the_check_slice_is_there),
        CREW_CASE(a_gradient_that_differs_stops_all),
        CREW_CASE(every_check_slice_comes_round),
        CREW_CASE(all_newcomers_compute_what_veterans_compute),
        CREW_CASE(a_newcomer_that_computes_something_else_is_found_in_its_first_step),
        CREW_CASE(one_newcomer_is_outvoted_by_two_veterans),
        CREW_CASE(what_all_hold_is_not_committed_past_a_difference),
        CREW_CASE(the_difference_of_a_dead_member_stops_nobody),
        CREW_CASE(one_that_has_stopped_stops_those_it_is_left_with),
        CREW_CASE(a_laggard_commits_what_was_committed_before_it_stops),
        CREW_CASE(one_without_its_digest_holds_nothing),
        CREW_CASE(a_check_slice_is_hashed_once_also_if_the_step_is_made_again),
        CREW_CASE(a_fresh_generation_begins_anew),
        CREW_CASE(with_keeps_none_a_loss_makes_all_gradients_void),
        CREW_CASE(with_keeps_none_a_result_that_all_hold_still_counts),
        CREW_CASE(with_keeps_none_a_round_drops_no_gradient),
        CREW_CASE(with_keeps_none_a_round_does_not_change_the_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
