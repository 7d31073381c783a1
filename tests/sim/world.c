/* Time, and the queue of what happens in it. */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A key is the time, then the order in which events were made: those that wait for a stopped
 * process reach it in that order. */
#define ORDER_BITS 20
#define ORDER_MASK ((UINT64_C(1) << ORDER_BITS) - 1)

struct world *world_open(void)
{
    struct world *w = calloc(1, sizeof(*w));

    mu_assert(w != NULL);
    w->events = calloc(EVENTS_N, sizeof(*w->events));
    mu_assert(w->events != NULL);
    w->inboxes = calloc((size_t)WORKERS_N * WORKERS_N, sizeof(*w->inboxes));
    mu_assert(w->inboxes != NULL);
    return w;
}

static void drop_orch(struct world *w)
{
    orch_drop(&w->orch);
    store_disk_free(w->orch.disk);
    memset(&w->orch, 0, sizeof(w->orch));
}

static void close_trainers(struct machine *m)
{
    for (uint32_t s = 0; s < SLOTS_N; s++) {
        step_close(&m->trainers[s].step);
        membership_close(m->trainers[s].told);
    }
}

void world_close(struct world *w)
{
    drop_orch(w);
    for (uint32_t m = 0; m < NODES_N; m++) {
        agent_close(&w->machines[m].agent);
        close_trainers(&w->machines[m]);
    }
    free(w->inboxes);
    free(w->events);
    free(w);
}

static void reset_machine(struct machine *m, uint32_t index)
{
    agent_close(&m->agent);
    close_trainers(m);
    memset(m, 0, sizeof(*m));
    snprintf(m->name, sizeof(m->name), "%c", 'a' + (char)index);
}

void world_reset(struct world *w, uint64_t seed)
{
    static const unsigned char id[STORE_ID_BYTES] = {1};
    struct sim_event *events = w->events;

    drop_orch(w);
    for (uint32_t m = 0; m < NODES_N; m++) {
        reset_machine(&w->machines[m], m);
    }
    w->seed = seed;
    prng_init(&w->prng, seed);
    w->now_us = w->events_n = w->order = 0;
    memset(&w->check, 0, sizeof(w->check));
    w->again = (struct again){0};
    memset(w->cut_up, 0, sizeof(w->cut_up));
    memset(w->cut_down, 0, sizeof(w->cut_down));
    memset(w->cut, 0, sizeof(w->cut));
    memset(w->flaps, 0, sizeof(w->flaps));
    w->split = 0;
    links_reset(w);
    w->vanish_n = 0;
    w->healed = w->failed = w->traced = w->quiet = false;
    w->why[0] = '\0';
    heap_init(&w->heap, w->items, EVENTS_N);
    for (uint32_t i = 0; i < EVENTS_N; i++) {
        events[i].next_free = i + 1;
    }
    w->free_event = 0;
    w->orch.disk = store_disk_new(id);
    w->orch.crash_on = -1;
    mu_assert(w->orch.disk != NULL);
}

uint64_t world_between(struct world *w, uint64_t lo, uint64_t hi)
{
    return w->quiet ? lo + (hi - lo) / 2 : prng_between(&w->prng, lo, hi);
}

bool world_chance(struct world *w, uint32_t ppm)
{
    return ppm != 0 && !w->quiet && prng_chance(&w->prng, ppm);
}

void world_fail(struct world *w, const char *fmt, ...)
{
    va_list args;

    if (w->failed) {
        return; /* The first one is the one. */
    }
    w->failed = true;
    va_start(args, fmt);
    vsnprintf(w->why, sizeof(w->why), fmt, args);
    va_end(args);
    trace(w, "VIOLATION", "%s", w->why);
}

/* The event is to be filled in by the caller before anything else happens. */
struct sim_event *world_after(struct world *w, uint64_t delay_us, enum sim_kind kind, uint32_t to,
                              uint32_t life)
{
    uint32_t i = w->free_event;
    struct sim_event *e = &w->events[i];

    mu_assert(i < EVENTS_N);
    w->free_event = e->next_free;
    e->kind = kind;
    e->to = to;
    e->life = life;
    e->conn = 0;
    e->a = e->b = 0;
    e->from = 0;
    e->n = 0;
    heap_push(&w->heap, (w->now_us + delay_us) << ORDER_BITS | (w->order++ & ORDER_MASK), i);
    return e;
}

enum receiver { TO_ORCH, TO_MACHINE, TO_TRAINER, TO_FATE };

static enum receiver receiver_of(enum sim_kind kind)
{
    switch (kind) {
    case SIM_UP:
    case SIM_CLOSED_UP:
    case SIM_ORCH_TICK:
    case SIM_ORCH_SYNC:
    case SIM_ORCH_START:
        return TO_ORCH;
    case SIM_DOWN:
    case SIM_TO_AGENT:
    case SIM_FORGET:
    case SIM_EXITED:
    case SIM_CLOSED_DOWN:
    case SIM_CONNECT:
    case SIM_AGENT_TICK:
        return TO_MACHINE;
    case SIM_DATA:
    case SIM_BROKEN:
    case SIM_FLAP:
    case SIM_DIAL:
    case SIM_OP:
    case SIM_TO_WORKER:
    case SIM_WORKER_TICK:
    case SIM_LOADED_DATA:
    case SIM_COMPUTED:
    case SIM_DIGESTED:
    case SIM_APPLIED:
    case SIM_SAVED:
    case SIM_STOP:
    case SIM_PROGRAM:
        return TO_TRAINER;
    case SIM_FATE:
        break;
    }
    return TO_FATE;
}

/* When whoever it is for can take it; processes that are stopped take it later. */
static uint64_t stopped_until(const struct world *w, const struct sim_event *e)
{
    const struct machine *m;

    switch (receiver_of(e->kind)) {
    case TO_ORCH:
        return e->kind == SIM_ORCH_START ? 0 : w->orch.stopped_until_us;
    case TO_MACHINE:
        return w->machines[e->to].stopped_until_us;
    case TO_TRAINER:
        m = &w->machines[e->to / SLOTS_N];
        return MAX(m->stopped_until_us, m->trainers[e->to % SLOTS_N].stopped_until_us);
    case TO_FATE:
        break;
    }
    return 0;
}

static void deliver(struct world *w, struct sim_event *e)
{
    static void (*const takers[])(struct world *, struct sim_event *) = {
        [TO_ORCH] = orch_event,
        [TO_MACHINE] = machine_event,
        [TO_TRAINER] = trainer_event,
        [TO_FATE] = fate_event,
    };

    takers[receiver_of(e->kind)](w, e);
}

bool world_next(struct world *w)
{
    const struct heap_item *top = heap_top(&w->heap);
    struct sim_event *e;
    uint64_t until_us, order;
    uint32_t i;

    if (top == NULL || w->failed) {
        return false;
    }
    i = top->value;
    order = top->key & ORDER_MASK;
    w->now_us = top->key >> ORDER_BITS;
    heap_pop(&w->heap);
    e = &w->events[i];
    until_us = stopped_until(w, e);
    if (until_us > w->now_us) {
        heap_push(&w->heap, until_us << ORDER_BITS | order, i);
        return true;
    }
    w->events_n++;
    deliver(w, e);
    fate_after(w);
    e->next_free = w->free_event;
    w->free_event = i;
    check_after(w);
    return !w->failed;
}

uint64_t world_next_us(const struct world *w)
{
    const struct heap_item *top = heap_top(&w->heap);

    return top == NULL ? UINT64_MAX : top->key >> ORDER_BITS;
}

void world_run_until(struct world *w, uint64_t until_us)
{
    while (world_next_us(w) <= until_us && world_next(w)) {
    }
    if (!w->failed) {
        w->now_us = MAX(w->now_us, until_us);
    }
}
