#include "orchestrator/history.h"

#include "orchestrator/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct past_member {
    wid worker;
    uint32_t name_at; /* of its node, in names */
};

struct past {
    TAILQ_ENTRY(past) link;
    uint64_t number, from, base_step;
    uint64_t time_ms, active_ms; /* 0: not known */
    uint32_t run;
    uint8_t kind, flags;
    bool active;
    char *reason; /* NULL: not known */
    size_t bytes;
    struct past_member *members;
    uint32_t members_n;
    char *names; /* with a zero byte after each */
    size_t names_n;
};
TAILQ_HEAD(pasts, past);

struct past_job {
    char name[NAME_MAX_LEN];
    struct pasts list; /* the oldest first */
    uint32_t n;
    size_t bytes;
    char reason[WORDS_LINE_MAX]; /* what happened last, since the newest; "": nothing */
};

struct history {
    struct history_limits limits;
    struct past_job **jobs;
    uint32_t jobs_n;
};

/* ---- memory ---- */

static void past_free(struct past *p)
{
    free(p->reason);
    free(p->members);
    free(p->names);
    free(p);
}

static void drop_first(struct past_job *j)
{
    struct past *p = TAILQ_FIRST(&j->list);

    TAILQ_REMOVE(&j->list, p, link);
    j->n--;
    j->bytes -= p->bytes;
    past_free(p);
}

static void job_free(struct past_job *j)
{
    while (!TAILQ_EMPTY(&j->list)) {
        drop_first(j);
    }
    free(j);
}

int history_open(const struct history_limits *limits, struct history **h_out)
{
    struct history *h = calloc(1, sizeof(*h));

    mu_assert(limits->jobs_n > 0 && limits->generations_n > 0);
    if (h == NULL || (h->jobs = calloc(limits->jobs_n, sizeof(struct past_job *))) == NULL) {
        free(h);
        return MU_ENOMEM;
    }
    h->limits = *limits;
    *h_out = h;
    return MU_OK;
}

void history_close(struct history *h)
{
    if (h == NULL) {
        return;
    }
    for (uint32_t i = 0; i < h->jobs_n; i++) {
        job_free(h->jobs[i]);
    }
    free(h->jobs);
    free(h);
}

static struct past_job *find(const struct history *h, const char *name)
{
    for (uint32_t i = 0; i < h->jobs_n; i++) {
        if (strcmp(h->jobs[i]->name, name) == 0) {
            return h->jobs[i];
        }
    }
    return NULL;
}

/* Jobs are as many as the cluster has. */
static struct past_job *find_or_make(struct history *h, const char *name)
{
    struct past_job *j = find(h, name);

    if (j == NULL && h->jobs_n < h->limits.jobs_n && (j = calloc(1, sizeof(*j))) != NULL) {
        TAILQ_INIT(&j->list);
        snprintf(j->name, sizeof(j->name), "%s", name);
        h->jobs[h->jobs_n++] = j;
    }
    return j;
}

/* ---- what happens ---- */

void history_note(struct history *h, const struct msg_event *e)
{
    static const bool causes[NOTE_N] = {
        [NOTE_JOINED] = true,   [NOTE_WARM] = true, [NOTE_LOST] = true,     [NOTE_BACK] = true,
        [NOTE_DRAINING] = true, [NOTE_GONE] = true, [NOTE_TAKEOVER] = true, [NOTE_RESIZED] = true,
    };
    struct past_job *j = e->kind < NOTE_N && causes[e->kind] ? find(h, e->job) : NULL;
    struct msg_event no_job = *e;

    if (j != NULL) {
        no_job.job[0] = '\0';
        words_event(&no_job, j->reason, sizeof(j->reason));
    }
}

/* Members with the names of their nodes: while a generation is the published one, the nodes that
 * come first have its members, in order of rank. */
struct naming {
    const struct generation *g;
    struct past *p;
    uint32_t rank;
    bool failed;
};

static bool add_name(struct past *p, const char *name)
{
    const size_t n = strlen(name) + 1;
    char *names = realloc(p->names, p->names_n + n);

    if (names == NULL) {
        return false;
    }
    memcpy(names + p->names_n, name, n);
    p->names = names;
    p->names_n += n;
    return true;
}

static void name_members(void *arg, const struct node_look *n)
{
    struct naming *m = arg;
    const uint32_t name_at = (uint32_t)m->p->names_n;

    if (!n->member || m->failed) {
        return;
    }
    m->failed = !add_name(m->p, n->name);
    for (uint32_t i = 0; i < n->slots && !m->failed; i++) {
        if (n->slot[i].member != 0 && m->rank < m->g->members_n) {
            m->p->members[m->rank++] = (struct past_member){n->slot[i].member, name_at};
        }
    }
}

static struct past *past_make(const struct cluster *c, const struct generation *g,
                              const char *reason)
{
    struct past *p = calloc(1, sizeof(*p));
    struct naming m = {.g = g, .p = p};

    if (p == NULL) {
        return NULL;
    }
    p->members = calloc(MAX(g->members_n, 1u), sizeof(*p->members));
    p->reason = reason[0] != '\0' ? strdup(reason) : NULL;
    if (p->members != NULL) {
        cluster_each_node(c, g->job, name_members, &m);
    }
    if (p->members == NULL || m.failed || (reason[0] != '\0' && p->reason == NULL)) {
        past_free(p);
        return NULL;
    }
    p->number = g->number;
    p->from = g->from;
    p->base_step = g->base_step;
    p->run = g->run;
    p->kind = g->kind;
    p->flags = g->flags;
    p->members_n = m.rank;
    p->bytes = sizeof(*p) + g->members_n * sizeof(*p->members) + p->names_n + strlen(reason) + 1;
    return p;
}

static void on_generation(struct history *h, const struct cluster *c, const struct generation *g,
                          uint64_t wall_ms)
{
    struct past_job *j = find_or_make(h, g->job);
    struct past *p = j != NULL ? past_make(c, g, wall_ms != 0 ? j->reason : "") : NULL;

    if (p == NULL) {
        return;
    }
    p->time_ms = wall_ms;
    j->reason[0] = '\0';
    TAILQ_INSERT_TAIL(&j->list, p, link);
    j->n++;
    j->bytes += p->bytes;
    while (j->n > 1 && (j->n > h->limits.generations_n || j->bytes > h->limits.bytes)) {
        drop_first(j);
    }
}

static void on_active(struct history *h, const struct rec_active *r, uint64_t wall_ms)
{
    struct past_job *j = find(h, r->job);
    struct past *p;

    if (j == NULL) {
        return;
    }
    TAILQ_FOREACH_REVERSE(p, &j->list, pasts, link)
    {
        if (p->number == r->generation) {
            p->active = true;
            p->active_ms = wall_ms;
            return;
        }
    }
}

static void drop_job(struct history *h, const char *name)
{
    for (uint32_t i = 0; i < h->jobs_n; i++) {
        if (strcmp(h->jobs[i]->name, name) == 0) {
            job_free(h->jobs[i]);
            h->jobs[i] = h->jobs[--h->jobs_n];
            return;
        }
    }
}

void history_record(struct history *h, const struct cluster *c, const struct record *r,
                    uint64_t wall_ms)
{
    if (r->kind == RECORD_GENERATION) {
        on_generation(h, c, &r->u.generation, wall_ms);
    } else if (r->kind == RECORD_ACTIVE) {
        on_active(h, &r->u.active, wall_ms);
    } else if (r->kind == RECORD_JOB) {
        (void)find_or_make(h, r->u.job.job); /* What its nodes do from now on has a place. */
    } else if (r->kind == RECORD_FORGOTTEN) {
        drop_job(h, r->u.forgotten.job);
    }
}

/* ---- who asks ---- */

static json_t *time_or_null(uint64_t wall_ms)
{
    char text[WORDS_TIME_MAX];

    if (wall_ms == 0) {
        return json_null();
    }
    words_time(wall_ms, text);
    return json_string(text);
}

static json_t *members_json(const struct past *p)
{
    json_t *list = json_array();
    char worker[40];

    for (uint32_t i = 0; list != NULL && i < p->members_n; i++) {
        words_worker(p->members[i].worker, worker, sizeof(worker));
        if (json_array_append_new(list, json_pack("{s:i, s:s, s:s}", "rank", (int)i, "node",
                                                  p->names + p->members[i].name_at, "worker",
                                                  worker)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *past_json(const struct past *p)
{
    return json_pack("{s:I, s:s, s:I, s:I, s:I, s:b, s:b, s:o, s:o, s:o, s:I, s:o}", "number",
                     (json_int_t)p->number, "kind", words_generation(p->kind), "run",
                     (json_int_t)p->run, "from", (json_int_t)p->from, "base_step",
                     (json_int_t)p->base_step, "holds", (p->flags & GENERATION_HOLD) != 0, "active",
                     p->active, "time", time_or_null(p->time_ms), "active_time",
                     time_or_null(p->active_ms), "reason",
                     p->reason != NULL ? json_string(p->reason) : json_null(), "size",
                     (json_int_t)p->members_n, "members", members_json(p));
}

json_t *history_json(const struct history *h, const char *job, uint64_t since)
{
    const struct past_job *j = find(h, job);
    json_t *list = json_array();
    const struct past *p;

    if (j == NULL || list == NULL) {
        return list;
    }
    TAILQ_FOREACH(p, &j->list, link)
    {
        if (p->number > since && json_array_append_new(list, past_json(p)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
