/* Workers that can't reach each other although both reach us. Their reports say so for as long as
 * it is so; suspicions gather until they are ripe. Then those go that hold nothing or have fallen
 * silent, and of the rest the smallest set of workers that covers every broken pair, ties to the
 * newest. Whoever is out stays out while the pair is said to be broken; a pair one of whom has died
 * explains nothing any more. */
#include "core/cluster_state.h"
#include "core/mutation.h"

#include <string.h>

#define EXACT_MAX 12 /* vertices up to which every subset is tried */
#define PAIRS_MAX                                                                   \
    256 /* that are covered at once; should there be more, those that are left next \
         */

struct who {
    wid id;
    const struct node *n;
    struct worker *w;
};

/* Two that can't talk to each other, by the word of one of them or of both. */
struct pair {
    struct who who[2];   /* the older first: a higher number is a newer node */
    bool says[2];        /* this one says that the pair is broken */
    uint32_t idle_ms[2]; /* this one has waited so long for the other */
    uint64_t since_ms;
};

/* ---- what they say ---- */

static const struct distance *find_distance(const struct distance *all, uint32_t n, wid peer)
{
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].peer == peer) {
            return &all[i];
        }
    }
    return NULL;
}

void take_apart(struct cluster *c, struct job *j, struct worker *w, const struct report *r)
{
    struct distance was[APART_MAX];
    const uint32_t was_n = w->apart_n;
    bool changed = false;

    memcpy(was, w->apart, sizeof(was));
    w->apart_in = r->apart_in;
    w->apart_n = 0;
    for (uint32_t i = 0; i < MIN(r->apart_n, (uint32_t)APART_MAX); i++) {
        struct distance d = {r->apart[i].peer, r->apart[i].idle_ms, c->now_ms};
        const struct distance *before = find_distance(was, was_n, d.peer);

        d.since_ms = before != NULL ? before->since_ms : c->now_ms;
        if (find_distance(w->apart, w->apart_n, d.peer) == NULL) {
            w->apart[w->apart_n++] = d;
            changed |= before == NULL;
        }
    }
    if (changed || w->apart_n != was_n) {
        j->suspected = true;
        job_touch(c, j);
    }
}

/* Members that have stopped commit nothing, so what broke between them stays broken by their word:
 * it ends with their generation, when the job has given that up. */
static bool was_given_up(const struct job *j, uint64_t generation)
{
    return job_heals(j) && generation <= j->heal.generation && !MUTATED(HEAL_ENDS_APART);
}

/* Of one that lives, and not of the past: a member of the active generation may not have said yet
 * how it stands there. Newcomers that had to back out of a generation count, too: the next one is
 * not to have the same pair. */
static bool counts(const struct job *j, const struct node *n, const struct worker *w)
{
    uint64_t oldest = MUTATED(APART_OUTLIVES_PLAN) ? j->number : j->active;

    return w->apart_n > 0 && worker_lives(n, w, w->incarnation) && !was_given_up(j, w->apart_in) &&
           (w->apart_in >= oldest || w->active_inc != w->incarnation);
}

/* The worker of that life. False: it does not live. */
static bool find_living(struct cluster *c, const struct job *j, wid id, struct who *out)
{
    const struct node *n = node_by_number(c, wid_node(id));

    if (n == NULL || n->job != job_index(c, j) || wid_slot(id) >= n->slots) {
        return false;
    }
    *out = (struct who){id, n, node_worker(c, n, wid_slot(id))};
    return worker_lives(n, out->w, wid_incarnation(id));
}

static const struct distance *word_of(const struct job *j, const struct who *by, wid peer)
{
    return counts(j, by->n, by->w) ? find_distance(by->w->apart, by->w->apart_n, peer) : NULL;
}

/* The pair of `by` and whom it names. False: that one does not live; or it names `by`, too, and is
 * the older one: then the pair comes with its word. */
static bool make_pair(struct cluster *c, const struct job *j, const struct who *by,
                      const struct distance *d, struct pair *p)
{
    const struct distance *back;
    struct who peer;
    int me;

    if (d->peer == by->id || !find_living(c, j, d->peer, &peer)) {
        return false;
    }
    back = word_of(j, &peer, by->id);
    if (back != NULL && peer.id < by->id) {
        return false;
    }
    me = by->id < peer.id ? 0 : 1;
    *p = (struct pair){.since_ms = back != NULL ? MIN(d->since_ms, back->since_ms) : d->since_ms};
    p->who[me] = *by;
    p->who[!me] = peer;
    p->says[me] = true;
    p->says[!me] = back != NULL;
    p->idle_ms[me] = d->idle_ms;
    p->idle_ms[!me] = back != NULL ? back->idle_ms : 0;
    return true;
}

/* All nodes of the job: members first. */
static struct node *first_node(struct cluster *c, const struct job *j)
{
    struct node *n = node_at(c, j->seniors.first);

    return n != NULL ? n : node_at(c, j->others.first);
}

static struct node *next_node(struct cluster *c, const struct job *j, const struct node *n)
{
    struct node *next = node_at(c, n->next);

    return next == NULL && n->senior ? node_at(c, j->others.first) : next;
}

struct walk {
    const struct node *n;
    uint32_t slot, entry;
};

static struct walk walk_from_first(struct cluster *c, const struct job *j)
{
    return (struct walk){.n = first_node(c, j)};
}

/* The next broken pair of the job; each comes once. */
static bool next_pair(struct cluster *c, const struct job *j, struct walk *at, struct pair *p)
{
    for (; at->n != NULL; at->n = next_node(c, j, at->n), at->slot = 0) {
        for (; at->slot < at->n->slots; at->slot++, at->entry = 0) {
            struct worker *w = node_worker(c, at->n, at->slot);
            struct who by = {wid_make(at->n->number, at->slot, w->incarnation), at->n, w};

            while (counts(j, at->n, w) && at->entry < w->apart_n) {
                if (make_pair(c, j, &by, &w->apart[at->entry++], p)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* ---- who is to go ---- */

/* What this judgement says of it. */
static struct worker *judged(const struct job *j, struct worker *w)
{
    if (w->judged != j->judged) {
        w->judged = j->judged;
        w->named_n = w->idle_ms = 0;
        w->complains = w->dropped = false;
    }
    return w;
}

static void drop(const struct job *j, const struct who *who)
{
    judged(j, who->w)->dropped = true;
}

bool suspect_drops(const struct job *j, const struct worker *w)
{
    return w->judged == j->judged && w->dropped;
}

void suspect_note(struct cluster *c, const struct job *j, uint64_t number, struct effects *fx)
{
    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        for (uint32_t s = 0; fx != NULL && s < n->slots; s++) {
            const struct worker *w = node_worker(c, n, s);

            if (suspect_drops(j, w) && w->current_inc == w->incarnation) {
                say_note(fx, &(struct note){.kind = NOTE_LEFT_OUT,
                                            .job = j->name,
                                            .node = n->name,
                                            .worker = wid_make(n->number, s, w->incarnation),
                                            .generation = number,
                                            .value = w->idle_ms});
            }
        }
    }
}

/* The vertices of the pairs, oldest first. */
static uint32_t vertices(const struct pair *pairs, uint32_t pairs_n, struct who *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < pairs_n * 2; i++) {
        const struct who *who = &pairs[i / 2].who[i % 2];
        uint32_t at = 0;

        while (at < n && out[at].id < who->id) {
            at++;
        }
        if (at < n && out[at].id == who->id) {
            continue;
        }
        for (uint32_t k = n++; k > at; k--) {
            out[k] = out[k - 1];
        }
        out[at] = *who;
    }
    return n;
}

static uint32_t vertex(const struct who *v, wid id)
{
    uint32_t i = 0;

    while (v[i].id != id) {
        i++;
    }
    return i;
}

/* Fewest workers first, then the newest: a larger bit mask has newer ones. */
static void cover_exact(const struct job *j, const struct pair *pairs, uint32_t pairs_n,
                        const struct who *v, uint32_t v_n)
{
    uint32_t masks[PAIRS_MAX];
    uint32_t best = (1u << v_n) - 1;

    for (uint32_t i = 0; i < pairs_n; i++) {
        masks[i] = 1u << vertex(v, pairs[i].who[0].id) | 1u << vertex(v, pairs[i].who[1].id);
    }
    for (uint32_t set = 1; set < 1u << v_n; set++) {
        int fewer = __builtin_popcount(best) - __builtin_popcount(set);
        bool covers = true;

        if (fewer < 0 || (fewer == 0 && set < best)) {
            continue;
        }
        for (uint32_t i = 0; i < pairs_n && covers; i++) {
            covers = (masks[i] & set) != 0;
        }
        best = covers ? set : best;
    }
    for (uint32_t i = 0; i < v_n; i++) {
        if ((best >> i & 1) != 0) {
            drop(j, &v[i]);
        }
    }
}

static bool is_covered(const struct job *j, const struct pair *p)
{
    return suspect_drops(j, p->who[0].w) || suspect_drops(j, p->who[1].w);
}

/* Too many for every subset: take the worker with the most broken pairs, again and again. */
static void cover_greedy(const struct job *j, const struct pair *pairs, uint32_t pairs_n,
                         const struct who *v, uint32_t v_n)
{
    for (;;) {
        uint32_t best = 0, best_n = 0;

        for (uint32_t k = 0; k < v_n; k++) {
            uint32_t n = 0;

            for (uint32_t i = 0; i < pairs_n; i++) {
                n += !is_covered(j, &pairs[i]) &&
                     (pairs[i].who[0].id == v[k].id || pairs[i].who[1].id == v[k].id);
            }
            if (n >= best_n && n > 0) {
                best = k;
                best_n = n;
            }
        }
        if (best_n == 0) {
            return;
        }
        drop(j, &v[best]);
    }
}

static bool is_ripe(const struct cluster *c, const struct pair *p)
{
    return p->since_ms + c->config.suspect_ms <= c->now_ms;
}

/* Of those that no rule has judged yet. */
static void cover(struct cluster *c, const struct job *j)
{
    struct pair pairs[PAIRS_MAX];
    struct who v[PAIRS_MAX * 2];
    struct walk at = walk_from_first(c, j);
    uint32_t n, v_n;

    do {
        n = 0;
        while (n < PAIRS_MAX && next_pair(c, j, &at, &pairs[n])) {
            n += is_ripe(c, &pairs[n]) && !is_covered(j, &pairs[n]);
        }
        v_n = vertices(pairs, n, v);
        if (v_n <= EXACT_MAX) {
            cover_exact(j, pairs, n, v, v_n);
        } else {
            cover_greedy(j, pairs, n, v, v_n);
        }
    } while (n == PAIRS_MAX);
}

/* Suspected by several (or by the only other one), it suspects nobody: more likely it has stopped
 * than they have. The word of one against all others is not enough. */
static bool is_silent(const struct job *j, const struct worker *w)
{
    return !w->complains && (w->named_n >= 2 || j->members_n <= 2);
}

/* It is of the lineage; an earlier life of it that was is dead. */
static bool is_active(const struct who *who)
{
    return who->w->active_inc == wid_incarnation(who->id);
}

static void judge_pair(const struct job *j, const struct pair *p)
{
    const struct worker *a = p->who[0].w, *b = p->who[1].w;
    const bool active[] = {is_active(&p->who[0]), is_active(&p->who[1])};

    if (a->current_inc == 0 && b->current_inc == 0) { /* Both are out already. */
        drop(j, &p->who[active[0] || !active[1]]);
    } else if (a->current_inc == 0 || b->current_inc == 0) {
        drop(j, &p->who[a->current_inc != 0]);
    } else if (active[0] != active[1]) { /* Newcomers hold nothing. */
        drop(j, &p->who[active[0]]);
    } else if (p->says[0] != p->says[1] && is_silent(j, p->who[p->says[0]].w)) {
        drop(j, &p->who[p->says[0]]);
    }
}

static bool anybody_is_apart(struct cluster *c, const struct job *j)
{
    for (struct node *n = first_node(c, j); n != NULL; n = next_node(c, j, n)) {
        for (uint32_t s = 0; s < n->slots; s++) {
            if (node_worker(c, n, s)->apart_n > 0) {
                return true;
            }
        }
    }
    return false;
}

/* Leavers of a planned generation matter until it is active, as in tally_worker(). */
static bool breaks(struct cluster *c, const struct job *j)
{
    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        for (uint32_t s = 0; s < n->slots; s++) {
            const struct worker *w = node_worker(c, n, s);

            if (suspect_drops(j, w) &&
                (w->current_inc != 0 || (j->kind == GENERATION_BOUNDARY && w->active_inc != 0))) {
                return true;
            }
        }
    }
    return false;
}

bool suspect_judge(struct cluster *c, struct job *j)
{
    struct walk at = walk_from_first(c, j);
    struct pair p;

    j->judged++;
    j->suspected = j->suspected && anybody_is_apart(c, j);
    if (!j->suspected) {
        return false;
    }
    while (next_pair(c, j, &at, &p)) {
        for (int i = 0; i < 2; i++) {
            struct worker *w = judged(j, p.who[i].w);

            w->complains |= p.says[i];
            w->named_n += p.says[!i];
            w->idle_ms = MAX(w->idle_ms, p.idle_ms[!i]);
        }
    }
    at = walk_from_first(c, j);
    while (next_pair(c, j, &at, &p)) {
        if (is_ripe(c, &p)) {
            judge_pair(j, &p);
        } else {
            job_due(c, j, p.since_ms + c->config.suspect_ms);
        }
    }
    cover(c, j);
    return breaks(c, j);
}
