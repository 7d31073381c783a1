/* The store in memory. The disk keeps the operations themselves: one list of durable appends, the
 * pieces of the snapshot and of one that does not count yet, and the ghosts of a failed write that
 * reached the disk. */
#include "lib/memory_store.h"
#include "store/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct store_disk {
    unsigned char id[STORE_ID_BYTES];
    uint64_t seq; /* last durable; ghosts not counted */
    struct store_list journal;
    struct store_list ghosts;
    struct store_list snapshot, pieces;
    uint64_t snapshot_seq;
    bool in_use;
};

struct memory_store {
    struct store base;
    struct store_disk *disk;
    struct store_notify notify;
    struct store_list queue;
    struct store_list done;
    size_t queue_n;
    uint64_t failed_epoch;
    int fail_status; /* of the next write; MU_OK: none */
    bool fail_kept;
    bool fenced;
    char error[STORE_ERROR_MAX];
};

static struct memory_store *memory_of(struct store *st)
{
    return (struct memory_store *)st;
}

struct store_disk *store_disk_new(const unsigned char id[STORE_ID_BYTES])
{
    struct store_disk *disk = calloc(1, sizeof(*disk));

    if (disk) {
        memcpy(disk->id, id, STORE_ID_BYTES);
    }
    return disk;
}

void store_disk_free(struct store_disk *disk)
{
    if (!disk) {
        return;
    }
    mu_assert(!disk->in_use);
    store_list_free(&disk->journal);
    store_list_free(&disk->ghosts);
    store_list_free(&disk->snapshot);
    store_list_free(&disk->pieces);
    free(disk);
}

/* The disk and the completion each need the op: this is the disk's copy. */
static struct store_op *op_copy(const struct store_op *op)
{
    size_t size = sizeof(*op) + op->records_n * sizeof(op->records[0]) + op->bytes;
    struct store_op *copy = malloc(size);
    const unsigned char *from = (const unsigned char *)&op->records[op->records_n];
    unsigned char *to;

    if (!copy) {
        return NULL;
    }
    memcpy(copy, op, size);
    copy->next = NULL;
    to = (unsigned char *)&copy->records[copy->records_n];
    for (size_t i = 0; i < copy->records_n; i++) {
        copy->records[i].data = to + ((const unsigned char *)op->records[i].data - from);
    }
    return copy;
}

static void submit(struct store *st, struct store_op *op)
{
    struct memory_store *ms = memory_of(st);

    store_list_push(&ms->queue, op);
    ms->queue_n++;
}

static int fail(struct memory_store *ms, int status, const char *what)
{
    snprintf(ms->error, sizeof(ms->error), "memory store: %s: %s", what, mu_strerror(status));
    return status;
}

/* A ghost is what a crash may show of a write that was reported as failed. Those of one write
 * replace those of the write before. */
static void keep_ghost(struct memory_store *ms, const struct store_op *op, bool is_first)
{
    struct store_op *copy = op_copy(op);

    if (is_first) {
        store_list_free(&ms->disk->ghosts);
    }
    mu_assert(copy); /* Only tests come here, and a ghost left out would make a hole. */
    store_list_push(&ms->disk->ghosts, copy);
}

static int write_append(struct memory_store *ms, struct store_op *op)
{
    struct store_op *copy = op_copy(op);

    if (!copy) {
        return fail(ms, MU_ENOMEM, "append");
    }
    store_list_free(&ms->disk->ghosts);
    op->seq = copy->seq = ++ms->disk->seq;
    store_list_push(&ms->disk->journal, copy);
    return MU_OK;
}

static int write_snapshot(struct memory_store *ms, const struct store_op *op)
{
    struct store_disk *disk = ms->disk;
    struct store_op *copy = op_copy(op);

    if (!copy) {
        return fail(ms, MU_ENOMEM, "snapshot");
    }
    if (op->first) {
        store_list_free(&disk->pieces);
    }
    store_list_push(&disk->pieces, copy);
    if (!op->last) {
        return MU_OK;
    }
    while (disk->journal.first && disk->journal.first->seq <= op->seq) {
        free(store_list_pop(&disk->journal));
    }
    store_list_free(&disk->snapshot);
    store_list_move(&disk->snapshot, &disk->pieces);
    disk->snapshot_seq = op->seq;
    return MU_OK;
}

static int write_op(struct memory_store *ms, struct store_op *op)
{
    return op->is_snapshot ? write_snapshot(ms, op) : write_append(ms, op);
}

/* One write, which an injected failure hits as a whole. Appends that are doomed before it begins
 * are no part of it and leave no ghosts: those would stand behind a hole. */
void store_memory_sync(struct store *st, size_t ops_max)
{
    struct memory_store *ms = memory_of(st);
    uint64_t doomed_epoch = ms->failed_epoch;
    int injected = ms->fail_status;
    bool ghosts = injected != MU_OK && ms->fail_kept;
    size_t n = 0;

    for (; n < ops_max && ms->queue.first; n++) {
        struct store_op *op = store_list_pop(&ms->queue);

        ms->queue_n--;
        if (ms->fenced) {
            op->status = fail(ms, MU_ESTALE, "another process writes this store now");
        } else if (store_op_doomed(op, doomed_epoch)) {
            op->status = fail(ms, MU_EIO, "an append before this one failed");
        } else if (injected != MU_OK) {
            op->status = fail(ms, injected, "injected");
        } else if (store_op_doomed(op, ms->failed_epoch)) {
            op->status = fail(ms, MU_ENOMEM, "an append before this one failed");
        } else {
            op->status = write_op(ms, op);
        }
        if (op->status != MU_OK && !op->is_snapshot) {
            if (ghosts && !store_op_doomed(op, doomed_epoch)) {
                keep_ghost(ms, op, ms->failed_epoch == doomed_epoch);
            }
            ms->failed_epoch = MAX(ms->failed_epoch, op->epoch);
        }
        store_list_push(&ms->done, op);
    }
    if (n > 0) {
        ms->fail_status = MU_OK;
        if (ms->notify.fn) {
            ms->notify.fn(ms->notify.arg);
        }
    }
}

static void take(struct store *st, struct store_list *done)
{
    struct memory_store *ms = memory_of(st);

    store_list_move(done, &ms->done);
    if (ms->error[0]) {
        memcpy(st->error, ms->error, sizeof(st->error));
        ms->error[0] = 0;
    }
}

static void flush(struct store *st)
{
    store_memory_sync(st, SIZE_MAX);
}

static void close_store(struct store *st)
{
    flush(st);
    store_memory_crash(st);
}

static const struct store_backend memory_backend = {
    .submit = submit,
    .take = take,
    .flush = flush,
    .close = close_store,
};

static int replay_disk(struct store_disk *disk, const struct store_replay *replay)
{
    struct store_op *op;
    int rc;

    /* The process that was told of the failure is gone: the disk has the last word. */
    while ((op = store_list_pop(&disk->ghosts))) {
        op->seq = ++disk->seq;
        store_list_push(&disk->journal, op);
    }
    for (op = disk->snapshot.first; op; op = op->next) {
        for (size_t i = 0; i < op->records_n; i++) {
            rc = replay->snapshot(replay->arg, op->records[i].data, op->records[i].n);
            if (rc != MU_OK) {
                return rc;
            }
        }
    }
    for (op = disk->journal.first; op; op = op->next) {
        rc = replay->record(replay->arg, op->seq, op->records[0].data, op->records[0].n);
        if (rc != MU_OK) {
            return rc;
        }
    }
    return MU_OK;
}

int store_memory_open(struct store_disk *disk, const struct store_replay *replay,
                      const struct store_notify *notify, struct store **store_out,
                      char error[STORE_ERROR_MAX])
{
    struct memory_store *ms;
    int rc;

    if (disk->in_use) {
        snprintf(error, STORE_ERROR_MAX, "the memory disk has an open store; close that first");
        return MU_EBUSY;
    }
    ms = calloc(1, sizeof(*ms));
    if (!ms) {
        snprintf(error, STORE_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    rc = replay_disk(disk, replay);
    if (rc != MU_OK) {
        snprintf(error, STORE_ERROR_MAX, "replay was stopped by its receiver: %s", mu_strerror(rc));
        free(ms);
        return rc;
    }
    store_init(&ms->base, &memory_backend, disk->id, disk->seq, disk->snapshot_seq);
    ms->disk = disk;
    ms->notify = notify ? *notify : (struct store_notify){0};
    disk->in_use = true;
    *store_out = &ms->base;
    return MU_OK;
}

static int open_disk(const char *rest, const struct store_replay *replay,
                     const struct store_notify *notify, struct store **store_out,
                     char error[STORE_ERROR_MAX])
{
    void *disk;

    mu_assert(sscanf(rest, "%p", &disk) == 1);
    return store_memory_open(disk, replay, notify, store_out, error);
}

size_t store_memory_pending(const struct store *st)
{
    return ((const struct memory_store *)st)->queue_n;
}

void store_memory_fail(struct store *st, int status, bool kept)
{
    struct memory_store *ms = memory_of(st);

    ms->fail_status = status;
    ms->fail_kept = kept;
}

void store_memory_fence(struct store *st)
{
    memory_of(st)->fenced = true;
}

void store_memory_url(struct store_disk *disk, char url[STORE_MEMORY_URL])
{
    static const struct store_scheme scheme = {"memory", open_disk};

    store_scheme_add(&scheme);
    snprintf(url, STORE_MEMORY_URL, "memory:%p", (void *)disk);
}

void store_memory_crash(struct store *st)
{
    struct memory_store *ms;

    if (!st) {
        return;
    }
    ms = memory_of(st);
    store_list_free(&ms->queue);
    store_list_free(&ms->done);
    ms->disk->in_use = false;
    free(ms);
}
