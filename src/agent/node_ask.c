/* What workers ask of the orchestrator (wire/ask.def). The agent keeps each question until it is
 * answered, and answers itself when nobody else does in time. It looks at the policy of the kind
 * and into no body.
 *
 * REPEAT: one that belongs to a life of its worker, and is said again after each reconnect.
 * ONCE: said at most once: if the connection is lost before its answer, nobody here can tell what
 *       became of it. One that was never said waits for an orchestrator.
 * READ: asked again for as long as it has time: after a reconnect, and when the answer is
 * MU_EAGAIN. LATEST: the newest of its worker is said at most ten times a second, and the last one
 * before that worker's end. While the orchestrator is away they are dropped: newer ones follow.
 * STREAM: the agent follows each kind once, from where the worker that knows least goes on. A
 *       worker's question is answered with the first batch that has something for it.
 *
 * Where a question has no life, it is told by its slot and number alone: it does not matter if its
 * worker goes on as another meanwhile. */
#include "agent/node_state.h"
#include "core/config.h"
#include "core/text.h"
#include "wire/ask.h"

#include <stdlib.h>
#include <string.h>

#define LATE_MS 500   /* the orchestrator's own answer to one that is late comes first */
#define AGAIN_MS 200  /* before a question is asked again */
#define LATEST_MS 100 /* between two words of a kind that come from one worker */

static enum ask_policy policy(const struct msg_ask *m)
{
    return ask_rule(m->kind)->policy;
}

/* ---- the list ---- */

/* NULL: there is none. */
static struct node_ask *find(struct node *n, uint32_t slot, uint64_t request)
{
    struct node_ask *a;

    TAILQ_FOREACH(a, &n->slots[slot].asks, link)
    {
        if (a->m.request == request && policy(&a->m) != ASK_LATEST) {
            return a;
        }
    }
    return NULL;
}

static void drop(struct node *n, uint32_t slot, struct node_ask *a)
{
    TAILQ_REMOVE(&n->slots[slot].asks, a, link);
    n->slots[slot].asks_n--;
    n->ask_bytes -= a->m.body_n;
    node_off(n, &a->late);
    node_off(n, &a->again);
    free(a);
}

static struct node_ask *keep(struct node *n, uint32_t slot, const struct msg_ask *m)
{
    struct node_ask *a = malloc(sizeof(*a) + m->body_n);

    if (a == NULL) {
        return NULL;
    }
    *a = (struct node_ask){.due_ms = net_now_ms() + m->wait_ms, .m = *m};
    a->m.worker = n->slots[slot].worker; /* Whatever it says: the answer is to find this slot. */
    a->m.body = a->body;
    if (m->body_n > 0) {
        memcpy(a->body, m->body, m->body_n);
    }
    TAILQ_INSERT_TAIL(&n->slots[slot].asks, a, link);
    n->slots[slot].asks_n++;
    n->ask_bytes += m->body_n;
    return a;
}

/* ---- to the worker ---- */

static void say(const struct node *n, uint32_t slot, const struct msg_ask *m, int status, bool more,
                uint64_t at, const char *text)
{
    struct msg_says out = {
        .worker = m->worker, .request = m->request, .status = status, .more = more, .at = at};

    text_say(out.text, sizeof(out.text), "%s", text);
    local_say(n->local, slot, WIRE_SAYS, &out, 0, 0);
}

/* Answered, and forgotten. */
static void answer(struct node *n, uint32_t slot, struct node_ask *a, int status, const char *text)
{
    say(n, slot, &a->m, status, false, a->m.at, text);
    drop(n, slot, a);
}

/* What it had of an answer is void. */
static void begin_anew(struct node *n, struct node_ask *a)
{
    if (a->begun) {
        say(n, wid_slot(a->m.worker), &a->m, MU_OK, true, 0, "");
        a->begun = false;
    }
}

/* ---- to the orchestrator ---- */

#define EACH_OF_KIND(n, of, slot, a)                                           \
    for (uint32_t slot = 0; slot < (n)->config->slots; slot++)                 \
        for (struct node_ask *a = TAILQ_FIRST(&(n)->slots[slot].asks), *next_; \
             a != NULL && (next_ = TAILQ_NEXT(a, link), true); a = next_)      \
            if (a->m.kind == (of))

/* Follows a kind from where the last of its askers is. */
static void follow(struct node *n, uint16_t kind)
{
    struct msg_ask m = {.kind = kind, .wait_ms = UINT32_MAX, .at = UINT64_MAX};

    EACH_OF_KIND(n, kind, slot, a)
    {
        begin_anew(n, a);
        node_off(n, &a->again);
        a->sent = true;
        m.at = MIN(m.at, a->m.at);
    }
    m.request = n->follows[kind] = ++n->follow_request;
    line_say(n->line, WIRE_ASK, &m);
}

static void pass_on(struct node *n, struct node_ask *a)
{
    struct msg_ask m = a->m;
    uint64_t now_ms = net_now_ms();

    if (!n->agent.welcomed || a->sent) {
        return; /* It will be when we are. */
    }
    if (policy(&m) == ASK_STREAM) {
        follow(n, m.kind);
        return;
    }
    begin_anew(n, a);
    a->sent = true;
    node_off(n, &a->again);
    m.wait_ms = (uint32_t)(a->due_ms > now_ms ? MIN(a->due_ms - now_ms, UINT32_MAX) : 0);
    line_say(n->line, WIRE_ASK, &m);
}

static void on_again(void *data, struct timer *t)
{
    pass_on(data, CONTAINER_OF(t, struct node_ask, again));
}

static void ask_again(struct node *n, struct node_ask *a)
{
    a->sent = false;
    node_at(n, &a->again, net_now_ms() + AGAIN_MS, on_again);
}

/* ---- the newest ---- */

static void say_latest(struct node *n, struct node_ask *a)
{
    uint32_t slot = wid_slot(a->m.worker);

    n->slots[slot].latest_ms[a->m.kind] = net_now_ms() + LATEST_MS;
    pass_on(n, a);
    drop(n, slot, a);
}

static void on_latest(void *data, struct timer *t)
{
    say_latest(data, CONTAINER_OF(t, struct node_ask, again));
}

static void take_latest(struct node *n, uint32_t slot, const struct msg_ask *m)
{
    uint64_t next_ms = n->slots[slot].latest_ms[m->kind];
    struct node_ask *a, *before = NULL;

    TAILQ_FOREACH(a, &n->slots[slot].asks, link)
    {
        before = a->m.kind == m->kind ? a : before;
    }
    if (before != NULL) {
        drop(n, slot, before);
    }
    a = keep(n, slot, m);
    if (a == NULL) {
        return; /* Another one follows. */
    }
    if (next_ms <= net_now_ms()) {
        say_latest(n, a);
    } else {
        node_at(n, &a->again, next_ms, on_latest);
    }
}

void node_ask_flush(struct node *n, uint32_t slot)
{
    struct node_ask *a, *next;

    for (a = TAILQ_FIRST(&n->slots[slot].asks); a != NULL; a = next) {
        next = TAILQ_NEXT(a, link);
        if (policy(&a->m) == ASK_LATEST) {
            say_latest(n, a);
        }
    }
}

/* ---- what comes from a worker ---- */

/* The text, if it can't be taken; the status is in *rc_out. */
static const char *refuse(struct node *n, uint32_t slot, const struct msg_ask *m, int *rc_out)
{
    const struct ask_rule *rule = ask_rule(m->kind);

    if (n->ended) {
        *rc_out = MU_EDONE;
        return "the job is done";
    }
    if (rule == NULL || !rule->workers) {
        *rc_out = MU_EINVAL;
        return "that is no question of workers; is the agent of this node an older one?";
    }
    if (m->body_n > rule->max) {
        *rc_out = MU_ELIMIT;
        return "it is too long for a question of its kind";
    }
    if (rule->policy == ASK_REPEAT && m->worker != n->slots[slot].worker) {
        *rc_out = MU_ESTALE;
        return "this worker goes on as another";
    }
    if (rule->policy != ASK_LATEST &&
        (n->slots[slot].asks_n >= NODE_ASKS_MAX || n->ask_bytes + m->body_n > NODE_ASK_BYTES_MAX)) {
        *rc_out = MU_ELIMIT;
        return "too many questions of this worker, or of this node, wait for an answer";
    }
    return NULL;
}

static void on_late(void *data, struct timer *t);

void node_ask_take(struct node *n, uint32_t slot, const struct msg_ask *m)
{
    struct node_ask *a;
    int rc = MU_OK;
    const char *why = refuse(n, slot, m, &rc);

    if (why != NULL) {
        say(n, slot, m, rc, false, 0, why);
    } else if (policy(m) == ASK_LATEST) {
        if (m->worker == n->slots[slot].worker) {
            take_latest(n, slot, m);
        }
    } else if (find(n, slot, m->request) != NULL) {
        log_debug(NODE_AREA, "slot %u asks twice under one number", slot);
    } else if ((a = keep(n, slot, m)) == NULL) {
        say(n, slot, m, MU_ENOMEM, false, 0, "the agent is out of memory");
    } else {
        node_at(n, &a->late, a->due_ms, on_late);
        pass_on(n, a);
    }
}

/* ---- answers ---- */

/* Something that has come to be, for those who wait for it. */
static void take_item(struct node *n, uint16_t kind, const struct msg_says *m)
{
    EACH_OF_KIND(n, kind, slot, a)
    {
        if (m->at > a->m.at && config_matches(a->m.topic, m->topic)) {
            struct msg_says to = *m;

            to.worker = a->m.worker;
            to.request = a->m.request;
            to.more = true;
            local_say(n->local, slot, WIRE_SAYS, &to, 0, 0);
            a->begun = true;
        }
    }
}

/* All of a batch is there. One that is ahead of the orchestrator is of another store. */
static void take_mark(struct node *n, uint16_t kind, uint64_t at)
{
    bool wanted = false;

    EACH_OF_KIND(n, kind, slot, a)
    {
        wanted = true;
        a->heard = true;
        if (a->begun) {
            say(n, slot, &a->m, MU_OK, false, at, "");
            drop(n, slot, a);
        } else if (a->m.at > at) {
            answer(n, slot, a, MU_ESTALE, "nothing is known of that version: list them anew");
        } else {
            a->m.at = at;
        }
    }
    if (!wanted) { /* Nobody has asked since the last batch; whoever does begins it anew. */
        line_say(n->line, WIRE_ASK,
                 &(struct msg_ask){.kind = kind, .at = at, .request = n->follow_request});
        n->follows[kind] = 0;
    }
}

/* It is not followed any more: those who asked from there on hear why, and the others go on. */
static void take_end(struct node *n, uint16_t kind, const struct msg_says *m)
{
    struct node_ask *rest = NULL;

    n->follows[kind] = 0;
    EACH_OF_KIND(n, kind, slot, a)
    {
        if (m->status == MU_OK || m->status == MU_EAGAIN) {
            ask_again(n, a);
        } else if (m->status != MU_ESTALE || a->m.at <= m->at) {
            answer(n, slot, a, m->status, m->text);
        } else {
            a->sent = false;
            rest = a;
        }
    }
    if (rest != NULL) {
        pass_on(n, rest);
    }
}

static void take_stream(struct node *n, uint16_t kind, const struct msg_says *m)
{
    if (m->status != MU_OK || !m->more) {
        take_end(n, kind, m);
    } else if (m->topic[0] != '\0') {
        take_item(n, kind, m);
    } else {
        take_mark(n, kind, m->at);
    }
}

void node_ask_answer(struct node *n, const struct msg_says *m)
{
    uint32_t slot = wid_slot(m->worker);
    struct node_ask *a;

    for (uint16_t kind = 0; m->worker == 0 && kind < ASK_KINDS_N; kind++) {
        if (n->follows[kind] != 0 && n->follows[kind] == m->request) {
            take_stream(n, kind, m);
            return;
        }
    }
    if (m->worker == 0 || slot >= n->config->slots || (a = find(n, slot, m->request)) == NULL) {
        return; /* It has been answered. */
    }
    if (policy(&a->m) == ASK_REPEAT && a->m.worker != m->worker) {
        return;
    }
    if (m->status == MU_EAGAIN && policy(&a->m) == ASK_READ) {
        ask_again(n, a);
        return;
    }
    local_say(n->local, slot, WIRE_SAYS, m, 0, 0);
    a->begun = true;
    if (m->status != MU_OK || !m->more) {
        drop(n, slot, a);
    }
}

/* ---- the connection ---- */

void node_ask_repeat(struct node *n)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_ask *a;

        TAILQ_FOREACH(a, &n->slots[i].asks, link)
        {
            /* The connection may be the same, and this node another one. */
            a->sent = a->sent && policy(&a->m) != ASK_REPEAT;
            if (policy(&a->m) != ASK_LATEST) {
                pass_on(n, a);
            }
        }
    }
}

static void lose(struct node *n, uint32_t slot, struct node_ask *a)
{
    if (a->sent && policy(&a->m) == ASK_ONCE) {
        answer(n, slot, a, MU_EAGAIN,
               "the orchestrator was lost before it answered: it is not known whether the change "
               "was made; read it again");
    } else if (policy(&a->m) != ASK_LATEST) {
        a->sent = a->heard = false;
        node_off(n, &a->again); /* The welcome comes first. */
    }
}

void node_ask_lost(struct node *n)
{
    memset(n->follows, 0, sizeof(n->follows));
    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_ask *a, *next;

        for (a = TAILQ_FIRST(&n->slots[i].asks); a != NULL; a = next) {
            next = TAILQ_NEXT(a, link);
            lose(n, i, a);
        }
    }
}

/* ---- ends ---- */

void node_ask_end(struct node *n, uint32_t slot, int status, const char *text)
{
    struct node_ask *a, *next;

    for (a = TAILQ_FIRST(&n->slots[slot].asks); a != NULL; a = next) {
        next = TAILQ_NEXT(a, link);
        if (policy(&a->m) != ASK_LATEST && (status != MU_ESTALE || policy(&a->m) == ASK_REPEAT)) {
            answer(n, slot, a, status, text);
        }
    }
}

void node_ask_drop(struct node *n, uint32_t slot)
{
    while (!TAILQ_EMPTY(&n->slots[slot].asks)) {
        drop(n, slot, TAILQ_FIRST(&n->slots[slot].asks));
    }
}

static void on_late(void *data, struct timer *t)
{
    struct node *n = data;
    struct node_ask *a = CONTAINER_OF(t, struct node_ask, late);
    const bool streams = policy(&a->m) == ASK_STREAM;
    const bool away = line_is_away(n->line);
    char text[TEXT_MAX_LEN] = "";
    const char *made = "";

    if (policy(&a->m) == ASK_ONCE) {
        made =
            a->sent ? "; it is not known whether the change was made" : "; the change was not made";
    }
    if (away) {
        text_say(text, sizeof(text), "the orchestrator at %.120s is away%s", line_where(n->line),
                 made);
    } else if (net_now_ms() < a->due_ms + LATE_MS && !(streams && a->heard)) {
        node_at(n, t, a->due_ms + LATE_MS, on_late);
        return;
    } else if (!streams || !a->heard) {
        text_say(text, sizeof(text), "the orchestrator did not answer in time%s", made);
    }
    answer(n, wid_slot(a->m.worker), a, MU_ETIMEDOUT, text);
}
