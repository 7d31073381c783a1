/* Who works on what, in this life: giving out, claims, loss, time-outs, copies. */
#include "core/tasks_state.h"

#include "base/prng.h"
#include "core/text.h"

#include <string.h>

#define COUNTER_BITS 40

/* The life that we are, also before its record is durable. */
uint32_t own_start(const struct tasks *t)
{
    return t->start + (t->started ? 0 : 1);
}

bool attempt_before(const struct tasks *t, uint64_t attempt)
{
    return attempt != 0 && attempt >> COUNTER_BITS < own_start(t);
}

/* ---- entries, holds, workers ---- */

static struct hold *hold_at(const struct tasks *t, uint32_t h)
{
    return &t->entries[h / 2].holds[h % 2];
}

static bool entry_held(const struct tasks *t, uint32_t e)
{
    return t->entries[e].holds[0].worker != NONE || t->entries[e].holds[1].worker != NONE;
}

static struct pass *entry_pass(struct tasks *t, uint32_t e)
{
    return &t->passes[t->entries[e].slot];
}

uint32_t entry_open(struct tasks *t, uint64_t id, uint8_t slot)
{
    uint32_t e = table_add(&t->entry_ids, id);

    if (e != NONE) {
        t->entries[e] = (struct entry){
            .state = ENTRY_DOING, .slot = slot, .holds = {{.worker = NONE}, {.worker = NONE}}};
    }
    return e;
}

static void begin_hold(struct tasks *t, uint32_t h, uint32_t w, uint64_t attempt, uint64_t number,
                       bool claimed)
{
    uint8_t kind = entry_pass(t, h / 2)->kind;

    *hold_at(t, h) = (struct hold){attempt, w, t->clock_ms, number, claimed, t->claims_n};
    chain_push(&t->holds[kind], t->hold_links, h);
    chain_push(&t->workers[w].holds, t->hold_of_links, h);
}

void hold_end(struct tasks *t, uint32_t h)
{
    struct hold *hold = hold_at(t, h);

    if (hold->worker != NONE) {
        chain_drop(&t->holds[entry_pass(t, h / 2)->kind], t->hold_links, h);
        chain_drop(&t->workers[hold->worker].holds, t->hold_of_links, h);
        hold->worker = NONE;
    }
}

/* Not given to anybody: no holds, not to be given out. */
void entry_pend(struct tasks *t, uint32_t e)
{
    hold_end(t, 2 * e);
    hold_end(t, 2 * e + 1);
    if (t->entries[e].state == ENTRY_BACK) {
        chain_drop(&entry_pass(t, e)->back, t->back_links, e);
    }
    t->entries[e].state = ENTRY_PENDING;
}

void entry_back(struct tasks *t, uint32_t e)
{
    t->entries[e].state = ENTRY_BACK;
    chain_push(&entry_pass(t, e)->back, t->back_links, e);
    t->again_n++;
}

void entry_drop(struct tasks *t, uint32_t e)
{
    entry_pend(t, e);
    table_drop(&t->entry_ids, e);
}

void entry_again(struct tasks *t, uint32_t e, wid worker, const char *text, struct tasks_out *out)
{
    struct entry *entry = &t->entries[e];
    const struct pass *p = entry_pass(t, e);
    const struct rec_tasks_set *s = set_of(t, p->kind);
    struct tasks_record r = {.kind = TASKS_PARKED};

    if (entry_held(t, e)) {
        return; /* The copy goes on. */
    }
    if (!RULE(FAILED_IS_PARKED,
              entry->failures < s->attempts && (s->losses == 0 || entry->losses < s->losses)) &&
        !(t->clearing && p->kind == TASK_TRAINING)) {
        strcpy(r.u.parked.job, t->job);
        r.u.parked.id = t->entry_ids.keys[e];
        r.u.parked.failures = entry->failures;
        r.u.parked.losses = entry->losses;
        r.u.parked.worker = worker;
        text_say(r.u.parked.text, sizeof(r.u.parked.text), "%s", text);
        entry_pend(t, e);
        tasks_put(out, &r);
    } else {
        entry_back(t, e);
    }
}

/* One of which nothing has to be known any more. */
static void evict(struct tasks *t)
{
    for (uint32_t i = 0; i < t->worker_ids.cap; i++) {
        uint32_t w = t->worker_hand++ % t->worker_ids.cap;
        const struct worker *worker = &t->workers[w];

        if (worker->holds.first == NONE && worker->won.first == NONE && worker->pending_n == 0) {
            table_drop(&t->worker_ids, w);
            return;
        }
    }
}

uint32_t worker_open(struct tasks *t, wid worker)
{
    uint32_t w = table_find(&t->worker_ids, worker);

    if (w != NONE) {
        return w;
    }
    if (t->worker_ids.n == t->worker_ids.cap) {
        evict(t);
    }
    w = table_add(&t->worker_ids, worker);
    if (w != NONE) {
        t->workers[w] = (struct worker){.holds = CHAIN_EMPTY, .won = CHAIN_EMPTY};
    }
    return w;
}

/* ---- giving out ---- */

static void tell(struct tasks *t, const struct pass *p, uint32_t position, uint64_t attempt,
                 struct task *out)
{
    const struct set *s = &t->sets[p->kind < TASK_SETS ? p->kind : TASK_TRAINING];
    struct place at = set_place(t, p, position);
    const struct file *f = &s->files[at.file];

    *out = (struct task){
        .id = p->first_id + position,
        .attempt = attempt,
        .kind = p->kind,
        .epoch = p->epoch,
        .version = p->version,
        .file = s->names + f->name,
        .first = at.first,
        .end = at.end,
    };
    if (s->head.shuffle == TASK_SHUFFLE_OWN) {
        out->mixed_n = at.end - at.first;
        out->base = at.first;
        out->seed = prng_mix(s->head.seed + prng_mix(at.index + 1));
    } else if (s->head.shuffle == TASK_SHUFFLE_FILE) {
        out->mixed_n = f->n;
        out->base = f->first;
        out->at = at.first - f->first;
        out->seed = prng_mix(s->head.seed + prng_mix(~(uint64_t)at.file));
    }
}

static uint64_t new_attempt(struct tasks *t, bool loose)
{
    t->given_n++;
    return (uint64_t)t->start << COUNTER_BITS | ++t->counter << 1 | loose;
}

static void give(struct tasks *t, uint32_t e, uint32_t k, uint32_t w, struct task *out)
{
    struct pass *p = entry_pass(t, e);
    uint64_t attempt = new_attempt(t, false);

    t->entries[e].state = ENTRY_DOING;
    begin_hold(t, 2 * e + k, w, attempt, t->workers[w].asked, false);
    tell(t, p, (uint32_t)(t->entry_ids.keys[e] - p->first_id), attempt, out);
}

/* Tasks of a loose pass become ours before they are given out, many at once. */
static void reserve(struct tasks *t, struct pass *p, struct tasks_out *out)
{
    uint32_t block = MAX(1, MIN(BLOCK_MAX, p->n / 16));
    struct tasks_record r = {.kind = TASKS_RESERVE};

    if (p->filling || pass_over(p) || p->block_end - p->block_at > block / 2 || t->clearing) {
        return;
    }
    strcpy(r.u.reserve.job, t->job);
    r.u.reserve.first_id = p->first_id;
    r.u.reserve.n = MIN(block, p->n - p->settled_n);
    p->filling = true;
    tasks_put(out, &r);
}

/* The next that nobody has worked on in this life. What an earlier one may have given out waits
 * until its workers have had the time to claim it. */
static uint32_t fresh(struct tasks *t, uint32_t slot)
{
    struct pass *p = &t->passes[slot];
    uint32_t was = p->next;

    if (!RULE(UNCLAIMED_WAITS, p->start == t->start || t->clock_ms >= t->grace_ms)) {
        return NONE;
    }
    for (;; p->next++) {
        p->next = pass_unsettled(p, p->next);
        if (p->next == p->n) {
            t->due |= was < p->n; /* The next epoch may begin. */
            return NONE;
        }
        if (table_find(&t->entry_ids, p->first_id + p->next) == NONE) {
            break;
        }
    }
    uint32_t e = entry_open(t, p->first_id + p->next, (uint8_t)slot);
    p->next += e != NONE;
    t->due |= p->next == p->n;
    return e;
}

static bool give_of(struct tasks *t, uint32_t slot, uint32_t w, struct tasks_out *out,
                    struct task *task)
{
    struct pass *p = &t->passes[slot];
    uint32_t e = p->back.first;

    if (!p->open || !pass_ready(t, p) || (t->clearing && p->kind == TASK_TRAINING)) {
        return false;
    }
    if (pass_loose(t, p)) {
        reserve(t, p, out);
        if (p->block_at == p->block_end) {
            return false;
        }
        tell(t, p, p->block_at++, new_attempt(t, true), task);
        t->due |= p->block_at == p->block_end;
        return true;
    }
    if (e != NONE) {
        chain_drop(&p->back, t->back_links, e);
        t->entries[e].holds[1].attempt =
            MUTATED(ATTEMPT_FENCE) ? t->entries[e].holds[0].attempt : 0;
    } else {
        e = fresh(t, slot);
    }
    if (e == NONE) {
        return false;
    }
    give(t, e, 0, w, task);
    return true;
}

/* Of those that run longest, one that a second worker may well finish first. */
static bool copy_of(struct tasks *t, uint8_t kind, uint32_t w, struct task *task)
{
    uint64_t slow_ms = took_slow(&t->totals[kind]);
    uint32_t h = t->holds[kind].first;

    if (!t->sets[kind].head.copies || slow_ms == 0) {
        return false;
    }
    for (uint32_t i = 0; i < COPIES_LOOKED_AT && h != NONE; i++, h = t->hold_links[h].next) {
        uint32_t e = h / 2, other = !(h % 2);

        if (hold_at(t, h)->given_ms + slow_ms > t->clock_ms) {
            return false;
        }
        if (t->entries[e].holds[other].worker == NONE && hold_at(t, h)->worker != w) {
            give(t, e, other, w, task);
            return true;
        }
    }
    return false;
}

static bool give_next(struct tasks *t, uint32_t w, struct tasks_out *out, struct task *task)
{
    uint32_t odd = t->passes[SLOT_OTHER_EPOCH].open &&
                   (!t->passes[SLOT_EPOCH].open ||
                    t->passes[SLOT_OTHER_EPOCH].epoch < t->passes[SLOT_EPOCH].epoch);
    const uint32_t slots[SLOTS_N] = {SLOT_EVALUATION, odd,       !odd,
                                     SLOT_PREDICTION, SLOT_SAVE, SLOT_END};

    for (uint32_t i = 0; i < SLOTS_N; i++) {
        if (give_of(t, slots[i], w, out, task)) {
            return true;
        }
    }
    for (uint8_t kind = 0; kind < TASK_SETS; kind++) {
        if (copy_of(t, kind, w, task)) {
            return true;
        }
    }
    return false;
}

/* The same answer again, as far as it still holds. */
static uint32_t give_again(struct tasks *t, uint32_t w, uint32_t n, struct task *tasks)
{
    uint32_t given_n = 0;

    for (uint32_t h = t->workers[w].holds.first; h != NONE && given_n < n;
         h = t->hold_of_links[h].next) {
        const struct pass *p = entry_pass(t, h / 2);

        if (hold_at(t, h)->number == t->workers[w].asked) {
            tell(t, p, (uint32_t)(t->entry_ids.keys[h / 2] - p->first_id), hold_at(t, h)->attempt,
                 &tasks[given_n++]);
        }
    }
    return given_n;
}

int tasks_get(struct tasks *t, wid worker, uint64_t number, uint32_t n, uint64_t now_ms,
              struct tasks_out *out, struct task *tasks, struct tasks_given *given)
{
    uint32_t w = worker_open(t, worker);

    tasks_pass_time(t, now_ms);
    if (w == NONE) {
        return MU_ELIMIT;
    }
    struct worker *of = &t->workers[w];
    if (number == 0 || number < of->asked) {
        return MU_ESTALE;
    }
    *given = (struct tasks_given){.version = t->version, .parked_n = t->parked_n};
    if (number == of->asked && of->given_n > 0) {
        given->tasks_n = give_again(t, w, n, tasks);
    }
    if (given->tasks_n == 0) { /* … or all of that was taken back meanwhile. */
        of->asked = number;
        of->given_n = 0;
        while (RULE(START_IS_DURABLE, t->started) && given->tasks_n < n &&
               give_next(t, w, out, &tasks[given->tasks_n])) {
            given->tasks_n++;
        }
        of->given_n = given->tasks_n;
    }
    given->state = given->tasks_n > 0  ? TASKS_GIVEN
                   : tasks_finished(t) ? TASKS_FINISHED
                                       : TASKS_WAIT;
    return MU_OK;
}

/* ---- levels, loss, time ---- */

/* A task of an earlier life that nobody has claimed yet; or one that was given up and not given out
 * again; or that an older attempt has claimed. */
static void adopt(struct tasks *t, uint32_t w, uint64_t got, const struct task_held *held)
{
    struct pass *p = pass_of(t, held->id);
    uint32_t e = table_find(&t->entry_ids, held->id);

    if (p == NULL || pass_bit(p, (uint32_t)(held->id - p->first_id)) || pass_loose(t, p)) {
        return;
    }
    if (e == NONE) {
        e = attempt_before(t, held->attempt) ? entry_open(t, held->id, (uint8_t)(p - t->passes))
                                             : NONE;
        if (e != NONE) {
            begin_hold(t, 2 * e, w, held->attempt, got, true);
        }
        return;
    }
    struct entry *entry = &t->entries[e];
    for (uint32_t k = 0; k < 2 && entry->state != ENTRY_PENDING; k++) {
        struct hold *hold = &entry->holds[k];

        if (hold->attempt != held->attempt || held->attempt == 0) {
            continue;
        }
        if (hold->worker == w) {
            hold->seen = t->claims_n;
        } else if (hold->worker == NONE) {
            if (entry->state == ENTRY_BACK) {
                chain_drop(&p->back, t->back_links, e);
                entry->state = ENTRY_DOING;
            }
            begin_hold(t, 2 * e + k, w, held->attempt, got, true);
        }
        return;
    }
    if (entry->state == ENTRY_DOING && attempt_before(t, held->attempt) &&
        held->attempt > entry->holds[0].attempt && entry->holds[1].attempt == 0) {
        hold_end(t, 2 * e);
        begin_hold(t, 2 * e, w, held->attempt, got, true);
    }
}

void tasks_claim(struct tasks *t, wid worker, uint64_t got, const struct task_held *held,
                 uint32_t held_n, uint64_t now_ms)
{
    uint32_t w = worker_open(t, worker);
    uint32_t h, next;

    tasks_pass_time(t, now_ms);
    if (w == NONE) {
        return;
    }
    t->claims_n++;
    for (uint32_t i = 0; i < held_n; i++) {
        adopt(t, w, got, &held[i]);
    }
    for (h = t->workers[w].holds.first; h != NONE; h = next) {
        next = t->hold_of_links[h].next;
        if (hold_at(t, h)->seen != t->claims_n && hold_at(t, h)->number <= got) {
            hold_end(t, h);
            if (!entry_held(t, h / 2)) {
                entry_back(t, h / 2);
            }
        }
    }
}

void tasks_lost(struct tasks *t, wid worker, struct tasks_out *out)
{
    uint32_t w = table_find(&t->worker_ids, worker);
    char text[TEXT_MAX_LEN];
    uint32_t h;

    if (w == NONE || MUTATED(LOST_GOES_BACK)) {
        return;
    }
    while ((h = t->workers[w].holds.first) != NONE) {
        struct entry *entry = &t->entries[h / 2];

        hold_end(t, h);
        entry->losses++;
        text_say(text, sizeof(text),
                 "its workers were lost or late %d times, and it had failed %d "
                 "times before",
                 entry->losses, entry->failures);
        entry_again(t, h / 2, worker, text, out);
    }
}

void tasks_gone(struct tasks *t, wid worker, struct tasks_out *out)
{
    uint32_t w = table_find(&t->worker_ids, worker);
    struct tasks_record r = {.kind = TASKS_GONE, .u.gone.worker = worker};

    tasks_lost(t, worker, out);
    if (w != NONE && (t->workers[w].won.first != NONE || t->workers[w].pending_n > 0)) {
        strcpy(r.u.gone.job, t->job);
        tasks_put(out, &r);
    }
}

uint32_t timeout_of(const struct tasks *t, uint8_t kind)
{
    const struct rec_tasks_set *s = set_of(t, kind);
    uint64_t slow_ms = took_slow(&t->totals[kind]);

    return (uint32_t)MIN(MAX(s->timeout_ms, slow_ms * s->slow_factor), UINT32_MAX);
}

/* All of a kind have the same time: the one that was given out first is late first. */
void holds_time_out(struct tasks *t, struct tasks_out *out)
{
    char text[TEXT_MAX_LEN];

    for (uint8_t kind = 0; kind < TASK_KINDS && !MUTATED(LATE_GOES_BACK); kind++) {
        uint32_t h, limit_ms = timeout_of(t, kind);

        while ((h = t->holds[kind].first) != NONE &&
               hold_at(t, h)->given_ms + limit_ms <= t->clock_ms) {
            wid worker = t->worker_ids.keys[hold_at(t, h)->worker];

            hold_end(t, h);
            t->entries[h / 2].losses++;
            text_say(text, sizeof(text),
                     "it took more than %" PRIu32 " ms, and its workers were "
                     "lost or late %d times",
                     limit_ms, t->entries[h / 2].losses);
            entry_again(t, h / 2, worker, text, out);
        }
    }
}
