/* What is read from a request, as pure functions: paths, queries, hosts, tokens. */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include "http/http.h"

#define HTTP_PAIRS_MAX 16
#define HTTP_BEARER_BYTES 32

struct http_pair {
    const char *name, *value;
};

/* Whether a route's path is one: it begins with '/', has no empty part, at most HTTP_PARAMS_MAX
 * parameters, and "..." at its end only. */
bool http_route_valid(const char *route);

/* Whether `path`, as it came, fits. Parameters are decoded into buf, which has room for
 * strlen(path)
 * + 1, and params point into it. On false both may have been written. */
bool http_route_fits(const char *route, const char *path, char *buf,
                     const char *params[HTTP_PARAMS_MAX]);

/* Decodes %41, and + as a blank if `form`. `out` has room for n + 1 and may be `in`. False: a
 * broken escape, or a zero byte. */
bool http_decode(const char *in, size_t n, bool form, char *out);

/* Splits and decodes "a=1&b=2" in place. False: broken, or too many. */
bool http_query_parse(char *text, struct http_pair pairs[HTTP_PAIRS_MAX], uint32_t *pairs_n_out);

/* Whether "name", "name:port", "1.2.3.4:port" or "[v6]:port" names this server: localhost, any
 * address, or one of `hosts`. */
bool http_host_fits(const char *host, const char *const *hosts, uint32_t hosts_n);

/* Whether a page from `origin` is one of the server that was asked as `host`. */
bool http_origin_fits(const char *origin, bool tls, const char *host);

/* The bytes of "Bearer <64 hex digits>". */
bool http_bearer_parse(const char *header, uint8_t out[HTTP_BEARER_BYTES]);

#endif
