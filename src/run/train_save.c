/* When the state is saved, and the copy of it. Everything else is done by the saver's thread.
 *
 * After a step that is to be saved every member has the same state, and knows who the others are:
 * those who write cut it into shards, and each copies its own. */
#include "base/crc32c.h"
#include "base/log.h"
#include "run/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AREA "checkpoint"
#define CLOSE_MS ((uint64_t)600000) /* for what is being written when the run ends */
#define HEAL_KEEP 2 /* the state of the newest has yet to be compared when it is there */

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
    struct saver *disk = &t->savers[SAVER_DISK], *memory = &t->savers[SAVER_MEMORY];
    int rc = save_config_read(&disk->config, t->run->ckpt_dir, config->ckpt_steps, config->ckpt_ms);

    if (rc == MU_OK) {
        rc = save_config_memory(&memory->config);
    }
    if (rc != MU_OK) {
        return rc;
    }
    if (disk->config.depot && t->run->alone) {
        return run_fail(MU_EINVAL,
                        "the orchestrator keeps checkpoints of what `muster run` starts: "
                        "this process has no agent. Name a folder instead of '" SAVE_DEPOT "'");
    }
    if (t->heals) {
        disk->config.keep = MAX(disk->config.keep, HEAL_KEEP);
    }
    disk->place = &t->run->place;
    disk->on_saved = on_saved;
    disk->arg = t;
    t->saved_ms = run_now_ms();
    for (int i = 0; rc == MU_OK && i < SAVERS_N; i++) {
        snprintf(t->savers[i].job, sizeof(t->savers[i].job), "%s", t->run->life.job);
        rc = saver_open(&t->savers[i]);
    }
    return rc == MU_OK ? rc : run_fail(rc, "no memory for checkpoints");
}

void train_save_close(struct train *t)
{
    for (int i = 0; i < SAVERS_N; i++) {
        saver_close(&t->savers[i], CLOSE_MS);
    }
}

/* ---- who writes what ---- */

/* Those on one host share its folder; if the folder is everybody's, so is the work. */
static void find_writers(const struct train *t, struct saver *s)
{
    const struct generation *g = &t->group;
    const uint32_t me = t->step.group.me;

    s->mark = crc32c(0, g->key, sizeof(g->key));
    if (s->config.depot) { /* One of all. */
        s->writer = me != 0;
        s->writers_n = 1;
        return;
    }
    s->writer = s->writers_n = 0;
    for (uint32_t r = 0; s->open && r < g->members_n; r++) {
        if (s->config.shared || g->members[r].host == g->members[me].host) {
            s->writer += r < me;
            s->writers_n++;
        }
    }
}

void train_save_writers(struct train *t)
{
    for (int i = 0; i < SAVERS_N; i++) {
        find_writers(t, &t->savers[i]);
    }
}

/* Numbers of generations come again with another orchestrator; their keys do not. */
static void name_attempt(const struct train *t, const struct saver *s, char tag[CKPT_TAG_MAX])
{
    if (s->writers_n == 1) {
        snprintf(tag, CKPT_TAG_MAX, "w%" PRIx64, t->run->life.worker);
    } else if (s->config.shared) {
        snprintf(tag, CKPT_TAG_MAX, "%08" PRIx32 "-g%" PRIu64, s->mark, t->result_generation);
    } else {
        snprintf(tag, CKPT_TAG_MAX, "%08" PRIx32 "-g%" PRIu64 "-h%" PRIx64, s->mark,
                 t->result_generation, t->run->life.host);
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

    snprintf(m.job, sizeof(m.job), "%s", t->run->life.job);
    clock_gettime(CLOCK_REALTIME, &now);
    m.saved_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return m;
}

/* ---- the copy ---- */

/* Where the parts are, and how long: *bytes_out in all. */
static int find_parts(struct train *t, struct save_copy *c, const void **from, uint64_t *bytes_out)
{
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

/* Bytes [*lo_out, *hi_out) of the state are this worker's; false: none. */
static bool own_share(const struct saver *s, uint64_t bytes, uint32_t *shards_n_out,
                      uint64_t *lo_out, uint64_t *hi_out)
{
    const uint32_t chunks_n = ckpt_chunks(bytes);
    uint32_t first, end;

    *shards_n_out = MIN(MIN(s->writers_n, MAX(chunks_n, 1)), (uint32_t)CKPT_SHARDS_MAX);
    if (s->writer >= *shards_n_out) {
        return false;
    }
    ckpt_shard_chunks(chunks_n, *shards_n_out, s->writer, &first, &end);
    *lo_out = MIN(first * CKPT_CHUNK, bytes);
    *hi_out = MIN(end * CKPT_CHUNK, bytes);
    return true;
}

/* Memory for the first copy is made before it is needed: new pages cost more than copying does.
 * What parts by calls will have is not known yet. */
static void make_room(const struct train *t, struct saver *s)
{
    uint64_t bytes = 0, lo, hi;
    uint32_t shards_n;

    if (!s->open || s->room_generation == t->result_generation) {
        return;
    }
    s->room_generation = t->result_generation;
    for (uint32_t i = 0; i < t->state.n; i++) {
        bytes += t->state.parts[i].save == NULL ? t->state.parts[i].bytes : 0;
    }
    if (own_share(s, bytes, &shards_n, &lo, &hi)) {
        saver_prepare(s, hi - lo);
    }
}

/* Fills saver.copy. MU_EAGAIN: nothing of it is this worker's to write. */
static int copy_shard(struct train *t, struct saver *s, const void **from,
                      struct ckpt_target *target)
{
    struct save_copy *c = &s->copy;
    uint64_t lo, hi;
    int rc = find_parts(t, c, from, &target->bytes);

    if (rc != MU_OK) {
        return rc;
    }
    if (!own_share(s, target->bytes, &target->shards_n, &lo, &hi)) {
        return MU_EAGAIN;
    }
    if (saver_room(s, hi - lo) != MU_OK) {
        return run_fail(MU_ENOMEM, "no memory for a copy of %" PRIu64 " bytes", hi - lo);
    }
    copy_range(c, from, lo, hi);
    return MU_OK;
}

/* There is no later one: this is the state that all the work was for. */
static bool is_last(const struct train *t, uint64_t step)
{
    return t->step.config.steps_n > 0 && step >= t->step.config.steps_n;
}

/* Those who write with this one need not wait. */
static void give_up(const struct saver *s, const struct ckpt_target *target, const char *why)
{
    if (!s->config.depot) {
        ckpt_fail_shard(target, s->writer, why);
    }
}

static void save(struct train *t, struct saver *s, uint64_t step)
{
    struct save_copy *c = &s->copy;
    char tag[CKPT_TAG_MAX];
    struct ckpt_target target = {
        .dir = s->config.dir, .job = s->job, .step = step, .tag = tag, .zstd = s->config.zstd};
    const void **from;
    int rc;

    if (s->config.depot && s->writer != 0) {
        return;
    }
    name_attempt(t, s, tag);
    if (!saver_take(s, s->config.memory || is_last(t, step))) {
        log_warn(AREA, "step %" PRIu64 " is not saved: the last one is still being written", step);
        target.shards_n = s->writers_n;
        give_up(s, &target, "it is still writing the last one");
        return;
    }
    from = malloc(MAX(t->state.n, 1) * sizeof(*from));
    rc = from != NULL ? copy_shard(t, s, from, &target) : run_fail(MU_ENOMEM, "no memory");
    free(from);
    if (rc == MU_EAGAIN) {
        return;
    }
    if (rc != MU_OK) {
        log_error(AREA, "step %" PRIu64 " is not saved: %s", step, mu_error());
        give_up(s, &target, mu_error());
        return;
    }
    memcpy(c->tag, tag, sizeof(tag));
    c->target = target;
    c->target.tag = c->tag;
    c->shard = s->writer;
    c->mark = mark_of(t, step);
    saver_go(s);
}

/* ---- when ---- */

static bool is_due(const struct train *t, const struct saver *s, uint64_t step)
{
    const uint64_t every = s->config.every_steps;

    return s->open && ((t->save_due && !s->config.memory) || (every > 0 && step % every == 0) ||
                       is_last(t, step));
}

/* Somebody was lost since: its shard will not come. */
static bool is_broken(const struct train *t)
{
    return t->step.group.number != t->result_generation && t->step.group.kind == GENERATION_FAILURE;
}

static void save_to(struct train *t, struct saver *s, uint64_t step)
{
    const uint64_t began_us = train_now_us();

    if (s->config.depot) {
        find_writers(t, s); /* Rank 0 has all of it, whoever was lost. */
        save(t, s, step);
    } else if (is_broken(t)) {
        log_info(AREA, "step %" PRIu64 " is not saved: a worker was lost in it", step);
    } else {
        save(t, s, step);
    }
    if (!s->config.memory) {
        t->saved_ms = run_now_ms();
        pthread_mutex_lock(&t->run->lock);
        t->told.save_us = train_now_us() - began_us;
        pthread_mutex_unlock(&t->run->lock);
    }
}

/* By the clock one decides for all; anybody may ask. */
static void look_ahead(struct train *t)
{
    const struct save_config *c = &t->savers[SAVER_DISK].config;
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
    for (int i = 0; i < SAVERS_N; i++) {
        if (is_due(t, &t->savers[i], step)) {
            save_to(t, &t->savers[i], step);
        } else {
            make_room(t, &t->savers[i]);
        }
    }
    t->save_due = false;
    if (t->savers[SAVER_DISK].open) {
        look_ahead(t);
    }
}

/* The next step may be committed when the one before can't be lost with all processes. If somebody
 * was lost since, what was begun with it is not there: then one writes all of it. */
void train_save_keep(struct train *t)
{
    struct saver *s = &t->savers[SAVER_MEMORY];

    if (!s->open || t->step.committed == 0) {
        return;
    }
    (void)saver_take(s, true);
    find_writers(t, s);
    if (s->writer == 0 && (s->kept != t->step.committed || atomic_load(&s->alone))) {
        s->writers_n = 1;
        save(t, s, t->step.committed);
        (void)saver_take(s, true);
    }
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
    } else if (!t->savers[SAVER_DISK].open) {
        rc = run_fail(MU_EINVAL, "there is no folder for checkpoints: muster run --ckpt-dir DIR, "
                                 "MUSTER_CKPT_DIR or mu_config.ckpt_dir");
    } else {
        t->save_wanted = true; /* mu_next() looks. */
    }
    call_exit(run);
    return rc;
}
