/* What a script wrote, and what its agent says about its end. This program is the script too. */
#include "unit/agent/node_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIPE_BYTES (1 << 20)
#define LINE_BYTES 64
#define LINES_N (PIPE_BYTES / 2 / LINE_BYTES)
#define CODE 7

/* Writes more than its agent reads at once, and ends. */
static int be_script(char *none)
{
    char line[LINE_BYTES];

    if (fcntl(STDERR_FILENO, F_SETPIPE_SZ, PIPE_BYTES) < 0) {
        return 9;
    }
    worker_say("pids", "%d\n", (int)getpid());
    worker_until("go");
    memset(line, '.', sizeof(line));
    line[LINE_BYTES - 1] = '\n';
    for (int i = 0; i < LINES_N; i++) {
        if (write(STDERR_FILENO, line, sizeof(line)) != (ssize_t)sizeof(line)) {
            return 9;
        }
    }
    dprintf(STDERR_FILENO, "the last line\n");
    return CODE;
}

/* Where the text begins in what the agent and its script have put on the console; -1: not there. */
static long find(struct kit *k, const char *text)
{
    static char all[2 * PIPE_BYTES];
    char path[128];
    const char *found;
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "%s/a.err", k->dir);
    f = fopen(path, "r");
    assert_non_null(f);
    n = fread(all, 1, sizeof(all), f);
    fclose(f);
    found = memmem(all, n, text, strlen(text));
    return found != NULL ? found - all : -1;
}

static void await_on_console(struct kit *k, const char *text)
{
    struct timespec t = {.tv_nsec = 5000000};

    for (int i = 0; find(k, text) < 0; i++) {
        assert_true(i < 10000);
        nanosleep(&t, NULL);
    }
}

static int script_pid(struct kit *k)
{
    kit_await_lines(k, "pids", 1);
    return atoi(kit_read(k, "pids"));
}

/* The agent finds the output and the end when it looks again. */
static void end_unseen(struct kit *k, pid_t agent)
{
    int status, pid = script_pid(k);

    kill(agent, SIGSTOP);
    assert_int_equal(waitpid(agent, &status, WUNTRACED), agent);
    kit_touch(k, "go");
    kit_await_gone(pid);
    kill(agent, SIGCONT);
}

static void an_agent_that_ends_tells_its_scripts_code_after_the_last_line(void **state)
{
    struct kit *k = *state;
    struct node_config config = kit_config(k, "a", kit_worker("script"));
    pid_t agent;
    long last, word, end;

    config.standalone = true;
    config.max_restarts = 0;
    agent = kit_run(k, &config);
    end_unseen(k, agent);
    assert_int_equal(kit_wait(k, agent), CODE);
    last = find(k, "the last line\n");
    word = find(k, "failed, exit code 7");
    end = find(k, "has ended; exit code 7");
    assert_true(last >= 0 && word > last && end > word);
}

/* Nobody can be asked whether to start it again, so the agent waits. */
static void an_agent_that_goes_on_tells_its_scripts_code_after_the_last_line(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t agent;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("script"));
    agent = kit_run(k, &config);
    script_pid(k);
    kit_serve_kill(k);
    end_unseen(k, agent);
    await_on_console(k, "failed, exit code 7");
    assert_true(find(k, "the last line\n") >= 0);
    assert_true(find(k, "the last line\n") < find(k, "failed, exit code 7"));
}

static void whoever_holds_the_scripts_output_does_not_keep_its_code_secret(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    char path[64];
    int fd;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("script"));
    kit_run(k, &config);
    snprintf(path, sizeof(path), "/proc/%d/fd/2", script_pid(k));
    kit_serve_kill(k);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    kit_touch(k, "go");
    await_on_console(k, "failed, exit code 7");
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(an_agent_that_ends_tells_its_scripts_code_after_the_last_line),
        TEST(an_agent_that_goes_on_tells_its_scripts_code_after_the_last_line),
        TEST(whoever_holds_the_scripts_output_does_not_keep_its_code_secret),
    };

    kit_main(argc, argv, be_script);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
