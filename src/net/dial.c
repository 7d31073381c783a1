/* Connecting: endpoints in order, each address of each, until one opens. All reasons are kept for
 * the one message that tells why none did. */
#include "net/conn_state.h"

#include "net/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOKUP_MS 5000u
#define ADDRESSES_MAX 8u

/* Apart from the dial: a resolver that is at work can't be stopped, only left. */
struct lookup {
    uv_getaddrinfo_t req;
    struct conn *c; /* NULL: nobody waits for it */
};

struct dial {
    struct endpoints to;
    uint32_t to_at;
    struct sockaddr_storage addrs[ADDRESSES_MAX];
    socklen_t addrs_len[ADDRESSES_MAX];
    uint32_t addrs_n, addrs_at;
    struct lookup *lookup;
    int status;
    char why[NET_ERROR_MAX];
};

/* A wrong token matters more than another protocol, and that more than silence. */
static int weight(int status)
{
    return status == MU_EREFUSED ? 3 : status == MU_EPROTO || status == MU_EVERSION ? 2 : 1;
}

static void note(struct dial *d, const char *where, int status, const char *why)
{
    const size_t n = strlen(d->why);

    snprintf(d->why + n, sizeof(d->why) - n, "%s%s: %s", n > 0 ? "; " : "", where, why);
    if (d->status == MU_OK || weight(status) >= weight(d->status)) {
        d->status = status;
    }
}

static void abandon(struct dial *d)
{
    if (d->lookup != NULL) {
        d->lookup->c = NULL;
        (void)uv_cancel((uv_req_t *)&d->lookup->req);
        d->lookup = NULL;
    }
}

static void on_looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct lookup *look = req->data;
    struct conn *c = look->c;

    free(look);
    if (c != NULL) {
        struct dial *d = c->dial;
        const char *host = d->to.at[d->to_at - 1].host;

        d->lookup = NULL;
        for (const struct addrinfo *a = list; a != NULL && d->addrs_n < ADDRESSES_MAX;
             a = a->ai_next) {
            memcpy(&d->addrs[d->addrs_n], a->ai_addr, a->ai_addrlen);
            d->addrs_len[d->addrs_n++] = a->ai_addrlen;
        }
        if (status != 0) {
            char why[256];

            snprintf(why, sizeof(why),
                     "the name was not found (%s); check the spelling, or give its address",
                     uv_strerror(status));
            note(d, host, MU_EIO, why);
        }
        dial_next(c);
    }
    uv_freeaddrinfo(list);
}

static int look_up(struct conn *c, const struct endpoint *e)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct lookup *look = calloc(1, sizeof(*look));
    char port[8];

    if (look == NULL) {
        return MU_ENOMEM;
    }
    look->c = c;
    look->req.data = look;
    hints.ai_flags = AI_NUMERICSERV;
    snprintf(port, sizeof(port), "%u", (unsigned)e->port);
    if (uv_getaddrinfo(c->hub->loop, &look->req, on_looked_up, e->host, port, &hints) != 0) {
        free(look);
        return MU_ENOMEM;
    }
    c->dial->lookup = look;
    c->state = CONN_DIALING;
    conn_arm(c, LOOKUP_MS);
    return MU_OK;
}

/* Whether something is under way. */
static bool next_endpoint(struct conn *c)
{
    struct dial *d = c->dial;
    const struct endpoint *e = &d->to.at[d->to_at++];
    struct in_addr v4;
    struct in6_addr v6;
    char unused[NET_ERROR_MAX];

    d->addrs_n = d->addrs_at = 0;
    if (inet_pton(AF_INET, e->host, &v4) == 1 || inet_pton(AF_INET6, e->host, &v6) == 1) {
        /* Never blocks: there is no name in it. */
        (void)endpoint_resolve(e, d->addrs, d->addrs_len, ADDRESSES_MAX, &d->addrs_n, unused);
        return false;
    }
    if (look_up(c, e) != MU_OK) {
        note(d, e->host, MU_ENOMEM, mu_strerror(MU_ENOMEM));
        return false;
    }
    return true;
}

static bool next_address(struct conn *c)
{
    struct dial *d = c->dial;
    const struct sockaddr *sa = (const struct sockaddr *)&d->addrs[d->addrs_at];
    int fd = -1, error = socket_dial(sa, d->addrs_len[d->addrs_at], &fd);

    address_print(sa, c->peer, sizeof(c->peer));
    d->addrs_at++;
    if (error != 0) {
        note(d, c->peer, MU_EIO, socket_why(error));
        return false;
    }
    if (conn_attach(c, fd) != MU_OK) {
        close(fd);
        note(d, c->peer, MU_ENOMEM, mu_strerror(MU_ENOMEM));
        return false;
    }
    conn_arm(c, SOCKET_CONNECT_MS);
    return true;
}

void dial_next(struct conn *c)
{
    struct dial *d = c->dial;

    if (d->lookup != NULL) {
        abandon(d);
        note(d, d->to.at[d->to_at - 1].host, MU_ETIMEDOUT,
             "the name was not found in time; is the name server reachable?");
    }
    for (;;) {
        if (d->addrs_at < d->addrs_n) {
            if (next_address(c)) {
                return;
            }
        } else if (d->to_at == d->to.n) {
            char why[NET_ERROR_MAX];

            memcpy(why, d->why, sizeof(why)); /* The dial is freed before the callback. */
            conn_end(c, d->status, why);
            return;
        } else if (next_endpoint(c)) {
            return;
        }
    }
}

void dial_failed(struct conn *c, int status, const char *why)
{
    note(c->dial, conn_peer(c), status == MU_OK ? MU_EIO : status, why);
    conn_detach(c);
    c->spoke = false;
    dial_next(c);
}

void dial_free(struct conn *c)
{
    if (c->dial != NULL) {
        abandon(c->dial);
        free(c->dial);
        c->dial = NULL;
    }
}

int conn_connect(uv_loop_t *loop, const struct endpoints *to, struct tls *tls,
                 const struct conn_handler *handler, const struct conn_limits *limits, void *data,
                 struct conn **c_out)
{
    struct dial *d = calloc(1, sizeof(*d));
    struct conn *c;

    mu_assert(to->n > 0 && to->n <= ENDPOINTS_MAX);
    if (d == NULL || conn_make(loop, tls, false, handler, limits, data, &c) != MU_OK) {
        free(d);
        return MU_ENOMEM;
    }
    d->to = *to;
    c->dial = d;
    c->state = CONN_DIALING;
    endpoint_print(&to->at[0], c->peer, sizeof(c->peer));
    conn_arm(c, 0); /* From the loop, so that no callback comes before this returns. */
    *c_out = c;
    return MU_OK;
}
