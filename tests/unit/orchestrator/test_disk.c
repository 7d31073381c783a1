/* A disk that is full, or does not keep up: what needs a record is refused, leases live on, and it
 * goes on by itself when there is room. */
#include "store/store.h"
#include "unit/orchestrator/orchestrator_kit.h"
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Appends that the journal is to refuse, as if its queue were full; shared with the server. */
static volatile int *refuse_n;

int __real_store_append(struct store *st, const void *data, size_t n, uint64_t cookie);
int __wrap_store_append(struct store *st, const void *data, size_t n, uint64_t cookie);

int __wrap_store_append(struct store *st, const void *data, size_t n, uint64_t cookie)
{
    if (*refuse_n > 0) {
        --*refuse_n;
        return MU_EAGAIN;
    }
    return __real_store_append(st, data, n, cookie);
}

static int setup(void **state)
{
    *refuse_n = 0;
    return kit_setup(state);
}

/* Two nodes: one that is there already, and one that comes while nothing can be written. */
static void check_trouble(struct kit *k, void (*begin)(struct kit *), void (*end)(struct kit *))
{
    struct puppet a, b;
    char text[TEXT_MAX_LEN];

    puppet_init(&a, "job", "a", 1, 2);
    puppet_init(&b, "job", "b", 1, 2);
    puppet_join(&a, k);
    begin(k);
    puppet_connect(&b, k);
    kit_say(b.cl, WIRE_HELLO, &b.hello, 0);
    puppet_next(&b, WIRE_REFUSED);
    assert_int_equal(b.refused.status, MU_EAGAIN);
    assert_non_null(strstr(b.refused.text, "journal"));
    puppet_renew(&a);
    assert_int_equal(kit_admin(k, ASK_DRAIN, "job", "a", text), MU_EAGAIN);
    assert_non_null(strstr(text, "nothing was changed"));
    puppet_renew(&a);
    assert_int_equal(a.ack.flags & NODE_DRAINING, 0);
    assert_true(kit_logged(k, "Leases go on"));
    end(k);
    puppet_join(&b, k);
    assert_int_equal(kit_admin(k, ASK_DRAIN, "job", "a", text), MU_OK);
    assert_true(kit_logged(k, "writing works again"));
    puppet_close(&a);
    puppet_close(&b);
}

/* ---- a limit on the length of files ---- */

/* The journal's log gets no longer than it is; the server's own log is far shorter. */
static void limit_files(struct kit *k)
{
    struct rlimit now;
    struct stat st;
    char path[128];

    snprintf(path, sizeof(path), "%s/journal.db-wal", k->data);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(prlimit(k->pid, RLIMIT_FSIZE, NULL, &now), 0);
    now.rlim_cur = (rlim_t)st.st_size;
    assert_int_equal(prlimit(k->pid, RLIMIT_FSIZE, &now, NULL), 0);
}

static void unlimit_files(struct kit *k)
{
    struct rlimit now;

    assert_int_equal(prlimit(k->pid, RLIMIT_FSIZE, NULL, &now), 0);
    now.rlim_cur = now.rlim_max;
    assert_int_equal(prlimit(k->pid, RLIMIT_FSIZE, &now, NULL), 0);
}

static void failing_writes_refuse_what_is_new_and_keep_leases(void **state)
{
    struct kit *k = *state;

    signal(SIGXFSZ, SIG_IGN);
    kit_start(k);
    check_trouble(k, limit_files, unlimit_files);
}

/* ---- a disk of one megabyte ---- */

static void filler_path(const struct kit *k, char *path, size_t cap)
{
    snprintf(path, cap, "%s/filler", k->data);
}

static void fill_disk(struct kit *k)
{
    static const char block[4096];
    char path[128];
    int fd;

    filler_path(k, path, sizeof(path));
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (size_t n = sizeof(block); n > 0;) { /* to the last byte */
        if (write(fd, block, n) <= 0) {
            n /= 2;
        }
    }
    close(fd);
}

static void free_disk(struct kit *k)
{
    char path[128];

    filler_path(k, path, sizeof(path));
    assert_int_equal(unlink(path), 0);
}

static void a_full_disk_refuses_what_is_new_and_keeps_leases(void **state)
{
    struct kit *k = *state;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mkdir(k->data, 0700) != 0 ||
        mount("tmpfs", k->data, "tmpfs", 0, "size=1m,mode=0700") != 0) {
        print_message("# skipped: mounting a small file system is not allowed here (%s)\n",
                      strerror(errno));
        skip();
    }
    kit_start(k);
    check_trouble(k, fill_disk, free_disk);
    kit_kill(k);
    kit_start(k); /* What was acknowledged is on it, and it opens. */
    kit_stop(k);
    assert_int_equal(umount(k->data), 0);
}

/* ---- a queue that is full ---- */

static void refuse_many(struct kit *k)
{
    (void)k;
    *refuse_n = 1000000;
}

static void refuse_none(struct kit *k)
{
    (void)k;
    *refuse_n = 0;
}

static void a_full_queue_is_a_failed_write(void **state)
{
    struct kit *k = *state;

    kit_start(k);
    check_trouble(k, refuse_many, refuse_none);
}

/* A hello makes two records, the job's and the node's. When only the first is refused, the second
 * must not be journaled alone. */
static void nothing_is_journaled_after_a_record_that_was_lost(void **state)
{
    struct kit *k = *state;
    struct puppet a;
    json_t *json;

    kit_start(k);
    puppet_init(&a, "job", "a", 1, 1);
    puppet_connect(&a, k);
    *refuse_n = 1;
    kit_say(a.cl, WIRE_HELLO, &a.hello, 0);
    puppet_next(&a, WIRE_REFUSED);
    assert_int_equal(a.refused.status, MU_EAGAIN);
    assert_int_equal(*refuse_n, 0);
    json = kit_status(k, "");
    assert_int_equal(
        json_integer_value(json_object_get(
            json_object_get(json_object_get(json, "orchestrator"), "journal"), "record")),
        0);
    json_decref(json);
    kit_say(a.cl, WIRE_HELLO, &a.hello, 0);
    puppet_next(&a, WIRE_WELCOME);
    puppet_close(&a);
    kit_kill(k);
    kit_start(k);
    json = kit_status(k, "job");
    assert_int_equal(json_array_size(json_object_get(json, "waiting")), 1);
    json_decref(json);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(failing_writes_refuse_what_is_new_and_keep_leases),
        CASE(a_full_queue_is_a_failed_write),
        CASE(nothing_is_journaled_after_a_record_that_was_lost),
        CASE(a_full_disk_refuses_what_is_new_and_keeps_leases),
    };

    refuse_n =
        mmap(NULL, sizeof(*refuse_n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (refuse_n == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
