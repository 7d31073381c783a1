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

/* NULL: there is none. */
static struct node_sync *find(struct node *n, uint32_t slot, wid worker, uint64_t request)
{
    struct node_sync *s;

    TAILQ_FOREACH(s, &n->slots[slot].syncs, link)
    {
        if (s->m.worker == worker && s->m.request == request) {
            return s;
        }
    }
    return NULL;
}

static void drop(struct node *n, uint32_t slot, struct node_sync *s)
{
    TAILQ_REMOVE(&n->slots[slot].syncs, s, link);
    n->slots[slot].syncs_n--;
    node_off(n, &s->late);
    free(s);
}

static void on_late(void *data, struct timer *t)
{
    struct node *n = data;
    struct node_sync *s = CONTAINER_OF(t, struct node_sync, late);
    uint32_t slot = wid_slot(s->m.worker);
    char text[TEXT_MAX_LEN];

    if (line_is_away(n->line)) {
        text_say(text, sizeof(text), "the orchestrator at %.150s is away", line_where(n->line));
    } else if (net_now_ms() < s->due_ms + LATE_MS) {
        node_at(n, t, s->due_ms + LATE_MS, on_late);
        return;
    } else {
        text_say(text, sizeof(text), "the orchestrator did not answer in time");
    }
    answer(n, slot, &s->m, MU_ETIMEDOUT, text);
    drop(n, slot, s);
}

static void pass_on(struct node *n, const struct node_sync *s, uint64_t now_ms)
{
    struct msg_sync m = s->m;

    m.wait_ms = s->due_ms > now_ms ? (uint32_t)(s->due_ms - now_ms) : 0;
    line_say(n->line, WIRE_SYNC, &m);
}

static struct node_sync *keep(struct node *n, uint32_t slot, const struct msg_sync *m)
{
    struct node_sync *s = malloc(sizeof(*s) + m->data_n);

    if (s == NULL) {
        return NULL;
    }
    *s = (struct node_sync){.due_ms = net_now_ms() + m->wait_ms, .m = *m};
    s->m.data = s->data;
    if (m->data_n > 0) {
        memcpy(s->data, m->data, m->data_n);
    }
    TAILQ_INSERT_TAIL(&n->slots[slot].syncs, s, link);
    n->slots[slot].syncs_n++;
    node_at(n, &s->late, s->due_ms, on_late);
    return s;
}

void node_sync_take(struct node *n, uint32_t slot, const struct msg_sync *m)
{
    struct node_sync *s = find(n, slot, m->worker, m->request);

    if (n->ended) {
        answer(n, slot, m, MU_EDONE, "the job is done");
        return;
    }
    if (m->worker != n->slots[slot].worker) {
        answer(n, slot, m, MU_ESTALE, "this worker goes on as another");
        return;
    }
    if (s != NULL) { /* Said again: the time that it was given first stands. */
        pass_on(n, s, net_now_ms());
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
    struct node_sync *s;

    if (slot >= n->config->slots || n->slots[slot].worker != m->worker) {
        return;
    }
    s = find(n, slot, m->worker, m->request);
    if (s == NULL) {
        return; /* It has been answered. */
    }
    local_say(n->local, slot, WIRE_SYNCED, m, 0, m->request);
    if (m->status != MU_OK || m->index + 1 >= m->total) {
        drop(n, slot, s);
    }
}

void node_sync_repeat(struct node *n)
{
    uint64_t now_ms = net_now_ms();

    for (uint32_t i = 0; i < n->config->slots; i++) {
        const struct node_sync *s;

        TAILQ_FOREACH(s, &n->slots[i].syncs, link)
        {
            pass_on(n, s, now_ms);
        }
    }
}

void node_sync_end(struct node *n, uint32_t slot, int status, const char *text)
{
    struct node_sync *s;

    while ((s = TAILQ_FIRST(&n->slots[slot].syncs)) != NULL) {
        answer(n, slot, &s->m, status, text);
        drop(n, slot, s);
    }
}

void node_sync_drop(struct node *n, uint32_t slot)
{
    while (!TAILQ_EMPTY(&n->slots[slot].syncs)) {
        drop(n, slot, TAILQ_FIRST(&n->slots[slot].syncs));
    }
}
