/* The lives of a node's workers: when a process starts, stops and starts again.
 *
 * A life is what a generation names. In-process, it is a process. By generation (restart mode), it
 * waits without one until it is named, and then has one script after the other, each in the newest
 * generation that names it; when a script ends by itself, well or badly, so does what it was. */
#include "core/agent_state.h"
#include "core/mutation.h"

#include <string.h>

#define SILENT_MS 60000     /* auto: what a script has to say that it is one of ours */
#define DRAIN_WAIT_MS 3000  /* for a generation without us, before scripts are stopped anyway */
#define QUICK_MS 1000       /* a life shorter than this is a quick end */
#define BACKOFF_MS 100      /* pause after a quick end, from the second in a row on, */
#define BACKOFF_MAX_MS 6400 /* longer each time */
#define STOPPED_CODE 143    /* of a script that was asked to end, whatever it made of it */

wid slot_wid(const struct agent *a, uint32_t slot)
{
    return wid_make(a->node, slot, a->slots[slot].report.incarnation);
}

bool slot_idle(const struct slot *s)
{
    return s->state != SLOT_RUNNING && s->state != SLOT_RESTARTING && s->state != SLOT_STOPPING;
}

bool slot_by_generation(const struct agent *a, const struct slot *s)
{
    return a->mode == MODE_RESTART || (a->mode == MODE_AUTO && !s->ours);
}

/* What the generation that we hold says of it; NULL: nothing. */
static const struct member *held_member(const struct agent *a, uint32_t slot)
{
    wid self = slot_wid(a, slot);

    for (uint32_t i = 0; a->held.number != 0 && i < a->held.members_n; i++) {
        if (a->held.members[i].worker == self) {
            return &a->held.members[i];
        }
    }
    return NULL;
}

static bool in_held(const struct agent *a, uint32_t slot)
{
    return held_member(a, slot) != NULL;
}

struct report slot_report(const struct agent *a, uint32_t slot)
{
    const struct slot *s = &a->slots[slot];
    struct report r = s->report;

    r.hung = s->state == SLOT_EXITED && s->hung;
    if (s->state == SLOT_EXITED) {
        r.phase = PHASE_EXITED;
    } else if (s->lost && r.phase != PHASE_EXITED) { /* by its own word: it has left */
        r.phase = PHASE_LOST;
    }
    if (!RULE(UNDECIDED_ENTERS_NOTHING, a->mode != MODE_AUTO)) {
        r.entered = 0; /* Nothing is active before the mode is known. */
    }
    if (r.addr[0] == '\0') {
        memcpy(r.addr, s->addr, sizeof(r.addr));
    }
    r.port = s->port;
    return r;
}

/* A script that was started for a generation is to end with it: the next one names its successor by
 * the same id, and whoever of them acted in it first would do the other's part. */
bool slot_hears(const struct agent *a, uint32_t slot)
{
    return !slot_by_generation(a, &a->slots[slot]) ||
           RULE(HEARS_ITS_OWN, a->slots[slot].started == a->held.number);
}

/* A node that leaves may be the last one: what its workers have is to be saved. */
struct msg_lease agent_lease(const struct agent *a)
{
    return (struct msg_lease){.sent_ms = a->lease_ms, .saves = a->saves + (a->draining ? 1 : 0)};
}

void slot_tell(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    const struct msg_lease lease = agent_lease(a);
    struct msg_active active = {.generation = a->active};

    fx->emit(fx, &(struct agent_effect){.kind = AGENT_TELL_LEASE, .slot = slot, .u.lease = &lease});
    if (a->held.number != 0 && slot_hears(a, slot)) {
        fx->emit(fx, &(struct agent_effect){
                         .kind = AGENT_TELL_GENERATION, .slot = slot, .u.generation = &a->held});
    }
    if (a->active != 0) {
        fx->emit(fx, &(struct agent_effect){
                         .kind = AGENT_TELL_ACTIVE, .slot = slot, .u.active = &active});
    }
}

/* ---- starting ---- */

/* Nothing that the life before has said holds for this one. */
static void new_life(struct agent *a, uint32_t slot, enum phase phase)
{
    struct slot *s = &a->slots[slot];
    uint32_t incarnation = s->report.incarnation + 1;

    s->report = (struct report){.slot = slot, .incarnation = incarnation, .phase = (uint8_t)phase};
    s->lost = s->unleased = s->left = s->hung = false;
    s->out_ms = 0;
    s->beat_ms = a->now_ms;
}

static void start(struct agent *a, uint32_t slot, const struct generation *in,
                  struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];

    s->state = SLOT_RUNNING;
    s->started = in != NULL ? in->number : 0;
    s->started_ms = s->beat_ms = a->now_ms;
    s->attached = s->ours = s->failed = false;
    fx->emit(fx, &(struct agent_effect){.kind = AGENT_START,
                                        .slot = slot,
                                        .worker = slot_wid(a, slot),
                                        .code = (int)s->failed_n,
                                        .u.generation = in});
}

/* In the generation that we hold and that names it. */
static void start_in_held(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];

    start(a, slot, &a->held, fx);
    s->report.phase = a->mode == MODE_RESTART ? PHASE_IN : PHASE_WARMING;
    s->report.entered = a->mode == MODE_RESTART ? a->held.number : 0; /* or by its own word */
    agent_changed(a, slot, fx);
}

static void start_to_warm_up(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    start(a, slot, NULL, fx);
    a->slots[slot].report.phase = PHASE_WARMING;
    a->slots[slot].report.entered = 0;
    slot_tell(a, slot, fx);
    agent_changed(a, slot, fx);
}

/* The generation that we hold has given out our port, and no script of ours will meet the others
 * there: unless we offer another, the next generation waits for it in vain. */
void slot_offer(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    const struct slot *s = &a->slots[slot];

    for (uint32_t i = 0; slot_by_generation(a, s) && slot_idle(s) && i < a->held.members_n; i++) {
        const struct member *m = &a->held.members[i];

        if (wid_node(m->worker) == a->node && wid_slot(m->worker) == slot && m->port == s->port &&
            m->port != 0) {
            fx->emit(fx, &(struct agent_effect){.kind = AGENT_ADDR, .slot = slot});
        }
    }
}

/* Without a process, for a life that is there: whatever it is to do next. */
static void go_on(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];

    if (!slot_by_generation(a, s)) {
        start_to_warm_up(a, slot, fx);
    } else if (in_held(a, slot) &&
               RULE(HOLD_STARTS_NOTHING, (a->held.flags & GENERATION_HOLD) == 0)) {
        start_in_held(a, slot, fx);
    } else { /* In a generation that holds, it is in without a script. */
        bool in = in_held(a, slot);

        s->state = SLOT_WAITING;
        s->started = 0;
        s->report.phase = in ? PHASE_IN : PHASE_WARM;
        s->report.entered = in ? a->held.number : 0;
        agent_changed(a, slot, fx);
        slot_offer(a, slot, fx);
    }
}

void slot_begin(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    new_life(a, slot, PHASE_WARMING);
    go_on(a, slot, fx);
}

void slot_renew_life(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];

    if (slot_by_generation(a, s) && s->state == SLOT_FINISHED) {
        s->leave = true; /* It has done its part, in a generation that nobody knows any more. */
        return;
    }
    if (s->state == SLOT_EMPTY || s->state == SLOT_EXITED || s->state == SLOT_STOPPING) {
        return;
    }
    new_life(a, slot, s->state == SLOT_WAITING ? PHASE_WARM : PHASE_WARMING);
    if (!slot_by_generation(a, s) && s->state == SLOT_RUNNING) {
        fx->emit(fx, &(struct agent_effect){
                         .kind = AGENT_LIFE, .slot = slot, .worker = slot_wid(a, slot)});
        slot_tell(a, slot, fx);
    }
    agent_changed(a, slot, fx);
    slot_follow(a, slot, fx);
}

void slot_place(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    const struct slot *s = &a->slots[slot];
    const struct member *m = held_member(a, slot);

    if (m != NULL && a->mode != MODE_RESTART && s->state == SLOT_RUNNING &&
        s->report.addr[0] != '\0' && strcmp(m->addr, s->report.addr) != 0) {
        slot_renew_life(a, slot, fx);
    }
}

/* ---- stopping ---- */

void slot_stop(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];

    s->leave = true;
    if (s->state == SLOT_RUNNING) {
        fx->emit(fx, &(struct agent_effect){.kind = AGENT_STOP, .slot = slot});
    }
    if (s->state == SLOT_RUNNING || s->state == SLOT_RESTARTING) {
        s->state = SLOT_STOPPING;
    }
}

void slot_leave(struct agent *a, uint32_t slot, bool held, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];
    struct msg_ended m = {.run = a->run, .step = s->report.step, .left = 1};

    if (s->state == SLOT_RUNNING && s->attached && !a->over) {
        s->left = held;
        fx->emit(fx, &(struct agent_effect){.kind = AGENT_TELL_ENDED, .slot = slot, .u.ended = &m});
    }
    slot_stop(a, slot, fx);
}

void slot_follow(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];
    bool newer = s->started != a->held.number;

    if (!slot_by_generation(a, s) || s->leave) {
        return;
    }
    if (s->state == SLOT_RUNNING && (newer || !in_held(a, slot))) {
        s->state = SLOT_RESTARTING;
        fx->emit(fx, &(struct agent_effect){.kind = AGENT_STOP, .slot = slot});
        if (MUTATED(STOP_BEFORE_START)) {
            go_on(a, slot, fx);
        }
    } else if ((s->state == SLOT_WAITING && (in_held(a, slot) || s->report.phase != PHASE_WARM)) ||
               (s->state == SLOT_FINISHED && newer && in_held(a, slot))) {
        go_on(a, slot, fx); /* Whoever had finished does so again, with the others. */
    }
}

/* ---- ends ---- */

/* It ended by itself and not well. */
static void on_failure(struct agent *a, struct slot *s, uint32_t code)
{
    s->quick_n = a->now_ms < s->started_ms + QUICK_MS ? s->quick_n + 1 : 0;
    s->ready_ms = a->now_ms;
    if (s->quick_n > 1) {
        s->ready_ms += MIN((uint64_t)BACKOFF_MS << MIN(s->quick_n - 2, 16u), BACKOFF_MAX_MS);
    }
    s->failed = true;
    s->failed_n += code <= 127;
    s->state = SLOT_EXITED;
    s->report.exit_code = code;
    a->last_code = code;
}

static void on_success(struct agent *a, struct slot *s, struct agent_effects *fx)
{
    s->state = SLOT_FINISHED;
    s->report.phase = PHASE_FINISHED;
    s->quick_n = 0;
    if (a->mode == MODE_AUTO && !s->attached) {
        a->unattached = true; /* It knew nothing of muster, and needed nothing. */
    }
}

void slot_exited(struct agent *a, uint32_t slot, uint32_t code, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];
    bool unknown = a->mode == MODE_AUTO && !s->attached; /* though it may have loaded libmuster */
    bool finished = unknown || slot_by_generation(a, s) || s->report.phase == PHASE_FINISHED;

    if (slot_idle(s)) {
        return;
    }
    s->attached = s->ours = s->lost = false;
    if (s->state == SLOT_RESTARTING && !a->draining && !a->over) {
        go_on(a, slot, fx);
        return;
    }
    if (s->state != SLOT_RUNNING) {
        s->leave |= a->draining || a->over;
        s->state = SLOT_EXITED;
        s->report.exit_code = s->left && code == 0 ? 0 : STOPPED_CODE;
    } else if (code == 0 && finished) {
        on_success(a, s, fx);
    } else if (code == 0) {
        s->leave = true; /* It has left, of its own will. */
        s->state = SLOT_EXITED;
        s->report.exit_code = 0;
    } else {
        on_failure(a, s, code);
    }
    agent_changed(a, slot, fx);
    if (a->unattached) {
        agent_renew(a, fx);
    }
}

/* ---- mode and time ---- */

void slots_mode(struct agent *a, uint8_t mode, struct agent_effects *fx)
{
    if (mode == a->mode || mode >= MODE_N) {
        return;
    }
    a->mode = mode;
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        struct slot *s = &a->slots[i];

        if (mode == MODE_INPROCESS && s->state == SLOT_WAITING && !s->leave) {
            start_to_warm_up(a, i, fx);
        } else if (mode == MODE_RESTART &&
                   (s->state == SLOT_RUNNING || s->state == SLOT_FINISHED)) {
            s->report.phase = s->state == SLOT_RUNNING ? PHASE_IN : PHASE_FINISHED;
            s->report.entered = s->started;
        }
        if (s->state != SLOT_EMPTY) {
            agent_changed(a, i, fx);
        }
        if (mode == MODE_RESTART && s->ours) {
            slot_follow(a, i, fx); /* It was let alone so far. */
        }
    }
}

static bool drain_due(const struct agent *a, const struct slot *s)
{
    if (!slot_by_generation(a, s)) { /* Whoever holds no state has no reason to stay. */
        return s->report.entered == 0 && s->report.phase != PHASE_IN;
    }
    return a->now_ms >= a->drain_ms + DRAIN_WAIT_MS;
}

/* ---- one that hangs ---- */

/* A generation without it is active, it was told of that, and it lives: so it is to say that it has
 * forgotten what it held. One that is lost may have been stopped, and is left alone until it is
 * back. */
static bool should_know(const struct agent *a, uint32_t slot)
{
    const struct slot *s = &a->slots[slot];

    return !slot_by_generation(a, s) && s->state == SLOT_RUNNING && s->attached && !s->lost &&
           s->report.entered != 0 && a->active != 0 && a->active == a->held.number &&
           !in_held(a, slot);
}

/* What a member that is lost was to do others do meanwhile; but nobody takes the place of a helper
 * as long as it is there. */
static bool helper_hangs(const struct agent *a, const struct slot *s)
{
    bool helps =
        s->report.phase == PHASE_SERVING || duty_of(a->config.hello.role, a->mode) == DUTY_HELPS;

    return helps && !slot_by_generation(a, s) && s->state == SLOT_RUNNING && s->lost &&
           !MUTATED(LOST_HELPER_ENDS);
}

static uint64_t hung_due_ms(const struct agent *a, const struct slot *s)
{
    bool helper = helper_hangs(a, s);

    if (s->out_ms == 0 || (helper ? a->config.keeps_hung : a->config.hung_ms == 0)) {
        return UINT64_MAX;
    }
    return s->out_ms + (helper ? a->lease_len_ms : MAX(a->config.hung_ms, a->lease_len_ms));
}

static void look_for_hung(struct agent *a, uint32_t slot, struct agent_effects *fx)
{
    struct slot *s = &a->slots[slot];

    if (!should_know(a, slot) && !helper_hangs(a, s)) {
        s->out_ms = 0;
    } else if (s->out_ms == 0) {
        s->out_ms = a->now_ms;
    } else if (hung_due_ms(a, s) <= a->now_ms) {
        s->out_ms = 0;
        s->hung = true;
        s->state = SLOT_STOPPING; /* Not for good: another life follows. */
        fx->emit(fx, &(struct agent_effect){.kind = AGENT_KILL, .slot = slot});
    }
}

bool slots_silent(const struct agent *a)
{
    const uint64_t wait_ms = a->config.silent_ms != 0 ? a->config.silent_ms : SILENT_MS;

    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        const struct slot *s = &a->slots[i];
        const uint64_t due_ms = s->started_ms + wait_ms;

        if (s->state == SLOT_RESTARTING ||
            (s->state == SLOT_RUNNING && (s->ours || due_ms > a->now_ms))) {
            return false;
        }
    }
    return true;
}

void slots_tick(struct agent *a, struct agent_effects *fx)
{
    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        struct slot *s = &a->slots[i];

        if (s->state == SLOT_RUNNING && s->attached && !s->lost &&
            s->beat_ms + a->lease_len_ms <= a->now_ms) {
            s->lost = s->unleased = true;
            agent_changed(a, i, fx);
        }
        look_for_hung(a, i, fx);
        if (s->state == SLOT_RUNNING && a->draining && drain_due(a, s)) {
            slot_leave(a, i, false, fx);
        }
    }
}

uint64_t slots_deadline(const struct agent *a)
{
    uint64_t at_ms = UINT64_MAX;

    for (uint32_t i = 0; i < a->config.hello.slots; i++) {
        const struct slot *s = &a->slots[i];

        if (s->state == SLOT_EXITED && !s->leave && s->ready_ms > a->now_ms) {
            at_ms = MIN(at_ms, s->ready_ms);
        }
        if (s->state == SLOT_RUNNING && a->draining && slot_by_generation(a, s)) {
            at_ms = MIN(at_ms, a->drain_ms + DRAIN_WAIT_MS);
        }
        at_ms = MIN(at_ms, hung_due_ms(a, s));
    }
    return at_ms;
}
