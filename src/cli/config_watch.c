/* `muster config watch`: what was shown is remembered, so that after a gap (the orchestrator was
 * away, or changes were forgotten) a list tells what has changed, removals too. */
#include "cli/config_watch.h"
#include "cli/setting_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURN_MS 30000  /* of one question; its answer's end may be that nothing has changed */
#define SLACK_MS 10000 /* that an answer may be late before the orchestrator counts as gone */
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 5000

struct known {
    char key[CONFIG_KEY_MAX];
    uint64_t version;
    bool listed;
};

struct watcher {
    struct ask *ask;
    const struct config_watch *w;
    struct known *known;
    size_t known_n, cap;
    bool listed; /* `version` is where the next watch goes on */
    uint64_t version;
};

static struct known *find(struct watcher *t, const char *key)
{
    for (size_t i = 0; i < t->known_n; i++) {
        if (strcmp(t->known[i].key, key) == 0) {
            return &t->known[i];
        }
    }
    return NULL;
}

static int remember(struct watcher *t, const struct rec_config *m)
{
    struct known *k = find(t, m->key);

    if (m->deleted) {
        if (k != NULL) {
            *k = t->known[--t->known_n];
        }
        return EXIT_SUCCESS;
    }
    if (k == NULL) {
        if (t->known_n == t->cap) {
            size_t cap = t->cap == 0 ? 64 : t->cap * 2;
            struct known *more = realloc(t->known, cap * sizeof(*more));

            if (more == NULL) {
                return ask_failed(t->ask->command, EXIT_FAILURE, "out of memory");
            }
            t->known = more;
            t->cap = cap;
        }
        k = &t->known[t->known_n++];
        strcpy(k->key, m->key);
    }
    k->version = m->version;
    k->listed = true;
    return EXIT_SUCCESS;
}

static int show(struct watcher *t, const struct rec_config *m)
{
    char line[CONFIG_KEY_MAX + 1024];
    int rc = 0;

    if (t->w->json) {
        json_t *json = setting_object(t->w->job, m);

        rc = json == NULL ? -1 : json_dumpf(json, stdout, JSON_COMPACT);
        json_decref(json);
        rc |= putchar('\n') == EOF;
    } else {
        setting_line(m, 0, line, sizeof(line));
        rc = puts(line) == EOF;
    }
    /* Whoever reads a pipe of ours wants each as it comes. */
    return rc != 0 || fflush(stdout) != 0 ? EXIT_FAILURE : remember(t, m);
}

/* ---- a list: what differs from what was shown ---- */

static int show_if_new(struct watcher *t, const struct rec_config *m)
{
    struct known *k = find(t, m->key);

    if (!config_matches(t->w->key, m->key)) {
        return EXIT_SUCCESS;
    }
    if (k != NULL && k->version == m->version) {
        k->listed = true;
        return EXIT_SUCCESS;
    }
    return show(t, m);
}

static int show_removed(struct watcher *t, uint64_t version)
{
    int status = EXIT_SUCCESS;

    for (size_t i = t->known_n; i > 0 && status == EXIT_SUCCESS; i--) {
        struct rec_config m = {.deleted = true, .version = version};

        if (!t->known[i - 1].listed) {
            strcpy(m.key, t->known[i - 1].key);
            status = show(t, &m);
        }
    }
    return status;
}

/* ---- questions and answers ---- */

struct rec_config setting_of(const struct ask *a, const struct msg_says *m)
{
    struct rec_config r = {.version = m->at};

    memcpy(r.key, m->topic, sizeof(r.key));
    if (m->body_n > 0) {
        r.deleted = a->body.setting.deleted;
        r.value_n = a->body.setting.value_n;
        r.value = a->body.setting.value;
    }
    return r;
}

/* All that is answered to one question; EXIT_SUCCESS also when the watch was stale. */
static int take(struct watcher *t, uint32_t wait_ms, bool is_list)
{
    const struct msg_says *m;

    for (;;) {
        int status = ask_next(t->ask, wait_ms, &m);

        if (status != EXIT_SUCCESS) {
            return status;
        }
        if (m->status == MU_ESTALE) {
            t->listed = false;
            return EXIT_SUCCESS;
        }
        if (m->status != MU_OK) {
            return ask_refused(t->ask, m);
        }
        if (m->topic[0] != '\0') {
            const struct rec_config r = setting_of(t->ask, m);

            status = is_list ? show_if_new(t, &r) : show(t, &r);
        } else {
            t->version = m->at;
            t->listed = true;
            status = is_list ? show_removed(t, m->at) : EXIT_SUCCESS;
        }
        if (status != EXIT_SUCCESS || !m->more) {
            return status;
        }
    }
}

static int turn(struct watcher *t)
{
    const bool is_list = !t->listed;
    struct msg_ask m = {.kind = is_list ? ASK_SETTING_LIST : ASK_SETTING_WATCH,
                        .at = t->version,
                        .wait_ms = TURN_MS};
    int status;

    strcpy(m.job, t->w->job);
    strcpy(m.topic, t->w->key);
    for (size_t i = 0; is_list && i < t->known_n; i++) {
        t->known[i].listed = false;
    }
    status = ask_say(t->ask, &m, NULL);
    return status == EXIT_SUCCESS ? take(t, is_list ? t->ask->wait_ms : TURN_MS + SLACK_MS, is_list)
                                  : status;
}

/* Until it is back; anything but EXIT_SUCCESS is the end. */
static int reconnect(struct watcher *t)
{
    uint32_t wait_ms = BACKOFF_MIN_MS;
    int status;

    ask_failed(t->ask->command, 0, "the orchestrator went away; waiting until it is back");
    while ((status = ask_again(t->ask, t->w->where)) == EXIT_UNREACHABLE) {
        usleep(wait_ms * 1000);
        wait_ms = MIN(wait_ms * 2, BACKOFF_MAX_MS);
    }
    if (status == EXIT_SUCCESS) {
        ask_failed(t->ask->command, 0, "it is back");
    }
    return status;
}

int config_watch(struct ask *a, const struct config_watch *w)
{
    struct watcher t = {.ask = a, .w = w};
    int status;

    do {
        status = turn(&t);
        if (status == EXIT_UNREACHABLE) {
            status = reconnect(&t);
        }
    } while (status == EXIT_SUCCESS);
    free(t.known);
    return status;
}
