/* Files, lock and connection of the journal.
 *
 * What is there decides what is done:
 *
 *   head   database   then
 *   none   none       create: head first, so that a database without one is never right
 *   none   any        refuse: the head was lost
 *   at 0   none yet   create: it was interrupted
 *   at n   none       refuse: the database was lost
 *   any    current    verify and replay
 *
 * What is refused stays as it is: SQLite is not let near an empty database, whose log it would
 * delete, and is kept from folding the log into a database that was not found good. */
#include "store/rows.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x4d555354 /* "MUST" */
#define CHECKPOINT_PAGES 1000
#define DB_HEADER_BYTES 100 /* A database has at least these. */
#define WAL_KEEP_BYTES "16777216"

static int sync_dir(struct rows *j, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = MU_OK;

    if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL)) { /* EINVAL: this file system has no need. */
        rc = rows_errno(j, "sync", path);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int make_dir(struct rows *j, const char *dir)
{
    char parent[ROWS_PATH_MAX];
    char *slash;

    if (mkdir(dir, 0700) < 0) {
        return errno == EEXIST ? MU_OK : rows_errno(j, "make", dir);
    }
    snprintf(parent, sizeof(parent), "%s", dir);
    slash = strrchr(parent, '/');
    while (slash && slash > parent && slash[1] == 0) { /* "a/b/": the parent is "a" */
        *slash = 0;
        slash = strrchr(parent, '/');
    }
    if (!slash) {
        return sync_dir(j, ".");
    }
    slash[slash == parent] = 0;
    return sync_dir(j, parent);
}

/* A lock of the kernel's, gone with its process. The number in it is for the message only. */
static int take_lock(struct rows *j)
{
    char path[ROWS_PATH_MAX + 8], pid[32] = "";
    ssize_t n;

    snprintf(path, sizeof(path), "%s-lock", j->db_path);
    j->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (j->lock_fd < 0) {
        return rows_errno(j, "open", path);
    }
    if (flock(j->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK) {
            return rows_errno(j, "lock", path);
        }
        n = read(j->lock_fd, pid, sizeof(pid) - 1);
        return rows_fail(j, MU_EBUSY, "%s is in use by process %d: stop that one first", j->db_path,
                         n > 0 ? atoi(pid) : 0);
    }
    snprintf(pid, sizeof(pid), "%-10d\n", (int)getpid());
    n = pwrite(j->lock_fd, pid, strlen(pid), 0);
    (void)n;
    return MU_OK;
}

/* Files are made here and not by SQLite, for their mode. A missing one counts as empty. */
static int touch(struct rows *j, const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0) {
        return rows_errno(j, "open", path);
    }
    close(fd);
    return MU_OK;
}

static int64_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

static int open_head(struct rows *j, const char *vfs_name)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(vfs_name);
    int rc = touch(j, j->head_path);

    if (rc != MU_OK) {
        return rc;
    }
    rc = vfs ? head_open(&j->head, vfs, j->head_path) : SQLITE_NOTFOUND;
    return rc == SQLITE_OK ? MU_OK : rows_sqlite_error(j, rc, "open the head of");
}

/* What can be refused without SQLite. */
static int check_files(struct rows *j)
{
    char wal[ROWS_PATH_MAX + 8];
    bool empty = size_of(j->db_path) < DB_HEADER_BYTES;

    snprintf(wal, sizeof(wal), "%s-wal", j->db_path);
    if (empty && j->head.exists && j->head.mark.seq > 0) {
        return rows_refuse(j, "it is missing or empty, but %llu records of it were acknowledged",
                           (unsigned long long)j->head.mark.seq);
    }
    if (empty && !j->head.exists && size_of(wal) > 0) {
        return rows_refuse(j, "it is missing or empty, but its log %s is not", wal);
    }
    return MU_OK;
}

static int on_commit(void *arg, sqlite3 *db, const char *name, int pages)
{
    ((struct rows *)arg)->wal_pages = pages;
    return SQLITE_OK;
}

static int connect_db(struct rows *j, const char *vfs_name)
{
    int rc = touch(j, j->db_path);

    if (rc != MU_OK) {
        return rc;
    }
    rc = sqlite3_open_v2(j->db_path, &j->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, vfs_name);
    if (rc != SQLITE_OK) {
        return rows_sqlite_error(j, rc, "open");
    }
    sqlite3_extended_result_codes(j->db, 1);
    sqlite3_db_config(j->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_db_config(j->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_wal_hook(j->db, on_commit, j); /* also ends SQLite's own checkpoints */
    return rows_exec(j, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_size = 4096; "
                        "PRAGMA auto_vacuum = NONE; PRAGMA mmap_size = 0; "
                        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; "
                        "PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY; "
                        "PRAGMA synchronous = FULL; "
                        "PRAGMA journal_size_limit = " WAL_KEEP_BYTES);
}

static int enter_wal(struct rows *j)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(j->db, "PRAGMA journal_mode = WAL", -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc != SQLITE_ROW) {
        rc = rows_sqlite_error(j, rc, "write");
    } else if (strcmp((const char *)sqlite3_column_text(stmt, 0), "wal") != 0 ||
               sqlite3_db_readonly(j->db, "main") != 0) {
        rc = rows_refuse(j, "it says of itself that it can't be written");
    } else {
        rc = MU_OK;
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int create_tables(struct rows *j)
{
    int rc = enter_wal(j);

    if (rc == MU_OK) {
        rc = rows_exec(j, "BEGIN IMMEDIATE");
    }
    if (rc == MU_OK) {
        rc = rows_tables_create(j, j->head.mark.id);
    }
    if (rc == MU_OK) {
        rc = rows_exec(j, "PRAGMA application_id = 0x4d555354; PRAGMA user_version = 3; COMMIT");
    }
    return rc;
}

static int create_head(struct rows *j)
{
    struct head_mark mark = {0};
    int rc;

    random_bytes(mark.id, sizeof(mark.id));
    mark.chain = rows_genesis(mark.id);
    rc = head_create(&j->head, &mark);
    return rc == SQLITE_OK ? MU_OK : rows_sqlite_error(j, rc, "write the head of");
}

/* Structures that hold no record can be damaged too, and would do harm later. */
static int check_structure(struct rows *j)
{
    sqlite3_stmt *stmt = NULL;
    const char *text;
    int rc = sqlite3_prepare_v2(j->db, "PRAGMA quick_check(1)", -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc != SQLITE_ROW) {
        rc = rows_sqlite_error(j, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc, "read");
    } else {
        text = (const char *)sqlite3_column_text(stmt, 0);
        rc = MU_OK;
        if (!text) {
            rc = rows_sqlite_error(j, SQLITE_NOMEM, "read");
        } else if (strstr(text, "to get page") || strstr(text, "to get the page")) {
            rc = rows_fail(j, MU_EIO, "can't read %s: SQLite says \"%s\". Check the disk",
                           j->db_path, text);
        } else if (strcmp(text, "ok") != 0) {
            rc = rows_refuse(j, "SQLite says \"%s\"", text);
        }
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int refuse_version(struct rows *j, long long version)
{
    return rows_fail(j, MU_EVERSION,
                     "%s has format %lld, and this muster knows formats up to %d: it was made by "
                     "a newer one. Run that one, or move the directory away to begin with an "
                     "empty journal",
                     j->db_path, version, STORE_SQLITE_FORMAT);
}

/* The table at the top of this file. */
static int make_current(struct rows *j)
{
    int64_t version, tables_n, app;
    int rc = rows_get_int(j, "PRAGMA user_version", &version);

    if (rc == MU_OK && version > STORE_SQLITE_FORMAT) {
        return refuse_version(j, version);
    }
    if (rc == MU_OK) {
        rc = check_structure(j);
    }
    if (rc == MU_OK) {
        rc = rows_get_int(j, "SELECT count(*) FROM sqlite_schema", &tables_n);
    }
    if (rc == MU_OK) {
        rc = rows_get_int(j, "PRAGMA application_id", &app);
    }
    if (rc != MU_OK) {
        return rc;
    }
    if (version == 0 && tables_n == 0 && j->head.exists && j->head.mark.seq == 0) {
        return create_tables(j);
    }
    if (app != APPLICATION_ID || version != STORE_SQLITE_FORMAT) {
        return rows_refuse(j, "it is not a journal of muster");
    }
    if (!j->head.exists) {
        return rows_refuse(j,
                           "%s is missing or damaged, and without it nobody can tell whether "
                           "all acknowledged records are there",
                           j->head_path);
    }
    return MU_OK;
}

static int open_steps(struct rows *j, const struct store_sqlite_config *config,
                      const struct store_replay *replay)
{
    int rc = make_dir(j, config->dir);

    if (rc == MU_OK) {
        rc = take_lock(j);
    }
    if (rc == MU_OK) {
        rc = open_head(j, config->vfs);
    }
    if (rc == MU_OK) {
        rc = check_files(j);
    }
    if (rc == MU_OK && !j->head.exists && size_of(j->db_path) == 0) {
        rc = create_head(j);
    }
    if (rc == MU_OK) {
        rc = connect_db(j, config->vfs);
    }
    if (rc == MU_OK) {
        rc = make_current(j);
    }
    if (rc == MU_OK) {
        rc = rows_load(j, replay);
    }
    if (rc == MU_OK) {
        rc = enter_wal(j);
    }
    if (rc == MU_OK && !j->stmts[0]) {
        rc = rows_prepare_all(j);
    }
    if (rc == MU_OK && (j->unsure || !j->head.whole || j->head.mark.seq != j->seq)) {
        rc = rows_settle(j);
    }
    return rc == MU_OK ? sync_dir(j, config->dir) : rc;
}

int rows_open(struct rows *j, const struct store_sqlite_config *config,
              const struct store_replay *replay)
{
    int rc;

    *j = (struct rows){.lock_fd = -1};
    j->checkpoint_pages =
        config->checkpoint_pages > 0 ? config->checkpoint_pages : CHECKPOINT_PAGES;
    j->checkpoint_at = j->checkpoint_pages;
    if (!config->dir[0] || strlen(config->dir) > ROWS_DIR_MAX) {
        return rows_fail(j, MU_EINVAL, "the name of the data directory is %s",
                         config->dir[0] ? "longer than 400 bytes" : "empty");
    }
    snprintf(j->db_path, sizeof(j->db_path), "%s/journal.db", config->dir);
    snprintf(j->head_path, sizeof(j->head_path) - 1, "%s/journal.db-head", config->dir);
    rc = open_steps(j, config, replay);
    j->ready = rc == MU_OK;
    if (rc != MU_OK) {
        rows_close(j);
    }
    return rc;
}

void rows_close(struct rows *j)
{
    if (j->ready && j->unsure) {
        rows_settle(j);
    }
    for (int i = 0; i < STMT_N; i++) {
        sqlite3_finalize(j->stmts[i]);
        j->stmts[i] = NULL;
    }
    if (j->db) {
        sqlite3_db_config(j->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !j->ready, NULL);
        sqlite3_close(j->db);
        j->db = NULL;
    }
    head_close(&j->head);
    if (j->lock_fd >= 0) {
        close(j->lock_fd);
        j->lock_fd = -1;
    }
    j->ready = false;
}
