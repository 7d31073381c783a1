#include "core/sync_state.h"
#include "core/text.h"

#include <inttypes.h>
#include <string.h>

#define ENDED_TEXT "the run of job %s has ended"

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

uint32_t sync_round_find(const struct sync *s, uint32_t job, const char *tag)
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

/* Where it stands in the newest generation. One that is no member of it begins anew when it is one
 * again: it can't have missed what is completed without it. */
static void set_rank(const struct sync *s, const struct sync_job *j, struct sync_value *v)
{
    const struct sync_member *m = sync_member_of(s, j, v->worker);

    v->rank = m != NULL && m->worker == v->worker ? m->rank : NONE;
    v->joined = v->rank != NONE ? v->joined : 0;
}

/* Puts a new value into its round; MU_OK also if there was nothing to do. */
static int put_new(struct sync *s, uint32_t conn, const char *job, const struct msg_sync *m,
                   uint64_t now_ms, uint32_t *value_out, char *why)
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
    round = sync_round_find(s, at, m->tag);
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
    set_rank(s, j, &s->values[value]);
    sync_value_link(s, value, round);
    sync_due_set(s, value, due_of(now_ms, m->wait_ms));
    if (before != NONE) {
        sync_value_give(s, before);
    }
    *value_out = value;
    return MU_OK;
}

void sync_put(struct sync *s, uint64_t now_ms, uint32_t conn, const char *job,
              const struct msg_sync *m, struct sync_effects *fx)
{
    uint32_t value = value_find(s, m->worker, m->request, NONE);
    char why[TEXT_MAX_LEN];

    mu_assert(conn != 0);
    if (value != NONE && s->rounds[s->values[value].round].job == NONE) {
        sync_answer(s, value, conn, fx);
        return;
    }
    if (value != NONE) {
        s->values[value].conn = conn;
        sync_due_set(s, value, due_of(now_ms, m->wait_ms));
    } else {
        drop_earlier_lives(s, m->worker);
        int rc = put_new(s, conn, job, m, now_ms, &value, why);

        if (rc != MU_OK) {
            sync_refuse(conn, m->worker, m->request, rc, 0, why, fx);
        }
    }
    if (value == NONE || !sync_look_back(s, value, fx)) {
        return;
    }
    uint32_t round = s->values[value].round;

    if (sync_is_complete(s, round)) {
        sync_finish(s, round, now_ms, fx);
    } else if (m->wait_ms == 0) {
        sync_time_out(s, round, now_ms, fx);
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
        set_rank(s, j, v);
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
        } else if (sync_is_complete(s, i)) {
            sync_finish(s, i, now_ms, fx);
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

            sync_refuse(v->conn, v->worker, v->request, MU_EDONE, j->generation, why, fx);
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
        sync_time_out(s, s->values[s->due[0]].round, now_ms, fx);
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
