/* What people want of a job: settings that mean something to the cluster. */
#include "unit/core/cluster_kit.h"

#include <string.h>

static void refused_because(const char *key, const char *value, const char *text)
{
    uint32_t before = said_like("record");

    assert_int_equal(setting(key, value), MU_EINVAL);
    if (strstr(f.why, text) == NULL) {
        fail_msg("%s=%s: '%s' does not say '%s'", key, value, f.why, text);
    }
    assert_int_equal(said_like("record"), before);
}

/* Its first worker is that far, and says so. */
static void stepped(const char *name, uint64_t step)
{
    at(name)->reports[0].step = step;
    resend(name);
}

/* ---- names ---- */

static void names_are_waited_for(void **state)
{
    form("a b");
    want_nodes("b c");
    settle();
    expect_active("boundary", "b");
    join("d c");
    settle();
    expect_active("boundary", "b c+");
}

static void a_node_that_was_restarted_is_still_named(void **state)
{
    form("a b c");
    want_nodes("a b");
    settle();
    bye("b");
    settle();
    rejoin("b");
    join("b");
    settle();
    expect_active("boundary", "a b+");
    expect_replays();
}

static void a_name_within_another_is_not_meant(void **state)
{
    form("a ab");
    want_nodes("ab b");
    settle();
    expect_active("boundary", "ab");
}

static void names_no_longer_given_leave_nobody_out(void **state)
{
    form("a b c");
    want_nodes("b");
    settle();
    setting("members", NULL);
    settle();
    expect_active("boundary", "b a#2+ c#2+");
}

/* ---- min and max ---- */

static void sizes_are_held_against_nnodes_until_min_and_max_are_set(void **state)
{
    shape(2, 4);
    form("a b c d");
    refused_because("size", "5", "from 2 to 4");
    refused_because("size", "1", "from 2 to 4");
    refused_because("schedule", "2:10,5", "size 5");
    refused_because("min", "5", "min 5 and max 4");
    assert_int_equal(setting("min", "1"), MU_OK);
    assert_int_equal(setting("size", "1"), MU_OK);
    settle();
    expect_active("boundary", "a");
    refused_because("min", "2", "size would be 1");
    refused_because("min", NULL, "size 1");
    assert_int_equal(setting("max", "5"), MU_OK);
    assert_int_equal(setting("size", "5"), MU_OK);
    join("e f");
    settle();
    assert_int_equal(job().members_n, 5);
    expect_replays();
}

static void below_a_min_that_people_set_the_job_holds(void **state)
{
    shape(1, 4);
    form("a b");
    setting("min", "3");
    settle();
    assert_true((job().flags & GENERATION_HOLD) != 0);
    join("c");
    settle();
    assert_true((job().flags & GENERATION_HOLD) == 0);
}

static void nodes_still_come_with_the_nnodes_of_their_job(void **state)
{
    shape(1, 2);
    form("a b");
    setting("max", "3");
    join("c");
    settle();
    expect_active("boundary", "a b c+");
    assert_int_equal(at("c")->refused, 0);
}

/* ---- schedules ---- */

static void a_schedule_changes_the_size_at_its_steps(void **state)
{
    static const struct {
        uint64_t step;
        uint32_t nodes_n;
    } SEEN[] = {{0, 2}, {9, 2}, {10, 3}, {19, 3}, {20, 4}, {39, 4}, {40, 1}, {100, 1}};

    setting("schedule", "2");
    assert_int_equal(f.rc, MU_ENOENT); /* before there is a job */
    form("a b c d");
    assert_int_equal(setting("schedule", "2:10,3:10,4:20,1"), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(SEEN); i++) {
        stepped("a", SEEN[i].step);
        settle();
        assert_int_equal(job().members_n, SEEN[i].nodes_n);
    }
}

static void of_schedule_and_size_the_younger_rules(void **state)
{
    form("a b c d");
    setting("schedule", "2:10,3");
    settle();
    assert_int_equal(job().members_n, 2);
    setting("size", "4");
    settle();
    assert_int_equal(job().members_n, 4);
    setting("schedule", "3");
    settle();
    assert_int_equal(job().members_n, 3);
    setting("schedule", NULL);
    settle();
    assert_int_equal(job().members_n, 4);
}

static void a_new_orchestrator_changes_no_size_before_it_knows_the_step(void **state)
{
    uint64_t before;

    form("a b c d");
    setting("schedule", "1:10,3");
    stepped("a", 10);
    settle();
    assert_int_equal(job().members_n, 3);
    before = job().generation;
    restart_from_snapshot();
    hello("d"); /* It knows of no step. */
    settle();
    assert_int_equal(job().members_n, 3);
    hello("a");
    hello("b");
    hello("c");
    settle();
    assert_int_equal(job().members_n, 3);
    assert_int_equal(job().generation, before);
}

static void a_new_orchestrator_does_not_take_the_step_of_a_member_that_is_behind(void **state)
{
    uint64_t before;

    form("a b c d");
    setting("schedule", "1:10,3:10,2");
    stepped("b", 9);
    stepped("a", 10);
    settle();
    before = job().generation;
    restart_from_snapshot();
    hello("b"); /* It was told of three, and is not yet there itself. */
    settle();
    hello("c");
    settle();
    assert_int_equal(job().generation, before);
    hello("a");
    settle();
    assert_int_equal(job().generation, before);
    stepped("a", 20);
    settle();
    assert_int_equal(job().members_n, 2);
}

/* ---- the settings themselves ---- */

static void one_change_is_on_its_way_at_a_time(void **state)
{
    form("a b");
    hold();
    assert_int_equal(setting("lr", "0.1"), MU_OK);
    assert_int_equal(setting("lr", "0.2"), MU_EAGAIN);
    sync_all();
    assert_int_equal(setting("lr", "0.2"), MU_OK);
    assert_int_equal(cluster_settings(f.c, "job")->version, 2);
    assert_null(cluster_settings(f.c, "nobody"));
}

static void a_change_that_could_not_be_written_never_was(void **state)
{
    form("a b");
    hold();
    setting("size", "1");
    fail_all();
    sync_all();
    settle();
    assert_int_equal(job().members_n, 2);
    assert_int_equal(cluster_settings(f.c, "job")->version, 0);
    assert_int_equal(setting("size", "1"), MU_OK);
    settle();
    assert_int_equal(job().members_n, 1);
}

static void other_settings_change_nobody(void **state)
{
    form("a b");
    forget();
    setting("lr", "0.1");
    assert_int_equal(said("record lr 0.1"), 1);
    assert_int_equal(said_like("note"), 0);
    assert_int_equal(said_like("record generation"), 0);
}

static void another_run_keeps_the_settings_but_not_the_wishes(void **state)
{
    struct rec_config r;

    shape(1, 2);
    form("a b");
    setting("lr", "0.1");
    setting("size", "1");
    setting("paused", "true");
    settle();
    admin(ADMIN_SHUTDOWN, "");
    bye("a");
    bye("b");
    rejoin("a");
    rejoin("b");
    join("a b");
    settle();
    assert_int_equal(job().run, 2);
    assert_int_equal(job().members_n, 2);
    assert_true((job().flags & GENERATION_HOLD) == 0);
    assert_int_equal(config_get(cluster_settings(f.c, "job"), "lr", &r), MU_OK);
    assert_int_equal(config_get(cluster_settings(f.c, "job"), "size", &r), MU_ENOENT);
    assert_int_equal(cluster_settings(f.c, "job")->version, 5);
    expect_replays();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(names_are_waited_for),
        CASE(a_node_that_was_restarted_is_still_named),
        CASE(a_name_within_another_is_not_meant),
        CASE(names_no_longer_given_leave_nobody_out),
        CASE(sizes_are_held_against_nnodes_until_min_and_max_are_set),
        CASE(below_a_min_that_people_set_the_job_holds),
        CASE(nodes_still_come_with_the_nnodes_of_their_job),
        CASE(a_schedule_changes_the_size_at_its_steps),
        CASE(of_schedule_and_size_the_younger_rules),
        CASE(a_new_orchestrator_changes_no_size_before_it_knows_the_step),
        CASE(a_new_orchestrator_does_not_take_the_step_of_a_member_that_is_behind),
        CASE(one_change_is_on_its_way_at_a_time),
        CASE(a_change_that_could_not_be_written_never_was),
        CASE(other_settings_change_nobody),
        CASE(another_run_keeps_the_settings_but_not_the_wishes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
