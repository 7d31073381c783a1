/* All agents and the orchestrator of a few workers, in one loop: who is in which generation follows
 * the rules of core/cluster, written down once more in their shortest form. */
#include "run/sweep.h"

#include "lib/asks.h"

#include "unit/unit.h"
#include "wire/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURN_MS = 20, LEASE_EVERY_MS = 100, LEASE_MS = 20000, ORPHAN_MS = 600000 };

static uint64_t boot_ms(void)
{
    struct timespec ts;

    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

uint64_t sweep_now_ms(void)
{
    return boot_ms();
}

/* ---- frames ---- */

static void say(struct sweep_agent *a, uint32_t index, enum wire_type type, const void *msg)
{
    size_t size = wire_size(type, msg), n, at = 0;
    uint8_t *bytes = malloc(size);

    assert_non_null(bytes);
    assert_int_equal(wire_encode(type, msg, 0, 0, bytes, size, &n), MU_OK);
    while (a->seats[index].fd >= 0 && at < n) {
        ssize_t sent = send(a->seats[index].fd, bytes + at, n - at, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR) {
            break; /* It is dead: seen when its end is read. */
        }
        at += sent > 0 ? (size_t)sent : 0;
    }
    free(bytes);
}

static void say_all(struct sweep_agent *a, enum wire_type type, const void *msg)
{
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        if (a->seats[i].attached) {
            say(a, i, type, msg);
        }
    }
}

static bool read_all(int fd, uint8_t *to, size_t n)
{
    while (n > 0) {
        ssize_t got = recv(fd, to, n, 0);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        to += got;
        n -= (size_t)got;
    }
    return true;
}

/* ---- who is in which generation ---- */

static bool lives(const struct sweep_agent *a, uint32_t index)
{
    return a->seats[index].pid > 0;
}

static struct member *member_of(struct generation *g, wid worker)
{
    for (uint32_t i = 0; i < g->members_n; i++) {
        if (g->members[i].worker == worker) {
            return &g->members[i];
        }
    }
    return NULL;
}

bool sweep_is_member(const struct sweep_agent *a, uint32_t index)
{
    struct generation g = a->newest;

    return member_of(&g, a->seats[index].self) != NULL;
}

static void add_member(struct sweep_agent *a, uint32_t index, uint8_t flags)
{
    struct member *m = &a->members[a->newest.members_n++];

    *m = (struct member){.worker = a->seats[index].self,
                         .host = 1 + (a->c->layout == SWEEP_MIXED && index == 1),
                         .flags = flags};
    memcpy(m->addr, a->seats[index].said.addr, sizeof(m->addr));
}

static void tell_generation(struct sweep_agent *a, uint32_t index)
{
    struct generation g = a->newest;

    if (!sweep_is_member(a, index)) {
        memset(g.key, 0, sizeof(g.key));
    }
    say(a, index, WIRE_GENERATION, &g);
}

/* Members are as add_member() was called since `begin`. */
static void begin_generation(struct sweep_agent *a, uint8_t kind)
{
    uint64_t number = a->newest.number + 1;

    a->newest = (struct generation){.run = 1,
                                    .number = number,
                                    .from = a->last_active.number,
                                    .kind = kind,
                                    .members = a->members};
    strcpy(a->newest.job, "sweep");
    memset(a->newest.key, (int)number, sizeof(a->newest.key));
}

static void publish(struct sweep_agent *a)
{
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        if (a->seats[i].attached) {
            tell_generation(a, i);
        }
    }
}

/* Nobody holds anything yet. */
static void form_first(struct sweep_agent *a)
{
    uint32_t lives_n = 0, warm_n = 0;

    for (uint32_t i = 0; i < SWEEP_FIRST; i++) {
        lives_n += lives(a, i);
        warm_n += lives(a, i) && (a->seats[i].said.phase == PHASE_WARM || a->newest.number > 0);
    }
    if (warm_n < lives_n || lives_n == 0) {
        return;
    }
    begin_generation(a, GENERATION_FRESH);
    for (uint32_t i = 0; i < SWEEP_FIRST; i++) {
        if (lives(a, i)) {
            add_member(a, i, 0);
        }
    }
    publish(a);
}

/* The living of the last active one. */
static void form_failure(struct sweep_agent *a)
{
    begin_generation(a, GENERATION_FAILURE);
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        if (lives(a, i) && member_of(&a->last_active, a->seats[i].self) != NULL) {
            add_member(a, i, MEMBER_CAUGHT_UP);
        }
    }
    publish(a);
}

static void form_growth(struct sweep_agent *a, uint32_t newcomer)
{
    begin_generation(a, GENERATION_BOUNDARY);
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        if (lives(a, i) && member_of(&a->last_active, a->seats[i].self) != NULL) {
            add_member(a, i, MEMBER_CAUGHT_UP);
        }
    }
    add_member(a, newcomer, 0);
    publish(a);
}

static void try_active(struct sweep_agent *a)
{
    struct msg_active m = {a->newest.number};

    if (a->newest.number == 0 || a->last_active.number == a->newest.number) {
        return;
    }
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        if (sweep_is_member(a, i) &&
            (!lives(a, i) || a->seats[i].said.entered != a->newest.number)) {
            return;
        }
    }
    a->last_active = a->newest;
    memcpy(a->last_members, a->members, sizeof(a->members));
    a->last_active.members = a->last_members;
    say_all(a, WIRE_ACTIVE, &m);
}

/* Over when all who are left of the last active generation have finished. */
static void try_end(struct sweep_agent *a)
{
    struct msg_ended m = {.run = 1, .step = SWEEP_STEPS};
    uint32_t finished_n = 0;

    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        if (lives(a, i) && member_of(&a->last_active, a->seats[i].self) != NULL) {
            if (a->seats[i].said.phase != PHASE_FINISHED) {
                return;
            }
            finished_n++;
        }
    }
    if (finished_n > 0 && !a->ended) {
        a->ended = true;
        say_all(a, WIRE_ENDED, &m);
    }
}

static void try_growth(struct sweep_agent *a)
{
    const struct sweep_seat *s = &a->seats[SWEEP_FIRST];

    if (a->c->story != SWEEP_JOINING || a->last_active.number == 0) {
        return;
    }
    if (s->pid == 0) {
        sweep_start(a, SWEEP_FIRST);
    } else if (s->pid < 0) {
        atomic_store(&a->shared->may_go, 1);
    } else if (a->last_active.number == a->newest.number && !sweep_is_member(a, SWEEP_FIRST) &&
               s->said.phase == PHASE_WARM && s->said.reached >= a->newest.number) {
        form_growth(a, SWEEP_FIRST);
        atomic_store(&a->shared->may_go, 1);
    }
}

static void think(struct sweep_agent *a)
{
    if (a->newest.number == 0) {
        form_first(a);
    }
    try_active(a);
    try_end(a);
    if (!a->ended) {
        try_growth(a);
    }
}

/* ---- what workers say ---- */

static void give_life(struct sweep_agent *a, uint32_t index)
{
    struct sweep_seat *s = &a->seats[index];
    struct msg_life life = {.run = 1,
                            .slots = 1,
                            .lease_ms = LEASE_MS,
                            .orphan_ms = ORPHAN_MS,
                            .mode = MODE_INPROCESS,
                            .job = "sweep",
                            .host = 1 + (a->c->layout == SWEEP_MIXED && index == 1)};

    s->self = wid_make(index + 1, 0, ++s->lives_n);
    s->said = (struct report){0};
    life.worker = s->self;
    snprintf(life.node, sizeof(life.node), "n%u", index + 1);
    memset(life.key, 42, sizeof(life.key));
    say(a, index, WIRE_LIFE, &life);
}

static void on_attach(struct sweep_agent *a, uint32_t index)
{
    struct msg_active active = {a->last_active.number};
    struct msg_lease lease = {.sent_ms = boot_ms()};

    give_life(a, index);
    a->seats[index].attached = true;
    say(a, index, WIRE_LEASE, &lease);
    if (a->newest.number != 0) {
        tell_generation(a, index);
    }
    if (active.generation != 0) {
        say(a, index, WIRE_ACTIVE, &active);
    }
}

static void on_config(struct sweep_agent *a, uint32_t index, const struct asked *m)
{
    static struct asks_frame answer;
    struct said out = {.worker = m->worker, .request = m->request};
    uint32_t i = 0;

    while (i < a->settings_n && strcmp(a->settings[i].key, m->key) != 0) {
        i++;
    }
    strcpy(out.key, m->key);
    if (m->verb == ASKED_PUT && i == a->settings_n && m->expect == 0) {
        assert_true(i < SWEEP_SETTINGS_MAX && m->value_n <= CONFIG_VALUE_MAX);
        strcpy(a->settings[i].key, m->key);
        memcpy(a->settings[i].value, m->value, m->value_n);
        a->settings[i].value_n = m->value_n;
        a->settings_n++;
        out.version = i + 1;
    } else if (m->verb == ASKED_PUT) {
        out.status = i < a->settings_n ? MU_EEXIST : MU_ECONFLICT;
        strcpy(out.text, "it is there already");
    } else if (m->verb == ASKED_GET && i < a->settings_n) {
        out.value = a->settings[i].value;
        out.value_n = a->settings[i].value_n;
        out.version = i + 1;
    } else {
        out.status = m->verb == ASKED_GET ? MU_ENOENT : MU_EINVAL;
        strcpy(out.text, "there is no such key");
    }
    asks_said(&answer, &out);
    say(a, index, WIRE_SAYS, &answer.says);
}

static void on_end(struct sweep_agent *a, uint32_t index)
{
    struct sweep_seat *s = &a->seats[index];

    close(s->fd);
    s->fd = -1;
    s->attached = false;
}

static bool is_needed(struct sweep_agent *a, uint32_t index)
{
    return !a->ended &&
           (sweep_is_member(a, index) || member_of(&a->last_active, a->seats[index].self) != NULL);
}

static void form_without(struct sweep_agent *a)
{
    if (a->last_active.number == 0) {
        form_first(a);
    } else {
        form_failure(a);
    }
}

/* Its process has ended: if it was needed, the others go on without it. */
static void on_gone(struct sweep_agent *a, uint32_t index)
{
    const bool needed = is_needed(a, index);

    a->seats[index].pid = -1;
    if (needed) {
        form_without(a);
    }
}

/* It goes on under another name. If it was taken in as the old one meanwhile, nobody can come to
 * that generation. */
static void on_forget(struct sweep_agent *a, uint32_t index)
{
    const bool needed = is_needed(a, index);

    give_life(a, index);
    if (needed) {
        form_without(a);
    }
}

static void on_frame(struct sweep_agent *a, uint32_t index)
{
    static uint8_t frame[(128 << 10)];
    static uint64_t memory[512];
    struct sweep_seat *s = &a->seats[index];
    struct wire_scratch scratch = {(uint8_t *)memory, sizeof(memory), 0};
    struct wire_header h;
    union wire_any msg;
    struct asked asked;

    if (!read_all(s->fd, frame, WIRE_HEADER_BYTES)) {
        on_end(a, index);
        return;
    }
    assert_int_equal(wire_header_decode(frame, &h, NULL), MU_OK);
    assert_true(WIRE_HEADER_BYTES + (size_t)h.length <= sizeof(frame));
    if (!read_all(s->fd, frame + WIRE_HEADER_BYTES, h.length)) {
        on_end(a, index);
        return;
    }
    assert_int_equal(wire_decode(&h, frame + WIRE_HEADER_BYTES, h.length, &msg, &scratch, NULL),
                     MU_OK);
    if (h.type == WIRE_REPORT && msg.report.incarnation == wid_incarnation(s->self)) {
        a->suspicions_n += msg.report.apart_n > 0 && s->said.apart_n == 0;
        s->said = msg.report;
    } else if (h.type == WIRE_FORGET && msg.forget.worker == s->self) {
        on_forget(a, index);
    } else if (h.type == WIRE_ASK && asks_is_asked(&msg.ask, &asked)) {
        on_config(a, index, &asked);
    }
}

/* The first frame says who it is. */
static void on_connection(struct sweep_agent *a)
{
    uint8_t frame[WIRE_HEADER_BYTES + 1024];
    struct wire_scratch none = {0};
    struct wire_header h;
    union wire_any msg;
    int fd = accept(a->listen_fd, NULL, NULL);

    assert_true(fd >= 0);
    if (!read_all(fd, frame, WIRE_HEADER_BYTES) || wire_header_decode(frame, &h, NULL) != MU_OK ||
        h.length > 1024 || !read_all(fd, frame + WIRE_HEADER_BYTES, h.length) ||
        wire_decode(&h, frame + WIRE_HEADER_BYTES, h.length, &msg, &none, NULL) != MU_OK ||
        h.type != WIRE_ATTACH) {
        close(fd); /* Killed before it had said so. */
        return;
    }
    assert_in_range(msg.attach.cookie, 1, SWEEP_MAX);
    a->seats[msg.attach.cookie - 1].fd = fd;
    on_attach(a, (uint32_t)msg.attach.cookie - 1);
}

/* ---- the loop ---- */

void sweep_open(struct sweep_agent *a, const struct sweep_case *c, struct sweep_shared *shared,
                int log_fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    *a = (struct sweep_agent){.c = c, .shared = shared, .log_fd = log_fd};
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        a->seats[i].fd = -1;
    }
    a->last_active.members = a->last_members;
    a->newest.members = a->members;
    strcpy(a->path, "/tmp/muster-sweep-XXXXXX");
    assert_non_null(mkdtemp(a->path));
    strcat(a->path, "/agent");
    strcpy(at.sun_path, a->path);
    a->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(a->listen_fd >= 0);
    assert_int_equal(bind(a->listen_fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(a->listen_fd, SWEEP_MAX), 0);
}

void sweep_close(struct sweep_agent *a)
{
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        if (lives(a, i)) {
            kill(a->seats[i].pid, SIGKILL);
            waitpid(a->seats[i].pid, NULL, 0);
        }
        if (a->seats[i].fd >= 0) {
            close(a->seats[i].fd);
        }
    }
    close(a->listen_fd);
    unlink(a->path);
    *strrchr(a->path, '/') = '\0';
    rmdir(a->path);
}

void sweep_start(struct sweep_agent *a, uint32_t index)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (a->log_fd >= 0) {
            dup2(a->log_fd, STDERR_FILENO);
        }
        close(a->listen_fd);
        for (uint32_t i = 0; i < SWEEP_MAX; i++) {
            if (a->seats[i].fd >= 0) {
                close(a->seats[i].fd);
            }
        }
        sweep_worker(a->c, index, a->path, a->shared);
    }
    a->seats[index].pid = pid;
}

static void renew_leases(struct sweep_agent *a)
{
    struct msg_lease m = {.sent_ms = boot_ms()};

    if (m.sent_ms >= a->lease_due_ms) {
        a->lease_due_ms = m.sent_ms + LEASE_EVERY_MS;
        say_all(a, WIRE_LEASE, &m);
    }
}

static void reap(struct sweep_agent *a)
{
    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        struct sweep_seat *s = &a->seats[i];

        /* What it said before its end counts: that is read first. */
        if (lives(a, i) && s->fd < 0 && waitpid(s->pid, &s->status, WNOHANG) == s->pid) {
            on_gone(a, i);
        }
    }
}

void sweep_turn(struct sweep_agent *a)
{
    struct pollfd polls[1 + SWEEP_MAX] = {{.fd = a->listen_fd, .events = POLLIN}};
    int wait_ms = TURN_MS;

    for (uint32_t i = 0; i < SWEEP_MAX; i++) {
        polls[1 + i] = (struct pollfd){.fd = a->seats[i].fd, .events = POLLIN};
        if (lives(a, i) && a->seats[i].lives_n > 0 && a->seats[i].fd < 0) {
            wait_ms = 1; /* It is about to end. */
        }
    }
    if (poll(polls, ARRAY_LEN(polls), wait_ms) > 0) {
        for (uint32_t i = 0; i < SWEEP_MAX; i++) {
            if (polls[1 + i].revents != 0) {
                on_frame(a, i);
            }
        }
        if (polls[0].revents != 0) {
            on_connection(a);
        }
    }
    reap(a);
    renew_leases(a);
    think(a);
}
