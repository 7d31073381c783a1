/* What is wrong with a request, before any handler sees it. In the server's thread. */
#include "http/state.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const kept_names[HTTP_KEPT_N] = {
    "Accept", "If-Match", "If-None-Match", "Last-Event-ID", "Content-Type",
};

const char *http_header(const struct http_request *q, const char *name)
{
    for (unsigned i = 0; i < HTTP_KEPT_N; i++) {
        if (strcasecmp(name, kept_names[i]) == 0) {
            return q->kept[i];
        }
    }
    mu_assert(!"a header that is kept");
    return NULL;
}

/* A header that comes twice is one list. */
static enum MHD_Result keep(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct http_request *q = cls;
    char *joined;

    q->hosts_n += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    for (unsigned i = 0; i < HTTP_KEPT_N; i++) {
        if (strcasecmp(name, kept_names[i]) != 0 || value == NULL) {
            continue;
        }
        if (asprintf(&joined, "%s%s%s", q->kept[i] != NULL ? q->kept[i] : "",
                     q->kept[i] != NULL ? ", " : "", value) < 0) {
            q->no_memory = true;
            return MHD_NO;
        }
        free(q->kept[i]);
        q->kept[i] = joined;
    }
    return MHD_YES;
}

static const char *header(const struct http_request *q, const char *name)
{
    return MHD_lookup_connection_value(q->mhd, MHD_HEADER_KIND, name);
}

/* ---- its route ---- */

static bool does(const struct http_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

static void allow(char *list, const char *method)
{
    const size_t n = strlen(list);

    snprintf(list + n, HTTP_VALUE_MAX - n, "%s%s%s", n > 0 ? ", " : "", method,
             strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static bool find_route(struct http_request *q, const char *method)
{
    const struct http_config *config = &q->h->config;
    char allowed[HTTP_VALUE_MAX] = "";

    for (uint32_t i = 0; i < config->routes_n; i++) {
        const struct http_route *route = &config->routes[i];

        memset(q->params, 0, sizeof(q->params));
        if (!http_route_fits(route->path, q->target, q->text, q->params)) {
            continue;
        }
        if (does(route, method)) {
            q->route = route;
            return true;
        }
        allow(allowed, route->method);
    }
    if (allowed[0] == '\0') {
        http_put_error(q, MHD_HTTP_NOT_FOUND, "\"muster help http\" lists what there is",
                       "there is nothing at %.200s", q->target);
        return false;
    }
    http_put_error(q, MHD_HTTP_METHOD_NOT_ALLOWED, NULL, "%.20s is not for %.200s; it takes %s",
                   method, q->target, allowed);
    http_set_header(q, MHD_HTTP_HEADER_ALLOW, allowed);
    return false;
}

/* ---- who is asked, and by whom ---- */

static bool check_host(struct http_request *q)
{
    const struct http_config *config = &q->h->config;
    const char *own[] = {config->listen.host};
    const char *host = header(q, MHD_HTTP_HEADER_HOST);
    const char *origin = header(q, "Origin");

    if (q->hosts_n > 1) {
        http_put_error(q, MHD_HTTP_BAD_REQUEST, NULL, "there is more than one Host");
        return false;
    }
    /* HTTP/1.0 may come without: then there is no name that could have been rebound. */
    if (host != NULL && !http_host_fits(host, config->hosts, config->hosts_n) &&
        !http_host_fits(host, own, 1)) {
        http_put_error(q, MHD_HTTP_MISDIRECTED_REQUEST,
                       "if that is its name, start it with --http-host NAME",
                       "this server does not know itself as %.200s", host);
        return false;
    }
    if (origin != NULL &&
        (host == NULL || !http_origin_fits(origin, config->cert_file != NULL, host))) {
        http_put_error(q, MHD_HTTP_FORBIDDEN, "only this server's own pages may ask it",
                       "refused: the page that asks is from %.200s", origin);
        return false;
    }
    return true;
}

/* Both are compared always, so that time tells nothing. */
static enum http_role role_of(const struct http_config *config, const char *authorization)
{
    uint8_t given[HTTP_BEARER_BYTES];

    if (authorization == NULL || !http_bearer_parse(authorization, given)) {
        return HTTP_NOBODY;
    }
    const bool is_viewer = CRYPTO_memcmp(given, config->viewer, sizeof(given)) == 0;
    const bool is_operator = CRYPTO_memcmp(given, config->operator, sizeof(given)) == 0;

    OPENSSL_cleanse(given, sizeof(given));
    return is_operator ? HTTP_OPERATOR : is_viewer ? HTTP_VIEWER : HTTP_NOBODY;
}

static void tell_refused(struct http_request *q, const char *what)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(q->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char peer[HOST_MAX_LEN] = "?", more[LOG_PACE_TEXT];

    pthread_mutex_lock(&q->h->lock);
    q->h->stats.refused_n++;
    pthread_mutex_unlock(&q->h->lock);
    if (!log_pace_take(&q->h->pace, net_now_ms(), more)) {
        return;
    }
    if (info != NULL && info->client_addr != NULL) {
        address_print(info->client_addr, peer, sizeof(peer));
    }
    log_warn("http", "refused %s at %.200s: %s%s", peer, q->target, what, more);
}

static bool check_role(struct http_request *q)
{
    const char *authorization = header(q, MHD_HTTP_HEADER_AUTHORIZATION);
    const enum http_role need = q->route->role;

    q->role = authorization != NULL ? role_of(&q->h->config, authorization) : http_session_role(q);
    if (q->by_session && strcmp(q->route->method, "GET") != 0 && header(q, "Origin") == NULL) {
        http_put_error(q, MHD_HTTP_FORBIDDEN, "a browser says it by itself; others send a token",
                       "by a cookie, nothing is changed without an Origin");
        return false;
    }
    if (q->role >= need) {
        return true;
    }
    if (q->role != HTTP_NOBODY) {
        http_put_error(q, MHD_HTTP_FORBIDDEN, "\"muster token --role operator\" prints the other",
                       "a viewer's token is not enough for this");
        return false;
    }
    const char *what = authorization == NULL ? "no token was given" : "the token is wrong";

    tell_refused(q, what);
    http_put_error(
        q, MHD_HTTP_UNAUTHORIZED,
        need == HTTP_VIEWER
            ? "send \"Authorization: Bearer …\" with what \"muster token --role viewer\" "
              "prints"
            : "send \"Authorization: Bearer …\" with what \"muster token --role "
              "operator\" prints",
        "%s", what);
    http_set_header(q, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    return false;
}

/* ---- the rest ---- */

static bool check_query(struct http_request *q, char *query)
{
    if (query != NULL && !http_query_parse(query, q->pairs, &q->pairs_n)) {
        http_put_error(q, MHD_HTTP_BAD_REQUEST, NULL,
                       "what follows the ? is broken, or has more than %d parts", HTTP_PAIRS_MAX);
        return false;
    }
    return true;
}

static bool check_length(struct http_request *q)
{
    const char *length = header(q, MHD_HTTP_HEADER_CONTENT_LENGTH);

    if (length != NULL && strtoull(length, NULL, 10) > HTTP_BODY_MAX) {
        http_put_error(q, MHD_HTTP_CONTENT_TOO_LARGE, NULL, "a body has at most %u bytes",
                       HTTP_BODY_MAX);
        return false;
    }
    return true;
}

void http_check(struct http_request *q, const char *method)
{
    char *query = strchr(q->target, '?');

    if (query != NULL) {
        *query++ = '\0';
    }
    q->is_head = strcmp(method, "HEAD") == 0;
    MHD_get_connection_values(q->mhd, MHD_HEADER_KIND, keep, q);
    if (q->no_memory) {
        http_put_error(q, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
        return;
    }
    (void)(find_route(q, method) && check_host(q) && check_role(q) && check_query(q, query) &&
           check_length(q));
}
