#include "agent/relay.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA "relay"
#define HANDSHAKE_MS 10000
#define UP_MAX ((size_t)12 << 20)  /* two chunks that are being put, and what goes with them */
#define DOWN_MAX ((size_t)4 << 20) /* eight reads, and lists */

struct relay {
    struct conn *worker, *up;
    const char *job;
    void (*ended)(void *arg, int status, const char *why);
    void *arg;
};

/* The orchestrator's side is gone, or is closed here. */
static void end(struct relay *r, int status, const char *why)
{
    void (*ended)(void *arg, int status, const char *why) = r->ended;
    void *arg = r->arg;

    free(r);
    ended(arg, status, why);
}

static void on_opened(struct conn *c)
{
    log_debug(AREA, "a line to the checkpoints at %s is made for %s", conn_peer(c),
              conn_peer(((struct relay *)conn_data(c))->worker));
}

static void on_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct relay *r = conn_data(c);

    if (h->type == WIRE_DEPOT_SAYS) {
        conn_say(r->worker, WIRE_DEPOT_SAYS, &msg->depot_says, 0, h->request);
        if (conn_queued(r->worker) > DOWN_MAX) {
            conn_close(c, 0);
            end(r, MU_ELIMIT, "the worker does not read what it has asked for");
        }
    } else if (h->type == WIRE_REFUSED) {
        char why[TEXT_MAX_LEN + 40];

        snprintf(why, sizeof(why), "the orchestrator: %s", msg->refused.text);
        conn_close(c, 0);
        end(r, msg->refused.status, why);
    } else {
        conn_close(c, 0);
        end(r, MU_EPROTO, "the orchestrator does not keep checkpoints: it is of another version");
    }
}

static void on_closed(struct conn *c, int status, const char *why)
{
    char text[NET_ERROR_MAX + 64];

    snprintf(text, sizeof(text), "no line to the orchestrator: %s", why);
    end(conn_data(c), status, text);
}

static const struct conn_handler handler = {
    .opened = on_opened, .frame = on_frame, .closed = on_closed};

int relay_open(const struct relay_dial *dial, struct conn *worker,
               void (*ended)(void *arg, int status, const char *why), void *arg,
               struct relay **r_out)
{
    static const struct conn_limits limits = {.handshake_ms = HANDSHAKE_MS, .out_max = UP_MAX};
    struct relay *r = malloc(sizeof(*r));
    int rc;

    if (r == NULL) {
        return MU_ENOMEM;
    }
    *r = (struct relay){.worker = worker, .job = dial->job, .ended = ended, .arg = arg};
    rc = conn_connect(dial->loop, dial->to, dial->tls, &handler, &limits, r, &r->up);
    if (rc != MU_OK) {
        free(r);
        return rc;
    }
    *r_out = r;
    return MU_OK;
}

int relay_up(struct relay *r, const struct wire_header *h, const union wire_any *msg,
             const char **why_out)
{
    if (h->type != WIRE_DEPOT) {
        *why_out = "only DEPOT is passed on over this connection";
        return MU_EPROTO;
    }
    if (strcmp(msg->depot.job, r->job) != 0) {
        *why_out = "it asks for the checkpoints of another job";
        return MU_EPROTO;
    }
    conn_say(r->up, WIRE_DEPOT, &msg->depot, 0, h->request);
    return MU_OK;
}

void relay_close(struct relay *r)
{
    if (r != NULL) {
        conn_close(r->up, 0);
        free(r);
    }
}
