/* A snapshot: the shortest list of records that rebuilds the durable state. */
#include "core/cluster_state.h"

#include <string.h>

static void dump_job(struct cluster *c, const struct job *j, struct sink *to)
{
    struct record r = {.kind = RECORD_JOB,
                       .u.job = {.run = j->run,
                                 .min = j->min,
                                 .max = j->max,
                                 .max_restarts = j->max_restarts,
                                 .mode = j->mode,
                                 .nodes_floor = c->nodes_floor}};

    strcpy(r.u.job.job, j->name);
    if (j->members_n == 0) {
        r.u.job.generation_floor = j->number;
    }
    to->put(to, &r);
}

static void dump_node(struct cluster *c, const struct node *n, struct sink *to)
{
    struct record r = {.kind = RECORD_NODE};

    strcpy(r.u.node.job, c->jobs[n->job].name);
    strcpy(r.u.node.name, n->name);
    r.u.node.node = n->number;
    r.u.node.incarnation = n->incarnation;
    r.u.node.host = n->host;
    r.u.node.slots = n->slots;
    r.u.node.role = n->role;
    r.u.node.place = n->place;
    to->put(to, &r);
}

static void dump_spent(struct cluster *c, const struct node *n, struct sink *to)
{
    for (uint32_t s = 0; s < n->slots; s++) {
        const struct worker *w = node_worker(c, n, s);
        struct record r = {.kind = RECORD_SPENT,
                           .u.spent = {.slot = s,
                                       .count = w->spent,
                                       .worker = wid_make(n->number, s, w->spent_inc)}};

        if (w->spent != 0) {
            strcpy(r.u.spent.job, c->jobs[n->job].name);
            strcpy(r.u.spent.name, n->name);
            to->put(to, &r);
        }
    }
}

/* Only the membership of the active generation still matters once another is published. */
static void dump_active(struct cluster *c, struct job *j, struct sink *to)
{
    struct record r = {
        .kind = RECORD_GENERATION,
        .u.generation = {
            .run = j->run, .number = j->active, .kind = GENERATION_FAILURE, .members = c->scratch}};
    struct record active = {.kind = RECORD_ACTIVE, .u.active.generation = j->active};
    struct generation *g = &r.u.generation;

    strcpy(g->job, j->name);
    strcpy(active.u.active.job, j->name);
    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        for (uint32_t s = 0; s < n->slots; s++) {
            const struct worker *w = node_worker(c, n, s);

            if (w->active_inc != 0) {
                struct member *m = &c->scratch[g->members_n++];

                *m = (struct member){.worker = wid_make(n->number, s, w->active_inc),
                                     .host = n->host,
                                     .role = n->role,
                                     .flags = MEMBER_CAUGHT_UP};
                memcpy(m->addr, w->named_addr, sizeof(m->addr));
                m->port = w->named_port;
            }
        }
    }
    to->put(to, &r);
    to->put(to, &active);
}

static void dump_generations(struct cluster *c, struct job *j, struct sink *to)
{
    struct record r = {.kind = RECORD_GENERATION};
    struct record active = {.kind = RECORD_ACTIVE, .u.active.generation = j->active};

    if (j->members_n == 0) {
        return;
    }
    if (j->active != 0 && j->active != j->number && !job_heals(j)) {
        dump_active(c, j, to);
    }
    generation_fill(c, j, &r.u.generation);
    to->put(to, &r);
    if (j->active == j->number) {
        strcpy(active.u.active.job, j->name);
        to->put(to, &active);
    }
}

/* While the job heals this is what has given up its generation; later it only remembers. */
static void dump_heal(const struct job *j, bool heals, struct sink *to)
{
    struct record r = {.kind = RECORD_HEAL,
                       .u.heal = {.run = j->run,
                                  .generation = j->heal.generation,
                                  .step = j->heal.step,
                                  .at = j->heal.at,
                                  .count = j->heal.count,
                                  .odd = j->heal.odd}};

    if (j->heal.generation != 0 && heals == job_heals(j)) {
        strcpy(r.u.heal.job, j->name);
        to->put(to, &r);
    }
}

static void dump_rest(const struct job *j, struct sink *to)
{
    struct record ckpt = {.kind = RECORD_CHECKPOINT,
                          .u.checkpoint = {.run = j->run, .step = j->checkpoint}};
    struct record finished = {.kind = RECORD_FINISHED,
                              .u.finished = {.run = j->run,
                                             .step = j->finished_step,
                                             .ended = j->ended,
                                             .failed = j->failed,
                                             .at_ms = j->ended_ms}};

    strcpy(ckpt.u.checkpoint.job, j->name);
    if (j->checkpoint_before != 0) {
        struct record before = ckpt;

        before.u.checkpoint.step = j->checkpoint_before;
        to->put(to, &before);
    }
    strcpy(finished.u.finished.job, j->name);
    strcpy(finished.u.finished.why, j->why);
    to->put(to, &ckpt);
    if (j->finished) {
        to->put(to, &finished);
    }
}

/* ---- in pieces ---- */

#define NODES_AT_ONCE 64
#define MEMORIES_AT_ONCE 64

enum { PART_MEMORIES, PART_JOBS, PART_NODES, PART_REST, PART_LEFT, PARTS_N };

/* The used job that comes next by name: where in the pool one is says when its first agent came. */
static struct job *next_job(struct cluster *c, struct cursor *at)
{
    const struct job *last = at->at == 0 ? NULL : &c->jobs[at->at - 1];
    struct job *next = NULL;

    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        struct job *j = &c->jobs[i];

        if (j->used && j->run != 0 && (last == NULL || strcmp(j->name, last->name) > 0) &&
            (next == NULL || strcmp(j->name, next->name) < 0)) {
            next = j;
        }
    }
    at->at = next == NULL ? 0 : job_index(c, next) + 1;
    return next;
}

/* All durable nodes by number, in `picked`; how many there are. */
static uint32_t sort_nodes(struct cluster *c)
{
    struct heap heap;
    uint32_t n = 0;

    heap_init(&heap, c->ranking, c->config.nodes_max);
    for (uint32_t i = 0; i < c->config.nodes_max; i++) {
        if (c->nodes[i].state == NODE_UP || c->nodes[i].state == NODE_GONE) {
            heap_push(&heap, c->nodes[i].number, i);
        }
    }
    for (; heap_top(&heap) != NULL; heap_pop(&heap)) {
        c->picked[n++] = heap_top(&heap)->value;
    }
    return n;
}

static void dump_left(const struct node *n, struct sink *to)
{
    if (n->state == NODE_GONE) {
        to->put(to, &(struct record){.kind = RECORD_GONE,
                                     .u.gone = {.node = n->number, .ended = n->saw_end}});
    } else if (n->drained) {
        to->put(to, &(struct record){.kind = RECORD_DRAIN, .u.drain.node = n->number});
    }
}

/* True: there are more nodes. */
static bool dump_nodes(struct cluster *c, struct cursor *at, struct sink *to)
{
    uint32_t end;

    if (at->at == 0) {
        at->after = sort_nodes(c);
    }
    end = (uint32_t)MIN(at->after, at->at + NODES_AT_ONCE);
    for (; at->at < end; at->at++) {
        const struct node *n = &c->nodes[c->picked[at->at]];

        if (at->part == PART_LEFT) {
            dump_left(n, to);
        } else {
            dump_node(c, n, to); /* before one of its name that has replaced it */
            dump_spent(c, n, to);
        }
    }
    return at->at < at->after;
}

/* True: there are more jobs. */
static bool dump_jobs(struct cluster *c, struct cursor *at, struct sink *to)
{
    struct job *j = next_job(c, at);

    if (j != NULL && at->part == PART_JOBS) {
        dump_job(c, j, to);
    } else if (j != NULL) {
        dump_heal(j, false, to);
        dump_generations(c, j, to);
        dump_heal(j, true, to);
        dump_rest(j, to);
    }
    return j != NULL;
}

static bool dump_memories(struct cluster *c, struct cursor *at, struct sink *to)
{
    uint32_t end = MIN(c->config.memories_max, at->at + MEMORIES_AT_ONCE);

    for (; at->at < end; at->at++) {
        dump_memory(c, at->at, to);
    }
    return at->at < c->config.memories_max;
}

bool cluster_dump(void *cluster, struct cursor *at, struct sink *to)
{
    bool more;

    if (at->part == PARTS_N) {
        return false;
    }
    if (at->part == PART_MEMORIES) {
        more = dump_memories(cluster, at, to);
    } else if (at->part == PART_JOBS || at->part == PART_REST) {
        more = dump_jobs(cluster, at, to);
    } else {
        more = dump_nodes(cluster, at, to);
    }
    if (!more) {
        *at = (struct cursor){.part = at->part + 1};
    }
    return true;
}
