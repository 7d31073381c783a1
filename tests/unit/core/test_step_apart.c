/* Whom a worker can't reach: a level in its report, which is there for as long as that lasts. */
#include "unit/core/step_kit.h"

#define BREAK_MS 1000
#define LINKED_MS 5000
#define SILENCE_MS 500

static void expect_idle(uint32_t i, uint64_t idle_ms)
{
    assert_int_equal(crew.men[i].report.apart[0].idle_ms, idle_ms);
}

/* ---- links that are missing ---- */

static void a_link_that_is_missing_for_a_second_is_told_until_it_is_there(void **state)
{
    trained(3, 3);
    part(0, 1, true);
    assert_int_equal(due_ms(0), crew.now_ms + BREAK_MS);
    assert_int_equal(due_ms(2), UINT64_MAX);
    later(BREAK_MS - 1);
    expect_apart(0, "");
    crew.men[0].reports_n = 0;
    later(1);
    expect_apart(0, "1");
    expect_apart(1, "0");
    expect_apart(2, "");
    expect_idle(0, 0);
    assert_int_equal(crew.men[0].report.apart_in, 1);
    later(BREAK_MS);
    links(0);                                   /* It still is. */
    assert_int_equal(crew.men[0].reports_n, 1); /* Once: it is a level. */
    assert_int_equal(due_ms(0), UINT64_MAX);
    part(0, 1, false);
    expect_apart(0, "");
    expect_apart(1, "");
    assert_int_equal(crew.men[0].reports_n, 2);
    assert_int_equal(crew.men[0].report.apart_in, 0);
}

static void a_link_that_comes_back_within_a_second_is_told_to_nobody(void **state)
{
    trained(2, 3);
    crew.men[0].reports_n = 0;
    for (int i = 0; i < 5; i++) {
        part(0, 1, true);
        later(BREAK_MS - 1);
        part(0, 1, false);
    }
    expect_apart(0, "");
    assert_int_equal(crew.men[0].reports_n, 0);
}

/* Having moved to a round with all members says that every link is there. */
static void a_round_takes_it_back(void **state)
{
    trained(2, 3);
    part(0, 1, true);
    snap(0, 1);
    later(BREAK_MS);
    expect_apart(0, "1");
    crew.apart[0][1] = crew.apart[1][0] = false;
    move_all();
    expect_apart(0, "");
    flow(5);
    assert_int_equal(committed(0), 5);
    expect_apart(0, "");
}

static void several_are_told_at_once(void **state)
{
    trained(4, 3);
    part(0, 1, true);
    later(10);
    part(0, 3, true);
    later(BREAK_MS - 10);
    expect_apart(0, "1");
    later(10);
    expect_apart(0, "13");
    part(0, 1, false);
    expect_apart(0, "3");
}

/* It is told in the generation where it is so: those of the one before are history. */
static void a_new_generation_begins_with_nobody_apart(void **state)
{
    trained(3, 3);
    part(0, 2, true);
    later(BREAK_MS);
    expect_apart(0, "2");
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    expect_apart(0, "");
    links(0); /* 2 is no member any more. */
    later(BREAK_MS);
    expect_apart(0, "");
}

static void one_that_is_parked_names_nobody(void **state)
{
    trained(3, 3);
    part(0, 2, true);
    later(BREAK_MS);
    expect_apart(2, "0");
    tell(2, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    expect_apart(2, "");
}

/* ---- newcomers ---- */

static void a_newcomer_that_cant_be_linked_for_a_second_is_told_of(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    part(0, 2, true);
    links(1);
    assert_int_equal(due_ms(0), crew.now_ms + BREAK_MS);
    later(BREAK_MS - 1);
    expect_apart(0, "");
    later(1);
    expect_apart(0, "2");
    assert_int_equal(crew.men[0].report.apart_in, 2); /* It is a member of that one. */
    expect_apart(1, "");
    lease(0);
    lease(1);
    flow(6);
    assert_int_equal(committed(0), 6); /* Nobody waits for it meanwhile. */
    assert_int_equal(in_generation(0), 1);
    expect_apart(0, "2");
    part(0, 2, false);
    expect_apart(0, "");
    flow(7);
    assert_int_equal(in_generation(0), 2);
}

static void a_leaver_needs_no_newcomer(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 2+"));
    part(1, 2, true);
    later(BREAK_MS);
    expect_apart(1, "");
}

/* Else the same pair would be tried again and again. */
static void who_backs_out_goes_on_to_name_whom_it_could_not_reach(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 2+"));
    part(1, 2, true);
    later(BREAK_MS);
    expect_apart(2, "1");
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(step_phase(worker(2)), STEP_OUT);
    expect_apart(2, "1");
    expect_apart(1, "");
    tell(2, generation(4, GENERATION_FAILURE, 1, 0, "0 1"));
    links(2);
    later(BREAK_MS);
    expect_apart(2, "1");
    tell(2, generation(5, GENERATION_BOUNDARY, 4, 0, "0 2+"));
    expect_apart(2, ""); /* It is taken in again, and looks for itself. */
}

/* One of these may be all that there is to train with. */
static void who_is_out_names_them_until_a_link_to_them_has_lasted(void **state)
{
    trained(1, 3);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1+"));
    part(0, 1, true);
    later(BREAK_MS);
    tell_all(generation(3, GENERATION_FAILURE, 1, 0, "0"));
    part(0, 1, false);
    later(LINKED_MS - 1);
    expect_apart(1, "0");
    part(0, 1, true);
    part(0, 1, false);
    assert_int_equal(due_ms(1), crew.now_ms + LINKED_MS);
    later(LINKED_MS - 1);
    expect_apart(1, "0");
    later(1);
    expect_apart(1, "");
}

/* ---- rounds that come to nothing ---- */

static void round_trip(void)
{
    snap(0, 1);
    claimed(2, step_term(worker(0)));
    move_all();
    deliver();
}

static void a_link_that_breaks_again_and_again_is_told_of_after_three_rounds(void **state)
{
    trained(3, 3);
    for (int i = 0; i < 3; i++) {
        round_trip();
        expect_apart(0, "");
    }
    snap(0, 1);
    expect_apart(0, "1");
    expect_apart(1, "0");
    claimed(2, step_term(worker(0)));
    expect_apart(2, ""); /* It has lost no link. */
    flow(4);
    expect_apart(0, ""); /* Something was committed: whatever broke is mended. */
    expect_apart(1, "");
}

static void each_commit_gives_three_rounds_more(void **state)
{
    trained(3, 3);
    for (uint64_t step = 4; step < 8; step++) {
        for (int i = 0; i < 3; i++) {
            round_trip();
        }
        expect_apart(0, "");
        flow(step);
        assert_int_equal(committed(0), step);
    }
    assert_int_equal(in_round(0), 12);
}

/* ---- silence ---- */

static void silent_crew(uint32_t n)
{
    crew_config((struct step_config){.silence_ms = SILENCE_MS});
    trained(n, 3);
}

static void a_peer_that_does_not_say_ready_is_told_of_and_for_how_long(void **state)
{
    silent_crew(3);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    later(10 * SILENCE_MS);
    lease(0);
    lease(1);
    lease(2);
    expect_apart(0, ""); /* It waits for nobody's word: the reduce has a limit of its own. */
    reduce(0);
    reduce(1);
    deliver();
    assert_int_equal(due_ms(0), crew.now_ms + SILENCE_MS);
    later(SILENCE_MS - 1);
    expect_apart(0, "");
    later(1);
    expect_apart(0, "2"); /* 1 has said its word. */
    expect_apart(1, "2");
    expect_idle(0, SILENCE_MS);
    expect_apart(2, "");
    assert_int_equal(due_ms(0), UINT64_MAX); /* There is nothing more to be told of it. */
    reduce(2);
    deliver();
    assert_int_equal(committed(0), 4);
    expect_apart(0, "");
}

static void a_nudge_is_a_sign_of_life(void **state)
{
    silent_crew(2);
    compute(0);
    compute(1);
    reduce(0);
    for (int i = 0; i < 5; i++) {
        later(SILENCE_MS - 1);
        lease(0);
        nudge(0);
    }
    expect_apart(0, "");
    later(SILENCE_MS);
    expect_apart(0, "1");
}

/* Nobody says READY while it is out of touch, and whoever did before does not blame the others. */
static void whoever_pauses_is_not_silent(void **state)
{
    silent_crew(2);
    compute(0);
    compute(1);
    reduce(0);
    later(CREW_ORPHAN_MS + 1);
    reduce(1);
    deliver();
    later(10 * SILENCE_MS);
    expect_apart(0, "");
    lease(0);
    expect_apart(0, "");
    later(SILENCE_MS - 1);
    expect_apart(0, "");
    lease(1);
    deliver();
    assert_int_equal(committed(0), 4);
    assert_int_equal(committed(1), 4);
}

static void one_that_does_not_settle_is_told_of(void **state)
{
    silent_crew(3);
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    move_all();
    lose_letters();
    later(SILENCE_MS);
    expect_apart(0, "1");
    expect_idle(0, SILENCE_MS);
}

static void without_a_limit_silence_is_nobodys_fault(void **state)
{
    trained(2, 3);
    compute(0);
    compute(1);
    reduce(0);
    assert_int_equal(due_ms(0), UINT64_MAX);
    later(1000000);
    expect_apart(0, "");
}

/* Found by whoever moves the data: a peer lives, and does nothing. */
static void a_peer_that_was_idle_in_a_reduce_is_told_of_at_once(void **state)
{
    trained(3, 3);
    compute(0);
    broken(0, 1, 700);
    expect_apart(0, "1");
    expect_idle(0, 700);
    assert_int_equal(in_round(0), 1);
    claimed(1, term_make(1, 1));
    claimed(2, term_make(1, 1));
    move_all(); /* It does something. */
    expect_apart(0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(a_link_that_is_missing_for_a_second_is_told_until_it_is_there),
        CREW_CASE(a_link_that_comes_back_within_a_second_is_told_to_nobody),
        CREW_CASE(a_round_takes_it_back),
        CREW_CASE(several_are_told_at_once),
        CREW_CASE(a_new_generation_begins_with_nobody_apart),
        CREW_CASE(one_that_is_parked_names_nobody),
        CREW_CASE(a_newcomer_that_cant_be_linked_for_a_second_is_told_of),
        CREW_CASE(a_leaver_needs_no_newcomer),
        CREW_CASE(who_backs_out_goes_on_to_name_whom_it_could_not_reach),
        CREW_CASE(who_is_out_names_them_until_a_link_to_them_has_lasted),
        CREW_CASE(a_link_that_breaks_again_and_again_is_told_of_after_three_rounds),
        CREW_CASE(each_commit_gives_three_rounds_more),
        CREW_CASE(a_peer_that_does_not_say_ready_is_told_of_and_for_how_long),
        CREW_CASE(a_nudge_is_a_sign_of_life),
        CREW_CASE(whoever_pauses_is_not_silent),
        CREW_CASE(one_that_does_not_settle_is_told_of),
        CREW_CASE(without_a_limit_silence_is_nobodys_fault),
        CREW_CASE(a_peer_that_was_idle_in_a_reduce_is_told_of_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
