/* The numbers of training that a worker says: the newest is passed on, at most ten times a second,
 * and the last one of a worker before its end. Nothing else waits for them, and while the
 * orchestrator is away they are dropped: newer ones follow. */
#include "agent/node_state.h"

#include <string.h>

#define METRICS_MS 100

static void pass_on(struct node *n, struct node_metrics *m)
{
    struct msg_metrics msg = {
        .worker = m->worker, .step = m->step, .metrics_n = m->n, .metrics = m->items};

    m->due_ms = NODE_NEVER;
    m->next_ms = net_now_ms() + METRICS_MS;
    if (n->agent.welcomed) {
        line_say(n->line, WIRE_METRICS, &msg);
    }
}

void node_metrics_take(struct node *n, uint32_t slot, const struct msg_metrics *msg)
{
    struct node_metrics *m = &n->slots[slot].metrics;
    uint64_t now_ms = net_now_ms();

    m->worker = msg->worker;
    m->step = msg->step;
    m->n = msg->metrics_n;
    memcpy(m->items, msg->metrics, msg->metrics_n * sizeof(m->items[0]));
    m->due_ms = MAX(m->next_ms, now_ms);
    if (m->due_ms <= now_ms) {
        pass_on(n, m);
    }
}

void node_metrics_flush(struct node *n, uint32_t slot)
{
    struct node_metrics *m = &n->slots[slot].metrics;

    if (m->due_ms != NODE_NEVER) {
        pass_on(n, m);
    }
}

uint64_t node_metrics_deadline(const struct node *n)
{
    uint64_t at_ms = NODE_NEVER;

    for (uint32_t i = 0; i < n->config->slots; i++) {
        at_ms = MIN(at_ms, n->slots[i].metrics.due_ms);
    }
    return at_ms;
}

void node_metrics_tick(struct node *n, uint64_t now_ms)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        if (n->slots[i].metrics.due_ms <= now_ms) {
            pass_on(n, &n->slots[i].metrics);
        }
    }
}
