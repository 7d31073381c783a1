/* Bytes in and out of the socket, never waiting. */
#include "base/hook.h"
#include "comm/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static ssize_t fail(struct tcp_link *t)
{
    if (errno == EAGAIN) {
        return 0;
    }
    t->why = strerrordesc_np(errno);
    return MU_EPEER;
}

ssize_t tcp_read(struct tcp_link *t, struct iovec *pieces, uint32_t n)
{
    struct msghdr msg = {.msg_iov = pieces, .msg_iovlen = n};
    ssize_t got;

    if (t->tls != NULL) {
        return tcp_tls_read(t, pieces, n);
    }
    do {
        HOOK();
        got = recvmsg(t->link.fd, &msg, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        t->why = "it closed the connection";
        return MU_EPEER;
    }
    return got < 0 ? fail(t) : got;
}

ssize_t tcp_write(struct tcp_link *t, struct iovec *pieces, uint32_t n)
{
    struct msghdr msg = {.msg_iov = pieces, .msg_iovlen = n};
    ssize_t sent;

    if (t->tls != NULL) {
        return tcp_tls_write(t, pieces, n);
    }
    do {
        HOOK();
        sent = sendmsg(t->link.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? fail(t) : sent;
}

bool tcp_has_left_over(const struct tcp_link *t)
{
    return t->tls != NULL && t->tls->at < t->tls->n;
}
