/* The agent: what it repeats until it is heard, and whom it tells of leases. */
#include "unit/core/agent_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- levels ---- */

static void workers_start_once_the_node_is_welcome(void **state)
{
    STEP(.kind = AGENT_ON_CONNECTED);
    assert_int_equal(said("hello"), 1);
    assert_int_equal(said("start"), 0);
    welcome(7, 1);
    assert_int_equal(said("start 7.0#1"), 1);
    assert_int_equal(reported[0].phase, PHASE_WARMING);
    assert_int_equal(reported[0].incarnation, 1);
}

static void a_hello_without_answer_is_said_again(void **state)
{
    STEP(.kind = AGENT_ON_CONNECTED);
    pass(RENEW_MS * 3 - 1, false);
    assert_int_equal(said("hello"), 1);
    pass(1, false);
    assert_int_equal(said("hello"), 2);
    welcome(7, 1);
    pass(LEASE_MS * 3, true);
    assert_int_equal(said("hello"), 2);
}

static void reports_are_repeated_until_they_are_acknowledged(void **state)
{
    uint64_t seq;

    up();
    report(0, PHASE_WARM, 0);
    seq = reported_seq;
    assert_int_equal(said("reports"), 1);
    pass(1000, true);
    assert_true(said("reports") >= 5);
    assert_int_equal(reported_seq, seq); /* the same again */
    ack(0, seq - 1, 0, 0);
    forget();
    pass(1000, true);
    assert_true(said("reports") >= 4);
    ack(0, seq, 0, 0);
    forget();
    pass(1000, true);
    assert_int_equal(said("reports"), 0);
}

static void renewals_come_three_to_a_lease_at_least(void **state)
{
    up();
    pass(LEASE_MS, true);
    assert_true(said("renew") >= LEASE_MS / RENEW_MS);
    pass(LEASE_MS, true);
    generation(4);
    pass(RENEW_MS, true);
    assert_int_equal(held, 4); /* They say which generation is held. */
}

static void the_worker_cannot_choose_its_slot_or_life(void **state)
{
    up();
    report(0, PHASE_IN, 3);
    assert_int_equal(reported[0].incarnation, 1);
    assert_int_equal(reported[0].slot, 0);
    assert_int_equal(reported[0].entered, 3);
    assert_int_equal(reported[0].step, 5);
}

static void after_a_lost_connection_it_connects_and_says_all_again(void **state)
{
    up();
    generation(4);
    STEP(.kind = AGENT_ON_ACTIVE, .u.active = &(struct msg_active){4});
    report(0, PHASE_IN, 4);
    forget();
    STEP(.kind = AGENT_ON_CLOSED);
    assert_int_equal(said("connect"), 1);
    report(0, PHASE_IN, 4);
    assert_int_equal(said("reports"), 0); /* The next hello has them. */
    STEP(.kind = AGENT_ON_CONNECTED);
    assert_int_equal(said("hello"), 1);
    assert_int_equal(said_node, 7);
    assert_int_equal(held, 4);
    assert_int_equal(active, 4);
    assert_int_equal(reported[0].entered, 4);
    welcome(7, 1);
    assert_int_equal(said("life"), 0); /* The same number: the same life. */
    assert_int_equal(said("renew"), 1);
    assert_int_equal(said("reports"), 1);
}

static void older_generations_are_not_passed_down(void **state)
{
    up();
    generation(4);
    generation(3);
    generation(4);
    assert_int_equal(said("tell 0 generation"), 1);
    STEP(.kind = AGENT_ON_ACTIVE, .u.active = &(struct msg_active){4});
    STEP(.kind = AGENT_ON_ACTIVE, .u.active = &(struct msg_active){3});
    assert_int_equal(said("tell 0 active"), 1);
}

/* ---- leases ---- */

static void a_lease_is_told_from_acknowledged_renewals_and_counts_from_their_sending(void **state)
{
    char line[LINE_MAX];
    uint64_t sent_ms;

    up();
    for (uint64_t seq = renewed_seq; renewed_seq == seq;) {
        pass(1, true);
    }
    sent_ms = now_ms;
    forget();
    pass(RENEW_MS - 1, true);
    assert_int_equal(said("tell 0 lease"), 0);
    ack(renewed_seq, 0, 0, 0);
    snprintf(line, sizeof(line), "tell 0 lease %" PRIu64, sent_ms);
    assert_int_equal(said(line), 1);
    ack(renewed_seq, 0, 0, 0); /* again: nothing new */
    ack(renewed_seq - 1, 0, 0, 0);
    ack(renewed_seq + 1, 0, 0, 0); /* one that was never sent */
    ack(0, 9, 0, 0);
    assert_int_equal(said("tell 0 lease"), 1);
}

static void an_ack_that_names_a_generation_it_does_not_hold_gives_no_lease(void **state)
{
    up();
    generation(4);
    pass(RENEW_MS, true);
    forget();
    ack(renewed_seq, 0, 0, 5);
    assert_int_equal(said("tell 0 lease"), 0);
    generation(5);
    pass(RENEW_MS, true);
    ack(renewed_seq, 0, 0, 5);
    assert_int_equal(said("tell 0 lease"), 1);
}

static void a_renewal_so_old_that_its_time_is_forgotten_gives_no_lease(void **state)
{
    uint64_t seq;

    up();
    pass(RENEW_MS, true);
    seq = renewed_seq;
    pass(RENEW_MS * AGENT_RENEWALS, true);
    forget();
    ack(seq, 0, 0, 0);
    assert_int_equal(said("tell 0 lease"), 0);
}

static void a_worker_without_a_beat_for_a_lease_is_reported_lost(void **state)
{
    up();
    report(0, PHASE_IN, 1);
    pass(LEASE_MS - 1, false);
    assert_int_equal(reported[0].phase, PHASE_IN);
    pass(1, false);
    assert_int_equal(reported[0].phase, PHASE_LOST);
    STEP(.kind = AGENT_ON_BEAT);
    assert_int_equal(reported[0].phase, PHASE_IN);
}

static void a_lost_worker_has_no_lease_until_its_return_is_known(void **state)
{
    up();
    report(0, PHASE_IN, 1);
    pass(LEASE_MS, false);
    ack(0, reported_seq, 0, 0); /* The loss is known. */
    forget();
    ack(renewed_seq, 0, 0, 0);
    assert_int_equal(said("tell 0 lease"), 0);
    STEP(.kind = AGENT_ON_BEAT);
    pass(RENEW_MS, true);
    ack(renewed_seq, 0, 0, 0);
    assert_int_equal(said("tell 0 lease"), 0); /* Its return is not. */
    ack(0, reported_seq, 0, 0);
    pass(RENEW_MS, true);
    ack(renewed_seq, 0, 0, 0);
    assert_int_equal(said("tell 0 lease"), 1);
}

static void the_lost_one_alone_has_no_lease(void **state)
{
    open_agent(2);
    up();
    STEP(.kind = AGENT_ON_BEAT, .slot = 0); /* Nobody is missed who has never said anything. */
    for (uint64_t end_ms = now_ms + LEASE_MS; now_ms < end_ms; now_ms += 100) {
        STEP(.kind = AGENT_ON_BEAT, .slot = 1);
    }
    STEP(.kind = AGENT_ON_BEAT, .slot = 1);
    assert_int_equal(reported[0].phase, PHASE_LOST);
    assert_int_equal(reported[1].phase, PHASE_WARMING);
    pass(RENEW_MS, false);
    forget();
    ack(renewed_seq, 0, 0, 0);
    assert_int_equal(said("tell 0 lease"), 0);
    assert_int_equal(said("tell 1 lease"), 1);
}

/* A worker that has come just now need not wait for the next renewal. */
static void who_attaches_is_told_of_the_lease_at_once(void **state)
{
    char line[LINE_MAX];
    uint64_t sent_ms;

    up();
    sent_ms = agent.lease_ms;
    assert_true(sent_ms > 0);
    now_ms += 400;
    STEP(.kind = AGENT_ON_ATTACHED);
    snprintf(line, sizeof(line), "tell 0 lease %" PRIu64, sent_ms);
    assert_int_equal(said(line), 1);
}

/* Out of touch, nobody's lease grows, whatever workers say. */
static void without_the_orchestrator_there_is_no_other_lease(void **state)
{
    up();
    STEP(.kind = AGENT_ON_ATTACHED);
    STEP(.kind = AGENT_ON_CLOSED);
    forget();
    pass(60000, true);
    assert_int_equal(said("tell 0 lease"), 0);
    assert_int_equal(said("stop"), 0);
    STEP(.kind = AGENT_ON_CONNECTED);
    welcome(7, 1);
    ack(renewed_seq, reported_seq, 0, 0);
    assert_int_equal(said("tell 0 lease"), 1);
}

static void apart_from(wid peer)
{
    struct report r = {.phase = PHASE_IN, .entered = 4, .apart_in = 4, .apart_n = peer != 0};

    r.apart[0] = (struct apart){.peer = peer, .idle_ms = 5};
    STEP(.kind = AGENT_ON_REPORT, .u.report = &r);
}

static void who_is_apart_is_said_until_it_is_known(void **state)
{
    up();
    report(0, PHASE_IN, 4);
    ack(0, reported_seq, 0, 0);
    forget();
    apart_from(9);
    assert_int_equal(said("reports"), 1);
    assert_true(reported[0].apart_in == 4 && reported[0].apart_n == 1);
    assert_true(reported[0].apart[0].peer == 9 && reported[0].apart[0].idle_ms == 5);
    pass(400, true);
    assert_true(said("reports") > 1); /* It is not acknowledged. */
    ack(0, reported_seq, 0, 0);
    forget();
    apart_from(9); /* no news */
    assert_int_equal(said("reports"), 0);
    apart_from(8);
    assert_int_equal(said("reports"), 1);
    apart_from(0);
    assert_int_equal(said("reports"), 2);
    assert_int_equal(reported[0].apart_n, 0);
}

static void who_is_apart_is_said_when_the_orchestrator_is_back(void **state)
{
    up();
    report(0, PHASE_IN, 4);
    STEP(.kind = AGENT_ON_CLOSED);
    apart_from(9);
    STEP(.kind = AGENT_ON_CONNECTED);
    assert_true(reported[0].apart_n == 1 && reported[0].apart[0].peer == 9);
    welcome(7, 1);
    ack(0, reported_seq, 0, 0);
    STEP(.kind = AGENT_ON_CLOSED); /* and again, to one that has forgotten it */
    memset(reported, 0, sizeof(reported));
    STEP(.kind = AGENT_ON_CONNECTED);
    assert_int_equal(reported[0].apart_n, 1);
    STEP(.kind = AGENT_ON_FORGET); /* It is of another life. */
    welcome(7, 1);
    assert_int_equal(reported[0].apart_n, 0);
}

static void configurations_that_make_no_sense_are_refused(void **state)
{
    struct agent a;
    struct agent_config ok = {.renew_ms = 1, .members_max = 1, .hello.slots = 1}, k;

    k = ok;
    k.hello.slots = 0;
    assert_int_equal(agent_init(&a, &k), MU_EINVAL);
    k.hello.slots = SLOTS_MAX + 1;
    assert_int_equal(agent_init(&a, &k), MU_EINVAL);
    k = ok;
    k.renew_ms = 0;
    assert_int_equal(agent_init(&a, &k), MU_EINVAL);
    k = ok;
    k.members_max = 0;
    assert_int_equal(agent_init(&a, &k), MU_EINVAL);
}

static void a_generation_larger_than_there_is_room_for_is_not_taken(void **state)
{
    struct member members[5] = {{0}};
    struct generation g = {.number = 4, .members_n = 5, .members = members};

    up();
    STEP(.kind = AGENT_ON_GENERATION, .u.generation = &g);
    assert_int_equal(said("tell 0 generation"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AGENT_CASE(workers_start_once_the_node_is_welcome),
        AGENT_CASE(a_hello_without_answer_is_said_again),
        AGENT_CASE(reports_are_repeated_until_they_are_acknowledged),
        AGENT_CASE(renewals_come_three_to_a_lease_at_least),
        AGENT_CASE(the_worker_cannot_choose_its_slot_or_life),
        AGENT_CASE(after_a_lost_connection_it_connects_and_says_all_again),
        AGENT_CASE(older_generations_are_not_passed_down),
        AGENT_CASE(a_lease_is_told_from_acknowledged_renewals_and_counts_from_their_sending),
        AGENT_CASE(an_ack_that_names_a_generation_it_does_not_hold_gives_no_lease),
        AGENT_CASE(a_renewal_so_old_that_its_time_is_forgotten_gives_no_lease),
        AGENT_CASE(a_worker_without_a_beat_for_a_lease_is_reported_lost),
        AGENT_CASE(a_lost_worker_has_no_lease_until_its_return_is_known),
        AGENT_CASE(the_lost_one_alone_has_no_lease),
        AGENT_CASE(who_attaches_is_told_of_the_lease_at_once),
        AGENT_CASE(without_the_orchestrator_there_is_no_other_lease),
        AGENT_CASE(who_is_apart_is_said_until_it_is_known),
        AGENT_CASE(who_is_apart_is_said_when_the_orchestrator_is_back),
        AGENT_CASE(configurations_that_make_no_sense_are_refused),
        AGENT_CASE(a_generation_larger_than_there_is_room_for_is_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
