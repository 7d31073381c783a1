/* Frames: encoded, delayed, lost, doubled, forged, and decoded at the other end. */
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
                 type == WIRE_REPORTS || type == WIRE_RENEW;
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

/* ---- worker and worker: nothing is promised ---- */

static bool vanishes(const struct world *w, uint32_t from, uint32_t to, unsigned type)
{
    for (uint32_t i = 0; i < w->vanish_n; i++) {
        if (w->vanish[i].type == type && w->vanish[i].from == from && w->vanish[i].to == to) {
            return true;
        }
    }
    return false;
}

static void post(struct world *w, uint32_t to, wid id, const uint8_t *key, uint64_t generation,
                 enum wire_type type, const void *msg)
{
    struct sim_event *e =
        world_after(w, world_between(w, w->fortune.delay_min_us, w->fortune.delay_max_us), SIM_DATA,
                    to, trainer_at(w, to)->life);

    e->from = id;
    memcpy(e->key, key, KEY_BYTES);
    fill(e, type, msg, generation);
}

/* Somebody who knows everything but the key, and lies. */
static void forge(struct world *w, uint32_t worker, wid to, const struct group *g,
                  enum wire_type type, const void *msg)
{
    static uint64_t junk[4] = {1, 2, 3, 4};
    uint8_t key[KEY_BYTES];
    union wire_any lie;

    memcpy(key, g->key, sizeof(key));
    key[0] ^= 1;
    switch (type) {
    case WIRE_READY:
        lie.ready = *(const struct msg_ready *)msg;
        lie.ready.step++;
        break;
    case WIRE_SETTLE:
        lie.settle = *(const struct msg_settle *)msg;
        lie.settle.held ^= 1;
        break;
    case WIRE_PART:
        lie.part = *(const struct msg_part *)msg;
        lie.part.data = (uint8_t *)junk;
        break;
    case WIRE_SUM:
        lie.sum = *(const struct msg_sum *)msg;
        lie.sum.data = (uint8_t *)junk;
        break;
    case WIRE_STATE:
        lie.state = *(const struct msg_state *)msg;
        lie.state.data = (uint8_t *)junk;
        break;
    default:
        return;
    }
    post(w, worker, to, key, g->number, type, &lie);
}

void net_data(struct world *w, uint32_t from, wid to, const char *addr, const struct group *g,
              enum wire_type type, const void *msg)
{
    static const uint8_t no_key[KEY_BYTES];
    uint32_t worker = (uint32_t)atoi(addr);
    uint32_t a = from / SLOTS_N, b = worker / SLOTS_N;
    const uint8_t *key = g != NULL ? g->key : no_key;
    uint64_t generation = g != NULL ? g->number : 0;

    mu_assert(worker < WORKERS_N);
    if ((a != b && w->cut[a][b]) || vanishes(w, a, b, type)) {
        return;
    }
    if (g != NULL && world_chance(w, w->fortune.forge_ppm)) {
        forge(w, worker, to, g, type, msg);
    }
    if (a != b && world_chance(w, w->fortune.drop_ppm)) {
        return;
    }
    post(w, worker, to, key, generation, type, msg);
    if (world_chance(w, w->fortune.duplicate_ppm)) {
        post(w, worker, to, key, generation, type, msg);
    }
}
