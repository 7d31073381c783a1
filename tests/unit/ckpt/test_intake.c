/* A checkpoint that comes chunk by chunk: what has come is taken up again, and nothing else. */
#include "ckpt/ckpt.h"
#include "unit/ckpt/ckpt_kit.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER ".step-000000000020.intake"
#define SHARD FOLDER "/shard-0000"
#define TAKEN FOLDER "/shard-0000.taken"

static struct ckpt_kit kit;
static struct ckpt_why why;

static struct ckpt_intake *open_at(uint64_t step)
{
    struct ckpt_intake *i;

    if (ckpt_intake_open(kit.dir, KIT_JOB, step, kit.bytes, &i, &why) != MU_OK) {
        fail_msg("%s", why.text);
    }
    return i;
}

static void put(struct ckpt_intake *i, uint32_t from, uint32_t end)
{
    for (uint32_t c = from; c < end; c++) {
        if (ckpt_kit_put(&kit, i, c, &why) != MU_OK) {
            fail_msg("%s", why.text);
        }
    }
}

/* The first n chunks have come, and then it broke. */
static void leave(uint64_t step, uint32_t n)
{
    struct ckpt_intake *i = open_at(step);

    put(i, 0, n);
    ckpt_intake_close(i);
}

static uint32_t left(uint64_t step)
{
    struct ckpt_intake *i = open_at(step);
    uint8_t sum[CKPT_SUM_BYTES];
    const uint32_t n = ckpt_intake_has(i, sum);

    assert_int_equal(ckpt_kit_has(&kit, i), n);
    ckpt_intake_close(i);
    return n;
}

static bool is_there(const char *name)
{
    return access(ckpt_kit_path(&kit, name), F_OK) == 0;
}

static void flip(const char *name, off_t at)
{
    int fd = open(ckpt_kit_path(&kit, name), O_RDWR);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static int commit(struct ckpt_intake *i, uint64_t step)
{
    char *text;
    size_t n;
    int rc;

    ckpt_kit_manifest(&kit, step, &text, &n);
    rc = ckpt_intake_commit(i, text, n, &why);
    free(text);
    return rc;
}

/* ---- cases ---- */

static void what_was_put_is_a_checkpoint_like_any_other(void **state)
{
    uint32_t had = 99;

    assert_int_equal(ckpt_kit_take_in(&kit, 20, &had, &why), MU_OK);
    assert_int_equal(had, 0);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
    assert_int_equal(ckpt_kit_newest(&kit), 20);
    assert_false(is_there(FOLDER));
    assert_true(is_there("step-000000000020/manifest"));
    assert_false(is_there("step-000000000020/shard-0000.taken"));
}

static void what_has_come_is_taken_up_again(void **state)
{
    uint32_t had;

    leave(20, 3);
    assert_int_equal(ckpt_kit_count(&kit), 0);
    assert_int_equal(left(20), 3);
    assert_int_equal(ckpt_kit_take_in(&kit, 20, &had, &why), MU_OK);
    assert_int_equal(had, 3);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
}

static void a_chunk_that_is_damaged_goes_with_all_after_it(void **state)
{
    struct stat st;

    leave(20, 3);
    flip(SHARD, (off_t)CKPT_CHUNK + 77);
    assert_int_equal(left(20), 1);
    assert_int_equal(stat(ckpt_kit_path(&kit, SHARD), &st), 0);
    assert_int_equal(st.st_size, CKPT_CHUNK);
    leave(20, 3);
    flip(TAKEN, 2 * 20 + 7);
    assert_int_equal(left(20), 2);
    leave(20, 3);
    flip(TAKEN, 3); /* A length that is none. */
    assert_int_equal(left(20), 0);
    assert_int_equal(ckpt_kit_take_in(&kit, 20, NULL, &why), MU_OK);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
}

static void what_is_cut_goes(void **state)
{
    leave(20, 3);
    assert_int_equal(truncate(ckpt_kit_path(&kit, SHARD), 3 * CKPT_CHUNK - 1), 0);
    assert_int_equal(left(20), 2);
    assert_int_equal(truncate(ckpt_kit_path(&kit, TAKEN), 39), 0);
    assert_int_equal(left(20), 1);
    assert_int_equal(unlink(ckpt_kit_path(&kit, TAKEN)), 0);
    assert_int_equal(left(20), 0);
    assert_int_equal(ckpt_kit_take_in(&kit, 20, NULL, &why), MU_OK);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
}

static void bytes_without_a_record_are_not_kept(void **state)
{
    struct ckpt_intake *i = open_at(20);

    put(i, 0, 3);
    ckpt_intake_close(i);
    assert_int_equal(truncate(ckpt_kit_path(&kit, TAKEN), 40), 0);
    i = open_at(20);
    put(i, 2, ckpt_chunks(kit.bytes));
    assert_int_equal(commit(i, 20), MU_OK);
    ckpt_intake_close(i);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
}

static void one_of_another_state_is_overwritten(void **state)
{
    struct ckpt_intake *i;

    leave(20, 3);
    ckpt_kit_fill(&kit, 2);
    i = open_at(20);
    assert_int_equal(ckpt_kit_has(&kit, i), 0);
    put(i, 0, ckpt_chunks(kit.bytes));
    assert_int_equal(commit(i, 20), MU_OK);
    ckpt_intake_close(i);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
    ckpt_kit_fill(&kit, 1);
}

static void a_chunk_may_come_again(void **state)
{
    struct ckpt_intake *i = open_at(20);
    uint8_t sum[CKPT_SUM_BYTES];

    put(i, 0, 3);
    put(i, 1, 2);
    assert_int_equal(ckpt_intake_has(i, sum), 2);
    put(i, 2, ckpt_chunks(kit.bytes));
    assert_int_equal(commit(i, 20), MU_OK);
    ckpt_intake_close(i);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
}

static void what_is_left_for_other_steps_goes(void **state)
{
    leave(10, 2);
    leave(20, 1);
    assert_false(is_there(".step-000000000010.intake"));
    leave(30, 1);
    assert_false(is_there(FOLDER));
}

static void wrong_chunks_are_refused(void **state)
{
    struct ckpt_intake *i = open_at(20);
    uint8_t sum[CKPT_SUM_BYTES] = {0};

    assert_int_equal(ckpt_intake_put(i, 0, kit.state, 100, sum, &why), MU_ECORRUPT);
    assert_int_equal(ckpt_kit_put(&kit, i, 1, &why), MU_EINVAL);
    assert_int_equal(ckpt_intake_put(i, 0, kit.state, 0, sum, &why), MU_ELIMIT);
    assert_int_equal(ckpt_intake_put(i, 0, kit.state, CKPT_CHUNK + 1, sum, &why), MU_ELIMIT);
    assert_int_equal(ckpt_intake_has(i, sum), 0);
    ckpt_intake_close(i);
    assert_int_equal(ckpt_intake_open(kit.dir, KIT_JOB, 20, CKPT_CHUNK + 5, &i, &why), MU_OK);
    put(i, 0, 1);
    assert_int_equal(ckpt_kit_put(&kit, i, 1, &why), MU_ELIMIT); /* Of all there is more. */
    ckpt_intake_close(i);
}

static void wrong_names_are_refused(void **state)
{
    static const char *const names[] = {"", ".", "..", "a/b", ".hidden", "../x"};
    struct ckpt_intake *i;

    for (size_t k = 0; k < ARRAY_LEN(names); k++) {
        assert_int_equal(ckpt_intake_open(kit.dir, names[k], 20, 1, &i, &why), MU_EINVAL);
    }
    assert_int_equal(ckpt_intake_open(kit.dir, KIT_JOB, 0, 1, &i, &why), MU_EINVAL);
    assert_int_equal(ckpt_intake_open(kit.dir, KIT_JOB, 20, UINT64_MAX, &i, &why), MU_EINVAL);
}

static void another_manifest_is_refused_and_nothing_is_lost(void **state)
{
    struct ckpt_intake *i = open_at(20);

    put(i, 0, 3);
    assert_int_equal(commit(i, 20), MU_ECORRUPT); /* There are more chunks. */
    put(i, 3, ckpt_chunks(kit.bytes));
    assert_int_equal(commit(i, 21), MU_ECORRUPT);
    ckpt_kit_fill(&kit, 2);
    assert_int_equal(commit(i, 20), MU_ECORRUPT);
    assert_int_equal(ckpt_intake_commit(i, "muster", 6, &why), MU_ECORRUPT);
    assert_int_equal(ckpt_kit_count(&kit), 0);
    ckpt_kit_fill(&kit, 1);
    assert_int_equal(commit(i, 20), MU_OK);
    ckpt_intake_close(i);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
}

static void one_of_the_same_step_makes_place(void **state)
{
    ckpt_kit_fill(&kit, 2);
    assert_int_equal(ckpt_kit_take_in(&kit, 20, NULL, &why), MU_OK);
    ckpt_kit_fill(&kit, 1);
    assert_int_equal(ckpt_kit_take_in(&kit, 20, NULL, &why), MU_OK);
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
    assert_int_equal(ckpt_kit_take_in(&kit, 20, NULL, &why), MU_OK); /* The same: it stays. */
    assert_int_equal(ckpt_kit_load(&kit, 20, &why), MU_OK);
    assert_int_equal(ckpt_kit_count(&kit), 1);
    assert_false(is_there(FOLDER));
}

/* ---- as files ---- */

static void pieces_of_files_are_as_they_were_put(void **state)
{
    uint8_t *got = malloc((size_t)kit.bytes + 100);
    char *text;
    size_t n, text_n;
    uint64_t total;

    assert_non_null(got);
    assert_int_equal(ckpt_kit_take_in(&kit, 20, NULL, &why), MU_OK);
    assert_int_equal(
        ckpt_read_file(kit.dir, KIT_JOB, 20, 0, 0, (size_t)kit.bytes + 100, got, &n, &total, &why),
        MU_OK);
    assert_int_equal(n, kit.bytes);
    assert_int_equal(total, kit.bytes);
    assert_memory_equal(got, kit.state, n);
    assert_int_equal(
        ckpt_read_file(kit.dir, KIT_JOB, 20, 0, kit.bytes - 5, 100, got, &n, &total, &why), MU_OK);
    assert_int_equal(n, 5);
    assert_memory_equal(got, kit.state + kit.bytes - 5, 5);
    assert_int_equal(
        ckpt_read_file(kit.dir, KIT_JOB, 20, 0, UINT64_MAX, 100, got, &n, &total, &why), MU_OK);
    assert_int_equal(n, 0);
    ckpt_kit_manifest(&kit, 20, &text, &text_n);
    assert_int_equal(ckpt_read_file(kit.dir, KIT_JOB, 20, CKPT_MANIFEST_FILE, 0, (size_t)kit.bytes,
                                    got, &n, &total, &why),
                     MU_OK);
    assert_int_equal(n, text_n);
    assert_memory_equal(got, text, n);
    free(text);
    assert_int_equal(ckpt_read_file(kit.dir, KIT_JOB, 20, 1, 0, 5, got, &n, &total, &why),
                     MU_ENOENT);
    assert_int_equal(ckpt_read_file(kit.dir, KIT_JOB, 21, 0, 0, 5, got, &n, &total, &why),
                     MU_ENOENT);
    assert_int_equal(ckpt_read_file(kit.dir, "../x", 20, 0, 0, 5, got, &n, &total, &why),
                     MU_EINVAL);
    free(got);
}

struct usage {
    uint64_t whole, left;
};

static void count(void *arg, const char *job, bool whole, uint64_t bytes)
{
    struct usage *u = arg;

    assert_string_equal(job, KIT_JOB);
    *(whole ? &u->whole : &u->left) += bytes;
}

static void what_is_there_is_counted_and_what_was_left_can_go(void **state)
{
    struct usage u = {0};

    assert_int_equal(ckpt_kit_take_in(&kit, 10, NULL, &why), MU_OK);
    leave(20, 1);
    assert_int_equal(ckpt_usage(kit.dir, count, &u, &why), MU_OK);
    assert_true(u.whole > kit.bytes && u.whole < kit.bytes + 5000);
    assert_int_equal(u.left, CKPT_CHUNK + 20);
    assert_int_equal(ckpt_intake_forget(kit.dir, KIT_JOB, &why), MU_OK);
    assert_false(is_there(FOLDER));
    assert_int_equal(ckpt_kit_newest(&kit), 10);
    assert_int_equal(ckpt_intake_forget(kit.dir, "nobody", &why), MU_OK);
}

static int open_kit(void **state)
{
    ckpt_kit_open(&kit, true);
    return 0;
}

static int close_kit(void **state)
{
    ckpt_kit_close(&kit);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_was_put_is_a_checkpoint_like_any_other),
        CASE(what_has_come_is_taken_up_again),
        CASE(a_chunk_that_is_damaged_goes_with_all_after_it),
        CASE(what_is_cut_goes),
        CASE(bytes_without_a_record_are_not_kept),
        CASE(one_of_another_state_is_overwritten),
        CASE(a_chunk_may_come_again),
        CASE(what_is_left_for_other_steps_goes),
        CASE(wrong_chunks_are_refused),
        CASE(wrong_names_are_refused),
        CASE(another_manifest_is_refused_and_nothing_is_lost),
        CASE(one_of_the_same_step_makes_place),
        CASE(pieces_of_files_are_as_they_were_put),
        CASE(what_is_there_is_counted_and_what_was_left_can_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
