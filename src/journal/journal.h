/* A journal of machines (core/record.h): what they hand out is made durable, then applied; what was
 * applied is replayed at the next open; and when the journal has grown, a snapshot of all machines
 * takes the place of its beginning.
 *
 * Order. Records are applied in the order of their appends, and each has its done() called right
 * after: MU_OK once it was applied, or why it will never be durable, after its machine has heard
 * that. A record that could not be queued is a failed write like any other, delivered in its turn;
 * until it has been, every record behind it fails too. Nothing is ever journaled after a lost
 * record that its machine still believes in.
 *
 * Snapshots need no quiet moment. Each machine has a shadow: a second instance that is fed from the
 * journal and told of no effects. When a snapshot is due, the shadow stays where it is, at the
 * fence, and is dumped in pieces while appends go on; records after the fence wait for it in
 * memory. Then it catches up. The log is cut with the last piece. A process that dies in between
 * finds the snapshot before, and the whole log after it.
 *
 * Records of up to JOURNAL_RECORD_MAX are stored in parts if need be: of one that is not whole when
 * the process dies nothing is left.
 *
 * One thread. Everything is called from outside of the callbacks, but for journal_append(). */
#ifndef JOURNAL_JOURNAL_H
#define JOURNAL_JOURNAL_H

#include "store/store.h"
#include "wire/record.h"

#define JOURNAL_MACHINES_MAX 8
#define JOURNAL_RECORD_MAX ((size_t)16 << 20)
#define JOURNAL_ERROR_MAX STORE_ERROR_MAX

struct journal;

struct journal_machine {
    struct machine_live live;
    void *shadow;              /* as new as the live one; NULL, of any: no snapshots are made */
    const struct codec *codec; /* NULL: record_codec */
};

struct journal_config {
    const char *url; /* store_open() */
    const struct journal_machine *machines;
    uint32_t machines_n;

    /* Something is to be polled: as for the store. */
    struct store_notify notify;

    /* A record was applied by all machines, live or in the replay. May be NULL, as may fenced. */
    void (*applied)(void *arg, const struct record *r, bool replayed);

    /* Somebody else writes the store now; why is a sentence. Nothing will be durable any more: the
     * process should end. Once. */
    void (*fenced)(void *arg, const char *why);
    void *arg;

    bool quiet;         /* nothing is logged: a simulator's */
    const char *limits; /* how much room the machines have, for the error at open; or NULL */

    /* A snapshot is due after so much, and after as much again as the last one had; 0: defaults. */
    uint32_t grown_records;
    uint32_t grown_bytes;
    uint32_t piece_bytes;
};

/* Opens and replays: the machines are new before, and what was durable after. All but the machines'
 * states is copied. Those are borrowed until close. On an error the states mean nothing, and error
 * says what happened and what to do. */
int journal_open(const struct journal_config *config, struct journal **j_out,
                 char error[JOURNAL_ERROR_MAX]);

/* Writes what is queued. Who waits for a record is not told. NULL is fine. */
void journal_close(struct journal *j);

/* How it went with a record, which is borrowed. fn may be NULL. */
struct journal_done {
    void (*fn)(void *arg, int status, const struct record *r);
    void *arg;
};

/* The record is copied. */
void journal_append(struct journal *j, const struct record *r, struct journal_done done);

/* Delivers what is done, and goes on with a snapshot. */
void journal_poll(struct journal *j, uint64_t now_ms);

/* The machines' own time. */
uint64_t journal_deadline(const struct journal *j);
void journal_tick(struct journal *j, uint64_t now_ms);

/* ---- looking in ---- */

struct journal_look {
    uint64_t seq, snapshot_seq; /* rows of the store */
    uint32_t pending_n;         /* records that wait to be written */
    uint64_t bytes;             /* of records since the last snapshot */
    uint64_t failed_n;          /* records that could not be written, ever */
    bool writable;              /* the last write succeeded */
    const char *error;          /* of the last failure; valid until the next poll */
};
struct journal_look journal_look(const struct journal *j);
const unsigned char *journal_id(const struct journal *j); /* the store's */

/* ---- for tests ---- */

struct store *journal_store(struct journal *j);
/* Frees it without its store, which is the caller's. */
struct store *journal_abandon(struct journal *j);
/* The next poll begins a snapshot if there is anything new, and none goes on. */
void journal_snapshot_now(struct journal *j);

#endif
