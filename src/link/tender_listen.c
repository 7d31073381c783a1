/* Where a worker listens, and whom it lets in so far as to hold out a hand. */
#include "link/tender_state.h"

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
        snprintf(error, LINK_ERROR_MAX,
                 "can't listen on %s: another process does; give another port, or none to have a "
                 "free one",
                 where);
        break;
    case EADDRNOTAVAIL:
        snprintf(error, LINK_ERROR_MAX,
                 "can't listen on %s: this host has no such address; give one that it has, or the "
                 "name of an interface (MUSTER_IFACE)",
                 where);
        break;
    case EACCES:
        snprintf(error, LINK_ERROR_MAX,
                 "can't listen on %s: not permitted; ports below 1024 are for root", where);
        break;
    default:
        snprintf(error, LINK_ERROR_MAX, "can't listen on %s: %s", where, strerror(errno));
    }
    return MU_EIO;
}

/* MU_OK, or what failed and errno. */
static int watch_listeners(struct tender *t)
{
    int rc = MU_OK;

    for (unsigned i = 0; i < LISTENERS && rc == MU_OK; i++) {
        if (t->listeners[i] >= 0 && (i != LISTENER_TCP || (t->config.paths & LINK_TCP))) {
            rc = tender_await(t, t->listeners[i], EPOLLIN, WHAT_LISTENER, i);
        }
    }
    return rc;
}

void listeners_close(struct tender *t)
{
    for (int i = 0; i < LISTENERS; i++) {
        if (t->listeners[i] >= 0) {
            close(t->listeners[i]);
        }
        t->listeners[i] = -1;
    }
}

static int listen_local(struct tender *t, enum link_class class, uint16_t port)
{
    int *fd = &t->listeners[LISTENER_GROUP + class];
    struct address local;

    addr_local(class, port, &local);
    *fd = addr_bind(&local, addr_local_type(class));
    return *fd < 0 ? -1 : listen(*fd, BACKLOG);
}

/* The unix sockets listen first: whoever is let in by TCP can then be sure that they are there.
 * Without TCP the port is only kept for its name. 0 or -1 and errno. */
static int listen_on(struct tender *t, struct address *at)
{
    const int tcp = t->listeners[LISTENER_TCP] = addr_bind(at, SOCK_STREAM);

    if (tcp < 0 || getsockname(tcp, &at->sa, &at->n) != 0) {
        return -1;
    }
    if ((t->config.paths & LINK_UNIX) != 0 &&
        (listen_local(t, LINK_GROUP, address_port(&at->sa)) != 0 ||
         listen_local(t, LINK_HELPER, address_port(&at->sa)) != 0)) {
        return -1;
    }
    return t->config.paths & LINK_TCP ? listen(tcp, BACKLOG) : 0;
}

int listeners_open(struct tender *t, const struct tender_config *config, char *error)
{
    struct address want, at;
    int rc = addr_choose(config->address, config->iface, &want, error);

    if (rc != MU_OK) {
        return rc;
    }
    for (int i = 0;; i++) {
        at = want;
        if (listen_on(t, &at) == 0) {
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
    address_print(&at.sa, t->address, sizeof(t->address));
    if (watch_listeners(t) != MU_OK) {
        snprintf(error, LINK_ERROR_MAX, "can't watch connections: %s", strerror(errno));
        return MU_EIO;
    }
    return MU_OK;
}

/* No descriptors or memory are left: to be asked again at once would help nobody. */
static void pause_listeners(struct tender *t)
{
    char more[LOG_PACE_TEXT];

    if (log_pace_take(&t->refused_pace, clock_ns() / MS, more)) {
        log_warn("link",
                 "can't take connections of other workers: %s%s; raise the limit of open "
                 "files (ulimit -n)",
                 strerror(errno), more);
    }
    for (int i = 0; i < LISTENERS; i++) {
        tender_unwatch(t, t->listeners[i]);
    }
    t->accept_ns = clock_ns() + PAUSE_MS * MS;
}

uint64_t listeners_resume(struct tender *t, uint64_t now_ns)
{
    if (t->accept_ns == 0) {
        return UINT64_MAX;
    }
    if (t->accept_ns > now_ns) {
        return t->accept_ns;
    }
    t->accept_ns = 0;
    (void)watch_listeners(t);
    return UINT64_MAX;
}

void listener_accept(struct tender *t, enum listener which)
{
    const enum link_class class = which == LISTENER_HELPER ? LINK_HELPER : LINK_GROUP;

    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct hand *h;
        struct address from = {.n = sizeof(struct sockaddr_un)};
        const int fd =
            accept4(t->listeners[which], &from.sa, &from.n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                pause_listeners(t);
            }
            if (errno != EINTR && errno != ECONNABORTED) {
                return;
            }
            continue;
        }
        hands_make_room(t);
        if (hand_open(t, fd, which == LISTENER_TCP ? LINK_TCP : LINK_UNIX, class, NULL, &h) !=
            MU_OK) {
            close(fd);
            continue;
        }
        address_print(&from.sa, h->from, sizeof(h->from));
    }
}
