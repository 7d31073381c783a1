/* The HTTP side from inside, for the files web*.c. */
#ifndef ORCHESTRATOR_WEB_STATE_H
#define ORCHESTRATOR_WEB_STATE_H

#include "orchestrator/driver.h"
#include "orchestrator/history.h"
#include "orchestrator/web.h"

#include <jansson.h>
#include <sys/queue.h>

#define WEB_WAIT_S 30 /* a long poll, unless it says otherwise */
#define WEB_WAIT_MAX_S 300
#define WEB_CACHED_N 4
#define WEB_SWEEP_MS 2000 /* how often those who have gone are looked for */

struct web_wait;
TAILQ_HEAD(web_waits, web_wait);

/* An event as JSON, made once. */
struct web_event {
    char job[NAME_MAX_LEN];
    char *text; /* NULL: out of memory */
};

/* What took long to make is given again for a while. */
struct web_cached {
    char what[NAME_MAX_LEN + 16];
    char *text;
    size_t n;
    uint64_t until_ms;
};

struct web {
    struct orchestrator *o;
    struct http *http;
    char **hosts;
    uint32_t hosts_n;
    char life[20]; /* tells the events of this process from those of others */
    struct http_feed *events, *settings;
    struct web_event *kept;     /* number n is at n % EVENTS_MAX */
    uint64_t events_left_out_n; /* that had no place in the feed: its numbers are so much lower */
    struct history *history;
    struct web_cached cached[WEB_CACHED_N];
    LIST_HEAD(, web_follow) follows; /* jobs whose settings go into the feed */
    struct web_waits waits;
    uv_timer_t sweep;
    bool has_timer;
};

/* web_answer.c */

/* Gives the object away; NULL: out of memory. */
void web_answer_json(struct http_request *q, unsigned status, json_t *json);

/* By a status of muster's. hint may be NULL. */
void web_answer_status(struct http_request *q, int status, const char *why, const char *hint);
void web_answer_no_memory(struct http_request *q);

/* A whole number in the query: MU_ENOENT: there is none; MU_EINVAL: it is no number, or too large,
 * and that has been answered. */
int web_number(struct http_request *q, const char *name, uint64_t max, uint64_t *n_out);

/* Whether a stream is wanted: Accept, or ?follow=1. */
bool web_wants_stream(const struct http_request *q);
bool web_accepts(const struct http_request *q, const char *type);

/* The first parameter, if there is such a job; otherwise NULL, and that has been answered. */
const char *web_job(struct web *w, struct http_request *q);

/* Handlers; the argument is the struct orchestrator. */
http_handler web_ui;                                                             /* web_ui.c */
http_handler web_session_begin, web_session_end;                                 /* web_session.c */
http_handler web_index, web_healthz, web_readyz, web_metrics;                    /* web_ops.c */
http_handler web_jobs, web_one_job, web_members, web_generations;                /* web_jobs.c */
http_handler web_all_events, web_job_events;                                     /* web_events.c */
http_handler web_config_list, web_config_get, web_config_put, web_config_delete; /* web_config.c */

/* web_cache.c: answers with what make() gives (malloc's; MU_OK or a status of muster's). With many
 * thousand members that takes the loop long enough to matter, so it is kept for ten times as long
 * as it took, by its kind and job ("": none). */
typedef int web_make(struct orchestrator *o, const char *job, char **text_out, size_t *n_out);
void web_answer_made(struct web *w, struct http_request *q, const char *kind, const char *job,
                     const char *type, web_make *make);
void web_cache_close(struct web *w);

/* web_events.c */
int web_events_open(struct web *w);
void web_events_close(struct web *w);
void web_push_event(struct web *w, const struct msg_event *e);

/* web_read.c: a setting, or all that begin with a prefix, as they are now. `waited`: as the end of
 * a wait. */
struct web_want {
    bool one; /* a key, or a prefix */
    char key[CONFIG_KEY_MAX];
};
void web_read(struct web *w, struct http_request *q, const char *job, const struct web_want *want);

void web_etag(struct http_request *q, uint64_t version);
void web_version(struct http_request *q, const struct config *c);

/* web_watch.c: changes of settings, as they come: by long poll and by stream */
void web_wait(struct web *w, struct http_request *q, const char *job, const struct web_want *want,
              uint64_t after);
void web_stream_settings(struct web *w, struct http_request *q, const char *job,
                         const struct web_want *want);
void web_watch_open(struct web *w);
void web_watch_close(struct web *w);

/* metrics.c: Prometheus' text format; malloc's. NULL: out of memory. */
char *metrics_text(struct orchestrator *o, size_t *n_out);

#endif
