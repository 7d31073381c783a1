#include "unit/run/run_kit.h"

#include "run/run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LONG_MS = 20000 }; /* against hanging only */

static void send_all(int fd, const uint8_t *bytes, size_t n, size_t step)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, bytes + at, MIN(step, n - at), MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return; /* It has closed; whoever tests that looks elsewhere. */
        }
        at += (size_t)sent;
        if (step < 16) {
            usleep(50);
        }
    }
}

static void say(struct fake *f, enum wire_type type, const void *msg, size_t step)
{
    size_t size = wire_size(type, msg);
    uint8_t *bytes = malloc(size);
    size_t n = 0;

    assert_non_null(bytes);
    assert_int_equal(wire_encode(type, msg, 0, 0, bytes, size, &n), MU_OK);
    send_all(f->fd, bytes, n, step);
    free(bytes);
}

void fake_say(struct fake *f, enum wire_type type, const void *msg)
{
    say(f, type, msg, f->welcome == FAKE_SLOWLY ? 1 : 1 << 20);
}

void fake_bytes(struct fake *f, const void *bytes, size_t n)
{
    send_all(f->fd, bytes, n, 1 << 20);
}

/* Reads exactly n bytes; false at the end of the stream. */
static bool read_all(struct fake *f, uint8_t *to, size_t n)
{
    while (n > 0) {
        struct pollfd p = {.fd = f->fd, .events = POLLIN};
        ssize_t got;

        assert_int_equal(poll(&p, 1, LONG_MS), 1);
        got = recv(f->fd, to, n, 0);
        if (got <= 0) {
            return false;
        }
        to += got;
        n -= (size_t)got;
    }
    return true;
}

/* The next frame of any type; 0 at the end of the stream. */
static unsigned next(struct fake *f, union wire_any *msg)
{
    struct wire_scratch scratch = {(uint8_t *)f->scratch, sizeof(f->scratch), 0};
    struct wire_fault fault = {0};
    struct wire_header h;

    if (!read_all(f, f->frame, WIRE_HEADER_BYTES)) {
        return 0;
    }
    assert_int_equal(wire_header_decode(f->frame, &h, &fault), MU_OK);
    assert_true(WIRE_HEADER_BYTES + (size_t)h.length <= sizeof(f->frame));
    if (!read_all(f, f->frame + WIRE_HEADER_BYTES, h.length)) {
        return 0;
    }
    assert_int_equal(wire_decode(&h, f->frame + WIRE_HEADER_BYTES, h.length, msg, &scratch, &fault),
                     MU_OK);
    return h.type;
}

/* A report of nothing but that links have come or gone, which they do when they like. */
static bool is_of_links(const struct fake *f, unsigned type, const union wire_any *msg)
{
    const struct report *r = &msg->report, *last = &f->last;

    return type == WIRE_REPORT && r->reached != last->reached &&
           r->incarnation == last->incarnation && r->phase == last->phase &&
           r->entered == last->entered && r->step == last->step;
}

const union wire_any *fake_next(struct fake *f, enum wire_type type, union wire_any *msg)
{
    bool skip;
    unsigned got;

    do {
        got = next(f, msg);
        skip = (got == WIRE_BEAT && type != WIRE_BEAT) || is_of_links(f, got, msg);
        f->beats_n += got == WIRE_BEAT;
        f->last = got == WIRE_REPORT ? msg->report : f->last;
    } while (skip);
    assert_string_equal(wire_name(got), wire_name(type));
    return msg;
}

void fake_reached(struct fake *f, uint64_t generation)
{
    union wire_any msg;
    unsigned got;

    while (f->last.reached != generation) {
        got = next(f, &msg);
        assert_true(got == WIRE_BEAT || is_of_links(f, got, &msg));
        f->last = got == WIRE_REPORT ? msg.report : f->last;
    }
}

static void *end_main(void *arg)
{
    struct fake *f = arg;
    union wire_any msg;
    unsigned got;

    while (f->fd >= 0 && (got = next(f, &msg)) != 0) {
        if (got == WIRE_REPORT) {
            f->last = msg.report;
        }
    }
    fake_die(f);
    return NULL;
}

static _Atomic bool in_a_hurry;

void fake_hurry(bool hurries)
{
    in_a_hurry = hurries;
}

bool __real_call_wait(struct mu_run *run, uint64_t due_ms);
bool __wrap_call_wait(struct mu_run *run, uint64_t due_ms);

bool __wrap_call_wait(struct mu_run *run, uint64_t due_ms)
{
    const bool shorter = in_a_hurry && due_ms != UINT64_MAX;

    return __real_call_wait(run, shorter ? MIN(due_ms, clock_ms() + 50) : due_ms);
}

void fake_end_begin(struct fake *f)
{
    assert_int_equal(pthread_create(&f->thread, NULL, end_main, f), 0);
}

void fake_end_join(struct fake *f)
{
    pthread_join(f->thread, NULL);
}

void fake_leave(struct fake *f, mu_run *run)
{
    fake_end_begin(f);
    assert_int_equal(mu_leave(run), MU_OK);
    fake_end_join(f);
    fake_close(f);
}

static void *welcome_main(void *arg)
{
    struct fake *f = arg;
    struct msg_life life = {.worker = f->worker,
                            .run = 1,
                            .slots = 2,
                            .lease_ms = f->lease_ms,
                            .mode = MODE_INPROCESS,
                            .job = "mnist",
                            .node = "pine"};
    struct msg_refused refused = {MU_EREFUSED, "its cookie is of an earlier start"};
    struct msg_ended ended = {.run = 1, .why = "it was shut down"};
    union wire_any msg;

    f->fd = accept(f->listen_fd, NULL, NULL);
    assert_true(f->fd >= 0);
    fake_next(f, WIRE_ATTACH, &msg);
    f->attach = msg.attach;
    switch (f->welcome) {
    case FAKE_LIFE:
    case FAKE_SLOWLY:
        fake_say(f, WIRE_LIFE, &life);
        break;
    case FAKE_REFUSED:
        fake_say(f, WIRE_REFUSED, &refused);
        break;
    case FAKE_ENDED:
        fake_say(f, WIRE_ENDED, &ended);
        break;
    case FAKE_GARBAGE:
        fake_bytes(f, "HTTP/1.1 400 Bad Request\r\n\r\nwhat is this?", 40);
        break;
    case FAKE_CLOSE:
        fake_die(f);
        break;
    case FAKE_SILENT:
        break;
    }
    return NULL;
}

void fake_open_as(struct fake *f, wid worker, enum fake_welcome welcome, uint32_t lease_ms)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char text[32];

    memset(f, 0, sizeof(*f));
    f->fd = -1;
    f->worker = worker;
    f->welcome = welcome;
    f->lease_ms = lease_ms;
    strcpy(f->dir, "/tmp/muster-unit-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/agent", f->dir);
    strcpy(at.sun_path, f->path);
    f->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(f->listen_fd >= 0);
    assert_int_equal(bind(f->listen_fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(f->listen_fd, 1), 0);
    setenv("MUSTER_SOCKET", f->path, 1);
    snprintf(text, sizeof(text), "%d", FAKE_SLOT);
    setenv("MUSTER_SLOT", text, 1);
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)FAKE_COOKIE);
    setenv("MUSTER_COOKIE", text, 1);
    assert_int_equal(pthread_create(&f->thread, NULL, welcome_main, f), 0);
}

void fake_open(struct fake *f, enum fake_welcome welcome, uint32_t lease_ms)
{
    fake_open_as(f, FAKE_WORKER, welcome, lease_ms);
}

void fake_attached(struct fake *f)
{
    pthread_join(f->thread, NULL);
}

void fake_warm(struct fake *f, mu_run *run)
{
    union wire_any msg;

    assert_int_equal(mu_wait(run, 0, 0), MU_ETIMEDOUT);
    fake_next(f, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.phase, PHASE_WARM);
}

mu_run *fake_join(struct fake *f, enum fake_welcome welcome)
{
    union wire_any msg;
    mu_run *run = NULL;

    fake_open(f, welcome, 1000);
    assert_int_equal(mu_join(NULL, &run), MU_OK);
    fake_attached(f);
    fake_next(f, WIRE_REPORT, &msg);
    fake_warm(f, run);
    return run;
}

mu_run *fake_join_world(struct fake *f, const char *nodes)
{
    mu_run *run = fake_join(f, FAKE_LIFE);
    union wire_any msg;

    fake_generation(f, 7, nodes);
    if (strchr(nodes, '4') != NULL) {
        fake_next(f, WIRE_REPORT, &msg);
    } else {
        fake_told(run, 7);
    }
    return run;
}

void fake_die(struct fake *f)
{
    if (f->fd >= 0) {
        close(f->fd);
        f->fd = -1;
    }
}

void fake_close(struct fake *f)
{
    fake_die(f);
    close(f->listen_fd);
    unlink(f->path);
    rmdir(f->dir);
    unsetenv("MUSTER_SOCKET");
    unsetenv("MUSTER_SLOT");
    unsetenv("MUSTER_COOKIE");
}

void fake_generation(struct fake *f, uint64_t number, const char *nodes)
{
    struct member members[16] = {0};
    struct generation g = {.job = "mnist", .run = 1, .number = number, .members = members};
    char *end;

    for (unsigned long node = strtoul(nodes, &end, 10); end != nodes;
         node = strtoul(nodes, &end, 10)) {
        struct member *m = &members[g.members_n++];

        assert_true(g.members_n <= ARRAY_LEN(members));
        m->worker = wid_make((uint32_t)node, 1, 2);
        snprintf(m->addr, sizeof(m->addr), "127.0.0.%lu:1", node);
        nodes = end;
    }
    fake_say(f, WIRE_GENERATION, &g);
}

void fake_told(mu_run *run, uint64_t number)
{
    mu_world_info world = {0};

    for (int i = 0; world.generation < number; i++) {
        assert_true(i < LONG_MS);
        usleep(1000);
        mu_world_free(&world);
        assert_int_equal(mu_world(run, &world), MU_OK);
    }
    mu_world_free(&world);
}

void fake_explains(const char *error, const char *part)
{
    if (strstr(error, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, error);
    }
}
