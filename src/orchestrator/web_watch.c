/* Changes of settings as they come: an answer that waits for one, or a stream of all.
 *
 * The feed of the streams has each change under several topics: the job's, one for each folder that
 * the key is in, and the key's own; a stream reads one of them. Ids are versions, which survive the
 * orchestrator. */
#include "orchestrator/setting_json.h"
#include "orchestrator/web_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC_MAX (NAME_MAX_LEN + CONFIG_KEY_MAX + 2)

#define FORGOTTEN "changes have been forgotten: what follows is all there is now"

/* ---- waiting ---- */

struct web_wait {
    TAILQ_ENTRY(web_wait) link;
    struct web *w;
    struct http_request *q;
    char job[NAME_MAX_LEN];
    struct web_want want;
    struct setting_watch watch;
};

static void unchanged(struct web *w, struct http_request *q, const struct web_wait *wait)
{
    const struct config *c = cluster_settings(w->o->cluster, wait->job);
    struct rec_config r;

    web_version(q, c);
    if (!wait->want.one) {
        web_etag(q, c->version);
    } else if (config_get(c, wait->want.key, &r) == MU_OK) {
        web_etag(q, r.version);
    }
    http_answer(q, 304, NULL, NULL, 0);
}

static void on_told(struct orchestrator *o, struct setting_watch *watch, int status, uint64_t since)
{
    struct web_wait *wait = CONTAINER_OF(watch, struct web_wait, watch);
    struct http_request *q = wait->q;

    TAILQ_REMOVE(&wait->w->waits, wait, link);
    switch (status) {
    case MU_OK:
    case MU_ESTALE: /* What changed is not known, but what is there now is. */
        web_read(wait->w, q, wait->job, &wait->want);
        break;
    case MU_ETIMEDOUT:
        unchanged(wait->w, q, wait);
        break;
    case MU_ENOENT:
        web_answer_status(q, status, "there is no such job", NULL);
        break;
    case MU_ELIMIT:
        web_answer_status(q, MU_EAGAIN, "too many wait for settings already",
                          "ask without ?wait=, or follow a stream");
        break;
    default:
        web_answer_status(q, MU_EAGAIN, "the orchestrator is going", NULL);
        break;
    }
    free(wait);
}

static void on_sweep(uv_timer_t *timer)
{
    struct web *w = timer->data;
    struct web_wait *wait = TAILQ_FIRST(&w->waits), *next;

    for (; wait != NULL; wait = next) {
        next = TAILQ_NEXT(wait, link);
        if (http_gone(wait->q)) {
            settings_unwatch(w->o, &wait->watch);
            TAILQ_REMOVE(&w->waits, wait, link);
            http_answer(wait->q, 503, NULL, NULL, 0); /* Nobody reads it. */
            free(wait);
        }
    }
    if (TAILQ_EMPTY(&w->waits)) {
        uv_timer_stop(timer);
    }
}

void web_wait(struct web *w, struct http_request *q, const char *job, const struct web_want *want,
              uint64_t after)
{
    uint64_t wait_s = WEB_WAIT_S;
    struct web_wait *wait;

    if (web_number(q, "timeout", WEB_WAIT_MAX_S, &wait_s) == MU_EINVAL) {
        return;
    }
    wait = calloc(1, sizeof(*wait));
    if (wait == NULL) {
        web_answer_no_memory(q);
        return;
    }
    driver_time(w->o);
    wait->w = w;
    wait->q = q;
    wait->want = *want;
    wait->watch.due_ms = w->o->now_ms + wait_s * 1000;
    wait->watch.told = on_told;
    snprintf(wait->job, sizeof(wait->job), "%s", job);
    TAILQ_INSERT_TAIL(&w->waits, wait, link);
    if (!uv_is_active((uv_handle_t *)&w->sweep)) {
        uv_timer_start(&w->sweep, on_sweep, WEB_SWEEP_MS, WEB_SWEEP_MS);
    }
    settings_watch(w->o, &wait->watch, job, want->key, after);
}

/* ---- streams ---- */

/* "id: 7\nevent: set\ndata: {…}\n\n"; false: out of memory. */
static bool print_change(FILE *out, const struct rec_config *r)
{
    json_t *json = setting_json(r);
    char *data = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

    if (data != NULL) {
        fprintf(out, "id: %" PRIu64 "\nevent: %s\ndata: %s\n\n", r->version,
                r->deleted ? "removed" : "set", data);
    }
    json_decref(json);
    free(data);
    return data != NULL;
}

static bool fits(const struct web_want *want, const struct rec_config *r)
{
    return r->key[0] != '\0' && config_matches(want->key, r->key);
}

static bool print_all(FILE *out, const struct config *c, const struct web_want *want)
{
    struct rec_config r = {0};
    bool ok = true;

    while (ok && config_dump(c, r.version, &r) == MU_OK) {
        ok = !fits(want, &r) || print_change(out, &r);
    }
    return ok;
}

static bool print_since(FILE *out, const struct config *c, const struct web_want *want,
                        uint64_t after)
{
    struct rec_config r = {.version = after};
    bool ok = true;
    int rc = MU_OK;

    while (ok && (rc = config_since(c, r.version, &r)) == MU_OK) {
        ok = !fits(want, &r) || print_change(out, &r);
    }
    if (ok && rc == MU_ESTALE) {
        fputs("event: gap\ndata: {\"text\": \"" FORGOTTEN "\"}\n\n", out);
        return print_all(out, c, want);
    }
    return ok;
}

/* What a stream begins with: all there is, or what has changed since. */
static char *head_of(const struct config *c, const struct web_want *want, bool all, uint64_t after,
                     size_t *n_out)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n_out);
    bool ok;

    if (out == NULL) {
        return NULL;
    }
    ok = all ? print_all(out, c, want) : print_since(out, c, want, after);
    if (fclose(out) != 0 || !ok) {
        free(text);
        return NULL;
    }
    return text;
}

static void topic_of(const char *job, const char *key, size_t key_n, char topic[TOPIC_MAX])
{
    snprintf(topic, TOPIC_MAX, "%s%s%.*s", job, key_n > 0 ? "\n" : "", (int)key_n, key);
}

/* False: that has been answered. An id that is none of ours begins with all. */
static bool begin_at(struct http_request *q, bool *all_out, uint64_t *after_out)
{
    const char *last = http_header(q, "Last-Event-ID");
    char *end;
    int rc;

    if (last != NULL && last[0] != '\0') {
        *after_out = strtoull(last, &end, 10);
        *all_out = strspn(last, "0123456789") != strlen(last) || strlen(last) > 19;
        return true;
    }
    rc = web_number(q, "since", INT64_MAX, after_out);
    *all_out = rc == MU_ENOENT;
    return rc != MU_EINVAL;
}

/* ---- into the feed ---- */

/* A feed without memory has a gap that nobody is told of but by the next version. */
static void push_change(struct web *w, const char *job, const struct rec_config *r)
{
    char topic[TOPIC_MAX], *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    bool ok = out != NULL && print_change(out, r);

    if (out == NULL || fclose(out) != 0 || !ok) {
        log_warn("http", "job '%s': out of memory: streams miss a change of '%s'", job, r->key);
        free(text);
        return;
    }
    topic_of(job, "", 0, topic);
    (void)http_feed_push(w->settings, topic, text, n);
    for (size_t i = 0; r->key[i] != '\0'; i++) {
        if (r->key[i] == '/' || r->key[i + 1] == '\0') {
            topic_of(job, r->key, i + 1, topic);
            (void)http_feed_push(w->settings, topic, text, n);
        }
    }
    free(text);
}

/* A job whose changes go into the feed: from its first stream on, for as long as it is there. */
struct web_follow {
    LIST_ENTRY(web_follow) link;
    struct web *w;
    char job[NAME_MAX_LEN];
    struct setting_watch watch;
};

static void drop(struct web_follow *f)
{
    LIST_REMOVE(f, link);
    free(f);
}

static void push_told(struct orchestrator *o, struct setting_watch *watch, int status,
                      uint64_t since)
{
    struct web_follow *f = CONTAINER_OF(watch, struct web_follow, watch);
    const struct config *c = cluster_settings(o->cluster, f->job);
    struct rec_config r = {.version = since};

    if (status != MU_OK) {
        drop(f);
        return;
    }
    while (config_since(c, r.version, &r) == MU_OK) {
        if (r.key[0] != '\0') {
            push_change(f->w, f->job, &r);
        }
    }
}

/* MU_ENOMEM, or MU_EAGAIN: nobody can watch any more. */
static int follow(struct web *w, const char *job, uint64_t version)
{
    struct web_follow *f;

    LIST_FOREACH(f, &w->follows, link)
    {
        if (strcmp(f->job, job) == 0) {
            return MU_OK;
        }
    }
    f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return MU_ENOMEM;
    }
    f->w = w;
    snprintf(f->job, sizeof(f->job), "%s", job);
    f->watch = (struct setting_watch){.due_ms = UINT64_MAX, .lasts = true, .told = push_told};
    LIST_INSERT_HEAD(&w->follows, f, link);
    settings_watch(w->o, &f->watch, f->job, "", version);
    /* It is gone again if it was refused. */
    return !LIST_EMPTY(&w->follows) && LIST_FIRST(&w->follows) == f ? MU_OK : MU_EAGAIN;
}

void web_stream_settings(struct web *w, struct http_request *q, const char *job,
                         const struct web_want *want)
{
    const struct config *c = cluster_settings(w->o->cluster, job);
    char topic[TOPIC_MAX], *head;
    uint64_t after = 0;
    size_t n = 0;
    bool all;
    int rc;

    if (!begin_at(q, &all, &after)) {
        return;
    }
    rc = follow(w, job, c->version);
    if (rc == MU_EAGAIN) {
        web_answer_status(q, rc, "too many wait for settings already", NULL);
        return;
    }
    head = rc == MU_OK ? head_of(c, want, all, after, &n) : NULL;
    if (head == NULL) {
        web_answer_no_memory(q);
        return;
    }
    topic_of(job, want->key, strlen(want->key), topic);
    http_stream(q, w->settings, topic, http_feed_next(w->settings), head, n);
}

void web_watch_open(struct web *w)
{
    w->sweep.data = w;
    uv_timer_init(w->o->loop, &w->sweep);
    w->has_timer = true;
    LIST_INIT(&w->follows);
}

void web_watch_close(struct web *w)
{
    mu_assert(TAILQ_EMPTY(&w->waits));
    while (!LIST_EMPTY(&w->follows)) {
        settings_unwatch(w->o, &LIST_FIRST(&w->follows)->watch);
        drop(LIST_FIRST(&w->follows));
    }
}
