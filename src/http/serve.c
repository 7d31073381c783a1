/* A request as it arrives, in the server's thread. One that is refused is still read, within
 * bounds, so that its client gets to read the answer; the body is dropped on the way. */
#include "http/state.h"

#include "net/socket.h"

#include <stdlib.h>
#include <string.h>

#define CONNS_CALM (HTTP_CONNS_MAX - 32) /* the rest is for those who are just coming */
#define DROP_MAX (1u << 20)              /* of a refused body; whoever sends more is cut off */

/* ---- connections ---- */

/* Whoever comes finds room, a probe of health among them: beyond CONNS_CALM the one goes that has
 * asked for nothing for longest. Under the lock. */
static void make_room(struct http *h)
{
    struct http_conn *c, *longest = NULL;
    uint32_t n = 0;

    TAILQ_FOREACH(c, &h->conns, link)
    {
        n += !c->shed;
        if (!c->shed && c->since_ms != 0 && (longest == NULL || c->since_ms < longest->since_ms)) {
            longest = c;
        }
    }
    if (n >= CONNS_CALM && longest != NULL) {
        longest->shed = true;
        (void)shutdown(longest->fd, SHUT_RDWR);
    }
}

void http_on_connection(void *cls, struct MHD_Connection *mhd, void **conn_ptr,
                        enum MHD_ConnectionNotificationCode what)
{
    struct http *h = cls;
    struct http_conn *c = *conn_ptr;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

        c = calloc(1, sizeof(*c));
        if (c == NULL || info == NULL) {
            free(c);
            return; /* Its requests are refused. */
        }
        c->fd = info->connect_fd;
        c->since_ms = net_now_ms();
        socket_tune(c->fd);
        *conn_ptr = c;
        pthread_mutex_lock(&h->lock);
        make_room(h);
        TAILQ_INSERT_TAIL(&h->conns, c, link);
        h->stats.conns_n++;
        pthread_mutex_unlock(&h->lock);
    } else if (c != NULL) {
        pthread_mutex_lock(&h->lock);
        TAILQ_REMOVE(&h->conns, c, link);
        h->stats.conns_n--;
        pthread_mutex_unlock(&h->lock);
        free(c);
        *conn_ptr = NULL;
    }
}

/* libmicrohttpd's own limit is for silence; one who sends a byte now and then is never silent. The
 * file is open for as long as the connection is on the list. */
void http_conns_sweep(struct http *h, uint64_t now_ms)
{
    struct http_conn *c;

    pthread_mutex_lock(&h->lock);
    TAILQ_FOREACH(c, &h->conns, link)
    {
        if (c->since_ms != 0 && now_ms - c->since_ms > h->limits.request_ms) {
            (void)shutdown(c->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&h->lock);
}

/* ---- requests ---- */

void *http_on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_request *q = calloc(1, sizeof(*q));

    if (q == NULL || info == NULL || info->socket_context == NULL) {
        free(q);
        return NULL;
    }
    q->h = cls;
    q->mhd = mhd;
    q->conn = info->socket_context;
    q->target = strdup(target);
    q->text = malloc(strlen(target) + 1);
    if (q->target == NULL || q->text == NULL) {
        http_request_free(q);
        return NULL;
    }
    return q;
}

static bool wants_go_ahead(struct http_request *q)
{
    return MHD_lookup_connection_value(q->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) != NULL;
}

static bool is_huge(struct http_request *q)
{
    const char *length =
        MHD_lookup_connection_value(q->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return length != NULL && strtoull(length, NULL, 10) > DROP_MAX;
}

static enum MHD_Result begin(struct http_request *q, const char *method)
{
    q->begun = true;
    http_check(q, method);
    /* An answer before the body closes the connection. */
    if (q->status != 0 && (wants_go_ahead(q) || is_huge(q))) {
        return http_send(q);
    }
    return MHD_YES;
}

static void refuse_body(struct http_request *q, unsigned status, const char *why)
{
    free(q->body);
    q->body = NULL;
    q->body_n = 0;
    http_put_error(q, status, NULL, "%s", why);
}

/* Grows with what has arrived, never by what a header claims. */
static void take_body(struct http_request *q, const char *data, size_t n)
{
    if (q->body_n + n > HTTP_BODY_MAX) {
        refuse_body(q, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large; 131072 bytes at most");
        return;
    }
    if (q->body_n + n > q->body_cap) {
        const size_t cap = MAX(q->body_n + n, MIN(2 * q->body_cap, (size_t)HTTP_BODY_MAX));
        char *grown = realloc(q->body, cap);

        if (grown == NULL) {
            refuse_body(q, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
            return;
        }
        q->body = grown;
        q->body_cap = cap;
    }
    memcpy(q->body + q->body_n, data, n);
    q->body_n += n;
}

static enum MHD_Result on_body(struct http_request *q, const char *data, size_t n)
{
    if (q->status == 0) {
        take_body(q, data, n);
        return MHD_YES;
    }
    q->dropped_n += n;
    return q->dropped_n <= DROP_MAX ? MHD_YES : MHD_NO;
}

/* It is whole: into the queue. */
static enum MHD_Result submit(struct http_request *q)
{
    struct http *h = q->h;

    pthread_mutex_lock(&h->lock);
    const bool full = h->unanswered_n >= h->limits.queue_max;

    if (h->closing) {
        pthread_mutex_unlock(&h->lock);
        return MHD_NO;
    }
    if (!full) {
        /* Before anybody can wake it. */
        MHD_suspend_connection(q->mhd);
        q->phase = HTTP_WAITING;
        q->conn->since_ms = 0;
        TAILQ_INSERT_TAIL(&h->queue, q, link);
        h->unanswered_n++;
        uv_async_send(&h->wake);
    }
    pthread_mutex_unlock(&h->lock);
    if (full) {
        http_put_error(q, MHD_HTTP_SERVICE_UNAVAILABLE, NULL,
                       "too many requests wait for an answer");
        http_set_header(q, MHD_HTTP_HEADER_RETRY_AFTER, "1");
        return http_send(q);
    }
    return MHD_YES;
}

enum MHD_Result http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *data_n, void **q_ptr)
{
    struct http *h = cls;
    struct http_request *q = *q_ptr;

    if (q == NULL) {
        return MHD_NO; /* out of memory */
    }
    if (!q->begun) {
        return begin(q, method);
    }
    if (*data_n > 0) {
        const size_t n = *data_n;

        *data_n = 0;
        return on_body(q, data, n);
    }
    pthread_mutex_lock(&h->lock);
    const enum http_phase phase = q->phase;

    pthread_mutex_unlock(&h->lock);
    if (phase == HTTP_WAITING) {
        return MHD_NO; /* It was woken because the server closes. */
    }
    return q->status != 0 ? http_send(q) : submit(q);
}

void http_on_completed(void *cls, struct MHD_Connection *mhd, void **q_ptr,
                       enum MHD_RequestTerminationCode why)
{
    struct http *h = cls;
    struct http_request *q = *q_ptr;

    *q_ptr = NULL;
    if (q == NULL) {
        return;
    }
    pthread_mutex_lock(&h->lock);
    const bool is_loops = q->phase == HTTP_WAITING;

    q->conn->since_ms = net_now_ms();
    if (!q->sent) {
        h->stats.requests_n[0]++;
    }
    if (q->phase == HTTP_ANSWERED && --h->sending_n == 0) {
        pthread_cond_signal(&h->calm);
    }
    pthread_mutex_unlock(&h->lock);
    if (!is_loops) { /* Otherwise http_close() sees to it. */
        http_request_free(q);
    }
}
