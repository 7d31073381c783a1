/* The store on SQLite: a queue, and a thread that empties it into the journal.
 *
 * The thread takes all that is queued, writes each run of appends in one transaction and each
 * snapshot in its own, and hands everything back in order. While it writes, more gathers: the
 * slower the disk, the larger the groups.
 *
 * Under the lock: queue, done, error, busy, stop. The journal and failed_epoch belong to the thread
 * alone, from the end of open to the join in close. */
#include "store/sqlite.h"
#include "base/log.h"
#include "store/backend.h"
#include "store/rows.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sqlite_store {
    struct store base;
    struct rows rows;
    struct store_notify notify;
    uint64_t failed_epoch;
    bool failing; /* the last write did; for the log */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work; /* queue or stop changed */
    pthread_cond_t idle; /* queue is empty and nothing is being written */
    struct store_list queue;
    struct store_list done;
    bool busy;
    bool stop;
    char error[STORE_ERROR_MAX];
};

static struct sqlite_store *sqlite_of(struct store *st)
{
    return (struct sqlite_store *)st;
}

static void submit(struct store *st, struct store_op *op)
{
    struct sqlite_store *s = sqlite_of(st);

    pthread_mutex_lock(&s->lock);
    store_list_push(&s->queue, op);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static void take(struct store *st, struct store_list *done)
{
    struct sqlite_store *s = sqlite_of(st);

    pthread_mutex_lock(&s->lock);
    store_list_move(done, &s->done);
    if (s->error[0]) {
        memcpy(st->error, s->error, sizeof(st->error));
        s->error[0] = 0;
    }
    pthread_mutex_unlock(&s->lock);
}

static void flush(struct store *st)
{
    struct sqlite_store *s = sqlite_of(st);

    pthread_mutex_lock(&s->lock);
    while (s->queue.first || s->busy) {
        pthread_cond_wait(&s->idle, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Says a change between working and failing once, not with every record. */
static void log_outcome(struct sqlite_store *s, int status)
{
    if (status != MU_OK && !s->failing) {
        log_error("store", "%s", s->rows.error);
    } else if (status == MU_OK && s->failing) {
        log_info("store", "%s: writing works again", s->rows.db_path);
    }
    s->failing = status != MU_OK;
}

static void finish(struct sqlite_store *s, struct store_op *first, size_t n, int status)
{
    log_outcome(s, status);
    for (size_t i = 0; i < n; i++, first = first->next) {
        first->status = status;
    }
}

/* Writes the run of appends at the front of the list; returns how many ops that were. */
static size_t write_appends(struct sqlite_store *s, struct store_op *first)
{
    uint64_t epoch = 0;
    size_t n = 0;
    int status;

    for (struct store_op *op = first;
         op && !op->is_snapshot && !store_op_doomed(op, s->failed_epoch); op = op->next) {
        epoch = op->epoch;
        n++;
    }
    status = rows_append(&s->rows, first, n);
    if (status != MU_OK) {
        s->failed_epoch = epoch;
    }
    finish(s, first, n, status);
    return n;
}

/* All ops of the list get their status. */
static void write_list(struct sqlite_store *s, struct store_op *op)
{
    size_t n;

    while (op) {
        if (store_op_doomed(op, s->failed_epoch)) {
            op->status = MU_EIO; /* and the text of the failure before it */
            n = 1;
        } else if (op->is_snapshot) {
            finish(s, op, 1, rows_snapshot(&s->rows, op));
            n = 1;
        } else {
            n = write_appends(s, op);
        }
        for (; n > 0; n--) {
            op = op->next;
        }
    }
}

/* With the lock held on entry and exit; writes without it. */
static void write_batch(struct sqlite_store *s)
{
    struct store_list batch = {0};

    store_list_move(&batch, &s->queue);
    s->busy = true;
    pthread_mutex_unlock(&s->lock);
    s->rows.error[0] = 0;
    write_list(s, batch.first);

    pthread_mutex_lock(&s->lock);
    store_list_move(&s->done, &batch);
    if (s->rows.error[0]) {
        memcpy(s->error, s->rows.error, sizeof(s->error));
    }
    pthread_mutex_unlock(&s->lock);
    if (s->notify.fn) {
        s->notify.fn(s->notify.arg);
    }
    rows_checkpoint(&s->rows); /* Nobody waits for it. */

    pthread_mutex_lock(&s->lock);
    s->busy = false;
    if (!s->queue.first) {
        pthread_cond_broadcast(&s->idle);
    }
}

static void *writer(void *arg)
{
    struct sqlite_store *s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->queue.first && !s->stop) {
            pthread_cond_wait(&s->work, &s->lock);
        }
        if (!s->queue.first) {
            break;
        }
        write_batch(s);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void close_store(struct store *st)
{
    struct sqlite_store *s = sqlite_of(st);

    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    rows_close(&s->rows);
    store_list_free(&s->queue);
    store_list_free(&s->done);
    pthread_cond_destroy(&s->idle);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const struct store_backend sqlite_backend = {
    .submit = submit,
    .take = take,
    .flush = flush,
    .close = close_store,
};

int store_sqlite_open(const struct store_sqlite_config *config, const struct store_replay *replay,
                      struct store **store_out, char error[STORE_ERROR_MAX])
{
    struct sqlite_store *s = calloc(1, sizeof(*s));
    int rc;

    if (!s) {
        snprintf(error, STORE_ERROR_MAX, "can't open %s: out of memory", config->dir);
        return MU_ENOMEM;
    }
    rc = rows_open(&s->rows, config, replay);
    if (rc != MU_OK) {
        memcpy(error, s->rows.error, STORE_ERROR_MAX);
        free(s);
        return rc;
    }
    store_init(&s->base, &sqlite_backend, s->rows.id, s->rows.seq, s->rows.snapshot_seq);
    s->notify = config->notify;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->idle, NULL);
    if (pthread_create(&s->thread, NULL, writer, s) != 0) {
        snprintf(error, STORE_ERROR_MAX, "can't open %s: no thread to be had", config->dir);
        rows_close(&s->rows);
        pthread_cond_destroy(&s->idle);
        pthread_cond_destroy(&s->work);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return MU_ENOMEM;
    }
    *store_out = &s->base;
    return MU_OK;
}

int store_sqlite_scheme(const char *dir, const struct store_replay *replay,
                        const struct store_notify *notify, struct store **store_out,
                        char error[STORE_ERROR_MAX])
{
    struct store_sqlite_config config = {.dir = dir, .notify = *notify};

    return store_sqlite_open(&config, replay, store_out, error);
}
