/* Values by tag (core/sync): frames in, frames out. Nothing of it is durable. */
#include "base/log.h"
#include "orchestrator/driver.h"

static void emit(struct sync_effects *fx, uint32_t conn, const struct msg_synced *m)
{
    struct orchestrator *o = ((struct values *)fx)->o;
    struct session *s = session_find(o, conn);

    if (s != NULL) {
        conn_say(s->conn, WIRE_SYNCED, m, 0, 0);
    }
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
    } else if (r->kind == RECORD_FORGOTTEN) { /* … without an end, perhaps. */
        sync_ended(o->values.sync, o->now_ms, r->u.forgotten.job, &o->values.fx);
    }
}

/* An agent speaks for its own workers only. Another number than its own is one that it had before,
 * and whoever has it will repeat what it wants under the new one. */
void values_put(struct session *s, const struct msg_sync *m)
{
    struct orchestrator *o = s->o;

    if (s->node_number == 0 || wid_node(m->worker) != s->node_number) {
        return;
    }
    driver_time(o);
    sync_put(o->values.sync, o->now_ms, s->number, s->job, m, &o->values.fx);
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
