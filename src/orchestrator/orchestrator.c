/* The orchestrator: birth, time, death. */
#include "orchestrator/orchestrator.h"

#include "base/log.h"
#include "orchestrator/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAME_MAX (256u << 10) /* a value to be synced; pieces of checkpoints are shorter */
#define HANDSHAKES_MAX 8192    /* after a restart all agents come back in one moment */
#define HANDSHAKE_MS 15000     /* long: a core does some hundred handshakes a second */

/* ---- time ---- */

void driver_time(struct orchestrator *o)
{
    o->now_ms = MAX(o->now_ms, net_now_ms());
}

static void on_timer(uv_timer_t *t);

/* A timer that is early costs a tick; only one that would be late has to be set again. */
void driver_arm(struct orchestrator *o)
{
    uint64_t at_ms = MIN(journal_deadline(o->journal), values_deadline(o));

    at_ms = MIN(at_ms, MIN(settings_deadline(o), training_deadline(o)));
    if (at_ms < o->armed_ms) {
        o->armed_ms = at_ms;
        uv_timer_start(&o->timer, on_timer, at_ms > o->now_ms ? at_ms - o->now_ms : 1, 0);
    }
}

int driver_step(struct orchestrator *o, struct event *e)
{
    int rc;

    driver_time(o);
    e->now_ms = o->now_ms;
    rc = cluster_step(o->cluster, e, &o->fx);
    effects_forget(o);
    driver_arm(o);
    return rc;
}

static void tick(struct orchestrator *o)
{
    driver_time(o);
    journal_tick(o->journal, o->now_ms);
    effects_forget(o);
}

static void on_timer(uv_timer_t *t)
{
    struct orchestrator *o = t->data;

    o->armed_ms = UINT64_MAX;
    driver_time(o);
    values_tick(o);
    settings_tick(o);
    training_tick(o);
    tick(o);
    if (o->now_ms >= o->sweep_ms) {
        o->sweep_ms = o->now_ms + o->config.lease_ms;
        sessions_sweep(o);
    }
    driver_arm(o);
}

/* Records are applied at the time of now, not of the last event. */
static void on_news(uv_async_t *a)
{
    struct orchestrator *o = a->data;

    if (o->closing) {
        return;
    }
    tick(o);
    journal_poll(o->journal, o->now_ms);
    effects_forget(o);
    driver_arm(o);
}

/* ---- death ---- */

static void on_handle_closed(uv_handle_t *h)
{
    struct orchestrator *o = h->data;

    if (--o->handles_n == 0) {
        free(o);
    }
}

void orchestrator_close(struct orchestrator *o)
{
    if (o == NULL || o->closing) {
        return;
    }
    o->closing = true;
    if (o->listener != NULL) {
        listen_close(o->listener);
    }
    effects_forget(o);
    settings_close(o);
    web_close(o);
    deposits_close(o);
    sessions_close(o);
    events_close(o);
    records_close(o); /* Until here it may send us news. */
    tls_close(o->tls);
    values_close(o);
    training_close(o);
    machines_close(o);
    if (o->handles_n == 0) {
        free(o);
        return;
    }
    uv_close((uv_handle_t *)&o->news, on_handle_closed);
    uv_close((uv_handle_t *)&o->timer, on_handle_closed);
}

/* ---- birth ---- */

static int handles_init(struct orchestrator *o)
{
    o->news.data = o->timer.data = o;
    if (uv_async_init(o->loop, &o->news, on_news) != 0) {
        return MU_EIO;
    }
    uv_timer_init(o->loop, &o->timer);
    o->handles_n = 2;
    o->armed_ms = UINT64_MAX;
    return MU_OK;
}

static void count_nodes(void *arg, const struct job_look *j)
{
    uint32_t *counts = arg;

    counts[0]++;
    counts[1] += j->view.nodes_n;
}

static void announce(const struct orchestrator *o, const struct orchestrator_config *config)
{
    struct endpoint at = config->listen;
    char where[HOST_MAX_LEN + 16], token[PATH_MAX_LEN + 8];
    uint32_t counts[2] = {0};

    at.port = listen_port(o->listener);
    endpoint_print(&at, where, sizeof(where));
    snprintf(token, sizeof(token), "%s/token", o->data_dir);
    cluster_each_job(o->cluster, count_nodes, counts);
    log_write(driver_info(o), "orchestrator",
              "muster %s listens on %s; data: %s; %u jobs and %u nodes restored (record %" PRIu64
              "); %zu MiB of memory%s%s",
              mu_version(), where, o->data_dir, counts[0], counts[1], journal_look(o->journal).seq,
              2 * (cluster_memory(o->cluster) + config_table_memory(o->configs)) >> 20,
              access(token, F_OK) == 0 ? "; token: " : "", access(token, F_OK) == 0 ? token : "");
}

static int start_listening(struct orchestrator *o, const struct orchestrator_config *config,
                           char *error)
{
    struct listen_config listening = {
        .limits = {.frame_max = FRAME_MAX, .handshake_ms = HANDSHAKE_MS},
        .conns_max = config->conns_max,
        .handshakes_max = HANDSHAKES_MAX};
    int rc;

    mu_assert(wire_payload_max(WIRE_DEPOT) <= FRAME_MAX);
    rc = tls_server_open(&config->token, &o->tls, error);

    if (rc != MU_OK) {
        return rc;
    }
    return listen_tcp(o->loop, &config->listen, o->tls, &session_handler, &listening, o,
                      &o->listener, error);
}

static int begin(struct orchestrator *o, const struct orchestrator_config *config, char *error)
{
    int rc = data_dir_make(o->data_dir, error);

    if (rc != MU_OK) {
        return rc;
    }
    rc = machines_open(o);
    if (rc != MU_OK) {
        snprintf(error, STORE_ERROR_MAX,
                 "%s: %u jobs, %u nodes, %u workers, lease %u ms, orphan %u ms, takeover %u ms "
                 "(more than orphan and lease together)",
                 mu_strerror(rc), o->config.jobs_max, o->config.nodes_max, o->config.workers_max,
                 o->config.lease_ms, o->config.orphan_ms, o->config.takeover_ms);
        return rc;
    }
    rc = values_open(o);
    if (rc != MU_OK) {
        snprintf(error, STORE_ERROR_MAX, "values by tag: %s", mu_strerror(rc));
        return rc;
    }
    rc = handles_init(o);
    if (rc != MU_OK) {
        snprintf(error, STORE_ERROR_MAX, "the event loop takes no more handles");
        return rc;
    }
    rc = web_init(o, config, error);
    if (rc != MU_OK) {
        return rc;
    }
    rc = records_open(o, config->store, error);
    if (rc != MU_OK) {
        return rc;
    }
    rc = deposits_open(o, config->ckpt_quota);
    if (rc != MU_OK) {
        snprintf(error, STORE_ERROR_MAX, "checkpoints: %s", mu_strerror(rc));
        return rc;
    }
    rc = start_listening(o, config, error);
    return rc == MU_OK ? web_start(o, config, error) : rc;
}

int orchestrator_open(uv_loop_t *loop, const struct orchestrator_config *config,
                      struct orchestrator **o_out, char *error)
{
    struct orchestrator *o = calloc(1, sizeof(*o));
    int rc;

    if (o == NULL) {
        snprintf(error, STORE_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    o->loop = loop;
    o->quiet = config->quiet;
    o->config = config->cluster;
    o->sessions.first_free = UINT32_MAX;
    snprintf(o->data_dir, sizeof(o->data_dir), "%s", config->data_dir);
    effects_init(o);
    settings_open(o);
    rc = begin(o, config, error);
    if (rc != MU_OK) {
        orchestrator_close(o);
        return rc;
    }
    announce(o, config);
    web_announce(o, config);
    driver_time(o);
    o->start_ms = o->now_ms;
    o->start_wall_ms = net_wall_ms();
    o->sweep_ms = o->now_ms + o->config.lease_ms;
    values_restore(o);
    cluster_start(o->cluster, o->now_ms, o->start_wall_ms, &o->fx);
    effects_forget(o);
    driver_arm(o);
    *o_out = o;
    return MU_OK;
}

uint16_t orchestrator_port(const struct orchestrator *o)
{
    return listen_port(o->listener);
}
