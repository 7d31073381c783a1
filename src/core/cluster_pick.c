/* Which nodes a planned or a fresh generation should have: members in their order as far
 * as the size goes (so that a shrink cuts the tail), then newcomers, those on the
 * least-loaded hosts first. Nodes that only help (restart mode) come on top of the size. */
#include "core/cluster_state.h"
#include "core/mutation.h"

#include <string.h>

static bool wanted(const struct job *j, const struct node *n)
{
    return !n->draining && (!j->wish.listed || n->listed || n->duty == DUTY_HELPS);
}

/* Does it have a living worker that holds the lineage? */
static bool holds_state(const struct node *n)
{
    return n->tally.survivors_n > 0 && node_alive(n);
}

static struct load *load_of(struct cluster *c, uint64_t host)
{
    uint64_t h = host * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t i = (uint32_t)(h >> 32) & (c->buckets - 1);

    while (c->loads[i].used && c->loads[i].host != host) {
        i = (i + 1) & (c->buckets - 1);
    }
    c->loads[i].used = true;
    c->loads[i].host = host;
    return &c->loads[i];
}

/* Puts picked[first, end) into the order in which the nodes came. */
static void by_number(struct cluster *c, uint32_t first, uint32_t end)
{
    struct heap heap;

    heap_init(&heap, c->ranking, c->config.nodes_max);
    for (uint32_t i = first; i < end; i++) {
        heap_push(&heap, c->nodes[c->picked[i]].number, c->picked[i]);
    }
    for (uint32_t i = first; i < end; i++) {
        c->picked[i] = heap_top(&heap)->value;
        heap_pop(&heap);
    }
}

static uint32_t pick_newcomers(struct cluster *c, struct job *j, uint32_t picked_n, uint32_t cap,
                               bool whole)
{
    uint32_t first = picked_n, trainers_n = 0, workers_n = 0;
    uint32_t workers_max = j->mode == MODE_INPROCESS ? c->config.group_max : UINT32_MAX;
    struct heap heap;

    memset(c->loads, 0, c->buckets * sizeof(*c->loads));
    for (uint32_t i = 0; i < picked_n; i++) {
        load_of(c, c->nodes[c->picked[i]].host)->n++;
        trainers_n += c->nodes[c->picked[i]].duty == DUTY_TRAINS;
        workers_n += c->nodes[c->picked[i]].slots;
    }
    heap_init(&heap, c->ranking, c->config.nodes_max);
    for (struct node *n = node_at(c, j->others.first); n != NULL; n = node_at(c, n->next)) {
        if ((whole ? n->available : n->joinable) && wanted(j, n)) {
            heap_push(&heap, (uint64_t)load_of(c, n->host)->n << 32 | n->number, node_index(c, n));
        }
    }
    while (heap_top(&heap) != NULL) {
        struct heap_item top = *heap_top(&heap);
        const struct node *n = &c->nodes[top.value];
        struct load *load = load_of(c, n->host);

        heap_pop(&heap);
        if (trainers_n >= cap && n->duty == DUTY_TRAINS) {
            continue;
        }
        if (!RULE(GROUP_HAS_ROOM, workers_n + n->slots <= workers_max)) {
            continue;
        }
        if (load->n != top.key >> 32) { /* Its host was taken from since. */
            heap_push(&heap, (uint64_t)load->n << 32 | n->number, top.value);
            continue;
        }
        load->n++;
        workers_n += n->slots;
        trainers_n += n->duty == DUTY_TRAINS;
        c->picked[picked_n++] = top.value;
    }
    by_number(c, first, picked_n);
    return picked_n;
}

/* Members by seniority. `whole`: only nodes with all their slots, as a fresh start wants. */
static uint32_t pick_members(struct cluster *c, struct job *j, uint32_t cap, bool whole,
                             bool leavers)
{
    uint32_t picked_n = 0, trainers_n = 0;

    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        bool in = whole ? n->available : holds_state(n);

        if ((trainers_n < cap || n->duty == DUTY_HELPS) && in && (leavers || wanted(j, n))) {
            trainers_n += n->duty == DUTY_TRAINS;
            c->picked[picked_n++] = node_index(c, n);
        }
    }
    return picked_n;
}

uint32_t pick_nodes(struct cluster *c, struct job *j, bool whole)
{
    uint32_t cap = job_size(c, j);
    uint32_t members_n = pick_members(c, j, cap, whole, false);
    uint32_t picked_n = pick_newcomers(c, j, members_n, cap, whole);

    if (whole || members_n > 0 || MUTATED(BOUNDARY_KEEPS_ONE)) {
        return picked_n;
    }
    /* A full replacement: the old and the new together first, so that the state is handed on. With
     * nobody to hand it on to, leavers stay until somebody comes. */
    members_n = pick_members(c, j, UINT32_MAX, whole, true);
    return pick_newcomers(c, j, members_n, members_n + picked_n, whole);
}
