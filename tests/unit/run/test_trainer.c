/* What a run asks of training, with a trainer that does nothing else than answer. */
#include "unit/run/run_kit.h"

#include "run/run.h"

#include <stdatomic.h>
#include <string.h>

struct train {
    struct report says;
    uint32_t left_n, closed_n;
};

static struct fake agent;
static struct train trainer;

static void report(const struct train *t, struct report *r)
{
    r->phase = t->says.phase;
    r->entered = t->says.entered;
    r->checkpoint = t->says.checkpoint;
    r->fault = t->says.fault;
    r->odd = t->says.odd;
    r->agreed = t->says.agreed;
}

static void leave(struct train *t)
{
    assert_int_equal(t->closed_n, 0);
    t->left_n++;
}

static void close_train(struct train *t)
{
    t->closed_n++;
}

static mu_run *join(void)
{
    static const struct trainer_ops ops = {report, leave, close_train};
    mu_run *run = fake_join(&agent, FAKE_LIFE);

    trainer = (struct train){.says = {.phase = PHASE_WARMING}};
    pthread_mutex_lock(&run->lock);
    run->train = &trainer;
    run->trainer = &ops;
    pthread_mutex_unlock(&run->lock);
    return run;
}

/* What it says of itself is `says` now. */
static struct report tell(mu_run *run, struct report says)
{
    union wire_any msg;

    pthread_mutex_lock(&run->lock);
    trainer.says = says;
    told_again(run);
    told_again(run); /* Once is enough. */
    pthread_mutex_unlock(&run->lock);
    return fake_next(&agent, WIRE_REPORT, &msg)->report;
}

static void whatever_changes_is_reported_once(void **state)
{
    mu_run *run = join();
    struct report says = {.phase = PHASE_IN, .entered = 7};

    assert_int_equal(tell(run, says).entered, 7);
    says.checkpoint = 20;
    assert_int_equal(tell(run, says).checkpoint, 20);
    says.agreed = 30;
    assert_int_equal(tell(run, says).agreed, 30);
    says.fault = FAULT_STATES;
    assert_int_equal(tell(run, says).fault, FAULT_STATES);
    says.odd = FAKE_WORKER;
    assert_int_equal(tell(run, says).odd, FAKE_WORKER);
    says.entered = 0; /* Nobody needs it, so that it can leave. */
    assert_int_equal(tell(run, says).entered, 0);
    fake_leave(&agent, run);
}

/* The agent says how often a checkpoint was wanted: the first number is what was before. */
static void people_want_a_checkpoint(void **state)
{
    static const struct {
        uint32_t said;
        bool wanted;
    } rows[] = {{2, false}, {2, false}, {3, true}, {3, false}, {0, false}, {1, true}};
    mu_run *run = join();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct msg_lease lease = {.saves = rows[i].said};
        uint64_t news;

        pthread_mutex_lock(&run->lock);
        news = run->news;
        fake_say(&agent, WIRE_LEASE, &lease);
        while (run->news == news) {
            assert_true(call_wait(run, run_due_ms(20000)));
        }
        assert_int_equal(atomic_exchange(&run->save_wanted, false), rows[i].wanted);
        pthread_mutex_unlock(&run->lock);
    }
    fake_leave(&agent, run);
}

static void one_that_is_set_up_has_the_group(void **state)
{
    mu_run *run = join();
    float one = 1;

    run->trains = true;
    assert_int_equal(mu_allreduce(run, &one, &one, 1, MU_F32, MU_SUM, 0), MU_EBUSY);
    assert_non_null(strstr(mu_error(), "mu_next()"));
    fake_leave(&agent, run);
}

static void it_leaves_before_it_is_closed(void **state)
{
    mu_run *run = join();

    fake_leave(&agent, run);
    assert_true(trainer.left_n == 1 && trainer.closed_n == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_changes_is_reported_once),
        cmocka_unit_test(people_want_a_checkpoint),
        cmocka_unit_test(one_that_is_set_up_has_the_group),
        cmocka_unit_test(it_leaves_before_it_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
