/* Helpers: who is in the roster, who is told of it and when, and what they hold up: nothing. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <string.h>

#define APART_MS 60 /* rosters that are told one by one */

static void asks(const char *name)
{
    at(name)->reports[0].asks = 1;
    resend(name);
}

static void serve(const char *name)
{
    hello(name);
    report(name, 0, PHASE_SERVING, 0, 0);
    pass(APART_MS);
}

static void ps(const char *name)
{
    at(name)->role = ROLE_PS;
    serve(name);
}

/* Two who train, and the first of them asks. */
static void two(void)
{
    shape(2, 2);
    form("a b");
    asks("a");
    pass(APART_MS);
}

static void expect_helpers(const char *text)
{
    pass(APART_MS);
    assert_string_equal(at("a")->helpers, text);
}

/* ---- who is in it ---- */

static void a_helper_that_serves_is_found(void **state)
{
    two();
    at("p")->role = ROLE_PS;
    hello("p");
    report("p", 0, PHASE_WARMING, 0, 0);
    expect_helpers("p 0 warming");
    report("p", 0, PHASE_SERVING, 0, 0);
    expect_helpers("p 0 serving");
    expect_active("fresh", "a b");
}

static void one_that_dies_goes_and_its_next_life_comes(void **state)
{
    two();
    ps("p");
    exits("p", 0, 137);
    expect_helpers("");
    next_life("p", 0);
    expect_helpers("p#2 0 warming");
    report("p", 0, PHASE_SERVING, 0, 0);
    expect_helpers("p#2 0 serving");
    assert_int_equal(job().generation, 1);
}

static void one_that_stops_answering_its_agent_goes_until_it_is_back(void **state)
{
    two();
    ps("p");
    report("p", 0, PHASE_LOST, 0, 0);
    expect_helpers("");
    report("p", 0, PHASE_SERVING, 0, 0);
    expect_helpers("p 0 serving");
}

static void one_whose_lease_lapses_goes(void **state)
{
    two();
    ps("p");
    silence("p");
    pass(LEASE_MS + 1);
    expect_helpers("");
}

static void a_connection_that_comes_back_within_the_lease_costs_nothing(void **state)
{
    uint64_t version;

    two();
    ps("p");
    version = at("a")->roster;
    closed("p");
    pass(f.config.reconnect_ms * 4);
    hello("p");
    pass(APART_MS);
    assert_int_equal(at("a")->roster, version);
    assert_string_equal(at("a")->helpers, "p 0 serving");
    assert_int_equal(said_like("record gone"), 0);
}

static void a_worker_that_serves_is_in_it_and_in_no_generation(void **state)
{
    two();
    serve("c");
    expect_helpers("c 0 serving");
    pass(WINDOW_MS);
    expect_active("fresh", "a b");
    exits("c", 0, 137);
    next_life("c", 0); /* It will serve again, and counts for nothing else. */
    expect_helpers("c#2 0 warming");
}

static void one_that_trains_is_not_taken_out_by_saying_that_it_serves(void **state)
{
    two();
    report("b", 0, PHASE_SERVING, 1, 1);
    pass(WINDOW_MS);
    expect_active("fresh", "a b");
    expect_helpers("");
}

/* ---- numbers ---- */

static void numbers_are_of_a_role_and_stay(void **state)
{
    two();
    ps("p");
    ps("q");
    at("e")->role = ROLE_EVALUATOR;
    serve("e");
    expect_helpers("p 0 serving, q 1 serving, e 0 serving");
    bye("p");
    expect_helpers("q 1 serving, e 0 serving");
    ps("r"); /* takes the place that is free */
    expect_helpers("q 1 serving, e 0 serving, r 0 serving");
    closed("q");
    rejoin("q"); /* its agent was started again */
    report("q", 0, PHASE_SERVING, 0, 0);
    expect_helpers("e 0 serving, r 0 serving, q 1 serving");
    restart_from_snapshot();
    hello("a");
    hello("b");
    hello("e");
    hello("r");
    hello("q");
    expect_helpers("e 0 serving, r 0 serving, q 1 serving");
}

static void there_are_so_many_of_a_role_and_no_more(void **state)
{
    struct msg_hello m = {
        .job = "job", .min = 1, .max = 1, .slots = SLOTS_MAX, .role = ROLE_PS, .incarnation = 1};

    f.config.workers_max = 2 * HELPERS_MAX;
    kit_open();
    for (uint32_t i = 0; i <= HELPERS_MAX / SLOTS_MAX; i++) {
        char name[8];
        struct stub *s;

        snprintf(name, sizeof(name), "p%u", i);
        s = at(name);
        s->conn = ++f.conns_n;
        strcpy(m.name, name);
        kit_step(&(struct event){.kind = EVENT_HELLO, .conn = s->conn, .u.hello = &m});
        assert_int_equal(s->refused, i < HELPERS_MAX / SLOTS_MAX ? 0 : MU_ELIMIT);
    }
}

/* ---- who is told ---- */

static void only_those_who_ask_are_told(void **state)
{
    two();
    ps("p");
    assert_true(said_like("a: roster") > 0);
    assert_int_equal(said_like("b: roster"), 0);
    assert_int_equal(said_like("p: roster"), 0);
    asks("b");
    assert_string_equal(at("b")->helpers, "p 0 serving");
}

static void a_job_in_which_nobody_helps_says_so_once(void **state)
{
    two();
    pass(60000);
    assert_int_equal(said_like("a: roster"), 1);
    assert_string_equal(at("a")->helpers, "");
}

static void what_changes_together_is_told_together(void **state)
{
    uint32_t before;

    two();
    ps("p");
    before = said_like("a: roster");
    at("q")->role = at("r")->role = at("s")->role = ROLE_PS;
    hello("q");
    hello("r");
    hello("s");
    report("q", 0, PHASE_SERVING, 0, 0);
    report("r", 0, PHASE_SERVING, 0, 0);
    report("s", 0, PHASE_SERVING, 0, 0);
    expect_helpers("p 0 serving, q 1 serving, r 2 serving, s 3 serving");
    assert_true(said_like("a: roster") <= before + 2);
}

static void a_roster_that_was_lost_is_said_again(void **state)
{
    two();
    ps("p");
    at("a")->roster = 0; /* It has not come. */
    at("a")->helpers[0] = '\0';
    pass(LEASE_MS);
    assert_string_equal(at("a")->helpers, "p 0 serving");
}

static void renewals_say_nothing_when_nothing_changes(void **state)
{
    uint32_t before;

    two();
    ps("p");
    before = said_like("a: roster");
    pass(10 * LEASE_MS);
    assert_int_equal(said_like("a: roster"), before);
}

/* ---- an orchestrator that was restarted ---- */

static void who_is_well_is_never_missing(void **state)
{
    uint64_t version;

    two();
    ps("p");
    version = at("a")->roster;
    restart();
    hello("a");
    hello("b");
    pass(LEASE_MS / 2);
    assert_int_equal(at("a")->roster, version); /* p has yet to be heard. */
    hello("p");
    expect_helpers("p 0 serving");
    assert_true(at("a")->roster > version);
}

static void who_does_not_come_back_goes_with_its_lease(void **state)
{
    two();
    ps("p");
    restart();
    hello("a");
    hello("b");
    pass(LEASE_MS * 2);
    assert_string_equal(at("a")->helpers, "");
}

/* ---- what they hold up ---- */

static void the_job_ends_when_those_who_train_have_finished(void **state)
{
    two();
    ps("p");
    report("a", 0, PHASE_FINISHED, 1, 1);
    report("b", 0, PHASE_FINISHED, 1, 1);
    assert_true(job().ended);
    assert_true(at("p")->ended);
}

static void a_helper_that_fails_for_good_fails_no_run(void **state)
{
    f.max_restarts = 0;
    two();
    ps("p");
    exits("p", 0, 1);
    pass(WINDOW_MS);
    assert_int_equal(at("p")->refused, MU_ELIMIT);
    assert_false(job().ended);
    expect_active("fresh", "a b");
}

static void without_trainers_the_end_is_the_chiefs(void **state)
{
    shape(1, 4);
    at("c")->role = ROLE_CHIEF;
    serve("c");
    serve("v");
    serve("w");
    pass(WINDOW_MS * 2);
    assert_int_equal(job().members_n, 0);
    report("v", 0, PHASE_FINISHED, 0, 0); /* It is not the work. */
    exits("v", 0, 0);
    assert_false(job().ended);
    report("c", 0, PHASE_FINISHED, 0, 0);
    assert_true(job().ended);
    assert_true(at("w")->ended);
}

/* What the last run's chief has done is nothing to the next. */
static void another_run_waits_for_its_own_chief(void **state)
{
    shape(1, 4);
    at("c")->role = ROLE_CHIEF;
    serve("c");
    report("c", 0, PHASE_FINISHED, 0, 0);
    assert_true(job().ended);
    exits("c", 0, 0);
    bye("c");
    rejoin("c");
    assert_int_equal(job().run, 2);
    report("c", 0, PHASE_SERVING, 0, 0);
    pass(LEASE_MS);
    assert_false(job().ended);
    assert_int_equal(at("c")->refused, 0);
}

static void with_a_trainer_the_chiefs_end_is_its_own(void **state)
{
    shape(1, 2);
    at("c")->role = ROLE_CHIEF;
    serve("c");
    form("a");
    report("c", 0, PHASE_FINISHED, 0, 0);
    exits("c", 0, 0);
    bye("c");
    pass(LEASE_MS);
    assert_false(job().ended);
    report("a", 0, PHASE_FINISHED, 1, 1);
    assert_true(job().ended);
}

/* ---- auto ---- */

static void once_the_mode_is_known_helpers_leave_the_first_generation(void **state)
{
    f.mode = MODE_AUTO;
    shape(2, 2);
    at("p")->role = ROLE_PS;
    join("p a b");
    pass(WINDOW_MS);
    expect_generation("fresh", "p a b");
    at("a")->flags = NODE_INPROCESS;
    renew("a");
    expect_generation("fresh", "a b");
    asks("a");
    report("p", 0, PHASE_SERVING, 0, 0);
    settle();
    expect_helpers("p 0 serving");
    expect_active("fresh", "a b");
}

static void workers_that_turn_out_to_serve_are_in_none(void **state)
{
    f.mode = MODE_AUTO;
    shape(1, 3);
    at("c")->role = ROLE_CHIEF;
    join("c v w");
    pass(WINDOW_MS);
    expect_generation("fresh", "c v w");
    at("v")->flags = NODE_INPROCESS;
    renew("v");
    report("v", 0, PHASE_SERVING, 0, 0);
    report("w", 0, PHASE_SERVING, 0, 0);
    report("c", 0, PHASE_SERVING, 0, 0);
    asks("c");
    pass(WINDOW_MS * 2);
    assert_int_equal(job().active, 0);
    assert_string_equal(at("c")->helpers, "c 0 serving, v 0 serving, w 0 serving");
    report("c", 0, PHASE_FINISHED, 0, 0);
    assert_true(job().ended);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_helper_that_serves_is_found),
        CASE(one_that_dies_goes_and_its_next_life_comes),
        CASE(one_that_stops_answering_its_agent_goes_until_it_is_back),
        CASE(one_whose_lease_lapses_goes),
        CASE(a_connection_that_comes_back_within_the_lease_costs_nothing),
        CASE(a_worker_that_serves_is_in_it_and_in_no_generation),
        CASE(one_that_trains_is_not_taken_out_by_saying_that_it_serves),
        CASE(numbers_are_of_a_role_and_stay),
        CASE(there_are_so_many_of_a_role_and_no_more),
        CASE(only_those_who_ask_are_told),
        CASE(a_job_in_which_nobody_helps_says_so_once),
        CASE(what_changes_together_is_told_together),
        CASE(a_roster_that_was_lost_is_said_again),
        CASE(renewals_say_nothing_when_nothing_changes),
        CASE(who_is_well_is_never_missing),
        CASE(who_does_not_come_back_goes_with_its_lease),
        CASE(the_job_ends_when_those_who_train_have_finished),
        CASE(a_helper_that_fails_for_good_fails_no_run),
        CASE(without_trainers_the_end_is_the_chiefs),
        CASE(another_run_waits_for_its_own_chief),
        CASE(with_a_trainer_the_chiefs_end_is_its_own),
        CASE(once_the_mode_is_known_helpers_leave_the_first_generation),
        CASE(workers_that_turn_out_to_serve_are_in_none),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
