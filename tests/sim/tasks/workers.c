/* Workers: they ask, work, report, and repeat what was not answered. */
#include "sim/tasks/world.h"

#include <string.h>

struct message *world_send(struct world *w, enum message_kind kind, wid worker)
{
    uint32_t copies = w->healed ? 1 : prng_chance(&w->prng, w->lose_ppm) ? 0 : 1;

    for (uint32_t i = 0; i < MESSAGES_MAX && copies > 0; i++) {
        struct message *m = &w->messages[i];

        if (m->at_ms == 0) {
            memset(m, 0, sizeof(*m));
            m->kind = kind;
            m->worker = worker;
            w->messages_n = MAX(w->messages_n, i + 1);
            m->at_ms = w->now_ms + 1 + world_between(w, 0, w->healed ? 20 : w->late_ms);
            return m;
        }
    }
    return NULL;
}

static struct worker *worker_of(struct world *w, wid self)
{
    struct worker *worker = &w->workers[wid_node(self)];

    return worker->alive && worker->self == self ? worker : NULL;
}

bool worker_alive(struct world *w, wid self)
{
    return worker_of(w, self) != NULL;
}

/* It lives, perhaps; what it has is given to others. */
void worker_lost(struct world *w, wid self)
{
    struct worker *worker = worker_of(w, self);

    for (uint32_t i = 0; worker != NULL && i < worker->held_n; i++) {
        worker->held[i].taken = true;
    }
}

static void claim(struct world *w, const struct worker *worker)
{
    struct message *m = world_send(w, MSG_CLAIM, worker->self);

    if (m != NULL) {
        m->number = worker->got;
        m->n = worker->held_n;
        for (uint32_t i = 0; i < worker->held_n; i++) {
            m->held[i] = (struct task_held){worker->held[i].task.id, worker->held[i].task.attempt};
        }
    }
}

/* A new connection begins with a level: it is not lost without being said again. */
void workers_claim(struct world *w)
{
    for (uint32_t i = 0; i < w->workers_n; i++) {
        const struct worker *worker = &w->workers[i];

        if (worker->alive && !worker->hangs) {
            struct task_held held[HELD_MAX];

            for (uint32_t k = 0; k < worker->held_n; k++) {
                held[k] = (struct task_held){worker->held[k].task.id, worker->held[k].task.attempt};
            }
            tasks_claim(w->tasks, worker->self, worker->got, held, worker->held_n, w->now_ms);
        }
    }
}

static void begin(struct world *w, uint32_t i)
{
    struct worker *worker = &w->workers[i];

    if (worker->self != 0) { /* Its agent says at last that the one before is dead. */
        w->gone[wid_incarnation(worker->self)] = true;
        tasks_gone(w->tasks, worker->self, &disk_out);
    }
    mu_assert(w->lives_n + 1 < ARRAY_LEN(w->gone));
    *worker = (struct worker){.self = wid_make(i, 0, ++w->lives_n), .alive = true};
}

static void end(struct world *w, struct worker *worker)
{
    struct message *m;

    worker->alive = false;
    worker->back_ms = w->now_ms + world_between(w, 100, 3000);
    /* Its agent sees it. What is lost here is found by time-outs. */
    m = world_send(w, prng_chance(&w->prng, 700000) ? MSG_GONE : MSG_LOST, worker->self);
    if (m == NULL) {
        tasks_lost(w->tasks, worker->self, &disk_out);
        w->gone[wid_incarnation(worker->self)] = true;
    }
}

static void ask(struct world *w, struct worker *worker)
{
    struct message *m;
    uint32_t room = HELD_MAX - worker->held_n;

    if (worker->asked == worker->got) {
        if (room == 0) {
            return;
        }
        worker->asked++;
    } else if (w->now_ms < worker->again_ms) {
        return;
    }
    worker->again_ms = w->now_ms + 500;
    m = world_send(w, MSG_GET, worker->self);
    if (m != NULL) {
        m->number = worker->asked;
        m->acked = worker->acked;
        m->n = MIN(room, 3);
    }
}

static bool poison(const struct task *task)
{
    return task->kind == TASK_TRAINING && task->first % 97 == 13;
}

static void send_report(struct world *w, const struct worker *worker, struct says *s)
{
    struct message *m = world_send(w, MSG_REPORT, worker->self);

    s->again_ms = w->now_ms + 700;
    if (m != NULL) {
        m->number = s->number;
        m->acked = worker->acked;
        m->n = s->items_n;
        m->metrics = s->metrics;
        memcpy(m->items, s->items, sizeof(m->items));
    }
}

/* Two attempts at one task are two reports. */
static bool in_says(const struct says *s, uint64_t id)
{
    for (uint32_t i = 0; s->number != 0 && i < s->items_n; i++) {
        if (s->items[i].id == id) {
            return true;
        }
    }
    return false;
}

/* What is ready goes into one report, evaluation one by one. */
static void report(struct world *w, struct worker *worker)
{
    struct says *s = NULL;

    for (uint32_t i = 0; i < REPORTS_MAX; i++) {
        if (worker->says[i].number != 0 && w->now_ms >= worker->says[i].again_ms) {
            send_report(w, worker, &worker->says[i]);
        } else if (worker->says[i].number == 0 && worker->reported < worker->acked + REPORTS_MAX) {
            s = &worker->says[i];
        }
    }
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; i < worker->held_n; i++) {
        struct held *h = &worker->held[i];
        bool alone = h->task.kind == TASK_EVALUATION;

        if (in_says(s, h->task.id) || h->report != 0 || h->done_ms == 0 || w->now_ms < h->done_ms ||
            (alone && s->number != 0)) {
            continue;
        }
        if (s->number == 0) {
            *s = (struct says){.number = ++worker->reported, .metrics = alone};
        }
        h->report = s->number;
        bool fails = poison(&h->task) || (!w->healed && !alone && prng_chance(&w->prng, 50000));
        s->items[s->items_n++] = (struct task_item){h->task.id, h->task.attempt, 0, fails};
        if (alone) {
            break;
        }
    }
    if (s->number != 0) {
        send_report(w, worker, s);
    }
}

static void work(struct world *w, struct worker *worker)
{
    for (uint32_t i = 0; i < worker->held_n; i++) {
        struct held *h = &worker->held[i];

        if (h->done_ms == 0) {
            h->done_ms = w->now_ms + world_between(w, 20, 800);
        }
    }
    report(w, worker);
    ask(w, worker);
}

static void misfortune(struct world *w, struct worker *worker)
{
    if (prng_chance(&w->prng, 3000)) {
        end(w, worker);
    } else if (w->hangs && prng_chance(&w->prng, 2000)) {
        worker->hangs = true;
        worker->back_ms = w->now_ms + world_between(w, 1000, 30000);
    } else if (prng_chance(&w->prng, 2000)) { /* taken for lost */
        world_send(w, MSG_LOST, worker->self);
    }
}

void workers_turn(struct world *w)
{
    for (uint32_t i = 0; i < w->workers_n; i++) {
        struct worker *worker = &w->workers[i];

        if (!worker->alive) {
            if (w->now_ms >= worker->back_ms) {
                begin(w, i);
            }
        } else if (worker->hangs) { /* The first one of some worlds never goes on. */
            worker->hangs =
                w->now_ms < worker->back_ms || (w->healed && i == 0 && w->workers_n > 1);
        } else {
            if (!w->healed) {
                misfortune(w, worker);
            }
            if (worker->alive && !worker->hangs) {
                work(w, worker);
                if (prng_chance(&w->prng, 10000)) {
                    claim(w, worker);
                }
            }
        }
    }
}

static void hear_given(const struct world *w, struct worker *worker, const struct message *m)
{
    if (m->number != worker->asked || worker->got == worker->asked) {
        return; /* An answer that was repeated. */
    }
    worker->got = m->number;
    for (uint32_t i = 0; i < m->n && worker->held_n < HELD_MAX; i++) {
        worker->held[worker->held_n++] = (struct held){.task = m->tasks[i], .since_ms = w->now_ms};
    }
}

static void forget_report(struct worker *worker, uint64_t number)
{
    uint32_t kept = 0;
    uint64_t lowest = worker->reported;

    for (uint32_t i = 0; i < worker->held_n; i++) {
        if (worker->held[i].report != number) {
            worker->held[kept++] = worker->held[i];
        }
    }
    worker->held_n = kept;
    for (uint32_t i = 0; i < REPORTS_MAX; i++) {
        if (worker->says[i].number == number) {
            worker->says[i].number = 0;
        }
        if (worker->says[i].number != 0) {
            lowest = MIN(lowest, worker->says[i].number - 1);
        }
    }
    worker->acked = MAX(worker->acked, lowest);
}

void worker_hear(struct world *w, const struct message *m)
{
    struct worker *worker = worker_of(w, m->worker);

    if (worker == NULL || worker->hangs) {
        return;
    }
    if (m->kind == MSG_GIVEN) {
        hear_given(w, worker, m);
        return;
    }
    for (uint32_t i = 0; i < REPORTS_MAX; i++) {
        if (worker->says[i].number == m->number) {
            for (uint32_t k = 0; k < m->n; k++) {
                check_told(w, m->worker, m->number, worker->says[i].items[k].id, m->verdicts[k]);
            }
            forget_report(worker, m->number);
            return;
        }
    }
}
