/* The step itself: compute, reduce, READY, commit. */
#include "core/step.h"

#include "core/mutation.h"
#include "core/step_state.h"

#include <stdlib.h>
#include <string.h>

int step_init(struct step *s, const struct step_config *config)
{
    int rc = MU_OK;

    if (!slices_valid_n(config->slices_n) || config->members_max == 0) {
        return MU_EINVAL;
    }
    memset(s, 0, sizeof(*s));
    s->config = *config;
    s->peers = calloc(config->members_max, sizeof(*s->peers));
    s->held = calloc(config->members_max, sizeof(*s->held));
    s->vouches = calloc(config->members_max, sizeof(*s->vouches));
    s->odd = calloc(config->members_max, sizeof(*s->odd));
    if (s->peers == NULL || s->held == NULL || s->vouches == NULL || s->odd == NULL ||
        group_init(&s->group, config->members_max) != MU_OK ||
        group_init(&s->next, config->members_max) != MU_OK ||
        group_init(&s->previous, config->members_max) != MU_OK) {
        step_close(s);
        rc = MU_ENOMEM;
    }
    return rc;
}

void step_close(struct step *s)
{
    group_close(&s->group);
    group_close(&s->next);
    group_close(&s->previous);
    free(s->peers);
    free(s->held);
    free(s->vouches);
    free(s->odd);
    s->peers = NULL;
    s->held = NULL;
    s->vouches = NULL;
    s->odd = NULL;
}

void step_reset(struct step *s, wid self)
{
    struct step old = *s;

    memset(s, 0, sizeof(*s));
    s->config = old.config;
    s->config.self = self;
    s->now_ms = old.now_ms;
    s->lease_ms = old.lease_ms;
    s->peers = old.peers;
    s->held = old.held;
    s->vouches = old.vouches;
    s->odd = old.odd;
    s->group.ids = old.group.ids;
    s->group.caught_up = old.group.caught_up;
    s->next.ids = old.next.ids;
    s->next.caught_up = old.next.caught_up;
    s->previous.ids = old.previous.ids;
    s->previous.caught_up = old.previous.caught_up;
}

bool step_orphaned(const struct step *s)
{
    return !RULE(ORPHAN_PAUSES, s->now_ms - s->lease_ms <= s->config.orphan_ms);
}

bool step_waits(const struct step *s)
{
    return s->phase == STEP_LOADING || s->phase == STEP_SETTLING || s->phase == STEP_HELD ||
           (s->phase == STEP_COMPUTING && s->reducing) || (s->phase == STEP_IDLE && s->has_said);
}

static bool acts(const struct step *s)
{
    return s->phase != STEP_OUT && s->phase != STEP_PARKED;
}

/* A connection that was proved in an earlier generation stays open: then the number alone tells. */
bool step_fence(const struct step *s, uint64_t generation, const uint8_t *key)
{
    if (generation != s->group.number) {
        return MUTATED(GENERATION_FENCE) && acts(s);
    }
    return acts(s) && RULE(KEY_FENCE, memcmp(key, s->group.key, KEY_BYTES) == 0);
}

void say(struct step_effects *fx, enum step_effect_kind kind, uint64_t step)
{
    fx->emit(fx, &(struct step_effect){.kind = kind, .step = step});
}

/* ---- computing ---- */

/* All slices of this worker are there, once it has those of `have`. */
static bool can_reduce(const struct step *s, const struct slices *have)
{
    struct slices mine;

    if (s->phase != STEP_COMPUTING || s->reducing || !s->applied || check_lacks(s)) {
        return false;
    }
    plan_slices(&s->plan, s->group.me, &mine);
    for (size_t i = 0; i < ARRAY_LEN(mine.bits); i++) {
        if ((mine.bits[i] & ~have->bits[i]) != 0) {
            return false;
        }
    }
    return true;
}

static void reduce_try(struct step *s, struct step_effects *fx)
{
    if (can_reduce(s, &s->have)) {
        s->reducing = true;
        say(fx, STEP_REDUCE, s->committed + 1);
    }
}

bool step_is_last(const struct step *s, uint32_t slice)
{
    struct slices have = s->have;

    if (slices_has(&have, slice) || plan_rank(&s->plan, slice) != s->group.me) {
        return false;
    }
    slices_add(&have, slice);
    return can_reduce(s, &have);
}

static void compute(struct step *s, struct step_effects *fx)
{
    struct slices mine;

    if (s->phase != STEP_COMPUTING || !s->applied || s->computing) {
        return;
    }
    s->computing = true;
    plan_slices(&s->plan, s->group.me, &mine);
    for (size_t i = 0; i < ARRAY_LEN(mine.bits); i++) {
        mine.bits[i] &= ~s->have.bits[i];
    }
    check_ask(s, fx);
    fx->emit(
        fx, &(struct step_effect){.kind = STEP_COMPUTE, .step = s->committed + 1, .slices = &mine});
    reduce_try(s, fx);
}

void run_step(struct step *s, struct step_effects *fx)
{
    s->computing = s->reducing = s->has_said = false;
    if (s->config.steps_n != 0 && s->committed >= s->config.steps_n) {
        s->phase = STEP_FINISHED;
        say(fx, STEP_REPORT, s->committed);
    } else if ((s->group.flags & GENERATION_HOLD) != 0) {
        s->phase = STEP_IDLE;
    } else {
        s->phase = STEP_COMPUTING;
        compute(s, fx);
    }
}

void begin_step(struct step *s, struct step_effects *fx)
{
    mu_assert(plan_init(&s->plan, s->config.slices_n, s->group.n) == MU_OK);
    run_step(s, fx);
}

/* Members who commit by the READYs of all see the same wishes; whoever does so after a loss, by
 * SETTLE, sees none. */
static bool is_wanted(const struct step *s)
{
    for (uint32_t i = 0; i < s->group.n; i++) {
        if (s->peers[i].save_step == s->committed) {
            return true;
        }
    }
    return false;
}

void commit(struct step *s, struct step_effects *fx)
{
    bool save;

    s->committed++;
    s->saved = save = is_wanted(s);
    s->save_asked &= !save;
    s->applied = false;
    s->holds = false;
    vouch_clear(s);
    if (!MUTATED(GRADIENT_OF_STEP)) {
        slices_clear(&s->have);
    }
    fx->emit(fx, &(struct step_effect){.kind = STEP_COMMIT, .step = s->committed, .save = save});
}

/* ---- READY ---- */

static void say_ready(struct step *s, uint64_t step, struct step_effects *fx)
{
    struct peer *me = &s->peers[s->group.me];

    s->said.from = s->config.self;
    s->said.step = step;
    s->said.newest = s->next.number != 0 && s->linked ? s->next.number : s->group.number;
    s->has_said = true;
    me->ready = true;
    me->ready_step = step;
    me->ready_newest = s->said.newest;
    memset(&me->ready_vouch, 0, sizeof(me->ready_vouch));
    if (step > s->committed) {
        me->ready_vouch = s->vouch;
    }
    memcpy(s->said.digest, me->ready_vouch.digest, HASH_BYTES);
    memcpy(s->said.check, me->ready_vouch.check, HASH_BYTES);
    s->said.save = s->save_asked && step > s->committed;
    me->save_step = s->said.save ? step : me->save_step;
    fx->emit(fx,
             &(struct step_effect){.kind = STEP_SEND_READY, .group = &s->group, .ready = &s->said});
}

static void on_ready(struct step *s, const struct msg_ready *m)
{
    uint32_t rank = group_rank(&s->group, m->from);
    struct peer *p;

    if (rank == NO_RANK || rank == s->group.me) {
        return;
    }
    p = &s->peers[rank];
    if (!p->ready || m->step > p->ready_step ||
        (m->step == p->ready_step && m->newest > p->ready_newest)) {
        p->ready = true;
        p->ready_step = m->step;
        p->ready_newest = m->newest;
        memcpy(p->ready_vouch.digest, m->digest, HASH_BYTES);
        memcpy(p->ready_vouch.check, m->check, HASH_BYTES);
        p->save_step = m->save ? m->step : p->save_step;
    }
}

/* Have all said READY for `step`? The newest generation that all of them can enter. Whoever is
 * past that step in this generation has seen that nobody leaves it there. */
static bool all_ready(const struct step *s, uint64_t step, uint64_t *minimum_out)
{
    uint64_t minimum = UINT64_MAX;
    bool all = true;

    for (uint32_t i = 0; i < s->group.n; i++) {
        const struct peer *p = &s->peers[i];

        if (!p->ready || p->ready_step < step) {
            all = false;
        } else {
            minimum = MIN(minimum, p->ready_step == step ? p->ready_newest : s->group.number);
        }
    }
    *minimum_out = MUTATED(MINIMUM_RULE) ? s->said.newest : minimum;
    return RULE(READY_NEEDS_ALL, all);
}

static void ready_try(struct step *s, struct step_effects *fx)
{
    if (s->phase == STEP_HELD && !s->has_said && !digest_lacks(s) && !step_orphaned(s)) {
        say_ready(s, s->committed + 1, fx);
    }
    /* A generation that holds computes nothing: its members are always at a boundary. */
    if (s->phase == STEP_IDLE && !s->has_said && s->applied && s->next.number != 0 && s->linked) {
        say_ready(s, s->committed, fx);
    }
}

static void commit_try(struct step *s, struct step_effects *fx)
{
    uint64_t minimum;

    if (s->phase == STEP_HELD && s->has_said && all_ready(s, s->committed + 1, &minimum) &&
        !ready_differs(s, s->committed + 1, fx) && RULE(ACTIVE_BEFORE_COMMIT, s->confirmed) &&
        !step_orphaned(s)) {
        s->moved = true;
        agree_ready(s);
        commit(s, fx);
        if (minimum > s->group.number && s->next.number == minimum) {
            move_on(s, fx);
        } else {
            begin_step(s, fx);
            say(fx, STEP_REPORT, s->committed);
        }
    } else if (s->phase == STEP_IDLE && s->has_said && all_ready(s, s->committed, &minimum) &&
               minimum > s->group.number && s->next.number == minimum) {
        slices_clear(&s->have); /* Of a step that a loss cut short: the plan knows of none. */
        move_on(s, fx);
    }
}

/* ---- what the driver has done ---- */

static void on_computed(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    if (e->step == s->committed + 1 && s->entered != 0 &&
        (!s->config.keeps_none || e->generation == s->group.number)) {
        slices_add(&s->have, e->slice);
        reduce_try(s, fx);
    }
}

static void on_reduced(struct step *s, const struct step_event *e)
{
    if (s->phase == STEP_COMPUTING && s->reducing && e->generation == s->group.number &&
        e->step == s->committed + 1) {
        s->reducing = false;
        s->holds = true;
        s->phase = STEP_HELD;
    }
}

static void on_applied(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    if (e->step != s->committed || s->applied) {
        return;
    }
    s->applied = true;
    digest_ask(s, fx);
    if (acts(s) && s->entered == s->group.number && s->group.newcomers && !s->confirmed) {
        say(fx, STEP_STREAM, s->committed);
    }
    compute(s, fx);
}

/* Statements are repeated, never changed: whoever missed one can still use it. */
static void resend(struct step *s, struct step_effects *fx)
{
    if (s->phase == STEP_OUT) {
        return;
    }
    if (MUTATED(LEAVER_REPEATS) && s->phase == STEP_PARKED) {
        return;
    }
    if (s->has_said || (s->said.step == s->committed && s->moved)) {
        fx->emit(fx, &(struct step_effect){
                         .kind = STEP_SEND_READY, .group = &s->group, .ready = &s->said});
    }
    if (s->phase == STEP_PARKED) {
        return; /* A leaver: the others may still need its last READY, and nothing else. */
    }
    if (s->had_said && !s->confirmed) {
        fx->emit(fx, &(struct step_effect){
                         .kind = STEP_SEND_READY, .group = &s->previous, .ready = &s->said_before});
    }
    if (s->group.kind == GENERATION_FAILURE && !s->moved) {
        fx->emit(fx, &(struct step_effect){
                         .kind = STEP_SEND_SETTLE, .group = &s->group, .settle = &s->snapshot});
    }
    if (s->entered == s->group.number && s->group.newcomers && s->applied && !s->confirmed) {
        say(fx, STEP_STREAM, s->committed);
    }
    if (s->next.number != 0 && !s->linked) {
        say(fx, STEP_LINK, 0);
    }
}

static void dispatch(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    switch (e->kind) {
    case STEP_ON_GENERATION:
        on_generation(s, e->u.generation, fx);
        break;
    case STEP_ON_ACTIVE:
        on_active(s, e->generation, fx);
        break;
    case STEP_ON_LEASE:
        s->lease_ms = MAX(s->lease_ms, e->time_ms);
        break;
    case STEP_ON_LINKED:
        s->linked |= e->generation == s->next.number && s->next.number != 0;
        break;
    case STEP_ON_LOADED:
        on_loaded(s, e, fx);
        break;
    case STEP_ON_SAVE:
        s->save_asked = true;
        break;
    case STEP_ON_COMPUTED:
        on_computed(s, e, fx);
        break;
    case STEP_ON_CHECKED:
        on_checked(s, e);
        reduce_try(s, fx);
        break;
    case STEP_ON_DIGEST:
        on_digest(s, e);
        break;
    case STEP_ON_REDUCED:
        on_reduced(s, e);
        break;
    case STEP_ON_APPLIED:
        on_applied(s, e, fx);
        break;
    case STEP_ON_READY:
        if (step_fence(s, e->generation, e->key)) {
            on_ready(s, e->u.ready);
        }
        break;
    case STEP_ON_SETTLE:
        if (step_fence(s, e->generation, e->key)) {
            on_settle(s, e);
        }
        break;
    case STEP_ON_RESEND:
        resend(s, fx);
        break;
    case STEP_ON_TICK:
        break;
    }
}

void step_event(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    s->now_ms = MAX(s->now_ms, e->now_ms);
    if (s->over) {
        return;
    }
    dispatch(s, e, fx);
    settle_try(s, fx);
    ready_try(s, fx);
    commit_try(s, fx);
}
