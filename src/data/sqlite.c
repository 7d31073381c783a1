/* A table of an SQLite file: a record is a row, in the order of its rowid; its bytes are those of
 * its values, one after another. sqlite:FILE?table=NAME&columns=a,b. The table has to stay as it is
 * while it is read. */
#include "data/shard.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK_EVERY 256u

struct table {
    char *query; /* SELECT columns FROM table WHERE rowid >= ?1 ORDER BY rowid; without one: … */
    bool has_rowid; /* … SELECT columns FROM table LIMIT -1 OFFSET ?1 */
    int64_t *marks; /* rowids of every MARK_EVERYth row */
    size_t marks_n, marks_cap;
};

/* A thread's own connection, and where its query stands. */
struct rows {
    sqlite3 *db;
    sqlite3_stmt *query;
    uint64_t number; /* of the row that comes next */
    bool runs;
};

static bool guess(const struct guess *g)
{
    return g->head_n >= 16 && memcmp(g->head, "SQLite format 3", 16) == 0;
}

static int failed(const struct shard *s, sqlite3 *db, int code)
{
    const char *text = db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(code);

    switch (code & 255) {
    case SQLITE_NOMEM:
        return shard_no_memory(s);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return shard_damaged(s, 0, "%s", text);
    case SQLITE_ERROR:
        return error_say(MU_EINVAL, "%s: %s", s->name, text);
    default:
        return error_say(MU_EIO, "can't read %s: %s", s->name, text);
    }
}

static int connect_to(const struct shard *s, sqlite3 **db_out)
{
    int code = sqlite3_open_v2(s->path, db_out, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL),
        rc;

    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(*db_out, 10000);
        sqlite3_limit(*db_out, SQLITE_LIMIT_LENGTH, (int)MIN(s->o->max, (uint64_t)INT32_MAX));
        return MU_OK;
    }
    rc = failed(s, *db_out, code);
    sqlite3_close(*db_out);
    return rc;
}

/* The first column of the first row; NULL: none. sqlite3_free() it. */
static int ask(const struct shard *s, sqlite3 *db, const char *query, char **out)
{
    sqlite3_stmt *q = NULL;
    int code = sqlite3_prepare_v2(db, query, -1, &q, NULL), rc = MU_OK;

    *out = NULL;
    if (code == SQLITE_OK) {
        code = sqlite3_step(q);
    }
    if (code == SQLITE_ROW) {
        *out = sqlite3_mprintf("%s", sqlite3_column_text(q, 0));
        rc = *out != NULL ? MU_OK : shard_no_memory(s);
    } else if (code != SQLITE_DONE) {
        rc = failed(s, db, code);
    }
    sqlite3_finalize(q);
    return rc;
}

static int find_table(const struct shard *s, sqlite3 *db, char **table_out)
{
    static const char tables[] = " FROM sqlite_master WHERE type IN ('table','view') AND name NOT "
                                 "LIKE 'sqlite\\_%' ESCAPE '\\'";
    char query[256], *count = NULL, *names = NULL;
    int rc;

    if (s->o->table != NULL) {
        *table_out = sqlite3_mprintf("%s", s->o->table);
        return *table_out != NULL ? MU_OK : shard_no_memory(s);
    }
    snprintf(query, sizeof(query), "SELECT count(*)%s", tables);
    rc = ask(s, db, query, &count);
    snprintf(query, sizeof(query), "SELECT group_concat(name, ', ')%s", tables);
    rc = rc == MU_OK ? ask(s, db, query, &names) : rc;
    if (rc == MU_OK && strcmp(count, "1") == 0) {
        *table_out = names;
        names = NULL;
    } else if (rc == MU_OK) {
        rc = error_say(MU_EINVAL, "%s has %s tables (%.200s): say which, sqlite:%s?table=NAME",
                       s->name, count, names != NULL ? names : "", s->name);
    }
    sqlite3_free(count);
    sqlite3_free(names);
    return rc;
}

/* "a","b": as they are to stand in a query. */
static int quote_columns(const struct shard *s, char **out)
{
    sqlite3_str *text = sqlite3_str_new(NULL);
    const char *list = s->o->columns;

    if (list == NULL) {
        sqlite3_str_appendchar(text, 1, '*');
    }
    while (list != NULL) {
        const size_t n = strcspn(list, ",");
        char *name = sqlite3_mprintf("%.*s", (int)MIN(n, (size_t)1024), list);

        sqlite3_str_appendf(text, "%s\"%w\"", list == s->o->columns ? "" : ",",
                            name != NULL ? name : "");
        sqlite3_free(name);
        list = list[n] == ',' ? list + n + 1 : NULL;
    }
    *out = sqlite3_str_finish(text);
    return *out != NULL ? MU_OK : shard_no_memory(s);
}

static int add_columns(struct shard *s, sqlite3 *db, const char *query, const char *table)
{
    sqlite3_stmt *q = NULL;
    int code = sqlite3_prepare_v2(db, query, -1, &q, NULL), rc = MU_OK;

    if (code != SQLITE_OK) {
        return failed(s, db, code);
    }
    for (int i = 0; i < sqlite3_column_count(q) && rc == MU_OK; i++) {
        const char *declared = sqlite3_column_decltype(q, i), *name = sqlite3_column_name(q, i);
        const char *type = declared != NULL ? declared : "";

        /* In a view, or of an unknown name between quotes, which SQLite takes for text. */
        if (s->o->columns != NULL && sqlite3_column_origin_name(q, i) == NULL) {
            rc = error_say(MU_EINVAL, "the table %s of %s has no column %s", table, s->name, name);
            break;
        }
        rc = columns_add(&s->columns, name, strlen(name),
                         strcasestr(type, "INT") != NULL ? MU_INTEGER
                         : strcasestr(type, "REAL") || strcasestr(type, "FLOA") ||
                                 strcasestr(type, "DOUB")
                             ? MU_REAL
                         : strcasestr(type, "BLOB") || *type == '\0' ? MU_BYTES
                                                                     : MU_TEXT,
                         type);
    }
    sqlite3_finalize(q);
    return rc;
}

static int count_rows(struct shard *s, sqlite3 *db, const char *query)
{
    struct table *t = s->own;
    sqlite3_stmt *q = NULL;
    int code = sqlite3_prepare_v2(db, query, -1, &q, NULL), rc = MU_OK;

    while (rc == MU_OK && code == SQLITE_OK && (code = sqlite3_step(q)) == SQLITE_ROW) {
        code = SQLITE_OK;
        if (!t->has_rowid) {
            s->records = (uint64_t)sqlite3_column_int64(q, 0);
            continue;
        }
        if (s->records++ % MARK_EVERY != 0) {
            continue;
        }
        if (t->marks_n == t->marks_cap) {
            const size_t cap = t->marks_cap == 0 ? 64 : t->marks_cap * 2;
            int64_t *marks = reallocarray(t->marks, cap, sizeof(*marks));

            if (marks == NULL) {
                rc = shard_no_memory(s);
                break;
            }
            t->marks = marks;
            t->marks_cap = cap;
        }
        t->marks[t->marks_n++] = sqlite3_column_int64(q, 0);
    }
    rc = rc == MU_OK && code != SQLITE_DONE ? failed(s, db, code) : rc;
    sqlite3_finalize(q);
    return rc;
}

static int describe(struct shard *s, sqlite3 *db, const char *table, const char *columns)
{
    struct table *t = s->own;
    char *rowids = sqlite3_mprintf("SELECT rowid FROM \"%w\" ORDER BY rowid", table), *count = NULL;
    sqlite3_stmt *q = NULL;
    int rc = MU_OK;

    /* Views, and tables WITHOUT ROWID, have none. */
    t->has_rowid = rowids != NULL && sqlite3_prepare_v2(db, rowids, -1, &q, NULL) == SQLITE_OK &&
                   sqlite3_column_origin_name(q, 0) != NULL;
    sqlite3_finalize(q);
    t->query = t->has_rowid
                   ? sqlite3_mprintf("SELECT %s FROM \"%w\" WHERE rowid >= ?1 ORDER BY rowid",
                                     columns, table)
                   : sqlite3_mprintf("SELECT %s FROM \"%w\" LIMIT -1 OFFSET ?1", columns, table);
    count = sqlite3_mprintf("SELECT count(*) FROM \"%w\"", table);
    if (rowids == NULL || t->query == NULL || count == NULL) {
        rc = shard_no_memory(s);
    }
    rc = rc == MU_OK ? add_columns(s, db, t->query, table) : rc;
    rc = rc == MU_OK ? count_rows(s, db, t->has_rowid ? rowids : count) : rc;
    sqlite3_free(rowids);
    sqlite3_free(count);
    return rc;
}

static int check_all(const struct shard *s, sqlite3 *db)
{
    char *said;
    int rc = ask(s, db, "PRAGMA quick_check(1)", &said);

    if (rc == MU_OK && (said == NULL || strcmp(said, "ok") != 0)) {
        rc = shard_damaged(s, 0, "%s", said != NULL ? said : "it can't be checked");
    }
    sqlite3_free(said);
    return rc;
}

static int open_sqlite(struct shard *s)
{
    struct table *t = calloc(1, sizeof(*t));
    char *table = NULL, *columns = NULL;
    sqlite3 *db;
    int rc;

    if (t == NULL) {
        return shard_no_memory(s);
    }
    s->own = t;
    rc = connect_to(s, &db);
    if (rc != MU_OK) {
        return rc;
    }
    rc = s->o->skip ? check_all(s, db)
                    : MU_OK; /* Rows can't be skipped, but damage can be told of. */
    rc = rc == MU_OK ? find_table(s, db, &table) : rc;
    rc = rc == MU_OK ? quote_columns(s, &columns) : rc;
    rc = rc == MU_OK ? describe(s, db, table, columns) : rc;
    sqlite3_free(table);
    sqlite3_free(columns);
    sqlite3_close(db);
    return rc;
}

static void close_sqlite(struct shard *s)
{
    struct table *t = s->own;

    if (t != NULL) {
        sqlite3_free(t->query);
        free(t->marks);
        free(t);
    }
}

/* ---- rows ---- */

static void close_rows(struct rows *r)
{
    sqlite3_finalize(r->query);
    sqlite3_close(r->db);
    free(r);
}

static int open_rows(const struct shard *s, struct rows **out)
{
    const struct table *t = s->own;
    struct rows *r = calloc(1, sizeof(*r));
    int code, rc = r != NULL ? connect_to(s, &r->db) : shard_no_memory(s);

    if (rc != MU_OK) {
        free(r);
        return rc;
    }
    code = sqlite3_prepare_v2(r->db, t->query, -1, &r->query, NULL);
    if (code != SQLITE_OK) {
        rc = failed(s, r->db, code);
        close_rows(r);
        return rc;
    }
    *out = r;
    return MU_OK;
}

/* The query stands at row `number`. */
static int go_to(const struct shard *s, struct rows *r, uint64_t number)
{
    const struct table *t = s->own;
    int code = SQLITE_ROW;

    if (!r->runs || number < r->number || number / MARK_EVERY > r->number / MARK_EVERY + 1) {
        sqlite3_reset(r->query);
        r->runs = true;
        r->number = t->has_rowid ? number / MARK_EVERY * MARK_EVERY : number;
        sqlite3_bind_int64(r->query, 1,
                           t->has_rowid ? t->marks[number / MARK_EVERY] : (int64_t)number);
    }
    for (; r->number <= number && code == SQLITE_ROW; r->number++) {
        code = sqlite3_step(r->query);
    }
    if (code == SQLITE_ROW) {
        return MU_OK;
    }
    r->runs = false;
    return code == SQLITE_DONE ? error_say(MU_ESTALE, "%s has changed since it was opened", s->name)
                               : failed(s, r->db, code);
}

static void field_of(sqlite3_stmt *q, int i, mu_field *f)
{
    static const enum mu_type types[] = {[SQLITE_INTEGER] = MU_INTEGER,
                                         [SQLITE_FLOAT] = MU_REAL,
                                         [SQLITE_TEXT] = MU_TEXT,
                                         [SQLITE_BLOB] = MU_BYTES,
                                         [SQLITE_NULL] = MU_NULL};

    f->type = types[sqlite3_column_type(q, i)];
    f->integer = f->type == MU_INTEGER ? sqlite3_column_int64(q, i) : 0;
    f->real = f->type == MU_INTEGER || f->type == MU_REAL ? sqlite3_column_double(q, i) : 0;
    f->data =
        f->type == MU_BYTES ? sqlite3_column_blob(q, i) : (const void *)sqlite3_column_text(q, i);
    f->n = (size_t)sqlite3_column_bytes(q, i);
}

static int read_row(const struct shard *s, struct cursor *c, uint64_t number, mu_record *out)
{
    struct rows *r = c->own;
    size_t n = 0;
    int rc = MU_OK;

    if (r == NULL) {
        rc = open_rows(s, &r);
        c->own = rc == MU_OK ? r : NULL;
    }
    rc = rc == MU_OK ? go_to(s, r, number) : rc;
    rc = rc == MU_OK ? cursor_fields(s, c, s->columns.n + 1) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    for (size_t i = 0; i < s->columns.n; i++) {
        c->fields[i] = (mu_field){.name = s->columns.items[i].name};
        field_of(r->query, (int)i, &c->fields[i]);
        if (c->fields[i].data == NULL && c->fields[i].type != MU_NULL && c->fields[i].n > 0) {
            return shard_no_memory(s);
        }
        n += c->fields[i].n;
    }
    rc = cursor_bytes(s, c, n + 1);
    if (rc != MU_OK) {
        return rc;
    }
    out->n = 0;
    for (size_t i = 0; i < s->columns.n; i++) {
        if (c->fields[i].n > 0) {
            memcpy(c->bytes + out->n, c->fields[i].data, c->fields[i].n);
        }
        out->n += c->fields[i].n;
    }
    out->data = c->bytes;
    out->fields = c->fields;
    out->fields_n = (uint32_t)s->columns.n;
    return MU_OK;
}

static void leave(const struct shard *s, struct cursor *c)
{
    close_rows(c->own);
}

const struct format format_sqlite = {.name = "sqlite",
                                     .bare = true,
                                     .guess = guess,
                                     .open = open_sqlite,
                                     .close = close_sqlite,
                                     .read = read_row,
                                     .leave = leave};
