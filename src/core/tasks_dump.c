/* The shortest list of records that rebuilds the durable state, a bounded piece at a time. */
#include "core/tasks_state.h"

#include <string.h>

/* Part k of a dump; `at` is how far it is in it. Each puts one record at most, and says whether
 * there may be more. */
enum {
    PART_SETS,
    PART_STATE = PART_SETS + TASK_SETS,
    PART_TOTALS,
    PART_PASSES,
    PART_METRICS = PART_PASSES + SLOTS_N,
    PART_RESULTS,
    PART_WON,
    PART_PARKED,
    PARTS_N
};

static bool dump_set(struct tasks *t, const struct set *s, uint32_t at, struct tasks_record *r)
{
    struct rec_tasks_files *part = &r->u.files;

    if (!s->there || (at > 0 && (at - 1) * TASKS_PART_MAX >= s->files_n)) {
        return false;
    }
    if (at == 0) {
        r->kind = TASKS_SET;
        r->u.set = s->head;
        return true;
    }
    r->kind = TASKS_FILES;
    part->kind = s->head.kind;
    part->head = tasks_head_digest(&s->head);
    part->at = (at - 1) * TASKS_PART_MAX;
    part->files_n = MIN(s->files_n - part->at, TASKS_PART_MAX);
    part->files = t->scratch->files;
    for (uint32_t i = 0; i < part->files_n; i++) {
        const struct file *f = &s->files[part->at + i];

        memset(&part->files[i], 0, sizeof(part->files[i]));
        strcpy(part->files[i].name, s->names + f->name);
        part->files[i].first = f->first;
        part->files[i].n = f->n;
    }
    return true;
}

static bool dump_state(struct tasks *t, struct tasks_record *r)
{
    struct rec_tasks_state *state = &r->u.state;

    r->kind = TASKS_STATE;
    state->start = t->start;
    state->next_id = t->next_id;
    state->next_epoch = t->next_epoch;
    state->asked = t->asked;
    state->version = t->sure_version;
    state->cleared = t->cleared;
    state->once = t->once;
    state->parked_n = t->parked_n;
    state->waiting_n = t->waiting_n;
    state->waiting = t->scratch->values;
    for (uint32_t i = 0; i < t->waiting_n; i++) {
        state->waiting[i].value = t->waiting[i];
    }
    return t->start != 0 || t->sets[0].there || t->sets[1].there || t->sets[2].there;
}

static bool dump_totals(struct tasks *t, uint32_t at, struct tasks_record *r)
{
    const struct totals *of = &t->totals[at];

    r->kind = TASKS_TOTALS;
    r->u.totals.kind = (uint8_t)at;
    r->u.totals.done = of->done;
    r->u.totals.records = of->records;
    r->u.totals.failed_records = of->failed_records;
    r->u.totals.parked = of->parked;
    r->u.totals.took = t->scratch->values;
    for (uint32_t i = 0; i < TASKS_TOOK_N; i++) {
        t->scratch->values[i].value = of->took[i];
        r->u.totals.took_n = of->took[i] != 0 ? i + 1 : r->u.totals.took_n;
    }
    return of->done != 0 || of->parked != 0;
}

/* What is settled from its beginning on is a number, the rest a bitmap. */
static bool dump_pass(struct tasks *t, const struct pass *p, uint32_t at, struct tasks_record *r)
{
    uint32_t words_n = (p->n + 63) / 64, settled_to = p->open ? pass_unsettled(p, 0) : 0;
    uint64_t from = settled_to / 64 + (uint64_t)(at - 1) * (TASKS_BITS_MAX / 8);

    if (!p->open || (at > 0 && (from >= words_n || p->settled_n == settled_to))) {
        return false;
    }
    if (at == 0) {
        r->kind = TASKS_PASS;
        r->u.pass.kind = p->kind;
        r->u.pass.epoch = p->epoch;
        r->u.pass.version = p->version;
        r->u.pass.first_id = p->first_id;
        r->u.pass.start = p->start;
        r->u.pass.kept = true;
        r->u.pass.parked_n = p->parked_n;
        r->u.pass.settled_to = settled_to;
        return true;
    }
    r->kind = TASKS_BITS;
    r->u.bits.kind = p->kind;
    r->u.bits.epoch = p->epoch;
    r->u.bits.at = (uint32_t)from;
    r->u.bits.words_n = (uint32_t)MIN(words_n - from, TASKS_BITS_MAX / 8) * 8;
    r->u.bits.words = t->scratch->bytes;
    for (uint32_t i = 0; i < r->u.bits.words_n / 8; i++) {
        word_put(t->scratch->bytes + (size_t)8 * i, p->bits[from + i]);
    }
    return true;
}

static bool dump_metrics(struct tasks *t, struct tasks_record *r)
{
    r->kind = TASKS_METRICS;
    r->u.metrics.metrics_n = t->metrics.n;
    r->u.metrics.metrics = t->metrics.of;
    r->u.metrics.values_n = t->metrics.words_n * 8;
    r->u.metrics.values = t->scratch->bytes;
    for (uint32_t i = 0; i < t->metrics.words_n; i++) {
        word_put(t->scratch->bytes + (size_t)8 * i, t->metrics.words[i]);
    }
    return t->metrics.n > 0;
}

static bool dump_result(struct tasks *t, uint32_t at, struct tasks_record *r)
{
    const struct tasks_result *result = &t->results[at];

    r->kind = TASKS_METRICS;
    r->u.metrics.over = true;
    r->u.metrics.version = result->version;
    r->u.metrics.metrics_n = result->metrics_n;
    r->u.metrics.metrics = t->scratch->metrics;
    r->u.metrics.values_n = result->metrics_n * 8;
    r->u.metrics.values = t->scratch->bytes;
    for (uint32_t i = 0; i < result->metrics_n; i++) {
        uint64_t bits;

        memset(&t->scratch->metrics[i], 0, sizeof(t->scratch->metrics[i]));
        strcpy(t->scratch->metrics[i].name, result->metrics[i].name);
        memcpy(&bits, &result->metrics[i].value, sizeof(bits));
        word_put(t->scratch->bytes + (size_t)8 * i, bits);
    }
    return true;
}

/* *at: the slot to go on with, plus 1. */
static bool dump_won(struct tasks *t, uint32_t *at, struct tasks_record *r)
{
    uint32_t w = *at == 0 ? t->won_all.first : *at - 1;
    uint32_t n = 0;

    for (; w != NONE && n < TASKS_REPORT_MAX; w = t->won_links[w].next) {
        t->scratch->won[n++] = (struct task_won){t->worker_ids.keys[t->won[w].worker],
                                                 t->won[w].number, t->won_ids.keys[w]};
    }
    r->kind = TASKS_WON;
    r->u.won.items_n = n;
    r->u.won.items = t->scratch->won;
    *at = w == NONE ? NONE : w + 1;
    return n > 0;
}

/* Puts what is at *at into r, if there is anything, and goes on to the next. */
static bool dump_next(struct tasks *t, struct tasks_cursor *at, struct tasks_record *r)
{
    struct tasks_cursor now = *at;
    bool put = false;

    *at = (struct tasks_cursor){now.part + 1, 0};
    if (now.part < PART_STATE) {
        put = dump_set(t, &t->sets[now.part], now.at, r);
    } else if (now.part == PART_STATE) {
        return dump_state(t, r);
    } else if (now.part == PART_TOTALS) {
        put = dump_totals(t, now.at, r);
        if (now.at + 1 < TASK_KINDS) {
            *at = (struct tasks_cursor){now.part, now.at + 1};
        }
        return put;
    } else if (now.part < PART_METRICS) {
        put = dump_pass(t, &t->passes[now.part - PART_PASSES], now.at, r);
    } else if (now.part == PART_METRICS) {
        return dump_metrics(t, r);
    } else if (now.part == PART_RESULTS) {
        put = now.at < t->results_n && dump_result(t, now.at, r);
    } else if (now.part == PART_WON) {
        put = now.at != NONE && dump_won(t, &now.at, r);
        now.at--;
    } else if (now.at < t->parked_listed_n) {
        r->kind = TASKS_PARKED;
        r->u.parked = t->parked[now.at];
        put = true;
    }
    if (put) {
        *at = (struct tasks_cursor){now.part, now.at + 1};
    }
    return put;
}

bool tasks_dump(struct tasks *t, struct tasks_cursor *at, struct tasks_out *out)
{
    while (at->part < PARTS_N) {
        struct tasks_record r = {0};

        if (dump_next(t, at, &r)) {
            strcpy(r.u.set.job, t->job);
            tasks_put(out, &r);
            return true;
        }
    }
    return false;
}
