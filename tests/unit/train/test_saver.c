/* The thread that writes: whatever it is told, it says what became of the copy. */
#include "unit/unit.h"

#include "train/train.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMES = 300, BOUND_MS = 10000 };

static char dir[] = "/tmp/mu-saver-XXXXXX";
static float weights[1000];
static mu_run *run;

static int join(void **state)
{
    (void)state;
    unsetenv("MUSTER_SOCKET");
    assert_non_null(mkdtemp(dir));
    setenv("MUSTER_CKPT_DIR", dir, 1);
    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_state(run, "weights", weights, sizeof(weights)), MU_OK);
    assert_int_equal(mu_gradient(run, 10, MU_F32), MU_OK);
    assert_int_equal(mu_data(run, 100, 10, 1, 1), MU_OK);
    return 0;
}

static int leave(void **state)
{
    char job[sizeof(dir) + 16];

    (void)state;
    assert_int_equal(mu_leave(run), MU_OK);
    snprintf(job, sizeof(job), "%s/alone", dir);
    (void)rmdir(job);
    return rmdir(dir);
}

/* The first writer of two: without the other one there will be no checkpoint. */
static void copy(struct saver *s, uint64_t step)
{
    saver_take(s);
    assert_int_equal(saver_room(s, sizeof(weights)), MU_OK);
    memcpy(s->copy.data, weights, sizeof(weights));
    strcpy(s->copy.tag, "test");
    s->copy.mark.step = step;
    s->copy.shard = 0;
    s->copy.target = (struct ckpt_target){.dir = dir,
                                          .job = "alone",
                                          .step = step,
                                          .tag = s->copy.tag,
                                          .shards_n = 2,
                                          .bytes = sizeof(weights)};
}

/* Another writer may have failed before this one's thread has begun. */
static void one_that_is_given_up_at_once_is_told_of_and_nothing_is_left_of_it(void **state)
{
    struct saver *s = &run->train->savers[SAVE_DISK];
    char folder[sizeof(dir) + 64];

    (void)state;
    for (uint64_t step = 1; step <= TIMES; step++) {
        const uint64_t until_ms = clock_ms() + BOUND_MS;
        struct attempt a = {.how = SAVE_NONE};

        copy(s, step);
        saver_go(s);
        saver_abandon(s);
        while (!saver_news(s, &a) && clock_ms() < until_ms) {
            usleep(100);
        }
        assert_int_equal(a.step, step);
        assert_true(a.how == SAVE_FAILED || a.how == SAVE_DURABLE);
        saver_take(s);
        snprintf(folder, sizeof(folder), "%s/alone/.step-%012u.test", dir, (unsigned)step);
        assert_int_not_equal(access(folder, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            one_that_is_given_up_at_once_is_told_of_and_nothing_is_left_of_it, join, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
