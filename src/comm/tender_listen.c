/* Where a worker listens, and whom it lets in so far as to hold out a hand. */
#include "comm/tender.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKLOG 1024
#define PORTS_TRIED 32
#define ACCEPTS_MAX 32 /* at a time: others want something, too */
#define PAUSE_MS 100

static int refuse(char *error, const struct address *a)
{
    char where[ADDR_MAX_LEN];

    address_print(&a->sa, where, sizeof(where));
    switch (errno) {
    case EADDRINUSE:
        snprintf(error, COMM_ERROR_MAX,
                 "can't listen on %s: another process does; give another port, or none to have a "
                 "free one",
                 where);
        break;
    case EADDRNOTAVAIL:
        snprintf(error, COMM_ERROR_MAX,
                 "can't listen on %s: this host has no such address; give one that it has, or the "
                 "name of an interface (MUSTER_IFACE)",
                 where);
        break;
    case EACCES:
        snprintf(error, COMM_ERROR_MAX,
                 "can't listen on %s: not permitted; ports below 1024 are for root", where);
        break;
    default:
        snprintf(error, COMM_ERROR_MAX, "can't listen on %s: %s", where, strerror(errno));
    }
    return MU_EIO;
}

/* MU_OK, or what failed and errno. */
static int watch_listeners(struct comm *c)
{
    struct tender *t = c->tender;
    int rc = MU_OK;

    if (t->unix_fd >= 0) {
        rc = tender_watch(t, t->unix_fd, EPOLLIN, WHAT_UNIX, 0);
    }
    if (rc == MU_OK && (c->config.paths & COMM_TCP)) {
        rc = tender_watch(t, t->tcp_fd, EPOLLIN, WHAT_TCP, 0);
    }
    return rc;
}

void listeners_close(struct tender *t)
{
    if (t->tcp_fd >= 0) {
        close(t->tcp_fd);
    }
    if (t->unix_fd >= 0) {
        close(t->unix_fd);
    }
    t->tcp_fd = t->unix_fd = -1;
}

/* The unix socket listens first: whoever is let in by TCP can then be sure that it is there. With
 * shared memory alone the port is only kept for its name. 0 or -1 and errno. */
static int listen_on(struct comm *c, struct address *at)
{
    struct tender *t = c->tender;
    struct address local;

    t->tcp_fd = addr_bind(at, SOCK_STREAM);
    if (t->tcp_fd < 0 || getsockname(t->tcp_fd, &at->sa, &at->n) != 0) {
        return -1;
    }
    if (c->config.paths & COMM_SHM) {
        addr_local(address_port(&at->sa), &local);
        t->unix_fd = addr_bind(&local, SOCK_SEQPACKET);
        if (t->unix_fd < 0 || listen(t->unix_fd, BACKLOG) != 0) {
            return -1;
        }
    }
    return c->config.paths & COMM_TCP ? listen(t->tcp_fd, BACKLOG) : 0;
}

int listeners_open(struct comm *c, const struct comm_config *config, char *error)
{
    struct tender *t = c->tender;
    struct address want, at;
    int rc = addr_choose(config, &want, error);

    if (rc != MU_OK) {
        return rc;
    }
    for (int i = 0;; i++) {
        at = want;
        if (listen_on(c, &at) == 0) {
            break;
        }
        const int failed = errno;

        listeners_close(t);
        errno = failed;
        /* A free port whose name on this host is somebody else's, with another address. */
        if (failed != EADDRINUSE || address_port(&want.sa) != 0 || i == PORTS_TRIED) {
            return refuse(error, &at);
        }
    }
    address_print(&at.sa, c->address, sizeof(c->address));
    if (watch_listeners(c) != MU_OK) {
        snprintf(error, COMM_ERROR_MAX, "can't watch connections: %s", strerror(errno));
        return MU_EIO;
    }
    return MU_OK;
}

/* No descriptors or memory are left: to be asked again at once would help nobody. */
static void pause_listeners(struct comm *c)
{
    struct tender *t = c->tender;
    char more[LOG_PACE_TEXT];

    if (log_pace_take(&t->refused_pace, wait_now_ns() / MS, more)) {
        log_warn("comm",
                 "can't take connections of other workers: %s%s; raise the limit of open "
                 "files (ulimit -n)",
                 strerror(errno), more);
    }
    tender_unwatch(t, t->tcp_fd);
    tender_unwatch(t, t->unix_fd);
    t->accept_ns = wait_now_ns() + PAUSE_MS * MS;
}

uint64_t listeners_resume(struct comm *c, uint64_t now_ns)
{
    struct tender *t = c->tender;

    if (t->accept_ns == 0) {
        return UINT64_MAX;
    }
    if (t->accept_ns > now_ns) {
        return t->accept_ns;
    }
    t->accept_ns = 0;
    (void)watch_listeners(c);
    return UINT64_MAX;
}

void listener_accept(struct comm *c, enum tender_what what)
{
    struct tender *t = c->tender;
    const int listener = what == WHAT_UNIX ? t->unix_fd : t->tcp_fd;

    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct hand *h;
        struct address from = {.n = sizeof(struct sockaddr_un)};
        const int fd = accept4(listener, &from.sa, &from.n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                pause_listeners(c);
            }
            if (errno != EINTR && errno != ECONNABORTED) {
                return;
            }
            continue;
        }
        hands_make_room(c);
        if (hand_open(c, fd, what == WHAT_UNIX ? COMM_SHM : COMM_TCP, NULL, &h) != MU_OK) {
            close(fd);
            continue;
        }
        address_print(&from.sa, h->from, sizeof(h->from));
    }
}
