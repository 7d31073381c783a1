/* What a simulated worker vouches for: the digest of its state, the hash of a check slice. In some
 * seeds one worker has one that differs: then nothing may be committed over it. */
#include "sim/trainer.h"

#include <string.h>

static void hash_make(uint64_t a, uint64_t b, uint8_t hash_out[HASH_BYTES])
{
    uint64_t words[2] = {prng_mix(a) | 1, prng_mix(a ^ prng_mix(b))};

    memcpy(hash_out, words, HASH_BYTES);
}

static void digest_make(const uint64_t *weights, uint8_t hash_out[HASH_BYTES])
{
    hash_make(weights[0], weights[1], hash_out);
}

static void check_make(struct world *w, const uint64_t *weights, uint64_t step, uint32_t slice,
                       uint8_t hash_out[HASH_BYTES])
{
    hash_make(model_leaf(&w->model, weights, step, slice, 0).h,
              model_leaf(&w->model, weights, step, slice, 1).h, hash_out);
}

/* ---- the driver ---- */

/* This one hash is another; `step` is that of the READY that will carry it. */
static void spoil(struct world *w, uint32_t worker, uint64_t step, uint8_t hash[HASH_BYTES])
{
    struct check *c = &w->check;

    if (c->odd_step == 0 && worker == w->config.odd_worker && step >= w->config.odd_from) {
        c->odd_step = step;
        c->odd_self = trainer_at(w, worker)->self;
        hash[HASH_BYTES - 1] ^= 0x80;
        trace(w, trace_worker(w, c->odd_self), "has %s that differs",
              w->config.odd == ODD_DIGEST ? "a digest" : "a check slice");
    }
}

void vouch_digest(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    uint8_t hash[HASH_BYTES];
    struct step_event e = {.kind = STEP_ON_DIGEST, .step = t->doing.step, .u.hash = hash};

    digest_make(t->weights, hash);
    if (w->config.odd == ODD_DIGEST) {
        spoil(w, worker, e.step + 1, hash);
    }
    trainer_step(w, worker, &e);
}

void vouch_check(struct world *w, uint32_t worker, uint32_t slice)
{
    struct trainer *t = trainer_at(w, worker);
    uint8_t hash[HASH_BYTES];
    struct step_event e = {
        .kind = STEP_ON_CHECKED, .step = t->doing.step, .slice = slice, .u.hash = hash};

    check_make(w, t->weights, e.step, slice, hash);
    if (w->config.odd == ODD_CHECK) {
        spoil(w, worker, e.step, hash);
    }
    trainer_step(w, worker, &e);
}

/* ---- what must hold ---- */

static struct era *era_of(struct world *w, uint64_t generation)
{
    return &w->check.eras[generation % GENERATIONS_N];
}

/* Notes what was said of a step, as far as it is of the kind that may be odd. */
static void note(struct world *w, uint64_t generation, uint64_t step, const uint8_t *digest,
                 const uint8_t *check)
{
    static const uint8_t zero[HASH_BYTES];
    const uint8_t *said = w->config.odd == ODD_DIGEST ? digest : check;
    struct era *era = era_of(w, generation);
    uint8_t right[HASH_BYTES];

    if (w->config.odd == ODD_NEVER || w->config.odd == ODD_STATE ||
        memcmp(said, zero, HASH_BYTES) == 0) {
        return;
    }
    if (w->config.odd == ODD_DIGEST) {
        digest_make(w->model.weights[step - 1], right);
    } else {
        check_make(w, w->model.weights[step - 1], step, step_check_slice(step, SLICES_N), right);
    }
    if (memcmp(said, right, HASH_BYTES) == 0) {
        era->vouched = MAX(era->vouched, step);
    } else {
        era->vouched_odd = true;
    }
}

void vouch_ready(struct world *w, uint32_t worker, const struct step_effect *e)
{
    const struct msg_ready *m = e->ready;
    const struct step *s = &trainer_at(w, worker)->step;
    const uint64_t generation = term_generation(e->term);

    note(w, generation, m->step, m->digest, m->check);
    heal_said(w, worker, generation, m->step, m->digest);
    if (w->config.digest_every == 1 && step_phase(s) == STEP_HELD &&
        m->step == step_committed(s) + 1 && m->step > 1 && m->digest[0] == 0) {
        world_fail(w, "%s says READY for step %" PRIu64 " without the digest that is due",
                   trace_worker(w, m->from), m->step);
    }
}

void vouch_settle(struct world *w, uint32_t worker, const struct step_effect *e)
{
    const struct msg_settle *m = e->settle;

    const uint64_t generation = term_generation(e->term);

    note(w, generation, m->step + 1, m->digest, m->check);
    heal_said(w, worker, generation, m->step + 1, m->digest);
    era_of(w, generation)->told_stop |= m->diverged != 0;
}

static bool differs(const struct world *w, const struct era *era)
{
    return era->vouched_odd && era->vouched == w->check.odd_step;
}

void vouch_commit(struct world *w, uint32_t worker, const struct era *era, uint64_t step)
{
    const char *who = trace_worker(w, trainer_at(w, worker)->self);

    if (differs(w, era) && step == w->check.odd_step) {
        world_fail(
            w,
            "%s commits step %" PRIu64 " although %s of a member of generation %" PRIu64 " differs",
            who, step, w->config.odd == ODD_DIGEST ? "the state" : "a gradient", era->number);
    }
    if (era->told_stop && step >= w->check.odd_step &&
        (w->config.odd != ODD_STATE ||
         step > w->check.head)) { /* Others had committed it before. */
        world_fail(w, "%s commits step %" PRIu64 " although a member has stopped", who, step);
    }
}

void vouch_stop(struct world *w, uint32_t worker, const struct step_effect *e)
{
    const struct era *era = era_of(w, e->group->g.number);
    const char *who = trace_worker(w, trainer_at(w, worker)->self);
    bool named = false;
    char odd[WORKERS_N * 8] = "";
    size_t at = 0;

    w->check.stopped = true;
    for (uint32_t i = 0; i < e->odd_n; i++) {
        at += (size_t)snprintf(odd + at, sizeof(odd) - at, " %s",
                               trace_worker(w, e->group->members[e->odd[i]].worker));
        named |= e->group->members[e->odd[i]].worker == w->check.odd_self;
    }
    trace(w, who, "stops before step %" PRIu64 ": %s%s", e->step,
          e->difference == STEP_STATES      ? "states differ:"
          : e->difference == STEP_GRADIENTS ? "gradients differ:"
                                            : "a member has stopped",
          odd);
    if (e->difference == STEP_TOLD) {
        if (!era->told_stop || e->odd_n != 0) {
            world_fail(w, "%s stops, and nobody has told it to", who);
        }
    } else if (w->config.heal) {
        heal_stop(w, worker, e);
    } else if (!differs(w, era) || !named || e->odd_n > 2 ||
               (e->difference == STEP_STATES) != (w->config.odd == ODD_DIGEST)) {
        world_fail(w, "%s stops before step %" PRIu64 " for no reason, or names the wrong ones",
                   who, e->step);
    }
}

bool vouch_stopped(const struct world *w)
{
    /* All of the first generation may stop before it is active. */
    const uint64_t number = w->check.active != 0 ? w->check.active : w->check.newest;
    const struct era *era = &w->check.eras[number % GENERATIONS_N];
    uint32_t stopped_n = 0;

    for (uint32_t i = 0; w->check.stopped && i < era->members_n; i++) {
        const struct trainer *t =
            &w->machines[era->workers[i] / SLOTS_N].trainers[era->workers[i] % SLOTS_N];

        if (t->running && t->self == era->members[i]) {
            if (step_phase(&t->step) != STEP_STOPPED) {
                return false;
            }
            stopped_n++;
        }
    }
    return stopped_n > 0;
}
