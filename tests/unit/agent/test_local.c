/* The workers' socket, with peers that do as they should and peers that do not. */
#include "agent/local.h"
#include "agent/local_dir.h"
#include "net/net.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#define TICK_MS 5
#define COOKIE 0x1122334455667788u

struct kit {
    uv_loop_t loop;
    struct local *l;
    char runtime[32]; /* XDG_RUNTIME_DIR */
    uint32_t attached_n, loaded_n, detached_n, frames_n;
    uint32_t slot, pid;
    uint16_t type;
    union wire_any msg;
    char data[16];
    bool forget_in_frame;
};

/* ---- the agent ---- */

static void on_attached(void *data, uint32_t slot, uint32_t pid)
{
    struct kit *k = data;

    k->attached_n++;
    k->slot = slot;
    k->pid = pid;
}

static void on_loaded(void *data, uint32_t slot)
{
    struct kit *k = data;

    assert_in_range(slot, 0, SLOTS_MAX - 1);
    k->loaded_n++;
}

static void on_frame(void *data, uint32_t slot, const struct wire_header *h,
                     const union wire_any *msg)
{
    struct kit *k = data;

    k->frames_n++;
    k->slot = slot;
    k->type = h->type;
    k->msg = *msg;
    if (h->type == WIRE_ASK) {
        snprintf(k->data, sizeof(k->data), "%.*s", (int)msg->ask.body_n,
                 (const char *)msg->ask.body);
    }
    if (k->forget_in_frame) {
        local_forget(k->l, slot);
    }
}

static void on_detached(void *data, uint32_t slot)
{
    struct kit *k = data;

    k->detached_n++;
    k->slot = slot;
}

static const struct local_handler handler = {
    .attached = on_attached, .loaded = on_loaded, .frame = on_frame, .detached = on_detached};

static void open_local(struct kit *k)
{
    char error[NET_ERROR_MAX] = "";

    assert_int_equal(uv_loop_init(&k->loop), 0);
    if (local_open(&k->loop, &handler, k, &k->l, error) != MU_OK) {
        fail_msg("%s", error);
    }
}

static void open_kit(struct kit *k)
{
    memset(k, 0, sizeof(*k));
    strcpy(k->runtime, "/tmp/muster-test-XXXXXX");
    assert_non_null(mkdtemp(k->runtime));
    setenv("XDG_RUNTIME_DIR", k->runtime, 1);
    open_local(k);
}

static void close_local(struct kit *k)
{
    local_close(k->l, 1000);
    uv_run(&k->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&k->loop), 0);
}

static void close_kit(struct kit *k)
{
    close_local(k);
    assert_int_equal(rmdir(k->runtime), 0); /* Nothing is left in it. */
    unsetenv("XDG_RUNTIME_DIR");
}

/* A turn of the loop may run a timer first and then wait for the next: this is the next. */
static void on_tick(uv_timer_t *timer)
{
}

/* Until *count is n, or for so long. */
static void run_until(struct kit *k, const uint32_t *counter, uint32_t n, uint64_t ms)
{
    uint64_t end_ms = net_now_ms() + ms;
    uv_timer_t timer;

    uv_timer_init(&k->loop, &timer);
    uv_timer_start(&timer, on_tick, TICK_MS, TICK_MS);
    while (*counter < n && net_now_ms() < end_ms) {
        uv_run(&k->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&k->loop, UV_RUN_NOWAIT);
}

static void wait_for(struct kit *k, const uint32_t *counter, uint32_t n)
{
    run_until(k, counter, n, 30000);
    assert_int_equal(*counter, n);
}

static void run_ms(struct kit *k, uint64_t ms)
{
    uint32_t never = 0;

    run_until(k, &never, 1, ms);
}

/* ---- a worker ---- */

static int dial(const struct kit *k)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    strcpy(at.sun_path, local_path(k->l));
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static void say(int fd, enum wire_type type, const void *msg)
{
    static uint8_t frame[1 << 20];
    size_t n;

    assert_int_equal(wire_encode(type, msg, 0, 0, frame, sizeof(frame), &n), MU_OK);
    assert_int_equal(write(fd, frame, n), n);
}

static void say_attach(int fd, uint32_t slot, uint64_t cookie)
{
    struct msg_attach m = {.slot = slot, .cookie = cookie, .pid = (uint32_t)getpid()};

    say(fd, WIRE_ATTACH, &m);
}

static int attach(struct kit *k, uint32_t slot, uint64_t cookie)
{
    int fd = dial(k);

    say_attach(fd, slot, cookie);
    wait_for(k, &k->attached_n, k->attached_n + 1);
    return fd;
}

/* The next frame from the agent; 0: it has closed. */
static uint16_t hear(struct kit *k, int fd, union wire_any *msg)
{
    static uint8_t frame[1 << 20];
    static uint64_t scratch[1 << 12];
    struct wire_scratch sc = {.mem = (uint8_t *)scratch, .cap = sizeof(scratch)};
    struct wire_header h;
    size_t n = 0, want = WIRE_HEADER_BYTES;

    for (int tries = 0; n < want; tries++) {
        ssize_t got = read(fd, frame + n, want - n);

        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            return 0;
        }
        n += got > 0 ? (size_t)got : 0;
        if (n == WIRE_HEADER_BYTES && want == n) {
            assert_int_equal(wire_header_decode(frame, &h, NULL), MU_OK);
            want += h.length;
        }
        if (got < 0) {
            assert_true(tries < 3000);
            run_ms(k, 10);
        }
    }
    assert_int_equal(wire_frame_decode(frame, n, &h, msg, &sc, NULL), MU_OK);
    return h.type;
}

static bool is_closed(struct kit *k, int fd)
{
    union wire_any msg;

    return hear(k, fd, &msg) == 0;
}

static void assert_refused(struct kit *k, int fd, int status)
{
    union wire_any msg;

    assert_int_equal(hear(k, fd, &msg), WIRE_REFUSED);
    assert_int_equal(msg.refused.status, status);
    assert_true(strlen(msg.refused.text) > 10);
    assert_true(is_closed(k, fd));
    close(fd);
}

/* ---- as it should be ---- */

static void a_worker_attaches_speaks_hears_and_goes(void **state)
{
    struct msg_lease lease = {.sent_ms = 77};
    struct msg_beat beat = {.worker = wid_make(1, 3, 1)};
    union wire_any msg;
    struct kit k;
    int fd;

    open_kit(&k);
    local_expect(k.l, 3, COOKIE);
    assert_false(local_is_attached(k.l, 3));
    local_say(k.l, 3, WIRE_LEASE, &lease, 0, 0); /* to nobody */
    fd = attach(&k, 3, COOKIE);
    assert_int_equal(k.slot, 3);
    assert_int_equal(k.pid, getpid());
    assert_true(local_is_attached(k.l, 3));
    say(fd, WIRE_BEAT, &beat);
    wait_for(&k, &k.frames_n, 1);
    assert_int_equal(k.type, WIRE_BEAT);
    local_say(k.l, 3, WIRE_LEASE, &lease, 0, 0);
    assert_int_equal(hear(&k, fd, &msg), WIRE_LEASE);
    assert_int_equal(msg.lease.sent_ms, 77);
    close(fd);
    wait_for(&k, &k.detached_n, 1);
    assert_int_equal(k.slot, 3);
    assert_false(local_is_attached(k.l, 3));
    fd = attach(&k, 3, COOKIE); /* The process lives: it may come back. */
    close(fd);
    wait_for(&k, &k.detached_n, 2);
    close_kit(&k);
}

static void every_word_of_a_worker_is_passed_on(void **state)
{
    struct report report = {
        .slot = 9, .phase = PHASE_WARM, .step = 5, .apart_n = 1, .apart[0].peer = 2};
    struct msg_forget forget = {.worker = 1};
    struct msg_ask ask = {.kind = 5, .body_n = 5, .body = (uint8_t *)(uintptr_t) "value"};
    struct kit k;
    int fd;

    open_kit(&k);
    local_expect(k.l, 0, COOKIE);
    fd = attach(&k, 0, COOKIE);
    say(fd, WIRE_REPORT, &report);
    wait_for(&k, &k.frames_n, 1);
    assert_int_equal(k.slot, 0); /* whatever it says of itself */
    assert_int_equal(k.msg.report.step, 5);
    assert_true(k.msg.report.apart_n == 1 && k.msg.report.apart[0].peer == 2);
    say(fd, WIRE_FORGET, &forget);
    wait_for(&k, &k.frames_n, 2);
    assert_int_equal(k.type, WIRE_FORGET);
    say(fd, WIRE_ASK, &ask);
    wait_for(&k, &k.frames_n, 3);
    assert_string_equal(k.data, "value");
    close(fd);
    close_kit(&k);
}

/* What a worker said before it died is heard before the end of its connection. */
static void the_last_words_come_before_the_end(void **state)
{
    struct report report = {.phase = PHASE_FINISHED};
    struct kit k;
    int fd;

    open_kit(&k);
    local_expect(k.l, 0, COOKIE);
    fd = attach(&k, 0, COOKIE);
    for (int i = 0; i < 50; i++) {
        say(fd, WIRE_REPORT, &report);
    }
    close(fd);
    wait_for(&k, &k.detached_n, 1);
    assert_int_equal(k.frames_n, 50);
    close_kit(&k);
}

/* It says so and is gone; before it joins, after that, and as often as it likes. */
static void who_has_loaded_libmuster_takes_no_seat(void **state)
{
    struct msg_attach m = {.slot = 0, .cookie = COOKIE, .why = ATTACH_LOADED};
    union wire_any msg;
    struct kit k;
    int fd, joined;

    open_kit(&k);
    local_expect(k.l, 0, COOKIE);
    fd = dial(&k);
    say(fd, WIRE_ATTACH, &m);
    close(fd);
    wait_for(&k, &k.loaded_n, 1);
    assert_false(local_is_attached(k.l, 0));
    joined = attach(&k, 0, COOKIE);
    fd = dial(&k);
    say(fd, WIRE_ATTACH, &m);
    wait_for(&k, &k.loaded_n, 2);
    assert_int_equal(hear(&k, fd, &msg), 0);
    close(fd);
    m.cookie++;
    fd = dial(&k);
    say(fd, WIRE_ATTACH, &m);
    assert_refused(&k, fd, MU_ESTALE);
    assert_true(local_is_attached(k.l, 0));
    assert_int_equal(k.loaded_n, 2);
    assert_int_equal(k.detached_n, 0);
    close(joined);
    close_kit(&k);
}

static void all_slots_attach_at_once(void **state)
{
    int fds[SLOTS_MAX];
    struct kit k;

    open_kit(&k);
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        local_expect(k.l, i, COOKIE + i);
        fds[i] = dial(&k);
        say_attach(fds[i], i, COOKIE + i);
        uv_run(&k.loop, UV_RUN_NOWAIT);
    }
    wait_for(&k, &k.attached_n, SLOTS_MAX);
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        assert_true(local_is_attached(k.l, i));
        close(fds[i]);
    }
    wait_for(&k, &k.detached_n, SLOTS_MAX);
    close_kit(&k);
}

/* ---- as it should not ---- */

static void who_is_not_expected_is_refused(void **state)
{
    struct kit k;
    int fd;

    open_kit(&k);
    local_expect(k.l, 1, COOKIE);
    fd = dial(&k);
    say_attach(fd, 0, COOKIE); /* another slot */
    assert_refused(&k, fd, MU_ENOENT);
    fd = dial(&k);
    say_attach(fd, SLOTS_MAX + 7, COOKIE);
    assert_refused(&k, fd, MU_ENOENT);
    fd = dial(&k);
    say_attach(fd, 1, COOKIE + 1);
    assert_refused(&k, fd, MU_ESTALE);
    local_expect(k.l, 1, COOKIE + 2); /* the next start: the old cookie is void */
    fd = dial(&k);
    say_attach(fd, 1, COOKIE);
    assert_refused(&k, fd, MU_ESTALE);
    local_forget(k.l, 1);
    fd = dial(&k);
    say_attach(fd, 1, COOKIE + 2);
    assert_refused(&k, fd, MU_ENOENT);
    assert_int_equal(k.attached_n + k.detached_n + k.frames_n, 0);
    close_kit(&k);
}

static void the_second_of_a_slot_is_refused_and_the_first_stays(void **state)
{
    struct msg_beat beat = {.worker = 1};
    struct kit k;
    int first, second;

    open_kit(&k);
    local_expect(k.l, 2, COOKIE);
    first = attach(&k, 2, COOKIE);
    second = dial(&k);
    say_attach(second, 2, COOKIE);
    assert_refused(&k, second, MU_EEXIST);
    say(first, WIRE_BEAT, &beat);
    wait_for(&k, &k.frames_n, 1);
    assert_int_equal(k.attached_n, 1);
    assert_int_equal(k.detached_n, 0);
    close(first);
    close_kit(&k);
}

static void what_is_not_for_an_agent_closes_that_connection_only(void **state)
{
    struct msg_bye bye = {.node = 1};
    struct msg_beat beat = {.worker = 1};
    struct kit k;
    int good, bad;

    open_kit(&k);
    local_expect(k.l, 0, COOKIE);
    local_expect(k.l, 1, COOKIE);
    good = attach(&k, 0, COOKIE);
    bad = attach(&k, 1, COOKIE);
    say(bad, WIRE_BYE, &bye);
    assert_true(is_closed(&k, bad));
    assert_int_equal(k.detached_n, 1);
    assert_int_equal(k.slot, 1);
    assert_int_equal(k.frames_n, 0);
    close(bad);
    bad = attach(&k, 1, COOKIE);
    say_attach(bad, 1, COOKIE); /* twice */
    assert_true(is_closed(&k, bad));
    assert_int_equal(k.detached_n, 2);
    close(bad);
    bad = attach(&k, 1, COOKIE);
    assert_int_equal(write(bad, "GET / HTTP/1.1\r\nHost: nobody at all\r\n\r\n", 40), 40);
    assert_true(is_closed(&k, bad));
    assert_int_equal(k.detached_n, 3);
    close(bad);
    bad = dial(&k);
    say(bad, WIRE_BEAT, &beat); /* before it has said who it is */
    assert_true(is_closed(&k, bad));
    close(bad);
    assert_int_equal(k.detached_n, 3);
    say(good, WIRE_BEAT, &beat);
    wait_for(&k, &k.frames_n, 1);
    close(good);
    close_kit(&k);
}

/* A frame that other peers may send, but that is longer than any of a worker's. */
static void a_frame_that_is_too_long_closes_that_connection(void **state)
{
    static struct member members[8000];
    struct generation big = {.job = "job", .members_n = 8000, .members = members};
    static uint8_t frame[1 << 20];
    struct kit k;
    size_t n;
    int fd;

    open_kit(&k);
    local_expect(k.l, 0, COOKIE);
    fd = attach(&k, 0, COOKIE);
    assert_int_equal(wire_encode(WIRE_GENERATION, &big, 0, 0, frame, sizeof(frame), &n), MU_OK);
    assert_true(write(fd, frame, n) > 0);
    wait_for(&k, &k.detached_n, 1);
    assert_int_equal(k.frames_n, 0);
    close(fd);
    close_kit(&k);
}

static void forgetting_closes_without_a_word(void **state)
{
    struct msg_beat beat = {.worker = 1};
    struct kit k;
    int fd;

    open_kit(&k);
    local_expect(k.l, 0, COOKIE);
    fd = attach(&k, 0, COOKIE);
    local_forget(k.l, 0);
    local_forget(k.l, 0);
    assert_false(local_is_attached(k.l, 0));
    assert_true(is_closed(&k, fd));
    close(fd);
    local_expect(k.l, 0, COOKIE);
    fd = attach(&k, 0, COOKIE);
    k.forget_in_frame = true; /* from within a callback */
    say(fd, WIRE_BEAT, &beat);
    say(fd, WIRE_BEAT, &beat);
    assert_true(is_closed(&k, fd));
    assert_int_equal(k.frames_n, 1);
    assert_int_equal(k.detached_n, 0);
    close(fd);
    close_kit(&k);
}

static void what_was_said_last_arrives_although_we_close(void **state)
{
    struct msg_ended ended = {.run = 1, .step = 99};
    union wire_any msg;
    struct kit k;
    int fd;

    open_kit(&k);
    local_expect(k.l, 0, COOKIE);
    fd = attach(&k, 0, COOKIE);
    local_say(k.l, 0, WIRE_ENDED, &ended, 0, 0);
    close_kit(&k);
    assert_int_equal(hear(&k, fd, &msg), WIRE_ENDED);
    assert_int_equal(msg.ended.step, 99);
    close(fd);
}

static void another_user_is_turned_away(void **state)
{
    struct kit k;
    pid_t child;
    int status = 0;

    if (geteuid() != 0) {
        skip(); /* Nobody else can be played. */
    }
    open_kit(&k);
    local_expect(k.l, 0, COOKIE);
    child = fork();
    if (child == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        struct msg_attach m = {.slot = 0, .cookie = COOKIE};
        uint8_t frame[256];
        size_t n = 0;
        char byte;

        strcpy(at.sun_path, local_path(k.l));
        chmod(k.runtime, 0755); /* The first wall falls: is there another? */
        *strrchr(at.sun_path, '/') = '\0';
        chmod(at.sun_path, 0755);
        strcpy(at.sun_path, local_path(k.l));
        chmod(at.sun_path, 0666);
        if (setgid(65534) != 0 || setuid(65534) != 0 ||
            connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
            _exit(1);
        }
        n = wire_encode(WIRE_ATTACH, &m, 0, 0, frame, sizeof(frame), &n) == MU_OK ? n : 0;
        send(fd, frame, n, MSG_NOSIGNAL); /* It may be closed already. */
        _exit(read(fd, &byte, 1) == 0 || errno == ECONNRESET ? 0 : 2);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        run_ms(&k, 5);
    }
    assert_int_equal(status, 0);
    assert_int_equal(k.attached_n, 0);
    close_kit(&k);
}

/* ---- the directory ---- */

static void the_directory_is_private_and_named_after_us(void **state)
{
    char head[128], error[NET_ERROR_MAX], again[LOCAL_PATH_MAX];
    struct stat st;
    struct kit k;
    char *slash, path[LOCAL_PATH_MAX];

    open_kit(&k);
    strcpy(path, local_path(k.l));
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    snprintf(head, sizeof(head), "%s/muster-%d-", k.runtime, (int)getpid());
    assert_memory_equal(path, head, strlen(head));
    assert_int_equal(local_dir_make(again, error), MU_OK); /* A second one of the same process. */
    assert_string_not_equal(again, path);
    local_dir_remove(again);
    close_kit(&k);
    assert_int_not_equal(stat(path, &st), 0);
}

static void a_runtime_directory_that_can_not_be_used_is_done_without(void **state)
{
    static const char *const bad[] = {"/no/such/directory", "relative"};
    char head[64], dir[LOCAL_PATH_MAX], error[NET_ERROR_MAX], longer[128];

    snprintf(head, sizeof(head), "/tmp/muster-%u-%d-", (unsigned)geteuid(), (int)getpid());
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        setenv("XDG_RUNTIME_DIR", bad[i], 1);
        assert_int_equal(local_dir_make(dir, error), MU_OK);
        assert_memory_equal(dir, head, strlen(head));
        local_dir_remove(dir);
    }
    /* It is there, but the path of a socket in it would not fit. */
    snprintf(longer, sizeof(longer), "/tmp/muster-test-%080d-XXXXXX", 1);
    assert_non_null(mkdtemp(longer));
    setenv("XDG_RUNTIME_DIR", longer, 1);
    assert_int_equal(local_dir_make(dir, error), MU_OK);
    assert_memory_equal(dir, head, strlen(head));
    local_dir_remove(dir);
    assert_int_equal(rmdir(longer), 0);
    unsetenv("XDG_RUNTIME_DIR");
}

/* The number of a process that is certainly not there. */
static int dead_pid(void)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return (int)child;
}

static void make_old(const char *runtime, const char *name, bool old)
{
    char path[256];
    struct utimbuf times = {.actime = 1000000, .modtime = 1000000};

    snprintf(path, sizeof(path), "%s/%s/agent", runtime, name);
    *strrchr(path, '/') = '\0';
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/agent");
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    *strrchr(path, '/') = '\0';
    if (old) {
        utime(path, &times);
    }
}

static bool is_there(const char *runtime, const char *name)
{
    char path[256];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", runtime, name);
    return stat(path, &st) == 0;
}

static void remove_made(const char *runtime, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", runtime, name);
    local_dir_remove(path);
}

static void directories_of_dead_agents_are_removed_and_no_others(void **state)
{
    char stale[64], fresh[64], living[64], command[64];
    static const char *const others[] = {"muster-logs-abcdef", "muster-12-abc", "other-1-abcdef"};
    char runtime[] = "/tmp/muster-test-XXXXXX";
    int pid = dead_pid();

    assert_non_null(mkdtemp(runtime));
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    snprintf(stale, sizeof(stale), "muster-%d-aBcDe1", pid);
    snprintf(fresh, sizeof(fresh), "muster-%d-aBcDe2", pid);
    snprintf(living, sizeof(living), "muster-%d-aBcDe3", (int)getpid());
    make_old(runtime, stale, true);
    make_old(runtime, fresh, false);
    make_old(runtime, living, true);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        make_old(runtime, others[i], true);
    }
    local_dir_clean();
    assert_false(is_there(runtime, stale));
    assert_true(is_there(runtime, fresh));
    assert_true(is_there(runtime, living));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_true(is_there(runtime, others[i]));
        remove_made(runtime, others[i]);
    }
    snprintf(command, sizeof(command), "rm -rf %s", runtime);
    assert_int_equal(system(command), 0);
    unsetenv("XDG_RUNTIME_DIR");
}

/* Its number tells nothing if it is of another container; that somebody listens does. */
static void a_socket_that_answers_is_not_removed(void **state)
{
    char name[64], dir[160];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct utimbuf times = {.actime = 1000000, .modtime = 1000000};
    char runtime[] = "/tmp/muster-test-XXXXXX";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_non_null(mkdtemp(runtime));
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    snprintf(name, sizeof(name), "muster-%d-aBcDe1", dead_pid());
    snprintf(dir, sizeof(dir), "%s/%s", runtime, name);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(at.sun_path, sizeof(at.sun_path), "%.60s/agent", dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 5), 0);
    utime(dir, &times);
    local_dir_clean();
    assert_true(is_there(runtime, name));
    close(fd);
    local_dir_clean();
    assert_false(is_there(runtime, name));
    assert_int_equal(rmdir(runtime), 0);
    unsetenv("XDG_RUNTIME_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_attaches_speaks_hears_and_goes),
        cmocka_unit_test(every_word_of_a_worker_is_passed_on),
        cmocka_unit_test(the_last_words_come_before_the_end),
        cmocka_unit_test(who_has_loaded_libmuster_takes_no_seat),
        cmocka_unit_test(all_slots_attach_at_once),
        cmocka_unit_test(who_is_not_expected_is_refused),
        cmocka_unit_test(the_second_of_a_slot_is_refused_and_the_first_stays),
        cmocka_unit_test(what_is_not_for_an_agent_closes_that_connection_only),
        cmocka_unit_test(a_frame_that_is_too_long_closes_that_connection),
        cmocka_unit_test(forgetting_closes_without_a_word),
        cmocka_unit_test(what_was_said_last_arrives_although_we_close),
        cmocka_unit_test(another_user_is_turned_away),
        cmocka_unit_test(the_directory_is_private_and_named_after_us),
        cmocka_unit_test(a_runtime_directory_that_can_not_be_used_is_done_without),
        cmocka_unit_test(directories_of_dead_agents_are_removed_and_no_others),
        cmocka_unit_test(a_socket_that_answers_is_not_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
