/* Streams. A stream holds its place in the ring, and the one item that it is in the middle of,
 * which may have left the ring meanwhile. One that has sent all there is waits: its connection is
 * suspended until there is more. A reader that does not read blocks in its socket, and
 * libmicrohttpd's timeout ends it. */
#include "http/feed.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 4096u
#define SOCKET_BYTES (64 << 10) /* or the kernel keeps megabytes for one who never reads */

static const char gap_text[] = "event: gap\ndata: {}\n\n";
static const char comment_text[] = ":\n\n";

/* ---- waking ----
 *
 * To wake a connection is a system call. The loop spends one of them on one stream, the bell, and
 * the server's thread, which that wakes, sees to the others. Until it is woken, a stream's
 * connection stays suspended, so it can't go away. All with the lock. */

void http_stream_wake(struct http_stream *s)
{
    if (s->waiting) {
        s->waiting = false;
        TAILQ_INSERT_TAIL(&s->h->waking, s, waking);
    }
}

static struct http_stream *next_waking(struct http *h)
{
    struct http_stream *s = TAILQ_FIRST(&h->waking);

    if (s != NULL) {
        TAILQ_REMOVE(&h->waking, s, waking);
    }
    return s;
}

void http_streams_ring(struct http *h)
{
    struct http_stream *s = h->ringing ? NULL : next_waking(h);

    if (s != NULL) {
        h->ringing = true;
        MHD_resume_connection(s->mhd);
    }
}

/* In the server's thread. The lock is let go between, for the loop not to wait for all of them. */
static void spread(struct http *h)
{
    struct http_stream *s;

    while ((s = next_waking(h)) != NULL) {
        pthread_mutex_unlock(&h->lock);
        MHD_resume_connection(s->mhd);
        pthread_mutex_lock(&h->lock);
    }
    h->ringing = false;
}

/* ---- what a stream sends, in the server's thread ---- */

static bool is_gone(const struct http_stream *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static bool take_item(struct http_stream *s)
{
    struct http_feed *feed = s->feed;

    while (s->at < feed->next) {
        struct http_item *item = feed->ring[s->at++ % feed->limits.items_n];

        if (http_item_fits(s, item)) {
            item->refs++;
            s->item = item;
            s->piece = item->bytes + item->topic_n;
            s->piece_n = item->n;
            return true;
        }
    }
    return false;
}

/* Finds what is to be sent next. A gap comes before what follows it. */
static bool take_piece(struct http_stream *s)
{
    if (s->gap) {
        s->gap = false;
        s->piece = gap_text;
        s->piece_n = strlen(gap_text);
        return true;
    }
    if (take_item(s)) {
        return true;
    }
    if (s->comment) {
        s->comment = false;
        s->piece = comment_text;
        s->piece_n = strlen(comment_text);
        return true;
    }
    return false;
}

static size_t fill(struct http_stream *s, char *buf, size_t max)
{
    size_t n = 0;

    while (n < max && (s->piece != NULL || take_piece(s))) {
        const size_t part = MIN(max - n, s->piece_n);

        memcpy(buf + n, s->piece, part);
        n += part;
        s->piece += part;
        s->piece_n -= part;
        if (s->piece_n > 0) {
            break;
        }
        s->piece = NULL;
        s->h->stats.stream_items_n += s->item != NULL;
        http_item_unref(s->item);
        s->item = NULL;
        free(s->head);
        s->head = NULL;
    }
    return n;
}

static ssize_t on_read(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct http_stream *s = cls;
    struct http *h = s->h;
    ssize_t n;

    pthread_mutex_lock(&h->lock);
    spread(h);
    if (h->closing) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (s->comment && is_gone(s)) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else {
        n = (ssize_t)fill(s, buf, max);
        if (n == 0) {
            s->waiting = true;
            MHD_suspend_connection(s->mhd);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return n;
}

void http_stream_free(struct http_stream *s)
{
    struct http *h = s->h;

    pthread_mutex_lock(&h->lock);
    spread(h); /* It may have been the bell. */
    mu_assert(!s->waiting);
    TAILQ_REMOVE(&h->streams, s, link);
    h->stats.streams_n--;
    http_item_unref(s->item);
    pthread_mutex_unlock(&h->lock);
    free(s->head);
    free(s->topic);
    free(s);
}

static void on_free(void *cls)
{
    http_stream_free(cls);
}

struct MHD_Response *http_stream_response(struct http_request *q)
{
    const int bytes = SOCKET_BYTES;
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                                                      on_read, q->stream, on_free);

    if (response != NULL) {
        (void)setsockopt(q->conn->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
        (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
        q->stream = NULL;
    }
    return response;
}

/* ---- streams, in the loop's thread ---- */

static struct http_stream *stream_new(struct http_request *q, struct http_feed *feed,
                                      const char *topic, char *head, size_t n)
{
    struct http_stream *s = calloc(1, sizeof(*s));

    if (s == NULL || (s->topic = strdup(topic)) == NULL) {
        free(s);
        return NULL;
    }
    s->topic_n = strlen(topic);
    s->h = q->h;
    s->feed = feed;
    s->mhd = q->mhd;
    s->fd = q->conn->fd;
    s->comment = true; /* Its first bytes, so that the headers leave at once. */
    s->head = head;
    if (head != NULL && n > 0) {
        s->piece = head;
        s->piece_n = n;
    }
    return s;
}

static void stream_enter(struct http_stream *s, uint64_t from)
{
    struct http *h = s->h;

    pthread_mutex_lock(&h->lock);
    s->at = MIN(MAX(from, s->feed->first), s->feed->next);
    if (MAX(from, 1) < s->feed->first) {
        s->gap = true;
        h->stats.gaps_n++;
    }
    TAILQ_INSERT_TAIL(&h->streams, s, link);
    h->stats.streams_n++;
    pthread_mutex_unlock(&h->lock);
}

static bool has_room(struct http *h)
{
    pthread_mutex_lock(&h->lock);
    const bool room = h->stats.streams_n < h->limits.streams_max;

    pthread_mutex_unlock(&h->lock);
    return room;
}

void http_stream(struct http_request *q, struct http_feed *feed, const char *topic, uint64_t from,
                 char *head, size_t n)
{
    struct http_stream *s;

    if (q->h == NULL || q->is_head) {
        free(head);
        http_answer(q, MHD_HTTP_OK, "text/event-stream", NULL, 0);
        return;
    }
    if (!has_room(q->h)) {
        free(head);
        http_set_header(q, MHD_HTTP_HEADER_RETRY_AFTER, "15");
        http_answer_error(q, MHD_HTTP_SERVICE_UNAVAILABLE, "close some, or ask without a stream",
                          "there are as many streams as are allowed, %u", q->h->limits.streams_max);
        return;
    }
    s = stream_new(q, feed, topic, head, n);
    if (s == NULL) {
        free(head);
        http_answer_error(q, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
        return;
    }
    stream_enter(s, from);
    q->stream = s;
    q->status = MHD_HTTP_OK;
    http_set_type(q, "text/event-stream");
    http_hand_back(q);
}

void http_streams_comment(struct http *h)
{
    struct http_stream *s;

    pthread_mutex_lock(&h->lock);
    TAILQ_FOREACH(s, &h->streams, link)
    {
        if (s->waiting) {
            s->comment = true;
            http_stream_wake(s);
        }
    }
    http_streams_ring(h);
    pthread_mutex_unlock(&h->lock);
}

void http_streams_end(struct http *h)
{
    struct http_stream *s;

    TAILQ_FOREACH(s, &h->streams, link)
    {
        http_stream_wake(s);
    }
    while ((s = next_waking(h)) != NULL) {
        MHD_resume_connection(s->mhd);
    }
}
