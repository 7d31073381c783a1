/* The agent: hello, renewals, reports, and the lives of its workers. */
#include "core/agent.h"

#include "core/mutation.h"

#include <stdlib.h>
#include <string.h>

#define HELLO_AGAIN_MS 100
#define REPORTS_AGAIN_MS 200

int agent_init(struct agent *a, const struct agent_config *config)
{
    if (config->hello.slots == 0 || config->hello.slots > SLOTS_MAX || config->renew_ms == 0 ||
        config->members_max == 0) {
        return MU_EINVAL;
    }
    memset(a, 0, sizeof(*a));
    a->config = *config;
    a->lease_len_ms = config->renew_ms * 3;
    a->held.members = calloc(config->members_max, sizeof(*a->held.members));
    return a->held.members != NULL ? MU_OK : MU_ENOMEM;
}

void agent_close(struct agent *a)
{
    free(a->held.members);
    a->held.members = NULL;
}

static wid slot_wid(const struct agent *a, uint32_t slot)
{
    return wid_make(a->node, slot, a->slots[slot].report.incarnation);
}

/* ---- to the orchestrator ---- */

static uint32_t reports_fill(struct agent *a)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        const struct slot *s = &a->slots[i];

        if (s->state == SLOT_EMPTY) {
            continue;
        }
        a->out[n] = s->report;
        if (s->state == SLOT_EXITED) {
            a->out[n].phase = PHASE_EXITED;
        } else if (s->lost) {
            a->out[n].phase = PHASE_LOST;
        }
        n++;
    }
    return n;
}

static void send_hello(struct agent *a, struct agent_effects *fx)
{
    struct msg_hello m = a->config.hello;

    a->hello_ms = a->now_ms + a->lease_len_ms; /* unless there is a welcome by then */
    m.store = a->store;
    m.node = a->node;
    m.run = a->run;
    m.flags = a->draining ? NODE_DRAINING : 0;
    m.held = a->held.number;
    m.active = a->active;
    m.seq = a->reports_seq;
    m.reports_n = reports_fill(a);
    m.reports = a->out;
    fx->emit(fx, &(struct agent_effect){.kind = AGENT_HELLO, .u.hello = &m});
}

static void send_renew(struct agent *a, struct agent_effects *fx)
{
    struct msg_renew m = {.seq = ++a->renew_seq,
                          .held = a->held.number,
                          .active = a->active,
                          .flags = a->draining ? NODE_DRAINING : 0};

    a->sent_ms[m.seq % AGENT_RENEWALS] = a->now_ms;
    a->renew_at_ms = a->now_ms + MIN(a->config.renew_ms, a->lease_len_ms / 3);
    fx->emit(fx, &(struct agent_effect){.kind = AGENT_RENEW, .u.renew = &m});
}

static void send_reports(struct agent *a, struct agent_effects *fx)
{
    struct msg_reports m = {.seq = a->reports_seq, .reports = a->out};

    if (!a->welcomed) {
        return; /* The next hello carries them. */
    }
    m.reports_n = reports_fill(a);
    a->reports_at_ms = a->now_ms + REPORTS_AGAIN_MS;
    fx->emit(fx, &(struct agent_effect){.kind = AGENT_REPORTS, .u.reports = &m});
}

static void changed(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    a->slots[slot].reported = ++a->reports_seq;
    send_reports(a, fx);
}

/* ---- the lives of workers ---- */

static void tell(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct msg_lease lease = {.sent_ms = a->lease_ms};
    struct msg_active active = {.generation = a->active};

    fx->emit(fx, &(struct agent_effect){.kind = AGENT_TELL_LEASE, .slot = slot, .u.lease = &lease});
    if (a->held.number != 0) {
        fx->emit(fx, &(struct agent_effect){
                         .kind = AGENT_TELL_GENERATION, .slot = slot, .u.generation = &a->held});
    }
    if (a->active != 0) {
        fx->emit(fx, &(struct agent_effect){
                         .kind = AGENT_TELL_ACTIVE, .slot = slot, .u.active = &active});
    }
}

/* Nothing that the life before has said holds for this one. */
static void new_life(struct agent *a, uint32_t slot, enum agent_effect_kind how,
                     struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];
    uint32_t incarnation = s->report.incarnation + 1;

    s->report = (struct report){.slot = slot, .incarnation = incarnation, .phase = PHASE_WARMING};
    s->state = SLOT_RUNNING;
    s->lost = s->unleased = false;
    s->beat_ms = a->now_ms;
    fx->emit(fx, &(struct agent_effect){.kind = how, .slot = slot, .worker = slot_wid(a, slot)});
    tell(a, slot, fx);
    changed(a, slot, fx);
}

static void stop(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];

    s->leave = true;
    if (s->state == SLOT_RUNNING) {
        s->state = SLOT_STOPPING;
        fx->emit(fx, &(struct agent_effect){.kind = AGENT_STOP, .slot = slot});
    }
}

static void stop_all(struct agent *a, struct agent_effects *fx)
{
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        stop(a, i, fx);
    }
}

/* Starts what should run; leaves once nothing does and nothing should. */
static void look_after(struct agent *a, struct agent_effects *fx)
{
    uint32_t gone_n = 0;

    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        struct slot *s = &a->slots[i];
        bool acked = s->state == SLOT_EMPTY || a->reports_acked >= s->reported;
        bool ended = s->state == SLOT_EMPTY || s->state == SLOT_EXITED;

        s->leave |= a->draining && ended; /* A node that leaves starts nothing. */
        if (ended && !s->leave && !a->over && a->welcomed && acked) {
            new_life(a, i, AGENT_START, fx);
        }
        /* A draining node that holds no state has no reason to stay. */
        if (a->draining && s->state == SLOT_RUNNING && s->report.entered == 0 &&
            s->report.phase != PHASE_IN) {
            stop(a, i, fx);
        }
        gone_n += ended && (s->leave || a->over);
    }
    if (gone_n == a->config.hello.slots && (a->over || a->draining)) {
        struct msg_bye bye = {.node = a->node};

        if (a->welcomed) {
            fx->emit(fx, &(struct agent_effect){.kind = AGENT_BYE, .u.bye = &bye});
        }
        a->welcomed = false;
        a->over = a->done = true;
        fx->emit(fx, &(struct agent_effect){.kind = AGENT_DONE, .code = a->exit_code});
    }
}

/* ---- from the orchestrator ---- */

static void on_welcome(struct agent *a, const struct msg_welcome *m, struct agent_effects *fx)
{
    bool renumbered = m->node != a->node || m->store != a->store;

    a->welcomed = true;
    a->hello_ms = 0;
    a->store = m->store;
    a->node = m->node;
    a->run = m->run;
    a->lease_len_ms = m->lease_ms;
    if (renumbered) {
        a->held.number = a->active = 0;
        for (uint32_t i = 0; i < a->config.hello.slots; i++) {
            if (a->slots[i].state == SLOT_RUNNING) {
                new_life(a, i, AGENT_LIFE, fx);
            }
        }
    }
    send_renew(a, fx);
    send_reports(a, fx);
}

static void on_refused(struct agent *a, const struct msg_refused *m, struct agent_effects *fx)
{
    if (m->status == MU_ESTALE) {
        if (a->welcomed) {
            a->welcomed = false;
            send_hello(a, fx);
        }
    } else if (m->status == MU_EAGAIN ||
               (m->status == MU_EEXIST && ++a->exists_n * HELLO_AGAIN_MS < 3 * a->lease_len_ms)) {
        a->welcomed = false; /* The one of our name may be ourselves, before a quick restart. */
        a->hello_ms = a->now_ms + HELLO_AGAIN_MS;
    } else {
        a->over = true;
        a->exit_code = 1;
        stop_all(a, fx);
    }
}

static void on_ack(struct agent *a, const struct msg_ack *m, struct agent_effects *fx)
{
    a->reports_acked = MAX(a->reports_acked, m->reports);
    a->draining |= (m->flags & NODE_DRAINING) != 0;
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        struct slot *s = &a->slots[i];

        s->unleased &= s->lost || a->reports_acked < s->reported;
    }
    if (m->seq == 0 || m->seq > a->renew_seq || a->renew_seq - m->seq >= AGENT_RENEWALS ||
        a->sent_ms[m->seq % AGENT_RENEWALS] <= a->lease_ms ||
        !RULE(LEASE_NEEDS_GENERATION, m->generation <= a->held.number)) {
        return;
    }
    a->lease_ms = a->sent_ms[m->seq % AGENT_RENEWALS];
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        struct msg_lease lease = {.sent_ms = a->lease_ms};

        if (a->slots[i].state == SLOT_RUNNING && RULE(LOST_HAS_NO_LEASE, !a->slots[i].unleased)) {
            fx->emit(
                fx, &(struct agent_effect){.kind = AGENT_TELL_LEASE, .slot = i, .u.lease = &lease});
        }
    }
}

static void on_generation(struct agent *a, const struct generation *g, struct agent_effects *fx)
{
    struct member *members = a->held.members;

    if (!RULE(STALE_GENERATION, g->number > a->held.number) ||
        g->members_n > a->config.members_max) {
        return;
    }
    a->held = *g;
    a->held.members = members;
    memcpy(members, g->members, g->members_n * sizeof(*members));
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        if (a->slots[i].state == SLOT_RUNNING) {
            fx->emit(fx, &(struct agent_effect){
                             .kind = AGENT_TELL_GENERATION, .slot = i, .u.generation = &a->held});
        }
    }
}

static void on_active(struct agent *a, const struct msg_active *m, struct agent_effects *fx)
{
    if (m->generation <= a->active) {
        return;
    }
    a->active = m->generation;
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        if (a->slots[i].state == SLOT_RUNNING) {
            fx->emit(fx,
                     &(struct agent_effect){.kind = AGENT_TELL_ACTIVE, .slot = i, .u.active = m});
        }
    }
}

/* ---- from the workers ---- */

/* Another step alone is none: it can wait for the next renewal. */
static bool report_is_news(const struct report *old, const struct report *new)
{
    return old->phase != new->phase || old->entered != new->entered ||
           old->checkpoint != new->checkpoint || old->reached != new->reached ||
           strcmp(old->addr, new->addr) != 0;
}

static void on_worker(struct agent *a, const struct agent_event *e, struct agent_effects *fx)
{
    struct slot *s = &a->slots[e->slot];
    bool was_lost = s->lost;

    if (s->state != SLOT_RUNNING && s->state != SLOT_STOPPING) {
        return;
    }
    s->beat_ms = a->now_ms;
    s->lost = false;
    if (e->kind == AGENT_ON_FORGET) {
        if (a->draining || a->over) {
            s->report.entered = 0;
            s->report.phase = PHASE_WARMING;
            stop(a, e->slot, fx);
        } else {
            new_life(a, e->slot, AGENT_LIFE, fx);
        }
    } else if (s->state == SLOT_STOPPING) {
        return; /* It is on its way out, and enters nothing any more. */
    } else if (e->kind == AGENT_ON_REPORT) {
        bool news = was_lost || report_is_news(&s->report, e->u.report);
        uint32_t incarnation = s->report.incarnation;

        s->report = *e->u.report;
        s->report.slot = e->slot;
        s->report.incarnation = incarnation;
        if (news) {
            changed(a, e->slot, fx);
        } else {
            a->progress = true;
        }
    } else if (was_lost) {
        changed(a, e->slot, fx);
    }
}

static void on_exited(struct agent *a, const struct agent_event *e, struct agent_effects *fx)
{
    struct slot *s = &a->slots[e->slot];

    if (s->state == SLOT_EMPTY || s->state == SLOT_EXITED) {
        return;
    }
    s->state = SLOT_EXITED;
    s->report.exit_code = e->code;
    changed(a, e->slot, fx);
}

/* ---- time ---- */

static void on_tick(struct agent *a, struct agent_effects *fx)
{
    if (a->connected && !a->welcomed && a->hello_ms != 0 && a->hello_ms <= a->now_ms) {
        send_hello(a, fx);
    }
    if (a->welcomed && a->renew_at_ms <= a->now_ms) {
        send_renew(a, fx);
        if (a->progress) {
            a->progress = false;
            a->reports_seq++;
            send_reports(a, fx);
        }
    }
    if (a->welcomed && a->reports_acked < a->reports_seq && a->reports_at_ms <= a->now_ms) {
        send_reports(a, fx);
    }
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        struct slot *s = &a->slots[i];

        if (s->state == SLOT_RUNNING && !s->lost && s->beat_ms + a->lease_len_ms <= a->now_ms) {
            s->lost = s->unleased = true;
            changed(a, i, fx);
        }
    }
}

uint64_t agent_deadline(const struct agent *a)
{
    uint64_t at_ms = a->now_ms + MIN(a->config.renew_ms, a->lease_len_ms / 3);

    if (a->welcomed) {
        at_ms = MIN(at_ms, a->renew_at_ms);
        if (a->reports_acked < a->reports_seq) {
            at_ms = MIN(at_ms, a->reports_at_ms);
        }
    }
    if (a->hello_ms != 0) {
        at_ms = MIN(at_ms, a->hello_ms);
    }
    return MAX(at_ms, a->now_ms + 1);
}

static void dispatch(struct agent *a, const struct agent_event *e, struct agent_effects *fx)
{
    switch (e->kind) {
    case AGENT_ON_CONNECTED:
        a->connected = true;
        send_hello(a, fx);
        break;
    case AGENT_ON_CLOSED:
        a->connected = a->welcomed = false;
        fx->emit(fx, &(struct agent_effect){.kind = AGENT_CONNECT});
        break;
    case AGENT_ON_WELCOME:
        on_welcome(a, e->u.welcome, fx);
        break;
    case AGENT_ON_REFUSED:
        on_refused(a, e->u.refused, fx);
        break;
    case AGENT_ON_ACK:
        on_ack(a, e->u.ack, fx);
        break;
    case AGENT_ON_GENERATION:
        on_generation(a, e->u.generation, fx);
        break;
    case AGENT_ON_ACTIVE:
        on_active(a, e->u.active, fx);
        break;
    case AGENT_ON_ENDED:
        a->over = true;
        stop_all(a, fx);
        break;
    case AGENT_ON_BEAT:
    case AGENT_ON_REPORT:
    case AGENT_ON_FORGET:
        on_worker(a, e, fx);
        break;
    case AGENT_ON_SUSPECT:
        if (a->welcomed) {
            fx->emit(fx, &(struct agent_effect){.kind = AGENT_SUSPECT, .u.suspect = e->u.suspect});
        }
        break;
    case AGENT_ON_EXIT:
        on_exited(a, e, fx);
        break;
    case AGENT_ON_DRAIN:
        a->draining = true;
        if (a->welcomed) {
            send_renew(a, fx);
        }
        break;
    case AGENT_ON_ADDR:
    case AGENT_ON_ATTACHED:
    case AGENT_ON_DETACHED:
    case AGENT_ON_TICK:
        break;
    }
}

void agent_event(struct agent *a, const struct agent_event *e, struct agent_effects *fx)
{
    a->now_ms = MAX(a->now_ms, e->now_ms);
    dispatch(a, e, fx);
    on_tick(a, fx);
    if (!a->done) {
        look_after(a, fx);
    }
}
