#include "orchestrator/web_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEAR_MS 10 /* of the CPU; below that it is made anew each time */

/* Not the clock on the wall: a busy machine makes nothing dear. */
static uint64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static struct web_cached *find(struct web *w, const char *what)
{
    for (size_t i = 0; i < WEB_CACHED_N; i++) {
        struct web_cached *c = &w->cached[i];

        if (c->text != NULL && c->until_ms > w->o->now_ms && strcmp(c->what, what) == 0) {
            return c;
        }
    }
    return NULL;
}

/* The place of the one that ends first. */
static void keep(struct web *w, const char *what, const char *text, size_t n, uint64_t took_ms)
{
    struct web_cached *c = &w->cached[0];
    char *copy = malloc(n);

    for (size_t i = 1; i < WEB_CACHED_N; i++) {
        c = w->cached[i].until_ms < c->until_ms ? &w->cached[i] : c;
    }
    if (copy == NULL) {
        return;
    }
    memcpy(copy, text, n);
    free(c->text);
    c->text = copy;
    c->n = n;
    c->until_ms = w->o->now_ms + 10 * took_ms;
    snprintf(c->what, sizeof(c->what), "%s", what);
}

static void answer_again(struct http_request *q, const char *type, const struct web_cached *c)
{
    char *text = malloc(c->n);

    if (text == NULL) {
        web_answer_no_memory(q);
        return;
    }
    memcpy(text, c->text, c->n);
    http_answer(q, 200, type, text, c->n);
}

void web_answer_made(struct web *w, struct http_request *q, const char *kind, const char *job,
                     const char *type, web_make *make)
{
    const uint64_t begin_ms = cpu_ms();
    const struct web_cached *c;
    char what[sizeof(c->what)], *text = NULL;
    uint64_t took_ms;
    size_t n = 0;
    int rc;

    snprintf(what, sizeof(what), "%s %s", kind, job);
    driver_time(w->o);
    c = find(w, what);
    if (c != NULL) {
        answer_again(q, type, c);
        return;
    }
    rc = make(w->o, job, &text, &n);
    if (rc != MU_OK) {
        web_answer_status(q, rc, NULL, NULL);
        return;
    }
    took_ms = cpu_ms() - begin_ms;
    if (took_ms >= DEAR_MS) {
        keep(w, what, text, n, took_ms);
    }
    http_answer(q, 200, type, text, n);
}

void web_cache_close(struct web *w)
{
    for (size_t i = 0; i < WEB_CACHED_N; i++) {
        free(w->cached[i].text);
    }
}
