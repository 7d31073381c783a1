/* The certificate and its key, looked at before libmicrohttpd does, which says little. */
#include "http/state.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (1u << 20)

static int read_file(const char *path, const char *what, char **text_out, char *error)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(FILE_MAX + 1);
    int rc = MU_EIO;

    if (file == NULL) {
        snprintf(error, NET_ERROR_MAX, "can't read the %s %s: %s", what, path, strerror(errno));
    } else if (text == NULL) {
        snprintf(error, NET_ERROR_MAX, "out of memory");
        rc = MU_ENOMEM;
    } else {
        const size_t n = fread(text, 1, FILE_MAX + 1, file);

        if (ferror(file)) {
            snprintf(error, NET_ERROR_MAX, "can't read the %s %s: %s", what, path, strerror(errno));
        } else if (n > FILE_MAX) {
            snprintf(error, NET_ERROR_MAX, "the %s %s has more than %u bytes", what, path,
                     FILE_MAX);
        } else {
            text[n] = '\0';
            *text_out = text;
            text = NULL;
            rc = MU_OK;
        }
    }
    free(text);
    if (file != NULL) {
        fclose(file);
    }
    return rc;
}

/* An encrypted key would otherwise ask on the terminal. */
static int no_password(char *buf, int size, int rwflag, void *u)
{
    return -1;
}

static int check(const char *cert_text, const char *key_text, const char *cert_file,
                 const char *key_file, char *error)
{
    BIO *cert_bio = BIO_new_mem_buf(cert_text, -1), *key_bio = BIO_new_mem_buf(key_text, -1);
    X509 *cert = cert_bio != NULL ? PEM_read_bio_X509(cert_bio, NULL, no_password, NULL) : NULL;
    EVP_PKEY *key =
        key_bio != NULL ? PEM_read_bio_PrivateKey(key_bio, NULL, no_password, NULL) : NULL;
    int rc = MU_EINVAL;

    if (cert == NULL) {
        snprintf(error, NET_ERROR_MAX, "%s is no certificate in PEM form", cert_file);
    } else if (key == NULL) {
        snprintf(error, NET_ERROR_MAX, "%s is no private key in PEM form without a password",
                 key_file);
    } else if (X509_check_private_key(cert, key) != 1) {
        snprintf(error, NET_ERROR_MAX, "the key in %s is not that of the certificate in %s",
                 key_file, cert_file);
    } else {
        rc = MU_OK;
    }
    EVP_PKEY_free(key);
    X509_free(cert);
    BIO_free(key_bio);
    BIO_free(cert_bio);
    ERR_clear_error();
    return rc;
}

int http_cert_read(const char *cert_file, const char *key_file, char **cert_out, char **key_out,
                   char *error)
{
    char *cert = NULL, *key = NULL;
    int rc = MU_EINVAL;

    if (key_file == NULL) {
        snprintf(error, NET_ERROR_MAX, "the certificate %s needs its key: give --http-key",
                 cert_file);
        return rc;
    }
    rc = read_file(cert_file, "certificate", &cert, error);
    if (rc == MU_OK) {
        rc = read_file(key_file, "key", &key, error);
    }
    if (rc == MU_OK) {
        rc = check(cert, key, cert_file, key_file, error);
    }
    if (rc != MU_OK) {
        free(cert);
        if (key != NULL) {
            OPENSSL_cleanse(key, strlen(key));
        }
        free(key);
        return rc;
    }
    *cert_out = cert;
    *key_out = key;
    return MU_OK;
}
