/* Who a simulated worker can talk to, both ways: before it joins, before newcomers do, and when
 * nothing moves. */
#include "sim/trainer.h"

#define QUIET_US 120000  /* without a move for this long: say everything again */
#define STUCK_US 400000  /* … and for this long: ask the peers whether they are there */
#define SILENT_US 250000 /* a peer that has not answered by then is suspected */

static void probe(struct world *w, uint32_t worker, wid to)
{
    struct msg_probe m = {.from = trainer_at(w, worker)->self, .nonce = w->now_us};

    trainer_send(w, worker, to, NULL, WIRE_PROBE, &m);
}

void peers_link(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    if (t->probing_us == 0) {
        t->probing_us = w->now_us;
    }
    for (uint32_t i = 0; i < t->step.next.n; i++) {
        if (!t->step.next.caught_up[i]) {
            probe(w, worker, t->step.next.ids[i]);
        }
    }
}

void peers_answer(struct world *w, uint32_t worker, const struct msg_probe *m)
{
    struct trainer *t = trainer_at(w, worker);

    if (m->answer != 0) {
        for (uint32_t i = 0; i < WORKERS_N; i++) {
            if (trainer_at(w, i)->self == m->from) {
                t->heard_id[i] = m->from;
                t->heard_us[i] = m->nonce;
            }
        }
        return;
    }
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        struct msg_probe answer = {.from = t->self, .nonce = m->nonce, .answer = 1};
        char addr[ADDR_MAX_LEN];

        if (trainer_at(w, i)->self == m->from) {
            snprintf(addr, sizeof(addr), "%u", i);
            net_data(w, worker, m->from, addr, NULL, WIRE_PROBE, &answer);
        }
    }
}

static bool heard_since(struct world *w, const struct trainer *t, wid id, uint64_t since_us)
{
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        if (trainer_at(w, i)->self == id && t->heard_id[i] == id && t->heard_us[i] >= since_us) {
            return true;
        }
    }
    return false;
}

/* Warm once the data is loaded. To join, it must also have reached every member there is. */
static void warm_up(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    bool reached = true, changed = false;

    if (!t->loaded || t->step.phase != STEP_OUT) {
        return;
    }
    if (t->probing_us == 0) {
        t->probing_us = w->now_us;
    }
    for (uint32_t i = 0; i < t->known.members_n && t->reached < t->known.number; i++) {
        wid id = t->known_members[i].worker;

        if (id != t->self && !heard_since(w, t, id, t->probing_us)) {
            probe(w, worker, id);
            reached = false;
        }
    }
    changed = !t->warm || (reached && t->reached < t->known.number);
    t->warm = true;
    t->reached = reached ? t->known.number : t->reached;
    if (changed) {
        trainer_report(w, worker);
    }
}

static void try_link(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const struct group *next = &t->step.next;
    struct step_event e = {.kind = STEP_ON_LINKED, .generation = next->number};

    if (next->number == 0 || t->step.linked || t->probing_us == 0) {
        return;
    }
    for (uint32_t i = 0; i < next->n; i++) {
        if (!next->caught_up[i] && !heard_since(w, t, next->ids[i], t->probing_us)) {
            return;
        }
    }
    trainer_step(w, worker, &e);
}

static void ask_peers(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    t->stuck_us = w->now_us;
    for (uint32_t i = 0; i < t->step.group.n; i++) {
        if (i != t->step.group.me) {
            probe(w, worker, t->step.group.ids[i]);
        }
    }
}

static void suspect_silent(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const struct group *g = &t->step.group;
    bool all_answer = true;

    for (uint32_t i = 0; i < g->n; i++) {
        if (i != g->me && !heard_since(w, t, g->ids[i], t->stuck_us)) {
            struct msg_suspect m = {.by = t->self, .peer = g->ids[i], .generation = g->number};

            net_to_agent(w, worker, WIRE_SUSPECT, &m);
            probe(w, worker, g->ids[i]);
            all_answer = false;
        }
    }
    if (all_answer) {
        ask_peers(w, worker); /* The next round: somebody may have gone silent since. */
    }
}

/* Nothing moves: say everything again, then ask who is still there, then name who is not. */
static void unstick(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_RESEND};

    if (w->now_us - t->moved_us < QUIET_US || t->step.phase == STEP_OUT) {
        t->stuck_us = 0;
        return;
    }
    trainer_step(w, worker, &e);
    reduce_resend(w, worker);
    if (!step_waits(&t->step) || w->now_us - t->moved_us < STUCK_US) {
        return;
    }
    if (t->stuck_us == 0) {
        ask_peers(w, worker);
    } else if (w->now_us - t->stuck_us > SILENT_US) {
        suspect_silent(w, worker);
    }
}

void peers_tick(struct world *w, uint32_t worker)
{
    warm_up(w, worker);
    try_link(w, worker);
    unstick(w, worker);
}
