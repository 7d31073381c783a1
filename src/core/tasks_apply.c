/* What each record does to the durable state; and to what this life has in its place. */
#include "core/tasks_state.h"

#include <string.h>

/* ---- durations ---- */

/* Two buckets for each doubling. */
uint32_t took_bucket(uint32_t ms)
{
    uint32_t log2 = 31 - (uint32_t)__builtin_clz(ms | 1);

    return 2 * log2 + (log2 > 0 ? ms >> (log2 - 1) & 1 : 0);
}

/* What all but the slowest took, or a little more; 0: it is not known. */
uint64_t took_slow(const struct totals *of)
{
    uint64_t seen = 0, wanted = ((uint64_t)of->took_n * SLOW_PERCENT + 99) / 100;

    if (of->took_n < SAMPLES_MIN) {
        return 0;
    }
    for (uint32_t i = 0; i < TASKS_TOOK_N; i++) {
        seen += of->took[i];
        if (seen >= wanted) {
            return i % 2 == 0 ? UINT64_C(3) << i / 2 >> 1 : UINT64_C(2) << i / 2;
        }
    }
    return 0;
}

static void count_took(struct totals *of, uint32_t ms)
{
    if (ms == 0) {
        return;
    }
    of->took[took_bucket(ms)]++;
    if (++of->took_n >= SAMPLES_MAX) { /* What is old counts less. */
        of->took_n = 0;
        for (uint32_t i = 0; i < TASKS_TOOK_N; i++) {
            of->took[i] /= 2;
            of->took_n += of->took[i];
        }
    }
}

/* ---- winners ---- */

static void won_add(struct tasks *t, uint64_t id, uint32_t w, uint64_t number)
{
    uint32_t i = table_add(&t->won_ids, id);

    t->won[i] = (struct won){number, w};
    chain_push(&t->won_all, t->won_links, i);
    chain_push(&t->workers[w].won, t->won_of_links, i);
}

void won_drop(struct tasks *t, uint32_t i)
{
    chain_drop(&t->won_all, t->won_links, i);
    chain_drop(&t->workers[t->won[i].worker].won, t->won_of_links, i);
    table_drop(&t->won_ids, i);
}

static void won_acked(struct tasks *t, uint32_t w, uint64_t acked)
{
    uint32_t i, next;

    for (i = t->workers[w].won.first; i != NONE; i = next) {
        next = t->won_of_links[i].next;
        if (t->won[i].number <= acked) {
            won_drop(t, i);
        }
    }
}

/* ---- descriptions ---- */

static int apply_set(struct tasks *t, const struct rec_tasks_set *r)
{
    int rc = r->kind < TASK_SETS ? set_head_check(t, r, NULL, 0) : MU_EINVAL;

    if (rc != MU_OK || set_whole(&t->sets[r->kind]) != 0) {
        return rc == MU_ELIMIT ? rc : MU_ECORRUPT;
    }
    set_apply_head(t, r);
    return MU_OK;
}

static int apply_files(struct tasks *t, const struct rec_tasks_files *r)
{
    int rc = set_files_check(t, r, NULL, 0);

    if (rc != MU_OK) {
        return rc == MU_ELIMIT ? rc : MU_ECORRUPT;
    }
    set_apply_files(t, r);
    t->sets[r->kind].pending = false;
    return MU_OK;
}

/* ---- passes ---- */

static int apply_start(struct tasks *t, const struct rec_tasks_start *r)
{
    if (r->start <= t->start || r->start >= 1u << 24) {
        return MU_ECORRUPT;
    }
    t->start = r->start;
    t->started = t->live;
    t->starting = false;
    return MU_OK;
}

static bool follows(const struct tasks *t, const struct rec_tasks_pass *r)
{
    if (r->kind == TASK_TRAINING) {
        const struct rec_tasks_set *s = &t->sets[TASK_TRAINING].head;

        return r->epoch == t->next_epoch && !t->cleared &&
               (s->epochs <= 0 || r->epoch < (uint64_t)s->epochs);
    }
    return r->kind == TASK_EVALUATION
               ? t->waiting_n == 0 ? t->sets[r->kind].head.at_once && !(t->once >> r->kind & 1)
                                   : r->version == t->waiting[0]
               : !(t->once >> r->kind & 1);
}

static int apply_pass(struct tasks *t, const struct rec_tasks_pass *r)
{
    uint32_t n = r->kind < TASK_KINDS ? pass_tasks(t, r->kind) : 0;
    const struct pass *p = n != 0 ? &t->passes[pass_slot(r->kind, r->epoch)] : NULL;

    if (p == NULL || (p->open && !pass_over(p)) || r->first_id == 0 ||
        r->first_id > UINT64_MAX - n || r->parked_n > (r->kept ? n : 0) ||
        r->settled_to > (r->kept ? n : 0) ||
        (r->kept ? r->first_id + n > t->next_id : r->first_id != t->next_id || !follows(t, r))) {
        return MU_ECORRUPT;
    }
    pass_open(t, r);
    if (r->kept) {
        for (uint32_t i = 0; i < r->settled_to; i++) {
            pass_settle(t, &t->passes[pass_slot(r->kind, r->epoch)], i);
        }
        return MU_OK;
    }
    t->next_id += n;
    if (r->kind == TASK_TRAINING) {
        t->next_epoch = r->epoch + 1;
    } else {
        t->once |= (uint8_t)(1u << r->kind);
    }
    if (r->kind == TASK_EVALUATION) {
        t->metrics.n = t->metrics.words_n = 0;
        if (t->waiting_n > 0) {
            t->waiting_n--;
            memmove(t->waiting, t->waiting + 1, t->waiting_n * sizeof(t->waiting[0]));
        }
    }
    return MU_OK;
}

static int apply_bits(struct tasks *t, const struct rec_tasks_bits *r)
{
    struct pass *p = r->kind < TASK_KINDS ? &t->passes[pass_slot(r->kind, r->epoch)] : NULL;

    if (p == NULL || !p->open || p->kind != r->kind || p->epoch != r->epoch || !bits_fit(p, r)) {
        return MU_ECORRUPT;
    }
    for (uint32_t i = 0; i < r->words_n / 8; i++) {
        uint64_t *word = &p->bits[r->at + i];
        uint64_t more = word_get(r->words + (size_t)8 * i) & ~*word;

        *word |= more;
        p->settled_n += (uint32_t)__builtin_popcountll(more);
    }
    p->filling = false;
    return MU_OK;
}

static int apply_reserve(struct tasks *t, const struct rec_tasks_reserve *r)
{
    struct pass *p = pass_of(t, r->first_id);

    if (p == NULL || p->first_id != r->first_id || !pass_loose(t, p) || r->n == 0 ||
        r->n > p->n - p->settled_n || pass_unsettled(p, 0) != p->settled_n) {
        return MU_ECORRUPT;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        struct place at = set_place(t, p, p->settled_n);

        t->totals[TASK_TRAINING].records += at.end - at.first;
        pass_settle(t, p, p->settled_n);
    }
    p->block_end = p->settled_n;
    p->filling = false;
    t->totals[TASK_TRAINING].done += r->n;
    return MU_OK;
}

/* Its entries are forgotten, and who works on them hears so. */
static void pass_close(struct tasks *t, struct pass *p)
{
    for (uint32_t e = 0; e < t->entry_ids.fresh; e++) {
        uint64_t id = t->entry_ids.keys[e];

        if (id >= p->first_id && id - p->first_id < p->n && table_find(&t->entry_ids, id) == e) {
            entry_drop(t, e);
        }
    }
    p->open = false;
}

static int apply_cleared(struct tasks *t, const struct rec_tasks_cleared *r)
{
    if (t->cleared || set_whole(&t->sets[TASK_TRAINING]) == 0) {
        return MU_ECORRUPT;
    }
    t->cleared = true;
    t->clearing = false;
    t->sure_version = MAX(t->sure_version, r->version);
    t->version = MAX(t->version, t->sure_version);
    for (uint32_t i = 0; i < 2; i++) {
        if (t->passes[i].open && !pass_over(&t->passes[i])) {
            pass_close(t, &t->passes[i]);
        }
        t->passes[i].block_at = t->passes[i].block_end;
    }
    return MU_OK;
}

/* ---- tasks ---- */

static void keep_result(struct tasks *t, uint64_t version)
{
    if (t->results_n == TASKS_RESULTS_MAX) {
        t->results_n--;
        memmove(t->results, t->results + 1, t->results_n * sizeof(t->results[0]));
    }
    struct tasks_result *result = &t->results[t->results_n++];
    *result = (struct tasks_result){.version = version, .metrics_n = t->metrics.n};
    for (uint32_t i = 0; i < t->metrics.n; i++) {
        strcpy(result->metrics[i].name, t->metrics.of[i].name);
        result->metrics[i].value = sums_value(&t->metrics, i);
    }
    t->metrics.n = t->metrics.words_n = 0;
}

static void settle(struct tasks *t, struct pass *p, uint64_t id)
{
    uint32_t e = table_find(&t->entry_ids, id);

    if (e != NONE) {
        entry_drop(t, e);
    }
    pass_settle(t, p, (uint32_t)(id - p->first_id));
    if (pass_over(p) && p->kind == TASK_EVALUATION) {
        keep_result(t, p->version);
    }
}

/* Undone again: the check marks bits, so that it finds what is there twice. */
static void unmark(struct tasks *t, const struct rec_tasks_done *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct pass *p = pass_of(t, r->items[i].id);
        uint32_t k = (uint32_t)(r->items[i].id - p->first_id);

        p->bits[k / 64] &= ~(UINT64_C(1) << k % 64);
    }
}

static bool items_fit(struct tasks *t, const struct rec_tasks_done *r)
{
    uint32_t n = 0;

    for (; n < r->items_n; n++) {
        struct pass *p = pass_of(t, r->items[n].id);
        uint32_t k = p == NULL ? 0 : (uint32_t)(r->items[n].id - p->first_id);

        if (p == NULL || pass_loose(t, p) || pass_bit(p, k)) {
            break;
        }
        p->bits[k / 64] |= UINT64_C(1) << k % 64;
    }
    unmark(t, r, n);
    return n == r->items_n;
}

/* A record of a result is not on its way any more. In a replay it never was. */
static void done_ended(struct tasks *t, uint32_t w, const struct rec_tasks_done *r)
{
    if (t->workers[w].pending_n > 0) {
        t->workers[w].pending_n--;
        t->won_pending -= r->items_n;
        t->metrics_pending -= r->metrics_n > 0;
    }
}

static int apply_done(struct tasks *t, const struct rec_tasks_done *r)
{
    uint32_t w;
    bool fresh;

    if (r->number <= r->acked || !items_fit(t, r) ||
        (r->metrics_n > 0 &&
         (r->items_n != 1 || pass_of(t, r->items[0].id)->kind != TASK_EVALUATION ||
          !sums_fit(&t->metrics, r->metrics, r->metrics_n, r->values_n, &fresh, NULL, 0)))) {
        return MU_ECORRUPT;
    }
    w = worker_open(t, r->worker);
    if (w == NONE || r->items_n > t->won_ids.cap - t->won_ids.n) {
        return MU_ELIMIT;
    }
    done_ended(t, w, r);
    won_acked(t, w, MUTATED(KEPT_UNTIL_ACKED) ? r->number : r->acked);
    if (r->metrics_n > 0) {
        sums_add(&t->metrics, r->metrics, r->metrics_n, r->values);
    }
    for (uint32_t i = 0; i < r->items_n; i++) {
        const struct task_done *item = &r->items[i];
        struct pass *p = pass_of(t, item->id);
        struct totals *of = &t->totals[p->kind];
        struct place at = set_place(t, p, (uint32_t)(item->id - p->first_id));

        of->done++;
        of->records += at.end - at.first;
        of->failed_records += item->failed_records;
        count_took(of, item->took_ms);
        won_add(t, item->id, w, r->number);
        settle(t, p, item->id);
    }
    return MU_OK;
}

static int apply_parked(struct tasks *t, const struct rec_tasks_parked *r)
{
    struct pass *p = pass_of(t, r->id);

    if (r->kept
            ? r->kind >= TASK_KINDS || r->file >= t->sets[r->kind < TASK_SETS ? r->kind : 0].files_n
            : p == NULL || pass_loose(t, p) || pass_bit(p, (uint32_t)(r->id - p->first_id))) {
        return MU_ECORRUPT;
    }
    if (r->kept && t->parked_listed_n == t->limits.parked_n) {
        return MU_ELIMIT;
    }
    if (t->parked_listed_n < t->limits.parked_n) {
        struct rec_tasks_parked *to = &t->parked[t->parked_listed_n++];

        *to = *r;
        to->kept = true;
        if (!r->kept) {
            struct place at = set_place(t, p, (uint32_t)(r->id - p->first_id));

            to->kind = p->kind;
            to->epoch = p->epoch;
            to->file = at.file;
            to->first = at.first;
            to->end = at.end;
        }
    }
    if (!r->kept) {
        t->parked_n++;
        t->totals[p->kind].parked++;
        p->parked_n++;
        settle(t, p, r->id);
    }
    return MU_OK;
}

static int apply_gone(struct tasks *t, const struct rec_tasks_gone *r)
{
    uint32_t w = table_find(&t->worker_ids, r->worker);

    if (w != NONE) {
        won_acked(t, w, UINT64_MAX);
    }
    return MU_OK;
}

static int apply_eval(struct tasks *t, const struct rec_tasks_eval *r)
{
    if (!RULE(NEWER_IS_EVALUATED, r->version > t->asked) || !t->sets[TASK_EVALUATION].there) {
        return MU_ECORRUPT;
    }
    if (t->waiting_n == TASKS_WAITING_MAX) {
        return MU_ELIMIT;
    }
    t->asked = r->version;
    t->sure_version = MAX(t->sure_version, r->version);
    t->version = MAX(t->version, t->sure_version);
    t->waiting[t->waiting_n++] = r->version;
    t->asking_n -= t->asking_n > 0;
    return MU_OK;
}

/* ---- snapshots ---- */

static bool any_open(const struct tasks *t)
{
    bool any = false;

    for (uint32_t i = 0; i < SLOTS_N; i++) {
        any |= t->passes[i].open;
    }
    return any;
}

static int apply_state(struct tasks *t, const struct rec_tasks_state *r)
{
    if (any_open(t) || r->next_id < t->next_id || r->start >= 1u << 24 ||
        r->waiting_n > TASKS_WAITING_MAX) {
        return MU_ECORRUPT;
    }
    t->start = r->start;
    t->next_id = r->next_id;
    t->next_epoch = r->next_epoch;
    t->asked = r->asked;
    t->version = t->sure_version = r->version;
    t->cleared = r->cleared;
    t->once = r->once;
    t->parked_n = r->parked_n;
    t->waiting_n = r->waiting_n;
    for (uint32_t i = 0; i < r->waiting_n; i++) {
        t->waiting[i] = r->waiting[i].value;
    }
    return MU_OK;
}

static int apply_totals(struct tasks *t, const struct rec_tasks_totals *r)
{
    struct totals of = {r->done, r->records, r->failed_records, r->parked, {0}, 0};

    if (r->kind >= TASK_KINDS || r->took_n > TASKS_TOOK_N) {
        return MU_ECORRUPT;
    }
    for (uint32_t i = 0; i < r->took_n; i++) {
        if (r->took[i].value >= SAMPLES_MAX) {
            return MU_ECORRUPT;
        }
        of.took[i] = (uint32_t)r->took[i].value;
        of.took_n += of.took[i];
    }
    t->totals[r->kind] = of;
    return MU_OK;
}

static int apply_won(struct tasks *t, const struct rec_tasks_won *r)
{
    if (r->items_n > t->won_ids.cap - t->won_ids.n) {
        return MU_ELIMIT;
    }
    for (uint32_t i = 0; i < r->items_n; i++) {
        bool twice = table_find(&t->won_ids, r->items[i].id) != NONE;
        uint32_t w = twice ? NONE : worker_open(t, r->items[i].worker);

        if (w == NONE) {
            while (i-- > 0) {
                won_drop(t, t->won_all.last);
            }
            return twice ? MU_ECORRUPT : MU_ELIMIT;
        }
        won_add(t, r->items[i].id, w, r->items[i].number);
    }
    return MU_OK;
}

static int apply_metrics(struct tasks *t, const struct rec_tasks_metrics *r)
{
    if (!r->over) {
        return sums_load(&t->metrics, r->metrics, r->metrics_n, r->values, r->values_n)
                   ? MU_OK
                   : MU_ECORRUPT;
    }
    if (t->results_n == TASKS_RESULTS_MAX || r->metrics_n > TASKS_METRICS_MAX ||
        r->values_n != 8 * r->metrics_n) {
        return MU_ECORRUPT;
    }
    struct tasks_result *result = &t->results[t->results_n++];
    *result = (struct tasks_result){.version = r->version, .metrics_n = r->metrics_n};
    for (uint32_t i = 0; i < r->metrics_n; i++) {
        uint64_t bits = word_get(r->values + (size_t)8 * i);

        strcpy(result->metrics[i].name, r->metrics[i].name);
        memcpy(&result->metrics[i].value, &bits, sizeof(bits));
    }
    return MU_OK;
}

static int apply(struct tasks *t, const struct tasks_record *r)
{
    switch (r->kind) {
    case TASKS_SET:
        return apply_set(t, &r->u.set);
    case TASKS_FILES:
        return apply_files(t, &r->u.files);
    case TASKS_START:
        return apply_start(t, &r->u.start);
    case TASKS_PASS:
        return apply_pass(t, &r->u.pass);
    case TASKS_BITS:
        return apply_bits(t, &r->u.bits);
    case TASKS_DONE:
        return apply_done(t, &r->u.done);
    case TASKS_PARKED:
        return apply_parked(t, &r->u.parked);
    case TASKS_GONE:
        return apply_gone(t, &r->u.gone);
    case TASKS_EVAL:
        return apply_eval(t, &r->u.eval);
    case TASKS_CLEARED:
        return apply_cleared(t, &r->u.cleared);
    case TASKS_RESERVE:
        return apply_reserve(t, &r->u.reserve);
    case TASKS_STATE:
        return apply_state(t, &r->u.state);
    case TASKS_TOTALS:
        return apply_totals(t, &r->u.totals);
    case TASKS_WON:
        return apply_won(t, &r->u.won);
    case TASKS_METRICS:
        return apply_metrics(t, &r->u.metrics);
    case TASKS_LAST:
        break;
    }
    return MU_ECORRUPT;
}

/* Every record begins with its job. */
int tasks_apply(struct tasks *t, const struct tasks_record *r)
{
    int rc = strcmp(r->u.set.job, t->job) == 0 ? apply(t, r) : MU_ECORRUPT;

    t->due = true;
    return rc;
}

/* ---- never durable ---- */

static void done_failed(struct tasks *t, const struct rec_tasks_done *r)
{
    uint32_t w = table_find(&t->worker_ids, r->worker);

    done_ended(t, w, r);
    for (uint32_t i = 0; i < r->items_n; i++) {
        uint32_t e = table_find(&t->entry_ids, r->items[i].id);

        if (e != NONE) {
            entry_back(t, e);
        }
    }
}

void tasks_failed(struct tasks *t, const struct tasks_record *r)
{
    struct pass *p = NULL;
    uint32_t e;

    t->due = true;
    switch (r->kind) {
    case TASKS_SET:
        t->sets[r->u.set.kind].pending = false;
        break;
    case TASKS_FILES:
        t->sets[r->u.files.kind].pending = false;
        break;
    case TASKS_START:
        t->starting = false;
        break;
    case TASKS_PASS:
        t->passes[pass_slot(r->u.pass.kind, r->u.pass.epoch)].opening = false;
        break;
    case TASKS_BITS:
        t->passes[pass_slot(r->u.bits.kind, r->u.bits.epoch)].filling = false;
        break;
    case TASKS_RESERVE:
        p = pass_of(t, r->u.reserve.first_id);
        if (p != NULL) {
            p->filling = false;
        }
        break;
    case TASKS_DONE:
        done_failed(t, &r->u.done);
        break;
    case TASKS_PARKED:
        e = table_find(&t->entry_ids, r->u.parked.id);
        if (e != NONE) {
            entry_back(t, e);
        }
        break;
    case TASKS_EVAL:
        t->asking_n--;
        t->asking = 0;
        break;
    case TASKS_CLEARED:
        t->clearing = false;
        break;
    default:
        break; /* One that is gone stays known for longer; the others are of snapshots. */
    }
}
