/* The side of the test: forks the ranks, publishes, listens, and cleans up. */
#include "comm/ranks.h"
#include "base/prng.h"
#include "comm/ranks_words.h"
#include "unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void ranks_fail(struct ranks *s, const char *fmt, ...)
{
    char text[RANKS_TEXT_MAX], what[sizeof(s->what)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    memcpy(what, s->what, sizeof(what));
    ranks_close(s);
    fail_msg("%s: %s", what, text);
    abort();
}

wid ranks_wid(uint32_t index)
{
    return wid_make(index + 1, 0, 1);
}

/* ---- events ---- */

static void push(struct ranks *s, struct ranks_event event)
{
    mu_assert(s->queue_n < ARRAY_LEN(s->queue));
    s->queue[(s->queue_from + s->queue_n++) % ARRAY_LEN(s->queue)] = event;
}

static void hear(struct ranks *s, uint32_t who)
{
    struct ranks_told told;

    while (s->rank[who].fd >= 0) {
        ssize_t n = recv(s->rank[who].fd, &told, sizeof(told), MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n != (ssize_t)sizeof(told)) {
            close(s->rank[who].fd);
            s->rank[who].fd = -1;
        } else if (told.kind == RANKS_TOLD_FAILED) {
            ranks_fail(s, "rank %u: %.*s", who, (int)sizeof(told.text), told.text);
        } else if (told.kind == RANKS_TOLD_ADDRESS) {
            snprintf(s->rank[who].address, sizeof(s->rank[who].address), "%.*s", ADDR_MAX_LEN - 1,
                     told.text);
        } else {
            push(s, (struct ranks_event){.kind = RANKS_SAID,
                                         .who = who,
                                         .said = told.kind,
                                         .value = told.value,
                                         .value2 = told.value2});
        }
    }
}

static void look_after(struct ranks *s, uint32_t who)
{
    int status;

    hear(s, who);
    if (s->rank[who].pid == 0 ||
        waitpid(s->rank[who].pid, &status, WNOHANG | WUNTRACED) != s->rank[who].pid) {
        return;
    }
    if (WIFSTOPPED(status)) {
        s->rank[who].stopped = true;
        push(s, (struct ranks_event){.kind = RANKS_STOPPED, .who = who});
        return;
    }
    s->rank[who].pid = 0;
    s->alive_n--;
    hear(s, who); /* What it said before it died comes before its death. */
    push(s, (struct ranks_event){.kind = RANKS_DIED, .who = who, .status = status});
}

/* Sleeps until something may have happened. */
static void doze(struct ranks *s, int64_t ms)
{
    struct pollfd fds[RANKS_MAX + 1] = {{.fd = s->signal_fd, .events = POLLIN}};
    struct signalfd_siginfo info;

    for (uint32_t i = 0; i < s->config.n; i++) {
        fds[i + 1] = (struct pollfd){.fd = s->rank[i].fd, .events = POLLIN};
    }
    if (poll(fds, s->config.n + 1, (int)ms) > 0 && fds[0].revents != 0) {
        while (read(s->signal_fd, &info, sizeof(info)) > 0) {
        }
    }
}

bool ranks_next(struct ranks *s, int64_t timeout_ms, struct ranks_event *out)
{
    const uint64_t end_ns = ranks_now_ns() + (uint64_t)timeout_ms * 1000000;

    for (;;) {
        for (uint32_t i = 0; i < s->config.n; i++) {
            look_after(s, i);
        }
        if (s->queue_n > 0) {
            *out = s->queue[s->queue_from];
            s->queue_from = (s->queue_from + 1) % ARRAY_LEN(s->queue);
            s->queue_n--;
            return true;
        }
        uint64_t now_ns = ranks_now_ns();
        if (now_ns >= end_ns) {
            return false;
        }
        doze(s, (int64_t)MIN((end_ns - now_ns) / 1000000 + 1, 100));
    }
}

static void check_death(struct ranks *s, const struct ranks_event *e)
{
    if (WIFSIGNALED(e->status)) {
        ranks_fail(s, "rank %u was ended by signal %d", e->who, WTERMSIG(e->status));
    }
    if (WEXITSTATUS(e->status) != 0) {
        ranks_fail(s, "rank %u ended with %d", e->who, WEXITSTATUS(e->status));
    }
}

/* The first in the queue that is this; it leaves the queue, the others stay. */
static bool take(struct ranks *s, uint32_t who, uint32_t said, struct ranks_event *out)
{
    for (uint32_t i = 0; i < s->queue_n; i++) {
        struct ranks_event *e = &s->queue[(s->queue_from + i) % ARRAY_LEN(s->queue)];

        if (e->kind == RANKS_DIED) {
            check_death(s, e);
        }
        if (e->kind == RANKS_SAID && e->who == who && e->said == said) {
            *out = *e;
            *e = s->queue[s->queue_from];
            s->queue_from = (s->queue_from + 1) % ARRAY_LEN(s->queue);
            s->queue_n--;
            return true;
        }
    }
    return false;
}

void ranks_await(struct ranks *s, uint32_t who, uint32_t said, struct ranks_event *out)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);
    struct ranks_event unused;

    while (!take(s, who, said, out != NULL ? out : &unused)) {
        if (s->rank[who].pid == 0) {
            ranks_fail(s, "rank %u ended early", who);
        }
        if (ranks_now_ns() > end_ns) {
            ranks_fail(s, "rank %u did not get to %u in time", who, said);
        }
        doze(s, 100);
        for (uint32_t i = 0; i < s->config.n; i++) {
            look_after(s, i);
        }
    }
}

void ranks_finish(struct ranks *s)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);
    struct ranks_event e;

    while (s->alive_n > 0) {
        if (ranks_next(s, 1000, &e) && e.kind == RANKS_DIED) {
            check_death(s, &e);
        }
        if (ranks_now_ns() > end_ns) {
            ranks_fail(s, "%u ranks did not come to an end", s->alive_n);
        }
    }
    ranks_close(s);
}

/* ---- what it tells them ---- */

static void order(struct ranks *s, uint32_t who, const struct ranks_order *o)
{
    if (s->rank[who].fd >= 0 && send(s->rank[who].fd, o, sizeof(*o), MSG_NOSIGNAL) < 0 &&
        errno != EPIPE && errno != ECONNRESET) {
        ranks_fail(s, "telling rank %u: %s", who, strerror(errno));
    }
}

void ranks_word(struct ranks *s, uint32_t who, uint64_t word)
{
    struct ranks_order o = {.is_word = true, .word = word};

    order(s, who, &o);
}

uint64_t ranks_publish(struct ranks *s, enum generation_kind kind, const uint32_t *who,
                       uint32_t who_n)
{
    struct ranks_order o = {.generation = {.job = "test",
                                           .run = 1,
                                           .number = ++s->generation,
                                           .from = s->generation - 1,
                                           .kind = kind,
                                           .members_n = who_n}};

    if (getrandom(o.generation.key, sizeof(o.generation.key), 0) !=
        (ssize_t)sizeof(o.generation.key)) {
        ranks_fail(s, "no random bytes");
    }
    for (uint32_t i = 0; i < who_n; i++) {
        uint64_t host = s->config.hosts[who[i]];

        o.members[i] = (struct member){.worker = s->rank[who[i]].self, .host = host ? host : 1};
        memcpy(o.members[i].addr, s->rank[who[i]].address, ADDR_MAX_LEN);
    }
    for (uint32_t i = 0; i < who_n; i++) {
        order(s, who[i], &o);
    }
    return s->generation;
}

uint64_t ranks_publish_all(struct ranks *s)
{
    uint32_t who[RANKS_MAX];

    for (uint32_t i = 0; i < s->config.n; i++) {
        who[i] = i;
    }
    return ranks_publish(s, GENERATION_FRESH, who, s->config.n);
}

uint64_t ranks_publish_without(struct ranks *s, uint32_t not_this)
{
    uint32_t who[RANKS_MAX], n = 0;

    for (uint32_t i = 0; i < s->config.n; i++) {
        if (i != not_this && s->rank[i].pid != 0) {
            who[n++] = i;
        }
    }
    return ranks_publish(s, GENERATION_FAILURE, who, n);
}

void ranks_signal(struct ranks *s, uint32_t who, int signal)
{
    if (s->rank[who].pid != 0) {
        kill(s->rank[who].pid, signal);
    }
}

/* ---- birth and death ---- */

static void in_child(struct ranks *s, uint32_t index, int fd, pid_t parent, const sigset_t *mask)
{
    struct rank *r = calloc(1, sizeof(*r));

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || r == NULL) {
        _exit(1);
    }
    sigprocmask(SIG_SETMASK, mask, NULL);
    close(s->signal_fd);
    for (uint32_t i = 0; i < index; i++) {
        close(s->rank[i].fd);
    }
    r->index = index;
    r->self = ranks_wid(index);
    r->fd = fd;
    r->shared = s->shared;
    rank_live(r, &s->config, s->key_seed);
}

static void start(struct ranks *s, uint32_t index, const sigset_t *mask)
{
    const pid_t self = getpid();
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        ranks_fail(s, "no socket pair: %s", strerror(errno));
    }
    s->rank[index].self = ranks_wid(index);
    s->rank[index].fd = ends[0];
    s->rank[index].pid = fork();
    if (s->rank[index].pid == 0) {
        close(ends[0]);
        in_child(s, index, ends[1], self, mask);
    }
    close(ends[1]);
    if (s->rank[index].pid < 0) {
        s->rank[index].pid = 0;
        ranks_fail(s, "no process: %s", strerror(errno));
    }
    s->alive_n++;
}

static void collect_addresses(struct ranks *s)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);

    for (uint32_t i = 0; i < s->config.n; i++) {
        while (s->rank[i].address[0] == '\0') {
            look_after(s, i);
            if (s->rank[i].pid == 0 || ranks_now_ns() > end_ns) {
                ranks_fail(s, "rank %u did not say its address", i);
            }
            if (s->rank[i].address[0] == '\0') {
                doze(s, 20);
            }
        }
    }
}

void ranks_open(struct ranks *s, const struct ranks_config *config)
{
    sigset_t children, before;

    memset(s, 0, sizeof(*s));
    mu_assert(config->n >= 1 && config->n <= RANKS_MAX);
    s->config = *config;
    for (uint32_t i = 0; i < RANKS_MAX; i++) {
        s->rank[i].fd = -1;
    }
    snprintf(s->what, sizeof(s->what), "%u ranks", config->n);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, &before);
    s->signal_fd = signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC);
    if (config->shared_bytes > 0) {
        s->shared = mmap(NULL, config->shared_bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(s->shared != MAP_FAILED);
    }
    s->key_seed = ranks_now_ns();
    fflush(NULL); /* or the children write it again */
    for (uint32_t i = 0; i < config->n; i++) {
        start(s, i, &before);
    }
    collect_addresses(s);
}

void ranks_close(struct ranks *s)
{
    for (uint32_t i = 0; i < s->config.n; i++) {
        if (s->rank[i].pid != 0) {
            kill(s->rank[i].pid, SIGKILL);
            waitpid(s->rank[i].pid, NULL, 0);
            s->rank[i].pid = 0;
        }
        if (s->rank[i].fd >= 0) {
            close(s->rank[i].fd);
            s->rank[i].fd = -1;
        }
    }
    if (s->shared != NULL) {
        munmap(s->shared, s->config.shared_bytes);
    }
    if (s->signal_fd >= 0) {
        close(s->signal_fd);
    }
    s->shared = NULL;
    s->signal_fd = -1;
    s->alive_n = s->config.n = 0;
}
