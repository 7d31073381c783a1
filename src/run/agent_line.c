#include "run/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

void agent_line_init(struct agent_line *l, const struct agent_place *place)
{
    *l = (struct agent_line){.place = place, .fd = -1};
}

void agent_line_close(struct agent_line *l)
{
    if (l->fd >= 0) {
        close(l->fd);
    }
    l->fd = -1;
    free(l->out);
    l->out = NULL;
    l->out_n = l->out_cap = 0;
    intake_close(&l->in);
}

int agent_line_dial(struct agent_line *l, uint64_t wait_ms, enum attach_why why)
{
    const uint64_t ms = MAX(MIN(wait_ms, (uint64_t)INT32_MAX), 1);
    const struct timeval wait = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct msg_attach attach = l->place->attach;
    int rc;

    strcpy(at.sun_path, l->place->socket);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0) {
        return run_fail(MU_ELIMIT, "can't make a socket: %s", strerror(errno));
    }
    /* An agent that does not accept must not hold us up: connect() heeds it. */
    setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    do {
        rc = connect(l->fd, (const struct sockaddr *)&at, sizeof(at));
    } while (rc < 0 && errno == EINTR);
    if (rc < 0 && errno == EAGAIN) {
        return run_fail(MU_ETIMEDOUT, "the agent at %s (MUSTER_SOCKET) does not accept",
                        l->place->socket);
    }
    if (rc < 0) {
        return run_fail(MU_EPEER, "no agent answers at %s (MUSTER_SOCKET): %s", l->place->socket,
                        strerror(errno));
    }
    attach.why = (uint8_t)why;
    rc = agent_line_say(l, WIRE_ATTACH, &attach, 0);
    return rc == MU_OK ? rc : run_fail(rc, "out of memory for a line to the agent");
}

int agent_line_say(struct agent_line *l, enum wire_type type, const void *msg, uint64_t request)
{
    const size_t size = wire_size(type, msg);
    size_t n = 0;
    int rc;

    if (l->out_cap - l->out_n < size) {
        const size_t cap = 2 * (l->out_n + size);
        uint8_t *out = realloc(l->out, cap);

        if (out == NULL) {
            return MU_ENOMEM;
        }
        l->out = out;
        l->out_cap = cap;
    }
    rc = wire_encode(type, msg, 0, request, l->out + l->out_n, size, &n);
    l->out_n += rc == MU_OK ? n : 0;
    return rc;
}

int agent_line_send(struct agent_line *l, int flags)
{
    int rc = MU_OK;

    while (rc == MU_OK && l->out_n > 0) {
        const ssize_t n = send(l->fd, l->out, l->out_n, MSG_NOSIGNAL | flags);

        if (n >= 0) {
            memmove(l->out, l->out + n, l->out_n - (size_t)n);
            l->out_n -= (size_t)n;
        } else if (errno != EINTR) {
            rc = errno == EAGAIN ? MU_EAGAIN : MU_EPEER;
        }
    }
    return rc;
}

int agent_line_receive(struct agent_line *l)
{
    const ssize_t n = recv(l->fd, l->in.bytes, sizeof(l->in.bytes), MSG_DONTWAIT);

    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return MU_EAGAIN;
    }
    if (n <= 0) {
        errno = n == 0 ? 0 : errno;
        return MU_EPEER;
    }
    intake_filled(&l->in, (size_t)n);
    return MU_OK;
}
