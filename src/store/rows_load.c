/* Verifies the current format and replays it.
 *
 * What is refused: anything that SQLite finds wrong with its own structures; tables that are not
 * exactly ours; a row whose sum does not follow from the one before; rows that end before the head,
 * or that the head does not recognise. What is dropped: rows beyond the head that are not whole,
 * but only when both of the head's slots are, for then nobody was ever told of those rows. */
#include "base/log.h"
#include "store/rows.h"

#include <string.h>

static const struct {
    const char *name;
    const char *sql;
} TABLES[] = {
    {"journal", "CREATE TABLE journal (seq INTEGER PRIMARY KEY, data BLOB NOT NULL, "
                "sum BLOB NOT NULL)"},
    {"meta", "CREATE TABLE meta (k INTEGER PRIMARY KEY CHECK (k = 1), id BLOB NOT NULL, "
             "snapshot_seq INTEGER NOT NULL, snapshot_chain BLOB NOT NULL, "
             "snapshot_n INTEGER NOT NULL, snapshot_sum BLOB NOT NULL, sum BLOB NOT NULL)"},
    {"snapshot", "CREATE TABLE snapshot (upto INTEGER NOT NULL, n INTEGER NOT NULL, "
                 "data BLOB NOT NULL, sum BLOB NOT NULL, PRIMARY KEY (upto, n)) WITHOUT ROWID"},
};

struct sum rows_genesis(const unsigned char *id)
{
    return sum_next(SUM_GENESIS, (struct sum){{0}}, 0, id, STORE_ID_BYTES);
}

struct sum rows_snapshot_start(struct sum chain, uint64_t seq)
{
    return sum_next(SUM_SNAPSHOT, chain, seq, NULL, 0);
}

struct sum rows_meta_sum(const struct rows_meta *meta)
{
    unsigned char rest[STORE_ID_BYTES + 8 + SUM_BYTES];

    memcpy(rest, meta->id, STORE_ID_BYTES);
    sum_put_u64(rest + STORE_ID_BYTES, meta->snapshot_n);
    memcpy(rest + STORE_ID_BYTES + 8, meta->snapshot_sum.b, SUM_BYTES);
    return sum_next(SUM_META, meta->snapshot_chain, meta->snapshot_seq, rest, sizeof(rest));
}

int rows_tables_create(struct rows *j, const unsigned char *id)
{
    struct rows_meta meta = {.snapshot_chain = rows_genesis(id)};
    int rc = MU_OK;

    for (size_t i = 0; rc == MU_OK && i < ARRAY_LEN(TABLES); i++) {
        rc = rows_exec(j, TABLES[i].sql);
    }
    if (rc == MU_OK) {
        rc = rows_prepare_all(j);
    }
    if (rc == MU_OK) {
        memcpy(meta.id, id, STORE_ID_BYTES);
        meta.snapshot_sum = rows_snapshot_start(meta.snapshot_chain, 0);
        rc = rows_meta_write(j, &meta);
    }
    return rc;
}

/* Steps a query that may only end or give a row. */
static int next_row(struct rows *j, sqlite3_stmt *stmt, bool *row)
{
    int rc = sqlite3_step(stmt);

    *row = rc == SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? MU_OK : rows_sqlite_error(j, rc, "read");
}

static int query(struct rows *j, const char *sql, sqlite3_stmt **stmt)
{
    int rc = sqlite3_prepare_v2(j->db, sql, -1, stmt, NULL);

    return rc == SQLITE_OK ? MU_OK : rows_sqlite_error(j, rc, "read");
}

/* A blob of exactly n bytes, or false. */
static bool column_fixed(sqlite3_stmt *stmt, int at, void *out, int n)
{
    const void *data = sqlite3_column_blob(stmt, at);

    if (!data || sqlite3_column_bytes(stmt, at) != n) {
        return false;
    }
    memcpy(out, data, (size_t)n);
    return true;
}

/* The bytes of a row's second column. An empty blob has no address, and a lack of memory looks the
 * same: SQLite's length tells them apart. */
static int column_record(struct rows *j, sqlite3_stmt *stmt, struct store_bytes *out)
{
    out->data = sqlite3_column_blob(stmt, 1);
    out->n = (size_t)sqlite3_column_bytes(stmt, 1);
    if (!out->data) {
        if (sqlite3_errcode(j->db) == SQLITE_NOMEM) {
            return rows_sqlite_error(j, SQLITE_NOMEM, "read");
        }
        out->data = "";
    }
    return MU_OK;
}

static int check_tables(struct rows *j)
{
    sqlite3_stmt *stmt;
    bool row;
    size_t n = 0;
    int rc = query(j, "SELECT name, sql FROM sqlite_schema ORDER BY name", &stmt);

    if (rc != MU_OK) {
        return rc;
    }
    while ((rc = next_row(j, stmt, &row)) == MU_OK && row) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        const char *sql = (const char *)sqlite3_column_text(stmt, 1);

        if (n >= ARRAY_LEN(TABLES) || !name || !sql || strcmp(name, TABLES[n].name) != 0 ||
            strcmp(sql, TABLES[n].sql) != 0) {
            rc = rows_refuse(j, "its tables are not those of format %d", STORE_SQLITE_FORMAT);
            break;
        }
        n++;
    }
    if (rc == MU_OK && n < ARRAY_LEN(TABLES)) {
        rc = rows_refuse(j, "a table is missing");
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int load_meta(struct rows *j, struct rows_meta *meta)
{
    sqlite3_stmt *stmt;
    struct sum sum;
    bool row, whole;
    int rc =
        query(j, "SELECT id, snapshot_seq, snapshot_chain, snapshot_n, snapshot_sum, sum FROM meta",
              &stmt);

    if (rc == MU_OK) {
        rc = next_row(j, stmt, &row);
    }
    if (rc == MU_OK) {
        whole = row && column_fixed(stmt, 0, meta->id, STORE_ID_BYTES) &&
                column_fixed(stmt, 2, meta->snapshot_chain.b, SUM_BYTES) &&
                column_fixed(stmt, 4, meta->snapshot_sum.b, SUM_BYTES) &&
                column_fixed(stmt, 5, sum.b, SUM_BYTES);
        meta->snapshot_seq = whole ? (uint64_t)sqlite3_column_int64(stmt, 1) : 0;
        meta->snapshot_n = whole ? (uint64_t)sqlite3_column_int64(stmt, 3) : 0;
        if (!whole || !sum_equal(sum, rows_meta_sum(meta))) {
            rc = rows_refuse(j, "the row that describes it is damaged");
        } else if (memcmp(meta->id, j->head.mark.id, STORE_ID_BYTES) != 0) {
            rc = rows_refuse(j, "it and %s belong to two different stores", j->head_path);
        }
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int load_snapshot(struct rows *j, const struct rows_meta *meta,
                         const struct store_replay *replay)
{
    struct sum sum = rows_snapshot_start(meta->snapshot_chain, meta->snapshot_seq), got;
    struct store_bytes record;
    sqlite3_stmt *stmt;
    uint64_t n = 0;
    bool row;
    int rc = query(j,
                   "SELECT n, data, sum FROM snapshot WHERE upto = "
                   "(SELECT snapshot_seq FROM meta) ORDER BY n",
                   &stmt);

    while (rc == MU_OK && (rc = next_row(j, stmt, &row)) == MU_OK && row) {
        n++;
        rc = column_record(j, stmt, &record);
        if (rc != MU_OK) {
            break;
        }
        sum = sum_next(SUM_PART, sum, n, record.data, record.n);
        if ((uint64_t)sqlite3_column_int64(stmt, 0) != n ||
            !column_fixed(stmt, 2, got.b, SUM_BYTES) || !sum_equal(got, sum)) {
            rc = rows_refuse(j, "row %llu of its snapshot is damaged", (unsigned long long)n);
            break;
        }
        rc = replay->snapshot(replay->arg, record.data, record.n);
        if (rc != MU_OK) {
            rows_fail(j, rc, "%s: row %llu of the snapshot was not accepted: %s", j->db_path,
                      (unsigned long long)n, mu_strerror(rc));
        }
    }
    if (rc == MU_OK && (n != meta->snapshot_n || !sum_equal(sum, meta->snapshot_sum))) {
        rc = rows_refuse(j, "its snapshot ends early, after row %llu of %llu",
                         (unsigned long long)n, (unsigned long long)meta->snapshot_n);
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* One row at j->seq + 1. *good is false when it is not that row, whole. */
static int load_record(struct rows *j, sqlite3_stmt *stmt, const struct store_replay *replay,
                       bool *good)
{
    struct store_bytes record;
    struct sum sum, got;
    int rc = column_record(j, stmt, &record);

    if (rc != MU_OK) {
        return rc;
    }
    sum = sum_next(SUM_RECORD, j->chain, j->seq + 1, record.data, record.n);
    *good = (uint64_t)sqlite3_column_int64(stmt, 0) == j->seq + 1 &&
            column_fixed(stmt, 2, got.b, SUM_BYTES) && sum_equal(got, sum);
    if (!*good) {
        return MU_OK;
    }
    j->seq++;
    j->chain = sum;
    if (j->seq == j->head.mark.seq && !sum_equal(sum, j->head.mark.chain)) {
        return rows_refuse(j, "record %llu is not the one that %s knows",
                           (unsigned long long)j->seq, j->head_path);
    }
    rc = replay->record(replay->arg, j->seq, record.data, record.n);
    if (rc != MU_OK) {
        rows_fail(j, rc, "%s: record %llu was not accepted: %s", j->db_path,
                  (unsigned long long)j->seq, mu_strerror(rc));
    }
    return rc;
}

static int load_records(struct rows *j, const struct store_replay *replay)
{
    sqlite3_stmt *stmt;
    bool row = false, good = true;
    int rc = query(j, "SELECT seq, data, sum FROM journal ORDER BY seq", &stmt);

    while (rc == MU_OK && good && (rc = next_row(j, stmt, &row)) == MU_OK && row) {
        rc = load_record(j, stmt, replay, &good);
    }
    if (rc == MU_OK && !good) {
        j->unsure = true;
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* The rows that are good end at j->seq. */
static int check_end(struct rows *j)
{
    unsigned long long have = j->seq, acked = j->head.mark.seq;

    if (have < acked) {
        return rows_refuse(j, "%s records up to %llu were acknowledged, but %s",
                           j->unsure ? "it is damaged:" : "its end is missing:", acked,
                           j->unsure ? "one before that is not whole" : "the rows end before that");
    }
    if (j->unsure && !j->head.whole) {
        return rows_refuse(j,
                           "record %llu is damaged, and %s too, so that nobody can tell "
                           "whether it was acknowledged",
                           have + 1, j->head_path);
    }
    if (j->unsure) {
        log_warn("store",
                 "%s: record %llu and those behind it were never acknowledged and are not "
                 "whole: dropped",
                 j->db_path, have + 1);
    }
    if (!j->head.whole) {
        log_warn("store", "%s: one of its two slots was not whole; the other serves", j->head_path);
    }
    return MU_OK;
}

/* A snapshot stands for acknowledged records only. With one slot of the head lost, the other may be
 * from before the snapshot and can't say anything about it. */
static int check_base(struct rows *j)
{
    const struct head_mark *mark = &j->head.mark;

    if ((mark->seq < j->seq && j->head.whole) ||
        (mark->seq == j->seq && !sum_equal(mark->chain, j->chain))) {
        return rows_refuse(j, "its snapshot is not of the journal that %s knows", j->head_path);
    }
    return MU_OK;
}

int rows_load(struct rows *j, const struct store_replay *replay)
{
    struct rows_meta meta;
    int rc = check_tables(j);

    if (rc == MU_OK) {
        rc = load_meta(j, &meta);
    }
    if (rc == MU_OK) {
        memcpy(j->id, meta.id, STORE_ID_BYTES);
        j->seq = j->snapshot_seq = meta.snapshot_seq;
        j->chain = meta.snapshot_chain;
        rc = check_base(j);
    }
    if (rc == MU_OK) {
        rc = load_snapshot(j, &meta, replay);
    }
    if (rc == MU_OK) {
        rc = load_records(j, replay);
    }
    return rc == MU_OK ? check_end(j) : rc;
}
