/* Frames between agents, their workers and the orchestrator: encoded, delayed, lost, doubled, and
 * decoded at the other end. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define HOP_MIN_US 50
#define HOP_MAX_US 800

static void fill(struct sim_event *e, enum wire_type type, const void *msg, uint64_t generation)
{
    size_t n;

    mu_assert(wire_encode(type, msg, generation, 0, e->bytes, sizeof(e->bytes), &n) == MU_OK);
    e->n = (uint32_t)n;
}

bool net_decode(struct world *w, struct sim_event *e, struct wire_header *h, union wire_any *msg)
{
    struct wire_scratch scratch = {.mem = w->scratch, .cap = sizeof(w->scratch)};
    struct wire_fault fault;

    if (wire_frame_decode(e->bytes, e->n, h, msg, &scratch, &fault) != MU_OK) {
        world_fail(w, "a frame that was sent does not decode: %s", fault.text);
        return false;
    }
    return true;
}

/* ---- agent and orchestrator: one ordered connection; a late copy of what is only a level must do
 * no harm ---- */

static void copy_late(struct world *w, const struct sim_event *e, enum wire_type type)
{
    bool level = type == WIRE_GENERATION || type == WIRE_ACTIVE || type == WIRE_ACK ||
                 type == WIRE_REPORTS || type == WIRE_RENEW || type == WIRE_ROSTER;
    struct sim_event *copy;

    if (level && world_chance(w, w->fortune.duplicate_ppm)) {
        copy = world_after(w, world_between(w, 1000, 400000), e->kind, e->to, e->life);
        copy->conn = e->conn;
        copy->n = e->n;
        memcpy(copy->bytes, e->bytes, e->n);
    }
}

void net_up(struct world *w, uint32_t m, enum wire_type type, const void *msg)
{
    struct machine *node = &w->machines[m];
    uint64_t at_us = w->now_us + world_between(w, HOP_MIN_US, HOP_MAX_US);
    struct sim_event *e;

    if (node->conn == 0 || w->cut_up[m] || world_chance(w, w->fortune.control_drop_ppm)) {
        return;
    }
    node->up_us = MAX(at_us, node->up_us + 1);
    e = world_after(w, node->up_us - w->now_us, SIM_UP, m, w->orch.life);
    e->conn = node->conn;
    fill(e, type, msg, 0);
    copy_late(w, e, type);
}

/* The last word of a machine whose agent was killed, by a connection of its keeper's own. */
void net_keeper(struct world *w, uint32_t m, const struct msg_bye *bye)
{
    struct sim_event *e;

    if (!w->orch.alive || w->cut_up[m] || w->orch.conns_n + 1 >= ARRAY_LEN(w->orch.conn_node)) {
        return;
    }
    e = world_after(w, world_between(w, 5000, 50000), SIM_UP, m, w->orch.life);
    e->conn = ++w->orch.conns_n;
    w->orch.conn_node[e->conn] = m + 1;
    fill(e, WIRE_BYE, bye, 0);
}

void net_down(struct world *w, uint32_t conn, enum wire_type type, const void *msg)
{
    uint32_t m = w->orch.conn_node[conn];
    struct machine *node;
    struct sim_event *e;
    uint64_t at_us;

    if (m == 0 || w->cut_down[m - 1] || world_chance(w, w->fortune.control_drop_ppm)) {
        return;
    }
    node = &w->machines[m - 1];
    at_us = w->now_us + world_between(w, HOP_MIN_US, HOP_MAX_US);
    node->down_us = MAX(at_us, node->down_us + 1);
    e = world_after(w, node->down_us - w->now_us, SIM_DOWN, m - 1, node->life);
    e->conn = conn;
    fill(e, type, msg, 0);
    copy_late(w, e, type);
}

/* ---- agent and worker: a unix socket ---- */

void net_to_agent(struct world *w, uint32_t worker, enum wire_type type, const void *msg)
{
    struct sim_event *e =
        world_after(w, 40, SIM_TO_AGENT, worker / SLOTS_N, w->machines[worker / SLOTS_N].life);

    e->a = worker;
    e->b = trainer_at(w, worker)->life;
    e->from = trainer_at(w, worker)->self;
    fill(e, type, msg, 0);
}

void net_to_worker(struct world *w, uint32_t worker, enum wire_type type, const void *msg)
{
    struct trainer *t = trainer_at(w, worker);
    struct sim_event *e = world_after(w, 30, SIM_TO_WORKER, worker, t->life);

    e->from = t->self;
    fill(e, type, msg, 0);
}
