/* The step itself: compute, reduce, READY, commit. */
#include "core/step_state.h"

#include <stdlib.h>
#include <string.h>

int step_init(struct step *s, const struct step_config *config)
{
    const uint32_t n = config->members_max;

    if (!slices_valid_n(config->slices_n) || n == 0) {
        return MU_EINVAL;
    }
    memset(s, 0, sizeof(*s));
    s->config = *config;
    s->me = s->next_me = NO_RANK;
    s->peers = calloc(n, sizeof(*s->peers));
    s->held = calloc(n, sizeof(*s->held));
    s->vouches = calloc(n, sizeof(*s->vouches));
    s->ranks = calloc(n, sizeof(*s->ranks));
    s->holders = calloc(n, sizeof(*s->holders));
    s->ahead = calloc(n, sizeof(*s->ahead));
    s->folders = calloc(n, sizeof(*s->folders));
    s->scratch = calloc(n, sizeof(*s->scratch));
    if (saves_open(s) != MU_OK || s->peers == NULL || s->folders == NULL || s->scratch == NULL ||
        s->held == NULL || s->vouches == NULL || s->ranks == NULL || s->holders == NULL ||
        s->ahead == NULL) {
        step_close(s);
        return MU_ENOMEM;
    }
    return MU_OK;
}

void step_close(struct step *s)
{
    membership_close(s->group);
    membership_close(s->next);
    membership_close(s->around);
    saves_close(s);
    free(s->peers);
    free(s->held);
    free(s->vouches);
    free(s->ranks);
    free(s->holders);
    free(s->ahead);
    free(s->folders);
    free(s->scratch);
    memset(s, 0, sizeof(*s));
}

void step_reset(struct step *s, wid self)
{
    struct step old;

    saves_forget(s);
    membership_close(s->group);
    membership_close(s->next);
    membership_close(s->around);
    old = *s;
    memset(s, 0, sizeof(*s));
    s->config = old.config;
    s->config.self = self;
    s->me = s->next_me = NO_RANK;
    s->now_ms = old.now_ms;
    s->lease_ms = old.lease_ms;
    s->peers = old.peers;
    s->held = old.held;
    s->vouches = old.vouches;
    s->ranks = old.ranks;
    s->holders = old.holders;
    s->ahead = old.ahead;
    s->folders = old.folders;
    s->scratch = old.scratch;
    memcpy(s->saves, old.saves, sizeof(s->saves));
}

void say(struct step_effects *fx, enum step_effect_kind kind, uint64_t step)
{
    fx->emit(fx, &(struct step_effect){.kind = kind, .step = step});
}

bool is_done(const struct step *s)
{
    return s->config.steps_n != 0 && s->committed >= s->config.steps_n;
}

void step_end_at(struct step *s, uint64_t step)
{
    s->config.steps_n = step;
}

/* ---- computing ---- */

/* What of this worker's share is yet to be computed. */
static void find_todo(const struct step *s, struct slices *todo)
{
    plan_slices(&s->plan, s->me, todo);
    for (size_t i = 0; i < ARRAY_LEN(todo->bits); i++) {
        todo->bits[i] &= ~s->have.bits[i];
    }
}

static bool can_reduce(const struct step *s)
{
    struct slices todo;

    if (s->phase != STEP_COMPUTING || !s->applied || check_lacks(s) ||
        !RULE(KEPT_BEFORE_REDUCE, !save_lacks(s, SAVE_MEMORY))) {
        return false;
    }
    find_todo(s, &todo);
    return slices_next(&todo, 0) >= SLICES_MAX;
}

bool step_is_last(const struct step *s, uint32_t slice)
{
    struct slices todo;

    if (s->phase != STEP_COMPUTING || !s->applied || !s->there || !s->settled || check_lacks(s) ||
        !RULE(KEPT_BEFORE_REDUCE, !save_lacks(s, SAVE_MEMORY))) {
        return false;
    }
    find_todo(s, &todo);
    return slices_count(&todo) == 1 && slices_has(&todo, slice);
}

bool step_computed(struct step *s, uint64_t step, uint32_t slice, uint64_t generation,
                   uint64_t now_ms, struct step_effects *fx)
{
    const bool counts = !s->over && step == s->committed + 1 && s->entered != 0 &&
                        slice < s->config.slices_n && !slices_has(&s->have, slice) &&
                        (!s->config.keeps_none || generation == s->number);

    if (counts) {
        slices_add(&s->have, slice);
    }
    s->heard_ms = now_ms; /* It may begin to wait now. */
    step_event(s, &(struct step_event){.kind = STEP_ON_TICK, .now_ms = now_ms}, fx);
    return counts;
}

void drop_gradients(struct step *s, struct step_effects *fx)
{
    slices_clear(&s->have);
    say(fx, STEP_DROP, s->committed + 1);
}

void run_step(struct step *s, struct step_effects *fx)
{
    s->has_said = false;
    s->settled = true;
    if (is_done(s)) {
        s->phase = STEP_CLOSING;
        say(fx, STEP_REPORT, s->committed);
    } else {
        s->phase = (s->group->g.flags & GENERATION_HOLD) != 0 && !s->config.calls ? STEP_IDLE
                                                                                  : STEP_COMPUTING;
    }
    if (s->phase == STEP_IDLE || (s->config.calls && !s->confirmed)) {
        rounds_over(s); /* Nothing is committed there, or not yet: having settled is enough. */
    }
}

void begin_step(struct step *s, struct step_effects *fx)
{
    mu_assert(plan_init(&s->plan, s->config.slices_n, group_n(s)) == MU_OK);
    s->planned = true;
    run_step(s, fx);
}

/* All members could. If they wait for the orchestrator alone, they have been together since the
 * last break as if they had committed something: what broke before is mended. Else they would go on
 * to suspect each other, and nothing that is suspected becomes active. */
bool may_commit(struct step *s)
{
    if (RULE(ACTIVE_BEFORE_COMMIT, s->confirmed) && !step_orphaned(s)) {
        return true;
    }
    rounds_over(s);
    return false;
}

/* Members who commit by the READYs of all see the same wishes; whoever does so after a loss, by
 * SETTLE, sees none. */
static bool is_wanted(const struct step *s)
{
    for (uint32_t i = 0; i < group_n(s); i++) {
        if (s->peers[i].save_step == s->committed) {
            return true;
        }
    }
    return false;
}

void commit(struct step *s, bool settled, struct step_effects *fx)
{
    s->committed++;
    s->save = is_wanted(s);
    s->save_asked &= !s->save;
    s->applied = s->shown = s->config.calls;
    s->holds = false;
    vouch_clear(s);
    saves_commit(s);
    rounds_over(s);
    if (!MUTATED(GRADIENT_OF_STEP)) {
        slices_clear(&s->have);
    }
    fx->emit(fx,
             &(struct step_effect){
                 .kind = STEP_COMMIT, .step = s->committed, .save = s->save, .settled = settled});
}

/* ---- READY ---- */

static void say_ready(struct step *s, uint64_t step, struct step_effects *fx)
{
    struct peer *me = &s->peers[s->me];

    s->said = (struct msg_ready){.from = s->config.self, .step = step};
    s->said.newest = s->next != NULL && is_linked(s) ? s->next->g.number : s->number;
    s->said_in = s->term;
    s->has_said = true;
    s->heard_ms = s->now_ms;
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
    put_words(s, s->said.saved, &s->said.saved_n);
    fx->emit(fx,
             &(struct step_effect){.kind = STEP_SEND_READY, .term = s->term, .ready = &s->said});
}

uint32_t rank_of_frame(const struct step *s, const struct step_event *e, wid from)
{
    const uint32_t rank =
        step_fence(s, e->term, e->key) ? membership_rank(s->group, from) : NO_RANK;

    return rank == s->me ? NO_RANK : rank;
}

static void on_ready(struct step *s, const struct step_event *e)
{
    const struct msg_ready *m = e->u.ready;
    const uint32_t rank = rank_of_frame(s, e, m->from);
    struct peer *p;

    if (rank == NO_RANK) {
        return;
    }
    p = &s->peers[rank];
    s->heard_ms = s->now_ms;
    p->idle_ms = 0;
    on_words(s, rank, m->saved, m->saved_n);
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

    for (uint32_t i = 0; i < group_n(s); i++) {
        const struct peer *p = &s->peers[i];

        if (!p->ready || p->ready_step < step) {
            all = false;
        } else {
            minimum = MIN(minimum, p->ready_step == step ? p->ready_newest : s->number);
        }
    }
    *minimum_out = MUTATED(MINIMUM_RULE) ? s->said.newest : minimum;
    return RULE(READY_NEEDS_ALL, all);
}

static void ready_try(struct step *s, struct step_effects *fx)
{
    if (!s->there || !s->settled || s->has_said) {
        return;
    }
    if (s->phase == STEP_HELD && !digest_lacks(s) && !step_orphaned(s)) {
        say_ready(s, s->committed + 1, fx);
    } else if (s->phase == STEP_CLOSING && s->applied && !digest_lacks(s) &&
               !save_lacks(s, SAVE_DISK)) {
        say_ready(s, s->committed + 1, fx);
    } else if (s->phase == STEP_IDLE && s->applied && s->next != NULL && is_linked(s)) {
        /* A generation that holds computes nothing: its members are always at a boundary. */
        say_ready(s, s->committed, fx);
    }
}

static bool can_move_to(const struct step *s, uint64_t generation)
{
    return generation > s->number && s->next != NULL && s->next->g.number == generation;
}

static void commit_try(struct step *s, struct step_effects *fx)
{
    uint64_t minimum;

    if (!s->has_said) {
        return;
    }
    if (s->phase == STEP_HELD && all_ready(s, s->committed + 1, &minimum) &&
        !ready_differs(s, s->committed + 1, fx) && may_commit(s)) {
        agree_ready(s);
        commit(s, false, fx);
        if (can_move_to(s, minimum)) {
            move_on(s, fx);
        } else {
            begin_step(s, fx);
            say(fx, STEP_REPORT, s->committed);
        }
    } else if (s->phase == STEP_CLOSING && all_ready(s, s->committed + 1, &minimum) &&
               !ready_differs(s, s->committed + 1, fx)) {
        agree_ready(s);
        rounds_over(s);
        s->phase = STEP_FINISHED;
        s->fault = RULE(LAST_IS_SAVED, !is_unsaved(s)) ? FAULT_NONE : FAULT_UNSAVED;
        say(fx, STEP_REPORT, s->committed);
    } else if (s->phase == STEP_IDLE && all_ready(s, s->committed, &minimum) &&
               can_move_to(s, minimum)) {
        drop_gradients(s, fx); /* Of a step that a loss cut short: the plan knows of none. */
        move_on(s, fx);
    }
}

/* ---- what the driver has done ---- */

static void on_reduced(struct step *s, const struct step_event *e)
{
    if (e->term == s->term && s->there && s->settled && e->step == s->committed + 1 &&
        (s->config.calls ? s->phase == STEP_COMPUTING : can_reduce(s))) {
        s->holds = true;
        s->held_in = s->term;
        s->phase = s->config.calls ? s->phase : STEP_HELD;
    }
}

/* Nobody makes such a call in a generation that it does not know to be active. */
static void on_agreed(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    on_reduced(s, e);
    if (s->config.calls && s->holds && s->held_in == e->term && e->step == s->committed + 1) {
        commit(s, false, fx);
    }
}

static void on_shown(struct step *s, const struct step_event *e)
{
    s->shown |= e->step == s->committed && !s->applied;
}

static void on_applied(struct step *s, const struct step_event *e)
{
    s->applied |= e->step == s->committed;
}

static void on_lease(struct step *s, const struct step_event *e)
{
    if (step_orphaned(s)) {
        s->heard_ms = s->now_ms; /* Others may have paused, too: they get time to say READY. */
    }
    s->lease_ms = MAX(s->lease_ms, e->time_ms);
}

static void on_regroup(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    if (s->next != NULL && s->config.calls && s->phase != STEP_PARKED) {
        move_on(s, fx);
    }
}

static void on_save(struct step *s, const struct step_event *e)
{
    s->save_asked = true;
}

static void on_nudged(struct step *s, const struct step_event *e)
{
    s->heard_ms = s->now_ms;
}

/* ---- events ---- */

/* Each looks itself whether what it is told is of the term that this worker is in. */
static const struct {
    void (*act)(struct step *s, const struct step_event *e, struct step_effects *fx);
    void (*note)(struct step *s, const struct step_event *e); /* without effects of its own */
} EVENTS[] = {
    [STEP_ON_GENERATION] = {.act = on_generation},
    [STEP_ON_ACTIVE] = {.act = on_active},
    [STEP_ON_LEASE] = {.note = on_lease},
    [STEP_ON_LINKS] = {.note = on_links},
    [STEP_ON_MOVED] = {.act = on_moved},
    [STEP_ON_CLAIM] = {.act = on_claim},
    [STEP_ON_BROKEN] = {.note = on_broken},
    [STEP_ON_BASE] = {.act = on_base},
    [STEP_ON_STREAMED] = {.act = on_streamed},
    [STEP_ON_CHECKED] = {.note = on_checked},
    [STEP_ON_DIGEST] = {.note = on_digest},
    [STEP_ON_REDUCED] = {.note = on_reduced},
    [STEP_ON_AGREED] = {.act = on_agreed},
    [STEP_ON_REGROUP] = {.act = on_regroup},
    [STEP_ON_SHOWN] = {.note = on_shown},
    [STEP_ON_APPLIED] = {.note = on_applied},
    [STEP_ON_READY] = {.note = on_ready},
    [STEP_ON_SETTLE] = {.note = on_settle},
    [STEP_ON_CUT] = {.note = on_cut},
    [STEP_ON_SAVED] = {.note = on_saved},
    [STEP_ON_SAVE] = {.note = on_save},
    [STEP_ON_NUDGED] = {.note = on_nudged},
    [STEP_ON_TICK] = {.note = NULL},
};

void step_event(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    s->now_ms = MAX(s->now_ms, e->now_ms);
    if (s->over && e->kind == STEP_ON_SAVED) {
        on_saved(s, e); /* What it was writing in this life. */
    }
    if (s->over) {
        return;
    }
    if (EVENTS[e->kind].act != NULL) {
        EVENTS[e->kind].act(s, e, fx);
    } else if (EVENTS[e->kind].note != NULL) {
        EVENTS[e->kind].note(s, e);
    }
    if (!s->settled) {
        words_try(s, fx); /* Others may need them to settle, too. */
    }
    settle_try(s, fx);
    save_try(s, fx);
    ready_try(s, fx);
    commit_try(s, fx);
    words_try(s, fx);
    silence_try(s);
    apart_try(s, fx);
}

/* ---- what is next ---- */

/* Nobody joins, and nobody was lost: the others are needed when the slices are there, not before.
 * Whoever is slower with its update then holds up nobody. */
static bool can_compute_first(const struct step *s)
{
    return !s->there && s->settled && term_round(s->term) == 0 &&
           s->group->g.kind == GENERATION_BOUNDARY && s->phase == STEP_COMPUTING &&
           !membership_has_newcomers(s->group);
}

/* A slice for the caller, if one is left. */
static bool next_slice(const struct step *s, struct step_todo *todo)
{
    const uint32_t check = step_check_slice(s->committed + 1, s->config.slices_n);
    const bool lacks = check_lacks(s);
    struct slices mine;

    find_todo(s, &mine);
    todo->slice = slices_next(&mine, 0);
    if (todo->slice < SLICES_MAX) {
        todo->hash = lacks && todo->slice == check;
    } else if (lacks) {
        todo->slice = check;
        todo->hash = todo->alone = true;
    } else {
        return false;
    }
    todo->what = STEP_GIVE;
    todo->step = s->committed + 1;
    return true;
}

static bool must_stream(const struct step *s)
{
    bool lacks = false, holds = false;

    for (uint32_t i = 0; i < group_n(s) && !s->streamed; i++) {
        lacks |= s->peers[i].lacks;
        holds |= !s->peers[i].lacks;
    }
    return lacks && holds;
}

/* In its term, with everybody there. */
static enum step_do next_together(const struct step *s)
{
    if (!s->settled || s->phase == STEP_PARKED) {
        return STEP_HEAR;
    }
    if (s->phase == STEP_STOPPED) {
        return STEP_STOP;
    }
    if (s->config.calls) {
        return STEP_OPEN;
    }
    if (must_stream(s)) {
        return STEP_STREAM;
    }
    if (s->phase == STEP_LOADING) {
        return s->based ? STEP_HEAR : STEP_BASE;
    }
    if (s->phase == STEP_FINISHED) {
        return STEP_FINISH;
    }
    return can_reduce(s) ? STEP_REDUCE : STEP_HEAR;
}

void step_next(const struct step *s, struct step_todo *todo)
{
    *todo = (struct step_todo){
        .what = STEP_WAIT, .due_ms = apart_due_ms(s), .term = s->term, .step = s->committed};
    if (s->over) {
        todo->what = STEP_FORGET;
        return;
    }
    if (s->committed > 0 && !s->applied && !s->shown) {
        todo->what = STEP_SHOW;
        return;
    }
    if (!in_rounds(s) || save_next(s, todo)) {
        return;
    }
    if (!s->there && !can_compute_first(s)) {
        todo->what = STEP_MOVE;
        return;
    }
    if (s->there) {
        todo->what = next_together(s);
    }
    if (todo->what == STEP_STREAM || todo->what == STEP_BASE || todo->what == STEP_OPEN ||
        !s->settled) {
        return;
    }
    if (s->applied && digest_lacks(s) && s->phase != STEP_PARKED && s->phase != STEP_STOPPED) {
        todo->what = STEP_DIGEST;
    } else if (s->phase == STEP_COMPUTING && s->applied && next_slice(s, todo)) {
        return;
    } else if (!s->there) {
        todo->what = STEP_MOVE;
    }
    todo->step = todo->what == STEP_REDUCE ? s->committed + 1 : s->committed;
}

/* ---- what others may know ---- */

/* A connection that was proved in an earlier term stays open: then the number alone tells. */
bool step_fence(const struct step *s, uint64_t term, const uint8_t *key)
{
    if (!in_rounds(s)) {
        return false;
    }
    if (term_generation(term) != s->number) {
        return MUTATED(GENERATION_FENCE);
    }
    return RULE(ROUND_FENCE, term == s->term) &&
           RULE(KEY_FENCE, memcmp(key, s->group->g.key, KEY_BYTES) == 0);
}

bool step_orphaned(const struct step *s)
{
    return !RULE(ORPHAN_PAUSES, s->now_ms - s->lease_ms <= s->config.orphan_ms);
}

enum step_phase step_phase(const struct step *s)
{
    return s->phase;
}

wid step_self(const struct step *s)
{
    return s->config.self;
}

uint64_t step_committed(const struct step *s)
{
    return s->committed;
}

uint64_t step_steps_n(const struct step *s)
{
    return s->config.steps_n;
}

uint64_t step_entered(const struct step *s)
{
    return s->entered;
}

uint64_t step_term(const struct step *s)
{
    return s->term;
}

bool step_there(const struct step *s)
{
    return s->there;
}

struct membership *step_group(const struct step *s)
{
    return s->group;
}

uint32_t step_rank(const struct step *s)
{
    return s->me;
}

uint32_t step_size(const struct step *s)
{
    return group_n(s);
}

const struct plan *step_plan(const struct step *s)
{
    return &s->plan;
}

const uint8_t *step_holders(const struct step *s)
{
    for (uint32_t i = 0; i < group_n(s); i++) {
        s->holders[i] = !s->peers[i].lacks;
    }
    return s->holders;
}

bool step_holds(const struct step *s)
{
    return s->holds;
}

bool step_applied(const struct step *s)
{
    return s->applied;
}

bool step_is_shown(const struct step *s)
{
    return s->shown && !s->applied;
}

bool step_is_again(const struct step *s)
{
    return s->committed + 1 == s->first &&
           (s->group->g.kind == GENERATION_FAILURE || term_round(s->term) > 0);
}

bool step_diverged(const struct step *s)
{
    return s->diverged;
}

uint64_t step_newest(const struct step *s)
{
    return MAX(s->number, s->next != NULL ? s->next->g.number : 0);
}

bool step_confirmed(const struct step *s)
{
    return s->confirmed;
}

uint64_t step_lease_ms(const struct step *s)
{
    return s->lease_ms;
}
