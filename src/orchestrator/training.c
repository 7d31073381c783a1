/* Numbers of training, as the jobs' workers say them: the newest of each job, and an event about
 * them once a second at most. Nothing of it is durable. */
#include "orchestrator/driver.h"
#include "orchestrator/words.h"

#include <stdlib.h>
#include <string.h>

#define EVENT_EVERY_MS 1000

static struct training *find(const struct orchestrator *o, const char *job)
{
    struct training *t = o->trainings;

    while (t != NULL && strcmp(t->job, job) != 0) {
        t = t->next;
    }
    return t;
}

/* There are as many as there are jobs, at most. NULL: no such job, or no memory. */
static struct training *find_or_make(struct orchestrator *o, const char *job)
{
    struct training *t = find(o, job);
    struct job_view view;

    if (t != NULL || cluster_job(o->cluster, job, &view) != MU_OK) {
        return t;
    }
    t = calloc(1, sizeof(*t));
    if (t != NULL) {
        strcpy(t->job, job);
        t->run = view.run;
        t->next = o->trainings;
        o->trainings = t;
    }
    return t;
}

const struct training *training_of(const struct orchestrator *o, const char *job)
{
    const struct training *t = find(o, job);

    return t != NULL && t->n > 0 ? t : NULL;
}

/* ---- events ---- */

static void say(struct orchestrator *o, struct training *t)
{
    struct job_view view = {0};
    char text[TEXT_MAX_LEN];

    t->due = false;
    t->next_ms = o->now_ms + EVENT_EVERY_MS;
    words_metrics(t->items, t->n, text, sizeof(text));
    (void)cluster_job(o->cluster, t->job, &view);
    events_note(o, &(struct note){.kind = NOTE_METRICS,
                                  .job = t->job,
                                  .worker = t->worker,
                                  .generation = view.generation,
                                  .value = t->step,
                                  .reason = text,
                                  .metrics = t->items,
                                  .metrics_n = t->n});
}

void training_tick(struct orchestrator *o)
{
    for (struct training *t = o->trainings; t != NULL; t = t->next) {
        if (t->due && t->next_ms <= o->now_ms) {
            say(o, t);
        }
    }
}

uint64_t training_deadline(const struct orchestrator *o)
{
    uint64_t at_ms = UINT64_MAX;

    for (const struct training *t = o->trainings; t != NULL; t = t->next) {
        at_ms = t->due ? MIN(at_ms, t->next_ms) : at_ms;
    }
    return at_ms;
}

/* ---- what happens ---- */

/* What a worker said long ago may come after what its successor says: a lower step counts only when
 * training has started over. */
void serve_metrics(struct session *s, const struct asker *from, const struct msg_ask *asked,
                   const union wire_any *body)
{
    const struct body_metrics *m = &body->metrics;
    struct orchestrator *o = s->o;
    struct job_view view = {0};
    struct training *t = m->metrics_n > 0 ? find_or_make(o, s->job) : NULL;

    if (t == NULL || (m->step < t->step && !t->over)) {
        return;
    }
    driver_time(o);
    t->over = false;
    t->worker = asked->worker;
    t->step = m->step;
    t->n = m->metrics_n;
    memcpy(t->items, m->metrics, m->metrics_n * sizeof(t->items[0]));
    t->due = true;
    (void)cluster_job(o->cluster, t->job, &view);
    if (view.ended) {
        t->next_ms = o->now_ms; /* The last of them: a program that follows waits for no more. */
    }
    training_tick(o);
    driver_arm(o);
}

static void drop(struct orchestrator *o, const char *job)
{
    for (struct training **at = &o->trainings; *at != NULL; at = &(*at)->next) {
        struct training *t = *at;

        if (strcmp(t->job, job) == 0) {
            *at = t->next;
            free(t);
            return;
        }
    }
}

void training_record(struct orchestrator *o, const struct record *r)
{
    struct training *t = NULL;

    if (r->kind == RECORD_JOB) {
        t = find(o, r->u.job.job);
        if (t != NULL && t->run != r->u.job.run) {
            t->run = r->u.job.run;
            t->n = 0;
            t->step = 0;
            t->due = false;
        }
    } else if (r->kind == RECORD_GENERATION && r->u.generation.kind == GENERATION_FRESH) {
        t = find(o, r->u.generation.job);
        if (t != NULL) {
            t->over = true;
        }
    } else if (r->kind == RECORD_FINISHED && r->u.finished.ended) {
        t = find(o, r->u.finished.job);
        if (t != NULL && t->due) {
            say(o, t); /* Nobody waits for it any longer. */
        }
    } else if (r->kind == RECORD_FORGOTTEN) {
        drop(o, r->u.forgotten.job);
    }
}

void training_close(struct orchestrator *o)
{
    while (o->trainings != NULL) {
        struct training *next = o->trainings->next;

        free(o->trainings);
        o->trainings = next;
    }
}
