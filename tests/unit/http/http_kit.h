/* A loop with an HTTP server, and clients with plain sockets, all in one thread on loopback (but
 * for the server's own). */
#ifndef UNIT_HTTP_HTTP_KIT_H
#define UNIT_HTTP_HTTP_KIT_H

#include "http/http.h"
#include "unit/await.h"

#define HTTP_KIT_LATE_MAX 16

struct http_kit {
    uv_loop_t loop;
    uv_timer_t tick;
    struct http *h;
    struct http_config config;
    uint32_t handled_n;
    struct http_request *late[HTTP_KIT_LATE_MAX]; /* that /late keeps */
    uint32_t late_n;
    struct http_feed *feed; /* of /stream */
    bool close_in_handler;
};

/* One end of a connection, and what has come through it. */
struct http_client {
    struct http_kit *kit;
    int fd;
    void *ssl; /* SSL, or NULL */
    char *in;
    size_t in_n, in_cap;
    bool ended;
};

struct http_reply {
    unsigned status;
    char head[4096]; /* status line and headers */
    char *body;      /* with a zero byte after it */
    size_t body_n;
};

/* Tokens as text. */
extern char http_kit_viewer[65], http_kit_operator[65];

/* Its routes: GET /, GET|PUT /echo/{a}/{b} (says all that it was asked), GET /open (nobody), POST
 * /operate (operator), GET /late (kept), GET /big?n=, GET /stream/{topic}?from=&head=,
 * PUT /keys/{key...}. `config` may be changed before http_kit_open(). */
void http_kit_init(struct http_kit *k);
void http_kit_open(struct http_kit *k);
void http_kit_close(struct http_kit *k);
void http_kit_turn(struct http_kit *k);
struct http_stats http_kit_stats(struct http_kit *k);

/* The one of a test, with set-up and tear-down for cmocka; closed: its limits may still be changed,
 * and the test opens it. Only errors are logged. */
extern struct http_kit kit;
int http_kit_setup(void **state);
int http_kit_setup_closed(void **state);
int http_kit_teardown(void **state);

/* A client; with_tls: any certificate will do. */
struct http_client http_kit_connect(struct http_kit *k);
struct http_client http_kit_connect_tls(struct http_kit *k);
void http_client_close(struct http_client *c);
void http_client_send(struct http_client *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void http_client_send_bytes(struct http_client *c, const char *bytes, size_t n);
/* Takes what is there; true if there was something. */
bool http_client_pull(struct http_client *c);
/* Until `what` is in what came in. */
void http_client_expect(struct http_client *c, const char *what);
void http_client_expect_end(struct http_client *c);
/* The next answer; the caller frees its body. `head`: to a HEAD, so there is no body. */
struct http_reply http_client_reply(struct http_client *c, bool head);

/* The whole of one request on a connection of its own. `headers` end with \r\n each; body may be
 * NULL. */
struct http_reply http_kit_ask(struct http_kit *k, const char *method, const char *path,
                               const char *headers, const char *body);
/* … of which only the status and the text of its error matters. */
void http_kit_refused(struct http_kit *k, const char *method, const char *path, const char *headers,
                      const char *body, unsigned status, const char *text);

/* Until cond holds, or the test fails. */
#define http_kit_wait(k, cond) unit_await(cond, #cond, http_kit_turn(k))

#endif
