/* A stream's set-up: the socket's options, and TLS between two workers, whose key is made from the
 * run's and from what the handshake of hello.h agreed on, so that it fits this one connection. */
#include "link/stream.h"

#include "base/address.h"
#include "base/log.h"
#include "net/psk.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBES_N 3
#define PROBE_S 2

static bool derive_key(const struct hello_session *session, const uint8_t run_key[KEY_BYTES],
                       uint8_t key[PSK_BYTES])
{
    static const char label[] = "muster data tls 1";
    uint8_t words[sizeof(label) + HELLO_NONCE_BYTES];
    size_t n = 0;

    memcpy(words, label, sizeof(label));
    memcpy(words + sizeof(label), session->id, HELLO_NONCE_BYTES);
    return EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, run_key, KEY_BYTES, words, sizeof(words),
                     key, PSK_BYTES, &n) != NULL &&
           n == PSK_BYTES;
}

static int open_tls(struct stream *s, const struct hello_session *session,
                    const uint8_t run_key[KEY_BYTES])
{
    const bool dialed = session->dialed;
    struct stream_tls *tls = calloc(1, sizeof(*tls));
    uint8_t key[PSK_BYTES];
    SSL_CTX *ctx = NULL;

    s->tls = tls;
    if (tls != NULL && derive_key(session, run_key, key)) {
        ctx = psk_open(!dialed, "muster-data-1", key);
    }
    OPENSSL_cleanse(key, sizeof(key));
    if (ctx != NULL) {
        SSL_CTX_set_read_ahead(ctx, 1);
        SSL_CTX_set_default_read_buffer_len(ctx, 4 * STREAM_RECORD);
        tls->ssl = psk_session(ctx, s->fd);
        tls->wants = dialed ? POLLOUT : POLLIN;
        SSL_CTX_free(ctx); /* The session keeps it. */
    }
    ERR_clear_error();
    return tls != NULL && tls->ssl != NULL ? MU_OK : MU_ENOMEM;
}

/* A host that is gone says nothing. While nothing is under way probes find out, the first of which
 * is sent when there is still time for all of them; while something is, link_stream_is_silent()
 * does. TCP_USER_TIMEOUT would not do: it also ends a connection to a live worker that does not
 * read for that long, because it computes. */
static void set_options(int fd)
{
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, STREAM_SILENCE_S - PROBES_N * PROBE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S},
        {IPPROTO_TCP, TCP_KEEPCNT, PROBES_N},
    };
    const char *congestion = getenv("MUSTER_TCP_CONGESTION");

    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    }
    if (congestion != NULL && congestion[0] != '\0' &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion)) !=
            0) {
        log_warn("link",
                 "MUSTER_TCP_CONGESTION=%s: %s; the system's is used (sysctl "
                 "net.ipv4.tcp_available_congestion_control lists what there is)",
                 congestion, strerror(errno));
    }
}

static bool is_tcp(int fd)
{
    int domain = AF_UNIX;
    socklen_t n = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain != AF_UNIX;
}

int link_stream_open(struct stream *s, int fd, const struct hello_session *session,
                     const uint8_t key[KEY_BYTES])
{
    *s = (struct stream){.fd = fd};
    if (key != NULL && open_tls(s, session, key) != MU_OK) {
        link_stream_close(s);
        return MU_ENOMEM;
    }
    if (is_tcp(fd)) {
        set_options(fd);
    }
    return MU_OK;
}

void link_stream_close(struct stream *s)
{
    if (s->tls != NULL) {
        SSL_free(s->tls->ssl);
        OPENSSL_cleanse(s->tls, sizeof(*s->tls)); /* It may hold a record in the clear. */
        free(s->tls);
        s->tls = NULL;
    }
}

short link_stream_events(const struct stream *s, short events)
{
    return events != 0 && s->tls != NULL && !s->tls->proved ? s->tls->wants : events;
}

bool link_stream_is_silent(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);

    /* Sent again and again, or asked whether there is room: and no answer. */
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 &&
           (info.tcpi_retransmits > 1 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv > STREAM_SILENCE_S * 1000;
}

void link_stream_print(const struct stream *s, char *text, size_t cap)
{
    struct address a = {.n = sizeof(struct sockaddr_un)};
    char where[ADDR_MAX_LEN] = "?";

    if (getpeername(s->fd, &a.sa, &a.n) == 0) {
        address_print(&a.sa, where, sizeof(where));
    }
    snprintf(text, cap, "%s %s", s->tls != NULL ? "tcp+tls" : "tcp", where);
}
