/* The line to the orchestrator, and what comes over it, as events. */
#include "agent/node_state.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define HANDSHAKE_MS 10000
#define IDLE_MS 10000
#define OUT_MAX (8u << 20)
#define IDLE_NOTE_MS 5000
#define RENAME_AFTER 5 /* refusals, about a second: who just died has left its name by then */
#define SAY_AFTER 3    /* refusals for now: what passes before that is not worth a line */
#define SAY_EVERY 80   /* refusals for now from one line to the next: about a minute */

static bool has_chosen_name(const struct node *n)
{
    return n->config->name == NULL && n->config->standalone == false;
}

static void say_idle(void *data, struct timer *t)
{
    const struct node *n = data;

    if (n->lives_n == 0 && !n->drained) {
        log_info(NODE_AREA,
                 "waiting: job '%s' has not taken this node in yet (it wants %u to %u "
                 "nodes; \"muster status\" shows them)",
                 n->config->job, n->config->min, n->config->max);
    }
}

static void on_welcome(struct node *n, const struct msg_welcome *m)
{
    struct agent_event e = {.kind = AGENT_ON_WELCOME, .u.welcome = m};
    const struct msg_hello *hello = &n->agent.config.hello;
    char error[NET_ERROR_MAX];

    if (!n->welcomed || m->run != n->life.run) {
        node_after(n, &n->idle, IDLE_NOTE_MS, say_idle);
        log_info(NODE_AREA, "in job '%s' (run %u) as node '%s', %u worker%s", hello->job, m->run,
                 hello->name, hello->slots, hello->slots == 1 ? "" : "s");
    }
    n->welcomed = true;
    line_welcome(n->line);
    n->refused_n = 0;
    if (m->run != n->life.run) {
        n->life.run = m->run;
        token_derive_run(&n->config->token, hello->job, m->run, n->life.key);
        node_memory_sweep(n, m);
    }
    node_keeper_will(n, m);
    n->life.lease_ms = m->lease_ms;
    n->life.orphan_ms = m->orphan_ms;
    n->life.mode = m->mode;
    strcpy(n->life.node, hello->name);
    if (node_slots_open(n, error) != MU_OK) {
        node_fail(n, MU_EIO, "%s", error);
        return;
    }
    node_event(n, &e);
    node_ask_repeat(n);
}

static bool will_try_again(int status)
{
    return status == MU_EAGAIN || status == MU_ESTALE || status == MU_EEXIST;
}

static void on_refused(struct node *n, const struct msg_refused *m)
{
    struct msg_refused as = *m;
    struct agent_event e = {.kind = AGENT_ON_REFUSED, .u.refused = &as};

    n->refused_n++;
    if (m->status == MU_EEXIST && has_chosen_name(n) && !n->welcomed) {
        if (n->refused_n >= RENAME_AFTER) {
            node_name_next(&n->name);
            log_info(NODE_AREA, "there is a node of this host's name already; this one is '%s'",
                     n->name.name);
            strcpy(n->agent.config.hello.name, n->name.name);
            n->refused_n = n->agent.refused_n = 0;
        }
        as.status = MU_EAGAIN;
    } else if (m->status == MU_EEXIST && n->refused_n == 1) {
        log_warn(NODE_AREA, "%s; trying again for a while", m->text);
    } else if (m->status == MU_EAGAIN && n->refused_n % SAY_EVERY == SAY_AFTER) {
        log_warn(NODE_AREA, "the orchestrator at %s can't take this node in for now: %s",
                 line_where(n->line), m->text);
    }
    node_event(n, &e);
    if (m->status == MU_ELIMIT && n->agent.last_code != 0) {
        log_error(NODE_AREA, "giving up: %s", m->text);
    } else if (!will_try_again(as.status) || n->agent.over) {
        log_error(NODE_AREA, "the orchestrator at %s refused this node: %s", line_where(n->line),
                  m->text);
    }
}

static void on_ended(struct node *n, const struct msg_ended *m)
{
    struct agent_event e = {.kind = AGENT_ON_ENDED, .u.ended = m};

    n->ended = true;
    n->end = *m;
    node_event(n, &e);
}

static void on_generation(struct node *n, const struct generation *g)
{
    struct agent_event e = {.kind = AGENT_ON_GENERATION, .u.generation = g};

    log_debug(NODE_AREA, "generation %llu of job '%s': %u members", (unsigned long long)g->number,
              g->job, g->members_n);
    node_addr_check(n, g);
    node_event(n, &e);
}

static void say_mode(const struct node *n)
{
    if (n->life.mode == MODE_RESTART) {
        log_info(NODE_AREA, "job '%s' is in restart mode: scripts start again with each change",
                 n->config->job);
    } else if (n->life.mode == MODE_INPROCESS) {
        log_info(NODE_AREA, "job '%s' is in-process: workers live through changes", n->config->job);
    }
}

static void on_ack(struct node *n, const struct msg_ack *m)
{
    struct agent_event e = {.kind = AGENT_ON_ACK, .u.ack = m};
    bool was_draining = n->agent.draining;
    bool was_ending = n->agent.ending_ms != 0;

    if (n->life.mode != m->mode) {
        n->life.mode = m->mode;
        say_mode(n);
    }
    node_event(n, &e);
    if (n->agent.draining && !was_draining) {
        log_info(NODE_AREA, "draining: somebody wants this node to leave job '%s'", n->config->job);
    }
    if (n->agent.ending_ms != 0 && !was_ending) {
        log_info(NODE_AREA, "a worker of job '%s' has finished; the others have %.0f s to do so",
                 n->config->job, (double)n->config->exit_timeout_ms / 1000);
    }
}

static void on_frame(void *data, const struct wire_header *h, const union wire_any *msg)
{
    struct node *n = data;
    struct agent_event e = {0};

    switch (h->type) {
    case WIRE_WELCOME:
        on_welcome(n, &msg->welcome);
        break;
    case WIRE_REFUSED:
        on_refused(n, &msg->refused);
        break;
    case WIRE_GENERATION:
        on_generation(n, &msg->generation);
        break;
    case WIRE_ENDED:
        on_ended(n, &msg->ended);
        break;
    case WIRE_ACK:
        on_ack(n, &msg->ack);
        break;
    case WIRE_ACTIVE:
        e.kind = AGENT_ON_ACTIVE;
        e.u.active = &msg->active;
        node_event(n, &e);
        break;
    case WIRE_SAYS:
        node_ask_answer(n, &msg->says);
        break;
    case WIRE_ROSTER:
        e.kind = AGENT_ON_ROSTER;
        e.u.roster = &msg->roster;
        node_event(n, &e);
        break;
    default:
        log_debug(NODE_AREA, "the orchestrator says '%s', which is not for agents",
                  wire_name(h->type));
        break;
    }
}

static void on_opened(void *data, const char *peer)
{
    struct node *n = data;

    if (!n->over) {
        node_addr_learn(n, peer);
        node_event(n, &(struct agent_event){.kind = AGENT_ON_CONNECTED});
    }
}

static void on_lost(void *data)
{
    struct node *n = data;

    if (!n->over) {
        node_ask_lost(n);
        node_event(n, &(struct agent_event){.kind = AGENT_ON_CLOSED});
    }
}

static void on_failed(void *data, int status, const char *why)
{
    node_fail(data, status, "%s", why);
}

int node_line_open(struct node *n, char *error)
{
    static const struct line_handler handler = {
        .opened = on_opened, .frame = on_frame, .lost = on_lost, .failed = on_failed};
    const struct node_config *config = n->config;
    struct line_config lc = {.to = &config->endpoints,
                             .limits = {.handshake_ms = HANDSHAKE_MS,
                                        .idle_ms = MAX(IDLE_MS, 4 * config->monitor_ms),
                                        .out_max = OUT_MAX},
                             .area = NODE_AREA,
                             .meanwhile = "work goes on"};
    int rc = tls_client_open(&config->token, &n->tls, error);

    if (rc == MU_OK) {
        lc.tls = n->tls;
        rc = line_open(&n->loop, &lc, &handler, n, &n->line);
        if (rc != MU_OK) {
            snprintf(error, NET_ERROR_MAX, "out of memory");
        }
    }
    return rc;
}
