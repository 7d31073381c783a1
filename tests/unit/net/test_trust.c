/* Whoever does not know the token is refused, counted, and disturbs nobody. */
#include "unit/net/net_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The connection that was there before still works. */
static void still_serves(struct kit *k)
{
    const uint32_t before = k->client.frames_n;

    conn_say(k->client.c, WIRE_LEASE, &(struct msg_lease){0}, 0, 0);
    kit_wait(k, k->client.frames_n == before + 1);
    assert_int_equal(k->server.closed_n, 0);
    assert_int_equal(k->client.closed_n, 0);
}

static void open_with_friend(struct kit *k, const struct listen_config *config)
{
    kit_open(k, config);
    k->server.echo = true;
    kit_connect(k);
    still_serves(k);
}

static void a_wrong_token_is_told_to_the_client_and_counted(void **state)
{
    struct kit k;
    struct side stranger = {0};
    struct token wrong;
    struct tls *tls;
    struct conn *c;
    char error[NET_ERROR_MAX];

    open_with_friend(&k, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(k.l));

    wrong = k.token;
    wrong.secret[31] ^= 1;
    assert_int_equal(tls_client_open(&wrong, &tls, error), MU_OK);
    assert_int_equal(conn_connect(&k.loop, &to, tls, &kit_handler, NULL, &stranger, &c), MU_OK);
    kit_wait(&k, stranger.closed_n == 1);
    assert_int_equal(stranger.opened_n, 0);
    assert_int_equal(stranger.status, MU_EREFUSED);
    assert_non_null(strstr(stranger.why, "the token is not the one of this orchestrator"));
    assert_non_null(strstr(stranger.why, "MUSTER_TOKEN"));
    kit_wait(&k, listen_counts(k.l)->refused == 1);
    assert_int_equal(k.server.opened_n, 1);
    still_serves(&k);
    tls_close(tls);
    kit_close(&k);
}

/* ---- TLS of other kinds ---- */

/* Whether a client of this context gets through the handshake. */
static bool gets_in(struct kit *k, SSL_CTX *ctx)
{
    int rc, fd = kit_socket(k);
    SSL *ssl = SSL_new(ctx);

    assert_non_null(ssl);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    SSL_set_fd(ssl, fd);
    while ((rc = SSL_connect(ssl)) != 1 && SSL_get_error(ssl, rc) == SSL_ERROR_WANT_READ) {
        kit_turn(k);
    }
    SSL_free(ssl);
    close(fd);
    return rc == 1;
}

static struct token stranger_token;
static const char *stranger_identity;

static int stranger_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_n,
                        SSL_SESSION **session)
{
    static const unsigned char cipher[] = {0x13, 0x01};
    SSL_SESSION *s = SSL_SESSION_new();
    uint8_t psk[32];

    token_derive(&stranger_token, TOKEN_KEY_CONTROL, psk);
    SSL_SESSION_set1_master_key(s, psk, sizeof(psk));
    SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, cipher));
    SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
    *id = (const unsigned char *)stranger_identity;
    *id_n = strlen(stranger_identity);
    *session = s;
    return 1;
}

static void tls_without_the_key_is_refused(void **state)
{
    struct kit k;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method()), *old = SSL_CTX_new(TLS_client_method());

    open_with_friend(&k, NULL);
    /* Any server's certificate would do for this client. */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    assert_false(gets_in(&k, ctx));
    kit_wait(&k, listen_counts(k.l)->refused == 1);

    SSL_CTX_set_max_proto_version(old, TLS1_2_VERSION);
    assert_false(gets_in(&k, old));
    kit_wait(&k, listen_counts(k.l)->refused == 2);

    stranger_token = k.token;
    stranger_identity = "muster-1";
    SSL_CTX_set_psk_use_session_callback(ctx, stranger_key);
    assert_true(gets_in(&k, ctx)); /* That is how a friend does it … */
    stranger_identity = "muster-2";
    assert_false(gets_in(&k, ctx)); /* … and the name of the key is part of it. */
    kit_wait(&k, listen_counts(k.l)->refused == 3);
    SSL_CTX_free(ctx);
    SSL_CTX_free(old);
    kit_wait(&k, listen_counts(k.l)->now == 1);
    k.server.closed_n = 0;
    still_serves(&k);
    kit_close(&k);
}

/* ---- bytes that are no TLS ---- */

static void bytes_that_are_no_handshake_are_refused(void **state)
{
    static const char *const words[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n and so on, for a while",
        "\x16\x03\x01\xff\xff a record that is too long",
        "\x16\x03\x01\x01\x11\x01\x01\xff\xff a hello that claims 128 KiB",
        "\x16\x03\x01\x01\x03\x01\x01\x01\x01 a head in two records",
        "MSTR\x01\x01\x03 a frame of ours, but in plain text",
    };
    struct kit k;

    open_with_friend(&k, NULL);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        int fd = kit_socket(&k);

        assert_true(write(fd, words[i], strlen(words[i])) > 0);
        kit_wait(&k, listen_counts(k.l)->refused == i + 1);
        assert_int_equal(listen_counts(k.l)->now, 1);
        close(fd);
    }
    assert_int_equal(k.server.opened_n, 1);
    still_serves(&k);
    kit_close(&k);
}

/* The first n bytes that one of ours would say. */
static size_t client_hello(struct kit *k, uint8_t *buf, size_t cap)
{
    int ends[2];
    ssize_t n;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    SSL *ssl = tls_session(k->client_tls, ends[0]);

    assert_true(SSL_do_handshake(ssl) < 0);
    n = read(ends[1], buf, cap);
    assert_true(n > 100);
    SSL_free(ssl);
    close(ends[0]);
    close(ends[1]);
    return (size_t)n;
}

static void half_a_handshake_is_timed_out_or_refused(void **state)
{
    const struct listen_config config = {.limits = {.handshake_ms = 700}};
    struct kit k;
    uint8_t hello[4096];
    int waits[6];

    open_with_friend(&k, &config);
    const size_t n = client_hello(&k, hello, sizeof(hello));
    const size_t cuts[] = {1, 5, 6, n / 2, n - 1, n};

    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        int leaves = kit_socket(&k);

        waits[i] = kit_socket(&k);
        assert_int_equal(write(waits[i], hello, cuts[i]), cuts[i]);
        assert_int_equal(write(leaves, hello, cuts[i]), cuts[i]);
        close(leaves);
        kit_wait(&k, listen_counts(k.l)->refused == i + 1);
    }
    kit_wait(&k, listen_counts(k.l)->timed_out == ARRAY_LEN(waits));
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        close(waits[i]);
    }
    assert_int_equal(listen_counts(k.l)->now, 1);
    still_serves(&k);
    kit_close(&k);
}

/* ---- crowds ---- */

#define CROWD 1000

static void a_thousand_idle_connections_disturb_nobody(void **state)
{
    const struct listen_config config = {.limits = {.handshake_ms = 900}};
    struct kit k;
    int *fds = malloc(CROWD * sizeof(*fds));

    open_with_friend(&k, &config);
    for (int i = 0; i < CROWD; i++) {
        fds[i] = kit_socket(&k);
        if (i % 100 == 0) {
            kit_turn(&k);
        }
    }
    kit_wait(&k, listen_counts(k.l)->accepted == CROWD + 1);
    assert_int_equal(listen_counts(k.l)->handshaking + listen_counts(k.l)->timed_out, CROWD);
    still_serves(&k);
    conn_close(k.client.c, 0);
    kit_wait(&k, k.server.closed_n == 1);
    k.server.closed_n = 0;
    kit_connect(&k); /* A newcomer with the token gets in between them. */
    still_serves(&k);
    kit_wait(&k, listen_counts(k.l)->timed_out == CROWD);
    assert_int_equal(listen_counts(k.l)->now, 1);
    assert_int_equal(listen_counts(k.l)->shed, 0);
    still_serves(&k);
    for (int i = 0; i < CROWD; i++) {
        close(fds[i]);
    }
    free(fds);
    kit_close(&k);
}

static bool is_shut(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EINTR);
}

static void the_oldest_handshake_makes_room(void **state)
{
    const struct listen_config config = {.handshakes_max = 4, .limits = {.handshake_ms = 2000}};
    struct kit k;
    int fds[10];

    open_with_friend(&k, &config);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = kit_socket(&k);
        kit_wait(&k, listen_counts(k.l)->accepted == i + 2);
    }
    assert_int_equal(listen_counts(k.l)->handshaking, 4);
    assert_int_equal(listen_counts(k.l)->shed, 6);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        errno = 0;
        assert_int_equal(is_shut(fds[i]), i < 6);
    }
    struct conn *first = k.client.c;

    kit_connect(&k);
    conn_close(first, 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
    kit_wait(&k, listen_counts(k.l)->now == 1);
    k.server.closed_n = 0;
    still_serves(&k);
    kit_close(&k);
}

static void whoever_has_shown_the_token_is_not_pushed_out(void **state)
{
    const struct listen_config config = {.handshakes_max = 2, .limits = {.handshake_ms = 3000}};
    struct kit k;
    int rc, fds[6], fd;

    kit_open(&k, &config);
    fd = kit_socket(&k);
    SSL *ssl = tls_session(k.client_tls, fd);

    assert_int_equal(SSL_do_handshake(ssl), -1); /* Its hello is sent; then it takes its time. */
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = kit_socket(&k);
    }
    kit_wait(&k, listen_counts(k.l)->shed >= 2);
    while ((rc = SSL_do_handshake(ssl)) != 1) {
        assert_int_equal(SSL_get_error(ssl, rc), SSL_ERROR_WANT_READ);
        kit_turn(&k);
    }
    kit_wait(&k, k.server.opened_n == 1);
    SSL_free(ssl);
    close(fd);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
    kit_close(&k);
}

/* A restarted orchestrator meets all of its agents at once: they wait for each other. */
static void a_storm_of_friends_gets_in_without_loss(void **state)
{
    enum { FRIENDS = 80 };
    const struct listen_config config = {.handshakes_max = 8};
    struct kit k;
    struct conn *c[FRIENDS];

    kit_open(&k, &config);
    const struct endpoints to = kit_to("127.0.0.1:%u", listen_port(k.l));

    for (int i = 0; i < FRIENDS; i++) {
        assert_int_equal(
            conn_connect(&k.loop, &to, k.client_tls, &kit_handler, NULL, &k.client, &c[i]), MU_OK);
    }
    kit_wait(&k, k.server.opened_n == FRIENDS && k.client.opened_n == FRIENDS);
    assert_int_equal(listen_counts(k.l)->shed, 0);
    assert_int_equal(k.client.closed_n, 0);
    for (int i = 0; i < FRIENDS; i++) {
        conn_close(c[i], 0);
    }
    k.client.c = NULL;
    kit_close(&k);
}

static void no_more_connections_than_allowed_are_kept(void **state)
{
    const struct listen_config config = {.conns_max = 3};
    struct conn *friends[3];
    struct kit k;
    int fd;

    open_with_friend(&k, &config);
    friends[0] = k.client.c;
    for (size_t i = 1; i < ARRAY_LEN(friends); i++) {
        kit_connect(&k);
        friends[i] = k.client.c;
    }
    fd = kit_socket(&k);
    kit_wait(&k, listen_counts(k.l)->accepted == 4);
    assert_int_equal(listen_counts(k.l)->now, 3);
    assert_int_equal(listen_counts(k.l)->shed, 1);
    still_serves(&k);
    close(fd);
    conn_close(friends[0], 0);
    kit_wait(&k, listen_counts(k.l)->now == 2);
    kit_connect(&k); /* There is room again. */
    conn_close(friends[1], 0);
    conn_close(friends[2], 0);
    kit_close(&k);
}

/* However many say nothing: those who have the token come in. */
static void strangers_leave_room_for_those_with_the_token(void **state)
{
    const struct listen_config config = {.conns_max = 8, .limits = {.handshake_ms = 2000}};
    struct conn *first;
    struct kit k;
    int fds[8];

    open_with_friend(&k, &config);
    first = k.client.c;
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = kit_socket(&k);
    }
    kit_wait(&k, listen_counts(k.l)->handshaking == 2);
    kit_connect(&k);
    still_serves(&k);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
    conn_close(first, 0);
    kit_close(&k);
}

static void running_out_of_files_turns_away_and_recovers(void **state)
{
    struct kit k;
    struct rlimit was, low;
    int fds[40];

    open_with_friend(&k, NULL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = kit_socket(&k); /* These are ours; the listener has not looked yet. */
    }
    low = was;
    low.rlim_cur = (rlim_t)fds[ARRAY_LEN(fds) - 1] + 10;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    kit_wait(&k, listen_counts(k.l)->shed >= 3);
    still_serves(&k);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    kit_wait(&k, listen_counts(k.l)->accepted == 1 + ARRAY_LEN(fds));
    struct conn *first = k.client.c;

    kit_connect(&k);
    conn_close(first, 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
    kit_close(&k);
}

static void refusals_are_logged_once_a_second_with_how_many_there_were(void **state)
{
    struct kit k;
    char text[4096];
    uint32_t lines_n = 0;

    kit_open(&k, NULL);
    unit_stderr_begin();
    const uint64_t start_ms = net_now_ms();

    for (uint32_t i = 0; i < 100; i++) {
        int fd = kit_socket(&k);

        assert_int_equal(write(fd, "hello", 5), 5);
        close(fd);
        kit_wait(&k, listen_counts(k.l)->refused == i + 1);
    }
    const uint64_t seconds = (net_now_ms() - start_ms) / 1000;
    const uint64_t next_ms = net_now_ms() + 1001;

    kit_wait(&k, net_now_ms() > next_ms);
    int fd = kit_socket(&k);

    assert_int_equal(write(fd, "hello", 5), 5);
    kit_wait(&k, listen_counts(k.l)->refused == 101);
    close(fd);
    unit_stderr_end(text, sizeof(text));
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++) {
        lines_n++;
    }
    assert_true(lines_n >= 2 && lines_n <= 2 + seconds);
    assert_non_null(strstr(text, "more like this"));
    assert_non_null(strstr(text, "refused 127.0.0.1:"));
    kit_close(&k);
}

/* ---- servers that are none of ours ---- */

struct impostor {
    int fd;
    uint16_t port;
    SSL_CTX *ctx;      /* TLS with a certificate, or … */
    const char *words; /* … says this in plain, or, if NULL, nothing and closes */
    pthread_t thread;
};

static void *serve_one(void *arg)
{
    struct impostor *im = arg;
    int fd = accept(im->fd, NULL, NULL);
    char buf[4096];

    if (im->ctx != NULL) {
        SSL *ssl = SSL_new(im->ctx);

        SSL_set_fd(ssl, fd);
        if (SSL_accept(ssl) == 1) {
            (void)SSL_read(ssl, buf, sizeof(buf));
        }
        SSL_free(ssl);
    } else if (read(fd, buf, sizeof(buf)) > 0 && im->words != NULL) {
        (void)!write(fd, im->words, strlen(im->words));
    }
    close(fd);
    return NULL;
}

static void impostor_start(struct impostor *im)
{
    struct sockaddr_in sa = {.sin_family = AF_INET};
    socklen_t n = sizeof(sa);

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    im->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(im->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(listen(im->fd, 5), 0);
    assert_int_equal(getsockname(im->fd, (struct sockaddr *)&sa, &n), 0);
    im->port = ntohs(sa.sin_port);
    assert_int_equal(pthread_create(&im->thread, NULL, serve_one, im), 0);
}

static void give_certificate(SSL_CTX *ctx)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);

    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(cert, name);
    X509_gmtime_adj(X509_getm_notBefore(cert), -1000);
    X509_gmtime_adj(X509_getm_notAfter(cert), 100000);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    assert_int_equal(SSL_CTX_use_certificate(ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void client_refuses(struct impostor *im, int status, const char *words)
{
    struct kit k;

    signal(SIGPIPE, SIG_IGN); /* for the impostor's own writes */
    impostor_start(im);
    kit_open(&k, NULL);
    const struct endpoints to = kit_to("127.0.0.1:%u", im->port);

    assert_int_equal(
        conn_connect(&k.loop, &to, k.client_tls, &kit_handler, NULL, &k.client, &k.client.c),
        MU_OK);
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.client.opened_n, 0);
    assert_int_equal(k.client.status, status);
    assert_non_null(strstr(k.client.why, words));
    kit_close(&k);
    pthread_join(im->thread, NULL);
    close(im->fd);
}

static void a_client_speaks_to_nobody_who_does_not_know_the_token(void **state)
{
    struct impostor cert = {.ctx = SSL_CTX_new(TLS_server_method())};
    struct impostor http = {.words = "HTTP/1.1 400 Bad Request\r\n\r\n"};
    struct impostor mute = {.words = NULL};

    give_certificate(cert.ctx);
    client_refuses(&cert, MU_EPROTO, "a certificate instead of knowing the token");
    SSL_CTX_set_max_proto_version(cert.ctx, TLS1_2_VERSION);
    client_refuses(&cert, MU_EPROTO, "does not speak muster's protocol");
    client_refuses(&http, MU_EPROTO, "is it the right port?");
    client_refuses(&mute, MU_EIO, "closed the connection in the handshake");
    SSL_CTX_free(cert.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_token_is_told_to_the_client_and_counted),
        cmocka_unit_test(tls_without_the_key_is_refused),
        cmocka_unit_test(bytes_that_are_no_handshake_are_refused),
        cmocka_unit_test(half_a_handshake_is_timed_out_or_refused),
        cmocka_unit_test(a_thousand_idle_connections_disturb_nobody),
        cmocka_unit_test(the_oldest_handshake_makes_room),
        cmocka_unit_test(whoever_has_shown_the_token_is_not_pushed_out),
        cmocka_unit_test(a_storm_of_friends_gets_in_without_loss),
        cmocka_unit_test(no_more_connections_than_allowed_are_kept),
        cmocka_unit_test(strangers_leave_room_for_those_with_the_token),
        cmocka_unit_test(running_out_of_files_turns_away_and_recovers),
        cmocka_unit_test(refusals_are_logged_once_a_second_with_how_many_there_were),
        cmocka_unit_test(a_client_speaks_to_nobody_who_does_not_know_the_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
