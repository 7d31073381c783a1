/* Changes of settings. What a setting is, and which change is right, is the core's
 * (core/config_table.h, cluster_wish()): here asks stand in line, and watches are woken
 * (watches.c).
 *
 * One change of a job is on its way at a time: that of the first ask of that job. Whatever done()
 * does is fine: ask again. */
#include "base/log.h"
#include "core/text.h"
#include "orchestrator/driver.h"
#include "orchestrator/words.h"

#include <stdio.h>
#include <string.h>

/* ---- changes ---- */

static struct setting_ask **first_of(struct settings *st, const char *job)
{
    struct setting_ask **at = &st->first;

    while (*at != NULL && strcmp((*at)->job, job) != 0) {
        at = &(*at)->next;
    }
    return at;
}

/* Off the line, and told. */
static void finish(struct orchestrator *o, struct setting_ask **at, int status, uint64_t version,
                   const char *why)
{
    struct settings *st = &o->settings;
    struct setting_ask *a = *at;

    *at = a->next;
    if (a->next == NULL) {
        st->last = at;
    }
    st->asks_n--;
    st->bytes -= a->request.value_n;
    a->next = NULL;
    a->done(o, a, status, version, why);
}

static void on_written(void *arg, int status, const struct record *r);

/* The first of the job, and the next for each that is refused at once. */
static void take_first(struct orchestrator *o, const char *of_job)
{
    char why[TEXT_MAX_LEN], job[NAME_MAX_LEN];

    memcpy(job, of_job, sizeof(job)); /* It may be that of an ask which ends here. */
    for (;;) {
        struct setting_ask **at = first_of(&o->settings, job);
        struct record r;
        int rc;

        if (*at == NULL || (*at)->written) {
            return;
        }
        why[0] = '\0';
        (*at)->written = true;
        rc = cluster_wish(o->cluster, job, &(*at)->request, &r, why, sizeof(why));
        if (rc == MU_OK) {
            journal_append(o->journal, &r, (struct journal_done){on_written, *at});
        } else {
            finish(o, at, rc, 0, why[0] != '\0' ? why : mu_strerror(rc));
        }
    }
}

/* One that is the first of its job, and not yet on its way. */
static const struct setting_ask *free_one(struct settings *st)
{
    for (const struct setting_ask *a = st->first; a != NULL; a = a->next) {
        if (!a->written && *first_of(st, a->job) == a) {
            return a;
        }
    }
    return NULL;
}

/* Those who ask again when they are refused do so from within: they wait for their turn here, or a
 * long line of them would be as deep on the stack. */
static void take(struct orchestrator *o, const char *job)
{
    struct settings *st = &o->settings;
    const struct setting_ask *a;

    if (st->taking) {
        st->again = true;
        return;
    }
    st->taking = true;
    take_first(o, job);
    while (st->again) {
        st->again = false;
        while ((a = free_one(st)) != NULL) {
            take_first(o, a->job);
        }
    }
    st->taking = false;
}

void settings_change(struct orchestrator *o, struct setting_ask *a)
{
    struct settings *st = &o->settings;

    a->next = NULL;
    a->o = o;
    a->written = false;
    if (o->closing) {
        a->done(o, a, MU_EAGAIN, 0, "the orchestrator is going away: ask the next one");
        return;
    }
    if (st->asks_n == SETTING_ASKS_MAX || st->bytes + a->request.value_n > SETTING_BYTES_MAX) {
        a->done(o, a, MU_EAGAIN, 0,
                "nothing was changed: too many changes wait to be written; try again later");
        return;
    }
    *st->last = a;
    st->last = &a->next;
    st->asks_n++;
    st->bytes += a->request.value_n;
    take(o, a->job);
}

uint64_t settings_deadline(const struct orchestrator *o)
{
    return o->settings.due_ms;
}

void settings_tick(struct orchestrator *o)
{
    watches_tick(o);
}

/* ---- what happens ---- */

static void finish_written(struct setting_ask *a, const struct rec_config *r, int status)
{
    struct orchestrator *o = a->o;
    struct setting_ask **at = first_of(&o->settings, a->job);
    char why[TEXT_MAX_LEN] = "";

    mu_assert(*at == a && a->written);
    if (status != MU_OK) {
        text_say(why, sizeof(why),
                 "nothing was changed: the journal in %.100s can't be written (%s). See the "
                 "orchestrator's log, make room, then try again",
                 o->data_dir, mu_strerror(status));
    }
    finish(o, at, status == MU_OK ? MU_OK : MU_EIO, status == MU_OK ? r->version : 0, why);
}

static void on_written(void *arg, int status, const struct record *r)
{
    struct orchestrator *o = ((struct setting_ask *)arg)->o;

    finish_written(arg, &r->u.config, status); /* which may free it */
    take(o, r->u.config.job);
    if (status == MU_OK) {
        watches_wake(o, r->u.config.job);
    }
}

/* The record of a new run removes what was wanted of the last one, without records of its own. */
void settings_record(struct orchestrator *o, const struct record *r)
{
    if (r->kind == RECORD_JOB) {
        watches_wake(o, r->u.job.job);
    } else if (r->kind == RECORD_FORGOTTEN) {
        watches_wake(o, r->u.forgotten.job);
    }
}

void settings_open(struct orchestrator *o)
{
    struct settings *st = &o->settings;

    st->last = &st->first;
    watches_open(o);
}

void settings_close(struct orchestrator *o)
{
    struct settings *st = &o->settings;

    while (st->first != NULL) {
        finish(o, &st->first, MU_EAGAIN, 0,
               "the orchestrator went away before it could say how it went: look again");
    }
    watches_close(o);
}
