/* A link's life, and what it sleeps on. */
#include "comm/tcp.h"

#include "base/address.h"
#include "base/log.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROBES_N 3
#define PROBE_S 2

static void drop(struct link *l)
{
    tcp_in_drop(tcp_of(l));
    tcp_out_drop(tcp_of(l));
}

/* What is queued leaves whatever its caller waits for now: the peer may be able to answer only when
 * it has it. The handshake of TLS gets on by what it waits for itself, whoever calls. */
static void await(struct link *l, bool rx, bool tx, struct waiter *w)
{
    struct tcp_link *t = tcp_of(l);
    const bool writes = !t->out.mute && (t->out.n > 0 || tcp_has_left_over(t));
    short events = 0;

    if (atomic_load(&l->lost) != MU_OK) {
        return;
    }
    if (rx && tcp_in_waits(&t->in)) {
        events |= POLLIN;
    }
    if (writes) {
        events |= POLLOUT;
    }
    if (events != 0 && t->tls != NULL && !t->tls->proved) {
        events = t->tls->wants;
    }
    if (events != 0) {
        wait_add_fd(w, t->link.fd, events);
    }
}

/* What the peer sends after the socket is closed, or nobody has read by then, makes the kernel
 * forget what it still has for the peer. So what has come is thrown away, and what has not left is
 * waited for. */
static bool kernel_has_some(const struct tcp_link *t)
{
    int bytes = 0;

    for (int left = 64; left > 0; left--) {
        if (recv(t->link.fd, t->in.buffer, TCP_BUFFER, MSG_DONTWAIT) <= 0) {
            break;
        }
    }
    return ioctl(t->link.fd, SIOCOUTQNSD, &bytes) == 0 && bytes > 0;
}

static void part(struct tcp_link *t)
{
    const uint64_t due_ns = wait_now_ns() + TCP_CLOSE_MS * UINT64_C(1000000);
    int rc = tcp_flush(&t->link);

    while (rc == MU_EAGAIN && wait_now_ns() < due_ns) {
        const bool reads = t->tls != NULL && t->tls->wants == POLLIN;
        struct pollfd fd = {t->link.fd, reads ? POLLIN : POLLOUT, 0};

        poll(&fd, 1, TCP_CLOSE_MS);
        rc = tcp_flush(&t->link);
    }
    while (kernel_has_some(t) && wait_now_ns() < due_ns) {
        poll(NULL, 0, 1);
    }
    shutdown(t->link.fd, SHUT_WR);
}

static void free_link(struct tcp_link *t)
{
    tcp_tls_close(t);
    tcp_in_close(&t->in);
    tcp_out_close(&t->out);
    free(t);
}

static void close_link(struct link *l)
{
    struct tcp_link *t = tcp_of(l);

    if (atomic_load(&l->lost) == MU_OK) {
        part(t);
    }
    close(t->link.fd);
    free_link(t);
}

static const struct link_ops tcp_ops = {
    .send = tcp_send,
    .flush = tcp_flush,
    .taken = tcp_taken,
    .head = tcp_head,
    .body = tcp_body,
    .done = tcp_done,
    .drop = drop,
    .prove = tcp_prove,
    .await = await,
    .close = close_link,
};

/* A host that is gone says nothing. While nothing is under way probes find out, the first of which
 * is sent when there is still time for all of them; while something is, tcp_link_check() does.
 * TCP_USER_TIMEOUT would not do: it also ends a connection to a live worker that does not read for
 * that long, because it computes. */
static void set_options(int fd)
{
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, TCP_SILENCE_S - PROBES_N * PROBE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S},
        {IPPROTO_TCP, TCP_KEEPCNT, PROBES_N},
    };
    const char *congestion = getenv("MUSTER_TCP_CONGESTION");

    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    }
    if (congestion != NULL && congestion[0] != '\0' &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion)) !=
            0) {
        log_warn("comm",
                 "MUSTER_TCP_CONGESTION=%s: %s; the system's is used (sysctl "
                 "net.ipv4.tcp_available_congestion_control lists what there is)",
                 congestion, strerror(errno));
    }
}

static void say_where(struct tcp_link *t)
{
    struct address a = {.n = sizeof(struct sockaddr_un)};
    char text[ADDR_MAX_LEN] = "?";

    if (getpeername(t->link.fd, &a.sa, &a.n) == 0) {
        address_print(&a.sa, text, sizeof(text));
    }
    snprintf(t->link.where, sizeof(t->link.where), "%s %s", t->tls != NULL ? "tcp+tls" : "tcp",
             text);
}

int tcp_link_open(struct comm *c, int fd, const struct hello_session *session,
                  struct link **link_out)
{
    struct tcp_link *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return MU_ENOMEM;
    }
    t->link = (struct link){.ops = &tcp_ops,
                            .comm = c,
                            .session = *session,
                            .fd = fd,
                            .path = COMM_TCP,
                            .rank = UINT32_MAX};
    if (tcp_in_open(&t->in) != MU_OK || tcp_out_open(&t->out) != MU_OK ||
        (c->config.tls && tcp_tls_open(t) != MU_OK)) {
        free_link(t);
        return MU_ENOMEM;
    }
    set_options(fd);
    say_where(t);
    *link_out = &t->link;
    return MU_OK;
}

void tcp_link_check(struct link *l)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);

    if (l->path != COMM_TCP || atomic_load(&l->lost) != MU_OK ||
        getsockopt(l->fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0) {
        return;
    }
    /* Sent again and again, or asked whether there is room: and no answer. */
    if ((info.tcpi_retransmits > 1 || info.tcpi_probes > 1) &&
        info.tcpi_last_ack_recv > TCP_SILENCE_S * 1000) {
        link_lose(l, MU_EPEER, "its host has not answered for too long");
    }
}
