/* Effects, and the levels that every node is brought up to: the published generation, the
 * active one, the end of the run. */
#include "core/cluster_state.h"
#include "core/mutation.h"
#include "core/text.h"

#include <stdarg.h>
#include <string.h>

void say_record(struct effects *fx, const struct record *r, bool asked)
{
    fx->emit(fx, &(struct effect){.kind = EFFECT_RECORD, .asked = asked, .u.record = r});
}

void say_note(struct effects *fx, const struct note *note)
{
    if (fx != NULL) {
        fx->emit(fx, &(struct effect){.kind = EFFECT_NOTE, .u.note = note});
    }
}

void say_refused(struct effects *fx, uint32_t conn, int status, const char *fmt, ...)
{
    struct msg_refused m = {.status = status};
    struct note note = {.kind = NOTE_REFUSED, .reason = m.text};
    va_list args;

    va_start(args, fmt);
    text_vsay(m.text, sizeof(m.text), fmt, args);
    va_end(args);
    fx->emit(fx, &(struct effect){.kind = EFFECT_REFUSED, .conn = conn, .u.refused = &m});
    say_note(fx, &note);
}

void say_welcome(struct cluster *c, struct node *n, struct effects *fx)
{
    struct msg_welcome m = {.store = c->config.store,
                            .node = n->number,
                            .run = c->jobs[n->job].run,
                            .lease_ms = c->config.lease_ms,
                            .orphan_ms = c->config.orphan_ms,
                            .mode = c->jobs[n->job].mode};

    if (n->conn != 0) {
        fx->emit(fx, &(struct effect){.kind = EFFECT_WELCOME, .conn = n->conn, .u.welcome = &m});
    }
}

/* A generation that is on its way to the journal counts already: whoever it leaves out must not get
 * a new lease that outlives its publication. */
static uint64_t newest_coming(const struct job *j)
{
    if (j->proposed != 0 && !MUTATED(LEASE_STOPS_AT_PROPOSAL)) {
        return j->proposed;
    }
    return j->members_n > 0 ? j->number : 0;
}

/* An acknowledgement also says how things stand with the node. */
void say_ack(struct cluster *c, const struct node *n, struct msg_ack *ack, struct effects *fx)
{
    const struct job *j = &c->jobs[n->job];

    ack->flags = (n->draining ? NODE_DRAINING : 0) | (j->finished ? NODE_ENDING : 0);
    ack->generation = newest_coming(j);
    ack->mode = j->mode;
    ack->saves = j->saves;
    if (n->conn != 0) {
        fx->emit(fx, &(struct effect){.kind = EFFECT_ACK, .conn = n->conn, .u.ack = ack});
    }
}

/* The published generation as every member sees it. */
void generation_fill(struct cluster *c, struct job *j, struct generation *g)
{
    *g = (struct generation){.run = j->run,
                             .number = j->number,
                             .from = j->from,
                             .kind = j->kind,
                             .flags = j->flags,
                             .base_step = j->base_step,
                             .members = c->scratch};
    strcpy(g->job, j->name);
    memcpy(g->key, j->key, sizeof(g->key));
    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        for (uint32_t s = 0; s < n->slots; s++) {
            const struct worker *w = node_worker(c, n, s);
            struct member *m = &c->scratch[g->members_n];

            if (w->current_inc == 0) {
                continue;
            }
            m->worker = wid_make(n->number, s, w->current_inc);
            m->host = n->host;
            m->role = n->role;
            m->flags = w->caught_up ? MEMBER_CAUGHT_UP : 0;
            memcpy(m->addr, w->named_addr, sizeof(m->addr));
            m->port = w->named_port;
            g->members_n++;
        }
    }
    mu_assert(g->members_n == j->members_n);
}

static bool has_member(struct cluster *c, const struct node *n)
{
    for (uint32_t s = 0; s < n->slots; s++) {
        if (node_worker(c, n, s)->current_inc != 0) {
            return true;
        }
    }
    return false;
}

/* Those who have no member in it learn who is, but not the key. */
static void send_generation(struct cluster *c, struct node *n, struct generation *g,
                            struct effects *fx)
{
    struct generation keyless;
    struct effect e = {.kind = EFFECT_GENERATION, .conn = n->conn, .u.generation = g};

    if (n->conn == 0) {
        return;
    }
    n->sent = g->number;
    n->sent_ms = c->now_ms;
    if (!has_member(c, n)) {
        keyless = *g;
        memset(keyless.key, 0, sizeof(keyless.key));
        e.u.generation = &keyless;
    }
    fx->emit(fx, &e);
}

static void send_active(struct node *n, uint64_t generation, struct effects *fx)
{
    struct msg_active m = {.generation = generation};

    if (n->conn != 0) {
        fx->emit(fx, &(struct effect){.kind = EFFECT_ACTIVE, .conn = n->conn, .u.active = &m});
    }
}

void say_ended(const struct job *j, uint32_t conn, struct effects *fx)
{
    struct msg_ended m = {.run = j->run, .step = j->finished_step, .failed = j->failed};

    strcpy(m.why, j->why);

    if (conn != 0) {
        fx->emit(fx, &(struct effect){.kind = EFFECT_ENDED, .conn = conn, .u.ended = &m});
    }
}

/* Brings a node up to date. What was sent by its connection not long ago is still on its way. */
void say_level(struct cluster *c, struct node *n, struct effects *fx)
{
    struct job *j = &c->jobs[n->job];
    bool sent = n->sent == j->number && c->now_ms < n->sent_ms + c->config.lease_ms / 4;

    if (j->ended) {
        say_ended(j, n->conn, fx);
        return;
    }
    if (n->held < j->number && j->members_n > 0 && !sent) {
        struct generation g;

        generation_fill(c, j, &g);
        send_generation(c, n, &g, fx);
    }
    if (n->active < j->active) {
        send_active(n, j->active, fx);
    }
    roster_say(c, n, fx);
}

#define EACH_NODE(c, j, n)                                  \
    for (const struct list *l_ = &(j)->seniors; l_ != NULL; \
         l_ = l_ == &(j)->seniors ? &(j)->others : NULL)    \
        for (struct node *n = node_at(c, l_->first); n != NULL; n = node_at(c, n->next))

void publish_generation(struct cluster *c, struct job *j, struct effects *fx)
{
    struct generation g;

    generation_fill(c, j, &g);
    EACH_NODE (c, j, n) {
        send_generation(c, n, &g, fx);
    }
}

void publish_active(struct cluster *c, struct job *j, struct effects *fx)
{
    EACH_NODE (c, j, n) {
        send_active(n, j->active, fx);
    }
}

/* An acknowledgement of nothing: it says what the job's mode is, and whether it is ending. */
void publish_mode(struct cluster *c, struct job *j, struct effects *fx)
{
    EACH_NODE (c, j, n) {
        say_ack(c, n, &(struct msg_ack){0}, fx);
    }
}

void publish_ended(struct cluster *c, struct job *j, struct effects *fx)
{
    EACH_NODE (c, j, n) {
        say_ended(j, n->conn, fx);
    }
}
