/* What people read. Every word here is in docs/ARCHITECTURE.md. */
#include "orchestrator/words.h"

#include "wire/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const kinds[NOTE_N] = {
    [NOTE_JOINED] = "joined",       [NOTE_WARM] = "warm",         [NOTE_GENERATION] = "generation",
    [NOTE_ACTIVE] = "active",       [NOTE_LOST] = "lost",         [NOTE_BACK] = "back",
    [NOTE_DRAINING] = "draining",   [NOTE_GONE] = "gone",         [NOTE_REFUSED] = "refused",
    [NOTE_TAKEOVER] = "takeover",   [NOTE_FINISHED] = "finished", [NOTE_ENDED] = "ended",
    [NOTE_RESTARTED] = "restarted", [NOTE_RESIZED] = "resized",   [NOTE_DRAINED] = "drained",
    [NOTE_LEFT_OUT] = "leftout",    [NOTE_METRICS] = "metrics",   [NOTE_SAVED] = "saved",
    [NOTE_HEALED] = "healed",
};

const char *words_kind(unsigned kind)
{
    return kind < NOTE_N ? kinds[kind] : "unknown";
}

const char *words_role(unsigned role)
{
    static const char *const names[ROLE_N] = {"worker", "chief", "ps", "evaluator"};

    return role < ROLE_N ? names[role] : "unknown";
}

const char *words_mode(unsigned mode)
{
    static const char *const names[MODE_N] = {"auto", "restart", "inprocess"};

    return mode < MODE_N ? names[mode] : "unknown";
}

const char *words_generation(unsigned kind)
{
    static const char *const names[GENERATION_KIND_N] = {"fresh", "boundary", "failure"};

    return kind < GENERATION_KIND_N ? names[kind] : "unknown";
}

void words_time(uint64_t wall_ms, char text[WORDS_TIME_MAX])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    size_t n = 0;

    if (gmtime_r(&seconds, &utc) != NULL) {
        n = strftime(text, WORDS_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    }
    snprintf(text + n, WORDS_TIME_MAX - n, ".%03uZ", (unsigned)(wall_ms % 1000));
}

void words_worker(wid w, char *buf, size_t cap)
{
    snprintf(buf, cap, "n%u.%u#%u", wid_node(w), wid_slot(w), wid_incarnation(w));
}

double words_metric(const struct metric *m)
{
    double value;

    memcpy(&value, &m->bits, sizeof(value));
    return value;
}

void words_metrics(const struct metric *metrics, uint32_t n, char *buf, size_t cap)
{
    size_t used = 0;

    buf[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        char text[METRIC_NAME_MAX + 32];
        int len = snprintf(text, sizeof(text), "%s%s %.5g", i > 0 ? ", " : "", metrics[i].name,
                           words_metric(&metrics[i]));

        if (used + (size_t)len >= cap) {
            return;
        }
        memcpy(buf + used, text, (size_t)len + 1);
        used += (size_t)len;
    }
}

/* ---- events ---- */

static void say_exit(const struct msg_event *e, char *buf, size_t cap)
{
    if (e->value > 128) {
        snprintf(buf, cap, " (killed by signal %" PRIu64 ")", e->value - 128);
    } else if (e->value != 0) {
        snprintf(buf, cap, " (code %" PRIu64 ")", e->value);
    } else {
        buf[0] = '\0';
    }
}

/* "node 'a'", or "worker n3.0#2 of node 'a'" */
static void say_who(const struct msg_event *e, char *buf, size_t cap)
{
    char worker[40];

    if (e->worker == 0) {
        snprintf(buf, cap, "node '%s'", e->node);
        return;
    }
    words_worker(e->worker, worker, sizeof(worker));
    snprintf(buf, cap, "worker %s of node '%s'", worker, e->node);
}

/* Of a checkpoint that nobody lived to tell of only the nodes know. */
static void say_base(const struct msg_event *e, char *buf, size_t cap)
{
    if (e->value != 0) {
        snprintf(buf, cap, "step %" PRIu64, e->value);
    } else {
        snprintf(buf, cap, "what its nodes have saved, if anything");
    }
}

static void say_what(const struct msg_event *e, char *buf, size_t cap)
{
    char who[NAME_MAX_LEN + 64], code[48], step[40] = "", base[48];
    const char *colon = e->reason[0] != '\0' ? ": " : "";

    say_who(e, who, sizeof(who));
    if (e->value != 0) { /* Plain scripts have no steps that we could know of. */
        snprintf(step, sizeof(step), " at step %" PRIu64, e->value);
    }
    say_exit(e, code, sizeof(code));
    switch ((enum note_kind)e->kind) {
    case NOTE_JOINED:
        snprintf(buf, cap, "%s joined as n%" PRIu64, who, e->value);
        break;
    case NOTE_WARM:
        snprintf(buf, cap, "%s is warm", who);
        break;
    case NOTE_GENERATION:
        snprintf(buf, cap, "generation %" PRIu64 " (%s) has %" PRIu64 " member%s", e->generation,
                 e->reason, e->value, e->value == 1 ? "" : "s");
        break;
    case NOTE_ACTIVE:
        snprintf(buf, cap, "generation %" PRIu64 " is active", e->generation);
        break;
    case NOTE_LOST:
        snprintf(buf, cap, "%s lost%s%s%s", who, colon, e->reason, code);
        break;
    case NOTE_BACK:
        snprintf(buf, cap, "%s is back", who);
        break;
    case NOTE_DRAINING:
        snprintf(buf, cap, "%s is draining%s%s", who, colon, e->reason);
        break;
    case NOTE_GONE:
        snprintf(buf, cap, "%s is gone%s%s", who, colon, e->reason);
        break;
    case NOTE_DRAINED:
        snprintf(buf, cap, "%s has left", who);
        break;
    case NOTE_LEFT_OUT:
        if (e->value != 0) {
            snprintf(buf, cap, "%s did nothing for %.1f s and is left out", who,
                     (double)e->value / 1000);
        } else {
            snprintf(buf, cap, "%s is left out: others can't reach it", who);
        }
        break;
    case NOTE_METRICS:
        snprintf(buf, cap, "step %" PRIu64 "%s%s", e->value, colon, e->reason);
        break;
    case NOTE_SAVED:
        snprintf(buf, cap, "step %" PRIu64 " is saved", e->value);
        break;
    case NOTE_HEALED:
        snprintf(buf, cap, "healed: all have gone back to step %" PRIu64 "%s%s", e->value, colon,
                 e->reason);
        break;
    case NOTE_RESIZED:
        snprintf(buf, cap, "as people want it: %s", e->reason);
        break;
    case NOTE_REFUSED:
        snprintf(buf, cap, "refused%s%s", colon, e->reason);
        break;
    case NOTE_TAKEOVER:
        say_base(e, base, sizeof(base));
        snprintf(buf, cap, "takeover: generation %" PRIu64 " starts from %s%s%s", e->generation,
                 base, colon, e->reason);
        break;
    case NOTE_FINISHED:
        snprintf(buf, cap, "a worker has finished%s, the job is ending", step);
        break;
    case NOTE_ENDED:
        snprintf(buf, cap, "has ended%s%s%s", step, colon, e->reason);
        break;
    case NOTE_RESTARTED:
        snprintf(buf, cap, "the orchestrator started; every known node has a lease from now");
        break;
    case NOTE_N:
    default:
        snprintf(buf, cap, "something of kind %u that this version has no words for", e->kind);
        break;
    }
}

void words_event(const struct msg_event *e, char *buf, size_t cap)
{
    char what[WORDS_LINE_MAX - NAME_MAX_LEN - 16];

    say_what(e, what, sizeof(what));
    if (e->job[0] != '\0') {
        snprintf(buf, cap, "job '%s': %s", e->job, what);
    } else {
        snprintf(buf, cap, "%s", what);
    }
}

/* ---- status ---- */

const char *words_slot(const struct node_look *n, const struct slot_look *s)
{
    if (n->gone || n->lapsed || s->phase == PHASE_LOST || s->phase == PHASE_EXITED) {
        return "gone";
    }
    if (n->draining) {
        return "leaving";
    }
    if (s->member != 0) {
        return "member";
    }
    if (s->phase == PHASE_SERVING) {
        return "serving";
    }
    if (s->phase == PHASE_WARM || s->phase == PHASE_IN || s->phase == PHASE_FINISHED) {
        return "warm";
    }
    return s->phase == PHASE_WARMING ? "warming" : "registered";
}

/* As its slot that is least far. */
const char *words_node(const struct node_look *n)
{
    static const char *const order[] = {"gone", "leaving", "registered", "warming", "warm"};
    size_t least = ARRAY_LEN(order);

    for (uint32_t s = 0; s < n->slots; s++) {
        const char *word = words_slot(n, &n->slot[s]);

        for (size_t i = 0; i < least; i++) {
            if (strcmp(word, order[i]) == 0) {
                least = i;
            }
        }
    }
    return least < ARRAY_LEN(order) ? order[least] : "member";
}

static void say_ready(const struct job_look *j, char *why, size_t cap)
{
    if (j->listed) {
        snprintf(why, cap,
                 "%u nodes are ready; at least %u of those that the setting `members` names are "
                 "needed",
                 j->view.available_n, j->min);
    } else {
        snprintf(why, cap, "%u of at least %u nodes are ready", j->view.available_n, j->min);
    }
}

/* What people want of a job that runs; "" if that is nothing. */
static void say_wish(const struct job_look *j, char *why, size_t cap)
{
    if (j->paused) {
        snprintf(why, cap, "it is to pause at the next boundary");
    } else if (j->listed) {
        snprintf(why, cap, "only nodes that the setting `members` names are wanted");
    } else if (j->want_size != 0) {
        snprintf(why, cap, "%u node%s %s wanted%s", j->want_size, j->want_size == 1 ? "" : "s",
                 j->want_size == 1 ? "is" : "are", j->scheduled ? " by its schedule" : "");
    }
}

const char *words_job(const struct job_look *j, char *why, size_t cap)
{
    const struct job_view *v = &j->view;

    why[0] = '\0';
    if (v->ended) {
        snprintf(why, cap, "%s", j->why);
        return j->failed ? "failed" : "done";
    }
    if (v->finished) {
        return "ending";
    }
    if (v->members_n == 0) {
        say_ready(j, why, cap);
        return "forming";
    }
    if (j->heals) {
        snprintf(why, cap, "the states of its workers differed; it goes back to a checkpoint");
        return "holding";
    }
    if (v->active != 0 && j->survivors_n == 0) {
        snprintf(why, cap,
                 "no member of generation %" PRIu64 " answers; when all are known to be dead: "
                 "muster takeover %s",
                 v->active, v->name);
        return "holding";
    }
    if ((v->flags & GENERATION_HOLD) != 0) {
        if (j->paused) {
            snprintf(why, cap, "it is paused; to go on: muster config rm paused --job %s", v->name);
        } else {
            say_ready(j, why, cap);
        }
        return "holding";
    }
    say_wish(j, why, cap);
    return "running";
}

/* ---- fit for the wire ---- */
