/* Saving: shards, sums, commit; what is there afterwards, and what is not. */
#include "ckpt/ckpt.h"
#include "unit/ckpt/ckpt_kit.h"
#include "unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ckpt_kit kit;
static struct ckpt_why why;

static int open_kit(void **state)
{
    ckpt_kit_open(&kit, true);
    why.text[0] = '\0';
    return 0;
}

static int close_kit(void **state)
{
    ckpt_kit_close(&kit);
    return 0;
}

static void save(uint64_t step, const char *tag, uint32_t shards_n)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, step, tag, shards_n);

    if (ckpt_kit_save(&kit, &t, &why) != MU_OK) {
        fail_msg("%s", why.text);
    }
}

static bool exists(const char *name)
{
    return access(ckpt_kit_path(&kit, name), F_OK) == 0;
}

/* Names in a checkpoint's folder, sorted. */
static void expect_files(const char *folder, const char *names)
{
    struct dirent **found = NULL;
    char all[512] = "";
    int n = scandir(ckpt_kit_path(&kit, folder), &found, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        if (found[i]->d_name[0] != '.') {
            strcat(strcat(all, all[0] != '\0' ? " " : ""), found[i]->d_name);
        }
        free(found[i]);
    }
    free(found);
    assert_string_equal(all, names);
}

static void what_was_saved_is_loaded(void **state)
{
    for (uint32_t shards_n = 1; shards_n <= 9; shards_n += 2) {
        ckpt_kit_fill(&kit, shards_n);
        save(100 + shards_n, "g1", shards_n);
        assert_int_equal(ckpt_kit_load(&kit, 100 + shards_n, &why), MU_OK);
    }
}

static void compressed_it_is_the_same_and_smaller(void **state)
{
    struct ckpt_target t = ckpt_kit_target(&kit, 5, "z", 2);
    struct ckpt_entry *entries;
    uint32_t n;

    memset(kit.state, 7, (size_t)(2 * CKPT_CHUNK)); /* The rest can't be compressed. */
    t.zstd = true;
    assert_int_equal(ckpt_kit_save(&kit, &t, &why), MU_OK);
    assert_int_equal(ckpt_kit_load(&kit, 5, &why), MU_OK);
    assert_int_equal(ckpt_list(kit.dir, KIT_JOB, &entries, &n, &why), MU_OK);
    assert_int_equal(n, 1);
    assert_true(entries[0].bytes < kit.bytes - CKPT_CHUNK);
    assert_true(entries[0].bytes > kit.bytes - 2 * CKPT_CHUNK);
    free(entries);
}

static void a_state_of_no_bytes_can_be_saved(void **state)
{
    const struct ckpt_mark mark = ckpt_kit_mark(1);
    struct ckpt_target t = ckpt_kit_target(&kit, 1, "g1", 2);
    struct ckpt *c;

    t.bytes = 0;
    assert_int_equal(ckpt_write_shard(&t, 0, NULL, NULL, &why), MU_OK);
    assert_int_equal(ckpt_write_shard(&t, 1, NULL, NULL, &why), MU_OK);
    assert_int_equal(ckpt_commit(&t, &mark, NULL, 0, &why), MU_OK);
    assert_int_equal(ckpt_open(kit.dir, KIT_JOB, 1, &c, &why), MU_OK);
    assert_int_equal(ckpt_manifest(c)->chunks_n, 0);
    assert_int_equal(ckpt_verify(c, &why), MU_OK);
    ckpt_close(c);
}

static void only_manifest_and_shards_are_in_it(void **state)
{
    save(1200, "g1-host", 3);
    expect_files("step-000000001200", "manifest shard-0000 shard-0001 shard-0002");
    assert_false(exists(".step-000000001200.g1-host"));
}

static void what_is_not_committed_is_not_there(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 9, "g1", 2);

    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ckpt_write_shard(&t, i, ckpt_kit_data(&kit, &t, i), NULL, &why), MU_OK);
    }
    assert_int_equal(ckpt_kit_count(&kit), 0);
    assert_true(exists(".step-000000000009.g1"));
    ckpt_abandon(&t);
    assert_false(exists(".step-000000000009.g1"));
    ckpt_abandon(&t);
}

static void all_must_have_left_their_sums(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 9, "g1", 3);
    const struct ckpt_mark mark = ckpt_kit_mark(9);

    assert_int_equal(ckpt_write_shard(&t, 0, ckpt_kit_data(&kit, &t, 0), NULL, &why), MU_OK);
    assert_int_equal(ckpt_write_shard(&t, 2, ckpt_kit_data(&kit, &t, 2), NULL, &why), MU_OK);
    assert_int_equal(ckpt_commit(&t, &mark, kit.parts, KIT_PARTS, &why), MU_EIO);
    assert_int_equal(ckpt_kit_count(&kit), 0);
    assert_int_equal(ckpt_write_shard(&t, 1, ckpt_kit_data(&kit, &t, 1), NULL, &why), MU_OK);
    assert_int_equal(ckpt_commit(&t, &mark, kit.parts, KIT_PARTS, &why), MU_OK);
    assert_int_equal(ckpt_kit_load(&kit, 9, &why), MU_OK);
}

static void a_cancelled_writer_leaves_no_shard(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 9, "g1", 2);
    _Atomic bool cancel = true;

    assert_int_equal(ckpt_write_shard(&t, 1, ckpt_kit_data(&kit, &t, 1), &cancel, &why), MU_EDONE);
    expect_files(".step-000000000009.g1", "");
}

static void what_a_writer_told_before_does_not_count(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 9, "g1", 1);
    _Atomic bool cancel = true;

    assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_OK);
    expect_files(".step-000000000009.g1", "shard-0000 shard-0000.sums");
    assert_int_equal(ckpt_write_shard(&t, 0, kit.state, &cancel, &why), MU_EDONE);
    expect_files(".step-000000000009.g1", "");
}

static void sums_of_another_attempt_are_not_taken(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 9, "g1", 1);
    struct ckpt_target other = t;
    const struct ckpt_mark mark = ckpt_kit_mark(9);

    other.bytes -= 1; /* Somebody whose state is another. */
    assert_int_equal(ckpt_write_shard(&other, 0, kit.state, NULL, &why), MU_OK);
    assert_int_equal(ckpt_commit(&t, &mark, kit.parts, KIT_PARTS, &why), MU_EIO);
    assert_non_null(strstr(why.text, "shard-0000.sums"));
}

static void parts_that_do_not_sum_up_are_refused(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 9, "g1", 1);
    struct ckpt_mark mark = ckpt_kit_mark(9);

    assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_OK);
    assert_int_equal(ckpt_commit(&t, &mark, kit.parts, KIT_PARTS - 1, &why), MU_EINVAL);
    mark.step = 8;
    assert_int_equal(ckpt_commit(&t, &mark, kit.parts, KIT_PARTS, &why), MU_EINVAL);
    assert_int_equal(ckpt_kit_count(&kit), 0);
}

/* ---- the same step again ---- */

static ino_t manifest_inode(const char *folder)
{
    char name[128];
    struct stat st;

    snprintf(name, sizeof(name), "%s/manifest", folder);
    assert_int_equal(stat(ckpt_kit_path(&kit, name), &st), 0);
    return st.st_ino;
}

static void the_same_again_leaves_what_is_there(void **state)
{
    ino_t before;

    save(9, "g1", 2);
    before = manifest_inode("step-000000000009");
    save(9, "g2", 3);
    assert_true(manifest_inode("step-000000000009") == before);
    assert_false(exists(".step-000000000009.g2"));
    assert_int_equal(ckpt_kit_load(&kit, 9, &why), MU_OK);
}

static void another_of_the_same_step_takes_the_place(void **state)
{
    save(9, "g1", 2);
    ckpt_kit_fill(&kit, 2);
    save(9, "g2", 3);
    assert_int_equal(ckpt_kit_load(&kit, 9, &why), MU_OK);
    expect_files("step-000000000009", "manifest shard-0000 shard-0001 shard-0002");
    assert_false(exists(".step-000000000009.g2"));
    assert_int_equal(ckpt_kit_count(&kit), 1);
}

static void a_damaged_one_with_the_same_chunks_is_replaced(void **state)
{
    const uint8_t flipped = (uint8_t)~kit.state[5];
    int fd;

    save(9, "g1", 1);
    fd = open(ckpt_kit_path(&kit, "step-000000000009/shard-0000"), O_WRONLY);
    assert_int_equal(pwrite(fd, &flipped, 1, 5), 1);
    close(fd);
    assert_int_equal(ckpt_kit_load(&kit, 9, &why), MU_ECORRUPT);
    save(9, "g2", 1);
    assert_int_equal(ckpt_kit_load(&kit, 9, &why), MU_OK);
}

static void what_is_in_the_way_is_told(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 9, "g1", 1);
    int fd;

    save(8, "g1", 1);
    fd = open(ckpt_kit_path(&kit, "step-000000000009"), O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(ckpt_kit_save(&kit, &t, &why), MU_EIO);
    assert_non_null(strstr(why.text, "step-000000000009"));
    assert_int_equal(ckpt_kit_newest(&kit), 8);
}

static void bad_targets_are_refused(void **state)
{
    static const char *const jobs[] = {"", ".", "..", ".hidden", "a/b", "../up", "a b", "a\n"};
    static const char *const tags[] = {"", "a/b", "..", "a.b", "_old", "a_b", "a b"};
    struct ckpt_target t = ckpt_kit_target(&kit, 1, "g1", 1);

    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        t.job = jobs[i];
        assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_EINVAL);
    }
    t.job = KIT_JOB;
    for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
        t.tag = tags[i];
        assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_EINVAL);
    }
    t.tag = "g1";
    assert_int_equal(ckpt_write_shard(&t, 1, kit.state, NULL, &why), MU_EINVAL);
    t.shards_n = CKPT_SHARDS_MAX + 1;
    assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_EINVAL);
    t.shards_n = 1;
    t.step = 0;
    assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_EINVAL);
    t.step = 1;
    t.bytes = (uint64_t)CKPT_CHUNKS_MAX * CKPT_CHUNK + 1;
    assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_EINVAL);
}

static void a_folder_that_can_not_be_made_is_told(void **state)
{
    struct ckpt_target t = ckpt_kit_target(&kit, 1, "g1", 1);
    char file[PATH_MAX + 16];

    snprintf(file, sizeof(file), "%s/file", kit.dir);
    close(open(file, O_WRONLY | O_CREAT, 0666));
    t.dir = file;
    assert_int_equal(ckpt_write_shard(&t, 0, kit.state, NULL, &why), MU_EIO);
    assert_non_null(strstr(why.text, file));
}

/* Whole pages go past the page cache; what lies anywhere can't, and is written all the same. */
static void a_state_that_lies_between_pages_is_saved_too(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 3, "w1", 1);
    const struct ckpt_mark mark = ckpt_kit_mark(3);
    uint8_t *data = malloc((size_t)kit.bytes + 1);

    assert_non_null(data);
    data++; /* malloc() gives even ones. */
    memcpy(data, kit.state, (size_t)kit.bytes);
    assert_int_equal(ckpt_write_shard(&t, 0, data, NULL, &why), MU_OK);
    assert_int_equal(ckpt_commit(&t, &mark, kit.parts, KIT_PARTS, &why), MU_OK);
    assert_int_equal(ckpt_kit_load(&kit, 3, &why), MU_OK);
    free(data - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_saved_is_loaded, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(compressed_it_is_the_same_and_smaller, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_state_of_no_bytes_can_be_saved, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(only_manifest_and_shards_are_in_it, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(what_is_not_committed_is_not_there, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(all_must_have_left_their_sums, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_cancelled_writer_leaves_no_shard, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(what_a_writer_told_before_does_not_count, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(sums_of_another_attempt_are_not_taken, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(parts_that_do_not_sum_up_are_refused, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(the_same_again_leaves_what_is_there, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(another_of_the_same_step_takes_the_place, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(a_damaged_one_with_the_same_chunks_is_replaced, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(a_state_that_lies_between_pages_is_saved_too, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(what_is_in_the_way_is_told, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(bad_targets_are_refused, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_folder_that_can_not_be_made_is_told, open_kit, close_kit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
