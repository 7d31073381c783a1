#include "run/depot_line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { STUCK_S = 30 }; /* an agent that reads nothing for so long */

void agent_line_init(struct agent_line *l, const struct depot_place *place)
{
    *l = (struct agent_line){.place = place, .fd = -1};
}

static void hang_up(void *arg)
{
    struct agent_line *l = arg;

    if (l->fd >= 0) {
        close(l->fd);
        reader_close(&l->in);
    }
    l->fd = -1;
}

void agent_line_close(struct agent_line *l)
{
    hang_up(l);
    free(l->out);
    l->out = NULL;
    l->out_cap = 0;
}

static int fail(int status, struct ckpt_why *why, const char *text, int error)
{
    snprintf(why->text, sizeof(why->text), "%s%s%s", text, error != 0 ? ": " : "",
             error != 0 ? strerror(error) : "");
    return status;
}

/* ---- out ---- */

static int send_all(struct agent_line *l, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t sent = send(l->fd, bytes, n, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR) {
            return errno;
        }
        bytes += MAX(sent, 0);
        n -= (size_t)MAX(sent, 0);
    }
    return 0;
}

/* MU_EIO: errno says why. */
static int say_frame(struct agent_line *l, enum wire_type type, const void *msg, uint64_t request)
{
    const size_t size = wire_size(type, msg);
    size_t n;
    int rc;

    if (size > l->out_cap) {
        uint8_t *out = realloc(l->out, size);

        if (out == NULL) {
            return MU_ENOMEM;
        }
        l->out = out;
        l->out_cap = size;
    }
    rc = wire_encode(type, msg, 0, request, l->out, l->out_cap, &n);
    if (rc != MU_OK) {
        return rc;
    }
    errno = send_all(l, l->out, n);
    return errno == 0 ? MU_OK : MU_EIO;
}

/* ---- in ---- */

/* Some will not change their mind. */
static int refused(const struct msg_refused *m, struct ckpt_why *why)
{
    const bool final = m->status == MU_EREFUSED || m->status == MU_ENOENT || m->status == MU_ESTALE;

    snprintf(why->text, sizeof(why->text), "%s", m->text);
    return final ? MU_EREFUSED : MU_EIO;
}

/* More bytes, for which it waits. MU_EAGAIN: not all of a frame may be there yet. */
static int receive(struct agent_line *l, uint32_t wait_ms, struct ckpt_why *why)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    uint8_t *at;
    size_t room;
    ssize_t n;
    const int ready = poll(&p, 1, (int)MIN(wait_ms, (uint32_t)INT32_MAX));

    if (ready == 0) {
        return fail(MU_ETIMEDOUT, why, "the orchestrator does not answer", 0);
    }
    if (ready < 0 && errno != EINTR) {
        return fail(MU_EIO, why, "the line to the agent is broken", errno);
    }
    if (reader_room(&l->in, &at, &room) != MU_OK) {
        return fail(MU_ENOMEM, why, "out of memory", 0);
    }
    n = recv(l->fd, at, room, MSG_DONTWAIT);
    if (n == 0) {
        return fail(MU_EIO, why, "the agent has closed the line to the orchestrator", 0);
    }
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
        return fail(MU_EIO, why, "the line to the agent is broken", errno);
    }
    reader_filled(&l->in, (size_t)MAX(n, 0));
    return MU_EAGAIN;
}

static int next(void *arg, uint32_t wait_ms, uint64_t *request_out,
                const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    struct agent_line *l = arg;
    struct wire_fault fault = {0};
    struct wire_header h;
    int rc;

    if (l->fd < 0) {
        return fail(MU_EIO, why, "there is no line to the agent", 0);
    }
    while ((rc = reader_next(&l->in, &h, &l->msg, &fault)) == MU_EAGAIN) {
        rc = receive(l, wait_ms, why);
        if (rc != MU_EAGAIN) {
            return rc;
        }
    }
    if (rc != MU_OK) {
        return fail(rc == MU_ENOMEM ? rc : MU_EIO, why, fault.text, 0);
    }
    if (h.type == WIRE_REFUSED) {
        return refused(&l->msg.refused, why);
    }
    if (h.type != WIRE_DEPOT_SAYS) {
        return fail(MU_EIO, why, "the agent says what has no place on this line", 0);
    }
    *request_out = h.request;
    *m_out = &l->msg.depot_says;
    return MU_OK;
}

/* ---- its life ---- */

/* What could not be said was not heard because the line is closed: the last word may be why. */
static int unheard(struct agent_line *l, int error, struct ckpt_why *why)
{
    const struct msg_depot_says *m;
    uint64_t request;
    int rc;

    while ((rc = next(l, 0, &request, &m, why)) == MU_OK) {
    }
    return rc == MU_ETIMEDOUT ? fail(MU_EIO, why, "the agent does not listen", error) : rc;
}

static int say(void *arg, const struct msg_depot *m, uint64_t request, struct ckpt_why *why)
{
    struct agent_line *l = arg;
    int rc;

    if (l->fd < 0) {
        return fail(MU_EIO, why, "there is no line to the agent", 0);
    }
    rc = say_frame(l, WIRE_DEPOT, m, request);
    if (rc == MU_EIO) {
        return unheard(l, errno, why);
    }
    return rc == MU_OK ? rc : fail(rc, why, mu_strerror(rc), 0);
}

static int dial(void *arg, struct ckpt_why *why)
{
    struct agent_line *l = arg;
    const struct timeval stuck = {.tv_sec = STUCK_S};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct msg_attach attach = l->place->attach;
    int rc;

    hang_up(l);
    strcpy(at.sun_path, l->place->socket);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0) {
        return fail(MU_EIO, why, "no socket to the agent can be made", errno);
    }
    reader_init(&l->in);
    setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &stuck, sizeof(stuck));
    do {
        rc = connect(l->fd, (const struct sockaddr *)&at, sizeof(at));
    } while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        rc = fail(MU_EIO, why, "the agent can't be reached", errno);
        hang_up(l);
        return rc;
    }
    attach.depot = 1;
    rc = say_frame(l, WIRE_ATTACH, &attach, 0);
    if (rc != MU_OK) {
        rc = fail(rc, why, "the agent can't be reached", rc == MU_EIO ? errno : 0);
        hang_up(l);
    }
    return rc;
}

struct depot_line agent_line_hooks(struct agent_line *l, uint32_t patience_ms)
{
    return (struct depot_line){.open = dial,
                               .say = say,
                               .next = next,
                               .close = hang_up,
                               .arg = l,
                               .patience_ms = patience_ms};
}
