/* Appends per second that are durable, by how many are kept in flight: what group commit is worth.
 *
 * usage: bench_store [DIR]   a directory on the disk to measure; the current one if missing */
#include "bench.h"

#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD_BYTES 200
#define SECONDS 2.0

/* The loop's wake-up, as libuv's would be. */
struct waker {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool woken;
};

static void wake(void *arg)
{
    struct waker *w = arg;

    pthread_mutex_lock(&w->lock);
    w->woken = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static void wait_for(struct waker *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->woken) {
        pthread_cond_wait(&w->cond, &w->lock);
    }
    w->woken = false;
    pthread_mutex_unlock(&w->lock);
}

static int no_snapshot(void *arg, const void *data, size_t n)
{
    return MU_OK;
}

static int count_record(void *arg, uint64_t seq, const void *data, size_t n)
{
    *(uint64_t *)arg = seq;
    return MU_OK;
}

static void count_done(void *arg, uint64_t cookie, int status, uint64_t seq)
{
    mu_assert(status == MU_OK);
    ++*(uint64_t *)arg;
}

static struct store *open_in(const char *dir, struct waker *w, uint64_t *replayed)
{
    struct store_notify notify = {wake, w};
    struct store_replay replay = {replayed, no_snapshot, count_record};
    char error[STORE_ERROR_MAX], url[300];
    struct store *st = NULL;

    snprintf(url, sizeof(url), "sqlite:%s", dir);
    if (store_open(url, &replay, &notify, &st, error) != MU_OK) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
    return st;
}

static void remove_dir(const char *dir)
{
    static const char *const NAMES[] = {"", "-head", "-lock", "-wal"};
    char path[512];

    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        snprintf(path, sizeof(path), "%s/journal.db%s", dir, NAMES[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* Keeps depth appends in flight. */
static void measure_depth(const char *dir, uint64_t depth)
{
    struct waker w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    char record[RECORD_BYTES], name[64];
    uint64_t queued = 0, done = 0, replayed = 0;
    struct store *st = open_in(dir, &w, &replayed);
    double start = bench_now(), spent;

    memset(record, 'r', sizeof(record));
    do {
        for (; queued < done + depth; queued++) {
            mu_assert(store_append(st, record, sizeof(record), queued) == MU_OK);
        }
        wait_for(&w);
        store_poll(st, count_done, &done);
        spent = bench_now() - start;
    } while (spent < SECONDS);
    snprintf(name, sizeof(name), "append, %llu in flight", (unsigned long long)depth);
    bench_result(name, (double)done / spent, "records/s");
    store_close(st);
}

static void measure_open(const char *dir)
{
    struct waker w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    uint64_t replayed = 0;
    double start = bench_now();
    struct store *st = open_in(dir, &w, &replayed);

    bench_result("open and replay", (double)replayed / (bench_now() - start), "records/s");
    store_close(st);
}

int main(int argc, char **argv)
{
    static const uint64_t DEPTHS[] = {1, 64, 1024};
    char dir[256];

    snprintf(dir, sizeof(dir), "%s/bench-store-%d", argc > 1 ? argv[1] : ".", (int)getpid());
    bench_begin("store");
    for (size_t i = 0; i < ARRAY_LEN(DEPTHS); i++) {
        measure_depth(dir, DEPTHS[i]);
    }
    measure_open(dir);
    bench_end();
    remove_dir(dir);
    return 0;
}
