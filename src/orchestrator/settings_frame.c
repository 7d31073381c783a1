/* Settings by frames (struct msg_config): of people, and of agents for their workers. A connection
 * that closes leaves its changes in line, to be answered to nobody, and takes its watches along. */
#include "core/text.h"
#include "orchestrator/driver.h"
#include "orchestrator/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whom to answer. */
struct asker {
    uint32_t conn;
    wid worker;
    uint64_t request; /* of the message … */
    uint64_t header;  /* … and of the frame */
};

static struct asker asker_of(const struct session *s, const struct msg_config *m, uint64_t header)
{
    return (struct asker){.conn = s->number,
                          .worker = m->worker,
                          .request = m->request,
                          .header = s->is_agent ? 0 : header};
}

static const char *job_of(const struct session *s, const struct msg_config *m)
{
    return s->is_agent ? s->job : m->job;
}

/* Nobody is told if the connection is gone. */
static void say(struct orchestrator *o, const struct asker *to, struct msg_setting *m)
{
    struct session *s = session_find(o, to->conn);

    if (s != NULL && !o->closing) {
        m->worker = to->worker;
        m->request = to->request;
        conn_say(s->conn, WIRE_SETTING, m, 0, to->header);
    }
}

static void __attribute__((format(printf, 4, 5)))
say_failed(struct orchestrator *o, const struct asker *to, int status, const char *fmt, ...)
{
    struct msg_setting m = {.status = status};
    va_list args;

    va_start(args, fmt);
    text_vsay(m.text, sizeof(m.text), fmt, args);
    va_end(args);
    say(o, to, &m);
}

static void say_no_job(struct orchestrator *o, const struct asker *to, const char *job)
{
    say_failed(o, to, MU_ENOENT, "there is no job '%s' here; `muster status` shows those there are",
               job);
}

/* One of several, or the only one. */
static void say_record(struct orchestrator *o, const struct asker *to, const struct rec_config *r,
                       bool more)
{
    struct msg_setting m = {.more = more,
                            .deleted = r->deleted,
                            .version = r->version,
                            .value_n = r->value_n,
                            .value = r->value};

    memcpy(m.key, r->key, sizeof(m.key));
    say(o, to, &m);
}

static void say_end(struct orchestrator *o, const struct asker *to, uint64_t version)
{
    struct msg_setting m = {.version = version};

    say(o, to, &m);
}

/* ---- reading ---- */

static void get(struct orchestrator *o, const struct asker *to, const struct config *c,
                const char *key)
{
    char why[TEXT_MAX_LEN];
    struct rec_config r;

    if (!config_key_valid(key, why, sizeof(why))) {
        say_failed(o, to, MU_EINVAL, "%s", why);
    } else if (config_get(c, key, &r) != MU_OK) {
        say_failed(o, to, MU_ENOENT, "job '%s' has no setting %s", c->job, key);
    } else {
        say_record(o, to, &r, false);
    }
}

static void list(struct orchestrator *o, const struct asker *to, const struct config *c,
                 const char *prefix)
{
    struct rec_config r = {.key = ""};

    while (config_list(c, prefix, r.key, &r) == MU_OK) {
        say_record(o, to, &r, true);
    }
    say_end(o, to, c->version);
}

/* ---- changes ---- */

struct frame_ask {
    struct setting_ask ask; /* first */
    struct asker asker;
    char key[CONFIG_KEY_MAX];
    uint8_t value[];
};

static void change_done(struct orchestrator *o, struct setting_ask *a, int status, uint64_t version,
                        const char *why)
{
    struct frame_ask *f = (struct frame_ask *)a;
    struct msg_setting m = {.status = status, .version = version, .deleted = a->request.remove};

    if (status != MU_OK) {
        /* As muster.h has it: whoever asked may try again. */
        say_failed(o, &f->asker, status == MU_EIO ? MU_EAGAIN : status, "%s", why);
    } else {
        memcpy(m.key, f->key, sizeof(m.key));
        say(o, &f->asker, &m);
    }
    free(f);
}

static void change(struct session *s, const struct asker *from, const struct msg_config *m)
{
    uint32_t value_n = m->verb == CONFIG_PUT ? m->value_n : 0;
    struct frame_ask *f = malloc(sizeof(*f) + value_n);

    if (f == NULL) {
        say_failed(s->o, from, MU_EAGAIN,
                   "nothing was changed: the orchestrator is out of memory; try again later");
        return;
    }
    *f = (struct frame_ask){.asker = *from,
                            .ask = {.request = {.key = f->key,
                                                .value = f->value,
                                                .value_n = value_n,
                                                .expect = m->expect,
                                                .remove = m->verb == CONFIG_REMOVE},
                                    .done = change_done}};
    strcpy(f->ask.job, job_of(s, m));
    strcpy(f->key, m->key);
    if (value_n > 0) {
        memcpy(f->value, m->value, value_n);
    }
    settings_change(s->o, &f->ask);
}

/* ---- watching ---- */

struct frame_watch {
    struct setting_watch watch; /* first */
    struct asker asker;
};

static void say_changes(struct orchestrator *o, const struct frame_watch *f, const struct config *c)
{
    struct rec_config r = {.version = f->watch.after};

    while (config_since(c, r.version, &r) == MU_OK) {
        if (config_matches(f->watch.key, r.key)) {
            say_record(o, &f->asker, &r, true);
        }
    }
    say_end(o, &f->asker, c->version);
}

static void watch_done(struct orchestrator *o, struct setting_watch *w, int status)
{
    struct frame_watch *f = (struct frame_watch *)w;
    struct session *s = session_find(o, f->asker.conn);
    const struct config *c = cluster_settings(o->cluster, w->job);

    if (s != NULL) {
        s->watches_n--;
    }
    if (status == MU_OK || status == MU_ETIMEDOUT) {
        say_changes(o, f, c);
    } else if (status == MU_ENOENT) {
        say_no_job(o, &f->asker, w->job);
    } else if (status == MU_ESTALE) {
        say_failed(o, &f->asker, status,
                   "what has changed since is no longer known: list the settings of job '%s', and "
                   "watch from there on",
                   w->job);
    } else {
        say_failed(o, &f->asker, status, "%s",
                   status == MU_ELIMIT ? "too many wait for settings already: try again later"
                                       : mu_strerror(status));
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

static void watch(struct session *s, const struct asker *from, const struct msg_config *m)
{
    char why[TEXT_MAX_LEN];
    struct frame_watch *f;

    if (!is_watched_key(m->key, why, sizeof(why))) {
        say_failed(s->o, from, MU_EINVAL, "%s", why);
        return;
    }
    if (s->watches_n == SESSION_WATCHES_MAX) {
        say_failed(s->o, from, MU_ELIMIT, "this connection waits for settings %u times already",
                   s->watches_n);
        return;
    }
    f = malloc(sizeof(*f));
    if (f == NULL) {
        say_failed(s->o, from, MU_EAGAIN, "the orchestrator is out of memory; try again later");
        return;
    }
    driver_time(s->o);
    *f = (struct frame_watch){
        .asker = *from,
        .watch = {.after = m->after, .due_ms = s->o->now_ms + m->wait_ms, .done = watch_done}};
    strcpy(f->watch.job, job_of(s, m));
    strcpy(f->watch.key, m->key);
    s->watches_n++;
    settings_watch(s->o, &f->watch);
}

void settings_closed(struct session *s)
{
    struct setting_watch *head = &s->o->settings.waiting;

    for (struct setting_watch *w = head->next, *next; s->watches_n > 0 && w != head; w = next) {
        struct frame_watch *f = (struct frame_watch *)w;

        next = w->next;
        if (w->done == watch_done && f->asker.conn == s->number) {
            settings_unwatch(s->o, w);
            s->watches_n--;
            free(f);
        }
    }
}

/* ---- all of them ---- */

void settings_frame(struct session *s, const struct msg_config *m, uint64_t request)
{
    struct asker from = asker_of(s, m, request);
    const struct config *c = cluster_settings(s->o->cluster, job_of(s, m));

    if (c == NULL) {
        say_no_job(s->o, &from, job_of(s, m));
        return;
    }
    switch (m->verb) {
    case CONFIG_GET:
        get(s->o, &from, c, m->key);
        break;
    case CONFIG_LIST:
        list(s->o, &from, c, m->key);
        break;
    case CONFIG_WATCH:
        watch(s, &from, m);
        break;
    default: /* The wire lets no other verbs in. */
        change(s, &from, m);
        break;
    }
}
