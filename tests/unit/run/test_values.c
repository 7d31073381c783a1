/* mu_sync and mu_barrier: answers, time-outs, ends, and threads. */
#include "unit/run/run_kit.h"

#include "lib/asks.h"
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake agent;
static struct msg_sync sync; /* what was asked last */
static struct asks_frame frame;

static void next_value(void)
{
    union wire_any msg;

    fake_next(&agent, WIRE_ASK, &msg);
    assert_true(asks_is_value(&msg.ask, &sync));
}

static void say_values(const struct msg_synced *m)
{
    asks_values(&frame, m);
    fake_say(&agent, WIRE_SAYS, &frame.says);
}

/* A member of generation 7 with two others: rank 1 of 3. */
static mu_run *join(void)
{
    return fake_join_world(&agent, "3 4 5");
}

/* ---- a call in a thread of its own ---- */

struct caller {
    pthread_t thread;
    mu_run *run;
    const char *tag;
    const char *data;
    int64_t timeout_ms;
    int status;
    char error[512];
    mu_values values;
};

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    c->status = mu_sync(c->run, c->tag, c->data, strlen(c->data), c->timeout_ms, &c->values);
    snprintf(c->error, sizeof(c->error), "%s", mu_error());
    return NULL;
}

static void call(struct caller *c, mu_run *run, const char *tag, const char *data,
                 int64_t timeout_ms)
{
    *c = (struct caller){.run = run, .tag = tag, .data = data, .timeout_ms = timeout_ms};
    assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

static void expect_status(struct caller *c, int status, const char *part)
{
    pthread_join(c->thread, NULL);
    assert_int_equal(c->status, status);
    fake_explains(c->error, part);
    assert_true(c->values.items == NULL); /* Outputs are set on success only. */
}

static void answer(const struct msg_sync *to, uint32_t index, uint32_t total, const char *data)
{
    struct msg_synced m = {.worker = to->worker,
                           .request = to->request,
                           .generation = 7,
                           .round = to->done_n + 1,
                           .index = index,
                           .total = total,
                           .from = wid_make(3 + index, 1, 2),
                           .data_n = (uint32_t)strlen(data),
                           .data = (uint8_t *)(uintptr_t)data};

    snprintf(m.addr, sizeof(m.addr), "127.0.0.%u:1", 3 + index);
    say_values(&m);
}

static void refuse(const struct msg_sync *to, int status, const char *text)
{
    struct msg_synced m = {.worker = to->worker, .request = to->request, .status = status};

    snprintf(m.text, sizeof(m.text), "%s", text);
    say_values(&m);
}

/* ---- answers ---- */

static void everyone_gets_everyones_value(void **state)
{
    mu_run *run = join();
    struct caller c;

    call(&c, run, "names", "me", 10000);
    next_value();
    assert_true(sync.worker == FAKE_WORKER && sync.request > 0);
    assert_true(sync.wait_ms > 0 && sync.wait_ms <= 10000);
    assert_string_equal(sync.tag, "names");
    assert_int_equal(sync.data_n, 2);
    assert_memory_equal(sync.data, "me", 2);
    answer(&sync, 0, 3, "zero");
    answer(&sync, 1, 3, "me");
    answer(&sync, 2, 3, "");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    assert_int_equal(c.values.n, 3);
    assert_true(c.values.generation == 7);
    assert_int_equal(c.values.items[0].data_n, 4);
    assert_memory_equal(c.values.items[0].data, "zero", 4);
    assert_string_equal(c.values.items[0].address, "127.0.0.3:1");
    assert_int_equal(c.values.items[2].data_n, 0);
    assert_string_equal(c.values.items[2].address, "127.0.0.5:1");
    mu_values_free(&c.values);
    fake_leave(&agent, run);
}

static void a_barrier_says_nothing_and_wants_no_values(void **state)
{
    mu_run *run = join();
    struct caller c;
    uint64_t first;

    call(&c, run, "go", "", MU_FOREVER);
    next_value();
    assert_true(sync.data_n == 0 && sync.wait_ms == UINT32_MAX);
    first = sync.request;
    for (uint32_t i = 0; i < 3; i++) {
        answer(&sync, i, 3, "");
    }
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    mu_values_free(&c.values);
    call(&c, run, "go", "", MU_FOREVER); /* The same tag again. */
    next_value();
    assert_true(sync.request > first);
    answer(&sync, 0, 1, "");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    mu_values_free(&c.values);
    fake_leave(&agent, run);
}

static void an_answer_that_broke_off_is_taken_from_its_beginning(void **state)
{
    mu_run *run = join();
    struct caller c;

    call(&c, run, "names", "me", 10000);
    next_value();
    answer(&sync, 0, 3, "a");
    answer(&sync, 1, 3, "b");
    answer(&sync, 0, 2, "c");
    answer(&sync, 1, 2, "d");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    assert_int_equal(c.values.n, 2);
    assert_memory_equal(c.values.items[0].data, "c", 1);
    assert_memory_equal(c.values.items[1].data, "d", 1);
    mu_values_free(&c.values);
    answer(&sync, 0, 2, "late"); /* Nobody waits any more. */
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_OK);
    fake_leave(&agent, run);
}

static void who_is_missing_is_passed_on(void **state)
{
    mu_run *run = join();
    struct caller c;

    call(&c, run, "names", "me", 100);
    next_value();
    answer(&sync, 0, 3, "a"); /* What has come is dropped. */
    refuse(&sync, MU_ETIMEDOUT, "2 of 3 are here; missing: n5.1#2 (h5:1)");
    expect_status(&c, MU_ETIMEDOUT, "'names': 2 of 3 are here; missing: n5.1#2 (h5:1)");
    call(&c, run, "names", "me", 100);
    next_value();
    refuse(&sync, MU_ELIMIT, "no room");
    expect_status(&c, MU_ELIMIT, "no room");
    call(&c, run, "names", "me", 100);
    next_value();
    refuse(&sync, 5, "no status at all");
    expect_status(&c, MU_EPROTO, "no status at all");
    fake_leave(&agent, run);
}

/* Neither the agent nor the orchestrator says a word. */
static void a_call_ends_even_if_nobody_answers(void **state)
{
    mu_run *run = join();
    struct caller c;

    fake_hurry(true);
    call(&c, run, "names", "me", 10);
    next_value();
    expect_status(&c, MU_ETIMEDOUT, "neither the agent");
    fake_hurry(false);
    call(&c, run, "names", "me", 10000); /* The tag is free again. */
    next_value();
    answer(&sync, 0, 1, "x");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    mu_values_free(&c.values);
    fake_leave(&agent, run);
}

static void a_worker_that_goes_on_as_another_asks_again(void **state)
{
    struct msg_life life = {.worker = wid_make(4, 1, 3), .lease_ms = 1000, .job = "mnist"};
    mu_run *run = join();
    struct caller c;
    struct msg_sync old;

    call(&c, run, "names", "me", 10000);
    next_value();
    old = sync;
    refuse(&old, MU_ESTALE, "this worker goes on as another");
    fake_say(&agent, WIRE_LIFE, &life);
    next_value();
    assert_true(sync.worker == life.worker && sync.request == old.request);
    assert_int_equal(sync.data_n, 2);
    answer(&old, 0, 1, "to the earlier life");
    answer(&sync, 0, 1, "new");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    assert_memory_equal(c.values.items[0].data, "new", 3);
    mu_values_free(&c.values);
    fake_leave(&agent, run);
}

/* ---- rounds ---- */

static void each_value_says_which_answer_came_before(void **state)
{
    mu_run *run = join();
    struct caller c;

    for (uint32_t n = 0; n < 3; n++) {
        call(&c, run, "names", "me", 10000);
        next_value();
        assert_true(sync.done_generation == (n == 0 ? 0 : 7) && sync.done_n == n);
        assert_true(sync.joined == 7);
        answer(&sync, 0, 1, "x");
        pthread_join(c.thread, NULL);
        assert_int_equal(c.status, MU_OK);
        mu_values_free(&c.values);
    }
    call(&c, run, "other", "me", 10000);
    next_value();
    assert_true(sync.done_generation == 0 && sync.done_n == 0 && sync.joined == 7);
    assert_string_equal(sync.last_tag, "names");
    assert_true(sync.last_generation == 7 && sync.last_n == 3);
    fake_leave(&agent, run);
    expect_status(&c, MU_EDONE, "");
}

static void miss(const struct msg_sync *to, uint64_t generation, uint32_t round)
{
    struct msg_synced m = {.worker = to->worker,
                           .request = to->request,
                           .status = MU_EPEER,
                           .generation = generation,
                           .round = round,
                           .text = "this worker's was lost with the orchestrator"};

    say_values(&m);
}

static void *barrier_main(void *arg)
{
    struct caller *c = arg;

    c->status = mu_barrier(c->run, c->tag, MU_FOREVER);
    return NULL;
}

/* It knows that all had come, which is all that a barrier has to say. */
static void an_answer_that_is_lost_for_ever_fails_a_sync_but_opens_a_barrier(void **state)
{
    mu_run *run = join();
    struct caller c;

    call(&c, run, "names", "me", 10000);
    next_value();
    miss(&sync, 7, 4);
    expect_status(&c, MU_EPEER, "'names': this worker's was lost with the orchestrator");
    c = (struct caller){.run = run, .tag = "names"};
    assert_int_equal(pthread_create(&c.thread, NULL, barrier_main, &c), 0);
    next_value();
    assert_true(sync.done_generation == 7 && sync.done_n == 4);
    miss(&sync, 7, 5);
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    call(&c, run, "names", "me", 10000);
    next_value();
    assert_true(sync.done_generation == 7 && sync.done_n == 5);
    fake_leave(&agent, run);
    expect_status(&c, MU_EDONE, "");
}

static void one_that_is_no_member_claims_nothing(void **state)
{
    mu_run *run = join();
    struct caller c;

    fake_generation(&agent, 8, "3 5");
    fake_told(run, 8);
    call(&c, run, "names", "me", MU_FOREVER);
    next_value();
    assert_true(sync.joined == 0);
    fake_hurry(true); /* Nobody says that the others can do without it. */
    fake_leave(&agent, run);
    expect_status(&c, MU_EDONE, "");
    fake_hurry(false);
}

static void the_tags_that_were_used_last_are_remembered(void **state)
{
    static struct marks marks;
    char tag[16];

    for (uint32_t i = 1; i <= MARKS_N; i++) {
        snprintf(tag, sizeof(tag), "t%u", i);
        marks_set(&marks, tag, 7, i);
    }
    assert_false(marks.forgot);
    marks_set(&marks, "t1", 8, 1);
    assert_false(marks.forgot);
    marks_set(&marks, "new", 9, 9);
    assert_true(marks.forgot);
    assert_null(marks_find(&marks, "t2"));
    assert_int_equal(marks_find(&marks, "t1")->generation, 8);
    assert_int_equal(marks_find(&marks, "t3")->n, 3);
    assert_int_equal(marks_find(&marks, "new")->n, 9);
    assert_null(marks_find(&marks, "never"));
}

/* ---- ends ---- */

static void the_end_of_the_run_ends_calls_that_wait(void **state)
{
    struct msg_ended ended = {.run = 1, .why = "it was shut down"};
    mu_run *run = join();
    struct caller a, b;

    call(&a, run, "a", "x", MU_FOREVER);
    next_value();
    call(&b, run, "b", "x", MU_FOREVER);
    next_value();
    fake_say(&agent, WIRE_ENDED, &ended);
    expect_status(&a, MU_EDONE, "the run has ended: it was shut down");
    expect_status(&b, MU_EDONE, "the run has ended: it was shut down");
    fake_leave(&agent, run);
}

static void an_agent_that_dies_ends_calls_that_wait(void **state)
{
    mu_run *run = join();
    struct caller c;

    call(&c, run, "a", "x", MU_FOREVER);
    next_value();
    answer(&sync, 0, 3, "a");
    fake_die(&agent);
    expect_status(&c, MU_EPEER, "the agent of this node is gone");
    fake_leave(&agent, run);
}

static void an_answer_without_sense_ends_the_connection(void **state)
{
    static const uint32_t bad[][2] = {{0, 0}, {3, 3}, {0, UINT32_MAX}, {9, 2}};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        mu_run *run = join();
        struct caller c;

        call(&c, run, "a", "x", MU_FOREVER);
        next_value();
        answer(&sync, bad[i][0], bad[i][1], "a");
        expect_status(&c, MU_EPROTO, "sent a value");
        fake_leave(&agent, run);
    }
}

static void leaving_ends_calls_of_other_threads(void **state)
{
    mu_run *run = join();
    struct caller c;

    call(&c, run, "a", "x", MU_FOREVER);
    next_value();
    fake_leave(&agent, run);
    expect_status(&c, MU_EDONE, "this worker has left the run");
}

/* Whoever gives up in the middle has not finished: the job is not to end for that. */
static void giving_up_ends_calls_and_says_nothing_of_an_end(void **state)
{
    mu_run *run = join();
    struct caller c;

    call(&c, run, "a", "x", MU_FOREVER);
    next_value();
    assert_int_equal(mu_stop(run), MU_OK);
    expect_status(&c, MU_EDONE, "given up");
    assert_int_equal(mu_barrier(run, "b", MU_FOREVER), MU_EDONE);
    assert_int_equal(mu_regroup(run, MU_FOREVER), MU_EDONE);
    assert_int_equal(mu_stop(run), MU_OK);
    fake_end_begin(&agent);
    assert_int_equal(mu_leave(run), MU_OK);
    fake_end_join(&agent);
    assert_int_not_equal(agent.last.phase, PHASE_FINISHED);
    fake_close(&agent);
}

/* ---- limits and threads ---- */

static void what_can_not_be_sent_is_refused(void **state)
{
    static uint8_t large[MU_VALUE_MAX + 1];
    char tag[MU_TAG_MAX + 1];
    mu_run *run = join();
    struct caller c;

    memset(tag, 't', sizeof(tag) - 1);
    tag[MU_TAG_MAX] = '\0';
    assert_int_equal(mu_barrier(run, tag, 0), MU_EINVAL);
    assert_int_equal(mu_barrier(run, "", 0), MU_EINVAL);
    assert_int_equal(mu_barrier(run, NULL, 0), MU_EINVAL);
    assert_int_equal(mu_barrier(run, "two\nlines", 0), MU_EINVAL);
    assert_int_equal(mu_barrier(run, "\xff", 0), MU_EINVAL);
    assert_int_equal(mu_sync(run, "t", large, sizeof(large), 0, NULL), MU_ELIMIT);
    assert_int_equal(mu_sync(run, "t", NULL, 1, 0, NULL), MU_EINVAL);
    tag[MU_TAG_MAX - 1] = '\0';
    call(&c, run, tag, "x", MU_FOREVER); /* Nothing of the above was sent. */
    next_value();
    assert_string_equal(sync.tag, tag);
    assert_int_equal(mu_barrier(run, tag, 0), MU_EBUSY);
    answer(&sync, 0, 1, "x");
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    mu_values_free(&c.values);
    fake_leave(&agent, run);
}

static void the_largest_value_passes_both_ways(void **state)
{
    static uint8_t large[MU_VALUE_MAX];
    mu_run *run = join();
    struct msg_synced m = {.generation = 7, .total = 1, .data_n = MU_VALUE_MAX, .data = large};
    struct caller c;

    call(&c, run, "a", "x", MU_FOREVER);
    next_value();
    memset(large, 0xa5, sizeof(large));
    m.worker = sync.worker;
    m.request = sync.request;
    say_values(&m);
    pthread_join(c.thread, NULL);
    assert_int_equal(c.status, MU_OK);
    assert_int_equal(c.values.items[0].data_n, MU_VALUE_MAX);
    assert_memory_equal(c.values.items[0].data, large, MU_VALUE_MAX);
    mu_values_free(&c.values);
    fake_leave(&agent, run);
}

/* Every caller gets the answer to its own request, whatever their order. */
static void many_threads_may_wait_at_once(void **state)
{
    enum { THREADS = 16 };
    static char tags[THREADS][8];
    struct caller c[THREADS];
    struct msg_sync got[THREADS];
    mu_run *run = join();
    mu_world_info world;

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < THREADS; i++) {
            snprintf(tags[i], sizeof(tags[i]), "t%d", i);
            call(&c[i], run, tags[i], tags[i], 20000);
        }
        for (int i = 0; i < THREADS; i++) {
            next_value();
            got[i] = sync;
        }
        fake_generation(&agent, 8 + (uint64_t)round, "4");
        for (int i = THREADS; i-- > 0;) {
            answer(&got[i], 0, 2, got[i].tag);
            answer(&got[i], 1, 2, "");
            assert_int_equal(mu_world(run, &world), MU_OK);
            mu_world_free(&world);
        }
        for (int i = 0; i < THREADS; i++) {
            union wire_any msg;

            pthread_join(c[i].thread, NULL);
            assert_int_equal(c[i].status, MU_OK);
            assert_memory_equal(c[i].values.items[0].data, tags[i], strlen(tags[i]));
            mu_values_free(&c[i].values);
            if (i == 0) {
                fake_next(&agent, WIRE_REPORT, &msg);
            }
        }
    }
    fake_leave(&agent, run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everyone_gets_everyones_value),
        cmocka_unit_test(a_barrier_says_nothing_and_wants_no_values),
        cmocka_unit_test(an_answer_that_broke_off_is_taken_from_its_beginning),
        cmocka_unit_test(who_is_missing_is_passed_on),
        cmocka_unit_test(a_call_ends_even_if_nobody_answers),
        cmocka_unit_test(a_worker_that_goes_on_as_another_asks_again),
        cmocka_unit_test(each_value_says_which_answer_came_before),
        cmocka_unit_test(an_answer_that_is_lost_for_ever_fails_a_sync_but_opens_a_barrier),
        cmocka_unit_test(one_that_is_no_member_claims_nothing),
        cmocka_unit_test(the_tags_that_were_used_last_are_remembered),
        cmocka_unit_test(the_end_of_the_run_ends_calls_that_wait),
        cmocka_unit_test(an_agent_that_dies_ends_calls_that_wait),
        cmocka_unit_test(an_answer_without_sense_ends_the_connection),
        cmocka_unit_test(leaving_ends_calls_of_other_threads),
        cmocka_unit_test(giving_up_ends_calls_and_says_nothing_of_an_end),
        cmocka_unit_test(what_can_not_be_sent_is_refused),
        cmocka_unit_test(the_largest_value_passes_both_ways),
        cmocka_unit_test(many_threads_may_wait_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
