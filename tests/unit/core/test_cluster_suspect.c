/* Workers that can't reach each other although both reach the orchestrator. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>

static void suspicions_gather_for_suspect_ms(void **state)
{
    form("a b c");
    suspect("a", "b");
    pass(f.config.suspect_ms - 1);
    expect_active("fresh", "a b c");
    assert_int_equal(cluster_deadline(f.c), f.now_ms + 1);
    pass(1);
    expect_generation("failure", "a c"); /* ties go to the newest */
    enter("a c");
    pass(f.config.suspect_ms * 4);
    expect_active("failure", "a c");
    assert_int_equal(job().generation, 2);
}

static void mutual(const char *a, const char *b)
{
    suspect(a, b);
    suspect(b, a);
}

static void when_both_complain_the_newest_of_a_pair_goes(void **state)
{
    form("a b c");
    mutual("c", "b");
    pass(f.config.suspect_ms);
    expect_generation("failure", "a b");
}

static void one_that_says_nothing_goes_rather_than_those_that_noticed(void **state)
{
    form("a b c");
    suspect("b", "a"); /* a is the oldest, and silent: it has stopped. */
    suspect("c", "a");
    pass(f.config.suspect_ms);
    expect_generation("failure", "b c");
}

static void who_is_left_out_is_named_once_with_the_longest_wait(void **state)
{
    form("a b c");
    suspect_idle("b", "a", 5000);
    suspect_idle("c", "a", 5100);
    pass(f.config.suspect_ms);
    expect_generation("failure", "b c");
    assert_int_equal(said("note leftout"), 1);
    assert_int_equal(said("a did nothing for 5100"), 1);
    suspect_idle("b", "a", 6000); /* It is out already. */
    enter("b c");
    pass(f.config.suspect_ms * 4);
    assert_int_equal(said("note leftout"), 1);
}

static void one_that_complains_of_everybody_goes_alone(void **state)
{
    form("a b c d e");
    suspect("b", "a"); /* It is b that hears nobody. */
    suspect("b", "c");
    suspect("b", "d");
    suspect("b", "e");
    pass(f.config.suspect_ms);
    expect_generation("failure", "a c d e");
}

static void one_that_was_dropped_stays_out_while_others_are_judged(void **state)
{
    form("a b c d");
    mutual("d", "b");
    pass(f.config.suspect_ms / 2);
    mutual("a", "b");
    mutual("b", "c");
    pass(f.config.suspect_ms / 2);
    expect_generation("failure", "a b c"); /* Only d–b is ripe; it goes to the newest … */
    pass(f.config.suspect_ms);
    expect_generation("failure", "a c"); /* … and does not come back when b goes. */
    assert_int_equal(job().generation, 3);
}

static void broken_pairs_that_ripen_together_have_the_smallest_cover(void **state)
{
    form("a b c d e");
    mutual("a", "b");
    mutual("b", "c");
    mutual("d", "b");
    mutual("e", "b");
    pass(f.config.suspect_ms);
    expect_generation("failure", "a c d e");
}

static void separate_pairs_lose_their_newest_in_one_generation(void **state)
{
    form("a b c d e");
    mutual("c", "a");
    mutual("d", "b");
    pass(f.config.suspect_ms);
    expect_generation("failure", "a b e");
}

static void of_two_smallest_covers_the_newer_workers_go(void **state)
{
    form("a b c d");
    suspect("a", "b"); /* a ring: {a, c} and {b, d} both cover it */
    suspect("b", "c");
    suspect("c", "d");
    suspect("d", "a");
    pass(f.config.suspect_ms);
    expect_generation("failure", "a c");
}

static void many_broken_pairs_are_covered_too(void **state)
{
    form("a b c d e f g h i j k l m n");
    suspect("a", "h");
    suspect("b", "i");
    suspect("c", "j");
    suspect("d", "k");
    suspect("e", "l");
    suspect("f", "m");
    suspect("g", "n");
    pass(f.config.suspect_ms);
    expect_generation("failure", "a b c d e f g");
}

static void newcomers_go_before_members_of_the_active_generation(void **state)
{
    form("b c");
    closed("b");
    rejoin("b"); /* Now b is the newest … */
    settle();
    expect_active("failure", "c");
    join("d b");
    expect_generation("boundary", "c d+");
    suspect("c", "d");
    pass(f.config.suspect_ms);
    expect_generation("failure", "c");
}

static void a_pair_with_a_dead_end_explains_nothing(void **state)
{
    form("a b c");
    suspect("b", "a");
    suspect("b", "c");
    exits("b", 0, 137);
    expect_generation("failure", "a c");
    settle();
    forget();
    pass(f.config.suspect_ms * 4);
    expect_active("failure", "a c");
    assert_int_equal(said_like("record"), 0);
}

static void suspicions_of_an_older_generation_are_about_the_past(void **state)
{
    form("a b c d");
    exits("d", 0, 137);
    settle();
    at("a")->held = 1;
    suspect("a", "b");
    pass(f.config.suspect_ms * 2);
    expect_active("failure", "a b c");
}

static void a_pair_that_nobody_complained_of_for_a_lease_has_healed(void **state)
{
    form("a b c d");
    hold();
    exits("d", 0, 137); /* A record is on its way to a slow disk. */
    suspect("a", "b");
    pass(LEASE_MS);
    sync_all();
    settle();
    expect_active("failure", "a b c");
}

static void nobody_can_complain_in_the_name_of_another(void **state)
{
    struct msg_suspect m = {.generation = 1};

    form("a b c");
    m.by = wid_make(at("b")->node, 0, 1);
    m.peer = wid_make(at("c")->node, 0, 1);
    kit_step(&(struct event){.kind = EVENT_SUSPECT, .conn = at("a")->conn, .u.suspect = &m});
    assert_int_equal(f.rc, MU_EPROTO);
    pass(f.config.suspect_ms * 2);
    expect_active("fresh", "a b c");
}

static void strangers_and_oneself_cannot_be_suspected(void **state)
{
    struct msg_suspect m = {.generation = 1};

    form("a b");
    join("c");
    m.by = m.peer = wid_make(at("a")->node, 0, 1);
    kit_step(&(struct event){.kind = EVENT_SUSPECT, .conn = at("a")->conn, .u.suspect = &m});
    m.peer = wid_make(99, 0, 1);
    kit_step(&(struct event){.kind = EVENT_SUSPECT, .conn = at("a")->conn, .u.suspect = &m});
    m.peer = wid_make(at("b")->node, 77, 1);
    kit_step(&(struct event){.kind = EVENT_SUSPECT, .conn = at("a")->conn, .u.suspect = &m});
    m.peer = wid_make(at("b")->node, 0, 2);
    kit_step(&(struct event){.kind = EVENT_SUSPECT, .conn = at("a")->conn, .u.suspect = &m});
    pass(f.config.suspect_ms * 2);
    settle();
    expect_active("boundary", "a b c+");
}

static void whoever_is_out_of_a_fresh_generation_stays_out(void **state)
{
    shape(1, 4);
    join("a b c d");
    expect_generation("fresh", "a b c d");
    mutual("c", "b");
    pass(f.config.suspect_ms);
    expect_generation("fresh", "a b d");
    mutual("d", "b");
    pass(f.config.suspect_ms);
    expect_generation("fresh", "a b"); /* c has not become better by d's going */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(suspicions_gather_for_suspect_ms),
        CASE(when_both_complain_the_newest_of_a_pair_goes),
        CASE(one_that_says_nothing_goes_rather_than_those_that_noticed),
        CASE(who_is_left_out_is_named_once_with_the_longest_wait),
        CASE(one_that_complains_of_everybody_goes_alone),
        CASE(one_that_was_dropped_stays_out_while_others_are_judged),
        CASE(broken_pairs_that_ripen_together_have_the_smallest_cover),
        CASE(separate_pairs_lose_their_newest_in_one_generation),
        CASE(of_two_smallest_covers_the_newer_workers_go),
        CASE(many_broken_pairs_are_covered_too),
        CASE(newcomers_go_before_members_of_the_active_generation),
        CASE(a_pair_with_a_dead_end_explains_nothing),
        CASE(suspicions_of_an_older_generation_are_about_the_past),
        CASE(a_pair_that_nobody_complained_of_for_a_lease_has_healed),
        CASE(nobody_can_complain_in_the_name_of_another),
        CASE(strangers_and_oneself_cannot_be_suspected),
        CASE(whoever_is_out_of_a_fresh_generation_stays_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
