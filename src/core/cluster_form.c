/* Who is in the next generation, and when there is one.
 *
 * One membership record of a job is on its way at a time; what happens meanwhile is
 * judged when it has been applied. */
#include "core/cluster_state.h"
#include "core/mutation.h"

#include <string.h>

static void add_member(struct cluster *c, struct generation *g, const struct node *n, uint32_t slot,
                       bool caught_up)
{
    const struct worker *w = node_worker(c, n, slot);
    struct member *m = &c->scratch[g->members_n++];

    m->worker = wid_make(n->number, slot, w->incarnation);
    m->host = n->host;
    m->role = n->role;
    m->flags = caught_up ? MEMBER_CAUGHT_UP : 0;
    memcpy(m->addr, w->addr, sizeof(m->addr));
    m->port = w->port;
}

/* Auto, while nobody knows what the scripts are: may they be restarted for a planned change? All
 * have had their time to say that they are ours. One of ours that is slower loses no work, for it
 * has not joined, and shows what it is later. */
static bool may_restart(struct cluster *c, const struct job *j)
{
    bool may = j->mode == MODE_AUTO && !j->deciding && j->members_n > 0;

    for (struct node *n = node_at(c, j->seniors.first); n != NULL && may; n = node_at(c, n->next)) {
        may = RULE(SILENCE_IS_AWAITED, n->silent) || !node_alive(n);
    }
    return may;
}

static bool hold_wanted(struct cluster *c, const struct job *j, uint32_t full_n)
{
    /* Only scripts that run can show of which mode they are. */
    return (j->wish.paused && (j->mode != MODE_AUTO || may_restart(c, j))) ||
           !RULE(MIN_HOLDS, full_n >= job_min(j));
}

/* Makes the record. `full_n` is the number of nodes that have all their slots in it. */
static void propose(struct cluster *c, struct job *j, struct generation *g, uint32_t full_n,
                    struct effects *fx)
{
    struct record r = {.kind = RECORD_GENERATION};

    if (hold_wanted(c, j, full_n)) {
        g->flags |= GENERATION_HOLD;
    }
    strcpy(g->job, j->name);
    g->run = j->run;
    g->number = j->proposed = ++j->next_number;
    g->members = c->scratch;
    fx->random(fx, g->key, sizeof(g->key));
    r.u.generation = *g;
    j->pending = true;
    say_record(fx, &r, c->taken_over == j);
}

static bool same_as_published(struct cluster *c, const struct job *j, const struct generation *g,
                              uint32_t full_n)
{
    bool held = (j->flags & GENERATION_HOLD) != 0;

    if (g->members_n != j->members_n || hold_wanted(c, j, full_n) != held) {
        return false;
    }
    for (uint32_t i = 0; i < g->members_n; i++) {
        wid id = c->scratch[i].worker;
        const struct node *n = node_by_number(c, wid_node(id));

        if (node_worker(c, n, wid_slot(id))->current_inc != wid_incarnation(id)) {
            return false;
        }
    }
    return true;
}

static bool is_whole(struct cluster *c, const struct node *n, uint32_t members_n)
{
    return members_n > 0 && members_n == node_staff(c, n);
}

/* ---- fresh: nobody holds a state, or (restart mode) nobody has to ---- */

static bool node_suspected(struct cluster *c, const struct job *j, const struct node *n)
{
    for (uint32_t s = 0; s < n->slots; s++) {
        if (suspect_drops(j, node_worker(c, n, s))) {
            return true;
        }
    }
    return false;
}

/* Every change restarts everyone, so what will be known in a moment is awaited: whether a
 * connection that closed comes back, whose fault it was, and the next life of a script that ended.
 */
static bool mending(struct cluster *c, struct job *j)
{
    if (j->mode == MODE_INPROCESS) {
        return false;
    }
    if (j->blame.until_ms != 0) {
        return true; /* Who else was lost is known soon. */
    }
    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        if (node_alive(n) && n->closed_ms != NEVER) {
            return true; /* It is back, or judged, soon. */
        }
        for (uint32_t s = 0; s < n->slots && node_alive(n) && !n->draining; s++) {
            const struct worker *w = node_worker(c, n, s);

            if (w->phase == PHASE_EXITED && w->charged <= j->max_restarts &&
                c->now_ms < j->mend_ms) {
                return true;
            }
        }
    }
    return false;
}

/* The first trainer's port is what its scripts meet at. The one of the last generation may have
 * stragglers, so its agent's word of another is awaited for a moment after it was told of that: a
 * lease for it to come, and another in which an agent that can't be heard any more is found to be
 * lost. */
static uint64_t port_due_ms(struct cluster *c, const struct job *j, const struct generation *g)
{
    uint64_t told_ms = MAX(j->published_ms, c->jump_ms);
    const struct node *n;
    wid first = 0;

    for (uint32_t i = 0; i < g->members_n && first == 0; i++) {
        first = member_is_ranked(&c->scratch[i]) ? c->scratch[i].worker : 0;
    }
    if (j->mode == MODE_INPROCESS || first == 0 || MUTATED(PORT_IS_NEW)) {
        return 0;
    }
    n = node_by_number(c, wid_node(first));
    if (!node_worker(c, n, wid_slot(first))->port_used) {
        return 0;
    }
    told_ms = n->sent == j->number ? MAX(told_ms, n->sent_ms) : told_ms;
    return told_ms + 2 * (uint64_t)c->config.lease_ms;
}

/* Somebody was lost while others run (restart mode), or all have stopped: they do not wait for
 * newcomers. */
static bool survives(const struct job *j)
{
    if (job_heals(j)) {
        return true;
    }
    return j->mode != MODE_INPROCESS && j->tally.lost_n > 0 && j->tally.lost_n < j->members_n;
}

/* Those that are ready. linked: and have reached every member, or are members. trusted: and nobody
 * is to be left out because of them. */
static uint32_t add_whole_nodes(struct cluster *c, struct job *j, struct generation *g, bool linked,
                                bool trusted)
{
    uint32_t picked_n = pick_nodes(c, j, true), full_n = 0;

    g->members_n = 0;
    for (uint32_t i = 0; i < picked_n; i++) {
        const struct node *n = &c->nodes[c->picked[i]];

        if (!(trusted && node_suspected(c, j, n)) && (!linked || n->joinable)) {
            full_n += n->duty == DUTY_TRAINS;
            for (uint32_t s = 0; s < n->slots; s++) {
                if (!worker_left(node_worker(c, n, s))) {
                    add_member(c, g, n, s, false);
                }
            }
        }
    }
    return full_n;
}

static bool form_fresh(struct cluster *c, struct job *j, struct effects *fx)
{
    struct generation g = {.kind = GENERATION_FRESH, .from = j->active, .base_step = j->checkpoint};
    uint64_t window_ms = j->newcomer_ms + c->config.join_window_ms;
    uint32_t full_n = 0;
    bool same = true; /* The same members again are no news. */

    if (j->available_n < job_min(j)) {
        return false;
    }
    if (j->available_n < job_size(c, j) && c->now_ms < window_ms && !survives(j)) {
        job_due(c, j, window_ms);
        j->dirty = true;
        return false;
    }
    if (mending(c, j)) {
        job_due(c, j, MAX(j->mend_ms, c->now_ms + c->config.reconnect_ms));
        j->dirty = true;
        return false;
    }
    /* Better all of them than none: who is suspected may be one slot of each node. */
    for (int i = 0; i < 3 && full_n < job_min(j); i++) {
        full_n = add_whole_nodes(c, j, &g, i == 0 && job_heals(j), i < 2);
    }
    if (job_heals(j)) {
        g.flags |= GENERATION_HEALS;
        g.base_step = j->heal.step;
        same = !job_must_heal(j);
    }
    if (full_n < job_min(j) || (same && same_as_published(c, j, &g, full_n))) {
        return false;
    }
    if (c->now_ms < port_due_ms(c, j, &g)) {
        job_due(c, j, port_due_ms(c, j, &g));
        j->dirty = true;
        return false;
    }
    g.flags |= j->checkpoint != 0 ? GENERATION_CHECKPOINTED : 0;
    propose(c, j, &g, full_n, fx);
    return true;
}

/* All members of the active generation have left of their own will, and not because they were asked
 * to: their work is over, and whoever waits for a place is not to begin it again. */
static bool all_left(struct cluster *c, const struct job *j)
{
    uint32_t left_n = 0;

    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        for (uint32_t s = 0; s < n->slots; s++) {
            const struct worker *w = node_worker(c, n, s);

            left_n += w->active_inc != 0 && w->incarnation == w->active_inc && worker_left(w) &&
                      !n->draining;
        }
    }
    return left_n == j->active_n && !MUTATED(ALL_LEFT_ENDS);
}

/* No member of the active generation lives. Another lineage may start only when none of
 * them can come back and commit: proved dead, or out of touch for so long that they have paused. */
static void form_takeover(struct cluster *c, struct job *j, struct effects *fx)
{
    uint64_t at_ms = MAX(j->word_ms, c->start_ms) + c->config.takeover_ms;
    bool proved = j->tally.dead_n == j->active_n;

    if (all_left(c, j)) {
        record_deserted(c, j, fx);
        return;
    }
    if (!RULE(TAKEOVER_WAITS, j->takeover_asked || proved || c->now_ms >= at_ms)) {
        job_due(c, j, at_ms);
        return;
    }
    if (j->faulted && heal_try(c, j, true, fx)) {
        return; /* They had stopped: what they saved last is not to be trusted. */
    }
    if (j->saving) {
        return; /* It starts from the checkpoint whose record is on its way. */
    }
    if (form_fresh(c, j, fx)) {
        say_note(fx,
                 &(struct note){.kind = NOTE_TAKEOVER,
                                .job = j->name,
                                .generation = j->next_number,
                                .value = j->checkpoint,
                                .reason = proved ? "every member is dead" : "no member was heard"});
    }
}

/* ---- failure: those who live of the last active generation ---- */

static void form_failure(struct cluster *c, struct job *j, struct effects *fx)
{
    struct generation g = {.kind = GENERATION_FAILURE, .from = j->active};
    uint32_t full_n = 0;

    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        uint32_t before_n = g.members_n;

        for (uint32_t s = 0; s < n->slots; s++) {
            struct worker *w = node_worker(c, n, s);
            uint32_t in = MUTATED(FAILURE_FROM_ACTIVE) ? w->current_inc : w->active_inc;

            if (worker_lives(n, w, in) && !suspect_drops(j, w)) {
                add_member(c, &g, n, s, true);
            }
        }
        full_n += is_whole(c, n, g.members_n - before_n);
    }
    if (g.members_n == 0) {
        form_takeover(c, j, fx);
    } else {
        propose(c, j, &g, full_n, fx);
    }
}

/* ---- boundary: growth, shrink, drain, pause ---- */

static void form_boundary(struct cluster *c, struct job *j, struct effects *fx)
{
    struct generation g = {.kind = GENERATION_BOUNDARY, .from = j->active};
    uint32_t picked_n = pick_nodes(c, j, false);
    uint32_t full_n = 0;

    for (uint32_t i = 0; i < picked_n; i++) {
        const struct node *n = &c->nodes[c->picked[i]];
        uint32_t before_n = g.members_n;

        for (uint32_t s = 0; s < n->slots; s++) {
            const struct worker *w = node_worker(c, n, s);
            bool caught_up = worker_lives(n, w, w->active_inc);

            if (caught_up || (worker_joinable(c, n, w) && !node_suspected(c, j, n))) {
                add_member(c, &g, n, s, caught_up);
            }
        }
        full_n += is_whole(c, n, g.members_n - before_n);
    }
    if (g.members_n > 0 && !same_as_published(c, j, &g, full_n)) {
        propose(c, j, &g, full_n, fx);
    }
}

/* ---- ends and saves ---- */

static void note_progress(struct cluster *c, struct job *j, struct effects *fx)
{
    bool ended = j->finished && j->active != 0 && j->tally.finished_n == j->tally.survivors_n;

    if (j->failing) {
        record_failed(c, j, fx, "%s", j->why);
    }
    if (j->deserted) {
        record_deserted(c, j, fx);
    }
    j->done |= j->tally.finished_n > 0;
    j->led |= j->tally.led_n > 0;
    /* In a job that nobody trains, the work is its chief's. */
    ended |= j->led && j->active == 0 && j->tally.trainers_n == 0;
    if (!j->finishing && !j->ended && (ended || (j->done && !j->finished))) {
        record_finished(c, j, ended, "", fx);
    }
    /* One that was saved meanwhile may be of a state that not all had. */
    if (!j->saving && j->saved > j->checkpoint && !j->faulted && !job_heals(j)) {
        struct record r = {.kind = RECORD_CHECKPOINT,
                           .u.checkpoint = {.run = j->run, .step = j->saved}};

        strcpy(r.u.checkpoint.job, j->name);
        j->saving = true;
        say_record(fx, &r, false);
    }
}

static void propose_active(struct job *j, struct effects *fx)
{
    struct record r = {.kind = RECORD_ACTIVE, .u.active.generation = j->number};

    strcpy(r.u.active.job, j->name);
    j->pending = true;
    say_record(fx, &r, false);
}

void job_evaluate(struct cluster *c, struct job *j, struct effects *fx)
{
    bool broken;

    if (j->run == 0 || j->creating || j->ended || j->forgetting) {
        return;
    }
    blame_settle(c, j, fx);
    if (c->now_ms < j->retry_ms) {
        job_due(c, j, j->retry_ms);
        return;
    }
    note_progress(c, j, fx);
    if (j->mode == MODE_INPROCESS && j->members_n > c->config.group_max) {
        record_failed(c, j, fx,
                      "its scripts use libmuster, and %u workers are more than the %u that can "
                      "train together; start it with fewer (--nnodes, --nproc-per-node)",
                      j->members_n, c->config.group_max); /* The mode was not known before. */
        return;
    }
    j->takeover_asked &= j->tally.survivors_n == 0;
    if (j->pending || j->finishing) {
        return;
    }
    broken = suspect_judge(c, j) || j->tally.lost_n > 0;
    /* Somebody who holds the lineage is back before the takeover was complete. */
    broken |= j->number != j->active && j->kind == GENERATION_FRESH && j->mode != MODE_RESTART &&
              j->tally.survivors_n > 0;
    if (j->faulted && heal_try(c, j, false, fx)) {
        return;
    }
    if (j->members_n == 0 || (broken && j->active_n == 0) || job_must_heal(j)) {
        form_fresh(c, j, fx);
    } else if (broken && j->mode != MODE_RESTART) {
        form_failure(c, j, fx);
    } else if (!broken && j->dirty && may_restart(c, j) && !j->finished) {
        j->dirty = false;
        form_fresh(c, j, fx);
    } else if (!broken && j->number != j->active) {
        if (j->tally.entered_n > 0 && RULE(ACTIVE_NEEDS_ALL, j->tally.entered_n == j->members_n)) {
            propose_active(j, fx);
        }
    } else if (j->mode == MODE_RESTART && (broken || j->dirty) && !j->finished) {
        j->dirty = false;
        form_fresh(c, j, fx);
    } else if (j->dirty && j->mode != MODE_AUTO && !j->finished) {
        j->dirty = false;
        form_boundary(c, j, fx);
    }
}
