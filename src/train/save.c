/* States are saved as core/step says: the copy is made here, everything else is done by the saver's
 * thread.
 *
 * After a step that is to be saved every member has the same state, and knows who the others are:
 * those who write cut it into shards, and each copies its own. */
#include "base/crc32c.h"
#include "base/log.h"
#include "base/random.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define AREA "checkpoint"
#define HEAL_KEEP 2 /* the state of the newest has yet to be compared when it is there */

/* ---- set up ---- */

void train_saved(struct train *t, uint64_t step)
{
    struct mu_run *run = t->crew.run;

    pthread_mutex_lock(&run->lock);
    t->told.checkpoint = step;
    t->told.saves++;
    told_again(run);
    pthread_mutex_unlock(&run->lock);
}

bool train_unkept(struct train *t, bool unkept)
{
    struct mu_run *run = t->crew.run;

    pthread_mutex_lock(&run->lock);
    const bool changed = t->unkept != unkept;

    t->unkept = unkept;
    if (changed) {
        told_again(run);
    }
    pthread_mutex_unlock(&run->lock);
    return changed;
}

/* What parts by calls will have is not known yet. */
static uint64_t known_bytes(const struct train *t)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < t->what.state.n; i++) {
        bytes += t->what.state.parts[i].save == NULL ? t->what.state.parts[i].bytes : 0;
    }
    return bytes;
}

/* Said by one worker of each node, before it trains. */
static void check_room(const struct train *t, const struct saver *s)
{
    const double state_mb = (double)known_bytes(t) / 1e6;
    struct statvfs fs;

    if (!s->open || wid_slot(t->crew.run->life.worker) != 0 || statvfs(s->config.dir, &fs) != 0) {
        return;
    }
    const double room_mb = (double)fs.f_blocks * (double)fs.f_frsize / 1e6;

    if (room_mb < state_mb * (s->config.keep + 1)) {
        log_warn(AREA,
                 "--keep-in-memory: %s has %.1f MB, and %" PRIu32 " copies of the state take %.1f "
                 "MB: not every step will be kept there, if any. Make /dev/shm larger (docker run "
                 "--shm-size; in Kubernetes a volume in memory), and use --ckpt-dir, too",
                 s->config.dir, room_mb, s->config.keep + 1, state_mb * (s->config.keep + 1));
    }
}

/* Who has the same one shares the work. */
static void find_folder(const struct mu_run *run, struct saver *s)
{
    const struct msg_life *life = &run->life;
    const uint64_t mark = s->config.shared ? 1 + (uint64_t)crc32c(0, life->key, KEY_BYTES) : 0;
    struct ckpt_why why;

    if (s->config.dir[0] != '\0' && !s->config.depot &&
        ckpt_folder(s->config.dir, s->job, life->host, mark, &s->folder, &why) != MU_OK) {
        log_warn(AREA, "%s", why.text);
        random_bytes(&s->folder, sizeof(s->folder)); /* Nobody else has it, as far as is known. */
    }
    s->folder = (s->folder & ~(NO_FOLDER ^ NO_FOLDER >> 1)) | 1;
}

int train_save_open(struct train *t)
{
    const mu_config *config = &t->crew.run->config;
    struct saver *disk = &t->savers[SAVE_DISK], *memory = &t->savers[SAVE_MEMORY];
    int rc =
        save_config_read(&disk->config, t->crew.run->ckpt_dir, config->ckpt_steps, config->ckpt_ms);

    if (rc == MU_OK) {
        rc = save_config_memory(&memory->config);
    }
    if (rc != MU_OK) {
        return rc;
    }
    if (disk->config.depot && t->crew.run->alone) {
        return run_fail(MU_EINVAL,
                        "the orchestrator keeps checkpoints of what `muster run` starts: "
                        "this process has no agent. Name a folder instead of '" SAVE_DEPOT "'");
    }
    if (t->heals) {
        disk->config.keep = MAX(disk->config.keep, HEAL_KEEP);
    }
    t->save_ms = clock_ms();
    for (int i = 0; rc == MU_OK && i < SAVES_N; i++) {
        struct saver *s = &t->savers[i];

        s->t = t;
        snprintf(s->job, sizeof(s->job), "%s", t->crew.run->life.job);
        find_folder(t->crew.run, s);
        rc = saver_open(s, t->what.state.n);
        for (uint32_t p = 0; s->open && p < s->copy.parts_n; p++) {
            strcpy(s->copy.parts[p].name, t->what.state.parts[p].name);
        }
    }
    check_room(t, memory);
    return rc == MU_OK ? rc : run_fail(rc, "no memory for checkpoints");
}

void train_save_close(struct train *t, uint64_t wait_ms)
{
    for (int i = 0; i < SAVES_N; i++) {
        saver_close(&t->savers[i], wait_ms);
    }
}

/* ---- the copy ---- */

/* This worker's part in it. */
struct share {
    uint32_t writer, writers_n;
    uint32_t shards_n;
    uint64_t lo, hi; /* bytes of the state */
};

/* Numbers of generations come again with another orchestrator; their keys do not. */
static void name_attempt(const struct train *t, const struct saver *s, uint32_t writers_n,
                         char tag[CKPT_TAG_MAX])
{
    const struct generation *g = &step_group(&t->crew.step)->g;
    const uint32_t mark = crc32c(0, g->key, sizeof(g->key));

    if (writers_n == 1) {
        snprintf(tag, CKPT_TAG_MAX, "w%" PRIx64, t->crew.run->life.worker);
    } else { /* Those who see the folder by another way, and take it for another one, have theirs.
              */
        snprintf(tag, CKPT_TAG_MAX, "%08" PRIx32 "-g%" PRIu64 "-f%" PRIx64, mark, g->number,
                 s->folder);
    }
}

struct ckpt_mark train_mark(const struct train *t, uint64_t step)
{
    struct ckpt_mark m = {.run = step_group(&t->crew.step)->g.run,
                          .generation = term_generation(step_term(&t->crew.step)),
                          .step = step,
                          .epoch = train_epoch(t, step),
                          .samples = t->samples_all,
                          .offset = t->what.shard.offset,
                          .seed = t->what.seed,
                          .data_n =
                              t->what.sharded ? t->what.shard.elements_n : t->what.walk.samples_n,
                          .batch = t->what.sharded ? 0 : t->what.walk.batch_n,
                          .slices = t->crew.run->config.slices,
                          .saved_ms = clock_wall_ms()};

    snprintf(m.job, sizeof(m.job), "%s", t->crew.run->life.job);
    return m;
}

/* Bytes [lo, hi) of the state. */
static void copy_range(const struct save_copy *c, uint64_t lo, uint64_t hi)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < c->parts_n && at < hi; i++) {
        const uint64_t end = at + c->parts[i].bytes;
        const uint64_t a = MAX(at, lo), b = MIN(end, hi);

        if (a < b) {
            memcpy(c->data + (a - lo), c->pieces[i].data + (a - at), b - a);
        }
        at = end;
    }
}

/* False: nothing of it is this worker's. */
static bool find_share(struct share *h, uint64_t bytes)
{
    const uint32_t chunks_n = ckpt_chunks(bytes);
    uint32_t first, end;

    h->shards_n = MIN(MIN(h->writers_n, MAX(chunks_n, 1)), (uint32_t)CKPT_SHARDS_MAX);
    if (h->writer >= h->shards_n) {
        return false;
    }
    ckpt_shard_chunks(chunks_n, h->shards_n, h->writer, &first, &end);
    h->lo = MIN(first * CKPT_CHUNK, bytes);
    h->hi = MIN(end * CKPT_CHUNK, bytes);
    return true;
}

/* Memory for the first copy is made before it is needed: new pages cost more than copying does. */
static void make_room(const struct train *t, enum save_place place, struct saver *s)
{
    const uint64_t generation = term_generation(step_term(&t->crew.step));
    struct share h;

    if (!s->open || s->room_generation == generation) {
        return;
    }
    s->room_generation = generation;
    if (step_writes(&t->crew.step, place, &h.writer, &h.writers_n) &&
        find_share(&h, known_bytes(t))) {
        saver_prepare(s, h.hi - h.lo);
    }
}

/* There is no later one: this is the state that all the work was for. */
bool train_is_last(const struct train *t, uint64_t step)
{
    const uint64_t steps_n = step_steps_n(&t->crew.step);

    return steps_n > 0 && step >= steps_n;
}

/* MU_OK: this worker's part is being written; MU_EAGAIN: it has none. Says why not. */
static int cut(struct train *t, struct saver *s, const struct step_todo *todo, struct share *h)
{
    struct save_copy *c = &s->copy;
    uint64_t bytes = 0;
    int rc;

    saver_take(s);
    rc = state_collect(&t->what.state, c->pieces);
    if (rc != MU_OK) {
        return rc;
    }
    for (uint32_t i = 0; i < c->parts_n; i++) {
        c->parts[i].bytes = c->pieces[i].bytes;
        bytes += c->pieces[i].bytes;
    }
    if (!find_share(h, bytes)) {
        return MU_EAGAIN;
    }
    if (saver_room(s, h->hi - h->lo) != MU_OK) {
        return run_fail(MU_ENOMEM, "no memory for a copy of %" PRIu64 " bytes", h->hi - h->lo);
    }
    copy_range(c, h->lo, h->hi);
    name_attempt(t, s, h->writers_n, c->tag);
    c->target = (struct ckpt_target){.dir = s->config.dir,
                                     .job = s->job,
                                     .step = todo->step,
                                     .tag = c->tag,
                                     .shards_n = h->shards_n,
                                     .bytes = bytes,
                                     .zstd = s->config.zstd};
    c->shard = h->writer;
    c->mark = train_mark(t, todo->step);
    saver_go(s);
    return MU_OK;
}

/* Said once. */
static void check_shared(const struct train *t, struct saver *s, enum save_place place)
{
    uint32_t far_n = 0;

    for (uint32_t r = 0; s->config.shared && r < step_size(&t->crew.step); r++) {
        far_n += !step_is_near(&t->crew.step, place, r);
    }
    if (far_n > 0) {
        log_warn(AREA,
                 "--ckpt-shared: %" PRIu32 " of %" PRIu32 " workers see another folder than this "
                 "one at %s, or none: each folder gets whole checkpoints. Give all nodes the same "
                 "one, or leave --ckpt-shared out",
                 far_n, step_size(&t->crew.step), s->config.dir);
        s->config.shared = false;
    }
}

void train_save(struct train *t, const struct step_todo *todo)
{
    struct saver *s = &t->savers[todo->place];
    struct share h = {.writers_n = 1, .shards_n = 1};
    const uint64_t began_us = clock_us();
    const bool writes =
        todo->alone || step_writes(&t->crew.step, todo->place, &h.writer, &h.writers_n);
    const int rc = writes ? cut(t, s, todo, &h) : MU_EAGAIN;

    check_shared(t, s, todo->place);
    if (rc != MU_OK && rc != MU_EAGAIN) {
        log_error(AREA, "step %" PRIu64 " is not saved: %s", todo->step, mu_error());
    }
    if (!s->config.memory) {
        t->save_ms = clock_ms();
        pthread_mutex_lock(&t->crew.run->lock);
        t->told.save_us = clock_us() - began_us;
        pthread_mutex_unlock(&t->crew.run->lock);
    }
    crew_event(&t->crew, (struct step_event){.kind = STEP_ON_CUT,
                                             .place = todo->place,
                                             .term = todo->term,
                                             .step = todo->step,
                                             .shards_n = h.shards_n,
                                             .how = rc == MU_OK || rc == MU_EAGAIN ? SAVE_WRITING
                                                                                   : SAVE_FAILED});
}

/* ---- what became of it ---- */

void train_save_news(struct train *t)
{
    struct attempt a;

    for (int i = 0; i < SAVES_N; i++) {
        if (t->savers[i].open && saver_news(&t->savers[i], &a)) {
            crew_event(&t->crew, (struct step_event){.kind = STEP_ON_SAVED,
                                                     .place = (enum save_place)i,
                                                     .step = a.step,
                                                     .generation = a.generation,
                                                     .how = a.how});
        }
    }
}

void train_save_ends(struct train *t, const struct step_effect *e)
{
    struct saver *s = &t->savers[e->place];
    const enum log_level level = s->config.memory ? LOG_DEBUG : LOG_WARN;

    if (e->kind == STEP_SAVED) {
        saver_end(s);
        return;
    }
    log_write(level, AREA, "step %" PRIu64 " is not saved: %s", e->step,
              e->unsaved == STEP_UNSAVED_BUSY   ? "the last one is still being written"
              : e->unsaved == STEP_UNSAVED_LOST ? "a worker that was to write it was lost"
                                                : "a worker that was to write it has failed");
    if (e->unsaved != STEP_UNSAVED_BUSY && s->copy.mark.step == e->step) {
        saver_abandon(s);
    }
}

/* ---- when ---- */

/* By the clock one decides for all; anybody may ask. */
void train_save_ahead(struct train *t)
{
    const struct saver *disk = &t->savers[SAVE_DISK];
    const bool late = disk->config.every.ms > 0 && step_rank(&t->crew.step) == 0 &&
                      clock_ms() >= t->save_ms + disk->config.every.ms;

    for (int i = 0; i < SAVES_N; i++) {
        make_room(t, (enum save_place)i, &t->savers[i]);
    }
    if (disk->open && (atomic_exchange(&t->crew.run->save_wanted, false) || late)) {
        t->save_ms = clock_ms();
        crew_event(&t->crew, (struct step_event){.kind = STEP_ON_SAVE});
    }
}

int mu_checkpoint(mu_run *run)
{
    struct train *t;
    int rc = train_enter(run, &t);

    if (rc != MU_OK) {
        return rc;
    }
    if (t->savers[SAVE_DISK].open) {
        run->save_wanted = true; /* mu_next() looks. */
    } else {
        rc = run_fail(MU_EINVAL, "there is no folder for checkpoints: muster run --ckpt-dir DIR, "
                                 "MUSTER_CKPT_DIR or mu_config.ckpt_dir");
    }
    return call_exit(run, rc);
}
