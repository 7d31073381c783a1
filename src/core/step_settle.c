/* After a loss: what the survivors agree on before they go on.
 *
 * Each says how it stood when it entered: its last committed step c, and whether it holds the
 * result of c + 1. Whoever is one behind holds the newer result (it said READY for it) and commits
 * it now. If all stand at c and all hold c + 1, some dead member may have committed it, so it is
 * committed. Otherwise nobody, living or dead, can have: results are dropped, gradients are kept.
 *
 * Each also vouches for its state as in READY, so what all hold is not committed past a difference
 * among the living. */
#include "core/mutation.h"
#include "core/step_state.h"

#include <string.h>

static void snapshot_take(struct step *s)
{
    struct msg_settle *m = &s->snapshot;

    m->from = s->config.self;
    m->step = s->committed;
    m->held = s->holds && !digest_lacks(s); /* Without one it has not said READY: nobody can have
                                               committed it, and it is compared when it is done. */
    m->diverged = s->diverged;
    memcpy(m->digest, s->vouch.digest, HASH_BYTES);
    memcpy(m->check, s->vouch.check, HASH_BYTES);
    for (uint32_t i = 0; i < sizeof(m->slices); i++) {
        m->slices[i] = (uint8_t)(s->have.bits[i / 8] >> (i % 8 * 8));
    }
}

static void slices_read(struct slices *out, const uint8_t *bytes)
{
    slices_clear(out);
    for (uint32_t i = 0; i < SLICES_MAX / 8; i++) {
        out->bits[i / 8] |= (uint64_t)bytes[i] << (i % 8 * 8);
    }
}

static void note_settle(struct step *s, uint32_t rank, const struct msg_settle *m)
{
    struct peer *p = &s->peers[rank];

    p->settled = true;
    p->settle_step = m->step;
    p->settle_held = m->held != 0;
    p->settle_diverged = m->diverged != 0;
    memcpy(p->settle_vouch.digest, m->digest, HASH_BYTES);
    memcpy(p->settle_vouch.check, m->check, HASH_BYTES);
    slices_read(&p->settle_slices, m->slices);
}

void settle_begin(struct step *s, struct step_effects *fx)
{
    struct step_effect e = {.kind = STEP_SEND_SETTLE, .group = &s->group, .settle = &s->snapshot};

    snapshot_take(s);
    s->phase = STEP_SETTLING;
    note_settle(s, s->group.me, &s->snapshot);
    fx->emit(fx, &e);
    settle_try(s, fx);
}

void on_settle(struct step *s, const struct step_event *e)
{
    uint32_t rank = group_rank(&s->group, e->u.settle->from);

    if (rank != NO_RANK && rank != s->group.me && !s->peers[rank].settled) {
        note_settle(s, rank, e->u.settle);
    }
}

/* The gradients that are there stay where they are; the rest is shared out anew. */
static void regroup(struct step *s, uint64_t newest)
{
    for (uint32_t i = 0; i < s->group.n; i++) {
        slices_clear(&s->held[i]);
        if (s->peers[i].settle_step == newest) {
            s->held[i] = s->peers[i].settle_slices;
        }
    }
    mu_assert(plan_regroup(&s->plan, s->config.slices_n, s->group.n, s->held) == MU_OK);
}

void settle_try(struct step *s, struct step_effects *fx)
{
    uint64_t newest = 0;
    bool all_hold = true, any_behind = false;

    if (s->phase != STEP_SETTLING) {
        return;
    }
    for (uint32_t i = 0; i < s->group.n; i++) {
        if (!s->peers[i].settled) {
            return;
        }
        newest = MAX(newest, s->peers[i].settle_step);
    }
    for (uint32_t i = 0; i < s->group.n; i++) {
        any_behind |= s->peers[i].settle_step != newest;
        all_hold &= s->peers[i].settle_held;
    }
    if (s->committed + 1 == newest && !MUTATED(SETTLE_LAGGARD)) {
        mu_assert(s->holds);
        commit(s, fx);
    }
    if (settle_differs(s, newest, fx)) {
        return;
    }
    if (!any_behind && s->holds && RULE(SETTLE_ALL_HOLD, all_hold)) {
        if (!RULE(ACTIVE_BEFORE_COMMIT, s->confirmed) || step_orphaned(s)) {
            return; /* Whoever was left out might yet be needed: not before this one is active. */
        }
        agree_settle(s);
        commit(s, fx);
        begin_step(s, fx);
        return;
    }
    s->holds = false;
    regroup(s, newest);
    run_step(s, fx);
}
