#include "cli/status_text.h"

#include "cli/table.h"

#include <stdio.h>
#include <string.h>

#define CELL_MAX 80

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

/* What stands in a cell; "" if the worker has no such thing. */
static void cell(const json_t *worker, const char *key, char *buf, size_t cap)
{
    const json_t *value = json_object_get(worker, key);

    if (json_is_string(value)) {
        snprintf(buf, cap, "%s", json_string_value(value));
    } else if (json_is_integer(value)) {
        snprintf(buf, cap, "%lld", (long long)json_integer_value(value));
    } else {
        *buf = '\0';
    }
}

static const char *colour(const char *state)
{
    static const struct {
        const char *state, *code;
    } codes[] = {
        {"member", "32"},  {"running", "32"}, {"done", "32"},    {"warm", "36"},
        {"serving", "32"}, {"warming", "36"}, {"forming", "36"}, {"leaving", "33"},
        {"holding", "33"}, {"ending", "33"},  {"gone", "31"},    {"failed", "31"},
    };

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        if (strcmp(codes[i].state, state) == 0) {
            return codes[i].code;
        }
    }
    return "0";
}

/* The text, coloured if it is a state. */
static void put(const char *text, bool paint)
{
    if (paint) {
        printf("\033[%sm%s\033[0m", colour(text), text);
    } else {
        printf("%s", text);
    }
}

static void table(const json_t *list, bool colours)
{
    static const char *const KEYS[] = {"rank", "number", "worker", "node",   "slot",   "slots",
                                       "role", "state",  "step",   "memory", "address"};
    static const struct table_column COLUMNS[ARRAY_LEN(KEYS)] = {
        {.title = "RANK", .right = true},
        {.title = "NUMBER", .right = true},
        {.title = "WORKER"},
        {.title = "NODE"},
        {.title = "SLOT", .right = true},
        {.title = "SLOTS", .right = true},
        {.title = "ROLE"},
        {.title = "STATE", .colour = colour},
        {.title = "STEP", .right = true},
        {.title = "IN MEMORY"},
        {.title = "ADDRESS"},
    };
    struct table t = {
        .columns = COLUMNS, .columns_n = ARRAY_LEN(COLUMNS), .indent = 2, .colours = colours};
    char text[CELL_MAX];
    json_t *worker;
    size_t i;

    json_array_foreach(list, i, worker)
    {
        for (size_t k = 0; k < ARRAY_LEN(KEYS); k++) {
            cell(worker, KEYS[k], text, sizeof(text));
            /* Before the first step there is nothing to say. */
            table_cell(&t, "%s",
                       strcmp(KEYS[k], "step") == 0 && strcmp(text, "0") == 0 ? "" : text);
        }
    }
    if (table_end(&t, stdout) != MU_OK) {
        fprintf(stderr, "muster status: out of memory\n");
    }
}

static void head(const json_t *job, bool colours)
{
    size_t members_n = json_array_size(json_object_get(job, "members"));
    size_t helpers_n = json_array_size(json_object_get(job, "helpers"));
    size_t waiting_n = json_array_size(json_object_get(job, "waiting"));

    printf("job %s  run %lld  ", text_of(job, "job"), number_of(job, "run"));
    put(text_of(job, "state"), colours);
    printf("  generation %lld", number_of(job, "generation"));
    if (number_of(job, "active") == 0 && number_of(job, "generation") != 0) {
        printf(" (not active yet)");
    } else if (number_of(job, "active") != number_of(job, "generation")) {
        printf(" (active: %lld)", number_of(job, "active"));
    }
    if (number_of(job, "step") != 0) {
        printf("  step %lld", number_of(job, "step"));
    }
    printf("  %zu member%s", members_n, members_n == 1 ? "" : "s");
    if (helpers_n > 0) {
        printf(", %zu helper%s", helpers_n, helpers_n == 1 ? "" : "s");
    }
    if (waiting_n > 0) {
        printf(", %zu waiting", waiting_n);
    }
    printf("  (%lld to %lld nodes, mode %s)\n", number_of(job, "min"), number_of(job, "max"),
           text_of(job, "mode"));
    if (text_of(job, "why")[0] != '\0') {
        printf("  %s\n", text_of(job, "why"));
    }
}

/* "step 1200: loss 0.4321, accuracy 0.8765", as events have it. */
static void print_metrics(const json_t *metrics)
{
    const char *comma = "", *key;
    json_t *value;

    printf("  step %lld:", number_of(metrics, "step"));
    json_object_foreach((json_t *)(uintptr_t)metrics, key, value)
    {
        if (json_is_real(value)) {
            printf("%s %s %.5g", comma, key, json_real_value(value));
        } else if (json_is_null(value)) { /* NaN, or infinite */
            printf("%s %s not a number", comma, key);
        } else {
            continue;
        }
        comma = ",";
    }
    putchar('\n');
}

void status_print(const json_t *job, bool colours)
{
    const json_t *members = json_object_get(job, "members");
    const json_t *helpers = json_object_get(job, "helpers");
    const json_t *waiting = json_object_get(job, "waiting");

    head(job, colours);
    if (json_object_get(job, "metrics") != NULL) {
        print_metrics(json_object_get(job, "metrics"));
    }
    if (json_array_size(members) > 0) {
        table(members, colours);
    }
    if (json_array_size(helpers) > 0) {
        printf("  helpers:\n");
        table(helpers, colours);
    }
    if (json_array_size(waiting) > 0) {
        printf("  waiting:\n");
        table(waiting, colours);
    }
}

json_t *status_jobs(json_t *answer)
{
    json_t *jobs = json_array();
    json_t *all = json_is_array(answer) ? answer : json_object_get(answer, "jobs");
    json_t *job;
    size_t i;

    if (all == NULL && json_object_get(answer, "job") != NULL) {
        json_array_append(jobs, answer);
    }
    json_array_foreach(all, i, job)
    {
        json_array_append(jobs, job);
    }
    return jobs;
}

/* "name: value" for whatever an object holds, below a heading if it has one. */
static void print_fields(const json_t *object, const char *heading)
{
    char text[512];
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (json_is_object(value)) {
            print_fields(value, key);
            continue;
        }
        if (json_is_boolean(value)) {
            snprintf(text, sizeof(text), "%s", json_is_true(value) ? "yes" : "no");
        } else {
            cell(object, key, text, sizeof(text));
        }
        if (text[0] != '\0') {
            printf("%s%s%s: %s\n", heading, heading[0] != '\0' ? " " : "", key, text);
        }
    }
}

void status_print_self(const json_t *self)
{
    print_fields(self, "");
}
