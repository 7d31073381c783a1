/* Frames of the depot over a connection of net/client.h. The first is made before anything is
 * asked, so that "nobody is there" is said at once and in the usual words. One that breaks later is
 * made again for as long as the command would wait for an answer. */
#include "cli/depot_line.h"

#include <stdio.h>
#include <stdlib.h>

static int failed(struct ckpt_why *why, int rc, const char *error)
{
    snprintf(why->text, sizeof(why->text), "%s", error[0] != '\0' ? error : mu_strerror(rc));
    return rc;
}

static void line_close(void *arg)
{
    struct depot_call *call = arg;

    client_close(call->client);
    call->client = NULL;
}

static int line_open(void *arg, struct ckpt_why *why)
{
    struct depot_call *call = arg;
    char error[NET_ERROR_MAX] = "";
    int rc;

    if (call->client != NULL && call->fresh) {
        return MU_OK;
    }
    line_close(call);
    rc = ask_dial(call->where, &call->client, error);
    call->fresh = true;
    return rc == MU_OK ? MU_OK : failed(why, rc, error);
}

static int line_say(void *arg, const struct msg_depot *m, uint64_t request, struct ckpt_why *why)
{
    struct depot_call *call = arg;
    char error[NET_ERROR_MAX] = "";
    int rc;

    call->fresh = false;
    call->since_ms = net_now_ms();
    rc = client_say(call->client, WIRE_DEPOT, m, request, error);
    return rc == MU_OK ? MU_OK : failed(why, rc, error);
}

static int line_next(void *arg, uint32_t wait_ms, uint64_t *request_out,
                     const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    struct depot_call *call = arg;
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX] = "";
    int rc = client_next(call->client, wait_ms, &h, &msg, error);

    if (rc == MU_OK && h.type == WIRE_REFUSED) {
        return failed(why, MU_EREFUSED, msg->refused.text);
    }
    if (rc == MU_OK && h.type != WIRE_DEPOT_SAYS) {
        rc = MU_ETIMEDOUT; /* Nothing that was asked for. */
    }
    if (rc == MU_ETIMEDOUT && net_now_ms() - call->since_ms >= call->where->wait_ms) {
        return failed(why, MU_EIO, error[0] != '\0' ? error : "no answer in time");
    }
    if (rc != MU_OK) {
        return failed(why, rc, error);
    }
    call->since_ms = net_now_ms();
    *request_out = h.request;
    *m_out = &msg->depot_says;
    return MU_OK;
}

int depot_call_open(const char *command, const struct ask_where *where, struct depot_call *call,
                    struct depot **d_out)
{
    const struct depot_line line = {line_open,  line_say, line_next,
                                    line_close, call,     where->wait_ms};
    struct ask a = {0};
    int status = ask_open(command, where, &a);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    *call = (struct depot_call){.where = where, .client = a.client, .fresh = true};
    if (depot_open(&line, d_out) != MU_OK) {
        line_close(call);
        return ask_failed(command, EXIT_FAILURE, "out of memory");
    }
    return EXIT_SUCCESS;
}
