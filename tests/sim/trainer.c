/* A worker: the real core/step over a toy model and a network that promises nothing.
 *
 * Part p of the vector belongs to rank p mod n. Everyone sends the owner its subtrees of that part;
 * the owner adds them in tree order and hands the sum round. */
#include "sim/sim.h"

#include <string.h>

#define TICK_US 50000
#define QUIET_US 120000  /* without a move for this long: say everything again */
#define STUCK_US 400000  /* … and for this long: ask the peers whether they are there */
#define SILENT_US 250000 /* a peer that has not answered by then is suspected */

struct trainer_effects {
    struct step_effects base;
    struct world *w;
    uint32_t worker;
};

struct trainer *trainer_at(struct world *w, uint32_t worker)
{
    return &w->machines[worker / SLOTS_N].trainers[worker % SLOTS_N];
}

static void step_trainer(struct world *w, uint32_t worker, struct step_event *e);

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

static void send_to(struct world *w, uint32_t worker, wid to, const struct group *g,
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

static void send_all(struct world *w, uint32_t worker, const struct group *g, enum wire_type type,
                     const void *msg)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (i != g->me) {
            send_to(w, worker, g->ids[i], g, type, msg);
        }
    }
}

/* ---- the reduce ---- */

static uint32_t owner(const struct trainer *t, uint32_t part)
{
    return part % t->step.group.n;
}

static struct value fold(const struct trainer *t, struct subtree root, uint32_t part)
{
    struct value stack[PLAN_TREE_DEPTH];
    struct plan_tree tree;
    uint32_t n = 0;

    plan_tree_init(&tree, root);
    while (plan_tree_next(&tree, NULL)) {
        if (tree.add) {
            n--;
            stack[n - 1] = model_add(stack[n - 1], stack[n]);
        } else {
            stack[n++] = t->gradient[tree.node.lo][part];
        }
    }
    return stack[0];
}

static void send_parts(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct subtree sub = {0, 0};

    while (plan_next_subtree(&t->step.plan, t->step.group.me, sub.lo + sub.width, &sub)) {
        for (uint32_t p = 0; p < PARTS_N; p++) {
            struct value v = fold(t, sub, p);
            struct msg_part m = {.from = t->self,
                                 .step = t->reduce_step,
                                 .lo = sub.lo,
                                 .width = sub.width,
                                 .offset = p,
                                 .data_n = sizeof(v),
                                 .data = (uint8_t *)&v};

            if (owner(t, p) == t->step.group.me) {
                t->got[sub.lo][p] = v;
                t->got_width[sub.lo][p] = sub.width;
            } else {
                send_to(w, worker, t->step.group.ids[owner(t, p)], &t->step.group, WIRE_PART, &m);
            }
        }
    }
}

static bool part_complete(const struct trainer *t, uint32_t part)
{
    struct subtree sub = {0, 0};

    while (plan_next_subtree_any(&t->step.plan, sub.lo + sub.width, &sub)) {
        if (t->got_width[sub.lo][part] != sub.width) {
            return false;
        }
    }
    return true;
}

static struct value add_parts(const struct trainer *t, uint32_t part)
{
    struct value stack[PLAN_TREE_DEPTH];
    struct plan_tree tree;
    uint32_t n = 0;

    plan_tree_init(&tree, (struct subtree){0, SLICES_N});
    while (plan_tree_next(&tree, &t->step.plan)) {
        if (tree.add) {
            n--;
            stack[n - 1] = model_add(stack[n - 1], stack[n]);
        } else {
            stack[n++] = t->got[tree.node.lo][part];
        }
    }
    return stack[0];
}

static void send_sum(struct world *w, uint32_t worker, uint32_t part)
{
    struct trainer *t = trainer_at(w, worker);
    struct msg_sum m = {.from = t->self,
                        .step = t->reduce_step,
                        .offset = part,
                        .data_n = sizeof(t->sum[part]),
                        .data = (uint8_t *)&t->sum[part]};

    send_all(w, worker, &t->step.group, WIRE_SUM, &m);
}

/* Whatever can be done with what is here. */
static void reduce_on(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {
        .kind = STEP_ON_REDUCED, .generation = t->reduce_generation, .step = t->reduce_step};

    if (!t->step.reducing || t->reduce_generation != t->step.group.number) {
        return;
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        if (owner(t, p) == t->step.group.me && !t->has_sum[p] && part_complete(t, p)) {
            t->sum[p] = add_parts(t, p);
            t->has_sum[p] = true;
            send_sum(w, worker, p);
        }
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        if (!t->has_sum[p]) {
            return;
        }
    }
    step_trainer(w, worker, &e);
}

/* Frames of this step may come before we have begun it ourselves. */
static bool reduce_ready(struct trainer *t, uint64_t generation, uint64_t step)
{
    if (step != t->step.committed + 1 || t->step.holds ||
        (t->step.phase != STEP_COMPUTING && t->step.phase != STEP_HELD)) {
        return false;
    }
    if (t->reduce_generation != generation || t->reduce_step != step) {
        t->reduce_generation = generation;
        t->reduce_step = step;
        memset(t->got_width, 0, sizeof(t->got_width));
        memset(t->has_sum, 0, sizeof(t->has_sum));
    }
    return true;
}

static void on_part(struct world *w, uint32_t worker, uint64_t generation, const struct msg_part *m)
{
    struct trainer *t = trainer_at(w, worker);

    if (m->lo >= SLICES_N || m->offset >= PARTS_N || m->data_n != sizeof(struct value) ||
        !reduce_ready(t, MUTATED(GENERATION_FENCE) ? t->step.group.number : generation, m->step)) {
        return;
    }
    memcpy(&t->got[m->lo][m->offset], m->data, sizeof(struct value));
    t->got_width[m->lo][m->offset] = m->width;
    reduce_on(w, worker);
}

static void on_sum(struct world *w, uint32_t worker, uint64_t generation, const struct msg_sum *m)
{
    struct trainer *t = trainer_at(w, worker);

    if (m->offset >= PARTS_N || m->data_n != sizeof(struct value) ||
        !reduce_ready(t, MUTATED(GENERATION_FENCE) ? t->step.group.number : generation, m->step)) {
        return;
    }
    memcpy(&t->sum[m->offset], m->data, sizeof(struct value));
    t->has_sum[m->offset] = true;
    reduce_on(w, worker);
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

static void report(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct report r = {.slot = worker % SLOTS_N,
                       .incarnation = wid_incarnation(t->self),
                       .phase = phase_of(t),
                       .entered = t->step.entered,
                       .step = t->step.committed,
                       .checkpoint = t->saved,
                       .reached = t->reached};

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
            send_to(w, worker, g->ids[i], g, WIRE_STATE, &m);
        }
    }
}

static void probe(struct world *w, uint32_t worker, wid to)
{
    struct msg_probe m = {.from = trainer_at(w, worker)->self, .nonce = w->now_us};

    send_to(w, worker, to, NULL, WIRE_PROBE, &m);
}

static void link_newcomers(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    if (t->probing_us == 0) {
        t->probing_us = w->now_us;
    }
    for (uint32_t i = 0; i < t->step.next.n; i++) {
        if (!t->step.next.caught_up[i]) {
            probe(w, worker, t->step.next.ids[i]);
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

static void begin_reduce(struct world *w, uint32_t worker, uint64_t step)
{
    struct trainer *t = trainer_at(w, worker);
    struct slices mine;

    plan_slices(&t->step.plan, t->step.group.me, &mine);
    for (uint32_t s = 0; s < SLICES_N; s++) {
        if (slices_has(&mine, s) && t->gradient_step[s] != step) {
            world_fail(w, "%s contributes slice %u of step %" PRIu64 " to step %" PRIu64,
                       trace_worker(w, t->self), s, t->gradient_step[s], step);
        }
    }
    reduce_ready(t, t->step.group.number, step);
    send_parts(w, worker);
    /* The step's own event must end before it hears that the reduce has: by way of the tick. */
    world_after(w, 1, SIM_WORKER_TICK, worker, t->life)->a = 1;
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
        report(w, fx->worker);
        break;
    case STEP_LINK:
        link_newcomers(w, fx->worker);
        break;
    case STEP_BASE:
        f = world_after(w, world_between(w, 1000, 20000), SIM_BASE, fx->worker, t->life);
        f->a = e->step;
        f->b = t->step.group.number;
        break;
    case STEP_COMPUTE:
        compute(w, fx->worker, e);
        break;
    case STEP_REDUCE:
        begin_reduce(w, fx->worker, e->step);
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
        send_all(w, fx->worker, e->group, WIRE_READY, e->ready);
        break;
    case STEP_SEND_SETTLE:
        send_all(w, fx->worker, e->group, WIRE_SETTLE, e->settle);
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

static void step_trainer(struct world *w, uint32_t worker, struct step_event *e)
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
    step_trainer(w, worker, &e);
}

static void on_state(struct world *w, uint32_t worker, uint64_t generation,
                     const struct msg_state *m)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_LOADED, .generation = generation, .step = m->step};

    if (t->step.phase == STEP_LOADING && m->data_n == sizeof(t->weights)) {
        memcpy(t->weights, m->data, sizeof(t->weights));
        step_trainer(w, worker, &e);
    }
}

static void on_probe(struct world *w, uint32_t worker, const struct msg_probe *m)
{
    struct trainer *t = trainer_at(w, worker);

    if (m->answer != 0) {
        for (uint32_t i = 0; i < WORKERS_N; i++) {
            if (trainer_at(w, i)->self == m->from) {
                t->heard_id[i] = m->from;
                t->heard_us[i] = m->nonce;
            }
        }
        return;
    }
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        struct msg_probe answer = {.from = t->self, .nonce = m->nonce, .answer = 1};
        char addr[ADDR_MAX_LEN];

        if (trainer_at(w, i)->self == m->from) {
            snprintf(addr, sizeof(addr), "%u", i);
            net_data(w, worker, m->from, addr, NULL, WIRE_PROBE, &answer);
        }
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
            on_probe(w, worker, &msg.probe);
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
        step_trainer(w, worker, &e);
        break;
    case WIRE_SETTLE:
        e.kind = STEP_ON_SETTLE;
        e.u.settle = &msg.settle;
        step_trainer(w, worker, &e);
        break;
    case WIRE_PART:
        on_part(w, worker, h.generation, &msg.part);
        break;
    case WIRE_SUM:
        on_sum(w, worker, h.generation, &msg.sum);
        break;
    case WIRE_STATE:
        on_state(w, worker, h.generation, &msg.state);
        break;
    default:
        break;
    }
}

/* ---- time ---- */

static bool heard_since(struct world *w, const struct trainer *t, wid id, uint64_t since_us)
{
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        if (trainer_at(w, i)->self == id && t->heard_id[i] == id && t->heard_us[i] >= since_us) {
            return true;
        }
    }
    return false;
}

/* Warm once the data is loaded. To join, it must also have reached every member there is. */
static void warm_up(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    bool reached = true, changed = false;

    if (!t->loaded || t->step.phase != STEP_OUT) {
        return;
    }
    if (t->probing_us == 0) {
        t->probing_us = w->now_us;
    }
    for (uint32_t i = 0; i < t->known.members_n && t->reached < t->known.number; i++) {
        wid id = t->known_members[i].worker;

        if (id != t->self && !heard_since(w, t, id, t->probing_us)) {
            probe(w, worker, id);
            reached = false;
        }
    }
    changed = !t->warm || (reached && t->reached < t->known.number);
    t->warm = true;
    t->reached = reached ? t->known.number : t->reached;
    if (changed) {
        report(w, worker);
    }
}

static void try_link(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const struct group *next = &t->step.next;
    struct step_event e = {.kind = STEP_ON_LINKED, .generation = next->number};

    if (next->number == 0 || t->step.linked || t->probing_us == 0) {
        return;
    }
    for (uint32_t i = 0; i < next->n; i++) {
        if (!next->caught_up[i] && !heard_since(w, t, next->ids[i], t->probing_us)) {
            return;
        }
    }
    step_trainer(w, worker, &e);
}

static void ask_peers(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    t->stuck_us = w->now_us;
    for (uint32_t i = 0; i < t->step.group.n; i++) {
        if (i != t->step.group.me) {
            probe(w, worker, t->step.group.ids[i]);
        }
    }
}

static void suspect_silent(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const struct group *g = &t->step.group;
    bool all_answer = true;

    for (uint32_t i = 0; i < g->n; i++) {
        if (i != g->me && !heard_since(w, t, g->ids[i], t->stuck_us)) {
            struct msg_suspect m = {.by = t->self, .peer = g->ids[i], .generation = g->number};

            net_to_agent(w, worker, WIRE_SUSPECT, &m);
            probe(w, worker, g->ids[i]);
            all_answer = false;
        }
    }
    if (all_answer) {
        ask_peers(w, worker); /* The next round: somebody may have gone silent since. */
    }
}

/* Nothing moves: say everything again, then ask who is still there, then name who is not. */
static void unstick(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_RESEND};

    if (w->now_us - t->moved_us < QUIET_US || t->step.phase == STEP_OUT) {
        t->stuck_us = 0;
        return;
    }
    step_trainer(w, worker, &e);
    if (t->step.reducing) {
        send_parts(w, worker);
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        if ((t->step.reducing || t->step.holds) && t->has_sum[p] && t->step.group.n > 0 &&
            t->step.phase != STEP_PARKED && t->reduce_generation == t->step.group.number &&
            owner(t, p) == t->step.group.me) {
            send_sum(w, worker, p);
        }
    }
    if (!step_waits(&t->step) || w->now_us - t->moved_us < STUCK_US) {
        return;
    }
    if (t->stuck_us == 0) {
        ask_peers(w, worker);
    } else if (w->now_us - t->stuck_us > SILENT_US) {
        suspect_silent(w, worker);
    }
}

static void on_tick(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_TICK};
    struct msg_beat beat = {.worker = t->self};

    net_to_agent(w, worker, WIRE_BEAT, &beat);
    step_trainer(w, worker, &e);
    warm_up(w, worker);
    try_link(w, worker);
    unstick(w, worker);
    world_after(w, TICK_US, SIM_WORKER_TICK, worker, t->life);
}

static void on_computed(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_COMPUTED, .step = f->a, .slice = (uint32_t)f->b};

    if (f->from != t->self || f->a != t->step.committed + 1 || !t->step.applied) {
        return;
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        t->gradient[e.slice][p] = model_leaf(&w->model, t->weights, e.step, e.slice, p);
    }
    t->gradient_step[e.slice] = e.step;
    t->moved_us = w->now_us;
    step_trainer(w, worker, &e);
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
    if (memcmp(t->weights, w->model.weights[e.step], sizeof(t->weights)) != 0) {
        world_fail(w, "%s: the state after step %" PRIu64 " is not what one process gets",
                   trace_worker(w, t->self), e.step);
    }
    if (w->config.checkpoint_every != 0 && e.step % w->config.checkpoint_every == 0 &&
        t->step.group.me == 0) {
        t->saved = e.step;
        report(w, worker);
    }
    step_trainer(w, worker, &e);
}

static void on_base(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_LOADED, .generation = f->b, .step = f->a};

    if (t->step.phase == STEP_LOADING && t->step.group.number == f->b) {
        memcpy(t->weights, w->model.weights[f->a], sizeof(t->weights));
        step_trainer(w, worker, &e);
    }
}

void trainer_event(struct world *w, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, f->to);

    if (!t->running || f->life != t->life) {
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
        warm_up(w, f->to);
        break;
    case SIM_BASE:
        on_base(w, f->to, f);
        break;
    case SIM_COMPUTED:
        on_computed(w, f->to, f);
        break;
    case SIM_APPLIED:
        on_applied(w, f->to, f);
        break;
    case SIM_STOP:
        trainer_kill(w, f->to, 0);
        break;
    default:
        if (f->a == 1) {
            reduce_on(w, f->to);
        } else {
            on_tick(w, f->to);
        }
        break;
    }
}
