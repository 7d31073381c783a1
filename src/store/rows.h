/* The journal on SQLite, without threads: what the store's thread does, one call at a time.
 *
 *   rows.c        life: files, lock, connection
 *   rows_error.c  what goes wrong with them
 *   rows_load.c   the past: verify and replay
 *   rows_write.c  appends, snapshots, checkpoints
 *
 * Invariant between calls: the head says (seq, chain), rows up to seq are in the database, and no
 * others are unless `unsure`. */
#ifndef STORE_ROWS_H
#define STORE_ROWS_H

#include "store/backend.h"
#include "store/head.h"
#include "store/sqlite.h"
#include "store/sum.h"

#include <sqlite3.h>

#define ROWS_DIR_MAX 400
#define ROWS_PATH_MAX (ROWS_DIR_MAX + 32)

enum rows_stmt {
    STMT_BEGIN,
    STMT_COMMIT,
    STMT_ROLLBACK,
    STMT_APPEND,
    STMT_CUT_TAIL,
    STMT_CUT_FRONT,
    STMT_CHAIN_AT,
    STMT_SNAPSHOT_ONLY,
    STMT_SNAPSHOT_ADD,
    STMT_META_SET,
    STMT_N,
};

struct rows_meta {
    unsigned char id[STORE_ID_BYTES];
    uint64_t snapshot_seq;
    struct sum snapshot_chain; /* of the last record that the snapshot stands for */
    uint64_t snapshot_n;
    struct sum snapshot_sum; /* of its last row */
};

struct rows {
    char db_path[ROWS_PATH_MAX];
    char head_path[ROWS_PATH_MAX]; /* two zero bytes at its end: see head_open() */
    int lock_fd;                   /* -1: none */
    sqlite3 *db;
    sqlite3_stmt *stmts[STMT_N];
    struct head head;
    unsigned char id[STORE_ID_BYTES];
    uint64_t seq;
    struct sum chain; /* of record seq */
    uint64_t snapshot_seq;
    struct rows_meta piecing; /* of the snapshot whose pieces come */
    bool unsure;   /* a write failed: rows beyond seq and the head's slot may hold anything */
    bool ready;    /* opened: close folds the log into the database */
    int wal_pages; /* after the last commit */
    int checkpoint_pages;
    int checkpoint_at;           /* wal_pages for the next try */
    char error[STORE_ERROR_MAX]; /* of the last failure */
};

/* Fills *j. On failure j->error has the text and there is nothing to close. */
int rows_open(struct rows *j, const struct store_sqlite_config *config,
              const struct store_replay *replay);

void rows_close(struct rows *j);

/* Appends the first n ops, all or none, and sets their seq. */
int rows_append(struct rows *j, struct store_op *first, size_t n);

/* One piece; those of a snapshot that never counted are dropped with the first of the next. */
int rows_snapshot(struct rows *j, const struct store_op *op);

/* Folds the log into the database once it is long enough. Nothing depends on its success. */
void rows_checkpoint(struct rows *j);

/* --- Between the files of the journal --- */

struct sum rows_genesis(const unsigned char *id);

/* What a snapshot's rows are chained to. */
struct sum rows_snapshot_start(struct sum chain, uint64_t seq);

struct sum rows_meta_sum(const struct rows_meta *meta);
int rows_meta_write(struct rows *j, const struct rows_meta *meta);

/* Creates the tables of the current format and their first row, inside a transaction. */
int rows_tables_create(struct rows *j, const unsigned char *id);

/* Verifies a database of the current format against itself and the head, and replays it. */
int rows_load(struct rows *j, const struct store_replay *replay);

int rows_begin(struct rows *j);
int rows_commit(struct rows *j);
void rows_rollback(struct rows *j); /* does nothing outside a transaction */

/* Says again in the head what was acknowledged, in the slot that may hold more, and cuts off rows
 * beyond that. Without it the rows that come next would contradict the head. */
int rows_settle(struct rows *j);
int rows_head_write(struct rows *j, const struct head_mark *mark);

/* Runs a prepared statement that returns no row, and resets it. */
int rows_run(struct rows *j, enum rows_stmt which);
int rows_prepare_all(struct rows *j);

int rows_exec(struct rows *j, const char *sql);
int rows_get_int(struct rows *j, const char *sql, int64_t *out);

/* Text and status. */
int rows_fail(struct rows *j, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, of errno. */
int rows_errno(struct rows *j, const char *what, const char *path);

/* Text and status of what SQLite has just reported; what: "write", "read", … */
int rows_sqlite_error(struct rows *j, int rc, const char *what);

/* Text and MU_ECORRUPT, with what to do. */
int rows_refuse(struct rows *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
