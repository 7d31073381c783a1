/* How a lineage ends: takeovers, the end of a run and the next one, and restart budgets. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <string.h>

/* ---- takeover ---- */

static void saved(const char *name, uint64_t step)
{
    at(name)->reports[0].checkpoint = step;
    at(name)->reports[0].step = MAX(at(name)->reports[0].step, step);
    resend(name);
}

static uint64_t base_step(uint8_t *flags_out)
{
    struct generation g;

    assert_int_equal(cluster_generation(f.c, f.job, &g), MU_OK);
    *flags_out = g.flags;
    return g.base_step;
}

static void when_all_are_proved_dead_a_takeover_starts_at_once_from_step_0(void **state)
{
    struct generation g;

    uint8_t flags;

    form("a b");
    want(2);
    join("c");
    pass(WINDOW_MS);
    exits("a", 0, 137);
    expect_generation("failure", "b");
    exits("b", 0, 137);
    expect_generation("fresh", "c");
    assert_int_equal(cluster_generation(f.c, f.job, &g), MU_OK);
    assert_int_equal(g.from, 1); /* It names the lineage that it gives up. */
    assert_int_equal(base_step(&flags), 0);
    assert_int_equal(flags, 0);
    assert_int_equal(said("note takeover"), 1);
}

static void a_node_that_said_bye_is_proved_dead(void **state)
{
    form("a b");
    want(2);
    join("c");
    pass(WINDOW_MS);
    bye("a");
    bye("b");
    expect_generation("fresh", "c");
}

static void a_takeover_starts_from_the_newest_checkpoint(void **state)
{
    uint8_t flags;

    form("a b");
    want(2);
    saved("a", 40);
    saved("b", 60);
    saved("a", 50); /* older than what is kept */
    assert_int_equal(job().checkpoint, 60);
    join("c");
    pass(WINDOW_MS);
    exits("a", 0, 137);
    exits("b", 0, 137);
    expect_generation("fresh", "c");
    assert_int_equal(base_step(&flags), 60);
    assert_int_equal(flags, GENERATION_CHECKPOINTED);
}

/* It was said before the generation was active, and nobody says it again. */
static void what_the_first_generation_went_on_from_is_known_when_it_is_active(void **state)
{
    uint8_t flags;

    join("a");
    pass(WINDOW_MS);
    at("a")->reports[0].checkpoint = 15;
    enter("a");
    assert_int_equal(job().active, 1);
    assert_int_equal(job().checkpoint, 15);
    bye("a");
    join("b");
    pass(WINDOW_MS);
    expect_generation("fresh", "b");
    assert_int_equal(base_step(&flags), 15);
}

static void a_takeover_waits_for_the_record_of_what_the_last_member_saved(void **state)
{
    uint8_t flags;

    form("a");
    want(1);
    join("b");
    pass(WINDOW_MS);
    hold();
    at("a")->reports[0].checkpoint = 60;
    exits("a", 0, 137);
    sync_all();
    expect_generation("fresh", "b");
    assert_int_equal(base_step(&flags), 60);
    assert_int_equal(flags, GENERATION_CHECKPOINTED);
}

static void those_who_hold_no_state_can_not_name_a_checkpoint(void **state)
{
    form("a");
    hello("b");
    saved("b", 99);
    assert_int_equal(job().checkpoint, 0);
}

/* a, b and c trained; all three are silent, d and e are warm and waiting. */
static void lose_all(void)
{
    form("a b c");
    want(3);
    join("d e");
    pass(1000);
    renew("a");
    renew("b");
    renew("c");
    silence("a b c");
}

static void those_not_proved_dead_are_waited_for_since_their_last_word(void **state)
{
    lose_all();
    pass(f.config.takeover_ms - 1);
    assert_int_equal(job().active, 1);
    expect_generation("fresh", "a b c");
    pass(1);
    expect_generation("fresh", "d e");
    assert_int_equal(said("note takeover"), 1);
}

static void one_unproved_is_enough_to_wait(void **state)
{
    form("a b");
    join("c");
    want(2);
    settle();
    exits("a", 0, 137);
    enter("b");
    renew("b");
    silence("b");
    pass(f.config.takeover_ms - 1);
    assert_false(member("c"));
    pass(1);
    assert_true(member("c"));
}

static void after_a_restart_they_are_waited_for_since_the_start(void **state)
{
    lose_all();
    pass(f.config.takeover_ms / 2);
    restart();
    hello("d");
    hello("e");
    pass(f.config.takeover_ms - 1);
    expect_generation("fresh", "a b c");
    pass(1);
    expect_generation("fresh", "d e");
}

static void a_clock_that_jumped_begins_the_wait_anew(void **state)
{
    lose_all();
    pass(f.config.takeover_ms / 2);
    jump(60000); /* The orchestrator was stopped: what it was not told, it can't know. */
    pass(f.config.takeover_ms - 1);
    expect_generation("fresh", "a b c");
    pass(1);
    expect_generation("fresh", "d e");
}

static void the_word_of_an_agent_is_not_that_of_its_lost_workers(void **state)
{
    form("a");
    want(1);
    join("b");
    pass(WINDOW_MS);
    report("a", 0, PHASE_LOST, 1, 1);
    pass(f.config.takeover_ms - 1); /* Its agent renews all the while. */
    expect_generation("fresh", "a");
    pass(1);
    expect_generation("fresh", "b");
}

static void one_that_comes_back_before_a_takeover_is_active_stops_it(void **state)
{
    lose_all();
    pass(f.config.takeover_ms);
    expect_generation("fresh", "d e");
    enter("d");
    at("b")->silent = false;
    renew("b");
    expect_generation("failure", "b");
    settle();
    expect_active("boundary", "b d#2 e+");
}

static void one_that_comes_back_in_time_carries_on(void **state)
{
    lose_all();
    pass(f.config.takeover_ms - 1000);
    at("b")->silent = false;
    renew("b");
    expect_generation("failure", "b");
    pass(60000);
    settle();
    expect_active("boundary", "b d e+");
    assert_int_equal(said("note takeover"), 0);
}

static void people_may_ask_for_a_takeover_only_when_nobody_survives(void **state)
{
    lose_all();
    at("b")->silent = false;
    pass(LEASE_MS);
    expect_generation("failure", "b");
    assert_int_equal(admin(ADMIN_TAKEOVER, ""), MU_EBUSY);
    enter("b");
    at("d")->spare = at("e")->spare = true;
    silence("b");
    pass(LEASE_MS);
    expect_active("failure", "b");
    assert_int_equal(admin(ADMIN_TAKEOVER, ""), MU_OK);
    expect_generation("fresh", "d e");
}

static void a_wish_for_a_takeover_is_void_once_somebody_came_back(void **state)
{
    form("a");
    want(1);
    silence("a");
    pass(LEASE_MS);
    assert_int_equal(admin(ADMIN_TAKEOVER, ""), MU_OK); /* Nobody is there to take over. */
    renew("a");
    join("c");
    pass(LEASE_MS * 2);
    expect_active("fresh", "a"); /* Out of touch, and training on. */
}

static void a_zombie_of_a_lineage_that_was_taken_over_is_a_newcomer(void **state)
{
    lose_all();
    pass(LEASE_MS);
    admin(ADMIN_TAKEOVER, "");
    settle();
    expect_active("fresh", "d e");
    at("a")->silent = false;
    hello("a"); /* with the number and the state it had */
    assert_int_equal(at("a")->refused, 0);
    expect_active("fresh", "d e"); /* What it holds counts no more: … */
    settle();
    expect_active("boundary", "d e a#2+"); /* … it starts a new life. */
}

static void takeover_must_be_later_than_orphans_pause(void **state)
{
    struct cluster_config k = f.config;
    struct cluster *c = NULL;

    k.takeover_ms = k.orphan_ms + k.lease_ms;
    assert_int_equal(cluster_init(&k, NULL, &c), MU_EINVAL);
    k.takeover_ms++;
    assert_int_equal(cluster_init(&k, NULL, &c), MU_OK);
    cluster_close(c);
}

/* ---- the end of a run ---- */

static void finish(const char *name, uint64_t step)
{
    at(name)->reports[0].step = step;
    report(name, 0, PHASE_FINISHED, at(name)->reports[0].entered, at(name)->held);
}

static void the_first_to_finish_is_journaled_and_all_may_leave_when_all_have(void **state)
{
    form("a b");
    finish("a", 100);
    assert_int_equal(said("record finished 100"), 1);
    assert_true(job().finished);
    assert_false(job().ended);
    assert_int_equal(said_like("a: ended"), 0);
    finish("b", 100);
    assert_int_equal(said("record ended 100"), 1);
    assert_int_equal(said("a: ended 100"), 1);
    assert_int_equal(said("b: ended 100"), 1);
    assert_true(job().ended);
    assert_int_equal(said_like("record finished"), 1);
}

static void a_finished_job_takes_nobody_in(void **state)
{
    form("a b");
    finish("a", 100);
    join("c");
    expect_active("fresh", "a b");
    finish("b", 100);
    assert_int_equal(said("c: ended 100"), 1);
}

static void one_that_dies_before_it_has_finished_holds_up_nobody(void **state)
{
    form("a b");
    finish("a", 100);
    exits("b", 0, 137);
    assert_true(job().ended);
    assert_int_equal(said("a: ended 100"), 1);
}

static void in_restart_mode_those_who_exit_after_the_end_restart_nobody(void **state)
{
    f.mode = MODE_RESTART;
    form("a b");
    finish("a", 10);
    exits("a", 0, 0);
    pass(WINDOW_MS);
    assert_int_equal(job().generation, 1);
}

static void in_restart_mode_helpers_hold_up_no_end(void **state)
{
    f.mode = MODE_RESTART;
    shape(1, 1);
    at("p")->role = ROLE_PS;
    join("p a");
    settle();
    expect_active("fresh", "p a");
    finish("a", 0);
    assert_true(job().ended);
    assert_true(at("p")->ended);
}

static void later_joiners_are_told_that_it_is_done(void **state)
{
    form("a b");
    finish("a", 7);
    finish("b", 7);
    hello("c");
    assert_true(at("c")->ended);
    assert_int_equal(at("c")->ended_step, 7);
    assert_int_equal(said("record node c"), 0);
    closed("a");
    hello("a"); /* who missed it, too */
    assert_int_equal(said("a: ended 7"), 2);
    restart_from_snapshot();
    at("c")->ended = false;
    hello("c");
    assert_true(at("c")->ended);
    assert_int_equal(job().run, 1);
}

static void a_new_run_begins_once_all_have_left_and_numbers_go_on(void **state)
{
    uint64_t generation;

    form("a b");
    exits("b", 0, 5);
    next_life("b", 0);
    warm("b");
    settle();
    saved("a", 3);
    generation = job().generation;
    finish("a", 7);
    finish("b", 7);
    bye("a");
    rejoin("a");
    assert_int_equal(at("a")->refused, MU_EAGAIN); /* b is still here. */
    bye("b");
    shape(1, 2); /* another shape than that of the run before */
    at("a")->min = 1;
    at("a")->max = 2;
    hello("a");
    assert_false(at("a")->ended);
    assert_int_equal(said("a: welcome 3 run 2"), 1);
    rejoin("b");
    at("b")->refused = 0;
    assert_int_equal(job().run, 2);
    assert_int_equal(job().step, 0);
    assert_int_equal(job().checkpoint, 0);
    assert_false(job().finished);
    warm("a");
    pass(WINDOW_MS);
    assert_true(job().generation > generation);
    expect_generation("fresh", "a");
    assert_int_equal(said("record spent b 1"), 1);
}

static void numbers_go_on_after_a_snapshot_of_an_ended_run(void **state)
{
    uint64_t generation;
    uint32_t number;

    shape(1, 1);
    form("a");
    generation = job().generation;
    number = at("a")->node;
    finish("a", 7);
    bye("a");
    restart_from_snapshot();
    rejoin("a");
    assert_true(at("a")->node > number);
    warm("a");
    assert_true(job().generation > generation);
    assert_int_equal(job().run, 2);
}

/* ---- who may begin another ---- */

/* a and b have done it, c was lost before; a and b have left. */
static void end_without_c(void)
{
    form("a b c");
    silence("c");
    closed("c");
    pass(LEASE_MS);
    settle();
    finish("a", 7);
    finish("b", 7);
    bye("a");
    bye("b");
    assert_int_equal(job().nodes_n, 0);
    assert_int_equal(said_like("record job"), 1);
}

static void one_that_was_lost_before_the_end_is_told_and_begins_no_other(void **state)
{
    end_without_c();
    rejoin("c");
    assert_true(at("c")->ended);
    assert_int_equal(at("c")->ended_step, 7);
    hello("d"); /* a new one, too */
    assert_true(at("d")->ended);
    assert_int_equal(said_like("record job"), 1);
}

static void one_that_saw_the_end_and_is_started_again_begins_another(void **state)
{
    end_without_c();
    rejoin("a");
    assert_int_equal(job().run, 2);
    rejoin("c"); /* There is a run to be in. */
    assert_false(at("c")->ended);
    assert_int_equal(job().nodes_n, 2);
}

static void who_saw_the_end_and_when_it_was_survive_the_orchestrator(void **state)
{
    end_without_c();
    restart();
    f.now_ms += f.config.linger_ms / 2; /* It was away. */
    restart_from_snapshot();
    rejoin("c");
    assert_true(at("c")->ended);
    rejoin("a");
    assert_int_equal(job().run, 2);
}

static void one_that_comes_long_after_the_end_begins_another(void **state)
{
    end_without_c();
    pass(f.config.linger_ms - LEASE_MS);
    hello("d");
    assert_true(at("d")->ended);
    restart_from_snapshot();
    pass(LEASE_MS);
    rejoin("c");
    assert_false(at("c")->ended);
    assert_int_equal(job().run, 2);
}

static void one_that_insists_begins_another(void **state)
{
    end_without_c();
    at("c")->flags = NODE_RERUN;
    rejoin("c");
    assert_false(at("c")->ended);
    assert_int_equal(job().run, 2);
}

static void one_that_left_before_the_end_did_not_see_it(void **state)
{
    form("a b");
    want(1);
    settle();
    bye("b");
    finish("a", 7);
    bye("a");
    rejoin("b");
    assert_true(at("b")->ended);
    assert_int_equal(job().run, 1);
}

/* Its machine has lost power, and nobody knows yet. */
static void one_that_was_told_and_never_heard_again_did_not_see_it(void **state)
{
    form("a b");
    finish("a", 7);
    silence("b");
    finish("b", 7);
    bye("a");
    pass(LEASE_MS * 2);
    assert_int_equal(job().nodes_n, 0);
    rejoin("b");
    assert_true(at("b")->ended);
    assert_int_equal(job().run, 1);
}

/* It was told, but who knows whether it heard that. Whoever means another run says so. */
static void a_keepers_word_for_its_agent_is_not_that_it_saw_the_end(void **state)
{
    struct msg_bye m;

    shape(1, 1);
    form("a");
    m = (struct msg_bye){
        .node = at("a")->node, .store = f.config.store, .incarnation = at("a")->incarnation};
    finish("a", 7);
    closed("a");
    rejoin("a");
    assert_int_equal(at("a")->refused, MU_EAGAIN); /* Its scripts are still being ended. */
    kit_step(&(struct event){.kind = EVENT_BYE, .conn = 999, .u.bye = &m});
    hello("a");
    assert_true(at("a")->ended);
    assert_int_equal(job().run, 1);
    at("a")->flags |= NODE_RERUN;
    hello("a");
    assert_int_equal(job().run, 2);
}

/* One worker takes its time to end. */
static void another_run_waits_until_the_last_is_over(void **state)
{
    form("a b");
    finish("a", 7);
    at("a")->ended = true; /* It has seen itself finish. */
    bye("a");
    rejoin("a");
    assert_int_equal(at("a")->refused, MU_EAGAIN);
    assert_non_null(strstr(at("a")->refusal, "run 1 of job 'job' is over"));
    assert_false(at("a")->ended);
    finish("b", 7);
    hello("a");
    assert_int_equal(at("a")->refused, MU_EAGAIN);
    bye("b");
    hello("a");
    assert_int_equal(at("a")->refused, 0);
    assert_int_equal(job().run, 2);
}

static void one_whose_name_is_still_here_waits_as_well(void **state)
{
    shape(1, 1);
    form("a");
    finish("a", 7);
    at("a2")->ended = false;
    snprintf(at("a2")->name, sizeof(at("a2")->name), "a");
    f.stubs[1].incarnation = 77;
    {
        struct msg_hello m = {
            .incarnation = 77, .min = 1, .max = 1, .slots = 1, .job = "job", .name = "a"};

        f.stubs[1].conn = ++f.conns_n;
        kit_step(&(struct event){.kind = EVENT_HELLO, .conn = f.conns_n, .u.hello = &m});
        assert_int_equal(f.stubs[1].refused, MU_EAGAIN);
        bye("a");
        kit_step(&(struct event){.kind = EVENT_HELLO, .conn = f.conns_n, .u.hello = &m});
    }
    assert_int_equal(job().run, 2);
}

/* An orchestrator that was restarted knows again who is there, and who is told. */
static void one_that_comes_back_after_a_restart_saw_the_end(void **state)
{
    form("a b");
    finish("a", 7);
    finish("b", 7);
    restart();
    forget();
    hello("a");
    assert_int_equal(said("a: ended 7"), 1);
    bye("a");
    hello("b");
    bye("b");
    assert_int_equal(job().nodes_n, 0);
    rejoin("a");
    assert_int_equal(job().run, 2);
}

static void a_run_that_failed_may_be_followed_by_another_at_once(void **state)
{
    shape(1, 1);
    f.max_restarts = 0;
    form("a");
    exits("a", 0, 1);
    assert_true(job().ended);
    at("a")->ended = false; /* It was refused before that. */
    bye("a");
    rejoin("a");
    assert_int_equal(job().run, 2);
}

static void a_run_that_nobody_saw_end_may_be_followed_by_another_at_once(void **state)
{
    shape(1, 1);
    form("a");
    bye("a");
    assert_int_equal(admin(ADMIN_SHUTDOWN, ""), MU_OK);
    rejoin("a");
    assert_int_equal(job().run, 2);
}

static void a_wall_clock_that_went_back_keeps_nobody_out_for_longer(void **state)
{
    end_without_c();
    f.now_ms -= 900000;
    restart();
    f.now_ms += 900000;
    jump(0);
    rejoin("c");
    assert_int_equal(job().run, 2);
}

static void people_may_end_a_job(void **state)
{
    form("a b");
    at("a")->reports[0].step = 12;
    resend("a");
    assert_int_equal(admin(ADMIN_SHUTDOWN, ""), MU_OK);
    assert_true(job().ended);
    assert_int_equal(said("a: ended 12"), 1);
    assert_int_equal(said("b: ended 12"), 1);
    assert_int_equal(admin(ADMIN_SHUTDOWN, ""), MU_EDONE);
    assert_int_equal(admin(ADMIN_N, ""), MU_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(when_all_are_proved_dead_a_takeover_starts_at_once_from_step_0),
        CASE(a_node_that_said_bye_is_proved_dead),
        CASE(a_takeover_starts_from_the_newest_checkpoint),
        CASE(what_the_first_generation_went_on_from_is_known_when_it_is_active),
        CASE(a_takeover_waits_for_the_record_of_what_the_last_member_saved),
        CASE(those_who_hold_no_state_can_not_name_a_checkpoint),
        CASE(those_not_proved_dead_are_waited_for_since_their_last_word),
        CASE(one_unproved_is_enough_to_wait),
        CASE(after_a_restart_they_are_waited_for_since_the_start),
        CASE(a_clock_that_jumped_begins_the_wait_anew),
        CASE(the_word_of_an_agent_is_not_that_of_its_lost_workers),
        CASE(one_that_comes_back_before_a_takeover_is_active_stops_it),
        CASE(one_that_comes_back_in_time_carries_on),
        CASE(people_may_ask_for_a_takeover_only_when_nobody_survives),
        CASE(a_wish_for_a_takeover_is_void_once_somebody_came_back),
        CASE(a_zombie_of_a_lineage_that_was_taken_over_is_a_newcomer),
        CASE(takeover_must_be_later_than_orphans_pause),
        CASE(the_first_to_finish_is_journaled_and_all_may_leave_when_all_have),
        CASE(a_finished_job_takes_nobody_in),
        CASE(one_that_dies_before_it_has_finished_holds_up_nobody),
        CASE(in_restart_mode_those_who_exit_after_the_end_restart_nobody),
        CASE(in_restart_mode_helpers_hold_up_no_end),
        CASE(later_joiners_are_told_that_it_is_done),
        CASE(a_new_run_begins_once_all_have_left_and_numbers_go_on),
        CASE(numbers_go_on_after_a_snapshot_of_an_ended_run),
        CASE(one_that_was_lost_before_the_end_is_told_and_begins_no_other),
        CASE(one_that_saw_the_end_and_is_started_again_begins_another),
        CASE(who_saw_the_end_and_when_it_was_survive_the_orchestrator),
        CASE(one_that_comes_long_after_the_end_begins_another),
        CASE(one_that_insists_begins_another),
        CASE(one_that_left_before_the_end_did_not_see_it),
        CASE(one_that_was_told_and_never_heard_again_did_not_see_it),
        CASE(a_keepers_word_for_its_agent_is_not_that_it_saw_the_end),
        CASE(another_run_waits_until_the_last_is_over),
        CASE(one_whose_name_is_still_here_waits_as_well),
        CASE(one_that_comes_back_after_a_restart_saw_the_end),
        CASE(a_run_that_failed_may_be_followed_by_another_at_once),
        CASE(a_run_that_nobody_saw_end_may_be_followed_by_another_at_once),
        CASE(a_wall_clock_that_went_back_keeps_nobody_out_for_longer),
        CASE(people_may_end_a_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
