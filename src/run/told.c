/* What the agent says, and what this worker answers: how it stands. */
#include "run/crew.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A trainer's steps may be much faster than anybody wants to know; the newest counts. */
enum {
    PROGRESS_MS = 50,
    BACKLOG_MAX = 64 << 10 /* an agent that does not read this much hears of no step */
};

static void fill_crew(const struct crew *c, struct report *r)
{
    r->entered = c->report.entered;
    r->fault = c->report.fault;
    r->odd = c->report.odd;
    r->agreed = c->report.agreed;
    r->apart_in = c->report.apart_in;
    r->apart_n = c->report.apart_n;
    memcpy(r->apart, c->report.apart, sizeof(r->apart));
}

/* How this worker stands. One that does not train with mu_next() has no state to catch up with: it
 * is in a generation as soon as that names it. All bytes are set, so that two can be compared. */
static void fill(const struct mu_run *run, struct report *r)
{
    memset(r, 0, sizeof(*r));
    r->slot = run->place.attach.slot;
    r->incarnation = wid_incarnation(run->life.worker);
    r->step = run->step;
    r->reached = data_linked(run);
    memcpy(r->addr, run->addr, sizeof(r->addr));
    if (run->crew != NULL) {
        fill_crew(run->crew, r);
    }
    if (run->train != NULL) {
        run->trainer->report(run->train, r);
    } else {
        r->entered = run->crew != NULL ? r->entered : run->warm ? run->entered : 0;
        r->phase = r->entered != 0 ? PHASE_IN : run->warm ? PHASE_WARM : PHASE_WARMING;
    }
}

uint64_t told_entered(const struct mu_run *run)
{
    struct report r;

    fill(run, &r);
    return r.entered;
}

/* Says it, if that is not what was said last. */
static void report(struct mu_run *run, const struct report *r)
{
    if (memcmp(r, &run->said, sizeof(*r)) == 0) {
        return;
    }
    memcpy(&run->said, r, sizeof(*r));
    if (control_say(run, WIRE_REPORT, r) != MU_OK) {
        control_lost(run, MU_ENOMEM, "out of memory for a report");
    }
}

/* Nothing follows the word that it has finished, which is said on leaving. */
static void report_now(struct mu_run *run)
{
    struct report r;

    if (!run->leaving) {
        fill(run, &r);
        report(run, &r);
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
    return run->train == NULL || !run->trainer->is_started(run->train)
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
    if (run->line.out_n >= BACKLOG_MAX) {
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
    struct report r;

    if (run->attached && run->lost == MU_OK && !told_is_needed(run)) {
        fill(run, &r);
        r.phase = PHASE_FINISHED;
        report(run, &r);
    }
}

/* Where this worker stands in the newest generation. */
static void find_self(struct mu_run *run)
{
    const uint32_t rank =
        run->newest != NULL ? membership_rank(run->newest, run->life.worker) : NO_RANK;

    run->rank = rank == NO_RANK ? -1 : (int32_t)rank;
    if (run->rank < 0) {
        run->joined = 0;
        return;
    }
    run->entered = run_newest(run);
    run->joined = run->joined != 0 ? run->joined : run->entered;
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
        run->entered = run->joined = 0;
        if (run->crew != NULL) {
            memset(&run->crew->report, 0, sizeof(run->crew->report));
        }
        find_self(run);
        values_repeat(run);
    }
    report_now(run);
}

static void on_generation(struct mu_run *run, const struct generation *g)
{
    struct membership *m;

    if (g->number <= run_newest(run)) {
        return; /* Said again. */
    }
    if (membership_open(g, &m) != MU_OK) {
        control_lost(run, MU_ENOMEM, "out of memory for a generation of %" PRIu32 " members",
                     g->members_n);
        return;
    }
    membership_close(run->newest);
    run->newest = m;
    find_self(run);
    data_generation(run);
    report_now(run);
}

/* The first number is only remembered: what was asked for before is done. When the count starts
 * over, the orchestrator has restarted. */
static void on_lease(struct mu_run *run, const struct msg_lease *m)
{
    run->lease_ms = MAX(run->lease_ms, m->sent_ms);
    if (run->saves_known && m->saves != run->saves && m->saves != 0 && run->train != NULL) {
        run->trainer->want_save(run->train);
    }
    run->saves = m->saves;
    run->saves_known = true;
}

/* One without this worker counts now: it has nothing that anybody needs, and begins anew. */
static void on_active(struct mu_run *run, const struct msg_active *m)
{
    run->active = MAX(run->active, m->generation);
    if (run->train != NULL) {
        return; /* core/step knows what it means. */
    }
    if (run->rank < 0 && run->entered != 0 && m->generation >= run_newest(run)) {
        struct msg_forget forget = {run->life.worker};

        run->entered = 0;
        if (run->crew != NULL) {
            memset(&run->crew->report, 0, sizeof(run->crew->report));
        }
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
    if (run->crew != NULL && run->data.comm != NULL) {
        comm_poke(run->data.comm);
    }
}
