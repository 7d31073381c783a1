/* A whole server: a connection that sends any bytes, and no more. It is answered and closed, and
 * the next one is served. Tokens: 64 zeros, 64 ones. */
#include "base/log.h"
#include "fuzz/fuzz.h"
#include "http/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUIET_TURNS 10

static uv_loop_t loop;
static struct http *server;
static struct http_feed *feed;

static void on_text(void *arg, struct http_request *q)
{
    size_t n;
    const char *body = http_body(q, &n);
    char *text = malloc(n + 1);

    mu_assert(text != NULL && n <= HTTP_BODY_MAX);
    memcpy(text, body, n);
    (void)http_header(q, "If-Match");
    (void)http_query(q, "x");
    http_answer(q, 200, "text/plain", text, n);
}

static void on_operate(void *arg, struct http_request *q)
{
    mu_assert(http_role(q) == HTTP_OPERATOR && http_param(q, 0)[0] != '\0');
    on_text(arg, q);
}

static void on_error(void *arg, struct http_request *q)
{
    const char *list = http_header(q, "If-None-Match");

    (void)http_gone(q);
    http_answer_error(q, list != NULL && http_etag_match(list, "1", true) == MU_OK ? 304 : 404,
                      list, "%s", http_param(q, 0));
}

static void on_stream(void *arg, struct http_request *q)
{
    http_stream(q, feed, http_param(q, 0), 1, strdup("data: 0\n\n"), 9);
}

static const struct http_route routes[] = {
    {"GET", "/", HTTP_NOBODY, on_text, ""},
    {"PUT", "/o/{a}", HTTP_OPERATOR, on_operate, ""},
    {"POST", "/v/{a...}", HTTP_VIEWER, on_text, ""},
    {"GET", "/e/{a}", HTTP_NOBODY, on_error, ""},
    {"GET", "/s/{a}", HTTP_VIEWER, on_stream, ""},
};

static void on_exit_close(void)
{
    http_close(server);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

static void start(void)
{
    const struct http_feed_limits limits = {4, 256};
    struct http_config config = {.routes = routes, .routes_n = ARRAY_LEN(routes)};
    char error[NET_ERROR_MAX];

    log_set_level(LOG_ERROR);
    config.limits.comment_ms = 5; /* … after which a stream is known to be gone */
    strcpy(config.listen.host, "127.0.0.1");
    memset(config.operator, 0x11, sizeof(config.operator));
    mu_assert(uv_loop_init(&loop) == 0);
    mu_assert(http_open(&loop, &config, &server, error) == MU_OK);
    mu_assert(http_feed_open(server, &limits, &feed) == MU_OK);
    mu_assert(http_feed_push(feed, "t", "data: 1\n\n", 9) == MU_OK);
    atexit(on_exit_close);
}

static int dial(void)
{
    const struct linger at_once = {1, 0}; /* Otherwise all ports would soon wait for their end. */
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(http_port(server))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    mu_assert(fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    return fd;
}

static struct http_stats stats(void)
{
    struct http_stats now;

    http_stats(server, &now);
    return now;
}

/* Sends all, and reads until nothing more comes. */
static void converse(int fd, const uint8_t *data, size_t n)
{
    char buf[65536];

    for (int quiet_n = 0; n > 0 || quiet_n < QUIET_TURNS || stats().queued_n > 0; quiet_n++) {
        const ssize_t sent = n > 0 ? send(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

        if (sent > 0) {
            data += sent;
            n -= (size_t)sent;
        }
        uv_run(&loop, UV_RUN_NOWAIT);
        const ssize_t got = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            return;
        }
        if (got > 0) {
            quiet_n = 0;
        } else {
            usleep(20);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (server == NULL) {
        start();
    }
    int fd = dial();

    converse(fd, data, n);
    close(fd);
    while (stats().conns_n > 0) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(20);
    }
    mu_assert(stats().queued_n == 0 && stats().streams_n == 0);
    return 0;
}
