/* What the keeper says: a process runs, has ended, or the keeper itself is lost. */
#include "agent/node_state.h"
#include "agent/will.h"
#include "base/log.h"

#include <signal.h>
#include <stdio.h>

#define LAST_WORDS_MS                                                          \
    1000 /* a process that is gone has said everything: it only has to be read \
          */

/* What is left of the process when it is gone: nothing but the event. */
static void forget(struct node *n, uint32_t slot)
{
    n->slots[slot].cookie = 0;
    node_off(n, &n->slots[slot].stop);
    node_off(n, &n->slots[slot].exit.timer);
    local_forget(n->local, slot);
    node_ask_drop(n, slot);
}

/* n->config->slots: none. */
static uint32_t slot_of(const struct node *n, uint64_t cookie)
{
    uint32_t slot = 0;

    while (slot < n->config->slots && n->slots[slot].cookie != cookie) {
        slot++;
    }
    return slot;
}

static void on_started(void *data, uint64_t cookie, int pid)
{
    struct node *n = data;
    uint32_t slot = slot_of(n, cookie);

    if (slot < n->config->slots) {
        n->slots[slot].pid = pid;
        node_note_say(n, slot); /* The one before, if that is still to be told. */
        log_info(NODE_AREA, "%s (node %s, slot %u), pid %d", node_slot_who(n, slot).text,
                 n->life.node, slot, pid);
    }
}

static void take_exit(struct node *n, uint32_t slot)
{
    const struct node_exit *x = &n->slots[slot].exit;
    struct agent_event e = {.kind = AGENT_ON_EXIT, .slot = slot, .code = x->code};

    node_note_exit(n, slot, x->code, x->why);
    forget(n, slot);
    node_event(n, &e);
}

static void on_last_words(void *data, struct timer *t)
{
    struct node *n = data;

    take_exit(n, (uint32_t)(CONTAINER_OF(t, struct node_slot, exit.timer) - n->slots));
}

/* That it has finished may be among its last words, so those come first. */
static void on_exited(void *data, uint64_t cookie, uint32_t code, const char *why)
{
    struct node *n = data;
    uint32_t slot = slot_of(n, cookie);
    struct node_exit *x;

    if (slot >= n->config->slots || n->over) {
        return;
    }
    x = &n->slots[slot].exit;
    x->code = code;
    snprintf(x->why, sizeof(x->why), "%s", why);
    if (local_is_attached(n->local, slot)) {
        node_after(n, &x->timer, LAST_WORDS_MS, on_last_words);
    } else {
        take_exit(n, slot);
    }
}

void node_exit_detached(struct node *n, uint32_t slot)
{
    if (timer_is_on(&n->slots[slot].exit.timer) && !n->over) {
        take_exit(n, slot);
    }
}

/* An orchestrator inside of us is gone with us. */
void node_keeper_will(struct node *n, const struct msg_welcome *m)
{
    struct will will = {.bye = {.node = m->node,
                                .store = m->store,
                                .incarnation = n->agent.config.hello.incarnation},
                        .endpoints = n->config->endpoints,
                        .token = n->config->token};

    if (!n->config->standalone && n->keeper != NULL && m->node != 0) {
        keeper_set_will(n->keeper, &will, sizeof(will));
    }
}

static void on_lost(void *data)
{
    struct node *n = data;
    int rc;

    if (n->over) {
        return;
    }
    log_error(NODE_AREA, "the keeper was killed, and the workers with it; starting another");
    keeper_close(n->keeper);
    n->keeper = NULL;
    rc = keeper_open(&n->loop, "/proc/self/exe", &node_keeper_handler, n, &n->keeper);
    if (rc != MU_OK) {
        log_error(NODE_AREA, "could not start another keeper: %s", mu_strerror(rc));
        node_end(n, 1);
        return;
    }
    node_keeper_will(n, &(struct msg_welcome){.node = n->agent.node, .store = n->agent.store});
    for (uint32_t i = 0; i < n->config->slots; i++) {
        const struct node_exit *x = &n->slots[i].exit;
        uint32_t code = timer_is_on(&x->timer) ? x->code : 128 + SIGKILL;

        if (n->slots[i].cookie != 0) {
            forget(n, i);
            node_queue(n, AGENT_ON_EXIT, i, code, NULL);
        }
    }
}

const struct keeper_handler node_keeper_handler = {
    .started = on_started, .exited = on_exited, .lost = on_lost};
