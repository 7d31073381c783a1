/* What only the store on SQLite promises: groups, files, one process at a time, older formats. */
#include "unit/store/shim_kit.h"
#include "unit/store/store_kit.h"

#include "base/log.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const unsigned char V1_ID[STORE_ID_BYTES] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                                    0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
#define V1_RECORDS 6

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

/* --- Format 1 --- */

static void make_v1(struct kit_image *image)
{
    char path[600];
    char *sql;
    struct stat info;
    sqlite3 *db;
    FILE *in = fopen(UNIT_DATA "/journal_v1.sql", "rb");

    assert_non_null(in);
    assert_int_equal(fstat(fileno(in), &info), 0);
    sql = calloc(1, (size_t)info.st_size + 1);
    assert_int_equal(fread(sql, 1, (size_t)info.st_size, in), info.st_size);
    fclose(in);
    snprintf(path, sizeof(path), "%s/journal.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    free(sql);
    if (image) {
        kit_image_read(dir, image);
    }
}

static void check_v1(void)
{
    struct kit_seen seen;
    struct store *st = open_well(&seen);
    struct kit_log log = {0};

    kit_check(&seen, st, V1_RECORDS, V1_RECORDS);
    assert_memory_equal(store_id(st), V1_ID, sizeof(V1_ID));
    assert_int_equal(kit_append(st, V1_RECORDS + 1), MU_OK);
    store_flush(st);
    store_poll(st, kit_on_done, &log);
    assert_int_equal(log.done[0].status, MU_OK);
    assert_int_equal(kit_snapshot(st, V1_RECORDS), MU_OK);
    store_close(st);
    st = open_well(&seen);
    kit_check(&seen, st, V1_RECORDS + 1, V1_RECORDS + 1);
    store_close(st);
}

static void a_file_of_format_1_opens_and_goes_on(void **state)
{
    make_v1(NULL);
    check_v1();
}

static void a_migration_killed_anywhere_can_be_done_again(void **state)
{
    struct kit_image image;
    unsigned killed = 0;
    int status = 1;

    make_v1(&image);
    for (uint64_t n = 1; status != 0; n++) {
        struct kit_seen seen;
        struct store *st;
        pid_t child;

        kit_image_write(dir, &image);
        child = fork();
        if (child == 0) {
            shim_arm(SHIM_TEAR, SHIM_CHANGE, n, 1);
            if (kit_open(dir, &seen, &st, error) != MU_OK) {
                _exit(1);
            }
            store_close(st);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        killed += WIFSIGNALED(status);
        check_v1();
    }
    print_message("# killed at each of %u operations\n", killed);
    assert_true(killed > 10);
    kit_image_free(&image);
}

static void a_migration_that_fails_anywhere_can_be_done_again(void **state)
{
    struct kit_image image;
    unsigned failed = 0;

    make_v1(&image);
    for (uint64_t n = 1; n < 60; n++) {
        struct kit_seen seen;
        struct store *st;

        kit_image_write(dir, &image);
        shim_arm(SHIM_FAIL, SHIM_CHANGE, n, 1);
        if (kit_open(dir, &seen, &st, error) == MU_OK) {
            store_close(st);
        } else {
            failed++;
        }
        shim_arm(SHIM_PASS, 0, 0, 0);
        check_v1();
    }
    assert_true(failed > 5);
    kit_image_free(&image);
}

static void damage_in_format_1_is_refused(void **state)
{
    static const char *const EDITS[] = {
        "UPDATE journal SET data = x'00' WHERE seq = 3",
        "UPDATE journal SET sum = sum + 1 WHERE seq = 6",
        "DELETE FROM journal WHERE seq = 4",
        "DELETE FROM meta",
        "UPDATE meta SET value = x'00'",
        "DROP TABLE journal",
    };
    struct kit_image image;

    make_v1(&image);
    for (size_t i = 0; i < ARRAY_LEN(EDITS); i++) {
        struct kit_seen seen;
        struct store *st;
        char path[600];
        sqlite3 *db;

        kit_image_write(dir, &image);
        snprintf(path, sizeof(path), "%s/journal.db", dir);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, EDITS[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_int_equal(kit_open(dir, &seen, &st, error), MU_ECORRUPT);
        assert_non_null(strstr(error, path));
    }
    kit_image_free(&image);
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
        WITH_DIR(a_file_of_format_1_opens_and_goes_on),
        WITH_DIR(a_migration_killed_anywhere_can_be_done_again),
        WITH_DIR(a_migration_that_fails_anywhere_can_be_done_again),
        WITH_DIR(damage_in_format_1_is_refused),
    };

    log_set_level((enum log_level) - 1); /* Failures are meant here. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
