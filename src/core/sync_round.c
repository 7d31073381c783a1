/* The rounds of values by tag: how they are completed, given up, and answered. */
#include "core/sync_state.h"
#include "core/text.h"

#include <inttypes.h>
#include <string.h>

/* ---- answers ---- */

void sync_refuse(uint32_t conn, wid worker, uint64_t request, int status, uint64_t generation,
                 const char *why, struct sync_effects *fx)
{
    struct msg_synced m = {
        .worker = worker, .request = request, .status = status, .generation = generation};

    if (conn == 0) {
        return; /* It comes back, and asks again. */
    }
    memcpy(m.text, why, strnlen(why, sizeof(m.text) - 1));
    fx->emit(fx, conn, &m);
}

/* All values of a complete round, in order of rank, to one of them. */
void sync_answer(const struct sync *s, uint32_t value, uint32_t conn, struct sync_effects *fx)
{
    const struct sync_value *to = &s->values[value];
    const struct sync_round *r = &s->rounds[to->round];
    struct msg_synced m = {.worker = to->worker,
                           .request = to->request,
                           .status = MU_OK,
                           .generation = r->mark.generation,
                           .round = r->mark.n,
                           .total = r->here_n};

    for (uint32_t i = r->first; i != NONE && conn != 0; i = s->values[i].next, m.index++) {
        const struct sync_value *v = &s->values[i];

        m.from = v->worker;
        memcpy(m.addr, v->addr, sizeof(m.addr));
        m.data_n = v->data_n;
        m.data = v->data_n > 0 ? arena_at(&s->arena, v->data) : NULL;
        fx->emit(fx, conn, &m);
    }
}

/* ---- rounds ---- */

/* Takes the values of workers that are no members over to another round of the tag: they go on
 * waiting. Without room for it they are refused. */
static void move_waiting(struct sync *s, uint32_t round, struct sync_effects *fx)
{
    struct sync_round *r = &s->rounds[round];
    char why[TEXT_MAX_LEN];
    uint32_t other = NONE;
    uint32_t next;

    for (uint32_t i = r->first; i != NONE; i = next) {
        struct sync_value *v = &s->values[i];

        next = v->next;
        if (v->gave_up) {
            sync_value_give(s, i);
        } else if (v->rank == NONE) {
            int rc = other != NONE ? MU_OK : sync_round_take(s, r->job, r->tag, &other, why);

            if (rc != MU_OK) {
                sync_refuse(v->conn, v->worker, v->request, rc, 0, why, fx);
                sync_value_give(s, i);
                continue;
            }
            sync_value_unlink(s, i);
            sync_value_link(s, i, other);
        }
    }
}

/* Out of its job's list, and to the end of those that are remembered. */
static void keep(struct sync *s, uint32_t round, uint64_t now_ms)
{
    struct sync_round *r = &s->rounds[round];

    *(r->prev == NONE ? &s->jobs[r->job].rounds : &s->rounds[r->prev].next) = r->next;
    if (r->next != NONE) {
        s->rounds[r->next].prev = r->prev;
    }
    r->job = NONE;
    r->end_ms = now_ms + s->config.keep_ms;
    r->prev = s->kept_last;
    r->next = NONE;
    *(s->kept_last == NONE ? &s->kept_first : &s->rounds[s->kept_last].next) = round;
    s->kept_last = round;
    s->open_n--;
    s->kept_n++;
}

/* Every member has put: each gets all. */
void sync_finish(struct sync *s, uint32_t round, uint64_t now_ms, struct sync_effects *fx)
{
    struct sync_round *r = &s->rounds[round];
    const struct sync_job *j = &s->jobs[r->job];
    const uint32_t total = j->members_n;

    r->mark.generation = j->generation;
    r->mark.n = (r->past.generation == j->generation ? r->past.n : 0) + 1;
    move_waiting(s, round, fx);
    mu_assert(r->here_n == total && r->waiting_n == total);
    for (uint32_t i = r->first; i != NONE; i = s->values[i].next) {
        s->order[s->values[i].rank] = i;
    }
    r->first = r->last = NONE;
    r->here_n = r->waiting_n = 0;
    for (uint32_t rank = 0; rank < total; rank++) {
        struct sync_value *v = &s->values[s->order[rank]];

        memcpy(v->addr, sync_member_of(s, j, v->worker)->addr, sizeof(v->addr));
        sync_due_clear(s, s->order[rank]);
        sync_value_link(s, s->order[rank], round);
    }
    keep(s, round, now_ms);
    for (uint32_t i = r->first; i != NONE; i = s->values[i].next) {
        sync_answer(s, i, s->values[i].conn, fx);
        s->values[i].conn = 0;
    }
}

bool sync_is_complete(const struct sync *s, uint32_t round)
{
    const struct sync_round *r = &s->rounds[round];

    return r->here_n > 0 && r->here_n == s->jobs[r->job].members_n;
}

/* Whoever's time is over is told who is missing, all with the same words. */
void sync_time_out(struct sync *s, uint32_t round, uint64_t now_ms, struct sync_effects *fx)
{
    struct sync_round *r = &s->rounds[round];
    const struct sync_job *j = &s->jobs[r->job];
    char missing[TEXT_MAX_LEN], alone[TEXT_MAX_LEN];

    sync_missing_text(s, round, missing, sizeof(missing));
    for (uint32_t i = r->first; i != NONE; i = s->values[i].next) {
        struct sync_value *v = &s->values[i];

        if (v->gave_up || v->due_ms > now_ms) {
            continue;
        }
        if (v->rank == NONE && j->members_n > 0) {
            text_say(alone, sizeof(alone),
                     "n%" PRIu32 ".%" PRIu32 "#%" PRIu32 " is no member of generation %" PRIu64
                     ", the newest of job %s",
                     wid_node(v->worker), wid_slot(v->worker), wid_incarnation(v->worker),
                     j->generation, j->name);
        }
        sync_refuse(v->conn, v->worker, v->request, MU_ETIMEDOUT, j->generation,
                    v->rank == NONE && j->members_n > 0 ? alone : missing, fx);
        sync_due_clear(s, i);
        arena_give(&s->arena, v->data);
        v->data = NONE;
        v->data_n = 0;
        v->conn = 0;
        v->gave_up = true;
        r->waiting_n--;
        r->here_n -= v->rank != NONE;
    }
    if (r->waiting_n == 0) {
        sync_round_give(s, round);
    }
}

/* ---- rounds that somebody missed ---- */

static bool is_before(struct sync_mark a, struct sync_mark b)
{
    return a.generation != b.generation ? a.generation < b.generation : a.n < b.n;
}

/* Its round was complete, others have the answer and are at another one; but before it had that
 * too, the orchestrator was lost and all that it remembered. To let it take part in the next would
 * be to mix values of different rounds, and to let it wait would be to wait for ever. */
static bool has_missed(const struct sync_value *v, struct sync_mark past)
{
    return !v->gave_up && is_before(v->done, past) && v->joined != 0 &&
           v->joined <= past.generation;
}

/* What those who wait under any tag of the job know of the last round of this one. */
static struct sync_mark ask_around(const struct sync *s, uint32_t job, const char *tag)
{
    struct sync_mark past = {0, 0};

    for (uint32_t round = s->jobs[job].rounds; round != NONE; round = s->rounds[round].next) {
        for (uint32_t i = s->rounds[round].first; i != NONE; i = s->values[i].next) {
            const struct sync_value *v = &s->values[i];

            if (is_before(past, v->last) && strcmp(v->last_tag, tag) == 0) {
                past = v->last;
            }
        }
    }
    return past;
}

static void refuse_missed(struct sync *s, uint32_t round, struct sync_effects *fx)
{
    struct sync_round *r = &s->rounds[round];
    uint32_t next;

    for (uint32_t i = r->first; i != NONE; i = next) {
        const struct sync_value *v = &s->values[i];
        struct msg_synced m = {.worker = v->worker,
                               .request = v->request,
                               .status = MU_EPEER,
                               .generation = r->past.generation,
                               .round = r->past.n};

        next = v->next;
        if (!has_missed(v, r->past)) {
            continue;
        }
        text_say(m.text, sizeof(m.text),
                 "all had come, and the others have their answer; this worker's was lost with the "
                 "orchestrator");
        if (v->conn != 0) { /* Or else it comes back, and is told then. */
            fx->emit(fx, v->conn, &m);
        }
        sync_value_give(s, i);
    }
    if (r->waiting_n == 0) {
        sync_round_give(s, round);
    }
}

static struct sync_mark later(struct sync_mark a, struct sync_mark b)
{
    return is_before(a, b) ? b : a;
}

/* Somebody has the answer of the round `mark` of this tag. */
static void learn(struct sync *s, uint32_t round, struct sync_mark mark, struct sync_effects *fx)
{
    if (is_before(s->rounds[round].past, mark)) {
        s->rounds[round].past = mark;
        refuse_missed(s, round, fx);
    }
}

bool sync_look_back(struct sync *s, uint32_t value, struct sync_effects *fx)
{
    const struct sync_value v = s->values[value];
    struct sync_round *r = &s->rounds[v.round];
    const uint32_t job = r->job;
    struct sync_mark past = later(r->past, v.done);

    if (r->first == r->last) { /* It opened this round. */
        past = later(past, ask_around(s, job, r->tag));
    }
    const bool missed = has_missed(&v, past);

    if (missed || is_before(r->past, past)) {
        r->past = past;
        refuse_missed(s, v.round, fx);
    }
    uint32_t last = v.last_tag[0] != '\0' ? sync_round_find(s, job, v.last_tag) : NONE;

    if (last != NONE && last != v.round) {
        learn(s, last, v.last, fx);
    }
    return !missed;
}
