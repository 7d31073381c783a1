/* The numbers of training on their way to the agent: the newest, now and then, and the last one
 * always. */
#include "unit/run/run_kit.h"

#include "run/run.h"

#include <math.h>
#include <string.h>

static struct fake agent;
static struct metric room[METRICS_MAX];

static void next_metrics(union wire_any *msg)
{
    struct wire_scratch scratch = {.mem = (uint8_t *)room, .cap = sizeof(room)};
    union wire_any asked;

    fake_next(&agent, WIRE_ASK, &asked);
    assert_int_equal(asked.ask.kind, ASK_METRICS);
    assert_int_equal(
        wire_body_decode(WIRE_BODY_METRICS, asked.ask.body, asked.ask.body_n, msg, &scratch, NULL),
        MU_OK);
}

static mu_run *join(void)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);

    pthread_mutex_lock(&run->lock);
    assert_int_equal(metrics_add(run, "loss"), MU_OK);
    assert_int_equal(metrics_add(run, "accuracy"), MU_OK);
    pthread_mutex_unlock(&run->lock);
    return run;
}

static void tell(mu_run *run, uint64_t step, double loss, double accuracy)
{
    const double means[] = {loss, accuracy};

    pthread_mutex_lock(&run->lock);
    told_metrics(run, step, means);
    pthread_mutex_unlock(&run->lock);
}

static double value(const struct body_metrics *m, uint32_t i)
{
    double d;

    memcpy(&d, &m->metrics[i].bits, sizeof(d));
    return d;
}

static void numbers_are_said_by_their_names(void **state)
{
    mu_run *run = join();
    union wire_any msg;

    tell(run, 41, 0.5, 0.25);
    next_metrics(&msg);
    assert_true(msg.metrics.step == 41);
    assert_int_equal(msg.metrics.metrics_n, 2);
    assert_string_equal(msg.metrics.metrics[0].name, "loss");
    assert_string_equal(msg.metrics.metrics[1].name, "accuracy");
    assert_true(value(&msg.metrics, 0) == 0.5 && value(&msg.metrics, 1) == 0.25);
    fake_leave(&agent, run);
}

static void a_number_that_is_none_is_said_too(void **state)
{
    mu_run *run = join();
    union wire_any msg;

    tell(run, 1, NAN, -INFINITY);
    next_metrics(&msg);
    assert_true(isnan(value(&msg.metrics, 0)) && isinf(value(&msg.metrics, 1)));
    fake_leave(&agent, run);
}

static void of_many_steps_the_newest_numbers_are_said(void **state)
{
    enum { STEPS = 100000 };
    mu_run *run = join();
    uint64_t began_ms = clock_ms(), last = 0, n = 0;
    union wire_any msg;

    for (uint64_t step = 1; step <= STEPS; step++) {
        tell(run, step, (double)step, 0);
    }
    while (last < STEPS) {
        next_metrics(&msg);
        assert_true(msg.metrics.step > last);
        last = msg.metrics.step;
        assert_true(value(&msg.metrics, 0) == (double)last);
        n++;
    }
    assert_true(n <= (clock_ms() - began_ms) / 50 + 2);
    fake_leave(&agent, run);
}

static void other_numbers_are_said_beside_them(void **state)
{
    mu_run *run = join();
    union wire_any msg;
    char name[] = "number-a";

    assert_int_equal(mu_log(run, "accuracy", 1), MU_EEXIST);
    assert_int_equal(mu_log(run, "two words", 1), MU_EINVAL);
    assert_int_equal(mu_log(run, NULL, 1), MU_EINVAL);
    assert_int_equal(mu_log(run, "rate", 0.125), MU_OK); /* Not rank 0: not at once. */
    tell(run, 41, 0.5, 0.25);
    next_metrics(&msg);
    assert_int_equal(msg.metrics.metrics_n, 3);
    assert_string_equal(msg.metrics.metrics[2].name, "rate");
    assert_true(value(&msg.metrics, 2) == 0.125 && msg.metrics.step == 41);
    for (int i = 3; i < MU_METRICS_MAX; i++, name[7]++) {
        assert_int_equal(mu_log(run, name, i), MU_OK);
    }
    assert_int_equal(mu_log(run, name, 1), MU_ELIMIT);
    assert_int_equal(mu_log(run, "rate", 1), MU_OK);
    fake_leave(&agent, run);
}

/* All of them are said in one message. */
static void what_was_logged_before_counts_when_metrics_are_named(void **state)
{
    mu_run *run = join();
    char name[] = "metric-a";

    assert_int_equal(mu_log(run, "rate", 0.125), MU_OK);
    pthread_mutex_lock(&run->lock);
    for (int i = 3; i < MU_METRICS_MAX; i++, name[7]++) {
        assert_int_equal(metrics_add(run, name), MU_OK);
    }
    assert_int_equal(metrics_add(run, name), MU_ELIMIT);
    pthread_mutex_unlock(&run->lock);
    fake_leave(&agent, run);
}

static void rank_0_says_them_at_once(void **state)
{
    mu_run *run = fake_join_world(&agent, "4 5");
    union wire_any msg;

    assert_int_equal(mu_log(run, "rate", 0.125), MU_OK);
    next_metrics(&msg);
    assert_int_equal(msg.metrics.metrics_n, 1);
    assert_true(value(&msg.metrics, 0) == 0.125);
    fake_leave(&agent, run);
}

static void *leave_main(void *arg)
{
    assert_int_equal(mu_leave(arg), MU_OK);
    return NULL;
}

static void the_last_numbers_are_among_the_last_words(void **state)
{
    mu_run *run = join();
    union wire_any msg;
    pthread_t thread;

    tell(run, 1, 1, 1);
    next_metrics(&msg);
    tell(run, 2, 2, 2); /* They would wait for a moment. */
    assert_int_equal(pthread_create(&thread, NULL, leave_main, run), 0);
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.phase, PHASE_FINISHED);
    next_metrics(&msg);
    assert_true(msg.metrics.step == 2);
    fake_end_begin(&agent);
    pthread_join(thread, NULL);
    fake_end_join(&agent);
    fake_close(&agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_said_by_their_names),
        cmocka_unit_test(a_number_that_is_none_is_said_too),
        cmocka_unit_test(of_many_steps_the_newest_numbers_are_said),
        cmocka_unit_test(other_numbers_are_said_beside_them),
        cmocka_unit_test(what_was_logged_before_counts_when_metrics_are_named),
        cmocka_unit_test(rank_0_says_them_at_once),
        cmocka_unit_test(the_last_numbers_are_among_the_last_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
