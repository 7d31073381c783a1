/* Nothing of a worker outlives it: not its group, not a daemon, not the agent's death, not the
 * keeper's. */
#include "unit/proc/keeper_kit.h"

#include "proc/procfs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void the_rest_of_the_group_dies_with_the_leader(void **state)
{
    struct kit k;

    kit_open(&k);
    kit_start_sh(&k, 0, "sleep 1000 & sleep 1000 & (trap '' TERM; sleep 1000) & exit 5");
    kit_wait_exited(&k, 0, 1);
    assert_int_equal(k.slots[0].code, 5);
    assert_int_equal(kit_count(k.slots[0].cookie), 0); /* already when it is told */
    kit_close(&k);
}

static void a_daemon_dies_with_the_leader_that_left_it(void **state)
{
    struct kit k;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-daemon-left");
    kit_wait_exited(&k, 0, 1);
    assert_int_equal(k.slots[0].code, 3);
    assert_int_equal(kit_count(k.slots[0].cookie), 0);
    kit_close(&k);
}

static void a_daemon_lives_as_long_as_its_leader(void **state)
{
    struct kit k;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-daemon");
    kit_start_sh(&k, 1, "exit 0");
    kit_wait_started(&k, 0, 1);
    kit_wait_count(k.slots[0].cookie, 2);
    kit_wait_exited(&k, 1, 1); /* Another slot's end is not its business. */
    kit_start_child(&k, 1, "kit-daemon-left");
    kit_wait_exited(&k, 1, 2);
    assert_int_equal(kit_count(k.slots[0].cookie), 2);
    kit_stop(&k, 0, 10);
    kit_wait_exited(&k, 0, 1);
    assert_int_equal(kit_count(k.slots[0].cookie), 0);
    kit_close(&k);
}

/* It has no mark of its own, but when nothing else runs it can only be theirs. */
static void a_daemon_without_any_mark_goes_with_the_last_worker(void **state)
{
    struct kit k;
    pid_t keeper, sleeper;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-bare");
    kit_wait_started(&k, 0, 1);
    keeper = kit_find(getpid(), "muster-keeper");
    while ((sleeper = kit_find(keeper, "sleep")) == 0) {
        kit_sleep_ms(5);
    }
    kit_stop(&k, 0, 60000);
    kit_wait_exited(&k, 0, 1);
    assert_false(kit_is_alive(sleeper));
    kit_close(&k);
}

static void who_left_the_group_is_known_by_its_session(void **state)
{
    pid_t sleeper;
    struct kit k;

    kit_open(&k);
    kit_start_sh(&k, 1, "kill -STOP $$"); /* lives on */
    kit_start_child(&k, 0, "kit-aside");
    kit_wait_started(&k, 0, 1);
    kit_wait_started(&k, 1, 1);
    while ((sleeper = kit_find(k.slots[0].pid, "sleep")) == 0) {
        kit_sleep_ms(5);
    }
    kit_stop(&k, 0, 60000);
    kit_wait_exited(&k, 0, 1);
    assert_false(kit_is_alive(sleeper));
    kit_close(&k);
}

static void a_chain_of_forks_is_caught(void **state)
{
    struct kit k;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-chain");
    kit_wait_ready(&k, 0);
    kit_run_ms(&k, 50);
    kit_stop(&k, 0, 10);
    kit_wait_exited(&k, 0, 1);
    assert_int_equal(k.slots[0].code, 128 + SIGKILL);
    assert_int_equal(kit_count(k.slots[0].cookie), 0);
    kit_close(&k);
}

/* Another slot lives, so only who is known for a stray is killed; and the exit is told when the
 * last of them is gone, although they change faster than they can be looked at. */
static void an_exit_is_told_when_the_last_of_a_line_is_gone(void **state)
{
    struct kit k;

    kit_open(&k);
    kit_start_sh(&k, 1, "sleep 1000");
    kit_wait_started(&k, 1, 1);
    for (uint32_t i = 0; i < 50; i++) {
        kit_start_child(&k, 0, "kit-scatter");
        kit_wait_exited(&k, 0, i + 1);
        assert_int_equal(k.slots[0].code, 4);
        assert_int_equal(kit_count(k.slots[0].cookie), 0);
    }
    assert_int_equal(k.slots[1].exited_n, 0);
    kit_close(&k);
}

static void a_storm_of_forks_is_calmed(void **state)
{
    struct kit k;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-storm");
    kit_wait_started(&k, 0, 1);
    kit_wait_count(k.slots[0].cookie, 40);
    kit_stop(&k, 0, 10);
    kit_wait_exited(&k, 0, 1);
    assert_int_equal(kit_count(k.slots[0].cookie), 0);
    kit_close(&k);
}

static void closing_kills_whatever_runs(void **state)
{
    struct kit k;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-daemon");
    kit_start_child(&k, 1, "kit-stopped");
    kit_start_child(&k, 2, "kit-deaf");
    kit_start_sh(&k, 3, "exit 0"); /* what it says now is not told any more */
    kit_wait_started(&k, 0, 1);
    kit_wait_started(&k, 1, 1);
    kit_wait_started(&k, 2, 1);
    kit_wait_count(k.slots[0].cookie, 2);
    kit_close(&k);
}

/* ---- kill -9 of the agent ---- */

#define EVILS 7
static const char *const evils[EVILS] = {"kit-daemon", "kit-stopped",     "kit-deaf", "kit-bare",
                                         "kit-storm",  "kit-daemon-left", "kit-chain"};

struct witness {
    uint64_t markers[EVILS];
    pid_t leaders[EVILS];
    pid_t keeper;
};

/* Plays the agent: starts all of them, says who they are, and lives until it is killed. */
static void play_agent(int tell_fd)
{
    struct witness w = {.keeper = 0};
    static struct kit k;

    kit_open(&k);
    for (uint32_t i = 0; i < EVILS; i++) {
        kit_start_child(&k, i, evils[i]);
    }
    for (uint32_t i = 0; i < EVILS; i++) {
        kit_wait_started(&k, i, 1);
        w.markers[i] = k.slots[i].cookie;
        w.leaders[i] = k.slots[i].pid;
    }
    kit_wait_count(w.markers[0], 2);
    kit_wait_count(w.markers[4], 30);
    w.keeper = kit_find(getpid(), "muster-keeper");
    if (write(tell_fd, &w, sizeof(w)) != (ssize_t)sizeof(w)) {
        _exit(1);
    }
    kit_run_ms(&k, 3600000);
    _exit(1);
}

static void count_children(void *data, pid_t pid)
{
    ++*(uint32_t *)data;
}

/* Until everybody below us has ended, and was waited for. */
static void wait_childless(void)
{
    uint64_t end_ms = kit_now_ms() + KIT_WAIT_MS;
    uint32_t below_n = 1;

    while (below_n > 0) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        below_n = 0;
        proc_each_child(count_children, &below_n);
        assert_true(below_n == 0 || kit_now_ms() < end_ms);
        kit_sleep_ms(1);
    }
}

static void assert_gone(const struct witness *w)
{
    uint64_t from_ms = kit_now_ms();

    for (uint32_t i = 0; i < EVILS; i++) {
        kit_wait_none(w->markers[i]);
    }
    wait_childless();
    print_message("# all gone %u ms after the death of the agent\n",
                  (unsigned)(kit_now_ms() - from_ms));
    assert_false(kit_is_alive(w->keeper));
    for (uint32_t i = 0; i < EVILS; i++) {
        assert_int_not_equal(kill(-w->leaders[i], 0), 0); /* its group */
    }
}

static void after_kill_9_of_the_agent_nothing_is_left(void **state)
{
    struct witness w;
    int ends[2];
    pid_t agent;

    /* Whoever got away from the keeper would become our child. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    agent = kit_fork();
    if (agent == 0) {
        play_agent(ends[1]);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &w, sizeof(w)), sizeof(w));
    close(ends[0]);
    assert_true(w.keeper > 0);
    kill(agent, SIGKILL);
    assert_gone(&w);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* At any moment of a start: between fork, exec and report. */
static void an_agent_killed_while_it_starts_workers_leaves_nothing(void **state)
{
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (uint32_t round = 0; round < 20; round++) {
        pid_t agent = kit_fork();

        if (agent == 0) {
            static struct kit k;

            kit_open(&k);
            for (uint32_t i = 0; i < 16; i++) {
                kit_start_child(&k, i, "kit-daemon");
                kit_run_ms(&k, 1);
            }
            kit_run_ms(&k, 3600000);
        }
        kit_sleep_ms(2 * round);
        kill(agent, SIGKILL);
        wait_childless();
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* ---- kill -9 of the keeper ---- */

static void after_kill_9_of_the_keeper_the_agent_kills_and_is_told(void **state)
{
    static const char *const kinds[] = {"kit-daemon", "kit-stopped", "kit-deaf", "kit-daemon"};
    struct kit k;
    char text[4096];
    pid_t keeper;

    kit_open(&k);
    for (uint32_t i = 0; i < ARRAY_LEN(kinds); i++) {
        kit_start_child(&k, i, kinds[i]);
        kit_wait_started(&k, i, 1);
    }
    kit_start_sh(&k, 9, "trap '' TERM; sleep 1000 & sleep 1000");
    kit_wait_started(&k, 9, 1);
    kit_wait_count(k.slots[0].cookie, 2);
    kit_wait_count(k.slots[3].cookie, 2);
    keeper = kit_find(getpid(), "muster-keeper");
    unit_stderr_begin();
    kill(keeper, SIGKILL);
    kit_wait_lost(&k);
    unit_stderr_end(text, sizeof(text));
    assert_non_null(strstr(text, "the keeper was killed by signal 9"));
    for (uint32_t i = 0; i < KIT_SLOTS; i++) {
        assert_int_equal(k.slots[i].exited_n, 0);
        if (k.slots[i].cookie != 0) {
            assert_int_equal(kit_count(k.slots[i].cookie), 0);
        }
    }
    assert_int_equal(k.lost_n, 1);
    kit_close(&k);
}

/* Both at once, so that neither can act: what still dies are the leaders, by the kernel's hand. */
static void leaders_do_not_outlive_agent_and_keeper(void **state)
{
    pid_t agent, pids[3] = {0};
    uint64_t end_ms = kit_now_ms() + KIT_WAIT_MS;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    agent = kit_fork();
    if (agent == 0) {
        static struct kit k;

        kit_open(&k);
        kit_start_child(&k, 0, "kit-deaf");
        kit_start_child(&k, 1, "kit-stopped");
        kit_wait_started(&k, 0, 1);
        kit_wait_started(&k, 1, 1);
        pids[0] = kit_find(getpid(), "muster-keeper");
        pids[1] = k.slots[0].pid;
        pids[2] = k.slots[1].pid;
        _exit(write(ends[1], pids, sizeof(pids)) != (ssize_t)sizeof(pids) || pause() != 0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], pids, sizeof(pids)), sizeof(pids));
    close(ends[0]);
    kill(agent, SIGSTOP);
    kill(pids[0], SIGKILL);
    for (int i = 0; i < 3; i++) {
        while (kit_is_alive(pids[i])) {
            assert_true(kit_now_ms() < end_ms);
            kit_sleep_ms(1);
        }
    }
    kill(agent, SIGKILL);
    waitpid(agent, NULL, 0);
}

static void a_lost_keeper_starts_nothing(void **state)
{
    char name[] = "true", *argv[] = {name, NULL}, *env[] = {NULL};
    struct keeper_start start = {.cookie = 7, .argv = argv, .env = env, .out_fd = 1, .err_fd = 2};
    char text[4096];
    struct kit k;

    kit_open(&k);
    kit_start_sh(&k, 0, "exit 0");
    kit_wait_exited(&k, 0, 1);
    unit_stderr_begin();
    kill(kit_find(getpid(), "muster-keeper"), SIGKILL);
    kit_wait_lost(&k);
    assert_int_equal(keeper_start(k.keeper, &start), MU_EIO);
    unit_stderr_end(text, sizeof(text));
    kit_stop(&k, 0, 0);
    kit_close(&k);
}

/* Both: the leaders die by themselves, and closing does not wait for what can't come. */
static void closing_a_keeper_that_is_dying_ends(void **state)
{
    char text[4096];
    struct kit k;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-daemon");
    kit_wait_started(&k, 0, 1);
    kit_wait_count(k.slots[0].cookie, 2);
    kill(kit_find(getpid(), "muster-keeper"), SIGKILL);
    unit_stderr_begin();
    kit_close(&k);
    unit_stderr_end(text, sizeof(text));
}

/* ---- where the kernel has no list of children ---- */

static void both_ways_find_the_same_children(void **state)
{
    uint32_t a = 0, b = 0;
    pid_t pids[5];

    for (int i = 0; i < 5; i++) {
        pids[i] = kit_fork();
        if (pids[i] == 0) {
            if (i == 0) {
                _exit(0);
            }
            pause();
        }
    }
    kit_sleep_ms(20);
    proc_each_child(count_children, &a);
    proc_each_child_by_parent(count_children, &b);
    assert_int_equal(a, 5); /* the one that has ended, too */
    assert_int_equal(b, 5);
    for (int i = 0; i < 5; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rest_of_the_group_dies_with_the_leader),
        cmocka_unit_test(a_daemon_dies_with_the_leader_that_left_it),
        cmocka_unit_test(a_daemon_lives_as_long_as_its_leader),
        cmocka_unit_test(a_daemon_without_any_mark_goes_with_the_last_worker),
        cmocka_unit_test(who_left_the_group_is_known_by_its_session),
        cmocka_unit_test(a_chain_of_forks_is_caught),
        cmocka_unit_test(an_exit_is_told_when_the_last_of_a_line_is_gone),
        cmocka_unit_test(a_storm_of_forks_is_calmed),
        cmocka_unit_test(closing_kills_whatever_runs),
        cmocka_unit_test(after_kill_9_of_the_agent_nothing_is_left),
        cmocka_unit_test(an_agent_killed_while_it_starts_workers_leaves_nothing),
        cmocka_unit_test(after_kill_9_of_the_keeper_the_agent_kills_and_is_told),
        cmocka_unit_test(leaders_do_not_outlive_agent_and_keeper),
        cmocka_unit_test(a_lost_keeper_starts_nothing),
        cmocka_unit_test(closing_a_keeper_that_is_dying_ends),
        cmocka_unit_test(both_ways_find_the_same_children),
    };

    kit_child(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
