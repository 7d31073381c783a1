/* Numbers of training on their way to the orchestrator. Training waits for none of it: they are
 * copied, and the control thread says the newest when there is time. */
#include "run/train.h"

#include <string.h>

_Static_assert(METRICS_MAX == MU_METRICS_MAX && METRIC_NAME_MAX == STATE_NAME_MAX,
               "what a trainer may name fits into a message");

enum {
    METRICS_MS = 50,
    BACKLOG_MAX = 64 << 10 /* an agent that does not read this much hears of no numbers */
};

void told_metrics(struct mu_run *run, uint64_t step, const double *means)
{
    const struct train *t = run->train;
    struct metrics *m = &run->metrics;
    bool was_due = m->due;

    m->step = step;
    m->n = t->metrics_n;
    for (uint32_t i = 0; i < m->n; i++) {
        memcpy(m->items[i].name, t->metrics[i], sizeof(m->items[i].name));
        memcpy(&m->items[i].bits, &means[i], sizeof(m->items[i].bits));
    }
    m->due = m->n > 0;
    if (m->due && !was_due) {
        control_wake(run);
    }
}

static void say(struct mu_run *run)
{
    struct metrics *m = &run->metrics;
    struct msg_metrics msg = {
        .worker = run->life.worker, .step = m->step, .metrics_n = m->n, .metrics = m->items};

    m->due = false;
    (void)control_say(run, WIRE_METRICS, &msg); /* Without memory they are lost; others follow. */
}

int metrics_tend(struct mu_run *run)
{
    struct metrics *m = &run->metrics;
    uint64_t now_ms = run_now_ms();

    if (!m->due || !run->attached || run->lost != MU_OK) {
        return -1;
    }
    if (m->at_ms > now_ms) {
        return (int)(m->at_ms - now_ms);
    }
    m->at_ms = now_ms + METRICS_MS;
    if (run->out_n >= BACKLOG_MAX) {
        return METRICS_MS;
    }
    say(run);
    return -1;
}

void metrics_flush(struct mu_run *run)
{
    if (run->metrics.due && run->attached && run->lost == MU_OK) {
        say(run);
    }
}
