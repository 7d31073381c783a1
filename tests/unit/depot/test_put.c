/* A state that is put to the orchestrator: it is there whole, whatever happens to the line, and
 * what was there before a break is not sent again. */
#include "unit/depot/depot_kit.h"
#include "unit/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOREVER_MS 600000u

static struct ckpt_kit state_of; /* 4 chunks, the last a short one */
static struct ckpt_mark mark;
static struct depot_kit kit;

/* Half of each chunk can be compressed. */
static void make_compressible(void)
{
    for (uint64_t at = 0; at < state_of.bytes; at += CKPT_CHUNK) {
        memset(state_of.state + at, 7, (size_t)MIN(CKPT_CHUNK / 2, state_of.bytes - at));
    }
}

static void put_and_compare(bool zstd)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, zstd);
    struct ckpt_why why = {{0}};

    assert_int_equal(depot_kit_put(&kit, &copy, 0, &why), MU_OK);
    assert_int_equal(kit.opens_n, 1);
    assert_int_equal(kit.chunks_said, ckpt_chunks(state_of.bytes));
    assert_int_equal(kit.keep, 3);
    assert_int_equal(kit.keep_every, 100);
    assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, 0, &why), MU_OK);
}

static void what_is_put_is_there(void **state)
{
    put_and_compare(false);
    assert_int_equal(depot_kit_find(&kit, KIT_JOB, mark.step)->shard_n, state_of.bytes);
}

static void what_is_put_compressed_is_smaller_there(void **state)
{
    make_compressible();
    put_and_compare(true);
    assert_true(depot_kit_find(&kit, KIT_JOB, mark.step)->shard_n < state_of.bytes * 2 / 3);
}

static void an_empty_state_can_be_put(void **state)
{
    struct depot_copy copy = {.mark = &mark};

    assert_int_equal(depot_kit_put(&kit, &copy, 0, NULL), MU_OK);
    assert_non_null(depot_kit_find(&kit, KIT_JOB, mark.step));
}

/* ---- breaks ---- */

/* The line breaks once, at every frame in turn. */
/* Each of them, or all at the beginning and at the end, and some between. */
static uint64_t next_of(uint64_t at, uint64_t frames)
{
    return at + (unit_full() || at < 6 || at + 12 > frames ? 1 : 7);
}

static void sweep(bool zstd, bool deliver)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, zstd);
    struct ckpt_why why = {{0}};
    uint64_t frames;

    assert_int_equal(depot_kit_put(&kit, &copy, 0, &why), MU_OK);
    frames = kit.frames;
    assert_true(frames > 10);
    for (uint64_t at = 1; at <= frames; at = next_of(at, frames)) {
        depot_kit_close(&kit);
        depot_kit_open(&kit);
        kit.break_at = at;
        kit.deliver = deliver;
        assert_int_equal(depot_kit_put(&kit, &copy, FOREVER_MS, &why), MU_OK);
        assert_int_equal(kit.opens_n, 2);
        assert_int_equal(kit.chunks_resent, 0);
        assert_true(kit.chunks_said <= ckpt_chunks(state_of.bytes) + 2); /* those on their way */
        assert_int_equal(kit.kept_n, 1);
        assert_int_equal(kit.taken.chunks_n, 0);
        kit.break_at = 0;
        assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, 0, &why), MU_OK);
    }
}

static void a_break_at_any_frame_loses_nothing_and_sends_nothing_twice(void **state)
{
    sweep(false, false);
}

static void a_frame_that_was_heard_without_its_sender_knowing_is_not_sent_twice(void **state)
{
    make_compressible();
    sweep(true, true);
}

static void an_interrupted_put_is_taken_up_by_another_process(void **state)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);
    struct ckpt_why why = {{0}};

    kit.break_at = 90; /* in the third chunk */
    assert_int_equal(depot_kit_put(&kit, &copy, 0, &why), MU_EIO);
    assert_string_equal(why.text, "the connection broke");
    assert_int_equal(kit.taken.chunks_n, 2);
    assert_int_equal(depot_kit_put(&kit, &copy, 0, &why), MU_OK);
    assert_int_equal(kit.chunks_resent, 0);
    assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, 0, &why), MU_OK);
}

static void chunks_of_another_state_are_not_built_on(void **state)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);

    kit.break_at = 90;
    assert_int_equal(depot_kit_put(&kit, &copy, 0, NULL), MU_EIO);
    ckpt_kit_fill(&state_of, 9);
    assert_int_equal(depot_kit_put(&kit, &copy, 0, NULL), MU_OK);
    assert_int_equal(kit.chunks_resent, 1); /* The first: with it the others are forgotten. */
    assert_int_equal(kit.taken.chunks_n, 0);
    assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, 0, NULL), MU_OK);
}

/* … even if there are more of them than this one has. */
static void more_chunks_than_the_state_has_are_not_built_on(void **state)
{
    struct ckpt_part part = {"w", 100};
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);

    kit.break_at = 90;
    assert_int_equal(depot_kit_put(&kit, &copy, 0, NULL), MU_EIO);
    copy.parts = &part;
    copy.parts_n = 1;
    copy.bytes = 100;
    assert_int_equal(depot_kit_put(&kit, &copy, 0, NULL), MU_OK);
    assert_int_equal(depot_kit_find(&kit, KIT_JOB, mark.step)->shard_n, 100);
}

/* ---- patience ---- */

static void a_busy_orchestrator_is_waited_for(void **state)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);
    struct ckpt_why why = {{0}};

    kit.busy_n = 3;
    assert_int_equal(depot_kit_put(&kit, &copy, 0, &why), MU_EAGAIN);
    assert_string_equal(why.text, "too much at once; try again");
    assert_int_equal(depot_kit_put(&kit, &copy, FOREVER_MS, &why), MU_OK);
    assert_int_equal(kit.busy_n, 0);
    assert_int_equal(kit.chunks_resent, 0);
}

static void patience_has_an_end(void **state)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);
    struct ckpt_why why = {{0}};

    kit.refuse_n = UINT32_MAX;
    assert_int_equal(depot_kit_put(&kit, &copy, 100, &why), MU_EIO);
    assert_non_null(strstr(why.text, "nobody listens there; tried again for"));
    assert_true(kit.opens_n > 2 && kit.opens_n < 10); /* with pauses that grow */
}

static void no_room_is_told_in_the_orchestrators_words(void **state)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);
    struct ckpt_why why = {{0}};

    kit.begin_status = MU_ELIMIT;
    assert_int_equal(depot_kit_put(&kit, &copy, FOREVER_MS, &why), MU_ELIMIT);
    assert_string_equal(why.text, "the disk is full; make room");
    assert_int_equal(kit.chunks_said, 0);
}

static _Atomic bool cancel;

static void *call_off(void *arg)
{
    usleep(50000);
    cancel = true;
    return NULL;
}

static void put_until_it_is_called_off(void)
{
    const struct depot_line line = depot_kit_line(&kit, FOREVER_MS);
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);
    struct ckpt_why why = {{0}};
    struct depot *d;
    pthread_t thread;

    cancel = false;
    assert_int_equal(depot_open(&line, &d), MU_OK);
    depot_cancel(d, &cancel);
    assert_int_equal(pthread_create(&thread, NULL, call_off, NULL), 0);
    assert_int_equal(depot_put(d, &copy, &why), MU_EDONE);
    assert_string_equal(why.text, "it was called off");
    pthread_join(thread, NULL);
    depot_close(d);
}

static void it_can_be_called_off_while_the_line_is_down(void **state)
{
    kit.refuse_n = UINT32_MAX;
    put_until_it_is_called_off();
}

static void it_can_be_called_off_while_nothing_is_answered(void **state)
{
    kit.silent = true;
    put_until_it_is_called_off();
}

/* ---- answers that are none ---- */

static void spoil(struct msg_depot_says *m, uint64_t *request, uint64_t how)
{
    switch (how) {
    case 0:
        m->op = DEPOT_REMOVE;
        break;
    case 1:
        *request += 1;
        break;
    case 2:
        m->status = 1;
        break;
    default:
        m->item += m->op == DEPOT_PUT;
        break;
    }
}

static void a_wrong_answer_is_never_taken(void **state)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);

    for (uint64_t how = 0; how < 4; how++) {
        struct ckpt_why why = {{0}};

        depot_kit_close(&kit);
        depot_kit_open(&kit);
        kit.spoil = spoil;
        kit.spoil_how = how;
        assert_int_equal(depot_kit_put(&kit, &copy, FOREVER_MS, &why), MU_EPROTO);
        assert_non_null(strstr(why.text, "answer about checkpoints is wrong: "));
        assert_int_equal(kit.opens_n, 1);
        assert_int_equal(kit.kept_n, 0);
    }
}

static void a_copy_that_does_not_add_up_is_refused(void **state)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, false);

    copy.parts_n--; /* its last part has bytes */
    assert_int_equal(depot_kit_put(&kit, &copy, 0, NULL), MU_EINVAL);
    copy.parts_n = CKPT_PARTS_MAX + 1;
    assert_int_equal(depot_kit_put(&kit, &copy, 0, NULL), MU_EINVAL);
    assert_int_equal(kit.kept_n, 0);
}

static int open_kit(void **state)
{
    ckpt_kit_fill(&state_of, 1);
    mark = ckpt_kit_mark(40);
    depot_kit_open(&kit);
    return 0;
}

static int close_kit(void **state)
{
    depot_kit_close(&kit);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)
    const struct CMUnitTest tests[] = {
        TEST(what_is_put_is_there),
        TEST(what_is_put_compressed_is_smaller_there),
        TEST(an_empty_state_can_be_put),
        TEST(a_break_at_any_frame_loses_nothing_and_sends_nothing_twice),
        TEST(a_frame_that_was_heard_without_its_sender_knowing_is_not_sent_twice),
        TEST(an_interrupted_put_is_taken_up_by_another_process),
        TEST(chunks_of_another_state_are_not_built_on),
        TEST(more_chunks_than_the_state_has_are_not_built_on),
        TEST(a_busy_orchestrator_is_waited_for),
        TEST(patience_has_an_end),
        TEST(no_room_is_told_in_the_orchestrators_words),
        TEST(it_can_be_called_off_while_the_line_is_down),
        TEST(it_can_be_called_off_while_nothing_is_answered),
        TEST(a_wrong_answer_is_never_taken),
        TEST(a_copy_that_does_not_add_up_is_refused),
    };
    int failed;

    ckpt_kit_open(&state_of, true);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    ckpt_kit_close(&state_of);
    return failed;
}
