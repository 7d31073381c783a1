/* One seed: a safety phase in which anything may happen, then healing, then progress is demanded.
 */
#include "sim/sim.h"

#include <setjmp.h>

#define HEAL_BOUND_US (60u * 1000 * US_PER_MS)
#define WANT_EVERY_US (500 * US_PER_MS)
#define GRACE_US (6000 * US_PER_MS)
/* Long enough for a grace, a takeover, and whoever is to be left out before and after it. */
#define STALL_US (15000 * US_PER_MS)
#define GENERATIONS_BOUND 60

static jmp_buf panic_jump;

static void on_panic(void)
{
    longjmp(panic_jump, 1);
}

static void prepare(struct world *w, uint64_t seed)
{
    world_reset(w, seed);
    fate_draw(w);
    model_init(&w->model, seed, w->config.steps_n);
    orch_start(w);
}

/* Where everyone stands, for a run that does not end. */
static void trace_standing(struct world *w)
{
    static const char *const phases[] = {"out",  "loading", "settling", "computing", "held",
                                         "idle", "parked",  "closing",  "finished",  "stopped"};

    for (uint32_t i = 0; i < WORKERS_N; i++) {
        const struct trainer *t = trainer_at(w, i);

        if (t->running && t->helps) {
            trace(w, trace_worker(w, t->self), "helps");
        } else if (t->running) {
            trace(w, trace_worker(w, t->self),
                  "%s, doing %d, in generation %" PRIu64 " round %u%s (entered %" PRIu64
                  "%s, told of %" PRIu64 ", reached %" PRIu64 "), step %" PRIu64 "%s%s%s",
                  phases[step_phase(&t->step)], t->busy ? -1 : (int)t->doing.what,
                  trainer_generation(t), term_round(step_term(&t->step)),
                  step_there(&t->step) ? "" : " (moving)", step_entered(&t->step),
                  step_confirmed(&t->step) ? ", active" : "", t->known.number, t->reached,
                  step_committed(&t->step), step_applied(&t->step) ? "" : " to be applied",
                  step_holds(&t->step) ? ", holds the next" : "",
                  step_orphaned(&t->step) ? ", orphaned" : "");
        }
    }
}

/* A node that is to leave and can't hand on what it holds is killed when its grace is over. */
static void end_grace(struct world *w)
{
    for (uint32_t m = 0; m < NODES_N; m++) {
        if (w->machines[m].alive && w->machines[m].agent.draining) {
            w->fortune.calm = false;
            machine_crash(w, m);
        }
    }
}

/* When a step was committed last, or somebody was still stopped. */
struct progress {
    uint64_t commits_n, us;
};

static void demand_progress(struct world *w, struct progress *last)
{
    if (w->check.commits_n != last->commits_n || check_stopped_us(w) > w->now_us) {
        *last = (struct progress){w->check.commits_n, w->now_us};
    }
    if (w->now_us - last->us > STALL_US && !w->failed && !w->config.plain && !check_done(w) &&
        w->check.head < w->config.steps_n) {
        trace_standing(w);
        world_fail(w, "nothing is committed for %u s after healing; step %" PRIu64 " of %" PRIu64,
                   STALL_US / US_PER_MS / 1000, w->check.head, w->config.steps_n);
    }
}

static void go(struct world *w)
{
    const uint64_t bound_us = HEAL_BOUND_US * (w->config.helpers_n > 0 ? 2 : 1); /* they are slow */
    struct progress moved = {0, 0};

    for (uint32_t m = 0; m < NODES_N; m++) {
        if (m >= w->config.nodes_n && !helper_is(w, m)) {
            continue;
        }
        machine_start(w, m);
        world_run_until(w, w->now_us + world_between(w, 0, 50000));
    }
    world_run_until(w, w->config.fate_end_us);
    if (w->failed) {
        return;
    }
    fate_heal(w);
    moved.us = w->now_us;
    /* People want all of it to run, and say so until it is heard. */
    for (uint64_t t = 0; t < bound_us && !w->failed && !check_done(w); t += WANT_EVERY_US) {
        orch_want_all(w);
        world_run_until(w, w->now_us + WANT_EVERY_US);
        demand_progress(w, &moved);
        helper_demand(w);
        if (t % GRACE_US == 0) {
            end_grace(w);
        }
        for (uint32_t m = 0; m < NODES_N && !w->failed && !w->check.ended; m++) {
            if ((m < w->config.nodes_n || helper_is(w, m)) && !again_over(w, m)) {
                machine_start(w, m); /* Drained ones come back as new. */
            }
        }
    }
    if (!w->failed && !check_done(w)) {
        trace_standing(w);
        world_fail(w, "no end within %" PRIu64 " s of healing; step %" PRIu64 " of %" PRIu64,
                   bound_us / US_PER_MS / 1000, w->check.head, w->config.steps_n);
    }
    if (!w->failed) {
        save_done(w);
        again_late(w);
    }
    if (!w->failed && w->config.pair != PAIR_FLAPS &&
        w->check.newest > w->check.healed_newest + GENERATIONS_BOUND) {
        world_fail(w, "%" PRIu64 " generations after healing",
                   w->check.newest - w->check.healed_newest);
    }
}

bool seed_run(struct world *w, uint64_t seed, bool traced)
{
    base_on_panic = on_panic;
    prepare(w, seed);
    w->traced = traced;
    trace(w, "seed", "%" PRIu64 ": %u nodes of %u slots, --nnodes %u:%u, %" PRIu64 " %s%s", seed,
          w->config.nodes_n, w->config.slots, w->config.min, w->config.max, w->config.steps_n,
          w->config.calls ? "calls" : "steps", w->fortune.calm ? ", calm" : "");
    if (setjmp(panic_jump) == 0) {
        go(w);
    } else {
        world_fail(w, "an assertion of the core failed");
    }
    base_on_panic = NULL;
    return !w->failed;
}
