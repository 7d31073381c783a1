/* Events: those that are kept, and those to come as a stream.
 *
 * The feed has the number of each event as its own, less those that found no place in it. */
#include "orchestrator/event_json.h"
#include "orchestrator/web_state.h"
#include "orchestrator/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESTARTED "the orchestrator was restarted: events of its earlier life may have been missed"

int web_events_open(struct web *w)
{
    w->kept = calloc(EVENTS_MAX, sizeof(*w->kept));
    return w->kept != NULL ? MU_OK : MU_ENOMEM;
}

void web_events_close(struct web *w)
{
    for (size_t i = 0; w->kept != NULL && i < EVENTS_MAX; i++) {
        free(w->kept[i].text);
    }
    free(w->kept);
    w->kept = NULL;
}

static void keep(struct web *w, const struct msg_event *e, char *text)
{
    struct web_event *kept = &w->kept[e->number % EVENTS_MAX];

    free(kept->text);
    kept->text = text;
    memcpy(kept->job, e->job, sizeof(kept->job));
}

void web_push_event(struct web *w, const struct msg_event *e)
{
    json_t *json = event_json(e, w->life);
    char *data = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL, *text = NULL;
    char id[EVENT_ID_MAX];
    int n = -1;

    event_id(w->life, e->number, id);
    if (data != NULL) {
        n = asprintf(&text, "id: %s\nevent: %s\ndata: %s\n\n", id, words_kind(e->kind), data);
    }
    if (n < 0 || http_feed_push(w->events, e->job, text, (size_t)n) != MU_OK) {
        w->events_left_out_n++;
    }
    if (n >= 0) {
        free(text);
    }
    keep(w, e, data);
    json_decref(json);
}

/* ---- from where on ---- */

struct since {
    uint64_t number; /* events after this one; 0: all */
    bool gap;        /* what lies between may be lost */
};

/* "7", or an id: of this life, or of another, whose events are not here. */
static bool since_parse(const struct web *w, const char *text, struct since *s)
{
    const char *dash = strchr(text, '-');
    const char *digits = dash != NULL ? dash + 1 : text;
    const size_t life_n = dash != NULL ? (size_t)(dash - text) : 0;
    char *end;

    if (digits[0] == '\0' || strspn(digits, "0123456789") != strlen(digits) ||
        strlen(digits) > 19 || (dash != NULL && life_n == 0)) {
        return false;
    }
    s->number = strtoull(digits, &end, 10);
    s->gap = (dash != NULL && (life_n != strlen(w->life) || memcmp(text, w->life, life_n) != 0)) ||
             s->number > w->o->events.last;
    if (s->gap) {
        s->number = 0;
    }
    return true;
}

/* A header that makes no sense is of another server, or of one who mixes them up: it gets all, and
 * the word that it may have missed some. In the query it is a mistake of whoever wrote it. */
static bool since_of(const struct web *w, struct http_request *q, struct since *s)
{
    const char *last = http_header(q, "Last-Event-ID"), *since = http_query(q, "since");

    *s = (struct since){0};
    if (last != NULL && last[0] != '\0') {
        if (!since_parse(w, last, s)) {
            s->gap = true;
        }
        return true;
    }
    if (since != NULL && !since_parse(w, since, s)) {
        http_answer_error(q, 400, "it is the id of an event, or its number",
                          "?since= makes no sense: '%.80s'", since);
        return false;
    }
    return true;
}

/* ---- the two forms ---- */

static void stream(struct web *w, struct http_request *q, const char *job, const struct since *s)
{
    static const char gap[] = "event: gap\ndata: {\"text\": \"" RESTARTED "\"}\n\n";
    const uint64_t left_out_n = MIN(w->events_left_out_n, s->number);
    char *head = s->gap ? strdup(gap) : NULL;

    http_stream(q, w->events, job, s->number + 1 - left_out_n, head,
                head != NULL ? strlen(head) : 0);
}

static void print_list(FILE *out, const struct web *w, const char *job, const struct since *s)
{
    const uint64_t last = w->o->events.last;
    const uint64_t oldest = last > EVENTS_MAX ? last - EVENTS_MAX + 1 : 1;
    const char *comma = "";
    char id[EVENT_ID_MAX];

    event_id(w->life, last, id);
    fprintf(out, "{\"last\":\"%s\",\"gap\":%s,\"events\":[", id,
            s->gap || s->number + 1 < oldest ? "true" : "false");
    for (uint64_t i = MAX(s->number + 1, oldest); i <= last; i++) {
        const struct web_event *kept = &w->kept[i % EVENTS_MAX];

        if (kept->text != NULL &&
            (job[0] == '\0' || kept->job[0] == '\0' || strcmp(job, kept->job) == 0)) {
            fprintf(out, "%s%s", comma, kept->text);
            comma = ",";
        }
    }
    fputs("]}", out);
}

static void list(const struct web *w, struct http_request *q, const char *job,
                 const struct since *s)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    bool failed = true;

    if (out != NULL) {
        print_list(out, w, job, s);
        failed = ferror(out) != 0;
        failed = fclose(out) != 0 || failed;
    }
    if (failed) {
        free(text);
        web_answer_no_memory(q);
        return;
    }
    http_answer(q, 200, "application/json", text, n);
}

static void events(struct web *w, struct http_request *q, const char *job)
{
    struct since s;

    if (!since_of(w, q, &s)) {
        return;
    }
    if (web_wants_stream(q)) {
        stream(w, q, job, &s);
    } else {
        list(w, q, job, &s);
    }
}

void web_all_events(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;

    events(o->web, q, "");
}

void web_job_events(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;
    const char *job = web_job(o->web, q);

    if (job != NULL) {
        events(o->web, q, job);
    }
}
