/* What workers report: which results count. */
#include "core/tasks_state.h"

#include "core/text.h"

#include <string.h>

#define TASK_NEW TASK_VERDICTS           /* it will count, or its failure is to be noted */
#define TASK_WRITTEN (TASK_VERDICTS + 1) /* something of it is on its way to the journal */

const char *task_verdict_text(enum task_verdict v)
{
    static const char *const texts[TASK_VERDICTS] = {
        [TASK_COUNTED] = "its result counts",
        [TASK_NOTED] = "that it failed is noted",
        [TASK_STALE] = "refused: it was given to another worker since; drop the result",
        [TASK_TAKEN] = "refused: another result of it counts; drop this one",
        [TASK_IS_PARKED] = "refused: it failed too often and is parked; drop the result",
        [TASK_OVER] = "refused: training has ended, or there is no such task; drop the result",
    };

    return v < TASK_VERDICTS ? texts[v] : "unknown";
}

/* Of a task that is settled: does this very report count? */
static uint8_t judge_settled(const struct tasks *t, const struct tasks_report *r, uint64_t id)
{
    uint32_t w = table_find(&t->won_ids, id);

    if (w != NONE && t->worker_ids.keys[t->won[w].worker] == r->worker &&
        t->won[w].number == r->number) {
        return MUTATED(WINNER_IS_TOLD) ? TASK_TAKEN : TASK_COUNTED;
    }
    for (uint32_t i = 0; i < t->parked_listed_n; i++) {
        if (t->parked[i].id == id) {
            return TASK_IS_PARKED;
        }
    }
    return TASK_TAKEN;
}

/* … of a pass that is not there any more. */
static uint8_t judge_gone(const struct tasks *t, const struct tasks_report *r,
                          const struct task_item *item)
{
    uint64_t id = item->id;

    for (uint32_t i = 0; i < 2 && t->cleared; i++) {
        const struct pass *p = &t->passes[i];

        if (id >= p->first_id && id - p->first_id < p->n &&
            !pass_bit(p, (uint32_t)(id - p->first_id))) {
            return TASK_OVER;
        }
    }
    if (id == 0 || id >= t->next_id) {
        return TASK_OVER;
    }
    /* Attempts at loose tasks are the odd ones. */
    return item->attempt % 2 == 1 ? TASK_COUNTED : judge_settled(t, r, id);
}

static uint8_t judge(struct tasks *t, const struct tasks_report *r, const struct task_item *item)
{
    const struct pass *p = pass_of(t, item->id);
    uint32_t e = table_find(&t->entry_ids, item->id);

    if (p == NULL) {
        return judge_gone(t, r, item);
    }
    if (pass_loose(t, p)) {
        return item->failed ? TASK_NOTED : TASK_COUNTED; /* By nobody. */
    }
    if (pass_bit(p, (uint32_t)(item->id - p->first_id)) && !MUTATED(ONE_RESULT)) {
        return judge_settled(t, r, item->id);
    }
    if (e == NONE) {
        return attempt_before(t, item->attempt) ? TASK_NEW : TASK_STALE;
    }
    const struct entry *entry = &t->entries[e];
    if (entry->state == ENTRY_PENDING) {
        return TASK_WRITTEN;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const struct hold *hold = &entry->holds[k];

        if (hold->attempt == item->attempt && item->attempt != 0 &&
            (hold->worker == NONE || t->worker_ids.keys[hold->worker] == r->worker)) {
            return TASK_NEW;
        }
    }
    return TASK_STALE;
}

static int check_items(const struct tasks_report *r, char *why, size_t cap)
{
    if (r->number > r->acked && r->number - r->acked > TASKS_WINDOW) {
        text_say(why, cap, "%d reports wait for an answer: no more before the oldest has one",
                 TASKS_WINDOW);
        return MU_EINVAL;
    }
    if (r->items_n == 0 || r->items_n > TASKS_REPORT_MAX || r->number <= r->acked) {
        text_say(why, cap,
                 "a report has a number above those that were answered (%" PRIu64
                 " is not above %" PRIu64 "), and 1 to %d tasks, not %" PRIu32,
                 r->number, r->acked, TASKS_REPORT_MAX, r->items_n);
        return MU_EINVAL;
    }
    for (uint32_t i = 0; i < r->items_n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (r->items[i].id == r->items[k].id) {
                text_say(why, cap, "task %" PRIu64 " is in the report twice", r->items[i].id);
                return MU_EINVAL;
            }
        }
    }
    return MU_OK;
}

static int check_metrics(struct tasks *t, const struct tasks_report *r, uint8_t verdict, char *why,
                         size_t cap)
{
    const struct pass *p = pass_of(t, r->items[0].id);
    bool fresh;

    if (r->metrics_n == 0 || (r->items_n == 1 && verdict != TASK_NEW)) {
        return MU_OK;
    }
    if (r->items_n != 1 || r->items[0].failed || p->kind != TASK_EVALUATION) {
        text_say(why, cap,
                 "metrics come with one task of an evaluation that did not fail; task %" PRIu64
                 " is none",
                 r->items[0].id);
        return MU_EINVAL;
    }
    if (!sums_fit(&t->metrics, r->metrics, r->metrics_n, r->values_n, &fresh, why, cap)) {
        return MU_EINVAL;
    }
    if (fresh && t->metrics_pending > 0) {
        text_say(why, cap, "the first metrics of this evaluation are being written: try again");
        return MU_EAGAIN;
    }
    return MU_OK;
}

/* Is there room for all that is new in a report? */
static int check_room(struct tasks *t, const struct tasks_report *r, const uint8_t *verdicts,
                      char *why, size_t cap)
{
    uint32_t fresh_n = 0, won_n = 0;

    for (uint32_t i = 0; i < r->items_n; i++) {
        if (verdicts[i] == TASK_WRITTEN) {
            text_say(why, cap, "a result of task %" PRIu64 " is being written: try again",
                     r->items[i].id);
            return MU_EAGAIN;
        }
        if (verdicts[i] != TASK_NEW) {
            continue;
        }
        if (t->clearing && pass_of(t, r->items[i].id)->kind == TASK_TRAINING) {
            text_say(why, cap, "the end of training is being written: try again");
            return MU_EAGAIN;
        }
        fresh_n += table_find(&t->entry_ids, r->items[i].id) == NONE;
        won_n += !r->items[i].failed;
    }
    if (fresh_n > t->entry_ids.cap - t->entry_ids.n ||
        t->won_ids.n + t->won_pending + won_n > t->won_ids.cap) {
        text_say(why, cap,
                 "too many results (%" PRIu32 ") are kept for workers that have not heard "
                 "that they count: try again",
                 t->won_ids.n);
        return MU_EAGAIN;
    }
    return MU_OK;
}

static uint32_t took_ms(const struct tasks *t, uint32_t e, uint64_t attempt)
{
    for (uint32_t k = 0; k < 2; k++) {
        const struct hold *hold = &t->entries[e].holds[k];

        if (hold->attempt == attempt && !hold->claimed) {
            return (uint32_t)MIN(MAX(t->clock_ms - hold->given_ms, 1), UINT32_MAX);
        }
    }
    return 0;
}

static uint32_t entry_for(struct tasks *t, uint64_t id)
{
    uint32_t e = table_find(&t->entry_ids, id);

    return e != NONE ? e : entry_open(t, id, (uint8_t)(pass_of(t, id) - t->passes));
}

static void fail(struct tasks *t, const struct tasks_report *r, const struct task_item *item,
                 struct tasks_out *out)
{
    bool unclaimed = table_find(&t->entry_ids, item->id) == NONE;

    if (unclaimed && t->clock_ms < t->grace_ms) {
        return; /* Somebody else may yet claim a newer attempt; if not, it is given out then. */
    }
    uint32_t e = entry_for(t, item->id);
    struct entry *entry = &t->entries[e];
    char text[TEXT_MAX_LEN];

    if (entry->state == ENTRY_BACK) { /* It was lost before; entry_again() puts it back. */
        entry_pend(t, e);
        entry->state = ENTRY_DOING;
    }
    for (uint32_t k = 0; k < 2; k++) {
        if (entry->holds[k].attempt == item->attempt) {
            hold_end(t, 2 * e + k);
            entry->holds[k].attempt = 0;
        }
    }
    entry->failures++;
    text_say(text, sizeof(text), "%s",
             r->text != NULL && r->text[0] != '\0' ? r->text : "its worker did not say why");
    entry_again(t, e, r->worker, text, out);
}

static void send(struct tasks *t, const struct tasks_report *r, uint32_t w, uint32_t n,
                 struct tasks_out *out)
{
    struct tasks_record record = {.kind = TASKS_DONE};
    struct rec_tasks_done *done = &record.u.done;

    strcpy(done->job, t->job);
    done->worker = r->worker;
    done->number = r->number;
    done->acked = r->acked;
    done->items_n = n;
    done->items = t->items;
    done->metrics_n = r->metrics_n;
    /* Records own nothing: whoever reads one reads these, and none writes them. */
    done->metrics = (struct task_metric *)(uintptr_t)r->metrics;
    done->values_n = r->metrics_n == 0 ? 0 : r->values_n;
    done->values = (uint8_t *)(uintptr_t)r->values;
    t->workers[w].pending_n++;
    t->won_pending += n;
    t->metrics_pending += r->metrics_n > 0;
    tasks_put(out, &record);
}

/* Is there anything to forget, and need for it? */
static bool ack_due(const struct tasks *t, const struct worker *of, uint64_t acked)
{
    if (of->pending_n > 0 || t->won_ids.n + t->won_pending <= t->won_ids.cap / 2) {
        return false;
    }
    for (uint32_t i = of->won.first; i != NONE; i = t->won_of_links[i].next) {
        if (t->won[i].number <= acked) {
            return true;
        }
    }
    return false;
}

/* A record of no results. */
void tasks_acked(struct tasks *t, wid worker, uint64_t acked, struct tasks_out *out)
{
    uint32_t w = table_find(&t->worker_ids, worker);
    struct tasks_report r = {.worker = worker, .number = acked + 1, .acked = acked};

    if (w != NONE && acked < UINT64_MAX && ack_due(t, &t->workers[w], acked)) {
        send(t, &r, w, 0, out);
    }
}

int tasks_report(struct tasks *t, const struct tasks_report *report, uint64_t now_ms,
                 struct tasks_out *out, uint8_t *verdicts, bool *pending, char *why, size_t cap)
{
    uint32_t w = worker_open(t, report->worker);
    uint32_t n = 0;
    int rc = check_items(report, why, cap);

    tasks_pass_time(t, now_ms);
    *pending = false;
    if (w == NONE || !t->live) {
        text_say(why, cap, "there are too many workers: try again");
        return MU_EAGAIN;
    }
    for (uint32_t i = 0; rc == MU_OK && i < report->items_n; i++) {
        verdicts[i] = judge(t, report, &report->items[i]);
    }
    rc = rc == MU_OK ? check_room(t, report, verdicts, why, cap) : rc;
    if (rc == MU_EAGAIN) {
        tasks_acked(t, report->worker, report->acked, out);
    }
    rc = rc == MU_OK ? check_metrics(t, report, verdicts[0], why, cap) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    for (uint32_t i = 0; i < report->items_n; i++) {
        const struct task_item *item = &report->items[i];

        if (verdicts[i] != TASK_NEW) {
            continue;
        }
        verdicts[i] = item->failed ? TASK_NOTED : TASK_COUNTED;
        if (item->failed) {
            fail(t, report, item, out);
            continue;
        }
        uint32_t e = entry_for(t, item->id);
        t->items[n++] =
            (struct task_done){item->id, took_ms(t, e, item->attempt), item->failed_records};
        entry_pend(t, e);
    }
    if (n > 0) {
        *pending = true;
        send(t, report, w, n, out);
    }
    return MU_OK;
}
