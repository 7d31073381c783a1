/* Which generation a worker is in: entering, moving on at a boundary, being left out. */
#include "core/mutation.h"
#include "core/step_state.h"

#include <stdlib.h>
#include <string.h>

int group_init(struct group *g, uint32_t members_max)
{
    memset(g, 0, sizeof(*g));
    g->ids = calloc(members_max, sizeof(*g->ids));
    g->caught_up = calloc(members_max, sizeof(*g->caught_up));
    return g->ids != NULL && g->caught_up != NULL ? MU_OK : MU_ENOMEM;
}

void group_close(struct group *g)
{
    free(g->ids);
    free(g->caught_up);
    memset(g, 0, sizeof(*g));
}

void group_take(struct group *g, const struct generation *from, wid self)
{
    g->number = from->number;
    g->from = from->from;
    g->base_step = from->base_step;
    g->kind = from->kind;
    g->flags = from->flags;
    memcpy(g->key, from->key, sizeof(g->key));
    g->n = from->members_n;
    g->me = NO_RANK;
    g->newcomers = false;
    for (uint32_t i = 0; i < g->n; i++) {
        g->ids[i] = from->members[i].worker;
        g->caught_up[i] = (from->members[i].flags & MEMBER_CAUGHT_UP) != 0;
        g->newcomers |= g->caught_up[i] == 0;
        g->me = g->ids[i] == self ? i : g->me;
    }
}

void group_swap(struct group *a, struct group *b)
{
    struct group t = *a;

    *a = *b;
    *b = t;
}

uint32_t group_rank(const struct group *g, wid id)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->ids[i] == id) {
            return i;
        }
    }
    return NO_RANK;
}

/* Makes `next` the group it acts in. What it said in the one before is kept: the others there may
 * have missed it. */
static void enter(struct step *s, struct step_effects *fx)
{
    group_swap(&s->previous, &s->group);
    group_swap(&s->group, &s->next);
    s->next.number = 0;
    s->said_before = s->said;
    s->had_said = s->has_said;
    s->linked = s->confirmed = s->has_said = s->moved = false;
    s->computing = false;
    s->first = s->committed + 1;
    memset(s->peers, 0, s->group.n * sizeof(*s->peers));
    if (s->reducing) {
        s->reducing = false;
        say(fx, STEP_CANCEL, 0);
    }
}

static void forget(struct step *s, struct step_effects *fx)
{
    s->phase = STEP_OUT;
    s->entered = 0;
    s->confirmed = s->holds = false;
    s->over = true;
    say(fx, STEP_FORGET, 0);
}

/* It was never caught up in an active generation: nothing is lost, it is warm as before. */
static void back_out(struct step *s, const struct generation *g, struct step_effects *fx)
{
    bool was = s->phase != STEP_OUT;

    s->next.number = g->number; /* nothing older may take it in again */
    enter(s, fx);
    s->next.number = 0;
    s->group.n = 0;
    s->group.me = NO_RANK;
    s->phase = STEP_OUT;
    s->entered = 0;
    s->committed = s->agreed = 0;
    s->holds = s->diverged = s->saved = false;
    vouch_clear(s);
    if (was) {
        say(fx, STEP_REPORT, 0);
    }
}

static void enter_newcomer(struct step *s, struct step_effects *fx)
{
    enter(s, fx);
    s->phase = STEP_LOADING;
    s->entered = 0;
    s->committed = s->agreed = 0;
    s->holds = s->diverged = s->saved = false;
    vouch_clear(s);
    slices_clear(&s->have);
    if (s->group.kind == GENERATION_FRESH && s->group.me == 0) {
        say(fx, STEP_BASE, s->group.base_step);
    }
    if (MUTATED(CAUGHT_UP_BEFORE_ENTER)) {
        s->entered = s->group.number;
    }
    say(fx, STEP_REPORT, 0);
}

static void enter_failure(struct step *s, struct step_effects *fx)
{
    enter(s, fx);
    s->entered = s->group.number;
    if (s->config.keeps_none) {
        slices_clear(&s->have);
    }
    settle_begin(s, fx);
    say(fx, STEP_REPORT, 0);
}

/* Planned: kept for the boundary, entered when every member of this one is ready to. */
static void plan_ahead(struct step *s, struct step_effects *fx)
{
    s->confirmed = true; /* Nothing is planned on a generation that is not active. */
    s->linked = s->next.me == NO_RANK || !s->next.newcomers;
    if (!s->linked) {
        say(fx, STEP_LINK, 0);
    }
}

static bool in_lineage(const struct step *s)
{
    return s->entered != 0 && (s->confirmed || s->group.caught_up[s->group.me] != 0);
}

void on_generation(struct step *s, const struct generation *g, struct step_effects *fx)
{
    bool acting = s->entered != 0 && s->phase != STEP_PARKED;

    if (!RULE(STALE_GENERATION, g->number > s->group.number && g->number > s->next.number) ||
        g->members_n > s->config.members_max || g->number == s->group.number) {
        return;
    }
    if (s->entered != 0 && g->from > s->entered) {
        forget(s, fx); /* One without it has been active since. */
        return;
    }
    if (s->entered != 0 && g->from == s->entered) {
        s->confirmed = true;
    }
    group_take(&s->next, g, s->config.self);
    if (acting && g->kind == GENERATION_BOUNDARY && g->from == s->group.number) {
        plan_ahead(s, fx);
    } else if (s->next.me != NO_RANK && g->kind == GENERATION_FAILURE) {
        mu_assert(s->entered != 0);
        enter_failure(s, fx);
    } else if (s->next.me != NO_RANK && !s->next.caught_up[s->next.me]) {
        mu_assert(!in_lineage(s) || g->kind == GENERATION_FRESH);
        enter_newcomer(s, fx);
    } else if (in_lineage(s)) {
        s->phase = STEP_PARKED;
    } else {
        back_out(s, g, fx);
    }
}

void on_active(struct step *s, uint64_t generation, struct step_effects *fx)
{
    if (s->entered == 0) {
        return;
    }
    if (s->entered == generation) {
        s->confirmed = true;
    } else if (s->entered < generation && s->phase != STEP_OUT) {
        forget(s, fx);
    }
}

/* A newcomer has the state: from here on it counts. */
void on_loaded(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    if (s->phase != STEP_LOADING || !RULE(GENERATION_FENCE, e->generation == s->group.number)) {
        return;
    }
    s->committed = e->step;
    s->first = e->step + 1;
    s->applied = true;
    s->entered = s->group.number;
    if ((s->group.flags & GENERATION_HEALS) != 0) {
        s->agreed = e->step; /* That is why it starts from this one. */
    }
    digest_ask(s, fx);
    if (s->group.kind == GENERATION_FRESH && s->group.me == 0) {
        say(fx, STEP_STREAM, s->committed);
    }
    begin_step(s, fx);
    say(fx, STEP_REPORT, s->committed);
}

/* The boundary: everyone who was ready moves to the same generation. */
void move_on(struct step *s, struct step_effects *fx)
{
    if (s->next.me == NO_RANK) {
        s->phase = STEP_PARKED;
        if (MUTATED(LEAVER_WAITS)) {
            forget(s, fx);
        }
        return;
    }
    enter(s, fx);
    s->entered = s->group.number;
    if (s->group.newcomers && s->applied) {
        say(fx, STEP_STREAM, s->committed);
    }
    begin_step(s, fx);
    say(fx, STEP_REPORT, s->committed);
}
