#include "agent/node_alone.h"
#include "agent/node_name.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void is_named(const char *host, uint32_t number, const char *expected)
{
    char name[NAME_MAX_LEN];

    node_name_make(host, number, name);
    assert_string_equal(name, expected);
}

static void a_name_is_the_host_up_to_its_first_dot(void **state)
{
    is_named("gpu7", 1, "gpu7");
    is_named("gpu7.rack2.example", 1, "gpu7");
    is_named("gpu7", 2, "gpu7-2");
    is_named("gpu7.rack2", 13, "gpu7-13");
}

static void what_no_name_can_have_is_replaced(void **state)
{
    is_named("a b/c", 1, "a-b-c");
    is_named("h\xc3\xb6st", 1, "h--st");
    is_named("", 1, "node");
    is_named(".x", 2, "node-2");
}

static void a_long_host_leaves_room_for_its_number(void **state)
{
    char host[300], name[NAME_MAX_LEN];

    memset(host, 'a', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    node_name_make(host, 9999, name);
    assert_int_equal(strcmp(name + strlen(name) - 5, "-9999"), 0);
}

/* The scope has our pid: other runs of this test hold names too. */
static void open_in_scope(struct node_name *nn, const char *what)
{
    char scope[64];

    snprintf(scope, sizeof(scope), "test-%d/%s", (int)getpid(), what);
    node_name_open(nn, scope);
}

static void a_name_is_held_until_it_is_closed(void **state)
{
    struct node_name a, b, c;

    open_in_scope(&a, "job");
    open_in_scope(&b, "job");
    assert_int_equal(a.number, 1);
    assert_int_equal(b.number, 2);
    assert_string_not_equal(a.name, b.name);
    node_name_close(&a);
    open_in_scope(&c, "job");
    assert_int_equal(c.number, 1);
    node_name_close(&b);
    node_name_close(&c);
    node_name_close(&c);
}

static void names_are_apart_in_each_scope(void **state)
{
    struct node_name a, b;

    open_in_scope(&a, "one");
    open_in_scope(&b, "two");
    assert_string_equal(a.name, b.name);
    node_name_close(&a);
    node_name_close(&b);
}

static void the_next_name_gives_up_the_one_before(void **state)
{
    struct node_name a, b;

    open_in_scope(&a, "job");
    node_name_next(&a);
    assert_int_equal(a.number, 2);
    open_in_scope(&b, "job");
    assert_int_equal(b.number, 1);
    node_name_close(&a);
    node_name_close(&b);
}

static void make_dir(const char *parent, const char *name, char *path, size_t cap)
{
    snprintf(path, cap, "%s/%s", parent, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void only_directories_that_nobody_holds_are_swept(void **state)
{
    char parent[] = "/tmp/muster-test-XXXXXX";
    char held[128], left[128], other[128], file[160];
    int fd;

    assert_non_null(mkdtemp(parent));
    make_dir(parent, "muster-standalone-0-held", held, sizeof(held));
    make_dir(parent, "muster-standalone-0-left", left, sizeof(left));
    make_dir(parent, "something-else", other, sizeof(other));
    snprintf(file, sizeof(file), "%s/journal", left);
    close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    fd = open(held, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);

    assert_int_equal(alone_sweep(parent), 1);
    assert_int_equal(access(held, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_not_equal(access(left, F_OK), 0);

    close(fd);
    assert_int_equal(alone_sweep(parent), 1);
    assert_int_not_equal(access(held, F_OK), 0);
    rmdir(other);
    assert_int_equal(rmdir(parent), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_the_host_up_to_its_first_dot),
        cmocka_unit_test(what_no_name_can_have_is_replaced),
        cmocka_unit_test(a_long_host_leaves_room_for_its_number),
        cmocka_unit_test(a_name_is_held_until_it_is_closed),
        cmocka_unit_test(names_are_apart_in_each_scope),
        cmocka_unit_test(the_next_name_gives_up_the_one_before),
        cmocka_unit_test(only_directories_that_nobody_holds_are_swept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
