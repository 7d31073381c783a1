/* The HTTP side of a real orchestrator: who may ask what, jobs, generations, events, figures. */
#include "orchestrator/web.h"
#include "store/store.h"
#include "unit/orchestrator/web_kit.h"
#include "unit/unit.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether the journal refuses what it is given; shared with the server. */
static volatile int *refuse;

int __real_store_append(struct store *st, const void *data, size_t n, uint64_t cookie);
int __wrap_store_append(struct store *st, const void *data, size_t n, uint64_t cookie);

int __wrap_store_append(struct store *st, const void *data, size_t n, uint64_t cookie)
{
    return *refuse ? MU_EAGAIN : __real_store_append(st, data, n, cookie);
}

static const char *text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text != NULL ? text : "(null)";
}

static json_int_t number_of(const json_t *json, const char *name)
{
    return json_integer_value(json_object_get(json, name));
}

/* ---- who may ask ---- */

static void health_needs_no_token(void **state)
{
    web_gives(*state, HTTP_NOBODY, "GET", "/healthz", NULL, NULL, 200, "ok");
    web_gives(*state, HTTP_NOBODY, "GET", "/readyz", NULL, NULL, 200, "ok");
    web_gives(*state, HTTP_NOBODY, "GET", "/", NULL, NULL, 200, "/v1/jobs/{job}/members");
}

/* A path that fits the route. */
static void cookie_of(const struct web_reply *r, char *cookie, size_t cap)
{
    const char *set = web_header(r, "Set-Cookie");

    assert_non_null(set);
    assert_non_null(strstr(set, "HttpOnly"));
    assert_non_null(strstr(set, "SameSite=Strict"));
    snprintf(cookie, cap, "Cookie: %.*s\r\n", (int)strcspn(set, ";"), set);
}

/* What a page needs, as its EventSource sends no token. */
static void a_session_has_the_rights_of_the_token_that_began_it(void **state)
{
    struct kit *k = *state;
    char cookie[256], with_origin[512];
    struct web_reply r;

    web_gives(k, HTTP_NOBODY, "POST", "/v1/session", NULL, NULL, 401, NULL);
    web_gives(k, HTTP_VIEWER, "POST", "/v1/session", "Origin: http://evil.example\r\n", NULL, 403,
              NULL);
    r = web_ask(k, HTTP_VIEWER, "POST", "/v1/session", NULL, NULL);
    assert_int_equal(r.status, 200);
    cookie_of(&r, cookie, sizeof(cookie));
    free(r.body);
    snprintf(with_origin, sizeof(with_origin), "%sOrigin: http://localhost\r\n", cookie);
    web_gives(k, HTTP_NOBODY, "GET", "/v1/jobs", cookie, NULL, 200, "jobs");
    web_gives(k, HTTP_NOBODY, "GET", "/v1/jobs", "Cookie: muster_session=00\r\n", NULL, 401, NULL);
    web_gives(k, HTTP_NOBODY, "PUT", "/v1/jobs/j/config/a", with_origin, "1", 403, "viewer");
    web_gives(k, HTTP_NOBODY, "DELETE", "/v1/session", cookie, NULL, 403, "Origin");
    web_gives(k, HTTP_NOBODY, "DELETE", "/v1/session", with_origin, NULL, 200, NULL);
    web_gives(k, HTTP_NOBODY, "GET", "/v1/jobs", cookie, NULL, 401, NULL);
}

static void the_page_is_for_everybody_and_shows_nothing_by_itself(void **state)
{
    struct web_reply r = web_ask(*state, HTTP_NOBODY, "GET", "/ui/index.html", NULL, NULL);

    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "ui.js"));
    assert_null(strstr(r.head, "default-src 'none'")); /* Or else its script would not run. */
    free(r.body);
    web_gives(*state, HTTP_NOBODY, "GET", "/ui/ui.js", NULL, NULL, 200, "EventSource");
    web_gives(*state, HTTP_NOBODY, "GET", "/ui/other", NULL, NULL, 404, "/ui/index.html");
}

static void path_of(const char *route, char *path, size_t cap)
{
    size_t n = 0;

    for (const char *p = route; *p != '\0' && n + 2 < cap; p++) {
        if (*p == '{') {
            path[n++] = 'x';
            p += strcspn(p, "}");
        } else {
            path[n++] = *p;
        }
    }
    path[n] = '\0';
}

static void every_route_is_for_its_role_and_those_above(void **state)
{
    for (uint32_t i = 0; i < web_routes_n; i++) {
        const struct http_route *route = &web_routes[i];
        char path[128];

        path_of(route->path, path, sizeof(path));
        for (enum http_role role = HTTP_NOBODY; role <= HTTP_OPERATOR; role++) {
            struct web_reply r = web_ask(*state, role, route->method, path, NULL, NULL);
            unsigned denied = role == HTTP_NOBODY ? 401 : 403;

            if ((r.status == denied) != (role < route->role)) {
                fail_msg("%s %s as %s: %s", route->method, path, web_role(role), r.head);
            }
            if (r.status >= 400) {
                json_t *json = json_loads(r.body, 0, NULL);

                assert_true(json_is_string(json_object_get(json, "error")));
                json_decref(json);
            }
            free(r.body);
        }
    }
}

static void a_job_that_is_not_there_is_404_everywhere(void **state)
{
    for (uint32_t i = 0; i < web_routes_n; i++) {
        char path[128];

        if (strstr(web_routes[i].path, "{job}") != NULL) {
            path_of(web_routes[i].path, path, sizeof(path));
            web_gives(*state, HTTP_OPERATOR, web_routes[i].method, path, NULL, NULL, 404,
                      "there is no job 'x'");
        }
    }
}

static void it_is_not_ready_while_the_journal_can_t_be_written(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;

    puppet_init(&a, "job", "a", 1, 2);
    puppet_init(&b, "job", "b", 1, 2);
    puppet_join(&a, k);
    *refuse = 1;
    puppet_connect(&b, k);
    kit_say(b.cl, WIRE_HELLO, &b.hello, 0);
    puppet_next(&b, WIRE_REFUSED);
    web_gives(k, HTTP_NOBODY, "GET", "/readyz", NULL, NULL, 503, "journal");
    web_gives(k, HTTP_NOBODY, "GET", "/healthz", NULL, NULL, 200, "ok");
    web_gives(k, HTTP_OPERATOR, "PUT", "/v1/jobs/job/config/lr", NULL, "1", 503, "journal");
    web_gives(k, HTTP_VIEWER, "GET", "/v1/jobs/job/config/lr", NULL, NULL, 404, NULL);
    *refuse = 0;
    puppet_join(&b, k);
    web_gives(k, HTTP_NOBODY, "GET", "/readyz", NULL, NULL, 200, "ok");
    web_gives(k, HTTP_OPERATOR, "PUT", "/v1/jobs/job/config/lr", NULL, "1", 201, "\"lr\"");
    puppet_close(&a);
    puppet_close(&b);
}

/* ---- jobs and generations ---- */

static void a_job_is_as_status_has_it(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;
    json_t *status, *job, *members, *all, *one;

    puppet_pair(&a, &b, k, 2);
    status = kit_status(k, "job");
    job = web_json(k, "/v1/jobs/job");
    members = web_json(k, "/v1/jobs/job/members");
    all = web_json(k, "/v1/jobs");
    one = json_array_get(json_object_get(all, "jobs"), 0);
    assert_true(json_equal(status, job));
    assert_int_equal(json_array_size(json_object_get(members, "members")), 2);
    assert_true(json_equal(json_object_get(members, "members"), json_object_get(job, "members")));
    assert_true(json_equal(json_object_get(members, "waiting"), json_object_get(job, "waiting")));
    assert_string_equal(text_of(one, "job"), "job");
    assert_int_equal(number_of(one, "size"), 2);
    assert_int_equal(number_of(one, "nodes"), 2);
    assert_null(json_object_get(one, "members"));
    assert_string_equal(text_of(json_object_get(all, "orchestrator"), "version"), mu_version());
    json_decref(status);
    json_decref(job);
    json_decref(members);
    json_decref(all);
    puppet_close(&a);
    puppet_close(&b);
}

/* Generation 1 of "a" and "b", active; then 2, of "a" alone. */
static void two_generations(struct kit *k, struct puppet *a, struct puppet *b)
{
    struct msg_bye bye = {0};

    puppet_pair(a, b, k, 1);
    puppet_report(a, PHASE_IN, 1);
    puppet_report(b, PHASE_IN, 1);
    puppet_active(a, 1);
    bye.node = b->hello.node;
    bye.store = b->hello.store;
    bye.incarnation = b->hello.incarnation;
    kit_say(b->cl, WIRE_BYE, &bye, 0);
    puppet_holds(a, 2);
}

static void check_generations(const json_t *list, bool replayed)
{
    const json_t *first = json_array_get(list, 0), *second = json_array_get(list, 1);
    const json_t *members = json_object_get(first, "members");

    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(number_of(first, "number"), 1);
    assert_string_equal(text_of(first, "kind"), "fresh");
    assert_int_equal(number_of(first, "size"), 2);
    assert_true(json_is_true(json_object_get(first, "active")));
    assert_string_equal(text_of(json_array_get(members, 0), "node"), "a");
    assert_string_equal(text_of(json_array_get(members, 0), "worker"), "n1.0#1");
    assert_string_equal(text_of(json_array_get(members, 1), "node"), "b");
    assert_int_equal(number_of(json_array_get(members, 1), "rank"), 1);
    assert_int_equal(number_of(second, "number"), 2);
    assert_string_equal(text_of(second, "kind"), "failure");
    assert_int_equal(number_of(second, "from"), 1);
    assert_int_equal(number_of(second, "size"), 1);
    assert_true(json_is_false(json_object_get(second, "active")));
    assert_true(json_is_null(json_object_get(second, "active_time")));
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(list, i);

        assert_true(json_is_null(json_object_get(one, "time")) == replayed);
        assert_true(json_is_null(json_object_get(one, "reason")) == replayed);
    }
    assert_true(json_is_null(json_object_get(first, "active_time")) == replayed);
    if (!replayed) {
        assert_non_null(strstr(text_of(second, "reason"), "node 'b'"));
        assert_int_equal(strlen(text_of(second, "time")), strlen("2026-11-16T03:55:46.123Z"));
    }
}

static void generations_have_members_times_and_reasons_and_survive_a_restart(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;
    json_t *all, *later;

    two_generations(k, &a, &b);
    all = web_json(k, "/v1/jobs/job/generations");
    check_generations(json_object_get(all, "generations"), false);
    json_decref(all);
    later = web_json(k, "/v1/jobs/job/generations?since=1");
    assert_int_equal(json_array_size(json_object_get(later, "generations")), 1);
    json_decref(later);
    kit_kill(k);
    kit_start(k);
    all = web_json(k, "/v1/jobs/job/generations");
    check_generations(json_object_get(all, "generations"), true);
    json_decref(all);
    puppet_close(&a);
    puppet_close(&b);
}

/* ---- events ---- */

static json_t *events_of(const struct kit *k, const char *path)
{
    json_t *all = web_json(k, path), *events = json_incref(json_object_get(all, "events"));

    json_decref(all);
    return events;
}

static void events_are_listed_by_number_and_by_id(void **state)
{
    struct kit *k = *state;
    struct puppet a;
    json_t *all, *events, *later;
    char path[256];
    size_t n;

    puppet_alone(&a, k, "job", "a");
    all = web_json(k, "/v1/jobs/job/events");
    events = json_object_get(all, "events");
    n = json_array_size(events);
    assert_true(n >= 4);
    assert_true(json_is_false(json_object_get(all, "gap")));
    assert_string_equal(text_of(json_array_get(events, 0), "event"), "restarted");
    assert_string_equal(text_of(json_array_get(events, 1), "event"), "joined");
    assert_string_equal(text_of(json_array_get(events, 1), "node"), "a");
    assert_string_equal(text_of(json_array_get(events, n - 1), "id"), text_of(all, "last"));
    later = events_of(k, "/v1/jobs/job/events?since=1");
    assert_int_equal(json_array_size(later), n - 1);
    json_decref(later);
    snprintf(path, sizeof(path), "/v1/events?since=%s",
             text_of(json_array_get(events, n - 2), "id"));
    later = events_of(k, path);
    assert_int_equal(json_array_size(later), 1);
    assert_true(json_equal(json_array_get(later, 0), json_array_get(events, n - 1)));
    json_decref(later);
    json_decref(all);
    all = web_json(k, "/v1/events?since=0123-1");
    assert_true(json_is_true(json_object_get(all, "gap")));
    assert_int_equal(json_array_size(json_object_get(all, "events")), n);
    json_decref(all);
    web_gives(k, HTTP_VIEWER, "GET", "/v1/events?since=now", NULL, NULL, 400, "since");
    web_gives(k, HTTP_VIEWER, "GET", "/v1/jobs/job/generations?since=-1", NULL, NULL, 400, "since");
    puppet_close(&a);
}

#define SSE "Accept: text/event-stream\r\n"

/* The id of the event that this text is in. */
static void id_before(const char *all, const char *text, char *id, size_t cap)
{
    const char *at = strstr(all, text), *found = NULL;

    for (const char *p = all; (p = strstr(p, "\nid: ")) != NULL && p < at; p++) {
        found = p + 5;
    }
    assert_non_null(found);
    snprintf(id, cap, "%.*s", (int)strcspn(found, "\n"), found);
}

static void a_stream_goes_on_where_the_last_one_ended(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;
    struct web_conn c = web_say(k, HTTP_VIEWER, "GET", "/v1/events", SSE, NULL, 0);
    char id[64], headers[128];
    const char *all;

    all = web_expect(&c, "event: restarted\ndata: {");
    assert_non_null(strstr(all, "200 OK"));
    assert_non_null(strstr(all, "text/event-stream"));
    puppet_alone(&a, k, "job", "a");
    all = web_expect(&c, "event: joined\n");
    assert_null(strstr(all, "gap"));
    id_before(all, "event: joined\n", id, sizeof(id));
    web_hang_up(&c);

    puppet_alone(&b, k, "other", "b");
    snprintf(headers, sizeof(headers), SSE "Last-Event-ID: %s\r\n", id);
    c = web_say(k, HTTP_VIEWER, "GET", "/v1/events", headers, NULL, 0);
    all = web_expect(&c, "node 'b' joined");
    assert_null(strstr(all, "event: restarted"));
    assert_null(strstr(all, "node 'a' joined"));
    assert_non_null(strstr(all, "is warm"));
    assert_null(strstr(all, "event: gap"));
    web_hang_up(&c);
    puppet_close(&a);
    puppet_close(&b);
}

static void an_id_of_an_earlier_life_gets_a_gap_and_all_of_this_one(void **state)
{
    struct kit *k = *state;
    struct web_conn c = web_say(k, HTTP_VIEWER, "GET", "/v1/events?follow=1", NULL, NULL, 0);
    char id[64], headers[128];
    const char *all = web_expect(&c, "event: restarted\n");

    id_before(all, "event: restarted\n", id, sizeof(id));
    kit_kill(k);
    web_hang_up(&c);
    kit_start(k);
    snprintf(headers, sizeof(headers), SSE "Last-Event-ID: %s\r\n", id);
    c = web_say(k, HTTP_VIEWER, "GET", "/v1/events", headers, NULL, 0);
    all = web_expect(&c, "event: restarted\n");
    assert_non_null(strstr(all, "event: gap\n"));
    assert_true(strstr(all, "event: gap\n") < strstr(all, "event: restarted\n"));
    web_hang_up(&c);
    c = web_say(k, HTTP_VIEWER, "GET", "/v1/events", SSE "Last-Event-ID: what?\r\n", NULL, 0);
    all = web_expect(&c, "event: restarted\n");
    assert_non_null(strstr(all, "event: gap\n"));
    web_hang_up(&c);
}

static void a_job_s_stream_has_no_other_job_s_events(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;
    struct web_conn c;
    const char *all;

    puppet_alone(&a, k, "one", "a");
    c = web_say(k, HTTP_VIEWER, "GET", "/v1/jobs/one/events", SSE, NULL, 0);
    web_expect(&c, "node 'a' joined");
    puppet_alone(&b, k, "two", "b");
    web_gives(k, HTTP_OPERATOR, "PUT", "/v1/jobs/one/config/paused", NULL, "false", 201, NULL);
    all = web_expect(&c, "event: resized\n");
    assert_null(strstr(all, "node 'b'"));
    assert_non_null(strstr(all, "event: restarted\n")); /* What is about no job concerns all. */
    web_hang_up(&c);
    puppet_close(&a);
    puppet_close(&b);
}

/* ---- figures ---- */

static void check_line(const char *line, const char *name, const char *type)
{
    const size_t n = strlen(name);
    char *end;

    if (strncmp(line, name, n) != 0 || (line[n] != '{' && line[n] != ' ')) {
        fail_msg("'%s' stands under %s", line, name);
    }
    assert_true((strcmp(type, "counter") == 0) == (n > 6 && strcmp(name + n - 6, "_total") == 0));
    line = strrchr(line, ' ');
    assert_non_null(line);
    assert_true(strtod(line, &end) >= 0);
    assert_true(*end == '\0' && end > line + 1);
}

/* HELP, then TYPE, then samples of that name, and each name once. */
static void check_format(char *text)
{
    char help[128] = "", name[128] = "", type[32] = "", *save = NULL;

    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_int_equal(sscanf(line, "# HELP %127s", help), 1);
        } else if (line[0] == '#') {
            assert_int_equal(sscanf(line, "# TYPE %127s %31s", name, type), 2);
            assert_string_equal(name, help);
        } else {
            check_line(line, name, type);
        }
    }
}

static void metrics_are_what_prometheus_reads(void **state)
{
    static const char *const wanted[] = {"muster_build_info{version=\"",
                                         "muster_start_time_seconds ",
                                         "muster_jobs{state=\"running\"} 1\n",
                                         "muster_job_generation{job=\"job\"} 2\n",
                                         "muster_job_members{job=\"job\"} 1\n",
                                         "muster_nodes{state=\"member\"} 1\n",
                                         "muster_generations_total{kind=\"fresh\"} 1\n",
                                         "muster_generations_total{kind=\"failure\"} 1\n",
                                         "muster_lost_total{what=\"node\"} ",
                                         "muster_renewals_total 1\n",
                                         "muster_refused_total{what=\"token\"} 0\n",
                                         "muster_connections 1\n",
                                         "muster_settings_changes_total 1\n",
                                         "muster_journal_bytes ",
                                         "muster_journal_failures_total 0\n",
                                         "muster_journal_pending 0\n",
                                         "muster_http_requests_total{code=\"2xx\"} ",
                                         "muster_http_streams 0\n",
                                         "muster_http_gaps_total 0\n",
                                         "process_cpu_seconds_total ",
                                         "process_resident_memory_bytes ",
                                         "process_open_fds ",
                                         "process_start_time_seconds "};
    struct kit *k = *state;
    struct web_reply r;
    struct puppet a, b;

    two_generations(k, &a, &b);
    puppet_close(&b);
    puppet_renew(&a);
    web_gives(k, HTTP_OPERATOR, "PUT", "/v1/jobs/job/config/lr", NULL, "1", 201, NULL);
    do { /* until the other's connection is known to be closed */
        r = web_ask(k, HTTP_VIEWER, "GET", "/metrics", NULL, NULL);
    } while (strstr(r.body, "muster_connections 2\n") != NULL && (free(r.body), true));
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(web_header(&r, "Content-Type"), "version=0.0.4"));
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        if (strstr(r.body, wanted[i]) == NULL) {
            fail_msg("no '%s' in: %s", wanted[i], r.body);
        }
    }
    check_format(r.body);
    free(r.body);
    puppet_close(&a);
}

static void promtool_finds_no_fault_in_metrics(void **state)
{
    struct kit *k = *state;
    struct web_reply r;
    struct puppet a;
    FILE *check;

    if (system("command -v promtool > /dev/null") != 0) {
        print_message("# promtool is not installed (Debian: prometheus): skipped\n");
        skip();
    }
    puppet_alone(&a, k, "job", "a");
    r = web_ask(k, HTTP_VIEWER, "GET", "/metrics", NULL, NULL);
    check = popen("promtool check metrics >&2", "w");
    assert_non_null(check);
    assert_int_equal(fwrite(r.body, 1, r.body_n, check), r.body_n);
    assert_int_equal(pclose(check), 0);
    free(r.body);
    puppet_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(health_needs_no_token, web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(a_session_has_the_rights_of_the_token_that_began_it,
                                        web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(the_page_is_for_everybody_and_shows_nothing_by_itself,
                                        web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(every_route_is_for_its_role_and_those_above,
                                        web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(a_job_that_is_not_there_is_404_everywhere,
                                        web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(it_is_not_ready_while_the_journal_can_t_be_written,
                                        web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(a_job_is_as_status_has_it, web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(
            generations_have_members_times_and_reasons_and_survive_a_restart, web_setup_running,
            kit_teardown),
        cmocka_unit_test_setup_teardown(events_are_listed_by_number_and_by_id, web_setup_running,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(a_stream_goes_on_where_the_last_one_ended,
                                        web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(an_id_of_an_earlier_life_gets_a_gap_and_all_of_this_one,
                                        web_setup_running, kit_teardown),
        cmocka_unit_test_setup_teardown(a_job_s_stream_has_no_other_job_s_events, web_setup_running,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(metrics_are_what_prometheus_reads, web_setup_running,
                                        kit_teardown),
        cmocka_unit_test_setup_teardown(promtool_finds_no_fault_in_metrics, web_setup_running,
                                        kit_teardown),
    };

    refuse = mmap(NULL, sizeof(*refuse), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
