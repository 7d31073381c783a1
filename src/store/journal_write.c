/* Transactions of the journal. See journal.h for the invariant they keep. */
#include "base/log.h"
#include "store/journal.h"

#include <string.h>

static const char *const STMT_SQL[STMT_N] = {
    [STMT_BEGIN] = "BEGIN IMMEDIATE",
    [STMT_COMMIT] = "COMMIT",
    [STMT_ROLLBACK] = "ROLLBACK",
    [STMT_APPEND] = "INSERT INTO journal (seq, data, sum) VALUES (?1, ?2, ?3)",
    [STMT_CUT_TAIL] = "DELETE FROM journal WHERE seq > ?1",
    [STMT_CUT_FRONT] = "DELETE FROM journal WHERE seq <= ?1",
    [STMT_CHAIN_AT] = "SELECT sum FROM journal WHERE seq = ?1 UNION ALL "
                      "SELECT snapshot_chain FROM meta WHERE snapshot_seq = ?1",
    [STMT_SNAPSHOT_CLEAR] = "DELETE FROM snapshot",
    [STMT_SNAPSHOT_ADD] = "INSERT INTO snapshot (n, data, sum) VALUES (?1, ?2, ?3)",
    [STMT_META_SET] = "INSERT OR REPLACE INTO meta (k, id, snapshot_seq, snapshot_chain, "
                      "snapshot_n, snapshot_sum, sum) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)",
};

int journal_prepare_all(struct journal *j)
{
    for (int i = 0; i < STMT_N; i++) {
        int rc = sqlite3_prepare_v3(j->db, STMT_SQL[i], -1, SQLITE_PREPARE_PERSISTENT, &j->stmts[i],
                                    NULL);

        if (rc != SQLITE_OK) {
            return journal_sqlite_error(j, rc, "prepare");
        }
    }
    return MU_OK;
}

int journal_run(struct journal *j, enum journal_stmt which)
{
    int rc = sqlite3_step(j->stmts[which]);
    int status = MU_OK;

    if (rc != SQLITE_DONE) {
        status = journal_sqlite_error(j, rc == SQLITE_ROW ? SQLITE_INTERNAL : rc, "write");
    }
    sqlite3_reset(j->stmts[which]);
    sqlite3_clear_bindings(j->stmts[which]);
    return status;
}

/* Binding fails only for lack of memory; the statement is then run all the same and refused by its
 * NOT NULL columns, but its error would be the wrong one. */
static int run_bound(struct journal *j, enum journal_stmt which, int bind_rc)
{
    if (bind_rc != SQLITE_OK) {
        sqlite3_clear_bindings(j->stmts[which]);
        return journal_sqlite_error(j, bind_rc, "write");
    }
    return journal_run(j, which);
}

static int bind_bytes(sqlite3_stmt *stmt, int at, const void *data, size_t n)
{
    return sqlite3_bind_blob64(stmt, at, n > 0 ? data : "", n, SQLITE_STATIC);
}

int journal_begin(struct journal *j)
{
    journal_rollback(j); /* One that failed may still be open if its rollback failed too. */
    return journal_run(j, STMT_BEGIN);
}

int journal_commit(struct journal *j)
{
    return journal_run(j, STMT_COMMIT);
}

void journal_rollback(struct journal *j)
{
    if (!sqlite3_get_autocommit(j->db)) {
        sqlite3_step(j->stmts[STMT_ROLLBACK]);
        sqlite3_reset(j->stmts[STMT_ROLLBACK]);
    }
}

int journal_head_write(struct journal *j, const struct head_mark *mark)
{
    int rc = head_write(&j->head, mark);

    return rc == SQLITE_OK ? MU_OK : journal_sqlite_error(j, rc, "write the head of");
}

/* One row of (number, bytes, sum), by STMT_APPEND or STMT_SNAPSHOT_ADD. */
static int insert(struct journal *j, enum journal_stmt which, uint64_t number,
                  const struct store_bytes *bytes, const struct sum *sum)
{
    sqlite3_stmt *stmt = j->stmts[which];
    int rc = sqlite3_bind_int64(stmt, 1, (sqlite3_int64)number);

    if (rc == SQLITE_OK) {
        rc = bind_bytes(stmt, 2, bytes->data, bytes->n);
    }
    if (rc == SQLITE_OK) {
        rc = bind_bytes(stmt, 3, sum->b, SUM_BYTES);
    }
    return run_bound(j, which, rc);
}

static int cut(struct journal *j, enum journal_stmt which, uint64_t seq)
{
    return run_bound(j, which, sqlite3_bind_int64(j->stmts[which], 1, (sqlite3_int64)seq));
}

static struct head_mark mark_here(const struct journal *j)
{
    struct head_mark mark = {.seq = j->seq, .chain = j->chain};

    memcpy(mark.id, j->id, sizeof(mark.id));
    return mark;
}

int journal_settle(struct journal *j)
{
    struct head_mark mark = mark_here(j);
    int rc = journal_head_write(j, &mark);

    if (rc == MU_OK) {
        rc = journal_begin(j);
    }
    if (rc == MU_OK) {
        rc = cut(j, STMT_CUT_TAIL, j->seq);
    }
    if (rc == MU_OK) {
        rc = journal_commit(j);
    }
    if (rc == MU_OK) {
        j->unsure = false;
    } else {
        journal_rollback(j);
    }
    return rc;
}

static int append_rows(struct journal *j, struct store_op *first, size_t n, struct head_mark *mark)
{
    struct store_op *op = first;
    int rc = MU_OK;

    for (size_t i = 0; rc == MU_OK && i < n; i++, op = op->next) {
        const struct store_bytes *record = &op->records[0];

        mark->seq++;
        mark->chain = sum_next(SUM_RECORD, mark->chain, mark->seq, record->data, record->n);
        rc = insert(j, STMT_APPEND, mark->seq, record, &mark->chain);
        op->seq = mark->seq;
    }
    return rc;
}

int journal_append(struct journal *j, struct store_op *first, size_t n)
{
    struct head_mark mark = mark_here(j);
    int rc = j->unsure ? journal_settle(j) : MU_OK;

    if (rc == MU_OK) {
        rc = journal_begin(j);
    }
    if (rc == MU_OK) {
        rc = append_rows(j, first, n, &mark);
    }
    j->unsure = true; /* until all of it has worked */
    if (rc == MU_OK) {
        rc = journal_commit(j);
    }
    if (rc != MU_OK) {
        journal_rollback(j);
        return rc;
    }
    rc = journal_head_write(j, &mark);
    if (rc == MU_OK) {
        j->seq = mark.seq;
        j->chain = mark.chain;
        j->unsure = false;
    }
    return rc;
}

static int chain_at(struct journal *j, uint64_t seq, struct sum *out)
{
    sqlite3_stmt *stmt = j->stmts[STMT_CHAIN_AT];
    int rc, status;

    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)seq);
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == SUM_BYTES) {
        memcpy(out->b, sqlite3_column_blob(stmt, 0), SUM_BYTES);
        status = MU_OK;
    } else if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
        status = journal_refuse(j, "record %llu is not where it was", (unsigned long long)seq);
    } else {
        status = journal_sqlite_error(j, rc, "read");
    }
    sqlite3_reset(stmt);
    return status;
}

int journal_meta_write(struct journal *j, const struct journal_meta *meta)
{
    sqlite3_stmt *stmt = j->stmts[STMT_META_SET];
    struct sum sum = journal_meta_sum(meta);
    int rc = bind_bytes(stmt, 1, meta->id, sizeof(meta->id));

    if (rc == SQLITE_OK) {
        rc = bind_bytes(stmt, 3, meta->snapshot_chain.b, SUM_BYTES);
    }
    if (rc == SQLITE_OK) {
        rc = bind_bytes(stmt, 5, meta->snapshot_sum.b, SUM_BYTES);
    }
    if (rc == SQLITE_OK) {
        rc = bind_bytes(stmt, 6, sum.b, SUM_BYTES);
    }
    sqlite3_bind_int64(stmt, 2, (sqlite3_int64)meta->snapshot_seq);
    sqlite3_bind_int64(stmt, 4, (sqlite3_int64)meta->snapshot_n);
    return run_bound(j, STMT_META_SET, rc);
}

static int snapshot_rows(struct journal *j, const struct store_op *op)
{
    struct journal_meta meta = {.snapshot_seq = op->seq, .snapshot_n = op->records_n};
    int rc = chain_at(j, op->seq, &meta.snapshot_chain);

    if (rc == MU_OK) {
        rc = journal_run(j, STMT_SNAPSHOT_CLEAR);
    }
    memcpy(meta.id, j->id, sizeof(meta.id));
    meta.snapshot_sum = journal_snapshot_start(meta.snapshot_chain, op->seq);
    for (size_t i = 0; rc == MU_OK && i < op->records_n; i++) {
        const struct store_bytes *record = &op->records[i];

        meta.snapshot_sum = sum_next(SUM_PART, meta.snapshot_sum, i + 1, record->data, record->n);
        rc = insert(j, STMT_SNAPSHOT_ADD, i + 1, record, &meta.snapshot_sum);
    }
    if (rc == MU_OK) {
        rc = journal_meta_write(j, &meta);
    }
    if (rc == MU_OK) {
        rc = cut(j, STMT_CUT_FRONT, op->seq);
    }
    return rc;
}

/* The head need not change: the last acknowledged record is the same, and a snapshot that gets lost
 * leaves the rows that it stood for. */
int journal_snapshot(struct journal *j, const struct store_op *op)
{
    int rc = journal_begin(j);

    if (rc == MU_OK) {
        rc = snapshot_rows(j, op);
    }
    if (rc == MU_OK) {
        rc = journal_commit(j);
    }
    if (rc == MU_OK) {
        j->snapshot_seq = op->seq;
    } else {
        journal_rollback(j);
    }
    return rc;
}

void journal_checkpoint(struct journal *j)
{
    int rc;

    if (j->wal_pages < j->checkpoint_at) {
        return;
    }
    rc = sqlite3_wal_checkpoint_v2(j->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (rc == SQLITE_OK) {
        j->checkpoint_at = j->checkpoint_pages;
        return;
    }
    j->checkpoint_at = j->wal_pages + j->checkpoint_pages;
    log_warn("store", "%s: the log could not be folded into the database and keeps growing: %s",
             j->db_path, sqlite3_errmsg(j->db));
}
