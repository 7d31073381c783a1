/* Members that differ: the job ends and says why, or goes back to what all had. */
#include "unit/core/cluster_kit.h"

#include <string.h>

static wid id_of(const char *name)
{
    return wid_make(at(name)->node, 0, at(name)->reports[0].incarnation);
}

/* A job of nodes that were started with --heal, whose members have saved the states of these
 * steps. */
static void trained(const char *names, uint64_t before, uint64_t newest)
{
    char list[64], *save = NULL;

    strcpy(list, names);
    for (char *n = strtok_r(list, " ", &save); n != NULL; n = strtok_r(NULL, " ", &save)) {
        at(n)->flags = NODE_HEAL;
    }
    form(names);
    for (int i = 0; i < 2; i++) {
        at("a")->reports[0].checkpoint = i == 0 ? before : newest;
        at("a")->reports[0].step = newest;
        resend("a");
    }
    forget();
}

static void stops(const char *name, enum fault fault, const char *odd, uint64_t step,
                  uint64_t agreed)
{
    struct report *r = &at(name)->reports[0];

    r->fault = (uint8_t)fault;
    r->odd = odd != NULL ? id_of(odd) : 0;
    r->step = step;
    r->agreed = agreed;
    resend(name);
}

static void goes_on(const char *names)
{
    char list[64], *save = NULL;

    strcpy(list, names);
    for (char *n = strtok_r(list, " ", &save); n != NULL; n = strtok_r(NULL, " ", &save)) {
        at(n)->reports[0].fault = FAULT_NONE;
        at(n)->reports[0].odd = 0;
        at(n)->reports[0].checkpoint = 0;
    }
}

static void expect_failed(const char *text)
{
    struct job_look look;

    assert_int_equal(cluster_look_job(f.c, "job", &look), MU_OK);
    assert_true(look.failed);
    if (strstr(look.why, text) == NULL) {
        fail_msg("'%s' is not in '%s'", text, look.why);
    }
}

static uint64_t base(void)
{
    struct generation g;

    assert_int_equal(cluster_generation(f.c, "job", &g), MU_OK);
    return g.base_step;
}

static void all_stop_and_go_back_to_what_all_had(void **state)
{
    struct generation g;

    trained("a b c", 10, 20);
    stops("a", FAULT_STATES, "b", 25, 24);
    stops("c", FAULT_STATES, "b", 25, 24);
    assert_int_equal(said_like("record"), 0); /* b may know something else. */
    stops("b", FAULT_STATES, "b", 25, 24);
    assert_int_equal(said("record heal 24 1"), 1);
    expect_generation("fresh", "a b c");
    assert_int_equal(cluster_generation(f.c, "job", &g), MU_OK);
    assert_int_equal(g.flags, GENERATION_CHECKPOINTED | GENERATION_HEALS);
    assert_int_equal(g.base_step, 24); /* One that was saved since may be newer than 20. */
    assert_int_equal(job().checkpoint, 20);
    assert_int_equal(g.from, 1);
    goes_on("a b c");
    settle();
    expect_active("fresh", "a b c");
    assert_int_equal(said_like("note healed"), 1);
}

static void a_checkpoint_of_a_state_that_not_all_had_is_not_gone_back_to(void **state)
{
    trained("a b c", 10, 20);
    stops("a", FAULT_STATES, "b", 20, 15);
    stops("b", FAULT_STATES, "b", 20, 15);
    stops("c", FAULT_STATES, "b", 20, 15);
    assert_int_equal(base(), 15); /* The members find which is the newest up to there: 10. */
    assert_int_equal(job().checkpoint, 10);
    goes_on("a b c");
    settle();
    exits("a", 0, 137);
    exits("b", 0, 137);
    exits("c", 0, 137);
    next_life("a", 0);
    warm("a");
    expect_generation("fresh", "a#2");
    assert_int_equal(base(), 10); /* whoever takes over, too */
    settle();
}

static void one_that_was_told_and_knows_nobody_ends_nothing(void **state)
{
    trained("a b c", 10, 20);
    stops("c", FAULT_STATES, NULL, 25, 0);
    stops("a", FAULT_STATES, "b", 25, 20);
    stops("b", FAULT_STATES, "b", 25, 20);
    assert_int_equal(said("record heal 20 1"), 1);
    goes_on("a b c");
    settle();
}

static void in_a_tie_the_job_ends_and_nobody_is_named(void **state)
{
    trained("a b", 10, 20);
    stops("a", FAULT_STATES, NULL, 25, 20);
    stops("b", FAULT_STATES, NULL, 25, 20);
    expect_failed(
        "after step 25 the states of the workers differ; it can't heal: no more than half");
}

static void with_nothing_to_go_back_to_the_job_ends(void **state)
{
    trained("a b c", 0, 20);
    stops("a", FAULT_STATES, "c", 20, 15);
    stops("b", FAULT_STATES, "c", 20, 15);
    stops("c", FAULT_STATES, "c", 20, 15);
    expect_failed("(node 'c'); it can't heal: there is no checkpoint");
}

static void gradients_that_differ_end_the_job(void **state)
{
    trained("a b c", 10, 20);
    stops("a", FAULT_GRADIENTS, "b", 25, 20);
    expect_failed("after step 25 workers computed different gradients; the odd one is n2.0#1");
}

static void a_last_state_that_nobody_could_save_ends_the_job(void **state)
{
    trained("a b c", 10, 20);
    stops("a", FAULT_UNSAVED, NULL, 25, 20);
    expect_failed("all 25 steps are done, but no worker could save the state after the last one");
}

static void without_heal_the_first_word_ends_the_job(void **state)
{
    trained("a b c", 10, 20);
    at("a")->flags = 0;
    renew("a");
    stops("a", FAULT_STATES, "b", 25, 20);
    expect_failed(
        "after step 25 the states of the workers differ; the odd one is n2.0#1 (node 'b')");
}

static void if_most_nodes_do_not_heal_the_job_ends(void **state)
{
    trained("a b c", 10, 20);
    at("b")->flags = at("c")->flags = 0;
    renew("b");
    renew("c");
    stops("a", FAULT_STATES, "b", 25, 20);
    stops("c", FAULT_STATES, "b", 25, 20);
    expect_failed("the states of the workers differ");
}

static void diverge(uint64_t step, uint64_t agreed)
{
    stops("a", FAULT_STATES, "b", step, agreed);
    stops("b", FAULT_STATES, "b", step, agreed);
    stops("c", FAULT_STATES, "b", step, agreed);
}

static void a_job_that_gets_nowhere_ends(void **state)
{
    trained("a b c", 10, 20);
    for (uint32_t i = 1; i <= 3; i++) {
        diverge(25, 20);
        assert_int_equal(said("record heal 20 %u", i), 1);
        goes_on("a b c");
        settle();
        expect_active("fresh", "a b c");
    }
    diverge(25, 20);
    expect_failed("(node 'b'); it went back 3 times, and did not get past step 25");
}

static void a_job_that_gets_on_may_heal_again(void **state)
{
    trained("a b c", 10, 20);
    for (uint32_t i = 0; i < 6; i++) {
        diverge(25 + i, 20);
        assert_int_equal(said("record heal 20 1"), i + 1);
        goes_on("a b c");
        settle();
    }
    expect_active("fresh", "a b c");
}

/* Whoever has given its state up can't be asked to go on with it. */
static void a_loss_while_it_heals_makes_another_fresh_generation(void **state)
{
    trained("a b c", 10, 20);
    diverge(25, 20);
    goes_on("a b c");
    exits("c", 0, 137);
    expect_generation("fresh", "a b");
    settle();
    assert_int_equal(base(), 20);
    assert_int_equal(said_like("record generation 3 failure"), 0);
}

static void a_record_that_is_lost_is_tried_again(void **state)
{
    trained("a b c", 10, 20);
    hold();
    diverge(25, 20);
    assert_int_equal(said("record heal 20 1"), 1);
    fail_all();
    forget();
    pass(1000);
    assert_int_equal(said("record heal 20 1"), 1);
    expect_generation("fresh", "a b c");
    goes_on("a b c");
    settle();
}

static void a_checkpoint_that_is_reported_meanwhile_does_not_count(void **state)
{
    trained("a b c", 10, 20);
    hold();
    diverge(30, 20);
    at("a")->reports[0].checkpoint = 30;
    resend("a");
    sync_all();
    assert_int_equal(job().checkpoint, 20);
    assert_int_equal(base(), 20);
    goes_on("a b c");
    settle();
    assert_int_equal(job().checkpoint, 20);
}

static void the_next_orchestrator_heals_what_the_last_gave_up(void **state)
{
    trained("a b c", 10, 20);
    hold();
    diverge(25, 20);
    sync_one();
    restart(); /* Its generation was not durable. */
    sync_all();
    expect_generation("fresh", "a b c");
    assert_int_equal(base(), 20);
    goes_on("a b c");
    hello("a");
    hello("b");
    hello("c");
    settle();
    expect_active("fresh", "a b c");
}

static void a_snapshot_remembers_how_often(void **state)
{
    trained("a b c", 10, 20);
    for (uint32_t i = 1; i <= 3; i++) {
        diverge(25, 20);
        goes_on("a b c");
        settle();
    }
    restart_from_snapshot();
    hello("a");
    hello("b");
    hello("c");
    settle();
    diverge(25, 20);
    expect_failed("it went back 3 times");
}

/* Two of a fresh generation have stopped; the third has no state yet. */
static void two_stop_in_a_fresh_generation(uint8_t flags)
{
    for (const char *n = "abc"; *n != '\0'; n++) {
        at((char[]){*n, '\0'})->flags = flags;
    }
    join("a b c");
    pass(WINDOW_MS);
    at("a")->reports[0].entered = at("b")->reports[0].entered = 1;
    stops("a", FAULT_STATES, "b", 2, 0);
    stops("b", FAULT_STATES, "b", 2, 0);
    expect_generation("fresh", "a b c");
    assert_int_equal(job().active, 0);
}

/* READYs are compared before a generation is known to be active. */
static void what_is_found_before_a_generation_is_active_counts_when_it_is(void **state)
{
    two_stop_in_a_fresh_generation(NODE_HEAL);
    at("c")->reports[0].entered = 1;
    stops("c", FAULT_STATES, "b", 2, 0);
    settle();
    expect_failed("after step 2 the states of the workers differ; the odd one is n2.0#1");
}

/* Nobody will give it a state, so the generation will never be active. */
static void one_that_stops_before_it_has_a_state_ends_the_job(void **state)
{
    two_stop_in_a_fresh_generation(0);
    stops("c", FAULT_STATES, "b", 0, 0);
    expect_failed("the states of the workers differ; the odd one is n2.0#1");
}

static void what_the_first_members_start_from_differs_and_nothing_heals_that(void **state)
{
    two_stop_in_a_fresh_generation(NODE_HEAL);
    stops("c", FAULT_STATES, "b", 0, 0);
    expect_failed("it can't heal: what they started from differs");
}

/* It can't be known from anybody afterwards. */
static void a_job_that_has_failed_is_written_again_after_a_failed_write(void **state)
{
    trained("a b c", 10, 20);
    hold();
    stops("a", FAULT_GRADIENTS, "a", 20, 15);
    fail_all();
    pass(f.config.retry_ms);
    sync_all();
    expect_failed("workers computed different gradients");
}

static void those_who_died_when_they_had_stopped_are_heard(void **state)
{
    trained("a b c", 10, 20);
    stops("a", FAULT_STATES, "a", 20, 15);
    for (const char *n = "abc"; *n != '\0'; n++) {
        exits((char[]){*n, '\0'}, 0, 137);
    }
    assert_int_equal(said("record heal 15 1"), 1);
    goes_on("a b c");
    for (const char *n = "abc"; *n != '\0'; n++) {
        next_life((char[]){*n, '\0'}, 0);
    }
    warm("a b c");
    settle();
    assert_int_equal(job().checkpoint, 10);
}

/* Who has stopped commits nothing, so its word of a link that broke too often stays. */
static void whom_those_that_stopped_could_not_reach_is_no_reason_to_wait(void **state)
{
    shape(3, 3);
    trained("a b c", 10, 20);
    hold();
    diverge(25, 20);
    suspect("a", "b");
    sync_all();
    pass(f.config.suspect_ms);
    expect_generation("fresh", "a b c");
    goes_on("a b c");
    settle();
    expect_active("fresh", "a b c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(all_stop_and_go_back_to_what_all_had),
        CASE(a_checkpoint_of_a_state_that_not_all_had_is_not_gone_back_to),
        CASE(one_that_was_told_and_knows_nobody_ends_nothing),
        CASE(in_a_tie_the_job_ends_and_nobody_is_named),
        CASE(with_nothing_to_go_back_to_the_job_ends),
        CASE(gradients_that_differ_end_the_job),
        CASE(a_last_state_that_nobody_could_save_ends_the_job),
        CASE(without_heal_the_first_word_ends_the_job),
        CASE(if_most_nodes_do_not_heal_the_job_ends),
        CASE(a_job_that_gets_nowhere_ends),
        CASE(a_job_that_gets_on_may_heal_again),
        CASE(a_loss_while_it_heals_makes_another_fresh_generation),
        CASE(a_record_that_is_lost_is_tried_again),
        CASE(a_checkpoint_that_is_reported_meanwhile_does_not_count),
        CASE(the_next_orchestrator_heals_what_the_last_gave_up),
        CASE(a_snapshot_remembers_how_often),
        CASE(what_is_found_before_a_generation_is_active_counts_when_it_is),
        CASE(one_that_stops_before_it_has_a_state_ends_the_job),
        CASE(what_the_first_members_start_from_differs_and_nothing_heals_that),
        CASE(a_job_that_has_failed_is_written_again_after_a_failed_write),
        CASE(those_who_died_when_they_had_stopped_are_heard),
        CASE(whom_those_that_stopped_could_not_reach_is_no_reason_to_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
