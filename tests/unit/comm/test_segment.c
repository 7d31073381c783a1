#include "comm/memfd.h"
#include "comm/segment.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_segments(void **state)
{
    struct segments *s;

    assert_int_equal(segments_open(&s), MU_OK);
    *state = s;
    return 0;
}

static int close_segments(void **state)
{
    segments_close(*state);
    return 0;
}

/* As a peer would get it. */
struct seen {
    uint32_t n;
    uint32_t ids[8];
    int fd;
    size_t bytes;
};

static int see(void *arg, uint32_t id, int fd, size_t bytes)
{
    struct seen *seen = arg;

    seen->ids[seen->n % 8] = id;
    seen->n++;
    seen->fd = fd;
    seen->bytes = bytes;
    return MU_OK;
}

static char *make(struct segments *s, size_t bytes, uint32_t *id_out)
{
    void *memory;

    assert_int_equal(segment_make(s, bytes, &memory, id_out), MU_OK);
    return memory;
}

static void what_its_owner_writes_is_seen_by_a_peer_that_can_only_read(void **state)
{
    struct segments *s = *state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct seen seen = {0};
    uint32_t id;
    char *memory = make(s, 3 * page - 5, &id);
    const char *why, *map;

    assert_int_equal((uintptr_t)memory % page, 0);
    assert_int_equal(memory[3 * page - 6], 0);
    assert_int_equal(segment_each(s, 0, see, &seen), MU_OK);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.bytes, 3 * page);
    assert_int_equal(memfd_check(seen.fd, seen.bytes, &why), MU_OK);
    map = mmap(NULL, seen.bytes, PROT_READ, MAP_SHARED, seen.fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    memory[page + 7] = 42;
    assert_int_equal(map[page + 7], 42);

    assert_ptr_equal(mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, seen.fd, 0), MAP_FAILED);
    assert_int_equal(errno, EPERM);
    assert_int_equal(mprotect((void *)(uintptr_t)map, page, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(pwrite(seen.fd, "x", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(seen.fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(fallocate(seen.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)page),
                     -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(map[page + 7], 42);
    munmap((void *)(uintptr_t)map, seen.bytes);
}

static void memory_that_is_not_sealed_or_of_another_length_is_refused(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *why;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int pipes[2];

    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    assert_int_equal(memfd_check(fd, page, &why), MU_EPROTO);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(memfd_check(fd, page, &why), MU_EPROTO);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    assert_int_equal(memfd_check(fd, page, &why), MU_OK);
    assert_int_equal(memfd_check(fd, 2 * page, &why), MU_EPROTO);
    close(fd);
    assert_int_equal(memfd_check(fd, page, &why), MU_EPROTO);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(memfd_check(pipes[0], 0, &why), MU_EPROTO);
    close(pipes[0]);
    close(pipes[1]);
}

static void a_pointer_is_found_in_its_segment_and_nowhere_else(void **state)
{
    struct segments *s = *state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory[40], outside = 0;
    uint32_t ids[40];
    struct segment_ref ref = {.id = 77, .offset = 7};

    for (int i = 0; i < 40; i++) {
        memory[i] = make(s, page * (size_t)(1 + i % 3), &ids[i]);
    }
    for (int i = 0; i < 40; i++) {
        const size_t bytes = page * (size_t)(1 + i % 3);

        assert_true(segment_find(s, memory[i] + 100, bytes - 100, &ref));
        assert_int_equal(ref.id, ids[i]);
        assert_int_equal(ref.offset, 100);
        assert_true(segment_find(s, memory[i] + bytes, 0, &ref));
        ref = (struct segment_ref){.id = 77};
        assert_false(segment_find(s, memory[i] + 100, bytes - 99, &ref));
        assert_false(segment_find(s, memory[i] + 1, SIZE_MAX, &ref));
        assert_int_equal(ref.id, 77);
    }
    assert_false(segment_find(s, &outside, 1, &ref));
    assert_false(segment_find(s, NULL, 1, &ref));
    for (int i = 0; i < 40; i += 2) {
        segment_free(s, memory[i]);
    }
    for (int i = 0; i < 40; i++) {
        assert_int_equal(segment_find(s, memory[i], page, &ref), i % 2);
        assert_true(i % 2 == 0 || ref.id == ids[i]);
    }
}

static void numbers_are_told_in_order_and_never_used_again(void **state)
{
    struct segments *s = *state;
    struct seen seen = {0};
    uint32_t ids[4];
    char *memory[4];

    for (int i = 0; i < 3; i++) {
        memory[i] = make(s, 1, &ids[i]);
        assert_int_equal(ids[i], i + 1);
    }
    segment_free(s, memory[1]);
    segment_free(s, memory[2]);
    memory[3] = make(s, 1, &ids[3]);
    assert_int_equal(ids[3], 4);
    assert_int_equal(segment_each(s, 0, see, &seen), MU_OK);
    assert_int_equal(seen.n, 2);
    assert_int_equal(seen.ids[0], 1);
    assert_int_equal(seen.ids[1], 4);
    seen.n = 0;
    assert_int_equal(segment_each(s, 4, see, &seen), MU_OK);
    assert_int_equal(seen.n, 0);
}

static void free_something_else(void *arg)
{
    segment_free(arg, &(char){0});
}

static void only_what_was_made_can_be_freed(void **state)
{
    assert_true(unit_panics(free_something_else, *state));
}

static uint32_t open_files(void)
{
    uint32_t n = 0;

    for (int fd = 0; fd < 2048; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void without_descriptors_it_fails_and_leaves_nothing(void **state)
{
    struct segments *s = *state;
    const uint32_t before = open_files();
    struct rlimit old, low;
    char text[4096];
    void *memory = NULL;
    uint32_t id = 99, n = 0;
    int rc;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 40;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    unit_stderr_begin();
    while ((rc = segment_make(s, 1, &memory, &id)) == MU_OK) {
        n++;
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(rc, MU_ELIMIT);
    assert_true(n > 0 && n < 40);
    assert_int_equal(id, n);
    assert_non_null(strstr(text, "ulimit -n"));
    assert_int_equal(open_files(), before + n);
    make(s, 1, &id);
    assert_int_equal(id, n + 1);
}

static void there_are_so_many_and_no_more(void **state)
{
    struct segments *s = *state;
    struct rlimit old, high;
    void *memory, *first;
    char text[4096];
    uint32_t id;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    high = old;
    high.rlim_cur = old.rlim_max;
    if (old.rlim_max < SEGMENTS_MAX + 100 || setrlimit(RLIMIT_NOFILE, &high) != 0) {
        skip();
    }
    assert_int_equal(segment_make(s, 1, &first, &id), MU_OK);
    for (int i = 1; i < SEGMENTS_MAX; i++) {
        assert_int_equal(segment_make(s, 1, &memory, &id), MU_OK);
    }
    unit_stderr_begin();
    assert_int_equal(segment_make(s, 1, &memory, &id), MU_ELIMIT);
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(id, SEGMENTS_MAX);
    segment_free(s, first);
    assert_int_equal(segment_make(s, 1, &memory, &id), MU_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void a_length_that_can_not_be_fails(void **state)
{
    char text[4096];
    void *memory;
    uint32_t id;

    unit_stderr_begin();
    assert_int_equal(segment_make(*state, SIZE_MAX, &memory, &id), MU_ENOMEM);
    assert_true(segment_make(*state, SIZE_MAX / 4, &memory, &id) != MU_OK);
    unit_stderr_end(text, sizeof(text));
}

struct churn {
    struct segments *s;
    char *kept;
    uint32_t id;
    _Atomic bool end;
};

static void *churn(void *arg)
{
    struct churn *c = arg;
    void *memory[8];
    uint32_t id;

    while (!atomic_load(&c->end)) {
        for (int i = 0; i < 8; i++) {
            assert_int_equal(segment_make(c->s, 1, &memory[i], &id), MU_OK);
        }
        for (int i = 0; i < 8; i++) {
            segment_free(c->s, memory[i]);
        }
    }
    return NULL;
}

static void what_stays_is_found_while_others_come_and_go(void **state)
{
    struct churn c = {.s = *state};
    struct segment_ref ref;
    pthread_t thread;

    c.kept = make(c.s, 4096, &c.id);
    assert_int_equal(pthread_create(&thread, NULL, churn, &c), 0);
    for (int i = 0; i < 200000; i++) {
        assert_true(segment_find(c.s, c.kept + 5, 10, &ref));
        assert_int_equal(ref.id, c.id);
        assert_int_equal(ref.offset, 5);
    }
    atomic_store(&c.end, true);
    pthread_join(thread, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_segments, close_segments)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_its_owner_writes_is_seen_by_a_peer_that_can_only_read),
        TEST(memory_that_is_not_sealed_or_of_another_length_is_refused),
        TEST(a_pointer_is_found_in_its_segment_and_nowhere_else),
        TEST(numbers_are_told_in_order_and_never_used_again),
        TEST(only_what_was_made_can_be_freed),
        TEST(without_descriptors_it_fails_and_leaves_nothing),
        TEST(there_are_so_many_and_no_more),
        TEST(a_length_that_can_not_be_fails),
        TEST(what_stays_is_found_while_others_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
