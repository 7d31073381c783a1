/* Nodes come and go: hello, renewal, bye. A newcomer counts once its record is durable;
 * one that comes back takes up where it was. */
#include "core/cluster_state.h"

#include <string.h>

static bool hello_sane(const struct cluster *c, const struct msg_hello *h)
{
    return h->job[0] != '\0' && h->name[0] != '\0' && h->slots >= 1 && h->slots <= SLOTS_MAX &&
           h->slots <= c->config.workers_max && h->min >= 1 && h->min <= h->max &&
           h->role < ROLE_N && h->mode < MODE_N && h->incarnation != 0;
}

static void record_job(const struct msg_hello *h, uint32_t run, struct effects *fx)
{
    struct record r = {.kind = RECORD_JOB,
                       .u.job = {.run = run,
                                 .min = h->min,
                                 .max = h->max,
                                 .max_restarts = h->max_restarts,
                                 .mode = h->mode}};

    strcpy(r.u.job.job, h->job);
    say_record(fx, &r);
}

/* The job this node asks for, made or given a new run if need be. NULL: answered already. */
static struct job *hello_job(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_hello *h = e->u.hello;
    struct job *j = job_find(c, h->job);
    uint32_t min, max;
    uint8_t mode;

    if (j == NULL) {
        j = job_make(c, h->job);
        if (j == NULL) {
            say_refused(fx, e->conn, MU_ELIMIT,
                        "job '%s': this orchestrator has its %u jobs already", h->job,
                        c->config.jobs_max);
            return NULL;
        }
        j->run = 0;
    }
    if (h->run != 0 && h->store == c->config.store && (h->run < j->run || j->ended)) {
        say_ended(j, e->conn, fx); /* It belongs to a run that is over, and starts no other. */
        return NULL;
    }
    if (j->run == 0 || (j->ended && j->nodes_n == 0)) {
        if (!j->creating) {
            j->creating = true;
            j->next_min = h->min;
            j->next_max = h->max;
            j->next_mode = h->mode;
            record_job(h, j->run + 1, fx);
        }
    } else if (j->ended) {
        say_ended(j, e->conn, fx);
        return NULL;
    }
    mode = j->creating ? j->next_mode : j->mode;
    if (h->mode != mode && h->mode != MODE_AUTO && mode != MODE_AUTO) {
        say_refused(fx, e->conn, MU_EINVAL,
                    "job '%s' runs in %s mode, node '%s' asks for the other; start it with the "
                    "same --mode",
                    h->job, mode == MODE_RESTART ? "restart" : "in-process", h->name);
        return NULL;
    }
    min = j->creating ? j->next_min : j->min;
    max = j->creating ? j->next_max : j->max;
    if (h->min != min || h->max != max) {
        say_refused(
            fx, e->conn, MU_EINVAL,
            "job '%s' runs with --nnodes %u:%u, node '%s' asks for %u:%u; start it with the "
            "same values",
            h->job, min, max, h->name, h->min, h->max);
        return NULL;
    }
    return j;
}

/* As long as the scripts have not shown what they are, planned changes wait until all have had
 * their time since they were started. */
static void take_silence(struct cluster *c, struct node *n, uint32_t flags, uint64_t held)
{
    const bool silent = (flags & NODE_SILENT) != 0 && held == c->jobs[n->job].number;

    if (silent != n->silent) {
        n->silent = silent;
        job_touch(c, &c->jobs[n->job]);
    }
}

/* What the first scripts have shown of themselves decides for all. */
static void decide_mode(struct cluster *c, struct job *j, uint32_t flags, struct effects *fx)
{
    uint8_t mode = (flags & NODE_INPROCESS) != 0 ? MODE_INPROCESS : MODE_RESTART;

    if (j->mode == MODE_AUTO && (flags & (NODE_INPROCESS | NODE_RESTART)) != 0 && !j->deciding &&
        !j->creating && c->now_ms >= j->retry_ms) {
        j->deciding = true;
        record_mode(j, mode, fx);
    }
}

static int register_node(struct cluster *c, struct job *j, const struct event *e,
                         struct effects *fx)
{
    const struct msg_hello *h = e->u.hello;
    struct record r = {.kind = RECORD_NODE};
    struct node *n = node_make(c, job_index(c, j), h->name, h->slots);

    if (n == NULL) {
        say_refused(fx, e->conn, MU_ELIMIT, "node '%s': no room for %u more workers (limit %u)",
                    h->name, h->slots, c->config.workers_max);
        return MU_ELIMIT;
    }
    n->incarnation = h->incarnation;
    n->host = h->host;
    n->role = h->role;
    n->draining = (h->flags & NODE_DRAINING) != 0;
    n->heals = (h->flags & NODE_HEAL) != 0;
    conn_bind(c, n, e->conn);
    strcpy(r.u.node.job, h->job);
    strcpy(r.u.node.name, h->name);
    r.u.node.node = c->next_node++;
    r.u.node.incarnation = h->incarnation;
    r.u.node.host = h->host;
    r.u.node.slots = h->slots;
    r.u.node.role = h->role;
    say_record(fx, &r);
    return MU_OK;
}

/* The same agent process again, perhaps by a new connection. */
static int hello_again(struct cluster *c, struct node *n, const struct event *e, struct effects *fx)
{
    const struct msg_hello *h = e->u.hello;

    if (n->going) {
        say_refused(fx, e->conn, MU_EAGAIN, "node '%s' is being removed; try again", h->name);
        return MU_EAGAIN;
    }
    conn_bind(c, n, e->conn);
    if (n->state == NODE_JOINING) {
        return MU_OK; /* Welcomed once its record is durable. */
    }
    n->draining |= (h->flags & NODE_DRAINING) != 0;
    n->heals = (h->flags & NODE_HEAL) != 0;
    n->held = h->held;
    n->active = h->active;
    node_heard(c, n);
    decide_mode(c, &c->jobs[n->job], h->flags, fx);
    take_silence(c, n, h->flags, h->held);
    say_welcome(c, n, fx);
    if (h->node == n->number) { /* otherwise it has yet to learn that it is new here */
        take_reports(c, n, h->seq, h->reports, h->reports_n, fx);
    }
    say_level(c, n, fx);
    return MU_OK;
}

int on_hello(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_hello *h = e->u.hello;
    struct job *j;
    struct node *n;

    if (!hello_sane(c, h)) {
        say_refused(fx, e->conn, MU_EINVAL,
                    "node '%s': its hello makes no sense (slots %u, nnodes %u:%u, role %u)",
                    h->name, h->slots, h->min, h->max, h->role);
        return MU_EINVAL;
    }
    if (h->store != 0 && h->store != c->config.store && !c->config.adopt) {
        say_refused(
            fx, e->conn, MU_EREFUSED,
            "node '%s' belongs to another orchestrator's store; start this one with --adopt to "
            "take it in as a newcomer",
            h->name);
        return MU_EREFUSED;
    }
    j = hello_job(c, e, fx);
    if (j == NULL) {
        return MU_EREFUSED;
    }
    n = node_by_name(c, job_index(c, j), h->name);
    if (n != NULL && !j->creating && budget_spent(c, j, n)) {
        budget_refuse(c, j, n, e->conn, fx);
        return MU_ELIMIT;
    }
    if (n != NULL && n->incarnation == h->incarnation && n->state != NODE_GONE) {
        return hello_again(c, n, e, fx);
    }
    if (n != NULL && n->conn != 0 && (n->state == NODE_JOINING || node_alive(n))) {
        say_refused(fx, e->conn, MU_EEXIST,
                    "a node named '%s' is here already; give this one another --node-name",
                    h->name);
        return MU_EEXIST;
    }
    if (j->finished && !j->creating) {
        say_ended(j, e->conn, fx);
        return MU_EDONE;
    }
    if (n != NULL && n->state == NODE_UP) {
        blame_left(c, n, fx);
    }
    return register_node(c, j, e, fx);
}

int on_renew(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_renew *m = e->u.renew;
    struct node *n = node_by_conn(c, e->conn);
    struct msg_ack ack = {.seq = m->seq};

    if (n == NULL || n->state != NODE_UP || n->going) {
        say_refused(fx, e->conn, MU_ESTALE, "this node is not known here; say hello again");
        return MU_ESTALE;
    }
    n->heals = (m->flags & NODE_HEAL) != 0;
    n->held = MAX(n->held, m->held);
    n->active = MAX(n->active, m->active);
    node_heard(c, n);
    if ((m->flags & NODE_DRAINING) != 0 && !n->draining) {
        n->draining = true;
        say_note(fx, &(struct note){
                         .kind = NOTE_DRAINING, .job = c->jobs[n->job].name, .node = n->name});
        node_refresh(c, n);
    }
    decide_mode(c, &c->jobs[n->job], m->flags, fx);
    take_silence(c, n, m->flags, m->held);
    say_ack(c, n, &ack, fx);
    say_level(c, n, fx);
    return MU_OK;
}

/* The node will never be heard again under this number. */
void node_leave(struct cluster *c, struct node *n, struct effects *fx)
{
    struct record r = {.kind = RECORD_GONE, .u.gone.node = n->number};

    if (!n->going && n->state == NODE_UP) {
        n->going = true;
        node_refresh(c, n);
        say_record(fx, &r);
    }
}

int on_bye(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_bye *m = e->u.bye;
    struct node *n = node_by_conn(c, e->conn);

    if (n == NULL && m->store == c->config.store) { /* A keeper's word for its agent. */
        n = node_by_number(c, m->node);
        n = n != NULL && n->incarnation == m->incarnation ? n : NULL;
        if (n != NULL && n->state == NODE_UP && !n->going) {
            say_note(fx, &(struct note){.kind = NOTE_LOST,
                                        .job = c->jobs[n->job].name,
                                        .node = n->name,
                                        .generation = c->jobs[n->job].number,
                                        .reason = "its agent was killed"});
        }
    }
    if (n != NULL && n->state == NODE_UP) {
        blame_left(c, n, fx);
        node_leave(c, n, fx);
    }
    return MU_OK;
}
