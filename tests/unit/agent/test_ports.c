#include "agent/ports.h"
#include "unit/unit.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void the_range_is_outside_of_what_the_kernel_gives(void **state)
{
    static const struct {
        uint32_t first, last, lo, hi;
    } cases[] = {
        {32768, 60999, 20000, 32767}, /* as it comes */
        {30000, 60999, 20000, 29999}, {10000, 25000, 25001, 32767}, {10000, 65535, 1024, 9999},
        {1024, 40000, 40001, 65535},  {22000, 23000, 23001, 32767}, {1024, 65535, 20000, 32767},
        {1, 65535, 20000, 32767}, /* all are the kernel's: then as good as any */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint32_t lo, hi;

        ports_range(cases[i].first, cases[i].last, &lo, &hi);
        assert_int_equal(lo, cases[i].lo);
        assert_int_equal(hi, cases[i].hi);
    }
}

static int listen_at(uint16_t port, int family)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4))
                               : bind(fd, (struct sockaddr *)&v6, sizeof(v6));

    if (rc != 0 || listen(fd, 1) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void a_port_can_be_used_and_is_not_given_twice_in_a_row(void **state)
{
    uint16_t given[PORTS_REMEMBERED + 1];
    struct ports p;

    ports_init(&p);
    assert_true(p.lo <= p.hi && p.hi <= 65535);
    for (uint32_t i = 0; i < ARRAY_LEN(given); i++) {
        int fd;

        assert_int_equal(ports_pick(&p, &given[i]), MU_OK);
        assert_true(given[i] >= p.lo && given[i] <= p.hi);
        for (uint32_t j = i > PORTS_REMEMBERED ? 1 : 0; j < i && i - j <= PORTS_REMEMBERED; j++) {
            assert_int_not_equal(given[i], given[j]);
        }
        fd = listen_at(given[i], AF_INET);
        assert_true(fd >= 0);
        close(fd);
    }
    ports_close(&p);
}

/* Its worker may not have bound it yet. */
static void what_one_agent_has_given_no_other_on_this_host_gives(void **state)
{
    struct ports mine, other;
    uint16_t port;

    ports_init(&mine);
    assert_int_equal(ports_pick(&mine, &port), MU_OK);
    ports_init(&other);
    other.lo = other.hi = port;
    assert_int_equal(ports_pick(&other, &port), MU_EBUSY);
    ports_close(&mine);
    assert_int_equal(ports_pick(&other, &port), MU_OK);
    ports_close(&other);
}

/* A range of three, two of them taken: by whoever listens on one address of either family. */
static void a_port_in_use_is_not_given(void **state)
{
    struct ports p;
    uint16_t port;
    int busy4 = -1, busy6 = -1;

    for (uint32_t lo = 21000; busy6 < 0 || busy4 < 0; lo += 3) {
        assert_true(lo < 32000);
        close(busy4);
        close(busy6);
        ports_init(&p);
        p.lo = lo;
        p.hi = lo + 2;
        busy4 = listen_at((uint16_t)lo, AF_INET);
        busy6 = listen_at((uint16_t)(lo + 2), AF_INET6);
        if (busy6 < 0 && socket(AF_INET6, SOCK_STREAM, 0) < 0) {
            skip(); /* no IPv6 here */
        }
    }
    assert_int_equal(ports_pick(&p, &port), MU_OK);
    assert_int_equal(port, p.lo + 1);
    assert_int_equal(ports_pick(&p, &port), MU_EBUSY); /* given already, and there is no other */
    close(busy4);
    assert_int_equal(ports_pick(&p, &port), MU_OK);
    assert_int_equal(port, p.lo);
    close(busy6);
    ports_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_range_is_outside_of_what_the_kernel_gives),
        cmocka_unit_test(a_port_can_be_used_and_is_not_given_twice_in_a_row),
        cmocka_unit_test(what_one_agent_has_given_no_other_on_this_host_gives),
        cmocka_unit_test(a_port_in_use_is_not_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
