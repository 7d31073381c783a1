/* The owner's half: the keeper's process and the socket to it. What is sent is small and read at
 * once, so it is not queued, but for wishes to stop, and the will, that found the socket full. */
#include "base/log.h"
#include "proc/keep.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct seat {
    uint64_t cookie; /* 0: free */
    pid_t pid;
    bool stop_unsent;
    uint32_t grace_ms;
};

struct keeper {
    const struct keeper_handler *handler;
    void *data;
    uv_poll_t poll;
    int fd;
    pid_t pid;
    bool closing;
    bool gone;
    struct keeper_hunt hunt;
    struct keeper_packet will; /* the newest */
    size_t will_n;
    bool will_unsent; /* the keeper does not have it yet */
    struct seat seats[KEEPER_MAX];
};

/* ---- its process ---- */

/* The owner's environment, but for the token: the keeper has no use for it. */
static char **keeper_environment(void)
{
    static const char token[] = "MUSTER_TOKEN=";
    size_t n = 0, kept = 0;
    char **env;

    while (environ[n] != NULL) {
        n++;
    }
    env = calloc(n + 1, sizeof(*env));
    if (env == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], token, sizeof(token) - 1) != 0) {
            env[kept++] = environ[i];
        }
    }
    return env;
}

static int spawn(const char *exe, int fd, pid_t *pid_out)
{
    char name[] = "muster", command[] = "keeper", number[] = "3";
    char *argv[] = {name, command, number, NULL};
    char **env = keeper_environment();
    posix_spawn_file_actions_t actions;
    int error = ENOMEM;

    if (env == NULL) {
        return error;
    }
    if (posix_spawn_file_actions_init(&actions) == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, fd, 3);
        if (error == 0) {
            error = posix_spawn(pid_out, exe, &actions, NULL, argv, env);
        }
        posix_spawn_file_actions_destroy(&actions);
    }
    free(env);
    return error;
}

/* ---- what it says ---- */

static void on_closed(uv_handle_t *timer)
{
    free(timer->data);
}

static void close_handles(uv_handle_t *poll)
{
    struct keeper *k = poll->data;

    close(k->fd);
    k->hunt.timer.data = k;
    uv_close((uv_handle_t *)&k->hunt.timer, on_closed);
}

/* Nobody of a keeper that is gone can be left but by a kill -9 of the keeper itself. */
static void hunted(void *data)
{
    struct keeper *k = data;

    memset(k->seats, 0, sizeof(k->seats));
    if (k->closing) {
        uv_close((uv_handle_t *)&k->poll, close_handles);
        return;
    }
    k->handler->lost(k->data);
}

static void on_gone(struct keeper *k)
{
    int status = 0;

    uv_poll_stop(&k->poll);
    k->gone = true;
    kill(k->pid, SIGKILL); /* It has closed its socket: it is dead or as good as. */
    while (waitpid(k->pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        hunted(k); /* It does that only when nothing is left. */
        return;
    }
    if (WIFSIGNALED(status)) {
        log_warn("keeper", "the keeper was killed by signal %d; its processes are being killed too",
                 WTERMSIG(status));
    } else {
        log_error("keeper", "the keeper failed with code %d; its processes are being killed",
                  WEXITSTATUS(status));
    }
    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        if (k->seats[i].cookie != 0) {
            keeper_hunt_add(&k->hunt, k->seats[i].pid, k->seats[i].cookie);
        }
    }
    keeper_hunt_start(&k->hunt, hunted, k);
}

static void on_message(struct keeper *k, const struct keeper_message *m)
{
    struct seat *s;

    mu_assert(m->place < KEEPER_MAX);
    s = &k->seats[m->place];
    mu_assert(m->cookie != 0 && s->cookie == m->cookie);
    if (m->kind == KEEPER_STARTED) {
        s->pid = m->pid;
        k->handler->started(k->data, m->cookie, m->pid);
    } else {
        *s = (struct seat){0};
        k->handler->exited(k->data, m->cookie, m->code, m->why);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events);

static bool is_full(ssize_t sent)
{
    return sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR);
}

static bool send_stop(struct keeper *k, struct seat *s)
{
    struct keeper_message m = {.kind = KEEPER_STOP,
                               .place = (uint32_t)(s - k->seats),
                               .cookie = s->cookie,
                               .grace_ms = s->grace_ms};

    s->stop_unsent = is_full(send(k->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL));
    return !s->stop_unsent;
}

static bool send_will(struct keeper *k)
{
    k->will_unsent =
        is_full(send(k->fd, &k->will, sizeof(k->will.m) + k->will_n, MSG_DONTWAIT | MSG_NOSIGNAL));
    return !k->will_unsent;
}

static void send_unsent(struct keeper *k)
{
    int events = UV_READABLE;

    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        if (k->seats[i].stop_unsent && !send_stop(k, &k->seats[i])) {
            events |= UV_WRITABLE;
            break;
        }
    }
    if (k->will_unsent && !send_will(k)) {
        events |= UV_WRITABLE;
    }
    uv_poll_start(&k->poll, events, on_poll);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct keeper *k = poll->data;
    struct keeper_message m;
    ssize_t n;

    if (events & UV_WRITABLE && !k->closing) {
        send_unsent(k);
    }
    for (;;) {
        n = recv(k->fd, &m, sizeof(m), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n != (ssize_t)sizeof(m)) {
            on_gone(k);
            return;
        }
        m.why[sizeof(m.why) - 1] = '\0';
        if (!k->closing) {
            on_message(k, &m);
        }
    }
}

/* ---- what is asked of it ---- */

int keeper_open(uv_loop_t *loop, const char *exe, const struct keeper_handler *handler, void *data,
                struct keeper **k_out)
{
    struct keeper *k = calloc(1, sizeof(*k));
    int fds[2], error;

    if (k == NULL) {
        return MU_ENOMEM;
    }
    k->handler = handler;
    k->data = data;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        log_error("keeper", "could not make a socket for the keeper: %s", strerror(errno));
        goto err_memory;
    }
    k->fd = fds[0];
    error = spawn(exe, fds[1], &k->pid);
    if (error != 0) {
        log_error("keeper", "could not start the keeper, %s: %s", exe, strerror(error));
        goto err_sockets;
    }
    error = uv_poll_init(loop, &k->poll, k->fd);
    if (error != 0) {
        log_error("keeper", "could not watch the keeper: %s", uv_strerror(error));
        goto err_process;
    }
    uv_timer_init(loop, &k->hunt.timer);
    close(fds[1]);
    k->poll.data = k;
    uv_poll_start(&k->poll, UV_READABLE, on_poll);
    *k_out = k;
    return MU_OK;
err_process:
    kill(k->pid, SIGKILL);
    waitpid(k->pid, NULL, 0);
err_sockets:
    close(fds[0]);
    close(fds[1]);
err_memory:
    free(k);
    return MU_EIO;
}

/* Cookie 0: a free one. NULL: there is none. */
static struct seat *find(struct keeper *k, uint64_t cookie)
{
    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        if (k->seats[i].cookie == cookie) {
            return &k->seats[i];
        }
    }
    return NULL;
}

static int send_start(struct keeper *k, const struct seat *s, const struct keeper_start *start,
                      int command_fd)
{
    union {
        char bytes[CMSG_SPACE(KEEPER_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct keeper_message m = {
        .kind = KEEPER_START, .place = (uint32_t)(s - k->seats), .cookie = start->cookie};
    struct iovec iov = {.iov_base = &m, .iov_len = sizeof(m)};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    int fds[KEEPER_FDS] = {command_fd, start->out_fd, start->err_fd};

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    if (sendmsg(k->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        log_error("keeper", "could not ask the keeper for a process: %s", strerror(errno));
        return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS ? MU_EAGAIN : MU_EIO;
    }
    return MU_OK;
}

int keeper_start(struct keeper *k, const struct keeper_start *start)
{
    struct seat *s = find(k, 0);
    int command_fd, rc;

    mu_assert(start->cookie != 0 && start->argv[0] != NULL);
    if (k->gone || k->closing) {
        return MU_EIO;
    }
    if (find(k, start->cookie) != NULL) {
        return MU_EBUSY;
    }
    if (s == NULL) {
        return MU_ELIMIT;
    }
    rc = keeper_pack(start, &command_fd);
    if (rc != MU_OK) {
        log_error("keeper", "could not pack the command '%s': %s", start->argv[0], mu_strerror(rc));
        return rc;
    }
    rc = send_start(k, s, start, command_fd);
    close(command_fd);
    if (rc == MU_OK) {
        *s = (struct seat){.cookie = start->cookie};
    }
    return rc;
}

void keeper_stop(struct keeper *k, uint64_t cookie, uint32_t grace_ms)
{
    struct seat *s = cookie != 0 ? find(k, cookie) : NULL;

    if (s == NULL || k->gone || k->closing) {
        return;
    }
    s->grace_ms = s->stop_unsent ? MIN(s->grace_ms, grace_ms) : grace_ms;
    if (!send_stop(k, s)) {
        uv_poll_start(&k->poll, UV_READABLE | UV_WRITABLE, on_poll);
    }
}

void keeper_set_will(struct keeper *k, const void *will, size_t n)
{
    mu_assert(n <= KEEPER_WILL_MAX);
    if (k->gone || k->closing) {
        return;
    }
    k->will.m.kind = KEEPER_WILL;
    k->will_n = n;
    if (n > 0) {
        memcpy(k->will.will, will, n);
    }
    if (!send_will(k)) {
        uv_poll_start(&k->poll, UV_READABLE | UV_WRITABLE, on_poll);
    }
}

void keeper_close(struct keeper *k)
{
    if (k == NULL || k->closing) {
        return;
    }
    /* If it does not get this it says what is true anyway: that nothing is left of us. */
    keeper_set_will(k, NULL, 0);
    k->closing = true;
    if (!k->gone) {
        shutdown(k->fd, SHUT_WR); /* To the keeper we are gone; it closes when all are dead. */
    } else if (!k->hunt.on) {
        uv_close((uv_handle_t *)&k->poll, close_handles);
    }
}
