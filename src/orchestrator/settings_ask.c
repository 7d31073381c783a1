/* Settings, asked for (wire/ask.def): by people, and by workers through their agents. A connection
 * that closes leaves its changes in line, to be answered to nobody, and takes its watch along. */
#include "core/text.h"
#include "orchestrator/driver.h"
#include "orchestrator/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of several, or the only one. */
static void say_record(struct orchestrator *o, const struct asker *to, const struct rec_config *r,
                       bool more)
{
    const struct body_setting body = {
        .deleted = r->deleted, .value_n = r->value_n, .value = r->value};
    struct msg_says m = {.more = more, .at = r->version};

    memcpy(m.topic, r->key, sizeof(m.topic));
    ask_says_body(o, to, &m, &body);
}

static void say_mark(struct orchestrator *o, const struct asker *to, uint64_t version, bool more)
{
    ask_says(o, to, &(struct msg_says){.at = version, .more = more});
}

/* NULL: there is no such job, and that has been answered. */
static const struct config *settings_of(struct session *s, const struct asker *from,
                                        const struct msg_ask *m)
{
    const struct config *c = cluster_settings(s->o->cluster, m->job);

    if (c == NULL) {
        ask_no_job(s->o, from, m->job);
    }
    return c;
}

/* ---- reading ---- */

void serve_setting_get(struct session *s, const struct asker *from, const struct msg_ask *m,
                       const union wire_any *body)
{
    const struct config *c = settings_of(s, from, m);
    char why[TEXT_MAX_LEN];
    struct rec_config r;

    if (c == NULL) {
        return;
    }
    if (!config_key_valid(m->topic, why, sizeof(why))) {
        ask_fails(s->o, from, MU_EINVAL, "%s", why);
    } else if (config_get(c, m->topic, &r) != MU_OK) {
        ask_fails(s->o, from, MU_ENOENT, "job '%s' has no setting %s", c->job, m->topic);
    } else {
        say_record(s->o, from, &r, false);
    }
}

void serve_setting_list(struct session *s, const struct asker *from, const struct msg_ask *m,
                        const union wire_any *body)
{
    const struct config *c = settings_of(s, from, m);
    struct rec_config r = {.key = ""};

    while (c != NULL && config_list(c, m->topic, r.key, &r) == MU_OK) {
        say_record(s->o, from, &r, true);
    }
    if (c != NULL) {
        say_mark(s->o, from, c->version, false);
    }
}

/* ---- changes ---- */

struct change {
    struct setting_ask ask; /* first */
    struct asker asker;
    char key[CONFIG_KEY_MAX];
    uint8_t value[];
};

static void change_done(struct orchestrator *o, struct setting_ask *a, int status, uint64_t version,
                        const char *why)
{
    struct change *f = (struct change *)a;
    struct msg_says m = {.at = version};

    if (status != MU_OK) {
        /* As muster.h has it: whoever asked may try again. */
        ask_fails(o, &f->asker, status == MU_EIO ? MU_EAGAIN : status, "%s", why);
    } else {
        memcpy(m.topic, f->key, sizeof(m.topic));
        ask_says(o, &f->asker, &m);
    }
    free(f);
}

void serve_setting_change(struct session *s, const struct asker *from, const struct msg_ask *m,
                          const union wire_any *body)
{
    const struct body_setting *to = &body->setting;
    const uint32_t value_n = to->deleted ? 0 : to->value_n;
    struct change *f;

    if (settings_of(s, from, m) == NULL) {
        return;
    }
    f = malloc(sizeof(*f) + value_n);
    if (f == NULL) {
        ask_fails(s->o, from, MU_EAGAIN,
                  "nothing was changed: the orchestrator is out of memory; try again later");
        return;
    }
    *f = (struct change){.asker = *from,
                         .ask = {.request = {.key = f->key,
                                             .value = f->value,
                                             .value_n = value_n,
                                             .expect = m->at,
                                             .remove = to->deleted},
                                 .done = change_done}};
    strcpy(f->ask.job, m->job);
    strcpy(f->key, m->topic);
    if (value_n > 0) {
        memcpy(f->value, to->value, value_n);
    }
    settings_change(s->o, &f->ask);
}

/* ---- watching ---- */

struct session_watch {
    struct setting_watch watch; /* first */
    struct asker asker;
    char job[NAME_MAX_LEN];
    char key[CONFIG_KEY_MAX];
};

static void say_changes(struct orchestrator *o, const struct session_watch *f, uint64_t since,
                        bool more)
{
    const struct config *c = cluster_settings(o->cluster, f->job);
    struct rec_config r = {.version = since};

    while (config_since(c, r.version, &r) == MU_OK) {
        if (config_matches(f->key, r.key)) {
            say_record(o, &f->asker, &r, true);
        }
    }
    say_mark(o, &f->asker, c->version, more);
}

static void say_over(struct orchestrator *o, const struct session_watch *f, int status,
                     uint64_t since)
{
    struct msg_says m = {.status = status, .at = since};

    if (status == MU_ESTALE) {
        text_say(m.text, sizeof(m.text),
                 "what has changed since is no longer known: list the settings of job '%s', and "
                 "watch from there on",
                 f->job);
        ask_says(o, &f->asker, &m);
    } else if (status == MU_ENOENT) {
        ask_no_job(o, &f->asker, f->job);
    } else {
        ask_fails(o, &f->asker, status, "%s",
                  status == MU_ELIMIT ? "too many wait for settings already: try again later"
                                      : mu_strerror(status));
    }
}

static void watch_told(struct orchestrator *o, struct setting_watch *w, int status, uint64_t since)
{
    struct session_watch *f = (struct session_watch *)w;
    struct session *s = session_find(o, f->asker.conn);

    if (status == MU_OK) {
        say_changes(o, f, since, true);
        return;
    }
    if (status == MU_ETIMEDOUT) {
        say_changes(o, f, since, false);
    } else {
        say_over(o, f, status, since);
    }
    if (s != NULL && s->watch == f) {
        s->watch = NULL;
    }
    free(f);
}

static bool is_watched_key(const char *key, char *why, size_t cap)
{
    char whole[CONFIG_KEY_MAX];
    size_t n = strlen(key);

    if (n == 0) {
        return true;
    }
    strcpy(whole, key);
    if (n > 1 && key[n - 1] == '/') {
        whole[n - 1] = '\0';
    }
    return config_key_valid(whole, why, cap);
}

void serve_setting_watch(struct session *s, const struct asker *from, const struct msg_ask *m,
                         const union wire_any *body)
{
    char why[TEXT_MAX_LEN];
    struct session_watch *f;

    if (!is_watched_key(m->topic, why, sizeof(why))) {
        ask_fails(s->o, from, MU_EINVAL, "%s", why);
        return;
    }
    settings_closed(s); /* A connection has one. */
    f = calloc(1, sizeof(*f));
    if (f == NULL) {
        ask_fails(s->o, from, MU_EAGAIN, "the orchestrator is out of memory; try again later");
        return;
    }
    driver_time(s->o);
    f->asker = *from;
    f->watch.lasts = true;
    f->watch.told = watch_told;
    f->watch.due_ms = m->wait_ms == UINT32_MAX ? UINT64_MAX : s->o->now_ms + m->wait_ms;
    strcpy(f->job, m->job);
    strcpy(f->key, m->topic);
    s->watch = f;
    settings_watch(s->o, &f->watch, f->job, f->key, m->at);
}

void settings_closed(struct session *s)
{
    if (s->watch != NULL) {
        settings_unwatch(s->o, &s->watch->watch);
        free(s->watch);
        s->watch = NULL;
    }
}
