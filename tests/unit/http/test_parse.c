/* What is read from a request, without one. */
#include "unit/unit.h"

#include "http/parse.h"

#include <string.h>

static char buf[256];
static const char *params[HTTP_PARAMS_MAX];

static bool fits(const char *route, const char *path)
{
    memset(buf, 'x', sizeof(buf));
    return http_route_fits(route, path, buf, params);
}

static void a_literal_path_fits_itself_only(void **state)
{
    assert_true(fits("/", "/"));
    assert_true(fits("/a/b", "/a/b"));
    assert_true(fits("/a/b", "/%61/b"));
    static const char *const others[] = {"/a", "/a/b/", "/a/b/c", "/a/bb", "/A/b", "a/b", "", "//"};

    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_false(fits("/a/b", others[i]));
        assert_false(fits("/", others[i]));
    }
    assert_false(fits("/a", "/"));
}

static void a_parameter_is_one_decoded_segment(void **state)
{
    assert_true(fits("/x/{a}/y/{b}", "/x/1%2F2/y/%20"));
    assert_string_equal(params[0], "1/2");
    assert_string_equal(params[1], " ");
    assert_true(fits("/{a}", "/+"));
    assert_string_equal(params[0], "+");
    static const char *const others[] = {"/x//y/b",    "/x/a/y/",   "/x/./y/b",  "/x/../y/b",
                                         "/x/%2e/y/b", "/x/%/y/b",  "/x/%4/y/b", "/x/%zz/y/b",
                                         "/x/%00/y/b", "/x/a/y/b/", "/x/a/z/b"};

    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_false(fits("/x/{a}/y/{b}", others[i]));
    }
}

static void the_rest_is_one_segment_or_more(void **state)
{
    assert_true(fits("/k/{rest...}", "/k/a"));
    assert_string_equal(params[0], "a");
    assert_true(fits("/{j}/k/{rest...}", "/j/k/a%20b/c/d"));
    assert_string_equal(params[0], "j");
    assert_string_equal(params[1], "a b/c/d");
    static const char *const others[] = {"/k", "/k/", "/k/a/", "/k/a//b", "/k/a/../b", "/k/%2e%2e"};

    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_false(fits("/k/{rest...}", others[i]));
    }
}

static void routes_are_checked_for_their_form(void **state)
{
    assert_true(http_route_valid("/"));
    assert_true(http_route_valid("/a/{b}/{c...}"));
    assert_true(http_route_valid("/{a}/{b}/{c}/{d}"));
    assert_false(http_route_valid("/{a}/{b}/{c}/{d}/{e}"));
    assert_false(http_route_valid("/{a...}/b"));
    assert_false(http_route_valid("/a/"));
    assert_false(http_route_valid("/a//b"));
    assert_false(http_route_valid("a"));
    assert_false(http_route_valid(""));
}

static void a_query_is_split_and_decoded(void **state)
{
    struct http_pair pairs[HTTP_PAIRS_MAX];
    char text[] = "a=1&b=x%3D%26y+z&&c&=d&e==&";
    uint32_t n = 99;

    assert_true(http_query_parse(text, pairs, &n));
    assert_int_equal(n, 5);
    assert_string_equal(pairs[0].name, "a");
    assert_string_equal(pairs[0].value, "1");
    assert_string_equal(pairs[1].value, "x=&y z");
    assert_string_equal(pairs[2].name, "c");
    assert_string_equal(pairs[2].value, "");
    assert_string_equal(pairs[3].name, "");
    assert_string_equal(pairs[4].value, "=");
    char empty[] = "", broken[] = "a=1&b=%4", zero[] = "%00=1";

    assert_true(http_query_parse(empty, pairs, &n));
    assert_int_equal(n, 0);
    n = 99;
    assert_false(http_query_parse(broken, pairs, &n));
    assert_false(http_query_parse(zero, pairs, &n));
    assert_int_equal(n, 99);
}

static void a_host_is_localhost_an_address_or_a_known_name(void **state)
{
    static const char *const known[] = {"node-1.example"};
    static const char *const good[] = {"localhost",  "LOCALHOST:80", "127.0.0.1",
                                       "10.0.0.1:5", "[::1]",        "[fe80::1]:80",
                                       "localhost.", "localhost:",   "Node-1.Example:9"};
    static const char *const bad[] = {"",
                                      ":80",
                                      "evil",
                                      "localhost.evil",
                                      "xlocalhost",
                                      "[::1",
                                      "[::1]x",
                                      "[evil]",
                                      "[]",
                                      "::1",
                                      "1.2.3",
                                      "127.0.0.1.evil",
                                      "localhost:x",
                                      "a@localhost",
                                      "localhost,evil",
                                      ".",
                                      "node-1.example.evil"};

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(http_host_fits(good[i], known, 1));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(http_host_fits(bad[i], known, 1));
    }
    assert_false(http_host_fits("node-1.example", NULL, 0));
}

static void a_bearer_is_64_hex_digits(void **state)
{
    uint8_t out[HTTP_BEARER_BYTES];
    char text[128] = "Bearer ";

    for (int i = 0; i < 32; i++) {
        strcat(text, "aF");
    }
    assert_true(http_bearer_parse(text, out));
    assert_int_equal(out[0], 0xaf);
    assert_int_equal(out[31], 0xaf);
    memcpy(text, "bEARER", 6);
    assert_true(http_bearer_parse(text, out));
    strcat(text, "0");
    assert_false(http_bearer_parse(text, out));
    text[70] = '\0';
    assert_false(http_bearer_parse(text, out));
    text[20] = 'g';
    strcat(text, "0");
    assert_false(http_bearer_parse(text, out));
    assert_false(http_bearer_parse("", out));
    assert_false(http_bearer_parse("Bearer", out));
    assert_false(http_bearer_parse("Basic abc", out));
}

static void tags_fit_strongly_or_weakly(void **state)
{
    assert_int_equal(http_etag_match("\"7\"", "7", false), MU_OK);
    assert_int_equal(http_etag_match("\"7\"", "70", false), MU_ENOENT);
    assert_int_equal(http_etag_match(" \"6\" ,, W/\"x\",\t\"7\" ", "7", false), MU_OK);
    assert_int_equal(http_etag_match("\"a,b\", \"c\"", "a,b", false), MU_OK);
    assert_int_equal(http_etag_match("W/\"7\"", "7", false), MU_ENOENT);
    assert_int_equal(http_etag_match("W/\"7\"", "7", true), MU_OK);
    assert_int_equal(http_etag_match("*", "7", false), MU_OK);
    assert_int_equal(http_etag_match(" * ", "7", true), MU_OK);
    assert_int_equal(http_etag_match("*", NULL, true), MU_ENOENT);
    assert_int_equal(http_etag_match("\"7\"", NULL, true), MU_ENOENT);
    assert_int_equal(http_etag_match("\"\"", "", true), MU_OK);
}

/* A list that can't be read must never count as one that does not fit. */
static void a_broken_list_of_tags_is_told_apart(void **state)
{
    static const char *const lists[] = {
        "",    " ",  ",",        "7",        "\"7", "7\"", "\"7\"x",   "\"7\" \"8\"", "w/\"7\"",
        "W/7", "W/", "*, \"7\"", "\"7\", *", "**",  "*x",  "\"7\", 8", "W/*"};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        assert_int_equal(http_etag_match(lists[i], "7", false), MU_EINVAL);
        assert_int_equal(http_etag_match(lists[i], "7", true), MU_EINVAL);
        assert_int_equal(http_etag_match(lists[i], NULL, true), MU_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_literal_path_fits_itself_only),
        cmocka_unit_test(a_parameter_is_one_decoded_segment),
        cmocka_unit_test(the_rest_is_one_segment_or_more),
        cmocka_unit_test(routes_are_checked_for_their_form),
        cmocka_unit_test(a_query_is_split_and_decoded),
        cmocka_unit_test(a_host_is_localhost_an_address_or_a_known_name),
        cmocka_unit_test(a_bearer_is_64_hex_digits),
        cmocka_unit_test(tags_fit_strongly_or_weakly),
        cmocka_unit_test(a_broken_list_of_tags_is_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
