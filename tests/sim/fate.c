/* What goes wrong in a seed, and how it heals. */
#include "sim/sim.h"

#include <string.h>

#define SLICE_MIN_US 1000
#define SLICE_MAX_US 12000

enum fate {
    FATE_KILL_WORKER,
    FATE_FAIL_WORKER,
    FATE_KILL_MACHINE,
    FATE_START_MACHINE,
    FATE_STOP_WORKER,
    FATE_STOP_MACHINE,
    FATE_CUT_CONTROL,
    FATE_CUT_PAIR,
    FATE_ISOLATE,
    FATE_RESET_CONN,
    FATE_KILL_ALL,
    FATE_JUMP_MACHINE,
    FATE_DESERT,
    FATE_BREAK_LINK,
    FATE_BREAK_LINKS, /* all of a machine, a few times in a row */
    FATE_SPLIT,       /* a machine is alone as soon as it holds a result */
    FATE_LAST_ROUGH,
    /* From here on also in calm seeds. */
    FATE_ORCH_CRASH = FATE_LAST_ROUGH,
    FATE_ORCH_DIES_AT, /* a record, which may be durable */
    FATE_ORCH_STOP,
    FATE_JUMP_ORCH,
    FATE_DISK_FAIL,
    FATE_DISK_SLOW,
    FATE_DRAIN,
    FATE_ADMIN_DRAIN,
    FATE_ADD_MACHINE,
    FATE_RESIZE,
    FATE_PAUSE,
    FATE_LIST,
    FATE_N,
    /* The end of one of the above. */
    FATE_UNCUT,
    FATE_UNPAUSE,
    /* Also when everything else has healed. */
    FATE_STRIKE,
    FATE_ORCH_AWAY,
    FATE_AGAIN, /* also when the job has ended */
    FATE_LEAVE, /* a worker in the middle of its work … */
    FATE_LEAVE_ALL
};

static void later(struct world *w, uint64_t delay_us, enum fate kind, uint64_t b)
{
    struct sim_event *e = world_after(w, delay_us, SIM_FATE, 0, 0);

    e->a = kind;
    e->b = b;
}

static void draw_fortune(struct world *w)
{
    struct fortune *f = &w->fortune;

    *f = (struct fortune){.delay_min_us = 30,
                          .delay_max_us = world_chance(w, 300000) ? 30000 : 1500,
                          .sync_min_us = 200,
                          .sync_max_us = 4000,
                          .slice_min_us = SLICE_MIN_US,
                          .slice_max_us = SLICE_MAX_US,
                          .calm = world_chance(w, 125000)};
    if (w->config.long_faults) {
        f->slice_min_us *= 6;
        f->slice_max_us *= 6;
    }
    if (!f->calm && world_chance(w, 500000)) {
        f->break_ppm = (uint32_t)world_between(w, 0, 4000);
        f->duplicate_ppm = (uint32_t)world_between(w, 0, 60000);
    }
    if (!f->calm && world_chance(w, 250000)) {
        f->boundary_ppm = 1000000;
    }
    if (!f->calm && world_chance(w, 250000)) {
        f->control_drop_ppm = (uint32_t)world_between(w, 0, 60000);
    }
    if (world_chance(w, 250000)) {
        f->forge_ppm = 20000;
    }
}

/* From a stream of its own, so that seeds of old mean what they did. */
static void draw_mode(struct world *w)
{
    struct prng p;
    uint64_t draw;

    prng_init(&p, w->seed ^ UINT64_C(0x72657374617274));
    draw = prng_u64(&p) % 8;
    w->config.mode = draw == 0 ? MODE_RESTART : draw <= 2 ? MODE_AUTO : MODE_INPROCESS;
    w->config.plain = draw <= 1;
}

/* In the same way: as many as there are at first, and no more. */
static void draw_group(struct world *w)
{
    struct sim_config *k = &w->config;
    struct prng p;

    prng_init(&p, w->seed ^ UINT64_C(0x67726f7570));
    if (k->mode == MODE_INPROCESS && prng_chance(&p, 200000)) {
        k->group_max = k->nodes_n * k->slots;
    }
}

/* In the same way. */
static void draw_vouch(struct world *w)
{
    static const uint32_t every[] = {0, 1, 3, 7};
    struct sim_config *k = &w->config;
    struct prng p;

    prng_init(&p, w->seed ^ UINT64_C(0x766f756368));
    k->digest_every = every[prng_below(&p, 4)];
    k->check_every = every[prng_below(&p, 4)];
    if (prng_chance(&p, 200000)) {
        k->odd = prng_chance(&p, 500000) ? ODD_DIGEST : ODD_CHECK;
        k->odd_from = prng_between(&p, 1, k->steps_n);
        k->odd_worker =
            (uint32_t)prng_below(&p, k->nodes_n) * SLOTS_N + (uint32_t)prng_below(&p, k->slots);
    }
}

/* In the same way. */
static void draw_heal(struct world *w)
{
    struct sim_config *k = &w->config;
    struct prng p;

    prng_init(&p, w->seed ^ UINT64_C(0x6865616c));
    if (!prng_chance(&p, 125000) || k->plain) {
        return;
    }
    k->heal = true;
    k->check_every = 0;
    k->digest_every = (uint32_t)prng_between(&p, 0, 7);
    k->odd = prng_chance(&p, 850000) ? ODD_STATE : ODD_NEVER;
    k->odd_from = prng_between(&p, 1, k->steps_n);
    k->odd_times = prng_chance(&p, 250000) ? 9 : (uint32_t)prng_between(&p, 1, 3);
    k->odd_worker =
        (uint32_t)prng_below(&p, k->nodes_n) * SLOTS_N + (uint32_t)prng_below(&p, k->slots);
    if (prng_chance(&p, 850000)) {
        k->checkpoint_every = (uint32_t)prng_between(&p, 3, 15);
    }
}

/* In the same way. */
static void draw_save(struct world *w)
{
    struct prng p;

    prng_init(&p, w->seed ^ UINT64_C(0x73617665));
    w->config.chunks_n = (uint32_t)prng_between(&p, 1, 3);
    w->config.keeps = prng_chance(&p, 250000);
    w->config.unsaved_ppm = prng_chance(&p, 500000) ? (uint32_t)prng_below(&p, 100000) : 0;
    w->config.containers = prng_chance(&p, 250000);
    w->config.full = prng_chance(&p, 60000);
}

static void draw_config(struct world *w)
{
    struct sim_config *k = &w->config;

    *k = (struct sim_config){.nodes_n = (uint32_t)world_between(w, 1, 5),
                             .slots = world_chance(w, 300000) ? 2 : 1,
                             .steps_n = world_between(w, 40, 100),
                             .fate_end_us = world_between(w, 2000, 6000) * US_PER_MS};
    k->long_faults = world_chance(w, 200000);
    if (k->long_faults) {
        k->fate_end_us *= 3;
        k->steps_n = STEPS_N;
    }
    k->min = (uint32_t)world_between(w, 1, MAX(1, k->nodes_n / 2));
    k->max = (uint32_t)world_between(w, k->nodes_n, NODES_N);
    k->checkpoint_every = world_chance(w, 500000) ? (uint32_t)world_between(w, 5, 15) : 0;
    draw_mode(w);
    draw_group(w);
    draw_vouch(w);
    draw_heal(w);
    draw_save(w);
    if (k->nodes_n >= 3 && k->min + 1 < k->nodes_n && world_chance(w, 300000)) {
        k->pair = world_chance(w, 500000) ? PAIR_STAYS_CUT : PAIR_FLAPS;
    }
    if (world_chance(w, 500000)) {
        k->silence_ms = (uint32_t)world_between(w, 800, 3000);
    }
}

/* In the same way. Links may break in calm seeds, too: that alone costs nobody anything. */
static void draw_calls(struct world *w)
{
    struct sim_config *k = &w->config;
    struct prng p;

    prng_init(&p, w->seed ^ UINT64_C(0x63616c6c73));
    if (prng_below(&p, 6) != 0 || k->plain || k->heal) {
        return;
    }
    k->calls = true;
    k->together = prng_chance(&p, 500000);
    k->odd = ODD_NEVER;
    k->digest_every = k->check_every = k->checkpoint_every = 0;
    k->keeps = false;
    if (w->fortune.calm) {
        w->fortune.break_ppm = (uint32_t)prng_between(&p, 0, 300);
    }
}

/* In some seeds workers leave in the middle of their work; now and then all of them do. */
static void draw_leave(struct world *w)
{
    struct prng p;

    prng_init(&p, w->seed ^ UINT64_C(0x6c65617665));
    if (prng_below(&p, 8) != 0 || w->config.plain || w->config.calls) {
        return;
    }
    for (uint64_t i = prng_between(&p, 1, 3); i > 0; i--) {
        later(w, prng_between(&p, 100, w->config.fate_end_us / US_PER_MS) * US_PER_MS, FATE_LEAVE,
              prng_u64(&p));
    }
    if (prng_below(&p, 4) == 0) {
        later(w, prng_between(&p, 100, w->config.fate_end_us / US_PER_MS) * US_PER_MS,
              FATE_LEAVE_ALL, 0);
    }
}

/* Those who train: others may wait for a place. */
static void leave_all(struct world *w)
{
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        if (trainer_at(w, i)->running && step_entered(&trainer_at(w, i)->step) != 0) {
            trainer_leave(w, i);
        }
    }
}

void fate_draw(struct world *w)
{
    uint64_t n;

    draw_config(w);
    draw_fortune(w);
    draw_calls(w);
    helper_draw(w);
    again_draw(w);
    n = world_between(w, 0, 12);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t first = w->fortune.calm ? FATE_LAST_ROUGH : 0;

        enum fate kind = (enum fate)world_between(w, first, FATE_N - 1);

        if (kind == FATE_DESERT && !w->config.long_faults) {
            kind = FATE_KILL_WORKER;
        }
        later(w, world_between(w, 100, w->config.fate_end_us / US_PER_MS) * US_PER_MS, kind,
              prng_u64(&w->prng));
    }
    /* Links alone cost nobody anything, unless they break in more rounds than are tried. */
    for (uint64_t i = world_between(w, 0, 3); w->fortune.calm && i > 0; i--) {
        later(w, world_between(w, 100, w->config.fate_end_us / US_PER_MS) * US_PER_MS,
              world_chance(w, 500000) ? FATE_BREAK_LINK : FATE_BREAK_LINKS,
              prng_u64(&w->prng) >> 8);
    }
    draw_leave(w);
}

/* ---- one by one ---- */

static void cut_pair(struct world *w, uint32_t a, uint32_t b, uint64_t how)
{
    if (a == b) {
        return;
    }
    w->cut[a][b] |= how != 1;
    w->cut[b][a] |= how != 2;
    trace(w, "network", "%s %s %s", w->machines[a].name,
          how == 0   ? "x"
          : how == 2 ? "x>"
                     : "<x",
          w->machines[b].name);
}

static void cut_control(struct world *w, uint32_t m, uint64_t how)
{
    w->cut_up[m] |= how != 1;
    w->cut_down[m] |= how != 2;
    trace(w, "network", "%s %s orchestrator", w->machines[m].name,
          how == 0   ? "x"
          : how == 2 ? "x>"
                     : "<x");
}

static void isolate(struct world *w, uint32_t m)
{
    cut_control(w, m, 0);
    for (uint32_t i = 0; i < NODES_N; i++) {
        w->cut[m][i] = w->cut[i][m] = i != m;
    }
}

static void uncut(struct world *w)
{
    memset(w->cut_up, 0, sizeof(w->cut_up));
    memset(w->cut_down, 0, sizeof(w->cut_down));
    memset(w->cut, 0, sizeof(w->cut));
    trace(w, "network", "is whole again");
}

static void stop_worker(struct world *w, uint32_t worker, uint64_t until_us)
{
    struct trainer *t = trainer_at(w, worker);

    if (t->running) {
        t->stopped_until_us = MAX(t->stopped_until_us, until_us);
        trace(w, trace_worker(w, t->self), "is stopped until %.3f", (double)until_us / 1e6);
    }
}

/* For good: its agent is to see to it. One that it has not heard may be loading, for as long as it
 * likes, and nobody sees to it. */
static void stop_helper(struct world *w, uint32_t worker)
{
    if (w->machines[worker / SLOTS_N].agent.slots[worker % SLOTS_N].attached) {
        stop_worker(w, worker, FOREVER_US);
    }
}

static void start_one(struct world *w, uint32_t from, bool fresh_machine)
{
    for (uint32_t i = 0; i < NODES_N; i++) {
        uint32_t m = (from + i) % NODES_N;
        bool known = m < w->config.nodes_n;

        if (!w->machines[m].alive && !w->check.ended && !again_over(w, m) &&
            known != fresh_machine) {
            machine_start(w, m);
            return;
        }
    }
}

/* Everyone loses the orchestrator, for about as long as it waits before it starts over with
 * somebody else: they come back right before, in the middle of, or right after that. */
static void desert(struct world *w, uint64_t b)
{
    for (uint32_t m = 0; m < w->config.nodes_n; m++) {
        cut_control(w, m, 0);
    }
    start_one(w, 0, true);
    later(w, 4700 * US_PER_MS + b % (((b >> 40 & 1) != 0 ? 320 : 1500) * US_PER_MS), FATE_UNCUT, 0);
}

static void list_some(struct world *w, uint64_t b)
{
    uint32_t picked[NODES_N], n = 0;

    for (uint32_t m = 0; m < NODES_N; m++) {
        if (w->machines[m].alive && w->machines[m].agent.node != 0 && (b >> m & 1) != 0) {
            picked[n++] = m;
        }
    }
    if (n >= w->config.min) {
        trace(w, "people", "name the nodes that shall train");
        orch_list(w, picked, n);
    }
}

/* One in four is a schedule, by steps that the job may yet come to. */
static void resize(struct world *w, uint64_t b)
{
    uint32_t size = (uint32_t)(b >> 20) % w->config.max + 1;
    char text[64];

    if ((b >> 40) % 4 != 0) {
        trace(w, "people", "want %u nodes", size);
        orch_size(w, size);
        return;
    }
    size = MAX(size, w->config.min);
    snprintf(text, sizeof(text), "%u:%u,%u:%u,%u", size, (uint32_t)(b >> 42) % 60 + 1,
             w->config.min, (uint32_t)(b >> 48) % 60 + 1, w->config.max);
    trace(w, "people", "want %s nodes", text);
    orch_setting(w, "schedule", text);
}

/* How long a fault lasts: in some seeds so long that everyone out of touch gives up. */
static uint64_t span_of(const struct world *w, uint64_t b)
{
    return ((b >> 16) % 2500 + 50) * US_PER_MS * (w->config.long_faults ? 4 : 1);
}

static void kill_all(struct world *w)
{
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        trainer_kill(w, i, 137);
    }
    trace(w, "fate", "kills every worker");
}

void fate_strike(struct world *w, uint64_t delay_us)
{
    later(w, delay_us, FATE_STRIKE, 0);
}

void fate_again(struct world *w, uint64_t delay_us, uint32_t m)
{
    later(w, delay_us, FATE_AGAIN, m);
}

static void rough(struct world *w, enum fate kind, uint64_t b)
{
    uint32_t m = helper_pick(w, (uint32_t)(b % w->config.nodes_n), b);
    uint32_t worker = m * SLOTS_N + (uint32_t)(b >> 8) % w->config.slots;
    uint64_t span_us = span_of(w, b);

    switch (kind) {
    case FATE_KILL_WORKER:
    case FATE_FAIL_WORKER:
        trace(w, "fate", "kills worker %s.%u", w->machines[m].name, worker % SLOTS_N);
        trainer_kill(w, worker, kind == FATE_KILL_WORKER ? 137 : 1);
        break;
    case FATE_KILL_MACHINE: {
        const struct agent *a = &w->machines[m].agent;
        struct msg_bye bye = {
            .node = a->node, .store = a->store, .incarnation = a->config.hello.incarnation};

        if (w->machines[m].alive && (b >> 50 & 1) != 0) { /* The agent alone: its keeper lives. */
            net_keeper(w, m, &bye);
        }
        machine_crash(w, m);
        break;
    }
    case FATE_START_MACHINE:
        start_one(w, m, false);
        break;
    case FATE_STOP_WORKER:
        if (helper_is(w, m)) {
            stop_helper(w, worker);
        } else {
            stop_worker(w, worker, w->now_us + span_us);
        }
        break;
    case FATE_STOP_MACHINE:
        w->machines[m].stopped_until_us =
            MAX(w->machines[m].stopped_until_us, w->now_us + span_us * 2);
        trace(w, w->machines[m].name, "is stopped for %.3f s", (double)span_us * 2 / 1e6);
        break;
    case FATE_CUT_CONTROL:
        cut_control(w, m, b >> 40 & 3);
        later(w, span_us * 2, FATE_UNCUT, 0);
        break;
    case FATE_CUT_PAIR:
        cut_pair(w, m, (uint32_t)(b >> 32) % w->config.nodes_n, b >> 40 & 3);
        later(w, span_us * 2, FATE_UNCUT, 0);
        break;
    case FATE_ISOLATE:
        isolate(w, m);
        later(w, span_us * 3, FATE_UNCUT, 0);
        break;
    case FATE_RESET_CONN:
        machine_reset_conn(w, m);
        break;
    case FATE_KILL_ALL:
        kill_all(w);
        break;
    case FATE_DESERT:
        desert(w, b);
        break;
    case FATE_BREAK_LINK:
        trace(w, "network", "a link of %s breaks", w->machines[m].name);
        links_break(w, worker, (uint32_t)(b >> 32) % (w->config.nodes_n * SLOTS_N));
        break;
    case FATE_BREAK_LINKS:
        trace(w, "network", "all links of %s break", w->machines[m].name);
        links_break_machine(w, m);
        if ((b >> 56) > 0) {
            later(w, (b >> 20) % (300 * US_PER_MS), FATE_BREAK_LINKS,
                  (b & ~(UINT64_C(0xff) << 56)) | (((b >> 56) % 6) - ((b >> 56) % 6 > 0)) << 56);
        }
        break;
    case FATE_SPLIT:
        w->split = m + 1;
        break;
    case FATE_JUMP_MACHINE:
        w->machines[m].skew_us += span_us;
        trace(w, w->machines[m].name, "its clock jumps");
        break;
    default:
        break;
    }
}

static void gentle(struct world *w, enum fate kind, uint64_t b)
{
    uint32_t m = helper_pick(w, (uint32_t)(b % w->config.nodes_n), b);
    uint64_t span_us = span_of(w, b);

    switch (kind) {
    case FATE_ORCH_CRASH:
        orch_crash(w);
        world_after(w, span_us / 4, SIM_ORCH_START, 0, 0);
        break;
    case FATE_ORCH_DIES_AT:
        w->orch.crash_on = (b >> 30 & 1) != 0 ? RECORD_ACTIVE : RECORD_GENERATION;
        break;
    case FATE_ORCH_STOP:
        w->orch.stopped_until_us = MAX(w->orch.stopped_until_us, w->now_us + span_us);
        trace(w, "orchestrator", "is stopped for %.3f s", (double)span_us / 1e6);
        break;
    case FATE_JUMP_ORCH:
        w->orch.skew_us += span_us * 4;
        trace(w, "orchestrator", "its clock jumps by %.3f s", (double)span_us * 4 / 1e6);
        break;
    case FATE_DISK_FAIL:
        if (w->orch.alive) {
            store_memory_fail(journal_store(w->orch.journal), MU_EIO, (b >> 30 & 1) != 0);
            trace(w, "orchestrator", "its next write will fail");
        }
        break;
    case FATE_DISK_SLOW:
        w->orch.slow_until_us = w->now_us + span_us;
        trace(w, "orchestrator", "its disk is slow for %.3f s", (double)span_us / 1e6);
        break;
    case FATE_DRAIN:
        machine_drain(w, m);
        break;
    case FATE_ADMIN_DRAIN:
        trace(w, "people", "drain %s", w->machines[m].name);
        orch_admin(w, ADMIN_DRAIN, m);
        break;
    case FATE_ADD_MACHINE:
        start_one(w, m, true);
        break;
    case FATE_RESIZE:
        resize(w, b);
        break;
    case FATE_PAUSE:
        trace(w, "people", "pause the job");
        orch_setting(w, "paused", "true");
        later(w, span_us / 2, FATE_UNPAUSE, 0);
        break;
    case FATE_LIST:
        list_some(w, b >> 24);
        break;
    case FATE_UNPAUSE:
        trace(w, "people", "let the job go on");
        orch_setting(w, "paused", "false");
        break;
    default:
        break;
    }
}

void fate_event(struct world *w, struct sim_event *e)
{
    enum fate kind = (enum fate)e->a;

    if (kind == FATE_AGAIN) {
        again_start(w, (uint32_t)e->b);
        return;
    }
    if (w->check.ended || (w->healed && kind < FATE_STRIKE)) {
        return;
    }
    if (kind == FATE_STRIKE) {
        w->fortune.calm = false;
        kill_all(w);
    } else if (kind == FATE_ORCH_AWAY) {
        orch_crash(w);
        world_after(w, e->b, SIM_ORCH_START, 0, 0);
    } else if (kind == FATE_LEAVE && !w->healed) {
        w->fortune.calm = false;
        trainer_leave(w, (uint32_t)(e->b % w->config.nodes_n * SLOTS_N) +
                             (uint32_t)(e->b >> 8) % w->config.slots);
    } else if (kind == FATE_LEAVE_ALL && !w->healed) {
        w->fortune.calm = false;
        leave_all(w);
    } else if (kind == FATE_LEAVE || kind == FATE_LEAVE_ALL) {
        return;
    } else if (kind == FATE_UNCUT) {
        uncut(w);
    } else if (kind < FATE_LAST_ROUGH) {
        rough(w, kind, e->b);
    } else {
        gentle(w, kind, e->b);
    }
}

/* The orchestrator dies when it has handed out the record that it was to die on. */
void fate_after(struct world *w)
{
    if (w->orch.alive && w->orch.stopped_until_us == FOREVER_US && !w->quiet) {
        trace(w, "orchestrator", "dies");
        if (world_chance(w, 500000)) {
            store_memory_sync(journal_store(w->orch.journal), SIZE_MAX);
        }
        orch_crash(w);
        world_after(w, world_between(w, 10, 1200) * US_PER_MS, SIM_ORCH_START, 0, 0);
    }
}

/* Links break around the boundary. */
void fate_generation(struct world *w)
{
    if (world_chance(w, w->fortune.boundary_ppm)) {
        later(w, world_between(w, 0, 100) * US_PER_MS,
              world_chance(w, 500000) ? FATE_BREAK_LINK : FATE_BREAK_LINKS,
              prng_u64(&w->prng) >> 8);
    }
}

/* … and when the first READYs that end it are under way. */
void fate_commit(struct world *w, uint32_t worker)
{
    const struct trainer *t = trainer_at(w, worker);

    if (t->known.number > trainer_generation(t) && world_chance(w, w->fortune.boundary_ppm / 4)) {
        trace(w, "network", "all links of %s break", w->machines[worker / SLOTS_N].name);
        links_break_machine(w, worker / SLOTS_N);
    }
}

/* One holds a result that the others may not have, and is lost. They make it again, but are not
 * told that they may commit it; then one of them dies, and the first is back. */
void fate_reduced(struct world *w, uint32_t worker)
{
    const uint32_t m = worker / SLOTS_N;

    if (w->split != m + 1 || w->healed) {
        return;
    }
    w->split = 0;
    isolate(w, m);
    links_break_machine(w, m);
    w->orch.crash_on = RECORD_ACTIVE;
    later(w, world_between(w, 1000, 1500) * US_PER_MS, FATE_UNCUT, 0);
    later(w, world_between(w, 1050, 1700) * US_PER_MS, FATE_KILL_WORKER, prng_u64(&w->prng));
}

/* ---- healing ---- */

void fate_heal(struct world *w)
{
    w->healed = true;
    trace(w, "fate", "has had its day: everything heals");
    w->orch.slow_until_us = 0;
    w->fortune.slice_min_us = SLICE_MIN_US;
    w->fortune.slice_max_us = SLICE_MAX_US;
    uncut(w);
    if (w->config.helpers_n > 0) { /* long enough to see one replaced that hangs */
        w->fortune.slice_min_us *= 4;
        w->fortune.slice_max_us *= 4;
    }
    if (w->config.pair == PAIR_STAYS_CUT && !w->fortune.calm) {
        cut_pair(w, w->config.nodes_n - 1, w->config.nodes_n - 2, 0);
        if (w->config.helpers_n == 0) {
            w->fortune.slice_min_us *= 4; /* long enough to see it torn apart twice, if it is */
            w->fortune.slice_max_us *= 4;
        }
        if (world_chance(w, 300000)) { /* It is away when they would be heard of. */
            later(w, world_between(w, 1000, 1800) * US_PER_MS, FATE_ORCH_AWAY,
                  world_between(w, 300, 1000) * US_PER_MS);
        }
    } else if (w->config.pair == PAIR_FLAPS && !w->fortune.calm) {
        w->flaps[w->config.nodes_n - 1][w->config.nodes_n - 2] = true;
        links_break_machine(w, w->config.nodes_n - 1);
        trace(w, "network", "links of %s and %s do not last",
              w->machines[w->config.nodes_n - 1].name, w->machines[w->config.nodes_n - 2].name);
    }
    w->orch.crash_on = -1;
    w->fortune.break_ppm = w->fortune.boundary_ppm = w->fortune.duplicate_ppm =
        w->fortune.control_drop_ppm = 0;
    w->check.healed_newest = w->check.newest;
    w->check.healed_us = w->now_us;
    orch_start(w);
    for (uint32_t m = 0; m < NODES_N && !w->check.ended; m++) {
        if ((m < w->config.nodes_n || helper_is(w, m)) && !again_over(w, m)) {
            machine_start(w, m);
        }
    }
}
