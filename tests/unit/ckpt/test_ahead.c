/* Files are read past the page cache, a piece ahead: with what was asked for, in any order; and
 * where the kernel can't or fails, that is said and the plain way is left. */
#include "ckpt/ahead.h"
#include "ckpt/file.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNKS 5
#define TAIL 1234u
#define BYTES ((CHUNKS - 1) * (size_t)CKPT_CHUNK + TAIL)

/* ---- a kernel that can be made to fail ---- */

static long bad_call; /* SYS_io_…; 0: all is well */
static int64_t bad_result;
static unsigned submits_n;

long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    long a[5];
    long rc;
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 5; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    submits_n += number == SYS_io_submit;
    if (number == bad_call && number != SYS_io_getevents) {
        errno = ENOSYS;
        return -1;
    }
    rc = __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
    if (number == bad_call && rc == 1) {
        ((struct io_event *)a[3])->res = bad_result; /* of SYS_io_getevents */
    }
    return rc;
}

/* ---- a file ---- */

static uint8_t *bytes;
static char path[256];
static int fd;

static int set_up(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    bytes = malloc(BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    snprintf(path, sizeof(path), "%s/ahead-XXXXXX", tmp != NULL ? tmp : "/tmp");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(file_write(fd, bytes, BYTES), 0);
    assert_int_equal(fsync(fd), 0);
    bad_call = 0;
    submits_n = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(fd);
    unlink(path);
    free(bytes);
    return 0;
}

static uint32_t length(uint32_t chunk)
{
    return chunk < CHUNKS - 1 ? (uint32_t)CKPT_CHUNK : chunk == CHUNKS - 1 ? TAIL : 0;
}

static int read_chunk(struct ahead *a, uint32_t chunk, uint32_t next, const uint8_t **data_out)
{
    return ahead_read(a, chunk * CKPT_CHUNK, length(chunk), next * CKPT_CHUNK, length(next),
                      data_out);
}

static void expect(struct ahead *a, uint32_t chunk, uint32_t next)
{
    const uint8_t *data = NULL;

    assert_int_equal(read_chunk(a, chunk, next, &data), MU_OK);
    assert_memory_equal(data, bytes + chunk * CKPT_CHUNK, length(chunk));
}

/* The test's folder may be one that must be read in the plain way: then there is nothing to see. */
static struct ahead *begin(void)
{
    struct ahead *a = ahead_open();

    if (a == NULL || !file_direct(fd, true)) {
        ahead_close(a);
        skip();
    }
    ahead_file(a, fd);
    return a;
}

static bool is_direct(void)
{
    return (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
}

/* ---- the tests ---- */

static void a_file_is_read_with_each_piece_asked_for_once(void **state)
{
    struct ahead *a = begin();

    for (uint32_t i = 0; i < CHUNKS; i++) {
        expect(a, i, i + 1);
    }
    assert_int_equal(submits_n, CHUNKS);
    ahead_close(a);
}

static void what_was_begun_need_not_be_what_is_wanted_next(void **state)
{
    static const uint32_t order[][2] = {{0, 1}, {3, 4}, {3, 4}, {0, 3}, {4, 5}, {1, 2}, {2, 0}};
    struct ahead *a = begin();

    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        expect(a, order[i][0], order[i][1]);
    }
    ahead_close(a);
}

/* What is verified is what is there now. */
static void what_was_read_before_is_read_again(void **state)
{
    struct ahead *a = begin();

    expect(a, 1, 5);
    memset(bytes + CKPT_CHUNK, 0xee, 4096);
    assert_true(file_direct(fd, false));
    assert_int_equal(pwrite(fd, bytes + CKPT_CHUNK, 4096, CKPT_CHUNK), 4096);
    assert_int_equal(fsync(fd), 0);
    assert_true(file_direct(fd, true));
    expect(a, 1, 5);
    ahead_close(a);
}

static void another_file_may_come_while_a_piece_of_the_first_does(void **state)
{
    struct ahead *a = begin();

    expect(a, 0, 1);
    ahead_file(a, -1);
    ahead_file(a, fd);
    expect(a, 0, 1);
    ahead_close(a);
}

static void a_file_that_ends_too_early_is_left_to_the_plain_way(void **state)
{
    struct ahead *a = begin();
    const uint8_t *data;

    expect(a, 0, 5);
    assert_int_equal(ftruncate(fd, (off_t)(BYTES - 1)), 0);
    assert_int_equal(read_chunk(a, 4, 5, &data), MU_EAGAIN);
    assert_false(is_direct());
    assert_int_equal(read_chunk(a, 0, 1, &data), MU_EAGAIN);
    ahead_close(a);
}

static void what_lies_across_pages_is_left_to_the_plain_way(void **state)
{
    struct ahead *a = begin();
    const uint8_t *data;

    assert_int_equal(ahead_read(a, 100, 50, 0, 0, &data), MU_EAGAIN);
    assert_false(is_direct());
    ahead_close(a);
}

static void a_kernel_that_can_not_is_left_to_the_plain_way(void **state)
{
    struct ahead *a = begin();
    const uint8_t *data;

    bad_call = SYS_io_submit;
    assert_int_equal(read_chunk(a, 0, 1, &data), MU_EAGAIN);
    assert_false(is_direct());
    ahead_close(a);
    bad_call = SYS_io_setup;
    assert_null(ahead_open());
    assert_int_equal(ahead_read(NULL, 0, 1, 0, 0, &data), MU_EAGAIN);
}

static void a_disk_that_fails_is_left_to_the_plain_way(void **state)
{
    static const int64_t results[] = {-EIO, -EINVAL, 0, 4096};

    for (size_t i = 0; i < ARRAY_LEN(results); i++) {
        struct ahead *a = begin();
        const uint8_t *data;

        expect(a, 0, 1);
        bad_call = SYS_io_getevents;
        bad_result = results[i];
        assert_int_equal(read_chunk(a, 1, 2, &data), MU_EAGAIN);
        assert_false(is_direct());
        bad_call = 0;
        ahead_close(a);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_read_with_each_piece_asked_for_once),
        TEST(what_was_begun_need_not_be_what_is_wanted_next),
        TEST(what_was_read_before_is_read_again),
        TEST(another_file_may_come_while_a_piece_of_the_first_does),
        TEST(a_file_that_ends_too_early_is_left_to_the_plain_way),
        TEST(what_lies_across_pages_is_left_to_the_plain_way),
        TEST(a_kernel_that_can_not_is_left_to_the_plain_way),
        TEST(a_disk_that_fails_is_left_to_the_plain_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
