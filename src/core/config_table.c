#include "core/config_table.h"

#include "core/config_rules.h"

#include <stdlib.h>
#include <string.h>

struct job_settings {
    struct config config;
    uint32_t run;
};

struct config_table {
    struct job_settings *jobs;
    uint32_t *sorted; /* by name: those that are used, then the free ones */
    uint32_t n, jobs_max;
};

int config_table_init(uint32_t jobs_max, const struct config_limits *limits,
                      struct config_table **t_out)
{
    struct config_table *t = calloc(1, sizeof(*t));
    int rc = MU_OK;

    if (t == NULL) {
        return MU_ENOMEM;
    }
    t->jobs_max = jobs_max;
    t->jobs = calloc(jobs_max, sizeof(*t->jobs));
    t->sorted = calloc(jobs_max, sizeof(*t->sorted));
    if (t->jobs == NULL || t->sorted == NULL) {
        rc = MU_ENOMEM;
    }
    for (uint32_t i = 0; rc == MU_OK && i < jobs_max; i++) {
        rc = config_init(&t->jobs[i].config, "job", limits);
        t->sorted[i] = i;
    }
    if (rc != MU_OK) {
        config_table_close(t);
        return rc;
    }
    *t_out = t;
    return MU_OK;
}

void config_table_close(struct config_table *t)
{
    if (t == NULL) {
        return;
    }
    for (uint32_t i = 0; t->jobs != NULL && i < t->jobs_max; i++) {
        config_close(&t->jobs[i].config);
    }
    free(t->jobs);
    free(t->sorted);
    free(t);
}

size_t config_table_memory(const struct config_table *t)
{
    return sizeof(*t) + t->jobs_max * (sizeof(*t->jobs) + sizeof(*t->sorted) +
                                       config_memory(&t->jobs[0].config));
}

/* Where it is among the sorted, or would be. */
static uint32_t place_of(const struct config_table *t, const char *job, bool *found)
{
    uint32_t lo = 0, hi = t->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (strcmp(t->jobs[t->sorted[mid]].config.job, job) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    *found = lo < t->n && strcmp(t->jobs[t->sorted[lo]].config.job, job) == 0;
    return lo;
}

struct config *config_table_find(const struct config_table *t, const char *job)
{
    bool found = false;
    uint32_t i = t == NULL ? 0 : place_of(t, job, &found);

    return found ? &t->jobs[t->sorted[i]].config : NULL;
}

/* ---- the machine ---- */

static int apply(void *state, const struct record *r, void *fx)
{
    struct config *c = r->kind == RECORD_CONFIG ? config_table_find(state, r->u.config.job) : NULL;

    (void)fx;
    return c == NULL ? MU_ECORRUPT : config_apply(c, &r->u.config);
}

static void failed(void *state, const struct record *r, uint64_t now_ms, void *fx)
{
    (void)now_ms;
    (void)fx;
    config_abort(config_table_find(state, r->u.config.job));
}

/* No change is on its way then. */
static int forget_acting(struct config *c)
{
    int rc = MU_OK;

    for (size_t i = 0; rc == MU_OK && i < CONFIG_ACTING_N; i++) {
        struct rec_config r;

        if (config_get(c, config_acting[i], &r) == MU_OK) {
            r = (struct rec_config){.version = c->version + 1, .deleted = 1};
            strcpy(r.job, c->job);
            strcpy(r.key, config_acting[i]);
            rc = config_apply(c, &r);
        }
    }
    return rc;
}

static int hear_job(struct config_table *t, const struct rec_job *r)
{
    bool found;
    uint32_t i = place_of(t, r->job, &found), slot;
    struct job_settings *j;

    if (!found && t->n == t->jobs_max) {
        return MU_ELIMIT;
    }
    if (!found) {
        slot = t->sorted[t->n];
        memmove(&t->sorted[i + 1], &t->sorted[i], (t->n - i) * sizeof(t->sorted[0]));
        t->sorted[i] = slot;
        t->n++;
        config_reset(&t->jobs[slot].config, r->job);
        t->jobs[slot].run = r->run;
    }
    j = &t->jobs[t->sorted[i]];
    if (r->run <= j->run) {
        return MU_OK;
    }
    j->run = r->run;
    return forget_acting(&j->config);
}

static void hear_forgotten(struct config_table *t, const char *job)
{
    bool found;
    uint32_t i = place_of(t, job, &found), slot;

    if (found) {
        slot = t->sorted[i];
        t->n--;
        memmove(&t->sorted[i], &t->sorted[i + 1], (t->n - i) * sizeof(t->sorted[0]));
        t->sorted[t->n] = slot;
    }
}

static int hear(void *state, const struct record *r, void *fx)
{
    (void)fx;
    if (r->kind == RECORD_JOB) {
        return hear_job(state, &r->u.job);
    }
    if (r->kind == RECORD_FORGOTTEN) {
        hear_forgotten(state, r->u.forgotten.job);
    }
    return MU_OK;
}

/* A key at a time: values may be long. */
static bool dump(void *state, struct cursor *at, struct sink *to)
{
    struct config_table *t = state;
    struct record r = {.kind = RECORD_CONFIG};

    if (at->at == t->n) {
        return false;
    }
    if (config_dump(&t->jobs[t->sorted[at->at]].config, at->after, &r.u.config) == MU_OK) {
        to->put(to, &r);
        at->after = r.u.config.version;
    } else {
        at->at++;
        at->after = 0;
    }
    return true;
}

const struct machine_type settings_machine = {
    .name = "settings",
    .first = RECORD_CONFIG,
    .last = RECORD_CONFIG,
    .apply = apply,
    .hear = hear,
    .failed = failed,
    .dump = dump,
};
