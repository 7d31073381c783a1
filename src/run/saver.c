/* The thread that writes: one copy at a time, which nobody touches meanwhile. Whatever goes wrong
 * here is said, and training goes on; what was saved before stays. */
#include "run/saver.h"
#include "base/thread.h"

#include "base/log.h"
#include "run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define AREA "checkpoint"

enum {
    LOOK_MS = 2,          /* between looks for what the others have written, at first … */
    LOOK_MS_MAX = 200,    /* … and later */
    LOST_MS = 3000,       /* so long for those who live, when somebody was lost; training does not
                           * wait for that, unless it is in memory: then there is no time at all */
    PATIENCE_MS = 120000, /* so long for anybody; */
    MEMORY_MS = 2000,     /* … this, where training waits for it; */
    PATIENCE_TIMES = 10,  /* … or so many times as long as this worker's own shard took */
    PUT_MS = 300000,      /* so long for an orchestrator that is away, with what it is to keep */
    KEEP_MIN = 2          /* there: the job may not know of the newest yet when all are lost */
};

/* ---- the copy's memory ---- */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static void forget_room(struct save_copy *c)
{
    if (c->cap > 0) {
        munmap(c->data, c->cap);
    }
    c->data = NULL;
    c->cap = 0;
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

static uint64_t patience_ms(const struct saver *s, uint64_t own_ms)
{
    return MAX((uint64_t)(s->config.memory ? MEMORY_MS : PATIENCE_MS), own_ms * PATIENCE_TIMES);
}

static void nap(uint64_t ms)
{
    struct timespec t = {.tv_sec = 0, .tv_nsec = (long)ms * 1000000};

    nanosleep(&t, NULL);
}

/* Until all shards are there. The others write at the same time, and may be slower; or gone. */
static int await_others(struct saver *s, uint64_t own_ms, struct ckpt_why *why)
{
    const struct save_copy *c = &s->copy;
    const uint64_t began_ms = run_now_ms();
    uint64_t look_ms = LOOK_MS, lost_ms = 0;

    for (;;) {
        uint32_t shard = 0;
        int rc = ckpt_gathered(&c->target, &shard, why);
        const uint64_t now_ms = run_now_ms();

        if (rc != MU_EAGAIN) {
            return rc;
        }
        if (lost_ms == 0 && atomic_load(&s->alone)) {
            lost_ms = now_ms;
        }
        if (atomic_load(&s->cancel) || now_ms - began_ms > patience_ms(s, own_ms) ||
            (lost_ms != 0 && now_ms - lost_ms >= (s->config.memory ? 0 : LOST_MS))) {
            snprintf(why->text, sizeof(why->text),
                     "shard %" PRIu32 " of %" PRIu32 " did not come: its writer %s", shard,
                     c->target.shards_n, lost_ms != 0 ? "may be lost" : "takes too long");
            return MU_EPEER;
        }
        nap(look_ms);
        look_ms = MIN(2 * look_ms, (uint64_t)LOOK_MS_MAX);
    }
}

static void log_saved(const struct saver *s, uint64_t began_ms)
{
    const struct save_copy *c = &s->copy;

    log_info(AREA, "step %" PRIu64 " is saved: %s/%s, %.1f MB in %.2f s, by %" PRIu32 " worker%s",
             c->mark.step, s->config.dir, s->job, (double)c->target.bytes / 1e6,
             (double)(run_now_ms() - began_ms) / 1e3, c->target.shards_n,
             c->target.shards_n > 1 ? "s" : "");
}

/* There is one more now. */
static void settle(struct saver *s, uint64_t began_ms)
{
    const struct save_copy *c = &s->copy;
    struct ckpt_why why;

    if (s->config.memory) {
        log_debug(AREA, "step %" PRIu64 " is in memory", c->mark.step);
    } else {
        log_saved(s, began_ms);
    }
    if (s->config.depot) {
        return; /* Old ones are gone already. */
    }
    if (ckpt_prune(s->config.dir, s->job, c->mark.step, s->config.keep, s->config.keep_every,
                   c->tag, &why) != MU_OK) {
        log_warn(AREA, "old checkpoints stay: %s", why.text);
    }
}

/* The first of the writers ends what all have begun. */
static int write_files(struct saver *s, uint64_t began_ms, struct ckpt_why *why)
{
    const struct save_copy *c = &s->copy;
    int rc = ckpt_write_shard(&c->target, c->shard, c->data, &s->cancel, why);

    if (rc == MU_OK && c->shard == 0) {
        rc = await_others(s, run_now_ms() - began_ms, why);
        if (rc == MU_OK) {
            rc = ckpt_commit(&c->target, &c->mark, c->parts, c->parts_n, why);
        }
    }
    if (rc != MU_OK && c->shard == 0) {
        ckpt_abandon(&c->target);
    }
    return rc;
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
    struct agent_line line;
    struct depot_line hooks;
    struct depot *d;
    int rc;

    agent_line_init(&line, s->place);
    hooks = agent_line_hooks(&line, PUT_MS);
    rc = depot_open(&hooks, &d);
    if (rc == MU_OK) {
        depot_cancel(d, &s->cancel);
        rc = depot_put(d, &copy, why);
        depot_close(d);
    }
    agent_line_close(&line);
    return rc;
}

static bool write_copy(struct saver *s)
{
    const struct save_copy *c = &s->copy;
    const uint64_t began_ms = run_now_ms();
    struct ckpt_why why = {.text = ""};
    int rc = s->config.depot ? put_away(s, &why) : write_files(s, began_ms, &why);

    if (rc == MU_OK) {
        if (c->shard == 0) {
            settle(s, began_ms);
        }
        return true;
    }
    log_write(s->config.memory ? LOG_INFO : LOG_ERROR, AREA,
              "step %" PRIu64 " is not saved: %s. Training goes on, and what was saved before is "
              "kept",
              c->mark.step, why.text[0] != '\0' ? why.text : mu_strerror(rc));
    return false;
}

/* ---- the thread ---- */

/* Whoever hears that it is saved can have the next one saved: that is told last. */
static void work(struct saver *s)
{
    const size_t room = s->prepare;
    const uint64_t step = s->copy.mark.step;
    const bool tells = s->copy.shard == 0 && s->on_saved != NULL;
    bool kept = false;

    pthread_mutex_unlock(&s->lock);
    if (room > 0) {
        (void)saver_room(s, room); /* If there is none, that is said when it is needed. */
    } else {
        kept = write_copy(s);
    }
    pthread_mutex_lock(&s->lock);
    s->busy = false;
    s->prepare = 0;
    s->kept = kept ? step : s->kept;
    s->telling = kept && tells;
    pthread_cond_broadcast(&s->changed);
    if (s->telling) {
        pthread_mutex_unlock(&s->lock);
        s->on_saved(s->arg, step);
        pthread_mutex_lock(&s->lock);
        s->telling = false;
        pthread_cond_broadcast(&s->changed);
    }
}

static void *write_copies(void *arg)
{
    struct saver *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->busy) {
            work(s);
        } else {
            pthread_cond_wait(&s->changed, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int saver_open(struct saver *s)
{
    pthread_condattr_t attr;

    if (s->config.dir[0] == '\0') {
        return MU_OK;
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    s->open = true;
    s->has_thread = thread_start(&s->thread, write_copies, s) == MU_OK;
    if (!s->has_thread) {
        saver_close(s, 0);
        return MU_ENOMEM;
    }
    return MU_OK;
}

void saver_close(struct saver *s, uint64_t wait_ms)
{
    const uint64_t due_ms = run_now_ms() + wait_ms;
    const struct timespec due = {.tv_sec = (time_t)(due_ms / 1000),
                                 .tv_nsec = (long)(due_ms % 1000 * 1000000)};

    if (!s->open) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    while (s->has_thread && s->busy && pthread_cond_timedwait(&s->changed, &s->lock, &due) == 0) {
    }
    s->stop = true;
    atomic_store(&s->cancel, true);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread) {
        pthread_join(s->thread, NULL);
    }
    forget_room(&s->copy);
    free(s->copy.parts);
    s->copy.parts = NULL;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    s->open = s->has_thread = false;
}

/* ---- from one to the other ---- */

bool saver_take(struct saver *s, bool wait)
{
    bool taken;

    pthread_mutex_lock(&s->lock);
    while ((s->busy && (wait || s->prepare > 0)) || (s->telling && wait)) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    taken = !s->busy;
    pthread_mutex_unlock(&s->lock);
    return taken;
}

void saver_drop(struct saver *s)
{
    if (s->open) {
        atomic_store(&s->cancel, true);
        (void)saver_take(s, true);
        atomic_store(&s->cancel, false);
    }
}

static void wake(struct saver *s, size_t prepare)
{
    pthread_mutex_lock(&s->lock);
    s->busy = true;
    s->prepare = prepare;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void saver_go(struct saver *s)
{
    atomic_store(&s->alone, false);
    wake(s, 0);
}

void saver_prepare(struct saver *s, size_t bytes)
{
    if (saver_take(s, false) && bytes > s->copy.cap) {
        wake(s, bytes);
    }
}
