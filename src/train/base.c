/* What a fresh generation starts from: the newest checkpoint that any member can read, or the
 * state that rank 0's caller has made. All members make the same calls, in this order:
 *
 *   everyone says which checkpoint is the newest that it knows of
 *   of those who know of the newest of all, the first on each host reads it, and everyone says
 *   whether it has
 *   (nobody has: the next older one)
 *
 * Those who have read it give it to the others (stream.c). Rank 0 alone asks what the orchestrator
 * keeps, and reads that only if nobody has the same step nearer: so one copy leaves the
 * orchestrator, whatever the number of nodes.
 *
 * A generation that heals starts from a checkpoint whose state all members had. What was saved
 * after that one may be of a state that not all had: it is taken away first, so that nobody ever
 * starts from it. */
#include "base/log.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AREA "checkpoint"
#define ASK_MS 60000 /* for an orchestrator that does not answer */

/* What there is in a place, which is open then. */
static int list(const struct saver *s, struct shelf *f, struct ckpt_entry **entries_out,
                uint32_t *n_out)
{
    int rc = shelf_open(f, s, ASK_MS);

    return rc == MU_OK ? shelf_list(f, entries_out, n_out) : rc;
}

/* ---- healing ---- */

/* One worker takes away what is in a folder that several have. */
static bool takes_away(const struct train *t, enum save_place place)
{
    const struct step *s = &t->crew.step;
    uint32_t r = 0;

    while (r < step_rank(s) && !step_is_near(s, place, r)) {
        r++;
    }
    return r == step_rank(s);
}

static int forget_after(const struct saver *s, uint64_t limit)
{
    struct ckpt_entry *entries = NULL;
    struct shelf f;
    uint32_t n = 0;
    int rc = list(s, &f, &entries, &n);

    for (uint32_t i = 0; rc == MU_OK && i < n; i++) {
        if (entries[i].step > limit) {
            rc = shelf_remove(&f, entries[i].step);
            rc = rc == MU_ENOENT ? MU_OK : rc;
            log_write(s->config.memory ? LOG_DEBUG : LOG_WARN, AREA,
                      "step %" PRIu64 " is taken away: the states of the workers differed",
                      entries[i].step);
        }
    }
    free(entries);
    shelf_close(&f);
    return rc == MU_OK
               ? rc
               : run_fail(rc,
                          "checkpoints of states that not all workers had can't be taken away: %s. "
                          "Remove those after step %" PRIu64 " before the job is started again",
                          f.why.text[0] != '\0' ? f.why.text : mu_strerror(rc), limit);
}

/* What is being written is wanted if it may be gone back to, and if it needs nobody else. */
static void finish_saving(struct saver *s, uint64_t limit)
{
    if (s->open && !s->config.depot && s->copy.mark.step <= limit) {
        saver_take(s);
    } else {
        saver_drop(s);
    }
}

static int heal(struct train *t, uint64_t limit)
{
    struct mu_run *run = t->crew.run;
    int rc = MU_OK;

    for (int i = 0; rc == MU_OK && i < SAVES_N; i++) {
        struct saver *s = &t->savers[i];

        finish_saving(s, limit);
        if (s->open && takes_away(t, (enum save_place)i)) {
            rc = forget_after(s, limit);
        }
    }
    pthread_mutex_lock(&run->lock);
    t->told.checkpoint = t->told.checkpoint <= limit ? t->told.checkpoint : 0;
    pthread_mutex_unlock(&run->lock);
    return rc;
}

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
    const struct ckpt_mark there = m->mark, here = train_mark(t, there.step);
    const struct {
        const char *what;
        uint64_t there, here;
    } NUMBERS[] = {
        {"the number of samples", there.data_n, here.data_n},
        {"the batch", there.batch, here.batch},
        {"the seed", there.seed, here.seed},
        {"the number of slices", there.slices, here.slices},
    };
    int rc = compare_parts(t, m);

    for (size_t i = 0; rc == MU_OK && i < ARRAY_LEN(NUMBERS); i++) {
        rc = compare_number(there.step, NUMBERS[i].what, NUMBERS[i].there, NUMBERS[i].here);
    }
    return rc;
}

/* ---- reading ---- */

static bool is_damage(int rc)
{
    return rc == MU_ECORRUPT || rc == MU_EVERSION || rc == MU_ENOENT;
}

/* *refuses_out: load does not take it, and says nothing of damage. */
static int read_part(struct ckpt *c, uint32_t part, const struct state_part *p,
                     struct ckpt_why *why, bool *refuses_out)
{
    const uint64_t bytes = ckpt_manifest(c)->parts[part].bytes;
    uint8_t *data;
    int rc;

    if (p->load == NULL) {
        return ckpt_read_part(c, part, p->data, why);
    }
    data = malloc(MAX(bytes, 1));
    if (data == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory for %" PRIu64 " bytes of state %s", bytes,
                        p->name);
    }
    rc = ckpt_read_part(c, part, data, why);
    if (rc == MU_OK && (rc = state_load(p, data, bytes)) != MU_OK) {
        *refuses_out = !is_damage(rc);
        ckpt_say(why, rc, "%s", mu_error());
    }
    free(data);
    return rc;
}

/* A cluster that was not there when it was saved is to know: whoever takes over must not begin from
 * nothing because it has none. What is in memory goes with its host. */
static void tell_restored(struct train *t, const struct saver *s, const struct ckpt_mark *k)
{
    struct mu_run *run = t->crew.run;

    t->samples_all = k->samples;
    t->what.shard.offset = k->offset;
    log_info(AREA, "step %" PRIu64 " (epoch %" PRIu64 ") is restored from %s/%s", k->step, k->epoch,
             s->config.dir, s->job);
    if (!s->config.memory) {
        pthread_mutex_lock(&run->lock);
        t->told.checkpoint = MAX(t->told.checkpoint, k->step);
        told_again(run);
        pthread_mutex_unlock(&run->lock);
    }
}

static int fail_far(const struct shelf *f, int rc)
{
    return run_fail(rc,
                    "the checkpoints that the orchestrator keeps can't be read: %s. The run does "
                    "not begin anew for that: see that the orchestrator is there and well, or use "
                    "another --ckpt-dir",
                    f->why.text[0] != '\0' ? f->why.text : mu_strerror(rc));
}

/* What a member says: first which checkpoint is its newest, then what it has read. */
struct word {
    uint64_t step;   /* 0: none */
    uint8_t far;     /* others who have it are better placed to read it */
    uint8_t refused; /* it can't be used, and neither can another */
    uint8_t unused[6];
};

/* The state becomes that of the checkpoint, and mine->step says so. If it does not: it is not here,
 * or can't be read, which the log says; another one may do. What is not the checkpoint's fault is
 * an error that can be tried again, and no older one is taken for that: no memory, a load that
 * refuses, an orchestrator that is out of reach and may have what is wanted. mine->refused: an
 * error for good, which the others are told. */
static int read_from(struct train *t, const struct saver *s, uint64_t step, struct word *mine)
{
    const bool far = s->config.depot;
    bool refuses = false;
    struct ckpt *c = NULL;
    struct shelf f;
    int rc = shelf_open(&f, s, ASK_MS);

    if (rc == MU_OK) {
        rc = shelf_get(&f, step, &c);
    }
    if (rc == MU_OK) {
        rc = compare(t, ckpt_manifest(c));
        mine->refused = rc != MU_OK;
    }
    t->touched |= rc == MU_OK;
    for (uint32_t i = 0; rc == MU_OK && i < t->what.state.n; i++) {
        rc = read_part(c, i, &t->what.state.parts[i], &f.why, &refuses);
    }
    if (rc == MU_OK) {
        tell_restored(t, s, &ckpt_manifest(c)->mark);
        mine->step = step;
    } else if (refuses || rc == MU_ENOMEM) {
        run_fail(rc, "step %" PRIu64 " is not restored: %s", step, f.why.text);
    } else if (far && !is_damage(rc) && !mine->refused) {
        fail_far(&f, rc);
        mine->refused = rc == MU_EREFUSED;
    } else if (!mine->refused) {
        log_write(far || rc != MU_ENOENT ? LOG_ERROR : LOG_DEBUG, AREA,
                  "step %" PRIu64 " can't be restored: %s", step, f.why.text);
        rc = MU_OK;
    }
    if (mine->refused) {
        log_error(AREA, "%s", mu_error());
    }
    if (c != NULL) {
        ckpt_close(c);
    }
    shelf_close(&f);
    return rc;
}

/* ---- finding ---- */

/* Which checkpoints are wanted. */
struct wish {
    uint64_t limit; /* none on a disk that is newer */
    uint64_t tried; /* nobody could read this one: an older one */
    bool heals;
};

/* The newest step that is wanted of a place; 0: none. What is in memory is this run's own, however
 * much newer than what the orchestrator knows of. */
static uint64_t most_of(const struct train *t, const struct saver *s, const struct wish *w)
{
    if (!s->open || (s->config.depot && step_rank(&t->crew.step) != 0)) {
        return 0;
    }
    return s->config.memory && !w->heals ? w->tried - 1 : MIN(w->limit, w->tried - 1);
}

/* The newest checkpoint that this worker knows of. Whether it can be read is found out by reading.
 */
static int find(struct train *t, const struct wish *w, struct word *mine)
{
    for (int i = 0; i < SAVES_N; i++) {
        const struct saver *s = &t->savers[i];
        const uint64_t most = most_of(t, s, w);
        struct ckpt_entry *entries = NULL;
        struct shelf f;
        uint32_t n = 0;
        int rc;

        if (most == 0) {
            continue;
        }
        rc = list(s, &f, &entries, &n);
        shelf_close(&f);
        if (rc != MU_OK && s->config.depot) {
            return fail_far(&f, rc);
        }
        if (rc == MU_ENOMEM) {
            return run_fail(rc, "what was saved is not looked at: %s", f.why.text);
        }
        if (rc != MU_OK) {
            log_error(AREA, "%s", f.why.text);
        }
        for (uint32_t k = 0; rc == MU_OK && k < n; k++) {
            if (entries[k].step <= most && entries[k].step >= mine->step + !mine->far) {
                *mine = (struct word){.step = entries[k].step, .far = s->config.depot};
            }
        }
        free(entries);
    }
    return MU_OK;
}

/* Of the same step, what is in memory first, and what the orchestrator keeps last. */
static int read_step(struct train *t, const struct wish *w, uint64_t step, struct word *mine)
{
    int rc = MU_OK;

    for (int i = SAVES_N; i-- > 0 && rc == MU_OK && mine->step == 0 && !mine->refused;) {
        if (step <= most_of(t, &t->savers[i], w)) {
            rc = read_from(t, &t->savers[i], step, mine);
        }
    }
    return rc;
}

/* ---- together ---- */

/* The first of its host that has it near; if nobody has, whoever knows of it. */
static bool reads(const struct train *t, const struct word *said, uint64_t step)
{
    const struct member *m = step_group(&t->crew.step)->members;
    const uint32_t me = step_rank(&t->crew.step);
    const bool far = said[me].far;

    for (uint32_t r = 0; r < (far ? step_size(&t->crew.step) : me); r++) {
        if (said[r].step == step && !said[r].far && (far || m[r].host == m[me].host)) {
            return false;
        }
    }
    return said[me].step == step;
}

/* One checkpoint is tried: holds says who has read it, if anybody could. */
static int try_one(struct train *t, const struct wish *w, uint64_t step, struct word *said,
                   uint8_t *holds, bool *found_out)
{
    struct word mine = {.step = 0};
    int rc = reads(t, said, step) ? read_step(t, w, step, &mine) : MU_OK;
    int heard;

    if (rc == MU_OK || mine.refused) {
        heard = train_gather(t, &mine, sizeof(mine), said, -1);
        rc = mine.refused ? rc : heard;
    }
    if (rc != MU_OK) {
        return rc;
    }
    for (uint32_t r = 0; r < step_size(&t->crew.step); r++) {
        if (said[r].refused) {
            return run_fail(MU_EREFUSED,
                            "rank %" PRIu32 " refuses the checkpoint of step %" PRIu64
                            ", and its log says why: is it of another run, or of another model?",
                            r, step);
        }
        holds[r] = said[r].step == step;
        *found_out |= holds[r] != 0;
    }
    return MU_OK;
}

/* There is nothing that anybody could read. */
static int from_nothing(struct train *t, bool seen, bool wanted, uint8_t *holds)
{
    if (seen || wanted) {
        return run_fail(MU_ECORRUPT,
                        "there is no intact checkpoint to go on from%s. `muster ckpt verify` says "
                        "more; to start anew, remove what is there, or use another --ckpt-dir",
                        seen ? ": what is there is damaged" : " on any of these nodes");
    }
    if (t->touched) {
        return run_fail(MU_ESTALE, "the job starts over from step 0, whose state this process has "
                                   "not: start it again");
    }
    holds[0] = 1;
    return MU_OK;
}

static int agree(struct train *t, const struct generation *g, uint64_t *step_out, uint8_t *holds)
{
    const uint64_t wanted = g->base_step;
    const uint32_t n = step_size(&t->crew.step);
    struct wish w = {.limit = wanted != 0 ? wanted : UINT64_MAX,
                     .tried = UINT64_MAX,
                     .heals = (g->flags & GENERATION_HEALS) != 0};
    bool seen = false, found = false;
    int rc = w.heals ? heal(t, wanted) : MU_OK;

    if (!w.heals && t->savers[SAVE_DISK].config.depot) {
        saver_drop(&t->savers[SAVE_DISK]); /* It was of a state that counts no more. */
    }
    while (rc == MU_OK && !found) {
        struct word said[MU_REDUCE_MAX], mine = {.step = 0};
        uint64_t step = 0;

        rc = find(t, &w, &mine);
        /* One that was not like most reads its own only if nobody else has it. */
        mine.far |= w.heals && t->fault.odd_one;
        if (rc == MU_OK) {
            rc = train_gather(t, &mine, sizeof(mine), said, -1);
        }
        if (rc != MU_OK) {
            return rc;
        }
        for (uint32_t r = 0; r < n; r++) {
            step = MAX(step, said[r].step);
        }
        seen |= step != 0;
        *step_out = step;
        if (step != 0) {
            rc = try_one(t, &w, step, said, holds, &found);
            w.tried = step;
        } else if (w.limit == UINT64_MAX || w.heals) {
            rc = from_nothing(t, seen, wanted != 0, holds);
            found = rc == MU_OK;
        } else { /* What the orchestrator last heard of has made place for newer ones. */
            w.limit = w.tried = UINT64_MAX;
        }
    }
    return rc;
}

int train_base(struct train *t, const struct step_todo *todo)
{
    const struct generation *g = &step_group(&t->crew.step)->g;
    uint8_t holds[MU_REDUCE_MAX] = {0};
    uint64_t step = 0;
    int rc = agree(t, g, &step, holds);

    if (rc != MU_OK) {
        return train_break_off(t, todo, rc, 0);
    }
    t->fault.odd_one = false;
    if (step_rank(&t->crew.step) == 0 && step != g->base_step) {
        log_info(AREA, "generation %" PRIu64 " starts from step %" PRIu64, g->number, step);
    }
    train_check_end(t, step);
    crew_event(&t->crew,
               (struct step_event){
                   .kind = STEP_ON_BASE, .term = todo->term, .step = step, .u.holds = holds});
    return MU_OK;
}
