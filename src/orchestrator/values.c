/* Values by tag (core/sync): frames in, frames out. Nothing of it is durable. */
#include "base/log.h"
#include "orchestrator/driver.h"

#include <string.h>

static struct body_values body_of(const struct msg_synced *m)
{
    struct body_values v = {.generation = m->generation,
                            .round = m->round,
                            .index = m->index,
                            .total = m->total,
                            .data_n = m->data_n,
                            .data = m->data};

    memcpy(v.addr, m->addr, sizeof(v.addr));
    return v;
}

static void emit(struct sync_effects *fx, uint32_t conn, const struct msg_synced *m)
{
    struct orchestrator *o = ((struct values *)fx)->o;
    const struct asker to = {conn, m->worker, m->request, ASK_VALUE};
    const struct body_values body = body_of(m);
    struct msg_says says = {.status = m->status,
                            .more = m->status == MU_OK && m->index + 1 < m->total};

    memcpy(says.text, m->text, sizeof(says.text));
    ask_says_body(o, &to, &says, &body);
}

static void take_generation(struct orchestrator *o, const struct generation *g)
{
    int rc = sync_generation(o->values.sync, o->now_ms, g, &o->values.fx);

    if (rc != MU_OK) {
        log_warn("orchestrator",
                 "job '%s': no room for the values of generation %llu's %u members: %s", g->job,
                 (unsigned long long)g->number, g->members_n, mu_strerror(rc));
    }
}

/* ---- after a restart ---- */

static void restore(void *arg, const struct job_look *j)
{
    struct orchestrator *o = arg;
    struct generation g;

    if (j->view.ended) {
        sync_ended(o->values.sync, o->now_ms, j->view.name, &o->values.fx);
    } else if (cluster_generation(o->cluster, j->view.name, &g) == MU_OK) {
        take_generation(o, &g);
    }
}

int values_open(struct orchestrator *o)
{
    struct sync_config config = sync_defaults();
    int rc;

    config.jobs_max = o->config.jobs_max;
    rc = sync_init(&config, &o->values.sync);
    if (rc != MU_OK) {
        return rc;
    }
    o->values.o = o;
    o->values.fx.emit = emit;
    return MU_OK;
}

void values_restore(struct orchestrator *o)
{
    cluster_each_job(o->cluster, restore, o);
}

void values_close(struct orchestrator *o)
{
    sync_close(o->values.sync);
    o->values.sync = NULL;
}

/* ---- what happens ---- */

void values_record(struct orchestrator *o, const struct record *r)
{
    if (r->kind == RECORD_GENERATION) {
        take_generation(o, &r->u.generation);
    } else if (r->kind == RECORD_FINISHED && r->u.finished.ended) {
        sync_ended(o->values.sync, o->now_ms, r->u.finished.job, &o->values.fx);
    } else if (r->kind == RECORD_FORGOTTEN) { /* perhaps without an end */
        sync_ended(o->values.sync, o->now_ms, r->u.forgotten.job, &o->values.fx);
    }
}

void serve_value(struct session *s, const struct asker *from, const struct msg_ask *m,
                 const union wire_any *body)
{
    const struct body_value *v = &body->value;
    struct orchestrator *o = s->o;
    struct msg_sync sync = {.worker = m->worker,
                            .request = m->request,
                            .wait_ms = m->wait_ms,
                            .data_n = v->data_n,
                            .data = v->data,
                            .done_generation = v->done_generation,
                            .done_n = v->done_n,
                            .joined = v->joined,
                            .last_generation = v->last_generation,
                            .last_n = v->last_n};

    memcpy(sync.tag, m->topic, sizeof(sync.tag));
    memcpy(sync.last_tag, v->last_tag, sizeof(sync.last_tag));
    driver_time(o);
    sync_put(o->values.sync, o->now_ms, s->number, s->job, &sync, &o->values.fx);
    driver_arm(o);
}

void values_closed(struct session *s)
{
    sync_closed(s->o->values.sync, s->number);
}

void values_tick(struct orchestrator *o)
{
    sync_tick(o->values.sync, o->now_ms, &o->values.fx);
}

uint64_t values_deadline(const struct orchestrator *o)
{
    return sync_deadline(o->values.sync);
}
