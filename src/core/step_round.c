/* Links that break: rounds of one generation, and who can't be reached.
 *
 * Links are dialed again by themselves. When all are there again the members settle in the next
 * round, and go on where they were: no word to anybody, and none is needed of an orchestrator that
 * is away. Somebody is suspected only when a link has been missing for BREAK_MS, when links broke
 * in ROUNDS_MAX rounds and nothing was committed, or when a peer did nothing for too long. That is
 * a level: it is in the report for as long as it lasts. Calls that need no agreement commit
 * nothing: so with callers CALM_MS in one round mends what broke before.
 *
 * One that has moved on to a boundary generation does not come back for a round of the one before.
 * That it is there says enough: it had everybody's READY, this worker's too, so this worker holds
 * what was committed, and moves there as well. A leaver, which is in no group after the boundary,
 * takes part in the round and says so. */
#include "core/step_state.h"

#include <string.h>

#define BREAK_MS 1000
#define ROUNDS_MAX 3
#define CALM_MS 10000
#define LINKED_MS 5000

bool in_rounds(const struct step *s)
{
    return s->group != NULL && s->me != NO_RANK && s->phase != STEP_OUT &&
           (s->phase != STEP_PARKED || s->left != 0);
}

void rounds_over(struct step *s)
{
    s->rounds_n = 0;
    for (uint32_t i = 0; i < group_n(s); i++) {
        s->peers[i].broke = false;
        s->peers[i].idle_ms = 0;
    }
}

/* What was said in a lower round counts no more; what is known of the peers themselves does. */
static void forget_words(struct step *s)
{
    for (uint32_t i = 0; i < group_n(s); i++) {
        struct peer *p = &s->peers[i];

        p->ready = p->settled = false;
        p->ready_step = p->ready_newest = p->save_step = 0;
    }
}

static bool was_calm(const struct step *s)
{
    return s->config.calls && s->settled && s->now_ms - s->heard_ms >= CALM_MS;
}

static void enter_round(struct step *s, uint32_t round)
{
    if (was_calm(s)) {
        rounds_over(s);
    }
    if (round > ROUND_MAX) {
        s->rounds_n = ROUNDS_MAX + 1; /* None further has a number: what is broken is suspected. */
        return;
    }
    s->term = term_make(s->number, round);
    s->rounds_n++;
    s->there = s->has_said = s->streamed = s->settled = s->planned = false;
    s->heard_ms = s->now_ms;
    if (!MUTATED(ROUND_FENCE)) {
        forget_words(s);
    }
    if (s->config.calls && !s->confirmed && !is_caught_up(s->group, s->me)) {
        s->phase = STEP_LOADING; /* What it has learned counts when the generation is active. */
    }
    if (s->phase != STEP_LOADING && s->phase != STEP_PARKED) {
        s->phase = STEP_SETTLING;
    }
}

/* Nobody may wait for it in a call: by its being in the next round they hear that it makes none. */
void leave_calls(struct step *s)
{
    if (s->there && !MUTATED(LEAVER_LEAVES_CALLS)) {
        enter_round(s, term_round(s->term) + 1);
    }
}

void on_broken(struct step *s, const struct step_event *e)
{
    uint32_t rank;

    if (e->term != s->term || !in_rounds(s)) {
        return;
    }
    rank = membership_rank(s->group, e->peer);
    if (s->there) {
        enter_round(s, term_round(s->term) + 1);
    }
    if (rank != NO_RANK && rank != s->me) {
        s->peers[rank].broke = true;
        s->peers[rank].idle_ms = MAX(s->peers[rank].idle_ms, e->idle_ms);
    }
}

void on_moved(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    if (e->term != s->term || s->there) {
        return;
    }
    s->there = true;
    s->heard_ms = s->now_ms;
    for (uint32_t i = 0; i < group_n(s); i++) {
        s->peers[i].missing_ms = s->peers[i].idle_ms = 0;
    }
    if (!s->settled) {
        say_settle(s, fx);
    }
}

/* ---- one who has gone ahead ---- */

/* This worker has said READY for the boundary at which the others have moved there. */
static bool was_ready_for(const struct step *s, uint64_t generation)
{
    return s->next != NULL && s->next->g.number == generation && s->next->g.from == s->number &&
           term_generation(s->said_in) == s->number && s->said.newest == generation &&
           (s->said.step == s->committed + (s->holds ? 1 : 0));
}

void on_claim(struct step *s, const struct step_event *e, struct step_effects *fx)
{
    const uint64_t term = e->term;

    if (!in_rounds(s) || term <= s->term) {
        return;
    }
    if (term_generation(term) == s->number) {
        enter_round(s, term_round(term));
    } else if (!MUTATED(CLAIM_ANSWERS) && s->phase != STEP_PARKED && s->phase != STEP_LOADING &&
               was_ready_for(s, term_generation(term))) {
        s->confirmed = true; /* They have committed in it. */
        if (s->holds) {
            commit(s, true, fx);
        } else {
            drop_gradients(s, fx);
        }
        move_on(s, fx);
    }
}

/* ---- links ---- */

static void note_since(uint64_t *since_ms, bool is_so, uint64_t now_ms)
{
    *since_ms = !is_so ? 0 : *since_ms != 0 ? *since_ms : MAX(now_ms, 1);
}

static bool is_in(const struct step_event *e, wid worker)
{
    for (uint32_t i = 0; i < e->missing_n; i++) {
        if (e->u.missing[i] == worker) {
            return true;
        }
    }
    return false;
}

void on_links(struct step *s, const struct step_event *e)
{
    for (uint32_t i = 0; s->around != NULL && i < s->kept_n; i++) { /* Links are to members. */
        note_since(&s->kept[i].linked_ms,
                   membership_rank(s->around, s->kept[i].peer) != NO_RANK &&
                       !is_in(e, s->kept[i].peer),
                   s->now_ms);
    }
    for (uint32_t i = 0; i < group_n(s); i++) {
        note_since(&s->peers[i].missing_ms, i != s->me && is_in(e, s->group->members[i].worker),
                   s->now_ms);
    }
    for (uint32_t i = 0; s->next != NULL && i < s->next->g.members_n; i++) {
        note_since(&s->ahead[i], !is_caught_up(s->next, i) && is_in(e, s->next->members[i].worker),
                   s->now_ms);
    }
    s->links_known = true;
}

bool is_linked(const struct step *s)
{
    if (s->next_me == NO_RANK || !membership_has_newcomers(s->next)) {
        return true;
    }
    for (uint32_t i = 0; i < s->next->g.members_n; i++) {
        if (s->ahead[i] != 0) {
            return false;
        }
    }
    return s->links_known;
}

/* ---- silence ---- */

static bool owes_word(const struct step *s, const struct peer *p)
{
    if (!s->settled) {
        return !p->settled;
    }
    if (!s->has_said) {
        return save_waits_for(s, (uint32_t)(p - s->peers));
    }
    return !p->ready || p->ready_step < s->said.step;
}

/* So often silence_ms has passed since it heard something: how long that is changes as often. */
static uint64_t silences_n(const struct step *s)
{
    return (s->now_ms - s->heard_ms) / s->config.silence_ms;
}

static bool listens(const struct step *s)
{
    return s->config.silence_ms != 0 && in_rounds(s) && s->there && s->phase != STEP_PARKED &&
           !step_orphaned(s);
}

/* Those it waits for have said nothing for too long. */
void silence_try(struct step *s)
{
    uint64_t for_ms;

    if (!listens(s) || silences_n(s) == 0) {
        return;
    }
    for_ms = silences_n(s) * s->config.silence_ms;
    for (uint32_t i = 0; i < group_n(s); i++) {
        if (i != s->me && owes_word(s, &s->peers[i])) {
            s->peers[i].idle_ms = MAX(s->peers[i].idle_ms, for_ms);
        }
    }
}

/* ---- the level ---- */

static bool lasts(const struct step *s, uint64_t since_ms)
{
    return since_ms != 0 && s->now_ms - since_ms >= BREAK_MS;
}

static bool is_apart(const struct step *s, uint32_t rank)
{
    const struct peer *p = &s->peers[rank];

    const bool again = !MUTATED(ROUNDS_END) && s->rounds_n > ROUNDS_MAX && p->broke;

    return rank != s->me && (lasts(s, p->missing_ms) || p->idle_ms != 0 || again);
}

static void add(struct report *r, wid peer, uint64_t idle_ms, uint64_t generation)
{
    if (r->apart_n < APART_MAX) {
        r->apart[r->apart_n++] =
            (struct apart){.peer = peer, .idle_ms = (uint32_t)MIN(idle_ms, UINT32_MAX)};
        r->apart_in = generation;
    }
}

static void find_apart(const struct step *s, struct report *r)
{
    r->apart_n = 0;
    r->apart_in = 0;
    for (uint32_t i = 0; i < s->kept_n; i++) {
        add(r, s->kept[i].peer, 0, s->number);
    }
    if (!in_rounds(s) || s->over) {
        return;
    }
    for (uint32_t i = 0; i < group_n(s); i++) {
        if (is_apart(s, i)) {
            add(r, s->group->members[i].worker, s->peers[i].idle_ms, s->number);
        }
    }
    for (uint32_t i = 0; s->next != NULL && s->next_me != NO_RANK && i < s->next->g.members_n;
         i++) {
        if (lasts(s, s->ahead[i])) {
            add(r, s->next->members[i].worker, 0, s->next->g.number);
        }
    }
}

void step_report(const struct step *s, struct report *r)
{
    r->entered = s->entered;
    r->step = s->committed;
    r->agreed = s->agreed;
    r->fault = s->fault;
    r->odd = s->odd;
    find_apart(s, r);
}

/* A link that has lasted is no reason any more not to be taken in. */
static void forget_reached(struct step *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->kept_n; i++) {
        const uint64_t since_ms = s->kept[i].linked_ms;

        if (MUTATED(REACHED_AGAIN) || since_ms == 0 || s->now_ms - since_ms < LINKED_MS) {
            s->kept[n++] = s->kept[i];
        }
    }
    s->kept_n = n;
}

void apart_try(struct step *s, struct step_effects *fx)
{
    struct report r = {0};
    uint32_t sum = 0;

    forget_reached(s);
    find_apart(s, &r);
    for (uint32_t i = 0; i < r.apart_n; i++) {
        sum = sum * 31 + (uint32_t)(r.apart[i].peer >> 32) * 64 + (uint32_t)r.apart[i].peer + 1;
    }
    if (sum != s->apart_said) {
        s->apart_said = sum;
        say(fx, STEP_REPORT, s->committed);
    }
}

void apart_keep(struct step *s)
{
    struct report r;

    find_apart(s, &r);
    for (uint32_t i = 0; i < r.apart_n; i++) {
        s->kept[i].peer = r.apart[i].peer;
        s->kept[i].linked_ms = 0;
    }
    s->kept_n = r.apart_n;
}

/* When the level changes by itself, as far as that is known. */
uint64_t apart_due_ms(const struct step *s)
{
    uint64_t due_ms = UINT64_MAX;

    for (uint32_t i = 0; i < s->kept_n; i++) {
        if (s->kept[i].linked_ms != 0) {
            due_ms = MIN(due_ms, s->kept[i].linked_ms + LINKED_MS);
        }
    }
    if (!in_rounds(s)) {
        return due_ms;
    }
    for (uint32_t i = 0; i < group_n(s); i++) {
        const uint64_t since_ms = s->peers[i].missing_ms;

        if (since_ms != 0 && !lasts(s, since_ms)) {
            due_ms = MIN(due_ms, since_ms + BREAK_MS);
        }
    }
    for (uint32_t i = 0; s->next != NULL && i < s->next->g.members_n; i++) {
        if (s->ahead[i] != 0 && !lasts(s, s->ahead[i])) {
            due_ms = MIN(due_ms, s->ahead[i] + BREAK_MS);
        }
    }
    due_ms = MIN(due_ms, words_due_ms(s));
    if (listens(s) && silences_n(s) == 0) {
        due_ms = MIN(due_ms, s->heard_ms + s->config.silence_ms);
    }
    return due_ms;
}
