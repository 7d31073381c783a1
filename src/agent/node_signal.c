/* Signals: the first drains the node, a second SIGTERM or SIGINT ends it. */
#include "agent/node_state.h"
#include "base/log.h"

#include <signal.h>
#include <string.h>

#define FORCE_MS 3000 /* for the exits of workers that were killed */

static const int numbers[NODE_SIGNALS] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

static void on_force(void *data, struct timer *t)
{
    node_end(data, 1);
}

static void stop_at_once(struct node *n, int number)
{
    log_warn(NODE_AREA, "SIG%s again: stopping at once", sigabbrev_np(number));
    n->forced_code = 128 + number;
    if (!timer_is_on(&n->force)) {
        node_after(n, &n->force, FORCE_MS, on_force);
    }
    node_slot_kill_all(n, 0);
}

static void on_grace_over(void *data, struct timer *t)
{
    struct node *n = data;

    log_warn(NODE_AREA, "still here after --grace: stopping the workers");
    node_slot_kill_rest(n, n->config->grace_ms);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct node *n = handle->data;
    struct agent_event e = {.kind = AGENT_ON_DRAIN};

    if (n->over) {
        return;
    }
    if (n->drained) {
        if (number == SIGTERM || number == SIGINT) {
            stop_at_once(n, number);
        }
        return;
    }
    n->drained = true;
    node_after(n, &n->drain, n->config->grace_ms, on_grace_over);
    log_info(NODE_AREA,
             "draining (SIG%s): this node leaves job '%s' cleanly; again to stop at once",
             sigabbrev_np(number), n->config->job);
    node_event(n, &e);
}

/* nohup has it ignored: then the terminal's end is none of ours. */
static bool is_unwanted(int number)
{
    struct sigaction now;

    return number == SIGHUP && sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

int node_signals_open(struct node *n)
{
    for (int i = 0; i < NODE_SIGNALS; i++) {
        if (is_unwanted(numbers[i])) {
            continue;
        }
        n->signals[i].data = n;
        if (uv_signal_init(&n->loop, &n->signals[i]) != 0 ||
            uv_signal_start(&n->signals[i], on_signal, numbers[i]) != 0) {
            return MU_EIO;
        }
    }
    return MU_OK;
}

void node_signals_unref(struct node *n)
{
    for (int i = 0; i < NODE_SIGNALS; i++) {
        if (n->signals[i].loop != NULL) {
            uv_unref((uv_handle_t *)&n->signals[i]);
        }
    }
}

void node_signals_close(struct node *n)
{
    for (int i = 0; i < NODE_SIGNALS; i++) {
        uv_handle_t *h = (uv_handle_t *)&n->signals[i];

        if (h->loop != NULL && !uv_is_closing(h)) {
            uv_close(h, NULL);
        }
    }
}
