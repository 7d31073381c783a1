/* The processes of the slots: started, told and stopped. */
#include "agent/environ.h"
#include "agent/node_state.h"
#include "agent/node_tmp.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BY_ITSELF_MS 2000  /* a worker that knows that the run is over may end by itself */
#define HUNG_GRACE_MS 2000 /* one that hangs may still say where, if it has a handler for that */
#define CANNOT_START (128 + SIGKILL) /* not the script's fault, so its budget is left alone */

static void set_generation(struct node_slot *s, const struct generation *g)
{
    s->generation = g != NULL ? g->number : 0;
    s->rank = NODE_ALONE;
    s->world = 0;
    for (uint32_t i = 0; g != NULL && i < g->members_n; i++) {
        if (member_is_ranked(&g->members[i])) {
            s->rank = g->members[i].worker == s->worker ? s->world : s->rank;
            s->world++;
        }
    }
}

/* Where its peers look for it: where the generation that it is started in says. What was chosen for
 * the next start may have come too late for that. */
static void set_own_addr(struct node_slot *s, const struct generation *g)
{
    const char *addr = s->addr;

    for (uint32_t i = 0; g != NULL && i < g->members_n; i++) {
        addr = g->members[i].worker == s->worker ? g->members[i].addr : addr;
    }
    strcpy(s->own_addr, addr);
}

struct node_who node_slot_who(const struct node *n, uint32_t slot)
{
    const struct node_slot *s = &n->slots[slot];
    struct node_who w;

    if (s->rank == NODE_ALONE && s->generation != 0 &&
        duty_of(n->config->role, MODE_RESTART) == DUTY_HELPS) {
        snprintf(w.text, sizeof(w.text), "generation %llu: %s", (unsigned long long)s->generation,
                 n->config->role == ROLE_PS ? "parameter server" : "evaluator");
    } else if (s->rank == NODE_ALONE) {
        strcpy(w.text, "warming up");
    } else {
        snprintf(w.text, sizeof(w.text), "generation %llu: rank %u of %u",
                 (unsigned long long)s->generation, s->rank, s->world);
    }
    return w;
}

/* ---- starting ---- */

static uint64_t random_id(void)
{
    uint64_t id;

    random_bytes(&id, sizeof(id));
    return id | 1;
}

static int make_environ(struct node *n, const struct agent_effect *e, char ***env_out)
{
    const struct node_config *config = n->config;
    struct environ_config ec = {.base = environ,
                                .generation = e->u.generation,
                                .worker = e->worker,
                                .slots = config->slots,
                                .role = config->role,
                                .role_name = config->role_name,
                                .job = config->job,
                                .node = n->agent.config.hello.name,
                                .master_addr = config->master_addr,
                                .master_port = config->master_port,
                                .restarts = (uint32_t)e->code,
                                .max_restarts = config->max_restarts,
                                .step_timeout_ms = config->step_timeout_ms,
                                .numerics = config->numerics == NUMERICS_WARN ? "warn" : "strict",
                                .ckpt = config->ckpt,
                                .heal = config->heal,
                                .socket = local_path(n->local),
                                .cookie = n->slots[e->slot].cookie};

    ec.ckpt.memory_dir = node_memory_dir(n);
    return environ_make(&ec, env_out);
}

static int launch(struct node *n, const struct agent_effect *e)
{
    const struct node_config *config = n->config;
    struct node_slot *s = &n->slots[e->slot];
    struct output_start os = {.slot = e->slot,
                              .rank = s->rank != NODE_ALONE ? s->rank : OUTPUT_NO_RANK,
                              .generation = s->generation};
    struct keeper_start ks = {.cookie = s->cookie, .argv = config->argv};
    char **env;
    int fds[2];
    int rc = make_environ(n, e, &env);

    if (rc != MU_OK) {
        return rc;
    }
    for (int i = 0; i < 2; i++) {
        os.to[i] = (uint8_t)output_to(config->redirects[e->slot][i], config->tee[e->slot][i]);
    }
    rc = output_start(n->output, &os, fds);
    if (rc != MU_OK) {
        goto err_env;
    }
    ks.env = env;
    ks.out_fd = fds[0];
    ks.err_fd = fds[1];
    local_expect(n->local, e->slot, s->cookie);
    rc = keeper_start(n->keeper, &ks);
    if (rc != MU_OK) {
        local_forget(n->local, e->slot);
    }
    close(fds[0]);
    close(fds[1]);
err_env:
    free(env);
    return rc;
}

void node_slot_start(struct node *n, const struct agent_effect *e)
{
    struct node_slot *s = &n->slots[e->slot];
    int rc;

    mu_assert(s->cookie == 0);
    s->cookie = random_id();
    s->pid = 0;
    s->worker = e->worker;
    s->stopping = s->told_ended = false;
    node_off(n, &s->stop);
    set_own_addr(s, e->u.generation); /* before the next one's is chosen */
    set_generation(s, e->u.generation);
    rc = launch(n, e);
    if (rc != MU_OK) {
        log_error(NODE_AREA, "%s: could not start '%s': %s", node_slot_who(n, e->slot).text,
                  n->config->argv[0], mu_strerror(rc));
        s->cookie = 0;
        node_queue(n, AGENT_ON_EXIT, e->slot, CANNOT_START, NULL);
    } else {
        n->lives_n++;
    }
    node_addr_next(n, e->slot);
}

/* ---- telling ---- */

void node_slot_say_life(struct node *n, uint32_t slot)
{
    struct msg_life m = n->life;

    m.worker = n->slots[slot].worker;
    strcpy(m.addr, n->slots[slot].own_addr);
    local_say(n->local, slot, WIRE_LIFE, &m, 0, 0);
}

void node_slot_life(struct node *n, uint32_t slot, wid worker)
{
    n->slots[slot].worker = worker;
    node_ask_end(n, slot, MU_ESTALE, "this worker goes on as another");
    node_slot_say_life(n, slot);
}

void node_slot_generation(struct node *n, uint32_t slot, const struct generation *g)
{
    struct node_slot *s = &n->slots[slot];
    uint64_t before = s->generation;

    local_say(n->local, slot, WIRE_GENERATION, g, g->number, 0);
    if (!local_is_attached(n->local, slot) || before == g->number || s->cookie == 0) {
        return; /* A script that knows nothing of it stays what it was started as. */
    }
    set_generation(s, g);
    output_set_rank(n->output, slot, s->rank != NODE_ALONE ? s->rank : OUTPUT_NO_RANK);
    if (s->rank != NODE_ALONE && s->pid != 0) { /* Or the keeper has yet to say that it runs. */
        log_info(NODE_AREA, "%s (node %s, slot %u), pid %d goes on", node_slot_who(n, slot).text,
                 n->life.node, slot, s->pid);
    }
}

/* ---- stopping ---- */

/* How long it may take to end by itself; 0: it does not know that it should. */
static uint32_t patience_ms(const struct node *n, uint32_t slot)
{
    const struct slot *s = &n->agent.slots[slot];

    if (!n->slots[slot].told_ended) {
        return 0;
    }
    if (s->report.phase == PHASE_FINISHED || s->report.phase == PHASE_EXITED) {
        /* It has done its part, or has left: it may have a model to save. */
        return n->config->exit_timeout_ms;
    }
    if (!local_is_attached(n->local, slot)) {
        return 0;
    }
    return s->left ? n->config->grace_ms : BY_ITSELF_MS;
}

static void on_patience_over(void *data, struct timer *t)
{
    struct node *n = data;

    keeper_stop(n->keeper, CONTAINER_OF(t, struct node_slot, stop)->cookie, n->config->grace_ms);
}

void node_slot_stop(struct node *n, uint32_t slot)
{
    struct node_slot *s = &n->slots[slot];
    uint32_t wait_ms = patience_ms(n, slot);

    if (s->cookie == 0) {
        return;
    }
    s->stopping = true;
    if (wait_ms > 0) {
        node_after(n, &s->stop, wait_ms, on_patience_over);
    } else {
        keeper_stop(n->keeper, s->cookie, n->config->grace_ms);
    }
}

void node_slot_replace(struct node *n, uint32_t slot)
{
    struct node_slot *s = &n->slots[slot];

    if (s->cookie == 0) {
        return;
    }
    log_warn(NODE_AREA,
             "slot %u, pid %d: the others went on without it in generation %llu, and it has not "
             "noticed: it hangs. Another takes its place",
             slot, s->pid, (unsigned long long)n->agent.active);
    s->stopping = true;
    keeper_stop(n->keeper, s->cookie, MIN(n->config->grace_ms, (uint32_t)HUNG_GRACE_MS));
}

static void kill_slot(struct node *n, uint32_t slot, uint32_t grace_ms)
{
    struct node_slot *s = &n->slots[slot];

    if (s->cookie != 0) {
        s->stopping = true;
        node_off(n, &s->stop);
        keeper_stop(n->keeper, s->cookie, grace_ms);
    }
}

void node_slot_kill_all(struct node *n, uint32_t grace_ms)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        kill_slot(n, i, grace_ms);
    }
}

void node_slot_kill_rest(struct node *n, uint32_t grace_ms)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        if (!timer_is_on(&n->slots[i].stop)) {
            kill_slot(n, i, grace_ms);
        }
    }
}

/* ---- opening ---- */

static bool wants_files(const struct node_config *config)
{
    for (uint32_t i = 0; i < config->slots; i++) {
        for (int j = 0; j < 2; j++) {
            if (config->redirects[i][j] || config->tee[i][j]) {
                return true;
            }
        }
    }
    return false;
}

static const char *make_log_dir(struct node *n)
{
    if (snprintf(n->log_dir, sizeof(n->log_dir), "%s/muster-logs-XXXXXX", node_tmp_dir()) >=
        (int)sizeof(n->log_dir)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return mkdtemp(n->log_dir);
}

static void on_output(void *data)
{
    node_notes_look(data, false);
}

/* Once our name is known for sure: it is in the paths of the files. */
int node_slots_open(struct node *n, char *error)
{
    struct output_config oc = {.fds = {STDOUT_FILENO, STDERR_FILENO},
                               .prefix = n->config->prefix,
                               .log_dir = n->config->log_dir,
                               .job = n->config->job,
                               .node = n->agent.config.hello.name,
                               .news = on_output,
                               .data = n};
    int rc;

    if (n->output != NULL) {
        return MU_OK;
    }
    if (oc.log_dir == NULL && wants_files(n->config)) {
        oc.log_dir = make_log_dir(n);
        if (oc.log_dir == NULL) {
            snprintf(error, NET_ERROR_MAX,
                     "could not make a directory for logs in %.200s: %s; say where they go with "
                     "--log-dir",
                     node_tmp_dir(), strerror(errno));
            return MU_EIO;
        }
    }
    if (oc.log_dir != NULL) {
        log_info(NODE_AREA, "the workers' output is kept in %s", oc.log_dir);
    }
    rc = output_open(&n->loop, &oc, &n->output);
    if (rc != MU_OK) {
        snprintf(error, NET_ERROR_MAX, "could not set up the workers' output: %s", mu_strerror(rc));
    }
    return rc;
}
