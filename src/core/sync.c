#include "core/sync_state.h"
#include "core/text.h"

#include <inttypes.h>
#include <string.h>

#define ENDED_TEXT "the run of job %s has ended"

/* ---- answers ---- */

static void refuse(uint32_t conn, wid worker, uint64_t request, int status, uint64_t generation,
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
static void answer(const struct sync *s, uint32_t value, uint32_t conn, struct sync_effects *fx)
{
    const struct sync_value *to = &s->values[value];
    const struct sync_round *r = &s->rounds[to->round];
    struct msg_synced m = {.worker = to->worker,
                           .request = to->request,
                           .status = MU_OK,
                           .generation = r->generation,
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
                refuse(v->conn, v->worker, v->request, rc, 0, why, fx);
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
static void finish(struct sync *s, uint32_t round, uint64_t now_ms, struct sync_effects *fx)
{
    struct sync_round *r = &s->rounds[round];
    const struct sync_job *j = &s->jobs[r->job];
    const uint32_t total = j->members_n;

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
    r->generation = j->generation;
    keep(s, round, now_ms);
    for (uint32_t i = r->first; i != NONE; i = s->values[i].next) {
        answer(s, i, s->values[i].conn, fx);
        s->values[i].conn = 0;
    }
}

static bool is_complete(const struct sync *s, uint32_t round)
{
    const struct sync_round *r = &s->rounds[round];

    return r->here_n > 0 && r->here_n == s->jobs[r->job].members_n;
}

/* Whoever's time is over is told who is missing, all with the same words. */
static void time_out(struct sync *s, uint32_t round, uint64_t now_ms, struct sync_effects *fx)
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
        refuse(v->conn, v->worker, v->request, MU_ETIMEDOUT, j->generation,
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

/* ---- jobs ---- */

static uint32_t job_find(const struct sync *s, const char *name)
{
    for (uint32_t i = 0; i < s->config.jobs_max; i++) {
        if (strcmp(s->jobs[i].name, name) == 0) {
            return i;
        }
    }
    return NONE;
}

/* The job's place; an ended one of which nothing is left makes room. */
static uint32_t job_take(struct sync *s, const char *name)
{
    uint32_t found = job_find(s, name);

    mu_assert(name[0] != '\0');
    for (uint32_t i = 0; i < s->config.jobs_max && found == NONE; i++) {
        struct sync_job *j = &s->jobs[i];

        if (j->name[0] == '\0' || (j->ended && j->rounds == NONE)) {
            *j = (struct sync_job){.members = NONE, .rounds = NONE};
            memcpy(j->name, name, strnlen(name, sizeof(j->name) - 1));
            found = i;
        }
    }
    return found;
}

static uint32_t round_find(const struct sync *s, uint32_t job, const char *tag)
{
    uint32_t i = s->jobs[job].rounds;

    while (i != NONE && strcmp(s->rounds[i].tag, tag) != 0) {
        i = s->rounds[i].next;
    }
    return i;
}

/* ---- events ---- */

static uint64_t due_of(uint64_t now_ms, uint32_t wait_ms)
{
    return wait_ms == SYNC_FOREVER ? UINT64_MAX : now_ms + wait_ms;
}

/* Something that an earlier life of this slot still waits for; NONE. */
static uint32_t find_earlier_life(const struct sync *s, wid worker)
{
    uint32_t i = sync_slot_next(s, worker, NONE);

    while (i != NONE &&
           !(s->values[i].worker < worker && s->rounds[s->values[i].round].job != NONE)) {
        i = sync_slot_next(s, worker, i);
    }
    return i;
}

/* Nobody is there to read the answers. */
static void drop_earlier_lives(struct sync *s, wid worker)
{
    uint32_t i;

    while ((i = find_earlier_life(s, worker)) != NONE) {
        uint32_t round = s->values[i].round;

        sync_value_give(s, i);
        if (s->rounds[round].waiting_n == 0) {
            sync_round_give(s, round);
        }
    }
}

/* The value of that request; or, in a round, the one of that worker, which has given up perhaps. */
static uint32_t value_find(const struct sync *s, wid worker, uint64_t request, uint32_t round)
{
    uint32_t i = sync_slot_next(s, worker, NONE);

    while (i != NONE && !(s->values[i].worker == worker &&
                          (round == NONE ? s->values[i].request == request && !s->values[i].gave_up
                                         : s->values[i].round == round))) {
        i = sync_slot_next(s, worker, i);
    }
    return i;
}

static uint32_t rank_of(const struct sync *s, const struct sync_job *j, wid worker)
{
    const struct sync_member *m = sync_member_of(s, j, worker);

    return m != NULL && m->worker == worker ? m->rank : NONE;
}

/* Puts a new value into its round; MU_OK also if there was nothing to do. */
static int put_new(struct sync *s, uint32_t conn, const char *job, const struct msg_sync *m,
                   uint64_t now_ms, uint32_t *round_out, char *why)
{
    uint32_t at = job_take(s, job);
    uint32_t value, round, before;
    int rc;

    if (at == NONE) {
        text_say(why, TEXT_MAX_LEN, "there are %" PRIu32 " jobs already", s->config.jobs_max);
        return MU_ELIMIT;
    }
    struct sync_job *j = &s->jobs[at];

    if (j->ended) {
        text_say(why, TEXT_MAX_LEN, ENDED_TEXT, job);
        return MU_EDONE;
    }
    if (j->crowded) {
        text_say(why, TEXT_MAX_LEN, "job %s has too many members for values by tag", job);
        return MU_ELIMIT;
    }
    round = round_find(s, at, m->tag);
    before = round == NONE ? NONE : value_find(s, m->worker, 0, round);
    if (before != NONE && s->values[before].request > m->request) {
        return MU_OK; /* Late: its worker has given that up and put another one since. */
    }
    if (round == NONE) {
        rc = sync_round_take(s, at, m->tag, &round, why);
        if (rc != MU_OK) {
            return rc;
        }
    }
    rc = sync_value_take(s, m, &value, why);
    if (rc != MU_OK) {
        if (s->rounds[round].first == NONE) {
            sync_round_give(s, round);
        }
        return rc;
    }
    s->values[value].conn = conn;
    s->values[value].rank = rank_of(s, j, m->worker);
    sync_value_link(s, value, round);
    sync_due_set(s, value, due_of(now_ms, m->wait_ms));
    if (before != NONE) {
        sync_value_give(s, before);
    }
    *round_out = round;
    return MU_OK;
}

void sync_put(struct sync *s, uint64_t now_ms, uint32_t conn, const char *job,
              const struct msg_sync *m, struct sync_effects *fx)
{
    uint32_t value = value_find(s, m->worker, m->request, NONE);
    uint32_t round = NONE;
    char why[TEXT_MAX_LEN];

    mu_assert(conn != 0);
    if (value != NONE && s->rounds[s->values[value].round].job == NONE) {
        answer(s, value, conn, fx);
        return;
    }
    if (value != NONE) {
        round = s->values[value].round;
        s->values[value].conn = conn;
        sync_due_set(s, value, due_of(now_ms, m->wait_ms));
    } else {
        drop_earlier_lives(s, m->worker);
        int rc = put_new(s, conn, job, m, now_ms, &round, why);

        if (rc != MU_OK) {
            refuse(conn, m->worker, m->request, rc, 0, why, fx);
        }
    }
    if (round != NONE && is_complete(s, round)) {
        finish(s, round, now_ms, fx);
    } else if (round != NONE && m->wait_ms == 0) {
        time_out(s, round, now_ms, fx);
    }
}

/* Where the values of an open round stand in the job's new generation. */
static void rank_again(struct sync *s, uint32_t round)
{
    struct sync_round *r = &s->rounds[round];
    const struct sync_job *j = &s->jobs[r->job];
    uint32_t next;

    for (uint32_t i = r->first; i != NONE; i = next) {
        struct sync_value *v = &s->values[i];
        const struct sync_member *m = sync_member_of(s, j, v->worker);

        next = v->next;
        if (m != NULL && m->worker > v->worker) {
            sync_value_give(s, i); /* Its slot goes on with another life. */
            continue;
        }
        r->here_n -= !v->gave_up && v->rank != NONE;
        v->rank = rank_of(s, j, v->worker);
        r->here_n += !v->gave_up && v->rank != NONE;
    }
}

int sync_generation(struct sync *s, uint64_t now_ms, const struct generation *g,
                    struct sync_effects *fx)
{
    uint32_t at = job_take(s, g->job);
    uint32_t next;

    if (at == NONE) {
        return MU_ELIMIT;
    }
    struct sync_job *j = &s->jobs[at];

    if (g->number < j->generation || (g->number == j->generation && !j->crowded)) {
        return MU_OK;
    }
    j->generation = g->number;
    j->ended = false;
    j->crowded = sync_members_set(s, j, g) != MU_OK;
    for (uint32_t i = j->rounds; i != NONE; i = next) {
        next = s->rounds[i].next;
        rank_again(s, i);
        if (s->rounds[i].waiting_n == 0) {
            sync_round_give(s, i);
        } else if (is_complete(s, i)) {
            finish(s, i, now_ms, fx);
        }
    }
    return j->crowded ? MU_ELIMIT : MU_OK;
}

void sync_ended(struct sync *s, uint64_t now_ms, const char *job, struct sync_effects *fx)
{
    uint32_t at = job_take(s, job);
    char why[TEXT_MAX_LEN];

    (void)now_ms;
    if (at == NONE) {
        return;
    }
    struct sync_job *j = &s->jobs[at];

    text_say(why, sizeof(why), ENDED_TEXT, j->name);
    j->ended = true;
    arena_give(&s->arena, j->members);
    j->members = NONE;
    j->members_n = 0;
    while (j->rounds != NONE) {
        const struct sync_round *r = &s->rounds[j->rounds];

        for (uint32_t i = r->first; i != NONE; i = s->values[i].next) {
            const struct sync_value *v = &s->values[i];

            refuse(v->conn, v->worker, v->request, MU_EDONE, j->generation, why, fx);
        }
        sync_round_give(s, j->rounds);
    }
}

void sync_closed(struct sync *s, uint32_t conn)
{
    for (uint32_t at = 0; at < s->config.jobs_max; at++) {
        uint32_t round = s->jobs[at].name[0] != '\0' ? s->jobs[at].rounds : NONE;

        for (; round != NONE; round = s->rounds[round].next) {
            for (uint32_t i = s->rounds[round].first; i != NONE; i = s->values[i].next) {
                if (s->values[i].conn == conn) {
                    s->values[i].conn = 0;
                }
            }
        }
    }
}

void sync_tick(struct sync *s, uint64_t now_ms, struct sync_effects *fx)
{
    while (s->due_n > 0 && s->values[s->due[0]].due_ms <= now_ms) {
        time_out(s, s->values[s->due[0]].round, now_ms, fx);
    }
    while (s->kept_first != NONE && s->rounds[s->kept_first].end_ms <= now_ms) {
        sync_round_give(s, s->kept_first);
    }
}

uint64_t sync_deadline(const struct sync *s)
{
    uint64_t due_ms = s->due_n > 0 ? s->values[s->due[0]].due_ms : UINT64_MAX;
    uint64_t end_ms = s->kept_first != NONE ? s->rounds[s->kept_first].end_ms : UINT64_MAX;

    return MIN(due_ms, end_ms);
}
