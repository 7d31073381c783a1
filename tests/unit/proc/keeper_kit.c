#include "unit/proc/keeper_kit.h"

#include "proc/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

pid_t kit_fork(void)
{
    pid_t parent = getpid(), child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return child;
}

#define TICK_MS 10

uint64_t kit_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void kit_sleep_ms(uint32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

/* ---- children that are hard to get rid of ---- */

static void wait_for_ever(void)
{
    for (;;) {
        pause();
    }
}

/* From here on a signal finds it as it wants to be; see kit_wait_ready(). */
static void say_ready(void)
{
    prctl(PR_SET_NAME, "kit-ready");
}

static void ignore_term(void)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

/* A daemon by the book: out of the group, out of the session, no parent. */
static void make_daemon(void)
{
    ignore_term();
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            wait_for_ever();
        }
        _exit(0);
    }
    wait(NULL);
}

static void child_daemon(void)
{
    make_daemon();
    wait_for_ever();
}

/* Its leader ends at once and leaves the daemon behind. */
static void child_daemon_left(void)
{
    make_daemon();
    _exit(3);
}

/* Its leader ends while what it left behind is still passing itself on, from session to session. */
static void child_scatter(void)
{
    if (fork() == 0) {
        for (int i = 0; i < 30; i++) {
            setsid();
            if (fork() != 0) {
                _exit(0);
            }
        }
        wait_for_ever();
    }
    _exit(4);
}

static void child_stopped(void)
{
    say_ready();
    raise(SIGSTOP);
    wait_for_ever();
}

static void child_deaf(void)
{
    ignore_term();
    say_ready();
    wait_for_ever();
}

static void end_slowly(int signal_number)
{
    kit_sleep_ms(200);
    _exit(42);
}

static void child_graceful(void)
{
    signal(SIGTERM, end_slowly);
    say_ready();
    wait_for_ever();
}

/* A daemon with neither marker nor session of its leader. */
static void child_bare(void)
{
    char name[] = "sleep", number[] = "1000";
    char *argv[] = {name, number, NULL}, *none[] = {NULL};

    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            execve("/bin/sleep", argv, none);
        }
        _exit(0);
    }
    wait(NULL);
    wait_for_ever();
}

/* Still of its leader's session, but not of its group, and without the marker. */
static void child_aside(void)
{
    char name[] = "sleep", number[] = "1000";
    char *argv[] = {name, number, NULL}, *none[] = {NULL};

    if (fork() == 0) {
        setpgid(0, 0);
        execve("/bin/sleep", argv, none);
        _exit(1);
    }
    wait_for_ever();
}

/* Never more than one alive, and never the same for long: each forks the next, in a session of its
 * own, and ends. */
static void child_chain(void)
{
    ignore_term();
    for (uint32_t i = 0; i < 200000; i++) {
        pid_t next = fork();

        if (next != 0) {
            if (i == 0) {
                say_ready();
                wait_for_ever();
            }
            _exit(0);
        }
        setsid();
    }
    wait_for_ever();
}

/* As many as the machine gives, up to a few hundred at a time, in and out of the group. */
static void child_storm(void)
{
    ignore_term();
    for (uint32_t i = 0; i < 8; i++) {
        if (fork() != 0) {
            continue;
        }
        for (uint32_t round = 0; round < 20000; round++) {
            pid_t next = fork();

            if (next == 0) {
                if (round % 3 == 0) {
                    setsid();
                }
                if (round % 16 == 0) {
                    wait_for_ever();
                }
                _exit(0);
            }
            if (next > 0 && round % 16 != 0) {
                waitpid(next, NULL, 0);
            }
            if (round >= 16 * 24) {
                wait_for_ever();
            }
        }
    }
    wait_for_ever();
}

static const struct {
    const char *name;
    void (*run)(void);
} children[] = {
    {"kit-daemon", child_daemon},   {"kit-daemon-left", child_daemon_left},
    {"kit-stopped", child_stopped}, {"kit-deaf", child_deaf},
    {"kit-bare", child_bare},       {"kit-chain", child_chain},
    {"kit-storm", child_storm},     {"kit-scatter", child_scatter},
    {"kit-aside", child_aside},     {"kit-graceful", child_graceful},
};

/* The will of a test is a port of this host: the keeper calls there. */
static void call(const void *will, size_t n)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint16_t port;

    assert_int_equal(n, sizeof(port));
    memcpy(&port, will, n);
    sa.sin_port = htons(port);
    (void)!connect(fd, (struct sockaddr *)&sa, sizeof(sa));
    close(fd);
}

void kit_child(int argc, char **argv)
{
    if (argc < 2) {
        return;
    }
    if (strcmp(argv[1], "keeper") == 0) {
        exit(keeper_main(argc - 1, argv + 1, call));
    }
    for (size_t i = 0; i < ARRAY_LEN(children); i++) {
        if (strcmp(argv[1], children[i].name) == 0) {
            children[i].run();
            _exit(0);
        }
    }
}

/* ---- the keeper ---- */

static struct kit_slot *slot_of(struct kit *k, uint64_t cookie)
{
    for (uint32_t i = 0; i < KIT_SLOTS; i++) {
        if (k->slots[i].cookie == cookie) {
            return &k->slots[i];
        }
    }
    fail_msg("the keeper speaks of a process that is not there");
    return NULL;
}

static void on_started(void *data, uint64_t cookie, int pid)
{
    struct kit *k = data;
    struct kit_slot *s = slot_of(k, cookie);

    s->started_n++;
    s->pid = pid;
    k->events_n++;
}

static void on_exited(void *data, uint64_t cookie, uint32_t code, const char *why)
{
    struct kit *k = data;
    struct kit_slot *s = slot_of(k, cookie);

    s->exited_n++;
    s->code = code;
    snprintf(s->why, sizeof(s->why), "%s", why);
    k->events_n++;
}

static void on_lost(void *data)
{
    struct kit *k = data;

    k->lost_n++;
    k->events_n++;
}

static const struct keeper_handler handler = {
    .started = on_started, .exited = on_exited, .lost = on_lost};

void kit_open(struct kit *k)
{
    memset(k, 0, sizeof(*k));
    assert_int_equal(uv_loop_init(&k->loop), 0);
    assert_int_equal(keeper_open(&k->loop, "/proc/self/exe", &handler, k, &k->keeper), MU_OK);
}

void kit_close(struct kit *k)
{
    uint32_t before = k->events_n;

    keeper_close(k->keeper);
    uv_run(&k->loop, UV_RUN_DEFAULT);
    assert_int_equal(k->events_n, before);
    assert_int_equal(uv_loop_close(&k->loop), 0);
    for (uint32_t i = 0; i < KIT_SLOTS; i++) {
        if (k->slots[i].cookie != 0) {
            assert_int_equal(kit_count(k->slots[i].cookie), 0);
        }
    }
}

static uint64_t random_number(void)
{
    uint64_t n = 0;

    assert_int_equal(getrandom(&n, sizeof(n), 0), sizeof(n));
    return n | 1;
}

void kit_start_in(struct kit *k, uint32_t slot, char *const *argv, char *const *env,
                  const char *dir, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct keeper_start start = {.cookie = random_number(),
                                 .argv = argv,
                                 .env = env != NULL ? env : environ,
                                 .dir = dir,
                                 .out_fd = out >= 0 ? out : null,
                                 .err_fd = null};

    k->slots[slot].cookie = start.cookie;
    assert_int_equal(keeper_start(k->keeper, &start), MU_OK);
    close(null);
}

void kit_start_sh(struct kit *k, uint32_t slot, const char *command)
{
    char sh[] = "/bin/sh", c[] = "-c", *text = strdup(command);
    char *argv[] = {sh, c, text, NULL};

    kit_start_in(k, slot, argv, NULL, NULL, -1);
    free(text);
}

void kit_start_child(struct kit *k, uint32_t slot, const char *name)
{
    char self[4096], *text = strdup(name);
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *argv[] = {self, text, NULL};

    assert_true(n > 0);
    self[n] = '\0';
    kit_start_in(k, slot, argv, NULL, NULL, -1);
    free(text);
}

void kit_stop(struct kit *k, uint32_t slot, uint32_t grace_ms)
{
    keeper_stop(k->keeper, k->slots[slot].cookie, grace_ms);
}

/* ---- waiting ---- */

/* A turn of the loop may run a timer first and then wait for the next: this is the next. */
static void on_tick(uv_timer_t *timer)
{
}

static void run_until(struct kit *k, const uint32_t *count, uint32_t n, uint64_t ms, bool demand)
{
    uint64_t end_ms = kit_now_ms() + ms;
    uv_timer_t timer;

    uv_timer_init(&k->loop, &timer);
    uv_timer_start(&timer, on_tick, TICK_MS, TICK_MS);
    while (*count < n && kit_now_ms() < end_ms) {
        uv_run(&k->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&k->loop, UV_RUN_NOWAIT);
    if (demand && *count < n) {
        fail_msg("waited in vain: %u of %u", *count, n);
    }
}

void kit_wait_started(struct kit *k, uint32_t slot, uint32_t n)
{
    run_until(k, &k->slots[slot].started_n, n, KIT_WAIT_MS, true);
}

void kit_wait_exited(struct kit *k, uint32_t slot, uint32_t n)
{
    run_until(k, &k->slots[slot].exited_n, n, KIT_WAIT_MS, true);
}

void kit_wait_lost(struct kit *k)
{
    run_until(k, &k->lost_n, 1, KIT_WAIT_MS, true);
}

void kit_run_ms(struct kit *k, uint64_t ms)
{
    uint32_t never = 0;

    run_until(k, &never, 1, ms, false);
}

/* ---- who is there ---- */

struct census {
    uint64_t cookie;
    uint32_t n;
    pid_t parent;
    const char *comm;
    pid_t found;
};

static void count_marked(void *data, pid_t pid)
{
    struct census *c = data;
    uint64_t marker;

    if (proc_marker(pid, &marker) && marker == c->cookie) {
        c->n++;
    }
}

uint32_t kit_count(uint64_t cookie)
{
    struct census c = {.cookie = cookie};

    proc_each(count_marked, &c);
    return c.n;
}

void kit_wait_count(uint64_t cookie, uint32_t n)
{
    uint64_t end_ms = kit_now_ms() + KIT_WAIT_MS;

    while (kit_count(cookie) < n) {
        assert_true(kit_now_ms() < end_ms);
        kit_sleep_ms(5);
    }
}

void kit_wait_none(uint64_t cookie)
{
    uint64_t end_ms = kit_now_ms() + KIT_WAIT_MS;

    while (kit_count(cookie) > 0) {
        assert_true(kit_now_ms() < end_ms);
        kit_sleep_ms(5);
    }
}

static bool has_name(pid_t pid, const char *name)
{
    char path[64], comm[32] = "";
    FILE *file;
    bool has;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    has = fscanf(file, "%31s", comm) == 1 && strcmp(comm, name) == 0;
    fclose(file);
    return has;
}

static void find_named(void *data, pid_t pid)
{
    struct census *c = data;
    struct proc_stat st;

    if (proc_stat(pid, &st) && st.parent == c->parent && !st.ended && has_name(pid, c->comm)) {
        c->found = pid;
    }
}

void kit_wait_ready(struct kit *k, uint32_t slot)
{
    uint64_t end_ms = kit_now_ms() + KIT_WAIT_MS;

    kit_wait_started(k, slot, k->slots[slot].exited_n + 1);
    while (!has_name(k->slots[slot].pid, "kit-ready")) {
        assert_true(kit_now_ms() < end_ms);
        kit_sleep_ms(1);
    }
}

pid_t kit_find(pid_t parent, const char *comm)
{
    struct census c = {.parent = parent, .comm = comm};

    proc_each(find_named, &c);
    return c.found;
}

bool kit_is_alive(pid_t pid)
{
    struct proc_stat st;

    return proc_stat(pid, &st) && !st.ended;
}
