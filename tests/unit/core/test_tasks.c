/* The task manager, row by row of ElasticDL's tests (row N) and beyond them. */
#include "tasks_kit.h"

#include <stdio.h>
#include <string.h>

#define A wid_make(1, 0, 1)
#define B wid_make(2, 0, 1)
#define C wid_make(3, 0, 1)

static struct task tasks[512];

/* Row 1, behaviours 15 and 16: ids from 1; what failed or was lost with its worker comes again. */
static void ids_are_from_1_and_failed_and_lost_tasks_come_again(void **state)
{
    struct task got[8], again;

    kit_set.per_task = 3;
    assert_int_equal(kit_describe(2, 0, (const uint64_t[]){10, 10}), MU_OK);
    for (uint32_t i = 0; i < 8; i++) {
        got[i] = kit_take(i % 2 == 0 ? A : B);
        assert_int_equal(got[i].id, i + 1);
        assert_string_equal(got[i].file, i < 4 ? "f0" : "f1");
        assert_int_equal(got[i].first, i % 4 * 3);
        assert_int_equal(got[i].end, MIN(i % 4 * 3 + 3, 10));
    }
    assert_int_equal(kit_get(A, &again), TASKS_WAIT);
    for (uint32_t i = 2; i < 8; i++) {
        assert_int_equal(kit_report(i % 2 == 0 ? A : B, &got[i]), TASK_COUNTED);
    }
    assert_int_equal(kit_fail(A, &got[0], "no"), TASK_NOTED);
    tasks_lost(kit, B, &kit_out);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].todo, 2);
    assert_int_equal(kit_all(C, tasks, 9), 2);
    assert_int_equal(kit_get(A, &again), TASKS_FINISHED);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].done, 8);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].records, 20);
}

/* Row 2, behaviour 17. */
static void files_need_not_start_at_record_0(void **state)
{
    kit_set.per_task = 3;
    assert_int_equal(kit_describe(1, 10, (const uint64_t[]){10}), MU_OK);
    assert_int_equal(kit_all(A, tasks, 9), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(tasks[i].first, 10 + 3 * i);
        assert_int_equal(tasks[i].end, MIN(13 + 3 * i, 20));
    }
}

static void empty_files_have_no_tasks(void **state)
{
    kit_set.per_task = 4;
    assert_int_equal(kit_describe(5, 0, (const uint64_t[]){0, 4, 0, 0, 5}), MU_OK);
    assert_int_equal(kit_all(A, tasks, 9), 3);
    assert_string_equal(tasks[0].file, "f1");
    assert_string_equal(tasks[1].file, "f4");
    assert_string_equal(tasks[2].file, "f4");
    assert_int_equal(tasks[2].end, 5);
}

/* Row 3, behaviour 18. */
static void two_epochs_have_the_same_ranges_twice(void **state)
{
    kit_set.epochs = 2;
    kit_train(10, 3);
    assert_int_equal(kit_all(A, tasks, 20), 8);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(tasks[i].first, tasks[i + 4].first);
        assert_int_equal(tasks[i].end, tasks[i + 4].end);
        assert_int_equal(tasks[i + 4].epoch, 1);
        assert_int_equal(tasks[i + 4].id, i + 5);
    }
}

static void an_epoch_begins_when_the_last_is_wholly_done(void **state)
{
    struct task one, other, none;

    kit_set.epochs = 2;
    kit_train(2, 1);
    one = kit_take(A);
    other = kit_take(A);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    kit_report(A, &one);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    kit_report(A, &other);
    assert_int_equal(kit_take(B).epoch, 1);
}

static void epochs_overlap_by_option(void **state)
{
    struct task first, second, third;

    kit_set.epochs = 3;
    kit_set.overlap = true;
    kit_train(1, 1);
    first = kit_take(A);
    second = kit_take(B);
    assert_int_equal(second.epoch, 1);
    assert_int_equal(kit_get(C, &third), TASKS_WAIT); /* two at a time */
    assert_int_equal(kit_report(B, &second), TASK_COUNTED);
    assert_int_equal(kit_get(C, &third), TASKS_WAIT);
    assert_int_equal(kit_report(A, &first), TASK_COUNTED);
    assert_int_equal(kit_take(C).epoch, 2);
}

/* Row 4, behaviour 21; row 36: what the end's task is for is the worker's. */
static void the_train_end_task_comes_last_and_has_a_shard(void **state)
{
    struct task last, end, none;

    kit_set.end = true;
    kit_set.save = true;
    kit_train(6, 3);
    kit_take(A);
    last = kit_take(B);
    assert_int_equal(kit_get(C, &none), TASKS_WAIT);
    tasks_lost(kit, A, &kit_out);
    assert_int_equal(kit_report(B, &last), TASK_COUNTED);
    last = kit_take(C);
    assert_int_equal(last.kind, TASK_TRAINING);
    assert_int_equal(kit_report(C, &last), TASK_COUNTED);
    last = kit_take(C);
    assert_int_equal(last.kind, TASK_SAVE);
    assert_int_equal(kit_get(A, &none), TASKS_WAIT);
    assert_int_equal(kit_report(C, &last), TASK_COUNTED);
    end = kit_take(A);
    assert_int_equal(end.kind, TASK_END);
    assert_string_equal(end.file, "f0");
    assert_int_equal(end.first, 0);
    assert_int_equal(end.end, 3);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    assert_int_equal(kit_report(A, &end), TASK_COUNTED);
    assert_int_equal(kit_get(B, &none), TASKS_FINISHED);
}

/* Row 5, behaviour 20. */
static void a_task_begun_long_ago_goes_back(void **state)
{
    struct task slow, again;

    kit_set.timeout_ms = 1000000;
    kit_train(1, 1);
    slow = kit_take(A);
    kit_tick(999999);
    assert_int_equal(kit_get(B, &again), TASKS_WAIT);
    kit_tick(1);
    again = kit_take(B);
    assert_int_equal(again.id, slow.id);
    assert_true(again.attempt > slow.attempt);
    assert_int_equal(kit_report(A, &slow), TASK_STALE);
    assert_int_equal(kit_report(B, &again), TASK_COUNTED);
    assert_int_equal(kit_report(A, &slow), TASK_TAKEN);
}

static void a_late_result_counts_while_nobody_else_has_the_task(void **state)
{
    struct task slow, none;

    kit_train(1, 1);
    slow = kit_take(A);
    kit_tick(kit_set.timeout_ms);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].doing, 0);
    assert_int_equal(kit_report(A, &slow), TASK_COUNTED);
    assert_int_equal(kit_get(B, &none), TASKS_FINISHED);
}

/* Row 6: what evaluation takes says nothing about training. */
static void time_outs_follow_what_slow_tasks_of_a_kind_took(void **state)
{
    kit_set.timeout_ms = 10000;
    kit_train(40, 1);
    kit_set = tasks_set(TASK_EVALUATION, "eval", 1, 1);
    kit_set.timeout_ms = 10000;
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){20}), MU_OK);
    for (uint32_t i = 0; i < 20; i++) {
        struct task task = kit_take(A);

        kit_tick(i == 7 ? 9000 : 5000);
        assert_int_equal(kit_report(A, &task), TASK_COUNTED);
    }
    assert_in_range(kit_look().kinds[TASK_TRAINING].timeout_ms, 15000, 3 * 8192);
    assert_int_equal(kit_look().kinds[TASK_EVALUATION].timeout_ms, 10000);
    kit_restart();
    assert_in_range(kit_look().kinds[TASK_TRAINING].timeout_ms, 15000, 3 * 8192);
}

static void a_clock_that_jumps_makes_nobody_late(void **state)
{
    struct task none;

    kit_set.timeout_ms = 60000;
    kit_train(1, 1);
    kit_take(A);
    kit_now_ms += 3600000;
    kit_tick(0);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    assert_true(tasks_deadline(kit) <= kit_now_ms + 7500);
    kit_tick(60000);
    kit_take(B);
}

/* Row 7. */
static void the_first_description_wins(void **state)
{
    uint64_t ten = 10;

    kit_train(10, 3);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].total, 4);
    assert_int_equal(kit_describe(1, 0, &ten), MU_OK); /* the same again */
    assert_int_equal(kit_all(A, tasks, 2), 2);
    assert_int_equal(kit_describe(1, 0, &ten), MU_OK);
    kit_set.per_task = 5;
    assert_int_equal(kit_describe(1, 0, &ten), MU_ECONFLICT);
    assert_non_null(strstr(kit_why, "records per task: 3, and now with 5"));
    kit_set.per_task = 3;
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){11}), MU_ECONFLICT);
    assert_non_null(strstr(kit_why, "file 1 of the data set data is f0 with 10 records"));
    strcpy(kit_set.name, "other");
    assert_int_equal(kit_describe(1, 0, &ten), MU_ECONFLICT);
    assert_non_null(strstr(kit_why, "the job's data set is data, not other"));
    assert_int_equal(kit_all(B, tasks + 2, 9), 2);
    assert_int_equal(tasks[3].first, 9);
    assert_int_equal(tasks[3].end, 10);
}

static void many_files_are_described_in_parts(void **state)
{
    uint64_t n[300];
    bool pending;

    for (uint32_t i = 0; i < 300; i++) {
        n[i] = i % 3;
    }
    assert_int_equal(kit_describe(300, 7, n), MU_OK);
    assert_int_equal(kit_all(A, tasks, 512), 300);
    assert_string_equal(tasks[299].file, "f299");
    assert_int_equal(kit_describe(300, 7, n), MU_OK);

    /* Half of one is replaced by another; whose author goes on hears so. */
    struct rec_tasks_set eval = tasks_set(TASK_EVALUATION, "x", 2, 1);
    struct task_file file = {"f", 0, 5};
    struct rec_tasks_files part = {
        .kind = TASK_EVALUATION, .head = tasks_head_digest(&eval), .files_n = 1, .files = &file};
    assert_int_equal(tasks_describe(kit, &eval, &kit_out, &pending, kit_why, sizeof(kit_why)), 0);
    kit_tick(0);
    eval.per_task = 2;
    assert_int_equal(tasks_describe(kit, &eval, &kit_out, &pending, kit_why, sizeof(kit_why)), 0);
    kit_tick(0);
    assert_int_equal(tasks_files(kit, &part, &kit_out, &pending, kit_why, sizeof(kit_why)),
                     MU_ECONFLICT);
    assert_non_null(strstr(kit_why, "has taken the place of this one"));
}

static void bad_descriptions_are_refused_in_words(void **state)
{
    uint64_t ten = 10, none = 0, many = UINT64_C(1) << 40;

    kit_set.attempts = 0;
    assert_int_equal(kit_describe(1, 0, &ten), MU_EINVAL);
    assert_non_null(strstr(kit_why, "needs 1 or more"));
    kit_set.attempts = 3;
    assert_int_equal(kit_describe(1, 0, &none), MU_EINVAL);
    assert_non_null(strstr(kit_why, "no records in any of its 1 files"));
    assert_int_equal(kit_describe(1, 0, &many), MU_ELIMIT);
    assert_non_null(strstr(kit_why, "raise its records per task"));
    kit_set.files_n = 301;
    assert_int_equal(kit_describe(301, 0, &ten), MU_ELIMIT);
    kit_set.kind = TASK_PREDICTION;
    kit_set.save = true;
    assert_int_equal(kit_describe(1, 0, &ten), MU_EINVAL);
}

/* Row 8: theirs drops it in silence. */
static void a_task_that_fails_too_often_is_parked_and_named(void **state)
{
    const struct rec_tasks_parked *parked;
    struct task bad = {0}, none;
    const char *file;
    char text[256];

    kit_train(3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        bad = kit_take(i % 2 == 0 ? A : B);
        assert_int_equal(bad.id, 1);
        assert_int_equal(kit_fail(i % 2 == 0 ? A : B, &bad, "bad record 17"), TASK_NOTED);
    }
    assert_int_equal(kit_all(A, tasks, 9), 2);
    assert_int_equal(kit_get(A, &none), TASKS_FINISHED);
    assert_int_equal(kit_look().parked_n, 1);
    parked = tasks_parked(kit, 0, &file);
    assert_int_equal(parked->id, 1);
    assert_int_equal(parked->failures, 3);
    assert_int_equal(parked->end, 1);
    assert_string_equal(parked->text, "bad record 17");
    assert_string_equal(file, "f0");
    assert_null(tasks_parked(kit, 1, &file));
    tasks_say(kit, text, sizeof(text));
    assert_non_null(strstr(text, "1 failed too often and is parked"));
    assert_int_equal(kit_report(A, &bad), TASK_IS_PARKED);
    kit_restart();
    assert_int_equal(kit_look().parked_n, 1);
    assert_int_equal(kit_get(A, &none), TASKS_FINISHED);
}

static void more_are_parked_than_are_listed(void **state)
{
    const char *file;

    kit_set.attempts = 1;
    kit_train(9, 1);
    for (uint32_t i = 0; i < 9; i++) {
        struct task task = kit_take(A);

        assert_int_equal(kit_fail(A, &task, NULL), TASK_NOTED);
    }
    assert_int_equal(kit_look().parked_n, 9);
    assert_non_null(tasks_parked(kit, 3, &file));
    assert_null(tasks_parked(kit, 4, &file));
}

static void a_task_that_ends_its_workers_is_parked(void **state)
{
    struct task none;

    kit_set.losses = 2;
    kit_train(1, 1);
    kit_take(A);
    tasks_lost(kit, A, &kit_out);
    kit_take(B);
    tasks_lost(kit, B, &kit_out);
    kit_tick(0);
    assert_int_equal(kit_get(C, &none), TASKS_FINISHED);
    assert_int_equal(kit_look().parked_n, 1);
}

/* Row 9. */
static void evaluation_is_served_first(void **state)
{
    kit_train(4, 1);
    kit_take(A);
    kit_set = tasks_set(TASK_EVALUATION, "eval", 1, 1);
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){2}), MU_OK);
    assert_int_equal(kit_take(A).kind, TASK_TRAINING);
    assert_int_equal(tasks_evaluate(kit, 5, &kit_out, kit_why, sizeof(kit_why)), MU_OK);
    kit_tick(0);
    assert_int_equal(kit_take(A).kind, TASK_EVALUATION);
    assert_int_equal(kit_take(A).version, 5);
    assert_int_equal(kit_take(A).kind, TASK_TRAINING);
}

/* Row 10: each at most once, also through crashes; a block of reserved ones may be lost. */
static void a_loose_pass_gives_each_task_once_and_tracks_nothing(void **state)
{
    uint8_t seen[2001] = {0};
    uint32_t n = 0;
    struct task task;

    kit_set.loose = true;
    kit_set.epochs = 2;
    kit_train(1000, 1);
    while (kit_get(A, &task) != TASKS_FINISHED) {
        if (task.id == 0) {
            continue;
        }
        assert_int_equal(seen[task.id]++, 0);
        n++;
        if (n == 300) {
            kit_crash();
        }
        assert_int_equal(kit_report(A, &task), TASK_COUNTED);
        task.id = 0;
    }
    assert_in_range(n, 2000 - 2 * 62, 1999);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].doing, 0);
}

/* Row 11. */
static void epochs_below_1_are_endless_until_the_steps_are_done(void **state)
{
    struct task task, none;

    kit_set.epochs = 0;
    kit_set.max_steps = 100;
    kit_train(3, 1);
    assert_int_equal(kit_all(A, tasks, 20), 20);
    assert_int_equal(tasks[19].epoch, 6);
    task = kit_take(A);
    tasks_version(kit, 99, &kit_out);
    kit_tick(0);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    tasks_version(kit, 100, &kit_out);
    kit_tick(0);
    assert_int_equal(kit_get(B, &none), TASKS_FINISHED);
    assert_int_equal(kit_report(A, &task), TASK_OVER);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].done, 20);
    kit_restart();
    assert_int_equal(kit_get(B, &none), TASKS_FINISHED);
}

/* Row 12. */
static void steps_go_on_from_the_checkpoints_version(void **state)
{
    struct task none;

    kit_set.resume_version = 50;
    kit_set.max_steps = 60;
    kit_set.epochs = 0;
    kit_train(1, 1);
    assert_int_equal(kit_look().version, 50);
    tasks_version(kit, 40, &kit_out); /* it only grows */
    assert_int_equal(kit_look().version, 50);
    tasks_version(kit, 60, &kit_out);
    kit_tick(0);
    assert_int_equal(kit_get(A, &none), TASKS_FINISHED);
}

/* Rows 13 and 17: a batch may complete several tasks. */
static void a_report_completes_several_tasks_and_counts_bad_records_by_kind(void **state)
{
    struct task_item items[3];
    struct tasks_report r = {.worker = A, .number = 1, .items_n = 3, .items = items};
    uint8_t verdicts[3];
    bool pending;

    kit_train(9, 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct task task = kit_take(A);

        items[i] = (struct task_item){task.id, task.attempt, i + 1, false};
    }
    assert_int_equal(tasks_report(kit, &r, kit_now_ms, &kit_out, verdicts, &pending, kit_why, 256),
                     0);
    assert_true(pending);
    kit_tick(0);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].failed_records, 6);
    assert_int_equal(kit_look().kinds[TASK_EVALUATION].failed_records, 0);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].done, 3);
    /* Repeated, it counts still, and not again. */
    assert_int_equal(tasks_report(kit, &r, kit_now_ms, &kit_out, verdicts, &pending, kit_why, 256),
                     0);
    assert_false(pending);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(verdicts[i], TASK_COUNTED);
    }
    assert_int_equal(kit_look().kinds[TASK_TRAINING].failed_records, 6);
    items[1].id = items[0].id;
    assert_int_equal(tasks_report(kit, &r, kit_now_ms, &kit_out, verdicts, &pending, kit_why, 256),
                     MU_EINVAL);
}

/* Row 14. */
static void tasks_and_records_are_mixed_by_a_seed_each_once(void **state)
{
    static uint64_t order[2][100];
    struct task task;

    kit_set.epochs = 2;
    kit_set.seed = 7;
    kit_set.shuffle_tasks = true;
    kit_set.shuffle = TASK_SHUFFLE_FILE;
    kit_train(100, 7);
    for (uint32_t e = 0; e < 2; e++) {
        uint8_t seen[100] = {0};
        uint32_t n = 0, in_order = 0;

        for (uint32_t i = 0; i < 15; i++) {
            task = kit_take(A);
            in_order += task.first == 7 * i;
            for (uint64_t k = 0; k < task.end - task.first; k++) {
                order[e][n] = tasks_record(&task, k);
                assert_int_equal(seen[order[e][n++]]++, 0);
            }
            kit_report(A, &task);
        }
        assert_int_equal(n, 100);
        assert_true(in_order < 10);
    }
    assert_true(memcmp(order[0], order[1], sizeof(order[0])) != 0);
}

static void records_are_mixed_within_their_task(void **state)
{
    uint8_t seen[20] = {0};
    bool moved = false;
    struct task task;

    kit_set.shuffle = TASK_SHUFFLE_OWN;
    assert_int_equal((kit_set.per_task = 20, kit_describe(1, 5, (const uint64_t[]){20})), MU_OK);
    task = kit_take(A);
    for (uint64_t k = 0; k < 20; k++) {
        uint64_t at = tasks_record(&task, k) - 5;

        assert_true(at < 20);
        assert_int_equal(seen[at]++, 0);
        moved |= at != k;
    }
    assert_true(moved);
}

/* Rows 15 and 16: several at once; a repeated question has the same answer. */
static void a_repeated_question_has_the_same_answer(void **state)
{
    struct task first[4], again[4];
    struct tasks_given given;

    kit_train(10, 1);
    assert_int_equal(tasks_get(kit, A, 1, 4, kit_now_ms, &kit_out, first, &given), MU_OK);
    assert_int_equal(given.tasks_n, 4);
    assert_int_equal(tasks_get(kit, A, 1, 4, kit_now_ms, &kit_out, again, &given), MU_OK);
    assert_int_equal(given.tasks_n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(again[i].attempt, first[i].attempt);
        assert_int_equal(again[i].id, i + 1);
        assert_string_equal(again[i].file, "f0");
    }
    assert_int_equal(tasks_get(kit, A, 2, 1, kit_now_ms, &kit_out, again, &given), MU_OK);
    assert_int_equal(again[0].id, 5);
    assert_int_equal(tasks_get(kit, A, 1, 4, kit_now_ms, &kit_out, again, &given), MU_ESTALE);
}

/* Row 19. */
static void an_empty_answer_has_the_models_version(void **state)
{
    struct tasks_given given;
    struct task none;

    tasks_version(kit, 12, &kit_out);
    assert_int_equal(tasks_get(kit, A, 1, 1, kit_now_ms, &kit_out, &none, &given), MU_OK);
    assert_int_equal(given.state, TASKS_WAIT);
    assert_int_equal(given.version, 12);
}

/* Row 20, behaviour 19. */
static void each_failure_costs_exactly_one_more_run(void **state)
{
    uint32_t given_n = 0, failed_n = 0;
    struct task task;

    kit_set.per_task = 5;
    assert_int_equal(kit_describe(3, 0, (const uint64_t[]){10, 10, 10}), MU_OK);
    while (kit_get(A, &task) == TASKS_GIVEN) {
        given_n++;
        if (task.first == 0 && failed_n < 3 && given_n == 2 * failed_n + failed_n + 1) {
            failed_n++;
            assert_int_equal(kit_fail(A, &task, "once"), TASK_NOTED);
        } else {
            assert_int_equal(kit_report(A, &task), TASK_COUNTED);
        }
    }
    assert_int_equal(failed_n, 3);
    assert_int_equal(given_n, 9);
    assert_int_equal(kit_look().kinds[TASK_TRAINING].done, 6);
}

static void a_stale_report_of_a_failure_is_refused(void **state)
{
    struct task old, now;

    kit_train(1, 1);
    old = kit_take(A);
    tasks_lost(kit, A, &kit_out);
    now = kit_take(B);
    assert_int_equal(kit_fail(A, &old, "late"), TASK_STALE);
    assert_int_equal(kit_report(B, &now), TASK_COUNTED);
    old.id = 99;
    assert_int_equal(kit_report(A, &old), TASK_OVER);
}

static void slow_tasks_are_copied_by_option_and_the_first_report_wins(void **state)
{
    struct task slow, copy, none;

    kit_set.copies = true;
    kit_train(21, 1);
    for (uint32_t i = 0; i < 20; i++) {
        struct task task = kit_take(B);

        kit_tick(1000);
        assert_int_equal(kit_report(B, &task), TASK_COUNTED);
    }
    slow = kit_take(A);
    assert_int_equal(kit_get(B, &none), TASKS_WAIT);
    kit_tick(2000);
    assert_int_equal(kit_get(A, &none), TASKS_WAIT); /* not of its own */
    copy = kit_take(B);
    assert_int_equal(copy.id, slow.id);
    assert_int_equal(kit_get(C, &none), TASKS_WAIT); /* one copy */
    assert_int_equal(kit_report(A, &slow), TASK_COUNTED);
    assert_int_equal(kit_report(B, &copy), TASK_TAKEN);
    assert_int_equal(kit_get(C, &none), TASKS_FINISHED);
}

int main(void)
{
    const struct CMUnitTest all[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
        TEST(ids_are_from_1_and_failed_and_lost_tasks_come_again),
        TEST(files_need_not_start_at_record_0),
        TEST(empty_files_have_no_tasks),
        TEST(two_epochs_have_the_same_ranges_twice),
        TEST(an_epoch_begins_when_the_last_is_wholly_done),
        TEST(epochs_overlap_by_option),
        TEST(the_train_end_task_comes_last_and_has_a_shard),
        TEST(a_task_begun_long_ago_goes_back),
        TEST(a_late_result_counts_while_nobody_else_has_the_task),
        TEST(time_outs_follow_what_slow_tasks_of_a_kind_took),
        TEST(a_clock_that_jumps_makes_nobody_late),
        TEST(the_first_description_wins),
        TEST(many_files_are_described_in_parts),
        TEST(bad_descriptions_are_refused_in_words),
        TEST(a_task_that_fails_too_often_is_parked_and_named),
        TEST(more_are_parked_than_are_listed),
        TEST(a_task_that_ends_its_workers_is_parked),
        TEST(evaluation_is_served_first),
        TEST(a_loose_pass_gives_each_task_once_and_tracks_nothing),
        TEST(epochs_below_1_are_endless_until_the_steps_are_done),
        TEST(steps_go_on_from_the_checkpoints_version),
        TEST(a_report_completes_several_tasks_and_counts_bad_records_by_kind),
        TEST(tasks_and_records_are_mixed_by_a_seed_each_once),
        TEST(records_are_mixed_within_their_task),
        TEST(a_repeated_question_has_the_same_answer),
        TEST(an_empty_answer_has_the_models_version),
        TEST(each_failure_costs_exactly_one_more_run),
        TEST(a_stale_report_of_a_failure_is_refused),
        TEST(slow_tasks_are_copied_by_option_and_the_first_report_wins),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
