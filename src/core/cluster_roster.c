/* The roster: the workers that help, and who is told of them.
 *
 * It is a level with a version, told to the nodes of which a worker asks, so that a job in which
 * nobody asks pays nothing for it, and those who serve without asking cost no more than their own
 * change. One that asks costs one message for each change, and no more than twenty a second.
 * Members are not in it: everybody knows them by the generation. */
#include "core/cluster_state.h"
#include "core/mutation.h"

#include <string.h>

#define AGAIN_MS 50 /* what changes in this time is told together */

/* A worker whose life is in the active generation trains, whatever it says. */
enum duty node_duty(struct cluster *c, const struct node *n)
{
    const uint8_t mode = c->jobs[n->job].mode;
    enum duty duty = duty_of(n->role, mode);

    for (uint32_t s = 0; s < n->slots && mode == MODE_INPROCESS; s++) {
        if (node_worker(c, n, s)->active_inc != 0) {
            return DUTY_TRAINS;
        }
        duty = node_worker(c, n, s)->serves ? DUTY_HELPS : duty;
    }
    return duty;
}

static bool is_listed(struct cluster *c, const struct node *n, const struct worker *w)
{
    bool lives =
        worker_lives(n, w, w->incarnation) || (MUTATED(ROSTER_HAS_LIVING) && w->incarnation != 0);

    return node_serves(c, n) && lives && w->phase != PHASE_FINISHED;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    return (h ^ x) * UINT64_C(0x100000001b3);
}

static uint64_t shown_of(struct cluster *c, const struct node *n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    bool any = false;

    for (uint32_t s = 0; s < n->slots; s++) {
        const struct worker *w = node_worker(c, n, s);

        if (is_listed(c, n, w)) {
            any = true;
            h = mix(h, wid_make(n->number, s, w->incarnation));
            h = mix(h, w->phase == PHASE_SERVING);
            for (const char *p = w->addr; *p != '\0'; p++) {
                h = mix(h, (uint8_t)*p);
            }
        }
    }
    return any ? h | 1 : 0;
}

void roster_look(struct cluster *c, struct node *n)
{
    struct job *j = &c->jobs[n->job];
    uint64_t shown = shown_of(c, n);

    if (shown != n->shown) {
        n->shown = shown;
        j->roster.dirty = true;
        job_touch(c, j);
    }
    n->asks = false;
    for (uint32_t s = 0; s < n->slots; s++) {
        n->asks |= node_worker(c, n, s)->asks;
    }
    if (n->asks && j->roster.version == 0) { /* Nobody has asked before. */
        j->roster.dirty = true;
        job_touch(c, j);
    }
}

/* ---- versions ---- */

void roster_restart(struct job *j)
{
    j->roster.dirty = true;
}

/* What it holds, and this orchestrator did not tell it, is of one before: the next is newer. */
void roster_heard(struct cluster *c, struct node *n, uint64_t version)
{
    struct roster *r = &c->jobs[n->job].roster;

    n->roster = version;
    if (version > n->roster_sent && version < NEVER / 2 && !MUTATED(ROSTER_OUTGROWS)) {
        r->version = MAX(r->version, version + 1);
    }
}

/* ---- telling ---- */

static void fill_node(struct cluster *c, const struct node *n, struct msg_roster *m)
{
    for (uint32_t s = 0; s < n->slots; s++) {
        const struct worker *w = node_worker(c, n, s);
        struct roster_entry *h = &c->helpers[m->helpers_n];

        if (!is_listed(c, n, w)) {
            continue;
        }
        h->worker = wid_make(n->number, s, w->incarnation);
        h->host = n->host;
        h->role = n->role;
        h->phase = w->phase == PHASE_SERVING ? PHASE_SERVING : PHASE_WARMING;
        h->number = n->role == ROLE_WORKER ? 0 : n->place + s;
        memcpy(h->addr, w->addr, sizeof(h->addr));
        m->helpers_n++;
    }
}

/* It is the same for all who get this version. */
static const struct msg_roster *fill(struct cluster *c, const struct job *j)
{
    const struct list *lists[] = {&j->seniors, &j->others};
    struct msg_roster *m = &c->filled;

    if (c->filled_job == job_index(c, j) && m->run == j->run && m->version == j->roster.version) {
        return m;
    }
    c->filled_job = job_index(c, j);
    *m = (struct msg_roster){.run = j->run, .version = j->roster.version, .helpers = c->helpers};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (struct node *n = node_at(c, lists[l]->first); n != NULL; n = node_at(c, n->next)) {
            fill_node(c, n, m);
        }
    }
    return m;
}

static void send(struct cluster *c, struct node *n, struct effects *fx)
{
    const struct msg_roster *m = fill(c, &c->jobs[n->job]);

    n->roster_sent = m->version;
    n->roster_sent_ms = c->now_ms;
    fx->emit(fx, &(struct effect){.kind = EFFECT_ROSTER, .conn = n->conn, .u.roster = m});
}

/* Is there one that can be told? What an orchestrator that was restarted has yet to hear of may be
 * a helper that is well. */
static bool is_known(const struct job *j)
{
    return j->run != 0 && !j->ended && j->tally.unheard_n == 0;
}

/* What was sent not long ago is still on its way. */
void roster_say(struct cluster *c, struct node *n, struct effects *fx)
{
    const struct job *j = &c->jobs[n->job];
    bool sent =
        n->roster_sent == j->roster.version &&
        (c->now_ms < n->roster_sent_ms + c->config.lease_ms / 4 || MUTATED(ROSTER_IS_REPEATED));

    if (n->asks && n->conn != 0 && n->roster < j->roster.version && !sent && is_known(j) &&
        !j->roster.dirty) {
        send(c, n, fx);
    }
}

void roster_publish(struct cluster *c, struct job *j, struct effects *fx)
{
    const struct list *lists[] = {&j->seniors, &j->others};

    if (!j->roster.dirty || !is_known(j)) {
        return;
    }
    if (c->now_ms < j->roster.due_ms) {
        job_due(c, j, j->roster.due_ms);
        return;
    }
    j->roster.dirty = false;
    j->roster.version++;
    j->roster.due_ms = c->now_ms + AGAIN_MS;
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (struct node *n = node_at(c, lists[l]->first); n != NULL; n = node_at(c, n->next)) {
            if (n->asks && n->conn != 0) {
                send(c, n, fx);
            }
        }
    }
}

/* ---- numbers ---- */

/* One that comes back, or is started again under its name, takes up its own; others get the lowest
 * that are free together. */
bool roster_place(struct cluster *c, const struct job *j, const struct msg_hello *h,
                  uint32_t *place_out)
{
    const struct node *old = node_by_name(c, job_index(c, j), h->name);
    bool taken[HELPERS_MAX] = {false};
    uint32_t free_n = 0;

    if (h->role == ROLE_WORKER) {
        *place_out = 0;
        return true;
    }
    if (old != NULL && old->state == NODE_UP && old->role == h->role && old->slots == h->slots) {
        *place_out = old->place;
        return true;
    }
    for (uint32_t i = 0; i < c->config.nodes_max && !MUTATED(PLACE_IS_FREE); i++) {
        const struct node *n = &c->nodes[i];
        bool there = n->state == NODE_JOINING || n->state == NODE_UP;

        for (uint32_t s = 0; there && n->job == job_index(c, j) && n->role == h->role &&
                             s < n->slots && n->place + s < HELPERS_MAX;
             s++) {
            taken[n->place + s] = true;
        }
    }
    for (uint32_t i = 0; i < HELPERS_MAX; i++) {
        free_n = taken[i] ? 0 : free_n + 1;
        if (free_n == h->slots) {
            *place_out = i + 1 - free_n;
            return true;
        }
    }
    return false;
}
