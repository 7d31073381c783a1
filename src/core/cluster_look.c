/* Looking in: jobs, nodes and slots as status shows them. */
#include "core/cluster_state.h"

void cluster_set_store(struct cluster *c, uint64_t store)
{
    mu_assert(!c->started);
    c->config.store = store;
}

static void look(const struct cluster *c, const struct job *j, struct job_look *out)
{
    bool sized = j->wish.size != 0 || j->wish.schedule.parts_n > 0;

    *out = (struct job_look){
        .min = job_min(j),
        .max = job_max(j),
        .max_restarts = j->max_restarts,
        .want_size = sized && !j->wish.listed ? job_size((struct cluster *)(uintptr_t)c, j) : 0,
        .mode = j->mode,
        .paused = j->wish.paused,
        .listed = j->wish.listed,
        .scheduled = job_scheduled(j),
        .survivors_n = j->tally.survivors_n,
        .heals = job_heals(j),
        .failed = j->failed,
        .why = j->why};
    mu_assert(cluster_job(c, j->name, &out->view) == MU_OK);
}

int cluster_look_job(const struct cluster *c, const char *job, struct job_look *look_out)
{
    const struct job *j = job_find((struct cluster *)(uintptr_t)c, job);

    if (j == NULL || j->run == 0) {
        return MU_ENOENT;
    }
    look(c, j, look_out);
    return MU_OK;
}

void cluster_each_job(const struct cluster *c, cluster_job_fn *fn, void *arg)
{
    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        const struct job *j = &c->jobs[i];
        struct job_look out;

        if (j->used && j->run != 0) {
            look(c, j, &out);
            fn(arg, &out);
        }
    }
}

static struct slot_look look_slot(const struct node *n, const struct worker *w, uint32_t slot)
{
    return (struct slot_look){
        .worker = w->incarnation != 0 ? wid_make(n->number, slot, w->incarnation) : 0,
        .member = w->current_inc != 0 ? wid_make(n->number, slot, w->current_inc) : 0,
        .active = w->active_inc != 0,
        .lives = worker_lives(n, w, w->incarnation),
        .phase = w->phase,
        .entered = w->entered,
        .step = w->step,
        .unkept = w->unkept,
        .spent = w->spent,
        .has_exited = w->exited != 0,
        .exit_code = w->exited != 0 ? w->exited - 1 : 0,
        .addr = w->current_inc != 0 ? w->named_addr : w->addr,
        .port = w->current_inc != 0 ? w->named_port : w->port};
}

static void look_node(const struct cluster *c, const struct node *n, cluster_node_fn *fn, void *arg)
{
    struct slot_look slot[SLOTS_MAX];
    struct node_look out = {.name = n->name,
                            .number = n->number,
                            .conn = n->conn,
                            .host = n->host,
                            .role = n->role,
                            .helps = node_serves(c, n),
                            .place = n->place,
                            .gone = n->state == NODE_GONE,
                            .lapsed = n->lapsed,
                            .draining = n->draining,
                            .held = n->held,
                            .slots = n->slots,
                            .slot = slot};

    for (uint32_t s = 0; s < n->slots; s++) {
        slot[s] = look_slot(n, &c->workers[n->workers + s], s);
        out.member |= slot[s].member != 0;
    }
    fn(arg, &out);
}

int cluster_each_node(const struct cluster *c, const char *job, cluster_node_fn *fn, void *arg)
{
    const struct job *j = job_find((struct cluster *)(uintptr_t)c, job);

    if (j == NULL || j->run == 0) {
        return MU_ENOENT;
    }
    for (uint32_t i = j->seniors.first; i != NONE; i = c->nodes[i].next) {
        look_node(c, &c->nodes[i], fn, arg);
    }
    for (uint32_t i = j->others.first; i != NONE; i = c->nodes[i].next) {
        look_node(c, &c->nodes[i], fn, arg);
    }
    return MU_OK;
}
