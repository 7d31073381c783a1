/* The journal on SQLite, without threads: what the store's thread does, one call at a time.
 *
 *   journal.c        life: files, lock, connection
 *   journal_error.c  what goes wrong with them
 *   journal_load.c   the past: verify and replay
 *   journal_write.c  appends, snapshots, checkpoints
 *
 * Invariant between calls: the head says (seq, chain), rows up to seq are in the database, and no
 * others are unless `unsure`. */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include "store/backend.h"
#include "store/head.h"
#include "store/sqlite.h"
#include "store/sum.h"

#include <sqlite3.h>

#define JOURNAL_DIR_MAX 400
#define JOURNAL_PATH_MAX (JOURNAL_DIR_MAX + 32)

enum journal_stmt {
    STMT_BEGIN,
    STMT_COMMIT,
    STMT_ROLLBACK,
    STMT_APPEND,
    STMT_CUT_TAIL,
    STMT_CUT_FRONT,
    STMT_CHAIN_AT,
    STMT_SNAPSHOT_CLEAR,
    STMT_SNAPSHOT_ADD,
    STMT_META_SET,
    STMT_N,
};

struct journal {
    char db_path[JOURNAL_PATH_MAX];
    char head_path[JOURNAL_PATH_MAX]; /* two zero bytes at its end: see head_open() */
    int lock_fd;                      /* -1: none */
    sqlite3 *db;
    sqlite3_stmt *stmts[STMT_N];
    struct head head;
    unsigned char id[STORE_ID_BYTES];
    uint64_t seq;
    struct sum chain; /* of record seq */
    uint64_t snapshot_seq;
    bool unsure;   /* a write failed: rows beyond seq and the head's slot may hold anything */
    bool ready;    /* opened: close folds the log into the database */
    int wal_pages; /* after the last commit */
    int checkpoint_pages;
    int checkpoint_at;           /* wal_pages for the next try */
    char error[STORE_ERROR_MAX]; /* of the last failure */
};

/* Fills *j. On failure j->error has the text and there is nothing to close. */
int journal_open(struct journal *j, const struct store_sqlite_config *config,
                 const struct store_replay *replay);

void journal_close(struct journal *j);

/* Appends the first n ops, all or none, and sets their seq. */
int journal_append(struct journal *j, struct store_op *first, size_t n);

int journal_snapshot(struct journal *j, const struct store_op *op);

/* Folds the log into the database once it is long enough. Nothing depends on its success. */
void journal_checkpoint(struct journal *j);

/* --- Between the files of the journal --- */

struct sum journal_genesis(const unsigned char *id);

/* What a snapshot's rows are chained to. */
struct sum journal_snapshot_start(struct sum chain, uint64_t seq);

struct journal_meta {
    unsigned char id[STORE_ID_BYTES];
    uint64_t snapshot_seq;
    struct sum snapshot_chain; /* of the last record that the snapshot stands for */
    uint64_t snapshot_n;
    struct sum snapshot_sum; /* of its last row */
};

struct sum journal_meta_sum(const struct journal_meta *meta);
int journal_meta_write(struct journal *j, const struct journal_meta *meta);

/* Creates the tables of the current format and their first row, inside a transaction. */
int journal_tables_create(struct journal *j, const unsigned char *id);

/* Verifies a database of the current format against itself and the head, and replays it. */
int journal_load(struct journal *j, const struct store_replay *replay);

int journal_begin(struct journal *j);
int journal_commit(struct journal *j);
void journal_rollback(struct journal *j); /* does nothing outside a transaction */

/* Says again in the head what was acknowledged, in the slot that may hold more, and cuts off rows
 * beyond that. Without it the rows that come next would contradict the head. */
int journal_settle(struct journal *j);
int journal_head_write(struct journal *j, const struct head_mark *mark);

/* Runs a prepared statement that returns no row, and resets it. */
int journal_run(struct journal *j, enum journal_stmt which);
int journal_prepare_all(struct journal *j);

int journal_exec(struct journal *j, const char *sql);
int journal_get_int(struct journal *j, const char *sql, int64_t *out);

/* Text and status. */
int journal_fail(struct journal *j, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, of errno. */
int journal_errno(struct journal *j, const char *what, const char *path);

/* Text and status of what SQLite has just reported; what: "write", "read", … */
int journal_sqlite_error(struct journal *j, int rc, const char *what);

/* Text and MU_ECORRUPT, with what to do. */
int journal_refuse(struct journal *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
