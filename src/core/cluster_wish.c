/* What people want of a job: those of its settings that mean something to the cluster (size,
 * members, min, max, schedule, paused). The settings are the one durable truth, and a machine of
 * their own (core/config_table.h); the wish is what they say, read anew whenever they change. */
#include "core/cluster_state.h"
#include "core/text.h"

#include <string.h>

#define REASON_MAX 160

/* NULL: nothing is set. */
static const struct config *settings_of(const struct cluster *c, const struct job *j)
{
    return config_table_find(c->settings, j->name);
}

static bool is_set(const struct config *s, const char *key, struct rec_config *out)
{
    return s != NULL && config_get(s, key, out) == MU_OK;
}

const struct config *cluster_settings(const struct cluster *c, const char *job)
{
    const struct job *j = job_find((struct cluster *)(uintptr_t)c, job);

    return j == NULL || j->run == 0 ? NULL : settings_of(c, j);
}

/* ---- the wish ---- */

uint32_t job_max(const struct job *j)
{
    return j->wish.max != 0 ? j->wish.max : MAX(j->max, j->wish.min);
}

uint32_t job_min(const struct job *j)
{
    return MIN(j->wish.min != 0 ? j->wish.min : j->min, job_max(j));
}

/* The schedule and a size may both be set: whichever was written last rules. */
bool job_scheduled(const struct job *j)
{
    const struct wish *w = &j->wish;

    return w->schedule.parts_n > 0 && !w->listed &&
           (w->size == 0 || w->schedule_version > w->size_version);
}

/* Has every living member's node been here, and so said how far it is? */
static bool all_heard(struct cluster *c, const struct job *j)
{
    for (const struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        if (node_alive(n) && n->conn == 0 && n->closed_ms == NEVER) {
            return false;
        }
    }
    return true;
}

/* An orchestrator that was restarted has yet to hear how far the job is: from all members, since
 * the one that is furthest counts, and a size must not go back. */
static bool step_unknown(struct cluster *c, const struct job *j)
{
    return j->active != 0 && !j->stepped && !all_heard(c, j);
}

static uint32_t nodes_now(struct cluster *c, const struct job *j)
{
    uint32_t n = 0;

    for (const struct node *s = node_at(c, j->seniors.first); s != NULL; s = node_at(c, s->next)) {
        n += s->duty == DUTY_TRAINS;
    }
    return n;
}

uint32_t job_size(struct cluster *c, const struct job *j)
{
    uint32_t size = j->wish.listed ? 0 : j->wish.size;

    if (job_scheduled(j)) {
        size = step_unknown(c, j) ? nodes_now(c, j) : schedule_size(&j->wish.schedule, j->step);
    }
    return size == 0 ? job_max(j) : MAX(MIN(size, job_max(j)), job_min(j));
}

void job_stepped(struct cluster *c, struct job *j, uint64_t step)
{
    uint32_t before = job_scheduled(j) ? job_size(c, j) : 0;
    bool known = j->stepped;

    j->step = MAX(j->step, step);
    j->stepped = known || (before != 0 && all_heard(c, j));
    if (before != 0 && (j->stepped != known || job_size(c, j) != before)) {
        job_touch(c, j);
    }
}

/* ---- reading it ---- */

static uint32_t number_of(const struct config *s, const char *key, uint64_t *version_out)
{
    struct rec_config r;
    uint64_t value = 0;

    *version_out = 0;
    if (is_set(s, key, &r) &&
        text_number((const char *)r.value, r.value_n, 1, MEMBERS_MAX, &value)) {
        *version_out = r.version;
    }
    return (uint32_t)value;
}

static bool names(const struct rec_config *members, const char *name)
{
    const char *at = (const char *)members->value, *end = at + members->value_n;
    size_t n = strlen(name);

    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t at_n = (size_t)((comma != NULL ? comma : end) - at);

        if (at_n == n && memcmp(at, name, n) == 0) {
            return true;
        }
        at += at_n + 1;
    }
    return false;
}

void wish_of_node(struct cluster *c, struct node *n)
{
    struct rec_config members;

    n->listed =
        is_set(settings_of(c, &c->jobs[n->job]), "members", &members) && names(&members, n->name);
}

void nodes_unlist(struct cluster *c, struct job *j)
{
    const struct list *lists[] = {&j->seniors, &j->others};

    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (struct node *n = node_at(c, lists[l]->first); n != NULL; n = node_at(c, n->next)) {
            n->listed = false;
        }
    }
}

void wish_read(struct cluster *c, struct job *j)
{
    const struct config *s = settings_of(c, j);
    const struct list *lists[] = {&j->seniors, &j->others};
    struct wish *w = &j->wish;
    struct rec_config r;
    uint64_t ignored;

    *w = (struct wish){0};
    w->min = number_of(s, "min", &ignored);
    w->max = number_of(s, "max", &ignored);
    w->size = number_of(s, "size", &w->size_version);
    w->paused = is_set(s, "paused", &r) && r.value_n == 4; /* "true" */
    w->listed = is_set(s, "members", &r);
    if (is_set(s, "schedule", &r)) {
        w->schedule_version = r.version;
        schedule_parse((const char *)r.value, r.value_n, &w->schedule, NULL, 0);
    }
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (struct node *n = node_at(c, lists[l]->first); n != NULL; n = node_at(c, n->next)) {
            wish_of_node(c, n);
        }
    }
}

/* ---- changing it ---- */

static bool in_bounds(const struct job *j, const char *what, uint32_t size, char *why, size_t cap)
{
    if (size >= job_min(j) && size <= job_max(j)) {
        return true;
    }
    text_say(why, cap, "%s %u is not from %u to %u, the min and max of job '%s'; set those first",
             what, size, job_min(j), job_max(j), j->name);
    return false;
}

static bool schedule_fits(const struct job *j, const struct schedule *s, char *why, size_t cap)
{
    for (uint32_t i = 0; i < s->parts_n; i++) {
        if (!in_bounds(j, "schedule: size", s->parts[i].size, why, cap)) {
            return false;
        }
    }
    return true;
}

/* The rules of config.h hold; these are about the job: min <= size <= max with --nnodes for what is
 * not set. */
static int fits(const struct job *j, const struct config_request *q, char *why, size_t cap)
{
    struct job then = {.min = j->min, .max = j->max, .wish = j->wish};
    uint64_t value = 0;

    memcpy(then.name, j->name, sizeof(then.name));
    if (!q->remove) {
        text_number(q->value, q->value_n, 1, MEMBERS_MAX, &value);
    }
    if (strcmp(q->key, "min") == 0) {
        then.wish.min = (uint32_t)value;
    } else if (strcmp(q->key, "max") == 0) {
        then.wish.max = (uint32_t)value;
    } else if (strcmp(q->key, "size") == 0) {
        then.wish.size = (uint32_t)value;
    } else if (strcmp(q->key, "schedule") == 0) {
        then.wish.schedule.parts_n = 0;
        if (!q->remove) {
            schedule_parse(q->value, q->value_n, &then.wish.schedule, NULL, 0);
        }
    } else {
        return MU_OK;
    }
    if ((then.wish.min != 0 ? then.wish.min : then.min) >
        (then.wish.max != 0 ? then.wish.max : then.max)) {
        text_say(why, cap, "job '%s' would have min %u and max %u (--nnodes %u:%u)", j->name,
                 then.wish.min != 0 ? then.wish.min : then.min,
                 then.wish.max != 0 ? then.wish.max : then.max, j->min, j->max);
        return MU_EINVAL;
    }
    if ((then.wish.size != 0 && !in_bounds(&then, "size", then.wish.size, why, cap)) ||
        !schedule_fits(&then, &then.wish.schedule, why, cap)) {
        return MU_EINVAL;
    }
    return MU_OK;
}

int cluster_wish(struct cluster *c, const char *job, const struct config_request *q,
                 struct record *r_out, char *why, size_t cap)
{
    struct job *j = job_find(c, job);
    struct config *s = j == NULL ? NULL : config_table_find(c->settings, job);
    int rc;

    if (s == NULL || j->run == 0 || j->forgetting) {
        text_say(why, cap, "there is no job '%s'", job);
        return MU_ENOENT;
    }
    if (j->creating) {
        text_say(why, cap, "another run of job '%s' is about to begin: try again", job);
        return MU_EAGAIN;
    }
    r_out->kind = RECORD_CONFIG;
    rc = config_check(s, q, &r_out->u.config, why, cap);
    if (rc != MU_OK) {
        return rc;
    }
    rc = fits(j, q, why, cap);
    if (rc != MU_OK) {
        config_abort(s);
    }
    return rc;
}

static void note_wish(const struct job *j, const struct rec_config *r, struct effects *fx)
{
    char reason[REASON_MAX];

    if (r->deleted) {
        text_say(reason, sizeof(reason), "%s was removed", r->key);
    } else {
        text_say(reason, sizeof(reason), "%s is %.*s", r->key, (int)MIN(r->value_n, 100u),
                 (const char *)r->value);
    }
    say_note(fx, &(struct note){.kind = NOTE_RESIZED,
                                .job = j->name,
                                .generation = j->number,
                                .value = r->version,
                                .reason = reason});
}

void hear_config(struct cluster *c, const struct rec_config *r, struct effects *fx)
{
    struct job *j = job_find(c, r->job);

    if (j != NULL && config_key_acts(r->key)) {
        wish_read(c, j);
        job_touch(c, j);
        if (fx != NULL) {
            note_wish(j, r, fx);
        }
    }
}
