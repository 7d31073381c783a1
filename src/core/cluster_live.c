/* Who is alive. A lease or a reconnect time that lapses is a judgement that can be taken
 * back until a generation without the node is active; an exit is proof.
 *
 * Each node adds a small tally to its job's, kept up by node_refresh(), so that an event
 * costs the same whatever the number of workers. */
#include "core/cluster_state.h"
#include "core/mutation.h"

#include <string.h>

bool node_alive(const struct node *n)
{
    return n->state == NODE_UP && !n->lapsed && !n->going;
}

bool worker_lives(const struct node *n, const struct worker *w, uint32_t incarnation)
{
    return incarnation != 0 && w->incarnation == incarnation && node_alive(n) &&
           w->phase != PHASE_NONE && w->phase != PHASE_LOST && w->phase != PHASE_EXITED;
}

bool worker_dead(const struct node *n, const struct worker *w, uint32_t incarnation)
{
    return n->state == NODE_GONE || w->incarnation > incarnation ||
           (w->incarnation == incarnation && w->phase == PHASE_EXITED);
}

/* Of its own will, before the work was done: it does not come back. */
bool worker_left(const struct worker *w)
{
    return w->phase == PHASE_EXITED && w->exited == 1;
}

/* A slot whose worker has left is not missed. Those of a node that is asked to leave go one by one,
 * and not of their own will. */
uint32_t node_staff(struct cluster *c, const struct node *n)
{
    uint32_t staff_n = 0;

    for (uint32_t s = 0; s < n->slots; s++) {
        staff_n += MUTATED(LEFT_IS_NOT_MISSED) || n->draining || !worker_left(node_worker(c, n, s));
    }
    return staff_n;
}

/* A newcomer must have reached every member of the published generation, both ways: a pair that
 * can't talk would only be torn apart again. */
bool worker_joinable(const struct cluster *c, const struct node *n, const struct worker *w)
{
    return w->phase == PHASE_WARM && RULE(WARM_NEEDS_PROBE, w->reached >= c->jobs[n->job].number);
}

static void judge_slots(struct cluster *c, const struct node *n, bool *available, bool *joinable)
{
    bool may = RULE(HELPERS_STAY_OUT, !node_serves(c, n));

    *available = *joinable = node_alive(n) && !n->draining && may && node_staff(c, n) > 0;
    for (uint32_t s = 0; s < n->slots && *available; s++) {
        const struct worker *w = node_worker(c, n, s);

        if (!MUTATED(LEFT_IS_NOT_MISSED) && worker_left(w)) {
            continue;
        }
        /* In a job that goes back, one that was left out holds what counts no more. */
        bool member = worker_lives(n, w, w->current_inc) || worker_lives(n, w, w->active_inc) ||
                      (w->phase == PHASE_IN && job_heals(&c->jobs[n->job]));

        *available = member || w->phase == PHASE_WARM ||
                     (MUTATED(HELPERS_STAY_OUT) && w->phase == PHASE_SERVING);
        *joinable &= member || worker_joinable(c, n, w);
    }
    *joinable &= *available;
}

static void tally_worker(struct cluster *c, const struct job *j, const struct node *n,
                         const struct worker *w, struct tally *t)
{
    /* Before the mode was known helpers were members, as in restart mode. */
    bool current_lost =
        w->current_inc != 0 && (!worker_lives(n, w, w->current_inc) || node_serves(c, n));
    bool active_lost = w->active_inc != 0 && !worker_lives(n, w, w->active_inc);

    /* Until a planned generation is active its leavers matter too: the others may still
     * wait for their last READY. */
    if (current_lost || (j->kind == GENERATION_BOUNDARY && active_lost)) {
        t->lost_n++;
    }
    if (w->current_inc != 0 && !current_lost && w->entered == j->number) {
        t->entered_n++;
    }
    if (w->active_inc != 0 && n->duty == DUTY_TRAINS) {
        t->survivors_n += !active_lost;
        t->finished_n += !active_lost && w->phase == PHASE_FINISHED;
        t->dead_n += worker_dead(n, w, w->active_inc);
    }
    if (n->role == ROLE_CHIEF && node_serves(c, n) && node_alive(n)) {
        t->led_n += w->phase == PHASE_FINISHED || worker_left(w);
    }
}

static void tally_add(struct tally *to, const struct tally *t, uint32_t sign)
{
    to->lost_n += sign * t->lost_n;
    to->entered_n += sign * t->entered_n;
    to->finished_n += sign * t->finished_n;
    to->survivors_n += sign * t->survivors_n;
    to->dead_n += sign * t->dead_n;
    to->trainers_n += sign * t->trainers_n;
    to->led_n += sign * t->led_n;
    to->unheard_n += sign * t->unheard_n;
}

void node_refresh(struct cluster *c, struct node *n)
{
    struct job *j = &c->jobs[n->job];
    struct tally t = {0};
    bool available, joinable;

    if (n->state == NODE_JOINING || n->state == NODE_FREE) {
        return;
    }
    n->duty = node_duty(c, n);
    judge_slots(c, n, &available, &joinable);
    for (uint32_t s = 0; s < n->slots; s++) {
        tally_worker(c, j, n, node_worker(c, n, s), &t);
    }
    t.trainers_n = n->duty == DUTY_TRAINS && node_alive(n);
    t.unheard_n = n->unheard && node_alive(n);
    if (available != n->available || joinable != n->joinable ||
        memcmp(&t, &n->tally, sizeof(t)) != 0) {
        job_touch(c, j);
    }
    if (n->duty == DUTY_TRAINS) {
        j->available_n += available;
        j->available_n -= n->available;
    }
    n->available = available;
    n->joinable = joinable;
    tally_add(&j->tally, &t, 1);
    tally_add(&j->tally, &n->tally, UINT32_MAX); /* minus one, modulo 2^32 */
    n->tally = t;
    roster_look(c, n);
}

void job_refresh(struct cluster *c, struct job *j)
{
    const struct list *lists[] = {&j->seniors, &j->others};

    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (struct node *n = node_at(c, lists[l]->first); n != NULL; n = node_at(c, n->next)) {
            node_refresh(c, n);
        }
    }
}

void job_touch(struct cluster *c, struct job *j)
{
    j->dirty = true;
    if (!j->touched) {
        j->touched = true;
        j->next_touched = c->touched;
        c->touched = job_index(c, j);
    }
}

void job_due(struct cluster *c, struct job *j, uint64_t at_ms)
{
    j->due_ms = MIN(j->due_ms, at_ms);
    c->jobs_due_ms = MIN(c->jobs_due_ms, at_ms);
}

/* ---- leases ---- */

void node_watch(struct cluster *c, struct node *n)
{
    if (!n->timed) {
        n->timed = true;
        heap_push(&c->heap, n->lease_end_ms, node_index(c, n) * 2);
    }
}

/* Nobody waits for one that is in no generation, and if it lives it is to stay who it is: it has
 * its lease to come back. */
static uint64_t close_due_ms(const struct cluster *c, const struct node *n)
{
    uint32_t wait_ms = node_serves(c, n) ? c->config.lease_ms : c->config.reconnect_ms;

    return n->closed_ms == NEVER ? NEVER : MAX(n->closed_ms, c->jump_ms) + wait_ms;
}

static void watch_close(struct cluster *c, struct node *n)
{
    if (!n->timed_close) {
        n->timed_close = true;
        heap_push(&c->heap, close_due_ms(c, n), node_index(c, n) * 2 + 1);
    }
}

void node_heard(struct cluster *c, struct node *n)
{
    struct job *j = &c->jobs[n->job];

    n->lease_end_ms = c->now_ms + c->config.lease_ms;
    n->closed_ms = n->conn != 0 ? NEVER : n->closed_ms;
    if (n->lapsed && n->state == NODE_UP) {
        n->lapsed = false;
        node_refresh(c, n);
    }
    if (n->tally.survivors_n > 0 || (MUTATED(LOST_AGENT_IS_HEARD) && n->senior)) {
        j->word_ms = c->now_ms;
    }
    node_watch(c, n);
}

int on_closed(struct cluster *c, const struct event *e, struct effects *fx)
{
    struct node *n = node_by_conn(c, e->conn);

    (void)fx;
    if (n == NULL) {
        return MU_OK;
    }
    conn_drop(c, n);
    n->closed_ms = c->now_ms;
    if (n->senior) {
        blame_excuse(c, &c->jobs[n->job], n, NONE);
    }
    watch_close(c, n);
    return MU_OK;
}

static void node_lapse(struct cluster *c, struct node *n, const char *why, struct effects *fx)
{
    const struct job *j = &c->jobs[n->job];

    n->lapsed = true;
    if (n->senior) {
        blame_excuse(c, &c->jobs[n->job], n, NONE);
    }
    say_note(fx, &(struct note){.kind = NOTE_LOST,
                                .job = j->name,
                                .node = n->name,
                                .generation = j->number,
                                .reason = why});
    node_refresh(c, n);
    if (!n->senior) {
        node_leave(c, n, fx);
    }
}

/* An entry only says when to look; the node says what is due. */
static void node_due(struct cluster *c, struct node *n, struct effects *fx)
{
    uint64_t close_ms = close_due_ms(c, n);
    uint64_t lease_ms = MAX(n->lease_end_ms, c->grace_ms);

    if (n->state != NODE_UP) {
        return;
    }
    if (n->lapsed) {
        if (!n->senior) {
            node_leave(c, n, fx); /* Its record could not be written the last time. */
        }
    } else if (close_ms <= c->now_ms) {
        node_lapse(c, n, "its connection closed and did not come back", fx);
    } else if (lease_ms <= c->now_ms) {
        node_lapse(c, n, "its lease lapsed", fx);
    } else {
        node_watch(c, n);
    }
}

/* All that is due is judged first, so that losses that fall together make one generation. */
void live_tick(struct cluster *c, struct effects *fx)
{
    const struct heap_item *top;

    while ((top = heap_top(&c->heap)) != NULL && top->key <= c->now_ms) {
        struct node *n = &c->nodes[top->value / 2];
        bool close = top->value % 2 == 1;

        heap_pop(&c->heap);
        if (close) {
            n->timed_close = false;
        } else {
            n->timed = false;
            n->lease_end_ms = MAX(n->lease_end_ms, c->grace_ms);
        }
        node_due(c, n, fx);
        if (close && n->state == NODE_UP && !n->lapsed && n->closed_ms != NEVER) {
            watch_close(c, n); /* The clock jumped meanwhile: look again. */
        }
    }
}
