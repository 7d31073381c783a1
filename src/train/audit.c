/* Which samples counted, for those who want to check it. Lines are written at once, so that they
 * outlive the process: what a worker contributes is there before it is given to anybody, and
 * so before anybody can commit it. */
#include "train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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
    t->audit_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (t->audit_fd < 0) {
        return run_fail(MU_EIO, "can't write to %s (MUSTER_AUDIT): %s", path, strerror(errno));
    }
    return MU_OK;
}

void audit_close(struct train *t)
{
    if (t->audit_fd >= 0) {
        close(t->audit_fd);
        t->audit_fd = -1;
    }
}

static void write_line(struct train *t, const char *line, size_t n)
{
    if (write(t->audit_fd, line, n) != (ssize_t)n) {
        audit_close(t); /* The gap will be found. */
    }
}

#define TERM_MAX 32

/* "3", or "3.1" in a further round of generation 3. */
static const char *term_text(uint64_t term, char text[TERM_MAX])
{
    const uint32_t round = term_round(term);

    int n = snprintf(text, TERM_MAX, "%" PRIu64, term_generation(term));

    if (round > 0) {
        snprintf(text + n, TERM_MAX - (size_t)n, ".%" PRIu32, round);
    }
    return text;
}

static void write_slice(struct train *t, uint64_t step, uint32_t slice)
{
    char term[TERM_MAX];
    size_t cap, at;
    char *line;

    if (train_samples(t, step, slice) != MU_OK) {
        return;
    }
    cap = 80 + t->lent.samples_n * 21;
    line = malloc(cap);
    if (line == NULL) {
        audit_close(t);
        return;
    }
    at = (size_t)snprintf(line, cap, "slice %s %" PRIu64 " %" PRIu32,
                          term_text(step_term(&t->crew.step), term), step, slice);
    for (size_t i = 0; i < t->lent.samples_n; i++) {
        at += (size_t)snprintf(line + at, cap - at, " %" PRIu64, t->lent.samples[i]);
    }
    line[at++] = '\n';
    write_line(t, line, at);
    free(line);
}

void audit_slices(struct train *t, uint64_t step)
{
    const struct plan *plan = step_plan(&t->crew.step);

    for (uint32_t s = 0; t->audit_fd >= 0 && s < plan->slices_n; s++) {
        if (plan_rank(plan, s) == step_rank(&t->crew.step)) {
            write_slice(t, step, s);
        }
    }
}

void audit_commit(struct train *t, uint64_t step)
{
    char line[80], term[TERM_MAX];

    if (t->audit_fd >= 0) {
        write_line(t, line,
                   (size_t)snprintf(line, sizeof(line), "commit %s %" PRIu64 "\n",
                                    term_text(t->result.term, term), step));
    }
}
