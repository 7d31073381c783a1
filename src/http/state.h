/* The server from inside. Two threads: the loop's, and the server's (libmicrohttpd's).
 *
 * A request is the server's thread's until it is in the queue, the loop's until it is answered, and
 * the server's again until it is sent. While it is the loop's, its connection is suspended, so it
 * can't go away; only http_close() ends that. What both threads touch is guarded by http.lock,
 * under which nothing is called that waits. */
#ifndef HTTP_STATE_H
#define HTTP_STATE_H

#include "base/log.h"
#include "http/parse.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#define HTTP_SET_MAX 4
#define HTTP_NAME_MAX 64
#define HTTP_VALUE_MAX 256
#define HTTP_FEEDS_MAX 8
#define HTTP_KEPT_N 5

#define HTTP_SESSIONS_MAX 64
#define HTTP_SESSION_BYTES 32

struct http_session {
    uint8_t id[HTTP_SESSION_BYTES];
    enum http_role role;
    uint64_t until_ms; /* 0: there is none */
};

/* One TCP connection. Guarded. */
struct http_conn {
    TAILQ_ENTRY(http_conn) link;
    int fd;
    uint64_t since_ms; /* of waiting for a whole request; 0: there is one */
    bool shed;         /* it was cut off, to make room */
};
TAILQ_HEAD(http_conns, http_conn);

enum http_phase {
    HTTP_READING,
    HTTP_WAITING,  /* the loop's */
    HTTP_ANSWERED, /* the server's again */
};

struct http_stream;

struct http_request {
    struct http *h; /* NULL: it has closed; the loop's thread sets it */
    struct MHD_Connection *mhd;
    struct http_conn *conn;
    TAILQ_ENTRY(http_request) link; /* in the queue, or with its handler */
    enum http_phase phase;          /* guarded */
    bool begun, is_head, no_memory;
    uint32_t hosts_n;
    enum http_role role;
    bool by_session; /* its role comes from its cookie, which is this */
    uint8_t session[HTTP_SESSION_BYTES];
    const struct http_route *route;
    char *target; /* as it came, cut at its '?' */
    char *text;   /* decoded parameters */
    const char *params[HTTP_PARAMS_MAX];
    struct http_pair pairs[HTTP_PAIRS_MAX];
    uint32_t pairs_n;
    char *kept[HTTP_KEPT_N]; /* headers */
    char *body;
    size_t body_n, body_cap;
    size_t dropped_n; /* of a body that nobody wants */
    void *data;

    /* The answer. status 0: none yet. */
    unsigned status;
    bool sent;                /* handed to libmicrohttpd */
    char type[HTTP_NAME_MAX]; /* "": none */
    char *answer;
    size_t answer_n;
    struct http_stream *stream; /* until it is handed to libmicrohttpd */
    struct {
        char name[HTTP_NAME_MAX];
        char value[HTTP_VALUE_MAX];
    } set[HTTP_SET_MAX];
    uint32_t set_n;
};
TAILQ_HEAD(http_requests, http_request);

struct http_feed;
TAILQ_HEAD(http_streams, http_stream);

struct http {
    uv_loop_t *loop;
    uv_async_t wake;
    uv_timer_t tick;
    uint32_t handles_n;
    struct http_config config;
    struct http_limits limits;
    struct MHD_Daemon *mhd;
    uint16_t port;
    char why[NET_ERROR_MAX]; /* what libmicrohttpd said while it was started */
    atomic_bool starting;
    struct http_requests held; /* with their handlers; the loop's thread only */
    struct log_pace pace;      /* the server's thread only */

    pthread_mutex_t lock;
    pthread_cond_t calm; /* sending_n is 0 */
    bool closing;
    struct http_requests queue;
    uint32_t unanswered_n; /* in the queue and with handlers */
    uint32_t sending_n;    /* answered, and not yet sent in full */
    struct http_conns conns;
    struct http_session sessions[HTTP_SESSIONS_MAX]; /* guarded */
    struct http_streams streams;
    struct http_streams waking; /* that were suspended, and have something to send */
    bool ringing;               /* one of them has been woken, and will wake these */
    struct http_feed *feeds[HTTP_FEEDS_MAX];
    uint32_t feeds_n;
    struct http_stats stats;
};

/* serve.c: the callbacks of libmicrohttpd, in its thread. */
void *http_on_target(void *cls, const char *target, struct MHD_Connection *mhd);
enum MHD_Result http_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *data_n, void **q_ptr);
void http_on_completed(void *cls, struct MHD_Connection *mhd, void **q_ptr,
                       enum MHD_RequestTerminationCode why);
void http_on_connection(void *cls, struct MHD_Connection *mhd, void **conn_ptr,
                        enum MHD_ConnectionNotificationCode what);

/* Sweeps those whose request does not arrive; any thread. */
/* session.c: the rights of its cookie; HTTP_NOBODY. */
enum http_role http_session_role(struct http_request *q);

void http_conns_sweep(struct http *h, uint64_t now_ms);

/* check.c: finds the route and decides; q->status is set to what is wrong, with its answer. */
void http_check(struct http_request *q, const char *method);

/* answer.c */
void http_request_free(struct http_request *q);
/* Sets the answer, without handing it over: for both threads. */
void http_put_error(struct http_request *q, unsigned status, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
enum MHD_Result http_send(struct http_request *q);

/* Of the body that goes with it; NULL: none. */
void http_set_type(struct http_request *q, const char *type);

/* The loop's part of an answer is done. */
void http_hand_back(struct http_request *q);

/* feed.c */
void http_feeds_close(struct http *h);

/* stream.c */
struct MHD_Response *http_stream_response(struct http_request *q);
void http_stream_free(struct http_stream *s);
void http_streams_comment(struct http *h);
void http_streams_end(struct http *h); /* with the lock */

/* cert.c: both files, checked; the caller frees. */
int http_cert_read(const char *cert_file, const char *key_file, char **cert_out, char **key_out,
                   char *error);

#endif
