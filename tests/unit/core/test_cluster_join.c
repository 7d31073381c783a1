/* How a job begins and grows: registration, the first generation, names, roles, spares. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <string.h>

/* ---- registration ---- */

static void one_registration_gives_a_generation_of_one(void **state)
{
    shape(1, 1);
    join("a");
    expect_generation("fresh", "a");
    assert_int_equal(job().generation, 1);
    settle();
    expect_active("fresh", "a");
}

static void several_registrations_give_min_equal_max_members_in_their_order(void **state)
{
    shape(3, 3);
    join("a b");
    pass(10 * WINDOW_MS);
    assert_int_equal(job().members_n, 0);
    join("c");
    expect_generation("fresh", "a b c");
}

static void a_third_waits_while_two_run_and_then_all_are_in(void **state)
{
    struct job_view v;

    shape(2, 3);
    form("a b");
    hello("c");
    v = job();
    assert_int_equal(v.nodes_n * at("a")->slots - v.members_n, 1); /* waiting = 1 */
    expect_active("fresh", "a b");
    warm("c");
    expect_generation("boundary", "a b c+");
    settle();
    expect_active("boundary", "a b c+");
    assert_int_equal(job().members_n, 3);
}

static void a_newcomer_counts_once_its_record_is_durable(void **state)
{
    shape(1, 1);
    hold();
    hello("a");
    expect_log("record job job run 1\nrecord node a\n");
    sync_one();
    assert_int_equal(said_like("a: "), 0);
    sync_one();
    assert_int_equal(said("a: welcome 1 run 1"), 1);
    sync_all();
}

static void nodes_with_all_their_slots_count(void **state)
{
    shape(1, 1);
    f.slots = 3;
    hello("a");
    report("a", 0, PHASE_WARM, 0, 0);
    report("a", 2, PHASE_WARM, 0, 0);
    pass(WINDOW_MS);
    assert_int_equal(job().available_n, 0);
    assert_int_equal(job().members_n, 0);
    report("a", 1, PHASE_WARM, 0, 0);
    expect_generation("fresh", "a a.1 a.2");
}

/* ---- when the first generation forms ---- */

static void min_warm_and_max_reached_form_at_once(void **state)
{
    shape(2, 3);
    join("a b");
    hello("c");
    assert_int_equal(job().members_n, 0);
    warm("c");
    expect_generation("fresh", "a b c");
}

static void min_warm_form_when_the_join_window_is_over_and_never_later(void **state)
{
    shape(2, 3);
    join("a");
    pass(1500);
    join("b"); /* The window begins anew. */
    pass(WINDOW_MS - 1);
    assert_int_equal(job().members_n, 0);
    assert_int_equal(cluster_deadline(f.c), f.now_ms + 1);
    pass(1);
    expect_generation("fresh", "a b");
}

static void warmth_after_the_window_forms_at_once(void **state)
{
    shape(2, 3);
    hello("a");
    hello("b");
    pass(WINDOW_MS * 2);
    warm("a");
    assert_int_equal(job().members_n, 0);
    warm("b");
    expect_generation("fresh", "a b");
}

static void nothing_forms_below_min(void **state)
{
    shape(3, 8);
    join("a b");
    pass(60000);
    assert_int_equal(job().members_n, 0);
    assert_int_equal(said_like("record generation"), 0);
    join("c");
    pass(WINDOW_MS);
    expect_generation("fresh", "a b c");
}

static void a_first_member_lost_before_the_rest_has_entered_is_left_out(void **state)
{
    shape(2, 3);
    join("a b c");
    expect_generation("fresh", "a b c");
    enter("a b");
    exits("c", 0, 137);
    pass(WINDOW_MS);
    expect_generation("fresh", "a b");
    settle();
    expect_active("fresh", "a b");
}

/* ---- refusals ---- */

static void another_min_max_is_refused_naming_both(void **state)
{
    shape(2, 4);
    hello("a");
    shape(3, 5);
    hello("b");
    assert_int_equal(at("b")->refused, MU_EINVAL);
    assert_non_null(strstr(at("b")->refusal, "2:4"));
    assert_non_null(strstr(at("b")->refusal, "3:5"));
    assert_non_null(strstr(at("b")->refusal, "'b'"));
    assert_int_equal(job().nodes_n, 1);
    assert_int_equal(said("record node b"), 0);
}

static void another_min_max_is_refused_even_before_the_job_is_durable(void **state)
{
    hold();
    shape(2, 4);
    hello("a");
    shape(2, 5);
    hello("b");
    assert_int_equal(at("b")->refused, MU_EINVAL);
    sync_all();
    assert_int_equal(job().nodes_n, 1);
}

static void hellos_that_make_no_sense_are_refused(void **state)
{
    shape(2, 1);
    hello("a");
    assert_int_equal(at("a")->refused, MU_EINVAL);
    shape(0, 1);
    hello("b");
    assert_int_equal(at("b")->refused, MU_EINVAL);
    shape(1, 1);
    f.slots = 0;
    hello("c");
    assert_int_equal(at("c")->refused, MU_EINVAL);
    f.slots = SLOTS_MAX + 1;
    at("d");
    hello("d");
    assert_int_equal(at("d")->refused, MU_EINVAL);
    f.slots = 1;
    at("e")->role = ROLE_N;
    hello("e");
    assert_int_equal(at("e")->refused, MU_EINVAL);
    assert_int_equal(f.journal_n, 0);
}

static void a_name_in_use_is_refused_while_its_node_is_connected(void **state)
{
    struct stub *a;
    uint32_t conn;

    form("a b");
    a = at("a");
    conn = a->conn;
    rejoin("a"); /* Another process, by another connection; the first is still there. */
    assert_int_equal(a->refused, MU_EEXIST);
    assert_non_null(strstr(a->refusal, "'a'"));
    assert_int_equal(job().nodes_n, 2);
    a->conn = conn;
    expect_active("fresh", "a b");
}

static void a_name_in_use_is_taken_over_once_its_node_has_disconnected(void **state)
{
    uint32_t number;

    form("a b");
    number = at("a")->node;
    closed("a");
    rejoin("a");
    assert_int_equal(at("a")->refused, 0);
    assert_true(at("a")->node > number);
    expect_generation("failure", "b"); /* The one before is lost at once. */
    warm("a");
    settle();
    expect_active("boundary", "b a+");
    assert_int_equal(job().nodes_n, 2);
}

static void agents_of_another_store_are_refused(void **state)
{
    hello("a");
    at("b")->store = f.config.store + 1;
    hello("b");
    assert_int_equal(at("b")->refused, MU_EREFUSED);
    assert_non_null(strstr(at("b")->refusal, "--adopt"));
    assert_int_equal(job().nodes_n, 1);
}

static void agents_of_another_store_are_newcomers_when_adopted(void **state)
{
    f.config.adopt = true;
    kit_open();
    shape(1, 2);
    form("a");
    at("b")->store = f.config.store + 1;
    at("b")->node = at("a")->node; /* the number it had over there */
    at("b")->reports[0].phase = PHASE_IN;
    at("b")->reports[0].entered = 7;
    hello("b");
    assert_int_equal(at("b")->refused, 0);
    assert_int_not_equal(at("b")->node, at("a")->node);
    assert_int_equal(at("b")->store, f.config.store);
    expect_active("fresh", "a"); /* What it held over there counts for nothing. */
}

/* ---- no more than can train together ---- */

static void crowd(uint32_t group_max)
{
    f.config.group_max = group_max;
    kit_open();
    f.slots = 2;
}

static void one_too_many_in_process_is_refused_and_told_why(void **state)
{
    crowd(5);
    form("a b");
    hello("c");
    assert_int_equal(at("c")->refused, MU_ELIMIT);
    assert_non_null(strstr(at("c")->refusal, "than the 5 that can train together"));
    expect_active("fresh", "a a.1 b b.1");
    closed("b");
    rejoin("b"); /* One that is started again is no more than before. */
    assert_int_equal(at("b")->refused, 0);
}

static void in_restart_mode_there_is_no_such_limit(void **state)
{
    crowd(5);
    f.mode = MODE_RESTART;
    form("a b c");
    expect_active("fresh", "a a.1 b b.1 c c.1");
}

static void spares_wait_even_if_people_want_more_nodes(void **state)
{
    crowd(4);
    shape(1, 2);
    form("a b");
    join("c");
    assert_int_equal(at("c")->refused, 0);
    assert_int_equal(setting("max", "3"), MU_OK);
    settle();
    expect_active("fresh", "a a.1 b b.1");
    bye("b");
    settle();
    expect_active("boundary", "a a.1 c+ c.1+");
}

static void a_job_that_turns_out_to_be_too_large_fails_and_says_so(void **state)
{
    struct job_look look;

    crowd(5);
    f.mode = MODE_AUTO;
    join("a b c");
    pass(WINDOW_MS);
    assert_int_equal(job().members_n, 6);
    decide(MODE_INPROCESS);
    assert_true(job().ended);
    assert_int_equal(cluster_look_job(f.c, "job", &look), MU_OK);
    assert_true(look.failed);
    assert_non_null(strstr(look.why, "6 workers are more than the 5"));
}

static void limits_are_named_when_they_refuse(void **state)
{
    f.config.nodes_max = 2;
    f.config.workers_max = 4;
    f.config.jobs_max = 1;
    kit_open();
    f.slots = 2;
    hello("a");
    hello("b");
    hello("c");
    assert_int_equal(at("c")->refused, MU_ELIMIT);
    assert_non_null(strstr(at("c")->refusal, "4"));
    f.job = "other";
    hello("d");
    assert_int_equal(at("d")->refused, MU_ELIMIT);
    assert_non_null(strstr(at("d")->refusal, "other"));
    f.job = "job";
    assert_int_equal(job().nodes_n, 2);
}

/* ---- growth, spares, load ---- */

static void growth_takes_the_least_loaded_host(void **state)
{
    shape(1, 4);
    at("a")->host = at("b")->host = at("c")->host = 1;
    at("d")->host = 2;
    form("a b");
    want(2);
    join("c d"); /* c came first, but two are on its host already. */
    expect_active("fresh", "a b");
    want(3);
    expect_generation("boundary", "a b d+");
    settle();
    want(4);
    expect_generation("boundary", "a b d c+");
}

static void a_fresh_generation_spreads_over_hosts(void **state)
{
    shape(1, 16);
    at("a")->host = at("b")->host = at("c")->host = 1;
    at("d")->host = 2;
    join("a b c d");
    want(2);
    pass(WINDOW_MS);
    expect_generation("fresh", "a d"); /* in the order in which they came */
}

static void spares_beyond_max_wait_warm_and_are_taken_in_at_once_after_a_loss(void **state)
{
    shape(1, 2);
    form("a b");
    join("c");
    pass(60000);
    expect_active("fresh", "a b");
    forget();
    exits("b", 0, 137);
    expect_generation("failure", "a");
    enter("a");
    warm("c"); /* It has reached the member that is left. */
    expect_generation("boundary", "a c+");
    settle();
    expect_active("boundary", "a c+");
    assert_int_equal(said_like("record generation"), 2);
}

static void a_newcomer_that_has_not_reached_every_member_waits(void **state)
{
    shape(1, 3);
    form("a b");
    hello("c");
    report("c", 0, PHASE_WARM, 0, job().generation - 1);
    expect_active("fresh", "a b");
    report("c", 0, PHASE_WARM, 0, job().generation);
    expect_generation("boundary", "a b c+");
}

/* It could not enter the next generation, which would be waited for. */
static void a_newcomer_that_was_cut_off_since_holds_no_change_up(void **state)
{
    shape(1, 3);
    form("a b c");
    join("d");
    report("d", 0, PHASE_WARM, 0, 0);
    assert_int_equal(admin(ADMIN_DRAIN, "c"), MU_OK);
    expect_generation("boundary", "a b");
    enter("a b");
    expect_active("boundary", "a b");
    report("d", 0, PHASE_WARM, 0, job().generation);
    expect_generation("boundary", "a b d+");
}

/* ---- roles ---- */

static void in_restart_mode_helpers_are_members_on_top_of_the_size(void **state)
{
    f.mode = MODE_RESTART;
    shape(2, 2);
    at("p")->role = ROLE_PS;
    at("e")->role = ROLE_EVALUATOR;
    join("p e a");
    pass(60000);
    assert_int_equal(said_like("record generation"), 0); /* Two are to train. */
    join("b c");
    expect_generation("fresh", "p e a b");
}

static void in_restart_mode_a_lost_helper_restarts_everyone(void **state)
{
    f.mode = MODE_RESTART;
    shape(1, 1);
    at("p")->role = ROLE_PS;
    join("p a");
    settle();
    expect_active("fresh", "p a");
    exits("p", 0, 137);
    pass(f.config.reconnect_ms);
    expect_generation("fresh", "a");
    settle();
    next_life("p", 0);
    warm("p");
    expect_generation("fresh", "a p#2");
}

static void helpers_neither_count_nor_are_in_a_generation(void **state)
{
    shape(2, 2);
    at("p")->role = ROLE_PS;
    at("e")->role = ROLE_EVALUATOR;
    join("p e");
    pass(WINDOW_MS * 2);
    assert_int_equal(job().members_n, 0);
    assert_int_equal(job().available_n, 0);
    at("c")->role = ROLE_CHIEF;
    join("c a b");
    expect_generation("fresh", "a b");
    assert_int_equal(said("p: generation 1"), 1); /* They are told who trains, … */
    assert_int_equal(at("p")->key[0], 0);         /* … not the key. */
    settle();
    forget();
    exits("p", 0, 1);
    closed("e");
    pass(60000);
    assert_int_equal(said_like("record generation"), 0);
    expect_active("fresh", "a b");
}

static void ps_that_arrive_do_not_put_off_the_first_generation(void **state)
{
    static const char *const PS[] = {"p", "q", "r"};

    shape(2, 3);
    join("a b");
    for (size_t i = 0; i < ARRAY_LEN(PS); i++) {
        pass(WINDOW_MS / 2);
        at(PS[i])->role = ROLE_PS;
        hello(PS[i]);
    }
    expect_generation("fresh", "a b");
}

/* ---- jobs ---- */

static void jobs_do_not_disturb_each_other(void **state)
{
    shape(2, 2);
    form("a b");
    f.job = "other";
    shape(1, 2);
    join("x y");
    settle();
    expect_active("fresh", "x y");
    assert_int_equal(job().generation, 1); /* numbers are the job's own */
    hello("x2");
    forget();
    exits("x", 0, 1);
    settle();
    expect_active("failure", "y");
    assert_int_equal(said_like("a: "), 0);
    assert_int_equal(said_like("b: "), 0);
    f.job = "job";
    expect_active("fresh", "a b");
    exits("a", 0, 1);
    expect_generation("failure hold", "b");
    f.job = "other";
    expect_active("failure", "y");
}

static void two_jobs_may_have_nodes_of_the_same_name(void **state)
{
    struct stub first;

    shape(1, 1);
    form("a");
    first = *at("a");
    snprintf(at("a")->job, sizeof(first.job), "other");
    rejoin("a");
    assert_int_equal(at("a")->refused, 0);
    assert_int_not_equal(at("a")->node, first.node);
    expect_active("fresh", "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(in_restart_mode_helpers_are_members_on_top_of_the_size),
        CASE(in_restart_mode_a_lost_helper_restarts_everyone),
        CASE(one_registration_gives_a_generation_of_one),
        CASE(several_registrations_give_min_equal_max_members_in_their_order),
        CASE(a_third_waits_while_two_run_and_then_all_are_in),
        CASE(a_newcomer_counts_once_its_record_is_durable),
        CASE(nodes_with_all_their_slots_count),
        CASE(min_warm_and_max_reached_form_at_once),
        CASE(min_warm_form_when_the_join_window_is_over_and_never_later),
        CASE(warmth_after_the_window_forms_at_once),
        CASE(nothing_forms_below_min),
        CASE(a_first_member_lost_before_the_rest_has_entered_is_left_out),
        CASE(another_min_max_is_refused_naming_both),
        CASE(another_min_max_is_refused_even_before_the_job_is_durable),
        CASE(hellos_that_make_no_sense_are_refused),
        CASE(a_name_in_use_is_refused_while_its_node_is_connected),
        CASE(a_name_in_use_is_taken_over_once_its_node_has_disconnected),
        CASE(agents_of_another_store_are_refused),
        CASE(agents_of_another_store_are_newcomers_when_adopted),
        CASE(one_too_many_in_process_is_refused_and_told_why),
        CASE(in_restart_mode_there_is_no_such_limit),
        CASE(spares_wait_even_if_people_want_more_nodes),
        CASE(a_job_that_turns_out_to_be_too_large_fails_and_says_so),
        CASE(limits_are_named_when_they_refuse),
        CASE(growth_takes_the_least_loaded_host),
        CASE(a_fresh_generation_spreads_over_hosts),
        CASE(spares_beyond_max_wait_warm_and_are_taken_in_at_once_after_a_loss),
        CASE(a_newcomer_that_has_not_reached_every_member_waits),
        CASE(a_newcomer_that_was_cut_off_since_holds_no_change_up),
        CASE(helpers_neither_count_nor_are_in_a_generation),
        CASE(ps_that_arrive_do_not_put_off_the_first_generation),
        CASE(jobs_do_not_disturb_each_other),
        CASE(two_jobs_may_have_nodes_of_the_same_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
