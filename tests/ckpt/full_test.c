/* A disk that is full: a small tmpfs. The save says so, the last good one stays, and once there is
 * room the next one succeeds. Skipped where the test may not mount one. */
#include "unit/ckpt/ckpt_kit.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define DISK "size=12m" /* two of the small states and a bit */

static struct ckpt_kit kit;
static struct ckpt_why why;
static char disk[] = "/tmp/ckpt-disk-XXXXXX";
static const char *skipped; /* why */

static bool write_text(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY);
    const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* In namespaces of its own, so that nobody else sees the disk and none is left behind. */
static bool mount_disk(void)
{
    char map[64];
    const unsigned uid = getuid(), gid = getgid();

    if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        skipped = "this user may not make a mount namespace";
        return false;
    }
    if (uid != 0) {
        snprintf(map, sizeof(map), "0 %u 1", uid);
        (void)write_text("/proc/self/setgroups", "deny");
        if (!write_text("/proc/self/uid_map", map)) {
            skipped = "this user may not map itself to root";
            return false;
        }
        snprintf(map, sizeof(map), "0 %u 1", gid);
        (void)write_text("/proc/self/gid_map", map);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", disk, "tmpfs", 0, DISK) != 0) {
        skipped = "this user may not mount a tmpfs";
        return false;
    }
    return true;
}

static int open_disk(void **state)
{
    assert_non_null(mkdtemp(disk));
    if (mount_disk()) {
        ckpt_kit_open_in(&kit, disk, false);
    }
    return 0;
}

static int close_disk(void **state)
{
    if (skipped == NULL) {
        ckpt_kit_close(&kit);
        (void)umount(disk);
    }
    rmdir(disk);
    return 0;
}

/* cmocka's TAP has no room for a reason. */
#define NEED_DISK()                            \
    if (skipped != NULL) {                     \
        print_message("# SKIP %s\n", skipped); \
        skip();                                \
    }

static void wipe_job(void)
{
    ckpt_kit_wipe(ckpt_kit_path(&kit, ""));
}

static int save(uint64_t step, uint32_t shards_n, bool zstd)
{
    struct ckpt_target t = ckpt_kit_target(&kit, step, "g1", shards_n);
    int rc;

    t.zstd = zstd;
    ckpt_kit_fill(&kit, step);
    rc = ckpt_kit_save(&kit, &t, &why);
    if (rc != MU_OK) {
        ckpt_abandon(&t);
    }
    return rc;
}

static void a_full_disk_is_told_and_the_last_good_one_stays(bool zstd)
{
    wipe_job();
    assert_int_equal(save(1, 2, zstd), MU_OK);
    assert_int_equal(save(2, 2, zstd), MU_OK);
    for (uint64_t step = 3; step < 6; step++) {
        assert_int_equal(save(step, 2, zstd), MU_ELIMIT);
        assert_non_null(strstr(why.text, "the disk is full"));
        assert_non_null(strstr(why.text, "shard-000"));
        assert_int_equal(ckpt_kit_newest(&kit), 2);
    }
    ckpt_kit_fill(&kit, 2);
    assert_int_equal(ckpt_kit_load(&kit, 2, &why), MU_OK);
    assert_int_equal(ckpt_prune(kit.dir, KIT_JOB, CKPT_NEWEST, 1, 0, NULL, &why),
                     MU_OK); /* Room. */
    assert_int_equal(save(6, 2, zstd), MU_OK);
    assert_int_equal(ckpt_kit_load(&kit, 6, &why), MU_OK);
}

static void a_full_disk_is_told(void **state)
{
    NEED_DISK();
    a_full_disk_is_told_and_the_last_good_one_stays(false);
}

static void a_full_disk_is_told_where_room_is_not_taken_before(void **state)
{
    NEED_DISK();
    a_full_disk_is_told_and_the_last_good_one_stays(true);
}

/* However much room is left, to the page: all or nothing. */
static void with_any_room_it_is_all_or_nothing(void **state)
{
    char filler[PATH_MAX + 16];
    uint32_t saved = 0, refused = 0;

    NEED_DISK();
    wipe_job();
    assert_int_equal(save(1, 1, false), MU_OK);
    snprintf(filler, sizeof(filler), "%s/filler", kit.dir);
    for (uint64_t room = 0; room < 8; room++) {
        const uint64_t left = kit.bytes / 4096 * 4096 + room * 4096 - 3 * 4096;
        const int fd = open(filler, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        struct ckpt_target t = ckpt_kit_target(&kit, 2, "g1", 1);
        int rc;

        assert_true(fd >= 0);
        assert_int_equal(posix_fallocate(fd, 0, (off_t)((12u << 20) - left - kit.bytes - 8192)), 0);
        close(fd);
        ckpt_kit_fill(&kit, 2);
        rc = ckpt_kit_save(&kit, &t, &why);
        if (rc == MU_OK) {
            saved++;
            assert_int_equal(ckpt_kit_load(&kit, 2, &why), MU_OK);
            assert_int_equal(ckpt_remove(kit.dir, KIT_JOB, 2, &why), MU_OK);
        } else {
            refused++;
            assert_int_equal(rc, MU_ELIMIT);
            assert_int_equal(ckpt_kit_newest(&kit), 1);
            ckpt_abandon(&t);
        }
        assert_int_equal(unlink(filler), 0);
    }
    assert_true(saved > 0 && refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(a_full_disk_is_told_where_room_is_not_taken_before),
        cmocka_unit_test(with_any_room_it_is_all_or_nothing),
    };

    return cmocka_run_group_tests(tests, open_disk, close_disk);
}
