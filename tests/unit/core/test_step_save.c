/* States that are saved: whose words end a checkpoint, what makes an attempt void, and what is
 * saved instead. */
#include "unit/core/step_kit.h"

static void saves(enum saves_by by, uint64_t every, uint64_t steps_n)
{
    crew_config(
        (struct step_config){.save_every = every, .saves = {by, SAVES_NEVER}, .steps_n = steps_n});
}

static void keeps(enum saves_by by)
{
    crew_config((struct step_config){.saves = {SAVES_NEVER, by}});
}

static uint64_t saved(uint32_t i)
{
    return crew.men[i].saved_step[SAVE_DISK];
}

static uint32_t unsaved(uint32_t i)
{
    return crew.men[i].unsaved_n[SAVE_DISK];
}

/* Worker `gone` is lost; those named are left. */
static void lose(uint32_t gone, uint64_t number, uint64_t from, const char *left)
{
    crew.men[gone].gone = true;
    lose_letters();
    tell_all(generation(number, GENERATION_FAILURE, from, 0, left));
    tell_active_all(number);
}

/* ---- whose words ---- */

static void it_is_ended_by_the_first_writer_when_all_have_said_durable(void **state)
{
    saves(SAVES_ALL, 3, 0);
    trained(3, 3);
    written(0, SAVE_DISK, SAVE_DURABLE);
    written(1, SAVE_DISK, SAVE_DURABLE);
    flow(5);
    assert_int_equal(saved(0), 0);
    written(2, SAVE_DISK, SAVE_DURABLE);
    assert_int_equal(ready_of(2)->saved[SAVE_DISK].how, SAVE_DURABLE); /* It does not wait. */
    deliver();
    assert_int_equal(saved(0), 3);
    assert_true(saved(1) == 0 && saved(2) == 0);
    written(0, SAVE_DISK, SAVE_WHOLE);
    flow(6);
    assert_int_equal(crew.men[0].cut[SAVE_DISK].step, 6);
    assert_int_equal(unsaved(0), 0);
}

static void who_has_no_shard_counts_for_nothing(void **state)
{
    saves(SAVES_ALL, 3, 0);
    crew.shards_n = 2;
    trained(3, 3);
    written(0, SAVE_DISK, SAVE_DURABLE);
    written(1, SAVE_DISK, SAVE_DURABLE);
    deliver();
    assert_int_equal(saved(0), 3);
}

static void of_one_writer_nobody_is_asked(void **state)
{
    saves(SAVES_ONE, 3, 0);
    trained(3, 3);
    written(0, SAVE_DISK, SAVE_WHOLE); /* Its driver ended it at once. */
    flow(6);
    assert_int_equal(saved(0), 0);
    assert_int_equal(crew.men[0].cut[SAVE_DISK].step, 6);
    assert_true(unsaved(0) == 0 && unsaved(1) == 0);
}

static void a_word_that_comes_before_the_own_cut_counts(void **state)
{
    saves(SAVES_ALL, 3, 0);
    trained(2, 2);
    hold(2);
    deliver();
    apply(1);
    cut(1);
    written(1, SAVE_DISK, SAVE_DURABLE);
    deliver();
    apply(0);
    cut(0);
    written(0, SAVE_DISK, SAVE_DURABLE);
    assert_int_equal(saved(0), 3);
}

static void words_outlast_a_round(void **state)
{
    saves(SAVES_ALL, 3, 0);
    trained(2, 3);
    written(1, SAVE_DISK, SAVE_DURABLE);
    snap(0, 1); /* It was on its way. */
    flow(4);
    written(0, SAVE_DISK, SAVE_DURABLE);
    assert_int_equal(saved(0), 3);
}

/* ---- void ---- */

static void one_that_fails_makes_it_void_and_the_next_step_is_saved(void **state)
{
    saves(SAVES_ALL, 10, 0);
    trained(2, 10);
    written(0, SAVE_DISK, SAVE_DURABLE);
    written(1, SAVE_DISK, SAVE_FAILED);
    deliver();
    assert_int_equal(unsaved(0), 1);
    assert_int_equal(crew.men[0].unsaved[SAVE_DISK], STEP_UNSAVED_FAILED);
    flow(11);
    assert_int_equal(crew.men[1].cut[SAVE_DISK].step, 11);
    written(0, SAVE_DISK, SAVE_DURABLE);
    written(1, SAVE_DISK, SAVE_DURABLE);
    deliver();
    assert_int_equal(saved(0), 11);
}

static void one_that_fails_again_waits_for_the_next_that_is_due(void **state)
{
    saves(SAVES_ALL, 10, 0);
    trained(1, 10);
    written(0, SAVE_DISK, SAVE_FAILED);
    flow(11);
    written(0, SAVE_DISK, SAVE_FAILED);
    flow(19);
    assert_int_equal(crew.men[0].cut[SAVE_DISK].step, 11);
    flow(20);
    assert_int_equal(crew.men[0].cut[SAVE_DISK].step, 20);
}

static void one_that_still_writes_the_last_one_takes_no_part(void **state)
{
    saves(SAVES_ALL, 3, 0);
    trained(3, 3);
    written(0, SAVE_DISK, SAVE_DURABLE);
    written(1, SAVE_DISK, SAVE_DURABLE);
    flow(6); /* Worker 2 is slow, and 0 waits for it; 1 could. */
    assert_int_equal(crew.men[0].unsaved[SAVE_DISK], STEP_UNSAVED_BUSY);
    assert_int_equal(crew.men[1].cut[SAVE_DISK].step, 6);
    written(2, SAVE_DISK, SAVE_DURABLE);
    deliver();
    assert_int_equal(saved(0), 3);
}

static void a_writer_that_is_lost_makes_it_void(void **state)
{
    saves(SAVES_ALL, 10, 0);
    trained(3, 10);
    written(0, SAVE_DISK, SAVE_DURABLE);
    written(1, SAVE_DISK, SAVE_DURABLE);
    deliver();
    lose(2, 2, 1, "0 1");
    flow(10);
    assert_int_equal(unsaved(0), 1);
    assert_int_equal(crew.men[0].unsaved[SAVE_DISK], STEP_UNSAVED_LOST);
    flow(11);
    assert_int_equal(crew.men[0].cut[SAVE_DISK].step, 11);
    written(0, SAVE_DISK, SAVE_DURABLE);
    written(1, SAVE_DISK, SAVE_DURABLE);
    deliver();
    assert_int_equal(saved(0), 11);
}

static void one_that_is_lost_after_its_word_is_not_missed(void **state)
{
    saves(SAVES_ALL, 10, 0);
    trained(3, 10);
    written(2, SAVE_DISK, SAVE_DURABLE);
    deliver();
    lose(2, 2, 1, "0 1");
    flow(11);
    written(1, SAVE_DISK, SAVE_DURABLE);
    written(0, SAVE_DISK, SAVE_DURABLE);
    deliver();
    assert_int_equal(saved(0), 10);
    assert_int_equal(unsaved(0), 0);
}

static void a_leaver_counts_if_it_has_said_durable(void **state)
{
    for (int said = 0; said < 2; said++) {
        crew_teardown(state);
        crew_setup(state);
        saves(SAVES_ALL, 10, 0);
        trained(2, 10);
        if (said) {
            written(1, SAVE_DISK, SAVE_DURABLE);
            deliver();
        }
        tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0"));
        flow(11);
        assert_int_equal(in_generation(0), 2);
        written(0, SAVE_DISK, SAVE_DURABLE);
        assert_int_equal(saved(0), said ? 10 : 0);
        assert_int_equal(unsaved(0), said ? 0 : 1);
        tell_active(0, 2);
        flow(12);
        assert_int_equal(crew.men[0].cut[SAVE_DISK].step, said ? 10 : 12);
    }
}

static void with_the_first_writer_it_is_lost_unless_it_said_that_it_is_whole(void **state)
{
    for (int whole = 0; whole < 2; whole++) {
        crew_teardown(state);
        crew_setup(state);
        saves(SAVES_ALL, 10, 0);
        trained(2, 10);
        written(1, SAVE_DISK, SAVE_DURABLE);
        deliver();
        written(0, SAVE_DISK, SAVE_DURABLE);
        assert_int_equal(saved(0), 10);
        if (whole) {
            written(0, SAVE_DISK, SAVE_WHOLE);
        }
        flow(11);
        lose(0, 2, 1, "1");
        flow(12);
        assert_int_equal(crew.men[1].cut[SAVE_DISK].step, whole ? 10 : 12);
    }
}

static void each_host_has_its_own(void **state)
{
    struct generation *g;

    saves(SAVES_HOST, 3, 0);
    g = generation(1, GENERATION_FRESH, 0, 0, "0 1 2");
    for (uint32_t i = 0; i < 3; i++) {
        g->members[i].host = i == 2 ? 8 : 7;
    }
    tell_all(g);
    flow(0);
    tell_active_all(1);
    flow(3);
    written(2, SAVE_DISK, SAVE_DURABLE);
    assert_int_equal(saved(2), 3);
    written(0, SAVE_DISK, SAVE_DURABLE);
    assert_int_equal(saved(0), 0);
    written(1, SAVE_DISK, SAVE_DURABLE);
    deliver();
    assert_int_equal(saved(0), 3);
}

/* All on one host; the last one has a folder of its own. */
static void in_containers(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        for (int k = 0; k < SAVES_N; k++) {
            worker(i)->config.folders[k] = i == n - 1 ? 8 : 7;
        }
    }
}

static void each_folder_has_its_own_whatever_the_host(void **state)
{
    saves(SAVES_HOST, 3, 0);
    in_containers(3);
    trained(3, 3);
    written(2, SAVE_DISK, SAVE_DURABLE);
    assert_int_equal(saved(2), 3);
    written(0, SAVE_DISK, SAVE_DURABLE);
    assert_int_equal(saved(0), 0);
    written(1, SAVE_DISK, SAVE_DURABLE);
    deliver();
    assert_int_equal(saved(0), 3);
}

static void a_newcomer_in_another_folder_keeps_what_it_got_when_it_knows_that(void **state)
{
    keeps(SAVES_HOST);
    in_containers(2);
    trained(1, 1);
    written(0, SAVE_MEMORY, SAVE_WHOLE);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1+"));
    flow(2);
    written(0, SAVE_MEMORY, SAVE_WHOLE);
    flow(3);
    tell_active_all(2);
    assert_int_equal(crew.men[1].cut[SAVE_MEMORY].step, 2);
    flow(3);
    assert_int_equal(committed(0), 2);
    written(1, SAVE_MEMORY, SAVE_WHOLE);
    flow(3);
    assert_true(committed(0) == 3 && committed(1) == 3);
}

static void who_saves_nothing_is_waited_for_by_nobody(void **state)
{
    saves(SAVES_ALL, 3, 0);
    worker(1)->config.saves[SAVE_DISK] = SAVES_NEVER;
    worker(0)->config.folders[SAVE_DISK] = 7;
    trained(2, 3);
    written(0, SAVE_DISK, SAVE_DURABLE);
    assert_int_equal(saved(0), 3);
}

/* ---- the last one ---- */

static void the_last_word_waits_for_the_last_state(void **state)
{
    saves(SAVES_ALL, 0, 3);
    trained(2, 3);
    assert_true(step_phase(worker(0)) == STEP_CLOSING && next(0) == STEP_HEAR);
    written(0, SAVE_DISK, SAVE_DURABLE);
    written(1, SAVE_DISK, SAVE_DURABLE);
    flow(3);
    assert_int_equal(saved(0), 3);
    assert_int_equal(step_phase(worker(1)), STEP_CLOSING);
    written(0, SAVE_DISK, SAVE_WHOLE);
    flow(3);
    assert_true(step_phase(worker(0)) == STEP_FINISHED && step_phase(worker(1)) == STEP_FINISHED);
}

static void after_a_loss_the_first_who_is_left_saves_it_alone(void **state)
{
    saves(SAVES_ALL, 0, 3);
    trained(3, 3);
    lose(0, 2, 1, "1 2");
    flow(3);
    assert_int_equal(step_phase(worker(1)), STEP_CLOSING);
    assert_int_equal(next(1), STEP_HEAR); /* It still writes what is of no use. */
    written(1, SAVE_DISK, SAVE_FAILED);
    flow(3);
    assert_int_equal(crew.men[1].cut[SAVE_DISK].generation, 2);
    assert_int_equal(crew.men[2].cut[SAVE_DISK].generation, 1);
    written(1, SAVE_DISK, SAVE_WHOLE);
    written(2, SAVE_DISK, SAVE_DURABLE);
    flow(3);
    assert_true(step_phase(worker(1)) == STEP_FINISHED && step_phase(worker(2)) == STEP_FINISHED);
}

static void who_was_given_the_last_state_saves_it_if_its_writer_is_lost(void **state)
{
    saves(SAVES_ALL, 0, 3);
    trained(1, 2);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1+"));
    flow(3);
    tell_active_all(2);
    assert_true(committed(1) == 3 && step_phase(worker(1)) == STEP_CLOSING);
    assert_int_equal(crew.men[0].cut[SAVE_DISK].step, 3); /* It still writes. */
    lose(0, 3, 2, "1");
    flow(3);
    assert_int_equal(crew.men[1].cut[SAVE_DISK].generation, 3);
    written(1, SAVE_DISK, SAVE_WHOLE);
    flow(3);
    assert_int_equal(step_phase(worker(1)), STEP_FINISHED);
}

/* A newcomer may be the first by rank, and have no part in what the others write. */
static void who_was_given_the_last_state_saves_it_if_its_writer_fails(void **state)
{
    saves(SAVES_ALL, 0, 3);
    trained(1, 2);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "1+ 0"));
    flow(3);
    tell_active_all(2);
    flow(3);
    assert_int_equal(step_phase(worker(1)), STEP_CLOSING);
    written(0, SAVE_DISK, SAVE_FAILED);
    flow(3);
    assert_int_equal(step_phase(worker(1)), STEP_CLOSING);
    assert_true(crew.men[1].cut_alone[SAVE_DISK]);
    written(1, SAVE_DISK, SAVE_WHOLE);
    flow(3);
    assert_true(step_phase(worker(0)) == STEP_FINISHED && step_phase(worker(1)) == STEP_FINISHED);
}

/* Workers 0 and 1 write the last state, and 2 was given it, as the first by rank. Worker 1 fails,
 * and 0 gives up. late: its own shard is durable only after that. */
static void another_writer_fails(bool late)
{
    saves(SAVES_ALL, 0, 3);
    trained(2, 2);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "2+ 0 1"));
    flow(3);
    tell_active_all(2);
    flow(3);
    if (!late) {
        written(0, SAVE_DISK, SAVE_DURABLE);
        flow(3);
    }
    written(1, SAVE_DISK, SAVE_FAILED);
    flow(3);
    if (late) {
        written(0, SAVE_DISK, SAVE_DURABLE);
        flow(3);
    }
    assert_int_equal(step_phase(worker(2)), STEP_CLOSING);
    assert_true(crew.men[2].cut_alone[SAVE_DISK]);
    written(2, SAVE_DISK, SAVE_WHOLE);
    flow(3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_FINISHED);
    }
}

static void who_was_given_the_last_state_saves_it_if_another_writer_fails(void **state)
{
    another_writer_fails(false);
}

static void who_was_given_the_last_state_saves_it_if_another_writer_fails_first(void **state)
{
    another_writer_fails(true);
}

static uint8_t fault(uint32_t i)
{
    struct report r = {0};

    step_report(worker(i), &r);
    return r.fault;
}

static void who_was_given_the_last_state_in_another_folder_saves_it_too(void **state)
{
    saves(SAVES_HOST, 0, 3);
    in_containers(2);
    trained(1, 2);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1+"));
    flow(3);
    tell_active_all(2);
    flow(3);
    assert_true(committed(1) == 3 && step_phase(worker(1)) == STEP_CLOSING);
    assert_int_equal(crew.men[1].cut[SAVE_DISK].step, 3);
    written(1, SAVE_DISK, SAVE_WHOLE);
    written(0, SAVE_DISK, SAVE_WHOLE);
    flow(3);
    assert_int_equal(step_phase(worker(1)), STEP_FINISHED);
}

static void what_nobody_can_save_ends_the_run_with_a_fault(void **state)
{
    saves(SAVES_ALL, 0, 3);
    trained(2, 3);
    written(1, SAVE_DISK, SAVE_FAILED);
    flow(3);
    written(0, SAVE_DISK, SAVE_FAILED); /* It was told to stop, and then tried alone. */
    flow(3);
    written(0, SAVE_DISK, SAVE_FAILED);
    flow(3);
    assert_true(step_phase(worker(0)) == STEP_FINISHED && step_phase(worker(1)) == STEP_FINISHED);
    assert_true(fault(0) == FAULT_UNSAVED && fault(1) == FAULT_UNSAVED);
}

static void what_one_host_could_save_is_saved(void **state)
{
    struct generation *g;

    saves(SAVES_HOST, 0, 3);
    g = generation(1, GENERATION_FRESH, 0, 0, "0 1");
    g->members[1].host = 8;
    tell_all(g);
    flow(0);
    tell_active_all(1);
    flow(3);
    written(1, SAVE_DISK, SAVE_FAILED);
    written(0, SAVE_DISK, SAVE_WHOLE);
    flow(3);
    written(1, SAVE_DISK, SAVE_FAILED); /* It has tried again. */
    flow(3);
    assert_true(step_phase(worker(0)) == STEP_FINISHED && step_phase(worker(1)) == STEP_FINISHED);
    assert_true(fault(0) == FAULT_NONE && fault(1) == FAULT_NONE);
}

static void who_writes_for_long_says_so(void **state)
{
    crew_config(
        (struct step_config){.saves = {SAVES_ALL, SAVES_NEVER}, .steps_n = 3, .silence_ms = 400});
    trained(2, 3);
    written(0, SAVE_DISK, SAVE_DURABLE);
    for (int i = 0; i < 10; i++) {
        later(200);
        lease(0);
        lease(1);
        deliver();
    }
    expect_apart(0, "");
    written(1, SAVE_DISK, SAVE_DURABLE);
    flow(3);
    written(0, SAVE_DISK, SAVE_WHOLE);
    flow(3);
    assert_int_equal(step_phase(worker(0)), STEP_FINISHED);
}

/* ---- in memory ---- */

static void nothing_is_reduced_before_the_state_before_is_kept(void **state)
{
    keeps(SAVES_ALL);
    trained(2, 1);
    flow(2);
    assert_true(committed(0) == 1 && next(0) == STEP_HEAR && next(1) == STEP_HEAR);
    written(1, SAVE_MEMORY, SAVE_DURABLE);
    written(0, SAVE_MEMORY, SAVE_DURABLE);
    assert_int_equal(next(1), STEP_REDUCE);
    assert_int_equal(next(0), STEP_HEAR);
    deliver();
    assert_int_equal(crew.men[0].saved_step[SAVE_MEMORY], 1);
    written(0, SAVE_MEMORY, SAVE_WHOLE);
    flow(2);
    assert_true(committed(0) == 2 && committed(1) == 2);
}

static void after_a_loss_one_keeps_it_for_all(void **state)
{
    keeps(SAVES_ALL);
    trained(3, 1);
    written(0, SAVE_MEMORY, SAVE_DURABLE);
    written(1, SAVE_MEMORY, SAVE_DURABLE);
    deliver();
    lose(2, 2, 1, "0 1");
    flow(2);
    assert_int_equal(crew.men[0].cut[SAVE_MEMORY].generation, 2);
    assert_int_equal(committed(0), 1);
    written(0, SAVE_MEMORY, SAVE_WHOLE);
    flow(2);
    assert_true(committed(0) == 2 && committed(1) == 2);
}

static void one_that_came_to_it_after_the_loss_says_that_it_has_no_part(void **state)
{
    keeps(SAVES_ALL);
    trained(2, 0);
    hold(2);
    deliver();
    apply(0);
    cut(0);
    written(0, SAVE_MEMORY, SAVE_DURABLE);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    flow(2);
    assert_int_equal(crew.men[0].cut[SAVE_MEMORY].generation, 2);
    written(0, SAVE_MEMORY, SAVE_WHOLE);
    flow(2);
    assert_true(committed(0) == 2 && committed(1) == 2);
}

static void a_newcomer_on_another_host_keeps_what_it_got(void **state)
{
    struct generation *g;

    keeps(SAVES_HOST);
    trained(1, 1);
    written(0, SAVE_MEMORY, SAVE_WHOLE);
    g = generation(2, GENERATION_BOUNDARY, 1, 0, "0 1+");
    g->members[1].host = 8;
    tell_all(g);
    flow(2);
    written(0, SAVE_MEMORY, SAVE_WHOLE);
    flow(3);
    tell_active_all(2);
    assert_int_equal(committed(1), 2);
    assert_int_equal(crew.men[1].cut[SAVE_MEMORY].step, 2);
    flow(3);
    assert_int_equal(committed(0), 2);
    written(1, SAVE_MEMORY, SAVE_WHOLE);
    flow(3);
    assert_true(committed(0) == 3 && committed(1) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(it_is_ended_by_the_first_writer_when_all_have_said_durable),
        CREW_CASE(who_has_no_shard_counts_for_nothing),
        CREW_CASE(of_one_writer_nobody_is_asked),
        CREW_CASE(a_word_that_comes_before_the_own_cut_counts),
        CREW_CASE(words_outlast_a_round),
        CREW_CASE(one_that_fails_makes_it_void_and_the_next_step_is_saved),
        CREW_CASE(one_that_fails_again_waits_for_the_next_that_is_due),
        CREW_CASE(one_that_still_writes_the_last_one_takes_no_part),
        CREW_CASE(a_writer_that_is_lost_makes_it_void),
        CREW_CASE(one_that_is_lost_after_its_word_is_not_missed),
        CREW_CASE(a_leaver_counts_if_it_has_said_durable),
        CREW_CASE(with_the_first_writer_it_is_lost_unless_it_said_that_it_is_whole),
        CREW_CASE(each_host_has_its_own),
        CREW_CASE(each_folder_has_its_own_whatever_the_host),
        CREW_CASE(a_newcomer_in_another_folder_keeps_what_it_got_when_it_knows_that),
        CREW_CASE(who_saves_nothing_is_waited_for_by_nobody),
        CREW_CASE(the_last_word_waits_for_the_last_state),
        CREW_CASE(after_a_loss_the_first_who_is_left_saves_it_alone),
        CREW_CASE(who_was_given_the_last_state_saves_it_if_its_writer_is_lost),
        CREW_CASE(who_was_given_the_last_state_saves_it_if_its_writer_fails),
        CREW_CASE(who_was_given_the_last_state_saves_it_if_another_writer_fails),
        CREW_CASE(who_was_given_the_last_state_saves_it_if_another_writer_fails_first),
        CREW_CASE(who_was_given_the_last_state_in_another_folder_saves_it_too),
        CREW_CASE(what_nobody_can_save_ends_the_run_with_a_fault),
        CREW_CASE(what_one_host_could_save_is_saved),
        CREW_CASE(who_writes_for_long_says_so),
        CREW_CASE(nothing_is_reduced_before_the_state_before_is_kept),
        CREW_CASE(after_a_loss_one_keeps_it_for_all),
        CREW_CASE(one_that_came_to_it_after_the_loss_says_that_it_has_no_part),
        CREW_CASE(a_newcomer_on_another_host_keeps_what_it_got),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
