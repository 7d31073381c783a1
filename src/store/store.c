/* The owner's half of every store: bounds, copies, and delivery in order. See store.h. */
#include "store/backend.h"

#include <stdlib.h>
#include <string.h>

void store_list_push(struct store_list *list, struct store_op *op)
{
    op->next = NULL;
    if (list->last) {
        list->last->next = op;
    } else {
        list->first = op;
    }
    list->last = op;
}

struct store_op *store_list_pop(struct store_list *list)
{
    struct store_op *op = list->first;

    if (op) {
        list->first = op->next;
        if (!list->first) {
            list->last = NULL;
        }
        op->next = NULL;
    }
    return op;
}

void store_list_move(struct store_list *to, struct store_list *from)
{
    if (!from->first) {
        return;
    }
    if (to->last) {
        to->last->next = from->first;
    } else {
        to->first = from->first;
    }
    to->last = from->last;
    *from = (struct store_list){0};
}

void store_list_free(struct store_list *list)
{
    struct store_op *op;

    while ((op = store_list_pop(list))) {
        free(op);
    }
}

bool store_op_doomed(const struct store_op *op, uint64_t failed_epoch)
{
    return !op->is_snapshot && op->epoch <= failed_epoch;
}

void store_init(struct store *st, const struct store_backend *backend, const unsigned char *id,
                uint64_t seq, uint64_t snapshot_seq)
{
    *st = (struct store){.backend = backend, .seq = seq, .snapshot_seq = snapshot_seq, .epoch = 1};
    memcpy(st->id, id, STORE_ID_BYTES);
}

/* One allocation: the op, its list of records, their bytes. */
static struct store_op *op_new(const struct store_bytes *records, size_t n, size_t bytes)
{
    struct store_op *op;
    unsigned char *to;

    op = malloc(sizeof(*op) + n * sizeof(records[0]) + bytes);
    if (!op) {
        return NULL;
    }
    *op = (struct store_op){.bytes = bytes, .records_n = n};
    to = (unsigned char *)&op->records[n];
    for (size_t i = 0; i < n; i++) {
        op->records[i] = (struct store_bytes){to, records[i].n};
        if (records[i].n > 0) {
            memcpy(to, records[i].data, records[i].n);
        }
        to += records[i].n;
    }
    return op;
}

/* Empty records take room in the queue too. */
static size_t op_cost(size_t bytes)
{
    return sizeof(struct store_op) + sizeof(struct store_bytes) + bytes;
}

int store_append(struct store *st, const void *data, size_t n, uint64_t cookie)
{
    struct store_bytes record = {data, n};
    struct store_op *op;

    if (n > STORE_RECORD_MAX) {
        return MU_ELIMIT;
    }
    if (st->queued_bytes > STORE_QUEUE_MAX - op_cost(n)) {
        return MU_EAGAIN;
    }
    op = op_new(&record, 1, n);
    if (!op) {
        return MU_ENOMEM;
    }
    op->cookie = cookie;
    op->epoch = st->epoch;
    st->queued_bytes += op_cost(n);
    st->backend->submit(st, op);
    return MU_OK;
}

int store_snapshot(struct store *st, uint64_t upto, const struct store_bytes *records, size_t n,
                   bool last, uint64_t cookie)
{
    struct store_op *op;
    size_t bytes = 0;

    if (upto <= st->snapshot_seq || upto > st->seq) {
        return MU_EINVAL;
    }
    if (st->snapshotting) {
        return MU_EAGAIN;
    }
    if (n > STORE_PIECE_MAX / sizeof(records[0])) {
        return MU_ELIMIT;
    }
    for (size_t i = 0; i < n; i++) {
        if (records[i].n > STORE_RECORD_MAX || bytes + records[i].n > STORE_PIECE_MAX) {
            return MU_ELIMIT;
        }
        bytes += records[i].n;
    }
    op = op_new(records, n, bytes);
    if (!op) {
        return MU_ENOMEM;
    }
    op->cookie = cookie;
    op->is_snapshot = true;
    op->first = st->piecing != upto;
    op->last = last;
    op->seq = upto;
    st->snapshotting = true;
    st->backend->submit(st, op);
    return MU_OK;
}

/* Brings the owner's numbers up to date with one finished op. */
static void settle(struct store *st, struct store_op *op)
{
    if (op->is_snapshot) {
        st->snapshotting = false;
        st->piecing = op->status == MU_OK && !op->last ? op->seq : 0;
    } else {
        st->queued_bytes -= op_cost(op->bytes);
    }
    if (op->status != MU_OK) {
        op->seq = 0;
        if (!op->is_snapshot && op->epoch == st->epoch) {
            st->epoch++; /* The owner knows now: what it appends from here on counts. */
        }
    } else if (op->is_snapshot) {
        st->snapshot_seq = op->last ? op->seq : st->snapshot_seq;
    } else {
        mu_assert(op->seq == st->seq + 1);
        st->seq = op->seq;
    }
}

size_t store_poll(struct store *st, store_done_fn *done, void *arg)
{
    struct store_list list = {0};
    struct store_op *op;
    size_t n = 0;

    mu_assert(!st->polling);
    st->polling = true;
    st->backend->take(st, &list);
    while ((op = store_list_pop(&list))) {
        settle(st, op);
        done(arg, op->cookie, op->status, op->seq);
        free(op);
        n++;
    }
    st->polling = false;
    return n;
}

void store_flush(struct store *st)
{
    st->backend->flush(st);
}

void store_close(struct store *st)
{
    if (st) {
        mu_assert(!st->polling);
        st->backend->close(st);
    }
}

uint64_t store_seq(const struct store *st)
{
    return st->seq;
}

uint64_t store_snapshot_seq(const struct store *st)
{
    return st->snapshot_seq;
}

const unsigned char *store_id(const struct store *st)
{
    return st->id;
}

const char *store_error(const struct store *st)
{
    return st->error;
}
