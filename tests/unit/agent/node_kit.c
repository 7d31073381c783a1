#include "unit/agent/node_kit.h"

#include "agent/will.h"
#include "base/log.h"
#include "orchestrator/orchestrator.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 60000
#define POLL_MS 5
#define COULD_NOT_START 99

void kit_main(int argc, char **argv, int (*worker)(char *what))
{
    if (argc > 1 && strcmp(argv[1], "keeper") == 0) {
        exit(will_keeper_main(argc - 1, argv + 1));
    }
    if (argc > 2 && strcmp(argv[1], "worker") == 0 && worker != NULL) {
        exit(worker(argv[2]));
    }
}

static void nap(void)
{
    struct timespec t = {.tv_nsec = POLL_MS * 1000000L};

    nanosleep(&t, NULL);
}

/* ---- the directory ---- */

static void path_of(const struct kit *k, const char *name, char *path, size_t cap)
{
    snprintf(path, cap, "%s/%s", k->dir, name);
}

int kit_open(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));

    if (k == NULL) {
        return -1;
    }
    snprintf(k->dir, sizeof(k->dir), "%s/muster-kit-XXXXXX", unit_fast_dir());
    if (mkdtemp(k->dir) == NULL) {
        free(k);
        return -1;
    }
    setenv("TMPDIR", k->dir, 1);
    random_bytes(k->token.secret, sizeof(k->token.secret));
    k->lease_ms = 10000;
    *state = k;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    return remove(path);
}

int kit_close(void **state)
{
    struct kit *k = *state;

    for (uint32_t i = 0; i < k->nodes_n; i++) {
        if (k->nodes[i] != 0) {
            kill(k->nodes[i], SIGKILL);
            waitpid(k->nodes[i], NULL, 0);
        }
    }
    kit_serve_kill(k);
    nftw(k->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    unsetenv("TMPDIR");
    free(k);
    return 0;
}

const char *kit_read(struct kit *k, const char *name)
{
    static char text[1 << 16];
    char path[256];
    size_t n;
    FILE *f;

    path_of(k, name, path, sizeof(path));
    f = fopen(path, "r");
    n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[n] = '\0';
    if (f != NULL) {
        fclose(f);
    }
    return text;
}

uint32_t kit_lines(struct kit *k, const char *name)
{
    uint32_t n = 0;

    for (const char *s = kit_read(k, name); *s != '\0'; s++) {
        n += *s == '\n';
    }
    return n;
}

void kit_await_lines(struct kit *k, const char *name, uint32_t n)
{
    for (int waited_ms = 0; kit_lines(k, name) < n; waited_ms += POLL_MS) {
        if (waited_ms > PATIENCE_MS) {
            fail_msg("%s never had %u lines, but: %s", name, n, kit_read(k, name));
        }
        nap();
    }
}

void kit_await_text(struct kit *k, const char *name, const char *text)
{
    for (int waited_ms = 0; strstr(kit_read(k, name), text) == NULL; waited_ms += POLL_MS) {
        if (waited_ms > PATIENCE_MS) {
            fail_msg("%s never had \"%s\", but: %s", name, text, kit_read(k, name));
        }
        nap();
    }
}

void kit_await_gone(pid_t pid)
{
    for (int waited_ms = 0; kill(pid, 0) == 0; waited_ms += POLL_MS) {
        if (waited_ms > PATIENCE_MS) {
            fail_msg("process %d is still there", (int)pid);
        }
        nap();
    }
}

void kit_touch(struct kit *k, const char *name)
{
    char path[256];
    int fd;

    path_of(k, name, path, sizeof(path));
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* ---- children ---- */

/* What a test leaves behind when it is killed ends with it. */
static pid_t fork_child(struct kit *k, const char *name)
{
    char path[256];
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid != 0) {
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 1; fd <= 2; fd++) {
        int to;

        snprintf(path, sizeof(path), "%s/%s.%s", k->dir, name, fd == 1 ? "out" : "err");
        to = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        dup2(to, fd);
        close(to);
    }
    if (chdir(k->dir) != 0) {
        _exit(COULD_NOT_START);
    }
    return 0;
}

int kit_wait(struct kit *k, pid_t pid)
{
    int status;

    for (int waited_ms = 0; waitpid(pid, &status, WNOHANG) == 0; waited_ms += POLL_MS) {
        if (waited_ms > PATIENCE_MS) {
            fail_msg("process %d does not end", (int)pid);
        }
        nap();
    }
    for (uint32_t i = 0; i < k->nodes_n; i++) {
        k->nodes[i] = k->nodes[i] == pid ? 0 : k->nodes[i];
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- the orchestrator ---- */

static void on_term(uv_signal_t *handle, int number)
{
    orchestrator_close(handle->data);
    uv_close((uv_handle_t *)handle, NULL);
}

static _Noreturn void serve(struct kit *k, int port_fd)
{
    struct orchestrator_config config = {.token = k->token, .cluster = cluster_defaults()};
    char error[MAX(STORE_ERROR_MAX, NET_ERROR_MAX)], dir[128];
    struct orchestrator *o;
    uv_signal_t term;
    uv_loop_t loop;
    uint16_t port;

    signal(SIGPIPE, SIG_IGN);
    snprintf(dir, sizeof(dir), "%s/data", k->dir);
    strcpy(config.listen.host, "127.0.0.1");
    config.listen.port = k->port;
    config.data_dir = dir;
    config.cluster.nodes_max = 64;
    config.cluster.workers_max = 256;
    config.cluster.join_window_ms = 50;
    config.cluster.lease_ms = k->lease_ms;
    uv_loop_init(&loop);
    if (orchestrator_open(&loop, &config, &o, error) != MU_OK) {
        fprintf(stderr, "%s\n", error);
        _exit(COULD_NOT_START);
    }
    uv_signal_init(&loop, &term);
    term.data = o;
    uv_signal_start(&term, on_term, SIGTERM);
    port = orchestrator_port(o);
    if (write(port_fd, &port, sizeof(port)) != sizeof(port)) {
        _exit(COULD_NOT_START);
    }
    close(port_fd);
    uv_run(&loop, UV_RUN_DEFAULT);
    exit(uv_loop_close(&loop) == 0 ? 0 : COULD_NOT_START);
}

void kit_serve(struct kit *k)
{
    int ends[2];

    assert_int_equal(k->orchestrator, 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    k->orchestrator = fork_child(k, "serve");
    if (k->orchestrator == 0) {
        serve(k, ends[1]);
    }
    close(ends[1]);
    if (read(ends[0], &k->port, sizeof(k->port)) != sizeof(k->port)) {
        fail_msg("the orchestrator does not start: %s", kit_read(k, "serve.err"));
    }
    close(ends[0]);
}

void kit_serve_kill(struct kit *k)
{
    if (k->orchestrator != 0) {
        kill(k->orchestrator, SIGKILL);
        waitpid(k->orchestrator, NULL, 0);
        k->orchestrator = 0;
    }
}

void kit_serve_close(struct kit *k)
{
    kill(k->orchestrator, SIGTERM);
    if (kit_wait(k, k->orchestrator) != 0) {
        fail_msg("the orchestrator does not close well: %s", kit_read(k, "serve.err"));
    }
    k->orchestrator = 0;
}

/* ---- nodes ---- */

char **kit_script(int i, const char *script)
{
    static char *argv[4][4];
    static char sh[] = "/bin/sh", c[] = "-c";
    static char text[4][1024];

    snprintf(text[i], sizeof(text[i]), "%s", script);
    argv[i][0] = sh;
    argv[i][1] = c;
    argv[i][2] = text[i];
    argv[i][3] = NULL;
    return argv[i];
}

char **kit_worker(const char *what)
{
    static char exe[256], word[] = "worker", text[256];
    static char *argv[] = {exe, word, text, NULL};
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    assert_true(n > 0);
    exe[n] = '\0';
    snprintf(text, sizeof(text), "%s", what);
    return argv;
}

struct node_config kit_config(struct kit *k, const char *name, char **argv)
{
    struct node_config config = {.token = k->token,
                                 .argv = argv,
                                 .job = "test",
                                 .name = name,
                                 .min = 1,
                                 .max = 1,
                                 .slots = 1,
                                 .role_name = "default",
                                 .mode = MODE_RESTART,
                                 .max_restarts = 3,
                                 .monitor_ms = 200,
                                 .grace_ms = 10000,
                                 .exit_timeout_ms = 10000,
                                 .prefix = true};

    config.endpoints.n = 1;
    strcpy(config.endpoints.at[0].host, "127.0.0.1");
    config.endpoints.at[0].port = k->port;
    return config;
}

static _Noreturn void be_node(const struct node_config *config)
{
    char error[NET_ERROR_MAX] = "";
    int code, rc;

    log_set_level(LOG_DEBUG);
    rc = node_run(config, &code, error);
    if (rc != MU_OK) {
        fprintf(stderr, "node_run: %s: %s\n", mu_strerror(rc), error);
        code = COULD_NOT_START;
    }
    exit(code); /* Here leaks are looked for. */
}

pid_t kit_run(struct kit *k, const struct node_config *config)
{
    pid_t pid;

    assert_true(k->nodes_n < ARRAY_LEN(k->nodes));
    pid = fork_child(k, config->name != NULL ? config->name : "node");
    if (pid == 0) {
        be_node(config);
    }
    k->nodes[k->nodes_n++] = pid;
    return pid;
}

/* ---- workers ---- */

void worker_say(const char *name, const char *fmt, ...)
{
    FILE *f = fopen(name, "a");
    va_list ap;

    va_start(ap, fmt);
    if (f != NULL) {
        vfprintf(f, fmt, ap);
        fclose(f);
    }
    va_end(ap);
}

void worker_until(const char *name)
{
    while (access(name, F_OK) != 0) {
        nap();
    }
}
