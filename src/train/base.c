/* What a fresh generation starts from: the newest checkpoint that any member can read, or the
 * state that rank 0's caller has made. All members make the same calls, in this order:
 *
 *   everyone says which checkpoint is its newest
 *   of those with the newest of all, the first on each host reads it, and says whether it could
 *   (nobody could: the next older one)
 *
 * Those who have read it give it to the others (stream.c). What the orchestrator keeps is
 * rank 0's to know of, and is read by it alone if nobody has that step nearer (depot.c). */
#include "base/log.h"
#include "train/state.h"
#include "wire/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA "checkpoint"

/* What a member says of itself. */
enum { SAYS_STEP, SAYS_HOST, SAYS_STATUS, SAYS_FAR, SAYS_N };
#define SAYS_BYTES (8 * SAYS_N)

/* ---- is it ours? ---- */

static int compare_number(uint64_t step, const char *what, uint64_t there, uint64_t here)
{
    return there == here
               ? MU_OK
               : run_fail(MU_EREFUSED,
                          "the checkpoint of step %" PRIu64 " is of another run: %s is %" PRIu64
                          " there and %" PRIu64 " here. Use another --ckpt-dir or job name",
                          step, what, there, here);
}

static int compare_parts(const struct train *t, const struct ckpt_manifest *m)
{
    int rc = compare_number(m->mark.step, "the number of parts of the state", m->parts_n,
                            t->what.state.n);

    for (uint32_t i = 0; rc == MU_OK && i < m->parts_n; i++) {
        const struct state_part *p = &t->what.state.parts[i];

        if (strcmp(p->name, m->parts[i].name) != 0 ||
            (p->load == NULL && p->bytes != m->parts[i].bytes)) {
            rc =
                run_fail(MU_EREFUSED,
                         "the checkpoint of step %" PRIu64 " is of another model: its part %" PRIu32
                         " is %s with %" PRIu64 " bytes, and here it is %s with %zu. Use another "
                         "--ckpt-dir or job name",
                         m->mark.step, i, m->parts[i].name, m->parts[i].bytes, p->name, p->bytes);
        }
    }
    return rc;
}

static int compare(const struct train *t, const struct ckpt_manifest *m)
{
    const struct ckpt_mark *k = &m->mark;
    const struct {
        const char *what;
        uint64_t there, here;
    } NUMBERS[] = {
        {"the number of samples", k->data_n,
         t->what.sharded ? t->what.shard.elements_n : t->what.walk.samples_n},
        {"the batch", k->batch, t->what.sharded ? 0 : t->what.walk.batch_n},
        {"the seed", k->seed, t->what.seed},
        {"the number of slices", k->slices, t->crew.run->config.slices},
    };
    int rc = compare_parts(t, m);

    for (size_t i = 0; rc == MU_OK && i < ARRAY_LEN(NUMBERS); i++) {
        rc = compare_number(k->step, NUMBERS[i].what, NUMBERS[i].there, NUMBERS[i].here);
    }
    return rc;
}

/* ---- reading ---- */

/* *refused_out: load did not take it, and says nothing of damage. */
static int read_by_call(struct ckpt *c, uint32_t part, const struct state_part *p,
                        struct ckpt_why *why, bool *refused_out)
{
    const uint64_t bytes = ckpt_manifest(c)->parts[part].bytes;
    uint8_t *data = malloc(MAX(bytes, 1));
    int rc;

    if (data == NULL) {
        snprintf(why->text, sizeof(why->text), "no memory for %" PRIu64 " bytes of state %s", bytes,
                 p->name);
        return MU_ENOMEM;
    }
    rc = ckpt_read_part(c, part, data, why);
    if (rc == MU_OK) {
        rc = p->load(p->arg, data, bytes);
        if (rc != MU_OK) {
            *refused_out = !train_depot_is_damage(rc);
            snprintf(why->text, sizeof(why->text), "state %s: load gave %d: %s", p->name, rc,
                     mu_strerror(rc));
        }
    }
    free(data);
    return rc;
}

static int read_state(struct train *t, struct ckpt *c, struct ckpt_why *why, bool *refused_out)
{
    int rc = MU_OK;

    t->touched = true;
    for (uint32_t i = 0; rc == MU_OK && i < t->what.state.n; i++) {
        const struct state_part *p = &t->what.state.parts[i];

        rc = p->load != NULL ? read_by_call(c, i, p, why, refused_out)
                             : ckpt_read_part(c, i, p->data, why);
    }
    return rc;
}

/* A cluster that was not there when it was saved is to know: whoever takes over must not begin from
 * nothing because it has none. What is in memory goes with its host. */
static void tell_restored(struct train *t, const struct saver *s, uint64_t step)
{
    struct mu_run *run = t->crew.run;

    if (s->config.memory) {
        return;
    }
    pthread_mutex_lock(&run->lock);
    t->told.checkpoint = MAX(t->told.checkpoint, step);
    if (!run->alone && !run->leaving) {
        told_again(run);
    }
    pthread_mutex_unlock(&run->lock);
}

/* The state is that of the checkpoint, or *damage_out says why it can't be. What is not the
 * checkpoint's fault is an error: no older one is taken for that, and it can be tried again. */
static int take(struct train *t, struct ckpt *c, const struct saver *s, int *damage_out)
{
    const struct ckpt_mark *k = &ckpt_manifest(c)->mark;
    struct ckpt_why why = {.text = ""};
    bool refused = false;
    int rc = read_state(t, c, &why, &refused);

    if (refused || rc == MU_ENOMEM) {
        return run_fail(rc, "step %" PRIu64 " is not restored: %s", k->step, why.text);
    }
    if (rc != MU_OK && s->config.depot && !train_depot_is_damage(rc)) {
        return train_depot_fail(rc, why.text);
    }
    *damage_out = rc;
    if (rc != MU_OK) {
        log_error(AREA, "step %" PRIu64 " can't be restored: %s", k->step, why.text);
        return MU_OK;
    }
    t->samples_all = k->samples;
    t->what.shard.offset = k->offset;
    log_info(AREA, "step %" PRIu64 " (epoch %" PRIu64 ") is restored from %s/%s", k->step, k->epoch,
             s->config.dir, s->job);
    tell_restored(t, s, k->step);
    return MU_OK;
}

/* ---- finding ---- */

/* A checkpoint, and where it is from. */
struct found {
    struct ckpt *c; /* NULL: there is none, or it is … */
    uint64_t far;   /* … the orchestrator's, of this step, and not open */
    const struct saver *from;
};

static uint64_t step_of(const struct found *f)
{
    return f->c != NULL ? ckpt_manifest(f->c)->mark.step : f->far;
}

static void let_go(struct found *f)
{
    if (f->c != NULL) {
        ckpt_close(f->c);
    }
    f->c = NULL;
    f->far = 0;
}

/* The newest that the orchestrator keeps, which is opened when it is known to be needed. */
static int find_far(struct train *t, const struct saver *s, uint64_t limit, struct found *f)
{
    int rc = MU_OK;

    *f = (struct found){.from = s};
    if (step_rank(&t->crew.step) == 0) {
        rc = train_depot_newest(s, limit, &f->far);
        t->base.seen |= f->far != 0;
    }
    return rc;
}

/* The newest in this folder, at most `limit`, that can be opened. What is damaged is said, and
 * passed over. */
static int find_in(struct train *t, const struct saver *s, uint64_t limit, struct found *f)
{
    struct ckpt_entry *entries = NULL;
    struct ckpt_why why = {.text = ""};
    uint32_t n = 0;
    int rc = MU_OK;

    *f = (struct found){.from = s};
    rc = ckpt_list(s->config.dir, s->job, &entries, &n, &why);
    if (rc != MU_OK && rc != MU_ENOMEM) {
        log_error(AREA, "%s", why.text);
        return MU_OK;
    }
    for (uint32_t i = 0; rc == MU_OK && i < n && f->c == NULL; i++) {
        if (entries[i].step > limit) {
            continue;
        }
        t->base.seen = true;
        rc = ckpt_open(s->config.dir, s->job, entries[i].step, &f->c, &why);
        if (rc == MU_OK) {
            rc = compare(t, ckpt_manifest(f->c));
        } else if (rc != MU_ENOMEM) {
            log_error(AREA, "step %" PRIu64 " can't be restored: %s", entries[i].step, why.text);
            f->c = NULL;
            rc = MU_OK;
        }
    }
    if (rc == MU_ENOMEM) {
        rc = run_fail(rc, "what was saved is not looked at: %s", why.text);
        f->c = NULL;
    }
    if (rc != MU_OK) {
        let_go(f);
    }
    free(entries);
    return rc;
}

/* The newest of all, and of the same the nearest. What is in memory is this run's own, however much
 * newer than what the orchestrator knows of; `tried`: what that was has been tried already, and
 * older ones are left. */
static int find(struct train *t, uint64_t limit, uint64_t tried, struct found *f)
{
    int rc = MU_OK;

    *f = (struct found){.c = NULL};
    for (int i = 0; rc == MU_OK && i < SAVES_N; i++) {
        const struct saver *s = &t->savers[i];
        const bool own =
            s->config.memory && (step_group(&t->crew.step)->g.flags & GENERATION_HEALS) == 0;
        const uint64_t most = own ? tried - 1 : MIN(limit, tried - 1);
        struct found other;

        if (!s->open) {
            continue;
        }
        rc = s->config.depot ? find_far(t, s, most, &other) : find_in(t, s, most, &other);
        if (rc == MU_OK && step_of(&other) >= step_of(f) + (f->far == 0)) {
            let_go(f);
            *f = other;
        } else if (rc == MU_OK) {
            let_go(&other);
        }
    }
    if (rc != MU_OK) {
        let_go(f);
    }
    return rc;
}

/* ---- together ---- */

static int tell_all(struct train *t, uint64_t step, bool far, int status, uint8_t *said,
                    wid *lost_out)
{
    uint8_t mine[SAYS_BYTES];
    struct comm_result result;
    const struct comm_call call = {.op = COMM_ALLGATHER,
                                   .in = mine,
                                   .out = said,
                                   .count = SAYS_BYTES,
                                   .dtype = DTYPE_U8,
                                   .timeout_ms = -1};
    int rc = MU_OK;

    put_u64(mine + 8 * SAYS_STEP, step);
    put_u64(mine + 8 * SAYS_HOST,
            step_group(&t->crew.step)->members[step_rank(&t->crew.step)].host);
    put_u64(mine + 8 * SAYS_STATUS, (uint64_t)(uint32_t)status);
    put_u64(mine + 8 * SAYS_FAR, far);
    if (step_size(&t->crew.step) == 1) {
        memcpy(said, mine, SAYS_BYTES);
        return MU_OK;
    }
    rc = comm_run(t->crew.run->data.comm, &call, &result);
    if (rc == MU_EPEER) {
        *lost_out = result.worker;
    }
    return rc == MU_OK ? rc : run_fail(rc, "what to start from is not agreed on: %s", result.error);
}

static uint64_t said_of(const uint8_t *said, uint32_t rank, uint32_t what)
{
    return get_u64(said + rank * SAYS_BYTES + 8 * what);
}

static uint64_t newest(const uint8_t *said, uint32_t n)
{
    uint64_t step = 0;

    for (uint32_t r = 0; r < n; r++) {
        step = MAX(step, said_of(said, r, SAYS_STEP));
    }
    return step;
}

static bool has_near(const uint8_t *said, uint32_t rank, uint64_t step)
{
    return said_of(said, rank, SAYS_STEP) == step && said_of(said, rank, SAYS_FAR) == 0;
}

/* The first of its host that has it; if nobody has, who knows that the orchestrator does. */
static bool reads(const uint8_t *said, uint32_t n, uint32_t me, uint64_t step)
{
    const bool far = said_of(said, me, SAYS_FAR) != 0;

    for (uint32_t r = 0; r < (far ? n : me); r++) {
        if (has_near(said, r, step) &&
            (far || said_of(said, r, SAYS_HOST) == said_of(said, me, SAYS_HOST))) {
            return false;
        }
    }
    return said_of(said, me, SAYS_STEP) == step;
}

/* *damage_out: this one can't be read; another may. An error is the run's. */
static int read_found(struct train *t, const struct found *f, int *damage_out)
{
    struct train_depot d;
    int rc;

    *damage_out = MU_OK;
    if (f->far == 0) {
        return take(t, f->c, f->from, damage_out);
    }
    rc = train_depot_open(f->from, f->far, &d);
    if (rc == MU_OK) {
        rc = compare(t, ckpt_manifest(d.c));
        if (rc == MU_OK) {
            rc = take(t, d.c, f->from, damage_out);
        }
        train_depot_close(&d);
    }
    if (train_depot_is_damage(rc)) {
        *damage_out = rc;
        rc = MU_OK;
    }
    return rc;
}

/* One checkpoint is tried. MU_EAGAIN: nobody could read it. */
static int try_one(struct train *t, const struct found *f, uint64_t step, uint8_t *said,
                   wid *lost_out)
{
    const uint32_t n = step_size(&t->crew.step), me = step_rank(&t->crew.step);
    const bool mine = reads(said, n, me, step);
    int damage = MU_OK;
    int rc = mine ? read_found(t, f, &damage) : MU_OK;

    if (rc == MU_OK) {
        rc = tell_all(t, mine ? step : 0, false, damage, said, lost_out);
    }
    if (rc != MU_OK) {
        return rc;
    }
    rc = MU_EAGAIN;
    for (uint32_t r = 0; r < n; r++) {
        t->base.holds[r] =
            said_of(said, r, SAYS_STEP) == step && said_of(said, r, SAYS_STATUS) == 0;
        rc = t->base.holds[r] ? MU_OK : rc;
    }
    return rc;
}

/* There is nothing that anybody could read. */
static int from_nothing(struct train *t, bool seen, uint64_t wanted)
{
    if (seen || wanted != 0) {
        return run_fail(MU_ECORRUPT,
                        "there is no intact checkpoint to go on from%s. `muster ckpt verify` says "
                        "more; to start anew, remove what is there, or use another --ckpt-dir",
                        seen ? ": what is there is damaged" : " on any of these nodes");
    }
    if (t->touched) {
        return run_fail(MU_ESTALE, "the job starts over from step 0, whose state this process has "
                                   "not: start it again");
    }
    memset(t->base.holds, 0, sizeof(t->base.holds));
    t->base.holds[0] = 1;
    t->base.step = 0;
    return MU_OK;
}

static int agree(struct train *t, uint8_t *said, wid *lost_out)
{
    const uint64_t wanted = step_group(&t->crew.step)->g.base_step;
    const bool heals = (step_group(&t->crew.step)->g.flags & GENERATION_HEALS) != 0;
    uint64_t limit = wanted != 0 ? wanted : UINT64_MAX;
    uint64_t step = UINT64_MAX; /* the last that was tried */
    bool seen = false;
    int rc;

    t->base.seen = false;
    if (heals) {
        rc = train_heal(t);
        if (rc != MU_OK) {
            return rc;
        }
    } else if (t->savers[SAVE_DISK].config.depot) {
        saver_drop(&t->savers[SAVE_DISK]); /* It was of a state that counts no more. */
    }
    do {
        struct found f = {.c = NULL};

        rc = find(t, limit, step, &f);
        if (rc == MU_OK) {
            /* One that was not like most reads its own only if nobody else has it. */
            rc = tell_all(t, step_of(&f), f.far != 0 || (heals && t->fault.odd_one), t->base.seen,
                          said, lost_out);
        }
        for (uint32_t r = 0; rc == MU_OK && r < step_size(&t->crew.step); r++) {
            seen |= said_of(said, r, SAYS_STATUS) != 0;
        }
        if (rc == MU_OK) {
            step = newest(said, step_size(&t->crew.step));
            rc = step != 0 ? try_one(t, &f, step, said, lost_out) : MU_OK;
        }
        if (rc == MU_OK && step == 0 && limit != UINT64_MAX && !heals) {
            /* What the orchestrator last heard of has made place for newer ones. */
            limit = step = UINT64_MAX;
            rc = MU_EAGAIN;
        } else if (rc == MU_OK && step == 0) {
            rc = from_nothing(t, seen, wanted);
        }
        let_go(&f);
    } while (rc == MU_EAGAIN);
    t->base.step = step;
    return rc;
}

int train_base(struct train *t, wid *lost_out)
{
    uint8_t *said;
    int rc;

    if (t->base.known == step_term(&t->crew.step)) {
        return MU_OK;
    }
    said = malloc(step_size(&t->crew.step) * SAYS_BYTES);
    if (said == NULL) {
        return run_fail(MU_ENOMEM, "out of memory for what the others say");
    }
    rc = agree(t, said, lost_out);
    free(said);
    if (rc == MU_OK) {
        t->base.known = step_term(&t->crew.step);
        t->fault.odd_one = false;
        if (step_rank(&t->crew.step) == 0 &&
            t->base.step != step_group(&t->crew.step)->g.base_step) {
            log_info(AREA, "generation %" PRIu64 " starts from step %" PRIu64,
                     step_group(&t->crew.step)->g.number, t->base.step);
        }
    }
    return rc;
}
