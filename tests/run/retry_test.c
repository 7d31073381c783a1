/* Three workers train; one of them wants for memory, once, at any of the points at which mu_next()
 * or a part of the state takes some. mu_next() says so and is called again, or does without: all
 * end with the bits of one worker by itself.
 *
 *   retry_test                       the test
 *   retry_test shm joining 3 17      one case */
#include "run/sweep.h"

#include "ckpt/ckpt.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last state is always saved; the others only if the one before it has been written by then. */
enum { SAVE_TRIES = 100 };

static void must_go_well(const struct sweep_case *c, struct sweep_result *result)
{
    char name[64];

    sweep_run(c, false, result);
    if (!result->well) {
        fail_msg("%s: %s; again: run_retry_test %s", sweep_name(c, name), result->why,
                 sweep_name(c, name));
    }
}

/* What was saved after `step` goes. Gives the newest that is left; 0: none. */
static uint64_t go_back(const char *dir, uint64_t step)
{
    struct ckpt_entry *entries = NULL;
    struct ckpt_why why;
    uint64_t newest = 0;
    uint32_t n = 0;

    assert_int_equal(ckpt_list(dir, "sweep", &entries, &n, &why), MU_OK);
    for (uint32_t i = 0; i < n; i++) {
        if (entries[i].step > step) {
            assert_int_equal(ckpt_remove(dir, "sweep", entries[i].step, &why), MU_OK);
        } else if (newest == 0) {
            newest = entries[i].step;
        }
    }
    free(entries);
    return newest;
}

/* It starts from the checkpoint of step `from`, if there is to be one. */
static void run_again(const struct sweep_case *c, struct sweep_result *result)
{
    if (c->dir != NULL) {
        assert_int_equal(go_back(c->dir, c->from), c->from);
    }
    must_go_well(c, result);
}

/* Gives how often mu_next() failed. */
static uint32_t deny_each(struct sweep_case *c)
{
    uint32_t failed_n = 0;
    struct sweep_result result;
    unsigned long points_n;

    c->denied = true;
    c->k = 0;
    run_again(c, &result);
    points_n = result.points;
    for (c->k = 1; c->k <= points_n; c->k++) {
        run_again(c, &result);
        failed_n += result.failed_n;
    }
    print_message("# %s, %s, worker %u: %lu points, %u failures\n", sweep_layout_name(c->layout),
                  sweep_story_name(c->story), c->victim, points_n, failed_n);
    return failed_n;
}

static void memory_that_the_first_one_lacks_is_asked_for_again(void **state)
{
    struct sweep_case c = {.layout = SWEEP_SHM, .story = SWEEP_WHOLE, .victim = 0};

    assert_true(deny_each(&c) > 0);
}

static void memory_that_another_one_lacks_is_asked_for_again(void **state)
{
    struct sweep_case c = {.layout = SWEEP_TCP, .story = SWEEP_WHOLE, .victim = 2};

    assert_true(deny_each(&c) > 0);
}

static void memory_that_one_lacks_who_gives_its_state_is_asked_for_again(void **state)
{
    struct sweep_case c = {.layout = SWEEP_TCP, .story = SWEEP_JOINING, .victim = 1};

    assert_true(deny_each(&c) > 0);
}

static void memory_that_a_newcomer_lacks_is_asked_for_again(void **state)
{
    struct sweep_case c = {.layout = SWEEP_SHM, .story = SWEEP_JOINING, .victim = SWEEP_FIRST};

    assert_true(deny_each(&c) > 0);
}

/* … and no older checkpoint is taken for that, nor is it begun anew. */
static void from_a_checkpoint(uint32_t victim)
{
    char dir[] = "/tmp/mu-retry-XXXXXX", command[64];
    struct sweep_case c = {.layout = SWEEP_SHM, .story = SWEEP_WHOLE, .victim = victim};
    struct sweep_result result;

    c.dir = mkdtemp(dir);
    assert_non_null(c.dir);
    setenv("MUSTER_CKPT_KEEP", "9", 1);
    c.denied = true;
    for (int i = 0; c.from == 0 && i < SAVE_TRIES; i++) {
        must_go_well(&c, &result);
        c.from = go_back(c.dir, SWEEP_STEPS - 1);
    }
    assert_true(c.from > 0);
    assert_true(deny_each(&c) > 0);
    unsetenv("MUSTER_CKPT_KEEP");
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void memory_that_the_reader_of_a_checkpoint_lacks_is_asked_for_again(void **state)
{
    from_a_checkpoint(0);
}

static void memory_that_another_one_lacks_before_a_checkpoint_is_asked_for_again(void **state)
{
    from_a_checkpoint(1);
}

static int one(char **argv)
{
    struct sweep_case c = {.denied = true,
                           .victim = (uint32_t)strtoul(argv[3], NULL, 10),
                           .k = strtoul(argv[4], NULL, 10)};
    struct sweep_result result;

    while (c.layout < SWEEP_LAYOUTS && strcmp(sweep_layout_name(c.layout), argv[1]) != 0) {
        c.layout++;
    }
    while (c.story < SWEEP_STORIES && strcmp(sweep_story_name(c.story), argv[2]) != 0) {
        c.story++;
    }
    if (c.layout == SWEEP_LAYOUTS || c.story == SWEEP_STORIES || c.victim >= SWEEP_MAX) {
        return 2;
    }
    sweep_run(&c, true, &result);
    printf("well=%d failed=%u points=%lu%s%s\n", result.well, result.failed_n, result.points,
           result.well ? "" : " why=", result.why);
    return result.well ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_the_first_one_lacks_is_asked_for_again),
        cmocka_unit_test(memory_that_another_one_lacks_is_asked_for_again),
        cmocka_unit_test(memory_that_one_lacks_who_gives_its_state_is_asked_for_again),
        cmocka_unit_test(memory_that_a_newcomer_lacks_is_asked_for_again),
        cmocka_unit_test(memory_that_the_reader_of_a_checkpoint_lacks_is_asked_for_again),
        cmocka_unit_test(memory_that_another_one_lacks_before_a_checkpoint_is_asked_for_again),
    };

    if (argc > 4) {
        return one(argv);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
