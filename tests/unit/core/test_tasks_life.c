/* The task manager's journal: what survives which crash, who wins, who claims. */
#include "tasks_kit.h"

#include <string.h>

#define A wid_make(1, 0, 1)
#define B wid_make(2, 0, 1)
#define C wid_make(3, 0, 1)

static int report(wid worker, uint64_t number, uint64_t acked, const struct task *task,
                  uint8_t *verdict, bool *pending)
{
    struct task_item item = {task->id, task->attempt, 0, false};
    struct tasks_report r = {
        .worker = worker, .number = number, .acked = acked, .items_n = 1, .items = &item};

    return tasks_report(kit, &r, kit_now_ms, &kit_out, verdict, pending, kit_why, sizeof(kit_why));
}

static void nothing_is_given_out_before_the_start_is_durable(void **state)
{
    uint64_t ten = 10;
    struct task task;

    assert_int_equal(kit_describe(1, 0, &ten), MU_OK);
    kit_hold();
    kit_crash();
    kit_hold(); /* the crash let go */
    kit_crash();
    assert_int_equal(kit_get(A, &task), TASKS_WAIT); /* unclaimed */
    kit_tick(KIT_LEASE_MS);
    assert_int_equal(kit_get(A, &task), TASKS_GIVEN);
    assert_true(task.attempt >> 40 >= 2);
}

static void attempts_of_another_life_are_other_ones(void **state)
{
    struct task before, after;

    kit_train(1, 1);
    before = kit_take(A);
    kit_restart();
    after = kit_take(B);
    assert_int_equal(after.id, before.id);
    assert_true(after.attempt > before.attempt);
    assert_int_equal(kit_report(A, &before), TASK_STALE);
    assert_int_equal(kit_report(B, &after), TASK_COUNTED);
}

static void unclaimed_tasks_wait_for_a_lease_after_a_start(void **state)
{
    struct task held, none;

    kit_train(2, 1);
    held = kit_take(A);
    kit_crash();
    kit_tick(KIT_LEASE_MS - 1);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    tasks_claim(kit, A, 1, &(struct task_held){held.id, held.attempt}, 1, kit_now_ms);
    kit_tick(1);
    assert_int_equal(kit_take(B).id, 2);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    assert_int_equal(kit_report(A, &held), TASK_COUNTED);
}

static void a_result_of_before_the_start_counts_while_nobody_has_the_task(void **state)
{
    struct task held;

    kit_train(1, 1);
    held = kit_take(A);
    kit_crash();
    assert_int_equal(kit_report(A, &held), TASK_COUNTED);
    assert_int_equal(kit_get(A, &held), TASKS_FINISHED);
}

static void the_newest_of_two_claims_has_the_task(void **state)
{
    struct task old, now;

    kit_train(1, 1);
    old = kit_take(A);
    tasks_lost(kit, A, &kit_out);
    now = kit_take(B);
    kit_crash();
    tasks_claim(kit, A, 9, &(struct task_held){old.id, old.attempt}, 1, kit_now_ms);
    tasks_claim(kit, B, 9, &(struct task_held){now.id, now.attempt}, 1, kit_now_ms);
    tasks_claim(kit, A, 9, &(struct task_held){old.id, old.attempt}, 1, kit_now_ms);
    assert_int_equal(kit_report(A, &old), TASK_STALE);
    assert_int_equal(kit_report(B, &now), TASK_COUNTED);
}

static void what_a_level_does_not_name_goes_back(void **state)
{
    struct task first, second;

    kit_train(2, 1);
    first = kit_take(A);
    second = kit_take(A);
    /* The answer to its second question is on its way. */
    tasks_claim(kit, A, 1, NULL, 0, kit_now_ms);
    assert_int_equal(kit_take(B).id, first.id);
    assert_int_equal(kit_report(A, &second), TASK_COUNTED);
}

static void a_result_counts_when_it_is_durable(void **state)
{
    struct task task, none;
    uint8_t verdict;
    bool pending;

    kit_train(1, 1);
    task = kit_take(A);
    kit_hold();
    assert_int_equal(report(A, 1, 0, &task, &verdict, &pending), MU_OK);
    assert_true(pending);
    assert_int_equal(kit_waiting(TASKS_DONE), 1);
    assert_int_equal(report(A, 1, 0, &task, &verdict, &pending), MU_EAGAIN);
    tasks_lost(kit, A, &kit_out);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT); /* it may yet count */
    kit_release();
    assert_int_equal(report(A, 1, 0, &task, &verdict, &pending), MU_OK);
    assert_int_equal(verdict, TASK_COUNTED);
    assert_false(pending);
    assert_int_equal(kit_get(B, &none), TASKS_FINISHED);
}

static void a_result_that_could_not_be_written_may_be_reported_again(void **state)
{
    struct task task;
    uint8_t verdict;
    bool pending;

    kit_train(1, 1);
    task = kit_take(A);
    kit_hold();
    assert_int_equal(report(A, 1, 0, &task, &verdict, &pending), MU_OK);
    kit_lose();
    assert_int_equal(kit_look().kinds[TASK_TRAINING].done, 0);
    assert_int_equal(report(A, 1, 0, &task, &verdict, &pending), MU_OK);
    assert_true(pending);
    kit_tick(0);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].done, 1);
}

static void each_kind_of_record_may_fail_and_is_tried_again(void **state)
{
    struct task task;

    kit_hold();
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){1}), MU_EAGAIN);
    kit_lose();
    kit_set.attempts = 1;
    kit_set.max_steps = 5;
    kit_set.eval_steps = 5;
    kit_train(2, 1);
    kit_set = tasks_set(TASK_EVALUATION, "e", 1, 1);
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){1}), MU_OK);
    task = kit_take(A);
    kit_hold();
    assert_int_equal(kit_fail(A, &task, "x"), TASK_NOTED);
    assert_int_equal(kit_waiting(TASKS_PARKED), 1);
    kit_lose();
    assert_int_equal(kit_look().parked_n, 0);
    task = kit_take(A);
    assert_int_equal(kit_fail(A, &task, "x"), TASK_NOTED);
    assert_int_equal(kit_look().parked_n, 1);
    kit_hold();
    tasks_version(kit, 5, &kit_out);
    kit_tick(0);
    assert_int_equal(kit_waiting(TASKS_EVAL), 1);
    assert_int_equal(kit_waiting(TASKS_CLEARED), 1);
    kit_lose();
    tasks_version(kit, 5, &kit_out);
    kit_hold();
    kit_tick(0);
    kit_lose();
    tasks_version(kit, 5, &kit_out);
    kit_tick(0);
    task = kit_take(A);
    assert_int_equal(task.kind, TASK_EVALUATION);
    assert_int_equal(kit_report(A, &task), TASK_COUNTED);
    assert_int_equal(kit_get(A, &task), TASKS_FINISHED);
}

static void a_winner_is_told_again_after_a_crash_until_it_knows(void **state)
{
    struct task task[3];
    uint8_t verdict;
    bool pending;

    kit_train(3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        task[i] = kit_take(A);
        assert_int_equal(report(A, i + 1, 0, &task[i], &verdict, &pending), MU_OK);
        kit_tick(0);
    }
    kit_restart();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(report(A, i + 1, 0, &task[i], &verdict, &pending), MU_OK);
        assert_int_equal(verdict, TASK_COUNTED);
        assert_false(pending);
        /* Not another's, and not as another report. */
        assert_int_equal(report(B, i + 1, 0, &task[i], &verdict, &pending), MU_OK);
        assert_int_equal(verdict, TASK_TAKEN);
        assert_int_equal(report(A, 9, 0, &task[i], &verdict, &pending), MU_OK);
        assert_int_equal(verdict, TASK_TAKEN);
    }
}

static void what_is_acknowledged_is_forgotten(void **state)
{
    struct task first, second;
    uint8_t verdict;
    bool pending;

    kit_train(200, 1);
    for (uint64_t i = 1; i < 199; i++) { /* more than there is room for */
        first = kit_take(A);
        assert_int_equal(report(A, i, i - 1, &first, &verdict, &pending), MU_OK);
        kit_tick(0);
    }
    second = kit_take(A);
    assert_int_equal(report(A, 200, 199, &second, &verdict, &pending), MU_OK);
    kit_tick(0);
    assert_int_equal(report(A, 198, 190, &first, &verdict, &pending), MU_OK);
    assert_int_equal(verdict, TASK_TAKEN);
    tasks_gone(kit, A, &kit_out);
    kit_tick(0);
    assert_int_equal(report(A, 200, 199, &second, &verdict, &pending), MU_OK);
    assert_int_equal(verdict, TASK_TAKEN);
}

static void results_wait_when_too_many_workers_have_not_heard(void **state)
{
    struct task task;
    uint8_t verdict;
    bool pending;

    kit_train(100, 1);
    for (uint32_t i = 0; i < 64; i++) {
        wid worker = wid_make(1 + i / 16, 0, 1);

        task = kit_take(worker);
        assert_int_equal(report(worker, i % 16 + 1, 0, &task, &verdict, &pending), MU_OK);
        kit_tick(0);
    }
    task = kit_take(A);
    assert_int_equal(report(A, 17, 0, &task, &verdict, &pending), MU_EINVAL);
    assert_non_null(strstr(kit_why, "no more before the oldest has one"));
    assert_int_equal(report(A, 17, 1, &task, &verdict, &pending), MU_EAGAIN);
    assert_non_null(strstr(kit_why, "too many results"));
    kit_tick(0); /* What it knows now is forgotten: there is room. */
    assert_int_equal(report(A, 17, 1, &task, &verdict, &pending), MU_OK);
    kit_tick(0);
    task = kit_take(A);
    assert_int_equal(report(A, 18, 2, &task, &verdict, &pending), MU_EAGAIN);
    tasks_acked(kit, B, 16, &kit_out); /* as it says when it asks for more */
    kit_tick(0);
    assert_int_equal(report(A, 18, 2, &task, &verdict, &pending), MU_OK);
}

static void only_so_many_tasks_are_out(void **state)
{
    struct task task, none;

    kit_train(100, 1);
    for (uint32_t i = 0; i < 64; i++) {
        task = kit_take(A);
    }
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    assert_int_equal(kit_report(A, &task), TASK_COUNTED);
    assert_int_equal(kit_take(B).id, 65);
}

static void idle_workers_make_room_for_others(void **state)
{
    struct task task;

    kit_train(100, 1);
    for (uint32_t i = 0; i < 50; i++) {
        wid worker = wid_make(i + 1, 0, 1);

        task = kit_take(worker);
        assert_int_equal(kit_report(worker, &task), TASK_COUNTED);
        tasks_gone(kit, worker, &kit_out);
        kit_tick(0);
    }
}

/* ---- checkpoints ---- */

static uint8_t words[4][TASKS_BITS_MAX];

static uint32_t export(struct rec_tasks_set *set, struct rec_tasks_bits *bits)
{
    struct tasks_cursor at = {0, 0};
    uint32_t n = 0;

    assert_int_equal(tasks_export(kit, set), MU_OK);
    while (n < 4 && tasks_export_bits(kit, &at, words[n], &bits[n])) {
        n++;
    }
    return n;
}

static void resume(const struct rec_tasks_set *set, struct rec_tasks_bits *bits, uint32_t n,
                   uint64_t records)
{
    bool pending;

    kit_teardown(NULL);
    kit_setup(NULL);
    kit_set = *set;
    assert_int_equal(kit_describe(1, 0, &records), MU_OK);
    for (uint32_t i = 0; i < n; i++) {
        struct task none;

        assert_int_equal(kit_get(B, &none), TASKS_WAIT); /* not before all is told */
        assert_int_equal(tasks_resume(kit, &bits[i], &kit_out, &pending, kit_why, sizeof(kit_why)),
                         MU_OK);
        kit_tick(0);
        assert_int_equal(tasks_resume(kit, &bits[i], &kit_out, &pending, kit_why, sizeof(kit_why)),
                         MU_OK);
        assert_false(pending);
    }
}

static void a_restored_run_goes_on_where_it_was(void **state)
{
    static struct task all[512], rest[512];
    struct rec_tasks_set set;
    struct rec_tasks_bits bits[4];
    uint8_t seen[200] = {0};
    uint32_t n;

    kit_set.epochs = 3;
    kit_set.shuffle_tasks = true;
    kit_train(200, 1);
    for (uint32_t i = 0; i < 290; i++) {
        all[i] = kit_take(A);
        if (i != 250) { /* Some are on their way. */
            assert_int_equal(kit_report(A, &all[i]), TASK_COUNTED);
        }
    }
    tasks_version(kit, 77, &kit_out);
    n = export(&set, bits);
    assert_int_equal(n, 1);
    assert_int_equal(set.resume_epoch, 1);
    assert_int_equal(set.resume_done, 89);
    resume(&set, bits, n, 200);
    assert_int_equal(kit_look().version, 77);
    for (uint32_t i = 0; i < 111; i++) {
        rest[i] = kit_take(B);
        assert_int_equal(rest[i].epoch, 1);
        assert_int_equal(seen[rest[i].first]++, 0);
        kit_report(B, &rest[i]);
    }
    for (uint32_t i = 200; i < 290; i++) {
        assert_int_equal(seen[all[i].first], i == 250);
    }
    assert_int_equal(kit_all(B, rest, 512), 200);
    assert_int_equal(rest[0].epoch, 2);
}

static void two_epochs_that_overlap_are_both_restored(void **state)
{
    static struct task rest[64];
    struct rec_tasks_set set;
    struct rec_tasks_bits bits[4];
    struct task task;
    uint32_t n;

    kit_set.epochs = 2;
    kit_set.overlap = true;
    kit_train(10, 1);
    for (uint32_t i = 0; i < 15; i++) {
        task = kit_take(A);
        if (i != 3) {
            kit_report(A, &task);
        }
    }
    n = export(&set, bits);
    assert_int_equal(n, 2);
    assert_int_equal(set.resume_done, 9);
    assert_int_equal(set.resume_next, 5);
    bool pending;
    kit_teardown(NULL);
    kit_setup(NULL);
    kit_set = set;
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){10}), MU_OK);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(tasks_resume(kit, &bits[i], &kit_out, &pending, kit_why, sizeof(kit_why)),
                         MU_OK);
        kit_tick(0);
    }
    assert_int_equal(kit_all(B, rest, 64), 6);
    assert_int_equal(rest[0].first, 3);
    assert_int_equal(rest[0].epoch, 0);
}

static void a_checkpoint_of_other_data_is_refused(void **state)
{
    struct rec_tasks_set set;
    struct rec_tasks_bits bits[4];
    bool pending;

    kit_train(100, 1);
    for (uint32_t i = 0; i < 10; i++) {
        struct task task = kit_take(A);

        kit_report(A, &task);
    }
    assert_int_equal(export(&set, bits), 1);
    kit_teardown(NULL);
    kit_setup(NULL);
    kit_set = set;
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){101}), MU_OK);
    assert_int_equal(tasks_resume(kit, &bits[0], &kit_out, &pending, kit_why, sizeof(kit_why)),
                     MU_ECONFLICT);
    assert_non_null(strstr(kit_why, "of other data"));
}

static void parked_tasks_are_tried_again_after_a_restore(void **state)
{
    struct rec_tasks_set set;
    struct rec_tasks_bits bits[4];
    struct task task;
    uint32_t n;

    kit_set.attempts = 1;
    kit_train(3, 1);
    task = kit_take(A);
    assert_int_equal(kit_fail(A, &task, "x"), TASK_NOTED);
    task = kit_take(A);
    assert_int_equal(kit_report(A, &task), TASK_COUNTED);
    n = export(&set, bits);
    assert_int_equal(set.resume_done, 1);
    resume(&set, bits, n, 3);
    assert_int_equal(kit_take(B).first, 0);
    assert_int_equal(kit_take(B).first, 2);
}

/* A million tasks are a bitmap: its dump comes in pieces, and the state costs what it cost. */
static void many_tasks_are_a_bitmap(void **state)
{
    size_t before = tasks_memory(kit);
    struct task task;

    kit_train(UINT64_C(1) << 30, 1024);
    for (uint32_t i = 0; i < 2000; i++) {
        task = kit_take(A);
        if (i % 100 != 0) {
            assert_int_equal(kit_report(A, &task), TASK_COUNTED);
        }
    }
    assert_int_equal(kit_look().kinds[TASK_TRAINING].total, 1u << 20);
    assert_int_equal(tasks_memory(kit), before);
    assert_true(before < 4u << 20);
}

static void another_run_begins_as_new(void **state)
{
    struct task task;

    kit_train(3, 1);
    kit_take(A);
    tasks_reset(kit);
    assert_false(kit_look().described);
    assert_int_equal(kit_get(A, &task), TASKS_WAIT);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].doing, 0);
    kit_crash(); /* the journal still has the first one */
}

int main(void)
{
    const struct CMUnitTest all[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
        TEST(nothing_is_given_out_before_the_start_is_durable),
        TEST(attempts_of_another_life_are_other_ones),
        TEST(unclaimed_tasks_wait_for_a_lease_after_a_start),
        TEST(a_result_of_before_the_start_counts_while_nobody_has_the_task),
        TEST(the_newest_of_two_claims_has_the_task),
        TEST(what_a_level_does_not_name_goes_back),
        TEST(a_result_counts_when_it_is_durable),
        TEST(a_result_that_could_not_be_written_may_be_reported_again),
        TEST(each_kind_of_record_may_fail_and_is_tried_again),
        TEST(a_winner_is_told_again_after_a_crash_until_it_knows),
        TEST(what_is_acknowledged_is_forgotten),
        TEST(results_wait_when_too_many_workers_have_not_heard),
        TEST(only_so_many_tasks_are_out),
        TEST(idle_workers_make_room_for_others),
        TEST(a_restored_run_goes_on_where_it_was),
        TEST(two_epochs_that_overlap_are_both_restored),
        TEST(a_checkpoint_of_other_data_is_refused),
        TEST(parked_tasks_are_tried_again_after_a_restore),
        TEST(many_tasks_are_a_bitmap),
        TEST(another_run_begins_as_new),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
