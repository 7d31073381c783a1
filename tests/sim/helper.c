/* Workers that help: they are in no generation, serve as long as the job runs, and end when they
 * are told that it is over. All who train ask for the roster. */
#include "sim/sim.h"
#include "sim/trainer.h"

#include <stdlib.h>
#include <string.h>

#define TICK_US 50000
#define TOLD_US                                                                      \
    (6000 * US_PER_MS) /* after healing: one that hangs is replaced, and all know it \
                        */

bool helper_is(const struct world *w, uint32_t m)
{
    return m >= NODES_N - w->config.helpers_n;
}

/* From a stream of its own, so that seeds of old mean what they did. */
void helper_draw(struct world *w)
{
    struct sim_config *k = &w->config;
    struct prng p;

    prng_init(&p, w->seed ^ UINT64_C(0x68656c706572));
    if (k->mode != MODE_RESTART && !k->plain && prng_below(&p, 4) == 0) {
        k->helpers_n = (uint32_t)prng_between(&p, 1, NODES_N - k->nodes_n - (k->nodes_n < 5));
        k->helpers_n = MIN(k->helpers_n, 3);
    }
}

/* Every third blow is for one of them. */
uint32_t helper_pick(const struct world *w, uint32_t m, uint64_t draw)
{
    uint64_t r = prng_mix(draw ^ w->seed);

    return w->config.helpers_n == 0 || r % 3 != 0
               ? m
               : NODES_N - 1 - (uint32_t)(r >> 8) % w->config.helpers_n;
}

/* ---- what it does ---- */

void helper_report(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct report r;

    memset(&r, 0, sizeof(r));
    r.slot = worker % SLOTS_N;
    r.incarnation = wid_incarnation(t->self);
    r.phase = t->loaded ? PHASE_SERVING : PHASE_WARMING;
    snprintf(r.addr, sizeof(r.addr), "%u", worker);
    if (memcmp(&r, &t->reported, sizeof(r)) != 0) {
        t->reported = r;
        net_to_agent(w, worker, WIRE_REPORT, &r);
    }
}

/* The run is over, or its node leaves. */
static void end(struct world *w, uint32_t worker, const struct msg_ended *m)
{
    struct trainer *t = trainer_at(w, worker);

    if (!m->left && !w->check.done && !w->check.ended) {
        world_fail(w, "%s is told that the run is over, and it is not", trace_worker(w, t->self));
    }
    t->reported.phase = PHASE_FINISHED;
    net_to_agent(w, worker, WIRE_REPORT, &t->reported);
    trainer_kill(w, worker, 0);
}

void helper_event(struct world *w, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, f->to);
    const struct msg_beat beat = {.worker = t->self};
    struct wire_header h;
    union wire_any msg;

    switch (f->kind) {
    case SIM_TO_WORKER:
        if (f->from == t->self && net_decode(w, f, &h, &msg) && h.type == WIRE_ENDED) {
            end(w, f->to, &msg.ended);
        }
        break;
    case SIM_LOADED_DATA:
        t->loaded = true;
        helper_report(w, f->to);
        break;
    case SIM_WORKER_TICK:
        net_to_agent(w, f->to, WIRE_BEAT, &beat);
        helper_report(w, f->to);
        world_after(w, TICK_US, SIM_WORKER_TICK, f->to, t->life);
        break;
    case SIM_STOP:
        trainer_kill(w, f->to, 0);
        break;
    default:
        break;
    }
}

/* ---- what is told ---- */

static uint32_t worker_of(const struct roster_entry *h)
{
    return (uint32_t)atoi(h->addr);
}

void helper_told(struct world *w, uint32_t worker, const struct msg_roster *m)
{
    struct trainer *t = trainer_at(w, worker);

    if (m->run == t->roster.run && m->version < t->roster.version) {
        world_fail(w, "%s is told roster %" PRIu64 " after %" PRIu64, trace_worker(w, t->self),
                   m->version, t->roster.version);
        return;
    }
    mu_assert(m->helpers_n <= WORKERS_N);
    t->roster = *m;
    t->roster.helpers = t->roster_helpers;
    memcpy(t->roster_helpers, m->helpers, m->helpers_n * sizeof(*m->helpers));
}

/* Before the mode is known a generation may name helpers; but nothing is active then. */
void helper_active(struct world *w, uint64_t generation)
{
    const struct era *era = &w->check.eras[generation % GENERATIONS_N];

    for (uint32_t i = 0; i < era->members_n; i++) {
        if (helper_is(w, era->workers[i] / SLOTS_N)) {
            world_fail(w, "generation %" PRIu64 " has a helper, and is active", generation);
        }
    }
}

/* Its agent has said that this life is over, and the orchestrator knows. */
static bool is_known_lost(const struct world *w, const struct roster_entry *h)
{
    const struct machine *node = &w->machines[worker_of(h) / SLOTS_N];
    const struct slot *s = &node->agent.slots[worker_of(h) % SLOTS_N];

    return node->alive && node->agent.node == wid_node(h->worker) &&
           (s->report.incarnation > wid_incarnation(h->worker) || s->state == SLOT_EXITED ||
            s->lost) &&
           node->agent.reports_acked >= s->reported;
}

/* Nothing happens to anyone in a calm seed but to the orchestrator: who is there stays. */
static bool is_missed(const struct world *w, const struct msg_roster *m, uint32_t worker)
{
    const struct trainer *t = trainer_at((struct world *)(uintptr_t)w, worker);
    bool there = !w->fortune.calm || w->healed || w->check.shown[worker] == 0 || !t->running ||
                 t->self != w->check.shown[worker] || w->machines[worker / SLOTS_N].agent.draining;

    for (uint32_t i = 0; i < m->helpers_n && !there; i++) {
        there = m->helpers[i].worker == t->self;
    }
    return !there;
}

void helper_roster(struct world *w, const struct msg_roster *m)
{
    for (uint32_t i = 0; i < m->helpers_n; i++) {
        const struct roster_entry *h = &m->helpers[i];

        if (is_known_lost(w, h)) {
            world_fail(w, "roster %" PRIu64 " has %s, which is known to be lost", m->version,
                       trace_worker(w, h->worker));
        }
        for (uint32_t k = 0; k < i; k++) {
            if (h->role == m->helpers[k].role && h->number == m->helpers[k].number) {
                world_fail(w, "roster %" PRIu64 " has two with number %u", m->version, h->number);
            }
        }
        if (h->phase == PHASE_SERVING) {
            w->check.shown[worker_of(h)] = h->worker;
        }
    }
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        if (is_missed(w, m, i)) {
            world_fail(w, "roster %" PRIu64 " lacks %s, to which nothing has happened", m->version,
                       trace_worker(w, trainer_at(w, i)->self));
        }
    }
}

/* ---- what is demanded ---- */

/* Everyone who helps is in it, as one that serves, and nobody else. */
static bool is_true(struct world *w, const struct msg_roster *m)
{
    uint32_t there_n = 0;

    for (uint32_t i = 0; i < WORKERS_N; i++) {
        const struct trainer *t = trainer_at(w, i);
        bool told = false;

        if (!w->machines[i / SLOTS_N].alive || !helper_is(w, i / SLOTS_N) ||
            i % SLOTS_N >= w->config.slots) {
            continue;
        }
        there_n++;
        for (uint32_t k = 0; k < m->helpers_n; k++) {
            told |= m->helpers[k].worker == t->self && m->helpers[k].phase == PHASE_SERVING &&
                    t->running && t->stopped_until_us <= w->now_us;
        }
        if (!told) {
            return false;
        }
    }
    return there_n == m->helpers_n;
}

void helper_demand(struct world *w)
{
    const uint64_t from_us = MAX(w->check.healed_us, check_stopped_us(w));
    bool all = true;

    if (w->config.helpers_n == 0 || w->failed || w->check.done || w->check.ended) {
        return;
    }
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        const struct trainer *t = trainer_at(w, i);

        all &= !t->running || t->helps || t->wants_attach || is_true(w, &t->roster);
    }
    if (all) {
        w->check.rosters_us = w->now_us;
    } else if (w->now_us > MAX(from_us, w->check.rosters_us) + TOLD_US) {
        world_fail(w, "for %u s somebody has not known who helps", TOLD_US / US_PER_MS / 1000);
    }
}
