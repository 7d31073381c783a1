/* Workers that do not train: their program makes calls that all members agree on, one after the
 * other. This is mu_make() and mu_regroup() (src/run/regroup.c and make.c), and what the data plane
 * keeps of a call that failed (src/comm/agree.c).
 *
 * A call is made when its generation is known to be active. Each member gives its part to all; one
 * that has everybody's holds the result, and says so; one that has heard that from all has it, and
 * the call counts. If somebody is lost before that, what is held is settled by core/step.
 *
 * While the program is in a call or in its own code nobody drives core/step: that is so in
 * mu_regroup() alone. */
#include "sim/trainer.h"

#include <string.h>

#define MOVE_PPM 250000 /* after a call, if a newer generation is known */
#define EXIT_US 5000

static const struct generation *group_of(const struct trainer *t)
{
    return &step_group(&t->step)->g;
}

static struct era *root_of(struct world *w, uint64_t generation)
{
    struct check *c = &w->check;

    return &c->eras[c->eras[generation % GENERATIONS_N].lineage % GENERATIONS_N];
}

/* ---- what must hold ---- */

/* The calls that count in the lineage of this generation, by number. */
static struct outcome *outcomes_of(struct world *w, uint64_t generation)
{
    struct era *root = root_of(w, generation);
    struct check *c = &w->check;

    if (root->outcomes == 0) {
        if (c->lineages_n == LINEAGES_N) {
            world_fail(w, "%u lineages and no end", c->lineages_n);
            return c->outcomes[0];
        }
        root->outcomes = ++c->lineages_n;
    }
    return c->outcomes[root->outcomes - 1];
}

static void decide(struct world *w, uint64_t generation, uint64_t call, const struct outcome *o)
{
    struct era *root = root_of(w, generation);

    root->head = call;
    if (w->check.lineage == root->number) {
        w->check.head = call;
    }
    if (o != NULL) {
        outcomes_of(w, generation)[call] = *o;
    }
}

/* Those who come new to a generation may learn that all others hold a result: it counts as soon as
 * that generation is active, though nobody has it yet. */
void calls_active(struct world *w, const struct era *era)
{
    const uint64_t call = w->check.head + 1;
    const struct outcome *held = NULL;
    bool ahead = false;

    for (uint32_t i = 0; w->config.calls && i < era->members_n; i++) {
        const struct trainer *t = trainer_at(w, era->workers[i]);

        if (t->running && t->self == era->members[i]) {
            ahead |= step_committed(&t->step) == call;
            held = t->caller.holds && t->caller.held.call == call ? &t->caller.held : held;
        }
    }
    if (ahead) {
        decide(w, era->number, call, held);
    }
}

/* For each number one result counts, ever, in a lineage, and none is left out. */
void calls_commit(struct world *w, uint32_t worker, uint64_t call)
{
    const struct trainer *t = trainer_at(w, worker);
    const uint64_t generation = trainer_generation(t);
    const struct outcome *o = &t->caller.held;
    const char *who = trace_worker(w, t->self);
    struct outcome *known = &outcomes_of(w, generation)[MIN(call, (uint64_t)STEPS_N)];

    if (o->call != call || !t->caller.holds) {
        world_fail(w, "%s: call %" PRIu64 " counts, and it has no result of it", who, call);
    } else if (call > root_of(w, generation)->head + 1) {
        world_fail(w, "%s: call %" PRIu64 " counts, but %" PRIu64 " was the last", who, call,
                   root_of(w, generation)->head);
    } else if (call == root_of(w, generation)->head + 1) {
        if (!w->check.eras[generation % GENERATIONS_N].active) {
            world_fail(w, "%s: call %" PRIu64 " counts in generation %" PRIu64 ", not active", who,
                       call, generation);
        }
        decide(w, generation, call, o);
    } else if (known->call == 0) {
        *known = *o;
    } else if (known->term != o->term || known->set != o->set) {
        world_fail(w,
                   "%s: call %" PRIu64 " of generation %" PRIu64 ".%u counts, and %" PRIu64 ".%u's",
                   who, call, term_generation(o->term), term_round(o->term),
                   term_generation(known->term), term_round(known->term));
    }
}

/* ---- the program ---- */

static void compute(struct world *w, uint32_t worker)
{
    trainer_busy(w, worker, world_between(w, w->fortune.slice_min_us, 2 * w->fortune.slice_max_us));
}

static void regroup(struct trainer *t)
{
    t->caller.calls = false;
    t->caller.regroups = true;
    t->doing.what = STEP_WAIT;
    t->op++;
}

/* One that was left out does not say that it has finished: the others go on. */
static bool is_needed(const struct trainer *t)
{
    bool in = false;

    for (uint32_t i = 0; i < t->known.members_n; i++) {
        in |= t->known.members[i].worker == t->self;
    }
    return !in && step_entered(&t->step) != 0;
}

static void leave(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    trace(w, trace_worker(w, t->self), "has made all calls, and ends");
    t->caller.left = w->check.leaving = true;
    t->busy = true;
    trainer_report(w, worker);
    world_after(w, EXIT_US, SIM_STOP, worker, t->life);
}

/* It has the result of a call. */
static void get(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct caller *k = &t->caller;

    k->got++;
    k->holds = k->counts = k->calls = false;
    if (k->got >= w->config.steps_n && !is_needed(t)) {
        leave(w, worker);
    } else {
        compute(w, worker);
    }
}

static bool wants_to_move(struct world *w, const struct trainer *t)
{
    const uint64_t number = trainer_generation(t);

    return t->caller.got >= w->config.steps_n ||
           (w->config.together ? t->caller.newest > number
                               : t->known.number > number && world_chance(w, MOVE_PPM));
}

void calls_next(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct caller *k = &t->caller;

    if (k->holds) { /* … and it counts. */
        k->newest = 0;
        get(w, worker);
    } else if (k->got >= w->config.steps_n && !is_needed(t)) {
        leave(w, worker); /* It has come when all were made. */
    } else if (wants_to_move(w, t)) {
        regroup(t);
    } else {
        k->calls = true;
        k->said = false;
        k->here = k->ready = 0;
        k->newest = UINT64_MAX;
    }
}

void calls_ask(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_REGROUP};

    if (t->caller.regroups) {
        trainer_step(w, worker, &e);
    }
}

void calls_open(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const struct membership *m = step_group(&t->step);
    struct caller *k = &t->caller;

    k->regroups = false;
    k->newest = 0;
    k->holds &= k->counts;
    if (k->in != m->g.number && (m->members[step_rank(&t->step)].flags & MEMBER_CAUGHT_UP) == 0) {
        k->got = step_committed(&t->step);
    }
    k->in = m->g.number;
    if (step_committed(&t->step) != k->got + k->holds || (k->holds && k->held.call != k->got + 1)) {
        world_fail(w, "%s has the results of %" PRIu64 " calls%s, and %" PRIu64 " count",
                   trace_worker(w, t->self), k->got, k->holds ? " and one more" : "",
                   step_committed(&t->step));
    }
    compute(w, worker);
}

/* ---- the data plane ---- */

void calls_settled(struct trainer *t)
{
    t->caller.counts |= t->caller.holds;
}

/* Links to those who are not in the next generation are dropped. */
void calls_move(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    uint32_t links = 0;

    for (uint32_t i = 0; w->config.calls && i < group_of(t)->members_n; i++) {
        const uint32_t peer = links_worker(w, group_of(t)->members[i].worker);

        links |= peer < WORKERS_N ? 1u << peer : 0;
    }
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        if ((t->caller.links >> i & 1) != 0 && (links >> i & 1) == 0) {
            links_break(w, worker, i);
        }
    }
    t->caller.links = links;
}

/* Who of those it waits for will never do its part: lost, or in another term. Those who have done
 * theirs may go. */
static bool find_gone(struct world *w, const struct trainer *t, uint32_t done, wid *lost_out,
                      uint64_t *claim_out)
{
    const struct generation *g = group_of(t);
    bool gone = false;

    *lost_out = 0;
    *claim_out = 0;
    for (uint32_t i = 0; i < g->members_n; i++) {
        const uint32_t peer = links_worker(w, g->members[i].worker);

        if (g->members[i].worker == t->self || (done >> i & 1) != 0) {
            continue;
        }
        if (peer == WORKERS_N || (t->lost >> peer & 1) != 0) {
            *lost_out = g->members[i].worker;
            gone = true;
        } else if (t->claim[peer] > t->at) {
            *claim_out = MAX(*claim_out, t->claim[peer]);
            gone = true;
        }
    }
    return gone;
}

/* As regroup_called() and crew_failed(). */
static void fail(struct world *w, uint32_t worker, wid lost, uint64_t claim)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_ACTIVE, .generation = trainer_generation(t)};

    if (t->caller.said) {
        trainer_step(w, worker, &e);
    }
    if (t->caller.holds) {
        e = (struct step_event){
            .kind = STEP_ON_REDUCED, .term = t->at, .step = step_committed(&t->step) + 1};
        trainer_step(w, worker, &e);
        if (!step_holds(&t->step)) {
            world_fail(w, "%s holds the result of call %" PRIu64 ", and can't say so",
                       trace_worker(w, t->self), e.step);
        }
    }
    if (t->told == NULL) { /* Else its news says what is next. */
        e = (struct step_event){.kind = STEP_ON_BROKEN, .term = t->at, .peer = lost};
        if (claim != 0 && term_generation(claim) == term_generation(t->at)) {
            e = (struct step_event){.kind = STEP_ON_CLAIM, .term = claim};
        }
        trainer_step(w, worker, &e);
    }
    regroup(t);
}

/* Takes one frame of this type from each who has not sent one. */
static void take(struct world *w, uint32_t worker, enum frame_type type, uint32_t *from)
{
    struct trainer *t = trainer_at(w, worker);
    const struct generation *g = group_of(t);

    for (uint32_t i = 0; i < g->members_n; i++) {
        const uint32_t peer = links_worker(w, g->members[i].worker);
        const struct sim_frame *f;
        uint64_t word;

        if (g->members[i].worker == t->self || peer == WORKERS_N || (*from >> i & 1) != 0) {
            continue;
        }
        f = links_head(w, worker, peer);
        if (f == NULL) {
            continue;
        }
        memcpy(&word, f->bytes, sizeof(word));
        if (f->type != type || (type == FRAME_CALL && word != t->caller.got + 1)) {
            world_fail(w, "%s makes call %" PRIu64 ", and %s another (%u, %" PRIu64 ")",
                       trace_worker(w, t->self), t->caller.got + 1,
                       trace_worker(w, g->members[i].worker), f->type, word);
            return;
        }
        if (type == FRAME_HOLDS) {
            t->caller.newest = MIN(t->caller.newest, word);
        }
        *from |= 1u << i;
        links_done(w, worker, peer);
    }
}

static void hold(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct caller *k = &t->caller;

    k->holds = true;
    k->counts = false;
    k->held = (struct outcome){.call = k->got + 1, .term = t->at};
    for (uint32_t i = 0; i < group_of(t)->members_n; i++) {
        k->held.set += prng_mix(group_of(t)->members[i].worker);
    }
}

static void say(struct world *w, uint32_t worker, enum frame_type type, uint64_t word,
                uint32_t *from)
{
    struct trainer *t = trainer_at(w, worker);

    *from |= 1u << step_rank(&t->step);
    links_send_all(w, worker, type, &word, sizeof(word));
}

static void agree(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_ACTIVE, .generation = trainer_generation(t)};

    trainer_step(w, worker, &e);
    e = (struct step_event){
        .kind = STEP_ON_AGREED, .term = t->at, .step = step_committed(&t->step) + 1};
    trainer_step(w, worker, &e);
    if (step_committed(&t->step) != t->caller.got + 1) {
        world_fail(w, "%s: all hold the result of call %" PRIu64 ", and it does not count",
                   trace_worker(w, t->self), t->caller.got + 1);
    }
    get(w, worker);
}

/* As regroup_confirm(): true if it may be made. */
static bool confirm(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const uint64_t number = trainer_generation(t);
    uint64_t claim;
    wid lost;

    if (t->told_active == number) {
        return true;
    }
    if (t->told_active > number || t->known.number > number) {
        regroup(t);
    } else if (find_gone(w, t, 0, &lost, &claim)) {
        fail(w, worker, lost, claim);
    }
    return false;
}

void calls_go_on(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct caller *k = &t->caller;
    const uint32_t all = (1u << group_of(t)->members_n) - 1;
    const bool fenced = t->told != NULL && t->told->g.kind != GENERATION_BOUNDARY;
    uint64_t claim;
    wid lost;

    if (!k->said && !confirm(w, worker)) {
        return;
    }
    if (!k->said && (fenced || find_gone(w, t, 0, &lost, &claim))) {
        fail(w, worker, fenced ? 0 : lost, fenced ? 0 : claim);
        return;
    }
    if (!k->said) {
        k->said = true;
        say(w, worker, FRAME_CALL, k->got + 1, &k->here);
    }
    if (k->here != all) {
        take(w, worker, FRAME_CALL, &k->here);
    }
    if (k->here == all && !k->holds) {
        hold(w, worker);
        if (find_gone(w, t, 0, &lost, &claim) && lost != 0) {
            fail(w, worker, lost, claim);
            return;
        }
        say(w, worker, FRAME_HOLDS, t->known.number, &k->ready);
        k->newest = t->known.number;
    }
    if (k->holds && k->ready != all) {
        take(w, worker, FRAME_HOLDS, &k->ready);
    }
    if (k->holds && k->ready == all) {
        agree(w, worker);
    } else if (find_gone(w, t, k->holds ? k->ready : k->here, &lost, &claim) || fenced) {
        fail(w, worker, lost, claim);
    }
}
