/* Files that were cut, changed, mixed or lost while nobody looked: all acknowledged records are
 * there, or the open is refused with words that help, and then nothing was touched. */
#include "unit/store/shim_kit.h"
#include "unit/store/store_kit.h"

#include "base/log.h"
#include "base/prng.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSED 0 /* everything in the database */
#define LIVE 1   /* part of it in the log, behind and in front of a checkpoint */

static char dir[512];
static struct kit_image images[2];
static uint64_t records_n;
static size_t where_file; /* the damage that is tried */
static long where_at;
static char last_error[STORE_ERROR_MAX];

static struct store *open_well(struct kit_seen *seen)
{
    char error[STORE_ERROR_MAX];
    struct store *st;

    if (kit_open(dir, seen, &st, error) != MU_OK) {
        fail_msg("%s", error);
    }
    return st;
}

static void append_well(struct store *st, uint64_t tag)
{
    struct kit_log log = {0};

    assert_int_equal(kit_append(st, tag), MU_OK);
    store_flush(st);
    store_poll(st, kit_on_done, &log);
    if (log.done[0].status != MU_OK) {
        fail_msg("%s (byte %ld of %s is damaged)", store_error(st), where_at,
                 KIT_NAMES[where_file]);
    }
}

static int make_images(void **state)
{
    struct kit_seen seen;
    struct kit_log log = {0};
    struct store *st;

    kit_dir_make(dir, sizeof(dir));
    shim_register();
    shim_arm(SHIM_PASS, 0, 0, 0);
    st = open_well(&seen);
    records_n = 0;
    while (records_n < 9) {
        append_well(st, ++records_n);
    }
    assert_int_equal(kit_snapshot(st, 3), MU_OK);
    store_flush(st);
    store_poll(st, kit_on_done, &log);
    while (records_n < 12) {
        append_well(st, ++records_n);
    }
    kit_image_read(dir, &images[LIVE]);
    assert_true(images[LIVE].n[0] > 8192 && images[LIVE].n[1] > 8192);
    store_close(st);
    kit_image_read(dir, &images[CLOSED]);
    assert_true(images[CLOSED].n[1] < 0);
    return 0;
}

static int free_images(void **state)
{
    kit_image_free(&images[CLOSED]);
    kit_image_free(&images[LIVE]);
    kit_dir_remove(dir);
    return 0;
}

struct tally {
    unsigned refused, whole;
};

/* A refusal is short of nothing: what, where, what to do. */
static void check_refusal(int status, const char *error)
{
    if (status != MU_ECORRUPT && status != MU_EVERSION && status != MU_EIO && status != MU_EBUSY) {
        fail_msg("status %d: %s", status, error);
    }
    assert_non_null(strstr(error, dir));
    assert_non_null(strstr(error, "journal.db"));
    if (status == MU_ECORRUPT || status == MU_EVERSION) {
        assert_non_null(strstr(error, "move the directory away"));
    }
}

/* Puts the damaged image there and opens it. A store that opens must also go on well. */
static void try_image(const struct kit_image *image, bool go_on, struct tally *tally)
{
    char error[STORE_ERROR_MAX] = "";
    struct kit_seen seen;
    struct store *st;
    int rc;

    kit_image_write(dir, image);
    rc = kit_open(dir, &seen, &st, error);
    if (rc != MU_OK) {
        struct kit_image after;

        check_refusal(rc, error);
        memcpy(last_error, error, sizeof(last_error));
        kit_image_read(dir, &after);
        if (!kit_image_equal(image, &after)) {
            fail_msg("a refusal changed files of %ld, %ld, %ld bytes: %s", image->n[0], image->n[1],
                     image->n[2], error);
        }
        kit_image_free(&after);
        tally->refused++;
        return;
    }
    kit_check(&seen, st, records_n, records_n);
    tally->whole++;
    if (go_on) {
        append_well(st, records_n + 1);
        store_close(st);
        st = open_well(&seen);
        kit_check(&seen, st, records_n + 1, records_n + 1);
    }
    store_close(st);
}

static void try_flip(const struct kit_image *image, size_t f, long at, unsigned char mask,
                     bool go_on, struct tally *tally)
{
    where_file = f;
    where_at = at;
    image->data[f][at] ^= mask;
    try_image(image, go_on, tally);
    image->data[f][at] ^= mask;
}

static void sweep_flips(const struct kit_image *image, uint64_t stride, struct tally *tally)
{
    struct prng p;

    prng_init(&p, 7);
    for (size_t f = 0; f < KIT_FILES; f++) {
        for (long at = (long)prng_below(&p, stride); at < image->n[f]; at += (long)stride) {
            unsigned char bit = (unsigned char)(1u << prng_below(&p, 8));

            try_flip(image, f, at, prng_below(&p, 4) ? bit : 0xff, prng_below(&p, 4) == 0, tally);
        }
    }
    for (long at = 0; at < 100; at++) { /* the database's header: few bytes, each with a meaning */
        try_flip(image, 0, at, (unsigned char)(1u << prng_below(&p, 8)), true, tally);
        try_flip(image, 0, at, 0xff, true, tally);
    }
}

static void a_flip_of_any_byte_is_harmless_or_refused(void **state)
{
    struct tally tally = {0};

    sweep_flips(&images[CLOSED], kit_stride(151), &tally);
    sweep_flips(&images[LIVE], kit_stride(151), &tally);
    print_message("# %u flips: %u refused, %u harmless\n", tally.refused + tally.whole,
                  tally.refused, tally.whole);
    assert_true(tally.refused > 100 && tally.whole > 100);
}

static void sweep_lengths(struct kit_image *image, uint64_t stride, struct tally *tally)
{
    struct prng p;

    prng_init(&p, 8);
    for (size_t f = 0; f < KIT_FILES; f++) {
        long whole = image->n[f];

        for (long n = 0; n < whole; n++) {
            bool edge = n % 4096 < 2 || (n >= 32 && (n - 32) % 4120 < 2);

            if (edge || prng_below(&p, stride) == 0) {
                image->n[f] = n;
                try_image(image, prng_below(&p, 4) == 0, tally);
            }
        }
        image->n[f] = whole;
    }
}

static void a_file_cut_at_any_length_is_harmless_or_refused(void **state)
{
    struct tally tally = {0};

    sweep_lengths(&images[CLOSED], kit_stride(151), &tally);
    sweep_lengths(&images[LIVE], kit_stride(151), &tally);
    print_message("# %u lengths: %u refused, %u harmless\n", tally.refused + tally.whole,
                  tally.refused, tally.whole);
    assert_true(tally.refused > 100);
}

static void a_missing_file_is_refused(void **state)
{
    for (int set = 0; set < 2; set++) {
        for (size_t f = 0; f < KIT_FILES; f++) {
            struct kit_image image = images[set];
            struct tally tally = {0};

            if (image.n[f] < 0) {
                continue;
            }
            image.n[f] = -1;
            try_image(&image, true, &tally);
            assert_int_equal(tally.refused, 1);
            if (f == 2) {
                assert_non_null(strstr(last_error, "journal.db-head is missing"));
            }
        }
    }
}

/* The database and its log from an earlier time, with the head of now; and the reverse, which is
 * what a crash before the head was written looks like. */
static void an_older_journal_is_refused_but_an_older_head_is_not(void **state)
{
    struct kit_image now, mixed;
    struct tally tally = {0};
    struct kit_seen seen;
    struct store *st;

    kit_image_write(dir, &images[CLOSED]);
    st = open_well(&seen);
    append_well(st, ++records_n);
    store_close(st);
    kit_image_read(dir, &now);

    mixed = images[CLOSED];
    mixed.data[2] = now.data[2];
    try_image(&mixed, false, &tally);
    assert_int_equal(tally.refused, 1);
    mixed = now;
    mixed.data[2] = images[CLOSED].data[2];
    try_image(&mixed, true, &tally);
    assert_int_equal(tally.whole, 1);
    kit_image_free(&now);
    records_n--;
}

/* Edits the closed database with SQL, then opens it. */
static int open_edited(const char *sql, char *error, struct kit_seen *seen, struct store **st)
{
    char path[600];
    sqlite3 *db;

    kit_image_write(dir, &images[CLOSED]);
    snprintf(path, sizeof(path), "%s/journal.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return kit_open(dir, seen, st, error);
}

static void rows_that_are_not_ours_are_refused(void **state)
{
    static const char *const EDITS[] = {
        "DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)",
        "DELETE FROM journal WHERE seq = (SELECT min(seq) FROM journal)",
        "DELETE FROM journal WHERE seq = (SELECT min(seq) + 1 FROM journal)",
        "DELETE FROM journal",
        "UPDATE journal SET data = x'00' WHERE seq = (SELECT max(seq) FROM journal)",
        "UPDATE journal SET data = CAST(data AS TEXT) || 'x' WHERE seq % 2",
        "UPDATE journal SET sum = x'00' WHERE seq = (SELECT min(seq) FROM journal)",
        "UPDATE journal SET sum = (SELECT sum FROM journal ORDER BY seq LIMIT 1)",
        "UPDATE journal SET seq = seq + 1000; UPDATE journal SET seq = seq - 999",
        "UPDATE journal SET seq = 9999 WHERE seq = (SELECT max(seq) - 1 FROM journal);"
        "UPDATE journal SET seq = seq - 1 WHERE seq = (SELECT max(seq) - 1 FROM journal"
        " WHERE seq < 9999)",
        "INSERT INTO journal VALUES (1, x'', x'')",
        "DELETE FROM snapshot WHERE n = 1",
        "DELETE FROM snapshot WHERE n = (SELECT max(n) FROM snapshot)",
        "UPDATE snapshot SET data = x'0102'",
        "INSERT INTO snapshot SELECT snapshot_seq, 100, x'', x'00' FROM meta",
        "DELETE FROM meta",
        "UPDATE meta SET snapshot_seq = snapshot_seq - 1",
        "UPDATE meta SET snapshot_n = 0; DELETE FROM snapshot",
        "UPDATE meta SET id = randomblob(16)",
        "CREATE INDEX more ON journal (sum)",
        "CREATE TRIGGER t AFTER INSERT ON journal BEGIN DELETE FROM journal; END",
        "DROP TABLE snapshot",
        "PRAGMA application_id = 1",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 1",
    };
    char error[STORE_ERROR_MAX];
    struct kit_seen seen;
    struct store *st;

    for (size_t i = 0; i < ARRAY_LEN(EDITS); i++) {
        int rc = open_edited(EDITS[i], error, &seen, &st);

        if (rc != MU_ECORRUPT) {
            fail_msg("%s: status %d", EDITS[i], rc);
        }
        check_refusal(rc, error);
    }
}

/* The same number, whole in itself, but of another history. */
static void a_row_of_another_journal_is_refused(void **state)
{
    char other[512], error[STORE_ERROR_MAX], sql[1200];
    struct kit_seen seen;
    struct store *st;

    kit_dir_make(other, sizeof(other));
    assert_int_equal(kit_open(other, &seen, &st, error), MU_OK);
    for (uint64_t tag = 1; tag <= records_n; tag++) {
        append_well(st, tag);
    }
    store_close(st);
    snprintf(sql, sizeof(sql),
             "ATTACH '%s/journal.db' AS other; DELETE FROM journal WHERE seq = 8;"
             "INSERT INTO journal SELECT * FROM other.journal WHERE seq = 8",
             other);
    assert_int_equal(open_edited(sql, error, &seen, &st), MU_ECORRUPT);
    check_refusal(MU_ECORRUPT, error);
    kit_dir_remove(other);
}

/* A list of free pages that names one in use: no record is wrong yet, but the next one would
 * overwrite others. */
static void damage_that_would_do_harm_later_is_refused(void **state)
{
    static const unsigned char FREE_PAGE_2[8] = {0, 0, 0, 2, 0, 0, 0, 1};
    struct tally tally = {0};

    memcpy(images[CLOSED].data[0] + 32, FREE_PAGE_2, sizeof(FREE_PAGE_2));
    try_image(&images[CLOSED], true, &tally);
    assert_int_equal(tally.refused, 1);
}

static void a_newer_format_is_refused_by_name(void **state)
{
    char error[STORE_ERROR_MAX];
    struct kit_seen seen;
    struct store *st;

    assert_int_equal(open_edited("PRAGMA user_version = 4", error, &seen, &st), MU_EVERSION);
    assert_non_null(strstr(error, "format 4"));
    assert_non_null(strstr(error, "up to 3"));
    check_refusal(MU_EVERSION, error);
}

/* Rows that were committed but not acknowledged, the last of them damaged since. Nobody was told of
 * them, and the head proves it. */
static void a_damaged_row_that_was_never_acknowledged_is_dropped(void **state)
{
    char error[STORE_ERROR_MAX];
    struct kit_image now;
    struct kit_seen seen;
    struct store *st;
    uint64_t n = records_n;

    kit_image_write(dir, &images[CLOSED]);
    st = open_well(&seen);
    append_well(st, n + 1);
    append_well(st, n + 2);
    store_close(st);
    kit_image_read(dir, &now);
    assert_int_equal(now.n[2], images[CLOSED].n[2]);
    memcpy(now.data[2], images[CLOSED].data[2], (size_t)now.n[2]); /* the head of before */
    kit_image_free(&images[CLOSED]);
    images[CLOSED] = now;
    assert_int_equal(open_edited("UPDATE journal SET data = x'00' WHERE seq = "
                                 "(SELECT max(seq) FROM journal)",
                                 error, &seen, &st),
                     MU_OK);
    kit_check(&seen, st, n + 1, n + 1);
    append_well(st, n + 2);
    store_close(st);
    st = open_well(&seen);
    kit_check(&seen, st, n + 2, n + 2);
    store_close(st);

    now.data[2][5] ^= 1; /* With half a head there is no proof. */
    assert_int_equal(open_edited("UPDATE journal SET data = x'00' WHERE seq = "
                                 "(SELECT max(seq) FROM journal)",
                                 error, &seen, &st),
                     MU_ECORRUPT);
    check_refusal(MU_ECORRUPT, error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flip_of_any_byte_is_harmless_or_refused, make_images,
                                        free_images),
        cmocka_unit_test_setup_teardown(a_file_cut_at_any_length_is_harmless_or_refused,
                                        make_images, free_images),
        cmocka_unit_test_setup_teardown(a_missing_file_is_refused, make_images, free_images),
        cmocka_unit_test_setup_teardown(an_older_journal_is_refused_but_an_older_head_is_not,
                                        make_images, free_images),
        cmocka_unit_test_setup_teardown(rows_that_are_not_ours_are_refused, make_images,
                                        free_images),
        cmocka_unit_test_setup_teardown(a_row_of_another_journal_is_refused, make_images,
                                        free_images),
        cmocka_unit_test_setup_teardown(damage_that_would_do_harm_later_is_refused, make_images,
                                        free_images),
        cmocka_unit_test_setup_teardown(a_newer_format_is_refused_by_name, make_images,
                                        free_images),
        cmocka_unit_test_setup_teardown(a_damaged_row_that_was_never_acknowledged_is_dropped,
                                        make_images, free_images),
    };

    log_set_level((enum log_level) - 1); /* Damage is meant here. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
