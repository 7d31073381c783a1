/* The connection to the orchestrator: made, lost and made again. Training goes on without it. */
#include "agent/node_state.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define BACKOFF_MS 100
#define BACKOFF_MAX_MS 1000 /* well within the grace that a new orchestrator gives: a lease */
#define NOTE_MS 30000
#define HANDSHAKE_MS 10000
#define IDLE_MS 10000
#define OUT_MAX (8u << 20)

static void on_opened(struct conn *c);
static void on_closed(struct conn *c, int status, const char *why);

static void on_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct node *n = conn_data(c);

    if (c == n->link.conn) {
        node_frame(n, h, msg);
    }
}

static const struct conn_handler handler = {
    .opened = on_opened, .frame = on_frame, .closed = on_closed};

/* ---- words for people ---- */

static void print_where(const struct endpoints *to, char *buf, size_t cap)
{
    size_t used = 0;

    for (uint32_t i = 0; i < to->n && used + 1 < cap; i++) {
        char one[HOST_MAX_LEN + 16];

        endpoint_print(&to->at[i], one, sizeof(one));
        used += (size_t)snprintf(buf + used, cap - used, "%s%s", i > 0 ? "," : "", one);
    }
}

static void say_away(struct node *n, const char *why, uint64_t now_ms)
{
    struct node_link *l = &n->link;

    if (l->away_ms == 0) {
        l->away_ms = now_ms;
        l->note_ms = now_ms + NOTE_MS;
        if (l->welcomed) {
            log_warn(NODE_AREA, "the orchestrator at %s went away (%s); work goes on, reconnecting",
                     l->where, why);
        } else {
            log_warn(NODE_AREA,
                     "no orchestrator at %s yet (%s); start one with: muster serve --listen %s",
                     l->where, why, l->first);
        }
    } else {
        log_debug(NODE_AREA, "no connection to %s: %s", l->where, why);
    }
}

static void say_still_away(struct node *n, uint64_t now_ms)
{
    const struct node_link *l = &n->link;
    unsigned away_s = (unsigned)((now_ms - l->away_ms) / 1000);

    if (l->welcomed) {
        log_warn(NODE_AREA, "the orchestrator at %s has been away for %u s; work goes on", l->where,
                 away_s);
    } else {
        log_warn(NODE_AREA,
                 "no orchestrator at %s yet, for %u s; start one with: muster serve --listen %s",
                 l->where, away_s, l->first);
    }
}

/* ---- trying ---- */

/* The first try after a welcome is at once; one that comes to nothing, or ends before the next
 * welcome, is followed by a pause. */
static void retry(struct node *n, uint64_t now_ms)
{
    struct node_link *l = &n->link;
    uint64_t wait_ms = 0;

    if (l->tries_n > 0) {
        wait_ms = MIN((uint64_t)BACKOFF_MS << MIN(l->tries_n - 1, 16u), BACKOFF_MAX_MS);
    }
    /* Jitter: all agents of a cluster lose their orchestrator at the same moment. */
    l->tries_n++;
    l->retry_ms = now_ms + prng_between(&n->prng, wait_ms / 2, wait_ms);
}

static void try_now(struct node *n, uint64_t now_ms)
{
    struct node_link *l = &n->link;
    int rc;

    l->retry_ms = NODE_NEVER;
    rc = conn_connect(&n->loop, &n->config->endpoints, l->tls, &handler, &l->limits, n, &l->conn);
    if (rc != MU_OK) {
        l->conn = NULL;
        say_away(n, mu_strerror(rc), now_ms);
        retry(n, now_ms);
    }
}

static void on_opened(struct conn *c)
{
    struct node *n = conn_data(c);
    struct agent_event e = {.kind = AGENT_ON_CONNECTED};

    if (c != n->link.conn || n->over) {
        return;
    }
    node_addr_learn(n, conn_peer(c));
    node_event(n, &e);
}

/* The token is wrong, the version another, or what listens there no orchestrator: trying again
 * would not help. It would if we had been in before: then ours is being replaced. */
static bool is_final(const struct node *n, int status)
{
    return !n->link.welcomed &&
           (status == MU_EREFUSED || status == MU_EVERSION || status == MU_EPROTO);
}

static void on_closed(struct conn *c, int status, const char *why)
{
    struct node *n = conn_data(c);
    struct agent_event e = {.kind = AGENT_ON_CLOSED};
    uint64_t now_ms = net_now_ms();

    if (c != n->link.conn || n->over) {
        return;
    }
    n->link.conn = NULL;
    if (is_final(n, status)) {
        node_fail(n, status, "the orchestrator at %s: %s", n->link.where, why);
        return;
    }
    say_away(n, why, now_ms);
    node_config_lost(n);
    if (n->agent.connected) {
        node_event(n, &e); /* It answers with AGENT_CONNECT. */
    } else {
        retry(n, now_ms);
        node_rearm(n);
    }
}

/* ---- for the others ---- */

int node_link_open(struct node *n, char *error)
{
    const struct node_config *config = n->config;

    n->link.retry_ms = NODE_NEVER;
    n->link.limits = (struct conn_limits){.handshake_ms = HANDSHAKE_MS,
                                          .idle_ms = MAX(IDLE_MS, 4 * config->monitor_ms),
                                          .out_max = OUT_MAX};
    print_where(&config->endpoints, n->link.where, sizeof(n->link.where));
    endpoint_print(&config->endpoints.at[0], n->link.first, sizeof(n->link.first));
    return tls_client_open(&config->token, &n->link.tls, error);
}

void node_link_connect(struct node *n)
{
    retry(n, net_now_ms());
}

void node_link_say(struct node *n, enum wire_type type, const void *msg)
{
    if (n->link.conn != NULL) {
        conn_say(n->link.conn, type, msg, 0, 0);
    }
}

void node_link_welcome(struct node *n)
{
    struct node_link *l = &n->link;

    if (l->away_ms != 0 && l->welcomed) {
        log_info(NODE_AREA, "the orchestrator at %s is back after %.1f s", l->where,
                 (double)(net_now_ms() - l->away_ms) / 1000);
    }
    l->welcomed = true;
    l->away_ms = 0;
    l->tries_n = 0;
}

uint64_t node_link_deadline(const struct node *n)
{
    uint64_t note_ms = n->link.away_ms != 0 ? n->link.note_ms : NODE_NEVER;

    return MIN(n->link.retry_ms, note_ms);
}

void node_link_tick(struct node *n, uint64_t now_ms)
{
    if (n->link.away_ms != 0 && n->link.note_ms <= now_ms) {
        say_still_away(n, now_ms);
        n->link.note_ms = now_ms + NOTE_MS;
    }
    if (n->link.retry_ms <= now_ms && n->link.conn == NULL) {
        try_now(n, now_ms);
    }
}

void node_link_close(struct node *n, uint32_t flush_ms)
{
    if (n->link.conn != NULL) {
        conn_close(n->link.conn, flush_ms);
        n->link.conn = NULL;
    }
}
