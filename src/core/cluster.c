/* The cluster's front: memory, time, and the way of an event through it. */
#include "core/cluster.h"

#include "core/cluster_state.h"
#include "core/mutation.h"

#include <stdlib.h>
#include <string.h>

#ifdef MUSTER_MUTATIONS
enum mutation core_mutation;
#endif

struct cluster_config cluster_defaults(void)
{
    return (struct cluster_config){.jobs_max = 64,
                                   .nodes_max = 16384,
                                   .workers_max = 65536,
                                   .memories_max = 1024,
                                   .group_max = MU_REDUCE_MAX,
                                   .lease_ms = 5000,
                                   .reconnect_ms = 100,
                                   .suspect_ms = 50,
                                   .join_window_ms = 2000,
                                   .orphan_ms = 600000,
                                   .takeover_ms = 620000,
                                   .retry_ms = 100,
                                   .linger_ms = 300000,
                                   .settings = {.keys_n = 256,
                                                .value_bytes = CONFIG_VALUE_MAX,
                                                .total_bytes = 256u << 10,
                                                .window_n = 1024}};
}

static bool config_sane(const struct cluster_config *k)
{
    return k->jobs_max >= 1 && k->memories_max >= 1 && k->group_max >= 1 && k->nodes_max >= 1 &&
           k->nodes_max < NONE / 2 && k->workers_max >= 1 && k->workers_max <= MEMBERS_MAX &&
           k->lease_ms >= 8 && k->takeover_ms > (uint64_t)k->orphan_ms + k->lease_ms;
}

static void *pool_init(struct cluster *c, size_t n, size_t size)
{
    c->memory += n * size;
    return calloc(n, size);
}

int cluster_init(const struct cluster_config *config, struct config_table *settings,
                 struct cluster **c_out)
{
    struct cluster *c;
    struct heap_item *items;

    if (!config_sane(config)) {
        return MU_EINVAL;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return MU_ENOMEM;
    }
    c->config = *config;
    c->settings = settings;
    c->memory = sizeof(*c);
    for (c->buckets = 16; c->buckets < config->nodes_max * 2; c->buckets *= 2) {
    }
    c->jobs = pool_init(c, config->jobs_max, sizeof(*c->jobs));
    c->nodes = pool_init(c, config->nodes_max, sizeof(*c->nodes));
    c->workers = pool_init(c, config->workers_max, sizeof(*c->workers));
    c->scratch = pool_init(c, config->workers_max, sizeof(*c->scratch));
    c->helpers = pool_init(c, config->workers_max, sizeof(*c->helpers));
    c->picked = pool_init(c, config->nodes_max, sizeof(*c->picked));
    c->ranking = pool_init(c, config->nodes_max, sizeof(*c->ranking));
    c->loads = pool_init(c, c->buckets, sizeof(*c->loads));
    c->by_name = pool_init(c, c->buckets, sizeof(uint32_t));
    c->by_number = pool_init(c, c->buckets, sizeof(uint32_t));
    c->by_conn = pool_init(c, c->buckets, sizeof(uint32_t));
    c->memories = pool_init(c, config->memories_max, sizeof(*c->memories));
    items = pool_init(c, (size_t)config->nodes_max * 2, sizeof(*items));
    heap_init(&c->heap, items, config->nodes_max * 2);
    if (c->jobs == NULL || c->nodes == NULL || c->workers == NULL || c->scratch == NULL ||
        c->helpers == NULL || c->picked == NULL || c->ranking == NULL || c->loads == NULL ||
        c->by_name == NULL || c->by_number == NULL || c->by_conn == NULL || c->memories == NULL ||
        items == NULL) {
        cluster_close(c);
        return MU_ENOMEM;
    }
    memset(c->by_name, 0xff, c->buckets * sizeof(uint32_t));
    memset(c->by_number, 0xff, c->buckets * sizeof(uint32_t));
    memset(c->by_conn, 0xff, c->buckets * sizeof(uint32_t));
    memset(c->free_slots, 0xff, sizeof(c->free_slots));
    for (uint32_t i = 0; i < config->nodes_max; i++) {
        c->nodes[i].next = i + 1 < config->nodes_max ? i + 1 : NONE;
    }
    c->touched = c->filled_job = NONE;
    c->next_node = c->nodes_floor = 1;
    c->jobs_due_ms = NEVER;
    *c_out = c;
    return MU_OK;
}

void cluster_close(struct cluster *c)
{
    if (c == NULL) {
        return;
    }
    free(c->jobs);
    free(c->nodes);
    free(c->workers);
    free(c->scratch);
    free(c->helpers);
    free(c->picked);
    free(c->ranking);
    free(c->loads);
    free(c->by_name);
    free(c->by_number);
    free(c->by_conn);
    free(c->memories);
    free(c->heap.items);
    free(c);
}

void cluster_settle(struct cluster *c, struct effects *fx)
{
    while (c->touched != NONE) {
        struct job *j = &c->jobs[c->touched];

        c->touched = j->next_touched;
        j->touched = false;
        job_evaluate(c, j, fx);
        roster_publish(c, j, fx);
    }
}

void cluster_start(struct cluster *c, uint64_t now_ms, uint64_t wall_ms, struct effects *fx)
{
    c->started = true;
    c->wall_zero_ms = wall_ms - now_ms;
    c->now_ms = c->start_ms = now_ms;
    c->grace_ms = now_ms + c->config.lease_ms;
    for (uint32_t i = 0; i < c->config.nodes_max; i++) {
        if (c->nodes[i].state == NODE_UP) {
            c->nodes[i].lease_end_ms = c->grace_ms;
            c->nodes[i].closed_ms = NEVER;
            node_watch(c, &c->nodes[i]);
            if (node_by_name_durable(c, c->nodes[i].job, c->nodes[i].name) != &c->nodes[i]) {
                c->nodes[i].lapsed = true; /* Replaced: it will not come back. */
            }
            node_refresh(c, &c->nodes[i]);
        }
    }
    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        if (c->jobs[i].used) {
            c->jobs[i].newcomer_ms = c->jobs[i].published_ms = now_ms;
            c->jobs[i].over_ms = MIN(c->jobs[i].ended_ms, wall_ms); /* That clock may go back. */
            roster_restart(&c->jobs[i]);
            job_touch(c, &c->jobs[i]);
        }
    }
    for (uint32_t i = 0; i < c->config.memories_max; i++) {
        c->memories[i].over_ms = MIN(c->memories[i].ended_ms, wall_ms);
    }
    say_note(fx, &(struct note){.kind = NOTE_RESTARTED});
    cluster_settle(c, fx);
}

/* A clock that jumped means that we were stopped, not that everyone else died. */
static void take_time(struct cluster *c, uint64_t now_ms)
{
    mu_assert(c->started && now_ms >= c->now_ms);
    if (!RULE(GRACE_AFTER_JUMP, now_ms - c->now_ms <= c->config.lease_ms / 4)) {
        c->grace_ms = now_ms + c->config.lease_ms;
        c->start_ms = MUTATED(JUMP_RESTARTS_WAIT) ? c->start_ms : now_ms;
        c->jump_ms = now_ms;
    }
    c->now_ms = now_ms;
}

static void jobs_tick(struct cluster *c)
{
    if (c->now_ms < c->jobs_due_ms) {
        return;
    }
    c->jobs_due_ms = NEVER;
    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        struct job *j = &c->jobs[i];

        if (!j->used) {
            continue;
        }
        if (j->due_ms <= c->now_ms) {
            j->due_ms = NEVER;
            job_touch(c, j);
        }
        c->jobs_due_ms = MIN(c->jobs_due_ms, j->due_ms);
    }
}

/* The job of a record of ours: there is one. */
static struct job *job_of(struct cluster *c, const char *name)
{
    struct job *j = job_find(c, name);

    mu_assert(j != NULL);
    return j;
}

static void node_unmade(struct cluster *c, const struct rec_node *r, struct effects *fx)
{
    struct node *n = node_joining(c, r->job, r->name, r->incarnation);

    if (n != NULL) {
        if (n->conn != 0) {
            say_refused(fx, n->conn, MU_EAGAIN,
                        "node '%s' could not be written to the journal; it will be tried again",
                        n->name);
        }
        c->jobs[n->job].coming_n--;
        node_free(c, n);
    }
}

/* The next report of that exit will charge it again. */
static void uncharge(struct cluster *c, const struct rec_spent *r)
{
    struct job *j = job_of(c, r->job);
    struct node *n = node_by_name_durable(c, job_index(c, j), r->name);

    if (n != NULL && r->slot < n->slots) {
        struct worker *w = node_worker(c, n, r->slot);

        w->charged = w->spent;
        w->charged_inc = w->spent_inc;
    }
}

/* Memory is never ahead of the journal: only what waited for the record is undone. */
static int on_write_failed(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct record *r = e->u.record;
    struct job *j = NULL;
    struct node *n;

    switch (r->kind) {
    case RECORD_JOB:
        j = job_of(c, r->u.job.job);
        j->creating = j->deciding = false;
        break;
    case RECORD_NODE:
        node_unmade(c, &r->u.node, fx);
        break;
    case RECORD_GONE:
        n = node_by_number(c, r->u.gone.node);
        mu_assert(n != NULL);
        n->going = false;
        if (n->state == NODE_UP) { /* Otherwise its place was to be another's. */
            node_refresh(c, n);
            n->lease_end_ms = c->now_ms + c->config.retry_ms;
            node_watch(c, n);
        }
        break;
    case RECORD_GENERATION:
        j = job_of(c, r->u.generation.job);
        j->pending = false;
        j->proposed = 0;
        break;
    case RECORD_ACTIVE:
        j = job_of(c, r->u.active.job);
        j->pending = false;
        break;
    case RECORD_HEAL:
        j = job_of(c, r->u.heal.job);
        j->pending = false;
        break;
    case RECORD_FINISHED:
        j = job_of(c, r->u.finished.job);
        j->finishing = false;
        j->failing |= r->u.finished.failed != 0; /* It will not be said again why. */
        if (j->failing) {
            memcpy(j->why, r->u.finished.why, sizeof(j->why));
        }
        break;
    case RECORD_CHECKPOINT:
        j = job_of(c, r->u.checkpoint.job);
        j->saving = false;
        break;
    case RECORD_SPENT:
        uncharge(c, &r->u.spent);
        break;
    case RECORD_FORGOTTEN:
        j = job_of(c, r->u.forgotten.job);
        j->forgetting = false;
        break;
    default: /* Who asked for a drain is told by the driver. */
        break;
    }
    if (j != NULL) {
        j->retry_ms = c->now_ms + c->config.retry_ms;
        job_touch(c, j);
    }
    return MU_OK;
}

static int dispatch(struct cluster *c, const struct event *e, struct effects *fx)
{
    switch (e->kind) {
    case EVENT_TICK:
        return MU_OK;
    case EVENT_HELLO:
        return on_hello(c, e, fx);
    case EVENT_RENEW:
        return on_renew(c, e, fx);
    case EVENT_REPORTS:
        return on_reports(c, e, fx);
    case EVENT_BYE:
        return on_bye(c, e, fx);
    case EVENT_CLOSED:
        return on_closed(c, e, fx);
    case EVENT_ADMIN:
        return on_admin(c, e, fx);
    case EVENT_MODE:
        return on_mode(c, e, fx);
    case EVENT_WRITE_FAILED:
        return on_write_failed(c, e, fx);
    }
    return MU_EINVAL;
}

int cluster_step(struct cluster *c, const struct event *e, struct effects *fx)
{
    int rc;

    take_time(c, e->now_ms);
    rc = dispatch(c, e, fx);
    live_tick(c, fx);
    jobs_tick(c);
    cluster_settle(c, fx);
    c->taken_over = NULL;
    return rc;
}

uint64_t cluster_deadline(const struct cluster *c)
{
    const struct heap_item *top = heap_top(&c->heap);
    uint64_t at_ms =
        c->now_ms + c->config.lease_ms / 8; /* so that a jump can be told from idling */

    at_ms = MIN(at_ms, c->jobs_due_ms);
    return top != NULL ? MIN(at_ms, top->key) : at_ms;
}

int cluster_job(const struct cluster *c, const char *job, struct job_view *view_out)
{
    const struct job *j = job_find((struct cluster *)(uintptr_t)c, job);

    if (j == NULL || j->run == 0) {
        return MU_ENOENT;
    }
    *view_out = (struct job_view){.name = j->name,
                                  .run = j->run,
                                  .generation = j->number,
                                  .active = j->active,
                                  .kind = j->kind,
                                  .flags = j->flags,
                                  .members_n = j->members_n,
                                  .nodes_n = j->nodes_n,
                                  .available_n = j->available_n,
                                  .step = j->step,
                                  .checkpoint = j->checkpoint,
                                  .finished = j->finished,
                                  .ended = j->ended};
    return MU_OK;
}

int cluster_generation(struct cluster *c, const char *job, struct generation *g_out)
{
    struct job *j = job_find(c, job);

    if (j == NULL || j->members_n == 0) {
        return MU_ENOENT;
    }
    generation_fill(c, j, g_out);
    return MU_OK;
}

size_t cluster_memory(const struct cluster *c)
{
    return c->memory;
}
