/* The agent: what it does for helpers, and who is told of them. */
#include "unit/core/agent_kit.h"

static void serve(void)
{
    up();
    STEP(.kind = AGENT_ON_ATTACHED);
    report(0, PHASE_SERVING, 0);
    ack(renewed_seq, reported_seq, 0, 0);
    forget();
}

static void asks(void)
{
    struct report r = {.incarnation = 1, .phase = PHASE_WARM, .asks = 1};

    STEP(.kind = AGENT_ON_REPORT, .u.report = &r);
}

static void roster(uint32_t run, uint64_t version, uint32_t helpers_n)
{
    struct roster_entry helpers[8] = {{.worker = wid_make(8, 0, 1), .phase = PHASE_SERVING}};
    struct msg_roster m = {
        .run = run, .version = version, .helpers_n = helpers_n, .helpers = helpers};

    STEP(.kind = AGENT_ON_ROSTER, .u.roster = &m);
}

/* ---- the roster ---- */

static void only_workers_that_ask_are_told(void **state)
{
    up();
    STEP(.kind = AGENT_ON_ATTACHED);
    report(0, PHASE_WARM, 0);
    roster(1, 4, 1);
    assert_int_equal(said("tell 0 roster"), 0);
    asks();
    assert_int_equal(said("tell 0 roster 4"), 1);
    assert_int_equal(reported[0].asks, 1);
    asks(); /* It says so again; that is no news. */
    assert_int_equal(said("tell 0 roster"), 1);
    roster(1, 5, 0);
    assert_int_equal(said("tell 0 roster 5"), 1);
}

static void what_is_older_of_another_run_or_too_long_is_not_taken(void **state)
{
    up();
    asks();
    roster(1, 4, 1);
    forget();
    roster(1, 4, 1);
    roster(1, 3, 1);
    roster(2, 9, 1);
    roster(1, 9, 5); /* The kit's agent has room for 4. */
    assert_int_equal(said("tell 0 roster"), 0);
    assert_true(agent.roster.version == 4);
}

static void another_orchestrators_store_has_rosters_of_its_own(void **state)
{
    up();
    asks();
    roster(1, 4, 1);
    STEP(.kind = AGENT_ON_CLOSED);
    STEP(.kind = AGENT_ON_CONNECTED);
    welcome(9, 2);
    assert_true(agent.roster.version == 0);
}

/* ---- helpers that hang ---- */

static void one_that_is_lost_has_a_lease_to_come_back(void **state)
{
    serve();
    pass(LEASE_MS + 1, false);
    assert_int_equal(reported[0].phase, PHASE_LOST);
    pass(LEASE_MS - 10, false);
    STEP(.kind = AGENT_ON_BEAT);
    assert_int_equal(reported[0].phase, PHASE_SERVING);
    pass(10 * LEASE_MS, true);
    assert_int_equal(said("kill"), 0);
}

static void then_it_is_replaced(void **state)
{
    serve();
    pass(2 * LEASE_MS + 2, false);
    assert_int_equal(said("kill 0"), 1);
    STEP(.kind = AGENT_ON_EXIT, .code = 137);
    assert_true(reported[0].hung);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(said("start 7.0#2"), 1);
}

static void unless_it_is_to_be_looked_at(void **state)
{
    serve();
    agent.config.keeps_hung = true;
    pass(20 * LEASE_MS, false);
    assert_int_equal(said("kill"), 0);
}

static void one_that_leaves_its_node_is_told_at_once(void **state)
{
    serve();
    STEP(.kind = AGENT_ON_DRAIN);
    assert_int_equal(said("tell 0 left run=1"), 1);
    assert_int_equal(said("stop 0"), 1);
    STEP(.kind = AGENT_ON_EXIT, .code = 0);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(said("done 0"), 1);
}

static void one_that_has_done_its_work_is_not_started_again(void **state)
{
    serve();
    report(0, PHASE_FINISHED, 0);
    STEP(.kind = AGENT_ON_EXIT, .code = 0);
    for (int i = 0; i < 3; i++) {
        ack(0, reported_seq, 0, 0);
    }
    assert_int_equal(said("start"), 0);
    assert_int_equal(said("done 0"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AGENT_CASE(only_workers_that_ask_are_told),
        AGENT_CASE(what_is_older_of_another_run_or_too_long_is_not_taken),
        AGENT_CASE(another_orchestrators_store_has_rosters_of_its_own),
        AGENT_CASE(one_that_is_lost_has_a_lease_to_come_back),
        AGENT_CASE(then_it_is_replaced),
        AGENT_CASE(unless_it_is_to_be_looked_at),
        AGENT_CASE(one_that_leaves_its_node_is_told_at_once),
        AGENT_CASE(one_that_has_done_its_work_is_not_started_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
