/* Connections that know the token: frames arrive, whole and in order, or the reason is told. */
#include "unit/net/net_kit.h"

#include "base/prng.h"
#include "lib/chance.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct frame *lease(uint64_t n)
{
    struct frame *f = frame_make(WIRE_LEASE, &(struct msg_lease){.sent_ms = n}, 0, n);

    assert_non_null(f);
    return f;
}

static void the_right_token_opens_and_frames_go_both_ways(void **state)
{
    struct kit k;

    kit_open(&k, NULL);
    k.server.echo = true;
    kit_connect(&k);
    conn_say(k.client.c, WIRE_RENEW, &(struct msg_renew){.seq = 1}, 9, 77);
    kit_wait(&k, k.client.frames_n == 1);
    assert_int_equal(k.server.last_type, WIRE_RENEW);
    assert_int_equal(k.client.last_type, WIRE_LEASE);
    assert_int_equal(k.client.last_request, 77);
    assert_int_equal(listen_counts(k.l)->opened, 1);
    assert_int_equal(listen_counts(k.l)->now, 1);
    assert_int_equal(listen_counts(k.l)->handshaking, 0);
    assert_int_equal(strncmp(conn_peer(k.server.c), "127.0.0.1:", 10), 0);
    conn_close(k.client.c, 0);
    k.client.c = NULL;
    kit_wait(&k, k.server.closed_n == 1);
    assert_int_equal(k.server.status, MU_OK);
    assert_int_equal(listen_counts(k.l)->now, 0);
    assert_int_equal(k.client.closed_n, 0); /* It closed by itself: no news to it. */
    kit_close(&k);
}

static void the_longest_frame_arrives_whole(void **state)
{
    struct kit k;
    struct frame *f = kit_big(SIZE_MAX, 5);

    assert_true(f->n > 11 << 20);
    kit_open(&k, NULL);
    kit_connect(&k);
    for (int i = 0; i < 3; i++) { /* 35 MB in the queue, once in memory */
        conn_send(k.client.c, f);
    }
    assert_int_equal(f->refs, 4);
    assert_int_equal(conn_queued(k.client.c), 3 * (size_t)f->n);
    kit_wait(&k, k.server.frames_n == 3);
    assert_int_equal(k.server.digest, kit_digest(kit_digest(kit_digest(0, f), f), f));
    assert_int_equal(f->refs, 1);
    assert_int_equal(conn_queued(k.client.c), 0);
    frame_unref(f);
    kit_close(&k);
}

/* Both directions at once, sizes from tiny to several records, bursts of them. */
static void many_frames_of_all_sizes_keep_their_order(void **state)
{
    struct kit k;
    struct prng p;
    uint64_t to_server = 0, to_client = 0;
    uint32_t sent_n = 0;

    prng_init(&p, 1);
    kit_open(&k, NULL);
    kit_connect(&k);
    for (int round = 0; round < 200; round++) {
        for (uint64_t left = prng_between(&p, 1, 12); left > 0; left--) {
            struct frame *f = prng_chance(&p, 500000) ? lease(sent_n)
                                                      : kit_big(prng_between(&p, 1, 60000), sent_n);

            conn_send(k.client.c, f);
            conn_send(k.server.c, f);
            to_server = kit_digest(to_server, f);
            to_client = kit_digest(to_client, f);
            sent_n++;
            frame_unref(f);
        }
        kit_turn(&k);
    }
    kit_wait(&k, k.server.frames_n == sent_n && k.client.frames_n == sent_n);
    assert_int_equal(k.server.digest, to_server);
    assert_int_equal(k.client.digest, to_client);
    kit_close(&k);
}

/* A TLS client of our own kind that writes what it likes, record by record. */
struct raw {
    int fd;
    struct tls *tls;
    SSL *ssl;
};

static void raw_open(struct raw *r, struct kit *k)
{
    char error[NET_ERROR_MAX];
    int rc;

    r->fd = kit_socket(k);
    assert_int_equal(tls_client_open(&k->token, &r->tls, error), MU_OK);
    r->ssl = tls_session(r->tls, r->fd);
    assert_non_null(r->ssl);
    while ((rc = SSL_do_handshake(r->ssl)) != 1) {
        assert_int_equal(SSL_get_error(r->ssl, rc), SSL_ERROR_WANT_READ);
        kit_turn(k);
    }
    kit_wait(k, k->server.opened_n > 0);
}

static void raw_write(struct raw *r, struct kit *k, const uint8_t *bytes, size_t n)
{
    int rc;

    while ((rc = SSL_write(r->ssl, bytes, (int)n)) <= 0) {
        assert_int_equal(SSL_get_error(r->ssl, rc), SSL_ERROR_WANT_WRITE);
        kit_turn(k);
    }
    assert_int_equal(rc, n);
}

static void raw_close(struct raw *r)
{
    SSL_free(r->ssl);
    tls_close(r->tls);
    close(r->fd);
}

static void a_record_per_byte_is_a_frame_all_the_same(void **state)
{
    struct kit k;
    struct raw r;
    struct frame *f = kit_big(500, 1);

    kit_open(&k, NULL);
    raw_open(&r, &k);
    for (uint32_t i = 0; i < f->n; i++) {
        assert_int_equal(k.server.frames_n, 0);
        raw_write(&r, &k, f->bytes + i, 1);
        kit_turn(&k);
    }
    kit_wait(&k, k.server.frames_n == 1);
    assert_int_equal(k.server.digest, kit_digest(0, f));
    frame_unref(f);
    raw_close(&r);
    kit_close(&k);
}

/* A wire that carries one byte at a time, so that every record is cut everywhere. */
struct thread_of_bytes {
    int near, far; /* the session's end, and the socket to the listener */
};

static void carry(struct thread_of_bytes *w, struct kit *k)
{
    uint8_t back[4096];
    char byte;
    ssize_t n;

    if (recv(w->near, &byte, 1, MSG_DONTWAIT) == 1) {
        assert_int_equal(write(w->far, &byte, 1), 1);
    }
    kit_turn(k);
    n = recv(w->far, back, sizeof(back), MSG_DONTWAIT);
    if (n > 0) {
        assert_int_equal(write(w->near, back, (size_t)n), n);
    }
}

static void a_handshake_and_frames_may_come_byte_by_byte(void **state)
{
    struct thread_of_bytes w;
    struct kit k;
    struct frame *f = kit_big(300, 1);
    int ends[2];

    kit_open(&k, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    w = (struct thread_of_bytes){ends[1], kit_socket(&k)};
    SSL *ssl = tls_session(k.client_tls, ends[0]);

    while (SSL_do_handshake(ssl) != 1) {
        carry(&w, &k);
    }
    assert_true(tls_proved(ssl));
    assert_int_equal(SSL_write(ssl, f->bytes, (int)f->n), f->n);
    for (int i = 0; i < 10000 && k.server.frames_n == 0; i++) {
        carry(&w, &k);
    }
    assert_int_equal(k.server.frames_n, 1);
    assert_int_equal(k.server.digest, kit_digest(0, f));
    SSL_free(ssl);
    close(ends[0]);
    close(ends[1]);
    close(w.far);
    frame_unref(f);
    kit_close(&k);
}

/* All that a peer of another version learns is that it was closed. */
static void refuses_version(uint8_t major)
{
    struct kit k;
    struct raw r;
    struct frame *f = lease(1);
    uint8_t byte;
    int rc;

    kit_open(&k, NULL);
    raw_open(&r, &k);
    f->bytes[4] = major;
    raw_write(&r, &k, f->bytes, f->n);
    kit_wait(&k, k.server.closed_n == 1);
    assert_int_equal(k.server.status, MU_EVERSION);
    assert_non_null(strstr(k.server.why, "install the same major version"));
    assert_int_equal(k.server.frames_n, 0);
    assert_int_equal(listen_counts(k.l)->broken, 1);
    rc = SSL_read(r.ssl, &byte, 1);
    assert_int_equal(SSL_get_error(r.ssl, rc), SSL_ERROR_ZERO_RETURN);
    frame_unref(f);
    raw_close(&r);
    kit_close(&k);
}

static void frames_of_other_major_versions_are_refused(void **state)
{
    refuses_version(0);
    refuses_version(9);
}

static void a_frame_with_a_changed_byte_closes_only_its_connection(void **state)
{
    struct kit k;
    struct raw r;
    struct frame *f = lease(1);

    kit_open(&k, NULL);
    raw_open(&r, &k);
    kit_connect(&k);
    f->bytes[f->n - 1] ^= 1;
    raw_write(&r, &k, f->bytes, f->n);
    kit_wait(&k, k.server.closed_n == 1);
    assert_int_equal(k.server.status, MU_ECORRUPT);
    assert_int_equal(listen_counts(k.l)->now, 1);
    conn_say(k.client.c, WIRE_LEASE, &(struct msg_lease){0}, 0, 0);
    kit_wait(&k, k.server.frames_n == 1);
    frame_unref(f);
    raw_close(&r);
    kit_close(&k);
}

static void a_connection_cut_within_a_frame_is_told_and_no_frame_comes(void **state)
{
    struct kit k;
    struct raw r;
    struct frame *f = kit_big(5000, 1);

    kit_open(&k, NULL);
    raw_open(&r, &k);
    raw_write(&r, &k, f->bytes, f->n - 1);
    kit_turn(&k);
    close(r.fd); /* as a kill -9 would: no goodbye */
    r.fd = -1;
    kit_wait(&k, k.server.closed_n == 1);
    assert_int_equal(k.server.status, MU_EIO);
    assert_int_equal(k.server.frames_n, 0);
    frame_unref(f);
    raw_close(&r);
    kit_close(&k);
}

static void a_peer_that_does_not_read_is_closed_at_out_max(void **state)
{
    const struct listen_config config = {.limits = {.out_max = 8 << 20}};
    struct kit k;
    struct raw r;
    struct frame *f = kit_big(100000, 1);
    size_t most = 0;

    kit_open(&k, &config);
    raw_open(&r, &k);
    for (int i = 0; i < 100000 && k.server.closed_n == 0; i++) {
        if (k.server.c != NULL) {
            conn_send(k.server.c, f);
            most = MAX(most, conn_queued(k.server.c));
        }
        kit_turn(&k);
    }
    assert_int_equal(k.server.closed_n, 1);
    assert_int_equal(k.server.status, MU_ELIMIT);
    assert_true(most > (8 << 20) && most <= (8 << 20) + 2 * (size_t)f->n);
    assert_int_equal(listen_counts(k.l)->unread, 1);
    assert_int_equal(f->refs, 1);
    frame_unref(f);
    raw_close(&r);
    kit_close(&k);
}

static void one_frame_may_be_longer_than_out_max(void **state)
{
    const struct listen_config config = {.limits = {.out_max = 1000}};
    struct kit k;
    struct frame *f = kit_big(3 << 20, 1);

    kit_open(&k, &config);
    kit_connect(&k);
    conn_send(k.server.c, f);
    conn_say(k.server.c, WIRE_LEASE, &(struct msg_lease){0}, 0, 0);
    kit_wait(&k, k.client.frames_n == 2);
    assert_int_equal(k.server.closed_n, 0);
    frame_unref(f);
    kit_close(&k);
}

static void what_is_queued_leaves_when_a_close_may_flush(void **state)
{
    struct kit k;
    struct frame *f = kit_big(4 << 20, 1);

    kit_open(&k, NULL);
    kit_connect(&k);
    /* What the other side is saying meanwhile must not turn the goodbye into a reset. */
    conn_send(k.client.c, f);
    conn_send(k.client.c, f);
    conn_send(k.server.c, f);
    conn_say(k.server.c, WIRE_LEASE, &(struct msg_lease){0}, 0, 0);
    conn_close(k.server.c, 60000);
    conn_send(k.server.c, f); /* too late, and silent */
    k.server.c = NULL;
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.client.status, MU_OK);
    assert_int_equal(k.client.frames_n, 2);
    assert_int_equal(k.server.closed_n, 0);
    kit_wait(&k, f->refs == 1);
    frame_unref(f);
    kit_close(&k);
}

static void a_flush_that_takes_too_long_is_given_up(void **state)
{
    struct kit k;
    struct raw r;
    struct frame *f = kit_big(11 << 20, 1);

    kit_open(&k, NULL);
    raw_open(&r, &k);
    conn_send(k.server.c, f);
    conn_close(k.server.c, 50); /* and nobody reads */
    kit_wait(&k, f->refs == 1);
    assert_int_equal(k.server.closed_n, 0);
    frame_unref(f);
    raw_close(&r);
    kit_close(&k);
}

static void a_frame_callback_may_close(uint32_t flush_ms)
{
    struct kit k;
    struct frame *f = kit_big(200000, 1); /* in the inbox, which must outlive the callback */

    kit_open(&k, NULL);
    k.server.close_in_frame = true;
    k.server.close_flush_ms = flush_ms;
    k.server.echo = true;
    kit_connect(&k);
    for (int i = 0; i < 5; i++) {
        conn_send(k.client.c, f);
    }
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.server.frames_n, 1);
    assert_int_equal(k.server.closed_n, 0);
    if (flush_ms > 0) {
        assert_int_equal(k.client.frames_n, 1);
    }
    frame_unref(f);
    kit_close(&k);
}

static void a_connection_may_be_closed_from_its_frame_callback(void **state)
{
    a_frame_callback_may_close(0);
    a_frame_callback_may_close(30000);
}

static void whoever_says_nothing_is_closed_in_time(void **state)
{
    const struct listen_config first = {.limits = {.handshake_ms = 500}};
    const struct listen_config idle = {.limits = {.handshake_ms = 60000, .idle_ms = 30}};
    struct kit k;

    kit_open(&k, &first);
    kit_connect(&k);
    kit_wait(&k, k.server.closed_n == 1);
    assert_int_equal(k.server.status, MU_ETIMEDOUT);
    assert_int_equal(listen_counts(k.l)->timed_out, 1);
    kit_close(&k);

    kit_open(&k, &idle);
    kit_connect(&k);
    conn_say(k.client.c, WIRE_LEASE, &(struct msg_lease){0}, 0, 0);
    kit_wait(&k, k.server.closed_n == 1);
    assert_int_equal(k.server.frames_n, 1);
    assert_int_equal(k.server.status, MU_ETIMEDOUT);
    assert_int_equal(listen_counts(k.l)->timed_out, 0);
    kit_close(&k);
}

static void plain_connections_know_their_peer(void **state)
{
    struct kit k;
    uint32_t uid = 0, pid = 0;

    kit_open(&k, NULL);
    int fd = kit_pair(&k);
    struct frame *f = lease(3);

    assert_int_equal(conn_peer_cred(k.client.c, &uid, &pid), MU_OK);
    assert_int_equal(pid, getpid());
    assert_int_equal(uid, getuid());
    assert_int_equal(strncmp(conn_peer(k.client.c), "pid ", 4), 0);
    assert_int_equal(write(fd, f->bytes, f->n), f->n);
    kit_wait(&k, k.client.frames_n == 1);
    close(fd);
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.client.status, MU_OK);
    frame_unref(f);
    kit_close(&k);
}

/* What the peer said last comes before the news that it is gone. */
static void last_words_are_heard_although_writing_fails(void **state)
{
    struct kit k;

    kit_open(&k, NULL);
    int fd = kit_pair(&k);
    struct frame *f = lease(3);

    assert_int_equal(write(fd, f->bytes, f->n), f->n);
    close(fd);
    conn_send(k.client.c, f); /* EPIPE, and no signal that ends the process */
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.client.frames_n, 1);
    frame_unref(f);
    kit_close(&k);
}

/* … also when a reset says it: the peer closed while words of ours were on their way. */
static void last_words_are_heard_before_a_reset(void **state)
{
    struct kit k;
    struct sockaddr_in sa = {.sin_family = AF_INET};
    socklen_t n = sizeof(sa);
    struct frame *f = lease(3);
    int at = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, peer;

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(at, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(listen(at, 1), 0);
    assert_int_equal(getsockname(at, (struct sockaddr *)&sa, &n), 0);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    peer = accept(at, NULL, NULL);
    kit_open(&k, NULL);
    assert_int_equal(
        conn_open(&k.loop, fd, NULL, false, &kit_handler, NULL, &k.client, &k.client.c), MU_OK);
    kit_wait(&k, k.client.opened_n == 1);
    conn_send(k.client.c, f);
    kit_wait(&k, conn_queued(k.client.c) == 0);
    assert_int_equal(write(peer, f->bytes, f->n), f->n);
    close(peer); /* with words unread: a reset */
    kit_wait(&k, k.client.closed_n == 1);
    assert_int_equal(k.client.frames_n, 1);
    assert_int_equal(k.client.status, MU_EIO);
    close(at);
    frame_unref(f);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_token_opens_and_frames_go_both_ways),
        cmocka_unit_test(the_longest_frame_arrives_whole),
        cmocka_unit_test(many_frames_of_all_sizes_keep_their_order),
        cmocka_unit_test(a_record_per_byte_is_a_frame_all_the_same),
        cmocka_unit_test(a_handshake_and_frames_may_come_byte_by_byte),
        cmocka_unit_test(frames_of_other_major_versions_are_refused),
        cmocka_unit_test(a_frame_with_a_changed_byte_closes_only_its_connection),
        cmocka_unit_test(a_connection_cut_within_a_frame_is_told_and_no_frame_comes),
        cmocka_unit_test(a_peer_that_does_not_read_is_closed_at_out_max),
        cmocka_unit_test(one_frame_may_be_longer_than_out_max),
        cmocka_unit_test(what_is_queued_leaves_when_a_close_may_flush),
        cmocka_unit_test(a_flush_that_takes_too_long_is_given_up),
        cmocka_unit_test(a_connection_may_be_closed_from_its_frame_callback),
        cmocka_unit_test(whoever_says_nothing_is_closed_in_time),
        cmocka_unit_test(plain_connections_know_their_peer),
        cmocka_unit_test(last_words_are_heard_although_writing_fails),
        cmocka_unit_test(last_words_are_heard_before_a_reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
