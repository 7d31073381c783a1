/* After the end of a run: a machine that saw it may begin another, and does when it is started
 * again; one that was lost before, or is new, is told that the job is done. */
#include "sim/sim.h"

#define LATE_BOUND_US (30u * 1000 * US_PER_MS)
#define SETTLE_US (3000 * US_PER_MS)

/* From a stream of its own, so that seeds of old mean what they did. */
void again_draw(struct world *w)
{
    struct prng p;

    prng_init(&p, w->seed ^ UINT64_C(0x616761696e));
    w->again = (struct again){.at_once = prng_chance(&p, 300000),
                              .late = prng_chance(&p, 500000),
                              .restart = prng_chance(&p, 500000),
                              .machine = (uint32_t)prng_below(&p, NODES_N),
                              .delay_us = prng_below(&p, 60) * US_PER_MS,
                              .crowd = prng_chance(&p, 300000)};
}

static bool has_failed(const struct world *w)
{
    struct job_look j;

    return cluster_look_job(w->orch.mind.cluster, "job", &j) == MU_OK && j.failed;
}

void again_saw(struct world *w, uint32_t m)
{
    w->again.saw[m] = true;
}

bool again_over(const struct world *w, uint32_t m)
{
    return w->again.saw[m] && w->check.done;
}

/* It has left, and that is durable. */
void again_gone(struct world *w, const struct rec_gone *r)
{
    for (uint32_t m = 0; m < NODES_N && r->ended; m++) {
        if (w->machines[m].agent.node != r->node) {
            continue;
        }
        if (!w->again.saw[m]) {
            world_fail(w, "%s did not see the end, and the journal says it did",
                       w->machines[m].name);
        }
        w->again.left[m] = true;
        if (w->again.at_once && w->again.back == 0) {
            w->again.back = m + 1;
            fate_again(w, w->again.delay_us, m);
        }
    }
}

/* Another run is handed out, because of a hello. */
void again_run(struct world *w, uint32_t m, uint32_t run)
{
    struct job_view v;

    if (w->again.forgotten) {
        world_fail(w, "%s begins the job anew, which was done and forgotten", w->machines[m].name);
        return;
    }
    mu_assert(cluster_job(w->orch.mind.cluster, "job", &v) == MU_OK);
    if (run == v.run) {
        return; /* Its mode is known now. */
    }
    if (!w->again.saw[m] && !has_failed(w)) {
        world_fail(w, "%s has not seen the end of run %u, and begins another", w->machines[m].name,
                   v.run);
    }
    if (!v.ended || v.nodes_n > 0) {
        world_fail(w, "another run begins while %u nodes are in run %u", v.nodes_n, v.run);
    }
}

/* Its agent has ended by itself. */
void again_done(struct world *w, uint32_t m)
{
    if (w->again.back == m + 1 && w->again.started && !w->check.second_run &&
        !w->machines[m].agent.draining) {
        world_fail(w, "%s saw the end, was started again, and was sent away", w->machines[m].name);
    }
}

void again_start(struct world *w, uint32_t m)
{
    if (!w->machines[m].alive && !w->check.second_run) {
        trace(w, w->machines[m].name, "is started again");
        w->again.started = w->again.back == m + 1;
        machine_start(w, m);
    }
}

/* Other jobs come, for which there is no place: that of the first, which is over, is given away. */
static void crowd(struct world *w)
{
    orch_stranger(w, "one");
    world_run_until(w, w->now_us + SETTLE_US);
    orch_stranger(w, "two");
    world_run_until(w, w->now_us + SETTLE_US);
    if (!w->failed && !w->again.forgotten) {
        world_fail(w, "a job that is over keeps its place");
    }
}

/* Everybody is gone, and one comes. */
void again_late(struct world *w)
{
    const uint32_t m = w->again.machine;

    if (!w->again.late || w->check.second_run || !w->check.ended || w->check.failed) {
        return;
    }
    world_run_until(w, w->now_us + SETTLE_US); /* What they said last is in the journal. */
    if (w->failed || w->check.second_run || !w->orch.alive || has_failed(w)) {
        return;
    }
    if (w->again.crowd) {
        crowd(w);
    }
    if (w->again.restart && !w->failed) {
        orch_crash(w);
        orch_start(w);
    }
    w->again.back = w->again.left[m] && !w->again.forgotten ? m + 1 : 0;
    again_start(w, m);
    for (uint64_t t = 0; t < LATE_BOUND_US && !w->failed && !w->check.second_run; t += SETTLE_US) {
        world_run_until(w, w->now_us + SETTLE_US);
        if (!w->machines[m].alive) {
            break;
        }
    }
    if (!w->failed && !w->check.second_run && w->machines[m].alive) {
        world_fail(w, "%s came after the end, and waits for ever", w->machines[m].name);
    } else if (!w->failed && !w->check.second_run && w->machines[m].exit_code != 0) {
        world_fail(w, "%s came after the end, and exits with %d", w->machines[m].name,
                   w->machines[m].exit_code);
    }
}
