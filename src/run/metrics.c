/* Numbers of training on their way to the orchestrator. Training waits for none of it: they are
 * copied, and the control thread says the newest when there is time. */
#include "core/text.h"
#include "run/run.h"

#include <string.h>

_Static_assert(METRICS_MAX == MU_METRICS_MAX, "what a trainer may name fits into a message");

enum {
    METRICS_MS = 50,
    BACKLOG_MAX = 64 << 10 /* an agent that does not read this much hears of no numbers */
};

static void make_due(struct mu_run *run)
{
    struct metrics *m = &run->metrics;
    const bool was_due = m->due;

    m->due = m->n + m->logged_n > 0;
    if (m->due && !was_due) {
        control_wake(run);
    }
}

static bool is_metric(const struct metrics *m, const char *name)
{
    for (uint32_t i = 0; i < m->named_n; i++) {
        if (strcmp(m->items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

int metrics_add(struct mu_run *run, const char *name)
{
    struct metrics *m = &run->metrics;

    if (m->named_n + m->logged_n == METRICS_MAX) {
        return run_fail(MU_ELIMIT, "a job has up to %d numbers: %s is one too many", METRICS_MAX,
                        name);
    }
    if (is_metric(m, name)) {
        return run_fail(MU_EEXIST, "there is a metric '%s' already", name);
    }
    strcpy(m->items[m->named_n++].name, name);
    return MU_OK;
}

void told_metrics(struct mu_run *run, uint64_t step, const double *means)
{
    struct metrics *m = &run->metrics;

    m->step = step;
    m->n = m->named_n;
    for (uint32_t i = 0; i < m->n; i++) {
        memcpy(&m->items[i].bits, &means[i], sizeof(m->items[i].bits));
    }
    make_due(run);
}

/* ---- numbers that are no step's ---- */

static int keep(struct mu_run *run, const char *name, double value)
{
    struct metrics *m = &run->metrics;
    uint32_t i = 0;

    if (is_metric(m, name)) {
        return run_fail(MU_EEXIST, "%s is a metric: mu_put() gives it", name);
    }
    while (i < m->logged_n && strcmp(m->logged[i].name, name) != 0) {
        i++;
    }
    if (i + m->named_n >= METRICS_MAX) {
        return run_fail(MU_ELIMIT, "a job has up to %d numbers: %s is one too many", METRICS_MAX,
                        name);
    }
    strcpy(m->logged[i].name, name);
    memcpy(&m->logged[i].bits, &value, sizeof(value));
    m->logged_n = MAX(m->logged_n, i + 1);
    return MU_OK;
}

int mu_log(mu_run *run, const char *name, double value)
{
    int rc;

    if (name == NULL || !text_is_name(name, strnlen(name, METRIC_NAME_MAX))) {
        return run_fail(MU_EINVAL,
                        "the name of a number is 1 to %d letters, digits, dots, dashes "
                        "and underscores",
                        METRIC_NAME_MAX - 1);
    }
    rc = call_enter(run);
    if (rc != MU_OK) {
        return rc;
    }
    rc = keep(run, name, value);
    if (rc == MU_OK && run->rank == 0 && !run->alone) {
        run->metrics.step = run->step;
        make_due(run);
    }
    call_exit(run);
    return rc;
}

/* ---- on their way ---- */

static void say(struct mu_run *run)
{
    struct metrics *m = &run->metrics;
    struct metric all[METRICS_MAX];
    struct msg_metrics msg = {.worker = run->life.worker, .step = m->step, .metrics = all};

    m->due = false;
    memcpy(all, m->items, m->n * sizeof(*all));
    memcpy(all + m->n, m->logged, m->logged_n * sizeof(*all));
    msg.metrics_n = m->n + m->logged_n;
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
    if (run->line.out_n >= BACKLOG_MAX) {
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
