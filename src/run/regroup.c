/* mu_regroup and mu_group: which generation calls are made in. */
#include "run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So long it stays with one generation before it looks whether there is a newer one: members of a
 * planned one may have skipped it. */
enum { MOVE_MS = 100 };

bool regroup_is_other(const struct mu_run *run)
{
    return run->data.group != 0 && run->data.group_as != run->life.worker;
}

/* … or the newest generation is without it. */
static bool left_out(const struct mu_run *run)
{
    const struct data *d = &run->data;

    return regroup_is_other(run) ||
           (d->group != 0 && run->rank < 0 && run->newest.number > d->group);
}

int regroup_left_out(struct mu_run *run)
{
    struct data *d = &run->data;
    uint64_t group = d->group;

    d->group = 0;
    d->broken = MU_OK;
    d->stale = true;
    return run_fail(MU_ESTALE,
                    "this worker was left out after generation %" PRIu64
                    " of job %s, which goes on without "
                    "what it holds: mu_leave(), or mu_regroup() to wait until it is taken in anew",
                    group, run->life.job);
}

/* The group is the newest generation, and a call failed in it: the next generation is due. The
 * orchestrator knows of most losses before we could say so; of a peer that hangs, or can't be
 * reached from here alone, it knows by us. */
static void say_suspect(struct mu_run *run)
{
    struct data *d = &run->data;
    struct msg_suspect m = {.by = run->life.worker, .peer = d->blamed, .generation = d->group};

    if (d->blamed == 0 || run->alone) {
        return;
    }
    d->blamed = 0;
    if (control_say(run, WIRE_SUSPECT, &m) != MU_OK) {
        control_lost(run, MU_ENOMEM, "out of memory for a word to the agent");
    }
}

static bool is_fatal(int status)
{
    return status == MU_EINVAL || status == MU_ENOMEM || status == MU_ELIMIT || status == MU_EORDER;
}

static int64_t left_ms(uint64_t due_ms)
{
    uint64_t now_ms = run_now_ms();

    if (due_ms == UINT64_MAX) {
        return -1;
    }
    return due_ms > now_ms ? (int64_t)MIN(due_ms - now_ms, (uint64_t)INT64_MAX) : 0;
}

/* Without the lock: all members are there, and know what counts. Whoever has proved to be in this
 * generation is about to settle, too, or moves on to a newer one, or is lost, which ends it: it
 * needs no time limit. */
static int move(struct comm *comm, const struct generation *g, uint64_t due_ms, wid *missing,
                bool *settled)
{
    int64_t rest_ms = left_ms(due_ms);
    int rc = comm_move(comm, g, rest_ms < 0 ? MOVE_MS : MIN(rest_ms, (int64_t)MOVE_MS), missing);

    return rc == MU_OK ? comm_settle(comm, -1, settled) : rc;
}

/* Tries the newest generation for a while. */
static int try(struct mu_run *run, uint64_t due_ms, wid *missing)
{
    struct data *d = &run->data;
    struct generation g;
    mu_group_info info = {run->newest.number, run->rank, (int)run->newest.members_n, 0};
    bool settled = false;
    wid self = run->life.worker;
    int rc;

    if (!run_newest(run, &g)) {
        return run_fail(MU_ENOMEM, "out of memory for a group of %d members", info.size);
    }
    pthread_mutex_unlock(&run->lock);
    run_resolve(&g);
    rc = move(d->comm, &g, due_ms, missing, &settled);
    free(g.members);
    pthread_mutex_lock(&run->lock);
    if (rc == MU_OK) {
        d->group = info.generation;
        d->info = info;
        d->info.settled = settled;
        d->group_as = self;
        d->broken = MU_OK;
        d->reached = MAX(d->reached, info.generation);
        told_again(run);
    } else if (is_fatal(rc)) {
        return run_fail(rc, "the %d members of generation %" PRIu64 " can't be linked: %s",
                        info.size, info.generation, mu_strerror(rc));
    } else if (rc != MU_ETIMEDOUT) { /* Somebody was lost: the orchestrator will know. */
        (void)call_wait(run, MIN(due_ms, run_now_ms() + MOVE_MS));
    }
    return rc;
}

static int fail_late(struct mu_run *run, wid missing)
{
    const struct generation *g = &run->newest;
    char who[WHO_MAX];

    if (run->rank < 0) {
        return run_fail(MU_ETIMEDOUT,
                        "this worker is in no generation yet; the newest is %" PRIu64 " of job %s",
                        g->number, run->life.job);
    }
    if (run->data.broken != MU_OK && run->data.group == g->number) {
        return run_fail(MU_ETIMEDOUT,
                        "there is no generation after %" PRIu64
                        " yet, in which a peer was lost; call mu_regroup() again",
                        g->number);
    }
    return run_fail(MU_ETIMEDOUT,
                    "%s has not come to generation %" PRIu64
                    " yet: every member must call mu_regroup(); call it again",
                    missing != 0 ? run_who(missing, who) : "a member", g->number);
}

/* The group is the newest generation that counts: nothing is to be done. */
static bool is_there(const struct mu_run *run)
{
    const struct data *d = &run->data;

    return d->group != 0 && d->group == run->newest.number && d->broken == MU_OK;
}

/* Something can be done now. */
static bool can_move(const struct mu_run *run)
{
    const struct data *d = &run->data;

    return run->rank >= 0 && d->named == run->life.worker &&
           (d->group != run->newest.number || d->broken == MU_OK || run->alone);
}

static int move_on(struct mu_run *run, uint64_t due_ms)
{
    struct data *d = &run->data;
    wid missing = 0;
    int rc;

    while ((rc = call_state(run)) == MU_OK && !is_there(run)) {
        if (left_out(run)) {
            return regroup_left_out(run);
        }
        if (d->broken == MU_EORDER && d->group == run->newest.number) {
            return run_fail(MU_EORDER,
                            "the members of generation %" PRIu64 " made different calls: nothing "
                            "more can be done in it",
                            d->group);
        }
        if (can_move(run)) {
            rc = try(run, due_ms, &missing);
            if (rc == MU_OK && run->newest.kind == GENERATION_BOUNDARY) {
                return MU_OK; /* It may be newer than the group: that can wait. */
            }
            if (is_fatal(rc)) {
                return rc;
            }
        } else {
            say_suspect(run);
            (void)call_wait(run, due_ms);
        }
        if (run_now_ms() >= due_ms && !is_there(run)) {
            return fail_late(run, missing);
        }
    }
    return rc;
}

int regroup(struct mu_run *run, uint64_t due_ms)
{
    struct data *d = &run->data;
    bool in_time = true;
    int rc;

    while (d->moving && in_time) {
        in_time = call_wait(run, due_ms);
    }
    if (d->moving) {
        return run_fail(MU_ETIMEDOUT, "another thread of this worker is in mu_regroup()");
    }
    d->moving = true;
    rc = move_on(run, due_ms);
    d->moving = false;
    pthread_cond_broadcast(&run->changed);
    return rc;
}
