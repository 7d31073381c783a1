/* Numbers of training on their way to the orchestrator. Training waits for none of it: they are
 * copied, and the control thread says the newest when there is time. */
#include "core/text.h"
#include "run/run.h"

#include <string.h>

_Static_assert(METRICS_MAX == MU_METRICS_MAX, "what a trainer may name fits into a message");

static void make_due(struct mu_run *run)
{
    if (!run->metrics.pace.due) {
        run->metrics.pace.due = true;
        control_wake(run);
    }
}

/* The place of a name among the first n; n: it is not there. */
static uint32_t find(const struct metric *items, uint32_t n, const char *name)
{
    uint32_t i = 0;

    while (i < n && strcmp(items[i].name, name) != 0) {
        i++;
    }
    return i;
}

static int too_many(const char *name)
{
    return run_fail(MU_ELIMIT, "a job has up to %d numbers: %s is one too many", METRICS_MAX, name);
}

int metrics_check(const char *name)
{
    if (name == NULL || !text_is_name(name, strnlen(name, METRIC_NAME_MAX))) {
        return run_fail(MU_EINVAL,
                        "the name of a number is 1 to %d letters, digits, dots, dashes "
                        "and underscores",
                        METRIC_NAME_MAX - 1);
    }
    return MU_OK;
}

int metrics_add(struct mu_run *run, const char *name)
{
    struct metrics *m = &run->metrics;

    if (m->named_n + m->logged_n == METRICS_MAX) {
        return too_many(name);
    }
    if (find(m->items, m->named_n, name) < m->named_n) {
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
    const uint32_t i = find(m->logged, m->logged_n, name);

    if (find(m->items, m->named_n, name) < m->named_n) {
        return run_fail(MU_EEXIST, "%s is a metric: mu_put() gives it", name);
    }
    if (i + m->named_n >= METRICS_MAX) {
        return too_many(name);
    }
    strcpy(m->logged[i].name, name);
    memcpy(&m->logged[i].bits, &value, sizeof(value));
    m->logged_n = MAX(m->logged_n, i + 1);
    return MU_OK;
}

int mu_log(mu_run *run, const char *name, double value)
{
    int rc = metrics_check(name);

    if (rc == MU_OK) {
        rc = call_enter(run);
    }
    if (rc != MU_OK) {
        return rc;
    }
    rc = keep(run, name, value);
    if (rc == MU_OK && run_rank(run) == 0 && !run->alone) {
        run->metrics.step = run->now.step;
        make_due(run);
    }
    return call_exit(run, rc);
}

/* ---- on their way ---- */

void metrics_say(struct mu_run *run)
{
    struct metrics *m = &run->metrics;
    struct metric all[METRICS_MAX];
    struct body_metrics body = {.step = m->step, .metrics = all};
    struct msg_ask msg = {.kind = ASK_METRICS};

    m->pace.due = false;
    memcpy(all, m->items, m->n * sizeof(*all));
    memcpy(all + m->n, m->logged, m->logged_n * sizeof(*all));
    body.metrics_n = m->n + m->logged_n;
    (void)ask_send(run, &msg, &body); /* Without memory they are lost; others follow. */
}
