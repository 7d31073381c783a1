/* Status as JSON: one job, or all with the orchestrator itself. */
#include "core/text.h"
#include "orchestrator/driver.h"
#include "orchestrator/event_json.h"
#include "orchestrator/words.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct build {
    json_t *members;
    json_t *helpers;
    json_t *waiting;
    uint32_t rank;
    bool failed;
};

/* Appends, and remembers when there was no memory. The reference is given. */
static void push(struct build *b, json_t *list, json_t *value)
{
    if (value == NULL || json_array_append_new(list, value) != 0) {
        b->failed = true;
    }
}

static json_t *member(struct build *b, const struct node_look *n, uint32_t slot)
{
    const struct slot_look *s = &n->slot[slot];
    json_t *code = s->has_exited ? json_integer(s->exit_code) : NULL;
    char worker[40];

    words_worker(s->member, worker, sizeof(worker));
    return json_pack("{s:i, s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:o*, s:s*}", "rank", (int)b->rank++,
                     "worker", worker, "node", n->name, "slot", (int)slot, "role",
                     words_role(n->role), "state", words_slot(n, s), "address", s->addr, "step",
                     (json_int_t)s->step, "exit_code", code, "memory",
                     s->unkept ? "not kept" : NULL);
}

static json_t *helper(const struct node_look *n, uint32_t slot)
{
    const struct slot_look *s = &n->slot[slot];
    json_t *code = s->has_exited ? json_integer(s->exit_code) : NULL;
    json_t *number = n->role != ROLE_WORKER ? json_integer(n->place + slot) : NULL;
    char worker[40];

    words_worker(s->worker, worker, sizeof(worker));
    return json_pack("{s:o*, s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:o*}", "number", number, "worker",
                     worker, "node", n->name, "slot", (int)slot, "role", words_role(n->role),
                     "state", words_slot(n, s), "address", s->addr, "step", (json_int_t)s->step,
                     "exit_code", code);
}

static json_t *waiting(const struct node_look *n)
{
    return json_pack("{s:s, s:s, s:i, s:s, s:s}", "node", n->name, "role", words_role(n->role),
                     "slots", (int)n->slots, "state", words_node(n), "address", n->slot[0].addr);
}

static void each_node(void *arg, const struct node_look *n)
{
    struct build *b = arg;

    for (uint32_t i = 0; i < n->slots; i++) {
        if (n->slot[i].member != 0) {
            push(b, b->members, member(b, n, i));
        } else if (n->helps && !n->gone) {
            push(b, b->helpers, helper(n, i));
        }
    }
    if (!n->member && !n->helps && !n->gone) {
        push(b, b->waiting, waiting(n));
    }
}

/* Adds "members", "helpers" and "waiting" to an object, which is given. */
static json_t *with_members(const struct orchestrator *o, const char *job, json_t *json)
{
    struct build b = {.members = json_array(), .helpers = json_array(), .waiting = json_array()};

    if (b.members != NULL && b.helpers != NULL && b.waiting != NULL) {
        cluster_each_node(o->cluster, job, each_node, &b);
    }
    if (json_object_set_new(json, "members", b.members) != 0) {
        b.failed = true;
    }
    if (json_object_set_new(json, "helpers", b.helpers) != 0) {
        b.failed = true;
    }
    if (json_object_set_new(json, "waiting", b.waiting) != 0) {
        b.failed = true;
    }
    if (b.failed) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* What people want of it (settings); "size" also if it is the schedule's of now. */
static json_t *want_json(const struct orchestrator *o, const struct job_look *j)
{
    const struct config *c = cluster_settings(o->cluster, j->view.name);
    json_t *size = j->want_size != 0 ? json_integer(j->want_size) : NULL;
    json_t *schedule = NULL, *members = NULL;
    struct rec_config r;

    if (config_get(c, "schedule", &r) == MU_OK) {
        schedule = json_stringn((const char *)r.value, r.value_n);
    }
    if (config_get(c, "members", &r) == MU_OK) {
        members = json_stringn((const char *)r.value, r.value_n);
    }
    return json_pack("{s:o*, s:o*, s:o*, s:b}", "size", size, "schedule", schedule, "members",
                     members, "paused", j->paused);
}

static json_t *short_json(const struct orchestrator *o, const struct job_look *j)
{
    const struct job_view *v = &j->view;
    const struct training *t = training_of(o, v->name);
    char why[TEXT_MAX_LEN];
    const char *state = words_job(j, why, sizeof(why));

    return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:o*, s:o}", "job",
                     v->name, "run", (json_int_t)v->run, "state", state, "why", why, "generation",
                     (json_int_t)v->generation, "active", (json_int_t)v->active, "mode",
                     words_mode(j->mode), "min", (json_int_t)j->min, "max", (json_int_t)j->max,
                     "step", (json_int_t)v->step, "checkpoint", (json_int_t)v->checkpoint,
                     "metrics", t != NULL ? metrics_json(t->items, t->n, t->step) : NULL, "want",
                     want_json(o, j));
}

static json_t *job_json(const struct orchestrator *o, const struct job_look *j)
{
    return with_members(o, j->view.name, short_json(o, j));
}

/* In place of the members, how many there are. */
static json_t *counted_json(const struct orchestrator *o, const struct job_look *j)
{
    json_t *json = short_json(o, j);

    if (json_object_set_new(json, "size", json_integer(j->view.members_n)) != 0 ||
        json_object_set_new(json, "nodes", json_integer(j->view.nodes_n)) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* ---- all ---- */

struct all {
    const struct orchestrator *o;
    bool brief;
    struct build b;
    json_t *jobs;
};

static void each_job(void *arg, const struct job_look *j)
{
    struct all *a = arg;

    push(&a->b, a->jobs, a->brief ? counted_json(a->o, j) : job_json(a->o, j));
}

static json_t *counts_json(const struct orchestrator *o)
{
    const struct listen_counts *n = listen_counts(o->listener);

    return json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "now", (int)n->now,
                     "handshaking", (int)n->handshaking, "accepted", (json_int_t)n->accepted,
                     "opened", (json_int_t)n->opened, "refused", (json_int_t)n->refused,
                     "timed_out", (json_int_t)n->timed_out, "shed", (json_int_t)n->shed, "broken",
                     (json_int_t)n->broken, "unread", (json_int_t)n->unread);
}

static json_t *journal_json(const struct orchestrator *o)
{
    struct journal_look l = journal_look(o->journal);
    char error[STORE_ERROR_MAX] = "";

    if (!l.writable) {
        text_say(error, sizeof(error), "%s", l.error);
    }
    return json_pack("{s:I, s:I, s:I, s:b, s:s}", "record", (json_int_t)l.seq, "snapshot",
                     (json_int_t)l.snapshot_seq, "pending", (json_int_t)l.pending_n, "writable",
                     l.writable, "error", error);
}

static json_t *self_json(const struct orchestrator *o)
{
    const unsigned char *id = journal_id(o->journal);
    char hex[2 * STORE_ID_BYTES + 1], dir[PATH_MAX_LEN];

    memcpy(dir, o->data_dir, sizeof(dir));
    text_clean(dir);
    for (size_t i = 0; i < STORE_ID_BYTES; i++) {
        hex[2 * i] = "0123456789abcdef"[id[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
    }
    hex[sizeof(hex) - 1] = '\0';
    return json_pack("{s:s, s:I, s:s, s:s, s:I, s:i, s:o, s:o}", "version", mu_version(),
                     "uptime_s", (json_int_t)((o->now_ms - o->start_ms) / 1000), "store", hex,
                     "data", dir, "memory", (json_int_t)cluster_memory(o->cluster), "port",
                     (int)listen_port(o->listener), "journal", journal_json(o), "connections",
                     counts_json(o));
}

static json_t *all_json(const struct orchestrator *o, bool brief)
{
    struct all a = {.o = o, .brief = brief, .jobs = json_array()};

    if (a.jobs == NULL) {
        return NULL;
    }
    cluster_each_job(o->cluster, each_job, &a);
    if (a.b.failed) {
        json_decref(a.jobs);
        return NULL;
    }
    return json_pack("{s:o, s:o}", "orchestrator", self_json(o), "jobs", a.jobs);
}

/* The object is given. */
static int dump(json_t *json, char **text_out)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    if (text == NULL) {
        return MU_ENOMEM;
    }
    *text_out = text;
    return MU_OK;
}

int status_text(struct orchestrator *o, const char *job, char **text_out)
{
    struct job_look look;

    if (job[0] == '\0') {
        return dump(all_json(o, false), text_out);
    }
    if (cluster_look_job(o->cluster, job, &look) != MU_OK) {
        return MU_ENOENT;
    }
    return dump(job_json(o, &look), text_out);
}

int status_list_text(struct orchestrator *o, char **text_out)
{
    return dump(all_json(o, true), text_out);
}

int status_members_text(struct orchestrator *o, const char *job, char **text_out)
{
    struct job_look look;
    json_t *json;

    if (cluster_look_job(o->cluster, job, &look) != MU_OK) {
        return MU_ENOENT;
    }
    json = json_pack("{s:s, s:I, s:I}", "job", job, "generation", (json_int_t)look.view.generation,
                     "active", (json_int_t)look.view.active);
    return dump(with_members(o, job, json), text_out);
}
