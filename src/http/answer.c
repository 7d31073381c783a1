/* What a handler sees of a request, and its answer. */
#include "http/state.h"

#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what was asked ---- */

const char *http_param(const struct http_request *q, unsigned i)
{
    mu_assert(i < HTTP_PARAMS_MAX);
    return q->params[i];
}

const char *http_query(const struct http_request *q, const char *name)
{
    for (uint32_t i = 0; i < q->pairs_n; i++) {
        if (strcmp(q->pairs[i].name, name) == 0) {
            return q->pairs[i].value;
        }
    }
    return NULL;
}

const void *http_body(const struct http_request *q, size_t *n_out)
{
    *n_out = q->body_n;
    return q->body != NULL ? q->body : "";
}

enum http_role http_role(const struct http_request *q)
{
    return q->role;
}

/* Nobody watches a suspended connection, so the kernel is asked. Its file is open for as long as
 * the request is a handler's, unless the server has closed. */
bool http_gone(const struct http_request *q)
{
    struct pollfd p = {.events = POLLRDHUP};

    if (q->h == NULL) {
        return true;
    }
    p.fd = q->conn->fd;
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

void http_set_data(struct http_request *q, void *data)
{
    q->data = data;
}

void *http_data(const struct http_request *q)
{
    return q->data;
}

/* ---- answers ---- */

void http_set_header(struct http_request *q, const char *name, const char *value)
{
    uint32_t i = 0;

    while (i < q->set_n && strcasecmp(q->set[i].name, name) != 0) {
        i++;
    }
    mu_assert(i < HTTP_SET_MAX && strlen(name) < HTTP_NAME_MAX && strlen(value) < HTTP_VALUE_MAX);
    strcpy(q->set[i].name, name);
    strcpy(q->set[i].value, value);
    q->set_n = MAX(q->set_n, i + 1);
}

void http_set_type(struct http_request *q, const char *type)
{
    mu_assert(type == NULL || strlen(type) < sizeof(q->type));
    strcpy(q->type, type != NULL ? type : "");
}

/* JSON holds UTF-8 only. */
static json_t *as_json(const char *text)
{
    json_t *json = json_string(text);
    char *plain = json == NULL ? strdup(text) : NULL;

    if (plain != NULL) {
        for (char *p = plain; *p != '\0'; p++) {
            *p = (unsigned char)*p >= 0x80 ? '?' : *p;
        }
        json = json_string(plain);
        free(plain);
    }
    return json;
}

/* Without memory for its text an error is only its status. */
static void put_error(struct http_request *q, unsigned status, const char *hint, const char *error)
{
    json_t *json = json_object();

    free(q->answer);
    q->status = status;
    http_set_type(q, "application/json");
    q->answer = NULL;
    if (json != NULL && json_object_set_new(json, "error", as_json(error)) == 0 &&
        (hint == NULL || json_object_set_new(json, "hint", as_json(hint)) == 0)) {
        q->answer = json_dumps(json, 0);
    }
    q->answer_n = q->answer != NULL ? strlen(q->answer) : 0;
    json_decref(json);
}

__attribute__((format(printf, 4, 0))) static void put_error_v(struct http_request *q,
                                                              unsigned status, const char *hint,
                                                              const char *fmt, va_list args)
{
    char error[1024];

    vsnprintf(error, sizeof(error), fmt, args);
    put_error(q, status, hint, error);
}

void http_put_error(struct http_request *q, unsigned status, const char *hint, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    put_error_v(q, status, hint, fmt, args);
    va_end(args);
}

void http_hand_back(struct http_request *q)
{
    struct http *h = q->h;
    struct MHD_Connection *mhd = q->mhd;

    if (h == NULL) {
        http_request_free(q);
        return;
    }
    TAILQ_REMOVE(&h->held, q, link);
    pthread_mutex_lock(&h->lock);
    q->phase = HTTP_ANSWERED;
    h->unanswered_n--;
    h->sending_n++;
    pthread_mutex_unlock(&h->lock);
    MHD_resume_connection(mhd);
}

void http_answer(struct http_request *q, unsigned status, const char *type, char *body, size_t n)
{
    mu_assert(status >= 200 && status < 600 && q->status == 0);
    q->status = status;
    http_set_type(q, type);
    q->answer = body;
    q->answer_n = body != NULL ? n : 0;
    http_hand_back(q);
}

void http_answer_error(struct http_request *q, unsigned status, const char *hint, const char *fmt,
                       ...)
{
    va_list args;

    mu_assert(q->status == 0);
    va_start(args, fmt);
    put_error_v(q, status, hint, fmt, args);
    va_end(args);
    http_hand_back(q);
}

/* ---- sending, in the server's thread ---- */

static bool is_set(const struct http_request *q, const char *name)
{
    for (uint32_t i = 0; i < q->set_n; i++) {
        if (strcasecmp(q->set[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool add_headers(const struct http_request *q, struct MHD_Response *response)
{
    static const char *const defaults[][2] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy", "default-src 'none'"},
    };
    bool ok = q->type[0] == '\0' || MHD_add_response_header(response, "Content-Type", q->type);

    for (uint32_t i = 0; i < q->set_n; i++) {
        ok = MHD_add_response_header(response, q->set[i].name, q->set[i].value) && ok;
    }
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
        if (!is_set(q, defaults[i][0])) {
            ok = MHD_add_response_header(response, defaults[i][0], defaults[i][1]) && ok;
        }
    }
    return ok;
}

static struct MHD_Response *make_response(struct http_request *q)
{
    struct MHD_Response *response;

    if (q->stream != NULL) {
        return http_stream_response(q);
    }
    response = MHD_create_response_from_buffer(q->answer_n, q->answer, MHD_RESPMEM_MUST_FREE);
    if (response != NULL) {
        q->answer = NULL;
    }
    return response;
}

enum MHD_Result http_send(struct http_request *q)
{
    struct http *h = q->h;
    struct MHD_Response *response = make_response(q);

    if (response == NULL) {
        return MHD_NO; /* out of memory */
    }
    if (!add_headers(q, response)) {
        log_warn("http", "an answer to %.200s goes without some of its headers", q->target);
    }
    if (q->status == MHD_HTTP_CONTENT_TOO_LARGE) {
        (void)MHD_add_response_header(response, "Connection", "close");
    }
    const enum MHD_Result rc = MHD_queue_response(q->mhd, q->status, response);

    MHD_destroy_response(response);
    pthread_mutex_lock(&h->lock);
    if (q->phase != HTTP_ANSWERED) { /* ours, not a handler's */
        q->phase = HTTP_ANSWERED;
        h->sending_n++;
    }
    if (rc == MHD_YES) {
        q->sent = true;
        h->stats.requests_n[q->status / 100]++;
    }
    pthread_mutex_unlock(&h->lock);
    return rc;
}

void http_request_free(struct http_request *q)
{
    if (q->stream != NULL) {
        http_stream_free(q->stream);
    }
    for (unsigned i = 0; i < HTTP_KEPT_N; i++) {
        free(q->kept[i]);
    }
    free(q->target);
    free(q->text);
    free(q->body);
    free(q->answer);
    free(q);
}
