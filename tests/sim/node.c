/* A machine: an agent, its connection, and the processes below it. */
#include "sim/sim.h"
#include "sim/trainer.h"

#include <string.h>

#define CONNECT_MIN_US 300
#define BACKOFF_US 50000

struct node_effects {
    struct agent_effects base;
    struct world *w;
    uint32_t m;
};

uint64_t machine_now_ms(const struct world *w, uint32_t m)
{
    return (w->now_us + w->machines[m].skew_us) / US_PER_MS;
}

/* In every other seed of auto mode scripts take their time to show that they are ours. */
static uint64_t attach_delay_us(const struct world *w, uint32_t worker)
{
    const struct trainer *t = trainer_at((struct world *)(uintptr_t)w, worker);

    if (w->quiet || prng_mix(w->seed) % 2 == 0) {
        return 0;
    }
    return prng_mix(w->seed ^ worker << 8 ^ t->life) % (1500 * US_PER_MS);
}

/* Those that load libmuster at once say so long before they join; the others when they do. */
static void plan_attach(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const uint64_t delay_us = attach_delay_us(w, worker);

    t->wants_attach = w->config.mode == MODE_AUTO;
    t->attach_us = w->now_us + delay_us;
    t->wants_ours = t->wants_attach && prng_mix(w->seed ^ ~(uint64_t)worker) % 4 != 0;
    t->ours_us = w->now_us + delay_us / 16;
    t->ours = false;
}

/* Nobody is stopped for a change that it can live through; nor for one that can wait, before it has
 * had its time to show what it is. */
static void check_stop(struct world *w, uint32_t m, uint32_t slot)
{
    const struct agent *a = &w->machines[m].agent;
    const struct trainer *t = &w->machines[m].trainers[slot];

    if (a->mode != MODE_AUTO || a->draining || a->over || !t->running) {
        return;
    }
    if (!w->config.plain && (t->ours || a->slots[slot].attached)) {
        world_fail(w, "%s is one of ours, and is restarted", trace_worker(w, t->self));
    } else if (w->config.plain && check_grows(w, t->in, a->held.number) &&
               a->now_ms < a->slots[slot].started_ms + SILENT_MS) {
        world_fail(w, "%s is restarted for generation %" PRIu64 ", which could have waited",
                   trace_worker(w, t->self), a->held.number);
    }
}

static void emit(struct agent_effects *base, const struct agent_effect *e)
{
    struct node_effects *fx = (struct node_effects *)base;
    struct world *w = fx->w;
    struct machine *node = &w->machines[fx->m];
    uint32_t worker = fx->m * SLOTS_N + e->slot;

    switch (e->kind) {
    case AGENT_CONNECT:
        world_after(w, CONNECT_MIN_US, SIM_CONNECT, fx->m, node->life);
        break;
    case AGENT_HELLO:
        net_up(w, fx->m, WIRE_HELLO, e->u.hello);
        break;
    case AGENT_RENEW:
        net_up(w, fx->m, WIRE_RENEW, e->u.renew);
        break;
    case AGENT_REPORTS:
        net_up(w, fx->m, WIRE_REPORTS, e->u.reports);
        break;
    case AGENT_BYE:
        net_up(w, fx->m, WIRE_BYE, e->u.bye);
        break;
    case AGENT_START:
        if (w->config.plain) {
            program_start(w, worker, e->worker, e->u.generation);
        } else {
            trainer_start(w, worker, e->worker);
            plan_attach(w, worker);
        }
        break;
    case AGENT_LIFE:
        trainer_life(w, worker, e->worker);
        break;
    case AGENT_ADDR:
        node->trainers[e->slot].wants_addr = true;
        break;
    case AGENT_STOP:
    case AGENT_KILL:
        if (e->kind == AGENT_STOP) {
            check_stop(w, fx->m, e->slot);
        }
        if (node->trainers[e->slot].helps) {
            node->trainers[e->slot].stopped_until_us = 0; /* Even one that is stopped ends. */
        }
        world_after(w, 5000, SIM_STOP, worker, node->trainers[e->slot].life);
        break;
    case AGENT_TELL_GENERATION:
        if (w->config.plain) {
            program_hears(w, worker, e->u.generation);
        }
        net_to_worker(w, worker, WIRE_GENERATION, e->u.generation);
        break;
    case AGENT_TELL_ACTIVE:
        net_to_worker(w, worker, WIRE_ACTIVE, e->u.active);
        break;
    case AGENT_TELL_ROSTER:
        net_to_worker(w, worker, WIRE_ROSTER, e->u.roster);
        break;
    case AGENT_TELL_LEASE:
        net_to_worker(w, worker, WIRE_LEASE, e->u.lease);
        break;
    case AGENT_TELL_ENDED:
        net_to_worker(w, worker, WIRE_ENDED, e->u.ended);
        break;
    case AGENT_DONE:
        node->leaves = true;
        node->exit_code = e->code;
        again_done(w, fx->m);
        break;
    }
}

static void step_agent(struct world *w, uint32_t m, struct agent_event *e)
{
    struct machine *node = &w->machines[m];
    struct node_effects fx = {.base.emit = emit, .w = w, .m = m};

    e->now_ms = machine_now_ms(w, m);
    agent_event(&node->agent, e, &fx.base);
    for (uint32_t s = 0; s < node->slots; s++) {
        struct agent_event next = {.now_ms = e->now_ms, .slot = s};
        struct report r;

        if (node->trainers[s].wants_addr) {
            program_addr(w, m * SLOTS_N + s, &r);
            next.kind = AGENT_ON_ADDR;
            next.u.report = &r;
            agent_event(&node->agent, &next, &fx.base);
        }
        if (node->trainers[s].wants_ours && node->trainers[s].running &&
            w->now_us >= node->trainers[s].ours_us) {
            node->trainers[s].wants_ours = false;
            node->trainers[s].ours = node->agent.slots[s].state == SLOT_RUNNING;
            next.kind = AGENT_ON_LOADED;
            agent_event(&node->agent, &next, &fx.base);
        }
        if (node->trainers[s].wants_attach && node->trainers[s].running &&
            w->now_us >= node->trainers[s].attach_us) {
            node->trainers[s].wants_attach = false;
            next.kind = AGENT_ON_ATTACHED;
            agent_event(&node->agent, &next, &fx.base);
            memset(&node->trainers[s].reported, 0, sizeof(struct report));
            trainer_report(w, m * SLOTS_N + s);
        }
    }
    if (node->agent.mode != MODE_AUTO) {
        node->known_run = node->agent.run;
    } else if (node->known_run != 0 && node->known_run == node->agent.run) {
        world_fail(w, "the agent of %s does not know the mode any more", node->name);
    }
    if (node->leaves && node->alive) {
        trace(w, node->name, "leaves, exit code %d", node->exit_code);
        machine_crash(w, m);
    }
}

static void agent_tick(struct world *w, uint32_t m)
{
    const struct machine *node = &w->machines[m];
    uint64_t at_ms = agent_deadline(&node->agent);
    uint64_t now_ms = machine_now_ms(w, m);

    world_after(w, (at_ms > now_ms ? at_ms - now_ms : 1) * US_PER_MS, SIM_AGENT_TICK, m,
                node->life);
}

static void on_connect(struct world *w, uint32_t m)
{
    struct machine *node = &w->machines[m];
    struct agent_event e = {.kind = AGENT_ON_CONNECTED};

    if (node->conn != 0) {
        return;
    }
    if (!w->orch.alive || w->cut_up[m] || w->cut_down[m] ||
        w->orch.conns_n + 1 >= ARRAY_LEN(w->orch.conn_node)) {
        uint64_t shift = MIN(node->conn_tries++, 4);

        world_after(w, BACKOFF_US << shift, SIM_CONNECT, m, node->life);
        return;
    }
    node->conn_tries = 0;
    node->conn = ++w->orch.conns_n;
    w->orch.conn_node[node->conn] = m + 1;
    step_agent(w, m, &e);
}

static void on_conn_lost(struct world *w, uint32_t m, uint32_t conn)
{
    struct agent_event e = {.kind = AGENT_ON_CLOSED};

    if (conn == w->machines[m].conn && conn != 0) {
        w->machines[m].conn = 0;
        step_agent(w, m, &e);
    }
}

/* Both ends see it, each in its time; what was on the way is lost. */
void machine_reset_conn(struct world *w, uint32_t m)
{
    struct machine *node = &w->machines[m];

    if (node->conn == 0) {
        return;
    }
    if (w->orch.alive && !w->cut_up[m]) {
        world_after(w, world_between(w, 50, 500), SIM_CLOSED_UP, m, w->orch.life)->conn =
            node->conn;
    }
    world_after(w, world_between(w, 50, 500), SIM_CLOSED_DOWN, m, node->life)->conn = node->conn;
}

void machine_start(struct world *w, uint32_t m)
{
    struct machine *node = &w->machines[m];
    struct agent_config config = {.renew_ms = 250,
                                  .members_max = WORKERS_N,
                                  .exit_timeout_ms = 10000,
                                  .hung_ms = 1, /* as soon as may be */
                                  .silent_ms = SILENT_MS,
                                  .hello = {.job = "job",
                                            .incarnation = prng_u64(&w->prng) | 1,
                                            .host = 1 + m / 2,
                                            .min = w->config.min,
                                            .max = w->config.max,
                                            .slots = w->config.slots,
                                            .role = helper_is(w, m) ? ROLE_PS : ROLE_WORKER,
                                            .mode = w->config.mode,
                                            .flags = w->config.heal ? NODE_HEAL : 0,
                                            .max_restarts = 100}};

    if (node->alive) {
        return;
    }
    strcpy(config.hello.name, node->name);
    if (!w->quiet) {
        config.early_ms = (uint32_t)(prng_mix(config.hello.incarnation) % config.renew_ms);
    }
    agent_close(&node->agent);
    mu_assert(agent_init(&node->agent, &config) == MU_OK);
    node->alive = true;
    node->leaves = false;
    node->life++;
    node->conn = 0;
    node->stopped_until_us = 0;
    node->slots = w->config.slots;
    node->known_run = 0;
    for (uint32_t s = 0; s < node->slots; s++) {
        node->trainers[s].wants_addr = w->config.mode != MODE_INPROCESS;
        node->trainers[s].left = 0;
    }
    trace(w, node->name, "starts");
    world_after(w, 100, SIM_CONNECT, m, node->life);
    agent_tick(w, m);
}

void machine_crash(struct world *w, uint32_t m)
{
    struct machine *node = &w->machines[m];

    if (!node->alive) {
        return;
    }
    if (!node->leaves) {
        trace(w, node->name, "the machine dies");
    }
    if (node->conn != 0 && w->orch.alive && !w->cut_up[m]) {
        uint64_t after_us =
            MAX(node->up_us, w->now_us) - w->now_us + 50; /* behind the last frame */

        world_after(w, after_us, SIM_CLOSED_UP, m, w->orch.life)->conn = node->conn;
    }
    node->alive = false;
    node->life++;
    node->conn = 0;
    for (uint32_t s = 0; s < SLOTS_N; s++) {
        node->trainers[s].running = false;
        node->trainers[s].life++;
        links_drop(w, m * SLOTS_N + s, node->leaves);
    }
}

void machine_drain(struct world *w, uint32_t m)
{
    struct agent_event e = {.kind = AGENT_ON_DRAIN};

    if (w->machines[m].alive && w->machines[m].stopped_until_us <= w->now_us) {
        trace(w, w->machines[m].name, "is asked to leave");
        step_agent(w, m, &e);
    }
}

static void on_down(struct world *w, uint32_t m, struct sim_event *f)
{
    struct agent_event e = {0};
    struct wire_header h;
    union wire_any msg;

    if (f->conn != w->machines[m].conn || !net_decode(w, f, &h, &msg)) {
        return;
    }
    switch (h.type) {
    case WIRE_WELCOME:
        e.kind = AGENT_ON_WELCOME;
        e.u.welcome = &msg.welcome;
        break;
    case WIRE_REFUSED:
        e.kind = AGENT_ON_REFUSED;
        e.u.refused = &msg.refused;
        break;
    case WIRE_ACK:
        e.kind = AGENT_ON_ACK;
        e.u.ack = &msg.ack;
        if ((msg.ack.flags & NODE_ENDING) != 0) {
            again_saw(w, m);
        }
        break;
    case WIRE_GENERATION:
        e.kind = AGENT_ON_GENERATION;
        e.u.generation = &msg.generation;
        break;
    case WIRE_ACTIVE:
        e.kind = AGENT_ON_ACTIVE;
        e.u.active = &msg.active;
        break;
    case WIRE_ROSTER:
        e.kind = AGENT_ON_ROSTER;
        e.u.roster = &msg.roster;
        break;
    default:
        e.kind = AGENT_ON_ENDED;
        e.u.ended = &msg.ended;
        if (w->machines[m].agent.node != 0) { /* Otherwise it is told that it is late. */
            again_saw(w, m);
        }
        break;
    }
    step_agent(w, m, &e);
}

/* Words of an earlier life of the worker or its process are void. */
static void on_worker(struct world *w, uint32_t m, struct sim_event *f)
{
    uint32_t worker = (uint32_t)f->a;
    const struct trainer *t = trainer_at(w, worker);
    struct agent_event e = {.slot = worker % SLOTS_N};
    struct wire_header h;
    union wire_any msg;

    if (f->b != t->life || f->from != t->self || t->wants_attach || !net_decode(w, f, &h, &msg)) {
        return;
    }
    if (h.type == WIRE_REPORT) {
        e.kind = AGENT_ON_REPORT;
        e.u.report = &msg.report;
        if (msg.report.phase == PHASE_FINISHED) {
            again_saw(w, m);
        }
    } else {
        e.kind = AGENT_ON_BEAT;
    }
    step_agent(w, m, &e);
}

void machine_event(struct world *w, struct sim_event *f)
{
    struct machine *node = &w->machines[f->to];
    struct agent_event e = {0};

    if (!node->alive || f->life != node->life) {
        return;
    }
    switch (f->kind) {
    case SIM_DOWN:
        on_down(w, f->to, f);
        break;
    case SIM_TO_AGENT:
        on_worker(w, f->to, f);
        break;
    case SIM_FORGET:
        if (f->b == node->trainers[f->a].life && f->from == node->trainers[f->a].self) {
            e.kind = AGENT_ON_FORGET;
            e.slot = (uint32_t)f->a;
            step_agent(w, f->to, &e);
        }
        break;
    case SIM_EXITED:
        e.kind = AGENT_ON_EXIT;
        e.slot = (uint32_t)f->a;
        e.code = (uint32_t)f->b;
        if (w->config.plain && e.code == 0) {
            again_saw(w, f->to);
        }
        step_agent(w, f->to, &e);
        break;
    case SIM_CLOSED_DOWN:
        on_conn_lost(w, f->to, f->conn);
        break;
    case SIM_CONNECT:
        on_connect(w, f->to);
        break;
    default:
        e.kind = AGENT_ON_TICK;
        step_agent(w, f->to, &e);
        if (node->alive) {
            agent_tick(w, f->to);
        }
        break;
    }
}
