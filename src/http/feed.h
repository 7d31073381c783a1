/* A feed's ring, and the streams that read it. All of it is guarded by http.lock. */
#ifndef HTTP_FEED_H
#define HTTP_FEED_H

#include "http/state.h"

struct http_item {
    uint32_t refs;
    uint32_t topic_n, n;
    char bytes[]; /* topic, text */
};

struct http_feed {
    struct http *h;
    struct http_feed_limits limits;
    uint64_t first, next; /* numbers; equal: it is empty */
    uint64_t bytes;
    struct http_item *ring[]; /* number n is at n % items_n */
};

struct http_stream {
    struct http *h;
    TAILQ_ENTRY(http_stream) link;
    TAILQ_ENTRY(http_stream) waking;
    struct http_feed *feed;
    struct MHD_Connection *mhd;
    int fd;
    char *topic;
    size_t topic_n;
    uint64_t at; /* the next item to look at */
    bool waiting;
    bool gap, comment; /* to be sent when this piece is done */
    char *head;        /* its own, first */
    const char *piece; /* being sent; NULL: none */
    size_t piece_n;
    struct http_item *item; /* of which the piece is, or NULL */
};

/* Whether the item is one for this stream. */
bool http_item_fits(const struct http_stream *s, const struct http_item *item);
void http_item_unref(struct http_item *item);

/* A stream has something to send. Then, once for all of them, http_streams_ring(). */
void http_stream_wake(struct http_stream *s);
void http_streams_ring(struct http *h);

#endif
