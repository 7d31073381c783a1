/* What the agent says, and what this worker answers: how it stands. */
#include "run/train.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A trainer's steps may be much faster than anybody wants to know; the newest counts. */
enum {
    PROGRESS_MS = 50,
    BACKLOG_MAX = 64 << 10 /* an agent that does not read this much hears of no step */
};

uint64_t told_entered(const struct mu_run *run)
{
    if (run->train != NULL) {
        return run->train->entered;
    }
    return run->warm ? run->entered : 0;
}

/* Says how this worker stands, if that is not what it said last. One that does not train with
 * mu_next() has no state to catch up with: it is in a generation as soon as that names it. */
static void report(struct mu_run *run, uint8_t phase)
{
    struct report r = {.slot = run->slot,
                       .incarnation = wid_incarnation(run->life.worker),
                       .phase = phase,
                       .entered = told_entered(run),
                       .step = run->step,
                       .reached = run->data.reached,
                       .checkpoint = run->train != NULL ? run->train->told.checkpoint : 0,
                       .fault = run->train != NULL ? run->train->fault : FAULT_NONE,
                       .odd = run->train != NULL ? run->train->odd : 0,
                       .agreed = run->train != NULL ? run->train->agreed : 0};

    if (r.incarnation == run->said.incarnation && r.phase == run->said.phase &&
        r.fault == run->said.fault && r.entered == run->said.entered &&
        r.reached == run->said.reached && r.step == run->said.step &&
        r.checkpoint == run->said.checkpoint) {
        return;
    }
    memcpy(r.addr, run->addr, sizeof(r.addr));
    run->said = r;
    if (control_say(run, WIRE_REPORT, &r) != MU_OK) {
        control_lost(run, MU_ENOMEM, "out of memory for a report");
    }
}

/* Nothing follows the word that it has finished, which is said on leaving. */
static void report_now(struct mu_run *run)
{
    if (run->leaving) {
        return;
    }
    if (run->train != NULL) {
        report(run, train_phase(run->train));
    } else {
        report(run, told_entered(run) != 0 ? PHASE_IN : run->warm ? PHASE_WARM : PHASE_WARMING);
    }
}

void told_warm(struct mu_run *run)
{
    if (!run->warm && run->train == NULL) {
        run->warm = true;
        told_again(run);
    }
}

int told_may_call(const struct mu_run *run)
{
    return run->train == NULL || !run->train->started
               ? MU_OK
               : run_fail(MU_EBUSY, "this worker trains with mu_next(), which has the group: a "
                                    "number of every slice can be a metric");
}

void told_again(struct mu_run *run)
{
    if (run->attached && run->lost == MU_OK) {
        report_now(run);
    }
}

int told_progress(struct mu_run *run)
{
    uint64_t now_ms = run_now_ms();

    if (!run->step_due || run->lost != MU_OK) {
        return -1;
    }
    if (run->step_ms > now_ms) {
        return (int)(run->step_ms - now_ms);
    }
    run->step_ms = now_ms + PROGRESS_MS;
    if (run->out_n >= BACKLOG_MAX) {
        return PROGRESS_MS;
    }
    run->step_due = false;
    report_now(run);
    return -1;
}

int mu_progress(mu_run *run, uint64_t step)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = call_state(run);
    if (rc == MU_OK) {
        told_warm(run);
        run->step = step;
        if (!run->alone && !run->step_due) {
            run->step_due = true;
            control_wake(run);
        }
    }
    call_exit(run);
    return rc;
}

bool told_is_needed(const struct mu_run *run)
{
    return run->rank < 0 && (told_entered(run) != 0 || run->forgetting);
}

/* One that is still needed must not say so: it would end the job for those who go on. */
void told_finished(struct mu_run *run)
{
    if (run->attached && run->lost == MU_OK && !told_is_needed(run)) {
        report(run, PHASE_FINISHED);
    }
}

/* Where this worker stands in the newest generation. */
static void find_self(struct mu_run *run)
{
    const struct generation *g = &run->newest;

    run->rank = -1;
    for (uint32_t i = 0; i < g->members_n && run->rank < 0; i++) {
        if (g->members[i].worker == run->life.worker) {
            run->rank = (int32_t)i;
            run->entered = g->number;
        }
    }
    if (run->rank < 0) {
        run->joined = 0;
    } else if (run->joined == 0) {
        run->joined = g->number;
    }
}

static void on_life(struct mu_run *run, const struct msg_life *m)
{
    bool another = run->attached && m->worker != run->life.worker;
    char error[COMM_ERROR_MAX];
    int rc;

    run->life = *m;
    if (!run->attached) {
        rc = data_open(run, error);
        if (rc != MU_OK) {
            control_lost(run, rc, "%s", error);
            return;
        }
    }
    run->attached = true;
    run->forgetting = false;
    run->beat_ms = 0;
    if (another) {
        run->data.reached = 0;
        run->entered = run->joined = 0;
        find_self(run);
        values_repeat(run);
    }
    report_now(run);
}

static void on_generation(struct mu_run *run, const struct generation *m)
{
    struct member *members = NULL;

    if (m->number <= run->newest.number) {
        return; /* Said again. */
    }
    if (m->members_n > 0) {
        members = malloc(m->members_n * sizeof(*members));
        if (members == NULL) {
            control_lost(run, MU_ENOMEM, "out of memory for a generation of %" PRIu32 " members",
                         m->members_n);
            return;
        }
        memcpy(members, m->members, m->members_n * sizeof(*members));
    }
    free(run->newest.members);
    run->newest = *m;
    run->newest.members = members;
    find_self(run);
    data_generation(run);
    report_now(run);
}

/* One without this worker counts now: it has nothing that anybody needs, and begins anew. */
/* The first number is only remembered: what was asked for before is done. One that starts over
 * is an orchestrator's that did. */
static void on_lease(struct mu_run *run, const struct msg_lease *m)
{
    run->lease_ms = MAX(run->lease_ms, m->sent_ms);
    if (run->saves_known && m->saves != run->saves && m->saves != 0 && run->train != NULL) {
        run->train->save_wanted = true;
    }
    run->saves = m->saves;
    run->saves_known = true;
}

static void on_active(struct mu_run *run, const struct msg_active *m)
{
    run->active = MAX(run->active, m->generation);
    if (run->train != NULL) {
        return; /* core/step knows what it means. */
    }
    if (run->rank < 0 && run->entered != 0 && m->generation >= run->newest.number) {
        struct msg_forget forget = {run->life.worker};

        run->entered = 0;
        run->forgetting = true;
        if (control_say(run, WIRE_FORGET, &forget) != MU_OK) {
            control_lost(run, MU_ENOMEM, "out of memory for a word to the agent");
        }
    }
}

static void on_ended(struct mu_run *run, const struct msg_ended *m)
{
    run->ended = true;
    run->end = *m;
    data_stop(run);
    values_end(run, MU_EDONE, m->why);
    settings_end(run, MU_EDONE, m->why);
}

void told_frame(struct mu_run *run, const struct wire_header *h, const union wire_any *msg)
{
    if (!run->attached && h->type != WIRE_LIFE && h->type != WIRE_REFUSED &&
        h->type != WIRE_ENDED) {
        control_lost(run, MU_EPROTO, "the agent of this node said %s before it knew us",
                     wire_name(h->type));
        return;
    }
    switch (h->type) {
    case WIRE_LIFE:
        on_life(run, &msg->life);
        break;
    case WIRE_GENERATION:
        on_generation(run, &msg->generation);
        break;
    case WIRE_ACTIVE:
        on_active(run, &msg->active);
        break;
    case WIRE_LEASE:
        on_lease(run, &msg->lease);
        break;
    case WIRE_SYNCED:
        values_told(run, &msg->synced);
        break;
    case WIRE_SETTING:
        settings_told(run, &msg->setting);
        break;
    case WIRE_ENDED:
        on_ended(run, &msg->ended);
        break;
    case WIRE_REFUSED:
        control_lost(run, MU_EREFUSED, "the agent of this node refused this process: %s",
                     msg->refused.text);
        break;
    default:
        control_lost(run, MU_EPROTO, "the agent of this node said %s, which is not for workers",
                     wire_name(h->type));
        break;
    }
    run->news++;
    pthread_cond_broadcast(&run->changed);
    if (run->train != NULL && run->data.comm != NULL) {
        comm_poke(run->data.comm);
    }
}
