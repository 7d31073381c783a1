/* What people ask for: drain a node, end a job, give up on its lineage. */
#include "core/cluster_state.h"
#include "core/text.h"

#include <stdarg.h>
#include <string.h>

static int want_drain(struct cluster *c, struct job *j, const char *name, struct effects *fx)
{
    const struct node *n = node_by_name(c, job_index(c, j), name);
    struct record r = {.kind = RECORD_DRAIN};

    if (n == NULL || n->state != NODE_UP) {
        return MU_ENOENT;
    }
    r.u.drain.node = n->number;
    say_record(fx, &r, true);
    return MU_OK;
}

static void say_finished(struct cluster *c, struct job *j, struct record *r, bool asked,
                         struct effects *fx)
{
    strcpy(r->u.finished.job, j->name);
    r->u.finished.run = j->run;
    r->u.finished.step = j->step;
    /* Where nobody was left to see it, nobody is late. */
    r->u.finished.at_ms = j->nodes_n > 0 ? c->wall_zero_ms + c->now_ms : 0;
    j->finishing = true;
    say_record(fx, r, asked);
}

void record_finished(struct cluster *c, struct job *j, bool ended, const char *why,
                     struct effects *fx)
{
    struct record r = {.kind = RECORD_FINISHED, .u.finished.ended = ended};

    strcpy(r.u.finished.why, why);
    say_finished(c, j, &r, false, fx);
}

void record_failed(struct cluster *c, struct job *j, struct effects *fx, const char *fmt, ...)
{
    struct record r = {.kind = RECORD_FINISHED, .u.finished = {.ended = 1, .failed = 1}};
    va_list args;

    if (j->ended || j->finishing) {
        return;
    }
    va_start(args, fmt);
    text_vsay(r.u.finished.why, sizeof(r.u.finished.why), fmt, args);
    va_end(args);
    say_finished(c, j, &r, false, fx);
}

static int want_shutdown(struct cluster *c, struct job *j, struct effects *fx)
{
    struct record r = {.kind = RECORD_FINISHED, .u.finished.ended = 1};

    if (j->ended || j->finishing) {
        return j->ended ? MU_EDONE : MU_EAGAIN;
    }
    strcpy(r.u.finished.why, "it was shut down");
    say_finished(c, j, &r, true, fx);
    return MU_OK;
}

/* Nobody failed, and nobody said that the work was done. */
void record_deserted(struct cluster *c, struct job *j, struct effects *fx)
{
    if (!j->ended && !j->finishing) {
        record_finished(c, j, true, "all its workers have left", fx);
    }
}

/* Workers hear of it with their leases, and these come soon. A job whose workers save nothing does
 * not mind. */
static int want_save(struct cluster *c, struct job *j, struct effects *fx)
{
    if (j->ended || j->finished) {
        return MU_EDONE;
    }
    j->saves++;
    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        say_ack(c, n, &(struct msg_ack){0}, fx);
    }
    return MU_OK;
}

int on_admin(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_admin *m = e->u.admin;
    struct job *j = job_find(c, m->job);

    if (j == NULL || j->run == 0 || j->forgetting) {
        return MU_ENOENT;
    }
    switch (m->verb) {
    case ADMIN_DRAIN:
        return want_drain(c, j, m->node, fx);
    case ADMIN_TAKEOVER:
        j->takeover_asked = j->tally.survivors_n == 0;
        c->taken_over = j->takeover_asked ? j : NULL;
        job_touch(c, j);
        return j->takeover_asked ? MU_OK : MU_EBUSY;
    case ADMIN_SHUTDOWN:
        return want_shutdown(c, j, fx);
    case ADMIN_SAVE:
        return want_save(c, j, fx);
    default:
        return MU_EINVAL;
    }
}

void record_mode(const struct job *j, uint8_t mode, struct effects *fx)
{
    struct record r = {.kind = RECORD_JOB,
                       .u.job = {.run = j->run,
                                 .min = j->min,
                                 .max = j->max,
                                 .max_restarts = j->max_restarts,
                                 .mode = mode}};

    strcpy(r.u.job.job, j->name);
    say_record(fx, &r, false);
}

int on_mode(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct job *j = job_find(c, e->u.job->job);

    if (j == NULL || j->run == 0 || j->forgetting) {
        return MU_ENOENT;
    }
    if (j->mode != MODE_AUTO || e->u.job->mode == MODE_AUTO || e->u.job->mode >= MODE_N) {
        return MU_EINVAL;
    }
    record_mode(j, e->u.job->mode, fx);
    return MU_OK;
}
