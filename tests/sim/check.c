/* What must hold. Most of it is checked where it can be broken; check_after() looks at the whole
 * after every event. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

/* After healing: whom a broken pair costs has been decided. */
#define SETTLED_US (4000 * US_PER_MS)
#define NOTICED_US (1500 * US_PER_MS) /* … and has been noticed by both */
#define FLAPS_N 4                     /* for each slot */

static struct era *era_of(struct world *w, uint64_t number)
{
    if (number >= GENERATIONS_N) {
        world_fail(w, "%" PRIu64 " generations and no end", number);
        return &w->check.eras[0];
    }
    return &w->check.eras[number];
}

static uint64_t members_hash(const struct generation *g)
{
    uint64_t h = g->kind * 4u + g->flags + g->from * 64u;

    for (uint32_t i = 0; i < g->members_n; i++) {
        h = prng_mix(h ^ g->members[i].worker) + g->members[i].flags;
    }
    return h;
}

/* Slots of a member's node whose workers have left: they are not missed. */
static uint32_t left_slots(const struct world *w, const struct member *m)
{
    const struct machine *node = &w->machines[(uint32_t)atoi(m->addr) / SLOTS_N];
    uint32_t left_n = 0;

    for (uint32_t s = 0; s < w->config.slots; s++) {
        left_n += node->trainers[s].left != 0; /* Its agent says so under any number. */
    }
    return left_n;
}

static uint32_t full_nodes(const struct world *w, const struct generation *g)
{
    uint32_t full_n = 0, run = 0;

    for (uint32_t i = 0; i < g->members_n; i++) {
        bool same = i > 0 && wid_node(g->members[i].worker) == wid_node(g->members[i - 1].worker);

        run = same ? run + 1 : 1;
        full_n += run + left_slots(w, &g->members[i]) == w->config.slots;
    }
    return full_n;
}

/* Of the active generation, by their own word, which the orchestrator has. */
static bool all_left(struct world *w)
{
    const struct era *last = era_of(w, w->check.active);

    for (uint32_t i = 0; i < last->members_n; i++) {
        const struct trainer *t = trainer_at(w, last->workers[i]);
        const struct machine *node = &w->machines[last->workers[i] / SLOTS_N];
        const struct slot *s = &node->agent.slots[last->workers[i] % SLOTS_N];

        if (t->left != last->members[i] || !node->alive || node->agent.draining ||
            node->agent.reports_acked < s->reported || s->report.phase != PHASE_EXITED) {
            return false;
        }
    }
    return last->members_n > 0;
}

bool check_grows(struct world *w, uint64_t from, uint64_t to)
{
    const struct era *a = era_of(w, from), *b = era_of(w, to);
    uint32_t kept_n = 0;

    for (uint32_t i = 0; i < a->members_n; i++) {
        for (uint32_t k = 0; k < b->members_n; k++) {
            kept_n += a->members[i] == b->members[k];
        }
    }
    return kept_n == a->members_n && a->members_n > 0;
}

void check_deserted(struct world *w)
{
    const struct era *last = era_of(w, w->check.active);

    w->check.deserted = true;
    for (uint32_t i = 0; i < last->members_n; i++) {
        const struct trainer *t = trainer_at(w, last->workers[i]);

        if (t->running && t->self == last->members[i]) {
            world_fail(w, "the job ends because all have left, and %s has not",
                       trace_worker(w, t->self));
        }
    }
}

/* Invariant 4: a lineage is given up only when none of its holders can commit any more. */
static void check_takeover(struct world *w)
{
    const struct era *last = era_of(w, w->check.active);

    if (all_left(w)) {
        world_fail(w, "the work is begun again, although all have left");
    }
    for (uint32_t i = 0; i < last->members_n; i++) {
        const struct trainer *t = trainer_at(w, last->workers[i]);
        uint64_t now_ms = machine_now_ms(w, last->workers[i] / SLOTS_N);

        if (t->running && t->self == last->members[i] && step_entered(&t->step) != 0 &&
            now_ms - step_lease_ms(&t->step) <= ORPHAN_MS) {
            world_fail(w, "takeover although %s lives, holds step %" PRIu64 " and may commit",
                       trace_worker(w, t->self), step_committed(&t->step));
        }
    }
}

/* … or when its members' states differ and the job heals: heal_record() has seen to that. */
static bool is_given_up(const struct check *c)
{
    return c->given_up != 0 && c->given_up == c->active;
}

/* Is every member of the active generation in this one? */
static bool keeps_all(struct world *w, const struct generation *g)
{
    const struct era *last = era_of(w, w->check.active);

    for (uint32_t i = 0; i < last->members_n; i++) {
        bool in = false;

        for (uint32_t k = 0; k < g->members_n; k++) {
            in |= g->members[k].worker == last->members[i];
        }
        if (!in && !w->machines[last->workers[i] / SLOTS_N].agent.draining) {
            return false;
        }
    }
    return true;
}

uint64_t check_stopped_us(const struct world *w)
{
    uint64_t until_us = w->orch.stopped_until_us;

    for (uint32_t i = 0; i < WORKERS_N; i++) {
        const struct machine *m = &w->machines[i / SLOTS_N];

        until_us = MAX(until_us, m->stopped_until_us);
        if (!m->trainers[i % SLOTS_N].helps) { /* Nobody waits for it. */
            until_us = MAX(until_us, m->trainers[i % SLOTS_N].stopped_until_us);
        }
    }
    return until_us;
}

/* Does it take in a worker that can't reach a member, and has known that for long enough? */
static bool joins_in_vain(const struct world *w, const struct generation *g, const struct era *era)
{
    if (g->kind != GENERATION_BOUNDARY || !w->healed || w->config.pair != PAIR_STAYS_CUT ||
        era->proposed_us < MAX(w->check.healed_us, check_stopped_us(w)) + NOTICED_US) {
        return false;
    }
    for (uint32_t i = 0; i < g->members_n; i++) {
        for (uint32_t k = 0; k < g->members_n; k++) {
            if ((g->members[i].flags & MEMBER_CAUGHT_UP) == 0 &&
                (g->members[k].flags & MEMBER_CAUGHT_UP) != 0 &&
                w->cut[era->workers[i] / SLOTS_N][era->workers[k] / SLOTS_N]) {
                return true;
            }
        }
    }
    return false;
}

/* It may be published much later, after a crash. */
void check_proposed(struct world *w, const struct generation *g)
{
    era_of(w, g->number)->proposed_us = w->now_us;
}

/* Invariant 1: numbers only grow, and one number names one membership, for ever. */
void check_generation(struct world *w, const struct generation *g)
{
    struct check *c = &w->check;
    struct era *era = era_of(w, g->number);
    uint64_t hash = members_hash(g);

    if (era->number != 0) {
        if (era->members_hash != hash) {
            world_fail(w, "generation %" PRIu64 " names two memberships", g->number);
        }
        return;
    }
    if (g->number <= c->newest) {
        world_fail(w, "generation %" PRIu64 " comes after %" PRIu64, g->number, c->newest);
    }
    c->newest = g->number;
    era->number = g->number;
    era->published_ms = orch_now_ms(w);
    era->members_hash = hash;
    era->kind = g->kind;
    era->flags = g->flags;
    era->base = g->base_step;
    era->full_n = full_nodes(w, g);
    era->lineage = g->kind == GENERATION_FRESH ? g->number : era_of(w, g->from)->lineage;
    era->members_n = g->members_n;
    for (uint32_t i = 0; i < g->members_n; i++) {
        era->members[i] = g->members[i].worker;
        era->workers[i] = (uint32_t)atoi(g->members[i].addr);
    }
    if (g->base_step > c->checkpoint) {
        world_fail(w,
                   "generation %" PRIu64 " is to start from step %" PRIu64 " when %" PRIu64
                   " is the newest checkpoint",
                   g->number, g->base_step, c->checkpoint);
    }
    if ((g->flags & GENERATION_HEALS) != 0 && (g->kind != GENERATION_FRESH || !is_given_up(c))) {
        world_fail(w, "generation %" PRIu64 " heals, and nothing was given up", g->number);
    } else if (is_given_up(c) && (g->flags & GENERATION_HEALS) == 0 && !c->second_run) {
        world_fail(w, "generation %" PRIu64 " follows one that was given up, and does not heal",
                   g->number);
    } else if (g->kind == GENERATION_FRESH && c->active != 0 && !c->second_run &&
               !w->config.plain && !w->config.calls && !is_given_up(c)) {
        check_takeover(w);
    }
    if (joins_in_vain(w, g, era)) {
        world_fail(w, "generation %" PRIu64 " takes in a worker that can't reach a member",
                   g->number);
    }
    if (g->kind == GENERATION_FAILURE && w->healed && w->config.pair == PAIR_STAYS_CUT &&
        w->now_us > c->healed_us + SETTLED_US && !c->leaving &&
        ++c->flaps_n > FLAPS_N * w->config.slots) {
        world_fail(w, "a pair that can't talk is torn apart again and again");
    }
    if (g->kind == GENERATION_FAILURE && w->fortune.calm && !c->leaving && !keeps_all(w, g)) {
        world_fail(w, "generation %" PRIu64 " drops members although nothing happened to any",
                   g->number);
    }
}

void check_active(struct world *w, uint64_t generation)
{
    struct check *c = &w->check;
    struct era *era = era_of(w, generation);

    era->active = true;
    era_of(w, era->lineage)->last_active = generation;
    c->active = generation;
    if (era->lineage == c->lineage) {
        calls_active(w, era);
        return;
    }
    c->takeovers_n += c->lineage != 0 && (era->flags & GENERATION_HEALS) == 0;
    c->lineage = era->lineage;
    if (era->base > c->checkpoint) {
        world_fail(w,
                   "generation %" PRIu64 " starts from step %" PRIu64
                   " but the newest checkpoint is of %" PRIu64,
                   generation, era->base, c->checkpoint);
    }
    c->head = era_of(w, era->lineage)->head = era->base;
    c->agreed = MIN(c->agreed, era->base);
    memset(c->first_in, 0, sizeof(c->first_in));
}

/* A zombie of a lineage that was given up may learn what that had committed. One that had been left
 * out before may also commit the one step that all of its generation held: no member of the last
 * active one got as far, so nobody follows it. */
static bool zombie_may(struct world *w, const struct era *era, uint64_t step)
{
    const struct era *root = era_of(w, era->lineage);

    return step <= root->head || (era->number < root->last_active && step == root->head + 1);
}

/* Invariants 2, 3, 4 and 5, at the one moment when they can be broken. */
void check_commit(struct world *w, uint32_t worker, uint64_t step, bool settled)
{
    const struct trainer *t = trainer_at(w, worker);
    uint64_t generation = trainer_generation(t);
    struct era *era = era_of(w, generation);
    struct check *c = &w->check;
    const char *who = trace_worker(w, t->self);

    trace_commit(w, worker, step, settled);
    c->commits_n++;
    if (w->config.calls) {
        calls_commit(w, worker, step);
        return;
    }
    if (step > w->config.steps_n ||
        (memcmp(t->sum, w->model.sum[step], sizeof(t->sum)) != 0 && !heal_tainted(w, generation))) {
        world_fail(w, "%s: the result of step %" PRIu64 " is not what one process gets", who, step);
        return;
    }
    vouch_commit(w, worker, era, step);
    save_commit(w, worker, generation, step);
    if (era->lineage != c->lineage && zombie_may(w, era, step)) {
        return;
    }
    if (era->lineage != c->lineage) {
        world_fail(w,
                   "%s commits step %" PRIu64 " in generation %" PRIu64
                   ", of a lineage that was given up",
                   who, step, generation);
    }
    if ((!settled || step > c->head) && !era->active) {
        world_fail(w, "%s commits step %" PRIu64 " in generation %" PRIu64 ", which is not active",
                   who, step, generation);
    }
    if (!settled && ((era->flags & GENERATION_HOLD) != 0 || era->full_n < w->config.min)) {
        world_fail(w,
                   "%s commits step %" PRIu64 " in generation %" PRIu64 " of %u nodes, min is %u",
                   who, step, generation, era->full_n, w->config.min);
    }
    if (step > c->head + 1) {
        world_fail(w, "%s commits step %" PRIu64 " after step %" PRIu64, who, step, c->head);
    } else if (step == c->head + 1) {
        c->head = era_of(w, era->lineage)->head = step;
        heal_commit(w, era, step, settled);
        c->first_in[step] = generation;
        c->made_in[step] = t->made_in;
    } else if (!settled && generation > c->first_in[step]) {
        world_fail(w,
                   "%s does step %" PRIu64 " again in generation %" PRIu64
                   "; it was committed in %" PRIu64,
                   who, step, generation, c->first_in[step]);
    }
    if (t->made_in != c->made_in[step]) {
        world_fail(w, "%s commits step %" PRIu64 " as another group made it", who, step);
    }
}

/* Those who end together end with the same state. */
void check_finish(struct world *w, uint32_t worker)
{
    const struct trainer *t = trainer_at(w, worker);
    struct era *era = era_of(w, trainer_generation(t));

    if (!era->finished) {
        era->finished = true;
        memcpy(era->weights, t->weights, sizeof(era->weights));
    } else if (memcmp(era->weights, t->weights, sizeof(era->weights)) != 0) {
        world_fail(w, "%s ends with another state than its peers", trace_worker(w, t->self));
    }
}

void check_forget(struct world *w, uint32_t worker)
{
    const struct trainer *t = trainer_at(w, worker);

    trace(w, trace_worker(w, t->self), "is out, and forgets its state");
    if (w->check.active <= trainer_generation(t) && !w->check.second_run) {
        world_fail(w, "%s forgets its state before a generation without it is active",
                   trace_worker(w, t->self));
    }
}

/* The end may have become durable, and the orchestrator died before it could say so. */
static void note_end(struct world *w)
{
    struct job_look j;

    if (cluster_look_job(w->orch.mind.cluster, "job", &j) == MU_OK && j.view.ended) {
        w->check.ended = true;
        w->check.failed |= j.failed;
        w->check.deserted |= strstr(j.why, "have left") != NULL;
    }
}

/* What was published or called active survives the orchestrator. */
void check_restart(struct world *w)
{
    struct job_view v;

    note_end(w);
    if (w->check.newest == 0 || w->failed || w->again.forgotten) {
        return;
    }
    if (cluster_job(w->orch.mind.cluster, "job", &v) != MU_OK || v.generation < w->check.newest ||
        (v.active < w->check.active && v.run == 1 && !v.ended)) {
        world_fail(w,
                   "the orchestrator forgot generation %" PRIu64 " or that %" PRIu64 " is active",
                   w->check.newest, w->check.active);
    }
    if (v.active > w->check.active) {
        check_active(w, v.active); /* Its record was written after all. */
    }
}

/* The heart of it: every living member of the active generation holds the newest committed step,
 * or stands one before it and holds its result. */
void check_after(struct world *w)
{
    const struct check *c = &w->check;
    const struct era *era = &c->eras[c->active % GENERATIONS_N];

    for (uint32_t i = 0; c->active != 0 && i < era->members_n; i++) {
        const struct trainer *t = trainer_at(w, era->workers[i]);

        if (!t->running || t->plain || t->self != era->members[i] || c->ended || c->second_run ||
            is_given_up(c)) {
            continue;
        }
        const uint64_t at = step_committed(&t->step);

        if (at != c->head && !(at + 1 == c->head && (step_holds(&t->step) || t->caller.holds))) {
            world_fail(w,
                       "%s is a member of the active generation %" PRIu64
                       " but stands at step %" PRIu64 " when %" PRIu64 " is committed",
                       trace_worker(w, t->self), c->active, at, c->head);
        }
    }
}

/* The run is over for everyone, as it should be. */
bool check_done(const struct world *w)
{
    if (w->check.second_run || (!w->config.heal && vouch_stopped(w))) {
        return true;
    }
    for (uint32_t m = 0; m < NODES_N; m++) {
        if (w->machines[m].alive) {
            return false;
        }
    }
    if (w->config.plain) {
        return w->check.ended && w->check.programs_done_n > 0;
    }
    return w->check.ended &&
           (w->check.head == w->config.steps_n || w->check.failed || w->check.deserted);
}
