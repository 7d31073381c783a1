/* Feeds: a ring holds the items. Whoever falls behind it has a gap; whoever waits is woken. */
#include "http/feed.h"

#include <stdlib.h>
#include <string.h>

int http_feed_open(struct http *h, const struct http_feed_limits *limits,
                   struct http_feed **feed_out)
{
    struct http_feed *feed;

    mu_assert(limits->items_n > 0 && limits->bytes > 0 && h->feeds_n < HTTP_FEEDS_MAX);
    feed = calloc(1, sizeof(*feed) + (size_t)limits->items_n * sizeof(feed->ring[0]));
    if (feed == NULL) {
        return MU_ENOMEM;
    }
    feed->h = h;
    feed->limits = *limits;
    feed->first = feed->next = 1;
    h->feeds[h->feeds_n++] = feed;
    *feed_out = feed;
    return MU_OK;
}

/* Only the loop's thread writes it. */
uint64_t http_feed_next(const struct http_feed *feed)
{
    return feed->next;
}

void http_item_unref(struct http_item *item)
{
    if (item != NULL && --item->refs == 0) {
        free(item);
    }
}

bool http_item_fits(const struct http_stream *s, const struct http_item *item)
{
    return s->topic_n == 0 || item->topic_n == 0 ||
           (s->topic_n == item->topic_n && memcmp(s->topic, item->bytes, s->topic_n) == 0);
}

/* Whoever had not got so far, and would have wanted it, has a gap. */
static void drop_first(struct http_feed *feed)
{
    struct http_item **slot = &feed->ring[feed->first % feed->limits.items_n];
    struct http_stream *s;

    TAILQ_FOREACH(s, &feed->h->streams, link)
    {
        if (s->feed != feed || s->at > feed->first) {
            continue;
        }
        if (!s->gap && http_item_fits(s, *slot)) {
            s->gap = true;
            feed->h->stats.gaps_n++;
        }
        s->at = feed->first + 1;
    }
    feed->bytes -= (*slot)->topic_n + (*slot)->n;
    feed->first++;
    http_item_unref(*slot);
    *slot = NULL;
}

static void append(struct http_feed *feed, struct http_item *item)
{
    struct http_stream *s;

    feed->ring[feed->next % feed->limits.items_n] = item;
    feed->bytes += item->topic_n + item->n;
    feed->next++;
    TAILQ_FOREACH(s, &feed->h->streams, link)
    {
        if (s->feed != feed) {
            continue;
        }
        if (http_item_fits(s, item)) {
            http_stream_wake(s);
        } else if (s->waiting) {
            s->at = feed->next; /* Not its business: it sleeps on, at the end as before. */
        }
    }
    http_streams_ring(feed->h);
}

int http_feed_push(struct http_feed *feed, const char *topic, const char *text, size_t n)
{
    const size_t topic_n = strlen(topic), all = topic_n + n;
    struct http_item *item;

    if (all > feed->limits.bytes) {
        return MU_ELIMIT;
    }
    item = malloc(sizeof(*item) + all);
    if (item == NULL) {
        return MU_ENOMEM;
    }
    item->refs = 1;
    item->topic_n = (uint32_t)topic_n;
    item->n = (uint32_t)n;
    memcpy(item->bytes, topic, topic_n);
    memcpy(item->bytes + topic_n, text, n);
    pthread_mutex_lock(&feed->h->lock);
    while (feed->next - feed->first >= feed->limits.items_n ||
           feed->bytes + all > feed->limits.bytes) {
        drop_first(feed);
    }
    append(feed, item);
    pthread_mutex_unlock(&feed->h->lock);
    return MU_OK;
}

void http_feeds_close(struct http *h)
{
    for (uint32_t i = 0; i < h->feeds_n; i++) {
        struct http_feed *feed = h->feeds[i];

        while (feed->first < feed->next) {
            drop_first(feed);
        }
        free(feed);
    }
    h->feeds_n = 0;
}
