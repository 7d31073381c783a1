#include "agent/node_state.h"

#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_MS 1000
#define FLUSH_OUTPUT_MS 5000
#define GUARD_MS 10000 /* nothing that is being closed may take longer */

/* ---- effects ---- */

struct node_effects {
    struct agent_effects base;
    struct node *n;
};

static void tell_ended(struct node *n, uint32_t slot, const struct msg_ended *m)
{
    const char *why = m->why[0] != '\0' ? m->why : "the job is done";
    int status = m->left ? MU_ELEFT : MU_EDONE;

    why = m->left ? "this node leaves the job, which goes on" : why;
    n->slots[slot].told_ended = true;
    node_ask_end(n, slot, status, why);
    local_say(n->local, slot, WIRE_ENDED, m, 0, 0);
}

static void emit(struct agent_effects *base, const struct agent_effect *e)
{
    struct node *n = ((struct node_effects *)base)->n;

    switch (e->kind) {
    case AGENT_CONNECT: /* The line does so by itself. */
        break;
    case AGENT_HELLO:
        line_say(n->line, WIRE_HELLO, e->u.hello);
        break;
    case AGENT_RENEW:
        line_say(n->line, WIRE_RENEW, e->u.renew);
        break;
    case AGENT_REPORTS:
        line_say(n->line, WIRE_REPORTS, e->u.reports);
        break;
    case AGENT_BYE:
        line_say(n->line, WIRE_BYE, e->u.bye);
        break;
    case AGENT_START:
        node_slot_start(n, e);
        break;
    case AGENT_STOP:
        node_slot_stop(n, e->slot);
        break;
    case AGENT_KILL:
        node_slot_replace(n, e->slot);
        break;
    case AGENT_LIFE:
        node_slot_life(n, e->slot, e->worker);
        break;
    case AGENT_ADDR:
        node_addr_next(n, e->slot);
        break;
    case AGENT_TELL_GENERATION:
        node_slot_generation(n, e->slot, e->u.generation);
        break;
    case AGENT_TELL_ACTIVE:
        local_say(n->local, e->slot, WIRE_ACTIVE, e->u.active, 0, 0);
        break;
    case AGENT_TELL_ROSTER:
        local_say(n->local, e->slot, WIRE_ROSTER, e->u.roster, 0, 0);
        break;
    case AGENT_TELL_LEASE:
        local_say(n->local, e->slot, WIRE_LEASE, e->u.lease, 0, 0);
        break;
    case AGENT_TELL_ENDED:
        tell_ended(n, e->slot, e->u.ended);
        break;
    case AGENT_DONE:
        node_end(n, e->code);
        break;
    }
}

/* ---- events ---- */

static void step(struct node *n, struct agent_event *e)
{
    struct node_effects fx = {.base.emit = emit, .n = n};

    e->now_ms = net_now_ms();
    n->busy = true;
    agent_event(&n->agent, e, &fx.base);
    n->busy = false;
}

static void run_queue(struct node *n)
{
    while (n->queue_n > 0 && !n->over) {
        struct node_queued q = n->queue[n->queue_at];

        n->queue_at = (n->queue_at + 1) % NODE_QUEUE;
        n->queue_n--;
        q.event.u.report = &q.report;
        step(n, &q.event);
    }
}

static void on_tick(void *data, struct timer *t)
{
    node_event(data, &(struct agent_event){.kind = AGENT_ON_TICK});
}

void node_event(struct node *n, struct agent_event *e)
{
    mu_assert(!n->busy);
    run_queue(n);
    if (n->over) {
        return;
    }
    step(n, e);
    run_queue(n);
    node_at(n, &n->tick, agent_deadline(&n->agent), on_tick);
}

void node_queue(struct node *n, enum agent_event_kind kind, uint32_t slot, uint32_t code,
                const struct report *report)
{
    struct node_queued *q = &n->queue[(n->queue_at + n->queue_n) % NODE_QUEUE];

    mu_assert(n->queue_n < NODE_QUEUE);
    *q = (struct node_queued){.event = {.kind = kind, .slot = slot, .code = code}};
    if (report != NULL) {
        q->report = *report;
    }
    n->queue_n++;
    if (!n->busy) {
        node_after(n, &n->tick, 0, on_tick);
    }
}

void node_end(struct node *n, int code)
{
    if (!n->over) {
        n->over = true;
        n->code = n->forced_code != 0 ? n->forced_code : code;
        uv_stop(&n->loop);
    }
}

void node_fail(struct node *n, int status, const char *fmt, ...)
{
    va_list ap;

    if (n->over) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(n->error, NET_ERROR_MAX, fmt, ap);
    va_end(ap);
    n->status = status;
    node_end(n, 1);
}

/* ---- time ---- */

static void on_timer(uv_timer_t *timer);

static void wake_for_next(struct node *n)
{
    uint64_t now_ms = net_now_ms(), at_ms = timers_next_ms(&n->timers);

    if (!n->over && at_ms != UINT64_MAX) {
        uv_timer_start(&n->timer, on_timer, at_ms > now_ms ? at_ms - now_ms : 0, 0);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct node *n = timer->data;
    uint64_t now_ms = net_now_ms();
    struct timer *t;

    while (!n->over && (t = timers_take(&n->timers, now_ms)) != NULL) {
        t->fn(n, t);
    }
    wake_for_next(n);
}

void node_at(struct node *n, struct timer *t, uint64_t at_ms, void (*fn)(void *n, struct timer *t))
{
    timers_arm(&n->timers, t, at_ms, fn);
    wake_for_next(n);
}

void node_after(struct node *n, struct timer *t, uint64_t ms, void (*fn)(void *n, struct timer *t))
{
    node_at(n, t, net_now_ms() + ms, fn);
}

void node_off(struct node *n, struct timer *t)
{
    timers_disarm(&n->timers, t);
}

/* ---- from start to end ---- */

static int init_agent(struct node *n, char *error)
{
    const struct node_config *config = n->config;
    struct agent_config ac = {
        .renew_ms = config->monitor_ms,
        .members_max = MEMBERS_MAX,
        .exit_timeout_ms = config->exit_timeout_ms,
        .silent_ms = config->silent_ms,
        .hung_ms = config->hung == HUNG_REPLACE ? config->step_timeout_ms : 0,
        .keeps_hung = config->hung == HUNG_KEEP,
        .hello = {.host = net_host_id(),
                  .min = config->min,
                  .max = config->max,
                  .slots = config->slots,
                  .role = config->role,
                  .mode = config->mode,
                  .flags = (config->heal ? NODE_HEAL : 0) | (config->rerun ? NODE_RERUN : 0),
                  .max_restarts = config->max_restarts}};
    const char *name = config->name;
    char scope[sizeof(n->name.scope)];
    int rc;

    n->name.fd = -1;
    if (name == NULL) {
        snprintf(scope, sizeof(scope), "%.60s/%.60s",
                 config->standalone ? "-" : line_where(n->line), config->job);
        node_name_open(&n->name, scope);
        name = n->name.name;
    }
    random_bytes(&ac.hello.incarnation, sizeof(ac.hello.incarnation));
    ac.hello.incarnation |= 1;
    ac.early_ms = (uint32_t)(ac.hello.incarnation >> 32);
    snprintf(ac.hello.job, sizeof(ac.hello.job), "%s", config->job);
    snprintf(ac.hello.name, sizeof(ac.hello.name), "%s", name);
    n->life.slots = config->slots;
    n->life.host = ac.hello.host;
    n->life.role = config->role;
    strcpy(n->life.job, ac.hello.job);
    strcpy(n->life.node, ac.hello.name);
    rc = agent_init(&n->agent, &ac);
    if (rc != MU_OK) {
        snprintf(error, NET_ERROR_MAX, "could not set up the agent: %s", mu_strerror(rc));
    }
    return rc;
}

static int open_parts(struct node *n, char *error)
{
    int rc = node_addr_open(n, error);

    if (rc == MU_OK) {
        rc = node_line_open(n, error);
    }
    if (rc == MU_OK) {
        rc = init_agent(n, error);
    }
    if (rc == MU_OK) {
        rc = local_open(&n->loop, &node_local_handler, n, &n->local, error);
    }
    if (rc != MU_OK) {
        return rc;
    }
    n->dial = (struct relay_dial){
        .loop = &n->loop, .to = &n->config->endpoints, .tls = n->tls, .job = n->config->job};
    if (!n->config->standalone) { /* What that one keeps is gone with the run. */
        local_relay(n->local, &n->dial);
    }
    rc = keeper_open(&n->loop, "/proc/self/exe", &node_keeper_handler, n, &n->keeper);
    if (rc == MU_OK) {
        rc = node_signals_open(n);
    }
    if (rc != MU_OK) {
        snprintf(error, NET_ERROR_MAX, "could not start the keeper of the workers: %s",
                 mu_strerror(rc));
    }
    return rc;
}

static void say_end(const struct node *n)
{
    const char *job = n->config->job;

    if (n->forced_code != 0) {
        log_info(NODE_AREA, "stopped; exit code %d", n->code);
    } else if (n->ended && n->end.failed) {
        log_error(NODE_AREA, "job '%s' failed%s%s; exit code %d", job,
                  n->end.why[0] != '\0' ? ": " : "", n->end.why, n->code);
    } else if (n->ended && !n->welcomed) {
        log_info(NODE_AREA,
                 "job '%s' was done before this node came (run %u, step %llu)%s%s: nothing was "
                 "started; exit code %d. To run it again, start with --rerun",
                 job, n->end.run, (unsigned long long)n->end.step,
                 n->end.why[0] != '\0' ? ": " : "", n->end.why, n->code);
    } else if (n->ended) {
        log_info(NODE_AREA, "job '%s' is done%s%s; exit code %d", job,
                 n->end.why[0] != '\0' ? ": " : "", n->end.why, n->code);
    } else if (n->agent.draining) {
        log_info(NODE_AREA, "this node has left job '%s'; exit code %d", job, n->code);
    } else {
        log_info(NODE_AREA, "this node's part of job '%s' has ended; exit code %d", job, n->code);
    }
}

static void on_guard(uv_timer_t *timer)
{
    log_warn(NODE_AREA, "something would not close in %d s; leaving it", GUARD_MS / 1000);
    uv_stop(timer->loop);
}

static void close_parts(struct node *n)
{
    line_close(n->line, FLUSH_MS);
    node_memory_close(n);
    if (n->keeper != NULL) {
        keeper_close(n->keeper);
    }
    local_close(n->local, FLUSH_MS);
    if (n->output != NULL) {
        output_close(n->output, FLUSH_OUTPUT_MS);
    }
    node_signals_unref(n);
    if (n->alone != NULL) {
        alone_stop(n->alone);
    }
    /* It does not keep the loop alive, but ends it if something else does. */
    uv_timer_start(&n->timer, on_guard, GUARD_MS, 0);
    uv_unref((uv_handle_t *)&n->timer);
    uv_run(&n->loop, UV_RUN_DEFAULT);
    node_notes_look(n, true);
    node_signals_close(n);
    uv_close((uv_handle_t *)&n->timer, NULL);
    uv_run(&n->loop, UV_RUN_NOWAIT);
    if (uv_loop_close(&n->loop) != 0) {
        log_warn(NODE_AREA, "the loop did not close");
    }
    for (uint32_t i = 0; i < n->config->slots; i++) {
        node_ask_drop(n, i);
    }
    tls_close(n->tls);
    alone_close(n->alone);
    agent_close(&n->agent);
    node_name_close(&n->name);
    ports_close(&n->ports);
}

static int run(struct node *n, char *error)
{
    int rc = open_parts(n, error);

    if (rc != MU_OK) {
        return rc;
    }
    node_after(n, &n->tick, 0, on_tick);
    while (!n->over) {
        uv_run(&n->loop, UV_RUN_DEFAULT);
    }
    return n->status;
}

static struct node *make(const struct node_config *config, char *error)
{
    struct node *n = calloc(1, sizeof(*n));

    if (n == NULL || uv_loop_init(&n->loop) != 0) {
        free(n);
        snprintf(error, NET_ERROR_MAX, "out of memory or of file descriptors");
        return NULL;
    }
    n->config = config;
    n->error = error;
    n->name.fd = -1;
    uv_timer_init(&n->loop, &n->timer);
    n->timer.data = n;
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        n->slots[i].rank = NODE_ALONE;
        TAILQ_INIT(&n->slots[i].asks);
    }
    return n;
}

int node_run(const struct node_config *config, int *code_out, char *error)
{
    struct node_config own = *config;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    struct node *n = make(&own, error);
    int rc = MU_OK;

    if (n == NULL) {
        return MU_ENOMEM;
    }
    sigaction(SIGPIPE, &ignore, &before);
    if (own.standalone) {
        own.min = own.max = 1;
        rc = alone_open(&n->loop, &n->alone, &own.endpoints, &own.token, error);
    }
    if (rc == MU_OK) {
        rc = run(n, error);
    }
    close_parts(n);
    if (rc == MU_OK) { /* All output is written: this is the last line. */
        say_end(n);
        *code_out = n->code;
    }
    free(n);
    sigaction(SIGPIPE, &before, NULL);
    return rc;
}
