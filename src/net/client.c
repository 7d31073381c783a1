/* Blocking, with deadlines, over the same sessions and the same inbox as the loop's connections. */
#include "net/client.h"

#include "net/inbox.h"
#include "net/socket.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDRESSES_MAX 8u
#define SAY_MS 30000u /* until the other side must have read it */

struct client {
    int fd;
    struct tls *tls;
    SSL *ssl;
    char peer[64];
    struct intake in;
};

/* UINT64_MAX: never. */
static uint64_t deadline(uint32_t wait_ms)
{
    return wait_ms == 0 ? UINT64_MAX : net_now_ms() + wait_ms;
}

static int wait_for(int fd, short events, uint64_t end_ms)
{
    for (;;) {
        const uint64_t now_ms = net_now_ms();
        struct pollfd p = {.fd = fd, .events = events};

        if (now_ms >= end_ms) {
            return MU_ETIMEDOUT;
        }
        const int rc = poll(&p, 1, end_ms == UINT64_MAX ? -1 : (int)MIN(end_ms - now_ms, 60000u));

        if (rc > 0) {
            return MU_OK;
        }
        if (rc < 0 && errno != EINTR) {
            return MU_EIO;
        }
    }
}

/* After a call on the session that returned rc: MU_OK to call it again. */
static int wait_session(struct client *cl, int rc, uint64_t end_ms, char *error)
{
    char why[NET_ERROR_MAX / 2];
    int status;

    switch (SSL_get_error(cl->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        status = wait_for(cl->fd, POLLIN, end_ms);
        break;
    case SSL_ERROR_WANT_WRITE:
        status = wait_for(cl->fd, POLLOUT, end_ms);
        break;
    default:
        status = tls_why(cl->ssl, rc, why, sizeof(why));
        snprintf(error, NET_ERROR_MAX, "%s: %s", cl->peer, why);
        return status == MU_OK ? MU_EIO : status;
    }
    if (status != MU_OK) {
        snprintf(error, NET_ERROR_MAX, "%s: %s", cl->peer,
                 status == MU_ETIMEDOUT ? "no answer in time" : strerror(errno));
    }
    return status;
}

static int shake(struct client *cl, uint64_t end_ms, char *error)
{
    int rc = MU_OK;

    cl->ssl = tls_session(cl->tls, cl->fd);
    if (cl->ssl == NULL) {
        snprintf(error, NET_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    while (rc == MU_OK) {
        ERR_clear_error();
        const int done = SSL_do_handshake(cl->ssl);

        if (done == 1) {
            break;
        }
        rc = wait_session(cl, done, end_ms, error);
    }
    if (rc == MU_OK && !tls_proved(cl->ssl)) {
        snprintf(error, NET_ERROR_MAX, "%s: the other side did not prove that it knows the token",
                 cl->peer);
        rc = MU_EREFUSED;
    }
    return rc;
}

static void hang_up(struct client *cl)
{
    SSL_free(cl->ssl);
    cl->ssl = NULL;
    if (cl->fd >= 0) {
        close(cl->fd);
        cl->fd = -1;
    }
}

static int try_address(struct client *cl, const struct sockaddr *sa, socklen_t n, uint64_t end_ms,
                       char *error)
{
    address_print(sa, cl->peer, sizeof(cl->peer));
    int failed = socket_dial(sa, n, &cl->fd);

    if (failed == 0) {
        const uint64_t connect_end_ms = MIN(end_ms, net_now_ms() + SOCKET_CONNECT_MS);
        const int rc = wait_for(cl->fd, POLLOUT, connect_end_ms);

        failed = rc == MU_OK ? socket_outcome(cl->fd) : rc == MU_ETIMEDOUT ? ETIMEDOUT : errno;
    }
    if (failed != 0) {
        snprintf(error, NET_ERROR_MAX, "%s: %s", cl->peer, socket_why(failed));
        hang_up(cl);
        return failed == ETIMEDOUT ? MU_ETIMEDOUT : MU_EIO;
    }
    int rc = shake(cl, end_ms, error);

    if (rc != MU_OK) {
        hang_up(cl);
    }
    return rc;
}

static int try_endpoint(struct client *cl, const struct endpoint *e, uint64_t end_ms, char *error)
{
    struct sockaddr_storage addrs[ADDRESSES_MAX];
    socklen_t len[ADDRESSES_MAX];
    uint32_t n = 0;
    int rc = endpoint_resolve(e, addrs, len, ADDRESSES_MAX, &n, error);

    if (rc != MU_OK) {
        return rc;
    }
    rc = MU_EIO;
    for (uint32_t i = 0; i < n; i++) {
        rc = try_address(cl, (const struct sockaddr *)&addrs[i], len[i], end_ms, error);
        if (rc == MU_OK || rc == MU_EREFUSED) {
            break;
        }
    }
    return rc;
}

/* The reasons of all endpoints, one after the other; cut at the end. */
static void append(char *all, const char *one)
{
    const size_t n = strlen(all), one_n = strnlen(one, NET_ERROR_MAX - 1 - n);

    memcpy(all + n, one, one_n);
    all[n + one_n] = '\0';
}

int client_open(const struct endpoints *to, const struct token *token, uint32_t wait_ms,
                struct client **cl_out, char *error)
{
    const uint64_t end_ms = deadline(wait_ms);
    struct client *cl = calloc(1, sizeof(*cl));
    char all[NET_ERROR_MAX] = "", why[NET_ERROR_MAX];
    int rc = MU_ENOMEM, status = MU_EINVAL;

    if (cl == NULL) {
        snprintf(error, NET_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    cl->fd = -1;
    rc = tls_client_open(token, &cl->tls, error);
    if (rc != MU_OK) {
        free(cl);
        return rc;
    }
    for (uint32_t i = 0; i < to->n; i++) {
        rc = try_endpoint(cl, &to->at[i], end_ms, why);
        if (rc == MU_OK) {
            *cl_out = cl;
            return MU_OK;
        }
        status = status == MU_EREFUSED ? status : rc;
        append(all, all[0] != '\0' ? "; " : "");
        append(all, why);
    }
    snprintf(error, NET_ERROR_MAX, "%s", to->n > 0 ? all : "no address to connect to");
    client_close(cl);
    return status;
}

int client_say(struct client *cl, enum wire_type type, const void *msg, uint64_t request,
               char *error)
{
    const uint64_t end_ms = deadline(SAY_MS);
    struct frame *f = frame_make(type, msg, 0, request);
    size_t at = 0;
    int rc = MU_OK;

    if (f == NULL) {
        snprintf(error, NET_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    while (rc == MU_OK && at < f->n) {
        ERR_clear_error();
        const int sent = SSL_write(cl->ssl, f->bytes + at, (int)MIN(f->n - at, 16384u));

        if (sent > 0) {
            at += (size_t)sent;
        } else {
            rc = wait_session(cl, sent, end_ms, error);
        }
    }
    frame_unref(f);
    return rc;
}

static int fill(struct client *cl, uint64_t end_ms, char *error)
{
    for (;;) {
        ERR_clear_error();
        const int n = SSL_read(cl->ssl, cl->in.bytes, sizeof(cl->in.bytes));

        if (n > 0) {
            intake_filled(&cl->in, (size_t)n);
            return MU_OK;
        }
        int rc = wait_session(cl, n, end_ms, error);

        if (rc != MU_OK) {
            return rc;
        }
    }
}

int client_next(struct client *cl, uint32_t wait_ms, struct wire_header *h_out,
                const union wire_any **msg_out, char *error)
{
    const uint64_t end_ms = deadline(wait_ms);
    struct wire_fault fault = {0};
    int rc;

    while ((rc = intake_next(&cl->in, h_out, &fault)) == MU_EAGAIN) {
        rc = fill(cl, end_ms, error);
        if (rc != MU_OK) {
            return rc;
        }
    }
    if (rc != MU_OK) {
        snprintf(error, NET_ERROR_MAX, "%s: %s", cl->peer, fault.text);
        return rc;
    }
    *msg_out = &cl->in.desk.msg;
    return MU_OK;
}

void client_close(struct client *cl)
{
    if (cl == NULL) {
        return;
    }
    if (cl->ssl != NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(cl->ssl);
    }
    hang_up(cl);
    ERR_clear_error();
    tls_close(cl->tls);
    intake_close(&cl->in);
    free(cl);
}
