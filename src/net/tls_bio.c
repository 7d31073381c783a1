#include "net/tls_bio.h"

#include "base/hook.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct bottom {
    int fd;
    int error;
    bool fed;
    bool ended; /* the peer closed its side */
    const uint8_t *bytes;
    size_t bytes_n;
};

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static int settle(BIO *bio, struct bottom *b, ssize_t n)
{
    if (n < 0 && errno == EAGAIN) {
        return -1; /* The caller has set the retry flag. */
    }
    BIO_clear_retry_flags(bio);
    if (n < 0) {
        b->error = errno;
    }
    return (int)n;
}

static int bottom_write(BIO *bio, const char *data, int n)
{
    struct bottom *b = BIO_get_data(bio);
    ssize_t sent;

    BIO_clear_retry_flags(bio);
    BIO_set_retry_write(bio);
    do {
        HOOK();
        sent = send(b->fd, data, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return settle(bio, b, sent);
}

static int bottom_read(BIO *bio, char *data, int n)
{
    struct bottom *b = BIO_get_data(bio);
    ssize_t got;

    BIO_clear_retry_flags(bio);
    if (b->fed) {
        const size_t part = MIN((size_t)n, b->bytes_n);

        if (part == 0) {
            BIO_set_retry_read(bio);
            return -1;
        }
        memcpy(data, b->bytes, part);
        b->bytes += part;
        b->bytes_n -= part;
        return (int)part;
    }
    BIO_set_retry_read(bio);
    do {
        HOOK();
        got = recv(b->fd, data, (size_t)n, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    b->ended = got == 0;
    return settle(bio, b, got);
}

static long bottom_ctrl(BIO *bio, int cmd, long number, void *pointer)
{
    struct bottom *b = BIO_get_data(bio);

    switch (cmd) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return b != NULL && b->ended;
    default:
        return 0;
    }
}

static int bottom_destroy(BIO *bio)
{
    free(BIO_get_data(bio));
    BIO_set_data(bio, NULL);
    return 1;
}

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster socket");
    if (method != NULL) {
        BIO_meth_set_write(method, bottom_write);
        BIO_meth_set_read(method, bottom_read);
        BIO_meth_set_ctrl(method, bottom_ctrl);
        BIO_meth_set_destroy(method, bottom_destroy);
    }
}

BIO *tls_bio_open(int fd)
{
    pthread_once(&method_once, make_method);
    struct bottom *b = calloc(1, sizeof(*b));
    BIO *bio = method != NULL && b != NULL ? BIO_new(method) : NULL;

    if (bio == NULL) {
        free(b);
        return NULL;
    }
    b->fd = fd;
    BIO_set_data(bio, b);
    BIO_set_init(bio, 1);
    return bio;
}

void tls_bio_feed(BIO *bio, const uint8_t *bytes, size_t n)
{
    struct bottom *b = BIO_get_data(bio);

    b->fed = true;
    b->bytes = bytes;
    b->bytes_n = n;
}

int tls_bio_errno(BIO *bio)
{
    return ((struct bottom *)BIO_get_data(bio))->error;
}
