/* A snapshot: the shortest list of records that rebuilds the durable state. */
#include "core/cluster_state.h"

#include <string.h>

static void dump_job(struct cluster *c, const struct job *j, struct effects *fx)
{
    struct record r = {.kind = RECORD_JOB,
                       .u.job = {.run = j->run,
                                 .min = j->min,
                                 .max = j->max,
                                 .max_restarts = j->max_restarts,
                                 .mode = j->mode,
                                 .nodes_floor = c->next_node}};

    strcpy(r.u.job.job, j->name);
    if (j->members_n == 0) {
        r.u.job.generation_floor = j->number;
    }
    say_record(fx, &r);
}

static void dump_node(struct cluster *c, const struct node *n, struct effects *fx)
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
    say_record(fx, &r);
}

static void dump_spent(struct cluster *c, const struct node *n, struct effects *fx)
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
            say_record(fx, &r);
        }
    }
}

/* Nameless nodes (replaced by a newer one of their name) come first, as they did. */
static void dump_nodes(struct cluster *c, struct effects *fx)
{
    for (int named = 0; named < 2; named++) {
        for (uint32_t i = 0; i < c->config.nodes_max; i++) {
            struct node *n = &c->nodes[i];

            if (n->state != NODE_UP && n->state != NODE_GONE) {
                continue;
            }
            if ((node_by_name_durable(c, n->job, n->name) == n) == (named != 0)) {
                dump_node(c, n, fx);
                dump_spent(c, n, fx);
            }
        }
    }
}

/* Only the membership of the active generation still matters once another is published. */
static void dump_active(struct cluster *c, struct job *j, struct effects *fx)
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
    say_record(fx, &r);
    say_record(fx, &active);
}

static void dump_generations(struct cluster *c, struct job *j, struct effects *fx)
{
    struct record r = {.kind = RECORD_GENERATION};
    struct record active = {.kind = RECORD_ACTIVE, .u.active.generation = j->active};

    if (j->members_n == 0) {
        return;
    }
    if (j->active != 0 && j->active != j->number && !job_heals(j)) {
        dump_active(c, j, fx);
    }
    generation_fill(c, j, &r.u.generation);
    say_record(fx, &r);
    if (j->active == j->number) {
        strcpy(active.u.active.job, j->name);
        say_record(fx, &active);
    }
}

/* While the job heals this is what has given up its generation; later it only remembers. */
static void dump_heal(const struct job *j, bool heals, struct effects *fx)
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
        say_record(fx, &r);
    }
}

static void dump_rest(struct cluster *c, struct job *j, struct effects *fx)
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
        say_record(fx, &before);
    }
    strcpy(finished.u.finished.job, j->name);
    strcpy(finished.u.finished.why, j->why);
    say_record(fx, &ckpt);
    dump_settings(c, j, fx);
    if (j->finished) {
        say_record(fx, &finished);
    }
}

void cluster_dump(struct cluster *c, struct effects *fx)
{
    dump_memories(c, fx);
    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        if (c->jobs[i].used && c->jobs[i].run != 0) {
            dump_job(c, &c->jobs[i], fx);
        }
    }
    dump_nodes(c, fx);
    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        if (c->jobs[i].used && c->jobs[i].run != 0) {
            dump_heal(&c->jobs[i], false, fx);
            dump_generations(c, &c->jobs[i], fx);
            dump_heal(&c->jobs[i], true, fx);
            dump_rest(c, &c->jobs[i], fx);
        }
    }
    for (uint32_t i = 0; i < c->config.nodes_max; i++) {
        const struct node *n = &c->nodes[i];

        if (n->state == NODE_GONE) {
            say_record(fx, &(struct record){.kind = RECORD_GONE,
                                            .u.gone = {.node = n->number, .ended = n->saw_end}});
        } else if (n->state == NODE_UP && n->drained) {
            say_record(fx, &(struct record){.kind = RECORD_DRAIN, .u.drain.node = n->number});
        }
    }
}
