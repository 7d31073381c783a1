/* Accepting within bounds. Whoever has not shown that it knows the token is on `strangers`, in the
 * order of their last sign of life, so a flood of silent connections pushes out its own. A first
 * message that is keyed right makes a guest, who is not pushed out but may be somebody's recording:
 * of these there is a number too. When ten thousand come back at once, they wait in the kernel's
 * queue. */
#include "net/listen_state.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDSHAKES_MAX 4096u
#define ACCEPT_MAX 512 /* in one turn of the loop */
#define STRANGERS_SHARE 4u
#define PAUSE_MS 100u /* when there are no more files */
#define GUESTS_PER_STRANGER 2u
#define WAIT_MS 20u    /* when there is no room for another connection */
#define FILES_KEPT 64u /* for everything that is no connection */

/* ---- what is told ---- */

static void tell(struct listener *l, const char *peer, const char *what, const char *why)
{
    char more[LOG_PACE_TEXT];

    if (log_pace_take(&l->pace, net_now_ms(), more)) {
        log_warn("net", "%s %s: %s%s", what, peer, why, more);
    }
}

static void count(struct listener *l, const struct conn *c, int status, const char *why,
                  bool was_open)
{
    if (!was_open) {
        if (status == MU_ETIMEDOUT) {
            l->counts.timed_out++;
        } else {
            l->counts.refused++;
        }
        /* Whoever only looks whether the port is open is not worth a line. */
        if (status != MU_EIO || c->spoke) {
            tell(l, conn_peer(c), "refused", why);
        }
        return;
    }
    if (status == MU_EPROTO || status == MU_EVERSION || status == MU_ECORRUPT) {
        l->counts.broken++;
        tell(l, conn_peer(c), "closed", why);
    } else if (status == MU_ELIMIT) {
        l->counts.unread++;
        tell(l, conn_peer(c), "closed", why);
    } else if (status == MU_ETIMEDOUT && !c->heard) {
        l->counts.timed_out++;
        tell(l, conn_peer(c), "closed", why);
    }
}

/* ---- its connections ---- */

static void unlink_conn(struct conn *c)
{
    struct listener *l = c->listener;

    if (c->state >= CONN_OPEN) {
        TAILQ_REMOVE(&l->open, c, link);
    } else if (c->guest) {
        TAILQ_REMOVE(&l->guests, c, link);
        l->guests_n--;
    } else {
        TAILQ_REMOVE(&l->strangers, c, link);
        l->strangers_n--;
    }
    l->counts.handshaking = l->strangers_n + l->guests_n;
    l->counts.now--;
    c->listener = NULL;
}

void listen_conn_spoke(struct conn *c)
{
    TAILQ_REMOVE(&c->listener->strangers, c, link);
    TAILQ_INSERT_TAIL(&c->listener->strangers, c, link);
    c->heard_ms = uv_now(c->listener->loop);
}

void listen_conn_keyed(struct conn *c)
{
    struct listener *l = c->listener;

    TAILQ_REMOVE(&l->strangers, c, link);
    l->strangers_n--;
    c->guest = true;
    TAILQ_INSERT_TAIL(&l->guests, c, link);
    l->guests_n++;
}

void listen_conn_opened(struct conn *c)
{
    struct listener *l = c->listener;

    if (c->guest) {
        TAILQ_REMOVE(&l->guests, c, link);
        l->guests_n--;
    } else { /* plain: there is nothing to prove */
        TAILQ_REMOVE(&l->strangers, c, link);
        l->strangers_n--;
    }
    TAILQ_INSERT_TAIL(&l->open, c, link);
    l->counts.handshaking = l->strangers_n + l->guests_n;
    l->counts.opened++;
}

void listen_conn_closed(struct conn *c, int status, const char *why, bool was_open)
{
    struct listener *l = c->listener;

    unlink_conn(c);
    count(l, c, status, why, was_open);
}

void listen_conn_left(struct conn *c)
{
    unlink_conn(c);
}

/* ---- accepting ---- */

static void shed(struct listener *l, const char *peer, const char *why)
{
    l->counts.shed++;
    tell(l, peer, "turned away", why);
}

/* Whether one more may begin, or somebody may make room for it. */
static bool has_room(const struct listener *l)
{
    if (l->guests_n >= (uint64_t)GUESTS_PER_STRANGER * l->config.handshakes_max) {
        return false;
    }
    return l->strangers_n < l->config.handshakes_max ||
           uv_now(l->loop) - TAILQ_FIRST(&l->strangers)->heard_ms >=
               l->config.limits.handshake_ms / 4;
}

static void shed_oldest(struct listener *l)
{
    struct conn *c = TAILQ_FIRST(&l->strangers);

    shed(l, conn_peer(c),
         "there is no more room for those in their handshake; this was the oldest");
    unlink_conn(c);
    conn_release(c);
}

static void take(struct listener *l, int fd)
{
    struct conn *c;

    l->counts.accepted++;
    if (l->counts.now >= l->config.conns_max && l->strangers_n > 0) {
        shed_oldest(l); /* whoever has shown the token is worth more than one who has not */
    }
    if (l->counts.now >= l->config.conns_max) {
        shed(l, "a newcomer", "there are as many connections as are allowed");
        close(fd);
        return;
    }
    if (l->strangers_n >= l->config.handshakes_max) {
        shed_oldest(l);
    }
    if (conn_open(l->loop, fd, l->tls, true, l->handler, &l->config.limits, l->data, &c) != MU_OK) {
        shed(l, "a newcomer", mu_strerror(MU_ENOMEM));
        close(fd);
        return;
    }
    c->listener = l;
    c->heard_ms = uv_now(l->loop);
    TAILQ_INSERT_TAIL(&l->strangers, c, link);
    l->strangers_n++;
    l->counts.handshaking++;
    l->counts.now++;
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void on_pause_end(uv_timer_t *timer)
{
    struct listener *l = timer->data;

    if (l->spare_fd < 0) {
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    uv_poll_start(&l->poll, UV_READABLE, on_poll);
}

static void pause_for(struct listener *l, uint64_t ms)
{
    uv_poll_stop(&l->poll);
    uv_timer_start(&l->pause, on_pause_end, ms, 0);
}

/* Without a file to spare the one who waits could not even be turned away, and the loop would
 * spin on it. */
static void out_of_files(struct listener *l, const char *why)
{
    if (l->strangers_n > 0) {
        shed_oldest(l);
    } else if (l->spare_fd >= 0) {
        close(l->spare_fd);
        l->spare_fd = -1;
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0) {
            l->counts.accepted++;
            shed(l, "a newcomer", why);
            close(fd);
        }
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    pause_for(l, PAUSE_MS);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct listener *l = handle->data;

    for (int i = 0; i < ACCEPT_MAX && !l->closing; i++) {
        if (!has_room(l)) {
            pause_for(l, WAIT_MS);
            return;
        }
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            take(l, fd);
            continue;
        }
        if (errno == EAGAIN) {
            return;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            out_of_files(l, strerror(errno));
            return;
        }
        /* Anything else (ECONNABORTED, EPERM, a network error that Linux passes on) is about that
         * one connection. */
    }
}

/* ---- its life ---- */

static uint32_t files_allow(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 1024 - FILES_KEPT;
    }
    const uint64_t n = MIN((uint64_t)limit.rlim_cur, (uint64_t)1 << 20);

    return n > (uint64_t)2 * FILES_KEPT ? (uint32_t)n - FILES_KEPT : (uint32_t)MAX(n / 2, 1);
}

int listen_start(uv_loop_t *loop, int fd, struct tls *tls, const struct conn_handler *handler,
                 const struct listen_config *config, void *data, struct listener **l_out,
                 char *error)
{
    struct listener *l = calloc(1, sizeof(*l));

    if (l == NULL || uv_poll_init(loop, &l->poll, fd) != 0) {
        snprintf(error, NET_ERROR_MAX, "out of memory");
        free(l);
        return MU_ENOMEM;
    }
    uv_timer_init(loop, &l->pause);
    l->poll.data = l->pause.data = l;
    l->handles_n = 2;
    l->loop = loop;
    l->fd = fd;
    l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    l->tls = tls;
    l->handler = handler;
    l->config = *config;
    if (l->config.conns_max == 0) {
        l->config.conns_max = files_allow();
    }
    if (l->config.limits.handshake_ms == 0) {
        l->config.limits.handshake_ms = CONN_HANDSHAKE_MS;
    }
    if (l->config.handshakes_max == 0) {
        l->config.handshakes_max = HANDSHAKES_MAX;
    }
    if (tls !=
        NULL) { /* Strangers get a part of what there is: the rest is for those with the token. */
        l->config.handshakes_max =
            MIN(l->config.handshakes_max, MAX(l->config.conns_max / STRANGERS_SHARE, 1));
    }
    l->data = data;
    TAILQ_INIT(&l->strangers);
    TAILQ_INIT(&l->guests);
    TAILQ_INIT(&l->open);
    uv_poll_start(&l->poll, UV_READABLE, on_poll);
    *l_out = l;
    return MU_OK;
}

static void on_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;

    if (--l->handles_n == 0) {
        free(l);
    }
}

static void close_all(struct conn_list *list)
{
    struct conn *c;

    while ((c = TAILQ_FIRST(list)) != NULL) {
        unlink_conn(c);
        conn_release(c);
    }
}

void listen_close(struct listener *l)
{
    struct stat st;

    if (l == NULL || l->closing) {
        return;
    }
    l->closing = true;
    uv_close((uv_handle_t *)&l->poll, on_closed);
    uv_close((uv_handle_t *)&l->pause, on_closed);
    close(l->fd);
    if (l->spare_fd >= 0) {
        close(l->spare_fd);
    }
    if (l->path[0] != '\0' && stat(l->path, &st) == 0 && st.st_dev == l->path_dev &&
        st.st_ino == l->path_ino) {
        (void)unlink(l->path); /* Not if somebody else has put theirs there. */
    }
    close_all(&l->strangers);
    close_all(&l->guests);
    close_all(&l->open);
}

uint16_t listen_port(const struct listener *l)
{
    return l->port;
}

const struct listen_counts *listen_counts(const struct listener *l)
{
    return &l->counts;
}
