/* A durable journal of records, and a snapshot that stands for its beginning.
 *
 * A record is an opaque string of at most STORE_RECORD_MAX bytes. Records are numbered from 1
 * without gaps. A snapshot "up to n" is a list of records that stands for records 1..n; the journal
 * then begins at n + 1. Opening a store replays the newest snapshot, then the records after it.
 *
 * Threads. One thread owns a store and makes every call. A backend may write on a thread of its
 * own; that thread calls nothing of the owner's but `notify`.
 *
 * URLs. "sqlite:DIR": in a directory (store/sqlite.h). What comes before the colon names the
 * backend.
 *
 * Ownership. Bytes and lists passed in are borrowed for the call; what must outlive it is copied.
 * Bytes passed to callbacks are borrowed from the store for the callback.
 *
 * Order. Completions come in the order of the calls, and only from store_poll(). An append that
 * fails takes with it every append queued behind it until its failure has been delivered, so that
 * no record is ever journaled after a lost one that its owner still believed in. From the callback
 * that delivers the failure on, appends count again. A snapshot that fails changes nothing and
 * fails nothing else.
 *
 * Fenced. MU_ESTALE in a completion: somebody else writes this store now, for good. Nothing that
 * this owner holds is worth anything any more; store_error() says who, and the process should end.
 *
 * Durability. MU_OK in a completion means that the record survives kill -9 and loss of power, on
 * disks that keep what they report as synced. After either, store open gives back, byte by byte
 * and in order, all records that were completed with MU_OK, then possibly some that were queued
 * but never completed, and nothing else. A record completed with an error is in the journal no
 * more and its number is used again; only when the process ends before its next append succeeds
 * may replay still show it. If anything else happened to the files, so that an acknowledged record
 * is missing or different, open refuses. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/base.h"

#define STORE_RECORD_MAX ((size_t)1 << 20)
#define STORE_PIECE_MAX ((size_t)64 << 20) /* all records of one piece of a snapshot together */
#define STORE_QUEUE_MAX ((size_t)64 << 20) /* appends not yet delivered by store_poll() */
#define STORE_ERROR_MAX 1536
#define STORE_ID_BYTES 16

struct store;

struct store_bytes {
    const void *data;
    size_t n;
};

/* Who receives the past at open. A status other than MU_OK ends the open with that status. When an
 * open fails, whatever was replayed until then means nothing and is to be thrown away. */
struct store_replay {
    void *arg;

    /* One record of the newest snapshot, in order. Not called when there is none. */
    int (*snapshot)(void *arg, const void *data, size_t n);

    /* One record after the snapshot; seq goes up by one from call to call. */
    int (*record)(void *arg, uint64_t seq, const void *data, size_t n);
};

/* Called when store_poll() has something to deliver, from any thread, also during store_close().
 * It may only pass the word on, as by uv_async_send(). fn may be NULL. */
struct store_notify {
    void (*fn)(void *arg);
    void *arg;
};

/* One append or piece is done. seq: the record's number, or what the snapshot stands for; 0 on
 * failure, of which store_error() has the text. May append and snapshot; may not poll or close. */
typedef void store_done_fn(void *arg, uint64_t cookie, int status, uint64_t seq);

/* Queues a record; data is copied. MU_ELIMIT: longer than STORE_RECORD_MAX. MU_EAGAIN: the queue is
 * full; poll first. On an error nothing is queued and no completion follows. */
int store_append(struct store *st, const void *data, size_t n, uint64_t cookie);

/* Opens the store that the URL names, or makes it, and replays it. Everything is borrowed for the
 * call, *store_out is the caller's. On an error *store_out is untouched and error says what
 * happened and what to do. MU_EINVAL: no such URL. The rest is the backend's. */
int store_open(const char *url, const struct store_replay *replay,
               const struct store_notify *notify, struct store **store_out,
               char error[STORE_ERROR_MAX]);

/* One more backend than those that are built in: `rest` is what follows the colon. For tests;
 * before any store is opened. The scheme is borrowed for ever. */
struct store_scheme {
    const char *name;
    int (*open)(const char *rest, const struct store_replay *replay,
                const struct store_notify *notify, struct store **store_out,
                char error[STORE_ERROR_MAX]);
};
void store_scheme_add(const struct store_scheme *scheme);

/* Queues a piece of a snapshot that stands for records 1..upto, while appends go on. The last piece
 * makes it count and drops those records from the journal, both or neither; until then it is as if
 * there was nothing of it. A piece that fails takes with it those before it: the next begins anew.
 * So does one with another upto. The list and its bytes are copied. upto: more than the last
 * snapshot's, at most store_seq(); otherwise MU_EINVAL. MU_EAGAIN: the piece before is not yet
 * delivered. MU_ELIMIT: over STORE_RECORD_MAX or STORE_PIECE_MAX. */
int store_snapshot(struct store *st, uint64_t upto, const struct store_bytes *records, size_t n,
                   bool last, uint64_t cookie);

/* Delivers the completions there are, without waiting; returns how many. */
size_t store_poll(struct store *st, store_done_fn *done, void *arg);

/* Waits until all that was queued is done, well or badly. Deliver with store_poll(). */
void store_flush(struct store *st);

/* Writes what is queued, then frees the store. Completions not yet delivered are dropped: flush and
 * poll first to learn them. NULL is fine. */
void store_close(struct store *st);

/* The last record that replay or store_poll() has shown; 0 if there is none. */
uint64_t store_seq(const struct store *st);

/* What the newest known snapshot stands for; 0 if there is none. */
uint64_t store_snapshot_seq(const struct store *st);

/* STORE_ID_BYTES random bytes, made with the store and never changed. */
const unsigned char *store_id(const struct store *st);

/* What went wrong last and what to do about it; "" if nothing did. Valid until the next poll. */
const char *store_error(const struct store *st);

#endif
