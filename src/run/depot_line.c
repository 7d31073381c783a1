/* A worker's line to the checkpoints that the orchestrator keeps: a second connection to its agent,
 * which passes frames on (agent/relay.h). Blocking, one thread at a time. */
#include "run/agent_line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { STUCK_MS = 30000 }; /* an agent that reads nothing for so long is given up */

static int fail(int status, struct ckpt_why *why, const char *text, int error)
{
    snprintf(why->text, sizeof(why->text), "%s%s%s", text, error != 0 ? ": " : "",
             error != 0 ? strerror(error) : "");
    return status;
}

/* Some refusals are final. */
static int refused(const struct msg_refused *m, struct ckpt_why *why)
{
    const bool final = m->status == MU_EREFUSED || m->status == MU_ENOENT || m->status == MU_ESTALE;

    return fail(final ? MU_EREFUSED : MU_EIO, why, m->text, 0);
}

/* Waits for more bytes. MU_EAGAIN: not all of a frame may be there yet. */
static int receive(struct agent_line *l, uint32_t wait_ms, struct ckpt_why *why)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    const int ready = poll(&p, 1, (int)MIN(wait_ms, (uint32_t)INT32_MAX));

    if (ready == 0) {
        return fail(MU_ETIMEDOUT, why, "the orchestrator does not answer", 0);
    }
    if ((ready < 0 && errno != EINTR) || agent_line_receive(l) == MU_EPEER) {
        return fail(MU_EIO, why,
                    errno == 0 ? "the agent has closed the line to the orchestrator"
                               : "the line to the agent is broken",
                    errno);
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

    if (l->fd < 0) {
        return fail(MU_EIO, why, "there is no line to the agent", 0);
    }
    while ((rc = intake_next(&l->in, &h, &fault)) == MU_EAGAIN) {
        rc = receive(l, wait_ms, why);
        if (rc != MU_EAGAIN) {
            return rc;
        }
    }
    if (rc != MU_OK) {
        return fail(rc == MU_ENOMEM ? rc : MU_EIO, why, fault.text, 0);
    }
    if (h.type == WIRE_REFUSED) {
        return refused(&l->in.desk.msg.refused, why);
    }
    if (h.type != WIRE_DEPOT_SAYS) {
        return fail(MU_EIO, why, "the agent says what has no place on this line", 0);
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
    return rc == MU_ETIMEDOUT ? fail(MU_EIO, why, "the agent does not listen", error) : rc;
}

static int say(void *arg, const struct msg_depot *m, uint64_t request, struct ckpt_why *why)
{
    struct agent_line *l = arg;
    int rc;

    if (l->fd < 0) {
        return fail(MU_EIO, why, "there is no line to the agent", 0);
    }
    rc = agent_line_say(l, WIRE_DEPOT, m, request);
    if (rc != MU_OK) {
        return fail(rc, why, mu_strerror(rc), 0);
    }
    return agent_line_send(l, 0) == MU_OK ? MU_OK : unheard(l, errno, why);
}

static int dial(void *arg, struct ckpt_why *why)
{
    struct agent_line *l = arg;
    int rc;

    agent_line_hang_up(l);
    rc = agent_line_dial(l, STUCK_MS, true);
    if (rc == MU_OK) {
        rc = agent_line_send(l, 0);
    }
    if (rc != MU_OK) {
        rc = rc == MU_ENOMEM ? fail(rc, why, mu_strerror(rc), 0)
                             : fail(MU_EIO, why, "the agent can't be reached", errno);
        agent_line_hang_up(l);
    }
    return rc;
}

static void hang_up(void *arg)
{
    agent_line_hang_up(arg);
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
