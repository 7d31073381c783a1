/* After a loss, or a break: what the members agree on before they go on.
 *
 * Each says once, when it is in the term with all the others, how it stands: its last committed
 * step c, whether it holds the result of c + 1, and which term's members made that. Whoever is one
 * behind holds the newer result (it said READY for it) and commits it now. If all stand at c and
 * all hold the same result of c + 1, some dead member may have committed it, so it is committed.
 * Otherwise nobody, living or dead, can have: results are dropped, gradients are kept.
 *
 * Those who have no state yet say that; they are given it again by those who have.
 *
 * Each also vouches for its state as in READY, so what all hold is not committed past a difference
 * among the living. */
#include "core/step_state.h"

#include <string.h>

void say_settle(struct step *s, struct step_effects *fx)
{
    struct peer *me = &s->peers[s->me];
    struct msg_settle *m = &me->settle;

    me->settled = true;
    *m = (struct msg_settle){.from = s->config.self, .step = s->committed};
    /* Without a digest that is due it has not said READY: nobody can have committed the result, and
     * it is compared when it is done. */
    m->held = s->holds && !digest_lacks(s);
    m->held_in = m->held ? s->held_in : 0;
    m->diverged = s->diverged;
    m->moved = s->phase == STEP_PARKED ? s->left : 0;
    m->lacks = s->phase == STEP_LOADING;
    put_words(s, m->saved, &m->saved_n);
    memcpy(m->digest, s->vouch.digest, HASH_BYTES);
    memcpy(m->check, s->vouch.check, HASH_BYTES);
    for (uint32_t i = 0; i < sizeof(m->slices); i++) {
        m->slices[i] = (uint8_t)(s->have.bits[i / 8] >> (i % 8 * 8));
    }
    fx->emit(fx, &(struct step_effect){.kind = STEP_SEND_SETTLE, .term = s->term, .settle = m});
}

static void slices_read(struct slices *out, const uint8_t *bytes)
{
    slices_clear(out);
    for (uint32_t i = 0; i < SLICES_MAX / 8; i++) {
        out->bits[i / 8] |= (uint64_t)bytes[i] << (i % 8 * 8);
    }
}

void on_settle(struct step *s, const struct step_event *e)
{
    const uint32_t rank = rank_of_frame(s, e, e->u.settle->from);

    if (rank != NO_RANK && !s->peers[rank].settled) {
        s->peers[rank].settled = true;
        s->peers[rank].settle = *e->u.settle;
        on_words(s, rank, e->u.settle->saved, e->u.settle->saved_n);
        s->heard_ms = s->now_ms;
        s->peers[rank].idle_ms = 0;
    }
}

/* How all of them stand together. */
struct standing {
    uint64_t newest; /* the last step that one of them has committed */
    uint64_t moved;  /* a leaver has gone at the boundary before this generation; 0 */
    uint32_t lacks_n;
    bool any_behind;
    bool all_hold; /* the same result of newest + 1 */
    bool absurd;   /* one is behind and does not hold what it lacks: nobody can have committed it */
};

static bool find_standing(const struct step *s, struct standing *out)
{
    uint64_t held_in = 0;

    *out = (struct standing){.all_hold = true};
    for (uint32_t i = 0; i < group_n(s); i++) {
        const struct msg_settle *m = &s->peers[i].settle;

        if (!s->peers[i].settled) {
            return false;
        }
        out->lacks_n += m->lacks != 0;
        out->newest = MAX(out->newest, m->lacks ? 0 : m->step);
        out->moved = MAX(out->moved, m->moved);
    }
    for (uint32_t i = 0; i < group_n(s); i++) {
        const struct msg_settle *m = &s->peers[i].settle;

        if (m->lacks == 0) {
            out->any_behind |= m->step != out->newest;
            out->absurd |= m->step + (m->held != 0) < out->newest;
            out->all_hold &= m->held != 0;
            held_in = held_in == 0 ? m->held_in : held_in;
            out->all_hold &= RULE(HELD_BY_TERM, m->held_in == held_in);
        }
    }
    return true;
}

/* The gradients that are there stay where they are; the rest is shared out anew. If they depend on
 * the group, they do on the plan, too: then it is the same in all rounds. */
static void regroup(struct step *s, uint64_t newest)
{
    s->planned = true;
    if (s->config.keeps_none) {
        mu_assert(plan_init(&s->plan, s->config.slices_n, group_n(s)) == MU_OK);
        return;
    }
    for (uint32_t i = 0; i < group_n(s); i++) {
        slices_clear(&s->held[i]);
        if (s->peers[i].settle.step == newest && !s->peers[i].settle.lacks) {
            slices_read(&s->held[i], s->peers[i].settle.slices);
        }
    }
    mu_assert(plan_regroup(&s->plan, s->config.slices_n, group_n(s), s->held) == MU_OK);
}

static void note_lacking(struct step *s, const struct standing *all)
{
    for (uint32_t i = 0; i < group_n(s); i++) {
        s->peers[i].lacks = s->peers[i].settle.lacks != 0;
    }
    s->based = all->lacks_n < group_n(s) || s->group->g.kind != GENERATION_FRESH;
}

/* One that has the state: what becomes of the result that it holds. False: that can't be told yet,
 * or it has stopped. */
static bool settle_result(struct step *s, const struct standing *all, struct step_effects *fx)
{
    if (all->absurd) {
        stop_told(s, fx); /* All who hear it do. */
        return false;
    }
    if (s->committed + 1 == all->newest && !MUTATED(SETTLE_LAGGARD)) {
        commit(s, true, fx);
    }
    if (settle_differs(s, all->newest, fx)) {
        return false;
    }
    if (!all->any_behind && s->holds && RULE(SETTLE_ALL_HOLD, all->all_hold)) {
        if (!may_commit(s) || !is_kept(s)) {
            return false; /* Whoever was left out might yet be needed: not before it is active. */
        }
        agree_settle(s);
        commit(s, true, fx);
        mu_assert(plan_init(&s->plan, s->config.slices_n, group_n(s)) == MU_OK);
        s->planned = true;
        return true;
    }
    s->holds = false;
    regroup(s, all->newest);
    return true;
}

void settle_try(struct step *s, struct step_effects *fx)
{
    struct standing all;

    if (!in_rounds(s) || s->settled || !s->there || s->phase == STEP_PARKED ||
        !find_standing(s, &all)) {
        return;
    }
    if (s->phase == STEP_LOADING && s->config.calls) {
        load(s, all.newest + (!all.any_behind && all.all_hold && all.lacks_n < group_n(s)), fx);
        return;
    }
    if (s->phase == STEP_LOADING) {
        s->committed = all.newest; /* What they differ in is the step after this one. */
        const bool differs = settle_differs(s, all.newest, fx);

        s->committed = 0;
        if (differs) {
            return; /* Those who have a state have stopped: nobody will give it. */
        }
        note_lacking(s, &all);
        if (s->based) { /* Nobody holds a result while one of them lacks the state. */
            regroup(s, all.newest);
        }
        s->settled = true;
        return;
    }
    if (all.moved != 0 && (s->next == NULL || s->next->g.number != all.moved)) {
        return; /* What the leaver knows of, this one will be told. */
    }
    if (!settle_result(s, &all, fx)) {
        return;
    }
    if (!s->config.calls) {
        note_lacking(s, &all);
    }
    if (all.moved != 0 && !MUTATED(LEAVER_ANSWERS)) {
        s->confirmed = true;
        drop_gradients(s, fx);
        s->settled = true;
        move_on(s, fx);
    } else {
        run_step(s, fx);
    }
}
