/* Saving: the thread that writes, and what lies in the folders. On the disk there is one folder for
 * all; in memory there is one for each host; or each machine has its own, like a container. The
 * state has a few chunks, so one to three writers share it; a write takes its time, and may fail.
 *
 * What must hold: a checkpoint is ended only when every shard of its cut is durable. What a cluster
 * is told is saved is there. Nobody commits a step when the state before it is not kept in memory.
 * A job has failed, or the last state is saved. */
#include "sim/trainer.h"

#include <string.h>

#define WRITE_MIN_US 100
#define WRITE_MAX_US 60000
#define WRITE_LONG_US (1500 * US_PER_MS)
#define END_US 300

enum { WRITE, END };

static struct era *era_of(struct world *w, uint64_t generation)
{
    return &w->check.eras[generation % GENERATIONS_N];
}

uint64_t save_folder(const struct world *w, uint32_t worker, enum save_place place)
{
    return 1 + (w->config.containers   ? worker / SLOTS_N
                : place == SAVE_MEMORY ? worker / SLOTS_N / 2
                                       : 0);
}

/* What lies on the worker's disk of an attempt; made if there is nothing. */
static struct shards *shards_of(struct world *w, uint32_t worker, uint64_t step,
                                uint64_t generation)
{
    const uint64_t folder = save_folder(w, worker, SAVE_DISK);
    struct shards *oldest = &w->check.shards[step][0];

    for (uint32_t i = 0; i < SHARDS_KEPT; i++) {
        struct shards *s = &w->check.shards[step][i];

        if (s->generation == generation && s->folder == folder) {
            return s;
        }
        oldest = s->generation < oldest->generation ? s : oldest;
    }
    *oldest = (struct shards){.generation = generation, .folder = folder};
    return oldest;
}

static void tell(struct world *w, uint32_t worker, enum save_place place, enum save_how how)
{
    struct sim_copy *c = &trainer_at(w, worker)->copies[place];

    c->news = how;
    c->works = false;
    c->op++;
}

static void begin(struct world *w, uint32_t worker, enum save_place place, uint32_t kind)
{
    struct trainer *t = trainer_at(w, worker);
    const bool slow = place == SAVE_DISK && world_chance(w, 50000);
    struct sim_event *e;

    e = world_after(w,
                    kind == END ? END_US
                                : world_between(w, WRITE_MIN_US,
                                                slow                 ? WRITE_LONG_US
                                                : place == SAVE_DISK ? WRITE_MAX_US
                                                                     : 10 * WRITE_MIN_US),
                    SIM_SAVED, worker, t->life);
    t->copies[place].works = true;
    e->a = (uint64_t)place * 2 + kind;
    e->b = t->copies[place].op;
}

/* ---- what the core wants ---- */

void save_cut(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const enum save_place place = t->doing.place;
    struct sim_copy *c = &t->copies[place];
    struct step_event e = {.kind = STEP_ON_CUT,
                           .place = place,
                           .term = t->doing.term,
                           .step = t->doing.step,
                           .shards_n = 1,
                           .how = SAVE_WRITING};
    uint32_t writer = 0, writers_n = 1;
    const bool writes = t->doing.alone || step_writes(&t->step, place, &writer, &writers_n);

    e.shards_n = MIN(writers_n, w->config.chunks_n);
    if (writes && writer < e.shards_n) {
        if (c->works) {
            world_fail(w, "%s saves step %" PRIu64 " while it writes another",
                       trace_worker(w, t->self), e.step);
        }
        c->step = e.step;
        c->generation = trainer_generation(t);
        c->writer = writer;
        c->shards_n = e.shards_n;
        c->news = SAVE_NONE;
        memcpy(c->weights, t->weights, sizeof(c->weights));
        begin(w, worker, place, WRITE);
    }
    trainer_step(w, worker, &e);
}

void save_effect(struct world *w, uint32_t worker, const struct step_effect *e)
{
    struct trainer *t = trainer_at(w, worker);
    struct sim_copy *c = &t->copies[e->place];
    const struct shards *s = shards_of(w, worker, e->step, c->generation);

    if (e->kind == STEP_SAVED) {
        if (c->step != e->step || c->works ||
            (e->place == SAVE_DISK && s->durable != (1u << c->shards_n) - 1)) {
            world_fail(w, "%s ends the checkpoint of step %" PRIu64 " without all shards",
                       trace_worker(w, t->self), e->step);
        }
        begin(w, worker, e->place, END);
    } else if (e->unsaved != STEP_UNSAVED_BUSY && c->step == e->step && c->works) {
        tell(w, worker, e->place, SAVE_FAILED); /* It stops writing. */
    }
}

void save_news(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    for (int i = 0; i < SAVES_N; i++) {
        struct sim_copy *c = &t->copies[i];
        struct step_event e = {.kind = STEP_ON_SAVED,
                               .place = (enum save_place)i,
                               .step = c->step,
                               .generation = c->generation,
                               .how = c->news};

        if (c->news != SAVE_NONE) {
            c->news = SAVE_NONE;
            trainer_step(w, worker, &e);
        }
    }
}

void save_drop(struct world *w, uint32_t worker, uint64_t after)
{
    for (int i = 0; i < SAVES_N; i++) {
        if (trainer_at(w, worker)->copies[i].works &&
            trainer_at(w, worker)->copies[i].step > after) {
            tell(w, worker, (enum save_place)i, SAVE_FAILED);
        }
    }
}

/* ---- what becomes of it ---- */

static void keep(struct world *w, uint32_t worker, const struct sim_copy *c)
{
    struct kept *k = &w->check.kept[save_folder(w, worker, SAVE_MEMORY) - 1];

    const uint64_t lineage = era_of(w, c->generation)->lineage;

    if (lineage > k->lineage || (lineage == k->lineage && c->step > k->step)) {
        *k = (struct kept){c->step, lineage};
    }
}

/* The shards of a cut have a part of the state each. */
static void write_shard(struct world *w, uint32_t worker, const struct sim_copy *c)
{
    struct shards *s = shards_of(w, worker, c->step, c->generation);

    s->durable |= 1u << c->writer;
    for (uint32_t p = 0; p < PARTS_N; p++) {
        if (p % c->shards_n == c->writer) {
            s->weights[p] = c->weights[p];
        }
    }
}

static void end(struct world *w, uint32_t worker, const struct sim_copy *c)
{
    struct trainer *t = trainer_at(w, worker);

    t->saved = c->step;
    heal_save(w, c->generation, c->step, shards_of(w, worker, c->step, c->generation)->weights);
    trace(w, trace_worker(w, t->self), "has saved step %" PRIu64, c->step);
    trainer_report(w, worker);
}

/* A disk that is full in the end stays so. */
static bool fails(struct world *w, uint64_t step)
{
    return (!w->healed && world_chance(w, w->config.unsaved_ppm)) ||
           (w->config.full && step == w->config.steps_n);
}

void save_event(struct world *w, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, f->to);
    const enum save_place place = (enum save_place)(f->a / 2);
    struct sim_copy *c = &t->copies[place];
    const bool whole = f->a % 2 == END || c->shards_n == 1;

    if (f->b != c->op) {
        return;
    }
    if (place == SAVE_DISK && fails(w, c->step)) {
        w->check.last_unsaved |= c->step == w->config.steps_n;
        tell(w, f->to, place, SAVE_FAILED);
    } else {
        if (place == SAVE_DISK && f->a % 2 == WRITE) {
            write_shard(w, f->to, c);
        }
        tell(w, f->to, place, whole ? SAVE_WHOLE : SAVE_DURABLE);
        if (whole && place == SAVE_DISK) {
            end(w, f->to, c);
        } else if (whole) {
            keep(w, f->to, c);
        }
    }
    trainer_drive(w, f->to);
}

/* ---- what must hold ---- */

void save_commit(struct world *w, uint32_t worker, uint64_t generation, uint64_t step)
{
    const struct kept *k = &w->check.kept[save_folder(w, worker, SAVE_MEMORY) - 1];
    const uint64_t lineage = era_of(w, generation)->lineage;

    if (w->config.keeps && step > 1 &&
        (k->lineage < lineage || (k->lineage == lineage && k->step + 1 < step))) {
        world_fail(w, "%s commits step %" PRIu64 ", and what its host keeps is step %" PRIu64,
                   trace_worker(w, trainer_at(w, worker)->self), step, k->step);
    }
}

bool save_ended(struct world *w, const char *why)
{
    if (strstr(why, "no worker could save") == NULL) {
        return false;
    }
    if (!w->check.last_unsaved) {
        world_fail(w, "the job ends: %s", why);
    }
    w->check.failed = true;
    return true;
}

void save_done(struct world *w)
{
    const struct check *c = &w->check;

    if (w->config.checkpoint_every != 0 && !w->config.plain && !c->second_run && !c->failed &&
        !c->stopped && !c->deserted && c->head == w->config.steps_n &&
        !c->files[w->config.steps_n].there) {
        world_fail(w, "the job has ended, and its last state is not saved");
    }
}
