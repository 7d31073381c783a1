/* The key is an SSL_SESSION made by hand, which belongs to the context: so sessions may outlive
 * whoever has opened that. */
#include "net/psk.h"

#include "net/tls_bio.h"

#include <openssl/err.h>
#include <pthread.h>
#include <string.h>

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

/* Sent without its end. */
static const char *identity_of(SSL *ssl)
{
    return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

/* An identity that is not ours gets no key; without a certificate the handshake then fails. */
static int find_key(SSL *ssl, const unsigned char *id, size_t id_n, SSL_SESSION **session_out)
{
    SSL_SESSION *key = key_of(ssl);

    *session_out = NULL;
    if (id_n == strlen(identity_of(ssl)) && memcmp(id, identity_of(ssl), id_n) == 0 &&
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
    *id_out = (const unsigned char *)identity_of(ssl);
    *id_n_out = strlen(identity_of(ssl));
    return *session_out != NULL;
}

/* Whoever shows a certificate does not know the key. */
static int refuse_certificate(X509_STORE_CTX *ctx, void *arg)
{
    return 0;
}

static SSL_SESSION *make_key(SSL_CTX *ctx, const uint8_t bytes[PSK_BYTES])
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    SSL *ssl = SSL_new(ctx);
    SSL_SESSION *key = SSL_SESSION_new();
    const SSL_CIPHER *cipher = ssl != NULL ? SSL_CIPHER_find(ssl, aes_128_gcm_sha256) : NULL;

    if (key == NULL || cipher == NULL || SSL_SESSION_set1_master_key(key, bytes, PSK_BYTES) != 1 ||
        SSL_SESSION_set_cipher(key, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(key, TLS1_3_VERSION) != 1 ||
        SSL_SESSION_set_timeout(key, KEY_LIFE_S) != 1) {
        SSL_SESSION_free(key);
        key = NULL;
    }
    SSL_free(ssl);
    return key;
}

static bool set_up(SSL_CTX *ctx, const char *identity)
{
    int groups[] = {NID_X25519, NID_X9_62_prime256v1}; /* the second for machines in FIPS mode */

    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    /* psk_ke, a key without (EC)DHE, stays off: it is by default. */
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") ==
               1 &&
           SSL_CTX_set1_groups(ctx, groups, ARRAY_LEN(groups)) == 1 &&
           SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
           SSL_CTX_set_app_data(ctx, (void *)(uintptr_t)identity) == 1;
}

SSL_CTX *psk_open(bool server, const char *identity, const uint8_t key[PSK_BYTES])
{
    pthread_once(&key_once, make_index);
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    SSL_SESSION *session = NULL;

    if (ctx == NULL || key_index < 0 || !set_up(ctx, identity)) {
        goto err;
    }
    session = make_key(ctx, key);
    if (session == NULL || SSL_CTX_set_ex_data(ctx, key_index, session) != 1) {
        SSL_SESSION_free(session);
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
    return ctx;
err:
    SSL_CTX_free(ctx);
    return NULL;
}

SSL *psk_session(SSL_CTX *ctx, int fd)
{
    SSL *ssl = SSL_new(ctx);
    BIO *bio = ssl != NULL ? tls_bio_open(fd) : NULL;

    if (bio == NULL) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio);
    if (SSL_is_server(ssl)) {
        SSL_set_accept_state(ssl);
    } else {
        SSL_set_connect_state(ssl);
    }
    return ssl;
}

bool psk_proved(const SSL *ssl)
{
    /* A session that was not made from our key is a new one, whatever else it may be. */
    return SSL_is_init_finished(ssl) && SSL_session_reused(ssl) == 1;
}
