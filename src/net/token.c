/* Keys made from the secret, and its text form. */
#include "net/token.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

#define TOKEN_PREFIX "mu1-"
#define HEX_N ((size_t)2 * TOKEN_BYTES)

static const char hex_digits[] = "0123456789abcdef";

/* Labels are for ever: another text is another key. */
static const char *const labels[] = {
    [TOKEN_KEY_CONTROL] = "muster 1 control",
    [TOKEN_KEY_VIEWER] = "muster 1 http viewer",
    [TOKEN_KEY_OPERATOR] = "muster 1 http operator",
};

static const char label_run[] = "muster 1 run";

/* info: all of it is bound into the key. */
static void derive(const struct token *t, char *info, size_t info_n, uint8_t out[32])
{
    char digest[] = "SHA256", salt[] = "muster token", secret[TOKEN_BYTES];

    memcpy(secret, t->secret, sizeof(secret));
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, strlen(salt)),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret, sizeof(secret)),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, info_n),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;

    /* Rarely done, first at the start: without a key there is nothing to go on with. */
    mu_assert(ctx != NULL && EVP_KDF_derive(ctx, out, 32, params) == 1);
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    OPENSSL_cleanse(secret, sizeof(secret));
}

void token_derive(const struct token *t, enum token_key use, uint8_t out[32])
{
    char label[64];

    mu_assert((size_t)use < ARRAY_LEN(labels) && strlen(labels[use]) < sizeof(label));
    strcpy(label, labels[use]);
    derive(t, label, strlen(label), out);
}

/* The label with its end, so that it is the beginning of no other; the run, little-endian; the
 * job. */
void token_derive_run(const struct token *t, const char *job, uint32_t run, uint8_t out[32])
{
    char info[sizeof(label_run) + 4 + 256];
    size_t n = sizeof(label_run), job_n = strlen(job);

    mu_assert(job_n <= 256);
    memcpy(info, label_run, sizeof(label_run));
    for (int i = 0; i < 4; i++) {
        info[n++] = (char)(run >> 8 * i);
    }
    memcpy(info + n, job, job_n);
    derive(t, info, n + job_n, out);
}

void token_print(const struct token *t, char text[TOKEN_TEXT_MAX])
{
    char *p = text + strlen(TOKEN_PREFIX);

    strcpy(text, TOKEN_PREFIX);
    for (size_t i = 0; i < TOKEN_BYTES; i++) {
        *p++ = hex_digits[t->secret[i] >> 4];
        *p++ = hex_digits[t->secret[i] & 15];
    }
    *p = '\0';
}

static int hex_value(char ch)
{
    const char *at = ch != '\0' ? strchr(hex_digits, ch) : NULL;

    return at != NULL ? (int)(at - hex_digits) : -1;
}

int token_parse(const char *text, struct token *t_out)
{
    static const char blanks[] = " \t\r\n";
    struct token t;

    text += strspn(text, blanks);
    if (strncmp(text, TOKEN_PREFIX, strlen(TOKEN_PREFIX)) != 0) {
        return MU_EINVAL;
    }
    text += strlen(TOKEN_PREFIX);
    if (strnlen(text, HEX_N) < HEX_N || text[HEX_N + strspn(text + HEX_N, blanks)] != '\0') {
        return MU_EINVAL;
    }
    for (size_t i = 0; i < TOKEN_BYTES; i++) {
        const int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return MU_EINVAL;
        }
        t.secret[i] = (uint8_t)(high << 4 | low);
    }
    *t_out = t;
    OPENSSL_cleanse(&t, sizeof(t));
    return MU_OK;
}
