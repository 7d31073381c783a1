/* Those who wait for changes of settings: one object for each (job, key), with all who watch it,
 * whoever they are: agents and people by frames, a long poll, the feed of HTTP's streams. A change
 * looks at the watches of its job alone.
 *
 * Whatever told() does is fine: watch again, unwatch itself or others. */
#include "orchestrator/driver.h"

#include <stdlib.h>
#include <string.h>

struct watched {
    TAILQ_ENTRY(watched) link; /* of those whose jobs have the same hash */
    char job[NAME_MAX_LEN];
    char key[CONFIG_KEY_MAX];
    uint64_t version; /* all who watch have been told what there was up to here */
    uint32_t n;       /* who watch; in `watches`, or ready */
    struct setting_watches watches;
};

static struct watched_list *list_of(struct settings *st, const char *job)
{
    uint32_t hash = 5381;

    while (*job != '\0') {
        hash = hash * 33 + (uint8_t)*job++;
    }
    return &st->watched[hash % SETTING_BUCKETS];
}

/* ---- who watches what ---- */

/* NULL: out of memory. */
static struct watched *find_or_make(struct settings *st, const char *job, const char *key,
                                    uint64_t version)
{
    struct watched_list *list = list_of(st, job);
    struct watched *d;

    TAILQ_FOREACH(d, list, link)
    {
        if (strcmp(d->job, job) == 0 && strcmp(d->key, key) == 0) {
            return d;
        }
    }
    d = calloc(1, sizeof(*d));
    if (d != NULL) {
        strcpy(d->job, job);
        strcpy(d->key, key);
        d->version = version;
        TAILQ_INIT(&d->watches);
        TAILQ_INSERT_TAIL(list, d, link);
    }
    return d;
}

void settings_unwatch(struct orchestrator *o, struct setting_watch *w)
{
    struct settings *st = &o->settings;
    struct watched *d = w->of;

    if (d == NULL) {
        return;
    }
    TAILQ_REMOVE(w->ready ? &st->ready : &d->watches, w, link);
    w->of = NULL;
    w->ready = false;
    st->watches_n--;
    if (--d->n == 0) {
        TAILQ_REMOVE(list_of(st, d->job), d, link);
        free(d);
    }
}

static void add(struct orchestrator *o, struct setting_watch *w, struct watched *d)
{
    struct settings *st = &o->settings;

    w->of = d;
    d->n++;
    TAILQ_INSERT_TAIL(&d->watches, w, link);
    st->watches_n++;
    st->due_ms = MIN(st->due_ms, w->due_ms);
    driver_arm(o);
}

/* MU_OK: something has changed after `since`; MU_EAGAIN: nothing; MU_ESTALE, MU_ENOENT as for
 * told().
 */
static int look(const struct config *c, const char *key, uint64_t since)
{
    struct rec_config r = {.version = since};
    int rc;

    if (c == NULL) {
        return MU_ENOENT;
    }
    while ((rc = config_since(c, r.version, &r)) == MU_OK) {
        if (config_matches(key, r.key)) {
            return MU_OK;
        }
    }
    return rc == MU_ENOENT ? MU_EAGAIN : rc;
}

void settings_watch(struct orchestrator *o, struct setting_watch *w, const char *job,
                    const char *key, uint64_t after)
{
    const struct config *c = cluster_settings(o->cluster, job);
    int rc = o->closing ? MU_EBUSY : look(c, key, after);
    struct watched *d;

    w->of = NULL;
    w->ready = false;
    if (o->closing) {
        w->told(o, w, MU_EAGAIN, after);
    } else if (rc != MU_EAGAIN && (rc != MU_OK || !w->lasts)) {
        w->told(o, w, rc, after);
    } else if (w->due_ms <= o->now_ms) {
        w->told(o, w, MU_ETIMEDOUT, after);
    } else if (o->settings.watches_n == SETTING_WATCHES_MAX ||
               (d = find_or_make(&o->settings, job, key, c->version)) == NULL) {
        w->told(o, w, MU_ELIMIT, after);
    } else {
        add(o, w, d);
        if (w->lasts) {
            w->told(o, w, MU_OK, after);
        }
    }
}

/* ---- telling ---- */

static void set_ready(struct settings *st, struct setting_watch *w, int status)
{
    TAILQ_REMOVE(&w->of->watches, w, link);
    TAILQ_INSERT_TAIL(&st->ready, w, link);
    w->ready = true;
    w->status = status;
    w->since = w->of->version;
}

static void tell_ready(struct orchestrator *o)
{
    struct settings *st = &o->settings;
    struct setting_watch *w;

    while ((w = TAILQ_FIRST(&st->ready)) != NULL) {
        if (w->status == MU_OK && w->lasts) {
            TAILQ_REMOVE(&st->ready, w, link);
            TAILQ_INSERT_TAIL(&w->of->watches, w, link);
            w->ready = false;
        } else {
            settings_unwatch(o, w);
        }
        w->told(o, w, w->status, w->since);
    }
}

static void all_ready(struct settings *st, struct watched *d, int status)
{
    while (!TAILQ_EMPTY(&d->watches)) {
        set_ready(st, TAILQ_FIRST(&d->watches), status);
    }
}

void watches_wake(struct orchestrator *o, const char *job)
{
    const struct config *c = cluster_settings(o->cluster, job);
    struct settings *st = &o->settings;
    struct watched *d;

    TAILQ_FOREACH(d, list_of(st, job), link)
    {
        int rc = strcmp(d->job, job) == 0 ? look(c, d->key, d->version) : MU_EAGAIN;

        if (rc != MU_EAGAIN) {
            all_ready(st, d, rc);
        }
        if (c != NULL && strcmp(d->job, job) == 0) {
            d->version = c->version;
        }
    }
    tell_ready(o);
}

static void late_ready(struct settings *st, struct watched *d, uint64_t now_ms)
{
    struct setting_watch *w, *next;

    for (w = TAILQ_FIRST(&d->watches); w != NULL; w = next) {
        next = TAILQ_NEXT(w, link);
        if (w->due_ms <= now_ms) {
            set_ready(st, w, MU_ETIMEDOUT);
        } else {
            st->due_ms = MIN(st->due_ms, w->due_ms);
        }
    }
}

void watches_tick(struct orchestrator *o)
{
    struct settings *st = &o->settings;
    struct watched *d;

    if (o->now_ms < st->due_ms) {
        return;
    }
    st->due_ms = UINT64_MAX;
    for (size_t i = 0; i < SETTING_BUCKETS; i++) {
        TAILQ_FOREACH(d, &st->watched[i], link)
        {
            late_ready(st, d, o->now_ms);
        }
    }
    tell_ready(o);
}

void watches_open(struct orchestrator *o)
{
    struct settings *st = &o->settings;

    TAILQ_INIT(&st->ready);
    for (size_t i = 0; i < SETTING_BUCKETS; i++) {
        TAILQ_INIT(&st->watched[i]);
    }
    st->due_ms = UINT64_MAX;
}

void watches_close(struct orchestrator *o)
{
    struct settings *st = &o->settings;
    struct watched *d;

    for (size_t i = 0; i < SETTING_BUCKETS; i++) {
        TAILQ_FOREACH(d, &st->watched[i], link)
        {
            all_ready(st, d, MU_EAGAIN);
        }
    }
    tell_ready(o);
}
