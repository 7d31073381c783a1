/* Restart mode, and auto until it is decided: scripts that are started for each generation. */
#include "core/agent_state.h"
#include "unit/core/agent_kit.h"

#include <string.h>

#define OTHER wid_make(8, 0, 1)
#define EXIT(status) STEP(.kind = AGENT_ON_EXIT, .code = (status))

static void up_as(uint8_t m)
{
    mode = m;
    open_agent(1);
    up();
}

static void runs_in(uint64_t number)
{
    up_as(MODE_RESTART);
    generation(number);
    ack(0, reported_seq, 0, 0);
    forget();
}

static void a_life_is_ready_without_a_process(void **state)
{
    up_as(MODE_RESTART);
    assert_int_equal(agent.slots[0].state, SLOT_WAITING);
    assert_int_equal(reported[0].phase, PHASE_WARM);
    assert_int_equal(reported[0].incarnation, 1);
    generation_of(4, OTHER);
    assert_int_equal(said("start"), 0);
}

static void its_script_starts_in_the_generation_that_names_it(void **state)
{
    up_as(MODE_RESTART);
    generation(4);
    assert_int_equal(said("start 7.0#1 in 4 failed 0"), 1);
    assert_int_equal(reported[0].phase, PHASE_IN);
    assert_int_equal(reported[0].entered, 4);
    generation(4);
    assert_int_equal(said("start"), 1);
}

static void the_next_generation_stops_it_and_starts_it_again(void **state)
{
    runs_in(4);
    generation(5);
    assert_int_equal(said("stop 0"), 1);
    assert_int_equal(said("start"), 0); /* not before it has ended */
    assert_int_equal(reported[0].entered, 4);
    EXIT(143);
    assert_int_equal(said("start 7.0#1 in 5 failed 0"), 1);
    assert_int_equal(reported[0].entered, 5);
    assert_int_equal(reported[0].phase, PHASE_IN);
}

static void of_generations_that_come_while_it_stops_only_the_newest_counts(void **state)
{
    runs_in(4);
    generation(5);
    generation(6);
    EXIT(0);
    assert_int_equal(said("stop 0"), 1);
    assert_int_equal(said("start"), 1);
    assert_int_equal(said("start 7.0#1 in 6"), 1);
}

static void a_script_that_knows_muster_hears_of_no_generation_but_its_own(void **state)
{
    runs_in(4);
    STEP(.kind = AGENT_ON_ATTACHED);
    assert_int_equal(said("tell 0 generation 4"), 1);
    generation(5); /* This one is its successor's. */
    assert_int_equal(said("stop 0"), 1);
    STEP(.kind = AGENT_ON_ATTACHED);
    assert_int_equal(said("tell 0 generation 5"), 0);
    EXIT(0);
    STEP(.kind = AGENT_ON_ATTACHED);
    assert_int_equal(said("tell 0 generation 5"), 1);
}

static void out_of_the_generation_it_waits_for_the_next(void **state)
{
    runs_in(4);
    generation_of(5, OTHER);
    assert_int_equal(said("stop 0"), 1);
    EXIT(143);
    assert_int_equal(said("start"), 0);
    assert_int_equal(reported[0].phase, PHASE_WARM);
    assert_int_equal(reported[0].entered, 0);
    generation(6);
    assert_int_equal(said("start 7.0#1 in 6"), 1);
}

static void a_generation_that_holds_is_entered_without_a_script(void **state)
{
    struct member m = {.worker = wid_make(7, 0, 1)};
    struct generation g = {.number = 5, .flags = GENERATION_HOLD, .members_n = 1, .members = &m};

    runs_in(4);
    STEP(.kind = AGENT_ON_GENERATION, .u.generation = &g);
    assert_int_equal(said("stop 0"), 1);
    EXIT(143);
    assert_int_equal(said("start"), 0);
    assert_int_equal(reported[0].entered, 5);
    generation(6);
    assert_int_equal(said("start 7.0#1 in 6"), 1);
}

static void a_script_that_fails_is_another_life(void **state)
{
    runs_in(4);
    EXIT(3);
    assert_int_equal(reported[0].phase, PHASE_EXITED);
    assert_int_equal(reported[0].exit_code, 3);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(reported[0].phase, PHASE_WARM);
    assert_int_equal(reported[0].incarnation, 2);
    generation_of(5, wid_make(7, 0, 2));
    assert_int_equal(said("start 7.0#2 in 5 failed 1"), 1);
}

static void a_killed_script_is_not_counted_as_failed(void **state)
{
    runs_in(4);
    EXIT(137);
    ack(0, reported_seq, 0, 0);
    generation_of(5, wid_make(7, 0, 2));
    assert_int_equal(said("start 7.0#2 in 5 failed 0"), 1);
}

static void scripts_that_end_at_once_are_started_less_and_less_often(void **state)
{
    uint64_t began_ms;

    runs_in(4);
    began_ms = now_ms;
    for (uint32_t life = 1; life <= 6; life++) {
        EXIT(137);
        ack(0, reported_seq, 0, 0);
        while (agent.slots[0].state == SLOT_EXITED) {
            pass(10, false);
        }
        generation_of(4 + life, wid_make(7, 0, life + 1));
        assert_int_equal(agent.slots[0].state, SLOT_RUNNING);
    }
    assert_true(now_ms >= began_ms + 100 + 200 + 400 + 800 + 1600);
    pass(5000, false); /* This one lives for a while. */
    EXIT(137);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(agent.slots[0].state, SLOT_WAITING);
}

static void a_script_that_ends_well_has_finished_and_is_not_started_again(void **state)
{
    runs_in(4);
    EXIT(0);
    assert_int_equal(reported[0].phase, PHASE_FINISHED);
    assert_int_equal(reported[0].entered, 4);
    ack(0, reported_seq, 0, 0);
    pass(10000, false);
    assert_int_equal(said("start"), 0);
    assert_int_equal(said("done"), 0); /* It waits for the others. */
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1});
    assert_int_equal(said("bye 7"), 1);
    assert_int_equal(said("done 0"), 1);
}

static void a_script_that_knows_muster_says_itself_that_it_has_finished(void **state)
{
    runs_in(4);
    STEP(.kind = AGENT_ON_ATTACHED);
    report(0, PHASE_WARM, 0); /* All else is its agent's to say. */
    assert_int_equal(reported[0].phase, PHASE_IN);
    report(0, PHASE_FINISHED, 0);
    assert_int_equal(reported[0].phase, PHASE_FINISHED);
    assert_int_equal(reported[0].entered, 4);
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1});
    assert_int_equal(said("tell 0 ended"), 1);
    EXIT(0);
    assert_int_equal(said("done 0"), 1);
}

static void whoever_has_finished_does_so_again_with_a_generation_that_came_before_the_news(
    void **state)
{
    runs_in(4);
    EXIT(0);
    generation(5);
    assert_int_equal(said("start 7.0#1 in 5"), 1);
    assert_int_equal(reported[0].phase, PHASE_IN);
}

static void a_job_that_is_ending_has_a_time_to_end(void **state)
{
    mode = MODE_RESTART;
    open_agent(1);
    agent.config.exit_timeout_ms = 4000;
    up();
    generation(4);
    ack(0, reported_seq, NODE_ENDING, 0);
    pass(3900, false);
    assert_int_equal(said("stop"), 0);
    pass(200, false);
    assert_int_equal(said("stop 0"), 1);
    EXIT(143);
    assert_int_equal(said("done 1"), 1); /* Its own script did not finish. */
}

static void a_script_that_fails_while_the_job_is_ending_is_a_failure_here(void **state)
{
    runs_in(4);
    ack(0, reported_seq, NODE_ENDING, 0);
    EXIT(8);
    ack(0, reported_seq, NODE_ENDING, 0);
    assert_int_equal(agent.slots[0].state, SLOT_WAITING);
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1});
    assert_int_equal(said("done 8"), 1);
}

static void a_run_that_failed_ends_with_the_code_of_the_script(void **state)
{
    runs_in(4);
    EXIT(9);
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1, .failed = 1});
    assert_int_equal(said("done 9"), 1);
}

static void a_run_that_failed_elsewhere_is_a_failure_here_too(void **state)
{
    runs_in(4);
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1, .failed = 1});
    EXIT(143);
    assert_int_equal(said("done 1"), 1);
}

static void the_code_of_a_script_that_used_up_its_restarts_is_passed_on(void **state)
{
    runs_in(4);
    EXIT(42);
    refuse(MU_ELIMIT);
    assert_int_equal(said("done 42"), 1);
}

static void a_run_that_was_shut_down_is_no_failure(void **state)
{
    runs_in(4);
    STEP(.kind = AGENT_ON_ENDED, .u.ended = &(struct msg_ended){.run = 1});
    assert_int_equal(said("stop 0"), 1);
    EXIT(1); /* What a script makes of SIGTERM is its own business. */
    assert_int_equal(reported[0].exit_code, 143);
    assert_int_equal(said("done 0"), 1);
}

static void a_draining_node_waits_for_a_generation_without_it_then_leaves(void **state)
{
    runs_in(4);
    STEP(.kind = AGENT_ON_DRAIN);
    assert_int_equal(flags & NODE_DRAINING, NODE_DRAINING);
    pass(1000, false);
    assert_int_equal(said("stop"), 0);
    generation_of(5, OTHER);
    assert_int_equal(said("stop 0"), 1);
    EXIT(0);
    assert_int_equal(said("done 0"), 1);
}

static void a_draining_node_does_not_wait_for_ever(void **state)
{
    runs_in(4);
    STEP(.kind = AGENT_ON_DRAIN);
    pass(3100, false);
    assert_int_equal(said("stop 0"), 1);
    EXIT(0);
    assert_int_equal(said("done 0"), 1);
}

static void a_node_that_only_waits_drains_at_once(void **state)
{
    up_as(MODE_RESTART);
    STEP(.kind = AGENT_ON_DRAIN);
    assert_int_equal(said("bye 7"), 1);
    assert_int_equal(said("done 0"), 1);
}

static void a_node_that_was_forgotten_stops_its_script_and_waits_anew(void **state)
{
    runs_in(4);
    STEP(.kind = AGENT_ON_CLOSED);
    STEP(.kind = AGENT_ON_CONNECTED);
    welcome(9, 1);
    assert_int_equal(said("stop 0"), 1);
    assert_int_equal(reported[0].phase, PHASE_WARMING);
    EXIT(143);
    assert_int_equal(reported[0].phase, PHASE_WARM);
    assert_int_equal(reported[0].incarnation, 2);
    generation_of(6, wid_make(9, 0, 2));
    assert_int_equal(said("start 9.0#2 in 6"), 1);
}

static void the_orchestrator_s_absence_disturbs_no_script(void **state)
{
    runs_in(4);
    STEP(.kind = AGENT_ON_CLOSED);
    pass(600000, false);
    STEP(.kind = AGENT_ON_CONNECTED);
    welcome(7, 1);
    assert_int_equal(said("stop"), 0);
    assert_int_equal(reported[0].entered, 4);
}

/* ---- auto ---- */

static void undecided_nothing_is_entered(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    assert_int_equal(said("start 7.0#1 in 4"), 1);
    assert_int_equal(reported[0].entered, 0);
}

static void scripts_that_say_nothing_for_long_decide_nothing_but_may_be_restarted(void **state)
{
    up_as(MODE_AUTO);
    agent.config.silent_ms = 6000;
    generation(4);
    pass(5000, false);
    assert_int_equal(flags, 0);
    pass(2000, false);
    assert_int_equal(flags, NODE_SILENT);
    generation(5);
    assert_int_equal(said("stop 0"), 1);
    pass(1000, false);
    assert_int_equal(flags, 0); /* Until it runs again, and has had its time. */
    EXIT(143);
    pass(5000, false);
    assert_int_equal(flags, 0);
    STEP(.kind = AGENT_ON_ATTACHED);
    assert_int_equal(flags, NODE_INPROCESS);
}

static void a_script_that_has_connected_is_not_restarted_though_nothing_is_decided(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    STEP(.kind = AGENT_ON_ATTACHED);
    forget();
    generation(5);
    assert_int_equal(said("stop"), 0);
    assert_int_equal(said("tell 0 generation 5"), 1);
    EXIT(0); /* It has left. */
    assert_int_equal(reported[0].phase, PHASE_EXITED);
    assert_int_equal(flags & NODE_RESTART, 0);
}

static void a_script_that_has_loaded_libmuster_is_not_restarted_before_it_joins(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    STEP(.kind = AGENT_ON_LOADED);
    for (int i = 0; i < 15; i++) {
        pass(5000, false);
        forget();
    }
    assert_int_equal(flags, 0); /* It decides nothing; and nobody may count on its silence. */
    forget();
    generation(5);
    assert_int_equal(said("stop"), 0);
    forget();
    STEP(.kind = AGENT_ON_ATTACHED);
    assert_int_equal(flags, NODE_INPROCESS);
    assert_int_equal(said("tell 0 generation 5"), 1);
}

static void a_script_that_has_loaded_libmuster_and_ends_without_joining_needed_nothing(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    STEP(.kind = AGENT_ON_LOADED);
    EXIT(0);
    assert_int_equal(flags, NODE_RESTART);
    assert_int_equal(reported[0].phase, PHASE_FINISHED);
}

static void when_the_mode_is_restart_one_that_was_let_alone_follows(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    STEP(.kind = AGENT_ON_LOADED);
    generation(5);
    assert_int_equal(said("stop"), 0);
    mode = MODE_RESTART;
    ack(0, 0, 0, 0);
    assert_int_equal(said("stop 0"), 1);
    forget();
    EXIT(143);
    assert_int_equal(said("start 7.0#1 in 5"), 1);
    STEP(.kind = AGENT_ON_LOADED);
    generation(6);
    assert_int_equal(said("stop 0"), 1);
}

/* The address for the next start was told before this one had joined, and a generation was made of
 * it. Whichever comes first, the generation or the worker's own word. */
static void a_worker_that_a_generation_looks_for_elsewhere_goes_on_as_another(void **state)
{
    struct report r = {.addr = "10.0.0.1:4000", .phase = PHASE_WARM};
    struct member m;
    struct generation g = {.members = &m, .members_n = 1};

    for (int late = 0; late < 2; late++) {
        up_as(MODE_AUTO);
        m = (struct member){.worker = slot_wid(&agent, 0), .addr = "10.0.0.1:4000"};
        g.number = 4;
        STEP(.kind = AGENT_ON_GENERATION, .u.generation = &g);
        STEP(.kind = AGENT_ON_LOADED);
        if (late) {
            STEP(.kind = AGENT_ON_ATTACHED);
            STEP(.kind = AGENT_ON_REPORT, .u.report = &r);
        }
        assert_int_equal(said("life"), 0);
        g.number = 5;
        strcpy(m.addr, "10.0.0.1:5000");
        STEP(.kind = AGENT_ON_GENERATION, .u.generation = &g);
        if (!late) {
            assert_int_equal(said("life"), 0);
            STEP(.kind = AGENT_ON_ATTACHED);
            STEP(.kind = AGENT_ON_REPORT, .u.report = &r);
        }
        assert_int_equal(said("life 7.0#2"), 1);
        assert_int_equal(said("stop"), 0);
        forget();
        g.number = 6;
        m = (struct member){.worker = slot_wid(&agent, 0), .addr = "10.0.0.1:4000"};
        STEP(.kind = AGENT_ON_REPORT, .u.report = &r);
        STEP(.kind = AGENT_ON_GENERATION, .u.generation = &g);
        assert_int_equal(said("life"), 0);
    }
}

static void a_script_that_connects_decides_for_in_process(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    forget();
    STEP(.kind = AGENT_ON_ATTACHED);
    assert_int_equal(flags, NODE_INPROCESS);
    assert_int_equal(said("tell 0 generation 4"), 1);
    report(0, PHASE_IN, 4);
    assert_int_equal(reported[0].entered, 0);
    mode = MODE_INPROCESS;
    ack(0, 0, 0, 0);
    assert_int_equal(reported[0].entered, 4);
    generation(5);
    assert_int_equal(said("stop"), 0);
    assert_int_equal(said("tell 0 generation 5"), 1);
}

static void a_late_word_of_an_undecided_mode_changes_nothing(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    STEP(.kind = AGENT_ON_ATTACHED);
    mode = MODE_INPROCESS;
    ack(0, 0, 0, 0);
    mode = MODE_AUTO;
    ack(0, 0, 0, 0);
    generation(5);
    assert_int_equal(said("stop"), 0);
}

static void a_short_script_that_ends_well_decides_for_restart(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    EXIT(0);
    assert_int_equal(flags, NODE_RESTART);
    mode = MODE_RESTART;
    ack(0, 0, 0, 0);
    assert_int_equal(reported[0].phase, PHASE_FINISHED);
    assert_int_equal(reported[0].entered, 4);
}

static void a_script_that_fails_decides_nothing(void **state)
{
    up_as(MODE_AUTO);
    generation(4);
    EXIT(1);
    assert_int_equal(flags & (NODE_RESTART | NODE_INPROCESS), 0);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(reported[0].phase, PHASE_WARM);
}

static void a_newcomer_to_an_in_process_job_starts_at_once_to_warm_up(void **state)
{
    up_as(MODE_AUTO);
    generation_of(4, OTHER);
    assert_int_equal(said("start"), 0);
    mode = MODE_INPROCESS;
    ack(0, 0, 0, 0);
    assert_int_equal(said("start 7.0#1"), 1);
    assert_int_equal(said("start 7.0#1 in"), 0);
    assert_int_equal(reported[0].phase, PHASE_WARMING);
}

static void an_in_process_worker_that_finished_is_reported_so_before_it_is_reported_gone(
    void **state)
{
    up();
    report(0, PHASE_FINISHED, 4);
    EXIT(0);
    assert_int_equal(reported[0].phase, PHASE_FINISHED);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(reported[0].phase, PHASE_EXITED);
    assert_int_equal(said("start"), 0);
    ack(0, reported_seq, 0, 0);
    assert_int_equal(said("done 0"), 1);
}

static void addresses_and_ports_are_those_that_the_driver_gave(void **state)
{
    struct report r = {.addr = "10.0.0.1:4000", .port = 29500};

    mode = MODE_RESTART;
    open_agent(1);
    STEP(.kind = AGENT_ON_ADDR, .u.report = &r);
    up();
    assert_string_equal(reported[0].addr, "10.0.0.1:4000");
    assert_int_equal(reported[0].port, 29500);
    generation(4);
    r.port = 29501;
    STEP(.kind = AGENT_ON_ADDR, .u.report = &r);
    assert_int_equal(reported[0].port, 29501);
    assert_int_equal(reported[0].phase, PHASE_IN);
}

/* An address and a port, and the generation that gives out the latter. */
static void is_given(struct report *r, uint16_t port, struct member *m, uint64_t number,
                     uint32_t generation_flags)
{
    struct generation g = {
        .number = number, .flags = generation_flags, .members_n = 1, .members = m};

    r->port = m->port = port;
    STEP(.kind = AGENT_ON_ADDR, .u.report = r);
    forget();
    STEP(.kind = AGENT_ON_GENERATION, .u.generation = &g);
}

static void a_port_that_was_given_out_and_that_no_script_has_is_followed_by_another(void **state)
{
    struct report r = {.addr = "10.0.0.1:4000"};
    struct member m = {.worker = wid_make(7, 0, 1)};

    runs_in(4);
    EXIT(1);
    is_given(&r, 29500, &m, 5, 0); /* This was decided before the news. */
    assert_int_equal(said("start"), 0);
    assert_int_equal(said("addr 0"), 1);
    ack(0, reported_seq, 0, 0);
    m.worker = wid_make(7, 0, 2);
    is_given(&r, 29501, &m, 6, 0);
    assert_int_equal(said("start 7.0#2 in 6"), 1);
    assert_int_equal(said("addr"), 0); /* The driver gives one after each start. */
    is_given(&r, 29502, &m, 7, GENERATION_HOLD);
    assert_int_equal(said("addr"), 0);
    EXIT(143);
    assert_int_equal(said("addr 0"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AGENT_CASE(a_life_is_ready_without_a_process),
        AGENT_CASE(its_script_starts_in_the_generation_that_names_it),
        AGENT_CASE(the_next_generation_stops_it_and_starts_it_again),
        AGENT_CASE(of_generations_that_come_while_it_stops_only_the_newest_counts),
        AGENT_CASE(a_script_that_knows_muster_hears_of_no_generation_but_its_own),
        AGENT_CASE(out_of_the_generation_it_waits_for_the_next),
        AGENT_CASE(a_generation_that_holds_is_entered_without_a_script),
        AGENT_CASE(a_script_that_fails_is_another_life),
        AGENT_CASE(a_killed_script_is_not_counted_as_failed),
        AGENT_CASE(scripts_that_end_at_once_are_started_less_and_less_often),
        AGENT_CASE(a_script_that_ends_well_has_finished_and_is_not_started_again),
        AGENT_CASE(a_script_that_knows_muster_says_itself_that_it_has_finished),
        AGENT_CASE(whoever_has_finished_does_so_again_with_a_generation_that_came_before_the_news),
        AGENT_CASE(a_job_that_is_ending_has_a_time_to_end),
        AGENT_CASE(a_script_that_fails_while_the_job_is_ending_is_a_failure_here),
        AGENT_CASE(a_run_that_failed_ends_with_the_code_of_the_script),
        AGENT_CASE(a_run_that_failed_elsewhere_is_a_failure_here_too),
        AGENT_CASE(the_code_of_a_script_that_used_up_its_restarts_is_passed_on),
        AGENT_CASE(a_run_that_was_shut_down_is_no_failure),
        AGENT_CASE(a_draining_node_waits_for_a_generation_without_it_then_leaves),
        AGENT_CASE(a_draining_node_does_not_wait_for_ever),
        AGENT_CASE(a_node_that_only_waits_drains_at_once),
        AGENT_CASE(a_node_that_was_forgotten_stops_its_script_and_waits_anew),
        AGENT_CASE(the_orchestrator_s_absence_disturbs_no_script),
        AGENT_CASE(undecided_nothing_is_entered),
        AGENT_CASE(scripts_that_say_nothing_for_long_decide_nothing_but_may_be_restarted),
        AGENT_CASE(a_script_that_has_connected_is_not_restarted_though_nothing_is_decided),
        AGENT_CASE(a_script_that_has_loaded_libmuster_is_not_restarted_before_it_joins),
        AGENT_CASE(a_script_that_has_loaded_libmuster_and_ends_without_joining_needed_nothing),
        AGENT_CASE(when_the_mode_is_restart_one_that_was_let_alone_follows),
        AGENT_CASE(a_worker_that_a_generation_looks_for_elsewhere_goes_on_as_another),
        AGENT_CASE(a_script_that_connects_decides_for_in_process),
        AGENT_CASE(a_late_word_of_an_undecided_mode_changes_nothing),
        AGENT_CASE(a_short_script_that_ends_well_decides_for_restart),
        AGENT_CASE(a_script_that_fails_decides_nothing),
        AGENT_CASE(a_newcomer_to_an_in_process_job_starts_at_once_to_warm_up),
        AGENT_CASE(an_in_process_worker_that_finished_is_reported_so_before_it_is_reported_gone),
        AGENT_CASE(addresses_and_ports_are_those_that_the_driver_gave),
        AGENT_CASE(a_port_that_was_given_out_and_that_no_script_has_is_followed_by_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
