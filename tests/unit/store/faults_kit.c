#include "unit/store/faults_kit.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 12

static void on_done(void *arg, uint64_t cookie, int status, uint64_t seq)
{
    struct faults_run *run = arg;

    if (cookie == 0) { /* a snapshot */
        run->snapshots += status != MU_OK;
    } else if (status != MU_OK) {
        run->appends++;
    } else {
        assert_int_equal(seq, run->seq + 1); /* never a hole */
        run->seq = seq;
        run->tags[seq] = cookie;
        if (run->acked) {
            run->acked(seq, cookie);
        }
    }
}

/* Appends n records. A record that fails is replaced by one with other bytes. */
static void append_group(struct faults_run *run, struct store *st, unsigned n)
{
    uint64_t goal = run->seq + n;

    for (int i = 0; run->seq < goal; i++) {
        assert_true(i < TRIES);
        for (uint64_t k = run->seq; k < goal; k++) {
            run->appends += kit_append(st, run->next_tag++) != MU_OK;
        }
        store_flush(st);
        store_poll(st, on_done, run);
    }
}

static void take_snapshot(struct faults_run *run, struct store *st)
{
    unsigned char bytes[64];
    struct store_bytes row = {bytes, 0};
    uint64_t upto = run->seq;

    row.n = kit_make(kit_snapshot_tag(upto, 0) / 16 * 16 + 2, bytes);
    for (int i = 0; store_snapshot_seq(st) < upto; i++) {
        assert_true(i < TRIES);
        if (store_snapshot(st, upto, &row, 1, true, 0) != MU_OK) {
            run->snapshots++;
        }
        store_flush(st);
        store_poll(st, on_done, run);
    }
}

static struct store *open_again(struct faults_run *run, const char *dir)
{
    char error[STORE_ERROR_MAX];
    struct kit_seen seen;
    struct store *st;

    for (int i = 0; kit_open(dir, &seen, &st, error) != MU_OK; i++) {
        if (i == TRIES) {
            fail_msg("never opens: %s", error);
        }
        if (strstr(error, "trusted")) {
            fail_msg("a failing disk taken for damage: %s", error);
        }
        run->opens++;
    }
    assert_false(seen.garbled);
    assert_int_equal(store_seq(st), run->seq);
    return st;
}

void faults_run(struct faults_run *run, const char *dir)
{
    struct store *st = open_again(run, dir);

    run->next_tag = 1001;
    append_group(run, st, 1);
    append_group(run, st, 3);
    append_group(run, st, 4);
    take_snapshot(run, st);
    append_group(run, st, 5);
    append_group(run, st, 1);
    store_close(st);
    st = open_again(run, dir);
    append_group(run, st, 2);
    take_snapshot(run, st);
    append_group(run, st, 1);
    store_close(st);
}

void faults_check(const struct faults_run *run, const char *dir)
{
    char error[STORE_ERROR_MAX];
    struct kit_seen seen;
    struct store *st;

    if (kit_open(dir, &seen, &st, error) != MU_OK) {
        fail_msg("%s", error);
    }
    assert_false(seen.garbled);
    assert_int_equal(store_seq(st), run->seq);
    for (uint64_t seq = store_snapshot_seq(st) + 1; seq <= run->seq; seq++) {
        assert_int_equal(seen.tags[seq], kit_seen_as(run->tags[seq]));
    }
    store_close(st);
}
