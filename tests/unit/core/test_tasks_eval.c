/* Evaluations: when there is one, and what comes of it. */
#include "tasks_kit.h"

#include "base/prng.h"

#include <math.h>
#include <string.h>

#define A wid_make(1, 0, 1)
#define B wid_make(2, 0, 1)

static void describe_both(uint64_t eval_steps, uint64_t eval_records)
{
    kit_set.eval_steps = eval_steps;
    kit_set.epochs = 0;
    kit_train(1000, 1);
    kit_set = tasks_set(TASK_EVALUATION, "eval", 1, 1);
    assert_int_equal(kit_describe(1, 0, &eval_records), MU_OK);
}

static void put_mean(uint8_t *to, double sum, uint64_t count)
{
    uint64_t bits;

    memcpy(&bits, &sum, sizeof(bits));
    word_put(to, bits);
    word_put(to + 8, count);
}

static int evaluate(wid worker, const struct task *task, const struct task_metric *metrics,
                    uint32_t metrics_n, const uint8_t *values, uint32_t values_n)
{
    static uint64_t number;
    struct task_item item = {task->id, task->attempt, 0, false};
    struct tasks_report r = {.worker = worker,
                             .number = ++number,
                             .acked = number - 1,
                             .items_n = 1,
                             .items = &item,
                             .metrics_n = metrics_n,
                             .metrics = metrics,
                             .values_n = values_n,
                             .values = values};
    uint8_t verdict;
    bool pending;
    int rc = tasks_report(kit, &r, kit_now_ms, &kit_out, &verdict, &pending, kit_why, 256);

    kit_tick(0);
    return rc == MU_OK && verdict != TASK_COUNTED ? MU_EREFUSED : rc;
}

static const struct task_metric means[] = {{"accuracy", TASKS_METRIC_MEAN, 2},
                                           {"mse", TASKS_METRIC_MEAN, 2}};

/* Row 31: finished after n tasks; the values of theirs. */
static void metrics_are_added_up_over_reports(void **state)
{
    const double mse[] = {9.5, 10, 10.25, 10.75};
    uint8_t values[32];

    describe_both(0, 4);
    kit_take(B);
    assert_int_equal(tasks_evaluate(kit, 100, &kit_out, NULL, 0), MU_OK);
    kit_tick(0);
    for (uint32_t i = 0; i < 4; i++) {
        struct task task = kit_take(A);

        put_mean(values, i == 0, 1);
        put_mean(values + 16, mse[i] * 2, 2);
        assert_null(tasks_result(kit, 0));
        assert_int_equal(evaluate(A, &task, means, 2, values, sizeof(values)), MU_OK);
        kit_check_rebuilt();
    }
    const struct tasks_result *result = tasks_result(kit, 0);
    assert_non_null(result);
    assert_int_equal(result->version, 100);
    assert_string_equal(result->metrics[0].name, "accuracy");
    assert_true(result->metrics[0].value == .25);
    assert_true(result->metrics[1].value == 10.125);
}

/* Row 32. */
static void only_a_newer_version_is_evaluated_and_metrics_need_an_evaluation(void **state)
{
    uint8_t values[32] = {0};
    struct task task;

    assert_int_equal(tasks_evaluate(kit, 5, &kit_out, kit_why, 256), MU_ENOENT);
    describe_both(0, 1);
    assert_int_equal(tasks_evaluate(kit, 5, &kit_out, kit_why, 256), MU_OK);
    kit_tick(0);
    assert_int_equal(tasks_evaluate(kit, 5, &kit_out, kit_why, 256), MU_ESTALE);
    assert_int_equal(tasks_evaluate(kit, 4, &kit_out, kit_why, 256), MU_ESTALE);
    assert_non_null(strstr(kit_why, "not newer than 5"));
    assert_int_equal(kit_take(A).kind, TASK_EVALUATION);
    task = kit_take(A);
    assert_int_equal(task.kind, TASK_TRAINING);
    assert_int_equal(evaluate(A, &task, means, 2, values, sizeof(values)), MU_EINVAL);
    assert_non_null(strstr(kit_why, "one task of an evaluation"));
}

/* Row 33. */
static void a_job_may_be_an_evaluation_alone(void **state)
{
    struct task task, none;

    kit_set = tasks_set(TASK_EVALUATION, "eval", 1, 5);
    kit_set.at_once = true;
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){10}), MU_OK);
    for (uint32_t i = 0; i < 2; i++) {
        task = kit_take(A);
        assert_int_equal(task.kind, TASK_EVALUATION);
        assert_int_equal(kit_report(A, &task), TASK_COUNTED);
    }
    assert_int_equal(kit_get(A, &none), TASKS_FINISHED);
    assert_non_null(tasks_result(kit, 0));
}

static void a_job_may_be_a_prediction_alone(void **state)
{
    struct task out[4];

    kit_set = tasks_set(TASK_PREDICTION, "predict", 1, 5);
    assert_int_equal(kit_describe(1, 0, (const uint64_t[]){11}), MU_OK);
    assert_int_equal(kit_all(A, out, 4), 3);
    assert_int_equal(out[0].kind, TASK_PREDICTION);
    assert_int_equal(kit_get(A, out), TASKS_FINISHED);
}

/* Row 34, behaviour 22. */
static void versions_wait_while_one_is_evaluated(void **state)
{
    const uint64_t versions[] = {5, 10, 10, 20, 10, 30};
    struct task task;

    describe_both(10, 1);
    for (uint32_t i = 0; i < 6; i++) {
        tasks_version(kit, versions[i], &kit_out);
        kit_tick(0);
    }
    assert_int_equal(kit_look().evaluating, 10);
    assert_int_equal(kit_look().waiting_n, 2);
    for (uint64_t v = 10; v <= 30; v += 10) {
        task = kit_take(A);
        assert_int_equal(task.kind, TASK_EVALUATION);
        assert_int_equal(task.version, v);
        assert_int_equal(kit_take(B).kind, TASK_TRAINING); /* one at a time */
        assert_int_equal(kit_report(A, &task), TASK_COUNTED);
    }
    assert_int_equal(kit_look().waiting_n, 0);
    assert_int_equal(tasks_result(kit, 0)->version, 30);
    assert_int_equal(tasks_result(kit, 2)->version, 10);
}

static void a_multiple_that_no_level_named_is_not_missed(void **state)
{
    describe_both(10, 1);
    tasks_version(kit, 19, &kit_out);
    tasks_version(kit, 21, &kit_out);
    kit_tick(0);
    assert_int_equal(kit_look().evaluating, 19);
    assert_int_equal(kit_look().waiting_n, 1);
}

static void only_so_many_evaluations_wait(void **state)
{
    describe_both(0, 1);
    for (uint64_t v = 1; v <= TASKS_WAITING_MAX + 1; v++) {
        assert_int_equal(tasks_evaluate(kit, v, &kit_out, kit_why, 256), MU_OK);
        kit_tick(0);
    }
    assert_int_equal(tasks_evaluate(kit, 9999, &kit_out, kit_why, 256), MU_ELIMIT);
}

#define BINS 200u

/* Row 35: neither chunks nor their order change a bit. */
static void an_auc_in_chunks_is_the_auc_at_once(void **state)
{
    const struct task_metric auc = {"auc", TASKS_METRIC_AUC, 2 * BINS};
    uint64_t all[2 * BINS] = {0}, parts[10][2 * BINS] = {{0}};
    static uint8_t values[16 * BINS];
    double exact = 0, pairs = 0, scores[1000];
    bool labels[1000];
    struct prng p;

    prng_init(&p, 3);
    for (uint32_t i = 0; i < 1000; i++) {
        labels[i] = prng_below(&p, 3) == 0;
        scores[i] = ((double)prng_below(&p, 1000) + (labels[i] ? 400 : 0)) / 1400;
        uint32_t bin = metric_bin(scores[i], BINS) + (labels[i] ? 0 : BINS);
        all[bin]++;
        parts[i % 10][bin]++;
    }
    for (uint32_t i = 0; i < 1000; i++) {
        for (uint32_t k = 0; k < 1000; k++) {
            if (labels[i] && !labels[k]) {
                pairs++;
                exact += scores[i] > scores[k] ? 1 : scores[i] < scores[k] ? 0 : .5;
            }
        }
    }
    describe_both(0, 10);
    assert_int_equal(tasks_evaluate(kit, 1, &kit_out, NULL, 0), MU_OK);
    kit_tick(0);
    for (uint32_t i = 0; i < 10; i++) {
        struct task task = kit_take(A);

        for (uint32_t k = 0; k < 2 * BINS; k++) {
            word_put(values + (size_t)8 * k, parts[i][k]);
        }
        assert_int_equal(evaluate(A, &task, &auc, 1, values, sizeof(values)), MU_OK);
    }
    double got = tasks_result(kit, 0)->metrics[0].value;
    assert_true(got == metric_auc(all, all + BINS, BINS));
    assert_true(fabs(got - exact / pairs) < .01);
    assert_true(got > .6 && got < 1);
}

/* Any order of any values has the sum that is nearest to the true one. */
static void sums_are_exact(void **state)
{
    double values[300];
    struct exact forth = {0}, back = {0};
    struct prng p;

    exact_add(&forth, 1e300);
    exact_add(&forth, 5e-324);
    exact_add(&forth, 1);
    exact_add(&forth, -1e300);
    assert_true(exact_get(&forth) == 1);
    exact_add(&forth, -1);
    assert_true(exact_get(&forth) == 5e-324);
    exact_add(&forth, -1e-323);
    assert_true(exact_get(&forth) == -5e-324);
    forth = (struct exact){0};
    prng_init(&p, 9);
    for (uint32_t i = 0; i < 300; i++) {
        values[i] = ldexp((double)prng_u64(&p) - 9e18, (int)prng_below(&p, 600) - 300);
        exact_add(&forth, values[i]);
    }
    for (uint32_t i = 300; i-- > 0;) {
        exact_add(&back, values[i]);
    }
    assert_memory_equal(&forth, &back, sizeof(forth));
    for (uint32_t i = 0; i < 300; i++) {
        exact_add(&back, -values[i]);
    }
    assert_true(exact_get(&back) == 0);
    for (uint32_t i = 0; i < 300; i++) { /* one value is itself: rounding, subnormals */
        struct exact one = {0};
        double x = i < 100 ? ldexp(values[i], -1100) : values[i];

        exact_add(&one, x);
        assert_true(exact_get(&one) == x);
        exact_add(&one, x / 3);
        long double both = (long double)x + (long double)(x / 3);
        assert_true(i < 100 || exact_get(&one) == (double)both);
    }
    exact_add(&back, INFINITY);
    assert_true(isinf(exact_get(&back)));
    exact_add(&back, -INFINITY);
    assert_true(isnan(exact_get(&back)));
}

static void metrics_that_make_no_sense_are_refused(void **state)
{
    const struct task_metric twice[] = {means[0], means[0]};
    const struct task_metric odd = {"a", TASKS_METRIC_AUC, 3}, big = {"a", TASKS_METRIC_AUC, 8000},
                             other = {"accuracy", TASKS_METRIC_AUC, 2};
    static uint8_t values[TASKS_VALUES_MAX];
    struct task task;

    describe_both(0, 2);
    assert_int_equal(tasks_evaluate(kit, 1, &kit_out, NULL, 0), MU_OK);
    kit_tick(0);
    task = kit_take(A);
    assert_int_equal(evaluate(A, &task, twice, 2, values, 32), MU_EINVAL);
    assert_int_equal(evaluate(A, &task, &odd, 1, values, 24), MU_EINVAL);
    assert_int_equal(evaluate(A, &task, &big, 1, values, 64000), MU_EINVAL);
    assert_int_equal(evaluate(A, &task, means, 2, values, 31), MU_EINVAL);
    /* With two tasks it would not be known whose they are, also if one does not count. */
    struct task_item two[] = {{99, 1, 0, false}, {task.id, task.attempt, 0, false}};
    struct tasks_report both = {.worker = A,
                                .number = 1000,
                                .acked = 999,
                                .items_n = 2,
                                .items = two,
                                .metrics_n = 2,
                                .metrics = means,
                                .values_n = 32,
                                .values = values};
    uint8_t verdicts[2];
    bool pending;
    assert_int_equal(tasks_report(kit, &both, kit_now_ms, &kit_out, verdicts, &pending, NULL, 0),
                     MU_EINVAL);
    assert_int_equal(evaluate(A, &task, means, 2, values, 32), MU_OK);
    task = kit_take(A);
    assert_int_equal(evaluate(A, &task, &other, 1, values, 16), MU_EINVAL);
    assert_non_null(strstr(kit_why, "with another type"));
    /* One without any is fine. */
    assert_int_equal(evaluate(A, &task, NULL, 0, NULL, 0), MU_OK);
    assert_int_equal(tasks_result(kit, 0)->metrics_n, 2);
}

int main(void)
{
    const struct CMUnitTest all[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
        TEST(metrics_are_added_up_over_reports),
        TEST(only_a_newer_version_is_evaluated_and_metrics_need_an_evaluation),
        TEST(a_job_may_be_an_evaluation_alone),
        TEST(a_job_may_be_a_prediction_alone),
        TEST(versions_wait_while_one_is_evaluated),
        TEST(a_multiple_that_no_level_named_is_not_missed),
        TEST(only_so_many_evaluations_wait),
        TEST(an_auc_in_chunks_is_the_auc_at_once),
        TEST(sums_are_exact),
        TEST(metrics_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
