/* A disk that fails: every system call that saving, taking in, pruning, removing and loading makes
 * fails once, or it and all after it. What was there stays, a success is one, a failure has words,
 * and once the disk is well again the next save succeeds. MUSTER_TEST_FULL=1: every call, otherwise
 * each eleventh, beginning with another one in each sweep.
 */
#include "unit/ckpt/ckpt_kit.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- the disk ---- */

static unsigned long calls_n, bad_call; /* 0: all is well */
static bool stays_bad;
static int bad_errno;

static const char *failed; /* the first that did */

static bool fails(const char *name)
{
    calls_n++;
    if (bad_call == 0 || (stays_bad ? calls_n < bad_call : calls_n != bad_call)) {
        return false;
    }
    failed = failed != NULL ? failed : name;
    errno = bad_errno;
    return true;
}

#define WRAP(type, name, params, args)                 \
    type __wrap_##name params;                         \
    type __real_##name params;                         \
    type __wrap_##name params                          \
    {                                                  \
        return fails(#name) ? -1 : __real_##name args; \
    }

WRAP(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
WRAP(ssize_t, pread64, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, ftruncate64, (int fd, off_t n), (fd, n))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, renameat2, (int a_fd, const char *a, int b_fd, const char *b, unsigned flags),
     (a_fd, a, b_fd, b, flags))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, unlinkat, (int fd, const char *name, int flags), (fd, name, flags))
WRAP(int, fallocate64, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))

int __wrap_open64(const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode = 0;

    if ((flags & O_CREAT) != 0) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return fails("open64") ? -1 : __real_open64(path, flags, mode);
}

long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);

/* What was begun can always be waited for. */
long __wrap_syscall(long number, ...)
{
    va_list args;
    long a[5];

    va_start(args, number);
    for (int i = 0; i < 5; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    if ((number == SYS_io_setup || number == SYS_io_submit) && fails("syscall")) {
        return -1;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
}

/* ---- what is tried ---- */

static struct ckpt_kit kit;
static struct ckpt_why why;

static int save_as(uint64_t step, uint64_t seed, const char *tag)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, step, tag, 2);
    int rc;

    ckpt_kit_fill(&kit, seed);
    rc = ckpt_kit_save(&kit, &t, &why);
    if (rc != MU_OK) {
        ckpt_abandon(&t);
    }
    return rc;
}

static int save_next(void)
{
    return save_as(20, 2, "mine");
}

static int save_same(void)
{
    return save_as(10, 2, "mine");
}

static int take_in(void)
{
    ckpt_kit_fill(&kit, 2);
    return ckpt_kit_take_in(&kit, 20, NULL, &why);
}

static int take_in_same(void)
{
    ckpt_kit_fill(&kit, 2);
    return ckpt_kit_take_in(&kit, 10, NULL, &why);
}

static int prune(void)
{
    return ckpt_prune(kit.dir, KIT_JOB, CKPT_NEWEST, 1, 0, NULL, &why);
}

static int remove_older(void)
{
    return ckpt_remove(kit.dir, KIT_JOB, 5, &why);
}

static int load(void)
{
    struct ckpt *c;
    int rc = ckpt_open(kit.dir, KIT_JOB, 10, &c, &why);

    if (rc == MU_OK) {
        rc = ckpt_verify(c, &why);
        ckpt_close(c);
    }
    return rc;
}

static int export(void)
{
    char to[PATH_MAX + 16];
    struct ckpt *c;
    int rc = ckpt_open(kit.dir, KIT_JOB, 10, &c, &why);

    if (rc == MU_OK) {
        snprintf(to, sizeof(to), "%s/out.npz", kit.dir);
        rc = ckpt_export(c, to, false, true, &why);
        ckpt_close(c);
    }
    return rc;
}

/* ---- what is there afterwards ---- */

/* The state before, or the one that was being saved. */
static bool is_whole(uint64_t step)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        ckpt_kit_fill(&kit, seed);
        if (ckpt_kit_load(&kit, step, NULL) == MU_OK) {
            return true;
        }
    }
    return false;
}

static bool writes(int (*try)(void))
{
    return try == save_next || try == save_same || try == take_in || try == take_in_same;
}

static void look(int (*try)(void), int rc, unsigned long call)
{
    const uint64_t step = try == save_next || try == take_in ? 20 : 10;

    if (rc != MU_OK && (why.text[0] == '\0' || (rc != MU_EIO && rc != MU_ELIMIT))) {
        fail_msg("call %lu: %s (%s)", call, mu_strerror(rc), why.text);
    }
    if (rc == MU_OK && failed != NULL && writes(try) &&
        (strcmp(failed, "fsync") == 0 || strcmp(failed, "write") == 0)) {
        fail_msg("call %lu: %s failed, and nobody said so", call, failed);
    }
    if (!is_whole(10)) {
        fail_msg("call %lu took step 10 away", call);
    }
    if (rc != MU_OK && (try == take_in || try == take_in_same)) { /* The disk is well again. */
        rc = try();
        assert_int_equal(rc, MU_OK);
    }
    if (rc == MU_OK && writes(try)) {
        ckpt_kit_fill(&kit, 2);
        assert_int_equal(ckpt_kit_load(&kit, step, &why), MU_OK);
    }
    assert_int_equal(save_as(40, 1, "next"), MU_OK);
    assert_int_equal(ckpt_prune(kit.dir, KIT_JOB, CKPT_NEWEST, 1, 0, NULL, &why), MU_OK);
    assert_int_equal(ckpt_kit_newest(&kit), 40);
    assert_int_equal(ckpt_kit_count(&kit), 1);
}

/* From the first call on until one is more than there are; gives how many there are. */
static unsigned long sweep_with(int (*try)(void), int error, bool forever)
{
    static unsigned long sweeps_n;
    const unsigned long stride = unit_full() ? 1 : 11;
    const unsigned long first = unit_full() ? 1 : 1 + 4 * sweeps_n++ % 11;

    for (unsigned long call = first;; call += stride) {
        unsigned long n;
        int rc;

        ckpt_kit_wipe(ckpt_kit_path(&kit, ""));
        assert_int_equal(save_as(5, 1, "before"), MU_OK);
        assert_int_equal(save_as(10, 1, "before"), MU_OK);
        why.text[0] = '\0';
        calls_n = 0;
        failed = NULL;
        bad_call = call;
        stays_bad = forever;
        bad_errno = error;
        rc = try();
        n = calls_n;
        bad_call = 0;
        look(try, rc, call);
        if (n < call) {
            assert_int_equal(rc, MU_OK);
            return n;
        }
    }
}

/* Once; and from some time on, as a disk that is full or is gone. */
static void sweep(int (*try)(void), int then, unsigned long at_least)
{
    assert_true(sweep_with(try, EIO, false) >= at_least);
    assert_true(sweep_with(try, then, true) >= at_least);
}

static void a_failing_save_leaves_what_was_there(void **state)
{
    sweep(save_next, ENOSPC, 20);
}

static void a_failing_replacement_leaves_the_old_or_the_new(void **state)
{
    sweep(save_same, ENOSPC, 20);
}

static void a_failing_intake_leaves_what_was_there_and_goes_on_later(void **state)
{
    sweep(take_in, ENOSPC, 15);
    sweep(take_in_same, ENOSPC, 15);
}

static void failing_to_prune_or_remove_harms_nothing(void **state)
{
    sweep(prune, ENOSPC, 5);
    sweep(remove_older, ENOSPC, 5);
}

static void failing_to_read_is_told(void **state)
{
    sweep(load, EIO, 5);
    sweep(export, EIO, 10);
}

static int open_kit(void **state)
{
    ckpt_kit_open_fast(&kit);
    return 0;
}

static int close_kit(void **state)
{
    bad_call = 0;
    ckpt_kit_close(&kit);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failing_save_leaves_what_was_there, open_kit, close_kit),
        cmocka_unit_test_setup_teardown(a_failing_replacement_leaves_the_old_or_the_new, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(a_failing_intake_leaves_what_was_there_and_goes_on_later,
                                        open_kit, close_kit),
        cmocka_unit_test_setup_teardown(failing_to_prune_or_remove_harms_nothing, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(failing_to_read_is_told, open_kit, close_kit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
