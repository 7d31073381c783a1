#include "orchestrator/web.h"

#include "orchestrator/web_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEED_BYTES (4u << 20)
#define SETTINGS_ITEMS 4096u
#define HISTORY_GENERATIONS 256u
#define HISTORY_BYTES ((size_t)1 << 20)

#define JOB "/v1/jobs/{job}"

const struct http_route web_routes[] = {
    {"GET", "/", HTTP_NOBODY, web_index, "these routes, as JSON"},
    {"GET", "/healthz", HTTP_NOBODY, web_healthz, "200 while the orchestrator runs"},
    {"GET", "/readyz", HTTP_NOBODY, web_readyz,
     "200 while changes can be made, or 503 and why not"},
    {"POST", "/v1/session", HTTP_VIEWER, web_session_begin,
     "for pages: a cookie that is taken in place of the token, with the same rights, for an hour"},
    {"DELETE", "/v1/session", HTTP_VIEWER, web_session_end, "ends that of the cookie"},
    {"GET", "/ui/{file}", HTTP_NOBODY, web_ui, "the page that shows the jobs: /ui/index.html"},
    {"GET", "/metrics", HTTP_VIEWER, web_metrics, "figures for Prometheus"},
    {"GET", "/v1/jobs", HTTP_VIEWER, web_jobs, "all jobs in short, and the orchestrator"},
    {"GET", JOB, HTTP_VIEWER, web_one_job,
     "a job with its members, those who help and those who wait"},
    {"GET", JOB "/members", HTTP_VIEWER, web_members, "only these"},
    {"GET", JOB "/generations", HTTP_VIEWER, web_generations,
     "its last generations; ?since=N: those after N"},
    {"GET", JOB "/events", HTTP_VIEWER, web_job_events,
     "its events; ?since=ID: those after it; ?follow=1: a stream"},
    {"GET", "/v1/events", HTTP_VIEWER, web_all_events, "the events of all jobs, in the same way"},
    {"GET", JOB "/config", HTTP_VIEWER, web_config_list,
     "its settings; ?prefix=P; ?wait=VERSION&timeout=S: once they change; ?follow=1: a stream"},
    {"GET", JOB "/config/{key...}", HTTP_VIEWER, web_config_get,
     "a setting's value, its version as ETag; ?wait= and ?follow= in the same way"},
    {"PUT", JOB "/config/{key...}", HTTP_OPERATOR, web_config_put,
     "sets it to the body; If-Match, If-None-Match: only if it is at that version"},
    {"DELETE", JOB "/config/{key...}", HTTP_OPERATOR, web_config_delete,
     "removes it; conditions as for PUT"},
};
const uint32_t web_routes_n = ARRAY_LEN(web_routes);

const char *web_role(enum http_role role)
{
    static const char *const names[] = {"none", "viewer", "operator"};

    return names[role];
}

/* ---- birth ---- */

int web_init(struct orchestrator *o, const struct orchestrator_config *config, char *error)
{
    const struct history_limits limits = {config->cluster.jobs_max, HISTORY_GENERATIONS,
                                          HISTORY_BYTES};
    struct web *w;
    uint64_t life;

    if (!config->web.wanted) {
        return MU_OK;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL || history_open(&limits, &w->history) != MU_OK) {
        free(w);
        snprintf(error, STORE_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    random_bytes(&life, sizeof(life));
    snprintf(w->life, sizeof(w->life), "%016" PRIx64, life);
    TAILQ_INIT(&w->waits);
    w->o = o;
    o->web = w;
    return MU_OK;
}

static int copy_hosts(struct web *w, const struct web_config *config)
{
    w->hosts = calloc(MAX(config->hosts_n, 1u), sizeof(*w->hosts));
    for (; w->hosts != NULL && w->hosts_n < config->hosts_n; w->hosts_n++) {
        w->hosts[w->hosts_n] = strdup(config->hosts[w->hosts_n]);
        if (w->hosts[w->hosts_n] == NULL) {
            return MU_ENOMEM;
        }
    }
    return w->hosts != NULL ? MU_OK : MU_ENOMEM;
}

static int open_feeds(struct web *w)
{
    const struct http_feed_limits events = {EVENTS_MAX, FEED_BYTES};
    const struct http_feed_limits settings = {SETTINGS_ITEMS, FEED_BYTES};
    int rc = http_feed_open(w->http, &events, &w->events);

    return rc == MU_OK ? http_feed_open(w->http, &settings, &w->settings) : rc;
}

void web_announce(const struct orchestrator *o, const struct orchestrator_config *config)
{
    struct endpoint at = config->web.listen;
    char where[HOST_MAX_LEN + 16];

    if (o->web == NULL) {
        return;
    }
    at.port = http_port(o->web->http);
    endpoint_print(&at, where, sizeof(where));
    log_write(driver_info(o), "http",
              "serves http%s://%s; `muster token --role viewer` prints a token for it",
              config->web.cert_file != NULL ? "s" : "", where);
}

int web_start(struct orchestrator *o, const struct orchestrator_config *config, char *error)
{
    struct web *w = o->web;
    struct http_config http = {.listen = config->web.listen,
                               .cert_file = config->web.cert_file,
                               .key_file = config->web.key_file,
                               .routes = web_routes,
                               .routes_n = web_routes_n,
                               .arg = o};
    int rc;

    if (w == NULL) {
        return MU_OK;
    }
    web_watch_open(w);
    if (copy_hosts(w, &config->web) != MU_OK || web_events_open(w) != MU_OK) {
        snprintf(error, STORE_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    http.hosts = (const char *const *)w->hosts;
    http.hosts_n = w->hosts_n;
    token_derive(&config->token, TOKEN_KEY_VIEWER, http.viewer);
    token_derive(&config->token, TOKEN_KEY_OPERATOR, http.operator);
    rc = http_open(o->loop, &http, &w->http, error);
    explicit_bzero(&http, sizeof(http));
    if (rc != MU_OK) {
        return rc;
    }
    rc = open_feeds(w);
    if (rc != MU_OK) {
        snprintf(error, STORE_ERROR_MAX, "%s", mu_strerror(rc));
    }
    return rc;
}

uint16_t orchestrator_http_port(const struct orchestrator *o)
{
    return o->web != NULL ? http_port(o->web->http) : 0;
}

/* ---- death ---- */

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void web_close(struct orchestrator *o)
{
    struct web *w = o->web;

    if (w == NULL) {
        return;
    }
    http_close(w->http);
    w->http = NULL;
    o->web = NULL;
    web_watch_close(w);
    web_events_close(w);
    web_cache_close(w);
    history_close(w->history);
    for (uint32_t i = 0; i < w->hosts_n; i++) {
        free(w->hosts[i]);
    }
    free(w->hosts);
    if (w->has_timer) {
        uv_close((uv_handle_t *)&w->sweep, on_closed);
    } else {
        free(w);
    }
}

/* ---- what happens ---- */

void web_note(struct orchestrator *o, const struct msg_event *e)
{
    if (o->web != NULL) {
        history_note(o->web->history, e);
        web_push_event(o->web, e);
    }
}

void web_record(struct orchestrator *o, const struct record *r, bool replayed)
{
    if (o->web == NULL) {
        return;
    }
    history_record(o->web->history, o->cluster, r, replayed ? 0 : net_wall_ms());
}
