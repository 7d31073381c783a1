/* What workers say over the unix socket, as events. Words of an earlier life are void: they may
 * have been on their way when it ended. */
#include "agent/node_state.h"

static void attached(void *data, uint32_t slot, uint32_t pid)
{
    struct node *n = data;
    struct agent_event e = {.kind = AGENT_ON_ATTACHED, .slot = slot};

    node_slot_say_life(n, slot); /* Before the generation, so that it finds itself in that. */
    node_event(n, &e);
}

static void loaded(void *data, uint32_t slot)
{
    node_event(data, &(struct agent_event){.kind = AGENT_ON_LOADED, .slot = slot});
}

static void detached(void *data, uint32_t slot)
{
    struct node *n = data;
    struct agent_event e = {.kind = AGENT_ON_DETACHED, .slot = slot};

    node_ask_flush(n, slot);
    node_event(n, &e);
    node_exit_detached(n, slot);
}

static void frame(void *data, uint32_t slot, const struct wire_header *h, const union wire_any *msg)
{
    struct node *n = data;
    wid self = n->slots[slot].worker;
    struct agent_event e = {.slot = slot};
    bool mine = false;

    switch (h->type) {
    case WIRE_REPORT:
        e.kind = AGENT_ON_REPORT;
        e.u.report = &msg->report;
        mine = msg->report.incarnation == wid_incarnation(self);
        if (mine && msg->report.phase == PHASE_FINISHED) {
            node_ask_flush(n, slot); /* Those of the last step come before the end. */
        }
        break;
    case WIRE_BEAT:
        e.kind = AGENT_ON_BEAT;
        mine = msg->beat.worker == self;
        break;
    case WIRE_FORGET:
        e.kind = AGENT_ON_FORGET;
        mine = msg->forget.worker == self;
        break;
    case WIRE_ASK:
        node_ask_take(n, slot, &msg->ask);
        return;
    default:
        return;
    }
    if (mine) {
        node_event(n, &e);
    }
}

const struct local_handler node_local_handler = {
    .attached = attached, .loaded = loaded, .frame = frame, .detached = detached};
