/* Tasks and lanes. See depot.h. */
#include "core/text.h"
#include "orchestrator/depot.h"
#include "orchestrator/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_AGAIN_MS 10 /* whether answers have left */

/* ---- made and answered ---- */

struct depot_task *depot_task_new(struct session *s, const struct msg_depot *m, uint64_t request)
{
    struct deposits *d = s->o->deposits;
    const bool full = d->tasks_n >= TASKS_MAX;
    struct depot_task *t;

    if (s->depot_n >= SESSION_TASKS_MAX) {
        depot_wrong(s, m, request, "more than %d questions at once: wait for answers",
                    SESSION_TASKS_MAX);
        return NULL;
    }
    t = full ? NULL : calloc(1, sizeof(*t));
    if (t == NULL && s->depot_n == 0) {
        depot_answer(s, m, request, MU_EAGAIN,
                     "the orchestrator has %s for this now; try again in a moment",
                     full ? "no time" : "no memory");
        return NULL;
    }
    if (t == NULL) { /* An answer before those that it waits for would be taken for another. */
        log_warn("orchestrator", "%s: no room for another question about checkpoints: closed",
                 conn_peer(s->conn));
        session_end(s, 0);
        return NULL;
    }
    t->d = d;
    t->session = s->number;
    t->request = request;
    t->ask = *m;
    t->ask.data = NULL;
    return t;
}

static void task_free(struct depot_task *t)
{
    free(t->data);
    free(t);
}

static bool is_end(const struct depot_task *t)
{
    return t->upload != NULL && t == &t->upload->end;
}

static void answer(struct depot_task *t, struct session *s)
{
    t->says.op = t->ask.op;
    if (t->says.status != MU_OK) {
        t->says.data_n = 0;
        text_say(t->says.text, sizeof(t->says.text), "%s",
                 t->why.text[0] != '\0' ? t->why.text : mu_strerror(t->says.status));
    } else if (t->ask.op == DEPOT_READ) {
        s->o->counts.ckpt_given += t->says.data_n;
    }
    conn_say(s->conn, WIRE_DEPOT_SAYS, &t->says, 0, t->request);
}

static void finish(struct depot_task *t)
{
    struct deposits *d = t->d;
    struct session *s;

    if (t->measured) {
        d->kept = t->kept;
    }
    if (is_end(t)) {
        d->ending_n--;
        free(t->upload);
        return;
    }
    if (d->o != NULL && t->done != NULL && !t->done(t)) {
        return;
    }
    d->tasks_n--;
    s = d->o != NULL ? session_find(d->o, t->session) : NULL;
    if (s != NULL) {
        s->depot_n--;
        answer(t, s);
    }
    task_free(t);
}

/* ---- lanes ---- */

static void lane_init(struct depot_lane *lane, uint32_t running_max, bool looks)
{
    *lane = (struct depot_lane){.running_max = running_max, .looks = looks};
    lane->last = &lane->first;
}

void depot_lanes_init(struct deposits *d)
{
    lane_init(&d->changes, CHANGES_AT_ONCE, false);
    lane_init(&d->looks, LOOKS_AT_ONCE, true);
}

static uint32_t running_n(const struct depot_lane *lane)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < lane->running_max; i++) {
        n += lane->running[i] != NULL;
    }
    return n;
}

static bool job_is_busy(const struct depot_lane *lane, const struct depot_task *t)
{
    for (uint32_t i = 0; i < lane->running_max; i++) {
        const struct depot_task *r = lane->running[i];

        if (r != NULL && (r->alone || strcmp(r->ask.job, t->ask.job) == 0)) {
            return true;
        }
    }
    return t->alone && running_n(lane) > 0;
}

static size_t answers_queued(const struct deposits *d)
{
    const struct session *s;
    size_t n = 0;

    LIST_FOREACH(s, &d->readers, depot_link)
    {
        n += conn_queued(s->conn);
    }
    return n;
}

/* Whoever does not read what was answered is not answered more. */
static bool must_wait(const struct deposits *d, const struct depot_task *t, bool full)
{
    const struct session *s = session_find(d->o, t->session);

    return s != NULL && (full || conn_queued(s->conn) >= ANSWERS_HIGH);
}

static void on_timer(uv_timer_t *timer)
{
    struct deposits *d = timer->data;

    depot_lane_pump(&d->looks, d);
}

/* The first whose turn can be now, taken out; NULL: none. */
static struct depot_task *pick(struct depot_lane *lane, struct deposits *d)
{
    const bool full = lane->looks && answers_queued(d) >= ANSWERS_MAX;

    for (struct depot_task **at = &lane->first; *at != NULL; at = &(*at)->next) {
        struct depot_task *t = *at;

        if (lane->looks && must_wait(d, t, full)) {
            uv_timer_start(&d->timer, on_timer, LOOK_AGAIN_MS, 0);
        } else if (lane->looks || !job_is_busy(lane, t)) {
            *at = t->next;
            if (lane->last == &t->next) {
                lane->last = at;
            }
            t->next = NULL;
            return t;
        } else if (t->alone) {
            break; /* Others after it would keep it waiting. */
        }
    }
    return NULL;
}

static void on_work(uv_work_t *work)
{
    struct depot_task *t = work->data;

    t->run(t);
}

static void on_worked(uv_work_t *work, int status)
{
    struct depot_task *t = work->data;
    struct depot_lane *lane = t->lane;
    struct deposits *d = t->d;

    (void)status; /* Nothing is ever cancelled. */
    for (uint32_t i = 0; i < lane->running_max; i++) {
        if (lane->running[i] == t) {
            lane->running[i] = NULL;
        }
    }
    d->works_n--;
    finish(t);
    depot_lane_pump(lane, d);
    depot_free_if_over(d);
}

static void copy_claims(struct depot_task *t)
{
    t->claims_n = 0;
    for (const struct upload *u = t->d->uploads; u != NULL; u = u->next) {
        struct depot_claim *c = &t->claims[t->claims_n++];

        memcpy(c->job, u->job, sizeof(c->job));
        c->bytes = u == t->upload && t->ask.op == DEPOT_BEGIN ? u->bytes : u->received;
    }
}

static void launch(struct depot_lane *lane, struct depot_task *t)
{
    uint32_t place = 0;

    if (t->upload != NULL && t->upload->dead && !is_end(t)) {
        t->run = NULL;
        t->done = NULL;
        upload_stale(t);
    }
    if (t->run == NULL || (lane->looks && session_find(t->d->o, t->session) == NULL)) {
        finish(t);
        return;
    }
    copy_claims(t);
    while (lane->running[place] != NULL) {
        place++;
    }
    lane->running[place] = t;
    t->d->works_n++;
    t->work.data = t;
    uv_queue_work(t->d->loop, &t->work, on_work, on_worked);
}

void depot_lane_pump(struct depot_lane *lane, struct deposits *d)
{
    while (running_n(lane) < lane->running_max) {
        struct depot_task *t = pick(lane, d);

        if (t == NULL) {
            return;
        }
        launch(lane, t);
    }
}

/* ---- in and out ---- */

void depot_task_start(struct depot_task *t, struct depot_lane *lane)
{
    struct deposits *d = t->d;
    struct session *s = d->o != NULL ? session_find(d->o, t->session) : NULL;

    t->lane = lane;
    *lane->last = t;
    lane->last = &t->next;
    if (!is_end(t)) {
        d->tasks_n++;
    }
    if (s != NULL) {
        s->depot_n++;
    }
    depot_lane_pump(lane, d);
}

void depot_task_again(struct depot_task *t)
{
    struct depot_lane *lane = t->lane;

    t->next = lane->first;
    if (lane->first == NULL) {
        lane->last = &t->next;
    }
    lane->first = t;
}

void depot_task_fail(struct depot_task *t, struct depot_lane *lane, int status, const char *fmt,
                     ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(t->why.text, sizeof(t->why.text), fmt, args);
    va_end(args);
    t->says.status = status;
    t->says.item = t->ask.item;
    t->run = NULL;
    t->done = NULL;
    depot_task_start(t, lane);
}

static void lane_clear(struct depot_lane *lane)
{
    struct depot_task *t = lane->first, *next;

    lane->first = NULL;
    lane->last = &lane->first;
    for (; t != NULL; t = next) {
        next = t->next;
        t->next = NULL;
        if (is_end(t)) {
            *lane->last = t;
            lane->last = &t->next;
        } else {
            t->d->tasks_n--;
            task_free(t);
        }
    }
}

void depot_lanes_clear(struct deposits *d)
{
    lane_clear(&d->changes);
    lane_clear(&d->looks);
}
