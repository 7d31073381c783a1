/* What the agent says, and what this worker answers: how it stands. */
#include "run/run.h"

#include <inttypes.h>
#include <string.h>

/* The generation that it is in, and caught up. One that does nothing with the others on the data
 * plane has no state to catch up with: it is in a generation as soon as that names it. */
static uint64_t entered(const struct mu_run *run)
{
    if (run->crew != NULL) {
        return run->now.entered;
    }
    return run->train == NULL && run->warm ? run->entered : 0;
}

/* What is to be said: `now`, which the crew has its own part of, and what is known elsewhere. */
static void look(const struct mu_run *run, struct report *r)
{
    memcpy(r, &run->now, sizeof(*r)); /* Whole: it is compared. */
    r->entered = entered(run);
    r->reached = data_linked(run);
    if (run->serves) {
        r->phase = PHASE_SERVING;
    } else if (run->train != NULL) {
        run->trainer->report(run->train, r);
    } else {
        r->phase = r->entered != 0 ? PHASE_IN : run->warm ? PHASE_WARM : PHASE_WARMING;
    }
}

/* Says it, if that is not what was said last. last: there will be no other word. */
static void say(struct mu_run *run, bool last)
{
    struct report r;

    if (!run->attached || run->lost != MU_OK) {
        return;
    }
    look(run, &r);
    if (last && run->train != NULL && r.phase != PHASE_FINISHED) {
        r.phase = PHASE_EXITED;
        r.entered = 0;
    } else if (last) {
        r.phase = PHASE_FINISHED;
    }
    if (memcmp(&r, &run->said, sizeof(r)) == 0) {
        return;
    }
    memcpy(&run->said, &r, sizeof(r));
    if (control_say(run, WIRE_REPORT, &run->said) != MU_OK) {
        control_lost(run, MU_ENOMEM, "out of memory for a report");
    }
}

void told_clear(struct mu_run *run)
{
    struct report *r = &run->now;

    r->entered = r->agreed = r->odd = r->apart_in = 0;
    r->fault = 0;
    r->apart_n = 0;
}

void told_again(struct mu_run *run)
{
    if (!run->leaving) {
        say(run, false);
    }
}

void told_step(struct mu_run *run)
{
    if (run->attached && !run->progress.due) {
        run->progress.due = true;
        control_wake(run);
    }
}

int told_warm(struct mu_run *run)
{
    if (roster_helps(run)) {
        return run_fail(MU_EINVAL, "this worker helps, and is in no generation: this call is for "
                                   "those who train");
    }
    if (!run->warm && run->train == NULL) {
        run->warm = true;
        told_again(run);
    }
    return MU_OK;
}

int mu_progress(mu_run *run, uint64_t step)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = call_state(run);
    if (rc == MU_OK) {
        if (!roster_helps(run)) {
            (void)told_warm(run);
        }
        run->now.step = step;
        told_step(run);
    }
    return call_exit(run, rc);
}

bool told_is_needed(const struct mu_run *run)
{
    return run_rank(run) < 0 && (entered(run) != 0 || run->forgetting);
}

/* One that trains has finished when all steps are done; before that it leaves, and those who go on
 * are not to wait for it, however long its process lives. One that is still needed says neither. */
void told_last(struct mu_run *run)
{
    if (!told_is_needed(run)) {
        say(run, true);
    }
}

void told_forget(struct mu_run *run)
{
    const struct msg_forget m = {run->life.worker};

    if (run->forgetting) {
        return;
    }
    run->forgetting = true;
    run->entered = 0;
    told_clear(run);
    if (control_say(run, WIRE_FORGET, &m) != MU_OK) {
        control_lost(run, MU_ENOMEM, "out of memory for a word to the agent");
    }
}

/* Where this worker stands in the newest generation. */
static void find_self(struct mu_run *run)
{
    if (run_rank(run) < 0) {
        run->joined = 0;
        return;
    }
    run->entered = run_newest(run);
    run->joined = run->joined != 0 ? run->joined : run->entered;
}

static void on_life(struct mu_run *run, const struct msg_life *m)
{
    const bool another = run->attached && m->worker != run->life.worker;
    int rc;

    run->life = *m;
    if (!run->attached) {
        rc = data_open(run);
        if (rc != MU_OK) {
            control_lost(run, rc, "%s", mu_error());
            return;
        }
    }
    run->attached = run->beat.due = true;
    run->forgetting = false;
    run->beat.at_ms = 0;
    run->now.incarnation = wid_incarnation(m->worker);
    if (another) {
        run->entered = run->joined = 0;
        told_clear(run);
        find_self(run);
        asks_repeat(run);
    }
    told_again(run);
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
    roster_members(run);
    data_generation(run);
    told_again(run);
}

/* The first number is only remembered: what was asked for before is done. When the count starts
 * over, the orchestrator has restarted. */
static void on_lease(struct mu_run *run, const struct msg_lease *m)
{
    run->lease_ms = MAX(run->lease_ms, m->sent_ms);
    if (run->saves_known && m->saves != run->saves && m->saves != 0 && run->train != NULL) {
        run->save_wanted = true;
    }
    run->saves = m->saves;
    run->saves_known = true;
}

/* When a generation without this worker is active, nobody needs what it has: it begins anew. */
static void on_active(struct mu_run *run, const struct msg_active *m)
{
    run->active = MAX(run->active, m->generation);
    /* One that trains looks by itself: core/step knows what it means. */
    if (run->train == NULL && run_rank(run) < 0 && run->entered != 0 && !roster_helps(run) &&
        m->generation >= run_newest(run)) {
        told_forget(run);
    }
}

static void on_ended(struct mu_run *run, const struct msg_ended *m)
{
    run->ended = true;
    run->end = *m;
    call_over(run);
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
    case WIRE_ROSTER:
        roster_told(run, &msg->roster);
        break;
    case WIRE_LEASE:
        on_lease(run, &msg->lease);
        break;
    case WIRE_SAYS:
        asks_told(run, &msg->says);
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
    call_news(run);
}
