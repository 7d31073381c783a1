/* The words for what goes wrong with a journal: what, in which file, and what to do about it. */
#include "store/rows.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int rows_fail(struct rows *j, int status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(j->error, sizeof(j->error), fmt, args);
    va_end(args);
    return status;
}

int rows_errno(struct rows *j, const char *what, const char *path)
{
    int err = errno;

    return rows_fail(j, err == ENOMEM ? MU_ENOMEM : MU_EIO, "can't %s %s: %s", what, path,
                     strerror(err));
}

int rows_refuse(struct rows *j, const char *fmt, ...)
{
    char why[STORE_ERROR_MAX / 2];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return rows_fail(j, MU_ECORRUPT,
                     "%s can't be trusted: %s. Nothing was changed. Restore all files of its "
                     "directory from one backup, or move the directory away to begin with an "
                     "empty journal",
                     j->db_path, why);
}

int rows_sqlite_error(struct rows *j, int rc, const char *what)
{
    /* The head is written past the database, which then knows of no error. */
    const bool knows = j->db != NULL && (sqlite3_errcode(j->db) & 0xff) == (rc & 0xff);
    const char *detail = knows ? sqlite3_errmsg(j->db) : sqlite3_errstr(rc);
    int err = knows ? sqlite3_system_errno(j->db) : 0;

    switch (rc & 0xff) {
    case SQLITE_FULL:
        return rows_fail(j, MU_EIO,
                         "can't %s %s: the disk is full. Free some space: writing goes on by "
                         "itself",
                         what, j->db_path);
    case SQLITE_NOMEM:
        return rows_fail(j, MU_ENOMEM, "can't %s %s: out of memory", what, j->db_path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return rows_fail(j, MU_EBUSY, "%s is in use by another process: stop that one first",
                         j->db_path);
    case SQLITE_ERROR: /* Our statements are right: the tables are not. */
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT:
        return rows_refuse(j, "SQLite says \"%s\"", detail);
    default:
        return rows_fail(j, MU_EIO, "can't %s %s: %s%s%s", what, j->db_path, detail,
                         err ? ": " : "", err ? strerror(err) : "");
    }
}

int rows_exec(struct rows *j, const char *sql)
{
    int rc = sqlite3_exec(j->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? MU_OK : rows_sqlite_error(j, rc, "write");
}

int rows_get_int(struct rows *j, const char *sql, int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(j->db, sql, -1, &stmt, NULL);
    int status = MU_OK;

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        *out = sqlite3_column_int64(stmt, 0);
    } else {
        status = rows_sqlite_error(j, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc, "read");
    }
    sqlite3_finalize(stmt);
    return status;
}
