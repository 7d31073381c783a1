/* What a worker must know so that its job can heal: up to which step all had the same state,
 * whether more than half are alike, and how it starts anew when it has stopped. */
#include "unit/core/step_kit.h"

static void heals(uint64_t digest_every, uint64_t save_every)
{
    crew_config((struct step_config){
        .digest_every = digest_every, .heals = true, .save_every = save_every});
}

static void a_state_is_agreed_on_when_the_step_after_it_is_committed(void **state)
{
    heals(2, 0);
    trained(3, 2);
    assert_int_equal(agreed(0), 0);
    flow(3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(agreed(i), 2);
    }
    flow(4);
    assert_int_equal(agreed(0), 2);
    flow(5);
    assert_int_equal(agreed(2), 4);
}

static void without_digests_nothing_is_agreed_on(void **state)
{
    crew_config((struct step_config){0});
    trained(3, 5);
    flow(9);
    assert_int_equal(agreed(0), 0);
    assert_int_equal(crew.men[0].digests_n, 0);
}

/* One of them was started without --heal: it says nothing of its state. */
static void nothing_is_agreed_on_if_one_is_silent(void **state)
{
    heals(0, 3);
    crew_config_one(1, (struct step_config){.save_every = 3});
    trained(3, 5);
    assert_int_equal(committed(0), 5);
    assert_int_equal(agreed(0), 0);
    assert_int_equal(crew.men[1].digests_n, 0);
}

static void every_state_that_is_saved_is_compared(void **state)
{
    heals(0, 3);
    trained(2, 4);
    assert_int_equal(agreed(1), 3);
    want_save(1); /* the next READY says so: step 5 */
    flow(5);
    assert_int_equal(crew.men[0].save_step, 5);
    flow(6);
    assert_int_equal(agreed(0), 5);
    assert_int_equal(agreed(1), 5);
    flow(7);
    assert_int_equal(agreed(0), 6);
    assert_int_equal(crew.men[0].digests_n, 3);
}

static void a_job_that_does_not_heal_compares_no_more_than_before(void **state)
{
    crew_config((struct step_config){.save_every = 1});
    trained(2, 4);
    want_save(1);
    flow(8);
    assert_int_equal(crew.men[0].digests_n, 0);
}

static void a_difference_is_not_agreed_on(void **state)
{
    heals(2, 0);
    trained(3, 3);
    crew.men[1].odd_digest = 1;
    flow(20);
    assert_int_equal(step_phase(worker(0)), STEP_STOPPED);
    assert_int_equal(committed(0), 4);
    assert_int_equal(agreed(0), 2);
    assert_true(crew.men[0].most);
}

static void half_is_not_most(void **state)
{
    heals(1, 0);
    trained(4, 1);
    crew.men[1].odd_digest = crew.men[2].odd_digest = 1;
    flow(20);
    assert_int_equal(crew.men[0].stops_n, 1);
    assert_false(crew.men[0].most);
}

static void the_largest_set_is_not_most_if_it_is_less_than_half(void **state)
{
    heals(1, 0);
    trained(5, 1);
    for (uint8_t i = 2; i < 5; i++) {
        crew.men[i].odd_digest = i;
    }
    flow(20);
    assert_int_equal(crew.men[4].stops_n, 1);
    assert_false(crew.men[4].most);
}

/* What all hold after a loss is committed: then the state before it was that of all. */
static void a_commit_after_a_loss_agrees_as_well(void **state)
{
    heals(3, 0);
    trained(3, 3);
    hold(3);
    lose_letters();
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    move_all();
    deliver();
    assert_int_equal(committed(0), 4);
    assert_int_equal(agreed(0), 3);
    assert_int_equal(agreed(1), 3);
}

static void the_stopped_start_anew_from_what_all_had(void **state)
{
    struct generation *g;

    heals(2, 0);
    trained(3, 3);
    crew.men[1].odd_digest = 1;
    flow(20);
    crew.men[1].odd_digest = 0;
    g = generation(2, GENERATION_FRESH, 1, GENERATION_CHECKPOINTED | GENERATION_HEALS, "0+ 1+ 2+");
    g->base_step = 2;
    tell_all(g);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_LOADING);
        assert_int_equal(step_entered(worker(i)), 0);
        assert_int_equal(agreed(i), 0);
        assert_false(step_diverged(worker(i)));
    }
    flow(2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(committed(i), 2);
        assert_int_equal(agreed(i), 2);
    }
    tell_active_all(2);
    flow(9);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(committed(i), 9);
        assert_int_equal(agreed(i), 8);
        assert_int_not_equal(next(i), STEP_FORGET);
    }
}

static void what_another_checkpoint_starts_from_is_not_agreed_on(void **state)
{
    struct generation *g = generation(1, GENERATION_FRESH, 0, GENERATION_CHECKPOINTED, "0+ 1+");

    heals(0, 0);
    g->base_step = 7;
    tell_all(g);
    flow(0);
    assert_int_equal(committed(1), 7);
    assert_int_equal(agreed(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(a_state_is_agreed_on_when_the_step_after_it_is_committed),
        CREW_CASE(without_digests_nothing_is_agreed_on),
        CREW_CASE(nothing_is_agreed_on_if_one_is_silent),
        CREW_CASE(every_state_that_is_saved_is_compared),
        CREW_CASE(a_job_that_does_not_heal_compares_no_more_than_before),
        CREW_CASE(a_difference_is_not_agreed_on),
        CREW_CASE(half_is_not_most),
        CREW_CASE(the_largest_set_is_not_most_if_it_is_less_than_half),
        CREW_CASE(a_commit_after_a_loss_agrees_as_well),
        CREW_CASE(the_stopped_start_anew_from_what_all_had),
        CREW_CASE(what_another_checkpoint_starts_from_is_not_agreed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
