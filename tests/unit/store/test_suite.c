/* What every store promises, asked of each implementation. */
#include "unit/store/shim_kit.h"
#include "unit/store/store_kit.h"

#include "base/log.h"
#include "lib/memory_store.h"

#include <stdlib.h>
#include <string.h>

/* One kind of store, in a place that outlives it. */
struct place {
    const char *kind;
    char dir[512];
    struct store_disk *disk;
    int notified;
};

static void on_notify(void *arg)
{
    struct place *p = arg;

    __atomic_fetch_add(&p->notified, 1, __ATOMIC_SEQ_CST);
}

static int open_with(struct place *p, const struct store_replay *replay, struct store **out)
{
    struct store_notify notify = {on_notify, p};
    struct store_sqlite_config config = {.dir = p->dir, .notify = notify, .vfs = SHIM};
    char error[STORE_ERROR_MAX];

    if (p->disk) {
        return store_memory_open(p->disk, replay, &notify, out, error);
    }
    return store_sqlite_open(&config, replay, out, error);
}

static struct store *reopen(struct place *p, struct kit_seen *seen)
{
    struct store_replay replay = kit_replay(seen);
    struct store *st = NULL;

    assert_int_equal(open_with(p, &replay, &st), MU_OK);
    assert_false(seen->garbled);
    return st;
}

/* The next write fails. */
static void break_next_write(struct place *p, struct store *st)
{
    if (p->disk) {
        store_memory_fail(st, MU_EIO, false);
    } else {
        shim_arm(SHIM_FAIL, SHIM_CHANGE, 1, 1);
    }
}

static void settle(struct store *st, struct kit_log *log)
{
    log->n = 0;
    store_flush(st);
    store_poll(st, kit_on_done, log);
}

static int place_memory(void **state)
{
    static const unsigned char ID[STORE_ID_BYTES] = "0123456789abcde";
    struct place *p = calloc(1, sizeof(*p));

    p->kind = "memory";
    p->disk = store_disk_new(ID);
    *state = p;
    return 0;
}

static int place_sqlite(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    p->kind = "sqlite";
    kit_dir_make(p->dir, sizeof(p->dir));
    shim_register();
    shim_arm(SHIM_PASS, 0, 0, 0);
    *state = p;
    return 0;
}

static int place_remove(void **state)
{
    struct place *p = *state;

    if (p->disk) {
        store_disk_free(p->disk);
    } else {
        kit_dir_remove(p->dir);
    }
    free(p);
    return 0;
}

static void a_new_store_is_empty_and_keeps_its_id(void **state)
{
    struct kit_seen seen;
    struct store *st = reopen(*state, &seen);
    unsigned char id[STORE_ID_BYTES];

    assert_int_equal(store_seq(st), 0);
    assert_int_equal(store_snapshot_seq(st), 0);
    assert_string_equal(store_error(st), "");
    assert_int_equal(seen.last, 0);
    memcpy(id, store_id(st), sizeof(id));
    store_close(st);
    st = reopen(*state, &seen);
    assert_memory_equal(store_id(st), id, sizeof(id));
    store_close(st);
}

static void records_come_back_as_they_were_appended(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);

    for (uint64_t tag = 1; tag <= 40; tag++) {
        assert_int_equal(kit_append(st, tag), MU_OK);
    }
    settle(st, &log);
    store_close(st);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 40, 40);
    store_close(st);
}

static void completions_come_in_order_with_their_numbers(void **state)
{
    struct place *p = *state;
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(p, &seen);

    for (uint64_t i = 1; i <= 300; i++) {
        assert_int_equal(kit_append(st, i), MU_OK);
    }
    settle(st, &log);
    assert_int_equal(log.n, 300);
    for (uint64_t i = 0; i < 300; i++) {
        assert_int_equal(log.done[i].cookie, i + 1);
        assert_int_equal(log.done[i].seq, i + 1);
        assert_int_equal(log.done[i].status, MU_OK);
    }
    assert_int_equal(store_seq(st), 300);
    assert_true(__atomic_load_n(&p->notified, __ATOMIC_SEQ_CST) > 0);
    assert_int_equal(store_poll(st, kit_on_done, &log), 0);
    store_close(st);
}

static void close_writes_what_is_queued(void **state)
{
    struct kit_seen seen;
    struct store *st = reopen(*state, &seen);

    for (uint64_t tag = 1; tag <= 5; tag++) {
        assert_int_equal(kit_append(st, tag), MU_OK);
    }
    store_close(st);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 5, 5);
    store_close(st);
    store_close(NULL);
}

static void a_snapshot_stands_for_the_records_before_it(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);

    for (uint64_t tag = 1; tag <= 10; tag++) {
        assert_int_equal(kit_append(st, tag), MU_OK);
    }
    settle(st, &log);
    assert_int_equal(kit_append(st, 11), MU_OK);
    assert_int_equal(kit_snapshot(st, 7), MU_OK);
    settle(st, &log);
    assert_int_equal(log.n, 2);
    assert_int_equal(log.done[1].cookie, 7);
    assert_int_equal(log.done[1].seq, 7);
    assert_int_equal(store_snapshot_seq(st), 7);
    store_close(st);

    st = reopen(*state, &seen);
    kit_check(&seen, st, 11, 11);
    assert_int_equal(store_snapshot_seq(st), 7);
    assert_int_equal(seen.first, 8);
    assert_int_equal(kit_snapshot(st, 7), MU_EINVAL); /* that is the one there is */
    settle(st, &log);
    assert_int_equal(kit_snapshot(st, 11), MU_OK);
    settle(st, &log);
    store_close(st);

    st = reopen(*state, &seen);
    kit_check(&seen, st, 11, 11);
    assert_int_equal(store_snapshot_seq(st), 11);
    assert_int_equal(kit_append(st, 12), MU_OK);
    store_close(st);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 12, 12);
    store_close(st);
}

static int piece(struct store *st, uint64_t upto, size_t from, size_t n, bool last)
{
    unsigned char bytes[4][KIT_RECORD_MAX];
    struct store_bytes rows[4];

    for (size_t i = 0; i < n; i++) {
        rows[i].data = bytes[i];
        rows[i].n = kit_make(kit_snapshot_tag(upto, from + i), bytes[i]);
    }
    return store_snapshot(st, upto, rows, n, last, upto);
}

/* Appends go on between its pieces; before the last there is nothing of it, and one that was left
 * behind does not come back. */
static void a_snapshot_in_pieces_counts_with_its_last(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);
    const uint64_t upto = 6; /* has three rows */

    assert_int_equal(kit_snapshot_n(upto), 3);
    for (uint64_t tag = 1; tag <= 7; tag++) {
        assert_int_equal(kit_append(st, tag), MU_OK);
    }
    settle(st, &log);
    assert_int_equal(piece(st, 5, 0, 1, false), MU_OK); /* begun, and given up */
    settle(st, &log);
    assert_int_equal(piece(st, upto, 0, 1, false), MU_OK);
    assert_int_equal(piece(st, upto, 1, 1, false), MU_EAGAIN);
    assert_int_equal(kit_append(st, 8), MU_OK);
    settle(st, &log);
    assert_int_equal(store_snapshot_seq(st), 0);
    store_close(st);

    st = reopen(*state, &seen);
    kit_check(&seen, st, 8, 8);
    assert_int_equal(seen.first, 1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(store_snapshot_seq(st), 0);
        assert_int_equal(piece(st, upto, i, 1, i == 2), MU_OK);
        assert_int_equal(kit_append(st, 9 + i), MU_OK);
        settle(st, &log);
        assert_int_equal(log.n, 2);
        assert_int_equal(log.done[0].status + log.done[1].status, MU_OK);
    }
    assert_int_equal(store_snapshot_seq(st), upto);
    store_close(st);

    st = reopen(*state, &seen);
    kit_check(&seen, st, 11, 11);
    assert_int_equal(seen.first, upto + 1);
    store_close(st);
}

static void a_piece_that_fails_takes_those_before_it_along(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);

    for (uint64_t tag = 1; tag <= 6; tag++) {
        assert_int_equal(kit_append(st, tag), MU_OK);
    }
    settle(st, &log);
    assert_int_equal(piece(st, 6, 0, 2, false), MU_OK);
    settle(st, &log);
    break_next_write(*state, st);
    assert_int_equal(piece(st, 6, 2, 1, true), MU_OK);
    settle(st, &log);
    assert_int_equal(log.done[0].status, MU_EIO);
    assert_int_equal(piece(st, 6, 0, 3, true), MU_OK);
    settle(st, &log);
    assert_int_equal(log.done[0].status, MU_OK);
    store_close(st);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 6, 6);
    store_close(st);
}

static void an_empty_snapshot_is_one(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);

    assert_int_equal(kit_append(st, 1), MU_OK);
    settle(st, &log);
    assert_int_equal(store_snapshot(st, 1, NULL, 0, true, 9), MU_OK);
    settle(st, &log);
    assert_int_equal(log.done[0].status, MU_OK);
    store_close(st);
    st = reopen(*state, &seen);
    assert_int_equal(store_seq(st), 1);
    assert_int_equal(store_snapshot_seq(st), 1);
    assert_int_equal(seen.snapshot_n + seen.last, 0);
    store_close(st);
}

static void a_snapshot_of_what_is_not_known_durable_is_refused(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);

    assert_int_equal(kit_snapshot(st, 0), MU_EINVAL);
    assert_int_equal(kit_append(st, 1), MU_OK);
    assert_int_equal(kit_append(st, 2), MU_OK);
    store_flush(st);
    assert_int_equal(kit_snapshot(st, 1), MU_EINVAL); /* durable, but not yet delivered */
    store_poll(st, kit_on_done, (log.n = 0, &log));
    assert_int_equal(kit_snapshot(st, 3), MU_EINVAL);
    assert_int_equal(kit_snapshot(st, 2), MU_OK);
    assert_int_equal(kit_snapshot(st, 2), MU_EAGAIN); /* one at a time */
    settle(st, &log);
    assert_int_equal(kit_snapshot(st, 1), MU_EINVAL); /* never back */
    store_close(st);
}

static void sizes_have_limits(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);
    unsigned char *big = calloc(1, STORE_RECORD_MAX + 1);
    struct store_bytes row = {big, STORE_RECORD_MAX + 1};
    int rc = MU_OK, n = 0;

    assert_int_equal(store_append(st, big, STORE_RECORD_MAX + 1, 1), MU_ELIMIT);
    assert_int_equal(kit_append(st, 1), MU_OK);
    settle(st, &log);
    assert_int_equal(store_snapshot(st, 1, &row, 1, true, 1), MU_ELIMIT);
    for (; n < 100 && rc == MU_OK; n++) { /* bounded until polled, however fast the disk is */
        rc = store_append(st, big, STORE_RECORD_MAX, 2);
    }
    assert_int_equal(rc, MU_EAGAIN);
    assert_int_equal(n, STORE_QUEUE_MAX / STORE_RECORD_MAX);
    settle(st, &log);
    assert_int_equal(log.n, n - 1);
    assert_int_equal(log.done[n - 2].status, MU_OK);
    assert_int_equal(kit_append(st, 3), MU_OK);
    settle(st, &log);
    assert_int_equal(log.done[0].seq, n + 1);
    store_close(st);
    free(big);
}

static void a_failed_append_takes_those_behind_it_along(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);

    assert_int_equal(kit_append(st, 1), MU_OK);
    settle(st, &log);
    break_next_write(*state, st);
    assert_int_equal(kit_append(st, 100), MU_OK);
    store_flush(st);
    assert_int_equal(kit_append(st, 101),
                     MU_OK); /* The disk works, but 100 is not yet known lost. */
    assert_int_equal(kit_append(st, 102), MU_OK);
    settle(st, &log);
    assert_int_equal(log.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(log.done[i].cookie, 100 + i);
        assert_int_equal(log.done[i].status, MU_EIO);
        assert_int_equal(log.done[i].seq, 0);
    }
    assert_true(strlen(store_error(st)) > 10);

    assert_int_equal(kit_append(st, 2), MU_OK);
    settle(st, &log);
    assert_int_equal(log.done[0].status, MU_OK);
    assert_int_equal(log.done[0].seq, 2);
    store_close(st);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 2, 2);
    store_close(st);
}

static struct store *retry_store;

static void retry_on_failure(void *arg, uint64_t cookie, int status, uint64_t seq)
{
    kit_on_done(arg, cookie, status, seq);
    if (status != MU_OK) {
        assert_int_equal(kit_append(retry_store, cookie - 100), MU_OK);
    }
}

static void appends_made_while_a_failure_is_delivered_count(void **state)
{
    struct kit_seen seen;
    struct kit_log log = {0};
    struct store *st = reopen(*state, &seen);

    retry_store = st;
    break_next_write(*state, st);
    assert_int_equal(kit_append(st, 101), MU_OK);
    store_flush(st);
    assert_int_equal(kit_append(st, 102), MU_OK);
    store_flush(st);
    store_poll(st, retry_on_failure, &log);
    assert_int_equal(log.n, 2);
    settle(st, &log);
    assert_int_equal(log.n, 2);
    assert_int_equal(log.done[0].seq, 1);
    assert_int_equal(log.done[1].seq, 2);
    store_close(st);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 2, 2);
    store_close(st);
}

static void a_failed_snapshot_changes_nothing(void **state)
{
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(*state, &seen);

    for (uint64_t tag = 1; tag <= 6; tag++) {
        assert_int_equal(kit_append(st, tag), MU_OK);
    }
    settle(st, &log);
    break_next_write(*state, st);
    assert_int_equal(kit_snapshot(st, 5), MU_OK);
    store_flush(st);
    assert_int_equal(kit_append(st, 7), MU_OK);
    settle(st, &log);
    assert_int_equal(log.n, 2);
    assert_int_equal(log.done[0].status, MU_EIO);
    assert_int_equal(log.done[1].status, MU_OK);
    assert_int_equal(log.done[1].seq, 7);
    assert_int_equal(store_snapshot_seq(st), 0);
    store_close(st);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 7, 7);
    assert_int_equal(seen.first, 1);
    store_close(st);
}

static int refuse_record(void *arg, uint64_t seq, const void *data, size_t n)
{
    return seq == 2 ? MU_EPROTO : MU_OK;
}

static void a_receiver_can_stop_the_open(void **state)
{
    struct store_replay replay = {.record = refuse_record};
    struct kit_seen seen;
    struct store *st = reopen(*state, &seen), *none = NULL;

    assert_int_equal(kit_append(st, 1), MU_OK);
    assert_int_equal(kit_append(st, 2), MU_OK);
    store_close(st);
    assert_int_equal(open_with(*state, &replay, &none), MU_EPROTO);
    assert_null(none);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 2, 2);
    store_close(st);
}

static void one_opener_at_a_time(void **state)
{
    struct kit_seen seen, second_seen;
    struct store *st = reopen(*state, &seen), *second = NULL;
    struct store_replay replay = kit_replay(&second_seen);

    assert_int_equal(open_with(*state, &replay, &second), MU_EBUSY);
    assert_null(second);
    assert_int_equal(kit_append(st, 1), MU_OK);
    store_close(st);
    st = reopen(*state, &seen);
    kit_check(&seen, st, 1, 1);
    store_close(st);
}

/* --- Of the memory store alone: its controls --- */

static void memory_loses_what_was_not_synced(void **state)
{
    struct place *p = *state;
    struct kit_seen seen;
    struct kit_log log = {0};
    struct store *st = reopen(p, &seen);

    for (uint64_t tag = 1; tag <= 4; tag++) {
        assert_int_equal(kit_append(st, tag), MU_OK);
    }
    assert_int_equal(store_memory_pending(st), 4);
    assert_int_equal(p->notified, 0);
    store_memory_sync(st, 2);
    assert_int_equal(p->notified, 1);
    assert_int_equal(store_memory_pending(st), 2);
    assert_int_equal(store_poll(st, kit_on_done, &log), 2);
    store_memory_sync(st, 1); /* durable, but nobody is told */
    store_memory_crash(st);
    st = reopen(p, &seen);
    kit_check(&seen, st, 3, 3);
    store_memory_crash(st);
}

static void memory_can_keep_what_it_reports_as_failed(void **state)
{
    struct place *p = *state;
    struct kit_seen seen;
    struct kit_log log;
    struct store *st = reopen(p, &seen);

    assert_int_equal(kit_append(st, 1), MU_OK);
    store_memory_fail(st, MU_EIO, true);
    settle(st, &log);
    assert_int_equal(log.done[0].status, MU_EIO);
    store_memory_crash(st);
    st = reopen(p, &seen);
    kit_check(&seen, st, 1, 1); /* it is back */

    assert_int_equal(kit_append(st, 100), MU_OK);
    store_memory_fail(st, MU_EIO, true);
    settle(st, &log);
    assert_int_equal(kit_append(st, 2), MU_OK); /* takes its place */
    settle(st, &log);
    assert_int_equal(log.done[0].seq, 2);
    store_memory_crash(st);
    st = reopen(p, &seen);
    kit_check(&seen, st, 2, 2);
    store_memory_crash(st);
}

#define BOTH(test)                                               \
    {"memory: " #test, test, place_memory, place_remove, NULL},  \
    {                                                            \
        "sqlite: " #test, test, place_sqlite, place_remove, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_new_store_is_empty_and_keeps_its_id),
        BOTH(records_come_back_as_they_were_appended),
        BOTH(completions_come_in_order_with_their_numbers),
        BOTH(close_writes_what_is_queued),
        BOTH(a_snapshot_stands_for_the_records_before_it),
        BOTH(a_snapshot_in_pieces_counts_with_its_last),
        BOTH(a_piece_that_fails_takes_those_before_it_along),
        BOTH(an_empty_snapshot_is_one),
        BOTH(a_snapshot_of_what_is_not_known_durable_is_refused),
        BOTH(sizes_have_limits),
        BOTH(a_failed_append_takes_those_behind_it_along),
        BOTH(appends_made_while_a_failure_is_delivered_count),
        BOTH(a_failed_snapshot_changes_nothing),
        BOTH(a_receiver_can_stop_the_open),
        BOTH(one_opener_at_a_time),
        cmocka_unit_test_setup_teardown(memory_loses_what_was_not_synced, place_memory,
                                        place_remove),
        cmocka_unit_test_setup_teardown(memory_can_keep_what_it_reports_as_failed, place_memory,
                                        place_remove),
    };

    log_set_level((enum log_level) - 1); /* Failures are meant here. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
