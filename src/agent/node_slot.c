/* The processes of the slots: started, told, stopped, and how they ended. */
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

#define BY_ITSELF_MS 2000 /* a worker that knows that the run is over may end by itself */
#define CANNOT_START (128 + SIGKILL) /* not the script's fault, so its budget is left alone */

static void set_generation(struct node_slot *s, const struct generation *g)
{
    s->generation = g != NULL ? g->number : 0;
    s->rank = NODE_ALONE;
    s->world = 0;
    for (uint32_t i = 0; g != NULL && i < g->members_n; i++) {
        if (role_trains(g->members[i].role)) {
            s->rank = g->members[i].worker == s->worker ? s->world : s->rank;
            s->world++;
        }
    }
}

/* "generation 7: rank 0 of 2", "warming up" */
struct who {
    char text[96];
};

static struct who who(const struct node *n, uint32_t slot)
{
    const struct node_slot *s = &n->slots[slot];
    struct who w;

    if (s->rank == NODE_ALONE && s->generation != 0 && !role_trains(n->config->role)) {
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

    net_random(&id, sizeof(id));
    return id | 1;
}

static int make_environ(struct node *n, const struct agent_effect *e, uint64_t marker,
                        char ***env_out)
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
                                .socket = local_path(n->local),
                                .cookie = n->slots[e->slot].cookie,
                                .marker = marker};

    return environ_make(&ec, env_out);
}

static int launch(struct node *n, const struct agent_effect *e)
{
    const struct node_config *config = n->config;
    struct node_slot *s = &n->slots[e->slot];
    struct output_start os = {.slot = e->slot,
                              .rank = s->rank != NODE_ALONE ? s->rank : OUTPUT_NO_RANK,
                              .generation = s->generation};
    struct keeper_start ks = {
        .slot = e->slot, .cookie = s->cookie, .argv = config->argv, .marker = random_id()};
    char **env;
    int fds[2];
    int rc = make_environ(n, e, ks.marker, &env);

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
    s->stop_ms = NODE_NEVER;
    set_generation(s, e->u.generation);
    rc = launch(n, e);
    if (rc != MU_OK) {
        log_error(NODE_AREA, "%s: could not start '%s': %s", who(n, e->slot).text,
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
    local_say(n->local, slot, WIRE_LIFE, &m, 0, 0);
}

void node_slot_life(struct node *n, uint32_t slot, wid worker)
{
    n->slots[slot].worker = worker;
    node_sync_end(n, slot, MU_ESTALE, "this worker goes on as another");
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
    if (s->rank != NODE_ALONE) {
        log_info(NODE_AREA, "%s (node %s, slot %u), pid %d goes on", who(n, slot).text,
                 n->life.node, slot, s->pid);
    }
}

/* ---- stopping ---- */

void node_slot_stop(struct node *n, uint32_t slot)
{
    struct node_slot *s = &n->slots[slot];
    bool finished = n->agent.slots[slot].report.phase == PHASE_FINISHED;

    if (s->cookie == 0) {
        return;
    }
    s->stopping = true;
    if (s->told_ended && finished) { /* It has done its part, and may have a model to save. */
        s->stop_ms = net_now_ms() + n->config->exit_timeout_ms;
    } else if (s->told_ended && local_is_attached(n->local, slot)) {
        s->stop_ms = net_now_ms() + BY_ITSELF_MS;
    } else {
        keeper_stop(n->keeper, slot, n->config->grace_ms);
    }
}

void node_slot_kill_all(struct node *n, uint32_t grace_ms)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        if (n->slots[i].cookie != 0) {
            n->slots[i].stopping = true;
            n->slots[i].stop_ms = NODE_NEVER;
            keeper_stop(n->keeper, i, grace_ms);
        }
    }
}

uint64_t node_slots_deadline(const struct node *n)
{
    uint64_t at_ms = NODE_NEVER;

    for (uint32_t i = 0; i < n->config->slots; i++) {
        at_ms = MIN(at_ms, n->slots[i].stop_ms);
    }
    return at_ms;
}

void node_slots_tick(struct node *n, uint64_t now_ms)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_slot *s = &n->slots[i];

        if (s->stop_ms <= now_ms) {
            s->stop_ms = NODE_NEVER;
            if (s->cookie != 0) {
                keeper_stop(n->keeper, i, n->config->grace_ms);
            }
        }
    }
}

/* ---- ends ---- */

static void say_exit(const struct node *n, uint32_t slot, uint32_t code, const char *why)
{
    const struct node_slot *s = &n->slots[slot];
    struct who w = who(n, slot);

    if (why[0] != '\0') {
        log_error(NODE_AREA, "%s (slot %u): %s", w.text, slot, why);
    } else if (code == 0) {
        log_info(NODE_AREA, "%s (slot %u), pid %d: done, exit code 0", w.text, slot, s->pid);
    } else if (s->stopping) {
        log_info(NODE_AREA, "%s (slot %u), pid %d: stopped", w.text, slot, s->pid);
    } else if (code > 128) {
        log_warn(NODE_AREA, "%s (slot %u), pid %d: killed by signal %u (%s)", w.text, slot, s->pid,
                 code - 128, strsignal((int)code - 128));
    } else {
        log_warn(NODE_AREA, "%s (slot %u), pid %d: failed, exit code %u", w.text, slot, s->pid,
                 code);
    }
}

/* What is left of the process when it is gone: nothing but the event. */
static void forget(struct node *n, uint32_t slot)
{
    n->slots[slot].cookie = 0;
    n->slots[slot].stop_ms = NODE_NEVER;
    local_forget(n->local, slot);
    node_sync_drop(n, slot);
}

static void on_started(void *data, uint32_t slot, uint64_t cookie, int pid)
{
    struct node *n = data;
    struct node_slot *s = &n->slots[slot];

    if (cookie == s->cookie) {
        s->pid = pid;
        log_info(NODE_AREA, "%s (node %s, slot %u), pid %d", who(n, slot).text, n->life.node, slot,
                 pid);
    }
}

static void on_exited(void *data, uint32_t slot, uint64_t cookie, uint32_t code, const char *why)
{
    struct node *n = data;
    struct agent_event e = {.kind = AGENT_ON_EXIT, .slot = slot, .code = code};

    if (slot >= n->config->slots || cookie != n->slots[slot].cookie || n->over) {
        return;
    }
    say_exit(n, slot, code, why);
    forget(n, slot);
    node_event(n, &e);
}

/* An orchestrator inside of us is gone with us. */
void node_slot_will(struct node *n, const struct msg_welcome *m)
{
    struct keeper_will will = {.bye = {.node = m->node,
                                       .store = m->store,
                                       .incarnation = n->agent.config.hello.incarnation},
                               .endpoints = n->config->endpoints,
                               .token = n->config->token};

    if (!n->config->standalone && n->keeper != NULL) {
        keeper_set_will(n->keeper, &will);
    }
}

static void on_lost(void *data)
{
    struct node *n = data;
    int rc;

    if (n->over) {
        return;
    }
    log_error(NODE_AREA, "the keeper was killed, and the workers with it; starting another");
    keeper_close(n->keeper);
    n->keeper = NULL;
    rc = keeper_open(&n->loop, "/proc/self/exe", &node_slot_keeper_handler, n, &n->keeper);
    if (rc != MU_OK) {
        log_error(NODE_AREA, "could not start another keeper: %s", mu_strerror(rc));
        node_end(n, 1);
        return;
    }
    node_slot_will(n, &(struct msg_welcome){.node = n->agent.node, .store = n->agent.store});
    for (uint32_t i = 0; i < n->config->slots; i++) {
        if (n->slots[i].cookie != 0) {
            forget(n, i);
            node_queue(n, AGENT_ON_EXIT, i, 128 + SIGKILL, NULL);
        }
    }
}

const struct keeper_handler node_slot_keeper_handler = {
    .started = on_started, .exited = on_exited, .lost = on_lost};

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

/* Once our name is known for sure: it is in the paths of the files. */
int node_slots_open(struct node *n, char *error)
{
    struct output_config oc = {.fds = {STDOUT_FILENO, STDERR_FILENO},
                               .prefix = n->config->prefix,
                               .log_dir = n->config->log_dir,
                               .job = n->config->job,
                               .node = n->agent.config.hello.name};
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
