/* TLS 1.3 between two workers. The key is made from the run's and from what the handshake of
 * hello.h agreed on, so it fits this one connection; (EC)DHE is added to it. Nothing else is
 * accepted: there are no certificates, no tickets, no older versions. */
#include "base/hook.h"
#include "comm/tcp.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const unsigned char identity[] = "muster-data-1"; /* sent without its end */
#define IDENTITY_N (sizeof(identity) - 1)

/* ---- the socket below it: OpenSSL's own would raise SIGPIPE ---- */

static int below_settle(BIO *bio, ssize_t n, bool reading)
{
    struct tcp_link *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (n >= 0) {
        return (int)n;
    }
    if (errno == EAGAIN) {
        reading ? BIO_set_retry_read(bio) : BIO_set_retry_write(bio);
    } else {
        t->tls->error = errno;
    }
    return -1;
}

static int below_write(BIO *bio, const char *data, int n)
{
    struct tcp_link *t = BIO_get_data(bio);
    ssize_t sent;

    do {
        HOOK();
        sent = send(t->fd, data, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return below_settle(bio, sent, false);
}

static int below_read(BIO *bio, char *data, int n)
{
    struct tcp_link *t = BIO_get_data(bio);
    ssize_t got;

    do {
        HOOK();
        got = recv(t->fd, data, (size_t)n, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    t->tls->ended = got == 0;
    return below_settle(bio, got, true);
}

static long below_ctrl(BIO *bio, int command, long number, void *arg)
{
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_PUSH || command == BIO_CTRL_POP;
}

static BIO *open_below(struct tcp_link *t)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "muster data");
    BIO *bio;

    t->tls->method = method;
    if (method == NULL || BIO_meth_set_write(method, below_write) != 1 ||
        BIO_meth_set_read(method, below_read) != 1 || BIO_meth_set_ctrl(method, below_ctrl) != 1) {
        return NULL;
    }
    bio = BIO_new(method);
    if (bio != NULL) {
        BIO_set_data(bio, t);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* ---- the key ---- */

static SSL_SESSION *make_key(SSL *ssl)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    const struct tcp_link *t = SSL_get_app_data(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    SSL_SESSION *key = SSL_SESSION_new();

    if (key == NULL || cipher == NULL ||
        SSL_SESSION_set1_master_key(key, t->tls->key, sizeof(t->tls->key)) != 1 ||
        SSL_SESSION_set_cipher(key, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(key, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(key);
        return NULL;
    }
    return key;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t id_n, SSL_SESSION **session_out)
{
    *session_out =
        id_n == IDENTITY_N && memcmp(id, identity, IDENTITY_N) == 0 ? make_key(ssl) : NULL;
    return 1;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id_out, size_t *id_n_out,
                   SSL_SESSION **session_out)
{
    *session_out = make_key(ssl);
    *id_out = identity;
    *id_n_out = IDENTITY_N;
    return *session_out != NULL;
}

/* Whoever shows a certificate does not know the key. */
static int refuse_certificate(X509_STORE_CTX *ctx, void *arg)
{
    return 0;
}

static bool derive_key(struct tcp_link *t)
{
    static const char label[] = "muster data tls 1";
    uint8_t words[sizeof(label) + HELLO_NONCE_BYTES];
    size_t n = 0;

    memcpy(words, label, sizeof(label));
    memcpy(words + sizeof(label), t->link.session.id, HELLO_NONCE_BYTES);
    return EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, t->link.comm->config.run_key, KEY_BYTES,
                     words, sizeof(words), t->tls->key, sizeof(t->tls->key), &n) != NULL &&
           n == sizeof(t->tls->key);
}

static bool set_up(SSL_CTX *ctx)
{
    int groups[] = {NID_X25519, NID_X9_62_prime256v1}; /* the second for machines in FIPS mode */

    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, 4 * TCP_RECORD);
    SSL_CTX_set_psk_find_session_callback(ctx, find_key);
    SSL_CTX_set_psk_use_session_callback(ctx, use_key);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1 &&
           SSL_CTX_set1_groups(ctx, groups, ARRAY_LEN(groups)) == 1 &&
           SSL_CTX_set_num_tickets(ctx, 0) == 1;
}

int tcp_tls_open(struct tcp_link *t)
{
    struct tcp_tls *tls = calloc(1, sizeof(*tls));
    BIO *bio;

    if (tls == NULL) {
        return MU_ENOMEM;
    }
    t->tls = tls;
    tls->ctx = SSL_CTX_new(t->link.session.dialed ? TLS_client_method() : TLS_server_method());
    if (tls->ctx == NULL || !set_up(tls->ctx) || !derive_key(t)) {
        goto err;
    }
    tls->ssl = SSL_new(tls->ctx);
    bio = tls->ssl != NULL ? open_below(t) : NULL;
    if (bio == NULL) {
        goto err;
    }
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, t);
    if (t->link.session.dialed) {
        SSL_CTX_set_cert_verify_callback(tls->ctx, refuse_certificate, NULL);
        SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL);
        SSL_set_connect_state(tls->ssl);
        tls->wants = POLLOUT;
    } else {
        SSL_set_accept_state(tls->ssl);
        tls->wants = POLLIN;
    }
    return MU_OK;
err:
    ERR_clear_error();
    tcp_tls_close(t);
    return MU_ENOMEM;
}

void tcp_tls_close(struct tcp_link *t)
{
    struct tcp_tls *tls = t->tls;

    if (tls == NULL) {
        return;
    }
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->method);
    OPENSSL_cleanse(tls, sizeof(*tls));
    free(tls);
    t->tls = NULL;
}
