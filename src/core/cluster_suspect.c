/* Workers that can't reach each other although both reach us. Suspicions gather until
 * they are ripe; then those go that hold nothing or have fallen silent, and of the rest the
 * smallest set of workers that covers every broken pair, ties to the newest. Whoever is out stays
 * out while the pair is said to be broken; an edge whose end has died explains nothing any more. */
#include "core/cluster_state.h"

#define EXACT_MAX 12 /* vertices up to which every subset is tried */

/* The worker of that life, or NULL if it does not live. */
static struct worker *living(struct cluster *c, const struct job *j, wid id)
{
    struct node *n = node_by_number(c, wid_node(id));
    struct worker *w;

    if (n == NULL || n->job != job_index(c, j) || wid_slot(id) >= n->slots) {
        return NULL;
    }
    w = node_worker(c, n, wid_slot(id));
    return worker_lives(n, w, wid_incarnation(id)) ? w : NULL;
}

static bool living_member(struct cluster *c, const struct job *j, wid id)
{
    const struct worker *w = living(c, j, id);

    return w != NULL && (w->active_inc == w->incarnation || w->current_inc == w->incarnation);
}

/* Nobody has said it again for a lease: the pair has healed. */
static bool edge_expired(const struct cluster *c, const struct edge *e)
{
    return e->last_ms + c->config.lease_ms <= c->now_ms;
}

static struct edge *edge_get(struct cluster *c, uint32_t job, wid a, wid b)
{
    struct edge *room = NULL;

    for (uint32_t i = 0; i < EDGES_MAX; i++) {
        struct edge *e = &c->edges[i];

        if (e->job != NONE && edge_expired(c, e)) {
            e->job = NONE;
        }
        if (e->job == job && e->a == a && e->b == b) {
            return e;
        }
        if (e->job == NONE && room == NULL) {
            room = e;
        }
    }
    if (room != NULL) {
        *room =
            (struct edge){.job = job, .a = a, .b = b, .ripe_ms = c->now_ms + c->config.suspect_ms};
    }
    return room;
}

int on_suspect(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_suspect *m = e->u.suspect;
    struct node *n = node_by_conn(c, e->conn);
    struct edge *edge;
    struct job *j;

    (void)fx;
    if (n == NULL || n->state != NODE_UP || wid_node(m->by) != n->number) {
        return MU_EPROTO;
    }
    j = &c->jobs[n->job];
    if (m->generation < j->active || m->by == m->peer || !living_member(c, j, m->by) ||
        !living_member(c, j, m->peer)) {
        return MU_OK; /* It is about the past. */
    }
    edge = edge_get(c, n->job, MIN(m->by, m->peer), MAX(m->by, m->peer));
    if (edge != NULL) { /* With the table full, what is in it comes first. */
        edge->last_ms = c->now_ms;
        edge->by_a |= m->by == edge->a;
        edge->by_b |= m->by == edge->b;
        edge->idle_ms = MAX(edge->idle_ms, m->idle_ms);
        j->suspected = true;
        job_due(c, j, MAX(edge->ripe_ms, c->now_ms));
    }
    return MU_OK;
}

void suspect_forget(struct cluster *c, struct job *j)
{
    for (uint32_t i = 0; i < EDGES_MAX; i++) {
        if (c->edges[i].job == job_index(c, j)) {
            c->edges[i].job = NONE;
        }
    }
    j->suspected = false;
}

bool suspect_drops(const struct cluster *c, wid w)
{
    for (uint32_t i = 0; i < c->dropped_n; i++) {
        if (c->dropped[i] == w) {
            return true;
        }
    }
    return false;
}

/* How long others have waited for it. */
static uint32_t idle_ms(const struct cluster *c, const struct job *j, wid w)
{
    uint32_t longest_ms = 0;

    for (uint32_t i = 0; i < EDGES_MAX; i++) {
        const struct edge *e = &c->edges[i];

        if (e->job == job_index(c, j) && ((e->a == w && e->by_b) || (e->b == w && e->by_a))) {
            longest_ms = MAX(longest_ms, e->idle_ms);
        }
    }
    return longest_ms;
}

void suspect_note(struct cluster *c, const struct job *j, struct effects *fx)
{
    for (uint32_t i = 0; i < c->dropped_n; i++) {
        wid w = c->dropped[i];
        const struct node *n = node_by_number(c, wid_node(w));

        if (node_worker(c, n, wid_slot(w))->current_inc == wid_incarnation(w)) {
            say_note(fx, &(struct note){.kind = NOTE_LEFT_OUT,
                                        .job = j->name,
                                        .node = n->name,
                                        .worker = w,
                                        .generation = j->next_number,
                                        .value = idle_ms(c, j, w)});
        }
    }
}

static void drop(struct cluster *c, wid w)
{
    if (!suspect_drops(c, w)) {
        c->dropped[c->dropped_n++] = w;
    }
}

/* The vertices of the pairs that are left, oldest first. A higher number is a newer node. */
static uint32_t vertices(const wid (*pairs)[2], uint32_t pairs_n, wid *out)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < pairs_n * 2; i++) {
        wid w = pairs[i / 2][i % 2];
        uint32_t at = 0;

        while (at < n && out[at] < w) {
            at++;
        }
        if (at < n && out[at] == w) {
            continue;
        }
        for (uint32_t k = n++; k > at; k--) {
            out[k] = out[k - 1];
        }
        out[at] = w;
    }
    return n;
}

static uint32_t vertex(const wid *v, wid w)
{
    uint32_t i = 0;

    while (v[i] != w) {
        i++;
    }
    return i;
}

/* Fewest workers first, then the newest: a larger bit mask has newer ones. */
static void cover_exact(struct cluster *c, const wid (*pairs)[2], uint32_t pairs_n, const wid *v,
                        uint32_t v_n)
{
    uint32_t masks[EDGES_MAX];
    uint32_t best = (1u << v_n) - 1;

    for (uint32_t i = 0; i < pairs_n; i++) {
        masks[i] = 1u << vertex(v, pairs[i][0]) | 1u << vertex(v, pairs[i][1]);
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
            drop(c, v[i]);
        }
    }
}

/* Too many for every subset: take the worker with the most broken pairs, again and again. */
static void cover_greedy(struct cluster *c, const wid (*pairs)[2], uint32_t pairs_n, const wid *v,
                         uint32_t v_n)
{
    for (;;) {
        uint32_t best = 0, best_n = 0;

        for (uint32_t k = 0; k < v_n; k++) {
            uint32_t n = 0;

            for (uint32_t i = 0; i < pairs_n; i++) {
                bool open = !suspect_drops(c, pairs[i][0]) && !suspect_drops(c, pairs[i][1]);

                n += open && (pairs[i][0] == v[k] || pairs[i][1] == v[k]);
            }
            if (n >= best_n && n > 0) {
                best = k;
                best_n = n;
            }
        }
        if (best_n == 0) {
            return;
        }
        drop(c, v[best]);
    }
}

/* Suspected by several (or by the only other one), it suspects nobody: more likely it has stopped
 * than they have. The word of one against all others is not enough. */
static bool is_silent(const struct cluster *c, const struct job *j, wid w)
{
    uint32_t by_n = 0;

    for (uint32_t i = 0; i < EDGES_MAX; i++) {
        const struct edge *e = &c->edges[i];
        bool is_a = e->a == w;

        if (e->job != job_index(c, j) || edge_expired(c, e) || (!is_a && e->b != w)) {
            continue;
        }
        if (is_a ? e->by_a : e->by_b) {
            return false;
        }
        by_n++;
    }
    return by_n >= 2 || j->members_n <= 2;
}

/* Keeps the pairs of which nobody has been dropped yet. */
static uint32_t uncovered(const struct cluster *c, wid (*pairs)[2], uint32_t pairs_n)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < pairs_n; i++) {
        if (!suspect_drops(c, pairs[i][0]) && !suspect_drops(c, pairs[i][1])) {
            pairs[n][0] = pairs[i][0];
            pairs[n++][1] = pairs[i][1];
        }
    }
    return n;
}

void suspect_cover(struct cluster *c, struct job *j)
{
    wid pairs[EDGES_MAX][2], v[EDGES_MAX * 2];
    uint32_t pairs_n = 0, v_n;

    c->dropped_n = 0;
    j->suspected = false;
    for (uint32_t i = 0; i < EDGES_MAX; i++) {
        struct edge *e = &c->edges[i];
        struct worker *a, *b;

        if (e->job != job_index(c, j) || edge_expired(c, e) || (a = living(c, j, e->a)) == NULL ||
            (b = living(c, j, e->b)) == NULL) {
            continue;
        }
        j->suspected = true;
        job_due(c, j, e->ripe_ms > c->now_ms ? e->ripe_ms : e->last_ms + c->config.lease_ms);
        if (e->ripe_ms > c->now_ms) {
            continue;
        }
        pairs[pairs_n][0] = e->a;
        pairs[pairs_n++][1] = e->b;
        if (a->current_inc == 0 || b->current_inc == 0) { /* One of them is out already. */
            drop(c, a->current_inc == 0 ? e->a : e->b);
        } else if ((a->active_inc == 0) != (b->active_inc == 0)) { /* Newcomers hold nothing. */
            drop(c, a->active_inc == 0 ? e->a : e->b);
        } else if (e->by_a != e->by_b && is_silent(c, j, e->by_a ? e->b : e->a)) {
            drop(c, e->by_a ? e->b : e->a);
        }
    }
    pairs_n = uncovered(c, pairs, pairs_n);
    if (pairs_n == 0) {
        return;
    }
    v_n = vertices((const wid(*)[2])pairs, pairs_n, v);
    if (v_n <= EXACT_MAX) {
        cover_exact(c, (const wid(*)[2])pairs, pairs_n, v, v_n);
    } else {
        cover_greedy(c, (const wid(*)[2])pairs, pairs_n, v, v_n);
    }
}
