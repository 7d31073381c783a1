/* Contexts and sessions. The key is an SSL_SESSION made by hand, which belongs to the context: so
 * sessions may outlive their struct tls. */
#include "net/tls.h"

#include "net/tls_bio.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tls {
    SSL_CTX *ctx;
    bool server;
};

static const unsigned char identity[] = "muster-1"; /* sent without its end */
#define IDENTITY_N (sizeof(identity) - 1)

/* OpenSSL takes a key for a session of the past, which lasts five minutes by the wall clock. Ours
 * lasts as long as the process, whatever is done to that clock. */
#define KEY_LIFE_S (50L * 365 * 24 * 3600)

static int key_index = -1;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void free_key(void *parent, void *ptr, CRYPTO_EX_DATA *ad, int idx, long argl, void *argp)
{
    SSL_SESSION_free(ptr);
}

static void make_index(void)
{
    key_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_key);
}

static SSL_SESSION *key_of(SSL *ssl)
{
    return SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), key_index);
}

/* An identity that is not ours gets no key; without a certificate the handshake then fails. */
static int find_key(SSL *ssl, const unsigned char *id, size_t id_n, SSL_SESSION **session_out)
{
    SSL_SESSION *key = key_of(ssl);

    *session_out = NULL;
    if (id_n == IDENTITY_N && memcmp(id, identity, IDENTITY_N) == 0 &&
        SSL_SESSION_up_ref(key) == 1) {
        *session_out = key;
    }
    return 1;
}

/* Without a key in the hello there is nothing to talk about: so nothing is computed for it, and no
 * second hello is asked for. */
static int look_at_hello(SSL *ssl, int *alert, void *arg)
{
    const unsigned char *bytes;
    size_t n;

    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &bytes, &n) != 1) {
        *alert = SSL_AD_HANDSHAKE_FAILURE;
        return SSL_CLIENT_HELLO_ERROR;
    }
    return SSL_CLIENT_HELLO_SUCCESS;
}

/* The client's handshake writes into the session that it is given, so each gets its own. */
static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id_out, size_t *id_n_out,
                   SSL_SESSION **session_out)
{
    *session_out = SSL_SESSION_dup(key_of(ssl));
    *id_out = identity;
    *id_n_out = IDENTITY_N;
    return *session_out != NULL;
}

/* Whoever shows a certificate does not know the token. */
static int refuse_certificate(X509_STORE_CTX *ctx, void *arg)
{
    return 0;
}

static SSL_SESSION *make_key(SSL_CTX *ctx, const struct token *token)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    uint8_t psk[32];
    SSL *ssl = SSL_new(ctx);
    SSL_SESSION *key = SSL_SESSION_new();
    const SSL_CIPHER *cipher = ssl != NULL ? SSL_CIPHER_find(ssl, aes_128_gcm_sha256) : NULL;

    token_derive(token, TOKEN_KEY_CONTROL, psk);
    if (key == NULL || cipher == NULL || SSL_SESSION_set1_master_key(key, psk, sizeof(psk)) != 1 ||
        SSL_SESSION_set_cipher(key, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(key, TLS1_3_VERSION) != 1 ||
        SSL_SESSION_set_timeout(key, KEY_LIFE_S) != 1) {
        SSL_SESSION_free(key);
        key = NULL;
    }
    OPENSSL_cleanse(psk, sizeof(psk));
    SSL_free(ssl);
    return key;
}

static bool set_up(SSL_CTX *ctx)
{
    int groups[] = {NID_X25519, NID_X9_62_prime256v1}; /* the second for machines in FIPS mode */

    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    /* psk_ke, a key without (EC)DHE, stays off: it is by default. */
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") ==
               1 &&
           SSL_CTX_set1_groups(ctx, groups, ARRAY_LEN(groups)) == 1 &&
           SSL_CTX_set_num_tickets(ctx, 0) == 1;
}

static int open_either(const struct token *token, bool server, struct tls **tls_out, char *error)
{
    pthread_once(&key_once, make_index);
    struct tls *tls = calloc(1, sizeof(*tls));
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    SSL_SESSION *key = NULL;

    if (tls == NULL || ctx == NULL || key_index < 0 || !set_up(ctx)) {
        goto err;
    }
    key = make_key(ctx, token);
    if (key == NULL || SSL_CTX_set_ex_data(ctx, key_index, key) != 1) {
        SSL_SESSION_free(key);
        goto err;
    }
    if (server) {
        SSL_CTX_set_client_hello_cb(ctx, look_at_hello, NULL);
        SSL_CTX_set_psk_find_session_callback(ctx, find_key);
    } else {
        SSL_CTX_set_psk_use_session_callback(ctx, use_key);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_cert_verify_callback(ctx, refuse_certificate, NULL);
    }
    tls->ctx = ctx;
    tls->server = server;
    *tls_out = tls;
    return MU_OK;
err:
    snprintf(error, NET_ERROR_MAX, "can't set up TLS: %s",
             ERR_peek_error() != 0 ? ERR_reason_error_string(ERR_peek_error()) : "out of memory");
    ERR_clear_error();
    SSL_CTX_free(ctx);
    free(tls);
    return MU_ENOMEM;
}

int tls_server_open(const struct token *token, struct tls **tls_out, char *error)
{
    return open_either(token, true, tls_out, error);
}

int tls_client_open(const struct token *token, struct tls **tls_out, char *error)
{
    return open_either(token, false, tls_out, error);
}

void tls_close(struct tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->ctx);
        free(tls);
    }
}

SSL *tls_session(struct tls *tls, int fd)
{
    SSL *ssl = SSL_new(tls->ctx);
    BIO *bio = ssl != NULL ? tls_bio_open(fd) : NULL;

    if (bio == NULL) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio);
    if (tls->server) {
        SSL_set_accept_state(ssl);
    } else {
        SSL_set_connect_state(ssl);
    }
    return ssl;
}

void tls_feed(SSL *ssl, const uint8_t *bytes, size_t n)
{
    tls_bio_feed(SSL_get_rbio(ssl), bytes, n);
}

bool tls_proved(const SSL *ssl)
{
    /* A session that was not made from our key is a new one, whatever else it may be. */
    return SSL_is_init_finished(ssl) && SSL_session_reused(ssl) == 1;
}
