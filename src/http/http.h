/* An HTTP server in a thread of its own, which knows nothing of muster.
 *
 * That thread (libmicrohttpd's) reads a request, finds its route, checks host, origin, token and
 * size, and answers what is wrong by itself. What is right goes through a bounded queue to the
 * loop's thread, where the route's handler answers it, at once or later; the answer goes back the
 * same way. So a client that is slow, or never reads, costs the loop nothing.
 *
 * Everything below is called by the loop's thread. */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "net/net.h"

#include <uv.h>

#define HTTP_PARAMS_MAX 4
#define HTTP_CONNS_MAX 512
#define HTTP_STREAMS_MAX 320 /* of the connections */
#define HTTP_BODY_MAX (128u << 10)
#define HTTP_QUEUE_MAX 1024 /* requests that no handler has answered yet */

struct http;
struct http_request;
struct http_feed;

/* What a token is good for; each may do what those before it may. */
enum http_role { HTTP_NOBODY, HTTP_VIEWER, HTTP_OPERATOR };

/* The request is the handler's until it calls one of the http_answer… functions or http_stream(),
 * each of which ends it; then it may not be touched. */
typedef void http_handler(void *arg, struct http_request *q);

/* A path's parts are literal, or {name}: one segment, or {name...} at its end: all that is left,
 * one segment or more. Parameters are decoded; one that contains a zero byte, or a segment that
 * is empty, "." or "..", fits no route. The first that fits is taken. HEAD is answered where GET
 * is. */
struct http_route {
    const char *method;
    const char *path;
    enum http_role role;
    http_handler *handle;
    const char *doc; /* one line */
};

/* 0: as it is by default. */
struct http_limits {
    uint32_t idle_s;      /* of one who says nothing, or reads nothing: 30 */
    uint32_t request_ms;  /* for a request to arrive in full: 60,000 */
    uint32_t comment_ms;  /* between the comments of a stream: 15,000 */
    uint32_t queue_max;   /* HTTP_QUEUE_MAX */
    uint32_t streams_max; /* HTTP_STREAMS_MAX */
};

struct http_config {
    struct endpoint listen; /* port 0: any free one */
    const char *cert_file;  /* NULL: plain HTTP, and only on loopback */
    const char *key_file;
    const char *const *hosts; /* names of this server, besides localhost and IP addresses: others */
    uint32_t hosts_n;         /* in Host are refused, so that no page can rebind a name to us */
    uint8_t viewer[32];       /* the bearers, as bytes; as text 64 hex digits */
    uint8_t operator[32];
    const struct http_route *routes;
    uint32_t routes_n;
    void *arg; /* of the handlers */
    struct http_limits limits;
};

/* config is copied, and what it points to borrowed until http_close(); the files are read here.
 * MU_EREFUSED: not on loopback, and no certificate. error: NET_ERROR_MAX. After an error too the
 * loop must run until nothing is left. */
int http_open(uv_loop_t *loop, const struct http_config *config, struct http **h_out, char *error);
uint16_t http_port(const struct http *h);

/* Waits for the thread, and for at most half a second until answers have left. Requests that are
 * still with a handler must have been answered, or are answered by http_answer… afterwards, which
 * then only frees them. */
void http_close(struct http *h);

/* ---- what was asked ---- */

const char *http_param(const struct http_request *q, unsigned i);
/* Decoded; NULL if it is not there. */
const char *http_query(const struct http_request *q, const char *name);
/* By its name in any case; NULL if it is not there. Of those only that are kept: Accept, If-Match,
 * If-None-Match, Last-Event-ID, Content-Type. */
const char *http_header(const struct http_request *q, const char *name);
const void *http_body(const struct http_request *q, size_t *n_out);
enum http_role http_role(const struct http_request *q);

/* A session with the rights of this request begins: its cookie goes with the answer, and is taken
 * in place of a bearer for HTTP_SESSION_S. Ending one ends that of the request, if it came by one.
 */
#define HTTP_SESSION_S 3600
void http_session_begin(struct http_request *q);
void http_session_end(struct http_request *q);
/* True from the moment that the client is known to have gone; the request must still be answered.
 */
bool http_gone(const struct http_request *q);

/* One entry of an If-Match or If-None-Match list: `any` for *, else the text between the quotes, in
 * the list. */
struct http_etag {
    const char *text;
    size_t n;
    bool weak, any;
};

/* Takes the next entry from *at and advances it. MU_ENOENT at the end; MU_EINVAL: this is no such
 * list. "*" stands alone. */
int http_etag_next(const char **at, struct http_etag *tag_out);

/* Whether a list names `etag` (without its quotes; NULL: there is no such thing, so not even *
 * fits). If-Match compares strongly: a weak entry fits nothing; If-None-Match weakly. MU_OK,
 * MU_ENOENT: it does not; MU_EINVAL: this is no such list, which is 400, never "does not". */
int http_etag_match(const char *list, const char *etag, bool weakly);

/* For the handler to find its own things again; NULL at first. */
void http_set_data(struct http_request *q, void *data);
void *http_data(const struct http_request *q);

/* ---- answers ---- */

/* A header of the answer, copied: at most 4, the name below 64 bytes and the value below 256. Again
 * with the same name it replaces. */
void http_set_header(struct http_request *q, const char *name, const char *value);

/* `type` is copied, below 64 bytes. `body` is malloc's, n bytes, and taken over. NULL: none. */
void http_answer(struct http_request *q, unsigned status, const char *type, char *body, size_t n);

/* {"error": "…", "hint": "…"}; hint may be NULL. Any text: what JSON can't hold is replaced. */
void http_answer_error(struct http_request *q, unsigned status, const char *hint, const char *fmt,
                       ...) __attribute__((format(printf, 4, 5)));

/* ---- streams: server-sent events ----
 *
 * A feed is a ring of texts that any number of streams read, each at its own pace: a stream costs
 * a cursor, not a queue. One that falls behind the ring is told so ("event: gap") and goes on with
 * the oldest that is kept. */

struct http_feed_limits {
    uint32_t items_n;
    uint32_t bytes;
};

/* At most 8 feeds. The feed is the server's, and ends with it. */
int http_feed_open(struct http *h, const struct http_feed_limits *limits,
                   struct http_feed **feed_out);

/* `text` is a whole event as it goes out ("id: 7\nevent: joined\ndata: {…}\n\n"), copied. A stream
 * gets it if its topic is "" or the same, or if this one is "". */
int http_feed_push(struct http_feed *feed, const char *topic, const char *text, size_t n);

/* The number that the next item will have; the first is 1. */
uint64_t http_feed_next(const struct http_feed *feed);

/* Answers with a stream of the feed's items of this topic, from item number `from` on, after
 * `head` (n bytes of malloc's, taken over; NULL: nothing), which must be small or rare: it is the
 * stream's own. 503 if there are too many. A comment
 * is sent every 15 seconds, so that both sides notice when the other is gone. */
void http_stream(struct http_request *q, struct http_feed *feed, const char *topic, uint64_t from,
                 char *head, size_t n);

/* ---- for /metrics ---- */

struct http_stats {
    uint64_t requests_n[6]; /* by the first digit of the status; [0]: none was sent */
    uint64_t refused_n;     /* of these: no token, or a wrong one */
    uint64_t queued_n;      /* now */
    uint32_t conns_n, streams_n;
    uint64_t stream_items_n; /* sent */
    uint64_t gaps_n;         /* streams that fell behind */
};

void http_stats(struct http *h, struct http_stats *out);

#endif
