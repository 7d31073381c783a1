/* Memory of values by tag: pools with free lists that touch no page before it is needed. */
#include "core/sync_state.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct sync_config sync_defaults(void)
{
    return (struct sync_config){.jobs_max = 64,
                                .rounds_max = 4096,
                                .values_max = 2 * MEMBERS_MAX,
                                .bytes_max = 64u << 20,
                                .keep_ms = 60000};
}

int sync_init(const struct sync_config *config, struct sync **s_out)
{
    const size_t values_max = config->values_max;
    struct sync *s;

    if (config->jobs_max == 0 || config->rounds_max == 0 || config->values_max == 0 ||
        config->bytes_max == 0 || config->values_max > NONE / 4 || config->jobs_max > NONE / 4) {
        return MU_EINVAL;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return MU_ENOMEM;
    }
    s->config = *config;
    s->rounds_free = s->values_free = s->kept_first = s->kept_last = NONE;
    s->buckets_n = 1;
    while (s->buckets_n < values_max) {
        s->buckets_n *= 2;
    }
    s->jobs = calloc(config->jobs_max, sizeof(s->jobs[0]));
    s->rounds = calloc(config->rounds_max, sizeof(s->rounds[0]));
    s->values = calloc(values_max, sizeof(s->values[0]));
    s->buckets = calloc(s->buckets_n, sizeof(s->buckets[0]));
    s->due = calloc(values_max, sizeof(s->due[0]));
    s->order = calloc(values_max, sizeof(s->order[0]));
    if (s->jobs == NULL || s->rounds == NULL || s->values == NULL || s->buckets == NULL ||
        s->due == NULL || s->order == NULL ||
        arena_init(&s->arena, config->bytes_max, config->values_max + config->jobs_max) != MU_OK) {
        sync_close(s);
        return MU_ENOMEM;
    }
    *s_out = s;
    return MU_OK;
}

void sync_close(struct sync *s)
{
    if (s == NULL) {
        return;
    }
    arena_close(&s->arena);
    free(s->order);
    free(s->due);
    free(s->buckets);
    free(s->values);
    free(s->rounds);
    free(s->jobs);
    free(s);
}

/* Forgets the oldest complete round. */
static bool make_room(struct sync *s)
{
    if (s->kept_first == NONE) {
        return false;
    }
    sync_round_give(s, s->kept_first);
    return true;
}

int sync_bytes_take(struct sync *s, uint32_t n, uint32_t *piece_out)
{
    int rc = arena_take(&s->arena, n, piece_out);

    while (rc != MU_OK && make_room(s)) {
        rc = arena_take(&s->arena, n, piece_out);
    }
    return rc;
}

/* ---- values ---- */

static uint32_t *bucket_of(const struct sync *s, wid worker)
{
    uint64_t h = (worker >> 24) * 0x9e3779b97f4a7c15u;

    return &s->buckets[(h >> 32) & (s->buckets_n - 1)];
}

uint32_t sync_slot_next(const struct sync *s, wid worker, uint32_t value)
{
    uint32_t i = value == NONE ? *bucket_of(s, worker) : s->values[value].chain;

    while (i != 0 && s->values[i - 1].worker >> 24 != worker >> 24) {
        i = s->values[i - 1].chain;
    }
    return i == 0 ? NONE : i - 1;
}

int sync_value_take(struct sync *s, const struct msg_sync *m, uint32_t *value_out, char *why)
{
    uint32_t data = NONE;
    uint32_t i;

    while (s->values_n == s->config.values_max) {
        if (!make_room(s)) {
            text_say(why, TEXT_MAX_LEN,
                     "%" PRIu32 " values wait at the orchestrator for others: there is no room for "
                     "one more",
                     s->values_n);
            return MU_ELIMIT;
        }
    }
    if (m->data_n > 0 && sync_bytes_take(s, m->data_n, &data) != MU_OK) {
        text_say(why, TEXT_MAX_LEN,
                 "values that wait at the orchestrator may take %" PRIu32 " bytes together: there "
                 "is no room for %" PRIu32 " more",
                 s->config.bytes_max, m->data_n);
        return MU_ELIMIT;
    }
    if (s->values_free == NONE) {
        i = s->values_fresh_n++;
    } else {
        i = s->values_free;
        s->values_free = s->values[i].next;
    }
    s->values_n++;
    s->values[i] = (struct sync_value){
        .worker = m->worker,
        .request = m->request,
        .done = {m->done_generation, m->done_n},
        .joined = m->joined,
        .last = {m->last_generation, m->last_n},
        .due_ms = UINT64_MAX,
        .due_at = NONE,
        .round = NONE,
        .rank = NONE,
        .data = data,
        .data_n = m->data_n,
        .chain = *bucket_of(s, m->worker),
    };
    *bucket_of(s, m->worker) = i + 1;
    memcpy(s->values[i].last_tag, m->last_tag, sizeof(m->last_tag));
    if (m->data_n > 0) {
        memcpy(arena_at(&s->arena, data), m->data, m->data_n);
    }
    *value_out = i;
    return MU_OK;
}

void sync_value_link(struct sync *s, uint32_t value, uint32_t round)
{
    struct sync_round *r = &s->rounds[round];
    struct sync_value *v = &s->values[value];

    v->round = round;
    v->prev = r->last;
    v->next = NONE;
    *(r->last == NONE ? &r->first : &s->values[r->last].next) = value;
    r->last = value;
    r->waiting_n += !v->gave_up;
    r->here_n += !v->gave_up && v->rank != NONE;
}

void sync_value_unlink(struct sync *s, uint32_t value)
{
    struct sync_value *v = &s->values[value];
    struct sync_round *r = &s->rounds[v->round];

    *(v->prev == NONE ? &r->first : &s->values[v->prev].next) = v->next;
    *(v->next == NONE ? &r->last : &s->values[v->next].prev) = v->prev;
    r->waiting_n -= !v->gave_up;
    r->here_n -= !v->gave_up && v->rank != NONE;
}

void sync_value_give(struct sync *s, uint32_t value)
{
    struct sync_value *v = &s->values[value];
    uint32_t *link = bucket_of(s, v->worker);

    while (*link != value + 1) {
        link = &s->values[*link - 1].chain;
    }
    *link = v->chain;
    sync_value_unlink(s, value);
    sync_due_clear(s, value);
    arena_give(&s->arena, v->data);
    v->next = s->values_free;
    s->values_free = value;
    s->values_n--;
}

/* ---- rounds ---- */

int sync_round_take(struct sync *s, uint32_t job, const char *tag, uint32_t *round_out, char *why)
{
    struct sync_job *j = &s->jobs[job];
    uint32_t i;

    if (s->open_n + s->kept_n == s->config.rounds_max && !make_room(s)) {
        text_say(why, TEXT_MAX_LEN,
                 "%" PRIu32 " tags wait at the orchestrator for somebody: there is no room for one "
                 "more",
                 s->open_n);
        return MU_ELIMIT;
    }
    if (s->rounds_free == NONE) {
        i = s->rounds_fresh_n++;
    } else {
        i = s->rounds_free;
        s->rounds_free = s->rounds[i].next;
    }
    s->rounds[i] = (struct sync_round){
        .job = job, .first = NONE, .last = NONE, .prev = NONE, .next = j->rounds};
    memcpy(s->rounds[i].tag, tag, strnlen(tag, SYNC_TAG_MAX - 1));
    if (j->rounds != NONE) {
        s->rounds[j->rounds].prev = i;
    }
    j->rounds = i;
    s->open_n++;
    *round_out = i;
    return MU_OK;
}

void sync_round_give(struct sync *s, uint32_t round)
{
    struct sync_round *r = &s->rounds[round];
    uint32_t *first = r->job == NONE ? &s->kept_first : &s->jobs[r->job].rounds;

    while (r->first != NONE) {
        sync_value_give(s, r->first);
    }
    *(r->prev == NONE ? first : &s->rounds[r->prev].next) = r->next;
    if (r->next != NONE) {
        s->rounds[r->next].prev = r->prev;
    } else if (r->job == NONE) {
        s->kept_last = r->prev;
    }
    *(r->job == NONE ? &s->kept_n : &s->open_n) -= 1;
    r->next = s->rounds_free;
    s->rounds_free = round;
}
