/* Values by tag: what callers can rely on. (test_core_sync_model.c compares with a model.) */
#include "unit/core/sync_kit.h"

#include <stdio.h>
#include <string.h>

static struct sync_kit kit;

static int set_up(void **state)
{
    sync_kit_open(&kit, NULL);
    *state = &kit;
    return 0;
}

static int tear_down(void **state)
{
    sync_kit_close(*state);
    return 0;
}

#define W sync_worker
#define put(...) sync_kit_put(f, __VA_ARGS__)
#define expect(text) sync_kit_expect(f, text)

static void everyone_gets_everyones_value_in_order_of_rank(void **state)
{
    struct sync_kit *f = *state;

    assert_int_equal(sync_kit_generation(f, 7, "3 1 2"), MU_OK);
    put(W(1), 11, 1000, "names", "one");
    put(W(2), 22, 1000, "names", "two");
    expect("");
    put(W(3), 33, 1000, "names", "three");
    assert_int_equal(f->answers_n, 9);
    for (uint32_t i = 0; i < 9; i++) {
        static const char *const addrs[] = {"h3:1", "h1:1", "h2:1"};
        const struct msg_synced *m = &f->answers[i].m;

        assert_int_equal(m->generation, 7);
        assert_string_equal(m->addr, addrs[i % 3]);
        assert_true(m->worker == W(f->answers[i].conn));
    }
    expect("c3 r33 ok 0/3 n3=three; c3 r33 ok 1/3 n1=one; c3 r33 ok 2/3 n2=two; "
           "c1 r11 ok 0/3 n3=three; c1 r11 ok 1/3 n1=one; c1 r11 ok 2/3 n2=two; "
           "c2 r22 ok 0/3 n3=three; c2 r22 ok 1/3 n1=one; c2 r22 ok 2/3 n2=two");
}

static void one_that_is_late_is_named_to_those_whose_time_is_over(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 7, "1 2 3 4");
    put(W(1), 1, 1000, "names", "a");
    put(W(3), 1, 1000, "names", "c");
    put(W(4), 1, 2000, "names", "d");
    sync_kit_wait(f, 999);
    expect("");
    sync_kit_wait(f, 1);
    expect("c1 r1 -14 3 of 4 are here; missing: n2.0#1 (h2:1); "
           "c3 r1 -14 3 of 4 are here; missing: n2.0#1 (h2:1)");
    put(W(2), 1, 500, "names", "b"); /* Values whose time was over are withdrawn. */
    expect("");
    sync_kit_wait(f, 500);
    expect("c2 r1 -14 2 of 4 are here, 2 gave up");
    put(W(1), 2, 1000, "names", "aa");
    put(W(2), 2, 1000, "names", "bb");
    put(W(3), 2, 1000, "names", "cc");
    assert_int_equal(f->answers_n, 16);
    assert_string_equal(f->answers[3].data, "d");
}

static void a_barrier_opens_when_the_last_has_come(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, SYNC_FOREVER, "go", "");
    sync_kit_wait(f, 1u << 30);
    expect("");
    put(W(2), 1, 0, "go", "");
    expect("c1 r1 ok 0/2 n1=; c1 r1 ok 1/2 n2=; c2 r1 ok 0/2 n1=; c2 r1 ok 1/2 n2=");
}

static void a_barrier_times_out(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 0, "go", "");
    expect("c1 r1 -14 1 of 2 are here; missing: n2.0#1 (h2:1)");
    assert_int_equal(sync_counts(f->s).values_n, 0);
    assert_int_equal(sync_counts(f->s).open_n, 0);
}

static void after_the_end_every_call_says_so(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 1000, "done", "x");
    put(W(2), 1, 1000, "done", "y");
    f->answers_n = 0;
    put(W(1), 2, 1000, "a", "x");
    put(W(2), 3, 1000, "b", "x");
    sync_ended(f->s, f->now_ms, "job", &f->fx);
    expect("c2 r3 -17 the run of job job has ended; c1 r2 -17 the run of job job has ended");
    put(W(1), 5, 1000, "a", "x");
    sync_kit_generation(f, 1, "1 2"); /* Said again: nothing new. */
    put(W(2), 4, 1000, "a", "x");
    expect("c1 r5 -17 the run of job job has ended; c2 r4 -17 the run of job job has ended");
    put(W(1), 1, 1000, "done", "x"); /* Its answer was lost on the way. */
    expect("c1 r1 ok 0/2 n1=x; c1 r1 ok 1/2 n2=y");
    sync_kit_generation(f, 2, "3"); /* The next run. */
    put(W(3), 1, 1000, "a", "z");
    expect("c3 r1 ok 0/1 n3=z");
}

static void one_that_gave_up_has_had_its_answer(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2 3");
    put(W(2), 1, 1000, "a", "y");
    put(W(1), 1, 0, "a", "x");
    expect("c1 r1 -14 2 of 3 are here; missing: n3.0#1 (h3:1)");
    sync_ended(f->s, f->now_ms, "job", &f->fx);
    expect("c2 r1 -17 the run of job job has ended");
}

static void who_is_lost_is_no_longer_waited_for(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2 3");
    put(W(1), 1, 1000, "go", "a");
    put(W(3), 1, 1000, "go", "c");
    sync_kit_generation(f, 2, "1 3");
    expect("c1 r1 ok 0/2 n1=a; c1 r1 ok 1/2 n3=c; c3 r1 ok 0/2 n1=a; c3 r1 ok 1/2 n3=c");
}

static void the_value_of_who_is_lost_is_in_no_result(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2 3");
    put(W(2), 1, 1000, "go", "b");
    put(W(1), 1, 1000, "go", "a");
    sync_kit_generation(f, 2, "1 3");
    expect("");
    put(W(3), 1, 1000, "go", "c");
    expect("c1 r1 ok 0/2 n1=a; c1 r1 ok 1/2 n3=c; c3 r1 ok 0/2 n1=a; c3 r1 ok 1/2 n3=c");
    sync_kit_wait(f, 1000); /* It lives after all. */
    expect("c2 r1 -14 n2.0#1 is no member of generation 2, the newest of job job");
}

static void newcomers_are_waited_for(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 1000, "go", "a");
    sync_kit_generation(f, 2, "1 2 3");
    put(W(2), 1, 1000, "go", "b");
    expect("");
    put(W(3), 1, 1000, "go", "c");
    assert_int_equal(f->answers_n, 9);
}

static void one_that_is_no_member_waits_until_it_is(void **state)
{
    struct sync_kit *f = *state;

    put(W(3), 1, 5000, "go", "c"); /* Before there is a generation at all. */
    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 1000, "go", "a");
    put(W(2), 1, 1000, "go", "b");
    expect("c1 r1 ok 0/2 n1=a; c1 r1 ok 1/2 n2=b; c2 r1 ok 0/2 n1=a; c2 r1 ok 1/2 n2=b");
    put(W(1), 2, 1000, "go", "aa");
    put(W(2), 2, 9000, "go", "bb");
    f->answers_n = 0;
    put(W(2), 3, 9000, "go", "bbb");
    sync_kit_generation(f, 2, "2 3");
    expect("c2 r3 ok 0/2 n2=bbb; c2 r3 ok 1/2 n3=c; c3 r1 ok 0/2 n2=bbb; c3 r1 ok 1/2 n3=c");
}

static void without_a_generation_a_time_out_says_that(void **state)
{
    struct sync_kit *f = *state;

    put(W(3), 1, 10, "go", "c");
    sync_kit_wait(f, 10);
    expect("c3 r1 -14 job job has no generation yet: it waits for nodes");
}

static void a_repeated_request_takes_its_old_place(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 1000, "go", "a");
    put(W(1), 1, 1000, "go", "a");
    sync_closed(f->s, 1);
    sync_kit_wait(f, 900);
    put(W(1), 1, 100, "go", "a"); /* What is left of its time. */
    assert_int_equal(sync_counts(f->s).values_n, 1);
    sync_kit_wait(f, 99);
    expect("");
    sync_kit_wait(f, 1);
    expect("c1 r1 -14 1 of 2 are here; missing: n2.0#1 (h2:1)");
}

static void an_answer_that_got_lost_is_given_again(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 1000, "go", "a");
    sync_closed(f->s, 1);
    put(W(2), 1, 1000, "go", "b");
    expect("c2 r1 ok 0/2 n1=a; c2 r1 ok 1/2 n2=b"); /* Nobody is there for the other. */
    put(W(2), 2, 50000, "go", "bb");                /* The same tag again: another round. */
    sync_kit_generation(f, 2, "1 2 3");
    put(W(1), 1, 1000, "go", "a");
    expect("c1 r1 ok 0/2 n1=a; c1 r1 ok 1/2 n2=b");
    assert_int_equal(f->answers[0].m.generation, 1);
    sync_kit_wait(f, 49999);
    put(W(1), 1, 1000, "go", "a");
    expect("c1 r1 ok 0/2 n1=a; c1 r1 ok 1/2 n2=b");
    sync_kit_wait(f, 10001);
    assert_int_equal(sync_counts(f->s).kept_n, 0);
}

/* Nothing is kept: the agents repeat what was not answered. */
static void a_restart_loses_nothing_that_still_waits(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 4, "1 2");
    put(W(1), 5, 1000, "go", "a");
    sync_kit_close(f);
    sync_kit_open(f, NULL);
    put(W(1), 5, 700, "go", "a");
    sync_kit_generation(f, 4, "1 2");
    put(W(2), 9, 1000, "go", "b");
    expect("c1 r5 ok 0/2 n1=a; c1 r5 ok 1/2 n2=b; c2 r9 ok 0/2 n1=a; c2 r9 ok 1/2 n2=b");
}

static void a_worker_that_puts_again_under_a_tag_replaces_its_value(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 1000, "go", "old");
    put(W(1), 2, 1000, "go", "new");
    put(W(1), 1, 1000, "go", "old"); /* A late repetition. */
    assert_int_equal(sync_counts(f->s).values_n, 1);
    put(W(2), 1, 1000, "go", "b");
    expect("c1 r2 ok 0/2 n1=new; c1 r2 ok 1/2 n2=b; c2 r1 ok 0/2 n1=new; c2 r1 ok 1/2 n2=b");
}

static void tags_and_jobs_are_apart(void **state)
{
    struct sync_kit *f = *state;
    struct member member = {.worker = W(9)};
    struct generation other = {.job = "other", .number = 1, .members_n = 1, .members = &member};
    struct msg_sync m = {.worker = W(9), .request = 1, .wait_ms = 9, .tag = "b"};

    sync_kit_generation(f, 1, "1 2");
    assert_int_equal(sync_generation(f->s, f->now_ms, &other, &f->fx), MU_OK);
    put(W(1), 1, 1000, "a", "1");
    put(W(2), 1, 1000, "b", "2");
    sync_put(f->s, f->now_ms, 9, "other", &m, &f->fx);
    expect("c9 r1 ok 0/1 n9=");
    sync_ended(f->s, f->now_ms, "other", &f->fx);
    put(W(2), 2, 1000, "a", "3");
    expect("c1 r1 ok 0/2 n1=1; c1 r1 ok 1/2 n2=3; c2 r2 ok 0/2 n1=1; c2 r2 ok 1/2 n2=3");
}

static void another_life_of_a_worker_takes_the_place_of_the_last(void **state)
{
    struct sync_kit *f = *state;
    struct member members[] = {{.worker = W(1)}, {.worker = wid_make(2, 0, 3)}};
    struct generation g = {.job = "job", .number = 2, .members_n = 2, .members = members};

    sync_kit_generation(f, 1, "1 2");
    put(W(2), 5, 1000, "go", "b");
    put(W(2), 6, 1000, "stop", "b");
    put(wid_make(2, 0, 2), 1, 1000, "go", "b2");
    assert_int_equal(sync_counts(f->s).values_n, 1);
    assert_int_equal(sync_generation(f->s, f->now_ms, &g, &f->fx), MU_OK);
    assert_int_equal(sync_counts(f->s).values_n, 0);
    assert_int_equal(sync_counts(f->s).open_n, 0);
    put(wid_make(2, 0, 3), 1, 1000, "go", "b3");
    put(W(1), 1, 1000, "go", "a");
    expect("c1 r1 ok 0/2 n1=a; c1 r1 ok 1/2 n2=b3; c2 r1 ok 0/2 n1=a; c2 r1 ok 1/2 n2=b3");
}

static void an_older_generation_is_no_news(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 5, "1 2");
    assert_int_equal(sync_kit_generation(f, 4, "1"), MU_OK);
    put(W(1), 1, 1000, "go", "a");
    expect("");
}

static void many_who_are_missing_are_counted(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 5, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
    put(W(1), 1, 0, "go", "a");
    expect("c1 r1 -14 1 of 16 are here; missing: n2.0#1 (h2:1), n3.0#1 (h3:1), n4.0#1 (h4:1), "
           "n5.0#1 (h5:1), n6.0#1 (h6:1), n7.0#1 (h7:1), n8.0#1 (h8:1), n9.0#1 (h9:1), "
           "n10.0#1 (h10:1), n11.0#1 (h11:1), n12.0#1 (h12:1), n13.0#1 (h13:1), n14.0#1 (h14:1), "
           "and 2 more");
}

/* ---- rounds that somebody missed, after a restart that forgot all ---- */

/* As sync_kit_put() by worker `node`, with what it has the answer of. */
static void put_after(struct sync_kit *f, uint32_t node, uint64_t request, const char *data,
                      uint64_t done_generation, uint32_t done_n, uint64_t joined)
{
    struct msg_sync m = {.worker = W(node),
                         .request = request,
                         .wait_ms = 1000,
                         .tag = "go",
                         .data_n = (uint32_t)strlen(data),
                         .data = (uint8_t *)(uintptr_t)data,
                         .done_generation = done_generation,
                         .done_n = done_n,
                         .joined = joined};

    sync_put(f->s, f->now_ms, node, "job", &m, &f->fx);
}

#define MISSED                                                                         \
    "all had come, and the others have their answer; this worker's was lost with the " \
    "orchestrator"

static void rounds_of_a_tag_are_numbered_in_their_generation(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 4, "1 2");
    for (uint32_t n = 1; n <= 3; n++) {
        put_after(f, 1, n, "a", 4, n - 1, 4);
        put_after(f, 2, n, "b", 4, n - 1, 4);
        assert_int_equal(f->answers_n, 4);
        assert_true(f->answers[0].m.generation == 4 && f->answers[3].m.round == n);
        f->answers_n = 0;
    }
    sync_kit_generation(f, 5, "1 2 3");
    put_after(f, 1, 9, "a", 4, 3, 4);
    put_after(f, 2, 9, "b", 4, 3, 4);
    put_after(f, 3, 9, "c", 0, 0, 5); /* It was in none of them. */
    assert_int_equal(f->answers_n, 9);
    assert_true(f->answers[8].m.generation == 5 && f->answers[8].m.round == 1);
}

static void values_of_different_rounds_are_never_mixed(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 4, "1 2 3");
    put_after(f, 2, 7, "b of round 3", 4, 2, 4); /* Its answer was lost. */
    put_after(f, 1, 8, "a of round 4", 4, 3, 4);
    expect("c2 r7 -15 " MISSED);
    assert_true(f->answers[0].m.generation == 4 && f->answers[0].m.round == 3);
    put_after(f, 3, 8, "c of round 3", 4, 2, 4); /* In the other order. */
    expect("c3 r8 -15 " MISSED);
    put_after(f, 3, 9, "c of round 4", 4, 3, 4);
    put_after(f, 2, 8, "b of round 4", 4, 3, 4);
    assert_int_equal(f->answers_n, 9);
    assert_int_equal(f->answers[0].m.round, 4);
    assert_string_equal(f->answers[1].data, "b of round 4");
}

static void one_whose_first_answer_was_lost_is_no_newcomer(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 6, "1 2 3");
    put_after(f, 1, 8, "a", 5, 1, 4);
    put_after(f, 2, 1, "b", 0, 0, 5); /* It was a member of 5. */
    expect("c2 r1 -15 " MISSED);
    put_after(f, 3, 1, "c", 0, 0, 6); /* It was not … */
    put_after(f, 2, 2, "b", 5, 1, 5);
    assert_int_equal(f->answers_n, 9);
}

static void one_that_can_not_tell_is_believed(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 6, "1 2");
    put_after(f, 1, 8, "a", 5, 1, 4);
    put_after(f, 2, 1, "b", 0, 0, 0);
    assert_int_equal(f->answers_n, 4);
}

static void one_that_is_not_there_to_be_told_is_told_when_it_is_back(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 4, "1 2");
    put_after(f, 2, 7, "b", 4, 2, 4);
    sync_closed(f->s, 2);
    put_after(f, 1, 8, "a", 4, 3, 4);
    expect("");
    assert_int_equal(sync_counts(f->s).values_n, 1);
    put_after(f, 2, 7, "b", 4, 2, 4);
    expect("c2 r7 -15 " MISSED);
}

static void put_knowing(struct sync_kit *f, uint32_t node, const char *tag, uint64_t generation,
                        uint32_t n)
{
    struct msg_sync m = {.worker = W(node),
                         .request = 20,
                         .wait_ms = 1000,
                         .joined = 4,
                         .last_tag = "go",
                         .last_generation = generation,
                         .last_n = n};

    strcpy(m.tag, tag);
    sync_put(f->s, f->now_ms, node, "job", &m, &f->fx);
}

/* Those who have the answer are at another tag, and would wait there for the one that has not. */
static void one_that_missed_an_answer_hears_so_from_those_at_another_tag(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 4, "1 2 3");
    put_after(f, 2, 7, "b", 4, 2, 4);
    put_knowing(f, 1, "another", 4, 2); /* It is no further. */
    expect("");
    put_knowing(f, 3, "another", 4, 3);
    expect("c2 r7 -15 " MISSED);
    assert_true(f->answers[0].m.generation == 4 && f->answers[0].m.round == 3);
    put_after(f, 2, 8, "b", 4, 2, 4); /* In the other order. */
    expect("c2 r8 -15 " MISSED);
    put_after(f, 2, 9, "b", 4, 3, 4);
    expect("");
    assert_int_equal(sync_counts(f->s).values_n, 3);
}

/* Nobody has an answer: it is asked for again by all, and given. */
static void a_round_whose_answers_were_all_lost_is_done_again(void **state)
{
    struct sync_kit *f = *state;

    sync_kit_generation(f, 4, "1 2");
    put_after(f, 1, 7, "a", 4, 2, 4);
    put_after(f, 2, 7, "b", 4, 2, 4);
    expect("c1 r7 ok 0/2 n1=a; c1 r7 ok 1/2 n2=b; c2 r7 ok 0/2 n1=a; c2 r7 ok 1/2 n2=b");
    sync_kit_close(f);
    sync_kit_open(f, NULL);
    sync_kit_generation(f, 4, "1 2");
    put_after(f, 1, 7, "a", 4, 2, 4);
    put_after(f, 2, 7, "b", 4, 2, 4);
    assert_int_equal(f->answers[0].m.round, 3);
    expect("c1 r7 ok 0/2 n1=a; c1 r7 ok 1/2 n2=b; c2 r7 ok 0/2 n1=a; c2 r7 ok 1/2 n2=b");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(everyone_gets_everyones_value_in_order_of_rank),
        TEST(one_that_is_late_is_named_to_those_whose_time_is_over),
        TEST(a_barrier_opens_when_the_last_has_come),
        TEST(a_barrier_times_out),
        TEST(after_the_end_every_call_says_so),
        TEST(one_that_gave_up_has_had_its_answer),
        TEST(who_is_lost_is_no_longer_waited_for),
        TEST(the_value_of_who_is_lost_is_in_no_result),
        TEST(newcomers_are_waited_for),
        TEST(one_that_is_no_member_waits_until_it_is),
        TEST(without_a_generation_a_time_out_says_that),
        TEST(a_repeated_request_takes_its_old_place),
        TEST(an_answer_that_got_lost_is_given_again),
        TEST(a_restart_loses_nothing_that_still_waits),
        TEST(a_worker_that_puts_again_under_a_tag_replaces_its_value),
        TEST(tags_and_jobs_are_apart),
        TEST(another_life_of_a_worker_takes_the_place_of_the_last),
        TEST(an_older_generation_is_no_news),
        TEST(many_who_are_missing_are_counted),
        TEST(rounds_of_a_tag_are_numbered_in_their_generation),
        TEST(values_of_different_rounds_are_never_mixed),
        TEST(one_whose_first_answer_was_lost_is_no_newcomer),
        TEST(one_that_can_not_tell_is_believed),
        TEST(one_that_is_not_there_to_be_told_is_told_when_it_is_back),
        TEST(one_that_missed_an_answer_hears_so_from_those_at_another_tag),
        TEST(a_round_whose_answers_were_all_lost_is_done_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
