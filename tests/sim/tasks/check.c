/* What must be true, whatever happens. */
#include "sim/tasks/world.h"

#include <inttypes.h>

static struct truth *truth_of(struct world *w, uint64_t id)
{
    mu_assert(id < TASKS_MAX);
    return &w->truths[id];
}

static bool settled(const struct truth *t)
{
    return t->winner != 0 || t->parked;
}

/* Has somebody who lives and is heard had it in hand since before the start? */
static bool in_hand(const struct world *w, uint64_t id, uint64_t attempt)
{
    for (uint32_t i = 0; i < w->workers_n; i++) {
        const struct worker *worker = &w->workers[i];

        for (uint32_t k = 0; worker->alive && !worker->hangs && k < worker->held_n; k++) {
            const struct held *h = &worker->held[k];

            if (h->task.id == id && h->task.attempt == attempt && !h->taken && h->report == 0 &&
                h->since_ms < w->life_ms) {
                return true;
            }
        }
    }
    return false;
}

static void check_order(struct world *w, const struct task *task)
{
    for (uint64_t id = 1; id < w->ids_n + 1; id++) {
        const struct truth *t = truth_of(w, id);

        if (settled(t)) {
            continue;
        }
        if (task->kind > TASK_PREDICTION && t->kind == TASK_TRAINING) {
            world_fail(w, "the last task was given out before training was done");
        }
        if (t->kind != task->kind) {
            continue;
        }
        if (task->kind == TASK_TRAINING && t->epoch < task->epoch && !w->sets[0].overlap) {
            world_fail(w,
                       "task %" PRIu64 " of epoch %" PRIu64 " was given out before %" PRIu64
                       " of epoch %" PRIu64 " was done",
                       task->id, task->epoch, id, t->epoch);
        }
        if (task->kind == TASK_EVALUATION && t->version != task->version) {
            world_fail(w, "versions %" PRIu64 " and %" PRIu64 " are evaluated at the same time",
                       t->version, task->version);
        }
    }
}

void check_given(struct world *w, wid worker, const struct task *task)
{
    struct truth *t = truth_of(w, task->id);

    if (task->attempt <= w->newest_attempt) {
        if (t->given != task->attempt && !w->copies) {
            world_fail(w, "attempt %" PRIx64 " was given out twice", task->attempt);
        }
        return; /* An answer repeated. */
    }
    w->newest_attempt = task->attempt;
    if (w->sets[0].loose && task->kind == TASK_TRAINING) {
        if (t->given != 0) {
            world_fail(w, "task %" PRIu64 " of a loose pass was given out twice", task->id);
        }
        w->counted_n++;
    } else if (settled(t)) {
        world_fail(w, "task %" PRIu64 " is settled, and was given out", task->id);
    } else if (!w->copies && t->given != 0 && t->life != w->life &&
               w->now_ms < w->life_ms + LEASE_MS && in_hand(w, task->id, t->given)) {
        world_fail(w, "task %" PRIu64 " was given out right after a start, and a worker has it",
                   task->id);
    }
    t->given = task->attempt;
    t->life = w->life;
    check_order(w, task);
}

/* A report is about to count: no newer attempt is out. */
void check_counts(struct world *w, const struct tasks_report *r, const uint8_t *verdicts)
{
    for (uint32_t i = 0; i < r->items_n; i++) {
        const struct truth *t = truth_of(w, r->items[i].id);

        if (verdicts[i] == TASK_COUNTED && !settled(t) && !w->copies && !w->sets[0].loose &&
            t->life == w->life && r->items[i].attempt < t->given) {
            world_fail(w,
                       "attempt %" PRIx64 " of task %" PRIu64 " counts, and %" PRIx64 " is newer",
                       r->items[i].attempt, r->items[i].id, t->given);
        }
    }
}

static void open_pass(struct world *w, const struct rec_tasks_pass *r)
{
    uint32_t n = r->kind == TASK_TRAINING     ? w->per_epoch
                 : r->kind == TASK_EVALUATION ? w->eval_n
                                              : 1;

    if (r->first_id != w->ids_n + 1) {
        world_fail(w, "a pass begins with id %" PRIu64 ", and %" PRIu64 " were used", r->first_id,
                   w->ids_n);
    }
    if (r->kind == TASK_EVALUATION) {
        if (r->version <= w->evaluated) {
            world_fail(w, "version %" PRIu64 " is evaluated after %" PRIu64, r->version,
                       w->evaluated);
        }
        w->evaluated = r->version;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct truth *t = truth_of(w, ++w->ids_n);

        t->kind = r->kind;
        t->epoch = r->epoch;
        t->version = r->version;
    }
}

/* A record is durable. */
void check_record(struct world *w, const struct tasks_record *r)
{
    if (r->kind == TASKS_PASS) {
        open_pass(w, &r->u.pass);
    }
    if (r->kind == TASKS_PARKED) {
        struct truth *t = truth_of(w, r->u.parked.id);

        if (settled(t)) {
            world_fail(w, "task %" PRIu64 " is parked, and was settled", r->u.parked.id);
        }
        t->parked = true;
        w->parked_n++;
    }
    for (uint32_t i = 0; r->kind == TASKS_DONE && i < r->u.done.items_n; i++) {
        struct truth *t = truth_of(w, r->u.done.items[i].id);

        if (settled(t)) {
            world_fail(w, "task %" PRIu64 " counts twice", r->u.done.items[i].id);
        }
        t->winner = r->u.done.worker;
        t->number = r->u.done.number;
        w->counted_n++;
    }
    for (uint32_t i = 0; r->kind == TASKS_RESERVE && i < r->u.reserve.n; i++) {
        uint64_t id = r->u.reserve.first_id;

        while (truth_of(w, id)->parked) {
            id++;
        }
        truth_of(w, id)->parked = true; /* as good as settled */
    }
}

/* A worker hears how it went. */
void check_told(struct world *w, wid worker, uint64_t number, uint64_t id, uint8_t verdict)
{
    struct truth *t = truth_of(w, id);
    bool won = t->winner == worker && t->number == number;

    if (w->sets[0].loose && t->kind == TASK_TRAINING) {
        return;
    }
    if (verdict == TASK_COUNTED && !won) {
        world_fail(w, "a worker heard that task %" PRIu64 " counts, and another result does", id);
    }
    if (verdict != TASK_COUNTED && won) {
        world_fail(w, "a worker heard that task %" PRIu64 " does not count (%s), and it does", id,
                   task_verdict_text(verdict));
    }
    t->told |= won;
}

void check_end(struct world *w)
{
    uint64_t training_n = 0;

    for (uint64_t id = 1; id <= w->ids_n; id++) {
        const struct truth *t = truth_of(w, id);

        training_n += t->kind == TASK_TRAINING;
        if (!settled(t)) {
            world_fail(w, "all is over, and task %" PRIu64 " is not settled", id);
        }
    }
    if (training_n != (uint64_t)w->per_epoch * (uint32_t)w->sets[0].epochs) {
        world_fail(w, "%" PRIu64 " tasks in %d epochs of %u", training_n, w->sets[0].epochs,
                   w->per_epoch);
    }
}
