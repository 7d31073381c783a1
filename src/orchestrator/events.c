/* Notes of the cluster: a line in the log, an event for those who follow, and the last EVENTS_MAX
 * of them for those who ask later. Each is encoded once. */
#include "base/log.h"
#include "core/text.h"
#include "orchestrator/driver.h"
#include "orchestrator/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy_text(char *to, size_t cap, const char *from)
{
    text_say(to, cap, "%s", from != NULL ? from : "");
}

static void fill(const struct note *note, uint64_t number, struct msg_event *e)
{
    *e = (struct msg_event){.number = number,
                            .time_ms = net_wall_ms(),
                            .kind = (uint8_t)note->kind,
                            .worker = note->worker,
                            .generation = note->generation,
                            .value = note->value,
                            .metrics_n = note->metrics_n,
                            .metrics = note->metrics};
    copy_text(e->job, sizeof(e->job), note->job);
    copy_text(e->node, sizeof(e->node), note->node);
    copy_text(e->reason, sizeof(e->reason), note->reason);
}

static void tally(struct orchestrator *o, const struct note *note)
{
    o->counts.refused += note->kind == NOTE_REFUSED;
    o->counts.lost_nodes += note->kind == NOTE_LOST && note->worker == 0;
    o->counts.healed += note->kind == NOTE_HEALED;
    o->counts.lost_workers += note->kind == NOTE_LOST && note->worker != 0;
}

/* Whoever is refused again and again must not drown the rest. */
static bool drowns(struct orchestrator *o, const struct note *note)
{
    struct events *ev = &o->events;

    if (note->kind != NOTE_REFUSED) {
        return false;
    }
    const uint64_t passed_s = (o->now_ms - ev->refusals_ms) / 1000;

    ev->refusals_ms += passed_s * 1000;
    ev->refusals_room = (uint32_t)MIN(ev->refusals_room + passed_s, REFUSALS_AT_ONCE);
    if (ev->refusals_room == 0) {
        ev->refusals_n++;
        return true;
    }
    if (ev->refusals_n > 0) {
        log_warn("orchestrator", "%u more were refused", ev->refusals_n);
    }
    ev->refusals_room--;
    ev->refusals_n = 0;
    return false;
}

static void write_line(const struct orchestrator *o, const struct msg_event *e)
{
    bool bad = e->kind == NOTE_REFUSED || e->kind == NOTE_LOST || e->kind == NOTE_LEFT_OUT ||
               e->kind == NOTE_HEALED;
    enum log_level level = bad ? LOG_WARN : driver_info(o);
    char line[WORDS_LINE_MAX];

    words_event(e, line, sizeof(line));
    /* Numbers of training go on and on: they are for those who follow them. */
    log_write(e->kind == NOTE_METRICS ? LOG_DEBUG : level, "orchestrator", "%s", line);
}

/* What is about no job concerns all. */
static bool wanted(const char *of_job, const char *job)
{
    return of_job[0] == '\0' || job[0] == '\0' || strcmp(of_job, job) == 0;
}

static void say_event(struct orchestrator *o, const struct asker *to, const struct kept_event *kept)
{
    struct msg_says m = {.more = true, .at = kept->number, .body_n = kept->n, .body = kept->body};

    if (kept->body != NULL) {
        ask_says(o, to, &m);
    }
}

static void keep(struct kept_event *kept, const struct msg_event *e)
{
    const size_t size = wire_body_size(WIRE_BODY_EVENT, e);
    size_t n = 0;

    free(kept->body);
    kept->body = malloc(size);
    if (kept->body != NULL) {
        mu_assert(wire_body_encode(WIRE_BODY_EVENT, e, kept->body, size, &n) == MU_OK);
    }
    kept->n = (uint32_t)n;
    kept->number = e->number;
    memcpy(kept->job, e->job, sizeof(kept->job));
}

static struct asker follower(const struct session *s)
{
    return (struct asker){.conn = s->number, .request = s->follow_request, .kind = ASK_FOLLOW};
}

void events_note(struct orchestrator *o, const struct note *note)
{
    struct events *ev = &o->events;
    struct kept_event *kept;
    struct msg_event e;

    tally(o, note);
    if (drowns(o, note)) {
        return;
    }
    fill(note, ++ev->last, &e);
    write_line(o, &e);
    web_note(o, &e);
    kept = &ev->ring[e.number % EVENTS_MAX];
    keep(kept, &e);
    for (uint32_t i = 0; i < ev->followers_n; i++) {
        const struct asker to = follower(ev->followers[i]);

        if (wanted(ev->followers[i]->follow_job, e.job)) {
            say_event(o, &to, kept);
        }
    }
}

/* ---- those who ask ---- */

static uint64_t oldest(const struct events *ev)
{
    return ev->last > EVENTS_MAX ? ev->last - EVENTS_MAX + 1 : 1;
}

static void say_gap(const struct events *ev, uint64_t since, char *text, size_t cap)
{
    text[0] = '\0';
    if (since > ev->last) {
        snprintf(text, cap, "the orchestrator was restarted: its events begin again with number 1");
    } else if (since + 1 < oldest(ev) && since != 0) {
        snprintf(text, cap, "events %" PRIu64 " to %" PRIu64 " are no longer kept", since + 1,
                 oldest(ev) - 1);
    } else if (oldest(ev) > 1 && since == 0) {
        snprintf(text, cap, "events before number %" PRIu64 " are no longer kept", oldest(ev));
    }
}

static bool follow(struct session *s, const char *job)
{
    struct events *ev = &s->o->events;

    if (!s->follows) {
        if (ev->followers_n == FOLLOWERS_MAX) {
            return false;
        }
        ev->followers[ev->followers_n++] = s;
        s->follows = true;
    }
    memcpy(s->follow_job, job, sizeof(s->follow_job));
    return true;
}

void events_unfollow(struct session *s)
{
    struct events *ev = &s->o->events;

    for (uint32_t i = 0; s->follows && i < ev->followers_n; i++) {
        if (ev->followers[i] == s) {
            ev->followers[i] = ev->followers[--ev->followers_n];
            s->follows = false;
        }
    }
}

/* Those that are kept, behind a word on those that are not. */
static void say_kept(struct session *s, const struct asker *from, const struct msg_ask *m)
{
    const struct events *ev = &s->o->events;
    const uint64_t since = m->at > ev->last ? 0 : m->at;
    struct msg_says says = {.more = true};

    say_gap(ev, m->at, says.text, sizeof(says.text));
    ask_says(s->o, from, &says);
    for (uint64_t i = MAX(since + 1, oldest(ev)); i <= ev->last; i++) {
        const struct kept_event *kept = &ev->ring[i % EVENTS_MAX];

        if (wanted(m->job, kept->job)) {
            say_event(s->o, from, kept);
        }
    }
}

void serve_events(struct session *s, const struct asker *from, const struct msg_ask *m,
                  const union wire_any *body)
{
    say_kept(s, from, m);
    ask_fails(s->o, from, MU_OK, "%s", "");
}

void serve_follow(struct session *s, const struct asker *from, const struct msg_ask *m,
                  const union wire_any *body)
{
    if (!follow(s, m->job)) {
        ask_fails(s->o, from, MU_ELIMIT,
                  "%u others follow the events already; end one of them, or ask without "
                  "--follow",
                  FOLLOWERS_MAX);
        return;
    }
    s->follow_request = m->request;
    say_kept(s, from, m);
}

void events_close(struct orchestrator *o)
{
    for (size_t i = 0; i < EVENTS_MAX; i++) {
        free(o->events.ring[i].body);
        o->events.ring[i].body = NULL;
    }
}
