/* Contexts and sessions that are keyed by the token. */
#include "net/tls.h"

#include "net/psk.h"
#include "net/tls_bio.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>

struct tls {
    SSL_CTX *ctx;
};

static int open_either(const struct token *token, bool server, struct tls **tls_out, char *error)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    uint8_t psk[PSK_BYTES];

    if (tls == NULL) {
        goto err;
    }
    token_derive(token, TOKEN_KEY_CONTROL, psk);
    tls->ctx = psk_open(server, "muster-1", psk);
    OPENSSL_cleanse(psk, sizeof(psk));
    if (tls->ctx == NULL) {
        goto err;
    }
    SSL_CTX_set_mode(tls->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    *tls_out = tls;
    return MU_OK;
err:
    snprintf(error, NET_ERROR_MAX, "can't set up TLS: %s",
             ERR_peek_error() != 0 ? ERR_reason_error_string(ERR_peek_error()) : "out of memory");
    ERR_clear_error();
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
    return psk_session(tls->ctx, fd);
}

void tls_feed(SSL *ssl, const uint8_t *bytes, size_t n)
{
    tls_bio_feed(SSL_get_rbio(ssl), bytes, n);
}

bool tls_proved(const SSL *ssl)
{
    return psk_proved(ssl);
}
