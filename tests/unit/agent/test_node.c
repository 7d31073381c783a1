/* Agents as they are: child processes with real connections and real scripts. */
#include "unit/agent/node_kit.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILED_TO_RUN 99

static uint32_t entries(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    uint32_t n = 0;

    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    }
    closedir(d);
    return n;
}

static int pid_in(struct kit *k, const char *name)
{
    return atoi(kit_read(k, name));
}

/* ---- alone ---- */

static void alone_a_script_runs_with_nothing_else_around(void **state)
{
    struct kit *k = *state;
    struct node_config config = kit_config(
        k, "a", kit_script(0, "echo \"$RANK $WORLD_SIZE $MUSTER_JOB\" >> seen; echo hi"));

    config.standalone = true;
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 0);
    assert_string_equal(kit_read(k, "seen"), "0 1 test\n");
    assert_string_equal(kit_read(k, "a.out"), "[0] hi\n");
    assert_int_equal(entries(k->dir, "muster-standalone-"), 0);
}

static void alone_several_workers_are_one_world(void **state)
{
    struct kit *k = *state;
    struct node_config config =
        kit_config(k, "a", kit_script(0, "echo \"$RANK/$WORLD_SIZE $LOCAL_RANK\" > seen.$RANK"));

    config.standalone = true;
    config.slots = 3;
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 0);
    assert_string_equal(kit_read(k, "seen.0"), "0/3 0\n");
    assert_string_equal(kit_read(k, "seen.1"), "1/3 1\n");
    assert_string_equal(kit_read(k, "seen.2"), "2/3 2\n");
}

static void what_a_killed_agent_left_is_removed_by_the_next(void **state)
{
    struct kit *k = *state;
    struct node_config config = kit_config(k, "a", kit_script(0, "echo $$ >> pids; sleep 600"));
    pid_t pid;

    config.standalone = true;
    pid = kit_run(k, &config);
    kit_await_lines(k, "pids", 1);
    assert_int_equal(entries(k->dir, "muster-standalone-"), 1);
    kill(pid, SIGKILL);
    kit_wait(k, pid);
    kit_await_gone(pid_in(k, "pids"));

    config.argv = kit_script(0, "true");
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 0);
    assert_int_equal(entries(k->dir, "muster-standalone-"), 0);
}

/* ---- exits ---- */

static void success_ends_the_job_with_0(void **state)
{
    struct kit *k = *state;
    struct node_config config;

    kit_serve(k);
    config = kit_config(k, "a", kit_script(0, "echo \"$RANK $MUSTER_NODE\" >> seen"));
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 0);
    assert_string_equal(kit_read(k, "seen"), "0 a\n");
}

static void a_script_that_fails_too_often_gives_its_code(void **state)
{
    struct kit *k = *state;
    struct node_config config;

    kit_serve(k);
    config = kit_config(k, "a", kit_script(0, "echo $TORCHELASTIC_RESTART_COUNT >> seen; exit 3"));
    config.max_restarts = 2;
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 3);
    assert_string_equal(kit_read(k, "seen"), "0\n1\n2\n");
}

static void a_script_that_recovers_is_forgiven(void **state)
{
    struct kit *k = *state;
    struct node_config config;

    kit_serve(k);
    config = kit_config(
        k, "a", kit_script(0, "echo x >> seen; [ $(wc -l < seen) -ge 3 ] && exit 0; exit 5"));
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 0);
    assert_int_equal(kit_lines(k, "seen"), 3);
}

static void a_killed_script_is_started_again_free_of_charge(void **state)
{
    struct kit *k = *state;
    struct node_config config;

    kit_serve(k);
    config = kit_config(
        k, "a", kit_script(0, "echo x >> seen; [ $(wc -l < seen) -ge 3 ] && exit 0; kill -9 $$"));
    config.max_restarts = 0;
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 0);
    assert_int_equal(kit_lines(k, "seen"), 3);
}

static void a_program_that_is_not_there_is_said_and_given_up(void **state)
{
    static char missing[] = "/no/such/program";
    char *argv[] = {missing, NULL};
    struct kit *k = *state;
    struct node_config config;

    kit_serve(k);
    config = kit_config(k, "a", argv);
    config.max_restarts = 1;
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 127);
    assert_non_null(strstr(kit_read(k, "a.err"), "/no/such/program"));
}

/* ---- membership ---- */

static void two_nodes_are_two_ranks(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    char **script =
        kit_script(0, "echo \"$RANK $WORLD_SIZE $MASTER_ADDR\" > seen.$MUSTER_NODE.$WORLD_SIZE; "
                      "until [ -e go ]; do sleep 0.02; done");
    char first[64];
    pid_t a, b;

    kit_serve(k);
    config = kit_config(k, "a", script);
    config.min = config.max = 2;
    a = kit_run(k, &config);
    config.name = "b";
    b = kit_run(k, &config);
    kit_await_lines(k, "seen.a.2", 1);
    kit_await_lines(k, "seen.b.2", 1);
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, a), 0);
    assert_int_equal(kit_wait(k, b), 0);
    snprintf(first, sizeof(first), "%s", kit_read(k, "seen.a.2"));
    assert_string_not_equal(first, kit_read(k, "seen.b.2"));
}

static void a_newcomer_restarts_the_others_in_a_bigger_world(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    char **script = kit_script(0, "echo \"$RANK/$WORLD_SIZE\" >> seen.$MUSTER_NODE; "
                                  "until [ -e go ]; do sleep 0.02; done");
    pid_t a, b;

    kit_serve(k);
    config = kit_config(k, "a", script);
    config.max = 2;
    a = kit_run(k, &config);
    kit_await_text(k, "seen.a", "0/1");
    config.name = "b";
    b = kit_run(k, &config);
    kit_await_text(k, "seen.b", "1/2");
    kit_await_text(k, "seen.a", "0/2");
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, a), 0);
    assert_int_equal(kit_wait(k, b), 0);
}

static void a_node_that_is_killed_leaves_the_others_at_work(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    char **script = kit_script(0, "echo \"$RANK/$WORLD_SIZE\" >> seen.$MUSTER_NODE; "
                                  "echo $$ > pid.$MUSTER_NODE; "
                                  "until [ -e go ]; do sleep 0.02; done");
    pid_t a, b;

    kit_serve(k);
    config = kit_config(k, "a", script);
    config.max = 2;
    a = kit_run(k, &config);
    config.name = "b";
    b = kit_run(k, &config);
    kit_await_text(k, "seen.a", "/2");
    kit_await_text(k, "seen.b", "/2");
    kill(b, SIGKILL);
    assert_int_equal(kit_wait(k, b), 128 + SIGKILL);
    kit_await_gone(pid_in(k, "pid.b"));
    kit_await_text(k, "seen.a", "0/1");
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, a), 0);
}

/* ---- signals ---- */

static void a_signal_drains_the_node(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    struct kit *k = *state;
    struct node_config config, other;
    pid_t stays;

    signal(SIGHUP, SIG_DFL); /* The tests may run under nohup; what that means is the next case. */
    kit_serve(k);
    config = kit_config(k, "a",
                        kit_script(0, "trap 'echo bye >> ended; exit 0' TERM; "
                                      "echo $WORLD_SIZE >> seen; while :; do sleep 0.02; done"));
    config.max = 2;
    other = config; /* Without another node, a generation without this one would be waited for. */
    other.name = "b";
    other.argv = kit_script(1, "echo $WORLD_SIZE >> others; until [ -e go ]; do sleep 0.02; done");
    stays = kit_run(k, &other);
    kit_await_lines(k, "others", 1);
    for (uint32_t i = 0; i < ARRAY_LEN(numbers); i++) {
        pid_t pid = kit_run(k, &config);

        kit_await_lines(k, "seen", i + 1);
        kill(pid, numbers[i]);
        assert_int_equal(kit_wait(k, pid), 0);
        assert_int_equal(kit_lines(k, "ended"), i + 1);
    }
    assert_string_equal(kit_read(k, "seen"), "2\n2\n2\n2\n");
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, stays), 0);
}

static void under_nohup_the_end_of_the_terminal_is_nothing(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t pid;

    kit_serve(k);
    config = kit_config(
        k, "a",
        kit_script(0, "echo x >> seen; until [ -e go ]; do sleep 0.02; done; echo y > end"));
    signal(SIGHUP, SIG_IGN);
    pid = kit_run(k, &config);
    signal(SIGHUP, SIG_DFL);
    kit_await_lines(k, "seen", 1);
    kill(pid, SIGHUP);
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, pid), 0);
    assert_string_equal(kit_read(k, "end"), "y\n");
}

/* An agent whose script takes no notice of SIGTERM, once that runs; its process is in `pids`. */
static pid_t run_stubborn(struct kit *k, uint32_t grace_ms)
{
    struct node_config config;
    pid_t pid;

    kit_serve(k);
    config = kit_config(k, "a",
                        kit_script(0, "trap '' TERM; echo $$ >> pids; while :; do sleep 1; done"));
    config.grace_ms = grace_ms;
    pid = kit_run(k, &config);
    kit_await_lines(k, "pids", 1);
    return pid;
}

static void a_second_signal_stops_everything_at_once(void **state)
{
    struct kit *k = *state;
    pid_t pid = run_stubborn(k, 600000);

    kill(pid, SIGTERM);
    kit_await_text(k, "a.err", "draining");
    kill(pid, SIGINT);
    assert_int_equal(kit_wait(k, pid), 128 + SIGINT);
    kit_await_gone(pid_in(k, "pids"));
}

static void whoever_ignores_sigterm_is_killed_after_the_grace(void **state)
{
    struct kit *k = *state;
    pid_t pid = run_stubborn(k, 200);

    kill(pid, SIGTERM);
    assert_int_equal(kit_wait(k, pid), 0);
    kit_await_gone(pid_in(k, "pids"));
}

static void a_node_that_never_joined_can_be_stopped(void **state)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct kit *k = *state;
    struct node_config config = kit_config(k, "a", kit_script(0, "true"));
    socklen_t sa_n = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t pid;

    /* Bound, so that nobody else has the port, but nobody listens. */
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &sa_n), 0);
    config.endpoints.at[0].port = ntohs(sa.sin_port);
    pid = kit_run(k, &config);
    kit_await_text(k, "a.err", "start one with: muster serve --listen 127.0.0.1:");
    kill(pid, SIGTERM);
    assert_int_equal(kit_wait(k, pid), 0);
    close(fd);
}

/* ---- the orchestrator comes and goes ---- */

static void an_orchestrator_that_dies_disturbs_no_script(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t pid;

    kit_serve(k);
    config =
        kit_config(k, "a", kit_script(0, "echo x >> seen; until [ -e go ]; do sleep 0.02; done"));
    pid = kit_run(k, &config);
    kit_await_lines(k, "seen", 1);
    kit_serve_kill(k);
    kit_await_text(k, "a.err", "went away");
    kit_serve(k);
    kit_await_text(k, "a.err", "is back");
    kit_serve_close(k);
    kit_serve(k);
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, pid), 0);
    assert_int_equal(kit_lines(k, "seen"), 1);
}

static void a_node_waits_for_its_orchestrator(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t pid;

    kit_serve(k); /* Only to know a port. */
    kit_serve_close(k);
    config = kit_config(k, "a", kit_script(0, "echo x >> seen"));
    pid = kit_run(k, &config);
    kit_await_text(k, "a.err", "no orchestrator at");
    assert_int_equal(kit_lines(k, "seen"), 0);
    kit_serve(k);
    assert_int_equal(kit_wait(k, pid), 0);
    assert_int_equal(kit_lines(k, "seen"), 1);
}

static void a_wrong_token_is_fatal_before_anything_starts(void **state)
{
    struct kit *k = *state;
    struct node_config config;

    kit_serve(k);
    config = kit_config(k, "a", kit_script(0, "echo x >> seen"));
    config.token.secret[0] ^= 1;
    assert_int_equal(kit_wait(k, kit_run(k, &config)), FAILED_TO_RUN);
    assert_non_null(strstr(kit_read(k, "a.err"), "token"));
    assert_int_equal(kit_lines(k, "seen"), 0);
}

static void other_parameters_than_the_jobs_are_refused(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t a;

    kit_serve(k);
    config =
        kit_config(k, "a", kit_script(0, "echo x >> seen; until [ -e go ]; do sleep 0.02; done"));
    config.max = 2;
    a = kit_run(k, &config);
    kit_await_lines(k, "seen", 1);
    config.name = "b";
    config.max = 5;
    assert_int_equal(kit_wait(k, kit_run(k, &config)), 1);
    assert_non_null(strstr(kit_read(k, "b.err"), "refused"));
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, a), 0);
}

/* ---- the keeper ---- */

static void a_killed_keeper_is_replaced(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t pid;

    kit_serve(k);
    config = kit_config(k, "a",
                        kit_script(0, "echo $PPID >> keepers; echo $$ >> pids; "
                                      "until [ -e go ]; do sleep 0.02; done"));
    config.max_restarts = 0;
    pid = kit_run(k, &config);
    kit_await_lines(k, "keepers", 1);
    kit_await_lines(k, "pids", 1);
    kill(pid_in(k, "keepers"), SIGKILL);
    kit_await_gone(pid_in(k, "pids"));
    kit_await_lines(k, "keepers", 2);
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, pid), 0);
}

/* ---- names ---- */

static void nodes_of_one_host_get_names_of_their_own(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    char **script = kit_script(0, "echo $MUSTER_NODE >> names; "
                                  "until [ -e go ]; do sleep 0.02; done");
    pid_t a, b;

    kit_serve(k);
    config = kit_config(k, NULL, script);
    config.min = config.max = 2;
    a = kit_run(k, &config);
    b = kit_run(k, &config);
    kit_await_lines(k, "names", 2);
    kit_touch(k, "go");
    assert_int_equal(kit_wait(k, a), 0);
    assert_int_equal(kit_wait(k, b), 0);
    assert_non_null(strstr(kit_read(k, "names"), "-2\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(alone_a_script_runs_with_nothing_else_around),
        TEST(alone_several_workers_are_one_world),
        TEST(what_a_killed_agent_left_is_removed_by_the_next),
        TEST(success_ends_the_job_with_0),
        TEST(a_script_that_fails_too_often_gives_its_code),
        TEST(a_script_that_recovers_is_forgiven),
        TEST(a_killed_script_is_started_again_free_of_charge),
        TEST(a_program_that_is_not_there_is_said_and_given_up),
        TEST(two_nodes_are_two_ranks),
        TEST(a_newcomer_restarts_the_others_in_a_bigger_world),
        TEST(a_node_that_is_killed_leaves_the_others_at_work),
        TEST(a_signal_drains_the_node),
        TEST(under_nohup_the_end_of_the_terminal_is_nothing),
        TEST(a_second_signal_stops_everything_at_once),
        TEST(whoever_ignores_sigterm_is_killed_after_the_grace),
        TEST(a_node_that_never_joined_can_be_stopped),
        TEST(an_orchestrator_that_dies_disturbs_no_script),
        TEST(a_node_waits_for_its_orchestrator),
        TEST(a_wrong_token_is_fatal_before_anything_starts),
        TEST(other_parameters_than_the_jobs_are_refused),
        TEST(a_killed_keeper_is_replaced),
        TEST(nodes_of_one_host_get_names_of_their_own),
    };

    kit_main(argc, argv, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
