/* The agent: when the lives of its workers begin, and how it leaves. */
#include "unit/core/agent_kit.h"

/* ---- lives ---- */

static void another_number_means_new_lives(void **state)
{
    up();
    generation(4);
    report(0, PHASE_IN, 4);
    forget();
    welcome(8, 1);
    assert_int_equal(said("life 8.0#2"), 1);
    assert_int_equal(reported[0].incarnation, 2);
    assert_int_equal(reported[0].entered, 0);
    assert_int_equal(reported[0].phase, PHASE_WARMING);
    assert_int_equal(agent.held.number, 0);
    generation(2); /* Numbers of this store may be smaller. */
    assert_int_equal(said("tell 0 generation 2"), 1);
}

static void another_store_means_new_lives_even_under_the_same_number(void **state)
{
    up();
    welcome(7, 2);
    assert_int_equal(said("life 7.0#2"), 1);
}

static void an_exit_is_acknowledged_before_the_next_life_starts(void **state)
{
    uint64_t before;

    up();
    before = reported_seq;
    STEP(.kind = AGENT_ON_EXIT, .code = 3);
    assert_int_equal(reported[0].phase, PHASE_EXITED);
    assert_int_equal(reported[0].exit_code, 3);
    pass(10000, false);
    assert_int_equal(said("start"), 0);
    ack(0, before, 0, 0);
    assert_int_equal(said("start"), 0);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(said("start 7.0#2"), 1);
    assert_int_equal(reported[0].incarnation, 2);
    assert_int_equal(reported[0].exit_code, 0);
}

static void the_dead_say_nothing_more(void **state)
{
    up();
    STEP(.kind = AGENT_ON_EXIT, .code = 3);
    forget();
    report(0, PHASE_IN, 9);
    STEP(.kind = AGENT_ON_BEAT);
    STEP(.kind = AGENT_ON_EXIT, .code = 0);
    assert_int_equal(said("reports"), 0);
    assert_int_equal(agent.slots[0].report.exit_code, 3);
}

static void a_worker_that_has_forgotten_goes_on_as_a_newcomer(void **state)
{
    up();
    generation(4);
    report(0, PHASE_IN, 4);
    forget();
    STEP(.kind = AGENT_ON_FORGET);
    assert_int_equal(said("life 7.0#2"), 1);
    assert_int_equal(said("tell 0 generation 4"), 1); /* It knows what there is to know. */
    assert_int_equal(reported[0].entered, 0);
}

/* ---- leaving ---- */

static void a_draining_node_says_so_and_leaves_once_its_workers_hold_nothing(void **state)
{
    up();
    generation(4);
    report(0, PHASE_IN, 4);
    STEP(.kind = AGENT_ON_DRAIN);
    assert_int_equal(flags, NODE_DRAINING);
    assert_int_equal(said("stop"), 0); /* It holds the state. */
    pass(LEASE_MS, true);
    assert_int_equal(said("stop"), 0);
    STEP(.kind = AGENT_ON_FORGET);
    assert_int_equal(said("life"), 0);
    assert_int_equal(said("stop 0"), 1);
    assert_int_equal(said("bye"), 0);
    STEP(.kind = AGENT_ON_EXIT, .code = 143);
    assert_int_equal(said("bye 7"), 1);
    assert_int_equal(said("done 0"), 1);
}

static void a_drain_may_come_with_an_ack(void **state)
{
    up();
    ack(renewed_seq, reported_seq, NODE_DRAINING, 0);
    assert_int_equal(said("stop 0"), 1); /* It was only warming. */
    STEP(.kind = AGENT_ON_EXIT, .code = 143);
    assert_int_equal(said("done 0"), 1);
    pass(LEASE_MS, false);
    assert_int_equal(said("done"), 1);
}

static void a_draining_node_starts_nothing(void **state)
{
    open_agent(2);
    up();
    report(0, PHASE_IN, 1);
    report(1, PHASE_IN, 1);
    STEP(.kind = AGENT_ON_DRAIN);
    forget();
    STEP(.kind = AGENT_ON_EXIT, .slot = 0, .code = 1);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(said("start"), 0);
    assert_int_equal(said("bye"), 0); /* The other one holds the state. */
    STEP(.kind = AGENT_ON_EXIT, .slot = 1, .code = 1);
    assert_int_equal(said("start"), 0);
    assert_int_equal(said("bye"), 1);
}

static void the_end_of_the_job_stops_all_and_is_a_success(void **state)
{
    open_agent(2);
    up();
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1, .step = 10});
    assert_int_equal(said("stop 0"), 1);
    assert_int_equal(said("stop 1"), 1);
    STEP(.kind = AGENT_ON_EXIT, .slot = 0, .code = 0);
    assert_int_equal(said("done"), 0);
    STEP(.kind = AGENT_ON_EXIT, .slot = 1, .code = 0);
    assert_int_equal(said("bye 7"), 1);
    assert_int_equal(said("done 0"), 1);
}

static void a_newcomer_to_a_job_that_is_done_leaves_at_once(void **state)
{
    STEP(.kind = AGENT_ON_CONNECTED);
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1, .step = 10});
    assert_int_equal(said("start"), 0);
    assert_int_equal(said("done 0"), 1);
}

static void the_end_is_reached_although_the_connection_was_lost(void **state)
{
    up();
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1, .step = 10});
    STEP(.kind = AGENT_ON_CLOSED);
    STEP(.kind = AGENT_ON_EXIT, .code = 0);
    assert_int_equal(said("done 0"), 1);
}

static void an_end_heard_instead_of_a_welcome_stops_running_workers(void **state)
{
    up();
    STEP(.kind = AGENT_ON_CLOSED);
    STEP(.kind = AGENT_ON_CONNECTED);
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1, .step = 10});
    assert_int_equal(said("stop 0"), 1);
    STEP(.kind = AGENT_ON_EXIT, .code = 0);
    assert_int_equal(said("done 0"), 1);
}

/* ---- refusals ---- */

static void a_refusal_for_good_stops_all_and_is_a_failure(void **state)
{
    static const int FOR_GOOD[] = {MU_EINVAL, MU_EREFUSED, MU_ELIMIT};

    for (size_t i = 0; i < ARRAY_LEN(FOR_GOOD); i++) {
        open_agent(1);
        up();
        refuse(FOR_GOOD[i]);
        assert_int_equal(said("stop 0"), 1);
        STEP(.kind = AGENT_ON_EXIT, .code = 143);
        assert_int_equal(said("done 1"), 1);
    }
}

static void a_refusal_instead_of_a_welcome_stops_running_workers(void **state)
{
    up();
    STEP(.kind = AGENT_ON_CLOSED);
    STEP(.kind = AGENT_ON_CONNECTED);
    refuse(MU_ELIMIT);
    assert_int_equal(said("stop 0"), 1);
    STEP(.kind = AGENT_ON_EXIT, .code = 143);
    assert_int_equal(said("done 1"), 1);
}

static void a_first_hello_that_is_refused_ends_at_once(void **state)
{
    STEP(.kind = AGENT_ON_CONNECTED);
    refuse(MU_EINVAL);
    assert_int_equal(said("done 1"), 1);
    assert_int_equal(said("start"), 0);
}

static void not_now_is_tried_again(void **state)
{
    STEP(.kind = AGENT_ON_CONNECTED);
    refuse(MU_EAGAIN);
    pass(1000, false);
    assert_true(said("hello") >= 2);
    assert_int_equal(said("done"), 0);
    welcome(7, 1);
    assert_int_equal(said("start"), 1);
}

/* Refused whenever it says hello; how often it has in this time. */
static uint32_t hellos_in(uint64_t ms)
{
    uint64_t end_ms = now_ms + ms;
    uint32_t n = said("hello"), before = n;

    while (now_ms < end_ms) {
        pass(10, false);
        if (said("hello") > n) {
            n = said("hello");
            refuse(MU_EAGAIN);
        }
    }
    return n - before;
}

static void whoever_is_refused_again_and_again_asks_less_often(void **state)
{
    uint32_t n;

    STEP(.kind = AGENT_ON_CONNECTED);
    refuse(MU_EAGAIN);
    n = hellos_in(1000);
    assert_true(n >= 3 && n <= 5);
    n = hellos_in(10000);
    assert_true(n >= 9 && n <= 20);
    welcome(7, 1);
    ack(renewed_seq, reported_seq, 0, 0);
    forget();
    refuse(MU_EAGAIN); /* Another matter: it begins anew. */
    n = hellos_in(1000);
    assert_true(n >= 3 && n <= 5);
}

static void those_who_are_refused_together_do_not_come_back_together(void **state)
{
    uint64_t at_ms[2];

    for (uint32_t i = 0; i < 2; i++) {
        open_agent(1);
        agent.config.early_ms = 12345 + 20 * i;
        STEP(.kind = AGENT_ON_CONNECTED);
        refuse(MU_EAGAIN);
        at_ms[i] = agent_deadline(&agent);
        assert_true(at_ms[i] >= now_ms + 50 && at_ms[i] <= now_ms + 100);
    }
    assert_int_not_equal(at_ms[0], at_ms[1]);
}

static void a_node_that_is_not_known_says_hello_again_and_its_workers_go_on(void **state)
{
    up();
    report(0, PHASE_IN, 3);
    forget();
    refuse(MU_ESTALE);
    assert_int_equal(said("hello"), 1);
    assert_int_equal(said("stop"), 0);
    refuse(MU_ESTALE); /* the answer to what was on its way */
    assert_int_equal(said("hello"), 1);
    assert_int_equal(reported[0].entered, 3);
}

static void a_name_in_use_is_tried_for_three_leases(void **state)
{
    uint64_t begin_ms = now_ms, lease_ms = 3 * RENEW_MS; /* as long as it knows no better */

    STEP(.kind = AGENT_ON_CONNECTED);
    for (uint32_t n = 0; said("done") == 0;) {
        assert_true(now_ms < begin_ms + 3 * lease_ms + 1010);
        if (said("hello") > n) {
            n = said("hello");
            refuse(MU_EEXIST);
        }
        pass(10, false);
    }
    assert_int_equal(said("done 1"), 1);
    assert_true(now_ms >= begin_ms + 3 * lease_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AGENT_CASE(another_number_means_new_lives),
        AGENT_CASE(another_store_means_new_lives_even_under_the_same_number),
        AGENT_CASE(an_exit_is_acknowledged_before_the_next_life_starts),
        AGENT_CASE(the_dead_say_nothing_more),
        AGENT_CASE(a_worker_that_has_forgotten_goes_on_as_a_newcomer),
        AGENT_CASE(a_draining_node_says_so_and_leaves_once_its_workers_hold_nothing),
        AGENT_CASE(a_drain_may_come_with_an_ack),
        AGENT_CASE(a_draining_node_starts_nothing),
        AGENT_CASE(the_end_of_the_job_stops_all_and_is_a_success),
        AGENT_CASE(a_newcomer_to_a_job_that_is_done_leaves_at_once),
        AGENT_CASE(the_end_is_reached_although_the_connection_was_lost),
        AGENT_CASE(an_end_heard_instead_of_a_welcome_stops_running_workers),
        AGENT_CASE(a_refusal_for_good_stops_all_and_is_a_failure),
        AGENT_CASE(a_refusal_instead_of_a_welcome_stops_running_workers),
        AGENT_CASE(a_first_hello_that_is_refused_ends_at_once),
        AGENT_CASE(not_now_is_tried_again),
        AGENT_CASE(whoever_is_refused_again_and_again_asks_less_often),
        AGENT_CASE(those_who_are_refused_together_do_not_come_back_together),
        AGENT_CASE(a_node_that_is_not_known_says_hello_again_and_its_workers_go_on),
        AGENT_CASE(a_name_in_use_is_tried_for_three_leases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
