/* Transactions of the journal. See rows.h for the invariant they keep. */
#include "base/log.h"
#include "store/rows.h"

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
    [STMT_SNAPSHOT_ONLY] = "DELETE FROM snapshot WHERE upto != ?1",
    [STMT_SNAPSHOT_ADD] = "INSERT INTO snapshot (n, data, sum, upto) VALUES (?1, ?2, ?3, ?4)",
    [STMT_META_SET] = "INSERT OR REPLACE INTO meta (k, id, snapshot_seq, snapshot_chain, "
                      "snapshot_n, snapshot_sum, sum) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)",
};

int rows_prepare_all(struct rows *j)
{
    for (int i = 0; i < STMT_N; i++) {
        int rc = sqlite3_prepare_v3(j->db, STMT_SQL[i], -1, SQLITE_PREPARE_PERSISTENT, &j->stmts[i],
                                    NULL);

        if (rc != SQLITE_OK) {
            return rows_sqlite_error(j, rc, "prepare");
        }
    }
    return MU_OK;
}

int rows_run(struct rows *j, enum rows_stmt which)
{
    int rc = sqlite3_step(j->stmts[which]);
    int status = MU_OK;

    if (rc != SQLITE_DONE) {
        status = rows_sqlite_error(j, rc == SQLITE_ROW ? SQLITE_INTERNAL : rc, "write");
    }
    sqlite3_reset(j->stmts[which]);
    sqlite3_clear_bindings(j->stmts[which]);
    return status;
}

/* Binding fails only for lack of memory; the statement is then run all the same and refused by its
 * NOT NULL columns, but its error would be the wrong one. */
static int run_bound(struct rows *j, enum rows_stmt which, int bind_rc)
{
    if (bind_rc != SQLITE_OK) {
        sqlite3_clear_bindings(j->stmts[which]);
        return rows_sqlite_error(j, bind_rc, "write");
    }
    return rows_run(j, which);
}

static int bind_bytes(sqlite3_stmt *stmt, int at, const void *data, size_t n)
{
    return sqlite3_bind_blob64(stmt, at, n > 0 ? data : "", n, SQLITE_STATIC);
}

int rows_begin(struct rows *j)
{
    rows_rollback(j); /* One that failed may still be open if its rollback failed too. */
    return rows_run(j, STMT_BEGIN);
}

int rows_commit(struct rows *j)
{
    return rows_run(j, STMT_COMMIT);
}

void rows_rollback(struct rows *j)
{
    if (!sqlite3_get_autocommit(j->db)) {
        sqlite3_step(j->stmts[STMT_ROLLBACK]);
        sqlite3_reset(j->stmts[STMT_ROLLBACK]);
    }
}

int rows_head_write(struct rows *j, const struct head_mark *mark)
{
    int rc = head_write(&j->head, mark);

    return rc == SQLITE_OK ? MU_OK : rows_sqlite_error(j, rc, "write the head of");
}

/* One row of (number, bytes, sum), by STMT_APPEND or STMT_SNAPSHOT_ADD. */
static int insert(struct rows *j, enum rows_stmt which, uint64_t number,
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

static int cut(struct rows *j, enum rows_stmt which, uint64_t seq)
{
    return run_bound(j, which, sqlite3_bind_int64(j->stmts[which], 1, (sqlite3_int64)seq));
}

static struct head_mark mark_here(const struct rows *j)
{
    struct head_mark mark = {.seq = j->seq, .chain = j->chain};

    memcpy(mark.id, j->id, sizeof(mark.id));
    return mark;
}

int rows_settle(struct rows *j)
{
    struct head_mark mark = mark_here(j);
    int rc = rows_head_write(j, &mark);

    if (rc == MU_OK) {
        rc = rows_begin(j);
    }
    if (rc == MU_OK) {
        rc = cut(j, STMT_CUT_TAIL, j->seq);
    }
    if (rc == MU_OK) {
        rc = rows_commit(j);
    }
    if (rc == MU_OK) {
        j->unsure = false;
    } else {
        rows_rollback(j);
    }
    return rc;
}

static int append_rows(struct rows *j, struct store_op *first, size_t n, struct head_mark *mark)
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

int rows_append(struct rows *j, struct store_op *first, size_t n)
{
    struct head_mark mark = mark_here(j);
    int rc = j->unsure ? rows_settle(j) : MU_OK;

    if (rc == MU_OK) {
        rc = rows_begin(j);
    }
    if (rc == MU_OK) {
        rc = append_rows(j, first, n, &mark);
    }
    j->unsure = true; /* until all of it has worked */
    if (rc == MU_OK) {
        rc = rows_commit(j);
    }
    if (rc != MU_OK) {
        rows_rollback(j);
        return rc;
    }
    rc = rows_head_write(j, &mark);
    if (rc == MU_OK) {
        j->seq = mark.seq;
        j->chain = mark.chain;
        j->unsure = false;
    }
    return rc;
}

static int chain_at(struct rows *j, uint64_t seq, struct sum *out)
{
    sqlite3_stmt *stmt = j->stmts[STMT_CHAIN_AT];
    int rc, status;

    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)seq);
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == SUM_BYTES) {
        memcpy(out->b, sqlite3_column_blob(stmt, 0), SUM_BYTES);
        status = MU_OK;
    } else if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
        status = rows_refuse(j, "record %llu is not where it was", (unsigned long long)seq);
    } else {
        status = rows_sqlite_error(j, rc, "read");
    }
    sqlite3_reset(stmt);
    return status;
}

int rows_meta_write(struct rows *j, const struct rows_meta *meta)
{
    sqlite3_stmt *stmt = j->stmts[STMT_META_SET];
    struct sum sum = rows_meta_sum(meta);
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

static int piece_begin(struct rows *j, uint64_t upto, struct rows_meta *meta)
{
    int rc = chain_at(j, upto, &meta->snapshot_chain);

    if (rc == MU_OK) {
        rc = cut(j, STMT_SNAPSHOT_ONLY, j->snapshot_seq);
    }
    memcpy(meta->id, j->id, sizeof(meta->id));
    meta->snapshot_seq = upto;
    meta->snapshot_n = 0;
    meta->snapshot_sum = rows_snapshot_start(meta->snapshot_chain, upto);
    return rc;
}

/* From here on the snapshot counts. */
static int piece_end(struct rows *j, const struct rows_meta *meta)
{
    int rc = rows_meta_write(j, meta);

    if (rc == MU_OK) {
        rc = cut(j, STMT_SNAPSHOT_ONLY, meta->snapshot_seq);
    }
    return rc == MU_OK ? cut(j, STMT_CUT_FRONT, meta->snapshot_seq) : rc;
}

static int piece_rows(struct rows *j, const struct store_op *op, struct rows_meta *meta)
{
    int rc = op->first ? piece_begin(j, op->seq, meta) : MU_OK;

    for (size_t i = 0; rc == MU_OK && i < op->records_n; i++) {
        const struct store_bytes *record = &op->records[i];

        meta->snapshot_n++;
        meta->snapshot_sum =
            sum_next(SUM_PART, meta->snapshot_sum, meta->snapshot_n, record->data, record->n);
        sqlite3_bind_int64(j->stmts[STMT_SNAPSHOT_ADD], 4, (sqlite3_int64)op->seq);
        rc = insert(j, STMT_SNAPSHOT_ADD, meta->snapshot_n, record, &meta->snapshot_sum);
    }
    return rc == MU_OK && op->last ? piece_end(j, meta) : rc;
}

/* The head need not change: the last acknowledged record is the same, and a snapshot that gets lost
 * leaves the rows that it stood for. */
int rows_snapshot(struct rows *j, const struct store_op *op)
{
    struct rows_meta meta = j->piecing;
    int rc = rows_begin(j);

    if (rc == MU_OK) {
        rc = piece_rows(j, op, &meta);
    }
    if (rc == MU_OK) {
        rc = rows_commit(j);
    }
    if (rc != MU_OK) {
        rows_rollback(j);
        return rc;
    }
    j->piecing = meta;
    j->snapshot_seq = op->last ? op->seq : j->snapshot_seq;
    return MU_OK;
}

void rows_checkpoint(struct rows *j)
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
