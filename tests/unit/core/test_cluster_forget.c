/* Places of jobs that are over, and of nodes that are gone, are given to others; what is
 * remembered. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A new agent of this name, of the job. While there is no room it comes again, as agents do. */
static void comes(const char *name, const char *job_name)
{
    struct stub *s = at(name);

    snprintf(s->job, sizeof(s->job), "%s", job_name);
    f.job = s->job;
    rejoin(name);
    for (int i = 0; i < 3 && s->refused == MU_EAGAIN; i++) {
        hello(name);
    }
}

static void does_it(const char *name, uint64_t step)
{
    struct stub *s = at(name);

    assert_int_equal(s->refused, 0);
    assert_false(s->ended);
    warm(name);
    pass(WINDOW_MS);
    enter(name);
    s->reports[0].step = step;
    report(name, 0, PHASE_FINISHED, s->held, s->held);
    assert_true(s->ended);
    bye(name);
}

/* A job from its beginning to its end. */
static void job_is_done(const char *name, uint64_t step)
{
    comes("a", name);
    does_it("a", step);
}

static bool is_there(const char *job_name)
{
    struct job_view v;

    return cluster_job(f.c, job_name, &v) == MU_OK;
}

/* ---- jobs ---- */

static void there_may_be_any_number_of_jobs_one_after_the_other(void **state)
{
    char name[16];

    shape(1, 1);
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "job%d", i);
        job_is_done(name, 7);
        pass(10000);
        if (i % 10 == 9) {
            restart_from_snapshot();
        }
    }
    assert_true(is_there("job49") && is_there("job48") && is_there("job47"));
    assert_false(is_there("job40"));
    f.job = "job49";
}

static void a_job_that_nodes_are_in_is_never_forgotten(void **state)
{
    f.config.jobs_max = 2;
    kit_open();
    shape(1, 1);
    comes("a", "one");
    comes("b", "two");
    comes("c", "three");
    assert_int_equal(at("c")->refused, MU_ELIMIT);
    assert_non_null(strstr(at("c")->refusal, "its 2 jobs"));
    assert_true(is_there("one") && is_there("two"));
}

static void the_one_that_ended_first_goes_and_one_that_was_only_left_last(void **state)
{
    f.config.jobs_max = 3;
    kit_open();
    shape(1, 1);
    comes("x", "left");
    bye("x");
    job_is_done("old", 7);
    pass(1000);
    job_is_done("new", 7);
    comes("b", "next");
    assert_true(is_there("left") && is_there("new") && !is_there("old"));
    comes("c", "another");
    assert_true(is_there("left") && !is_there("new"));
    comes("d", "third");
    assert_false(is_there("left"));
    assert_int_equal(at("d")->refused, 0);
}

static void nodes_that_come_together_need_one_place(void **state)
{
    char name[16];

    shape(2, 8);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "job%d", i);
        shape(1, 8);
        job_is_done(name, 7);
    }
    forget();
    hold();
    f.job = "big";
    hello("n1");
    hello("n2");
    hello("n3");
    assert_int_equal(said_like("record forgotten"), 1);
    sync_all();
    hello("n1");
    hello("n2");
    hello("n3");
    assert_int_equal(said_like("record forgotten"), 1);
    assert_int_equal(job().nodes_n, 3);
}

/* ---- what is remembered ---- */

/* "one" is done at step 7, and forgotten. */
static void forgotten(void)
{
    f.config.jobs_max = 1;
    f.config.memories_max = 4;
    kit_open();
    shape(1, 1);
    job_is_done("one", 7);
    comes("b", "two");
    assert_false(is_there("one"));
}

static void a_late_agent_of_a_job_that_was_forgotten_is_told(void **state)
{
    forgotten();
    comes("c", "one");
    assert_true(at("c")->ended);
    assert_int_equal(at("c")->ended_step, 7);
    restart_from_snapshot();
    comes("d", "one");
    assert_true(at("d")->ended);
    assert_false(is_there("one"));
    f.job = "two";
}

static void its_next_run_has_another_number_and_newer_generations(void **state)
{
    struct job_view v;

    forgotten();
    bye("b");
    restart_from_snapshot();
    at("c")->flags = NODE_RERUN;
    comes("c", "one");
    assert_int_equal(said("c: welcome 3 run 2"), 1);
    warm("c");
    pass(WINDOW_MS);
    assert_int_equal(cluster_job(f.c, "one", &v), MU_OK);
    assert_int_equal(v.generation, 2);
    enter("c");
    report("c", 0, PHASE_FINISHED, at("c")->held, at("c")->held);
    bye("c");
    comes("b", "two"); /* It is forgotten again, and remembered once. */
    comes("d", "one");
    assert_true(at("d")->ended);
    f.job = "two";
}

static void one_that_comes_long_after_runs_it_again(void **state)
{
    forgotten();
    bye("b");
    pass(f.config.linger_ms);
    comes("c", "one");
    assert_int_equal(at("c")->refused, 0);
    assert_false(at("c")->ended);
    assert_int_equal(job().run, 2);
}

static void an_agent_of_the_run_that_was_forgotten_is_told(void **state)
{
    struct msg_hello m = {
        .incarnation = 5, .min = 1, .max = 1, .slots = 1, .job = "one", .name = "z"};

    forgotten();
    bye("b");
    pass(f.config.linger_ms);
    m.store = f.config.store;
    m.run = m.node = 1;
    at("z")->conn = ++f.conns_n;
    kit_step(&(struct event){.kind = EVENT_HELLO, .conn = f.conns_n, .u.hello = &m});
    assert_true(at("z")->ended);
    f.job = "two";
}

static void the_memory_is_bounded_and_the_oldest_goes(void **state)
{
    char name[16];

    forgotten();
    does_it("b", 1);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "job%d", i);
        job_is_done(name, 7);
    }
    comes("c", "two"); /* the oldest that is still remembered */
    assert_true(at("c")->ended);
    comes("d", "one");
    assert_false(at("d")->ended);
    assert_int_equal(job().run, 1);
}

/* ---- what crosses ---- */

static void a_job_whose_end_could_not_be_written_down_is_still_there(void **state)
{
    char *before, *after;

    f.config.jobs_max = 1;
    kit_open();
    shape(1, 1);
    job_is_done("one", 7);
    before = dump_text(&f.mind);
    hold();
    f.job = "two";
    hello("b");
    assert_int_equal(at("b")->refused, MU_EAGAIN);
    fail_all();
    after = dump_text(&f.mind);
    assert_string_equal(after, before);
    free(before);
    free(after);
    sync_all();
    pass(f.config.retry_ms);
    hello("b");
    hello("b");
    assert_int_equal(at("b")->refused, 0);
}

static void a_job_that_is_being_forgotten_takes_nothing_in(void **state)
{
    f.config.jobs_max = 1;
    kit_open();
    shape(1, 1);
    job_is_done("one", 7);
    hold();
    f.job = "two";
    hello("b");
    f.job = "one";
    rejoin("a"); /* It saw the end; it will be told, as nobody knows that any more. */
    assert_int_equal(at("a")->refused, MU_EAGAIN);
    assert_int_equal(setting("lr", "1"), MU_ENOENT);
    assert_int_equal(admin(ADMIN_SHUTDOWN, ""), MU_ENOENT);
    sync_all();
    hello("b");
    hello("a");
    assert_true(at("a")->ended);
    f.job = "two";
}

/* ---- nodes ---- */

static void nodes_of_any_number_of_names_may_fail_and_leave(void **state)
{
    char name[16];

    f.config.nodes_max = 8;
    f.config.workers_max = 8;
    kit_open();
    f.max_restarts = 1;
    form("a");
    for (int i = 0; i < 25; i++) {
        snprintf(name, sizeof(name), "pod%d", i);
        comes(name, "job");
        assert_int_equal(at(name)->refused, 0);
        warm(name);
        settle();
        exits(name, 0, 1);
        settle();
        bye(name);
    }
    assert_true(said_like("record spent") == 25);
    comes("pod24", "job"); /* What the last ones have spent is known. */
    warm("pod24");
    settle();
    exits("pod24", 0, 1);
    assert_int_equal(at("pod24")->refused, MU_ELIMIT);
}

/* Another run begins, which needs the places of those that are gone. */
static void the_first_of_another_run_waits_for_a_place(void **state)
{
    f.config.nodes_max = 2;
    f.config.workers_max = 2;
    kit_open();
    f.max_restarts = 0;
    form("a b");
    exits("a", 0, 1);
    exits("b", 0, 1);
    assert_true(job().ended);
    bye("a");
    bye("b");
    comes("c", "job");
    assert_int_equal(at("c")->refused, 0);
    assert_int_equal(job().run, 2);
}

static void nodes_that_are_here_are_not_forgotten(void **state)
{
    f.config.nodes_max = 3;
    f.config.workers_max = 3;
    kit_open();
    form("a b c");
    comes("d", "job");
    assert_int_equal(at("d")->refused, MU_ELIMIT);
    expect_active("fresh", "a b c");
}

static void one_that_comes_back_when_its_tomb_is_wanted_is_in_time(void **state)
{
    f.config.nodes_max = 3;
    f.config.workers_max = 3;
    kit_open();
    f.max_restarts = 3;
    form("a b");
    exits("b", 0, 1);
    settle();
    bye("b");
    comes("c", "job");
    settle();
    hold();
    hello("d");
    assert_int_equal(at("d")->refused, MU_EAGAIN);
    fail_all(); /* The tomb of b stays … */
    hello("d"); /* … and is wanted again. */
    sync_all();
    hello("d");
    assert_int_equal(at("d")->refused, 0);
    assert_int_equal(job().nodes_n, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(there_may_be_any_number_of_jobs_one_after_the_other),
        CASE(a_job_that_nodes_are_in_is_never_forgotten),
        CASE(the_one_that_ended_first_goes_and_one_that_was_only_left_last),
        CASE(nodes_that_come_together_need_one_place),
        CASE(a_late_agent_of_a_job_that_was_forgotten_is_told),
        CASE(its_next_run_has_another_number_and_newer_generations),
        CASE(one_that_comes_long_after_runs_it_again),
        CASE(an_agent_of_the_run_that_was_forgotten_is_told),
        CASE(the_memory_is_bounded_and_the_oldest_goes),
        CASE(a_job_whose_end_could_not_be_written_down_is_still_there),
        CASE(a_job_that_is_being_forgotten_takes_nothing_in),
        CASE(nodes_of_any_number_of_names_may_fail_and_leave),
        CASE(the_first_of_another_run_waits_for_a_place),
        CASE(nodes_that_are_here_are_not_forgotten),
        CASE(one_that_comes_back_when_its_tomb_is_wanted_is_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
