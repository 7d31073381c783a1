/* A link's life, and what it sleeps on. */
#include "comm/tcp.h"

#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

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
    const bool writes = !t->out.mute && (t->out.n > 0 || link_stream_has_left_over(&t->stream));
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
    if (events != 0) {
        wait_add_fd(w, t->link.fd, link_stream_events(&t->stream, events));
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
    const uint64_t due_ns = clock_ns() + TCP_CLOSE_MS * UINT64_C(1000000);
    int rc = tcp_flush(&t->link);

    while (rc == MU_EAGAIN && clock_ns() < due_ns) {
        struct pollfd fd = {t->link.fd, link_stream_events(&t->stream, POLLOUT), 0};

        poll(&fd, 1, TCP_CLOSE_MS);
        rc = tcp_flush(&t->link);
    }
    while (kernel_has_some(t) && clock_ns() < due_ns) {
        poll(NULL, 0, 1);
    }
    shutdown(t->link.fd, SHUT_WR);
}

static void free_link(struct tcp_link *t)
{
    link_stream_close(&t->stream);
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
        link_stream_open(&t->stream, fd, session, c->config.tls ? c->config.run_key : NULL) !=
            MU_OK) {
        free_link(t);
        return MU_ENOMEM;
    }
    link_stream_print(&t->stream, t->link.where, sizeof(t->link.where));
    *link_out = &t->link;
    return MU_OK;
}
