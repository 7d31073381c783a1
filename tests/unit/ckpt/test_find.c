/* What there is in a folder, and what can go. */
#include "ckpt/ckpt.h"
#include "unit/ckpt/ckpt_kit.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ckpt_kit kit;
static struct ckpt_why why;

/* When asked to, as a file system that can't swap names. */
static bool no_swap;
int __wrap_renameat2(int a_fd, const char *a, int b_fd, const char *b, unsigned flags);
int __real_renameat2(int a_fd, const char *a, int b_fd, const char *b, unsigned flags);

int __wrap_renameat2(int a_fd, const char *a, int b_fd, const char *b, unsigned flags)
{
    if (no_swap) {
        errno = EINVAL;
        return -1;
    }
    return __real_renameat2(a_fd, a, b_fd, b, flags);
}

static int open_kit(void **state)
{
    ckpt_kit_open(&kit, false);
    no_swap = false;
    return 0;
}

static int close_kit(void **state)
{
    ckpt_kit_close(&kit);
    return 0;
}

static void save(uint64_t step)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, step, "g1", 1);

    if (ckpt_kit_save(&kit, &t, &why) != MU_OK) {
        fail_msg("%s", why.text);
    }
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(ckpt_kit_path(&kit, name), 0777), 0);
}

static void make_file(const char *name)
{
    const int fd = open(ckpt_kit_path(&kit, name), O_WRONLY | O_CREAT, 0666);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static bool exists(const char *name)
{
    return access(ckpt_kit_path(&kit, name), F_OK) == 0;
}

/* The steps that there are, as "30 20 10". */
static void expect_steps(const char *steps)
{
    struct ckpt_entry *entries;
    char all[256] = "";
    uint32_t n;

    assert_int_equal(ckpt_list(kit.dir, KIT_JOB, &entries, &n, &why), MU_OK);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%" PRIu64, i > 0 ? " " : "",
                 entries[i].step);
    }
    free(entries);
    assert_string_equal(all, steps);
}

static void prune(uint32_t keep_n, uint64_t every, const char *tag)
{
    if (ckpt_prune(kit.dir, KIT_JOB, CKPT_NEWEST, keep_n, every, tag, &why) != MU_OK) {
        fail_msg("%s", why.text);
    }
}

/* ---- lists ---- */

static void an_empty_or_missing_folder_has_none(void **state)
{
    struct ckpt *c;
    char *names;

    expect_steps("");
    assert_int_equal(ckpt_jobs(kit.dir, &names, &why), MU_OK);
    assert_int_equal(names[0], '\0');
    free(names);
    assert_int_equal(ckpt_jobs("/no/such/folder", &names, &why), MU_OK);
    assert_int_equal(names[0], '\0');
    free(names);
    assert_int_equal(ckpt_open(kit.dir, KIT_JOB, 1, &c, &why), MU_ENOENT);
    assert_int_equal(ckpt_remove(kit.dir, KIT_JOB, 1, &why), MU_ENOENT);
    prune(1, 0, NULL);
}

static void the_newest_is_first(void **state)
{
    static const uint64_t steps[] = {20, 1000000000000, 3, 999999999999, 100};

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        save(steps[i]);
    }
    expect_steps("1000000000000 999999999999 100 20 3");
    assert_int_equal(ckpt_kit_load(&kit, 1000000000000, &why), MU_OK);
}

static void its_bytes_are_those_on_the_disk(void **state)
{
    struct ckpt_entry *entries;
    uint32_t n;

    save(3);
    assert_int_equal(ckpt_list(kit.dir, KIT_JOB, &entries, &n, &why), MU_OK);
    assert_true(entries[0].bytes > kit.bytes && entries[0].bytes < kit.bytes + 4096);
    free(entries);
}

static void strangers_are_not_taken_for_checkpoints(void **state)
{
    static const char *const folders[] = {"step-12",
                                          "step-0000000000012",
                                          "step-000000000000",
                                          "step-00000000001x",
                                          "step-000000000012.bak",
                                          "Step-000000000012",
                                          "step-99999999999999999999",
                                          "lost+found",
                                          ".step-000000000012"};

    save(3);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        make_folder(folders[i]);
    }
    make_file("step-000000000013");
    make_file("notes.txt");
    assert_int_equal(symlink("step-000000000003", ckpt_kit_path(&kit, "step-000000000014")), 0);
    expect_steps("3");
    prune(1, 0, NULL);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        assert_true(exists(folders[i]));
    }
    assert_true(exists("step-000000000013") && exists("notes.txt"));
}

static void jobs_are_folders_with_checkpoints(void **state)
{
    struct ckpt_target t = ckpt_kit_target(&kit, 1, "g1", 1);
    char *names;
    const struct ckpt_mark mark = {.job = "a.b", .step = 1};

    save(1);
    t.job = "a.b";
    assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_OK);
    assert_int_equal(ckpt_commit(&t, &mark, kit.parts, KIT_PARTS, &why), MU_OK);
    make_folder("../empty");
    make_folder("../.hidden");
    make_file("../file");
    assert_int_equal(ckpt_jobs(kit.dir, &names, &why), MU_OK);
    assert_memory_equal(names, "a.b\0" KIT_JOB "\0", sizeof("a.b\0" KIT_JOB "\0"));
    free(names);
}

static void a_renamed_folder_is_found_out(void **state)
{
    struct ckpt *c;

    save(3);
    assert_int_equal(
        rename(ckpt_kit_path(&kit, "step-000000000003"), ckpt_kit_path(&kit, "step-000000000004")),
        0);
    assert_int_equal(ckpt_open(kit.dir, KIT_JOB, 4, &c, &why), MU_ECORRUPT);
}

/* ---- what goes ---- */

static void the_newest_few_stay(void **state)
{
    for (uint64_t step = 10; step <= 50; step += 10) {
        save(step);
    }
    prune(3, 0, NULL);
    expect_steps("50 40 30");
    prune(3, 0, NULL);
    expect_steps("50 40 30");
    prune(0, 0, NULL);
    expect_steps("50");
}

static void multiples_stay_too(void **state)
{
    for (uint64_t step = 10; step <= 60; step += 10) {
        save(step);
    }
    prune(1, 20, NULL);
    expect_steps("60 40 20");
    prune(2, 40, NULL);
    expect_steps("60 40");
    prune(1, 7, NULL);
    expect_steps("60");
}

static void begin(const struct ckpt_target *t)
{
    assert_int_equal(ckpt_write_shard(t, 0, ckpt_kit_data(&kit, t, 0), NULL, &why), MU_OK);
}

static void what_attempts_left_goes_but_not_what_is_being_written(void **state)
{
    struct ckpt_target mine = ckpt_kit_target(&kit, 20, "mine", 2);
    struct ckpt_target older = ckpt_kit_target(&kit, 10, "other", 2);
    struct ckpt_target before = ckpt_kit_target(&kit, 10, "mine", 2);
    struct ckpt_target same = ckpt_kit_target(&kit, 20, "other", 2);
    struct ckpt_target later = ckpt_kit_target(&kit, 30, "other", 2);

    save(20);
    begin(&mine);
    begin(&before);
    begin(&older);
    begin(&same);
    begin(&later);
    prune(1, 0, "mine");
    assert_true(exists(".step-000000000020.mine"));
    assert_false(exists(".step-000000000010.mine"));
    assert_false(exists(".step-000000000010.other"));
    assert_false(exists(".step-000000000020.other"));
    assert_true(exists(".step-000000000030.other"));
    prune(1, 0, NULL);
    assert_false(exists(".step-000000000020.mine"));
    assert_true(exists(".step-000000000030.other"));
}

static void one_can_be_removed(void **state)
{
    save(10);
    save(20);
    assert_int_equal(ckpt_remove(kit.dir, KIT_JOB, 10, &why), MU_OK);
    expect_steps("20");
    assert_int_equal(ckpt_remove(kit.dir, KIT_JOB, 10, &why), MU_ENOENT);
    assert_non_null(strstr(why.text, "step 10"));
    assert_int_equal(ckpt_remove(kit.dir, "../" KIT_JOB, 20, &why), MU_EINVAL);
}

static void what_an_earlier_removal_left_is_no_hindrance(void **state)
{
    save(10);
    make_folder(".step-000000000010._gone");
    make_file(".step-000000000010._gone/shard-0000");
    make_folder(".step-000000000099._gone");
    assert_int_equal(ckpt_remove(kit.dir, KIT_JOB, 10, &why), MU_OK);
    assert_false(exists(".step-000000000010._gone"));
    save(5);
    prune(1, 0, NULL);
    assert_false(exists(".step-000000000099._gone"));
}

/* ---- where names can't be swapped ---- */

static void without_swapping_another_takes_the_place(void **state)
{
    no_swap = true;
    save(10);
    ckpt_kit_fill(&kit, 2);
    save(10);
    assert_int_equal(ckpt_kit_load(&kit, 10, &why), MU_OK);
    assert_false(exists(".step-000000000010._old"));
    expect_steps("10");
}

static void one_that_was_put_aside_is_found_and_can_go(void **state)
{
    save(10);
    assert_int_equal(rename(ckpt_kit_path(&kit, "step-000000000010"),
                            ckpt_kit_path(&kit, ".step-000000000010._old")),
                     0);
    expect_steps("10");
    assert_int_equal(ckpt_kit_load(&kit, 10, &why), MU_OK);
    prune(1, 0, NULL);
    assert_int_equal(ckpt_kit_load(&kit, 10, &why), MU_OK);
    save(10);
    expect_steps("10");
    assert_false(exists(".step-000000000010._old"));
    assert_int_equal(ckpt_remove(kit.dir, KIT_JOB, 10, &why), MU_OK);
    expect_steps("");
}

/* 50 is damaged, and the run has gone back behind it: were it one of those to stay, what is saved
 * now would go at once. */
static void what_a_run_went_back_behind_is_no_reason_to_go(void **state)
{
    static const uint64_t steps[] = {10, 20, 30, 40, 50};

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        save(steps[i]);
    }
    assert_int_equal(ckpt_prune(kit.dir, KIT_JOB, 30, 1, 0, NULL, &why), MU_OK);
    expect_steps("50 40 30");
    assert_int_equal(ckpt_prune(kit.dir, KIT_JOB, 45, 1, 0, NULL, &why), MU_OK);
    expect_steps("50 40");
    assert_int_equal(ckpt_prune(kit.dir, KIT_JOB, 5, 1, 0, NULL, &why), MU_OK);
    expect_steps("50 40");
    assert_int_equal(ckpt_prune(kit.dir, KIT_JOB, 50, 1, 0, NULL, &why), MU_OK);
    expect_steps("50");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_or_missing_folder_has_none, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(the_newest_is_first, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(its_bytes_are_those_on_the_disk, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(strangers_are_not_taken_for_checkpoints, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(jobs_are_folders_with_checkpoints, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_renamed_folder_is_found_out, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(the_newest_few_stay, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(multiples_stay_too, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(what_attempts_left_goes_but_not_what_is_being_written,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(what_a_run_went_back_behind_is_no_reason_to_go, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(one_can_be_removed, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(what_an_earlier_removal_left_is_no_hindrance, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(without_swapping_another_takes_the_place, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(one_that_was_put_aside_is_found_and_can_go, open_kit,
                                        close_kit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
