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

    node_off(n, &m->timer);
    m->next_ms = net_now_ms() + METRICS_MS;
    if (n->agent.welcomed) {
        line_say(n->line, WIRE_METRICS, &msg);
    }
}

static void on_time(void *data, struct timer *t)
{
    pass_on(data, CONTAINER_OF(t, struct node_metrics, timer));
}

void node_metrics_take(struct node *n, uint32_t slot, const struct msg_metrics *msg)
{
    struct node_metrics *m = &n->slots[slot].metrics;
    uint64_t now_ms = net_now_ms();

    m->worker = msg->worker;
    m->step = msg->step;
    m->n = msg->metrics_n;
    memcpy(m->items, msg->metrics, msg->metrics_n * sizeof(m->items[0]));
    if (m->next_ms <= now_ms) {
        pass_on(n, m);
    } else {
        node_at(n, &m->timer, m->next_ms, on_time);
    }
}

void node_metrics_flush(struct node *n, uint32_t slot)
{
    struct node_metrics *m = &n->slots[slot].metrics;

    if (timer_is_on(&m->timer)) {
        pass_on(n, m);
    }
}
