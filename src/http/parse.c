#include "http/parse.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static int hex_value(char ch)
{
    if (ch >= '0' && ch <= '9') {
        return ch - '0';
    }
    ch = (char)(ch | 0x20);
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

bool http_decode(const char *in, size_t n, bool form, char *out)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        char ch = in[i];

        if (ch == '%') {
            const int high = i + 2 < n ? hex_value(in[i + 1]) : -1;
            const int low = i + 2 < n ? hex_value(in[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return false;
            }
            ch = (char)(high << 4 | low);
            i += 2;
        } else if (form && ch == '+') {
            ch = ' ';
        }
        if (ch == '\0') {
            return false;
        }
        out[at++] = ch;
    }
    out[at] = '\0';
    return true;
}

/* ---- routes ---- */

static size_t part_len(const char *part)
{
    return strcspn(part, "/");
}

static bool is_param(const char *part, size_t n)
{
    return n > 2 && part[0] == '{' && part[n - 1] == '}';
}

static bool is_rest(const char *part, size_t n)
{
    return n > 5 && is_param(part, n) && memcmp(part + n - 4, "...", 3) == 0;
}

bool http_route_valid(const char *route)
{
    unsigned params_n = 0;

    if (route[0] != '/' || route[1] == '\0') {
        return route[0] == '/';
    }
    while (*route == '/') {
        const size_t n = part_len(++route);

        if (n == 0 || (is_rest(route, n) && route[n] != '\0')) {
            return false;
        }
        params_n += is_param(route, n);
        route += n;
    }
    return *route == '\0' && params_n <= HTTP_PARAMS_MAX;
}

/* One segment, decoded; its length, or 0 if it can't be one. */
static size_t take_segment(const char *segment, size_t n, char *out)
{
    if (n == 0 || !http_decode(segment, n, false, out) || strcmp(out, ".") == 0 ||
        strcmp(out, "..") == 0) {
        return 0;
    }
    return strlen(out);
}

/* All segments from here to the end, with the slashes between them. */
static bool take_rest(const char *path, char *out)
{
    for (;;) {
        const size_t n = part_len(path);
        const size_t taken = take_segment(path, n, out);

        if (taken == 0) {
            return false;
        }
        if (path[n] == '\0') {
            return true;
        }
        out += taken;
        *out++ = '/';
        path += n + 1;
    }
}

bool http_route_fits(const char *route, const char *path, char *buf,
                     const char *params[HTTP_PARAMS_MAX])
{
    unsigned params_n = 0;

    if (strcmp(route, "/") == 0) {
        return strcmp(path, "/") == 0;
    }
    while (*route == '/' && *path == '/') {
        const size_t n = part_len(++route), have = part_len(++path);

        if (is_rest(route, n)) {
            params[params_n] = buf;
            return take_rest(path, buf);
        }
        const size_t taken = take_segment(path, have, buf);

        if (taken == 0) {
            return false;
        }
        if (is_param(route, n)) {
            params[params_n++] = buf;
            buf += taken + 1;
        } else if (taken != n || memcmp(buf, route, n) != 0) {
            return false;
        }
        route += n;
        path += have;
    }
    return *route == '\0' && *path == '\0';
}

/* ---- queries ---- */

bool http_query_parse(char *text, struct http_pair pairs[HTTP_PAIRS_MAX], uint32_t *pairs_n_out)
{
    uint32_t n = 0;

    while (*text != '\0') {
        const size_t len = strcspn(text, "&");
        const bool last = text[len] == '\0';

        text[len] = '\0';
        if (len > 0) {
            char *value = strchr(text, '=');

            if (n == HTTP_PAIRS_MAX) {
                return false;
            }
            if (value != NULL) {
                *value++ = '\0';
            } else {
                value = text + len;
            }
            if (!http_decode(text, strlen(text), true, text) ||
                !http_decode(value, strlen(value), true, value)) {
                return false;
            }
            pairs[n++] = (struct http_pair){text, value};
        }
        if (last) {
            break;
        }
        text += len + 1;
    }
    *pairs_n_out = n;
    return true;
}

/* ---- who is asked, and by whom ---- */

/* Where the name ends: at a port, or at the end. 0: this is no host. */
static size_t host_len(const char *host)
{
    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");

    if (n >= HOST_MAX_LEN || n > strlen(host)) {
        return 0;
    }
    if (host[n] == ':') {
        return host[n + 1 + strspn(host + n + 1, "0123456789")] == '\0' ? n : 0;
    }
    return host[n] == '\0' ? n : 0;
}

static bool is_address(const char *host, size_t n)
{
    struct in6_addr a;
    char text[HOST_MAX_LEN];

    if (host[0] == '[') {
        memcpy(text, host + 1, n - 2);
        text[n - 2] = '\0';
        return inet_pton(AF_INET6, text, &a) == 1;
    }
    memcpy(text, host, n);
    text[n] = '\0';
    return inet_pton(AF_INET, text, &a) == 1;
}

static bool same_name(const char *host, size_t n, const char *name)
{
    return strlen(name) == n && strncasecmp(host, name, n) == 0;
}

bool http_host_fits(const char *host, const char *const *hosts, uint32_t hosts_n)
{
    size_t n = host_len(host);

    if (n == 0) {
        return false;
    }
    if (is_address(host, n)) {
        return true;
    }
    n -= host[n - 1] == '.'; /* A name may be written with its root. */
    if (same_name(host, n, "localhost")) {
        return true;
    }
    for (uint32_t i = 0; i < hosts_n; i++) {
        if (same_name(host, n, hosts[i])) {
            return true;
        }
    }
    return false;
}

bool http_origin_fits(const char *origin, bool tls, const char *host)
{
    const char *scheme = tls ? "https://" : "http://";
    const size_t n = strlen(scheme);

    return strncasecmp(origin, scheme, n) == 0 && strcasecmp(origin + n, host) == 0;
}

bool http_bearer_parse(const char *header, uint8_t out[HTTP_BEARER_BYTES])
{
    static const char scheme[] = "Bearer ";

    if (strncasecmp(header, scheme, strlen(scheme)) != 0) {
        return false;
    }
    header += strlen(scheme);
    header += strspn(header, " ");
    if (strnlen(header, (size_t)2 * HTTP_BEARER_BYTES + 1) != (size_t)2 * HTTP_BEARER_BYTES) {
        return false;
    }
    for (size_t i = 0; i < HTTP_BEARER_BYTES; i++) {
        const int high = hex_value(header[2 * i]), low = hex_value(header[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* ---- entity tags ---- */

static const char blanks[] = " \t";

/* After an entry: at the next one, or at the end. */
static bool skip_comma(const char **at)
{
    const char *p = *at + strspn(*at, blanks);

    if (*p != ',' && *p != '\0') {
        return false;
    }
    *at = p + strspn(p, ", \t");
    return true;
}

int http_etag_next(const char **at, struct http_etag *tag_out)
{
    struct http_etag tag = {0};
    const char *p = *at + strspn(*at, ", \t");

    if (*p == '\0') {
        *at = p;
        return MU_ENOENT;
    }
    if (*p == '*') {
        tag.any = true;
        p++;
    } else {
        tag.weak = strncmp(p, "W/", 2) == 0;
        p += tag.weak ? 2 : 0;
        if (*p++ != '"') {
            return MU_EINVAL;
        }
        tag.text = p;
        tag.n = strcspn(p, "\"");
        p += tag.n;
        if (*p++ != '"') {
            return MU_EINVAL;
        }
    }
    if (!skip_comma(&p) || (tag.any && *p != '\0')) {
        return MU_EINVAL;
    }
    *at = p;
    *tag_out = tag;
    return MU_OK;
}

int http_etag_match(const char *list, const char *etag, bool weakly)
{
    struct http_etag tag;
    uint32_t n = 0;
    bool fits = false;
    int rc;

    while ((rc = http_etag_next(&list, &tag)) == MU_OK) {
        if (tag.any && n > 0) {
            return MU_EINVAL;
        }
        n++;
        if (etag == NULL) {
            continue;
        }
        fits =
            fits || tag.any ||
            ((weakly || !tag.weak) && strlen(etag) == tag.n && memcmp(etag, tag.text, tag.n) == 0);
    }
    if (rc != MU_ENOENT || n == 0) {
        return MU_EINVAL;
    }
    return fits ? MU_OK : MU_ENOENT;
}
