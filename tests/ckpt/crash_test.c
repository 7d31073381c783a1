/* kill -9 at every point (base/hook.h) at which a process that saves, takes in, prunes or removes
 * changes a file: afterwards there is a checkpoint that is whole, nothing that is listed is half,
 * and the next save succeeds. MUSTER_TEST_FULL=1: at each of them, otherwise at a sample by seed.
 *
 * usage: ckpt_crash_test [SCENARIO VICTIM POINT]     one of them again */
#include "base/hook.h"
#include "base/prng.h"
#include "unit/ckpt/ckpt_kit.h"
#include "unit/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS_MAX 3
#define SAMPLE 2
#define HANG_S 60

/* Two whole states: that of the checkpoints before, and the one that is being saved. */
static struct ckpt_kit kit;
static uint8_t *states[2];

struct scenario {
    const char *name;
    uint32_t writers_n;
    void (*before)(void);
    int (*run)(uint32_t writer); /* in a process each; the first commits */
    uint64_t steps[4];           /* that may be there afterwards, ended by 0; … */
    uint64_t must;               /* … that must be there, whoever died; 0: any of them */
    bool no_swap;
};

static const struct scenario *now;

int __wrap_renameat2(int a_fd, const char *a, int b_fd, const char *b, unsigned flags);
int __real_renameat2(int a_fd, const char *a, int b_fd, const char *b, unsigned flags);

int __wrap_renameat2(int a_fd, const char *a, int b_fd, const char *b, unsigned flags)
{
    if (now != NULL && now->no_swap) {
        errno = EINVAL;
        return -1;
    }
    return __real_renameat2(a_fd, a, b_fd, b, flags);
}

/* ---- what the processes do ---- */

static void use_state(int which)
{
    memcpy(kit.state, states[which], (size_t)kit.bytes);
}

static void save_whole(uint64_t step, int which, const char *tag)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, step, tag, 2);
    struct ckpt_why why;

    use_state(which);
    if (ckpt_kit_save(&kit, &t, &why) != MU_OK) {
        fail_msg("step %" PRIu64 ": %s", step, why.text);
    }
}

static void one_before(void)
{
    save_whole(10, 0, "before");
}

static void three_before(void)
{
    save_whole(10, 0, "before");
    save_whole(20, 0, "before");
    save_whole(30, 0, "before");
}

/* Until all have left their sums, as they would say; the test kills who waits for one that died. */
static int gather_and_commit(const struct ckpt_target *t)
{
    const struct ckpt_mark mark = ckpt_kit_mark(t->step);
    char name[128];

    for (uint32_t i = 0; i < t->shards_n; i++) {
        snprintf(name, sizeof(name), ".step-%012" PRIu64 ".%s/shard-%04" PRIu32 ".sums", t->step,
                 t->tag, i);
        while (access(ckpt_kit_path(&kit, name), F_OK) != 0) {
            usleep(500);
        }
    }
    return ckpt_commit(t, &mark, kit.parts, KIT_PARTS, NULL);
}

static int save_step(uint64_t step, uint32_t writer)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, step, "mine", now->writers_n);
    int rc;

    use_state(1);
    rc = ckpt_write_shard(&t, writer, ckpt_kit_data(&kit, &t, writer), NULL, NULL);
    if (rc == MU_OK && writer == 0) {
        rc = gather_and_commit(&t);
    }
    if (rc == MU_OK && writer == 0) {
        rc = ckpt_prune(kit.dir, KIT_JOB, CKPT_NEWEST, 1, 0, "mine", NULL);
    }
    return rc;
}

static int save_next(uint32_t writer)
{
    return save_step(20, writer);
}

static int save_same(uint32_t writer)
{
    return save_step(10, writer);
}

static int prune_all(uint32_t writer)
{
    return ckpt_prune(kit.dir, KIT_JOB, CKPT_NEWEST, 1, 0, NULL, NULL);
}

static int remove_newest(uint32_t writer)
{
    return ckpt_remove(kit.dir, KIT_JOB, 30, NULL);
}

/* The first chunk of a state has come in before. */
static void first_came(int which)
{
    struct ckpt_intake *i;

    one_before();
    use_state(which);
    assert_int_equal(ckpt_intake_open(kit.dir, KIT_JOB, 20, kit.bytes, &i, NULL), MU_OK);
    assert_int_equal(ckpt_kit_put(&kit, i, 0, NULL), MU_OK);
    ckpt_intake_close(i);
}

static void part_before(void)
{
    first_came(1);
}

/* What is left is of another state, and is overwritten. */
static void other_before(void)
{
    first_came(0);
}

static int take_in_next(uint32_t writer)
{
    use_state(1);
    return ckpt_kit_take_in(&kit, 20, NULL, NULL);
}

static int take_in_same(uint32_t writer)
{
    use_state(1);
    return ckpt_kit_take_in(&kit, 10, NULL, NULL);
}

static int give_up(uint32_t writer)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 20, "mine", 1);
    int rc = ckpt_write_shard(&t, 0, states[1], NULL, NULL);

    ckpt_abandon(&t);
    return rc;
}

static const struct scenario scenarios[] = {
    {"save", 1, one_before, save_next, {10, 20}, 0, false},
    {"save3", 3, one_before, save_next, {10, 20}, 0, false},
    {"again", 1, one_before, save_same, {10}, 10, false},
    {"again3", 3, one_before, save_same, {10}, 10, false},
    {"aside", 1, one_before, save_same, {10}, 10, true},
    {"prune", 1, three_before, prune_all, {10, 20, 30}, 30, false},
    {"remove", 1, three_before, remove_newest, {10, 20, 30}, 20, false},
    {"abandon", 1, one_before, give_up, {10}, 10, false},
    {"intake", 1, one_before, take_in_next, {10, 20}, 10, false},
    {"resume", 1, part_before, take_in_next, {10, 20}, 10, false},
    {"other", 1, other_before, take_in_next, {10, 20}, 10, false},
    {"retake", 1, one_before, take_in_same, {10}, 10, false},
    {"retakeaside", 1, one_before, take_in_same, {10}, 10, true},
};

/* ---- a run, with a death in it ---- */

static pid_t start(uint32_t writer, bool dies, unsigned long point, int points_fd)
{
    char order[32];
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        unsigned long n;
        int rc;

        alarm(HANG_S);
        snprintf(order, sizeof(order), "kill:%lu", point);
        hook_arm(dies ? order : NULL);
        rc = now->run(writer);
        n = hook_count();
        if (dies && write(points_fd, &n, sizeof(n)) != sizeof(n)) {
            _exit(2);
        }
        _exit(rc == MU_OK ? 0 : 1);
    }
    return pid;
}

/* Writer `victim` dies at its point'th point, and if it would be waited for, the others with it.
 * Gives how many points it had, if it came to its end. */
static unsigned long play(uint32_t victim, unsigned long point)
{
    pid_t pids[WRITERS_MAX];
    unsigned long points = 0;
    int fds[2], status;

    assert_int_equal(pipe(fds), 0);
    for (uint32_t i = 0; i < now->writers_n; i++) {
        pids[i] = start(i, i == victim, point, fds[1]);
    }
    close(fds[1]);
    assert_int_equal(waitpid(pids[victim], &status, 0), pids[victim]);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        usleep(prng_mix(point) % 3000); /* The others are anywhere. */
    } else {
        assert_int_equal(read(fds[0], &points, sizeof(points)), sizeof(points));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    for (uint32_t i = 0; i < now->writers_n; i++) {
        if (i != victim) {
            if (points == 0) {
                kill(pids[i], SIGKILL);
            }
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(points == 0 || status == 0);
        }
    }
    close(fds[0]);
    return points;
}

/* ---- what is there afterwards ---- */

static bool is_one_of(uint64_t step)
{
    for (size_t i = 0; i < ARRAY_LEN(now->steps) && now->steps[i] != 0; i++) {
        if (now->steps[i] == step) {
            return true;
        }
    }
    return false;
}

/* It is the state before, or the one that was being saved; never some of each. */
static bool is_whole(uint64_t step)
{
    static struct ckpt_why why;

    for (int i = 0; i < 2; i++) {
        use_state(i);
        if (ckpt_kit_load(&kit, step, &why) == MU_OK) {
            return true;
        }
    }
    print_error("step %" PRIu64 ": %s\n", step, why.text);
    return false;
}

static bool look(void)
{
    struct ckpt_entry *entries;
    bool ok, must = now->must == 0;
    uint32_t n;

    assert_int_equal(ckpt_list(kit.dir, KIT_JOB, &entries, &n, NULL), MU_OK);
    ok = n > 0;
    for (uint32_t i = 0; i < n; i++) {
        ok = ok && is_one_of(entries[i].step) && is_whole(entries[i].step);
        must = must || entries[i].step == now->must;
    }
    free(entries);
    return ok && must;
}

/* An intake that died is taken up, and what comes of it is the new state and no other. */
static bool next_intake_succeeds(void)
{
    const uint64_t step = now->run == take_in_same ? 10 : 20;
    struct ckpt_why why;

    if (now->run != take_in_next && now->run != take_in_same) {
        return true;
    }
    use_state(1);
    if (ckpt_kit_take_in(&kit, step, NULL, &why) != MU_OK ||
        ckpt_kit_load(&kit, step, &why) != MU_OK) {
        print_error("%s\n", why.text);
        return false;
    }
    return look();
}

static bool next_save_succeeds(void)
{
    struct ckpt_why why;

    save_whole(40, 1, "next");
    if (ckpt_prune(kit.dir, KIT_JOB, CKPT_NEWEST, 1, 0, NULL, &why) != MU_OK) {
        print_error("%s\n", why.text);
        return false;
    }
    return ckpt_kit_newest(&kit) == 40 && ckpt_kit_count(&kit) == 1;
}

/* Gives the number of points; 0: the victim died at the one that was asked for. */
static unsigned long round_of(uint32_t victim, unsigned long point)
{
    char job[PATH_MAX + 16];
    unsigned long points;

    snprintf(job, sizeof(job), "%s/%s", kit.dir, KIT_JOB);
    ckpt_kit_wipe(job);
    now->before();
    points = play(victim, point);
    if (!look() || !next_intake_succeeds() || !next_save_succeeds()) {
        fail_msg("again: ckpt_crash_test %s %" PRIu32 " %lu", now->name, victim, point);
    }
    return points;
}

static void open_stage(void)
{
    ckpt_kit_open_fast(&kit);
    for (int i = 0; i < 2; i++) {
        ckpt_kit_fill(&kit, (uint64_t)i + 1);
        states[i] = malloc((size_t)kit.bytes);
        assert_non_null(states[i]);
        memcpy(states[i], kit.state, (size_t)kit.bytes);
    }
}

/* After a case that failed, too. */
static int close_stage(void **state)
{
    if (kit.state != NULL) {
        free(states[0]);
        free(states[1]);
        ckpt_kit_close(&kit);
    }
    return 0;
}

static void sweep(const char *name)
{
    const char *seed = getenv("MUSTER_CKPT_SEED");
    struct prng draws;

    prng_init(&draws, seed != NULL ? strtoull(seed, NULL, 10) : 1);
    open_stage();
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            now = &scenarios[i];
        }
    }
    for (uint32_t victim = 0; victim < now->writers_n; victim++) {
        const unsigned long points = round_of(victim, 1000000);

        assert_true(points > 5);
        const unsigned long tries = unit_full() ? points : SAMPLE;

        for (unsigned long i = 0; i < tries; i++) {
            /* One in each part of it, so that none is left out. */
            const unsigned long at =
                unit_full() ? i + 1
                            : 1 + points * i / tries + prng_below(&draws, MAX(points / tries, 1));
            const unsigned long left = round_of(victim, at);

            /* Which of several makes the folders is a race: there may be one point less. */
            assert_true(left == 0 || (now->writers_n > 1 && left < at));
        }
    }
    close_stage(NULL);
}

static void death_of_the_only_writer(void **state)
{
    sweep("save");
}

static void death_of_one_of_three_writers(void **state)
{
    sweep("save3");
}

static void death_while_another_takes_the_place(void **state)
{
    sweep("again");
    sweep("again3");
}

static void death_where_names_can_not_be_swapped(void **state)
{
    sweep("aside");
}

static void death_while_pruning(void **state)
{
    sweep("prune");
}

static void death_while_removing(void **state)
{
    sweep("remove");
    sweep("abandon");
}

static void death_while_one_comes_in(void **state)
{
    sweep("intake");
    sweep("retake");
    sweep("retakeaside");
}

static void death_while_one_is_taken_up_again(void **state)
{
    sweep("resume");
    sweep("other");
}

/* "SCENARIO VICTIM POINT" as a failure has it. */
static int replay(char **argv)
{
    for (size_t i = 0; i < ARRAY_LEN(scenarios); i++) {
        if (strcmp(scenarios[i].name, argv[1]) == 0) {
            now = &scenarios[i];
            open_stage();
            printf("%lu points\n", round_of((uint32_t)atoi(argv[2]), strtoul(argv[3], NULL, 10)));
            close_stage(NULL);
            return 0;
        }
    }
    return 2;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(death_of_the_only_writer, close_stage),
        cmocka_unit_test_teardown(death_of_one_of_three_writers, close_stage),
        cmocka_unit_test_teardown(death_while_another_takes_the_place, close_stage),
        cmocka_unit_test_teardown(death_where_names_can_not_be_swapped, close_stage),
        cmocka_unit_test_teardown(death_while_pruning, close_stage),
        cmocka_unit_test_teardown(death_while_removing, close_stage),
        cmocka_unit_test_teardown(death_while_one_comes_in, close_stage),
        cmocka_unit_test_teardown(death_while_one_is_taken_up_again, close_stage),
    };

    return argc == 4 ? replay(argv) : cmocka_run_group_tests(tests, NULL, NULL);
}
