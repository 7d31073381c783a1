/* Operations on files that fail, each in turn, in each way: no record is lost, none comes back,
 * and the store goes on by itself. */
#include "unit/store/faults_kit.h"
#include "unit/store/shim_kit.h"

#include "base/log.h"
#include "base/prng.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* One fault after another until none is met. Returns how many were. */
static unsigned sweep(enum shim_act act, unsigned mask, uint64_t run_n, uint64_t stride)
{
    unsigned faults = 0, calm = 0, noticed = 0;

    for (uint64_t n = 1; calm < 3; n += stride) {
        struct faults_run run = {0};
        char dir[512];

        kit_dir_make(dir, sizeof(dir));
        shim_register();
        shim_arm(act, mask, n, run_n);
        faults_run(&run, dir);
        calm = shim_count() < n ? calm + 1 : 0;
        faults += calm == 0;
        noticed += run.opens + run.appends + run.snapshots > 0;
        shim_arm(SHIM_PASS, 0, 0, 0);
        faults_check(&run, dir);
        kit_dir_remove(dir);
    }
    print_message("# %u faults, %u of them noticed\n", faults, noticed);
    return noticed;
}

static void a_failed_operation_is_survived_wherever_it_happens(void **state)
{
    assert_true(sweep(SHIM_FAIL, SHIM_CHANGE, 1, 1) > 50);
}

static void several_failures_in_a_row_are_survived(void **state)
{
    assert_true(sweep(SHIM_FAIL, SHIM_CHANGE, 4, kit_stride(2)) > 20);
}

static void a_full_disk_is_survived_whenever_it_fills(void **state)
{
    assert_true(sweep(SHIM_FULL, SHIM_WRITE, 1, 1) > 20);
    assert_true(sweep(SHIM_FULL, SHIM_WRITE, 5, kit_stride(2)) > 10);
}

/* Done, but reported as failed: what is there must not count, nor be in the way. */
static void an_operation_that_worked_but_failed_is_survived(void **state)
{
    assert_true(sweep(SHIM_LIE, SHIM_CHANGE, 1, 1) > 50);
}

static void a_file_that_can_not_be_read_or_opened_is_survived(void **state)
{
    assert_true(sweep(SHIM_FAIL, SHIM_READ, 1, 1) > 5);
    assert_true(sweep(SHIM_FAIL, SHIM_OPEN, 1, 1) > 2);
}

/* --- A failure, and then the process is killed --- */

static int pipe_out;

static void tell_parent(uint64_t seq, uint64_t tag)
{
    uint64_t pair[2] = {seq, tag};
    ssize_t n = write(pipe_out, pair, sizeof(pair));

    (void)n;
}

/* Three operations from n on fail; `then` operations later the process is killed. Gives what it
 * acknowledged: tags by number, and the last number. */
static uint64_t run_killed(const char *dir, enum shim_act act, uint64_t n, uint64_t then,
                           uint64_t *tags)
{
    uint64_t pair[2], acked = 0;
    int ends[2], status;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        struct faults_run run = {.acked = tell_parent};

        close(ends[0]);
        pipe_out = ends[1];
        shim_arm(act, SHIM_CHANGE, n, 3);
        shim_kill_at(n + 2 + then);
        faults_run(&run, dir);
        _exit(0);
    }
    close(ends[1]);
    while (read(ends[0], pair, sizeof(pair)) == (ssize_t)sizeof(pair)) {
        acked = pair[0];
        tags[acked] = pair[1];
    }
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return acked;
}

/* The store opens; the acknowledged are there; what is behind them was at least appended. */
static void failures_and_then_a_kill_lose_nothing_acknowledged(void **state)
{
    static const enum shim_act ACTS[] = {SHIM_FAIL, SHIM_LIE, SHIM_FULL};
    unsigned rounds = 0, shown = 0;
    struct prng p;

    prng_init(&p, 11);
    for (uint64_t n = 1; n < 120; n++) {
        for (uint64_t then = 1; then <= 9; then += 1 + prng_below(&p, kit_stride(14))) {
            enum shim_act act = ACTS[prng_below(&p, ARRAY_LEN(ACTS))];
            uint64_t tags[KIT_RECORDS] = {0}, acked;
            char dir[512], error[STORE_ERROR_MAX];
            struct kit_seen seen;
            struct store *st;

            kit_dir_make(dir, sizeof(dir));
            acked = run_killed(dir, act, n, then, tags);
            if (kit_open(dir, &seen, &st, error) != MU_OK) {
                fail_msg("fault at %d, acknowledged %d: %s", (int)n, (int)acked, error);
            }
            assert_false(seen.garbled);
            assert_true(store_seq(st) >= acked);
            for (uint64_t seq = store_snapshot_seq(st) + 1; seq <= acked; seq++) {
                assert_int_equal(seen.tags[seq], kit_seen_as(tags[seq]));
            }
            for (uint64_t seq = acked + 1; seq <= store_seq(st); seq++) {
                assert_true(seen.tags[seq] > tags[acked]);
            }
            shown += store_seq(st) > acked;
            store_close(st);
            kit_dir_remove(dir);
            rounds++;
        }
    }
    print_message("# %u rounds, %u of which showed more than was acknowledged\n", rounds, shown);
}

/* A real limit of the system, not an injected one. */
static void appends_fail_above_a_file_size_limit_and_go_on_below_it(void **state)
{
    static unsigned char big[200000];
    struct rlimit old, small;
    struct kit_log log = {0};
    struct kit_seen seen;
    char dir[512], error[STORE_ERROR_MAX];
    struct store_replay replay = kit_replay(&seen);
    struct store_sqlite_config config = {.dir = dir};
    struct store *st;

    kit_dir_make(dir, sizeof(dir));
    assert_int_equal(store_sqlite_open(&config, &replay, &st, error), MU_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(kit_append(st, 1), MU_OK);
    store_flush(st);
    assert_int_equal(store_append(st, big, sizeof(big), 2), MU_OK);
    store_flush(st);
    store_poll(st, kit_on_done, &log);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(log.done[0].status, MU_OK);
    assert_int_equal(log.done[1].status, MU_EIO);
    assert_non_null(strstr(store_error(st), dir));

    assert_int_equal(kit_append(st, 2), MU_OK);
    store_flush(st);
    log.n = 0;
    store_poll(st, kit_on_done, &log);
    assert_int_equal(log.done[0].status, MU_OK);
    store_close(st);
    assert_int_equal(kit_open(dir, &seen, &st, error), MU_OK);
    kit_check(&seen, st, 2, 2);
    store_close(st);
    kit_dir_remove(dir);
}

static int calm_shim(void **state)
{
    shim_register();
    shim_arm(SHIM_PASS, 0, 0, 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_operation_is_survived_wherever_it_happens),
        cmocka_unit_test(several_failures_in_a_row_are_survived),
        cmocka_unit_test(a_full_disk_is_survived_whenever_it_fills),
        cmocka_unit_test(an_operation_that_worked_but_failed_is_survived),
        cmocka_unit_test(a_file_that_can_not_be_read_or_opened_is_survived),
        cmocka_unit_test_setup(failures_and_then_a_kill_lose_nothing_acknowledged, calm_shim),
        cmocka_unit_test_setup(appends_fail_above_a_file_size_limit_and_go_on_below_it, calm_shim),
    };

    log_set_level((enum log_level) - 1); /* Failures are meant here. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
