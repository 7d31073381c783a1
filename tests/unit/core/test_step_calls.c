/* Workers that do not train: each call that all agree on is a step, and all settle in every term.
 */
#include "unit/core/step_kit.h"

static void together(void)
{
    move_all();
    deliver();
}

/* A fresh generation of these, active, in which calls can be made. */
static void opened(const char *members)
{
    crew_config((struct step_config){.calls = true});
    tell_all(generation(1, GENERATION_FRESH, 0, 0, members));
    together();
    assert_int_equal(next(0), STEP_OPEN);
    tell_active_all(1);
}

static void regroup(uint32_t i)
{
    event(i, (struct step_event){.kind = STEP_ON_REGROUP});
}

static void agreed_on(uint32_t i, uint64_t call)
{
    event(i,
          (struct step_event){.kind = STEP_ON_AGREED, .term = step_term(worker(i)), .step = call});
}

static void call_in_all(uint32_t n, uint64_t call)
{
    for (uint32_t i = 0; i < n; i++) {
        agreed_on(i, call);
        assert_int_equal(committed(i), call);
    }
}

static void what_one_has_is_everybodys(void **state)
{
    opened("0+ 1+ 2+");
    call_in_all(3, 1);
    agreed_on(0, 2);
    reduced(1, term_make(1, 0), 2);
    reduced(2, term_make(1, 0), 2);
    snap(1, 2);
    claimed(0, term_make(1, 1));
    together();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(committed(i), 2);
        assert_int_equal(crew.men[i].settled_n, i != 0);
        assert_int_equal(next(i), STEP_OPEN);
    }
}

static void what_one_lacks_is_nobodys(void **state)
{
    opened("0+ 1+ 2+");
    reduced(1, term_make(1, 0), 1);
    reduced(2, term_make(1, 0), 1);
    snap(0, 2);
    claimed(1, term_make(1, 1));
    together();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(committed(i), 0);
        assert_false(step_holds(worker(i)));
        assert_int_equal(next(i), STEP_OPEN);
    }
}

/* One asks to move before it has heard of the plan, by which the others have gone. */
static void one_that_asks_again_follows_a_plan_it_heard_of_late(void **state)
{
    const struct generation *g;

    opened("0+ 1+");
    snap(0, 1);
    g = generation(2, GENERATION_BOUNDARY, 1, 0, "0 1");
    regroup(1);
    tell(0, g);
    regroup(0);
    assert_int_equal(in_generation(0), 2);
    assert_int_equal(in_generation(1), 1);
    tell(1, g);
    regroup(1);
    together();
    assert_int_equal(in_generation(1), 2);
    assert_int_equal(next(0), STEP_OPEN);
    assert_int_equal(next(1), STEP_OPEN);
}

/* Whoever waits in a call for one that was left out, and has gone, would wait for ever. */
static void a_leaver_is_in_the_next_round_so_that_others_hear_of_it(void **state)
{
    opened("0+ 1+");
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0"));
    regroup(1);
    assert_int_equal(step_phase(worker(1)), STEP_PARKED);
    assert_int_equal(next(1), STEP_MOVE);
    assert_int_equal(in_round(1), 1);
    regroup(1);
    assert_int_equal(in_round(1), 1); /* Once is enough. */
    claimed(0, term_make(1, 1));
    together();
    assert_int_equal(in_generation(0), 2);
}

/* All who go on hold a result, and one who comes knows that it will count. Nobody may say so before
 * the generation is active: 2, who is left out and does not hold it, may yet be needed. */
static void what_a_newcomer_has_learned_does_not_count_before_it_is_active(void **state)
{
    opened("0+ 1+ 2+");
    crew.men[0].result_in = crew.men[1].result_in = term_make(1, 0);
    reduced(0, term_make(1, 0), 1);
    reduced(1, term_make(1, 0), 1);
    tell_all(generation(2, GENERATION_BOUNDARY, 1, 0, "0 1 3+"));
    regroup(0);
    regroup(1);
    together();
    assert_int_equal(committed(3), 1);
    assert_int_equal(committed(0), 0);
    snap(0, 3);
    claimed(1, term_make(2, 1));
    together();
    assert_int_equal(committed(0), 0);
    assert_int_equal(committed(1), 0);
    tell_active_all(2);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(committed(i), i != 2);
    }
}

/* One that has made a call there knows that it is active, whatever it was told. */
static void one_that_has_made_a_call_is_no_newcomer(void **state)
{
    opened("0+ 1+");
    reduced(0, term_make(1, 0), 1);
    snap(0, 1);
    together();
    assert_int_equal(committed(0), 0);
    assert_int_equal(committed(1), 0);
}

static void snap_and_settle(uint64_t after_ms)
{
    crew.now_ms += after_ms;
    snap(0, 1);
    together();
    assert_int_equal(next(0), STEP_OPEN);
    assert_int_equal(next(1), STEP_OPEN);
}

static void links_that_break_now_and_then_are_nobodys_fault(void **state)
{
    opened("0+ 1+");
    for (int i = 0; i < 10; i++) {
        snap_and_settle(20000);
        assert_int_equal(crew.men[0].report.apart_n, 0);
    }
    for (int i = 1; i < 3; i++) {
        snap_and_settle(10);
        assert_int_equal(crew.men[0].report.apart_n, 0);
    }
    snap_and_settle(10); /* Again and again they are. */
    assert_int_equal(crew.men[0].report.apart_n, 1);
}

/* No call can be made yet, so nothing that is committed could mend them. */
static void links_that_broke_before_the_generation_was_active_are_mended(void **state)
{
    crew_config((struct step_config){.calls = true});
    tell_all(generation(1, GENERATION_FRESH, 0, 0, "0+ 1+"));
    together();
    for (int i = 0; i < 10; i++) {
        snap_and_settle(10);
        assert_int_equal(crew.men[0].report.apart_n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(what_one_has_is_everybodys),
        CREW_CASE(what_one_lacks_is_nobodys),
        CREW_CASE(one_that_asks_again_follows_a_plan_it_heard_of_late),
        CREW_CASE(links_that_break_now_and_then_are_nobodys_fault),
        CREW_CASE(links_that_broke_before_the_generation_was_active_are_mended),
        CREW_CASE(a_leaver_is_in_the_next_round_so_that_others_hear_of_it),
        CREW_CASE(what_a_newcomer_has_learned_does_not_count_before_it_is_active),
        CREW_CASE(one_that_has_made_a_call_is_no_newcomer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
