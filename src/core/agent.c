/* The agent: hello, renewals, reports, and the lives of its workers. */
#include "core/agent_state.h"
#include "core/mutation.h"

#include <stdlib.h>
#include <string.h>

#define HELLO_AGAIN_MS 100      /* pause after a refusal */
#define HELLO_AGAIN_MAX_MS 1000 /* the pause doubles with each further one, up to this */
#define EXISTS_LEASES 3         /* in this time, whoever has our name and is gone has left it */
#define REPORTS_AGAIN_MS 200
#define EXIT_TIMEOUT_MS 300000

int agent_init(struct agent *a, const struct agent_config *config)
{
    if (config->hello.slots == 0 || config->hello.slots > SLOTS_MAX || config->renew_ms == 0 ||
        config->members_max == 0) {
        return MU_EINVAL;
    }
    memset(a, 0, sizeof(*a));
    a->config = *config;
    a->mode = config->hello.mode;
    a->lease_len_ms = config->renew_ms * 3;
    a->held.members = calloc(config->members_max, sizeof(*a->held.members));
    a->roster.helpers = calloc(config->members_max, sizeof(*a->roster.helpers));
    if (a->held.members == NULL || a->roster.helpers == NULL) {
        agent_close(a);
        return MU_ENOMEM;
    }
    return MU_OK;
}

void agent_close(struct agent *a)
{
    free(a->held.members);
    free(a->roster.helpers);
    a->held.members = NULL;
    a->roster.helpers = NULL;
}

/* ---- to the orchestrator ---- */

static uint32_t reports_fill(struct agent *a)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        if (a->slots[i].state != SLOT_EMPTY) {
            a->out[n++] = slot_report(a, i);
        }
    }
    return n;
}

/* What this node wants, and what it has seen of the scripts as long as that decides something. */
static uint32_t node_flags(const struct agent *a)
{
    uint32_t flags =
        (a->draining ? NODE_DRAINING : 0) | (a->config.hello.flags & (NODE_HEAL | NODE_RERUN));

    if (a->mode == MODE_AUTO && a->attached) {
        flags |= NODE_INPROCESS;
    } else if (a->mode == MODE_AUTO && a->unattached) {
        flags |= NODE_RESTART;
    } else if (a->mode == MODE_AUTO && slots_silent(a)) {
        flags |= NODE_SILENT;
    }
    return flags;
}

static void send_hello(struct agent *a, struct agent_effects *fx)
{
    struct msg_hello m = a->config.hello;

    a->hello_ms = a->now_ms + a->lease_len_ms; /* unless there is a welcome by then */
    m.store = a->store;
    m.node = a->node;
    m.run = a->run;
    m.flags = node_flags(a);
    m.held = a->held.number;
    m.active = a->active;
    m.seq = a->reports_seq;
    m.reports_n = reports_fill(a);
    m.reports = a->out;
    m.roster = a->roster.version;
    fx->emit(fx, &(struct agent_effect){.kind = AGENT_HELLO, .u.hello = &m});
}

void agent_renew(struct agent *a, struct agent_effects *fx)
{
    struct msg_renew m = {.held = a->held.number,
                          .active = a->active,
                          .flags = node_flags(a),
                          .roster = a->roster.version};

    if (!a->welcomed) {
        return; /* The next hello says it. */
    }
    m.seq = ++a->renew_seq;
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

void agent_changed(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    a->slots[slot].reported = ++a->reports_seq;
    send_reports(a, fx);
}

/* ---- the node as a whole ---- */

static void stop_all(struct agent *a, struct agent_effects *fx)
{
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        slot_stop(a, i, fx);
    }
}

/* What the node exits with: the code of a script that failed and was not started again. */
static int exit_code(const struct agent *a)
{
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        const struct slot *s = &a->slots[i];

        bool given_up = s->state == SLOT_EXITED || (s->state == SLOT_WAITING && a->ending_ms != 0);

        if (given_up && s->failed && !a->draining && a->exit_code == 0) {
            return (int)a->last_code;
        }
    }
    return a->exit_code;
}

/* One slot: starts what should run. True if it has nothing left to do. */
static bool look_after_slot(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];
    bool acked = s->state == SLOT_EMPTY || a->reports_acked >= s->reported;
    bool ended = s->state == SLOT_EMPTY || s->state == SLOT_EXITED;

    s->leave |= a->draining && slot_idle(s); /* A node that leaves starts nothing. */
    if (s->state == SLOT_FINISHED && !slot_by_generation(a, s) && acked) {
        s->leave = true; /* That it finished is known; now that it is gone. */
        s->state = SLOT_EXITED;
        s->report.exit_code = 0;
        agent_changed(a, slot, fx);
    } else if (ended && !s->leave && !a->over && a->welcomed && acked && s->ready_ms <= a->now_ms) {
        slot_begin(a, slot, fx);
    }
    return slot_idle(s) && (s->leave || a->over);
}

/* By the orchestrator's word, or because a worker of its own has finished. */
static bool knows_end(const struct agent *a)
{
    bool finished = false;

    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        finished |= a->slots[i].report.phase == PHASE_FINISHED;
    }
    return a->ended || a->ending_ms != 0 || finished;
}

static void look_after(struct agent *a, struct agent_effects *fx)
{
    uint32_t gone_n = 0, left_n = 0;

    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        gone_n += look_after_slot(a, i, fx);
        left_n += a->slots[i].leave &&
                  (a->slots[i].state != SLOT_EXITED || a->reports_acked >= a->slots[i].reported);
    }
    if (gone_n == a->config.hello.slots &&
        (a->over || a->draining || left_n == a->config.hello.slots)) {
        struct msg_bye bye = {.node = a->node,
                              .store = a->store,
                              .incarnation = a->config.hello.incarnation,
                              .ended = knows_end(a)};

        if (a->welcomed) {
            fx->emit(fx, &(struct agent_effect){.kind = AGENT_BYE, .u.bye = &bye});
        }
        a->welcomed = false;
        a->over = a->done = true;
        fx->emit(fx, &(struct agent_effect){.kind = AGENT_DONE, .code = exit_code(a)});
    }
}

/* ---- from the orchestrator ---- */

static void on_welcome(struct agent *a, const struct msg_welcome *m, struct agent_effects *fx)
{
    bool renumbered = m->node != a->node || m->store != a->store;
    bool another = m->run != a->run || m->store != a->store;

    a->welcomed = true;
    a->hello_ms = 0;
    a->refused_n = 0;
    a->exists_ms = 0;
    a->store = m->store;
    a->node = m->node;
    a->run = m->run;
    a->lease_len_ms = m->lease_ms;
    a->roster.version = another ? 0 : a->roster.version;
    if (another || a->mode == MODE_AUTO) {
        slots_mode(a, m->mode, fx);
    }
    if (renumbered) {
        a->held.number = a->active = 0;
        for (uint32_t i = 0; i < a->config.hello.slots; i++) {
            slot_renew_life(a, i, fx);
        }
    }
    agent_renew(a, fx);
    a->renew_at_ms -= a->config.early_ms % (a->renew_at_ms - a->now_ms + 1);
    send_reports(a, fx);
}

static void hello_later(struct agent *a)
{
    uint32_t wait_ms = MIN(HELLO_AGAIN_MS << MIN(a->refused_n, 8u), HELLO_AGAIN_MAX_MS);

    a->refused_n++;
    a->welcomed = false;
    a->hello_ms = a->now_ms + wait_ms - a->config.early_ms % (wait_ms / 2 + 1);
}

/* The one of our name may be ourselves, before a quick restart. */
static bool name_may_be_free_soon(struct agent *a)
{
    if (a->exists_ms == 0) {
        a->exists_ms = a->now_ms;
    }
    return a->now_ms < a->exists_ms + (uint64_t)EXISTS_LEASES * a->lease_len_ms;
}

static void on_refused(struct agent *a, const struct msg_refused *m, struct agent_effects *fx)
{
    if (m->status == MU_ESTALE) {
        if (a->welcomed) {
            a->welcomed = false;
            send_hello(a, fx);
        }
    } else if (m->status == MU_EAGAIN || (m->status == MU_EEXIST && name_may_be_free_soon(a))) {
        hello_later(a);
    } else {
        a->over = true;
        a->exit_code = m->status == MU_ELIMIT && a->last_code != 0 ? (int)a->last_code : 1;
        stop_all(a, fx);
    }
}

static void drain(struct agent *a)
{
    if (!a->draining) {
        a->draining = true;
        a->drain_ms = a->now_ms;
    }
}

static void tell_leases(struct agent *a, struct agent_effects *fx)
{
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        const struct msg_lease lease = agent_lease(a);

        if (a->slots[i].state == SLOT_RUNNING && RULE(LOST_HAS_NO_LEASE, !a->slots[i].unleased)) {
            fx->emit(
                fx, &(struct agent_effect){.kind = AGENT_TELL_LEASE, .slot = i, .u.lease = &lease});
        }
    }
}

static void on_ack(struct agent *a, const struct msg_ack *m, struct agent_effects *fx)
{
    const bool wished = m->saves != a->saves;

    a->reports_acked = MAX(a->reports_acked, m->reports);
    a->saves = m->saves;
    if ((m->flags & NODE_DRAINING) != 0) {
        drain(a);
    }
    if ((m->flags & NODE_ENDING) != 0 && a->ending_ms == 0) {
        a->ending_ms = a->now_ms;
    }
    if (a->mode == MODE_AUTO ||
        MUTATED(MODE_STAYS)) { /* Once decided it stays so; this may be late. */
        slots_mode(a, m->mode, fx);
    }
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        struct slot *s = &a->slots[i];

        s->unleased &= s->lost || a->reports_acked < s->reported;
    }
    if (m->seq == 0 || m->seq > a->renew_seq || a->renew_seq - m->seq >= AGENT_RENEWALS ||
        a->sent_ms[m->seq % AGENT_RENEWALS] <= a->lease_ms ||
        !RULE(LEASE_NEEDS_GENERATION, m->generation <= a->held.number)) {
        if (wished) {
            tell_leases(a, fx); /* the same ones, with the wish */
        }
        return;
    }
    a->lease_ms = a->sent_ms[m->seq % AGENT_RENEWALS];
    tell_leases(a, fx);
}

static void on_generation(struct agent *a, const struct generation *g, struct agent_effects *fx)
{
    struct member *members = a->held.members;

    if (!RULE(STALE_GENERATION, g->number > a->held.number) || g->members_n == 0 ||
        g->members_n > a->config.members_max) {
        return;
    }
    a->held = *g;
    a->held.members = members;
    memcpy(members, g->members, g->members_n * sizeof(*members));
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        if (a->slots[i].state == SLOT_RUNNING && slot_hears(a, i)) {
            fx->emit(fx, &(struct agent_effect){
                             .kind = AGENT_TELL_GENERATION, .slot = i, .u.generation = &a->held});
        }
        slot_place(a, i, fx);
        slot_follow(a, i, fx);
        slot_offer(a, i, fx);
    }
}

static void on_ended(struct agent *a, const struct msg_ended *m, struct agent_effects *fx)
{
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        if (a->slots[i].attached) {
            fx->emit(fx, &(struct agent_effect){.kind = AGENT_TELL_ENDED, .slot = i, .u.ended = m});
        }
    }
    a->over = a->ended = true;
    if (m->failed) {
        a->exit_code = a->last_code != 0 ? (int)a->last_code : 1;
    }
    stop_all(a, fx);
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

static void tell_roster(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    const struct slot *s = &a->slots[slot];

    if (s->state == SLOT_RUNNING && s->report.asks && a->roster.version != 0) {
        fx->emit(fx, &(struct agent_effect){
                         .kind = AGENT_TELL_ROSTER, .slot = slot, .u.roster = &a->roster});
    }
}

static void on_roster(struct agent *a, const struct msg_roster *m, struct agent_effects *fx)
{
    struct roster_entry *helpers = a->roster.helpers;

    if (m->run != a->run || m->version <= a->roster.version ||
        m->helpers_n > a->config.members_max) {
        return;
    }
    a->roster = *m;
    a->roster.helpers = helpers;
    memcpy(helpers, m->helpers, m->helpers_n * sizeof(*helpers));
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        tell_roster(a, i, fx);
    }
}

/* ---- from the workers ---- */

static bool apart_is_news(const struct report *old, const struct report *new)
{
    bool news = old->apart_in != new->apart_in || old->apart_n != new->apart_n;

    for (uint32_t i = 0; i < new->apart_n && !news; i++) {
        news = old->apart[i].peer != new->apart[i].peer ||
               old->apart[i].idle_ms != new->apart[i].idle_ms;
    }
    return news;
}

/* Another step alone is none: it can wait for the next renewal. */
static bool report_is_news(const struct report *old, const struct report *new)
{
    return old->phase != new->phase || old->entered != new->entered ||
           old->checkpoint != new->checkpoint || old->fault != new->fault ||
           old->reached != new->reached || old->unkept != new->unkept || old->asks != new->asks ||
           apart_is_news(old, new) || strcmp(old->addr, new->addr) != 0;
}

/* In restart mode its agent speaks for it, but that its work is done only it can know. The others
 * need not wait for its exit, nor it for theirs. */
static bool finishes(const struct slot *s, const struct agent_event *e)
{
    return e->kind == AGENT_ON_REPORT && e->u.report->phase == PHASE_FINISHED &&
           s->report.phase == PHASE_IN;
}

static void on_worker(struct agent *a, const struct agent_event *e, struct agent_effects *fx)
{
    struct slot *s = &a->slots[e->slot];
    bool was_lost = s->lost;

    if (slot_idle(s)) {
        return;
    }
    s->beat_ms = a->now_ms;
    s->lost = false;
    s->attached = s->ours = true;
    if (e->kind == AGENT_ON_FORGET) {
        if (a->draining || a->over) {
            slot_leave(a, e->slot, s->report.entered != 0, fx);
            s->report.entered = 0;
            s->report.phase = PHASE_WARMING;
        } else {
            slot_renew_life(a, e->slot, fx);
        }
    } else if (s->state != SLOT_RUNNING) {
        return; /* It is on its way out, and enters nothing any more. */
    } else if (e->kind == AGENT_ON_REPORT && a->mode != MODE_RESTART) {
        bool news = was_lost || report_is_news(&s->report, e->u.report);
        bool asked = s->report.asks;
        uint32_t incarnation = s->report.incarnation;

        s->report = *e->u.report;
        s->report.slot = e->slot;
        s->report.incarnation = incarnation;
        if (MUTATED(APART_IS_KEPT) && !a->welcomed) {
            s->report.apart_n = 0;
        }
        if (news) {
            agent_changed(a, e->slot, fx);
        } else {
            a->progress = true;
        }
        if (!asked) {
            tell_roster(a, e->slot, fx);
        }
        slot_place(a, e->slot, fx);
    } else if (was_lost || finishes(s, e)) {
        s->report.phase = finishes(s, e) ? PHASE_FINISHED : s->report.phase;
        agent_changed(a, e->slot, fx);
    }
}

/* The first worker that knows muster makes the job in-process. */
static void on_attached(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];

    if (slot_idle(s)) {
        return;
    }
    s->attached = s->ours = true;
    s->beat_ms = a->now_ms;
    slot_tell(a, slot, fx);
    if (!a->attached) {
        a->attached = true;
        agent_renew(a, fx);
    }
}

/* What it needs before it joins may take long, and is not to be done twice. */
static void on_loaded(struct agent *a, uint32_t slot)
{
    struct slot *s = &a->slots[slot];

    s->ours |= s->state == SLOT_RUNNING && !MUTATED(OURS_IS_KEPT);
}

/* For the next generation: it is no news by itself unless somebody waits for it. */
static void on_addr(struct agent *a, const struct agent_event *e, struct agent_effects *fx)
{
    struct slot *s = &a->slots[e->slot];

    memcpy(s->addr, e->u.report->addr, sizeof(s->addr));
    s->port = e->u.report->port;
    if (s->state != SLOT_EMPTY) {
        agent_changed(a, e->slot, fx);
    }
}

/* ---- time ---- */

/* A job in which somebody has finished is ending; the others get this much time. */
static uint64_t ending_due_ms(const struct agent *a)
{
    uint32_t wait_ms = a->config.exit_timeout_ms;

    return a->ending_ms == 0 ? UINT64_MAX : a->ending_ms + (wait_ms ? wait_ms : EXIT_TIMEOUT_MS);
}

static void on_tick(struct agent *a, struct agent_effects *fx)
{
    if (a->connected && !a->welcomed && a->hello_ms != 0 && a->hello_ms <= a->now_ms) {
        send_hello(a, fx);
    }
    if (a->welcomed && a->renew_at_ms <= a->now_ms) {
        agent_renew(a, fx);
        if (a->progress) {
            a->progress = false;
            a->reports_seq++;
            send_reports(a, fx);
        }
    }
    if (a->welcomed && a->reports_acked < a->reports_seq && a->reports_at_ms <= a->now_ms) {
        send_reports(a, fx);
    }
    slots_tick(a, fx);
    if (ending_due_ms(a) <= a->now_ms && !a->over) {
        a->over = true;
        a->exit_code = a->slots[0].state == SLOT_FINISHED ? 0 : 1;
        stop_all(a, fx);
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
    at_ms = MIN(MIN(at_ms, slots_deadline(a)), ending_due_ms(a));
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
    case AGENT_ON_ROSTER:
        on_roster(a, e->u.roster, fx);
        break;
    case AGENT_ON_ENDED:
        on_ended(a, e->u.ended, fx);
        break;
    case AGENT_ON_BEAT:
    case AGENT_ON_REPORT:
    case AGENT_ON_FORGET:
        on_worker(a, e, fx);
        break;
    case AGENT_ON_EXIT:
        slot_exited(a, e->slot, e->code, fx);
        break;
    case AGENT_ON_DRAIN:
        drain(a);
        agent_renew(a, fx);
        break;
    case AGENT_ON_ADDR:
        on_addr(a, e, fx);
        break;
    case AGENT_ON_LOADED:
        on_loaded(a, e->slot);
        break;
    case AGENT_ON_ATTACHED:
        on_attached(a, e->slot, fx);
        break;
    case AGENT_ON_DETACHED: /* Its beats will be missed, or its exit seen. */
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
