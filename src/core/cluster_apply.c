/* Durable state: what each record does. The same code serves a record that has just become
 * durable (fx is there) and the replay of a journal (fx is NULL, time stands still). */
#include "core/cluster_state.h"
#include "core/mutation.h"

#include <string.h>

#define EACH_IN(c, l, n)                                  \
    for (struct node *n = node_at(c, (l)->first), *next_; \
         n != NULL && (next_ = node_at(c, n->next), 1); n = next_)

void forget_tombs(struct cluster *c, uint32_t job)
{
    for (uint32_t i = 0; i < c->config.nodes_max; i++) {
        struct node *n = &c->nodes[i];

        if (n->state == NODE_GONE && n->job == job && !n->senior) {
            node_free(c, n);
        }
    }
}

/* A node that is gone and that no generation names: kept only to remember its budget, and that it
 * saw the end of the run. */
static void bury(struct cluster *c, struct node *n)
{
    struct job *j = &c->jobs[n->job];
    bool named = node_by_name_durable(c, n->job, n->name) == n;
    uint32_t spent = 0;

    node_refresh(c, n); /* nothing of it stays in the job's counts */
    list_remove(c, &j->others, n);
    for (uint32_t s = 0; s < n->slots; s++) {
        spent += node_worker(c, n, s)->spent;
    }
    if ((spent == 0 && !n->saw_end) || !named) {
        node_free(c, n);
    }
}

/* Puts every node into the list that fits its workers, rank order kept. */
static void relist(struct cluster *c, struct job *j, struct effects *fx)
{
    EACH_IN (c, &j->seniors, n) {
        bool in = false;

        for (uint32_t s = 0; s < n->slots; s++) {
            in |= node_worker(c, n, s)->active_inc != 0 || node_worker(c, n, s)->current_inc != 0;
        }
        if (in) {
            continue;
        }
        list_remove(c, &j->seniors, n);
        list_push(c, &j->others, n);
        n->senior = false;
        if (n->state == NODE_GONE) {
            bury(c, n);
        } else if (n->lapsed && fx != NULL) {
            node_leave(c, n, fx);
        }
    }
}

static void clear_members(struct cluster *c, struct job *j, bool active_too)
{
    EACH_IN (c, &j->seniors, n) {
        for (uint32_t s = 0; s < n->slots; s++) {
            struct worker *w = node_worker(c, n, s);

            w->current_inc = 0;
            w->active_inc = active_too ? 0 : w->active_inc;
        }
    }
}

void job_free(struct cluster *c, struct job *j)
{
    clear_members(c, j, true);
    relist(c, j, NULL);
    forget_tombs(c, job_index(c, j));
    j->used = j->forgetting = false;
    j->run = 0;
}

/* Numbers below it are nobody's any more. */
void numbers_given(struct cluster *c, uint32_t floor)
{
    c->nodes_floor = MAX(c->nodes_floor, floor);
    c->next_node = MAX(c->next_node, floor);
}

/* ---- one function per record ---- */

static int apply_job(struct cluster *c, const struct rec_job *r, struct effects *fx)
{
    struct job *j = job_find(c, r->job);
    bool decided;

    if (r->nodes_floor > NUMBER_MAX || r->generation_floor > INT64_MAX) {
        return MU_ECORRUPT;
    }
    if (j == NULL) {
        j = job_make(c, r->job);
    }
    if (j == NULL || r->run < j->run) {
        return MU_ECORRUPT;
    }
    decided = r->run == j->run && r->mode != j->mode;
    j->min = r->min;
    j->max = r->max;
    j->max_restarts = r->max_restarts;
    j->mode = r->mode;
    j->creating = j->deciding = j->deserted = false;
    numbers_given(c, r->nodes_floor);
    j->number = MAX(j->number, r->generation_floor);
    j->next_number = MAX(j->next_number, j->number);
    if (r->run > j->run) {
        memory_drop(c, r->job);
        clear_members(c, j, true);
        relist(c, j, NULL);
        forget_tombs(c, job_index(c, j));
        j->run = r->run;
        j->members_n = j->active_n = 0;
        j->active = j->checkpoint = j->saved = j->step = j->finished_step = 0;
        j->ended_ms = j->over_ms = 0;
        j->checkpoint_before = 0;
        j->heal = (struct heal){0};
        j->faulted = false;
        j->kind = GENERATION_FRESH;
        j->finished = j->ended = j->failed = j->finishing = j->done = j->saving = false;
        j->led = false;
        j->failing = false;
        j->why[0] = '\0';
        j->futile_n = 0;
        j->blame.until_ms = 0;
        j->stepped = false;
        j->wish = (struct wish){0}; /* What was wanted of the last run is not wanted of this: */
        nodes_unlist(c, j);         /* those settings go with this record. */
    }
    if (decided) {
        job_refresh(c, j); /* Whoever helps does so in another way now. */
    }
    job_touch(c, j);
    if (decided && fx != NULL) {
        publish_mode(c, j, fx);
    }
    return MU_OK;
}

/* A newer node of the same name: the older one keeps its place in its generations, without the
 * name, and hands on what its slots have spent. */
static void replace_node(struct cluster *c, struct node *old, struct node *n, struct effects *fx)
{
    for (uint32_t s = 0; s < MIN(old->slots, n->slots); s++) {
        node_worker(c, n, s)->spent = node_worker(c, old, s)->spent;
        node_worker(c, n, s)->charged = node_worker(c, old, s)->charged;
    }
    node_forget_name(c, old);
    if (old->state == NODE_GONE && !old->senior) {
        node_free(c, old);
    } else if (old->state == NODE_UP && !old->lapsed) {
        old->lapsed = true;
        node_refresh(c, old);
        if (!old->senior && fx != NULL) {
            node_leave(c, old, fx);
        }
    }
}

static int apply_node(struct cluster *c, const struct rec_node *r, struct effects *fx)
{
    struct job *j = job_find(c, r->job);
    struct node *n, *old;

    if (j == NULL || r->node == 0 || r->node >= NUMBER_MAX || node_by_number(c, r->node) != NULL ||
        r->slots == 0 || r->slots > SLOTS_MAX || r->role >= ROLE_N) {
        return MU_ECORRUPT;
    }
    old = node_by_name_durable(c, job_index(c, j), r->name);
    n = node_joining(c, r->job, r->name, r->incarnation);
    if (n == NULL) {
        n = node_make(c, job_index(c, j), r->name, r->slots);
    } else {
        j->coming_n--;
    }
    if (n == NULL) {
        return MU_ELIMIT;
    }
    n->incarnation = r->incarnation;
    n->host = r->host;
    n->role = r->role;
    n->place = r->place;
    n->unheard = fx == NULL && !MUTATED(ROSTER_AWAITS_ALL);
    n->state = NODE_UP;
    node_number(c, n, r->node);
    numbers_given(c, r->node + 1);
    if (old != NULL) {
        replace_node(c, old, n, fx);
    }
    wish_of_node(c, n);
    list_push(c, &j->others, n);
    node_refresh(c, n);
    j->nodes_n++;
    j->deserted = false;
    if (n->duty == DUTY_TRAINS || j->mode != MODE_INPROCESS) {
        j->newcomer_ms = c->now_ms;
    }
    n->lease_end_ms = c->now_ms + c->config.lease_ms;
    if (fx != NULL) {
        node_watch(c, n);
        say_note(fx, &(struct note){
                         .kind = NOTE_JOINED, .job = j->name, .node = n->name, .value = n->number});
        say_welcome(c, n, fx);
        say_level(c, n, fx);
    }
    return MU_OK;
}

static bool node_left(struct cluster *c, const struct node *n)
{
    bool left = true;

    for (uint32_t s = 0; s < n->slots; s++) {
        left &= worker_left(node_worker(c, n, s));
    }
    return left;
}

static int apply_gone(struct cluster *c, const struct rec_gone *r, struct effects *fx)
{
    struct node *n = node_by_number(c, r->node);
    struct job *j;

    if (r->forgotten && n != NULL && n->state == NODE_GONE && !n->senior) {
        node_free(c, n);
        return MU_OK;
    }
    if (r->forgotten || n == NULL || n->state != NODE_UP) {
        return MU_ECORRUPT;
    }
    j = &c->jobs[n->job];
    say_note(fx, &(struct note){.kind = n->draining ? NOTE_DRAINED : NOTE_GONE,
                                .job = j->name,
                                .node = n->name,
                                .generation = j->number});
    n->state = NODE_GONE;
    n->saw_end = r->ended != 0 && !MUTATED(SEEN_IS_KEPT);
    n->going = false;
    conn_drop(c, n);
    node_refresh(c, n);
    j->nodes_n--;
    j->deserted = fx != NULL && j->nodes_n == 0 && !n->draining && node_left(c, n);
    j->left_ms = c->now_ms;
    job_touch(c, j);
    if (!n->senior) {
        bury(c, n);
    }
    return MU_OK;
}

static void enlist(struct cluster *c, struct job *j, const struct member *m, bool replay)
{
    struct node *n = node_by_number(c, wid_node(m->worker));
    struct worker *w = node_worker(c, n, wid_slot(m->worker));

    n->silent = false; /* Its script starts anew. */
    w->current_inc = wid_incarnation(m->worker);
    w->caught_up = (m->flags & MEMBER_CAUGHT_UP) != 0;
    memcpy(w->named_addr, m->addr, sizeof(w->named_addr));
    w->named_port = m->port;
    w->port_used = m->port != 0 && (replay || m->port == w->port);
    if (replay) { /* Its agent will say how it is; until then it has the benefit of the doubt. */
        w->incarnation = w->current_inc;
        w->phase = PHASE_IN;
        memcpy(w->addr, m->addr, sizeof(w->addr));
        w->port = m->port;
    }
    if (!n->senior) {
        list_remove(c, &j->others, n);
        list_push(c, &j->seniors, n);
        n->senior = true;
    }
}

/* A node that is there and was not named before, or the next slot of the one that was. */
static bool member_sane(struct cluster *c, uint32_t job, uint64_t generation, wid before, wid id)
{
    struct node *n = node_by_number(c, wid_node(id));

    if (n == NULL || n->job != job || wid_slot(id) >= n->slots || wid_incarnation(id) == 0 ||
        (n->state == NODE_GONE && !n->senior)) {
        return false;
    }
    if (n->seen == generation) {
        return wid_node(before) == wid_node(id) && wid_slot(before) < wid_slot(id);
    }
    n->seen = generation;
    return true;
}

static int apply_generation(struct cluster *c, const struct generation *g, struct effects *fx)
{
    struct job *j = job_find(c, g->job);

    if (j == NULL || g->run != j->run || g->number <= j->number || g->number > INT64_MAX ||
        g->members_n == 0) {
        return MU_ECORRUPT;
    }
    for (uint32_t i = 0; i < g->members_n; i++) {
        wid before = i > 0 ? g->members[i - 1].worker : 0;

        if (!member_sane(c, job_index(c, j), g->number, before, g->members[i].worker)) {
            return MU_ECORRUPT;
        }
    }
    suspect_note(c, j, g->number, fx);
    clear_members(c, j, false);
    for (uint32_t i = 0; i < g->members_n; i++) {
        enlist(c, j, &g->members[i], fx == NULL);
    }
    j->number = g->number;
    j->next_number = MAX(j->next_number, g->number);
    j->from = g->from;
    j->kind = g->kind;
    j->flags = g->flags;
    j->base_step = g->base_step;
    memcpy(j->key, g->key, sizeof(j->key));
    j->members_n = g->members_n;
    j->published_ms = c->now_ms;
    j->pending = false;
    j->proposed = 0;
    j->suspected = true; /* Who has become a member may have said something before. */
    relist(c, j, fx);
    job_refresh(c, j);
    job_touch(c, j);
    if (fx != NULL) {
        say_note(fx, &(struct note){.kind = NOTE_GENERATION,
                                    .job = j->name,
                                    .generation = j->number,
                                    .value = j->members_n,
                                    .reason =
                                        (const char *[]){"fresh", "boundary", "failure"}[j->kind]});
        publish_generation(c, j, fx);
    }
    return MU_OK;
}

static int apply_active(struct cluster *c, const struct rec_active *r, struct effects *fx)
{
    struct job *j = job_find(c, r->job);

    if (j == NULL || r->generation != j->number || j->members_n == 0) {
        return MU_ECORRUPT;
    }
    EACH_IN (c, &j->seniors, n) {
        for (uint32_t s = 0; s < n->slots; s++) {
            node_worker(c, n, s)->active_inc = node_worker(c, n, s)->current_inc;
        }
    }
    j->active = j->number;
    j->active_n = j->members_n;
    /* What they went on from they have said on entering, and need not say again. */
    EACH_IN (c, &j->seniors, n) {
        for (uint32_t s = 0; s < n->slots; s++) {
            take_checkpoint(j, node_worker(c, n, s));
        }
    }
    j->pending = false;
    j->takeover_asked = false;
    j->faulted = true; /* A member may have stopped before; if none has, that is seen at once. */
    j->word_ms = c->now_ms;
    relist(c, j, fx);
    job_refresh(c, j);
    job_touch(c, j);
    if (fx != NULL) {
        say_note(fx, &(struct note){.kind = NOTE_ACTIVE, .job = j->name, .generation = j->active});
        if ((j->flags & GENERATION_HEALS) != 0) {
            note_healed(c, j, fx);
        }
        publish_active(c, j, fx);
    }
    return MU_OK;
}

static int apply_finished(struct cluster *c, const struct rec_finished *r, struct effects *fx)
{
    struct job *j = job_find(c, r->job);

    if (j == NULL || r->run != j->run) {
        return MU_ECORRUPT;
    }
    j->finishing = false;
    j->finished = true;
    j->finished_step = r->step;
    j->failed = r->failed != 0;
    memcpy(j->why, r->why, sizeof(j->why));
    job_touch(c, j);
    say_note(fx, &(struct note){.kind = r->ended ? NOTE_ENDED : NOTE_FINISHED,
                                .job = j->name,
                                .generation = j->number,
                                .value = r->step,
                                .reason = r->why[0] != '\0' ? j->why : NULL});
    if (!r->ended) {
        if (fx != NULL) {
            publish_mode(c, j, fx);
        }
        return MU_OK;
    }
    j->ended = true;
    j->ended_ms = j->over_ms = r->at_ms;
    j->pending = false;
    j->members_n = j->active_n = 0;
    clear_members(c, j, true);
    relist(c, j, fx);
    job_refresh(c, j);
    if (fx != NULL) {
        publish_ended(c, j, fx);
    }
    return MU_OK;
}

static int apply_spent(struct cluster *c, const struct rec_spent *r, struct effects *fx)
{
    struct job *j = job_find(c, r->job);
    struct node *n = j == NULL ? NULL : node_by_name_durable(c, job_index(c, j), r->name);
    struct worker *w;

    if (n == NULL || r->slot >= n->slots) {
        return j == NULL ? MU_ECORRUPT : MU_OK; /* Replaced by a node with fewer slots. */
    }
    w = node_worker(c, n, r->slot);
    w->spent = MAX(w->spent, r->count);
    w->charged = MAX(w->charged, w->spent);
    if (n->number == wid_node(r->worker)) {
        w->spent_inc = wid_incarnation(r->worker);
        w->charged_inc = MAX(w->charged_inc, w->spent_inc);
    }
    if (fx != NULL && w->spent > j->max_restarts) {
        budget_refuse(c, j, n, n->conn, fx);
    }
    return MU_OK;
}

static int apply_checkpoint(struct cluster *c, const struct rec_checkpoint *r, struct effects *fx)
{
    struct job *j = job_find(c, r->job);

    if (j == NULL || r->run != j->run) {
        return MU_ECORRUPT;
    }
    j->saving = false;
    if (r->step > j->checkpoint) {
        j->checkpoint_before = j->checkpoint;
        j->checkpoint = r->step;
    }
    if (fx != NULL) {
        say_note(fx, &(struct note){.kind = NOTE_SAVED, .job = j->name, .value = r->step});
    }
    job_touch(c, j);
    return MU_OK;
}

/* Nobody holds the lineage any more, whoever comes back. Checkpoints that are newer than `step` are
 * of it, and count no more. */
static int apply_heal(struct cluster *c, const struct rec_heal *r, struct effects *fx)
{
    struct job *j = job_find(c, r->job);

    if (j == NULL || r->run != j->run) {
        return MU_ECORRUPT;
    }
    j->heal = (struct heal){.generation = r->generation,
                            .step = r->step,
                            .at = r->at,
                            .count = r->count,
                            .odd = r->odd};
    j->pending = j->faulted = false;
    if (!MUTATED(HEAL_FORGETS_NEWER)) {
        j->checkpoint = j->saved = j->checkpoint <= r->step ? j->checkpoint : j->checkpoint_before;
        j->checkpoint_before = 0;
    }
    EACH_IN (c, &j->seniors, n) {
        for (uint32_t s = 0; s < n->slots; s++) {
            node_worker(c, n, s)->active_inc = 0;
        }
    }
    j->active = MAX(j->active, r->generation);
    j->active_n = 0;
    relist(c, j, fx);
    job_refresh(c, j);
    job_touch(c, j);
    return MU_OK;
}

static int apply_drain(struct cluster *c, const struct rec_drain *r, struct effects *fx)
{
    struct node *n = node_by_number(c, r->node);

    if (n == NULL) {
        return MU_OK; /* It left by itself meanwhile. */
    }
    n->draining = n->drained = true;
    say_note(fx,
             &(struct note){.kind = NOTE_DRAINING, .job = c->jobs[n->job].name, .node = n->name});
    node_refresh(c, n);
    if (fx != NULL) {
        say_ack(c, n, &(struct msg_ack){0}, fx); /* so that its agent knows at once */
    }
    job_touch(c, &c->jobs[n->job]);
    return MU_OK;
}

static int apply_record(struct cluster *c, const struct record *r, struct effects *fx)
{
    switch (r->kind) {
    case RECORD_JOB:
        return apply_job(c, &r->u.job, fx);
    case RECORD_NODE:
        return apply_node(c, &r->u.node, fx);
    case RECORD_GONE:
        return apply_gone(c, &r->u.gone, fx);
    case RECORD_GENERATION:
        return apply_generation(c, &r->u.generation, fx);
    case RECORD_ACTIVE:
        return apply_active(c, &r->u.active, fx);
    case RECORD_FINISHED:
        return apply_finished(c, &r->u.finished, fx);
    case RECORD_SPENT:
        return apply_spent(c, &r->u.spent, fx);
    case RECORD_CHECKPOINT:
        return apply_checkpoint(c, &r->u.checkpoint, fx);
    case RECORD_DRAIN:
        return apply_drain(c, &r->u.drain, fx);
    case RECORD_HEAL:
        return apply_heal(c, &r->u.heal, fx);
    case RECORD_FORGOTTEN:
        return apply_forgotten(c, &r->u.forgotten);
    default:
        return MU_ECORRUPT;
    }
}

int cluster_apply(struct cluster *c, const struct record *r, struct effects *fx)
{
    int rc = apply_record(c, r, fx);

    if (rc == MU_OK && fx != NULL) {
        cluster_settle(c, fx);
    }
    return rc;
}

/* ---- the machine ---- */

static int take(void *cluster, const struct record *r, void *fx)
{
    return cluster_apply(cluster, r, fx);
}

static int hear(void *cluster, const struct record *r, void *fx)
{
    if (r->kind == RECORD_CONFIG) {
        hear_config(cluster, &r->u.config, fx);
        if (fx != NULL) {
            cluster_settle(cluster, fx);
        }
    }
    return MU_OK;
}

static void failed(void *cluster, const struct record *r, uint64_t now_ms, void *fx)
{
    struct event e = {.kind = EVENT_WRITE_FAILED, .now_ms = now_ms, .u.record = r};

    cluster_step(cluster, &e, fx);
}

static uint64_t deadline(const void *cluster)
{
    return cluster_deadline(cluster);
}

static void tick(void *cluster, uint64_t now_ms, void *fx)
{
    cluster_step(cluster, &(struct event){.kind = EVENT_TICK, .now_ms = now_ms}, fx);
}

const struct machine_type cluster_machine = {
    .name = "cluster",
    .first = RECORD_JOB,
    .last = RECORD_CLUSTER_LAST,
    .apply = take,
    .hear = hear,
    .failed = failed,
    .dump = cluster_dump,
    .deadline = deadline,
    .tick = tick,
};
