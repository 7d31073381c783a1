/* One node of a swarm: the driver around core/agent, without processes. */
#include "base/prng.h"
#include "swarm.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define BACKOFF_MS 100
#define BACKOFF_MAX_MS 5000
#define HANDSHAKE_MS 60000 /* the orchestrator is to be the one who runs out of patience */

uint64_t swarm_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t swarm_bucket(uint64_t us)
{
    uint32_t log2;

    if (us < 32) {
        return (uint32_t)us;
    }
    log2 = 63 - (uint32_t)__builtin_clzll(us);
    return MIN((log2 - 4) * 16 + (uint32_t)(us >> (log2 - 4)), SWARM_BUCKETS - 1u);
}

uint64_t swarm_bucket_us(uint32_t bucket)
{
    uint32_t shift = bucket / 16 - 1;

    if (bucket < 32) {
        return bucket;
    }
    return ((uint64_t)(bucket % 16 + 17) << shift) - 1;
}

static const struct conn_handler handler;
static void feed(struct swarm_node *n, struct agent_event *e);

static void on_timer(uv_timer_t *timer)
{
    struct swarm_node *n = timer->data;
    struct agent_event e = {.kind = AGENT_ON_TICK};

    n->timer_ms = UINT64_MAX;
    if (n->conn == NULL && n->retry_ms <= net_now_ms()) {
        struct swarm *s = n->swarm;
        struct conn_limits limits = {.handshake_ms = HANDSHAKE_MS};

        mu_assert(conn_connect(&s->loop, &s->config.to, s->tls, &handler, &limits, n, &n->conn) ==
                  MU_OK);
    }
    feed(n, &e);
}

/* A timer that is early costs a tick; only one that would be late has to be set again. */
static void arm(struct swarm_node *n, uint64_t at_ms)
{
    uint64_t now_ms = net_now_ms();

    if (at_ms < n->timer_ms) {
        n->timer_ms = at_ms;
        uv_update_time(&n->swarm->loop);
        uv_timer_start(&n->timer, on_timer, at_ms > now_ms ? at_ms - now_ms : 0, 0);
    }
}

/* ---- effects ---- */

struct node_effects {
    struct agent_effects base;
    struct swarm_node *n;
};

static void say(struct swarm_node *n, enum wire_type type, const void *msg)
{
    if (n->conn != NULL) {
        conn_say(n->conn, type, msg, 0, 0);
    }
}

static void renew(struct swarm_node *n, const struct msg_renew *m)
{
    n->sent_ns[m->seq % AGENT_RENEWALS] = swarm_now_ns();
    n->swarm->counts.renewals++;
    say(n, WIRE_RENEW, m);
}

static void emit(struct agent_effects *base, const struct agent_effect *e)
{
    struct swarm_node *n = ((struct node_effects *)base)->n;

    switch (e->kind) {
    case AGENT_CONNECT:
        break; /* on_closed() does */
    case AGENT_HELLO:
        say(n, WIRE_HELLO, e->u.hello);
        break;
    case AGENT_RENEW:
        renew(n, e->u.renew);
        break;
    case AGENT_REPORTS:
        say(n, WIRE_REPORTS, e->u.reports);
        break;
    case AGENT_BYE:
        say(n, WIRE_BYE, e->u.bye);
        break;
    case AGENT_START: /* It has used the port that was reported. */
    case AGENT_ADDR:
        n->moves = true;
        break;
    case AGENT_STOP:
    case AGENT_KILL:
        n->exits = true;
        break;
    case AGENT_LIFE:
    case AGENT_TELL_GENERATION:
    case AGENT_TELL_ACTIVE:
    case AGENT_TELL_ROSTER:
    case AGENT_TELL_LEASE:
    case AGENT_TELL_ENDED:
    case AGENT_DONE:
        break;
    }
}

/* ---- events ---- */

static void step(struct swarm_node *n, struct agent_event *e)
{
    struct node_effects fx = {.base.emit = emit, .n = n};

    e->now_ms = net_now_ms();
    agent_event(&n->agent, e, &fx.base);
}

static void move(struct swarm_node *n)
{
    struct report r = {.port = 20000 + n->agent.slots[0].port % 20000 + 1};
    struct agent_event e = {.kind = AGENT_ON_ADDR, .u.report = &r};

    snprintf(r.addr, sizeof(r.addr), "10.%u.%u.%u", n->index >> 16 & 0xff, n->index >> 8 & 0xff,
             n->index & 0xff);
    step(n, &e);
}

/* What effects ask for is an event of its own: they come in the middle of another. */
static void feed(struct swarm_node *n, struct agent_event *e)
{
    step(n, e);
    while (n->exits || n->moves) {
        if (n->exits) {
            struct agent_event ended = {.kind = AGENT_ON_EXIT, .code = 143};

            n->exits = false;
            step(n, &ended);
        } else {
            n->moves = false;
            move(n);
        }
    }
    arm(n, agent_deadline(&n->agent));
}

static void note_welcome(struct swarm_node *n)
{
    n->tries_n = 0;
    if (n->welcomed_ns == 0) {
        n->welcomed_ns = swarm_now_ns();
        n->swarm->welcomed_n++;
    }
}

static void note_active(struct swarm_node *n)
{
    struct swarm *s = n->swarm;

    if (n->active_ns != 0 || n->agent.held.number != n->agent.active ||
        n->agent.held.members_n != s->config.per_job) {
        return;
    }
    n->active_ns = swarm_now_ns();
    if (++s->active_n == s->config.n) {
        s->admitted(s);
    }
}

static void note_ack(struct swarm_node *n, uint64_t seq)
{
    uint64_t *sent_ns = &n->sent_ns[seq % AGENT_RENEWALS];
    struct swarm *s = n->swarm;

    if (seq == 0 || *sent_ns == 0 || n->agent.renew_seq - seq >= AGENT_RENEWALS) {
        return;
    }
    s->counts.rtt_us[swarm_bucket((swarm_now_ns() - *sent_ns) / 1000)]++;
    s->counts.acks++;
    *sent_ns = 0;
    if (s->depth > 0) {
        swarm_node_flood(n);
    }
}

static void on_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct swarm_node *n = conn_data(c);
    struct agent_event e = {0};

    switch (h->type) {
    case WIRE_WELCOME:
        e = (struct agent_event){.kind = AGENT_ON_WELCOME, .u.welcome = &msg->welcome};
        feed(n, &e);
        note_welcome(n);
        break;
    case WIRE_REFUSED:
        n->swarm->counts.refused++;
        e = (struct agent_event){.kind = AGENT_ON_REFUSED, .u.refused = &msg->refused};
        feed(n, &e);
        break;
    case WIRE_GENERATION:
        n->swarm->counts.generations++;
        e = (struct agent_event){.kind = AGENT_ON_GENERATION, .u.generation = &msg->generation};
        feed(n, &e);
        break;
    case WIRE_ACTIVE:
        e = (struct agent_event){.kind = AGENT_ON_ACTIVE, .u.active = &msg->active};
        feed(n, &e);
        note_active(n);
        break;
    case WIRE_ACK:
        e = (struct agent_event){.kind = AGENT_ON_ACK, .u.ack = &msg->ack};
        feed(n, &e);
        note_ack(n, msg->ack.seq);
        break;
    case WIRE_ENDED:
        e = (struct agent_event){.kind = AGENT_ON_ENDED, .u.ended = &msg->ended};
        feed(n, &e);
        break;
    default:
        break;
    }
}

/* ---- the connection ---- */

static void no_longer_opening(struct swarm_node *n)
{
    if (!n->opened) {
        n->opened = true;
        n->swarm->opening_n--;
        swarm_connect(n->swarm);
    }
}

static void on_opened(struct conn *c)
{
    struct swarm_node *n = conn_data(c);
    struct agent_event e = {.kind = AGENT_ON_CONNECTED};

    feed(n, &e);
    no_longer_opening(n);
}

/* As `muster run` does: the first time at once, then with longer and longer pauses. */
static void retry(struct swarm_node *n)
{
    uint64_t wait_ms = 0;

    if (n->tries_n > 0) {
        wait_ms = MIN((uint64_t)BACKOFF_MS << MIN(n->tries_n - 1, 16u), BACKOFF_MAX_MS);
    }
    n->tries_n++;
    n->retry_ms = net_now_ms() + prng_between(&n->swarm->prng, wait_ms / 2, wait_ms);
    arm(n, n->retry_ms);
}

static void on_closed(struct conn *c, int status, const char *why)
{
    struct swarm_node *n = conn_data(c);
    struct agent_event e = {.kind = AGENT_ON_CLOSED};

    if (n->swarm->counts.closed++ == 0) {
        fprintf(stderr, "swarm: node %u: %s\n", n->index, why);
    }
    n->conn = NULL;
    memset(n->sent_ns, 0, sizeof(n->sent_ns));
    feed(n, &e);
    retry(n);
    no_longer_opening(n);
}

static const struct conn_handler handler = {
    .opened = on_opened, .frame = on_frame, .closed = on_closed};

void swarm_connect(struct swarm *s)
{
    while (s->next < s->config.n &&
           (s->config.at_a_time == 0 || s->opening_n < s->config.at_a_time)) {
        s->opening_n++;
        arm(&s->nodes[s->next++], 0);
    }
}

void swarm_node_flood(struct swarm_node *n)
{
    struct agent *a = &n->agent;
    uint32_t under_way = 0;

    for (uint32_t i = 0; i < AGENT_RENEWALS; i++) {
        under_way += n->sent_ns[i] != 0;
    }
    for (; under_way < n->swarm->depth && a->welcomed; under_way++) {
        struct msg_renew m = {.seq = ++a->renew_seq, .held = a->held.number, .active = a->active};

        a->sent_ms[m.seq % AGENT_RENEWALS] = net_now_ms();
        renew(n, &m);
    }
}

/* ---- its life ---- */

int swarm_node_init(struct swarm *s, struct swarm_node *n, uint32_t index)
{
    const struct swarm_config *k = &s->config;
    struct agent_config config = {.hello = {.incarnation = index + 1,
                                            .host = index + 1,
                                            .min = k->per_job,
                                            .max = k->per_job,
                                            .slots = 1,
                                            .role = ROLE_WORKER,
                                            .mode = MODE_RESTART,
                                            .max_restarts = 3},
                                  .renew_ms = k->renew_ms,
                                  .early_ms = (uint32_t)prng_mix(index),
                                  .members_max = k->per_job};
    int rc;

    snprintf(config.hello.job, sizeof(config.hello.job), "%.40s-%u", k->jobs, index / k->per_job);
    snprintf(config.hello.name, sizeof(config.hello.name), "node-%u", index);
    n->swarm = s;
    n->index = index;
    n->timer_ms = UINT64_MAX;
    rc = agent_init(&n->agent, &config);
    if (rc != MU_OK) {
        return rc;
    }
    uv_timer_init(&s->loop, &n->timer);
    n->timer.data = n;
    move(n);
    return MU_OK;
}

void swarm_node_close(struct swarm_node *n)
{
    if (n->conn != NULL) {
        conn_close(n->conn, 0);
        n->conn = NULL;
    }
    uv_close((uv_handle_t *)&n->timer, NULL);
    agent_close(&n->agent);
}
