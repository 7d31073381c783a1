/* HTTPS, and who may do without. */
#include "unit/http/http_kit.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], cert_file[96], key_file[96], other_key_file[96], locked_key_file[96];

static EVP_PKEY *write_key(const char *path, const char *password)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *file = fopen(path, "w");

    assert_non_null(key);
    assert_int_equal(PEM_write_PKCS8PrivateKey(file, key,
                                               password != NULL ? EVP_aes_256_cbc() : NULL,
                                               password, password != NULL ? 4 : 0, NULL, NULL),
                     1);
    fclose(file);
    return key;
}

static void write_cert(const char *path, EVP_PKEY *key)
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);
    FILE *file = fopen(path, "w");

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(cert, name);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_X509(file, cert), 1);
    fclose(file);
    X509_free(cert);
}

static int make_files(void **state)
{
    strcpy(folder, "/tmp/muster-http-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(cert_file, sizeof(cert_file), "%s/cert", folder);
    snprintf(key_file, sizeof(key_file), "%s/key", folder);
    snprintf(other_key_file, sizeof(other_key_file), "%s/other", folder);
    snprintf(locked_key_file, sizeof(locked_key_file), "%s/locked", folder);
    EVP_PKEY *key = write_key(key_file, NULL);

    write_cert(cert_file, key);
    EVP_PKEY_free(key);
    EVP_PKEY_free(write_key(other_key_file, NULL));
    EVP_PKEY_free(write_key(locked_key_file, "pass"));
    return 0;
}

static int drop_files(void **state)
{
    unlink(cert_file);
    unlink(key_file);
    unlink(other_key_file);
    unlink(locked_key_file);
    return rmdir(folder);
}

static int open_kit(void **state)
{
    http_kit_setup_closed(state);
    kit.config.cert_file = cert_file;
    kit.config.key_file = key_file;
    http_kit_open(&kit);
    return 0;
}

static void get(struct http_client *c, const char *path)
{
    http_client_send(c,
                     "GET %s HTTP/1.1\r\nHost: localhost:1\r\nOrigin: https://localhost:1\r\n"
                     "Authorization: Bearer %s\r\n\r\n",
                     path, http_kit_viewer);
}

static void requests_are_answered_over_tls(void **state)
{
    struct http_client c = http_kit_connect_tls(&kit);

    for (int i = 0; i < 3; i++) {
        get(&c, "/echo/a/b");
        struct http_reply r = http_client_reply(&c, false);

        assert_int_equal(r.status, 200);
        assert_non_null(strstr(r.body, "a=a b=b"));
        free(r.body);
    }
    get(&c, "/big?n=1000000");
    struct http_reply r = http_client_reply(&c, false);

    assert_int_equal(r.body_n, 1000000);
    free(r.body);
    http_client_close(&c);
}

static void late_answers_and_streams_go_over_tls(void **state)
{
    struct http_client late = http_kit_connect_tls(&kit), stream = http_kit_connect_tls(&kit);

    get(&late, "/late");
    get(&stream, "/stream/all");
    http_client_expect(&stream, ":\n\n");
    http_kit_wait(&kit, kit.late_n == 1);
    assert_false(http_gone(kit.late[0]));
    for (int i = 0; i < 10; i++) {
        char text[32];

        snprintf(text, sizeof(text), "data: %d\n\n", i);
        assert_int_equal(http_feed_push(kit.feed, "", text, strlen(text)), MU_OK);
        http_client_expect(&stream, text);
    }
    http_client_close(&late);
    http_kit_wait(&kit, http_gone(kit.late[0]));
    http_answer(kit.late[0], 200, NULL, NULL, 0);
    http_close(kit.h);
    kit.h = NULL;
    http_client_expect_end(&stream);
    http_client_close(&stream);
}

static void plain_http_to_a_tls_port_gets_no_answer(void **state)
{
    struct http_client c = http_kit_connect(&kit);

    get(&c, "/open");
    http_client_expect_end(&c);
    assert_true(c.in_n == 0 || strstr(c.in, "HTTP") == NULL);
    assert_int_equal(kit.handled_n, 0);
    http_client_close(&c);
}

static void fails(int status, const char *what)
{
    char error[NET_ERROR_MAX] = "";
    struct http *h = NULL;

    assert_int_equal(http_open(&kit.loop, &kit.config, &h, error), status);
    assert_null(h);
    if (strstr(error, what) == NULL) {
        fail_msg("no \"%s\" in: %s", what, error);
    }
}

static void without_a_certificate_it_listens_on_loopback_only(void **state)
{
    strcpy(kit.config.listen.host, "0.0.0.0");
    fails(MU_EREFUSED, "--http-cert");
    strcpy(kit.config.listen.host, "192.0.2.1");
    fails(MU_EREFUSED, "without a certificate");
    strcpy(kit.config.listen.host, "0.0.0.0");
    kit.config.cert_file = cert_file;
    kit.config.key_file = key_file;
    http_kit_open(&kit);
    struct http_client c = http_kit_connect_tls(&kit);

    get(&c, "/");
    struct http_reply r = http_client_reply(&c, false);

    assert_int_equal(r.status, 200);
    free(r.body);
    http_client_close(&c);
}

static void a_certificate_that_is_no_good_is_told(void **state)
{
    kit.config.cert_file = cert_file;
    fails(MU_EINVAL, "--http-key");
    kit.config.key_file = "/no/such/key";
    fails(MU_EIO, "/no/such/key: No such file");
    kit.config.key_file = cert_file;
    fails(MU_EINVAL, "is no private key");
    kit.config.key_file = locked_key_file;
    fails(MU_EINVAL, "without a password");
    kit.config.key_file = other_key_file;
    fails(MU_EINVAL, "is not that of the certificate");
    kit.config.key_file = key_file;
    kit.config.cert_file = key_file;
    fails(MU_EINVAL, "is no certificate");
    kit.config.cert_file = folder;
    fails(MU_EIO, folder);
}

static void a_port_in_use_is_told(void **state)
{
    struct http_kit other;
    char where[64];

    http_kit_init(&other);
    http_kit_open(&other);
    kit.config.listen.port = http_port(other.h);
    snprintf(where, sizeof(where), "127.0.0.1:%u", http_port(other.h));
    fails(MU_EBUSY, where);
    http_kit_close(&other);
}

#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, open_kit, http_kit_teardown)
#define WITHOUT(test) \
    cmocka_unit_test_setup_teardown(test, http_kit_setup_closed, http_kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KIT(requests_are_answered_over_tls),
        WITH_KIT(late_answers_and_streams_go_over_tls),
        WITH_KIT(plain_http_to_a_tls_port_gets_no_answer),
        WITHOUT(without_a_certificate_it_listens_on_loopback_only),
        WITHOUT(a_certificate_that_is_no_good_is_told),
        WITHOUT(a_port_in_use_is_told),
    };

    return cmocka_run_group_tests(tests, make_files, drop_files);
}
