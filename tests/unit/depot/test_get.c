/* What the orchestrator keeps, read from outside: lists, and checkpoints that are read like those
 * in a folder. Lines break, and answers may be anything. */
#include "unit/depot/depot_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOREVER_MS 600000u

static struct ckpt_kit state_of;
static struct ckpt_mark mark;
static struct depot_kit kit;
static struct depot *depot;
static struct ckpt_why why;

static void put(bool zstd)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, zstd);

    assert_int_equal(depot_kit_put(&kit, &copy, 0, &why), MU_OK);
    kit.frames = kit.opens_n = 0;
}

/* ---- lists ---- */

static void add_some(void)
{
    const uint64_t steps[] = {7, 1, UINT64_MAX, 300, 20};

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        depot_kit_add(&kit, "b", steps[i]);
    }
    depot_kit_add(&kit, "a.2", 5);
    depot_kit_add(&kit, "z_", 5);
}

static void check_list(void)
{
    const uint64_t steps[] = {UINT64_MAX, 300, 20, 7, 1};
    struct ckpt_entry *entries;
    uint32_t n;

    assert_int_equal(depot_list(depot, "b", &entries, &n, &why), MU_OK);
    assert_int_equal(n, ARRAY_LEN(steps));
    for (uint32_t i = 0; i < n; i++) {
        assert_true(entries[i].step == steps[i]);
    }
    free(entries);
}

static void check_jobs(void)
{
    char *names;

    assert_int_equal(depot_jobs(depot, &names, &why), MU_OK);
    assert_memory_equal(names, "a.2\0b\0z_\0", 10);
    free(names);
}

static void a_list_is_whole_however_many_pages_it_has(void **state)
{
    add_some();
    for (kit.page = 1; kit.page < 8; kit.page++) {
        check_list();
        check_jobs();
    }
}

static void where_there_is_nothing_lists_are_empty(void **state)
{
    struct ckpt_entry *entries;
    uint32_t n;
    char *names;

    assert_int_equal(depot_list(depot, "b", &entries, &n, &why), MU_OK);
    assert_int_equal(n, 0);
    free(entries);
    assert_int_equal(depot_jobs(depot, &names, &why), MU_OK);
    assert_int_equal(names[0], '\0');
    free(names);
    assert_int_equal(depot_list(depot, "", &entries, &n, &why), MU_EINVAL);
}

static void a_list_outlives_a_break_at_any_frame(void **state)
{
    uint64_t frames;

    add_some();
    check_list();
    check_jobs();
    frames = kit.frames;
    for (uint64_t at = 1; at <= frames; at++) {
        kit.frames = 0;
        kit.break_at = at;
        check_list();
        check_jobs();
    }
}

static void what_is_removed_is_gone_though_the_answer_was_lost(void **state)
{
    for (uint64_t at = 0; at <= 2; at++) {
        depot_kit_add(&kit, "b", 7);
        kit.frames = 0;
        kit.break_at = at;
        kit.deliver = true;
        assert_int_equal(depot_remove(depot, "b", 7, &why), MU_OK);
        assert_int_equal(kit.kept_n, 0);
    }
    assert_int_equal(depot_remove(depot, "b", 7, &why), MU_ENOENT);
    assert_string_equal(why.text, "there is no such checkpoint");
}

/* ---- reading ---- */

static void it_is_read_like_one_in_a_folder(void **state)
{
    const struct ckpt_manifest *m;
    struct ckpt *c;
    char path[PATH_MAX + 16];

    put(false);
    assert_int_equal(depot_get(depot, KIT_JOB, mark.step, &c, &why), MU_OK);
    m = ckpt_manifest(c);
    assert_int_equal(m->mark.samples, mark.samples);
    assert_int_equal(m->shards_n, 1);
    assert_int_equal(ckpt_verify(c, &why), MU_OK);
    snprintf(path, sizeof(path), "%s/out.npz", state_of.dir);
    assert_int_equal(ckpt_export(c, path, false, false, &why), MU_OK);
    assert_int_equal(access(path, R_OK), 0);
    unlink(path);
    ckpt_close(c);
    assert_int_equal(kit.opens_n, 1);
    assert_int_equal(depot_get(depot, KIT_JOB, 41, &c, &why), MU_ENOENT);
}

/* Backwards, so that what was asked for ahead is never what is wanted next. */
static void chunks_can_be_read_in_any_order(void **state)
{
    static uint8_t to[CKPT_CHUNK];
    struct ckpt_entry *entries;
    struct ckpt *c;
    uint32_t n;

    put(false);
    assert_int_equal(depot_get(depot, KIT_JOB, mark.step, &c, &why), MU_OK);
    for (uint32_t i = ckpt_manifest(c)->chunks_n; i-- > 0;) {
        assert_int_equal(ckpt_read_chunk(c, i, to, &why), MU_OK);
        assert_memory_equal(to, state_of.state + i * CKPT_CHUNK,
                            (size_t)ckpt_chunk_bytes(state_of.bytes, i));
    }
    assert_int_equal(kit.opens_n, 1);
    /* Another question while pieces are on their way costs the line, and nothing else. */
    assert_int_equal(depot_list(depot, KIT_JOB, &entries, &n, &why), MU_OK);
    free(entries);
    assert_int_equal(kit.opens_n, 2);
    assert_int_equal(ckpt_read_chunk(c, 2, to, &why), MU_OK);
    assert_memory_equal(to, state_of.state + 2 * CKPT_CHUNK, (size_t)CKPT_CHUNK);
    ckpt_close(c);
}

/* Each of them, or all at the beginning and at the end, and some between. */
static uint64_t next_of(uint64_t at, uint64_t frames)
{
    return at + (unit_full() || at < 6 || at + 12 > frames ? 1 : 7);
}

static void sweep(bool zstd)
{
    uint64_t frames;

    put(zstd);
    assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, 0, &why), MU_OK);
    frames = kit.frames;
    for (uint64_t at = 1; at <= frames; at = next_of(at, frames)) {
        kit.frames = kit.opens_n = 0;
        kit.break_at = at;
        assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, FOREVER_MS, &why), MU_OK);
        assert_int_equal(kit.opens_n, 2);
    }
}

static void a_break_at_any_frame_changes_no_byte(void **state)
{
    sweep(false);
}

static void a_break_at_any_frame_changes_no_byte_of_a_compressed_one(void **state)
{
    memset(state_of.state, 3, (size_t)state_of.bytes / 2);
    sweep(true);
}

/* ---- damage ---- */

static void damage_is_found_and_named(void **state)
{
    struct depot_kept *e;

    put(false);
    e = depot_kit_find(&kit, KIT_JOB, mark.step);
    e->shard[CKPT_CHUNK + 5] ^= 1;
    assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, FOREVER_MS, &why), MU_ECORRUPT);
    assert_non_null(strstr(why.text, "orchestrator:/mnist/step-000000000040/shard-0000 is damaged: "
                                     "chunk 1 "));
    e->shard[CKPT_CHUNK + 5] ^= 1;
    for (int i = 0; i < 2; i++) { /* As ckpt_open(): it is known before anything is read. */
        struct ckpt *c;

        e->shard_n = i == 0 ? e->shard_n - 1 : 0;
        assert_int_equal(depot_get(depot, KIT_JOB, mark.step, &c, &why), MU_ECORRUPT);
        assert_non_null(strstr(why.text, "/step-000000000040/shard-0000 is damaged: it has "));
    }
    e->manifest[30] ^= 1;
    assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, FOREVER_MS, &why), MU_ECORRUPT);
    assert_non_null(strstr(why.text, "orchestrator:/mnist/step-000000000040/manifest: "));
    e->no_manifest = true;
    assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, FOREVER_MS, &why), MU_ECORRUPT);
    assert_string_equal(why.text, "orchestrator:/mnist/step-000000000040/manifest is missing");
    e->no_manifest = false;
    e->manifest_n = 0;
    assert_int_equal(depot_kit_get(&kit, &state_of, mark.step, FOREVER_MS, &why), MU_ECORRUPT);
}

static void one_of_another_job_or_step_is_not_taken(void **state)
{
    struct depot_kept *e;

    put(false);
    e = depot_kit_find(&kit, KIT_JOB, mark.step);
    e->step = 41;
    assert_int_equal(depot_kit_get(&kit, &state_of, 41, 0, &why), MU_ECORRUPT);
    assert_non_null(strstr(why.text, "is that of step 40"));
    e->step = 40;
    strcpy(e->job, "other");
    assert_int_equal(depot_get(depot, "other", 40, &(struct ckpt *){NULL}, &why), MU_ECORRUPT);
    assert_non_null(strstr(why.text, "is that of job mnist"));
}

/* ---- answers that are none ---- */

/* Of each answer one field. */
static void spoil(struct msg_depot_says *m, uint64_t *request, uint64_t how)
{
    switch (how) {
    case 0:
        m->op = DEPOT_BEGIN;
        break;
    case 1:
        *request -= 1;
        break;
    case 2:
        m->status = INT32_MAX;
        break;
    case 3:
        m->at++;
        break;
    case 4:
        m->data_n++;
        break;
    case 5:
        m->data_n -= m->data_n > 0;
        break;
    case 6:
        m->total = m->op == DEPOT_READ ? UINT64_MAX : m->total;
        break;
    default:
        m->data_n = 0;
        m->more = 1;
        break;
    }
}

/* The manifest, the length of the shard, its first piece, and one in the middle. */
static void a_wrong_answer_is_never_taken(void **state)
{
    const uint64_t from[] = {0, 1, 2, 40};

    put(false);
    kit.spoil = spoil;
    for (size_t i = 0; i < ARRAY_LEN(from); i++) {
        for (kit.spoil_how = 0; kit.spoil_how < 8; kit.spoil_how++) {
            int rc;

            kit.spoil_from = from[i];
            kit.spoil_to = from[i] + 1;
            kit.given_n = 0;
            rc = depot_kit_get(&kit, &state_of, mark.step, FOREVER_MS, &why);
            assert_int_equal(rc, kit.spoil_how == 6 ? MU_ECORRUPT : MU_EPROTO);
            assert_true(strlen(why.text) > 20);
        }
    }
}

static void a_wrong_list_is_never_taken(void **state)
{
    struct ckpt_entry *entries;
    uint32_t n;
    char *names;

    add_some();
    kit.spoil = spoil;
    for (kit.spoil_how = 0; kit.spoil_how < 8; kit.spoil_how++) {
        if (kit.spoil_how == 3 ||
            kit.spoil_how == 6) { /* Nobody looks at these fields of a list. */
            continue;
        }
        assert_int_equal(depot_list(depot, "b", &entries, &n, &why), MU_EPROTO);
        assert_int_equal(depot_jobs(depot, &names, &why), MU_EPROTO);
    }
}

/* Both are sorted: the answer to "what comes after this" must not go round in circles. */
static void spoil_data(struct msg_depot_says *m, uint64_t *request, uint64_t how)
{
    static const char *const wrong[] = {"b\0a", "a\0a", "\0a\0", "a\0\0",
                                        ".a\0", "a/b",  "ab\n",  "a c"};

    memcpy(m->data, wrong[how], 3);
    m->data[3] = '\0';
    m->data_n = 4;
}

static void names_out_of_order_or_that_can_be_none_are_not_taken(void **state)
{
    char *names;

    add_some();
    kit.spoil = spoil_data;
    for (kit.spoil_how = 0; kit.spoil_how < 8; kit.spoil_how++) {
        assert_int_equal(depot_jobs(depot, &names, &why), MU_EPROTO);
    }
}

static void spoil_step(struct msg_depot_says *m, uint64_t *request, uint64_t how)
{
    memset(m->data + 16, how == 0 ? 0xff : 0, 8); /* as the one before it; or none */
}

static void steps_out_of_order_are_not_taken(void **state)
{
    struct ckpt_entry *entries;
    uint32_t n;

    add_some();
    kit.spoil = spoil_step;
    for (kit.spoil_how = 0; kit.spoil_how < 2; kit.spoil_how++) {
        assert_int_equal(depot_list(depot, "b", &entries, &n, &why), MU_EPROTO);
    }
}

static int open_kit(void **state)
{
    const struct depot_line line = depot_kit_line(&kit, FOREVER_MS);

    ckpt_kit_fill(&state_of, 1);
    mark = ckpt_kit_mark(40);
    depot_kit_open(&kit);
    why.text[0] = '\0';
    return depot_open(&line, &depot);
}

static int close_kit(void **state)
{
    depot_close(depot);
    depot_kit_close(&kit);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)
    const struct CMUnitTest tests[] = {
        TEST(a_list_is_whole_however_many_pages_it_has),
        TEST(where_there_is_nothing_lists_are_empty),
        TEST(a_list_outlives_a_break_at_any_frame),
        TEST(what_is_removed_is_gone_though_the_answer_was_lost),
        TEST(it_is_read_like_one_in_a_folder),
        TEST(chunks_can_be_read_in_any_order),
        TEST(a_break_at_any_frame_changes_no_byte),
        TEST(a_break_at_any_frame_changes_no_byte_of_a_compressed_one),
        TEST(damage_is_found_and_named),
        TEST(one_of_another_job_or_step_is_not_taken),
        TEST(a_wrong_answer_is_never_taken),
        TEST(a_wrong_list_is_never_taken),
        TEST(names_out_of_order_or_that_can_be_none_are_not_taken),
        TEST(steps_out_of_order_are_not_taken),
    };
    int failed;

    ckpt_kit_open(&state_of, true);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    ckpt_kit_close(&state_of);
    return failed;
}
