/* Signals: the first drains the node, a second SIGTERM or SIGINT ends it. */
#include "agent/node_state.h"
#include "base/log.h"

#include <signal.h>
#include <string.h>

#define FORCE_MS 3000 /* for the exits of workers that were killed */

static const int numbers[NODE_SIGNALS] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

static void stop_at_once(struct node *n, int number)
{
    log_warn(NODE_AREA, "SIG%s again: stopping at once", sigabbrev_np(number));
    n->forced_code = 128 + number;
    n->force_ms = MIN(n->force_ms, net_now_ms() + FORCE_MS);
    node_slot_kill_all(n, 0);
    node_rearm(n);
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
    n->drain_ms = net_now_ms() + n->config->grace_ms;
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
