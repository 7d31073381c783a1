/* What only the store on SQLite promises: groups, files, one process at a time. */
#include "unit/store/shim_kit.h"
#include "unit/store/store_kit.h"

#include "base/log.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[512];
static char error[STORE_ERROR_MAX];

static int make_dir(void **state)
{
    kit_dir_make(dir, sizeof(dir));
    shim_register();
    shim_arm(SHIM_PASS, 0, 0, 0);
    error[0] = 0;
    return 0;
}

static int remove_dir(void **state)
{
    kit_dir_remove(dir);
    return 0;
}

static struct store *open_well(struct kit_seen *seen)
{
    struct store *st;

    if (kit_open(dir, seen, &st, error) != MU_OK) {
        fail_msg("%s", error);
    }
    return st;
}

/* One record, which waits for the disk until shim_release(). */
static void append_held(struct store *st)
{
    shim_arm(SHIM_PASS, SHIM_SYNC, 0, 0);
    shim_hold();
    assert_int_equal(kit_append(st, 1), MU_OK);
    shim_wait_held();
}

/* While the first waits for the disk the others gather, and share the next transaction. */
static void all_that_is_queued_shares_one_transaction(void **state)
{
    struct kit_seen seen;
    struct kit_log log = {0};
    struct store *st = open_well(&seen);

    append_held(st);
    for (uint64_t tag = 2; tag <= 200; tag++) {
        assert_int_equal(store_append(st, "x", 1, tag), MU_OK);
    }
    shim_release();
    store_flush(st);
    store_poll(st, kit_on_done, &log);
    assert_int_equal(log.n, 200);
    assert_int_equal(log.done[199].seq, 200);
    /* Two commits of two syncs each, log and head; the log's header and a checkpoint may add some.
     */
    assert_in_range(shim_count(), 4, 9);
    store_close(st);
}

static void nothing_is_acknowledged_before_it_is_synced(void **state)
{
    struct kit_seen seen;
    struct kit_log log = {0};
    struct store *st = open_well(&seen);

    append_held(st);
    usleep(2000);
    assert_int_equal(store_poll(st, kit_on_done, &log), 0);
    shim_release();
    store_flush(st);
    assert_int_equal(store_poll(st, kit_on_done, &log), 1);
    store_close(st);
}

static void a_second_process_is_told_who_has_it(void **state)
{
    struct kit_seen seen;
    struct store *st = open_well(&seen), *second;
    char pid[32];
    int status;
    pid_t child = fork();

    if (child == 0) {
        snprintf(pid, sizeof(pid), "process %d:", (int)getppid());
        if (kit_open(dir, &seen, &second, error) != MU_EBUSY || !strstr(error, pid) ||
            !strstr(error, dir)) {
            _exit(1);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(kit_append(st, 1), MU_OK);
    store_close(st);
    st = open_well(&seen);
    kit_check(&seen, st, 1, 1);
    store_close(st);
}

/* Somebody looks at the file with another program. */
static void a_database_locked_by_others_is_busy(void **state)
{
    struct kit_seen seen;
    struct store *st = open_well(&seen);
    char path[600];
    sqlite3 *db;

    store_close(st);
    snprintf(path, sizeof(path), "%s/journal.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;"
                                  "SELECT * FROM journal",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(kit_open(dir, &seen, &st, error), MU_EBUSY);
    assert_non_null(strstr(error, path));
    sqlite3_close(db);
    st = open_well(&seen);
    store_close(st);
}

static void the_files_are_for_their_owner_only(void **state)
{
    static const char *const NAMES[] = {"", "/journal.db", "/journal.db-wal", "/journal.db-head",
                                        "/journal.db-lock"};
    char below[600], path[700];
    struct store_sqlite_config config = {.dir = below};
    struct kit_seen seen;
    struct store_replay replay = kit_replay(&seen);
    struct store *st;
    struct stat info;
    mode_t old = umask(0);

    snprintf(below, sizeof(below), "%s/made/", dir);
    assert_int_equal(store_sqlite_open(&config, &replay, &st, error), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        snprintf(path, sizeof(path), "%s%s", below, NAMES[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, i == 0 ? 0700 : 0600);
    }
    store_close(st);
    umask(old);
    kit_dir_remove(below);
}

static void a_directory_that_can_not_be_made_is_named(void **state)
{
    char below[600], longer[1000] = "";
    struct store_sqlite_config config = {.dir = below};
    struct kit_seen seen;
    struct store_replay replay = kit_replay(&seen);
    struct store *st = NULL;

    snprintf(below, sizeof(below), "%s/not/there", dir);
    assert_int_equal(store_sqlite_open(&config, &replay, &st, error), MU_EIO);
    assert_non_null(strstr(error, below));
    config.dir = "";
    assert_int_equal(store_sqlite_open(&config, &replay, &st, error), MU_EINVAL);
    memset(longer, 'x', sizeof(longer) - 1);
    config.dir = longer;
    assert_int_equal(store_sqlite_open(&config, &replay, &st, error), MU_EINVAL);
    assert_null(st);
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIR(all_that_is_queued_shares_one_transaction),
        WITH_DIR(nothing_is_acknowledged_before_it_is_synced),
        WITH_DIR(a_second_process_is_told_who_has_it),
        WITH_DIR(a_database_locked_by_others_is_busy),
        WITH_DIR(the_files_are_for_their_owner_only),
        WITH_DIR(a_directory_that_can_not_be_made_is_named),
    };

    log_set_level((enum log_level) - 1); /* Failures are meant here. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
