/* Those who make calls: which generation they are made in. core/step knows; it is driven here, in
 * mu_regroup(), and told how calls went. A call that all agree on is a step of its own. */
#include "run/crew.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LISTEN_MS = 100 }; /* so long it keeps the data plane from calls that need no agreement */

bool regroup_is_other(const struct mu_run *run)
{
    return run->data.group != 0 && run->data.group_as != run->life.worker;
}

/* It goes on as another, or the newest generation is without it. */
static bool is_left_out(const struct mu_run *run)
{
    const struct data *d = &run->data;

    return regroup_is_other(run) ||
           (d->group != 0 && run_rank(run) < 0 && run_newest(run) > term_generation(d->group));
}

int regroup_left_out(struct mu_run *run)
{
    struct data *d = &run->data;

    d->left_out = d->group != 0 ? term_generation(d->group) : d->left_out;
    d->group = 0;
    d->broken = MU_OK;
    return run_fail(MU_ESTALE,
                    "this worker was left out after generation %" PRIu64
                    " of job %s, which goes on without "
                    "what it holds: mu_leave(), or mu_regroup() to wait until it is taken in anew",
                    d->left_out, run->life.job);
}

/* ---- the crew of one that makes calls ---- */

/* An agreed call that had failed here counts after all. */
static void on_effect(struct crew *c, const struct step_effect *e)
{
    if (e->kind == STEP_COMMIT && e->settled) {
        (void)comm_settled(c->run->data.comm, true);
    }
}

/* Another life needs no reset: comm_rename() has forgotten what was held. */
static int open_crew(struct mu_run *run)
{
    const struct step_config config = {.self = run->life.worker,
                                       .slices_n = 1,
                                       .members_max = MEMBERS_MAX,
                                       .calls = true,
                                       .orphan_ms = UINT64_MAX};
    struct crew *c;
    int rc;

    if (run->crew != NULL) {
        return MU_OK;
    }
    c = calloc(1, sizeof(*c));
    rc = c != NULL ? crew_open(c, run, &config) : MU_ENOMEM;
    if (rc != MU_OK) {
        free(c);
        return run_fail(MU_ENOMEM, "out of memory for a group");
    }
    c->effect = on_effect;
    return MU_OK;
}

void regroup_close(struct mu_run *run)
{
    struct crew *c = run->crew;

    if (c != NULL) {
        crew_close(c);
        free(c);
    }
}

/* ---- moving ---- */

static int fail_late(struct mu_run *run)
{
    const uint64_t newest = run_newest(run);
    char who[WID_TEXT_MAX];

    if (run_rank(run) < 0) {
        return run_fail(MU_ETIMEDOUT,
                        "this worker is in no generation yet; the newest is %" PRIu64 " of job %s",
                        newest, run->life.job);
    }
    return run_fail(MU_ETIMEDOUT,
                    "%s has not come to generation %" PRIu64
                    " yet: every member must call mu_regroup(); call it again",
                    run->crew->missing != 0 ? wid_print(run->crew->missing, who) : "a member",
                    newest);
}

/* One thing that core/step wants; without the lock. MU_OK: calls can be made. */
static int turn(struct mu_run *run, uint64_t due_ms, struct step_todo *did_out)
{
    struct crew *c = run->crew;
    struct step_todo todo;
    bool settled;
    int rc;

    if (crew_news(c) != MU_OK) {
        crew_wait(c, due_ms);
        return MU_EAGAIN;
    }
    /* Again and again: others may have moved to a generation that this one hears of only now. */
    crew_regroup(c);
    crew_next(c, &todo);
    *did_out = todo;
    todo.due_ms = MIN(todo.due_ms, due_ms);
    if (todo.what == STEP_STOP) {
        return run_fail(MU_EORDER,
                        "the members of generation %" PRIu64 " have not agreed on the same calls: "
                        "nothing more can be done in it",
                        term_generation(todo.term));
    }
    if (todo.what != STEP_OPEN) {
        rc = crew_do(c, &todo);
        return rc == MU_OK ? MU_EAGAIN : rc;
    }
    settled = comm_settled(run->data.comm, false);
    pthread_mutex_lock(&run->lock);
    crew_group(c, settled);
    pthread_mutex_unlock(&run->lock);
    return MU_OK; /* All are there, and know what counts. */
}

/* The lock is given away for each turn. */
static int move_on(struct mu_run *run, uint64_t due_ms)
{
    const uint64_t boot_ms = due_ms == UINT64_MAX ? due_ms : clock_boot_ms() + run_left_ms(due_ms);
    struct data *d = &run->data;
    struct step_todo did = {0}, before;
    int rc;

    while ((rc = call_state(run)) == MU_OK) {
        if (is_left_out(run)) {
            return regroup_left_out(run);
        }
        if (d->broken == MU_EORDER && term_generation(d->group) == run_newest(run)) {
            return run_fail(MU_EORDER,
                            "the members of generation %" PRIu64 " made different calls: nothing "
                            "more can be done in it",
                            term_generation(d->group));
        }
        pthread_mutex_unlock(&run->lock);
        before = did;
        rc = turn(run, boot_ms, &did);
        pthread_mutex_lock(&run->lock);
        if (rc != MU_EAGAIN) {
            return rc;
        }
        if (clock_ms() >= due_ms && did.what == before.what && did.term == before.term) {
            return fail_late(run); /* As long as it gets on it needs no time. */
        }
    }
    return rc;
}

/* One thread at a time drives the crew. */
static void end_turn(struct mu_run *run)
{
    run->data.moving = false;
    pthread_cond_broadcast(&run->changed);
}

int regroup(struct mu_run *run, uint64_t due_ms)
{
    struct data *d = &run->data;
    int rc = open_crew(run);

    if (rc != MU_OK) {
        return rc;
    }
    while (d->moving) {
        if (!call_wait(run, due_ms) && d->moving) {
            return run_fail(MU_ETIMEDOUT, "another thread of this worker is in mu_regroup()");
        }
    }
    d->moving = true;
    rc = move_on(run, due_ms);
    end_turn(run);
    return rc;
}

/* A member that goes to a further round before all have entered the generation needs this one
 * there: so it listens. The lock is given away meanwhile. */
static int listen(struct mu_run *run, uint64_t due_ms)
{
    const uint64_t for_ms = MIN(run_left_ms(due_ms), (uint32_t)LISTEN_MS);
    const struct step_todo todo = {.term = run->data.group, .due_ms = clock_boot_ms() + for_ms};
    int rc;

    if (run->data.moving) { /* Another thread does. */
        (void)call_wait(run, clock_ms() + for_ms);
        return MU_OK;
    }
    run->data.moving = true;
    pthread_mutex_unlock(&run->lock);
    rc = crew_hear(run->crew, &todo);
    const bool gone = step_term(&run->crew->step) != todo.term;

    pthread_mutex_lock(&run->lock);
    end_turn(run);
    if (rc == MU_OK && gone) {
        rc = run_fail(MU_EPEER,
                      "a link of generation %" PRIu64 " broke before it was active: mu_regroup()",
                      term_generation(todo.term));
    }
    return rc;
}

int regroup_confirm(struct mu_run *run, uint64_t due_ms)
{
    const uint64_t number = term_generation(run->data.group);
    int rc = MU_OK;

    /* A newer one that is active says nothing of this one: it may never have been. */
    while (run->active < number && (rc = call_state(run)) == MU_OK && run_newest(run) == number) {
        rc = listen(run, due_ms);
        if (rc != MU_OK) {
            return rc;
        }
        if (run->active < number && clock_ms() >= due_ms) {
            return run_fail(MU_ETIMEDOUT,
                            "generation %" PRIu64 " is not known to be active yet: the "
                            "orchestrator has to say so before anything is agreed on",
                            number);
        }
    }
    if (rc == MU_OK && run->active != number) {
        return run_fail(MU_EPEER, "generation %" PRIu64 " was overtaken: mu_regroup()", number);
    }
    return rc;
}
