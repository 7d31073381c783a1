/* Starting programs through the keeper, and asking them to end. */
#include "unit/proc/keeper_kit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *read_all(int fd)
{
    size_t n = 0, cap = 8u << 20;
    char *text = malloc(cap);
    ssize_t got;

    while ((got = read(fd, text + n, cap - 1 - n)) > 0) {
        n += (size_t)got;
    }
    text[n] = '\0';
    close(fd);
    return text;
}

/* Runs a command to its end; what it printed, to be freed. */
static char *output_of(struct kit *k, uint32_t slot, char *const *argv, char *const *env,
                       const char *dir)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    kit_start_in(k, slot, argv, env, dir, ends[1]);
    close(ends[1]);
    kit_wait_exited(k, slot, k->slots[slot].exited_n + 1);
    return read_all(ends[0]);
}

static char *sh_output(struct kit *k, const char *command, const char *dir)
{
    char sh[] = "/bin/sh", c[] = "-c", text[512];
    char *argv[] = {sh, c, text, NULL};

    snprintf(text, sizeof(text), "%s", command);
    return output_of(k, 0, argv, NULL, dir);
}

static void exit_codes_are_the_programs_own(void **state)
{
    static const struct {
        const char *command;
        uint32_t code;
    } cases[] = {
        {"exit 0", 0},         {"exit 1", 1},          {"exit 7", 7},
        {"exit 126", 126},     {"exit 127", 127},      {"kill -9 $$", 128 + 9},
        {"kill $$", 128 + 15}, {"kill -SEGV $$", 139}, {"exit 137", 137}, /* as shells say */
        {"exit 255", 1},       {"exit 128", 1},        {"exit 193", 1},
    };
    struct kit k;

    kit_open(&k);
    for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
        kit_start_sh(&k, 0, cases[i].command);
        kit_wait_exited(&k, 0, i + 1);
        assert_int_equal(k.slots[0].code, cases[i].code);
        assert_int_equal(k.slots[0].started_n, i + 1);
        assert_string_equal(k.slots[0].why, "");
    }
    kit_close(&k);
}

static void a_program_that_can_not_run_says_why(void **state)
{
    char missing[] = "no-such-program-here", slashed[] = "/no/such/file", dir[] = "/tmp";
    char *by_name[] = {missing, NULL}, *by_path[] = {slashed, NULL}, *is_dir[] = {dir, NULL};
    char script[] = "/tmp/muster-test-XXXXXX", *no_interpreter[] = {script, NULL};
    struct kit k;
    int fd = mkstemp(script);

    assert_int_equal(write(fd, "#!/no/interpreter\n", 18), 18);
    fchmod(fd, 0700);
    close(fd);
    kit_open(&k);
    kit_start_in(&k, 1, by_name, NULL, NULL, -1);
    kit_wait_exited(&k, 1, 1);
    assert_int_equal(k.slots[1].code, 127);
    assert_string_equal(k.slots[1].why, "could not run no-such-program-here: No such file or "
                                        "directory; check its name and PATH");
    kit_start_in(&k, 1, by_path, NULL, NULL, -1);
    kit_wait_exited(&k, 1, 2);
    assert_int_equal(k.slots[1].code, 127);
    assert_non_null(strstr(k.slots[1].why, "check its path"));
    kit_start_in(&k, 1, is_dir, NULL, NULL, -1);
    kit_wait_exited(&k, 1, 3);
    assert_int_equal(k.slots[1].code, 126);
    assert_non_null(strstr(k.slots[1].why, "Permission denied"));
    kit_start_in(&k, 1, no_interpreter, NULL, NULL, -1);
    kit_wait_exited(&k, 1, 4);
    assert_int_equal(k.slots[1].code, 127);
    assert_non_null(strstr(k.slots[1].why, "interpreter"));
    kit_start_in(&k, 1, by_path, NULL, "/no/such/dir", -1);
    kit_wait_exited(&k, 1, 5);
    assert_int_equal(k.slots[1].code, 126);
    assert_non_null(strstr(k.slots[1].why, "could not enter /no/such/dir"));
    assert_int_equal(k.slots[1].started_n, 0);
    kit_close(&k);
    unlink(script);
}

static void a_process_starts_with_a_clean_sheet(void **state)
{
    struct kit k;
    char *text;

    signal(SIGPIPE, SIG_IGN); /* As an owner may have it. */
    kit_open(&k);
    /* Descriptors: its three, and the one that ls reads the directory with. */
    text = sh_output(&k, "ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0", NULL);
    assert_string_equal(text, "0 1 2 3 /dev/null\n");
    free(text);
    text = sh_output(&k, "grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2 | sort -u", NULL);
    assert_string_equal(text, "0000000000000000\n");
    free(text);
    /* grep is in the group and session of the leader, which is the shell. */
    text = sh_output(&k,
                     "set -- $(sed 's/.*) //' /proc/$$/stat); "
                     "[ $3 = $$ ] && [ $4 = $$ ] && [ $5 = 0 ] && echo leader without terminal",
                     NULL);
    assert_string_equal(text, "leader without terminal\n");
    free(text);
    text = sh_output(&k, "pwd", "/usr");
    assert_string_equal(text, "/usr\n");
    free(text);
    kit_close(&k);
    signal(SIGPIPE, SIG_DFL);
}

static void the_program_is_found_in_its_own_path(void **state)
{
    char dir[] = "/tmp/muster-test-XXXXXX", path[64], var[64], name[] = "only-here";
    char *argv[] = {name, NULL}, *env[] = {var, NULL}, *text;
    struct kit k;
    FILE *file;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/only-here", dir);
    snprintf(var, sizeof(var), "PATH=%s:/bin", dir);
    file = fopen(path, "w");
    fputs("#!/bin/sh\necho found\n", file);
    fchmod(fileno(file), 0700);
    fclose(file);
    kit_open(&k);
    text = output_of(&k, 5, argv, env, NULL);
    assert_string_equal(text, "found\n");
    free(text);
    kit_close(&k);
    unlink(path);
    rmdir(dir);
}

/* Far more than a packet holds; one variable may have 128 KiB, so there are nine. */
static void an_environment_of_a_mebibyte_arrives(void **state)
{
    enum { VARS = 9, BYTES = 120 << 10 };
    char sh[] = "/bin/sh", c[] = "-c", *text, *end;
    char command[] = "echo ${#BIG0} ${#BIG8} ${BIG8} | wc -c; echo $LAST";
    char *argv[] = {sh, c, command, NULL}, *env[VARS + 2];
    struct kit k;

    for (int i = 0; i < VARS; i++) {
        env[i] = malloc(BYTES + 8);
        sprintf(env[i], "BIG%d=", i);
        memset(env[i] + 5, 'a' + i, BYTES);
        env[i][5 + BYTES] = '\0';
    }
    end = strdup("LAST=here");
    env[VARS] = end;
    env[VARS + 1] = NULL;
    kit_open(&k);
    text = output_of(&k, 0, argv, env, NULL);
    assert_string_equal(text, "122895\nhere\n");
    free(text);
    kit_close(&k);
    for (int i = 0; i <= VARS; i++) {
        free(env[i]);
    }
}

static void what_exec_does_not_take_is_an_error_of_that_start(void **state)
{
    char name[] = "/bin/true", *argv[] = {name, NULL}, *big = malloc(1 << 20), *env[] = {big, NULL};
    struct kit k;

    memset(big, 'x', 1 << 20);
    memcpy(big, "A=", 2);
    big[(1 << 20) - 1] = '\0';
    kit_open(&k);
    kit_start_in(&k, 0, argv, env, NULL, -1);
    kit_wait_exited(&k, 0, 1);
    assert_int_equal(k.slots[0].code, 126);
    assert_non_null(strstr(k.slots[0].why, "too long"));
    kit_start_sh(&k, 0, "exit 4");
    kit_wait_exited(&k, 0, 2);
    assert_int_equal(k.slots[0].code, 4);
    kit_close(&k);
    free(big);
}

static void all_slots_run_at_once(void **state)
{
    struct kit k;

    kit_open(&k);
    for (uint32_t i = 0; i < KIT_SLOTS; i++) {
        kit_start_sh(&k, i, i % 2 == 0 ? "sleep 1000 & sleep 1000" : "exit 9");
    }
    for (uint32_t i = 0; i < KIT_SLOTS; i++) {
        if (i % 2 == 0) {
            kit_wait_started(&k, i, 1);
            kit_stop(&k, i, 60000);
        }
    }
    for (uint32_t i = 0; i < KIT_SLOTS; i++) {
        kit_wait_exited(&k, i, 1);
        assert_int_equal(k.slots[i].code, i % 2 == 0 ? 128 + SIGTERM : 9);
        assert_int_equal(kit_count(k.slots[i].cookie), 0);
    }
    kit_close(&k);
}

static void a_cookie_names_one_process_at_a_time(void **state)
{
    char name[] = "true", *argv[] = {name, NULL}, *env[] = {NULL};
    struct keeper_start start = {.argv = argv, .env = env, .out_fd = 1, .err_fd = 2};
    struct kit k;

    kit_open(&k);
    kit_start_sh(&k, 2, "sleep 1000");
    start.cookie = k.slots[2].cookie;
    assert_int_equal(keeper_start(k.keeper, &start), MU_EBUSY);
    kit_wait_started(&k, 2, 1);
    keeper_stop(k.keeper, start.cookie + 1, 0); /* nobody's */
    kit_stop(&k, 2, 0);
    kit_wait_exited(&k, 2, 1);
    assert_int_equal(k.slots[2].code, 128 + SIGKILL);
    kit_close(&k);
}

static void nobody_is_started_above_the_limit(void **state)
{
    char name[] = "sleep", number[] = "1000", *argv[] = {name, number, NULL};
    struct keeper_start start = {.argv = argv, .env = environ, .out_fd = 1, .err_fd = 2};
    struct kit k;

    kit_open(&k);
    for (uint32_t i = 0; i < KIT_SLOTS; i++) {
        kit_start_sh(&k, i, "sleep 1000");
    }
    kit_wait_started(&k, KIT_SLOTS - 1, 1); /* Its socket takes no more of them at a time. */
    for (start.cookie = 1; start.cookie <= KEEPER_MAX - KIT_SLOTS; start.cookie++) {
        k.slots[0].cookie = start.cookie; /* Only to be told of. */
        k.slots[0].started_n = 0;
        assert_int_equal(keeper_start(k.keeper, &start), MU_OK);
        kit_wait_started(&k, 0, 1);
    }
    assert_int_equal(keeper_start(k.keeper, &start), MU_ELIMIT);
    kit_stop(&k, 1, 0);
    kit_wait_exited(&k, 1, 1);
    k.slots[1].cookie = start.cookie;
    assert_int_equal(keeper_start(k.keeper, &start), MU_OK);
    kit_wait_started(&k, 1, 2);
    kit_close(&k);
}

/* Also below another keeper, whose marker its environment has. */
static void a_process_has_the_marker_of_its_own_start(void **state)
{
    char sh[] = "/bin/sh", c[] = "-c",
         command[] = "tr '\\0' '\\n' < /proc/$$/environ | grep MARKER";
    char other[] = "MUSTER_MARKER=00000000000000aa", path[] = "PATH=/bin:/usr/bin", want[64];
    char *argv[] = {sh, c, command, NULL}, *env[] = {path, other, NULL}, *text;
    struct kit k;

    kit_open(&k);
    text = output_of(&k, 0, argv, env, NULL);
    snprintf(want, sizeof(want), "MUSTER_MARKER=%016llx\n", (unsigned long long)k.slots[0].cookie);
    assert_string_equal(text, want);
    free(text);
    kit_close(&k);
}

/* With time enough, a child of that name ends with that code. */
static void check_stop(const char *child, uint32_t code)
{
    struct kit k;

    kit_open(&k);
    kit_start_child(&k, 0, child);
    kit_wait_ready(&k, 0);
    kit_stop(&k, 0, 60000);
    kit_wait_exited(&k, 0, 1);
    assert_int_equal(k.slots[0].code, code);
    kit_close(&k);
}

static void a_process_may_use_its_grace(void **state)
{
    check_stop("kit-graceful", 42);
}

static void who_ignores_sigterm_is_killed_after_the_grace(void **state)
{
    struct kit k;
    uint64_t from_ms;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-deaf");
    kit_wait_ready(&k, 0);
    from_ms = kit_now_ms();
    kit_stop(&k, 0, 300);
    kit_wait_exited(&k, 0, 1);
    assert_true(kit_now_ms() - from_ms >= 299);
    assert_int_equal(k.slots[0].code, 128 + SIGKILL);
    kit_close(&k);
}

static void a_shorter_grace_shortens_and_a_longer_one_does_not(void **state)
{
    struct kit k;

    kit_open(&k);
    kit_start_child(&k, 0, "kit-deaf");
    kit_wait_ready(&k, 0);
    kit_stop(&k, 0, 3600000);
    kit_run_ms(&k, 50);
    assert_int_equal(k.slots[0].exited_n, 0);
    kit_stop(&k, 0, 100);
    kit_stop(&k, 0, 3600000);
    kit_wait_exited(&k, 0, 1);
    assert_int_equal(k.slots[0].code, 128 + SIGKILL);
    kit_close(&k);
}

/* The stop may reach the keeper before the program runs; it is not lost on the way. */
static void a_stop_right_after_the_start_works(void **state)
{
    struct kit k;

    kit_open(&k);
    for (uint32_t i = 0; i < 50; i++) {
        kit_start_sh(&k, 0, "exec sleep 1000");
        kit_stop(&k, 0, i % 2 == 0 ? 60000 : 0);
        kit_wait_exited(&k, 0, i + 1);
        assert_int_equal(k.slots[0].code, 128 + (i % 2 == 0 ? SIGTERM : SIGKILL));
    }
    kit_close(&k);
}

static void a_stopped_process_can_act_on_sigterm(void **state)
{
    check_stop("kit-stopped", 128 + SIGTERM);
}

static void the_keeper_does_not_listen_to_signals_but_kill(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE, SIGTSTP};
    struct kit k;
    pid_t keeper;

    kit_open(&k);
    kit_start_sh(&k, 0, "sleep 1000");
    kit_wait_started(&k, 0, 1);
    keeper = kit_find(getpid(), "muster-keeper");
    assert_true(keeper > 0);
    assert_int_equal(getsid(keeper), keeper);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        kill(keeper, signals[i]);
    }
    kit_run_ms(&k, 50);
    assert_int_equal(k.lost_n, 0);
    kit_stop(&k, 0, 1000);
    kit_wait_exited(&k, 0, 1);
    kit_close(&k);
    assert_false(kit_is_alive(keeper));
}

/* By hand it says what it is; with a number that is no socket it just ends. */
static void the_keeper_is_not_for_people(void **state)
{
    char name[] = "keeper", word[] = "x";
    char *argv[] = {name, word, NULL};
    char text[256];
    int code;

    unit_stderr_begin();
    code = keeper_main(2, argv, NULL);
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(code, 2);
    assert_non_null(strstr(text, "muster run"));
}

static void the_token_does_not_reach_the_keeper(void **state)
{
    char path[64], chunk[65536];
    struct kit k;
    ssize_t n;
    int fd;

    setenv("MUSTER_TOKEN", "mu1-secret-of-this-test", 1);
    kit_open(&k);
    kit_start_sh(&k, 0, "exit 0");
    kit_wait_exited(&k, 0, 1);
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)kit_find(getpid(), "muster-keeper"));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = read(fd, chunk, sizeof(chunk));
    close(fd);
    assert_true(n > 0);
    assert_null(memmem(chunk, (size_t)n, "secret-of-this-test", 19));
    kit_close(&k);
    unsetenv("MUSTER_TOKEN");
}

/* A listener of ours, or a port that nobody listens on. */
static int own_port(bool listens, uint16_t *port_out)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t sa_n = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &sa_n), 0);
    if (listens) {
        assert_int_equal(listen(fd, 1), 0);
    }
    *port_out = ntohs(sa.sin_port);
    return fd;
}

/* An owner that has more to say than its keeper, which stands still, can take; then it is gone. */
static _Noreturn void change_the_will(uint16_t old, uint16_t new)
{
    struct kit k;
    pid_t keeper;

    kit_open(&k);
    kit_start_sh(&k, 0, "sleep 1000");
    kit_wait_started(&k, 0, 1);
    keeper = kit_find(getpid(), "muster-keeper");
    kill(keeper, SIGSTOP);
    for (uint32_t i = 0; i < 4096; i++) {
        keeper_set_will(k.keeper, &old, sizeof(old));
    }
    keeper_set_will(k.keeper, &new, sizeof(new));
    kit_stop(&k, 0, 1000);
    kill(keeper, SIGCONT);
    kit_wait_exited(&k, 0, 1); /* It was told, so its keeper listens again. */
    _exit(0);
}

static void the_newest_will_reaches_a_keeper_that_was_busy(void **state)
{
    uint16_t old, new;
    int old_fd = own_port(false, &old), new_fd = own_port(true, &new), status;
    struct pollfd called = {.fd = new_fd, .events = POLLIN};
    pid_t owner = kit_fork();

    if (owner == 0) {
        change_the_will(old, new);
    }
    assert_int_equal(waitpid(owner, &status, 0), owner);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(poll(&called, 1, 5000), 1);
    close(old_fd);
    close(new_fd);
}

static void a_keeper_that_can_not_be_started_is_an_error(void **state)
{
    static const struct keeper_handler none;
    struct keeper *keeper = NULL;
    char text[1024];
    uv_loop_t loop;

    uv_loop_init(&loop);
    unit_stderr_begin();
    assert_int_equal(keeper_open(&loop, "/no/such/muster", &none, NULL, &keeper), MU_EIO);
    unit_stderr_end(text, sizeof(text));
    assert_null(keeper);
    assert_non_null(strstr(text, "/no/such/muster: No such file"));
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_are_the_programs_own),
        cmocka_unit_test(a_program_that_can_not_run_says_why),
        cmocka_unit_test(a_process_starts_with_a_clean_sheet),
        cmocka_unit_test(the_program_is_found_in_its_own_path),
        cmocka_unit_test(an_environment_of_a_mebibyte_arrives),
        cmocka_unit_test(what_exec_does_not_take_is_an_error_of_that_start),
        cmocka_unit_test(all_slots_run_at_once),
        cmocka_unit_test(a_cookie_names_one_process_at_a_time),
        cmocka_unit_test(nobody_is_started_above_the_limit),
        cmocka_unit_test(a_process_has_the_marker_of_its_own_start),
        cmocka_unit_test(a_process_may_use_its_grace),
        cmocka_unit_test(who_ignores_sigterm_is_killed_after_the_grace),
        cmocka_unit_test(a_shorter_grace_shortens_and_a_longer_one_does_not),
        cmocka_unit_test(a_stop_right_after_the_start_works),
        cmocka_unit_test(a_stopped_process_can_act_on_sigterm),
        cmocka_unit_test(the_keeper_does_not_listen_to_signals_but_kill),
        cmocka_unit_test(the_keeper_is_not_for_people),
        cmocka_unit_test(the_token_does_not_reach_the_keeper),
        cmocka_unit_test(the_newest_will_reaches_a_keeper_that_was_busy),
        cmocka_unit_test(a_keeper_that_can_not_be_started_is_an_error),
    };

    kit_child(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
