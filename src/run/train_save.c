/* When the state is saved, and the copy of it. Everything else is done by the saver's thread.
 *
 * After a step that is to be saved every member has the same state, and knows who the others are:
 * those who write cut it into shards, and each copies its own. */
#include "base/log.h"
#include "run/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AREA "checkpoint"
#define CLOSE_MS ((uint64_t)600000) /* for what is being written when the run ends */

/* ---- set up ---- */

static void on_saved(void *arg, uint64_t step)
{
    struct train *t = arg;
    struct mu_run *run = t->run;

    pthread_mutex_lock(&run->lock);
    t->told.checkpoint = step;
    t->told.saves++;
    if (!run->alone && !run->leaving) {
        told_again(run);
    }
    pthread_mutex_unlock(&run->lock);
}

int train_save_open(struct train *t)
{
    const mu_config *config = &t->run->config;
    struct saver *s = &t->saver;
    int rc = save_config_read(&s->config, t->run->ckpt_dir, config->ckpt_steps, config->ckpt_ms);

    if (rc != MU_OK) {
        return rc;
    }
    snprintf(s->job, sizeof(s->job), "%s", t->run->life.job);
    s->on_saved = on_saved;
    s->arg = t;
    t->saved_ms = run_now_ms();
    rc = saver_open(s);
    return rc == MU_OK ? rc : run_fail(rc, "no memory for checkpoints");
}

void train_save_close(struct train *t)
{
    saver_close(&t->saver, CLOSE_MS);
}

/* ---- who writes what ---- */

/* Those on one host share its folder; if the folder is everybody's, so is the work. */
void train_save_writers(struct train *t)
{
    const struct generation *g = &t->group;
    const uint32_t me = t->step.group.me;

    t->writer = t->writers_n = 0;
    for (uint32_t r = 0; r < g->members_n; r++) {
        if (t->saver.config.shared || g->members[r].host == g->members[me].host) {
            t->writer += r < me;
            t->writers_n++;
        }
    }
}

static void name_attempt(const struct train *t, char tag[CKPT_TAG_MAX])
{
    if (t->saver.config.shared) {
        snprintf(tag, CKPT_TAG_MAX, "g%" PRIu64, t->result_generation);
    } else {
        snprintf(tag, CKPT_TAG_MAX, "g%" PRIu64 "-h%" PRIx64, t->result_generation,
                 t->run->life.host);
    }
}

static struct ckpt_mark mark_of(const struct train *t, uint64_t step)
{
    struct timespec now;
    struct ckpt_mark m = {.run = t->group.run,
                          .generation = t->result_generation,
                          .step = step,
                          .epoch = train_epoch(t, step),
                          .samples = t->samples_all,
                          .offset = t->shard.offset,
                          .seed = t->seed,
                          .data_n = t->sharded ? t->shard.elements_n : t->walk.samples_n,
                          .batch = t->sharded ? 0 : t->walk.batch_n,
                          .slices = t->step.config.slices_n};

    snprintf(m.job, sizeof(m.job), "%s", t->saver.job);
    clock_gettime(CLOCK_REALTIME, &now);
    m.saved_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return m;
}

/* ---- the copy ---- */

/* Where the parts are, and how long: *bytes_out in all. */
static int find_parts(struct train *t, const void **from, uint64_t *bytes_out)
{
    struct save_copy *c = &t->saver.copy;
    struct ckpt_part *parts = realloc(c->parts, MAX(t->state.n, 1) * sizeof(*parts));

    if (parts == NULL) {
        return run_fail(MU_ENOMEM, "no memory for a list of the parts");
    }
    c->parts = parts;
    c->parts_n = t->state.n;
    *bytes_out = 0;
    for (uint32_t i = 0; i < t->state.n; i++) {
        size_t n;
        int rc = state_save(&t->state.parts[i], &from[i], &n);

        if (rc != MU_OK) {
            return rc;
        }
        snprintf(parts[i].name, sizeof(parts[i].name), "%s", t->state.parts[i].name);
        parts[i].bytes = n;
        *bytes_out += n;
    }
    return MU_OK;
}

/* Bytes [lo, hi) of the state. */
static void copy_range(const struct save_copy *c, const void *const *from, uint64_t lo, uint64_t hi)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < c->parts_n && at < hi; i++) {
        const uint64_t end = at + c->parts[i].bytes;
        const uint64_t a = MAX(at, lo), b = MIN(end, hi);

        if (a < b) {
            memcpy(c->data + (a - lo), (const uint8_t *)from[i] + (a - at), b - a);
        }
        at = end;
    }
}

/* Fills saver.copy. MU_EAGAIN: nothing of it is this worker's to write. */
static int copy_shard(struct train *t, const void **from, struct ckpt_target *target)
{
    struct saver *s = &t->saver;
    struct save_copy *c = &s->copy;
    uint32_t first, end, chunks_n;
    uint64_t lo, hi;
    int rc = find_parts(t, from, &target->bytes);

    if (rc != MU_OK) {
        return rc;
    }
    chunks_n = ckpt_chunks(target->bytes);
    target->shards_n = MIN(MIN(t->writers_n, MAX(chunks_n, 1)), (uint32_t)CKPT_SHARDS_MAX);
    if (t->writer >= target->shards_n) {
        return MU_EAGAIN;
    }
    ckpt_shard_chunks(chunks_n, target->shards_n, t->writer, &first, &end);
    lo = MIN(first * CKPT_CHUNK, target->bytes);
    hi = MIN(end * CKPT_CHUNK, target->bytes);
    if (saver_room(s, hi - lo) != MU_OK) {
        return run_fail(MU_ENOMEM, "no memory for a copy of %" PRIu64 " bytes", hi - lo);
    }
    copy_range(c, from, lo, hi);
    return MU_OK;
}

static void save(struct train *t, uint64_t step)
{
    struct saver *s = &t->saver;
    struct save_copy *c = &s->copy;
    char tag[CKPT_TAG_MAX];
    struct ckpt_target target = {
        .dir = s->config.dir, .job = s->job, .step = step, .tag = tag, .zstd = s->config.zstd};
    const void **from;
    int rc;

    name_attempt(t, tag);
    if (!saver_take(s)) {
        log_warn(AREA, "step %" PRIu64 " is not saved: the last one is still being written", step);
        target.shards_n = t->writers_n;
        ckpt_fail_shard(&target, t->writer, "it is still writing the last one");
        return;
    }
    from = malloc(MAX(t->state.n, 1) * sizeof(*from));
    rc = from != NULL ? copy_shard(t, from, &target) : run_fail(MU_ENOMEM, "no memory");
    free(from);
    if (rc == MU_EAGAIN) {
        return;
    }
    if (rc != MU_OK) {
        log_error(AREA, "step %" PRIu64 " is not saved: %s", step, mu_error());
        ckpt_fail_shard(&target, t->writer, mu_error());
        return;
    }
    memcpy(c->tag, tag, sizeof(tag));
    c->target = target;
    c->target.tag = c->tag;
    c->shard = t->writer;
    c->mark = mark_of(t, step);
    saver_go(s);
}

/* ---- when ---- */

static bool is_due(const struct train *t, uint64_t step)
{
    const uint64_t every = t->saver.config.every_steps, last = t->step.config.steps_n;

    return t->save_due || (every > 0 && step % every == 0) || (last > 0 && step >= last);
}

/* Somebody was lost since: its shard will not come. */
static bool is_broken(const struct train *t)
{
    return t->step.group.number != t->result_generation && t->step.group.kind == GENERATION_FAILURE;
}

/* By the clock one decides for all; anybody may ask. */
static void look_ahead(struct train *t)
{
    const struct save_config *c = &t->saver.config;
    const bool late =
        c->every_ms > 0 && t->step.group.me == 0 && run_now_ms() >= t->saved_ms + c->every_ms;
    bool wanted;

    pthread_mutex_lock(&t->run->lock);
    wanted = t->save_wanted;
    t->save_wanted = false;
    pthread_mutex_unlock(&t->run->lock);
    if (late || wanted) {
        t->saved_ms = run_now_ms();
        train_event(t, (struct step_event){.kind = STEP_ON_SAVE});
    }
}

void train_save(struct train *t, uint64_t step)
{
    const uint64_t began_us = train_now_us();

    if (!t->saver.open) {
        return;
    }
    if (is_due(t, step)) {
        if (is_broken(t)) {
            log_info(AREA, "step %" PRIu64 " is not saved: a worker was lost in it", step);
        } else {
            save(t, step);
        }
        t->saved_ms = run_now_ms();
        pthread_mutex_lock(&t->run->lock);
        t->told.save_us = train_now_us() - began_us;
        pthread_mutex_unlock(&t->run->lock);
    }
    t->save_due = false;
    look_ahead(t);
}

int mu_checkpoint(mu_run *run)
{
    struct train *t;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    t = run->train;
    if (t == NULL || !t->started) {
        rc = run_fail(MU_EINVAL, "nothing is trained yet: mu_data() or mu_shard() comes first");
    } else if (!t->saver.open) {
        rc = run_fail(MU_EINVAL, "there is no folder for checkpoints: muster run --ckpt-dir DIR, "
                                 "MUSTER_CKPT_DIR or mu_config.ckpt_dir");
    } else {
        t->save_wanted = true; /* mu_next() looks. */
    }
    call_exit(run);
    return rc;
}
