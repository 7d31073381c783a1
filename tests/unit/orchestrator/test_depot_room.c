/* Checkpoints that the orchestrator keeps: the quota, the disk, retention, the numbers of it. */
#include "unit/orchestrator/putter_kit.h"
#include "unit/orchestrator/web_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static struct ckpt_kit state_kit; /* of 12.1 MiB */

/* ---- a disk and a clock, of the orchestrator's process too ---- */

static struct {
    _Atomic uint64_t free, all; /* all 0: the real one */
} * disk;
static _Atomic uint64_t *ahead_ms; /* so much later it is */

int __real_statvfs64(const char *path, struct statvfs *st);
int __wrap_statvfs64(const char *path, struct statvfs *st);
uint64_t __real_net_now_ms(void);
uint64_t __wrap_net_now_ms(void);

uint64_t __wrap_net_now_ms(void)
{
    return __real_net_now_ms() + *ahead_ms;
}

int __wrap_statvfs64(const char *path, struct statvfs *st)
{
    int rc = __real_statvfs64(path, st);

    if (rc == 0 && disk->all != 0) {
        st->f_frsize = 4096;
        st->f_blocks = disk->all / 4096;
        st->f_bavail = disk->free / 4096;
    }
    return rc;
}

static struct msg_depot_says begin(struct putter *p, uint64_t step, uint64_t bytes, uint32_t keep)
{
    struct msg_depot m;

    p->step = step;
    m = putter_msg(p, DEPOT_BEGIN);
    m.total = bytes;
    m.keep = keep;
    return putter_ask(p, &m);
}

static void whole(struct putter *p, uint64_t step, uint32_t keep)
{
    p->step = step;
    putter_whole(p, keep);
}

/* ---- the quota ---- */

static void one_without_room_is_refused_and_the_last_stays(void **state)
{
    struct kit *k = *state;
    struct msg_depot_says says;
    struct putter p;

    k->ckpt_quota = 20 * MIB;
    kit_start(k);
    putter_open(&p, k, &state_kit, KIT_JOB, 0);
    whole(&p, 10, 1);
    says = begin(&p, 20, state_kit.bytes, 1);
    assert_int_equal(says.status, MU_ELIMIT);
    assert_non_null(strstr(says.text, "--ckpt-quota of 20.0 MiB, 12.1 MiB are in use"));
    assert_non_null(strstr(says.text, "--ckpt-keep"));
    assert_string_equal(putter_list(&p), "10");
    putter_kit_has(k, &state_kit, 10);
    assert_true(kit_logged(k, "job 'mnist': checkpoint of step 20 refused: no room"));
    assert_int_equal(begin(&p, 20, 7 * MIB, 1).status, MU_OK); /* A smaller one has. */
    putter_close(&p);
}

static void what_retention_would_take_away_makes_room(void **state)
{
    struct kit *k = *state;
    struct putter p;

    k->ckpt_quota = 40 * MIB;
    kit_start(k);
    putter_open(&p, k, &state_kit, KIT_JOB, 0);
    whole(&p, 10, 0);
    whole(&p, 20, 0);
    whole(&p, 30, 0);
    assert_string_equal(putter_list(&p), "30 20 10");
    assert_int_equal(begin(&p, 40, state_kit.bytes, 0).status, MU_ELIMIT); /* All are to stay. */
    assert_int_equal(begin(&p, 40, state_kit.bytes, 3).status, MU_OK);
    assert_string_equal(putter_list(&p), "30 20");
    whole(&p, 40, 3);
    assert_string_equal(putter_list(&p), "40 30 20");
    putter_close(&p);
}

static void what_has_come_counts_as_if_it_were_there(void **state)
{
    struct kit *k = *state;
    struct putter a, b;

    k->ckpt_quota = 30 * MIB;
    kit_start(k);
    putter_open(&a, k, &state_kit, "a", 0);
    putter_open(&b, k, &state_kit, "b", 0);
    assert_int_equal(begin(&a, 1, 20 * MIB, 0).status, MU_OK);
    putter_put(&a, 0, 2); /* 8 MiB */
    assert_int_equal(begin(&b, 1, 23 * MIB, 0).status, MU_ELIMIT);
    assert_int_equal(begin(&b, 1, 22 * MIB, 0).status, MU_OK);
    assert_int_equal(begin(&a, 1, 30 * MIB, 0).status, MU_OK); /* Its own is not counted twice. */
    putter_close(&a);
    putter_close(&b);
}

/* Whoever says that much will come, and sends nothing, keeps nobody out. */
static void what_was_only_announced_takes_no_room_from_others(void **state)
{
    struct kit *k = *state;
    struct putter a, b;

    k->ckpt_quota = 20 * MIB;
    kit_start(k);
    putter_open(&a, k, &state_kit, "a", 1);
    putter_open(&b, k, &state_kit, "b", 2);
    assert_int_equal(begin(&a, 1, 20 * MIB, 0).status, MU_OK);
    putter_whole(&b, 0);
    assert_int_equal(putter_hear(&a, putter_say_chunk(&a, 0)).status, MU_OK);
    assert_int_equal(putter_hear(&a, putter_say_chunk(&a, 1)).status, MU_ELIMIT);
    putter_close(&a);
    putter_close(&b);
}

static void one_that_says_nothing_more_makes_room(void **state)
{
    struct kit *k = *state;
    const uint64_t idle_ms = 6 * (uint64_t)k->cluster.lease_ms;
    struct putter a, b;

    k->ckpt_quota = 20 * MIB;
    kit_start(k);
    putter_open(&a, k, &state_kit, "a", 1);
    putter_open(&b, k, &state_kit, "b", 2);
    putter_begin(&a);
    putter_put(&a, 0, 3);
    *ahead_ms = idle_ms / 2;
    assert_int_equal(begin(&b, 2, state_kit.bytes, 0).status, MU_ELIMIT); /* It may still go on. */
    *ahead_ms = idle_ms;
    assert_int_equal(begin(&b, 2, state_kit.bytes, 0).status, MU_OK);
    putter_whole(&b, 0);
    putter_close(&a);
    putter_close(&b);
}

static void what_broke_off_makes_room_for_others(void **state)
{
    struct kit *k = *state;
    struct putter a, b;

    k->ckpt_quota = 20 * MIB;
    kit_start(k);
    putter_open(&a, k, &state_kit, "a", 5);
    putter_begin(&a);
    putter_put(&a, 0, 3);
    putter_close(&a);
    putter_open(&b, k, &state_kit, "b", 6);
    while (begin(&b, 6, state_kit.bytes, 0).status == MU_ELIMIT) {
        usleep(10000); /* That the other is gone is not yet known. */
    }
    putter_whole(&b, 0);
    putter_close(&b);
    putter_open(&a, k, &state_kit, "a", 5);
    assert_int_equal(begin(&a, 5, MIB, 0).item, 0);
    putter_close(&a);
}

static void one_that_is_larger_than_it_said_is_refused(void **state)
{
    struct kit *k = *state;
    struct msg_depot_says says;
    struct putter p;

    kit_start(k);
    putter_open(&p, k, &state_kit, KIT_JOB, 0);
    assert_int_equal(begin(&p, 1, CKPT_CHUNK + 5, 0).status, MU_OK);
    putter_put(&p, 0, 1);
    says = putter_hear(&p, putter_say_chunk(&p, 1));
    assert_int_equal(says.status, MU_ELIMIT);
    assert_int_equal(begin(&p, 1, UINT64_MAX, 0).status, MU_EINVAL);
    putter_close(&p);
}

/* ---- retention ---- */

static void so_many_stay_and_every_so_manieth(void **state)
{
    struct kit *k = *state;
    struct msg_depot m;
    struct putter p;
    char *text;
    size_t n;

    kit_start(k);
    putter_open(&p, k, &state_kit, KIT_JOB, 0);
    whole(&p, 10, 2);
    whole(&p, 15, 2);
    whole(&p, 20, 2);
    assert_string_equal(putter_list(&p), "20 15");
    p.step = 25;
    putter_put(&p, putter_begin(&p), ckpt_chunks(state_kit.bytes));
    m = putter_msg(&p, DEPOT_COMMIT);
    ckpt_kit_manifest(&state_kit, 25, &text, &n);
    m.keep = 1;
    m.keep_every = 10;
    m.data = (uint8_t *)text;
    m.data_n = (uint32_t)n;
    m.total = n;
    assert_int_equal(putter_ask(&p, &m).status, MU_OK);
    free(text);
    assert_string_equal(putter_list(&p), "25 20");
    putter_close(&p);
}

/* It went back, since the newest is damaged: what it puts now must not go in favour of that one. */
static void what_was_just_put_stays_though_a_newer_one_is_there(void **state)
{
    struct kit *k = *state;
    struct putter p;

    kit_start(k);
    putter_open(&p, k, &state_kit, KIT_JOB, 0);
    whole(&p, 20, 1);
    whole(&p, 30, 2);
    whole(&p, 25, 1);
    assert_string_equal(putter_list(&p), "30 25");
    whole(&p, 35, 1);
    assert_string_equal(putter_list(&p), "35");
    putter_close(&p);
}

/* ---- the disk ---- */

static void some_of_the_disk_stays_free(void **state)
{
    struct kit *k = *state;
    struct msg_depot_says says;
    struct putter p;

    disk->all = 10 * GIB;
    disk->free = GIB + 12 * MIB;
    kit_start(k);
    putter_open(&p, k, &state_kit, KIT_JOB, 0);
    says = begin(&p, 10, state_kit.bytes, 0);
    assert_int_equal(says.status, MU_ELIMIT);
    assert_non_null(strstr(says.text, "1.0 GiB stay free for its journal"));
    disk->free = GIB + 13 * MIB;
    assert_int_equal(begin(&p, 10, state_kit.bytes, 0).status, MU_OK);
    disk->all = 100 * GIB; /* A twentieth is more. */
    assert_int_equal(begin(&p, 10, state_kit.bytes, 0).status, MU_ELIMIT);
    disk->free = 5 * GIB + 13 * MIB;
    assert_int_equal(begin(&p, 10, state_kit.bytes, 0).status, MU_OK);
    putter_put(&p, 0, 1);
    disk->free = 5 * GIB - 1 * MIB; /* Somebody else has used it up meanwhile. */
    says = putter_hear(&p, putter_say_chunk(&p, 1));
    assert_int_equal(says.status, MU_ELIMIT);
    assert_non_null(strstr(says.text, "stay free"));
    disk->free = 50 * GIB;
    assert_int_equal(putter_begin(&p), 1);
    putter_put(&p, 1, ckpt_chunks(state_kit.bytes));
    assert_int_equal(putter_commit(&p, 0), MU_OK);
    putter_kit_has(k, &state_kit, 10);
    putter_close(&p);
}

/* ---- numbers ---- */

/* Until it has this line: the text may be a little older than what it tells of. */
static char *metrics_with(const struct kit *k, const char *line)
{
    for (int i = 0; i < KIT_WAIT_MS / 10; i++) {
        struct web_reply r = web_ask(k, HTTP_VIEWER, "GET", "/metrics", NULL, NULL);

        if (strstr(r.body, line) != NULL) {
            return r.body;
        }
        free(r.body);
        usleep(10000);
    }
    fail_msg("there was never a line \"%s\"", line);
    return NULL;
}

static double metric(const char *text, const char *name)
{
    const char *at;
    char line[128];

    snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr(text, line);
    if (at == NULL) {
        fail_msg("there is no %s", name);
    }
    return strtod(at + strlen(line), NULL);
}

static void metrics_tell_what_is_kept_and_what_came_and_went(void **state)
{
    struct kit *k = *state;
    struct putter p;
    uint8_t *data;
    char *text, line[64];
    double kept;
    size_t n;

    k->web = true;
    k->ckpt_quota = 20 * MIB;
    kit_start(k);
    putter_open(&p, k, &state_kit, KIT_JOB, 0);
    whole(&p, 10, 0);
    data = putter_read(&p, 0, &n);
    free(data);
    assert_int_equal(begin(&p, 20, state_kit.bytes, 0).status, MU_ELIMIT);
    text = metrics_with(k, "\nmuster_checkpoint_refused_total 1\n");
    kept = metric(text, "muster_checkpoint_bytes");
    assert_true(kept > (double)state_kit.bytes);
    assert_true(metric(text, "muster_checkpoint_received_bytes_total") == (double)state_kit.bytes);
    assert_true(metric(text, "muster_checkpoint_given_bytes_total") == (double)state_kit.bytes);
    free(text);
    putter_close(&p);
    kit_stop(k);
    kit_start(k); /* What is kept is found again. */
    snprintf(line, sizeof(line), "\nmuster_checkpoint_bytes %.0f\n", kept);
    text = metrics_with(k, line);
    assert_true(metric(text, "muster_checkpoint_refused_total") == 0);
    assert_true(metric(text, "muster_checkpoint_received_bytes_total") == 0);
    free(text);
}

/* ---- main ---- */

static void *shared(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        abort();
    }
    return p;
}

static int setup(void **state)
{
    disk->all = disk->free = 0;
    *ahead_ms = 0;
    ckpt_kit_open(&state_kit, true);
    return kit_setup(state);
}

static int teardown(void **state)
{
    ckpt_kit_close(&state_kit);
    return kit_teardown(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_without_room_is_refused_and_the_last_stays),
        CASE(what_retention_would_take_away_makes_room),
        CASE(what_has_come_counts_as_if_it_were_there),
        CASE(what_was_only_announced_takes_no_room_from_others),
        CASE(one_that_says_nothing_more_makes_room),
        CASE(what_broke_off_makes_room_for_others),
        CASE(one_that_is_larger_than_it_said_is_refused),
        CASE(so_many_stay_and_every_so_manieth),
        CASE(what_was_just_put_stays_though_a_newer_one_is_there),
        CASE(some_of_the_disk_stays_free),
        CASE(metrics_tell_what_is_kept_and_what_came_and_went),
    };

    disk = shared(sizeof(*disk));
    ahead_ms = shared(sizeof(*ahead_ms));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
