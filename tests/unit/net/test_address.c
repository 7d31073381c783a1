/* Addresses as text, clocks, ids. */
#include "unit/unit.h"

#include "net/net.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void good_addresses_are_read_and_printed_the_same(void **state)
{
    static const struct {
        const char *text, *host, *printed;
        uint16_t port;
    } good[] = {
        {"10.0.0.1:5556", "10.0.0.1", "10.0.0.1:5556", 5556},
        {"host:1", "host", "host:1", 1},
        {"a-b.c_d.example:65535", "a-b.c_d.example", "a-b.c_d.example:65535", 65535},
        {"[::1]:5556", "::1", "[::1]:5556", 5556},
        {"[fe80::1%eth0]:7", "fe80::1%eth0", "[fe80::1%eth0]:7", 7},
        {"[::1]", "::1", "[::1]:99", 99},
        {"::1", "::1", "[::1]:99", 99},
        {"host", "host", "host:99", 99},
        {":5556", "127.0.0.1", "127.0.0.1:5556", 5556},
        {"127.0.0.1:0", "127.0.0.1", "127.0.0.1:0", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct endpoint e;
        char error[NET_ERROR_MAX], text[300];

        assert_int_equal(endpoint_parse(good[i].text, 99, &e, error), MU_OK);
        assert_string_equal(e.host, good[i].host);
        assert_int_equal(e.port, good[i].port);
        endpoint_print(&e, text, sizeof(text));
        assert_string_equal(text, good[i].printed);
    }
}

static void bad_addresses_are_refused_with_a_reason_and_an_example(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "empty"},
        {"host:", "port"},
        {"host:65536", "port"},
        {"host:99999999999999999999", "port"},
        {"host:-1", "port"},
        {"host:5x", "port"},
        {"[::1", "brackets"},
        {"[::1]5556", "brackets"},
        {"[host]:5", "brackets"},
        {"[]:5", "brackets"},
        {"a:b:c", "colons"},
        {"ho st:5", "characters"},
        {"http://host:5", "characters"},
        {"host\n:5", "characters"},
        {"host", "missing"},
    };
    char longest[600];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct endpoint e = {.port = 42};
        char error[NET_ERROR_MAX] = "";

        assert_int_equal(endpoint_parse(bad[i].text, 0, &e, error), MU_EINVAL);
        assert_int_equal(e.port, 42);
        assert_non_null(strstr(error, bad[i].why));
        assert_non_null(strstr(error, "10.0.0.1:5556"));
    }
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    struct endpoint e;
    char error[NET_ERROR_MAX];

    assert_int_equal(endpoint_parse(longest, 1, &e, error), MU_EINVAL);
}

static void lists_have_commas_and_a_limit(void **state)
{
    struct endpoints list = {.n = 77};
    char error[NET_ERROR_MAX];

    assert_int_equal(endpoints_parse("a:1,[::1]:2,c", 3, &list, error), MU_OK);
    assert_int_equal(list.n, 3);
    assert_string_equal(list.at[1].host, "::1");
    assert_int_equal(list.at[2].port, 3);
    list.n = 77;
    assert_int_equal(endpoints_parse("a:1,,c:2", 0, &list, error), MU_EINVAL);
    assert_int_equal(endpoints_parse("a:1,", 0, &list, error), MU_EINVAL);
    assert_int_equal(endpoints_parse("a,b,c,d,e,f,g,h", 1, &list, error), MU_OK);
    assert_int_equal(list.n, 8);
    list.n = 77;
    assert_int_equal(endpoints_parse("a,b,c,d,e,f,g,h,i", 1, &list, error), MU_EINVAL);
    assert_non_null(strstr(error, "more than 8"));
    assert_int_equal(list.n, 77);
}

static void numeric_addresses_resolve_and_loopback_is_known(void **state)
{
    static const struct {
        const char *text;
        bool loopback;
    } cases[] = {
        {"127.0.0.1:5", true},          {"127.9.9.9:5", true}, {"[::1]:5", true},
        {"[::ffff:127.0.0.1]:5", true}, {"0.0.0.0:5", false},  {"10.0.0.1:5", false},
        {"[::ffff:10.0.0.1]:5", false}, {"[::]:5", false},     {"[2001:db8::1]:5", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct endpoint e;
        struct sockaddr_storage sa[2];
        socklen_t len[2];
        uint32_t n = 0;
        char error[NET_ERROR_MAX], text[80];

        assert_int_equal(endpoint_parse(cases[i].text, 0, &e, error), MU_OK);
        assert_int_equal(endpoint_resolve(&e, sa, len, 2, &n, error), MU_OK);
        assert_int_equal(n, 1);
        assert_int_equal(address_is_loopback((struct sockaddr *)&sa[0]), cases[i].loopback);
        address_print((struct sockaddr *)&sa[0], text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
}

static void a_name_that_is_not_found_is_named(void **state)
{
    struct endpoint e;
    struct sockaddr_storage sa;
    socklen_t len;
    uint32_t n = 9;
    char error[NET_ERROR_MAX] = "";

    assert_int_equal(endpoint_parse("no-such-host.invalid:5", 0, &e, error), MU_OK);
    assert_int_equal(endpoint_resolve(&e, &sa, &len, 1, &n, error), MU_ENOENT);
    assert_int_equal(n, 9);
    assert_non_null(strstr(error, "no-such-host.invalid"));
    assert_non_null(strstr(error, "spelling"));
}

static void the_clock_goes_forward_and_is_never_zero(void **state)
{
    const uint64_t first_ms = net_now_ms();

    assert_true(first_ms > 0);
    assert_true(net_now_ms() >= first_ms);
    assert_true(net_wall_ms() > 1600000000000u);
}

static void random_bytes_differ(void **state)
{
    uint8_t a[300] = {0}, b[300] = {0};

    random_bytes(a, sizeof(a));
    random_bytes(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
    assert_memory_not_equal(a + 280, b + 280, 20);
}

static void all_processes_of_a_host_have_one_host_id(void **state)
{
    const uint64_t id = net_host_id();
    int ends[2], status;
    uint64_t other = 0;

    assert_true(id != 0);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();

    if (child == 0) {
        other = net_host_id();
        _exit(write(ends[1], &other, sizeof(other)) == (ssize_t)sizeof(other) ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &other, sizeof(other)), sizeof(other));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(other, id);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_addresses_are_read_and_printed_the_same),
        cmocka_unit_test(bad_addresses_are_refused_with_a_reason_and_an_example),
        cmocka_unit_test(lists_have_commas_and_a_limit),
        cmocka_unit_test(numeric_addresses_resolve_and_loopback_is_known),
        cmocka_unit_test(a_name_that_is_not_found_is_named),
        cmocka_unit_test(the_clock_goes_forward_and_is_never_zero),
        cmocka_unit_test(random_bytes_differ),
        cmocka_unit_test(all_processes_of_a_host_have_one_host_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
