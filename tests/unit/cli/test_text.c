#include "unit/unit.h"

#include "cli/event_text.h"
#include "cli/setting_text.h"
#include "cli/status_text.h"
#include "core/cluster.h"
#include "orchestrator/event_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 12:03:44 on some day, UTC. */
#define SOME_TIME_MS ((uint64_t)(86400 * 365 + 12 * 3600 + 3 * 60 + 44) * 1000 + 5)

static void expect_line(const struct msg_event *e, const char *line)
{
    char buf[1024];

    event_line(e, buf, sizeof(buf));
    assert_string_equal(buf, line);
}

static void an_event_is_a_line_with_its_time_and_job(void **state)
{
    struct msg_event e = {.time_ms = SOME_TIME_MS,
                          .kind = NOTE_GENERATION,
                          .job = "default",
                          .generation = 7,
                          .value = 2,
                          .reason = "failure"};

    expect_line(&e, "12:03:44  default     generation 7 (failure) has 2 members");
    e = (struct msg_event){.time_ms = SOME_TIME_MS,
                           .kind = NOTE_LOST,
                           .job = "a-job-with-a-long-name",
                           .node = "b",
                           .worker = wid_make(3, 1, 2),
                           .value = 137,
                           .reason = "it exited"};
    expect_line(&e, "12:03:44  a-job-with-a-long-name  worker n3.1#2 of node 'b' lost: it exited "
                    "(killed by signal 9)");
}

static void an_event_of_no_job_has_a_dash_for_it(void **state)
{
    struct msg_event e = {.time_ms = SOME_TIME_MS, .kind = NOTE_REFUSED, .reason = "no"};

    expect_line(&e, "12:03:44  -           refused: no");
}

/* A newer orchestrator may send what this command has no words for. */
static void an_event_of_a_newer_kind_is_still_a_line_and_an_object(void **state)
{
    struct msg_event e = {.time_ms = SOME_TIME_MS, .kind = 200, .job = "j"};
    char buf[1024];
    json_t *json = event_json(&e, NULL);

    event_line(&e, buf, sizeof(buf));
    assert_non_null(strstr(buf, "200"));
    assert_string_equal(json_string_value(json_object_get(json, "event")), "unknown");
    json_decref(json);
}

static void a_line_that_does_not_fit_is_cut(void **state)
{
    struct msg_event e = {.time_ms = SOME_TIME_MS, .kind = NOTE_JOINED, .job = "j", .node = "n"};
    char buf[16];

    event_line(&e, buf, sizeof(buf));
    assert_string_equal(buf, "12:03:44  j    ");
}

static void what_an_event_has_not_is_null_in_its_object(void **state)
{
    struct msg_event e = {.number = 9,
                          .time_ms = SOME_TIME_MS,
                          .kind = NOTE_LOST,
                          .job = "j",
                          .node = "b",
                          .generation = 4,
                          .reason = "silent"};
    json_t *json = event_json(&e, NULL);
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);

    assert_string_equal(text, "{\"event\":\"lost\",\"generation\":4,\"job\":\"j\",\"node\":\"b\","
                              "\"number\":9,\"reason\":\"silent\","
                              "\"text\":\"job 'j': node 'b' lost: silent\","
                              "\"time\":\"1971-01-01T12:03:44.005Z\",\"value\":0,"
                              "\"worker\":null}");
    free(text);
    json_decref(json);
    e.worker = wid_make(3, 0, 2);
    json = event_json(&e, "ab12");
    assert_string_equal(json_string_value(json_object_get(json, "worker")), "n3.0#2");
    assert_string_equal(json_string_value(json_object_get(json, "id")), "ab12-9");
    json_decref(json);
}

/* What print(json) writes on stdout. */
static void expect_printed(void (*print)(json_t *json), const char *from, const char *want)
{
    json_error_t why;
    json_t *json = json_loads(from, 0, &why);
    FILE *file = tmpfile();
    int saved = dup(STDOUT_FILENO);
    char text[4096];
    size_t n;

    assert_non_null(json);
    assert_non_null(file);
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    print(json);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    json_decref(json);
    assert_string_equal(text, want);
}

static void print_plain(json_t *json)
{
    status_print(json, false);
}

static void print_coloured(json_t *json)
{
    status_print(json, true);
}

static void print_self(json_t *json)
{
    status_print_self(json);
}

#define JOB                                                                                 \
    "{\"job\":\"default\",\"run\":1,\"state\":\"running\",\"why\":\"\",\"generation\":7,"   \
    "\"active\":6,\"mode\":\"restart\",\"min\":1,\"max\":3,\"step\":0,\"checkpoint\":0,"    \
    "\"members\":[{\"rank\":0,\"worker\":\"n1.0#1\",\"node\":\"a\",\"slot\":0,"             \
    "\"role\":\"worker\",\"state\":\"member\",\"address\":\"10.0.0.1\",\"step\":0},"        \
    "{\"rank\":1,\"worker\":\"n12.0#1\",\"node\":\"node-b\",\"slot\":0,\"role\":\"chief\"," \
    "\"state\":\"gone\",\"address\":\"\",\"step\":0}],"                                     \
    "\"waiting\":[{\"node\":\"c\",\"role\":\"worker\",\"slots\":2,\"state\":\"warming\","   \
    "\"address\":\"\"}]}"

static void a_job_is_a_line_and_a_table_by_rank(void **state)
{
    expect_printed(
        print_plain, JOB,
        "job default  run 1  running  generation 7 (active: 6)  2 members, 1 waiting  (1 to 3 "
        "nodes, mode restart)\n"
        "  RANK  WORKER   NODE    SLOT  ROLE    STATE   ADDRESS\n"
        "     0  n1.0#1   a          0  worker  member  10.0.0.1\n"
        "     1  n12.0#1  node-b     0  chief   gone\n"
        "  waiting:\n"
        "  NODE  SLOTS  ROLE    STATE\n"
        "  c         2  worker  warming\n");
}

static void a_job_that_trains_says_how_it_goes(void **state)
{
    expect_printed(
        print_plain,
        "{\"job\":\"j\",\"run\":1,\"state\":\"running\",\"generation\":3,\"active\":3,"
        "\"mode\":\"inprocess\",\"min\":1,\"max\":4,\"step\":1201,\"metrics\":{\"step\":1200,"
        "\"loss\":0.43210000000000004,\"accuracy\":0.875,\"norm\":null},"
        "\"members\":[],\"waiting\":[]}",
        "job j  run 1  running  generation 3  step 1201  0 members  (1 to 4 nodes, mode "
        "inprocess)\n"
        "  step 1200: loss 0.4321, accuracy 0.875, norm not a number\n");
}

static void an_event_of_training_has_its_numbers(void **state)
{
    struct metric metrics[] = {{"loss", 0x3fe0000000000000}, {"nan", 0x7ff8000000000000}};
    struct msg_event e = {.time_ms = SOME_TIME_MS,
                          .kind = NOTE_METRICS,
                          .job = "j",
                          .value = 41,
                          .reason = "loss 0.5, nan nan",
                          .metrics_n = 2,
                          .metrics = metrics};
    json_t *json = event_json(&e, NULL);
    char *text = json_dumps(json_object_get(json, "metrics"), JSON_COMPACT);

    expect_line(&e, "12:03:44  j           step 41: loss 0.5, nan nan");
    assert_string_equal(text, "{\"step\":41,\"loss\":0.5,\"nan\":null}");
    free(text);
    json_decref(json);
}

static void one_that_was_left_out_is_named_with_its_time(void **state)
{
    struct msg_event e = {.time_ms = SOME_TIME_MS,
                          .kind = NOTE_LEFT_OUT,
                          .job = "j",
                          .node = "b",
                          .worker = wid_make(2, 0, 1),
                          .value = 5250};

    expect_line(&e, "12:03:44  j           worker n2.0#1 of node 'b' did nothing for 5.2 s and is "
                    "left out");
    e.value = 0;
    expect_line(&e, "12:03:44  j           worker n2.0#1 of node 'b' is left out: others can't "
                    "reach it");
}

static void a_job_says_how_far_its_generation_is(void **state)
{
    expect_printed(
        print_plain,
        "{\"job\":\"j\",\"run\":1,\"state\":\"running\",\"generation\":1,\"active\":0,"
        "\"mode\":\"auto\",\"min\":1,\"max\":1,\"members\":[],\"waiting\":[]}",
        "job j  run 1  running  generation 1 (not active yet)  0 members  (1 to 1 nodes, "
        "mode auto)\n");
    expect_printed(print_plain,
                   "{\"job\":\"j\",\"run\":1,\"state\":\"forming\",\"generation\":0,\"active\":0,"
                   "\"why\":\"0 of at least 2 nodes are ready\",\"mode\":\"auto\",\"min\":2,"
                   "\"max\":2,\"members\":[],\"waiting\":[]}",
                   "job j  run 1  forming  generation 0  0 members  (2 to 2 nodes, mode auto)\n"
                   "  0 of at least 2 nodes are ready\n");
}

static void states_are_coloured_only_when_asked_for(void **state)
{
    expect_printed(print_coloured,
                   "{\"job\":\"j\",\"run\":2,\"state\":\"done\",\"generation\":3,\"active\":3,"
                   "\"mode\":\"auto\",\"min\":1,\"max\":1,\"step\":40,\"why\":\"so it is\","
                   "\"members\":[{\"rank\":0,\"state\":\"gone\"}],\"waiting\":[]}",
                   "job j  run 2  \033[32mdone\033[0m  generation 3  step 40  1 member  (1 to 1 "
                   "nodes, mode auto)\n"
                   "  so it is\n"
                   "  RANK  STATE\n"
                   "     0  \033[31mgone\033[0m\n");
}

static void the_orchestrator_is_its_fields(void **state)
{
    expect_printed(print_self,
                   "{\"version\":\"0.1.0\",\"port\":5556,\"journal\":{\"record\":12,"
                   "\"writable\":true,\"error\":\"\"}}",
                   "version: 0.1.0\nport: 5556\njournal record: 12\njournal writable: yes\n");
}

static void an_answer_about_one_job_and_about_all_gives_the_jobs(void **state)
{
    static const struct {
        const char *answer;
        size_t n;
    } cases[] = {
        {"{\"job\":\"a\"}", 1},
        {"{\"orchestrator\":{},\"jobs\":[]}", 0},
        {"{\"orchestrator\":{},\"jobs\":[{\"job\":\"a\"},{\"job\":\"b\"}]}", 2},
        {"{}", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *answer = json_loads(cases[i].answer, 0, NULL);
        json_t *jobs = status_jobs(answer);

        assert_int_equal(json_array_size(jobs), cases[i].n);
        json_decref(jobs);
        json_decref(answer);
    }
}

/* ---- settings ---- */

static void expect_setting(const char *value, size_t n, const char *line)
{
    struct rec_config m = {.key = "k", .version = 4, .value_n = (uint32_t)n};
    char buf[1024];

    m.value = (uint8_t *)(uintptr_t)value;
    setting_line(&m, 3, buf, sizeof(buf));
    assert_string_equal(buf, line);
}

static void a_setting_is_one_line_whatever_its_value(void **state)
{
    (void)state;
    expect_setting("0.1", 3, "k    version 4  0.1");
    expect_setting("", 0, "k    version 4");
    expect_setting("a\nb\\", 4, "k    version 4  a\\nb\\\\");
    expect_setting("\x1b[1m", 4, "k    version 4  \\x1b[1m");
    expect_setting("\xc3\xa9", 2, "k    version 4  \xc3\xa9");
    expect_setting("\xc2\x9b", 2, "k    version 4  \\xc2\\x9b"); /* moves a cursor */
    expect_setting("\xff\xc3", 2, "k    version 4  \\xff\\xc3");
}

/* At 160 bytes, and never within a character. */
static void a_long_value_is_cut(void **state)
{
    char value[200], line[256];

    (void)state;
    memset(value, 'x', sizeof(value));
    memcpy(value + 159, "\xc3\xa9", 2);
    snprintf(line, sizeof(line), "k    version 4  %.159s… (200 bytes)", value);
    expect_setting(value, sizeof(value), line);
}

static void a_removed_setting_says_so(void **state)
{
    struct rec_config m = {.key = "k", .version = 4, .deleted = 1};
    json_t *json = setting_object("j", &m);
    char buf[64];

    (void)state;
    setting_line(&m, 0, buf, sizeof(buf));
    assert_string_equal(buf, "k  version 4  removed");
    assert_true(json_is_true(json_object_get(json, "deleted")));
    assert_null(json_object_get(json, "value"));
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_a_line_with_its_time_and_job),
        cmocka_unit_test(an_event_of_no_job_has_a_dash_for_it),
        cmocka_unit_test(an_event_of_a_newer_kind_is_still_a_line_and_an_object),
        cmocka_unit_test(a_line_that_does_not_fit_is_cut),
        cmocka_unit_test(what_an_event_has_not_is_null_in_its_object),
        cmocka_unit_test(a_job_is_a_line_and_a_table_by_rank),
        cmocka_unit_test(a_job_that_trains_says_how_it_goes),
        cmocka_unit_test(an_event_of_training_has_its_numbers),
        cmocka_unit_test(one_that_was_left_out_is_named_with_its_time),
        cmocka_unit_test(a_job_says_how_far_its_generation_is),
        cmocka_unit_test(states_are_coloured_only_when_asked_for),
        cmocka_unit_test(the_orchestrator_is_its_fields),
        cmocka_unit_test(an_answer_about_one_job_and_about_all_gives_the_jobs),
        cmocka_unit_test(a_setting_is_one_line_whatever_its_value),
        cmocka_unit_test(a_long_value_is_cut),
        cmocka_unit_test(a_removed_setting_says_so),
    };

    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
