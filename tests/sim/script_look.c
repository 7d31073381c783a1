/* The commands of a script that look: wait for something, or demand it. */
#include "sim/script.h"

#include <string.h>

#define UNTIL_BOUND_US (UINT64_C(60) * 1000 * US_PER_MS)

static const struct era *era_at(const struct world *w, uint64_t number)
{
    return &w->check.eras[number % GENERATIONS_N];
}

/* By rank. */
void members_text(struct script *s, uint64_t generation, char *out, size_t cap)
{
    const struct era *era = era_at(s->w, generation);
    size_t at = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < era->members_n && at + 8 < cap; i++) {
        char who[16];

        story_workers(1u << era->workers[i], who, sizeof(who));
        at += (size_t)snprintf(out + at, cap - at, "%s%s", i == 0 ? "" : " ", who);
    }
}

/* ---- questions ---- */

static bool generation_is_there(struct script *s, const struct question *q)
{
    return s->w->check.newest >= q->number;
}

bool generation_is_active(struct script *s, const struct question *q)
{
    return s->w->check.active >= q->number;
}

/* Every living member of the active generation has committed it. */
static bool step_is_done(struct script *s, const struct question *q)
{
    const struct era *era = era_at(s->w, s->w->check.active);

    for (uint32_t i = 0; i < era->members_n; i++) {
        const struct trainer *t = trainer_at(s->w, era->workers[i]);

        if (t->running && t->self == era->members[i] && step_committed(&t->step) < q->number) {
            return false;
        }
    }
    return s->w->check.head >= q->number;
}

static bool worker_commits(struct script *s, const struct question *q)
{
    return step_committed(&trainer_at(s->w, q->worker)->step) >= q->number;
}

static bool worker_holds(struct script *s, const struct question *q)
{
    const struct step *step = &trainer_at(s->w, q->worker)->step;

    return step_holds(step) && step_committed(step) + 1 == q->number;
}

static bool worker_has_state(struct script *s, const struct question *q)
{
    const struct trainer *t = trainer_at(s->w, q->worker);

    return t->running && step_entered(&t->step) != 0;
}

struct warm {
    wid id;
    bool yes;
};

static void look_if_warm(void *arg, const struct node_look *n)
{
    struct warm *warm = arg;

    for (uint32_t i = 0; i < n->slots; i++) {
        warm->yes |= n->slot[i].worker == warm->id && n->slot[i].phase == PHASE_WARM;
    }
}

/* … as the orchestrator knows. */
static bool worker_is_warm(struct script *s, const struct question *q)
{
    const struct trainer *t = trainer_at(s->w, q->worker);
    struct warm warm = {.id = t->self};

    if (!t->running || t->reached < s->w->check.newest || !s->w->orch.alive) {
        return false;
    }
    (void)cluster_each_node(s->w->orch.mind.cluster, "job", look_if_warm, &warm);
    return warm.yes;
}

static bool worker_pauses(struct script *s, const struct question *q)
{
    return step_orphaned(&trainer_at(s->w, q->worker)->step);
}

static bool worker_stops(struct script *s, const struct question *q)
{
    return step_phase(&trainer_at(s->w, q->worker)->step) == STEP_STOPPED;
}

static bool is_finished(struct script *s, const struct question *q)
{
    struct job_view v;

    (void)q;
    return s->w->orch.alive && cluster_job(s->w->orch.mind.cluster, "job", &v) == MU_OK &&
           v.finished;
}

static bool is_over(struct script *s, const struct question *q)
{
    (void)q;
    return check_done(s->w);
}

/* until b.0 commits 12 | holds 12 | has state | warm | pauses | stops */
static bool worker_question(struct script *s, char **words, int n, struct question *q)
{
    if (n < 3 || !script_worker(s, words[1], &q->worker)) {
        return false;
    }
    if (n == 4 && strcmp(words[2], "commits") == 0) {
        q->yes = worker_commits;
        return script_number(words[3], &q->number);
    }
    if (n == 4 && strcmp(words[2], "holds") == 0) {
        q->yes = worker_holds;
        return script_number(words[3], &q->number);
    }
    if (strcmp(words[2], "warm") == 0) {
        q->yes = worker_is_warm;
    } else if (strcmp(words[2], "pauses") == 0) {
        q->yes = worker_pauses;
    } else if (strcmp(words[2], "stops") == 0) {
        q->yes = worker_stops;
    } else if (n == 4 && strcmp(words[2], "has") == 0) {
        q->yes = worker_has_state;
    }
    return q->yes != NULL;
}

bool command_until(struct script *s, char **words, int n)
{
    struct question q = {0};

    if (n < 2) {
        return false;
    }
    if (strcmp(words[1], "end") == 0) {
        q.yes = is_over;
    } else if (strcmp(words[1], "finished") == 0) {
        q.yes = is_finished;
    } else if (n == 3 && strcmp(words[1], "step") == 0) {
        q.yes = step_is_done;
    } else if (n == 3 && strcmp(words[1], "generation") == 0) {
        q.yes = generation_is_there;
    } else if (n == 4 && strcmp(words[1], "generation") == 0) {
        q.yes = generation_is_active;
    } else if (!worker_question(s, words, n, &q)) {
        return false;
    }
    if (n > 2 && q.number == 0 && words[1][1] != '.' && !script_number(words[2], &q.number)) {
        return false;
    }
    return script_advance(s, s->w->now_us + UNTIL_BOUND_US, &q);
}

/* ---- demands ---- */

bool command_expect(struct script *s, char **words, int n)
{
    char want[128] = "", is[128];
    uint64_t number;

    if (n == 3 && strcmp(words[1], "head") == 0 && script_number(words[2], &number)) {
        return s->w->check.head == number ||
               script_fail(s, "the newest committed step is %" PRIu64, s->w->check.head);
    }
    if (n < 3 || strcmp(words[1], "members") != 0) {
        return false;
    }
    for (int i = 2; i < n; i++) {
        snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s%s", i == 2 ? "" : " ",
                 words[i]);
    }
    members_text(s, s->w->check.newest, is, sizeof(is));
    return strcmp(want, is) == 0 || script_fail(s, "the members are %s", is);
}

static uint64_t digest(const uint64_t *weights)
{
    uint64_t h = 0;

    for (uint32_t p = 0; p < PARTS_N; p++) {
        h = prng_mix(h ^ weights[p]);
    }
    return h;
}

static bool compare_samples(struct script *s, uint64_t step)
{
    const struct story *st = &s->story;
    uint64_t once_n = 0, lost_n = 0;

    for (uint64_t t = 1; t <= step; t++) {
        uint64_t n = s->w->model.sum[t][0].n;

        once_n += st->samples[t] == n ? n : 0;
        lost_n += st->samples[t] < n ? n - st->samples[t] : 0;
    }
    story_say(&s->story, s->w, "samples",
              "%" PRIu64 " took effect once, %" PRIu64 " were lost, %" PRIu64 " repeated", once_n,
              lost_n, st->repeated_n);
    return (lost_n == 0 && st->repeated_n == 0) || script_fail(s, "not each sample counts once");
}

/* Everyone who holds the newest state against the undisturbed reference. */
bool command_compare(struct script *s, char **words, int n)
{
    struct world *w = s->w;
    uint64_t step = w->check.head, reference = digest(w->model.weights[step]);
    uint32_t holders = 0;
    char who[128];

    (void)words;
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        const struct trainer *t = trainer_at(w, i);
        const bool ended = w->machines[i / SLOTS_N].leaves; /* … and was not killed */
        const bool holds = (t->running || ended) && step_entered(&t->step) != 0;

        if (!holds || step_committed(&t->step) != step || !step_applied(&t->step)) {
            continue;
        }
        holders |= 1u << i;
        if (digest(t->weights) != reference) {
            return script_fail(s, "the state of %c.%u is not what one process gets",
                               'a' + (int)(i / SLOTS_N), i % SLOTS_N);
        }
    }
    story_workers(holders, who, sizeof(who));
    story_say(&s->story, w, who, "%s %016" PRIx64 " after step %" PRIu64,
              (holders & (holders - 1)) == 0 ? "has" : "have", reference, step);
    story_say(&s->story, w, "one process", "has %016" PRIx64 " after step %" PRIu64, reference,
              step);
    if (n != 4 || holders == 0) {
        return n == 4 && script_fail(s, "nobody holds the state of step %" PRIu64, step);
    }
    return compare_samples(s, step);
}
