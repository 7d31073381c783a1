/* Memory that runs out while a link is made: there is none, and the socket stays the caller's. */
#include "unit/comm/tcp_kit.h"
#include "unit/deny.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct opening {
    struct comm comm;
    int fds[2];
};

static int try_to_open(void *arg)
{
    struct opening *o = arg;
    const struct hello_session session = {.peer = 2};
    struct link *l = NULL;
    int rc = tcp_link_open(&o->comm, o->fds[0], &session, &l);

    if (rc != MU_OK) {
        assert_null(l);
        assert_true(send(o->fds[0], "x", 1, MSG_NOSIGNAL) == 1);
        return rc;
    }
    deny_end();
    l->ops->close(l);
    return MU_OK;
}

static void a_link_that_can_not_be_made_leaves_nothing(void **state)
{
    for (int tls = 0; tls < 2; tls++) {
        static struct opening o;

        memset(&o, 0, sizeof(o));
        o.comm.config.tls = tls == 1;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, o.fds), 0);
        assert_true(deny_sweep(try_to_open, &o) >= 3);
        close(o.fds[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_can_not_be_made_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
