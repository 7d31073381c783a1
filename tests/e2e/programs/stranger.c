/* Knows the token, and says after a good handshake what it should not:
 *
 *     stranger ADDRESS:PORT TOKEN_FILE WHAT
 *
 * It ends with 0 when the other side has closed the connection, and with 1 if that did not happen.
 * `deaf` and `dull` ask for events again and again, read nothing, and wait to be killed. */
#include "core/message.h"
#include "net/socket.h"
#include "net/tls.h"
#include "wire/ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 30000
#define MANY_ASKS 300000 /* whose answers are over every limit */
#define SOME_ASKS 30000

static int fd;
static SSL *ssl;

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* After a call on the session that gave rc: waits until it is worth another. False: it is over. */
static bool again(int rc)
{
    const int kind = SSL_get_error(ssl, rc);
    struct pollfd p = {.fd = fd, .events = kind == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN};

    if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE) {
        return false;
    }
    if (poll(&p, 1, WAIT_MS) <= 0) {
        fail("poll", "nothing happened");
    }
    return true;
}

static void reach(const char *where, const char *token_path)
{
    struct sockaddr_storage found;
    struct token token;
    struct endpoint at;
    struct tls *tls;
    char error[NET_ERROR_MAX];
    socklen_t len;
    uint32_t n;
    int rc;

    if (endpoint_parse(where, 0, &at, error) != MU_OK ||
        endpoint_resolve(&at, &found, &len, 1, &n, error) != MU_OK ||
        token_find(token_path, &token, error) != MU_OK ||
        tls_client_open(&token, &tls, error) != MU_OK) {
        fail(where, error);
    }
    fd = socket(found.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&found, len) != 0) {
        fail(where, strerror(errno));
    }
    ssl = tls_session(tls, fd);
    while ((rc = SSL_do_handshake(ssl)) != 1) {
        if (!again(rc)) {
            fail(where, "the handshake failed");
        }
    }
    tls_close(tls);
}

static void say(const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        const int rc = SSL_write(ssl, bytes, (int)n);

        if (rc > 0) {
            bytes += rc;
            n -= (size_t)rc;
        } else if (!again(rc)) {
            return; /* Closed already. */
        }
    }
}

static size_t encode(enum wire_type type, const void *msg, uint8_t *buf, size_t cap)
{
    size_t n;

    if (wire_encode(type, msg, 0, 1, buf, cap, &n) != MU_OK) {
        fail("wire_encode", wire_name(type));
    }
    return n;
}

static void ask_and_be_deaf(size_t times)
{
    const struct msg_ask ask = {.kind = ASK_EVENTS};
    uint8_t frame[256];
    const size_t n = encode(WIRE_ASK, &ask, frame, sizeof(frame));
    uint8_t *all = malloc(times * n);

    for (size_t i = 0; all != NULL && i < times; i++) {
        memcpy(all + i * n, frame, n);
    }
    say(all, times * n);
    free(all);
    pause();
}

/* Bytes that no friend would send; returns how many. */
static size_t make(const char *what, uint8_t *buf, size_t cap)
{
    const struct msg_ask ask = {.kind = ASK_STATUS};
    const struct msg_lease lease = {0};
    size_t n = encode(WIRE_ASK, &ask, buf, cap);

    if (strcmp(what, "version") == 0) { /* of another major version */
        buf[4] = WIRE_MAJOR + 1;
    } else if (strcmp(what, "old") == 0) {
        buf[4] = 0;
    } else if (strcmp(what, "damaged") == 0) {
        buf[n - 1] ^= 1;
    } else if (strcmp(what, "long") == 0) { /* a length that no message has */
        memset(buf + 8, 0xff, 4);
    } else if (strcmp(what, "unknown") == 0) { /* a type that no message has */
        buf[6] = 0xfe;
    } else if (strcmp(what, "senseless") == 0) { /* nothing that one says to an orchestrator */
        n = encode(WIRE_LEASE, &lease, buf, cap);
    } else if (strcmp(what, "garbage") == 0) {
        for (n = 0; n < cap; n++) {
            buf[n] = (uint8_t)(n * 167 + 13);
        }
    } else {
        fail(what,
             "not one of version, old, damaged, long, unknown, senseless, garbage, deaf, dull");
    }
    return n;
}

int main(int argc, char **argv)
{
    uint8_t bytes[4096];
    int rc;

    if (argc != 4) {
        fail("usage", "stranger ADDRESS:PORT TOKEN_FILE WHAT");
    }
    reach(argv[1], argv[2]);
    if (strcmp(argv[3], "deaf") == 0) {
        ask_and_be_deaf(MANY_ASKS);
    } else if (strcmp(argv[3], "dull") == 0) {
        ask_and_be_deaf(SOME_ASKS);
    }
    say(bytes, make(argv[3], bytes, sizeof(bytes)));
    while ((rc = SSL_read(ssl, bytes, sizeof(bytes))) > 0 || again(rc)) {
    }
    SSL_free(ssl);
    close(fd);
    return 0;
}
