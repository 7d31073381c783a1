/* What a run starts from, if the orchestrator keeps its checkpoints. Rank 0 alone asks, and reads
 * the one that is chosen if nobody has it nearer: so one copy leaves the orchestrator, whatever the
 * number of nodes. */
#include "base/log.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA "checkpoint"
#define ASK_MS 60000 /* so long for an orchestrator that does not answer */

int train_depot_fail(int status, const char *why)
{
    return run_fail(status,
                    "the checkpoints that the orchestrator keeps can't be read: %s. The run does "
                    "not begin anew for that: see that the orchestrator is there and well, or use "
                    "another --ckpt-dir",
                    why[0] != '\0' ? why : mu_strerror(status));
}

bool train_depot_is_damage(int status)
{
    return status == MU_ECORRUPT || status == MU_EVERSION || status == MU_ENOENT;
}

static int line_open(const struct saver *s, struct train_depot *d)
{
    struct depot_line hooks;
    int rc;

    *d = (struct train_depot){.depot = NULL};
    agent_line_init(&d->line, s->place);
    hooks = agent_line_hooks(&d->line, ASK_MS);
    rc = depot_open(&hooks, &d->depot);
    return rc == MU_OK ? rc : run_fail(rc, "no memory for a line to the orchestrator");
}

void train_depot_close(struct train_depot *d)
{
    if (d->c != NULL) {
        ckpt_close(d->c);
    }
    depot_close(d->depot);
    agent_line_close(&d->line);
    *d = (struct train_depot){.line.fd = -1};
}

int train_depot_newest(const struct saver *s, uint64_t most, uint64_t *step_out)
{
    struct ckpt_entry *entries = NULL;
    struct ckpt_why why = {.text = ""};
    struct train_depot d;
    uint64_t step = 0;
    uint32_t n = 0;
    int rc = line_open(s, &d);

    if (rc != MU_OK) {
        return rc;
    }
    rc = depot_list(d.depot, s->job, &entries, &n, &why);
    train_depot_close(&d);
    if (rc != MU_OK) {
        return train_depot_fail(rc, why.text);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (entries[i].step <= most) {
            step = MAX(step, entries[i].step);
        }
    }
    free(entries);
    *step_out = step;
    return MU_OK;
}

int train_depot_forget(const struct saver *s, uint64_t step)
{
    struct ckpt_entry *entries = NULL;
    struct ckpt_why why = {.text = ""};
    struct train_depot d;
    uint32_t n = 0;
    int rc = line_open(s, &d);

    if (rc != MU_OK) {
        return rc;
    }
    rc = depot_list(d.depot, s->job, &entries, &n, &why);
    for (uint32_t i = 0; rc == MU_OK && i < n; i++) {
        if (entries[i].step > step) {
            rc = depot_remove(d.depot, s->job, entries[i].step, &why);
            rc = rc == MU_ENOENT ? MU_OK : rc;
            log_warn(AREA, "step %" PRIu64 " is taken away: the states of the workers differed",
                     entries[i].step);
        }
    }
    free(entries);
    train_depot_close(&d);
    return rc == MU_OK ? rc : train_depot_fail(rc, why.text);
}

int train_depot_open(const struct saver *s, uint64_t step, struct train_depot *d)
{
    struct ckpt_why why = {.text = ""};
    int rc = line_open(s, d);

    if (rc != MU_OK) {
        return rc;
    }
    rc = depot_get(d->depot, s->job, step, &d->c, &why);
    if (rc == MU_OK) {
        return MU_OK;
    }
    d->c = NULL;
    train_depot_close(d);
    if (train_depot_is_damage(rc)) {
        log_error(AREA, "step %" PRIu64 " can't be restored: %s", step, why.text);
        return rc;
    }
    return train_depot_fail(rc, why.text);
}
