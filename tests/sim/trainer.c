/* A worker: the real core/step over a toy model. This is its driver, as src/train's is: it does
 * what step_next() says, one thing at a time. While it computes or applies it hears nothing. What
 * it does with the others is collect.c's, and links.c carries it. */
#include "sim/trainer.h"

#include <string.h>

#define TICK_US 50000
#define APPLY_MIN_US 50
#define APPLY_MAX_US 3000
#define DIGEST_US 100

struct trainer_effects {
    struct step_effects base;
    struct world *w;
    uint32_t worker;
};

struct trainer *trainer_at(struct world *w, uint32_t worker)
{
    return &w->machines[worker / SLOTS_N].trainers[worker % SLOTS_N];
}

uint64_t trainer_generation(const struct trainer *t)
{
    return term_generation(step_term(&t->step));
}

/* ---- what it says ---- */

static uint8_t phase_of(const struct trainer *t)
{
    switch (step_phase(&t->step)) {
    case STEP_OUT:
        return t->warm ? PHASE_WARM : PHASE_WARMING;
    case STEP_FINISHED:
        return PHASE_FINISHED;
    default:
        return t->caller.left ? PHASE_FINISHED : PHASE_IN;
    }
}

void trainer_report(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct report r;

    if (t->helps) {
        helper_report(w, worker);
        return;
    }
    memset(&r, 0, sizeof(r));
    step_report(&t->step, &r);
    r.slot = worker % SLOTS_N;
    r.incarnation = wid_incarnation(t->self);
    r.phase = phase_of(t);
    if (r.phase == PHASE_FINISHED) {
        check_finish(w, worker);
    }
    r.checkpoint = t->saved;
    r.asks = w->config.helpers_n > 0;
    r.reached = t->reached;
    snprintf(r.addr, sizeof(r.addr), "%u", worker);
    if (!w->config.heal && r.fault != FAULT_UNSAVED) {
        r.fault = FAULT_NONE;
        r.odd = r.agreed = 0;
    }
    if (memcmp(&r, &t->reported, sizeof(r)) != 0) {
        t->reported = r;
        net_to_agent(w, worker, WIRE_REPORT, &r);
    }
}

/* Only in the term that its data plane is in: others would drop it. */
static void mail(struct world *w, uint32_t worker, uint64_t term, enum wire_type type,
                 const void *msg)
{
    const struct trainer *t = trainer_at(w, worker);
    uint8_t bytes[512];
    size_t n;

    mu_assert(wire_encode(type, msg, term, 0, bytes, sizeof(bytes), &n) == MU_OK);
    if (term == t->at) {
        links_send_all(w, worker, FRAME_MAIL, bytes, (uint32_t)n);
    }
}

static void emit(struct step_effects *base, const struct step_effect *e)
{
    struct trainer_effects *fx = (struct trainer_effects *)base;
    struct world *w = fx->w;
    struct trainer *t = trainer_at(w, fx->worker);

    switch (e->kind) {
    case STEP_REPORT:
        trainer_report(w, fx->worker);
        break;
    case STEP_DROP:
        memset(t->gradient_step, 0, sizeof(t->gradient_step));
        break;
    case STEP_COMMIT:
        check_commit(w, fx->worker, e->step, e->settled);
        if (e->settled) {
            calls_settled(t);
        }
        fate_commit(w, fx->worker);
        memcpy(t->result, t->sum, sizeof(t->result));
        break;
    case STEP_SAVED:
    case STEP_UNSAVED:
        save_effect(w, fx->worker, e);
        break;
    case STEP_SEND_READY:
        vouch_ready(w, fx->worker, e);
        mail(w, fx->worker, e->term, WIRE_READY, e->ready);
        break;
    case STEP_SEND_SETTLE:
        vouch_settle(w, fx->worker, e);
        mail(w, fx->worker, e->term, WIRE_SETTLE, e->settle);
        break;
    case STEP_DIVERGED:
        vouch_stop(w, fx->worker, e);
        break;
    }
}

void trainer_step(struct world *w, uint32_t worker, struct step_event *e)
{
    struct trainer_effects fx = {.base.emit = emit, .w = w, .worker = worker};

    e->now_ms = machine_now_ms(w, worker / SLOTS_N);
    step_event(&trainer_at(w, worker)->step, e, &fx.base);
}

/* ---- what it looks at before it goes on ---- */

/* Of links: who can't be reached now; a newcomer is warm once it has loaded its data, and may join
 * when it has reached every member. */
static void look_at_links(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    wid missing[2 * WORKERS_N];
    struct step_event e = {.kind = STEP_ON_LINKS, .u.missing = missing};

    if (t->caller.regroups == w->config.calls &&
        (t->links_changed || t->links_term != step_term(&t->step))) {
        t->links_changed = false;
        t->links_term = step_term(&t->step);
        e.missing_n = links_missing(w, worker, missing);
        trainer_step(w, worker, &e);
    }
    if (t->loaded) {
        t->warm = true;
        t->reached =
            t->known.number != 0 && links_are_there(w, worker, &t->known) ? t->known.number : 0;
        trainer_report(w, worker);
    }
}

static void look_at_news(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_TICK};

    trainer_step(w, worker, &e);
    if (t->told_lease_ms > t->lease_ms) {
        t->lease_ms = t->told_lease_ms;
        e = (struct step_event){.kind = STEP_ON_LEASE, .time_ms = t->lease_ms};
        trainer_step(w, worker, &e);
    }
    if (t->told != NULL) {
        struct membership *m = t->told;

        t->told = NULL;
        e = (struct step_event){.kind = STEP_ON_GENERATION, .u.membership = m};
        trainer_step(w, worker, &e);
        membership_close(m);
        t->links_changed = true;
    }
    if (t->told_active > t->active && step_entered(&t->step) != 0) {
        t->active = t->told_active;
        e = (struct step_event){.kind = STEP_ON_ACTIVE, .generation = t->active};
        trainer_step(w, worker, &e);
    }
    save_news(w, worker);
    look_at_links(w, worker);
}

/* A generation after a loss, or a fresh one: what is done in an older one comes to nothing. */
static bool is_fenced(const struct trainer *t)
{
    return t->told != NULL && t->told->g.kind != GENERATION_BOUNDARY &&
           t->told->g.number > trainer_generation(t);
}

/* ---- hearing ---- */

static bool hear_mail(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct sim_frame *f = links_mail(w, worker), frame;
    struct wire_scratch none = {0};
    struct wire_header h;
    union wire_any msg;
    struct step_event e = {.key = frame.key};

    if (f == NULL) {
        return false;
    }
    frame = *f;
    links_mail_done(w, worker);
    if (wire_frame_decode(frame.bytes, frame.n, &h, &msg, &none, NULL) != MU_OK) {
        world_fail(w, "a frame that was sent does not decode");
        return true;
    }
    if (!step_fence(&t->step, h.generation, frame.key)) {
        return true;
    }
    e.term = h.generation;
    e.kind = h.type == WIRE_READY ? STEP_ON_READY : STEP_ON_SETTLE;
    if (h.type == WIRE_READY) {
        e.u.ready = &msg.ready;
    } else {
        e.u.settle = &msg.settle;
    }
    trainer_step(w, worker, &e);
    return true;
}

/* Somebody has gone to a further round, or a link of the group is lost. */
static bool hear_break(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const struct generation *g = &step_group(&t->step)->g;

    for (uint32_t i = 0; i < g->members_n; i++) {
        const uint32_t peer = links_worker(w, g->members[i].worker);
        struct step_event e = {.kind = STEP_ON_BROKEN, .term = step_term(&t->step)};

        if (g->members[i].worker == t->self) {
            continue;
        }
        if (peer == WORKERS_N || (t->lost >> peer & 1) != 0) {
            e.peer = g->members[i].worker;
        } else if (t->claim[peer] > t->at &&
                   term_generation(t->claim[peer]) == trainer_generation(t)) {
            e.kind = STEP_ON_CLAIM;
            e.term = t->claim[peer];
        } else {
            continue;
        }
        trainer_step(w, worker, &e);
        return true;
    }
    return false;
}

/* ---- what is next ---- */

static void after(struct world *w, uint32_t worker, uint64_t delay_us, enum sim_kind kind)
{
    struct trainer *t = trainer_at(w, worker);

    t->busy = true;
    world_after(w, delay_us, kind, worker, t->life)->a = ++t->op;
}

void trainer_busy(struct world *w, uint32_t worker, uint64_t for_us)
{
    after(w, worker, for_us, SIM_COMPUTED);
}

static void forget(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct sim_event *f;

    if (t->forgetting) {
        return;
    }
    t->forgetting = true;
    check_forget(w, worker);
    f = world_after(w, 30, SIM_FORGET, worker / SLOTS_N, w->machines[worker / SLOTS_N].life);
    f->a = worker % SLOTS_N;
    f->b = t->life;
    f->from = t->self;
}

static void show(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_SHOWN, .step = t->doing.step};

    trainer_step(w, worker, &e);
    after(w, worker, world_between(w, APPLY_MIN_US, APPLY_MAX_US), SIM_APPLIED);
}

static void wake_at(struct world *w, uint32_t worker, uint64_t due_ms)
{
    const uint64_t now_ms = machine_now_ms(w, worker / SLOTS_N);
    struct trainer *t = trainer_at(w, worker);

    if (due_ms != UINT64_MAX) {
        world_after(w, (due_ms > now_ms ? due_ms - now_ms : 1) * US_PER_MS, SIM_OP, worker, t->life)
            ->a = t->op;
    }
}

/* One thing. True: go on at once; false: something has to happen first. */
static bool turn(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    look_at_news(w, worker);
    calls_ask(w, worker);
    step_next(&t->step, &t->doing);
    t->op++;
    switch (t->doing.what) {
    case STEP_FORGET:
        forget(w, worker);
        return false;
    case STEP_WAIT:
        wake_at(w, worker, t->doing.due_ms);
        return false;
    case STEP_SHOW:
        show(w, worker);
        return false;
    case STEP_SAVE:
        save_cut(w, worker);
        return true;
    case STEP_DIGEST:
        after(w, worker, DIGEST_US, SIM_DIGESTED);
        return false;
    case STEP_GIVE:
        after(w, worker, world_between(w, w->fortune.slice_min_us, w->fortune.slice_max_us),
              SIM_COMPUTED);
        return false;
    case STEP_MOVE:
    case STEP_BASE:
    case STEP_STREAM:
    case STEP_REDUCE:
        collect_begin(w, worker);
        if (collect_is_on(t)) {
            wake_at(w, worker, t->doing.due_ms);
        }
        return !collect_is_on(t);
    case STEP_OPEN:
        calls_open(w, worker);
        return false;
    case STEP_HEAR:
    case STEP_STOP:
    case STEP_FINISH:
        if (hear_mail(w, worker) || hear_break(w, worker)) {
            return true;
        }
        wake_at(w, worker, t->doing.due_ms);
        return false;
    }
    return false;
}

bool trainer_listens(const struct trainer *t)
{
    return t->running && !t->plain && !t->helps && !t->busy && t->self != 0;
}

void trainer_drive(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    if (!trainer_listens(t) || t->driving) {
        return;
    }
    t->driving = true;
    if (collect_is_on(t) && (!is_fenced(t) || t->caller.calls)) {
        collect_go_on(w, worker);
    }
    if (!t->busy && (!collect_is_on(t) || is_fenced(t))) {
        for (uint32_t turns = 0; !w->failed && turn(w, worker);) {
            if (++turns > 10000) {
                world_fail(w, "%s goes round and round", trace_worker(w, t->self));
            }
        }
    }
    t->driving = false;
}

/* ---- life ---- */

void trainer_life(struct world *w, uint32_t worker, wid self)
{
    struct trainer *t = trainer_at(w, worker);

    links_drop(w, worker, true);
    step_reset(&t->step, self);
    t->self = self;
    t->warm = t->forgetting = t->busy = false;
    t->op++;
    t->doing.what = STEP_WAIT;
    t->saved = t->reached = 0;
    t->at = 0;
    t->lost = 0;
    membership_close(t->told);
    t->told = NULL;
    t->told_active = t->active = 0;
    t->known.number = 0;
    t->known.members_n = 0;
    memset(&t->reported, 0, sizeof(t->reported));
    memset(t->gradient_step, 0, sizeof(t->gradient_step));
    t->caller = (struct caller){.regroups = w->config.calls};
}

void trainer_start(struct world *w, uint32_t worker, wid self)
{
    struct trainer *t = trainer_at(w, worker);
    const bool calls = w->config.calls;
    const struct step_config config = {
        .self = self,
        .slices_n = calls ? 1 : SLICES_N,
        .members_max = sim_group_max(&w->config),
        .steps_n = calls ? 0 : w->config.steps_n,
        .orphan_ms = calls ? UINT64_MAX : ORPHAN_MS,
        .silence_ms = w->config.silence_ms,
        .digest_every = w->config.digest_every,
        .check_every = w->config.check_every,
        .heals = w->config.heal,
        .calls = calls,
        .save_every = w->config.checkpoint_every,
        .saves = {w->config.checkpoint_every != 0 ? SAVES_ALL : SAVES_NEVER,
                  w->config.keeps ? SAVES_HOST : SAVES_NEVER},
        .folders = {save_folder(w, worker, SAVE_DISK), save_folder(w, worker, SAVE_MEMORY)}};

    step_close(&t->step);
    mu_assert(step_init(&t->step, &config) == MU_OK);
    t->running = true;
    t->helps = helper_is(w, worker / SLOTS_N);
    t->life++;
    t->stopped_until_us = 0;
    t->loaded = false;
    t->roster = (struct msg_roster){0};
    memset(t->copies, 0, sizeof(t->copies));
    t->told_lease_ms = t->lease_ms = 0;
    trainer_life(w, worker, self);
    world_after(w, world_between(w, 20000, 200000), SIM_LOADED_DATA, worker, t->life);
    world_after(w, TICK_US, SIM_WORKER_TICK, worker, t->life);
}

void trainer_kill(struct world *w, uint32_t worker, uint32_t code)
{
    struct trainer *t = trainer_at(w, worker);
    struct machine *node = &w->machines[worker / SLOTS_N];
    struct sim_event *e;

    if (!t->running) {
        return;
    }
    t->running = false;
    t->life++;
    links_drop(w, worker, true);
    e = world_after(w, 300, SIM_EXITED, worker / SLOTS_N, node->life);
    e->a = worker % SLOTS_N;
    e->b = code;
}

/* It says so, and acts no more; its process has something to save, and ends in its own time. */
void trainer_leave(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct machine *node = &w->machines[worker / SLOTS_N];
    struct report r = {.slot = worker % SLOTS_N,
                       .incarnation = wid_incarnation(t->self),
                       .phase = PHASE_EXITED,
                       .step = step_committed(&t->step)};
    struct sim_event *e;

    if (!t->running || t->plain || t->helps || t->wants_attach || !node->alive ||
        phase_of(t) == PHASE_FINISHED || step_phase(&t->step) == STEP_PARKED) {
        return;
    }
    trace(w, trace_worker(w, t->self), "leaves");
    t->left = t->self;
    net_to_agent(w, worker, WIRE_REPORT, &r);
    t->running = false;
    links_drop(w, worker, true);
    e = world_after(w, world_between(w, 1, 2000) * US_PER_MS, SIM_EXITED, worker / SLOTS_N,
                    node->life);
    e->a = worker % SLOTS_N;
}

/* ---- what happens to it ---- */

static void take_generation(struct world *w, uint32_t worker, const struct generation *g)
{
    struct trainer *t = trainer_at(w, worker);

    if (g->number <= t->known.number) {
        return;
    }
    t->known = *g;
    memcpy(t->known_members, g->members, g->members_n * sizeof(struct member));
    t->known.members = t->known_members;
    heal_told(w, worker, g);
    membership_close(t->told);
    mu_assert(membership_open(g, &t->told) == MU_OK);
    links_tick(w, worker);
}

static void on_told(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    struct wire_header h;
    union wire_any msg;

    if (f->from != t->self || !net_decode(w, f, &h, &msg)) {
        return;
    }
    if (h.type == WIRE_GENERATION) {
        take_generation(w, worker, &msg.generation);
    } else if (h.type == WIRE_ACTIVE) {
        t->told_active = MAX(t->told_active, msg.active.generation);
    } else if (h.type == WIRE_LEASE) {
        t->told_lease_ms = MAX(t->told_lease_ms, msg.lease.sent_ms);
    } else if (h.type == WIRE_ROSTER) {
        helper_told(w, worker, &msg.roster);
    }
    if (!collect_is_on(t) || is_fenced(t) || t->caller.calls) {
        trainer_drive(w, worker);
    }
}

static void on_tick(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct msg_beat beat = {.worker = t->self};

    net_to_agent(w, worker, WIRE_BEAT, &beat);
    links_tick(w, worker);
    if (t->loaded && trainer_listens(t)) {
        look_at_links(w, worker);
    }
    world_after(w, TICK_US, SIM_WORKER_TICK, worker, t->life);
}

static void on_computed(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct trainer_effects fx = {.base.emit = emit, .w = w, .worker = worker};
    const uint32_t slice = t->doing.slice;
    const uint64_t step = t->doing.step;
    struct step_todo next;
    bool last;

    if (t->doing.hash) {
        vouch_check(w, worker, slice);
    }
    if (t->doing.alone) {
        return;
    }
    last = step_is_last(&t->step, slice);
    if (step_computed(&t->step, step, slice, term_generation(t->doing.term),
                      machine_now_ms(w, worker / SLOTS_N), &fx.base)) {
        for (uint32_t p = 0; p < PARTS_N; p++) {
            t->gradient[slice][p] = model_leaf(&w->model, t->weights, step, slice, p);
        }
        t->gradient_step[slice] = step;
    }
    step_next(&t->step, &next);
    if (last != (next.what == STEP_REDUCE)) {
        world_fail(w, "%s: slice %u of step %" PRIu64 " was%s to be the last, and was%s",
                   trace_worker(w, t->self), slice, step, last ? "" : " not", last ? " not" : "");
    }
}

static void on_applied(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_APPLIED, .step = t->doing.step};

    for (uint32_t p = 0; p < PARTS_N; p++) {
        t->weights[p] = model_update(t->weights[p], t->result[p]);
    }
    heal_flip(w, worker, e.step);
    if (memcmp(t->weights, w->model.weights[e.step], sizeof(t->weights)) != 0 &&
        !heal_tainted(w, trainer_generation(t))) {
        world_fail(w, "%s: the state after step %" PRIu64 " is not what one process gets",
                   trace_worker(w, t->self), e.step);
    }
    trainer_step(w, worker, &e);
}

/* What it did by itself is done. */
static void on_done(struct world *w, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, f->to);

    if (f->a != t->op) {
        return;
    }
    t->busy = false;
    if (w->config.calls) {
        calls_next(w, f->to);
    } else if (f->kind == SIM_COMPUTED) {
        on_computed(w, f->to);
    } else if (f->kind == SIM_DIGESTED) {
        vouch_digest(w, f->to);
    } else {
        on_applied(w, f->to);
    }
    trainer_drive(w, f->to);
}

/* Its time is up: it looks around. */
static void on_op(struct world *w, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, f->to);

    if (f->a == t->op) {
        if (t->doing.what == STEP_MOVE) {
            t->doing.what = STEP_WAIT;
        } else if (collect_is_on(t)) {
            look_at_links(w, f->to);
        }
        trainer_drive(w, f->to);
    }
}

void trainer_event(struct world *w, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, f->to);

    if (!t->running || f->life != t->life) {
        return;
    }
    if (t->plain) {
        program_event(w, f);
        return;
    }
    if (t->helps) {
        helper_event(w, f);
        return;
    }
    switch (f->kind) {
    case SIM_DATA:
    case SIM_BROKEN:
    case SIM_FLAP:
    case SIM_DIAL:
        links_event(w, f);
        break;
    case SIM_TO_WORKER:
        on_told(w, f->to, f);
        break;
    case SIM_LOADED_DATA:
        t->loaded = true;
        trainer_drive(w, f->to);
        break;
    case SIM_COMPUTED:
    case SIM_DIGESTED:
    case SIM_APPLIED:
        on_done(w, f);
        break;
    case SIM_SAVED:
        save_event(w, f);
        break;
    case SIM_OP:
        on_op(w, f);
        break;
    case SIM_STOP:
        trainer_kill(w, f->to, 0);
        break;
    default:
        on_tick(w, f->to);
        break;
    }
}
