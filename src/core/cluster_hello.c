/* Nodes come and go: hello, renewal, bye. A newcomer counts once its record is durable;
 * one that comes back takes up where it was. */
#include "core/cluster_state.h"
#include "core/mutation.h"
#include "core/text.h"

#include <string.h>

/* Names are in paths, addresses of pages, commands and settings: what is not a plain one comes no
 * further than here. */
static bool hello_named(const struct msg_hello *h)
{
    return text_is_name(h->job, strlen(h->job)) && text_is_name(h->name, strlen(h->name));
}

static bool hello_sane(const struct cluster *c, const struct msg_hello *h)
{
    return h->slots >= 1 && h->slots <= SLOTS_MAX && h->slots <= c->config.workers_max &&
           h->min >= 1 && h->min <= h->max && h->role < ROLE_N && h->mode < MODE_N &&
           h->incarnation != 0;
}

/* Another run, the job's first perhaps; m: what is remembered of those before, or NULL. */
static void begin_run(struct job *j, const struct msg_hello *h, const struct memory *m,
                      struct effects *fx)
{
    struct record r = {.kind = RECORD_JOB,
                       .u.job = {.run = 1 + (m != NULL ? m->run : j->run),
                                 .min = h->min,
                                 .max = h->max,
                                 .max_restarts = h->max_restarts,
                                 .mode = h->mode,
                                 .generation_floor = m != NULL ? m->generation : 0}};

    j->creating = true;
    j->next_min = h->min;
    j->next_max = h->max;
    j->next_mode = h->mode;
    strcpy(r.u.job.job, h->job);
    say_record(fx, &r, false);
}

static bool lingers(const struct cluster *c, uint64_t ended_ms)
{
    return c->wall_zero_ms + c->now_ms < ended_ms + c->config.linger_ms;
}

/* A run is over, or ends. A node that saw that and is started again begins another. One that was
 * lost before, or is new, is late; so it may only if the end was long ago, or it insists. The one
 * of its name that is still here has yet to say what it saw. */
static bool may_rerun(const struct cluster *c, const struct job *j, const struct node *n,
                      const struct msg_hello *h)
{
    return (h->flags & NODE_RERUN) != 0 || j->failed || (j->ended && !lingers(c, j->over_ms)) ||
           RULE(LATE_IS_TOLD, n != NULL && (n->saw_end || n->state == NODE_UP));
}

/* It belongs to a run that is over, by its own word. */
static bool was_in(const struct cluster *c, const struct msg_hello *h, uint32_t run)
{
    return h->run != 0 && h->store == c->config.store && h->run <= run;
}

/* A job that is not known, or only remembered. NULL: answered already. */
static struct job *hello_new_job(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_hello *h = e->u.hello;
    const struct memory *m = memory_find(c, h->job);
    struct job *j = job_find(c, h->job);

    if (m != NULL && m->done &&
        (was_in(c, h, m->run) || ((h->flags & NODE_RERUN) == 0 && lingers(c, m->over_ms)))) {
        struct msg_ended ended = {.run = m->run, .step = m->step};

        fx->emit(fx, &(struct effect){.kind = EFFECT_ENDED, .conn = e->conn, .u.ended = &ended});
        return NULL;
    }
    j = j != NULL ? j : job_make(c, h->job);
    if (j == NULL && forget_job(c, fx)) {
        say_refused(fx, e->conn, MU_EAGAIN, "job '%s': the oldest that is over makes room for it",
                    h->job);
        return NULL;
    }
    if (j == NULL) {
        say_refused(fx, e->conn, MU_ELIMIT,
                    "job '%s': this orchestrator has its %u jobs already, and nodes are in each "
                    "(muster serve --jobs-max)",
                    h->job, c->config.jobs_max);
        return NULL;
    }
    begin_run(j, h, m, fx);
    return j;
}

/* True: another run of j is to begin now. Otherwise this has answered. */
static bool next_run(const struct cluster *c, const struct job *j, const struct node *n,
                     const struct event *e, struct effects *fx)
{
    if (!may_rerun(c, j, n, e->u.hello)) {
        say_ended(j, e->conn, fx);
        return false;
    }
    if (!RULE(RERUN_WAITS, j->ended && j->nodes_n == 0)) {
        say_refused(fx, e->conn, MU_EAGAIN,
                    "run %u of job '%s' is over; another begins when its last nodes have left "
                    "(%u still here)",
                    j->run, j->name, j->nodes_n);
        return false;
    }
    return true;
}

/* The job this node asks for, made or given a new run if need be. NULL: answered already. */
static struct job *hello_job(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_hello *h = e->u.hello;
    struct job *j = job_find(c, h->job);
    const struct node *n;
    uint32_t min, max;
    uint8_t mode;
    bool known; /* It is in this run. */

    if (j == NULL || (j->run == 0 && !j->creating)) {
        j = hello_new_job(c, e, fx);
        if (j == NULL) {
            return NULL;
        }
    }
    if (j->forgetting) {
        say_refused(fx, e->conn, MU_EAGAIN, "job '%s' is being forgotten; try again", h->job);
        return NULL;
    }
    n = node_by_name(c, job_index(c, j), h->name);
    known = n != NULL && n->incarnation == h->incarnation && n->state != NODE_GONE;
    if (!known && was_in(c, h, j->ended ? UINT32_MAX : MAX(j->run, 1u) - 1)) {
        say_ended(j, e->conn, fx); /* It belongs to a run that is over, and starts no other. */
        return NULL;
    }
    if (!known && j->finished && !j->creating && !next_run(c, j, n, e, fx)) {
        return NULL;
    }
    if (j->finished && !known && !j->creating) {
        begin_run(j, h, NULL, fx);
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

/* Would a generation have more members, in-process, than can train together? Those above max are
 * spares, and wait. */
static bool is_crowded(const struct cluster *c, const struct job *j, const struct msg_hello *h)
{
    uint8_t mode = j->creating ? j->next_mode : j->mode;
    uint32_t workers_n = h->slots, nodes_n = 0;

    for (uint32_t i = 0; i < c->config.nodes_max && mode == MODE_INPROCESS; i++) {
        const struct node *n = &c->nodes[i];

        if (n->job == job_index(c, j) && (n->state == NODE_JOINING || node_alive(n)) &&
            !n->draining && n->duty == DUTY_TRAINS && strcmp(n->name, h->name) != 0) {
            workers_n += n->slots;
            nodes_n++;
        }
    }
    return mode == MODE_INPROCESS && duty_of(h->role, mode) == DUTY_TRAINS &&
           workers_n > c->config.group_max && !MUTATED(GROUP_HAS_ROOM) &&
           nodes_n < (j->creating ? j->next_max : job_max(j));
}

static int register_node(struct cluster *c, struct job *j, const struct event *e,
                         struct effects *fx)
{
    const struct msg_hello *h = e->u.hello;
    struct record r = {.kind = RECORD_NODE};
    uint32_t place = 0;
    struct node *n;

    if (!roster_place(c, j, h, &place)) {
        say_refused(fx, e->conn, MU_ELIMIT,
                    "node '%s': job '%s' has as many workers of its role as there can be (%u)",
                    h->name, j->name, HELPERS_MAX);
        return MU_ELIMIT;
    }
    n = node_make(c, job_index(c, j), h->name, h->slots);
    if (n == NULL && forget_node(c, h->slots, fx)) {
        say_refused(fx, e->conn, MU_EAGAIN, "node '%s': one that is gone makes room for it",
                    h->name);
        return MU_EAGAIN;
    }
    if (n == NULL) {
        say_refused(fx, e->conn, MU_ELIMIT, "node '%s': no room for %u more workers (limit %u)",
                    h->name, h->slots, c->config.workers_max);
        return MU_ELIMIT;
    }
    j->coming_n++;
    n->incarnation = h->incarnation;
    n->host = h->host;
    n->role = h->role;
    n->duty = duty_of(h->role, j->creating ? j->next_mode : j->mode);
    n->place = place;
    roster_heard(c, n, h->roster);
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
    r.u.node.place = place;
    say_record(fx, &r, false);
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
    roster_heard(c, n, h->roster);
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

    if (!hello_named(h)) {
        say_refused(fx, e->conn, MU_EINVAL,
                    "job '%s', node '%s': a name has 1 to %d letters, digits, '.', '_' and '-'",
                    h->job, h->name, NAME_MAX_LEN - 1);
        return MU_EINVAL;
    }
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
    if (n != NULL && !j->creating && !j->ended && budget_spent(c, j, n)) {
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
    if (is_crowded(c, j, h)) {
        say_refused(
            fx, e->conn, MU_ELIMIT,
            "job '%s': with %u more (node '%s') there would be more workers than the %u that can "
            "train together in-process; start it with fewer (--nnodes, --nproc-per-node)",
            h->job, h->slots, h->name, c->config.group_max);
        return MU_ELIMIT;
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
    n->roster = MAX(n->roster, m->roster);
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
    struct record r = {.kind = RECORD_GONE, .u.gone = {.node = n->number, .ended = n->saw_end}};

    if (!n->going && n->state == NODE_UP) {
        n->going = true;
        node_refresh(c, n);
        say_record(fx, &r, false);
    }
}

int on_bye(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_bye *m = e->u.bye;
    struct node *n = node_by_conn(c, e->conn);
    bool saw_end = n != NULL && m->ended != 0; /* A keeper does not know what its agent saw. */

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
        n->saw_end |= saw_end && (c->jobs[n->job].finished || c->jobs[n->job].finishing);
        node_leave(c, n, fx);
    }
    return MU_OK;
}
