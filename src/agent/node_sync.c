/* Values that workers exchange. The orchestrator matches them; the agent keeps each until it is
 * answered, so that neither a lost connection nor another orchestrator loses one, and answers
 * itself when nobody else does in time. */
#include "agent/node_state.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

/* The orchestrator's own answer to one that is late comes first: it knows who was missing. */
#define LATE_MS 500

static void answer(struct node *n, uint32_t slot, const struct msg_sync *m, int status,
                   const char *text)
{
    struct msg_synced out = {.worker = m->worker, .request = m->request, .status = status};

    text_say(out.text, sizeof(out.text), "%s", text);
    local_say(n->local, slot, WIRE_SYNCED, &out, 0, m->request);
}

static struct node_sync **find(struct node *n, uint32_t slot, wid worker, uint64_t request)
{
    struct node_sync **at = &n->slots[slot].syncs;

    while (*at != NULL && ((*at)->m.worker != worker || (*at)->m.request != request)) {
        at = &(*at)->next;
    }
    return at;
}

static void drop(struct node *n, uint32_t slot, struct node_sync **at)
{
    struct node_sync *gone = *at;

    *at = gone->next;
    n->slots[slot].syncs_n--;
    free(gone);
}

static void pass_on(struct node *n, const struct node_sync *s, uint64_t now_ms)
{
    struct msg_sync m = s->m;

    m.wait_ms = s->due_ms > now_ms ? (uint32_t)(s->due_ms - now_ms) : 0;
    node_link_say(n, WIRE_SYNC, &m);
}

static struct node_sync *keep(struct node *n, uint32_t slot, const struct msg_sync *m)
{
    struct node_sync *s = malloc(sizeof(*s) + m->data_n);
    struct node_sync **end = &n->slots[slot].syncs;

    if (s == NULL) {
        return NULL;
    }
    s->next = NULL;
    s->due_ms = net_now_ms() + m->wait_ms;
    s->m = *m;
    s->m.data = s->data;
    if (m->data_n > 0) {
        memcpy(s->data, m->data, m->data_n);
    }
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = s;
    n->slots[slot].syncs_n++;
    return s;
}

void node_sync_take(struct node *n, uint32_t slot, const struct msg_sync *m)
{
    struct node_sync **known = find(n, slot, m->worker, m->request);
    struct node_sync *s;

    if (n->ended) {
        answer(n, slot, m, MU_EDONE, "the job is done");
        return;
    }
    if (m->worker != n->slots[slot].worker) {
        answer(n, slot, m, MU_ESTALE, "this worker goes on as another");
        return;
    }
    if (*known != NULL) { /* Said again: the time that it was given first stands. */
        pass_on(n, *known, net_now_ms());
        return;
    }
    if (n->slots[slot].syncs_n == NODE_SYNCS_MAX) {
        answer(n, slot, m, MU_ELIMIT, "too many values of this worker are waiting for an answer");
        return;
    }
    s = keep(n, slot, m);
    if (s == NULL) {
        answer(n, slot, m, MU_ENOMEM, "the agent is out of memory");
        return;
    }
    pass_on(n, s, net_now_ms());
}

void node_sync_answer(struct node *n, const struct msg_synced *m)
{
    uint32_t slot = wid_slot(m->worker);
    struct node_sync **at;

    if (slot >= n->config->slots || n->slots[slot].worker != m->worker) {
        return;
    }
    at = find(n, slot, m->worker, m->request);
    if (*at == NULL) {
        return; /* It has been answered. */
    }
    local_say(n->local, slot, WIRE_SYNCED, m, 0, m->request);
    if (m->status != MU_OK || m->index + 1 >= m->total) {
        drop(n, slot, at);
    }
}

void node_sync_repeat(struct node *n)
{
    uint64_t now_ms = net_now_ms();

    for (uint32_t i = 0; i < n->config->slots; i++) {
        for (const struct node_sync *s = n->slots[i].syncs; s != NULL; s = s->next) {
            pass_on(n, s, now_ms);
        }
    }
}

void node_sync_end(struct node *n, uint32_t slot, int status, const char *text)
{
    while (n->slots[slot].syncs != NULL) {
        answer(n, slot, &n->slots[slot].syncs->m, status, text);
        drop(n, slot, &n->slots[slot].syncs);
    }
}

void node_sync_drop(struct node *n, uint32_t slot)
{
    while (n->slots[slot].syncs != NULL) {
        drop(n, slot, &n->slots[slot].syncs);
    }
}

static uint64_t due_ms(const struct node *n, const struct node_sync *s)
{
    return s->due_ms + (n->link.away_ms == 0 ? LATE_MS : 0);
}

uint64_t node_sync_deadline(const struct node *n)
{
    uint64_t at_ms = NODE_NEVER;

    for (uint32_t i = 0; i < n->config->slots; i++) {
        for (const struct node_sync *s = n->slots[i].syncs; s != NULL; s = s->next) {
            at_ms = MIN(at_ms, due_ms(n, s));
        }
    }
    return at_ms;
}

static void late(struct node *n, uint32_t slot, const struct node_sync *s)
{
    char text[TEXT_MAX_LEN];

    if (n->link.away_ms != 0) {
        text_say(text, sizeof(text), "the orchestrator at %.150s is away", n->link.where);
    } else {
        text_say(text, sizeof(text), "the orchestrator did not answer in time");
    }
    answer(n, slot, &s->m, MU_ETIMEDOUT, text);
}

void node_sync_tick(struct node *n, uint64_t now_ms)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_sync **at = &n->slots[i].syncs;

        while (*at != NULL) {
            if (due_ms(n, *at) <= now_ms) {
                late(n, i, *at);
                drop(n, i, at);
            } else {
                at = &(*at)->next;
            }
        }
    }
}
