/* A worker's line to the checkpoints that the orchestrator keeps: a second connection to its agent,
 * which passes frames on (agent/relay.h). Blocking, one thread at a time. */
#include "run/agent_line.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { STUCK_MS = 30000 }; /* an agent that reads nothing for so long is given up */

/* Some refusals are final. */
static int refused(const struct msg_refused *m, struct ckpt_why *why)
{
    const bool final = m->status == MU_EREFUSED || m->status == MU_ENOENT || m->status == MU_ESTALE;

    return ckpt_say(why, final ? MU_EREFUSED : MU_EIO, "%s", m->text);
}

/* Waits for more bytes. MU_EAGAIN: not all of a frame may be there yet. */
static int receive(struct agent_line *l, uint32_t wait_ms, struct ckpt_why *why)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    const int ready = poll(&p, 1, (int)MIN(wait_ms, (uint32_t)INT32_MAX));

    if (ready == 0) {
        return ckpt_say(why, MU_ETIMEDOUT, "the orchestrator does not answer");
    }
    if ((ready < 0 && errno != EINTR) || agent_line_receive(l) == MU_EPEER) {
        return errno == 0
                   ? ckpt_say(why, MU_EIO, "the agent has closed the line to the orchestrator")
                   : ckpt_say(why, MU_EIO, "the line to the agent is broken: %s", strerror(errno));
    }
    return MU_EAGAIN;
}

static int next(void *arg, uint32_t wait_ms, uint64_t *request_out,
                const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    struct agent_line *l = arg;
    struct wire_fault fault = {0};
    struct wire_header h;
    int rc;

    while ((rc = intake_next(&l->in, &h, &fault)) == MU_EAGAIN) {
        rc = receive(l, wait_ms, why);
        if (rc != MU_EAGAIN) {
            return rc;
        }
    }
    if (rc != MU_OK) {
        return ckpt_say(why, rc == MU_ENOMEM ? rc : MU_EIO, "%s", fault.text);
    }
    if (h.type == WIRE_REFUSED) {
        return refused(&l->in.desk.msg.refused, why);
    }
    if (h.type != WIRE_DEPOT_SAYS) {
        return ckpt_say(why, MU_EIO, "the agent says what has no place on this line");
    }
    *request_out = h.request;
    *m_out = &l->in.desk.msg.depot_says;
    return MU_OK;
}

/* What could not be said was not heard because the line is closed: the last word may be why. */
static int unheard(struct agent_line *l, int error, struct ckpt_why *why)
{
    const struct msg_depot_says *m;
    uint64_t request;
    int rc;

    while ((rc = next(l, 0, &request, &m, why)) == MU_OK) {
    }
    if (rc == MU_ETIMEDOUT) {
        rc = ckpt_say(why, MU_EIO, "the agent does not listen: %s", strerror(error));
    }
    return rc;
}

static int say(void *arg, const struct msg_depot *m, uint64_t request, struct ckpt_why *why)
{
    struct agent_line *l = arg;
    int rc = agent_line_say(l, WIRE_DEPOT, m, request);

    if (rc != MU_OK) {
        return ckpt_say(why, rc, "%s", mu_strerror(rc));
    }
    return agent_line_send(l, 0) == MU_OK ? MU_OK : unheard(l, errno, why);
}

static int dial(void *arg, struct ckpt_why *why)
{
    struct agent_line *l = arg;
    int rc;

    agent_line_close(l);
    rc = agent_line_dial(l, STUCK_MS, ATTACH_DEPOT);
    if (rc != MU_OK) {
        rc = ckpt_say(why, rc == MU_ENOMEM ? rc : MU_EIO, "%s", mu_error());
    } else if (agent_line_send(l, 0) != MU_OK) {
        rc = ckpt_say(why, MU_EIO, "the agent can't be reached: %s", strerror(errno));
    }
    if (rc != MU_OK) {
        agent_line_close(l);
    }
    return rc;
}

static void hang_up(void *arg)
{
    agent_line_close(arg);
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
