#include "unit/orchestrator/web_kit.h"

#include "unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int web_setup(void **state)
{
    kit_setup(state);
    ((struct kit *)*state)->web = true;
    return 0;
}

int web_setup_running(void **state)
{
    web_setup(state);
    kit_start(*state);
    return 0;
}

/* ---- saying ---- */

static void say_bytes(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;

    while (n > 0) {
        ssize_t part = send(fd, at, n, MSG_NOSIGNAL);

        assert_true(part > 0);
        at += part;
        n -= (size_t)part;
    }
}

static void bearer(const struct kit *k, enum http_role role, char text[128])
{
    uint8_t key[32];
    size_t n;

    text[0] = '\0';
    if (role == HTTP_NOBODY) {
        return;
    }
    token_derive(&k->token, role == HTTP_VIEWER ? TOKEN_KEY_VIEWER : TOKEN_KEY_OPERATOR, key);
    n = (size_t)snprintf(text, 128, "Authorization: Bearer ");
    for (size_t i = 0; i < sizeof(key); i++) {
        n += (size_t)snprintf(text + n, 128 - n, "%02x", key[i]);
    }
    snprintf(text + n, 128 - n, "\r\n");
}

struct web_conn web_say(const struct kit *k, enum http_role role, const char *method,
                        const char *path, const char *headers, const void *body, size_t body_n)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(k->http_port)};
    struct web_conn c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    char token[128], head[2048];
    int n;

    bearer(k, role, token);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(c.fd, (struct sockaddr *)&at, sizeof(at)), 0);
    n = snprintf(head, sizeof(head),
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s"
                 "Content-Length: %zu\r\n\r\n",
                 method, path, token, headers != NULL ? headers : "", body_n);
    assert_true(n > 0 && n < (int)sizeof(head));
    say_bytes(c.fd, head, (size_t)n);
    say_bytes(c.fd, body, body_n);
    return c;
}

/* ---- hearing ---- */

static void hear(struct web_conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    ssize_t n;

    if (poll(&p, 1, KIT_WAIT_MS) != 1) {
        fail_msg("nothing more came after: %s", c->in_n > 0 ? c->in : "nothing at all");
    }
    c->in = realloc(c->in, c->in_n + 65537);
    assert_non_null(c->in);
    n = recv(c->fd, c->in + c->in_n, 65536, 0);
    c->ended = n <= 0;
    c->in_n += n > 0 ? (size_t)n : 0;
    c->in[c->in_n] = '\0';
}

void web_hang_up(struct web_conn *c)
{
    close(c->fd);
    free(c->in);
    *c = (struct web_conn){.fd = -1};
}

struct web_reply web_reply(struct web_conn *c)
{
    struct web_reply r = {0};
    char *end;

    while (!c->ended) {
        hear(c);
    }
    end = c->in_n > 0 ? strstr(c->in, "\r\n\r\n") : NULL;
    if (end == NULL) {
        fail_msg("this is no answer: '%s'", c->in_n > 0 ? c->in : "");
    }
    snprintf(r.head, sizeof(r.head), "%.*s", (int)(end + 2 - c->in), c->in);
    assert_int_equal(sscanf(r.head, "HTTP/1.1 %u", &r.status), 1);
    r.body_n = c->in_n - (size_t)(end + 4 - c->in);
    r.body = malloc(r.body_n + 1);
    assert_non_null(r.body);
    memcpy(r.body, end + 4, r.body_n + 1);
    web_hang_up(c);
    return r;
}

/* Takes the sizes of its pieces out of a body that is sent in pieces, in place. */
static void join_pieces(char *text)
{
    char *from = text, *to = text, *end;

    for (;;) {
        unsigned long n = strtoul(from, &end, 16);

        if (end == from || strncmp(end, "\r\n", 2) != 0 || strlen(end + 2) < n + 2) {
            break;
        }
        memmove(to, end + 2, n);
        to += n;
        from = end + 2 + n + 2;
    }
    *to = '\0';
}

const char *web_expect(struct web_conn *c, const char *text)
{
    static char *plain;

    for (;;) {
        char *body = c->in_n > 0 ? strstr(c->in, "\r\n\r\n") : NULL;

        if (body != NULL) {
            free(plain);
            plain = strdup(c->in);
            assert_non_null(plain);
            join_pieces(plain + (body + 4 - c->in));
            if (strstr(plain, text) != NULL) {
                return plain;
            }
        }
        if (c->ended) {
            fail_msg("no '%s' in: %s", text, c->in_n > 0 ? c->in : "");
        }
        hear(c);
    }
}

/* ---- in short ---- */

struct web_reply web_ask(const struct kit *k, enum http_role role, const char *method,
                         const char *path, const char *headers, const char *body)
{
    struct web_conn c =
        web_say(k, role, method, path, headers, body, body != NULL ? strlen(body) : 0);

    return web_reply(&c);
}

void web_gives(const struct kit *k, enum http_role role, const char *method, const char *path,
               const char *headers, const char *body, unsigned status, const char *text)
{
    struct web_reply r = web_ask(k, role, method, path, headers, body);

    if (r.status != status || (text != NULL && strstr(r.body, text) == NULL)) {
        fail_msg("%s %s: wanted %u and '%s', got: %s\n%s", method, path, status,
                 text != NULL ? text : "", r.head, r.body);
    }
    free(r.body);
}

json_t *web_json(const struct kit *k, const char *path)
{
    struct web_reply r = web_ask(k, HTTP_VIEWER, "GET", path, NULL, NULL);
    json_error_t why;
    json_t *json = json_loadb(r.body, r.body_n, 0, &why);

    if (r.status != 200 || json == NULL) {
        fail_msg("%s: %s%s", path, r.head, r.body);
    }
    free(r.body);
    return json;
}

const char *web_header(const struct web_reply *r, const char *name)
{
    static char value[256];
    const size_t n = strlen(name);
    const char *at = r->head;

    value[0] = '\0';
    while ((at = strstr(at, "\r\n")) != NULL) {
        at += 2;
        if (strncasecmp(at, name, n) == 0 && at[n] == ':') {
            sscanf(at + n + 1, " %255[^\r]", value);
        }
    }
    return value;
}

uint64_t web_etag_of(const struct web_reply *r)
{
    const char *text = web_header(r, "ETag");

    return text[0] == '"' ? strtoull(text + 1, NULL, 10) : 0;
}
