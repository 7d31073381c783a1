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

static struct node_config_ask **find(struct node *n, uint32_t slot, uint64_t request)
{
    struct node_config_ask **at = &n->slots[slot].configs;

    while (*at != NULL && (*at)->m.request != request) {
        at = &(*at)->next;
    }
    return at;
}

static void drop(struct node *n, uint32_t slot, struct node_config_ask **at)
{
    struct node_config_ask *gone = *at;

    *at = gone->next;
    n->slots[slot].configs_n--;
    n->config_bytes -= gone->m.value_n;
    free(gone);
}

static struct node_config_ask *keep(struct node *n, uint32_t slot, const struct msg_config *m)
{
    struct node_config_ask *a = malloc(sizeof(*a) + m->value_n);
    struct node_config_ask **end = &n->slots[slot].configs;

    if (a == NULL) {
        return NULL;
    }
    *a = (struct node_config_ask){
        .due_ms = net_now_ms() + m->wait_ms, .again_ms = NODE_NEVER, .m = *m};
    a->m.worker = n->slots[slot].worker; /* Whatever it says: the answer is to find this slot. */
    a->m.value = a->value;
    if (m->value_n > 0) {
        memcpy(a->value, m->value, m->value_n);
    }
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = a;
    n->slots[slot].configs_n++;
    n->config_bytes += m->value_n;
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

/* … and forgotten. */
static void answer(struct node *n, uint32_t slot, struct node_config_ask **at, int status,
                   const char *text)
{
    say(n, slot, &(*at)->m, status, false, text);
    drop(n, slot, at);
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
    a->again_ms = NODE_NEVER;
    m.wait_ms = (uint32_t)(m.verb == CONFIG_WATCH ? MIN(left_ms, WATCH_MS) : left_ms);
    node_link_say(n, WIRE_CONFIG, &m);
}

void node_config_take(struct node *n, uint32_t slot, const struct msg_config *m)
{
    struct node_config_ask *a;

    if (n->ended) {
        say(n, slot, m, MU_EDONE, false, "the job is done");
    } else if (*find(n, slot, m->request) != NULL) {
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
        for (struct node_config_ask *a = n->slots[i].configs; a != NULL; a = a->next) {
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
    struct node_config_ask **at;
    struct node_config_ask *a;
    uint64_t now_ms = net_now_ms();

    if (slot >= n->config->slots || *(at = find(n, slot, m->request)) == NULL) {
        return; /* It has been answered. */
    }
    a = *at;
    if (is_in_vain(a, m) && a->due_ms > now_ms) {
        a->m.after = m->version;
        a->sent = false;
        pass_on(n, slot, a, now_ms);
        return;
    }
    if (m->status == MU_EAGAIN && !is_change(&a->m)) {
        a->sent = false;
        a->again_ms = now_ms + AGAIN_MS;
        return;
    }
    local_say(n->local, slot, WIRE_SETTING, m, 0, m->request);
    a->begun = true;
    if (m->status != MU_OK || !m->more) {
        drop(n, slot, at);
    }
}

/* ---- ends ---- */

void node_config_lost(struct node *n)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_config_ask **at = &n->slots[i].configs;

        while (*at != NULL) {
            struct node_config_ask *a = *at;

            if (a->sent && is_change(&a->m)) {
                char text[TEXT_MAX_LEN];

                text_say(text, sizeof(text),
                         "the orchestrator was lost before it answered: it is not known whether "
                         "the change of %.80s was made; read it again",
                         a->m.key);
                answer(n, i, at, MU_EAGAIN, text);
            } else {
                a->sent = false;
                a->again_ms = NODE_NEVER; /* The welcome comes first. */
                at = &a->next;
            }
        }
    }
}

void node_config_end(struct node *n, uint32_t slot, int status, const char *text)
{
    while (n->slots[slot].configs != NULL) {
        answer(n, slot, &n->slots[slot].configs, status, text);
    }
}

void node_config_drop(struct node *n, uint32_t slot)
{
    while (n->slots[slot].configs != NULL) {
        drop(n, slot, &n->slots[slot].configs);
    }
}

/* ---- time ---- */

static uint64_t due_ms(const struct node *n, const struct node_config_ask *a)
{
    return a->due_ms + (n->link.away_ms == 0 ? LATE_MS : 0);
}

uint64_t node_config_deadline(const struct node *n)
{
    uint64_t at_ms = NODE_NEVER;

    for (uint32_t i = 0; i < n->config->slots; i++) {
        for (const struct node_config_ask *a = n->slots[i].configs; a != NULL; a = a->next) {
            at_ms = MIN(at_ms, MIN(due_ms(n, a), a->again_ms));
        }
    }
    return at_ms;
}

static void late(struct node *n, uint32_t slot, struct node_config_ask **at)
{
    const struct node_config_ask *a = *at;
    char text[TEXT_MAX_LEN];
    const char *made = "";

    if (is_change(&a->m)) {
        made =
            a->sent ? "; it is not known whether the change was made" : "; the change was not made";
    }
    if (n->link.away_ms != 0) {
        text_say(text, sizeof(text), "setting '%.60s': the orchestrator at %.80s is away%s",
                 a->m.key, n->link.where, made);
    } else {
        text_say(text, sizeof(text), "setting '%.60s': the orchestrator did not answer in time%s",
                 a->m.key, made);
    }
    answer(n, slot, at, MU_ETIMEDOUT, text);
}

void node_config_tick(struct node *n, uint64_t now_ms)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_config_ask **at = &n->slots[i].configs;

        while (*at != NULL) {
            if (due_ms(n, *at) <= now_ms) {
                late(n, i, at);
                continue;
            }
            if ((*at)->again_ms <= now_ms) {
                (*at)->again_ms = NODE_NEVER;
                pass_on(n, i, *at, now_ms);
            }
            at = &(*at)->next;
        }
    }
}
