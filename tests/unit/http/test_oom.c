/* Memory that runs out costs one request at most. */
#include "unit/deny.h"
#include "unit/unit.h"

#include "base/log.h"
#include "http/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct play {
    uv_loop_t loop;
    uv_timer_t tick;
    struct http *h;
    struct http_feed *feed;
};

static char in[65536]; /* what the last request got */

static void on_put(void *arg, struct http_request *q)
{
    size_t n;
    const char *body = http_body(q, &n);
    char *copy = malloc(n);

    if (copy == NULL) {
        http_answer_error(q, 500, "come back later", "out of memory");
        return;
    }
    memcpy(copy, body, n);
    http_answer(q, 200, "text/plain", copy, n);
}

static void on_stream(void *arg, struct http_request *q)
{
    struct play *p = arg;

    http_stream(q, p->feed, "t", 1, NULL, 0);
}

static const struct http_route routes[] = {
    {"PUT", "/put/{a}", HTTP_VIEWER, on_put, ""},
    {"GET", "/stream", HTTP_NOBODY, on_stream, ""},
};

static void on_tick(uv_timer_t *timer)
{
}

static int dial(struct play *p)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(http_port(p->h))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

/* Sends, and reads until `last` has come, or all. */
static bool ask(struct play *p, const char *head, size_t body_n, const char *last)
{
    static char body[20000];
    const uint64_t end_ms = net_now_ms() + 60000;
    size_t n = 0;
    int fd = dial(p);

    in[0] = '\0';
    memset(body, 'x', sizeof(body));
    memcpy(body + body_n - 3, "end", 3);
    (void)send(fd, head, strlen(head), MSG_NOSIGNAL);
    for (size_t at = 0; at < body_n; at += 5000) {
        (void)send(fd, body + at, MIN(5000, body_n - at), MSG_NOSIGNAL);
    }
    for (;;) {
        const ssize_t got = recv(fd, in + n, sizeof(in) - 1 - n, MSG_DONTWAIT);

        n += got > 0 ? (size_t)got : 0;
        in[n] = '\0';
        if (got == 0 || (got < 0 && errno != EAGAIN) || strstr(in, last) != NULL) {
            break;
        }
        assert_true(net_now_ms() < end_ms);
        uv_run(&p->loop, UV_RUN_ONCE);
    }
    close(fd);
    return strncmp(in, "HTTP/1.1 200", 12) == 0 && strstr(in, last) != NULL;
}

static bool converse(struct play *p)
{
    bool ok = ask(p,
                  "PUT /put/a%20b?x=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  "Authorization: Bearer "
                  "0000000000000000000000000000000000000000000000000000000000000000\r\n"
                  "If-Match: \"1\"\r\nContent-Length: 20000\r\n\r\n",
                  20000, "end");

    ok = !ask(p, "GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 3,
              "nothing") &&
         ok;
    while (http_feed_push(p->feed, "t", "data: item\n\n", 12) != MU_OK) {
        ok = false;
    }
    return ask(p, "GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 3,
               "data: item") &&
           ok;
}

static int play_open(struct play *p)
{
    const struct http_feed_limits limits = {8, 1024};
    struct http_config config = {.routes = routes, .routes_n = ARRAY_LEN(routes), .arg = p};
    char error[NET_ERROR_MAX];
    int rc;

    strcpy(config.listen.host, "127.0.0.1");
    memset(config.operator, 1, sizeof(config.operator));
    rc = http_open(&p->loop, &config, &p->h, error);
    if (rc == MU_OK) {
        rc = http_feed_open(p->h, &limits, &p->feed);
    }
    return rc;
}

/* Whether all went well while the nth allocation was denied. */
static bool play(uint32_t nth)
{
    struct play p = {0};

    assert_int_equal(uv_loop_init(&p.loop), 0);
    uv_timer_init(&p.loop, &p.tick);
    uv_timer_start(&p.tick, on_tick, 1, 1);
    deny_begin(nth);
    const int rc = play_open(&p);
    bool well = rc == MU_OK;

    if (rc == MU_OK) {
        well = converse(&p);
        deny_end();
        assert_true(converse(&p)); /* Whatever it was, the server is as good as before. */
    } else {
        assert_int_equal(rc, MU_ENOMEM);
    }
    deny_end();
    http_close(p.h);
    uv_close((uv_handle_t *)&p.tick, NULL);
    uv_run(&p.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&p.loop), 0);
    return well;
}

static void running_out_of_memory_costs_one_request_at_most(void **state)
{
    uint32_t lost_n = 0;

    log_set_level(LOG_ERROR);
    assert_true(play(0));
    const uint32_t all = deny_taken();

    for (uint32_t nth = 1; nth <= all; nth++) {
        lost_n += !play(nth);
    }
    assert_true(all > 10 && lost_n > 8); /* The sweep does meet something. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_out_of_memory_costs_one_request_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
