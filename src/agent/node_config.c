/* What workers ask of the job's settings. The orchestrator has them; the agent keeps each request
 * until it is answered, and answers itself when nobody else does in time.
 *
 * A read is asked again for as long as it has time: after a reconnect, and when the orchestrator
 * can't answer just now. A change is sent at most once: if the connection is lost before its
 * answer, nobody here can tell whether it was made. One that was never sent waits for an
 * orchestrator. A request is told by its slot and number alone: settings belong to the job, so it
 * does not matter if its worker goes on as another meanwhile. */
#include "agent/node_state.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

#define LATE_MS 500    /* the orchestrator's own answer to one that is late comes first */
#define AGAIN_MS 200   /* before a read is asked again */
#define WATCH_MS 60000 /* asked in pieces, so that those of the dead are soon forgotten there */

static bool is_change(const struct msg_config *m)
{
    return m->verb == CONFIG_PUT || m->verb == CONFIG_REMOVE;
}

/* ---- the list ---- */

/* NULL: there is none. */
static struct node_config_ask *find(struct node *n, uint32_t slot, uint64_t request)
{
    struct node_config_ask *a;

    TAILQ_FOREACH(a, &n->slots[slot].configs, link)
    {
        if (a->m.request == request) {
            return a;
        }
    }
    return NULL;
}

static void drop(struct node *n, uint32_t slot, struct node_config_ask *a)
{
    TAILQ_REMOVE(&n->slots[slot].configs, a, link);
    n->slots[slot].configs_n--;
    n->config_bytes -= a->m.value_n;
    node_off(n, &a->late);
    node_off(n, &a->again);
    free(a);
}

static void on_late(void *data, struct timer *t);

static struct node_config_ask *keep(struct node *n, uint32_t slot, const struct msg_config *m)
{
    struct node_config_ask *a = malloc(sizeof(*a) + m->value_n);

    if (a == NULL) {
        return NULL;
    }
    *a = (struct node_config_ask){.due_ms = net_now_ms() + m->wait_ms, .m = *m};
    a->m.worker = n->slots[slot].worker; /* Whatever it says: the answer is to find this slot. */
    a->m.value = a->value;
    if (m->value_n > 0) {
        memcpy(a->value, m->value, m->value_n);
    }
    TAILQ_INSERT_TAIL(&n->slots[slot].configs, a, link);
    n->slots[slot].configs_n++;
    n->config_bytes += m->value_n;
    node_at(n, &a->late, a->due_ms, on_late);
    return a;
}

/* ---- to the worker ---- */

static void say(struct node *n, uint32_t slot, const struct msg_config *m, int status, bool more,
                const char *text)
{
    struct msg_setting out = {
        .worker = m->worker, .request = m->request, .status = status, .more = more};

    text_say(out.text, sizeof(out.text), "%s", text);
    local_say(n->local, slot, WIRE_SETTING, &out, 0, m->request);
}

/* Answered, and forgotten. */
static void answer(struct node *n, uint32_t slot, struct node_config_ask *a, int status,
                   const char *text)
{
    say(n, slot, &a->m, status, false, text);
    drop(n, slot, a);
}

/* ---- to the orchestrator ---- */

static void pass_on(struct node *n, uint32_t slot, struct node_config_ask *a, uint64_t now_ms)
{
    struct msg_config m = a->m;
    uint64_t left_ms = a->due_ms > now_ms ? a->due_ms - now_ms : 0;

    if (!n->agent.welcomed || a->sent) {
        return; /* It will be when we are. */
    }
    if (a->begun) {
        say(n, slot, &a->m, MU_OK, true, ""); /* What came before is void. */
        a->begun = false;
    }
    a->sent = true;
    node_off(n, &a->again);
    m.wait_ms = (uint32_t)(m.verb == CONFIG_WATCH ? MIN(left_ms, WATCH_MS) : left_ms);
    line_say(n->line, WIRE_CONFIG, &m);
}

static void on_again(void *data, struct timer *t)
{
    struct node_config_ask *a = CONTAINER_OF(t, struct node_config_ask, again);

    pass_on(data, wid_slot(a->m.worker), a, net_now_ms());
}

void node_config_take(struct node *n, uint32_t slot, const struct msg_config *m)
{
    struct node_config_ask *a;

    if (n->ended) {
        say(n, slot, m, MU_EDONE, false, "the job is done");
    } else if (find(n, slot, m->request) != NULL) {
        log_debug(NODE_AREA, "slot %u asks twice under one number", slot);
    } else if (n->slots[slot].configs_n == NODE_CONFIGS_MAX ||
               n->config_bytes + m->value_n > NODE_CONFIG_BYTES_MAX) {
        say(n, slot, m, MU_ELIMIT, false,
            "too many requests for settings are waiting for an answer on this node");
    } else if ((a = keep(n, slot, m)) == NULL) {
        say(n, slot, m, MU_ENOMEM, false, "the agent is out of memory");
    } else {
        pass_on(n, slot, a, net_now_ms());
    }
}

void node_config_repeat(struct node *n)
{
    uint64_t now_ms = net_now_ms();

    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_config_ask *a;

        TAILQ_FOREACH(a, &n->slots[i].configs, link)
        {
            pass_on(n, i, a, now_ms);
        }
    }
}

/* ---- answers ---- */

/* The whole of a watch's answer is that nothing has changed yet. */
static bool is_in_vain(const struct node_config_ask *a, const struct msg_setting *m)
{
    return a->m.verb == CONFIG_WATCH && m->status == MU_OK && !m->more && !a->begun &&
           m->key[0] == '\0';
}

void node_config_answer(struct node *n, const struct msg_setting *m)
{
    uint32_t slot = wid_slot(m->worker);
    struct node_config_ask *a;
    uint64_t now_ms = net_now_ms();

    if (slot >= n->config->slots || (a = find(n, slot, m->request)) == NULL) {
        return; /* It has been answered. */
    }
    if (is_in_vain(a, m) && a->due_ms > now_ms) {
        a->m.after = m->version;
        a->sent = false;
        pass_on(n, slot, a, now_ms);
        return;
    }
    if (m->status == MU_EAGAIN && !is_change(&a->m)) {
        a->sent = false;
        node_at(n, &a->again, now_ms + AGAIN_MS, on_again);
        return;
    }
    local_say(n->local, slot, WIRE_SETTING, m, 0, m->request);
    a->begun = true;
    if (m->status != MU_OK || !m->more) {
        drop(n, slot, a);
    }
}

/* ---- ends ---- */

void node_config_lost(struct node *n)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_config_ask *a, *next;

        for (a = TAILQ_FIRST(&n->slots[i].configs); a != NULL; a = next) {
            next = TAILQ_NEXT(a, link);
            if (a->sent && is_change(&a->m)) {
                char text[TEXT_MAX_LEN];

                text_say(text, sizeof(text),
                         "the orchestrator was lost before it answered: it is not known whether "
                         "the change of %.80s was made; read it again",
                         a->m.key);
                answer(n, i, a, MU_EAGAIN, text);
            } else {
                a->sent = false;
                node_off(n, &a->again); /* The welcome comes first. */
            }
        }
    }
}

void node_config_end(struct node *n, uint32_t slot, int status, const char *text)
{
    while (!TAILQ_EMPTY(&n->slots[slot].configs)) {
        answer(n, slot, TAILQ_FIRST(&n->slots[slot].configs), status, text);
    }
}

void node_config_drop(struct node *n, uint32_t slot)
{
    while (!TAILQ_EMPTY(&n->slots[slot].configs)) {
        drop(n, slot, TAILQ_FIRST(&n->slots[slot].configs));
    }
}

static void on_late(void *data, struct timer *t)
{
    struct node *n = data;
    struct node_config_ask *a = CONTAINER_OF(t, struct node_config_ask, late);
    uint32_t slot = wid_slot(a->m.worker);
    char text[TEXT_MAX_LEN];
    const char *made = "";

    if (is_change(&a->m)) {
        made =
            a->sent ? "; it is not known whether the change was made" : "; the change was not made";
    }
    if (line_is_away(n->line)) {
        text_say(text, sizeof(text), "setting '%.60s': the orchestrator at %.80s is away%s",
                 a->m.key, line_where(n->line), made);
    } else if (net_now_ms() < a->due_ms + LATE_MS) {
        node_at(n, t, a->due_ms + LATE_MS, on_late);
        return;
    } else {
        text_say(text, sizeof(text), "setting '%.60s': the orchestrator did not answer in time%s",
                 a->m.key, made);
    }
    answer(n, slot, a, MU_ETIMEDOUT, text);
}
