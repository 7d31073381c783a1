/* Passes over data sets: when each begins, what is settled in it, and when all is over. */
#include "core/tasks_state.h"

#include "core/text.h"

#include <string.h>

uint32_t pass_slot(uint8_t kind, uint64_t epoch)
{
    return kind == TASK_TRAINING ? (uint32_t)(epoch % 2)
                                 : (uint32_t)(SLOT_EVALUATION + kind - TASK_EVALUATION);
}

struct pass *pass_of(struct tasks *t, uint64_t id)
{
    for (uint32_t i = 0; i < SLOTS_N; i++) {
        struct pass *p = &t->passes[i];

        if (p->open && id >= p->first_id && id - p->first_id < p->n) {
            return p;
        }
    }
    return NULL;
}

bool pass_bit(const struct pass *p, uint32_t position)
{
    return p->bits[position / 64] >> position % 64 & 1;
}

uint32_t pass_tasks(const struct tasks *t, uint8_t kind)
{
    uint32_t n = set_whole(&t->sets[kind < TASK_SETS ? kind : TASK_TRAINING]);

    return kind < TASK_SETS ? n : MIN(n, 1);
}

void pass_open(struct tasks *t, const struct rec_tasks_pass *r)
{
    struct pass *p = &t->passes[pass_slot(r->kind, r->epoch)];
    uint32_t n = pass_tasks(t, r->kind);

    memset(p->bits, 0, (n + (size_t)63) / 64 * sizeof(p->bits[0]));
    *p = (struct pass){
        .open = true,
        .kind = r->kind,
        .epoch = r->epoch,
        .version = r->version,
        .first_id = r->first_id,
        .start = r->start,
        .n = n,
        .parked_n = r->parked_n,
        .bits = p->bits,
        .back = CHAIN_EMPTY,
    };
    if (r->kind < TASK_SETS) {
        mu_assert(order_init(&p->order, t->sets[r->kind].head.seed, r->epoch, n) == MU_OK);
    }
}

void pass_settle(struct tasks *t, struct pass *p, uint32_t position)
{
    p->bits[position / 64] |= UINT64_C(1) << position % 64;
    p->settled_n++;
    t->due |= pass_over(p);
}

uint32_t pass_unsettled(const struct pass *p, uint32_t from)
{
    while (from < p->n) {
        uint64_t left = ~p->bits[from / 64] >> from % 64;

        if (left != 0) {
            return MIN(from + (uint32_t)__builtin_ctzll(left), p->n);
        }
        from = (from / 64 + 1) * 64;
    }
    return p->n;
}

bool pass_loose(const struct tasks *t, const struct pass *p)
{
    return p->kind == TASK_TRAINING && t->sets[TASK_TRAINING].head.loose;
}

/* How many of its tasks were done when the checkpoint was taken. */
static uint32_t resumed(const struct tasks *t, uint64_t epoch)
{
    const struct rec_tasks_set *s = &t->sets[TASK_TRAINING].head;

    return epoch == s->resume_epoch       ? s->resume_done
           : epoch == s->resume_epoch + 1 ? s->resume_next
                                          : 0;
}

bool pass_ready(const struct tasks *t, const struct pass *p)
{
    return p->kind != TASK_TRAINING || p->settled_n >= resumed(t, p->epoch);
}

/* ---- what is next ---- */

static bool slot_busy(const struct tasks *t, uint32_t slot)
{
    const struct pass *p = &t->passes[slot];

    return p->opening || (p->open && (!pass_over(p) || p->block_at < p->block_end));
}

static bool no_more_epochs(const struct tasks *t)
{
    const struct rec_tasks_set *s = &t->sets[TASK_TRAINING].head;

    return t->cleared || (s->epochs > 0 && t->next_epoch >= (uint64_t)s->epochs);
}

bool training_over(const struct tasks *t)
{
    return no_more_epochs(t) && !slot_busy(t, SLOT_EPOCH) && !slot_busy(t, SLOT_OTHER_EPOCH);
}

static bool once(const struct tasks *t, uint8_t kind)
{
    return t->once >> kind & 1;
}

static bool epoch_due(const struct tasks *t)
{
    const struct rec_tasks_set *s = &t->sets[TASK_TRAINING].head;
    uint32_t slot = pass_slot(TASK_TRAINING, t->next_epoch);
    const struct pass *last = &t->passes[!slot];

    if (set_whole(&t->sets[TASK_TRAINING]) == 0 || no_more_epochs(t) || t->clearing ||
        slot_busy(t, slot)) {
        return false;
    }
    return RULE(EPOCH_AFTER_EPOCH, !slot_busy(t, !slot)) ||
           (last->open && pass_ready(t, last) &&
            ((s->overlap && last->next == last->n && last->block_at == last->block_end) ||
             resumed(t, t->next_epoch) > 0));
}

static bool evaluation_due(const struct tasks *t)
{
    return set_whole(&t->sets[TASK_EVALUATION]) != 0 &&
           (t->waiting_n > 0 ||
            (t->sets[TASK_EVALUATION].head.at_once && !once(t, TASK_EVALUATION))) &&
           RULE(ONE_EVALUATION, !slot_busy(t, SLOT_EVALUATION));
}

static bool evaluations_over(const struct tasks *t)
{
    return !slot_busy(t, SLOT_EVALUATION) && !evaluation_due(t) && t->asking_n == 0;
}

/* Training is over, and so is what is due before this. */
static bool last_due(const struct tasks *t, uint8_t kind)
{
    const struct rec_tasks_set *s = &t->sets[TASK_TRAINING].head;

    if (set_whole(&t->sets[TASK_TRAINING]) == 0 || once(t, kind) || !training_over(t) ||
        !evaluations_over(t)) {
        return false;
    }
    return kind == TASK_SAVE
               ? s->save
               : s->end && (!s->save || (once(t, TASK_SAVE) && !slot_busy(t, SLOT_SAVE))) &&
                     (!t->sets[TASK_PREDICTION].there ||
                      (once(t, TASK_PREDICTION) && !slot_busy(t, SLOT_PREDICTION)));
}

static void open_next(struct tasks *t, uint8_t kind, uint64_t epoch, uint64_t version, uint64_t *id,
                      struct tasks_out *out)
{
    struct tasks_record r = {.kind = TASKS_PASS};

    strcpy(r.u.pass.job, t->job);
    r.u.pass.kind = kind;
    r.u.pass.epoch = epoch;
    r.u.pass.version = version;
    r.u.pass.first_id = *id;
    r.u.pass.start = t->start;
    *id += pass_tasks(t, kind);
    t->passes[pass_slot(kind, epoch)].opening = true;
    tasks_put(out, &r);
}

/* One pass at a time is on its way: the ids of the next one depend on it. */
static bool any_opening(const struct tasks *t)
{
    for (uint32_t i = 0; i < SLOTS_N; i++) {
        if (t->passes[i].opening) {
            return true;
        }
    }
    return false;
}

static void clear(struct tasks *t, struct tasks_out *out)
{
    struct tasks_record r = {.kind = TASKS_CLEARED, .u.cleared.version = t->version};

    strcpy(r.u.cleared.job, t->job);
    t->clearing = true;
    tasks_put(out, &r);
}

void passes_advance(struct tasks *t, struct tasks_out *out)
{
    const struct set *training = &t->sets[TASK_TRAINING];
    uint64_t id = t->next_id;

    if (!t->started || any_opening(t)) {
        return;
    }
    if (set_whole(training) != 0 && training->head.max_steps != 0 && !t->cleared && !t->clearing &&
        t->version >= training->head.max_steps) {
        clear(t, out);
        return;
    }
    if (evaluation_due(t)) {
        open_next(t, TASK_EVALUATION, 0, t->waiting_n > 0 ? t->waiting[0] : t->version, &id, out);
    } else if (epoch_due(t)) {
        open_next(t, TASK_TRAINING, t->next_epoch, 0, &id, out);
    } else if (set_whole(&t->sets[TASK_PREDICTION]) != 0 && !once(t, TASK_PREDICTION)) {
        open_next(t, TASK_PREDICTION, 0, 0, &id, out);
    } else if (last_due(t, TASK_SAVE)) {
        open_next(t, TASK_SAVE, 0, 0, &id, out);
    } else if (last_due(t, TASK_END)) {
        open_next(t, TASK_END, 0, 0, &id, out);
    }
}

bool tasks_finished(const struct tasks *t)
{
    const struct rec_tasks_set *s = &t->sets[TASK_TRAINING].head;
    bool any = false;

    for (uint8_t kind = 0; kind < TASK_SETS; kind++) {
        const struct set *set = &t->sets[kind];

        any |= set->there && (kind != TASK_EVALUATION || set->head.at_once);
        if (set->there && set_whole(set) == 0) {
            return false;
        }
    }
    if (!any || any_opening(t) || !evaluations_over(t)) {
        return false;
    }
    for (uint32_t i = 0; i < SLOTS_N; i++) {
        if (slot_busy(t, i)) {
            return false;
        }
    }
    return (!t->sets[TASK_PREDICTION].there || once(t, TASK_PREDICTION)) &&
           (!t->sets[TASK_TRAINING].there ||
            (training_over(t) && (!s->save || once(t, TASK_SAVE)) &&
             (!s->end || once(t, TASK_END))));
}

/* ---- evaluations ---- */

static void ask_evaluation(struct tasks *t, uint64_t version, struct tasks_out *out)
{
    struct tasks_record r = {.kind = TASKS_EVAL, .u.eval.version = version};

    strcpy(r.u.eval.job, t->job);
    t->asking = version;
    t->asking_n++;
    tasks_put(out, &r);
}

int tasks_evaluate(struct tasks *t, uint64_t version, struct tasks_out *out, char *why, size_t cap)
{
    uint64_t last = MAX(t->asked, t->asking);

    if (!t->sets[TASK_EVALUATION].there) {
        text_say(why, cap, "there is no data set for evaluation: describe one first");
        return MU_ENOENT;
    }
    if (!RULE(NEWER_IS_EVALUATED, version > last)) {
        text_say(why, cap,
                 "version %" PRIu64 " is not newer than %" PRIu64 ", which was evaluated or "
                 "waits for it",
                 version, last);
        return MU_ESTALE;
    }
    if (t->waiting_n + t->asking_n >= TASKS_WAITING_MAX) {
        text_say(why, cap, "%d evaluations wait already: make them rarer, or their data smaller",
                 TASKS_WAITING_MAX);
        return MU_ELIMIT;
    }
    ask_evaluation(t, version, out);
    return MU_OK;
}

void tasks_version(struct tasks *t, uint64_t version, struct tasks_out *out)
{
    const struct rec_tasks_set *s = &t->sets[TASK_TRAINING].head;

    /* Levels may leave versions out: what counts is that a multiple was passed. */
    if (s->eval_steps != 0 && version / s->eval_steps > MAX(t->asked, t->asking) / s->eval_steps) {
        tasks_evaluate(t, version, out, NULL, 0);
    }
    if (version > t->version) {
        t->version = version;
        t->due = true;
    }
}

const struct tasks_result *tasks_result(const struct tasks *t, uint32_t i)
{
    return i < t->results_n ? &t->results[t->results_n - 1 - i] : NULL;
}

/* ---- checkpoints ---- */

/* The epochs that a checkpoint is about: the oldest whose pass isn't over, and the next. */
static const struct pass *exported(const struct tasks *t, uint64_t epoch)
{
    const struct pass *p = &t->passes[pass_slot(TASK_TRAINING, epoch)];

    return p->open && p->epoch == epoch ? p : NULL;
}

static uint64_t first_epoch(const struct tasks *t)
{
    for (uint64_t e = t->next_epoch - MIN(t->next_epoch, 2); e < t->next_epoch; e++) {
        const struct pass *p = exported(t, e);

        if (p != NULL && !pass_over(p)) {
            return e;
        }
    }
    return t->next_epoch;
}

static uint32_t listed(const struct tasks *t, const struct pass *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->parked_listed_n; i++) {
        n += t->parked[i].id >= p->first_id && t->parked[i].id - p->first_id < p->n;
    }
    return n;
}

int tasks_export(const struct tasks *t, struct rec_tasks_set *set_out)
{
    const struct set *s = &t->sets[TASK_TRAINING];
    uint64_t epoch = first_epoch(t);
    const struct pass *p = exported(t, epoch), *next = exported(t, epoch + 1);

    if (set_whole(s) == 0) {
        return MU_ENOENT;
    }
    *set_out = s->head;
    set_out->resume_epoch = epoch;
    set_out->resume_done = p != NULL && !s->head.loose ? p->settled_n - listed(t, p) : 0;
    set_out->resume_next = next != NULL && !s->head.loose ? next->settled_n - listed(t, next) : 0;
    set_out->resume_version = t->version;
    set_out->resume_digest = set_digest(s);
    return MU_OK;
}

static void put_words(const struct tasks *t, const struct pass *p, struct rec_tasks_bits *part)
{
    for (uint32_t i = 0; i < part->words_n / 8; i++) {
        word_put(part->words + (size_t)8 * i, p->bits[part->at + i]);
    }
    for (uint32_t i = 0; i < t->parked_listed_n; i++) {
        uint64_t k = t->parked[i].id - p->first_id;

        if (t->parked[i].id >= p->first_id && k < p->n && k / 64 >= part->at &&
            k / 64 < part->at + part->words_n / 8) {
            part->words[(k / 64 - part->at) * 8 + k % 64 / 8] &= (uint8_t) ~(1u << k % 8);
        }
    }
}

bool tasks_export_bits(const struct tasks *t, struct tasks_cursor *at, uint8_t *words,
                       struct rec_tasks_bits *part_out)
{
    uint64_t epoch = first_epoch(t);

    for (; at->part < 2; *at = (struct tasks_cursor){at->part + 1, 0}) {
        const struct pass *p = exported(t, epoch + at->part);
        uint32_t words_n = p != NULL ? (p->n + 63) / 64 : 0;

        if (p == NULL || pass_loose(t, p) || at->at >= words_n) {
            continue;
        }
        *part_out = (struct rec_tasks_bits){.kind = TASK_TRAINING, .epoch = p->epoch, .at = at->at};
        strcpy(part_out->job, t->job);
        part_out->words_n = MIN(words_n - at->at, TASKS_BITS_MAX / 8) * 8;
        part_out->words = words;
        put_words(t, p, part_out);
        at->at += part_out->words_n / 8;
        return true;
    }
    return false;
}

bool bits_fit(const struct pass *p, const struct rec_tasks_bits *part)
{
    uint32_t all = (p->n + 63) / 64, n = part->words_n / 8;

    if (part->words_n % 8 != 0 || n == 0 || n > all || part->at > all - n) {
        return false;
    }
    return part->at + n < all || p->n % 64 == 0 ||
           word_get(part->words + (size_t)8 * (n - 1)) >> p->n % 64 == 0;
}

int tasks_resume(struct tasks *t, const struct rec_tasks_bits *part, struct tasks_out *out,
                 bool *pending, char *why, size_t cap)
{
    const struct set *s = &t->sets[TASK_TRAINING];
    struct pass *p = &t->passes[pass_slot(TASK_TRAINING, part->epoch)];
    struct tasks_record r = {.kind = TASKS_BITS, .u.bits = *part};
    bool fresh = false;

    *pending = false;
    if (set_whole(s) == 0 || resumed(t, part->epoch) == 0) {
        text_say(why, cap,
                 "the description of the data has no place of epoch %" PRIu64
                 " from which it goes on",
                 part->epoch);
        return MU_EINVAL;
    }
    if (s->head.resume_digest != set_digest(s)) {
        text_say(why, cap,
                 "the checkpoint's tasks are of other data: files, records per task, seed or "
                 "shuffling have changed since; begin without them, or with the same data");
        return MU_ECONFLICT;
    }
    if (!p->open || p->epoch != part->epoch) {
        if (part->epoch < t->next_epoch) {
            return MU_OK; /* It is over. */
        }
        text_say(why, cap, "epoch %" PRIu64 " is not open yet: try again", part->epoch);
        return MU_EAGAIN;
    }
    if (pass_ready(t, p)) {
        return MU_OK; /* Somebody else has said it all. */
    }
    if (p->filling) {
        text_say(why, cap, "another part of the tasks that are done is being written: try again");
        return MU_EAGAIN;
    }
    if (!bits_fit(p, part)) {
        text_say(why, cap, "these are no tasks of an epoch of %" PRIu32, p->n);
        return MU_EINVAL;
    }
    for (uint32_t i = 0; i < part->words_n / 8; i++) {
        fresh |= (word_get(part->words + (size_t)8 * i) & ~p->bits[part->at + i]) != 0;
    }
    if (fresh) {
        strcpy(r.u.bits.job, t->job);
        p->filling = *pending = true;
        tasks_put(out, &r);
    }
    return MU_OK;
}
