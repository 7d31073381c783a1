/* Workers that can't reach each other although both reach the orchestrator. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <string.h>

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

static void a_pair_that_is_whole_again_loses_nobody(void **state)
{
    form("a b c");
    mutual("a", "b");
    pass(f.config.suspect_ms - 1);
    reaches_all("a");
    reaches_all("b");
    pass(f.config.suspect_ms * 4);
    expect_active("fresh", "a b c");
    assert_int_equal(job().generation, 1);
}

static void a_pair_stays_broken_until_its_workers_say_otherwise(void **state)
{
    form("a b c d");
    hold();
    exits("d", 0, 137); /* A record is on its way to a disk that is slower than a lease. */
    suspect("a", "b");
    pass(LEASE_MS * 2);
    sync_all();
    expect_generation("failure", "a c");
}

static void a_pair_is_judged_again_after_a_failed_write(void **state)
{
    form("a b c");
    hold();
    suspect("a", "b");
    pass(f.config.suspect_ms);
    for (int i = 0; i < 100; i++) { /* The disk is full, for longer than a lease. */
        assert_int_equal(f.synced_n + 1, f.journal_n);
        fail_all();
        hold();
        pass(f.config.retry_ms);
    }
    assert_int_equal(said("note leftout"), 0); /* It is not, yet. */
    forget();
    sync_all();
    expect_generation("failure", "a c");
    assert_int_equal(said("note leftout"), 1);
    expect_order("note leftout", "note generation");
}

static void a_pair_outlives_the_orchestrator(void **state)
{
    form("a b c");
    silence("a b c");
    closed("a");
    closed("b");
    closed("c");
    at("a")->reports[0].apart_in = 1;
    at("a")->reports[0].apart_n = 1;
    at("a")->reports[0].apart[0].peer = wid_make(at("b")->node, 0, 1);
    restart();
    hello("a");
    hello("b");
    hello("c");
    pass(f.config.suspect_ms);
    expect_generation("failure", "a c");
}

static void a_planned_generation_that_nobody_has_entered_is_no_answer(void **state)
{
    form("a b");
    join("c");
    expect_generation("boundary", "a b c+");
    at("b")->held = 1;
    suspect("b", "a"); /* in generation 1, whose last step they need each other for */
    suspect("b", "a");
    pass(f.config.suspect_ms);
    expect_generation("failure", "a");
}

static void strangers_and_oneself_cannot_be_suspected(void **state)
{
    struct report *r;

    form("a b");
    join("c");
    r = &at("a")->reports[0];
    r->apart_in = 1;
    r->apart_n = 4;
    r->apart[0].peer = wid_make(at("a")->node, 0, 1);
    r->apart[1].peer = wid_make(99, 0, 1);
    r->apart[2].peer = wid_make(at("b")->node, 77, 1);
    r->apart[3].peer = wid_make(at("b")->node, 0, 2);
    resend("a");
    pass(f.config.suspect_ms * 2);
    settle();
    expect_active("boundary", "a b c+");
}

static void one_who_is_no_member_is_not_believed(void **state)
{
    form("a b");
    at("c")->spare = true;
    hello("c");
    at("c")->held = 1;
    suspect("c", "a");
    suspect("c", "b");
    pass(f.config.suspect_ms * 2);
    expect_active("fresh", "a b");
    assert_int_equal(job().generation, 1);
}

static bool is_in(const struct generation *g, wid w)
{
    for (uint32_t i = 0; i < g->members_n; i++) {
        if (g->members[i].worker == w) {
            return true;
        }
    }
    return false;
}

/* Every slot of every node can't reach eight others: twice as many pairs as are covered at once. */
static void however_many_pairs_are_broken_none_stays_together(void **state)
{
    enum { NODES = 16, SLOTS = 4 };
    char names[NODES * 4] = "";
    struct generation g;

    f.slots = SLOTS;
    shape(1, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%c ", (char)('a' + i));
    }
    form(names);
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t s = 0; s < SLOTS; s++) {
            struct report *r = &f.stubs[i].reports[s];

            r->apart_in = 1;
            for (uint32_t k = 0; k < APART_MAX; k++) {
                uint32_t peer = (i + 1 + k) % NODES;

                r->apart[r->apart_n++].peer = wid_make(f.stubs[peer].node, s, 1);
            }
        }
        resend(f.stubs[i].name);
    }
    pass(f.config.suspect_ms);
    assert_int_equal(cluster_generation(f.c, f.job, &g), MU_OK);
    assert_true(g.number == 2 && g.members_n >= SLOTS);
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t s = 0; s < SLOTS; s++) {
            const struct report *r = &f.stubs[i].reports[s];

            for (uint32_t k = 0; k < r->apart_n; k++) {
                assert_false(is_in(&g, wid_make(f.stubs[i].node, s, 1)) &&
                             is_in(&g, r->apart[k].peer));
            }
        }
    }
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

/* c and d wait for two that can't reach each other. Those were members when all died. */
static void a_dead_life_in_the_lineage_keeps_nobody(void **state)
{
    shape(1, 4);
    form("a b");
    hello("c");
    hello("d");
    exits("a", 0, 137);
    exits("b", 0, 137);
    next_life("a", 0);
    next_life("b", 0);
    warm("a b c d");
    pass(f.config.join_window_ms);
    expect_generation("fresh", "a#2 b#2 c d");
    mutual("a", "b");
    suspect_idle("c", "a", 900);
    suspect_idle("c", "b", 900);
    suspect_idle("d", "a", 900);
    suspect_idle("d", "b", 900);
    pass(f.config.suspect_ms);
    expect_generation("fresh", "c d");
}

/* Of each pair one worker is to go, and its whole node with it: then none would be left. */
static void where_too_few_would_be_left_a_fresh_generation_takes_all(void **state)
{
    shape(2, 2);
    f.slots = 2;
    join("a b");
    expect_generation("fresh", "a a.1 b b.1");
    mutual("a", "b");
    pass(f.config.suspect_ms);
    assert_int_equal(job().generation, 1); /* The same again would change nothing. */
    exits("a", 1, 137);
    next_life("a", 1);
    warm("a");
    pass(f.config.join_window_ms);
    expect_generation("fresh", "a a.1#2 b b.1");
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
        CASE(a_pair_that_is_whole_again_loses_nobody),
        CASE(a_pair_stays_broken_until_its_workers_say_otherwise),
        CASE(a_pair_is_judged_again_after_a_failed_write),
        CASE(a_pair_outlives_the_orchestrator),
        CASE(a_planned_generation_that_nobody_has_entered_is_no_answer),
        CASE(strangers_and_oneself_cannot_be_suspected),
        CASE(one_who_is_no_member_is_not_believed),
        CASE(however_many_pairs_are_broken_none_stays_together),
        CASE(where_too_few_would_be_left_a_fresh_generation_takes_all),
        CASE(whoever_is_out_of_a_fresh_generation_stays_out),
        CASE(a_dead_life_in_the_lineage_keeps_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
