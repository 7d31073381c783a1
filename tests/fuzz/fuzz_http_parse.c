/* What is read from a request: the first byte says as what. What is accepted can be written down
 * and is read as the same again. */
#include "fuzz/fuzz.h"
#include "http/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const routes[] = {
    "/",        "/v1/jobs", "/v1/jobs/{job}", "/{a}/{b}/{c}/{d}", "/v1/jobs/{job}/config/{key...}",
    "/{all...}"};

static char *copy(const char *text, size_t n)
{
    char *own = malloc(n + 1);

    mu_assert(own != NULL);
    memcpy(own, text, n);
    own[n] = '\0';
    return own;
}

/* Every byte as %XX but, if `slashes`, the slashes. */
static size_t encode(const char *text, bool slashes, char *out)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        if (slashes && *text == '/') {
            out[n++] = '/';
        } else {
            n += (size_t)sprintf(out + n, "%%%02X", (unsigned char)*text);
        }
    }
    out[n] = '\0';
    return n;
}

/* The path that has these parameters. */
static char *path_of(const char *route, const char *const params[HTTP_PARAMS_MAX], size_t n)
{
    char *path = malloc(strlen(route) + 3 * n + 1);
    size_t at = 0, i = 0;

    mu_assert(path != NULL);
    while (*route != '\0') {
        if (*route != '{') {
            path[at++] = *route++;
            continue;
        }
        const char *end = strchr(route, '}');

        at += encode(params[i++], end[-1] == '.', path + at);
        route = end + 1;
    }
    path[at] = '\0';
    return path;
}

static void check_route(const char *route, const char *text, size_t n)
{
    const char *params[HTTP_PARAMS_MAX] = {0}, *again[HTTP_PARAMS_MAX] = {0};
    char *buf = malloc(n + 1);

    mu_assert(buf != NULL && http_route_valid(route));
    if (http_route_fits(route, text, buf, params)) {
        char *path = path_of(route, params, n);
        char *again_buf = malloc(strlen(path) + 1);
        const bool rest = strstr(route, "...") != NULL;

        mu_assert(again_buf != NULL);
        for (int i = 0; i < HTTP_PARAMS_MAX && params[i] != NULL; i++) {
            mu_assert(params[i][0] != '\0' && strcmp(params[i], ".") != 0 &&
                      strcmp(params[i], "..") != 0);
        }
        /* A decoded slash at an edge, or "a%2F..", can't be told from a segment in the rest. */
        if (http_route_fits(route, path, again_buf, again)) {
            for (int i = 0; i < HTTP_PARAMS_MAX && params[i] != NULL; i++) {
                mu_assert(strcmp(params[i], again[i]) == 0);
            }
        } else {
            mu_assert(rest && strchr(text, '%') != NULL);
        }
        free(again_buf);
        free(path);
    }
    free(buf);
}

static void check_query(char *text, size_t n)
{
    struct http_pair pairs[HTTP_PAIRS_MAX];
    uint32_t pairs_n = UINT32_MAX;

    if (!http_query_parse(text, pairs, &pairs_n)) {
        mu_assert(pairs_n == UINT32_MAX);
        return;
    }
    mu_assert(pairs_n <= HTTP_PAIRS_MAX);
    for (uint32_t i = 0; i < pairs_n; i++) {
        mu_assert(pairs[i].name >= text && pairs[i].name + strlen(pairs[i].name) <= text + n);
        mu_assert(pairs[i].value >= text && pairs[i].value + strlen(pairs[i].value) <= text + n);
    }
}

static void check_decode(const char *text, size_t n, bool form)
{
    char *out = malloc(n + 1), *encoded = malloc(3 * n + 1), *again = malloc(3 * n + 1);

    mu_assert(out != NULL && encoded != NULL && again != NULL);
    if (http_decode(text, n, form, out)) {
        mu_assert(strlen(out) <= n);
        mu_assert(http_decode(encoded, encode(out, false, encoded), form, again));
        mu_assert(strcmp(out, again) == 0);
    }
    free(again);
    free(encoded);
    free(out);
}

static void check_host(const char *text)
{
    static const char *const known[] = {"node-1.example"};

    if (http_host_fits(text, known, 1)) {
        for (const char *p = text; *p != '\0'; p++) {
            mu_assert(isalnum((unsigned char)*p) || strchr(".:-[]", *p) != NULL);
        }
        mu_assert(strlen(text) > 0);
    }
    (void)http_origin_fits(text, true, "localhost");
}

static void check_bearer(const char *text)
{
    uint8_t bytes[HTTP_BEARER_BYTES], again[HTTP_BEARER_BYTES];
    char written[8 + 2 * HTTP_BEARER_BYTES] = "bearer ";

    if (http_bearer_parse(text, bytes)) {
        for (int i = 0; i < HTTP_BEARER_BYTES; i++) {
            sprintf(written + 7 + (size_t)2 * i, "%02X", bytes[i]);
        }
        mu_assert(http_bearer_parse(written, again));
        mu_assert(memcmp(bytes, again, sizeof(bytes)) == 0);
    }
}

static void check_tags(const char *text, size_t n)
{
    const int weakly = http_etag_match(text, "7", true);
    const int strongly = http_etag_match(text, "7", false);
    const char *at = text;
    struct http_etag tag;
    int rc;

    mu_assert((weakly == MU_EINVAL) == (strongly == MU_EINVAL));
    mu_assert(strongly != MU_OK || weakly == MU_OK);
    while ((rc = http_etag_next(&at, &tag)) == MU_OK) {
        mu_assert(tag.any || (tag.text > text && tag.text + tag.n < text + n));
        if (weakly != MU_EINVAL && !tag.any) {
            char *own = copy(tag.text, tag.n);

            mu_assert(http_etag_match(text, own, true) == MU_OK);
            mu_assert(tag.weak || http_etag_match(text, own, false) == MU_OK);
            free(own);
        }
    }
    mu_assert(rc == MU_ENOENT || weakly == MU_EINVAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) {
        return 0;
    }
    char *text = copy((const char *)data + 1, n - 1);

    n = strlen(text);
    switch (data[0] % 6) {
    case 0:
        for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
            check_route(routes[i], text, n);
        }
        break;
    case 1:
        check_query(text, n);
        break;
    case 2:
        check_decode(text, n, data[0] & 0x80);
        break;
    case 3:
        check_host(text);
        break;
    case 4:
        check_bearer(text);
        break;
    default:
        check_tags(text, n);
    }
    free(text);
    return 0;
}
