/* TLS between two workers. The key is made from the run's and from what the handshake of hello.h
 * agreed on, so it fits this one connection. */
#include "comm/tcp.h"
#include "net/psk.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static bool derive_key(const struct tcp_link *t, uint8_t key[PSK_BYTES])
{
    static const char label[] = "muster data tls 1";
    uint8_t words[sizeof(label) + HELLO_NONCE_BYTES];
    size_t n = 0;

    memcpy(words, label, sizeof(label));
    memcpy(words + sizeof(label), t->link.session.id, HELLO_NONCE_BYTES);
    return EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, t->link.comm->config.run_key, KEY_BYTES,
                     words, sizeof(words), key, PSK_BYTES, &n) != NULL &&
           n == PSK_BYTES;
}

int tcp_tls_open(struct tcp_link *t)
{
    const bool dialed = t->link.session.dialed;
    struct tcp_tls *tls = calloc(1, sizeof(*tls));
    uint8_t key[PSK_BYTES];
    SSL_CTX *ctx = NULL;

    t->tls = tls;
    if (tls != NULL && derive_key(t, key)) {
        ctx = psk_open(!dialed, "muster-data-1", key);
    }
    OPENSSL_cleanse(key, sizeof(key));
    if (ctx != NULL) {
        SSL_CTX_set_read_ahead(ctx, 1);
        SSL_CTX_set_default_read_buffer_len(ctx, 4 * TCP_RECORD);
        tls->ssl = psk_session(ctx, t->link.fd);
        tls->wants = dialed ? POLLOUT : POLLIN;
        SSL_CTX_free(ctx); /* The session keeps it. */
    }
    ERR_clear_error();
    return tls != NULL && tls->ssl != NULL ? MU_OK : MU_ENOMEM;
}

void tcp_tls_close(struct tcp_link *t)
{
    if (t->tls != NULL) {
        SSL_free(t->tls->ssl);
        OPENSSL_cleanse(t->tls, sizeof(*t->tls)); /* It may hold a record in the clear. */
        free(t->tls);
        t->tls = NULL;
    }
}
