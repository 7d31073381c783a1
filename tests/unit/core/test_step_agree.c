/* Members that are not the same: digests of states, check slices, who is named, and what a loss
 * changes. */
#include "unit/core/step_kit.h"

#include <string.h>

static void expect_stopped(uint32_t i, uint64_t committed, enum step_difference difference,
                           const char *odd)
{
    const struct crewman *m = &crew.men[i];

    assert_int_equal(worker(i)->phase, STEP_STOPPED);
    assert_int_equal(worker(i)->committed, committed);
    assert_int_equal(m->stops_n, 1);
    assert_int_equal(m->difference, difference);
    assert_int_equal(m->odd_n, strlen(odd));
    for (uint32_t k = 0; k < m->odd_n; k++) {
        assert_int_equal(m->odd[k], odd[k] - '0');
    }
}

/* All compute and reduce the next step; READYs are written, not delivered. */
static void hold(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        compute(i);
    }
    for (uint32_t i = 0; i < n; i++) {
        reduce(i);
    }
}

static const struct msg_ready *ready_of(uint32_t i)
{
    for (uint32_t k = 0; k < crew.letters_n; k++) {
        if (crew.letters[k].from == i && !crew.letters[k].settles) {
            return &crew.letters[k].ready;
        }
    }
    fail_msg("%u has said no READY", i);
    return NULL;
}

static bool is_zero(const uint8_t *hash)
{
    static const uint8_t zero[HASH_BYTES];

    return memcmp(hash, zero, HASH_BYTES) == 0;
}

/* ---- states ---- */

static void a_digest_is_asked_for_at_the_interval_and_said_with_the_next_ready(void **state)
{
    crew_config(3, 0, false);
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
    assert_int_equal(worker(0)->committed, 4);
    apply(0);
    apply(1);
    hold(2);
    assert_true(is_zero(ready_of(1)->digest)); /* It is of another state by now. */
}

static void ready_waits_for_the_digest(void **state)
{
    crew_config(1, 0, false);
    trained(2, 1);
    crew.stop_at = 2;
    hold(2);
    deliver();
    crew.no_digests = true;
    apply(0);
    crew.men[0].readies_n = 0;
    compute(0);
    reduce(0);
    assert_int_equal(worker(0)->phase, STEP_HELD);
    assert_int_equal(crew.men[0].readies_n, 0);
    digest(0);
    assert_int_equal(crew.men[0].readies_n, 1);
}

static void a_state_that_differs_stops_all_and_is_named(void **state)
{
    crew_config(2, 0, false);
    trained(3, 3);
    crew.men[1].odd_digest = 1;
    flow(20);
    for (uint32_t i = 0; i < 3; i++) {
        expect_stopped(i, 4, STEP_STATES, "1");
        assert_false(step_waits(worker(i)));
        assert_true(worker(i)->entered == 1); /* still a member */
    }
}

static void where_nobody_is_the_most_all_are_named(void **state)
{
    crew_config(1, 0, false);
    trained(4, 1);
    crew.men[1].odd_digest = crew.men[2].odd_digest = 1;
    flow(20);
    expect_stopped(0, 2, STEP_STATES, "0123");
    expect_stopped(3, 2, STEP_STATES, "0123");
}

static void the_largest_set_is_right_even_if_it_is_not_the_half(void **state)
{
    crew_config(1, 0, false);
    trained(5, 1);
    for (uint8_t i = 2; i < 5; i++) {
        crew.men[i].odd_digest = i;
    }
    flow(20);
    expect_stopped(4, 2, STEP_STATES, "234");
}

static void one_that_is_alone_differs_from_nobody(void **state)
{
    crew_config(1, 1, false);
    trained(1, 1);
    crew.men[0].odd_digest = 1;
    flow(5);
    assert_int_equal(worker(0)->committed, 5);
    assert_int_equal(crew.men[0].checks_n, 0);
}

static void a_newcomer_vouches_for_the_state_it_was_given(void **state)
{
    crew_config(4, 0, false);
    trained(2, 3);
    crew.men[2].odd_digest = 1;
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    flow(4);
    assert_int_equal(worker(2)->committed, 4);
    tell_active_all(2);
    flow(8);
    for (uint32_t i = 0; i < 3; i++) {
        expect_stopped(i, 4, STEP_STATES, "2");
    }
}

static void the_stopped_repeat_their_ready_until_all_have_heard(void **state)
{
    crew_config(1, 0, false);
    trained(2, 1);
    hold(2);
    deliver();
    crew.men[1].odd_digest = 1;
    apply(0);
    apply(1);
    hold(2);
    crew.cut[0][1] = true;
    deliver();
    expect_stopped(0, 2, STEP_STATES, "01");
    assert_int_equal(worker(1)->phase, STEP_HELD);
    crew.cut[0][1] = false;
    say_again(0);
    deliver();
    expect_stopped(1, 2, STEP_STATES, "01");
}

/* ---- check slices ---- */

static void at_the_interval_one_other_computes_the_check_slice(void **state)
{
    uint32_t total = 0;

    crew_config(0, 4, false);
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
        crew.men[plan_rank(&worker(0)->plan, step_check_slice(4, CREW_SLICES))].checks_n, 1);
    deliver();
    assert_int_equal(worker(0)->committed, 4);
}

static void nothing_is_reduced_before_the_check_slice_is_there(void **state)
{
    uint32_t owner = 0;

    crew_config(0, 1, false);
    trained(2, 1);
    owner = plan_rank(&worker(0)->plan, step_check_slice(2, CREW_SLICES));
    struct crewman *m = &crew.men[1 - owner];
    uint64_t step = m->check_step;

    assert_int_equal(step, 2);
    m->check_step = 0; /* compute() leaves it out. */
    compute(1 - owner);
    assert_int_equal(m->reduce_step, 0);
    m->check_step = step;
    check(1 - owner);
    assert_int_equal(m->reduce_step, 2);
}

static void a_gradient_that_differs_stops_all(void **state)
{
    crew_config(0, 5, false);
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

    crew_config(0, 0, false);
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
    crew_config(0, 0, false);
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
    crew_config(0, 0, false);
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
    crew_config(2, 0, false);
    trained(3, 1);
    hold(3);
    deliver();
    crew.men[1].odd_digest = 1;
    for (uint32_t i = 0; i < 3; i++) {
        apply(i);
    }
    hold(3);
    lose_letters();
}

static void what_all_hold_is_not_committed_past_a_difference(void **state)
{
    hold_3_with_an_odd_1();
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    deliver();
    expect_stopped(0, 2, STEP_STATES, "01");
    expect_stopped(1, 2, STEP_STATES, "01");
}

static void the_difference_of_a_dead_member_stops_nobody(void **state)
{
    hold_3_with_an_odd_1();
    crew.men[1].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 2"));
    tell_active_all(2);
    flow(6);
    assert_int_equal(worker(0)->committed, 6);
    assert_int_equal(worker(2)->committed, 6);
}

static void one_that_has_stopped_stops_those_it_is_left_with(void **state)
{
    hold_3_with_an_odd_1();
    crew.cut[1][2] = crew.cut[0][2] = true;
    for (uint32_t i = 0; i < 3; i++) {
        say_again(i);
    }
    deliver();
    expect_stopped(0, 2, STEP_STATES, "1");
    assert_int_equal(worker(2)->phase, STEP_HELD);
    crew.men[1].gone = true;
    memset(crew.cut, 0, sizeof(crew.cut));
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 2"));
    tell_active_all(2);
    flow(6);
    expect_stopped(0, 2, STEP_STATES, "1"); /* It had said so, once. */
    expect_stopped(2, 2, STEP_TOLD, "");
}

static void a_laggard_commits_what_was_committed_before_it_stops(void **state)
{
    crew_config(2, 0, false);
    trained(3, 1);
    hold(3);
    crew.cut[0][2] = crew.cut[1][2] = true; /* 2 hears nobody. */
    deliver();
    crew.men[1].odd_digest = 1;
    apply(0);
    apply(1);
    assert_int_equal(worker(2)->committed, 1);
    memset(crew.cut, 0, sizeof(crew.cut));
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1 2"));
    deliver();
    expect_stopped(0, 2, STEP_STATES, "01");
    expect_stopped(2, 2, STEP_STATES, "01");
}

/* Nobody can have committed a step that it has not said READY for: it is dropped, and compared when
 * it is made again. */
static void one_without_its_digest_holds_nothing(void **state)
{
    crew_config(2, 0, false);
    trained(3, 1);
    hold(3);
    deliver();
    crew.no_digests = true;
    for (uint32_t i = 0; i < 3; i++) {
        apply(i);
    }
    digest(0);
    crew.men[1].odd_digest = 1;
    hold(3);
    crew.men[2].gone = true;
    lose_letters();
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    deliver();
    assert_int_equal(worker(0)->phase, STEP_COMPUTING);
    digest(1);
    crew.no_digests = false;
    flow(6);
    expect_stopped(0, 2, STEP_STATES, "01");
    expect_stopped(1, 2, STEP_STATES, "01");
}

static void a_check_slice_is_hashed_once_also_if_the_step_is_made_again(void **state)
{
    uint32_t owner;

    crew_config(0, 1, false);
    trained(3, 1);
    owner = plan_rank(&worker(0)->plan, step_check_slice(2, CREW_SLICES));
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
        assert_int_equal(worker(i)->committed, crew.men[i].gone ? 1 : 2);
    }
}

static void a_fresh_generation_begins_anew(void **state)
{
    crew_config(1, 0, false);
    trained(2, 1);
    crew.men[1].odd_digest = 1;
    flow(5);
    assert_int_equal(worker(0)->phase, STEP_STOPPED);
    crew.men[1].odd_digest = 0;
    tell_all(generation(2, GENERATION_FRESH, 1, 0, "0 1"));
    flow(0);
    tell_active_all(2);
    flow(3);
    assert_int_equal(worker(0)->committed, 3);
    assert_int_equal(worker(1)->committed, 3);
}

/* ---- gradients that depend on the group ---- */

static void with_keeps_none_a_loss_makes_all_gradients_void(void **state)
{
    struct step_event late = {.kind = STEP_ON_COMPUTED, .generation = 1, .step = 4, .slice = 0};
    struct step_effects none = {NULL};

    crew_config(0, 1, true);
    trained(3, 3);
    assert_int_equal(crew.men[0].checks_n, 0);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    late.now_ms = crew.now_ms;
    step_event(worker(0), &late, &none); /* asked for in the group that is no more */
    assert_int_equal(slices_count(&worker(0)->have), 0);
    for (uint32_t i = 0; i < 2; i++) {
        slices_clear(&crew.men[i].computed);
        crew.men[i].computed_n = 0;
    }
    tell_active_all(2);
    flow(4);
    assert_int_equal(crew.men[0].computed_n + crew.men[1].computed_n, CREW_SLICES);
    assert_int_equal(worker(1)->committed, 4);
}

static void with_keeps_none_a_result_that_all_hold_still_counts(void **state)
{
    crew_config(0, 0, true);
    trained(3, 3);
    crew.stop_at = 4;
    hold(3);
    lose_letters();
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    deliver();
    tell_active_all(2);
    assert_int_equal(worker(0)->committed, 4);
    assert_int_equal(worker(1)->committed, 4);
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
        CREW_CASE(the_stopped_repeat_their_ready_until_all_have_heard),
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
