/* Values by tag at the limits of their memory: a clear refusal, and nothing lost that waits. */
#include "unit/core/sync_kit.h"

#include <string.h>

static struct sync_kit kit;

#define W sync_worker
#define put(...) sync_kit_put(f, __VA_ARGS__)
#define expect(text) sync_kit_expect(f, text)

static struct sync_kit *open_with(struct sync_config config)
{
    sync_kit_open(&kit, &config);
    return &kit;
}

static const struct sync_config roomy = {
    .jobs_max = 2, .rounds_max = 8, .values_max = 32, .bytes_max = 16384, .keep_ms = 60000};

static void limits_of_nothing_are_refused(void **state)
{
    struct sync *s = NULL;

    for (int i = 0; i < 4; i++) {
        struct sync_config config = roomy;

        *(i == 0   ? &config.jobs_max
          : i == 1 ? &config.rounds_max
          : i == 2 ? &config.values_max
                   : &config.bytes_max) = 0;
        assert_int_equal(sync_init(&config, &s), MU_EINVAL);
    }
    assert_null(s);
    sync_close(NULL);
}

static void defaults_hold_the_largest_job(void **state)
{
    struct sync_config config = sync_defaults();

    assert_true(config.values_max >= MEMBERS_MAX);
    assert_true(config.bytes_max >= MEMBERS_MAX * 100u);
    assert_int_equal(config.keep_ms, 60000);
}

static void too_many_tags_are_refused(void **state)
{
    struct sync_config config = roomy;
    struct sync_kit *f;

    config.rounds_max = 2;
    f = open_with(config);
    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 1000, "a", "");
    put(W(1), 2, 1000, "b", "");
    expect("");
    put(W(1), 3, 1000, "c", "");
    expect("c1 r3 -6 2 tags wait at the orchestrator for somebody: there is no room for one more");
    put(W(2), 1, 1000, "a", "");
    f->answers_n = 0;
    put(W(1), 4, 1000, "c", ""); /* A complete round makes room. */
    expect("");
    assert_int_equal(sync_counts(f->s).kept_n, 0);
    sync_kit_close(f);
}

static void too_many_values_are_refused(void **state)
{
    struct sync_config config = roomy;
    struct sync_kit *f;

    config.values_max = 3;
    f = open_with(config);
    assert_int_equal(sync_kit_generation(f, 1, "1 2 3"), MU_OK);
    put(W(1), 1, 1000, "a", "x");
    put(W(2), 1, 1000, "b", "x");
    put(W(3), 1, 1000, "c", "x");
    put(W(1), 2, 1000, "d", "x");
    expect("c1 r2 -6 3 values wait at the orchestrator for others: there is no room for one more");
    assert_int_equal(sync_counts(f->s).open_n, 3);
    put(W(1), 2, 1000, "c", "x");
    f->answers_n = 0;
    sync_kit_wait(f, 1000);
    assert_int_equal(f->answers_n, 3);
    assert_int_equal(sync_counts(f->s).values_n, 0);
    sync_kit_close(f);
}

static void too_many_bytes_are_refused(void **state)
{
    struct sync_config config = roomy;
    struct sync_kit *f;

    config.bytes_max = 2 * 80 + 64; /* a list of two members, and a little */
    f = open_with(config);
    assert_int_equal(sync_kit_generation(f, 1, "1 2"), MU_OK);
    put(W(1), 1, 1000, "a", "0123456789012345678901234567890123456789");
    put(W(2), 1, 1000, "b", "0123456789012345678901234567890123456789");
    expect("c2 r1 -6 values that wait at the orchestrator may take 224 bytes together: there is no "
           "room for 40 more");
    assert_int_equal(sync_counts(f->s).open_n, 1);
    put(W(2), 2, 1000, "a", "x"); /* This one is remembered … */
    f->answers_n = 0;
    put(W(2), 3, 1000, "b", "0123456789012345678901234567890123456789"); /* … until now. */
    expect("");
    assert_int_equal(sync_counts(f->s).kept_n, 0);
    sync_kit_close(f);
}

static void a_job_with_too_many_members_is_refused_until_it_has_fewer(void **state)
{
    struct sync_config config = roomy;
    struct sync_kit *f;

    config.values_max = 3;
    f = open_with(config);
    sync_kit_generation(f, 1, "1 2");
    put(W(1), 1, 1000, "a", "x");
    assert_int_equal(sync_kit_generation(f, 2, "1 2 3 4"), MU_ELIMIT);
    put(W(2), 1, 1000, "a", "x");
    expect("c2 r1 -6 job job has too many members for values by tag");
    assert_int_equal(sync_kit_generation(f, 2, "1 2 3 4"), MU_ELIMIT);
    assert_int_equal(sync_kit_generation(f, 3, "1 3"), MU_OK);
    put(W(3), 1, 1000, "a", "y");
    expect("c1 r1 ok 0/2 n1=x; c1 r1 ok 1/2 n3=y; c3 r1 ok 0/2 n1=x; c3 r1 ok 1/2 n3=y");
    sync_kit_close(f);
}

static void too_many_jobs_are_refused_but_ended_ones_make_room(void **state)
{
    struct sync_config config = roomy;
    struct msg_sync m = {.worker = W(9), .request = 1, .wait_ms = 1000, .tag = "t"};
    struct sync_kit *f;

    config.jobs_max = 1;
    f = open_with(config);
    sync_kit_generation(f, 1, "1 2");
    sync_put(f->s, f->now_ms, 9, "other", &m, &f->fx);
    expect("c9 r1 -6 there are 1 jobs already");
    sync_ended(f->s, f->now_ms, "other", &f->fx);
    put(W(1), 1, 1000, "a", "x");
    sync_ended(f->s, f->now_ms, "job", &f->fx);
    expect("c1 r1 -17 the run of job job has ended");
    sync_put(f->s, f->now_ms, 9, "other", &m, &f->fx);
    expect("");
    assert_int_equal(sync_counts(f->s).values_n, 1);
    sync_kit_close(f);
}

/* Whoever is no member yet goes on waiting when the others' round is complete, in a round that
 * there may be no room for. */
static void one_that_waits_beyond_a_round_may_find_no_room(void **state)
{
    struct sync_config config = roomy;
    struct sync_kit *f;

    config.rounds_max = 1;
    f = open_with(config);
    sync_kit_generation(f, 1, "1");
    put(W(2), 1, 1000, "a", "x");
    put(W(1), 1, 1000, "a", "y");
    expect("c2 r1 -6 1 tags wait at the orchestrator for somebody: there is no room for one more; "
           "c1 r1 ok 0/1 n1=y");
    assert_int_equal(sync_counts(f->s).values_n, 1);
    sync_kit_close(f);
}

/* After everything is over nothing is left. */
static void all_memory_comes_back(void **state)
{
    struct sync_kit *f = open_with(roomy);

    for (uint64_t i = 1; i <= 50; i++) {
        sync_kit_generation(f, i, i % 2 == 0 ? "1 2 3" : "3 1");
        put(W(1), i, 1000, "a", "one");
        put(W(2), i, 100, "a", "two");
        put(W(3), i, 1000, i % 5 == 0 ? "b" : "a", "three");
        sync_kit_wait(f, 50);
        f->answers_n = 0;
    }
    sync_kit_wait(f, 100000);
    sync_ended(f->s, f->now_ms, "job", &f->fx);
    assert_int_equal(sync_counts(f->s).values_n, 0);
    assert_int_equal(sync_counts(f->s).open_n, 0);
    assert_int_equal(sync_counts(f->s).kept_n, 0);
    assert_int_equal(sync_counts(f->s).bytes_n, 0);
    assert_true(sync_deadline(f->s) == UINT64_MAX);
    sync_kit_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_of_nothing_are_refused),
        cmocka_unit_test(defaults_hold_the_largest_job),
        cmocka_unit_test(too_many_tags_are_refused),
        cmocka_unit_test(too_many_values_are_refused),
        cmocka_unit_test(too_many_bytes_are_refused),
        cmocka_unit_test(a_job_with_too_many_members_is_refused_until_it_has_fewer),
        cmocka_unit_test(too_many_jobs_are_refused_but_ended_ones_make_room),
        cmocka_unit_test(one_that_waits_beyond_a_round_may_find_no_room),
        cmocka_unit_test(all_memory_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
