/* Losses: leases, exits, failure generations, grace, and what a loss does to a planned change. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <string.h>

/* ---- who is lost, and when ---- */

static void an_exit_is_a_loss_at_once(void **state)
{
    form("a b c");
    exits("b", 0, 139);
    expect_generation("failure", "a c");
}

static void a_worker_that_stops_answering_is_a_loss_at_once_and_may_be_taken_back(void **state)
{
    form("a b c");
    hold();
    report("b", 0, PHASE_LOST, 1, 1);
    assert_int_equal(said("record generation 2 failure a c"), 1);
    report("b", 0, PHASE_IN, 1, 1); /* Too late for that record; b holds the state all the same. */
    sync_all();
    assert_int_equal(job().generation, 2);
    enter("a c");
    expect_active("failure", "a c");
}

static void a_lease_lapses_on_time_and_not_before(void **state)
{
    form("a b");
    renew("a");
    renew("b");
    silence("b");
    pass(LEASE_MS - 1);
    expect_active("fresh", "a b");
    pass(1);
    expect_generation("failure", "a");
}

static void renewals_and_reports_alone_keep_a_lease(void **state)
{
    form("a b");
    silence("b");
    for (int i = 0; i < 10; i++) {
        pass(LEASE_MS - 1);
        resend("b");
    }
    expect_active("fresh", "a b");
}

static void keeper_says(uint32_t node, uint64_t store, uint64_t incarnation)
{
    struct msg_bye m = {.node = node, .store = store, .incarnation = incarnation};

    kit_step(&(struct event){.kind = EVENT_BYE, .conn = 9999, .u.bye = &m});
}

static void a_keeper_s_word_is_a_loss_at_once(void **state)
{
    form("a b");
    keeper_says(2, f.config.store, at("b")->incarnation);
    expect_generation("failure", "a");
}

static void a_keeper_s_word_about_another_agent_changes_nothing(void **state)
{
    form("a b");
    keeper_says(2, f.config.store, at("b")->incarnation + 1);
    keeper_says(2, f.config.store + 1, at("b")->incarnation);
    keeper_says(77, f.config.store, at("b")->incarnation);
    expect_active("fresh", "a b");
}

static void a_closed_connection_has_reconnect_ms_to_come_back(void **state)
{
    form("a b");
    closed("b");
    pass(f.config.reconnect_ms - 1);
    expect_active("fresh", "a b");
    hello("b");
    pass(LEASE_MS);
    expect_active("fresh", "a b");
    closed("b");
    pass(f.config.reconnect_ms);
    expect_generation("failure", "a");
}

static void leases_that_lapse_together_make_one_generation_persisted_before_it_is_sent(void **state)
{
    form("a b c d");
    forget();
    silence("b d");
    pass(LEASE_MS);
    expect_log("record generation 2 failure a c\n"
               "a: generation 2\nb: generation 2\nc: generation 2\nd: generation 2\n");
}

static void nothing_is_sent_before_the_generation_is_durable(void **state)
{
    form("a b c");
    hold();
    forget();
    exits("c", 0, 1);
    pass(60000);
    assert_int_equal(said_like("a: generation"), 0);
    assert_int_equal(job().generation, 1);
    sync_one(); /* the restart that it spent */
    sync_one();
    assert_int_equal(said("a: generation 2"), 1);
    sync_all();
}

static void only_members_get_the_key(void **state)
{
    form("a b c");
    join("s");
    settle();
    exits("b", 0, 137);
    assert_int_not_equal(at("a")->key[0], 0);
    assert_int_equal(at("b")->key[0], 0);
    assert_memory_equal(at("a")->key, at("c")->key, KEY_BYTES);
}

static void every_generation_has_a_fresh_key(void **state)
{
    uint8_t key[KEY_BYTES];

    form("a b c");
    memcpy(key, at("a")->key, sizeof(key));
    exits("b", 0, 137);
    assert_memory_not_equal(at("a")->key, key, KEY_BYTES);
}

static void a_generation_is_sent_once_by_a_connection(void **state)
{
    join("a b");
    pass(WINDOW_MS);
    assert_int_equal(said("a: generation 1"), 1);
    enter("a b");
    resend("a");
    assert_int_equal(said("a: generation 1"), 1);
    assert_int_equal(said("a: active 1"), 1);
}

/* ---- who is in a failure generation ---- */

static void survivors_keep_their_order_and_new_nodes_come_after(void **state)
{
    f.slots = 2;
    form("a b c d");
    exits("b", 0, 137);
    settle();
    expect_active("failure", "a a.1 b.1 c c.1 d d.1");
    exits("a", 0, 137);
    exits("a", 1, 137);
    settle();
    expect_active("failure", "b.1 c c.1 d d.1"); /* a new rank 0 */
    next_life("b", 0);
    warm("b");
    settle();
    expect_active("boundary", "b#2+ b.1 c c.1 d d.1"); /* back beside its neighbour */
}

static void a_failure_generation_is_the_living_of_the_last_active_one(void **state)
{
    form("a b c");
    join("d");
    expect_generation("boundary", "a b c d+");
    enter("a d"); /* Some have moved on, some have not: it is not active. */
    exits("b", 0, 137);
    expect_generation("failure", "a c"); /* d goes back, although it had entered. */
    assert_int_equal(job().active, 1);
    report("d", 0, PHASE_WARM, 0, at("d")->held);
    settle();
    expect_active("boundary", "a c d+");
}

static void a_newcomer_lost_before_it_has_entered_costs_only_itself(void **state)
{
    form("a b");
    join("c");
    expect_generation("boundary", "a b c+");
    exits("c", 0, 137);
    expect_generation("failure", "a b");
    settle();
    expect_active("failure", "a b");
}

static void leavers_are_included_until_the_generation_without_them_is_active(void **state)
{
    form("a b c");
    want(2);
    expect_generation("boundary", "a b");
    exits("b", 0, 137);
    expect_generation("failure", "a c"); /* c was to leave; it still holds the state. */
    settle();
    expect_active("failure", "a c"); /* Two are wanted, two are here. */
}

static void a_leaver_lost_before_the_generation_without_it_is_active_makes_a_failure(void **state)
{
    form("a b c");
    want(2);
    expect_generation("boundary", "a b");
    exits("c", 0, 137); /* The others may wait for its last READY. */
    expect_generation("failure", "a b");
    settle();
    expect_active("failure", "a b");
}

static void active_needs_every_member(void **state)
{
    form("a b c");
    join("d");
    forget();
    enter("a b c");
    assert_int_equal(said("record active 2"), 0);
    report("d", 0, PHASE_IN, 0, 2); /* in it, without the state yet */
    assert_int_equal(said("record active 2"), 0);
    report("d", 0, PHASE_IN, 2, 2);
    assert_int_equal(said("record active 2"), 1);
    assert_int_equal(said("a: active 2"), 1);
    assert_int_equal(job().active, 2);
}

static void entering_an_older_generation_does_not_count(void **state)
{
    form("a b");
    exits("b", 0, 137);
    report("a", 0, PHASE_IN, 1, 1);
    assert_int_equal(job().active, 1);
    report("a", 0, PHASE_IN, 2, 2);
    assert_int_equal(job().active, 2);
}

static void a_worker_of_an_earlier_life_can_say_nothing(void **state)
{
    form("a b");
    join("c");
    exits("c", 0, 137);
    settle();
    next_life("c", 0);
    at("c")->reports[0].incarnation = 1;
    report("c", 0, PHASE_WARM, 0, job().generation);
    expect_active("failure", "a b");
    at("c")->reports[0].incarnation = 2;
    report("c", 0, PHASE_WARM, 0, job().generation);
    expect_generation("boundary", "a b c#2+");
}

static void the_dead_stay_dead(void **state)
{
    form("a b");
    exits("b", 0, 137);
    report("b", 0, PHASE_IN, 1, 1);
    report("b", 0, PHASE_WARM, 0, 2);
    settle();
    expect_active("failure", "a");
}

static void reports_that_were_overtaken_change_nothing(void **state)
{
    form("a b");
    exits("b", 0, 137);
    at("b")->reports[0].incarnation = 2;
    at("b")->seq -= 2;
    report("b", 0, PHASE_WARM, 0, 2);
    settle();
    expect_active("failure", "a");
}

/* ---- below min ---- */

static void below_min_a_generation_holds_and_goes_on_when_it_is_refilled(void **state)
{
    shape(2, 3);
    form("a b");
    exits("b", 0, 137);
    expect_generation("failure hold", "a");
    settle();
    expect_active("failure hold", "a");
    pass(600000); /* It waits for as long as it takes. */
    expect_active("failure hold", "a");
    join("c");
    expect_generation("boundary", "a c+");
    settle();
    expect_active("boundary", "a c+");
}

static void a_node_with_a_slot_missing_does_not_count_for_min(void **state)
{
    shape(2, 2);
    f.slots = 2;
    form("a b");
    exits("b", 1, 137);
    expect_generation("failure hold", "a a.1 b");
    settle();
    next_life("b", 1);
    report("b", 1, PHASE_WARM, 0, job().generation);
    expect_generation("boundary", "a a.1 b b.1#2+");
}

/* ---- grace ---- */

static void nobody_is_evicted_after_a_restart_until_a_lease_has_passed(void **state)
{
    form("a b c");
    pass(60000);
    restart();
    forget();
    pass(LEASE_MS - 1);
    assert_int_equal(said_like("record"), 0);
    hello("a");
    hello("c");
    pass(1);
    expect_generation("failure", "a c");
}

static void everyone_takes_up_where_it_was_after_a_restart(void **state)
{
    uint32_t number;

    form("a b");
    number = at("b")->node;
    restart();
    forget();
    hello("a");
    hello("b");
    assert_int_equal(at("b")->node, number);
    pass(60000);
    expect_active("fresh", "a b");
    assert_int_equal(said_like("record"), 0);
}

static void nobody_is_evicted_after_a_jump_of_the_clock(void **state)
{
    form("a b");
    forget();
    jump(60000);
    assert_int_equal(said_like("record"), 0);
    pass(LEASE_MS - 1); /* a and b renew */
    pass(LEASE_MS);
    expect_active("fresh", "a b");
}

static void grace_after_a_jump_ends(void **state)
{
    form("a b");
    silence("b");
    jump(60000);
    renew("a");
    pass(LEASE_MS - 1);
    expect_active("fresh", "a b");
    pass(1);
    expect_generation("failure", "a");
}

static void a_quarter_of_a_lease_is_no_jump(void **state)
{
    form("a b");
    renew("a");
    renew("b");
    for (int i = 0; i < 3; i++) {
        jump(LEASE_MS / 4);
        renew("a");
    }
    expect_active("fresh", "a b");
    jump(LEASE_MS / 4);
    expect_generation("failure", "a");
}

static void a_connection_that_closed_gets_the_grace_too(void **state)
{
    form("a b");
    closed("b");
    jump(60000);
    expect_active("fresh", "a b");
    hello("b");
    pass(LEASE_MS);
    expect_active("fresh", "a b");
}

static void losing_all_but_one_and_replacing_them_goes_on(void **state)
{
    shape(1, 4);
    form("a b c d");
    silence("a b c");
    pass(LEASE_MS);
    settle();
    expect_active("failure", "d");
    assert_int_equal(job().nodes_n, 1);
    join("e f g");
    settle();
    expect_active("boundary", "d e f+ g+");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_exit_is_a_loss_at_once),
        CASE(a_worker_that_stops_answering_is_a_loss_at_once_and_may_be_taken_back),
        CASE(a_lease_lapses_on_time_and_not_before),
        CASE(renewals_and_reports_alone_keep_a_lease),
        CASE(a_keeper_s_word_is_a_loss_at_once),
        CASE(a_keeper_s_word_about_another_agent_changes_nothing),
        CASE(a_closed_connection_has_reconnect_ms_to_come_back),
        CASE(leases_that_lapse_together_make_one_generation_persisted_before_it_is_sent),
        CASE(nothing_is_sent_before_the_generation_is_durable),
        CASE(only_members_get_the_key),
        CASE(every_generation_has_a_fresh_key),
        CASE(a_generation_is_sent_once_by_a_connection),
        CASE(survivors_keep_their_order_and_new_nodes_come_after),
        CASE(a_failure_generation_is_the_living_of_the_last_active_one),
        CASE(a_newcomer_lost_before_it_has_entered_costs_only_itself),
        CASE(leavers_are_included_until_the_generation_without_them_is_active),
        CASE(a_leaver_lost_before_the_generation_without_it_is_active_makes_a_failure),
        CASE(active_needs_every_member),
        CASE(entering_an_older_generation_does_not_count),
        CASE(a_worker_of_an_earlier_life_can_say_nothing),
        CASE(the_dead_stay_dead),
        CASE(reports_that_were_overtaken_change_nothing),
        CASE(below_min_a_generation_holds_and_goes_on_when_it_is_refilled),
        CASE(a_node_with_a_slot_missing_does_not_count_for_min),
        CASE(nobody_is_evicted_after_a_restart_until_a_lease_has_passed),
        CASE(everyone_takes_up_where_it_was_after_a_restart),
        CASE(nobody_is_evicted_after_a_jump_of_the_clock),
        CASE(grace_after_a_jump_ends),
        CASE(a_quarter_of_a_lease_is_no_jump),
        CASE(a_connection_that_closed_gets_the_grace_too),
        CASE(losing_all_but_one_and_replacing_them_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
