/* Are the members the same? Each vouches for its state, at intervals, and for a slice that others
 * compute as well, now and then; who differs is found before anything is committed.
 *
 * A step is committed by READYs only if those of all its members agree; all see the same ones, so
 * all commit or all stop. After a loss the living are compared by what they settle with. What is
 * not found:
 * - a difference from a member that died before the others had its word. If its result counts its
 *   gradients are in it; its state is nobody's any more.
 * - a difference that began after the last digest: the next one finds it. States don't grow the
 * same again by themselves.
 * - a newcomer's gradients, if its generation computes nothing, or loses somebody in its first
 * step.
 * - anything in a group of one.
 * A member that has stopped says so when it settles, so that a loss does not set the others going
 * again. Only a fresh generation, from a checkpoint, does. */
#include "base/prng.h"
#include "core/step_state.h"

#include <string.h>

#define NO_SLICE UINT32_MAX

static bool is_zero(const uint8_t *hash)
{
    static const uint8_t zero[HASH_BYTES];

    return memcmp(hash, zero, HASH_BYTES) == 0;
}

void vouch_clear(struct step *s)
{
    memset(&s->vouch, 0, sizeof(s->vouch));
    s->digested = s->checked = false;
}

/* ---- the state ---- */

static bool digest_is_due(const struct step *s)
{
    const struct step_config *k = &s->config;
    bool due = k->digest_every != 0 && s->committed % k->digest_every == 0;

    due |= k->heals && (s->save || (k->save_every != 0 && s->committed % k->save_every == 0));
    due |= is_done(s) && group_n(s) > 1 && !MUTATED(LAST_IS_COMPARED);
    return due && s->committed > 0;
}

bool digest_lacks(const struct step *s)
{
    return digest_is_due(s) && !s->digested;
}

void on_digest(struct step *s, const struct step_event *e)
{
    if (e->step == s->committed && s->applied && s->entered != 0 && digest_lacks(s)) {
        memcpy(s->vouch.digest, e->u.hash, HASH_BYTES);
        s->digested = true;
    }
}

/* ---- the check slice ---- */

uint32_t step_check_slice(uint64_t step, uint32_t slices_n)
{
    return (uint32_t)(prng_mix(step) & (slices_n - 1));
}

/* Those who had the state before the others of this generation. */
static bool is_veteran(const struct membership *m, uint32_t rank)
{
    return is_caught_up(m, rank) || (m->g.kind == GENERATION_FRESH && rank == 0);
}

/* Two of them, if there are, outvote one newcomer. */
static bool vouches_for_veterans(const struct membership *m, uint32_t rank)
{
    uint32_t before_n = 0;

    for (uint32_t i = 0; i < rank; i++) {
        before_n += is_veteran(m, i);
    }
    return is_veteran(m, rank) && before_n < 2;
}

/* The check slice of the next step if this worker is to vouch for it, else NO_SLICE. Its owner
 * does, and at an interval one other, another one each time. With newcomers all of them do, and
 * two veterans. The slice depends on the step alone: so what was hashed before a loss is of use
 * after.
 */
static uint32_t check_of(const struct step *s)
{
    const uint32_t n = group_n(s);
    uint64_t step = s->committed + 1;
    uint32_t slice = step_check_slice(step, s->config.slices_n);
    uint32_t owner = plan_rank(&s->plan, slice);
    bool mine = owner == s->me;

    if (s->config.keeps_none || n < 2) {
        return NO_SLICE;
    }
    if (step == s->first && membership_has_newcomers(s->group)) {
        mine |= !is_veteran(s->group, s->me) || vouches_for_veterans(s->group, s->me);
    } else if (s->config.check_every != 0 && step % s->config.check_every == 0) {
        mine |= (owner + 1 + step % (n - 1)) % n == s->me;
    } else {
        return NO_SLICE;
    }
    return mine ? slice : NO_SLICE;
}

bool check_lacks(const struct step *s)
{
    return !s->checked && check_of(s) != NO_SLICE;
}

void on_checked(struct step *s, const struct step_event *e)
{
    if (e->step == s->committed + 1 && s->applied && s->entered != 0 && !s->checked &&
        !s->config.keeps_none && e->slice == step_check_slice(e->step, s->config.slices_n)) {
        memcpy(s->vouch.check, e->u.hash, HASH_BYTES);
        s->checked = true;
    }
}

/* ---- comparing ---- */

static const uint8_t *hash_of(const struct step *s, uint32_t rank, enum step_difference what)
{
    return what == STEP_STATES ? s->vouches[rank].digest : s->vouches[rank].check;
}

static bool all_same(const struct step *s, enum step_difference what)
{
    const uint8_t *first = NULL;

    for (uint32_t i = 0; i < group_n(s); i++) {
        const uint8_t *hash = hash_of(s, i, what);

        if (is_zero(hash)) {
            continue;
        }
        first = first == NULL ? hash : first;
        if (memcmp(hash, first, HASH_BYTES) != 0) {
            return false;
        }
    }
    return true;
}

static uint32_t count_like(const struct step *s, uint32_t rank, enum step_difference what)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < group_n(s); i++) {
        n += memcmp(hash_of(s, i, what), hash_of(s, rank, what), HASH_BYTES) == 0;
    }
    return n;
}

/* Fills s->ranks: all but the largest set of equals; all, if two sets are the largest. most: it is
 * more than half of those who are compared. */
static uint32_t find_odd(struct step *s, enum step_difference what, bool *most_out)
{
    uint32_t most = 0, like = 0, odd_n = 0, all_n = 0;
    bool tie = false;

    for (uint32_t i = 0; i < group_n(s); i++) {
        const uint8_t *hash = hash_of(s, i, what);
        uint32_t n = is_zero(hash) ? 0 : count_like(s, i, what);

        all_n += n != 0;
        if (n > most) {
            most = n;
            like = i;
            tie = false;
        } else if (n != 0 && n == most) {
            tie |= memcmp(hash, hash_of(s, like, what), HASH_BYTES) != 0;
        }
    }
    *most_out = most * 2 > all_n;
    for (uint32_t i = 0; i < group_n(s); i++) {
        const uint8_t *hash = hash_of(s, i, what);

        if (!is_zero(hash) && (tie || memcmp(hash, hash_of(s, like, what), HASH_BYTES) != 0)) {
            s->ranks[odd_n++] = i;
        }
    }
    return odd_n;
}

static void stop(struct step *s, enum step_difference what, struct step_effects *fx)
{
    struct step_effect e = {.kind = STEP_DIVERGED,
                            .step = s->committed + 1,
                            .group = s->group,
                            .difference = what,
                            .odd = s->ranks};
    bool knew = s->diverged;

    if (what != STEP_TOLD) {
        e.odd_n = find_odd(s, what, &e.most);
    }
    s->phase = STEP_STOPPED;
    s->settled = s->diverged = true;
    if (!knew) {
        s->fault = what == STEP_GRADIENTS ? FAULT_GRADIENTS : FAULT_STATES;
        s->odd = e.most ? s->group->members[s->ranks[0]].worker : 0;
        fx->emit(fx, &e);
    }
    say(fx, STEP_REPORT, s->committed);
}

void stop_told(struct step *s, struct step_effects *fx)
{
    stop(s, STEP_TOLD, fx);
}

static bool vouches_differ(struct step *s, struct step_effects *fx)
{
    if (!RULE(DIGEST_WITHHOLDS, all_same(s, STEP_STATES))) {
        stop(s, STEP_STATES, fx);
        return true;
    }
    if (!RULE(CHECK_WITHHOLDS, all_same(s, STEP_GRADIENTS))) {
        stop(s, STEP_GRADIENTS, fx);
        return true;
    }
    return false;
}

/* Step committed + 1 is being committed: did all say the digest of the state before it? Then it was
 * the same. Whoever is past that step has seen so. */
void agree_ready(struct step *s)
{
    bool all = s->digested;

    for (uint32_t i = 0; i < group_n(s); i++) {
        const struct peer *p = &s->peers[i];

        all &= p->ready_step > s->committed + 1 || !is_zero(p->ready_vouch.digest);
    }
    s->agreed = all ? s->committed : s->agreed;
}

/* The same after a loss: all stand at `committed`. */
void agree_settle(struct step *s)
{
    bool all = s->digested;

    for (uint32_t i = 0; i < group_n(s); i++) {
        all &= !is_zero(s->peers[i].settle.digest);
    }
    s->agreed = all ? s->committed : s->agreed;
}

/* Whoever is past the step has committed it: then there was no difference. */
bool ready_differs(struct step *s, uint64_t step, struct step_effects *fx)
{
    for (uint32_t i = 0; i < group_n(s); i++) {
        const struct peer *p = &s->peers[i];

        memset(&s->vouches[i], 0, sizeof(s->vouches[i]));
        if (p->ready && p->ready_step == step) {
            s->vouches[i] = p->ready_vouch;
        }
    }
    return vouches_differ(s, fx);
}

/* Those who are one behind have another state; they are compared when they say READY. */
bool settle_differs(struct step *s, uint64_t newest, struct step_effects *fx)
{
    bool told = false;

    for (uint32_t i = 0; i < group_n(s); i++) {
        const struct peer *p = &s->peers[i];

        told |= p->settle.diverged != 0;
        memset(&s->vouches[i], 0, sizeof(s->vouches[i]));
        if (p->settle.step == newest && !p->settle.lacks) {
            memcpy(s->vouches[i].digest, p->settle.digest, HASH_BYTES);
            memcpy(s->vouches[i].check, p->settle.check, HASH_BYTES);
        }
    }
    if (vouches_differ(s, fx)) {
        return true;
    }
    if (!RULE(STOP_SPREADS, !told)) {
        stop(s, STEP_TOLD, fx);
        return true;
    }
    return false;
}
