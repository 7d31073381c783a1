/* A worker: the real core/step over a toy model. This file is its life and what it hears; reduce.c
 * moves the gradients, peers.c knows who is there. */
#include "sim/trainer.h"

#include <string.h>

#define TICK_US 50000

struct trainer_effects {
    struct step_effects base;
    struct world *w;
    uint32_t worker;
};

struct trainer *trainer_at(struct world *w, uint32_t worker)
{
    return &w->machines[worker / SLOTS_N].trainers[worker % SLOTS_N];
}

/* ---- addresses: a worker's is its index ---- */

static const char *addr_of(const struct trainer *t, wid id)
{
    for (uint32_t i = 0; i < t->known.members_n; i++) {
        if (t->known_members[i].worker == id) {
            return t->known_members[i].addr;
        }
    }
    return NULL;
}

void trainer_send(struct world *w, uint32_t worker, wid to, const struct group *g,
                  enum wire_type type, const void *msg)
{
    const struct trainer *t = trainer_at(w, worker);
    char addr[ADDR_MAX_LEN];

    if (addr_of(t, to) != NULL) {
        net_data(w, worker, to, addr_of(t, to), g, type, msg);
        return;
    }
    /* It is in an older generation than the newest we know of. */
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        if (trainer_at(w, i)->self == to) {
            snprintf(addr, sizeof(addr), "%u", i);
            net_data(w, worker, to, addr, g, type, msg);
            return;
        }
    }
}

void trainer_send_all(struct world *w, uint32_t worker, const struct group *g, enum wire_type type,
                      const void *msg)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (i != g->me) {
            trainer_send(w, worker, g->ids[i], g, type, msg);
        }
    }
}

/* ---- effects of the step ---- */

static uint8_t phase_of(const struct trainer *t)
{
    switch (t->step.phase) {
    case STEP_OUT:
        return t->warm ? PHASE_WARM : PHASE_WARMING;
    case STEP_FINISHED:
        return PHASE_FINISHED;
    default:
        return PHASE_IN;
    }
}

void trainer_report(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct report r = {.slot = worker % SLOTS_N,
                       .incarnation = wid_incarnation(t->self),
                       .phase = phase_of(t),
                       .entered = t->step.entered,
                       .step = t->step.committed,
                       .checkpoint = t->saved,
                       .reached = t->reached};

    if (w->config.heal) {
        r.fault = t->step.diverged ? t->fault : FAULT_NONE;
        r.odd = t->odd;
        r.agreed = t->step.agreed;
    }
    snprintf(r.addr, sizeof(r.addr), "%u", worker);
    net_to_agent(w, worker, WIRE_REPORT, &r);
}

static void stream(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const struct group *g = &t->step.group;
    struct msg_state m = {.from = t->self,
                          .step = t->step.committed,
                          .total = sizeof(t->weights),
                          .data_n = sizeof(t->weights),
                          .data = (uint8_t *)t->weights};

    for (uint32_t i = 0; i < g->n; i++) {
        if (!g->caught_up[i] && i != g->me) {
            trainer_send(w, worker, g->ids[i], g, WIRE_STATE, &m);
        }
    }
}

static void compute(struct world *w, uint32_t worker, const struct step_effect *e)
{
    uint64_t delay_us = 0;

    for (uint32_t s = 0; s < SLICES_N; s++) {
        if (slices_has(e->slices, s)) {
            struct sim_event *f;

            delay_us += world_between(w, w->fortune.slice_min_us, w->fortune.slice_max_us);
            f = world_after(w, delay_us, SIM_COMPUTED, worker, trainer_at(w, worker)->life);
            f->a = e->step;
            f->b = s;
            f->from = trainer_at(w, worker)->self;
        }
    }
}

static void emit(struct step_effects *base, const struct step_effect *e)
{
    struct trainer_effects *fx = (struct trainer_effects *)base;
    struct world *w = fx->w;
    struct trainer *t = trainer_at(w, fx->worker);
    struct sim_event *f;

    t->moved_us = e->kind == STEP_SEND_READY || e->kind == STEP_SEND_SETTLE ||
                          e->kind == STEP_STREAM || e->kind == STEP_LINK
                      ? t->moved_us
                      : w->now_us;
    switch (e->kind) {
    case STEP_REPORT:
        trainer_report(w, fx->worker);
        break;
    case STEP_LINK:
        peers_link(w, fx->worker);
        break;
    case STEP_BASE:
        f = world_after(w, world_between(w, 1000, 20000), SIM_BASE, fx->worker, t->life);
        f->a = e->step;
        f->b = t->step.group.number;
        break;
    case STEP_COMPUTE:
        compute(w, fx->worker, e);
        break;
    case STEP_CHECK:
    case STEP_DIGEST:
        vouch_ask(w, fx->worker, e);
        break;
    case STEP_DIVERGED:
        vouch_stop(w, fx->worker, e);
        break;
    case STEP_REDUCE:
        reduce_begin(w, fx->worker, e->step);
        break;
    case STEP_CANCEL:
        t->reduce_generation = 0;
        break;
    case STEP_COMMIT:
        check_commit(w, fx->worker, e->step, t->step.phase == STEP_SETTLING);
        memcpy(t->result, t->sum, sizeof(t->result));
        f = world_after(w, world_between(w, 50, 3000), SIM_APPLIED, fx->worker, t->life);
        f->a = e->step;
        f->from = t->self;
        break;
    case STEP_STREAM:
        stream(w, fx->worker);
        break;
    case STEP_SEND_READY:
        vouch_ready(w, fx->worker, e);
        trainer_send_all(w, fx->worker, e->group, WIRE_READY, e->ready);
        break;
    case STEP_SEND_SETTLE:
        vouch_settle(w, fx->worker, e);
        trainer_send_all(w, fx->worker, e->group, WIRE_SETTLE, e->settle);
        break;
    case STEP_FORGET:
        check_forget(w, fx->worker);
        f = world_after(w, 30, SIM_FORGET, fx->worker / SLOTS_N,
                        w->machines[fx->worker / SLOTS_N].life);
        f->a = fx->worker % SLOTS_N;
        f->b = t->life;
        f->from = t->self;
        break;
    }
}

void trainer_step(struct world *w, uint32_t worker, struct step_event *e)
{
    struct trainer_effects fx = {.base.emit = emit, .w = w, .worker = worker};

    e->now_ms = machine_now_ms(w, worker / SLOTS_N);
    step_event(&trainer_at(w, worker)->step, e, &fx.base);
}

/* ---- life ---- */

void trainer_life(struct world *w, uint32_t worker, wid self)
{
    struct trainer *t = trainer_at(w, worker);

    step_reset(&t->step, self);
    t->self = self;
    t->step.config.steps_n = w->config.steps_n;
    t->step.config.orphan_ms = 3000;
    t->step.config.digest_every = w->config.digest_every;
    t->step.config.check_every = w->config.check_every;
    t->step.config.heals = w->config.heal;
    t->step.config.save_every = w->config.checkpoint_every;
    t->warm = false;
    t->probing_us = t->stuck_us = 0;
    t->reduce_generation = t->reduce_step = 0;
    t->saved = t->reached = 0;
    t->known.number = 0;
    t->known.members_n = 0;
    memset(t->gradient_step, 0, sizeof(t->gradient_step));
    t->moved_us = w->now_us;
}

void trainer_start(struct world *w, uint32_t worker, wid self)
{
    struct trainer *t = trainer_at(w, worker);

    t->running = true;
    t->life++;
    t->stopped_until_us = 0;
    t->loaded = false;
    t->step.now_ms = t->step.lease_ms = 0;
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
    e = world_after(w, 300, SIM_EXITED, worker / SLOTS_N, node->life);
    e->a = worker % SLOTS_N;
    e->b = code;
}

/* ---- what it hears ---- */

static void on_told(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {0};
    struct wire_header h;
    union wire_any msg;

    if (f->from != t->self || !net_decode(w, f, &h, &msg)) {
        return;
    }
    if (h.type == WIRE_GENERATION) {
        if (msg.generation.number > t->known.number) {
            t->known = msg.generation;
            memcpy(t->known_members, msg.generation.members,
                   msg.generation.members_n * sizeof(struct member));
            t->probing_us = 0;
            heal_told(w, worker, &msg.generation);
        }
        e.kind = STEP_ON_GENERATION;
        e.u.generation = &msg.generation;
    } else if (h.type == WIRE_ACTIVE) {
        e.kind = STEP_ON_ACTIVE;
        e.generation = msg.active.generation;
    } else {
        e.kind = STEP_ON_LEASE;
        e.time_ms = msg.lease.sent_ms;
    }
    trainer_step(w, worker, &e);
}

static void on_state(struct world *w, uint32_t worker, uint64_t generation,
                     const struct msg_state *m)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_LOADED, .generation = generation, .step = m->step};

    if (t->step.phase == STEP_LOADING && m->data_n == sizeof(t->weights)) {
        memcpy(t->weights, m->data, sizeof(t->weights));
        trainer_step(w, worker, &e);
    }
}

static void on_data(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.key = f->key};
    struct wire_header h;
    union wire_any msg;

    if (!net_decode(w, f, &h, &msg)) {
        return;
    }
    if (h.type == WIRE_PROBE) {
        if (f->from == t->self) {
            peers_answer(w, worker, &msg.probe);
        }
        return;
    }
    if (!step_fence(&t->step, h.generation, f->key)) {
        return;
    }
    e.generation = h.generation;
    switch (h.type) {
    case WIRE_READY:
        e.kind = STEP_ON_READY;
        e.u.ready = &msg.ready;
        trainer_step(w, worker, &e);
        break;
    case WIRE_SETTLE:
        e.kind = STEP_ON_SETTLE;
        e.u.settle = &msg.settle;
        trainer_step(w, worker, &e);
        break;
    case WIRE_PART:
        reduce_part(w, worker, h.generation, &msg.part);
        break;
    case WIRE_SUM:
        reduce_sum(w, worker, h.generation, &msg.sum);
        break;
    case WIRE_STATE:
        on_state(w, worker, h.generation, &msg.state);
        break;
    default:
        break;
    }
}

static void on_tick(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_TICK};
    struct msg_beat beat = {.worker = t->self};

    net_to_agent(w, worker, WIRE_BEAT, &beat);
    trainer_step(w, worker, &e);
    peers_tick(w, worker);
    world_after(w, TICK_US, SIM_WORKER_TICK, worker, t->life);
}

static void on_computed(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_COMPUTED, .step = f->a, .slice = (uint32_t)f->b};
    bool last, reducing;

    if (f->from != t->self || f->a != t->step.committed + 1 || !t->step.applied) {
        return;
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        t->gradient[e.slice][p] = model_leaf(&w->model, t->weights, e.step, e.slice, p);
    }
    t->gradient_step[e.slice] = e.step;
    t->moved_us = w->now_us;
    last = step_is_last(&t->step, e.slice);
    reducing = t->step.reducing;
    trainer_step(w, worker, &e);
    if (last != (t->step.reducing && !reducing)) {
        world_fail(w, "%s: slice %u of step %" PRIu64 " was%s to be the last, and was%s",
                   trace_worker(w, t->self), e.slice, e.step, last ? "" : " not",
                   last ? " not" : "");
    }
}

static void on_applied(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_APPLIED, .step = f->a};

    if (f->from != t->self || f->a != t->step.committed || t->step.applied) {
        return;
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        t->weights[p] = model_update(t->weights[p], t->result[p]);
    }
    heal_flip(w, worker, e.step);
    if (memcmp(t->weights, w->model.weights[e.step], sizeof(t->weights)) != 0 &&
        !heal_tainted(w, t->step.group.number)) {
        world_fail(w, "%s: the state after step %" PRIu64 " is not what one process gets",
                   trace_worker(w, t->self), e.step);
    }
    if (w->config.checkpoint_every != 0 && e.step % w->config.checkpoint_every == 0 &&
        t->step.group.me == 0) {
        t->saved = e.step;
        heal_save(w, worker, e.step);
        trainer_report(w, worker);
    }
    trainer_step(w, worker, &e);
}

static void on_base(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_LOADED, .generation = f->b, .step = f->a};

    if (t->step.phase == STEP_LOADING && t->step.group.number == f->b) {
        e.step = heal_load(w, worker, f->b, f->a);
        trainer_step(w, worker, &e);
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
    switch (f->kind) {
    case SIM_DATA:
        on_data(w, f->to, f);
        break;
    case SIM_TO_WORKER:
        on_told(w, f->to, f);
        break;
    case SIM_LOADED_DATA:
        t->loaded = true;
        peers_tick(w, f->to);
        break;
    case SIM_BASE:
        on_base(w, f->to, f);
        break;
    case SIM_COMPUTED:
        on_computed(w, f->to, f);
        break;
    case SIM_CHECKED:
    case SIM_DIGESTED:
        vouch_event(w, f->to, f);
        break;
    case SIM_APPLIED:
        on_applied(w, f->to, f);
        break;
    case SIM_STOP:
        trainer_kill(w, f->to, 0);
        break;
    default:
        if (f->a == 1) {
            reduce_go_on(w, f->to);
        } else {
            on_tick(w, f->to);
        }
        break;
    }
}
