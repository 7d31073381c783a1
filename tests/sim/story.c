/* A run told in few lines. Commits of one generation are gathered and told together, then whatever
 * else workers did, then the line that they had to be told before. Times are left out; a wait that
 * is long enough to matter is told. */
#include "sim/script.h"

#include <stdarg.h>
#include <string.h>

#define LATER_US (500 * US_PER_MS)

/* "a.0 c.0" */
void story_workers(uint32_t mask, char *out, size_t cap)
{
    size_t at = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < WORKERS_N && at + 8 < cap; i++) {
        if ((mask >> i & 1) != 0) {
            at += (size_t)snprintf(out + at, cap - at, "%s%c.%u", at == 0 ? "" : " ",
                                   'a' + (int)(i / SLOTS_N), i % SLOTS_N);
        }
    }
}

/* ---- lines ---- */

static void put(struct story *st, const char *who, const char *text)
{
    char line[256];

    snprintf(line, sizeof(line), "    %-15s %s\n", who, text);
    if (strcmp(line, st->last) != 0) {
        fputs(line, st->out);
        memcpy(st->last, line, sizeof(line));
    }
}

static void tell_commits(struct story *st, const struct commits *c, uint64_t first, uint64_t last)
{
    uint32_t mask = c->by[first];
    bool one = (mask & (mask - 1)) == 0;
    char who[128], steps[64], text[200];

    story_workers(mask, who, sizeof(who));
    if (first == last) {
        snprintf(steps, sizeof(steps), "step %" PRIu64, first);
    } else {
        snprintf(steps, sizeof(steps), "steps %" PRIu64 "..%" PRIu64, first, last);
    }
    snprintf(text, sizeof(text), "%s %s in generation %" PRIu64 "%s", one ? "commits" : "commit",
             steps, c->generation, c->how);
    put(st, who, text);
}

static void flush(struct story *st)
{
    for (uint32_t i = 0; i < st->commits_n; i++) {
        const struct commits *c = &st->commits[i];

        for (uint64_t t = 1, first = 1; t <= STEPS_N; t++) {
            if (t == STEPS_N || c->by[t + 1] != c->by[first]) {
                if (c->by[first] != 0) {
                    tell_commits(st, c, first, t);
                }
                first = t + 1;
            }
        }
    }
    st->commits_n = 0;
    for (uint32_t i = 0; i < st->deeds_n; i++) {
        const struct deed *d = &st->deeds[i];
        char who[128], text[128];

        story_workers(d->by, who, sizeof(who));
        snprintf(text, sizeof(text), "%s %s", (d->by & (d->by - 1)) == 0 ? d->one : d->more,
                 d->rest);
        put(st, who, text);
    }
    st->deeds_n = 0;
}

static void tell_wait(struct story *st, const struct world *w)
{
    if (w->now_us - st->told_us >= LATER_US) {
        flush(st);
        fprintf(st->out, "    (%.1f s later)\n", (double)(w->now_us - st->told_us) / 1e6);
    }
    st->told_us = w->now_us;
}

static struct commits *commits_of(struct story *st, uint64_t generation, const char *how)
{
    struct commits *c;

    for (uint32_t i = 0; i < st->commits_n; i++) {
        if (st->commits[i].generation == generation && strcmp(st->commits[i].how, how) == 0) {
            return &st->commits[i];
        }
    }
    if (st->commits_n == ARRAY_LEN(st->commits)) {
        flush(st);
    }
    c = &st->commits[st->commits_n++];
    memset(c, 0, sizeof(*c));
    c->generation = generation;
    c->how = how;
    return c;
}

/* ---- commits ---- */

static void count_samples(struct story *st, const struct world *w, const struct trainer *t,
                          uint64_t step, bool settled)
{
    if (w->check.eras[trainer_generation(t) % GENERATIONS_N].lineage != w->check.lineage) {
        return; /* A zombie learns what its lineage had committed before it was given up. */
    }
    if (st->lineage != w->check.lineage) { /* It starts over from where this one has its base. */
        st->lineage = w->check.lineage;
        st->head = w->check.head;
    }
    if (step > st->head) {
        st->head = step;
        st->first_in[step] = trainer_generation(t);
        st->samples[step] = t->sum[0].n;
    } else if (!settled && trainer_generation(t) > st->first_in[step]) {
        st->repeated_n += t->sum[0].n;
    }
}

static void on_commit(struct trace_sink *sink, struct world *w, uint32_t worker, uint64_t step,
                      bool settled)
{
    struct story *st = (struct story *)sink;
    const struct trainer *t = trainer_at(w, worker);
    const bool round = term_round(step_term(&t->step)) > 0;
    const char *how = !settled ? ""
                      : round  ? ", settled after a break"
                               : ", settled among the survivors";
    struct commits *c = commits_of(st, trainer_generation(t), how);

    if (st->deeds_n > 0 && c->by[step] == 0) { /* The deeds were before this. */
        flush(st);
        c = commits_of(st, trainer_generation(t), how);
    }
    c->by[step] |= 1u << worker;
    st->told_us = w->now_us;
    count_samples(st, w, t, step, settled);
}

/* ---- everything else ---- */

static bool is_detail(const char *text)
{
    static const char *const details[] = {" joins",  " is warm", " is gone", " drains",
                                          "forgets", "exit",     "last one"};

    for (size_t i = 0; i < ARRAY_LEN(details); i++) {
        if (strstr(text, details[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void on_line(struct trace_sink *sink, struct world *w, const char *who, const char *text)
{
    struct story *st = (struct story *)sink;

    if (st->muted || (st->brief && is_detail(text))) {
        return;
    }
    flush(st);
    tell_wait(st, w);
    put(st, who, text);
}

void story_say(struct story *st, struct world *w, const char *who, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    on_line(&st->sink, w, who, text);
}

static void deed(struct story *st, const struct world *w, uint32_t worker, const char *one,
                 const char *more, const char *rest)
{
    struct deed *d;

    if (st->muted) {
        return;
    }
    tell_wait(st, w);
    for (uint32_t i = 0; i < st->deeds_n; i++) {
        if (strcmp(st->deeds[i].one, one) == 0 && strcmp(st->deeds[i].rest, rest) == 0) {
            st->deeds[i].by |= 1u << worker;
            return;
        }
    }
    if (st->deeds_n == ARRAY_LEN(st->deeds)) {
        flush(st);
    }
    d = &st->deeds[st->deeds_n++];
    d->by = 1u << worker;
    snprintf(d->one, sizeof(d->one), "%s", one);
    snprintf(d->more, sizeof(d->more), "%s", more);
    snprintf(d->rest, sizeof(d->rest), "%s", rest);
}

static void watch_phase(struct story *st, const struct world *w, const struct step *s,
                        const struct seen *was, uint32_t worker)
{
    const enum step_phase phase = step_phase(s);
    const uint32_t round = term_round(step_term(s));
    char text[100];

    if (was->phase == STEP_LOADING && phase != STEP_LOADING && step_entered(s) != 0) {
        snprintf(text, sizeof(text), "the state of step %" PRIu64, step_committed(s));
        deed(st, w, worker, "has", "have", text);
    }
    if (was->phase != STEP_PARKED && phase == STEP_PARKED) {
        deed(st, w, worker, "stands", "stand", "aside, state kept");
    }
    if (was->phase == STEP_SETTLING && phase != STEP_SETTLING && was->holds && !step_holds(s) &&
        was->committed == step_committed(s) && step_entered(s) != 0) {
        snprintf(text, sizeof(text),
                 "the result of step %" PRIu64 ": not all hold it, so nobody has committed it",
                 step_committed(s) + 1);
        deed(st, w, worker, "drops", "drop", text);
    }
    if (was->phase == STEP_SETTLING && phase != STEP_SETTLING && phase != STEP_PARKED &&
        phase != STEP_OUT && was->term == step_term(s) && round > 0) {
        snprintf(text, sizeof(text), "on in round %u of generation %" PRIu64, round,
                 term_generation(was->term));
        deed(st, w, worker, "goes", "go", text);
    }
}

static void watch_worker(struct story *st, struct world *w, uint32_t worker)
{
    const struct trainer *t = trainer_at(w, worker);
    struct seen *was = &st->seen[worker];
    bool same = t->running && was->self == t->self;
    uint64_t until_us = MAX(t->stopped_until_us, w->machines[worker / SLOTS_N].stopped_until_us);
    bool stopped = t->running && until_us > w->now_us;
    bool paused = t->running && step_entered(&t->step) != 0 && step_orphaned(&t->step);

    if (same && was->stopped && !stopped) {
        deed(st, w, worker, "wakes", "wake", "up");
    }
    if (same) {
        watch_phase(st, w, &t->step, was, worker);
    }
    if (same && paused != was->paused && step_entered(&t->step) != 0) {
        deed(st, w, worker, paused ? "pauses:" : "goes on:", paused ? "pause:" : "go on:",
             paused ? "out of touch for too long" : "in touch again");
    }
    *was = (struct seen){.self = t->running ? t->self : 0,
                         .phase = step_phase(&t->step),
                         .term = step_term(&t->step),
                         .committed = step_committed(&t->step),
                         .holds = step_holds(&t->step),
                         .paused = paused,
                         .stopped = stopped};
}

void story_watch(struct story *st, struct world *w)
{
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        watch_worker(st, w, i);
    }
}

void story_flush(struct story *st, struct world *w)
{
    flush(st);
    st->last[0] = '\0';
    st->told_us = w->now_us;
}

void story_begin(struct story *st)
{
    *st = (struct story){.sink = {.line = on_line, .commit = on_commit}};
    trace_to(&st->sink);
}
