/* From format 1: a row had a plain sum of its own (XXH3-64 seeded with its number), there were no
 * snapshots and no head, and the id lay in a table of names and values.
 *
 * The head is written before the transaction commits: a crash between the two leaves format 1 with
 * a head that the same rows will lead to again. */
#include "store/journal.h"

#include <string.h>

static int read_id(struct journal *j, unsigned char *id)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(j->db, "SELECT value FROM meta WHERE name = 'store_id'", -1, &stmt,
                                NULL);

    if (rc != SQLITE_OK) {
        return journal_sqlite_error(j, rc, "read");
    }
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == STORE_ID_BYTES) {
        memcpy(id, sqlite3_column_blob(stmt, 0), STORE_ID_BYTES);
        rc = MU_OK;
    } else if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
        rc = journal_refuse(j, "its id is missing or damaged");
    } else {
        rc = journal_sqlite_error(j, rc, "read");
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int copy_row(struct journal *j, sqlite3_stmt *from, struct head_mark *mark)
{
    struct store_bytes record = {sqlite3_column_blob(from, 1),
                                 (size_t)sqlite3_column_bytes(from, 1)};

    if ((uint64_t)sqlite3_column_int64(from, 0) != mark->seq + 1 ||
        (uint64_t)sqlite3_column_int64(from, 2) !=
            sum_plain(mark->seq + 1, record.data, record.n)) {
        return journal_refuse(j, "record %llu is damaged or missing",
                              (unsigned long long)mark->seq + 1);
    }
    mark->seq++;
    mark->chain = sum_next(SUM_RECORD, mark->chain, mark->seq, record.data, record.n);
    return journal_insert(j, STMT_APPEND, mark->seq, &record, &mark->chain);
}

static int copy_rows(struct journal *j, struct head_mark *mark)
{
    sqlite3_stmt *from;
    int rc, status = MU_OK;

    rc = sqlite3_prepare_v2(j->db, "SELECT seq, data, sum FROM journal_1 ORDER BY seq", -1, &from,
                            NULL);
    if (rc != SQLITE_OK) {
        return journal_sqlite_error(j, rc, "read");
    }
    while (status == MU_OK && (rc = sqlite3_step(from)) == SQLITE_ROW) {
        status = copy_row(j, from, mark);
    }
    if (status == MU_OK && rc != SQLITE_DONE) {
        status = journal_sqlite_error(j, rc, "read");
    }
    sqlite3_finalize(from);
    return status;
}

/* A head is there if an earlier migration got that far; it must be the one we would write. */
static int match_head(struct journal *j, const struct head_mark *mark)
{
    int rc;

    if (!j->head.exists) {
        rc = head_create(&j->head, mark);
        return rc == SQLITE_OK ? MU_OK : journal_sqlite_error(j, rc, "write the head of");
    }
    if (memcmp(j->head.mark.id, mark->id, STORE_ID_BYTES) != 0 || j->head.mark.seq > mark->seq) {
        return journal_refuse(j, "it is of format 1, but %s is of another journal or a longer one",
                              j->head_path);
    }
    return MU_OK;
}

static int migrate(struct journal *j)
{
    struct head_mark mark = {0};
    int rc = read_id(j, mark.id);

    if (rc == MU_OK) {
        rc = journal_exec(j, "ALTER TABLE journal RENAME TO journal_1; DROP TABLE meta");
    }
    if (rc == MU_OK) {
        mark.chain = journal_genesis(mark.id);
        rc = journal_tables_create(j, mark.id);
    }
    if (rc == MU_OK) {
        rc = copy_rows(j, &mark);
    }
    if (rc == MU_OK) {
        rc = journal_exec(j, "DROP TABLE journal_1; PRAGMA user_version = 2");
    }
    return rc == MU_OK ? match_head(j, &mark) : rc;
}

int journal_migrate(struct journal *j)
{
    int rc = journal_exec(j, "BEGIN IMMEDIATE");

    if (rc != MU_OK) {
        return rc;
    }
    rc = migrate(j);
    if (rc == MU_OK) {
        rc = journal_exec(j, "COMMIT");
    }
    if (rc != MU_OK && !sqlite3_get_autocommit(j->db)) {
        sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}
