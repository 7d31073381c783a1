/* `muster keeper FD`: the process itself. See keeper.h for what it is for. */
#include "proc/keep.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define OWNER_FD 3

/* Nothing but SIGKILL ends the keeper: a signal at the terminal is the owner's to act on. */
static int set_signals(void)
{
    static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,  SIGPIPE, SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU};
    struct sigaction ign = {.sa_handler = SIG_IGN}, dfl = {.sa_handler = SIG_DFL};
    sigset_t mask;

    for (size_t i = 0; i < ARRAY_LEN(ignored); i++) {
        sigaction(ignored[i], &ign, NULL);
    }
    sigaction(SIGCHLD, &dfl, NULL); /* Ignored, it would take the exit codes with it. */
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &mask, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Its terminal, its descriptors and its children: its own. Not its console either: one that is
 * stuck must not keep it from its work. */
static bool set_apart(struct keep *kp, int fd)
{
    int null = open("/dev/null", O_RDWR);

    if (null < 0) {
        return false;
    }
    if (fd != OWNER_FD) {
        if (null == OWNER_FD && (null = dup(null)) < 0) {
            return false;
        }
        if (dup2(fd, OWNER_FD) < 0) {
            return false;
        }
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(null, i) < 0) {
            return false;
        }
    }
    close_range(OWNER_FD + 1, UINT_MAX, 0);
    if (fcntl(OWNER_FD, F_SETFD, FD_CLOEXEC) != 0) {
        return false;
    }
    setsid();
    prctl(PR_SET_NAME, "muster-keeper");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return false;
    }
    kp->owner_fd = OWNER_FD;
    kp->signal_fd = set_signals();
    return kp->signal_fd >= 0;
}

static uint32_t take_fds(struct msghdr *h, int fds[KEEPER_FDS])
{
    uint32_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            n = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            mu_assert(n <= KEEPER_FDS);
            memcpy(fds, CMSG_DATA(c), n * sizeof(int));
        }
    }
    return n;
}

/* The kernel could not give us the descriptors: their number is limited. */
static void refuse(struct place *p, const struct keeper_message *m)
{
    *p = (struct place){.state = PLACE_EXITED, .cookie = m->cookie, .report_fd = -1, .code = 126};
    snprintf(p->why, sizeof(p->why),
             "could not start a process: too many open files; raise the limit (ulimit -n)");
}

static void obey(struct keep *kp, const struct keeper_message *m, const int fds[KEEPER_FDS],
                 uint32_t fds_n)
{
    struct place *p;

    mu_assert(m->place < KEEPER_MAX);
    p = &kp->places[m->place];
    if (m->kind == KEEPER_STOP) {
        if (p->cookie == m->cookie) {
            keep_stop(p, m->grace_ms);
        }
        return;
    }
    mu_assert(m->kind == KEEPER_START && p->state == PLACE_FREE);
    if (fds_n == KEEPER_FDS) {
        keep_start(p, m->cookie, fds);
    } else {
        refuse(p, m);
    }
}

/* One packet. False: the owner is gone, or (*again false) there is none. */
static bool hear(struct keep *kp, bool *again)
{
    union {
        char bytes[CMSG_SPACE(KEEPER_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct keeper_packet packet;
    struct iovec iov = {.iov_base = &packet, .iov_len = sizeof(packet)};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    int fds[KEEPER_FDS];
    uint32_t fds_n;
    ssize_t n = recvmsg(kp->owner_fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *again = n > 0 || (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    if (n < (ssize_t)sizeof(packet.m)) {
        return false;
    }
    if (packet.m.kind == KEEPER_WILL) {
        kp->will_n = (size_t)n - sizeof(packet.m);
        memcpy(kp->will, packet.will, kp->will_n);
        return true;
    }
    fds_n = take_fds(&h, fds);
    obey(kp, &packet.m, fds, fds_n);
    for (uint32_t i = 0; i < fds_n; i++) {
        close(fds[i]);
    }
    return true;
}

static bool say(struct keep *kp, const struct place *p, enum keeper_kind kind)
{
    struct keeper_message m = {.kind = kind,
                               .place = (uint32_t)(p - kp->places),
                               .cookie = p->cookie,
                               .pid = (int32_t)p->pid,
                               .code = p->code};

    memcpy(m.why, p->why, sizeof(m.why));
    if (send(kp->owner_fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        kp->unsent = errno == EAGAIN || errno == ENOBUFS || errno == EINTR;
        return false;
    }
    return true;
}

static void tell(struct keep *kp)
{
    kp->unsent = false;
    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        struct place *p = &kp->places[i];

        if (p->tell_started) {
            if (!say(kp, p, KEEPER_STARTED)) {
                return;
            }
            p->tell_started = false;
        }
        if (p->state == PLACE_EXITED) {
            if (!say(kp, p, KEEPER_EXITED)) {
                return;
            }
            *p = (struct place){.state = PLACE_FREE, .report_fd = -1};
        }
    }
}

static int wait_ms(const struct keep *kp)
{
    uint64_t at_ms = keep_deadline(kp), now_ms = clock_ms();

    if (at_ms == 0) {
        return -1;
    }
    return at_ms <= now_ms ? 0 : (int)MIN(at_ms - now_ms, (uint64_t)INT_MAX);
}

/* Until the owner is gone. */
static void serve(struct keep *kp)
{
    for (;;) {
        struct pollfd fds[2 + KEEPER_MAX] = {{.fd = kp->owner_fd, .events = POLLIN},
                                             {.fd = kp->signal_fd, .events = POLLIN}};
        struct signalfd_siginfo drop[16];
        bool again = true;

        if (kp->unsent) {
            fds[0].events |= POLLOUT;
        }
        for (uint32_t i = 0; i < KEEPER_MAX; i++) {
            fds[2 + i] = (struct pollfd){.fd = kp->places[i].report_fd, .events = POLLIN};
        }
        if (poll(fds, ARRAY_LEN(fds), wait_ms(kp)) < 0 && errno != EINTR) {
            return;
        }
        while (read(kp->signal_fd, drop, sizeof(drop)) > 0) {
        }
        while (again) {
            if (!hear(kp, &again)) {
                return;
            }
        }
        for (uint32_t i = 0; i < KEEPER_MAX; i++) {
            if (kp->places[i].report_fd >= 0) {
                keep_listen(&kp->places[i]);
            }
        }
        keep_reap(kp);
        tell(kp);
    }
}

int keeper_main(int argc, char **argv, void (*execute)(const void *will, size_t n))
{
    static struct keep kp;
    char *end;
    long fd = argc == 2 ? strtol(argv[1], &end, 10) : -1;

    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        kp.places[i].report_fd = -1;
    }
    if (fd < 3 || *end != '\0') {
        fprintf(stderr, "muster keeper: is started by muster itself (`muster run`), not by hand\n");
        return 2;
    }
    if (!set_apart(&kp, (int)fd)) {
        return 1;
    }
    serve(&kp);
    keep_bury(&kp);
    if (kp.will_n > 0) {
        execute(kp.will, kp.will_n);
    }
    return 0;
}
