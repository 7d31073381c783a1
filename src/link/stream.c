/* Bytes in and out of the socket, never waiting. */
#include "link/stream.h"
#include "base/hook.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static ssize_t fail(struct stream *s)
{
    if (errno == EAGAIN) {
        return 0;
    }
    s->why = strerrordesc_np(errno);
    return MU_EPEER;
}

ssize_t link_stream_read(struct stream *s, struct iovec *pieces, uint32_t n)
{
    struct msghdr msg = {.msg_iov = pieces, .msg_iovlen = n};
    ssize_t got;

    if (s->tls != NULL) {
        return link_stream_tls_read(s, pieces, n);
    }
    do {
        HOOK();
        got = recvmsg(s->fd, &msg, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        s->why = "it closed the connection";
        return MU_EPEER;
    }
    return got < 0 ? fail(s) : got;
}

ssize_t link_stream_write(struct stream *s, struct iovec *pieces, uint32_t n)
{
    struct msghdr msg = {.msg_iov = pieces, .msg_iovlen = n};
    ssize_t sent;

    if (s->tls != NULL) {
        return link_stream_tls_write(s, pieces, n);
    }
    do {
        HOOK();
        sent = sendmsg(s->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? fail(s) : sent;
}

bool link_stream_has_left_over(const struct stream *s)
{
    return s->tls != NULL && s->tls->at < s->tls->n;
}
