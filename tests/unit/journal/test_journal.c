/* The journal of machines: the orchestrator's own and a toy beside them, on a disk in memory that a
 * test syncs, breaks and loses as it likes. */
#include "journal/journal.h"
#include "lib/memory_store.h"
#include "lib/mind.h"
#include "unit/journal/toy.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

struct kit {
    struct store_disk *disk;
    struct mind mind, shadow;
    struct toy toy, toy_shadow;
    struct journal *journal;
    uint64_t now_ms;
    uint32_t done_n, applied_n, replayed_n;
    int last_status;
    bool fenced, alien; /* alien: it is opened without the toy */
    uint32_t piece_bytes;
    char error[JOURNAL_ERROR_MAX];
};

static void emit(struct effects *fx, const struct effect *e)
{
}

static void draw(struct effects *fx, uint8_t *out, size_t n)
{
    memset(out, 1, n);
}

static struct effects effects = {emit, draw};

static void applied(void *arg, const struct record *r, bool replayed)
{
    struct kit *k = arg;

    k->applied_n++;
    k->replayed_n += replayed;
}

static void fenced(void *arg, const char *why)
{
    assert_non_null(strstr(why, "another process writes this store"));
    ((struct kit *)arg)->fenced = true;
}

static int start(struct kit *k)
{
    struct cluster_config config = cluster_defaults();
    char url[STORE_MEMORY_URL];

    config.jobs_max = 4;
    config.nodes_max = config.workers_max = 64;
    config.settings =
        (struct config_limits){.keys_n = 16, .value_bytes = 100, .total_bytes = 900, .window_n = 8};
    assert_int_equal(mind_open(&k->mind, &config, &effects), MU_OK);
    assert_int_equal(mind_open(&k->shadow, &config, NULL), MU_OK);
    k->toy = k->toy_shadow = (struct toy){0};
    k->applied_n = k->replayed_n = 0;

    /* A new machine is one line and one file. */
    const struct journal_machine machines[] = {
        {.live = k->mind.all[0], .shadow = k->shadow.cluster},
        {.live = k->mind.all[1], .shadow = k->shadow.settings},
        {.live = {&toy_machine, &k->toy, &k->toy}, .shadow = &k->toy_shadow, .codec = &toy_codec},
    };
    struct journal_config jc = {.url = url,
                                .machines = machines,
                                .machines_n = k->alien ? 2 : 3,
                                .applied = applied,
                                .fenced = fenced,
                                .arg = k,
                                .piece_bytes = k->piece_bytes};

    store_memory_url(k->disk, url);
    return journal_open(&jc, &k->journal, k->error);
}

static void crash(struct kit *k)
{
    if (k->journal != NULL) {
        store_memory_crash(journal_abandon(k->journal));
    }
    k->journal = NULL;
    mind_close(&k->mind);
    mind_close(&k->shadow);
}

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));

    k->disk = store_disk_new((const unsigned char *)"0123456789abcdef");
    k->piece_bytes = 100;
    assert_int_equal(start(k), MU_OK);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;

    crash(k);
    store_disk_free(k->disk);
    free(k);
    return 0;
}

static void on_done(void *arg, int status, const struct record *r)
{
    struct kit *k = arg;

    k->done_n++;
    k->last_status = status;
}

static void append(struct kit *k, const struct record *r)
{
    journal_append(k->journal, r, (struct journal_done){on_done, k});
}

static void add(struct kit *k, uint32_t which, uint32_t blob_n)
{
    struct record r = toy_add(which % TOY_N, 1 + which, blob_n);

    append(k, &r);
}

static void job(struct kit *k, const char *name)
{
    struct record r = {.kind = RECORD_JOB, .u.job = {.run = 1, .min = 1, .max = 2}};

    strcpy(r.u.job.job, name);
    append(k, &r);
}

static void poll_one(struct kit *k)
{
    store_memory_sync(journal_store(k->journal), SIZE_MAX);
    journal_poll(k->journal, ++k->now_ms);
}

static void set(struct kit *k, const char *of, const char *key, const char *value)
{
    struct config_request q = {
        .key = key, .value = value, .value_n = (uint32_t)strlen(value), .expect = CONFIG_ANY};
    struct record r;

    assert_int_equal(cluster_wish(k->mind.cluster, of, &q, &r, NULL, 0), MU_OK);
    append(k, &r);
}

/* ---- what there is, byte by byte ---- */

struct bytes {
    struct sink to; /* first */
    uint8_t at[1 << 16];
    size_t n;
};

static void keep(struct sink *to, const struct record *r)
{
    const struct codec *codec = r->kind == TOY_ADD ? &toy_codec : &record_codec;
    struct bytes *b = (struct bytes *)to;
    size_t n = codec->size(r);

    assert_true(b->n + n <= sizeof(b->at));
    codec->encode(r, b->at + b->n, n);
    b->n += n;
}

static struct bytes *dumped(struct mind *m, struct toy *t)
{
    const struct machine_live all[] = {m->all[0], m->all[1], {&toy_machine, t, NULL}};
    struct bytes *b = calloc(1, sizeof(*b));

    b->to.put = keep;
    machines_dump(all, ARRAY_LEN(all), &b->to);
    return b;
}

static void same(struct bytes *a, struct bytes *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->at, b->at, a->n);
    free(b);
}

/* Two jobs with settings, and the toy. */
static void fill(struct kit *k)
{
    job(k, "b");
    job(k, "a");
    poll_one(k);
    for (int i = 0; i < 4; i++) {
        char key[8] = {'k', (char)('0' + i)};

        set(k, i % 2 ? "a" : "b", key, "a value of some length");
        add(k, (uint32_t)i, 0);
        poll_one(k);
    }
    set(k, "a", "min", "1");
    poll_one(k);
}

/* ---- tests ---- */

static void each_record_has_its_own_answer(void **state)
{
    struct kit *k = *state;

    add(k, 1, 0);
    assert_int_equal(k->done_n, 0);
    assert_int_equal(k->toy.counter[1], 0); /* Nothing is applied before it is durable. */
    poll_one(k);
    assert_int_equal(k->done_n, 1);
    assert_int_equal(k->toy.counter[1], 2);
    store_memory_fail(journal_store(k->journal), MU_EIO, false);
    add(k, 2, 0);
    add(k, 3, 0);
    poll_one(k);
    assert_int_equal(k->done_n, 3);
    assert_int_equal(k->last_status, MU_EIO);
    assert_int_equal(k->toy.failed_n, 2);
    assert_false(journal_look(k->journal).writable);
    add(k, 4, 0);
    poll_one(k);
    assert_int_equal(k->last_status, MU_OK);
    assert_true(journal_look(k->journal).writable);
}

static void what_was_applied_is_replayed(void **state)
{
    struct kit *k = *state;
    struct bytes *before;
    uint32_t applied_n;

    fill(k);
    before = dumped(&k->mind, &k->toy);
    applied_n = k->applied_n;
    add(k, 9, 0); /* not durable */
    crash(k);
    assert_int_equal(start(k), MU_OK);
    same(before, dumped(&k->mind, &k->toy));
    same(before, dumped(&k->shadow, &k->toy_shadow));
    assert_int_equal(k->replayed_n, applied_n);
    assert_int_equal(k->toy.told_n, 0);
    free(before);
}

/* A crash after every piece, while records come all the time: what comes back is what there was. */
static void a_crash_between_two_pieces_loses_nothing(void **state)
{
    struct kit *k = *state;
    bool whole = false;

    for (uint32_t crash_at = 0; !whole; crash_at++) {
        struct bytes *before;

        teardown(state);
        setup(state);
        k = *state;
        fill(k);
        journal_snapshot_now(k->journal);
        for (uint32_t i = 0; i < crash_at; i++) {
            add(k, i, 0); /* never a quiet moment */
            poll_one(k);
        }
        whole = journal_look(k->journal).snapshot_seq > 0;
        before = dumped(&k->mind, &k->toy);
        crash(k);
        assert_int_equal(start(k), MU_OK);
        same(before, dumped(&k->mind, &k->toy));
        same(before, dumped(&k->shadow, &k->toy_shadow));
        free(before);
        assert_true(crash_at < 100);
        if (whole) {
            assert_true(crash_at > 5); /* It was in many pieces. */
            assert_true(k->replayed_n > 0);
        }
    }
}

/* A queue that is journaled all the time is cut all the same. */
static void the_log_stays_short_without_a_quiet_moment(void **state)
{
    struct kit *k = *state;
    uint64_t most = 0;

    k->piece_bytes = 0;
    crash(k);
    assert_int_equal(start(k), MU_OK);
    for (uint32_t i = 0; i < 40000; i++) {
        struct journal_look l;

        add(k, i, 0);
        if (i % 8 == 7) {
            store_memory_sync(journal_store(k->journal), 8); /* and one always waits */
            journal_poll(k->journal, ++k->now_ms);
            l = journal_look(k->journal);
            most = MAX(most, l.seq - l.snapshot_seq);
        }
    }
    assert_true(most < 5000);
    assert_true(journal_look(k->journal).snapshot_seq > 30000);
}

static void long_records_travel_in_parts(void **state)
{
    const uint32_t blob_n = 5 * (uint32_t)STORE_RECORD_MAX / 2;
    struct kit *k = *state;

    add(k, 1, blob_n); /* three parts */
    add(k, 2, 0);
    poll_one(k);
    assert_int_equal(k->done_n, 2);
    assert_int_equal(journal_look(k->journal).seq, 4);
    for (size_t durable = 1; durable <= 3; durable++) {
        uint64_t had = k->toy.counter[3];

        add(k, 3, blob_n);
        store_memory_sync(journal_store(k->journal), durable);
        crash(k);
        assert_int_equal(start(k), MU_OK);
        /* Whole or not at all, and what comes behind it counts. */
        assert_int_equal(k->toy.counter[3], had + (durable == 3 ? 4 : 0));
        add(k, 4, 0);
        poll_one(k);
        crash(k);
        assert_int_equal(start(k), MU_OK);
        assert_int_equal(k->toy.counter[4], 5 * durable);
        assert_int_equal(k->toy.counter[1], 2);
    }
}

static void a_record_that_is_too_long_is_refused(void **state)
{
    struct kit *k = *state;

    add(k, 1, (uint32_t)JOURNAL_RECORD_MAX);
    poll_one(k);
    assert_int_equal(k->last_status, MU_ELIMIT);
    add(k, 2, 0);
    poll_one(k);
    assert_int_equal(k->last_status, MU_OK);
}

static void a_record_of_a_machine_that_is_not_here_ends_the_open(void **state)
{
    struct kit *k = *state;

    add(k, 1, 0);
    poll_one(k);
    crash(k);
    k->alien = true;
    assert_int_equal(start(k), MU_EVERSION);
    assert_non_null(strstr(k->error, "kind 57344"));
    assert_non_null(strstr(k->error, "nothing here keeps"));
}

static void who_is_fenced_hears_of_it_once(void **state)
{
    struct kit *k = *state;

    store_memory_fence(journal_store(k->journal));
    add(k, 1, 0);
    poll_one(k);
    assert_true(k->fenced);
    assert_int_equal(k->last_status, MU_ESTALE);
    k->fenced = false;
    add(k, 1, 0);
    poll_one(k);
    assert_false(k->fenced);
    assert_int_equal(k->toy.counter[1], 0);
}

static void an_address_of_no_store_names_those_there_are(void **state)
{
    struct toy toy = {.told_n = 0};
    const struct journal_machine m = {.live = {&toy_machine, &toy, NULL}, .codec = &toy_codec};
    struct journal_config config = {.url = "etcd://here", .machines = &m, .machines_n = 1};
    char error[JOURNAL_ERROR_MAX];
    struct journal *j;

    assert_int_equal(journal_open(&config, &j, error), MU_EINVAL);
    assert_non_null(strstr(error, "etcd://here"));
    assert_non_null(strstr(error, "sqlite:"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_record_has_its_own_answer),
        CASE(what_was_applied_is_replayed),
        CASE(a_crash_between_two_pieces_loses_nothing),
        CASE(the_log_stays_short_without_a_quiet_moment),
        CASE(long_records_travel_in_parts),
        CASE(a_record_that_is_too_long_is_refused),
        CASE(a_record_of_a_machine_that_is_not_here_ends_the_open),
        CASE(who_is_fenced_hears_of_it_once),
        CASE(an_address_of_no_store_names_those_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
