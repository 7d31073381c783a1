/* What a store is made of: the owner's half (store.c), which checks, copies, counts and delivers,
 * and a backend, which makes durable. Included by backends only. */
#ifndef STORE_BACKEND_H
#define STORE_BACKEND_H

#include "store/store.h"

/* One append (a single record) or one piece of a snapshot (any number), with its bytes behind it.
 */
struct store_op {
    struct store_op *next;
    uint64_t cookie;
    uint64_t epoch; /* failures the owner knew of when it queued this; see store_op_doomed() */
    uint64_t seq;   /* snapshot: upto. append: set by the backend */
    int status;     /* set by the backend */
    bool is_snapshot;
    bool first, last; /* of the pieces of a snapshot */
    size_t bytes;
    size_t records_n;
    struct store_bytes records[];
};

/* First in, first out. */
struct store_list {
    struct store_op *first;
    struct store_op *last;
};

void store_list_push(struct store_list *list, struct store_op *op);
struct store_op *store_list_pop(struct store_list *list);             /* NULL when empty */
void store_list_move(struct store_list *to, struct store_list *from); /* to the end; empties from */
void store_list_free(struct store_list *list);

/* True when an append was queued before the owner had heard of the backend's last failed append,
 * whose epoch is failed_epoch: it must fail without being written. */
bool store_op_doomed(const struct store_op *op, uint64_t failed_epoch);

struct store_backend {
    /* Takes the op, which is given. Must not fail; may finish it later, on any thread. */
    void (*submit)(struct store *st, struct store_op *op);

    /* Moves all finished ops, in the order of their submits, to the end of done, and the text of
     * the last failure among them, if any, to st->error. */
    void (*take)(struct store *st, struct store_list *done);

    /* Returns when every submitted op can be taken. */
    void (*flush)(struct store *st);

    /* Finishes what was submitted, frees everything, the store included. */
    void (*close)(struct store *st);
};

/* The owner's half; first member of every backend's own struct. Only the owner's thread uses it. */
struct store {
    const struct store_backend *backend;
    unsigned char id[STORE_ID_BYTES];
    uint64_t seq;          /* last delivered */
    uint64_t snapshot_seq; /* last delivered */
    uint64_t epoch;        /* begins at 1 */
    size_t queued_bytes;
    bool snapshotting; /* a piece is queued and not yet delivered */
    uint64_t piecing;  /* the pieces so far are of the snapshot up to here; 0: there are none */
    bool polling;
    char error[STORE_ERROR_MAX];
};

/* For a backend's open, once it knows what it has replayed. */
void store_init(struct store *st, const struct store_backend *backend, const unsigned char *id,
                uint64_t seq, uint64_t snapshot_seq);

#endif
