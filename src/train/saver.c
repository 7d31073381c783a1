/* The thread that writes: one copy at a time, which nobody touches meanwhile. Whatever goes wrong
 * here is said, and training goes on; what was saved before stays. It waits for nobody but the
 * disk, or the orchestrator. */
#include "base/log.h"
#include "base/thread.h"
#include "train/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA "checkpoint"

enum {
    PUT_MS = 300000, /* so long for an orchestrator that is away, with what it is to keep */
    KEEP_MIN = 2     /* there: the job may not know of the newest yet when all are lost */
};

/* ---- the copy's memory ---- */

static void forget_room(struct save_copy *c)
{
    if (c->cap > 0) {
        munmap(c->data, c->cap);
    }
    c->data = NULL;
    c->cap = 0;
}

static void forget_copy(struct save_copy *c)
{
    forget_room(c);
    free(c->parts);
    free(c->pieces);
    c->parts = NULL;
    c->pieces = NULL;
}

int saver_room(struct saver *s, size_t bytes)
{
    struct save_copy *c = &s->copy;
    const size_t huge = (size_t)2 << 20, cap = (bytes + huge - 1) / huge * huge;
    void *data;

    if (bytes <= c->cap) {
        return MU_OK;
    }
    forget_room(c);
    data = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        return MU_ENOMEM;
    }
    (void)madvise(data, cap, MADV_HUGEPAGE);
    if (madvise(data, cap, MADV_POPULATE_WRITE) != 0 && errno == ENOMEM) {
        munmap(data, cap);
        return MU_ENOMEM;
    }
    c->data = data;
    c->cap = cap;
    return MU_OK;
}

/* ---- writing ---- */

/* There is one more now: older ones can go. The orchestrator has seen to that already. */
static void prune(const struct saver *s)
{
    const struct save_copy *c = &s->copy;
    struct ckpt_why why;

    if (s->config.memory) {
        log_debug(AREA, "step %" PRIu64 " is in memory", c->mark.step);
    } else {
        log_info(AREA,
                 "step %" PRIu64 " is saved: %s/%s, %.1f MB in %.2f s, by %" PRIu32 " worker%s",
                 c->mark.step, s->config.dir, s->job, (double)c->target.bytes / 1e6,
                 (double)(clock_ms() - s->began_ms) / 1e3, c->target.shards_n,
                 c->target.shards_n > 1 ? "s" : "");
    }
    if (!s->config.depot && ckpt_prune(s->config.dir, s->job, c->mark.step, s->config.keep,
                                       s->config.keep_every, c->tag, &why) != MU_OK) {
        log_warn(AREA, "old checkpoints stay: %s", why.text);
    }
}

/* A line that breaks is made again, and it goes on where it was. */
static int put_away(struct saver *s, struct ckpt_why *why)
{
    const struct save_copy *c = &s->copy;
    const struct depot_copy copy = {.mark = &c->mark,
                                    .parts = c->parts,
                                    .parts_n = c->parts_n,
                                    .data = c->data,
                                    .bytes = c->target.bytes,
                                    .zstd = s->config.zstd,
                                    .keep = MAX(s->config.keep, KEEP_MIN),
                                    .keep_every = s->config.keep_every};
    struct shelf f;
    int rc = shelf_open(&f, s, PUT_MS);

    if (rc == MU_OK) {
        depot_cancel(f.depot, &s->cancel);
        rc = depot_put(f.depot, &copy, why);
    }
    shelf_close(&f);
    return rc;
}

static int write_files(struct saver *s, bool shard, bool end, struct ckpt_why *why)
{
    const struct save_copy *c = &s->copy;
    int rc = shard ? ckpt_write_shard(&c->target, c->shard, c->data, &s->cancel, why) : MU_OK;

    if (rc == MU_OK && end) {
        rc = ckpt_commit(&c->target, &c->mark, c->parts, c->parts_n, why);
    }
    if (rc != MU_OK && c->shard == 0) {
        ckpt_abandon(&c->target);
    }
    return rc;
}

/* In memory there is another one with each step: it is said when it begins. */
static void say_failed(const struct saver *s, const char *why)
{
    const uint64_t step = s->copy.mark.step;

    if (!s->config.memory) {
        log_error(AREA, "step %" PRIu64 " is not saved: %s. What was saved before is kept", step,
                  why);
    } else if (train_unkept(s->t, true)) {
        log_warn(AREA, "from step %" PRIu64 " on the state is not kept in memory: %s", step, why);
    }
}

/* This worker's shard, the end of the checkpoint, or, if it is the only writer, both. */
static void write_copy(struct saver *s, bool shard)
{
    const struct save_copy *c = &s->copy;
    const bool whole = !shard || s->config.depot || c->target.shards_n == 1;
    struct ckpt_why why = {.text = ""};
    int rc = s->config.depot ? put_away(s, &why) : write_files(s, shard, whole, &why);

    if (rc != MU_OK && !atomic_load(&s->cancel)) {
        say_failed(s, why.text[0] != '\0' ? why.text : mu_strerror(rc));
    } else if (rc == MU_OK && s->config.memory) {
        (void)train_unkept(s->t, false);
    }
    pthread_mutex_lock(&s->lock);
    s->news = rc != MU_OK ? SAVE_FAILED : whole ? SAVE_WHOLE : SAVE_DURABLE;
    pthread_mutex_unlock(&s->lock);
    crew_wake(&s->t->crew);
    if (rc == MU_OK && whole) {
        prune(s);
    }
    if (rc == MU_OK && whole && !s->config.memory) {
        train_saved(s->t, c->mark.step);
    }
}

/* ---- the thread ---- */

static void do_work(struct saver *s, enum saver_work work)
{
    if (work == SAVER_PREPARE) {
        (void)saver_room(s, s->prepare); /* If there is none, that is said when it is needed. */
    } else if (work == SAVER_ABANDON) {
        ckpt_abandon(&s->copy.target);
    } else {
        write_copy(s, work == SAVER_WRITE);
    }
}

static bool rests(const struct saver *s)
{
    return s->work == SAVER_REST && !s->abandon;
}

static void *write_copies(void *arg)
{
    struct saver *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stop || s->abandon) {
        if (rests(s)) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        if (s->work == SAVER_REST) { /* What was to be written has been told of. */
            s->work = SAVER_ABANDON;
            s->abandon = false;
        }
        pthread_mutex_unlock(&s->lock);
        do_work(s, s->work);
        pthread_mutex_lock(&s->lock);
        s->work = SAVER_REST;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int saver_open(struct saver *s, uint32_t parts_n)
{
    struct save_copy *c = &s->copy;

    if (s->config.dir[0] == '\0') {
        return MU_OK;
    }
    pthread_mutex_init(&s->lock, NULL);
    thread_condition(&s->changed);
    s->stop = false;
    atomic_store(&s->cancel, false);
    c->parts_n = parts_n;
    c->parts = calloc(MAX(parts_n, 1), sizeof(*c->parts));
    c->pieces = calloc(MAX(parts_n, 1), sizeof(*c->pieces));
    s->open =
        c->parts != NULL && c->pieces != NULL && thread_start(&s->thread, write_copies, s) == MU_OK;
    if (!s->open) {
        forget_copy(c);
    }
    return s->open ? MU_OK : MU_ENOMEM;
}

void saver_close(struct saver *s, uint64_t wait_ms)
{
    const uint64_t due_ms = clock_ms() + wait_ms;

    if (!s->open) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    while (!rests(s) && thread_wait(&s->changed, &s->lock, due_ms)) {
    }
    s->stop = true;
    atomic_store(&s->cancel, true);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    forget_copy(&s->copy);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    s->open = false;
}

/* ---- from one to the other ---- */

void saver_take(struct saver *s)
{
    pthread_mutex_lock(&s->lock);
    while (!rests(s)) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

void saver_drop(struct saver *s)
{
    if (s->open) {
        atomic_store(&s->cancel, true);
        saver_take(s);
    }
}

static void wake(struct saver *s, enum saver_work work)
{
    pthread_mutex_lock(&s->lock);
    s->work = work;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void saver_go(struct saver *s)
{
    atomic_store(&s->cancel, false);
    s->began_ms = clock_ms();
    wake(s, SAVER_WRITE);
}

void saver_end(struct saver *s)
{
    saver_take(s); /* It has told of its shard, and has nothing else to do. */
    wake(s, SAVER_END);
}

/* The first writer takes away all of it; it alone can know that nobody ends it. */
void saver_abandon(struct saver *s)
{
    atomic_store(&s->cancel, true);
    if (s->copy.shard == 0 && !s->config.depot) {
        pthread_mutex_lock(&s->lock);
        s->abandon = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
}

bool saver_news(struct saver *s, struct attempt *attempt_out)
{
    pthread_mutex_lock(&s->lock);
    *attempt_out = (struct attempt){
        .step = s->copy.mark.step, .generation = s->copy.mark.generation, .how = s->news};
    s->news = SAVE_NONE;
    pthread_mutex_unlock(&s->lock);
    return attempt_out->how != SAVE_NONE;
}

void saver_prepare(struct saver *s, size_t bytes)
{
    pthread_mutex_lock(&s->lock);
    if (rests(s) && bytes > s->copy.cap) {
        s->work = SAVER_PREPARE;
        s->prepare = bytes;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}
