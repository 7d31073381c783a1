#include "unit/http/http_kit.h"

#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

char http_kit_viewer[65], http_kit_operator[65];
struct http_kit kit;

/* ---- handlers ---- */

static void answer_text(struct http_request *q, unsigned status, char *text)
{
    assert_non_null(text);
    http_answer(q, status, "text/plain", text, strlen(text));
}

static const char *or_none(const char *text)
{
    return text != NULL ? text : "-";
}

static void on_root(void *arg, struct http_request *q)
{
    ((struct http_kit *)arg)->handled_n++;
    answer_text(q, 200, strdup("root"));
}

static void on_echo(void *arg, struct http_request *q)
{
    struct http_kit *k = arg;
    size_t n;
    const char *body = http_body(q, &n);
    char *text;

    k->handled_n++;
    assert_true(asprintf(&text, "a=%s b=%s x=%s y=%s role=%d match=%s last=%s body=%.*s",
                         http_param(q, 0), or_none(http_param(q, 1)), or_none(http_query(q, "x")),
                         or_none(http_query(q, "y")), (int)http_role(q),
                         or_none(http_header(q, "if-match")),
                         or_none(http_header(q, "Last-Event-ID")), (int)n, body) >= 0);
    http_set_header(q, "ETag", "\"7\"");
    answer_text(q, 200, text);
}

static void on_late(void *arg, struct http_request *q)
{
    struct http_kit *k = arg;

    k->handled_n++;
    assert_true(k->late_n < HTTP_KIT_LATE_MAX);
    assert_null(http_data(q));
    http_set_data(q, &k->late[k->late_n]);
    k->late[k->late_n++] = q;
    if (k->close_in_handler) {
        http_close(k->h);
        k->h = NULL;
    }
}

static void on_big(void *arg, struct http_request *q)
{
    const char *n_text = http_query(q, "n");
    const size_t n = n_text != NULL ? strtoul(n_text, NULL, 10) : 0;
    char *body = malloc(n + 1);

    ((struct http_kit *)arg)->handled_n++;
    assert_non_null(body);
    for (size_t i = 0; i < n; i++) {
        body[i] = (char)('a' + i % 26);
    }
    http_set_header(q, "Content-Security-Policy", "default-src 'self'");
    http_answer(q, 200, "application/octet-stream", body, n);
}

static void on_stream(void *arg, struct http_request *q)
{
    struct http_kit *k = arg;
    const char *from = http_query(q, "from"), *head = http_query(q, "head");
    const char *topic = http_param(q, 0);
    char *copy = head != NULL ? strdup(head) : NULL;

    k->handled_n++;
    http_stream(q, k->feed, strcmp(topic, "all") == 0 ? "" : topic,
                from != NULL ? strtoull(from, NULL, 10) : http_feed_next(k->feed), copy,
                copy != NULL ? strlen(copy) : 0);
}

static const struct http_route routes[] = {
    {"GET", "/", HTTP_VIEWER, on_root, "the root"},
    {"GET", "/echo/{a}/{b}", HTTP_VIEWER, on_echo, "what was asked"},
    {"PUT", "/echo/{a}/{b}", HTTP_OPERATOR, on_echo, "what was asked"},
    {"GET", "/open", HTTP_NOBODY, on_root, "for anybody"},
    {"POST", "/operate", HTTP_OPERATOR, on_root, "for operators"},
    {"GET", "/late", HTTP_VIEWER, on_late, "answered later"},
    {"GET", "/big", HTTP_VIEWER, on_big, "many bytes"},
    {"GET", "/stream/{topic}", HTTP_VIEWER, on_stream, "a stream"},
    {"PUT", "/keys/{key...}", HTTP_VIEWER, on_echo, "a key"},
};

/* ---- the server ---- */

static void print_hex(const uint8_t *bytes, char text[65])
{
    for (int i = 0; i < 32; i++) {
        snprintf(text + (size_t)2 * i, 3, "%02x", bytes[i]);
    }
}

static void on_tick(uv_timer_t *timer)
{
}

void http_kit_init(struct http_kit *k)
{
    memset(k, 0, sizeof(*k));
    strcpy(k->config.listen.host, "127.0.0.1");
    random_bytes(k->config.viewer, 32);
    random_bytes(k->config.operator, 32);
    print_hex(k->config.viewer, http_kit_viewer);
    print_hex(k->config.operator, http_kit_operator);
    k->config.routes = routes;
    k->config.routes_n = ARRAY_LEN(routes);
    k->config.arg = k;
    assert_int_equal(uv_loop_init(&k->loop), 0);
    uv_timer_init(&k->loop, &k->tick);
    uv_timer_start(&k->tick, on_tick, 2, 2);
}

void http_kit_open(struct http_kit *k)
{
    const struct http_feed_limits limits = {16, 4096};
    char error[NET_ERROR_MAX] = "";

    const int rc = http_open(&k->loop, &k->config, &k->h, error);

    assert_string_equal(error, "");
    assert_int_equal(rc, MU_OK);
    assert_int_equal(http_feed_open(k->h, &limits, &k->feed), MU_OK);
}

void http_kit_close(struct http_kit *k)
{
    http_close(k->h);
    uv_close((uv_handle_t *)&k->tick, NULL);
    uv_run(&k->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&k->loop), 0); /* Nothing is left behind. */
}

void http_kit_turn(struct http_kit *k)
{
    uv_run(&k->loop, UV_RUN_ONCE);
}

struct http_stats http_kit_stats(struct http_kit *k)
{
    struct http_stats s;

    http_stats(k->h, &s);
    return s;
}

int http_kit_setup_closed(void **state)
{
    log_set_level(LOG_ERROR);
    http_kit_init(&kit);
    return 0;
}

int http_kit_setup(void **state)
{
    http_kit_setup_closed(state);
    http_kit_open(&kit);
    return 0;
}

int http_kit_teardown(void **state)
{
    http_kit_close(&kit);
    return 0;
}

/* ---- clients ---- */

struct http_client http_kit_connect(struct http_kit *k)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(http_port(k->h))};
    struct http_client c = {.kit = k, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(c.fd >= 0);
    assert_int_equal(connect(c.fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return c;
}

struct http_client http_kit_connect_tls(struct http_kit *k)
{
    struct http_client c = http_kit_connect(k);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);

    SSL_CTX_free(ctx);
    SSL_set_fd(ssl, c.fd);
    assert_int_equal(SSL_connect(ssl), 1); /* The server's thread does its part by itself. */
    c.ssl = ssl;
    return c;
}

void http_client_close(struct http_client *c)
{
    SSL_free(c->ssl);
    close(c->fd);
    free(c->in);
    memset(c, 0, sizeof(*c));
    c->fd = -1;
}

void http_client_send_bytes(struct http_client *c, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t sent = c->ssl != NULL ? SSL_write(c->ssl, bytes, (int)n)
                                            : send(c->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
        } else if (sent < 0 && errno == EAGAIN) {
            http_kit_turn(c->kit);
        } else {
            return; /* It is closed: what the answer was is what matters. */
        }
    }
}

void http_client_send(struct http_client *c, const char *fmt, ...)
{
    char *text;
    va_list args;

    va_start(args, fmt);
    assert_true(vasprintf(&text, fmt, args) >= 0);
    va_end(args);
    http_client_send_bytes(c, text, strlen(text));
    free(text);
}

static ssize_t receive(struct http_client *c, char *buf, size_t cap)
{
    char probe;

    if (c->ssl == NULL) {
        return recv(c->fd, buf, cap, MSG_DONTWAIT);
    }
    if (SSL_pending(c->ssl) == 0 && recv(c->fd, &probe, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
        return -1;
    }
    const int n = SSL_read(c->ssl, buf, (int)cap);

    if (n <= 0 && SSL_get_error(c->ssl, n) == SSL_ERROR_WANT_READ) {
        errno = EAGAIN;
        return -1;
    }
    return MAX(n, 0);
}

bool http_client_pull(struct http_client *c)
{
    if (c->in_cap - c->in_n < 65536) {
        c->in_cap = 2 * c->in_cap + 131072;
        c->in = realloc(c->in, c->in_cap);
        assert_non_null(c->in);
    }
    const ssize_t n = receive(c, c->in + c->in_n, c->in_cap - c->in_n - 1);

    if (n > 0) {
        c->in_n += (size_t)n;
        c->in[c->in_n] = '\0';
        return true;
    }
    c->ended = n == 0 || errno != EAGAIN;
    return false;
}

static bool has(struct http_client *c, const char *what)
{
    while (http_client_pull(c)) {
    }
    return c->in_n > 0 && memmem(c->in, c->in_n, what, strlen(what)) != NULL;
}

void http_client_expect(struct http_client *c, const char *what)
{
    const uint64_t end_ms = net_now_ms() + 60000;

    while (!has(c, what)) {
        if (net_now_ms() > end_ms || c->ended) {
            fail_msg("no \"%s\" in: %s", what, c->in_n > 0 ? c->in : "");
        }
        http_kit_turn(c->kit);
    }
}

static bool at_end(struct http_client *c)
{
    while (http_client_pull(c)) {
    }
    return c->ended;
}

void http_client_expect_end(struct http_client *c)
{
    http_kit_wait(c->kit, at_end(c));
}

static void drop_front(struct http_client *c, size_t n)
{
    c->in_n -= n;
    memmove(c->in, c->in + n, c->in_n + 1);
}

/* Answers here are never chunked, but for streams, which are not read with this. */
struct http_reply http_client_reply(struct http_client *c, bool head)
{
    struct http_reply r = {0};

    http_client_expect(c, "\r\n\r\n");
    const size_t head_n = (size_t)(strstr(c->in, "\r\n\r\n") + 4 - c->in);

    assert_true(head_n < sizeof(r.head));
    memcpy(r.head, c->in, head_n);
    drop_front(c, head_n);
    if (strncmp(r.head, "HTTP/1.1 100", 12) == 0) {
        return http_client_reply(c, head);
    }
    assert_int_equal(sscanf(r.head, "HTTP/1.1 %u", &r.status), 1);
    const char *length = strcasestr(r.head, "\r\nContent-Length: ");

    r.body_n = length != NULL && !head ? strtoul(length + 18, NULL, 10) : 0;
    http_kit_wait(c->kit, c->in_n >= r.body_n || at_end(c));
    assert_true(c->in_n >= r.body_n);
    r.body = calloc(1, r.body_n + 1);
    memcpy(r.body, c->in, r.body_n);
    drop_front(c, r.body_n);
    return r;
}

struct http_reply http_kit_ask(struct http_kit *k, const char *method, const char *path,
                               const char *headers, const char *body)
{
    struct http_client c = http_kit_connect(k);
    struct http_reply r;

    http_client_send(&c, "%s %s HTTP/1.1\r\nHost: localhost:%u\r\n%s", method, path,
                     http_port(k->h), headers);
    if (body != NULL) {
        http_client_send(&c, "Content-Length: %zu\r\n", strlen(body));
    }
    http_client_send(&c, "\r\n%s", body != NULL ? body : "");
    r = http_client_reply(&c, strcmp(method, "HEAD") == 0);
    http_client_close(&c);
    return r;
}

void http_kit_refused(struct http_kit *k, const char *method, const char *path, const char *headers,
                      const char *body, unsigned status, const char *text)
{
    const uint32_t before = k->handled_n;
    struct http_reply r = http_kit_ask(k, method, path, headers, body);

    if (r.status != status || (strcmp(method, "HEAD") != 0 && strstr(r.body, text) == NULL)) {
        fail_msg("%s %s: %u %s, not %u with \"%s\"", method, path, r.status, r.body, status, text);
    }
    assert_non_null(strstr(r.head, "Content-Type: application/json\r\n"));
    assert_int_equal(k->handled_n, before);
    free(r.body);
}
