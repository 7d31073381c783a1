/* Restart budgets: what is charged, and that it can't be forgotten. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <string.h>

/* One life that ends by itself with this code, and the next one begins. */
static void fails(const char *name, uint32_t code)
{
    exits(name, 0, code);
    next_life(name, 0);
}

static uint32_t charged(void)
{
    return said_like("record spent");
}

/* Until then another member may turn out to be lost (restart mode). */
static void decide_blame(void)
{
    pass(f.config.reconnect_ms);
}

static void exits_1_to_127_are_charged_and_no_others(void **state)
{
    static const uint32_t FREE[] = {0, 128, 137, 143, 255};

    f.max_restarts = 100;
    form("a b");
    for (size_t i = 0; i < ARRAY_LEN(FREE); i++) {
        fails("b", FREE[i]);
        assert_int_equal(charged(), 0);
    }
    fails("b", 1);
    fails("b", 127);
    assert_int_equal(charged(), 2);
    assert_int_equal(said("record spent b#6 1"), 1);
    assert_int_equal(said("record spent b#7 2"), 1);
}

static void a_life_is_charged_once_however_often_its_end_is_reported(void **state)
{
    form("a b");
    exits("b", 0, 1);
    resend("b");
    closed("b");
    hello("b");
    resend("b");
    assert_int_equal(charged(), 1);
    restart();
    hello("b");
    resend("b");
    assert_int_equal(charged(), 1);
}

/* Agents say all they know again and again: what was nobody's fault the first time stays so. */
static void a_kill_is_not_charged_however_often_it_is_reported(void **state)
{
    static const uint32_t CODES[] = {128, 137, 143, 255};

    form("a b");
    for (size_t i = 0; i < ARRAY_LEN(CODES); i++) {
        exits("b", 0, CODES[i]);
        resend("b");
        closed("b");
        hello("b");
        resend("b");
        decide_blame();
        assert_int_equal(charged(), 0);
        next_life("b", 0);
    }
}

static void membership_changes_spend_nothing(void **state)
{
    form("a b c");
    want(1);
    settle();
    want(3);
    settle();
    exits("a", 0, 137);
    settle();
    silence("b");
    pass(LEASE_MS);
    settle();
    assert_true(job().generation > 4);
    assert_int_equal(charged(), 0);
}

static void slots_have_their_own_budgets(void **state)
{
    f.slots = 2;
    f.max_restarts = 1;
    form("a b");
    exits("b", 0, 1);
    exits("b", 1, 1);
    assert_int_equal(said("record spent b 1"), 1);
    assert_int_equal(said("record spent b.1 1"), 1);
    assert_int_equal(at("b")->refused, 0);
}

static void a_node_that_has_spent_its_budget_is_refused(void **state)
{
    f.max_restarts = 2;
    form("a b");
    fails("b", 1);
    fails("b", 1);
    assert_int_equal(at("b")->refused, 0);
    exits("b", 0, 1);
    assert_int_equal(at("b")->refused, MU_ELIMIT);
    assert_non_null(strstr(at("b")->refusal, "2 restarts"));
    closed("b");
    rejoin("b");
    assert_int_equal(at("b")->refused, MU_ELIMIT);
    assert_non_null(strstr(at("b")->refusal, "'b'"));
    assert_int_equal(said_like("record node b"), 1);
}

static void with_no_restarts_the_first_failure_is_the_last(void **state)
{
    f.max_restarts = 0;
    form("a b");
    exits("b", 0, 3);
    assert_int_equal(at("b")->refused, MU_ELIMIT);
}

static void a_quick_rejoin_resets_nothing(void **state)
{
    f.max_restarts = 2;
    form("a b");
    exits("b", 0, 1);
    closed("b");
    rejoin("b");
    assert_int_equal(at("b")->refused, 0);
    exits("b", 0, 1);
    assert_int_equal(said("record spent b 2"), 1);
    closed("b");
    rejoin("b");
    exits("b", 0, 1);
    assert_int_equal(at("b")->refused, MU_ELIMIT);
}

static void leaving_for_good_resets_nothing(void **state)
{
    f.max_restarts = 1;
    form("a b");
    exits("b", 0, 1);
    settle();
    bye("b");
    pass(60000);
    assert_int_equal(job().nodes_n, 1);
    expect_replays();
    rejoin("b");
    exits("b", 0, 1);
    assert_int_equal(at("b")->refused, MU_ELIMIT);
}

static void a_restart_of_the_orchestrator_resets_nothing(void **state)
{
    f.max_restarts = 1;
    form("a b");
    exits("b", 0, 1);
    restart();
    rejoin("b");
    hello("a");
    settle();
    restart_from_snapshot();
    rejoin("b");
    exits("b", 0, 1);
    assert_int_equal(said("record spent b 2"), 1);
    assert_int_equal(at("b")->refused, MU_ELIMIT);
    restart();
    rejoin("b");
    assert_int_equal(at("b")->refused, MU_ELIMIT);
}

static void a_budget_is_per_name_not_per_number(void **state)
{
    f.max_restarts = 1;
    form("a b");
    exits("b", 0, 1);
    closed("b");
    hello("c");
    exits("c", 0, 1);
    assert_int_equal(said("record spent c 1"), 1);
    assert_int_equal(at("c")->refused, 0);
}

static void a_new_run_has_a_new_budget(void **state)
{
    shape(1, 1);
    f.max_restarts = 0;
    form("a");
    exits("a", 0, 1);
    assert_int_equal(at("a")->refused, MU_ELIMIT);
    admin(ADMIN_SHUTDOWN, "");
    bye("a");
    rejoin("a");
    assert_int_equal(at("a")->refused, 0);
    assert_int_equal(job().run, 2);
    expect_replays();
}

static void charges_of_one_life_after_another_add_up_on_a_slow_disk(void **state)
{
    form("a b");
    hold();
    fails("b", 1);
    fails("b", 1);
    fails("b", 1);
    sync_all();
    exits("b", 0, 1);
    assert_int_equal(at("b")->refused, MU_ELIMIT);
}

static void a_rejoin_before_the_charge_is_durable_resets_nothing(void **state)
{
    f.max_restarts = 1;
    form("a b");
    hold();
    exits("b", 0, 1);
    closed("b");
    rejoin("b");
    sync_all();
    exits("b", 0, 1);
    assert_int_equal(at("b")->refused, MU_ELIMIT);
}

static void a_refusal_that_was_not_heard_is_said_again(void **state)
{
    f.max_restarts = 0;
    form("a b");
    exits("b", 0, 1);
    restart(); /* the refusal was on its way */
    hello("b");
    assert_int_equal(at("b")->refused, MU_ELIMIT);
}

static void a_charge_that_could_not_be_written_is_made_again(void **state)
{
    form("a b");
    hold();
    exits("b", 0, 1);
    fail_all();
    sync_all();
    pass(1000);
    resend("b");
    assert_int_equal(said("record spent b 1"), 2);
}

/* ---- whose fault it was (restart mode) ---- */

static void a_script_that_fails_when_a_peer_is_lost_is_not_charged(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("c", 0, 137);
    exits("b", 0, 1);
    assert_int_equal(charged(), 0);
}

static void a_script_that_fails_when_a_peer_s_connection_is_gone_is_not_charged(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    closed("c");
    exits("b", 0, 1);
    assert_int_equal(charged(), 0);
}

static void the_first_to_fail_is_charged_and_no_other(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("c", 0, 1);
    exits("b", 0, 1);
    decide_blame();
    assert_int_equal(charged(), 1);
    assert_int_equal(said("record spent c 1"), 1);
}

static void a_script_whose_end_is_heard_before_its_cause_is_not_charged(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("b", 0, 1);
    exits("c", 0, 137);
    exits("a", 0, 1);
    decide_blame();
    resend("b");
    decide_blame();
    assert_int_equal(charged(), 0);
}

static void nor_is_one_beside_a_script_of_its_own_node_that_was_killed(void **state)
{
    f.mode = MODE_RESTART;
    f.slots = 2;
    form("a b");
    exits("b", 1, 1);
    exits("b", 0, 139);
    decide_blame();
    assert_int_equal(charged(), 0);
}

static void nor_one_whose_peer_s_connection_closes_a_moment_later(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("b", 0, 1);
    closed("c");
    decide_blame();
    assert_int_equal(charged(), 0);
}

static void nor_one_whose_peer_s_agent_was_killed(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("b", 0, 1);
    bye("c");
    decide_blame();
    assert_int_equal(charged(), 0);
}

static void a_newcomer_s_loss_is_no_excuse(void **state)
{
    f.mode = MODE_RESTART;
    shape(2, 2);
    form("a b");
    hello("c");
    exits("b", 0, 1);
    closed("c");
    decide_blame();
    assert_int_equal(charged(), 1);
}

static void nobody_is_restarted_before_it_is_known_whose_fault_it_was(void **state)
{
    uint64_t before;

    f.mode = MODE_RESTART;
    form("a b c");
    before = job().generation;
    exits("b", 0, 1);
    next_life("b", 0);
    warm("b");
    pass(f.config.reconnect_ms - 1);
    assert_int_equal(job().generation, before);
    pass(1);
    settle();
    assert_true(job().generation > before);
    assert_int_equal(said("record spent b 1"), 1);
}

static void who_leaves_at_once_is_charged_before(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("b", 0, 1);
    bye("b");
    assert_int_equal(charged(), 1);
}

static void who_comes_back_at_once_is_charged_before(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("b", 0, 1);
    closed("b");
    rejoin("b");
    assert_int_equal(charged(), 1);
}

static void who_has_no_peers_is_charged_at_once(void **state)
{
    f.mode = MODE_RESTART;
    shape(1, 1);
    form("a");
    exits("a", 0, 1);
    assert_int_equal(charged(), 1);
}

static void a_restart_of_the_orchestrator_forgets_no_blame(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("b", 0, 1);
    restart();
    hello("b");
    hello("a");
    hello("c");
    decide_blame();
    assert_int_equal(charged(), 1);
}

static void with_fewer_than_min_left_the_run_has_failed(void **state)
{
    f.mode = MODE_RESTART;
    f.max_restarts = 0;
    shape(2, 2);
    form("a b");
    exits("b", 0, 1);
    decide_blame();
    assert_int_equal(said_like("record ended"), 1);
}

static void with_min_left_the_others_go_on(void **state)
{
    f.mode = MODE_RESTART;
    f.max_restarts = 0;
    shape(1, 2);
    form("a b");
    exits("b", 0, 1);
    bye("b");
    pass(f.config.reconnect_ms);
    assert_int_equal(said_like("record ended"), 0);
    expect_generation("fresh", "a");
}

/* One round: this node's script fails, is ready again, and everyone is restarted. */
static void round_of(const char *name)
{
    exits(name, 0, 1);
    next_life(name, 0);
    warm(name);
    decide_blame();
    settle();
}

static void a_script_that_fails_on_one_node_after_the_other_fails_the_run(void **state)
{
    f.mode = MODE_RESTART;
    f.max_restarts = 3;
    form("a b c");
    round_of("a");
    round_of("b");
    round_of("c");
    assert_int_equal(said_like("record ended"), 0);
    exits("a", 0, 1);
    decide_blame();
    assert_int_equal(said_like("record ended"), 1);
}

static void failures_that_come_after_a_long_time_do_not_add_up(void **state)
{
    f.mode = MODE_RESTART;
    f.max_restarts = 3;
    form("a b c");
    for (int i = 0; i < 3; i++) {
        round_of(i % 2 ? "a" : "b");
        pass(61000);
        round_of("c");
        pass(61000);
    }
    assert_int_equal(said_like("record ended"), 0);
}

static void one_bad_node_does_not_fail_the_run(void **state)
{
    f.mode = MODE_RESTART;
    f.max_restarts = 3;
    form("a b c");
    round_of("b");
    round_of("b");
    round_of("b");
    exits("b", 0, 1);
    bye("b");
    pass(f.config.reconnect_ms);
    assert_int_equal(said_like("record ended"), 0);
    expect_generation("fresh", "a c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(exits_1_to_127_are_charged_and_no_others),
        CASE(a_life_is_charged_once_however_often_its_end_is_reported),
        CASE(a_kill_is_not_charged_however_often_it_is_reported),
        CASE(membership_changes_spend_nothing),
        CASE(slots_have_their_own_budgets),
        CASE(a_node_that_has_spent_its_budget_is_refused),
        CASE(with_no_restarts_the_first_failure_is_the_last),
        CASE(a_quick_rejoin_resets_nothing),
        CASE(leaving_for_good_resets_nothing),
        CASE(a_restart_of_the_orchestrator_resets_nothing),
        CASE(a_budget_is_per_name_not_per_number),
        CASE(a_new_run_has_a_new_budget),
        CASE(charges_of_one_life_after_another_add_up_on_a_slow_disk),
        CASE(a_rejoin_before_the_charge_is_durable_resets_nothing),
        CASE(a_refusal_that_was_not_heard_is_said_again),
        CASE(a_charge_that_could_not_be_written_is_made_again),
        CASE(a_script_that_fails_when_a_peer_is_lost_is_not_charged),
        CASE(a_script_that_fails_when_a_peer_s_connection_is_gone_is_not_charged),
        CASE(the_first_to_fail_is_charged_and_no_other),
        CASE(a_script_whose_end_is_heard_before_its_cause_is_not_charged),
        CASE(nor_is_one_beside_a_script_of_its_own_node_that_was_killed),
        CASE(nor_one_whose_peer_s_connection_closes_a_moment_later),
        CASE(nor_one_whose_peer_s_agent_was_killed),
        CASE(a_newcomer_s_loss_is_no_excuse),
        CASE(nobody_is_restarted_before_it_is_known_whose_fault_it_was),
        CASE(who_leaves_at_once_is_charged_before),
        CASE(who_comes_back_at_once_is_charged_before),
        CASE(who_has_no_peers_is_charged_at_once),
        CASE(a_restart_of_the_orchestrator_forgets_no_blame),
        CASE(with_fewer_than_min_left_the_run_has_failed),
        CASE(with_min_left_the_others_go_on),
        CASE(a_script_that_fails_on_one_node_after_the_other_fails_the_run),
        CASE(failures_that_come_after_a_long_time_do_not_add_up),
        CASE(one_bad_node_does_not_fail_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
