/* OpenSSL's reasons, in words that say what to do. */
#include "net/tls.h"

#include "net/tls_bio.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

struct reason {
    int number;
    int status;
    const char *text;
};

static const char not_ours[] =
    "what listens there does not speak muster's protocol; is it the right port?";
static const char wrong_token[] =
    "the token is not the one of this orchestrator; set MUSTER_TOKEN or --token-file to what "
    "`muster token` prints where it runs";

/* An orchestrator answers a wrong key with an alert; its names are those of RFC 8446. */
static const struct reason client_reasons[] = {
    {SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, MU_EREFUSED, wrong_token},
    {SSL_R_TLSV1_ALERT_DECRYPT_ERROR, MU_EREFUSED, wrong_token},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, MU_EPROTO, not_ours},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, MU_EPROTO, not_ours},
    {SSL_R_TLSV1_ALERT_INTERNAL_ERROR, MU_EPROTO, not_ours},
    {SSL_R_WRONG_VERSION_NUMBER, MU_EPROTO, not_ours},
    {SSL_R_UNSUPPORTED_PROTOCOL, MU_EPROTO, not_ours},
    {SSL_R_CERTIFICATE_VERIFY_FAILED, MU_EPROTO,
     "what listens there shows a certificate instead of knowing the token; is it the right port?"},
};

static const struct reason server_reasons[] = {
    {SSL_R_BINDER_DOES_NOT_VERIFY, MU_EREFUSED, "it has another token"},
    {SSL_R_CALLBACK_FAILED, MU_EREFUSED, "it has no token (TLS, but not muster's)"},
    {SSL_R_NO_SHARED_CIPHER, MU_EREFUSED, "it has no token (TLS, but not muster's)"},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, MU_EREFUSED, "it has no token (TLS, but not muster's)"},
    {SSL_R_NO_SUITABLE_KEY_SHARE, MU_EPROTO, "it offers no key exchange that is known here"},
    {SSL_R_UNSUPPORTED_PROTOCOL, MU_EPROTO, "it speaks TLS older than 1.3"},
    {SSL_R_HTTP_REQUEST, MU_EPROTO, "it speaks HTTP; the HTTP port is another one"},
    {SSL_R_HTTPS_PROXY_REQUEST, MU_EPROTO, "it speaks HTTP; the HTTP port is another one"},
    {SSL_R_WRONG_VERSION_NUMBER, MU_EPROTO, "it does not speak TLS"},
};

static const struct reason *find(bool server, int number)
{
    const struct reason *list = server ? server_reasons : client_reasons;
    const size_t n = server ? ARRAY_LEN(server_reasons) : ARRAY_LEN(client_reasons);

    for (size_t i = 0; i < n; i++) {
        if (list[i].number == number) {
            return &list[i];
        }
    }
    return NULL;
}

static int explain(SSL *ssl, unsigned long code, char *buf, size_t cap)
{
    const int number = ERR_GET_REASON(code);
    const struct reason *r = find(SSL_is_server(ssl), number);
    const bool shaking = !SSL_is_init_finished(ssl);

    if (number == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        snprintf(buf, cap, "the connection was cut off%s", shaking ? " in the handshake" : "");
        return MU_EIO;
    }
    if (r != NULL) {
        snprintf(buf, cap, "%s", r->text);
        return r->status;
    }
    const char *text = ERR_reason_error_string(code);

    snprintf(buf, cap, "TLS: %s", text != NULL ? text : "unknown error");
    return MU_EPROTO;
}

int tls_why(SSL *ssl, int rc, char *buf, size_t cap)
{
    const int kind = SSL_get_error(ssl, rc);
    const unsigned long code = ERR_peek_error();
    const int error = tls_bio_errno(SSL_get_rbio(ssl));
    int status = MU_EIO;

    if (kind == SSL_ERROR_ZERO_RETURN) {
        snprintf(buf, cap, "the other side closed the connection");
        status = MU_OK;
    } else if (kind == SSL_ERROR_SSL && code != 0) {
        status = explain(ssl, code, buf, cap);
    } else if (error != 0) {
        snprintf(buf, cap, "%s", strerror(error));
    } else {
        snprintf(buf, cap, "the connection was cut off");
    }
    ERR_clear_error();
    return status;
}
