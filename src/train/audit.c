/* Which samples counted, for those who want to check it. Lines are written at once, so that they
 * outlive the process: what a worker contributes is there before it is given to anybody, and
 * so before anybody can commit it. */
#include "base/env.h"
#include "train/train.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int audit_open(struct train *t)
{
    const char *folder = env_text("MUSTER_AUDIT");
    char path[4096];

    if (folder == NULL) {
        return MU_OK;
    }
    if (snprintf(path, sizeof(path), "%s/%s.%u.%d.log", folder, t->crew.run->life.node,
                 t->crew.run->place.attach.slot, (int)getpid()) >= (int)sizeof(path)) {
        return run_fail(MU_EINVAL, "MUSTER_AUDIT is too long");
    }
    t->audit = fopen(path, "ae");
    if (t->audit == NULL) {
        return run_fail(MU_EIO, "can't write to %s (MUSTER_AUDIT): %s", path, strerror(errno));
    }
    return MU_OK;
}

void audit_close(struct train *t)
{
    if (t->audit != NULL) {
        fclose(t->audit);
        t->audit = NULL;
    }
}

/* "slice 3 …", or "slice 3.1 …" in a further round of generation 3. */
static void begin_line(FILE *out, const char *word, uint64_t term, uint64_t step)
{
    fprintf(out, "%s %" PRIu64, word, term_generation(term));
    if (term_round(term) > 0) {
        fprintf(out, ".%" PRIu32, term_round(term));
    }
    fprintf(out, " %" PRIu64, step);
}

static void end_line(struct train *t)
{
    fputc('\n', t->audit);
    if (fflush(t->audit) != 0 || ferror(t->audit)) {
        audit_close(t); /* The gap will be found. */
    }
}

static void write_slice(struct train *t, uint64_t step, uint32_t slice)
{
    if (train_samples(t, step, slice) != MU_OK) {
        return;
    }
    begin_line(t->audit, "slice", step_term(&t->crew.step), step);
    fprintf(t->audit, " %" PRIu32, slice);
    for (size_t i = 0; i < t->lent.samples_n; i++) {
        fprintf(t->audit, " %" PRIu64, t->lent.samples[i]);
    }
    end_line(t);
}

void audit_slices(struct train *t, uint64_t step)
{
    const struct plan *plan = step_plan(&t->crew.step);

    for (uint32_t s = 0; t->audit != NULL && s < plan->slices_n; s++) {
        if (plan_rank(plan, s) == step_rank(&t->crew.step)) {
            write_slice(t, step, s);
        }
    }
}

void audit_commit(struct train *t, uint64_t step)
{
    if (t->audit != NULL) {
        begin_line(t->audit, "commit", t->result.term, step);
        end_line(t);
    }
}
