/* Scripts that know nothing of muster: started for a generation, stopped for the next. One that
 * has run together with all its peers for long enough ends well; one whose peer vanishes may fail.
 */
#include "sim/sim.h"

#include <string.h>

#define LOOK_US (20 * US_PER_MS)
#define WORK_MIN_US (200 * US_PER_MS)
#define WORK_MAX_US (1500 * US_PER_MS)
#define PORTS_FIRST 20000

static struct era *era_of(struct world *w, uint64_t number)
{
    return &w->check.eras[number % GENERATIONS_N];
}

void program_start(struct world *w, uint32_t worker, wid self, const struct generation *g)
{
    struct trainer *t = trainer_at(w, worker);
    const struct member *me = NULL;

    for (uint32_t i = 0; i < g->members_n; i++) {
        me = g->members[i].worker == self ? &g->members[i] : me;
    }
    if (t->running) {
        world_fail(w, "%s is started although its last script still runs", trace_worker(w, self));
    } else if (me == NULL) {
        world_fail(w, "%s is started in generation %" PRIu64 ", which does not name it",
                   trace_worker(w, self), g->number);
    } else if ((g->flags & GENERATION_HOLD) != 0) {
        world_fail(w, "%s is started in generation %" PRIu64 ", which holds", trace_worker(w, self),
                   g->number);
    } else if (t->self == self && g->number <= t->in) {
        world_fail(w, "%s is started in generation %" PRIu64 " after %" PRIu64,
                   trace_worker(w, self), g->number, t->in);
    } else if (me == g->members && me->port <= t->port_used &&
               era_of(w, g->number)->published_ms < era_of(w, t->in)->published_ms + LEASE_MS) {
        world_fail(w, "%s has port %u in generation %" PRIu64 ", which it has used before",
                   trace_worker(w, self), me->port, g->number);
    }
    t->running = t->plain = true;
    t->life++;
    t->stopped_until_us = 0;
    t->self = self;
    t->in = g->number;
    t->port_used = me != NULL ? me->port : 0;
    t->wants_addr = true;
    t->together = false;
    t->work_end_us = w->now_us + world_between(w, WORK_MIN_US, WORK_MAX_US);
    trace(w, trace_worker(w, self), "its script starts in generation %" PRIu64, g->number);
    world_after(w, LOOK_US, SIM_PROGRAM, worker, t->life);
}

/* Should it know muster after all: it would act in that one, as its successor will. */
void program_hears(struct world *w, uint32_t worker, const struct generation *g)
{
    const struct trainer *t = trainer_at(w, worker);

    if (t->running && g->number != t->in) {
        world_fail(w, "%s, started for generation %" PRIu64 ", hears of generation %" PRIu64,
                   trace_worker(w, t->self), t->in, g->number);
    }
}

/* All of its generation run, or have ended well. */
static bool is_together(struct world *w, const struct trainer *t)
{
    const struct era *era = era_of(w, t->in);

    for (uint32_t i = 0; i < era->members_n; i++) {
        const struct trainer *peer = trainer_at(w, era->workers[i]);
        bool runs = peer->running && peer->self == era->members[i] && peer->in == t->in;

        if (!runs && peer->done_in != t->in) {
            return false;
        }
    }
    return true;
}

static void finish(struct world *w, uint32_t worker, uint32_t code)
{
    struct trainer *t = trainer_at(w, worker);

    trace(w, trace_worker(w, t->self), "its script %s", code == 0 ? "ends well" : "fails");
    if (code == 0) {
        t->done_in = t->in;
        w->check.programs_done_n++;
    }
    trainer_kill(w, worker, code);
}

void program_event(struct world *w, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, f->to);
    bool together;

    if (f->kind == SIM_STOP && f->a == 0) { /* It takes its time. */
        f = world_after(w, world_between(w, 0, 300 * US_PER_MS), SIM_STOP, f->to, t->life);
        f->a = 1;
        return;
    }
    if (f->kind == SIM_STOP) {
        trainer_kill(w, f->to, world_chance(w, 300000) ? 1 : 143);
        return;
    }
    if (f->kind != SIM_PROGRAM) {
        return;
    }
    together = is_together(w, t);
    if (together && w->now_us >= t->work_end_us) {
        finish(w, f->to, 0);
    } else if (t->together && !together && world_chance(w, 200000)) {
        finish(w, f->to, 1);
    } else {
        t->together |= together;
        world_after(w, LOOK_US, SIM_PROGRAM, f->to, t->life);
    }
}

/* Where a slot can be reached in the generation to come. */
void program_addr(struct world *w, uint32_t worker, struct report *r)
{
    struct trainer *t = trainer_at(w, worker);

    memset(r, 0, sizeof(*r));
    t->wants_addr = false;
    t->port_next = MAX(t->port_next + 1, PORTS_FIRST);
    r->port = t->port_next;
    snprintf(r->addr, sizeof(r->addr), "%u", worker);
}
