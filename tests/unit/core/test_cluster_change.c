/* Planned changes: sizes, lists, drains, pauses, full replacement, and the modes. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <string.h>

/* ---- sizes ---- */

static void a_schedule_of_sizes_2_3_4_1_is_followed(void **state)
{
    shape(1, 4);
    join("a b");
    want(2);
    pass(WINDOW_MS);
    settle();
    expect_active("fresh", "a b");
    join("c d");
    want(3);
    expect_generation("boundary", "a b c+");
    settle();
    want(4);
    expect_generation("boundary", "a b c d+");
    settle();
    expect_active("boundary", "a b c d+");
    want(1);
    expect_generation("boundary", "a"); /* A shrink cuts the tail. */
    forget();
    enter("a");
    expect_active("boundary", "a");
    for (const char *name = "bcd"; *name != '\0'; name++) { /* They detach. */
        assert_int_equal(said("%c: active 4", *name), 1);
        assert_int_equal(at((char[]){*name, '\0'})->key[0], 0);
    }
    settle();
    pass(60000);
    expect_active("boundary", "a");
    want(0);
    expect_generation("boundary", "a b#2+ c#2+ d#2+");
}

static void each_size_is_one_change_for_all(void **state)
{
    form("a b c d");
    forget();
    want(2);
    expect_log("record size 2\nrecord generation 2 boundary a b\n"
               "a: generation 2\nb: generation 2\nc: generation 2\nd: generation 2\n");
}

static void the_same_size_again_changes_nothing(void **state)
{
    form("a b c");
    want(3);
    want(3);
    assert_int_equal(job().generation, 1);
}

static void wishes_that_make_no_sense_change_nothing(void **state)
{
    shape(1, 4);
    form("a b");
    forget();
    want(5);
    assert_int_equal(f.rc, MU_EINVAL);
    want_nodes("");
    assert_int_equal(f.rc, MU_EINVAL);
    f.job = "nobody";
    want(1);
    assert_int_equal(f.rc, MU_ENOENT);
    f.job = "job";
    assert_int_equal(said_like("record"), 0);
}

static void a_wish_outlives_the_orchestrator(void **state)
{
    form("a b c");
    want(2);
    settle();
    restart_from_snapshot();
    hello("a");
    hello("b");
    hello("c");
    join("d");
    settle();
    expect_active("boundary", "a b");
}

static void a_planned_change_waits_until_the_one_before_is_active(void **state)
{
    form("a b c");
    want(2);
    want(1);
    expect_generation("boundary", "a b");
    enter("a");
    expect_generation("boundary", "a b");
    enter("b");
    expect_generation("boundary", "a");
}

/* ---- lists and replacement ---- */

static void a_full_replacement_is_two_generations(void **state)
{
    form("a b");
    want(2);
    join("c d");
    want_nodes("c d");
    assert_int_equal(f.rc, MU_OK);
    expect_generation("boundary", "a b c+ d+");
    settle();
    expect_active("boundary", "c d");
    assert_int_equal(job().generation, 3);
}

static void a_replacement_waits_for_somebody_to_hand_the_state_to(void **state)
{
    form("a b");
    hello("c");
    want_nodes("c"); /* not warm yet */
    pass(60000);
    expect_active("fresh", "a b");
    warm("c");
    expect_generation("boundary", "a b c+");
    settle();
    expect_active("boundary", "c");
}

static void a_replacement_overtaken_by_a_loss_starts_again(void **state)
{
    form("a b");
    join("c d");
    settle();
    want_nodes("c d");
    settle();
    want_nodes("a b");
    expect_generation("boundary", "c d a#2+ b#2+");
    enter("c a");
    exits("c", 0, 137);
    expect_generation("failure", "d"); /* a had entered, the generation was never active */
    report("a", 0, PHASE_WARM, 0, at("a")->held);
    settle();
    expect_active("boundary", "a#2 b#2");
}

static void a_list_longer_than_max_is_refused_or_cut(void **state)
{
    shape(1, 2);
    form("a b");
    join("c");
    want_nodes("a b c");
    settle();
    assert_true(job().members_n <= 2);
}

/* ---- drains ---- */

static void a_node_that_wants_to_leave_goes_at_the_next_boundary(void **state)
{
    form("a b c");
    at("b")->flags = NODE_DRAINING;
    renew("b");
    expect_generation("boundary", "a c");
    assert_int_equal(at("b")->ack.flags, NODE_DRAINING);
    assert_int_equal(job().active, 1);
    enter("a c");
    assert_int_equal(said("b: active 2"), 1); /* From here on it may go. */
    bye("b");
    pass(60000);
    expect_active("boundary", "a c");
    assert_int_equal(job().nodes_n, 2);
}

/* Not before the generation without it is active: until then it may be needed. */
static void who_ends_after_it_has_left_is_no_loss(void **state)
{
    form("a b c");
    at("b")->flags = at("c")->flags = NODE_DRAINING;
    renew("b");
    enter("a c");
    exits("b", 0, 143);
    pass(f.config.reconnect_ms * 4);
    assert_int_equal(said("note lost"), 0);
    assert_int_equal(job().generation, 2);
    expect_active("boundary", "a c");
    renew("c");
    exits("c", 0, 0);
    assert_int_equal(said("note lost"), 1);
}

static void a_drain_by_people_reaches_the_agent_with_its_next_renewal(void **state)
{
    form("a b");
    renew("b");
    assert_int_equal(at("b")->ack.flags, 0);
    assert_int_equal(admin(ADMIN_DRAIN, "b"), MU_OK);
    renew("b");
    assert_int_equal(at("b")->ack.flags, NODE_DRAINING);
    renew("a");
    assert_int_equal(at("a")->ack.flags, 0);
    expect_generation("boundary", "a");
}

static void a_drain_by_people_outlives_the_orchestrator(void **state)
{
    form("a b");
    hold();
    admin(ADMIN_DRAIN, "b");
    sync_one();
    restart();
    hello("a");
    hello("b");
    renew("b");
    assert_int_equal(at("b")->ack.flags, NODE_DRAINING);
    expect_generation("boundary", "a");
}

static void a_wish_for_a_checkpoint_reaches_every_agent_at_once(void **state)
{
    form("a b");
    assert_int_equal(at("a")->ack.saves, 0);
    assert_int_equal(admin(ADMIN_SAVE, ""), MU_OK);
    assert_int_equal(at("a")->ack.saves, 1);
    assert_int_equal(at("b")->ack.saves, 1);
    renew("b");
    assert_int_equal(at("b")->ack.saves, 1); /* It is one wish, however often it is heard. */
    assert_int_equal(admin(ADMIN_SAVE, ""), MU_OK);
    assert_int_equal(at("b")->ack.saves, 2);
    f.job = "nobody";
    assert_int_equal(admin(ADMIN_SAVE, ""), MU_ENOENT);
    f.job = "job";
}

static void draining_somebody_unknown_is_an_error(void **state)
{
    form("a");
    assert_int_equal(admin(ADMIN_DRAIN, "b"), MU_ENOENT);
    f.job = "nobody";
    assert_int_equal(admin(ADMIN_DRAIN, "a"), MU_ENOENT);
    f.job = "job";
}

static void the_last_with_the_state_stays_until_somebody_comes(void **state)
{
    form("a");
    admin(ADMIN_DRAIN, "a");
    pass(60000);
    expect_active("fresh", "a");
    join("b");
    expect_generation("boundary", "a b+");
    settle();
    expect_active("boundary", "b");
}

static void a_draining_newcomer_is_not_taken_in(void **state)
{
    form("a");
    at("b")->flags = NODE_DRAINING;
    join("b");
    expect_active("fresh", "a");
    assert_int_equal(job().available_n, 1);
}

/* ---- pause ---- */

static void a_pause_holds_all_and_ends_when_people_say_so(void **state)
{
    form("a b");
    paused(true);
    expect_generation("boundary hold", "a b");
    settle();
    expect_active("boundary hold", "a b");
    paused(false);
    expect_generation("boundary", "a b");
}

/* ---- modes ---- */

static void restart_mode_has_a_fresh_generation_for_every_change(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("b", 0, 137);
    pass(f.config.reconnect_ms);
    expect_generation("fresh", "a c");
    settle();
    next_life("b", 0);
    warm("b");
    expect_generation("fresh", "a c b#2");
    settle();
    want(2);
    expect_generation("fresh", "a c");
}

static void a_script_that_is_ready_again_at_once_costs_one_restart(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    exits("b", 0, 137);
    expect_active("fresh", "a b c");
    next_life("b", 0);
    warm("b");
    expect_generation("fresh", "a b#2 c");
}

static void a_node_that_may_be_lost_is_judged_before_anyone_is_restarted(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    closed("c");
    exits("b", 0, 1);
    next_life("b", 0);
    warm("b");
    expect_active("fresh", "a b c");
    pass(f.config.reconnect_ms);
    expect_generation("fresh", "a b#2");
}

static void restart_mode_goes_on_as_soon_as_the_awaited_port_is_known(void **state)
{
    f.mode = MODE_RESTART;
    at("a")->reports[0].port = 29500;
    form("a b c");
    exits("b", 0, 137);
    next_life("b", 0);
    warm("b");
    expect_active("fresh", "a b c"); /* The scripts of this one may still use its port. */
    at("a")->reports[0].port = 29501;
    resend("a");
    expect_generation("fresh", "a b#2 c");
}

static void restart_mode_grows_when_the_join_window_is_over(void **state)
{
    f.mode = MODE_RESTART;
    form("a b");
    join("c");
    pass(WINDOW_MS - 1);
    expect_active("fresh", "a b");
    join("d");
    pass(WINDOW_MS - 1);
    expect_active("fresh", "a b");
    pass(1);
    expect_generation("fresh", "a b c d"); /* one restart for both */
}

static void a_loss_in_the_join_window_does_not_wait_for_its_end(void **state)
{
    f.mode = MODE_RESTART;
    form("a b c");
    join("d");
    silence("c");
    pass(1);
    expect_active("fresh", "a b c");
    bye("c");
    expect_generation("fresh", "a b d");
}

static void restart_mode_grows_at_once_when_max_is_reached(void **state)
{
    f.mode = MODE_RESTART;
    shape(1, 3);
    form("a b");
    join("c");
    expect_generation("fresh", "a b c");
}

static void undecided_jobs_put_off_planned_changes_but_not_losses(void **state)
{
    f.mode = MODE_AUTO;
    form("a b c");
    join("d");
    want(2);
    pass(60000);
    expect_active("fresh", "a b c");
    exits("c", 0, 137);
    expect_generation("failure", "a b");
    settle();
    want(0);
    expect_active("failure", "a b");
    assert_int_equal(decide(MODE_INPROCESS), MU_OK);
    expect_generation("boundary", "a b d+");
}

static void a_decision_is_made_once_and_journaled(void **state)
{
    f.mode = MODE_AUTO;
    form("a b");
    assert_int_equal(decide(MODE_AUTO), MU_EINVAL);
    assert_int_equal(decide(MODE_N), MU_EINVAL);
    assert_int_equal(decide(MODE_INPROCESS), MU_OK);
    assert_int_equal(decide(MODE_RESTART), MU_EINVAL);
    restart();
    hello("a");
    hello("b");
    join("c");
    expect_generation("boundary", "a b c+");
    assert_int_equal(job().run, 1);
    f.job = "nobody";
    assert_int_equal(decide(MODE_RESTART), MU_ENOENT);
    f.job = "job";
}

static void a_job_decided_for_restarts_grows_by_fresh_generations(void **state)
{
    f.mode = MODE_AUTO;
    form("a b");
    join("c");
    pass(WINDOW_MS);
    expect_active("fresh", "a b");
    decide(MODE_RESTART);
    expect_generation("fresh", "a b c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_schedule_of_sizes_2_3_4_1_is_followed),
        CASE(each_size_is_one_change_for_all),
        CASE(the_same_size_again_changes_nothing),
        CASE(wishes_that_make_no_sense_change_nothing),
        CASE(a_wish_outlives_the_orchestrator),
        CASE(a_planned_change_waits_until_the_one_before_is_active),
        CASE(a_full_replacement_is_two_generations),
        CASE(a_replacement_waits_for_somebody_to_hand_the_state_to),
        CASE(a_replacement_overtaken_by_a_loss_starts_again),
        CASE(a_list_longer_than_max_is_refused_or_cut),
        CASE(a_node_that_wants_to_leave_goes_at_the_next_boundary),
        CASE(who_ends_after_it_has_left_is_no_loss),
        CASE(a_drain_by_people_reaches_the_agent_with_its_next_renewal),
        CASE(a_drain_by_people_outlives_the_orchestrator),
        CASE(a_wish_for_a_checkpoint_reaches_every_agent_at_once),
        CASE(draining_somebody_unknown_is_an_error),
        CASE(the_last_with_the_state_stays_until_somebody_comes),
        CASE(a_draining_newcomer_is_not_taken_in),
        CASE(a_pause_holds_all_and_ends_when_people_say_so),
        CASE(restart_mode_has_a_fresh_generation_for_every_change),
        CASE(a_script_that_is_ready_again_at_once_costs_one_restart),
        CASE(a_node_that_may_be_lost_is_judged_before_anyone_is_restarted),
        CASE(restart_mode_goes_on_as_soon_as_the_awaited_port_is_known),
        CASE(restart_mode_grows_when_the_join_window_is_over),
        CASE(a_loss_in_the_join_window_does_not_wait_for_its_end),
        CASE(restart_mode_grows_at_once_when_max_is_reached),
        CASE(undecided_jobs_put_off_planned_changes_but_not_losses),
        CASE(a_decision_is_made_once_and_journaled),
        CASE(a_job_decided_for_restarts_grows_by_fresh_generations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
