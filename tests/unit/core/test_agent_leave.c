/* The agent: workers that leave, workers that were left out, and those that do not notice. */
#include "unit/core/agent_kit.h"

#define HUNG_MS 5000u

static void active_generation(uint64_t number)
{
    STEP(.kind = AGENT_ON_ACTIVE, .u.active = &(struct msg_active){number});
}

/* In generation 4, and caught up. */
static void be_in(void)
{
    up();
    STEP(.kind = AGENT_ON_ATTACHED);
    generation(4);
    report(0, PHASE_IN, 4);
    active_generation(4);
    ack(renewed_seq, reported_seq, 0, 4);
    forget();
}

/* Generation 5 is without it, and counts. */
static void be_left_out(void)
{
    be_in();
    generation_of(5, wid_make(8, 0, 1));
    active_generation(5);
    forget();
}

/* ---- leaving ---- */

static void who_leaves_is_told_so_before_it_is_stopped(void **state)
{
    be_in();
    STEP(.kind = AGENT_ON_DRAIN);
    generation_of(5, wid_make(8, 0, 1));
    active_generation(5);
    assert_int_equal(said("tell 0 left"), 0); /* It has yet to let go of the state. */
    assert_int_equal(said("stop"), 0);
    STEP(.kind = AGENT_ON_FORGET);
    assert_int_equal(said("tell 0 left run=1"), 1);
    assert_int_equal(said("stop 0"), 1);
    assert_int_equal(said("life"), 0);
    assert_true(agent.slots[0].left);
}

static void workers_are_told_who_wants_a_checkpoint(void **state)
{
    be_in();
    forget();
    saves = 2;
    ack(0, 0, 0, 4); /* no renewal: it is said for this alone */
    assert_int_equal(said("tell 0 lease"), 1);
    assert_int_equal(saves_told(), 2);
    ack(0, 0, 0, 4);
    assert_int_equal(said("tell 0 lease"), 1);
}

/* It may be the last one: what its workers have is to be saved. */
static void a_node_that_leaves_wants_a_checkpoint(void **state)
{
    be_in();
    STEP(.kind = AGENT_ON_DRAIN);
    forget();
    pass(RENEW_MS, true);
    ack(renewed_seq, 0, 0, 4);
    assert_int_equal(said("tell 0 lease"), 1);
    assert_int_equal(saves_told(), 1);
}

static void a_leaver_that_exits_with_0_has_ended_well(void **state)
{
    be_in();
    STEP(.kind = AGENT_ON_DRAIN);
    generation_of(5, wid_make(8, 0, 1));
    active_generation(5);
    STEP(.kind = AGENT_ON_FORGET);
    STEP(.kind = AGENT_ON_EXIT, .code = 0);
    assert_int_equal(reported[0].phase, PHASE_EXITED);
    assert_int_equal(reported[0].exit_code, 0);
    assert_int_equal(said("bye 7"), 1);
    assert_int_equal(said("done 0"), 1);
    assert_int_equal(said("start"), 0);
}

/* Whatever the trainer makes of it, the node has left as it was to. */
static void a_leaver_that_fails_is_no_failure_of_the_node(void **state)
{
    be_in();
    STEP(.kind = AGENT_ON_DRAIN);
    generation_of(5, wid_make(8, 0, 1));
    active_generation(5);
    STEP(.kind = AGENT_ON_FORGET);
    STEP(.kind = AGENT_ON_EXIT, .code = 3);
    assert_int_equal(reported[0].exit_code, 143); /* Nobody is charged for that. */
    assert_int_equal(said("done 0"), 1);
}

static void a_newcomer_of_a_draining_node_is_told_too(void **state)
{
    up();
    STEP(.kind = AGENT_ON_ATTACHED);
    report(0, PHASE_WARM, 0);
    STEP(.kind = AGENT_ON_DRAIN);
    assert_int_equal(said("tell 0 left"), 1);
    assert_int_equal(said("stop 0"), 1);
    assert_false(agent.slots[0].left); /* It holds nothing that it could want to save. */
}

static void one_that_never_attached_is_only_stopped(void **state)
{
    up();
    STEP(.kind = AGENT_ON_DRAIN);
    assert_int_equal(said("tell 0 left"), 0);
    assert_int_equal(said("stop 0"), 1);
}

static void the_end_of_the_run_is_no_leaving(void **state)
{
    be_in();
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1, .step = 10});
    STEP(.kind = AGENT_ON_FORGET);
    assert_int_equal(said("tell 0 ended run=1"), 1);
    assert_int_equal(said("tell 0 left"), 0);
}

/* ---- left out ---- */

static void who_was_left_out_and_says_so_goes_on_as_a_newcomer(void **state)
{
    be_left_out();
    agent.config.hung_ms = HUNG_MS;
    pass(HUNG_MS - 100, true);
    STEP(.kind = AGENT_ON_FORGET);
    assert_int_equal(said("life 7.0#2"), 1);
    pass(10 * HUNG_MS, true);
    assert_int_equal(said("kill"), 0);
}

static void who_does_not_notice_is_replaced(void **state)
{
    be_left_out();
    agent.config.hung_ms = HUNG_MS;
    pass(HUNG_MS - 1, true);
    assert_int_equal(said("kill"), 0);
    pass(2, true);
    assert_int_equal(said("kill 0"), 1);
    assert_int_equal(said("stop"), 0);
    STEP(.kind = AGENT_ON_FORGET); /* Too late: it is on its way out. */
    assert_int_equal(said("life"), 0);
    STEP(.kind = AGENT_ON_EXIT, .code = 0);
    assert_int_equal(reported[0].phase, PHASE_EXITED);
    assert_int_equal(reported[0].exit_code, 143); /* not its own fault, and no good end */
    assert_true(reported[0].hung);
    ack(0, reported_seq, 0, 5);
    assert_int_equal(said("start 7.0#2"), 1);
    assert_int_equal(reported[0].hung, 0);
    assert_int_equal(said("done"), 0);
}

static void a_lease_at_least_is_given(void **state)
{
    be_left_out();
    agent.config.hung_ms = 1;
    pass(LEASE_MS - 1, true);
    assert_int_equal(said("kill"), 0);
    pass(2, true);
    assert_int_equal(said("kill 0"), 1);
}

static void without_a_time_for_it_nobody_is_replaced(void **state)
{
    be_left_out();
    pass(20 * LEASE_MS, true);
    assert_int_equal(said("kill"), 0);
}

/* Left out of a generation that does not count yet, it may still be needed. */
static void one_that_is_still_needed_is_left_alone(void **state)
{
    be_in();
    agent.config.hung_ms = HUNG_MS;
    generation_of(5, wid_make(8, 0, 1));
    pass(10 * HUNG_MS, true);
    assert_int_equal(said("kill"), 0);
    active_generation(5);
    pass(HUNG_MS + 1, true);
    assert_int_equal(said("kill 0"), 1);
}

/* Stopped from outside it may come back: then it has as much time as any other. */
static void one_that_is_stopped_is_lost_and_not_replaced(void **state)
{
    be_in();
    agent.config.hung_ms = HUNG_MS;
    pass(LEASE_MS + 1, false);
    assert_int_equal(reported[0].phase, PHASE_LOST);
    generation_of(5, wid_make(8, 0, 1));
    active_generation(5);
    pass(10 * HUNG_MS, false);
    assert_int_equal(said("kill"), 0);
    STEP(.kind = AGENT_ON_BEAT);
    pass(HUNG_MS - 1, true);
    assert_int_equal(said("kill"), 0);
    STEP(.kind = AGENT_ON_FORGET);
    assert_int_equal(said("life 7.0#2"), 1);
    assert_int_equal(reported[0].phase, PHASE_WARMING);
    assert_int_equal(said("tell 0 generation 5"), 2); /* when it came, and to the new life */
}

static void a_node_that_leaves_does_not_replace_who_hangs(void **state)
{
    be_left_out();
    agent.config.hung_ms = HUNG_MS;
    pass(HUNG_MS + 1, true);
    assert_int_equal(said("kill 0"), 1);
    STEP(.kind = AGENT_ON_DRAIN);
    STEP(.kind = AGENT_ON_EXIT, .code = 143);
    ack(0, reported_seq, 0, 5);
    assert_int_equal(said("start"), 0);
    assert_int_equal(said("done 0"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AGENT_CASE(who_leaves_is_told_so_before_it_is_stopped),
        AGENT_CASE(workers_are_told_who_wants_a_checkpoint),
        AGENT_CASE(a_node_that_leaves_wants_a_checkpoint),
        AGENT_CASE(a_leaver_that_exits_with_0_has_ended_well),
        AGENT_CASE(a_leaver_that_fails_is_no_failure_of_the_node),
        AGENT_CASE(a_newcomer_of_a_draining_node_is_told_too),
        AGENT_CASE(one_that_never_attached_is_only_stopped),
        AGENT_CASE(the_end_of_the_run_is_no_leaving),
        AGENT_CASE(who_was_left_out_and_says_so_goes_on_as_a_newcomer),
        AGENT_CASE(who_does_not_notice_is_replaced),
        AGENT_CASE(a_lease_at_least_is_given),
        AGENT_CASE(without_a_time_for_it_nobody_is_replaced),
        AGENT_CASE(one_that_is_still_needed_is_left_alone),
        AGENT_CASE(one_that_is_stopped_is_lost_and_not_replaced),
        AGENT_CASE(a_node_that_leaves_does_not_replace_who_hangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
