/* Listening: who may, where, and what is left of those who died. */
#include "unit/net/net_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[64], path[128];

static int make_folder(void **state)
{
    strcpy(folder, "/tmp/muster-listen-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/sock", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)unlink(path);
    return rmdir(folder);
}

static int try_unix(struct kit *k, const char *at, struct listener **l_out, char *error)
{
    const struct listen_config config = {0};

    return listen_unix(&k->loop, at, &kit_handler, &config, &k->server, l_out, error);
}

static int unix_socket(void)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(sa.sun_path, path);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

static void a_unix_socket_is_its_owners_and_goes_with_its_listener(void **state)
{
    struct kit k;
    struct listener *l;
    struct stat st;
    char error[NET_ERROR_MAX];
    uint32_t uid = 1, pid = 0;
    const mode_t was = umask(0);

    kit_open(&k, NULL);
    assert_int_equal(try_unix(&k, path, &l, error), MU_OK);
    umask(was);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    int fd = unix_socket();
    struct frame *f = frame_make(WIRE_LEASE, &(struct msg_lease){0}, 0, 4);

    assert_int_equal(write(fd, f->bytes, f->n), f->n);
    kit_wait(&k, k.server.frames_n == 1);
    assert_int_equal(conn_peer_cred(k.server.c, &uid, &pid), MU_OK);
    assert_int_equal(uid, getuid());
    assert_int_equal(pid, getpid());
    listen_close(l);
    assert_int_not_equal(access(path, F_OK), 0);
    frame_unref(f);
    close(fd);
    kit_close(&k);
}

static void a_socket_that_a_crash_left_is_replaced_and_a_live_one_is_not(void **state)
{
    struct kit k;
    struct listener *l, *other = NULL;
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char error[NET_ERROR_MAX];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    strcpy(sa.sun_path, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(listen(fd, 1), 0);
    close(fd); /* as a crash would: the file stays */
    kit_open(&k, NULL);
    assert_int_equal(try_unix(&k, path, &l, error), MU_OK);
    assert_int_equal(try_unix(&k, path, &other, error), MU_EBUSY);
    assert_non_null(strstr(error, path));
    assert_null(other);
    close(unix_socket()); /* The first one still listens. */
    listen_close(l);
    kit_close(&k);
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
    struct kit k;
    struct listener *l;
    char error[NET_ERROR_MAX];
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    close(fd);
    kit_open(&k, NULL);
    assert_int_equal(try_unix(&k, path, &l, error), MU_EEXIST);
    assert_int_equal(access(path, F_OK), 0);
    kit_close(&k);
}

static void a_path_that_can_not_be_is_told(void **state)
{
    struct kit k;
    struct listener *l;
    char error[NET_ERROR_MAX], longest[300];

    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    kit_open(&k, NULL);
    assert_int_equal(try_unix(&k, longest, &l, error), MU_EINVAL);
    assert_non_null(strstr(error, "107 bytes"));
    assert_int_equal(try_unix(&k, "/no/such/folder/sock", &l, error), MU_EIO);
    assert_non_null(strstr(error, "/no/such/folder/sock"));
    kit_close(&k);
}

/* Another listener may have taken the name meanwhile; it is not ours to remove. */
static void only_its_own_socket_file_is_removed(void **state)
{
    struct kit k;
    struct listener *l, *next;
    char error[NET_ERROR_MAX];

    kit_open(&k, NULL);
    assert_int_equal(try_unix(&k, path, &l, error), MU_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_unix(&k, path, &next, error), MU_OK);
    listen_close(l);
    close(unix_socket());
    listen_close(next);
    kit_close(&k);
}

static int try_tcp(struct kit *k, const char *at, struct tls *tls, struct listener **l_out,
                   char *error)
{
    const struct listen_config config = {0};
    struct endpoint e;

    assert_int_equal(endpoint_parse(at, 0, &e, error), MU_OK);
    return listen_tcp(&k->loop, &e, tls, &kit_handler, &config, &k->server, l_out, error);
}

static void a_port_in_use_is_told_with_what_to_do(void **state)
{
    struct kit k;
    struct listener *l = NULL;
    char error[NET_ERROR_MAX], at[32];

    kit_open(&k, NULL);
    snprintf(at, sizeof(at), "127.0.0.1:%u", listen_port(k.l));
    assert_int_equal(try_tcp(&k, at, k.server_tls, &l, error), MU_EBUSY);
    assert_null(l);
    assert_non_null(strstr(error, at));
    assert_non_null(strstr(error, "choose another port"));
    assert_int_equal(try_tcp(&k, "192.0.2.1:5", k.server_tls, &l, error), MU_EIO);
    assert_non_null(strstr(error, "no such address"));
    assert_int_equal(try_tcp(&k, "no-such-host.invalid:5", k.server_tls, &l, error), MU_ENOENT);
    kit_close(&k);
}

static void without_a_token_it_listens_on_loopback_only(void **state)
{
    struct kit k;
    struct listener *l = NULL;
    char error[NET_ERROR_MAX];

    kit_open(&k, NULL);
    assert_int_equal(try_tcp(&k, "0.0.0.0:0", NULL, &l, error), MU_EREFUSED);
    assert_non_null(strstr(error, "without a token"));
    assert_null(l);
    assert_int_equal(try_tcp(&k, "0.0.0.0:0", k.server_tls, &l, error), MU_OK);
    listen_close(l);
    assert_int_equal(try_tcp(&k, "127.0.0.1:0", NULL, &l, error), MU_OK);
    listen_close(l);
    kit_close(&k);
}

/* Closing from a callback of one of its own connections, with others in all states. */
static struct kit *closing;

static void close_listener(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    listen_close(closing->l);
    closing->server.frames_n++;
}

static void a_listener_may_be_closed_from_a_callback_of_its_connection(void **state)
{
    struct conn_handler handler = kit_handler;
    const struct listen_config config = {0};
    struct kit k;
    struct endpoint at;
    char error[NET_ERROR_MAX];

    kit_open(&k, NULL);
    listen_close(k.l);
    closing = &k;
    handler.frame = close_listener;
    assert_int_equal(endpoint_parse("127.0.0.1:0", 0, &at, error), MU_OK);
    assert_int_equal(
        listen_tcp(&k.loop, &at, k.server_tls, &handler, &config, &k.server, &k.l, error), MU_OK);
    int idle = kit_socket(&k);

    kit_connect(&k);
    kit_connect(&k);
    for (int i = 0; i < 3; i++) {
        conn_say(k.client.c, WIRE_LEASE, &(struct msg_lease){0}, 0, 0);
    }
    kit_wait(&k, k.client.closed_n == 2);
    assert_int_equal(k.server.frames_n, 1);
    assert_int_equal(k.server.closed_n, 0);
    close(idle);
    uv_close((uv_handle_t *)&k.tick, NULL);
    uv_run(&k.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&k.loop), 0);
    tls_close(k.server_tls);
    tls_close(k.client_tls);
}

#define in_a_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_a_folder(a_unix_socket_is_its_owners_and_goes_with_its_listener),
        in_a_folder(a_socket_that_a_crash_left_is_replaced_and_a_live_one_is_not),
        in_a_folder(a_file_that_is_no_socket_is_left_alone),
        in_a_folder(a_path_that_can_not_be_is_told),
        in_a_folder(only_its_own_socket_file_is_removed),
        cmocka_unit_test(a_port_in_use_is_told_with_what_to_do),
        cmocka_unit_test(without_a_token_it_listens_on_loopback_only),
        cmocka_unit_test(a_listener_may_be_closed_from_a_callback_of_its_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
