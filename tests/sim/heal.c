/* States that go wrong, in seeds in which the job heals: what was saved, what may be gone back to,
 * and when. Everything else that must hold does: once a job has healed its results are again those
 * of one process. */
#include "sim/trainer.h"

#include <string.h>

#define HEALS_MAX 3
#define STRIKE_US (500 * US_PER_MS) /* in this time after it, something worse may happen */

static struct era *era_of(struct world *w, uint64_t generation)
{
    return &w->check.eras[generation % GENERATIONS_N];
}

static struct era *root_of(struct world *w, uint64_t generation)
{
    return era_of(w, era_of(w, generation)->lineage);
}

bool heal_tainted(struct world *w, uint64_t generation)
{
    return root_of(w, generation)->tainted;
}

/* ---- what the workers do ---- */

void heal_flip(struct world *w, uint32_t worker, uint64_t step)
{
    const struct sim_config *k = &w->config;
    struct check *c = &w->check;
    struct trainer *t = trainer_at(w, worker);

    if (k->odd != ODD_STATE || worker != k->odd_worker || step < k->odd_from ||
        c->flips_n >= k->odd_times || c->flip_lineage == c->lineage ||
        era_of(w, trainer_generation(t))->lineage != c->lineage) {
        return;
    }
    c->flip_first = c->flips_n++ == 0 ? step : MIN(c->flip_first, step);
    c->flip_lineage = c->lineage;
    root_of(w, trainer_generation(t))->tainted = true;
    t->weights[0] ^= UINT64_C(1) << 40;
    trace(w, trace_worker(w, t->self), "its state goes wrong after step %" PRIu64, step);
}

/* What a zombie saves is nobody's. */
void heal_save(struct world *w, uint64_t generation, uint64_t step, const uint64_t *weights)
{
    if (era_of(w, generation)->lineage == w->check.lineage) {
        w->check.files[step].there = true;
        memcpy(w->check.files[step].weights, weights, sizeof(w->check.files[step].weights));
    }
}

/* Those who heal take away what is newer than what they may go back to. */
void heal_told(struct world *w, uint32_t worker, const struct generation *g)
{
    struct trainer *t = trainer_at(w, worker);
    bool in = false;

    for (uint32_t i = 0; i < g->members_n; i++) {
        in |= g->members[i].worker == t->self;
    }
    if (!in || (g->flags & GENERATION_HEALS) == 0) {
        return;
    }
    save_drop(w, worker, g->base_step);
    t->saved = t->saved <= g->base_step ? t->saved : 0;
    for (uint64_t step = g->base_step + 1; step <= STEPS_N; step++) {
        w->check.files[step].there = false;
    }
}

uint64_t heal_load(struct world *w, uint32_t worker, uint64_t generation, uint64_t limit)
{
    struct trainer *t = trainer_at(w, worker);
    struct era *era = era_of(w, generation);
    uint64_t step = limit;

    while (step > 0 && !w->check.files[step].there) {
        step--;
    }
    if (limit > 0 && step == 0) {
        world_fail(w,
                   "generation %" PRIu64 " is to start from step %" PRIu64
                   " or before, and nothing of that is saved",
                   generation, limit);
    }
    memcpy(t->weights, step > 0 ? w->check.files[step].weights : w->model.weights[0],
           sizeof(t->weights));
    era->tainted = memcmp(t->weights, w->model.weights[step], sizeof(t->weights)) != 0;
    if (era->tainted && (w->check.flips_n == 0 || step < w->check.flip_first)) {
        world_fail(w, "generation %" PRIu64 " starts from a wrong state", generation);
    }
    era->base = step;
    t->saved = w->config.heal ? step : t->saved; /* A cluster that goes on from it is to know. */
    return step;
}

/* ---- what must hold ---- */

void heal_said(struct world *w, uint32_t worker, uint64_t generation, uint64_t step,
               const uint8_t *digest)
{
    struct said *s = w->check.said[worker];

    if (generation > s[0].generation) {
        s[1] = s[0];
    }
    if (generation > s[0].generation || (generation == s[0].generation && step >= s[0].step)) {
        s[0].generation = generation;
        s[0].step = step;
        memcpy(s[0].digest, digest, HASH_BYTES);
    }
}

/* What it said of the state before `step`; NULL: nothing. */
static const uint8_t *find_said(const struct world *w, uint32_t worker, uint64_t generation,
                                uint64_t step)
{
    static const uint8_t zero[HASH_BYTES];
    const struct said *s = w->check.said[worker];

    s += s->generation != generation;
    return s->generation == generation && s->step == step &&
                   memcmp(s->digest, zero, HASH_BYTES) != 0
               ? s->digest
               : NULL;
}

/* Of the members who have said a digest before `step`: how many, and the most that are alike. */
static void count(const struct world *w, const struct era *era, uint64_t step, uint32_t *said_n,
                  uint32_t *most_n)
{
    *said_n = *most_n = 0;
    for (uint32_t i = 0; i < era->members_n; i++) {
        const uint8_t *mine = find_said(w, era->workers[i], era->number, step);
        uint32_t like_n = 0;

        for (uint32_t k = 0; k < era->members_n && mine != NULL; k++) {
            const uint8_t *other = find_said(w, era->workers[k], era->number, step);

            like_n += other != NULL && memcmp(other, mine, HASH_BYTES) == 0;
        }
        *said_n += mine != NULL;
        *most_n = MAX(*most_n, like_n);
    }
}

void heal_stop(struct world *w, uint32_t worker, const struct step_effect *e)
{
    const struct era *era = era_of(w, e->group->g.number);
    uint32_t said_n, most_n;

    if (era->lineage != w->check.lineage || era->number < w->check.active) {
        return; /* A zombie: what the others said then may be forgotten. */
    }
    count(w, era, e->step, &said_n, &most_n);
    if (e->difference == STEP_STATES && (most_n == said_n || e->most != (most_n * 2 > said_n))) {
        world_fail(w, "%s stops: %u of %u have the same state",
                   trace_worker(w, trainer_at(w, worker)->self), most_n, said_n);
    }
    if (e->difference == STEP_STATES && e->most) {
        w->check.most_found = true;
        w->check.most_in = MAX(w->check.most_in, era->number);
    }
}

void heal_commit(struct world *w, const struct era *era, uint64_t step, bool settled)
{
    uint32_t said_n, most_n;

    if (!w->config.heal) {
        return;
    }
    count(w, era, step, &said_n, &most_n);
    if (most_n != said_n && !settled) {
        world_fail(w, "step %" PRIu64 " is committed although the states before it differ", step);
    }
    if (said_n == era->members_n && most_n == said_n) {
        w->check.agreed = step - 1;
    }
}

/* Invariant 4: a job goes back only if its members differ and most do not, and only to what all of
 * them had, and not for ever. */
void heal_record(struct world *w, const struct rec_heal *r)
{
    struct check *c = &w->check;
    uint64_t chance = prng_mix(w->seed ^ r->generation);

    c->checkpoint = r->step;
    c->checkpoint_before = 0;
    if (r->generation <= c->given_up) {
        return; /* It is replayed. */
    }
    trace(w, "orchestrator", "gives generation %" PRIu64 " up", r->generation);
    c->heal_count = r->at > c->heal_at ? 1 : c->heal_count + 1;
    c->heal_at = r->at;
    c->heals_n++;
    c->given_up = r->generation;
    if (!w->config.heal || !c->most_found || r->generation != c->active) {
        world_fail(w, "generation %" PRIu64 " is given up, for no reason", r->generation);
    } else if (r->step > c->agreed) {
        world_fail(w, "the job goes back to step %" PRIu64 ", but all agreed only on %" PRIu64,
                   r->step, c->agreed);
    } else if (c->heal_count > HEALS_MAX) {
        world_fail(w, "the job goes back for the %uth time and gets nowhere", c->heal_count);
    }
    c->most_found = false;
    if (!w->quiet && chance % 8 == 0) {
        fate_strike(w, (chance >> 8) % STRIKE_US);
    }
}

struct living {
    wid id;
    bool yes;
};

static void look_if_lives(void *arg, const struct node_look *n)
{
    struct living *l = arg;

    for (uint32_t i = 0; i < n->slots; i++) {
        l->yes |= n->slot[i].worker == l->id && n->slot[i].lives;
    }
}

/* As the orchestrator knows. */
static bool lives(const struct world *w, wid id)
{
    struct living l = {.id = id};

    (void)cluster_each_node(w->orch.mind.cluster, "job", look_if_lives, &l);
    return l.yes;
}

void heal_ended(struct world *w, const char *why)
{
    struct check *c = &w->check;
    const struct era *last = era_of(w, c->newest);
    const uint64_t known[] = {c->checkpoint, c->checkpoint_before};
    uint64_t best = 0;
    bool knows = false;

    c->failed = true;
    /* Those who are away may know better; they are not waited for. */
    for (uint32_t i = 0; i < last->members_n; i++) {
        const struct trainer *t = trainer_at(w, last->workers[i]);
        struct report r = {0};

        step_report(&t->step, &r);
        knows |= t->running && lives(w, t->self) && r.odd != 0;
        for (size_t k = 0; t->running && lives(w, t->self) && k < ARRAY_LEN(known); k++) {
            best = known[k] <= r.agreed && c->files[known[k]].there ? MAX(best, known[k]) : best;
        }
    }
    if (!c->stopped) {
        world_fail(w, "the job ends (%s) although nobody has stopped", why);
    } else if (strstr(why, "alike") != NULL && knows && c->most_found && c->most_in == c->active) {
        world_fail(w, "the job ends (%s) although most are alike", why);
    } else if (strstr(why, "no checkpoint") != NULL && best != 0) {
        world_fail(w, "the job ends (%s) although it could go back to step %" PRIu64, why, best);
    } else if (strstr(why, "went back") != NULL && c->heal_count < HEALS_MAX) {
        world_fail(w, "the job ends (%s) after %u", why, c->heal_count);
    } else if (strstr(why, "heal") == NULL && strstr(why, "went back") == NULL &&
               strstr(why, "gradients") == NULL) {
        world_fail(w, "the job ends: %s", why);
    }
}
