/* What core/step wants at once of one who trains, and what changes with its life and its group. */
#include "base/log.h"
#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA "run"

void train_check_end(struct train *t, uint64_t step)
{
    if (t->what.sharded && t->what.shard.offset >= t->what.shard.elements_n) {
        step_end_at(&t->crew.step, step); /* Nothing is left. */
    }
}

static void on_commit(struct train *t, uint64_t step)
{
    audit_commit(t, step);
    blocks_clear(&t->blocks);
    t->samples_all += t->result.samples;
    if (t->what.sharded) {
        shard_advance(&t->what.shard, (uint32_t)t->result.samples);
        train_check_end(t, step);
    }
}

/* What it is, and what it mostly comes from if not from hardware. */
static const char *tell_difference(enum step_difference what)
{
    switch (what) {
    case STEP_STATES:
        return "the states of the workers differ (does one change its own in another way?)";
    case STEP_GRADIENTS:
        return "workers computed the same slice and got different gradients (have all the same "
               "data, and is all that is random in it seeded?)";
    default:
        return "a worker found that they differ";
    }
}

/* The difference is told to whoever looks, and mu_next() ends with it. */
static void on_diverged(struct train *t, const struct step_effect *e)
{
    char *why = t->fault.why, who[WID_TEXT_MAX];
    const size_t cap = sizeof(t->fault.why);
    size_t at = (size_t)snprintf(why, cap, "step %" PRIu64 " is not committed: %s", e->step,
                                 tell_difference(e->difference));

    if (train_is_last(t, e->step - 1)) {
        at = (size_t)snprintf(why, cap, "after the last step %s", tell_difference(e->difference));
    }
    for (uint32_t i = 0; i < e->odd_n && at < cap - WID_TEXT_MAX - 16; i++) {
        const uint32_t rank = e->odd[i];

        at += (size_t)snprintf(why + at, cap - at, "%s %s (rank %" PRIu32 ")",
                               i > 0     ? ","
                               : e->most ? "; not like the others:"
                                         : "; who is right can't be told:",
                               wid_print(e->group->members[rank].worker, who), rank);
        t->fault.odd_one |= e->most && rank == step_rank(&t->crew.step);
    }
    log_error(AREA, "%s", why);
    pthread_mutex_lock(&t->crew.run->lock);
    t->fault.ms = clock_ms();
    t->fault.named = false;
    t->fault.told = false;
    pthread_mutex_unlock(&t->crew.run->lock);
}

/* ---- which states ---- */

enum { NAME_MS = 5000, NAMED_MAX = 3 };

static bool part_differs(const uint8_t *all, uint32_t ranks_n, size_t bytes, uint32_t part)
{
    const uint8_t *first = all + (size_t)part * DIGEST_BYTES;

    for (uint32_t r = 1; r < ranks_n; r++) {
        if (memcmp(all + r * bytes + (size_t)part * DIGEST_BYTES, first, DIGEST_BYTES) != 0) {
            return true;
        }
    }
    return false;
}

static void say_names(struct train *t, const uint8_t *all, uint32_t ranks_n, size_t bytes)
{
    char *why = t->fault.why;
    const size_t cap = sizeof(t->fault.why);
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->what.state.n; i++) {
        const size_t at = strlen(why);

        if (!part_differs(all, ranks_n, bytes, i)) {
            continue;
        }
        if (n < NAMED_MAX && at + STATE_NAME_MAX + 32 < cap) {
            snprintf(why + at, cap - at, "%s '%s'", n == 0 ? "; what differs is the state" : ",",
                     t->what.state.parts[i].name);
        }
        log_error(AREA, "the state '%s' is not the same on all workers",
                  t->what.state.parts[i].name);
        n++;
    }
    if (n > NAMED_MAX && strlen(why) + 32 < cap) {
        snprintf(why + strlen(why), cap - strlen(why), " and %" PRIu32 " more", n - NAMED_MAX);
    }
}

int train_name_states(struct train *t)
{
    const uint32_t ranks_n = step_size(&t->crew.step);
    const size_t bytes = (size_t)t->what.state.n * DIGEST_BYTES;
    uint8_t *mine = malloc(bytes), *all = malloc(bytes * ranks_n);
    int rc = mine != NULL && all != NULL ? state_digests(&t->what.state, mine) : MU_ENOMEM;

    if (rc == MU_OK) {
        rc = train_gather(t, mine, bytes, all, NAME_MS);
    }
    if (rc == MU_OK) {
        say_names(t, all, ranks_n, bytes);
    }
    free(mine);
    free(all);
    return rc;
}

void train_effect(struct crew *c, const struct step_effect *e)
{
    struct train *t = (struct train *)c;

    switch (e->kind) {
    case STEP_DROP:
        blocks_clear(&t->blocks);
        break;
    case STEP_COMMIT:
        on_commit(t, e->step);
        break;
    case STEP_SAVED:
    case STEP_UNSAVED:
        train_save_ends(t, e);
        break;
    case STEP_DIVERGED:
        on_diverged(t, e);
        break;
    default:
        break;
    }
}

void train_reset(struct crew *c)
{
    struct train *t = (struct train *)c;

    blocks_clear(&t->blocks);
    train_release(t);
    t->fault.odd_one = false;
}

/* ---- another group ---- */

/* For the caller's hook: addresses are mu_world()'s. Under the lock. */
static mu_world_info world_of(const struct mu_run *run)
{
    const mu_group_info *g = &run->data.info;
    mu_world_info w = {.generation = g->generation,
                       .rank = run->data.group != 0 ? g->rank : -1,
                       .size = g->size,
                       .local_rank = -1};

    memcpy(w.job, run->life.job, sizeof(w.job));
    memcpy(w.node, run->life.node, sizeof(w.node));
    return w;
}

void train_moved(struct crew *c)
{
    struct train *t = (struct train *)c;
    struct mu_run *run = c->run;
    const uint64_t term = step_term(&c->step);
    mu_world_info old, new;

    pthread_mutex_lock(&run->lock);
    const bool another = term_generation(term) != term_generation(run->data.group);

    old = world_of(run);
    crew_group(c, false);
    t->told.generations += another;
    new = world_of(run);
    told_again(run);
    pthread_mutex_unlock(&run->lock);
    if (another && t->hooks.on_generation != NULL) {
        t->hooks.on_generation(t->hooks.arg, &old, &new);
    }
}
