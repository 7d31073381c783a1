/* Which generation a worker is in: entering, moving on at a boundary, being left out. */
#include "core/step_state.h"

#include <string.h>

/* Makes m the group it acts in, in round 0. */
static void enter(struct step *s, struct membership *m)
{
    membership_keep(m);
    saves_enter(s, m);
    membership_close(s->group);
    membership_close(s->next);
    membership_close(s->around);
    s->group = m;
    s->next = s->around = NULL;
    s->me = membership_rank(m, s->config.self);
    s->number = m->g.number;
    s->term = term_make(s->number, 0);
    s->rounds_n = 0;
    s->left = 0;
    s->confirmed = s->has_said = s->there = s->streamed = s->planned = false;
    s->kept_n = 0;
    s->settled = m->g.kind != GENERATION_FAILURE && !s->config.calls;
    s->based = m->g.kind != GENERATION_FRESH || s->config.calls;
    s->first = s->committed + 1;
    s->heard_ms = s->now_ms;
    memset(s->peers, 0, m->g.members_n * sizeof(*s->peers));
    for (uint32_t i = 0; i < m->g.members_n; i++) {
        s->peers[i].lacks = !is_caught_up(m, i);
    }
}

static void forget(struct step *s, struct step_effects *fx)
{
    s->phase = STEP_OUT;
    s->entered = 0;
    s->confirmed = s->holds = false;
    s->over = true;
    say(fx, STEP_REPORT, 0);
}

/* What it knew of a state, it knows no more. */
static void forget_state(struct step *s, struct step_effects *fx)
{
    s->entered = 0;
    s->committed = s->agreed = 0;
    s->holds = s->diverged = s->save = false;
    s->fault = FAULT_NONE;
    s->odd = 0;
    s->applied = s->shown = false;
    vouch_clear(s);
    saves_forget(s);
    drop_gradients(s, fx);
}

/* It was never caught up in an active generation: nothing is lost, it is warm as before. Whom it
 * could not reach there it goes on to name until it has reached them: else the same pair would be
 * tried again and again. */
static void back_out(struct step *s, struct membership *m, struct step_effects *fx)
{
    bool was = s->phase != STEP_OUT;

    if (was) {
        apart_keep(s);
    }
    membership_keep(m);
    membership_close(s->group);
    membership_close(s->next);
    membership_close(s->around);
    s->group = s->next = NULL;
    s->around = m;
    s->me = NO_RANK;
    s->number = m->g.number; /* Nothing older may take it in again. */
    s->term = term_make(s->number, 0);
    s->phase = STEP_OUT;
    s->there = s->confirmed = s->has_said = false;
    forget_state(s, fx);
    if (was) {
        say(fx, STEP_REPORT, 0);
    }
}

static void enter_newcomer(struct step *s, struct membership *m, struct step_effects *fx)
{
    enter(s, m);
    s->phase = STEP_LOADING;
    forget_state(s, fx);
    if (MUTATED(CAUGHT_UP_BEFORE_ENTER)) {
        s->entered = s->number;
    }
    say(fx, STEP_REPORT, 0);
}

static void enter_failure(struct step *s, struct membership *m, struct step_effects *fx)
{
    enter(s, m);
    s->entered = s->number;
    if (s->config.keeps_none) {
        drop_gradients(s, fx);
    }
    s->phase = STEP_SETTLING;
    say(fx, STEP_REPORT, 0);
}

/* Planned: kept for the boundary, entered when every member of this one is ready to. */
static void plan_ahead(struct step *s, struct membership *m)
{
    membership_close(s->next);
    s->next = membership_keep(m);
    s->next_me = membership_rank(m, s->config.self);
    s->links_known = false;
    memset(s->ahead, 0, m->g.members_n * sizeof(*s->ahead));
    s->confirmed = true; /* Nothing is planned on a generation that is not active. */
}

static bool in_lineage(const struct step *s)
{
    return s->entered != 0 && (s->confirmed || is_caught_up(s->group, s->me));
}

void on_generation(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    struct membership *m = e->u.membership;
    const struct generation *g = &m->g;
    const uint64_t newest = step_newest(s);
    const uint32_t me = membership_rank(m, s->config.self);
    bool acting = s->entered != 0 && s->phase != STEP_PARKED;

    if (!RULE(STALE_GENERATION, g->number > newest) || g->members_n > s->config.members_max ||
        g->number == s->number) {
        return;
    }
    if (s->entered != 0 && g->from > s->entered) {
        forget(s, fx); /* One without it has been active since. */
        return;
    }
    if (s->entered != 0 && g->from == s->entered) {
        s->confirmed = true;
    }
    if (acting && g->kind == GENERATION_BOUNDARY && g->from == s->number) {
        plan_ahead(s, m);
    } else if (me != NO_RANK && g->kind == GENERATION_FAILURE && s->entered != 0) {
        enter_failure(s, m, fx);
    } else if (me != NO_RANK && (!is_caught_up(m, me) || (s->config.calls && s->entered == 0))) {
        enter_newcomer(s, m, fx); /* One that makes its first call knows of none before. */
    } else if (in_lineage(s)) {
        s->phase = STEP_PARKED;
        s->left = 0;
    } else {
        back_out(s, m, fx);
    }
}

void on_active(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    if (s->entered == 0) {
        return;
    }
    if (s->entered == e->generation) {
        s->confirmed = true;
    } else if (s->entered < e->generation && s->phase != STEP_OUT) {
        forget(s, fx);
    }
}

/* A newcomer has the state: from here on it counts. */
void load(struct step *s, uint64_t step, struct step_effects *fx)
{
    s->committed = step;
    s->first = step + 1;
    s->shown = s->applied = true;
    s->entered = s->number;
    s->peers[s->me].lacks = false;
    saves_load(s);
    if ((s->group->g.flags & GENERATION_HEALS) != 0) {
        s->agreed = step; /* That is why it starts from this one. */
    }
    if (s->planned) { /* Those who had the state made the plan when all settled. */
        run_step(s, fx);
    } else {
        begin_step(s, fx);
    }
    say(fx, STEP_REPORT, s->committed);
}

/* What a fresh generation starts from is agreed on, and those who could have read it. */
void on_base(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    if (e->term != s->term || s->phase != STEP_LOADING || s->based || !s->there) {
        return;
    }
    s->based = true;
    for (uint32_t i = 0; i < group_n(s); i++) {
        s->peers[i].lacks = e->u.holds[i] == 0;
    }
    if (!s->peers[s->me].lacks) {
        load(s, e->step, fx);
    }
}

/* Those who gave it go on; whoever has got it counts from now on. */
void on_streamed(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    if (!RULE(GENERATION_FENCE, e->term == s->term) || s->group == NULL || s->streamed) {
        return;
    }
    s->streamed = true;
    for (uint32_t i = 0; i < group_n(s); i++) {
        s->peers[i].lacks = false;
    }
    if (s->phase == STEP_LOADING) {
        load(s, e->step, fx);
    }
}

/* The boundary: everyone who was ready moves to the same generation. */
void move_on(struct step *s, struct step_effects *fx)
{
    if (s->next_me == NO_RANK) {
        s->phase = STEP_PARKED;
        s->left = s->next->g.number;
        if (s->config.calls) {
            leave_calls(s);
        }
        if (MUTATED(LEAVER_WAITS)) {
            forget(s, fx);
        }
        return;
    }
    enter(s, s->next);
    s->entered = s->committed_in = s->number; /* All who stay move after the same step. */
    if (s->config.calls) {
        s->phase = STEP_SETTLING;
    } else {
        begin_step(s, fx);
    }
    say(fx, STEP_REPORT, s->committed);
}
